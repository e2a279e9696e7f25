"""Relations: columns that nearly determine another one, measured again in finer cells.

Which they are follows from the released tables of pairs. So does where their finer
cells are: inside pairs of bins that have rows. Elsewhere nothing is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from skdpsynth.measure._shares import (
    LEAST_NOISE,
    LIKELY,
    LITTLE,
    N_CELLS,
    RAKINGS,
    TINY,
)
from skdpsynth.measure._tables import (
    MOST_TABLES,
    ColumnBins,
    TableBins,
    bins_of_numbers,
    in_words,
)
from skdpsynth.privacy import Parts, noisy_histogram
from skdpsynth.table import CategoryDomain
from skdpsynth.utils import ROUNDING, check_array, require

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.measure._tables import PairTables
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.table import ColumnDomain, MarginalTransform, PrivateRows

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


def beyond_noise(noisy: Floats, independent: Floats, std: float) -> Floats:
    """Keep the cells of a table above the noise; the rest is as if independent.

    No cell of noise is kept, but for one table in a few (Donoho, Johnstone 1994: the
    universal threshold).
    """
    threshold = std * math.sqrt(2.0 * math.log(noisy.size + 1))
    kept = np.abs(noisy - independent) > threshold
    found = np.where(kept, np.maximum(noisy, 0.0), 0.0)
    rest = np.where(kept, 0.0, independent)
    rest *= max(1.0 - found.sum(), 0.0) / max(rest.sum(), TINY)
    table = np.maximum(found + rest, TINY)
    return np.asarray(table / table.sum())


Tree = list[tuple[int | None, int]]
Tables = dict[tuple[int, int], "Floats"]


def strongest_tree(
    noisy: NDArray[np.floating],
    measured: NDArray[np.bool_],
    std: float,
    shares: Floats,
    starts: Ints,
) -> tuple[Tree, Tables, Floats]:
    """Find the tree of pairs that share most information (Chow, Liu 1968).

    Each tree of the forest has the root from which children are determined best.

    Parameters
    ----------
    noisy : ndarray of shape (D, D)
        Shares of pairs of bins, above the diagonal.
    measured : ndarray of shape (D, D), bool
        Which of them were measured.
    std : float
        Noise of a share.
    shares : ndarray of shape (D,)
        Shares of the bins in their columns.
    starts : ndarray of shape (n_columns + 1,)
        Where the bins of each column begin, and the last ones end.

    Returns
    -------
    tree : list of pairs of int
        Parent and child, in an order in which rows can be drawn; None is no parent.
    tables : dict of pairs of int to ndarray
        All tables, without what may be noise, both ways round.
    information : ndarray of shape (n_columns, n_columns)
        What two columns say of each other, in nats, above the diagonal.
    """
    columns = [slice(start, end) for start, end in pairwise(starts.tolist())]
    tables: Tables = {}
    information = np.zeros((len(columns), len(columns)))
    for a, b in combinations(range(len(columns)), 2):
        place = columns[a], columns[b]
        if measured[place].any():
            independent = np.outer(shares[columns[a]], shares[columns[b]])
            table = beyond_noise(noisy[place].astype(np.float64), independent, std)
            tables[a, b], tables[b, a] = table, table.T
            sides = np.outer(table.sum(axis=1), table.sum(axis=0))
            information[a, b] = (table * np.log(table / sides)).sum()
    information[information < TINY] = 0.0
    forest = minimum_spanning_tree(-information)
    entropies = np.array([max(_entropy(shares[own]), TINY) for own in columns])
    told = (information + information.T) / entropies  # of the second by the first
    tree: Tree = []
    done: set[int] = set()
    for first in range(len(columns)):
        if first in done:
            continue
        order, _ = breadth_first_order(forest, first, directed=False)
        done.update(order.tolist())
        best = -1.0
        for root in sorted(order.tolist()):
            places, parents = breadth_first_order(forest, root, directed=False)
            found = float(told[parents[places[1:]], places[1:]].sum())
            if found > best:
                best, chosen = found, (places.tolist(), parents.tolist())
        places, parents = chosen
        tree += [(parents[j] if parents[j] >= 0 else None, j) for j in places]
    return tree, tables, information


# Information over the entropy of the column with less, from which one of them nearly
# determines the other: with .35, too, price and carat of Diamonds, whose other
# dependence was lost (C2ST .86, not .85).
_STRONG = 0.55
# A pair of bins is impossible where its share is surely below this part of that of
# independent columns. So are all pairs that are not above the noise, if they have fewer
# rows together: without that distances of Diamonds were .106 and .208, not .100 and
# .189 (2- and 3-way, epsilon 1).
_RARE = 0.3
# Groups of a child given its parent: with 8, C2ST of Diamonds at epsilon 1 was .845,
# with 3 and 4 .83.
N_GROUPS = 3
# Rows of a cell of a bin, in noise deviations: six of a mean cell that has rows, of
# which a column that is determined has about three.
_CELL_FROM = 18.0


@dataclass(frozen=True)
class FinerBins:
    """Finer bins (cells) of all columns, in the order of the coarse bins.

    Each lies inside one coarse bin.
    """

    bins: TableBins
    within: list[Ints]  # (n_cells,) of each column: the coarse bin of each cell

    def of_rows(self, rows: PrivateRows, relation: Relation) -> tuple[Ints, Ints]:
        """Give the cells of every row in the columns of a relation; private."""
        parent, child = (
            self.bins.columns[j].encode(rows.uniforms[:, j], rows.category_codes[:, j])
            for j in (relation.parent, relation.child)
        )
        return parent, child

    def measured(self, relations: Relations) -> list[int]:
        """Give the positions of the relations to measure.

        Strong ones, where some bin of either column has several cells.
        """
        several = [len(own) > own[-1] + 1 for own in self.within]
        return [
            k
            for k, own in enumerate(relations.each)
            if own.strong and (several[own.parent] or several[own.child])
        ]

    def slices(self, column: int) -> Ints:
        """Give where the cells of each bin of a column begin, and the last ones end."""
        own = self.within[column]
        return np.searchsorted(own, np.arange(own[-1] + 2))


@dataclass(frozen=True)
class Relation:
    """How one column follows another one, all classes together.

    Parameters
    ----------
    parent, child : int
        The columns.
    shares : ndarray of shape (n_bins of the parent, n_bins of the child)
        Shares of pairs of bins, with sum 1; 0 where a pair is impossible.
    strong : bool
        Whether one of the columns nearly determines the other.
    cells : ndarray of shape (n_cells, n_cells), optional
        The same for finer cells, if they were measured.
    second : int, optional
        A third column, which helps to predict the child where the parent is known.
    lift : ndarray of shape (N_GROUPS, n_bins of the third column), optional
        How much more often a group of the child and a bin of that column occur together
        than they would by chance.
    """

    parent: int
    child: int
    shares: Floats
    strong: bool
    cells: Floats | None = None
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
        middles = (ends - 0.5 * self.cells) / np.maximum(ends[:, -1:], 1e-300)
        return np.minimum((middles * N_GROUPS).astype(np.int64), N_GROUPS - 1)


@dataclass(frozen=True)
class Relations:
    """The relations of a table, each after that of its parent.

    Parameters
    ----------
    each : list of Relation
        Along the tree of the strongest pairs.
    std : float
        Noise of a share of a pair of bins.
    information : ndarray of shape (n_columns, n_columns)
        What two columns say of each other, in nats.
    finer : FinerBins, optional
        The cells, if some were measured.
    """

    each: list[Relation]
    std: float
    information: Floats
    finer: FinerBins | None = None

    @property
    def measured(self) -> list[Relation]:
        """Those that were measured in finer cells."""
        return [own for own in self.each if own.cells is not None]


def find_relations(
    pairs: Mapping[int, PairTables],
    shares: Sequence[Floats],
    starts: Ints,
    together: PairTables | None = None,
) -> Relations:
    """Find the relations of a table in the tables of pairs of all its classes.

    Parameters
    ----------
    pairs : dict of int to PairTables
        The tables of each class that has some, of the same pairs.
    shares : list of n_classes ndarray of shape (D,)
        Shares of the bins in their columns.
    starts : ndarray of shape (n_columns + 1,)
        Where the bins of each column begin.
    together : PairTables, optional
        The tables of all these classes together.

    Returns
    -------
    Relations
        Without finer cells.
    """
    n_rows = sum(own.n_rows for own in pairs.values())
    counts = np.array([own.counts for own in pairs.values()]).sum(0, dtype=np.float64)
    measured = next(iter(pairs.values())).measured
    variance = sum(own.noise_std**2 for own in pairs.values())
    if together is not None:  # the same counts again: the mean of both, by variances
        part = variance / (variance + together.noise_std**2)
        counts += part * (together.counts - counts)
        variance *= 1.0 - part
    std, noisy = math.sqrt(variance) / n_rows, counts / n_rows
    weights = np.array([own.n_rows / n_rows for own in pairs.values()])
    pooled: Floats = np.array([shares[c] for c in pairs]).T @ weights
    tree, tables, information = strongest_tree(noisy, measured, std, pooled, starts)
    found = []
    for parent, child in tree:
        if parent is None:
            continue
        whole = tables[parent, child]
        a, b = (slice(*starts[j : j + 2]) for j in (parent, child))
        table = noisy[a, b] if parent < child else noisy[b, a].T
        least = min(_entropy(whole.sum(axis=1)), _entropy(whole.sum(axis=0)))
        said = information[min(parent, child), max(parent, child)]
        strong = bool(said > _STRONG * max(least, TINY))
        independent = np.outer(pooled[a], pooled[b])
        own = np.where(_possible(table, independent, std, strong=strong), whole, 0.0)
        if own.any():
            found.append(Relation(parent, child, own / own.sum(), strong))
    return Relations(found, std, information + information.T)


def raked(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Bring a table to given sums, as far as its zeros allow (Deming, Stephan 1940)."""
    for _ in range(RAKINGS):
        table = table * (rows / np.maximum(table.sum(axis=1), 1e-300))[:, None]
        table = table * (columns / np.maximum(table.sum(axis=0), 1e-300))
    return table / table.sum()


