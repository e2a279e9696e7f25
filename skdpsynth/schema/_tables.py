"""A schema and a table: a template, a public table described, and what does not fit."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any, cast

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.schema._columns import (
    KINDS,
    MOST_DECIMALS,
    OPEN,
    SECONDS_OF,
    UNREAD,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    Text,
    Unit,
    family,
    number_of,
)
from skdpsynth.schema._rules import (
    Computed,
    Derived,
    Determines,
    MissingTogether,
    Ordered,
    Rule,
    computed,
    stated_decimals,
)
from skdpsynth.utils import FEW_NUMBERS, warn_deprecated
from skdpsynth.utils.arrays import Bools, Floats
from skdpsynth.utils.containers import native
from skdpsynth.utils.dtypes import (
    CLOCK,
    EXACT,
    OF_CLOCKS,
    UNITS,
    Dtype,
    Kind,
    as_moments,
    conversion_of,
    decimals_of,
    float_info,
    is_date,
    is_missing,
    is_object,
    kind_of_dtype,
    known_kind,
    plain,
    same_name,
    type_of_objects,
)

Schema = Any  # a TableSchema, whose module imports this one


def schema_code(columns: Mapping[Hashable, str], options: Iterable[str]) -> str:
    """Return a call of TableSchema as code, from the code of its columns."""
    lines = ["TableSchema(", "    {"]
    lines += [f"        {name!r}: {column}," for name, column in columns.items()]
    lines += ["    },", *(f"    {option}," for option in options), ")"]
    return "\n".join(lines)


def blank_metadata(name: Hashable, dtype: Dtype) -> dict[str, Any]:
    """Return a column as JSON, from its dtype alone; None is to be filled in."""
    kind, can_be_missing = known_kind(name, dtype)
    metadata: dict[str, Any] = {"kind": kind if kind in KINDS else "continuous"}
    if kind == "categorical":
        metadata["categories"] = None
    elif kind != "boolean":
        metadata |= {"low": None, "high": None}
    if kind == "integer":
        metadata["integer"] = True
    if kind == "timedelta":
        metadata["unit"] = None
    if kind == "categorical" and getattr(dtype, "ordered", False):
        metadata["ordered"] = True
    if can_be_missing:
        metadata["nullable"] = None
    return metadata


def blank_code(metadata: Mapping[str, Any]) -> str:
    """Return the same as code."""
    blanks = {"low": "...", "high": "...", "categories": "[...]"}
    if "unit" in metadata:
        blanks |= dict.fromkeys(("low", "high"), '"...D"')
    parts = [
        blanks.get(name) or f"{name}={'...' if value is None else value}"
        for name, value in metadata.items()
        if name != "kind"
    ]
    return f"{KINDS[metadata['kind']].__name__}({', '.join(parts)})"


def described(name: Hashable, series: pd.Series, *, is_target: bool) -> Column:
    """Describe a column of a public table exactly."""
    kind, _ = column_kind(name, series)
    if is_object(series.dtype) and type_of_objects(series) == "bool":
        kind = "boolean"  # the table is public, and so are its values
    present = _present(series, is_missing(series))
    nullable = len(present) < len(series)
    if kind == "boolean":
        return Boolean(nullable=nullable)
    listed = is_target and kind == "integer" and present.nunique() <= FEW_NUMBERS
    if kind == "categorical" or listed:
        if isinstance(series.dtype, pd.CategoricalDtype):
            categories = as_moments(pd.Series(series.cat.categories)).tolist()
            ordered = series.cat.ordered
        else:
            categories, ordered = sorted({*map(plain, present)}), False
        nullable = nullable or not categories
        return Categorical(categories, ordered=ordered, nullable=nullable)
    # A column without values gets a bound all the same: nothing will be clipped.
    none = "1970" if kind == "datetime" else 0
    low, high = (present.min(), present.max()) if len(present) else (none, none)
    if kind == "datetime":
        # An index: before pandas 3 a column of Arrow loses its zone along with its
        # clock.
        clock = pd.DatetimeIndex(present).tz_localize(None)
        units = SECONDS_OF if len(present) else ()
        whole = (unit for unit in units if (clock == clock.floor(unit)).all())
        unit = cast("Unit | None", next(whole, None))
        return Datetime(low, high, nullable=nullable, unit=unit)
    how: dict[str, Any] = {"integer": kind == "integer"}
    if kind == "timedelta":
        low, high = (pd.Timedelta(float(end), unit="s") for end in (low, high))
        steps = ((present % step == 0).all() for step in SECONDS_OF.values())
        found = dict(zip(SECONDS_OF, steps, strict=True)) if len(present) else {}
        how["unit"] = next((unit for unit, whole in found.items() if whole), None)
    elif kind != "integer":
        values = present.to_numpy(dtype=np.float64)
        exact = float(float_info(present.dtype).eps)
        decimals = int(decimals_of(values, exact, MOST_DECIMALS).max(initial=0))
        large = np.abs(values).max(initial=0) * 10.0**decimals >= EXACT
        how["decimals"] = "any" if decimals > MOST_DECIMALS or large else decimals
    try:
        return Continuous(plain(low), plain(high), nullable=nullable, **how)
    except InvalidSchemaError as error:
        raise InvalidTableError(
            f"Column {name!r} holds an infinite value; replace it."
        ) from error


_RARE = 0.01  # of the rows: fewer of them are often not found
# What most texts of a column look like, and what they then are, or become.
_DAY, _YEAR = r"\d\d?([-./])\d\d?", r"(\d\d|\d{4})"
_CODES = r"\d*|[+0]\d[\d /()-]{6,}"
_DATE = rf"({_DAY}\2{_YEAR}|\d{{4}}[-./]{_DAY})([ T].*)?"
_LOOK = {
    CLOCK: f"times of day or durations: {OF_CLOCKS}",
    _DATE: "dates: pd.to_datetime(...), or"
    " Datetime(low, high, format=...) of a CSV file",
    _CODES: "codes with leading zeros or phone numbers:"
    " Categorical([...]), Identifier() or Text()",
    rf"[-+(]?[$€£]?\s*[-+]?\d[\d.,' ]*[%€£)]*(?:{UNITS})?": "numbers:"
    " pd.to_numeric(...) without signs, brackets, decimal commas and units (all the"
    " same), or Continuous(low, high, format=...) of a CSV file without brackets",
}


def asked_of_persons(name: Hashable, counts: Any) -> str:  # noqa: ANN401 - an array
    """Ask whether values, each of so many rows, are persons; "" where they are not."""
    named = re.search(r"(?i:\b|_)(?i:id|nr|no)$|[a-z]I[dD]$", str(name))
    n, most = len(counts), max(counts, default=0)
    # Ages or codes are fewer, and some amounts have many more rows than others.
    alike = n > FEW_NUMBERS and 2 * n <= sum(counts) and most * most <= n
    unit = f"privacy_unit={name!r}, max_rows_per_unit=..."
    asked = f"if these are persons with several rows each: {unit}"
    return asked if alike or (named and most > 1) else ""


def column_kind(
    name: Hashable, series: pd.Series, described: Column | None = None
) -> tuple[Kind, bool]:
    """Return what `known_kind` does, and refuse mixed objects if they may be read."""
    dtype, values, read = series.dtype, series, not isinstance(described, UNREAD)
    found = known_kind(name, dtype)
    listed = isinstance(dtype, pd.CategoricalDtype)
    if listed:
        values = dtype.categories
    mixed = read and is_object(values.dtype) and type_of_objects(values) is None
    if mixed and not listed:
        types = {type(value) for value in series[~series.isna()]}
        names = " and ".join(sorted(kind.__name__ for kind in types))
        way = conversion_of(name, types)
        # scikit-learn's check looks for "argument must be", "string" and "number".
        raise InvalidTableError(
            f"Column {name!r} has dtype object and holds {names}, neither strings alone"
            " nor booleans alone. Every column of the argument must be one of strings, "
            f"of booleans, or have a dtype of numbers or times; convert it by {way}."
        )
    inner = kind_of_dtype(values.dtype)
    if listed and (inner is None or inner[0] == "timedelta" or mixed):
        raise InvalidTableError(
            f"Column {name!r} is a category column whose categories are neither"
            " strings, booleans, numbers nor points in time throughout. Rename them"
            " first, for example by .cat.rename_categories(str)."
        )
    truths = isinstance(described, Boolean) and not described.of_texts
    return ("boolean", found[1]) if truths and is_object(dtype) else found


# The type that categories must have to be values of a column of some kind.
_FAMILY_OF = {
    "categorical": "str",
    "boolean": "bool",
    "integer": "number",
    "continuous": "number",
    "datetime": "Timestamp",
}
# Which kinds of column a description may stand for.
_KINDS_OF: dict[type[Column], set[str]] = {
    Continuous: {"continuous", "integer", "timedelta"},
    Categorical: {*_FAMILY_OF},
    Boolean: {"boolean"},
    Datetime: {"datetime"},
    Identifier: {*_FAMILY_OF, "timedelta"},
    Text: {"categorical"},
}


def check_dtype(
    described: Column, name: Hashable, dtype: Dtype, kind: Kind, can_be_missing: bool
) -> None:
    """Refuse a description that cannot be about a column, whatever its values."""
    stated = {getattr(described, option, None) for option in ("true", "pattern")}
    kinds = _KINDS_OF[type(described)] if stated == {None} else {"categorical"}
    timed = isinstance(described, Continuous) and described.of_durations
    if timed and kind != "timedelta":
        raise InvalidSchemaError(
            f"The schema gives column {name!r} durations as bounds, but its dtype"
            f" {dtype} is {kind}. Give numbers, or convert it by pd.to_timedelta."
        )
    if isinstance(described, Continuous) and kind == "timedelta" and not timed:
        what = f"A bound without a unit, in seconds, of durations (column {name!r})"
        remedy = f"Durations above {described.high:,} seconds are clipped to that now."
        line = f'Continuous("{described.low}D", "{described.high}D", unit="D")'
        remedy += f" Give both with a unit; if these are days: {line}."
        warn_deprecated(what, since="0.3", removed_in="0.5", remedy=remedy)
    if kind not in kinds:
        hint, table = "", f"table[{name!r}]"
        if isinstance(described, Boolean):
            hint = " For whole numbers 0 and 1 use Categorical([0, 1])."
            hint += ' For two texts use Boolean(true="yes", false="no").'
        if isinstance(described, Datetime):
            form = "" if described.format is None else f", format={described.format!r}"
            hint = f" Texts become times by pd.to_datetime({table}{form})."
        if isinstance(described, Continuous) and kind == "categorical":
            bare = f"{table}.str.replace(r'[$€£%,\\s]|[^-+.(\\deE].*', '', regex=True)"
            hint = f" Texts as $1,200.5 or 7 kg become numbers: pd.to_numeric({bare})"
            hint += "; with errors='coerce' others become missing."
        raise InvalidSchemaError(
            f"The schema describes column {name!r} as {type(described).__name__}, but"
            f" its dtype {dtype} is {kind}. Convert the column or correct the"
            f" schema.{hint}"
        )
    if not isinstance(described, Categorical | Boolean):
        return
    if not described.categories:
        if not can_be_missing:
            raise InvalidSchemaError(
                f"The schema gives column {name!r} no categories, but its dtype {dtype}"
                " has no missing value either. Name its categories."
            )
        return
    given = family(described.categories[0])
    expected, inner = _FAMILY_OF[kind], dtype
    if isinstance(dtype, pd.CategoricalDtype):
        if dtype.categories is None:  # "category" of a plan: nothing to compare
            return
        inner = dtype.categories.dtype
        expected = _FAMILY_OF[known_kind(None, inner)[0]]
    # Objects may be strings or booleans: their dtype does not tell.
    if is_object(inner) and given == "bool":
        expected = "bool"
    if given != expected:
        raise InvalidSchemaError(
            f"The schema gives column {name!r} categories of type {given}, but its"
            f" dtype {dtype} holds values of type {expected}. Convert the column or"
            " correct the categories."
        )
    if kind == "integer":
        limits = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
        for category in described.categories:
            if category != int(category) or not limits.min <= category <= limits.max:
                raise InvalidSchemaError(
                    f"The category {category!r} of column {name!r} is no value of its"
                    f" dtype {dtype}. Convert the column or correct the category."
                )


def check_objects(columns: Mapping[Hashable, Column], frame: Any) -> None:  # noqa: ANN401
    """Refuse objects of another type than described; for the curator, as all errors."""
    for name, described in columns.items():
        if not is_object(frame[name].dtype):
            continue
        values = getattr(described, "categories", ())
        given = family(values[0]) if values else None
        if given and type_of_objects(frame[name]) not in (given, "nothing"):
            raise InvalidSchemaError(
                f"The schema gives column {name!r} values of type {given}, but its"
                " dtype object holds values of another type. Convert the column or"
                " correct the schema."
            )


def findings(df: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """List columns, what of them is not as declared, and in how many rows."""
    columns, unit = schema.columns, schema.privacy_unit
    df = native(df)  # pandas counts and selects no others
    found: list[tuple[Hashable, str, int]] = []
    for name, series in df.items():
        found += [(name, *pair) for pair in _in_column(name, series, schema)]
        if name in schema.per_unit and unit in df.columns:
            known = ~is_missing(df[unit])
            codes = pd.Series(pd.factorize(series[known].astype(object))[0])
            of_unit = df[unit][known].astype(object).to_numpy()
            first = codes.groupby(of_unit, observed=True).transform("first")
            rows = int((codes != first).sum())
            words = f"not the value that the first row of its {unit} has"
            found += [(name, words, rows)] * (rows > 0)
    labels = [] if schema.target is None else [schema.target]
    for name in dict.fromkeys([*columns, *labels, *schema.per_unit]):
        if name not in df.columns:
            found.append((name, "no such column: fit refuses", len(df)))
    for rule in schema.rules:
        try:
            own = [_checked_kind(n, df[n], columns.get(n)) for n in rule.names]
            if isinstance(rule, Ordered) and {*own} & {"categorical", "boolean"}:
                continue
            words, rows = broken(rule, df, columns)
        except (KeyError, InvalidSchemaError, InvalidTableError):
            continue  # it is about a column that a fit refuses
        found += [(None, words, rows)] * (rows > 0)
    found += _unruled(df, schema)
    if schema.n_rows not in (None, len(df)):
        found.append((None, f"n_rows is declared as {schema.n_rows}", len(df)))
    # As objects: pandas would read None among names as NaN.
    table = pd.DataFrame(found, columns=["column", "finding", "rows"], dtype=object)
    table = table.astype({"rows": "int64"})
    table.attrs["contains_private_statistics"] = True
    return table


def _unruled(df: pd.DataFrame, schema: Schema) -> Iterator[tuple[Hashable, str, int]]:
    """Yield times never before others about as late, totals, and what is missing."""
    times: dict[Hashable, Floats] = {}
    numbers: list[Hashable] = []
    codes: list[Hashable] = []
    for name, series in df.items():
        own, kind = schema.columns.get(name), kind_of_dtype(series.dtype)
        coded = isinstance(own, UNREAD) or bool(getattr(own, "special", ()))
        if kind and kind[0] == "datetime" and not coded:
            times[name] = _numbers(series)
        named = isinstance(name, str) and "`" not in name  # as in code
        number = kind and kind[0] in ("continuous", "integer")
        if named and number and isinstance(own, Continuous | None):
            numbers.append(name)
        mixed = is_object(series.dtype) and type_of_objects(series) is None
        if kind and kind[0] in ("categorical", "boolean", "integer") and not mixed:
            codes += [name] * isinstance(own, Categorical | Boolean | None)
    if max(len(numbers), len(codes)) > _MOST:
        yield None, f"rules are sought in the first {_MOST} numbers and codes", len(df)
    yield from _totals(df[numbers[:_MOST]], schema)
    yield from _decided(df[codes[:_MOST]], schema)
    for (a, first), (b, later) in permutations(times.items(), 2):
        rows = int((first <= later).sum())
        ruled = any({a, b} <= {*rule.names} for rule in schema.rules)
        # Of independent times 20 are in order once in a million tables.
        if ruled or rows < 20 or (later < first).any() or not (first < later).any():
            continue
        # A gap of 300 years is to an open end such as 9999-12-31.
        if np.nanmin(later) < np.nanmax(first) and np.nanmax(later - first) < 1e10:
            words = f"never before {a!r}: if it must be so, Ordered([{a!r}, {b!r}])"
            yield b, words, rows
    followed = {name for rule in schema.rules for name in rule.derived}
    missing = {n: is_missing(own) for n, own in df.items() if n not in followed}
    for (a, gone), (b, other) in combinations(missing.items(), 2):
        rows, some = int((gone & other).sum()), int((gone | other).sum())
        own = {type(rule) for rule in schema.rules if {a, b} <= {*rule.names}}
        if MissingTogether not in own and len(df) > rows >= max(20, 0.95 * some):
            yield b, f"missing where {a!r} is: MissingTogether([{a!r}, {b!r}])", rows


# Pairs of 100 numeric columns are tried in a second, in the rows of most values first.
# Independent whole numbers agree in 20 rows once in a million tables.
_MOST, _FIRST, _AGREEING = 100, 32, 20


def _totals(df: pd.DataFrame, schema: Schema) -> Iterator[tuple[Hashable, str, int]]:
    """Yield what is the sum, or the product, of two other columns in every row."""
    table = np.array([_numbers(own) for _, own in df.items()])
    table = np.where(np.abs(table) < EXACT, table, np.nan).reshape(df.shape[::-1])
    telling = np.isfinite(table) & ~np.isin(table, (0, 1))
    first = np.argsort(-telling.sum(axis=0))[:_FIRST]
    table, telling, names = table[:, first], telling[:, first], [*df]
    known = {schema.target, *(own for rule in schema.rules for own in rule.derived)}
    for a, b in combinations(range(len(names)), 2):
        if (telling[a] & telling[b]).sum() < _AGREEING:
            continue
        for sign, total in (("+", table[a] + table[b]), ("*", table[a] * table[b])):
            same = np.isclose(table, total, equal_nan=True).all(axis=1)
            same[[a, b]] = False
            code = f"`{names[a]}` {sign} `{names[b]}`"
            for rule in (Derived(names[c], code) for c in np.flatnonzero(same)):
                new = rule.name not in known
                if new and not broken(rule, df, schema.columns)[1]:
                    known.add(rule.name)
                    yield rule.name, f"always {code}: to keep it, {rule!r}", len(df)


def _decided(df: pd.DataFrame, schema: Schema) -> Iterator[tuple[Hashable, str, int]]:
    """Yield what a column of as many values, or more, decides in every row."""
    known = {schema.target, *(own for rule in schema.rules for own in rule.derived)}
    codes = {name: pd.factorize(own)[0] + 1 for name, own in df.items()}  # 0: missing
    counts = {name: np.bincount(own, minlength=2) for name, own in codes.items()}
    for b, a in combinations(sorted(counts, key=lambda n: -len(counts[n]))[::-1], 2):
        # By chance rows after the first of their code agree with it once in exp(these).
        telling = (len(df) - len(counts[a])) * (1 - counts[b].max() / max(len(df), 1))
        person = a not in schema.columns and asked_of_persons(a, counts[a][1:])
        if b in known or person or a == schema.privacy_unit or telling < _AGREEING:
            continue
        for step in (len(df) // (_MOST * _FIRST) + 1, 1):  # some rows, then all
            first, second = codes[a][::step], codes[b][::step]
            (decided := np.zeros_like(counts[a]))[first] = second
            if np.any((decided[first] != second) | ((first > 0) != (second > 0))):
                break
        else:
            known.add(b)
            rule = f"Determines({a!r}, {b!r}, {{...}})"
            yield b, f"always what {a!r} decides: if it must be so, {rule}", len(df)


def _in_column(
    name: Hashable, series: pd.Series, schema: Schema
) -> Iterator[tuple[str, int]]:
    described, unit = schema.columns.get(name), schema.privacy_unit
    is_unit = unit is not None and same_name(name, unit)
    try:
        kind = _checked_kind(name, series, None if is_unit else described)
    except (InvalidSchemaError, InvalidTableError) as error:
        yield f"fit refuses: {error}", len(series)
        return
    follows = name in {own for rule in schema.rules for own in rule.derived}
    if described is None and not is_unit and not follows:
        yield "not declared: measured", len(series)
        if kind == "categorical":
            yield from _rare(series)
        many = kind == "integer" and series.nunique() > FEW_NUMBERS
        if many and name == schema.target:
            words = "a target of many whole numbers, which are its classes:"
            yield f"{words} a measurement is Continuous(low, high)", len(series)
        if unit is None and kind in ("categorical", "integer"):
            counts = series[~is_missing(series)].astype(object).value_counts()
            timed = counts.index.astype(str).str.fullmatch(f"{_DATE}|{CLOCK}").sum()
            if 2 * timed <= len(counts) and (words := asked_of_persons(name, counts)):
                yield words, len(series)
    most = schema.max_rows_per_unit if is_unit else None
    pairs = _in_rows(series, kind, described, most)
    yield from ((words, rows) for words, rows in pairs if rows)
    if schema.class_counts is not None and name == schema.target:
        counts = Counter(_plain_values(series))
        for label, n in schema.class_counts.items():
            if counts[label] != n:
                yield f"class {label!r} is declared with {n} rows", counts[label]


def _rare(series: pd.Series) -> Iterator[tuple[str, int]]:
    """Yield how many rows have what a fit may not find, or may misread, if any."""
    counts = Counter(_plain_values(series[~is_missing(series)]))
    texts = {value: n for value, n in counts.items() if isinstance(value, str)}
    for pattern, words in _LOOK.items():
        alike = {text for text in texts if re.fullmatch(pattern, text.strip())}
        rows = sum(texts[text] for text in alike)
        codes = any(
            text.strip().startswith(("0", "+")) and len(text) > 1 for text in alike
        )
        if 2 * rows > counts.total() and (codes or pattern != _CODES):
            yield f"texts, categories to a fit, that look like {words}", rows
            if others := counts.total() - rows:
                what = 'missing (errors="coerce"; --na-values), or to be corrected'
                yield f"texts beside those: {what}", others
            return
    if counts and max(counts.values()) == 1:
        yield "no value twice, so none is found: Identifier() or Text()", len(counts)
    elif rows := sum(n for n in counts.values() if n < _RARE * len(series)):
        yield "in categories of few rows, which are lost: Categorical([...])", rows


def _checked_kind(name: Hashable, series: pd.Series, described: Column | None) -> str:
    """Return the kind of a column; an error where a fit would raise it."""
    kind, can_be_missing = column_kind(name, series, described)
    if described is not None:
        check_dtype(described, name, series.dtype, kind, can_be_missing)
        check_objects({name: described}, {name: series})
    return kind


def _in_rows(
    series: pd.Series, kind: str, described: Column | None, most: int | None
) -> Iterator[tuple[str, int]]:
    """Yield what values are not as declared, and how many; it may be none."""
    missing = is_missing(series)
    if most is not None:  # of a unit
        units = series[~missing].astype(object)
        beyond = units.groupby(units, observed=True).cumcount() >= most
        yield "infinite: fit refuses", int(units.isin([math.inf, -math.inf]).sum())
        yield "not used: no unit", int(missing.sum())
        yield f"not used: beyond max_rows_per_unit = {most}", int(beyond.sum())
        return
    present = _present(series, missing)
    if kind == "continuous" and not isinstance(described, Identifier):
        values = present.to_numpy(dtype=np.float64)
        yield "infinite: fit refuses", int(np.isinf(values).sum())
    if getattr(described, "nullable", True) is False:
        yield "missing, though not nullable: not counted", int(missing.sum())
    if isinstance(described, Continuous):
        limits = float_info(present.dtype)
        values = present.to_numpy(dtype=np.float64)
        values = values[np.isfinite(values)]
        special = [*map(number_of, described.special)]
        with np.errstate(over="ignore"):  # 0.1 is another number in single precision
            low, high, *special = map(limits.dtype.type, (*described.ends, *special))
        values = values[~np.isin(values, special)]
        yield _clipped(f"below {described.low}", values[values < low])
        yield _clipped(f"above {described.high}", values[values > high])
        decimals = 0 if described.integer else described.decimals
        if isinstance(decimals, int):
            finer = decimals_of(values, float(limits.eps), decimals) > decimals
            what = f"more than {decimals} decimals"
            what = what if decimals else "not a whole number"
            yield f"{what}: rounded", int(finer.sum())
        if described.unit is not None:
            finer = values % SECONDS_OF[described.unit] != 0
            yield f"finer than unit {described.unit!r}: cut down", int(finer.sum())
    elif isinstance(described, Datetime):
        moments = pd.DatetimeIndex(present)
        since_epoch, low, high = map(_utc, (moments, described.low, described.high))
        special = [*map(_utc, described.special)]
        usual = since_epoch[~since_epoch.isin(special)]
        yield _clipped(f"before {described.low}", usual[usual < low])
        yield _clipped(f"after {described.high}", usual[usual > high])
        if described.unit is not None:
            clock = moments.tz_localize(None)
            finer = clock != clock.floor(described.unit)
            yield f"finer than unit {described.unit!r}: cut down", int(finer.sum())
    elif isinstance(described, Categorical | Boolean):
        known = set(described.categories)
        strange = sum(value not in known for value in _plain_values(present))
        yield "category not declared: read as 'other'", strange
    elif isinstance(described, Identifier):
        present = present.map(str) if is_object(present.dtype) else present
        repeated = present.duplicated(keep=False)
        words = f"privacy_unit={series.name!r}, max_rows_per_unit=..."
        yield f"identifier of several rows, if of persons: {words}", int(repeated.sum())


def _clipped(where: str, values: Any) -> tuple[str, int]:  # noqa: ANN401 - an array
    """Return what happens to values outside bounds, and what to do if most are one."""
    words, most = f"{where}: clipped", pd.Series(values).value_counts().max()
    if most > 1 and 2 * most > len(values):
        words += ", most of them one value; if it stands for something: special=[...]"
    return words, len(values)


def _present(series: pd.Series, missing: Bools) -> pd.Series:
    """Return what is not missing: seconds of durations, points in time of dates."""
    present = as_moments(series[~missing])
    if known_kind(None, series.dtype)[0] != "timedelta":
        return present
    if isinstance(present.dtype, pd.ArrowDtype):  # pandas fails at its nanoseconds
        present = present.astype(f"timedelta64[{present.dtype.pyarrow_dtype.unit}]")
    return present.dt.total_seconds()


def _utc(moments: Any) -> Any:  # noqa: ANN401 - one moment, or many
    """Read moments without a zone as UTC, as a fit does."""
    zoned = moments.tz_localize("UTC") if moments.tz is None else moments
    return zoned.tz_convert("UTC")


def _plain_values(series: pd.Series) -> Iterator[Any]:
    """Yield values as exact built-in scalars, which equal categories of a schema."""
    return map(plain, as_moments(series).tolist())


def broken(
    rule: Rule, df: pd.DataFrame, columns: Mapping[Hashable, Column]
) -> tuple[str, int]:
    """Return in words how rows break a rule, and count them."""
    own = [df[name] for name in rule.names]
    listed = ", ".join(map(repr, rule.names))
    if isinstance(rule, Ordered):
        units = [getattr(columns.get(name), "unit", None) for name in rule.names]
        dated = [is_date(series.dtype) for series in own]
        units = ["D" if day else unit for day, unit in zip(dated, units, strict=True)]
        last, unordered = np.full(len(df), np.nan), np.zeros(len(df), dtype=bool)
        for series, unit in zip(own, units, strict=True):
            values = _numbers(series, wall=any(units))
            timed = known_kind(None, series.dtype)[0] == "datetime"
            described = columns.get(series.name)
            special = getattr(described, "special", OPEN * timed)
            codes = [*map(number_of, special)]  # in no order with others
            values[np.isin(_numbers(series, wall=described is None), codes)] = np.nan
            if unit is not None:  # compared as fine as this column is
                step = SECONDS_OF[unit]
                values, last = values // step * step, last // step * step
            unordered |= values <= last if rule.strict else values < last
            last = np.where(np.isnan(values), last, values)
        return f"not in the order {listed}: gap read as 0", int(unordered.sum())
    if isinstance(rule, Computed):  # up to rounding, and missing where it is

        def read(name: Hashable) -> tuple[Kind, Floats]:
            found = _numbers(df[name], wall=rule.by_calendar)
            return known_kind(name, df[name].dtype)[0], found

        (kind, total), *others = map(read, rule.names)
        most = stated_decimals(columns.get(rule.names[0]), kind)
        values = computed(rule, kind, read, whole=most == 0)
        exact = max(float(float_info(series.dtype).eps) for series in own)
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.abs(total) + np.sum([np.abs(part) for _, part in others], axis=0)
            room = len(own) * exact * size + (0.0 if most is None else 0.5 / 10.0**most)
            off = np.abs(total - values) > room
        off |= np.isfinite(values) == np.isnan(total)
        words, rows = f"{rule.names[0]!r} is not {rule.words}: computed", int(off.sum())
        if rule.unit == "D" and 2 * rows > len(df):
            by_calendar = replace(cast("Any", rule), unit="calendar day")
            if 2 * broken(by_calendar, df, columns)[1] < rows:
                words += ', though mostly in unit="calendar day"'
        return words, rows
    if isinstance(rule, Determines):  # but for categories that are not declared
        (missing, absent), (deciding, decided) = map(is_missing, own), own
        expected = [rule.table.get(key) for key in _plain_values(deciding)]
        known = ~missing & np.array([value is not None for value in expected], bool)
        if known_kind(None, decided.dtype)[0] in ("continuous", "timedelta"):
            dtype = float_info(decided.dtype).dtype
            numbers = np.array([np.nan if v is None else v for v in expected], float)
            same = numbers.astype(dtype) == _numbers(decided).astype(dtype)
        else:
            plain_values = map(plain, decided.astype(object).where(~absent, None))
            pairs = zip(plain_values, expected, strict=True)
            same = np.array([value == other for value, other in pairs], dtype=bool)
        wrong = (known & ~(same & ~absent)) | (missing & ~absent)
        words = f"{rule.decided!r} is not what {rule.deciding!r} decides: looked up"
        return words, int(wrong.sum())
    assert isinstance(rule, MissingTogether)
    missing = np.array([is_missing(series) for series in own])
    some = missing.any(axis=0) & ~missing.all(axis=0)
    return f"missing in some of {listed} only: drawn together", int(some.sum())


def _numbers(series: pd.Series, *, wall: bool = False) -> Floats:
    """Return numbers, or seconds (in UTC, or of a clock), NaN if missing."""
    missing = is_missing(series)
    present: Any = _present(series, missing)
    if known_kind(None, series.dtype)[0] == "datetime":
        present = pd.DatetimeIndex(present)
        present = present.tz_localize(None) if wall else _utc(present)
        present = present.as_unit("us").asi8 / 1e6
    values = np.full(len(series), np.nan)
    values[~missing] = np.asarray(present, dtype=np.float64)
    return values
