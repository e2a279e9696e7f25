"""GPATESynthesizer learns, plans and behaves as its documentation says."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from skdpsynth import GPATESynthesizer, IndependentSynthesizer
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.nn._factors import FactorTrainer
from skdpsynth.nn._mixture_trainer import MixtureTrainer
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.synthesizers import _gpate

LABELS = list("uvwx")
SIGNS = {"u": 1, "v": -1, "w": 1, "x": -1}


def make_schema(n_classes=2):
    """Bounds and labels; the counts are left to be bought."""
    return TableSchema(
        {
            "a": Continuous(-6, 8, scale="linear", decimals="any"),
            "b": Continuous(-6, 6, scale="linear", decimals="any"),
            "y": Categorical(LABELS[:n_classes]),
        },
        target="y",
    )


def make_table(n_rows, n_classes=2, seed=0):
    """Standard deviation 1, mean of a = class, correlation +0.9 or -0.9 by class."""
    rng = np.random.default_rng(seed)
    member = rng.integers(n_classes, size=n_rows)
    sign = np.where(member % 2 == 0, 0.9, -0.9)
    a, rest = rng.standard_normal((2, n_rows))
    b = sign * a + math.sqrt(1 - 0.81) * rest
    return pd.DataFrame({"a": a + member, "b": b, "y": np.array(LABELS)[member]})


def dependence(synthesizer, n_rows=4000):
    """Correlation in each class, times the sign that it has in the table."""
    rows = synthesizer.sample(n_rows, sampling_strategy="balanced", random_state=0)
    return [
        SIGNS[label] * float(np.corrcoef(part["a"], part["b"])[0, 1])
        for label, part in rows.groupby("y")
    ]


# --- It learns -------------------------------------------------------------------

# Mean and standard deviation of the dependence learnt, over 16 classes of 4 fits:
# 0.66, 0.03; random start 0.69, 0.03; hidden layer 0.83, 0.03; votes 0.56, 0.04.
# The floors are more than five standard deviations below.
FACTORS = {"init": "marginals"}
HIDDEN = FACTORS | {"hidden_dims": (16,)}
LEARNERS = [
    (FACTORS, 1, 0.6),
    ({"init": "random"}, 40, 0.45),
    (HIDDEN, 40, 0.6),
    (FACTORS | {"aggregator": "confident_gnmax"}, 40, 0.3),
]
INITS = ["measured", "marginals", "random"]


@pytest.mark.parametrize(("mode", "n_iter", "floor"), LEARNERS, ids=str)
def test_dependence_within_each_of_four_classes_is_learnt(mode, n_iter, floor):
    table = make_table(3000, n_classes=4, seed=2)
    with insecure_randomness(0):
        synthesizer = GPATESynthesizer(
            epsilon=math.inf, schema=make_schema(4), random_state=0, **mode
        ).fit(table)
    assert synthesizer.n_iter_ == n_iter
    assert min(dependence(synthesizer)) > floor


@pytest.mark.statistical
@pytest.mark.parametrize("init", ["measured", "marginals"])
def test_it_beats_independent_columns_at_epsilon_1(init):
    """Secure noise. Eight fits of factors had 0.55 +- 0.05 in a class, 0.46 at worst.

    0.25 is six of these standard deviations below. Independent columns have 0 +- 0.023
    in 2,000 rows; 0.15 is six away. For normal tails that is 4e-9 in all.
    """
    table, schema = make_table(20_000, seed=1), make_schema()
    settings = {"schema": schema, "random_state": 0}
    ours = GPATESynthesizer(init=init, n_teachers=400, **settings).fit(table)
    floor = IndependentSynthesizer(**settings).fit(table)
    assert ours.epsilon_ <= 1
    assert min(dependence(ours)) > 0.25
    assert np.abs(dependence(floor)).max() < 0.15


@pytest.mark.parametrize("aggregator", ["gaussian_sum", "confident_gnmax"])
def test_the_paper_start_learns_means_and_scales(aggregator):
    table = make_table(3000, seed=3)
    with insecure_randomness(1):
        synthesizer = GPATESynthesizer(
            epsilon=math.inf,
            schema=make_schema(),
            init="random",
            aggregator=aggregator,
            random_state=0,
        ).fit(table)
    rows = synthesizer.sample(4000, sampling_strategy="balanced", random_state=0)
    for label, part in rows.groupby("y"):
        assert part["a"].mean() == pytest.approx(LABELS.index(label), abs=0.4)
        assert part["b"].mean() == pytest.approx(0, abs=0.4)
        # The start has 4.0 and 3.5.
        assert 0.5 < part["a"].std() < 1.6
        assert 0.5 < part["b"].std() < 1.6


@pytest.mark.parametrize("init", ["measured", "marginals"])
def test_training_leaves_the_bought_marginals_alone(init):
    """Training brings dependence; the marginal of a column stays what was bought."""
    table = make_table(3000, seed=4)
    settings = {"epsilon": math.inf, "schema": make_schema(), "random_state": 0}
    trained = GPATESynthesizer(init=init, **settings).fit(table)
    untrained = IndependentSynthesizer(**settings).fit(table)
    levels = np.linspace(0.05, 0.95, 7)
    for name in ("a", "b"):
        ours, theirs = (
            s.sample(8000, random_state=1)[name].quantile(levels)
            for s in (trained, untrained)
        )
        np.testing.assert_allclose(ours, theirs, atol=0.2)


# --- Plans -----------------------------------------------------------------------


def plan_of(n_rows, **parameters):
    counts = parameters.pop("class_counts", None)
    synthesizer = GPATESynthesizer(schema=make_schema(), **parameters)
    return synthesizer.plan(n_rows, class_counts=counts).set_index("class")


@pytest.mark.parametrize(
    ("share", "mode"), [(0.05, {"init": "measured", "n_iter": 10}), (0.3, HIDDEN)]
)
def test_a_plan_spends_what_the_start_leaves(share, mode):
    """Squared mu: 4 % for the counts, a share of the rest for n_iter sums at 2C."""
    plan = plan_of(100_000, **mode)
    mu_squared = 4 * plan["n_iter"] / plan["step_noise_std"] ** 2
    expected = share * 0.96 * PrivacyAccountant(1.0, 1e-5).mu_cap ** 2
    np.testing.assert_allclose(mu_squared, expected, rtol=1e-9)


def test_teachers_and_steps_follow_the_counts():
    plan = plan_of(None, class_counts={"u": 300_000, "v": 20_000}, **HIDDEN)
    assert list(plan["n_teachers"]) == [4096, 2500]
    assert plan["n_iter"]["u"] == plan["n_iter"]["v"] == 40
    less = plan_of(None, class_counts={"u": 300_000, "v": 4000}, **HIDDEN)
    assert 4 <= less["n_iter"]["v"] < 40 == less["n_iter"]["u"]


def test_a_class_with_little_signal_gives_its_budget_to_the_marginals():
    plan = plan_of(None, class_counts={"u": 300_000, "v": 100}, **FACTORS)
    assert plan["n_iter"]["v"] == plan["n_teachers"]["v"] == 0
    alone = IndependentSynthesizer(schema=make_schema()).plan(
        class_counts={"u": 300_000, "v": 100}
    )
    assert plan["noise_std"]["v"] == alone["noise_std"][1] < plan["noise_std"]["u"]


def test_signal_of_a_planned_step_is_above_its_noise():
    """Norm of the teachers' mean at the nominal coherence, per parameter."""
    for n_rows in (20_000, 100_000, 10**7):
        plan = plan_of(n_rows, **HIDDEN)
        signal = 0.25 * plan["n_teachers"] / math.sqrt(2 * 4)
        assert (plan["n_iter"] >= 4).all()
        assert (signal >= plan["step_noise_std"] * (1 - 1e-9)).all()


