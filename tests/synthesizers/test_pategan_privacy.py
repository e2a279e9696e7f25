"""PATE-GAN's privacy argument, with broken twins that are caught.

Defects of public PATE-GAN code (design notes, A.5) and the test that would catch each:

=========  ==============================================  ============================
defect     what it does                                    test
=========  ==============================================  ============================
O1 O2 T1   no parts: all teachers see all rows             one_row_moves_one_vote,
                                                           twin `everybody`
U1         all teachers train on one part                  twin `one_part`
S1 S7      parts drawn anew in every round                 twin `drawn_anew`
B3 N4      parts are slices, so a row shifts them all      twin `slices`
O3 T2 U2   noise too small; scale taken for its inverse    the_noise_of_a_vote
O4 S8      student sees real rows                          student_sees_no_real_row,
                                                           function_of_the_releases
O5 T6 N1   no ledger, or one that undercounts              ledger_is_the_plan,
S2 U3 U4                                                   epsilon_by_own_arithmetic
B1 B4 N6
S4         votes read before they are charged              votes_are_read_once
O6 B6      real labels or class shares in the result       function_of_the_releases
O7 U5 S3   bounds, categories, N from the data             function_of_the_releases
T3 B2 N2
S5 N3      delta or rounds from N                          function_of_the_releases
S6         noise fixed by random_state                     random_state_fixes_no_noise
U7         stop that depends on the data                   rounds_do_not_depend...
=========  ==============================================  ============================

The tests of noise and ledger are in `test_pategan_ledger.py`. U6, T4, T5, B5 and N5
are faults of quality: `test_pategan.py` asks for the dependence that is there.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from _small_table import (
    all_rows,
    assert_equal_results,
    frozen_start,
    make_table,
)
from _twins import after_encoding

from skdpsynth import PATEGANSynthesizer
from skdpsynth.nn import _teachers
from skdpsynth.nn._factors import FactorTrainer
from skdpsynth.nn._mixture_trainer import MixtureTrainer
from skdpsynth.preprocessing._columns import PrivateRows
from skdpsynth.privacy import _aggregators, _tables
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.synthesizers import _pategan

pytestmark = [
    pytest.mark.usefixtures("pairs_for_all"),  # however small the tables
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

DELTA = 1e-5
COLUMNS = {
    "a": Continuous(-6, 8, scale="linear", decimals="any"),
    "b": Continuous(-6, 6, nullable=True, scale="linear", decimals="any"),
    "c": Categorical(["p", "q", "r"]),
    "y": Categorical(["u", "v"]),
}
COUNTED = TableSchema(COLUMNS, target="y", class_counts={"u": 90, "v": 60})
FACTORS = {"init": "marginals"}
NETWORK = {"init": "random", "generator_hidden_dims": (5,)}
SMALL = {
    "batch_size": 16,
    "n_student_steps": 3,
    "n_generator_steps": 3,
    "n_iter": 3,
    "latent_dim": 2,
    "random_state": 0,
    "delta": DELTA,
}


def fit(table, **parameters):
    return PATEGANSynthesizer(**(SMALL | {"schema": COUNTED} | parameters)).fit(table)


# --- Influence -------------------------------------------------------------------


def what_teachers_say(table, **parameters):
    """Fit with frozen secrets and history; give (class, opinions) in order.

    Labels are replaced by a fixed sequence, so that two tables have equal histories.
    """
    said, scopes = [], []
    real_logits = _teachers.TeacherEnsemble.logits

    def keep(self, rows, features):
        opinions = real_logits(self, rows, features)
        said.append(opinions.numpy().copy())
        return opinions

    def frozen(votes, n_teachers, reservation):
        scopes.append(reservation.scope)
        np.testing.assert_array_equal(votes, (said[-1] > 0).sum(axis=0))
        return np.random.default_rng(len(scopes)).random(len(votes)) < 0.5

    with frozen_start() as patch, insecure_randomness(7):
        patch.setattr(_teachers.TeacherEnsemble, "logits", keep)
        patch.setattr(_pategan, "noisy_votes", frozen)
        fit(table, **({"n_teachers": 12} | parameters))
    return list(zip(scopes, said, strict=True))


def assert_one_teacher_moves(before, after, label):
    """At most one teacher of the row's class has another opinion, always the same."""
    assert len(before) == len(after) > 0
    changed = set()
    for (scope, ours), (other_scope, theirs) in zip(before, after, strict=True):
        assert scope == other_scope
        if scope != label:
            np.testing.assert_array_equal(ours, theirs)
        else:
            changed |= set(np.flatnonzero((ours != theirs).any(axis=1)))
            votes = [(opinions > 0).sum(axis=0) for opinions in (ours, theirs)]
            assert np.abs(votes[0] - votes[1]).max() <= 1
    assert len(changed) == 1


