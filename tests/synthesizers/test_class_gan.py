"""What the synthesizers that train have in common: they learn, plan and behave alike.

Their privacy is in `test_privacy.py`, their loops and twins in modules of their own.
"""

import functools
import inspect
import math
import pkgutil
import re
import time
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from _instances import PLAIN, TABLE, TRAINED
from _releases import watched
from mutations import planted
from opacus.grad_sample import GradSampleModuleFastGradientClipping as Clipping
from sklearn.base import clone
from tables import correlated_schema, correlated_table, dependence

from skdpsynth import (
    DPCGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
    PrivacyBudget,
)
from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.measure import Pairs, Spend, measure
from skdpsynth.model import factors_above_noise
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema

FIVE = [type(synthesizer) for synthesizer in TRAINED.values()]
VOTING = GPATESynthesizer, PATEGANSynthesizer, PATETripleGANSynthesizer
ALL = {cls.__name__: cls() for cls in FIVE}
ALL["dpsgd"] = PATETripleGANSynthesizer(desensitization="dpsgd")
SUMS, LABELS = "sums of teachers' gradients", "labels by vote"
STEPS, CLASSIFIER = "discriminator's gradients", "classifier's gradients"
# Releases of each round of a class.
RELEASED = {"GPATESynthesizer": {SUMS: 1}, "PATEGANSynthesizer": {LABELS: 512}}
RELEASED |= {n: {STEPS: 1} for n in ("DPCGANSynthesizer", "DPGANSynthesizer", "dpsgd")}
RELEASED["PATETripleGANSynthesizer"] = {LABELS: 512}


@pytest.mark.parametrize(("init", "expected"), [("measured", 1), ("random", 2)])
def test_small_products_take_one_thread_and_networks_all(init, expected, monkeypatch):
    seen, train = [], GPATESynthesizer._train

    def watching(self, *given):
        for _ in train(self, *given):
            seen.append(torch.get_num_threads())
            yield

    monkeypatch.setattr(GPATESynthesizer, "_train", watching)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    settings = {"init": init, "n_iter": 2, "hidden_dims": ((8,), (4,))}
    GPATESynthesizer(9.0, target="y", **settings).fit(TABLE)
    after = torch.get_num_threads()
    torch.set_num_threads(before)
    assert (after, {*seen}) == (2, {expected})


@pytest.mark.usefixtures("hardly_any_fit")
@pytest.mark.parametrize("name", ALL)
def test_each_class_trains_by_default(name):
    """Ten rounds of two classes of about 800 rows; on a device that is an object."""
    synthesizer = clone(ALL[name]).set_params(epsilon=20.0, schema=correlated_schema())
    synthesizer.set_params(device=torch.device("cpu"))
    # Opacus is called wherever a private row has a gradient.
    norms = Clipping.get_norm_sample
    how = {"autospec": True, "side_effect": norms}
    with mock.patch.object(Clipping, "get_norm_sample", **how) as normed:
        fitted, seen = watched(synthesizer, correlated_table(1600, unlabelled=0.1))
    assert normed.called == (name not in ("GPATESynthesizer", "PATEGANSynthesizer"))
    assert fitted.n_iter_ == 10
    released = [own for own in seen if own.family in (SUMS, LABELS, STEPS)]
    for label in "uv":
        own = [s for s in released if s.payer == label]
        expected = {of: 10 * n for of, n in RELEASED[name].items()}
        assert {s.family for s in own} == expected.keys()
        assert sum(s.release.n_releases for s in own) == max(expected.values())
    text = "Adversarial steps were run: 10 rounds in 2 of 2 classes"
    if type(synthesizer) in VOTING and name != "dpsgd":
        # Four rows each, of about 720.
        np.testing.assert_allclose(fitted.n_teachers_, 180, rtol=0.2)
        text += " (teachers: {}, {})".format(*fitted.n_teachers_)
    assert f"{text}." in fitted.privacy_report().notes
    plan = synthesizer.plan(class_counts={"u": 800, "v": 800})
    assert plan["training"].tolist() == ["10 adversarial steps"] * 2


