"""A generator of normal scores that depend through a few factors per class."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import ndtr

from skdpsynth.measure import LITTLE, Measurements
from skdpsynth.model._mixture import State
from skdpsynth.utils import (
    check_array,
    in_chunks,
    in_order_of_class,
    n_threads,
    require,
)
from skdpsynth.utils.arrays import Bools, Floats, Ints

_MOST_FACTORS = 64  # bounds what a row of a wide table costs
_ROUNDS = 6  # of the search for what columns share, which is the diagonal
MOST_LOADING = 100.0  # what noise can do at most: beyond, rows would overflow
LEAST_FACTORS = 4  # of a generator, where training starts


def fit_factors(measured: Measurements) -> Floats:
    """Find loadings (n_classes, n_columns, n_factors), 0 where nothing was measured."""
    model = measured.model
    shape = len(model.marginals), len(model.metadata.domains), _MOST_FACTORS
    loadings, most = np.zeros(shape), LEAST_FACTORS
    for answer in measured:
        if answer.query.kind == "moments":
            (values,), (std,) = answer.values, answer.noise_std.tolist()
            _, *moments = model.score_moments(c := answer.query.position)
            factors = factors_above_noise(values, std, *moments)
            loadings[c, :, : factors.shape[1]] = factors
            most = max(most, factors.shape[1])
    return loadings[:, :, :most].copy()


def factors_above_noise(
    covariances: Floats, noise_std: float, stds: Floats, slopes: Floats
) -> Floats:
    """Find the factors (n_columns, n_factors) of covariances that are above the noise.

    `covariances` are those of pairs of columns in the order of ``triu_indices(n, 1)``.
    `stds` and `slopes` (n_columns,) are the deviations of the scores by the released
    marginals, and their covariances with the normal numbers that they stand for: scores
    of values that fill intervals vary by less.

    Principal axes, with what columns share on the diagonal. A symmetric matrix of noise
    of size s has no eigenvalue beyond ``2 s sqrt(n)``; one of x is measured as
    ``y = x + s^2 n / x``, and its direction is right by a share that leaves
    ``sqrt(y^2 - 4 s^2 n)`` of it (Benaych-Georges, Nadakuditi 2011).
    """
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
    # A column that is nearly constant says little.
    loadings = axes / np.maximum(slopes, LITTLE)[:, None]
    # What a score has alone deviates by a tenth of it at least.
    shared, limit = np.square(loadings).sum(axis=1, keepdims=True), 1.0 - LITTLE**2
    loadings *= np.sqrt(limit / np.maximum(shared, limit))
    return np.asarray(loadings / np.sqrt(1.0 - np.minimum(shared, limit)))


def lenders(lending: Bools, n_rows: Floats) -> Ints:
    """Return the class whose dependence each class has: its own, or the largest known.

    Dependence in one class and none in another is a difference that the rows do not
    have, and classifiers learn it. `n_rows` are planned, so public.
    """
    largest = np.where(lending, n_rows, -np.inf).argmax()
    return np.where(lending, np.arange(len(lending)), largest)


class FactorGenerator:
    """A generator of normal scores whose columns depend through shared factors.

    In class c, column j of a row is ``t_j = (e_j + sum_k B_jk f_k) / sqrt(1 +
    |B_j|^2)``: its own noise e_j and the factors f of the row, all standard normal.
    Whatever the loadings B, every t_j stays standard normal, so they bring dependence
    without touching the marginals. `loadings` (n_classes, n_columns, n_factors) are
    public: initial values, and what was released.
    """

    def __init__(self, loadings: Floats) -> None:
        self.loadings = loadings

    @classmethod
    def lent(cls, loadings: Floats, n_rows: Floats) -> FactorGenerator:
        """Let classes without a dependence of their own borrow; see `lenders`."""
        lending = np.any(loadings, axis=(1, 2))
        return cls(loadings[lenders(lending, n_rows)])

    def draw(self, class_codes: Ints, rng: np.random.Generator) -> Floats:
        """Draw the ranks of rows of given classes, (n_rows, n_columns)."""
        n_rows, (_, n_columns, n_factors) = len(class_codes), self.loadings.shape
        if not self.loadings.any():  # columns are independent
            return rng.random((n_rows, n_columns))
        ranks = rng.standard_normal((n_rows, n_columns))
        factors = rng.standard_normal((n_rows, n_factors))

        def fill(loadings: Floats, rows: NDArray[np.intp]) -> None:
            """Turn the draws of some rows into ranks of their class, in place."""
            scores = factors[rows] @ loadings.T
            scores += ranks[rows]
            scores /= np.sqrt(1.0 + (loadings**2).sum(axis=1))
            ranks[rows] = ndtr(scores)

        order, places = in_order_of_class(class_codes, len(self.loadings))
        with ThreadPoolExecutor(n_threads()) as pool:
            for of_class, place in zip(self.loadings, places, strict=True):
                rows = order[place]
                chunks = [rows[chunk] for chunk in in_chunks(len(rows))]
                list(pool.map(partial(fill, of_class), chunks))
        return ranks

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into a JSON-safe document and arrays, for saving."""
        arrays = {f"generator.{c}.loadings": b for c, b in enumerate(self.loadings)}
        return {"form": "factors", "n_classes": len(self.loadings)}, arrays

    @classmethod
    def from_state(
        cls, document: State, arrays: State, n_classes: int, n_columns: int
    ) -> FactorGenerator:
        """Rebuild what `to_state` split, and check it."""
        require(document["n_classes"] == n_classes, "another number of classes")
        every = [f"generator.{c}" for c in range(n_classes)]
        loadings = np.array([arrays[f"{place}.loadings"] for place in every])
        # Of a file: no sum or product of them overflows.
        shape = n_classes, n_columns, loadings.shape[-1]
        check_array(loadings, "f", shape, -MOST_LOADING, MOST_LOADING)
        # Up to 0.2 networks of factors had means and scales of their own.
        for name in ("location", "log_scale"):
            moved = (arrays.get(f"{place}.{name}") for place in every)
            require(not any(map(np.any, moved)), "moved scores")
        return cls(loadings)
