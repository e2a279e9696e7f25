"""DPCGANSynthesizer learns, plans and behaves as its documentation says."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from opacus.accountants import PRVAccountant
from scipy.stats import binomtest

from skdpsynth import (
    DPCGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
)
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.nn import _discriminator, _dp_sgd, _discriminator
from skdpsynth.nn._discriminator import Discriminator
from skdpsynth.nn._factors import FactorTrainer
from skdpsynth.nn._mixture_trainer import MixtureTrainer
from skdpsynth.privacy import PrivacyAccountant, _aggregators
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.synthesizers import _adversarial
from skdpsynth.synthesizers._dpcgan_plan import StepSettings, training_share

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


FACTORS = {"init": "marginals"}
INITS = ["measured", "marginals", "random"]


@pytest.mark.parametrize(
    ("mode", "n_iter"),
    [
        (FACTORS, 1),
        (FACTORS | {"batch_size": 200}, 12),
        (FACTORS | {"n_discriminator_steps": 2}, 12),
        ({"init": "random"}, 12),
    ],
    ids=str,
)
def test_dependence_within_each_of_four_classes_is_learnt(mode, n_iter):
    table = make_table(3000, n_classes=4, seed=2)
    with insecure_randomness(0):
        synthesizer = DPCGANSynthesizer(
            epsilon=math.inf, schema=make_schema(4), random_state=0, **mode
        ).fit(table)
    assert synthesizer.n_iter_ == n_iter
    assert min(dependence(synthesizer)) > 0.6


@pytest.mark.statistical
@pytest.mark.parametrize("init", ["measured", "marginals"])
def test_it_beats_independent_columns_at_epsilon_1(init):
    """Secure noise. Independent columns have 0 +- 0.023 in 2,000 rows; six are 0.14."""
    table, schema = make_table(20_000, seed=1), make_schema()
    ours = DPCGANSynthesizer(schema=schema, init=init, random_state=0).fit(table)
    floor = IndependentSynthesizer(schema=schema, random_state=0).fit(table)
    assert ours.epsilon_ <= 1
    assert min(dependence(ours)) > 0.5
    assert np.abs(dependence(floor)).max() < 0.15


def test_the_paper_start_learns_means_and_scales():
    table = make_table(3000, seed=3)
    with insecure_randomness(1):
        synthesizer = DPCGANSynthesizer(
            epsilon=math.inf, schema=make_schema(), init="random", random_state=0
        ).fit(table)
    rows = synthesizer.sample(4000, sampling_strategy="balanced", random_state=0)
    for label, part in rows.groupby("y"):
        assert part["a"].mean() == pytest.approx(LABELS.index(label), abs=0.5)
        assert part["b"].mean() == pytest.approx(0, abs=0.5)
        # The start has 4.0 and 3.5.
        assert 0.4 < part["a"].std() < 1.8
        assert 0.4 < part["b"].std() < 1.8


@pytest.mark.parametrize("init", ["measured", "marginals"])
def test_training_leaves_the_bought_marginals_alone(init):
    table = make_table(3000, seed=4)
    settings = {"epsilon": math.inf, "schema": make_schema(), "random_state": 0}
    trained = DPCGANSynthesizer(init=init, **settings).fit(table)
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
    synthesizer = DPCGANSynthesizer(schema=make_schema(), **parameters)
    return synthesizer.plan(n_rows, class_counts=counts).set_index("class")


def test_a_plan_spends_what_the_marginals_leave():
    """Squared mu: 4 % for the counts; of the rest 2 % where that is clear, or 30 %."""
    plan = plan_of(None, class_counts={"u": 100_000, "v": 1000}, init="marginals")
    mu_squared = plan["n_iter"] / plan["step_noise_std"] ** 2
    rest = 0.96 * PrivacyAccountant(1.0, 1e-5).mu_cap ** 2
    np.testing.assert_allclose(mu_squared, [0.02 * rest, 0.3 * rest], rtol=1e-6)


def test_three_columns_at_once_get_a_quarter_where_cells_stand_out():
    """Of the rest after the counts; 27 cells of 1,000 rows do not, of 10^5 they do."""
    columns = {
        name: Continuous(-6, 6, scale="linear", decimals="any") for name in "abcd"
    }
    columns["y"] = Categorical(["u", "v"])
    synthesizer = DPCGANSynthesizer(schema=TableSchema(columns, target="y"))
    plan = synthesizer.plan(class_counts={"u": 100_000, "v": 1000}).set_index("class")
    mu_squared = plan.loc["u", "n_iter"] / plan.loc["u", "step_noise_std"] ** 2
    rest = 0.96 * PrivacyAccountant(1.0, 1e-5).mu_cap ** 2
    assert mu_squared == pytest.approx(0.25 * rest, rel=1e-6)
    assert list(plan["n_iter"]) == [2, 0]


def test_the_parity_of_three_columns_is_learnt():
    """No pair of columns knows the label. A wrong parity has 0.5 of the rows by chance.

    Of 20,000 rows at epsilon 10 a cell of a class has 2,500 or none, and noise of 5.
    """
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((20_000, 6)) < 0.5, columns=list("abcdef"))
    table["y"] = np.where(table[["a", "b", "c"]].sum(axis=1) % 2, "odd", "even")
    settings = {"epsilon": 10.0, "target": "y", "random_state": 0}
    for cls, least, most in (
        (DPCGANSynthesizer, 0.0, 0.05),
        (MarginalSynthesizer, 0.4, 0.6),
    ):
        fake = cls(**settings).fit(table).sample(5000)
        odd = fake[["a", "b", "c"]].sum(axis=1) % 2 == 1
        assert least <= (odd != (fake["y"] == "odd")).mean() <= most


def test_a_class_without_any_value_of_a_column_trains(pairs_for_all):
    table = make_table(400)
    table["c"] = np.where(table["y"] == "u", np.nan, np.arange(400) % 7)
    columns = {name: Continuous(-9, 9, nullable=True) for name in "abc"}
    labels = Categorical(sorted(set(table["y"])))
    schema = TableSchema(columns | {"y": labels}, target="y")
    settings = {"n_iter": 2, "n_generator_steps": 1, "schema": schema}
    fake = DPCGANSynthesizer(epsilon=math.inf, **settings).fit(table).sample(200)
    # A short fit leaves the class some of the components of others.
    assert fake.loc[fake["y"] == "u", "c"].isna().mean() > 0.9


@pytest.mark.parametrize("cls", [DPCGANSynthesizer, GPATESynthesizer])
def test_a_column_without_any_level_is_no_obstacle(cls):
    table = make_table(300).assign(nothing=pd.Series([None] * 300, dtype=object))
    settings = {"target": "y", "init": "marginals", "n_iter": 1}
    synthesizer = cls(epsilon=math.inf, **settings).fit(table)
    assert synthesizer.sample(5)["nothing"].isna().all()


@pytest.mark.parametrize("n_rows", [300, 450, 600, 1000])
def test_what_is_reserved_is_used_where_pairs_hardly_pay(n_rows):
    """The start may turn out to be factors where cells were planned."""
    columns = {name: Continuous(-6, 6, scale="linear") for name in "abcd"}
    schema = TableSchema(columns, n_rows=n_rows)
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(n_rows, 4)))
    table.columns = list(columns)
    synthesizer = DPCGANSynthesizer(schema=schema, n_iter=3, n_generator_steps=1)
    report = synthesizer.fit(table).privacy_report()
    assert all(entry.used == entry.releases for entry in report.entries)


def test_training_pays_for_a_clear_signal_and_not_for_more():
    """Between the two bounds, the share falls as the squared number of rows."""
    settings = StepSettings(latent_dim=4, n_iter=12, noise_multiplier=None)
    few, some, more, many = (
        training_share(n_rows, 30, 0.25, settings) for n_rows in (1e3, 2e4, 3e4, 1e6)
    )
    assert few == 0.1 > some > more > many == 0.02
    np.testing.assert_allclose(some / more, 1.5**2)


def test_where_a_class_has_little_signal_all_give_their_budget_to_the_marginals():
    """Factors of the large class alone would be a mark of it."""
    counts = {"u": 300_000, "v": 60}
    plan = plan_of(None, class_counts=counts)
    assert list(plan["n_iter"]) == [0, 0]
    assert (plan_of(None, class_counts=counts | {"v": 200_000})["n_iter"] > 0).all()
    alone = IndependentSynthesizer(schema=make_schema()).plan(class_counts=counts)
    np.testing.assert_array_equal(plan["noise_std"], alone["noise_std"])


def test_the_given_number_of_steps_fixes_the_noise():
    few, many = (plan_of(2000, n_iter=n) for n in (10, 40))
    assert list(few["n_iter"]) == [10, 10]
    ratio = many["step_noise_std"] / few["step_noise_std"]
    np.testing.assert_allclose(ratio, 2.0)


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("batch_size", ["auto", 500])
def test_the_given_noise_fixes_the_number_of_steps(batch_size):
    """As many steps as the budget pays for at no more noise than that."""
    plan = plan_of(10_000, noise_multiplier=40.0, batch_size=batch_size)
    assert (plan["step_noise_std"] <= 40).all()
    assert (plan["step_noise_std"] * np.sqrt(1 + 1 / plan["n_iter"]) > 39.9).all()


def test_a_sampled_plan_needs_less_noise():
    """Of one step on a tenth of the rows: amplified, in clipping norms."""
    whole = plan_of(10**6, n_iter=10)
    sampled = plan_of(10**6, n_iter=10, batch_size=50_000)
    assert (sampled["step_noise_std"] < 0.3 * whole["step_noise_std"]).all()
    assert (sampled["step_noise_std"] >= 3).all()


def test_steps_and_noise_together_are_an_error():
    synthesizer = DPCGANSynthesizer(n_iter=5, noise_multiplier=2.0)
    with pytest.raises(ValueError, match="Leave out n_iter or noise_multiplier"):
        synthesizer.fit(make_table(50))


def test_one_column_has_no_dependence_to_buy():
    table = make_table(500)[["a", "y"]]
    synthesizer = DPCGANSynthesizer(target="y", epsilon=50.0, n_iter=5).fit(table)
    assert synthesizer.n_iter_ == 0
    names = [entry.name for entry in synthesizer.privacy_report().entries]
    assert not any("discriminator" in name for name in names)


# --- Samples and epsilon -----------------------------------------------------------


def record(monkeypatch, home, name, note):
    """Let a function tell `note` what it was given and what it answers."""
    real = getattr(home, name)

    def recording(*arguments):
        answer = real(*arguments)
        note(arguments, answer)
        return answer

    monkeypatch.setattr(home, name, recording)


def test_samples_at_infinite_epsilon_have_the_batch_size(monkeypatch):
    """Of each class's rows 200 are expected: two-sided exact binomial test.

    12 steps on four classes of about 750 rows; the rate is computed here. False alarms:
    1e-6 in all.
    """
    table = make_table(3000, n_classes=4, seed=2)
    drawn = {}
    record(
        monkeypatch,
        _discriminator,
        "poisson_sample",
        lambda given, rows: drawn.setdefault(given[0], []).append(len(rows)),
    )
    DPCGANSynthesizer(
        epsilon=math.inf,
        schema=make_schema(4),
        batch_size=200,
        n_iter=12,
        n_generator_steps=1,
        init="marginals",
    ).fit(table)
    sizes = table["y"].value_counts()
    assert set(drawn) == set(sizes)
    for n_rows in sizes:
        n_draws = n_rows * len(drawn[n_rows])
        found = binomtest(sum(drawn[n_rows]), n_draws, 200 / n_rows)
        assert len(drawn[n_rows]) == 12
        assert found.pvalue > 1e-6 / 4


COUNTED = {"u": 90, "v": 60}


def epsilons(monkeypatch, proven_sensitivities, **parameters):
    """Epsilon of each class from what a fit drew, by Opacus's accountant; and rates."""
    drawn = {label: [] for label in COUNTED}  # noise multiplier, rate, steps
    rates = []

    def bought(given, _):
        reservation, *count = given[1:]
        for label in COUNTED:
            if reservation.scope in (None, label):
                proven = proven_sensitivities[reservation.name][label]
                noise = reservation.noise_std / proven
                drawn[label].append((noise, 1.0, sum(count or [1])))

    def stepped(given, _):
        drawn[given[2].scope].append((given[2].noise_std, rates[-1], 1))

    record(monkeypatch, _aggregators, "release_gaussian", bought)

    def stepped_in_whole_numbers(given, _):
        noise = math.sqrt(given[1].noise_std ** 2 - 4) / 2**20
        drawn[given[1].scope].append((noise, rates[-1], 1))

    record(monkeypatch, _dp_sgd, "release_float_gaussian", stepped)
    record(
        monkeypatch,
        _discriminator,
        "release_gaussian",
        stepped_in_whole_numbers,
    )
    for home in (_discriminator, _discriminator):
        record(
            monkeypatch, home, "poisson_sample", lambda given, _: rates.append(given[1])
        )
    schema = TableSchema(make_schema().columns, target="y", class_counts=COUNTED)
    settings = {"batch_size": 45, "n_iter": 3, "n_generator_steps": 1, **parameters}
    synthesizer = DPCGANSynthesizer(schema=schema, **settings).fit(make_table(150))
    found = {}
    for label, history in drawn.items():
        accountant = PRVAccountant()
        accountant.history = history
        with np.errstate(divide="ignore"):  # it takes log(1 - q) of a rate q = 1
            found[label] = accountant.get_epsilon(1e-5, eps_error=0.005)
    return found, set(rates), synthesizer.epsilon_


