"""The white-box audit of a fit: every synthesizer passes, every broken twin does not.

A twin is a small change of the package's own code. Each is caught by three fits, and
by the finding that is named beside it.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from _twins import whole
from sklearn.base import clone

from skdpsynth import (
    DPCGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
)
from skdpsynth.audit import LedgerAudit, audit_ledger
from skdpsynth.audit._worlds import recorded
from skdpsynth.exceptions import ReservationError
from skdpsynth.nn import _dp_sgd
from skdpsynth.preprocessing import _purchase
from skdpsynth.preprocessing._columns import PrivateRows
from skdpsynth.preprocessing._domains import LevelDomain, NumericDomain
from skdpsynth.privacy import (
    PrivacyAccountant,
    PrivacyBudget,
    _aggregators,
    _mechanisms,
)
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import TableSchema
from skdpsynth.synthesizers import _adversarial, _gpate, _pate_triplegan_players
from skdpsynth.synthesizers import _pategan as _pategan_module

pytestmark = [
    pytest.mark.statistical,
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

SHORT = {"n_iter": 2, "n_generator_steps": 2}
# Rows of factors show the smallest change of what is learnt. Bins hide it: there
# `tests/synthesizers` compares the generators themselves, to the bit.
FACTORS = {"init": "marginals"}


def audit_of(synthesizer, table, canary, schema, **settings):
    ready = clone(synthesizer).set_params(schema=schema, target="y")
    return audit_ledger(ready, table, canary, **settings)


# --- Sound ------------------------------------------------------------------------


def test_every_synthesizer_agrees_with_its_ledger(
    audited, small_table, canary, public_schema
):
    """Three fits; p-values of all lines together at 1e-6."""
    found = audit_of(audited, small_table, canary, public_schema)
    assert found.findings == ()
    assert len(found.lines) > 0
    for line in found.lines:
        assert line.drawn == line.charged == line.reserved
        assert line.shift <= 1 + 1e-9
        if line.scope == "class v":  # the canary is of the other class
            assert line.shift == 0
    assert max(line.shift for line in found.lines) > 0


def test_nothing_declared_agrees_too(audited, small_table, canary):
    """Labels, ranges and categories are bought; the canary has a new category."""
    new = canary | {"c": "never seen", "a": 1e6}
    found = audit_of(audited, small_table, new, None)
    assert found.findings == ()
    assert {"column ranges", "categories"} <= {line.name for line in found.lines}


def test_the_release_of_a_count_moves_by_all_of_its_sensitivity(
    small_table, canary, public_schema
):
    found = audit_of(IndependentSynthesizer(), small_table, canary, public_schema)
    shifts = {line.scope: line.shift for line in found.lines}
    assert shifts == {"class u": pytest.approx(1.0), "class v": 0.0}


def test_releases_are_seen_however_they_are_called():
    """By position or by name; several at once count as so many."""
    line = PrivacyAccountant(1.0, 1e-5).reserve_gaussian(
        "g", mu=0.05, sensitivity=1.0, count=3
    )
    values = np.array([[1, 2], [3, 4]])
    with recorded() as seen:
        _aggregators.release_gaussian(values[0], line)
        noisy = _mechanisms.release_gaussian(values, n_releases=2, reservation=line)
    assert [release.n_releases for release in seen] == [1, 2]
    np.testing.assert_array_equal(seen[1].exact, values)
    np.testing.assert_array_equal(seen[1].noisy, noisy)


def test_an_observer_sees_its_block_and_its_thread_only():
    line = PrivacyAccountant(1.0, 1e-5).reserve_gaussian(
        "g", mu=0.05, sensitivity=1.0, count=4
    )

    def release():
        return _mechanisms.release_gaussian(np.array([1]), line)

    with recorded() as outer:
        release()
        with recorded() as inner:
            release()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(release).result()
    release()
    assert [len(outer), len(inner)] == [1, 1]


def test_an_observer_answers_where_nothing_is_private_only():
    accountant = PrivacyAccountant(1.0, 1e-5)
    line = accountant.reserve_gaussian("g", mu=0.05, sensitivity=1.0, count=2)
    with observe_releases(lambda release: release.exact):
        with pytest.raises(ReservationError, match="insecure_randomness"):
            _mechanisms.release_gaussian(np.array([7]), line)
        with insecure_randomness(0):
            assert _mechanisms.release_gaussian(np.array([7]), line).tolist() == [7]
    assert accountant.epsilon == np.inf


def test_a_shared_budget_is_left_aside(small_table, canary, public_schema):
    budget = PrivacyBudget(1.0, 1e-5)
    synthesizer = IndependentSynthesizer(budget=budget)
    assert not audit_of(synthesizer, small_table, canary, public_schema).violated
    assert budget.spent == (0.0, 0.0)


# --- Broken twins -----------------------------------------------------------------


def assert_caught(found: LedgerAudit, words: str):
    assert found.violated
    assert any(words in finding for finding in found.findings), found.findings
    assert "Contradiction" in str(found)


@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_less_noise_on_whole_numbers(
    factor, small_table, canary, public_schema, monkeypatch
):
    """540 released numbers in each class: 83% of the noise would be caught too."""
    real = _mechanisms._measurement
    twin = (lambda std: real(factor * std)) if factor else (lambda std: list)
    monkeypatch.setattr(_mechanisms, "_measurement", twin)
    synthesizer = GPATESynthesizer(init="random", n_teachers=6, n_iter=30)
    found = audit_of(synthesizer, small_table, canary, public_schema)
    assert_caught(found, "the noise is")


@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_less_noise_on_gradients(
    factor, small_table, canary, public_schema, monkeypatch
):
    """1,320 released numbers in each class: 89% of the noise would be caught too."""

    class Weaker:
        def __init__(self, rng):
            self._rng = rng

        def __getattr__(self, name):
            return getattr(self._rng, name)

        def normal(self, mean, std, shape):
            return self._rng.normal(mean, factor * std, shape)

    real = _mechanisms.secret_generator
    monkeypatch.setattr(_mechanisms, "secret_generator", lambda: Weaker(real()))
    synthesizer = DPCGANSynthesizer(
        n_iter=30, n_generator_steps=1, hidden_dims=(4,), init="random"
    )
    found = audit_of(synthesizer, small_table, canary, public_schema)
    assert_caught(found, "the noise is")


def test_votes_with_the_inverse_of_their_scale(
    small_table, canary, public_schema, monkeypatch
):
    """U2: a scale of 1 / b for b. No vote of 256 is turned round; half should be."""
    real = _mechanisms._measurement
    monkeypatch.setattr(_mechanisms, "_measurement", lambda std: real(1 / std))
    synthesizer = PATEGANSynthesizer(n_iter=4, batch_size=64, n_generator_steps=1)
    found = audit_of(synthesizer, small_table, canary, public_schema)
    assert_caught(found, "'labels by vote' (class u): the noise is")


def exact_majority(votes, n_teachers, reservation):
    """Teachers' votes without noise, charged like noisy ones."""
    _aggregators.noisy_votes(votes, n_teachers, reservation)
    return 2 * votes > n_teachers


