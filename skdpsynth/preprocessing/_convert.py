"""Columns to plain NumPy arrays and back, without losing dtype or container."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain, compress, count, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.privacy._parts import changed_parts
from skdpsynth.schema._dtypes import (
    as_moments,
    is_date,
    is_missing,
    is_object,
    kind_of_dtype,
)
from skdpsynth.schema._values import plain
from skdpsynth.utils._containers import column_like, speaks_arrow, table_like

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._layout import ColumnLayout
    from skdpsynth.privacy._parts import Parts

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400  # seconds
_YEAR_1, _YEAR_9999 = -62_135_596_800.0, 253_402_300_799.0  # seconds since 1970
_YEAR_1700 = -8_520_336_000


def numeric_values(series: pd.Series, column: ColumnLayout) -> tuple[Floats, Bools]:
    """Return a column that is not categorical as numbers, and where it is missing.

    Times (since 1970 UTC) and durations are in seconds, and what is missing is 0. A
    float64 holds integers up to 2**53 and present-day times to the microsecond.
    """
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
        values = series.to_numpy(dtype=np.float64, copy=True)
        missing = np.isnan(values)
        values[missing] = 0.0
        return values, missing
    missing = is_missing(series)
    present = series[~missing]
    values = np.zeros(len(series))
    if column.kind in ("datetime", "timedelta"):
        ticks, per_second = _whole_ticks(present, column)
        # Two steps: int64 nanoseconds lose bits when they become a float at once.
        seconds, rest = np.divmod(ticks, per_second)
        values[~missing] = seconds + rest / per_second
    else:
        values[~missing] = present.to_numpy(dtype=np.float64)
    return values, missing


def _whole_ticks(present: pd.Series, column: ColumnLayout) -> tuple[Ints, int]:
    """Return times or durations as whole ticks, and how many of them are a second."""
    if isinstance(column.dtype, pd.ArrowDtype):
        import pyarrow as pa

        # Not by way of pandas, whose nanoseconds end in the years 1677 and 2262.
        moments = as_moments(present)
        ticks = pa.array(moments.array).cast(pa.int64()).to_numpy()
        return ticks, _PER_SECOND[moments.dtype.pyarrow_dtype.unit]
    is_datetime = column.kind == "datetime"
    index = (pd.DatetimeIndex if is_datetime else pd.TimedeltaIndex)(present)
    return index.asi8, _PER_SECOND[index.unit]


def to_series(values: Floats, missing: Bools, column: ColumnLayout) -> pd.Series:
    """Return numbers as a column of the dtype that came; undo `numeric_values`.

    They are clipped to what the dtype can hold; `missing` is ignored where it has none.
    """
    missing = missing & column.can_be_missing  # a copy: the series may keep it
    present = np.where(missing, 0.0, values) if missing.any() else values
    raw = _raw_values(present, column)
    dtype = column.dtype
    array: Any = raw
    if isinstance(dtype, pd.ArrowDtype):
        import pyarrow as pa

        converted = pa.array(raw, mask=missing)
        if is_date(dtype):  # counts days, in fewer bytes
            converted = pa.array(raw // _DAY, mask=missing).cast(pa.int32())
        converted = converted.cast(dtype.pyarrow_dtype)
        array = pd.arrays.ArrowExtensionArray(converted)
    elif isinstance(dtype, pd.DatetimeTZDtype):
        moments = raw.view(f"M8[{dtype.unit}]")
        moments[missing] = np.datetime64("NaT")
        array = pd.DatetimeIndex(moments).tz_localize("UTC").tz_convert(dtype.tz)
    elif not isinstance(dtype, np.dtype):  # a masked boolean, integer or float
        array = dtype.construct_array_type()(raw, missing)
    elif dtype.kind in "Mm":
        array = raw.view(f"{dtype.kind}8[{np.datetime_data(dtype)[0]}]")
        array[missing] = np.array("NaT", dtype=array.dtype)
    elif dtype.kind == "f":
        array[missing] = np.nan
    elif dtype.kind == "O":
        array = raw.astype(object)
        array[missing] = None
    return pd.Series(array, dtype=dtype, name=column.name, copy=False)


def to_wall(seconds: Floats, column: ColumnLayout) -> Floats:
    """Turn seconds since 1970 UTC into those of a clock in the column's zone."""
    zone = zone_of(column.dtype)
    if zone is None:
        return seconds
    moments = pd.DatetimeIndex(_ticks(seconds, "us").view("M8[us]")).tz_localize("UTC")
    return moments.tz_convert(zone).tz_localize(None).asi8 / _PER_SECOND["us"]


