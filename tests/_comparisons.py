"""What tests of comparisons share: a schema, and rows of a table of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skdpsynth.schema import Categorical, TableSchema

if TYPE_CHECKING:
    import pandas as pd

# With so few rows a label that nobody declares is not found.
SCHEMA = TableSchema({"label": Categorical(["no", "yes"])}, target="label")


def chosen(scores: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Give the rows that have these values."""
    for name, value in values.items():
        scores = scores[scores[name].isin([value])]  # NaN is in a list with NaN
    return scores