def _entropy(shares: Floats) -> float:
    positive = shares[shares > 0] / shares.sum()
    return float(-(positive * np.log(positive)).sum())


def _possible(
    noisy: Floats, independent: Floats, std: float, *, strong: bool
) -> NDArray[np.bool_]:
    """Tell which pairs of bins may have rows."""
    kept = noisy > std * math.sqrt(2.0 * math.log(noisy.size + 1))
    rare = noisy + LIKELY * std < _RARE * independent
    rest = 1.0 - noisy[kept].sum() + LIKELY * std * math.sqrt(max(kept.sum(), 1))
    apart = independent[~kept].sum()
    # With no limit of its own the 2-way distance of RandHIE rose by .002 (epsilon 1).
    if strong and rest < min(LITTLE, _RARE * apart):
        return np.asarray(kept)
    return np.asarray(kept | ~rare)


def finer_bins(
    domains: Sequence[ColumnDomain],
    marginals: list[list[MarginalTransform]],
    prior: Floats,
    bins: TableBins,
    n_parts: int,
) -> FinerBins:
    """Cut the bins of every column into `n_parts` at most, and groups of categories."""
    columns, within = [], []
    for j, (domain, coarse) in enumerate(zip(domains, bins.columns, strict=True)):
        own = [of_class[j] for of_class in marginals]
        if isinstance(domain, CategoryDomain):
            fine = _each_category(domain, own, prior, coarse)
            of_cell = np.zeros(fine.n_bins, dtype=np.int64)
            of_cell[fine.of_code] = coarse.of_code
        else:
            n_intervals = len(coarse.edges) - 1
            fine = bins_of_numbers(domain, own, prior, n_parts * n_intervals)
            edges = np.union1d(coarse.edges, fine.edges)
            beside = len(edges) - len(fine.edges)
            of_code = np.where(fine.of_code < 0, -1, fine.of_code + beside)
            fine = ColumnBins(edges, of_code, fine.n_bins + beside, fine.zero)
            middles = 0.5 * (edges[:-1] + edges[1:])
            inside = np.searchsorted(coarse.edges, middles) - 1
            of_cell = np.concatenate((inside, np.arange(n_intervals, coarse.n_bins)))
        columns.append(fine)
        within.append(of_cell)
    return FinerBins(TableBins(columns), within)


