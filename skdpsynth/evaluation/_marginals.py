"""Columns, and pairs of them, in a form that can be plotted and written."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.metrics import CategoryCells, NumberCells, cramers_v
from skdpsynth.schema import as_moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MAX_CATEGORIES = 12
_MAX_BINS = 30
_N_PAIRS = 4
_N_CELLS = 8  # of a column of a pair
_MAX_COLUMNS = 40  # beside the target: 820 pairs
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
        categories = list(known.value_counts().index)
        bins = [*categories[:_MAX_CATEGORIES], OTHER, MISSING]
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
    return [texts.count(category) / n_rows for category in bins.bins]


def _plain(name: str, column: pd.Series) -> PlainColumn:
    types, column = pd.api.types, as_moments(column)
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


@dataclass(frozen=True)
class Side:
    """One of the two columns of a pair; kinds are those of `PlainColumn`."""

    name: str
    kind: str
    cells: NumberCells | CategoryCells

    @classmethod
    def of(cls, column: PlainColumn) -> Side:
        """Let the values of a column choose its cells."""
        cells = CategoryCells if column.kind == "category" else NumberCells
        return cls(column.name, column.kind, cells.of(_values(column), _N_CELLS))

    def codes(self, column: PlainColumn) -> NDArray[np.int16]:
        """Say in which cell each value of a column of the same kind is."""
        return self.cells.codes(_values(column))

    def labels(self) -> list[str]:
        """Name the cells: a number is where its cell begins."""
        if isinstance(self.cells, CategoryCells):
            return [*map(str, self.cells.categories), OTHER, MISSING]
        edges = [self._written(edge) for edge in self.cells.edges]
        return [f"<{edges[0]}" if edges else "all", *edges, MISSING]

    def _written(self, edge: float) -> str:
        """Write a number or a date shortly."""
        if self.kind == "time":
            return f"{pd.Timestamp(0) + pd.Timedelta(edge, unit='D'):%Y-%m-%d}"
        return f"{edge:.0f}" if 1e3 <= abs(edge) < 1e7 else f"{edge:.3g}"


@dataclass(frozen=True)
class Pair:
    """Two columns, and the 2-way marginal of the rows that chose the cells."""

    first: Side
    second: Side
    shares: NDArray[np.float64]

    def shares_of(self, columns: Sequence[PlainColumn]) -> NDArray[np.float64] | None:
        """Compute the shares of another table; None if a column is of another kind."""
        named = {column.name: column for column in columns}
        own = [named[side.name] for side in (self.first, self.second)]
        if [column.kind for column in own] != [self.first.kind, self.second.kind]:
            return None
        first, second = self.first.codes(own[0]), self.second.codes(own[1])
        counts = _counts(first, second, self.shares.shape)
        return counts / max(counts.sum(), 1)


def strongest_pairs(columns: Sequence[PlainColumn], target: str | None) -> list[Pair]:
    """Find four pairs of columns (or fewer) with the largest Cramer's V of their cells.

    Of the target, wherever it stands, and the first 40 other columns.
    """
    others = [column for column in columns if column.name != target]
    labels = [column for column in columns if column.name == target]
    candidates = others[:_MAX_COLUMNS] + labels
    sides = [Side.of(column) for column in candidates]
    coded = [side.codes(c) for side, c in zip(sides, candidates, strict=True)]
    found = []
    for i, j in combinations(range(len(sides)), 2):
        shape = sides[i].cells.n_cells, sides[j].cells.n_cells
        counts = _counts(coded[i], coded[j], shape)
        used = counts[counts.any(axis=1)][:, counts.any(axis=0)]
        found.append((cramers_v(used), i, j, counts))
    found.sort(key=lambda entry: -entry[0])
    return [
        Pair(sides[i], sides[j], counts / counts.sum())
        for _, i, j, counts in found[:_N_PAIRS]
    ]


def _values(column: PlainColumn) -> Any:  # noqa: ANN401 - what its kind of cells takes
    if column.kind == "category":
        return pd.Series(column.items, dtype=object)
    return np.array(column.items, dtype=float)


def _counts(
    first: NDArray[np.int16], second: NDArray[np.int16], shape: tuple[int, ...]
) -> NDArray[np.intp]:
    """Count rows by the cells of two columns."""
    joint = np.bincount(first * shape[1] + second, minlength=shape[0] * shape[1])
    return joint.reshape(shape)
