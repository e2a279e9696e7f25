"""Scores of synthetic tables against real ones: functions of DataFrames.

`_encode` checks two tables and turns them into matrices, `_panel` has the classifiers
and regressors, `_tstr` trains them on one table and tests them on another, `_fidelity`
compares distributions, `_relations` finds rows that no distribution allows, `_ranking`
orders; `_linked` compares tables that hang on one another. What is imported here beside
the public metrics is for comparisons in `evaluation`.
"""

from skdpsynth.metrics._encode import (
    Cells as Cells,
    check_tables as check_tables,
    equal_rows as equal_rows,
    finite_numbers as finite_numbers,
    is_measurement as is_measurement,
    shuffled as shuffled,
    split_rows as split_rows,
    without_identifiers as without_identifiers,
)
from skdpsynth.metrics._fidelity import (
    LEAST_ROWS as LEAST_ROWS,
    MOST_ROWS as MOST_ROWS,
    column_fidelity,
    least_area as least_area,
    marginal_fidelity,
    pair_fidelity as pair_fidelity,  # until 0.5
    two_sample_scores,
)
from skdpsynth.metrics._linked import (
    LinkedFidelity,
    linked_fidelity,
    unit_features,
)
from skdpsynth.metrics._panel import (
    CLASSIFIERS as CLASSIFIERS,
    REGRESSORS as REGRESSORS,
    Classifiers as Classifiers,
    averaged as averaged,
    default_classifiers,
    named_by_class as named_by_class,
    resolve_classifiers as resolve_classifiers,
)
from skdpsynth.metrics._ranking import (
    feature_ranking_agreement,
    synthetic_ranking_agreement,
)
from skdpsynth.metrics._relations import broken_relations
from skdpsynth.metrics._tstr import (
    positive_label as positive_label,
    setting_scores as setting_scores,  # until 0.5
    synthetic_only_scores as synthetic_only_scores,
    tstr_scores,
)

__all__ = [
    "LinkedFidelity",
    "broken_relations",
    "column_fidelity",
    "default_classifiers",
    "feature_ranking_agreement",
    "linked_fidelity",
    "marginal_fidelity",
    "synthetic_ranking_agreement",
    "tstr_scores",
    "two_sample_scores",
    "unit_features",
]
