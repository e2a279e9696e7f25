"""Scores of synthetic tables against real ones: functions of DataFrames."""

from skdpsynth.metrics._classifiers import default_classifiers
from skdpsynth.metrics._dependence import marginal_fidelity
from skdpsynth.metrics._fidelity import (
    column_fidelity,
    pair_fidelity,
    two_sample_scores,
)
from skdpsynth.metrics._ranking import (
    feature_ranking_agreement,
    synthetic_ranking_agreement,
)
from skdpsynth.metrics._tstr import setting_scores, tstr_scores

__all__ = [
    "column_fidelity",
    "default_classifiers",
    "feature_ranking_agreement",
    "marginal_fidelity",
    "pair_fidelity",
    "setting_scores",
    "synthetic_ranking_agreement",
    "tstr_scores",
    "two_sample_scores",
]
