"""The noise is there, has the sigma that was paid for, and is independent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2, norm

from skdpsynth.privacy import PrivacyAccountant, Reservation
from skdpsynth.privacy._mechanisms import _measurement, release_gaussian
from skdpsynth.privacy.testing import insecure_randomness

ALPHA = 1e-6
N = 20_000


def reserve(
    mu: float = 0.05, sensitivity: float = 1.0, count: int = 1, epsilon: float = 1.0
) -> Reservation:
    accountant = PrivacyAccountant(epsilon, 1e-5)
    return accountant.reserve_gaussian(
        "test", mu=mu, sensitivity=sensitivity, count=count
    )


def std_is_plausible(draws: np.ndarray, std: float) -> bool:
    """Test two-sided, at ALPHA, whether draws around 0 have this standard deviation."""
    statistic = float((draws.astype(float) ** 2).sum() / std**2)
    return chi2.ppf(ALPHA / 2, draws.size) < statistic < chi2.isf(ALPHA / 2, draws.size)


@pytest.mark.statistical
@pytest.mark.parametrize(("mu", "sensitivity"), [(0.05, 1.0), (0.2, math.sqrt(29))])
def test_noise_has_the_std_that_was_reserved(mu: float, sensitivity: float) -> None:
    """Fails by chance at a rate of 1e-6 per case.

    n = 20,000 draws of a discrete Gaussian of sigma > 20, whose law on the scale of
    sigma is normal to 1e-300; the sum of squares over sigma^2 is chi-squared, up to
    the grid. Two-sided. The twin with 0.7 of the noise has a statistic of 0.49 n,
    which is 51 standard deviations away from n.
    """
    reservation = reserve(mu, sensitivity)
    std = math.sqrt((sensitivity / mu) ** 2 + 4)
    draws = release_gaussian(np.zeros(N, dtype=np.int64), reservation)
    assert std_is_plausible(draws, std)
    twin = np.rint(draws * 0.7)
    assert not std_is_plausible(twin, std)
    assert not std_is_plausible(np.zeros(N), std)
    # The mean is 0: |mean| sqrt(n) / std is half-normal.
    assert abs(draws.mean()) * math.sqrt(N) / std < norm.isf(ALPHA / 2)


@pytest.mark.statistical
def test_noise_is_independent_between_entries_and_releases() -> None:
    """Fails by chance at a rate of 3e-6: three correlations, each at 1e-6.

    A correlation of n independent pairs times sqrt(n) is standard normal.
    """
    reservation = reserve(0.02, count=2)
    zeros = np.zeros(N, dtype=np.int64)
    first, second = (release_gaussian(zeros, reservation) for _ in range(2))
    bound = norm.isf(ALPHA / 2) / math.sqrt(N - 1)
    for left, right in (
        (first, second),
        (first[1:], first[:-1]),
        (second[1:], second[:-1]),
    ):
        assert abs(np.corrcoef(left, right)[0, 1]) < bound


def test_opendp_agrees_on_the_scale() -> None:
    # Its own map gives zero-concentrated DP, rho = (d / sigma)^2 / 2.
    for std, distance in ((3.0, 1.0), (63.7, math.sqrt(29)), (6e7, 2.0**21)):
        rho = _measurement(std).map(distance)
        assert rho == pytest.approx((distance / std) ** 2 / 2, rel=1e-9)


def test_the_reservation_pays_for_what_opendp_says_is_spent() -> None:
    for mu, sensitivity in ((0.05, 1.0), (0.01, 2.0**21), (0.26, math.sqrt(29))):
        reservation = reserve(mu, sensitivity)
        rho = _measurement(reservation.noise_std).map(sensitivity)
        assert rho <= mu**2 / 2


def test_shape_and_dtype_are_kept() -> None:
    reservation = reserve(count=3)
    for shape in ((4, 5, 2), (), (0,)):
        values = np.full(shape, 10**12, dtype=np.int64)
        noisy = release_gaussian(values, reservation)
        assert noisy.shape == shape
        assert noisy.dtype == np.int64
        assert np.all(np.abs(noisy - values) < 10**6)
    assert reservation.used == 3


def test_values_are_not_changed_in_place() -> None:
    values = np.arange(50, dtype=np.int64)
    release_gaussian(values, reserve())
    np.testing.assert_array_equal(values, np.arange(50))


def test_values_at_the_limit_do_not_wrap_around() -> None:
    limit = np.iinfo(np.int64)
    values = np.array([limit.max, limit.min] * 50)
    noisy = release_gaussian(values, reserve())
    assert np.all(np.sign(noisy) == np.sign(values))


def test_without_noise_values_come_back_as_a_copy() -> None:
    values = np.arange(5, dtype=np.int64)
    reservation = reserve(math.inf, epsilon=math.inf)
    noisy = release_gaussian(values, reservation)
    np.testing.assert_array_equal(noisy, values)
    assert noisy is not values
    assert reservation.used == 1


def test_insecure_context_repeats_the_noise() -> None:
    zeros = np.zeros(100, dtype=np.int64)
    runs = []
    for _ in range(2):
        with insecure_randomness(5):
            reservation = reserve(count=2)
            runs.append([release_gaussian(zeros, reservation) for _ in range(2)])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.any(runs[0][0] != runs[0][1])
    assert np.any(release_gaussian(zeros, reserve()) != runs[0][0])


@pytest.mark.statistical
def test_insecure_noise_has_the_same_std() -> None:
    """Deterministic: the seed is fixed; the bound is that of the secure test."""
    with insecure_randomness(0):
        reservation = reserve(0.05)
        draws = release_gaussian(np.zeros(N, dtype=np.int64), reservation)
    assert std_is_plausible(draws, reservation.noise_std)


@pytest.mark.parametrize(
    "values",
    [np.zeros(3), np.zeros(3, dtype=np.int32), np.zeros(3, dtype=bool), [1, 2], 3],
)
def test_only_int64_is_accepted(values: object) -> None:
    reservation = reserve()
    with pytest.raises(TypeError, match="Expected an int64 array"):
        release_gaussian(values, reservation)
    assert reservation.used == 0


def test_several_releases_need_as_many_rows() -> None:
    reservation = reserve(count=4)
    for shape in ((3,), (3, 4), ()):
        with pytest.raises(ValueError, match="one row of values per release, 4 in all"):
            release_gaussian(np.zeros(shape, dtype=np.int64), reservation, 4)
    assert reservation.used == 0
    release_gaussian(np.zeros((4, 2), dtype=np.int64), reservation, 4)
    assert reservation.used == 4
