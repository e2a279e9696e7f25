"""Cells of three columns at once, and what discriminators have seen of them.

Pair tables know nothing of three columns. A linear discriminator that looks at coarse
cells of some triples says how many real rows are in each, and its logits are the
differences to the fakes. They follow the generator exactly, so what each discriminator
has seen stays in the loss for good.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from skdpsynth.privacy._integers import GRID, LARGEST

if TYPE_CHECKING:
    from numpy.typing import NDArray


_CHUNK, _CHUNK_ROWS = 2**22, 2**16  # cells and rows that are counted at a time
_LEAST_NOISE = 0.5  # rows; counts without noise are whole numbers


class Cells(NamedTuple):
    """Cells of some triples of columns; public.

    A row has its group in each column, (n_rows, n_columns), and is in one cell of every
    triple. Features are 1 there.
    """

    triples: torch.Tensor  # (n_triples, 3), columns
    n_groups: int  # of a column

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of a number for every cell."""
        n = self.n_groups
        return len(self.triples), n, n, n

    @property
    def squared_norm(self) -> int:
        """Of the features of a row."""
        return len(self.triples)

    @property
    def largest_weight(self) -> int:
        """Of a row, so that it moves `on_grid` by GRID at most."""
        return math.isqrt(GRID**2 // self.squared_norm)

    def variances(self, means: torch.Tensor) -> torch.Tensor:
        """Give the variances of features of these means, at most."""
        return means.clamp_min(0.0)

    def scaled(self, means: torch.Tensor) -> torch.Tensor:
        """Let the cells of a triple add up to 1, on average."""
        return means / (means.sum() / len(self.triples)).clamp_min(0.5)

    def sums(
        self, rows: torch.Tensor, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Count the rows of every cell; private if the rows are, and exact.

        With weights they are added up: whole numbers from 0 to 2**36, so that doubles
        hold what a chunk adds. What passes 2**63 stops there.
        """
        n_triples, n, *_ = self.shape
        n_cells = n_triples * n**3
        total = torch.zeros(n_cells, dtype=torch.int64, device=rows.device)
        offsets = n**3 * torch.arange(n_triples, dtype=torch.int32, device=rows.device)
        step = min(max(1, _CHUNK // n_triples), _CHUNK_ROWS)
        for start in range(0, len(rows), step):
            by_column = rows[start : start + step].T.to(torch.int32).contiguous()
            first, second, third = (by_column[own] for own in self.triples.T)
            codes = (first * n + second) * n + third + offsets[:, None]
            added = None
            if weights is not None:  # doubles add whole numbers below 2**53 exactly
                own = weights[start : start + step].double()
                added = own.expand(codes.shape).flatten()
            total += torch.bincount(codes.flatten(), added, n_cells).to(torch.int64)
            total[total < 0] = LARGEST  # wrapped; nothing that is added is negative
        return total.reshape(self.shape)

    def on_grid(self, sums: NDArray[np.int64], factor: int = 1) -> NDArray[np.int64]:
        """Multiply sums by a public factor; what would pass 2**63 stops before."""
        return np.minimum(sums, LARGEST // factor) * factor

    @property
    def unit(self) -> int:
        """Of `on_grid`, in what `sums` adds up."""
        return 1


class SeenCells:
    """What the discriminators of a class have seen, as a fit reads it. It is public.

    `groups` (D,) has the group of each bin. All triples of columns are looked at in
    `n_rounds` rounds, in an order that `generator` draws.
    """

    def __init__(
        self,
        starts: NDArray[np.int64],
        groups: NDArray[np.int64],
        n_groups: int,
        n_rows: float,
        *,
        n_rounds: int,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self._starts, self._groups, self._n_groups = starts, groups, n_groups
        self._least_noise = _LEAST_NOISE / n_rows
        n_columns = len(starts) - 1
        column = np.repeat(np.arange(n_columns), np.diff(starts))
        member = torch.zeros((len(groups), n_columns * n_groups))
        member[np.arange(len(groups)), column * n_groups + groups] = 1.0
        self._member = member.to(device)
        # By second column, first column, their groups, third column, and its group.
        shape = n_columns, n_columns, n_groups, n_groups, n_columns, n_groups
        self._shares = torch.zeros(shape, device=device)
        self._per_share = torch.zeros(shape, device=device)
        triples = torch.tensor(list(combinations(range(n_columns), 3)))
        order = torch.randperm(len(triples), generator=generator)
        in_round = -(-len(triples) // n_rounds)
        turns = torch.arange(n_rounds * in_round) % len(triples)  # the first ones again
        self._rounds = iter(triples[order[turns]].split(in_round))

    def encode(self, bins: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Give the groups of rows of bins; private if the rows are."""
        return self._groups[bins + self._starts[:-1]].astype(np.uint8)

    def next_look(self) -> Cells:
        """Say which cells the next discriminator looks at."""
        return Cells(next(self._rounds), self._n_groups)

    def add(self, cells: Cells, shares: torch.Tensor, std: torch.Tensor) -> None:
        """Remember what a discriminator says; what was seen twice is averaged."""
        first, second, third = cells.triples.T
        place = second, first, slice(None), slice(None), third
        known = self._per_share[place] ** 2
        more = std.to(known).clamp_min(self._least_noise) ** -2
        both = known * self._shares[place] + more * shares.to(known)
        self._shares[place] = both / (known + more)
        self._per_share[place] = (known + more).sqrt()

    def distance(
        self, weights: torch.Tensor, probabilities: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Give the squared distance of a mixture's shares, in noise variances.

        Beside it its slopes by the weights and the probabilities, in closed form.
        """
        by_group = self._member.T @ probabilities.T  # components last, as memory goes
        n, n_components = self._n_groups, len(weights)
        groups = by_group.reshape(-1, n, n_components)
        by_groups, by_weights = torch.zeros_like(groups), torch.zeros_like(weights)
        total = torch.zeros((), device=weights.device)
        for j in range(1, len(groups) - 1):  # the second columns of triples
            first, second, third = groups[:j], groups[j], by_group[(j + 1) * n :]
            pairs = (first[:, :, None] * second).reshape(-1, n_components)
            found = pairs @ (third * weights).T
            per_share, shares = (
                whole[j, :j, :, :, j + 1 :].reshape(found.shape)
                for whole in (self._per_share, self._shares)
            )
            off = per_share * (found - shares)
            total += off.square().sum()
            by_found = 2.0 * per_share * off
            by_third = by_found.T @ pairs
            by_weights += (by_third * third).sum(0)
            by_groups[j + 1 :] += by_third.reshape(-1, n, n_components)
            by_pairs = (by_found @ third).reshape(j, n, n, n_components)
            by_groups[:j] += (by_pairs * second).sum(2)
            by_groups[j] += (by_pairs * first[:, :, None]).sum((0, 1))
        by_groups *= weights
        by_probabilities = (self._member @ by_groups.reshape(by_group.shape)).T
        return total, by_weights, by_probabilities
