"""CSV files of which not all is stated: their kinds, what a fit refuses, and rows.

`found_kinds` looks at all values. So what it finds is for the curator, or of a table
whose kinds and forms of writing are public.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import filterfalse, islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from skdpsynth.schema import (
    MOST_DECIMALS,
    NOTHING_STATED,
    NUMBER_FORMAT,
    Column,
    Datetime,
    TableSchema,
    to_text,
)
from skdpsynth.table.csv_files import (
    TRUTHS,
    Cells,
    CsvFile,
    CsvForm,
    held_in,
    typed_cells,
)
from skdpsynth.utils import FEW_NUMBERS

__all__ = ["as_cells", "check_csv", "found_kinds", "read_csv"]

Blank = dict[str, Any]  # the JSON of a column, of which nulls are to be filled in

# What a column of two texts holds that stand for true and false.
_TWO_TEXTS = (("yes", "no"), ("y", "n"), ("ja", "nein"), ("oui", "non"), ("t", "f"))
_DAYS = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", "T%H:%M:%SZ")
_ZONED = ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z")
_CURRENCY = r"(?:[$£€¥₹₩₽₪₺%‰]|EUR|USD|GBP|CHF)"
_LEADING_ZERO = re.compile(r"0[0-9]+")  # of a whole number
# Public words for "missing", which may be in an answer.
_PLACEHOLDERS = {
    *("-", "--", "---", ".", "..", "...", "?", "*", "/", "#", "x", "na", "n.a.", "nd"),
    *("n/d", "none", "nil", "k.a.", "tbd", "missing", "unknown", "not available"),
    *("not known", "unbekannt", "inconnu", "0000-00-00", "#value!", "#div/0!"),
}
# Texts amid numbers or times, as many of them and such a share of the cells, do not
# make texts of these.
_FEW_TEXTS, _SMALL_SHARE = 3, 0.2
_NONE_OF = {"number": "no number", "bool": "not true or false", "Timestamp": "no time"}
_MOST_DIGITS = 18  # of whole numbers that 64 bits hold, in any case


def read_csv(
    path: Path,
    columns: Mapping[Hashable, Any],
    *,
    rows: int | None = None,
    infer: bool = False,
    times: str | None = None,
    **options: Any,  # noqa: ANN401 - of `CsvFile`
) -> pd.DataFrame:
    """Read a CSV file whose columns have the dtypes that are stated, or are found."""
    file = CsvFile(path, columns, **options)
    if infer:
        file = replace(file, columns={**found_kinds(file, times)[0].kinds, **columns})
    _ = file.schema
    return file.typed(file.cells(file.names, rows))


def check_csv(
    path: Path,
    schema: TableSchema,
    columns: Mapping[Hashable, Any],
    times: str | None = None,
    **options: Any,  # noqa: ANN401 - of `CsvFile`
) -> pd.DataFrame:
    """Do what `TableSchema.check` does; also count the cells that a fit refuses."""
    file = CsvFile(path, columns, **options)
    file = replace(file, columns={**found_kinds(file, times)[0].kinds, **columns})
    cells, table, found = file.cells(file.names), {}, []
    for name in file.names:
        odd: list[str] = []
        how: dict[str, Any] = {"rounded": False, "refused": odd}
        table[name] = file.typed_column(cells[name], name, **how)
        if odd:
            lost = table[name].isna().to_numpy() & pc.is_valid(cells[name]).to_numpy()
            texts = pc.unique(cells[name].filter(pa.array(lost)))
            what = _NONE_OF[str(held_in(file.columns[name]))]
            what += f": fit refuses, the first in row {lost.argmax() + 1:,} below the"
            found.append((name, f"{what} names; {_remedy(texts)}", int(lost.sum())))
    findings = schema.check(pd.DataFrame(table))
    first = pd.DataFrame(found, columns=findings.columns).astype(findings.dtypes)
    return pd.concat([first, findings], ignore_index=True)


def found_kinds(
    file: CsvFile, times: str | None = None, given: TableSchema = NOTHING_STATED
) -> tuple[TableSchema, str, list[str]]:
    """Add columns that nobody states to a schema; also as a template, and hints."""
    columns, hints = [], []
    names = [name for name in file.names if name not in file.columns]
    cells = file.cells(names)
    for name in names:
        kind, hint = _kind_of(cells[name], file.form, times)
        if name == unnamed(0):  # of rows, as pandas and R write them
            kind, hint = {"kind": "identifier"}, "taken for the numbers of rows"
        columns.append([name, kind])
        hints += [f"{name!r}: {hint}"] * bool(hint)
    text = to_text({**NOTHING_STATED.to_dict(), "columns": columns})
    found = TableSchema.from_json(text)
    blanks = {n: own for n, own in found.blanks.items() if n not in given.columns}
    given = replace(
        given,
        columns={**found.columns, **given.columns},
        blanks={**blanks, **given.blanks},
    )
    return given, text, hints


def unnamed(place: int) -> str:
    """Return what a column without a name is called, as pandas does."""
    return f"Unnamed: {place}"


def _kind_of(cells: Cells, form: CsvForm, times: str | None) -> tuple[Blank, str]:
    """Describe a column by its texts, as a template does; and say what is odd in it."""
    known = pc.value_counts(pc.ascii_trim_whitespace(cells.drop_null()))
    texts, counts = known.field(0), known.field(1)

    def few(odd: Cells) -> bool:
        many = len(texts) > FEW_NUMBERS and len(odd) <= _FEW_TEXTS
        own = pc.sum(counts.filter(pc.is_in(texts, value_set=odd))).as_py() or 0
        return not len(odd) or (many and own <= _SMALL_SHARE * len(cells))

    nullable: Blank = {"nullable": None}
    ends = {"low": None, "high": None, **nullable}
    if not len(texts):
        return {"kind": "continuous", **ends}, ""
    own = {text.lower(): text for text in texts.slice(0, 3).to_pylist()}
    if own.keys() <= {*TRUTHS} and len(texts) <= len(own) + 1:
        return {"kind": "boolean", **nullable}, ""
    for true, false in _TWO_TEXTS:
        if own.keys() == {true, false} and len(texts) == len(own):
            words = {"true": own[true], "false": own[false]}
            return {"kind": "boolean", **nullable, **words}, ""
    hint = ""
    for how in (form, replace(form, decimal=",", thousands=None)):
        number, odd = _as_numbers(texts, how)
        if number is not None and few(odd):
            if how == form:
                return number, _remedy(odd)
            hint = "if these are numbers, add --decimal , or --thousands ,"
    written = [f"{day}{clock}" for day in _DAYS for clock in _CLOCKS]
    found: list[tuple[Blank, str | None, Cells]] = []
    for time in [*[times] * (times is not None), *written, *_ZONED, None]:
        odd = _no_times(texts, time)
        if few(odd) and not (time is None and found):
            found.append(({"kind": "datetime", **ends, "unit": None}, time, odd))
            if time == times:  # that of the curator
                break
    if len(found) == 1:
        ((kind, time, odd),) = found
        return kind | ({} if time is None else {"format": time}), _remedy(odd)
    if found:
        hint = "if these are times, name their form by --date-format"
    return {"kind": "categorical", "categories": None, **nullable}, hint


def _as_numbers(texts: Cells, form: CsvForm) -> tuple[Blank | None, Cells]:
    """Describe numbers, None where there are none; and say which are none."""
    mark = form.thousands
    if mark is None:  # found where it cannot be that of decimals
        other = form.mark_of(",")
        grouped = rf"[0-9]{re.escape(other or '')}[0-9]{{3}}[.,]"
        mark = (
            other if pc.any(pc.match_substring_regex(texts, grouped)).as_py() else None
        )
    sign = f"(?:{_CURRENCY})?"
    pattern = form.numbers_within(sign, sign, mark)
    fits = pc.match_substring_regex(texts, pattern)
    odd, texts = texts.filter(pc.invert(fits)), texts.filter(fits)
    before, number, after = (
        pc.replace_substring_regex(texts, pattern, rf"\{group}") for group in (2, 3, 4)
    )

    def holds(what: str) -> bool:
        return bool(pc.any(pc.match_substring_regex(number, what)).as_py())

    signs = [pc.unique(part).to_pylist() for part in (before, after)]
    if [*map(len, signs)] != [1, 1] or holds(r"^[+-]?0[0-9]+$"):
        return None, odd
    group = ""
    if mark is not None and pc.any(pc.match_substring(number, mark)).as_py():
        group, number = ",", pc.replace_substring(number, mark, "")
    number = pc.replace_substring(number, form.decimal, ".")
    integer = not holds(r"[^0-9+-]")
    if integer and (pc.max(pc.binary_length(number)).as_py() > _MOST_DIGITS):
        return None, odd
    tails = pc.replace_substring_regex(number, r"^[^.]*\.?", "")
    lengths = pc.unique(pc.binary_length(tails)).to_pylist()
    spec = "d" if group else None
    if not integer and not holds("[eE]"):
        zeros = pc.binary_length(pc.replace_substring_regex(tails, "0+$", ""))
        if len(lengths) == 1:
            spec = f".{lengths[0]}f"
        elif 0 in lengths:
            spec = "g"
        elif pc.max(zeros).as_py() <= MOST_DECIMALS:
            spec = "s"
    kind: Blank = {"kind": "continuous", "low": None, "high": None}
    kind |= {"integer": True, "nullable": None} if integer else {"nullable": None}
    ((left,), (right,)) = signs
    if spec is not None or left or right:
        kind["format"] = f"{left}%{group}{spec or 's'}{right}"
    return kind, odd


def _no_times(texts: Cells, form: str | None) -> Cells:
    """Return texts, or enough of them, that a form of times would not give again."""
    if form is None:
        refused: list[str] = []
        for some in (texts[:FEW_NUMBERS], texts):  # most texts are none, which is fast
            if len(refused) <= _FEW_TEXTS:
                typed_cells(some, Datetime("1970", "1970"), refused=refused)
        return pa.array({*refused}, texts.type)

    def fits(text: str) -> bool:
        with suppress(ValueError):
            moment = datetime.strptime(text, form)
            zoned = "%z" in form and not text.endswith("Z")
            return zoned or moment.strftime(form) == text
        return False

    each = (text.as_py() for text in texts)
    odd = islice(filterfalse(fits, each), _FEW_TEXTS + 1)
    return pa.array([*odd], texts.type)


def _remedy(texts: Cells) -> str:
    """Return what to do about texts amid others; it shows public words only."""
    odd = texts.to_pylist()
    if not odd:
        return ""
    public = all(text.strip().lower() in _PLACEHOLDERS for text in odd)
    flags = [shlex.quote(f"--na-values={text}") for text in sorted(odd) if public]
    flag = " ".join(flags) or "--na-values=TEXT"
    return (
        f"where a cell of another kind is a missing value, add {flag}; correct others"
    )


def as_cells(
    rows: pd.DataFrame,
    columns: Mapping[Hashable, Column],
    form: CsvForm,
    times: str | None,
) -> pd.DataFrame:
    """Write numbers and times as they were in the CSV file of a fit."""
    for name, series in rows.items():
        column = columns.get(name)
        how = getattr(column, "format", None)
        if series.dtype.kind == "M" and (how or times):
            rows[name] = series.dt.strftime(how or times)
        elif series.dtype.kind in "iuf":
            rows[name] = _numbers_written(series, column, form)
    places = enumerate(rows)
    return rows.set_axis(
        ["" if name == unnamed(place) else name for place, name in places], axis=1
    )


def _numbers_written(series: pd.Series, column: Column | None, form: CsvForm) -> Any:  # noqa: ANN401
    """Write numbers by the format of their column, or with so many decimals."""
    decimals, whole = getattr(column, "decimals", None), series.dtype.kind != "f"
    digits = "s" if whole or not isinstance(decimals, int) else f".{decimals}f"
    how = getattr(column, "format", None) or f"%{digits}"
    if how == "%s" and form.decimal == ".":  # as the writer does, and faster
        return series
    parts = NUMBER_FORMAT.fullmatch(how)
    assert parts is not None
    before, group, digits, after = parts.groups()
    spec = group + {"s": "", "g": ".15g", "d": "" if whole else ".0f"}.get(
        digits, digits
    )
    marks = str.maketrans({",": form.mark_of(group), ".": form.decimal})

    def text(number: object) -> str:
        written = format(number, spec).translate(marks)
        sign = "-" * written.startswith("-")
        return f"{sign}{before}{written.removeprefix('-')}{after}"

    values = series.to_numpy(dtype=object, na_value=None)
    return [None if value is None else text(value) for value in values]
