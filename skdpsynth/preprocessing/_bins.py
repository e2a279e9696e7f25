"""Bins: a column as a few codes, so that pairs of columns can be counted.

Bins are functions of earlier releases alone, the bought marginals, and the same in all
classes. In each class a bin is an interval of ranks, so a bin and a uniform number
inside it are turned into a value by the fine marginal of the class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from skdpsynth.preprocessing._columns import MISSING, ZERO
from skdpsynth.preprocessing._domains import LevelDomain, NumericDomain
from skdpsynth.preprocessing._transforms import MarginalTransform
from skdpsynth.utils import in_chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.preprocessing._columns import PrivateRows
    from skdpsynth.preprocessing._domains import ColumnDomain

_SMOOTH_FROM = 4  # intervals of a number: with fewer, each is by itself
_FAR = 1e-6  # rank of what counts as the end of a column
_LEAST_INTERVALS = 3  # beside an exact zero
_LEAST_SHARE = 1e-9  # of a level: what pairs find in a class can be drawn there


@dataclass(frozen=True)
class ColumnBins:
    """The bins of one column."""

    # (n_intervals + 1,): edges of the intervals of numbers, from 0 to 1. Levels: empty.
    edges: NDArray[np.float64]
    # Bin of each code of `PrivateRows`; -1 where the interval says it. Numeric columns
    # have the codes value, exact zero and missing; level columns those of
    # `LevelDomain`, and 'other' is in one bin with the rare levels.
    of_code: NDArray[np.int64]
    n_bins: int
    zero: float | None = None  # edge where an exact zero has a bin of its own

    @property
    def rest(self) -> int:
        """Bin of the rare levels and of 'other'; -1 in a numeric column."""
        return -1 if len(self.edges) else int(self.of_code[-2])

    def encode(
        self, units: NDArray[np.floating], category_codes: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Give the bin of every row; private if the rows are."""
        bins = self.of_code[category_codes]
        if len(self.edges):
            inner = self.edges[1:-1].astype(np.float32)
            of_value = np.searchsorted(inner, units, side="right")
            bins = np.where(bins < 0, of_value, bins)
        return bins

    def ranks(self, marginal: MarginalTransform) -> NDArray[np.float64]:
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
            ends[:, self.rest] = 0.0, 1.0  # 'other' alone stands for any level
            # Of a bin of several levels the last end stays, and the first beginning.
            ends[1, in_order] = marginal.cumulative[1:]
            ends[0, in_order[::-1]] = marginal.cumulative[-2::-1]
            missing = self.of_code[-1] if self.of_code[-1] > self.rest else -1
        ends = marginal.missing + (1.0 - marginal.missing) * ends
        if missing >= 0:
            ends[:, missing] = 0.0, marginal.missing
        return ends


