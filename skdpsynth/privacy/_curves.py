"""Two ways to add up what releases cost: a Gaussian curve, or one Renyi order.

Both measure every release in one number, ``mu``, whose squares add up, and cap the sum
before any data is touched. So later releases may be planned from earlier noisy ones.

References
----------
Mironov, Talwar, Zhang (2019), "Renyi Differential Privacy of the Sampled Gaussian
Mechanism", Equation 5 (https://arxiv.org/abs/1908.10530).
Feldman, Zrnic (2021), "Individual Privacy Accounting via a Renyi Filter"
(https://arxiv.org/abs/2008.11193).
Canonne, Kamath, Steinke (2020), "The Discrete Gaussian for Differential Privacy",
Proposition 12 (https://arxiv.org/abs/2004.00010).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp

from skdpsynth.privacy._calibration import (
    certified_epsilon,
    gdp_epsilon,
    gdp_mu,
    grid_noise_std,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dp_accounting import DpEvent
    from numpy.typing import NDArray

__all__ = ["Curve", "GaussianCurve", "RenyiCurve", "VoteNoise", "renyi_curve"]

VoteNoise = Literal["gaussian", "laplace"]

# Beyond, the sums of `sampled_mu` are long; the Gaussian curve serves such budgets.
_MAX_ORDER = 4_000
_BRACKET_WIDTH = 1e-12
_TAIL_STDS = 40.0  # how far a discrete noise is summed


@dataclass(frozen=True)
class GaussianCurve:
    """Every release is dominated by a Gaussian one: exact for Gaussian noise.

    Sampling is not amplified here, and of a vote the whole noisy count is charged.
    """

    def mu_cap(self, epsilon: float, delta: float) -> float:
        """Give the largest total mu that (epsilon, delta) allows."""
        return gdp_mu(epsilon, delta)

    def epsilon(self, mu: float, delta: float) -> float:
        """Give the epsilon of a total mu at delta."""
        return gdp_epsilon(mu, delta)

    def certified(self, event: DpEvent, delta: float) -> float:
        """Compute epsilon with dp-accounting, from the event tree."""
        return certified_epsilon(event, delta)

    def sampled_noise_multiplier(self, mu: float, sampling_rate: float) -> float:
        """Give the noise of a step on a Poisson sample, in clipping norms.

        Parameters
        ----------
        mu : float
            What one step may cost, in (0, inf].
        sampling_rate : float
            Probability of each row, in (0, 1]. It makes no difference.

        Returns
        -------
        float
            Standard deviation; 0 for an infinite mu.
        """
        _check_rate(sampling_rate)
        return 1.0 / mu

    def vote_noise_std(self, mu: float, n_teachers: int, noise: VoteNoise) -> float:
        """Give the noise of a one-bit vote.

        Parameters
        ----------
        mu : float
            What one vote may cost, in (0, inf].
        n_teachers : int
            Number of teachers; it makes no difference.
        noise : {"gaussian", "laplace"}
            Discrete noise on the number of votes.

        Returns
        -------
        float
            Sigma of the discrete Gaussian or scale of the discrete Laplace, in votes;
            0 for an infinite mu.

        Notes
        -----
        A pure ``1/b`` guarantee is dominated by a Gaussian of
        ``mu = -2 ndtri(1 / (1 + e^{1/b}))``, whose trade-off curve touches it.
        """
        _check_votes(n_teachers, noise)
        if noise == "gaussian":
            return grid_noise_std(mu, 1.0)
        if mu == math.inf:
            return 0.0
        tail = float(log_ndtr(-mu / 2))
        return 1.0 / (float(log_ndtr(mu / 2)) - tail)


@dataclass(frozen=True)
class RenyiCurve:
    """Renyi divergences of one order add up: sampling and one-bit votes cost less.

    A release costs mu when its Renyi divergence of order `order`, in both directions,
    is at most ``order mu^2 / 2``, as that of a Gaussian one is.

    Parameters
    ----------
    order : int
        The order, at least 2; fixed before any data is touched.
    """

    order: int

    def mu_cap(self, epsilon: float, delta: float) -> float:
        """Give the largest total mu that (epsilon, delta) allows; 0 if none."""
        if epsilon == math.inf:
            return math.inf
        left = epsilon - _conversion(self.order, delta)
        return math.sqrt(max(2.0 * left / self.order, 0.0))

    def epsilon(self, mu: float, delta: float) -> float:
        """Give the epsilon of a total mu at delta."""
        if mu == 0:
            return 0.0
        return max(self.order * mu**2 / 2 + _conversion(self.order, delta), 0.0)

    def certified(self, event: DpEvent, delta: float) -> float:
        """Compute epsilon with dp-accounting, from the event tree."""
        from dp_accounting.rdp import RdpAccountant

        accountant = RdpAccountant(orders=[float(self.order)])
        accountant.compose(event)
        return float(accountant.get_epsilon(delta))

    def sampled_noise_multiplier(self, mu: float, sampling_rate: float) -> float:
        """Give the noise of a step on a Poisson sample, in clipping norms.

        Parameters
        ----------
        mu : float
            What one step may cost, in (0, inf].
        sampling_rate : float
            Probability of each row, in (0, 1]; public.

        Returns
        -------
        float
            Standard deviation; 0 for an infinite mu.
        """
        _check_rate(sampling_rate)
        if sampling_rate == 1.0 or mu == math.inf:
            return 1.0 / mu
        return _smallest(
            lambda std: sampled_mu(self.order, sampling_rate, std) <= mu, 1.0 / mu
        )

    def vote_noise_std(self, mu: float, n_teachers: int, noise: VoteNoise) -> float:
        """Give the noise of a one-bit vote.

        Parameters
        ----------
        mu : float
            What one vote may cost, in (0, inf].
        n_teachers : int
            Number of teachers, at least 1; public.
        noise : {"gaussian", "laplace"}
            Discrete noise on the number of votes.

        Returns
        -------
        float
            Sigma of the discrete Gaussian or scale of the discrete Laplace, in votes;
            0 for an infinite mu.
        """
        _check_votes(n_teachers, noise)
        if mu == math.inf:
            return 0.0
        return _vote_noise_std(self.order, mu, n_teachers, noise)


Curve = GaussianCurve | RenyiCurve


@lru_cache(maxsize=256)
def renyi_curve(epsilon: float, delta: float) -> Curve:
    """Choose the order that allows most, from public numbers.

    Parameters
    ----------
    epsilon : float
        Total epsilon, in (0, inf].
    delta : float
        Total delta, in (0, 1).

    Returns
    -------
    RenyiCurve or GaussianCurve
        A Gaussian curve where no order up to 4,000 does half as well.
    """
    if epsilon == math.inf:
        return RenyiCurve(2)
    curve = max(
        (RenyiCurve(order) for order in range(2, _MAX_ORDER + 1)),
        key=lambda curve: curve.mu_cap(epsilon, delta),
    )
    if curve.mu_cap(epsilon, delta) < 0.5 * gdp_mu(epsilon, delta):
        return GaussianCurve()
    return curve


def sampled_mu(order: int, sampling_rate: float, noise_multiplier: float) -> float:
    """Compute what one Gaussian step on a Poisson sample costs at an order.

    Parameters
    ----------
    order : int
        At least 2.
    sampling_rate : float
        Probability of each row, in (0, 1].
    noise_multiplier : float
        Standard deviation in clipping norms, positive.

    Returns
    -------
    float
        mu with ``order mu^2 / 2`` the Renyi divergence, of both directions.
    """
    count = np.arange(order + 1, dtype=np.float64)
    log_binomial = gammaln(order + 1) - gammaln(count + 1) - gammaln(order - count + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_out = (order - count) * np.log1p(-sampling_rate)
    log_out[-1] = 0.0
    terms = log_binomial + count * math.log(sampling_rate) + log_out
    terms += count * (count - 1) / (2 * noise_multiplier**2)
    divergence = max(float(logsumexp(terms)), 0.0) / (order - 1)
    return math.sqrt(2 * divergence / order)


def vote_mu(order: int, noise_std: float, n_teachers: int, noise: VoteNoise) -> float:
    """Compute what one noisy one-bit vote costs at an order.

    Parameters
    ----------
    order : int
        At least 2.
    noise_std : float
        Sigma or scale of the discrete noise, in votes; positive.
    n_teachers : int
        At least 1.
    noise : {"gaussian", "laplace"}
        Its law.

    Returns
    -------
    float
        mu with ``order mu^2 / 2`` the largest Renyi divergence between the answers
        for n and n + 1 votes, over all n and both directions.

    Notes
    -----
    The answer is 1 where ``n + noise > n_teachers / 2``, so its probability is a tail
    of the discrete noise, which is summed here and not taken from a continuous law.
    """
    first = n_teachers // 2 + 1 - n_teachers
    log_one, log_zero = _log_tails(noise_std, noise, first, n_teachers // 2 + 1)
    worst = 0.0
    for p, q in ((slice(None, -1), slice(1, None)), (slice(1, None), slice(None, -1))):
        parts = np.stack(
            [
                order * log_one[p] - (order - 1) * log_one[q],
                order * log_zero[p] - (order - 1) * log_zero[q],
            ]
        )
        worst = max(worst, float(logsumexp(parts, axis=0).max()) / (order - 1))
    return math.sqrt(2 * worst / order)


def _log_tails(
    noise_std: float, noise: VoteNoise, first: int, last: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute log P(noise >= j) and log P(noise < j) for j from first to last."""
    reach = max(abs(first), abs(last)) + int(_TAIL_STDS * noise_std) + 2
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    if noise == "gaussian":
        log_mass = -0.5 * (values / noise_std) ** 2
    else:
        log_mass = -np.abs(values) / noise_std
    log_mass -= logsumexp(log_mass)
    below = np.logaddexp.accumulate(log_mass)
    above = np.logaddexp.accumulate(log_mass[::-1])[::-1]
    index = np.arange(first, last + 1) + reach
    return np.minimum(above[index], 0.0), np.minimum(below[index - 1], 0.0)


