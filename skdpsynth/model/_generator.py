"""What every generator can do, and the one that draws from mixtures."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from skdpsynth.measure import TINY
from skdpsynth.model._mixture import Mixture
from skdpsynth.model._relations import Followers
from skdpsynth.utils import ROUNDING, check_array, in_order_of_class, require

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Facts = Mapping[str, Any]
    Arrays = Mapping[str, NDArray[Any]]


class Generator(Protocol):
    """The generators of all classes: public, made of releases alone."""

    def draw(self, class_codes: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """Draw the ranks of rows of given classes, (n_rows, n_columns), in [0, 1]."""

    def within(self, spans: Sequence[Mapping[int, Floats]]) -> tuple[Generator, Floats]:
        """Restrict the ranks of some columns, class by class, to spans (n, 2).

        Of each class the share of rows that are left is given too. Rows outside may be
        left, and are then part of the share.
        """

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into a JSON-safe document and arrays, for saving."""


class MixtureGenerator:
    """The generators of all classes: public, initial values and what was released."""

    def __init__(
        self,
        mixtures: list[Mixture],
        starts: Ints,
        followers: Followers | None = None,
    ) -> None:
        self.mixtures = mixtures
        self.starts = starts
        self.followers = followers

    def draw(self, class_codes: Ints, rng: np.random.Generator) -> Floats:
        """Draw the ranks of rows of given classes: in [0, 1), (n_rows, n_columns)."""
        ranks = np.empty((len(class_codes), len(self.starts) - 1))
        order, places_of = in_order_of_class(class_codes, len(self.mixtures))
        for position, own in enumerate(places_of):
            mixture, rows = self.mixtures[position], order[own]
            bins = mixture.bins(len(rows), self.starts, rng)
            rows = rng.permutation(rows)
            low, width = mixture.ranks[0], mixture.ranks[1] - mixture.ranks[0]
            found = np.empty(bins.shape)
            finer = self.followers(position, bins, rng) if self.followers else {}
            for j, (start, end) in enumerate(pairwise(self.starts.tolist())):
                rng.random(out=found[j])
                found[j] *= width[start:end].take(bins[j])
                found[j] += low[start:end].take(bins[j])
            for j, of_column in finer.items():
                found[j] = of_column
            ranks[rows] = found.T
        return ranks

    def within(
        self, spans: Sequence[Mapping[int, Floats]]
    ) -> tuple[MixtureGenerator, Floats]:
        """Restrict the ranks of each class; see `Generator`.

        A column that follows another one is changed after the mixture has drawn it, so
        it is not restricted, unless hardly any row would be left: a thousandth. Rows
        with a rarer value of such a column are about those of its distribution.
        """
        found = [
            mixture.within(part, self.starts)
            for mixture, part in zip(self.mixtures, spans, strict=True)
        ]
        if self.followers is not None:
            children, whole = self.followers.children, self.followers.with_cells
            exact = [
                mixture.within(
                    {j: own for j, own in part.items() if j not in children},
                    self.starts,
                    whole,
                )
                for mixture, part in zip(self.mixtures, spans, strict=True)
            ]
            both = zip(found, exact, strict=True)
            if any(own >= ROUNDING * max(more, TINY) for (_, own), (_, more) in both):
                found = exact
        mixtures = [mixture for mixture, _ in found]
        shares = np.array([share for _, share in found])
        return MixtureGenerator(mixtures, self.starts, self.followers), shares

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into a JSON-safe document and arrays, for saving."""
        arrays: dict[str, NDArray[Any]] = {"generator.starts": self.starts}
        for c, mixture in enumerate(self.mixtures):
            arrays |= {f"generator.{c}.{k}": own for k, own in vars(mixture).items()}
        document: dict[str, Any] = {"form": "mixture", "n_classes": len(self.mixtures)}
        if self.followers is not None:
            document["relations"], more = self.followers.to_state()
            arrays |= more
        return document, arrays

    @classmethod
    def from_state(
        cls, document: Facts, arrays: Arrays, n_classes: int, n_columns: int
    ) -> MixtureGenerator:
        """Rebuild what `to_state` split, and check it."""
        require(document["n_classes"] == n_classes, "another number of classes")
        starts, followers = arrays["generator.starts"], None
        check_array(starts, "int64", (n_columns + 1,))
        require(starts[0] == 0 and (np.diff(starts) > 0).all(), "bins")
        names = [field.name for field in fields(Mixture)]
        mixtures = [
            Mixture(*(arrays[f"generator.{c}.{name}"] for name in names))
            for c in range(n_classes)
        ]
        for mixture in mixtures:
            mixture.check(starts)
        if "relations" in document:
            own = document["relations"]
            followers = Followers.from_state(own, arrays, n_classes, np.diff(starts))
            followers.compare(mixtures, arrays["class_counts"], starts)
        return cls(mixtures, starts, followers)
