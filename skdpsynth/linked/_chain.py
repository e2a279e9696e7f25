"""Children of given parents, row by row: a chain of softmax regressions.

A column of a row has a distribution given the parent, the columns before it and, from
the second row on, the position, the row before and what all rows before had in common
(`Memory`). The regressions are fitted to noisy tables of pairs alone: what they are
given is simulated, so no private row comes here but in `LinkModel.encode`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from skdpsynth.linked._columns import Column
from skdpsynth.measure import nearest_distribution
from skdpsynth.table import CategoryDomain, NumericDomain
from skdpsynth.utils.arrays import Bools, Floats, Ints

# By role of what a column is given: what a row adds to a table, so how much noise it
# has; and the prior deviation of log-odds of cells (twice that of polynomials).
POWERS = {"own": 1.0, "parent": 1.0, "same": 1.5, "before": 0.7}
PRIORS = {"own": 0.4, "parent": 0.25, "same": 1.5, "before": 0.15}
SMOOTH = 2.0
BINS = 4, 14
N_POSITIONS = 6  # rows from this one on are alike
N_CONTEXTS, N_STEPS, N_ROUNDS = 8_000, 60, 2

Codes = NDArray[np.int16]


class Pair(NamedTuple):
    """What is measured of two columns: a table of weighted rows.

    Of the first row of each unit, weights are those of parents; of later rows (from the
    second on) and of all rows they share it.
    """

    scope: str  # "first", "later" or "rows"
    role: str

    @property
    def power(self) -> float:
        """By what the counts are multiplied before noise of one size is added."""
        return POWERS[self.role]


class Memory:
    """What the rows of each unit had so far: sums of numbers, counts of categories."""

    def __init__(self, columns: Sequence[Column], n_units: int) -> None:
        self._columns = columns
        sizes = [2 if c.is_number else c.n_cells for c in columns]
        self._sums = [np.zeros((n_units, size)) for size in sizes]

    def add(self, units: Ints, values: Floats) -> None:
        """Add one row of each of these units."""
        for column, sums, own in zip(self._columns, self._sums, values.T, strict=True):
            if column.is_number:
                sums[units, 0] += np.nan_to_num(own)
                sums[units, 1] += ~np.isnan(own)
            else:
                cells = column.cells(own)
                sums[units[cells >= 0], cells[cells >= 0]] += 1

    def bins(self, units: Ints) -> Codes:
        """Return the bins of the means, or of the most frequent categories."""
        found = []
        for column, every in zip(self._columns, self._sums, strict=True):
            sums = every[units]
            if column.is_number:
                n = sums[:, 1]
                means = np.where(n > 0, sums[:, 0] / np.maximum(n, 1.0), np.nan)
                found.append(column.bins(means))
            else:
                modes = np.where(sums.max(1) > 0, sums.argmax(1), -1)
                found.append(np.append(column.group, -1)[modes])
        return np.column_stack(found).astype(np.int16)


class LinkModel:
    """Draws the children of parents: the first ones, then one after the other.

    `own` are the columns of the children, `parent` those of the parents. With a `gap`,
    the domain of the steps from row to row, the first own column is in order.
    """

    def __init__(
        self,
        own: Sequence[Column],
        parent: Sequence[Column],
        gap: Column | None = None,
        *,
        most: int,
        descending: bool = False,
        memory: bool = True,
    ) -> None:
        self.own, self.parent, self.gap = [*own], [*parent], gap
        self.most, self.descending, self.memory = most, descending, memory
        last = min(max(most, 2), N_POSITIONS)
        self.position = Column(
            "position", CategoryDomain(tuple(range(2, last + 1)), nullable=False)
        )
        blocks: list[tuple[str, str, list[Column]]] = [
            ("first", "parent", self.parent),
            ("later", "parent", self.parent),
            ("later", "position", [self.position]),
            ("later", "before", self.own),
            ("later", "memory", self.own if memory else []),
            ("later", "own", [gap] if gap else []),
            ("rows", "own", self.own),
        ]
        self.columns: list[Column] = []
        self._places: dict[tuple[str, str], slice] = {}
        kinds: list[tuple[str, str]] = []
        for scope, role, columns in blocks:
            start = len(self.columns)
            self._places[scope, role] = slice(start, start + len(columns))
            self.columns += columns
            kinds += [(scope, role)] * len(columns)
        self.n_given = self._places["later", "own"].start
        self._value = len(self.columns) - len(self.own)  # of the order, with a gap
        self.pairs: dict[tuple[int, int], Pair] = {}
        for j in range(self.n_given, len(self.columns)):
            for i in range(j):
                scope, role = kinds[i]
                # The value of the order follows from the gap in later rows.
                only = gap and {self.n_given: "later", self._value: "first"}.get(j)
                if only and scope != only:
                    continue
                if role in ("before", "memory"):
                    same = self.columns[i] is self.columns[j]
                    if role == "memory" and not same:
                        continue
                    role = "same" if same else "before"
                role = "parent" if role == "position" else role
                self.pairs[i, j] = Pair(scope, role)
        self.slopes: dict[int, Floats] = {}
        self._free: dict[int, Floats] = {}

    @property
    def shapes(self) -> list[Column]:
        """The columns of which each needs counts of its cells, see `choose`."""
        return [*self.own, self.gap] if self.gap else self.own

    @property
    def norm(self) -> float:
        """By how much a unit moves all tables together, times their powers, in L2."""
        return math.sqrt(sum(pair.power**2 for pair in self.pairs.values()))

    def gaps(self, values: Floats, unit: Ints) -> Floats:
        """Return the gap of each row to the row before of its unit, NaN of the first."""
        gaps = np.diff(values[:, 0], prepend=np.nan)
        gaps = -gaps if self.descending else gaps
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

        `mu` is that of all tables of pairs.
        """
        many = weights[n > 1].sum() / max(weights[n > 0].sum(), 1.0)
        n_own = len(self.own)
        total = max(many * np.mean([own.sum() for own in counts[:n_own]]), 1.0)
        noise = max(self.norm / mu, 1.0)
        n_bins = int(np.clip(math.sqrt(total / noise), *BINS))
        for column, own in zip(self.shapes, counts, strict=True):
            column.choose(own, noise_std, n_bins)
        some = n > 0
        for column, values in zip(self.parent, parents[some].T, strict=True):
            cells = column.cells(values)
            seen = cells >= 0
            own = np.bincount(cells[seen], weights[some][seen], column.n_cells)
            column.choose(own, 1.0, n_bins)
        self.position.choose(np.ones(self.position.n_cells), 0.0, 0)

    def encode(self, values: Floats, unit: Ints, parents: Floats) -> Codes:
        """Return the bins of rows and of all that they are given; private if these are.

        `unit` is the place of each row's parent, in increasing order; rows of a unit
        are in order. A bin is -1 where there is none, as of the row before a first one.
        """
        n = np.bincount(unit, minlength=len(parents))
        starts = np.cumsum(n) - n
        codes = np.empty((len(values), len(self.columns)), np.int16)

        def take(given: Codes, units: Ints, place: int, before: Floats) -> Floats:
            own = values[starts[units] + place]
            if self.gap and place:
                gaps = before - own[:, 0] if self.descending else own[:, 0] - before
                given[:, self.n_given] = self.gap.bins(gaps)
            bins = [c.bins(v) for c, v in zip(self.own, own.T, strict=True)]
            given[:, self._places["rows", "own"]] = np.column_stack(bins)
            return own

        for place, (units, found, _) in enumerate(self._walk(parents, n, take)):
            codes[starts[units] + place] = found
        return codes

    def _walk(
        self,
        parents: Floats,
        n: Ints,
        take: Callable[[Codes, Ints, int, Floats], Floats],
    ) -> Iterator[tuple[Ints, Codes, Floats]]:
        """Yield units, codes and values of the first rows, of the second ones and so on.

        `take` returns values, and puts the bins of the gap and of own columns in place.
        """
        columns = zip(self.parent, parents.T, strict=True)
        given = np.column_stack([c.bins(v) for c, v in columns]).astype(np.int16)
        memory, last = Memory(self.own, len(n)), np.zeros((len(n), len(self.own)))
        bins = np.empty(last.shape, np.int16)
        for place in range(int(n.max(initial=0))):
            units = np.flatnonzero(n > place)
            codes = np.full((len(units), len(self.columns)), -1, np.int16)
            of = "later" if place else "first"
            codes[:, self._places[of, "parent"]] = given[units]
            if place:
                at = min(place, self.position.n_cells) - 1
                codes[:, self._places["later", "position"]] = at
                codes[:, self._places["later", "before"]] = bins[units]
                if self.memory:
                    codes[:, self._places["later", "memory"]] = memory.bins(units)
            last[units] = values = take(codes, units, place, last[units, 0])
            bins[units] = codes[:, self._places["rows", "own"]]
            if self.memory:
                memory.add(units, values)
            yield units, codes, values

    def draw(
        self, parents: Floats, n: Ints, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """Draw `n` children of each parent, in order: places of parents, and values."""
        n = np.minimum(n, self.most)
        starts = np.cumsum(n) - n
        values = np.empty((int(n.sum()), len(self.own)))

        def take(codes: Codes, units: Ints, place: int, before: Floats) -> Floats:
            return self._draw_rows(codes, before, rng)

        for place, (units, _, own) in enumerate(self._walk(parents, n, take)):
            values[starts[units] + place] = own
        return np.repeat(np.arange(len(n)), n), values

    def _draw_rows(
        self,
        codes: Codes,
        before: Floats,
        rng: np.random.Generator,
        fit: Callable[[Codes, int], None] | None = None,
    ) -> Floats:
        """Draw own columns of rows after `before`; `fit` is called before each."""
        values, sign = (
            np.empty((len(codes), len(self.own))),
            -1 if self.descending else 1,
        )
        later = codes[:, self._places["later", "position"].start] >= 0
        gaps = np.zeros(len(codes))
        for j in range(self.n_given, len(self.columns)):
            column, rows = self.columns[j], np.arange(len(codes))
            if self.gap and j == self.n_given:
                rows = np.flatnonzero(later)
            elif self.gap and j == self._value:
                rows = np.flatnonzero(~later)
            if fit is not None and len(rows):
                fit(codes, j)
            shares = self.shares(codes[rows], j)
            if self.gap and j == self.n_given:  # what leaves the bounds is no gap
                domain = self.own[0].domain
                assert isinstance(domain, NumericDomain)
                end = domain.low if self.descending else domain.high
                room = sign * (end - before[rows])
                shares = shares * (column.least() <= room[:, None]) + 1e-30
            bins = _places(shares, rng)
            drawn = column.draw(bins, rng)
            codes[rows, j] = bins
            if self.gap and j == self.n_given:
                gaps[rows] = np.clip(drawn, 0.0, room)
                continue
            values[rows, j - self._value] = drawn
            if self.gap and j == self._value:
                values[later, 0] = before[later] + sign * gaps[later]
                codes[later, j] = column.bins(values[later, 0])
        return values

    def shares(self, codes: Codes, j: int) -> Floats:
        """Return the distributions of column j in rows, (n_rows, n_bins)."""
        uses, slopes = self._uses(j), self.slopes[j]
        starts = np.cumsum([0, *(self.columns[i].n_bins for i in uses)])
        later = codes[:, self._places["later", "position"].start] >= 0
        odds = slopes[-2:][later.astype(int)]
        for start, i in zip(starts, uses, strict=False):
            own = slopes[start : start + self.columns[i].n_bins]
            odds += np.concatenate((own, np.zeros((1, odds.shape[1]))))[codes[:, i]]
        odds = np.exp(odds - odds.max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)

    def _uses(self, j: int) -> list[int]:
        """Return the columns that column j is given."""
        return [i for i in range(j) if (i, j) in self.pairs]

    def fit(
        self,
        tables: Mapping[tuple[int, int], Floats],
        noise: Mapping[tuple[int, int], float],
        parents: Floats,
        n: Ints,
        weights: Floats,
        rng: np.random.Generator,
    ) -> None:
        """Fit to noisy tables of `pairs`, with noise deviations, and synthetic parents.

        Parents have numbers of children `n` and `weights`.
        """
        totals = {}
        for scope in ("first", "later", "rows"):
            sums = [
                t.sum() for key, t in tables.items() if self.pairs[key].scope == scope
            ]
            totals[scope] = max(float(np.mean(sums)), 1.0) if sums else 1.0
        for j in range(self.n_given, len(self.columns)):  # at first, all alike
            n_rows = sum(self.columns[i].n_bins for i in self._uses(j)) + 2
            self.slopes[j] = np.zeros((n_rows, self.columns[j].n_bins))
            self.slopes[j][-2:] = np.log(np.maximum(self.columns[j].shares, 1e-4))
        some = rng.permutation(np.flatnonzero(n > 0))
        for most in (1, 2, *[self.most] * N_ROUNDS):
            sizes = np.minimum(n[some], most)
            units = some[: np.searchsorted(np.cumsum(sizes), N_CONTEXTS) + 1]
            sizes = sizes[: len(units)]
            unit, values = self.draw(parents[units], sizes, rng)
            codes = self.encode(values, unit, parents[units])
            before = np.append(np.nan, values[:-1, 0])
            first = np.diff(unit, prepend=-1) != 0
            own = weights[units][unit]
            of_unit = {
                "first": own * first,
                "later": own * ~first / np.maximum(sizes[unit] - 1, 1),
                "rows": own / sizes[unit],
            }
            known = _Targets(tables, noise, totals, of_unit, first)

            def fit(codes: Codes, j: int, known: _Targets = known) -> None:
                self._fit_column(codes, j, known)

            self._draw_rows(codes, before, rng, fit)
            if most >= n.max(initial=1):
                break

    def _fit_column(self, codes: Codes, j: int, known: _Targets) -> None:
        """Fit the regression of column j to its tables, given simulated rows.

        Minimises the squared distance to the tables in variances of their noise, and
        squares of the slopes in theirs: what simulated rows do not show stays 0.
        """
        own, targets, errors, priors, lefts = self.columns[j], [], [], [], []
        blocks: list[Any] = []
        weighted: list[Any] = []
        margins: dict[str, list[tuple[float, Floats]]] = {"first": [], "later": []}
        for i in self._uses(j):
            pair, column, seen = self.pairs[i, j], self.columns[i], codes[:, i] >= 0
            total = known.totals[pair.scope]
            std, table = known.noise[i, j] / total, known.tables[i, j] / total
            v = known.weights[pair.scope] / max(known.weights[pair.scope].sum(), 1e-9)
            at = np.bincount(codes[seen, i], v[seen], column.n_bins)
            if pair.scope in margins:
                trust = pair.power**2 / len(table)
                margins[pair.scope].append((trust, table.sum(0)))
            # The simulated margin may differ from the measured: keep what is given it.
            sides = np.maximum(nearest_distribution(table.sum(1)), 1e-9)
            ratio = np.minimum(at / sides, 3.0)[:, None]
            targets.append(table * ratio)
            sampling = np.outer(at, own.shares) * (1 / total + 1 / len(codes))
            errors.append((std * ratio) ** 2 + sampling + 1e-9)
            scales = np.ones(column.basis.shape[1])
            scales[column.n_bins :] = SMOOTH
            priors.append(scales * PRIORS[pair.role])
            lefts.append(column.basis)
            blocks.append(_one_hot(codes[:, i], column.n_bins, seen))
            weighted.append(_one_hot(codes[:, i], column.n_bins, v))
        for scope, rows in (("first", known.first), ("later", ~known.first)):
            v = known.weights[scope] / max(known.weights[scope].sum(), 1e-9)
            margin, error = own.shares, 10.0
            if margins[scope] and rows.any():
                trusts, sums = zip(*margins[scope], strict=True)
                margin = nearest_distribution(np.average(sums, axis=0, weights=trusts))
                noise = max(known.noise.values()) / known.totals[scope]
                error = noise / math.sqrt(sum(trusts)) + 1e-3
            targets.append(margin[None])
            errors.append(np.full((1, own.n_bins), error**2))
            priors.append(np.full(1, 5.0))
            lefts.append(np.eye(1))
            blocks.append(_one_hot(np.zeros(len(codes), int), 1, rows))
            weighted.append(_one_hot(np.zeros(len(codes), int), 1, v))
        x = sparse.hstack(blocks, "csr", np.float32)
        xv = sparse.hstack(weighted, "csr", np.float32)
        back, backv = x.T.tocsr(), xv.T.tocsr()
        table = np.concatenate(targets).astype(np.float32)
        precision = (1 / np.concatenate(errors)).astype(np.float32)
        left = sparse.block_diag(lefts, "csr", np.float32)
        right = own.basis.T.astype(np.float32)
        scales = np.ones(len(right))
        scales[own.n_bins :] = SMOOTH
        prior = np.outer(np.concatenate(priors), scales) ** -2.0

        def loss(flat: Floats) -> tuple[float, Floats]:
            free = flat.reshape(prior.shape)
            odds = x @ (left @ free.astype(np.float32) @ right)
            odds = np.exp(odds - odds.max(1, keepdims=True))
            shares = odds / odds.sum(1, keepdims=True)
            beside = backv @ shares - table
            by_table = beside * precision
            by_shares = xv @ by_table
            means = (shares * by_shares).sum(1, keepdims=True)
            by_logits = shares * (by_shares - means)
            slopes = left.T @ (back @ by_logits) @ right.T + prior * free
            value = (by_table * beside).sum(dtype=float) + (prior * free**2).sum()
            return 0.5 * value, slopes.astype(float).ravel()

        start = self._free.get(j, np.zeros(prior.shape)).ravel()
        options = {"maxiter": N_STEPS}
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
        self._free[j] = found.x.reshape(prior.shape)
        self.slopes[j] = np.asarray(left @ self._free[j] @ right, dtype=np.float64)


class _Targets(NamedTuple):
    """What was measured, and the weights of simulated rows in each scope."""

    tables: Mapping[tuple[int, int], Floats]
    noise: Mapping[tuple[int, int], float]
    totals: Mapping[str, float]
    weights: Mapping[str, Floats]
    first: Bools


def _one_hot(codes: Ints, n_bins: int, values: Floats | Bools) -> Any:  # noqa: ANN401
    """Return one row for each code, with a value at it; none where it is -1 or 0."""
    rows = np.flatnonzero((codes >= 0) & (values != 0))
    place = rows, codes[rows]
    shape = len(codes), n_bins
    return sparse.csr_array((values[rows].astype(np.float32), place), shape=shape)


def _places(shares: Floats, rng: np.random.Generator) -> Ints:
    """Draw one place per row of shares."""
    ends = shares.cumsum(1)
    below = ends < rng.random((len(ends), 1)) * ends[:, -1:]
    return np.minimum(below.sum(1), shares.shape[1] - 1)