@lru_cache(maxsize=256)
def _vote_noise_std(order: int, mu: float, n_teachers: int, noise: VoteNoise) -> float:
    return _smallest(
        lambda std: vote_mu(order, std, n_teachers, noise) <= mu, 1.0 / mu, width=1e-6
    )


def _smallest(
    enough: Callable[[float], bool], start: float, width: float = _BRACKET_WIDTH
) -> float:
    """Bisect on a log scale for the smallest number that is enough."""
    high = start
    while not enough(high):
        high *= 2
    low = high / 2
    while enough(low) and low > start * 1e-6:
        low /= 2
    while high > low * (1 + width):
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


def _conversion(order: float, delta: float) -> float:
    """Give what converting a Renyi divergence to (epsilon, delta) adds to epsilon."""
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def _check_rate(sampling_rate: float) -> None:
    if not 0 < sampling_rate <= 1:
        msg = f"sampling_rate must be in (0, 1]. Got {sampling_rate!r} instead."
        raise ValueError(msg)


def _check_votes(n_teachers: int, noise: VoteNoise) -> None:
    if noise not in ("gaussian", "laplace") or n_teachers < 1:
        msg = (
            'Expected noise "gaussian" or "laplace" and at least 1 teacher. Got '
            f"{noise!r} and {n_teachers!r} instead."
        )
        raise ValueError(msg)