@pytest.mark.usefixtures("short_fits")
@pytest.mark.filterwarnings("ignore:Optimal order is")  # of a first guess of Opacus
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
@pytest.mark.parametrize("init", INITS)
def test_epsilon_by_opacus_is_that_of_the_dearest_class(
    init, proven_sensitivities, monkeypatch
):
    """Half the rows of one class are sampled, three quarters of the other: each pays.

    Opacus composes what was drawn, and the claim leaves room for what no Gaussian curve
    fits and for the grid of marginals: so it is larger, by 10% at most.
    """
    found, rates, claimed = epsilons(monkeypatch, proven_sensitivities, init=init)
    assert rates == {45 / 90, 45 / 60}
    assert 0.9 * claimed <= max(found.values()) <= claimed + 0.005 <= 1.005


@pytest.mark.filterwarnings("ignore:Optimal order is")
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
def test_samples_larger_than_charged_are_caught(proven_sensitivities, monkeypatch):
    """The twin draws three quarters and all of the rows: both pass the claim."""

    class Larger(Discriminator):
        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, **settings)
            self._rate = min(1.0, 1.5 * self._rate)

    monkeypatch.setattr(_adversarial, "Discriminator", Larger)
    found, rates, claimed = epsilons(monkeypatch, proven_sensitivities, init="random")
    assert rates == {0.75, 1.0}
    assert min(found.values()) > claimed


