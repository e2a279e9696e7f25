"""Spoil valid files at random places, by a seed: bytes, JSON, arrays and SQL.

Most files stay well-formed and, where there is a digest, get one that is right: what is
under test is behind it.
"""

import hashlib
import json
import random
import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 2**31, 2**63, -(2**63), 10**300, 10**400),
    *(0.5, -0.0, 1e308, 5e-324, 1e17, "", "inf", "nan", "\ud800", "\0", "\x1b[2J"),
    *("a" * 70_000, "é" * 99, [], {}, [[]], [None], {"tuple": []}, {"tuple": 3}),
    {"time": "2020-01-01T00:00:00", "unit": "ns", "zone": "Europe/Paris"},
    {"time": "9999-12-31T23:59:59", "unit": "ns", "zone": "../../etc/passwd"},
    {"time": 10**30, "unit": "s", "zone": None},
    {"time": "1" * 50_000, "unit": "s", "zone": None},
    *({"float": [1]}, {"float": "inf"}, {"value": [1]}, {"numpy": "M8[7s]"}),
    *({"numpy": "V1000000000"}, {"numpy": "O"}, {"pandas": "os.system"}),
    *({"arrow": "list<item: int64>"}, {"arrow": "dictionary<values=string>"}),
    *({"pandas": "Sparse[int]"}, {"category": {"numpy": "O"}}),
    *("__import__('os')", "2020-02-30", "1e999", "continuous", "boolean", "log"),
)
# As texts, which no value of Python writes.
TEXTS = (
    *("NaN", "-Infinity", "1e999", "9" * 5_000, "0." + "3" * 5_000, "1e-999999999999"),
    *("[" * 200_000, '{"a":' * 50_000, "[" * 70 + "]" * 70, "[" * 60 + "]" * 60),
    *('"\\ud800"', '"\\u0000"', '"', "\\", "\ufeff", "0x10", "01", "+1", "-", "nul"),
    *("//", "{}", "[]", "\x00", '{"a":1,"a":2}'),
)


def spoilt_bytes(data: bytes, rng: random.Random) -> bytes:
    """Overwrite, cut, remove, repeat or insert bytes."""
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice([1, 4, 16, 200]))
    there = rng.randrange(len(data) + 1)
    put = rng.choice(
        (
            *(b"", b"\xff" * (end - start), bytes(end - start)),
            *(rng.randbytes(end - start), data[start:end] * 2),
        )
    )
    spoilt = data[:start] + put + data[end:]
    return rng.choice((spoilt, spoilt, data[:start], data[:there] + data[start:]))


# --- JSON -------------------------------------------------------------------------


