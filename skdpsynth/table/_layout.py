"""Columns to plain NumPy arrays and back, without losing dtype or container."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from skdpsynth.privacy import Parts, changed_parts
from skdpsynth.schema import (
    NOTHING_STATED,
    SECONDS_OF,
    UNREAD,
    Continuous,
    Datetime,
    TableSchema,
    column_kind,
    decode_value,
    encode_value,
)
from skdpsynth.utils import dtypes, require
from skdpsynth.utils.arrays import Bools, Floats, Ints
from skdpsynth.utils.containers import arrow_like, speaks_arrow
from skdpsynth.utils.dtypes import Kind


def is_read(name: Hashable, schema: TableSchema) -> bool:
    """Return whether cells of a column are read: of identifiers those of the unit."""
    read = not isinstance(schema.columns.get(name), UNREAD)
    return read or dtypes.same_name(name, schema.privacy_unit)


@dataclass(frozen=True)
class ColumnLayout:
    """The structure of one column; of a category dtype without categories: data."""

    name: Hashable
    dtype: Any
    kind: Kind
    can_be_missing: bool

    @classmethod
    def of(
        cls, name: Hashable, series: pd.Series, schema: TableSchema = NOTHING_STATED
    ) -> ColumnLayout:
        """Read the layout off a column; raise InvalidTableError if unsupported."""
        is_unit = dtypes.same_name(name, schema.privacy_unit)
        described = None if is_unit else schema.columns.get(name)
        kind, can_be_missing = column_kind(name, series, described)
        dtype = series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            dtype = dtypes.without_categories(dtype.categories.dtype, dtype.ordered)
        return cls(name, dtype, kind, can_be_missing)

    @property
    def original(self) -> ColumnLayout | None:
        """The column of the table that it is, or stands for, None for neither."""
        return self

    @property
    def needs(self) -> tuple[Hashable, ...]:
        """The names of the columns of the table that it is read from."""
        return (self.name,)

    def read(self, frame: pd.DataFrame) -> pd.Series:
        """Return the column of a table; private."""
        return frame[self.name]

    @property
    def unit(self) -> str:
        """The unit in which a dtype of times counts them; "D" of dates."""
        dtype = getattr(self.dtype, "pyarrow_dtype", self.dtype)
        of_numpy = isinstance(dtype, np.dtype)
        return np.datetime_data(dtype)[0] if of_numpy else getattr(dtype, "unit", "D")

    @property
    def ordered(self) -> bool:
        """Whether its categories have an order."""
        return bool(getattr(self.dtype, "ordered", False))

    @property
    def storage(self) -> np.dtype[Any]:
        """The NumPy dtype of a column of numbers."""
        return getattr(self.dtype, "numpy_dtype", self.dtype)

    @property
    def stores(self) -> tuple[Any, ...]:
        """What dtypes with the same values share: missing ones, zone, limits."""
        limits = self.limits if self.kind == "integer" else None
        return self.can_be_missing, str(self.zone), limits

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the largest number, or seconds of a time, that it holds."""
        if self.kind in ("datetime", "timedelta"):
            limit = most_seconds("s" if dtypes.is_date(self.dtype) else self.unit)
            if self.kind == "timedelta":
                return -limit, limit
            zoned = self.zone is not None
            first, last = (_SHOWN_FROM, _CLOCKS[1]) if zoned else (_YEAR_1, _YEAR_9999)
            return max(-limit, float(first)), min(limit, float(last))
        of_kind: Any = np.finfo if self.storage.kind == "f" else np.iinfo
        info = of_kind(self.storage)
        return float(info.min), float(info.max)

    @property
    def zone(self) -> Any:  # noqa: ANN401 - no stubs
        """The time zone of its dtype, None where it has none."""
        return dtypes.zone_of(self.dtype)

    def to_wall(self, seconds: Floats) -> Floats:
        """Turn seconds since 1970 UTC into those of a clock in the column's zone."""
        return _to_wall(seconds, self.zone)

    def from_wall(self, seconds: Floats) -> Floats:
        """Undo `to_wall`: a doubled hour is the second one, one left out the next."""
        second = np.zeros(len(seconds), bool)
        how = {"ambiguous": second, "nonexistent": "shift_forward"}
        return _moved(seconds, self.zone, lambda m: m.tz_localize(self.zone, **how))

    def to_series(self, values: Floats, missing: Bools) -> pd.Series:
        """Return numbers as a column of the dtype that came; undo `numeric_values`."""
        # They are rounded and clipped to what it holds, be it without missing values.
        missing = missing & self.can_be_missing  # a copy: the series may keep it
        present = np.where(missing, 0.0, values) if missing.any() else values
        dtype, kind = self.dtype, self.dtype.kind
        array: Any
        if self.kind == "boolean":
            array = present >= 0.5
        elif self.kind in ("datetime", "timedelta"):
            array = _ticks(present, "s" if dtypes.is_date(dtype) else self.unit)
        else:
            low, high = self.limits
            if self.storage.kind != "f":
                present = np.rint(present)
                if int(high) > np.iinfo(self.storage).max:  # 2**63 - 1 has no float64
                    high = float(np.nextafter(high, 0.0))  # the one below
            array = np.clip(present, low, high).astype(self.storage)
        if isinstance(dtype, pd.ArrowDtype):
            if dtypes.is_date(dtype):  # counts days, in fewer bytes
                array = (array // _DAY).astype(np.int32)
            stored = pa.array(array, mask=missing).cast(dtype.pyarrow_dtype)
            array = pd.arrays.ArrowExtensionArray(stored)
        elif kind in "Mm":
            array = array.view(f"{kind}8[{self.unit}]")
            array[missing] = np.array("NaT", dtype=array.dtype)
            if self.zone is not None:
                array = pd.DatetimeIndex(array).tz_localize("UTC").tz_convert(self.zone)
        elif not isinstance(dtype, np.dtype):  # a masked boolean, integer or float
            array = dtype.construct_array_type()(array, missing)
        elif kind in "fO":
            array = array.astype(dtype, copy=False)
            array[missing] = None
        return pd.Series(array, dtype=dtype, name=self.name, copy=False)

    def to_category_series(
        self, codes: NDArray[np.integer[Any]], categories: Sequence[Any]
    ) -> pd.Series:
        """Return codes (-1: missing) as a column of its dtype; undo `factorize`."""
        positions = codes.astype(np.int64)
        missing = positions < 0
        if missing.any() and not self.can_be_missing:
            raise ValueError(
                f"Column {self.name!r} has dtype {self.dtype}, which cannot hold the"
                " missing values asked for."
            )
        if isinstance(self.dtype, pd.CategoricalDtype):
            listed = pd.Index(list(categories), dtype=self.dtype.categories.dtype)
            dtype = pd.CategoricalDtype(listed, ordered=self.dtype.ordered)
            array = pd.Categorical.from_codes(positions, dtype=dtype)
            return pd.Series(array, name=self.name)
        of_numpy = isinstance(self.dtype, np.dtype)
        # Of numbers pandas knows one order of bytes only.
        native = self.dtype.newbyteorder("=") if of_numpy else self.dtype
        found = pd.Series(list(categories), dtype=native).reindex(positions)
        series = pd.Series(found.array, dtype=self.dtype, name=self.name)
        if of_numpy and self.dtype.kind == "O":
            series[missing] = None
        return series

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form."""
        name, dtype = encode_value(self.name), dtypes.encode_dtype(self.dtype)
        return {**vars(self), "name": name, "dtype": dtype}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ColumnLayout:
        """Rebuild the layout that `to_dict` wrote."""
        name, dtype = decode_value(data["name"]), dtypes.decode_dtype(data["dtype"])
        said = data["kind"], data["can_be_missing"]
        # Objects may be booleans, as a schema says.
        truths = dtypes.is_object(dtype) and said == ("boolean", True)
        require(truths or dtypes.kind_of_dtype(dtype) == said, "a dtype")
        return cls(name, dtype, *said)


@dataclass(frozen=True)
class StandIn(ColumnLayout):
    """What is modelled in the place of a column: a function of the cells of a row."""

    place: ColumnLayout | None = None  # that column, None where it is beside others
    members: tuple[Any, ...] = ()  # those that it is read from: see `_ordered`
    domain: Any = None  # what it can hold, None where that is measured
    open: bool = False  # it must be measured how finely it is written

    @property
    def original(self) -> ColumnLayout | None:
        return self.place

    @property
    def needs(self) -> tuple[Hashable, ...]:
        return tuple(member.column.name for member in self.members)


def names_read(columns: Iterable[ColumnLayout]) -> list[Hashable]:
    """Return the names of all columns of the table that some are read from."""
    return [*dict.fromkeys(chain.from_iterable(column.needs for column in columns))]


@dataclass(frozen=True)
class TableLayout:
    """The structure of a table, in training order, and the form it was given in."""

    columns: tuple[ColumnLayout, ...]
    target: Hashable = None
    from_array: bool = False  # X was an array or a list
    y_given: bool = False  # the target came as `y`; it is then the last column
    measured: bool = False  # the target is a number or time, modelled as any column
    container: str = "pandas"  # of the table, and so of samples: see `converter`

    @classmethod
    def of(
        cls,
        columns: tuple[ColumnLayout, ...],
        target: Hashable,
        schema: TableSchema,
        **form: Any,  # noqa: ANN401 - the fields above
    ) -> TableLayout:
        """Lay out a table; whether its target is measured, dtype and schema say."""
        kinds = {column.name: column.kind for column in columns}
        kind, given = kinds.get(target), schema.columns.get(target)
        measured = isinstance(given, Continuous | Datetime)
        # Whole numbers may be labels: whether they are is a question about values.
        if given is None:
            measured = kind in ("continuous", "datetime", "timedelta")
        measured &= target is not None  # which may be the name of a column
        return cls(columns, target, measured=measured, **form)

    @property
    def feature_columns(self) -> tuple[ColumnLayout, ...]:
        """All columns but the target."""
        target = self.target_column
        return tuple(column for column in self.columns if column is not target)

    @property
    def label_column(self) -> ColumnLayout | None:
        """The target if its values are classes, or None."""
        return None if self.measured else self.target_column

    @property
    def target_column(self) -> ColumnLayout | None:
        """The target, or None."""
        if self.target is None:
            return None
        # Found by hash: names of different types need not be comparable.
        return {column.name: column for column in self.columns}[self.target]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form."""
        columns = [column.to_dict() for column in self.columns]
        return {**vars(self), "columns": columns, "target": encode_value(self.target)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TableLayout:
        """Rebuild the layout that `to_dict` wrote."""
        columns = tuple(ColumnLayout.from_dict(column) for column in data["columns"])
        target = decode_value(data["target"])
        forms = {name: data[name] for name in ("from_array", "y_given", "measured")}
        container = data.get("container", "pandas")  # files up to 0.2 have none
        require(container in ("pandas", "arrow", "polars"), "an unknown container")
        return cls(columns, target, **forms, container=container)


# Ticks of NumPy's units.
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = int(SECONDS_OF["D"])
# First and last second of the calendar, since 1970.
_YEAR_1, _YEAR_9999 = (
    int(np.datetime64(end, "s").astype(np.int64))
    for end in (datetime.min, datetime.max)
)
# Where clocks of all zones work; none changes beyond. From when they can be shown: with
# pandas 2 a Timestamp before 1677 in a zone ends the process.
_CLOCKS = _YEAR_1 + _DAY, _YEAR_9999 - _DAY
_NANOSECONDS_FROM = int(pd.Timestamp.min.timestamp()) + _DAY
_SHOWN_FROM = min(_CLOCKS) if pd.__version__ >= "3" else _NANOSECONDS_FROM
_NAT = np.iinfo(np.int64).min


def numeric_values(series: pd.Series, column: ColumnLayout) -> tuple[Floats, Bools]:
    """Return a column that is not categorical as numbers (0: missing), and a mask."""
    # Times (since 1970 UTC) and durations are in seconds. A float64 holds integers up
    # to 2**53 and present-day times to the microsecond.
    missing = dtypes.is_missing(series)
    values = np.zeros(len(series))
    present = series[~missing] if missing.any() else series
    if column.kind in ("datetime", "timedelta"):
        ticks, unit = ticks_of(present)
        per_second = PER_SECOND[unit]
        # Two steps: int64 nanoseconds lose bits when they become a float at once.
        seconds, rest = np.divmod(ticks, per_second)
        values[~missing] = seconds + rest / per_second
    else:
        values[~missing] = present.to_numpy(dtype=np.float64)
    return values, missing


def ticks_of(times: pd.Series | pd.Index) -> tuple[Ints, str]:
    """Return times or durations as whole ticks, NaT where missing, and their unit."""
    if not isinstance(times.dtype, pd.ArrowDtype):
        return times.array.asi8, times.array.unit
    # Not by way of pandas or Python: nanoseconds end in 2262, and years with 9999.
    stored = pa.array(times.array)
    if dtypes.is_date(times.dtype):
        stored = stored.cast(pa.timestamp("s"))
    return stored.cast(pa.int64()).fill_null(_NAT).to_numpy(), stored.type.unit


def _to_wall(seconds: Floats, zone: Any) -> Floats:  # noqa: ANN401
    return _moved(
        seconds, zone, lambda m: m.tz_localize("UTC").tz_convert(zone).tz_localize(None)
    )


def _moved(seconds: Floats, zone: Any, move: Callable[[Any], Any]) -> Floats:  # noqa: ANN401
    """Move moments that a clock of the zone can show; others as far as the last one."""
    if zone is None:
        return seconds
    inside = np.clip(seconds, *_CLOCKS)
    moments = move(pd.DatetimeIndex(_ticks(inside, "us").view("M8[us]")))
    return moments.asi8 / PER_SECOND["us"] + (seconds - inside)


def most_seconds(unit: str) -> float:
    """Return the longest duration in a unit, clear of NaT and of the ends of int64."""
    return 9.2e18 / PER_SECOND[unit]


def _ticks(seconds: Floats, unit: str) -> Ints:
    """Count time units; nanoseconds in whole microseconds, as fine as seconds are."""
    coarse = "us" if unit == "ns" else unit
    factor = PER_SECOND[unit] // PER_SECOND[coarse]
    limit = most_seconds(unit)
    low, high = max(-limit, _YEAR_1), min(limit, _YEAR_9999)
    ticks = np.rint(np.clip(seconds, low, high) * PER_SECOND[coarse])
    return ticks.astype(np.int64) * factor


def count_keys(frame: pd.DataFrame, names: Sequence[Hashable]) -> list[Counter[Any]]:
    """Count the rows of each distinct value of some columns, None for a missing one."""
    counters = []
    for name in names:
        codes, keys = factorize(frame[name])
        counts = np.bincount(codes + 1, minlength=len(keys) + 1).tolist()
        counters.append(Counter({None: counts[0]}))
        for key, n in zip(keys, counts[1:], strict=True):
            if n:
                counters[-1][key] += n
    return counters


def total_keys(table: Parts, names: Sequence[Hashable]) -> list[Counter[Any]]:
    """Count the keys of all parts; a row has one in every column."""
    counters: list[Counter[Any]] = table.total(count_keys, names)
    totals = {own.total() for own in counters}
    if len(totals) > 1 or max(totals, default=0) > sum(table.n_rows.values()):
        raise changed_parts()
    return counters


def place_keys(
    series: pd.Series, categories: Sequence[Any], other: int = -1, missing: int = -1
) -> Ints:
    """Return the place of each cell among categories."""
    codes, keys = factorize(series)
    place_of = dict(zip(categories, range(len(categories)), strict=True))
    place_of[None] = missing
    places = [place_of.get(key, other) for key in (None, *keys)]
    return np.array(places, dtype=np.int64)[codes + 1]


def factorize(series: pd.Series) -> tuple[Ints, list[Any]]:
    """Return a column as codes (-1: missing) of keys, and these; private.

    Keys may come twice or be unused, and one is None if it is a NaN that its dtype has
    as a number.
    """
    # The key of a row is a function of its value alone, so values are compared by an
    # exact dictionary: the hash tables of pandas compare texts by how they are encoded,
    # on some versions up to a NUL only, and keep the spelling that came first.
    if isinstance(series.dtype, pd.CategoricalDtype):
        listed = map(dtypes.plain, _in_calendar(series.cat.categories).tolist())
        keys = [key if key == key else None for key in listed]
        return series.cat.codes.to_numpy(np.int64), keys
    series = _in_calendar(series)
    dtype = series.dtype
    if dtypes.is_object(dtype) or getattr(dtype, "storage", None) == "python":
        return coded(series, ~series.isna().to_numpy(dtype=bool), dtypes.plain)
    # Numbers as the machine has them, and the bytes of Arrow: pandas is exact there.
    if dtypes.kind_of_dtype(dtype) == ("continuous", True):  # Arrow's may have no hash
        series = pd.Series(series.to_numpy(dtype=np.float64, na_value=np.nan))
    codes, uniques = pd.factorize(series)
    return codes.astype(np.int64), [*map(dtypes.plain, uniques.tolist())]


def coded(
    series: pd.Series, present: Bools, key: Callable[[object], Any]
) -> tuple[Ints, list[Any]]:
    """Return codes of the keys of present cells, -1 for others, and the keys."""
    codes = np.full(len(series), -1, dtype=np.int64)
    code_of: defaultdict[Any, int] = defaultdict(count().__next__)
    keys = map(key, series.to_numpy(dtype=object)[present])
    codes[present] = np.fromiter(map(code_of.__getitem__, keys), dtype=np.int64)
    return codes, list(code_of)


def _in_calendar(times: Any) -> Any:  # noqa: ANN401 - a Series or an Index
    """Return points in time as pandas' own, any other column as it is."""
    # Those that no Timestamp can show, in its zone, become the first or last of those.
    if (dtypes.kind_of_dtype(times.dtype) or ("",))[0] != "datetime":
        return times
    ticks, unit = ticks_of(times)
    zone, per_second = dtypes.zone_of(times.dtype), PER_SECOND[unit]
    first = max(_YEAR_1 * per_second, _NAT + 1)
    last = min((_YEAR_9999 + 1) * per_second - 1, -(_NAT + 1))
    if zone is not None:  # its clock must be in the calendar too
        ends = np.array([first // per_second, last // per_second], dtype=np.float64)
        early, late = map(int, _to_wall(ends, zone) - ends)
        first = max(first - min(early, 0) * per_second, _SHOWN_FROM * per_second)
        last -= max(late, 0) * per_second
    ticks = np.where(ticks == _NAT, _NAT, np.clip(ticks, first, last))
    moments = pd.DatetimeIndex(ticks.view(f"M8[{unit}]"))
    return pd.Series(moments.tz_localize("UTC").tz_convert(zone))


def in_container_of(given: Any, values: Any) -> Any:  # noqa: ANN401 - any container
    """Return a DataFrame, or labels as a Series, in the container of what came."""
    dtype = getattr(given, "dtype", None)
    if speaks_arrow(given):
        return arrow_like(values, given)
    if isinstance(values, pd.Series) and np.ndim(given) == 2:
        values = values.to_frame()
    if isinstance(given, pd.DataFrame):
        return values
    if isinstance(given, list | tuple):
        return type(given)(values.to_numpy(dtype=object).tolist())
    if isinstance(given, pd.Series):
        return values.rename(given.name)
    if isinstance(given, pd.Index):
        return pd.Index(values.rename(given.name), dtype=values.dtype)
    if isinstance(given, pd.api.extensions.ExtensionArray):
        return values.array
    if isinstance(dtype, np.dtype) and dtype.kind == "U":  # as wide as the values need
        return values.to_numpy(dtype=object).astype(np.str_)
    return values.to_numpy(dtype=dtype if isinstance(dtype, np.dtype) else None)