def uncharged_majority(votes, n_teachers, reservation):
    """TripleGAN's noiseless votes: nobody pays."""
    return 2 * votes > n_teachers


def votes_read_first(votes, n_teachers, reservation):
    """S4: a look at the votes decides whether they are bought."""
    if votes.sum() % 2:
        return np.zeros(len(votes), dtype=bool)
    return _aggregators.noisy_votes(votes, n_teachers, reservation)


@pytest.mark.parametrize("twin", [exact_majority, uncharged_majority, votes_read_first])
@pytest.mark.parametrize("synthesizer", ["PATE-GAN", "PATE-TripleGAN"])
def test_votes_round_the_mechanism(
    synthesizer, twin, small_table, canary, public_schema, monkeypatch
):
    """Three teachers of 12 rows: one extreme row turns majorities round."""
    where, cls = {
        "PATE-GAN": (_pategan_module, PATEGANSynthesizer),
        "PATE-TripleGAN": (_pate_triplegan_players, PATETripleGANSynthesizer),
    }[synthesizer]
    monkeypatch.setattr(where, "noisy_votes", twin)
    settings = {"n_teachers": 3, "n_iter": 6, "batch_size": 31, **FACTORS}
    made = cls(n_generator_steps=1, **settings)
    few = small_table[small_table["y"] == "v"].reset_index(drop=True)
    found = audit_of(made, few[:12], canary | {"y": "v"}, public_schema)
    past = ("past all releases", "the canary changes")
    assert any(words in finding for finding in found.findings for words in past)
    monkeypatch.undo()
    sound = audit_of(made, few[:12], canary | {"y": "v"}, public_schema)
    assert not sound.violated


