"""Tables that are not in memory give the synthesizers that they give in memory."""

from __future__ import annotations

import os
import pkgutil
import tempfile
import tracemalloc

import dask
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from _counting import length_of_part
from pyarrow import csv, dataset, parquet
from tables import SOURCES, mixed_table

from skdpsynth import IndependentSynthesizer
from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError, SkdpsynthError
from skdpsynth.schema import Categorical, Continuous, Identifier, TableSchema
from skdpsynth.table import open_table
from skdpsynth.table.csv_files import CsvFile
from skdpsynth.utils.containers import from_arrow

N = 900
NOISE = "skdpsynth.privacy._mechanisms._noisy_integers"


def rows() -> pa.Table:
    names = ["number", "whole", "text", "time", "flag", "y"]
    return pa.Table.from_pandas(mixed_table(N)[names], preserve_index=False)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Read 40 rows at a time, of six columns; let Dask compute in this thread."""
    monkeypatch.setattr("skdpsynth.privacy._parts._BLOCK_ENTRIES", 240)
    with dask.config.set(scheduler="synchronous"):
        yield


def of(name, folder, table=None):
    """The rows as one of `SOURCES`."""
    return SOURCES[name](from_arrow(rows() if table is None else table), folder)


def test_a_csv_file_needs_a_schema(tmp_path):
    csv.write_csv(rows(), tmp_path / "t.csv")
    with pytest.raises(InvalidSchemaError, match="looking at their values"):
        IndependentSynthesizer().fit(str(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ("absent.parquet", InvalidTableError, "which is not there"),
        ((each for each in [1, 2]), InvalidTableError, "one of int; make them"),
        (iter([]), InvalidTableError, "one of NoneType"),
        (
            iter([*rows().to_batches(), *rows().drop_columns("number").to_batches()]),
            InvalidTableError,
            "of one schema",
        ),
        (rows().slice(0, 1).to_reader(), InvalidTableError, "minimum of 2"),
        (rows().drop_columns(["y"]).to_reader(), InvalidTableError, "'y' is not a"),
        (
            rows().set_column(0, "number", pa.array([np.inf] * N)).to_reader(),
            InvalidTableError,
            "'number' holds an infinite value",
        ),
    ],
)
def test_what_is_no_table_is_refused_before_anything_is_spent(source, error, words):
    synth = IndependentSynthesizer(target="y")
    with pytest.raises(error, match=words) as caught:
        synth.fit(source)
    assert not getattr(caught.value, "__notes__", [])


def test_labels_are_a_column_of_what_is_not_in_memory(tmp_path):
    with pytest.raises(InvalidTableError, match="name the column by target"):
        IndependentSynthesizer().fit(of("parquet", tmp_path), [0] * N)


def test_a_reader_beside_labels_is_brought_into_memory():
    features, labels = rows().drop_columns("y"), rows()["y"]
    synth = IndependentSynthesizer(random_state=0).fit(features.to_reader(), labels)
    assert synth.sample(3).shape == (3, 6)


def test_files_of_a_folder_have_the_same_columns(tmp_path):
    """Also if another file begins a block; a column that is there twice is named."""
    of("folder", tmp_path)
    twice = rows()["number"]
    for other in (rows().drop_columns("number"), rows().set_column(1, "whole", twice)):
        parquet.write_table(other, tmp_path / "z.parquet")
        with pytest.raises(InvalidTableError, match=r"in all files.*z\.parquet"):
            IndependentSynthesizer(target="y").fit(tmp_path)
    parquet.write_table(rows().append_column("number", twice), tmp_path / "t.parquet")
    with pytest.raises(InvalidTableError, match=r"must be distinct\. Got .'number'."):
        IndependentSynthesizer(target="y").fit(tmp_path / "t.parquet")


@pytest.mark.parametrize("name", [None, "patient"])
@pytest.mark.parametrize("source", [str, lambda p: dataset.dataset(p), pd.read_parquet])
def test_an_index_that_pandas_stored_is_no_column(source, name, tmp_path):
    table = rows().to_pandas().set_index(pd.Index(np.arange(N) * 2, name=name))
    table.to_parquet(tmp_path / "t.parquet")
    _, layout = open_table(source(tmp_path / "t.parquet"), target="y")
    assert [column.name for column in layout.columns] == rows().column_names


@pytest.mark.parametrize("place", [0, 1, 77])
@pytest.mark.parametrize("size", [2**22 - 3, 2**22 + 1])
def test_a_csv_row_is_too_long_wherever_it_is(size, place, tmp_path):
    """Arrow's own limit depends on where the blocks of its reader begin."""
    lines = [f"{number},{'x' * 1_000}" for number in range(99)]
    lines.insert(place, "7," + "y" * size)
    (tmp_path / "t.csv").write_text("\n".join(["a,s", *lines]))
    schema = TableSchema({"a": Continuous(0, 99), "s": Identifier()})
    if size < 2**22:
        parts, _ = open_table(tmp_path / "t.csv", schema=schema)
        assert sum(parts.n_rows.values()) == 100
    else:
        with pytest.raises(SkdpsynthError) as caught:
            open_table(tmp_path / "t.csv", schema=schema)
        assert "yy" not in str(caught.value)


