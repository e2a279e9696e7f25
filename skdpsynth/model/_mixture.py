"""Mixtures of independent columns, one for each class, and the rows drawn from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdpsynth.measure import LIKELY, LITTLE, SMALLEST, TINY, Relation
from skdpsynth.utils import (
    ROUNDING,
    check_array,
    check_groups,
    in_order_of_class,
    require,
)
from skdpsynth.utils.arrays import Floats, Ints

State = Mapping[str, Any]

_RAKINGS = 30  # rounds until a table has given sums to 1e-3


def raked(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Bring a table to given sums, as far as its zeros allow (Deming, Stephan 1940)."""
    for _ in range(_RAKINGS):
        table = table * (rows / np.maximum(table.sum(axis=1), SMALLEST))[:, None]
        table = table * (columns / np.maximum(table.sum(axis=0), SMALLEST))
    return table / table.sum()


@dataclass(frozen=True)
class Mixture:
    """The generator of one class: a code is drawn, and given it a bin of each column.

    `weights` have sum 1; `probabilities` are distributions over the bins of each
    column, the D bins of all columns one after the other. `ranks` say where each bin
    begins and ends among the ranks of its column, in [0, 1].
    """

    weights: Floats  # (n_components,)
    probabilities: NDArray[np.float32]  # (n_components, D)
    ranks: Floats  # (2, D)

    @classmethod
    def independent(cls, shares: Floats, ranks: Floats) -> Mixture:
        """One component: columns are independent."""
        return cls(np.ones(1), shares[None].astype(np.float32), ranks)

    def pair_shares(self) -> Floats:
        """Return the share of rows in every pair of bins of two columns, (D, D)."""
        given = self.probabilities.astype(np.float64)
        return given.T * self.weights @ given

    def bins(self, n_rows: int, starts: Ints, rng: np.random.Generator) -> Ints:
        """Draw the bins of rows, (n_columns, n_rows), in order of their codes."""
        counts = rng.multinomial(n_rows, self.weights)
        codes = np.repeat(np.arange(len(counts)), counts)
        drawn = np.empty((len(starts) - 1, n_rows), dtype=np.int64)
        for j, (start, end) in enumerate(pairwise(starts.tolist())):
            ends = self.probabilities[:, start:end].cumsum(1, dtype=np.float64)
            ends /= ends[:, -1:]
            table = (ends + np.arange(len(ends))[:, None]).ravel()
            places = np.searchsorted(table, codes + rng.random(n_rows), "right")
            drawn[j] = np.minimum(places - codes * (end - start), end - start - 1)
        return drawn

    def lent(
        self,
        other: Mixture,
        starts: Ints,
        categories: Sequence[bool],
        with_cells: Collection[int] = (),
    ) -> Mixture:
        """Return the mixture that a class with the marginals of `other` borrows.

        `categories` says which columns have no order: there the odds of the bins are
        changed alike in all components until the shares are right. Of other columns
        bins become intervals of the ranks that this mixture itself draws; in columns
        `with_cells`, whose bins `Followers` reads, components keep their ranks in the
        bins of `other`. A column depends on others as far as its shares are the same.
        """
        probabilities, ranks = self.probabilities.copy(), other.ranks.copy()
        wanted = np.maximum(other.weights @ other.probabilities, TINY)
        for j, (start, end) in enumerate(pairwise(starts.tolist())):
            given = np.maximum(self.probabilities[:, start:end].astype(float), TINY)
            lent, shares = given, self.weights @ given
            if categories[j]:
                odds = np.ones(end - start)
                for _ in range(_RAKINGS):
                    lent = given * odds
                    lent /= lent.sum(axis=1, keepdims=True)
                    odds *= wanted[start:end] / (self.weights @ lent)
            else:
                order = np.lexsort(self.ranks[::-1, start:end])
                ends = np.append(0.0, np.cumsum(shares[order]))
                low, high = ends[:-1] / ends[-1], ends[1:] / ends[-1]
                if j in with_cells:
                    # Otherwise the class has the marginal of the lender: the diamonds
                    # "Fair" had 1-way distances of .26, not .17 (epsilon .3).
                    limits = low[:, None], high[:, None]
                    inside = np.clip(other.ranks[:, None, start:end], *limits)
                    parts = (inside[1] - inside[0]) / (high - low)[:, None]
                    lent = given[:, order] @ parts + TINY * wanted[start:end]
                    lent /= lent.sum(axis=1, keepdims=True)
                else:
                    ranks[:, start + order] = low, high
            # Where classes differ, so does their dependence: of the frauds of Kaggle
            # Credit rank correlations are -.2 correlated with those of all others. With
            # all of it 12 classifiers lost .004 of AUROC (5 splits, standard error
            # .002) against independent columns, and so they lose nothing.
            kept = min(float(np.minimum(shares, wanted[start:end]).sum()), 1.0)
            lent = kept * lent + (1.0 - kept) * (self.weights @ lent)
            probabilities[:, start:end] = lent
        return replace(self, probabilities=probabilities, ranks=ranks)

    def within(
        self,
        spans: Mapping[int, Floats],
        starts: Ints,
        free: Collection[int] = (),
        whole: Collection[int] = (),
    ) -> tuple[Mixture, float]:
        """Restrict the ranks of some columns; give the share of rows that are kept too.

        A bin keeps what is between its first and its last allowed rank, so where it has
        several spans some other rows are left. Columns that are `free` are left out; of
        those that are `whole` a bin of which something is allowed is kept as it is.
        """
        weights, probabilities = self.weights.copy(), self.probabilities.astype(float)
        ranks = self.ranks.copy()
        for j, allowed in spans.items():
            if j in free:
                continue
            bins = slice(starts[j], starts[j + 1])
            low, high = ranks[:, bins]
            begin = np.maximum(low, allowed[:, :1])
            end = np.minimum(high, allowed[:, 1:])
            first = np.where(end > begin, begin, np.inf).min(axis=0, initial=np.inf)
            last = np.where(end > begin, end, -np.inf).max(axis=0, initial=-np.inf)
            some = last > first
            if j in whole:
                first, last = np.where(some, (low, high), (first, last))
            kept = np.where(some, last - first, 0.0) / np.maximum(high - low, TINY)
            ranks[:, bins] = np.where(some, (first, last), (low, high))
            given = probabilities[:, bins]
            left = given * kept
            share = left.sum(axis=1, keepdims=True)
            weights *= share[:, 0] / given.sum(axis=1)
            left /= np.maximum(share, TINY)
            probabilities[:, bins] = np.where(share > 0, left, 1.0)
        total = float(weights.sum())
        weights = weights / total if total > 0 else self.weights
        return Mixture(weights, probabilities.astype(np.float32), ranks), total


