"""Privacy: budgets, ledgers, mechanisms. No torch and no pandas here.

A `PrivacyAccountant` makes reservations, and every release of a mechanism draws one
down. `statistics` has the mechanisms that count, add up and vote, each with its
sensitivity proved beside it; a step of DP-SGD is `release_float_gaussian`. `Parts` are
private rows that need not be in memory together; `testing` is for tests.

Importing this package loads neither dp-accounting nor OpenDP; the first release and
the first certificate do.
"""

from skdpsynth.privacy._accountant import PrivacyAccountant, Reservation
from skdpsynth.privacy._budget import PrivacyBudget, cost_of_failure as cost_of_failure
from skdpsynth.privacy._calibration import (
    epsilon_for,
    gdp_epsilon as gdp_epsilon,
    grid_noise_std as grid_noise_std,
    sampled_noise_multiplier as sampled_noise_multiplier,
    steps_mu as steps_mu,
    vote_noise_std as vote_noise_std,
)
from skdpsynth.privacy._mechanisms import (
    release_float_gaussian as release_float_gaussian,
    telling as telling,
)
from skdpsynth.privacy._parts import (
    GRID as GRID,
    Counted as Counted,
    HoldsPrivateRows as HoldsPrivateRows,
    LocalParts as LocalParts,
    Parts as Parts,
    Step as Step,
    changed_parts as changed_parts,
    count_part as count_part,
)
from skdpsynth.privacy._random import (
    of_rows as of_rows,
    secret_generator as secret_generator,
)
from skdpsynth.privacy._report import (
    UNLABELLED as UNLABELLED,
    PrivacyReport,
    claim as claim,
    read_plain as read_plain,
    scope_words as scope_words,
    to_plain as to_plain,
    unit_name as unit_name,
    unit_words as unit_words,
)

__all__ = [
    "PrivacyAccountant",
    "PrivacyBudget",
    "PrivacyReport",
    "Reservation",
    "epsilon_for",
]
