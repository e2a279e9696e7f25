"""What is measured of several columns together, with the sensitivity beside it.

Tables of two and of three columns: a row is in exactly one cell of each. Second moments
of scores, for tables with too many columns for that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.privacy._aggregators import require_sensitivity, starts_of_bins
from skdpsynth.privacy._mechanisms import release_gaussian
from skdpsynth.privacy._parts import (
    LARGEST,
    MOST_ROWS,
    Parts,
    clamped_counts,
    clamped_total,
    halves,
)
from skdpsynth.utils import CHUNK_ROWS, in_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skdpsynth.privacy._accountant import Reservation

    Codes = NDArray[np.integer] | Parts


# Norm of a row of whole numbers, whose second moments are released, at most.
LENGTH = 2**12
# Half of the squared norm of the products of a row: those above the diagonal.
MOMENTS_SENSITIVITY = LENGTH**2 / math.sqrt(2.0)


def exact_pair_counts(codes: Codes, n_bins: Sequence[int]) -> NDArray[np.int64]:
    """Count how often two bins come together, without noise: private.

    Symmetric, of shape (D, D): the D bins of all columns stand one after the other.
    Column j holds codes in [0, ``n_bins[j]``). No count is above `MOST_ROWS`.
    """
    bins = np.asarray(n_bins, dtype=np.int64)
    counts = clamped_counts(Parts.of(codes).total(_pair_counts_of_part, bins))
    return np.asarray(counts + np.triu(counts, 1).T)


def _pair_counts_of_part(
    codes: NDArray[np.integer], bins: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count the pairs of the rows of a part: on the diagonal and above."""
    starts = starts_of_bins(codes, bins)
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
            found = np.bincount(cells.ravel(), minlength=n * (width - start))
            total[start : start + n, start:] += found.reshape(n, -1)
    return total


def noisy_pair_tables(
    codes: Codes,
    n_bins: Sequence[int],
    pairs: NDArray[np.integer],
    reservation: Reservation,
    scale: int = 1,
) -> NDArray[np.int64]:
    """Release the tables of some pairs of columns, all at once.

    Parameters
    ----------
    codes, n_bins
        As for `exact_pair_counts`.
    pairs : ndarray of shape (n_pairs, 2), integer
        Columns i < j of each pair, each pair once; public.
    reservation : Reservation
        With sensitivity at least ``scale * sqrt(n_pairs)``.
    scale : int, default=1
        What a row adds to a count, from 1 to 2**20. The noise of whole numbers has a
        variance that is higher by up to 4, which a large scale makes negligible.

    Returns
    -------
    ndarray of shape (D, D), int64
        Noisy counts times the scale in the blocks (i, j) of the pairs, which may be
        negative; 0 elsewhere.

    Raises
    ------
    ReservationError
        When the reservation is not for this sensitivity, or invalid.
    ValueError
        When shapes disagree, a code is out of range, or `pairs` are no such pairs.

    Notes
    -----
    Sensitivity: a row is in exactly one cell of each table, so adding or removing it
    changes n_pairs counts by one each, an L2 norm of ``sqrt(n_pairs)``.
    """
    measured = measured_cells(n_bins, pairs)
    require_sensitivity(reservation, scale * math.sqrt(len(pairs)))
    counts = scale * exact_pair_counts(codes, n_bins)
    released = np.zeros_like(counts)
    released[measured] = release_gaussian(counts[measured], reservation)
    return released


