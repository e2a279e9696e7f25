"""Tables become the matrices that the docstring describes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.metrics import check_tables, tstr_scores

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
    numbered = [
        own.assign(row=np.arange(len(own)), label=np.arange(len(own)) % 2)
        for own in tables
    ]
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
        (
            GOOD.rename(columns={"a": "b"}),
            InvalidTableError,
            r"\['a'\] and adds \['b'\]",
        ),
        (GOOD.iloc[:0], InvalidTableError, "at least one row"),
        (GOOD.assign(y=[0, None]), InvalidTableError, "complete target column"),
        (pd.concat([GOOD, GOOD], axis=1), InvalidTableError, "distinct column names"),
        (GOOD.to_numpy(), TypeError, "'second' parameter must be a table of pandas"),
    ],
)
def test_tables_that_cannot_be_compared_are_refused(table, error, message):
    with pytest.raises(error, match=message):
        check_tables("y", first=GOOD, second=table)
