"""What a synthesizer of your own is made of. The guide has one in full.

A synthesizer is a subclass of `GeneratedSynthesizer` with two methods. ``_allocate``
says what a budget allows, from public numbers; ``_fit`` measures what it needs through
the ledger, and fits the generator to that. One with a generator of its own inherits
from `BaseSynthesizer`: ``_ranks`` draws where synthetic rows stand in the marginals.
Checks, plans, reports, sampling and files come with the base. These names may change
between minor versions, which the changelog says.
"""

from skdpsynth.base import BaseSynthesizer
from skdpsynth.measure import (
    Allocation,
    Ask,
    Measurement,
    Outline,
    Pairs,
    TableModel,
    allocate,
    choose_worst,
    measure,
)
from skdpsynth.synthesizers import GeneratedSynthesizer

__all__ = [
    "Allocation",
    "Ask",
    "BaseSynthesizer",
    "GeneratedSynthesizer",
    "Measurement",
    "Outline",
    "Pairs",
    "TableModel",
    "allocate",
    "choose_worst",
    "measure",
]
