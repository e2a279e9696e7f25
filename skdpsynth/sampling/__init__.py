"""Synthetic rows of a fitted synthesizer: post-processing, no private row is here."""

from skdpsynth.sampling._sampler import Sampler, class_counts, public_seed
from skdpsynth.sampling._where import DrawRanks, drawn_within

__all__ = ["DrawRanks", "Sampler", "class_counts", "drawn_within", "public_seed"]
