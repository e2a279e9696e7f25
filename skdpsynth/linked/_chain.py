"""Children of given parents, row by row: a chain of softmax regressions.

A column of a row is drawn given the parent, the columns before it and, from the second
row on, the position, the row before and what all rows before had in common. The
regressions are fitted to noisy tables of pairs alone; what they are given is simulated.
No private row comes here but in `LinkModel.encode`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdpsynth.linked._columns import Column
from skdpsynth.linked._regression import Known, fit_regression, softmax
from skdpsynth.measure import TINY
from skdpsynth.table import CategoryDomain, NumericDomain, domain_from_dict
from skdpsynth.utils.arrays import Floats, Ints

# What a row adds to a table, so how much noise it has, by what a column is given.
POWERS = {"own": 1.6, "parent": 1.0, "same": 1.5, "before": 0.7}
BINS = 4, 14
N_POSITIONS = 6  # rows from this one on are alike
N_CONTEXTS, N_ROUNDS = 12_000, 2  # simulated rows, and rounds over all of a unit

Codes = NDArray[np.int32]
Key = tuple[int, int]
Weights = Mapping[str, Floats]  # of rows, by scope


class Pair(NamedTuple):
    """What is measured of two columns: a table of weighted rows.

    First rows weigh what their parents do; later ones share it, or all rows do. Counts
    are multiplied by `power` before noise of one size is added.
    """

    scope: str  # "first", "later" or "rows"
    role: str
    power: float


class Memory:
    """What the rows of each unit had so far: sums of numbers, counts of categories."""

    def __init__(self, columns: Sequence[Column], n_units: int) -> None:
        self._columns = columns
        sizes = [2 if c.n_intervals else c.n_cells for c in columns]
        self._sums = [np.zeros((n_units, size)) for size in sizes]

    def add(self, units: Ints, values: Floats) -> None:
        """Add one row of each of these units."""
        for column, sums, own in zip(self._columns, self._sums, values.T, strict=True):
            if column.n_intervals:
                sums[units] += np.stack((np.nan_to_num(own), ~np.isnan(own)), axis=1)
            else:
                cells = column.cells(own)
                sums[units[cells >= 0], cells[cells >= 0]] += 1

    def bins(self, units: Ints) -> Codes:
        """Return the bins of the means, or of the most frequent categories."""
        found = np.empty((len(units), len(self._columns)), np.int32)
        for k, (column, every) in enumerate(
            zip(self._columns, self._sums, strict=True)
        ):
            if column.n_intervals:
                total, n = every[units].T
                mean = np.where(n > 0, total / np.maximum(n, 1.0), np.nan)
                found[:, k] = column.bins(mean)
            else:
                some = every[units].max(1) > 0
                modes = np.where(some, every[units].argmax(1), -1)
                found[:, k] = np.append(column.group, -1)[modes]
        return found


class LinkModel:
    """Draws the children of parents: the first ones, then one after the other.

    `own` are the columns of the children, `parent` those of the parents. With a `gap`,
    the column of steps from row to row, the first own column is in order. A parent has
    at `most` so many children.
    """

    def __init__(
        self,
        own: Sequence[Column],
        parent: Sequence[Column],
        gap: Column | None = None,
        *,
        most: int,
        descending: bool = False,
    ) -> None:
        self.own, self.parent, self.gap = [*own], [*parent], gap
        self.most, self.descending = most, descending
        places = (*range(1, min(max(most, 2), N_POSITIONS) + 1),)
        position = Column("position", CategoryDomain(places, nullable=False))
        position.as_positions()
        blocks: dict[tuple[str, str], list[Column]] = {
            ("first", "parent"): self.parent,
            ("later", "parent"): self.parent,
            ("rows", "position"): [position],
            ("later", "before"): self.own,
            ("later", "memory"): self.own,
            ("later", "gap"): [gap] if gap else [],
            ("rows", "own"): self.own,
        }
        self.columns: list[Column] = []
        self._at: dict[tuple[str, str], slice] = {}
        for kind, columns in blocks.items():
            start = len(self.columns)
            self._at[kind] = slice(start, start + len(columns))
            self.columns += columns
        self._value = len(self.columns) - len(self.own)
        self._drawn = range(self._at["later", "gap"].start, len(self.columns))
        kinds = [kind for kind, columns in blocks.items() for _ in columns]
        self.pairs: dict[Key, Pair] = {}
        self.uses: dict[int, list[int]] = {j: [] for j in self._drawn}
        for i, j in ((a, b) for b in self._drawn for a in range(b)):
            (scope, role), same = kinds[i], self.columns[i] is self.columns[j]
            # The value of the order follows from the gap in later rows.
            other = gap and {self._drawn[0]: "first", self._value: "later"}.get(j)
            if scope != other and (same or role != "memory"):
                role = "same" if same else role if role in POWERS else "own"
                role = "parent" if kinds[i][1] == "position" else role
                self.pairs[i, j] = Pair(scope, role, POWERS[role])
                self.uses[j].append(i)
        self.slopes: dict[int, Floats] = {}

    @property
    def shapes(self) -> list[Column]:
        """The columns of which each needs counts of its cells, see `choose`."""
        return [*self.own, self.gap] if self.gap else self.own

    def gaps(self, values: Floats, unit: Ints) -> Floats:
        """Return the gap of each row to the row before of its unit, NaN if first."""
        gaps = np.diff(values[:, 0], prepend=np.nan) * (-1 if self.descending else 1)
        gaps[np.diff(unit, prepend=-1) != 0] = np.nan
        return gaps

    def choose(
        self,
        counts: Sequence[Floats],
        noise_std: float,
        parents: Floats,
        n: Ints,
        weights: Floats,
        mu: float,
    ) -> None:
        """Choose the bins: of `shapes` by noisy counts, of parents by synthetic ones.

        These have `n` children and `weights`; `mu` is that of all tables of pairs.
        """
        total = max(np.mean([own.sum() for own in counts[: len(self.own)]]), 1.0)
        norm = math.sqrt(sum(pair.power**2 for pair in self.pairs.values()))
        n_bins = int(np.clip(math.sqrt(total / max(norm / mu, 1.0)), *BINS))
        for column, of_cells in zip(self.shapes, counts, strict=True):
            column.choose(of_cells, noise_std, n_bins)
        for column, values in zip(self.parent, parents.T, strict=True):
            cells = column.cells(values)
            some = (cells >= 0) & (n > 0)
            seen = np.bincount(cells[some], weights[some], column.n_cells)
            column.choose(np.asarray(seen, dtype=np.float64), 1.0, n_bins)

    def encode(self, values: Floats, unit: Ints, parents: Floats) -> Codes:
        """Return the bins of rows and of all that they are given; private if these are.

        `unit` is the place of each row's parent, in increasing order; rows of a unit
        are in order. A bin is -1 where there is none, as of the row before a first one.
        """
        gaps = self.gaps(values, unit)

        def take(codes: Codes, rows: Ints, before: Floats) -> Floats:
            if self.gap:
                codes[:, self._drawn[0]] = self.gap.bins(gaps[rows])
            for j, (column, own) in enumerate(
                zip(self.own, values[rows].T, strict=True)
            ):
                codes[:, self._value + j] = column.bins(own)
            return values[rows]

        return self._walk(parents, np.bincount(unit, minlength=len(parents)), take)[0]

    def _walk(
        self, parents: Floats, n: Ints, take: Callable[[Codes, Ints, Floats], Floats]
    ) -> tuple[Codes, Floats]:
        """Return bins and values of rows: all first ones, then second ones and so on.

        `take` returns the values of rows, and fills in the bins of what is drawn.
        """
        columns, starts = zip(self.parent, parents.T, strict=True), np.cumsum(n) - n
        given = np.column_stack([c.bins(v) for c, v in columns])
        every = np.full((int(n.sum()), len(self.columns)), -1, np.int32)
        values = np.zeros((len(every), len(self.own)))
        memory = Memory(self.own, len(n))
        for place in range(int(n.max(initial=0))):
            units = np.flatnonzero(n > place)
            rows, position = starts[units] + place, self._at["rows", "position"].start
            codes = every[rows]
            codes[:, position] = min(place, self.columns[position].n_bins - 1)
            codes[:, self._at["later" if place else "first", "parent"]] = given[units]
            if place:
                codes[:, self._at["later", "before"]] = every[rows - 1, self._value :]
                codes[:, self._at["later", "memory"]] = memory.bins(units)
            values[rows] = take(codes, rows, values[rows - 1, 0])
            every[rows] = codes
            memory.add(units, values[rows])
        return every, values

    def draw(
        self, parents: Floats, n: Ints, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """Draw `n` children of each parent, in order: places of parents, and values."""
        n = np.minimum(n, self.most)
        _, values = self._walk(
            parents, n, lambda codes, _, before: self._draw_rows(codes, before, rng)
        )
        return np.repeat(np.arange(len(n)), n), values

    def _draw_rows(
        self,
        codes: Codes,
        before: Floats,
        rng: np.random.Generator,
        fit: Callable[[Codes, Ints, int], None] | None = None,
    ) -> Floats:
        """Draw rows `before` which a value of the order is; fit each column first."""
        later = codes[:, self._at["rows", "position"].start] > 0
        values, gaps = np.empty((len(codes), len(self.own))), np.zeros(len(codes))
        sign, order = -1 if self.descending else 1, self.own[0].domain
        if isinstance(order, NumericDomain):
            ends = order.low, order.high
            room = abs(ends[not self.descending] - before)
        for j in self._drawn:
            column, rows = self.columns[j], np.arange(len(codes))
            is_gap = self.gap is not None and j == self._drawn[0]
            is_value = self.gap is not None and j == self._value
            if is_gap or is_value:
                rows = np.flatnonzero(later == is_gap)
            if fit is not None and len(rows):
                fit(codes, rows, j)
            shares = self.shares(codes[rows], j)
            if is_gap:  # what leaves the bounds is no gap
                shares = shares * (column.least() <= room[rows, None]) + TINY
            codes[rows, j] = bins = _places(shares, rng)
            drawn = column.draw(bins, rng)
            if is_gap:
                gaps[rows] = np.clip(drawn, 0.0, room[rows])
                continue
            values[rows, j - self._value] = drawn
            if is_value:
                values[later, 0] = np.clip(before + sign * gaps, *ends)[later]
                codes[later, j] = column.bins(values[later, 0])
        return values

    def shares(self, codes: Codes, j: int) -> Floats:
        """Return the distributions of column j in rows, (n_rows, n_bins)."""
        odds, end = np.zeros((len(codes), self.columns[j].n_bins)), 0
        for i in self.uses[j]:
            start, end = end, end + self.columns[i].n_bins
            own = np.append(self.slopes[j][start:end], np.zeros_like(odds[:1]), axis=0)
            odds += own[codes[:, i]]
        return softmax(odds)

    def fit(
        self,
        tables: Mapping[Key, Floats],
        noise: Mapping[Key, float],
        parents: Floats,
        n: Ints,
        weights: Floats,
        rng: np.random.Generator,
    ) -> None:
        """Fit to noisy tables of `pairs`, with noise deviations, and synthetic parents.

        Parents have `n` children and `weights`. Without any row all is as in `shapes`.
        """
        free: dict[int, Floats] = {}
        for j in self._drawn:
            sizes = [self.columns[i].n_bins for i in self.uses[j]]
            self.slopes[j] = np.zeros((sum(sizes), self.columns[j].n_bins))
        some, n = rng.permutation(np.flatnonzero(n > 0)), np.minimum(n, self.most)
        for most in (1, 2, *[self.most] * N_ROUNDS):
            sizes = np.minimum(n[some], most)
            units = some[: np.searchsorted(np.cumsum(sizes), N_CONTEXTS) + 1]
            unit, values = self.draw(parents[units], sizes[: len(units)], rng)
            codes = self.encode(values, unit, parents[units])
            first = np.diff(unit, prepend=-1) != 0
            own, of_unit = weights[units][unit], sizes[unit]
            later = own * ~first / np.maximum(of_unit - 1, 1)
            of_rows = {"first": own * first, "later": later, "rows": own / of_unit}

            def fit(
                codes: Codes, rows: Ints, j: int, weights: Weights = of_rows
            ) -> None:
                known = []
                for i in self.uses[j]:
                    scope, role, _ = self.pairs[i, j]
                    table = weights[scope][rows], tables[i, j], noise[i, j], role
                    known.append(Known(self.columns[i], codes[rows, i], *table))
                found = fit_regression(self.columns[j], known, free.get(j))
                free[j], self.slopes[j] = found

            before = np.append(np.nan, values[:-1, 0])
            self._draw_rows(codes, before, rng, fit)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split into what JSON holds and arrays, for saving."""
        columns = [*self.parent, *self.shapes]
        document = {
            "columns": [[c.name, c.domain.to_dict()] for c in columns],
            "sizes": [len(self.parent), len(self.own)],
            "link": {"most": self.most, "descending": self.descending},
        }
        arrays: dict[str, Any] = {f"slopes.{j}": w for j, w in self.slopes.items()}
        for k, column in enumerate(columns):
            arrays |= {f"mass.{k}": column.mass, f"group.{k}": column.group}
        return document, arrays

    @classmethod
    def from_state(
        cls, document: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> LinkModel:
        """Rebuild what `to_state` split."""
        columns = [Column(c, domain_from_dict(own)) for c, own in document["columns"]]
        for k, column in enumerate(columns):
            column.settle(arrays[f"mass.{k}"], arrays[f"group.{k}"])
        start, end = np.cumsum(document["sizes"])
        gap = columns[end] if len(columns) > end else None
        model = cls(columns[start:end], columns[:start], gap, **document["link"])
        model.slopes = {j: arrays[f"slopes.{j}"] for j in model._drawn}
        return model


def _places(shares: Floats, rng: np.random.Generator) -> Ints:
    """Draw one place per row of shares."""
    ends = shares.cumsum(1)
    below = ends < rng.random((len(ends), 1)) * ends[:, -1:]
    return np.minimum(below.sum(1), shares.shape[1] - 1)
