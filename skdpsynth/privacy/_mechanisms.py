"""The only place where privacy noise is drawn, and the only importer of OpenDP."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy._random import insecure_randomness_active, rounded_normal
from skdpsynth.privacy._reservation import Reservation

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from opendp.mod import Measurement

__all__ = ["release_gaussian"]


def release_gaussian(
    values: NDArray[np.int64], reservation: Reservation, n_releases: int = 1
) -> NDArray[np.int64]:
    """Add discrete Gaussian noise to integers, paid for by a reservation.

    Parameters
    ----------
    values : ndarray of any shape, int64
        The exact values. With ``n_releases > 1`` the first axis counts releases.
    reservation : Reservation
        What pays. Its `sensitivity` must bound the L2 norm by which one release of
        `values` changes when one row is added or removed; the caller vouches for it.
    n_releases : int, default=1
        Number of releases to use up, at least 1.

    Returns
    -------
    ndarray of the shape of `values`, int64
        `values` plus independent noise of parameter `reservation.noise_std`; cut at
        the limits of int64. An exact copy when that is 0.

    Raises
    ------
    TypeError
        When `values` is not an int64 array.
    ValueError
        When `n_releases` is not the length of the first axis.
    ReservationError
        When the reservation is forged, exhausted or closed. No noise is drawn then.

    Notes
    -----
    The reservation is drawn down before the noise is drawn, and stays so if the draw
    fails. The sampler is exact (OpenDP, entropy of the operating system).

    References
    ----------
    Canonne, Kamath, Steinke (2020), "The Discrete Gaussian for Differential Privacy"
    (https://arxiv.org/abs/2004.00010).
    """
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        kind = getattr(values, "dtype", type(values).__name__)
        msg = f"Expected an int64 array of exact values. Got {kind} instead."
        raise TypeError(msg)
    if type(reservation) is not Reservation:
        msg = (
            f"Expected a Reservation. Got {type(reservation).__name__} instead. "
            "Ask PrivacyAccountant.reserve_gaussian for one."
        )
        raise ReservationError(msg)
    n_releases = operator.index(n_releases)
    if n_releases != 1 and values.shape[:1] != (n_releases,):
        msg = (
            f"Expected one row of values per release, {n_releases} in all. "
            f"Got the shape {values.shape} instead."
        )
        raise ValueError(msg)
    std = reservation.noise_std
    reservation._draw_down(n_releases)
    if std == 0:
        return values.copy()
    if insecure_randomness_active():
        return values + rounded_normal(std, values.size).reshape(values.shape)
    noisy = _measurement(std)(values.ravel().tolist())
    return np.array(noisy, dtype=np.int64).reshape(values.shape)


@lru_cache(maxsize=128)
def _measurement(std: float) -> Measurement:
    """Make OpenDP's discrete Gaussian on integer vectors; `std` is its sigma."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return make_gaussian(
        vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=std
    )
