"""Fidelity metrics against independent computations and closed forms."""

import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from skdpsynth.exceptions import (
    DegradedResultWarning,
    InvalidTableError,
    TiedScoresWarning,
)
from skdpsynth.metrics import (
    broken_relations,
    column_fidelity,
    equal_rows,
    feature_ranking_agreement,
    marginal_fidelity,
    pair_fidelity,
    synthetic_ranking_agreement,
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
    shares = [own["text"].value_counts(normalize=True) for own in tables]
    half_l1 = shares[0].sub(shares[1], fill_value=0.0).abs().sum() / 2
    gaps = [values.count(None) / len(values) for values in (first, second)]
    expected = [largest_gap, half_l1]
    if len({*first, *second} - {None}) == 1:  # gaps say more than the one value
        constant = len({*first, *second}) == 1
        expected = [np.nan if constant else abs(gaps[0] - gaps[1])] * 2
    assert found["distance"].tolist() == pytest.approx(expected, nan_ok=True)
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
    found = found.drop(index="when: day of week")
    assert found["kind"].tolist() == ["number", "number", "category", "number"]
    assert found["distance"].tolist() == pytest.approx([1 / 3, 0.5, 0.0, 1.0])
    assert found["missing"].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert found.attrs["contains_private_statistics"] is True


def two_tables(shift: float, seed: int, n_rows: int = 1000) -> list[pd.DataFrame]:
    x = np.random.default_rng(seed).normal(size=(2, n_rows, 2))
    x[1, :, 0] += shift
    return [pd.DataFrame(own, columns=["a", "b"]) for own in x]


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


METRICS = [*(broken_relations, column_fidelity, marginal_fidelity, two_sample_scores)]


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
    types = {"x": float, "kind": object, "y": float}
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def slow_cell(value: object, reference: list) -> object:
    """Say in which cell a value is, by counting; the real values choose."""
    if value is None:
        return "missing"
    known = sorted(v for v in reference if v is not None)
    if isinstance(value, str):
        ranked = sorted(set(known), key=lambda v: (-known.count(v), v))
        return value if value in ranked[:20] else "rest"
    if len({*known}) == 1:  # the one value, and what is below and above it
        return (value > known[0]) - (value < known[0])
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
    """Count rows by their cells in a dict; columns of one value have no distance."""
    if any(len({row[c] for row in [*real, *synthetic]}) == 1 for c in columns):
        return np.nan
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
        several = combinations(range(3), k)
        expected = [slow_distance(real, synthetic, columns) for columns in several]
        assert found.tolist() == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_many_columns_are_drawn_from():
    """784 columns have 306,936 pairs and 80 million triples."""
    wide = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (20, 784)))
    found = [marginal_fidelity(wide, wide[:10], k=k) for k in (1, 2, 3)]
    assert [len(own) for own in found] == [784, 10_000, 150]
    assert all(own.index.is_unique for own in found)
    assert found[2].attrs["contains_private_statistics"] is True
    with pytest.warns(FutureWarning, match="n_marginals is deprecated"):
        again = marginal_fidelity(wide, wide[:10], k=3, n_marginals=9)
    assert again.equals(found[2])


def test_the_old_score_of_pairs_has_the_new_distances():
    first, second = two_tables(1.0, 0)
    with pytest.warns(FutureWarning, match="Use marginal_fidelity"):
        found = pair_fidelity(first, second)
    assert found["difference"].tolist() == marginal_fidelity(first, second).tolist()


TWO, ONE = pd.DataFrame({"a": [1, 2], "b": [3, 4]}), pd.DataFrame({"a": range(20)})


@pytest.mark.parametrize(
    ("metric", "tables", "options", "message"),
    [
        *((marginal_fidelity, (TWO, TWO), {"k": k}, "k must") for k in (0, "2", 1.5)),
        (marginal_fidelity, (TWO, TWO), {"k": 3}, "at least 3 columns in 'real' for k"),
        (broken_relations, (ONE, ONE), {}, "at least two columns in 'real'"),
        (two_sample_scores, (ONE, ONE[:9]), {}, "smaller one has 9"),
        (two_sample_scores, (ONE, ONE), {"max_rows": 9}, "at least 10"),
        (two_sample_scores, (ONE, ONE), {"classifiers": {}}, "at least one classifier"),
        (synthetic_ranking_agreement, ([1.0, 2.0], [1.0]), {}, "same length"),
        (synthetic_ranking_agreement, ([1.0], [1.0]), {}, "at least 2"),
        (synthetic_ranking_agreement, ([1.0, np.nan], [1.0, 2.0]), {}, "finite"),
        (synthetic_ranking_agreement, ([[1.0, 2.0]], [[1.0, 2.0]]), {}, "shapes"),
    ],
)
def test_what_cannot_be_compared_is_refused(metric, tables, options, message):
    with pytest.raises((ValueError, InvalidTableError), match=message):
        metric(*tables, **options)