@dataclass(frozen=True)
class TableBins:
    """The bins of all columns, one after the other.

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
    def levels(self) -> list[bool]:
        """Which columns have levels, and no order."""
        return [column.rest >= 0 for column in self.columns]

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each column begins and the last one ends, shape (n_columns + 1,)."""
        return np.concatenate(([0], np.cumsum(self.sizes, dtype=np.int64)))

    def encode(self, rows: PrivateRows) -> NDArray[np.unsignedinteger]:
        """Give the bin of every row in every column; private."""
        codes = np.empty(rows.shape, dtype=np.min_scalar_type(max(self.sizes)))
        for own in in_chunks(len(rows)):
            units, category_codes = rows.units[own].T, rows.category_codes[own].T
            for j, column in enumerate(self.columns):
                codes[own, j] = column.encode(units[j], category_codes[j])
        return codes

    def ranks(self, marginals: list[MarginalTransform]) -> NDArray[np.float64]:
        """Give the ranks where each bin begins and ends in a class, (2, D)."""
        both = zip(self.columns, marginals, strict=True)
        return np.concatenate([bins.ranks(own) for bins, own in both], axis=1)

    def shares(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the share of each bin in its column, from `ranks`, shape (D,)."""
        shares = ranks[1] - ranks[0]
        starts = self.starts
        for start, column in zip(starts, self.columns, strict=False):
            if column.rest >= 0 and not (column.of_code[:-2] == column.rest).any():
                shares[start + column.rest] = 0.0
        totals = np.repeat(np.add.reduceat(shares, starts[:-1]), self.sizes)
        even = 1.0 / np.repeat(self.sizes, self.sizes)  # of a column without levels
        return np.where(totals > 0, shares / np.maximum(totals, 1e-12), even)

    def groups(self, shares: NDArray[np.float64], n_groups: int) -> NDArray[np.int64]:
        """Put the bins of every column into a few groups, of shape (D,).

        Intervals at quantiles of the shares (D,), and of levels the most frequent
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
                total = max(present.sum(), 1e-12)  # a class may have no value here
                middles = (np.cumsum(present) - 0.5 * present) / total
                of_bin = np.minimum((n_inside * middles).astype(np.int64), n_inside - 1)
                found[start : start + len(present)] = of_bin
                found[start + len(present) : end] = n_groups - 1
            else:
                order = np.argsort(-own, kind="stable")
                found[start + order] = np.minimum(np.arange(len(own)), n_groups - 1)
        return found

    def normal_scores(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the normal score of the middle of each interval; NaN elsewhere.

        Of the shares of all classes together, shape (D,), as the result.
        """
        found = np.full(len(shares), np.nan)
        for start, column in zip(self.starts, self.columns, strict=False):
            own = slice(start, start + max(len(column.edges) - 1, 0))
            ends = np.concatenate(([0.0], np.cumsum(shares[own])))
            if len(ends) > _SMOOTH_FROM:
                middles = 0.5 * (ends[:-1] + ends[1:]) / max(ends[-1], 1e-12)
                found[own] = ndtri(np.clip(middles, _FAR, 1.0 - _FAR))
        return found


def most_bins(domain: ColumnDomain | None, n_bins: int) -> int:
    """Give the bins that a column can have, before its marginals are known."""
    if domain is None:
        return n_bins + 1
    if isinstance(domain, LevelDomain):
        return min(len(domain.levels), n_bins) + 1 + domain.nullable
    if domain.integer:
        n_bins = min(n_bins, int(domain.high - domain.low) + 1)
    return n_bins + (domain.zero is not None) + domain.nullable


def choose_bins(
    domains: list[ColumnDomain] | tuple[ColumnDomain, ...],
    marginals: list[list[MarginalTransform]],
    prior: NDArray[np.float64],
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
        Intervals of a numeric column, or levels with a bin of their own, at most;
        exact zeros, missing values and the rest have bins beside.

    Returns
    -------
    bins : TableBins
        Numeric columns are cut at quantiles of all classes together.
    marginals : list of n_classes lists of MarginalTransform
        The same, with the levels of a bin side by side.
    """
    columns, changed = [], []
    for j, domain in enumerate(domains):
        own = [of_class[j] for of_class in marginals]
        if isinstance(domain, NumericDomain):
            columns.append(_bins_of_numbers(domain, own, prior, n_bins))
        else:
            bins, own = _bins_of_levels(domain, own, prior, n_bins)
            columns.append(bins)
        changed.append(own)
    return TableBins(columns), [list(row) for row in zip(*changed, strict=True)]


def _bins_of_numbers(
    domain: NumericDomain,
    marginals: list[MarginalTransform],
    prior: NDArray[np.float64],
    n_bins: int,
) -> ColumnBins:
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
        # A number that many rows share has a bin to itself.
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
    of_code = [
        -1,
        -1 if zero is None else n_intervals,
        missing if domain.nullable else -1,
    ]
    return ColumnBins(edges, np.array(of_code), missing + domain.nullable, zero)


def _bins_of_levels(
    domain: LevelDomain,
    marginals: list[MarginalTransform],
    prior: NDArray[np.float64],
    n_bins: int,
) -> tuple[ColumnBins, list[MarginalTransform]]:
    shares = np.array([own.level_shares() for own in marginals])
    pooled = prior @ shares
    frequent = np.sort(np.argsort(-pooled, kind="stable")[:n_bins])
    of_code = np.full(domain.n_codes, len(frequent))
    of_code[frequent] = np.arange(len(frequent))
    of_code[-1] = len(frequent) + domain.nullable
    bins = ColumnBins(np.empty(0), of_code, len(frequent) + 1 + domain.nullable)
    order = np.argsort(of_code[:-2], kind="stable")
    return bins, [
        MarginalTransform.of_levels(
            domain, np.maximum(row, _LEAST_SHARE), missing=own.missing, order=order
        )
        for row, own in zip(shares, marginals, strict=True)
    ]
