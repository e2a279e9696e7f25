"""A generator of normal scores that depend through a few factors per class."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import eigh
from scipy.special import ndtr
from torch import Tensor

from skdpsynth.models._generator import Products, Trainer
from skdpsynth.utils import in_chunks, in_order_of_class, n_threads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.models._generator import Features, Parameters, Pull, Score

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_MOST_FACTORS = 64  # bounds what a row of a wide table costs
_ROUNDS = 6  # of the search for what columns share, which is the diagonal
_LEAST_SLOPE = 0.15  # of a score; a column that is nearly constant says little
_MOST_SHARED = 0.97  # of the variance of a score, so that loadings stay finite


def factors_above_noise(
    covariances: Floats, noise_std: float, stds: Floats, slopes: Floats
) -> Floats:
    """Find the factors of measured covariances that are above the noise.

    `covariances` are those of pairs of columns in the order of ``triu_indices(n, 1)``,
    each with noise `noise_std`. `stds` and `slopes` (n_columns,) are the deviations of
    the scores by the released marginals, and their covariances with the normal numbers
    that they stand for: scores of values that fill intervals vary by less. The result
    are loadings (n_columns, n_factors) as `FactorGenerator` takes them.

    Principal axes, with what columns share on the diagonal. A symmetric matrix of noise
    of size s has no eigenvalue beyond ``2 s sqrt(n)``; one of x is measured as
    ``y = x + s^2 n / x``, and its direction is right by a share that leaves
    ``sqrt(y^2 - 4 s^2 n)`` of it (Benaych-Georges, Nadakuditi 2011).
    """
    stds, slopes = (np.nan_to_num(x, posinf=0.0, neginf=0.0) for x in (stds, slopes))
    n = len(stds)
    covariance = np.zeros((n, n))
    covariance[np.triu_indices(n, 1)] = covariances
    covariance += covariance.T
    edge = 2.0 * noise_std * math.sqrt(n)
    most = min(n, _MOST_FACTORS)
    axes = np.zeros((n, 0))
    for _ in range(_ROUNDS):
        shared = np.minimum(np.square(axes).sum(axis=1), stds**2)
        np.fill_diagonal(covariance, shared)
        values, vectors = eigh(covariance, subset_by_index=(max(n - most, 0), n - 1))
        sizes = np.sqrt(np.maximum(values**2 - edge**2, 0.0)) * (values > edge)
        axes = vectors[:, sizes > 0] * np.sqrt(sizes[sizes > 0])
    found = axes / np.maximum(slopes, _LEAST_SLOPE)[:, None]
    shared = np.square(found).sum(axis=1, keepdims=True)
    found *= np.sqrt(_MOST_SHARED / np.maximum(shared, _MOST_SHARED))
    shared = np.minimum(shared, _MOST_SHARED)
    return np.asarray(found / np.sqrt(1.0 - shared))


# What noise can do at most: beyond, rows would overflow.
_BOUNDS = {"loadings": 100.0, "location": 3.0, "log_scale": 5.0}


class FactorGenerator:
    """A generator of normal scores whose columns depend through shared factors.

    In class c, column j of a row is ``location_j + scale_j * t_j`` with ``t_j = (e_j +
    sum_k B_jk f_k) / sqrt(1 + |B_j|^2)``: its own noise e_j and the factors f of the
    row, all standard normal. Whatever the loadings B, every t_j stays standard normal,
    so loadings bring dependence without touching the marginals.

    Each class has ``loadings`` (n_columns, n_factors), and ``location`` and
    ``log_scale`` (n_columns,). All is public: initial values, and what was released.
    """

    def __init__(self, parameters: list[dict[str, Floats]]) -> None:
        self.parameters = parameters

    @classmethod
    def initial(
        cls, n_classes: int, n_columns: int, n_factors: int, seed: int
    ) -> FactorGenerator:
        """Start with weak random loadings, so that gradients depend on each factor."""
        rng = np.random.default_rng([seed, 2])
        parameters = [
            {
                "loadings": 0.1 * rng.standard_normal((n_columns, n_factors)),
                "location": np.zeros(n_columns),
                "log_scale": np.zeros(n_columns),
            }
            for _ in range(n_classes)
        ]
        return cls(parameters)

    def lend(self, borrowers: dict[int, int]) -> None:
        """Give classes without a dependence of their own the loadings of another."""
        for c, source in borrowers.items():
            self.parameters[c]["loadings"] = self.parameters[source]["loadings"].copy()

    def draw(self, class_codes: Ints, rng: np.random.Generator) -> Floats:
        """Draw the ranks of rows of given classes; see `scores`."""
        scores = self.scores(class_codes, rng)
        blocks = np.array_split(scores, n_threads())  # views
        with ThreadPoolExecutor(len(blocks)) as pool:
            list(pool.map(ndtr, blocks, blocks))  # in place
        return scores

    def within(
        self, spans: Sequence[Mapping[int, Floats]]
    ) -> tuple[FactorGenerator, Floats]:
        """Restrict nothing: all rows are drawn, and those to be left out are."""
        return self, np.ones(len(spans))

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into a JSON-safe document and arrays, for saving."""
        arrays = {
            f"generator.{c}.{name}": value
            for c, own in enumerate(self.parameters)
            for name, value in own.items()
        }
        return {"form": "factors", "n_classes": len(self.parameters)}, arrays

    @classmethod
    def from_state(
        cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> FactorGenerator:
        """Rebuild what `to_state` split."""
        return cls(
            [
                {name: arrays[f"generator.{c}.{name}"] for name in _BOUNDS}
                for c in range(document["n_classes"])
            ]
        )

    def scores(self, class_codes: Ints, rng: np.random.Generator) -> Floats:
        """Draw scores (n_rows, n_columns) of given classes by a public stream."""
        n_columns, n_factors = self.parameters[0]["loadings"].shape
        scores = rng.standard_normal((len(class_codes), n_columns))
        factors = rng.standard_normal((len(class_codes), n_factors))
        order, places = in_order_of_class(class_codes, len(self.parameters))
        for own, place in zip(self.parameters, places, strict=True):
            if not any(value.any() for value in own.values()):
                continue  # a class without dependence
            rows = order[place]
            chunks = [rows[chunk] for chunk in in_chunks(len(rows))]
            with ThreadPoolExecutor(n_threads()) as pool:
                list(pool.map(partial(_shift, scores, factors, own), chunks))
        return scores


def _shift(
    scores: Floats, factors: Floats, own: Mapping[str, Floats], rows: NDArray[np.intp]
) -> None:
    """Turn the draws of some rows into scores of their class, in place."""
    shared = factors[rows] @ own["loadings"].T
    shared += scores[rows]
    shared /= np.sqrt(1.0 + (own["loadings"] ** 2).sum(axis=1))
    shared *= np.exp(own["log_scale"])
    shared += own["location"]
    scores[rows] = shared


class Draws(NamedTuple):
    """Standard normal draws for some rows: one per score, and the shared factors."""

    noise: Tensor
    factors: Tensor


class FactorTrainer(Trainer):
    """The factors of one class, while the parameters named by `trained` are."""

    def __init__(
        self,
        parameters: dict[str, Floats],
        trained: tuple[str, ...],
        **training: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**training)
        self.parameters = {
            name: torch.from_numpy(value).float().to(self._device, self._dtype)
            for name, value in parameters.items()
        }
        self.trained = trained
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
        """Unit in which each trained parameter moves, of shape (n_parameters,).

        A location moves in scales of its column, so that a narrow column is not
        thrown about by the steps that a wide one needs.
        """
        units = {name: torch.ones_like(own) for name, own in self.parameters.items()}
        return self._of_trained(units | {"location": self.scales})

    def draw(self, n_rows: int) -> Draws:
        """Draw what `n_rows` generated rows are made of."""
        both = self.latent(n_rows, self.n_columns + self._n_factors)
        return Draws(*both.split([self.n_columns, self._n_factors], dim=1))

    def rows(self, draws: Draws, parameters: Parameters | None = None) -> Tensor:
        """Generate rows (n_rows, n_columns) as `FactorGenerator` does.

        With `parameters` in the place of the present ones, if any are given.
        """
        own = self.parameters | (parameters or {})
        norm = torch.sqrt(1.0 + (own["loadings"] ** 2).sum(dim=1))
        shared = (draws.noise + draws.factors @ own["loadings"].T) / norm
        return own["location"] + torch.exp(own["log_scale"]) * shared

    def features(self) -> Products:
        """Give the features of a row: each score times the factors of the others.

        A factor of a row is its score along one column of the loadings, without the
        score that it is multiplied by. Where real and generated rows differ in the mean
        of a product, that says how to turn the loadings. Where location and scale are
        trained too, scores are first standardised by the present ones, and each score
        and its square is a feature.
        """
        if self.only_pairs:
            return Products(self.directions)
        return Products(self.directions, self.location, self.scales)

    def moments(self) -> Tensor:
        """Give the exact mean of ``r r^T`` over rows r = (1, scores)."""
        loadings, location = self.parameters["loadings"], self.location
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
        """Give the map from wanted changes of features to changes of parameters."""

        def of_rows(moving: Parameters) -> Tensor:
            return features(self.rows(draws, moving))

        back = torch.func.vjp(of_rows, self._moving())[1]

        def pull(wanted: Tensor) -> Tensor:
            pulled = torch.func.vmap(back)(wanted / wanted.shape[1])[0]
            flat = [pulled[name].flatten(1) for name in self.trained]
            return self.units * torch.cat(flat, dim=1)

        return pull

    def push(self, draws: Draws, features: Features, pulled: Tensor) -> Tensor:
        """Give what teachers send: it is an update."""
        del draws, features
        return pulled

    def pull_back(self, draws: Draws, directions: Tensor) -> Tensor:
        """Turn a wanted change of every generated row into one of the parameters.

        It is the negative gradient of half the mean squared distance of the rows to
        the changed rows (G-PATE, Equation 2).
        """
        pull = torch.func.vjp(lambda own: self.rows(draws, own), self.parameters)[1]
        return self.units * self._of_trained(pull(directions / len(directions))[0])

    def _move(self, update: Tensor, rate: float) -> None:
        sizes = [self.parameters[name].numel() for name in self.trained]
        changes = (rate * self.units * update.to(self.units)).split(sizes)
        for name, change in zip(self.trained, changes, strict=True):
            value, bound = self.parameters[name], _BOUNDS[name]
            moved = value + change.reshape(value.shape)
            self.parameters[name] = moved.clamp(-bound, bound)

    def present(self) -> dict[str, Floats]:
        """Give the parameters as they are."""
        return {
            name: value.cpu().double().numpy()
            for name, value in self.parameters.items()
        }

    def _moving(self) -> Parameters:
        return {name: self.parameters[name] for name in self.trained}

    def _of_trained(self, by_name: Parameters) -> Tensor:
        return torch.cat([by_name[name].flatten() for name in self.trained])
