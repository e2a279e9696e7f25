"""The template of a fit: what goes in, what comes out, what a fitted object is."""

import math
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from tables import correlated_schema, correlated_table

from skdpsynth import GPATESynthesizer, IndependentSynthesizer, PrivacyBudget
from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import (
    BudgetExceededError,
    DegradedResultWarning,
    InvalidTableError,
    ReservationError,
)
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.statistics import noisy_counts
from skdpsynth.schema import Categorical, TableSchema
from skdpsynth.table import Metadata

pytestmark = pytest.mark.usefixtures("short_fits")

LABELS = TableSchema({"y": Categorical(["u", "v"])}, target="y")
COLUMNS = correlated_schema().columns


def test_sample_before_fit(tmp_path):
    synth = IndependentSynthesizer()
    for call in (
        *(synth.sample, synth.privacy_report, synth.model_card),
        lambda: synth.get_epsilon(0.1),
        lambda: synth.save(tmp_path / "absent.skdp"),
    ):
        with pytest.raises(NotFittedError):
            call()


def test_random_state_of_any_form():
    synth = IndependentSynthesizer().fit(correlated_table(2000)[["a"]])
    for make in (lambda: 7, lambda: np.random.RandomState(7), lambda: np.int64(7)):
        first, second = (synth.sample(5, random_state=make()) for _ in range(2))
        pd.testing.assert_frame_equal(first, second)
    with pytest.raises(ValueError, match="random_state"):
        synth.sample(3, random_state=np.random)
    shared = np.random.RandomState(7)
    assert not synth.sample(5, random_state=shared).equals(
        synth.sample(5, random_state=shared)
    )


def test_second_fit_forgets_the_first():
    synth = IndependentSynthesizer(target="y").fit(correlated_table(2000))
    synth.set_params(target=None).fit(correlated_table(2000)[["b"]].to_numpy())
    assert not hasattr(synth, "classes_")
    assert not hasattr(synth, "feature_names_in_")
    assert synth.n_features_in_ == 1
    assert synth.sample(2).columns.tolist() == ["x0"]


@pytest.mark.parametrize("name", ["y", ("y", 1), frozenset("y"), b"y", 3])
def test_fit_resample_with_the_label_in_the_table(name):
    real = correlated_table(2000)
    real.columns = pd.Index(["a", "b", name], tupleize_cols=False)
    schema = TableSchema({name: LABELS.columns["y"]}, target=name)
    features, labels = IndependentSynthesizer(schema=schema).fit_resample(real)
    assert features.columns.tolist() == ["a", "b"]
    assert labels.name == name
    assert set(labels) == {"u", "v"}
    # As many rows as the noisy count: within eight of its standard deviations.
    assert len(features) == len(labels) == pytest.approx(2000, abs=8 * 30)


@pytest.mark.parametrize("where", ["_fit", "schema", "report"])
def test_failed_second_fit_leaves_nothing_fitted(where, monkeypatch):
    """It has spent; a mixture of two fits would have no guarantee of its own."""
    real = correlated_table(2000)
    synth = GPATESynthesizer(random_state=0).fit(real)

    def fail(*_):
        raise RuntimeError

    owner = {"_fit": GPATESynthesizer, "schema": Metadata, "report": PrivacyAccountant}
    monkeypatch.setattr(owner[where], where, fail)
    with pytest.raises(RuntimeError):
        synth.fit(real[["a"]].to_numpy())
    with pytest.raises(NotFittedError):
        synth.sample()
    assert vars(synth).keys() == vars(GPATESynthesizer()).keys()


def test_a_refused_fit_draws_nothing_and_keeps_the_first(monkeypatch):
    real = correlated_table(2000)
    budget = PrivacyBudget(1.0, 1e-4)
    synth = IndependentSynthesizer(target="y", budget=budget).fit(real)
    fitted = {k: v for k, v in vars(synth).items() if k not in synth.get_params()}
    monkeypatch.setattr(
        "skdpsynth.base.Discovery.run", None
    )  # an error if it is called
    for changes in ({"target": None}, {"epsilon": math.inf}, {"target": "absent"}):
        with pytest.raises((BudgetExceededError, InvalidTableError)):
            synth.set_params(**changes).fit(real[["a", "y"]])
    assert all(getattr(synth, name) is value for name, value in fitted.items())
    assert vars(synth).keys() == fitted.keys() | synth.get_params().keys()
    assert len(budget.charges) == 1


