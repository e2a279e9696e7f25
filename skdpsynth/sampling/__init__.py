"""Synthetic rows of a fitted synthesizer: post-processing, no private row is here."""

from skdpsynth.sampling._sampler import Sampler as Sampler
from skdpsynth.sampling._where import (
    DrawRanks as DrawRanks,
    drawn_within as drawn_within,
)
