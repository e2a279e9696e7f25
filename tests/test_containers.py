"""Tables of other libraries come through Arrow, and go back where they came from.

`test_row_order.py` scores them, `privacy/test_sources_issue_the_same.py` fits them.
"""

import datetime as dt
import decimal
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from tables import mixed_table

from skdpsynth import IndependentSynthesizer, PrivacyBudget
from skdpsynth.exceptions import InvalidTableError, MissingDependencyError
from skdpsynth.metrics import tstr_scores
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Datetime, TableSchema
from skdpsynth.utils.containers import from_arrow

pl = pytest.importorskip("polars")

N = 600
SYNTH = IndependentSynthesizer(epsilon=9.0, target="y", random_state=0)
SECRET = "4321"  # a value that no message may hold


class Stream:
    """A table of which nothing is known but that it speaks Arrow."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


ROWS = mixed_table(N)
ARROW = pa.Table.from_pandas(ROWS)
POLARS = pl.DataFrame(ARROW)
CONTAINERS = {
    "polars": POLARS,
    "Table": ARROW,
    "RecordBatch": ARROW.to_batches()[0],
    "stream": Stream(ARROW),
    "chunks": pa.concat_tables([ARROW[:100], ARROW[100:]]),
    "slice": pa.concat_tables([ARROW[:9], ARROW])[9:],
}
TYPES = {
    "number": "double[pyarrow]",
    "whole": "int64[pyarrow]",
    "text": "string[pyarrow]",
    "flag": "bool[pyarrow]",
    "time": "timestamp[ms][pyarrow]",
    "span": "duration[ms][pyarrow]",
    "level": "category",
    "day": "date32[day][pyarrow]",
    "y": "string[pyarrow]",
}


def plain(table) -> list[dict]:
    """Give the values of a table, as plain as they are."""
    table = from_arrow(table).astype(object)
    return table.where(table.notna(), None).to_dict("records")


@pytest.mark.parametrize("name", CONTAINERS)
def test_equal_rows_are_equal_fits(name):
    """With frozen noise, and but for the dtypes, which are Arrow's."""
    synth = clone(SYNTH)
    with insecure_randomness(0):
        expected = synth.fit(ROWS).sample(200, random_state=1)
    with insecure_randomness(0):
        synth.fit(CONTAINERS[name])
    found = synth.sample(200, random_state=1, output="pandas")
    assert plain(found) == plain(expected)
    types = {name: str(dtype) for name, dtype in found.dtypes.items()}
    # Arrow has two types of text, and pandas makes either of its own.
    assert {k: v.removeprefix("large_") for k, v in types.items()} == TYPES
    assert found["level"].cat.categories.tolist() == ["p", "q"]
    assert synth.feature_names_in_.tolist() == ROWS.columns[:-1].tolist()


@pytest.mark.parametrize("given", [ROWS, ARROW, POLARS], ids=["pandas", "Table", "pl"])
def test_samples_come_in_the_container_asked_for(given, tmp_path):
    clone(SYNTH).fit(given).save(tmp_path / "file")
    same = IndependentSynthesizer.load(tmp_path / "file")
    (batch,) = same.sample_batches(3)
    assert type(same.sample(3)) is type(batch) is type(given)  # as for the fit
    frame, arrow, polars = (
        same.sample(50, random_state=1, output=output)
        for output in ("pandas", "arrow", "polars")
    )
    assert (type(frame), type(arrow)) == (pd.DataFrame, pa.Table)
    assert plain(arrow) == plain(polars) == plain(frame)
    assert polars.schema == POLARS.schema
    text = arrow.schema.field("text").type
    assert pa.types.is_large_string(text) or pa.types.is_string(text)
    assert arrow.schema.field("time").type == pa.timestamp("ms")
    assert pa.types.is_dictionary(arrow.schema.field("level").type)
    assert arrow.schema.metadata is None


@pytest.mark.usefixtures("frozen_noise")
def test_dates_without_a_time_are_whole_days_for_free():
    """That they are is public by the dtype; only their range is measured."""
    synth = clone(SYNTH).fit(POLARS.select("day", "y"))
    assert "decimals" not in [entry.name for entry in synth.privacy_report().entries]
    found = synth.schema_.columns["day"]
    assert (found.unit, found.nullable) == ("D", True)
    assert found.low < pd.Timestamp("2021-03-01") < found.high
    days = synth.sample(2000, random_state=0, output="pandas")["day"]
    assert 0.05 < days.isna().mean() < 0.2
    assert (days.dropna() >= dt.date(2021, 2, 1)).mean() > 0.95
    ends = dt.date(2021, 3, 5), dt.date(2021, 3, 6)
    assert set(synth.sample(9, where={"day": ends})["day"]) <= {*ends}


