"""`TableSchema`: the columns of a table, its target and its public counts."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.schema._columns import (
    KINDS,
    UNREAD,
    Boolean,
    Categorical,
    Column,
    Datetime,
    Identifier,
    Stated,
    as_typed,
    blank_hint,
    check_is,
    wrong,
)
from skdpsynth.schema._rules import RULES, Rule, SumOf, checked_rules, names_of
from skdpsynth.schema._sdv import columns_of_sdv
from skdpsynth.schema._tables import (
    blank_code,
    blank_metadata,
    described,
    findings,
    schema_code,
)
from skdpsynth.utils import DAMAGED, MOST_SHOWN, WIDTH, parse_json, read_text
from skdpsynth.utils.containers import as_frame
from skdpsynth.utils.dtypes import plain, same_name

Json = Any  # whatever a file says

_VERSION = 1  # of the JSON of a schema
_ZONE = re.compile(r"[A-Za-z0-9_+\-/:]{1,64}")
# A noisy number of units is released for each number of rows: 2 s for so many.
_MOST_ROWS_PER_UNIT = 100_000
_UNIT = ("privacy_unit", "max_rows_per_unit", "order_by", "per_unit")
_CSV = ("na_values", "decimal", "thousands")  # how files are written
# Options that are written only where they are given: most tables need none of them.
_RARE = (
    *("true", "false", "format", "pattern", "regex", "placeholder", "rules"),
    *("strict", "special", *_CSV, *_UNIT),
)
_RARE_UNIT = (*_RARE, "unit")  # of all but times
# The name of a column may be a tuple, too.
_LISTS = ("categories", "columns", "parts", "rules", "per_unit", "na_values")


def encode_value(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Return a JSON-safe form of a name, category, bound, column or rule."""
    if isinstance(value, Column | Rule):
        tag = {"kind" if isinstance(value, Column) else "rule": value.tag}
        return tag | _fields_to_dict(value)
    if isinstance(value, list):
        return [*map(encode_value, value)]
    value = plain(value)
    if isinstance(value, tuple):
        return {"tuple": [encode_value(part) for part in value]}
    if isinstance(value, pd.Timestamp):
        zone = None if value.tzinfo is None else str(value.tzinfo)
        moment = value if zone is None else value.tz_convert("UTC").tz_localize(None)
        return {"time": moment.isoformat(), "unit": value.unit, "zone": zone}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise InvalidSchemaError(
        "Names and categories can be saved if they are str, bool, int, float,"
        f" Timestamp or tuples of these. Got one of type {type(value).__name__}; cast"
        " it to str."
    )


def decode_value(data: Any) -> Any:  # noqa: ANN401 - the inverse of encode_value
    """Return the value, or the list of values, that `encode_value` was given."""
    if isinstance(data, list):
        return [decode_value(part) for part in data]
    if not isinstance(data, dict):
        return data
    if "tuple" in data:
        return tuple(decode_value(part) for part in data["tuple"])
    if "float" in data:
        return float(data["float"])
    time, zone = data["time"], data["zone"]
    if not isinstance(time, str) or len(time) > WIDTH:
        raise ValueError("no time")
    moment = pd.Timestamp(time).as_unit(data["unit"])
    if zone is None:
        return moment
    if not _ZONE.fullmatch(zone) or "dateutil" in zone:
        raise ValueError("a zone that pandas would read from a file")
    try:
        return moment.tz_localize("UTC").tz_convert(zone)
    except OSError as error:  # a name that is a folder of zones
        raise ValueError("no zone") from error


def _fields_to_dict(stated: Stated) -> dict[str, Any]:
    """Return a JSON-safe form of all that is stated."""
    data: dict[str, Any] = {}
    for item in fields(stated):  # type: ignore[arg-type]
        value = getattr(stated, item.name)
        timed = isinstance(stated, Datetime)
        rare = item.name in (_RARE if timed else _RARE_UNIT)
        left_out = rare and (value is False or value in (None, ()))
        if left_out or not item.compare:
            continue
        if isinstance(value, Mapping):
            data[item.name] = [[*map(encode_value, pair)] for pair in value.items()]
        elif isinstance(value, tuple) and item.name in _LISTS:
            data[item.name] = [*map(encode_value, value)]
        else:
            typed = isinstance(stated, Column)  # a bound, and no name
            data[item.name] = encode_value(as_typed(value) if typed else value)
    return data


