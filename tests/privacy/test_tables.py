"""Tables of two and three columns, second moments, and parts: exact, bounded, noisy."""

import math
import os
import tempfile
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from _counting import length_of_part
from _reserve import exact, is_noise, noisy
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.privacy import GRID, Counted, LocalParts, Step
from skdpsynth.privacy.statistics import (
    LENGTH,
    MOMENTS_SENSITIVITY,
    gaussian_sum,
    measured_cells,
    noisy_histogram,
    noisy_pair_distances,
    noisy_pair_tables,
    noisy_second_moments,
    noisy_triple_tables,
)
from skdpsynth.privacy.testing import observe_releases

SMALL = settings(max_examples=80, deadline=None)
SIZES = [3, 1, 4, 2]


def pairs_of(n_columns):
    return np.array([*combinations(range(n_columns), 2)], dtype=np.int64)


def triples_of(n_columns):
    return np.array([*combinations(range(n_columns), 3)], dtype=np.int64)


PAIRS = pairs_of(4)
ZEROS = np.zeros((10, 10), dtype=np.int64)


def slow_table(codes, n_bins, columns):
    table = np.zeros([n_bins[j] for j in columns], dtype=np.int64)
    for row in codes[:, list(columns)].tolist():
        table[tuple(row)] += 1
    return table


def block(released, n_bins, i, j):
    starts = np.concatenate(([0], np.cumsum(n_bins)))
    return released[starts[i] : starts[i + 1], starts[j] : starts[j + 1]]


def random_codes(n_rows, n_bins=SIZES, seed=0):
    return np.random.default_rng(seed).integers(0, n_bins, (n_rows, len(n_bins)))


def in_parts(rows, *ends):
    pieces = [rows[a:b] for a, b in pairwise([0, *ends, len(rows)])]
    return LocalParts(lambda: iter(pieces))


@st.composite
def tables(draw, order=2):
    """Draw codes, the bins of their columns, and some tuples of columns.

    Of three columns every one has as many bins.
    """
    sizes = draw(st.lists(st.integers(1, 4), min_size=order, max_size=5))
    sizes = sizes if order == 2 else sizes[:1] * len(sizes)
    row = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    rows = draw(st.lists(row, max_size=9))
    codes = np.array(rows, dtype=np.uint8).reshape(len(rows), len(sizes))
    every = [*combinations(range(len(sizes)), order)]
    chosen = draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    return codes, sizes, np.array(sorted(chosen))


# --- Tables: exact ----------------------------------------------------------------


@SMALL
@given(tables(), tables(3), st.sampled_from([1, 7, GRID]))
def test_tables_are_those_of_a_loop(of_two, of_three, scale):
    """Times the scale; 0 stands where no pair was asked.

    So a row moves one cell of each of N tables, which have L2 sensitivity
    ``scale sqrt(N)``.
    """
    codes, sizes, pairs = of_two
    enough = exact(scale * math.sqrt(len(pairs)))
    released = noisy_pair_tables(codes, sizes, pairs, enough, scale)
    asked = {tuple(pair) for pair in pairs.tolist()}
    for i, j in product(range(len(sizes)), repeat=2):
        expected = scale * ((i, j) in asked) * slow_table(codes, sizes, (i, j))
        assert block(released, sizes, i, j).tolist() == expected.tolist()
    codes, sizes, triples = of_three
    enough = exact(scale * math.sqrt(len(triples)))
    released = noisy_triple_tables(codes, sizes[0], triples, enough, scale)
    expected = [scale * slow_table(codes, sizes, own) for own in triples.tolist()]
    assert released.tolist() == [table.tolist() for table in expected]


