"""Linear teachers, each from its own rows.

A teacher starts from zero and takes one step on its rows: its logits are their mean
features less those of the fakes. That is also how it would have the generator's mean
features change, so the sum over teachers is all that the student is told.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy.stats import poisson

from skdpsynth.exceptions import SkdpsynthError
from skdpsynth.nn._device import here
from skdpsynth.nn._private import HoldsPrivateRows
from skdpsynth.nn._teachers import assign_teachers
from skdpsynth.privacy._aggregators import require_sensitivity
from skdpsynth.privacy._integers import GRID
from skdpsynth.privacy._mechanisms import release_gaussian
from skdpsynth.privacy._observer import telling
from skdpsynth.privacy._parts import (
    Parts,
    digest_of,
    length_of_part,
    stream_of_part,
)
from skdpsynth.privacy._random import coupled, keys_of_rows, of_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

    from skdpsynth.nn._linear_discriminator import Look
    from skdpsynth.privacy import Reservation

_MOST_ROWS = 1024  # of a teacher that are looked at
_ALONE = 1e-9  # rows of a teacher from which no two share one
_DRAWN, _MOST_ROUNDS = 2**22, 64  # draws that are held at a time, or more for these


def kept_share(rows_per_teacher: float) -> float:
    """Give the share of rows that counts: teachers have one voice each, if any row."""
    if rows_per_teacher < _ALONE:
        return 1.0
    return float(-np.expm1(-rows_per_teacher) / rows_per_teacher)


class Assignment(NamedTuple):
    """The teachers of all rows: secret. Each part draws those of its rows anew.

    A teacher has rows in any part. Where it has several, `sizes` says how many.
    """

    entropy: int
    n_teachers: int
    shared: Ints  # teachers of several rows, in order
    sizes: Ints  # their rows
    before: dict[int, Ints]  # of a part: rows that crowded ones have in earlier parts
    digests: dict[int, bytes]  # of the draws of a part
    keys: dict[int, Ints]  # of the rows of a part, by which tests draw; else none

    def __repr__(self) -> str:
        """Say nothing: it is secret."""
        return "Assignment(...)"

    @classmethod
    def drawn(
        cls,
        entropy: int,
        n_teachers: int,
        n_rows: dict[int, int],
        keys: dict[int, Ints] | None = None,
    ) -> Assignment:
        """Draw the teachers of parts of so many rows."""
        keys = keys or {}

        def teachers(number: int, n_rows: int) -> Ints:
            return _teachers(entropy, n_teachers, number, n_rows, keys)

        rounds = min(1 + sum(n_rows.values()) // _DRAWN, _MOST_ROUNDS)
        found: list[tuple[Ints, Ints]] = []
        for number in range(rounds):
            low, high = (n_teachers * n // rounds for n in (number, number + 1))
            drawn = (teachers(*own) for own in sorted(n_rows.items()))
            own = np.concatenate([ids[(ids >= low) & (ids < high)] for ids in drawn])
            ids, sizes = np.unique(own, return_counts=True)
            found.append((ids[sizes > 1], sizes[sizes > 1]))
        shared, sizes = (np.concatenate(both) for both in zip(*found, strict=True))
        before, seen = {}, np.zeros((sizes > _MOST_ROWS).sum(), dtype=np.int64)
        if len(seen):
            for number, n in sorted(n_rows.items()):
                before[number] = seen
                seen = seen + _counts(shared[sizes > _MOST_ROWS], teachers(number, n))
        digests = {n: digest_of(teachers(n, size)) for n, size in n_rows.items()}
        return cls(entropy, n_teachers, shared, sizes, before, digests, keys)

    def teachers(self, number: int, n_rows: int) -> Ints:
        """Give the teachers of the rows of a part."""
        return _teachers(self.entropy, self.n_teachers, number, n_rows, self.keys)

    def looked_at(self, number: int, n_rows: int) -> tuple[Ints, NDArray[np.bool_]]:
        """Say of rows of a part how many their teachers look at, and who is among."""
        ids = self.teachers(number, n_rows)
        if digest_of(ids) != self.digests.get(number):
            raise SkdpsynthError(
                "A part of the table has other rows than before, or a worker draws"
                " other random numbers than the process that fits. Expected a table"
                " that stays, and the same version of NumPy on all machines."
            )
        sizes, among = np.ones(n_rows, dtype=np.int64), np.ones(n_rows, dtype=bool)
        place = np.searchsorted(self.shared, ids)
        rows = np.flatnonzero(np.append(self.shared, -1)[place] == ids)
        sizes[rows] = self.sizes[place[rows]]
        crowded = self.shared[self.sizes > _MOST_ROWS]
        rows = np.flatnonzero(sizes > _MOST_ROWS)
        if len(rows):
            own = np.searchsorted(crowded, ids[rows])
            order = np.argsort(own, kind="stable")
            starts = np.searchsorted(own[order], np.arange(len(crowded)))
            rank = np.arange(len(rows)) - starts[own[order]]
            rank += self.before[number][own[order]]
            among[rows[order]] = rank < _MOST_ROWS
        return np.minimum(sizes, _MOST_ROWS), among


class LinearTeachers(HoldsPrivateRows):
    """Linear teachers, and the release of the sum of their vectors.

    `rows` are those of one class as a look takes them, (n_rows, n_columns), private and
    maybe none, an array or such arrays in parts. `expected_rows` is their public
    number. `rng` is secret and draws the teacher of every row. The reservation pays for
    one sum per step.

    *Privacy.* Let N be the norm of a row's features at most, which are whole numbers,
    and K what a sum may move by: ``floor(K / N)`` is the look's largest weight. A
    teacher of k rows sends their sum times ``floor(W / k)``, with ``W = floor(K / N) -
    2``, and zeros without a row. What the fakes' features are is
    public, so it is left out. A row is in one part, by its own draw. If it is alone
    there, it adds a vector of norm W N at most. If k rows are there already, it moves
    their mean by ``(row - mean) / (k + 1)``: by ``2 W N / (k + 1)`` at most, and
    rounding by ``(k + 1) N``. Of more than 1024 rows a teacher looks at the first, and
    a row can push one out of them: ``2 W N / 1024``. So the sum moves by K at most as
    long as W is 2**12 or more. Sums are of whole numbers, and what the look's `on_grid`
    makes of them moves by GRID then. Draws are independent, so one row more leaves all
    others with their teachers in law, in all sums together: rows stay where they are in
    their parts from the first look to the last.
    """

    def __init__(
        self,
        rows: NDArray[np.integer] | Parts,
        n_teachers: int,
        *,
        expected_rows: float,
        reservation: Reservation,
        rng: np.random.Generator,
        device: torch.device,
    ) -> None:
        self._rows, self._device = Parts.of(rows), device
        n_rows = self._rows.total(length_of_part, numbered=True)
        entropy = int.from_bytes(rng.bytes(32))
        keys = None
        if coupled():
            keys = self._rows.total(_keys_of_part, numbered=True)
        self._assignment = Assignment.drawn(entropy, n_teachers, n_rows, keys)
        self._reservation = reservation
        self._expected_rows = max(expected_rows, 1.0)
        self._per_row = self._expected_rows / n_teachers

    def release(self, look: Look) -> tuple[torch.Tensor, torch.Tensor]:
        """Release the sum of the teachers' vectors.

        Returns what it says of the mean features of real rows, and how far off that is
        as a rule, by noise and because teachers, not rows, have one voice.
        """
        most = look.largest_weight - 2
        if most < 4 * _MOST_ROWS:
            msg = f"Expected features of a smaller norm than {look.squared_norm}**0.5."
            raise ValueError(msg)
        require_sensitivity(self._reservation, GRID)
        summing = look, most, self._assignment, self._device
        summed = self._rows.total(_sums_of_part, *summing, numbered=True)

        def by_teacher() -> dict[int, Ints]:
            # On the grid, since a number has more than one pair of halves; rounded one
            # by one they need not add up, and have another shape than the sum.
            parts = self._rows.total(_sums_by_teacher, *summing, numbered=True)
            return {t: np.atleast_2d(look.on_grid(own)) for t, own in parts.items()}

        with telling(by_teacher=by_teacher):
            released = release_gaussian(look.on_grid(summed), self._reservation)
        mean, second = self._weights(most)
        voices = self._expected_rows * mean / look.unit
        means = torch.from_numpy(released / voices).to(self._device)
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


def _sums_of_part(
    number: int,
    rows: NDArray[np.integer],
    look: Look,
    most: int,
    assignment: Assignment,
    device: torch.device,
) -> Ints:
    """Add up what the rows of a part are in their teachers' vectors."""
    sizes, among = assignment.looked_at(number, len(rows))
    device = here(device)
    weights = torch.from_numpy(most // sizes[among]).to(device)
    summed = look.sums(torch.from_numpy(rows[among]).to(device), weights)
    return np.asarray(summed.cpu().numpy())


def _sums_by_teacher(
    number: int,
    rows: NDArray[np.integer],
    look: Look,
    most: int,
    assignment: Assignment,
    device: torch.device,
) -> Counter[Any]:
    """Add up what the rows of a part are in the vector of each teacher: for tests."""
    sizes, among = assignment.looked_at(number, len(rows))
    ids = assignment.teachers(number, len(rows))
    parts: dict[int, Any] = {}
    for teacher in np.unique(ids[among]).tolist():
        own = among & (ids == teacher)
        weights = torch.from_numpy(most // sizes[own]).to(here(device))
        summed = look.sums(torch.from_numpy(rows[own]).to(here(device)), weights)
        parts[teacher] = summed.cpu().numpy()
    return Counter(parts)


def _teachers(
    entropy: int, n_teachers: int, number: int, n_rows: int, keys: dict[int, Ints]
) -> Ints:
    """Draw the teachers of the rows of a part, the same ones whenever it is asked."""
    rng = of_keys(stream_of_part(entropy, number), keys.get(number))
    return assign_teachers(n_rows, n_teachers, rng)


def _keys_of_part(number: int, rows: NDArray[np.integer]) -> Counter[Any]:
    """Give the rows of a part the numbers by which tests draw."""
    return Counter({number: keys_of_rows(rows)})


def _counts(wanted: Ints, ids: Ints) -> Ints:
    """Count how often each of some sorted teachers was drawn."""
    drawn = np.sort(ids)
    return np.asarray(np.diff(np.searchsorted(drawn, [wanted, wanted + 1]), axis=0)[0])