class Drawn:
    """Draws places in rows of weights, whose sums are computed once.

    Evenly where all weights that are asked for are 0.
    """

    def __init__(self, weights: Floats) -> None:
        ends = np.cumsum(np.maximum(weights, TINY), axis=1)
        ends /= ends[:, -1:]
        self._below = np.insert(ends, 0, 0.0, axis=1)
        ends += np.arange(len(ends))[:, None]
        self._table, self._n_places = ends.ravel(), ends.shape[1]

    def __call__(
        self,
        rows: Ints,
        rng: np.random.Generator,
        first: Ints | int = 0,
        end: Ints | None = None,
    ) -> Ints:
        """Draw a place in each of some rows, from a first one to before an end."""
        ends = self._n_places if end is None else end
        low, high = self._below[rows, first], self._below[rows, ends]
        places = rows + low + rng.random(len(rows)) * (high - low)
        drawn = np.searchsorted(self._table, places, "right") - rows * self._n_places
        return np.clip(drawn, first, np.subtract(ends, 1))


class Change:
    """How the bin of a child is drawn again, to have a wanted distribution.

    Given the parent, in rows: a bin that is drawn with probability g, and should be
    with w, is kept with probability min(1, w / g); otherwise a bin is drawn in
    proportion to max(w - g, 0).
    """

    def __init__(self, wanted: Floats, given: Floats) -> None:
        wanted = wanted / np.maximum(wanted.sum(axis=1, keepdims=True), TINY)
        self._stays = np.minimum(wanted / np.maximum(given, TINY), 1.0)
        instead = np.maximum(wanted - given, 0.0)
        some = instead.any(axis=1, keepdims=True)
        self._instead = Drawn(np.where(some, instead, wanted))

    def __call__(self, parent: Ints, child: Ints, rng: np.random.Generator) -> None:
        """Change the bins of a child in place."""
        wrong = np.flatnonzero(rng.random(len(child)) >= self._stays[parent, child])
        child[wrong] = self._instead(parent[wrong], rng)


class CellStep(NamedTuple):
    """What finer cells add to a step.

    Rows of `change` and `child` are cells of the parent, and for each of them the bins
    of a second column if there are `n_seconds`.
    """

    parent: Drawn  # cells of the parent, given the bin of the child; one row if second
    change: Change
    child: Drawn  # cells of the child
    n_seconds: int = 0


