"""One published algorithm per file, and the reference points beside them."""

from __future__ import annotations

from skdpsynth.synthesizers._gpate import GPATESynthesizer
from skdpsynth.synthesizers._independent import IndependentSynthesizer

__all__ = ["GPATESynthesizer", "IndependentSynthesizer"]
