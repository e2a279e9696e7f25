"""Scores of synthetic tables against real ones: functions of DataFrames.

`_encode` checks two tables and turns them into matrices, `_panel` has the classifiers
and regressors, `_tstr` trains them on one table and tests them on another, `_fidelity`
compares distributions, `_relations` finds rows that no distribution allows, `_ranking`
orders. What is imported here beside the public metrics is for comparisons in
`evaluation`.
"""

from skdpsynth.metrics._encode import (
    Cells,
    check_tables,
    equal_rows,
    finite_numbers,
    is_measurement,
    shuffled,
    split_rows,
    without_identifiers,
)
from skdpsynth.metrics._fidelity import (
    LEAST_ROWS,
    MOST_ROWS,
    column_fidelity,
    least_area,
    marginal_fidelity,
    two_sample_scores,
)
from skdpsynth.metrics._fidelity import (
    pair_fidelity as pair_fidelity,  # until 0.5
)
from skdpsynth.metrics._panel import (
    CLASSIFIERS,
    REGRESSORS,
    Classifiers,
    averaged,
    default_classifiers,
    named_by_class,
    resolve_classifiers,
)
from skdpsynth.metrics._ranking import (
    feature_ranking_agreement,
    synthetic_ranking_agreement,
)
from skdpsynth.metrics._relations import broken_relations
from skdpsynth.metrics._tstr import setting_scores as setting_scores  # until 0.5
from skdpsynth.metrics._tstr import synthetic_only_scores, tstr_scores

__all__ = [
    "CLASSIFIERS",
    "LEAST_ROWS",
    "MOST_ROWS",
    "REGRESSORS",
    "Cells",
    "Classifiers",
    "averaged",
    "broken_relations",
    "check_tables",
    "column_fidelity",
    "default_classifiers",
    "equal_rows",
    "feature_ranking_agreement",
    "finite_numbers",
    "is_measurement",
    "least_area",
    "marginal_fidelity",
    "named_by_class",
    "resolve_classifiers",
    "shuffled",
    "split_rows",
    "synthetic_only_scores",
    "synthetic_ranking_agreement",
    "tstr_scores",
    "two_sample_scores",
    "without_identifiers",
]