def test_the_given_number_of_steps_fixes_the_noise():
    few, many = (plan_of(10_000, n_iter=n) for n in (10, 40))
    assert list(few["n_iter"]) == [10, 10]
    ratio = many["step_noise_std"] / few["step_noise_std"]
    np.testing.assert_allclose(ratio, 2.0)


@pytest.mark.parametrize("aggregator", ["gaussian_sum", "confident_gnmax"])
def test_the_given_noise_fixes_the_number_of_steps(aggregator):
    """As many steps as the budget pays for at no less noise than 0.98 of it."""
    multiplier, settings = 500.0, {"batch_size": 4, "projection_dim": 1}
    plan = plan_of(
        10_000, noise_multiplier=multiplier, aggregator=aggregator, **settings
    )
    sensitivity = 2 if aggregator == "gaussian_sum" else math.sqrt(2)
    wanted = multiplier * sensitivity
    assert (plan["step_noise_std"] <= wanted).all()
    one_more = plan["step_noise_std"] * np.sqrt(1 + 1 / plan["n_iter"])
    assert (one_more > wanted).all()


def test_steps_and_noise_together_are_an_error():
    synthesizer = GPATESynthesizer(n_iter=5, noise_multiplier=2.0)
    with pytest.raises(ValueError, match="Leave out n_iter or noise_multiplier"):
        synthesizer.fit(make_table(50))


