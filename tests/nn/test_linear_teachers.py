"""Linear teachers of cells: their vectors, what one row moves, and what is said."""

from __future__ import annotations

import math
import pickle
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from skdpsynth.exceptions import ReservationError
from skdpsynth.nn import _linear_teachers
from skdpsynth.nn._cells import Cells
from skdpsynth.nn._linear_teachers import LinearTeachers, kept_share
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy._counts import GRID

CPU = torch.device("cpu")
TRIPLES = torch.tensor(list(combinations(range(4), 3)))
CELLS = Cells(TRIPLES, 3)
MOST = GRID // 2  # what a teacher has for each of the four triples


def rows_of(n_rows, seed=0):
    groups = np.random.default_rng(seed).integers(0, 3, (n_rows, 4))
    return groups.astype(np.uint8)


def one_hot(rows):
    found = np.zeros((len(rows), 4, 3, 3, 3))
    for own, row in zip(found, rows, strict=True):
        for t, triple in enumerate(TRIPLES.tolist()):
            own[(t, *row[triple])] = 1.0
    return found


def ensemble(rows, n_teachers, *, epsilon=5.0, sensitivity=GRID, count=1, seed=0):
    accountant = PrivacyAccountant(epsilon, 1e-5)
    mu = math.inf if epsilon == math.inf else accountant.mu_cap * 0.9 / count**0.5
    return LinearTeachers(
        rows,
        n_teachers,
        expected_rows=len(rows),
        reservation=accountant.reserve_gaussian(
            "sums", mu=mu, sensitivity=sensitivity, count=count
        ),
        rng=np.random.default_rng(seed),
        device=CPU,
    )


def summed(monkeypatch, teachers):
    """Give the exact sum that is about to be released."""
    found = []
    with monkeypatch.context() as patch:
        patch.setattr(
            _linear_teachers,
            "release_gaussian",
            lambda values, reservation: found.append(values.copy()) or values,
        )
        teachers.release(CELLS)
    return found[0]


def assigned_to(monkeypatch, parts):
    monkeypatch.setattr(
        _linear_teachers,
        "assign_teachers",
        lambda n_units, *_: np.array(parts)[:n_units],
    )


def test_the_sum_is_that_of_the_teachers_means(monkeypatch):
    """By a loop over teachers, one of them without a row."""
    rows, parts = rows_of(30), np.random.default_rng(1).integers(0, 6, 30) * 2
    assigned_to(monkeypatch, parts)
    expected = np.zeros((4, 3, 3, 3))
    for teacher in np.unique(parts):
        own = one_hot(rows[parts == teacher])
        expected += MOST // len(own) * own.sum(axis=0)
    found = summed(monkeypatch, ensemble(rows, 12))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=60, deadline=None)
@given(
    n_rows=st.integers(0, 12),
    n_teachers=st.integers(1, 5),
    place=st.integers(0, 12),
    row=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    most_rows=st.integers(2, 4),
    seed=st.integers(0, 1000),
)
def test_a_row_moves_the_sum_by_the_grid_at_most(
    n_rows, n_teachers, place, row, most_rows, seed
):
    """Wherever it is put in, also where a teacher has more rows than it looks at."""
    rng = np.random.default_rng(seed)
    rows, parts = rng.integers(0, 3, (n_rows, 4)), rng.integers(n_teachers, size=n_rows)
    place = min(place, n_rows)
    more = np.insert(rows, place, row, axis=0).astype(np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_linear_teachers, "_MOST_ROWS", most_rows)
        assigned_to(patch, parts)
        before = summed(patch, ensemble(rows.astype(np.uint8), n_teachers))
        assigned_to(patch, np.insert(parts, place, rng.integers(n_teachers)))
        after = summed(patch, ensemble(more, n_teachers))
    assert np.square((after - before).astype(float)).sum() <= GRID**2