@contextmanager
def of_nothing():
    """Give mechanisms nothing of what rows say: noise alone."""
    names = "sum", "votes", "gradient"
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(planted(f"{name}_replaced_by_noise"))
        yield


@pytest.fixture
def of_factors(monkeypatch):
    """Begin with factors: a share of those that were measured."""

    def begin(share):
        where = "skdpsynth.model._factors.factors_above_noise"
        monkeypatch.setattr(where, lambda *own: share * factors_above_noise(*own))
        where = "skdpsynth.measure._allocation"
        kinds = pkgutil.resolve_name(f"{where}:MOMENT_KINDS")
        monkeypatch.setattr(f"{where}.measured_kinds", lambda *_, **more: kinds)

    return begin


@pytest.mark.parametrize("epsilon", [math.inf, 20.0])
@pytest.mark.parametrize("name", ALL)
def test_dependence_is_learnt_from_what_rows_say_alone(name, epsilon, of_factors):
    """By ten rounds, of the other sign in each class; from noise alone none is.

    Secrets are frozen: votes and gradients in place of which there is noise are seen.
    """
    of_factors(0.0)
    synthesizer = clone(ALL[name]).set_params(
        epsilon=epsilon, schema=correlated_schema(), random_state=0
    )
    table, found = correlated_table(1600, seed=2), []
    for told in (nullcontext, of_nothing):
        with told(), insecure_randomness(0):
            found.append(dependence(clone(synthesizer).fit(table)))
    assert np.subtract(*found).min() > 0.07
    # Of noise alone at most .19 in ten fits, beside .6 to .8. Without noise, votes of
    # coins are taken for what teachers say.
    votes = type(synthesizer) in VOTING and epsilon == math.inf
    assert np.abs(found[1]).max() < (0.4 if votes else 0.25)


@pytest.mark.parametrize(
    "name", ["GPATESynthesizer", "PATEGANSynthesizer", "DPCGANSynthesizer"]
)
def test_a_table_that_is_lost_is_won_back(name, monkeypatch):
    """Most of its distance of .57, by default without noise; of nothing, none of it."""

    def spoilt(rows, metadata, plans, *rest):
        plans = [replace(plan, triples=Spend(0.0)) for plan in plans]
        return measure(rows, metadata, plans, *rest)

    kept = lambda bins, pairs: Pairs(bins, pairs[1:])  # noqa: E731
    monkeypatch.setattr("skdpsynth.measure._measure.Pairs", kept)
    monkeypatch.setattr("skdpsynth.synthesizers._base.measure", spoilt)
    rng, found = np.random.default_rng(0), []
    table = pd.DataFrame(rng.integers(3, size=(1000, 3)), columns=[*"abc"])
    table["b"] = table["a"].where(rng.random(1000) < 0.8, table["b"])
    schema = TableSchema(dict.fromkeys("abc", Categorical([0, 1, 2])), n_rows=1000)
    settings = {"epsilon": math.inf, "schema": schema, "random_state": 0}
    for n_iter, told in ((0, nullcontext), ("auto", nullcontext), ("auto", of_nothing)):
        synthesizer = clone(ALL[name]).set_params(**settings, n_iter=n_iter)
        with told(), insecure_randomness(0):
            drawn = synthesizer.fit(table).sample(20_000, random_state=0)
        both = [pd.crosstab(t["a"], t["b"], normalize=True) for t in (table, drawn)]
        found.append(np.abs(np.subtract(*both)).to_numpy().sum() / 2)
    first, after, of_noise = found
    assert after < 0.25 * first < 0.25 * of_noise / 0.9


WIDE = TableSchema(
    {f"x{j}": Continuous(-5, 5) for j in range(40)} | {"y": Categorical(["u", "v"])},
    target="y",
)


