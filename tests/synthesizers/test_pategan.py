"""PATEGANSynthesizer: its plans, its labels, and broken twins that are caught.

Defects of public PATE-GAN code (design notes, A.5) and the test that would catch each,
here or in `test_privacy.py`:

=========  ==============================================  ============================
defect     what it does                                    test
=========  ==============================================  ============================
O1 O2 T1   no parts: all teachers see all rows             twin `Everybody`
U1         all teachers train on one part                  twin `OnePart`
S1 S7      parts drawn anew in every round                 twin `DrawnAnew`
B3 N4      parts are slices, so a row shifts them all      twin `slices`
O3 T2 U2   noise too small; scale taken for its inverse    a_vote_is_a_majority
O4 S8      student sees real rows                          student_sees_no_real_row,
                                                           results_follow_from_releases
O5 T6 N1   no ledger, or one that undercounts              plan_is_what_is_released,
S2 U3 U4                                                   ledger_adds_up_to_epsilon
B1 B4 N6
S4         votes read before they are charged              votes_are_read_once
O6 B6      real labels or class shares in the result       results_follow_from_releases
O7 U5 S3   bounds, categories, N from the data             results_follow_from_releases
T3 B2 N2
S5 N3      delta or rounds from N                          results_follow_from_releases
S6         noise fixed by random_state                     twin `labels_of_a_seed`
U7         stop that depends on the data                   rounds_do_not_depend...
=========  ==============================================  ============================

U6, T4, T5, B5 and N5 are faults of quality: `test_class_gan.py` asks for the dependence
that is there.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _releases import flow, influence, watched
from _twins import after_encoding, slices, standardised_together
from _ways import TABLE, WAYS, table_of, without_schema
from sklearn.base import clone
from tables import correlated_schema

from skdpsynth import MarginalSynthesizer, PATEGANSynthesizer
from skdpsynth.exceptions import ReservationError
from skdpsynth.models import FactorTrainer, MixtureTrainer
from skdpsynth.privacy import _aggregators
from skdpsynth.synthesizers import _pategan
from skdpsynth.training import _teachers

pytestmark = pytest.mark.usefixtures("hardly_any_fit")

FACTORS = {"init": "marginals"}
LABELS = "labels by vote"

# --- Plans -----------------------------------------------------------------------


def plan_of(counts, **parameters):
    synthesizer = PATEGANSynthesizer(schema=correlated_schema(), **parameters)
    return synthesizer.plan(class_counts=counts).set_index("class")


def test_teachers_follow_the_counts_and_labels_do_not():
    plan = plan_of({"u": 300_000, "v": 4000}, **FACTORS)
    assert list(plan["n_teachers"]) == [2048, 1000]
    assert list(plan["n_iter"]) == [8, 8]
    many = {"u": 5 * 10**6, "v": 5 * 10**6}
    assert list(plan_of(many, init="random")["n_iter"]) == [24, 24]


def test_where_tables_are_measured_labels_are_asked_for_on_demand():
    """Votes are about products of two columns, and the tables know more of these."""
    counts = {"u": 500_000, "v": 500_000}
    alone = MarginalSynthesizer(schema=correlated_schema()).plan(class_counts=counts)
    plan = plan_of(counts)
    assert (plan["n_iter"] == 0).all()
    # A thousandth: labels would have a tail of delta of their own.
    np.testing.assert_allclose(
        plan["table_noise_std"], alone["table_noise_std"], rtol=1e-3
    )
    assert (plan_of(counts, n_iter=3)["n_iter"] == 3).all()


# --- Labels ------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["pategan", "pategan factors"])
def test_votes_are_read_once_and_only_by_the_mechanism(way, monkeypatch):
    """Opinions are asked for once per round; each set goes into one release."""
    asked = []
    real = _pategan.TeacherEnsemble.logits

    def count(self, rows, features):
        asked.append(len(rows))
        return real(self, rows, features)

    monkeypatch.setattr(_pategan.TeacherEnsemble, "logits", count)
    synthesizer = clone(WAYS[way]).set_params(n_teachers=12)
    _, seen = watched(synthesizer, table_of(way))
    votes = [s for s in seen if s.family == LABELS]
    assert asked == [s.release.n_releases for s in votes] == [16] * 4
    # Influence would also be right if one teacher had all rows.
    assert all(sum(map(any, s.teachers.values())) >= 6 for s in votes)


def test_more_labels_than_reserved_cannot_be_had(monkeypatch):
    """The twin that asks twice per round runs out; nothing is drawn uncharged."""

    def twice(votes, n_teachers, reservation):
        _aggregators.noisy_votes(votes, n_teachers, reservation)
        return _aggregators.noisy_votes(votes, n_teachers, reservation)

    monkeypatch.setattr(_pategan, "noisy_votes", twice)
    with pytest.raises(ReservationError):
        clone(WAYS["pategan"]).fit(TABLE)


def test_rounds_do_not_depend_on_unanimous_or_split_votes(monkeypatch):
    """No data-dependent stop: the ledger is the same whatever the teachers say."""
    reports = []
    for share in (0.0, 0.5, 1.0):

        def votes_of(self, rows, features, share=share):
            said = torch.full((self._n_teachers, len(rows)), -1.0)
            said[: int(share * self._n_teachers)] = 1.0
            return said

        monkeypatch.setattr(_pategan.TeacherEnsemble, "logits", votes_of)
        fitted = clone(WAYS["pategan laplace"]).fit(TABLE)
        reports.append(fitted.privacy_report().to_dict())
    assert reports[0] == reports[1] == reports[2]


@pytest.mark.parametrize(
    ("way", "trainer"),
    [("pategan", MixtureTrainer), ("pategan factors", FactorTrainer)],
)
def test_the_student_sees_no_real_row(way, trainer, monkeypatch):
    """Every row that reaches the student's buffer was made by the generator.

    Scores of bins are few and fakes have them too, so real rows are marked there.
    """
    real, made, seen = [], [], []
    rows_of, add = trainer.rows, _pategan.LabelBuffer.add
    init = WAYS[way].init

    def keep_scores(scores):
        real.append(scores if init == "marginals" else scores + np.float32(0.1))
        return real[-1]

    def keep_rows(self, draws, *moving):
        rows = rows_of(self, draws, *moving)
        if not moving:  # not while they are differentiated
            made.extend(row.tobytes() for row in rows.numpy())
        return rows

    def keep_added(self, view, generated, labels, pool, slope):
        seen.extend(row.tobytes() for part in (generated, pool) for row in part.numpy())
        add(self, view, generated, labels, pool, slope)

    monkeypatch.setattr(*after_encoding(keep_scores)[init])
    monkeypatch.setattr(trainer, "rows", keep_rows)
    monkeypatch.setattr(_pategan.LabelBuffer, "add", keep_added)
    clone(WAYS[way]).fit(TABLE)
    assert len(real) == 2
    assert len(seen) == 2 * 2 * (16 + 512)
    assert set(seen) <= set(made)
    assert set(seen).isdisjoint(row.tobytes() for part in real for row in part)


# --- Broken twins ------------------------------------------------------------------


class Everybody(_pategan.TeacherEnsemble):
    """Every teacher sees every row (O2, T1)."""

    def __init__(self, rows, n_teachers, **settings):
        super().__init__(rows, n_teachers, **settings)
        self._starts = np.ones_like(self._starts)
        self._counts = np.full_like(self._counts, len(rows))


class OnePart(_pategan.TeacherEnsemble):
    """All teachers train on the part of the first one (U1)."""

    def __init__(self, rows, n_teachers, **settings):
        super().__init__(rows, n_teachers, **settings)
        self._starts[:], self._counts[:] = self._starts[0], self._counts[0]


class DrawnAnew(_pategan.TeacherEnsemble):
    """Rows change teachers before every step (S1)."""

    def train_step(self, fake_rows, features):
        order = 1 + self._batch_rng.permutation(len(self._rows) - 1)
        self._rows[1:] = self._rows[order]
        super().train_step(fake_rows, features)


TWINS = [
    (_pategan, "TeacherEnsemble", Everybody),
    (_pategan, "TeacherEnsemble", OnePart),
    (_pategan, "TeacherEnsemble", DrawnAnew),
    (_teachers, "assign_teachers", slices),
]


def centred_together(scores):
    """Zeros and ones of bins, less their means; all tables have the same deviation."""
    return scores - scores.mean(axis=0)


ENCODED = after_encoding(standardised_together) | {
    "random": after_encoding(centred_together)["random"]
}
WAY_OF = {"measured": "pategan", "marginals": "pategan", "random": "pategan network"}


def of_two_teachers(init):
    """A synthesizer of two teachers, each of whose votes a row can move."""
    settings = {"init": init, "batch_size": 256, "n_teachers": 2}
    return clone(WAYS[WAY_OF[init]]).set_params(**settings)


@pytest.mark.parametrize("init", WAY_OF)
def test_one_row_moves_one_teacher(init):
    """What the twins below are compared with."""
    moved, findings = influence(of_two_teachers(init), table_of(WAY_OF[init])[:600])
    assert LABELS in moved
    assert findings == []


@pytest.mark.parametrize(
    ("where", "name", "twin", "init"),
    [
        *((*twin, init) for twin in TWINS for init in WAY_OF),
        *((*twin, init) for init, twin in ENCODED.items()),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_one_row_that_moves_several_teachers_is_caught(
    where, name, twin, init, monkeypatch
):
    """By their votes on 256 rows; a teacher in a tie does not show.

    `OnePart` shows only rows of the first part, so several tables are tried. Networks
    that nobody has trained are among them, whose teachers have hidden layers.
    """
    monkeypatch.setattr(where, name, twin)
    synthesizer, table = of_two_teachers(init), table_of(WAY_OF[init])
    sizes = (400, 500, 600, 700)
    found = (influence(synthesizer, table[:n], until="teachers change") for n in sizes)
    assert any(findings for _, findings in found)


def exact_majority(votes, n_teachers, reservation):
    _aggregators.noisy_votes(votes, n_teachers, reservation)
    return 2 * votes > n_teachers


def real_rows_in_buffer(self, scores, generator, *arguments):
    """The student is trained on real rows called real (S8, O4)."""
    add = _pategan.LabelBuffer.add

    def cheat(buffer, view, generated, labels, pool, slope):
        some = torch.from_numpy(scores[: len(generated)])
        add(buffer, view, generated, labels, pool, slope)
        add(buffer, view, some, torch.ones(len(some)), pool, slope)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pategan.LabelBuffer, "add", cheat)
        return train(self, scores, generator, *arguments)


train = PATEGANSynthesizer._train


@pytest.mark.parametrize(
    ("where", "name", "twin"),
    [
        (_pategan, "noisy_votes", exact_majority),
        (PATEGANSynthesizer, "_train", real_rows_in_buffer),
    ],
)
@pytest.mark.parametrize("way", ["pategan", "pategan factors"])
def test_flow_round_the_mechanism_is_caught(where, name, twin, way, monkeypatch):
    monkeypatch.setattr(where, name, twin)
    # So many labels that some of them differ, whatever the teachers.
    synthesizer = without_schema(WAYS[way]).set_params(batch_size=256, n_teachers=20)
    other = table_of(way, seed=2, n_rows=1500)
    assert "the generator" in flow(synthesizer, table_of(way), other)


def labels_of_a_seed(votes, n_teachers, reservation):
    """Noise of the right size, from a seed that is public (S6)."""
    _aggregators.noisy_votes(votes, n_teachers, reservation)
    noise = np.random.default_rng(0).normal(0, reservation.noise_std, len(votes))
    return 2 * (votes + noise) > n_teachers


@pytest.mark.parametrize("seeded", [False, True])
def test_random_state_fixes_no_label(seeded, monkeypatch):
    """More than 0.8 of 128 labels are equal by accident with probability 1e-8 at most.

    20 votes are 10 from the majority at most, and sigma is above 50.
    """
    said = []
    real = labels_of_a_seed if seeded else _aggregators.noisy_votes

    def keep(*arguments):
        said.append(real(*arguments))
        return said[-1]

    monkeypatch.setattr(_pategan, "noisy_votes", keep)
    synthesizer = clone(WAYS["pategan"]).set_params(
        n_teachers=20, epsilon=0.5, init="marginals", batch_size=32
    )
    _, seen = watched(synthesizer, TABLE)
    assert min(s.line.noise_std for s in seen if s.family == LABELS) > 50
    clone(synthesizer).fit(TABLE)
    once, again = np.split(np.concatenate(said), 2)
    assert len(once) == 128
    assert (np.mean(once == again) > 0.8) == seeded