def test_one_column_has_no_dependence_to_buy():
    table = make_table(500)[["a", "y"]]
    synthesizer = GPATESynthesizer(target="y", epsilon=50.0, n_iter=5).fit(table)
    assert synthesizer.n_iter_ == 0
    names = [entry.name for entry in synthesizer.privacy_report().entries]
    assert not any("sums" in name for name in names)


@pytest.mark.parametrize(
    ("parameters", "note"),
    [
        ({"epsilon": 1e-3}, "mostly noise"),
        ({"noise_multiplier": 1e-3}, "too small a budget for one step"),
    ],
)
def test_a_start_from_nothing_says_that_it_learns_nothing(parameters, note):
    synthesizer = GPATESynthesizer(
        init="random", schema=make_schema(), random_state=0, **parameters
    )
    assert all(note in text for text in synthesizer.plan(200)["note"])
    with pytest.warns(DegradedResultWarning, match=note):
        synthesizer.fit(make_table(200))
    assert len(synthesizer.sample(100).dropna()) == 100


# --- Behaviour -------------------------------------------------------------------

FEW = {
    "epsilon": 8.0,
    "n_iter": 3,
    "n_teachers": 20,
    "batch_size": 8,
    "random_state": 0,
}


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize(
    "mode",
    [
        {},
        FACTORS,
        {"init": "random", "hidden_dims": [3]},
        {"aggregator": "confident_gnmax"},
        {"device": torch.device("cpu")},
    ],
    ids=str,
)
def test_a_saved_synthesizer_is_the_same(mode, tmp_path):
    table = make_table(400)
    synthesizer = GPATESynthesizer(schema=make_schema(), **FEW, **mode).fit(table)
    synthesizer.save(tmp_path / "model.skdp")
    same = GPATESynthesizer.load(tmp_path / "model.skdp")
    pd.testing.assert_frame_equal(
        same.sample(50, random_state=1), synthesizer.sample(50, random_state=1)
    )
    ours, theirs = (s.generator_.to_state()[1] for s in (same, synthesizer))
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])
    assert same.n_iter_ == synthesizer.n_iter_
    np.testing.assert_array_equal(same.n_teachers_, synthesizer.n_teachers_)
    assert same.epsilon_ == synthesizer.epsilon_


