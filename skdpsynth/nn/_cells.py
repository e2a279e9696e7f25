"""A linear discriminator of three columns at once, and the generator that learns of it.

Pair tables know nothing of three columns. Here a discriminator looks at coarse cells of
some triples of columns, and starts from zero. Its first step of DP-SGD says how many
real rows are in each cell, and its logits are the differences to the fakes. They follow
the generator exactly, so what each discriminator has seen stays in the loss for good.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

import numpy as np
import torch

from skdpsynth.nn._clipping import ROUNDING_ROOM, poisson_sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.privacy import Reservation

SLOPES = {"logistic": 0.5, "wasserstein": 1.0}  # of a loss at a logit of 0
_CHUNK = 2**22  # cells of rows that are counted at a time
_LEAST_NOISE = 0.5  # rows; counts without noise are whole numbers


class Cells(NamedTuple):
    """Cells of some triples of columns; public.

    A row has its group in each column, (n_rows, n_columns), and is in one cell of every
    triple. Features are 1 there, over the root of the number of triples.
    """

    triples: torch.Tensor  # (n_triples, 3), columns
    n_groups: int  # of a column

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of a number for every cell."""
        n = self.n_groups
        return len(self.triples), n, n, n

    def counts(
        self, rows: torch.Tensor, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Count the rows of every cell; private if the rows are, and exact.

        With weights they are added up: whole numbers whose sum is below 2**53.
        """
        n_triples, n, *_ = self.shape
        n_cells = n_triples * n**3
        total = torch.zeros(n_cells, dtype=torch.int64, device=rows.device)
        offsets = n**3 * torch.arange(n_triples, dtype=torch.int32, device=rows.device)
        step = max(1, _CHUNK // n_triples)
        for start in range(0, len(rows), step):
            by_column = rows[start : start + step].T.to(torch.int32).contiguous()
            first, second, third = (by_column[own] for own in self.triples.T)
            codes = (first * n + second) * n + third + offsets[:, None]
            added = None
            if weights is not None:  # doubles add whole numbers exactly
                own = weights[start : start + step].double()
                added = own.expand(codes.shape).flatten()
            total += torch.bincount(codes.flatten(), added, n_cells).to(torch.int64)
        return total.reshape(self.shape)


class CellDiscriminator:
    """Linear discriminators of cells, from zero, each with one step of DP-SGD.

    `rows` are the private groups of one class, of shape (n_rows, n_columns), maybe
    none. The reservation pays for one noisy sum per step, and `expected_batch_size` is
    its public divisor. `rng` is secret and draws the Poisson samples.

    *Privacy.* At a logit of 0 the loss has one slope for all rows, so the gradient of a
    row is its features times a public number. Its norm is the slope, and clipping
    multiplies all rows alike. So the clipped sum is a public multiple of exact counts,
    and a row moves it by the clipping norm at most.
    """

    def __init__(
        self,
        rows: NDArray[np.uint8],
        *,
        loss: Literal["logistic", "wasserstein"],
        max_grad_norm: float,
        expected_batch_size: float,
        reservation: Reservation,
        rng: np.random.Generator,
        device: torch.device,
    ) -> None:
        self._rows = torch.from_numpy(rows).to(device)
        self._norm = min(SLOPES[loss], max_grad_norm) * (1.0 - ROUNDING_ROOM)
        self._clip, self._expected = max_grad_norm, expected_batch_size
        self._reservation, self._rng = reservation, rng

    def __getstate__(self) -> NoReturn:
        msg = (
            "A CellDiscriminator holds private rows and cannot be pickled, copied or "
            "saved. Keep the generator instead."
        )
        raise TypeError(msg)

    def release(self, cells: Cells) -> tuple[torch.Tensor, torch.Tensor]:
        """Release the gradient of the real rows, one step of DP-SGD.

        Returns what it says of the share of real rows in each cell, and how far off
        that is as a rule, by noise and by sampling.
        """
        # Opacus takes a second to import, and other algorithms do not need it.
        from skdpsynth.nn._dp_sgd import ReservedOptimizer

        weight = torch.zeros(
            cells.shape, dtype=torch.float64, device=self._rows.device
        ).requires_grad_()
        optimizer = ReservedOptimizer(
            torch.optim.SGD([weight], lr=1.0),
            max_grad_norm=self._clip,
            expected_batch_size=self._expected,
            reservation=self._reservation,
        )
        # A stream per step: where one ends is a function of the number of rows.
        (rng,) = self._rng.spawn(1)
        rate = self._reservation.sampling_rate
        drawn = torch.from_numpy(poisson_sample(len(self._rows), rate, rng))
        counts = cells.counts(self._rows[drawn.to(self._rows.device)])
        per_row = -self._norm * len(cells.triples) ** -0.5
        weight.summed_grad = per_row * counts.double()  # type: ignore[attr-defined]
        optimizer.release()
        noise = self._reservation.noise_std * self._clip / self._expected / per_row
        assert weight.grad is not None
        shares = (weight.grad / per_row).float()
        sampled = shares.clamp_min(0.0) * (1.0 - rate) / self._expected
        return shares, (noise**2 + sampled).sqrt()


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
        self._pairs = torch.triu_indices(n_columns, n_columns, 1, device=device)
        self._place = torch.zeros((n_columns, n_columns), dtype=torch.int64)
        self._place[tuple(self._pairs.cpu())] = torch.arange(self._pairs.shape[1])
        # By pair, its groups, the third column, and its group.
        shape = self._pairs.shape[1], n_groups, n_groups, n_columns, n_groups
        self._shares = torch.zeros(shape, device=device)
        self._per_share = torch.zeros(shape, device=device)
        triples = torch.tensor(list(combinations(range(n_columns), 3)))
        order = torch.randperm(len(triples), generator=generator)
        in_round = -(-len(triples) // n_rounds)
        turns = torch.arange(n_rounds * in_round) % len(triples)  # the first ones again
        self._rounds = iter(triples[order[turns]].split(in_round))

    def encode(self, bins: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Give the groups of rows of bins; private if the rows are."""
        return self._groups[bins + self._starts[:-1]].astype(np.uint8)

    def next_cells(self) -> Cells:
        """Say which cells the next discriminator looks at."""
        return Cells(next(self._rounds), self._n_groups)

    def add(self, cells: Cells, shares: torch.Tensor, std: torch.Tensor) -> None:
        """Remember what a discriminator says; what was seen twice is averaged."""
        first, second, third = cells.triples.T
        place = self._place[first, second], slice(None), slice(None), third
        known = self._per_share[place] ** 2
        more = std.to(known).clamp_min(self._least_noise) ** -2
        both = known * self._shares[place] + more * shares.to(known)
        self._shares[place] = both / (known + more)
        self._per_share[place] = (known + more).sqrt()

    def distance(
        self, weights: torch.Tensor, probabilities: torch.Tensor
    ) -> torch.Tensor:
        """Give the squared distance of a mixture's shares, in noise variances."""
        by_group = probabilities @ self._member
        groups = by_group.reshape(len(weights), -1, self._n_groups)
        first, second = (groups[:, own] for own in self._pairs)
        pairs = (weights[:, None, None] * first).unsqueeze(-1) * second.unsqueeze(-2)
        found = pairs.flatten(1).T @ by_group
        off = self._per_share * (found.reshape(self._shares.shape) - self._shares)
        return off.square().sum()
