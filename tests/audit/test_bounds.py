"""Lower bounds against closed forms, independent sums and the published figures."""

from __future__ import annotations

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from skdpsynth.audit import (
    epsilon_lower_bound,
    guessing_lower_bound,
    mu_lower_bound,
    one_run_lower_bound,
)
from skdpsynth.audit._bounds import (
    _one_run_tail,
    detectable_epsilon,
    epsilon_bounds,
    rate_upper_bound,
)

DELTA = 1e-5
OUT_OF_RANGE = [(-1, 0, 5), (0, 6, 5), (0, 0, 0)]


@pytest.mark.parametrize("n_trials", [1, 7, 100])
@pytest.mark.parametrize("alpha", [0.05, 1e-6])
def test_the_rate_is_that_of_clopper_and_pearson(n_trials, alpha):
    for n_errors in range(n_trials + 1):
        ours = float(rate_upper_bound(n_errors, n_trials, alpha))
        test = binomtest(n_errors, n_trials, alternative="less")
        theirs = test.proportion_ci(1 - alpha, method="exact").high
        assert ours == pytest.approx(theirs, rel=1e-9)
        # What defines it: so few errors have just probability alpha there.
        if n_errors < n_trials:
            assert binom.cdf(n_errors, n_trials, ours) == pytest.approx(alpha)


@pytest.mark.parametrize(
    ("n_runs", "ceiling"),
    [(20, 1.60), (40, 2.34), (100, 3.28), (200, 3.98), (500, 4.91), (1000, 5.60)],
)
def test_ceilings_of_a_perfect_attack(n_runs, ceiling):
    """Published figures; without errors the rate is 1 - (alpha / 2)^(1 / n)."""
    bound = epsilon_lower_bound(0, 0, n_runs, delta=DELTA)
    assert bound == pytest.approx(ceiling, abs=0.006)
    rate = 1 - 0.025 ** (1 / n_runs)
    assert bound == pytest.approx(math.log((1 - rate - DELTA) / rate))


@pytest.mark.parametrize(
    ("hit", "alarm", "n_epsilon", "n_mu"),
    [(1.0, 0.0, 15, 10), (0.9, 0.1, 30, 10), (0.8, 0.2, 200, 20), (0.5, 0.05, 80, 30)],
)
def test_runs_to_reject_an_epsilon_of_one(hit, alarm, n_epsilon, n_mu):
    """Published figures: so many runs are enough for the attack's expected errors."""
    errors = (round(alarm * n_epsilon), round((1 - hit) * n_epsilon))
    assert epsilon_lower_bound(*errors, n_epsilon, delta=DELTA) > 1
    assert epsilon_lower_bound(*errors[::-1], n_epsilon, delta=DELTA) > 1
    errors = (round(alarm * n_mu), round((1 - hit) * n_mu))
    assert mu_lower_bound(*errors, n_mu) > 0.268


def test_mu_in_closed_form():
    """Without errors both quantiles are those of 1 - (alpha / 2)^(1 / n)."""
    expected = -2 * norm.ppf(1 - 0.025 ** (1 / 50))
    assert mu_lower_bound(0, 0, 50) == pytest.approx(expected)
    assert mu_lower_bound(25, 25, 50) == mu_lower_bound(50, 50, 50) == 0


@pytest.mark.parametrize("chance", [0.02, 0.2, 1 / (1 + math.e), 0.5])
def test_a_true_claim_is_exceeded_with_probability_alpha_at_most(chance):
    """Randomized response, by summing over all outcomes: no draw, no luck."""
    n_runs, alpha = 60, 0.05
    law = binom.pmf(np.arange(n_runs + 1), n_runs, chance)
    truth = math.log((1 - chance) / chance)
    errors = np.arange(n_runs + 1)
    pairs = (errors[:, None], errors[None, :])
    wrong = epsilon_bounds(*pairs, n_runs, 0.0, alpha) > truth
    assert law @ wrong @ law <= alpha


# --- Guesses ----------------------------------------------------------------------

MUS = [0.0, 0.05, 0.268, 1.0, 3.0]


def share_above(bound, mu, n_guesses=200):
    """How often a bound is above the truth, by summing over all outcomes."""
    wrong = np.arange(n_guesses + 1)
    above = np.array([bound(int(k), n_guesses) for k in wrong]) > mu
    return binom.pmf(wrong, n_guesses, norm.cdf(-mu / 2)) @ above


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("alpha", [0.05, 1e-3])
def test_guesses_exceed_the_true_mu_with_probability_alpha_at_most(mu, alpha):
    def bound(wrong, n):
        return guessing_lower_bound(wrong, n, alpha=alpha)

    assert share_above(bound, mu) <= alpha


def test_the_share_of_wrong_guesses_alone_is_no_bound():
    """The twin without confidence is above the truth in half of all audits."""

    def estimate(wrong, n):
        return -2 * norm.ppf(wrong / n)

    assert min(share_above(estimate, mu) for mu in MUS) > 0.4