def test_declared_dates_are_cut_to_whole_days():
    """At both bounds, whatever the unit of the schema."""
    schema = TableSchema({"day": Datetime("2021-03-10 12:00", "2021-03-12", unit="h")})
    synth = IndependentSynthesizer(epsilon=50.0, schema=schema, random_state=0)
    days = synth.fit(POLARS.select("day")).sample(500)["day"]
    assert set(days) == {dt.date(2021, 3, day) for day in (10, 11, 12)}


def test_an_array_has_a_table_too():
    """Bytes in another order, and what was never released: both have no Arrow type."""
    array = np.c_[ROWS["whole"], ROWS["whole"]].astype(">f8")
    table = IndependentSynthesizer().fit(array).sample(3, output="arrow")
    assert table.schema == pa.schema({"x0": pa.float64(), "x1": pa.float64()})
    frame = ROWS.assign(text=pd.Series([None] * N, dtype=object))
    table = clone(SYNTH).fit(frame).sample(3, output="arrow")
    assert table["text"].to_pylist() == [None] * 3
    assert table.schema.field("text").type == pa.large_string()


def test_other_outputs_are_refused_before_anything_is_drawn(monkeypatch):
    synths = [clone(SYNTH), clone(SYNTH)]
    for synth in synths:
        with insecure_randomness(0):
            synth.fit(ROWS)
    with pytest.raises(ValueError, match=r"output must be one of \['pandas', .*\]"):
        synths[0].sample(output="csv")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingDependencyError, match="pip install polars"):
        synths[0].sample(output="polars")
    drawn = [synth.sample(3, output="arrow") for synth in synths]  # without polars
    assert drawn[0] == drawn[1]


def test_metadata_and_levels_that_do_not_occur_stay_behind():
    """Of pandas the number of rows, of polars all that an Enum may hold."""
    kinds = pl.Enum(["q", "p", "secret"])
    table = POLARS.with_columns(pl.col("level").cast(pl.String).cast(kinds))
    synth = clone(SYNTH)
    if pa.table(table).schema.field("level").type.ordered:
        with pytest.warns(match="order of the categories of 'level' is not public"):
            synth.fit(table)
        assert synth.sample(output="polars").schema["level"] == pl.Enum(["p", "q"])
    else:
        synth.fit(table)
    X = synth.sample(9, output="arrow")
    assert X["level"].combine_chunks().dictionary.to_pylist() == ["p", "q"]
    assert [field.metadata for field in X.schema] == [None] * X.num_columns
    assert str(N).encode() in ARROW.schema.metadata[b"pandas"]
    stream = CONTAINERS["stream"]
    X, _ = IndependentSynthesizer().fit_resample(stream, np.arange(N) % 2)
    assert type(X) is pa.Table  # of a library that only speaks Arrow
    assert X.schema.metadata is None


def test_a_dictionary_is_read_whatever_its_chunks_list():
    """Other lists in every chunk, values twice, missing ones, and ones of no row."""
    lists = [["a", "b", "a"], ["b", None, "z"]]
    codes = [[0, 1, 2, None], [0, 1, 0, 1]]
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array(i, pa.uint8()), pa.array(levels))
        for i, levels in zip(codes, lists, strict=True)
    ]
    table = pa.table({"c": pa.chunked_array(chunks)})
    found = from_arrow(table)["c"]
    values = ["a", "b", "a", None, "b", None, "b", None]
    assert [row["c"] for row in plain(table)] == values
    assert sorted(found.cat.categories) == ["a", "b"]
    # The dtype does not say whether there is a value at all.
    nothing = from_arrow(pa.table({"c": pa.chunked_array(chunks)[3:4]}))["c"]
    assert nothing.cat.categories.dtype == found.cat.categories.dtype


