"""Lower bounds against closed forms, independent sums and the published figures."""

import importlib
import math
import sys
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from _training import identity, make_discriminator
from scipy.stats import binom, binomtest, multinomial, norm

from skdpsynth.audit import (
    curve_lower_bound,
    epsilon_lower_bound,
    guessing_lower_bound,
    mu_lower_bound,
    one_run_lower_bound,
)
from skdpsynth.privacy import PrivacyAccountant, secret_generator
from skdpsynth.schema import Boolean, Categorical, TableSchema

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


def test_one_rate_shows_more_than_two_at_half_of_alpha():
    """From as many runs; without errors in closed form."""
    expected = -2 * norm.ppf(1 - 0.025 ** (1 / 50))
    assert mu_lower_bound(0, 0, 50) == pytest.approx(expected)
    for wrong in (25, 50):
        assert guessing_lower_bound(wrong, 50) == mu_lower_bound(wrong, wrong, 50) == 0
    assert guessing_lower_bound(60, 200) > mu_lower_bound(30, 30, 100)


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
        # Every second score is hidden; or those beyond 1 are.
        (normal(1.0, lambda x: np.where(np.arange(len(x)) % 2, x, 0.5)), 1.0, 100),
        (normal(1.0, lambda x: np.where(abs(x) > 1, x * np.inf, x)), 1.0, 100),
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
    (one_run_lower_bound, (3, 2), "n_correct in .0, n_guesses"),
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


# --- An attack on the releases of a fit shows nine tenths of the claimed mu, or more --


pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
LEAST, MOST = 0.9, 1.1  # of the claim
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
COUNTED = TableSchema({"x": Boolean(), "y": Categorical(["u", "v"])}, target="y")


