"""The Gaussian curve and its inverses, and what noise of whole numbers costs."""

import itertools
import math
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from skdpsynth.privacy import (
    PrivacyAccountant,
    epsilon_for,
    gdp_epsilon,
    grid_noise_std,
    sampled_noise_multiplier,
    steps_mu,
    vote_noise_std,
)
from skdpsynth.privacy._report import _won_bets

EPSILONS = (1e-4, 1e-2, 0.1, 1.0, 3.0, 10.0, 50.0, 1e3)
DELTAS = (1e-12, 1e-9, 1e-5, 1e-3, 0.5)
GRID = list(itertools.product(EPSILONS, DELTAS))


def exact_delta(mu, epsilon):
    """Evaluate the Gaussian curve with 60 digits."""
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_inverses_of_the_curve_are_tight(epsilon, delta):
    """And on the safe side, by a curve of 60 digits."""
    mu = PrivacyAccountant(epsilon, delta).mu_cap
    assert exact_delta(mu, epsilon) <= delta
    assert exact_delta(mu * (1 + 2e-3), epsilon) > delta
    back = gdp_epsilon(mu, delta)
    assert back == pytest.approx(epsilon, rel=5e-3)
    assert exact_delta(mu, back) <= delta
    # Tight in delta: a large delta hardly determines a small epsilon.
    assert exact_delta(mu, back * (1 - 1e-6)) > delta * (1 - 2e-7)


def discrete_delta(sigma, shift, epsilon):
    """Sum the exact hockey-stick divergence of the discrete Gaussian."""
    radius = int(40 * sigma) + shift
    z = np.arange(-radius, radius + 1, dtype=np.float64)
    log_p = -(z**2) / (2 * sigma**2)
    total = np.exp(log_p).sum()
    log_q = -((z - shift) ** 2) / (2 * sigma**2)
    return float(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0).sum() / total)


@pytest.mark.parametrize("shift", [1, 2, 7])
@pytest.mark.parametrize("sigma", [3.0, 4.3, 25.0])
def test_discrete_gaussian_is_below_the_curve_it_counts_as(sigma, shift):
    mu = shift / math.sqrt(sigma**2 - 4)
    for epsilon in np.linspace(0.0, mu * 6, 40):
        claimed = float(exact_delta(mu, float(epsilon)))
        assert discrete_delta(sigma, shift, float(epsilon)) <= claimed + 1e-15


def test_without_the_four_the_claim_would_be_broken():
    """Sigma itself is not an upper bound."""
    assert any(
        discrete_delta(3.0, 1, epsilon) > 1.01 * exact_delta(1 / 3, epsilon)
        for epsilon in np.linspace(0.0, 1.5, 40).tolist()
    )


TAIL = 1e-7
OF_BLOCKS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)


def claimed(mu, epsilon, tail=TAIL):
    """The delta of the Gaussian curve, and the tail that is set aside."""
    low, high = norm.cdf([-epsilon / mu - mu / 2, -epsilon / mu + mu / 2])
    return tail + (1 - tail) * (high - math.exp(epsilon) * low)


def pairs_of(noise_std, noise, rarest=1e-15):
    """Probabilities of a yes in both worlds, for every number of votes."""
    reach = int(45 * noise_std) + 3
    values = np.arange(-reach, reach + 1)
    scaled = values / noise_std
    mass = np.exp(-(scaled**2) / 2 if noise == "gaussian" else -np.abs(scaled))
    ones = np.cumsum((mass / mass.sum())[::-1])[::-1]
    ones = np.clip(ones[(ones > rarest) & (ones < 1 - rarest)], 0.0, 1.0)
    ordered = list(itertools.pairwise(ones))
    return np.array(ordered + [pair[::-1] for pair in ordered])


def by_game_tree(pairs, n_votes, ratio):
    """Play every question against every answer: exact, without a grid."""
    if n_votes == 0:
        return np.maximum(0.0, 1.0 - ratio)
    p, q = pairs.T
    yes = by_game_tree(pairs, n_votes - 1, ratio[..., None] * q / p)
    no = by_game_tree(pairs, n_votes - 1, ratio[..., None] * (1 - q) / (1 - p))
    return (p * yes + (1 - p) * no).max(axis=-1)


def by_iteration(pairs, n_votes, epsilons):
    """Iterate over all pairs on a fine grid; an upper bound, and nearly exact."""
    grid = np.exp(np.linspace(-14, 14, 2_801))
    value = np.maximum(0.0, 1.0 - grid)
    for _ in range(n_votes):
        following = np.zeros_like(value)
        for p, q in pairs:
            yes = p * np.interp(grid * q / p, grid, value)
            no = (1 - p) * np.interp(grid * (1 - q) / (1 - p), grid, value)
            np.maximum(following, yes + no, out=following)
        value = following
    return np.interp(np.exp(epsilons), grid, value)


