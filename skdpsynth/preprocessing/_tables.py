"""Measurements of several columns together: tables of two and three, second moments.

What is measured, and how finely, follows from public numbers and earlier releases: a
table is worth measuring where its counts are above their noise.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skdpsynth.preprocessing._shares import (
    CHOICE_SHARE,
    MOMENTS_SHARES,
    PAIRS_SHARE,
)
from skdpsynth.privacy import (
    GRID,
    LENGTH,
    MOMENTS_SENSITIVITY,
    Parts,
    measured_cells,
    noisy_pair_distances,
    noisy_pair_tables,
    noisy_second_moments,
    noisy_triple_tables,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._bins import TableBins
    from skdpsynth.preprocessing._columns import PrivateRows
    from skdpsynth.privacy import PrivacyAccountant

    Floats = NDArray[np.float64]

# Pairs: all of them are measured, unless they are more, or the largest class has fewer
# rows than so many noise deviations of a count. Of few rows about so many pairs are
# chosen then, and a table is worth it if what columns depend is above a part of its
# noise, since a fit is smooth. Of 4,000 rows at epsilon 1 that took C2ST from .69 to
# .65, .97 to .88; where only some classes have few rows, classifiers learnt less by it.
_CHOSEN_FROM, CHOSEN_BELOW, _FEW_TABLES, _FEW_NOISE = 300, 200.0, 15, 0.5
_LEAST_BINS = 4  # of a column
# Of all columns together, by their number. What a fit costs grows with the square; a
# wide table is learnt better by more components of fewer bins.
_MOST_BINS = (15, 20), (500, 330)
# Mean count of a cell over its noise; what regressors learn of a measured target
# comes from the means of many cells, which few bins know better.
_CELL_FROM, _MEASURED_CELL_FROM = 2.0, 4.0
_ROWS_FROM = 40.0  # of a class, in noise deviations of a count
# With so many columns, a few coarse cells of each pair say less than factors do.
_MOST_COLUMNS = 120
# Rows of a class that borrows dependence, as a share of those of the lender: a class
# that is rarer is taken for something else than the rest.
_ALIKE = 0.01
_DENIED = 4.0  # noise deviations from which a number of rows is not that of the tables

TRIPLE_COLUMNS = range(3, 20)  # of tables whose triples are measured
# Groups of a column in tables of three, and of all columns together.
_MOST_GROUPS, _ALL_GROUPS = 6, 84
# Rows of a mean cell, in noise deviations: with 3 groups, to measure any triple at all;
# and with more groups.
_TRIPLES_FROM, _PER_CELL = 12.0, 8.0

MOMENT_COLUMNS = range(2, 2001)
_STRONGEST = 0.12  # nominal share of the variance that the strongest factor has
# Of the strongest factor over the noise: from which moments are measured, and enough.
_VISIBLE, _CLEAR = 1.0, 20.0
_CLIP = 2.0  # squared length at which rows are shortened, over the mean one


class PairTables(NamedTuple):
    """The tables of pairs of columns that were measured in one class."""

    counts: NDArray[np.float32]  # (D, D), above the diagonal; 0 if not measured
    measured: NDArray[np.bool_]  # (D, D)
    noise_std: float  # of a count, in rows
    n_rows: float  # as known, or that of the tables if they deny it
    pairs: NDArray[np.int64]  # (n_pairs, 2), columns i < j

    @classmethod
    def nothing(cls, n_bins: int, n_rows: float) -> PairTables:
        """Stand for a class of which none was measured."""
        shape, none = (n_bins, n_bins), np.empty((0, 2), np.int64)
        empty = np.zeros(shape, np.float32), np.zeros(shape, bool)
        return cls(*empty, 1.0, n_rows, none)


class TripleTables(NamedTuple):
    """The tables of triples of columns that were measured in one class."""

    groups: NDArray[np.int64]  # (D,), of each bin
    triples: NDArray[np.int64]  # (T, 3), columns i < j < k
    counts: NDArray[np.float32]  # (T, G, G, G)
    noise_std: float  # of a count, in rows


class SecondMoments(NamedTuple):
    """The covariances of the scores of all columns that were measured in one class."""

    covariances: Floats  # (n_pairs,), in the order of ``triu_indices``
    noise_std: float  # of each


# --- Pairs: plans -----------------------------------------------------------------


def all_pairs(n_columns: int) -> int:
    """Give the number of pairs of columns."""
    return n_columns * (n_columns - 1) // 2


def most_tables(n_columns: int) -> int:
    """Give the number of tables of pairs that are measured at most."""
    return min(all_pairs(n_columns), _CHOSEN_FROM)


def few_rows(largest: float, n_columns: int, mu: float) -> bool:
    """Tell whether all pairs are too many for the rows of the largest class."""
    n_pairs = all_pairs(n_columns)
    scarce = largest * mu < CHOSEN_BELOW * math.sqrt(n_pairs)
    return _FEW_TABLES < n_pairs <= _CHOSEN_FROM and scarce


def planned_tables(n_columns: int, *, few: bool = False) -> int:
    """Give the tables of pairs that a plan counts on; `few` says `few_rows`."""
    return min(all_pairs(n_columns), _FEW_TABLES if few else _CHOSEN_FROM)


def pair_noise_std(n_columns: int, mu: float, *, few: bool = False) -> float:
    """Give the planned noise of a count of a table of two columns, in rows."""
    n_tables = planned_tables(n_columns, few=few)
    if n_tables < all_pairs(n_columns):
        mu *= math.sqrt(1.0 - CHOICE_SHARE)
    return math.sqrt(n_tables) / mu


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


def pairs_affordable(
    n_rows: float, n_columns: int, mu: float, *, few: bool = False
) -> bool:
    """Tell whether the planned rows of a class are well above the noise of a count."""
    if not 2 <= n_columns < _MOST_COLUMNS:
        return False
    n_tables = planned_tables(n_columns, few=few)
    return n_rows * mu >= _ROWS_FROM * math.sqrt(n_tables)


def pairs_best(n_rows: float, n_columns: int, mu: float) -> bool:
    """Tell whether pairs say more than second moments, of a table without classes."""
    if not 2 <= n_columns < _MOST_COLUMNS:
        return False
    least = CHOSEN_BELOW * math.sqrt(most_tables(n_columns))
    return n_rows * mu * math.sqrt(PAIRS_SHARE) >= least


def pairs_serve(n_rows: Sequence[float], n_columns: int, mu: float) -> bool:
    """Tell whether a table is better off with tables of pairs, from public numbers.

    Some class can afford them, with `mu` for all its measurements, and every other one
    can borrow: what all classes know but one, classifiers take for a mark of that one.
    """
    mu *= math.sqrt(PAIRS_SHARE)
    few = few_rows(max(n_rows), n_columns, mu)
    affordable = [pairs_affordable(n, n_columns, mu, few=few) for n in n_rows]
    served = sum(affordable) + len(borrowers(affordable, n_rows))
    return any(affordable) and served == len(affordable)


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


# --- Triples and moments: plans -----------------------------------------------------


def triple_groups(n_rows: float, n_columns: int, mu: float) -> int:
    """Give the groups of a column in the tables of all triples, 0 to measure none.

    As many as leave a mean cell well above the noise, with `mu` for all triples.
    """
    if n_columns not in TRIPLE_COLUMNS or mu == 0:
        return 0
    noise_std = max(triple_noise_std(n_columns, mu), 1.0)
    clear = int((n_rows / (_PER_CELL * noise_std)) ** (1 / 3))
    found = min(clear, _MOST_GROUPS, _ALL_GROUPS // n_columns)
    affordable = found >= 3 and n_rows >= 3**3 * _TRIPLES_FROM * noise_std
    return found if affordable else 0


def triple_noise_std(n_columns: int, mu: float) -> float:
    """Give the noise of a count of the tables of all triples, in rows."""
    return math.sqrt(math.comb(n_columns, 3)) / mu


def moments_share(n_rows: float, n_columns: int, mu: float) -> float:
    """Give the share of the squared mu of a class that second moments get, maybe 0.

    As much as makes the strongest factor clear of the noise. Rows are shortened to
    twice their mean squared length, and their products have half the squared norm of a
    matrix; see `factors_above_noise` for what noise alone would show.
    """
    if n_columns not in MOMENT_COLUMNS:
        return 0.0
    noise = 2.0 * math.sqrt(n_columns) * _CLIP / math.sqrt(2.0)
    clear = _STRONGEST * n_rows * mu / noise
    least, most = MOMENTS_SHARES
    share = min(max((_CLEAR / max(clear, 1e-9)) ** 2, least), most)
    return share if clear * math.sqrt(share) >= _VISIBLE else 0.0


# --- Measurements --------------------------------------------------------------------


def measure_pairs(
    rows: PrivateRows | Parts,
    bins: TableBins,
    shares: Floats,
    n_rows: float,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
    few: bool = False,
    target: int | None = None,
) -> PairTables:
    """Measure the tables of the pairs of columns in one class, for `mu` together.

    All pairs; in a wide table, or of few rows, those of the column `target`, a number,
    and those that differ most from what independent columns would have, beyond the
    noise that their tables would get. `shares` (D,) are those of the bins in their
    columns: like `bins` and `n_rows` they are released before; `few` says `few_rows`.
    """
    codes, sizes = Parts.of(rows).map(bins.encode), bins.sizes
    pairs = np.array(list(combinations(range(len(sizes)), 2)), dtype=np.int64)
    if few or len(pairs) > _CHOSEN_FROM:
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
        # Of a count, in the L1 distance of a table.
        noise_std = math.sqrt(2.0 / math.pi) / mu
        beyond = distances.astype(np.float64)
        if few:
            noise_std *= _FEW_NOISE
            beyond -= _distances_by_chance(expected, bins.starts)
        first = np.any(pairs == (-1 if target is None else target), axis=1)
        noise = noise_std * np.array(sizes)[pairs].prod(axis=1)
        pairs = pairs[_worth(beyond, noise, first)]
    measured = measured_cells(sizes, pairs)
    reservation = accountant.reserve_gaussian(
        f"{_tables(len(pairs))} of 2 columns, {measured.sum()} cells",
        mu=mu,
        sensitivity=GRID * math.sqrt(len(pairs)),
        scope=scope,
    )
    counts = noisy_pair_tables(codes, sizes, pairs, reservation, GRID) / GRID
    noise_std = reservation.noise_std / GRID
    # Every table counts all rows of the class. What was declared of another table, as
    # one of its folds would be, must not spoil the fit.
    counted = counts.sum() / max(len(pairs), 1)
    std = noise_std * math.sqrt(measured.sum()) / max(len(pairs), 1)
    if abs(counted - n_rows) > _DENIED * std + 1.0:
        n_rows = float(max(counted, 1.0))
    return PairTables(counts.astype(np.float32), measured, noise_std, n_rows, pairs)


def measure_triples(
    rows: PrivateRows | Parts,
    bins: TableBins,
    shares: Floats,
    n_groups: int,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
) -> TripleTables:
    """Measure the tables of all triples of columns in one class, for `mu` together.

    The bins of a column are put into `n_groups` by their `shares` (D,), which are
    released before.
    """
    groups = bins.groups(shares, n_groups)
    codes = Parts.of(rows).map(bins.encode).map(_grouped, groups, bins.starts[:-1])
    triples = np.array(list(combinations(range(len(bins.sizes)), 3)), dtype=np.int64)
    reservation = accountant.reserve_gaussian(
        f"{_tables(len(triples))} of 3 columns, {len(triples) * n_groups**3} cells",
        mu=mu,
        sensitivity=GRID * math.sqrt(len(triples)),
        scope=scope,
    )
    counts = noisy_triple_tables(codes, n_groups, triples, reservation, GRID) / GRID
    noise_std = reservation.noise_std / GRID
    return TripleTables(groups, triples, counts.astype(np.float32), noise_std)


def _tables(number: int) -> str:
    """Give a number of tables in words."""
    return "1 table" if number == 1 else f"{number} tables"


def _grouped(
    codes: NDArray[np.integer], groups: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Give the groups of the bins of rows; private."""
    return groups.astype(np.uint8)[codes + starts]