# --- Behaviour -------------------------------------------------------------------

FEW = {"epsilon": 8.0, "n_iter": 2, "n_generator_steps": 3, "random_state": 0}


@pytest.mark.parametrize(
    "mode",
    [
        {},
        FACTORS,
        {"init": "random", "hidden_dims": [3]},
        {"batch_size": 50, "n_discriminator_steps": 2},
        {"device": torch.device("cpu")},
    ],
    ids=str,
)
def test_a_saved_synthesizer_is_the_same(mode, tmp_path):
    synthesizer = DPCGANSynthesizer(schema=make_schema(), **FEW, **mode)
    synthesizer.fit(make_table(400)).save(tmp_path / "model.skdp")
    same = DPCGANSynthesizer.load(tmp_path / "model.skdp")
    pd.testing.assert_frame_equal(
        same.sample(50, random_state=1), synthesizer.sample(50, random_state=1)
    )
    assert same.n_iter_ == synthesizer.n_iter_
    assert same.epsilon_ == synthesizer.epsilon_


@pytest.mark.parametrize("init", INITS)
def test_no_fitted_attribute_holds_a_discriminator_or_a_row(init):
    synthesizer = DPCGANSynthesizer(schema=make_schema(), init=init, **FEW)
    synthesizer.fit(make_table(400))
    private = (
        Discriminator,
        FactorTrainer,
        MixtureTrainer,
        torch.Tensor,
        torch.Generator,
    )
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


