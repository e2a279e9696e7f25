"""Exact lower bounds of epsilon and mu from the errors or the scores of an attack.

Every bound is a one-sided confidence bound: it exceeds the true parameter with
probability at most `alpha`, however good or bad the attack is.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_expit, ndtr, ndtri
from scipy.stats import beta, binom, rankdata

from skdpsynth.utils import check_range
from skdpsynth.utils.arrays import Floats, Ints

Counts = int | Ints

MOST_EPSILON = math.log(sys.maxsize)  # no number of runs that has an index proves more
_CELLS = 20  # in a standard deviation: they add a thousandth to the variance
# Probability of a noise's tails, and of none by accident; rounding of power, each run.
NEGLIGIBLE = sys.float_info.epsilon
_SIGMAS = -float(ndtri(NEGLIGIBLE))  # beyond which so little of a normal law is
#: Probability with which the leak that `power` names would have been rejected.
POWER = 0.8


def rate_upper_bound(n_errors: Counts, n_trials: int, alpha: float) -> Floats:
    """Bound error rates from above, but for probability `alpha` (Clopper-Pearson)."""
    errors = np.asarray(n_errors)
    # With n_trials errors the second parameter is 0, where beta.ppf is not defined.
    others = np.maximum(n_trials - errors, 1)
    bound = beta.ppf(1 - alpha, errors + 1, others)
    return np.where(errors == n_trials, 1.0, bound)


@lru_cache(maxsize=64)
def _rates(n_runs: int, alpha: float) -> Floats:
    """Bound the rate for every number of errors; each of two rates gets half alpha."""
    rates = rate_upper_bound(np.arange(n_runs + 1), n_runs, alpha / 2)
    rates.flags.writeable = False  # it is cached
    return rates


def epsilon_bounds(
    false_alarms: Counts, misses: Counts, n_runs: int, delta: float, alpha: float
) -> Floats:
    """Bound epsilon for many pairs of error counts, which broadcast."""
    rates = _rates(n_runs, alpha)
    alarmed, missed = rates[false_alarms], rates[misses]
    best = np.zeros(np.broadcast_shapes(alarmed.shape, missed.shape))
    for ours, other in ((alarmed, missed), (missed, alarmed)):
        with np.errstate(divide="ignore"):
            bound = np.log(np.maximum(1 - ours - delta, 0.0) / other)
        best = np.maximum(best, bound)
    return best


def mu_bounds(
    false_alarms: Counts, misses: Counts, n_runs: int, alpha: float
) -> Floats:
    """Bound mu for many pairs of error counts; at most 0 where they are a guess's."""
    quantiles = ndtri(_rates(n_runs, alpha))  # inf where the rate is 1
    return np.asarray(-(quantiles[false_alarms] + quantiles[misses]))


def epsilon_lower_bound(
    false_alarms: int, misses: int, n_runs: int, *, delta: float, alpha: float = 0.05
) -> float:
    """Bound epsilon from below by the errors of an attack on two worlds.

    Parameters
    ----------
    false_alarms : int
        Runs without the canary in which the attack reports it, in [0, `n_runs`].
    misses : int
        Runs with the canary in which the attack does not report it, in [0, `n_runs`].
    n_runs : int
        Runs in each world, at least 1. None of them may have chosen the attack.
    delta : float
        The delta of the claim, in [0, 1).
    alpha : float, default=0.05
        Probability of a bound above the true epsilon, in (0, 1).

    Returns
    -------
    float
        At least 0. A mechanism that is (epsilon, delta)-private for a smaller epsilon
        shows such errors with probability at most `alpha`.

    Notes
    -----
    Both error rates are bounded from above by Clopper and Pearson's method at
    ``alpha / 2`` each; then ``log((1 - misses - delta) / false alarms)``, or the same
    with the two exchanged, whichever is larger.

    Examples
    --------
    >>> from skdpsynth.audit import epsilon_lower_bound
    >>> round(epsilon_lower_bound(0, 0, 100, delta=1e-5), 2)
    3.28
    """
    _check("n_runs", n_runs, alpha, delta, false_alarms=false_alarms, misses=misses)
    return float(epsilon_bounds(false_alarms, misses, n_runs, delta, alpha))