@SMALL
@given(tables(), st.data())
def test_a_row_moves_each_distance_by_at_most_one(drawn, data):
    codes, sizes, _ = drawn
    n_bins, n_pairs = sum(sizes), math.comb(len(sizes), 2)
    numbers = st.lists(st.integers(-5, 5), min_size=n_bins**2, max_size=n_bins**2)
    expected = np.array(data.draw(numbers)).reshape(n_bins, n_bins)
    found, fewer = (
        noisy_pair_distances(c, sizes, expected, exact(math.sqrt(n_pairs)))
        for c in (codes, codes[1:])
    )
    assert found.tolist() == [
        np.abs(slow_table(codes, sizes, (i, j)) - block(expected, sizes, i, j)).sum()
        for i, j in combinations(range(len(sizes)), 2)
    ]
    assert np.abs(found - fewer).max() <= 1


def released_whole_and_in_parts(release, rows, *ends):
    """Give what is released of rows at once, in parts, and in a folded order."""
    folded = np.concatenate([rows[1::2], rows[::2]])
    return [release(own) for own in (rows, in_parts(rows, *ends), folded)]


def test_neither_parts_nor_order_nor_chunks_of_rows_matter():
    """More rows than are worked on at a time: 8,192 of pairs, 919 of 1,140 triples."""
    codes, n_bins = random_codes(20_000), [3] * 20
    many, triples = random_codes(2_500, n_bins).astype(np.uint8), triples_of(20)

    def of_pairs(rows):
        return noisy_pair_tables(rows, SIZES, PAIRS, exact(math.sqrt(6)))

    def of_triples(rows):
        return noisy_triple_tables(rows, 3, triples, exact(math.sqrt(1140)))

    whole, *others = released_whole_and_in_parts(of_pairs, codes, 1, 1, 9_000)
    assert all(np.array_equal(other, whole) for other in others)
    for own in PAIRS.tolist():
        found = slow_table(codes, SIZES, own)
        assert np.array_equal(block(whole, SIZES, *own), found)
    whole, *others = released_whole_and_in_parts(of_triples, many, 3, 3, 2_000)
    assert all(np.array_equal(other, whole) for other in others)
    assert (whole.sum(axis=(1, 2, 3)) == 2_500).all()


REFUSED = [
    *((noisy_pair_tables, (SIZES, own), "once") for own in ([[1, 0]], [[0, 1]] * 2)),
    *(
        (noisy_triple_tables, (4, own), "i < j < k")
        for own in ([[0, 1, 1]], [[-1, 0, 1]], [[0, 1]])
    ),
    (noisy_triple_tables, (4, [[0, 1, 2], [0, 1, 2]]), "once"),
    (noisy_triple_tables, (4, [[0, 1, 4]]), "columns that the codes have"),
    # The noise is that of whole numbers, and so must be what it is added to.
    (noisy_pair_distances, (SIZES, ZEROS / 2), "whole numbers"),
]


@pytest.mark.parametrize(("release", "settings", "words"), REFUSED)
def test_what_cannot_be_counted_is_refused(release, settings, words):
    sizes, asked = settings
    reservation = noisy(10.0)
    with pytest.raises(ValueError, match=words):
        release(random_codes(9), sizes, np.array(asked), reservation)
    assert reservation.used == 0


# --- Second moments ---------------------------------------------------------------


def products(row):
    """Give the products of all pairs of one row of Python's integers."""
    return [a * b for a, b in combinations(row, 2)]


def exact_moments(scores, means=None, unit=1.0):
    """Return the exact whole numbers behind a release, in Python's integers."""
    means, seen = np.zeros(scores.shape[1]) if means is None else means, []
    with observe_releases(seen.append):
        found = noisy_second_moments(scores, means, unit, exact(MOMENTS_SENSITIVITY))
    (release,) = seen
    assert release.exact.dtype == np.int64
    assert found.tolist() == (release.exact * unit**2).tolist()
    return release.exact.tolist()