QUOTED = ['3,"a', '3,"a"b', '3,a"b"', '"3,a', '3,"', '3,"""']
ODD_LINES = [(line, "quotes around whole cells") for line in QUOTED]
ODD_LINES += [(line, "Expected 2 cells in every row of") for line in ("9", "9,b,")]


@pytest.mark.parametrize(("line", "words"), ODD_LINES)
@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("place", [1, 500, 1001])
def test_a_csv_row_that_is_none_is_refused_wherever_it_is(
    line, words, quoted, place, tmp_path, monkeypatch
):
    """By the row alone: a quote that does not end would swallow all rows behind it.

    In blocks of 64 bytes, so that quotes are at their ends too.
    """
    path, mark = tmp_path / "t.csv", '"' if quoted else ""
    lines = ["n,t", *[f"1,{mark}a{mark}", f"2,{mark}b{mark}"] * 500]
    schema = TableSchema({"n": Continuous(0, 9), "t": Categorical(["a", "b"])})
    path.write_text("\n".join(lines))
    parts, _ = open_table(path, schema=schema)
    found = pd.concat([*parts.each()])
    assert found["n"].tolist() == [1.0, 2.0] * 500
    assert found["t"].tolist() == ["a", "b"] * 500
    path.write_text("\n".join([*lines[:place], line, *lines[place:]]))
    where = {"9": f"1 in row {place:,} ", '3,a"b"': f"in line {place + 1:,};"}
    for size in (64, 2**24):
        monkeypatch.setattr("skdpsynth.table.csv_files._BLOCK_BYTES", size)
        with pytest.raises(InvalidTableError, match=words) as caught:
            open_table(path, schema=schema)
        assert where.get(line, "") in str(caught.value)


@pytest.mark.parametrize("size", [1, 3, 7, 2**24])
def test_quotes_in_place_are_sound_whatever_the_blocks(size, tmp_path, monkeypatch):
    texts = ['"', '""', 'a"b', ',"', '"\n"', "", " ", "a,b\r\nc", "e\n\nf", "\u2603"]
    texts *= 4
    table = pd.DataFrame({"n": range(40), "s": texts, "t": texts[::-1]})
    schema = TableSchema({"n": Continuous(0, 99), "s": Identifier(), "t": Identifier()})
    monkeypatch.setattr("skdpsynth.table.csv_files._BLOCK_BYTES", size)
    for how in ({}, {"quoting": 1}, {"lineterminator": "\r\n"}):
        table.to_csv(tmp_path / "t.csv", index=False, **how)
        CsvFile(tmp_path / "t.csv", schema.columns)._check_quotes()
    monkeypatch.undo()
    found = pd.concat([*open_table(tmp_path / "t.csv", schema=schema)[0].each()])
    assert found["s"].fillna("").tolist() == texts


@pytest.mark.parametrize("before", ["", "\ufeff", "\n\n"])
def test_the_names_of_a_csv_file(before, tmp_path):
    """Behind a mark of the encoding or empty lines; quoted; none for an index."""
    path = tmp_path / "t.csv"
    path.write_text(f'{before},"b\nc"\n0,1\n\n1,\n', encoding="utf-8")
    schema = TableSchema({"Unnamed: 0": Identifier(), "b\nc": Continuous(0, 9)})
    parts, layout = open_table(path, schema=schema)
    assert [column.name for column in layout.columns] == ["Unnamed: 0", "b\nc"]
    assert sum(parts.n_rows.values()) == 2
    path.write_text("a,a\n1,2\n3,4\n")
    with pytest.raises(InvalidTableError, match=r"distinct\. Got \['a'\] more"):
        open_table(path, schema=TableSchema({"a": Continuous(0, 9)}))


@pytest.mark.parametrize("form", [str, dataset.dataset, "batches"])
@pytest.mark.parametrize("n_levels", [127, 128, 2**15 + 1])
def test_a_further_category_changes_no_type(form, n_levels, tmp_path):
    """In one file of a folder: pandas has wider codes from 127 categories on."""
    expected = []
    for name, most in (("0", 100), ("1", n_levels), ("2", 3)):
        codes = np.arange(max(300, most)) % most
        own = pd.Categorical.from_codes(codes, [f"k{number}" for number in range(most)])
        frame = pd.DataFrame({"c": own, "y": codes % 2})
        frame.to_parquet(tmp_path / f"{name}.parquet")
        expected += [*own]
    if form == "batches":
        opened = map(parquet.ParquetFile, sorted(tmp_path.iterdir()))
        source = (batch for file in opened for batch in file.iter_batches())
    else:
        source = form(tmp_path)
    parts, layout = open_table(source, target="y")
    assert [str(key) for part in parts.each() for key in part["c"]] == expected
    assert layout.columns[0].kind == "categorical"


