"""Fidelity metrics against independent computations and closed forms."""

from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, norm
from sklearn.feature_selection import f_classif
from sklearn.naive_bayes import GaussianNB

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.metrics import (
    broken_relations,
    column_fidelity,
    marginal_fidelity,
    pair_fidelity,
    two_sample_scores,
)

# Few distinct values, so that ties are common.
VALUES = st.lists(
    st.one_of(st.none(), st.integers(0, 5)), min_size=1, max_size=12
).filter(lambda values: any(v is not None for v in values))


@settings(max_examples=50, deadline=None)
@given(VALUES, VALUES)
def test_columns_by_hand(first, second):
    """Once as numbers, once as texts; missing values count apart."""
    tables = [
        pd.DataFrame(
            {
                "number": pd.Series(values, dtype=float),
                "text": [None if v is None else f"level {v}" for v in values],
            }
        )
        for values in (first, second)
    ]
    found = column_fidelity(*tables)
    assert found["kind"].tolist() == ["number", "category"]
    numbers = [own["number"].dropna() for own in tables]
    below = [np.mean([own <= at for at in range(6)], axis=1) for own in numbers]
    largest_gap = np.abs(below[0] - below[1]).max()
    assert found.loc["number", "distance"] == pytest.approx(largest_gap)
    shares = [own["text"].value_counts(normalize=True) for own in tables]
    half_l1 = shares[0].sub(shares[1], fill_value=0.0).abs().sum() / 2
    assert found.loc["text", "distance"] == pytest.approx(half_l1)
    gaps = [values.count(None) / len(values) for values in (first, second)]
    assert found["missing"].tolist() == pytest.approx([abs(gaps[0] - gaps[1])] * 2)


def test_columns_of_other_dtypes():
    """Times and booleans are numbers; a column without values is far from others."""
    real = pd.DataFrame(
        {
            "when": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03", None]),
            "flag": [True, True, False, False],
            "kind": pd.Categorical(["a", "a", "b", "b"]),
            "gone": [1.0, 2.0, 3.0, 4.0],
        }
    )
    later = real["when"] + pd.Timedelta(days=1)
    found = column_fidelity(real, real.assign(when=later, flag=True, gone=np.nan))
    assert found["kind"].tolist() == ["number", "number", "category", "number"]
    assert found["distance"].tolist() == pytest.approx([1 / 3, 0.5, 0.0, 1.0])
    assert found["missing"].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert found.attrs["contains_private_statistics"] is True


