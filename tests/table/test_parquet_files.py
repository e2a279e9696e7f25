"""Parquet files: the dtypes that pandas reads from them, and columns of folders."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from skdpsynth import IndependentSynthesizer, TableSchema
from skdpsynth.__main__ import main
from skdpsynth.exceptions import InvalidTableError, SkdpsynthError
from skdpsynth.schema import Categorical, Continuous
from skdpsynth.table import open_table
from skdpsynth.table.parquet_files import ParquetFiles

N = 200
RNG = np.random.default_rng(0)
NUMBERS = RNG.integers(0, 5, N)
TEXTS = RNG.choice(["u", "v"], N)
DAYS = pd.date_range("2020", periods=N)
COLUMNS = {
    "int64": NUMBERS,
    "int8": NUMBERS.astype("int8"),
    "Int64": pd.array([None, *NUMBERS[1:]], "Int64"),
    "float32": RNG.normal(size=N).astype("float32"),
    "gaps": [None, *RNG.normal(size=N - 1)],
    "bool": NUMBERS > 2,
    "boolean": pd.array([None, *(NUMBERS[1:] > 2)], "boolean"),
    "time": DAYS,
    "zoned": DAYS.tz_localize("Europe/Berlin"),
    "duration": DAYS - DAYS[0],
    "text": TEXTS,
    "object": pd.Series([None, *TEXTS[1:]], dtype=object),
    "category": pd.Categorical(TEXTS),
    "ordered": pd.Categorical(TEXTS, ordered=True),
    "arrow": pd.array(NUMBERS, pd.ArrowDtype(pa.int16())),
}


def kept(dtype):
    """A dtype; of categories, which are found, what they are."""
    if isinstance(dtype, pd.CategoricalDtype):
        return dtype.categories.dtype, dtype.ordered
    return dtype


def test_a_file_of_pandas_has_its_dtypes(tmp_path, monkeypatch):
    """For each of them, by Python, by the command line, and with a stored index."""
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame(COLUMNS, index=pd.Index(range(3, N + 3), name="row"))
    table.to_parquet("t.parquet")
    expected = pd.read_parquet("t.parquet").dtypes.map(kept)
    synth = IndependentSynthesizer(50.0, random_state=0).fit("t.parquet")
    assert synth.sample(9).dtypes.map(kept).equals(expected)
    assert ParquetFiles(tmp_path / "t.parquet").read().dtypes.map(kept).equals(expected)
    words = ["t.parquet", "--epsilon=50", "--synthesizer=independent", "-o", "m"]
    assert main(["fit", *words]) == 0
    assert main(["sample", "m", "-n", "99", "-o", "s.parquet"]) == 0
    assert pd.read_parquet("s.parquet").dtypes.map(kept).equals(expected)


def test_no_missing_value_chooses_a_dtype(tmp_path):
    """Of files that pandas did not write; a false note is refused."""
    path, found = tmp_path / "t.parquet", []
    for last in (1, None):
        table = pa.table({"k": [*NUMBERS.tolist(), last], "x": [0.5] * (N + 1)})
        parquet.write_table(table, path)
        found.append(open_table(path)[1])
        assert ParquetFiles(path).read()["k"].dtype == pd.ArrowDtype(pa.int64())
    assert found[0] == found[1]
    noted = pa.Table.from_pandas(pd.DataFrame({"k": [1, 2], "x": [1.0, 2.0]})).schema
    parquet.write_table(table.replace_schema_metadata(noted.metadata), path)
    with pytest.raises(SkdpsynthError, match="a column 'k' of the dtype"):
        IndependentSynthesizer().fit(path)


@pytest.mark.parametrize("index", [pa.int32(), pa.uint32(), pa.int8()])
def test_dictionaries_of_arrow_have_one_index_type(index):
    """That of Arrow itself, whatever number of categories was released."""
    texts = pa.array(TEXTS.tolist()).dictionary_encode()
    table = pa.table({"s": texts.cast(pa.dictionary(index, pa.string()))})
    synth = IndependentSynthesizer(50.0, random_state=0).fit(table)
    kind = synth.sample(9).schema.field("s").type
    assert kind == pa.dictionary(pa.int32(), kind.value_type)


@pytest.fixture
def sales(tmp_path, monkeypatch):
    """A folder that pandas partitions; one value would be a number, one is missing."""
    monkeypatch.chdir(tmp_path)
    years, cities = RNG.choice(["2023", "2024"], N), RNG.choice(["a b", "ä"], N)
    table = pd.DataFrame({"year": years, "x": NUMBERS, "city": cities})
    table.to_parquet("sales", partition_cols=["year", "city"])
    return table


@pytest.mark.usefixtures("frozen_noise")
def test_columns_of_folders_are_columns(sales):
    """As texts, or as stated; dependent on nothing that the names look like."""
    drawn = IndependentSynthesizer(50.0, random_state=0).fit("sales").sample(500)
    assert [*drawn] == ["x", "year", "city"]
    for name in ("year", "city"):
        real, fake = (t[name].value_counts(normalize=True) for t in (sales, drawn))
        assert (real - fake.astype(float)).abs().max() < 0.2
    columns = {"year": Continuous(2000, 2030, integer=True), "city": Categorical(["ä"])}
    table = ParquetFiles(Path("sales"), columns).read()
    assert table["year"].dtype == "Int64"
    wrong = ParquetFiles(Path("sales"), columns | {"city": Continuous(0, 9)})
    with pytest.raises(InvalidTableError, match=r"'city' .* must be continuous"):
        wrong.read()
    schema = TableSchema(columns, target="city")
    years = IndependentSynthesizer(50.0, schema=schema).fit("sales").sample(500)["year"]
    assert years.mean() == pytest.approx(sales["year"].astype(int).mean(), abs=0.5)


def test_a_folder_in_the_command_line(sales, capsys):
    assert main(["schema", "sales"]) == 0
    names = [name for name, _ in json.loads(capsys.readouterr().out)["columns"]]
    assert names == ["x", "year", "city"]
    fit = ["fit", "sales", "--epsilon=50", "--synthesizer=independent", "-o", "m"]
    assert main([*fit, "--drop", "city"]) == 0
    assert main(["sample", "m", "-n", "99", "-o", "s.csv"]) == 0
    assert {*pd.read_csv("s.csv")["year"]} == {2023, 2024}
