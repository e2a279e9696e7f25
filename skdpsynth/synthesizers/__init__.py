"""One published algorithm per file, and the reference points beside them."""

from __future__ import annotations

from skdpsynth.synthesizers._dpcgan import DPCGANSynthesizer
from skdpsynth.synthesizers._dpgan import DPGANSynthesizer
from skdpsynth.synthesizers._gan import GANSynthesizer
from skdpsynth.synthesizers._gpate import GPATESynthesizer
from skdpsynth.synthesizers._independent import IndependentSynthesizer
from skdpsynth.synthesizers._marginal import MarginalSynthesizer
from skdpsynth.synthesizers._pate_triplegan import PATETripleGANSynthesizer
from skdpsynth.synthesizers._pategan import PATEGANSynthesizer

__all__ = [
    "DPCGANSynthesizer",
    "DPGANSynthesizer",
    "GANSynthesizer",
    "GPATESynthesizer",
    "IndependentSynthesizer",
    "MarginalSynthesizer",
    "PATEGANSynthesizer",
    "PATETripleGANSynthesizer",
]