@pytest.mark.parametrize(
    "name", ["GPATESynthesizer", "PATEGANSynthesizer", "DPCGANSynthesizer"]
)
def test_factors_of_wide_tables_move_as_rows_say(name, of_factors):
    """They start at half the loadings, with frozen noise; noise moves them less."""
    of_factors(0.5)
    rng = np.random.default_rng(0)
    scores = 0.8 * rng.normal(size=(1600, 1)) + 0.6 * rng.normal(size=(1600, 40))
    table = pd.DataFrame(scores.clip(-5, 5), columns=list(WIDE.columns)[:40])
    table["y"] = rng.choice(["u", "v"], 1600)
    wide = clone(ALL[name]).set_params(epsilon=20.0, schema=WIDE, random_state=0)
    found = []
    for n_iter, told in ((0, nullcontext), ("auto", nullcontext), ("auto", of_nothing)):
        with told(), insecure_randomness(0):
            fitted = clone(wide).set_params(n_iter=n_iter).fit(table)
        loadings = np.array(fitted.generator_.loadings)
        found.append(np.square(loadings).sum(axis=(1, 2)))
    first, moved, of_noise = found
    assert (moved / first).min() > 2.0  # it is 4 if all comes back
    assert (moved / of_noise).min() > 1.2


@pytest.mark.parametrize("cls", [GPATESynthesizer, DPCGANSynthesizer])
def test_rounds_beside_second_moments_cost_marginals_nothing(cls):
    noises = []
    for make in (cls, MarginalSynthesizer):
        plan = make(schema=WIDE).plan(class_counts={"u": 6000, "v": 6000})
        assert plan["dependence"].tolist() == ["weak"] * 2
        noises.append(plan["noise_std"])
    np.testing.assert_array_equal(*noises)
    assert cls(schema=WIDE).plan(12_000)["n_iter"].tolist() == [10, 10]


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("cls", FIVE)
def test_without_rounds_the_result_is_that_of_the_measurements(cls):
    """Nothing is set aside for any: one fit of all synthesizers.

    Equal secrets, but for a thousandth of delta that votes would have to themselves.
    """
    table = correlated_table(3000)
    settings = {"epsilon": 2.0, "schema": correlated_schema(), "random_state": 0}
    with insecure_randomness(0):
        ours = cls(**settings, n_iter=0).fit(table)
    with insecure_randomness(0):
        alone = MarginalSynthesizer(
            **settings, use_unlabelled=cls is PATETripleGANSynthesizer
        ).fit(table)
    assert ours.n_iter_ == 0
    assert "No adversarial steps were run: n_iter is 0." in ours.privacy_report().notes
    if cls not in (PATEGANSynthesizer, PATETripleGANSynthesizer):
        shows = [s.sample(100, random_state=0) for s in (ours, alone)]
        pd.testing.assert_frame_equal(*shows)
    for mine, other in zip(
        ours.measurements_.tables(), alone.measurements_.tables(), strict=True
    ):
        assert mine.columns == other.columns
        assert mine.noise_std == pytest.approx(other.noise_std, rel=2e-3)


def plan_of(cls, counts, **parameters):
    synthesizer = cls(schema=correlated_schema(), **parameters)
    named = "class_counts" if isinstance(counts, dict) else "n_rows"
    return synthesizer.plan(**{named: counts}).set_index("class")


@pytest.mark.parametrize("cls", FIVE)
@pytest.mark.parametrize("init", ["measured", "random"])
def test_the_given_number_of_rounds_fixes_the_noise(cls, init):
    """Four times the releases, each at a quarter of the squared mu: twice the noise."""
    few, many = (plan_of(cls, 100_000, n_iter=n, init=init) for n in (10, 40))
    assert list(few["n_iter"]) == [10, 10]
    ratio = many["step_noise_std"] / few["step_noise_std"]
    np.testing.assert_allclose(ratio, 2.0, rtol=0.02)


