"""Tables and labels of any container go back into it, and missing labels train nothing.

`test_row_order.py` scores them, `privacy/test_sources_issue_the_same.py` fits them.
"""

import datetime as dt
import decimal
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from _instances import PLAIN_PRIVATE
from _releases import observed
from sklearn.base import clone
from tables import mixed_table

from skdpsynth import IndependentSynthesizer, PrivacyBudget
from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import InvalidTableError, MissingDependencyError
from skdpsynth.metrics import tstr_scores
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Datetime, TableSchema
from skdpsynth.table import in_container_of
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
    features = POLARS.drop("y", "level")
    X, _ = IndependentSynthesizer().fit_resample(features, np.arange(N) % 2)
    assert X.schema == features.schema
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


RNG = np.random.default_rng(0)
SECOND = RNG.random(N) < 0.5
TEXT = np.where(SECOND, "yes", "n")
DAYS = np.where(SECOND, np.datetime64("2020-01-01"), np.datetime64("2021-01-01"))
FEATURES = RNG.normal(size=(N, 2)) + SECOND[:, None]
STRINGS = TEXT.astype(np.dtypes.StringDType())


def resampled(X, y, **settings):
    return IndependentSynthesizer(**{"epsilon": 5.0} | settings).fit_resample(X, y)


LABELS = {
    "Series": pd.Series(TEXT, name="label"),
    "Series without a name": pd.Series(SECOND, dtype=object),
    "Series of categories": pd.Series(TEXT, dtype="category", index=range(N, 2 * N)),
    "Categorical": pd.Categorical(TEXT),
    "Categorical, ordered": pd.Categorical(TEXT, ["n", "yes"], ordered=True),
    "Index": pd.Index(TEXT, name="label"),
    "CategoricalIndex": pd.CategoricalIndex(TEXT),
    "DatetimeIndex, zoned": pd.DatetimeIndex(DAYS).tz_localize("Asia/Tokyo"),
    "Int64": pd.array(SECOND.astype(int), dtype="Int64"),
    "string": pd.array(TEXT, dtype="string"),
    "boolean": pd.array(SECOND, dtype="boolean"),
    "Arrow": pd.array(TEXT.tolist(), dtype=pd.ArrowDtype(pa.string())),
    "extension of NumPy": pd.arrays.NumpyExtensionArray(SECOND.astype(int)),
    "U": TEXT,
    "StringDType": STRINGS,
    "object": TEXT.astype(object),
    "object of bool": SECOND.astype(object),
    "bool": SECOND,
    "int32, of the other endianness": SECOND.astype(">i4"),
    "datetime64[D]": DAYS,
    "array of one column": TEXT[:, None],
    "DataFrame": pd.DataFrame({"label": pd.array(TEXT, dtype="string")}),
    "numbers": pd.Series(FEATURES[:, 0], name="price"),
    "float32": FEATURES[:, 0].astype(np.float32),
    # One missing value is not told from none.
    "Float64 with a gap": pd.array([None, *FEATURES[1:, 0]], dtype="Float64"),
    "Index of numbers": pd.Index(FEATURES[:, 0]),
    "polars": POLARS["y"],
    "DataFrame of polars": POLARS.select("y"),
    "polars, categories": POLARS["level"].alias("y"),
    "ChunkedArray": ARROW["y"],
    "Array": ARROW["y"].combine_chunks(),
    "Table": ARROW.select(["y"]),
    "Arrow, booleans": ARROW["flag"],
}


def type_of(labels):
    """Return the dtype of labels, or their names and dtypes; any width of texts."""
    if isinstance(labels, pa.Table):
        return labels.schema.remove_metadata()
    if isinstance(labels, pd.DataFrame | pl.DataFrame):
        return dict(zip(labels.columns, labels.dtypes, strict=True))
    dtype = getattr(labels, "dtype", getattr(labels, "type", None))
    return "U" if getattr(dtype, "kind", None) == "U" else dtype


# The order of an ordered one is lost, which `fit` says.
@pytest.mark.filterwarnings("ignore:The order of the categories")
@pytest.mark.usefixtures("frozen_noise")
@pytest.mark.parametrize("name", LABELS)
def test_labels_come_back_in_their_container_and_dtype(name):
    labels = LABELS[name]
    features, generated = resampled(FEATURES, labels)
    assert type(generated) is type(labels)
    assert type_of(generated) == type_of(labels)
    assert np.shape(generated) == (len(features), *np.shape(labels)[1:])
    assert getattr(generated, "name", None) == getattr(labels, "name", None)
    if getattr(labels, "dtype", None) in (np.float32, np.float64, "Float64"):
        assert not pd.isna(generated).any()
        assert np.std(generated) == pytest.approx(np.std(FEATURES[:, 0]), rel=0.5)
    elif getattr(type_of(labels), "kind", None) == "M":  # times are measurements
        assert {*np.ravel(generated)} >= {*np.ravel(labels)}
    else:
        assert {*np.ravel(generated)} == {*np.ravel(labels)}


