"""The template of a fit: what goes in, what comes out, what a fitted object is."""

from __future__ import annotations

import math
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from skdpsynth import GPATESynthesizer, IndependentSynthesizer, PrivacyBudget
from skdpsynth.exceptions import (
    BudgetExceededError,
    DegradedResultWarning,
    InvalidTableError,
    ReservationError,
)
from skdpsynth.measure import discover
from skdpsynth.privacy import PrivacyAccountant, noisy_counts
from skdpsynth.schema import Boolean, Categorical, Continuous, TableSchema
from skdpsynth.table import Metadata

pytestmark = pytest.mark.usefixtures("short_fits")

BOTH = [IndependentSynthesizer, GPATESynthesizer]
LABELS = TableSchema({"y": Categorical(["a", "b"])}, target="y")


def table(n_rows: int = 2000) -> pd.DataFrame:
    """A table with a difference between its classes that any fit at epsilon 1 sees."""
    rng = np.random.default_rng(0)
    label = rng.choice(["a", "b"], n_rows)
    return pd.DataFrame(
        {
            "u": rng.normal(size=n_rows) + 4 * (label == "b"),
            "y": label,
            "v": rng.integers(0, 9, n_rows),
        }
    )


@pytest.mark.parametrize("synthesizer", BOTH)
def test_ten_lines(synthesizer):
    real = table()
    synth = synthesizer(target="y", random_state=0).fit(real)
    fake = synth.sample(1000)
    assert fake.columns.tolist() == ["u", "y", "v"]
    pd.testing.assert_series_equal(fake.dtypes, real.dtypes)
    assert synth.classes_.tolist() == ["a", "b"]
    assert synth.feature_names_in_.tolist() == ["u", "v"]
    assert synth.n_features_in_ == 2
    means = fake.groupby("y")["u"].mean()
    assert means["b"] - means["a"] > 2


def test_sample_before_fit():
    synth = IndependentSynthesizer()
    for call in (synth.sample, synth.privacy_report, lambda: synth.get_epsilon(0.1)):
        with pytest.raises(NotFittedError):
            call()
    with pytest.raises(NotFittedError):
        synth.save("absent.skdp")


def test_random_state_of_any_form():
    synth = IndependentSynthesizer().fit(table()[["u"]])
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
    real = table()
    synth = IndependentSynthesizer().fit(real[["u", "v"]], real["y"])
    assert synth.classes_.tolist() == ["a", "b"]
    synth.fit(real[["v"]].to_numpy())
    assert not hasattr(synth, "classes_")
    assert not hasattr(synth, "feature_names_in_")
    assert synth.n_features_in_ == 1
    assert synth.sample(2).columns.tolist() == ["x0"]


@pytest.mark.parametrize("name", ["y", ("y", 1), frozenset("y"), b"y", 3])
def test_fit_resample_with_the_label_in_the_table(name):
    real = table().rename(columns={"y": "label"})
    real.columns = pd.Index(["u", name, "v"], tupleize_cols=False)
    schema = TableSchema({name: Categorical(["a", "b"])})
    features, labels = IndependentSynthesizer(target=name, schema=schema).fit_resample(
        real
    )
    assert features.columns.tolist() == ["u", "v"]
    assert labels.name == name
    assert len(features) == len(labels)


@pytest.mark.parametrize(
    "kind", [np.array, list, pd.Index, pd.Series, pd.Categorical, pd.array]
)
def test_fit_resample_with_labels_beside_the_table(kind):
    real = table()
    labels = kind(real["y"].tolist())
    schema = TableSchema({"target": Categorical(["a", "b"])}, n_rows=2000)
    features, generated = IndependentSynthesizer(schema=schema).fit_resample(
        real[["u", "v"]], labels
    )
    assert type(generated) is type(labels)
    assert set(generated) == {"a", "b"}
    if kind is pd.Series:
        assert generated.name is None
    # As many rows as the noisy count: within eight of its standard deviations.
    assert len(features) == len(generated) == pytest.approx(2000, abs=8 * 30)


def test_target_from_exactly_one_place():
    real = table()
    described = TableSchema({"y": Categorical(["a", "b"])}, target="y")
    for synth in (
        IndependentSynthesizer(target="y"),
        IndependentSynthesizer(schema=described),
        IndependentSynthesizer(target="y", schema=described),
    ):
        assert synth.fit(real).classes_.tolist() == ["a", "b"]
    assert not hasattr(IndependentSynthesizer().fit(real), "classes_")


@pytest.mark.parametrize("synthesizer", BOTH)
@pytest.mark.parametrize("where", ["_fit", "schema", "report"])
def test_failed_second_fit_leaves_nothing_fitted(synthesizer, where, monkeypatch):
    """It has spent; a mixture of two fits would have no guarantee of its own."""
    real = table()
    synth = synthesizer(random_state=0).fit(real)

    def fail(*_):
        raise RuntimeError

    owner = {"_fit": synthesizer, "schema": Metadata, "report": PrivacyAccountant}
    monkeypatch.setattr(owner[where], where, fail)
    with pytest.raises(RuntimeError):
        synth.fit(real[["u"]].to_numpy())
    with pytest.raises(NotFittedError):
        synth.sample()
    assert vars(synth).keys() == vars(synthesizer()).keys()


