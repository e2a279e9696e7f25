"""What "Formal guarantees" of every mechanism say of odd rows, and of single ones.

That no row moves a statistic by more than its sensitivity is in the files beside this
one, by properties; `test_integers.py` has it near the ends of int64.
"""

import math

import numpy as np
import pytest
from _reserve import exact, noisy

from skdpsynth.privacy import GRID, PrivacyAccountant, release_float_gaussian
from skdpsynth.privacy.statistics import (
    LENGTH,
    MOMENTS_SENSITIVITY,
    centred_histogram,
    centred_sensitivity,
    gaussian_sum,
    gnmax,
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
from skdpsynth.privacy.testing import observe_releases

N_BINS, PAIRS, TRIPLES = [3] * 3, np.array([[0, 1], [1, 2]]), np.array([[0, 1, 2]])
FAR = np.full((9, 9), 5)
CODES = np.array([[1, 0, 2], [0, 0, 1]])
LONG = np.array([[3.0, -4.0]]) * LENGTH
ROOT2, ROOT3 = math.sqrt(2), math.sqrt(3)

# Mechanisms of rows and a reservation, and the sensitivity that they need.
OF_CODES = {
    "histogram": (lambda rows, line: noisy_histogram(rows, N_BINS, line), ROOT3),
    "count": (lambda rows, line: noisy_counts(rows[:, 0], 3, line), 1.0),
    "units": (lambda rows, line: noisy_unit_counts(rows[:, 0], 3, line), 1.0),
    "centred": (
        lambda rows, line: centred_histogram(rows, [2] * 3, line, 0.7),
        centred_sensitivity([2] * 3, 0.7),
    ),
    "pairs": (lambda rows, line: noisy_pair_tables(rows, N_BINS, PAIRS, line), ROOT2),
    "distances": (
        lambda rows, line: noisy_pair_distances(rows, N_BINS, FAR, line),
        ROOT3,
    ),
    "triples": (lambda rows, line: noisy_triple_tables(rows, 3, TRIPLES, line), 1.0),
}
MECHANISMS = OF_CODES | {
    "moments": (
        lambda rows, line: noisy_second_moments(rows * 1.0, np.zeros(3), 1.0, line),
        MOMENTS_SENSITIVITY,
    ),
    "teachers": (lambda rows, line: gaussian_sum(rows * 1.0, 1.0, line), 2 * GRID),
}


def seen_by(mechanism, *arguments):
    """Return what went into a release, and what came out."""
    seen = []
    with observe_releases(seen.append):
        mechanism(*arguments)
    (one,) = seen
    return one.exact, one.noisy


@pytest.mark.parametrize("code", [77, -77, 0.5, math.nan, math.inf])
@pytest.mark.parametrize("name", OF_CODES)
def test_codes_of_no_bin_are_refused_before_drawing_and_not_shown(name, code):
    mechanism, sensitivity = OF_CODES[name]
    rows, line = CODES.astype(type(code)), noisy(sensitivity)
    rows[1, 0] = code
    with pytest.raises(ValueError, match="Expected integer codes") as error:
        mechanism(rows, line)
    assert "77" not in str(error.value)
    assert line.used == 0


@pytest.mark.parametrize("name", MECHANISMS)
def test_without_rows_zeros_are_released_with_the_same_noise(name):
    """But for the distances: those of an empty table, of 9 cells each."""
    mechanism, sensitivity = MECHANISMS[name]
    line = noisy(sensitivity)
    went_in, came_out = seen_by(mechanism, CODES[:0], line)
    assert np.all(went_in == (9 * 5 if name == "distances" else 0))
    assert np.any(came_out != went_in)
    assert line.used == 1


def test_numbers_are_truncated_towards_0():
    """Of either sign, where they are put on a grid: no vector becomes longer."""
    numbers = np.array([[2.999, -2.999, 0.001, -0.999]])
    went_in, _ = seen_by(gaussian_sum, numbers / GRID, 1.0, exact(2 * GRID))
    assert went_in.tolist() == [2, -2, 0, 0]
    # One that is shortened, to 4,095, is truncated then.
    for scores, products in ((numbers, [-4] + 5 * [0]), (LONG, [-2457 * 3276])):
        line, means = exact(MOMENTS_SENSITIVITY), np.zeros(scores.shape[1])
        went_in, _ = seen_by(noisy_second_moments, scores, means, 1.0, line)
        assert went_in.tolist() == products


@pytest.mark.parametrize(
    ("row", "adds"),
    [
        # A cell of the first column, or none; the others have one cell, and none.
        ([1, 0, 0], [-349525, 699051, -349525, 0, 0, 0, 0]),
        ([3, 1, 0], [0, 0, 0, math.isqrt(699051**2 + 2 * 349525**2), 0, 0, 0]),
    ],
)
def test_what_a_row_adds_to_centred_counts(row, adds):
    """With K = 2**20: ``K - K // 3`` and ``-(K // 3)``, the norm of these, or nothing.

    And ``floor(K / 4)`` to the number of rows, at a weight of a fourth.
    """
    n_cells = [3, 1, 0]
    line = exact(centred_sensitivity(n_cells, 0.25))
    went_in, _ = seen_by(centred_histogram, np.array([row]), n_cells, line, 0.25)
    assert went_in.tolist() == [*adds, GRID // 4]


def test_keys_that_both_tables_consider_move_by_the_root_of_the_columns():
    """A row has a key in each of three; that of the third has too few rows."""
    line = exact(ROOT3, count=2, delta=1e-6)
    tables = ([[5, 2 + n], [7 + n], [n]] for n in (0, 1))
    before, after = (seen_by(thresholded_counts, own, line, 1e-6)[0] for own in tables)
    assert (after - before).tolist() == [0, 1, 1]
    for counts in ([], [1, 1]):  # none is considered
        line = noisy(1.0, delta=1e-6)
        ((keys, found),) = thresholded_counts([counts], line, 1e-6)
        assert (keys.tolist(), found.tolist(), line.used) == ([], [], 1)


@pytest.mark.parametrize("most", [1, 4])
def test_a_unit_adds_its_rows_to_the_number_of_units(most):
    """That is what so many rows of sensitivity 1 may add; then it is a unit again."""
    accountant = PrivacyAccountant(math.inf, 1e-5, rows_per_unit=most)
    line = accountant.reserve_gaussian("units", mu=math.inf, sensitivity=1, count=3)
    for codes, wanted in (([0, 2], [1, 0, 1]), ([0, 2, 2], [1, 0, 2])):
        went_in, _ = seen_by(noisy_unit_counts, np.array(codes), 3, line)
        assert went_in.tolist() == [most * n for n in wanted]
    assert noisy_unit_counts(np.array([0, 2, 2]), 3, line).tolist() == [1.0, 0.0, 2.0]


def test_a_vote_moves_two_bins_of_a_query():
    """And each query is a release of its own."""
    votes, line = np.array([[4, 3, 0], [7, 0, 0]]), exact(ROOT2, count=4)
    other = np.array([[3, 4, 0], [6, 0, 1]])  # one teacher's
    before, after = (seen_by(gnmax, own, line)[0] for own in (votes, other))
    assert np.square(after - before).sum(axis=1).tolist() == [2, 2]
    assert line.used == 4


@pytest.mark.parametrize(
    "counts", [[], [[3]], [-1], [3, 11]], ids=["no query", "shape", "negative", "many"]
)
def test_counts_of_votes_that_are_refused(counts):
    line = PrivacyAccountant(1.0, 1e-5).reserve_votes("v", mu=0.01, n_teachers=10)
    with pytest.raises(ValueError, match="Expected counts"):
        noisy_votes(np.array(counts, dtype=np.int64), 10, line)
    assert line.used == 0


def test_a_sum_of_gradients_is_not_rounded_and_not_repaired():
    """What is not finite is left out before, where each row is clipped."""
    line, noised = (
        PrivacyAccountant(epsilon, 1e-5).reserve_sampled_gaussian(
            "steps", mu=mu, sampling_rate=0.5
        )
        for epsilon, mu in ((math.inf, math.inf), (1.0, 0.1))
    )
    total = np.array([0.1 + 0.2, 1e-300, math.nan, math.inf])
    np.testing.assert_array_equal(release_float_gaussian(total, 1.0, line), total)
    released = release_float_gaussian(total, 1.0, noised)
    assert np.isfinite(released).tolist() == [True, True, False, False]
    assert np.all(released[:2] != total[:2])
