"""From (epsilon, delta) to noise and back.

One number describes any composition of Gaussian releases: its Gaussian-DP parameter
``mu`` (sensitivity over standard deviation; squares add up). The exact curve is

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

The closed form plans, dp-accounting's privacy loss distributions certify.

References
----------
Dong, Roth, Su (2022), "Gaussian Differential Privacy", J. R. Stat. Soc. B 84(1),
Corollary 1 (https://doi.org/10.1111/rssb.12454).
Canonne, Kamath, Steinke (2020), "The Discrete Gaussian for Differential Privacy"
(https://arxiv.org/abs/2004.00010).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from scipy.special import log_ndtr

from skdpsynth.exceptions import check_range

if TYPE_CHECKING:
    from collections.abc import Callable

# `gdp_delta` is a difference of nearly equal numbers. Over epsilon in [1e-4, 1e3] and
# delta in [1e-15, 0.5] its relative error stays below a tenth of this; the inverses
# leave this much room.
_DELTA_SLACK = 1e-7

# Relative width at which the bisections stop.
_BRACKET_WIDTH = 1e-13

_MIN_NOISE_STD = 3.0
_RULE_B_STD = 2.0

# Grid of the privacy losses: a share of their standard deviation, which is mu.
_LOSS_GRID_SHARE = 1e-3
_EXPONENT_LIMIT = 500.0  # beyond, e^epsilon is no number


def gdp_delta(mu: float, epsilon: float) -> float:
    """Compute the smallest delta of a mu-Gaussian-DP mechanism at an epsilon.

    Exact up to rounding: relative error below 1e-8 for epsilon in [1e-4, 1e3] and delta
    in [1e-15, 0.5].
    """
    if not mu >= 0 or not epsilon >= 0:
        msg = f"mu and epsilon must be >= 0. Got {mu!r} and {epsilon!r} instead."
        raise ValueError(msg)
    if mu == 0 or epsilon == math.inf:
        return 0.0
    if mu == math.inf:
        return 1.0
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # lower <= upper in exact arithmetic; rounding may swap them where delta is 0.
    return math.exp(upper) * -math.expm1(min(lower - upper, 0.0))


def _boundary(holds: Callable[[float], bool]) -> float:
    """Find on a log scale the last point above 0 at which a test holds."""
    high = 1.0
    while holds(high):
        high *= 2
    low = high / 2
    while not holds(low):
        low /= 2
    while high > low * (1 + _BRACKET_WIDTH):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@lru_cache(maxsize=1024)
def gdp_mu(epsilon: float, delta: float) -> float:
    """Find the largest mu whose exact delta at epsilon is at most delta, rounded down.

    It is inf for an infinite epsilon.
    """
    check_range("epsilon", epsilon, epsilon >= 0, "a number >= 0")
    check_range("delta", delta, 0 < delta < 1, "a number in (0, 1)")
    if epsilon == math.inf:
        return math.inf
    target = delta * (1 - _DELTA_SLACK)
    return _boundary(lambda mu: gdp_delta(mu, epsilon) <= target)


@lru_cache(maxsize=1024)
def gdp_epsilon(mu: float, delta: float) -> float:
    """Find the least epsilon at which mu's exact delta is at most delta, rounded up.

    It is 0 for ``mu == 0``, and inf for an infinite mu.
    """
    check_range("delta", delta, 0 < delta < 1, "a number in (0, 1)")
    if mu == math.inf:
        return math.inf
    target = delta * (1 - _DELTA_SLACK)

    def too_small(epsilon: float) -> bool:
        return gdp_delta(mu, epsilon) > target

    if not too_small(0.0):
        return 0.0
    # The last point that failed, raised by bracket widths until it holds.
    epsilon = _boundary(too_small)
    while too_small(epsilon):
        epsilon *= 1 + _BRACKET_WIDTH
    return epsilon


def grid_noise_std(mu: float, sensitivity: float) -> float:
    """Give the discrete Gaussian's sigma that makes a release mu-Gaussian-DP.

    In units of the integer grid, for an L2 sensitivity of the released integer vector:
    at least 3; 0 for an infinite mu.

    A discrete Gaussian of parameter sigma is not dominated by the continuous one of the
    same sigma. But continuous noise of variance ``sigma^2 - 4`` followed by a discrete
    Gaussian of parameter 2 around the result has the law of the discrete Gaussian of
    parameter sigma, up to a factor ``1 +- 4e-34`` per coordinate. So the release is a
    post-processing of a Gaussian one with multiplier ``sqrt(sigma^2 - 4) /
    sensitivity``, which here is ``1 / mu``. Where sigma is raised to 3 the release
    costs less than it is charged for.
    """
    check_range("mu", mu, mu > 0, "a number > 0")
    finite = 0 < sensitivity < math.inf
    check_range("sensitivity", sensitivity, finite, "positive and finite")
    if mu == math.inf:
        return 0.0
    std = math.hypot(sensitivity / mu, _RULE_B_STD)
    return max(std, _MIN_NOISE_STD)


@lru_cache(maxsize=256)
def certified_epsilon(mu: float, delta: float) -> float:
    """Bound epsilon of mu-Gaussian DP by dp-accounting's loss distributions.

    The grid of the losses follows mu, so that a small epsilon is resolved and a large
    one is cheap. The result is pessimistic by the grid: by less than 2e-4 of epsilon
    for delta in [1e-13, 1e-3], and by up to 1.3e-3 above epsilon 700, where e^epsilon
    overflows.
    """
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    check_range("delta", delta, 0 < delta < 1, "a number in (0, 1)")
    if mu in (0.0, math.inf):
        return mu
    accountant = PLDAccountant(value_discretization_interval=_LOSS_GRID_SHARE * mu)
    accountant.compose(GaussianDpEvent(1 / mu))
    return float(accountant.get_epsilon(delta))


def replace_one_epsilon(
    mu: float, delta: float, aside: float, *, amplified: bool
) -> float:
    """Bound epsilon when one row is replaced by any other, possibly of another class.

    `mu` is that for adding or removing one row, `aside` the part of delta beside the
    Gaussian curve, and `amplified` says whether sampling of rows was made use of. It is
    inf where what is set aside leaves no delta for it.

    No release moves by more than twice as far: a centred count, or a sum of clipped
    rows, where the new row is the opposite of the old one. A vote moves by 1 as before,
    for the new row has the teacher of the old one; or it is of another class, and both
    classes pay, each with its tail. Either row may discover a key. So what is aside
    counts twice. Where rows are sampled, both may be in one sample, and costs do not
    just add up. Removing one and adding the other are two steps then, ``(2 epsilon', (1
    + e^epsilon') delta')``, here for the best delta'. Where epsilon is large, what is
    aside leaves none.
    """
    if not amplified:
        return gdp_epsilon(2 * mu, delta - 2 * aside) if delta > 2 * aside else math.inf
    best = math.inf
    for exponent in range(1, 120):
        smaller = delta * 2.0 ** (-exponent / 4)
        if smaller <= aside:
            break
        epsilon = gdp_epsilon(mu, smaller - aside)
        if epsilon < _EXPONENT_LIMIT and (1 + math.exp(epsilon)) * smaller <= delta:
            best = min(best, 2 * epsilon)
    return best
