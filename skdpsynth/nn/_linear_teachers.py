"""Linear teachers, each from its own rows.

A teacher starts from zero and takes one step on its rows: its logits are their mean
features less those of the fakes. That is also how it would have the generator's mean
features change, so the sum over teachers is all that the student is told.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.stats import poisson

from skdpsynth.nn._private import HoldsPrivateRows
from skdpsynth.nn._teachers import assign_teachers
from skdpsynth.privacy._aggregators import require_sensitivity
from skdpsynth.privacy._mechanisms import release_gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.nn._linear_discriminator import Look
    from skdpsynth.privacy import Reservation

SUM_GRID = 2**36  # the sensitivity of a sum
_MOST_ROWS = 1024  # of a teacher that are looked at
_ALONE = 1e-9  # rows of a teacher from which no two share one


def kept_share(rows_per_teacher: float) -> float:
    """Give the share of rows that counts: teachers have one voice each, if any row."""
    if rows_per_teacher < _ALONE:
        return 1.0
    return float(-np.expm1(-rows_per_teacher) / rows_per_teacher)


class LinearTeachers(HoldsPrivateRows):
    """Linear teachers, and the release of the sum of their vectors.

    `rows` are those of one class as a look takes them, (n_rows, n_columns), private and
    maybe none, and `expected_rows` is their public number. `rng` is secret and draws
    the teacher of every row. The reservation pays for one sum per step.

    *Privacy.* Let K be SUM_GRID, and N the norm of a row's features at most, which are
    whole numbers. A teacher of k rows sends their sum times ``floor(W / k)``, with ``W
    = floor(K / N) - 2``, and zeros without a row. What the fakes' features are is
    public, so it is left out. A row is in one part, by its own draw. If it is alone
    there, it adds a vector of norm W N at most. If k rows are there already, it moves
    their mean by ``(row - mean) / (k + 1)``: by ``2 W N / (k + 1)`` at most, and
    rounding by ``(k + 1) N``. Of more than 1024 rows a teacher looks at the first, and
    a row can push one out of them: ``2 W N / 1024``. So the sum moves by K at most as
    long as W is 2**12 or more. Sums are of whole numbers.
    """

    def __init__(
        self,
        rows: NDArray[np.integer],
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

    def release(self, look: Look) -> tuple[torch.Tensor, torch.Tensor]:
        """Release the sum of the teachers' vectors.

        Returns what it says of the mean features of real rows, and how far off that is
        as a rule, by noise and because teachers, not rows, have one voice.
        """
        most = math.isqrt(SUM_GRID**2 // look.squared_norm) - 2
        if most < 4 * _MOST_ROWS:
            msg = f"Expected features of a smaller norm than {look.squared_norm}**0.5."
            raise ValueError(msg)
        require_sensitivity(self._reservation, SUM_GRID)
        summed = look.sums(self._rows, most // self._looked_at)
        released = release_gaussian(summed.cpu().numpy(), self._reservation)
        mean, second = self._weights(most)
        voices = self._expected_rows * mean
        means = torch.from_numpy(released / voices).to(self._rows.device)
        spread = max(second / mean**2 - 1.0, 0.0)
        uneven = look.variances(means) * (spread / self._expected_rows)
        noise = self._reservation.noise_std / voices
        return look.scaled(means).float(), (noise**2 + uneven).sqrt().float()

    def _weights(self, most: int) -> tuple[float, float]:
        """Give the mean weight of a row in the sum, and that of its square; public.

        Of a row with a Poisson number of others in its part.
        """
        others, off = self._per_row, 12.0 * math.sqrt(self._per_row) + 30.0
        n_rows = np.arange(max(int(others - off), 0), int(others + off)) + 1
        probability = poisson.pmf(n_rows - 1, others)
        looked_at = np.minimum(n_rows, _MOST_ROWS)
        weights = most // looked_at
        looked = probability * (looked_at / n_rows)  # else it is not among the first
        return float(looked @ weights), float(looked @ weights.astype(float) ** 2)
