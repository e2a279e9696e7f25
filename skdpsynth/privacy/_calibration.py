"""From (epsilon, delta) to noise and back.

One number describes any composition of Gaussian releases: its Gaussian-DP parameter
``mu`` (sensitivity over standard deviation; squares add up). The exact curve is

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

The closed form plans, dp-accounting's privacy loss distributions certify.

*Blocks* cost less than their noise says: votes, and sampled steps. A block is a number
of releases that is fixed before its first. Its privacy profile ``delta(epsilon)`` is
computed as a whole, and then bounded by that of one Gaussian release: the smallest
``mu`` is taken with

    delta(epsilon) <= tail + (1 - tail) delta_mu(epsilon)    for all epsilon >= 0,

in both directions. Such a block is a post-processing of a mechanism that shows all with
probability ``tail`` and is a Gaussian release of parameter mu else. So blocks, counts
and sums add up as ``mu^2``, tails add up in delta, and all may be planned from earlier
releases: the caps on both sums are fixed before. The tail is what makes the rest small:
the rarest answers of a block cost as much as full Gaussian releases.

References
----------
Dong, Roth, Su (2022), "Gaussian Differential Privacy", J. R. Stat. Soc. B 84(1),
Corollary 1 (https://doi.org/10.1111/rssb.12454).
Canonne, Kamath, Steinke (2020), "The Discrete Gaussian for Differential Privacy"
(https://arxiv.org/abs/2004.00010).
Zhu, Dong, Wang (2022), "Optimal Accounting of Differential Privacy via Characteristic
Function", Section 3: dominating pairs (https://arxiv.org/abs/2106.08567).
Doroshenko et al. (2022), "Connect the Dots: Tighter Discrete Approximations of Privacy
Loss Distributions" (https://arxiv.org/abs/2207.04380).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri, ndtri_exp

from skdpsynth.utils import EXCESS, check_range
from skdpsynth.utils.arrays import Floats

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


# `gdp_delta` is a difference of nearly equal numbers. Over epsilon in [1e-4, 1e3] and
# delta in [1e-15, 0.5] its relative error stays below a tenth of this; the inverses
# leave this much room.
_DELTA_SLACK = 1e-7

_MIN_NOISE_STD = 3.0  # from where the proof in `grid_noise_std` holds

# Of a grid of privacy losses, in their standard deviation or in the largest one: noise
# of steps is within 0.4 % of that on 8,000 cells, epsilon certified to 2e-4.
_CELLS = 1500
MOST_EXPONENT = math.log(sys.float_info.max)  # beyond, e^epsilon is no number


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta of a mu-Gaussian-DP mechanism; see `_DELTA_SLACK`."""
    check_range("mu", mu, mu >= 0, "a number >= 0")
    check_range("epsilon", epsilon, epsilon >= 0, "a number >= 0")
    if mu == 0 or epsilon == math.inf:
        return 0.0
    if mu == math.inf:
        return 1.0
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # lower <= upper in exact arithmetic; rounding may swap them where delta is 0.
    return math.exp(upper) * -math.expm1(min(lower - upper, 0.0))