def neighbours(table, label):
    """Tables that differ from `table` in one row of a class, by name."""
    rows = np.flatnonzero(table["y"] == label)
    changed, extreme = table.copy(), table.copy()
    changed.loc[rows[3], ["a", "b", "c"]] = [7.5, np.nan, "r"]
    extreme.loc[rows[0], ["a", "c"]] = [1e6, "never seen"]
    extra = pd.DataFrame({"a": [-5.0], "b": [5.0], "c": ["q"], "y": [label]})
    return {
        "changed": changed,
        "extreme": extreme,
        "last removed": table.drop(index=rows[-1]),
        "one added": pd.concat([table, extra], ignore_index=True),
    }


@pytest.mark.parametrize(
    "mode",
    [{}, FACTORS, {"init": "random"}, {"hidden_dims": (4,)}, NETWORK],
    ids=str,
)
@pytest.mark.parametrize("label", ["u", "v"])
def test_one_row_moves_one_vote_of_its_class(label, mode):
    table = make_table()
    before = what_teachers_say(table, **mode)
    for other in neighbours(table, label).values():
        assert_one_teacher_moves(before, what_teachers_say(other, **mode), label)


@pytest.mark.parametrize("mode", [{}, FACTORS], ids=str)
def test_most_teachers_have_an_opinion(mode):
    """The test above would also pass if one teacher had all rows."""
    for _, opinions in what_teachers_say(make_table(), **mode):
        assert np.count_nonzero(opinions.any(axis=1)) >= 10


class Everybody(_pategan.TeacherEnsemble):
    """Every teacher sees every row (O2, T1)."""

    def __init__(self, rows, n_teachers, **settings):
        super().__init__(rows, n_teachers, **settings)
        self._starts = np.ones_like(self._starts)
        self._counts = np.full_like(self._counts, len(rows))


class OnePart(_pategan.TeacherEnsemble):
    """All teachers train on the part of the last one (U1)."""

    def __init__(self, rows, n_teachers, **settings):
        super().__init__(rows, n_teachers, **settings)
        self._starts[:], self._counts[:] = self._starts[-1], self._counts[-1]


class DrawnAnew(_pategan.TeacherEnsemble):
    """Rows change teachers before every step (S1)."""

    def train_step(self, fake_rows, features):
        order = 1 + self._batch_rng.permutation(len(self._rows) - 1)
        self._rows[1:] = self._rows[order]
        super().train_step(fake_rows, features)


def slices(n_units, n_teachers, rng):
    return np.arange(n_units) * n_teachers // n_units


def standardised_together(scores):
    return scores / np.float32(scores.std())


