"""The noise is there, has the sigma that was reserved, and is independent."""

import math

import numpy as np
import pytest
from _reserve import exact, noisy, release_gaussian
from scipy.stats import norm

ALPHA = 1e-6
N = 20_000


@pytest.mark.statistical
def test_noise_is_independent_between_entries_and_releases():
    """Fails by chance at a rate of 1e-6: three correlations, each at a third of it.

    A correlation of n independent pairs times sqrt(n) is standard normal.
    """
    reservation = noisy(1.0, 0.02, count=2)
    zeros = np.zeros(N, dtype=np.int64)
    first, second = (release_gaussian(zeros, reservation) for _ in range(2))
    bound = norm.isf(ALPHA / 6) / math.sqrt(N - 1)
    for left, right in (
        (first, second),
        (first[1:], first[:-1]),
        (second[1:], second[:-1]),
    ):
        assert abs(np.corrcoef(left, right)[0, 1]) < bound


@pytest.mark.parametrize("reserve", [noisy, exact])
def test_shape_and_dtype_are_kept_and_values_are_not_changed_in_place(reserve):
    reservation = reserve(1.0, count=3)
    for shape in ((4, 5, 2), (), (0,)):
        values = np.full(shape, 10**12, dtype=np.int64)
        released = release_gaussian(values, reservation)
        assert released.shape == shape
        assert released.dtype == np.int64
        assert np.all(np.abs(released - values) <= 10**6 * (reserve is noisy))
        released[...] = 0
        assert np.all(values == 10**12)
    assert reservation.used == 3


def test_several_releases_need_as_many_rows_of_int64():
    reservation = noisy(1.0, count=4)
    for shape in ((3,), (3, 4), ()):
        with pytest.raises(ValueError, match="one row of values per release, 4 in all"):
            release_gaussian(np.zeros(shape, dtype=np.int64), reservation, 4)
    for values in (np.zeros(3), np.zeros(3, np.int32), np.zeros(3, bool), [1, 2], 3):
        with pytest.raises(TypeError, match="Expected an array of int64"):
            release_gaussian(values, reservation)
    assert reservation.used == 0
    release_gaussian(np.zeros((4, 2), dtype=np.int64), reservation, 4)
    assert reservation.used == 4
