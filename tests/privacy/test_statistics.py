"""Each statistic moves by no more than its sensitivity, and is what it says."""

import math
from itertools import product

import numpy as np
import pytest
from _reserve import exact, noisy
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy import GRID, PrivacyAccountant
from skdpsynth.privacy.statistics import (
    LENGTH,
    MOMENTS_SENSITIVITY,
    CentredCounts,
    centred_histogram,
    centred_sensitivity,
    gaussian_sum,
    gnmax,
    noisy_histogram,
    noisy_second_moments,
    noisy_unit_counts,
)
from skdpsynth.privacy.testing import insecure_randomness, observe_releases

ROOT2 = math.sqrt(2)
LONG = np.array([[3.0, -4.0]]) * LENGTH
SMALL = settings(max_examples=60, deadline=None)


def seen_by(mechanism, *arguments):
    """Return what went into a release."""
    seen = []
    with observe_releases(seen.append):
        mechanism(*arguments)
    (one,) = seen
    return one.exact


code_tables = st.integers(1, 5).flatmap(
    lambda n_columns: arrays(
        np.int64,
        st.tuples(st.integers(1, 8), st.just(n_columns)),
        elements=st.integers(0, 3),
    )
)


@SMALL
@given(code_tables, st.data(), st.sampled_from([1, GRID]))
def test_a_row_moves_the_histogram_by_the_root_of_the_columns(codes, data, scale):
    """Every column is counted, and a row is in one bin of each, times the scale."""
    n_rows, n_columns = codes.shape
    sensitivity = scale * math.sqrt(n_columns)
    row = data.draw(st.integers(0, n_rows - 1))
    fewer = np.delete(codes, row, axis=0)
    a, b = (
        np.concatenate(noisy_histogram(c, [4] * n_columns, exact(sensitivity), scale))
        for c in (codes, fewer)
    )
    assert a.dtype == np.int64
    counts = np.array([(own == code).sum() for own in codes.T for code in range(4)])
    assert (a == scale * counts).all()
    assert ((a - b) ** 2).sum() == scale**2 * n_columns
    with pytest.raises(ReservationError):
        noisy_histogram(codes, [4] * n_columns, exact(sensitivity * 0.999), scale)


@pytest.mark.parametrize("n_bins", [[1], [1, 0], []])
def test_wrong_numbers_of_bins_are_refused_before_drawing(n_bins):
    codes, reservation = np.zeros((2, 2 if n_bins else 0), dtype=int), exact(2.0)
    with pytest.raises(ValueError, match="one positive number of bins per column"):
        noisy_histogram(codes, n_bins, reservation)
    assert reservation.used == 0


@pytest.mark.parametrize("most", [1, 4])
def test_a_unit_adds_its_rows_to_the_number_of_units(most):
    """That is what so many rows of sensitivity 1 may add; then it is a unit again."""
    accountant = PrivacyAccountant(math.inf, 1e-5, rows_per_unit=most)
    line = accountant.reserve_gaussian("units", mu=math.inf, sensitivity=1, count=3)
    for codes, wanted in (([0, 2], [1, 0, 1]), ([0, 2, 2], [1, 0, 2])):
        went_in = seen_by(noisy_unit_counts, np.array(codes), 3, line)
        assert went_in.tolist() == [most * n for n in wanted]
    assert noisy_unit_counts(np.array([0, 2, 2]), 3, line).tolist() == [1.0, 0.0, 2.0]


# --- the sum over teachers ---------------------------------------------------------

any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)
clips = st.sampled_from([1e-300, 1e-3, 1.0, 7.3, 1e300])
teacher_tables = st.tuples(st.integers(1, 4), st.integers(1, 6)).flatmap(
    lambda shape: st.tuples(
        arrays(np.float64, shape, elements=any_float),
        arrays(np.float64, shape[1], elements=any_float),
    )
)


def on_grid(vectors, clip):
    """Return the whole numbers that each teacher adds to a sum."""
    own = [(row[None], clip, exact(2 * GRID)) for row in vectors]
    return np.array([seen_by(gaussian_sum, *row) for row in own])


@SMALL
@given(teacher_tables, clips, st.data())
def test_a_teacher_moves_the_sum_by_at_most_twice_the_clip(tables, clip, data):
    vectors, replacement = tables
    teacher = data.draw(st.integers(0, len(vectors) - 1))
    neighbour = vectors.copy()
    neighbour[teacher] = replacement
    before, after = on_grid(vectors, clip), on_grid(neighbour, clip)
    # Teachers do not know each other's vectors.
    whole = seen_by(gaussian_sum, vectors, clip, exact(2 * GRID))
    assert whole.tolist() == before.sum(axis=0).tolist()
    # Python integers: exact.
    moved = (after.sum(axis=0) - before.sum(axis=0)).tolist()
    assert sum(x * x for x in moved) <= (2 * GRID) ** 2
    others = np.arange(len(vectors)) != teacher
    np.testing.assert_array_equal(before[others], after[others])
    for row in after.tolist():
        assert sum(x * x for x in row) <= GRID**2


