"""What a table must look like: checked before any budget is spent.

Only structure is looked at: types, names, shapes, infinities. Messages name columns,
never values. Values against the schema are clipped or become 'other' later, silently,
because an error that depends on them would be a release of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.preprocessing._layout import ColumnLayout, TableLayout
from skdpsynth.preprocessing._rules import check_rules
from skdpsynth.schema import Boolean, TableSchema, check_dtype, check_objects, is_object
from skdpsynth.utils.containers import from_arrow

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TARGET_NAME = "target"  # of a label that comes without a name


def read_table(
    X: object,
    y: object = None,
    *,
    target: Hashable = None,
    schema: TableSchema | None = None,
) -> tuple[pd.DataFrame, TableLayout]:
    """Check the structure of a table and bring it into one form, `y` as last column.

    The frame has a fresh index; it may share memory with X and must not be written to.
    Floats are no labels even if they are whole numbers: whether they are would be a
    question about values, and measurements must not become thousands of classes.
    """
    frame, from_array = _to_frame(X)
    target = _agreed_target(frame, y, target, schema)
    if y is not None:
        labels = _to_labels(y, len(frame))
        target = _TARGET_NAME if labels.name is None else labels.name
        if target in frame.columns:
            raise InvalidTableError(
                f"The labels y are named {target!r}, and so is a column of X. Rename"
                " one, or drop the column from X."
            )
        frame.insert(frame.shape[1], target, labels)
    form = {"from_array": from_array, "y_given": y is not None}
    check_size(len(frame), frame.shape[1] - (target is not None))
    layout = _layout_of(frame, target, schema, **form)
    check_values(layout, count_infinite(frame, layout))
    if schema is not None:
        check_schema(schema, layout)
        check_all_objects(schema, frame)
    return frame, layout


def lay_out(
    frame: pd.DataFrame, target: Hashable, schema: TableSchema | None
) -> TableLayout:
    """Check the structure of a table whose rows are not there yet."""
    frame, _ = _to_frame(frame)
    target = _agreed_target(frame, None, target, schema)
    check_size(2, frame.shape[1] - (target is not None))
    layout = _layout_of(frame, target, schema)
    check_values(layout, [0] * len(layout.columns))
    if schema is not None:
        check_schema(schema, layout)
    return layout


def _layout_of(
    frame: pd.DataFrame, target: Hashable, schema: TableSchema | None, **form: bool
) -> TableLayout:
    columns = tuple(_laid_out(name, frame[name], schema) for name in frame.columns)
    return TableLayout.of(columns, target, schema, **form)


def check_all_objects(schema: TableSchema, frame: pd.DataFrame) -> None:
    """Refuse objects of other types than a schema says."""
    for name, described in schema.columns.items():
        check_objects(described, name, frame[name])


def _laid_out(
    name: Hashable, series: pd.Series, schema: TableSchema | None
) -> ColumnLayout:
    """Lay out a column; objects are booleans only where the schema says so."""
    column = ColumnLayout.of(name, series)
    described = None if schema is None else schema.columns.get(name)
    if is_object(column.dtype) and isinstance(described, Boolean):
        return replace(column, kind="boolean")
    return column


def _to_frame(X: object) -> tuple[pd.DataFrame, bool]:
    """Return X as a shallow copy with a fresh index, and whether it was an array."""
    X = from_arrow(X)
    if isinstance(X, pd.DataFrame):
        if isinstance(X.columns, pd.MultiIndex):
            raise InvalidTableError(
                "Column names on several levels are not supported. Flatten them first,"
                " for example by df.columns = df.columns.to_flat_index()."
            )
        if not X.columns.is_unique:
            names = X.columns[X.columns.duplicated()].unique().tolist()
            raise InvalidTableError(
                f"Column names must be distinct. Got {names!r} more than once; rename"
                " or drop the duplicates."
            )
        frame = X.copy(deep=False)
        frame.index = pd.RangeIndex(len(frame))
        return frame, False
    if sparse.issparse(X):
        raise InvalidTableError(
            "Sparse input is not supported. Expected a table or a dense array; convert"
            " it by X.toarray()."
        )
    # Lists go through object, so that numbers beside strings stay numbers.
    array = np.asarray(X, dtype=object if isinstance(X, list | tuple) else None)
    if array.ndim != 2:
        raise InvalidTableError(
            "Expected a table (of pandas, polars or Arrow) or a 2-d array. Got"
            f" {type(X).__name__} with {array.ndim} dimension(s); reshape one column by"
            " X.reshape(-1, 1) or X.to_frame()."
        )
    names = [f"x{number}" for number in range(array.shape[1])]
    return pd.DataFrame(array, columns=names).infer_objects(), True


def _to_labels(y: object, n_rows: int) -> pd.Series:
    """Return y as a Series with a fresh index; its name is kept.

    A table of one column is one, also in the form of an array.
    """
    y = from_arrow(y)
    labels: Any = y
    if not isinstance(
        y, pd.DataFrame | pd.Series | pd.Index | pd.api.extensions.ExtensionArray
    ):
        labels = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.iloc[:, 0] if isinstance(y, pd.DataFrame) else labels[:, 0]
    if labels.ndim != 1:
        several = f"{labels.shape[1]} columns" if labels.ndim == 2 else "no such thing"
        raise InvalidTableError(
            f"Expected labels y in 1 column, one label per row. Got {several}; choose"
            " one column, and keep others in X."
        )
    series = pd.Series(labels)
    if not isinstance(y, pd.Series | pd.DataFrame):
        series = series.infer_objects()
    if len(series) != n_rows:
        raise InvalidTableError(
            "X and y must have the same number of rows. Got inconsistent lengths; check"
            " which rows were dropped from one of them."
        )
    series = series.copy(deep=False)
    series.index = pd.RangeIndex(n_rows)
    return series


def _agreed_target(
    frame: pd.DataFrame, y: object, target: Hashable, schema: TableSchema | None
) -> Hashable:
    """Return the target that `target` and the schema name, None for neither."""
    name = agreed_target(target, schema)
    if name is not None and y is not None:
        raise InvalidTableError(
            f"The target was given twice: as y and as the column name {name!r}. Keep it"
            " in X and leave out y, or pass y and leave out the name (also in the"
            " schema)."
        )
    if name is not None and name not in frame.columns:
        raise InvalidTableError(
            f"The target {name!r} is not a column of the table. Its columns are"
            f" {_short_list(frame.columns)}."
        )
    return name


def agreed_target(target: Hashable, schema: TableSchema | None) -> Hashable:
    """Return the target that a parameter and a schema name, None for neither."""
    if not isinstance(target, Hashable):
        raise InvalidTableError(
            f"The 'target' must be one column name. Got {type(target).__name__};"
            " synthesizers have one label column."
        )
    stated = None if schema is None else schema.target
    given = {name for name in (target, stated) if name is not None}
    if len(given) > 1:
        raise InvalidTableError(
            f"The 'target' is {target!r}, but the target of the schema is {stated!r}."
            " Give one of them, or the same twice."
        )
    name = stated if target is None else target
    if name is not None and pd.api.types.is_scalar(name) and pd.isna(name):
        raise InvalidTableError(
            "The target must have a name. Got a missing value; rename the column."
        )
    return name


def check_size(n_rows: int, n_features: int) -> None:
    """Refuse a table with too few rows, or no column but a target."""
    if n_features == 0:
        raise InvalidTableError(
            f"Found a table with 0 feature(s) (shape=({n_rows}, 0)) while a minimum of"
            " 1 is required. Expected a column besides the target."
        )
    if n_rows < 2:
        raise InvalidTableError(
            f"Found a table with {n_rows} sample(s) (n_samples={n_rows}) while a"
            " minimum of 2 is required. Expected one row per record."
        )


def count_infinite(frame: pd.DataFrame, layout: TableLayout) -> NDArray[np.int64]:
    """Count the infinite values of every column."""
    counts = np.zeros(len(layout.columns), dtype=np.int64)
    for place, column in enumerate(layout.columns):
        if column.kind == "continuous":
            values = frame[column.name].to_numpy(dtype=np.float64, na_value=np.nan)
            counts[place] = np.isinf(values).sum()
    return counts


def check_values(layout: TableLayout, n_infinite: Iterable[int]) -> None:
    """Refuse labels that are no classes, and infinities."""
    label = layout.label_column
    if label is not None and label.kind in ("continuous", "timedelta"):
        raise InvalidTableError(
            f"The target {label.name!r} has dtype {label.dtype}, but classes must be"
            " strings, integers or booleans. Cast it by astype(int), astype('Int64')"
            " or astype(str); if it is a measurement, describe floats as Continuous or"
            " not at all, and turn a duration into them by .dt.total_seconds()."
        )
    for column, n in zip(layout.columns, n_infinite, strict=True):
        if n:
            raise InvalidTableError(
                f"Column {column.name!r} holds an infinite value. Replace infinities by"
                " numbers, or by missing values."
            )


def check_schema(schema: TableSchema, layout: TableLayout) -> None:
    """Refuse a schema that cannot be about a table, whatever its values."""
    columns = {column.name: column for column in layout.columns}
    absent = [name for name in schema.columns if name not in columns]
    if absent:
        raise InvalidSchemaError(
            f"The schema describes columns that the table lacks: {_short_list(absent)}."
            f" The table has {_short_list(columns)}."
        )
    for name, described in schema.columns.items():
        column = columns[name]
        check_dtype(described, name, column.dtype, column.kind, column.can_be_missing)
    check_rules(schema, layout)


def _short_list(names: Any) -> str:  # noqa: ANN401 - any iterable of names
    shown = [repr(name) for name in names]
    more = f" and {len(shown) - 10} more" if len(shown) > 10 else ""
    return ", ".join(shown[:10]) + more