def from_wall(seconds: Floats, column: ColumnLayout) -> Floats:
    """Undo `to_wall`: a doubled hour is the second one, one left out the next shown."""
    zone = zone_of(column.dtype)
    if zone is None:
        return seconds
    local = pd.DatetimeIndex(_ticks(seconds, "us").view("M8[us]"))
    moments = local.tz_localize(
        zone, ambiguous=np.zeros(len(local), bool), nonexistent="shift_forward"
    )
    return moments.asi8 / _PER_SECOND["us"]


def _raw_values(values: Floats, column: ColumnLayout) -> NDArray[Any]:
    """Round and clip to the NumPy dtype that stores the column, times to int64."""
    if column.kind == "boolean":
        return values >= 0.5
    if column.kind in ("datetime", "timedelta"):
        dtype = getattr(column.dtype, "pyarrow_dtype", column.dtype)
        of_numpy = isinstance(dtype, np.dtype)
        unit = np.datetime_data(dtype)[0] if of_numpy else getattr(dtype, "unit", "s")
        return _ticks(values, unit)
    storage = getattr(column.dtype, "numpy_dtype", column.dtype)
    if storage.kind == "f":
        limits = np.finfo(storage)
        if limits.max < np.finfo(np.float64).max:
            values = np.clip(values, float(limits.min), float(limits.max))
        return values.astype(storage, copy=False)
    whole = np.iinfo(storage)
    high = float(whole.max)
    if int(high) > whole.max:  # 2**63 - 1 has no float64: take the one below
        high = float(np.nextafter(high, 0.0))
    return np.clip(np.rint(values), float(whole.min), high).astype(storage)


def _ticks(seconds: Floats, unit: str) -> Ints:
    """Count time units; nanoseconds in whole microseconds, as fine as seconds are."""
    coarse = "us" if unit == "ns" else unit
    factor = _PER_SECOND[unit] // _PER_SECOND[coarse]
    # Clear of NaT and of the ends of int64, and in the years 1 to 9999 of the calendar.
    limit = 9.2e18 / _PER_SECOND[unit]
    low, high = max(-limit, _YEAR_1), min(limit, _YEAR_9999)
    ticks = np.rint(np.clip(seconds, low, high) * _PER_SECOND[coarse])
    return ticks.astype(np.int64) * factor


def zone_of(dtype: Any) -> Any:  # noqa: ANN401 - no stubs
    """Return the time zone of a dtype, None where it has none."""
    return getattr(getattr(dtype, "pyarrow_dtype", dtype), "tz", None)


def factorize(series: pd.Series) -> tuple[Ints, list[Any]]:
    """Return a column as codes (-1 where missing) of its distinct values, and these.

    The values are private: exact built-in scalars or Timestamps, sorted. The key of a
    row is a function of its value alone, so values are told apart by an exact
    dictionary: the hash tables of pandas compare texts by how they are encoded, on some
    versions up to a NUL only, and keep the spelling that they saw first.
    """
    codes, values = _distinct(series)
    occurs = np.bincount(codes[codes >= 0], minlength=len(values)) > 0
    # A NaN that its dtype does not know as missing differs from itself.
    keys = sorted({key for key in compress(values, occurs) if key == key})
    rank = dict(zip(keys, range(len(keys)), strict=True))
    ranks = np.fromiter(map(rank.get, chain(values, [None]), repeat(-1)), np.int64)
    return ranks[codes], keys  # the code of a missing value is that of the None


