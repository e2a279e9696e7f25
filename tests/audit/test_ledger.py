"""The white-box audit of a fit: every synthesizer passes, every broken twin does not.

A twin is a small change of the package's own code. Each is caught by three fits, and
by the finding that is named beside it.
"""

import itertools
import math
import pkgutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pandas as pd
import pytest
from _instances import PLAIN, PRIVATE
from _reserve import noisy
from replay.twins import TWINS as BROKEN
from sklearn.base import clone
from tables import COLUMNS, small_table

from skdpsynth import (
    DPCGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
)
from skdpsynth.audit import audit_ledger
from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy import PrivacyAccountant, PrivacyBudget
from skdpsynth.privacy.statistics import noisy_counts
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import Categorical, Continuous, TableSchema

pytestmark = [pytest.mark.statistical, pytest.mark.usefixtures("short_fits")]

PAST = "past all releases"
# So much that the loops run on `small_table`.
AUDITED = {
    name: type(s)(10.0) if s in PLAIN.values() else clone(s).set_params(epsilon=10.0)
    for name, s in PRIVATE.items()
}
del AUDITED["pairwise rich"]
AUDITED["pategan laplace"].set_params(batch_size=64, n_teachers=5)  # so that votes move


@pytest.fixture(params=AUDITED)
def audited(request):
    """Every synthesizer by default, and each way of training once."""
    return AUDITED[request.param]


@pytest.fixture
def case():
    """A table, an extreme row, and what is public: what most audits of a ledger get."""
    schema = TableSchema(COLUMNS, target="y", class_counts={"u": 90, "v": 60})
    return small_table(), {"a": 8.0, "b": -6.0, "c": "r", "y": "u"}, schema


def audit_of(synthesizer, table, canary, schema, **settings):
    ready = clone(synthesizer).set_params(schema=schema)
    return audit_ledger(ready, table, canary, **settings)


def assert_caught(found, words):
    assert any(words in finding for finding in found.findings), found.findings
    assert "Contradiction" in str(found)


@pytest.mark.parametrize("declared", [True, False])
def test_every_synthesizer_agrees_with_its_ledger(audited, case, declared):
    """Three fits; p-values of all lines together at 1e-6.

    Or labels, ranges and categories are measured; the canary has a new category.
    """
    table, canary, schema = case
    if not declared:
        audited, schema = clone(audited).set_params(target="y"), None
        canary = canary | {"c": "never seen", "a": 1e6}
    found = audit_of(audited, table, canary, schema)
    assert found.findings == ()
    kinds = {own.name for own in found.lines}
    assert kinds if declared else kinds >= {"column ranges", "categories"}
    for own in found.lines:
        assert own.drawn == own.charged == own.reserved
        assert own.shift <= 1 + 1e-9
        if own.scope == "class v":  # the canary is of the other class
            assert own.shift == 0
    assert max(own.shift for own in found.lines) > 0


def test_what_a_count_shows(case):
    """It moves by all of its sensitivity. A table, and until 0.5 a plot."""
    found = audit_of(IndependentSynthesizer(), *case)
    shifts = {own.scope: own.shift for own in found.lines}
    assert shifts == {"class u": pytest.approx(1.0), "class v": 0.0}
    assert "found no violation" in str(found)
    frame = found.to_frame()
    assert list(frame["name"]) == ["marginals", "marginals"]
    assert {"noise_ratio", "p_value", "shift"} <= set(frame)
    with pytest.warns(FutureWarning, match="plot.. is deprecated"):
        assert len(found.plot().patches) == 2
    assert all(0 < own.power < 1 for own in found.lines)


def test_what_has_no_ledger_is_refused(case):
    with pytest.raises(TypeError, match="use audit_generator"):
        audit_ledger(object(), *case[:2])
    with pytest.raises(ValueError, match="alpha must be in"):
        audit_of(IndependentSynthesizer(), *case, alpha=1.0)
    persons = IndependentSynthesizer(schema=OF_PERSONS)
    for change in ({"who": None}, {"who": "p7"}, {"who": ["x", *"qqqqq"]}, {"b": 1}):
        with pytest.raises(ValueError, match="canary of"):
            audit_ledger(persons, VISITS, PERSON.assign(**change))


def test_a_fit_without_noise_has_nothing_to_test(case):
    """And a shared budget is left aside."""
    budget = PrivacyBudget(1.0, 1e-5)
    found = audit_of(IndependentSynthesizer(epsilon=math.inf, budget=budget), *case)
    assert not found.violated
    assert all(math.isnan(own.noise_ratio) for own in found.lines)
    assert budget.spent == (0.0, 0.0)


