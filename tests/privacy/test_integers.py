"""Every statistic of rows: what it refuses, and what it makes of none and of 2**70.

Sums of whole numbers near 2**63 stop there, and a row moves them as ever.
"""

import math
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from _reserve import exact, noisy, release_gaussian
from hypothesis import given, settings, strategies as st
from scipy.stats import norm

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy import (
    GRID,
    Counted,
    LocalParts,
    Parts,
    PrivacyAccountant,
    count_part,
    release_float_gaussian,
)
from skdpsynth.privacy.statistics import (
    MOMENTS_SENSITIVITY,
    centred_histogram,
    centred_sensitivity,
    gaussian_sum,
    noisy_counts,
    noisy_histogram,
    noisy_pair_distances,
    noisy_pair_tables,
    noisy_second_moments,
    noisy_triple_tables,
    noisy_unit_counts,
    noisy_votes,
    thresholded_counts,
)
from skdpsynth.privacy.testing import insecure_randomness, observe_releases

MOST_ROWS = GRID**2  # exact counts stop there
SMALLEST, LARGEST = -(2**63), 2**63 - 1


def added(first, second):
    """Add two up as parts of a table."""
    return (Counted({0: 1}, first) + Counted({1: 1}, second)).value


class Repeated(Parts):
    """Some rows, so often as nobody can count them; and maybe a few more."""

    def __init__(self, rows, times, more=None, steps=(), n_rows=None):
        super().__init__(steps, {} if n_rows is None else n_rows)
        self._rows, self._times, self._more = rows, times, more

    def kept(self):
        raise NotImplementedError

    _counts = kept

    def _with(self, steps):
        return Repeated(self._rows, self._times, self._more, steps, self.n_rows)

    def _sum(self, steps):
        """Add up in powers of two, by the sum of any two parts."""
        power = count_part(0, self._rows, steps).value
        total = np.zeros_like(power)
        for digit in reversed(f"{self._times:b}"):
            total = added(total, power) if digit == "1" else total
            power = added(power, power)
        if self._more is not None:
            total = added(total, count_part(1, self._more, steps).value)
        return Counted({0: len(self._rows)}, total)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, LARGEST), min_size=1, max_size=8), st.randoms())
def test_order_and_parts_of_a_sum_make_no_difference(values, random):
    """Of numbers that are not negative: the clamp of the whole sum, however it is cut.

    One number more moves it by that number at most, and never down.
    """

    def total_of(values):
        arrays = [np.array([value]) for value in values]
        return int(LocalParts(lambda: iter(arrays)).total(np.copy)[0])

    expected = min(sum(values), LARGEST)
    assert total_of(values) == expected
    random.shuffle(values)
    assert total_of(values) == expected
    assert 0 <= expected - total_of([0, *values[1:]]) <= values[0]


def test_counts_stop_at_most_rows():
    """Python's, which are of any size, and those of arrays."""
    columns, seen = [[3, 2**70, MOST_ROWS + 1], np.array([MOST_ROWS + 1])], []
    with observe_releases(seen.append):
        thresholded_counts(columns, exact(math.sqrt(2), delta=1e-6), 1e-6)
    assert seen[0].exact.tolist() == [3, MOST_ROWS, MOST_ROWS, MOST_ROWS]


# --- Every statistic, where it would pass 2**63 ---------------------------------------

CODES = np.array([[1, 0, 2]])  # one row
OTHER = np.array([[1, 2, 2]])
SCORES = np.array([[2364.5, 2364.5, 2364.5]])  # as long as may be: 4,095
N_BINS = [3, 3, 3]
PAIRS = np.array([[0, 1], [1, 2]])


