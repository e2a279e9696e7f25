"""Tables become the matrices that the docstring describes."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsynth.exceptions import InvalidTableError, MissingDependencyError
from skdpsynth.metrics import (
    check_tables,
    default_classifiers,
    resolve_classifiers,
    tstr_scores,
)

MOST = np.finfo(np.float16).max


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps the matrices that it is given, in a list that all share."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.seen.append(X)
        return self

    def predict_proba(self, X):
        self.seen.append(X)
        return np.full((len(X), 2), 0.5)


def matrices(*tables):
    """Return what a classifier is given of two tables, in the order of their rows."""
    Recorder.seen.clear()
    places = [np.arange(len(own)) for own in tables]
    numbered = (
        t.assign(row=p, label=p % 2) for t, p in zip(tables, places, strict=True)
    )
    tstr_scores(*numbered, target="label", classifiers={"own": Recorder()})
    return [X[X[:, -1].argsort(), :-1] for X in Recorder.seen]


def standard(train, other):
    """Standardise by the first of two columns."""
    train, other = np.array(train, float), np.array(other, float)
    return [(own - train.mean()) / train.std() for own in (train, other)]


def check_numbers(tables, train, other):
    """A column of both tables is these numbers, standardised by the first."""
    found = [X[:, 0] for X in matrices(*tables)]
    for own, expected in zip(found, standard(train, other), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-12, atol=1e-12)


def column(*values: object, dtype: object = None) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(list(values), dtype=dtype)})


def test_missing_numbers_become_the_median_of_the_first_table():
    tables = column(1.0, 2.0, 9.0, np.nan), column(np.nan, 100.0)
    check_numbers(tables, [1, 2, 9, 2], [2, 100])


@pytest.mark.parametrize("dtype", ["float64", "Int64", "Float64", "boolean", "object"])
def test_a_column_without_a_value_says_nothing(dtype):
    for X in matrices(column(None, None, dtype=dtype), column(4.0, np.nan)):
        assert X.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("dtype", ["str", "object", "category"])
def test_categories_are_one_hot_over_both_tables(dtype):
    """Those of the second table alone say nothing: they are constant in the first."""
    tables = column(*"xyx", dtype=dtype), column("z", None, "y", dtype=dtype)
    x, y = standard([1, 0, 1], [0, 0, 0]), standard([0, 1, 0], [0, 0, 1])
    for X, *expected in zip(matrices(*tables), x, y, strict=True):
        assert X.shape[1] == 4  # x, y, z and missing
        shown = sorted(own.tolist() for own in X.T if own.any())
        np.testing.assert_allclose(shown, sorted(own.tolist() for own in expected))


def test_booleans_and_times_are_numbers():
    flags = column(True, False, True), column(True, None, False, dtype="boolean")
    check_numbers(flags, [1, 0, 1], [1, 1, 0])
    days = pd.to_datetime(["2020-01-01", None, "2020-01-04", "2020-01-03"])
    for zone in (None, "Asia/Tokyo"):
        times = pd.DataFrame({"a": days.tz_localize(zone)})
        check_numbers((times, times), [1, 3, 4, 3], [1, 3, 4, 3])
    lengths = pd.DataFrame({"a": pd.to_timedelta(["1h", "2h", "4h"])})
    seconds = column(3600.0, 7200.0)
    check_numbers((lengths, lengths), [1, 2, 4], [1, 2, 4])
    with pytest.raises(InvalidTableError, match="timedelta"):
        matrices(lengths, seconds)


@pytest.mark.parametrize(
    ("train", "other", "message"),
    [
        ([1.0, 2.0], ["x", "x"], "category and number"),
        ([1.0, 2.0], [pd.Timestamp(0)] * 2, "datetime and number"),
        ([1.0, np.inf], [1.0, 2.0], "finite values in the column 'a'"),
        ([1.0, 2.0], [1.0, -np.inf], "finite values in the column 'a'"),
        ([1j, 1j], [1j, 1j], "complex"),
    ],
)
def test_columns_that_no_classifier_takes_are_refused(train, other, message):
    with pytest.raises(InvalidTableError, match=message):
        matrices(column(*train), column(*other))


def test_columns_are_standardised_by_the_first_table():
    """Far numbers end at a limit; constants are 0, even if their mean is inexact."""
    train = pd.DataFrame({"a": [1.0, 3.0, 8.0], "b": 5.0, "c": 0.1})
    other = pd.DataFrame({"a": [4.0, 1e300], "b": [7.0, 5.0], "c": [0.2, 0.1]})
    first, second = matrices(train, other)
    np.testing.assert_allclose(first[:, 0], (train["a"] - 4) / np.sqrt(26 / 3))
    np.testing.assert_array_equal(second[:, 0], [0, MOST])
    assert not first[:, 1:].any()
    assert not second[:, 1:].any()


GOOD = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]})


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (GOOD.drop(columns="y"), InvalidTableError, "target column 'y' in 'second'"),
        (GOOD.rename(columns={"a": "b"}), InvalidTableError, r"'a'\] and adds \['b'"),
        (GOOD.iloc[:0], InvalidTableError, "at least one row"),
        (GOOD.assign(y=[0, None]), InvalidTableError, "complete target column"),
        (pd.concat([GOOD, GOOD], axis=1), InvalidTableError, "distinct column names"),
        (GOOD.to_numpy(), TypeError, "'second' parameter must be a table of pandas"),
    ],
)
def test_tables_that_cannot_be_compared_are_refused(table, error, message):
    with pytest.raises(error, match=message):
        check_tables("y", first=GOOD, second=table)


# --- The panel is the one of the PATE-GAN paper ---------------------------------------


# What differs from the defaults of the library, random_state=0 apart.
NETWORK = {"hidden_layer_sizes": (18, 18, 18), "activation": "tanh", "max_iter": 60}
STATED = {
    "LogisticRegression": {"max_iter": 500},
    "MLPClassifier": NETWORK,
    "XGBClassifier": {"n_jobs": 1},
}
# In the order of Table 1 of the PATE-GAN paper.
TWELVE = [
    *("LogisticRegression", "RandomForestClassifier", "GaussianNB", "BernoulliNB"),
    *("LinearSVC", "DecisionTreeClassifier", "LinearDiscriminantAnalysis"),
    *("AdaBoostClassifier", "BaggingClassifier", "GradientBoostingClassifier"),
    *("MLPClassifier", "XGBClassifier"),
]


def test_twelve_with_stated_parameters():
    panel = default_classifiers()
    assert list(panel) == TWELVE
    for name, classifier in panel.items():
        assert type(classifier).__name__ == name
        params, defaults = classifier.get_params(), type(classifier)().get_params()
        expected = defaults | STATED.get(name, {})
        if "random_state" in defaults:
            expected["random_state"] = 0
        # XGBoost's `missing` is NaN, which is not equal to itself.
        assert repr(sorted(params.items())) == repr(sorted(expected.items()))
    assert panel["RandomForestClassifier"].n_estimators == 100


def test_missing_xgboost_names_both_distributions(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingDependencyError, match=r"`xgboost`.*`xgboost-cpu`"):
        default_classifiers()
    two = ["GaussianNB", "LinearSVC"]
    assert list(resolve_classifiers(two)[0]) == two


def test_classifiers_have_the_names_given_or_those_of_their_classes():
    """One alone is a list too, also a forest, whose length cannot be asked for."""
    panel, are_own = resolve_classifiers("GaussianNB")
    assert (list(panel), are_own) == (["GaussianNB"], False)
    named = {"mine": GaussianNB(var_smoothing=0.1)}
    assert resolve_classifiers(named) == (named, True)
    forest, pipeline = RandomForestClassifier(), make_pipeline(StandardScaler())
    own = [GaussianNB(), forest, GaussianNB(var_smoothing=0.1), pipeline, GaussianNB()]
    names = ["GaussianNB", "RandomForestClassifier", "GaussianNB 2", "Pipeline"]
    panel, are_own = resolve_classifiers(own)
    assert list(panel) == [*names, "GaussianNB 3"]
    assert all(a is b for a, b in zip(panel.values(), own, strict=True))
    assert are_own
    for alone in (forest, (forest,)):
        assert resolve_classifiers(alone) == ({"RandomForestClassifier": forest}, True)


@pytest.mark.parametrize(
    ("classifiers", "message"),
    [
        (["GaussianNB", "XGBoostRegressor"], r"Got \['XGBoostRegressor'\] instead"),
        ([GaussianNB(), "GaussianNB"], r"not both\. Got \[GaussianNB\(\)\] instead"),
        ([GaussianNB], r"GaussianNB'>\] instead"),
        ([3], r"Got \[3\] instead"),
        ([], "at least one"),
        ({"mean": GaussianNB()}, "row of means"),
    ],
)
def test_other_panels_are_refused(classifiers, message):
    with pytest.raises(ValueError, match=message):
        resolve_classifiers(classifiers)


def two_classes(seed: int, n_rows: int = 200) -> pd.DataFrame:
    """Make a label that follows from the sign of a product: no line separates it."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(2, n_rows))
    return pd.DataFrame({"u": u, "v": v, "y": np.where(u * v > 0, "same", "other")})


def test_histogram_boosting_is_beside_the_twelve_and_not_in_their_mean():
    """By its name; an own one of its class is one among others."""
    train, test = two_classes(0), two_classes(1)

    def scores(classifiers):
        return tstr_scores(train, test, target="y", classifiers=classifiers)

    two = scores(["GaussianNB", "LogisticRegression"])
    three = scores(["GaussianNB", "HistGradientBoosting", "LogisticRegression"])
    pd.testing.assert_frame_equal(three.drop(index="HistGradientBoosting"), two)
    among = scores([GaussianNB(), HistGradientBoostingClassifier(random_state=0)])
    assert among.loc["mean"].equals(among[:2].mean().rename("mean"))
    boosted = three.loc["HistGradientBoosting"]
    assert boosted.tolist() == among.iloc[1].tolist()
    assert scores("HistGradientBoosting").loc["mean"].tolist() == boosted.tolist()
    assert boosted["auroc"] > 0.9 > two.loc["mean", "auroc"]
