"""Every dtype survives the way to numbers and back, and the layout the way to JSON."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from _columns import supported, with_holes
from hypothesis import given, settings, strategies as st

from skdpsynth.privacy import Parts
from skdpsynth.table import (
    CategoryDomain,
    ColumnLayout,
    TableLayout,
    encode_rows,
    numeric_values,
    open_table,
    total_keys,
)

KINDS = {
    "float": "continuous",
    "whole": "integer",
    "truth": "boolean",
    "time": "datetime",
    "zoned": "datetime",
    "span": "timedelta",
    "text": "categorical",
    "other": "categorical",
}
RNG = np.random.default_rng(0)
COLUMNS = {
    name: with_holes(maker.make(RNG, 12, "many"), "third", RNG)
    for name, maker in supported().items()
}
MEASURED = [n for n, m in supported().items() if KINDS[m.kind] != "categorical"]


def as_label(series: pd.Series, column: ColumnLayout) -> pd.Series:
    """Send a column through the codes of all its keys."""
    table = series.to_frame(column.name)
    (counts,) = total_keys(Parts.of(table), [column.name])
    keys = sorted(key for key in counts if key is not None)
    rows = encode_rows(table, [column], [CategoryDomain(tuple(keys), nullable=True)])
    codes = rows.category_codes[:, 0].astype(int)
    return column.to_category_series(np.where(codes > len(keys), -1, codes), keys)


def there_and_back(series: pd.Series, column: ColumnLayout) -> pd.Series:
    """Send a column through the numbers that a network would see."""
    if column.kind != "categorical":
        return column.to_series(*numeric_values(series, column))
    back = as_label(series, column)
    if isinstance(series.dtype, pd.CategoricalDtype):  # the layout knows no categories
        return back.cat.set_categories(series.cat.categories)
    return back


@pytest.mark.parametrize("name", COLUMNS)
def test_every_dtype_comes_back(name):
    """Dtype, values and missing values, through numbers and as a label."""
    table = pd.DataFrame({name: COLUMNS[name]})
    read, layout = open_table(table)
    column = layout.columns[0]
    back = there_and_back(read[name], column)
    if name in MEASURED:
        label = as_label(read[name], column)
        pd.testing.assert_series_equal(label, table[name], check_exact=True)
    if name in MEASURED and " ns" in name:  # doubles of seconds are coarser
        assert back.dtype == table[name].dtype
        assert (back - table[name]).abs().max() < pd.Timedelta("1us")
    else:
        pd.testing.assert_series_equal(back, table[name], check_exact=True)


@pytest.mark.parametrize("name", COLUMNS)
def test_kind_and_missing_follow_the_dtype(name):
    """Complete and empty columns say the same: nothing is read off the values."""
    dtype = COLUMNS[name].dtype
    plain_numpy = isinstance(dtype, np.dtype) and dtype.kind in "iub"
    for part in (COLUMNS[name], COLUMNS[name].dropna(), COLUMNS[name].iloc[:0]):
        column = ColumnLayout.of(name, part)
        assert column.kind == KINDS[supported()[name].kind]
        assert column.can_be_missing is not plain_numpy


def test_all_dtypes_in_one_table_and_layout_survives_json():
    frame = pd.DataFrame(COLUMNS)
    frame[3] = range(12)
    frame["a", 1] = True
    _, layout = open_table(frame, target="text 0 object")
    text_form = json.dumps(layout.to_dict(), allow_nan=False)
    back = TableLayout.from_dict(json.loads(text_form))
    assert back == layout
    assert [column.name for column in back.columns] == list(frame.columns)
    assert back.target_column == back.columns[list(frame).index("text 0 object")]
    assert len(back.feature_columns) == frame.shape[1] - 1


finite = st.floats(-1e12, 1e12, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.tuples(finite, st.booleans()), min_size=1, max_size=6),
    name=st.sampled_from(MEASURED),
)
def test_any_number_becomes_a_value_of_the_dtype(values, name):
    """Out of range numbers are clipped; a second trip changes nothing."""
    column = ColumnLayout.of(name, COLUMNS[name])
    numbers = np.array([value for value, _ in values])
    missing = np.array([gone for _, gone in values])
    before = numbers.copy(), missing.copy()
    once = column.to_series(numbers, missing)
    assert once.dtype == COLUMNS[name].dtype
    assert once.isna().tolist() == (missing & column.can_be_missing).tolist()
    again = column.to_series(*numeric_values(once, column))
    if "ns" not in name and "zone" not in name:  # beyond 2**53 microseconds
        pd.testing.assert_series_equal(again, once, check_exact=True)
    assert np.array_equal(before[0], numbers)
    assert np.array_equal(before[1], missing)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("int8", [-128, 127, -2, 2]),
        ("uint8", [0, 255, 0, 2]),
        ("int64", [-(2**63), 2**63 - 1024, -2, 2]),
        ("uint64", [0, 2**64 - 2048, 0, 2]),
        ("Int16", [-(2**15), 2**15 - 1, -2, 2]),
    ],
)
def test_integers_are_rounded_and_clipped(dtype, expected):
    column = ColumnLayout("a", pd.Series(dtype=dtype).dtype, "integer", False)
    back = column.to_series(np.array([-1e30, 1e30, -1.6, 2.4]), np.zeros(4, bool))
    assert back.tolist() == expected


def test_numbers_of_times_are_seconds_since_1970():
    """By hand: 2000-01-01 is 10,957 days later; Berlin is one hour ahead in winter."""
    for zone, shift in ((None, 0), ("Europe/Berlin", -3600)):
        series = pd.Series([pd.Timestamp("2000-01-01", tz=zone), pd.NaT])
        values, missing = numeric_values(series, ColumnLayout.of("a", series))
        assert values.tolist() == [10_957 * 86_400 + shift, 0.0]
        assert missing.tolist() == [False, True]
    spans = pd.Series(pd.to_timedelta(["1 day", None]))
    assert numeric_values(spans, ColumnLayout.of("a", spans))[0].tolist() == [86_400, 0]
    # Arrow's need no calendar: seconds beyond what nanoseconds hold.
    seconds = [253_402_214_400, None, -62_000_000_000]
    for kind in (pa.timestamp("s", tz="Asia/Tokyo"), pa.duration("s")):
        series = pd.Series(pd.arrays.ArrowExtensionArray(pa.array(seconds, kind)))
        values, missing = numeric_values(series, ColumnLayout.of("a", series))
        assert values.tolist() == [253_402_214_400.0, 0.0, -62_000_000_000.0]
        assert missing.tolist() == [False, True, False]
