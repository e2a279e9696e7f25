"""Columns of linked tables: cells of a domain, and bins chosen from noisy counts."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtri

from skdpsynth.measure import (
    LIKELY,
    QUARTER,
    TINY,
    Histogram,
    fit_densities,
    nearest_distribution,
)
from skdpsynth.table import CategoryDomain, ColumnDomain, Own
from skdpsynth.utils.arrays import Floats, Ints

# Intervals of a number: so fine that a value that many rows have stands out.
N_INTERVALS = 512
# Prior deviations of what log-odds are sums of, in those of bins.
SMOOTH, FREE = 2.0, 20.0


class Column:
    """A column of the parents, of the children, or of what follows from these.

    Values are floats: codes of categories, or numbers in steps of their domain; NaN is
    missing. A cell is a category, an interval, a value with a cell of its own, or
    missing; a value of none of them is -1. After `choose` a bin holds one cell or more.
    """

    def __init__(self, name: str, domain: ColumnDomain) -> None:
        self.name, self.domain = name, domain
        self.edges, self.n_intervals = np.empty(0), 0
        self.own: tuple[Own, ...] = ()
        if isinstance(domain, CategoryDomain):
            self.n_present = len(domain.categories)
        else:
            self.edges = domain.snap(np.linspace(0.0, 1.0, N_INTERVALS + 1))
            self.own, self.n_intervals = domain.own, len(self.edges) - 1
            self.n_present = self.n_intervals + len(self.own)
        self.n_cells = self.n_present + domain.nullable

    def cells(self, values: Floats) -> Ints:
        """Return the cell of each value, -1 if it has none."""
        missing = np.isnan(values)
        if isinstance(self.domain, CategoryDomain):
            cells = np.where(missing, -1.0, values).astype(np.int64)
        else:
            inside = np.where(missing, self.domain.low, values)
            numbers = np.asarray(self.domain.from_steps(inside))
            units = self.domain.to_unit(numbers)
            cells = np.searchsorted(self.edges[1:-1], units, side="right")
            codes = self.domain.codes(numbers)
            for k, own in enumerate(self.own):
                cells[codes == own.code] = self.n_intervals + k
        cells[missing] = self.n_cells - 1 if self.domain.nullable else -1
        return cells

    def bins(self, values: Floats) -> Ints:
        """Return the bin of each value, -1 if it has none."""
        return np.append(self.group, -1)[self.cells(values)]

    def choose(self, counts: Floats, noise_std: float, n_bins: int) -> None:
        """Choose the bins by noisy counts of the cells.

        Intervals are cut at quantiles, and a value or an interval that holds more than
        its part is alone.
        """
        n, total = self.n_intervals, max(float(counts.sum()), 1.0)
        beside = np.where(counts[n:] > LIKELY * noise_std, counts[n:], 0.0)
        if not n:
            self.settle(nearest_distribution(counts), np.arange(self.n_cells))
            return
        histogram = Histogram(self.edges, counts[:n], noise_std)
        rows = np.array([max(total - beside.sum(), 1.0)])
        density = fit_densities([[histogram]], [self.edges], rows)[0]
        mass = np.concatenate((density * rows, beside))
        mass /= mass.sum()
        # A cell that is heavy, or far above those beside it, is a bin, which may hold
        # some little before it; others are together until they hold their part.
        part, near = 1 / n_bins, np.pad(mass[:n], 2, mode="edge")
        usual = np.median(sliding_window_view(near, 5), axis=1)
        alone = (mass[:n] >= part) | (mass[:n] > np.maximum(5 * usual, part * QUARTER))
        group, held = np.zeros(self.n_cells, dtype=np.int64), 0.0
        for i in range(n):
            full = held >= part or (i > 0 and alone[i - 1])
            new = full or (alone[i] and held > part * QUARTER)
            group[i] = group[i - 1] + new if i else 0
            held = mass[i] if new else held + mass[i]
        # What the noise hides is in the interval around it.
        places = [*(own.position for own in self.own), 0.0]
        around = np.searchsorted(self.edges, places, side="right") - 1
        around = np.clip(around, 0, n - 1)[: len(beside)]
        sure = beside > 0
        group[n:] = np.where(sure, group[n - 1] + np.cumsum(sure), group[around])
        self.settle(mass, group)

    def settle(self, mass: Floats, group: Ints) -> None:
        """Set the masses and the bins of all cells, and what follows from them."""
        self.mass, self.group = mass, group
        self.n_bins = int(group.max(initial=0)) + 1
        self.shares = np.bincount(group, mass, self.n_bins)
        self._order = np.argsort(group, kind="stable")  # cells by bin
        self._ends = np.cumsum(mass[self._order])
        self._last = np.cumsum(np.bincount(group, minlength=self.n_bins)) - 1
        # What log-odds are sums of: bins, and of numbers two polynomials.
        self.basis, self.scales = np.eye(self.n_bins), np.ones(self.n_bins)
        in_order = int(group[self.n_intervals - 1]) + 1 if self.n_intervals else 0
        if in_order > 3:
            shares = self.shares[:in_order] / max(self.shares[:in_order].sum(), TINY)
            middles = np.cumsum(shares) - shares / 2
            z = ndtri(np.clip(middles, 1e-3, 1 - 1e-3))
            smooth = np.zeros((self.n_bins, 2))
            smooth[:in_order] = np.column_stack((z, (z**2 - 1) / math.sqrt(2)))
            self.basis = np.concatenate((self.basis, smooth), axis=1)
            self.scales = np.append(self.scales, [SMOOTH, SMOOTH])

    def as_positions(self) -> None:
        """Let bins be places of rows: first and later rows have free log-odds."""
        self.settle(np.full(self.n_cells, 1 / self.n_cells), np.arange(self.n_cells))
        first = np.arange(self.n_bins)[:, None] == 0
        self.basis = np.concatenate((self.basis, first, ~first), axis=1)
        self.scales = np.append(self.scales, [FREE, FREE])

    def least(self) -> Floats:
        """Return the least number of each bin, -inf of one that is no interval."""
        assert not isinstance(self.domain, CategoryDomain)
        first = np.searchsorted(self.group[: self.n_intervals], np.arange(self.n_bins))
        ends = self.domain.to_steps(self.domain.edges(self.edges))
        least = np.append(np.maximum(ends[:-1], self.domain.low), -math.inf)
        return least[np.minimum(first, self.n_intervals)]

    def draw(self, bins: Ints, rng: np.random.Generator) -> Floats:
        """Draw the values of bins."""
        first = np.append(0, self._last[:-1] + 1)
        begins = np.append(0.0, self._ends)[first]
        ranks = begins[bins]
        ranks += (self._ends[self._last] - begins)[bins] * rng.random(len(bins))
        at = np.searchsorted(self._ends, ranks, side="right")
        cells = self._order[np.clip(at, first[bins], self._last[bins])]
        if isinstance(self.domain, CategoryDomain):
            values = cells.astype(np.float64)
        else:
            inside = np.minimum(cells, self.n_intervals - 1)
            units = np.diff(self.edges)[inside] * rng.random(len(bins))
            units += self.edges[inside]
            for k, own in enumerate(self.own):
                units[cells == self.n_intervals + k] = own.position
            values = np.asarray(self.domain.to_steps(self.domain.from_unit(units)))
            if self.domain.integer:
                values = np.rint(values)
        values[cells >= self.n_present] = np.nan
        return values
