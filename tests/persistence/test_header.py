"""Headers with a lie in them, and files spoilt anywhere: loaded, or refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load as arrays_of

import skdpsynth
from skdpsynth import GPATESynthesizer
from skdpsynth.exceptions import PersistenceError


def leaves(item, path=()):
    """Yield the places of all values in a document, the inner ones too."""
    parts = item.items() if isinstance(item, dict) else enumerate(item)
    for key, value in parts:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))


def with_value(document, place, value):
    document = json.loads(json.dumps(document))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return document


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("synthesizer",), "os.system"),
        (("synthesizer",), "A" * 101),
        (("synthesizer",), "\x1b[2J"),
        (("synthesizer",), None),
        (("synthesizer",), ["GPATESynthesizer"]),
        (("more",), 1),
        (("versions",), {"numpy": "\x1b[2J"}),
        (("versions",), {"numpy": 2}),
        (("format_version",), 0),
        (("format_version",), True),
        (("format_version",), 1.0),
        (("parameters", "epsilon"), {"value": {"time": "2020", "zone": "UTC"}}),
        (("parameters", "budget"), {"value": "a path"}),
        (("report", "accountant"), "\x1b[2J"),
        (("report", "relation"), "add or remove\rone row"),
        (("report", "software"), "\N{RIGHT-TO-LEFT OVERRIDE}0.1"),
        (("report", "unit"), ["one row"]),
        (("report", "epsilon"), 10**400),
        (("report", "epsilon"), -1.0),
        (("report", "mu"), 1e200),
        (("report", "entries"), [1]),
        (("table", "layout", "columns", 0, "dtype"), {"pandas": "dateutil//x"}),
        (("schema", "columns", 1, 1, "low", "zone"), "dateutil//etc/localtime"),
        (("schema", "columns", 1, 1, "low", "zone"), "tzlocal()"),
    ],
)
def test_headers_that_lie(saved, refused, place, value, files):
    document = with_value(files.facts_of(saved[1]), place, value)
    refused(files.with_parts(saved[1], document))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("parameters", "self"), {"value": 1}),
        (("parameters", "schema"), {"value": 1}),
        (("parameters", "__class__"), {"value": "Other"}),
        (("generator", "n_classes"), 10**12),
        (("generator", "n_iter_"), "many"),
        (("table", "columns", 0), -1),
        (("table", "columns", 0), 99),
        (("table", "columns", 1), 0),
        (("table", "columns", 0), False),
        (("table", "missing", 0, 0), 1.5),
        (("table", "missing", 0, 0), "1"),
        (("table", "missing"), []),
        (("table", "axes", 0, "low"), 10**400),
        (("table", "axes", 0, "high"), -6.0),
        (("table", "axes", 1, "step"), 0),
        (("table", "axes", 0, "axis"), "other"),
        (("table", "levels"), ["a"]),
        (("table", "layout", "columns", 0, "dtype"), {"numpy": "V1000000000"}),
        (("table", "layout", "columns", 0, "dtype"), {"pandas": "os.system"}),
    ],
)
def test_parts_that_do_not_fit(saved, refused, place, value, files):
    document = with_value(files.facts_of(saved[1]), place, value)
    data = files.with_parts(saved[1], document)
    refused(data, by_inspect=False)


def test_json_that_two_readers_could_read_in_two_ways(saved, refused, files):
    header, numbers = files.taken_apart(saved[1])
    inner = header["__metadata__"]["skdpsynth"]
    for new in (
        '"delta": 1e-05, "delta": 1e-06',
        '"delta": NaN',
        '"delta": 1e999',
        '"delta": -Infinity',
        '"delta": ' + "9" * 5000,
    ):
        assert '"delta": 1e-05' in inner
        refused(files.with_text(saved[1], inner.replace('"delta": 1e-05', new, 1)))
    for text in ("\ufeff" + inner, inner + "{}", "\ud800" + inner):
        refused(files.with_text(saved[1], text))
    outer = json.dumps(header).encode()
    for text in (b"\xef\xbb\xbf" + outer, b"\xff" + outer, outer + b"{}"):
        refused(files.put_together(text, numbers))
    for encoding in ("utf-16", "utf-32"):
        refused(files.put_together(outer.decode().encode(encoding), numbers))


# --- Whatever else ----------------------------------------------------------------

HOSTILE = (
    *(None, True, -1, 0, 2**70, 10**400, 1e308, -1e-320, "", "inf", "\ud800", [], {}),
    *([[]], {"tuple": [1]}, {"time": "2020"}, {"float": "nan"}, {"value": [1]}, "\0"),
)


def spoilt(data: bytes, rng: np.random.Generator, files) -> bytes:
    """Spoil one place of a file: any byte, a number, or a part of the facts."""
    kind = rng.integers(3)
    if kind == 0:
        return changed_bytes(data, rng)
    if kind == 1:
        arrays = arrays_of(data)
        name = sorted(arrays)[rng.integers(len(arrays))]
        numbers = bytearray(arrays[name].tobytes())
        if numbers:
            numbers[rng.integers(len(numbers))] ^= int(rng.integers(1, 256))
        arrays[name] = np.frombuffer(numbers, arrays[name].dtype).reshape(
            arrays[name].shape
        )
        return files.with_parts(data, arrays=arrays)
    document = files.facts_of(data)
    places = list(leaves(document))
    value = HOSTILE[rng.integers(len(HOSTILE))]
    document = with_value(document, places[rng.integers(len(places))], value)
    return files.with_parts(data, document)


def changed_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip, cut, remove or repeat some bytes."""
    start, end = sorted(rng.integers(len(data), size=2).tolist())
    kind = rng.integers(4)
    if kind == 0:
        flipped = bytearray(data)
        flipped[start] ^= int(rng.integers(1, 256))
        return bytes(flipped)
    near = min(end, start + 16)
    return (data[:start], data[:start] + data[near:], data[:near] + data[start:])[
        kind - 1
    ]


def survives(data: bytes, path) -> bool:
    """Whether a file loads. Any other exception than ours ends the test."""
    path.write_bytes(data)
    try:
        skdpsynth.inspect(path)
        loaded = GPATESynthesizer.load(path)
    except PersistenceError:
        return False
    str(loaded.privacy_report())  # neither fails nor hangs
    return True


def test_whatever_is_spoilt_loads_or_is_refused(
    saved, tmp_path, global_random_seed, files
):
    """300 files with one spoilt place each, with digests made good in two thirds."""
    rng = np.random.default_rng(global_random_seed)
    path = tmp_path / "spoilt"
    n_loaded = sum(survives(spoilt(saved[1], rng, files), path) for _ in range(300))
    assert 0 < n_loaded < 200


def test_every_cut_is_found(saved, tmp_path):
    _, data = saved
    path = tmp_path / "cut"
    cuts = range(0, len(data), max(len(data) // 200, 1))
    assert not any(survives(data[:cut], path) for cut in cuts)
