"""The Gaussian curve and its inverses, and what noise of whole numbers costs."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

from skdpsynth.privacy import PrivacyAccountant, gdp_epsilon, grid_noise_std

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


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 10.0])
def test_one_release_agrees_with_the_convolution_of_many(epsilon):
    mu = PrivacyAccountant(epsilon, 1e-5).mu_cap
    leaves = tuple(
        SelfComposedDpEvent(GaussianDpEvent(math.sqrt(n / share) / mu), n)
        for n, share in ((1, 0.02), (2, 0.08), (60, 0.9))
    )
    accountant = PLDAccountant(value_discretization_interval=1e-3 * mu)
    accountant.compose(ComposedDpEvent(leaves))
    convolved = accountant.get_epsilon(1e-5)
    merged = gdp_epsilon(mu, 1e-5)
    assert merged <= convolved * (1 + 1e-6)
    assert convolved == pytest.approx(merged, rel=1e-3)


def test_limits_and_arguments_out_of_range():
    assert gdp_epsilon(math.inf, 1e-5) == math.inf
    assert gdp_epsilon(0.0, 1e-5) == gdp_epsilon(1e-9, 1e-5) == 0.0
    for delta in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=r"delta must be a number in \(0, 1\)"):
            gdp_epsilon(1.0, delta)
    for bad in (-1.0, math.nan):
        with pytest.raises(ValueError, match="must be >= 0"):
            gdp_epsilon(bad, 1e-5)


# --- the discrete Gaussian ---------------------------------------------------------


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


def test_grid_noise_std():
    assert grid_noise_std(math.inf, 5.0) == 0.0
    # Never below 3, where the rule holds.
    assert grid_noise_std(10.0, 1.0) == 3.0
    # The multiplier that remains is that of the charge.
    std = grid_noise_std(0.2, math.sqrt(29))
    assert math.sqrt(std**2 - 4) / math.sqrt(29) == pytest.approx(1 / 0.2, rel=1e-12)
    bad = [(0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (1.0, 0.0), (1.0, math.inf)]
    for mu, sensitivity in bad:
        with pytest.raises(ValueError, match="must be"):
            grid_noise_std(mu, sensitivity)