def noise_and_cost(mu, n_votes, noise, epsilons, by):
    """Give exact deltas, and those that are claimed for mu and for a little less."""
    noise_std = vote_noise_std(mu, n_votes, noise, TAIL)
    exact = by(noise_std, n_votes, np.asarray(epsilons))
    claims = ([claimed(m, epsilon) for epsilon in epsilons] for m in (mu, 0.97 * mu))
    return exact, *map(np.array, claims)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("n_votes", [1, 2, 3])
@pytest.mark.parametrize("mu", [0.8, 1.7, 4.0])
def test_votes_cost_what_the_best_adversary_learns(noise, n_votes, mu):
    """It asks anew after every answer, in either world, of any number of votes.

    And no more: somewhere a few hundredths less would not do.
    """

    def by_tree(noise_std, n_votes, epsilons):
        pairs = pairs_of(noise_std, noise, rarest=1e-15 if n_votes < 3 else 1e-5)
        return by_game_tree(pairs, n_votes, np.exp(epsilons))

    exact, found, _ = noise_and_cost(mu, n_votes, noise, OF_BLOCKS, by_tree)
    assert (exact <= found * (1 + 1e-12)).all()
    dense = np.linspace(0, 8, 25 if n_votes < 3 else 9)
    exact, _, less = noise_and_cost(mu, n_votes, noise, dense, by_tree)
    assert (exact > less).any()


@pytest.mark.parametrize(("mu", "n_votes"), [(1.7, 10), (2.1, 64), (1.7, 70), (2, 130)])
def test_many_votes_cost_what_the_best_adversary_learns(mu, n_votes):
    """More than are iterated at once, where the rest composes."""

    def iterated(noise_std, n_votes, epsilons):
        return by_iteration(pairs_of(noise_std, "gaussian"), n_votes, epsilons)

    dense = np.linspace(0.0, 4.0, 41)
    exact, found, less = noise_and_cost(mu, n_votes, "gaussian", dense, iterated)
    assert (exact <= found).all()
    assert (exact > less).any()


def test_votes_alone_cost_a_noisy_count():
    """Without a tail; for Laplace noise, by the Gaussian curve that touches its own."""
    assert vote_noise_std(0.1, 25, "gaussian", 0.0) == pytest.approx(50.04, abs=0.01)
    for mu in (0.01, 0.3, 2.0):
        pure = 1 / vote_noise_std(mu, 1, "laplace", 0.0)
        for epsilon in np.linspace(0, 1.2 * pure, 40):
            delta = (math.exp(pure) - math.exp(epsilon)) / (1 + math.exp(pure))
            assert max(delta, 0.0) <= claimed(mu, epsilon, 0.0) * (1 + 1e-9) + 1e-15


BLOCKS = [(0.01, 1.0, 100), (0.1, 4.0, 300), (0.5, 3.0, 12), (0.002, 0.8, 2_000)]


@cache
def losses_of(rate, noise, count):
    """The exact profile, up to a grid seven times finer than that of the block."""
    from dp_accounting.pld import privacy_loss_distribution

    single = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=1e-4
    )
    return single.self_compose(count)


@pytest.mark.parametrize(("rate", "noise", "count"), BLOCKS)
def test_steps_cost_their_profile(rate, noise, count):
    """At every epsilon, also between the points where they were compared."""
    mu = steps_mu(noise, rate, count, TAIL)
    losses = losses_of(rate, noise, count)
    epsilons = np.linspace(0.0, 8.0, 997)
    exact = np.asarray(losses.get_delta_for_epsilon(epsilons))
    found = np.array([claimed(mu, epsilon) for epsilon in epsilons])
    assert (exact <= found + 1e-9).all()
    less = np.array([claimed(0.98 * mu, epsilon) for epsilon in epsilons])
    assert (exact > less).any()