# --- The ranking agreements are equation 8 of the PATE-GAN paper ----------------------


# Small integers, so that differences are exact and ties are common.
PAIRS = st.lists(st.tuples(*[st.integers(0, 6)] * 2), min_size=2, max_size=9)


def equation_8(real: list[float], synthetic: list[float]) -> float:
    """Evaluate the double sum as printed."""
    size = len(real)
    total = 0
    for j in range(size):
        for k in range(size):
            if k != j:
                product = (real[j] - real[k]) * (synthetic[j] - synthetic[k])
                total += product > 0
    return total / (size * (size - 1))


def quiet(real: object, synthetic: object) -> float:
    """Call the metric, ties or not."""
    with warnings.catch_warnings(action="ignore", category=TiedScoresWarning):
        return synthetic_ranking_agreement(real, synthetic)


@given(PAIRS)
def test_agreement_is_the_printed_sum(pairs):
    real, synthetic = map(list, zip(*pairs, strict=True))
    assert quiet(real, synthetic) == pytest.approx(equation_8(real, synthetic))
    assert quiet(real, synthetic) == quiet(synthetic, real)
    # The product of tiny differences is 0 in floating point, their order is not.
    tiny = [[1e-200 * value for value in own] for own in (real, synthetic)]
    assert quiet(*tiny) == quiet(real, synthetic)


def test_tied_table_scores_zero_and_warns():
    tied = [0.5, 0.5, 0.5]
    with pytest.warns(TiedScoresWarning, match="2 of the 3 synthetic scores") as caught:
        assert synthetic_ranking_agreement([0.7, 0.8, 0.9], tied) == 0.0
    assert [warning.filename for warning in caught] == [__file__]


def test_named_scores_are_matched_and_the_mean_is_left_out():
    real = pd.Series({"a": 0.9, "b": 0.8, "c": 0.7, "mean": 0.8})
    synthetic = pd.Series({"mean": 0.6, "c": 0.5, "a": 0.7, "b": 0.6})
    assert synthetic_ranking_agreement(real, synthetic) == 1.0
    assert synthetic_ranking_agreement(dict(real), synthetic) == 1.0
    # By position without names.
    assert synthetic_ranking_agreement(real, [0.1, 0.2, 0.3]) == 0.0
    with pytest.raises(ValueError, match="1 names are in one only"):
        synthetic_ranking_agreement(real, synthetic.drop("a"))


def test_feature_agreement_of_mixed_columns():
    """A category column counts by its best category: 1, age 0.58, sex 0.

    By the mean of its categories `kin` would have 0.5 in the first table.
    """
    real = pd.DataFrame(
        {
            "sex": ["Male", "Female"] * 4,
            "age": [0.0, 0, 1, 1, 1, 1, 1, 1],
            "kin": [*"abcd", *["husband"] * 4],
            "income": [0] * 4 + [1] * 4,
        }
    )
    other = real.assign(kin=["wife"] * 4 + ["husband"] * 4)
    assert feature_ranking_agreement(real, other, target="income") == 1.0


@pytest.mark.parametrize("n_labels", [2, 3])
def test_feature_agreement_is_that_of_correlations(n_labels, global_random_seed):
    """Of absolute ones, averaged over labels; whatever the order of the columns."""
    rng = np.random.default_rng(global_random_seed)
    tables, importance = [], []
    for _ in range(2):
        label = rng.permutation(np.repeat(np.arange(n_labels), 50))
        x = rng.normal(size=(len(label), 9)) + rng.normal(size=(n_labels, 9))[label]
        tables.append(pd.DataFrame(x, columns=list("abcdefghi")).assign(y=label))
        each = [np.corrcoef(x.T, label == k)[-1, :-1] for k in range(n_labels)]
        importance.append(np.abs(each).mean(axis=0))
    real, other = tables[0], tables[1][[*"ydbcaihgfe"]]
    expected = pytest.approx(equation_8(*importance))
    assert feature_ranking_agreement(real, other, target="y") == expected
    assert feature_ranking_agreement(real, real, target="y") == 1.0


# --- Times of day, constants and copies -----------------------------------------------