def mu_lower_bound(
    false_alarms: int, misses: int, n_runs: int, *, alpha: float = 0.05
) -> float:
    """Bound the Gaussian-DP parameter mu from below by the errors of an attack.

    Parameters
    ----------
    false_alarms, misses, n_runs : int
        As in `epsilon_lower_bound`.
    alpha : float, default=0.05
        Probability of a bound above the true mu, in (0, 1).

    Returns
    -------
    float
        At least 0. It contradicts a claim only where the claim is a Gaussian curve.

    References
    ----------
    Dong, Roth, Su (2022), "Gaussian Differential Privacy".

    Examples
    --------
    >>> from skdpsynth.audit import mu_lower_bound
    >>> round(mu_lower_bound(10, 10, 100), 2)
    1.86
    """
    _check("n_runs", n_runs, alpha, false_alarms=false_alarms, misses=misses)
    return max(0.0, float(mu_bounds(false_alarms, misses, n_runs, alpha)))


def guessing_lower_bound(n_wrong: int, n_guesses: int, *, alpha: float = 0.05) -> float:
    """Bound mu from below by guesses, each at one of two worlds that a coin chose.

    Parameters
    ----------
    n_wrong : int
        Wrong guesses, in [0, `n_guesses`].
    n_guesses : int
        Guesses, at least 1. A fair coin chose the world of each, with the canary or
        without; no guess chose the attack.
    alpha : float, default=0.05
        Probability of a bound above the true mu, in (0, 1).

    Returns
    -------
    float
        At least 0. It contradicts a claim only where the claim is a Gaussian curve.

    See Also
    --------
    mu_lower_bound : For attacks that err more in one world; takes more runs.
    curve_lower_bound : By scores; takes fewer at a small mu, as many at a mu of 2.

    Notes
    -----
    Proof. A guess is wrong with probability ``(a + b) / 2``, with a its rate of false
    alarms and b that of misses. If the mechanism is mu-GDP, ``b >= Phi(Phi^-1(1 - a) -
    mu)``, which is convex in a and its own inverse: the sum is least at ``a = b =
    Phi(-mu / 2)``. So every guess is wrong with probability ``Phi(-mu / 2)`` at least,
    whatever the earlier ones were, and the number of wrong guesses has no smaller
    quantiles than the binomial law of that chance. Clopper and Pearson's upper bound r
    of the chance, at `alpha`, gives ``mu >= -2 Phi^-1(r)``.

    References
    ----------
    Dong, Roth, Su (2022), "Gaussian Differential Privacy".

    Examples
    --------
    >>> from skdpsynth.audit import guessing_lower_bound
    >>> round(guessing_lower_bound(20, 200), 2)
    2.14
    """
    _check("n_guesses", n_guesses, alpha, n_wrong=n_wrong)
    rate = float(rate_upper_bound(n_wrong, n_guesses, alpha))
    return max(0.0, -2.0 * float(ndtri(rate)))


