"""From values to few cells, which the real rows choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

Numbers = NDArray[np.float64]
Codes = NDArray[np.int16]


@dataclass(frozen=True)
class NumberCells:
    """Cells of numbers: between quantiles, and one more for what is missing.

    A cell begins with each of the increasing edges; the first cell is below all of
    them.
    """

    edges: Numbers

    @classmethod
    def of(cls, values: Numbers, n_cells: int) -> NumberCells:
        """Choose at most `n_cells` by quantiles of values (NaN where missing).

        They are fewer where quantiles are equal. The smallest value is in the first
        cell, however frequent it is: zeros stay apart from what is above them.
        """
        known = values[~np.isnan(values)]
        if not known.size:
            return cls(np.empty(0))
        shares = np.arange(1, n_cells) / n_cells
        # Values that occur: with few distinct ones each has a cell where it can.
        edges = np.unique(np.quantile(known, shares, method="inverted_cdf"))
        lowest = known.min()
        if edges[0] == lowest:  # nothing is below it, so that the next value takes over
            edges[0] = known[known > lowest].min(initial=np.inf)
        return cls(np.unique(edges[np.isfinite(edges)]))

    @property
    def n_cells(self) -> int:
        """Number of cells, that of missing values included."""
        return len(self.edges) + 2

    def codes(self, values: Numbers) -> Codes:
        """Say in which cell each value is; the last one has the missing ones (NaN)."""
        codes = np.searchsorted(self.edges, values, side="right")
        codes[np.isnan(values)] = self.n_cells - 1
        return codes.astype(np.int16)


@dataclass(frozen=True)
class LevelCells:
    """Cells of categories: the most frequent, the others, and what is missing."""

    levels: Sequence[Hashable]

    @classmethod
    def of(cls, values: pd.Series, n_levels: int) -> LevelCells:
        """Keep the most frequent apart.

        Ties are broken by name: the order of the rows says nothing.
        """
        counts = values.astype(object).value_counts()
        ranked = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
        return cls([level for level, _ in ranked[:n_levels]])

    @property
    def n_cells(self) -> int:
        """Number of cells, those of other and of missing values included."""
        return len(self.levels) + 2

    def codes(self, values: pd.Series) -> Codes:
        """Say in which cell each value is.

        The last cell has the missing values, the one before all other levels.
        """
        values = values.astype(object)
        codes = pd.Index(self.levels, dtype=object).get_indexer(values)
        codes[codes == -1] = len(self.levels)
        codes[values.isna().to_numpy()] = self.n_cells - 1
        return np.asarray(codes, dtype=np.int16)