def _boundary(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Find the last number above 0 at which a test holds, and the next, where not."""
    low = high = 1.0
    while holds(high):  # at infinity none does
        low, high = high, 2 * high
    while not holds(low):
        low /= 2
    while low < (middle := math.sqrt(low) * math.sqrt(high)) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


@lru_cache(maxsize=1024)
def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose exact delta is at most delta, rounded down."""
    check_range("epsilon", epsilon, epsilon >= 0, "a number >= 0")
    check_range("delta", delta, 0 < delta < 1, "a number in (0, 1)")
    if epsilon == math.inf:
        return math.inf
    target = delta * (1 - _DELTA_SLACK)
    return _boundary(lambda mu: gdp_delta(mu, epsilon) <= target)[0]


@lru_cache(maxsize=1024)
def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the least epsilon whose exact delta is at most delta, rounded up."""
    check_range("delta", delta, 0 < delta < 1, "a number in (0, 1)")
    if mu == math.inf:
        return math.inf
    target = delta * (1 - _DELTA_SLACK)

    def too_small(epsilon: float) -> bool:
        return gdp_delta(mu, epsilon) > target

    return _boundary(too_small)[1] if too_small(0.0) else 0.0


def advantage_of(epsilon: float, delta: float) -> float:
    """Return by how much more bets on a row are won than lost, at most.

    Who bets on whether a row was in the table wins with probability at most
    ``(e^epsilon + delta) / (1 + e^epsilon)``: the two errors of any test add up to at
    least ``2 (1 - delta) / (1 + e^epsilon)`` (Kairouz, Oh, Viswanath 2015, "The
    Composition Theorem for Differential Privacy", Theorem 2.1).
    """
    return 1 - 2 * (1 - delta) / (1 + math.exp(min(epsilon, MOST_EXPONENT)))


def epsilon_for(advantage: float, *, delta: float = 1e-5) -> float:
    """Return the epsilon at which bets on a row are won so seldom.

    Somebody who knows all other rows bets at even odds on whether a row was in the
    table, as in a privacy report.

    Parameters
    ----------
    advantage : float
        The largest share of bets that are won, less that of bets that are lost, above
        `delta` and below 1: .1 if 55 of 100 may be won. It is also the membership
        advantage: how much more often a test finds rows that are there than others.
    delta : float, default=1e-5
        The delta of the guarantee, in (0, 1).

    Returns
    -------
    float
        The largest epsilon, rounded down.

    Raises
    ------
    ValueError
        If `advantage` or `delta` is out of range.

    Examples
    --------
    >>> from skdpsynth.privacy import epsilon_for
    >>> round(epsilon_for(advantage=0.1), 3)
    0.201
    """
    check_range("delta", delta, 0 < delta < 1, "a number in (0, 1)")
    rule = f"above delta, {delta:g}, and below 1"
    check_range("advantage", advantage, delta < advantage < 1, rule)
    if advantage_of(sys.float_info.min, delta) > advantage:  # nearly delta
        return 0.0
    return _boundary(lambda epsilon: advantage_of(epsilon, delta) <= advantage)[0]


def grid_noise_std(mu: float, sensitivity: float) -> float:
    """Return the discrete Gaussian's sigma that makes a release mu-Gaussian-DP.

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
    return max(math.hypot(sensitivity / mu, 2.0), _MIN_NOISE_STD)


@lru_cache(maxsize=256)
def certified_epsilon(mu: float, delta: float) -> float:
    """Bound epsilon of mu-Gaussian DP by dp-accounting's loss distributions."""
    # The grid follows mu. Pessimistic by less than 2e-4 of epsilon for delta in [1e-13,
    # 1e-3], and by up to 1.3e-3 above epsilon 700, where e^epsilon overflows.
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    check_range("delta", delta, 0 < delta < 1, "a number in (0, 1)")
    if mu in (0.0, math.inf):
        return mu
    # Half as many cells, since rounding adds up at epsilon 1e-9. And at least 2e-5 of
    # mu^2, twice the mean loss: with more of them it takes seconds.
    cell = 2 * mu * max(1.0, mu / _MOST_MU**2) / _CELLS
    accountant = PLDAccountant(value_discretization_interval=cell)
    accountant.compose(GaussianDpEvent(1 / mu))
    # From about 710 on it may overflow, and the formula holds.
    certified = float(accountant.get_epsilon(delta))
    return certified if certified < math.inf else gdp_epsilon(mu, delta)


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
    classes are charged, each with its tail. Either row may discover a key. So what is
    aside counts twice. Where rows are sampled, both may be in one sample, and costs do
    not just add up. Removing one and adding the other are two steps then, ``(2
    epsilon', (1 + e^epsilon') delta')``, here for the best delta'. Where epsilon is
    large, what is aside leaves none.
    """
    if not amplified:
        return gdp_epsilon(2 * mu, delta - 2 * aside) if delta > 2 * aside else math.inf
    best = math.inf
    for exponent in range(1, 120):
        smaller = delta * 2.0 ** (-exponent / 4)
        if smaller <= aside:
            break
        epsilon = gdp_epsilon(mu, smaller - aside)
        if epsilon < MOST_EXPONENT and (1 + math.exp(epsilon)) * smaller <= delta:
            best = min(best, 2 * epsilon)
    return best


VoteNoise = Literal["gaussian", "laplace"]

# Outside of these the arithmetic is too coarse, and every release is charged alone; as
# where the tail is below `EXCESS`, and lost in the rounding of sums.
_LEAST_MU, _MOST_MU = 1e-3, 8.0
# How finely votes are computed: sets of so many compose, the grid has as many cells in
# the standard deviation of what a set loses, and the polygon as many corners. With 64
# noise is 0.4 % less, and the search takes half as long again.
_VOTES_AT_ONCE = 48
# Of the grid, in standard deviations of the loss: beyond is less than a double tells.
_REACH = -float(ndtri(sys.float_info.epsilon))
_LOG_RAREST = -42.0  # of an answer that is considered
_TAIL_STDS = _REACH - _LOG_RAREST  # how far a noise is summed: beyond such answers
_CLOSE = 1e-4  # relative distance from the cost aimed at


def votes_mu(noise_std: float, count: int, noise: VoteNoise, tail: float) -> float:
    """Bound the mu of a block of noisy one-bit votes; inf where no bound is known.

    `noise_std` is the sigma or scale of the discrete noise on the number of votes,
    `tail` the delta beside the Gaussian curve.

    A vote tells whether ``n + noise > k / 2``, and a row changes n by at most 1. Who
    asks chooses n anew at every vote. Let ``w_t(r)`` be the largest ``P(S) - r Q(S)``
    over all events S of t votes and all ways of choosing, where P and Q differ in one
    row. Then ``w_0(r) = max(0, 1 - r)``, and over the pairs (p, q) of the probabilities
    of a yes for n and n + 1 votes, or n + 1 and n,

        w_(t+1)(r) = max  p w_t(r q / p) + (1 - p) w_t(r (1 - q) / (1 - p)).

    That is exact against an adversary who sees every answer before the next question,
    with ``delta(epsilon) = w(e^epsilon)``. It is approximated from above: w is convex
    and interpolated linearly, and the right side is convex in (p, q), so that its
    maximum over all pairs is at most that over the corners of a polygon around them.
    The number of teachers makes no difference: n may be anything.
    """
    alone = _vote_alone_mu(noise_std, noise) * math.sqrt(count)
    if tail < EXCESS or math.sqrt(count) / noise_std > 3 * _MOST_MU:
        return alone
    at_once = min(count, _VOTES_AT_ONCE)
    cell = math.sqrt(at_once) / (noise_std * _VOTES_AT_ONCE)
    profiles = _profiles(_corners(noise_std, noise), at_once, noise_std, cell)
    losses = _as_losses(profiles[-1], cell).self_compose(count // at_once)
    if count % at_once:
        losses = losses.compose(_as_losses(profiles[count % at_once - 1], cell))
    return _dominating_mu(losses, tail, cell, math.sqrt(count) / noise_std, alone)


@lru_cache  # a plan and its fit ask the same
def steps_mu(
    noise_multiplier: float, sampling_rate: float, count: int, tail: float
) -> float:
    """Bound the mu of a block of Gaussian steps on Poisson samples, beside a tail."""
    from dp_accounting.pld import privacy_loss_distribution

    # Without a tail it is charged as if every row were in every step.
    alone = math.sqrt(count) / noise_multiplier
    if sampling_rate == 1.0 or tail < EXCESS:
        return alone
    # What many steps together would cost by the central limit theorem: a scale.
    spread = math.expm1(min(noise_multiplier**-2, 50.0))
    scale = min(sampling_rate * math.sqrt(count * spread), alone)
    if scale > 3 * _MOST_MU:
        return alone
    largest = (_REACH * noise_multiplier + 0.5) / noise_multiplier**2  # loss of a step
    largest = math.log1p(sampling_rate * math.expm1(min(largest, MOST_EXPONENT)))
    cell = max(min(scale, 2.0), largest) / _CELLS
    losses = privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier,
        sampling_prob=sampling_rate,
        value_discretization_interval=cell,
    ).self_compose(count)
    return _dominating_mu(losses, tail, cell, scale, alone)


@lru_cache(maxsize=256)
def vote_noise_std(mu: float, count: int, noise: VoteNoise, tail: float) -> float:
    """Return the sigma or scale of a block of votes that costs at most mu; or 0."""
    if noise not in get_args(VoteNoise) or count < 1:
        raise ValueError(
            'Expected noise "gaussian" or "laplace" and at least 1 vote. Got '
            f"{noise!r} and {count!r} instead."
        )
    if mu == math.inf:
        return 0.0
    each = mu / math.sqrt(count)
    if noise == "gaussian":
        alone = grid_noise_std(each, 1.0)
    else:  # undoes `_vote_alone_mu`
        alone = 1.0 / (float(log_ndtr(each / 2)) - float(log_ndtr(-each / 2)))
    if tail < EXCESS or not _LEAST_MU <= mu <= _MOST_MU:
        return alone
    # Of a block of many votes, over what as many Gaussian releases cost.
    limit = 2.0 / math.pi if noise == "gaussian" else 1.0
    start = math.sqrt(limit * count) / mu
    return _least(lambda std: votes_mu(std, count, noise, tail), mu, start, alone)


@lru_cache(maxsize=256)
def sampled_noise_multiplier(
    mu: float, sampling_rate: float, count: int, tail: float
) -> float:
    """Return the noise of a block of steps that costs at most mu, in clipping norms."""
    check_range("sampling_rate", sampling_rate, 0 < sampling_rate <= 1, "in (0, 1]")
    alone = math.sqrt(count) / mu
    if sampling_rate == 1.0 or tail < EXCESS or not _LEAST_MU <= mu <= _MOST_MU:
        return alone
    start = (math.log1p((mu / sampling_rate) ** 2 / count)) ** -0.5
    return _least(lambda s: steps_mu(s, sampling_rate, count, tail), mu, start, alone)


def _vote_alone_mu(noise_std: float, noise: VoteNoise) -> float:
    """Return the mu of one noisy count, which a vote is a post-processing of."""
    if noise == "laplace":
        # A pure 1/b guarantee is dominated by the Gaussian whose curve touches it.
        return -2.0 * float(ndtri_exp(-np.logaddexp(0.0, 1 / noise_std)))
    return (noise_std**2 - 2.0**2) ** -0.5 if noise_std >= _MIN_NOISE_STD else math.inf


def _corners(noise_std: float, noise: VoteNoise) -> tuple[Floats, ...]:
    """Return a polygon around all pairs (p, q), as logs of p, q, 1 - p and 1 - q.

    The pairs are points ``(P(Z >= j), P(Z >= j - 1))`` for all integers j and, by the
    symmetry of the noise, it is enough to take j >= 1 and to exchange p and q. They
    lie on a concave curve, whose slopes are ratios of masses; so the lines through
    some neighbours meet outside of it. Near p = q = 0 or 1 the polygon is open: there
    a vote tells nothing, ``w_t(r)``, which by convexity is no more than at any corner.
    """
    reach = int(_TAIL_STDS * noise_std) + 2
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    if noise == "gaussian":
        log_mass = -0.5 * (values / noise_std) ** 2
    else:
        log_mass = -np.abs(values) / noise_std
    log_mass -= logsumexp(log_mass)
    above = np.logaddexp.accumulate(log_mass[::-1])[::-1][reach:]  # of j = 0, 1, ...
    n_points = max(int((above > _LOG_RAREST).sum()) - 1, 1)
    log_p, log_q = above[1 : n_points + 1], above[:n_points]
    if n_points > _VOTES_AT_ONCE:
        edges = np.linspace(0, n_points - 2, _VOTES_AT_ONCE)
        edges = np.unique(edges.round().astype(int))
        mass = log_mass[reach:]
        slopes = np.exp(mass[edges] - mass[edges + 1])
        p, q = np.exp(log_p[edges]), np.exp(log_q[edges])
        bends = np.diff(slopes) > 1e-12 * slopes[1:]  # Laplace noise has none
        edges, slopes, p, q = (
            part[np.concatenate(([True], bends))] for part in (edges, slopes, p, q)
        )
        move = -np.diff(q) + slopes[1:] * np.diff(p)
        move /= np.diff(slopes)
        ends = np.array([0, n_points - 1])
        log_p = np.concatenate((log_p[ends], np.log(p[:-1] + move)))
        log_q = np.concatenate((log_q[ends], np.log(q[:-1] + slopes[:-1] * move)))
    # What is rarer than all of these: a yes in one world only.
    log_p = np.append(log_p, -math.inf)
    log_q = np.append(log_q, above[n_points])
    log_p, log_q = np.append(log_p, log_q), np.append(log_q, log_p)
    with np.errstate(divide="ignore"):
        rest_p, rest_q = (np.log1p(-np.exp(part)) for part in (log_p, log_q))
    return log_p, log_q, rest_p, rest_q


def _profiles(
    corners: tuple[Floats, ...], count: int, noise_std: float, cell: float
) -> list[Floats]:
    """Iterate ``w_t`` for t = 1, ..., count, at ``log r`` = -half, ..., half cells."""
    whole = math.sqrt(count) / noise_std
    half = math.ceil((whole**2 / 2 + _REACH * whole) / cell)
    log_p, log_q, rest_p, rest_q = corners
    moves, sure = [], np.zeros(len(log_p))
    for log_chance, log_other in (log_p, log_q), (rest_p, rest_q):
        with np.errstate(invalid="ignore"):  # an answer that neither world gives
            loss = np.nan_to_num(log_other - log_chance, nan=0.0)
        chance = np.exp(log_chance)
        # Right of the grid w is no larger than at its end, left of it no larger than 1.
        beyond = loss < -half * cell
        sure += np.where(beyond, chance, 0.0)
        loss = np.clip(loss, -half * cell, half * cell)
        place = np.clip(np.floor(loss / cell), -half, half)
        upper = np.expm1(loss - place * cell) / math.expm1(cell)  # linear in r
        chance = np.where(beyond, 0.0, chance) * np.stack([1.0 - upper, upper])
        moves.append((chance, place.astype(np.int64) + half))
    n = 2 * half + 1
    fraction = np.exp(cell * np.arange(-half, 0.0))  # of r, over the grid's first
    w = np.maximum(0.0, -np.expm1(cell * np.arange(-half, half + 1)))
    profiles = []
    for _ in range(count):
        # Left of the grid w is below its chord from w(0) = 1.
        left, right = 1.0 + (w[0] - 1.0) * fraction, np.full(half + 1, w[-1])
        padded = np.concatenate((left, w, right))
        w = np.zeros(n)
        for i in range(len(log_p)):
            value = np.full(n, sure[i])
            for chance, place in moves:
                start = place[i]
                value += chance[0, i] * padded[start : start + n]
                value += chance[1, i] * padded[start + 1 : start + 1 + n]
            np.maximum(w, value, out=w)
        profiles.append(w)
    return profiles


def _as_losses(profile: Floats, cell: float) -> PrivacyLossDistribution:
    """Turn a profile that is linear between multiples of a cell into its losses.

    The slope of ``w(r) = P(S) - r Q(S)`` changes at r by the mass that Q has where the
    ratio of P and Q is r.
    """
    from dp_accounting.pld import privacy_loss_distribution

    half = len(profile) // 2
    losses = cell * np.arange(-half, half + 1)
    ratio = np.exp(losses)
    inner = np.diff(profile) / np.diff(ratio)
    slopes = np.concatenate(([(profile[0] - 1.0) / ratio[0]], inner, [0.0]))
    mass = ratio * np.maximum(np.diff(slopes), 0.0)
    used = np.flatnonzero(mass)
    upper = dict(zip(used.tolist(), np.log(mass[used]).tolist(), strict=True))
    # A hair less, so that rounding up to the grid leaves the losses where they are.
    lower = {i: log - losses[i] + 1e-7 * cell for i, log in upper.items()}
    upper[-1] = math.log(max(profile[-1], 1.0 - float(mass.sum()), 1e-300))
    return privacy_loss_distribution.from_two_probability_mass_functions(
        lower, upper, value_discretization_interval=cell
    )


def _dominating_mu(
    losses: PrivacyLossDistribution,
    tail: float,
    cell: float,
    scale: float,
    alone: float,
) -> float:
    """Find the least mu whose profile, with the tail, is above that of the losses.

    Both are compared at multiples of the cell. Between them the profile of the losses
    is linear in r = e^epsilon, and that of the Gaussian, which is convex, lies below
    its chord. Its second derivative there is ``density / (mu r)``, convex itself where
    it counts, so the gap is at most a sixth of it times the squared distance.
    """
    top = losses.get_epsilon_for_delta(tail)
    if top == math.inf:
        return alone
    epsilon = cell * np.arange(math.ceil(top / cell) + 1)
    needed = (np.asarray(losses.get_delta_for_epsilon(epsilon)) - tail) / (1.0 - tail)
    epsilon, needed = epsilon[needed > 0], needed[needed > 0]
    gap = math.expm1(cell) ** 2 / 6

    def above(mu: float) -> bool:
        upper = log_ndtr(mu / 2 - epsilon / mu)
        lower = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        delta = np.exp(upper) * -np.expm1(np.minimum(lower - upper, 0.0))
        density = np.exp(-0.5 * (epsilon / mu - mu / 2) ** 2) / math.sqrt(2 * math.pi)
        return bool(np.all(needed <= delta - gap * density / mu))

    high = scale
    while not above(high):
        if high >= min(alone, 100 * _MOST_MU):
            return alone
        high = min(1.5 * high, alone)
    low = high / 1.5
    while above(low) and low > 1e-9:
        low /= 1.5
    while high > low * (1 + _CLOSE / 10):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if above(middle) else (middle, high)
    return min(high, alone)


def _least(
    cost: Callable[[float], float], mu: float, start: float, alone: float
) -> float:
    """Return the noise, up to `alone`, that costs mu or a little less."""
    # A secant method on logarithms, of the noise over `alone`, which costs mu at most.
    low, high, last = -math.inf, 0.0, None
    x = min(math.log(start / alone), high)
    while high - low > _CLOSE:
        y = math.log(cost(alone * math.exp(x)) / mu)
        low, high = (x, high) if y > 0 else (low, x)
        if -2 * _CLOSE <= y <= 0:
            break
        slope = -1.0
        if last is not None and math.isfinite(y - last[1]):
            slope = min((y - last[1]) / (x - last[0]), -0.1)
        last = x, y
        x = max(x - 1.0, min(x - (y + _CLOSE) / slope, x + 1.0))
        if not low < x < high:
            x = (max(low, high - 2) + high) / 2
    return alone * math.exp(high)