def curve_lower_bound(
    scores_without: ArrayLike, scores_with: ArrayLike, *, alpha: float = 0.05
) -> float:
    """Bound mu from below by all scores of an attack, without a threshold.

    Parameters
    ----------
    scores_without, scores_with : array-like of shape (n,), not nan
        What the attack gives for each run, high with the canary. A fair coin chose the
        world of each; no run chose the attack. Only their order counts.
    alpha : float, default=0.05
        Probability of a bound above the true mu, in (0, 1).

    Returns
    -------
    float
        At least 0. It contradicts a claim only where the claim is a Gaussian curve.

    Notes
    -----
    Proof. Let A be the law of scores and worlds, B that with coins for worlds. By rank,
    every score has a normal quantile; let g have its size, and the sign of the world.
    Under B the signs are coins, so ``exp(s sum(g)) / prod(cosh(s g))`` has the mean 1.
    By Chernoff its inverse at the best ``s >= 0`` is a p-value: ``B(p <= x) <= x``.

    If the mechanism is mu-GDP, a score is computed from a normal variable of mean 0
    without the canary and mu with it (Blackwell). So ``A(p <= x)`` is at most the power
    at level x, for n such variables and their worlds, of the likelihood ratio of A to
    B. It grows with mu; the bound is where it is `alpha` at the p of the runs. Of one
    run the ratio is ``2 / (1 + exp(-z))``, with z normal of mean ``mu^2 / 2`` and
    variance ``mu^2`` under A. Its logarithm becomes a lottery of the two points beside
    it on a grid, of the same mean under B: who knows the outcome knows more, so the
    power is not less.

    References
    ----------
    Dong, Roth, Su (2022), "Gaussian Differential Privacy".
    Doroshenko et al. (2022), "Connect the Dots" (https://arxiv.org/abs/2207.04380).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.audit import curve_lower_bound
    >>> noise = np.random.default_rng(0).normal(size=(2, 1000))
    >>> 0.8 < curve_lower_bound(noise[0], noise[1] + 1) < 1
    True
    """
    sides = [
        np.asarray(side, dtype=np.float64) for side in (scores_without, scores_with)
    ]
    scores = np.concatenate([side.ravel() for side in sides])
    if (
        any(side.ndim != 1 for side in sides)
        or not scores.size
        or np.isnan(scores).any()
    ):
        raise ValueError(
            "Expected one number, not nan, for every run, and a run. Got shapes "
            f"{sides[0].shape} and {sides[1].shape}, {np.isnan(scores).sum()} nan."
        )
    check_range("alpha", alpha, 0 < alpha < 1, "in (0, 1)")
    n_runs = len(scores)
    gains = ndtri((rankdata(scores) - 0.5) / n_runs)
    gains[: len(sides[0])] *= -1

    def log_p(log_s: float) -> float:
        return -float((math.log(2) + log_expit(2 * math.exp(log_s) * gains)).sum())

    bounds = -MOST_EPSILON / 2, MOST_EPSILON  # the best s is sqrt(6 / n) at least
    level = float(minimize_scalar(log_p, bounds=bounds, method="bounded").fun)
    perfect = -2.0 * float(ndtri(1 - alpha ** (1 / n_runs)))
    low, high = 0.0, perfect if level < math.log(alpha) else 0.0
    # As fine in the deviation of mu, which is about 1 over the root of the runs.
    while (high - low) * math.sqrt(n_runs) * _CELLS > 1:
        mu = (low + high) / 2
        low, high = (mu, high) if _power(mu, n_runs, level) <= alpha else (low, mu)
    return low


