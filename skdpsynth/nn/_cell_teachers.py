"""Linear teachers of three columns at once, each from its own rows.

A teacher looks at coarse cells of some triples of columns, starts from zero and takes
one step on its rows: its logits are the mean cells of these rows less those of the
fakes. That is also how it would have the generator's cells change, so the sum over
teachers is all that the student is told.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import torch
from scipy.stats import poisson

from skdpsynth.nn._teachers import assign_teachers
from skdpsynth.privacy._aggregators import require_sensitivity
from skdpsynth.privacy._counts import GRID
from skdpsynth.privacy._mechanisms import release_gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.nn._cells import Cells
    from skdpsynth.privacy import Reservation

_MOST_ROWS = 1024  # of a teacher that are looked at


def kept_share(rows_per_teacher: float) -> float:
    """Give the share of rows that counts: teachers have one voice each, if any row."""
    return float(-np.expm1(-rows_per_teacher) / max(rows_per_teacher, 1e-9))


class CellTeachers:
    """Linear teachers of cells, and the release of the sum of their vectors.

    `rows` are the private groups of one class, of shape (n_rows, n_columns), maybe
    none, and `expected_rows` is their public number. `rng` is secret and draws the
    teacher of every row. The reservation pays for one sum per step.

    *Privacy.* Let K be GRID, and T the triples of a step. A teacher of k rows sends the
    counts of its cells times ``floor(W / k)``, with ``W = floor(K / sqrt(T))``, and
    zeros without a row. What fakes are in the cells is public, so it is left out. A row
    is in one part, by its own draw. If it is alone there, it adds one vector of norm at
    most W in each triple. If k rows are there already, it moves their mean by ``(row -
    mean) / (k + 1)``: by at most ``sqrt(2) W / (k + 1)``, and rounding by at most
    ``k + 1``. Of more than 1024 rows a teacher looks at the first, and a row can push
    one out of them: ``sqrt(2) W / 1024``. So the sum moves by at most W in each triple
    as long as W is 2**12 or more, and by K in all. Sums are of whole numbers.
    """

    def __init__(
        self,
        rows: NDArray[np.uint8],
        n_teachers: int,
        *,
        expected_rows: float,
        reservation: Reservation,
        rng: np.random.Generator,
        device: torch.device,
    ) -> None:
        assigned = assign_teachers(len(rows), n_teachers, rng)
        order = np.argsort(assigned, kind="stable")
        # Of teachers that have a row: there may be many more of them than rows.
        _, starts, sizes = np.unique(
            assigned[order], return_index=True, return_counts=True
        )
        kept = np.arange(len(rows)) - np.repeat(starts, sizes) < _MOST_ROWS
        self._rows = torch.from_numpy(rows[order[kept]]).to(device)
        looked_at = np.minimum(np.repeat(sizes, sizes)[kept], _MOST_ROWS)
        self._looked_at = torch.from_numpy(looked_at).to(device)
        self._reservation = reservation
        self._expected_rows = max(expected_rows, 1.0)
        self._per_row = self._expected_rows / n_teachers

    def __getstate__(self) -> NoReturn:
        msg = (
            "CellTeachers hold private rows and cannot be pickled, copied or saved. "
            "Keep the generator instead."
        )
        raise TypeError(msg)

    def release(self, cells: Cells) -> tuple[torch.Tensor, torch.Tensor]:
        """Release the sum of the teachers' vectors.

        Returns what it says of the share of real rows in each cell, and how far off
        that is as a rule, by noise and because teachers, not rows, have one voice.
        """
        n_triples = len(cells.triples)
        most = math.isqrt(GRID**2 // n_triples)
        if most < 4 * _MOST_ROWS:
            msg = f"Expected fewer triples of columns. Got {n_triples}."
            raise ValueError(msg)
        require_sensitivity(self._reservation, GRID)
        summed = cells.counts(self._rows, most // self._looked_at)
        released = release_gaussian(summed.cpu().numpy(), self._reservation)
        # Every teacher with a row adds as much to each triple.
        voices = max(float(released.sum()) / n_triples, float(most))
        shares = torch.from_numpy(released / voices).to(self._rows.device)
        uneven = shares.clamp_min(0.0) * (self._spread() / self._expected_rows)
        noise = self._reservation.noise_std / voices
        return shares.float(), (noise**2 + uneven).sqrt().float()

    def _spread(self) -> float:
        """Give the squared variation of the weights of rows over their mean."""
        mean = self._per_row  # of the other rows of a teacher
        most = int(mean + 12.0 * math.sqrt(mean) + 30.0)
        n_rows = np.arange(1, most)
        probability = poisson.pmf(n_rows - 1, mean)
        second = probability @ (1.0 / (n_rows * np.minimum(n_rows, _MOST_ROWS)))
        first = probability @ (1.0 / n_rows)
        return max(float(second / first**2) - 1.0, 0.0)