def exact_sum(vectors, clip, reservation):
    """Gradients of teachers without noise, charged like noisy ones."""
    _aggregators.gaussian_sum(vectors, clip, reservation)
    return np.asarray(vectors, dtype=np.float64).sum(axis=0)


def test_sums_round_the_mechanism(small_table, canary, public_schema, monkeypatch):
    monkeypatch.setattr(_gpate, "gaussian_sum", exact_sum)
    synthesizer = GPATESynthesizer(init="random", n_iter=3, n_teachers=4)
    found = audit_of(synthesizer, small_table, canary, public_schema)
    assert_caught(found, "synthetic rows depend on the canary past all releases")


def own_gaussian(total, clip, reservation):
    """Noise from another source: nothing is charged."""
    return total + np.random.default_rng(0).normal(0, 1e-3 * clip, total.shape)


def test_noise_that_nobody_pays_for(small_table, canary, public_schema, monkeypatch):
    """Opacus's own noise would be such: the ledger's releases are never seen."""
    monkeypatch.setattr(_dp_sgd, "release_float_gaussian", own_gaussian)
    gradients = {"hidden_dims": (4,)}  # sums of whole numbers have discrete noise
    synthesizer = DPCGANSynthesizer(50.0, **SHORT, **FACTORS, **gradients)
    found = audit_of(synthesizer, small_table, canary, public_schema)
    assert_caught(found, "past all releases")
    assert any(line.drawn < line.reserved for line in found.lines)


class RealisedDivisor(_adversarial.Discriminator):
    """Divides by the number of rows, as Opacus's make_private does."""

    def __init__(self, rows, *, expected_batch_size, **settings):
        super().__init__(rows, expected_batch_size=max(len(rows), 1), **settings)


def test_divisor_from_the_number_of_rows(
    small_table, canary, public_schema, monkeypatch
):
    monkeypatch.setattr(_adversarial, "Discriminator", RealisedDivisor)
    # A signal above the noise: steps that are all noise are discounted to nothing.
    synthesizer = DPCGANSynthesizer(50.0, **SHORT, **FACTORS, n_discriminator_steps=2)
    found = audit_of(synthesizer, small_table, canary, public_schema)
    assert_caught(found, "synthetic rows depend on the canary past all releases")


def all_rows(rows, position):
    return PrivateRows(rows.units, rows.category_codes, rows.members)


def test_rows_in_the_ensembles_of_two_classes(
    small_table, canary, public_schema, monkeypatch
):
    monkeypatch.setattr(PrivateRows, "of_class", all_rows)
    synthesizer = GPATESynthesizer(init="random", n_iter=3, n_teachers=4)
    found = audit_of(synthesizer, small_table, canary, public_schema)
    assert_caught(found, "charged to different rows: class u, class v")


def unclipped(gradients, clip):
    return [part.double().sum(dim=0) for part in gradients]


def test_sums_without_clipping(small_table, canary, public_schema, monkeypatch):
    monkeypatch.setattr(_dp_sgd, "clipped_sums", unclipped)
    loop = {"n_discriminator_steps": 2, "max_grad_norm": 1e-3}
    synthesizer = DPCGANSynthesizer(**loop, **SHORT)
    found = audit_of(synthesizer, small_table, canary, public_schema)
    assert_caught(found, "times its sensitivity")


def exact_ranges(table, columns, *args, **kwargs):
    """Bounds from the data (O7, U5, S3, T3, B2, N2)."""
    frame = whole(table)
    return [
        NumericDomain(
            float(frame[c.name].min()), float(frame[c.name].max()), False, False, False
        )
        for c in columns
    ]


def exact_levels(table, columns, *args, **kwargs):
    """Categories from the data (T3, N2)."""
    frame = whole(table)
    return [
        LevelDomain(tuple(sorted(frame[c.name].unique())), False, False)
        for c in columns
    ]


