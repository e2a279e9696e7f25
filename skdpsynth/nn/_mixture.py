"""The generator that holds dependence: a latent code, and one head per column.

The code says which of some components a row comes from. Given the code, every column
has a distribution over its bins: a softmax of logits, which is a network with a one-hot
code and no hidden layer. What columns have to do with each other is in the code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.utils import in_order_of_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_RAKINGS = 50  # rounds until the shares of lent levels are right
_TINY = 1e-12


@dataclass(frozen=True)
class Mixture:
    """The generator of one class.

    `weights` are the probabilities of the codes, with sum 1, `probabilities` the
    distributions over the bins of each column, given the code; the bins of all columns,
    D of them, stand one after the other. `ranks` say where each bin begins and ends
    among the ranks of its column, in [0, 1].
    """

    weights: NDArray[np.float64]  # (n_components,)
    probabilities: NDArray[np.float32]  # (n_components, D)
    ranks: NDArray[np.float64]  # (2, D)

    @classmethod
    def independent(
        cls, shares: NDArray[np.float64], ranks: NDArray[np.float64]
    ) -> Mixture:
        """One component: the columns of a class have nothing to do with each other."""
        return cls(np.ones(1), shares[None].astype(np.float32), ranks)

    def lent(
        self, own: Mixture, starts: NDArray[np.int64], levels: Sequence[bool]
    ) -> Mixture:
        """Give the same dependence to a class with marginals of its own.

        Every column of the borrower has its own marginal, as `own` has it. `levels`
        says which columns have no order: there the odds of the bins are changed alike
        in all components until the shares are right. Of other columns bins become
        intervals of the ranks that this mixture itself draws.
        """
        probabilities, ranks = self.probabilities.copy(), own.ranks.copy()
        wanted = np.maximum(own.weights @ own.probabilities, _TINY)
        for j, (start, end) in enumerate(pairwise(starts.tolist())):
            given = np.maximum(self.probabilities[:, start:end].astype(float), _TINY)
            if levels[j]:
                odds = np.ones(end - start)
                for _ in range(_RAKINGS):
                    tilted = given * odds
                    tilted /= tilted.sum(axis=1, keepdims=True)
                    odds *= wanted[start:end] / (self.weights @ tilted)
                probabilities[:, start:end] = tilted
                continue
            order = start + np.lexsort(self.ranks[::-1, start:end])
            ends = np.cumsum((self.weights @ given)[order - start])
            ranks[1, order] = ends / ends[-1]
            ranks[0, order] = np.concatenate(([0.0], ends[:-1] / ends[-1]))
        return replace(self, probabilities=probabilities, ranks=ranks)

    def within(
        self, spans: Mapping[int, NDArray[np.float64]], starts: NDArray[np.int64]
    ) -> tuple[Mixture, float]:
        """Restrict the ranks of some columns; give the share of rows that are kept too.

        A bin keeps what is between its first and its last allowed rank, so where it has
        several spans some other rows are left.
        """
        weights, probabilities = self.weights.copy(), self.probabilities.astype(float)
        ranks = self.ranks.copy()
        for j, allowed in spans.items():
            bins = slice(starts[j], starts[j + 1])
            low, high = ranks[:, bins]
            begin = np.maximum(low, allowed[:, :1])
            end = np.minimum(high, allowed[:, 1:])
            first = np.where(end > begin, begin, np.inf).min(axis=0, initial=np.inf)
            last = np.where(end > begin, end, -np.inf).max(axis=0, initial=-np.inf)
            some = last > first
            kept = np.where(some, last - first, 0.0) / np.maximum(high - low, _TINY)
            ranks[:, bins] = np.where(some, (first, last), (low, high))
            given = probabilities[:, bins]
            left = given * kept
            share = left.sum(axis=1, keepdims=True)
            weights *= share[:, 0] / given.sum(axis=1)
            probabilities[:, bins] = np.where(
                share > 0, left / np.maximum(share, _TINY), 1.0
            )
        total = float(weights.sum())
        weights = weights / total if total > 0 else self.weights
        return Mixture(weights, probabilities.astype(np.float32), ranks), total


class MixtureGenerator:
    """The generators of all classes: public, initial values and what was released."""

    def __init__(self, mixtures: list[Mixture], starts: NDArray[np.int64]) -> None:
        self.mixtures = mixtures
        self.starts = starts

    def draw(
        self, members: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw the ranks of rows of given classes: in [0, 1), (n_rows, n_columns)."""
        ranks = np.empty((len(members), len(self.starts) - 1))
        order, places_of = in_order_of_class(members, len(self.mixtures))
        for mixture, own in zip(self.mixtures, places_of, strict=True):
            rows = order[own]
            # In the order of their codes: the tables below are then read in order.
            codes = np.repeat(
                np.arange(len(mixture.weights)),
                rng.multinomial(len(rows), mixture.weights),
            )
            rows = rng.permutation(rows)
            low, width = mixture.ranks[0], mixture.ranks[1] - mixture.ranks[0]
            found = np.empty((ranks.shape[1], len(rows)))
            for j, (start, end) in enumerate(pairwise(self.starts.tolist())):
                ends = mixture.probabilities[:, start:end].cumsum(1, dtype=np.float64)
                ends /= ends[:, -1:]
                table = (ends + np.arange(len(ends))[:, None]).ravel()
                places = np.searchsorted(table, codes + rng.random(len(rows)), "right")
                bins = np.minimum(places - codes * (end - start), end - start - 1)
                rng.random(out=found[j])
                found[j] *= width[start:end].take(bins)
                found[j] += low[start:end].take(bins)
            ranks[rows] = found.T
        return ranks

    def within(
        self, spans: Sequence[Mapping[int, NDArray[np.float64]]]
    ) -> tuple[MixtureGenerator, NDArray[np.float64]]:
        """Restrict the ranks of each class; see `Generator`."""
        own = zip(self.mixtures, spans, strict=True)
        found = [mixture.within(part, self.starts) for mixture, part in own]
        shares = np.array([share for _, share in found])
        return MixtureGenerator([mixture for mixture, _ in found], self.starts), shares

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into JSON-safe facts and arrays, for saving."""
        arrays: dict[str, NDArray[Any]] = {"generator.starts": self.starts}
        for c, mixture in enumerate(self.mixtures):
            arrays[f"generator.{c}.weights"] = mixture.weights
            arrays[f"generator.{c}.probabilities"] = mixture.probabilities
            arrays[f"generator.{c}.ranks"] = mixture.ranks
        return {"form": "mixture", "n_classes": len(self.mixtures)}, arrays

    @classmethod
    def from_state(
        cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> MixtureGenerator:
        """Rebuild what `to_state` split."""
        fields = ("weights", "probabilities", "ranks")
        mixtures = [
            Mixture(*(arrays[f"generator.{c}.{name}"] for name in fields))
            for c in range(document["n_classes"])
        ]
        return cls(mixtures, arrays["generator.starts"])
