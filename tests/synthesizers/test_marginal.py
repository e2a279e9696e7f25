"""MarginalSynthesizer: dependence of every kind comes out of tables of 2 and 3 columns.

Its privacy is in `test_privacy.py`.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer, PrivacyBudget
from skdpsynth.datasets import load_adult
from skdpsynth.measure import _tables
from skdpsynth.metrics import marginal_fidelity
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import Categorical, Continuous, TableSchema


def planted(n_rows: int, seed: int = 0) -> pd.DataFrame:
    """Two classes; dependences that no line and no order of the levels can show."""
    rng = np.random.default_rng(seed)
    label = (rng.random(n_rows) < 0.3).astype(int)
    a = rng.integers(0, 4, n_rows)
    partner = np.array([2, 0, 3, 1])
    b = np.where(rng.random(n_rows) < 0.9, partner[a], rng.integers(0, 4, n_rows))
    b = np.where(label == 1, (b + 2) % 4, b)
    x = rng.normal(size=n_rows)
    y = np.where(rng.random(n_rows) < 0.5, x, -x) + 0.2 * rng.normal(size=n_rows)
    y[a == 2] = np.nan  # missing where another column says so, and nowhere else
    return pd.DataFrame(
        {
            "a": np.array(list("pqrs"))[a],
            "b": np.array(list("wxyz"))[b],
            "x": x,
            "y": y,
            "t": label,
        }
    )


SCHEMA = TableSchema(
    {
        "a": Categorical(list("pqrs")),
        "b": Categorical(list("wxyz")),
        "x": Continuous(-5, 5, scale="linear", decimals="any"),
        "y": Continuous(-6, 6, scale="linear", nullable=True, decimals="any"),
        "t": Categorical([0, 1]),
    },
    target="t",
    class_counts={0: 14_000, 1: 6000},
)
N_ROWS = 20_000


@pytest.fixture(scope="module")
def drawn():
    """The planted table, and what a fit draws."""
    real = planted(N_ROWS)
    synth = MarginalSynthesizer(3.0, schema=SCHEMA, random_state=0)
    return real, synth.fit(real).sample(40_000)


# --- Dependence -------------------------------------------------------------------


def joint(table, first, second, label):
    part = table[table["t"] == label]
    return pd.crosstab(part[first], part[second], normalize=True)


@pytest.mark.parametrize("label", [0, 1])
def test_unordered_categories_keep_their_partners(drawn, label):
    """Each level has a partner, another one in each class; marginals are even.

    The noise of a share is below 0.001 and the error of 12,000 drawn rows below 0.02.
    """
    real, fake = (joint(table, "a", "b", label) for table in drawn)
    assert (real - fake).abs().to_numpy().max() < 0.03
    apart = np.outer(real.sum(axis=1), real.sum(axis=0))
    assert np.abs(real - apart).to_numpy().max() > 0.15


def test_missing_values_depend_on_another_column(drawn):
    """Missing in every row with 'r', and in no other."""
    shares = [table["y"].isna().groupby(table["a"]).mean() for table in drawn]
    assert shares[0].to_dict() == {"p": 0, "q": 0, "r": 1, "s": 0}
    assert shares[1]["r"] > 0.9
    assert shares[1].drop("r").max() < 0.05


def rank_correlation_of_sizes(table):
    return table[["x", "y"]].dropna().abs().corr(method="spearman").iloc[0, 1]


def test_a_cross_without_correlation_is_kept():
    """`y` is `x` or `-x`: uncorrelated, and their sizes are one and the same.

    A factor of a Gaussian copula would leave a rank correlation of the sizes near 0.
    """
    real = planted(N_ROWS)[["x", "y", "t"]].dropna().reset_index(drop=True)
    fake = MarginalSynthesizer(3.0, target="t", random_state=0).fit(real)
    fake = fake.sample(N_ROWS)
    assert rank_correlation_of_sizes(real) > 0.9
    assert rank_correlation_of_sizes(fake) > 0.6
    assert abs(fake[["x", "y"]].corr(method="spearman").iloc[0, 1]) < 0.1


def test_a_cross_is_kept_beside_other_dependences(drawn):
    """Where `y` is missing in all rows with one level, and levels have partners."""
    assert rank_correlation_of_sizes(drawn[1]) > 0.5


def test_marginals_are_those_of_the_floor(drawn):
    """Every column by itself is off by no more than a few parts in a hundred."""
    distances = marginal_fidelity(*drawn, k=1)
    assert distances.max() < 0.03


@pytest.mark.parametrize(
    ("order", "least", "most"), [(3, 0.95, 1.0), (2, 0.4, 0.75), (1, 0.4, 0.6)]
)
def test_an_xor_is_known_to_tables_of_three_columns_alone(order, least, most):
    """What no table shows is not invented; by chance half the rows agree.

    Of 8,000 rows a cell has 2,000 or none, and at epsilon 10 noise of 2.
    """
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, (8000, 2))
    real = pd.DataFrame({"a": bits[:, 0] == 1, "b": bits[:, 1] == 1})
    real["c"] = real["a"] ^ real["b"]
    synth = MarginalSynthesizer(10.0, order=order, random_state=0).fit(real)
    fake = synth.sample(20_000)
    assert least <= ((fake["a"] ^ fake["b"]) == fake["c"]).mean() <= most
    assert {m.order for m in synth.measurements_} - {0} == {*range(1, order + 1)}
    assert marginal_fidelity(real, fake, k=min(order, 2)).max() < 0.03


def test_dependence_of_a_real_table_is_learnt():
    """Adult, 12,000 rows: joint shares of pairs are nearer than those of the floor."""
    real = load_adult().sample(12_000, random_state=0).reset_index(drop=True)
    means = {}
    for maker in (IndependentSynthesizer, MarginalSynthesizer):
        synth = maker(3.0, target="income", random_state=0)
        distances = marginal_fidelity(real, synth.fit(real).sample(12_000), k=2)
        means[maker] = distances.mean()
    assert means[MarginalSynthesizer] < 0.75 * means[IndependentSynthesizer]


# --- What is measured -----------------------------------------------------------------


def releases(synth, table):
    seen = []
    with observe_releases(seen.append):
        synth.fit(table)
    return seen


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("order", [1, 2, 3])
def test_tables_share_the_budget_of_a_class(order):
    """Three columns a quarter of the squared mu, two three quarters of the rest.

    A tenth of what three columns leave is for relations; there is none, so it goes to
    them, and with two columns at most it is not spent. Of two columns a fifth is for
    tables of both classes together.
    """
    synth = MarginalSynthesizer(2.0, schema=SCHEMA, order=order)
    table = planted(N_ROWS)
    seen, n_rows = releases(synth, table), table["t"].value_counts()
    for label in (0, 1):
        own = [
            r
            for r in seen
            if r.reservation.scope == label or "of 2 columns" in r.reservation.name
        ]
        own = [r for r in own if r.reservation.scope in (label, None)]
        rest = sum(r.reservation.mu**2 for r in own)
        for columns, share in ((3, 0.25 + 0.1 * 0.75), (2, 0.75)):
            lines = [r for r in own if f"of {columns} columns" in r.reservation.name]
            assert len(lines) == (columns <= order) * (2 if columns == 2 else 1)
            parts = [line.reservation.mu**2 for line in lines]
            if lines:
                assert sum(parts) == pytest.approx(share * rest)
                rest -= sum(parts)
            if columns == 2 <= order:
                assert parts[0] == pytest.approx(0.2 * sum(parts))
                assert lines[0].reservation.scope is None
            for line in lines:
                n_tables = int(line.reservation.name.split()[0])
                assert n_tables == math.comb(4, columns)
                # Every table counts all rows of the class, or of both.
                of_all = line.reservation.scope is None
                counted = n_rows.sum() if of_all else n_rows[label]
                assert line.exact.sum() == 2**20 * n_tables * counted


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, math.inf])
def test_the_plan_is_what_the_fit_does(epsilon):
    """Everything is declared: tables, noise and classes are known in advance."""
    synth = MarginalSynthesizer(epsilon, schema=SCHEMA)
    plan = synth.plan().set_index("class")
    every = releases(synth, planted(N_ROWS))
    named = [(release, release.reservation.name) for release in every]
    for release, name in named:
        if name == "frequent values":
            noise_std = release.reservation.noise_std
            assert noise_std < plan["value_threshold"].iloc[0] < 0.05 * N_ROWS
    seen = [r for r, name in named if "of 2 columns, " in name]
    together = [r for r in seen if r.reservation.scope is None]
    assert len(together) == (epsilon < math.inf)
    seen = [r for r in seen if r.reservation.scope is not None]
    assert len(seen) == (plan["tables"] > 0).sum()
    for release in seen:
        line, row = release.reservation, plan.loc[release.reservation.scope]
        assert line.name.startswith(f"{row['tables']} tables")
        assert line.noise_std / 2**20 == pytest.approx(row["table_noise_std"], rel=1e-6)
        assert release.exact.size == pytest.approx(row["table_cells"], rel=0.35)


@pytest.mark.usefixtures("short_fits")
def test_wide_tables_choose_and_pay_for_it(monkeypatch):
    """`noisy_pair_distances` is charged, and says which columns depend."""
    monkeypatch.setattr(_tables, "MOST_TABLES", 3)
    synth = MarginalSynthesizer(8.0, schema=SCHEMA)
    seen = releases(synth, planted(N_ROWS))
    choices = [r for r in seen if r.reservation.name == "choice of pairs"]
    (choice,) = choices  # of both classes
    assert choice.exact.size == 6
    # a and b, a and y (missing values), and x and y depend on each other.
    assert set(np.argsort(-choice.noisy)[:3]) == {0, 2, 5}
    assert choice.reservation.scope is None


# --- Small classes ----------------------------------------------------------------


@pytest.mark.usefixtures("frozen_noise")
def test_a_class_without_tables_borrows_and_keeps_its_marginals():
    """2 rows in 100: too few for pairs, and not a hundred times rarer."""
    table = planted(30_000)
    rare = np.random.default_rng(2).random(30_000) < 0.05
    table = table[(table["t"] == 0) | rare].reset_index(drop=True)
    table.loc[table["t"] == 1, "x"] += 2.0
    counts = table["t"].value_counts().to_dict()
    schema = TableSchema(SCHEMA.columns, target="t", class_counts=counts)
    synth = MarginalSynthesizer(1.0, schema=schema, random_state=0)
    plan = synth.plan().set_index("class")
    assert plan["tables"].to_dict() == {0: 6, 1: 0}
    fake = synth.fit(table).sample(20_000, sampling_strategy="balanced")
    own = fake[fake["t"] == 1]
    assert own["x"].mean() == pytest.approx(2.0, abs=0.4)
    lent = joint(fake, "a", "b", 1) - joint(fake, "a", "b", 0)
    assert lent.abs().to_numpy().max() < 0.13  # 0.17 if they were independent
    assert joint(fake, "a", "b", 1).to_numpy().max() > 0.15


@pytest.mark.parametrize("columns", [["x", "t"], ["a", "t"]])
def test_one_column_has_no_tables(columns):
    """All is for its marginal."""
    synth = MarginalSynthesizer(1.0, target="t").fit(planted(4000)[columns])
    assert {measurement.order for measurement in synth.measurements_} <= {0, 1}
    assert list(synth.sample(9).columns) == columns


# --- Around it --------------------------------------------------------------------


@pytest.mark.usefixtures("short_fits")
def test_samples_of_several_chunks_are_one_table():
    """More rows than are decoded at once; class shares hold over all of them."""
    synth = MarginalSynthesizer(3.0, schema=SCHEMA, random_state=0)
    drawn = synth.fit(planted(N_ROWS)).sample(600_000)
    assert len(drawn) == 600_000
    assert drawn.index.is_unique
    # 30 %, within 7 standard deviations of 600,000 rows: a rate below 1e-11.
    assert abs(drawn["t"].mean() - 0.3) < 7 * math.sqrt(0.21 / 600_000)
    assert drawn.iloc[:9000]["a"].nunique() == drawn.iloc[-9000:]["a"].nunique() == 4


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_before_the_budget(device):
    budget = PrivacyBudget(1.0, 1e-5)
    synth = MarginalSynthesizer(1.0, schema=SCHEMA, device=device, budget=budget)
    with pytest.raises(ValueError, match="device"):
        synth.fit(planted(200))
    assert budget.spent == (0.0, 0.0)


def test_a_declared_count_that_is_far_off_does_not_spoil_the_tables():
    """As of a whole table in a fit to one of its folds."""
    real = planted(N_ROWS)
    counts = real["t"].value_counts()
    off = {}
    for factor in (1.0, 2.0):
        stated = {label: int(factor * n) for label, n in counts.items()}
        schema = TableSchema(SCHEMA.columns, target="t", class_counts=stated)
        synth = MarginalSynthesizer(2.0, schema=schema, random_state=0).fit(real)
        fidelity = marginal_fidelity(real, synth.sample(N_ROWS), k=2)
        off[factor] = float(fidelity.mean())
    assert off[2.0] < 1.5 * off[1.0] + 0.01


@pytest.mark.usefixtures("short_fits")
def test_a_class_of_a_few_rows_is_fitted_without_noise():
    """At infinite epsilon every class pays for pairs."""
    real = planted(4000)
    real["t"] = np.where(np.arange(4000) < 3, 1, 0)
    synth = MarginalSynthesizer(math.inf, target="t", random_state=0).fit(real)
    assert synth.sample(100, sampling_strategy="balanced")["t"].sum() == 50


def test_the_parity_of_three_columns_is_learnt():
    """The label says whether their number is odd: no pair of columns knows it."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((20_000, 6)) < 0.5, columns=list("abcdef"))
    table["y"] = np.where(table[["a", "b", "c"]].sum(axis=1) % 2, "odd", "even")
    settings = {"epsilon": 10.0, "target": "y", "random_state": 0}
    for order, least, most in ((3, 0.0, 0.05), (2, 0.4, 0.6)):
        fake = MarginalSynthesizer(order=order, **settings).fit(table).sample(5000)
        odd = fake[["a", "b", "c"]].sum(axis=1) % 2 == 1
        assert least <= (odd != (fake["y"] == "odd")).mean() <= most


