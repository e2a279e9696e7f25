"""A schema as JSON: written for people, read with the place of what is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema._columns import KINDS, Column
from skdpsynth.schema._dtypes import plain
from skdpsynth.schema._rules import RULES, Rule
from skdpsynth.utils import DAMAGED, parse_json

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

_VERSION = 1
_WIDTH = 160  # of a line; the metadata of a longer column have a line each
# What a template leaves open. A column of which nothing is filled in is measured.
_BLANKS = ("low", "high", "categories", "nullable")
_LONGEST = 1000  # characters of what a message quotes
_MAX_TIME = 64  # characters; those of ISO 8601, to the nanosecond, are 29
_LISTS = ("categories", "columns", "parts")  # the name of a column may be a tuple


def encode_value(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Return a JSON-safe form of a column name, a category or a bound.

    What JSON holds exactly stays as it is; the rest becomes a tagged dictionary.
    """
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
    if not isinstance(time, str) or len(time) > _MAX_TIME:
        raise ValueError("no time")
    moment = pd.Timestamp(time).as_unit(data["unit"])
    if zone is None:
        return moment
    if not isinstance(zone, str) or len(zone) > _MAX_TIME or "dateutil" in zone:
        raise ValueError("a zone that pandas would read from a file")
    try:
        return moment.tz_localize("UTC").tz_convert(zone)
    except OSError as error:  # a name that is a folder of zones
        raise ValueError("no zone") from error


def part_to_dict(part: Column | Rule) -> dict[str, Any]:
    """Return a JSON-safe form of a column or a rule, which `_part_from_dict` reads."""
    data: dict[str, Any] = {"kind" if isinstance(part, Column) else "rule": part.tag}
    for item in fields(part):  # type: ignore[arg-type]
        value = getattr(part, item.name)
        if isinstance(value, Mapping):
            data[item.name] = [[*map(encode_value, pair)] for pair in value.items()]
        elif isinstance(value, tuple) and item.name in _LISTS:
            data[item.name] = [*map(encode_value, value)]
        else:
            data[item.name] = encode_value(value)
    return data


def _part_from_dict(data: Any, key: str) -> Any:  # noqa: ANN401 - whatever a file says
    """Rebuild what `part_to_dict` wrote; an option may be absent."""
    kind = _kind_of(data, key)
    required = [item.name for item in fields(kind) if item.default is MISSING]
    options = [item.name for item in fields(kind) if item.name not in required]
    _check_names(data, [key, *required], options)
    values = {name: decode_value(data[name]) for name in data if name != key}
    if "table" in values:
        pairs = values["table"]
        values["table"] = dict(pairs)
        if len(values["table"]) < len(pairs):
            raise InvalidSchemaError("A key of the 'table' comes twice; drop one.")
    return kind(**values)


def _kind_of(data: Any, key: str) -> Any:  # noqa: ANN401 - whatever a file says; a class
    """Return the class of a column, by the key "kind", or of a rule, by "rule"."""
    _check_names(data, [key])
    known: Mapping[str, type] = KINDS if key == "kind" else RULES
    if data[key] not in known:
        msg = f"Expected a {key!r} of {_listed(known)}. Got {data[key]!r}."
        raise InvalidSchemaError(msg)
    return known[data[key]]