def test_an_observer_has_its_block_and_its_thread_only():
    count = partial(noisy_counts, np.array([0, 1, 1]), 2, noisy(1.0, count=4))
    outer, inner = [], []
    with observe_releases(outer.append):
        count()
        with observe_releases(inner.append):
            released = count()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(count).result()
    count()
    assert len(outer) == len(inner) == 1
    assert inner[0].exact.tolist() == [1, 2]
    np.testing.assert_array_equal(inner[0].noisy, released)


def test_an_observer_answers_where_nothing_is_private_only():
    count = partial(noisy_counts, np.zeros(7, dtype=int), 1, noisy(1.0, count=2))
    with observe_releases(lambda release: release.exact):
        with pytest.raises(ReservationError, match="insecure_randomness"):
            count()
        with insecure_randomness(0):
            assert count().tolist() == [7]


def half_noise(real, std, **law):
    return real(0.5 * std, **law)


def inverse_noise(real, std, **law):
    """U2: a scale of 1 / b for b. No vote of 256 is turned round; half should be."""
    return real(1 / std, **law)


def own_gaussian(real, total, clip, reservation):
    """Noise from another source, such as Opacus's own: nothing is charged."""
    return total + np.random.default_rng(0).normal(0, 1e-3 * clip, total.shape)


def in_a_thread(real, values, own, *more):
    """Charged, but for one class drawn where nobody observes it."""
    if own.scope == "u":
        return real(values, own, *more)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(real, values, own, *more).result()


def uncharged_majority(real, votes, n_teachers, reservation):
    """TripleGAN's noiseless votes: nothing is charged."""
    return 2 * votes > n_teachers


def votes_read_first(real, votes, n_teachers, reservation):
    """S4: the votes themselves decide whether they are released."""
    if votes.sum() % 2:
        return np.zeros(len(votes), dtype=bool)
    return real(votes, n_teachers, reservation)


def planted(twin, where, monkeypatch):
    where = f"skdpsynth.{where}"
    monkeypatch.setattr(where, partial(twin, pkgutil.resolve_name(where)))


NUMBERS = GPATESynthesizer(10.0, n_teachers=6, n_iter=30)
VOTES = PATEGANSynthesizer(10.0, n_iter=4, batch_size=64)
GRADIENTS = DPCGANSynthesizer(10.0)
LESS = "the noise is"
FEW = "'labels by vote' (class u): answers against the majority are"
UNSEEN = "0 releases were made, but 1 were charged"
TWINS = [
    (half_noise, "privacy._mechanisms._discrete", NUMBERS, LESS),
    (inverse_noise, "privacy._mechanisms._discrete", VOTES, FEW),
    (own_gaussian, "training._dp_sgd.release_float_gaussian", GRADIENTS, PAST),
    (
        *(in_a_thread, "privacy.statistics.release_gaussian"),
        *(IndependentSynthesizer(), UNSEEN),
    ),
]


@pytest.mark.parametrize(("twin", "where", "synthesizer", "words"), TWINS)
def test_broken_code_is_caught(twin, where, synthesizer, words, case, monkeypatch):
    planted(twin, where, monkeypatch)
    found = audit_of(synthesizer, *case)
    assert_caught(found, words)
    if twin is own_gaussian:
        assert any(line.drawn < line.reserved for line in found.lines)


@pytest.mark.parametrize(
    ("cls", "twin"),
    [
        (PATEGANSynthesizer, votes_read_first),
        (PATETripleGANSynthesizer, uncharged_majority),
    ],
)
def test_votes_round_the_mechanism(cls, twin, case, monkeypatch):
    """Three teachers of 12 rows: one extreme row turns majorities round."""
    table, canary, schema = case
    settings = {"n_teachers": 3, "n_iter": 6, "batch_size": 128, "init": "random"}
    few = table[table["y"] == "v"].reset_index(drop=True)[:12]
    few = cls(10.0, **settings), few, canary | {"y": "v"}, schema
    assert not audit_of(*few).violated
    planted(twin, "synthesizers._pategan.noisy_votes", monkeypatch)
    with insecure_randomness(0):  # so that it is one history, of which this is known
        findings = " ".join(audit_of(*few).findings)
    assert "past all releases" in findings or "the canary changes" in findings


class DeltaOfRows(IndependentSynthesizer):
    """S5, N3: delta from the number of rows."""

    def fit(self, X, y=None):
        self.delta = 1 / len(X) ** 1.5
        return super().fit(X, y)


