"""The factors of one class, while they are trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from skdpsynth.generators import BOUNDS
from skdpsynth.models._generator import Products, Trainer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from skdpsynth.models._generator import Features, Parameters, Pull, Score

    Floats = NDArray[np.float64]


class Draws(NamedTuple):
    """Standard normal draws for some rows: one per score, and the shared factors."""

    noise: Tensor
    factors: Tensor


class FactorTrainer(Trainer):
    """The factors of one class, while the parameters named by `trained` are.

    The first `n_known` were measured; the others are weak and random.
    """

    def __init__(
        self,
        parameters: dict[str, Floats],
        trained: tuple[str, ...],
        n_known: int = 0,
        **training: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**training)
        self.parameters = {
            name: torch.from_numpy(value).float().to(self._device, self._dtype)
            for name, value in parameters.items()
        }
        self.trained, self._n_known = trained, n_known
        self.only_pairs = "location" not in trained
        self.n_columns, self._n_factors = parameters["loadings"].shape
        n_pairs = self.n_columns * self._n_factors
        self.n_features = n_pairs + (0 if self.only_pairs else 2 * self.n_columns)

    @property
    def location(self) -> Tensor:  # type: ignore[override]
        """Present mean of each column."""
        return self.parameters["location"]

    @property
    def scales(self) -> Tensor:  # type: ignore[override]
        """Present scale of each column."""
        return torch.exp(self.parameters["log_scale"])

    @property
    def directions(self) -> Tensor:  # type: ignore[override]
        """Factors as directions in the scores."""
        loadings = self.parameters["loadings"]
        return loadings / loadings.norm(dim=0).clamp_min(1e-6)

    @property
    def units(self) -> Tensor:
        """Unit of each trained parameter: a location moves in scales of its column."""
        units = {name: torch.ones_like(own) for name, own in self.parameters.items()}
        return self._of_trained(units | {"location": self.scales})

    def draw(self, n_rows: int) -> Draws:
        """Draw what `n_rows` generated rows are made of."""
        both = self.latent(n_rows, self.n_columns + self._n_factors)
        return Draws(*both.split([self.n_columns, self._n_factors], dim=1))

    def rows(self, draws: Draws, parameters: Parameters | None = None) -> Tensor:
        """Generate rows as `FactorGenerator` does, maybe with other `parameters`."""
        own = self.parameters | (parameters or {})
        norm = torch.sqrt(1.0 + (own["loadings"] ** 2).sum(dim=1))
        shared = (draws.noise + draws.factors @ own["loadings"].T) / norm
        return own["location"] + torch.exp(own["log_scale"]) * shared

    def features(self) -> Products:
        """Return the features of a row: each score times the factors of the others.

        Where real and generated rows differ in the mean of a product, that says how to
        turn the loadings.
        """
        if self.only_pairs:
            return Products(self.directions)
        return Products(self.directions, self.location, self.scales)

    def moments(self) -> Tensor:
        """Return the exact mean of ``r r^T`` over rows r = (1, scores)."""
        return self._moments(self.parameters["loadings"])

    def known_moments(self) -> Tensor:
        """Return the moments of the factors that were measured, at the first step."""
        loadings = self.parameters["loadings"].clone()
        loadings[:, self._n_known :] = 0.0
        return self._moments(loadings)

    def _moments(self, loadings: Tensor) -> Tensor:
        location = self.location
        norm = torch.sqrt(1.0 + (loadings**2).sum(dim=1))
        shared = loadings * (self.scales / norm).unsqueeze(1)
        covariance = shared @ shared.T
        covariance.diagonal().copy_(self.scales**2)
        augmented = torch.cat([torch.ones_like(location[:1]), location])
        moments = torch.outer(augmented, augmented)
        moments[1:, 1:] += covariance
        return moments

    def gradient(self, draws: Draws, score: Score) -> Tensor:
        """Differentiate the mean score of generated rows by the trained parameters."""

        def mean(moving: Parameters) -> Tensor:
            return score(self.rows(draws, moving)).mean()

        return self.units * self._of_trained(torch.func.grad(mean)(self._moving()))

    def pull(self, draws: Draws, features: Features) -> Pull:
        """Return the map from wanted changes of features to changes of parameters."""

        def of_rows(moving: Parameters) -> Tensor:
            return features(self.rows(draws, moving))

        back = torch.func.vjp(of_rows, self._moving())[1]

        def pull(wanted: Tensor) -> Tensor:
            pulled = torch.func.vmap(back)(wanted / wanted.shape[1])[0]
            flat = [pulled[name].flatten(1) for name in self.trained]
            return self.units * torch.cat(flat, dim=1)

        return pull

    def push(self, draws: Draws, features: Features, pulled: Tensor) -> Tensor:
        """Return what teachers send: it is an update."""
        del draws, features
        return pulled

    def pull_back(self, draws: Draws, directions: Tensor) -> Tensor:
        """Turn a wanted change of every generated row into one of the parameters.

        The negative gradient of half the mean squared distance (G-PATE, Equation 2).
        """
        pull = torch.func.vjp(lambda own: self.rows(draws, own), self.parameters)[1]
        return self.units * self._of_trained(pull(directions / len(directions))[0])

    def _move(self, update: Tensor, rate: float) -> None:
        sizes = [self.parameters[name].numel() for name in self.trained]
        changes = (rate * self.units * update.to(self.units)).split(sizes)
        for name, change in zip(self.trained, changes, strict=True):
            value, bound = self.parameters[name], BOUNDS[name]
            moved = value + change.reshape(value.shape)
            self.parameters[name] = moved.clamp(-bound, bound)

    def present(self) -> dict[str, Floats]:
        """Return the parameters as they are."""
        return {
            name: value.cpu().double().numpy()
            for name, value in self.parameters.items()
        }

    def _moving(self) -> Parameters:
        return {name: self.parameters[name] for name in self.trained}

    def _of_trained(self, by_name: Parameters) -> Tensor:
        return torch.cat([by_name[name].flatten() for name in self.trained])
