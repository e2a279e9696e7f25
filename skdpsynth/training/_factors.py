"""The factors of one class, while they are trained."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from skdpsynth.measure import TINY
from skdpsynth.model import MOST_LOADING
from skdpsynth.training._generator import MOST_PRODUCTS, Draws, Score, Trainer
from skdpsynth.utils.arrays import Floats


class FactorTrainer(Trainer):
    """The factors of one class while their loadings (n_columns, n_factors) are trained.

    Features are products of the scores of a row along the axes of these factors, and
    what is trained is how the factors mix: of Epileptic seizure (178 columns) the
    strongest 500 of 15,753 pairs of columns took all others with them, and even exact
    means made the 2-way distance .1585, not .1564 (at first .1582). Where there are
    fewer pairs of columns, features are their products, and all loadings are trained.

    `moments` (3, n_columns) are means, deviations and slopes of the scores of real rows
    (`TableModel.score_moments`), which generated rows have too: where many values are
    equal, scores vary by less than normal numbers. As if they did not, correlations of
    Fashion-MNIST (three labels, epsilon 10) were .092 off, not .049; without steps
    .052.
    """

    def __init__(
        self,
        loadings: Floats,
        moments: Floats,
        **training: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**training)
        first = torch.from_numpy(loadings).float().to(self._device)
        self.n_columns, self._n_factors = first.shape
        self._moments = torch.from_numpy(moments).to(first)
        # Loadings are this matrix times what is trained.
        self._fixed = axes = torch.eye(self.n_columns, device=self._device)
        self.parameters, diagonal = {"loadings": first}, 1
        # By 31 axes a fit of PATE-TripleGAN took 17 s, not 14, and was not better.
        n_axes = min(self._n_factors, self.n_columns, math.isqrt(MOST_PRODUCTS))
        if n_axes * (n_axes + 1) < self.n_columns * (self.n_columns - 1):
            axes, diagonal = _axes(first, self._moments)[:, :n_axes], 0
            self._fixed = first
            mixing = torch.eye(self._n_factors, device=self._device)
            self.parameters = {"loadings": mixing}
        n_axes = axes.shape[1]
        pairs = torch.triu_indices(n_axes, n_axes, diagonal, device=self._device)
        self._axes, self.n_features = axes, pairs.shape[1]
        # Products with these take the columns of each pair, in less time than by index.
        self._first, self._second = one_hot(pairs, n_axes).mT.to(axes)

    def draw(self, n_rows: int) -> Draws:
        """Draw what `n_rows` generated rows are made of."""
        both = self.latent(n_rows, self.n_columns + self._n_factors)
        noise, factors = both.split([self.n_columns, self._n_factors], dim=1)
        return Draws(factors, noise)

    def rows(self, draws: Draws) -> Tensor:
        """Generate scores of rows that depend as those of `FactorGenerator`."""
        return self._rows(draws, self._loadings(self.parameters["loadings"]))

    def features(self, rows: Tensor) -> Tensor:
        """Return products along the axes; squares less 1, or all votes are "no"."""
        first, second = self._first.to(rows), self._second.to(rows)
        along = rows @ self._axes.to(rows)
        return (along @ first * (along @ second)).sub_((first * second).sum(dim=0))

    def gradient(self, draws: Draws, score: Score) -> Tensor:
        """Differentiate the mean score of generated rows by what is trained."""
        trained = self.parameters["loadings"].detach().requires_grad_()
        with torch.enable_grad():
            mean = score(self._rows(draws, self._loadings(trained))).mean()
        return torch.autograd.grad(mean, trained)[0].flatten()

    def present(self) -> Floats:
        """Return the loadings as they are."""
        return self._loadings(self.parameters["loadings"]).cpu().double().numpy()

    def _rows(self, draws: Draws, loadings: Tensor) -> Tensor:
        shared, alone = _parts(loadings, self._moments)
        return self._moments[0] + draws.noise * alone.sqrt() + draws.codes @ shared.T

    def _loadings(self, trained: Tensor) -> Tensor:
        return (self._fixed @ trained).clamp(-MOST_LOADING, MOST_LOADING)


def _axes(loadings: Tensor, moments: Tensor) -> Tensor:
    """Return the axes of factors, largest first; scores along them have variance 1."""
    shared, alone = _parts(loadings, moments)
    axes, sizes, _ = torch.linalg.svd(shared, full_matrices=False)
    variances = sizes**2 + (alone[:, None] * axes**2).sum(dim=0)
    return axes / variances.clamp(min=TINY).sqrt()


def _parts(loadings: Tensor, moments: Tensor) -> tuple[Tensor, Tensor]:
    """Return what factors add to scores, and the variance that each has alone."""
    _, deviations, slopes = moments
    norm = torch.sqrt(1.0 + (loadings**2).sum(dim=1))
    shared = loadings * (slopes / norm)[:, None]
    return shared, (deviations**2 - (shared**2).sum(dim=1)).clamp(min=TINY)
