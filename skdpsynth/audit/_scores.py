"""What an attacker who knows the table and the canary looks at in synthetic rows."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from skdpsynth.schema import as_moments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# Half the width of a cell around the canary, as a share of a number column's range.
_CELLS = {"narrow": 0.05, "wide": 0.25}
_WIDTH = 0.1  # of the kernel of the density, in the same unit
_FLOOR = 1e-3  # share below which a logarithm is cut


def canary_row(
    table: pd.DataFrame, canary: Mapping[str, object] | pd.DataFrame
) -> pd.DataFrame:
    """Make a row of the table's columns and dtypes: a world must not show by these."""
    if isinstance(canary, pd.DataFrame):
        row = canary
    else:
        row = pd.DataFrame({name: [value] for name, value in canary.items()})
    if len(row) != 1 or set(row) != set(table):
        raise ValueError(
            "Expected a canary of one row with the columns of the table. Got "
            f"{len(row)} rows and the columns {list(row)} instead of {list(table)}."
        )
    columns = {}
    for name in table:
        dtype, value = table[name].dtype, row[name].iloc[0]
        levels = getattr(dtype, "categories", [value])
        typed = None
        with suppress(TypeError, ValueError, OverflowError):  # they say the value
            if value in levels or pd.isna(value):  # astype would make it a missing one
                typed = row[name].astype(dtype)
        if typed is None:
            raise ValueError(
                f"The canary's value for {name!r} must be one that {dtype} can hold. "
                "It is not; change the canary, or the dtype of the table."
            )
        columns[name] = typed.reset_index(drop=True)  # a Series keeps its dtype
    return pd.DataFrame(columns)


class CanaryScores:
    """Numbers in which a synthetic table could show the canary.

    A row differs from the canary in a number column by a share of the column's range,
    and in any other column by 0 or 1. Distances are means over columns. A cell holds
    the rows that differ by at most its width in every column. The density is that of a
    Gaussian kernel at the canary, and the marginal density a product over columns.
    """

    def __init__(self, table: pd.DataFrame, canary: pd.DataFrame) -> None:
        both = pd.concat([table, canary], ignore_index=True)
        self._columns = list(table)
        self._canary = canary
        self._scales = {
            name: _range_of(both[name]) for name in table if _is_number(table[name])
        }
        general = ["smallest distance", "mean distance", "distance of the nearest 5%"]
        general += [f"count in the {cell} cell" for cell in _CELLS]
        general += ["density", "marginal density"]
        own = ("count near", "smallest difference", "mean difference", "spread")
        self.names = general + [
            f"{kind}: {name}"
            for name in self._columns
            for kind in own
            if name in self._scales or kind == own[0]
        ]

    def __call__(self, sample: pd.DataFrame) -> NDArray[np.float64]:
        """Give finite numbers of shape (n_scores,), in the order of `names`."""
        signed = {name: self._difference(sample[name]) for name in self._columns}
        apart = np.abs(np.column_stack(list(signed.values())))
        distances = np.minimum(apart, 1.0).mean(axis=1)
        scores = [
            distances.min(),
            distances.mean(),
            np.quantile(distances, 0.05),
            *((apart <= width).all(axis=1).mean() for width in _CELLS.values()),
            np.exp(-((apart / _WIDTH) ** 2).sum(axis=1) / 2).mean(),
            np.log(np.maximum((apart <= _WIDTH).mean(axis=0), _FLOOR)).sum(),
        ]
        for name, difference in signed.items():
            scores.append((np.abs(difference) <= _WIDTH).mean())
            if name in self._scales:
                gap = np.abs(difference).min()
                scores += [gap, difference.mean(), difference.std()]
        return np.nan_to_num(np.array(scores, dtype=np.float64))

    def _difference(self, column: pd.Series) -> NDArray[np.float64]:
        """Give how far each value is from the canary's."""
        own = self._canary[column.name].iloc[0]
        missing = column.isna().to_numpy()
        if pd.isna(own):
            return np.where(missing, 0.0, 1.0)
        if column.name not in self._scales:
            same = (column.astype(object) == own).fillna(value=False)
            return np.where(same.to_numpy(dtype=bool), 0.0, 1.0)
        scale = self._scales[column.name]
        values = (_as_floats(column) - _as_floats(pd.Series([own]))[0]) / scale
        return np.where(missing, 1.0, np.clip(np.nan_to_num(values), -1e6, 1e6))


def _is_number(column: pd.Series) -> bool:
    types = pd.api.types
    if types.is_bool_dtype(column):
        return False
    return types.is_numeric_dtype(column) or types.is_datetime64_any_dtype(column)


def _as_floats(column: pd.Series) -> NDArray[np.float64]:
    """Convert numbers and times; missing values become NaN."""
    column = as_moments(column)
    if pd.api.types.is_datetime64_any_dtype(column):
        seconds = column.dt.tz_localize(None) if column.dt.tz else column
        return (seconds - pd.Timestamp(0)).dt.total_seconds().to_numpy(np.float64)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _range_of(column: pd.Series) -> float:
    """Give the width of a column's finite values; 1 where there is none."""
    values = _as_floats(column)
    values = values[np.isfinite(values)]
    width = float(np.ptp(values)) if len(values) else 0.0
    return width if 0 < width < np.inf else 1.0
