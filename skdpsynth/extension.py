"""What a synthesizer of your own is made of. The guide has one in full.

A synthesizer is a subclass of `BaseSynthesizer` with three methods. ``_plan_classes``
says what a budget allows, from public numbers; ``_fit`` releases what it needs through
the ledger and returns the marginals; ``_ranks`` draws where synthetic rows stand in
them. Checks, plans, reports, sampling and files come with the base. These names may
change between minor versions, which the changelog says.
"""

from skdpsynth.base import BaseSynthesizer
from skdpsynth.measure import (
    Allocation,
    Measurement,
    Measurements,
    Spend,
    TableBins,
    TableModel,
    Training,
    allocate_measurements,
    choose_bins,
    measure,
)
from skdpsynth.privacy import (
    PrivacyAccountant,
    gaussian_sum,
    noisy_histogram,
    noisy_pair_distances,
    noisy_pair_tables,
    noisy_votes,
    secret_generator,
)
from skdpsynth.table import Metadata, PrivateRows

__all__ = [
    "Allocation",
    "BaseSynthesizer",
    "Measurement",
    "Measurements",
    "Metadata",
    "PrivacyAccountant",
    "PrivateRows",
    "Spend",
    "TableBins",
    "TableModel",
    "Training",
    "allocate_measurements",
    "choose_bins",
    "gaussian_sum",
    "measure",
    "noisy_histogram",
    "noisy_pair_distances",
    "noisy_pair_tables",
    "noisy_votes",
    "secret_generator",
]