def schema_from_dict(data: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever a file says
    """Return the arguments of the `TableSchema` that `to_dict` wrote."""
    _check_names(data, ["columns"], ["target", "n_rows", "class_counts", "rules"])
    columns: dict[Hashable, Column] = {}
    with place("'columns'"):
        entries = list(data["columns"])
    for number, entry in enumerate(entries, start=1):
        with place(f"Entry {number} of 'columns'"):
            encoded, metadata = entry
            name = decode_value(encoded)
            if name in columns:
                raise InvalidSchemaError(f"Column {name!r} comes twice; drop one.")
        with place(_shortened(f"Column {name!r}")):
            columns[name] = _part_from_dict(metadata, "kind")
    with place("'target' or 'class_counts'"):
        counts, target = data.get("class_counts"), decode_value(data.get("target"))
        if counts is not None:
            counts = {decode_value(label): count for label, count in counts}
    with place("'rules'"):
        rules = [*enumerate(data.get("rules") or (), start=1)]
    found = []
    for number, metadata in rules:
        with place(f"Entry {number} of 'rules'"):
            found.append(_part_from_dict(metadata, "rule"))
    others = {"target": target, "n_rows": data.get("n_rows"), "class_counts": counts}
    return {"columns": columns, **others, "rules": found}


def to_text(data: Mapping[str, Any]) -> str:
    """Write a schema as JSON: one line per column, so that changes show in a diff."""
    parts = {"schema_version": str(_VERSION), "columns": ""}
    parts |= {k: _dumped(value) for k, value in data.items()}
    for name in {"columns", "rules"} & set(data):
        entries = ",\n".join(map(_entry, data[name]))
        parts[name] = f"[\n{entries}\n  ]"
    lines = ",\n".join(f'  "{name}": {part}' for name, part in parts.items())
    return f"{{\n{lines}\n}}\n"


def from_text(text: str) -> Any:  # noqa: ANN401 - whatever a file says
    """Read what `to_text` wrote, without columns of which all blanks are left."""
    try:
        data = parse_json(text)
    except json.JSONDecodeError as error:
        raise InvalidSchemaError(
            f"Expected JSON. In line {error.lineno}, column {error.colno} there is"
            f" none ({error.msg}). Correct it, or write the schema anew by to_json."
        ) from error
    except ValueError as error:
        raise InvalidSchemaError(f"Expected JSON. Got {error}; drop it.") from error
    _check_names(data, ["schema_version"])
    version = data.pop("schema_version")
    if version != _VERSION:
        raise InvalidSchemaError(
            f"Expected 'schema_version': {_VERSION}. Got {version!r}; use the release"
            " of skdpsynth that wrote it, or write the schema anew."
        )
    if isinstance(data.get("columns"), list):
        entries, data["columns"] = data["columns"], []
        for number, entry in enumerate(entries, start=1):
            if not _is_blank(entry):
                data["columns"].append(entry)
                continue
            with place(f"Entry {number} of 'columns'"):
                hash(decode_value(entry[0]))  # a name that `blank_columns` can use
                _kind_of(entry[1], "kind")
    return data


def blank_columns(text: str) -> dict[Hashable, Mapping[str, Any]]:
    """Read what `from_text` left out: columns of which all blanks are left."""
    entries = filter(_is_blank, parse_json(text)["columns"])
    return {decode_value(name): metadata for name, metadata in entries}


def _entry(entry: object) -> str:
    """Write a column in one line if it is not too long."""
    line = _dumped(entry)
    if len(line) > _WIDTH:  # what breaks lines within a text is escaped
        line = _dumped(entry, indent=2).replace("\n", "\n    ")
    return f"    {line}"


def _dumped(value: object, indent: int | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    # Lone surrogates, which UTF-8 lacks, become the escapes that JSON has for them.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _is_blank(entry: Any) -> bool:  # noqa: ANN401 - whatever a file says
    """Whether a column of a template still has all of its blanks."""
    metadata = entry[1] if isinstance(entry, list) and len(entry) == 2 else None
    if not isinstance(metadata, dict):
        return False
    blanks = [metadata[name] for name in _BLANKS if name in metadata]
    return bool(blanks) and all(blank is None for blank in blanks)


@contextmanager
def place(words: str) -> Iterator[None]:
    """Say in which place of a schema something else than expected was found."""
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
    return text if len(text) <= _LONGEST else f"{text[:700]} [...] {text[-200:]}"


def _listed(names: Iterable[object]) -> str:
    return ", ".join(map(repr, names))
