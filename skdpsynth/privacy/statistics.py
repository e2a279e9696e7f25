"""Statistics of private rows, each beside the proof of its sensitivity.

Every function computes an exact integer statistic, checks that the reservation was
made for its sensitivity, and hands it to `release_gaussian`. "Row" is a row of the
private table; neighbours differ by adding or removing one row. Whatever else a function
takes is public. What it refuses it refuses before noise is drawn; codes that are no
whole numbers (as NaN and infinity are none) or in no bin are refused by all that take
codes. Without rows what it releases are zeros with the same noise, unless its section
says otherwise. Released whole numbers become floats by rounding to the nearest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy._accountant import MAX_DISCOVERY_DELTA, Reservation, ledger_of
from skdpsynth.privacy._mechanisms import release_gaussian, release_votes, telling
from skdpsynth.privacy._parts import GRID, LARGEST, MOST_ROWS, Parts, clamped_counts
from skdpsynth.utils import CHUNK_ROWS, check_range, in_chunks
from skdpsynth.utils.arrays import Bools, Floats, Ints

Codes = NDArray[np.integer] | Parts

# Keys seen once are never considered, so a key's smallest considered count is this.
MIN_KEY_COUNT = 2


def exact_counts(codes: Codes, n_bins: Sequence[int]) -> list[Ints]:
    """Count the codes of every column without noise, up to `MOST_ROWS`: private."""
    bins = [int(n) for n in n_bins]
    counts = clamped_counts(Parts.of(codes).total(_counts_of_part, bins))
    return np.split(counts, np.cumsum(bins)[:-1])


def _counts_of_part(codes: NDArray[np.integer], bins: list[int]) -> Ints:
    # One bincount for all columns: column j counts in the bins after starts[j].
    starts = _starts_of_bins(codes, bins)
    total = np.zeros(int(starts[-1]), dtype=np.int64)
    for rows in in_chunks(len(codes), max(CHUNK_ROWS, len(total) // len(bins))):
        places = codes[rows].astype(np.int64) + starts[:-1]
        total += np.bincount(places.ravel(), minlength=len(total))
    return total


def _starts_of_bins(codes: NDArray[np.integer], n_bins: Sequence[int] | Ints) -> Ints:
    """Return where bins of each column start, and the end; refuse codes of no bin."""
    bins = np.asarray(n_bins, dtype=np.int64)
    if codes.ndim != 2 or codes.shape[1] != len(bins) or min(bins, default=0) < 1:
        raise ValueError(
            "Expected codes of shape (n_rows, n_columns) and one positive number of "
            f"bins per column. Got shape {codes.shape} and {len(bins)} numbers."
        )
    whole = np.issubdtype(codes.dtype, np.integer)
    if not whole or np.any((codes < 0) | (codes >= bins)):
        raise ValueError("Expected integer codes in [0, n_bins[j]) in column j.")
    return np.concatenate(([0], np.cumsum(bins)))


class CentredCounts:
    """What `centred_histogram` released, taken apart, in rows like its noise."""

    def __init__(
        self,
        numbers: Floats,
        n_cells: Sequence[int],
        size_weight: float,
        noise_std: float,
    ) -> None:
        *columns, rest = np.split(numbers, np.cumsum([n + 1 for n in n_cells]))
        cells = [part[:-1] for part in columns]
        # Of each column noisy counts of the cells less their mean; and noisy numbers of
        # rows in no cell, 0 with fewer than 2 cells, with their noise.
        self.deviations = [part - part.sum() / max(len(part), 1) for part in cells]
        entries = np.array([_entries(n)[2] / GRID for n in n_cells])
        scale = np.where(entries > 0, entries, math.inf)  # without one: noise alone
        self.apart = np.array([part[-1] for part in columns]) / scale
        self.apart_stds = noise_std / scale
        # All rows; not released without a weight.
        entry = _size_entry(size_weight) / GRID
        self.size = float(rest[0]) / entry if entry else 0.0
        self.size_std = noise_std / entry if entry else math.inf

    def counts(self, size: float) -> list[Floats]:
        """Return noisy counts of the cells of each column, for a number of rows."""
        # Their sum is `size` less the rows in no cell. Mostly there are none, and a
        # noisy number o would do harm alone: with noise s it counts as o - (2 s)^2 / o.
        doubt = (2.0 * self.apart_stds) ** 2 / np.maximum(self.apart, 1e-9)
        totals = np.maximum(size - np.maximum(self.apart - doubt, 0.0), 1.0)
        return [
            total / max(len(part), 1) + part
            for total, part in zip(totals, self.deviations, strict=True)
        ]


def centred_sensitivity(n_cells: Sequence[int], size_weight: float = 0.0) -> int:
    """Return the L2 sensitivity of `centred_histogram`: rounded up, and at least 1.

    A row moves the numbers of column j by a vector whose squared norm is at most that
    of `_entries`, and the last number by `_size_entry`. All are whole numbers. Divided
    by GRID the result is ``sqrt(sum(1 - 1 / B_j) + size_weight^2)``, up to rounding.
    """
    squared = sum(_entries(n)[1] for n in n_cells) + _size_entry(size_weight) ** 2
    return math.isqrt(max(squared - 1, 0)) + 1


def _entries(n_cells: int) -> tuple[int, int, int]:
    """Return what rows add to a column, as `centred_histogram` says.

    What a row in a cell takes from every cell, the squared norm of what it adds in all,
    and what a row in no cell adds to their number, which is no more.
    """
    taken = GRID // max(n_cells, 1)
    squared_norm = (GRID - taken) ** 2 + max(n_cells - 1, 0) * taken**2
    return taken, squared_norm, math.isqrt(squared_norm)


def _size_entry(size_weight: float) -> int:
    """Return what every row adds to the number of all."""
    return int(GRID * size_weight)


def key_threshold(
    noise_std: float,
    threshold_delta: float,
    n_columns: int,
    least: int = MIN_KEY_COUNT,
    rows_per_unit: int = 1,
) -> int:
    """Find the noisy count that a key must exceed in `thresholded_counts`.

    The T with ``P(least - 1 + j + noise > T) <= d j / k`` for a discrete Gaussian and
    all j from 1 to k, the rows of a unit, where d is 0.9 of the part of
    `threshold_delta` that one of the columns has; without noise it is one below
    `least`.

    Let f(z) = exp(-z^2 / (2 s^2)). Its sum over the integers is at least ``s sqrt(2
    pi)`` (Poisson summation: all other terms are positive), and where f is convex, ``z
    >= s``, each term is at most its integral over [z - 1/2, z + 1/2]. So ``P(noise >=
    t) <= Phi(-(t - 1/2) / s)`` for ``t - 1/2 >= s``. This T is convex in j (so is the
    normal quantile above the median), so the largest is that of 1 or of k.
    """
    fits = 0 < threshold_delta < 1
    check_range("threshold_delta", threshold_delta, fits, "in (0, 1)")
    if noise_std == 0:
        return least - 1
    # Room that the proof in `thresholded_counts` needs for removing a row.
    of_column = (1 - MAX_DISCOVERY_DELTA) * threshold_delta / n_columns
    largest = least - 1
    for j in {1, rows_per_unit}:
        share = of_column * j / rows_per_unit
        start = math.ceil(max(-float(ndtri(share)), 1.0) * noise_std + 0.5)
        # The quantile is rounded; the tail at the integer is what counts.
        while float(log_ndtr(-(start - 0.5) / noise_std)) > math.log(share):
            start += 1
        # least - 1 + j + noise > T means noise >= T + 2 - least - j for integers.
        largest = max(largest, start + least + j - 2)
    return largest


# GRID**2 times this still fits int64, so integer norms cannot overflow.
_MAX_DIMENSION = LARGEST // (GRID * GRID)


def _require_sensitivity(reservation: Reservation, needed: float) -> None:
    """Refuse a reservation that is forged, or too small for the statistic."""
    ledger_of(reservation)
    if reservation.sensitivity < needed:
        raise ReservationError(
            f"The reservation {reservation.name!r} is for sensitivity "
            f"{reservation.sensitivity:.6g}, but this release needs {needed:.6g}. "
            "Reserve for that sensitivity."
        )


def noisy_histogram(
    codes: Codes, n_bins: Sequence[int], reservation: Reservation, scale: int = 1
) -> list[Ints]:
    """Count the codes of every column and release all counts at once.

    Column j of `codes` (n_rows, n_columns) has whole numbers in [0, ``n_bins[j]``). A
    row adds `scale`, as in `noisy_pair_tables`, to the noisy counts of each column,
    which may be negative.

    Formal guarantees
    -----------------
    Sensitivity: a row is in exactly one bin of each column, so adding or removing it
    changes n_columns counts by `scale` each, an L2 norm of ``scale * sqrt(n_columns)``.
    """
    _require_sensitivity(reservation, scale * math.sqrt(len(n_bins)))
    counts = scale * np.concatenate(exact_counts(codes, n_bins))
    noisy = release_gaussian(counts, reservation)
    return np.split(noisy, np.cumsum(n_bins)[:-1])


def noisy_counts(codes: Codes, n_bins: int, reservation: Reservation) -> Ints:
    """Count the codes of one column and release the counts.

    Formal guarantees
    -----------------
    Sensitivity: a row is in exactly one bin, so it changes one count by 1.
    """
    column = Parts.of(codes).map(np.reshape, (-1, 1))
    return noisy_histogram(column, [n_bins], reservation)[0]


def noisy_unit_counts(codes: Codes, n_bins: int, reservation: Reservation) -> Floats:
    """Count units of privacy by their codes, one of each, whatever rows they have.

    The noisy counts may be negative.

    Formal guarantees
    -----------------
    Sensitivity, of a row: 1. A unit of up to k rows is in one bin and adds k to it,
    which is what k rows of sensitivity 1 may add. The noisy counts are divided by k
    again. The exact ones are clamped, so that k times as many do not pass 2**63.
    """
    _require_sensitivity(reservation, 1.0)
    weight = reservation.rows_per_unit
    (counts,) = exact_counts(Parts.of(codes).map(np.reshape, (-1, 1)), [n_bins])
    weighted = np.minimum(counts, LARGEST // weight) * weight
    return release_gaussian(weighted, reservation) / weight


def centred_histogram(
    codes: Codes,
    n_cells: Sequence[int],
    reservation: Reservation,
    size_weight: float = 0.0,
) -> Floats:
    """Count the codes of every column less their mean, and release all at once.

    Column j holds codes in [0, ``n_cells[j]``]; the last one is for rows that are in no
    cell of the column. The number of rows is released as well if its `size_weight` is
    positive; that of a count is 1. `CentredCounts` takes the numbers apart.

    Formal guarantees
    -----------------
    Sensitivity: let K be GRID. In a column of B cells, with ``a = floor(K / B)``, a row
    in a cell adds ``K - a`` to the number of that cell and ``-a`` to those of the
    others, a vector of squared norm ``q = (K - a)^2 + (B - 1) a^2``. A row in no cell
    adds ``floor(sqrt(q))`` to a number of its own and nothing to the cells, a vector of
    squared norm at most q. With 0 or 1 cells both add nothing. Every row adds ``floor(K
    size_weight)`` to the last number. Adding or removing a row moves the whole by an L2
    norm of at most the root of the sum of all q and the last square, which
    `centred_sensitivity` rounds up.

    The statistic is computed from the exact counts in whole numbers: cell b of a column
    with counts c has ``K c_b - a sum(c)``. Of each column the cells come first, then
    the rows in none; last come all rows, if weighted. Counts are at most `MOST_ROWS`,
    so K of one is at most 2**60, and so is ``floor(K / B)`` of B. The number of all
    rows is clamped to what its product has room for. The last code, of rows in no
    cell, is the only one beyond the cells that is not refused.
    """
    _require_sensitivity(reservation, centred_sensitivity(n_cells, size_weight))
    counts = exact_counts(codes, [n + 1 for n in n_cells])
    numbers = []
    for n, column in zip(n_cells, counts, strict=True):
        cells, (taken, _, apart) = column[:-1], _entries(n)
        numbers += [GRID * cells - taken * cells.sum(), apart * column[-1:]]
    entry = _size_entry(size_weight)
    if entry > 0:
        n_rows = int(counts[0].sum())  # a row has one code in a column
        numbers.append(np.array([entry * min(n_rows, LARGEST // entry)], np.int64))
    return release_gaussian(np.concatenate(numbers), reservation) / GRID


class WeightedTable(NamedTuple):
    """A table of some columns, whose rows are counted by one of their weights."""

    weight: int  # which of the weights of a row
    columns: tuple[int, ...]
    entry: int = GRID  # what a weight of GRID adds to a count


def noisy_weighted_tables(
    rows: Codes,
    n_bins: Sequence[int],
    tables: Sequence[WeightedTable],
    reservation: Reservation,
) -> Ints:
    """Add up weights of rows in the cells of tables, and release all cells at once.

    `rows` (n_rows, n_weights + n_columns) are whole numbers: weights >= 0, then codes,
    of which -1 is in no cell. All rows of a unit of privacy have a sum of each weight
    of GRID at most; the caller vouches for it, and for that they do not depend on
    other units. The cells of the tables come one after the other.

    Formal guarantees
    -----------------
    Sensitivity, of a unit with any number of rows: a row of weight w adds ``w * e //
    GRID`` to one cell of a table of entry e, or to none. So a unit adds numbers >= 0
    whose sum is at most e, a vector whose L2 norm is at most e. Together the tables
    move by at most the root of the sum of squared entries, `weighted_sensitivity`;
    that is reached if all weight is in one cell of each.
    """
    _require_sensitivity(reservation, weighted_sensitivity(tables))
    counts = Parts.of(rows).total(_weighted_of_part, [*n_bins], [*tables])
    return release_gaussian(counts, reservation)


def weighted_sensitivity(tables: Sequence[WeightedTable]) -> int:
    """Return the L2 sensitivity of `noisy_weighted_tables`: rounded up."""
    return math.isqrt(max(sum(own.entry**2 for own in tables) - 1, 0)) + 1


def _weighted_of_part(
    rows: Ints, n_bins: list[int], tables: list[WeightedTable]
) -> Ints:
    n_weights, counts = rows.shape[1] - len(n_bins), []
    for weight, columns, entry in tables:
        shape = [n_bins[j] for j in columns]
        codes = rows[:, [n_weights + j for j in columns]]
        weights = rows[:, weight] * entry // GRID
        inside = np.flatnonzero((codes >= 0).all(axis=1) & (weights > 0))
        cells = np.ravel_multi_index((*codes[inside].T,), shape)
        # In floats, which are exact: no part has 2**30 rows.
        sums = np.bincount(cells, weights[inside], math.prod(shape))
        counts.append(sums.astype(np.int64))
    return np.concatenate(counts)


def thresholded_counts(
    counts_by_column: Sequence[Sequence[int] | Ints],
    reservation: Reservation,
    threshold_delta: float,
    names: Callable[[], Sequence[Sequence[Hashable]]] | None = None,
    *,
    least: int = MIN_KEY_COUNT,
) -> list[tuple[NDArray[np.intp], Ints]]:
    """Discover keys that are private themselves, such as the categories of a column.

    Given are the exact counts of the keys present in each column; each row has at most
    one key per column. Keys of fewer than `least` rows are not considered and may be
    left out. `threshold_delta`, of the reservation, bounds a probability for all
    columns together. For every column come back the sorted positions of the keys whose
    noisy count exceeds the threshold, and those counts; the caller orders keys by name.
    `names` gives those of the keys to the observer of a test; else nobody calls it.

    Formal guarantees
    -----------------
    Sensitivity, of the counts that both tables consider: ``sqrt(n_columns)``. The rest
    costs `threshold_delta`.

    Proof. Let D' be D with one more row, and M the whole fit. In each column the row
    raises one key's count from c to c + 1. With c >= least the key is noised in both
    worlds and its count differs by 1; with c + 1 < least it is considered in neither.
    So the counts considered in both differ by an L2 norm of at most
    ``sqrt(n_columns)``. What is left are columns with c + 1 = least: their key is
    considered in D' only. One of them passes with
    probability at most ``d = 0.9 threshold_delta`` (union bound, d / n_columns each),
    independently of all other noise.

    If a unit has up to k rows, D' has k more. They raise the counts of keys of a column
    by numbers j that add up to k at most. Counts considered in both differ by ``k
    sqrt(n_columns)``, k times as much. A key that is considered in D' only has at most
    ``least - 1 + j`` rows, and passes with probability at most ``d j / (k n_columns)``
    (`key_threshold`), so all of a column with at most ``d / n_columns``, as above. The
    bound is linear in j: a unit with rows in several classes, each with thresholds of
    its own, moves all of them together as if all its rows were in one class.

    Let Q be the law of M(D), and P that of M(D') given that no such key passes. P and Q
    are a Gaussian composition; let g be its delta at epsilon. Let d now be the sum over
    all thresholded releases of the fit, t the sum of their threshold_delta; the
    accountant keeps t <= 0.1. One direction: ``P[M(D') in S] <= P(S) + d <= e^epsilon
    Q(S) + g + d``. The other: ``P[M(D') in S] >= (1 - d) P(S)``, so ``Q(S) - e^epsilon
    P[M(D') in S] <= g + e^epsilon d P(S)``. It is enough to look at the S where M(D) is
    more than e^epsilon times as likely; there ``e^epsilon (1 - d) P(S) <= Q(S) <= 1``,
    so the last term is at most ``d / (1 - d) <= t``, because ``d <= 0.9 t`` and ``t <=
    0.1``.

    Counts above 2**40 are clamped to it. Without rows, or keys of `least` rows, no key
    is released, and the reservation is used all the same.
    """
    n_columns = len(counts_by_column)
    if n_columns == 0:
        raise ValueError("Expected at least one column of counts. Got none.")
    _require_sensitivity(reservation, math.sqrt(n_columns))
    if reservation.delta < threshold_delta:
        raise ReservationError(
            f"The reservation {reservation.name!r} has a delta of "
            f"{reservation.delta:.6g}, but this release needs {threshold_delta:.6g}. "
            "Reserve with that delta."
        )
    threshold = key_threshold(
        reservation.noise_std,
        threshold_delta,
        n_columns,
        least,
        reservation.rows_per_unit,
    )
    columns = [clamped_counts(counts) for counts in counts_by_column]
    considered = [np.flatnonzero(counts >= least) for counts in columns]
    both = zip(columns, considered, strict=True)
    exact = np.concatenate([counts[keys] for counts, keys in both])

    def considered_keys() -> list[tuple[int, Hashable]]:
        """Return column and name of the keys that are considered; private."""
        assert names is not None
        both = enumerate(zip(names(), considered, strict=True))
        return [(j, named[k]) for j, (named, keys) in both for k in keys.tolist()]

    with telling(names and considered_keys, least=least):
        noisy = release_gaussian(exact, reservation)
    ends = np.cumsum([len(keys) for keys in considered])[:-1]
    released = []
    for keys, counts in zip(considered, np.split(noisy, ends), strict=True):
        passed = counts > threshold
        released.append((keys[passed], counts[passed]))
    return released


def gaussian_sum(
    vectors: NDArray[np.floating], clip: float, reservation: Reservation
) -> Floats:
    """Sum one clipped vector per teacher and release the sum.

    Row i of `vectors` (n_teachers, n_dimensions) is computed from the rows of teacher i
    alone, and from public facts; `clip` is the L2 norm to which it is clipped. The
    noisy sum is in the units of the vectors, its noise ``noise_std * clip / GRID`` a
    number.

    Formal guarantees
    -----------------
    Sensitivity: a row trains one teacher, and can change that teacher's vector from
    any clipped vector to any other, so the sum moves by up to twice the clipping
    norm. On the grid: each clipped vector is truncated towards 0 to multiples of
    ``clip / GRID``, and a teacher whose integer norm still exceeds GRID (rounding)
    sends 0. The sum is exact in int64, which has room for 2**43 teachers, so its
    sensitivity is exactly ``2 * GRID``. Nothing is computed across teachers before.

    Entries that are not finite count as 0; a teacher whose norm overflows sends 0.
    More than 2**40 teachers are refused, and a clip that is not positive and finite.
    Without teachers the sum is 0.
    """
    if vectors.ndim != 2 or not 0 < vectors.shape[1] <= _MAX_DIMENSION:
        raise ValueError(
            "Expected vectors of shape (n_teachers, n_dimensions) with 1 to "
            f"{_MAX_DIMENSION} dimensions. Got shape {vectors.shape} instead."
        )
    check_range("clip", clip, 0 < clip < math.inf, "positive and finite")
    n_teachers, n_dimensions = vectors.shape
    fits = n_teachers <= MOST_ROWS  # it is public
    check_range("The number of teachers", n_teachers, fits, "at most 2**40")
    _require_sensitivity(reservation, 2 * GRID)
    total = np.zeros(n_dimensions, dtype=np.int64)
    step = Parts.rows_at_once(n_dimensions)
    for start in range(0, n_teachers, step):
        total += _on_grid(vectors[start : start + step], clip).sum(axis=0)
    with telling(by_teacher=lambda: _on_grid(vectors, clip)):
        noisy = release_gaussian(total, reservation)
    return noisy.astype(np.float64) * (clip / GRID)


def _on_grid(vectors: NDArray[np.floating], clip: float) -> Ints:
    """Clip each row and truncate it to the grid; the integer norm is <= GRID."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.array(vectors, dtype=np.float64, order="C") / clip
        scaled[~np.isfinite(scaled)] = 0.0
        norms = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    # An overflowing norm is inf and its teacher sends 0.
    scaled *= GRID / np.maximum(norms, 1.0)
    # The cut only keeps the squares below 2**62; the test below decides.
    grid = np.trunc(np.clip(scaled, -GRID, GRID)).astype(np.int64)
    too_long = (grid * grid).sum(axis=1) > GRID**2
    grid[too_long] = 0
    return grid


def gnmax(votes: Ints, reservation: Reservation) -> Ints:
    """Answer queries by the teachers' noisy plurality, (n_queries,).

    Each teacher votes once per query, for one of the bins: (n_queries, n_bins).
    Papernot et al. (2018), "Scalable Private Learning with PATE", section 3.2
    (https://arxiv.org/abs/1802.08908).

    Formal guarantees
    -----------------
    Sensitivity: a row can change one teacher's vote, which moves one count up and one
    down: the histogram by ``sqrt(2)``. Each query is charged as one release.

    Votes without a query or without a bin are refused.
    """
    if votes.ndim != 2 or 0 in votes.shape:
        raise ValueError(
            "Expected votes of shape (n_queries, n_bins), neither of them 0. "
            f"Got shape {votes.shape} instead."
        )
    _require_sensitivity(reservation, math.sqrt(2))
    counts = release_gaussian(votes, reservation, len(votes))
    return np.asarray(counts.argmax(axis=1), dtype=np.int64)


def noisy_votes(counts: Ints, n_teachers: int, reservation: Reservation) -> Bools:
    """Answer yes-or-no queries by the teachers' noisy majority, (n_queries,).

    `counts` (n_queries,), int64, are the teachers that say yes, in [0, `n_teachers`].
    An answer is whether the noisy count exceeds half the teachers. The reservation is
    from ``reserve_votes``.

    Formal guarantees
    -----------------
    Sensitivity: a row can change one teacher, hence every count by at most 1, and
    each query is charged as one. The noise is one-dimensional: the noisy number of
    noes would tell nothing more.

    Counts without a query, or of more votes than teachers, are refused.
    """
    if counts.ndim != 1 or len(counts) == 0:
        msg = f"Expected counts of shape (n_queries,). Got {counts.shape} instead."
        raise ValueError(msg)
    if np.any((counts < 0) | (counts > n_teachers)):
        msg = "Expected counts in [0, n_teachers]: one vote of each teacher per query."
        raise ValueError(msg)
    ledger_of(reservation)
    if reservation.n_teachers != n_teachers:
        raise ReservationError(
            f"The reservation {reservation.name!r} is for votes of "
            f"{reservation.n_teachers} teachers. Got {n_teachers} instead; ask "
            "PrivacyAccountant.reserve_votes for one."
        )
    return release_votes(counts, reservation)


# Norm of a row of whole numbers, whose second moments are released, at most.
LENGTH = 2**12
# Products above the diagonal have at most half the squared norm of all, LENGTH**4.
MOMENTS_SENSITIVITY = LENGTH**2 / math.sqrt(2.0)


def exact_pair_counts(codes: Codes, n_bins: Sequence[int]) -> Ints:
    """Count how often two bins come together, without noise: private.

    Symmetric, of shape (D, D): the D bins of all columns stand one after the other.
    Column j holds codes in [0, ``n_bins[j]``). No count is above `MOST_ROWS`.
    """
    bins = np.asarray(n_bins, dtype=np.int64)
    counts = clamped_counts(Parts.of(codes).total(_pair_counts_of_part, bins))
    return np.asarray(counts + np.triu(counts, 1).T)


def _pair_counts_of_part(codes: NDArray[np.integer], bins: Ints) -> Ints:
    """Count the pairs of the rows of a part: on the diagonal and above."""
    starts = _starts_of_bins(codes, bins)
    width = int(starts[-1])
    total = np.zeros((width, width), dtype=np.int64)
    # As many rows as stay in cache, but not fewer than there are cells to be added.
    most = int(bins.max(initial=1))
    step = max(CHUNK_ROWS, most * width // max(len(bins), 1))
    workspace = np.empty((len(bins), min(step, len(codes))), dtype=np.int64)
    for rows in in_chunks(len(codes), step):
        chunk = np.ascontiguousarray(codes[rows].T, dtype=np.int64)
        places = chunk + starts[:-1, None]
        for j, (start, n) in enumerate(zip(starts, bins, strict=False)):
            # The bin of this column, and of each column from here on: one number.
            cells = workspace[j:, : chunk.shape[1]]
            np.add(places[j:], chunk[j] * (width - start) - start, out=cells)
            counted = np.bincount(cells.ravel(), minlength=n * (width - start))
            total[start : start + n, start:] += counted.reshape(n, -1)
    return total


def noisy_pair_tables(
    codes: Codes,
    n_bins: Sequence[int],
    pairs: NDArray[np.integer],
    reservation: Reservation,
    scale: int = 1,
) -> Ints:
    """Release the tables of some pairs of columns, all at once.

    `codes` and `n_bins` as for `noisy_histogram`; `pairs` (n_pairs, 2) are columns i <
    j, each pair once. A row adds `scale` to a count, from 1 to 2**20: the noise of
    whole numbers has a variance that is higher by up to 4, which a large scale makes
    negligible. The noisy counts times the scale, (D, D), may be negative; they are 0
    outside the blocks (i, j) of the pairs.

    Formal guarantees
    -----------------
    Sensitivity: a row is in exactly one cell of each table, so adding or removing it
    changes n_pairs counts by `scale` each, an L2 norm of ``scale * sqrt(n_pairs)``.

    Pairs that are not of columns i < j, or come twice, are refused.
    """
    measured = measured_cells(n_bins, pairs)
    _require_sensitivity(reservation, scale * math.sqrt(len(pairs)))
    counts = scale * exact_pair_counts(codes, n_bins)
    released = np.zeros_like(counts)
    released[measured] = release_gaussian(counts[measured], reservation)
    return released


def noisy_pair_distances(
    codes: Codes,
    n_bins: Sequence[int],
    expected: NDArray[np.integer],
    reservation: Reservation,
) -> Ints:
    """Release how far the table of every pair of columns is from an expected one.

    `codes` and `n_bins` as for `noisy_histogram`; the blocks (i, j) of `expected` (D,
    D), whole numbers that follow from releases, are compared. The noisy L1 distances
    are in the order of ``numpy.triu_indices(n_columns, 1)``.

    Formal guarantees
    -----------------
    Sensitivity: a row changes one cell of each table by 1, and so each of the P
    distances by at most 1: an L2 norm of at most ``sqrt(P)``. What a cell adds is
    clamped, so that all cells together do not pass 2**63.

    What is expected is refused if it is not whole. Without rows the distances are those
    of an empty table.
    """
    n_columns = len(n_bins)
    first, second = np.triu_indices(n_columns, 1)
    _require_sensitivity(reservation, math.sqrt(len(first)))
    if not np.issubdtype(expected.dtype, np.integer):
        raise ValueError(f"Expected whole numbers. Got a table of {expected.dtype}.")
    public = np.clip(expected, -MOST_ROWS, MOST_ROWS).astype(np.int64)
    off = np.abs(exact_pair_counts(codes, n_bins) - public)
    off = np.minimum(off, LARGEST // max(off.size, 1))
    starts = np.concatenate(([0], np.cumsum(n_bins)))[:-1]
    blocks = np.add.reduceat(np.add.reduceat(off, starts, axis=0), starts, axis=1)
    return release_gaussian(blocks[first, second], reservation)


def measured_cells(n_bins: Sequence[int], pairs: NDArray[np.integer]) -> Bools:
    """Return which (D, D) cells, above the diagonal, are in the tables of pairs."""
    chosen = np.zeros((len(n_bins), len(n_bins)), dtype=bool)
    chosen[pairs[:, 0], pairs[:, 1]] = True
    if chosen.sum() != len(pairs) or np.tril(chosen).any():
        raise ValueError("Expected pairs of columns i < j, each of them once.")
    return np.asarray(np.repeat(np.repeat(chosen, n_bins, axis=0), n_bins, axis=1))


def noisy_triple_tables(
    codes: Codes,
    n_groups: int,
    triples: NDArray[np.integer],
    reservation: Reservation,
    scale: int = 1,
) -> Ints:
    """Release the tables of some triples of columns, all at once.

    Every column has `n_groups` bins; `triples` (n_triples, 3) are columns i < j < k,
    each once. A row adds `scale`, as in `noisy_pair_tables`, to the noisy counts
    (n_triples, n_groups, n_groups, n_groups), which may be negative.

    Formal guarantees
    -----------------
    Sensitivity: a row is in exactly one cell of each table, so adding or removing it
    changes n_triples counts by `scale` each, an L2 norm of ``scale * sqrt(n_triples)``.

    Triples that are not of columns i < j < k, or come twice, are refused.
    """
    in_order = triples.ndim == 2 and triples.shape[1:] == (3,)
    if not in_order or np.any(np.diff(triples, axis=1) <= 0) or np.any(triples < 0):
        raise ValueError("Expected triples of columns i < j < k.")
    if len(np.unique(triples, axis=0)) != len(triples):
        raise ValueError("Expected each triple once.")
    _require_sensitivity(reservation, scale * math.sqrt(len(triples)))
    counted = Parts.of(codes).total(_triple_counts_of_part, n_groups, triples)
    return release_gaussian(scale * clamped_counts(counted), reservation)


def _triple_counts_of_part(
    codes: NDArray[np.integer], n_groups: int, triples: NDArray[np.integer]
) -> Ints:
    """Count the rows of a part in the cells of every triple."""
    _starts_of_bins(codes, [n_groups] * codes.shape[1])
    if triples.max(initial=0) >= codes.shape[1]:
        raise ValueError("Expected triples of the columns that the codes have.")
    shape = len(triples), n_groups, n_groups, n_groups
    total = np.zeros(math.prod(shape), dtype=np.int64)
    offsets = n_groups**3 * np.arange(len(triples), dtype=np.int64)[:, None]
    for rows in in_chunks(len(codes), Parts.rows_at_once(len(triples))):
        by_column = np.ascontiguousarray(codes[rows].T, dtype=np.int64)
        first, second, third = (by_column[places] for places in triples.T)
        cells = (first * n_groups + second) * n_groups + third + offsets
        total += np.bincount(cells.ravel(), minlength=len(total))
    return total.reshape(shape)


def noisy_second_moments(
    scores: NDArray[np.floating] | Parts,
    means: Floats,
    unit: float,
    reservation: Reservation,
) -> Floats:
    """Release the sums over the rows of the products of all pairs of scores.

    `means` are taken off the scores (n_rows, n_columns), which are then counted in a
    positive `unit` and shortened to a length of `LENGTH` of them. The noisy sums, in
    squared units of the scores, are in the order of ``numpy.triu_indices(n_columns,
    1)``.

    Formal guarantees
    -----------------
    Sensitivity: a row r of whole numbers with ``|r| <= LENGTH`` adds r_i r_j for i < j,
    whose squares add up to ``(|r|^4 - sum r_i^4) / 2 <= LENGTH^4 / 2``, the square of
    `MOMENTS_SENSITIVITY`. Numbers are truncated towards 0, so no row becomes longer.
    The sums are exact, and clamped at 2**63 only as a whole.

    Scores that are not finite count as the mean.
    """
    _require_sensitivity(reservation, MOMENTS_SENSITIVITY)
    sums = Parts.of(scores).total(_moments_of_part, means, unit)
    clamped = np.clip(sums, -LARGEST, LARGEST).astype(np.int64)
    noisy = release_gaussian(clamped, reservation)
    return noisy.astype(np.float64) * unit**2


def _moments_of_part(
    scores: NDArray[np.floating], means: Floats, unit: float
) -> NDArray[np.object_]:
    """Add up the products of the rows of a part, in Python's integers."""
    n_columns = len(means)
    total = np.zeros((n_columns, n_columns), dtype=np.int64)
    for rows in in_chunks(len(scores)):  # so few that doubles hold their sums exactly
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (scores[rows].astype(np.float64) - means) / unit
            scaled[~np.isfinite(scaled)] = 0.0
            lengths = np.sqrt(np.square(scaled).sum(axis=1, keepdims=True))
            # Truncated towards 0, so no row becomes longer; one is for rounding.
            scaled *= (LENGTH - 1.0) / np.maximum(lengths, LENGTH - 1.0)
        scaled = np.trunc(np.nan_to_num(scaled, nan=0.0, posinf=0.0, neginf=0.0))
        # Whatever happened before.
        scaled[np.square(scaled).sum(axis=1) > LENGTH**2] = 0.0
        total += (scaled.T @ scaled).astype(np.int64)  # whole and below 2**53: exact
    return total[np.triu_indices(n_columns, 1)].astype(object)