def _part_from_dict(data: Json, key: str) -> Any:  # noqa: ANN401 - a part of a schema
    """Rebuild what `encode_value` wrote; an option may be absent."""
    kind = _kind_of(data, key)
    required = [item.name for item in fields(kind) if item.default is MISSING]
    options = [item.name for item in fields(kind) if item.name not in required]
    _check_names(data, [key, *required], options)
    values = {name: decode_value(data[name]) for name in data if name != key}
    if values.get("nullable", ...) is None and values.get("categories", ...) != []:
        values["nullable"] = True  # not stated, so they may be missing
    if "table" in values:
        pairs = values["table"]
        values["table"] = dict(pairs)
        if len(values["table"]) < len(pairs):
            raise InvalidSchemaError("A key of the 'table' comes twice; drop one.")
    return kind(**values)


def _kind_of(data: Json, key: str) -> Any:  # noqa: ANN401 - a class
    """Return the class of a column, by the key "kind", or of a rule, by "rule"."""
    _check_names(data, [key])
    known: Mapping[str, type] = KINDS if key == "kind" else RULES
    if data[key] not in known:
        msg = f"Expected a {key!r} of {_listed(known)}. Got {data[key]!r}."
        raise InvalidSchemaError(msg)
    return known[data[key]]


def schema_from_dict(data: Json) -> dict[str, Any]:
    """Return the arguments of a schema that was written, or of a template."""
    options = ["target", "n_rows", "class_counts", "rules", *_CSV, *_UNIT]
    _check_names(data, ["columns"], options)
    columns: dict[Hashable, Column] = {}
    blanks: dict[Hashable, Column] = {}
    with place("'columns'"):
        for number, entry in enumerate(data["columns"], start=1):
            with place(f"Entry {number}"):
                encoded, metadata = entry
                name = decode_value(encoded)
                if name in columns or name in blanks:
                    raise InvalidSchemaError(f"Column {name!r} comes twice; drop one.")
            with place(_shortened(f"Column {name!r}")):
                column, blank = _column_from_dict(metadata)
                (blanks if blank else columns)[name] = column
    with place("'target' or 'class_counts'"):
        counts, target = data.get("class_counts"), decode_value(data.get("target"))
        if counts is not None:
            counts = {decode_value(label): count for label, count in counts}
    found = []
    with place("'rules'"):
        for number, metadata in enumerate(data.get("rules") or (), start=1):
            with place(f"Entry {number}"):
                found.append(_part_from_dict(metadata, "rule"))
    with place("'privacy_unit'"):
        units = {name: decode_value(data.get(name)) for name in _UNIT}
        units["per_unit"] = tuple(units["per_unit"] or ())
        hash((*units.values(),))
    given = (name for name in ("n_rows", *_CSV) if data.get(name) is not None)
    others = {"target": target, "class_counts": counts, **{n: data[n] for n in given}}
    return {"columns": columns, **others, **units, "rules": found, "blanks": blanks}


def to_text(data: Mapping[str, Any]) -> str:
    """Write a schema as JSON: one line per column, so that changes show in a diff."""
    parts = {"schema_version": str(_VERSION), "columns": ""}
    parts |= {k: _dumped(value) for k, value in data.items()}
    for name in {"columns", "rules"} & set(data):
        entries = ",\n".join(map(_entry, data[name]))
        parts[name] = f"[\n{entries}\n  ]"
    lines = ",\n".join(f'  "{name}": {part}' for name, part in parts.items())
    return f"{{\n{lines}\n}}\n"


