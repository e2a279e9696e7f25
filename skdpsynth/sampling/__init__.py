"""Synthetic rows of a fitted synthesizer: post-processing, no private row is here."""

from skdpsynth.sampling._sampler import Sampler, class_counts
from skdpsynth.sampling._where import DrawRanks, drawn_within
from skdpsynth.utils.sklearn_compat import public_seed

__all__ = [
    "DrawRanks",
    "Sampler",
    "class_counts",
    "drawn_within",
    "public_seed",
]