# --- Classes that borrow ----------------------------------------------------------


def fit_of_one_factor(n_rows, n_columns, loading):
    """Fit columns that share a factor, alike in the classes "a" and "b"."""
    rng = np.random.default_rng(0)
    own = rng.standard_normal((sum(n_rows), n_columns))
    shared = rng.standard_normal((sum(n_rows), 1))
    table = pd.DataFrame(loading * shared + math.sqrt(1 - loading**2) * own)
    table = table.rename(columns=str).assign(y=np.repeat(["a", "b"], n_rows))
    columns = dict.fromkeys(table.columns.drop("y"), Continuous(-5, 5))
    labels = {"y": Categorical(["a", "b"])}
    schema = TableSchema({**columns, **labels}, target="y")
    with insecure_randomness(0):
        synth = MarginalSynthesizer(epsilon=1.0, schema=schema, random_state=0)
        return synth.fit(table)


def classes_that_release(fitted, words):
    entries = fitted.privacy_report().entries
    return {entry.scope for entry in entries if words in entry.name}


def test_a_class_of_one_row_in_a_thousand_borrows_the_tables_of_the_other():
    fitted = fit_of_one_factor((40_000, 60), 3, 0.9)
    assert classes_that_release(fitted, "of 2 columns") == {"class a"}
    drawn = fitted.sample(4000, sampling_strategy={"a": 2000, "b": 2000})
    for _, own in drawn.groupby("y", observed=True):
        correlations = own.drop(columns="y").corr(method="spearman").to_numpy()
        # Of normal numbers that correlate by 0.81; the error of 2,000 rows is 0.01.
        assert np.abs(correlations[np.triu_indices(3, 1)] - 0.8).max() < 0.08


def test_a_class_whose_moments_are_all_noise_borrows_factors():
    """Both classes measure second moments; the factor is clear in the large one."""
    fitted = fit_of_one_factor((20_000, 1500), 130, 0.28)
    assert classes_that_release(fitted, "second moments") == {"class a", "class b"}
    large, small = (own["loadings"] for own in fitted.generator_.parameters)
    assert np.square(large).sum() > 5
    assert (small == large).all()