def count_keys(frame: pd.DataFrame, names: Sequence[Hashable]) -> list[Counter[Any]]:
    """Count the rows of each distinct value of some columns, None for a missing one."""
    counters = []
    for name in names:
        codes, keys = factorize(frame[name])
        places = np.where(codes < 0, len(keys), codes)
        counts = np.bincount(places, minlength=len(keys) + 1).tolist()
        counters.append(Counter(dict(zip([*keys, None], counts, strict=True))))
    return counters


def total_keys(table: Parts, names: Sequence[Hashable]) -> list[Counter[Any]]:
    """Count the keys of all parts; a row has one in every column."""
    counters: list[Counter[Any]] = table.total(count_keys, names)
    n_rows = sum(table.n_rows.values())
    if any(own.total() != n_rows for own in counters):
        raise changed_parts()
    return counters


def place_keys(
    codes: Ints,
    keys: Sequence[Any],
    levels: Sequence[Any],
    other: int = -1,
    missing: int = -1,
) -> Ints:
    """Give the place among `levels` of each row that `factorize` gave a code."""
    place_of = dict(zip(levels, range(len(levels)), strict=True))
    places = [place_of.get(key, other) for key in keys]
    return np.array([*places, missing], dtype=np.int64)[codes]


def _distinct(series: pd.Series) -> tuple[Ints, list[Any]]:
    """Return codes of a column, -1 where missing, and values, maybe equal or unused."""
    series = as_moments(series)
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        listed = _shown(series.cat.categories)
        return series.cat.codes.to_numpy(np.int64), [plain(level) for level in listed]
    if is_object(dtype) or getattr(dtype, "storage", None) == "python":
        codes = np.full(len(series), -1, dtype=np.int64)
        present = ~series.isna().to_numpy(dtype=bool)
        code_of: defaultdict[Any, int] = defaultdict(count().__next__)
        objects = map(plain, series.to_numpy(dtype=object)[present])
        codes[present] = np.fromiter(map(code_of.__getitem__, objects), dtype=np.int64)
        return codes, list(code_of)
    # Numbers as the machine has them, and the bytes of Arrow: pandas is exact there.
    if kind_of_dtype(dtype) == ("continuous", True):  # not all of Arrow's have a hash
        series = pd.Series(series.to_numpy(dtype=np.float64, na_value=np.nan))
    elif isinstance(dtype, np.dtype) and not dtype.isnative:  # nor has this order
        series = series.astype(dtype.newbyteorder("="))
    codes, uniques = pd.factorize(series)
    return codes.astype(np.int64), [plain(value) for value in _shown(uniques)]


def _shown(times: Any) -> list[Any]:  # noqa: ANN401 - an Index, or an array
    """Return distinct values as objects; times that these cannot show are moved.

    Beyond the years 1 to 9999, and in a zone at their ends, Python raises for each, and
    pandas 2 ends the process for one before 1677 in a zone.
    """
    if kind_of_dtype(times.dtype) != ("datetime", True):
        return list(times.tolist())
    import pyarrow as pa

    zone = zone_of(times.dtype)
    if isinstance(times.dtype, pd.ArrowDtype):
        values = pa.array(times)
        if not pa.types.is_timestamp(values.type):  # days, or their milliseconds
            values = values.cast(pa.timestamp("s"))
        ticks, unit = values.cast(pa.int64()).to_numpy(), values.type.unit
    else:
        index = pd.DatetimeIndex(times)
        ticks, unit = index.asi8, index.unit
    per_second = _PER_SECOND[unit]
    first = int(_YEAR_1) if zone is None or pd.__version__ >= "3" else _YEAR_1700
    # A day less, since clocks of all zones must show them.
    low = max(first * per_second, -(2**63)) + _DAY * per_second
    high = min(int(_YEAR_9999) * per_second, 2**63 - 1) - _DAY * per_second
    inside = pd.DatetimeIndex(np.clip(ticks, low, high).view(f"M8[{unit}]"))
    if zone is not None:
        inside = inside.tz_localize("UTC").tz_convert(zone)
    return list(inside.tolist())


