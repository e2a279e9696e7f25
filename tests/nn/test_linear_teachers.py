"""Linear teachers: their vectors, what one row moves, and what is said."""

from __future__ import annotations

import math
import pickle
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from skdpsynth.exceptions import ReservationError, SkdpsynthError
from skdpsynth.nn import _linear_teachers
from skdpsynth.nn._cells import Cells
from skdpsynth.nn._linear_teachers import LinearTeachers, kept_share
from skdpsynth.nn._score_products import ScoreProducts
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy._integers import GRID
from skdpsynth.privacy._parts import LocalParts, stream_of_part

CPU = torch.device("cpu")
TRIPLES = torch.tensor(list(combinations(range(4), 3)))
CELLS, PRODUCTS = Cells(TRIPLES, 3), ScoreProducts(4)
LOOKS = pytest.mark.parametrize("look", [CELLS, PRODUCTS], ids=["cells", "products"])
LENGTH = 4096  # of a row of scores


def moved_at_most(look):
    """Give K of the docstring: what a row may move an exact sum by.

    Products are rounded to multiples of 2**16, each by a unit of these at most.
    """
    if not isinstance(look, ScoreProducts):
        return GRID
    return 2**16 * (GRID - math.isqrt(math.comb(look.n_columns, 2)) - 1)


