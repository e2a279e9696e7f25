"""Measurements of several columns together: tables of two and three, second moments.

What is measured, and how finely, follows from public numbers and earlier releases: a
table is worth measuring where its counts are above their noise. So are bins: functions
of the released marginals alone, and the same in all classes. In each class a bin is an
interval of ranks, which the fine marginal of the class turns into a value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from skdpsynth.measure._shares import (
    BESIDE_SHARE,
    CLEAR_FROM,
    COARSE_BINS,
    MOMENTS_SHARES,
    ROWS_FROM,
    SURE,
    TINY,
    WIDE,
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
from skdpsynth.table import (
    MISSING,
    ZERO,
    CategoryDomain,
    MarginalTransform,
    NumericDomain,
)
from skdpsynth.utils import in_chunks, require

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.table import ColumnDomain, PrivateRows

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# Of a number beside an exact zero, so that low and high values differ: with four the
# 2-way distance of RandHIE was .084, not .082 (epsilon 1).
_LEAST_INTERVALS = 3


@dataclass(frozen=True)
class ColumnBins:
    """The bins of one column."""

    # (n_intervals + 1,): edges of the intervals of numbers, from 0 to 1; else empty.
    edges: Floats
    # Bin of each code of `PrivateRows`; -1 where the interval says it. Numeric columns
    # have the codes value, exact zero and missing; others those of `CategoryDomain`,
    # and 'other' is in one bin with the rare categories.
    of_code: Ints
    n_bins: int
    zero: float | None = None  # edge where an exact zero has a bin of its own

    def __post_init__(self) -> None:
        require(type(self.n_bins) is int, "bins")
        require(self.of_code.dtype == np.int64 and self.of_code.ndim == 1, "codes")
        require(self.edges.dtype == np.float64 and self.edges.ndim == 1, "edges")
        if not len(self.edges):
            require(len(self.of_code) > 1 and self.zero is None, "codes")
            # Each code has a bin, and each bin a code; that of the rest comes last,
            # but for missing values.
            used = np.unique(self.of_code)
            require(len(used) == self.n_bins, "bins")
            require(np.array_equal(used, np.arange(len(used))), "codes")
            require(self.of_code[-1] == len(used) - 1, "codes")
            require((self.of_code[:-2] <= self.rest).all(), "codes")
            return
        require(len(self.edges) > 1 and (np.diff(self.edges) > 0).all(), "edges")
        require(self.edges[0] == 0 and self.edges[-1] == 1, "edges")
        n_intervals, has_zero = len(self.edges) - 1, self.zero is not None
        # After the intervals a bin of exact zeros, and one of missing values.
        has_missing = self.n_bins - n_intervals - has_zero
        require(has_missing in (0, 1), "bins")
        of_zero = n_intervals if has_zero else -1
        of_missing = self.n_bins - 1 if has_missing else -1
        require(self.of_code.tolist() == [-1, of_zero, of_missing], "codes")
        require(not has_zero or (self.edges == self.zero).any(), "a zero")

    @property
    def rest(self) -> int:
        """Bin of the rare categories and of 'other'; -1 in a numeric column."""
        return -1 if len(self.edges) else int(self.of_code[-2])

    def encode(
        self, uniforms: NDArray[np.floating], category_codes: NDArray[np.integer]
    ) -> Ints:
        """Give the bin of every row; private if the rows are."""
        bins = self.of_code[category_codes]
        if len(self.edges):
            inner = self.edges[1:-1].astype(np.float32)
            of_value = np.searchsorted(inner, uniforms, side="right")
            bins = np.where(bins < 0, of_value, bins)
        return bins

    def ranks(self, marginal: MarginalTransform) -> Floats:
        """Give the ranks where each bin begins and ends in a class, (2, n_bins)."""
        ends = np.zeros((2, self.n_bins))
        if len(self.edges):
            left, right = marginal.cdf(self.edges)
            n_intervals = len(self.edges) - 1
            ends[:, :n_intervals] = right[:-1], left[1:]
            if self.of_code[ZERO] >= 0:
                place = np.flatnonzero(self.edges == self.zero)[0]
                ends[:, self.of_code[ZERO]] = left[place], right[place]
            missing = self.of_code[MISSING]
        else:
            in_order = self.of_code[marginal.points.astype(np.int64)]
            ends[:, self.rest] = 0.0, 1.0  # 'other' alone stands for any category
            # Of a bin of several the last end stays, and the first beginning.
            ends[1, in_order] = marginal.cumulative[1:]
            ends[0, in_order[::-1]] = marginal.cumulative[-2::-1]
            missing = self.of_code[-1] if self.of_code[-1] > self.rest else -1
        ends = marginal.missing + (1.0 - marginal.missing) * ends
        if missing >= 0:
            ends[:, missing] = 0.0, marginal.missing
        return ends


@dataclass(frozen=True)
class TableBins:
    """The bins of all columns, D of them, one after the other.

    Parameters
    ----------
    columns : list of n_columns ColumnBins
        The bins of each.
    """

    columns: list[ColumnBins]

    @property
    def sizes(self) -> list[int]:
        """Number of bins of each column."""
        return [column.n_bins for column in self.columns]

    @property
    def categories(self) -> list[bool]:
        """Which columns have categories, and no order."""
        return [column.rest >= 0 for column in self.columns]

    @property
    def starts(self) -> Ints:
        """Where each column begins and the last one ends, shape (n_columns + 1,)."""
        return np.concatenate(([0], np.cumsum(self.sizes, dtype=np.int64)))

    def encode(self, rows: PrivateRows) -> NDArray[np.unsignedinteger]:
        """Give the bin of every row in every column; private."""
        codes = np.empty(rows.shape, dtype=np.min_scalar_type(max(self.sizes)))
        for own in in_chunks(len(rows)):
            uniforms, category_codes = rows.uniforms[own].T, rows.category_codes[own].T
            for j, column in enumerate(self.columns):
                codes[own, j] = column.encode(uniforms[j], category_codes[j])
        return codes

    def ranks(self, marginals: list[MarginalTransform]) -> Floats:
        """Give the ranks where each bin begins and ends in a class, (2, D)."""
        both = zip(self.columns, marginals, strict=True)
        return np.concatenate([bins.ranks(own) for bins, own in both], axis=1)

    def shares(self, ranks: Floats) -> Floats:
        """Give the share of each bin in its column, from `ranks`, shape (D,)."""
        shares = ranks[1] - ranks[0]
        starts = self.starts
        for start, column in zip(starts, self.columns, strict=False):
            if column.rest >= 0 and not (column.of_code[:-2] == column.rest).any():
                shares[start + column.rest] = 0.0
        totals = np.repeat(np.add.reduceat(shares, starts[:-1]), self.sizes)
        even = 1.0 / np.repeat(self.sizes, self.sizes)  # of a column without categories
        return np.where(totals > 0, shares / np.maximum(totals, TINY), even)

    def groups(self, shares: Floats, n_groups: int) -> Ints:
        """Put the bins of every column into a few groups, of shape (D,).

        Intervals at quantiles of the shares (D,), and of categories the most frequent
        alone. Exact zeros and missing values are a group where they are many.
        """
        found = np.zeros(len(shares), dtype=np.int64)
        starts = self.starts
        for start, end, column in zip(starts, starts[1:], self.columns, strict=False):
            own, n_intervals = shares[start:end], max(len(column.edges) - 1, 0)
            beside = n_intervals and own[n_intervals:].sum() > 0.5 / n_groups
            if n_intervals:
                present = own[:n_intervals] if beside else own
                n_inside = max(n_groups - 1, 1) if beside else n_groups
                total = max(present.sum(), TINY)  # a class may have no value here
                middles = (np.cumsum(present) - 0.5 * present) / total
                of_bin = np.minimum((n_inside * middles).astype(np.int64), n_inside - 1)
                found[start : start + len(present)] = of_bin
                found[start + len(present) : end] = n_groups - 1
            else:
                order = np.argsort(-own, kind="stable")
                found[start + order] = np.minimum(np.arange(len(own)), n_groups - 1)
        return found

    def coarser(self, factors: Sequence[int] = (4, 16)) -> list[NDArray[np.float32]]:
        """Give groups of neighbouring bins, some larger than others, by column.

        Of shape (n_bins, n_groups): an entry is 1 where a bin is in a group. Bins that
        are no intervals are alone.
        """
        found = []
        for column in self.columns:
            n_intervals = max(len(column.edges) - 1, 0)
            beside = np.arange(column.n_bins - n_intervals)
            own = [np.zeros((column.n_bins, 0), dtype=bool)]
            for factor in factors:
                if n_intervals >= 2 * factor:
                    inside = np.arange(n_intervals) // factor
                    places = np.concatenate([inside, inside[-1] + 1 + beside])
                    own.append(places[:, None] == np.arange(places.max() + 1))
            found.append(np.concatenate(own, axis=1).astype(np.float32))
        return found

    def normal_scores(self, shares: Floats) -> Floats:
        """Give normal scores (D,) of the middles of intervals; NaN elsewhere.

        Of the shares of all classes together, (D,).
        """
        found = np.full(len(shares), np.nan)
        for start, column in zip(self.starts, self.columns, strict=False):
            own = slice(start, start + max(len(column.edges) - 1, 0))
            ends = np.concatenate(([0.0], np.cumsum(shares[own])))
            if len(ends) > COARSE_BINS[0]:  # with fewer intervals, each is by itself
                middles = 0.5 * (ends[:-1] + ends[1:]) / max(ends[-1], TINY)
                found[own] = ndtri(np.clip(middles, TINY, 1.0 - TINY))
        return found


def most_bins(domain: ColumnDomain | None, n_bins: int) -> int:
    """Give the bins that a column can have, before its marginals are known."""
    if domain is None:
        return n_bins + 1
    if isinstance(domain, CategoryDomain):
        return min(len(domain.categories), n_bins) + 1 + domain.nullable
    if domain.integer:
        n_bins = min(n_bins, int(domain.high - domain.low) + 1)
    return n_bins + (domain.zero is not None) + domain.nullable


def choose_bins(
    domains: list[ColumnDomain] | tuple[ColumnDomain, ...],
    marginals: list[list[MarginalTransform]],
    prior: Floats,
    n_bins: int,
) -> tuple[TableBins, list[list[MarginalTransform]]]:
    """Choose the bins of every column by its released marginals.

    Parameters
    ----------
    domains : sequence of ColumnDomain
        One per column.
    marginals : list of n_classes lists of MarginalTransform
        What was released.
    prior : ndarray of shape (n_classes,), float64
        Shares of the classes.
    n_bins : int
        Intervals of a numeric column, or categories with a bin of their own, at most;
        exact zeros, missing values and the rest have bins beside.

    Returns
    -------
    bins : TableBins
        Numeric columns are cut at quantiles of all classes together.
    marginals : list of n_classes lists of MarginalTransform
        The same, with the categories of a bin side by side.
    """
    columns, changed = [], []
    for j, domain in enumerate(domains):
        own = [of_class[j] for of_class in marginals]
        if isinstance(domain, NumericDomain):
            columns.append(bins_of_numbers(domain, own, prior, n_bins))
        else:
            bins, own = _bins_of_categories(domain, own, prior, n_bins)
            columns.append(bins)
        changed.append(own)
    return TableBins(columns), [list(row) for row in zip(*changed, strict=True)]


def bins_of_numbers(
    domain: NumericDomain,
    marginals: list[MarginalTransform],
    prior: Floats,
    n_bins: int,
) -> ColumnBins:
    """Cut at quantiles; a number that many rows share has a bin to itself."""
    points = np.unique(np.concatenate([own.points for own in marginals]))
    # What lies between points: an exact zero, which has a bin of its own, is left out.
    limits = [own.cdf(points) for own in marginals]
    masses = prior @ np.array([low[1:] - up[:-1] for low, up in limits])
    below, present = np.concatenate(([0.0], np.cumsum(masses))), masses.sum()
    n_bins = max(round(n_bins * math.sqrt(present)), _LEAST_INTERVALS)
    heavy = np.flatnonzero(masses > present / n_bins)
    if len(points) <= n_bins + 1:
        inner = np.arange(len(points))
    else:
        steps = present * np.linspace(0, 1, n_bins + 1)[1:-1]
        inner = np.concatenate((np.searchsorted(below, steps), heavy, heavy + 1))
    # Edges are some of the marginals': no whole number lies there. What no class has,
    # beyond an end, is no bin.
    if present > 0:
        first, last = np.flatnonzero(masses > 0)[[0, -1]]
        inner = inner[(inner > first) & (inner <= last)]
    edges = np.concatenate(([0.0], points[inner], [1.0]))
    exact = any((np.diff(own.points) == 0).any() for own in marginals)
    zero = domain.zero if exact else None
    edges = np.unique(edges if zero is None else np.append(edges, zero))
    n_intervals = len(edges) - 1
    missing = n_intervals + (zero is not None)
    of_zero = -1 if zero is None else n_intervals
    of_code = np.array([-1, of_zero, missing if domain.nullable else -1])
    return ColumnBins(edges, of_code, missing + domain.nullable, zero)


def _bins_of_categories(
    domain: CategoryDomain,
    marginals: list[MarginalTransform],
    prior: Floats,
    n_bins: int,
) -> tuple[ColumnBins, list[MarginalTransform]]:
    """Give the most frequent categories a bin each, and the others one together."""
    shares = np.array([own.level_shares() for own in marginals])
    pooled = prior @ shares
    frequent = np.sort(np.argsort(-pooled, kind="stable")[:n_bins])
    of_code = np.full(domain.n_codes, len(frequent))
    of_code[frequent] = np.arange(len(frequent))
    of_code[-1] = len(frequent) + domain.nullable
    bins = ColumnBins(np.empty(0), of_code, len(frequent) + 1 + domain.nullable)
    order = np.lexsort((-pooled, of_code[:-2]))
    # What pairs find in a class can be drawn there.
    return bins, [
        MarginalTransform.of_categories(
            domain, np.maximum(row, TINY), missing=own.missing, order=order
        )
        for row, own in zip(shares, marginals, strict=True)
    ]


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
_CLIP = 2.0  # squared length at which rows are shortened, over the mean one


class PairTables(NamedTuple):
    """The tables of pairs of columns that were measured in one class."""

    counts: NDArray[np.float32]  # (D, D), above the diagonal; 0 if not measured
    measured: NDArray[np.bool_]  # (D, D)
    noise_std: float  # of a count, in rows
    n_rows: float  # as known, or that of the tables if they deny it
    pairs: Ints  # (n_pairs, 2), columns i < j

    @classmethod
    def nothing(cls, n_bins: int, n_rows: float) -> PairTables:
        """Stand for a class of which none was measured."""
        shape, none = (n_bins, n_bins), np.empty((0, 2), np.int64)
        empty = np.zeros(shape, np.float32), np.zeros(shape, bool)
        return cls(*empty, 1.0, n_rows, none)


class TripleTables(NamedTuple):
    """The tables of triples of columns that were measured in one class."""

    groups: Ints  # (D,), of each bin
    triples: Ints  # (T, 3), columns i < j < k
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


def is_scarce(largest: float, n_columns: int, mu: float) -> bool:
    """Tell whether the rows of the largest class are not clear of the noise."""
    return largest * mu < CLEAR_FROM * math.sqrt(all_pairs(n_columns))


def few_rows(largest: float, n_columns: int, mu: float) -> bool:
    """Tell whether all pairs are too many for the rows of the largest class."""
    choosable = _FEW_TABLES < all_pairs(n_columns) <= MOST_TABLES
    return choosable and is_scarce(largest, n_columns, mu)


def planned_tables(n_columns: int, *, few: bool = False) -> int:
    """Give the tables of pairs that a plan counts on; `few` says `few_rows`."""
    return min(all_pairs(n_columns), _FEW_TABLES if few else MOST_TABLES)


def pair_noise_std(n_columns: int, mu: float, *, few: bool = False) -> float:
    """Give the planned noise of a count of a table of two columns, in rows."""
    return math.sqrt(planned_tables(n_columns, few=few)) / mu


def pairs_affordable(
    n_rows: float, n_columns: int, mu: float, *, few: bool = False
) -> bool:
    """Tell whether the planned rows of a class are well above the noise of a count."""
    if not 2 <= n_columns < WIDE:
        return False
    n_tables = planned_tables(n_columns, few=few)
    return n_rows * mu >= ROWS_FROM * math.sqrt(n_tables)


# --- Triples and moments: plans -----------------------------------------------------


def triple_groups(n_rows: float, n_columns: int, mu: float) -> int:
    """Give the groups of a column in the tables of all triples, 0 to measure none.

    As many as leave a mean cell well above the noise, with `mu` for all triples.
    """
    if n_columns not in TRIPLE_COLUMNS or mu == 0:
        return 0
    noise_std = max(math.sqrt(math.comb(n_columns, 3)) / mu, 1.0)  # of a count, in rows
    clear = int((n_rows / (_PER_CELL * noise_std)) ** (1 / 3))
    found = min(clear, _MOST_GROUPS, _ALL_GROUPS // n_columns)
    return found if found >= 3 else 0


def moments_share(n_rows: float, n_columns: int, mu: float) -> float:
    """Give the share of the squared mu of a class that second moments get, maybe 0.

    As much as makes the strongest factor clear of the noise, whose largest eigenvalue
    `factors_above_noise` says. Rows are shortened to twice their mean squared length,
    and their products have half the squared norm of a matrix.
    """
    if n_columns not in MOMENT_COLUMNS:
        return 0.0
    noise = 2.0 * math.sqrt(n_columns) * _CLIP / math.sqrt(2.0)
    clear = n_rows * mu / noise
    least, most = MOMENTS_SHARES
    enough = ROWS_FROM * _ABOVE_NOISE
    share = min(max((enough / max(clear, TINY)) ** 2, least), most)
    return share if clear * math.sqrt(share) >= _ABOVE_NOISE else 0.0


def moment_noise_std(n_rows: float, n_columns: int, mu: float) -> float:
    """Give the planned noise of a covariance of scores, whose variance is 1.

    Of rows that are shortened to twice their mean squared length, with `mu` for all.
    """
    norm = _CLIP * n_columns / math.sqrt(2.0)
    return norm / (mu * max(n_rows, 1.0)) if mu else 0.0


# --- Measurements --------------------------------------------------------------------


def every_pair(bins: TableBins) -> Ints:
    """List all pairs of columns i < j, of shape (n_pairs, 2)."""
    pairs = combinations(range(len(bins.sizes)), 2)
    return np.array(list(pairs), dtype=np.int64).reshape(-1, 2)


def choose_pairs(
    rows: PrivateRows | Parts,
    bins: TableBins,
    apart: Floats,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
    few: bool,
    target: int | None,
) -> Ints:
    """Choose the pairs of a wide table, or of `few_rows`, whose tables are measured.

    Those of the column `target`, a number, and those that differ most from `apart`,
    what independent columns would have (D, D), beyond the noise that their tables would
    get, which have nine times as much of the squared `mu`. `bins` and `apart` are
    released before.
    """
    codes, sizes, pairs = Parts.of(rows).map(bins.encode), bins.sizes, every_pair(bins)
    name, norm = "choice of pairs", math.sqrt(len(pairs))
    reservation = accountant.reserve_gaussian(
        name, mu=mu, sensitivity=norm, scope=scope
    )
    expected = np.rint(apart).astype(np.int64)
    distances = noisy_pair_distances(codes, sizes, expected, reservation)
    # Of a count, in the L1 distance of a table.
    of_tables = mu * math.sqrt(1.0 / BESIDE_SHARE - 1.0)
    noise_std = math.sqrt(2.0 / math.pi) / of_tables
    beyond = distances.astype(np.float64)
    if few:
        noise_std /= 2
        beyond -= _distances_by_chance(expected, bins.starts)
    first = np.any(pairs == (-1 if target is None else target), axis=1)
    noise = noise_std * np.array(sizes)[pairs].prod(axis=1)
    return pairs[_worth(beyond, noise, first)]


def measure_pairs(
    rows: PrivateRows | Parts,
    bins: TableBins,
    pairs: Ints,
    n_rows: float,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
) -> PairTables:
    """Measure the tables of some pairs of columns, for `mu` together.

    Of one class, or of all of them together. `bins`, `pairs` and `n_rows` are released
    before.
    """
    codes, sizes = Parts.of(rows).map(bins.encode), bins.sizes
    measured = measured_cells(sizes, pairs)
    reservation = accountant.reserve_gaussian(
        f"{in_words(len(pairs))} of 2 columns, {measured.sum()} cells",
        mu=mu,
        sensitivity=GRID * math.sqrt(len(pairs)),
        scope=scope,
    )
    counts = noisy_pair_tables(codes, sizes, pairs, reservation, GRID) / GRID
    noise_std = reservation.noise_std / GRID
    # Every table counts all rows of the class: a number that was declared for another
    # table, such as the whole of which this is a fold, must not spoil the fit.
    counted = counts.sum() / max(len(pairs), 1)
    std = noise_std * math.sqrt(measured.sum()) / max(len(pairs), 1)
    if abs(counted - n_rows) > SURE * std + 1.0:
        n_rows = float(max(counted, 1.0))
    return PairTables(counts.astype(np.float32), measured, noise_std, n_rows, pairs)


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


def measure_triples(
    rows: PrivateRows | Parts,
    bins: TableBins,
    groups: Ints,
    n_groups: int,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
) -> TripleTables:
    """Measure the tables of all triples of columns in one class, for `mu` together.

    The bins of a column are put into `n_groups` as `groups` (D,) says, known before.
    """
    codes = Parts.of(rows).map(bins.encode).map(_grouped, groups, bins.starts[:-1])
    triples = np.array(list(combinations(range(len(bins.sizes)), 3)), dtype=np.int64)
    reservation = accountant.reserve_gaussian(
        f"{in_words(len(triples))} of 3 columns, {len(triples) * n_groups**3} cells",
        mu=mu,
        sensitivity=GRID * math.sqrt(len(triples)),
        scope=scope,
    )
    counts = noisy_triple_tables(codes, n_groups, triples, reservation, GRID) / GRID
    noise_std = reservation.noise_std / GRID
    return TripleTables(groups, triples, counts.astype(np.float32), noise_std)


def in_words(number: int) -> str:
    """Give a number of tables in words."""
    return "1 table" if number == 1 else f"{number} tables"


def _grouped(codes: NDArray[np.integer], groups: Ints, starts: Ints) -> NDArray[Any]:
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
    unit = math.sqrt(max(_CLIP * float((stds**2).sum()), TINY)) / LENGTH
    name, norm = f"second moments of {len(means)} columns", MOMENTS_SENSITIVITY
    reservation = accountant.reserve_gaussian(
        name, mu=mu, sensitivity=norm, scope=scope
    )
    sums = noisy_second_moments(scores, means, unit, reservation)
    noise_std = reservation.noise_std * unit**2
    return SecondMoments(sums / n_rows, float(noise_std / n_rows))


def _distances_by_chance(expected: Ints, starts: Ints) -> Floats:
    """Give the mean L1 distance of the tables of independent columns, of all pairs."""
    off = np.sqrt(2.0 / math.pi * np.maximum(expected, 0))
    blocks = np.add.reduceat(np.add.reduceat(off, starts[:-1], 0), starts[:-1], 1)
    return np.asarray(blocks[np.triu_indices(len(starts) - 1, 1)])


def _worth(distances: Floats, noise: Floats, first: NDArray[np.bool_]) -> Ints:
    """Choose the pairs whose distances exceed the noise of their tables by most.

    The `noise` of a table, stated for it alone, grows with the root of the number of
    tables, so the gain of the best ones together has a maximum. Those that are `first`
    are all among them.
    """
    found, best = np.empty(0, dtype=np.int64), -math.inf
    least = max(int(first.sum()), 1)
    most = max(min(len(distances), MOST_TABLES), least)
    for n_tables in np.unique(np.geomspace(least, most, 60).astype(np.int64)):
        gains = distances - noise * math.sqrt(n_tables)
        chosen = np.lexsort((-gains, ~first))[:n_tables]
        total = float(gains[chosen].sum())
        if total > best:
            found, best = chosen, total
    return np.sort(found)