TWINS = [
    (_pategan, "TeacherEnsemble", Everybody),
    (_pategan, "TeacherEnsemble", OnePart),
    (_pategan, "TeacherEnsemble", DrawnAnew),
    (_teachers, "assign_teachers", slices),
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
    table = make_table()
    before = what_teachers_say(table, init=init)
    caught = 0
    for other in neighbours(table, "u").values():
        after = what_teachers_say(other, init=init)
        try:
            assert_one_teacher_moves(before, after, "u")
        except AssertionError:
            caught += 1
    assert caught > 0


# --- Flow ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("init", "trainer"), [("pairs", MixtureTrainer), ("marginals", FactorTrainer)]
)
def test_the_student_sees_no_real_row(init, trainer, monkeypatch):
    """Every row that reaches the student's buffer was made by the generator.

    Scores of bins are few and fakes have them too, so real rows are marked there.
    """
    table, real, made, seen = make_table(), [], [], []
    rows_of, add = trainer.rows, _pategan.LabelBuffer.add

    def keep_scores(scores):
        real.append(scores if init == "marginals" else scores + np.float32(0.1))
        return real[-1]

    def keep_rows(self, draws, *moving):
        rows = rows_of(self, draws, *moving)
        if not moving:  # not while they are differentiated
            made.extend(row.tobytes() for row in rows.numpy())
        return rows

    def keep_added(self, view, fakes, labels, pool, slope):
        seen.extend(row.tobytes() for part in (fakes, pool) for row in part.numpy())
        add(self, view, fakes, labels, pool, slope)

    monkeypatch.setattr(*after_encoding(keep_scores)[init])
    monkeypatch.setattr(trainer, "rows", keep_rows)
    monkeypatch.setattr(_pategan.LabelBuffer, "add", keep_added)
    fit(table, init=init)
    assert len(real) == 2
    assert len(seen) == 2 * 3 * (16 + 512)
    assert set(seen) <= set(made)
    assert set(seen).isdisjoint(row.tobytes() for part in real for row in part)


def everything_public(synthesizer):
    """Whatever a fitted synthesizer shows."""
    return {
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
    released = []
    homes = [
        (_aggregators, "release_gaussian"),
        (_aggregators, "release_votes"),
        (_tables, "release_gaussian"),
    ]
    originals = [getattr(home, name) for home, name in homes]

    def recorder(real):
        def record(*arguments):
            released.append(real(*arguments))
            return released[-1]

        return record

    def replayer(real):
        def replay(*arguments):
            real(*arguments)
            return released.pop(0)

        return replay

    for (home, name), real in zip(homes, originals, strict=True):
        monkeypatch.setattr(home, name, recorder(real))
    ours = fit(make_table(4000, seed=1), **parameters)
    for (home, name), real in zip(homes, originals, strict=True):
        monkeypatch.setattr(home, name, replayer(real))
    theirs = fit(make_table(2500, seed=2), **parameters)
    assert not released
    return everything_public(ours), everything_public(theirs)


NOTHING_GIVEN = {"schema": None, "target": "y", "n_teachers": 200}


@pytest.mark.parametrize(
    "mode",
    [
        {},
        FACTORS,
        {"init": "random"},
        NETWORK,
        {"n_iter": "auto", "n_teachers": "auto", "epsilon": 8.0},
    ],
    ids=str,
)
def test_the_result_is_a_function_of_the_releases(mode, monkeypatch):
    """Other rows, another number of rows, other secrets: the same result to the bit."""
    assert_equal_results(*fit_twice(monkeypatch, **(NOTHING_GIVEN | mode)))


def exact_majority(votes, n_teachers, reservation):
    _aggregators.noisy_votes(votes, n_teachers, reservation)
    return 2 * votes > n_teachers


def real_rows_in_buffer(self, scores, generator, *arguments):
    """The student is trained on real rows called real (S8, O4)."""
    add = _pategan.LabelBuffer.add

    def cheat(buffer, view, fakes, labels, pool, slope):
        some = torch.from_numpy(scores[: len(fakes)])
        add(buffer, view, fakes, labels, pool, slope)
        add(buffer, view, some, torch.ones(len(some)), pool, slope)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pategan.LabelBuffer, "add", cheat)
        train(self, scores, generator, *arguments)


train = _pategan.PATEGANSynthesizer._train