def test_a_refused_fit_draws_nothing_and_keeps_the_first(monkeypatch):
    real = table()
    budget = PrivacyBudget(1.0, 1e-4)
    synth = IndependentSynthesizer(target="y", budget=budget).fit(real)
    fitted = {k: v for k, v in vars(synth).items() if k not in synth.get_params()}
    monkeypatch.setattr("skdpsynth.base.discover", None)  # an error if it is called
    for changes in ({"target": None}, {"epsilon": math.inf}, {"target": "absent"}):
        with pytest.raises((BudgetExceededError, InvalidTableError)):
            synth.set_params(**changes).fit(real[["u", "y"]])
    assert all(getattr(synth, name) is value for name, value in fitted.items())
    assert vars(synth).keys() == fitted.keys() | synth.get_params().keys()
    assert len(budget.charges) == 1


def test_nothing_can_be_drawn_after_a_fit(monkeypatch):
    """A reservation that outlives its fit, with a release left, is dead."""
    kept = []

    def buy_and_keep(frame, layout, schema, accountant, *others):
        mu = 1e-3 * accountant.mu_cap
        reservation = accountant.reserve_gaussian(
            "kept", mu=mu, sensitivity=1.0, count=2
        )
        noisy_counts(np.zeros(3, dtype=np.int64), 1, reservation)
        kept.append((accountant, reservation))
        return discover(frame, layout, schema, accountant, *others)

    monkeypatch.setattr("skdpsynth.base.discover", buy_and_keep)
    IndependentSynthesizer().fit(table()[["u"]])
    [(accountant, reservation)] = kept
    with pytest.raises(ReservationError, match="over"):
        noisy_counts(np.zeros(3, dtype=np.int64), 1, reservation)
    with pytest.raises(ReservationError, match="over"):
        accountant.reserve_gaussian("late", mu=1e-9, sensitivity=1.0)


@pytest.mark.parametrize("synthesizer", BOTH)
def test_plan_says_what_a_fit_will_do(synthesizer):
    """With public counts nothing random enters a plan: it is that of the fit."""
    schema = TableSchema(
        {"u": Continuous(-9, 9), "y": Boolean(), "v": Categorical(["p", "q"])},
        target="y",
        class_counts={False: 1500, True: 40},
    )
    synth = synthesizer(schema=schema)
    plan = synth.plan(1540, class_counts={False: 1500, True: 40})
    assert plan["class"].tolist() == [False, True]
    assert plan["rows"].tolist() == [1500, 40]
    rng = np.random.default_rng(0)
    real = pd.DataFrame(
        {
            "u": rng.normal(size=1540),
            "y": np.arange(1540) < 40,
            "v": rng.choice(["p", "q"], 1540),
        }
    )
    report = synth.fit(real).privacy_report()
    noise = [e.noise_std / 2**20 for e in report.entries if e.name == "marginals"]
    # In rows; up to bins of the column that fall together.
    assert noise == pytest.approx(plan["noise_std"].tolist(), rel=5e-3)


def test_plan_checks_its_guesses():
    synth = IndependentSynthesizer(schema=LABELS)
    schema = TableSchema({"u": Continuous(0, 1), **LABELS.columns}, target="y")
    for bad in (0, -3, 1.5, "many"):
        with pytest.raises(ValueError, match="n_rows must be an int >= 1"):
            synth.plan(bad, schema=schema)
    with pytest.raises(ValueError, match=r"a guess of the number of rows. Give n_rows"):
        synth.plan(schema=schema)
    with pytest.raises(ValueError, match=r"n_rows must be an int >= 1\. Got True"):
        synth.plan(True, schema=schema)
    for counts in ({"a": -1, "b": 101}, {"a": 1.5, "b": 2}, [3, 4]):
        with pytest.raises(ValueError, match="class_counts"):
            synth.plan(100, schema=schema, class_counts=counts)
    with pytest.raises(ValueError, match="no column that could be modelled"):
        synth.plan(100)
    with pytest.raises(ValueError, match="needs to know the columns"):
        IndependentSynthesizer().plan(100)


def test_degraded_result_warns_at_the_line_of_the_user():
    real = pd.DataFrame({"u": np.arange(30.0), "y": [0, 1] * 15})
    schema = TableSchema(
        {"u": Continuous(0, 30), "y": Categorical([0, 1])},
        target="y",
        class_counts={0: 15, 1: 15},
    )
    synth = IndependentSynthesizer(epsilon=0.01, schema=schema)
    notes = synth.plan(30)["note"]
    assert notes.str.contains("too few rows").all()
    with pytest.warns(DegradedResultWarning, match="2 of 2 classes") as caught:
        synth.fit(real)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        synth.set_params(epsilon=100.0).fit(real)
    assert synth.plan(30)["note"].tolist() == ["", ""]


@pytest.mark.parametrize("synthesizer", BOTH)
def test_small_fit_is_fast(synthesizer):
    """A default fit of 30 x 5 takes under 0.25 s, the best of five fresh budgets.

    A new epsilon each time, so that no calibration comes from a cache. It is the time
    of this process, on one thread: others may use the machine too.
    """
    rng = np.random.default_rng(0)
    real = pd.DataFrame(rng.normal(size=(30, 4)), columns=list("abcd"))
    real["y"] = np.arange(30) % 2
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegradedResultWarning)
        for trial in range(6):
            synth = synthesizer(target="y", epsilon=1.0 + 1e-3 * trial)
            start = time.process_time()
            synth.fit(real)
            seconds.append(time.process_time() - start)
    assert min(seconds[1:]) < 0.25


@pytest.mark.parametrize("synthesizer", BOTH)
def test_sampling_costs_little_per_row(synthesizer):
    """A million rows in 5 s means 0.5 s for a hundred thousand, the best of three."""
    synth = synthesizer(target="y").fit(table())
    seconds = []
    for _ in range(3):
        start = time.process_time()
        assert len(synth.sample(100_000)) == 100_000
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.5
