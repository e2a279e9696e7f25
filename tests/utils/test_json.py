"""The one parser of files: what it refuses, and what that costs."""

from __future__ import annotations

import json
import os
import sys

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
