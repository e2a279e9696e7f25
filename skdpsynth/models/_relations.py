"""Rows of mixtures follow the relations that were measured: post-processing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.measure import Relation, raked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.models._mixture import Mixture

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_TINY = 1e-12  # keeps divisions finite
# Noise deviations from which a pair of bins is drawn too often, or too seldom, in a
# relation that is not strong; with 2 the marginals of Adult lost more than pairs won.
_SURE = 3.0


@dataclass(frozen=True)
class Change:
    """What becomes of the bin of a child that a mixture has drawn.

    It stays with the probability by which it is not drawn too often; else a bin is
    drawn that is drawn too seldom. Rows are the bins, or the cells, of the parent.
    """

    stays: Floats  # (n, n_bins)
    instead: Floats  # (n, n_bins), weights

    @classmethod
    def to(cls, wanted: Floats, given: Floats) -> Change:
        """Bring what is given, distributions over bins, to what is wanted."""
        wanted = wanted / np.maximum(wanted.sum(axis=1, keepdims=True), _TINY)
        stays = np.minimum(wanted / np.maximum(given, _TINY), 1.0)
        instead = np.maximum(wanted - given, 0.0)
        some = instead.any(axis=1, keepdims=True)
        return cls(stays, np.where(some, instead, wanted))

    def __call__(self, parent: Ints, child: Ints, rng: np.random.Generator) -> None:
        """Change the bins of a child in place."""
        wrong = np.flatnonzero(rng.random(len(child)) >= self.stays[parent, child])
        child[wrong] = _drawn(self.instead, parent[wrong], rng)


@dataclass(frozen=True)
class Step:
    """One relation in the course of a draw."""

    parent: int
    child: int
    change: Change  # by the bin of the parent
    # Only where finer cells were measured: shares of cells of the parent and bins of
    # the child; by the cell of the parent, and the bin of a second column if there is
    # one, the same change, and weights of the cells of the child.
    halves: Floats | None = None
    by_cell: Change | None = None
    cells: Floats | None = None
    second: int | None = None
    n_seconds: int = 1


class Followers:
    """How rows of mixtures are changed so that columns follow each other.

    Along the relations, each after that of its parent: the bin of the child stays, or
    another one is drawn (`Change`); then the cells inside both bins. Where a relation
    is not strong, only pairs of bins change that are impossible, or drawn surely too
    often or too seldom.

    Parameters
    ----------
    relations : list of Relation
        What was measured.
    std : float
        Noise of a share of a pair of bins.
    within : list of n_columns ndarray
        The bin of each finer cell of a column, in order.
    ranks : list of n_classes ndarray of shape (2, n_cells of all columns)
        Where each cell begins and ends among the ranks of its column in a class.
    """

    def __init__(
        self,
        relations: Sequence[Relation],
        std: float,
        within: Sequence[Ints],
        ranks: Sequence[Floats],
    ) -> None:
        self.relations, self.std = list(relations), std
        self.within, self.ranks = list(within), list(ranks)
        sizes = [len(own) for own in self.within]
        self._first = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        # Where the cells of each bin begin, and the last ones end.
        self._ends = [
            np.searchsorted(own, np.arange(own.max(initial=-1) + 2))
            for own in self.within
        ]
        self._steps: list[Step] = []

    @property
    def children(self) -> set[int]:
        """Columns that may be changed."""
        return {own.child for own in self.relations}

    @property
    def with_cells(self) -> set[int]:
        """Columns whose values are drawn from finer cells."""
        measured = [own for own in self.relations if own.cells is not None]
        return {j for own in measured for j in (own.parent, own.child)}

    def compare(self, mixtures: Sequence[Mixture], prior: Floats, starts: Ints) -> None:
        """Compute what is to be changed of the pairs of bins that mixtures draw.

        Of all classes together, whose shares are `prior`; `starts` is where the bins of
        each column begin.
        """
        self._steps = []
        for own in self.relations:
            a, b = (slice(*starts[j : j + 2]) for j in (own.parent, own.child))
            drawn = np.zeros(own.shares.shape)
            for share, one in zip(prior / prior.sum(), mixtures, strict=True):
                of_parent = one.weights[:, None] * one.probabilities[:, a]
                drawn += share * of_parent.T @ one.probabilities[:, b]
            wanted = own.shares
            if not own.strong:
                off = _SURE * self.std
                close = np.clip(drawn, np.maximum(wanted - off, 0.0), wanted + off)
                wanted = np.where(wanted > 0, close, 0.0)
            # Every row must have a bin to go to.
            wanted = np.maximum(wanted, _TINY * own.shares)
            wanted = raked(wanted, drawn.sum(axis=1), drawn.sum(axis=0))
            given = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), _TINY)
            step = Step(own.parent, own.child, Change.to(wanted, given))
            if own.cells is not None:
                step = self._with_cells(own, step, drawn, given)
            self._steps.append(step)

    def _with_cells(
        self, own: Relation, step: Step, drawn: Floats, given: Floats
    ) -> Step:
        """Add to a step what the finer cells say; see `compare` of the others."""
        assert own.cells is not None
        cuts, of_bin = self._ends[own.child][:-1], self.within[own.parent]
        halves = np.add.reduceat(own.cells, cuts, axis=1)
        whole = np.maximum(own.shares.sum(axis=1), _TINY)
        rows = halves.sum(axis=1) * (drawn.sum(axis=1) / whole)[of_bin]
        raked_halves = raked(halves, rows, drawn.sum(axis=0))
        cells, wanted, n_seconds = own.cells, raked_halves, 1
        if own.lift is not None:
            n_seconds = own.lift.shape[1]
            lifted = cells[:, None] * own.lift.T[:, own.groups].transpose(1, 0, 2)
            cells = lifted.reshape(-1, cells.shape[1])
            changed = np.repeat(raked_halves / np.maximum(halves, _TINY), n_seconds, 0)
            wanted = np.add.reduceat(cells, cuts, axis=1) * changed
        return replace(
            step,
            halves=raked_halves,
            by_cell=Change.to(wanted, np.repeat(given[of_bin], n_seconds, axis=0)),
            cells=cells,
            second=own.second,
            n_seconds=n_seconds,
        )

    def __call__(
        self, position: int, bins: Ints, rng: np.random.Generator
    ) -> dict[int, Floats]:
        """Change the bins (n_columns, n_rows) of a class in place.

        The ranks of the columns with finer cells are given, by column.
        """
        cells: dict[int, Ints] = {}
        for step in self._steps:
            parent, child = bins[step.parent], bins[step.child]
            if step.cells is None or step.halves is None or step.by_cell is None:
                step.change(parent, child, rng)
                continue
            between = self._between(step.parent, parent)
            if step.parent not in cells and step.second is None:
                step.change(parent, child, rng)
                cells[step.parent] = _drawn(step.halves.T, child, rng, between)
                row = cells[step.parent]
            else:
                if step.parent not in cells:
                    shares, first = step.halves.sum(axis=1)[None], np.zeros_like(parent)
                    cells[step.parent] = _drawn(shares, first, rng, between)
                row = cells[step.parent]
                if step.second is not None:
                    row = row * step.n_seconds + bins[step.second]
                step.by_cell(row, child, rng)
            between = self._between(step.child, child)
            cells[step.child] = _drawn(step.cells, row, rng, between)
        found = {}
        for j, own in cells.items():
            low, high = self.ranks[position][:, self._first[j] + own]
            found[j] = low + rng.random(len(own)) * (high - low)
        return found

    def _between(self, column: int, bins: Ints) -> tuple[Ints, Ints]:
        """Give the first cell of the bins of a column, and the end of the cells."""
        return self._ends[column][bins], self._ends[column][bins + 1]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into a JSON-safe document and arrays, for saving."""
        arrays: dict[str, NDArray[Any]] = {}
        for k, own in enumerate(self.relations):
            arrays[f"relations.{k}.shares"] = own.shares
            if own.cells is not None:
                arrays[f"relations.{k}.cells"] = own.cells
            if own.lift is not None:
                arrays[f"relations.{k}.lift"] = own.lift
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
        cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Followers:
        """Rebuild what `to_state` split."""
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
        within = [arrays[f"relations.within.{j}"] for j in range(document["n_finer"])]
        ranks = [arrays[f"relations.ranks.{c}"] for c in range(document["n_classes"])]
        return cls(relations, document["std"], within, ranks)


def _drawn(
    weights: Floats,
    rows: Ints,
    rng: np.random.Generator,
    between: tuple[Ints, Ints] | None = None,
) -> Ints:
    """Draw a place in each of some rows of weights, from a first one to before an end.

    Evenly where all weights between are 0.
    """
    n_places = weights.shape[1]
    ends = np.cumsum(np.maximum(weights, _TINY), axis=1)
    ends /= ends[:, -1:]
    low, high = np.zeros(len(rows)), np.ones(len(rows))
    if between is not None:
        below = np.pad(ends, ((0, 0), (1, 0)))
        low, high = (below[rows, end] for end in between)
    table = (ends + np.arange(len(ends))[:, None]).ravel()
    places = rows + low + rng.random(len(rows)) * (high - low)
    found = np.searchsorted(table, places, "right") - rows * n_places
    first, end = (0, n_places) if between is None else between
    return np.clip(found, first, np.subtract(end, 1))
