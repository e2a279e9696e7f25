"""Lower bounds against closed forms, independent sums and the published figures."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest, multinomial, norm

from skdpsynth.audit import (
    curve_lower_bound,
    epsilon_lower_bound,
    guessing_lower_bound,
    mu_lower_bound,
    one_run_lower_bound,
)

DELTA = 1e-5


@pytest.mark.parametrize("n_trials", [1, 7, 100])
@pytest.mark.parametrize("alpha", [0.05, 1e-6])
def test_the_rate_is_that_of_clopper_and_pearson(n_trials, alpha):
    for n_errors in range(n_trials + 1):
        test = binomtest(n_errors, n_trials, alternative="less")
        rate = test.proportion_ci(1 - alpha, method="exact").high
        ours = guessing_lower_bound(n_errors, n_trials, alpha=alpha)
        assert ours == pytest.approx(max(0.0, -2 * norm.ppf(rate)), abs=1e-8)


def test_ceilings_of_a_perfect_attack():
    """Published figures; without errors the rate is 1 - (alpha / 2)^(1 / n)."""
    ceilings = {20: 1.60, 40: 2.34, 100: 3.28, 200: 3.98, 500: 4.91, 1000: 5.60}
    for n_runs, ceiling in ceilings.items():
        bound = epsilon_lower_bound(0, 0, n_runs, delta=DELTA)
        assert bound == pytest.approx(ceiling, abs=0.006)
        rate = 1 - 0.025 ** (1 / n_runs)
        assert bound == pytest.approx(math.log((1 - rate - DELTA) / rate))


@pytest.mark.parametrize("chance", [0.02, 0.2, 1 / (1 + math.e), 0.5])
def test_a_true_claim_is_exceeded_with_probability_alpha_at_most(chance):
    """Randomized response, by summing over all outcomes: no draw, no luck."""
    n_runs, alpha = 60, 0.05
    law = binom.pmf(np.arange(n_runs + 1), n_runs, chance)
    truth = math.log((1 - chance) / chance)
    errors = range(n_runs + 1)
    bounds = [
        [epsilon_lower_bound(a, b, n_runs, delta=0.0, alpha=alpha) for a in errors]
        for b in errors
    ]
    assert law @ (np.array(bounds) > truth) @ law <= alpha


# --- Guesses ----------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.0, 0.05, 0.268, 1.0, 3.0])
@pytest.mark.parametrize("alpha", [0.05, 1e-3])
def test_guesses_exceed_the_true_mu_with_probability_alpha_at_most(mu, alpha):
    """By summing over all outcomes of 200 guesses."""
    wrong = range(201)
    bounds = np.array([guessing_lower_bound(k, 200, alpha=alpha) for k in wrong])
    assert binom.pmf(wrong, 200, norm.cdf(-mu / 2)) @ (bounds > mu) <= alpha


def test_no_errors_in_closed_form():
    """One rate at alpha shows more than two at half of it, from as many runs."""
    expected = -2 * norm.ppf(1 - 0.05 ** (1 / 50))
    assert guessing_lower_bound(0, 50) == pytest.approx(expected)
    expected = -2 * norm.ppf(1 - 0.025 ** (1 / 50))
    assert mu_lower_bound(0, 0, 50) == pytest.approx(expected)
    for wrong in (25, 50):
        assert guessing_lower_bound(wrong, 50) == mu_lower_bound(wrong, wrong, 50) == 0
    assert guessing_lower_bound(60, 200) > mu_lower_bound(30, 30, 100)


# --- The whole curve ----------------------------------------------------------------


def censored(x):
    return np.where(x > 1, np.inf, np.where(x < -1, -np.inf, x))


def half_hidden(x):
    return np.where(np.arange(len(x)) % 2, x, 0.5)


def laplace(mu):
    """Draw what is private for the epsilon whose curve touches that of mu."""
    epsilon = math.log(norm.cdf(mu / 2) / norm.cdf(-mu / 2))
    return lambda rng, coins: coins * epsilon + rng.laplace(size=len(coins))


def normal(mu, then=np.positive):
    return lambda rng, coins: then(coins * mu + rng.normal(size=len(coins)))


@pytest.mark.parametrize(
    ("draw", "mu", "n_runs"),
    [
        (normal(0.0), 0.0, 40),
        (normal(3.0), 3.0, 40),
        (laplace(1.0), 1.0, 100),
        (normal(1.0, np.round), 1.0, 100),
        (normal(1.0, half_hidden), 1.0, 100),
        (normal(1.0, censored), 1.0, 100),
    ],
)
def test_a_curve_at_or_above_that_of_mu_is_exceeded_with_alpha_at_most(
    draw, mu, n_runs
):
    """Of 150 audits at .05 so many that it happens in one of 1e7 series, or fewer."""
    rng, above = np.random.default_rng(), 0
    for _ in range(150):
        coins = rng.integers(2, size=n_runs)
        scores = draw(rng, coins)
        above += curve_lower_bound(scores[coins == 0], scores[coins == 1]) > mu
    assert binom.sf(above - 1, 150, 0.05) >= 1e-7


@pytest.mark.parametrize("alpha", [0.05, 0.5])
def test_randomized_response_is_exceeded_with_alpha_at_most(alpha):
    """It touches the curve of mu. By summing over all outcomes: no draw, no luck."""
    n_runs = 8
    outcomes = [k for k in product(range(n_runs + 1), repeat=4) if sum(k) == n_runs]
    bounds = []
    for low, false_alarms, misses, high in outcomes:
        sides = (
            np.repeat([0, 1], [low, false_alarms]),
            np.repeat([0, 1], [misses, high]),
        )
        bounds.append(curve_lower_bound(*sides, alpha=alpha))
    for mu in [0.0, 0.05, 0.268, 0.5, 1.0, 1.5, 2.0]:
        right, wrong = norm.cdf(mu / 2) / 2, norm.cdf(-mu / 2) / 2
        law = multinomial.pmf(outcomes, n_runs, [right, wrong, wrong, right])
        assert law @ (np.array(bounds) > mu) <= alpha
    assert 0 < max(bounds) < guessing_lower_bound(0, n_runs, alpha=alpha)


def test_scores_count_by_their_order_and_the_confidence():
    """The quantiles of both worlds in place of draws."""
    without = norm.ppf((np.arange(300) + 0.5) / 300)
    alphas = (1e-6, 0.01, 0.05, 0.5)
    bounds = [curve_lower_bound(without, without + 1.0, alpha=a) for a in alphas]
    assert 0 < bounds[0] < bounds[1] < bounds[2] < bounds[3] < 1.1
    assert curve_lower_bound(np.exp(without), np.exp(without + 1.0)) == bounds[2]
    assert curve_lower_bound(without + 1.0, without) == 0  # it takes the wrong side


def test_scores_that_say_nothing():
    for alike in ([1] * 50, [1] * 50), ([], [0.0, 1.0]), ([2.0], []), ([0], [1]):
        assert curve_lower_bound(*alike) == 0
    assert curve_lower_bound([1e9], [-math.inf]) == 0


# --- One run ----------------------------------------------------------------------


def test_right_guesses_needed():
    """Published figures."""
    needed = {20: 19, 50: 43, 100: 81, 200: 157, 500: 383, 1000: 755}
    cases = [(1.0, *case) for case in needed.items()]
    for claim, n_guesses, enough in [*cases, (4.0, 200, 200), (4.0, 500, 497)]:
        assert one_run_lower_bound(enough, n_guesses) > claim
        assert one_run_lower_bound(enough - 1, n_guesses) <= claim


def test_the_bound_is_where_the_formula_has_the_level():
    """The theorem written out as it is printed, with loops."""

    def tail_of(v, r, m, epsilon, delta):
        chance = math.exp(epsilon) / (1 + math.exp(epsilon))
        pmf = [
            math.comb(r, k) * chance**k * (1 - chance) ** (r - k) for k in range(r + 1)
        ]
        tails = [sum(pmf[max(least, 0) :]) for least in range(v - m, v + 1)]
        steepest = max((tails[-1 - i] - tails[-1]) / i for i in range(1, m + 1))
        return tails[-1] + 2 * m * delta * steepest

    for v, m, delta in product([17, 19, 20], [20, 50], [0.0, 1e-5, 1e-4]):
        options = {"n_canaries": m, "delta": delta, "alpha": 0.05}
        bound = one_run_lower_bound(v, 20, **options)
        assert bound > 0
        assert tail_of(v, 20, m, bound, delta) == pytest.approx(0.05, rel=1e-3)


RATES = partial(epsilon_lower_bound, delta=DELTA)
OUT_OF_RANGE = [
    (curve_lower_bound, ([], []), "and a run"),
    (curve_lower_bound, ([0.0, math.nan], [1.0]), "1 nan"),
    (curve_lower_bound, ([[0.0]], [1.0]), "one number"),
    (partial(curve_lower_bound, alpha=0.0), ([0.0], [1.0]), "alpha must be in"),
    (RATES, (-1, 0, 5), "false_alarms and misses"),
    (mu_lower_bound, (0, 6, 5), "false_alarms and misses"),
    (guessing_lower_bound, (6, 5), "n_wrong in"),
    (one_run_lower_bound, (3, 2), "n_correct <= n_guesses"),
    (partial(one_run_lower_bound, n_canaries=1), (1, 2), "n_canaries"),
    (partial(epsilon_lower_bound, delta=1.0), (0, 0, 5), "delta must be in"),
    (partial(mu_lower_bound, alpha=0.0), (0, 0, 5), "alpha must be in"),
    (partial(guessing_lower_bound, alpha=1.0), (0, 5), "alpha must be in"),
    (partial(one_run_lower_bound, delta=1.0), (1, 2), "delta must be in"),
]


@pytest.mark.parametrize(("bound", "numbers", "words"), OUT_OF_RANGE)
def test_numbers_out_of_range(bound, numbers, words):
    with pytest.raises(ValueError, match=words):
        bound(*numbers)
