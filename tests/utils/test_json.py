"""The one parser of files: what it refuses, and what that costs."""

from __future__ import annotations

import json
import os
import sys

import pytest

from skdpsynth.utils import DAMAGED, MAX_BYTES, parse_json, read_text


@pytest.mark.parametrize(
    ("text", "words"),
    [
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


def test_what_is_deep_is_damaged():
    for text in ("[" * 10**6 + "]" * 10**6, '{"a":' * 10**5 + "1" + "}" * 10**5):
        with pytest.raises(DAMAGED):
            parse_json(text)


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
