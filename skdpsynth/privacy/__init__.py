"""Privacy: budgets, ledgers, mechanisms. No torch and no pandas here.

A `PrivacyAccountant` makes reservations, and every release of a mechanism draws one
down. Mechanisms, each with its sensitivity proved beside it: counts of one column
(`noisy_counts`, `centred_histogram`, `thresholded_counts`), tables of two and three
columns and second moments (`noisy_pair_tables`, `noisy_triple_tables`,
`noisy_second_moments`), sums of clipped vectors (`gaussian_sum`), votes (`noisy_votes`,
`gnmax`) and steps of DP-SGD (`release_float_gaussian`). `Parts` are private
rows that need not be in memory together; `testing` is for tests.

Importing this package loads neither dp-accounting nor OpenDP; the first release and
the first certificate do.
"""

from skdpsynth.privacy._accountant import PrivacyAccountant, Reservation
from skdpsynth.privacy._aggregators import (
    LENGTH,
    MIN_KEY_COUNT,
    MOMENTS_SENSITIVITY,
    CentredCounts,
    centred_histogram,
    centred_sensitivity,
    gaussian_sum,
    gnmax,
    key_threshold,
    measured_cells,
    noisy_counts,
    noisy_histogram,
    noisy_pair_distances,
    noisy_pair_tables,
    noisy_second_moments,
    noisy_triple_tables,
    noisy_unit_counts,
    noisy_votes,
    thresholded_counts,
)
from skdpsynth.privacy._budget import PrivacyBudget, cost_of_failure
from skdpsynth.privacy._calibration import (
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
    clamped_counts,
    count_part,
    of_both,
)
from skdpsynth.privacy._random import of_rows, secret_generator
from skdpsynth.privacy._report import (
    UNLABELLED,
    Kind,
    PrivacyReport,
    claim,
    scope_words,
    unit_name,
    unit_words,
)

__all__ = [
    "GRID",
    "LENGTH",
    "MIN_KEY_COUNT",
    "MOMENTS_SENSITIVITY",
    "UNLABELLED",
    "CentredCounts",
    "Counted",
    "HoldsPrivateRows",
    "Kind",
    "LocalParts",
    "Parts",
    "PrivacyAccountant",
    "PrivacyBudget",
    "PrivacyReport",
    "Reservation",
    "Step",
    "centred_histogram",
    "centred_sensitivity",
    "changed_parts",
    "claim",
    "clamped_counts",
    "cost_of_failure",
    "count_part",
    "gaussian_sum",
    "gdp_epsilon",
    "gnmax",
    "grid_noise_std",
    "key_threshold",
    "measured_cells",
    "noisy_counts",
    "noisy_histogram",
    "noisy_pair_distances",
    "noisy_pair_tables",
    "noisy_second_moments",
    "noisy_triple_tables",
    "noisy_unit_counts",
    "noisy_votes",
    "of_both",
    "of_rows",
    "release_float_gaussian",
    "sampled_noise_multiplier",
    "scope_words",
    "secret_generator",
    "steps_mu",
    "telling",
    "thresholded_counts",
    "unit_name",
    "unit_words",
    "vote_noise_std",
]
