"""What the synthesizers that train have in common: they learn, plan and behave alike.

Their privacy is in `test_privacy.py`, their loops and twins in modules of their own.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from tables import LABELS, correlated_schema, correlated_table, dependence

from skdpsynth import (
    DPCGANSynthesizer,
    DPGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
)
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema

FIVE = [
    GPATESynthesizer,
    PATEGANSynthesizer,
    DPCGANSynthesizer,
    DPGANSynthesizer,
    PATETripleGANSynthesizer,
]
FACTORS, RANDOM = {"init": "marginals"}, {"init": "random"}
VOTES, DPSGD = {"aggregator": "confident_gnmax"}, {"desensitization": "dpsgd"}
FEW_TEACHERS = {"latent_dim": 2, "n_teachers": 100}


# --- They learn ---------------------------------------------------------------------

# Rows, steps by default, and a floor more than five standard deviations below what
# several states of the secrets gave.
LEARNERS = [
    (GPATESynthesizer, RANDOM, 1500, 40, 0.45),
    (GPATESynthesizer, FACTORS | VOTES, 1500, 40, 0.3),
    (PATEGANSynthesizer, RANDOM | {"n_iter": 8}, 750, 8, 0.6),
    (DPCGANSynthesizer, FACTORS | {"batch_size": 200}, 1500, 12, 0.6),
    (DPGANSynthesizer, FACTORS, 3000, 12, 0.6),
    (PATETripleGANSynthesizer, RANDOM | FEW_TEACHERS | {"n_iter": 8}, 2000, 8, 0.4),
]


@pytest.mark.parametrize(
    ("cls", "mode", "n_rows", "n_iter", "floor"),
    LEARNERS,
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_dependence_within_each_class_is_learnt(cls, mode, n_rows, n_iter, floor):
    """By the loop alone, without noise; it is of the other sign in each class."""
    unlabelled = 0.2 if cls is PATETripleGANSynthesizer else 0.0
    table = correlated_table(n_rows, seed=2, unlabelled=unlabelled)
    with insecure_randomness(0):
        synthesizer = cls(
            epsilon=math.inf, schema=correlated_schema(), random_state=0, **mode
        ).fit(table)
    assert synthesizer.n_iter_ == n_iter
    assert min(dependence(synthesizer)) > floor
    rows = synthesizer.sample(4000, sampling_strategy="balanced", random_state=0)
    for label, part in rows.groupby("y"):  # means and scales, known or learnt
        assert part["a"].mean() == pytest.approx(LABELS.index(label), abs=0.5)
        assert part["b"].mean() == pytest.approx(0, abs=0.5)
        # Where nothing is known the first model has 4.0 and 3.5.
        assert 0.4 < part["a"].std() < 1.8
        assert 0.4 < part["b"].std() < 1.8


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("cls", FIVE)
def test_by_default_the_result_is_that_of_the_measurements(cls):
    """No step is run, and nothing is set aside for any: one fit of all synthesizers.

    Equal secrets, but for a thousandth of delta that votes would have to themselves.
    """
    table = correlated_table(3000)
    settings = {"epsilon": 2.0, "schema": correlated_schema(), "random_state": 0}
    with insecure_randomness(0):
        ours = cls(**settings).fit(table)
    with insecure_randomness(0):
        alone = MarginalSynthesizer(**settings).fit(table)
    assert ours.n_iter_ == 0
    if cls not in (PATEGANSynthesizer, PATETripleGANSynthesizer):
        shows = [s.sample(100, random_state=0) for s in (ours, alone)]
        pd.testing.assert_frame_equal(*shows)
    for mine, other in zip(ours.measurements_, alone.measurements_, strict=True):
        assert mine.columns == other.columns
        assert mine.noise_std == pytest.approx(other.noise_std, rel=2e-3)


# --- Plans --------------------------------------------------------------------------


def plan_of(cls, counts, **parameters):
    synthesizer = cls(schema=correlated_schema(), **parameters)
    named = "class_counts" if isinstance(counts, dict) else "n_rows"
    return synthesizer.plan(**{named: counts}).set_index("class")


@pytest.mark.parametrize("cls", FIVE)
def test_the_given_number_of_steps_fixes_the_noise(cls):
    """Four times the releases, each at a quarter of the squared mu: twice the noise."""
    few, many = (plan_of(cls, 100_000, n_iter=n) for n in (10, 40))
    assert list(few["n_iter"]) == [10, 10]
    ratio = many["step_noise_std"] / few["step_noise_std"]
    np.testing.assert_allclose(ratio, 2.0, rtol=0.02)


@pytest.mark.parametrize(
    ("cls", "mode", "noise", "per_release"),
    [
        (GPATESynthesizer, {}, 500.0, 2.0),
        (GPATESynthesizer, VOTES | {"projection_dim": 1}, 500.0, math.sqrt(2.0)),
        (PATEGANSynthesizer, {"n_teachers": 500}, 50.0, 1.0),
        (PATEGANSynthesizer, {"noise": "laplace", "n_teachers": 500}, 80.0, 1.0),
        (DPCGANSynthesizer, {"batch_size": "auto"}, 40.0, 1.0),
        (DPCGANSynthesizer, {"batch_size": 2000}, 20.0, 1.0),
        (PATETripleGANSynthesizer, {}, 50.0, 1.0),
        (PATETripleGANSynthesizer, DPSGD, 40.0, 1.0),
    ],
    ids=str,
)
def test_the_given_noise_fixes_the_number_of_steps(cls, mode, noise, per_release):
    """As many as the budget allows; with one more there would be too much noise."""
    mode = {"batch_size": 4} | mode
    plan = plan_of(cls, 10_000, noise_multiplier=noise, **mode)
    n_iter, wanted = plan["n_iter"], noise * per_release
    assert n_iter.min() > 1
    assert (plan["step_noise_std"] <= wanted * (1 + 1e-9)).all()
    assert (plan["step_noise_std"] * np.sqrt(1 + 1 / n_iter) > 0.995 * wanted).all()


@pytest.mark.parametrize("cls", FIVE)
def test_where_a_class_has_little_signal_it_only_measures(cls):
    """The rare one has all for its marginals."""
    counts = {"u": 30_000, "v": 30}
    plan = plan_of(cls, counts, **FACTORS)
    alone = plan_of(IndependentSynthesizer, counts)
    assert plan["n_iter"]["v"] == 0 < plan["n_iter"]["u"]
    assert plan["noise_std"]["v"] == pytest.approx(alone["noise_std"]["v"], rel=2e-3)
    assert plan["noise_std"]["u"] > alone["noise_std"]["u"]


@pytest.mark.parametrize("cls", FIVE)
def test_one_column_has_no_dependence_to_learn(cls):
    """Steps that are asked for are not run, and the report says why."""
    table = correlated_table(500)[["a", "y"]]
    synthesizer = cls(target="y", epsilon=50.0, n_iter=5).fit(table)
    assert synthesizer.n_iter_ == 0
    report = synthesizer.privacy_report()
    assert any("one column only" in note for note in report.notes)
    assert not any("gradients" in e.name or "vote" in e.name for e in report.entries)


# --- Behaviour ----------------------------------------------------------------------

TEACHERS, SHORT = {"n_teachers": 20, "batch_size": 8}, {"n_generator_steps": 2}
QUICK = {
    GPATESynthesizer: TEACHERS,
    PATEGANSynthesizer: TEACHERS | SHORT,
    DPCGANSynthesizer: SHORT,
    DPGANSynthesizer: SHORT,
    PATETripleGANSynthesizer: TEACHERS | SHORT,
}


def quick(cls, **parameters):
    settings = {"epsilon": 8.0, "n_iter": 3, "random_state": 0}
    return cls(**(settings | QUICK[cls] | parameters))


@pytest.mark.usefixtures("hardly_any_fit")
@pytest.mark.parametrize("cls", FIVE)
def test_a_class_of_which_no_row_came_still_runs(cls):
    """And teachers have two planned rows at least, however many are asked for.

    On a device that is given as an object.
    """
    table = correlated_table(300)
    counts = {"u": 0, "v": 0, "w": 0} | table["y"].value_counts().to_dict()
    schema = TableSchema(correlated_schema(3).columns, target="y", class_counts=counts)
    more = {"n_teachers": 500} if "n_teachers" in QUICK[cls] else {}
    synthesizer = quick(cls, schema=schema, device=torch.device("cpu"), **more)
    drawn = synthesizer.fit(table).sample(300, sampling_strategy="balanced")
    assert set(drawn["y"]) == {*"uvw"}
    if more:
        planned = table["y"].value_counts()[["u", "v"]]  # two digits of them
        np.testing.assert_allclose(synthesizer.n_teachers_[:2], planned / 2, rtol=0.05)
        assert synthesizer.n_teachers_[2] == 1


@pytest.mark.usefixtures("hardly_any_fit")
@pytest.mark.parametrize("cls", FIVE)
def test_the_progress_bar_counts_planned_steps(cls, capsys):
    """If it is asked for."""
    synthesizer = quick(cls, schema=correlated_schema()).fit(correlated_table(400))
    assert capsys.readouterr().err == ""
    synthesizer.set_params(verbose=1).fit(correlated_table(400))
    total = 3 if cls is PATETripleGANSynthesizer else 6  # of all classes at once
    words = capsys.readouterr().err
    assert f"{total}/{total}" in words
    assert cls.__name__.removesuffix("Synthesizer") in words.replace("-", "")


# --- What is measured, and what is said of it -----------------------------------------

NUMBERS = {f"x{j}": Continuous(0, 1) for j in range(5)}
LABELLED = TableSchema(NUMBERS | {"y": Categorical(["u", "v"])}, target="y")


@pytest.mark.usefixtures("hardly_any_fit")
@pytest.mark.parametrize("kind", FIVE)
def test_training_that_is_asked_for_leaves_something_to_be_measured(kind):
    """565 rows can afford tables just so, but not beside training: then moments."""
    counts = {"u": 565, "v": 565}
    schema = TableSchema(LABELLED.columns, target="y", class_counts=counts)
    assert (kind(schema=schema).plan()["tables"] == 10).all()
    table = pd.DataFrame(np.random.default_rng(0).random((1130, 5)), columns=[*NUMBERS])
    table["y"] = ["u", "v"] * 565
    fitted = kind(schema=schema, n_iter=2).fit(table)
    assert fitted.n_iter_ == 2
    orders = {measured.order for measured in fitted.measurements_}
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


@pytest.mark.usefixtures("hardly_any_fit")
@pytest.mark.parametrize("kind", FIVE)
def test_that_no_steps_run_is_said_by_the_report_alone(kind):
    """And nothing of it where steps run."""
    words, schema = "No adversarial steps were run", correlated_schema()
    for synthesizer in (kind(4.0, schema=schema), quick(kind, schema=schema)):
        fitted = synthesizer.fit(correlated_table(400))
        said = [words in note for note in fitted.privacy_report().notes]
        assert any(said) == (fitted.n_iter_ == 0)
