"""MarginalSynthesizer: dependence of every kind comes out of tables of 2 and 3 columns.

Its privacy is in `test_privacy.py`.
"""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.metrics import marginal_fidelity
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import Boolean, Categorical, Continuous, TableSchema


def planted(n_rows, seed=0):
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
    assert {m.order for m in synth.measurements_.tables()} - {0} == {
        *range(1, order + 1)
    }
    assert marginal_fidelity(real, fake, k=min(order, 2)).max() < 0.03


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("order", [1, 2, 3])
def test_tables_share_the_budget_of_a_class(order):
    """Three columns a quarter of the squared mu, two three quarters of the rest.

    A tenth of what three columns leave is for relations; there is none, so it goes to
    them, and with two columns at most it is not spent. Of two columns a fifth is for
    tables of both classes together.
    """
    synth = MarginalSynthesizer(2.0, schema=SCHEMA, order=order).fit(planted(N_ROWS))
    entries = synth.privacy_report().entries
    shared = [e for e in entries if e.scope == "all rows" and "columns" in e.name]
    for label in (0, 1):
        own = shared + [e for e in entries if e.scope == f"class {label}"]
        rest = sum(e.mu_total**2 for e in own)
        for columns, share in ((3, 0.25 + 0.1 * 0.75), (2, 0.75)):
            lines = [e for e in own if f"of {columns} columns" in e.name]
            assert len(lines) == (columns <= order) * (2 if columns == 2 else 1)
            spent = sum(e.mu_total**2 for e in lines)
            if lines:
                assert spent == pytest.approx(share * rest)
                rest -= spent
    if order > 1:
        (line,) = shared
        assert line.mu_total**2 == pytest.approx(0.2 * spent)


@pytest.mark.statistical
@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize(
    ("n_columns", "planted", "n_rows", "target"),
    [
        (30, [(0, 7), (3, 4), (20, 21), (12, 29)], 20_000, "c4"),
        (10, [(0, 7)], 4000, "y"),
    ],
)
def test_pairs_that_depend_on_each_other_are_chosen(n_columns, planted, n_rows, target):
    """Of wide tables and of few rows; and all pairs of a number that is the target.

    The first columns of planted pairs are equal, or say where the second is missing.
    Their distance is 0.7 of the rows, that of others about the root of these, and its
    noise at most 300: a planted pair is left out at a rate below 1e-70.
    """
    codes = np.random.default_rng(0).integers(0, 2, (n_rows, n_columns))
    real = pd.DataFrame(codes == 1).add_prefix("c")
    for i, j in planted:
        real[f"c{j}"] = real[f"c{i}"]
    i, j = planted[-1]
    real[f"c{j}"] = real[f"c{j}"].astype("boolean").mask(real[f"c{i}"])
    columns = dict.fromkeys(real, Boolean(nullable=True))
    if target == "y":
        real["y"], columns["y"] = np.arange(n_rows) % 2 == 0, Boolean()
    else:
        real, columns[target] = real.astype({target: int}), Continuous(0, 1)
    schema = TableSchema(columns, target=target, n_rows=n_rows)
    synth = MarginalSynthesizer(order=2, schema=schema, random_state=0).fit(real)
    pairs = {own.columns for own in synth.measurements_.tables() if own.order == 2}
    assert {(f"c{i}", f"c{j}") for i, j in planted} <= pairs
    every = [*combinations(real.columns.drop("y", errors="ignore"), 2)]
    assert {pair for pair in every if target in pair} <= pairs
    assert len(pairs) < len(every)
    lines = synth.privacy_report().entries
    (choice,) = (line for line in lines if line.name == "choice of pairs")
    tables = [line for line in lines if "of 2 columns" in line.name]
    assert choice.scope == "all rows"  # of both classes
    assert choice.sensitivity == pytest.approx(math.sqrt(len(every)))
    for line in tables:
        assert line.sensitivity == pytest.approx(2**20 * math.sqrt(len(pairs)))
    spent = sum(e.mu_total**2 for e in tables if e.scope in ("all rows", "class True"))
    assert choice.mu_total**2 == pytest.approx(0.1 * (choice.mu_total**2 + spent))


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


@pytest.mark.usefixtures("frozen_noise")
def test_a_class_without_tables_keeps_its_marginals_where_columns_follow_each_other():
    """Bins of a follower are those of all classes, so of the borrower too."""
    rng = np.random.default_rng(0)
    label = (np.arange(30_000) < 100).astype(int)
    x = np.where(label == 1, rng.uniform(0.8, 1.0, 30_000), rng.random(30_000))
    table = pd.DataFrame({"x": x, "y": x + rng.normal(0, 0.005, 30_000), "t": label})
    columns = {"x": Continuous(0, 1), "y": Continuous(-0.1, 1.1)}
    columns |= {"t": Categorical([0, 1])}
    schema = TableSchema(columns, target="t", class_counts={0: 29_900, 1: 100})
    synth = MarginalSynthesizer(1.0, schema=schema, random_state=0).fit(table)
    assert synth.plan()["dependence"].tolist() == ["kept", "borrowed"]
    rare = synth.sample(2000, sampling_strategy={0: 0, 1: 2000})
    assert rare["x"].mean() == pytest.approx(0.9, abs=0.05)  # 0.5 in the other class
    assert rare["y"].mean() == pytest.approx(0.9, abs=0.05)