def test_without_a_target_all_rows_are_one_class():
    table = make_table(3000)[["a", "b"]]
    synthesizer = DPCGANSynthesizer(**FEW).fit(table)
    assert not hasattr(synthesizer, "classes_")
    assert list(synthesizer.sample(10).columns) == ["a", "b"]
    assert 0.98 * 8 <= synthesizer.epsilon_ <= 8


@pytest.mark.parametrize("init", INITS)
def test_mixed_types_train(init):
    table = make_table(600)
    rng = np.random.default_rng(0)
    table["c"] = rng.choice(["p", "q", None], size=600)
    table["d"] = rng.random(600) < 0.3
    table["e"] = rng.poisson(2, size=600)
    rows = DPCGANSynthesizer(target="y", init=init, **FEW).fit(table).sample(80)
    assert list(rows.dtypes) == list(table.dtypes)
    assert set(rows["c"].dropna()) <= {"p", "q"}


def test_a_class_of_which_no_row_came_still_runs():
    table = make_table(300, n_classes=2)
    counts = {"u": 0, "v": 0, "w": 0} | table["y"].value_counts().to_dict()
    schema = TableSchema(make_schema(3).columns, target="y", class_counts=counts)
    synthesizer = DPCGANSynthesizer(schema=schema, **FEW)
    with pytest.warns(DegradedResultWarning):
        synthesizer.fit(table)
    assert set(synthesizer.sample(300, sampling_strategy="balanced")["y"]) == {*"uvw"}


