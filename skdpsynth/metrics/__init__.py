"""Scores of synthetic tables against real ones: functions of DataFrames."""

from __future__ import annotations

from skdpsynth.metrics._classifiers import default_classifiers
from skdpsynth.metrics._ranking import (
    feature_ranking_agreement,
    synthetic_ranking_agreement,
)
from skdpsynth.metrics._tstr import setting_scores, tstr_scores

__all__ = [
    "default_classifiers",
    "feature_ranking_agreement",
    "setting_scores",
    "synthetic_ranking_agreement",
    "tstr_scores",
]