def test_sums_of_more_rows_than_are_worked_on_at_a_time_are_exact():
    """Odd products whose sum doubles would round: 2**16 rows at a time hold it."""
    rows = np.full((2**16 * 2 + 1, 2), 2895.0)
    line = partial(exact, MOMENTS_SENSITIVITY)

    def of_products(own):
        return noisy_second_moments(own, np.zeros(2), 1.0, line()).tolist()

    found = released_whole_and_in_parts(of_products, rows, 5, 2**16 + 7)
    assert found == [[len(rows) * 2895**2]] * 3
    assert 2**16 * LENGTH**2 < 2**53


HOSTILE = st.one_of(
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1e300, -1e300, 1e-320]),
    st.floats(-4.0, 4.0),
    st.floats(),
)


@SMALL
@given(
    st.integers(2, 9).flatmap(
        lambda n: st.tuples(
            arrays.arrays(np.float64, (1, n), elements=HOSTILE),
            arrays.arrays(np.float64, n, elements=st.floats(-3.0, 3.0)),
            st.one_of(st.floats(1e-8, 1.0), st.sampled_from([1e-300, 1e100])),
        )
    )
)
def test_no_row_moves_the_moments_by_more_than_their_sensitivity(drawn):
    """In exact fractions, whatever the scores: also beside rows of another kind."""
    row, means, unit = drawn
    limit = Fraction(LENGTH) ** 4 / 2
    assert Fraction(MOMENTS_SENSITIVITY) ** 2 <= limit * (1 + Fraction(1, 2**50))
    alone = exact_moments(row, means, unit)
    assert sum(Fraction(value) ** 2 for value in alone) <= limit
    others = np.random.default_rng(0).normal(size=(5, row.shape[1]))
    before = exact_moments(others, means, unit)
    after = exact_moments(np.concatenate([others, row]), means, unit)
    assert [a - b for a, b in zip(after, before, strict=True)] == alone


