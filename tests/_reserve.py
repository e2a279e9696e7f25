"""Reservations that tests of mechanisms draw from, and a test of the noise."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chi2

from skdpsynth.privacy import PrivacyAccountant, Reservation


def exact(sensitivity: float, count: int = 1, delta: float = 0.0) -> Reservation:
    """Reserve without noise, to see the statistic itself."""
    accountant = PrivacyAccountant(math.inf, 1e-5, discovery_delta=9e-6)
    return accountant.reserve_gaussian(
        "test", mu=math.inf, sensitivity=sensitivity, count=count, delta=delta
    )


def noisy(
    sensitivity: float,
    mu: float = 0.2,
    count: int = 1,
    delta: float = 0.0,
    **of_unit: int,
) -> Reservation:
    """Reserve from a budget that is large enough."""
    accountant = PrivacyAccountant(1e4, 1e-5, discovery_delta=9e-6, **of_unit)
    return accountant.reserve_gaussian(
        "test", mu=mu, sensitivity=sensitivity, count=count, delta=delta
    )


def is_noise(noise: np.ndarray, std: float, alpha: float = 1e-6) -> bool:
    """Test two-sided whether this is noise around 0 of a standard deviation.

    The sum of squares over the variance is chi-squared; it is not by chance at a rate
    of alpha. A discrete Gaussian of sigma > 10 differs by less than 1e-80. Half the
    noise would give a quarter, and none 0.
    """
    total = float((np.asarray(noise, dtype=float) ** 2).sum() / std**2)
    return bool(
        chi2.ppf(alpha / 2, noise.size) < total < chi2.isf(alpha / 2, noise.size)
    )