class RoundsOfRows(GPATESynthesizer):
    def fit(self, X, y=None):
        self.n_iter = len(X) - 145
        return super().fit(X, y)


class RoundsOfSecrets(GPATESynthesizer):
    rounds = itertools.count(2)

    def fit(self, X, y=None):
        self.n_iter = next(self.rounds)
        return super().fit(X, y)


class KeepsRows(IndependentSynthesizer):
    """S8, O6: rows are drawn from the training table, and no pickle shows it."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self._rows = X
        return self

    def __getstate__(self):  # not that of scikit-learn: it is the object's own dict
        return {name: value for name, value in vars(self).items() if name != "_rows"}

    def sample(self, n_samples=1, *, sampling_strategy=None, random_state=None):
        return self._rows.sample(n_samples, replace=True, random_state=random_state)


class PublicDrawsByRow(IndependentSynthesizer):
    """The stream of `sample` depends on the number of rows."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.offset_ = len(X)
        return self

    def sample(self, n_samples=1, *, sampling_strategy=None, random_state=None):
        return super().sample(n_samples, random_state=random_state + self.offset_)


class ClaimsTooLittle(IndependentSynthesizer):
    """Spends more than it was asked to."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.epsilon = self.epsilon_ / 2
        return self


class SecondLedger(IndependentSynthesizer):
    def fit(self, X, y=None):
        more = PrivacyAccountant(1.0, 1e-5)
        own = more.reserve_gaussian("more", mu=more.mu_cap, sensitivity=1.0)
        super().fit(X, y)
        noisy_counts(np.zeros(len(X), dtype=np.int64), 1, own)
        return self


class ShowsAnotherLedger(IndependentSynthesizer):
    """Its report leaves the marginals out."""

    def privacy_report(self):
        report = super().privacy_report()
        return type(report)(**{**vars(report), "entries": report.entries[1:]})


@pytest.mark.parametrize(
    ("twin", "words"),
    [
        (DeltaOfRows(), "report depends on the canary"),
        (RoundsOfRows(10.0, n_teachers=3), "canary changes which releases"),
        (RoundsOfSecrets(10.0, n_teachers=3), "secret draw changes which releases"),
        (KeepsRows(), "fitted object depends on the canary"),
        (PublicDrawsByRow(), "synthetic rows depend on the canary"),
        (ClaimsTooLittle(), "above the"),
        (SecondLedger(), "charged to a second ledger"),
        (ShowsAnotherLedger(), "lists other reservations"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_broken_classes(twin, words, case):
    assert_caught(audit_of(twin, *case), words)


class AsksAgain(IndependentSynthesizer):
    """The noise of its first line decides whether there is a second."""

    def _fit(self, rows, metadata, plans, accountant, seed):
        for name in ("question", "question again"):
            line = accountant.reserve_gaussian(
                name, mu=1e-6, sensitivity=1.0, answer=False
            )
            if noisy_counts(np.zeros(0, dtype=np.int64), 1, line)[0] > 0:
                break
        return super()._fit(rows, metadata, plans, accountant, seed)


def test_lines_have_their_own_shifts_where_noise_decides_how_many_there_are(case):
    """As of ranges that are asked for again; the lines of classes follow."""
    n_lines = set()
    for seed in range(8):
        with insecure_randomness(seed):
            lines = audit_of(AsksAgain(), *case).lines
        moved = {own.scope: own.shift != 0 for own in lines}
        assert moved == {"all rows": False, "class u": True, "class v": False}
        n_lines.add(len(lines))
    assert len(n_lines) == 2


VISITS = pd.DataFrame(
    {
        "who": [f"p{i % 60}" for i in range(240)],
        "a": [float(i % 9) for i in range(240)],
        "y": ["uv"[i % 2] for i in range(240)],
    }
)
PERSON = pd.DataFrame({"who": ["new"] * 6, "a": [9.0] * 6, "y": [*"uvuvuu"]})
OF_PERSONS = TableSchema(
    {"a": Continuous(0, 9), "y": Categorical(["u", "v"])},
    target="y",
    privacy_unit="who",
    max_rows_per_unit=2,
)


def test_all_rows_of_a_unit_are_a_canary():
    """Of six two take part; the twin lets all of them in."""
    synth = IndependentSynthesizer(30.0, schema=OF_PERSONS)
    audit = audit_ledger(synth, VISITS, PERSON)
    assert not audit.violated, audit.findings
    assert max(line.shift for line in audit.lines) > 0.4  # of what two rows may
    with BROKEN["no limit of rows"].planted():
        assert audit_ledger(synth, VISITS, PERSON).violated
