"""Parts of drawn rows become one table: its dtypes, its order, its identifiers."""

from __future__ import annotations

import math
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer

# Parts of any size: those of `sample` have thousands of rows.
from skdpsynth.sampling._sampler import DrawnTable
from skdpsynth.schema import Identifier, TableSchema

if TYPE_CHECKING:
    from skdpsynth.measure import TableModel

WHOLE = np.arange(40)
COLUMNS = {
    "float64, big-endian": WHOLE.astype(">f8"),
    "float32, missing": np.where(WHOLE % 4, WHOLE, np.nan).astype("f4"),
    "int8": WHOLE.astype("i1"),
    "bool": WHOLE % 2 == 0,
    "datetime, missing": pd.date_range("2020", periods=39).insert(39, pd.NaT),
    "datetime in a zone": pd.date_range("2020", periods=40, tz="Europe/Berlin"),
    "Int64": pd.array([7, None] * 20, dtype="Int64"),
    "str": ["a", "b"] * 20,
    "object of booleans": pd.Series([True, False] * 20, dtype=object),
    "category, missing": pd.Categorical(["a", "b", "c", None] * 10, ordered=True),
}
IDS = {
    "str": ["a", "b"] * 20,
    "int64": WHOLE,
    "Int64": pd.array([7, None] * 20, dtype="Int64"),
    "datetime": pd.date_range("2020", periods=40),
    "category of str": pd.Categorical(["a", "b"] * 20),
    "category of int": pd.Categorical([1, 2] * 20, ordered=True),
    "category of datetime": pd.Categorical(pd.date_range("2020", periods=40)),
}


def fitted(frame: pd.DataFrame, schema: TableSchema | None = None) -> TableModel:
    target = "t" if "t" in frame else None
    synthesizer = IndependentSynthesizer(math.inf, schema=schema, target=target)
    return synthesizer.fit(frame)._model


def drawn(model: TableModel, ends: list[int], first: int = 0) -> pd.DataFrame:
    """Draw 40 rows in parts that end there; the last part comes first."""
    rng = np.random.default_rng(0)
    members = rng.integers(0, len(model.marginals), ends[-1])
    ranks = rng.random((ends[-1], len(model.metadata.columns)))
    table = DrawnTable(model.metadata, ends[-1], first)
    for start, end in reversed(list(zip([0, *ends[:-1]], ends, strict=True))):
        table.put(start, model.columns(ranks[start:end], members[start:end]))
    return table.frame()


@pytest.mark.parametrize("dtype", COLUMNS)
def test_parts_are_the_table_whatever_their_number_and_order(dtype):
    frame = pd.DataFrame({"x": COLUMNS[dtype], "t": pd.Categorical([3, 4] * 20)})
    model = fitted(frame)
    one = drawn(model, [40])
    pd.testing.assert_frame_equal(one, drawn(model, [7, 7, 30, 40]))
    assert one["x"].dtype == frame["x"].dtype
    assert one["x"].isna().any() == frame["x"].isna().any()
    assert one.index.equals(pd.RangeIndex(40))


@pytest.mark.parametrize("dtype", IDS)
def test_identifiers_are_fresh_and_distinct_in_every_part(dtype):
    frame = pd.DataFrame({"id": IDS[dtype], "x": WHOLE.astype(float)})
    model, own = fitted(frame, TableSchema({"id": Identifier()})), frame["id"].dtype
    one, later = drawn(model, [25, 40]), drawn(model, [15], first=40)
    for found in (one["id"], later["id"]):
        assert found.is_unique
        if isinstance(own, pd.CategoricalDtype):
            assert found.cat.ordered == own.ordered
            assert found.cat.categories.dtype == own.categories.dtype
        else:
            assert found.dtype == own
    assert not set(later["id"]) & set(one["id"])


def test_identifiers_of_two_values_repeat():
    frame = pd.DataFrame({"id": pd.Categorical([True, False] * 20), "x": 1.0})
    table = drawn(fitted(frame, TableSchema({"id": Identifier()})), [40])
    assert set(table["id"]) == {True, False}


def test_an_identifier_may_have_the_name_na():
    names = pd.Index(["x", "t", pd.NA], dtype=object)
    frame = pd.DataFrame([[0.5, 0, 7], [1.5, 1, 8]] * 20).set_axis(names, axis=1)
    table = drawn(fitted(frame, TableSchema({pd.NA: Identifier()})), [40])
    assert table.iloc[:, 2].tolist() == [*range(40)]


def test_a_table_is_not_in_memory_twice():
    """While its pieces are joined there is one more column, of twenty."""
    model = fitted(pd.DataFrame(np.ones((40, 20)) * WHOLE[:, None]).add_prefix("c"))
    n_rows = 5_000
    table = DrawnTable(model.metadata, 4 * n_rows)
    tracemalloc.start()
    for start in range(0, 4 * n_rows, n_rows):
        ranks = np.random.default_rng(start).random((n_rows, 20))
        table.put(start, model.columns(ranks, np.zeros(n_rows, dtype=np.int64)))
    del ranks
    tracemalloc.reset_peak()
    frame = table.frame()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert frame.shape == (4 * n_rows, 20)
    assert peak < 1.2 * frame.to_numpy().nbytes