def test_nothing_can_be_drawn_after_a_fit():
    """A reservation that outlives its fit, with a release left, is dead."""
    kept = []

    class Keeps(IndependentSynthesizer):
        def _fit(self, rows, metadata, plans, accountant, seed):
            model = super()._fit(rows, metadata, plans, accountant, seed)
            given = {"mu": 1e-3 * accountant.mu_cap, "sensitivity": 1.0, "count": 2}
            line = accountant.reserve_gaussian("kept", answer=False, **given)
            noisy_counts(np.zeros(3, dtype=np.int64), 1, line)
            kept.extend([accountant, line])
            return model

        def _allocate(self, table, mu):
            return super()._allocate(table, 0.9 * mu)

    Keeps().fit(correlated_table(2000)[["a"]])
    accountant, line = kept
    with pytest.raises(ReservationError, match="over"):
        noisy_counts(np.zeros(3, dtype=np.int64), 1, line)
    with pytest.raises(ReservationError, match="over"):
        accountant.reserve_gaussian("late", mu=1e-9, sensitivity=1.0)


def test_degraded_result_warns_at_the_line_of_the_user():
    real, counts = correlated_table(30), {"u": 15, "v": 15}
    schema = TableSchema(COLUMNS, target="y", class_counts=counts)
    synth = IndependentSynthesizer(epsilon=0.01, schema=schema)
    assert synth.plan(30)["note"].str.contains("too few rows").all()
    with pytest.warns(DegradedResultWarning, match="2 of 2 classes") as caught:
        synth.fit(real)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        synth.set_params(epsilon=20.0).fit(real)
    assert synth.plan(30)["note"].tolist() == ["", ""]


@pytest.mark.parametrize("synthesizer", [IndependentSynthesizer, GPATESynthesizer])
def test_small_fit_is_fast(synthesizer):
    """A default fit of 30 x 5 takes under 0.25 s, the best of five fresh budgets.

    A new epsilon each time, so that no calibration comes from a cache. It is the time
    of this process, on one thread: others may use the machine too.
    """
    rng = np.random.default_rng(0)
    real = pd.DataFrame(rng.normal(size=(30, 4)), columns=list("abcd"))
    real["y"] = np.arange(30) % 2
    seconds = []
    for trial in range(6):
        synth = synthesizer(target="y", epsilon=1.0 + 1e-3 * trial)
        start = time.process_time()
        synth.fit(real)
        seconds.append(time.process_time() - start)
    assert min(seconds[1:]) < 0.25


# --- What a class of somebody else may not do ----------------------------------------


def test_a_method_that_is_missing_is_said_before_anything_is_charged():
    with pytest.raises(TypeError, match=r"abstract.*_allocate.*_fit"):
        type("Unfinished", (BaseSynthesizer,), {})()


@pytest.mark.parametrize("scope", ["z", 0, ("p",)])
def test_a_scope_that_is_no_class_is_refused(scope):
    """It would have the whole budget left, for rows that are charged elsewhere."""

    class ChargesNobody(IndependentSynthesizer):
        def _fit(self, rows, metadata, plans, accountant, seed):
            model = super()._fit(rows, metadata, plans, accountant, seed)
            accountant.reserve_gaussian("more", mu=1e-3, sensitivity=1.0, scope=scope)
            return model

    with pytest.raises(ReservationError, match="no class of the fit"):
        ChargesNobody(epsilon=9.0, target="y").fit(correlated_table(400))


def test_a_plan_by_noisy_counts_that_passes_the_cap_is_refused():
    """The cap is fixed before the counts are released, and the ledger keeps it."""

    class PassesTheCap(IndependentSynthesizer):
        def _allocate(self, table, mu):
            more = mu * (1.1 if max(table.n_rows) > 10 else 1.0)
            return super()._allocate(table, more)

    with pytest.raises(BudgetExceededError):
        PassesTheCap(target="y").fit(correlated_table(400))