def measure_moments(
    scores: Parts,
    means: Floats,
    stds: Floats,
    n_rows: float,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
) -> SecondMoments:
    """Measure the covariances of the scores of all columns in one class.

    `means` and `stds` (n_columns,) are those of the scores by released marginals.
    """
    unit = math.sqrt(max(_CLIP * float((stds**2).sum()), 1e-12)) / LENGTH
    reservation = accountant.reserve_gaussian(
        f"second moments of {len(means)} columns",
        mu=mu,
        sensitivity=MOMENTS_SENSITIVITY,
        scope=scope,
    )
    sums = noisy_second_moments(scores, means, unit, reservation)
    noise_std = reservation.noise_std * unit**2
    return SecondMoments(sums / n_rows, float(noise_std / n_rows))


def _distances_by_chance(
    expected: NDArray[np.int64], starts: NDArray[np.int64]
) -> Floats:
    """Give the mean L1 distance of the tables of independent columns, of all pairs."""
    off = np.sqrt(2.0 / math.pi * np.maximum(expected, 0))
    blocks = np.add.reduceat(np.add.reduceat(off, starts[:-1], 0), starts[:-1], 1)
    return np.asarray(blocks[np.triu_indices(len(starts) - 1, 1)])


def _worth(
    distances: Floats, noise: Floats, first: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Choose the pairs whose distances exceed the noise of their tables by most.

    The `noise` of a table, as it is if it is the only one, grows with the root of the
    number of tables, so the gain of the best ones together has a maximum. Those that
    are `first` are all among them.
    """
    found, best = np.empty(0, dtype=np.int64), -math.inf
    least = max(int(first.sum()), 1)
    most = max(min(len(distances), _CHOSEN_FROM), least)
    for n_tables in np.unique(np.geomspace(least, most, 60).astype(np.int64)):
        gains = distances - noise * math.sqrt(n_tables)
        chosen = np.lexsort((-gains, ~first))[:n_tables]
        total = float(gains[chosen].sum())
        if total > best:
            found, best = chosen, total
    return np.sort(found)