@pytest.mark.parametrize("mu", MUS)
def test_no_attack_guesses_better_than_one_that_errs_alike(mu):
    """All thresholds of the best test: the errors add up to 2 Phi(-mu / 2) at least."""
    alarms = norm.cdf(np.linspace(-8, 8, 2001))
    misses = norm.cdf(norm.ppf(1 - alarms) - mu)
    assert (alarms + misses).min() >= 2 * norm.cdf(-mu / 2) - 1e-12
    assert (alarms + misses).min() == pytest.approx(2 * norm.cdf(-mu / 2), rel=1e-4)


def test_guesses_in_closed_form_and_against_two_rates():
    """One rate at alpha shows more than two at half of it, from as many runs."""
    expected = -2 * norm.ppf(1 - 0.05 ** (1 / 50))
    assert guessing_lower_bound(0, 50) == pytest.approx(expected)
    assert guessing_lower_bound(25, 50) == guessing_lower_bound(50, 50) == 0
    assert guessing_lower_bound(60, 200) > mu_lower_bound(30, 30, 100)


@pytest.mark.parametrize("n_runs", [30, 100])
def test_power_is_the_chance_of_rejection(n_runs):
    """By drawing: 20,000 audits of the leak named; 5 sigma is 1.5%."""
    claim, power = 1.0, 0.8
    settings = {"delta": DELTA, "alpha": 0.05}
    epsilon = detectable_epsilon(claim, n_runs, **settings)
    errors = np.random.default_rng(0).binomial(
        n_runs, 1 / (1 + math.exp(epsilon)), (2, 20_000)
    )
    rejected = epsilon_bounds(*errors, n_runs, DELTA, 0.05) > claim
    assert rejected.mean() == pytest.approx(power, abs=0.015)
    # A perfect attack on 10 runs proves 0.81 only.
    assert epsilon_lower_bound(0, 0, 10, delta=DELTA) < 1
    assert detectable_epsilon(claim, 10, **settings) == math.inf


# --- One run ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "n_guesses", "needed"),
    [
        (1.0, 20, 19),
        (1.0, 50, 43),
        (1.0, 100, 81),
        (1.0, 200, 157),
        (1.0, 500, 383),
        (1.0, 1000, 755),
        (4.0, 200, 200),
        (4.0, 500, 497),
    ],
)
def test_right_guesses_needed(claim, n_guesses, needed):
    """Published figures."""
    assert one_run_lower_bound(needed, n_guesses) > claim
    assert one_run_lower_bound(needed - 1, n_guesses) <= claim


def test_the_delta_term_against_the_formula():
    """The theorem written out as it is printed, with loops."""
    for v, r, m, epsilon, delta in product(
        [0, 3, 17, 20], [20], [20, 50], [0.0, 1.0], [0.0, 1e-5, 0.01]
    ):
        chance = math.exp(epsilon) / (1 + math.exp(epsilon))
        pmf = [
            math.comb(r, k) * chance**k * (1 - chance) ** (r - k) for k in range(r + 1)
        ]

        def tail(least, pmf=pmf):
            return sum(pmf[max(least, 0) :])

        steepest = max((tail(v - i) - tail(v)) / i for i in range(1, m + 1))
        expected = min(1.0, tail(v) + 2 * m * delta * steepest)
        assert _one_run_tail(v, r, m, epsilon, delta) == pytest.approx(expected)


def test_delta_and_abstaining_cost():
    full = one_run_lower_bound(90, 100)
    assert one_run_lower_bound(90, 100, delta=1e-4) < full
    more = one_run_lower_bound(90, 100, n_canaries=1000, delta=1e-4)
    assert more < one_run_lower_bound(90, 100, delta=1e-4)
    assert one_run_lower_bound(50, 100) == 0


RATES = partial(epsilon_lower_bound, delta=DELTA)


@pytest.mark.parametrize(
    ("bound", "numbers", "named", "match"),
    [
        *((RATES, bad, {}, "false_alarms and misses") for bad in OUT_OF_RANGE),
        *((mu_lower_bound, bad, {}, "false_alarms and misses") for bad in OUT_OF_RANGE),
        (RATES, (0, 0, 5), {"delta": 1.0}, "delta must be in"),
        (mu_lower_bound, (0, 0, 5), {"alpha": 0.0}, "alpha must be in"),
        (guessing_lower_bound, (-1, 5), {}, "n_wrong in"),
        (guessing_lower_bound, (0, 0), {}, "n_wrong in"),
        (guessing_lower_bound, (6, 5), {}, "n_wrong in"),
        (guessing_lower_bound, (0, 5), {"alpha": 1.0}, "alpha must be in"),
        (one_run_lower_bound, (3, 2), {}, "n_correct <= n_guesses"),
        (one_run_lower_bound, (1, 2), {"n_canaries": 1}, "n_canaries"),
        (one_run_lower_bound, (1, 2), {"delta": 1.0}, "delta must be in"),
        (one_run_lower_bound, (1, 2), {"alpha": 0.0}, "alpha must be in"),
    ],
)
def test_numbers_out_of_range(bound, numbers, named, match):
    with pytest.raises(ValueError, match=match):
        bound(*numbers, **named)
