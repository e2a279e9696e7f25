"""CSV files of which not all is stated: their kinds, what a fit refuses, and rows.

`found_kinds` looks at all values. So what it finds is for the curator, or of a table
whose kinds and forms of writing are public.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from skdpsynth.schema import (
    MOST_DECIMALS,
    NOTHING_STATED,
    Boolean,
    Column,
    Continuous,
    Datetime,
    TableSchema,
    asked_of_persons,
    to_text,
)
from skdpsynth.table.csv_files import (
    NONE,
    UNNAMED,
    Cells,
    CsvFile,
    CsvForm,
    parts_of,
    plain_time,
    typed_cells,
)
from skdpsynth.utils import FEW_NUMBERS
from skdpsynth.utils.arrays import Bools
from skdpsynth.utils.dtypes import CLOCK, OF_CLOCKS, UNITS

__all__ = ["as_cells", "check_csv", "found_kinds"]

Blank = dict[str, Any]  # the JSON of a column, of which nulls are to be filled in

# What a column of two texts holds that stand for true and false.
_TWO_TEXTS = (("yes", "no"), ("y", "n"), ("ja", "nein"), ("oui", "non"), ("t", "f"))
_DAYS = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", "T%H:%M:%SZ")
_TIMES = tuple(f"{day}{clock}" for day in _DAYS for clock in _CLOCKS)
# Of which the one that fits is taken, where none above does; None: ISO 8601.
_OTHERS = ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", None)
_SIGN = "[$£€¥₹₩₽₪₺%‰]|EUR|USD|GBP|CHF"
# Public words for "missing", which may be in an answer.
_PLACEHOLDERS = {
    *("-", "--", "---", ".", "..", "...", "?", "*", "/", "#", "x", "na", "n.a.", "nd"),
    *("n/d", "none", "nil", "k.a.", "tbd", "missing", "unknown", "not available"),
    *("not known", "unbekannt", "inconnu", "0000-00-00", "#value!", "#div/0!"),
}
# Texts amid numbers or times, as many of them and such a share of the cells, do not
# make texts of these.
_FEW_TEXTS, _SMALL_SHARE = 3, 0.2
_NONE_OF = {"M": "no time", "b": "not true or false"}  # by the kind of a dtype
_MOST_WHOLE = 1e18  # of whole numbers that 64 bits hold, and no codes


def check_csv(file: CsvFile, schema: TableSchema) -> pd.DataFrame:
    """Do what `TableSchema.check` does; also count the cells that a fit refuses."""
    read, _, hints = found_kinds(replace(file, columns=schema.columns))
    kinds = {**read.kinds, **file.columns}
    cells, table, found = file.cells(file.names), {}, []
    for name in file.names:
        column, own = kinds[name], cells[name]
        if column.tag == "categorical" and name in hints:
            found.append((name, hints[name], len(own)))
        table[name], refused = typed_cells(own, column, file.form)
        if refused.any():
            what = _NONE_OF.get(table[name].dtype.kind, "no number")
            what += f": fit refuses, the first in row {refused.argmax() + 1:,} below"
            what += f" the names; {_remedy(pc.unique(own.filter(refused)))}"
            found.append((name, what, int(refused.sum())))
        if isinstance(column, Continuous) and column.integer:
            plain = Continuous(0, 0, format=column.format)
            exact = typed_cells(own, plain, file.form)[0]
            table[name] = exact if (exact % 1 > 0).any() else table[name]
    findings = schema.check(pd.DataFrame(table))
    first = pd.DataFrame(found, columns=findings.columns).astype(findings.dtypes)
    return pd.concat([first, findings], ignore_index=True)


def found_kinds(
    file: CsvFile, given: TableSchema = NOTHING_STATED, *, ask: bool = False
) -> tuple[TableSchema, str, dict[str, str]]:
    """Add columns that nobody states to a schema; also as a template, and hints.

    With `ask` they ask for persons with several rows.
    """
    data, hints = given.to_dict(), dict[str, str]()
    names = [name for name in file.names if name not in file.columns]
    cells = file.cells(names)
    for name in names:
        kind, hint = _kind_of(cells[name], file.form)
        if name == UNNAMED.format(0):  # of rows, as pandas and R write them
            kind, hint = {"kind": "identifier"}, "taken for the numbers of rows"
        data["columns"].append([name, kind])
        if ask and {"categories", "integer"} & kind.keys():
            counts = pc.value_counts(cells[name].drop_null()).field(1).to_pylist()
            hint = hint or asked_of_persons(name, counts)
        hints |= {name: hint} if hint else {}
    text = to_text(data)
    return TableSchema.from_json(text), text, hints


def _kind_of(cells: Cells, form: CsvForm) -> tuple[Blank, str]:
    """Describe a column by its texts, as a template does; and say what is odd in it."""
    known = pc.value_counts(pc.ascii_trim_whitespace(cells.drop_null()))
    texts, counts = known.field(0), known.field(1).to_numpy()

    def few(odd: Bools) -> bool:
        if odd.sum() > _FEW_TEXTS or counts[odd].sum() > _SMALL_SHARE * len(cells):
            return False
        # Few numbers beside a word may be codes, but not beside one for "missing".
        return len(texts) > FEW_NUMBERS or _are_public(texts.filter(odd))

    nullable: Blank = {"nullable": None}
    ends = {"low": None, "high": None, **nullable}
    if not len(texts):
        return {"kind": "continuous", **ends}, ""
    if not typed_cells(texts, Boolean())[1].any():
        return {"kind": "boolean", **nullable}, ""
    own = {text.lower(): text for text in texts[:3].to_pylist()}
    for true, false in _TWO_TEXTS:
        if own.keys() == {true, false} and len(texts) == len(own):
            words = {"true": own[true], "false": own[false]}
            return {"kind": "boolean", **nullable, **words}, ""
    other, remedies = "." if form.decimal == "," else ",", []
    forms = {"": form, "decimal": replace(form, decimal=other, thousands=None)}
    for flag, how in (forms | {"thousands": replace(form, thousands=other)}).items():
        number, odd = _as_numbers(texts, how)
        if number is not None and few(odd):
            kind = {"kind": "continuous", **ends, **number}
            if not flag:
                return kind, _remedy(texts.filter(odd))
            line = json.dumps(kind, ensure_ascii=False)
            remedies.append(f"--{flag}={other} and {line}")
    hint = f"if these are numbers: {', or '.join(remedies)}" * bool(remedies)
    found = _as_times(texts, form, few)
    if len(found) == 1:
        ((time, odd),) = found.items()
        kind = {"kind": "datetime", **ends, "unit": None, "format": time}
        return kind, _remedy(texts.filter(odd))
    if found:
        hint = "if these are times, name their form by --date-format"
    if few(~pc.match_substring_regex(texts, f"^({CLOCK})$").to_numpy(False)):
        hint = f"for durations or times of day make a Parquet file, by {OF_CLOCKS}"
    return {"kind": "categorical", "categories": None, **nullable}, hint


def _as_numbers(texts: Cells, form: CsvForm) -> tuple[Blank | None, Bools]:
    """Return how numbers are written, None where none is; and which are none."""

    def some(pattern: str) -> bool:
        return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())

    mark, point = form.mark_of(",") or "", re.escape(form.decimal)
    if not (form.thousands or some(f"[0-9]{re.escape(mark)}[0-9]{{3}}[.,]")):
        mark = ""  # or it may be that of decimals
    head = texts[:FEW_NUMBERS]
    head = form.numbers_in(
        head, f"(?:{_SIGN})?", f"(?:{_SIGN}|{UNITS})?", mark
    ).drop_null()
    if not len(head) or len(head) < min(len(texts), FEW_NUMBERS) - _FEW_TEXTS:
        return None, np.ones(len(texts), dtype=bool)
    _, left, first, right = head[0].as_py().values()
    flags = "+" * some("^[+]") + "," * (mark != "" and some(f"[0-9]{re.escape(mark)}"))
    how = f"{left}%{flags}{{}}{right}"
    column = Continuous(0, 0, format=how.format("s"))
    values, odd = typed_cells(texts, column, form)
    texts = texts.filter(~odd)
    whole = not some(rf"{point}|[0-9][eE]")
    if some(r"^[^0-9]*0[0-9]+[^0-9]*$") or (whole and values.abs().max() > _MOST_WHOLE):
        return None, odd  # codes
    digits = ["d"] * (how != "%{}")
    if not whole:
        short = not some(rf"[0-9][eE]|{point}[0-9]{{{MOST_DECIMALS + 1}}}")
        decimals = min(len(first.partition(form.decimal)[2]), 99)
        digits = [f".{decimals}f", *["s", "g"] * short]
    stated: Blank = {"integer": True} if whole else {}
    for each in digits:
        column = Continuous(0, 0, integer=whole, format=how.format(each))
        parts = (texts[:FEW_NUMBERS], texts)
        if all(_alike(part, column, form).all() for part in parts):
            return stated | {"format": column.format}, odd
    plain = how.format("s").replace("%+", "%")  # the sign of some is no form
    return stated | ({} if plain == "%s" else {"format": plain}), odd


def _as_times(
    texts: Cells, form: CsvForm, few: Callable[[Bools], bool]
) -> dict[str | None, Bools]:
    """Return the forms that texts may be times of, and which texts are none."""
    found: dict[str | None, Bools] = {}
    for time in dict.fromkeys([form.times or _TIMES[0], *_TIMES, *_OTHERS]):
        if found and (time in _OTHERS or form.times in found):
            break
        some = "1970-01-01T00" + "Z" * ("%z" in (time or ""))
        column = Datetime(some, some, format=time)
        # Most forms are none of a column, as its first texts say.
        if (~_alike(texts[:FEW_NUMBERS], column, form)).sum() <= _FEW_TEXTS:
            odd = ~_alike(texts, column, form)
            found |= {time: odd} if few(odd) else {}
    return found


def _alike(texts: Cells, column: Continuous | Datetime, form: CsvForm) -> Bools:
    """Return which texts are what is written of what is read of them."""
    values, refused = typed_cells(texts, column, form)
    if column.format is None:  # digits alone are codes, as "0101"
        return ~refused & pc.match_substring_regex(texts, r"\D").to_numpy(False)
    if "%z" in column.format:  # not written in the zones that they had
        column = Datetime("1970", "1970", format=column.format.replace("%z", ""))
        bare = pc.replace_substring_regex(texts, "[+-][0-9]{2}:?[0-9]{2}$", "")
        return ~refused & _alike(bare, column, form)
    plain, _ = plain_time(column.format)
    if isinstance(column, Datetime) and plain != NONE:
        return ~refused & pc.match_substring_regex(texts, plain).to_numpy(False)
    again = _written(values, column, form).map(str)
    return ~refused & (again.to_numpy() == texts.to_numpy(zero_copy_only=False))


def _remedy(odd: Cells) -> str:
    """Return what to do about texts amid others; it shows public words only."""
    if not len(odd):
        return ""
    flags = [shlex.quote(f"--na-values={text}") for text in sorted(odd.to_pylist())]
    flag = " ".join(flags) if _are_public(odd) else "--na-values=TEXT"
    words = "where a cell of another kind is a missing value, add"
    return f"{words} {flag}; correct others"


def _are_public(texts: Cells) -> bool:
    return all(text.strip().lower() in _PLACEHOLDERS for text in texts.to_pylist())


def as_cells(
    rows: pd.DataFrame, columns: Mapping[Hashable, Column], form: CsvForm
) -> pd.DataFrame:
    """Write numbers and times as they were in the CSV file of a fit."""
    for name, series in rows.items():
        rows[name] = _written(series, columns.get(name), form)
    names = {UNNAMED.format(place): "" for place in range(rows.shape[1])}
    return rows.rename(columns=names)


def _written(series: pd.Series, column: Column | None, form: CsvForm) -> pd.Series:
    """Write numbers by the format of their column, or with so many decimals."""
    kind, decimals = series.dtype.kind, getattr(column, "decimals", None)
    if kind == "M":
        how = getattr(column, "format", None) or form.times
        return series.dt.strftime(how) if how else series
    if kind not in "iuf":
        return series
    shown = f"%.{decimals}f" if kind == "f" and isinstance(decimals, int) else "%s"
    before, flags, digits, after = parts = parts_of(column, shown)
    if parts == ("", "", "s", "") and form.decimal == ".":  # as the writer does
        return series
    digits = {"s": "", "g": ".15g", "d": ".0f" if kind == "f" else ""}.get(
        digits, digits
    )
    marks = str.maketrans({",": form.mark_of(flags), ".": form.decimal})

    def text(number: object) -> str:
        written = format(number, flags + digits).translate(marks)
        sign = written[:1] if written[:1] in "+-" else ""
        return f"{sign}{before}{written.removeprefix(sign)}{after}"

    return series.astype(object).map(text, na_action="ignore")
