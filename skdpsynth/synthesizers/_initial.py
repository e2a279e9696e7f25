"""Initial models of the loops: what a fit makes of its measurements before training.

A mixture fitted to tables, factors of second moments, or a network of the papers that
nobody has trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skdpsynth.measure import Measurements, TableModel, even_bins
from skdpsynth.model import (
    LEAST_FACTORS,
    NUMPY,
    Components,
    FactorGenerator,
    Heads,
    Mixture,
    MixtureGenerator,
    ReleasedClass,
    fit_factors,
    fit_mixture,
    make_generator,
)
from skdpsynth.table import Metadata, PrivateRows
from skdpsynth.training import (
    BinScores,
    FactorTrainer,
    MixtureTrainer,
    NetworkTrainer,
    on_device,
)
from skdpsynth.utils.arrays import Floats

if TYPE_CHECKING:
    import torch


# Cells of a number that are as wide, of up to as many columns (of more they are fewer):
# what a network of the papers can still learn.
CELLS = 64


def fit_initial(
    measured: Measurements,
    *,
    seed: int,
    device: torch.device,
    trained: Mapping[int, float],
) -> InitialMixture | InitialFactors:
    """Fit a model to measurements: a mixture to tables, factors to moments.

    The classes `trained` will learn more, each by as many features as its steps can
    show.
    """
    if not measured.has_pairs.any():
        loadings = fit_factors(measured)
        # Where training starts if nothing is known: gradients depend on each factor.
        shape = loadings.shape[1], LEAST_FACTORS
        weak = 0.1 * np.random.default_rng([seed, 2]).standard_normal(shape)
        return InitialFactors(measured.model, loadings, weak)
    tensors, starts = on_device(device), measured.bins.starts
    arrays = NUMPY if device.type == "cpu" else tensors  # where it is as fast as torch
    fitted = fit_mixture(measured, seed=seed, arrays=arrays)
    mixtures: list[Any] = fitted.mixtures(measured.ranks)
    scores = {
        c: BinScores.fit(mixtures[c], starts, measured.pairs[c].asked, most)
        for c, most in trained.items()
    }
    fitted = fitted._replace(heads=Heads(starts, fitted.heads.scores, tensors))
    return InitialMixture(measured.model.labelled, measured, fitted, mixtures, scores)


@dataclass
class InitialFactors:
    """Measured marginals, and the factors of second moments above their noise."""

    model: TableModel
    loadings: Floats  # (n_classes, n_columns, n_factors)
    weak: Floats  # (n_columns, n_factors)

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Return the normal scores of the rows of a class."""
        return self.model.score_rows(rows, position)

    def trainer(self, position: int, **training: Any) -> FactorTrainer:  # noqa: ANN401
        """Hand out the loadings of a class."""
        of_class = self.loadings[position]
        learnt = of_class[:, of_class.any(axis=0)]
        moments = self.model.score_moments(position)
        return FactorTrainer(learnt if learnt.size else self.weak, moments, **training)

    def keep(self, position: int, result: Floats) -> None:
        """Take back the loadings of a class."""
        self.loadings[position, :, : result.shape[1]] = result

    def generator(self) -> FactorGenerator:
        """Return the generator of all classes."""
        return FactorGenerator.lent(self.loadings, self.model.metadata.classes.planned)


@dataclass
class InitialMixture:
    """Measured marginals, and mixtures that are fitted to tables of two and three."""

    model: TableModel
    measured: Measurements
    components: Components  # whose heads hold tensors of the device
    mixtures: list[Mixture | None]  # of the classes that have tables
    scores: dict[int, BinScores]  # of the classes that will be trained

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Return the scores of the bins of the rows of a class."""
        return self.scores[position].encode(self.measured.bins.encode(rows))

    def trainer(self, position: int, **training: Any) -> MixtureTrainer:  # noqa: ANN401
        """Hand out the mixture of a class, held by what was measured of it."""
        measured = self.measured
        released = ReleasedClass(
            measured.bins.starts,
            measured.bin_shares[position],
            measured.planned_stds[position],
            measured.corrected[position],
            measured.triples_by_class[position],
            arrays=self.components.heads.arrays,
        )
        return MixtureTrainer(
            self.components.of(position),
            measured.ranks[position],
            self.scores[position],
            released,
            **training,
        )

    def keep(self, position: int, result: Mixture) -> None:
        """Take back the mixture of a class."""
        self.mixtures[position] = result

    def generator(self) -> MixtureGenerator:
        """Return the generator of all classes."""
        return make_generator(self.mixtures, self.measured)


class InitialNetwork:
    """Bins of every column, about as wide, and networks that nobody has trained."""

    def __init__(self, metadata: Metadata, hidden_dims: Sequence[int]) -> None:
        n_cells = max(min(CELLS, CELLS**2 // max(len(metadata.domains), 1)), 2)
        self._bins, flat = even_bins(metadata, n_cells)
        self._groups = NetworkTrainer.groups_of(self._bins.columns)
        self.model = TableModel(metadata, flat)
        self._ranks = self._bins.ranks(flat[0])
        self._hidden_dims = hidden_dims
        even = Mixture.independent(self._bins.shares(self._ranks), self._ranks)
        self._mixtures = [even] * len(metadata.classes)

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Return the bins of the rows, as many zeros and ones."""
        del position
        bins = self._bins.encode(rows) + self._bins.starts[:-1]
        encoded = np.zeros((len(bins), int(self._bins.starts[-1])), dtype=np.float32)
        np.put_along_axis(encoded, bins, 1.0, axis=1)
        return encoded

    def trainer(self, position: int, **training: Any) -> NetworkTrainer:  # noqa: ANN401
        """Hand out the network of a class."""
        del position
        return NetworkTrainer(self._ranks, self._groups, self._hidden_dims, **training)

    def keep(self, position: int, result: Mixture) -> None:
        """Take back the generator of a class."""
        self._mixtures[position] = result

    def generator(self) -> MixtureGenerator:
        """Return the generator of all classes; untrained ones are uniform."""
        return MixtureGenerator(self._mixtures, self._bins.starts)


# The models of all classes, before and while they are trained: `encode` returns what
# discriminators see of private rows, `trainer` hands out the model of a class, `keep`
# takes it back, and `generator` lets classes that learnt nothing borrow.
InitialModel = InitialMixture | InitialFactors | InitialNetwork
