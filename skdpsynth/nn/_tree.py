"""Rows that a tree of pairs draws: where the components of a fit begin.

The pairs that say most, as many as columns less one, make a tree (Chow, Liu 1968). Its
rows have the shapes that a gradient would be slow to find, a cross or a circle too.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_SHARE = 1e-9  # of a cell
_LEAST_INFORMATION = 1e-6  # nats: less is rounding


def draw_from_tree(
    shares: NDArray[np.float64],
    noisy: NDArray[np.floating],
    measured: NDArray[np.bool_],
    std: float,
    starts: NDArray[np.int64],
    n_rows: int,
    generator: torch.Generator,
) -> NDArray[np.int64]:
    """Draw bins of shape (n_rows, n_columns) from what was released of a class.

    `shares` (D,) are those of the bins in their columns; `noisy` (D, D), with noise
    `std`, those of pairs of bins above the diagonal, where they were `measured`.
    """
    columns = [slice(start, end) for start, end in pairwise(starts.tolist())]
    tables: dict[tuple[int, int], NDArray[np.float64]] = {}
    information = np.zeros((len(columns), len(columns)))
    for a, b in combinations(range(len(columns)), 2):
        place = columns[a], columns[b]
        if measured[place].any():
            apart = np.outer(shares[columns[a]], shares[columns[b]])
            table = _beyond_noise(noisy[place].astype(np.float64), apart, std)
            tables[a, b], tables[b, a] = table, table.T
            sides = np.outer(table.sum(axis=1), table.sum(axis=0))
            information[a, b] = (table * np.log(table / sides)).sum()
    information[information < _LEAST_INFORMATION] = 0.0
    tree = minimum_spanning_tree(-information)
    drawn = np.zeros((n_rows, len(columns)), dtype=np.int64)
    seen: set[int] = set()
    for root in range(len(columns)):
        if root in seen:
            continue
        order, parents = breadth_first_order(tree, root, directed=False)
        seen.update(order.tolist())
        for j in order:
            given = shares[None, columns[j]]
            if parents[j] >= 0:
                given = tables[int(parents[j]), int(j)][drawn[:, parents[j]]]
            # One place in each n-th of the line, so that few rows hold a column well.
            steps = torch.randperm(n_rows, generator=generator)
            places = (steps + torch.rand(n_rows, generator=generator)).numpy()
            ends = given.cumsum(axis=1)
            below = ends < places[:, None] / max(n_rows, 1) * ends[:, -1:]
            drawn[:, j] = np.minimum(below.sum(axis=1), given.shape[1] - 1)
    return drawn


def _beyond_noise(
    noisy: NDArray[np.float64], apart: NDArray[np.float64], std: float
) -> NDArray[np.float64]:
    """Keep the cells that noise cannot explain; the rest is as if columns were apart.

    Of shape (n_bins, n_bins). No cell of noise is kept, but for one table in a few
    (Donoho, Johnstone 1994: the universal threshold).
    """
    threshold = std * math.sqrt(2.0 * math.log(noisy.size + 1))
    kept = np.abs(noisy - apart) > threshold
    found = np.where(kept, np.maximum(noisy, 0.0), 0.0)
    rest = np.where(kept, 0.0, apart)
    rest *= max(1.0 - found.sum(), 0.0) / max(rest.sum(), _LEAST_SHARE)
    table: NDArray[np.float64] = np.maximum(found + rest, _LEAST_SHARE)
    return table / table.sum()
