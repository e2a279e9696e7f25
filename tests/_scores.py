"""Rows of a table of scores, by what stands in their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def chosen(scores: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Give the rows that have these values."""
    for name, value in values.items():
        scores = scores[scores[name].isin([value])]  # NaN is in a list with NaN
    return scores
