"""Pair tables count what they say, move as little as they say, and have their noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy import PrivacyAccountant, Reservation, _parts, _tables
from skdpsynth.privacy._tables import (
    exact_pair_counts,
    measured_cells,
    noisy_pair_distances,
    noisy_pair_tables,
)

SMALL = settings(max_examples=80, deadline=None)
ALPHA = 1e-6
SIZES = [3, 1, 4, 2]
PAIRS = np.stack(np.triu_indices(4, 1), axis=1)


def line(epsilon: float, mu: float, sensitivity: float) -> Reservation:
    accountant = PrivacyAccountant(epsilon, 1e-5)
    return accountant.reserve_gaussian("test", mu=mu, sensitivity=sensitivity)


def exact(sensitivity: float) -> Reservation:
    """Reserve without noise, to see the statistic itself."""
    return line(math.inf, math.inf, sensitivity)


def slow_table(codes, n_bins, i, j):
    """Count the table of one pair row by row."""
    table = np.zeros((n_bins[i], n_bins[j]), dtype=np.int64)
    for row in codes:
        table[row[i], row[j]] += 1
    return table


def block(released, n_bins, i, j):
    starts = np.concatenate(([0], np.cumsum(n_bins)))
    return released[starts[i] : starts[i + 1], starts[j] : starts[j + 1]]


def random_codes(n_rows, n_bins=SIZES, seed=0):
    return np.random.default_rng(seed).integers(0, n_bins, (n_rows, len(n_bins)))


@st.composite
def tables(draw):
    """Draw a table of codes, the bins of its columns and some of its pairs."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    n_rows = draw(st.integers(0, 9))
    row = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    rows = draw(st.lists(row, min_size=n_rows, max_size=n_rows))
    codes = np.array(rows, dtype=np.uint8).reshape(n_rows, len(sizes))
    pairs = np.stack(np.triu_indices(len(sizes), 1), axis=1)
    kept = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    if not any(kept):
        kept[0] = True
    return codes, sizes, pairs[np.array(kept)], draw(row)


# --- Exact ------------------------------------------------------------------------


@SMALL
@given(tables())
def test_the_tables_are_those_of_a_loop(drawn):
    """Asked for or not: 0 stands where nothing was asked."""
    codes, sizes, pairs, _ = drawn
    counts = exact_pair_counts(codes, sizes)
    released = noisy_pair_tables(codes, sizes, pairs, exact(math.sqrt(len(pairs))))
    asked = {tuple(pair) for pair in pairs.tolist()}
    for i in range(len(sizes)):
        for j in range(len(sizes)):
            expected = slow_table(codes, sizes, i, j)
            assert block(counts, sizes, i, j).tolist() == expected.tolist()
            if (i, j) not in asked:
                expected = np.zeros_like(expected)
            assert block(released, sizes, i, j).tolist() == expected.tolist()


def test_rows_are_counted_in_parts(monkeypatch):
    """Three rows at a time, and all at once."""
    codes = random_codes(100)
    whole = exact_pair_counts(codes, SIZES)
    monkeypatch.setattr(_parts, "_BLOCK_ENTRIES", 12)
    assert (exact_pair_counts(codes, SIZES) == whole).all()
    monkeypatch.undo()
    monkeypatch.setattr(_tables, "_CHUNK_ROWS", 1)
    assert (exact_pair_counts(codes, SIZES) == whole).all()
    assert block(whole, SIZES, 0, 2).sum() == 100


@SMALL
@given(tables())
def test_a_row_moves_one_cell_of_each_table_by_one(drawn):
    """So E tables have L2 sensitivity sqrt(E), and it is reached."""
    codes, sizes, pairs, row = drawn
    more = np.concatenate([codes, np.array([row], dtype=codes.dtype)])
    line_of_all = math.sqrt(len(pairs))
    before, after = (
        noisy_pair_tables(c, sizes, pairs, exact(line_of_all)) for c in (codes, more)
    )
    change = after - before
    for i, j in pairs:
        moved = block(change, sizes, i, j)
        assert moved[row[i], row[j]] == moved.sum() == np.abs(moved).sum() == 1
    assert (change**2).sum() == len(pairs)


@SMALL
@given(tables(), st.data())
def test_a_row_moves_each_distance_by_at_most_one(drawn, data):
    codes, sizes, _, row = drawn
    n_bins, n_pairs = sum(sizes), math.comb(len(sizes), 2)
    numbers = st.lists(st.integers(-5, 5), min_size=n_bins**2, max_size=n_bins**2)
    expected = np.array(data.draw(numbers)).reshape(n_bins, n_bins)
    more = np.concatenate([codes, np.array([row], dtype=codes.dtype)])
    before, after = (
        noisy_pair_distances(c, sizes, expected, exact(math.sqrt(n_pairs)))
        for c in (codes, more)
    )
    assert before.tolist() == [
        np.abs(slow_table(codes, sizes, i, j) - block(expected, sizes, i, j)).sum()
        for i in range(len(sizes))
        for j in range(i + 1, len(sizes))
    ]
    assert np.abs(after - before).max() <= 1
    assert ((after - before) ** 2).sum() <= n_pairs


# --- Paid for ---------------------------------------------------------------------


