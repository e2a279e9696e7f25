"""Structure of a table: what is refused, and the layout that is read off it."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Identifier,
    TableSchema,
    Text,
)
from skdpsynth.table import ColumnLayout, TableLayout, open_table

X = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
LABELS = np.array([0, 1, 0])
FRAME = pd.DataFrame({"age": [30, 40, 50], "sex": ["F", "M", "F"]}, index=[9, 9, 7])


def test_an_array_with_labels():
    frame, layout = open_table(X, LABELS)
    assert list(frame.columns) == ["x0", "x1", "target"]
    assert np.array_equal(frame[["x0", "x1"]].to_numpy(), X, equal_nan=True)
    assert frame["target"].tolist() == [0, 1, 0]
    assert layout == TableLayout(
        (
            ColumnLayout("x0", np.dtype("float64"), "continuous", True),
            ColumnLayout("x1", np.dtype("float64"), "continuous", True),
            ColumnLayout("target", np.dtype("int64"), "integer", False),
        ),
        target="target",
        from_array=True,
        y_given=True,
    )


@pytest.mark.parametrize("name", ["label", 0, ("a", "b")])
def test_a_series_of_labels_keeps_its_name(name):
    labels = pd.Series([True, False, True], name=name, index=[3, 1, 2])
    frame, layout = open_table(FRAME, labels)
    assert frame[name].tolist() == [True, False, True]  # by position, not by index
    assert layout.target == name
    assert layout.target_column.kind == "boolean"


def test_a_frame_keeps_order_and_gets_a_fresh_index():
    before = FRAME.copy(deep=True)
    frame, layout = open_table(FRAME, target="age")
    assert frame.columns.tolist() == ["age", "sex"]
    assert frame.index.equals(pd.RangeIndex(3))
    assert [column.name for column in layout.feature_columns] == ["sex"]
    assert not layout.y_given
    open_table(FRAME, LABELS)
    pd.testing.assert_frame_equal(FRAME, before)


LISTS = pd.ArrowDtype(pa.list_(pa.int8()))


def one_column(values: object) -> pd.DataFrame:
    return pd.DataFrame({"sick": values})


LEVELS = pd.DataFrame(X[:, :1], columns=[["a"], ["b"]])
OF_SEX = TableSchema({"sex": Categorical(["F"])}, target="sex")
OF_FLOATS = {"target": 0, "schema": TableSchema({0: Categorical([0.0, 1.0])})}
FLOATS_REFUSED = r"0 has dtype float64.*astype\('Int64'\).*Continuous"
TWO = pd.to_timedelta([1, 2], unit="s")
COLUMNS_REFUSED = {
    "infinite": ([1.0, -np.inf], "'sick' holds an inf"),
    "infinite Float64": (pd.array([np.inf, None], "Float64"), "'sick' holds an inf"),
    "complex": ([1j, 2], "Complex data not supported"),
    "period": (pd.period_range("2020", periods=2, freq="D"), r"\.dt\.to_timestamp\(\)"),
    "interval": (pd.interval_range(0, 2), r"astype\(str\)"),
    "sparse column": (pd.arrays.SparseArray([0, 1]), r"\.sparse\.to_dense\(\)"),
    "nested": (pd.array([[1], [2]], LISTS), "'sick' has the Arrow type list"),
    "category of intervals": (pd.cut([1, 2, 3], 2), "'sick' is a category column"),
    "category of mixed": (pd.Categorical([1, "a"]), "'sick' is a category column"),
    "category of durations": (pd.Categorical(TWO), "'sick' is a category column"),
}
DAY = pd.Timestamp("2020-05-17 13:45")
# Objects, their types, and the kind of what the conversion that is named gives.
OBJECTS_REFUSED = [
    (["a", 1], "int and str", "categorical"),
    ([1, 2.5], "float and int", "continuous"),
    ([1, None], "int", "integer"),
    ([True, "a"], "bool and str", "categorical"),
    ([["a", 1], ["b", 2]], "list", "categorical"),
    ([{"a": 1}, {"a": 2}], "dict", "integer"),
    ([DAY.date(), None], "date", "datetime"),
    ([DAY, DAY.to_pydatetime()], "Timestamp and datetime", "datetime"),
    ([DAY.time(), None], "time", "timedelta"),
    ([TWO[0].to_pytimedelta(), None], "timedelta", "timedelta"),
    ([b"a", b"b", None], "bytes", "categorical"),
    ([Decimal("1.5"), None], "Decimal", "continuous"),
    ([UUID(int=7), UUID(int=8)], "UUID", "categorical"),
]


@pytest.mark.parametrize(("values", "types", "kind"), OBJECTS_REFUSED)
def test_objects_are_named_by_type_with_a_conversion_that_works(values, types, kind):
    table = one_column(pd.Series(values, dtype=object))
    with pytest.raises(InvalidTableError, match=f"'sick' .* holds {types}, ") as caught:
        open_table(table)
    way = str(caught.value).partition("convert it by ")[2].rstrip(".")
    converted = eval(way.partition(", whose")[0], {"pd": pd, "table": table})
    _, layout = open_table(pd.DataFrame(converted).assign(u=0.5))
    assert layout.columns[0].kind == kind


TABLES_REFUSED = {
    "nothing": (None, {}, "Got NoneType .*pass the table itself"),
    "a dict": ({"age": [30, 40]}, {}, r"Got dict .*by pd\.DataFrame\(X\)"),
    "records": (FRAME.to_dict("records"), {}, r"Got list .*by pd\.DataFrame\(X\)"),
    "recarray": (FRAME.to_records(), {}, r"Got recarray .*by pd\.DataFrame\(X\)"),
    "frames": ([FRAME, FRAME], {}, r"one table at a time, or all rows by pd\.concat"),
    "Bunch": (load_iris(), {}, r"Got Bunch .*as_frame=True, and pass its \.frame"),
    "1-d": (np.arange(3), {}, "2-d array. Got ndarray with 1"),
    "series": (FRAME["age"], {}, "Got Series with 1"),
    "ragged": ([[1, 2], [3]], {}, "Got list with 1"),
    "no row": (FRAME.iloc[:0], {}, "0 sample"),
    "one row": (FRAME.iloc[:1], {}, "1 sample"),
    "no columns": (FRAME[[]], {}, r"0 feature\(s\) \(shape=\(3, 0\)"),
    "target alone": (FRAME[["sex"]], {"target": "sex"}, "a column besides the target"),
    "duplicates": (FRAME[["sex", "sex"]], {}, r"\['sex'\] more than"),
    "levels": (LEVELS, {}, "several levels.*to_flat_index"),
    "sparse matrix": (sparse.csr_matrix(np.eye(3)), {}, "Sparse input"),
    "y length": (FRAME, {"y": [0, 1]}, "inconsistent lengths"),
    "y name": (FRAME, {"y": FRAME["sex"]}, "labels y are named 'sex', and so is"),
    "y and target": (FRAME, {"y": LABELS, "target": "sex"}, "given twice"),
    "two targets": (FRAME, {"target": "age", "schema": OF_SEX}, "'age', but .* 'sex'"),
    "absent target": (FRAME, {"target": "sez"}, "'sez' is not a .* are 'age', 'sex'"),
    "no name": (FRAME, {"target": np.nan}, "must have a name"),
    "several targets": (FRAME, {"target": ["sex"]}, "Got list"),
    "float y with inf": (X, {"y": [0.0, 1.0, np.inf]}, "infinite"),
    "float target of categories": (pd.DataFrame(X), OF_FLOATS, FLOATS_REFUSED),
}


TABLES_REFUSED |= {k: (one_column(v), {}, m) for k, (v, m) in COLUMNS_REFUSED.items()}


@pytest.mark.parametrize("case", TABLES_REFUSED)
def test_tables_and_dtypes_that_are_none_are_refused(case):
    table, others, message = TABLES_REFUSED[case]
    with pytest.raises(InvalidTableError, match=message):
        open_table(table, **others)


def test_object_arrays_are_read_by_column():
    """Numbers in an object array are numbers; a mixed column is refused."""
    mixed = np.array([["a", 1, 2.5], ["b", 2, 1]], dtype=object)
    _, layout = open_table(mixed)
    kinds = [column.kind for column in layout.columns]
    assert kinds == ["categorical", "integer", "continuous"]
    mixed[0, 1] = "a"
    with pytest.raises(InvalidTableError, match="'x1' has dtype object"):
        open_table(mixed)


KIND_EXAMPLES = {
    "continuous": [0.5, 1.5],
    "integer": [1, 2],
    "boolean": [True, False],
    "categorical": ["a", "b"],
    "datetime": pd.to_datetime(["2020", "2021"], format="%Y"),
    "timedelta": pd.to_timedelta([1, 2], unit="s"),
}
DESCRIPTIONS = [
    (Continuous(0, 1), {"continuous", "integer"}),
    (Continuous("0D", "1D"), {"timedelta"}),
    (Categorical(["a"]), {"categorical"}),
    (Categorical([1, 2.0]), {"integer", "continuous"}),
    (Categorical([2.5]), {"continuous"}),
    (Categorical([True]), {"boolean"}),
    (Categorical([pd.Timestamp("2020")]), {"datetime"}),
    (Categorical([], nullable=True), {"continuous", "categorical", "datetime"}),
    (Boolean(), {"boolean"}),  # and for objects, see below
    (Datetime("2020", "2021"), {"datetime"}),
    (Identifier(), set(KIND_EXAMPLES)),
    (Identifier(pattern="C##"), {"categorical"}),
    (Boolean(true="yes", false="no"), {"categorical"}),
    (Text(), {"categorical"}),
]


@pytest.mark.parametrize(("described", "allowed"), DESCRIPTIONS)
def test_schema_must_fit_the_dtype(described, allowed):
    schema = TableSchema({"sick": described})
    for kind, values in KIND_EXAMPLES.items():
        frame = one_column(values)
        if kind in allowed:
            open_table(frame, schema=schema)
        elif kind == "timedelta" and described == Continuous(0, 1):
            with pytest.warns(FutureWarning, match="'sick'.*Continuous\\(\"0D\", "):
                open_table(frame, schema=schema)
        else:
            with pytest.raises(InvalidSchemaError, match="'sick'"):
                open_table(frame, schema=schema)


@pytest.mark.parametrize(
    ("values", "fits", "misfits"),
    [
        (pd.Categorical(["a", "b"]), ["z"], [1]),
        (pd.Categorical([1, 2]), [7], ["a"]),
        (pd.Categorical([True, False]), [True], ["a"]),
        (pd.Categorical([True] * 2, pd.Index([True], dtype=object)), [True], [1]),
        (pd.Series([True, None], dtype=object), [True], ["a"]),
        (np.array([1, 2], dtype="uint8"), [255], [256]),
        (pd.array([1, 2], dtype="Int8"), [-128], [-129]),
    ],
)
def test_categories_must_be_values_of_the_dtype(values, fits, misfits):
    frame = one_column(values)
    open_table(frame, schema=TableSchema({"sick": Categorical(fits)}))
    with pytest.raises(InvalidSchemaError, match="'sick'"):
        open_table(frame, schema=TableSchema({"sick": Categorical(misfits)}))


@pytest.mark.parametrize("values", [[None, None], ["a", None], [True, None]])
def test_objects_have_one_kind_whatever_they_are(values):
    """Their dtype is public, their type is not; a schema may state it."""
    frame = one_column(pd.Series(values, dtype=object))
    _, layout = open_table(frame)
    assert layout.columns[0].kind == "categorical"
    described = [(Boolean(), "boolean"), (Categorical([True]), "categorical")]
    for column, kind in described:
        schema = TableSchema({"sick": column})
        if values[0] == "a":
            with pytest.raises(InvalidSchemaError, match="'sick' values of type bool"):
                open_table(frame, schema=schema)
        else:
            assert open_table(frame, schema=schema)[1].columns[0].kind == kind
    open_table(frame, schema=TableSchema({"sick": Identifier()}))


@pytest.mark.parametrize("inner", ["object", "str", "bool", "int64"])
def test_a_category_layout_says_nothing_of_the_categories(inner):
    """But their dtype; also not whether one is used, or there are any."""
    levels = pd.Index({"bool": [False, True], "int64": [3, 4]}.get(inner, ["a", "b"]))
    dtype = pd.CategoricalDtype(levels.astype(inner))
    used = pd.Series(pd.Categorical.from_codes([0, 1, -1], dtype=dtype))
    unused = used.astype(object).where([False] * 3).astype(dtype)
    none = unused.cat.remove_unused_categories()
    layouts = [ColumnLayout.of("c", series) for series in (used, unused, none)]
    assert [layout.kind for layout in layouts] == ["categorical"] * 3
    assert len({f"{layout}, {layout.to_dict()}" for layout in layouts}) == 1
    if inner == "object":
        truth = used.cat.rename_categories(pd.Index([False, True], dtype=object))
        assert ColumnLayout.of("c", truth).to_dict() == layouts[0].to_dict()


def test_schema_of_another_table_is_refused():
    schema = TableSchema({f"c{number}": Boolean() for number in range(14)})
    with pytest.raises(InvalidSchemaError, match=r"lacks: 'c0'.* and 2 more"):
        open_table(FRAME, schema=schema)
    with pytest.raises(InvalidSchemaError, match=r"use Categorical\(\[0, 1\]\)"):
        open_table(FRAME, schema=TableSchema({"age": Boolean()}))
