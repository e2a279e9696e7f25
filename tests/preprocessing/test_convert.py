"""Every dtype survives the way to numbers and back, and the layout the way to JSON."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth import DPGANSynthesizer
from skdpsynth.preprocessing._convert import (
    factorize,
    numeric_values,
    to_category_series,
    to_series,
)
from skdpsynth.preprocessing._layout import ColumnLayout, TableLayout
from skdpsynth.preprocessing._table import read_table

UTC_TIMES = ["2020-03-29 01:30:00.123456", None, "1969-12-31 23:59:59.999999"]
TIMES = pd.to_datetime(UTC_TIMES)
SPANS = pd.to_timedelta([90_061.5, None, -1e-6], unit="s")


def text(dtype: object) -> pd.Series:
    return pd.Series(["b", None, "é"], dtype=dtype)


def whole(dtype: str) -> pd.Series:
    """Give the ends of the dtype, as far as a float64 holds them, and 0."""
    limits = np.iinfo(dtype.lower().removesuffix("[pyarrow]"))
    ends = [max(limits.min, -(2**53)), 0, min(limits.max, 2**53)]
    if dtype[0].isupper() or dtype.endswith("]"):
        ends[1] = None
    return pd.Series(ends, dtype=dtype)


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
COLUMNS: dict[str, pd.Series] = {
    **{name: whole(name) for name in INTEGERS},
    **{name: whole(name) for name in ("Int8", "Int64", "UInt16", "UInt64")},
    **{f"{name}[pyarrow]": whole(f"{name}[pyarrow]") for name in INTEGERS},
    **{
        name: pd.Series([1.5, None, -0.099], dtype=name)
        for name in (
            "float16",
            "float32",
            "float64",
            "Float32",
            "Float64",
            "float[pyarrow]",
            "double[pyarrow]",
            "halffloat[pyarrow]",
        )
    },
    "float big-endian": pd.Series([1.5, None, -0.099], dtype=">f4"),
    "bool": pd.Series([True, False, True]),
    "boolean": pd.Series([True, None, False], dtype="boolean"),
    "bool[pyarrow]": pd.Series([True, None, False], dtype="bool[pyarrow]"),
    "object bool": pd.Series([True, None, False], dtype=object),
    "object": text(object),
    "str": text("str"),
    "string": text("string"),
    "string[python]": text("string[python]"),
    "arrow string": text(pd.ArrowDtype(pa.string())),
    "large_string": text("large_string[pyarrow]"),
    "category": pd.Series(pd.Categorical(["b", None, "a"])),
    "category ordered": pd.Series(
        pd.Categorical(["b", None, "a"], ["b", "z", "a"], ordered=True)
    ),
    "category object": text(object).astype("category"),
    "category int": pd.Series(pd.Categorical([3, None, 1])),
    "category bool": pd.Series(pd.Categorical([True, None, False])),
    "category float": pd.Series(pd.Categorical([0.5, None, -1.5])),
    "category time": pd.Series(TIMES).astype("category"),
    **{
        f"datetime64[{unit}]": pd.Series(TIMES.floor(unit).as_unit(unit))
        for unit in ("s", "ms", "us", "ns")
    },
    "zoned": pd.Series(TIMES.tz_localize("UTC").tz_convert("Europe/Berlin")),
    "fixed offset": pd.Series(pd.to_datetime(["2020-01-01T10:00+02:00", None, None])),
    "timestamp": pd.Series(TIMES, dtype=pd.ArrowDtype(pa.timestamp("us"))),
    "timestamp zoned": pd.Series(
        TIMES.tz_localize("UTC"), dtype=pd.ArrowDtype(pa.timestamp("ns", "Asia/Tokyo"))
    ),
    **{
        f"timedelta64[{unit}]": pd.Series(SPANS.floor(unit).as_unit(unit))
        for unit in ("s", "us", "ns")
    },
    "duration": pd.Series(SPANS, dtype=pd.ArrowDtype(pa.duration("us"))),
}
KINDS = {
    "continuous": ("float", "Float", "double", "half"),
    "integer": ("int", "uint", "Int", "UInt"),
    "boolean": ("bool",),
    "datetime": ("datetime", "zoned", "fixed", "timestamp"),
    "timedelta": ("timedelta", "duration"),
    "categorical": ("object", "str", "arrow", "large", "category"),
}


def there_and_back(series: pd.Series, column: ColumnLayout) -> pd.Series:
    """Send a column through the numbers that a network would see."""
    if column.kind != "categorical":
        return to_series(*numeric_values(series, column), column)
    codes, keys = factorize(series)
    back = to_category_series(codes, keys, column)
    if isinstance(series.dtype, pd.CategoricalDtype):  # the layout knows no categories
        return back.cat.set_categories(series.cat.categories)
    return back


@pytest.mark.parametrize("name", COLUMNS)
def test_every_dtype_comes_back(name):
    """Dtype, values and missing values are the same after the whole way."""
    frame = pd.DataFrame({name: COLUMNS[name]})
    read, layout = read_table(frame)
    column = layout.columns[0]
    back = there_and_back(read[name], column).to_frame()
    pd.testing.assert_frame_equal(back, frame, check_exact=True)
    assert list(back.dtypes) == list(frame.dtypes)


@pytest.mark.parametrize("name", COLUMNS)
def test_kind_and_missing_follow_the_dtype(name):
    column = ColumnLayout.of(name, COLUMNS[name])
    matching = [kind for kind, starts in KINDS.items() if name.startswith(starts)]
    assert column.kind == matching[-1]
    plain_numpy = name in [*INTEGERS, "bool"]
    assert column.can_be_missing is not plain_numpy
    # Complete and empty columns say the same: nothing is read off the values.
    for part in (COLUMNS[name].dropna(), COLUMNS[name].iloc[:0]):
        other = ColumnLayout.of(name, part)
        assert (other.kind, other.can_be_missing) == (
            column.kind,
            column.can_be_missing,
        )


@pytest.mark.parametrize("name", COLUMNS)
def test_labels_of_every_dtype_come_back(name):
    """As a label, a column of any kind goes through codes."""
    series = COLUMNS[name]
    column = ColumnLayout.of(name, series)
    if column.kind == "categorical":
        return
    codes, keys = factorize(series)
    assert keys == sorted(keys)
    assert all(not isinstance(key, np.generic) for key in keys)
    back = to_category_series(codes, keys, column)
    pd.testing.assert_series_equal(back, series.rename(name), check_exact=True)


def test_all_dtypes_in_one_table_and_layout_survives_json():
    frame = pd.DataFrame(COLUMNS)
    frame[3] = [1, 2, 3]
    frame[("a", 1)] = [True, False, True]
    _, layout = read_table(frame, target="object")
    text_form = json.dumps(layout.to_dict(), allow_nan=False)
    back = TableLayout.from_dict(json.loads(text_form))
    assert back == layout
    assert [column.name for column in back.columns] == list(frame.columns)
    for column, name in zip(back.columns, frame.columns, strict=True):
        assert there_and_back(frame[name], column).dtype == frame[name].dtype
    assert back.target_column == back.columns[list(frame.columns).index("object")]
    assert len(back.feature_columns) == frame.shape[1] - 1


def test_layout_keeps_no_category():
    frame = pd.DataFrame({"a": pd.Categorical(["sEcReT", "x"], ordered=True)})
    _, layout = read_table(frame)
    dtype = layout.columns[0].dtype
    assert dtype.ordered
    assert len(dtype.categories) == 0
    assert "sEcReT" not in json.dumps(layout.to_dict()) + repr(layout)


finite = st.floats(-1e12, 1e12, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.tuples(finite, st.booleans()), min_size=1, max_size=6),
    name=st.sampled_from(
        [key for key in COLUMNS if not key.startswith(KINDS["categorical"])]
    ),
)
def test_any_number_becomes_a_value_of_the_dtype(values, name):
    """Out of range numbers are clipped; a second trip changes nothing."""
    column = ColumnLayout.of(name, COLUMNS[name])
    numbers = np.array([value for value, _ in values])
    missing = np.array([gone for _, gone in values])
    before = numbers.copy(), missing.copy()
    once = to_series(numbers, missing, column)
    assert once.dtype == COLUMNS[name].dtype
    assert np.array_equal(
        once.isna().to_numpy(dtype=bool), missing & column.can_be_missing
    )
    again = to_series(*numeric_values(once, column), column)
    if "ns" not in name and "zoned" not in name:  # beyond 2**53 microseconds
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
    back = to_series(np.array([-1e30, 1e30, -1.6, 2.4]), np.zeros(4, bool), column)
    assert back.tolist() == expected


def test_missing_is_ignored_where_the_dtype_has_none():
    column = ColumnLayout.of("a", pd.Series([1, 2]))
    assert to_series(np.array([3.0]), np.array([True]), column).tolist() == [3]
    with pytest.raises(ValueError, match="cannot hold the missing values"):
        to_category_series(np.array([-1]), [1, 2], column)


def test_numbers_of_times_are_seconds_since_1970():
    """By hand: 2000-01-01 is 10,957 days later; Berlin is one hour ahead in winter."""
    for zone, shift in ((None, 0), ("Europe/Berlin", -3600)):
        series = pd.Series([pd.Timestamp("2000-01-01", tz=zone), pd.NaT])
        values, missing = numeric_values(series, ColumnLayout.of("a", series))
        assert values.tolist() == [10_957 * 86_400 + shift, 0.0]
        assert missing.tolist() == [False, True]
    spans = pd.Series(pd.to_timedelta(["1 day", None]))
    assert numeric_values(spans, ColumnLayout.of("a", spans))[0].tolist() == [86_400, 0]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_microseconds_survive(unit):
    """A float64 of seconds is coarser than a nanosecond but finer than half a
    microsecond until 2100.
    """
    ticks = np.arange(2_000) * 997_331 + 10**15 * np.arange(4)[:, None]
    series = pd.Series(ticks.ravel().astype("M8[us]").astype(f"M8[{unit}]"))
    column = ColumnLayout.of("a", series)
    back = to_series(*numeric_values(series, column), column)
    assert np.array_equal(back.to_numpy(), series.to_numpy())


@pytest.mark.parametrize("kind", ["timestamp", "duration"])
def test_times_of_arrow_need_no_calendar(kind):
    """Seconds beyond what nanoseconds hold, in a zone."""
    arrow = (
        pa.timestamp("s", tz="Asia/Tokyo") if kind == "timestamp" else pa.duration("s")
    )
    seconds = [253_402_214_400, None, -62_000_000_000]
    series = pd.Series(pd.arrays.ArrowExtensionArray(pa.array(seconds, type=arrow)))
    values, missing = numeric_values(series, ColumnLayout.of("a", series))
    assert values.tolist() == [253_402_214_400.0, 0.0, -62_000_000_000.0]
    assert missing.tolist() == [False, True, False]


def test_missing_numbers_are_zero_with_a_mask():
    for series in (
        pd.Series([2.0, None]),
        pd.Series([2, None], dtype="Int8"),
        pd.Series([2, None], dtype="int8[pyarrow]"),
    ):
        values, missing = numeric_values(series, ColumnLayout.of("a", series))
        assert values.dtype == np.float64
        assert values.tolist() == [2.0, 0.0]
        assert missing.tolist() == [False, True]


@pytest.mark.parametrize(
    "series",
    [
        pd.Series(["b", "a", None, "b"]),
        pd.Series(["b", "a", None, "b"], dtype=object),
        pd.Series(pd.Categorical(["b", "a", None, "b"], ["z", "b", "a"])),
    ],
)
def test_keys_are_sorted_whatever_the_order_of_rows(series):
    codes, keys = factorize(series)
    assert keys == ["a", "b"]
    assert codes.tolist() == [1, 0, -1, 1]
    reverse, same = factorize(series.iloc[::-1])
    assert same == keys
    assert reverse.tolist() == codes.tolist()[::-1]


def test_factorize_without_values():
    codes, keys = factorize(pd.Series([None, None], dtype="str"))
    assert keys == []
    assert codes.tolist() == [-1, -1]


def test_category_list_is_the_one_given():
    given_column = pd.Series(pd.Categorical(["b", "a"], ["b", "a"], ordered=True))
    column = ColumnLayout.of("c", given_column)
    back = to_category_series(np.array([0, -1, 1]), ["a", "b"], column)
    assert back.cat.categories.tolist() == ["a", "b"]
    assert back.cat.ordered
    assert back.isna().tolist() == [False, True, False]


@pytest.mark.parametrize("of_arrow", [True, False])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo", "America/Los_Angeles"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_beyond_the_calendar_fit_as_categories_and_labels(unit, zone, of_arrow):
    """Of years that no Timestamp has: one row must not decide whether a fit ends."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ends = (-62_135_596_800, 253_402_300_799)
    extremes = [-(2**63) + 1, 2**63 - 1, *(per_second * end for end in ends)]
    for extreme in extremes:
        if not -(2**63) < extreme < 2**63 or (not of_arrow and extreme in extremes[:2]):
            continue
        times = pa.array([0, 1, 2, extreme], pa.int64())
        times = times.cast(pa.timestamp(unit, zone if of_arrow else None))
        listed = pd.Index(pd.array(times, pd.ArrowDtype(times.type)))
        if not of_arrow:
            listed = pd.DatetimeIndex(times.to_numpy())
            listed = listed if zone is None else listed.tz_localize("UTC")
            listed = listed if zone is None else listed.tz_convert(zone)
        codes = [0, 1, 2] * 13 + [3]
        column = pd.Series(listed).take(codes).reset_index(drop=True)
        if of_arrow or zone is None:  # pandas 2 cannot make these categories
            column = pd.Series(pd.Categorical.from_codes(codes, listed))
        table = pd.DataFrame({"time": column, "number": range(40)})
        for target in (None, "time"):
            model = DPGANSynthesizer(epsilon=1.0, target=target, random_state=0)
            assert len(model.fit(table).sample(5)) == 5
        found, keys = factorize(table["time"])
        assert keys[found[0]] == pd.Timestamp(0, tz=zone)