@pytest.mark.parametrize("n_tables", [1, 3, 6])
def test_a_reservation_for_fewer_tables_is_refused(n_tables):
    """And nothing is drawn from it."""
    codes = random_codes(20)
    small = line(8.0, 0.1, math.sqrt(n_tables) * (1 - 1e-9))
    with pytest.raises(ReservationError, match="sensitivity"):
        noisy_pair_tables(codes, SIZES, PAIRS[:n_tables], small)
    assert small.used == 0
    enough = line(8.0, 0.1, math.sqrt(n_tables))
    noisy_pair_tables(codes, SIZES, PAIRS[:n_tables], enough)
    assert enough.used == 1


def test_a_reservation_for_fewer_distances_is_refused():
    codes, expected = random_codes(20), np.zeros((10, 10), dtype=np.int64)
    small = line(8.0, 0.1, math.sqrt(6) * (1 - 1e-9))
    with pytest.raises(ReservationError, match="sensitivity"):
        noisy_pair_distances(codes, SIZES, expected, small)
    assert small.used == 0


def test_a_table_is_not_bought_twice():
    """Neither by a second call nor by a pair that is named twice."""
    codes, once = random_codes(20), line(8.0, 0.1, math.sqrt(6))
    noisy_pair_tables(codes, SIZES, PAIRS, once)
    with pytest.raises(ReservationError, match="left"):
        noisy_pair_tables(codes, SIZES, PAIRS, once)
    expected = np.zeros((10, 10), dtype=np.int64)
    with pytest.raises(ReservationError, match="left"):
        noisy_pair_distances(codes, SIZES, expected, once)
    twice = line(8.0, 0.1, 10.0)
    with pytest.raises(ValueError, match="each of them once"):
        noisy_pair_tables(codes, SIZES, PAIRS[[0, 0]], twice)
    assert twice.used == 0


@pytest.mark.parametrize("pairs", [[[1, 0]], [[2, 2]], [[0, 1], [0, 1]]])
def test_what_is_no_pair_is_refused(pairs):
    with pytest.raises(ValueError, match="i < j"):
        measured_cells(SIZES, np.array(pairs))


@pytest.mark.parametrize("codes", [[[0, 0, 0, 2]], [[-1, 0, 0, 0]], [[0, 0, 0]]])
def test_codes_out_of_range_are_refused_and_not_shown(codes):
    with pytest.raises(ValueError, match="Expected") as error:
        exact_pair_counts(np.array(codes), SIZES)
    assert "[[" not in str(error.value)


@pytest.mark.parametrize("sizes", [[3, 0, 4, 2], [3, -1, 4, 2], [3, 1, 4]])
def test_columns_without_a_bin_are_refused(sizes):
    with pytest.raises(ValueError, match="positive number"):
        exact_pair_counts(np.zeros((0, 4), dtype=np.int64), sizes)


def test_expected_tables_that_are_not_whole_are_refused():
    """The noise is that of whole numbers, and so must be what it is added to."""
    with pytest.raises(ValueError, match="whole numbers"):
        noisy_pair_distances(random_codes(5), SIZES, np.zeros((10, 10)), exact(9.0))


# --- Noise ------------------------------------------------------------------------


def squares(release, exact_values, reservation):
    """Give the sum of squared noise in units of the ledger's, and of how many."""
    noise = (release - exact_values) / reservation.noise_std
    return float((noise**2).sum()), noise.size


def assert_is_chi_squared(total, n):
    assert chi2.ppf(ALPHA / 2, n) < total < chi2.ppf(1 - ALPHA / 2, n)


@pytest.mark.statistical
def test_every_cell_has_the_noise_of_the_ledger():
    """n = 5 columns of 30 bins: 9,000 cells, and no cell beside them.

    The squared noise over its variance is chi-square with 9,000 degrees of freedom (a
    discrete Gaussian of sigma > 10 differs by less than 1e-80). Two-sided at 1e-6; half
    the noise would give a quarter, and none 0. The same for the noise of one table.
    """
    sizes = [30] * 5
    codes = random_codes(500, sizes)
    pairs = np.stack(np.triu_indices(5, 1), axis=1)
    reservation = line(8.0, 0.2, math.sqrt(10))
    assert reservation.noise_std == pytest.approx(math.sqrt(10) / 0.2, rel=0.01)
    released = noisy_pair_tables(codes, sizes, pairs, reservation)
    counts, measured = exact_pair_counts(codes, sizes), measured_cells(sizes, pairs)
    assert measured.sum() == 9000
    assert (released[~measured] == 0).all()
    total, n = squares(released[measured], counts[measured], reservation)
    assert_is_chi_squared(total, n)


@pytest.mark.statistical
def test_every_distance_has_the_noise_of_the_ledger():
    """n = 2,016 pairs of 64 columns; as above, two-sided at 1e-6."""
    sizes = [2] * 64
    codes, expected = random_codes(40, sizes), np.full((128, 128), 10)
    reservation = line(8.0, 0.2, math.sqrt(2016))
    off = np.abs(exact_pair_counts(codes, sizes) - 10)
    distances = off.reshape(64, 2, 64, 2).sum(axis=(1, 3))[np.triu_indices(64, 1)]
    released = noisy_pair_distances(codes, sizes, expected, reservation)
    assert_is_chi_squared(*squares(released, distances, reservation))