def shop_hours(n_rows: int, days: int, hours: int) -> pd.Series:
    """Draw times from 8 h on so many days of a week from Monday, one of ten at 0 h."""
    rng = np.random.default_rng(n_rows)
    day = 7 * rng.integers(0, 150, n_rows) + rng.integers(0, days, n_rows)
    minute = 60 * (8 + rng.integers(0, hours, n_rows)) + rng.integers(1, 60, n_rows)
    minute[::10] = 0
    spans = pd.to_timedelta(1440 * day + minute, "m")
    return pd.Series(pd.Timestamp("2020-01-06") + spans)


@pytest.mark.parametrize(
    "dtype", ["M8[ns]", "M8[s]", "datetime64[us, Asia/Tokyo]", "timestamp[ms][pyarrow]"]
)
def test_times_are_compared_by_hour_and_day_too(dtype):
    """The distance of the time itself is small; those of parts are counted by hand.

    Real times have 10 hours of 5 days, others all hours from 8 on, or all days.
    """
    zone = "Asia/Tokyo" if "Asia" in dtype else None
    times = (shop_hours(4_000, *parts) for parts in ((5, 10), (5, 16), (7, 10)))
    times, x = (at.dt.tz_localize(zone) for at in times), np.arange(4_000) % 9
    tables = (pd.DataFrame({"at": at.astype(dtype), "x": x}) for at in times)
    real, later, weekends = tables
    expected = {"at: time of day": 0.9 * 6 / 16, "at: day of week": 2 / 7}
    for worst, other in zip(expected, (later, weekends), strict=True):
        found = column_fidelity(real, other)["distance"]
        assert list(found.index) == ["at", *expected, "x"]
        assert found[worst] == pytest.approx(expected[worst], abs=0.05)
        assert found.drop(worst).max() < 0.07
        forest = RandomForestClassifier(10, min_samples_leaf=50, random_state=0)
        judged = two_sample_scores(real, other, classifiers={"forest": forest})
        assert judged["forest"] > 0.6
        assert worst in marginal_fidelity(real, other).idxmax()
    days = real.assign(at=real["at"].dt.normalize())
    assert list(column_fidelity(days, days).index) == ["at", "at: day of week", "x"]


