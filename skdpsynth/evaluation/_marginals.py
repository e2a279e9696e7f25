"""Columns in a form that can be plotted and written: numbers and texts only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_LEVELS = 12
_MAX_BINS = 30
_DAY = pd.Timedelta(days=1)
OTHER, MISSING = "(other)", "(missing)"


@dataclass(frozen=True)
class PlainColumn:
    """Values of a column; times are days since 1970, and None is a missing value."""

    name: str
    kind: str
    items: list[Any]


@dataclass(frozen=True)
class Marginal:
    """Shares of a column's values in bins (one edge more than shares) or categories."""

    name: str
    kind: str
    bins: list[Any]
    shares: list[float]


def plain_columns(table: pd.DataFrame) -> list[PlainColumn]:
    """Reduce a table to what a plot needs."""
    return [_plain(str(name), table[name]) for name in table.columns]


def marginal(column: PlainColumn) -> Marginal:
    """Choose bins or categories for a column, and count.

    Numbers: 30 bins of equal width at most, whole numbers in a bin of their own where
    they fit; the outer bins take what lies beyond the middle 99 %. Categories: the 12
    most frequent, then the others and the missing ones.
    """
    if column.kind == "category":
        known = pd.Series([v for v in column.items if v is not None], dtype=object)
        levels = list(known.value_counts().index)
        bins = [*levels[:_MAX_LEVELS], OTHER, MISSING]
    else:
        bins = _edges(_numbers(column)).tolist()
    empty = Marginal(column.name, column.kind, bins, [])
    return Marginal(column.name, column.kind, bins, shares(column, empty))


def shares(column: PlainColumn, bins: Marginal) -> list[float]:
    """Give the shares of a column in given bins; without missing ones they sum to 1."""
    n_rows = max(len(column.items), 1)
    if bins.kind != "category":
        edges = np.asarray(bins.bins)
        known = np.clip(_numbers(column), edges[0], edges[-1])
        return [float(n) / n_rows for n in np.histogram(known, edges)[0]]
    named = set(bins.bins[:-2])
    texts = [MISSING if v is None else v if v in named else OTHER for v in column.items]
    return [texts.count(level) / n_rows for level in bins.bins]


def _plain(name: str, column: pd.Series) -> PlainColumn:
    types = pd.api.types
    if types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype):
        return PlainColumn(name, "number", _floats(column))
    if types.is_datetime64_any_dtype(column.dtype):
        epoch = pd.Timestamp(0, tz=None if column.dt.tz is None else "UTC")
        return PlainColumn(name, "time", _floats((column - epoch) / _DAY))
    if types.is_timedelta64_dtype(column.dtype):
        return PlainColumn(f"{name} (days)", "number", _floats(column / _DAY))
    texts = [None if pd.isna(v) else str(v) for v in column.astype(object)]
    return PlainColumn(name, "category", texts)


def _floats(column: pd.Series) -> list[float | None]:
    values = column.to_numpy(dtype="float64", na_value=np.nan)
    return [float(value) if np.isfinite(value) else None for value in values]


def _numbers(column: PlainColumn) -> NDArray[np.float64]:
    return np.array([v for v in column.items if v is not None], dtype=np.float64)


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Choose the bins of numbers."""
    if not values.size:
        return np.array([0.0, 1.0])
    low, high = np.quantile(values, [0.005, 0.995])
    whole = bool((values == np.round(values)).all())
    if whole:
        low, high = np.floor(low), np.ceil(high)
        width = max(1.0, np.ceil((high - low + 1) / _MAX_BINS))
        return np.arange(low - 0.5, high + width, width)
    if low == high:
        return np.array([low - 0.5, high + 0.5])
    return np.linspace(low, high, _MAX_BINS + 1)