def _each_category(
    domain: CategoryDomain,
    marginals: list[MarginalTransform],
    prior: Floats,
    coarse: ColumnBins,
) -> ColumnBins:
    """Give the categories of a column a cell each, in the order of its bins."""
    pooled = prior @ np.array([own.level_shares() for own in marginals])
    order = np.lexsort((-pooled, coarse.of_code[:-2]))
    n_cells = min(len(order), N_CELLS)
    of_code = np.full(domain.n_codes, n_cells)
    of_code[order[:n_cells]] = np.arange(n_cells)
    of_code[-1] = n_cells + domain.nullable
    return ColumnBins(np.empty(0), of_code, n_cells + 1 + domain.nullable)


def parts_of_bins(n_rows: float, n_bins: int, noise_std: float) -> int:
    """Choose into how many parts the bins of related columns are cut.

    Marginals know no more than `N_CELLS` in all.
    """
    clear = n_rows / (_CELL_FROM * max(noise_std, LEAST_NOISE) * n_bins)
    return int(np.clip(clear, 1, N_CELLS // n_bins))


class CellTables(NamedTuple):
    """The finer cells of the strong relations, of all classes together."""

    counts: list[Floats]  # (n_cells, n_cells) each; NaN where a pair is impossible
    noise_std: float  # of a count, in rows


def measure_cells(
    rows: PrivateRows | Parts,
    finer: FinerBins,
    relations: Sequence[Relation],
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
) -> CellTables:
    """Measure the finer cells of some relations, for `mu` together.

    Of possible pairs of bins; the rows of all others are counted together.
    """
    places = [_places(own, finer) for own in relations]
    sizes = [int((own.shares > 0)[_in_bins(own, finer)].sum()) + 1 for own in relations]
    codes = Parts.of(rows).map(_cell_codes, finer, relations, places)
    reservation = accountant.reserve_gaussian(
        f"{in_words(len(relations))} of 2 columns in finer cells, {sum(sizes)} cells",
        mu=mu,
        sensitivity=math.sqrt(len(relations)),
        scope=scope,
    )
    released = noisy_histogram(codes, sizes, reservation)
    counts = [
        np.append(own[:-1], np.nan)[place]
        for own, place in zip(released, places, strict=True)
    ]
    return CellTables(counts, reservation.noise_std)


def _in_bins(relation: Relation, finer: FinerBins) -> tuple[Ints, ...]:
    """Give the pair of bins of every pair of cells, as an index."""
    return np.ix_(finer.within[relation.parent], finer.within[relation.child])


def _places(relation: Relation, finer: FinerBins) -> Ints:
    """Give the cells of possible pairs of bins numbers; the last is for all others."""
    possible = (relation.shares > 0)[_in_bins(relation, finer)]
    places = np.full(possible.shape, possible.sum())
    places[possible] = np.arange(possible.sum())
    return places


def _cell_codes(
    rows: PrivateRows,
    finer: FinerBins,
    relations: Sequence[Relation],
    places: Sequence[Ints],
) -> NDArray[np.unsignedinteger]:
    """Give the cell of every row in every relation; private."""
    kind = np.min_scalar_type(max(int(place.max()) for place in places))
    codes = np.empty((len(rows), len(relations)), dtype=kind)
    for k, (own, place) in enumerate(zip(relations, places, strict=True)):
        codes[:, k] = place[finer.of_rows(rows, own)]
    return codes


class GroupTables(NamedTuple):
    """Counts by the group of a child, given its parent, and a third column.

    The group is that of its rank among the values that occur with its parent. There is
    one table for each relation with cells and each third column.
    """

    counts: list[Floats]  # (N_GROUPS, n_bins) each, in the order of `others`
    noise_std: float  # of a count, in rows


def others(relations: Relations, n_columns: int) -> list[tuple[int, int]]:
    """List the tables of groups: a position in `relations.measured`, a third column.

    In a wide table only the columns that share most information with the child.
    """
    most = max(MOST_TABLES // max(len(relations.measured), 1), 1)
    found = []
    for k, own in enumerate(relations.measured):
        order = np.argsort(-relations.information[own.child], kind="stable")
        third = [j for j in order.tolist() if j not in (own.parent, own.child)]
        found += [(k, j) for j in sorted(third[:most])]
    return found


def measure_groups(
    rows: PrivateRows | Parts,
    relations: Relations,
    bins: TableBins,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
) -> GroupTables:
    """Measure the groups of children by the bins of other columns.

    For `mu` together. This is the second tree of a vine (Bedford, Cooke 2002): ranks
    given a parent, which are functions of releases, and another column.
    """
    places = others(relations, len(bins.sizes))
    sizes = [N_GROUPS * bins.sizes[j] for _, j in places]
    codes = Parts.of(rows).map(_group_codes, relations, bins, places)
    reservation = accountant.reserve_gaussian(
        f"{in_words(len(places))} of ranks given a column, {sum(sizes)} cells",
        mu=mu,
        sensitivity=math.sqrt(len(places)),
        scope=scope,
    )
    released = noisy_histogram(codes, sizes, reservation)
    counts = [own.reshape(N_GROUPS, -1).astype(np.float64) for own in released]
    return GroupTables(counts, reservation.noise_std)


def _group_codes(
    rows: PrivateRows,
    relations: Relations,
    bins: TableBins,
    places: Sequence[tuple[int, int]],
) -> NDArray[np.unsignedinteger]:
    """Give the cell of every row in every table of groups; private."""
    assert relations.finer is not None
    finer, of_bins = relations.finer, bins.encode(rows)
    groups = [own.groups[finer.of_rows(rows, own)] for own in relations.measured]
    kind = np.min_scalar_type(N_GROUPS * max(bins.sizes))
    codes = np.empty((len(rows), len(places)), dtype=kind)
    for n, (k, j) in enumerate(places):
        codes[:, n] = groups[k] * bins.sizes[j] + of_bins[:, j]
    return codes


def with_cells_of(
    first: Relations, again: Relations, finer: FinerBins, shares: Floats
) -> Relations:
    """Complete relations that were found in more rows by the cells of first ones.

    Where the same column follows the same other one, pairs of bins are shared out to
    finer cells as there; what a third column says is as there, too. `shares` are those
    of the cells in their columns, all classes together.
    """
    before = {(own.parent, own.child): own for own in first.measured}
    each = []
    for own in again.each:
        known = before.get((own.parent, own.child))
        if known is not None and known.cells is not None:
            own = _refined(own, known.cells, 0.0, finer, shares)
            own = replace(own, second=known.second, lift=known.lift)
        each.append(own)
    again = replace(again, each=each)
    return replace(again, finer=finer) if again.measured else again


def with_groups(
    relations: Relations, bins: TableBins, tables: GroupTables, shares: Floats
) -> Relations:
    """Give every measured relation the second column that says most, if one does.

    `shares` (D,) are those of the bins in their columns, all classes together.
    """
    starts = bins.starts
    best = [LITTLE] * len(relations.measured)
    found = list(relations.measured)
    for n, (k, j) in enumerate(others(relations, len(bins.sizes))):
        noisy = tables.counts[n]
        total = max(float(noisy.sum()), 1.0)
        of_groups = np.maximum(noisy.sum(axis=1), 1.0)
        apart = np.outer(of_groups / of_groups.sum(), shares[starts[j] : starts[j + 1]])
        table = beyond_noise(noisy / total, apart, tables.noise_std / total)
        sides = np.outer(table.sum(axis=1), table.sum(axis=0))
        said = float((table * np.log(table / sides)).sum())
        if said > best[k]:
            best[k] = said
            found[k] = replace(found[k], second=j, lift=table / sides)
    each = iter(found)
    return replace(
        relations,
        each=[own if own.cells is None else next(each) for own in relations.each],
    )


def with_cells(
    relations: Relations, finer: FinerBins, tables: CellTables, shares: Floats
) -> Relations:
    """Complete relations by the finer cells that were measured.

    `shares` are those of the cells in their columns, all classes together.
    """
    each = list(relations.each)
    for n, k in enumerate(finer.measured(relations)):
        noisy = np.nan_to_num(tables.counts[n])
        each[k] = _refined(each[k], noisy, tables.noise_std, finer, shares)
    return replace(relations, each=each, finer=finer)


def _refined(
    relation: Relation, noisy: Floats, std: float, finer: FinerBins, shares: Floats
) -> Relation:
    """Share a relation's pairs of bins out to finer cells.

    Inside a pair of bins the measured difference to independent columns is shrunk
    towards 0, the more of it noise explains (James, Stein 1961).
    """
    starts, pair = finer.bins.starts, (relation.parent, relation.child)
    cuts = [finer.slices(j)[:-1] for j in pair]

    def summed(cells: Floats) -> Floats:
        """Add up the cells of every pair of bins."""
        return np.add.reduceat(np.add.reduceat(cells, cuts[0], 0), cuts[1], 1)

    in_bins = np.ix_(*(finer.within[j] for j in pair))
    apart = np.outer(*(shares[slice(*starts[j : j + 2])] for j in pair))
    even = np.where(summed(apart)[in_bins] > 0, apart, TINY)
    expected = even / summed(even)[in_bins]
    rows = (max(noisy.sum(), 0.0) * relation.shares)[in_bins]
    beside = noisy - rows * expected
    n_free = summed(np.ones(noisy.shape)) - 1.0
    energy = np.maximum(summed(beside**2), 1e-300)
    kept = np.maximum(1.0 - n_free * std**2 / energy, 0.0)[in_bins]
    cells = np.maximum(rows * expected + kept * beside, 0.0)
    whole = summed(cells)[in_bins]
    cells = np.where(whole > 0, cells / np.maximum(whole, 1e-300), expected)
    cells *= relation.shares[in_bins]
    return replace(relation, cells=cells)