@SMALL
@given(st.integers(0, 2**32), st.integers(1, 700), st.floats(1e-3, 1e3))
def test_long_rows_stay_within_the_grid(seed, n, scale):
    """Of 464 entries and more, rounding to nearest would make some too long."""
    rng = np.random.default_rng(seed)
    for dtype in (np.float32, np.float64):
        vectors = (scale * rng.standard_normal((3, n))).astype(dtype)
        grid = on_grid(vectors, 1.0)
        assert np.all((grid**2).sum(axis=1) <= GRID**2)


def test_twice_the_clip_is_attained():
    vectors = np.array([[5.0, 0.0]])
    difference = on_grid(vectors, 1.0) - on_grid(-vectors, 1.0)
    assert np.abs(difference).max() == 2 * GRID


def test_numbers_are_truncated_towards_0():
    """Of either sign, where they are put on a grid: no vector becomes longer."""
    numbers = np.array([[2.999, -2.999, 0.001, -0.999]])
    went_in = seen_by(gaussian_sum, numbers / GRID, 1.0, exact(2 * GRID))
    assert went_in.tolist() == [2, -2, 0, 0]
    # One that is shortened, to 4,095, is truncated then.
    for scores, products in ((numbers, [-4] + 5 * [0]), (LONG, [-2457 * 3276])):
        line, means = exact(MOMENTS_SENSITIVITY), np.zeros(scores.shape[1])
        went_in = seen_by(noisy_second_moments, scores, means, 1.0, line)
        assert went_in.tolist() == products


def test_infinite_entries_are_dropped_before_clipping():
    vectors = np.array([[np.nan, 3.0, 4.0], [np.inf, -np.inf, 0.5], [1e300, 1e300, 1]])
    grid = on_grid(vectors, 5.0) * (5.0 / GRID)
    # The norm of the last overflows: the teacher sends 0.
    np.testing.assert_allclose(grid, [[0, 3, 4], [0, 0, 0.5], [0, 0, 0]], atol=1e-5)


def test_a_row_that_rounding_made_too_long_is_dropped(monkeypatch):
    monkeypatch.setattr(np, "trunc", lambda x: np.sign(x) * GRID)
    grid = on_grid(np.array([[0.5, 0.5], [0.5, 0.0]]), 1.0)
    assert grid.tolist() == [[0, 0], [GRID, 0]]


def test_sum_without_noise_is_the_clipped_sum(monkeypatch):
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((101, 7)).astype(np.float32)
    clip = 1.5
    norms = np.linalg.norm(vectors.astype(float), axis=1, keepdims=True)
    expected = (vectors * np.minimum(1, clip / norms)).sum(axis=0)
    whole = gaussian_sum(vectors, clip, exact(2 * GRID))
    np.testing.assert_allclose(whole, expected, atol=101 * clip / GRID)
    # Chunks change nothing, since the sum is exact.
    monkeypatch.setattr("skdpsynth.privacy._parts._BLOCK_ENTRIES", 20)
    np.testing.assert_array_equal(gaussian_sum(vectors, clip, exact(2 * GRID)), whole)


@pytest.mark.parametrize(
    ("shape", "clip", "words"),
    [
        *(((2, 2), clip, "clip must be") for clip in (0.0, -1.0, math.inf, math.nan)),
        *((shape, 1.0, "vectors of shape") for shape in ((3,), (3, 0), (0, 2**23))),
    ],
)
def test_sums_that_are_refused(shape, clip, words):
    with pytest.raises(ValueError, match=words):
        gaussian_sum(np.zeros(shape), clip, exact(2 * GRID))


@SMALL
@given(
    arrays(
        np.int64,
        st.tuples(st.integers(1, 6), st.integers(2, 5)),
        elements=st.integers(0, 40),
    )
)
def test_gnmax_without_noise_is_the_plurality(votes):
    reservation = exact(ROOT2, count=len(votes))
    answers = gnmax(votes, reservation)
    assert answers.tolist() == [int(np.argmax(row)) for row in votes]
    assert reservation.used == len(votes)


def test_a_vote_moves_two_bins_of_a_query():
    """And each query is a release of its own."""
    votes, line = np.array([[4, 3, 0], [7, 0, 0]]), exact(ROOT2, count=4)
    other = np.array([[3, 4, 0], [6, 0, 1]])  # one teacher's
    before, after = (seen_by(gnmax, own, line) for own in (votes, other))
    assert np.square(after - before).sum(axis=1).tolist() == [2, 2]
    assert line.used == 4


def test_gnmax_refuses_what_is_short_or_empty_before_drawing():
    votes, reservation = np.zeros((5, 3), dtype=np.int64), exact(ROOT2, count=4)
    with pytest.raises(ReservationError, match="4 releases and 0 are used, but 5 more"):
        gnmax(votes, reservation)
    for shape in ((3,), (0, 3), (3, 0)):
        with pytest.raises(ValueError, match="Expected votes of shape"):
            gnmax(np.zeros(shape, dtype=np.int64), reservation)
    with pytest.raises(ReservationError, match=r"sensitivity 1, .* 1\.41421"):
        gnmax(votes, exact(1.0))
    assert reservation.used == 0


