"""Files and their JSON; rows in chunks, threads, memory; tables in batches."""

from __future__ import annotations

import html
import json
import os
import re
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from pyarrow import parquet

from skdpsynth.utils import (
    MAX_BYTES,
    Document,
    Grid,
    Heading,
    Items,
    Picture,
    in_order_of_class,
    n_threads,
    parse_json,
    read_text,
)
from skdpsynth.utils.containers import write_batches


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


@pytest.mark.parametrize("n_classes", [3, 2**15])
def test_rows_in_order_of_class(n_classes):
    codes = np.random.default_rng(0).integers(0, 3, 1000)
    order, places = in_order_of_class(codes, n_classes)
    for c, place in enumerate(places):
        assert order[place].tolist() == np.flatnonzero(codes == c).tolist()


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("1", 1), ("3", 3), ("99", 4), ("0", 4), ("", 4), ("4,2", 4), (None, 4)],
)
def test_the_limit_is_kept(limit, expected, monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if limit is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert n_threads() == expected


def table(n_rows: int = 300) -> pd.DataFrame:
    numbers = np.arange(n_rows)
    return pd.DataFrame(
        {
            "number": numbers / 7,
            "whole": pd.array(np.where(numbers % 3, numbers, None), dtype="Int64"),
            "text": np.where(numbers % 2, "a", "\u00e4,\n"),
            "late": pd.Series([None] * 150 + ["x"] * (n_rows - 150), dtype=object),
            "few": pd.Categorical(np.where(numbers % 2, "p", "q"), ordered=True),
            "time": pd.date_range("2020", periods=n_rows, tz="Europe/Berlin"),
        }
    )


def batches(whole: pd.DataFrame, size: int = 140):
    for start in range(0, len(whole), size):
        part = whole.iloc[start : start + size].reset_index(drop=True)
        # As of identifiers: every batch has categories of its own, and many or few.
        name = start + part.index
        yield part.assign(id=pd.Categorical(name.astype(str)))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_batches_are_one_table(name, tmp_path):
    path, whole = tmp_path / name, table()
    path.write_text("an older file")
    write_batches(path, batches(whole))
    assert [own.name for own in tmp_path.iterdir()] == [name]
    if name == "t.csv":
        whole["id"] = [str(number) for number in range(300)]
        assert path.read_bytes() == whole.to_csv(index=False).encode()
        return
    assert parquet.ParquetFile(path).num_row_groups == 3
    read = pd.read_parquet(path)
    assert read.pop("id").tolist() == [str(number) for number in range(300)]
    pd.testing.assert_frame_equal(read.drop(columns="late"), whole.drop(columns="late"))
    assert read["late"].isna().sum() == 150
    assert read["few"].cat.ordered


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("before", [None, "an older file"])
def test_an_error_on_the_way_leaves_what_was_there(name, before, tmp_path):
    def broken():
        yield table(200)
        raise ValueError("no more")

    path = tmp_path / name
    if before is not None:
        path.write_text(before)
    with pytest.raises(ValueError, match="no more"):
        write_batches(path, broken())
    assert [own.read_text() for own in tmp_path.iterdir()] == [before] * bool(before)


# --- Documents: what is shown is what was given, in Markdown and in HTML --------------

WORDS = st.text(alphabet="ab _*|<>&[]`\\#'\"\n", max_size=12)


def unescaped(text):
    """Read Markdown's escapes back."""
    return re.sub(r"\\([\\`*_\[\]<>|#])", r"\1", text)


@given(rows=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4))
@settings(deadline=None)
def test_cells_come_back(rows):
    document = Document([Grid(("a", "b"), rows)])
    lines = document.to_markdown().splitlines()
    assert lines[1] == "| " + "-" * (len(lines[1].split(" | ")[0]) - 2) + " | --- |"
    for line, row in zip(lines[2:], rows, strict=True):
        cells = re.split(r"(?<!\\)(?:\\\\)*\|", line)
        found = re.findall(r"\| ((?:[^|\\]|\\.)*?) *(?= \||$)", line)
        assert len(cells) >= 3
        expected = [" ".join(own.split()) for own in row]
        assert [unescaped(own).strip() for own in found] == expected
    cells = re.findall("<td>(.*?)</td>", document.to_html(), re.DOTALL)
    assert [html.unescape(own) for own in cells] == [own for row in rows for own in row]


def test_every_block_is_written(tmp_path):
    document = Document(
        [
            Heading("A <title>", 1),
            "a_name, _emphasis_ and\nmore",
            Items(["one", "*two*"]),
            Grid(("x",), [("1",)]),
            Picture(b"\x89PNG", 'says "it"'),
        ]
    )
    text = document.to_markdown(tmp_path / "a.md")
    assert text == (tmp_path / "a.md").read_text(encoding="utf-8")
    assert str(document) == unescaped(text)  # in a terminal nobody reads escapes
    assert text.split("\n\n") == [
        r"# A \<title\>",
        r"a_name, \_emphasis\_ and more",
        "- one\n- \\*two\\*",
        "| x |\n| --- |\n| 1 |",
        '*says "it"*\n',
    ]
    page = document.to_html(tmp_path / "a.html")
    assert page == (tmp_path / "a.html").read_text(encoding="utf-8")
    assert document._repr_html_() in page
    assert "<title>A &lt;title&gt;</title>" in page
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert "<li>*two*</li>" in page
    assert 'alt="says &quot;it&quot;" src="data:image/png;base64,iVBORw=="' in page
