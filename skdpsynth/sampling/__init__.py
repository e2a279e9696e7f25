"""Synthetic rows of a fitted synthesizer: post-processing, no private row is here."""

from skdpsynth.sampling._sampler import (
    Sampler as Sampler,
    frame_of as frame_of,
    unread_values as unread_values,
)
from skdpsynth.sampling._where import (
    DrawRanks as DrawRanks,
    drawn_within as drawn_within,
)