@pytest.mark.parametrize("cls", FIVE)
def test_a_class_trains_from_so_many_rows_on(cls):
    """1,000 of 14 columns at epsilon 1, says the documentation; others only measure."""
    numbers = {f"x{j}": Continuous(0, 1) for j in range(14)}
    schema = TableSchema(numbers | {"y": Categorical(["u", "v"])}, target="y")
    counts = {"u": 1100, "v": 700}
    assert cls(schema=schema).plan(class_counts=counts)["n_iter"].tolist() == [10, 0]
    assert cls(4.0, schema=schema).plan(class_counts=counts)["n_iter"].min() == 10


# The most columns whose triples are measured, and a label.
OF_20 = {f"x{j}": Continuous(-10, 10) for j in range(19)} | {"y": Categorical([0, 1])}


@pytest.mark.parametrize("cls", FIVE)
def test_more_rows_are_planned_no_worse(cls):
    """A hundred times the rows: as many rounds, and less noise for a row.

    In a few milliseconds, and for PATE-GAN in 3 seconds once: it chooses its noise.
    """
    start, schema = time.process_time(), TableSchema(OF_20, target="y")
    options = {"schema": schema, "delta": 1e-8}  # below 1 / rows
    few, many = (cls(**options).plan(n).set_index("class") for n in (10**5, 10**7))
    assert time.process_time() - start < 10
    for plan in (few, many):
        assert (plan["note"] == "").all()
        assert (plan["n_iter"] == 10).all()
    words = ["note", "dependence", "training"]
    assert np.isfinite(many.drop(columns=words).to_numpy(dtype=float)).all()
    assert many["rows"].sum() == 10**7
    assert (many["signal_to_noise"] > 50 * few["signal_to_noise"]).all()
    # Training takes a tenth of the squared mu from the marginals.
    alone = MarginalSynthesizer(**options).plan(10**7).set_index("class")
    ratio = many["noise_std"] / alone["noise_std"]
    assert ((ratio >= 1) & (ratio < 1.06)).all()


@pytest.mark.parametrize("cls", VOTING)
def test_a_teacher_has_four_rows_and_at_least_two(cls):
    """A teacher of a single row would have nothing to aggregate."""
    plan = plan_of(cls, {"u": 300_000, "v": 4000})
    assert list(plan["n_teachers"]) == [2048, 1000]
    for asked in (7, 50, 10**6):
        plan = plan_of(cls, {"u": 100, "v": 31}, n_teachers=asked, init="random")
        assert list(plan["n_teachers"]) == [min(asked, 50), min(asked, 15)]


@pytest.mark.parametrize("n_iter", ["auto", 5])
@pytest.mark.parametrize("cls", FIVE)
def test_a_class_without_tables_of_its_own_only_measures(cls, n_iter):
    """It has all for its marginals, even where rounds are asked for."""
    counts = {"u": 30_000, "v": 30}
    plan = plan_of(cls, counts, n_iter=n_iter)
    alone = plan_of(IndependentSynthesizer, counts)
    assert plan["n_iter"]["v"] == 0 < plan["n_iter"]["u"]
    assert plan["noise_std"]["v"] == pytest.approx(alone["noise_std"]["v"], rel=2e-3)
    assert plan["training"]["v"] == "fitted to the measurements; no adversarial steps"


OF_THREE_ROWS = TableSchema(
    correlated_schema().columns, target="y", privacy_unit="who", max_rows_per_unit=3
)


