"""G-PATE's teachers of cells: influence, flow and plan, with broken twins.

What a row does to one sum is in `tests/nn/test_linear_teachers.py`.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from _small_table import COUNTED, all_rows, frozen_start, make_table
from skdpsynth.nn._cells import SeenCells

from skdpsynth import GPATESynthesizer
from skdpsynth.nn import _linear_teachers
from skdpsynth.preprocessing._columns import PrivateRows
from skdpsynth.preprocessing._shares import CELLS_SHARE
from skdpsynth.privacy._integers import GRID
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.synthesizers import _gpate

pytestmark = [
    pytest.mark.usefixtures("short_fits"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]


def fit(table, **parameters):
    settings = {"random_state": 0, "schema": COUNTED}
    return GPATESynthesizer(**(settings | parameters)).fit(table)


def sums_of(table, **parameters):
    """Fit with frozen secrets and history; give (class, exact sum) in order."""
    sums = []

    def frozen(values, reservation):
        sums.append((reservation.scope, values.copy()))
        return np.random.default_rng(len(sums)).integers(-GRID, 9 * GRID, values.shape)

    with frozen_start() as patch, insecure_randomness(7):
        patch.setattr(_linear_teachers, "release_gaussian", frozen)
        fit(table, **({"n_iter": 3} | parameters))
    return sums


def sums_moved(before, after, label):
    """Count the sums of the row's class that move, by at most the grid; no others."""
    assert len(before) == len(after) > 0
    moved = 0
    for (scope, ours), (other_scope, theirs) in zip(before, after, strict=True):
        assert scope == other_scope
        distance = np.linalg.norm((ours - theirs).astype(float))
        assert distance <= (GRID if scope == label else 0)
        moved += distance > 0
    return moved


def one_row_more_or_less(table, label):
    """At the end: the frozen draws of the parts go by place."""
    rows = np.flatnonzero(table["y"] == label)
    extra = pd.DataFrame({"a": [-5.0], "b": [5.0], "c": ["q"], "y": [label]})
    return [
        table.drop(index=rows[-1]),
        pd.concat([table, extra], ignore_index=True),
    ]


@pytest.mark.usefixtures("pairs_for_all")
@pytest.mark.parametrize("init", ["pairs", "marginals"])
@pytest.mark.parametrize("n_teachers", ["auto", 12, 1])
@pytest.mark.parametrize("label", ["u", "v"])
def test_one_row_moves_sums_of_its_class_by_the_grid(label, n_teachers, init):
    table, mode = make_table(), {"n_teachers": n_teachers, "init": init}
    before = sums_of(table, **mode)
    assert len(before) == 6  # two classes, three steps
    moved = [
        sums_moved(before, sums_of(other, **mode), label)
        for other in one_row_more_or_less(table, label)
    ]
    assert sum(moved) > 0


@pytest.mark.usefixtures("pairs_for_all")
@pytest.mark.parametrize("init", ["pairs", "marginals"])
def test_a_class_without_rows_releases_all_the_same(init):
    """Noise around zeros: whether it has rows is private."""
    table = make_table()
    sums = sums_of(table[table["y"] == "u"], init=init)
    of_none = [values for scope, values in sums if scope == "v"]
    assert len(of_none) == 3
    assert not np.any(of_none)


def twice_the_rows(*part):
    """A row is in two cells of a triple."""
    return 2 * sums_of_part(*part)