def noisy_pair_distances(
    codes: Codes,
    n_bins: Sequence[int],
    expected: NDArray[np.integer],
    reservation: Reservation,
) -> NDArray[np.int64]:
    """Release how far the table of every pair of columns is from an expected one.

    Parameters
    ----------
    codes, n_bins
        As for `exact_pair_counts`.
    expected : ndarray of shape (D, D), integer
        A function of releases. Its blocks (i, j) with i < j are compared.
    reservation : Reservation
        With sensitivity at least ``sqrt(n_columns (n_columns - 1) / 2)``.

    Returns
    -------
    ndarray of shape (n_columns (n_columns - 1) / 2,), int64
        Noisy L1 distances, in the order of ``numpy.triu_indices(n_columns, 1)``.

    Raises
    ------
    ReservationError
        When the reservation is not for this sensitivity, or invalid.
    ValueError
        When shapes disagree, a code is out of range, or `expected` is not whole.

    Notes
    -----
    Sensitivity: a row changes one cell of each table by 1, and so each of the P
    distances by at most 1: an L2 norm of at most ``sqrt(P)``. What a cell adds is
    clamped, so that all cells together do not pass 2**63.
    """
    n_columns = len(n_bins)
    first, second = np.triu_indices(n_columns, 1)
    require_sensitivity(reservation, math.sqrt(len(first)))
    if not np.issubdtype(expected.dtype, np.integer):
        raise ValueError(f"Expected whole numbers. Got a table of {expected.dtype}.")
    public = np.clip(expected, -MOST_ROWS, MOST_ROWS).astype(np.int64)
    off = np.abs(exact_pair_counts(codes, n_bins) - public)
    off = np.minimum(off, LARGEST // max(off.size, 1))
    starts = np.concatenate(([0], np.cumsum(n_bins)))[:-1]
    blocks = np.add.reduceat(np.add.reduceat(off, starts, axis=0), starts, axis=1)
    return release_gaussian(blocks[first, second], reservation)


def measured_cells(
    n_bins: Sequence[int], pairs: NDArray[np.integer]
) -> NDArray[np.bool_]:
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
) -> NDArray[np.int64]:
    """Release the tables of some triples of columns, all at once.

    `n_groups` bins of every column and `triples` (n_triples, 3) of columns i < j < k,
    each once, are public. A row adds `scale`, as in `noisy_pair_tables`, to each of the
    noisy counts (n_triples, n_groups, n_groups, n_groups), which may be negative. The
    reservation's sensitivity is at least ``scale * sqrt(n_triples)``.

    Sensitivity: a row is in exactly one cell of each table, so adding or removing it
    changes n_triples counts by one each, an L2 norm of ``sqrt(n_triples)``.
    """
    in_order = triples.ndim == 2 and triples.shape[1:] == (3,)
    if not in_order or np.any(np.diff(triples, axis=1) <= 0) or np.any(triples < 0):
        raise ValueError("Expected triples of columns i < j < k.")
    if len(np.unique(triples, axis=0)) != len(triples):
        raise ValueError("Expected each triple once.")
    require_sensitivity(reservation, scale * math.sqrt(len(triples)))
    counted = Parts.of(codes).total(_triple_counts_of_part, n_groups, triples)
    return release_gaussian(scale * clamped_counts(counted), reservation)


def _triple_counts_of_part(
    codes: NDArray[np.integer], n_groups: int, triples: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Count the rows of a part in the cells of every triple."""
    starts_of_bins(codes, [n_groups] * codes.shape[1])
    if triples.max(initial=0) >= codes.shape[1]:
        raise ValueError("Expected triples of the columns that the codes have.")
    shape = len(triples), n_groups, n_groups, n_groups
    total = np.zeros(math.prod(shape), dtype=np.int64)
    offsets = n_groups**3 * np.arange(len(triples), dtype=np.int64)[:, None]
    for rows in in_chunks(len(codes), Parts.rows_at_once(len(triples))):
        by_column = np.ascontiguousarray(codes[rows].T, dtype=np.int64)
        first, second, third = (by_column[own] for own in triples.T)
        cells = (first * n_groups + second) * n_groups + third + offsets
        total += np.bincount(cells.ravel(), minlength=len(total))
    return total.reshape(shape)


def noisy_second_moments(
    scores: NDArray[np.floating] | Parts,
    means: NDArray[np.float64],
    unit: float,
    reservation: Reservation,
) -> NDArray[np.float64]:
    """Release the sums over the rows of the products of all pairs of scores.

    Finite public `means` are taken off the scores (n_rows, n_columns), which are then
    counted in a positive public `unit` and shortened to a length of `LENGTH` of them.
    The noisy sums, in squared units of the scores, are in the order of
    ``numpy.triu_indices(n_columns, 1)``. The reservation's sensitivity is at least
    `MOMENTS_SENSITIVITY`.

    Sensitivity: a row r of whole numbers with ``|r| <= LENGTH`` adds r_i r_j for i < j,
    whose squares add up to ``(|r|^4 - sum r_i^4) / 2 <= LENGTH^4 / 2``. The sums are
    exact, and clamped at 2**63 only as a whole.
    """
    require_sensitivity(reservation, MOMENTS_SENSITIVITY)
    sums = Parts.of(scores).total(_moments_of_part, means, unit)
    noisy = release_gaussian(clamped_total(sums), reservation)
    return noisy.astype(np.float64) * unit**2


def _moments_of_part(
    scores: NDArray[np.floating], means: NDArray[np.float64], unit: float
) -> NDArray[np.int64]:
    """Add up the products of the rows of a part, in two halves, (2, n_products)."""
    n_columns = len(means)
    total = np.zeros((n_columns, n_columns), dtype=np.int64)
    for rows in in_chunks(len(scores)):  # so few that doubles hold their sums exactly
        with np.errstate(over="ignore", invalid="ignore"):
            own = (scores[rows].astype(np.float64) - means) / unit
            own[~np.isfinite(own)] = 0.0
            lengths = np.sqrt(np.square(own).sum(axis=1, keepdims=True))
            # Truncated towards 0, so no row becomes longer; one is for rounding.
            own *= (LENGTH - 1.0) / np.maximum(lengths, LENGTH - 1.0)
        own = np.trunc(np.nan_to_num(own, nan=0.0, posinf=0.0, neginf=0.0))
        own[np.square(own).sum(axis=1) > LENGTH**2] = 0.0  # whatever happened before
        total += (own.T @ own).astype(np.int64)
    return np.stack(halves(total[np.triu_indices(n_columns, 1)]))