def dependent_table(seed: int, n_rows: int = 300) -> pd.DataFrame:
    """Make two numbers and two texts that depend on each other, with gaps."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 4, n_rows)
    table = pd.DataFrame(
        {
            "x": group + rng.normal(size=n_rows),
            "y": rng.normal(size=n_rows) - group,
            "g": pd.Series(group).map(dict(enumerate("abcd"))),
            "h": pd.Series((group + rng.integers(0, 2, n_rows)) % 5).astype(str),
        }
    )
    return table.mask(rng.random(table.shape) < 0.05)


def cramers_v(a: pd.Series, b: pd.Series) -> float:
    """Bergsma's formula from scipy's chi-squared statistic."""
    counts = pd.crosstab(a, b)
    n, (r, c) = counts.to_numpy().sum(), counts.shape
    phi2 = chi2_contingency(counts, correction=False).statistic / n
    phi2 = max(0, phi2 - (r - 1) * (c - 1) / (n - 1))
    sides = (r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1))
    return np.sqrt(phi2 / (min(sides) - 1))


def correlation_ratio(x: pd.Series, g: pd.Series) -> float:
    """Kelley's formula from scikit-learn's F statistic."""
    both = x.notna() & g.notna()
    n, k = both.sum(), g[both].nunique()
    f = f_classif(x[both].to_numpy().reshape(-1, 1), g[both])[0][0]
    within_share = 1 / (1 + f * (k - 1) / (n - k))
    return np.sqrt(max(0, 1 - within_share * (n - 1) / (n - k)))


def test_pairs_by_other_formulas(global_random_seed):
    """It holds for every seed: the same numbers come from other libraries."""
    tables = [dependent_table(global_random_seed + 1000 * i) for i in range(2)]
    found = pair_fidelity(tables[0], tables[1][["h", "y", "g", "x"]])
    pairs = found.set_index(["first", "second"])
    assert pairs["measure"].tolist() == [
        "pearson", "ratio", "ratio", "ratio", "ratio", "cramer"
    ]  # fmt: skip
    for name, table in zip(("real", "synthetic"), tables, strict=True):
        expected = {
            ("x", "y"): table["x"].corr(table["y"]),
            ("x", "g"): correlation_ratio(table["x"], table["g"]),
            ("y", "h"): correlation_ratio(table["y"], table["h"]),
            ("g", "h"): cramers_v(table["g"], table["h"]),
        }
        for pair, value in expected.items():
            assert pairs.loc[pair, name] == pytest.approx(value), pair
    difference = (pairs["real"] - pairs["synthetic"]).abs()
    assert pairs["difference"].tolist() == pytest.approx(difference.tolist())
    assert (pair_fidelity(tables[0], tables[0])["difference"] == 0).all()


def test_pairs_of_known_dependence():
    """A function of a column has 1, a constant 0, and so has what is all distinct."""
    n = 400
    table = pd.DataFrame({"g": np.tile(list("abcd"), n // 4)})
    table["same"] = table["g"].str.upper()
    table["code"] = table["g"].map({"a": 1.0, "b": 5.0, "c": 7.0, "d": 0.0})
    table["half"] = np.repeat(["u", "v"], n // 2)  # independent of g, exactly
    table["constant"] = 1.0
    table["id"] = [f"row {i}" for i in range(n)]
    found = pair_fidelity(table, table).set_index(["first", "second"])["real"]
    assert found["g", "same"] == pytest.approx(1.0)
    assert found["g", "code"] == pytest.approx(1.0)
    assert found["g", "half"] == 0.0
    assert found["code", "half"] == 0.0
    assert found["g", "constant"] == 0.0
    # Of 400 distinct texts 100 are kept apart and the rest is one category.
    kept = table["id"].where(table.index < 100, "rest")
    assert found["half", "id"] == pytest.approx(cramers_v(table["half"], kept))


def two_tables(shift: float, seed: int, n_rows: int = 1000) -> list[pd.DataFrame]:
    rng = np.random.default_rng(seed)
    return [
        pd.DataFrame(rng.normal(at, 1, (n_rows, 2)), columns=["a", "b"])
        for at in ([0.0, 0.0], [shift, 0.0])
    ]


# The AUROC of 200 against 200 rows has standard deviation sqrt(401 / (12 * 200**2)) =
# 0.029 at most where both have one distribution; so has the mean of five folds, and
# 5 of them are 0.145: a false alarm in 1.7e6 (two-sided).
FIVE_SD = 0.145


@pytest.mark.statistical
@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_two_samples_have_the_known_area(shift, global_random_seed):
    """1,000 rows each; by normal theory AUROC is Phi(d / sqrt 2); false alarm 6e-7.

    The spread is smaller with a shift.
    """
    scores = two_sample_scores(*two_tables(shift, global_random_seed))
    assert scores.index.tolist() == ["LogisticRegression", "RandomForestClassifier"]
    known = scores if shift == 0 else scores[["LogisticRegression"]]
    assert (known - norm.cdf(shift / np.sqrt(2))).abs().max() < FIVE_SD
    assert scores.attrs["contains_private_statistics"] is True


def test_two_samples_see_dependence_and_gaps():
    """Same marginals, other signs: only the forest finds it. A gap is a feature."""
    real = two_tables(0.0, 0, n_rows=500)[0]
    synthetic = real.assign(b=real["a"] * np.sign(real["b"] * real["a"]))
    scores = two_sample_scores(real, synthetic)
    assert scores["LogisticRegression"] < 0.6
    assert scores["RandomForestClassifier"] > 0.85
    gaps = real.assign(a=real["a"].where(real.index % 2 == 0))
    assert two_sample_scores(real, gaps)["LogisticRegression"] > 0.7


def test_rows_are_limited_and_balanced():
    """A classifier that counts the rows it is given counts four fifths of 2 x 50."""
    seen = []

    class Counter(GaussianNB):
        def fit(self, X, y):
            seen.append(np.bincount(y).tolist())
            return super().fit(X, y)

    real, synthetic = two_tables(0.0, 0)
    two_sample_scores(real, synthetic[:80], classifiers={"nb": Counter()}, max_rows=50)
    assert seen == [[40, 40]] * 5


METRICS = [
    *(broken_relations, column_fidelity, marginal_fidelity, pair_fidelity),
    two_sample_scores,
]


@pytest.mark.parametrize("metric", METRICS)
def test_tables_that_cannot_be_compared_are_refused(metric):
    """By the checks of `check_tables`, and those of kinds and values."""
    table = pd.DataFrame({"a": range(20), "b": range(20)})
    others = {
        "lacks": table.rename(columns={"b": "c"}),
        "column 'b'": table.assign(b=np.inf),
        "one kind": table.assign(b="text"),
    }
    for message, other in others.items():
        with pytest.raises(InvalidTableError, match=message):
            metric(table, other)


NUMBERS = st.one_of(st.none(), st.integers(0, 3), st.floats(-9, 9, width=16))
TEXTS = st.one_of(st.none(), st.sampled_from("abc"))
ROWS = st.lists(st.tuples(NUMBERS, TEXTS, NUMBERS), min_size=1, max_size=30)


def table(rows: list[tuple]) -> pd.DataFrame:
    """Make a table of two numbers and a text."""
    table = pd.DataFrame(rows, columns=["x", "kind", "y"])
    return table.astype({"x": float, "kind": object, "y": float})


def slow_cell(value: object, reference: list) -> object:
    """Say in which cell a value is, by counting; the real values choose."""
    if value is None:
        return "missing"
    known = sorted(v for v in reference if v is not None)
    if isinstance(value, str):
        ranked = sorted(set(known), key=lambda v: (-known.count(v), v))
        return value if value in ranked[:20] else "rest"
    # The smallest value that a share of tenths of the rows does not exceed.
    edges = [
        next(v for v in known if 10 * sum(w <= v for w in known) >= tenth * len(known))
        for tenth in range(1, 10)
        if known
    ]
    # An edge at the smallest value would divide nothing: the next one takes its place.
    above = [v for v in known if v > known[0]]
    if edges[:1] == known[:1]:
        edges += above[:1]
    return sum(e <= value for e in set(edges) - set(known[:1]))


def slow_distance(real: list[tuple], synthetic: list[tuple], columns: tuple) -> float:
    """Count rows by their cells in a dict."""
    shares: list[dict] = []
    for rows in (real, synthetic):
        counts: dict = {}
        for row in rows:
            cell = tuple(slow_cell(row[i], [r[i] for r in real]) for i in columns)
            counts[cell] = counts.get(cell, 0) + 1 / len(rows)
        shares.append(counts)
    cells = {*shares[0], *shares[1]}
    return sum(abs(shares[0].get(c, 0) - shares[1].get(c, 0)) for c in cells) / 2


@settings(max_examples=40, deadline=None)
@given(ROWS, ROWS)
def test_distances_by_a_slow_count(real, synthetic):
    for k in (1, 2, 3):
        found = marginal_fidelity(table(real), table(synthetic), k=k)
        expected = [
            slow_distance(real, synthetic, c) for c in combinations(range(3), k)
        ]
        assert found.tolist() == pytest.approx(expected, abs=1e-12)


def test_dependence_of_a_known_size():
    """Of m equal shares: identical columns against independent ones are 1 - 1 / m.

    A third one that is their sum modulo m shows in triples only: each of its pairs is
    independent.
    """
    m = 5
    cube = [grid.ravel() for grid in np.meshgrid(range(m), range(m), range(m))]
    free = pd.DataFrame(dict(zip("abc", cube, strict=True)))
    same, tied = free.assign(b=free["a"]), free.assign(c=(free["a"] + free["b"]) % m)
    assert (marginal_fidelity(free, same, k=1) == 0).all()
    assert marginal_fidelity(free, same)["a", "b"] == pytest.approx(1 - 1 / m)
    assert marginal_fidelity(free, tied, k=2).tolist() == pytest.approx([0.0] * 3)
    assert marginal_fidelity(free, tied, k=3).tolist() == pytest.approx([1 - 1 / m])


@pytest.mark.statistical
def test_every_group_is_as_likely():
    """200 draws of 5 out of 20 triples: each 50 times; sd sqrt(200 * 3/16) = 6.1.

    The largest of 20 deviations is below 6 sd = 37; false alarm 1e-6 (binomial).
    """
    table, drawn = pd.DataFrame(np.zeros((2, 6)), columns=[*"abcdef"]), Counter()
    for seed in range(200):
        options = {"k": 3, "n_marginals": 5, "random_state": seed}
        drawn.update({*marginal_fidelity(table, table, **options).index})
    assert (len(drawn), drawn.total()) == (20, 1_000)
    assert all(abs(n - 50) < 37 for n in drawn.values())


def test_many_columns_are_drawn_from():
    """784 columns have 306,936 pairs and 80 million triples."""
    wide = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (20, 784)))
    lengths = [len(marginal_fidelity(wide, wide[:10], k=k)) for k in (1, 2, 3)]
    assert lengths == [784, 10_000, 150]
    few, other = (
        marginal_fidelity(wide, wide[:10], k=3, n_marginals=4, random_state=seed)
        for seed in (1, 2)
    )
    assert few.attrs["contains_private_statistics"] is True
    assert not few.index.equals(other.index)


def test_what_cannot_be_compared_is_refused():
    two = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    for k in (0, 4, "2", 1.5):
        with pytest.raises(ValueError, match="k must be 1, 2 or 3"):
            marginal_fidelity(two, two, k=k)
    with pytest.raises(ValueError, match="n_marginals must be None or"):
        marginal_fidelity(two, two, n_marginals=0)
    with pytest.raises(InvalidTableError, match="at least 3 columns in 'real' for k=3"):
        marginal_fidelity(two, two, k=3)
    one = pd.DataFrame({"a": range(20)})
    for metric in (pair_fidelity, broken_relations):
        with pytest.raises(InvalidTableError, match="at least two columns in 'real'"):
            metric(one, one)
    with pytest.raises(InvalidTableError, match="smaller one has 9"):
        two_sample_scores(one, one[:9])
    with pytest.raises(ValueError, match="at least 10"):
        two_sample_scores(one, one, max_rows=9)
    with pytest.raises(ValueError, match="at least one classifier"):
        two_sample_scores(one, one, classifiers={})
