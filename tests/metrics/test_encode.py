"""Tables become the matrices that the docstring describes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.metrics import check_tables
from skdpsynth.metrics._encode import encode_features, standardize


def column(*values: object, dtype: object = None) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(list(values), dtype=dtype)})


@pytest.mark.parametrize("dtype", ["float64", "Int64", "Float64", "boolean", "object"])
def test_missing_numbers_become_the_median_of_the_first_table(dtype):
    """Or 0 where all are missing."""
    tables = column(1.0, 2.0, 9.0, np.nan), column(np.nan, 100.0)
    train, other, _ = encode_features(*tables)
    assert train[:, 0].tolist() == [1, 2, 9, 2]
    assert other[:, 0].tolist() == [2, 100]
    tables = column(None, None, dtype=dtype), column(4.0, np.nan)
    train, other, _ = encode_features(*tables)
    assert train[:, 0].tolist() == [0, 0]
    assert other[:, 0].tolist() == [4, 0]


@pytest.mark.parametrize("dtype", ["str", "object", "category"])
def test_categories_are_one_hot_over_both_tables(dtype):
    train, other, owner = encode_features(
        column("x", "y", "x", dtype=dtype), column("z", None, dtype=dtype)
    )
    assert train.shape[1] == other.shape[1] == 4  # x, y, z and missing
    assert owner.tolist() == [0, 0, 0, 0]
    both = np.vstack([train, other])
    np.testing.assert_array_equal(both.sum(axis=1), 1)
    # Same category, same code: only rows 0 and 2 share one.
    same = both @ both.T
    np.testing.assert_array_equal(np.argwhere(np.triu(same, 1)), [[0, 2]])


def test_booleans_and_times_are_numbers():
    tables = column(True, False), column(True, None, dtype="boolean")
    train, other, _ = encode_features(*tables)
    assert train[:, 0].tolist() == [1, 0]
    assert other[:, 0].tolist() == [1, 0.5]
    days = pd.to_datetime(["2020-01-01", None, "2020-01-03"])
    for zone in (None, "Asia/Tokyo"):
        times = pd.DataFrame({"a": days.tz_localize(zone)})
        encoded = encode_features(times, times)[0][:, 0]
        assert np.diff(encoded).tolist() == [86_400, 86_400]
    lengths = pd.DataFrame({"a": pd.to_timedelta(["1h", "2h"])})
    assert encode_features(lengths, lengths)[0][:, 0].tolist() == [3600, 7200]


@pytest.mark.parametrize(
    ("train", "other", "message"),
    [
        (column(1.0), column("x"), "category and number"),
        (column(1.0), column(pd.Timestamp(0)), "datetime and number"),
        (column(1.0, np.inf), column(1.0), "finite values in the column 'a'"),
        (column(1.0), column(-np.inf), "finite values in the column 'a'"),
        (column(1j), column(1j), "complex"),
    ],
)
def test_columns_that_no_classifier_takes_are_refused(train, other, message):
    with pytest.raises(InvalidTableError, match=message):
        encode_features(train, other)


def test_standardised_by_the_first_table():
    train = np.array([[1.0, 5.0, 0.1], [3.0, 5.0, 0.1], [8.0, 5.0, 0.1]])
    other = np.array([[4.0, 7.0, 0.2], [1e300, 5.0, 0.1]])
    first, second = standardize(train, other)
    np.testing.assert_allclose(first[:, 0], (train[:, 0] - 4) / np.sqrt(26 / 3))
    np.testing.assert_array_equal(second[:, 0], [0, np.finfo(np.float16).max])
    # Constant columns, also where the mean is not exact.
    assert not first[:, 1:].any()
    assert not second[:, 1:].any()


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.floats(-1e6, 1e6),
            st.none() | st.sampled_from("abc"),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    ),
    at=st.integers(0, 8),
)
def test_any_table_becomes_finite_and_of_one_width(rows, at):
    table = pd.DataFrame(rows, columns=["a", "b", "c"]).astype({"a": "float64"})
    other = table.iloc[at % len(rows) :]
    first, second, owner = encode_features(table, other)
    assert first.shape == (len(table), len(owner))
    assert second.shape == (len(other), len(owner))
    for matrix in standardize(first, second):
        assert np.isfinite(matrix).all()
    # A row is encoded the same in either table.
    np.testing.assert_array_equal(first[at % len(rows) :], second)


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