def most_of(look):
    """Give what a teacher has: W of the docstring."""
    return math.isqrt(moved_at_most(look) ** 2 // look.squared_norm) - 2


def on_grid(look, exact):
    """Give what is released of exact sums, in Python's integers."""
    if not isinstance(look, ScoreProducts):
        return exact
    return (exact + 2**15) // 2**16


def rows_of(n_rows, seed=0, look=CELLS):
    rng = np.random.default_rng(seed)
    if look is CELLS:
        return rng.integers(0, 3, (n_rows, 4)).astype(np.uint8)
    # Of all lengths; a half of them with all of it in the signs.
    sizes = rng.choice([0, 1, 700, 1500, 2048], (n_rows, 1))
    spread = np.where(rng.random((n_rows, 1)) < 0.5, 1.0, rng.random((n_rows, 4)))
    signs = rng.choice([-1, 1], (n_rows, 4))
    return np.trunc(sizes * spread * signs).astype(np.int32)


def features_of(look, rows):
    """Give those of each row, (n_rows, *shape), in integers of any size."""
    found = np.zeros((len(rows), *look.shape), dtype=object)
    for own, row in zip(found, rows.tolist(), strict=True):
        if isinstance(look, ScoreProducts):
            own[:] = [row[i] * row[j] for i, j in combinations(range(len(row)), 2)]
        else:
            for t, triple in enumerate(look.triples.tolist()):
                own[(t, *(row[j] for j in triple))] = 1
    return found


def squared_norm(values):
    """Give it exactly, in Python's integers."""
    return sum(int(value) ** 2 for value in values.ravel())


def ensemble(
    rows,
    n_teachers,
    *,
    epsilon=5.0,
    sensitivity=GRID,
    count=1,
    seed=0,
    expected_rows=None,
):
    accountant = PrivacyAccountant(epsilon, 1e-5)
    mu = math.inf if epsilon == math.inf else accountant.mu_cap * 0.9 / count**0.5
    return LinearTeachers(
        rows,
        n_teachers,
        expected_rows=len(rows) if expected_rows is None else expected_rows,
        reservation=accountant.reserve_gaussian(
            "sums", mu=mu, sensitivity=sensitivity, count=count
        ),
        rng=np.random.default_rng(seed),
        device=CPU,
    )


def summed(monkeypatch, teachers, look=CELLS):
    """Give the exact sum that is about to be released."""
    found = []
    with monkeypatch.context() as patch:
        patch.setattr(
            _linear_teachers,
            "release_gaussian",
            lambda values, reservation: found.append(values.copy()) or values,
        )
        teachers.release(look)
    assert found[0].dtype == np.int64
    return found[0]


def assigned_to(monkeypatch, parts):
    monkeypatch.setattr(
        _linear_teachers,
        "assign_teachers",
        lambda n_units, *_: np.array(parts, dtype=np.int64)[:n_units],
    )


@LOOKS
def test_the_sum_is_that_of_the_teachers_means(look, monkeypatch):
    """By a loop over teachers, one of them without a row."""
    rows = rows_of(30, look=look)
    parts = np.random.default_rng(1).integers(0, 6, 30) * 2
    assigned_to(monkeypatch, parts)
    expected = np.zeros(look.shape, dtype=object)
    for teacher in np.unique(parts):
        own = features_of(look, rows[parts == teacher])
        expected += most_of(look) // len(own) * own.sum(axis=0)
    found = summed(monkeypatch, ensemble(rows, 12), look)
    assert expected.any()
    np.testing.assert_array_equal(found, on_grid(look, expected))


@LOOKS
@settings(max_examples=100, deadline=None)
@given(
    n_rows=st.integers(0, 12),
    n_teachers=st.integers(1, 5),
    place=st.integers(0, 12),
    most_rows=st.integers(2, 4),
    seed=st.integers(0, 1000),
)
def test_a_row_moves_the_sum_by_the_grid_at_most(
    look, n_rows, n_teachers, place, most_rows, seed
):
    """Wherever it is put in, also where a teacher has more rows than it looks at."""
    rng = np.random.default_rng(seed)
    parts = rng.integers(n_teachers, size=n_rows)
    rows, row = rows_of(n_rows, seed, look), rows_of(1, seed + 10**6, look)[0]
    if n_rows and look is PRODUCTS and seed % 2:
        row = rows[seed % n_rows] * [-1, 1, 1, 1]
    place = min(place, n_rows)
    more = np.insert(rows, place, row, axis=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_linear_teachers, "_MOST_ROWS", most_rows)
        assigned_to(patch, parts)
        before = summed(patch, ensemble(rows, n_teachers), look)
        assigned_to(patch, np.insert(parts, place, rng.integers(n_teachers)))
        after = summed(patch, ensemble(more, n_teachers), look)
    assert squared_norm(after - before) <= GRID**2


def test_a_row_alone_moves_it_by_all_of_that(monkeypatch):
    """Cells by all of it; 64 equal scores by the root of 63/64, and rounding."""
    found = summed(monkeypatch, ensemble(rows_of(1), 7))
    assert squared_norm(found) == pytest.approx(GRID**2, rel=1e-5)
    row = np.full((1, 64), LENGTH // 8, dtype=np.int32)
    found = summed(monkeypatch, ensemble(row, 7), ScoreProducts(64))
    assert squared_norm(found) <= GRID**2
    assert squared_norm(found) == pytest.approx(63 / 64 * GRID**2, rel=2e-3)


class OfNorm(ScoreProducts):
    """A look that says that features are as long as this."""

    said = moved_at_most(PRODUCTS) ** 2 // (4 * 1024 + 2) ** 2  # the longest

    @property
    def squared_norm(self):
        return self.said


@pytest.mark.parametrize(
    "look",
    [Cells(TRIPLES[:n], 3) for n in (1, 2, 4)]
    + [Cells(torch.zeros(math.comb(19, 3), 3), 2), PRODUCTS, OfNorm(4)]
    + [ScoreProducts(2), ScoreProducts(2000)],
)
def test_the_bound_holds_for_every_number_of_rows_that_are_looked_at(look):
    """In integers: k rows of any features of norm N, and one more of any other ones.

    With weights v of k rows and w of k + 1 the sum S of norm k N changes by
    ``(w - v) S + w x``, so by ``((v - w) k + w) N`` at most.
    """
    most, squared, moved = most_of(look), look.squared_norm, moved_at_most(look)
    assert most == look.largest_weight - 2
    assert most**2 * squared <= moved**2  # alone
    if isinstance(look, ScoreProducts):  # rounding, of all products
        assert moved / 2**16 + math.sqrt(*look.shape) <= GRID
    for k in range(1, _linear_teachers._MOST_ROWS):
        before, after = most // k, most // (k + 1)
        by = (before - after) * k + after
        assert by**2 * squared <= moved**2
        said = 2 * most / (k + 1) + k + 1
        assert by <= said <= math.sqrt(moved**2 / squared) * (1 + 1e-12)
    out = 2 * (most // _linear_teachers._MOST_ROWS)  # one row pushes another out
    assert out**2 * squared <= moved**2


def test_of_one_row_each_a_pushed_out_one_would_move_too_much(monkeypatch):
    """A twin that looks at one row only: the opposite one comes before it."""
    monkeypatch.setattr(_linear_teachers, "_MOST_ROWS", 1)
    look, row = ScoreProducts(2), np.full((1, 2), 2896, dtype=np.int32)
    both = np.concatenate([row * [-1, 1], row]).astype(np.int32)
    sums = [summed(monkeypatch, ensemble(own, 1), look) for own in (row, both)]
    assert squared_norm(sums[1] - sums[0]) > 1.9 * GRID**2


@LOOKS
def test_teachers_look_at_so_many_rows(look, monkeypatch):
    monkeypatch.setattr(_linear_teachers, "_MOST_ROWS", 5)
    rows = rows_of(40, look=look)
    assigned_to(monkeypatch, [0] * 40)
    found = summed(monkeypatch, ensemble(rows, 1), look)
    expected = features_of(look, rows[:5]).sum(axis=0)
    expected = on_grid(look, most_of(look) // 5 * expected)
    np.testing.assert_array_equal(found, expected)


class AsTheyAre(Cells):
    """Cells whose shares need not add up to 1."""

    def scaled(self, means):
        return means


@pytest.mark.parametrize(
    ("look", "n_teachers"),
    [(AsTheyAre(TRIPLES, 3), n) for n in (20, 300, 3000)]
    + [(CELLS, n) for n in (300, 3000)],
)
def test_what_is_said_is_right_up_to_what_is_said_of_it(look, n_teachers):
    """Chi-squared of the noise and of voices: 40 ensembles of 108 cells each.

    Cells of a triple are about independent; twice the variance of chi-squared of as
    many degrees covers what is left. Two-sided, 1e-6 each. Where noise is three times
    the share of a cell (20 teachers), what makes shares add up to 1 is noise as well.
    """
    rows = rows_of(3000)
    exact = features_of(CELLS, rows).mean(axis=0).astype(float)
    squares = 0.0
    for seed in range(40):
        shares, std = ensemble(rows, n_teachers, seed=seed).release(look)
        squares += float(np.square((shares.numpy() - exact) / std.numpy()).sum())
    n = 40 * exact.size
    low, high = chi2.ppf([5e-7, 1 - 5e-7], n)
    spread = math.sqrt(2)
    assert n - spread * (n - low) < squares < n + spread * (high - n)


@pytest.mark.parametrize("n_teachers", [20, 300, 3000])
def test_what_is_said_of_products_is_right_up_to_what_is_said_of_it(n_teachers):
    """Chi-squared as for cells: 40 ensembles of 120 products each.

    Of rows of the largest length in random signs, whose products do not correlate:
    they vary by 15/16 of what is said. Two-sided, 1e-6 each.
    """
    rng, look = np.random.default_rng(0), ScoreProducts(16)
    rows = (LENGTH // 4 * rng.choice([-1, 1], (3000, 16))).astype(np.int32)
    exact = features_of(look, rows).mean(axis=0).astype(float)
    squares = 0.0
    for seed in range(40):
        means, std = ensemble(rows, n_teachers, seed=seed).release(look)
        squares += float(np.square((means.numpy() - exact) / std.numpy()).sum())
    n = 40 * exact.size
    low, high = chi2.ppf([5e-7, 1 - 5e-7], n)
    spread = math.sqrt(2)
    least = 15 / 16 * (n - spread * (n - low))
    assert least < squares < n + spread * (high - n)


def test_a_voice_for_each_row_and_no_noise_say_the_shares():
    """As many teachers as there are draws: hardly any row shares one."""
    rows = rows_of(200)
    shares, _ = ensemble(rows, 10**9 // 1000, epsilon=math.inf).release(CELLS)
    exact = features_of(CELLS, rows).mean(axis=0).astype(float)
    np.testing.assert_allclose(shares, exact, atol=2e-3)


def test_a_voice_for_each_row_and_no_noise_say_the_products():
    rows = rows_of(200, look=PRODUCTS)
    means, _ = ensemble(rows, 10**9 // 1000, epsilon=math.inf).release(PRODUCTS)
    exact = features_of(PRODUCTS, rows).mean(axis=0).astype(float)
    np.testing.assert_allclose(means, exact, atol=2e-3 * 2048**2)


@LOOKS
def test_no_rows_and_no_noise_are_finite(look):
    teachers = ensemble(rows_of(0, look=look), 3, epsilon=math.inf)
    means, std = teachers.release(look)
    assert not means.any()
    assert torch.isfinite(std).all()


def test_the_share_that_is_kept_is_that_of_teachers_with_a_row():
    """10**6 rows and half as many teachers; 1e-3 is 20 standard deviations."""
    rng = np.random.default_rng(0)
    found = np.unique(rng.integers(5 * 10**5, size=10**6)).size / 10**6
    assert kept_share(2.0) == pytest.approx(found, abs=1e-3)


@LOOKS
def test_sensitivity_is_asked_for(look):
    teachers = ensemble(rows_of(5, look=look), 2, sensitivity=GRID - 1)
    with pytest.raises(ReservationError, match="sensitivity"):
        teachers.release(look)


def test_a_second_sum_is_not_paid_for():
    teachers = ensemble(rows_of(5), 2)
    teachers.release(CELLS)
    with pytest.raises(ReservationError):
        teachers.release(CELLS)


def test_too_long_features_are_refused():
    """Where 1024 rows of a teacher would not have four units each; unpaid."""
    teachers, look = ensemble(rows_of(5, look=PRODUCTS), 2), OfNorm(4)
    look.said = OfNorm.said + 1
    with pytest.raises(ValueError, match="smaller norm"):
        teachers.release(look)
    assert teachers._reservation.used == 0
    look.said = OfNorm.said
    means, _ = teachers.release(look)
    assert torch.isfinite(means).all()


def test_they_cannot_be_pickled():
    with pytest.raises(TypeError, match="private rows"):
        pickle.dumps(ensemble(rows_of(3), 2))


def test_few_or_endless_teachers_hear_what_they_should():
    assert kept_share(1e-12) == kept_share(0.0) == 1.0
    assert kept_share(1e4) == pytest.approx(1e-4)


@pytest.mark.parametrize("n_teachers", [1, 50])
def test_rounding_of_weights_takes_nothing_from_the_means(n_teachers):
    """Of products a weight of k rows is 5,790 // k: up to 12 % less, but for the count.

    All rows are alike and there is no noise, so what is said has no error but by the
    number of teachers that have a row, which 3,000 rows fix.
    """
    look = ScoreProducts(3)
    rows = np.full((3000, 3), 2000, dtype=np.int32)
    means, _ = ensemble(rows, n_teachers, epsilon=math.inf).release(look)
    np.testing.assert_allclose(means, 2000.0**2, rtol=2e-3)


@LOOKS
@pytest.mark.parametrize(("n_teachers", "most_rows"), [(7, 3), (7, 1024), (400, 2)])
def test_teachers_have_rows_in_all_parts(look, n_teachers, most_rows, monkeypatch):
    """By a loop over teachers, of rows in the order of the parts."""
    monkeypatch.setattr(_linear_teachers, "_MOST_ROWS", most_rows)
    monkeypatch.setattr(_linear_teachers, "_DRAWN", 10)  # several rounds
    rows, ends = rows_of(60, look=look), [0, 25, 25, 31, 60]
    parts = LocalParts(lambda: iter([rows[a:b] for a, b in pairwise(ends)]))
    entropy = int.from_bytes(np.random.default_rng(0).bytes(32))
    teachers = np.concatenate(
        [
            stream_of_part(entropy, number).integers(n_teachers, size=b - a)
            for number, (a, b) in enumerate(pairwise(ends))
        ]
    )
    expected = np.zeros(look.shape, dtype=object)
    for teacher in np.unique(teachers):
        own = features_of(look, rows[teachers == teacher][:most_rows])
        expected += most_of(look) // len(own) * own.sum(axis=0)
    found = summed(monkeypatch, ensemble(parts, n_teachers, expected_rows=60), look)
    np.testing.assert_array_equal(found, on_grid(look, expected))


def test_a_row_in_a_middle_part_moves_the_sum_by_the_grid_at_most(monkeypatch):
    """All other rows keep their teachers, which have rows in all parts."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n_rows, n_teachers = int(rng.integers(3, 60)), int(rng.integers(1, 9))
        monkeypatch.setattr(_linear_teachers, "_MOST_ROWS", int(rng.integers(2, 8)))
        ids, rows = rng.integers(n_teachers, size=n_rows), rows_of(n_rows + 1, seed)
        cuts = np.sort(rng.integers(0, n_rows, 2)).tolist()
        place = int(rng.integers(cuts[0], cuts[1] + 1))
        found = []
        for more in (0, 1):
            own = np.insert(ids, place, rng.integers(n_teachers)) if more else ids
            held = rows if more else np.delete(rows, place, axis=0)
            ends = [0, cuts[0], cuts[1] + more, n_rows + more]
            slices = [slice(*both) for both in pairwise(ends)]
            monkeypatch.setattr(
                _linear_teachers,
                "_teachers",
                lambda *args, own=own, slices=slices: own[slices[args[2]]],
            )
            parts = LocalParts(
                lambda held=held, slices=slices: iter([held[each] for each in slices])
            )
            teachers = ensemble(parts, n_teachers, expected_rows=n_rows)
            found.append(summed(monkeypatch, teachers))
        assert squared_norm(found[1] - found[0]) <= GRID**2


@pytest.mark.parametrize("redrawn", [False, True])
@pytest.mark.parametrize("in_parts", [False, True])
def test_a_row_stays_with_its_teacher_from_look_to_look(in_parts, redrawn, monkeypatch):
    """Equal looks have equal sums; in the broken twin each look draws teachers anew.

    Of 200 rows with 50 teachers: that it draws the same has a chance of 50^-200.
    """
    rows = rows_of(200)
    cut = LocalParts(lambda: iter(np.array_split(rows, 7))) if in_parts else rows
    teachers = ensemble(cut, 50, count=2, expected_rows=200)
    first = summed(monkeypatch, teachers)
    if redrawn:
        drawn = _linear_teachers.Assignment.drawn
        teachers._assignment = drawn(1, 50, teachers._rows.n_rows)
    assert (summed(monkeypatch, teachers) == first).all() != redrawn


def test_other_draws_than_the_coordinator_s_are_noticed(monkeypatch):
    """As those of another version of NumPy on a worker."""
    teachers, real = ensemble(rows_of(40), 9), _linear_teachers._teachers
    monkeypatch.setattr(_linear_teachers, "_teachers", lambda *a: real(*a)[::-1].copy())
    with pytest.raises(SkdpsynthError, match="same version of NumPy"):
        teachers.release(CELLS)


def test_teachers_are_drawn_alike_however_rows_are_cut():
    """Their sizes have the law of one part: rows that share a teacher, and pairs."""
    n_rows, n_teachers = 3000, 500
    for sizes in ({0: n_rows}, {0: 1, 1: 1999, 2: 1000}, dict.fromkeys(range(60), 50)):
        counts = np.zeros(n_teachers, dtype=int)
        for seed in range(40):
            drawn = _linear_teachers.Assignment.drawn(seed, n_teachers, sizes)
            counts[drawn.shared] += drawn.sizes
            assert (drawn.sizes > 1).all()
        # Of rows that are not alone: binomial, up to those that are.
        alone = math.exp(-(n_rows - 1) / n_teachers)
        expected = 40 * n_rows / n_teachers * (1 - alone)
        off = ((counts - expected) ** 2 / expected).sum()
        assert off < chi2.isf(1e-7, n_teachers)
        assert off > chi2.isf(1 - 1e-7, n_teachers)