@pytest.mark.parametrize(
    ("where", "name", "twin"),
    [
        (_pategan, "noisy_votes", exact_majority),
        (PATEGANSynthesizer, "_train", real_rows_in_buffer),
    ],
)
@pytest.mark.parametrize("init", ["measured", "marginals"])
def test_flow_round_the_mechanism_is_caught(where, name, twin, init, monkeypatch):
    monkeypatch.setattr(where, name, twin)
    # So many labels that some of them differ, whatever the teachers.
    mode = NOTHING_GIVEN | {"batch_size": 256, "init": init}
    ours, theirs = fit_twice(monkeypatch, **mode)
    with pytest.raises(AssertionError):
        assert_equal_results(ours, theirs)


def test_rounds_do_not_depend_on_unanimous_or_split_votes(monkeypatch):
    """No data-dependent stop: the ledger is the same whatever the teachers say."""
    entries = []
    for share in (0.0, 0.5, 1.0):

        def votes_of(self, rows, features, share=share):
            said = torch.full((self._n_teachers, len(rows)), -1.0)
            said[: int(share * self._n_teachers)] = 1.0
            return said

        monkeypatch.setattr(_pategan.TeacherEnsemble, "logits", votes_of)
        entries.append(fit(make_table()).privacy_report().to_dict())
    assert entries[0] == entries[1] == entries[2]


SECRETS = {"noisy_votes": _pategan, "assign_teachers": _teachers}


def secrets_of_two_fits():
    """Fit twice with one `random_state`; give both fits' secrets and samples."""
    drawn = {name: [] for name in SECRETS}

    def keeping(real, kept):
        return lambda *arguments: kept.append(real(*arguments)) or kept[-1]

    with pytest.MonkeyPatch.context() as patch:
        for name, module in SECRETS.items():
            patch.setattr(module, name, keeping(getattr(module, name), drawn[name]))
        fits = [fit(make_table(), n_teachers=20, epsilon=0.5) for _ in range(2)]
    halves = {name: np.split(np.concatenate(kept), 2) for name, kept in drawn.items()}
    return halves, [fitted.sample(50, random_state=1) for fitted in fits]


def are_alike(once, again):
    assert len(once) == len(again) >= 96
    return np.mean(once == again) > 0.8


def test_random_state_fixes_no_noise():
    """More than 0.8 of 96 labels are equal with probability 1e-8 at most.

    20 votes are 10 from the majority at most and sigma is 84, so that two labels are
    equal with probability 0.51. Of 150 teachers of rows, one in 20 is the same.
    """
    halves, samples = secrets_of_two_fits()
    assert not any(are_alike(*pair) for pair in halves.values())
    assert not samples[0].equals(samples[1])


def votes_from_random_state(votes, n_teachers, reservation):
    """Noise of the right size, from the public seed (S6)."""
    _aggregators.noisy_votes(votes, n_teachers, reservation)
    rng = np.random.default_rng(SMALL["random_state"])
    noise = rng.normal(0, reservation.noise_std, len(votes))
    return 2 * (votes + noise) > n_teachers


def teachers_from_random_state(n_units, n_teachers, rng):
    """Parts that whoever knows the public seed can draw again."""
    rng = np.random.default_rng(SMALL["random_state"])
    return rng.integers(n_teachers, size=n_units)


SEEDED = {
    "noisy_votes": votes_from_random_state,
    "assign_teachers": teachers_from_random_state,
}


@pytest.mark.parametrize("name", SEEDED)
def test_the_twin_that_seeds_them_is_caught(name, monkeypatch):
    """Either secret shows its seed, although the other one is sound.

    Equal noise of 84 leaves few labels to the teachers, which are others.
    """
    monkeypatch.setattr(SECRETS[name], name, SEEDED[name])
    halves, _ = secrets_of_two_fits()
    assert are_alike(*halves.pop(name))
    assert not any(are_alike(*pair) for pair in halves.values())
