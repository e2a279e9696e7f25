"""What a synthesizer of your own is made of. The guide has one in full.

A synthesizer is a subclass of `BaseSynthesizer` with three methods. ``_plan_classes``
says what a budget allows, from public numbers; ``_fit`` releases what it needs through
the ledger and returns the marginals; ``_ranks`` draws where synthetic rows stand in
them. Checks, plans, reports, sampling and files come with the base. These names may
change between minor versions, which the changelog says.
"""

from skdpsynth.base import BaseSynthesizer
from skdpsynth.preprocessing._bins import TableBins, choose_bins
from skdpsynth.preprocessing._columns import PrivateRows
from skdpsynth.preprocessing._measure import Measured, measure
from skdpsynth.preprocessing._measurements import Measurement, Measurements
from skdpsynth.preprocessing._model import TableModel
from skdpsynth.preprocessing._plan import ClassPlan, plan_start
from skdpsynth.preprocessing._purchase import TableFacts
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy._aggregators import gaussian_sum, noisy_histogram, noisy_votes
from skdpsynth.privacy._random import secret_generator
from skdpsynth.privacy._tables import noisy_pair_distances, noisy_pair_tables

__all__ = [
    "BaseSynthesizer",
    "ClassPlan",
    "Measured",
    "Measurement",
    "Measurements",
    "PrivacyAccountant",
    "PrivateRows",
    "TableBins",
    "TableFacts",
    "TableModel",
    "choose_bins",
    "gaussian_sum",
    "measure",
    "noisy_histogram",
    "noisy_pair_distances",
    "noisy_pair_tables",
    "noisy_votes",
    "plan_start",
    "secret_generator",
]
