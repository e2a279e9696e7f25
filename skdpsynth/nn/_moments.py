"""Factors that follow from measured second moments of the scores of all columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import eigh

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
