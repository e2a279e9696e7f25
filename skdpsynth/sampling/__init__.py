"""Synthetic rows of a fitted synthesizer: post-processing, no private row is here."""

from skdpsynth.sampling._sampler import Sampler
from skdpsynth.sampling._where import DrawRanks, drawn_within

__all__ = ["DrawRanks", "Sampler", "drawn_within"]