@pytest.mark.parametrize("init", INITS)
def test_no_fitted_attribute_holds_a_teacher_or_a_row(init):
    table = make_table(400)
    synthesizer = GPATESynthesizer(schema=make_schema(), init=init, **FEW).fit(table)
    trainers = (FactorTrainer, MixtureTrainer)
    private = (_gpate.TeacherEnsemble, *trainers, torch.Tensor, torch.Generator)
    fitted = [v for k, v in vars(synthesizer).items() if k.endswith("_") or k[0] == "_"]
    while fitted:
        value = fitted.pop()
        assert not isinstance(value, private)
        if isinstance(value, np.ndarray):
            assert 400 not in value.shape
        elif isinstance(value, dict):
            fitted.extend(value.values())
        elif isinstance(value, list | tuple):
            fitted.extend(value)
        elif hasattr(value, "__dict__") and "skdpsynth" in type(value).__module__:
            fitted.extend(vars(value).values())


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("aggregator", ["gaussian_sum", "confident_gnmax"])
def test_without_a_target_all_rows_are_one_ensemble(aggregator):
    table = make_table(3000)[["a", "b"]]
    synthesizer = GPATESynthesizer(aggregator=aggregator, **FEW).fit(table)
    assert not hasattr(synthesizer, "classes_")
    np.testing.assert_array_equal(synthesizer.n_teachers_, [20])
    assert list(synthesizer.sample(10).columns) == ["a", "b"]
    assert 0.98 * 8 <= synthesizer.epsilon_ <= 8


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("init", INITS)
def test_mixed_types_train(init):
    table = make_table(600)
    rng = np.random.default_rng(0)
    table["c"] = rng.choice(["p", "q", None], size=600)
    table["d"] = rng.random(600) < 0.3
    table["e"] = rng.poisson(2, size=600)
    synthesizer = GPATESynthesizer(target="y", init=init, **FEW)
    rows = synthesizer.fit(table).sample(80)
    assert list(rows.dtypes) == list(table.dtypes)
    assert set(rows["c"].dropna()) <= {"p", "q"}


def test_a_class_without_teachers_that_have_rows_still_runs():
    """More teachers than rows, and a declared class of which no row came."""
    table = make_table(300, n_classes=2)
    counts = {"u": 0, "v": 0, "w": 0} | table["y"].value_counts().to_dict()
    schema = TableSchema(make_schema(3).columns, target="y", class_counts=counts)
    synthesizer = GPATESynthesizer(schema=schema, **(FEW | {"n_teachers": 500}))
    with pytest.warns(DegradedResultWarning):
        synthesizer.fit(table)
    np.testing.assert_array_equal(synthesizer.n_teachers_, [500] * 3)
    assert set(synthesizer.sample(300, sampling_strategy="balanced")["y"]) == {*"uvw"}


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("verbose", [0, 1])
def test_the_progress_bar_counts_planned_steps(verbose, capsys):
    parameters = FEW | {"verbose": verbose}
    GPATESynthesizer(schema=make_schema(), **parameters).fit(make_table(400))
    shown = capsys.readouterr().err
    assert ("6/6" in shown and "G-PATE" in shown) == bool(verbose)


@pytest.mark.usefixtures("short_fits")
def test_random_state_fixes_all_but_the_secrets():
    """With the secrets frozen too, two fits are equal."""
    results = []
    for _ in range(2):
        with insecure_randomness(3):
            synthesizer = GPATESynthesizer(schema=make_schema(), **FEW)
            results.append(synthesizer.fit(make_table(400)).sample(50))
        assert synthesizer.epsilon_ == math.inf
    pd.testing.assert_frame_equal(*results)


@pytest.mark.usefixtures("short_fits")
def test_global_generators_are_neither_read_nor_set():
    results = []
    for seed in (1, 2):
        torch.random.default_generator.manual_seed(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        with insecure_randomness(3):
            synthesizer = GPATESynthesizer(schema=make_schema(), **FEW)
            results.append(synthesizer.fit(make_table(400)).sample(50))
        assert torch.equal(torch.get_rng_state(), before[0])
        np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    pd.testing.assert_frame_equal(*results)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"device": "nothing"}, "'cpu' always works"),
        ({"hidden_dims": (4, 0)}, r"ints >= 1. Got \(4, 0\) instead"),
        ({"hidden_dims": 4}, "hidden_dims"),
        ({"aggregator": "mean"}, "aggregator"),
        ({"init": "zeros"}, "init"),
        ({"n_teachers": 0}, "n_teachers"),
        ({"n_bins": 1}, "n_bins"),
        ({"threshold": 1.5}, "threshold"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        GPATESynthesizer(**parameters).fit(make_table(50))