def _column_from_dict(data: Json) -> tuple[Column, bool]:
    """Return a column, and whether all that it must state, or `nullable`, is left open.

    Such a column is measured; in its blanks is what is as good as nothing.
    """
    kind = _kind_of(data, "kind")
    known = {item.name: item.default for item in fields(kind)}
    required = [name for name, default in known.items() if default is MISSING]
    left = [name for name in required if data.get(name) is None]
    if any(name in data for name in left) and left != required:
        raise InvalidSchemaError(
            f"Expected values of {_listed(required)}, or nulls to have them measured."
            f" Got a null for {_listed(left)} alone; state it too, or none of them."
        )
    if left != required or not (required or data.get("nullable", ...) is None):
        return _part_from_dict(data, "kind"), False
    _check_names(data, ["kind"], sorted(known))
    zone = "Z" if "%z" in (data.get("format") or "") else ""
    nothing: Any = "0D" if data.get("unit") else 0
    nothing = f"1970-01-01T00{zone}" if kind is Datetime else nothing
    stated = {"categories": (), "low": nothing, "high": nothing}
    stated |= {name: own for name, own in data.items() if own is not None}
    nullable = stated.get("nullable")
    if not isinstance(nullable, bool | None):
        raise wrong("The 'nullable' flag must be true, false or null", nullable)
    options = {name: stated[name] for name in known.keys() & stated.keys()}
    column: Column = kind(**options | {"nullable": True})
    column._set(nullable=nullable)  # no category is enough only where it is True
    return column, True


def _entry(entry: object) -> str:
    """Write a column in one line, or its metadata in one each if that is long."""
    line = _dumped(entry)
    if len(line) > 2 * WIDTH:  # what breaks lines within a text is escaped
        line = _dumped(entry, indent=2).replace("\n", "\n    ")
    return f"    {line}"


def _dumped(value: object, indent: int | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    # Lone surrogates, which UTF-8 lacks, become the escapes that JSON has for them.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@contextmanager
def place(words: str) -> Iterator[None]:
    """Name the place of a schema in errors raised inside."""
    try:
        yield
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"{words}: {_shortened(str(error))}") from error
    except DAMAGED as error:
        raise InvalidSchemaError(
            f"{words}: Expected what TableSchema writes there. Got something of another"
            " form; compare it with a schema that was written."
        ) from error


def _check_names(
    data: object, required: list[str], options: list[str] | None = None
) -> None:
    """Refuse what has not the names that are required, or, if options are, others."""
    names = set(data) if isinstance(data, Mapping) else set()
    known = names if options is None else {*required, *options}
    if not {*required} <= names <= known:
        got = _listed(data) if isinstance(data, Mapping) else type(data).__name__
        more = f", optionally {_listed(options)}" if options else ""
        raise InvalidSchemaError(
            f"Expected {_listed(required)}{more}. Got {got or 'none'}; correct it."
        )


def _shortened(text: str) -> str:
    """Leave out the middle of words with a value of thousands of characters."""
    end = MOST_SHOWN * WIDTH // 2
    return text if len(text) <= 2 * end else f"{text[:end]} [...] {text[-end:]}"


def _listed(names: Iterable[object]) -> str:
    return ", ".join(map(repr, names))