@dataclass(eq=False, repr=False)
class Followers:
    """How rows of mixtures are changed so that columns follow each other.

    Along the relations, each after that of its parent: the bin of the child stays, or
    another one is drawn (`Change`); then the cells inside both bins. Where a relation
    is not strong, only pairs of bins change that are impossible, or drawn surely too
    often or too seldom.
    """

    relations: Sequence[Relation]
    std: float  # noise of a share of a pair of bins
    within: Sequence[Ints]  # by column: the bin of each finer cell, in order
    # By class: where each cell begins and ends among the ranks of its column.
    ranks: Sequence[Floats]  # (2, n_cells of all columns)

    def __post_init__(self) -> None:
        sizes = [len(of_cells) for of_cells in self.within]
        self._first = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        # Where the cells of each bin begin, and the last ones end.
        self._ends = [
            np.searchsorted(of_cells, np.arange(of_cells.max(initial=-1) + 2))
            for of_cells in self.within
        ]
        # The change of each child by the bin of its parent; and cells, if measured.
        self._steps: list[tuple[Change, CellStep | None]] = []

    @property
    def with_cells(self) -> set[int]:
        """Columns whose values are drawn from finer cells."""
        measured = (one for one in self.relations if one.cells is not None)
        return {j for one in measured for j in (one.parent, one.child)}

    def compare(self, mixtures: Sequence[Mixture], prior: Floats, starts: Ints) -> None:
        """Compute what is to be changed of the pairs of bins that mixtures draw.

        Of all classes together, whose shares are `prior`; `starts` is where the bins of
        each column begin.
        """
        prior, self._steps = prior / prior.sum(), []
        for one in self.relations:
            a, b = (slice(*starts[j : j + 2]) for j in (one.parent, one.child))
            drawn: Floats = np.zeros(one.shares.shape)
            joint = None
            if one.second is not None:  # what mixtures draw of it and both others
                c = slice(*starts[one.second : one.second + 2])
                joint = np.zeros((len(drawn), c.stop - c.start, drawn.shape[1]))
            for share, mixture in zip(prior, mixtures, strict=True):
                weights, given = mixture.weights[:, None], mixture.probabilities
                drawn += share * (weights * given[:, a]).T @ given[:, b]
                if joint is not None:
                    of_parent = share * weights * given[:, a]
                    both = of_parent[:, :, None] * given[:, None, c]
                    by_bins = both.reshape(len(both), -1).T @ given[:, b]
                    joint += by_bins.reshape(joint.shape)
            wanted = one.shares
            if not one.strong:
                # With 2 deviations the marginals of Adult lost more than pairs won.
                off = LIKELY * self.std
                close = np.clip(drawn, np.maximum(wanted - off, 0.0), wanted + off)
                wanted = np.where(wanted > 0, close, 0.0)
            # Every row must have a bin to go to.
            wanted = np.maximum(wanted, TINY * one.shares)
            wanted = raked(wanted, drawn.sum(axis=1), drawn.sum(axis=0))
            given = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), TINY)
            cells = None if one.cells is None else self._cells(one, drawn, joint)
            self._steps.append((Change(wanted, given), cells))

    def _cells(self, one: Relation, drawn: Floats, joint: Floats | None) -> CellStep:
        """Compute what finer cells add to the pairs of bins that are `drawn`."""
        assert one.cells is not None
        cuts, of_bin = self._ends[one.child][:-1], self.within[one.parent]
        whole = np.maximum(one.shares.sum(axis=1), TINY)
        before = np.add.reduceat(one.cells, cuts, axis=1)
        rows = before.sum(axis=1) * (drawn.sum(axis=1) / whole)[of_bin]
        halves = raked(before, rows, drawn.sum(axis=0))
        # Without noise C2ST of RandHIE is .62 so, and .69 if what mixtures draw is
        # replaced in any case; Diamonds (.12 and .24) has .64, and .66 if it is not.
        if joint is None or self._left(one, joint) < LITTLE:
            given = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), TINY)
            change = Change(halves, given[of_bin])
            return CellStep(Drawn(halves.T), change, Drawn(one.cells))
        assert one.lift is not None
        n_bins, n_seconds = drawn.shape[1], one.lift.shape[1]
        joint += TINY * drawn[:, None]
        given = joint / np.maximum(joint.sum(axis=2, keepdims=True), TINY**2)
        cells = one.cells[:, None] * one.lift.T[:, one.groups].transpose(1, 0, 2)
        cells = cells.reshape(-1, cells.shape[2])
        changed = np.repeat(halves / np.maximum(before, TINY), n_seconds, axis=0)
        wanted = np.add.reduceat(cells, cuts, axis=1) * changed
        change = Change(wanted, given[of_bin].reshape(-1, n_bins))
        first = Drawn(halves.sum(axis=1)[None])
        return CellStep(first, change, Drawn(cells), n_seconds)

    def _left(self, one: Relation, joint: Floats) -> float:
        """Return what the second column says of a child beyond what mixtures draw.

        In nats per row, by the groups of the child (Kullback, Leibler 1951).
        """
        assert one.cells is not None
        assert one.lift is not None
        (n_parents, _, n_bins), n_groups = joint.shape, len(one.lift)
        pairs = self.within[one.parent][:, None] * n_bins + self.within[one.child]
        counted = np.bincount(
            (pairs * n_groups + one.groups).ravel(),
            one.cells.ravel(),
            n_parents * n_bins * n_groups,
        ).reshape(n_parents, n_bins, n_groups)
        of_pair = counted / np.maximum(counted.sum(axis=2, keepdims=True), TINY)
        drawn = np.einsum("psc,pcg->gs", joint, of_pair) + TINY
        drawn /= drawn.sum()
        wanted = one.lift * np.outer(drawn.sum(axis=1), drawn.sum(axis=0))
        wanted = wanted / wanted.sum() + TINY
        return float((wanted * np.log(wanted / drawn)).sum())

    def __call__(
        self, position: int, bins: Ints, rng: np.random.Generator
    ) -> dict[int, Floats]:
        """Change the bins (n_columns, n_rows) of a class in place.

        The ranks of the columns with finer cells are given, by column.
        """
        cells: dict[int, Ints] = {}
        for one, (change, finer) in zip(self.relations, self._steps, strict=True):
            parent, child = bins[one.parent], bins[one.child]
            if finer is None:
                change(parent, child, rng)
                continue
            new = one.parent not in cells
            if new:
                row = np.zeros_like(parent)
                if not finer.n_seconds:
                    change(parent, child, rng)
                    row = child
                between = self._between(one.parent, parent)
                cells[one.parent] = finer.parent(row, rng, *between)
            row = cells[one.parent]
            if finer.n_seconds:
                row = row * finer.n_seconds + bins[one.second]
            if finer.n_seconds or not new:
                finer.change(row, child, rng)
            cells[one.child] = finer.child(row, rng, *self._between(one.child, child))
        ranks = {}
        for j, of_rows in cells.items():
            low, high = self.ranks[position][:, self._first[j] + of_rows]
            ranks[j] = low + rng.random(len(of_rows)) * (high - low)
        return ranks

    def _between(self, column: int, bins: Ints) -> tuple[Ints, Ints]:
        """Return the first cell of the bins of a column, and the end of the cells."""
        return self._ends[column][bins], self._ends[column][bins + 1]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into a JSON-safe document and arrays, for saving."""
        arrays = {
            f"relations.{k}.{name}": getattr(one, name)
            for k, one in enumerate(self.relations)
            for name in ("shares", "cells", "lift")
            if getattr(one, name) is not None
        }
        arrays |= {f"relations.within.{j}": x for j, x in enumerate(self.within)}
        arrays |= {f"relations.ranks.{c}": x for c, x in enumerate(self.ranks)}
        document = {
            "pairs": [[one.parent, one.child] for one in self.relations],
            "strong": [one.strong for one in self.relations],
            "second": [one.second for one in self.relations],
            "std": self.std,
        }
        return document, arrays

    @classmethod
    def from_state(
        cls, document: State, arrays: State, n_classes: int, n_bins: Ints
    ) -> Followers:
        """Rebuild what `to_state` split, and check it."""
        std = document["std"]
        require(type(std) is float and 0 <= std < np.inf, "noise")
        pairs, strong = document["pairs"], document["strong"]
        each = zip(pairs, strong, document["second"], strict=True)
        relations = [
            Relation(
                parent,
                child,
                arrays[f"relations.{k}.shares"],
                is_strong,
                arrays.get(f"relations.{k}.cells"),
                second,
                arrays.get(f"relations.{k}.lift"),
            )
            for k, ((parent, child), is_strong, second) in enumerate(each)
        ]
        within, ranks = [], []
        if any(one.cells is not None for one in relations):
            within = [arrays[f"relations.within.{j}"] for j in range(len(n_bins))]
            ranks = [arrays[f"relations.ranks.{c}"] for c in range(n_classes)]
        for of_cells, n in zip(within, n_bins, strict=bool(within)):
            check_groups(of_cells, n)
        n_cells = [len(of_cells) for of_cells in within]
        for of_class in ranks:
            _check_ranks(of_class, sum(n_cells))
        for relation in relations:
            relation.check(n_bins, n_cells)
        return cls(relations, std, within, ranks)


def _check_ranks(ranks: Floats, n_bins: int) -> None:
    """Raise a ValueError unless bins begin and end among ranks, in this order."""
    check_array(ranks, "float64", (2, n_bins), 0, 1 + TINY)
    require((ranks[0] <= ranks[1] + TINY).all(), "ranks")


@dataclass(eq=False, repr=False)
class MixtureGenerator:
    """The mixtures of all classes, and what is changed of their rows; public.

    `starts` (n_columns + 1,) is where the bins of each column begin, and the last ones
    end.
    """

    mixtures: list[Mixture]
    starts: Ints
    followers: Followers | None = None

    def draw(self, class_codes: Ints, rng: np.random.Generator) -> Floats:
        """Draw the ranks of rows of given classes: in [0, 1), (n_rows, n_columns)."""
        ranks = np.empty((len(class_codes), len(self.starts) - 1))
        order, places_of = in_order_of_class(class_codes, len(self.mixtures))
        for position, place in enumerate(places_of):
            mixture, rows = self.mixtures[position], order[place]
            bins = mixture.bins(len(rows), self.starts, rng)
            rows = rng.permutation(rows)
            low, high = mixture.ranks
            width = high - low
            of_class = np.empty(bins.shape)
            finer = self.followers(position, bins, rng) if self.followers else {}
            for j, (start, end) in enumerate(pairwise(self.starts.tolist())):
                rng.random(out=of_class[j])
                of_class[j] *= width[start:end].take(bins[j])
                of_class[j] += low[start:end].take(bins[j])
            for j, of_column in finer.items():
                of_class[j] = of_column
            ranks[rows] = of_class.T
        return ranks

    def within(
        self, spans: Sequence[Mapping[int, Floats]]
    ) -> tuple[MixtureGenerator, Floats]:
        """Restrict the ranks of each class to spans (n, 2) of some columns.

        The share of rows that are left is given too. Rows outside may be left, and are
        then part of it.
        """
        # A column that follows another one is changed after the mixture has drawn it,
        # so it is not restricted, unless hardly any row would be left: a thousandth.
        # Rows with a rarer value of it are about those of its distribution.
        pairs, followers = [*zip(self.mixtures, spans, strict=True)], self.followers
        narrowed = [mixture.within(part, self.starts) for mixture, part in pairs]
        if followers is not None:
            children = {one.child for one in followers.relations}
            beside = self.starts, children, followers.with_cells
            exact = [mixture.within(part, *beside) for mixture, part in pairs]
            both = zip(narrowed, exact, strict=True)
            if any(part >= ROUNDING * max(more, TINY) for (_, part), (_, more) in both):
                narrowed = exact
        mixtures, shares = zip(*narrowed, strict=True)
        return MixtureGenerator([*mixtures], self.starts, followers), np.array(shares)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into a JSON-safe document and arrays, for saving."""
        arrays: dict[str, NDArray[Any]] = {"generator.starts": self.starts}
        for c, mixture in enumerate(self.mixtures):
            arrays |= {f"generator.{c}.{k}": x for k, x in vars(mixture).items()}
        document: dict[str, Any] = {"form": "mixture", "n_classes": len(self.mixtures)}
        if self.followers is not None:
            document["relations"], more = self.followers.to_state()
            arrays |= more
        return document, arrays

    @classmethod
    def from_state(
        cls, document: State, arrays: State, n_classes: int, n_columns: int
    ) -> MixtureGenerator:
        """Rebuild what `to_state` split, and check it."""
        require(document["n_classes"] == n_classes, "another number of classes")
        starts, followers = arrays["generator.starts"], None
        check_array(starts, "int64", (n_columns + 1,))
        require(starts[0] == 0 and (np.diff(starts) > 0).all(), "bins")
        mixtures, n_bins = [], int(starts[-1])
        for c in range(n_classes):
            parts = (arrays[f"generator.{c}.{field.name}"] for field in fields(Mixture))
            weights, probabilities, ranks = parts
            mixtures.append(Mixture(weights, probabilities, ranks))
            check_array(weights, "float64", (len(weights),), 0)
            check_array(probabilities, "float32", (len(weights), n_bins), 0)
            _check_ranks(ranks, n_bins)
            sums = np.add.reduceat(probabilities, starts[:-1], axis=1)
            for total in (sums, weights.sum()):
                require((np.abs(total - 1.0) < ROUNDING).all(), "shares")
        if "relations" in document:
            given = document["relations"], arrays, n_classes, np.diff(starts)
            followers = Followers.from_state(*given)
            followers.compare(mixtures, arrays["class_counts"], starts)
        return cls(mixtures, starts, followers)
