"""Privacy: budgets, ledgers, mechanisms. No torch and no pandas here.

A `PrivacyAccountant` makes reservations, and every release of a mechanism draws one
down. `statistics` has the mechanisms that count, add up and vote, each with its
sensitivity proved beside it; a step of DP-SGD is `release_float_gaussian`. `Parts` are
private rows that need not be in memory together; `testing` is for tests.

Importing this package loads neither dp-accounting nor OpenDP; the first release and
the first certificate do.
"""

from skdpsynth.privacy._accountant import PrivacyAccountant, Reservation
from skdpsynth.privacy._budget import PrivacyBudget, cost_of_failure
from skdpsynth.privacy._calibration import (
    epsilon_for,
    gdp_epsilon,
    grid_noise_std,
    sampled_noise_multiplier,
    steps_mu,
    vote_noise_std,
)
from skdpsynth.privacy._mechanisms import release_float_gaussian, telling
from skdpsynth.privacy._parts import (
    GRID,
    Counted,
    HoldsPrivateRows,
    LocalParts,
    Parts,
    Step,
    changed_parts,
    count_part,
)
from skdpsynth.privacy._random import of_rows, secret_generator
from skdpsynth.privacy._report import (
    UNLABELLED,
    PrivacyReport,
    claim,
    scope_words,
    unit_name,
    unit_words,
)

__all__ = [
    "GRID",
    "UNLABELLED",
    "Counted",
    "HoldsPrivateRows",
    "LocalParts",
    "Parts",
    "PrivacyAccountant",
    "PrivacyBudget",
    "PrivacyReport",
    "Reservation",
    "Step",
    "changed_parts",
    "claim",
    "cost_of_failure",
    "count_part",
    "epsilon_for",
    "gdp_epsilon",
    "grid_noise_std",
    "of_rows",
    "release_float_gaussian",
    "sampled_noise_multiplier",
    "scope_words",
    "secret_generator",
    "steps_mu",
    "telling",
    "unit_name",
    "unit_words",
    "vote_noise_std",
]