def test_rows_without_a_label_have_no_design():
    design = MarginalSynthesizer(9.0).fit(planted(300)[["a", "x"]]).measurements_
    synth = MarginalSynthesizer(
        schema=design.schema, design=design, use_unlabelled=True
    )
    with pytest.raises(ValueError, match="Expected use_unlabelled=False"):
        synth.fit(planted(300)[["a", "x"]])


@pytest.mark.usefixtures("frozen_noise")
def test_a_class_whose_moments_are_all_noise_borrows_factors():
    """Both classes measure second moments; the factor is clear in the large one."""
    rng, n_rows = np.random.default_rng(0), (20_000, 1500)
    numbers = 0.96 * rng.standard_normal((sum(n_rows), 60))
    numbers += 0.28 * rng.standard_normal((sum(n_rows), 1))
    table = pd.DataFrame(numbers).rename(columns=str)
    columns = dict.fromkeys(table, Continuous(-5, 5)) | {"y": Categorical(["a", "b"])}
    schema = TableSchema(columns, target="y")
    synth = MarginalSynthesizer(schema=schema, random_state=0)
    fitted = synth.fit(table.assign(y=np.repeat(["a", "b"], n_rows)))
    entries = fitted.privacy_report().entries
    found = {entry.scope for entry in entries if "second moments" in entry.name}
    assert found == {"class a", "class b"}
    large, small = fitted.generator_.loadings
    assert np.square(large).sum() > 5
    assert (small == large).all()


# --- The floor: marginals that are right, and nothing else ----------------------------


def table(n_rows):
    """Two classes, 1 in 5; a shifted column, a skewed one, whole ones, three levels."""
    rng = np.random.default_rng(1)
    label = (rng.random(n_rows) < 0.2).astype(int)
    return pd.DataFrame(
        {
            "shifted": rng.normal(size=n_rows) + 2 * label,
            "skewed": rng.exponential(100, n_rows) * (rng.random(n_rows) < 0.7),
            "level": np.where(
                rng.random(n_rows) < 0.3 + 0.4 * label,
                "x",
                rng.choice(["y", "z"], n_rows),
            ),
            "count": rng.integers(0, np.where(label, 5, 10)),
            "y": label,
        }
    )


def differences(real, fake):
    """Largest distance of the distribution functions, or of shares, over classes."""
    found: dict[str, float] = {}
    for label in (0, 1):
        a, b = real[real["y"] == label], fake[fake["y"] == label]
        for name in ("shifted", "skewed"):
            distance = ks_2samp(a[name], b[name]).statistic
            found[name] = max(found.get(name, 0.0), distance)
        for name in ("level", "count"):
            shares = [part[name].value_counts(normalize=True) for part in (a, b)]
            gap = shares[0].sub(shares[1], fill_value=0.0).abs().max()
            found[name] = max(found.get(name, 0.0), gap)
    return found


@pytest.mark.parametrize(("epsilon", "most"), [(math.inf, 0.06), (1.0, 0.1)])
def test_marginals_of_each_class(epsilon, most):
    """A sampling error of 40,000 rows in two classes, the smaller of 8,000.

    It is below 0.03 with probability 1 - 1e-6 (Dvoretzky, Kiefer and Wolfowitz); the
    rest is the bins.
    """
    real = table(20_000)
    synth = IndependentSynthesizer(epsilon=epsilon, target="y", random_state=0)
    fake = synth.fit(real).sample(40_000)
    found = differences(real, fake)
    assert max(found.values()) < most, found
    assert abs(fake["y"].mean() - real["y"].mean()) < 0.02
    # A zero stays exactly zero, in about 3 of 10 rows.
    assert abs((fake["skewed"] == 0).mean() - 0.3) < 0.05


def test_it_is_the_marginal_synthesizer_of_order_1():
    """The same is released, and the same marginals come of it."""
    found = []
    for synth in (IndependentSynthesizer(), MarginalSynthesizer(order=1)):
        seen = []
        synth.set_params(epsilon=3.0, target="y", random_state=0)
        with insecure_randomness(0), observe_releases(seen.append):
            synth.fit(table(2000))
        names = [(own.reservation.name, own.reservation.scope) for own in seen]
        found.append((names, [own.noisy.tolist() for own in seen], synth.sample(4000)))
    (names, noisy, rows), (*others, other_rows) = found
    assert [names, noisy] == others
    # Of 4,000 rows each, the larger class of 3,200: above 0.07 once in 10^6 or rarer.
    assert max(differences(rows, other_rows).values()) < 0.15


def test_a_file_of_0_2_is_read(tmp_path, monkeypatch):
    """It had no generator: columns alone."""
    synth = IndependentSynthesizer(target="y").fit(table(500))
    with monkeypatch.context() as patch:
        patch.setattr(IndependentSynthesizer, "_generator_state", lambda self: ({}, {}))
        synth.save(tmp_path / "old")
    again = IndependentSynthesizer.load(tmp_path / "old")
    ours, theirs = (own.sample(50, random_state=0) for own in (synth, again))
    pd.testing.assert_frame_equal(ours, theirs)