@pytest.mark.parametrize("asking", [{"n_iter": 5}, {"init": "random"}])
@pytest.mark.parametrize("cls", FIVE)
def test_rounds_that_are_asked_for_protect_units_of_one_row_only(cls, asking):
    budget = PrivacyBudget(10.0, 1e-3)
    synthesizer = cls(budget=budget, schema=OF_THREE_ROWS, **asking)
    table = correlated_table(150).assign(who=np.arange(150) // 2)
    with pytest.raises(InvalidSchemaError, match=r"max_rows_per_unit=1, .* Got 3"):
        synthesizer.fit(table)
    with pytest.raises(InvalidSchemaError, match="leave out what asks"):
        synthesizer.plan(150)
    assert budget.spent == (0.0, 0.0)


SOME = correlated_table(2000).assign(who=np.arange(2000) // 2)
FEW = SOME[(SOME["y"] == "u") | (np.arange(2000) % 50 == 0)].drop(columns="who")
DECLARED = {"epsilon": 4.0, "schema": correlated_schema()}
OF_UNITS = {"epsilon": 20.0, "schema": OF_THREE_ROWS}
ASKED = {"epsilon": 50.0, "target": "y", "n_iter": 5}
NO_STEPS = "No adversarial steps were run: "
# What is fitted to which table, and what the report says of it.
UNTRAINED = [
    (
        *(DECLARED, FEW, "Adversarial steps were run: 10 rounds in 1 of 2 classes"),
        "; too few rows for the budget: class v.",
    ),
    (DECLARED, FEW[:15], NO_STEPS, "there are too few rows for the budget, or"),
    (OF_UNITS, SOME, NO_STEPS, "steps protect units of one row only."),
    (ASKED, SOME[["a", "y"]], NO_STEPS, "there are too few rows for the budget, or"),
]


@pytest.mark.usefixtures("hardly_any_fit")
@pytest.mark.parametrize(("settings", "table", "what", "why"), UNTRAINED)
@pytest.mark.parametrize("cls", FIVE)
def test_a_report_says_why_no_rounds_were_run(cls, settings, table, what, why):
    """Of few rows, of units of several rows, and of a column without dependence."""
    synthesizer = cls(**settings).fit(table)
    report = synthesizer.privacy_report()
    said = [re.sub(r" \(teachers: \d+\)", "", note) for note in report.notes]
    assert any(note.startswith(what + why) for note in said)
    if what == NO_STEPS:
        assert synthesizer.n_iter_ == 0
        names = [entry.name for entry in report.entries]
        assert not any("gradients" in name or "vote" in name for name in names)


@pytest.mark.usefixtures("hardly_any_fit")
@pytest.mark.parametrize("name", ["GPATESynthesizer", "DPCGANSynthesizer", "dpsgd"])
def test_rounds_take_a_twentieth_of_the_squared_mu_of_a_class(name):
    """The classifier and the discriminator of PATE-TripleGAN half of it each."""
    synthesizer = clone(ALL[name]).set_params(epsilon=4.0, schema=correlated_schema())
    report = synthesizer.fit(correlated_table(2000)).privacy_report()
    assert all(entry.used == entry.releases > 0 for entry in report.entries)
    # All that the class may spend, after counts and what is looked for in all rows.
    of_all = [e for e in report.entries if e.scope == "all rows"]
    before = sum(e.mu_total**2 for e in of_all if "columns" not in e.name)
    accountant = PrivacyAccountant(4.0, 1e-5, discovery_delta=1e-6)
    whole = accountant.mu_cap**2 - before
    own = {e.name: e.mu_total**2 for e in report.entries if e.scope == "class u"}
    parts = {name: own[name] for name in (SUMS, STEPS, CLASSIFIER) if name in own}
    expected = [0.05 * whole] if name != "dpsgd" else [0.025 * whole] * 2
    assert [*parts.values()] == pytest.approx(expected, rel=1e-3)


# Another value of each parameter, as it is needed to have an effect on a small table.
OTHER = {
    "epsilon": 5.0,
    "delta": 1e-6,
    "target": None,
    "schema": None,
    "init": "random",
    "noise": "laplace",
    "desensitization": "dpsgd",
    "unlabelled_weight": 0.9,
    "n_teachers": 7,
    "n_iter": 1,
    "batch_size": 40,
    "max_grad_norm": 0.01,
    "projection_dim": 1,
    "n_bins": 3,
    "n_teacher_steps": 1,
    "n_student_steps": 1,
    "n_discriminator_steps": 3,
    "weight_clip": 0.001,
    "learning_rate": 0.1,
    "hidden_dims": ((4,), (2,)),
    "random_state": 1,
}
OF_RANDOM = {"hidden_dims", "projection_dim", "n_bins", "n_student_steps"}
OF_RANDOM |= {"weight_clip", "n_teacher_steps"}
# A device changes where, and a budget what is charged: `test_budget.py`.
PARAMETERS = [
    (name, parameter)
    for name, plain in (TRAINED | {"GANSynthesizer": PLAIN["GANSynthesizer"]}).items()
    for parameter in inspect.signature(type(plain)).parameters
    if parameter not in ("device", "budget")
]


@functools.cache
def result_of(name, parameter=None, *, init):
    settings = {"n_iter": 2, "epsilon": 40.0, "target": "y", "random_state": 0}
    settings |= {"init": init, "hidden_dims": ((3,), (3,))}
    synthesizer = clone(PLAIN[name])
    own = settings.keys() & synthesizer.get_params()  # a GAN has no epsilon
    synthesizer.set_params(**{parameter: settings[parameter] for parameter in own})
    if parameter is not None:
        synthesizer.set_params(**{parameter: OTHER[parameter]})
    if parameter == "schema":
        synthesizer.set_params(schema=correlated_schema(), target=None)
    with insecure_randomness(0):
        fitted = synthesizer.fit(
            TABLE[["a", "b", "y"]].assign(b=TABLE["b"].fillna(0.0))
        )
    arrays = fitted.generator_.to_state()[1]
    drawn = fitted.sample(20).to_json()
    report = repr(fitted.privacy_report().to_dict())
    return {n: a.tobytes() for n, a in arrays.items()}, drawn, report


@pytest.mark.usefixtures("hardly_any_fit")
@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_each_parameter_changes_a_fit(name, parameter):
    """By default, or from nothing; there are 15 of them at most, or 17 of three."""
    assert len(PLAIN[name].get_params()) <= (17 if "Triple" in name else 15)
    init = "random" if parameter in OF_RANDOM else "measured"
    assert result_of(name, init=init) != result_of(name, parameter, init=init)


NUMBERS = {f"x{j}": Continuous(0, 1) for j in range(5)}
LABELLED = TableSchema(NUMBERS | {"y": Categorical(["u", "v"])}, target="y")


@pytest.mark.usefixtures("hardly_any_fit")
@pytest.mark.parametrize("kind", FIVE)
def test_training_that_is_asked_for_leaves_something_to_be_measured(kind):
    """565 rows can afford tables just so, but not beside training: then moments."""
    counts = {"u": 565, "v": 565}
    schema = TableSchema(LABELLED.columns, target="y", class_counts=counts)
    assert (kind(schema=schema, n_iter=0).plan()["tables"] == 10).all()
    table = pd.DataFrame(np.random.default_rng(0).random((1130, 5)), columns=[*NUMBERS])
    table["y"] = ["u", "v"] * 565
    fitted = kind(schema=schema, n_iter=2).fit(table)
    assert fitted.n_iter_ == 2
    orders = {measured.order for measured in fitted.measurements_.tables()}
    assert orders in ({0, 1, 2}, {0, 1, 5}, {1, 2}, {1, 5})


@pytest.mark.parametrize(
    ("epsilon", "counts", "dependence", "tables"),
    [
        (1.0, (90_000, 90_000), ["kept", "kept"], [10, 10]),
        (1.0, (2000, 2000), ["weak", "weak"], [10, 10]),
        (0.3, (90_000, 950), ["kept", "borrowed"], [10, 0]),
        (1.0, (20, 20), ["lost", "lost"], [0, 0]),
    ],
)
@pytest.mark.parametrize("kind", [*FIVE, MarginalSynthesizer])
def test_a_plan_says_what_becomes_of_dependence(
    kind, epsilon, counts, dependence, tables
):
    """By the rows over the noise of a table, some 14 at epsilon 1: 40 and 200 of it."""
    given = dict(zip(["u", "v"], counts, strict=True))
    plan = kind(epsilon, schema=LABELLED).plan(class_counts=given)
    assert plan["dependence"].tolist() == dependence
    assert plan["tables"].tolist() == tables
    lost = plan["note"].str.contains("depend on each other")
    assert lost.tolist() == [own == "lost" for own in dependence]