LABELS = {
    "Series": POLARS["y"],
    "Series of pandas": ROWS["y"],
    "DataFrame": POLARS.select("y"),
    "categories": POLARS["level"].alias("y"),
    "ChunkedArray": ARROW["y"],
    "Array": ARROW["y"].combine_chunks(),
    "Table": ARROW.select(["y"]),
    "booleans": ARROW["flag"],
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_come_back_as_they_came(name):
    labels = LABELS[name]
    X = POLARS.drop("y", "level")
    generated = IndependentSynthesizer(epsilon=9.0).fit_resample(X, labels)
    assert generated[0].schema == X.schema
    assert type(generated[1]) is type(labels)
    assert len(generated[0]) == len(generated[1])
    if hasattr(labels, "dtype"):
        assert (generated[1].name, generated[1].dtype) == (labels.name, labels.dtype)
    elif hasattr(labels, "columns"):
        assert from_arrow(generated[1]).columns.tolist() == ["y"]
    else:
        assert generated[1].type == labels.type
    assert set(from_arrow(generated[1]).squeeze()) == set(from_arrow(labels).squeeze())


FLOATS = pa.dictionary(pa.int32(), pa.float64())
# A value, its Arrow type where pyarrow does not find it, and what the message says.
REFUSED = [
    (decimal.Decimal("4321.5"), None, r"decimal128\(5, 1\).* cast it to float64"),
    (dt.date(4321, 1, 1), pa.date64(), "date64.* cast it to date32 or to a timestamp"),
    (dt.time(4, 32, 1), None, "time64.* to text or to a number"),
    ([4321], None, "list.* columns of their own"),
    ({"a": 4321}, None, "struct.* columns of their own"),
    (None, None, "type null.* leave it out"),
    (b"4321", None, "binary.* cast it to numbers, text"),
    (4321.5, FLOATS, "dictionary.* type of its values"),
]


@pytest.mark.parametrize(("value", "kind", "message"), REFUSED)
def test_types_without_a_model_are_refused(value, kind, message):
    odd = pa.array([value] * N, kind)
    budget = PrivacyBudget(10.0, 1e-3)
    synth = clone(SYNTH).set_params(budget=budget)
    for table, labels in (
        (ARROW.append_column("odd", odd), None),
        (ROWS.drop(columns="y"), pa.table({"odd": odd})),
    ):
        with pytest.raises(InvalidTableError, match=f"'odd' has .* {message}") as found:
            synth.set_params(target="y" if labels is None else None).fit(table, labels)
        assert SECRET not in str(found.value)
    assert len(budget.charges) == 0


class Lazy:
    """What every collection of Dask has, and is none of its data frames."""

    __module__ = "dask.bag"
    __dask_graph__ = None


@pytest.mark.parametrize(
    ("lazy", "message"),
    [(Lazy(), r"\.compute\(\)"), (POLARS.lazy(), r"\.collect\(\)")],
)
def test_rows_that_are_not_in_memory_are_refused(lazy, message):
    for given in ((lazy,), (ROWS, lazy)):
        with pytest.raises(InvalidTableError, match=message):
            IndependentSynthesizer().fit(*given)
    with pytest.raises(InvalidTableError, match=message):
        tstr_scores(lazy, lazy, target="y")


def test_plans_read_a_schema():
    guess = {"class_counts": {"u": 300, "v": 300}}
    frame = from_arrow(POLARS)
    expected = SYNTH.plan(dtypes=frame.dtypes, **guess)
    for schema in (POLARS.schema, pa.table(POLARS).schema):
        pd.testing.assert_frame_equal(SYNTH.plan(dtypes=schema, **guess), expected)
    with pytest.raises(InvalidTableError, match="'d' has the Arrow type time64"):
        SYNTH.plan(dtypes=pl.Schema({"d": pl.Time}), **guess)
    with pytest.raises(ValueError, match=r"df.schema of pyarrow or polars.* Got list"):
        SYNTH.plan(dtypes=["d"], **guess)


@pytest.mark.nightly
def test_relations_of_duckdb():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.from_arrow(ARROW.drop_columns("span"))
    assert plain(relation) == plain(ARROW.drop_columns("span"))
    X, y = IndependentSynthesizer(epsilon=9.0).fit_resample(
        relation.project("* exclude y"), relation.project("y")
    )
    assert type(X) is type(y) is pa.Table
    assert duckdb.from_arrow(X).aggregate("count(*)").fetchall() == [(len(y),)]