def to_category_series(
    codes: NDArray[np.integer[Any]], categories: Sequence[Any], column: ColumnLayout
) -> pd.Series:
    """Return codes (-1: missing) as a column of its dtype; undo `factorize`."""
    positions = codes.astype(np.int64)
    missing = positions < 0
    if missing.any() and not column.can_be_missing:
        raise ValueError(
            f"Column {column.name!r} has dtype {column.dtype}, which cannot hold the"
            " missing values asked for."
        )
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = pd.Index(list(categories), dtype=column.dtype.categories.dtype)
        dtype = pd.CategoricalDtype(levels, ordered=column.dtype.ordered)
        array = pd.Categorical.from_codes(positions, dtype=dtype)
        return pd.Series(array, name=column.name)
    of_numpy = isinstance(column.dtype, np.dtype)
    # `take` knows one order of bytes only.
    native = column.dtype.newbyteorder("=") if of_numpy else column.dtype
    levels = pd.Series(list(categories), dtype=native)
    # `take` fills -1 only in dtypes with a missing value, which all others here lack.
    if column.can_be_missing:
        plain_numpy = isinstance(levels.array, pd.arrays.NumpyExtensionArray)
        array = levels.to_numpy() if plain_numpy else levels.array
        array = pd.api.extensions.take(array, positions, allow_fill=True)
    else:
        array = levels.array.take(positions)
    series = pd.Series(array, dtype=column.dtype, name=column.name)
    if of_numpy and column.dtype.kind == "O":
        series[missing] = None
    return series


def features_like(table: pd.DataFrame, X: object) -> Any:  # noqa: ANN401
    """Return synthetic features in the container of `X`."""
    if isinstance(X, pd.DataFrame):
        return table
    if speaks_arrow(X):
        return table_like(table, X)
    if isinstance(X, list | tuple):
        return type(X)(table.to_numpy(dtype=object).tolist())
    return _array(table, getattr(X, "dtype", None))


def labels_like(labels: pd.Series, y: Any) -> Any:  # noqa: ANN401 - any container
    """Return synthetic labels in container and dtype of `y`."""
    dtype = getattr(y, "dtype", None)
    if speaks_arrow(y):
        return column_like(labels, y)
    if isinstance(y, pd.Series):
        return labels.rename(y.name)
    if np.ndim(y) == 2:  # a table of one column
        return features_like(labels.to_frame(), y)
    if isinstance(y, pd.Index):
        listed = isinstance(dtype, pd.CategoricalDtype)  # has categories of its own
        dtype = labels.dtype if listed else dtype
        return pd.Index(labels, dtype=dtype).rename(y.name)
    if type(y) is pd.arrays.NumpyExtensionArray:  # a string array is a subclass
        return pd.arrays.NumpyExtensionArray(_array(labels, y.dtype.numpy_dtype))
    if isinstance(y, pd.api.extensions.ExtensionArray):
        return labels.array
    if isinstance(y, list | tuple):
        return type(y)(labels.tolist())
    return _array(labels, dtype)


def _array(values: pd.Series | pd.DataFrame, dtype: Any) -> NDArray[Any]:  # noqa: ANN401
    """Make an array of a dtype; of text, the width is what the values need."""
    if not isinstance(dtype, np.dtype):
        return values.to_numpy()
    if dtype.kind == "U":
        return values.to_numpy(dtype=object).astype(np.str_)
    return values.to_numpy(dtype=dtype)
