"""G-PATE's privacy argument: influence and flow, with broken twins that are caught.

Influence: one row changes what one teacher says, bit for bit. Flow: the result is a
function of what was released and of public seeds. The other half, ledger and noise, is
in `test_gpate_ledger.py`.
"""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from _small_table import (
    COLUMNS,
    COUNTED,
    all_rows,
    assert_equal_results,
    frozen_start,
    make_table,
)
from _twins import after_encoding

from skdpsynth import GPATESynthesizer
from skdpsynth.nn import _linear_teachers, _teachers
from skdpsynth.preprocessing._columns import PrivateRows
from skdpsynth.privacy import _aggregators, _tables
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import TableSchema
from skdpsynth.synthesizers import _gpate

pytestmark = [
    pytest.mark.usefixtures("pairs_for_all"),  # however small the tables
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

DELTA = 1e-5
UNCOUNTED = TableSchema(COLUMNS, target="y")
VOTES = {"aggregator": "confident_gnmax", "projection_dim": 2}
SMALL = {"batch_size": 8, "latent_dim": 2, "random_state": 0, "delta": DELTA}


def fit(table, **parameters):
    return GPATESynthesizer(**(SMALL | {"schema": COUNTED} | parameters)).fit(table)


# --- Influence -------------------------------------------------------------------


def what_teachers_say(table, **parameters):
    """Fit with frozen secrets and history; give (class, private statistic) in order.

    The releases are replaced by a fixed sequence that moves the student, so that two
    tables have equal histories.
    """
    said = []

    def frozen_sum(vectors, clip, reservation):
        said.append((reservation.scope, vectors.copy()))
        size = vectors.shape[1]
        return clip * np.random.default_rng(len(said)).normal(0, 10.0, size)

    def frozen_votes(votes, threshold, tests, answers):
        said.append((answers.scope, votes.copy()))
        return np.random.default_rng(len(said)).integers(-1, 10, size=len(votes))

    with frozen_start() as patch, insecure_randomness(7):
        patch.setattr(_gpate, "gaussian_sum", frozen_sum)
        patch.setattr(_gpate, "confident_gnmax", frozen_votes)
        fit(table, **({"n_teachers": 12, "n_iter": 4} | parameters))
    return said


def assert_one_teacher_moves(before, after, label):
    """At most one teacher of the row's class says something else, always the same."""
    assert len(before) == len(after) > 0
    changed = set()
    for (scope, ours), (other_scope, theirs) in zip(before, after, strict=True):
        assert scope == other_scope
        assert ours.shape == theirs.shape
        if scope != label:
            np.testing.assert_array_equal(ours, theirs)
        elif np.issubdtype(ours.dtype, np.integer):  # votes
            moved = np.abs(ours - theirs)
            assert moved.max() <= 1
            assert set(moved.sum(axis=1)) <= {0, 2}
            changed |= {0} if moved.any() else set()
        else:
            changed |= set(np.flatnonzero((ours != theirs).any(axis=1)))
    assert len(changed) == 1


def neighbours(table, label):
    """Tables that differ from `table` in one row of a class, by name."""
    rows = np.flatnonzero(table["y"] == label)
    changed = table.copy()
    changed.loc[rows[3], ["a", "b", "c"]] = [7.5, np.nan, "r"]
    extreme = table.copy()
    extreme.loc[rows[0], ["a", "c"]] = [1e6, "never seen"]
    extra = pd.DataFrame({"a": [-5.0], "b": [5.0], "c": ["q"], "y": [label]})
    return {
        "changed": changed,
        "extreme": extreme,
        "last removed": table.drop(index=rows[-1]),
        "one added": pd.concat([table, extra], ignore_index=True),
    }


# On pairs, linear teachers look at cells: `test_gpate_looks.py`.
SCORES = {"init": "measured", "hidden_dims": (4,)}
FACTORS = {"init": "marginals", "hidden_dims": (4,)}
MANY_VOTES = VOTES | {"batch_size": 64}  # so that some of them move
NETWORK = {"init": "random", "generator_hidden_dims": (5,), "hidden_dims": (4,)}
MODES = [SCORES, FACTORS, {"init": "random"}, MANY_VOTES, MANY_VOTES | NETWORK]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("label", ["u", "v"])
def test_one_row_moves_one_teacher_of_its_class(label, mode):
    table = make_table()
    before = what_teachers_say(table, **mode)
    for other in neighbours(table, label).values():
        assert_one_teacher_moves(before, what_teachers_say(other, **mode), label)


@pytest.mark.parametrize("mode", [SCORES, FACTORS], ids=str)
def test_most_teachers_have_something_to_say(mode):
    """The test above would also pass if one teacher had all rows."""
    for _, vectors in what_teachers_say(make_table(), **mode):
        assert np.count_nonzero(vectors.any(axis=1)) >= 10


def slices(n_units, n_teachers, rng):
    return np.arange(n_units) * n_teachers // n_units


def centred_together(*arguments):
    vectors = teacher_gradients(*arguments)
    return vectors - vectors.mean(axis=0)


def scaled_together(*arguments):
    vectors = teacher_gradients(*arguments)
    return vectors / np.linalg.norm(vectors)


def standardised_together(scores):
    return scores / np.float32(scores.std())


teacher_gradients = _gpate.teacher_gradients
TWINS = [
    (_teachers, "assign_teachers", slices),
    (_gpate, "teacher_gradients", centred_together),
    (_gpate, "teacher_gradients", scaled_together),
    (PrivateRows, "of_class", all_rows),
]


@pytest.mark.parametrize(
    ("where", "name", "twin", "init"),
    [
        *((*twin, init) for twin in TWINS for init in ("pairs", "marginals")),
        *((*t, init) for init, t in after_encoding(standardised_together).items()),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_broken_twins_move_more(where, name, twin, init, monkeypatch):
    monkeypatch.setattr(where, name, twin)
    table, mode = make_table(), SCORES if init == "measured" else FACTORS
    before = what_teachers_say(table, **mode)
    caught = 0
    for other in neighbours(table, "u").values():
        after = what_teachers_say(other, **mode)
        try:
            assert_one_teacher_moves(before, after, "u")
        except AssertionError:
            caught += 1
    assert caught > 0


def first_sums(monkeypatch):
    """What teachers say at first, twice, with equal `random_state`."""
    first = []

    def keep(vectors, clip, reservation):
        first.append(vectors)
        return np.zeros(vectors.shape[1])

    monkeypatch.setattr(_gpate, "gaussian_sum", keep)
    for _ in range(2):
        fit(make_table(), init="random", n_iter=1)
    return first[0], first[2]


def test_parts_and_minibatches_are_secret(monkeypatch):
    ours, theirs = first_sums(monkeypatch)
    assert not np.array_equal(ours, theirs)


def test_the_twin_that_seeds_them_is_caught(monkeypatch):
    monkeypatch.setattr(_gpate, "secret_generator", lambda: np.random.default_rng(0))
    ours, theirs = first_sums(monkeypatch)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("init", "name"),
    [("pairs", "generator.0.weights"), ("marginals", "generator.0.loadings")],
)
def test_equal_random_state_gives_another_fit(init, name):
    first, second = (
        fit(make_table(), n_iter=2, init=init, epsilon=50.0).generator_.to_state()[1]
        for _ in range(2)
    )
    assert not np.array_equal(first[name], second[name])


# --- Flow ------------------------------------------------------------------------


def everything_public(synthesizer):
    """Whatever a fitted synthesizer shows."""
    return {
        "names": sorted(vars(synthesizer)),
        "hash": joblib.hash(synthesizer),  # the whole object, whatever it holds
        "arrays": list(synthesizer.generator_.to_state()[1].values()),
        "sample": synthesizer.sample(100, random_state=3),
        "stream": synthesizer.sample(20),
        "schema": synthesizer.schema_.to_dict(),
        "report": synthesizer.privacy_report().to_dict(),
        "n_iter": synthesizer.n_iter_,
        "n_teachers": list(synthesizer.n_teachers_),
    }


def fit_twice(monkeypatch, **parameters):
    """Fit one table; then quite another one, but with the releases of the first."""
    real, released = _aggregators.release_gaussian, []

    def record(values, reservation, n_releases=1):
        noisy = real(values, reservation, n_releases)
        released.append(noisy)
        return noisy

    def replay(values, reservation, n_releases=1):
        real(values, reservation, n_releases)
        noisy = released.pop(0)
        assert noisy.shape == values.shape
        return noisy

    homes = (_aggregators, _tables, _linear_teachers)
    for home in homes:
        monkeypatch.setattr(home, "release_gaussian", record)
    ours = fit(make_table(4000, seed=1), **parameters)
    for home in homes:
        monkeypatch.setattr(home, "release_gaussian", replay)
    theirs = fit(make_table(2500, seed=2), **parameters)
    assert not released
    return everything_public(ours), everything_public(theirs)


NOTHING_GIVEN = {"schema": None, "target": "y", "n_iter": 3}


@pytest.mark.parametrize(
    "mode",
    [
        {},
        {"init": "marginals"},
        SCORES,
        FACTORS,
        {"init": "random"},
        VOTES,
        VOTES | NETWORK,
        {"n_iter": "auto", "epsilon": 8.0},
        {"schema": UNCOUNTED, "target": None},
        {"target": None},
    ],
    ids=[
        "cells",
        "products",
        "sums",
        "marginals",
        "random",
        "votes",
        "network",
        "auto",
        "declared",
        "no target",
    ],
)
def test_the_result_is_a_function_of_the_releases(mode, monkeypatch):
    """Other rows, another number of rows, other secrets: the same result to the bit.

    Nothing private reaches the student, the plan, the schema, the report or a public
    stream but through a mechanism.
    """
    assert_equal_results(*fit_twice(monkeypatch, **(NOTHING_GIVEN | mode)))


def exact_sum(vectors, clip, reservation):
    _aggregators.gaussian_sum(vectors, clip, reservation)
    return vectors.sum(axis=0, dtype=np.float64)


class ExactShares(_linear_teachers.LinearTeachers):
    """Gives the shares of the rows beside the noisy sum."""

    def release(self, cells):
        _, std = super().release(cells)
        rows = torch.from_numpy(np.concatenate([*self._rows.each()]))
        return cells.sums(rows) / max(len(rows), 1), std


class RealisedSize(_linear_teachers.LinearTeachers):
    """Says how far off shares are by the number of rows that there are."""

    def __init__(self, rows, n_teachers, *, expected_rows, **settings):
        n_rows = sum(map(len, rows.each()))
        super().__init__(rows, n_teachers, expected_rows=n_rows, **settings)


class PublicDrawsByRow(_gpate.TeacherEnsemble):
    """Uses the public stream once per row; the projections come from it later."""

    def __init__(self, rows, n_teachers, *, generator, **settings):
        torch.randn(len(rows), generator=generator)
        super().__init__(rows, n_teachers, generator=generator, **settings)


@pytest.mark.parametrize(
    ("name", "twin", "mode"),
    [
        ("gaussian_sum", exact_sum, SCORES),
        ("gaussian_sum", exact_sum, FACTORS),
        ("LinearTeachers", ExactShares, {}),
        ("LinearTeachers", RealisedSize, {}),
        ("TeacherEnsemble", PublicDrawsByRow, VOTES),
    ],
)
def test_flow_round_the_mechanism_is_caught(name, twin, mode, monkeypatch):
    monkeypatch.setattr(_gpate, name, twin)
    ours, theirs = fit_twice(monkeypatch, **(NOTHING_GIVEN | mode))
    with pytest.raises(AssertionError):
        assert_equal_results(ours, theirs)