TRIPLE, FAR = np.array([[0, 1, 2]]), np.full((9, 9), SMALLEST)
MOMENTS = noisy_second_moments, [np.zeros(3), 1.0], MOMENTS_SENSITIVITY
# A mechanism, what it is told beside rows, its sensitivity, and maybe its rows.
OF_CODES = {
    "histogram": (noisy_histogram, [N_BINS], math.sqrt(3)),
    "histogram on the grid": (
        *(partial(noisy_histogram, scale=GRID), [N_BINS]),
        GRID * math.sqrt(3),
    ),
    "count": (noisy_counts, [3], 1.0, CODES[:, 0], OTHER[:, 1]),
    "units": (noisy_unit_counts, [3], 1.0, CODES[:, 0], OTHER[:, 1]),
    "centred": (
        *(partial(centred_histogram, size_weight=0.7), [N_BINS]),
        centred_sensitivity(N_BINS, 0.7),
    ),
    "pair tables": (noisy_pair_tables, [N_BINS, PAIRS], math.sqrt(2)),
    "pair tables on the grid": (
        *(partial(noisy_pair_tables, scale=GRID), [N_BINS, PAIRS]),
        GRID * math.sqrt(2),
    ),
    "pair distances": (noisy_pair_distances, [N_BINS, FAR], math.sqrt(3)),
    "triple tables": (partial(noisy_triple_tables, scale=GRID), [3, TRIPLE], GRID),
}


STATISTICS = OF_CODES | {
    "second moments": (*MOMENTS, SCORES, -SCORES),
    "opposite moments": (*MOMENTS, SCORES * [-1, 1, 1], SCORES),
}
WITH_TEACHERS = STATISTICS | {"teachers": (gaussian_sum, [1.0], 2 * GRID, SCORES)}


@pytest.mark.parametrize("code", [77, -77, 0.5, math.nan, math.inf])
@pytest.mark.parametrize("name", OF_CODES)
def test_codes_of_no_bin_are_refused_before_drawing_and_not_shown(name, code):
    mechanism, told, sensitivity, *rows_of_it = OF_CODES[name]
    rows, line = (rows_of_it or [CODES])[0].astype(type(code)), noisy(sensitivity)
    rows.flat[0] = code
    with pytest.raises(ValueError, match="Expected integer codes") as error:
        mechanism(rows, *told, reservation=line)
    assert "77" not in str(error.value)
    assert line.used == 0


@pytest.mark.parametrize("name", WITH_TEACHERS)
def test_a_reservation_for_less_is_refused_and_none_is_used_twice(name):
    """And nothing is drawn from it. Without rows zeros are released, with the noise."""
    mechanism, told, sensitivity, *rows_of_it = WITH_TEACHERS[name]
    rows, seen = (rows_of_it or [CODES])[0][:0], []
    small, enough = noisy(sensitivity * (1 - 1e-9)), noisy(sensitivity)
    with observe_releases(seen.append):
        with pytest.raises(ReservationError, match="needs"):
            mechanism(rows, *told, reservation=small)
        mechanism(rows, *told, reservation=enough)
        with pytest.raises(ReservationError, match="1 more were asked"):
            mechanism(rows, *told, reservation=enough)
    assert (small.used, enough.used, len(seen)) == (0, 1, 1)
    # But for distances, from an expected table of 9 cells each.
    assert np.all(seen[0].exact == (9 * MOST_ROWS if name == "pair distances" else 0))
    assert np.any(seen[0].exact != seen[0].noisy)


def exact_of(mechanism, told, sensitivity, parts):
    """Return what is about to be released, in Python's integers."""
    seen = []
    with observe_releases(seen.append):
        mechanism(parts, *told, reservation=noisy(sensitivity))
    (release,) = seen
    assert release.exact.dtype == np.int64
    return release.exact.ravel().tolist()


