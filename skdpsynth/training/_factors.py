"""The factors of one class, while they are trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from skdpsynth.model import MOST_LOADING
from skdpsynth.training._generator import Trainer, n_products, products, strongest_pairs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from skdpsynth.training._generator import Score


class Draws(NamedTuple):
    """Standard normal draws for some rows: one per score, and the shared factors."""

    noise: Tensor
    factors: Tensor


class FactorTrainer(Trainer):
    """The factors of one class while their loadings (n_columns, n_factors) are trained.

    Features are products of pairs of columns.
    """

    def __init__(self, loadings: NDArray[np.float64], **training: Any) -> None:  # noqa: ANN401
        super().__init__(**training)
        first = torch.from_numpy(loadings).float().to(self._device)
        self.parameters = {"loadings": first}
        self.n_columns, self._n_factors = first.shape
        self.n_features = n_products(self.n_columns)
        norm = torch.sqrt(1.0 + (first**2).sum(dim=1))
        self._pairs = strongest_pairs((first @ first.T) / torch.outer(norm, norm))

    def draw(self, n_rows: int) -> Draws:
        """Draw what `n_rows` generated rows are made of."""
        both = self.latent(n_rows, self.n_columns + self._n_factors)
        return Draws(*both.split([self.n_columns, self._n_factors], dim=1))

    def rows(self, draws: Draws) -> Tensor:
        """Generate rows as `FactorGenerator` does."""
        return _rows(draws, self.parameters["loadings"])

    def features(self, rows: Tensor) -> Tensor:
        """Return the products of the chosen pairs of columns."""
        return products(rows, self._pairs)

    def gradient(self, draws: Draws, score: Score) -> Tensor:
        """Differentiate the mean score of generated rows by the loadings."""
        loadings = self.parameters["loadings"].detach().requires_grad_()
        with torch.enable_grad():
            mean = score(_rows(draws, loadings)).mean()
        return torch.autograd.grad(mean, loadings)[0].flatten()

    def present(self) -> NDArray[np.float64]:
        """Return the loadings as they are."""
        return self.parameters["loadings"].cpu().double().numpy()

    def _set(self, flat: Tensor) -> None:
        super()._set(flat.clamp(-MOST_LOADING, MOST_LOADING))


def _rows(draws: Draws, loadings: Tensor) -> Tensor:
    norm = torch.sqrt(1.0 + (loadings**2).sum(dim=1))
    return (draws.noise + draws.factors @ loadings.T) / norm
