"""Columns in plain values, and their 1-way and 2-way marginals for plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdpsynth.metrics import CategoryCells, NumberCells, cramers_v
from skdpsynth.schema import as_moments
from skdpsynth.utils import FEW_NUMBERS, MOST_SHOWN

MOST_DRAWN = FEW_NUMBERS  # columns, or bins of one, so that a picture can be read
_N_PAIRS = 4  # rows of one figure
_DAY = pd.Timedelta("1D")
OTHER, MISSING = "(other)", "(missing)"


@dataclass(frozen=True)
class PlainColumn:
    """Values of a column; times are days since 1970, and None is a missing value."""

    name: str
    kind: str
    items: list[Any]

    def values(self) -> Any:  # noqa: ANN401 - what its kind of cells takes
        """Return the values as an array of numbers (NaN: missing), or as a Series."""
        if self.kind == "category":
            return pd.Series(self.items, dtype=object)
        return np.array(self.items, dtype=float)


def plain_columns(table: pd.DataFrame) -> list[PlainColumn]:
    """Reduce a table to what a plot needs."""
    return [_plain(str(name), table[name]) for name in table.columns]


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


@dataclass(frozen=True)
class Side:
    """The cells of one column; `ends` are where those of numbers begin and end."""

    name: str
    kind: str
    cells: NumberCells | CategoryCells
    ends: tuple[float, ...] = ()

    @classmethod
    def of_pair(cls, column: PlainColumn) -> Side:
        """Let the values choose 12 cells at most: quantiles, or frequent categories."""
        cells = CategoryCells if column.kind == "category" else NumberCells
        return cls(column.name, column.kind, cells.of(column.values(), MOST_SHOWN))

    @classmethod
    def alone(cls, column: PlainColumn) -> Side:
        """Let the values choose the cells of a column that is plotted alone.

        32 bins of equal width at most, whole numbers in their own where they fit; the
        outer ones take what lies beyond the middle 99 %. 12 categories at most.
        """
        values = column.values()
        if column.kind == "category":
            cells = CategoryCells.of(values, MOST_SHOWN)
            return cls(column.name, column.kind, cells)
        edges = _edges(values[~np.isnan(values)])
        ends = float(edges[0]), float(edges[-1])
        return cls(column.name, column.kind, NumberCells(edges[1:-1]), ends)

    def codes(self, column: PlainColumn) -> NDArray[np.int16]:
        """Return in which cell each value of a column of the same kind is."""
        return self.cells.codes(column.values())

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


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Choose the bins of numbers, none of which is missing."""
    if not values.size:
        return np.array([0.0, 1.0])
    low, high = np.quantile(values, [0.005, 0.995])
    if (values == np.round(values)).all():
        low, high = np.floor(low), np.ceil(high)
        width = max(1.0, np.ceil((high - low + 1) / MOST_DRAWN))
        return np.arange(low - 0.5, high + width, width)
    if low == high:
        return np.array([low - 0.5, high + 0.5])
    return np.linspace(low, high, MOST_DRAWN + 1)


@dataclass(frozen=True)
class Marginal:
    """One column or two, and the shares of the rows that chose their cells.

    `shares` has one axis for each column, whose last place is that of missing values.
    """

    sides: tuple[Side, ...]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, column: PlainColumn) -> Marginal:
        """Choose cells for a column, and count."""
        side = Side.alone(column)
        return cls((side,), _shares([side], [side.codes(column)]))

    def shares_of(self, table: Sequence[PlainColumn]) -> NDArray[np.float64] | None:
        """Compute the shares of another table; None if a column is of another kind."""
        named = {column.name: column for column in table}
        pairs = [(side, named[side.name]) for side in self.sides]
        if any(side.kind != column.kind for side, column in pairs):
            return None
        return _shares(self.sides, [side.codes(column) for side, column in pairs])


def strongest_pairs(
    columns: Sequence[PlainColumn], target: str | None
) -> list[Marginal]:
    """Find the pairs of columns with the largest Cramer's V, and of the target."""
    others = [column for column in columns if column.name != target]
    labels = [column for column in columns if column.name == target]
    sides = [(Side.of_pair(c), c) for c in others[:MOST_DRAWN] + labels]
    coded = [(side, side.codes(column)) for side, column in sides]
    found = []
    for (first, own), (second, other) in combinations(coded, 2):
        shares = _shares([first, second], [own, other])
        counts = np.rint(shares * len(own)).astype(np.intp)
        used = counts[counts.any(axis=1)][:, counts.any(axis=0)]
        found.append((cramers_v(used), Marginal((first, second), shares)))
    found.sort(key=lambda entry: -entry[0])
    return [pair for _, pair in found[:_N_PAIRS]]


def _shares(
    sides: Sequence[Side], codes: Sequence[NDArray[np.int16]]
) -> NDArray[np.float64]:
    """Compute the shares of rows in the cells of columns."""
    shape = tuple(side.cells.n_cells for side in sides)
    places = np.ravel_multi_index(tuple(codes), shape)
    counts = np.bincount(places, minlength=int(np.prod(shape)))
    return counts.reshape(shape) / max(len(places), 1)