@dataclass(frozen=True, repr=False)
class TableSchema(Stated):
    """What is public about a table.

    Columns that are left out are measured on the table, which spends budget.

    Parameters
    ----------
    columns : mapping of column name to column
        `Continuous`, `Categorical`, `Boolean`, `Datetime`, `Identifier` or `Text`
        objects.
    target : column name or None, default=None
        What is to be predicted: a categorical or boolean column, whose values are
        classes; a continuous one or a time, which has none; or a column that `columns`
        leave out, whose labels are then measured (floats and times have none).
    n_rows : int or None, default=None
        Number of rows if it is public, positive.
    class_counts : mapping of class to int, or None, default=None
        Rows per class if they are public: one count >= 0 for each category of the
        target. They add up to `n_rows` if both are given; to at most `n_rows` if the
        target is nullable.
    rules : sequence of rules, default=()
        `Ordered`, `Derived`, `SumOf`, `MissingTogether` or `Determines` objects: what
        is public across columns; those of the last two are all in `columns`. Every
        synthetic row keeps them, and private rows are never compared with them.
    privacy_unit : column name or None, default=None
        The column that identifies whom to protect, such as a patient number: an
        `Identifier`, also if `columns` leave it out. All rows with one value of it are
        then protected together, and not one row.
    max_rows_per_unit : int or None, default=None
        Rows of one unit that a fit uses at most, chosen at random; positive. Rows
        without a value of `privacy_unit` are not used. Needed with `privacy_unit`.
    per_unit : sequence of column names, default=()
        Columns that have one value in all rows of a unit, such as the year of birth of
        a patient: so have those of a synthetic unit that ``sample(..., unit=True)``
        draws. A rule is about such columns alone, or none, or computes one of others.
    order_by : column name or None, default=None
        The column that the rows of a unit are ordered by: a number, a time or an
        ordered category. Only `LinkedSynthesizer` keeps the order; others refuse it.
    na_values : sequence of str, default=()
        Texts that stand for a missing value in a CSV file, such as "-", beside those of
        `pandas.read_csv`. Ignored for other tables.
    decimal, thousands : str or None, default=None
        Marks of numbers in a CSV file, also of what ``skdpsynth sample`` writes.
    blanks : mapping of column name to column, default={}
        Columns whose blanks `from_json` found to be left. They are measured; what is
        stated beside the blanks is kept, and says how a CSV file is read. Two schemas
        that differ in them are equal.

    Raises
    ------
    InvalidSchemaError
        If what is stated contradicts itself.

    See Also
    --------
    Continuous, Categorical, Boolean, Datetime, Identifier, Text : Kinds of columns.
    Ordered, Derived, SumOf, MissingTogether, Determines : The kinds of rules.

    Examples
    --------
    >>> from skdpsynth.schema import Boolean, Continuous, TableSchema
    >>> TableSchema({"age": Continuous(17, 90), "sick": Boolean()}, target="sick")
    TableSchema(
        {
            'age': Continuous(17, 90),
            'sick': Boolean(),
        },
        target='sick',
    )
    """

    columns: Mapping[Hashable, Column]
    _: KW_ONLY
    target: Hashable = None
    n_rows: int | None = None
    class_counts: Mapping[Hashable, int] | None = None
    rules: Sequence[Rule] = ()
    privacy_unit: Hashable = None
    max_rows_per_unit: int | None = None
    per_unit: Sequence[Hashable] = ()
    order_by: Hashable = None
    na_values: Sequence[str] = ()
    decimal: str | None = None
    thousands: str | None = None
    blanks: Mapping[Hashable, Column] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        words = "The 'columns' of TableSchema must be a mapping from column name to"
        check_is(Mapping, f"{words} column", self.columns)
        for name, column in self.columns.items():
            if not isinstance(column, Column):
                kinds = "Continuous, Categorical, Boolean, Datetime, Identifier or Text"
                what = f"Column {name!r} of TableSchema must be a {kinds}"
                raise wrong(what, column)
        self._set(columns=dict(self.columns))
        words = "The 'na_values' of TableSchema must be a list of texts"
        check_is(Iterable, words, self.na_values)
        for text in self.na_values:
            check_is(str, words, text)
        self._set(na_values=tuple(self.na_values))
        if self.privacy_unit is not None or self.max_rows_per_unit is not None:
            self._check_unit()
        self._set(per_unit=names_of("per_unit", "TableSchema", self.per_unit))
        if self.n_rows is not None:
            n_rows = plain(self.n_rows)
            if type(n_rows) is not int or n_rows <= 0:
                words = "The 'n_rows' of TableSchema must be a positive int or None"
                raise wrong(words, n_rows)
            self._set(n_rows=n_rows)
        if self.target is ...:
            raise wrong("The 'target' of TableSchema must be a column name", ...)
        found = self.columns.get(self.target)
        if self.target is not None and isinstance(found, UNREAD):
            raise InvalidSchemaError(
                f"The target {self.target!r} is described as {found!r}, whose values"
                " are neither modelled nor predicted. Name another target, or describe"
                " it by its labels."
            )
        if self.class_counts is not None:
            self._set(class_counts=self._checked_class_counts())
        self._set(rules=checked_rules(self))
        constant = set(self.per_unit)
        if constant and (self.privacy_unit is None or self.privacy_unit in constant):
            raise InvalidSchemaError(
                "The columns 'per_unit' of TableSchema have one value in all rows of a"
                f" unit. Expected 'privacy_unit', and other columns than that. Got"
                f" {self.privacy_unit!r} and {list(self.per_unit)!r}."
            )
        if self.order_by is not None and self.order_by not in (
            self.columns.keys() - constant - {self.privacy_unit}
        ):
            raise InvalidSchemaError(
                f"The rows of a unit are ordered by {self.order_by!r}. Expected"
                " 'privacy_unit', and a column that is described and not in 'per_unit';"
                " correct the schema."
            )
        for rule in self.rules:
            added = rule.names if isinstance(rule, SumOf) else ()
            if any(getattr(self.kinds.get(name), "special", ()) for name in added):
                raise InvalidSchemaError(
                    f"The columns of the rule {rule} must have no special values, which"
                    " are not added up. Leave out one of them."
                )
            of_row = rule.of_rows and rule.names[0] not in constant
            if not of_row and {*rule.names} & constant not in (set(), {*rule.names}):
                raise InvalidSchemaError(
                    f"The rule {rule} is about columns of which some have one value in"
                    " all rows of a unit and others do not, so that synthetic units"
                    " would break it. Add the others to 'per_unit', or drop the rule."
                )

    def _check_unit(self) -> None:
        unit, most = self.privacy_unit, plain(self.max_rows_per_unit)
        blank = blank_hint(unit) or blank_hint(most)
        whole = type(most) is int and 1 <= most <= _MOST_ROWS_PER_UNIT
        if blank or unit is None or not whole:
            raise InvalidSchemaError(
                "The 'privacy_unit' of TableSchema must be a column name and"
                f" 'max_rows_per_unit' an int from 1 to {_MOST_ROWS_PER_UNIT:,}, the"
                f" rows of one unit that take part at most.{blank} Got {unit!r} and"
                f" {self.max_rows_per_unit!r}; give both, or none of them."
            )
        column = self.columns.setdefault(unit, Identifier())  # type: ignore[attr-defined]
        if not isinstance(column, Identifier):
            raise InvalidSchemaError(
                f"The privacy unit {unit!r} must be an Identifier. Got {column!r};"
                " describe it as Identifier(), or leave it out of the columns."
            )
        if self.n_rows is not None or self.class_counts is not None:
            raise InvalidSchemaError(
                "How many rows are used depends on how many each unit has, so it is"
                " not public. Leave out 'n_rows' and 'class_counts' beside"
                " 'privacy_unit'."
            )
        self._set(max_rows_per_unit=most)

    def _checked_class_counts(self) -> dict[Hashable, int]:
        column = self.columns.get(self.target)
        if self.target is None or column is None:
            raise InvalidSchemaError(
                "The 'class_counts' of TableSchema need a target that is described. Got"
                f" {self.target!r}. Name it by target=, and add it to the columns."
            )
        if not isinstance(column, Categorical | Boolean):
            raise InvalidSchemaError(
                f"The target {self.target!r} is {type(column).__name__} and has no"
                " classes. Leave out 'class_counts'; 'n_rows' states how many rows."
            )
        assert self.class_counts is not None
        rule = "The 'class_counts' of TableSchema must be a mapping from class to count"
        check_is(Mapping, rule, self.class_counts)
        given = {plain(key): plain(n) for key, n in self.class_counts.items()}
        if set(given) != set(column.categories):
            raise InvalidSchemaError(
                "The keys of 'class_counts' must be the categories of the target"
                f" {self.target!r}: expected {list(column.categories)!r}, got"
                f" {list(given)!r}."
            )
        for key, count in given.items():
            if type(count) is not int or count < 0:
                rule = f"The count of class {key!r} in 'class_counts' must be an int"
                raise wrong(f"{rule} >= 0", count)
        total = sum(given.values())
        if self.n_rows is not None and (
            total > self.n_rows or (total < self.n_rows and not column.nullable)
        ):
            raise InvalidSchemaError(
                f"The 'class_counts' of TableSchema add up to {total}, but 'n_rows' is"
                f" {self.n_rows}. Correct one, or give only one of the two."
            )
        return given

    def __repr__(self) -> str:
        options = [
            f"{name}={getattr(self, name)!r}"
            for name in ("target", "n_rows", "class_counts", *_CSV[1:], *_UNIT[:3])
            if getattr(self, name) is not None
        ]
        listed = {"per_unit": self.per_unit, "na_values": self.na_values}
        options += [f"{name}={[*own]!r}" for name, own in listed.items() if own]
        if self.rules:
            rules = "".join(f"        {rule!r},\n" for rule in self.rules)
            options.append(f"rules=[\n{rules}    ]")
        code = {name: column._code() for name, column in self.columns.items()}
        code |= {name: blank._code(blank=True) for name, blank in self.blanks.items()}
        return schema_code(code, options)

    @property
    def kinds(self) -> dict[Hashable, Column]:
        """What is stated of each column, also where blanks are left: how it is read."""
        return {**self.columns, **self.blanks}

    @classmethod
    def template(
        cls, df: pd.DataFrame, *, form: Literal["code", "json"] = "code"
    ) -> str:
        """Return a schema for a private table, with blanks to fill.

        Parameters
        ----------
        df : DataFrame or Arrow table
            Of pandas, polars or Arrow. Only its column names and dtypes are read, never
            a value. The categories of a category column are values.
        form : {"code", "json"}, default="code"
            Python code, or the JSON that `from_json` reads.

        Returns
        -------
        text : str
            With ``...`` in code, and ``null`` in JSON, where something public is to be
            filled in. A column whose line is deleted is measured, which spends budget,
            and so is one whose nulls are left as they are.

        Raises
        ------
        InvalidTableError
            If `df` is not a DataFrame or a dtype cannot be modelled.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdpsynth.schema import TableSchema
        >>> print(TableSchema.template(pd.DataFrame({"age": [31, 47]})))
        schema = TableSchema(
            {
                'age': Continuous(..., ..., integer=True),
            },
            target=...,
        )
        """
        df = as_frame(df)
        blanks = {name: blank_metadata(name, own) for name, own in df.dtypes.items()}
        if form == "json":
            columns = [[encode_value(name), blank] for name, blank in blanks.items()]
            return to_text({**cls({}).to_dict(), "columns": columns})
        lines = {name: blank_code(blank) for name, blank in blanks.items()}
        return f"schema = {schema_code(lines, ['target=...'])}"

    @classmethod
    def from_dataframe(
        cls, public_df: pd.DataFrame, *, target: Hashable = None
    ) -> TableSchema:
        """Read the schema off a table that is public.

        .. warning::
            Bounds, categories and missing values are copied exactly. Never pass the
            private table, nor a part of it: the guarantee of a synthesizer would not
            cover what the schema tells. Use `template` there.

        Parameters
        ----------
        public_df : DataFrame or Arrow table
            A public table with the columns of the private one, for example last
            year's published file.
        target : column name or None, default=None
            What is to be predicted. It becomes categorical, but for floats, times and
            more than 32 whole numbers, which have no classes.

        Returns
        -------
        schema : TableSchema
            One column for each of the table. `n_rows` and `class_counts` are left
            None: those of another table say nothing.

        Raises
        ------
        InvalidTableError
            If a dtype cannot be modelled, a value is infinite, or the target is absent.
        """
        public_df = as_frame(public_df)
        if target is not None and target not in public_df.columns:
            raise InvalidTableError(
                f"The target {target!r} is not a column of the table."
            )
        columns = {
            name: described(name, series, is_target=same_name(name, target))
            for name, series in public_df.items()
        }
        return cls(columns, target=target)

    @classmethod
    def from_sdv(
        cls,
        metadata: Any,  # noqa: ANN401 - of a library that is not imported
        *,
        table: str | None = None,
    ) -> TableSchema:
        """Read the schema off metadata of SDV, the Synthetic Data Vault.

        .. warning::
            Ranges and categories become public. Where SDV detected them from the
            private table, they are not: take these out of the metadata first.

        Parameters
        ----------
        metadata : Metadata or dict
            Of SDV, or what their `to_dict` returns, of version 1 or 2.
        table : str or None, default=None
            Which table, if they are of several.

        Returns
        -------
        schema : TableSchema
            Columns without a range, or without categories, are measured. Keys and ids
            are an `Identifier`, personal data a `Text`: they are not read. What the
            metadata do not say may be missing.

        Raises
        ------
        InvalidSchemaError
            If `metadata` has another form, or no such table.

        Examples
        --------
        >>> from skdpsynth.schema import TableSchema
        >>> age = {"sdtype": "numerical", "range_min": 0, "range_max": 120}
        >>> age |= {"decimal_places": 0, "range_is_nullable": False}
        >>> TableSchema.from_sdv({"columns": {"age": age, "name": {"sdtype": "name"}}})
        TableSchema(
            {
                'age': Continuous(0, 120, integer=True),
                'name': Text(),
            },
        )
        """
        with place("The metadata"):
            return cls(**schema_from_dict({"columns": columns_of_sdv(metadata, table)}))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form of the schema.

        Returns
        -------
        data : dict
            Holds dict, list, str, int, float, bool and None only.
        """
        data = _fields_to_dict(self)
        for name, blank in self.blanks.items():
            required = [i.name for i in fields(blank) if i.default is MISSING]  # type: ignore[arg-type]
            left = dict.fromkeys(required or ["nullable"])
            data["columns"].append([encode_value(name), encode_value(blank) | left])
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TableSchema:
        """Rebuild the schema that `to_dict` wrote.

        Parameters
        ----------
        data : mapping
            What `to_dict` returned, possibly after a trip through JSON.

        Returns
        -------
        schema : TableSchema
            Equal to the original.

        Raises
        ------
        InvalidSchemaError
            If `data` has another form.
        """
        with place("The schema"):
            return cls(**schema_from_dict(data))

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Write the schema as JSON, with a line for every column.

        It is the form of `to_dict`, laid out to be read, edited and kept under version
        control.

        Parameters
        ----------
        path : path-like or None, default=None
            A file to write the text to; an existing one is replaced.

        Returns
        -------
        text : str
            The JSON.

        Raises
        ------
        InvalidSchemaError
            If JSON cannot hold the name of a column.

        Examples
        --------
        >>> from skdpsynth.schema import Categorical, TableSchema
        >>> text = TableSchema({"sex": Categorical(["F", "M"])}).to_json()
        >>> TableSchema.from_json(text)
        TableSchema(
            {
                'sex': Categorical(['F', 'M']),
            },
        )
        """
        text = to_text(self.to_dict())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8", newline="\n")
        return text

    @classmethod
    def from_json(cls, path_or_text: str | os.PathLike[str]) -> TableSchema:
        """Read the schema that `to_json` wrote, or a template that was filled in.

        Parameters
        ----------
        path_or_text : path-like or str
            A file, or the JSON itself: a str that starts with a brace.

        Returns
        -------
        schema : TableSchema
            What was written. What has a default may be absent. A column whose bounds,
            or categories, are null is measured; what is stated beside them is kept.

        Raises
        ------
        InvalidSchemaError
            If the text is not such a schema, or has more than 32 MiB; the message names
            the file and the place.
        """
        given = os.fspath(path_or_text)
        is_text = isinstance(path_or_text, str) and given.lstrip().startswith("{")
        with place("The schema" if is_text else f"The file {given!r}"):
            try:
                data = parse_json(given if is_text else read_text(given))
            except ValueError as error:
                raise InvalidSchemaError(
                    f"Expected JSON. Got none ({error}); correct it, or write the"
                    " schema anew."
                ) from error
            _check_names(data, ["schema_version"])
            if (version := data.pop("schema_version")) != _VERSION:
                raise InvalidSchemaError(
                    f"Expected 'schema_version': {_VERSION}. Got {version!r}; use the"
                    " release of skdpsynth that wrote it, or write the schema anew."
                )
            return cls(**schema_from_dict(data))

    def check(self, df: pd.DataFrame) -> pd.DataFrame:
        """List what in a private table the schema does not fit, for the curator only.

        .. warning::
            The result is computed from private rows and is not differentially private.
            Whoever corrects the schema by states what was read off the table:
            do so for mistakes, such as a wrong unit, not to follow the rows.

        Parameters
        ----------
        df : DataFrame or Arrow table
            The private table, or a part of it; of pandas, polars or Arrow.

        Returns
        -------
        DataFrame
            One line per finding, without a value of the table: `column`, its name (None
            for the table and for rules); `finding`, what is not as declared and what
            `fit` does about it; and `rows`, how many rows that is, of a declared count
            how many there are. ``attrs["contains_private_statistics"]`` is True.

        Raises
        ------
        InvalidTableError
            If `df` is not a DataFrame with distinct names on one level.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdpsynth.schema import Continuous, TableSchema
        >>> schema = TableSchema({"age": Continuous(0, 110, integer=True)})
        >>> print(schema.check(pd.DataFrame({"age": [31, 44, 999]})))
          column             finding  rows
        0    age  above 110: clipped     1
        """
        return findings(as_frame(df), self)


NOTHING_STATED = TableSchema({})
