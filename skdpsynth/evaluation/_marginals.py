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


@dataclass(frozen=True)
class PlainColumn:
    """Values of a column; times are days since 1970, and None or NaN is missing."""

    name: str
    kind: str
    items: list[Any]

    @classmethod
    def of(cls, name: str, column: pd.Series) -> PlainColumn:
        """Reduce a column of a table to what a plot needs."""
        types, column = pd.api.types, as_moments(column)
        kind = "number"
        if types.is_datetime64_any_dtype(column.dtype):
            kind, zone = "time", column.dt.tz
            column = (column - pd.Timestamp(0, tz=zone and "UTC")) / _DAY
        elif types.is_timedelta64_dtype(column.dtype):
            name, column = f"{name} (days)", column / _DAY
        elif not types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(
            column.dtype
        ):
            texts = [None if pd.isna(v) else str(v) for v in column.astype(object)]
            return cls(name, "category", texts)
        return cls(name, kind, column.to_numpy("float64", na_value=np.nan).tolist())

    def values(self) -> Any:  # noqa: ANN401 - what its kind of cells takes
        """Return the values as an array of numbers, or as a Series of categories."""
        if self.kind == "category":
            return pd.Series(self.items, dtype=object)
        return np.array(self.items, dtype=float)


def plain_columns(table: pd.DataFrame) -> list[PlainColumn]:
    """Reduce a table to what a plot needs."""
    return [PlainColumn.of(str(name), column) for name, column in table.items()]


@dataclass(frozen=True)
class Side:
    """The cells of one column; `ends` are where those of numbers begin and end."""

    name: str
    kind: str
    cells: NumberCells | CategoryCells
    ends: tuple[float, ...] = ()

    @classmethod
    def of(cls, column: PlainColumn, *, alone: bool = False) -> Side:
        """Let the values choose 12 cells at most: quantiles, or frequent categories.

        Numbers that are plotted `alone` have 32 bins of equal width at most, whole
        ones in their own where they fit; the outer bins take what lies beyond the
        middle 99 %.
        """
        values = column.values()
        if column.kind == "category":
            cells = CategoryCells.of(values, MOST_SHOWN)
            return cls(column.name, column.kind, cells)
        if not alone:
            return cls(column.name, column.kind, NumberCells.of(values, MOST_SHOWN))
        edges = _edges(values[~np.isnan(values)])
        ends = float(edges[0]), float(edges[-1])
        return cls(column.name, column.kind, NumberCells(edges[1:-1]), ends)

    def labels(self) -> list[str]:
        """Name the cells: a number is where its cell begins."""
        if isinstance(self.cells, CategoryCells):
            return [*map(str, self.cells.categories), "(other)", "(missing)"]
        edges = [self._written(edge) for edge in self.cells.edges]
        return [f"<{edges[0]}" if edges else "all", *edges, "(missing)"]

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
        """Choose cells for a column that is plotted alone, and count."""
        side = Side.of(column, alone=True)
        return cls((side,), _shares([side], [side.cells.codes(column.values())]))

    def shares_of(self, table: Sequence[PlainColumn]) -> NDArray[np.float64] | None:
        """Compute the shares of another table; None if a column is of another kind."""
        named = {column.name: column for column in table}
        columns = [named[side.name] for side in self.sides]
        if [side.kind for side in self.sides] != [column.kind for column in columns]:
            return None
        pairs = zip(self.sides, columns, strict=True)
        return _shares(self.sides, [s.cells.codes(c.values()) for s, c in pairs])


def strongest_pairs(columns: Sequence[PlainColumn], target: str) -> list[Marginal]:
    """Find the pairs of columns with the largest Cramer's V, and of the target."""
    others = [column for column in columns if column.name != target]
    labels = [column for column in columns if column.name == target]
    sides = [(Side.of(c), c.values()) for c in others[:MOST_DRAWN] + labels]
    coded = [(side, side.cells.codes(values)) for side, values in sides]
    pairs = []
    for (first, codes), (second, others_codes) in combinations(coded, 2):
        shares = _shares([first, second], [codes, others_codes])
        counts = np.rint(shares * len(codes)).astype(np.intp)
        used = counts[counts.any(axis=1)][:, counts.any(axis=0)]
        pairs.append((cramers_v(used), Marginal((first, second), shares)))
    pairs.sort(key=lambda pair: -pair[0])
    return [marginal for _, marginal in pairs[:_N_PAIRS]]


def _shares(
    sides: Sequence[Side], codes: Sequence[NDArray[np.int16]]
) -> NDArray[np.float64]:
    """Compute the shares of rows in the cells of columns."""
    shape = tuple(side.cells.n_cells for side in sides)
    places = np.ravel_multi_index(tuple(codes), shape)
    counts = np.bincount(places, minlength=int(np.prod(shape)))
    return counts.reshape(shape) / max(len(places), 1)