# --- Counts less their mean: no row moves them more, and they are what they say -------


cells_and_codes = st.lists(st.integers(0, 4), min_size=1, max_size=3).flatmap(
    lambda n_cells: st.tuples(
        st.just(n_cells),
        st.lists(st.tuples(*(st.integers(0, n) for n in n_cells)), max_size=6),
    )
)
weights = st.sampled_from([0.0, 0.01, 0.5, 2.0])


def as_codes(rows, n_columns):
    return np.array(rows, dtype=np.int64).reshape(-1, n_columns)


def numbers(codes, n_cells, weight):
    """Return the exact statistic as Python's whole numbers."""
    line = exact(centred_sensitivity(n_cells, weight))
    return seen_by(centred_histogram, codes, n_cells, line, weight).tolist()


@SMALL
@given(cells_and_codes, weights)
def test_no_row_moves_centred_counts_by_more_than_the_sensitivity(table, weight):
    """Every row there is, in whole numbers; the longest is as long to one grid cell."""
    n_cells, rows = table
    before = numbers(as_codes(rows, len(n_cells)), n_cells, weight)
    squared = []
    for row in product(*(range(n + 1) for n in n_cells)):
        after = numbers(as_codes([*rows, row], len(n_cells)), n_cells, weight)
        squared.append(sum((a - b) ** 2 for a, b in zip(after, before, strict=True)))
    sensitivity = centred_sensitivity(n_cells, weight)
    assert max(squared) <= sensitivity**2
    assert max(squared) > (sensitivity - 1) ** 2 or sensitivity == 1
    shares = sum(1 - 1 / n for n in n_cells if n) + weight**2
    assert sensitivity / GRID == pytest.approx(math.sqrt(shares), rel=1e-5, abs=1e-6)


@SMALL
@given(cells_and_codes, weights)
def test_centred_counts_without_noise_are_the_counts(table, weight):
    n_cells, rows = table
    codes = as_codes(rows, len(n_cells))
    # 3 rows that are in a cell wherever there is one.
    codes = np.concatenate([codes, np.zeros((3, len(n_cells)), dtype=np.int64)])
    sensitivity = centred_sensitivity(n_cells, weight)
    numbers = centred_histogram(codes, n_cells, exact(sensitivity), weight)
    released = CentredCounts(numbers, n_cells, weight, 0.0)
    if weight > 0:
        assert released.size == pytest.approx(len(codes))
    else:
        assert (released.size, released.size_std) == (0.0, math.inf)
    for j, (n, counts) in enumerate(
        zip(n_cells, released.counts(len(codes)), strict=True)
    ):
        wanted = [(codes[:, j] == code).sum() for code in range(n + 1)]
        if n > 1:
            assert counts == pytest.approx(wanted[:-1])
            assert released.apart[j] == pytest.approx(wanted[-1])
        elif n == 1:  # rows in no cell are not counted: the one share is known
            assert counts.tolist() == [len(codes)]


@pytest.mark.statistical
def test_centred_counts_have_the_noise_of_a_projection(global_random_seed):
    """Against matrices that know the definition alone: 500 releases, 4 columns.

    Statistics: squares of all deviations, whitened by their covariance, of 3,500
    degrees of freedom; those of the rows in no cell and of all rows, of 2,000. Each
    fails by chance at a rate of 3e-7, chi-squared and two-sided: 6e-7 together.
    """
    n_cells, weight, mu, n_releases = [2, 3, 5, 1], 0.7, 0.05, 500
    # One matrix for each column, of what the rows of each cell add.
    adds = [np.eye(n) - 1 / n for n in n_cells]
    norms = [np.sqrt((matrix**2).sum(axis=0)).max() for matrix in adds]
    squared = sum(norm**2 for norm in norms) + weight**2
    std = math.sqrt(squared) / mu  # in rows
    codes = np.array([[0, 2, 5, 0], [1, 3, 1, 1], [1, 0, 5, 0]])
    wanted = [[1, 2], [1, 0, 1], [0, 1, 0, 0, 0], [3]]
    apart = [0, 1, 2]
    reservation = noisy(centred_sensitivity(n_cells, weight), mu, n_releases)
    assert reservation.noise_std / GRID == pytest.approx(std, rel=1e-4)
    inside, outside = 0.0, 0.0
    with insecure_randomness(global_random_seed):
        for _ in range(n_releases):
            numbers = centred_histogram(codes, n_cells, reservation, weight)
            released = CentredCounts(numbers, n_cells, weight, std)
            for j, part in enumerate(released.deviations):
                assert part.sum() == pytest.approx(0.0, abs=1e-6)
                covariance = std**2 * adds[j] @ adds[j].T
                error = part - adds[j] @ wanted[j]
                inside += error @ np.linalg.pinv(covariance) @ error
            errors = (released.apart[:3] - apart) * norms[:3]
            outside += (errors**2).sum() + (weight * (released.size - 3)) ** 2
    assert chi2.ppf(1.5e-7, 3500) < inside < chi2.isf(1.5e-7, 3500)
    assert chi2.ppf(1.5e-7, 2000) < outside / std**2 < chi2.isf(1.5e-7, 2000)
