"""CSV files as tables: columns have the dtypes that a schema states.

A reader of text files delivers cells. What a cell becomes follows from its own text and
from what a schema states of its column, so no other row has a say in it: no values
choose a dtype, and no number passes through a type that would round it. The arrays that
come out are typed, and from there on a cell is treated as one of a typed source.

Arrow's parsers are given cells of plain forms only, which they read as the functions
for one cell do. All others go through these functions, each distinct text once.
"""

from __future__ import annotations

import csv
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.schema import family
from skdpsynth.utils import withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from pathlib import Path


# What stands for a missing value in every column: the texts of `pandas.read_csv`.
MISSING_TEXTS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
    *("1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
_TRUTHS = ("false", "true")
_HOLDS = {"continuous": "number", "boolean": "bool", "datetime": "Timestamp"}

# Plain forms, for Arrow. They have no number that overflows, which its versions treat
# differently, and no sign or base that one parser alone knows.
_PLAIN_WHOLE = r"^-?[0-9]{1,18}$"
_PLAIN_NUMBER = r"^-?[0-9]{1,20}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,2})?$"
_PLAIN_TIME = (
    r"^[1-2][0-9]{3}-[0-9]{2}-[0-9]{2}(?:[ T][0-9]{2}:[0-9]{2}"
    r"(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?"
)
_ZONE = r"(?:Z|[+-][0-9]{2}:[0-9]{2})$"

# What a number is: as a float literal in ASCII. Python's own parsers take more.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(?:inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_DATE = re.compile(r"([0-9]{4})(?:([-/.])([0-9]{2})(?:\2([0-9]{2}))?)?", re.ASCII)


def typed_cells(
    cells: Any,  # noqa: ANN401 - no stubs
    column: Any,  # noqa: ANN401 - a Column, or what a template states of one
    *,
    rounded: bool = True,
) -> pd.Series:
    """Read cells, Arrow's texts and nulls, as what a schema says of their column.

    Numbers become float64, whole ones Int64, truth values boolean, times
    datetime64[us], and all else is text. If `rounded`, a fraction is rounded, half to
    even, in a range of whole numbers, and a number that is none of whole categories
    becomes another that is none; if not, it makes floats of the column. The words of a
    ValueError hold the cell that is of another kind.
    """
    categories = getattr(column, "categories", ())
    holds = family(categories[0]) if categories else _HOLDS.get(column.tag)
    if holds == "bool":
        return _masked(_truths(_trimmed(cells)), pd.arrays.BooleanArray, False)
    if holds == "Timestamp":
        zone = getattr(getattr(column, "low", *categories[:1]), "tzinfo", None)
        return _moments(_trimmed(cells), zone)
    if holds != "number":
        return texts(cells)
    trimmed = _trimmed(cells)
    whole = getattr(column, "integer", all(map(_is_whole, categories)))
    if whole and (rounded or not _has_fraction(trimmed)):
        other = next(number for number in count() if number not in categories)
        one = partial(_category, other=other) if categories else _whole_number
        numbers = _whole_numbers(trimmed, one)
        return _masked(numbers, pd.arrays.IntegerArray, 0)
    numbers = _parsed(trimmed, _PLAIN_NUMBER, pa.float64(), _number)
    return pd.Series(numbers.to_numpy(zero_copy_only=False))


def _is_whole(category: Any) -> bool:  # noqa: ANN401 - a number
    """Whether a category is a whole number that 64 bits hold."""
    return category % 1 == 0 and abs(category) < 2**63


# --- One cell ---------------------------------------------------------------------


def _number(text: str) -> float:
    """Read a number, correctly rounded to a double."""
    if not (_NUMBER.fullmatch(text) or _NOT_FINITE.fullmatch(text)):
        raise ValueError("no number")
    return float(text)


def _whole_number(text: str) -> int:
    """Read a number, rounded half to even, exactly; 64 bits must hold it."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("no number")
    with suppress(InvalidOperation):  # an exponent of twenty digits
        number = Decimal(text)
        if not number:
            return 0
        if number.adjusted() <= 18:  # before an exponent is written out
            whole = int(number.to_integral_value(ROUND_HALF_EVEN))
            if -(2**63) <= whole < 2**63:
                return whole
    raise ValueError("a number beyond 64 bits")


def _category(text: str, other: int) -> int | None:
    """Read a number that may be a whole category; any that cannot is `other`."""
    number = _number(text)
    if math.isnan(number):
        return None
    with suppress(InvalidOperation):  # an exponent of twenty digits
        exact = Decimal(text)
        if exact.is_finite() and exact.adjusted() <= 18 and exact % 1 == 0:
            return int(exact) if abs(exact) < 2**63 else other
    return other


def _moment(text: str) -> datetime:
    """Read a time in the forms of ISO 8601; a date may lack its day and month."""
    found = _DATE.match(text)
    if found:
        year, _, month, day = found.groups()
        rest = text[found.end() :]
        if month is None and rest[:1].isdigit():  # the form without separators
            return datetime.fromisoformat(text)
        text = f"{year}-{month or '01'}-{day or '01'}{rest}"
    return datetime.fromisoformat(text)


def _naive(text: str) -> datetime:
    moment = _moment(text)
    if moment.tzinfo is not None:
        raise ValueError("a time with a zone")
    return moment


def _aware(text: str) -> datetime:
    """Read a time; one without a zone is in UTC."""
    moment = _moment(text)
    with suppress(OverflowError):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    raise ValueError("a time before the year 1 or after 9999")


# --- Columns of cells -------------------------------------------------------------


def _trimmed(cells: Any) -> Any:  # noqa: ANN401 - no stubs
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    return pc.ascii_trim_whitespace(cells)


def _parsed(
    cells: Any,  # noqa: ANN401 - no stubs
    plain: str,
    kind: Any,  # noqa: ANN401 - no stubs
    one: Callable[[str], Any],
) -> Any:  # noqa: ANN401
    """Let Arrow parse the cells of a plain form, and `one` each other text."""
    others = pc.invert(pc.match_substring_regex(cells, plain))
    if not pc.any(others).as_py():
        return cells.cast(kind)
    others = pc.fill_null(others, False)
    odd = cells.filter(others).dictionary_encode()
    values = pa.array(map(one, odd.dictionary.to_pylist()), kind)
    parsed = pc.if_else(others, None, cells).cast(kind)
    return pc.replace_with_mask(parsed, others, values.take(odd.indices))


def _whole_numbers(cells: Any, one: Callable[[str], int | None]) -> Any:  # noqa: ANN401
    if not pc.all(pc.match_substring_regex(cells, _PLAIN_WHOLE)).as_py():
        # Whole numbers beside missing ones are often written with a zero behind.
        cells = pc.replace_substring_regex(cells, r"^(-?[0-9]+)\.0*$", r"\1")
    return _parsed(cells, _PLAIN_WHOLE, pa.int64(), one)


def _has_fraction(cells: Any) -> bool:  # noqa: ANN401 - no stubs
    others = pc.invert(pc.match_substring_regex(cells, _PLAIN_WHOLE))
    return any(
        not _NUMBER.fullmatch(text) or float(text) % 1 != 0
        for text in cells.filter(others).unique().to_pylist()
    )


def _truths(cells: Any) -> Any:  # noqa: ANN401 - no stubs
    kind = cells.type
    places = pc.index_in(pc.ascii_lower(cells), value_set=pa.array(_TRUTHS, kind))
    if places.null_count > cells.null_count:
        raise ValueError("neither true nor false")
    return places.cast(pa.bool_())


def _moments(cells: Any, zone: Any) -> pd.Series:  # noqa: ANN401 - no stubs
    if zone is None:
        parsed = _parsed(cells, f"{_PLAIN_TIME}$", pa.timestamp("us"), _naive)
        return pd.Series(parsed.to_numpy(zero_copy_only=False))
    # Arrow knows a zone behind a time of day only, and takes no other time beside it.
    form = _PLAIN_TIME.removesuffix("?") + _ZONE
    parsed = _parsed(cells, form, pa.timestamp("us", "UTC"), _aware)
    moments = pd.DatetimeIndex(
        parsed.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
    )
    return pd.Series(moments.tz_localize("UTC").tz_convert(zone))


def texts(cells: Any) -> pd.Series:  # noqa: ANN401 - no stubs
    """Give texts as pandas reads them: objects before its version 3."""
    dtype = pd.Series(dtype=str).dtype
    if isinstance(dtype, pd.StringDtype):
        return pd.Series(dtype.__from_arrow__(cells))
    return cells.to_pandas().astype(object)


def _masked(values: Any, kind: Any, fill: Any) -> pd.Series:  # noqa: ANN401 - no stubs
    """Give an array of Arrow as one of pandas with a mask."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    filled = values.fill_null(fill).to_numpy(zero_copy_only=False)
    return pd.Series(kind(np.array(filled), np.array(missing)))


_BLOCK_BYTES = 2**24  # of the file, read at a time
# Bytes of a row's cells. Quotes at most double them, so that a row never is longer than
# a block: where blocks begin must not decide whether a row can be read.
_MOST_BYTES = 2**22
_SEPARATORS = b"\n\r,"


@dataclass(frozen=True)
class CsvFile:
    """A CSV file whose columns are all stated, to be read block by block.

    Every cell is read as text, and each becomes a typed value by itself.
    """

    path: Path
    columns: Mapping[Hashable, Any]
    remedy: str = "describe all of them"

    def _reading(self) -> withheld:
        return withheld(f"{str(self.path)!r} must be a table that can be read")

    @property
    def names(self) -> list[str]:
        """Of the columns; one without a name has the one that pandas gives it."""
        return self._header[0]

    @cached_property
    def schema(self) -> Any:  # noqa: ANN401 - no stubs
        """The columns as Arrow sees them, of texts; refuse those that nobody stated."""
        unknown = [name for name in self.names if name not in self.columns]
        if unknown:
            raise InvalidSchemaError(
                f"Expected a schema that states the kinds of all columns of"
                f" {str(self.path)!r}. Got none for {unknown!r}, whose dtypes would be"
                f" found by looking at their values; {self.remedy}."
            )
        return pa.schema([(name, pa.large_string()) for name in self.names])

    @cached_property
    def _header(self) -> tuple[list[str], int]:
        """The names, and how many lines of the file are not rows."""
        names: list[str] = []
        n_lines = 0
        encoding = "utf-8-sig"
        with self._reading(), self.path.open(newline="", encoding=encoding) as file:
            for names in csv.reader(file):
                n_lines += 1
                if names:
                    break
        if not names:
            raise InvalidTableError(
                "Expected a line with the names of columns in"
                f" {str(self.path)!r}. Got none; name another file."
            )
        names = [name or f"Unnamed: {place}" for place, name in enumerate(names)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidTableError(
                f"Column names must be distinct. Got {twice!r} more than once in"
                f" {str(self.path)!r}; rename or drop the duplicates."
            )
        return names, n_lines

    def to_batches(self, columns: Sequence[Hashable], **_: object) -> Iterator[Any]:
        """Read some columns as texts, in blocks; refuse rows of other cells."""
        self._check_quotes()
        names, n_lines = self._header
        others: list[int] = []  # numbers of cells that a row must not have

        def skip(row: Any) -> str:  # noqa: ANN401 - no stubs
            others.append(row.actual_columns)
            return "skip"  # an error of Arrow's would have the row in it

        read = arrow_csv.ReadOptions(
            column_names=names, skip_rows_after_names=n_lines, block_size=_BLOCK_BYTES
        )
        parse = arrow_csv.ParseOptions(
            newlines_in_values=True, invalid_row_handler=skip
        )
        convert = arrow_csv.ConvertOptions(
            column_types={name: pa.large_string() for name in names},
            include_columns=[*columns],
            strings_can_be_null=True,
            null_values=MISSING_TEXTS,
        )
        opened = arrow_csv.open_csv
        with self._reading(), opened(self.path, read, parse, convert) as batches:
            for batch in batches:
                if others:
                    break
                n_bytes = 0
                for cells in batch.columns:
                    n_bytes = pc.add(n_bytes, pc.fill_null(pc.binary_length(cells), 0))
                if (pc.max(n_bytes).as_py() or 0) > _MOST_BYTES:
                    raise InvalidTableError(
                        f"Expected rows of up to {_MOST_BYTES:,} bytes in"
                        f" {str(self.path)!r}. Got a longer one; shorten or drop it, or"
                        " close the quote that a cell begins with."
                    )
                yield batch
        if others:
            raise InvalidTableError(
                f"Expected {len(names)} cells in every row of {str(self.path)!r}, one"
                f" for each column. Got a row of {others[0]}; quote cells that hold a"
                " comma, a quote or a line break, and fill up short rows."
            )

    def cells(self, columns: Sequence[Hashable], rows: int | None = None) -> Any:  # noqa: ANN401
        """Read some columns as texts, as a table of Arrow; all rows, or the first."""
        kinds = pa.schema([(name, pa.large_string()) for name in columns])
        batches = [] if rows == 0 else self.to_batches(columns)
        return pa.Table.from_batches(batches, kinds).slice(0, rows)

    def _check_quotes(self) -> None:
        """Refuse a quote that is neither around a cell nor doubled within it.

        A quote that does not end makes one cell of all rows up to the next one, without
        a word of Arrow's. A row that is written well has an even number of quotes, each
        one that opens a cell behind a separator, and each one that closes it before
        one. So a row of other quotes is refused whatever rows there are beside it.
        """
        inside, before = False, _SEPARATORS[:1]
        sound = True
        with self._reading(), self.path.open("rb") as file:
            block = file.read(_BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf")
            while block and sound:
                following = file.read(_BLOCK_BYTES)
                if b'"' in block:
                    after = following[:1] or _SEPARATORS[:1]
                    inside, sound = _quotes(before + block + after, inside)
                before, block = block[-1:], following
        if inside or not sound:
            raise InvalidTableError(
                f"Expected quotes around whole cells in {str(self.path)!r}, and doubled"
                " within them. Got another one; write the file anew, for example by"
                " pandas' to_csv."
            )

    def typed(self, table: Any) -> pd.DataFrame:  # noqa: ANN401 - no stubs
        """Read texts, a table of Arrow, as what the schema says."""
        names = table.column_names
        made = {name: self.typed_column(table[name], name) for name in names}
        return pd.DataFrame(made, columns=names)

    def typed_column(self, cells: Any, name: Hashable, **how: bool) -> pd.Series:  # noqa: ANN401
        """Read a column as `typed_cells` does; name it where one cell cannot be."""
        column = self.columns[name]
        # pyarrow's errors are of this kind, too. Raised after it, ours has no context.
        with suppress(ValueError):
            return typed_cells(cells, column, **how)
        raise InvalidTableError(
            f"{name!r} of {str(self.path)!r} must be {column.tag}, as the schema says."
            " Got a cell that is none; correct the cell, or describe the column as"
            " Categorical texts."
        )


def _quotes(text: bytes, inside: bool) -> tuple[bool, bool]:
    """Say whether a text ends inside of quotes, and whether all of them are sound.

    Its first and last bytes are of what is before and after it.
    """
    found = np.frombuffer(text, np.uint8)
    places = np.flatnonzero(found[1:-1] == ord('"')) + 1
    opens = (np.arange(len(places)) % 2 == 0) ^ inside
    # Beside a quote there may be another one: a doubled quote closes and opens.
    neighbours = found[np.where(opens, places - 1, places + 1)]
    sound = np.isin(neighbours, [*_SEPARATORS, ord('"')]).all()
    return inside ^ bool(len(places) % 2), bool(sound)


def read_csv(
    path: Path,
    columns: Mapping[Hashable, Any],
    *,
    rows: int | None = None,
    infer: bool = False,
    unchecked: bool = False,
    remedy: str = "describe all of them",
) -> pd.DataFrame:
    """Read a CSV file whose columns have the dtypes that are stated.

    Whether numbers declared as whole are so is a question about values: they are
    rounded. In an unchecked table they are not, and what cannot be read stays text.
    Dtypes that nobody states are found by looking at values, if `infer`.
    """
    file = CsvFile(path, columns, remedy)
    if not infer:
        _ = file.schema
    stated = [name for name in file.names if name in columns]
    others = [name for name in file.names if name not in columns]
    # Also where pandas reads all columns: of a file with a row of other cells it may
    # leave out cells of all rows.
    cells = file.cells(stated or others[:1], rows)
    found: dict[Hashable, pd.Series] = {}
    if others:
        with file._reading():
            table = pd.read_csv(path, usecols=others, nrows=rows, low_memory=False)
        found = dict(table.items())
    for name in stated:
        found[name] = texts(cells[name])
        with suppress(*[InvalidTableError] * unchecked):
            found[name] = file.typed_column(cells[name], name, rounded=not unchecked)
    return pd.DataFrame(found, columns=file.names)
