"""PATE-TripleGAN's privacy argument: influence and flow; broken twins are caught.

Influence: given what was released, a labelled row changes one vote, one term of its
class's sums, and no sum of unlabelled rows; an unlabelled row changes one term of that
sum alone. Flow: the result is a function of what was released and of public seeds.
Ledger and noise are in `test_pate_triplegan_ledger.py`.
"""

from __future__ import annotations

import functools
import math

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from _twins import after_encoding

from skdpsynth import IndependentSynthesizer, PATETripleGANSynthesizer
from skdpsynth.nn import _branch, _classifier, _dp_sgd
from skdpsynth.nn._teachers import TeacherEnsemble
from skdpsynth.preprocessing import _model
from skdpsynth.preprocessing._tables import PairTables
from skdpsynth.privacy import _aggregators, _mechanisms, _tables
from skdpsynth.privacy._reservation import UNLABELLED
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.synthesizers import (
    _pate_triplegan_classifier,
    _pate_triplegan_players,
    _start,
)

pytestmark = [
    pytest.mark.usefixtures("pairs_for_all"),  # however small the tables
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

DELTA = 1e-5
COLUMNS = {
    "a": Continuous(-6, 8, scale="linear"),
    "b": Continuous(-6, 6, nullable=True, scale="linear"),
    "c": Categorical(["p", "q", "r"]),
    "y": Categorical(["u", "v"]),
}
UNCOUNTED = TableSchema(COLUMNS, target="y")
COUNTED = TableSchema(COLUMNS, target="y", class_counts={"u": 900, "v": 600})
SMALL = {
    "n_iter": 3,
    "n_teachers": 12,
    "batch_size": 8,
    "n_generator_steps": 2,
    "n_student_steps": 2,
    "latent_dim": 2,
    "epsilon": 4.0,
    "delta": DELTA,
    "random_state": 0,
}
BRANCH, CLASSIFIER = "unlabelled rows' gradients", "classifier's gradients"
TEACHERS = "teachers' opinions"
CLIPS = {BRANCH: 0.5, "discriminator's gradients": 0.5, CLASSIFIER: 1.0}
FLOAT_RELEASES = (_branch, _classifier, _dp_sgd)
FACTORS = {"init": "marginals"}
NETWORK = {"init": "random", "generator_hidden_dims": (5,)}
MODES = [{}, {"desensitization": "dpsgd"}]
# Little noise: what is learnt is never shrunk to nothing, which no twin could move.
LOUD = {"epsilon": 100.0, "batch_size": 256}


def make_table(n_rows=200, seed=0, unlabelled=0.3):
    rng = np.random.default_rng(seed)
    label = rng.random(n_rows) < 0.4
    a = rng.normal(size=n_rows)
    b = np.where(label, -a, a) + 0.4 * rng.normal(size=n_rows)
    b[rng.random(n_rows) < 0.1] = np.nan
    names = np.where(label, "v", "u").astype(object)
    names[rng.random(n_rows) < unlabelled] = None
    return pd.DataFrame(
        {
            "a": a + label,
            "b": b,
            "c": np.array(["p", "q", "r"])[rng.integers(3, size=n_rows)],
            "y": names,
        }
    )


def fit(table, **parameters):
    settings = SMALL | {"schema": COUNTED} | parameters
    return PATETripleGANSynthesizer(**settings).fit(table)


# --- Influence -------------------------------------------------------------------


@functools.cache
def reference_marginals():
    """Marginals of another table: public."""
    settings = {"epsilon": math.inf, "schema": COUNTED}
    return IndependentSynthesizer(**settings).fit(make_table(3000, 9))._model.marginals


def what_is_summed(table, **parameters):
    """Fit with frozen secrets and releases; give what was to be noised, in order.

    A list of name, scope and exact statistic. The releases are a fixed sequence, so
    that two tables have equal histories.
    """
    said, opinions, logits = [], [], TeacherEnsemble.logits
    reference_marginals()  # before anything is patched

    def keep(self, rows, features):
        opinions.append(logits(self, rows, features))
        return opinions[-1]

    def frozen_float(total, clip, reservation):
        said.append((reservation.name, reservation.scope, total.copy()))
        return clip * np.random.default_rng(len(said)).normal(0, 9.0, total.shape)

    def frozen_votes(counts, n_teachers, reservation):
        said.append((TEACHERS, reservation.scope, opinions[-1].numpy().copy()))
        said.append(("votes", reservation.scope, counts.copy()))
        return np.random.default_rng(len(said)).random(len(counts)) < 0.5

    def frozen_counts(bins, n_bins, reservation):
        said.append(
            ("pseudo-labels", reservation.scope, np.bincount(bins, minlength=n_bins))
        )
        return np.full(n_bins, 40)

    def no_purchase(rows, domains, classes, accountant, *, mus):
        return reference_marginals()

    def no_pairs(rows, bins, *others, **named):
        return PairTables.nothing(int(bins.starts[-1]), 100.0)

    with pytest.MonkeyPatch.context() as patch, insecure_randomness(7):
        for module in FLOAT_RELEASES:
            if module.release_float_gaussian is real_float:
                patch.setattr(module, "release_float_gaussian", frozen_float)
        patch.setattr(TeacherEnsemble, "logits", keep)
        patch.setattr(_pate_triplegan_players, "noisy_votes", frozen_votes)
        patch.setattr(_pate_triplegan_classifier, "noisy_counts", frozen_counts)
        patch.setattr(_model, "buy_marginals", no_purchase)
        patch.setattr(_start, "buy_pairs", no_pairs)
        fit(table, **parameters)
    return said


real_float = _mechanisms.release_float_gaussian


def neighbours(table, which):
    """Tables with one row of a kind less, or more, at the end, or made extreme."""
    rows = np.flatnonzero(table["y"].isna() if which is None else table["y"] == which)
    extra = pd.DataFrame({"a": [7.5], "b": [5.0], "c": ["q"], "y": [which]})
    extreme = table.copy()
    extreme.loc[rows[3], ["a", "b", "c"]] = [1e6, np.nan, "never seen"]
    return {
        "removed": table.drop(index=rows[-1]),
        "added": pd.concat([table, extra], ignore_index=True),
        "extreme": extreme,
    }


def assert_one_term_moves(before, after, payer, n_terms=1):
    """Only what the row's scope pays for moves: one teacher, and one term of a sum.

    A row that is changed has two terms: one goes and one comes.
    """
    assert len(before) == len(after) > 0
    moved, teachers = set(), set()
    for (name, scope, ours), (_, other, theirs) in zip(before, after, strict=True):
        assert scope == other
        if scope != payer:
            np.testing.assert_array_equal(ours, theirs)
            continue
        if np.any(ours != theirs):
            moved.add(name)
        change = np.abs(ours - theirs)
        if name == TEACHERS:
            teachers |= set(np.flatnonzero(change.any(axis=1)))
        elif name == "votes":
            assert change.max() <= 1
        elif name == "pseudo-labels":
            assert change.sum() <= n_terms
        else:
            assert np.linalg.norm(change) <= n_terms * CLIPS[name] * (1 + 1e-9)
    assert len(teachers) <= 1
    return moved


def moved_by(change, table, which, **mode):
    """Fit a table and its neighbour, and give what moves; more than it may fails."""
    before, other = what_is_summed(table, **mode), neighbours(table, which)[change]
    payer = UNLABELLED if which is None else which
    n_terms = 2 if len(other) == len(table) else 1
    return assert_one_term_moves(before, what_is_summed(other, **mode), payer, n_terms)


CHANGES = ["removed", "added", "extreme"]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", [*MODES, FACTORS], ids=str)
def test_a_labelled_row_moves_one_teacher_and_one_term_and_no_unlabelled_sum(
    mode, change
):
    moved = moved_by(change, make_table(), "u", **mode)
    own = "discriminator's gradients" if "desensitization" in mode else TEACHERS
    assert {CLASSIFIER, own} <= moved


def test_a_labelled_row_can_move_a_vote():
    """The test above would also pass if no teacher's opinion became a vote."""
    few = {"n_teachers": 60, "batch_size": 64}
    assert any("votes" in moved_by(c, make_table(), "u", **few) for c in CHANGES)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", [*MODES, FACTORS], ids=str)
def test_an_unlabelled_row_moves_one_term_of_one_sum(mode, change):
    assert moved_by(change, make_table(), None, **mode) == {"pseudo-labels", BRANCH}


def is_caught(which, table=None, changes=CHANGES, **mode):
    for change in changes:
        try:
            moved_by(change, make_table() if table is None else table, which, **mode)
        except AssertionError:
            return True
    return False


def test_parts_after_sorting_by_value_are_caught(monkeypatch):
    """By the other teachers, bit for bit, when a row in the middle becomes extreme."""
    init = TeacherEnsemble.__init__

    def after_sorting(self, rows, *given, **named):
        init(self, rows[np.argsort(rows[:, 0])], *given, **named)

    monkeypatch.setattr(TeacherEnsemble, "__init__", after_sorting)
    assert is_caught("u", changes=["extreme"])


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_the_classifier_without_noise_is_caught(mode, monkeypatch):
    """The published C: a labelled row moves the labels of unlabelled ones."""
    monkeypatch.setattr(
        _classifier,
        "release_float_gaussian",
        lambda total, clip, reservation: 5 * total,
    )
    few_labels = make_table(600, unlabelled=0.95)
    assert is_caught("u", few_labels, **mode)


def test_majority_votes_on_unlabelled_rows_are_caught(monkeypatch):
    """The published r_c: the target is what the teachers say, without noise."""
    real = _pate_triplegan_players.VotePlayer.clipped_sum

    def published(player, rows):
        opinions = player._teachers.logits(rows, player._view.features)
        fake = (opinions > 0).sum(dim=0) * 2 <= player._plan.n_teachers
        return real(player, rows[fake]) - real(player, rows[~fake])

    monkeypatch.setattr(_pate_triplegan_players.VotePlayer, "clipped_sum", published)
    few_labels = make_table(600, unlabelled=0.9)
    assert is_caught("u", few_labels, n_teachers=3)


def test_one_labelled_row_flips_every_published_label():
    """Proof of concept: 51 teachers, 26 to 25 on 128 rows; the sum moves by 256 C.

    Its noise covers C. With a fixed target nothing moves, since no vote enters.
    """
    clip, n_rows = 1.0, 128
    terms = torch.zeros(n_rows, 5)
    terms[:, 0] = 3.0  # collinear gradients
    target = {
        votes: np.where(2 * np.full(n_rows, votes) > 51, 1.0, -1.0)
        for votes in (26, 25)
    }
    assert np.count_nonzero(target[26] != target[25]) == n_rows
    sums = [
        _classifier.clipped_sums([terms * torch.tensor(sign)[:, None]], clip)[0]
        for sign in target.values()
    ]
    assert float((sums[0] - sums[1]).norm()) == pytest.approx(2 * n_rows * clip)


def unclipped(gradients, clip):
    return [part.double().sum(dim=0) * 100 for part in gradients]


def centred(gradients, clip):
    each = gradients[0] - gradients[0].mean(dim=0)
    return [each.double().abs().sum(dim=0) * 100]


@pytest.mark.parametrize("twin", [unclipped, centred])
def test_terms_without_a_bound_are_caught(twin, monkeypatch):
    monkeypatch.setattr(_branch, "clipped_sums", twin)
    assert is_caught(None)


# --- Flow ------------------------------------------------------------------------


def everything_public(synthesizer):
    return {
        "names": sorted(vars(synthesizer)),
        "hash": joblib.hash(synthesizer),
        "arrays": list(synthesizer.generator_.to_state()[1].values()),
        "sample": synthesizer.sample(60, random_state=3),
        "report": synthesizer.privacy_report().to_dict(),
        "n_teachers": list(synthesizer.n_teachers_),
    }


def fit_twice(monkeypatch, **parameters):
    """Fit one table; then quite another one, but with the releases of the first."""
    released = []

    def spied(module, name):
        real = getattr(module, name)

        def record(*arguments):
            released.append(real(*arguments))
            return released[-1]

        def replay(*arguments):
            real(*arguments)
            return released.pop(0)

        return record, replay

    places = [(m, "release_float_gaussian") for m in FLOAT_RELEASES]
    places += [
        (_aggregators, "release_gaussian"),
        (_tables, "release_gaussian"),
        (_aggregators, "release_votes"),  # below whatever a player may wrap it in
    ]
    spies = [(*place, *spied(*place)) for place in places]
    for module, name, record, _ in spies:
        monkeypatch.setattr(module, name, record)
    ours = fit(make_table(1500, seed=1), **parameters)
    for module, name, _, replay in spies:
        monkeypatch.setattr(module, name, replay)
    theirs = fit(make_table(900, seed=2, unlabelled=0.6), **parameters)
    assert not released
    return everything_public(ours), everything_public(theirs)


@pytest.mark.parametrize(
    "mode",
    [
        *MODES,
        FACTORS,
        {"init": "random"},
        NETWORK,
        NETWORK | {"desensitization": "dpsgd", "hidden_dims": (4,)},
        {"schema": UNCOUNTED},
        {"target": None},
    ],
    ids=str,
)
def test_the_result_is_a_function_of_the_releases(mode, monkeypatch):
    """Other rows, other numbers of both kinds of rows, other secrets: the same bits.

    So no private row reaches a generator, a student, the plan, the report or a public
    stream but through a mechanism.
    """
    ours, theirs = fit_twice(monkeypatch, **mode)
    for mine, other in zip(ours.pop("arrays"), theirs.pop("arrays"), strict=True):
        np.testing.assert_array_equal(mine, other)
    pd.testing.assert_frame_equal(ours.pop("sample"), theirs.pop("sample"))
    assert ours == theirs


def leaks_size(self, rows):
    """A twin: the generator's stream moves with the number of unlabelled rows."""
    torch.randn(len(rows), generator=self._generator._generator)
    return self._discriminator.clipped_sum(rows, self._view)


def test_a_public_stream_that_counts_rows_is_caught(monkeypatch):
    monkeypatch.setattr(_pate_triplegan_players.VotePlayer, "clipped_sum", leaks_size)
    ours, theirs = fit_twice(monkeypatch, **LOUD)
    assert any(
        not np.array_equal(mine, other)
        for mine, other in zip(ours["arrays"], theirs["arrays"], strict=True)
    )


@pytest.mark.parametrize("init", ["measured", "marginals"])
def test_only_teachers_and_mechanisms_see_rows(init, monkeypatch):
    """Taint: rows of one odd value never reach a student's or generator's input."""
    seen = []
    for name in ("add", "train"):
        owner = {
            "add": _pate_triplegan_players.LabelBuffer,
            "train": _branch.StudentDiscriminator,
        }[name]
        real = getattr(owner, name)

        def keep(self, *arguments, real=real, **named):
            seen.extend(a for a in arguments if isinstance(a, torch.Tensor))
            return real(self, *arguments, **named)

        monkeypatch.setattr(owner, name, keep)
    private = []

    def keep_scores(scores):
        # Bins have few scores, and fakes have them too: real ones are marked.
        private.append(scores if init == "marginals" else scores + np.float32(0.1))
        return private[-1]

    monkeypatch.setattr(*after_encoding(keep_scores)[init])
    fit(make_table(), init=init)
    assert len(private) == 4  # labelled and unlabelled rows of two classes
    rows = {row.tobytes() for part in private for row in part}
    fakes = [t for t in seen if t.ndim == 2 and t.shape[1] == 3]
    assert fakes
    for part in fakes:
        assert not any(row.tobytes() in rows for row in part.float().numpy())


def only_sure_labels(votes, n_teachers, reservation):
    """A twin: labels pass if the exact majority is clear; the test is not charged."""
    labels = real_votes(votes, n_teachers, reservation)
    return labels & (np.maximum(votes, n_teachers - votes) > 0.8 * n_teachers)


real_votes = _aggregators.noisy_votes


def test_a_threshold_that_nobody_pays_for_is_caught(monkeypatch):
    monkeypatch.setattr(_pate_triplegan_players, "noisy_votes", only_sure_labels)
    ours, theirs = fit_twice(monkeypatch, **LOUD)
    assert any(
        not np.array_equal(mine, other)
        for mine, other in zip(ours["arrays"], theirs["arrays"], strict=True)
    )
