"""The one parser of files: what it refuses, and what that costs."""

from __future__ import annotations

import json
import os
import sys
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.utils import MAX_BYTES, parse_json, read_text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a":' * 65 + "1" + "}" * 65, "more than 64 deep"),
        ('"\\"", ' + "[" * 70, "more than 64 deep"),
        ("1" + "0" * 399, "not finite"),
        ("-1e999", "not finite"),
        ("[NaN]", "not finite"),
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


TEXTS = st.text(alphabet='[]{}"\\,:a\n', max_size=9)
DOCUMENTS = st.lists(
    st.recursive(
        TEXTS, lambda own: st.lists(own) | st.dictionaries(TEXTS, own), max_leaves=9
    )
)


@given(value=DOCUMENTS, layout=st.sampled_from([{}, {"indent": 1}]))
@settings(deadline=None, max_examples=60)
def test_the_depth_is_that_of_what_comes_out(value, layout):
    """Of documents whose texts are full of brackets, quotes and escapes."""
    text, more = json.dumps(value, **layout), 64 - deepest(value)
    parse_json("[" * more + text + "]" * more)
    with pytest.raises(ValueError, match="more than 64 deep"):
        parse_json("[" * (more + 1) + text + "]" * (more + 1))


def test_the_parser_never_meets_what_is_deep(monkeypatch):
    """Also where a program has lifted the limits of Python itself."""
    parsed = []
    monkeypatch.setattr(json, "loads", lambda text, **_: parsed.append(text))
    for text in ("[" * 200_000, '{"a":' * 200_000, "[[]," * 100_000, "]" + "[" * 99):
        with pytest.raises(ValueError, match="64 deep"):
            parse_json(text)
    assert parsed == []


@pytest.mark.parametrize("piece", ["{},", '"é",', '{"a":0},', "[[[]]],", '"\\\\",'])
def test_memory_and_time_grow_with_the_text(piece):
    """At most 35 times a text of 256 KB, with what it is read from."""
    text = f"[{piece * (2**18 // len(piece.encode()))}0]"
    tracemalloc.start()
    start = time.process_time()
    parse_json(text)
    seconds, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1]
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
