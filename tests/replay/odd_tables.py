"""Small tables with odd values, each with a row that is added: what a replay tries.

A table is rows of Python values beside a dtype per column, so that a row more or less
changes no dtype. Odd rows stand where a replay takes rows away: at the first, the
middle and the last place. `contained` puts rows into any container that a synthesizer
takes.
"""

import csv
import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from dask import dataframe
from tables import SOURCES, arrow_of, in_files

from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Derived,
    Ordered,
    TableSchema,
)

Rows = Sequence[tuple[Any, ...]]

ALL_SOURCES = (
    *("pandas", "polars", "arrow", "csv", "parquet"),
    *("folder", "batches", "dask"),
)
_TYPED = tuple(name for name in ALL_SOURCES if name != "csv")
_LARGE = 2**53  # from here on floats do not hold every whole number
_LABELS = Categorical(["u", "v"])
_NUMBER = Continuous(-8, 8, scale="linear", decimals="any")
# So few rows in a part that a row which is added or removed moves others to another.
_N_FILES, _N_PARTITIONS, _ROWS_OF_A_BATCH = 2, 3, 7


@dataclass(frozen=True)
class OddTable:
    """Rows, the row that is added, and what is public about them.

    `dtypes` are of pandas, or "dictionary" for text that each Parquet file encodes by
    the categories that it has. A row may have more fields than there are columns where
    the only source is a CSV file. A row that is added may be `refusable`: then all fits
    with it must be refused, before any release and wherever it stands, or none. Where
    the schema has a unit of privacy, `more` are the other rows of the unit of `extra`.
    """

    name: str
    dtypes: dict[str, Any]
    rows: tuple[tuple[Any, ...], ...]
    extra: tuple[Any, ...]
    schema: TableSchema | None = None
    target: str | None = "y"
    sources: tuple[str, ...] = ALL_SOURCES
    refusable: bool = False
    more: tuple[tuple[Any, ...], ...] = ()

    @property
    def rows_per_unit(self) -> int:
        """The rows that what comes or goes has in a fit at most."""
        return 1 if self.schema is None else self.schema.max_rows_per_unit or 1

    def neighbour(self, place: str, change: str) -> tuple[tuple[Any, ...], ...]:
        """Add or remove a row at a place, with all other rows of its unit.

        Those that are added stand apart from each other.
        """
        n_rows = len(self.rows)
        at = {"first": 0, "middle": n_rows // 2, "last": n_rows}[place]
        if change == "added":
            rows = [*self.rows]
            for number, row in enumerate((self.extra, *self.more)):
                n_before = (at + number * n_rows // (1 + len(self.more))) % (n_rows + 1)
                rows.insert(min(n_before + number, len(rows)), row)
            return tuple(rows)
        at = min(at, n_rows - 1)
        gone = {at}
        if self.schema is not None and self.schema.privacy_unit is not None:
            unit = [*self.dtypes].index(str(self.schema.privacy_unit))
            own = self.rows[at][unit]
            gone = {i for i, row in enumerate(self.rows) if row[unit] == own}
        return tuple(row for i, row in enumerate(self.rows) if i not in gone)

    def frame(self, rows: Rows) -> pd.DataFrame:
        columns = [*zip(*rows, strict=True)] or [()] * len(self.dtypes)
        made = map(_series, columns, self.dtypes.values())
        return pd.DataFrame(dict(zip(self.dtypes, made, strict=True)))


def _series(values: tuple[Any, ...], dtype: Any) -> pd.Series:
    if dtype == "dictionary":
        return pd.Series(pd.Categorical([*values]))
    if dtype == "datetime64[us]":
        # By NumPy: pandas would go by nanoseconds on some versions.
        return pd.Series(np.array([*values], dtype="M8[us]"))
    return pd.Series([*values], dtype=dtype)


def contained(source: str, table: OddTable, rows: Rows, folder: Path) -> Any:
    """Give rows as a source; files are written to the folder, over those of before."""
    if source == "csv":
        path = folder / "table.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.dtypes)
            writer.writerows([_written(cell) for cell in row] for row in rows)
        return path
    frame = table.frame(rows)
    if source == "pandas":
        return frame
    if source == "dask":
        return dataframe.from_pandas(frame, npartitions=_N_PARTITIONS, sort=False)
    (folder / source).mkdir(exist_ok=True)
    if source == "folder":
        return in_files(frame, folder / source, math.ceil(len(rows) / _N_FILES))
    if source == "batches":
        return arrow_of(frame).to_batches(max_chunksize=_ROWS_OF_A_BATCH)
    return SOURCES["Table" if source == "arrow" else source](frame, folder / source)


def _written(cell: Any) -> Any:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    return cell.isoformat() if hasattr(cell, "isoformat") else cell


def odd_tables() -> dict[str, OddTable]:
    tables = (_plain(), _cells(), *_others(), *_of_units())
    return {table.name: table for table in tables}


def _numbers(n_rows: int) -> list[float]:
    """Give numbers that look random; one is 0, and none is near another."""
    return [round(5 * math.sin(1.7 * i * i), 3) for i in range(n_rows)]


def _plain() -> OddTable:
    numbers = _numbers(60)
    return _made(
        "plain",
        (8.0, -8.0, "r", "u"),
        a=("float64", _NUMBER, numbers[:30]),
        b=(
            "float64",
            replace(_NUMBER, nullable=True),
            [None if i % 9 == 0 else numbers[-1 - i] for i in range(30)],
        ),
        c=(object, Categorical(["p", "q", "r"]), ["pqr"[i * i % 3] for i in range(30)]),
        y=(object, _LABELS, _cycle("uvv", 30)),
    )


def _cells() -> OddTable:
    """So many rows are declared that tables of three columns are measured."""
    plain = _plain()
    assert plain.schema is not None
    schema = replace(plain.schema, class_counts={"u": 400, "v": 400})
    return replace(plain, name="cells", schema=schema)


def _made(
    name: str,
    extra: tuple[Any, ...],
    *,
    n_small: int = 0,
    n_rows: int | None = None,
    target: str | None = "y",
    sources: tuple[str, ...] = ALL_SOURCES,
    refusable: bool = False,
    **columns: tuple[Any, Any, Sequence[Any]],
) -> OddTable:
    """Put columns together: a dtype, what is declared or None, and the cells of each.

    With `n_small` a column "x" of so many small whole numbers follows. Labels "y" that
    take turns are last where no others are given. Where nothing is declared of any
    column there is no schema.
    """
    length = len(next(iter(columns.values()))[2])
    if n_small:
        small = Continuous(0, n_small - 1, integer=True)
        columns["x"] = "float64", small, _cycle([*map(float, range(n_small))], length)
    if target == "y":
        columns["y"] = columns.pop("y", (object, _LABELS, _cycle("uv", length)))
    known: dict[Any, Any] = {
        own: says for own, (_, says, _) in columns.items() if says is not None
    }
    schema = TableSchema(known, target=target, n_rows=n_rows) if known else None
    dtypes = {own: dtype for own, (dtype, _, _) in columns.items()}
    rows = tuple(zip(*(cells for _, _, cells in columns.values()), strict=True))
    return OddTable(name, dtypes, rows, extra, schema, target, sources, refusable)


def _cycle(few: Sequence[Any], n_rows: int) -> list[Any]:
    return [few[i % len(few)] for i in range(n_rows)]


def _of_units() -> Iterator[OddTable]:
    """Make tables in which persons have one to seven rows, some of which take part.

    The person that is added has five, of both classes.
    """
    numbers = _numbers(64)
    who = [f"p{(i * i + 3 * i) % 17 % 12}" if i % 13 != 4 else None for i in range(32)]
    person = "new", 8.0, "q", "u"
    more = tuple(("new", -8.0 + i, "r", "uv"[i % 2]) for i in range(4))
    visits = _made(
        "visits",
        person,
        who=(object, None, who),
        a=("float64", _NUMBER, numbers[:32]),
        c=(object, Categorical(["p", "q", "r"]), ["pqr"[i * i % 3] for i in range(32)]),
        y=(object, _LABELS, _cycle("uvv", 32)),
    )
    assert visits.schema is not None
    several = replace(visits.schema, privacy_unit="who", max_rows_per_unit=3)
    yield replace(visits, schema=several, more=more)
    one = replace(several, max_rows_per_unit=1)
    yield replace(visits, name="one visit each", schema=one, more=more)
    # Ranges and categories are found, and persons have numbers, some above 2^53.
    known = Categorical(["u", "v"])
    numbered = [None if own is None else _LARGE + int(own[1:]) for own in who]
    names = [*"ppqqrst"]
    yield replace(
        _made(
            "undeclared visits",
            (_LARGE - 1, 1e300, "new", "u"),
            who=("Int64", None, numbered),
            a=("float64", None, [own * 10 for own in numbers[:32]]),
            c=(object, None, _cycle(names, 32)),
            y=(object, known, _cycle("uvv", 32)),
            sources=_TYPED,
        ),
        schema=TableSchema(
            {"y": known}, target="y", privacy_unit="who", max_rows_per_unit=3
        ),
        more=((_LARGE - 1, -1e300, "new", "v"), (_LARGE - 1, None, "newer", "u")),
    )


def _others() -> Iterator[OddTable]:
    """Make all tables of rows but the first two."""
    numbers, longer = _numbers(30), _numbers(60)
    holed = [numbers[i] if i % 7 else math.nan for i in range(30)]
    # Labels, categories, ranges and decimals are found; the row has new ones.
    yield _made(
        "undeclared",
        (-1e300, "never seen", 2**63 - 1, "w"),
        a=("float64", None, [1e300, *holed[1:]]),
        c=(object, None, [*_cycle("pq", 29), "once"]),
        n=("Int64", None, [_LARGE + i % 2 if i % 5 else None for i in range(30)]),
        y=(object, None, ["rare" if i == 15 else "uv"[i % 2] for i in range(30)]),
        sources=_TYPED,
    )
    # Two identifiers that are one in floats, and a row with an empty cell.
    ids = _LARGE, _LARGE + 1
    yield _made(
        "large levels",
        (None, 3.0, "v"),
        id=("Int64", Categorical(ids, nullable=True), _cycle(ids, 28)),
        n_small=4,
        y=(object, _LABELS, _cycle("uuvv", 28)),
    )
    # Whole numbers up to the ends of 64 bits, some missing.
    whole = Continuous(-(2**63), 2**63 - 1, integer=True, nullable=True, scale="linear")
    few: Sequence[Any] = (_LARGE, _LARGE + 1, -(2**63), 2**63 - 1, 0, -1, None)
    yield _made(
        "large numbers",
        (2**63 - 1, None, "u"),
        n=("Int64", whole, _cycle(few, 28)),
        m=("Int64", whole, [few[i * 3 % 7] for i in range(28)]),
    )
    wide = Continuous(-1e300, 1e300, nullable=True, scale="linear", decimals="any")
    few = (1e300, -1e300, 5e-324, -0.0, 0.0, math.nan, 2.0**53 + 2, 1.5)
    yield _made(
        "extreme floats",
        (1.7976931348623157e308, math.nan, "v"),
        a=("float64", wide, _cycle(few, 26)),
        b=("float64", wide, [few[i * 5 % 8] for i in range(26)]),
    )
    # Infinity is refused in columns of floats; here it is a category.
    levels = [-math.inf, 0.0, 1.0, math.inf]
    yield _made(
        "infinite levels",
        (math.inf, math.nan, "u"),
        c=(pd.CategoricalDtype(levels), None, [levels[i * i % 4] for i in range(24)]),
        x=("float64", None, _cycle([0.0, 1.0, 2.0], 24)),
        y=(object, None, _cycle("uv", 24)),
        sources=("pandas",),
    )
    # Infinity in a column of floats, which every fit refuses.
    extra = (-math.inf, math.inf, "p", "u")
    yield replace(_plain(), name="infinite floats", extra=extra, refusable=True)
    first, last = datetime.datetime(1, 1, 1), datetime.datetime.max
    few = (first, last, datetime.datetime(1970, 1, 1), None, first, last)
    yield _made(
        "ends of the calendar",
        (last, 4.0, "v"),
        t=("datetime64[us]", Datetime(first, last, nullable=True), _cycle(few, 25)),
        n_small=5,
    )
    # Clocks that are put back, and a time that occurs twice.
    start = pd.Timestamp("2020-10-25T00:30", tz="UTC").tz_convert("Europe/Berlin")
    hours = [start + pd.Timedelta(hours=i % 4) if i % 8 else None for i in range(25)]
    day = Datetime(start, start + pd.Timedelta(days=1), nullable=True, unit="h")
    latest = pd.Timestamp.max.as_unit("us").tz_localize("UTC")
    yield _made(
        "zones",
        (latest.tz_convert("Europe/Berlin"), 2.0, "u"),
        t=(pd.DatetimeTZDtype("us", "Europe/Berlin"), day, hours),
        n_small=3,
    )
    few = ("e\u0301", "\u00e9", "tea", "tea ", "Tea", "NA", "nan", "'tea'")
    yield _made(
        "odd texts",
        ("te\u0301a", 2.0, "v"),
        c=(object, Categorical(few, nullable=True), _cycle(few, 30)),
        n_small=3,
    )
    # Texts that Arrow cannot hold, and such as spell or begin like another.
    few = ("tea", "tea\0jones", "\ud800", "\\ud800", "'\\ud800'", "\0", "", None)
    yield _made(
        "surrogates",
        ("tea\0smith", math.nan, "\ud800"),
        c=(object, None, _cycle(few, 32)),
        x=("float64", None, _cycle([0.0, 1.0, 2.0], 32)),
        y=(object, None, _cycle("uv", 32)),
        sources=("pandas",),
    )
    yield _made(
        "booleans",
        (None, True, 1.0, False),
        b=("boolean", Boolean(nullable=True), _cycle((True, False, None, False), 25)),
        c=("bool", Boolean(), _cycle((True, False, False), 25)),
        n_small=2,
        y=("bool", Boolean(), _cycle((True, False), 25)),
    )
    # Texts with what CSV quotes: line breaks, commas, quotes.
    few = ("x" * 5000, "x" * 5000 + "y", 'a "quoted"\nline, twice', "a\r\nb", "a,b")
    yield _made(
        "long texts",
        ('"\n,\n"' * 2000, 2.0, "v"),
        c=(object, Categorical(few, nullable=True), _cycle(few, 25)),
        n_small=3,
    )
    # A class without a row and one of one row; the row that is added is of the first.
    numbers = _numbers(50)
    both = numbers[:25], numbers[:-26:-1]
    declared = Categorical(["all", "none", "one"])
    yield _made(
        "empty class",
        (-8.0, 8.0, "none"),
        a=("float64", _NUMBER, both[0]),
        b=("float64", _NUMBER, both[1]),
        y=(object, declared, ["one", *["all"] * 24]),
    )
    # All rows are of one class of two, whose labels a whole number has.
    yield _made(
        "one class",
        (1e300, -1e300, 0),
        a=("float64", None, both[0]),
        b=("float64", None, both[1]),
        y=("int64", None, [1] * 25),
        sources=_TYPED,
    )
    few = (None, "u", "v", "w")
    labels = [few[i * i % 4 if i % 3 else 0] for i in range(30)]
    two = object, Categorical(["p", "q"]), _cycle("pq", 30)
    yield _made(
        "missing labels",
        (8.0, "q", None),
        a=("float64", _NUMBER, longer[:30]),
        c=two,
        y=(object, replace(_LABELS, nullable=True), labels),
    )
    yield _made(
        "no target",
        (8.0, 8.0, "new"),
        a=("float64", _NUMBER, longer[:30]),
        b=("float64", _NUMBER, longer[:29:-1]),
        c=(object, Categorical(["p", "q", "r"], nullable=True), _cycle("pqr", 30)),
        n_rows=400,
        target=None,
    )
    measured = [math.nan if i % 6 == 0 else longer[-1 - i] for i in range(30)]
    yield _made(
        "measured target",
        (-8.0, "p", 8.0),
        a=("float64", _NUMBER, longer[:30]),
        c=two,
        y=("float64", replace(_NUMBER, nullable=True), measured),
    )
    # Times in an order, some missing or tied, in the row that is added the other way
    # round; and a column that is computed from them, but wrong.
    days = [
        first + datetime.timedelta(i * i % 97) if i % 7 else None for i in range(30)
    ]
    ends = [day and day + datetime.timedelta((i % 5) / 2) for i, day in enumerate(days)]
    stays = _made(
        "stays",
        (last, first, -1e300, 8.0, "v"),
        a=("datetime64[us]", None, days),
        b=("datetime64[us]", None, [first, *ends[1:20], *[None] * 10]),
        days=("float64", None, holed),
        x=("float64", _NUMBER, longer[:30]),
        sources=_TYPED,
    )
    assert stays.schema is not None
    rules = [Ordered(["a", "b"]), Derived("days", "x * (b - a)", unit="D")]
    yield (stays := replace(stays, schema=replace(stays.schema, rules=rules)))
    yield replace(stays, name="three stays", rows=stays.rows[:3])
    # Columns of one value, of none, and of nothing but empty texts and none.
    digits = Continuous(0, 9, integer=True)
    yield _made(
        "empty cells",
        (9.0, 1.0, "full", 3.0, "u"),
        none=("float64", replace(digits, nullable=True), [None] * 24),
        one=("float64", digits, [7.0] * 24),
        empty=(object, Categorical(["full"], nullable=True), _cycle([None, ""], 24)),
        n_small=4,
    )
    # Cells of a CSV file that spell whole numbers, and one that spells a fraction.
    few = ("1000", "7", "007", "+7", str(_LARGE), str(_LARGE + 1))
    spelt = Categorical([7, 1000, _LARGE, _LARGE + 1], nullable=True)
    yield _made(
        "written numbers",
        ("0.5", "0.5", "u"),
        n=(object, spelt, _cycle(few, 27)),
        x=(object, replace(digits, nullable=True), _cycle(("1e0", "2", ""), 27)),
        sources=("csv",),
    )
    # The row of a CSV file has one field more than there are columns.
    fifths = Continuous(0, 4, integer=True)
    yield _made(
        "field too many",
        ("1", "2", "u", "5"),
        a=(object, fifths, _cycle("0123", 24)),
        b=(object, fifths, _cycle("012", 24)),
        sources=("csv",),
        refusable=True,
    )
    # A file's 127th category comes by a row: from there on pandas takes 16 bits for
    # codes, although 8 would hold those of 128. The first file has 128 of these rows.
    order = [*range(126), 0, 1, *range(63), *range(64)]
    names = [f"c{i:03}" for i in order]
    yield _made(
        "many categories",
        ("new", 2.0, "u"),
        c=("dictionary", Categorical(names[:4], nullable=True), names),
        x=("float64", Continuous(0, 2, integer=True), [float(i % 3) for i in order]),
        y=(object, _LABELS, ["uv"[i % 2] for i in order]),
        sources=("folder",),
    )
