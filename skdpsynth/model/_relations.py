"""Rows of mixtures follow the relations that were measured: post-processing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skdpsynth.measure import LIKELY, LITTLE, TINY, Relation, raked
from skdpsynth.utils import check_array, check_groups, require

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    State = Mapping[str, Any]
    # Of each class: weights of components, and their probabilities of all bins.
    Mixtures = Sequence[tuple[Floats, NDArray[np.float32]]]


class Drawn:
    """Draws places in rows of weights, whose sums are computed once.

    Evenly where all weights that are asked for are 0.
    """

    def __init__(self, weights: Floats) -> None:
        ends = np.cumsum(np.maximum(weights, TINY), axis=1)
        ends /= ends[:, -1:]
        self._below = np.pad(ends, ((0, 0), (1, 0)))
        ends += np.arange(len(ends))[:, None]
        self._table, self._n_places = ends.ravel(), ends.shape[1]

    def __call__(
        self,
        rows: Ints,
        rng: np.random.Generator,
        between: tuple[Ints, Ints] | None = None,
    ) -> Ints:
        """Draw a place in each of some rows, from a first one to before an end."""
        low, high = np.zeros(len(rows)), np.ones(len(rows))
        if between is not None:
            low, high = (self._below[rows, end] for end in between)
        places = rows + low + rng.random(len(rows)) * (high - low)
        found = np.searchsorted(self._table, places, "right") - rows * self._n_places
        first, end = (0, self._n_places) if between is None else between
        return np.clip(found, first, np.subtract(end, 1))


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
        sizes = [len(own) for own in self.within]
        self._first = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        # Where the cells of each bin begin, and the last ones end.
        self._ends = [
            np.searchsorted(own, np.arange(own.max(initial=-1) + 2))
            for own in self.within
        ]
        # The change of each child by the bin of its parent; and cells, if measured.
        self._steps: list[tuple[Change, CellStep | None]] = []

    @property
    def children(self) -> set[int]:
        """Columns that may be changed."""
        return {own.child for own in self.relations}

    @property
    def with_cells(self) -> set[int]:
        """Columns whose values are drawn from finer cells."""
        measured = [own for own in self.relations if own.cells is not None]
        return {j for own in measured for j in (own.parent, own.child)}

    def compare(self, mixtures: Mixtures, prior: Floats, starts: Ints) -> None:
        """Compute what is to be changed of the pairs of bins that mixtures draw.

        Of all classes together, whose shares are `prior`; `starts` is where the bins of
        each column begin.
        """
        prior, self._steps = prior / prior.sum(), []
        for own in self.relations:
            a, b = (slice(*starts[j : j + 2]) for j in (own.parent, own.child))
            drawn = np.zeros(own.shares.shape)
            for share, (weights, own_bins) in zip(prior, mixtures, strict=True):
                drawn += share * (weights[:, None] * own_bins[:, a]).T @ own_bins[:, b]
            wanted = own.shares
            if not own.strong:
                # With 2 deviations the marginals of Adult lost more than pairs won.
                off = LIKELY * self.std
                close = np.clip(drawn, np.maximum(wanted - off, 0.0), wanted + off)
                wanted = np.where(wanted > 0, close, 0.0)
            # Every row must have a bin to go to.
            wanted = np.maximum(wanted, TINY * own.shares)
            wanted = raked(wanted, drawn.sum(axis=1), drawn.sum(axis=0))
            given = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), TINY)
            cells = None
            if own.cells is not None:
                joint = self._joint(own, mixtures, prior, starts)
                cells = self._cells(own, drawn, joint)
            self._steps.append((Change(wanted, given), cells))

    def _cells(self, own: Relation, drawn: Floats, joint: Floats | None) -> CellStep:
        """Compute what finer cells add to the pairs of bins that are `drawn`."""
        assert own.cells is not None
        cuts, of_bin = self._ends[own.child][:-1], self.within[own.parent]
        whole = np.maximum(own.shares.sum(axis=1), TINY)
        before = np.add.reduceat(own.cells, cuts, axis=1)
        rows = before.sum(axis=1) * (drawn.sum(axis=1) / whole)[of_bin]
        halves = raked(before, rows, drawn.sum(axis=0))
        # Without noise C2ST of RandHIE is .62 so, and .69 if what mixtures draw is
        # replaced in any case; Diamonds (.12 and .24) has .64, and .66 if it is not.
        if joint is None or self._left(own, joint) < LITTLE:
            given = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), TINY)
            change = Change(halves, given[of_bin])
            return CellStep(Drawn(halves.T), change, Drawn(own.cells))
        assert own.lift is not None
        n_bins, n_seconds = drawn.shape[1], own.lift.shape[1]
        joint += TINY * drawn[:, None]
        given = joint / np.maximum(joint.sum(axis=2, keepdims=True), TINY**2)
        cells = own.cells[:, None] * own.lift.T[:, own.groups].transpose(1, 0, 2)
        cells = cells.reshape(-1, cells.shape[2])
        changed = np.repeat(halves / np.maximum(before, TINY), n_seconds, axis=0)
        wanted = np.add.reduceat(cells, cuts, axis=1) * changed
        change = Change(wanted, given[of_bin].reshape(-1, n_bins))
        first = Drawn(halves.sum(axis=1)[None])
        return CellStep(first, change, Drawn(cells), n_seconds)

    def _joint(
        self, own: Relation, mixtures: Mixtures, prior: Floats, starts: Ints
    ) -> Floats | None:
        """Return what mixtures draw of a parent, a second column, if any, and child."""
        if own.second is None:
            return None
        a, b, c = (
            slice(*starts[j : j + 2]) for j in (own.parent, own.child, own.second)
        )
        joint = np.zeros((a.stop - a.start, c.stop - c.start, b.stop - b.start))
        for share, (weights, own_bins) in zip(prior, mixtures, strict=True):
            of_parent = share * weights[:, None] * own_bins[:, a]
            both = of_parent[:, :, None] * own_bins[:, None, c]
            found = both.reshape(len(both), -1).T @ own_bins[:, b]
            joint += found.reshape(joint.shape)
        return joint

    def _left(self, own: Relation, joint: Floats) -> float:
        """Return what the second column says of a child beyond what mixtures draw.

        In nats per row, by the groups of the child (Kullback, Leibler 1951).
        """
        assert own.cells is not None
        assert own.lift is not None
        (n_parents, _, n_bins), n_groups = joint.shape, len(own.lift)
        pairs = self.within[own.parent][:, None] * n_bins + self.within[own.child]
        counted = np.bincount(
            (pairs * n_groups + own.groups).ravel(),
            own.cells.ravel(),
            n_parents * n_bins * n_groups,
        ).reshape(n_parents, n_bins, n_groups)
        of_pair = counted / np.maximum(counted.sum(axis=2, keepdims=True), TINY)
        drawn = np.einsum("psc,pcg->gs", joint, of_pair) + TINY
        drawn /= drawn.sum()
        wanted = own.lift * np.outer(drawn.sum(axis=1), drawn.sum(axis=0))
        wanted = wanted / wanted.sum() + TINY
        return float((wanted * np.log(wanted / drawn)).sum())

    def __call__(
        self, position: int, bins: Ints, rng: np.random.Generator
    ) -> dict[int, Floats]:
        """Change the bins (n_columns, n_rows) of a class in place.

        The ranks of the columns with finer cells are given, by column.
        """
        cells: dict[int, Ints] = {}
        for own, (change, finer) in zip(self.relations, self._steps, strict=True):
            parent, child = bins[own.parent], bins[own.child]
            if finer is None:
                change(parent, child, rng)
                continue
            new = own.parent not in cells
            if new:
                row = np.zeros_like(parent)
                if not finer.n_seconds:
                    change(parent, child, rng)
                    row = child
                between = self._between(own.parent, parent)
                cells[own.parent] = finer.parent(row, rng, between)
            row = cells[own.parent]
            if finer.n_seconds:
                row = row * finer.n_seconds + bins[own.second]
            if finer.n_seconds or not new:
                finer.change(row, child, rng)
            between = self._between(own.child, child)
            cells[own.child] = finer.child(row, rng, between)
        found = {}
        for j, of_rows in cells.items():
            low, high = self.ranks[position][:, self._first[j] + of_rows]
            found[j] = low + rng.random(len(of_rows)) * (high - low)
        return found

    def _between(self, column: int, bins: Ints) -> tuple[Ints, Ints]:
        """Return the first cell of the bins of a column, and the end of the cells."""
        return self._ends[column][bins], self._ends[column][bins + 1]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into a JSON-safe document and arrays, for saving."""
        arrays = {
            f"relations.{k}.{name}": getattr(own, name)
            for k, own in enumerate(self.relations)
            for name in ("shares", "cells", "lift")
            if getattr(own, name) is not None
        }
        arrays |= {f"relations.within.{j}": own for j, own in enumerate(self.within)}
        arrays |= {f"relations.ranks.{c}": own for c, own in enumerate(self.ranks)}
        document = {
            "pairs": [[own.parent, own.child] for own in self.relations],
            "strong": [own.strong for own in self.relations],
            "second": [own.second for own in self.relations],
            "std": self.std,
            "n_finer": len(self.within),
            "n_classes": len(self.ranks),
        }
        return document, arrays

    @classmethod
    def from_state(
        cls, document: State, arrays: State, n_classes: int, n_bins: Ints
    ) -> Followers:
        """Rebuild what `to_state` split, and check it."""
        n_finer, n_ranks, std = (document[x] for x in ("n_finer", "n_classes", "std"))
        sizes = (0, 0), (len(n_bins), n_classes)
        require((n_finer, n_ranks) in sizes, "cells")
        require(type(std) is float and 0 <= std < np.inf, "noise")
        relations = [
            Relation(
                parent,
                child,
                arrays[f"relations.{k}.shares"],
                document["strong"][k],
                arrays.get(f"relations.{k}.cells"),
                document["second"][k],
                arrays.get(f"relations.{k}.lift"),
            )
            for k, (parent, child) in enumerate(document["pairs"])
        ]
        within = [arrays[f"relations.within.{j}"] for j in range(n_finer)]
        for own, n in zip(within, n_bins, strict=bool(within)):
            check_groups(own, n)
        n_cells = [len(own) for own in within]
        ranks = [arrays[f"relations.ranks.{c}"] for c in range(n_ranks)]
        for of_class in ranks:
            check_ranks(of_class, sum(n_cells))
        lengths = {len(document[name]) for name in ("pairs", "strong", "second")}
        require(lengths == {len(relations)}, "relations")
        for relation in relations:
            relation.check(n_bins, n_cells)
        return cls(relations, std, within, ranks)


def check_ranks(ranks: Floats, n_bins: int) -> None:
    """Raise a ValueError unless bins begin and end among ranks, in this order."""
    check_array(ranks, "float64", (2, n_bins), 0, 1 + TINY)
    require((ranks[0] <= ranks[1] + TINY).all(), "ranks")
