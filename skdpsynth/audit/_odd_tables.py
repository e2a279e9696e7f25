"""Small tables of what is odd, each with a row that is added: what a replay tries.

A table is rows of Python values beside a dtype per column, so that a row more or less
changes no dtype. Odd rows stand where a replay takes rows away: at the first, the
middle and the last place.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    TableSchema,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ALL_SOURCES = (
    "pandas",
    "polars",
    "arrow",
    "csv",
    "parquet",
    "folder",
    "batches",
    "dask",
)
_TYPED = tuple(name for name in ALL_SOURCES if name != "csv")
_LARGE = 2**53
_LABELS = Categorical(["u", "v"])
_NUMBER = Continuous(-8, 8, scale="linear", decimals="any")


@dataclass(frozen=True)
class OddTable:
    """Rows, the row that is added, and what is public about them.

    `dtypes` are of pandas, or "dictionary" for text that each Parquet file encodes by
    the categories that it has. A row may have more fields than there are columns where
    the only source is a CSV file. A row that is added may be `refusable`: then all fits
    with it must be refused, before any release and wherever it stands, or none.
    """

    name: str
    dtypes: dict[str, Any]
    rows: tuple[tuple[Any, ...], ...]
    extra: tuple[Any, ...]
    schema: TableSchema | None = None
    target: str | None = "y"
    sources: tuple[str, ...] = ALL_SOURCES
    refusable: bool = False

    def frame(self, rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
        """Make a DataFrame of some rows."""
        columns = [*zip(*rows, strict=True)] or [()] * len(self.dtypes)
        return pd.DataFrame(
            {
                name: _series(values, dtype)
                for (name, dtype), values in zip(
                    self.dtypes.items(), columns, strict=True
                )
            }
        )


def _series(values: tuple[Any, ...], dtype: Any) -> pd.Series:  # noqa: ANN401 - any of pandas
    if dtype == "dictionary":
        return pd.Series(pd.Categorical([*values]))
    kind = getattr(dtype, "kind", "") if not isinstance(dtype, str) else dtype
    if str(kind).startswith("datetime64[us]"):
        # By NumPy: pandas would go by nanoseconds on some versions.
        return pd.Series(np.array([*values], dtype="M8[us]"))
    return pd.Series([*values], dtype=dtype)


def odd_tables() -> dict[str, OddTable]:
    """Make all tables, by name."""
    makers: list[Callable[[], OddTable]] = [
        _plain,
        _cells,
        _undeclared,
        _large_levels,
        _large_numbers,
        _extreme_floats,
        _infinite_levels,
        _infinite_floats,
        _ends_of_the_calendar,
        _zones,
        _odd_texts,
        _surrogates,
        _booleans,
        _long_texts,
        _empty_class,
        _one_class,
        _missing_labels,
        _no_target,
        _measured_target,
        _empty_cells,
        _written_numbers,
        _field_too_many,
        _many_categories,
    ]
    return {table.name: table for table in (make() for make in makers)}


def _numbers(n_rows: int) -> list[float]:
    """Give numbers that look random; one is 0, and none is near another."""
    return [round(5 * math.sin(1.7 * i * i), 3) for i in range(n_rows)]


def _plain() -> OddTable:
    numbers = _numbers(60)
    rows = tuple(
        (
            numbers[i],
            None if i % 9 == 0 else numbers[-1 - i],
            "pqr"[i * i % 3],
            "uvv"[i % 3],
        )
        for i in range(30)
    )
    schema = TableSchema(
        {
            "a": _NUMBER,
            "b": replace(_NUMBER, nullable=True),
            "c": Categorical(["p", "q", "r"]),
            "y": _LABELS,
        },
        target="y",
    )
    dtypes = {"a": "float64", "b": "float64", "c": object, "y": object}
    return OddTable("plain", dtypes, rows, (8.0, -8.0, "r", "u"), schema)


def _cells() -> OddTable:
    """So many rows are declared that teachers and discriminators look at triples."""
    plain = _plain()
    assert plain.schema is not None
    schema = replace(plain.schema, class_counts={"u": 400, "v": 400})
    return replace(plain, name="cells", schema=schema)


def _undeclared() -> OddTable:
    """Labels, categories, ranges and decimals are found; the row has new ones."""
    numbers = _numbers(30)
    rows = tuple(
        (
            1e300 if i == 0 else math.nan if i % 7 == 0 else numbers[i],
            "once" if i == 29 else "pq"[i % 2],
            _LARGE + i % 2 if i % 5 else None,
            "rare" if i == 15 else "uv"[i % 2],
        )
        for i in range(30)
    )
    dtypes = {"a": "float64", "c": object, "n": "Int64", "y": object}
    extra = (-1e300, "never seen", 2**63 - 1, "w")
    return OddTable("undeclared", dtypes, rows, extra, sources=_TYPED)


def _large_levels() -> OddTable:
    """Two identifiers that are one in floats, and a row with an empty cell."""
    ids = _LARGE, _LARGE + 1
    rows = tuple((ids[i % 2], float(i % 4), "uv"[i // 2 % 2]) for i in range(28))
    schema = TableSchema(
        {
            "id": Categorical(ids, nullable=True),
            "x": Continuous(0, 3, integer=True),
            "y": _LABELS,
        },
        target="y",
    )
    dtypes = {"id": "Int64", "x": "float64", "y": object}
    return OddTable("large levels", dtypes, rows, (None, 3.0, "v"), schema)


def _large_numbers() -> OddTable:
    """Whole numbers up to the ends of 64 bits, some missing."""
    few = (_LARGE, _LARGE + 1, -(2**63), 2**63 - 1, 0, -1, None)
    rows = tuple((few[i % 7], few[i * 3 % 7], "uv"[i % 2]) for i in range(28))
    whole = Continuous(-(2**63), 2**63 - 1, integer=True, nullable=True, scale="linear")
    schema = TableSchema({"n": whole, "m": whole, "y": _LABELS}, target="y")
    dtypes = {"n": "Int64", "m": "Int64", "y": object}
    extra = (2**63 - 1, None, "u")
    return OddTable("large numbers", dtypes, rows, extra, schema)


def _extreme_floats() -> OddTable:
    few = (1e300, -1e300, 5e-324, -0.0, 0.0, math.nan, 2.0**53 + 2, 1.5)
    rows = tuple((few[i % 8], few[i * 5 % 8], "uv"[i % 2]) for i in range(26))
    wide = Continuous(-1e300, 1e300, nullable=True, scale="linear", decimals="any")
    schema = TableSchema({"a": wide, "b": wide, "y": _LABELS}, target="y")
    dtypes = {"a": "float64", "b": "float64", "y": object}
    extra = (1.7976931348623157e308, math.nan, "v")
    return OddTable("extreme floats", dtypes, rows, extra, schema)


def _infinite_levels() -> OddTable:
    """Infinity is refused in columns of floats, and no level of categories."""
    levels = [-math.inf, 0.0, 1.0, math.inf]
    rows = tuple((levels[i * i % 4], float(i % 3), "uv"[i % 2]) for i in range(24))
    dtypes = {"c": pd.CategoricalDtype(levels), "x": "float64", "y": object}
    return OddTable(
        "infinite levels", dtypes, rows, (math.inf, math.nan, "u"), sources=("pandas",)
    )


def _infinite_floats() -> OddTable:
    """Infinity in a column of floats, which every fit refuses."""
    plain = _plain()
    extra = (-math.inf, math.inf, "p", "u")
    return replace(plain, name="infinite floats", extra=extra, refusable=True)


def _ends_of_the_calendar() -> OddTable:
    first, last = datetime.datetime(1, 1, 1), datetime.datetime.max
    few = (first, last, datetime.datetime(1970, 1, 1), None, first, last)
    rows = tuple((few[i % 6], float(i % 5), "uv"[i % 2]) for i in range(25))
    schema = TableSchema(
        {
            "t": Datetime(first, last, nullable=True),
            "x": Continuous(0, 4, integer=True),
            "y": _LABELS,
        },
        target="y",
    )
    dtypes = {"t": "datetime64[us]", "x": "float64", "y": object}
    return OddTable("ends of the calendar", dtypes, rows, (last, 4.0, "v"), schema)


def _zones() -> OddTable:
    """Clocks that are put back, and a time that occurs twice."""
    start = pd.Timestamp("2020-10-25T00:30", tz="UTC").tz_convert("Europe/Berlin")
    rows = tuple(
        (
            None if i % 8 == 0 else start + pd.Timedelta(hours=i % 4),
            float(i % 3),
            "uv"[i % 2],
        )
        for i in range(25)
    )
    schema = TableSchema(
        {
            "t": Datetime(start, start + pd.Timedelta(days=1), nullable=True, unit="h"),
            "x": Continuous(0, 2, integer=True),
            "y": _LABELS,
        },
        target="y",
    )
    dtypes = {
        "t": pd.DatetimeTZDtype("us", "Europe/Berlin"),
        "x": "float64",
        "y": object,
    }
    extra = (
        pd.Timestamp.max.as_unit("us").tz_localize("UTC").tz_convert("Europe/Berlin"),
        2.0,
        "u",
    )
    return OddTable("zones", dtypes, rows, extra, schema)


_SPELLINGS = ("e\u0301", "\u00e9", "tea", "tea ", "Tea", "NA", "nan", "'tea'")


def _odd_texts() -> OddTable:
    rows = tuple((_SPELLINGS[i % 8], float(i % 3), "uv"[i % 2]) for i in range(30))
    schema = TableSchema(
        {
            "c": Categorical(_SPELLINGS, nullable=True),
            "x": Continuous(0, 2, integer=True),
            "y": _LABELS,
        },
        target="y",
    )
    dtypes = {"c": object, "x": "float64", "y": object}
    return OddTable("odd texts", dtypes, rows, ("te\u0301a", 2.0, "v"), schema)


def _surrogates() -> OddTable:
    """Texts that Arrow cannot hold, and such as spell or begin like another."""
    few = ("tea", "tea\0jones", "\ud800", "\\ud800", "'\\ud800'", "\0", "", None)
    rows = tuple((few[i % 8], float(i % 3), "uv"[i % 2]) for i in range(32))
    dtypes = {"c": object, "x": "float64", "y": object}
    extra = ("tea\0smith", math.nan, "\ud800")
    return OddTable("surrogates", dtypes, rows, extra, sources=("pandas",))


def _booleans() -> OddTable:
    few = (True, False, None, False)
    rows = tuple((few[i % 4], i % 3 == 0, float(i % 2), i % 2 == 0) for i in range(25))
    schema = TableSchema(
        {
            "b": Boolean(nullable=True),
            "c": Boolean(),
            "x": Continuous(0, 1, integer=True),
            "y": Boolean(),
        },
        target="y",
    )
    dtypes = {"b": "boolean", "c": "bool", "x": "float64", "y": "bool"}
    return OddTable("booleans", dtypes, rows, (None, True, 1.0, False), schema)


def _long_texts() -> OddTable:
    """Texts with what CSV quotes: line breaks, commas, quotes."""
    few = ("x" * 5000, "x" * 5000 + "y", 'a "quoted"\nline, twice', "a\r\nb", "a,b")
    rows = tuple((few[i % 5], float(i % 3), "uv"[i % 2]) for i in range(25))
    schema = TableSchema(
        {
            "c": Categorical(few, nullable=True),
            "x": Continuous(0, 2, integer=True),
            "y": _LABELS,
        },
        target="y",
    )
    dtypes = {"c": object, "x": "float64", "y": object}
    extra = ('"\n,\n"' * 2000, 2.0, "v")
    return OddTable("long texts", dtypes, rows, extra, schema)


def _empty_class() -> OddTable:
    """Declare a class without a row and one of one row; the row is of the first."""
    numbers = _numbers(50)
    rows = tuple(
        (numbers[i], numbers[-1 - i], "one" if i == 0 else "all") for i in range(25)
    )
    schema = TableSchema(
        {"a": _NUMBER, "b": _NUMBER, "y": Categorical(["all", "none", "one"])},
        target="y",
    )
    dtypes = {"a": "float64", "b": "float64", "y": object}
    return OddTable("empty class", dtypes, rows, (-8.0, 8.0, "none"), schema)


def _one_class() -> OddTable:
    """All rows are of one class of two, whose labels a whole number has."""
    numbers = _numbers(50)
    rows = tuple((numbers[i], numbers[-1 - i], 1) for i in range(25))
    dtypes = {"a": "float64", "b": "float64", "y": "int64"}
    return OddTable("one class", dtypes, rows, (1e300, -1e300, 0), sources=_TYPED)


def _missing_labels() -> OddTable:
    numbers = _numbers(60)
    labels = (None, "u", "v", "w")
    rows = tuple(
        (numbers[i], "pq"[i % 2], labels[i * i % 4 if i % 3 else 0]) for i in range(30)
    )
    schema = TableSchema(
        {
            "a": _NUMBER,
            "c": Categorical(["p", "q"]),
            "y": Categorical(["u", "v"], nullable=True),
        },
        target="y",
    )
    dtypes = {"a": "float64", "c": object, "y": object}
    return OddTable("missing labels", dtypes, rows, (8.0, "q", None), schema)


def _no_target() -> OddTable:
    numbers = _numbers(60)
    rows = tuple((numbers[i], numbers[-1 - i], "pqr"[i % 3]) for i in range(30))
    schema = TableSchema(
        {"a": _NUMBER, "b": _NUMBER, "c": Categorical(["p", "q", "r"], nullable=True)},
        n_rows=400,
    )
    dtypes = {"a": "float64", "b": "float64", "c": object}
    return OddTable("no target", dtypes, rows, (8.0, 8.0, "new"), schema, target=None)


def _measured_target() -> OddTable:
    numbers = _numbers(60)
    rows = tuple(
        (numbers[i], "pq"[i % 2], math.nan if i % 6 == 0 else numbers[-1 - i])
        for i in range(30)
    )
    schema = TableSchema(
        {
            "a": _NUMBER,
            "c": Categorical(["p", "q"]),
            "y": replace(_NUMBER, nullable=True),
        },
        target="y",
    )
    dtypes = {"a": "float64", "c": object, "y": "float64"}
    return OddTable("measured target", dtypes, rows, (-8.0, "p", 8.0), schema)


def _empty_cells() -> OddTable:
    """Columns of one value, of none, and of nothing but empty texts and none."""
    rows = tuple(
        (None, 7.0, "" if i % 2 else None, "uv"[i % 2], float(i % 4)) for i in range(24)
    )
    schema = TableSchema(
        {
            "none": Continuous(0, 9, nullable=True, integer=True),
            "one": Continuous(0, 9, integer=True),
            "empty": Categorical(["full"], nullable=True),
            "y": _LABELS,
            "x": Continuous(0, 3, integer=True),
        },
        target="y",
    )
    dtypes = {
        "none": "float64",
        "one": "float64",
        "empty": object,
        "y": object,
        "x": "float64",
    }
    return OddTable("empty cells", dtypes, rows, (9.0, 1.0, "full", "u", 3.0), schema)


def _written_numbers() -> OddTable:
    """Cells of a CSV file that spell whole numbers, and one that spells a fraction."""
    few = ("1000", "7", "007", "+7", str(_LARGE), str(_LARGE + 1))
    rows = tuple((few[i % 6], ("1e0", "2", "")[i % 3], "uv"[i % 2]) for i in range(27))
    levels = [7, 1000, _LARGE, _LARGE + 1]
    schema = TableSchema(
        {
            "n": Categorical(levels, nullable=True),
            "x": Continuous(0, 9, nullable=True, integer=True),
            "y": _LABELS,
        },
        target="y",
    )
    dtypes = {"n": object, "x": object, "y": object}
    return OddTable(
        "written numbers", dtypes, rows, ("0.5", "0.5", "u"), schema, sources=("csv",)
    )


def _field_too_many() -> OddTable:
    """Add a row of a CSV file with one field more than there are columns."""
    rows = tuple((str(i % 4), str(i % 3), "uv"[i % 2]) for i in range(24))
    whole = Continuous(0, 4, integer=True)
    schema = TableSchema({"a": whole, "b": whole, "y": _LABELS}, target="y")
    dtypes = {"a": object, "b": object, "y": object}
    return OddTable(
        "field too many",
        dtypes,
        rows,
        ("1", "2", "u", "5"),
        schema,
        sources=("csv",),
        refusable=True,
    )


def _many_categories() -> OddTable:
    """Bring a file its 127th category by a row.

    From 127 on pandas takes 16 bits for codes, although 8 would hold those of 128.
    """
    rows = tuple((f"c{i:03}", float(i % 3), "uv"[i % 2]) for i in range(126))
    rows = (*rows, *rows[:2], *rows[:63], *rows[:64])  # the first file has 128 of these
    schema = TableSchema(
        {
            "c": Categorical([f"c{i:03}" for i in range(4)], nullable=True),
            "x": Continuous(0, 2, integer=True),
            "y": _LABELS,
        },
        target="y",
    )
    dtypes = {"c": "dictionary", "x": "float64", "y": object}
    return OddTable(
        "many categories", dtypes, rows, ("new", 2.0, "u"), schema, sources=("folder",)
    )