def test_long_rows_are_shortened_and_keep_their_direction():
    """Short ones stay; what is not finite counts as the mean."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((20, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    means = np.array([1.0, -0.5, 0.0, 0.2])
    for share in (0.01, 0.5, 0.999, 1.001, 2.0, 1e6):
        for own in directions:
            found = exact_moments((means + share * own)[None], means, 1 / LENGTH)
            length = min(share, 1.0) * LENGTH
            expected = products((length * own).tolist())
            np.testing.assert_allclose(found, expected, atol=3.0 * length + 9.0)
    row = np.array([[math.nan, 3.0, math.inf, -5.0]])
    assert exact_moments(row) == [0, 0, 0, 0, -15, 0]
    assert exact_moments(row, np.full(4, 1.0)) == [0, 0, 0, 0, -12, 0]
    # A row of equal numbers comes near to the bound: a smaller one would be wrong.
    moved = exact_moments(np.full((1, 500), 1e30), unit=1e-3)
    assert 0.95 * (1 - 1 / 500) < sum(x**2 for x in moved) / (LENGTH**4 // 2) <= 1


MANY, SIX = random_codes(500, [30] * 5), random_codes(300, [6] * 6)
TWOS, TENS = random_codes(40, [2] * 64), np.full((128, 128), 10)
SCORES = np.random.default_rng(0).normal(size=(50, 64))
MEASURED = measured_cells([30] * 5, pairs_of(5))


def measured_pairs(line, scale):
    released = noisy_pair_tables(MANY, [30] * 5, pairs_of(5), line, scale)
    assert (released[~MEASURED] == 0).all()
    return released[MEASURED]


NOISED = {
    "histogram": (
        lambda line: np.concatenate(noisy_histogram(MANY, [2000] * 5, line)),
        *(math.sqrt(5), 10_000, 1),
    ),
    "sums of teachers": (
        lambda line: gaussian_sum(np.zeros((3, 5000)), 0.25, line),
        *(2 * GRID, 5000, 0.25 / GRID),
    ),
    "pairs": (partial(measured_pairs, scale=GRID), GRID * math.sqrt(10), 9000, 1),
    "distances": (
        lambda line: noisy_pair_distances(TWOS, [2] * 64, TENS, line),
        *(math.sqrt(2016), 2016, 1),
    ),
    "triples": (
        lambda line: noisy_triple_tables(SIX, 6, triples_of(6), line, GRID),
        *(GRID * math.sqrt(20), 4320, 1),
    ),
    "moments": (
        lambda line: noisy_second_moments(SCORES, np.zeros(64), 0.01, line),
        *(MOMENTS_SENSITIVITY, 2016, 0.01**2),
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", NOISED)
def test_every_number_has_the_noise_of_the_ledger(name):
    """Each fails by chance at a rate of 1e-6."""
    release, sensitivity, n_numbers, unit = NOISED[name]
    reservation = noisy(sensitivity)
    assert reservation.noise_std == pytest.approx(sensitivity / 0.2, rel=0.02)
    noise = release(reservation) - release(exact(sensitivity))
    assert noise.size == n_numbers
    assert is_noise(noise, reservation.noise_std * unit)


# --- Rows in parts: no part is lost or counted twice -------------------------------


CODES = np.random.default_rng(0).integers(0, 5, (200, 3))


@given(st.lists(st.integers(0, 200), max_size=8))
def test_counts_are_those_of_the_whole_however_it_is_cut(places):
    """Also of many parts, which several threads count."""
    parts = in_parts(CODES, *sorted(places))
    counts = noisy_histogram(parts, [5] * 3, exact(3**0.5))
    assert [own.tolist() for own in counts] == [
        np.bincount(column, minlength=5).tolist() for column in CODES.T
    ]
    assert sum(parts.n_rows.values()) == 200
    assert (np.concatenate([*parts.map(np.negative).each()]) == -CODES).all()
    with pytest.raises(ValueError, match="integer codes"):  # comes through
        noisy_histogram(parts, [5, 5, 4], exact(3**0.5))


def test_a_part_that_comes_twice_is_refused():
    once = Counted({1: 10}, np.arange(3))
    with pytest.raises(InvalidTableError, match="came twice"):
        once + Counted({0: 4, 1: 10}, np.arange(3))
    assert (once + Counted({0: 4}, np.arange(3))).n_rows == {0: 4, 1: 10}


def test_a_sum_leaves_what_it_was_given():
    """A task of a cluster may be given the same counts again."""
    counts = [Counted({n: 2}, [Counter(a=1, b=1), np.arange(2)]) for n in range(3)]
    for _ in range(2):
        total = counts[0] + counts[1] + counts[2]
        assert total.value[0] == Counter(a=3, b=3)
        assert total.value[1].tolist() == [0, 3]


def test_nothing_private_is_in_a_repr():
    found = [Counted({0: 77}, 88), Step(length_of_part, (99,))]
    assert str(found) == "[Counted(...), Step(length_of_part)]"


@pytest.mark.parametrize(
    "later",
    [
        [CODES[:100]],
        [CODES[:100], CODES[100:], CODES[:100]],
        [CODES[100:], CODES[:90]],
        [],
    ],
    ids=["lost", "once more", "other rows", "nothing"],
)
def test_other_parts_than_before_are_refused(later):
    """In a sum, and where parts are kept."""
    readings = iter([[CODES[:100], CODES[100:]], later, later])
    parts = LocalParts(lambda: iter(next(readings)))
    parts.total(np.sum)
    with pytest.raises(InvalidTableError, match="read before"):
        parts.total(np.sum)
    with pytest.raises(InvalidTableError, match="read before"):
        parts.kept()


def test_parts_are_kept_in_a_file_without_a_name(monkeypatch, tmp_path):
    """So that it ends with the process, however that ends."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    readings = iter([[CODES[:100], CODES[100:]]])
    kept = LocalParts(lambda: iter(next(readings))).map(np.negative).kept()
    assert os.listdir(tmp_path) == []
    for _ in range(2):
        assert (np.concatenate([*kept.each()]) == -CODES).all()