def _power(mu: float, n_runs: int, log_level: float) -> float:
    """Bound the power, at a level, against coins; see `curve_lower_bound`."""
    cell = mu * math.sqrt(ndtr(-mu / 2)) / _CELLS  # about its standard deviation
    reach = math.log(2) + max(0.0, _SIGMAS * mu - mu**2 / 2)  # of a logarithm
    steps = np.arange(math.ceil(reach / cell) + 1)  # down from log(2), the largest
    with np.errstate(divide="ignore"):  # the largest has infinite odds
        odds = -np.log(np.expm1(steps * cell)) / mu
    absent, present = (-np.diff(ndtr(odds + shift)) for shift in (-mu / 2, mu / 2))
    upper = absent * np.exp(steps[1:] * cell) - (absent + present)
    upper /= np.exp(steps[:-1] * cell) * math.expm1(cell)
    upper = np.clip(upper, 0.0, absent)
    law = np.append(upper, ndtr(odds[-1] - mu / 2))  # what is below goes up
    law[1:] += absent - upper
    mean = float(law @ steps)
    width = _SIGMAS * math.sqrt(n_runs * float(law @ (steps - mean) ** 2))
    size = next_fast_len(4 * len(steps) + 3 * math.ceil(width), real=True)
    total = np.maximum(irfft(rfft(law, size) ** n_runs, size), np.finfo(float).tiny)
    places = max(0, int(n_runs * mean) - size // 2) + np.arange(size)
    total, ratios = total[places % size], n_runs * math.log(2) - cell * places
    levels = np.logaddexp.accumulate(np.log(total) - ratios)
    inside = np.arange(size) <= np.searchsorted(levels, log_level)
    return float(total @ inside) + n_runs * NEGLIGIBLE


def _check(
    of_all: str, n_all: int, alpha: float, delta: float = 0.0, **counts: int
) -> None:
    """Raise a ValueError for a number that is out of range."""
    if not (n_all >= 1 and all(0 <= count <= n_all for count in counts.values())):
        raise ValueError(
            f"Expected {' and '.join(counts)} in [0, {of_all}] and {of_all} >= 1. Got "
            f"{', '.join(map(repr, counts.values()))} and {n_all!r} instead."
        )
    check_range("delta", delta, 0 <= delta < 1, "in [0, 1)")
    check_range("alpha", alpha, 0 < alpha < 1, "in (0, 1)")


def detectable_epsilon(
    claim: float, n_runs: int, *, delta: float, alpha: float
) -> float:
    """Return the smallest leak that an audit of this size rejects with `POWER`."""
    # The attack is taken to see it as randomized response; inf where even one without
    # errors proves no more than the claim.
    errors = np.arange(n_runs + 1)
    pairs = (errors[:, None], errors[None, :])
    rejected = epsilon_bounds(*pairs, n_runs, delta, alpha) > claim

    def excess_power(epsilon: float) -> float:
        law = binom.pmf(errors, n_runs, 1 / (1 + math.exp(epsilon)))
        return float(law @ rejected @ law) - POWER

    if excess_power(0.0) >= 0:
        return 0.0
    if excess_power(MOST_EPSILON) < 0:
        return math.inf
    return float(brentq(excess_power, 0.0, MOST_EPSILON))


def one_run_lower_bound(
    n_correct: int,
    n_guesses: int,
    *,
    n_canaries: int | None = None,
    delta: float = 0.0,
    alpha: float = 0.05,
) -> float:
    """Bound epsilon from below by one run with many canaries, each in or out by a coin.

    Parameters
    ----------
    n_correct : int
        Canaries of which the attack guessed rightly whether they were in.
    n_guesses : int
        Canaries about which it guessed at all, at least 1.
    n_canaries : int, optional
        Number of canaries, at least `n_guesses`; by default `n_guesses`.
    delta : float, default=0.0
        The delta of the claim, in [0, 1).
    alpha : float, default=0.05
        Probability of a bound above the true epsilon, in (0, 1).

    Returns
    -------
    float
        At least 0.

    Notes
    -----
    Theorem 5.2 of the paper: if the mechanism is (epsilon, delta)-private for adding
    or removing one row, at least v of r guesses are right with probability at most
    ``f(v) + 2 m delta max_i (f(v - i) - f(v)) / i``. Here f is the upper tail of a
    binomial law of r guesses with chance ``e^epsilon / (1 + e^epsilon)`` each, and m
    the number of canaries.

    References
    ----------
    Steinke, Nasr, Jagielski (2023), "Privacy Auditing with One (1) Training Run"
    (https://arxiv.org/abs/2305.08846).

    Examples
    --------
    >>> from skdpsynth.audit import one_run_lower_bound
    >>> one_run_lower_bound(81, 100) > 1 > one_run_lower_bound(80, 100)
    True
    """
    canaries = n_guesses if n_canaries is None else n_canaries
    _check("n_guesses", n_guesses, alpha, delta, n_correct=n_correct)
    check_range("n_canaries", canaries, canaries >= n_guesses, "at least n_guesses")

    def excess(epsilon: float) -> float:
        tail = _one_run_tail(n_correct, n_guesses, canaries, epsilon, delta)
        return tail - alpha

    if excess(0.0) >= 0:
        return 0.0
    return float(brentq(excess, 0.0, MOST_EPSILON))


def _one_run_tail(
    n_correct: int, n_guesses: int, n_canaries: int, epsilon: float, delta: float
) -> float:
    """Bound the probability of so many right guesses under the claim."""
    chance = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(n_correct - 1, n_guesses, chance))
    if delta == 0 or n_correct == 0:
        return tail
    # Probability of i too few right guesses or less, for i = 1, 2, ...
    near = np.cumsum(binom.pmf(np.arange(n_correct)[::-1], n_guesses, chance))
    steepest = float((near / np.arange(1, n_correct + 1)).max())
    return min(1.0, tail + 2 * n_canaries * delta * steepest)
