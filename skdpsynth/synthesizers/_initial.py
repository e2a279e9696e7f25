"""Initial models: what a fit makes of its measurements before anything is trained.

A mixture fitted to tables, factors of second moments, or a network of the papers that
nobody has trained. Torch is imported only where they are trained; most fits train
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.measure import TableModel, choose_bins, flat_marginals
from skdpsynth.model import (
    NUMPY,
    FactorGenerator,
    Heads,
    Mixture,
    MixtureGenerator,
    ReleasedClass,
    fit_factors,
    fit_mixture,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from numpy.typing import NDArray

    from skdpsynth.measure import Measurements
    from skdpsynth.model import MixtureFit
    from skdpsynth.table import Metadata, PrivateRows
    from skdpsynth.training import (
        BinScores,
        FactorTrainer,
        MixtureTrainer,
        NetworkTrainer,
    )

    Floats = NDArray[np.float64]

# Cells of a number that are as wide, and bins of all columns together: what a network
# of the papers can still learn.
CELLS, _MOST_BINS = 64, 4096
_N_LOADINGS = 4  # at least, of a generator of factors


def fitted(
    measured: Measurements,
    *,
    seed: int,
    device: torch.device | None,
    trained: Mapping[int, float] = MappingProxyType({}),
) -> InitialMixture | InitialFactors:
    """Fit a model to measurements: a mixture to tables, factors to moments.

    The classes `trained` will learn more, each by as many features as its steps can
    show. By NumPy where `device` is None or the CPU, which is as fast there as torch.
    """
    if not measured.pairs:
        # Where training starts if nothing is known: gradients depend on each factor.
        shape = len(measured.model.metadata.columns), _N_LOADINGS
        weak = 0.1 * np.random.default_rng([seed, 2]).standard_normal(shape)
        return InitialFactors(measured.model, fit_factors(measured, _N_LOADINGS), weak)
    arrays = NUMPY
    if device is not None and device.type != "cpu":
        from skdpsynth.training import on_device

        arrays = on_device(device)
    fit = fit_mixture(measured, seed=seed, arrays=arrays)
    initial = InitialMixture(measured.model.labelled, measured, fit)
    if trained:
        from skdpsynth.training import BinScores, on_device

        assert device is not None  # synthesizers that train have one
        initial.heads = Heads(fit.heads.starts, fit.heads.scores, on_device(device))
        for c, most in trained.items():
            seen = measured.bins.starts, measured.pairs[c].pairs, most
            initial.scores[c] = BinScores(fit.mixtures[c], *seen)
        if measured.together is not None:  # which a class alone is not fitted to
            initial.measured = measured.corrected
    return initial


@dataclass
class InitialFactors:
    """Measured marginals, and the factors of second moments above their noise."""

    model: TableModel
    loadings: Floats  # (n_classes, n_columns, n_factors)
    weak: Floats  # (n_columns, n_factors)

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Return the normal scores of the rows of a class."""
        return self.model.score_rows(rows.uniforms, rows.category_codes, position)

    def trainer(self, position: int, **training: Any) -> FactorTrainer:  # noqa: ANN401
        """Hand out the loadings of a class."""
        from skdpsynth.training import FactorTrainer

        own = self.loadings[position]
        known = own[:, own.any(axis=0)]
        return FactorTrainer(known if known.size else self.weak, **training)

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
    fit: MixtureFit
    # Of classes that train: bins as scores, and the form of components on the device.
    scores: dict[int, BinScores] = field(default_factory=dict)
    heads: Heads | None = None

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Return the scores of the bins of the rows of a class."""
        return self.scores[position].encode(self.measured.bins.encode(rows))

    def trainer(self, position: int, **training: Any) -> MixtureTrainer:  # noqa: ANN401
        """Hand out the mixture of a class, held by what was measured of it."""
        from skdpsynth.training import MixtureTrainer

        assert self.heads is not None
        measured = self.measured
        released = ReleasedClass(
            measured.bins.starts,
            measured.shares[position],
            measured.planned_stds[position],
            measured.pairs[position],
            measured.triples.get(position),
            arrays=self.heads.arrays,
        )
        return MixtureTrainer(
            self.fit.components[position],
            self.heads,
            measured.ranks[position],
            self.scores[position],
            released,
            **training,
        )

    def keep(self, position: int, result: Mixture) -> None:
        """Take back the mixture of a class."""
        self.fit.mixtures[position] = result

    def generator(self) -> MixtureGenerator:
        """Return the generator of all classes."""
        return self.fit.generator(self.measured)


class InitialNetwork:
    """Bins of every column, about as wide, and networks that nobody has trained."""

    def __init__(
        self,
        metadata: Metadata,
        hidden_dims: Sequence[int],
    ) -> None:
        n_classes = len(metadata.classes)
        n_cells = max(min(CELLS, _MOST_BINS // max(len(metadata.domains), 1)), 2)
        flat = flat_marginals(metadata.domains, n_classes, n_cells)
        prior = metadata.classes.prior
        self._bins, flat = choose_bins(metadata.domains, flat, prior, n_cells)
        self._groups = self._bins.coarser()
        self.model = TableModel(metadata, flat)
        self._ranks = self._bins.ranks(flat[0])
        self._hidden_dims = hidden_dims
        even = Mixture.independent(self._bins.shares(self._ranks), self._ranks)
        self._mixtures = [even] * n_classes

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Return the bins of the rows, as many zeros and ones."""
        del position
        bins = self._bins.encode(rows) + self._bins.starts[:-1]
        encoded = np.zeros((len(bins), int(self._bins.starts[-1])), dtype=np.float32)
        np.put_along_axis(encoded, bins, 1.0, axis=1)
        return encoded

    def trainer(self, position: int, **training: Any) -> NetworkTrainer:  # noqa: ANN401
        """Hand out the network of a class."""
        from skdpsynth.training import NetworkTrainer

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
