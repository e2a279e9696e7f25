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

from skdpsynth.models._generator import Products, Trainer
from skdpsynth.utils import in_chunks, in_order_of_class, n_threads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.models._generator import Features, Parameters, Pull, Score

    Floats = NDArray[np.float64]

_MOST_FACTORS = 64
_ROUNDS = 6  # of the search for what columns share
_LEAST_SLOPE = 0.15  # of a score; a column that is nearly constant says little
_MOST_SHARED = 0.97  # of the variance of a score


def factors_above_noise(
    covariances: Floats,
    noise_std: float,
    stds: Floats,
    slopes: Floats,
) -> Floats:
    """Find the factors of measured covariances that are above the noise.

    Principal axes, with what columns share on the diagonal. A symmetric matrix of
    noise of size s has no eigenvalue beyond ``2 s sqrt(n_columns)``; one of x shows
    as ``x + s^2 n_columns / x``, and its direction is right by a share that leaves
    ``sqrt(seen^2 - 4 s^2 n_columns)`` of what is seen (Benaych-Georges, Nadakuditi
    2011).

    Parameters
    ----------
    covariances : ndarray of shape (n_columns (n_columns - 1) / 2,), float64
        In the order of ``numpy.triu_indices(n_columns, 1)``; noisy.
    noise_std : float
        Of each.
    stds, slopes : ndarray of shape (n_columns,), float64
        Deviations of the scores by the released marginals, and their covariances with
        the normal numbers that they stand for: scores of values that fill intervals
        vary by less.

    Returns
    -------
    ndarray of shape (n_columns, n_factors), float64
        Loadings as `FactorGenerator` takes them, of 64 factors at most.
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
        seen, vectors = eigh(covariance, subset_by_index=(max(n - most, 0), n - 1))
        sizes = np.sqrt(np.maximum(seen**2 - edge**2, 0.0)) * (seen > edge)
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

    Each class has ``loadings`` of shape (n_columns, n_factors), and ``location`` and
    ``log_scale`` of shape (n_columns,). All is public: initial values, and what
    aggregators released.
    """

    def __init__(self, parameters: list[dict[str, NDArray[np.float64]]]) -> None:
        self.parameters = parameters

    @classmethod
    def initial(
        cls, n_classes: int, n_columns: int, n_factors: int, seed: int
    ) -> FactorGenerator:
        """Start with weak random loadings, so that gradients see each factor."""
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
        """Give classes that learnt nothing the loadings of one that did."""
        for c, lender in borrowers.items():
            own = self.parameters[c]
            own["loadings"] = self.parameters[lender]["loadings"].copy()

    def draw(
        self, class_codes: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw the ranks of rows of given classes; see `scores`."""
        scores = self.scores(class_codes, rng)
        blocks = np.array_split(scores, n_threads())  # views
        with ThreadPoolExecutor(len(blocks)) as pool:
            list(pool.map(ndtr, blocks, blocks))  # in place
        return scores

    def within(
        self, spans: Sequence[Mapping[int, NDArray[np.float64]]]
    ) -> tuple[FactorGenerator, NDArray[np.float64]]:
        """Restrict nothing: all rows are drawn, and those to be left out are."""
        return self, np.ones(len(spans))

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into JSON-safe facts and arrays, for saving."""
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
        names = ("loadings", "location", "log_scale")
        return cls(
            [
                {name: arrays[f"generator.{c}.{name}"] for name in names}
                for c in range(document["n_classes"])
            ]
        )

    def scores(
        self, class_codes: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw scores (n_rows, n_columns) of given classes by a public stream."""
        n_columns, n_factors = self.parameters[0]["loadings"].shape
        scores = rng.standard_normal((len(class_codes), n_columns))
        factors = rng.standard_normal((len(class_codes), n_factors))
        order, places = in_order_of_class(class_codes, len(self.parameters))
        for own, place in zip(self.parameters, places, strict=True):
            if not any(value.any() for value in own.values()):
                continue  # a class that learnt nothing
            rows = order[place]
            chunks = [rows[chunk] for chunk in in_chunks(len(rows))]
            with ThreadPoolExecutor(n_threads()) as pool:
                list(pool.map(partial(_shift, scores, factors, own), chunks))
        return scores


def _shift(
    scores: NDArray[np.float64],
    factors: NDArray[np.float64],
    own: Mapping[str, NDArray[np.float64]],
    rows: NDArray[np.intp],
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

    noise: torch.Tensor
    factors: torch.Tensor


class FactorTrainer(Trainer):
    """The factors of one class, while the parameters named by `trained` are."""

    def __init__(
        self,
        parameters: dict[str, NDArray[np.float64]],
        trained: tuple[str, ...],
        **training: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**training)
        self.parameters: Parameters = {
            name: torch.from_numpy(value).float().to(self._device, self._dtype)
            for name, value in parameters.items()
        }
        self.trained = trained
        self.only_pairs = "location" not in trained
        self.n_columns, n_factors = parameters["loadings"].shape
        self.n_features = self.n_columns * (n_factors + (0 if self.only_pairs else 2))

    @property
    def location(self) -> torch.Tensor:  # type: ignore[override]
        """Present mean of each column."""
        return self.parameters["location"]

    @property
    def scales(self) -> torch.Tensor:  # type: ignore[override]
        """Present scale of each column."""
        return torch.exp(self.parameters["log_scale"])

    @property
    def directions(self) -> torch.Tensor:  # type: ignore[override]
        """Factors as directions in the scores."""
        loadings = self.parameters["loadings"]
        return loadings / loadings.norm(dim=0).clamp_min(1e-6)

    @property
    def units(self) -> torch.Tensor:
        """Unit in which each trained parameter moves, of shape (n_parameters,).

        A location moves in scales of its column, so that a narrow column is not
        thrown about by the steps that a wide one needs.
        """
        by_name = {"location": self.scales}
        return torch.cat(
            [
                by_name.get(name, torch.ones_like(self.parameters[name])).flatten()
                for name in self.trained
            ]
        )

    def draw(self, n_rows: int) -> Draws:
        """Draw what `n_rows` fakes are made of."""
        n_columns, n_factors = self.parameters["loadings"].shape
        both = self.latent(n_rows, n_columns + n_factors)
        noise, factors = both.split([n_columns, n_factors], dim=1)
        return Draws(noise, factors)

    def rows(self, draws: Draws, parameters: Parameters | None = None) -> torch.Tensor:
        """Make fakes of shape (n_rows, n_columns) as `FactorGenerator` does."""
        own = self.parameters if parameters is None else parameters
        norm = torch.sqrt(1.0 + (own["loadings"] ** 2).sum(dim=1))
        shared = (draws.noise + draws.factors @ own["loadings"].T) / norm
        return own["location"] + torch.exp(own["log_scale"]) * shared

    def features(self) -> Products:
        """Say what discriminators look at: each score times the factors in the row.

        A factor as seen in a row is its score along one column of the loadings, without
        the score that it is multiplied by. Where real and fake rows differ in the mean
        of a product, that says how to turn the loadings. Where location and scale are
        trained too, scores are first standardised by the present ones, and each score
        and its square is seen too.
        """
        if self.only_pairs:
            return Products(self.directions)
        return Products(self.directions, self.location, self.scales)

    def moments(self) -> torch.Tensor:
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

    def gradient(self, draws: Draws, score: Score) -> torch.Tensor:
        """Differentiate the mean score of fakes by the trained parameters."""
        moving = self._moving()

        def mean(moving: Parameters) -> torch.Tensor:
            return score(self.rows(draws, {**self.parameters, **moving})).mean()

        return self.units * self._of_trained(torch.func.grad(mean)(moving))

    def pull(self, draws: Draws, features: Features) -> Pull:
        """Give the map from wanted changes of features to changes of parameters."""

        def of_fakes(moving: Parameters) -> torch.Tensor:
            return features(self.rows(draws, {**self.parameters, **moving}))

        back = torch.func.vjp(of_fakes, self._moving())[1]

        def pull(wanted: torch.Tensor) -> torch.Tensor:
            pulled = torch.func.vmap(back)(wanted / wanted.shape[1])[0]
            flat = [pulled[name].flatten(1) for name in self.trained]
            return self.units * torch.cat(flat, dim=1)

        return pull

    def push(
        self, draws: Draws, features: Features, pulled: torch.Tensor
    ) -> torch.Tensor:
        """Give what teachers send: it is an update."""
        del draws, features
        return pulled

    def pull_back(self, draws: Draws, directions: torch.Tensor) -> torch.Tensor:
        """Turn a wanted change of every fake into one of the parameters.

        It is the negative gradient of half the mean squared distance of the fakes to
        the changed fakes (G-PATE, Equation 2).
        """
        pull = torch.func.vjp(lambda own: self.rows(draws, own), self.parameters)[1]
        pulled = pull(directions / len(directions))[0]
        return self.units * self._of_trained(pulled)

    def _move(self, update: torch.Tensor, rate: float) -> None:
        sizes = [self.parameters[name].numel() for name in self.trained]
        changes = (rate * self.units * update.to(self.units)).split(sizes)
        for name, change in zip(self.trained, changes, strict=True):
            value, bound = self.parameters[name], _BOUNDS[name]
            moved = value + change.reshape(value.shape)
            self.parameters[name] = moved.clamp(-bound, bound)

    def present(self) -> dict[str, NDArray[np.float64]]:
        """Give the parameters as they are."""
        return {
            name: value.cpu().double().numpy()
            for name, value in self.parameters.items()
        }

    def _moving(self) -> Parameters:
        return {name: self.parameters[name] for name in self.trained}

    def _of_trained(self, by_name: Parameters) -> torch.Tensor:
        return torch.cat([by_name[name].flatten() for name in self.trained])

    def _flat(self) -> torch.Tensor:
        return torch.cat([value.flatten() for value in self.parameters.values()])

    def _set(self, flat: torch.Tensor) -> None:
        parts = flat.split([value.numel() for value in self.parameters.values()])
        for (name, value), part in zip(self.parameters.items(), parts, strict=True):
            self.parameters[name] = part.reshape(value.shape)
