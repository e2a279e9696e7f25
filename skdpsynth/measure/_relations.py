"""Relations: columns that nearly determine another one, measured again in finer cells.

Which they are follows from the released tables of pairs. So does where their finer
cells are: inside pairs of bins that have rows. Elsewhere nothing is measured.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import (
    breadth_first_order,
    connected_components,
    minimum_spanning_tree,
)
from scipy.special import logsumexp, softmax

from skdpsynth.measure._bins import FinerBins, TableBins
from skdpsynth.measure._query import N_GROUPS, Measurement
from skdpsynth.measure._shares import LIKELY, LITTLE, MOST_TABLES, SMALLEST, SURE, TINY
from skdpsynth.utils import ROUNDING, check_array, require
from skdpsynth.utils.arrays import Bools, Floats, Ints

Tree = list[tuple[int | None, int]]
Tables = dict[tuple[int, int], "Floats"]


@dataclass(frozen=True, eq=False)
class PairTables:
    """The tables of pairs of columns that were measured of each class.

    With `of` a first axis of all arrays is of the classes, and an item is one of them.
    """

    counts: NDArray[np.floating]  # (..., D, D), above the diagonal; 0 if not measured
    asked: Bools  # (..., n_columns, n_columns), above the diagonal: if it was measured
    noise_std: Any  # (...,), of a count, in rows; 1 without tables
    n_rows: Any  # (...,), as known, or as the tables say if they deny it

    @classmethod
    def of(
        cls,
        answers: Sequence[Measurement],
        bins: TableBins,
        scopes: Sequence[Hashable],
        n_rows: Floats,
    ) -> PairTables:
        """Lay answers out, of other pairs each; `n_rows` of the scopes were known."""
        shapes = ((len(scopes), n, n) for n in (bins.starts[-1], len(bins.sizes)))
        counts, asked = map(np.zeros, shapes, (np.float32, bool))
        made = cls(counts, asked, np.ones(len(scopes)), n_rows.copy())
        for answer in answers:
            query, each = answer.query, (answer.values, answer.noise_std, answer.scopes)
            for values, std, scope in zip(*each, strict=True):
                place = (c := scopes.index(scope)), *query.sets.T
                same = made.noise_std[c] == std or not made.asked[c].any()
                require(same and not made.asked[place].any(), "pairs")
                made.counts[c, query.measured] = values
                made.asked[place], made.noise_std[c] = True, std
        for c in np.flatnonzero(made.has).tolist():
            pairs = made[c].pairs
            values = made.counts[c, made[c].measured(bins.sizes)]
            # Every table counts all rows of the class: a number that was declared for
            # another table, such as the whole of which this is a fold, must not spoil
            # the fit.
            counted = float(values.sum(dtype=np.float64)) / len(pairs)
            std = made.noise_std[c] * math.sqrt(len(values)) / len(pairs)
            if abs(counted - n_rows[c]) > SURE * std + 1.0:
                made.n_rows[c] = max(counted, 1.0)
        return made

    def __getitem__(self, place: int | slice | Bools) -> PairTables:
        """Return the tables of one class, or of some."""
        return PairTables(*(array[place] for array in vars(self).values()))

    @property
    def has(self) -> Bools:
        """Which classes have tables."""
        return np.asarray(self.asked.any(axis=(-2, -1)))

    @property
    def pairs(self) -> Ints:
        """The pairs of columns i < j of one class, (n_pairs, 2)."""
        return np.argwhere(self.asked)

    def measured(self, sizes: Ints | Sequence[int]) -> Bools:
        """Return which pairs of bins of one class are in its tables, (D, D)."""
        return np.repeat(np.repeat(self.asked, sizes, axis=0), sizes, axis=1)

    def share_of_planned(self) -> float:
        """Return the share of the planned tables of one class that was measured."""
        planned = max(min(math.comb(len(self.asked), 2), MOST_TABLES), 1)
        return len(self.pairs) / planned

    def strongest_tree(
        self, shares: Floats, starts: Ints
    ) -> tuple[Tree, Tables, Floats]:
        """Find the tree of pairs that share most information (Chow, Liu 1968).

        `shares` (D,) are those of the bins in their columns, and `starts` (n_columns +
        1,) where these begin, and the last one ends.

        The tree has parent and child of each column, in an order in which rows can be
        drawn; None is no parent. Each tree of the forest has the root from which
        children are determined best. Then come all tables as shares, without what may
        be noise, both ways round; and what two columns say of each other, in nats,
        above the diagonal.
        """
        noisy, std = self.counts / self.n_rows, self.noise_std / self.n_rows
        columns = [slice(start, end) for start, end in pairwise(starts.tolist())]
        tables: Tables = {}
        information = np.zeros((len(columns), len(columns)))
        for a, b in combinations(range(len(columns)), 2):
            place = columns[a], columns[b]
            if self.asked[a, b]:
                independent = np.outer(shares[columns[a]], shares[columns[b]])
                counted = noisy[place].astype(np.float64)
                table, _, information[a, b] = _beyond_noise(counted, independent, std)
                tables[a, b], tables[b, a] = table, table.T
        information[information < TINY] = 0.0
        forest = minimum_spanning_tree(-information)
        entropies = np.array([max(_entropy(shares[bins]), TINY) for bins in columns])
        told = (information + information.T) / entropies  # of the second by the first
        n_trees, trees = connected_components(forest, directed=False)
        tree: Tree = []
        for k in range(n_trees):
            ways = [
                breadth_first_order(forest, root, directed=False)
                for root in np.flatnonzero(trees == k)
            ]
            of_ways = [told[parents[way[1:]], way[1:]].sum() for way, parents in ways]
            places, parents = ways[int(np.argmax(of_ways))]
            tree += [
                (int(parents[j]) if parents[j] >= 0 else None, j)
                for j in places.tolist()
            ]
        return tree, tables, information


def with_together(pairs: PairTables, together: PairTables) -> PairTables:
    """Correct the tables of each class by those of all these classes together.

    What the sum of the classes lacks is shared out by their variances: the best linear
    unbiased estimate of each class (weighted least squares).
    """
    variances = np.where(pairs.has, pairs.noise_std**2, 0.0)
    total = together.noise_std**2 + sum(variances.tolist())
    parts, counts = variances / max(total, SMALLEST), np.zeros_like(pairs.counts)
    beside = together.counts - pairs.counts[pairs.has].sum(axis=0)
    for c in np.flatnonzero(pairs.has):
        counts[c] = pairs.counts[c] + float(parts[c]) * beside
    noise_std = pairs.noise_std * np.sqrt(1.0 - parts)
    return replace(pairs, counts=counts, noise_std=noise_std)


def _beyond_noise(
    noisy: Floats, independent: Floats, std: float
) -> tuple[Floats, Floats, float]:
    """Keep the cells of a table above the noise; the rest is as if independent.

    No cell of noise is kept, but for one table in a few (Donoho, Johnstone 1994: the
    universal threshold). The lift of each cell over independent columns is returned
    too, and what two columns say of each other, in nats.
    """
    threshold = std * math.sqrt(2.0 * math.log(noisy.size + 1))
    kept = np.abs(noisy - independent) > threshold
    table = np.where(kept, np.maximum(noisy, 0.0), 0.0)
    rest = np.where(kept, 0.0, independent)
    rest *= max(1.0 - table.sum(), 0.0) / max(rest.sum(), TINY)
    table = np.maximum(table + rest, TINY)
    table /= table.sum()
    lift = table / np.outer(table.sum(axis=1), table.sum(axis=0))
    return table, lift, float((table * np.log(lift)).sum())


# Information over the entropy of the column with less, from which one of them nearly
# determines the other: with .35, too, price and carat of Diamonds, whose other
# dependence was lost (C2ST .86, not .85).
_STRONG = 0.55
# A pair of bins is impossible where its share is surely below this part of that of
# independent columns. So are all pairs that are not above the noise, if they have fewer
# rows together: without that distances of Diamonds were .106 and .208, not .100 and
# .189 (2- and 3-way, epsilon 1).
_RARE = 0.3


@dataclass(frozen=True)
class Relation:
    """How one column follows another one, all classes together."""

    parent: int
    child: int
    shares: Floats  # of pairs of bins, with sum 1; 0 where a pair is impossible
    strong: bool  # whether one of the columns nearly determines the other
    cells: Floats | None = None  # shares of finer cells, if they were measured
    # A third column, which helps to predict the child where the parent is known, and
    # how much more often than by chance a group of the child and a bin of that column
    # occur together, (N_GROUPS, n_bins of it).
    second: int | None = None
    lift: Floats | None = None

    def check(self, n_bins: Sequence[int] | Ints, n_cells: Sequence[int] = ()) -> None:
        """Raise a ValueError unless it is of columns with these bins and cells."""
        second = () if self.second is None else (self.second,)
        columns = (self.parent, self.child, *second)
        require(
            all(type(j) is int and 0 <= j < len(n_bins) for j in columns), "columns"
        )
        require(len({*columns}) == len(columns), "columns")
        require(type(self.strong) is bool, "relations")
        require((self.second is None) == (self.lift is None), "relations")
        for shares, n in ((self.shares, n_bins), (self.cells, n_cells)):
            if shares is not None:
                check_array(shares, "float64", (n[self.parent], n[self.child]), 0)
                require(abs(float(shares.sum()) - 1.0) < ROUNDING, "shares")
        if self.second is not None:
            require(self.cells is not None, "relations")
            check_array(self.lift, "float64", (N_GROUPS, n_bins[self.second]), 0)
            require((np.asarray(self.lift) > 0).all(), "relations")  # for logarithms

    @property
    def groups(self) -> Ints:
        """Group of each cell of the child, given the cell of the parent.

        By its rank among the cells that follow that of the parent, in `N_GROUPS` groups
        that are about equally frequent; of shape (n_cells, n_cells).
        """
        assert self.cells is not None
        ends = np.cumsum(self.cells, axis=1)
        middles = (ends - 0.5 * self.cells) / np.maximum(ends[:, -1:], SMALLEST)
        return np.minimum((middles * N_GROUPS).astype(np.int64), N_GROUPS - 1)


@dataclass(frozen=True)
class Relations:
    """The relations of a table along its tree, each after that of its parent."""

    each: list[Relation]
    std: float  # noise of a share of a pair of bins
    information: Floats  # what two columns say of each other, in nats
    finer: FinerBins | None = None  # the cells, if some were measured

    @property
    def measured(self) -> list[Relation]:
        """Those that were measured in finer cells."""
        return [one for one in self.each if one.cells is not None]


def find_relations(
    pairs: PairTables,
    shares: Floats,
    bins: TableBins,
    together: PairTables | None = None,
) -> Relations:
    """Find the relations of a table in the tables of pairs of some classes.

    All have the same `pairs`, and `together` is of all these classes. `shares`
    (n_classes, D) are those of the `bins` in their columns.
    """
    starts, rests = bins.starts, [column.rest for column in bins.columns]
    n_rows = sum(pairs.n_rows.tolist())
    counts = pairs.counts.sum(0, dtype=np.float64)
    variance = sum((pairs.noise_std**2).tolist())
    if together is not None:  # the same counts again: the mean of both, by variances
        part = variance / max(variance + together.noise_std**2, SMALLEST)
        counts += part * (together.counts - counts)
        variance *= 1.0 - part
    std, noisy = math.sqrt(variance) / n_rows, counts / n_rows
    pooled = shares.T @ (pairs.n_rows / n_rows)
    every = PairTables(counts, pairs.asked[0], math.sqrt(variance), n_rows)
    tree, tables_of, information = every.strongest_tree(pooled, starts)
    relations = []
    for parent, child in tree:
        if parent is None:
            continue
        whole = tables_of[parent, child]
        a, b = (slice(*starts[j : j + 2]) for j in (parent, child))
        table = noisy[a, b] if parent < child else noisy[b, a].T
        said = information[min(parent, child), max(parent, child)]
        strong = _is_strong(said, whole)
        if not strong and max(places := [rests[j] for j in (parent, child)]) >= 0:
            # Of most rows it may be so, but not of the rare categories in one bin.
            inside = whole
            for axis, place in enumerate(places):
                inside = np.delete(inside, [place] * (place >= 0), axis)
            share = float(inside.sum())
            apart = np.outer(inside.sum(axis=1), inside.sum(axis=0)) / max(share, TINY)
            said = float((inside * np.log(inside / np.maximum(apart, SMALLEST))).sum())
            strong = 2 * share > 1 and _is_strong(said / share, inside)
        independent = np.outer(pooled[a], pooled[b])
        kept = table > std * math.sqrt(2.0 * math.log(table.size + 1))
        rare = table + LIKELY * std < _RARE * independent
        rest = 1.0 - table[kept].sum() + LIKELY * std * math.sqrt(max(kept.sum(), 1))
        # With no limit of its own the 2-way distance of RandHIE rose by .002 (epsilon
        # 1).
        no_more = strong and rest < min(LITTLE, _RARE * independent[~kept].sum())
        possible = np.where(kept if no_more else kept | ~rare, whole, 0.0)
        # Missing in the same rows, as far as the noise of differences of counts tells.
        gone = bins.columns[parent].missing, bins.columns[child].missing
        both, each = table[gone], (pooled[a][gone[0]], pooled[b][gone[1]])
        sure = SURE * math.sqrt(2.0) * std
        if min(gone) >= 0 and both > sure > np.ptp([both, *each]):
            possible[gone[0]], possible[:, gone[1]] = 0.0, 0.0
            possible[gone] = both
        if possible.any():
            of_bins = possible / possible.sum()
            relations.append(Relation(parent, child, of_bins, strong))
    return Relations(relations, std, information + information.T)


def _is_strong(said: float, table: Floats) -> bool:
    """Return whether two columns say so much of each other in a table."""
    least = min(_entropy(table.sum(axis=1)), _entropy(table.sum(axis=0)))
    return bool(said > _STRONG * max(least, TINY))


def _entropy(shares: Floats) -> float:
    positive = shares[shares > 0] / shares.sum()
    return float(-(positive * np.log(positive)).sum())


def with_cells(relations: Relations, answer: Measurement, shares: Floats) -> Relations:
    """Share the pairs of bins of relations out to the finer cells that were measured.

    `shares` are those of the cells in their columns, all classes together. Inside a
    pair of bins the measured difference to independent columns is shrunk towards 0, the
    more of it noise explains (James, Stein 1961).
    """
    finer, tables = answer.query.finer, answer.query.tables(answer.values[0])
    of_pair = dict(zip(map(tuple, answer.query.sets.tolist()), tables, strict=True))
    # A relation may be found the other way round.
    of_pair = {pair[::-1]: table.T for pair, table in of_pair.items()} | of_pair
    starts, each, std = finer.bins.starts, [], max(float(answer.noise_std[0]), TINY)
    for one in relations.each:
        pair = one.parent, one.child
        if pair not in of_pair:
            each.append(one)
            continue
        noisy, in_bins = np.nan_to_num(of_pair[pair]), finer.in_bins(pair)
        apart = np.outer(*(shares[slice(*starts[j : j + 2])] for j in pair))
        even = np.where(finer.summed(pair, apart)[in_bins] > 0, apart, TINY)
        expected = even / finer.summed(pair, even)[in_bins]
        rows = (max(noisy.sum(), 0.0) * one.shares)[in_bins]
        beside = noisy - rows * expected
        n_free = finer.summed(pair, np.ones(noisy.shape)) - 1.0
        energy = np.maximum(finer.summed(pair, beside**2), SMALLEST)
        kept = np.maximum(1.0 - n_free * std**2 / energy, 0.0)[in_bins]
        cells = np.maximum(rows * expected + kept * beside, 0.0)
        if not any(len(finer.bins.columns[j].edges) for j in pair):
            # The likelier: as measured, shrunk, or each category with one other alone.
            excess = np.maximum(energy / np.maximum(n_free * std**2, TINY), 1.0)
            gained = 0.5 * (n_free * (excess - 1.0 - np.log(excess))).sum()
            shared = (rows > 0) & (n_free > 0)[in_bins]
            decided, more = _decided(noisy, rows * expected, shared, std)
            cells = decided if more > gained else cells
        whole = finer.summed(pair, cells)[in_bins]
        cells = np.where(whole > 0, cells / np.maximum(whole, SMALLEST), expected)
        each.append(replace(one, cells=cells * one.shares[in_bins]))
    return replace(relations, each=each, finer=finer)


def _decided(
    noisy: Floats, expected: Floats, shared: Bools, std: float
) -> tuple[Floats, float]:
    """Return cells if each category goes with one other, and the log evidence."""
    axis = int(np.argmin(noisy.shape))  # of what is decided
    sizes = np.maximum(expected.sum(axis=axis, keepdims=True), SMALLEST)
    likely = np.log(np.maximum(expected / sizes, SMALLEST))
    likely += sizes * (noisy - 0.5 * sizes) / std**2
    apart = (expected * (noisy - 0.5 * expected)).sum(axis=axis) / std**2
    gained = (logsumexp(likely, axis=axis) - apart)[shared.any(axis=axis)]
    return sizes * softmax(likely, axis=axis), float(gained.sum())


def with_ranks(relations: Relations, answer: Measurement, shares: Floats) -> Relations:
    """Return every measured relation the second column that says most, if one does.

    `shares` (D,) are those of the bins in their columns, all classes together.
    """
    query, (std,) = answer.query, answer.noise_std.tolist()
    starts = query.bins.starts
    best: dict[tuple[int, ...], float] = {}
    measured = {(one.parent, one.child): one for one in relations.measured}
    tables = zip(query.sets.tolist(), query.tables(answer.values[0]), strict=True)
    for (*pair, j), noisy in tables:
        key = tuple(pair)
        if key not in measured:  # of one site, but not of all
            continue
        total = max(float(noisy.sum()), 1.0)
        of_groups = np.maximum(noisy.sum(axis=1), 1.0)
        apart = np.outer(of_groups / of_groups.sum(), shares[starts[j] : starts[j + 1]])
        _, lift, said = _beyond_noise(noisy / total, apart, std / total)
        if said > best.get(key, LITTLE):
            best[key] = said
            measured[key] = replace(measured[key], second=j, lift=lift)
    each = [measured.get((one.parent, one.child), one) for one in relations.each]
    return replace(relations, each=each)