@pytest.mark.parametrize(
    ("rate", "mu", "count"),
    [(0.6, 0.05, 10), (0.001, 0.5, 200), (0.05, 0.5, 200), (0.6, 3.0, 30)],
)
def test_the_noise_of_a_step_is_the_least_for_its_charge(rate, mu, count):
    noise = sampled_noise_multiplier(mu, rate, count, TAIL)
    assert steps_mu(noise, rate, count, TAIL) <= mu * (1 + 1e-9)
    assert steps_mu(0.998 * noise, rate, count, TAIL) > mu
    # Where nothing is set aside, or every row is in every step, it is that of all.
    alone = math.sqrt(count) / mu
    assert sampled_noise_multiplier(mu, rate, count, 0.0) == pytest.approx(alone)
    assert sampled_noise_multiplier(mu, 1.0, count, TAIL) == pytest.approx(alone)
    assert noise < alone


def test_rarely_sampled_rows_are_charged_less():
    """At epsilon 0 a step costs its rate times what it would cost on all rows."""
    rates = (1e-9, 1e-6, 1e-5, 1e-3, 0.1)
    costs = [steps_mu(3.0, rate, 1, TAIL) for rate in rates]
    assert costs == sorted(costs)
    assert 0 < costs[0] < costs[1] < 1e-3 < costs[-1]
    for rate, mu in zip(rates, costs, strict=True):
        assert rate * claimed(1 / 3, 0.0, 0.0) <= claimed(mu, 0.0)


def test_the_ends():
    assert gdp_epsilon(math.inf, 1e-5) == math.inf
    assert gdp_epsilon(0.0, 1e-5) == gdp_epsilon(1e-9, 1e-5) == 0.0
    assert grid_noise_std(math.inf, 5.0) == 0.0
    assert grid_noise_std(10.0, 1.0) == 3.0  # never less: the rule holds from 3 on
    assert sampled_noise_multiplier(math.inf, 0.1, 3, TAIL) == 0.0
    for noise in ("gaussian", "laplace"):
        assert vote_noise_std(math.inf, 10, noise, TAIL) == 0.0


NO_DELTAS = (0.0, 1.0, -1.0, math.nan)
NO_NOISE = [(0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (1.0, 0.0), (1.0, math.inf)]
NO_VOTES = [(0.1, 0, "gaussian"), (0.1, 0, "laplace"), (0.1, 10, "uniform")]
OUT_OF_RANGE = [
    *((gdp_epsilon, (1.0, delta), r"a number in \(0, 1\)") for delta in NO_DELTAS),
    *((gdp_epsilon, (mu, 1e-5), "must be a number >= 0") for mu in (-1.0, math.nan)),
    *((grid_noise_std, bad, "must be") for bad in NO_NOISE),
    *((vote_noise_std, (*bad, TAIL), "at least 1 vote") for bad in NO_VOTES),
    *(
        (sampled_noise_multiplier, (0.1, rate, 1, TAIL), "sampling_rate must be in")
        for rate in (0.0, 1.1, -1.0)
    ),
    *(
        (lambda bet, delta: epsilon_for(bet, delta=delta), bad, "must be")
        for bad in ((1, 0.1), (0.1, 0.1), (0.5, 1), (0, 0))
    ),
]


@pytest.mark.parametrize(("function", "numbers", "words"), OUT_OF_RANGE)
def test_arguments_out_of_range(function, numbers, words):
    with pytest.raises(ValueError, match=words):
        function(*numbers)


def test_a_whole_plan_is_within_what_its_sum_says():
    """Gaussian releases, votes and steps: the sum of mu^2 against one convolution."""
    from dp_accounting.pld import privacy_loss_distribution

    total = PrivacyAccountant(1.0, 1e-5 - TAIL).mu_cap
    noise = sampled_noise_multiplier(0.6 * total, 0.1, 60, TAIL)
    steps = losses_of(0.1, noise, 60)
    counts = privacy_loss_distribution.from_gaussian_mechanism(
        1 / (0.8 * total), value_discretization_interval=1e-4
    )
    assert 0.97 < steps.compose(counts).get_epsilon_for_delta(1e-5) <= 1.0


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.05])
@pytest.mark.parametrize("advantage", [0.0500001, 0.1, 0.464, 0.999, 1 - 1e-9])
def test_the_epsilon_of_a_bet_is_that_of_the_report(advantage, delta):
    """The bets won less those lost, as exact numbers; a larger epsilon is too much."""
    epsilon = epsilon_for(advantage, delta=delta)
    grown = [mpmath.exp(epsilon * factor) for factor in (1, 1 + 1e-6)]
    won = [(x + mpmath.mpf(delta)) / (1 + x) for x in grown]
    assert 2 * won[0] - 1 <= advantage * (1 + 1e-12)
    assert 2 * won[1] - 1 > advantage - 1e-15
    percent = float(_won_bets(epsilon, delta))
    assert -1e-9 < percent - 50 * (1 + advantage) < 0.1 + 1e-9
