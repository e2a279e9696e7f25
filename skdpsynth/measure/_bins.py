"""Bins of every column in tables of two and three, and the finer cells inside them.

They are functions of the released marginals alone, and the same in all classes. In each
class a bin is an interval of ranks, which the fine marginal of the class turns into a
value.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, pairwise
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skdpsynth.measure._shares import COARSE_BINS, LITTLE, N_CELLS, TINY
from skdpsynth.table import (
    MISSING,
    ZERO,
    CategoryDomain,
    ColumnDomain,
    MarginalTransform,
    NumericDomain,
    Own,
    PrivateRows,
)
from skdpsynth.utils import MOST_SHOWN, check_array, check_groups, in_chunks, require
from skdpsynth.utils.arrays import Floats, Ints

# Of a number beside an exact zero, so that low and high values differ: with four the
# 2-way distance of RandHIE was .084, not .082 (epsilon 1).
_LEAST_INTERVALS = 3


def check_edges(edges: Any) -> None:  # noqa: ANN401 - of a file
    """Raise a ValueError unless edges rise within [0, 1]."""
    check_array(edges, "float64", (len(edges),), 0, 1)
    require(len(edges) > 1 and (np.diff(edges) > 0).all(), "edges")


Kind = Literal["interval", "categories", "zero", "special", "missing", "other", "rank"]


class Bin(NamedTuple):
    """A bin of one column.

    An interval has its ends, of which the lower one belongs to it, and of the last one
    both; a special value is both of its ends. Times are in seconds since 1970, on the
    column's own clock where it has a unit or its hours are measured. Categories in one
    bin are listed. "other" is any other value. A bin of kind "rank" holds the values of
    a column by their rank, in [0, 1], among those that occur with the same value of
    another column, which `categories` names. In tables of three columns zeros, special,
    missing and other values may be in a bin of another kind: `also` says so.
    """

    kind: Kind
    ends: tuple[float, float] | None = None
    categories: tuple[Hashable, ...] = ()
    also: tuple[Kind, ...] = ()

    def __str__(self) -> str:
        """Write it as one would in a table."""
        first, more = self.categories[:MOST_SHOWN], len(self.categories) - MOST_SHOWN
        text = ", ".join(map(str, first)) + (f" and {more} more" if more > 0 else "")
        if self.ends is not None:  # of times all digits count
            given, text = text, "[{:.12g}, {:.12g})".format(*self.ends)
            if self.kind == "special":
                text = f"{self.ends[0]:.12g}"
            if self.kind == "rank":
                text = f"rank {text} given {given}"
        elif self.kind != "categories":
            text = "0" if self.kind == "zero" else self.kind
        return ", ".join([text or "(nothing)", *map(str, map(Bin, self.also))])

    @staticmethod
    def union(bins: Iterable[Bin], inside: Iterable[bool]) -> Bin:
        """Return those of some bins of a column that are inside, as one."""
        parts = [*compress(bins, inside)]
        ends = [e for part in parts if part.kind == "interval" for e in part.ends or ()]
        categories = tuple(chain.from_iterable(part.categories for part in parts))
        also = [b.kind for b in parts if b.kind not in ("interval", "categories")]
        kind: Kind = "interval" if ends else "categories"
        if also and not (ends or categories):
            kind = also.pop(0)
        return Bin(kind, (ends[0], ends[-1]) if ends else None, categories, (*also,))


@dataclass(frozen=True)
class ColumnBins:
    """The bins of one column."""

    # (n_intervals + 1,): edges of the intervals of numbers, from 0 to 1; else empty.
    edges: Floats
    # Bin of each code of `PrivateRows`; -1 where the interval says it. Numeric columns
    # have the codes value, exact zero, missing and special values; others those of
    # `CategoryDomain`, and 'other' is in one bin with the rare categories. Zeros and
    # special values have bins after the intervals, or none, missing values the last.
    of_code: Ints

    @classmethod
    def of_numbers(
        cls, domain: NumericDomain, edges: Floats, codes: Collection[int]
    ) -> ColumnBins:
        """Return intervals, and bins of the `codes` of values and missing ones."""
        of_code = np.full(MISSING + 1 + len(domain.special), -1, dtype=np.int64)
        beside = [*codes, *[MISSING] * domain.nullable]
        of_code[beside] = len(edges) - 1 + np.arange(len(beside))
        return cls(edges, of_code)

    def check(self, domain: ColumnDomain) -> None:
        """Raise a ValueError unless the column can hold what these are bins of."""
        edges, of_code = self.edges, self.of_code
        check_array(of_code, "int64", (len(of_code),), -1)
        if isinstance(domain, CategoryDomain):
            require(not len(edges) and len(of_code) == domain.n_codes, "codes")
            require(self.n_bins <= len(of_code), "codes")  # before they are listed
            # Each code has a bin, and each bin a code; that of the rest comes last,
            # but for missing values.
            require(np.array_equal(np.unique(of_code), np.arange(self.n_bins)), "codes")
            require(self.rest == self.n_bins - 1 - domain.nullable, "codes")
            require((of_code[:-1] <= self.rest).all(), "codes")
            require(of_code[-1] == self.n_bins - 1, "codes")
            return
        check_edges(edges)
        require(edges[0] == 0 and edges[-1] == 1, "edges")
        require(len(of_code) == MISSING + 1 + len(domain.special), "codes")
        values = self.own_of(domain)
        require(all((edges == place).any() for _, _, place in values), "a value")
        right = ColumnBins.of_numbers(domain, edges, [value.code for value in values])
        require(of_code.tolist() == right.of_code.tolist(), "codes")

    def own_of(self, domain: ColumnDomain) -> list[Own]:
        """Return the values of a numeric column that have a bin of their own."""
        every = getattr(domain, "own", ())
        return [value for value in every if self.of_code[value.code] >= 0]

    def named(self, domain: ColumnDomain) -> tuple[Bin, ...]:
        """Return the bins in words."""
        if isinstance(domain, NumericDomain):
            intervals = [
                Bin("interval", e) for e in pairwise(domain.edges(self.edges).tolist())
            ]
            values = [
                Bin("zero") if code == ZERO else Bin("special", (value, value))
                for code, value, _ in self.own_of(domain)
            ]
            return (*intervals, *values, *[Bin("missing")] * domain.nullable)
        inside: list[list[Hashable]] = [[] for _ in range(self.n_bins)]
        for category, place in zip(domain.categories, self.of_code, strict=False):
            inside[place].append(category)
        # Without any categories these are none of the known.
        bins = [
            Bin("categories", None, (*names,)) if names else Bin("other")
            for names in inside
        ]
        if domain.nullable:
            bins[self.of_code[-1]] = Bin("missing")
        return (*bins,)

    @property
    def n_intervals(self) -> int:
        """How many intervals there are; 0 of categories."""
        return max(len(self.edges) - 1, 0)

    @property
    def n_bins(self) -> int:
        """How many there are."""
        return max(self.n_intervals, int(self.of_code.max()) + 1)

    @property
    def rest(self) -> int:
        """Bin of the rare categories and of 'other'; -1 in a numeric column."""
        return -1 if len(self.edges) else int(self.of_code[-2])

    @property
    def missing(self) -> int:
        """Bin of missing values, which is the last; -1 if there is none."""
        place = int(self.of_code[MISSING if len(self.edges) else -1])
        return place if place > self.rest else -1

    def encode(
        self, uniforms: NDArray[np.floating], category_codes: NDArray[np.integer]
    ) -> Ints:
        """Return the bin of every row; private if the rows are."""
        bins = self.of_code[category_codes]
        if len(self.edges):
            inner = self.edges[1:-1].astype(np.float32)
            of_value = np.searchsorted(inner, uniforms, side="right")
            bins = np.where(bins < 0, of_value, bins)
        return bins

    def ranks(self, marginal: MarginalTransform) -> Floats:
        """Return the ranks where each bin begins and ends in a class, (2, n_bins)."""
        ends = np.zeros((2, self.n_bins))
        if n := self.n_intervals:
            assert isinstance(marginal.domain, NumericDomain)
            left, right = marginal.cdf(self.edges)
            ends[:, :n] = right[:-1], left[1:]
            for value in self.own_of(marginal.domain):
                place = np.flatnonzero(self.edges == value.position)[0]
                ends[:, self.of_code[value.code]] = left[place], right[place]
        else:
            in_order = self.of_code[marginal.points.astype(np.int64)]
            ends[:, self.rest] = 0.0, 1.0  # 'other' alone stands for any category
            # Of a bin of several the last end stays, and the first beginning.
            ends[1, in_order] = marginal.cumulative[1:]
            ends[0, in_order[::-1]] = marginal.cumulative[-2::-1]
        ends = marginal.missing + (1.0 - marginal.missing) * ends
        if self.missing >= 0:
            ends[:, self.missing] = 0.0, marginal.missing
        return ends


@dataclass(frozen=True)
class TableBins:
    """The bins of all columns, D of them, one after the other."""

    columns: list[ColumnBins]

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        """Raise a ValueError unless each column can hold what its bins are of."""
        for bins, domain in zip(self.columns, domains, strict=True):
            bins.check(domain)

    @property
    def sizes(self) -> list[int]:
        """Number of bins of each column."""
        return [column.n_bins for column in self.columns]

    @property
    def starts(self) -> Ints:
        """Where each column begins and the last one ends, shape (n_columns + 1,)."""
        return np.concatenate(([0], np.cumsum(self.sizes, dtype=np.int64)))

    def encode(
        self, rows: PrivateRows, places: Sequence[int] | None = None
    ) -> NDArray[np.unsignedinteger]:
        """Return the bin of every row in every column; private.

        `places` are those of the columns in the table, if they are not all.
        """
        kind, shape = np.min_scalar_type(max(self.sizes)), (len(rows), len(self.sizes))
        codes = np.empty(shape, dtype=kind)
        columns = [*zip(places or range(shape[1]), self.columns, strict=True)]
        for chunk in in_chunks(len(rows)):
            uniforms, of_rows = rows.uniforms[chunk].T, rows.category_codes[chunk].T
            for k, (j, bins) in enumerate(columns):
                codes[chunk, k] = bins.encode(uniforms[j], of_rows[j])
        return codes

    def ranks(self, marginals: list[MarginalTransform]) -> Floats:
        """Return the ranks where each bin begins and ends in a class, (2, D)."""
        return np.concatenate([*map(ColumnBins.ranks, self.columns, marginals)], axis=1)

    def shares(self, ranks: Floats) -> Floats:
        """Return the share of each bin in its column, from `ranks`, shape (D,)."""
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
        groups = np.zeros(len(shares), dtype=np.int64)
        for start, column in zip(self.starts, self.columns, strict=False):
            of_column = groups[start : start + column.n_bins]
            present, n_intervals = shares[start:][: column.n_bins], column.n_intervals
            if not n_intervals:
                order = np.argsort(-present, kind="stable")
                of_column[order] = np.minimum(np.arange(len(present)), n_groups - 1)
                continue
            of_column[:], n_inside = n_groups - 1, n_groups
            if present[n_intervals:].sum() > 0.5 / n_groups:
                present, n_inside = present[:n_intervals], max(n_groups - 1, 1)
            total = max(present.sum(), TINY)  # a class may have no value here
            middles = (np.cumsum(present) - 0.5 * present) / total
            inside = np.minimum((n_inside * middles).astype(np.int64), n_inside - 1)
            of_column[: len(present)] = inside
        return groups

    def normal_scores(self, shares: Floats) -> Floats:
        """Return normal scores (D,) of the middles of intervals; NaN elsewhere.

        Of the shares of all classes together, (D,).
        """
        scores = np.full(len(shares), np.nan)
        for start, column in zip(self.starts, self.columns, strict=False):
            intervals = slice(start, start + column.n_intervals)
            ends = np.concatenate(([0.0], np.cumsum(shares[intervals])))
            if len(ends) > COARSE_BINS[0]:  # with fewer intervals, each is by itself
                middles = 0.5 * (ends[:-1] + ends[1:]) / max(ends[-1], TINY)
                scores[intervals] = ndtri(np.clip(middles, TINY, 1.0 - TINY))
        return scores


def most_bins(domain: ColumnDomain | None, n_bins: int) -> int:
    """Return the bins that a column can have, before its marginals are known."""
    if domain is None:
        return n_bins + 1
    if isinstance(domain, CategoryDomain):
        return min(len(domain.categories), n_bins) + 1 + domain.nullable
    if domain.integer:
        n_bins = min(n_bins, int(domain.high - domain.low) + 1)
    return n_bins + len(domain.own) + domain.nullable


def choose_bins(
    domains: Sequence[ColumnDomain],
    marginals: list[list[MarginalTransform]],
    prior: Floats,
    n_bins: int,
    alike: Mapping[int, Sequence[Ints]] = MappingProxyType({}),
) -> tuple[TableBins, list[list[MarginalTransform]]]:
    """Choose the bins of every column by its released marginals, by class and column.

    `prior` (n_classes,) are the shares of the classes. Numeric columns are cut at
    quantiles of all classes together, into `n_bins` intervals at most, and as many
    categories have a bin of their own; exact zeros, missing values and the rest have
    bins beside. The rare categories of a column in `alike` have a bin for each group,
    if one of its groupings (n_categories,) leaves half of the bins to others. The
    marginals come back with the categories of a bin side by side.
    """
    columns = []
    for j, (domain, *of_column) in enumerate(zip(domains, *marginals, strict=True)):
        few = [some for some in alike.get(j, ()) if some.max(initial=0) < n_bins // 2]
        groups = max(few, key=np.max, default=None)
        if groups is None and getattr(domain, "other", 0.0) > LITTLE:
            # They would be drawn as the few rare ones that were found.
            groups = np.zeros(domain.n_codes - 2, dtype=np.int64)
        columns.append(_bins_of_column(domain, of_column, prior, n_bins, groups=groups))
    bins = TableBins(columns)
    return bins, in_order(domains, marginals, prior, bins)


def in_order(
    domains: Sequence[ColumnDomain],
    marginals: list[list[MarginalTransform]],
    prior: Floats,
    bins: TableBins,
) -> list[list[MarginalTransform]]:
    """Put the categories of a bin side by side, the frequent ones first."""
    changed = [[*of_class] for of_class in marginals]
    for j, (domain, column) in enumerate(zip(domains, bins.columns, strict=True)):
        if not isinstance(domain, CategoryDomain):
            continue
        shares = np.array([of_class[j].level_shares() for of_class in marginals])
        order = np.lexsort((-(prior @ shares), column.of_code[:-2]))
        # What pairs find in a class can be drawn there.
        for of_class, weights in zip(changed, np.maximum(shares, TINY), strict=True):
            of_class[j] = MarginalTransform.of_categories(
                domain, weights, missing=of_class[j].missing, order=order
            )
    return changed


def _bins_of_column(
    domain: ColumnDomain,
    marginals: Sequence[MarginalTransform],
    prior: Floats,
    n_bins: int,
    coarse: ColumnBins | None = None,
    groups: Ints | None = None,
) -> ColumnBins:
    """Choose the bins of a column, inside `coarse` ones if there are any."""
    if isinstance(domain, CategoryDomain):
        pooled = prior @ np.array([of_class.level_shares() for of_class in marginals])
        of_code = np.empty(domain.n_codes, dtype=np.int64)
        of_code[:-2], rest = _bins_of_categories(pooled, n_bins, coarse, groups)
        of_code[-2:] = rest, rest + domain.nullable
        return ColumnBins(np.empty(0), of_code)
    # Quantiles; a number that many rows share has a bin to itself.
    points = np.unique(np.concatenate([of_class.points for of_class in marginals]))
    # What lies between points: an exact zero, which has a bin of its own, is left out.
    limits = [of_class.cdf(points) for of_class in marginals]
    masses = prior @ np.array([low[1:] - up[:-1] for low, up in limits])
    below, present = np.concatenate(([0.0], np.cumsum(masses))), masses.sum()
    n_bins = max(round(n_bins * math.sqrt(present)), _LEAST_INTERVALS)
    heavy = np.flatnonzero(masses > present / n_bins)
    inner = np.arange(len(points))
    if len(points) > n_bins + 1:
        steps = present * np.linspace(0, 1, n_bins + 1)[1:-1]
        inner = np.concatenate((np.searchsorted(below, steps), heavy, heavy + 1))
    # Edges are some of the marginals': no whole number lies there. What no class has,
    # beyond an end, is no bin.
    if present > 0:
        first, last = np.flatnonzero(masses > 0)[[0, -1]]
        inner = inner[(inner > first) & (inner <= last)]
    found = {own for of_class in marginals for own, *_ in of_class.jumps()}
    own = [value for value in domain.own if value in found]
    ends = np.array([0.0, 1.0]) if coarse is None else coarse.edges
    places = [value.position for value in own]
    edges = np.unique(np.concatenate((ends, points[inner], places)))
    return ColumnBins.of_numbers(domain, edges, [value.code for value in own])


def _bins_of_categories(
    pooled: Floats, n_bins: int, coarse: ColumnBins | None, groups: Ints | None
) -> tuple[Ints, int]:
    """Return the bin of each category by its share, and that of the rest.

    The most frequent ones have a bin each, and the others one together, or one for each
    of the `groups` or `coarse` bins.
    """
    place = np.argsort(np.argsort(-pooled, kind="stable"))
    first, within = np.zeros(len(pooled), dtype=np.int64), np.arange(len(pooled))
    if coarse is not None:  # in the order of these
        groups, rest, within = coarse.of_code[:-2], coarse.rest, place
        first = groups
    elif groups is None:
        groups, rest = first, 0
    else:
        rest = int(groups.max(initial=-1)) + 1
    sizes = np.bincount(groups, minlength=rest + 1)
    sizes[rest] = 0
    alone = np.zeros(len(pooled), dtype=bool)
    first_alone = np.lexsort((place, sizes[groups] != 1))
    alone[first_alone[: n_bins - int((sizes > 1).sum())]] = True
    keys = np.stack([first, ~alone, np.where(alone, within, groups)], axis=1)
    placed = alone | (groups != rest)
    distinct, bins = np.unique(keys[placed], axis=0, return_inverse=True)
    of_category = np.full(len(pooled), len(distinct))
    of_category[placed] = bins.reshape(-1)
    return of_category, len(distinct)


@dataclass(eq=False)
class FinerBins:
    """Finer bins (cells) of all columns, each inside one coarse bin, in their order."""

    bins: TableBins
    coarse: TableBins

    def __post_init__(self) -> None:
        self.within: list[Ints] = []  # (n_cells,): the coarse bin of each cell
        for fine, coarse in zip(self.bins.columns, self.coarse.columns, strict=True):
            of_cell = np.arange(fine.n_bins)
            if len(fine.edges):
                middles = 0.5 * (fine.edges[:-1] + fine.edges[1:])
                inside = np.searchsorted(coarse.edges, middles) - 1
                of_cell += coarse.n_bins - fine.n_bins  # those beside the intervals
                of_cell[: len(middles)] = inside
            else:
                of_cell[fine.of_code] = coarse.of_code
            self.within.append(of_cell)

    def check(self, domains: Sequence[ColumnDomain], bins: TableBins) -> None:
        """Raise a ValueError unless each cell is inside one of the coarse bins."""
        self.bins.check(domains)
        require(self.coarse is bins, "other bins")
        both = zip(self.bins.columns, bins.columns, self.within, strict=True)
        for fine, coarse, within in both:
            check_groups(within, coarse.n_bins)
            require(np.isin(coarse.edges, fine.edges).all(), "finer bins")
            if fine.rest >= 0:
                require((within[fine.of_code] == coarse.of_code).all(), "finer bins")

    def of_rows(self, rows: PrivateRows, pair: Sequence[int]) -> tuple[Ints, ...]:
        """Return the cells of every row in a pair of columns; private."""
        columns, units, codes = self.bins.columns, rows.uniforms, rows.category_codes
        return tuple(columns[j].encode(units[:, j], codes[:, j]) for j in pair)

    def in_bins(self, pair: Sequence[int]) -> tuple[Ints, ...]:
        """Return the pair of bins of every pair of cells, as an index."""
        return np.ix_(*(self.within[j] for j in pair))

    def summed(self, pair: Sequence[int], cells: Floats) -> Floats:
        """Add up the cells of every pair of bins."""
        for axis, j in enumerate(pair):
            first = np.searchsorted(self.within[j], np.arange(self.within[j][-1] + 1))
            cells = np.add.reduceat(cells, first, axis)
        return cells


def finer_bins(
    domains: Sequence[ColumnDomain],
    marginals: list[list[MarginalTransform]],
    prior: Floats,
    bins: TableBins,
    n_parts: int,
) -> FinerBins:
    """Cut the bins of every column into `n_parts` at most, and groups of categories."""
    columns = []
    every = zip(domains, bins.columns, *marginals, strict=True)
    for domain, coarse, *of_column in every:
        n_cells = n_parts * coarse.n_intervals or N_CELLS
        columns.append(_bins_of_column(domain, of_column, prior, n_cells, coarse))
    return FinerBins(TableBins(columns), bins)
