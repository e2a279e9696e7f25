"""Pairs of columns that depend on each other, cut into few cells for a plot."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.evaluation._marginals import MISSING, OTHER
from skdpsynth.metrics._cells import LevelCells, NumberCells
from skdpsynth.metrics._fidelity import cramers_v

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skdpsynth.evaluation._marginals import PlainColumn

_N_PAIRS = 4
_N_CELLS = 8
_MAX_COLUMNS = 40  # beside the target: 820 pairs


@dataclass(frozen=True)
class Side:
    """One of the two columns of a pair; kinds are those of `PlainColumn`."""

    name: str
    kind: str
    cells: NumberCells | LevelCells

    @classmethod
    def of(cls, column: PlainColumn) -> Side:
        """Let the values of a column choose its cells."""
        cells = LevelCells if column.kind == "category" else NumberCells
        return cls(column.name, column.kind, cells.of(_values(column), _N_CELLS))

    def codes(self, column: PlainColumn) -> NDArray[np.int16]:
        """Say in which cell each value of a column of the same kind is."""
        return self.cells.codes(_values(column))

    def labels(self) -> list[str]:
        """Name the cells: a number is where its cell begins."""
        if isinstance(self.cells, LevelCells):
            return [*map(str, self.cells.levels), OTHER, MISSING]
        edges = [self._written(edge) for edge in self.cells.edges]
        return [f"<{edges[0]}" if edges else "all", *edges, MISSING]

    def _written(self, edge: float) -> str:
        """Write a number or a date shortly."""
        if self.kind == "time":
            return f"{pd.Timestamp(0) + pd.Timedelta(edge, unit='D'):%Y-%m-%d}"
        return f"{edge:.0f}" if 1e3 <= abs(edge) < 1e7 else f"{edge:.3g}"


@dataclass(frozen=True)
class Pair:
    """Two columns, and the joint shares of the rows that chose the cells."""

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

    The target is looked at wherever it stands, and the first 40 other columns.
    """
    others = [column for column in columns if column.name != target]
    labels = [column for column in columns if column.name == target]
    looked_at = others[:_MAX_COLUMNS] + labels
    sides = [Side.of(column) for column in looked_at]
    coded = [side.codes(c) for side, c in zip(sides, looked_at, strict=True)]
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
