"""Counts of pairs of columns: how often two bins come together.

A row is in exactly one cell of the table of a pair.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.privacy._aggregators import require_sensitivity
from skdpsynth.privacy._integers import LARGEST, MOST_ROWS, clamped_counts
from skdpsynth.privacy._mechanisms import release_gaussian
from skdpsynth.privacy._parts import Parts
from skdpsynth.utils import in_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skdpsynth.privacy._reservation import Reservation

# Rows that are worked on at a time, at least.
_CHUNK_ROWS = 2**13


def exact_pair_counts(
    codes: NDArray[np.integer] | Parts, n_bins: Sequence[int]
) -> NDArray[np.int64]:
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
    if codes.ndim != 2 or codes.shape[1] != len(bins) or bins.min(initial=1) < 1:
        raise ValueError(
            "Expected codes of shape (n_rows, n_columns) and one positive number of "
            f"bins per column. Got shape {codes.shape} and {len(bins)} numbers."
        )
    if np.any((codes < 0) | (codes >= bins)):
        raise ValueError("Expected integer codes in [0, n_bins[j]) in column j.")
    starts = np.concatenate(([0], np.cumsum(bins)))
    width = int(starts[-1])
    total = np.zeros((width, width), dtype=np.int64)
    # As many rows as stay in cache, but not fewer than there are cells to be added.
    most = int(bins.max(initial=1))
    step = max(_CHUNK_ROWS, most * width // max(len(bins), 1))
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
    codes: NDArray[np.integer] | Parts,
    n_bins: Sequence[int],
    pairs: NDArray[np.integer],
    reservation: Reservation,
) -> NDArray[np.int64]:
    """Release the tables of some pairs of columns, all at once.

    Parameters
    ----------
    codes, n_bins
        As for `exact_pair_counts`.
    pairs : ndarray of shape (n_pairs, 2), integer
        Columns i < j of each pair, each pair once; public.
    reservation : Reservation
        With sensitivity at least ``sqrt(n_pairs)``.

    Returns
    -------
    ndarray of shape (D, D), int64
        Noisy counts in the blocks (i, j) of the pairs, which may be negative; 0
        elsewhere.

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
    require_sensitivity(reservation, math.sqrt(len(pairs)))
    counts = exact_pair_counts(codes, n_bins)
    released = np.zeros_like(counts)
    released[measured] = release_gaussian(counts[measured], reservation)
    return released


def noisy_pair_distances(
    codes: NDArray[np.integer] | Parts,
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
    """Say which (D, D) cells, above the diagonal, are in the tables of pairs."""
    chosen = np.zeros((len(n_bins), len(n_bins)), dtype=bool)
    chosen[pairs[:, 0], pairs[:, 1]] = True
    if chosen.sum() != len(pairs) or np.tril(chosen).any():
        raise ValueError("Expected pairs of columns i < j, each of them once.")
    return np.asarray(np.repeat(np.repeat(chosen, n_bins, axis=0), n_bins, axis=1))
