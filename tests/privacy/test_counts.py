"""Counts less their mean: no row moves them more, and they are what they say."""

import math
from itertools import product

import numpy as np
import pytest
from _reserve import exact, noisy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy import GRID, centred_histogram, centred_sensitivity
from skdpsynth.privacy.testing import insecure_randomness, observe_releases

SMALL = settings(max_examples=60, deadline=None)


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
    seen = []
    with observe_releases(seen.append):
        line = exact(centred_sensitivity(n_cells, weight))
        centred_histogram(codes, n_cells, line, weight)
    return seen[0].exact.tolist()


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
    released = centred_histogram(codes, n_cells, exact(sensitivity), weight)
    assert released.noise_std == 0
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
    inside, outside = 0.0, 0.0
    with insecure_randomness(global_random_seed):
        for _ in range(n_releases):
            released = centred_histogram(codes, n_cells, reservation, weight)
            assert released.noise_std == pytest.approx(std, rel=1e-4)
            for j, part in enumerate(released.deviations):
                assert part.sum() == pytest.approx(0.0, abs=1e-6)
                covariance = std**2 * adds[j] @ adds[j].T
                error = part - adds[j] @ wanted[j]
                inside += error @ np.linalg.pinv(covariance) @ error
            errors = (released.apart[:3] - apart) * norms[:3]
            outside += (errors**2).sum() + (weight * (released.size - 3)) ** 2
    assert chi2.ppf(1.5e-7, 3500) < inside < chi2.isf(1.5e-7, 3500)
    assert chi2.ppf(1.5e-7, 2000) < outside / std**2 < chi2.isf(1.5e-7, 2000)


def test_centred_counts_refuse_before_drawing():
    codes = np.zeros((4, 2), dtype=int)
    needed = centred_sensitivity([3, 2], 0.5)
    for small in (needed - 1, centred_sensitivity([3, 2]), math.sqrt(2)):
        reservation = noisy(small)
        with pytest.raises(ReservationError, match="sensitivity"):
            centred_histogram(codes, [3, 2], reservation, 0.5)
        assert reservation.used == 0
    reservation = noisy(needed)
    for wrong, n_cells in ((codes + 4, [3, 2]), (codes, [3]), (codes, [3, -1])):
        with pytest.raises(ValueError, match="Expected"):
            centred_histogram(wrong, n_cells, reservation, 0.5)
        assert reservation.used == 0
