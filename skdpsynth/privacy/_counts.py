"""Counts in whole numbers, and what is computed of them before and after the noise.

The counts of a column add up to the number of rows, which is known already or released
once for all columns. Only the rest need be released: a row moves a count less its
mean by less than 1. A key that is private itself is named from some noisy count on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_ndtr, ndtri

from skdpsynth.exceptions import check_range
from skdpsynth.privacy._integers import GRID, LARGEST, clamped_counts
from skdpsynth.privacy._parts import Parts
from skdpsynth.utils import in_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# Noise deviations from which rows in no cell are believed in.
_APART_FROM = 2.0

# Keys seen once are never considered, so a key's smallest considered count is this.
MIN_KEY_COUNT = 2

# Room that the proof in `thresholded_counts` needs for removing a row.
_THRESHOLD_ROOM = 0.9


def exact_counts(
    codes: NDArray[np.integer] | Parts, n_bins: Sequence[int]
) -> list[Ints]:
    """Count the codes of every column without noise: private.

    Column j holds codes in [0, ``n_bins[j]``). No count is above `MOST_ROWS`.
    """
    bins = [int(n) for n in n_bins]
    counts = clamped_counts(Parts.of(codes).total(_counts_of_part, bins))
    return np.split(counts, np.cumsum(bins)[:-1])


def _counts_of_part(codes: NDArray[np.integer], bins: list[int]) -> Ints:
    if codes.ndim != 2 or codes.shape[1] != len(bins) or min(bins, default=0) < 1:
        raise ValueError(
            "Expected codes of shape (n_rows, n_columns) and one positive number of "
            f"bins per column. Got shape {codes.shape} and {len(bins)} numbers."
        )
    limits = np.asarray(bins, dtype=np.int64)
    out_of_range = "Expected integer codes in [0, n_bins[j]) in column j."
    if not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(out_of_range)
    # One bincount for all columns: column j counts in the bins after starts[j].
    starts = np.concatenate(([0], np.cumsum(limits)))
    total = np.zeros(int(starts[-1]), dtype=np.int64)
    for rows in in_chunks(len(codes), max(2**13, len(total) // len(bins))):
        chunk = codes[rows].astype(np.int64)
        if np.any((chunk < 0) | (chunk >= limits)):
            raise ValueError(out_of_range)
        total += np.bincount((chunk + starts[:-1]).ravel(), minlength=len(total))
    return total


@dataclass(frozen=True)
class CentredCounts:
    """What `centred_histogram` released, in rows.

    `deviations` are noisy counts of the cells of each column less their mean, `apart`
    noisy numbers of rows in no cell, 0 where there are fewer than 2 cells; `apart_stds`
    is of their noise. `noise_std` is that of one count before the mean is taken off; in
    the deviations of B cells ``sqrt(1 - 1/B)`` of it is left. If it was not released,
    the number of rows `size` is 0 and its `size_std` inf.
    """

    deviations: list[Floats]
    apart: Floats
    apart_stds: Floats
    noise_std: float
    size: float
    size_std: float

    @classmethod
    def of(
        cls, noisy: Ints, n_cells: Sequence[int], noise_std: float, size_weight: float
    ) -> CentredCounts:
        """Read the numbers of `centred_numbers` after noise was added to them."""
        ends = np.cumsum([n + 1 for n in n_cells])
        *columns, rest = np.split(noisy.astype(np.float64), ends)
        entries = np.array([_apart_entry(n) for n in n_cells], dtype=np.float64)
        scale = np.where(entries > 0, entries, math.inf)  # without one: noise alone
        entry = _size_entry(size_weight)
        cells = [part[:-1] for part in columns]
        return cls(
            [(own - own.sum() / max(len(own), 1)) / GRID for own in cells],
            np.array([part[-1] for part in columns]) / scale,
            noise_std / scale,
            noise_std / GRID,
            float(rest[0]) / entry if entry else 0.0,
            noise_std / entry if entry else math.inf,
        )

    def counts(self, size: float) -> list[Floats]:
        """Give noisy counts of the cells of each column, for a number of rows.

        They may be negative. Their sum is `size` less the rows that are in no cell, but
        at least 1. Mostly every row is in a cell, and a noisy number of others would do
        harm alone. With noise s a number o counts as ``o - (2 s)^2 / o``, or 0 if that
        is negative.
        """
        doubt = (_APART_FROM * self.apart_stds) ** 2 / np.maximum(self.apart, 1e-9)
        totals = np.maximum(size - np.maximum(self.apart - doubt, 0.0), 1.0)
        return [
            total / max(len(part), 1) + part
            for total, part in zip(totals, self.deviations, strict=True)
        ]


def centred_sensitivity(n_cells: Sequence[int], size_weight: float = 0.0) -> int:
    """Give the L2 sensitivity of `centred_numbers`: rounded up, and at least 1.

    A row in a cell of column j moves its numbers by a vector of squared norm
    `_squared_norm`, a row in none by one that is no longer, and every row moves the
    last number by `_size_entry`. All are whole numbers. Divided by GRID the result is
    ``sqrt(sum(1 - 1 / B_j) + size_weight^2)``, up to rounding.
    """
    squared = sum(map(_squared_norm, n_cells)) + _size_entry(size_weight) ** 2
    return math.isqrt(max(squared - 1, 0)) + 1


def centred_numbers(counts: Sequence[Ints], n_rows: int, size_weight: float) -> Ints:
    """Compute what `centred_histogram` adds noise to: private.

    From exact counts, of which a column's last is of the rows that are in no cell. Of
    each column those of the cells and that of the rows in none; then the one of all
    rows, left out where its weight is 0.

    Counts are at most `MOST_ROWS`, so K of one is at most 2**60, and so is ``floor(K /
    B)`` of B. The number of all rows is clamped to what its product has room for.
    """
    parts = []
    for column in counts:
        cells, n_cells = column[:-1], len(column) - 1
        parts.append(GRID * cells - _taken(n_cells) * cells.sum())
        parts.append(_apart_entry(n_cells) * column[-1:])
    entry = _size_entry(size_weight)
    if entry > 0:
        parts.append(np.array([entry * min(n_rows, LARGEST // entry)], dtype=np.int64))
    return np.concatenate(parts)


def _taken(n_cells: int) -> int:
    """Give what a row in a cell takes from every cell of its column."""
    return GRID // max(n_cells, 1)


def _squared_norm(n_cells: int) -> int:
    """Give the squared norm of what a row in a cell adds to its column."""
    taken = _taken(n_cells)
    return (GRID - taken) ** 2 + max(n_cells - 1, 0) * taken**2


def _apart_entry(n_cells: int) -> int:
    """Give what a row in no cell adds to their number: as much as the norm allows."""
    return math.isqrt(_squared_norm(n_cells))


def _size_entry(size_weight: float) -> int:
    """Give what every row adds to the number of all."""
    return int(GRID * size_weight)


def discovery_threshold(noise_std: float, threshold_delta: float) -> int:
    """Find the noisy count that a key seen twice exceeds with small probability.

    The T with ``P(2 + noise > T) <= threshold_delta`` for a discrete Gaussian; 1
    without noise.

    Let f(z) = exp(-z^2 / (2 s^2)). Its sum over the integers is at least ``s sqrt(2
    pi)`` (Poisson summation: all other terms are positive), and where f is convex, ``z
    >= s``, each term is at most its integral over [z - 1/2, z + 1/2]. So ``P(noise >=
    t) <= Phi(-(t - 1/2) / s)`` for ``t - 1/2 >= s``.
    """
    fits = 0 < threshold_delta < 1
    check_range("threshold_delta", threshold_delta, fits, "in (0, 1)")
    if noise_std == 0:
        return MIN_KEY_COUNT - 1
    quantile = max(-float(ndtri(threshold_delta)), 1.0)
    tail_start = math.ceil(quantile * noise_std + 0.5)
    # The quantile is rounded; the tail at the integer is what counts.
    while float(log_ndtr(-(tail_start - 0.5) / noise_std)) > math.log(threshold_delta):
        tail_start += 1
    # 2 + noise > T means noise >= T - 1 for integers.
    return tail_start + MIN_KEY_COUNT - 1


def key_threshold(noise_std: float, threshold_delta: float, n_columns: int) -> int:
    """Give the noisy count that a key must exceed in `thresholded_counts`, at least 1.

    `threshold_delta` is for all columns together.
    """
    return discovery_threshold(noise_std, _THRESHOLD_ROOM * threshold_delta / n_columns)