@pytest.mark.parametrize("container", [list, tuple])
def test_lists_come_back_as_lists(container):
    rows = container([first, "a", row % 3] for row, (first, _) in enumerate(FEATURES))
    generated = resampled(rows, container(TEXT.tolist()))
    assert [type(part) for part in generated] == [container, container]
    assert {tuple(map(type, row)) for row in generated[0]} == {(float, str, int)}
    assert set(generated[1]) == {"yes", "n"}


def test_categories_that_were_not_released_are_not_in_the_dtype():
    """They are data: an unused category may be somebody's."""
    labels = pd.Categorical(TEXT, categories=["yes", "secret", "n"])
    generated = resampled(FEATURES, labels)[1]
    assert generated.categories.tolist() == ["n", "yes"]
    declared = Categorical(["yes", "n", "a long label"])
    schema = TableSchema({"target": declared}, n_rows=N)
    settings = {"epsilon": np.inf, "schema": schema}
    generated = resampled(FEATURES, labels, **settings)[1]
    assert generated.categories.tolist() == ["yes", "n", "a long label"]
    texts = in_container_of(TEXT, pd.Series(["a long label", "n"]))
    assert texts.tolist() == ["a long label", "n"]  # not cut to the width that came


ARRAYS = {
    "float32": FEATURES.astype(np.float32),
    "other endianness": FEATURES.astype(">f4"),
    "bool": np.c_[SECOND, ~SECOND],
    "U": np.c_[TEXT, TEXT],
    "StringDType": np.c_[TEXT, TEXT].astype(STRINGS.dtype),
    "object of numbers": FEATURES.astype(object),
    "object of both": np.array([[1, "a"], [2, "b"]] * (N // 2), dtype=object),
    "datetime64[D]": np.c_[DAYS, DAYS],
    "timedelta64[D]": np.c_[DAYS, DAYS] - np.datetime64("2019-01-01"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back_in_their_dtype(name):
    array = ARRAYS[name]
    generated, _ = resampled(array, SECOND)
    assert type(generated) is np.ndarray
    assert generated.dtype.kind == array.dtype.kind
    assert array.dtype.kind == "U" or generated.dtype == array.dtype
    if array.dtype.kind in "UT":
        assert set(generated.ravel()) == {"yes", "n"}
    if name == "object of both":
        assert {type(value) for value in generated[:, 0]} == {int}


def test_bytes_are_refused_with_the_remedy():
    """NumPy's 'S' says nothing about the encoding, so it is the user's to say."""
    raw = TEXT.astype("S")
    for X, y in ((np.c_[raw, raw], SECOND), (FEATURES, raw)):
        with pytest.raises(InvalidTableError, match=r"decoded by astype\(str\)"):
            resampled(X, y)


@pytest.mark.parametrize("name", ["Series", "Categorical", "Int64", "Arrow", "object"])
def test_missing_labels_never_come_out(name):
    """Nor are they counted: the noisy count of 480 labels has a deviation below 7."""
    labels = LABELS[name].copy()
    labels[::5] = None
    assert pd.isna(labels).sum() == N // 5
    generated = resampled(FEATURES, labels)[1]
    assert not pd.isna(generated).any()
    assert len(set(generated)) == 2
    assert len(generated) == pytest.approx(N * 4 / 5, abs=50)


KNOWN = {
    "declared labels": {"schema": TableSchema({"y": Categorical(["n", "yes"])})},
    "found labels": {},
    "no target": {"target": None},
}


@pytest.mark.parametrize("known", KNOWN)
def test_as_many_rows_come_back_as_noisy_counts_say(known):
    """With equal releases equally many, of a table and of one row less.

    The noise of the seed is seen: they are as many as in neither table.
    """
    table = pd.DataFrame({"u": FEATURES[:, 0], "y": TEXT})
    made = IndependentSynthesizer(random_state=0, **{"target": "y"} | KNOWN[known])
    with insecure_randomness(7), observed() as history:
        first = len(made.fit_resample(table)[0])
    counts = made.schema_.class_counts
    released = made.schema_.n_rows if counts is None else sum(counts.values())
    with insecure_randomness(7), observed(history):
        second = len(made.fit_resample(table.iloc[1:])[0])
    assert first == second == released
    assert first not in (N, N - 1)
    ways = {type(synth).fit_resample for synth in PLAIN_PRIVATE.values()}
    assert ways == {BaseSynthesizer.fit_resample}


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
    labelled = None, ROWS.drop(columns="y"), pa.table({"odd": odd})
    for target, *given in (("y", ARROW.append_column("odd", odd)), labelled):
        with pytest.raises(InvalidTableError, match=f"'odd' has .* {message}") as found:
            synth.set_params(target=target).fit(*given)
        assert SECRET not in str(found.value)
    assert len(budget.charges) == 0


class Lazy:
    """What every collection of Dask has, and is none of its data frames."""

    __module__ = "dask.bag"
    __dask_graph__ = None


@pytest.mark.parametrize(
    ("lazy", "message"), [(Lazy(), r"\.compute\(\)"), (POLARS.lazy(), r"\.collect\(\)")]
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