@pytest.mark.parametrize("verbose", [0, 1])
def test_the_progress_bar_counts_planned_steps(verbose, capsys):
    parameters = FEW | {"verbose": verbose}
    DPCGANSynthesizer(schema=make_schema(), **parameters).fit(make_table(400))
    shown = capsys.readouterr().err
    assert ("4/4" in shown and "DPCGAN" in shown) == bool(verbose)


def test_random_state_fixes_all_but_the_secrets_and_globals_stay():
    """With the secrets frozen too, two fits are equal."""
    results = []
    for seed in (1, 2):
        torch.random.default_generator.manual_seed(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        with insecure_randomness(3):
            synthesizer = DPCGANSynthesizer(schema=make_schema(), **FEW)
            results.append(synthesizer.fit(make_table(400)).sample(50))
        assert synthesizer.epsilon_ == math.inf
        assert torch.equal(torch.get_rng_state(), before[0])
        np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    pd.testing.assert_frame_equal(*results)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"device": "nothing"}, "'cpu' always works"),
        ({"hidden_dims": (4, 0)}, r"ints >= 1. Got \(4, 0\) instead"),
        ({"init": "zeros"}, "init"),
        ({"batch_size": 0}, "batch_size"),
        ({"n_discriminator_steps": 0}, "n_discriminator_steps"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"max_grad_norm": 0.0}, "max_grad_norm"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        DPCGANSynthesizer(**parameters).fit(make_table(50))