def sorted_together(self, bins):
    ranks = bins.argsort(axis=0).argsort(axis=0)
    return (ranks * 2 // max(len(bins), 1)).astype(np.uint8)


sums_of_part = _linear_teachers._sums_of_part
TWINS = [
    (_linear_teachers, "_sums_of_part", twice_the_rows, "auto"),
    (SeenCells, "encode", sorted_together, "auto"),
    (PrivateRows, "of_class", all_rows, "auto"),
]


@pytest.mark.usefixtures("pairs_for_all")
@pytest.mark.parametrize(
    ("where", "name", "twin", "n_teachers"),
    TWINS,
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_broken_twins_move_more(where, name, twin, n_teachers, monkeypatch):
    monkeypatch.setattr(where, name, twin)
    table, caught = make_table(), 0
    before = sums_of(table, n_teachers=n_teachers)
    for other in one_row_more_or_less(table, "u"):
        try:
            sums_moved(before, sums_of(other, n_teachers=n_teachers), "u")
        except AssertionError:
            caught += 1
    assert caught > 0


# --- Secrets, plan and ledger ------------------------------------------------------


def parts_of(monkeypatch):
    """Give the teachers of rows in two fits with equal `random_state`."""
    found, assign_teachers = [], _linear_teachers.assign_teachers

    def keep(*arguments):
        found.append(assign_teachers(*arguments))
        return found[-1]

    monkeypatch.setattr(_linear_teachers, "assign_teachers", keep)
    for _ in range(2):
        fit(make_table(), n_iter=1)
    return found[0], found[len(found) // 2]


@pytest.mark.usefixtures("pairs_for_all")
def test_parts_are_secret(monkeypatch):
    ours, theirs = parts_of(monkeypatch)
    assert not np.array_equal(ours, theirs)


@pytest.mark.usefixtures("pairs_for_all")
def test_the_twin_that_seeds_them_is_caught(monkeypatch):
    twin = lambda: np.random.default_rng(0)  # noqa: E731
    monkeypatch.setattr(_gpate, "secret_generator", twin)
    ours, theirs = parts_of(monkeypatch)
    np.testing.assert_array_equal(ours, theirs)


def planned(n_rows, **parameters):
    synthesizer = GPATESynthesizer(epsilon=10.0, **parameters)
    (plan,) = synthesizer._plan_classes([None], np.array([n_rows]), 10, 0, 1.9)
    return plan


def test_a_quarter_is_for_cells_where_they_stand_out():
    few, many = planned(1e3), planned(1e5)
    assert few.n_iter == few.n_groups == 0
    assert few.mu_pairs > 0
    assert many.n_groups == 6
    assert many.n_iter == 2
    assert many.n_iter * many.mu_step**2 == pytest.approx(CELLS_SHARE * 1.9**2)
    start = many.mu_pairs**2 + many.mu_marginals**2
    assert start == pytest.approx((1 - CELLS_SHARE) * 1.9**2)


def test_by_default_most_rows_have_a_teacher_of_their_own():
    assert planned(1e5).n_teachers == 16 * 10**5
    assert planned(1e5, n_teachers=7, n_iter=2).n_teachers == 7


def test_factors_of_some_classes_only_are_learnt_where_they_are_asked_for():
    """By default one that could pay leaves it, however rare the other is."""
    found = {}
    for small in (100.0, 3000.0):
        for n_iter in ("auto", 1):
            synthesizer = GPATESynthesizer(init="marginals", n_iter=n_iter)
            counts = np.array([2e5 if small == 100.0 else 1e4, small / 30])
            plans = synthesizer._plan_classes(["u", "v"], counts, 10, 0, 0.25)
            found[small, n_iter] = [plan.n_iter for plan in plans]
    assert found[100.0, "auto"] == [0, 0]
    assert found[100.0, 1] == [1, 1]
    assert found[3000.0, "auto"] == [0, 0]
    assert found[3000.0, 1] == [1, 1]


def test_few_teachers_are_not_heard():
    """Of 10 teachers each has one voice: its share of rows is lost in the noise."""
    assert planned(1e5, n_teachers=10).n_iter == 0


@pytest.mark.parametrize("n_columns", [2, 20])
def test_on_other_tables_of_pairs_nothing_is_trained(n_columns):
    synthesizer = GPATESynthesizer(epsilon=10.0)
    counts = np.array([1e6])
    (plan,) = synthesizer._plan_classes([None], counts, n_columns, 0, 1.9)
    assert plan.mu_pairs > 0
    assert plan.n_iter == 0


@pytest.mark.usefixtures("pairs_for_all")
def test_the_ledger_has_a_sum_of_the_grid_for_each_step():
    synthesizer = fit(make_table(), n_iter=3)
    sums = [
        entry
        for entry in synthesizer.privacy_report().entries
        if entry.name == "sums of linear teachers"
    ]
    assert [entry.sensitivity for entry in sums] == [GRID, GRID]
    assert [entry.releases for entry in sums] == [3, 3]


@pytest.mark.usefixtures("short_fits")
def test_three_columns_at_once_are_learnt():
    """Parity of three binary columns: pairs know nothing, cells do."""
    rng = np.random.default_rng(0)
    table = make_table(6000)
    bits = rng.integers(0, 2, (6000, 3))
    for name, bit in zip("pqr", bits.T, strict=True):
        table[name] = bit
    table["y"] = np.where(bits.sum(axis=1) % 2 == 1, "v", "u")
    found = []
    for n_iter in ("auto", 2):
        synthesizer = GPATESynthesizer(
            epsilon=math.inf if n_iter == 2 else 1.0, target="y", n_iter=n_iter
        )
        sample = synthesizer.fit(table).sample(4000)
        odd = sample[["p", "q", "r"]].sum(axis=1) % 2 == 1
        found.append(float((odd == (sample["y"] == "v")).mean()))
    assert found[0] < 0.6
    assert found[1] > 0.9