@pytest.mark.parametrize("twin", [exact_ranges, exact_levels])
def test_facts_from_the_data(twin, small_table, canary, public_schema, monkeypatch):
    name = {"exact_ranges": "buy_ranges", "exact_levels": "buy_levels"}[twin.__name__]
    monkeypatch.setattr(_purchase, name, twin)
    some = {"exact_ranges": ("c", "y"), "exact_levels": ("a", "b", "y")}[twin.__name__]
    columns = {column: public_schema.columns[column] for column in some}
    counts = {"u": 90, "v": 60}
    schema = TableSchema(columns, target="y", class_counts=counts)
    table = small_table.dropna().reset_index(drop=True)
    new = canary | {"a": 1e6, "c": "never seen"}
    found = audit_of(IndependentSynthesizer(), table, new, schema)
    assert found.violated
    monkeypatch.undo()
    assert not audit_of(IndependentSynthesizer(), table, new, schema).violated


class DeltaOfRows(IndependentSynthesizer):
    """S5, N3: delta from the number of rows."""

    def fit(self, X, y=None):
        self.delta = 1 / len(X) ** 1.5
        return super().fit(X, y)


class RoundsOfRows(GPATESynthesizer):
    """Rounds from the number of rows."""

    def fit(self, X, y=None):
        self.n_iter = len(X) - 145
        return super().fit(X, y)


class KeepsRows(IndependentSynthesizer):
    """S8, O6: rows are drawn from the training table."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.kept_ = X
        return self

    def sample(self, n_samples=1, *, sampling_strategy=None, random_state=None):
        return self.kept_.sample(n_samples, replace=True, random_state=random_state)


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
    """Buys more with a budget of its own."""

    def fit(self, X, y=None):
        more = PrivacyAccountant(1.0, 1e-5)
        line = more.reserve_gaussian("more", mu=more.mu_cap, sensitivity=1.0)
        super().fit(X, y)
        _aggregators.noisy_counts(np.zeros(len(X), dtype=np.int64), 1, line)
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
        (RoundsOfRows(init="random", n_teachers=3), "canary changes which releases"),
        (KeepsRows(), "fitted object depends on the canary"),
        (PublicDrawsByRow(), "synthetic rows depend on the canary"),
        (ClaimsTooLittle(), "above the"),
        (SecondLedger(), "charged to a second ledger"),
        (ShowsAnotherLedger(), "lists other reservations"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_broken_classes(twin, words, small_table, canary, public_schema):
    assert_caught(audit_of(twin, small_table, canary, public_schema), words)


# --- Words ------------------------------------------------------------------------


def test_words_and_plot(small_table, canary, public_schema):
    found = audit_of(IndependentSynthesizer(), small_table, canary, public_schema)
    text = str(found)
    assert "found no violation" in text
    assert "no proof" in text
    assert not any(word in text.lower() for word in ("guarantee", "is private"))
    assert list(found.to_frame()["name"]) == ["marginals", "marginals"]
    ax = found.plot()
    assert len(ax.patches) == 2
    assert found.plot(ax) is ax
    assert all(0 < line.power < 1 for line in found.lines)


def test_what_has_no_ledger_is_refused(small_table, canary, public_schema):
    with pytest.raises(TypeError, match="use audit_generator"):
        audit_ledger(object(), small_table, canary)
    with pytest.raises(ValueError, match="alpha must be in"):
        audit_of(
            IndependentSynthesizer(), small_table, canary, public_schema, alpha=1.0
        )


def test_a_fit_without_noise_has_nothing_to_test(small_table, canary, public_schema):
    found = audit_of(
        IndependentSynthesizer(epsilon=math.inf), small_table, canary, public_schema
    )
    assert not found.violated
    assert all(math.isnan(line.noise_ratio) for line in found.lines)


def test_to_frame_has_a_column_per_field(small_table, canary, public_schema):
    found = audit_of(IndependentSynthesizer(), small_table, canary, public_schema)
    assert isinstance(found.to_frame(), pd.DataFrame)
    assert {"noise_ratio", "p_value", "shift"} <= set(found.to_frame())
