"""A generator of normal scores that depend through a few factors per class."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh
from scipy.special import ndtr

from skdpsynth.utils import (
    check_array,
    in_chunks,
    in_order_of_class,
    n_threads,
    require,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Facts = Mapping[str, Any]
    Arrays = Mapping[str, NDArray[Any]]

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
BOUNDS = {"loadings": 100.0, "location": 3.0, "log_scale": 5.0}


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
        cls, document: Facts, arrays: Arrays, n_classes: int, n_columns: int
    ) -> FactorGenerator:
        """Rebuild what `to_state` split, and check it."""
        require(document["n_classes"] == n_classes, "another number of classes")
        parameters = [
            {name: arrays[f"generator.{c}.{name}"] for name in BOUNDS}
            for c in range(n_classes)
        ]
        # Of a file: no sum or product of them overflows.
        limits = -BOUNDS["loadings"], BOUNDS["loadings"]
        for own in parameters:
            n_factors = parameters[0]["loadings"].shape[-1]
            check_array(own["loadings"], "f", (n_columns, n_factors), *limits)
            check_array(own["location"], "f", (n_columns,), *limits)
            check_array(own["log_scale"], "f", (n_columns,), *limits)
        return cls(parameters)

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
