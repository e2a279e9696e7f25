"""Pair tables: how often two columns take two bins together, bought per class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skdpsynth.preprocessing._shares import CHOICE_SHARE, PAIRS_SHARE
from skdpsynth.privacy._calibration import grid_noise_std
from skdpsynth.privacy._pair_tables import (
    measured_cells,
    noisy_pair_distances,
    noisy_pair_tables,
)
from skdpsynth.privacy._parts import Parts

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._bins import TableBins
    from skdpsynth.preprocessing._columns import PrivateRows
    from skdpsynth.privacy import PrivacyAccountant

_CHOSEN_FROM = 300  # pairs: with fewer, all of them are bought
_LEAST_BINS = 4  # of a column
# Of all columns together, by their number. What a fit costs grows with the square; a
# wide table is learnt better by more components of fewer bins.
_MOST_BINS = (15, 20), (500, 330)
# Mean count of a cell over its noise; what regressors learn of a measured target
# comes from the means of many cells, which few bins know better.
_CELL_FROM, _MEASURED_CELL_FROM = 2.0, 4.0
_ROWS_FROM = 40.0  # of a class, in noise deviations of a count
_BEST_FROM = 200.0  # the same, from which pairs say more than products of scores do
# With so many columns, a few coarse cells of each pair say less than factors do.
_MOST_COLUMNS = 120
# Rows of a class that borrows dependence, as a share of those of the lender: a class
# that is rarer is taken for something else than the rest.
_ALIKE = 0.01
_DENIED = 4.0  # noise deviations from which a number of rows is not that of the tables


class PairTables(NamedTuple):
    """What was released of the pairs of columns in one class."""

    counts: NDArray[np.float32]  # (D, D), above the diagonal; 0 if not measured
    measured: NDArray[np.bool_]  # (D, D)
    noise_std: float  # of a count, in rows
    n_rows: float  # as known, or that of the tables if they deny it

    @classmethod
    def nothing(cls, n_bins: int, n_rows: float) -> PairTables:
        """Stand for a class that bought none."""
        shape = (n_bins, n_bins)
        return cls(np.zeros(shape, np.float32), np.zeros(shape, bool), 1.0, n_rows)


def all_pairs(n_columns: int) -> int:
    """Give the number of pairs of columns."""
    return n_columns * (n_columns - 1) // 2


def planned_tables(n_columns: int) -> int:
    """Give the pair tables that a plan counts on."""
    return min(all_pairs(n_columns), _CHOSEN_FROM)


def pair_noise_std(n_columns: int, mu: float) -> float:
    """Give the planned noise of a count of a pair table, in rows."""
    if all_pairs(n_columns) > _CHOSEN_FROM:
        mu *= math.sqrt(1.0 - CHOICE_SHARE)
    return grid_noise_std(mu, math.sqrt(planned_tables(n_columns)))


def bins_of_pairs(
    rows_per_noise: float, n_columns: int, *, measured: bool = False
) -> int:
    """Choose the bins of a column: so that the mean count of a cell is twice the noise.

    Four times where the target is measured. A few columns may have more bins: what a
    generator costs grows with all of them.
    """
    least = _MEASURED_CELL_FROM if measured else _CELL_FROM
    most = max(np.interp(n_columns, *_MOST_BINS) // n_columns, _LEAST_BINS)
    return int(np.clip(math.sqrt(rows_per_noise / least), _LEAST_BINS, most))


def pairs_pay(n_rows: float, n_columns: int, mu: float) -> bool:
    """Tell whether the planned rows of a class stand out of the noise of a count."""
    if not 2 <= n_columns < _MOST_COLUMNS:
        return False
    return n_rows * mu >= _ROWS_FROM * math.sqrt(planned_tables(n_columns))


def pairs_best(n_rows: float, n_columns: int, mu: float) -> bool:
    """Tell whether pairs say more than products of scores, of rows without classes."""
    share = math.sqrt(PAIRS_SHARE) * _ROWS_FROM / _BEST_FROM
    return pairs_pay(n_rows, n_columns, mu * share)


def pairs_serve(n_rows: Sequence[float], n_columns: int, mu: float) -> bool:
    """Tell whether a table is better off with pair tables, from public numbers.

    Some class can pay for them, with `mu` for its whole start, and every other one can
    borrow: what all classes know but one, classifiers take for a mark of that one.
    """
    mu *= math.sqrt(PAIRS_SHARE)
    pays = [pairs_pay(n, n_columns, mu) for n in n_rows]
    return any(pays) and sum(pays) + len(borrowers(pays, n_rows)) == len(pays)


def borrowers(known: Sequence[bool], n_rows: Sequence[float]) -> dict[int, int]:
    """Say which classes take the dependence of the largest that knows its own.

    Dependence in one class and none in another is a difference between the classes
    that the rows do not have, and classifiers learn it. Keys are the positions of the
    borrowers, values those of the lender; `n_rows` are planned, so public.
    """
    lenders = [c for c, own in enumerate(known) if own]
    if not lenders:
        return {}
    lender = max(lenders, key=lambda c: n_rows[c])
    least = _ALIKE * n_rows[lender]
    rest = [c for c, own in enumerate(known) if not own and n_rows[c] >= least]
    return dict.fromkeys(rest, lender)


def buy_pairs(
    rows: PrivateRows | Parts,
    bins: TableBins,
    shares: NDArray[np.float64],
    n_rows: float,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
    target: int | None = None,
) -> PairTables:
    """Buy the tables of the pairs of columns in one class, for `mu` together.

    All pairs; in a wide table those of the column `target`, a number, and those
    that differ most from what independent columns would have, beyond the noise that
    their tables would get. `shares` (D,) are those of the bins in their columns: like
    `bins` and `n_rows` they are released before.
    """
    codes, sizes = Parts.of(rows).map(bins.encode), bins.sizes
    pairs = np.stack(np.triu_indices(len(sizes), 1), axis=1)
    if len(pairs) > _CHOSEN_FROM:
        mu_choice = mu * math.sqrt(CHOICE_SHARE)
        reservation = accountant.reserve_gaussian(
            "choice of pairs",
            mu=mu_choice,
            sensitivity=math.sqrt(len(pairs)),
            scope=scope,
        )
        expected = np.rint(n_rows * np.outer(shares, shares)).astype(np.int64)
        distances = noisy_pair_distances(codes, sizes, expected, reservation)
        mu = mu * math.sqrt(1.0 - CHOICE_SHARE)
        first = np.any(pairs == (-1 if target is None else target), axis=1)
        pairs = pairs[_worth(distances, pairs, np.array(sizes), mu, first)]
    measured = measured_cells(sizes, pairs)
    tables = "1 pair table" if len(pairs) == 1 else f"{len(pairs)} pair tables"
    reservation = accountant.reserve_gaussian(
        f"{tables}, {measured.sum()} cells",
        mu=mu,
        sensitivity=math.sqrt(len(pairs)),
        scope=scope,
    )
    counts = noisy_pair_tables(codes, sizes, pairs, reservation)
    # Every table counts all rows of the class. What was declared of another table, as
    # one of its folds would be, must not spoil the fit.
    counted = counts.sum() / max(len(pairs), 1)
    std = reservation.noise_std * math.sqrt(measured.sum()) / max(len(pairs), 1)
    if abs(counted - n_rows) > _DENIED * std + 1.0:
        n_rows = float(max(counted, 1.0))
    noise_std = reservation.noise_std
    return PairTables(counts.astype(np.float32), measured, noise_std, n_rows)


def _worth(
    distances: NDArray[np.int64],
    pairs: NDArray[np.int64],
    sizes: NDArray[np.int64],
    mu: float,
    first: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Choose the pairs whose distances exceed the noise of their tables by most.

    The noise of a table grows with the root of the number of tables, so the gain of
    the best ones together has a maximum. Those that are `first` are all among them.
    """
    noise = math.sqrt(2.0 / math.pi) / mu * sizes[pairs].prod(axis=1)
    found, best = np.empty(0, dtype=np.int64), -math.inf
    most = planned_tables(len(sizes))
    least = max(int(first.sum()), 1)
    for n_tables in np.unique(np.geomspace(least, most, 60).astype(np.int64)):
        gains = distances - noise * math.sqrt(n_tables)
        chosen = np.lexsort((-gains, ~first))[:n_tables]
        total = float(gains[chosen].sum())
        if total > best:
            found, best = chosen, total
    return np.sort(found)
