"""CSV files as tables: columns have the dtypes that a schema states.

A reader of text files delivers cells. What a cell becomes follows from its own text and
from what a schema states of its column, so no other row has a say in it: no values
choose a dtype, and no number passes through a type that would round it. The arrays that
come out are typed, and from there on a cell is treated as one of a typed source.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cached_property, partial, reduce
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.schema import NUMBER_FORMAT, Column, TableSchema, family
from skdpsynth.utils import compression_of, require, withheld
from skdpsynth.utils.arrays import Bools
from skdpsynth.utils.containers import as_frame

__all__ = ["CsvFile", "CsvForm"]

Cells = Any  # of Arrow, which has no stubs: texts and nulls, values, or a type

# What stands for a missing value in every column: the texts of `pandas.read_csv`.
MISSING_TEXTS = {
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
    *("1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
}
_HOLDS = {"continuous": "number", "boolean": "bool", "datetime": "Timestamp"}
# What pandas reads texts as, which are objects before its version 3.
_TEXT = pd.Series(dtype=str).dtype
_DTYPES = {pa.bool_(): pd.BooleanDtype(), pa.int64(): pd.Int64Dtype()}
_DTYPES |= {pa.large_string(): _TEXT} if isinstance(_TEXT, pd.StringDtype) else {}

# Plain forms, for Arrow. They have no number that overflows, which its versions treat
# differently, and no sign that one parser alone knows.
_PLAIN_WHOLE = "^-?[0-9]{1,18}$"
_PLAIN_NUMBER = r"^-?[0-9]{1,20}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,2})?$"
_PLAIN_TIME = (
    r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}(?:[ T][0-9]{2}:[0-9]{2}"
    r"(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?$"
)
_TWO = "([0-9]{2})"
_DIGITS = {"%Y": "([1-9][0-9]{3})", "%m": _TWO, "%d": _TWO}
_DIGITS |= {"%H": _TWO, "%M": _TWO, "%S": _TWO}
NONE = "^$"  # no text is: an empty one is missing
_ISO = re.compile("%Y-%m-%d(?:[ T]%H:%M(?::%S(?:%z)?)?)?")

_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_DATE = re.compile(r"([0-9]{4})(?:([-/.])([0-9]{2})(?:\2([0-9]{2}))?)?", re.ASCII)

_BLOCK_BYTES = 2**24  # of the file, read at a time
_SEPARATORS = ",;\t|"  # in this order, where nobody says which it is
UNNAMED = "Unnamed: {}"  # by its place: what pandas calls a column without a name


@dataclass(frozen=True)
class CsvForm:
    """How a CSV file is written, which is public."""

    # One ASCII character; by default the first of `_SEPARATORS` in the line of names.
    separator: str | None = None
    encoding: str = "utf-8"  # one that writes ASCII as ASCII
    missing: Sequence[str] = ()  # beside `MISSING_TEXTS`; the first is also written
    decimal: str = "."
    thousands: str | None = None
    times: str | None = None  # of times whose column has no format; else ISO 8601

    def __post_init__(self) -> None:
        marks, own = {self.decimal, self.thousands or "'"}, self.separator
        require(
            len(marks) == 2 and all(re.fullmatch('[^0-9eE"+-]', str(m)) for m in marks),
            "The marks of decimals and of thousands must be one character each, no"
            f" digit, no sign, and not the same. Got {self.decimal!r} and"
            f" {self.thousands!r}.",
        )
        require(
            own is None or (len(own) == 1 and own.isascii() and own not in '"\n\r'),
            f"The separator must be one ASCII character. Got {own!r}; for a tab give"
            " '\\t'.",
        )
        require(
            _writes_ascii(self.encoding),
            "The encoding must be one that Python knows and that writes ASCII as ASCII,"
            f" such as utf-8, cp1252 or latin-1. Got {self.encoding!r}; convert the"
            " file.",
        )

    def stated(self, schema: TableSchema) -> CsvForm:
        """Return the form with what a schema states of it."""
        stated = schema.na_values, schema.decimal or ".", schema.thousands
        return CsvForm(self.separator, self.encoding, *stated, self.times)

    def numbers_in(
        self, cells: Cells, before: str, after: str, mark: str | None
    ) -> Cells:
        """Return sign, text before, number and text behind; null for no number."""
        whole, point = "[0-9]+", re.escape(self.decimal)
        if mark:
            whole = rf"[0-9]{{1,3}}(?:{re.escape(mark)}[0-9]{{3}})+|[0-9]+"
        number = rf"[+-]?(?:(?:{whole})(?:{point}[0-9]*)?|{point}[0-9]+)"
        parts = ("[+-]?", rf"{before}\s*", rf"{number}(?:[eE][+-]?[0-9]+)?")
        named = zip("sbna", (*parts, rf"\s*{after}"), strict=True)
        groups = "".join(f"(?P<{name}>{part})" for name, part in named)
        return pc.extract_regex(cells, rf"^\s*{groups}\s*$")

    def mark_of(self, flags: str) -> str | None:
        """Return what is between thousands by a format, None for nothing."""
        other = "." if self.decimal == "," else ","
        return self.thousands or (other if "," in flags else None)

    def plain_numbers(self, cells: Cells, column: Column) -> Cells:
        """Write numbers as Python does; what is written otherwise is none."""
        before, flags, _, after = parts_of(column)
        mark = self.mark_of(flags)
        if not (before or after or mark) and self.decimal == ".":
            return cells
        before, after = (re.escape(end.strip()) for end in (before, after))
        sign, _, number, _ = self.numbers_in(cells, before, after, mark).flatten()
        number = pc.replace_substring(number, mark, "") if mark else number
        number = pc.replace_substring(number, self.decimal, ".")
        nothing = pa.scalar("", cells.type)
        joined = pc.binary_join_element_wise(sign, number, nothing)
        return joined.fill_null("no number")


def _writes_ascii(encoding: str) -> bool:
    """Return whether each letter of ASCII is itself, whatever stands before it."""
    # Quotes are looked for, and cells are split, in one decoded text. A value must not
    # decide how others are decoded: no shifts, and no escapes that make signs.
    text = "".join(map(chr, range(9, 127))) + r"\u0022 \x22 \42 +ACI- &#34;"
    with suppress(LookupError, UnicodeError):
        name = codecs.lookup(encoding).name.removesuffix("-sig")
        shifts = name.startswith(("iso2022", "hz", "utf-7"))
        same = text.encode(name) == text.encode()
        return not shifts and same and text.encode().decode(name) == text
    return False


PLAIN = CsvForm()


def parts_of(column: Column | None, default: str = "%s") -> tuple[str, ...]:
    """Return what a format of numbers has before, as flags, for digits and behind."""
    parts = NUMBER_FORMAT.fullmatch(getattr(column, "format", None) or default)
    assert parts is not None
    return parts.groups()


def typed_cells(
    cells: Cells, column: Column, form: CsvForm = PLAIN
) -> tuple[pd.Series, Bools]:
    """Read cells, texts and nulls of Arrow, as what a schema says of their column.

    Each distinct text is read once. Also return which are of another kind, and missing.
    """
    # Fractions are rounded, half to even, in a range of whole numbers, and a number
    # that is none of whole categories becomes another that is none.
    categories = getattr(column, "categories", ())
    holds = family(categories[0]) if categories else _HOLDS.get(column.tag)
    if holds not in _HOLDS.values():
        texts = cells.to_pandas(types_mapper=_DTYPES.get)
        return texts, np.zeros(len(cells), dtype=bool)
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    encoded = pc.ascii_trim_whitespace(cells).dictionary_encode()
    known, zone = encoded.dictionary, None
    if holds == "bool":
        words = pa.array(["false", "true"], known.type)
        read = pc.index_in(pc.utf8_lower(known), value_set=words).cast(pa.bool_())
    elif holds == "Timestamp":
        zone = getattr(getattr(column, "low", *categories[:1]), "tzinfo", None)
        read = _times(known, zone, getattr(column, "format", None) or form.times)
    else:
        known = form.plain_numbers(known, column)
        # In ASCII, as a literal of Python, whose own parsers take more.
        known = pc.if_else(pc.match_substring_regex(known, _NUMBER), known, None)
        fit = all(number % 1 == 0 and abs(number) < 2**63 for number in categories)
        if getattr(column, "integer", fit):  # that 64 bits hold
            others = (number for number in count() if number not in categories)
            one = partial(_whole_number, other=next(others) if categories else None)
            # Whole numbers beside missing ones are often written with a zero behind.
            known = pc.replace_substring_regex(known, r"^(-?[0-9]+)\.0*$", r"\1")
            read = _parsed(known, _PLAIN_WHOLE, pa.int64(), one)
        else:  # each correctly rounded to a double
            read = _parsed(known, _PLAIN_NUMBER, pa.float64(), float)
    values = read.take(encoded.indices)
    refused = pc.and_(cells.is_valid(), values.is_null()).to_numpy(zero_copy_only=False)
    series = values.to_pandas(types_mapper=_DTYPES.get)
    return series if zone is None else series.dt.tz_convert(zone), refused


def _parsed(
    known: Cells, plain: str, kind: Cells, one: Callable[[str], object], iso: str = ""
) -> Cells:
    """Let Arrow parse texts of a plain form, maybe rewritten; `one` each other."""

    def value(text: str) -> object:
        with suppress(ValueError, ArithmeticError):
            return one(text)
        return None

    others = pc.invert(pc.match_substring_regex(known, plain)).fill_null(False)
    try:
        texts = pc.if_else(others, None, known)
        texts = pc.replace_substring_regex(texts, plain, iso) if iso else texts
        values = texts.cast(kind)
    except pa.ArrowInvalid:  # of plain form, and yet none, such as 2020-02-30
        others, values = known.is_valid(), pa.nulls(len(known), kind)
    odd = pa.array(map(value, known.filter(others).to_pylist()), kind)
    return pc.replace_with_mask(values, others, odd)


def _whole_number(text: str, other: int | None) -> int:
    """Read a number, rounded half to even, exactly; 64 bits must hold it.

    With `other`, a number that is not whole or that they do not hold is that one.
    """
    number, whole = Decimal(text), 0
    if held := not number or number.adjusted() <= 18:  # else it is not written out
        whole = int(number.to_integral_value(ROUND_HALF_EVEN))
        held = -(2**63) <= whole < 2**63
    if other is not None and not (held and whole == number):
        return other
    require(held, "a number beyond 64 bits")
    return whole


def _times(known: Cells, zone: Any, form: str | None) -> Cells:  # noqa: ANN401
    """Read times by a format, or in the forms of ISO 8601."""
    form = None if form is not None and _ISO.fullmatch(form) else form

    def time(text: str) -> datetime:
        found = None if form else _DATE.match(text)
        if found:  # a date may lack its day and month
            year, _, month, day = found.groups()
            rest = text[found.end() :]
            if month or not rest[:1].isdigit():  # not the form without separators
                text = f"{year}-{month or '01'}-{day or '01'}{rest}"
        read = datetime.strptime(text, form) if form else datetime.fromisoformat(text)
        if zone is not None:
            return read.replace(tzinfo=read.tzinfo or UTC).astimezone(UTC)
        require(read.tzinfo is None, "a time with a zone")
        return read

    # Of Arrow, each time would have to have a zone, or none of them.
    plain, iso = plain_time(form) if form else (_PLAIN_TIME, "")
    plain = plain if zone is None else NONE
    return _parsed(known, plain, pa.timestamp("us", zone and "UTC"), time, iso)


def plain_time(form: str) -> tuple[str, str]:
    """Return a pattern of times in a form of digits, and its groups in ISO 8601."""
    parts = re.split("(%.)", form)
    if not {"%Y", "%m", "%d"} <= {*parts[1::2]} <= _DIGITS.keys():
        return NONE, ""
    places = {code: rf"\{place}" for place, code in enumerate(parts[1::2], 1)}
    iso = re.sub("%.", lambda code: places.get(code[0], "00"), "%Y-%m-%d %H:%M:%S")
    pattern = "".join(_DIGITS.get(part, re.escape(part)) for part in parts)
    return f"^{pattern}$", iso


@dataclass(frozen=True)
class CsvFile:
    """A CSV file whose columns are all stated, to be read as texts block by block."""

    path: Path  # compressed files end with .gz, .bz2 or .zst
    columns: Mapping[Hashable, Column]
    form: CsvForm = PLAIN
    dropped: Sequence[Hashable] = ()  # columns to ignore

    @contextmanager
    def _open(self, *, as_it_is: bool = False) -> Iterator[Any]:
        """Open it as bytes without compression, of UTF-8; errors hold no value."""
        encoding = "utf-8" if as_it_is else self.form.encoding
        with withheld(f"{str(self.path)!r} must be a table that can be read"):
            try:
                file = pa.input_stream(self.path.open("rb"), compression_of(self.path))
                with pa.transcoding_input_stream(file, encoding, "utf-8") as text:
                    yield text
            except (UnicodeError, pa.ArrowInvalid) as error:
                if isinstance(error, pa.ArrowInvalid) and "UTF8" not in str(error):
                    raise
                raise InvalidTableError(
                    f"Expected {str(self.path)!r} in the encoding {self.form.encoding}."
                    " Got bytes that are none of it; name another (--encoding latin-1"
                    " or cp1252 are usual), or convert the file."
                ) from None

    @property
    def names(self) -> list[str]:
        """Of the columns; one without a name has the one that pandas gives it."""
        return [name for name in self._header[0] if name not in self.dropped]

    @property
    def separator(self) -> str:
        """What is between cells."""
        return self._header[2]

    @cached_property
    def schema(self) -> Any:  # noqa: ANN401 - no stubs
        """The columns as Arrow sees them, of texts; refuse those that nobody stated."""
        unknown = [name for name in self.names if name not in self.columns]
        if unknown:
            raise InvalidSchemaError(
                f"Expected a schema of the kinds of all columns of {str(self.path)!r}."
                f" Got none for {unknown!r}, whose dtypes would be found by looking at"
                " their values; write one by 'skdpsynth schema', or add --infer-dtypes"
                " to fit where these are public."
            )
        return pa.schema([(name, pa.large_string()) for name in self.names])

    @cached_property
    def _header(self) -> tuple[list[str], int, str]:
        """The names of all columns, how many lines are not rows, and the separator."""
        # Rows that are read with the names may be in another encoding: not yet.
        encoding = self.form.encoding
        with self._open(as_it_is=True) as file:
            lines = io.TextIOWrapper(file, encoding, "surrogateescape", newline="")
            n_lines, first = 0, ""
            while not first.strip("\ufeff\r\n") and (first := lines.readline()):
                n_lines += 1
            first = first.removeprefix("\ufeff")  # a mark of the encoding
            outside = re.sub(r'"[^"]*"', "", first)
            found = next(filter(outside.__contains__, _SEPARATORS), _SEPARATORS[0])
            separator = self.form.separator or found
            names = next(csv.reader(chain([first], lines), delimiter=separator), [])
            "".join(names).encode()  # refuses names in another encoding
        values = (re.match(_NUMBER, n) or re.match(_PLAIN_TIME, n) for n in names)
        if not names or (not self.columns.keys() & {*names} and any(values)):
            raise InvalidTableError(
                f"Expected a line with the names of columns in {str(self.path)!r}. Got"
                " none, or one with numbers or times, so that it may be a row: add a"
                " line, or describe the columns in a schema if these are their names."
            )
        names = [name or UNNAMED.format(place) for place, name in enumerate(names)]
        as_frame(pd.DataFrame(columns=names))
        check_dropped(self.path, self.dropped, names)
        return names, n_lines, separator

    def to_batches(self, columns: Sequence[Hashable], **_: object) -> Iterator[Any]:
        """Read some columns as texts, in blocks; refuse rows of other cells."""
        self._check_quotes()
        names, n_lines, separator = self._header
        others: list[tuple[int, int]] = []  # rows, and cells that they must not have

        def skip(row: Any) -> str:  # noqa: ANN401 - no stubs
            others.append((row.number - n_lines, row.actual_columns))
            return "skip"  # an error of Arrow's would have the row in it

        read = arrow_csv.ReadOptions(
            use_threads=False,  # with several, which are no faster, rows have no number
            column_names=names,
            skip_rows_after_names=n_lines,
            block_size=_BLOCK_BYTES,
        )
        parse = arrow_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=skip
        )
        convert = arrow_csv.ConvertOptions(
            column_types={name: pa.large_string() for name in names},
            include_columns=[*columns],
        )
        with (
            self._open() as file,
            arrow_csv.open_csv(file, read, parse, convert) as batches,
        ):
            for batch in batches:
                if others:
                    break
                n_bytes = reduce(pc.add, map(pc.binary_length, batch.columns))
                # Quotes at most double them, so that a row never is longer than a
                # block: where blocks begin must not decide whether it can be read.
                most = _BLOCK_BYTES >> 2
                if (pc.max(n_bytes).as_py() or 0) > most:
                    raise InvalidTableError(
                        f"Expected rows of up to {most:,} bytes in {str(self.path)!r}."
                        " Got a longer one; shorten it, or close the quote in it."
                    )
                read_cells = []
                for name, own in zip(batch.schema.names, batch.columns, strict=True):
                    # What stands for a missing value, but for its categories.
                    meant = getattr(self.columns.get(name), "categories", ())
                    gaps = MISSING_TEXTS.union(self.form.missing).difference(meant)
                    found = pc.is_in(own, value_set=pa.array([*gaps], own.type))
                    read_cells.append(pc.if_else(found, None, own))
                yield pa.RecordBatch.from_arrays(read_cells, schema=batch.schema)
        if others:
            number, n_cells = others[0]
            raise InvalidTableError(
                f"Expected {len(names)} cells in every row of {str(self.path)!r}. Got"
                f" {n_cells} in row {number:,} below the names; fill up short rows, and"
                " quote cells that hold a comma, a quote or a line break."
            )

    def cells(self, columns: Sequence[Hashable]) -> Any:  # noqa: ANN401 - no stubs
        """Read some columns as texts, as a table of Arrow."""
        kinds = pa.schema([(name, pa.large_string()) for name in columns])
        return pa.Table.from_batches(self.to_batches(columns) if columns else [], kinds)

    def _check_quotes(self) -> None:
        """Refuse a quote that is neither around a cell nor doubled within it.

        A quote that does not end makes one cell of all rows up to the next one, without
        a word of Arrow's. A row that is written well has an even number of quotes, each
        one that opens a cell behind a separator, and each one that closes it before
        one. So a row of other quotes is refused whatever rows there are beside it.
        """
        marks = {*b"\n\r", *self.separator.encode()}
        inside, sound, rest = False, True, b"\n"  # behind the last quote
        line, opened = 0, 1  # where the rest begins, and the last quote that opens
        with self._open() as file:
            block = file.read(_BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf")
            while block and sound:
                text = rest + block
                *parts, rest = text.split(b'"')
                # Between two quotes outside of cells is nothing if they are doubled.
                outside = [*enumerate(parts)][inside::2]
                wrong = [
                    place + (part[0] in marks)
                    for place, part in outside
                    if part and not (part[0] in marks and part[-1] in marks)
                ]
                sound = not wrong
                for place in wrong[:1] or [place + 1 for place, _ in outside[-1:]]:
                    opened = line + b"".join(parts[:place]).count(b"\n")
                inside ^= len(parts) % 2 == 1
                rest = rest[:1] + rest[1:][-1:]
                line += text.count(b"\n") - rest.count(b"\n")
                block = file.read(_BLOCK_BYTES)
        if inside or not sound or (rest and rest[0] not in marks):
            raise InvalidTableError(
                f"Expected quotes around whole cells in {str(self.path)!r}, and doubled"
                f" within them. Got another one in line {opened:,}; correct it, or"
                " write the file anew, for example by pandas' to_csv."
            )

    def typed(self, table: Any) -> pd.DataFrame:  # noqa: ANN401 - no stubs
        """Read texts, a table of Arrow, as what the schema says."""
        read = {}
        for name in table.column_names:
            column = self.columns[name]
            read[name], refused = typed_cells(table[name], column, self.form)
            if refused.any():
                raise InvalidTableError(
                    f"{name!r} of {str(self.path)!r} must be {column.tag}, as the"
                    " schema says. Got a cell that is none; correct it, name what"
                    " stands for a missing value (--na-values, or na_values of the"
                    " schema), or describe the column as Categorical texts. 'skdpsynth"
                    " check' finds such cells."
                )
        return pd.DataFrame(read)

    def read(self, rows: int | None = None) -> pd.DataFrame:
        """Read all rows, or none."""
        empty = self.schema.empty_table()
        return self.typed(empty if rows == 0 else self.cells(self.names))


def check_dropped(path: Path, dropped: Sequence[Hashable], names: list[str]) -> None:
    """Refuse columns to ignore that a file has not."""
    if strange := [name for name in dropped if name not in names]:
        raise InvalidTableError(
            f"Expected columns of {str(path)!r} to drop. Got {strange!r}; it has"
            f" {names!r}."
        )