SAME = pd.Series([3.0, 3.0, 3.0, 3.0] * 5)
KEPT = pd.Series([0.0, 1.0, 2.0, 3.0] * 5)
CONSTANTS = {
    "number": (SAME, KEPT),
    "text": (SAME.map({3.0: "only"}), KEPT.astype(str)),
    "nothing": (SAME.where(SAME < 3), KEPT),
    "no text": (pd.Series([None] * 20, dtype=object), KEPT.astype(str)),
    "time": (pd.to_datetime(SAME, unit="D"), pd.to_datetime(KEPT, unit="D")),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_what_is_constant_never_has_the_best_score(name):
    """0 is best: a constant in both tables has no score, one in one has a bad one."""
    constant, varying = CONSTANTS[name]
    for first, second in combinations((constant, varying, constant), 2):
        real, other = (pd.DataFrame({"c": c, "x": KEPT % 2}) for c in (first, second))
        one, both = marginal_fidelity(real, other, k=1), marginal_fidelity(real, other)
        for found in (column_fidelity(real, other)["distance"], one, both):
            own = found.drop(index="x", errors="ignore")
            assert own.isna().all() if first is second else (own > 0.2).all()


@pytest.mark.parametrize(("n_copies", "replace"), [(500, True), (300, False)])
def test_copies_of_real_rows_are_named(n_copies, replace):
    """Other rows of the same distribution have no warning, which would be an error."""
    real, other = two_tables(0.0, 0, 500)
    judge = {"forest": RandomForestClassifier(20, random_state=0)}
    two_sample_scores(real, other, classifiers=judge)
    copies = real.sample(n_copies, replace=replace, random_state=0)
    found = pd.concat([copies, other[n_copies:]])
    assert equal_rows(real, found) == (n_copies / 500, 0.0)
    with pytest.warns(DegradedResultWarning, match="rows of one table repeat"):
        two_sample_scores(real, found, classifiers=judge)


def test_rows_are_equal_by_their_values():
    """Whatever order columns have, and whatever a value is missing or spelt by."""
    day, kinds = pd.Timestamp("2020-01-01"), ["a", None, "a", "b"]
    real = pd.DataFrame({"x": [0.0, 1, 0, 2], "k": kinds, "t": [day, pd.NaT, day, day]})
    other = real.assign(x=[-0.0, 1, 3, 2], k=["a", np.nan, "a", "a"])[["t", "k", "x"]]
    assert equal_rows(real, other.astype({"t": "M8[s]"})) == (0.5, 0.5)


# --- Broken relations: tables whose broken rows are counted by hand, and real ones ----


COLUMNS = ["first", "second", "real", "independent", "synthetic", "relation"]
SHARES = COLUMNS[2:5]
CAPITALS = {"Austria": "Vienna", "France": "Paris", "Italy": "Rome", "Spain": "Madrid"}


def countries(n_rows: int = 400, n_broken: int = 0) -> pd.DataFrame:
    """Make a table of countries and capitals; the first rows have the next capital."""
    place = np.arange(n_rows) % 4
    other = np.where(np.arange(n_rows) < n_broken, (place + 1) % 4, place)
    names, capitals = np.array(list(CAPITALS)), np.array(list(CAPITALS.values()))
    return pd.DataFrame({"country": names[place], "capital": capitals[other]})


def shares(found: pd.DataFrame, first: str, second: str) -> list[float]:
    """Give the three shares of a pair of columns that must be there once."""
    pair = found[(found["first"] == first) & (found["second"] == second)]
    assert len(pair) == 1
    return pair[SHARES].to_numpy(float)[0].tolist()


LEVELS = {
    "text": [*CAPITALS.values()],
    "whole": pd.array([1, 2, None, 4], dtype="Int64"),
    "number": pd.Series([0.5, 1.5, np.nan, 2.5]),
    "kind": pd.Categorical(["a", None, "c", "d"]),
    "time": pd.to_datetime(["2020-01-01", None, "2020-01-02", "2020-01-03"]),
}


@pytest.mark.parametrize("n_broken", [0, 1, 37, 400])
@pytest.mark.parametrize("name", LEVELS)
def test_a_function_is_broken_by_as_many_rows_as_were_changed(name, n_broken):
    """Of independent columns with four equal shares 3 of 4 rows break a function.

    Of any dtype, where a gap is a value too.
    """
    tables = countries(), countries(400, n_broken)
    for table in tables:
        place = pd.Categorical(table["capital"], [*CAPITALS.values()]).codes
        table["capital"] = pd.Series(LEVELS[name]).take(place).array
    found = broken_relations(*tables)
    assert found.columns.tolist() == COLUMNS
    expected = [0.0, 0.75, n_broken / 400]
    assert shares(found, "country", "capital") == pytest.approx(expected)
    assert found.attrs["any_relation"] == {"real": 0.0, "synthetic": n_broken / 400}
    assert found.attrs["contains_private_statistics"] is True


def test_values_may_exclude_each_other_where_no_column_is_a_function():
    """The wife, with half as many rows as others, is never male; others are both."""
    role = np.repeat(["wife", "child", "other"], [200, 400, 400])
    sex = np.where(np.arange(1_000) % 2 == 0, "male", "female")
    real = pd.DataFrame({"role": role, "sex": np.where(role == "wife", "female", sex)})
    synthetic = pd.DataFrame({"role": role, "sex": sex})
    # 1/5 of the rows are wives, 2/5 are male; half of the synthetic wives are.
    found = broken_relations(real, synthetic)
    assert shares(found, "role", "sex") == pytest.approx([0.0, 0.08, 0.1])


@pytest.mark.parametrize(
    ("n_odd", "expected"), [(8, [0.002, 0.75, 0.1]), (1_332, [0.0, 0.5, 0.0])]
)
def test_exceptions_in_real_rows_do_not_make_a_rule(n_odd, expected):
    """8 of 4,000 real rows have the next capital; where a third has, it is as good."""
    found = broken_relations(countries(4_000, n_odd), countries(400, 40))
    assert shares(found, "country", "capital") == pytest.approx(expected, abs=1e-4)


def test_too_few_rows_or_too_rare_values_are_no_relation():
    """Independent columns must have 50 rows that are absent, and 1 % of the rows."""
    assert broken_relations(countries(64), countries()).empty  # 48
    assert len(broken_relations(countries(68), countries())) == 1  # 51
    for n_rare, n_found in ((180, 0), (220, 1)):
        rare = np.arange(10_000) < n_rare
        table = pd.DataFrame({"rare": rare, "b": rare | (np.arange(10_000) % 2 == 0)})
        assert len(broken_relations(table, table)) == n_found


def test_the_worst_pair_is_first_and_a_row_counts_once():
    """Rows 0..39 break two relations, 40..59 one, and none that of `size`."""
    real = countries().assign(code=lambda t: t["country"].str[:2])
    real["size"] = real["country"].map({name: i for i, name in enumerate(CAPITALS)})
    synthetic = real.assign(capital=countries(400, 60)["capital"])
    synthetic.loc[:39, "code"] = np.roll(real["code"], 1)[:40]
    found = broken_relations(real, synthetic)
    assert len(found) == 6
    assert (found["synthetic"] - found["real"]).is_monotonic_decreasing
    for name, n_broken in {"capital": 60, "code": 40, "size": 0}.items():
        assert shares(found, "country", name)[2] == pytest.approx(n_broken / 400)
    assert found.attrs["any_relation"]["synthetic"] == pytest.approx(60 / 400)


def test_numbers_close_to_the_curve_do_not_break_it_and_far_ones_do():
    """A parabola, by 32nds of the rows: neither direction of it is monotone."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 20_000)
    real = pd.DataFrame({"x": x, "y": x**2})
    near = real.assign(y=real["y"] + rng.normal(0, 0.005, len(x)).clip(-0.01, 0.01))
    far = real.assign(y=(real["y"] + 0.5) % 1)
    assert shares(broken_relations(real, near), "x", "y")[2] == 0.0
    assert shares(broken_relations(real, far), "x", "y")[2] > 0.95
    # A value among many others that is frequent has no neighbours.
    zero = np.arange(len(x)) % 4 == 0
    real = pd.DataFrame({"zero": zero, "x": np.where(zero, 0.0, x)})
    for wrong in ({"x": real["x"].where(~zero, 1e-3)}, {"zero": False}):
        found = broken_relations(real, real.assign(**wrong))
        assert shares(found, "zero", "x")[2] == 0.25


@pytest.mark.parametrize("unit", [None, "D", "timedelta"])
@pytest.mark.parametrize("n_broken", [0, 180])
def test_the_order_of_two_columns_is_seen(unit, n_broken):
    """Delivered 0 to 9 days later, in one cell of 32 of the year; some are earlier."""
    rng = np.random.default_rng(0)
    ordered = rng.integers(0, 365, 1_000)
    tables = []
    for later in (np.arange(1_000) >= 0, np.arange(1_000) >= n_broken):
        days = rng.integers(0, 9, 1_000)
        end = np.where(later, ordered + days, ordered - days - 1)
        table = pd.DataFrame({"end": end, "start": ordered}, dtype=float)
        table.loc[990:, "end"] = np.nan
        if unit is not None:
            convert = pd.to_timedelta if unit == "timedelta" else pd.to_datetime
            table = table.apply(convert, unit="D")
        tables.append(table)
    found = broken_relations(*tables)
    order = found[found["relation"] == "order"]
    assert order[["first", "second"]].to_numpy().tolist() == [["start", "end"]]
    assert order[["real", "synthetic"]].to_numpy().tolist() == [[0.0, n_broken / 1_000]]
    assert order["independent"].iloc[0] == pytest.approx(0.49, abs=0.03)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("n_rows", [60, 500, 5_000])
def test_columns_without_dependence_have_no_relation(n_rows, seed):
    """Rare values, many values, ties and gaps: many combinations are empty by chance.

    But then others have one row, which does not vouch for itself.
    """
    rng = np.random.default_rng([seed, n_rows])
    table = pd.DataFrame(
        {
            f"k{k}": rng.choice(k, n_rows, p=rng.dirichlet(np.full(k, 0.5)))
            for k in (2, 5, 10, 30, 90)
        }
    ).astype(str)
    table["x"] = rng.normal(size=n_rows)
    table["y"] = np.where(rng.random(n_rows) < 0.6, 0.0, rng.exponential(size=n_rows))
    table["z"] = table["x"].sample(frac=1, random_state=1).to_numpy() ** 3
    table = table.mask(rng.random(table.shape) < 0.05)
    found = broken_relations(table, table)
    assert found.empty
    assert found.columns.tolist() == COLUMNS
    assert found.dtypes[SHARES].tolist() == [np.dtype(float)] * 3
    assert found.attrs["any_relation"] == {"real": 0.0, "synthetic": 0.0}


def test_times_beyond_the_reach_of_nanoseconds_are_compared():
    """Such as an open end, 9999-12-31, in half of the rows."""
    first, days = np.datetime64("2000-01-01", "us"), np.arange(200).astype("m8[D]")
    days = pd.Series(first + days)
    table = pd.DataFrame({"until": days, "k": np.arange(200) % 3})
    table.loc[::2, "until"] = pd.Timestamp("9999-12-31").as_unit("us")
    assert marginal_fidelity(table, table, k=1)["until"] == 0
    other = table.assign(until=days)
    assert marginal_fidelity(table, other, k=1)["until"] > 0.4