@pytest.mark.parametrize("name", STATISTICS)
def test_a_row_moves_sums_near_the_end_of_int64_by_their_sensitivity(name):
    """Just below 2**63 / x for all of its numbers x, at MOST_ROWS, and far beyond.

    Numbers of a wrapped sum differ by 2**64 there. None changes its sign.
    """
    mechanism, told, sensitivity, *rows_of_it = STATISTICS[name]
    rows, other = rows_of_it or (CODES, OTHER)
    exact = partial(exact_of, mechanism, told, sensitivity)
    alone = exact(Repeated(rows, 1))
    sizes = {1, *(abs(value) for value in alone if value)}
    ends = [LARGEST // size for size in sizes]
    for times in (3, MOST_ROWS - 1, MOST_ROWS, *ends, 2**63 - 1, 2**64, 2**70 + 1):
        before = exact(Repeated(rows, times))
        if name != "pair distances":  # it has a distance of its own where no row is
            for value, of_one in zip(before, alone, strict=True):
                assert value * of_one >= 0
                assert (value == 0) == (of_one == 0)
        for more in (rows, other):
            after = exact(Repeated(rows, times, more))
            moved = [a - b for a, b in zip(after, before, strict=True)]
            assert sum(x * x for x in moved) <= sensitivity**2 * (1 + 1e-12)
            if times == 3:  # that the sensitivity is this one, but for rounding
                assert sum(x * x for x in moved) > 0.3 * sensitivity**2


def test_numbers_of_units_do_not_wrap():
    """Of a unit of so many rows that exact counts of units times these would."""
    line, seen = noisy(1.0, 1e-9, rows_per_unit=2**30), []
    with observe_releases(seen.append):
        noisy_unit_counts(Repeated(CODES[:, 0], 2**70), 3, line)
    assert seen[0].exact.tolist() == [0, 2**63 - 2**30, 0]


def test_more_teachers_than_a_sum_has_room_for_are_refused():
    """Their number is public; so none of their sums can wrap."""
    vectors = np.broadcast_to(np.ones((1, 1)), (MOST_ROWS + 1, 1))
    line = noisy(2.0 * GRID)
    with pytest.raises(ValueError, match="number of teachers"):
        gaussian_sum(vectors, 1.0, line)
    assert line.used == 0


@pytest.mark.parametrize("insecure", [False, True])
def test_noise_does_not_carry_a_sum_past_the_end(insecure):
    values = np.array([LARGEST, SMALLEST] * 50)
    with insecure_randomness(0) if insecure else nullcontext():
        released = release_gaussian(values, noisy(1.0))
    assert np.all(np.sign(released) == np.sign(values))
    assert np.any(released != values)


def test_votes_under_very_large_noise_are_coins():
    """Of 400, between 140 and 260: 6 standard deviations; the seed is fixed.

    Seeded noise stops at 2**62, and wraps when it is doubled: then none is a yes.
    """
    with insecure_randomness(0):
        accountant = PrivacyAccountant(1.0, 1e-5)
        line = accountant.reserve_votes("votes", mu=1e-21, n_teachers=9, count=400)
        answers = noisy_votes(np.full(400, 5), 9, line)
    assert 140 <= answers.sum() <= 260


# --- The noise has the law that was reserved, and is independent ----------------------


ALPHA = 1e-6
N = 20_000
KINDS = pytest.mark.parametrize("kind", ["whole numbers", "floats"])


def drawn(kind, scope):
    """Draw the noise of two releases; return them and the deviation of the ledger."""
    accountant, settings = PrivacyAccountant(1.0, 1e-5), {"mu": 0.02, "count": 2}
    if kind == "floats":
        line = accountant.reserve_sampled_gaussian(
            "s", sampling_rate=0.5, scope=scope, **settings
        )
        release = partial(release_float_gaussian, np.zeros(N), 1.0, line)
    else:
        line = accountant.reserve_gaussian("s", sensitivity=1, scope=scope, **settings)
        release = partial(release_gaussian, np.zeros(N, dtype=np.int64), line)
    return release(), release(), line.noise_std


@pytest.mark.statistical
@KINDS
def test_noise_is_independent_between_entries_releases_and_classes(kind):
    """Fails by chance at a rate of 1e-6: four correlations, each at a fourth of it.

    A correlation of n independent pairs times sqrt(n) is standard normal.
    """
    (first, second, _), (other, *_) = drawn(kind, "u"), drawn(kind, "v")
    bound = norm.isf(ALPHA / 8) / math.sqrt(N - 1)
    for left, right in (
        *((first, second), (first, other)),
        *((own[1:], own[:-1]) for own in (first, other)),
    ):
        assert abs(np.corrcoef(left, right)[0, 1]) < bound


@pytest.mark.statistical
@KINDS
def test_noise_has_the_law_that_is_charged(kind):
    """Laplace noise of this size is 0.06 off; 0.019 is seen. Wrong once in a million.

    By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, for any law. That of
    whole numbers is the normal one at halves, but for a thousandth.
    """
    draws, _, std = drawn(kind, "u")
    values = np.unique(draws)
    law = norm.cdf((values + 0.5 * (kind == "whole numbers")) / std)
    seen = np.searchsorted(np.sort(draws), values, side="right") / len(draws)
    assert np.abs(seen - law).max() <= math.sqrt(math.log(2 / ALPHA) / 2 / N)


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
