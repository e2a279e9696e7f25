"""Parities: what only four columns or more together show.

Every column of a class is cut into two halves. The parity of a set of columns is 1 in a
row where an even number of them is in its upper half, and -1 where an odd number is.
Tables of two and three columns say the parities of smaller sets.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skdpsynth.privacy import Parts, noisy_parities

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from skdpsynth.measure._tables import TableBins
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.table import PrivateRows

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_SMALLEST = 4  # columns of a set: tables say what fewer have in common
# Of tables whose parities are measured. With up to 19 columns, and so with even numbers
# of bins, C2ST of Adult (14) at epsilon 1 rose from .659 to .676.
PARITY_COLUMNS = range(_SMALLEST, 12)
# Rows of a class over the noise of a sum, from which larger sets are measured too: a
# parity is used from 5 noise deviations on, so that one of 0.5 shows.
_ROWS_FROM = 10.0


class Parities(NamedTuple):
    """The parities of sets of columns that were measured in one class."""

    halves: Ints  # (D,), of each bin: 1 in the upper half of its column, else 0
    sets: NDArray[np.bool_]  # (n_sets, n_columns)
    sums: Floats  # (n_sets,), of the parities of all rows
    noise_std: float  # of a sum


def n_sets(n_columns: int, order: int) -> int:
    """Give the number of sets of four to `order` columns."""
    return sum(math.comb(n_columns, size) for size in range(_SMALLEST, order + 1))


def sets_of(n_columns: int, order: int) -> NDArray[np.bool_]:
    """List the sets of four to `order` columns, of shape (n_sets, n_columns)."""
    columns = range(n_columns)
    listed = [
        own
        for size in range(_SMALLEST, order + 1)
        for own in combinations(columns, size)
    ]
    found = np.zeros((len(listed), n_columns), dtype=bool)
    for row, own in zip(found, listed, strict=True):
        row[list(own)] = True
    return found


def highest_order(n_rows: float, n_columns: int, mu: float) -> int:
    """Give the columns of the largest sets whose parities are measured; 0 for none.

    All sets of four to so many columns are measured, with `mu` for all of them; the
    planned rows of the class are clear of their noise.
    """
    if n_columns not in PARITY_COLUMNS or mu == 0:
        return 0
    found = 0
    for order in range(_SMALLEST, n_columns + 1):
        if n_rows >= _ROWS_FROM * parities_noise_std(n_columns, order, mu):
            found = order
    return found


def parities_noise_std(n_columns: int, order: int, mu: float) -> float:
    """Give the planned noise of the sum of a parity."""
    return math.sqrt(n_sets(n_columns, order)) / mu


def measure_parities(
    rows: PrivateRows | Parts,
    bins: TableBins,
    shares: Floats,
    order: int,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
) -> Parities:
    """Measure the parities of all sets of four to `order` columns in one class.

    For `mu` together. Columns are cut where `shares` (D,), released before, are about
    halved.
    """
    halves = bins.groups(shares, 2)
    codes = Parts.of(rows).map(bins.encode).map(_halved, halves, bins.starts[:-1])
    sets = sets_of(len(bins.sizes), order)
    reservation = accountant.reserve_gaussian(
        f"parities of {len(sets)} sets of 4 to {order} columns",
        mu=mu,
        sensitivity=math.sqrt(len(sets)),
        scope=scope,
    )
    sums = noisy_parities(codes, sets, reservation)
    return Parities(halves, sets, sums.astype(np.float64), reservation.noise_std)


def _halved(
    codes: NDArray[np.integer], halves: Ints, starts: Ints
) -> NDArray[np.uint8]:
    """Give the halves of the bins of rows; private."""
    return np.asarray(halves.astype(np.uint8)[codes + starts])
