"""From which noisy count on a key that is private itself may be named."""

from __future__ import annotations

import math

from scipy.special import log_ndtr, ndtri

from skdpsynth.exceptions import check_range

# Keys seen once are never considered, so a key's smallest considered count is this.
MIN_KEY_COUNT = 2

# Room that the proof in `thresholded_counts` needs for removing a row.
_THRESHOLD_ROOM = 0.9


def discovery_threshold(noise_std: float, threshold_delta: float) -> int:
    """Find the noisy count that a key seen twice exceeds with small probability.

    The T with ``P(2 + noise > T) <= threshold_delta`` for a discrete Gaussian; 1
    without noise.

    Let f(z) = exp(-z^2 / (2 s^2)). Its sum over the integers is at least ``s sqrt(2
    pi)`` (Poisson summation: all other terms are positive), and where f is convex, ``z
    >= s``, each term is at most its integral over [z - 1/2, z + 1/2]. So ``P(noise >=
    t) <= Phi(-(t - 1/2) / s)`` for ``t - 1/2 >= s``.
    """
    fits = 0 < threshold_delta < 1
    check_range("threshold_delta", threshold_delta, fits, "in (0, 1)")
    if noise_std == 0:
        return MIN_KEY_COUNT - 1
    quantile = max(-float(ndtri(threshold_delta)), 1.0)
    tail_start = math.ceil(quantile * noise_std + 0.5)
    # The quantile is rounded; the tail at the integer is what counts.
    while float(log_ndtr(-(tail_start - 0.5) / noise_std)) > math.log(threshold_delta):
        tail_start += 1
    # 2 + noise > T means noise >= T - 1 for integers.
    return tail_start + MIN_KEY_COUNT - 1


def key_threshold(noise_std: float, threshold_delta: float, n_columns: int) -> int:
    """Give the noisy count that a key must exceed in `thresholded_counts`, at least 1.

    `threshold_delta` is for all columns together.
    """
    return discovery_threshold(noise_std, _THRESHOLD_ROOM * threshold_delta / n_columns)