@pytest.fixture(scope="module")
def attacks():
    """The attacks of the benchmark, which the page on audits has the results of."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("tight_bounds")
    for name in ("tight_bounds", "_common"):
        sys.modules.pop(name, None)


def shown(attacks, n_draws, noise=1.0, delta=DELTA):
    """Bound mu by draws of the marginals of a class, at 95 % confidence."""
    case = replace(attacks.CASES["marginals of a class"], delta=delta)
    coins = np.random.default_rng().integers(2, size=n_draws)
    return attacks.bounds_of(attacks.attack_release(case, coins, noise), coins)


def claimed_mu(epsilon, delta):
    return PrivacyAccountant(epsilon, delta).mu_cap


def chance_of_less(share, claim, truth, n_guesses):
    """Probability of a bound below a share of the claim, of an attack with some mu."""
    wrong = np.arange(n_guesses // 2 + 1)
    # Bounds fall with the wrong guesses: search the most that still show the share.
    low, high = -1, len(wrong)
    while high - low > 1:
        middle = (low + high) // 2
        enough = guessing_lower_bound(middle, n_guesses, alpha=0.05) >= share * claim
        low, high = (middle, high) if enough else (low, middle)
    return binom.sf(low, n_guesses, norm.cdf(-truth / 2))


def test_the_canary_takes_all_of_the_claim(attacks):
    """One release moves, by its sensitivity, and its line has all that a fit may spend.

    Whole numbers are rounded: 1e-6 of the sensitivity, 1e-9 of the budget.
    """
    ((absent, present),) = attacks.moved(attacks.CASES["marginals of a class"])
    line = absent.reservation
    assert line.name == "marginals"
    assert line.scope == "u"
    assert line.mu == pytest.approx(claimed_mu(1.0, 1e-5), rel=2e-9)
    assert line.noise_std == pytest.approx(line.sensitivity / line.mu, rel=1e-9)
    assert (line.count, line.used) == (1, 1)
    shift = np.linalg.norm(present.exact - absent.exact)
    assert shift == pytest.approx(line.sensitivity, rel=2e-6)
    again = present.reservation
    assert (again.mu, again.noise_std) == (line.mu, line.noise_std)


MANY = pytest.param(1e-5, 1_400_000, marks=pytest.mark.nightly)


@pytest.mark.parametrize(("delta", "n_draws"), [(1e-5, 400_000), (1e-2, 120_000), MANY])
def test_nine_tenths_of_the_claim_are_shown(delta, n_draws, attacks):
    """At epsilon 1 and 95 % confidence; the second delta is that of a published audit.

    "Tight Auditing of Differential Privacy in MST and AIM" (arXiv 2604.18352). By the
    curve, the mean of 29 audits of many was .988 of the claim; sigma is .0063. So .95
    is 6 sigma away: a false alarm in 1e-9.
    """
    claim = claimed_mu(1.0, delta)
    assert chance_of_less(LEAST, claim, claim, n_draws) < FALSE_ALARM / 2
    assert 1 - chance_of_less(MOST, claim, claim, n_draws) < FALSE_ALARM / 2
    by_one_point, by_the_curve = shown(attacks, n_draws, delta=delta)
    assert LEAST * claim <= by_one_point < MOST * claim
    if n_draws > 1_000_000:
        assert 0.95 * claim <= by_the_curve < 1.03 * claim


def test_half_of_the_noise_contradicts_the_claim(attacks):
    """By the curve too: it is expected at .50, which is 11 sigma above the claim."""
    n_draws, claim = 10_000, claimed_mu(1.0, 1e-5)
    assert chance_of_less(1.0, claim, 2 * claim, n_draws) < FALSE_ALARM
    assert min(shown(attacks, n_draws, noise=0.5)) > claim


@pytest.mark.nightly
def test_whole_fits_show_nine_tenths_of_the_claim(attacks):
    """10,000 fits that count the classes too: the attack sees all that is released."""
    n_fits, claim = 10_000, claimed_mu(10.0, DELTA)
    assert chance_of_less(LEAST, claim, claim, n_fits) < FALSE_ALARM / 2
    assert 1 - chance_of_less(MOST, claim, claim, n_fits) < FALSE_ALARM / 2
    of_class = attacks.CASES["marginals of a class"]
    case = replace(of_class, schema=COUNTED, release=None, epsilon=10.0)
    lines = [release.reservation for release, _ in attacks.moved(case)]
    assert [line.name for line in lines] == ["class counts", "marginals"]
    assert math.hypot(*(line.mu for line in lines)) == pytest.approx(claim, rel=1e-6)
    coins = np.random.default_rng().integers(2, size=n_fits)
    for bound in attacks.bounds_of(attacks.attack_fit(case, coins), coins):
        assert LEAST * claim <= bound < MOST * claim


# --- One run of DP-SGD with many canaries (Steinke, Nasr, Jagielski 2023), white box --


N_CANARIES, N_SIDE = 2_000, 100
SIZE = 1e3
# At a larger delta no number of right guesses has a p-value below the level.
TINY = 1e-10
CASES = {"all rows": (1.0, 5), "samples": (0.2, 40)}


def scores_of(members, epsilon, rate, n_steps):
    """Train; give the sum of the released gradients, one number per canary."""
    accountant = PrivacyAccountant(
        epsilon, TINY, discovery_delta=TINY / 100, amplified=True
    )
    mu = accountant.mu_cap / math.sqrt(n_steps) * (1 - 1e-9)
    reservation = accountant.reserve_sampled_gaussian(
        "steps", mu=mu, sampling_rate=rate, count=n_steps, tail_delta=0.99 * TINY / 100
    )
    # A score that is linear: its gradient is the row, whatever was learnt before.
    rows = SIZE * np.eye(N_CANARIES, dtype=np.float32)[members]
    discriminator = make_discriminator(
        rows,
        loss="wasserstein",
        learning_rate=1e-3,
        reservation=reservation,
        rng=secret_generator(),
    )
    total = np.zeros(N_CANARIES)
    for _ in range(n_steps):
        discriminator.release(identity)
        discriminator.follow(torch.zeros(1, N_CANARIES), identity)
        total -= discriminator._released.numpy()
    assert reservation.used == n_steps
    return total


def proved(epsilon, case):
    present = np.random.default_rng().random(N_CANARIES) < 0.5
    scores = scores_of(np.flatnonzero(present), epsilon, *CASES[case])
    order = np.argsort(scores)
    right = present[order[-N_SIDE:]].sum() + (~present[order[:N_SIDE]]).sum()
    options = {"n_canaries": N_CANARIES, "delta": TINY, "alpha": FALSE_ALARM}
    return one_run_lower_bound(int(right), 2 * N_SIDE, **options)


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_one_run_proves_no_more_than_the_claim(epsilon, case):
    """False alarm 1e-6, by the theorem."""
    assert proved(epsilon, case) <= epsilon
