"""Costs at a Renyi order, against integrals, sums and an optimal adversary."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from skdpsynth.privacy._calibration import gdp_delta, gdp_mu
from skdpsynth.privacy._curves import (
    GaussianCurve,
    RenyiCurve,
    renyi_curve,
    sampled_mu,
    vote_mu,
)


def divergence_of(mu: float, order: int) -> float:
    return order * mu**2 / 2


# --- The order ---------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.7, 10.0, 60.0])
def test_the_best_order_is_chosen_and_the_cap_is_exact(epsilon):
    curve = renyi_curve(epsilon, 1e-5)
    cap = curve.mu_cap(epsilon, 1e-5)
    assert curve.epsilon(cap, 1e-5) == pytest.approx(epsilon, rel=1e-12)
    # A little below what is exact for Gaussian noise, at this order and at others.
    assert 0.85 < cap / gdp_mu(epsilon, 1e-5) < 1.0
    others = [RenyiCurve(order).mu_cap(epsilon, 1e-5) for order in range(2, 1500)]
    assert cap == max(others)


def test_tiny_budgets_fall_back_to_the_gaussian_curve():
    assert renyi_curve(1e-4, 1e-5) == GaussianCurve()
    assert renyi_curve(math.inf, 1e-5).mu_cap(math.inf, 1e-5) == math.inf


def test_the_certificate_is_dp_accountings():
    from dp_accounting import ComposedDpEvent, GaussianDpEvent

    event = ComposedDpEvent((GaussianDpEvent(5.0), GaussianDpEvent(7.0)))
    mu = math.hypot(1 / 5, 1 / 7)
    for order in (2, 9, 30):
        curve = RenyiCurve(order)
        certified = curve.certified(event, 1e-5)
        assert certified == pytest.approx(curve.epsilon(mu, 1e-5), rel=1e-9)


# --- Sampled Gaussian steps --------------------------------------------------------


@pytest.mark.parametrize("order", [2, 5, 18])
@pytest.mark.parametrize(("rate", "std"), [(0.02, 1.5), (0.2, 4.0), (0.9, 2.0)])
def test_sampled_steps_cost_the_larger_of_two_integrals(order, rate, std):
    """Independently: the divergences of both directions by quadrature."""

    def log_ratio(x):  # of the mixture to the plain law
        return math.log1p(rate * math.expm1((2 * x - 1) / (2 * std**2)))

    def moment(power):  # E_plain of the ratio to a power
        value, _ = integrate.quad(
            lambda x: math.exp(power * log_ratio(x) + stats.norm.logpdf(x, 0, std)),
            -14 * std,
            14 * std + order,
            epsabs=0,
            epsrel=1e-11,
            limit=400,
        )
        return math.log(value)

    forth = moment(order) / (order - 1)
    back = moment(1 - order) / (order - 1)
    charged = divergence_of(sampled_mu(order, rate, std), order)
    assert charged == pytest.approx(forth, rel=1e-6)
    assert charged >= back * (1 - 1e-6)


def test_a_step_on_all_rows_is_a_gaussian_one():
    for order in (2, 7, 40):
        assert sampled_mu(order, 1.0, 5.0) == pytest.approx(1 / 5, rel=1e-9)
        assert sampled_mu(order, 1 - 1e-12, 5.0) == pytest.approx(1 / 5, rel=1e-6)


@pytest.mark.parametrize("rate", [0.001, 0.05, 0.6, 1.0])
def test_the_noise_of_a_step_is_the_least_that_pays(rate):
    curve = RenyiCurve(18)
    std = curve.sampled_noise_multiplier(0.01, rate)
    assert sampled_mu(18, rate, std) <= 0.01 * (1 + 1e-9)
    assert sampled_mu(18, rate, 0.999 * std) > 0.01
    # The Gaussian curve knows no amplification: it takes the noise of all rows.
    assert GaussianCurve().sampled_noise_multiplier(0.01, rate) == pytest.approx(100)
    assert std <= 100 * (1 + 1e-9)


def test_amplification_agrees_with_loss_distributions():
    """The whole run by PLD, another method: never above the claim, and near it."""
    from dp_accounting import (
        GaussianDpEvent,
        PoissonSampledDpEvent,
        SelfComposedDpEvent,
    )
    from dp_accounting.pld import PLDAccountant

    curve = renyi_curve(1.0, 1e-5)
    mu = curve.mu_cap(1.0, 1e-5) / math.sqrt(60)
    std = curve.sampled_noise_multiplier(mu, 0.1)
    accountant = PLDAccountant()
    event = PoissonSampledDpEvent(0.1, GaussianDpEvent(std))
    accountant.compose(SelfComposedDpEvent(event, 60))
    assert 0.8 < accountant.get_epsilon(1e-5) < 1.0


# --- One-bit votes -----------------------------------------------------------------


def exact_vote_divergence(order, std, n_teachers, noise):
    """Both directions, all margins, by sums in many digits."""
    mpmath.mp.dps = 40
    reach = n_teachers + int(60 * std)

    def mass(value):
        if noise == "gaussian":
            return mpmath.exp(-(mpmath.mpf(value) ** 2) / (2 * mpmath.mpf(std) ** 2))
        return mpmath.exp(-abs(mpmath.mpf(value)) / std)

    masses = {value: mass(value) for value in range(-reach, reach + 1)}
    total = mpmath.fsum(masses.values())
    ones = [
        mpmath.fsum(
            m for value, m in masses.items() if 2 * (votes + value) > n_teachers
        )
        / total
        for votes in range(n_teachers + 1)
    ]
    worst = mpmath.mpf(0)
    for few, many in itertools.pairwise(ones):
        for p, q in ((few, many), (many, few)):
            value = p**order * q ** (1 - order)
            value += (1 - p) ** order * (1 - q) ** (1 - order)
            worst = max(worst, mpmath.log(value) / (order - 1))
    return float(worst)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("order", [2, 18])
@pytest.mark.parametrize(("n_teachers", "std"), [(1, 0.7), (5, 1.0), (12, 3.0)])
def test_votes_cost_their_exact_divergence(noise, order, n_teachers, std):
    exact = exact_vote_divergence(order, std, n_teachers, noise)
    charged = divergence_of(vote_mu(order, std, n_teachers, noise), order)
    assert charged == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("order", "std", "ratio"), [(32, 100, 0.637), (64, 100, 0.64)])
def test_a_vote_costs_two_thirds_of_its_noisy_count(order, std, ratio):
    """Of the mu^2 of a Gaussian release: 2/pi where the noise is large."""
    cost = vote_mu(order, std, 4 * std, "gaussian") ** 2 * std**2
    assert cost == pytest.approx(ratio, abs=3e-3)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("mu", [0.002, 0.05, 0.7])
def test_the_noise_of_a_vote_is_the_least_that_pays(noise, mu):
    std = RenyiCurve(18).vote_noise_std(mu, 301, noise)
    assert vote_mu(18, std, 301, noise) <= mu
    assert vote_mu(18, 0.999 * std, 301, noise) > mu


@pytest.mark.parametrize("n_votes", [1, 3, 10])
@pytest.mark.parametrize("n_teachers", [5, 12])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_an_optimal_adversary_stays_within_the_claim(n_votes, n_teachers, epsilon):
    """It chooses every margin after seeing all answers: exact, by value iteration."""
    delta = 1e-2
    curve = renyi_curve(epsilon, delta)
    mu = curve.mu_cap(epsilon, delta) / math.sqrt(n_votes)
    std = curve.vote_noise_std(mu, n_teachers, "gaussian")
    values = np.arange(-int(40 * std) - n_teachers, int(40 * std) + n_teachers + 1)
    mass = np.exp(-(values**2) / (2 * std**2))
    mass /= mass.sum()
    ones = np.array(
        [
            mass[2 * (votes + values) > n_teachers].sum()
            for votes in range(n_teachers + 1)
        ]
    )
    pairs = [
        pair
        for few, many in itertools.pairwise(ones)
        for pair in ((few, many), (many, few))
    ]
    # w(r): hockey stick from likelihood ratio r = q / p on; convex, so interpolating
    # on a grid overestimates.
    grid = np.exp(np.linspace(-30, 30, 6001))
    value = np.maximum(0.0, 1.0 - grid)
    for _ in range(n_votes):
        following = np.zeros_like(value)
        for p, q in pairs:
            yes = p * np.interp(grid * q / p, grid, value)
            no = (1 - p) * np.interp(grid * (1 - q) / (1 - p), grid, value)
            following = np.maximum(following, yes + no)
        value = following
    found = float(np.interp(math.exp(epsilon), grid, value))
    assert found <= delta


def test_pure_noise_on_the_gaussian_curve_is_dominated():
    """The curve of 1/b-DP lies below the Gaussian one that is charged for it."""
    for mu in (0.01, 0.3, 2.0):
        pure = 1 / GaussianCurve().vote_noise_std(mu, 9, "laplace")
        for epsilon in np.linspace(0, 1.2 * pure, 40):
            delta = max(
                0.0, (math.exp(pure) - math.exp(epsilon)) / (1 + math.exp(pure))
            )
            assert delta <= gdp_delta(mu, epsilon) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("curve", [GaussianCurve(), RenyiCurve(18)])
def test_no_noise_for_an_infinite_budget(curve):
    assert curve.sampled_noise_multiplier(math.inf, 0.1) == 0.0
    assert curve.vote_noise_std(math.inf, 10, "gaussian") == 0.0
    assert curve.vote_noise_std(math.inf, 10, "laplace") == 0.0
    for rate in (0.0, 1.1, -1.0):
        with pytest.raises(ValueError, match="sampling_rate must be in"):
            curve.sampled_noise_multiplier(0.1, rate)
    for votes in ((0, "gaussian"), (0, "laplace"), (10, "uniform")):
        with pytest.raises(ValueError, match="at least 1 teacher"):
            curve.vote_noise_std(0.1, *votes)