def places(item: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the places of all values in a document, the inner ones too."""
    parts = item.items() if isinstance(item, dict) else enumerate(item)
    found = []
    for key, value in parts:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += places(value, (*path, key))
    return found


def at(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        document = document[key]
    return document


def spoilt_document(document: Any, rng: random.Random) -> Any:
    """Change values, types, sizes and names at one to three places of a document."""
    document = json.loads(json.dumps(document))
    for _ in range(rng.choice([1, 1, 2, 3])):
        listed = places(document)
        if not listed:
            break
        *outer, key = rng.choice(listed)
        holder = at(document, tuple(outer))
        _spoil_at(holder, key, at(document, rng.choice(listed)), rng)
    return document


def _spoil_at(holder: Any, key: Any, other: Any, rng: random.Random) -> None:
    value = holder[key]
    kind = rng.randrange(9)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), json.loads(json.dumps(value)))
    elif kind == 2 and isinstance(holder, dict):
        holder[rng.choice([f"{key} ", "self", "", "__class__", "\ud800"])] = value
        if rng.random() < 0.5:
            del holder[key]
    elif kind == 3:
        holder[key] = json.loads(json.dumps(other))
    elif kind == 4:
        for _ in range(rng.choice([1, 2, 70])):
            value = [value] if rng.random() < 0.5 else {"tuple": [value]}
        holder[key] = value
    elif kind <= 6:
        holder[key] = _nearby(value, rng)
    else:
        holder[key] = rng.choice(HOSTILE)


def _nearby(value: Any, rng: random.Random) -> Any:
    """Give a value of the same type or almost, that may be out of range."""
    if isinstance(value, bool):
        return rng.choice([not value, int(value), str(value)])
    if isinstance(value, int | float):
        scaled = value * rng.choice([10, 1e9, -1, 0, 0.5, 1e300])
        found = rng.choice([scaled, value + 1, -value, str(value), [value]])
        return found if found == found and abs(len(str(found))) < 4000 else 0
    if isinstance(value, str):
        cut = rng.randrange(len(value) + 1)
        changed = [value * 2, value[:cut], value + "\0", value.upper(), [value], 1]
        return rng.choice([*changed, value[:cut] + "\ud800\u202e" + value[cut:]])
    if isinstance(value, list):
        shuffled = rng.sample(value, len(value))
        return rng.choice([shuffled, value[:-1], value * 2, value * 50, {}, None])
    return rng.choice([[*value.items()] if isinstance(value, dict) else value, {}, []])


def spoilt_text(text: str, rng: random.Random) -> str:
    """Put what no writer of JSON writes into a text, at any place or at a value."""
    start = rng.randrange(len(text) + 1)
    if rng.random() < 0.6:
        start = max(text.find(" ", start), 0) + 1
    end = start + rng.choice([0, 0, 1, 5])
    return text[:start] + rng.choice(TEXTS) + text[end:]


# --- Saved synthesizers -----------------------------------------------------------

DTYPES = ("f8", "f4", "f2", "i8", "i4", "i2", "u8", "?")
NUMBERS = (np.nan, np.inf, -np.inf, 1e308, -1e308, -1.0, 2.0, 1e-320, 0.0, 1e17, 2**62)


def spoilt_arrays(arrays: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Take one away, add or swap two, or change dtype, shape or numbers of one."""
    arrays = dict(arrays)
    name, other = rng.choice([*arrays]), rng.choice([*arrays])
    array = arrays[name].copy()
    kind = rng.randrange(9)
    if kind == 0:
        del arrays[name]
        return arrays
    if kind == 1:
        arrays[rng.choice(["", "more", "points.0.99", "\ud7ff"])] = array
        return arrays
    if kind == 2:
        arrays[name], arrays[other] = arrays[other], arrays[name]
        return arrays
    with np.errstate(all="ignore"):
        if kind == 3:
            array = array.astype(rng.choice(DTYPES))
        elif kind == 4:
            cut = array[: rng.randrange(len(array) + 1)] if array.ndim else array
            twice = np.concatenate([array, array]) if array.ndim else array
            flipped = array[::-1] if array.ndim else array
            array = rng.choice([cut, twice, flipped, array.ravel(), array[None]])
        elif kind <= 7 and array.size:
            changed = array.reshape(-1)
            n = rng.choice([1, 1, 3, changed.size])
            where = [rng.randrange(changed.size) for _ in range(n)]
            changed[where] = np.full(n, rng.choice(NUMBERS)).astype(array.dtype)
        else:
            array = (array * rng.choice([-1, 0, 2, 1e300])).astype(array.dtype)
    arrays[name] = np.ascontiguousarray(array)
    return arrays


def signed(facts: dict[str, Any], arrays: dict[str, Any]) -> str:
    """Write the facts of a file with the digest of all parts, as the format says."""
    facts = {name: facts[name] for name in facts if name != "sha256"}
    digest = hashlib.sha256(json.dumps(facts).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(repr((name, str(array.dtype), array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return json.dumps({**facts, "sha256": digest.hexdigest()})


def taken_apart(data: bytes) -> tuple[dict, bytes]:
    """Give the header, with the facts as a text in it, and the numbers."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def put_together(header: object, numbers: bytes, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(text) if length is None else length
    return struct.pack("<Q", length) + text + numbers


def facts_of(data: bytes) -> dict:
    facts = json.loads(taken_apart(data)[0]["__metadata__"]["skdpsynth"])
    del facts["sha256"]
    return facts


def with_text(data: bytes, text: str) -> bytes:
    """Put another text in the place of the facts."""
    header, numbers = taken_apart(data)
    header["__metadata__"]["skdpsynth"] = text
    return put_together(header, numbers)


def with_parts(data: bytes, facts: dict | None = None, arrays=None) -> bytes:
    """Put in other facts or arrays, with a digest that is right."""
    facts = facts_of(data) if facts is None else facts
    arrays = load(data) if arrays is None else arrays
    return save(arrays, metadata={"skdpsynth": signed(facts, arrays)})


def spoilt_saved(data: bytes, rng: random.Random) -> bytes:
    header, numbers = taken_apart(data)
    text = header["__metadata__"]["skdpsynth"]
    kind = rng.random()
    if kind < 0.15:
        return spoilt_bytes(data, rng)
    if kind < 0.3:
        if rng.random() < 0.3:
            header["__metadata__"]["skdpsynth"] = spoilt_text(text, rng)
        elif rng.random() < 0.5:
            header = spoilt_document(header, rng)
        coded = json.dumps(header).encode()
        length = rng.choice([len(coded)] * 9 + [rng.randrange(2**64)])
        return put_together(coded, numbers, length)
    facts, arrays = facts_of(data), load(data)
    if kind < 0.75:
        facts = spoilt_document(facts, rng)
    if kind > 0.7:
        arrays = spoilt_arrays(arrays, rng)
    if not isinstance(facts, dict):
        facts = {}
    with suppress(ValueError):  # NaN, which no writer of ours takes
        return save(arrays, metadata={"skdpsynth": signed(facts, arrays)})
    return save(arrays, metadata={"skdpsynth": json.dumps(facts)})


def spoilt_schema(text: str, rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.1:
        return spoilt_bytes(text.encode(), rng)
    if kind < 0.3:
        text = spoilt_text(text, rng)
    else:
        document = spoilt_document(json.loads(text), rng)
        text = json.dumps(document, ensure_ascii=rng.random() < 0.5)
    encoding = rng.choice(["utf-8"] * 20 + ["utf-8-sig", "utf-16", "latin-1"])
    return text.encode(encoding, "backslashreplace")


# --- Budgets ----------------------------------------------------------------------

VALUES = (
    *("NULL", "-1", "1e999", "-1e999", "'abc'", "''", "x'00ff'", "0.5", "1e-320"),
    *("9223372036854775807", "zeroblob(3000000)", "CAST(x'ff' AS TEXT)", "'inf'"),
)
STATEMENTS = (
    "UPDATE skdpsynth_budget SET {column} = {value}",
    "UPDATE skdpsynth_charges SET {column} = {value} WHERE id % 2 = 1",
    "UPDATE skdpsynth_charges SET {text} = {value}",
    "INSERT INTO skdpsynth_charges VALUES ({number}, {value}, {value}, 0.1, 1e-6)",
    "DELETE FROM skdpsynth_{table}",
    "DROP TABLE skdpsynth_{table}",
    "ALTER TABLE skdpsynth_{table} RENAME COLUMN {column} TO other",
    "ALTER TABLE skdpsynth_{table} ADD COLUMN more",
    "CREATE TABLE other (a)",
    "CREATE INDEX other ON skdpsynth_charges (label)",
    (
        "CREATE TRIGGER t AFTER INSERT ON skdpsynth_charges BEGIN"
        " DELETE FROM skdpsynth_charges; END"
    ),
    (
        "CREATE TRIGGER t AFTER INSERT ON skdpsynth_charges BEGIN"
        " UPDATE skdpsynth_budget SET epsilon = epsilon * 2; END"
    ),
    # A view in the place of a table, which never ends or takes all memory.
    (
        "DROP TABLE skdpsynth_charges; CREATE VIEW skdpsynth_charges AS WITH RECURSIVE"
        " c(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM c LIMIT 1000000) SELECT id,"
        " 'a' AS charged_at, zeroblob(100) AS label, 1e-9 AS epsilon, 1e-9 AS delta"
        " FROM c"
    ),
    (
        "DROP TABLE skdpsynth_{table}; CREATE TABLE skdpsynth_{table} (id, charged_at,"
        " label, epsilon, delta); INSERT INTO skdpsynth_{table}"
        " VALUES (1, {value}, {value}, {value}, {value})"
    ),
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = {value}",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = {number}",
    "PRAGMA user_version = {number}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA encoding = 'UTF-16'; VACUUM",
)


def spoil_budget(path: Path, rng: random.Random) -> None:
    if rng.random() < 0.45:
        path.write_bytes(spoilt_bytes(path.read_bytes(), rng))
        return
    # Some statements contradict what an earlier one did.
    with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.Error):
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for _ in range(rng.choice([1, 1, 2])):
            words = rng.choice(STATEMENTS).format(
                column=rng.choice(["epsilon", "delta"]),
                text=rng.choice(["charged_at", "label"]),
                table=rng.choice(["budget", "charges"]),
                value=rng.choice(VALUES),
                number=rng.choice([7, -1, 2, 2**62, 3]),
            )
            connection.executescript(words)
        connection.commit()