def test_a_row_alone_moves_it_by_all_of_that(monkeypatch):
    found = summed(monkeypatch, ensemble(rows_of(1), 7))
    assert np.linalg.norm(found) == pytest.approx(GRID)


def test_the_bound_holds_for_every_number_of_rows_that_are_looked_at():
    """In one triple: k rows in a cell and one more there or elsewhere, in integers."""
    most = math.isqrt(GRID**2 // math.comb(19, 3))  # of the widest tables
    k = np.arange(1, _linear_teachers._MOST_ROWS, dtype=np.int64)
    before, after = most // k, most // (k + 1)
    together = (before - after) * k
    assert (together**2 + after**2 <= most**2).all()  # elsewhere
    assert (np.abs(after * (k + 1) - before * k) <= most).all()  # in the same cell
    assert 2 * after[-1] ** 2 <= most**2  # one row pushes another out


def test_teachers_look_at_so_many_rows(monkeypatch):
    monkeypatch.setattr(_linear_teachers, "_MOST_ROWS", 5)
    rows = rows_of(40)
    assigned_to(monkeypatch, [0] * 40)
    found = summed(monkeypatch, ensemble(rows, 1))
    np.testing.assert_array_equal(found, MOST // 5 * one_hot(rows[:5]).sum(axis=0))


@pytest.mark.parametrize("n_teachers", [20, 300, 3000])
def test_what_is_said_is_right_up_to_what_is_said_of_it(n_teachers):
    """Chi-squared of the noise and of voices: 40 ensembles of 108 cells each.

    Cells of a triple are about independent; twice the variance of chi-squared of as
    many degrees covers what is left. Two-sided, 1e-6 each.
    """
    rows = rows_of(3000)
    exact = one_hot(rows).mean(axis=0)
    squares = 0.0
    for seed in range(40):
        shares, std = ensemble(rows, n_teachers, seed=seed).release(CELLS)
        squares += float(np.square((shares.numpy() - exact) / std.numpy()).sum())
    n = 40 * exact.size
    low, high = chi2.ppf([5e-7, 1 - 5e-7], n)
    spread = math.sqrt(2)
    assert n - spread * (n - low) < squares < n + spread * (high - n)


def test_a_voice_for_each_row_and_no_noise_say_the_shares():
    """As many teachers as there are draws: hardly any row shares one."""
    rows = rows_of(200)
    shares, _ = ensemble(rows, 10**9 // 1000, epsilon=math.inf).release(CELLS)
    np.testing.assert_allclose(shares, one_hot(rows).mean(axis=0), atol=2e-3)


def test_no_rows_and_no_noise_are_finite():
    shares, std = ensemble(rows_of(0), 3, epsilon=math.inf).release(CELLS)
    assert not shares.any()
    assert torch.isfinite(std).all()


def test_the_share_that_is_kept_is_that_of_teachers_with_a_row():
    """10**6 rows and half as many teachers; 1e-3 is 20 standard deviations."""
    rng = np.random.default_rng(0)
    found = np.unique(rng.integers(5 * 10**5, size=10**6)).size / 10**6
    assert kept_share(2.0) == pytest.approx(found, abs=1e-3)


def test_sensitivity_is_asked_for():
    with pytest.raises(ReservationError, match="sensitivity"):
        ensemble(rows_of(5), 2, sensitivity=GRID / 2).release(CELLS)


def test_a_second_sum_is_not_paid_for():
    teachers = ensemble(rows_of(5), 2)
    teachers.release(CELLS)
    with pytest.raises(ReservationError):
        teachers.release(CELLS)


def test_too_many_triples_are_refused():
    many = torch.tensor(list(combinations(range(80), 3)))
    with pytest.raises(ValueError, match="fewer triples"):
        ensemble(rows_of(0), 1).release(Cells(many, 2))


def test_they_cannot_be_pickled():
    with pytest.raises(TypeError, match="private rows"):
        pickle.dumps(ensemble(rows_of(3), 2))
