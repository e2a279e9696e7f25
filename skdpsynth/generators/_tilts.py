"""Rows of a mixture are chosen until their parities are those that were measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from skdpsynth.measure import Parities

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Sets = NDArray[np.bool_]

# Noise deviations by which a parity differs from that of the mixture, at least: of the
# 848 sets of four to ten among ten columns, one does by chance in 2,000 classes.
_OFF_BY = 5.0
_MOST_TILTS = 4  # so that one of 16 rows is taken, or more


@dataclass(frozen=True)
class Tilts:
    """What makes some parities of one class those that were measured.

    A row is drawn in proportion to the product of ``1 + strength * parity`` over some
    sets of columns (exponential tilting): what a mixture says of other sets stays as
    it is where columns are independent.
    """

    halves: Ints  # (D,), of each bin: 1 in the upper half of its column, else 0
    sets: Sets  # (n_tilts, n_columns)
    strengths: Floats  # (n_tilts,), in [-1, 1]

    @classmethod
    def of(
        cls,
        parities: Parities,
        n_rows: float,
        weights: Floats,
        probabilities: NDArray[np.floating],
        starts: Ints,
    ) -> Self | None:
        """Choose the sets whose parities differ most, one after the other.

        None if none differs by more than noise. `n_rows` is the number of rows of the
        class; weights and probabilities are those of its mixture.
        """
        measured = np.clip(parities.sums / n_rows, -1.0, 1.0)
        # Of the noise, and of as many rows.
        std = np.hypot(parities.noise_std / n_rows, 1.0 / np.sqrt(n_rows))
        found = cls(parities.halves, parities.sets[:0], np.empty(0))
        for _ in range(_MOST_TILTS):
            means = found.parities(parities.sets, weights, probabilities, starts)
            off = np.abs(measured - means) / std
            worst = int(off.argmax())
            if off[worst] <= _OFF_BY:
                break
            # What turns a mean m of the parity into t: (t - m) / (1 - t m).
            mean, wanted = means[worst], measured[worst]
            strength = np.clip((wanted - mean) / (1.0 - wanted * mean), -1.0, 1.0)
            found = cls(
                parities.halves,
                np.concatenate([found.sets, parities.sets[worst, None]]),
                np.append(found.strengths, strength),
            )
        return found if len(found.strengths) else None

    def parities(
        self,
        sets: Sets,
        weights: Floats,
        probabilities: NDArray[np.floating],
        starts: Ints,
    ) -> Floats:
        """Give the mean parities of sets of columns, (n_sets,), in closed form."""
        total, *means = self._moments(
            np.concatenate([np.zeros_like(sets[:1]), sets]),
            weights,
            probabilities,
            starts,
        )
        return np.array(means) / max(total, 1e-12)

    def total(
        self, weights: Floats, probabilities: NDArray[np.floating], starts: Ints
    ) -> float:
        """Give the mean of what rows of a mixture are drawn in proportion to."""
        none = np.zeros((1, len(starts) - 1), dtype=bool)
        return float(self._moments(none, weights, probabilities, starts)[0])

    def _moments(
        self,
        sets: Sets,
        weights: Floats,
        probabilities: NDArray[np.floating],
        starts: Ints,
    ) -> Floats:
        """Give the mean products of parities and proportions, (n_sets,).

        A product of parities of two sets is that of the columns in one of them alone.
        """
        signs = 1.0 - 2.0 * self.halves
        # Of the columns of every component, first by column.
        means = np.add.reduceat(probabilities * signs, starts[:-1], axis=1).T
        found = np.zeros(len(sets))
        factors = [(np.zeros(sets.shape[1], dtype=bool), 1.0)]
        for own, strength in zip(self.sets, self.strengths.tolist(), strict=True):
            factors += [(other ^ own, strength * by) for other, by in factors]
        for columns, by in factors:
            product = np.ones((len(sets), len(weights)))
            for among, mean in zip((sets ^ columns).T, means, strict=True):
                product[among] *= mean
            found += by * (product @ weights)
        return found

    def kept(self, bins: Ints, starts: Ints, rng: np.random.Generator) -> Sets:
        """Draw which rows stay, of bins (n_columns, n_rows); others are drawn again."""
        of_columns = (1.0 - 2.0 * self.halves).take(bins + starts[:-1, None])
        chance = np.ones(bins.shape[1])
        for own, strength in zip(self.sets, self.strengths.tolist(), strict=True):
            parity = of_columns[own].prod(axis=0)
            chance *= (1.0 + strength * parity) / (1.0 + abs(strength))
        return rng.random(len(chance)) < chance

    def to_state(self, c: int) -> dict[str, NDArray[Any]]:
        """Give arrays, for saving, of the class at a position."""
        return {f"tilts.{c}.{name}": own for name, own in vars(self).items()}

    @classmethod
    def from_state(
        cls, c: int, arrays: Mapping[str, NDArray[Any]], starts: Ints
    ) -> Self:
        """Rebuild what `to_state` gave."""
        names = "halves", "sets", "strengths"
        halves, sets, strengths = (arrays[f"tilts.{c}.{name}"] for name in names)
        shapes = (starts[-1],), (len(strengths), len(starts) - 1)
        if (halves.shape, sets.shape) != shapes or np.abs(strengths).max() > 1:
            raise ValueError("tilts of another table")
        return cls(halves, sets.astype(bool), strengths)
