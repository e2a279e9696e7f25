"""Measurements of several columns together: tables of two and three, second moments.

What is measured, and how finely, follows from public numbers and earlier releases: a
table is worth measuring where its counts are above their noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skdpsynth.measure._query import CLIP
from skdpsynth.measure._shares import (
    BESIDE_SHARE,
    CLEAR_FROM,
    MOMENTS_SHARES,
    ROWS_FROM,
    SURE,
    TINY,
    WIDE,
)
from skdpsynth.privacy import noisy_pair_distances
from skdpsynth.utils import require

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.measure._bins import TableBins
    from skdpsynth.measure._query import Measurement
    from skdpsynth.privacy import Parts, PrivacyAccountant

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# All pairs are measured, unless they are more than 300, or the largest class has fewer
# rows than 200 noise deviations of a count. Of few rows about 15 pairs are chosen then,
# and a table is worth it if the dependence is above half of its noise, since a fit is
# smooth. Of 4,000 rows at epsilon 1 that took C2ST from .69 to .65, .97 to .88; where
# only some classes have few rows, classifiers learnt less by it.
MOST_TABLES, _FEW_TABLES = 300, 15

TRIPLE_COLUMNS = range(3, 20)  # of tables whose triples are measured: 969 at most
_MOST_GROUPS = 6  # of a column: with 14 a fit of 400,000 x 7 took 31 s, not 25
_ALL_GROUPS = 84  # of all columns together in tables of three: bounds time
_PER_CELL = 12.0  # rows of a mean cell of three columns, in noise deviations

MOMENT_COLUMNS = range(2, 2001)  # of tables whose moments are measured: bounds memory
# Rows over the noise, from which moments are measured: 0.5 times what a factor with
# 0.12 of the variance needs. Real ones are stronger: with 0.5 instead of 1 the errors
# of tables of three columns fell on Epileptic seizure (178 columns; epsilon 1: 0.39 to
# 0.37) and breast cancer (30; epsilon 3: 0.86 to 0.84); with 0.2 those of breast cancer
# rose at epsilon 1. They are enough at ROWS_FROM times this: with a fifth more the
# 2-way distance of Epileptic seizure rose by .001 (epsilon 3).
_ABOVE_NOISE = 0.5 / 0.12


class PairTables(NamedTuple):
    """The tables of pairs of columns that were measured in one class."""

    counts: NDArray[np.float32]  # (D, D), above the diagonal; 0 if not measured
    measured: NDArray[np.bool_]  # (D, D)
    noise_std: float  # of a count, in rows
    n_rows: float  # as known, or that of the tables if they deny it
    pairs: Ints  # (n_pairs, 2), columns i < j

    @classmethod
    def of(cls, answers: Sequence[Measurement], n_rows: float) -> PairTables:
        """Lay answers out, of other pairs each; `n_rows` were known."""
        stds, sets = {own.noise_std for own in answers}, [o.query.sets for o in answers]
        pairs = np.unique(np.concatenate(sets), axis=0)
        require(len(stds) == 1 and len(pairs) == sum(map(len, sets)), "pairs")
        counts = np.zeros(answers[0].query.measured.shape, np.float32)
        measured = np.zeros(counts.shape, bool)
        for own in answers:
            counts[own.query.measured] = own.values
            measured |= own.query.measured
        values, (noise_std,) = counts[measured], stds
        # Every table counts all rows of the class: a number that was declared for
        # another table, such as the whole of which this is a fold, must not spoil the
        # fit.
        n_tables = len(pairs)
        counted = float(values.sum(dtype=np.float64)) / n_tables
        std = noise_std * math.sqrt(len(values)) / n_tables
        if abs(counted - n_rows) > SURE * std + 1.0:
            n_rows = max(counted, 1.0)
        return cls(counts, measured, noise_std, n_rows, pairs)

    @classmethod
    def nothing(cls, n_bins: int, n_rows: float) -> PairTables:
        """Stand for a class of which none was measured."""
        shape, none = (n_bins, n_bins), np.empty((0, 2), np.int64)
        empty = np.zeros(shape, np.float32), np.zeros(shape, bool)
        return cls(*empty, 1.0, n_rows, none)


# --- Pairs: plans -----------------------------------------------------------------


def all_pairs(n_columns: int) -> int:
    """Return the number of pairs of columns."""
    return n_columns * (n_columns - 1) // 2


def is_scarce(largest: float, n_columns: int, mu: float) -> bool:
    """Return whether the rows of the largest class are not clear of the noise."""
    return largest * mu < CLEAR_FROM * math.sqrt(all_pairs(n_columns))


def few_rows(largest: float, n_columns: int, mu: float) -> bool:
    """Return whether all pairs are too many for the rows of the largest class."""
    choosable = _FEW_TABLES < all_pairs(n_columns) <= MOST_TABLES
    return choosable and is_scarce(largest, n_columns, mu)


def planned_tables(n_columns: int, *, few: bool = False) -> int:
    """Return the tables of pairs that a plan counts on; `few` says `few_rows`."""
    return min(all_pairs(n_columns), _FEW_TABLES if few else MOST_TABLES)


def pairs_affordable(
    n_rows: float, n_columns: int, mu: float, *, few: bool = False
) -> bool:
    """Return whether the planned rows of a class are clear of the noise of a count."""
    if not 2 <= n_columns < WIDE:
        return False
    n_tables = planned_tables(n_columns, few=few)
    return n_rows * mu >= ROWS_FROM * math.sqrt(n_tables)


# --- Triples and moments: plans -----------------------------------------------------


def triple_groups(n_rows: float, n_columns: int, mu: float) -> int:
    """Return the groups of a column in the tables of all triples, 0 to measure none.

    As many as leave a mean cell well above the noise, with `mu` for all triples.
    """
    if n_columns not in TRIPLE_COLUMNS or mu == 0:
        return 0
    noise_std = max(math.sqrt(math.comb(n_columns, 3)) / mu, 1.0)  # of a count, in rows
    clear = int((n_rows / (_PER_CELL * noise_std)) ** (1 / 3))
    found = min(clear, _MOST_GROUPS, _ALL_GROUPS // n_columns)
    return found if found >= 3 else 0


def moments_share(n_rows: float, n_columns: int, mu: float) -> float:
    """Return the share of the squared mu of a class that second moments get, maybe 0.

    As much as makes the strongest factor clear of the noise, whose largest eigenvalue
    `factors_above_noise` says. Rows are shortened to twice their mean squared length,
    and their products have half the squared norm of a matrix.
    """
    if n_columns not in MOMENT_COLUMNS:
        return 0.0
    noise = 2.0 * math.sqrt(n_columns) * CLIP / math.sqrt(2.0)
    clear = n_rows * mu / noise
    least, most = MOMENTS_SHARES
    enough = ROWS_FROM * _ABOVE_NOISE
    share = min(max((enough / max(clear, TINY)) ** 2, least), most)
    return share if clear * math.sqrt(share) >= _ABOVE_NOISE else 0.0


def moment_noise_std(n_rows: float, n_columns: int, mu: float) -> float:
    """Return the planned noise of a covariance of scores, whose variance is 1.

    Of rows that are shortened to twice their mean squared length, with `mu` for all.
    """
    norm = CLIP * n_columns / math.sqrt(2.0)
    return norm / (mu * max(n_rows, 1.0)) if mu else 0.0


# --- Measurements --------------------------------------------------------------------


def choose_pairs(
    rows: Parts,
    bins: TableBins,
    apart: Floats,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
    few: bool,
    target: int | None,
) -> Ints:
    """Choose the pairs whose tables are measured, (n_pairs, 2): all if `mu` is 0.

    Of a wide table, or of `few_rows`, those of the column `target`, a number, and those
    that differ most from `apart`, what independent columns would have (D, D), beyond
    the noise that their tables would get, which have nine times as much of the squared
    `mu`. `bins` and `apart` are released before.
    """
    pairs = np.stack(np.triu_indices(len(bins.sizes), 1), axis=1)
    if mu == 0:
        return pairs
    codes, sizes, norm = rows.map(bins.encode), bins.sizes, math.sqrt(len(pairs))
    line = accountant.reserve_gaussian(
        "choice of pairs", mu=mu, sensitivity=norm, scope=scope
    )
    expected = np.rint(apart).astype(np.int64)
    distances = noisy_pair_distances(codes, sizes, expected, line).astype(np.float64)
    # Of a count, in the L1 distance of a table.
    of_tables = mu * math.sqrt(1.0 / BESIDE_SHARE - 1.0)
    noise_std = math.sqrt(2.0 / math.pi) / of_tables
    if few:
        noise_std /= 2
        # The mean distance of independent columns is no dependence.
        starts, off = bins.starts[:-1], np.sqrt(2.0 / math.pi * np.maximum(expected, 0))
        by_chance = np.add.reduceat(np.add.reduceat(off, starts, 0), starts, 1)
        distances -= by_chance[tuple(pairs.T)]
    first = np.any(pairs == (-1 if target is None else target), axis=1)
    # Of a table that is measured alone. It grows with the root of their number, so the
    # gain of the best ones together has a maximum.
    noise = noise_std * np.array(sizes)[pairs].prod(axis=1)
    chosen, best = np.empty(0, dtype=np.int64), -math.inf
    least = max(int(first.sum()), 1)
    most = max(min(len(pairs), MOST_TABLES), least)
    for n_tables in np.unique(np.geomspace(least, most, 60).astype(np.int64)):
        gains = distances - noise * math.sqrt(n_tables)
        some = np.lexsort((-gains, ~first))[:n_tables]
        if (total := float(gains[some].sum())) > best:
            chosen, best = some, total
    return pairs[np.sort(chosen)]


def with_together(
    pairs: Mapping[int, PairTables], together: PairTables
) -> dict[int, PairTables]:
    """Correct the tables of each class by those of all these classes together.

    What the sum of the classes lacks is shared out by their variances: the best linear
    unbiased estimate of each class (weighted least squares).
    """
    total = together.noise_std**2 + sum(own.noise_std**2 for own in pairs.values())
    beside = together.counts - np.sum([own.counts for own in pairs.values()], axis=0)
    found = {}
    for c, own in pairs.items():
        part = own.noise_std**2 / max(total, 1e-300)
        counts = (own.counts + part * beside).astype(np.float32)
        noise_std = own.noise_std * math.sqrt(1.0 - part)
        found[c] = own._replace(counts=counts, noise_std=noise_std)
    return found