def test_a_dataset_with_a_filter_is_refused_where_columns_are_categories(tmp_path):
    table = rows().set_column(2, "text", rows()["text"].dictionary_encode())
    parquet.write_table(table, tmp_path / "t.parquet")
    filtered = dataset.dataset(tmp_path / "t.parquet").filter(dataset.field("flag"))
    with pytest.raises(InvalidTableError, match="Dataset without a filter"):
        open_table(filtered, target="y")


def test_an_empty_folder_and_an_empty_file_say_so(tmp_path):
    with pytest.raises(InvalidTableError, match="Got none"):
        IndependentSynthesizer().fit(tmp_path)
    parquet.write_table(rows()[:0], tmp_path / "t.parquet")
    with pytest.raises(InvalidTableError, match="0 sample"):
        IndependentSynthesizer().fit(tmp_path)
    for text in ("a,y\nsecret,no\n", "secret" * 1000):  # a table, and not its path
        with pytest.raises(InvalidTableError, match="a text that is none") as caught:
            IndependentSynthesizer().fit(text)
        assert "secret" not in str(caught.value)


def test_a_file_that_changes_stops_the_fit_before_more_noise(tmp_path, monkeypatch):
    """The broken source: rows are added between two counts."""
    path = of("parquet", tmp_path)
    released, real = [], pkgutil.resolve_name(NOISE)

    def noisy(values, reservation):
        released.append(reservation.name)
        if reservation.name == "categories":
            parquet.write_table(rows().slice(0, N - 1), path)
        return real(values, reservation)

    monkeypatch.setattr(NOISE, noisy)
    changed = pytest.raises(InvalidTableError, match="are not those that were read")
    with changed as caught:
        IndependentSynthesizer(target="y").fit(path)
    assert released == ["class labels and counts", "categories"]
    assert "noise may have been drawn" in caught.value.__notes__[0]


@pytest.mark.parametrize("source", [str, dataset.dataset])
def test_blocks_have_the_same_rows_whatever_is_read(source, tmp_path, monkeypatch):
    """Arrow ends its batches at row groups if, and only if, it reads categories."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(5_000, 6)), columns=[*"abcdef"])
    table["kind"] = pd.Categorical(rng.choice([*"xyz"], len(table)))
    table["y"] = rng.integers(0, 2, len(table))
    for number in range(2):
        table.to_parquet(tmp_path / f"{number}.parquet", row_group_size=700)
    monkeypatch.setattr("skdpsynth.privacy._parts._BLOCK_ENTRIES", 8 * 1_600)
    parts, _ = open_table(source(tmp_path))
    sizes = [*parts.total(length_of_part, numbered=True).values()]
    assert {*sizes} == {1_600, 10_000 % 1_600}
    narrow = [*parts.only(["a", "y"]).each()]
    assert [block.shape for block in narrow] == [(size, 2) for size in sizes]
    assert pd.concat(narrow)["a"].tolist() == table["a"].tolist() * 2


@pytest.mark.parametrize("kind", ["file", "batches"])
def test_memory_does_not_grow_with_the_rows(kind, tmp_path, monkeypatch):
    """A fit in blocks holds less than half of the table.

    Memory of NumPy and pandas. Of 28 blocks one or two are alive at a time, as threads
    go: 1 MB, and 1 of batches on their way to a file, where the table has 7.
    """
    monkeypatch.setattr("skdpsynth.privacy._parts._BLOCK_ENTRIES", 2**15)
    rng, path = np.random.default_rng(0), tmp_path / "t.parquet"
    for n_rows in (1_000, 300_000):  # the first for what is made only once
        numbers = {"a": rng.normal(size=n_rows), "n": rng.poisson(3, n_rows)}
        table = pd.DataFrame(numbers | {"y": np.arange(n_rows) % 2})
        table.to_parquet(path, row_group_size=5_000)
        size = table.to_numpy().nbytes
        del table, numbers
        tracemalloc.start()
        file = parquet.ParquetFile(path)
        source = path if kind == "file" else file.iter_batches(5_000)
        IndependentSynthesizer(target="y").fit(source)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < size / 2


@pytest.mark.parametrize("ends", [None, KeyboardInterrupt])
def test_no_file_of_private_rows_is_left(ends, tmp_path, monkeypatch):
    """Nor is one seen while a fit runs, whatever ends it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    real, seen = pkgutil.resolve_name(NOISE), []

    def look(values, reservation):
        seen.append(os.listdir(tmp_path))
        if reservation.name == "marginals" and ends is not None:
            raise ends
        return real(values, reservation)

    monkeypatch.setattr(NOISE, look)
    try:
        IndependentSynthesizer(target="y").fit(rows().to_reader(max_chunksize=77))
    except KeyboardInterrupt:
        assert ends is not None
    assert len(seen) > 3
    assert not any(seen)
    assert os.listdir(tmp_path) == []
