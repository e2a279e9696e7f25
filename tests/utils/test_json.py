"""The one parser of files: what it refuses, and what that costs."""

from __future__ import annotations

import json
import os
import random
import sys
import time
import tracemalloc

import pytest

from skdpsynth.utils import MAX_BYTES, _json, parse_json, read_text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 200_000, "more than 64 deep"),
        ("[" * 65 + "]" * 65, "more than 64 deep"),
        ('{"a":' * 65 + "1" + "}" * 65, "more than 64 deep"),
        ('"\\"", ' + "[" * 70, "more than 64 deep"),
        ("1" + "0" * 399, "not finite"),
        ("-1e999", "not finite"),
        ("[NaN]", "not finite"),
        ("-Infinity", "not finite"),
        ('{"a": {"b": 1, "b": 1}}', "a key that comes twice"),
        ('{"a": 1, "\\u0061": 2}', "a key that comes twice"),
        ("\ufeff{}", "BOM"),
        ("[1] [2]", "Extra data"),
        ('"\n"', "control character"),
        ("", "Expecting value"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        parse_json(text)


@pytest.mark.parametrize(
    "value",
    [
        *(0, -1, 2**63, 10**308, 0.1, 5e-324, sys.float_info.max, "", "\ud800", "\0"),
        *([], {}, None, True, ["[" * 99, '"' * 9, "\\" * 7, {"]": '\\"{'}]),
    ],
)
def test_what_is_read(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        again = parse_json(text)
        assert again == value
        assert type(again) is type(value)


def deepest(value) -> int:
    parts = value.values() if isinstance(value, dict) else value
    inner = [deepest(part) for part in parts if isinstance(part, dict | list)]
    return 1 + max(inner, default=0)


def test_the_depth_is_that_of_what_comes_out(global_random_seed):
    """300 random documents whose texts are full of brackets, quotes and escapes."""
    rng = random.Random(global_random_seed)

    def draw(depth: int):
        text = "".join(rng.choices('[]{}"\\,:a\n', k=rng.randrange(9)))
        if depth == 0 or rng.random() < 0.3:
            return text
        parts = [draw(depth - 1) for _ in range(rng.randrange(3))]
        return {f"{text}{n}": p for n, p in enumerate(parts)} if text else parts

    for _ in range(300):
        value = [draw(rng.randrange(30))]
        for layout in ({}, {"indent": 1}, {"separators": (",", ":")}):
            assert _json._depth(json.dumps(value, **layout)) == deepest(value)


def test_the_parser_never_meets_what_is_deep(monkeypatch):
    """Also where a program has lifted the limits of Python itself."""
    parsed = []
    monkeypatch.setattr(json, "loads", lambda text, **_: parsed.append(text))
    for text in ("[" * 200_000, '{"a":' * 200_000, "[[]," * 100_000, "]" + "[" * 99):
        with pytest.raises(ValueError, match="64 deep"):
            parse_json(text)
    assert parsed == []


@pytest.mark.parametrize(
    "piece",
    ["{},", "[],", '"",', "0,", "0.1,", '"é",', '{"a":0},', "[[[]]],", '"\\\\",'],
)
def test_memory_and_time_grow_with_the_text(piece):
    """At most 35 times a text of 256 KB, with what it is read from."""
    text = f"[{piece * (2**18 // len(piece.encode()))}0]"
    tracemalloc.start()
    try:
        start = time.process_time()
        parse_json(text)
        seconds = time.process_time() - start
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 35 * len(text.encode())
    assert seconds < 10.0


@pytest.mark.skipif(os.name != "posix", reason="there is no such device")
def test_no_more_is_read_than_is_parsed(tmp_path):
    """A device has no end, and a pipe no size."""
    with pytest.raises(ValueError, match=f"more than {MAX_BYTES:,} bytes"):
        read_text("/dev/zero")
    with pytest.raises(ValueError, match="more than"):
        parse_json(" " * (MAX_BYTES + 1))
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf{}")
    assert read_text(tmp_path / "a") == "{}"
    (tmp_path / "a").write_bytes(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        read_text(tmp_path / "a")
