"""Tables of any source, checked before any budget is spent.

In memory, or not: files, datasets, streams of batches, Dask.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.privacy import LocalParts, Parts, Step
from skdpsynth.schema import (
    NOTHING_STATED,
    Continuous,
    Datetime,
    TableSchema,
    check_dtype,
    check_objects,
)
from skdpsynth.table._layout import ColumnLayout, TableLayout, is_read
from skdpsynth.table._metadata import check_rules, orders_of
from skdpsynth.table.csv_files import CsvFile, CsvForm
from skdpsynth.table.parquet_files import ParquetFiles
from skdpsynth.utils import MOST_SHOWN, is_csv, withheld
from skdpsynth.utils.arrays import Ints
from skdpsynth.utils.containers import (
    as_frame,
    container_of,
    from_arrow,
    index_of_pandas,
    native,
    speaks_arrow,
    widened,
)
from skdpsynth.utils.dtypes import encode_dtype, is_object

Source = Any  # a dataset of Arrow, which has no stubs, or what has its `to_batches`

_TARGET_NAME = "target"  # of a label that comes without a name


def open_table(
    X: object,
    y: object = None,
    *,
    target: Hashable = None,
    schema: TableSchema = NOTHING_STATED,
    least: int = 2,
) -> tuple[pd.DataFrame | Parts, TableLayout]:
    """Return a table in memory as a DataFrame, any other as DataFrames in parts.

    Fewer than `least` rows are refused.
    """
    # All of it is read once, to see that its columns are what was stated. A frame may
    # share memory with X and must not be written to.
    if not is_source(X) or (y is not None and speaks_arrow(X)):
        frame, from_array = _to_frame(X)
        if y is not None:
            if (stated := agreed_target(target, schema)) is not None:
                raise InvalidTableError(
                    f"The target was given twice: as y and as the column {stated!r}."
                    " Pass y, or name the column (also in the schema), not both."
                )
            labels = _to_labels(y, len(frame))
            target = _TARGET_NAME if labels.name is None else labels.name
            if target in frame.columns:
                raise InvalidTableError(
                    f"The labels y are named {target!r}, and so is a column of X."
                    " Rename one, or drop the column from X."
                )
            frame.insert(frame.shape[1], target, labels)
        form: dict[str, Any] = {"from_array": from_array, "y_given": y is not None}
        form["container"] = container_of(X)
        layout = lay_out(frame, target, schema, len(frame) + 2 - least, **form)
        _check_counts(layout, _checked(frame, layout, schema))
        return native(frame), layout
    if y is not None:
        raise InvalidTableError(
            f"Expected the labels as a column. Got y beside a {type(X).__name__}, whose"
            " rows are not in memory; name the column by target."
        )
    empty, parts = _opened(X, schema)
    layout = lay_out(_to_frame(empty)[0], target, schema)
    counts = parts.total(_checked, layout, schema)
    n_rows = sum(parts.n_rows.values())
    _check_size(n_rows + 2 - least, len(layout.feature_columns))
    _check_counts(layout, counts)
    return parts, layout


def lay_out(
    frame: pd.DataFrame,
    target: Hashable,
    schema: TableSchema,
    n_rows: int = 2,
    **form: Any,  # noqa: ANN401 - of `TableLayout`
) -> TableLayout:
    """Check the structure of a table; objects are booleans only by the schema."""
    target = agreed_target(target, schema)
    if target is not None and target not in frame.columns:
        raise InvalidTableError(
            f"The target {target!r} is not a column of the table. Its columns are"
            f" {_short_list(frame.columns)}."
        )
    _check_size(n_rows, frame.shape[1] - (target is not None))
    columns = (ColumnLayout.of(name, own, schema) for name, own in frame.items())
    layout = TableLayout.of(tuple(columns), target, schema, **form)
    # Floats are no labels even if whole: whether they are is a question about values.
    label = layout.label_column
    if label is not None and label.kind == "continuous":
        raise InvalidTableError(
            f"The target {label.name!r} has dtype {label.dtype}, but classes must be"
            " strings, integers or booleans. Cast it by astype('Int64') or astype(str);"
            " if it is a measurement, describe it as Continuous or not at all."
        )
    check_schema(schema, layout)
    return layout


def _to_frame(X: object) -> tuple[pd.DataFrame, bool]:
    """Return X as a shallow copy with a fresh index, and whether it was an array."""
    X = from_arrow(X)
    if isinstance(X, pd.DataFrame):
        frame = as_frame(X).copy(deep=False)
        frame.index = pd.RangeIndex(len(frame))
        return frame, False
    if sparse.issparse(X):
        msg = "Sparse input is not supported. Expected a table; convert by X.toarray()."
        raise InvalidTableError(msg)
    # Lists go through object, so that numbers beside strings stay numbers.
    array = np.asarray(X, dtype=object if isinstance(X, list | tuple) else None)
    if array.ndim != 2:
        raise InvalidTableError(
            "Expected a table (of pandas, polars or Arrow) or a 2-d array. Got"
            f" {type(X).__name__} with {array.ndim} dimension(s); {_as_table(X)}."
        )
    names = [f"x{number}" for number in range(array.shape[1])]
    return pd.DataFrame(array, columns=names).infer_objects(), True


def _as_table(X: Any) -> str:  # noqa: ANN401 - whatever came
    """Return how what is no table becomes one."""
    first = X[0] if isinstance(X, list | tuple) and X else None
    records = isinstance(first, Mapping) or getattr(X, "dtype", np.dtype("O")).names
    if X is None:
        return "pass the table itself"
    if isinstance(X, Mapping) and "feature_names" in X:  # a data set of scikit-learn
        return "load it with as_frame=True, and pass its .frame, or .data and .target"
    if isinstance(X, Mapping) or records:
        return "convert it by pd.DataFrame(X)"
    if isinstance(first, pd.DataFrame):
        return "fit one table at a time, or all rows by pd.concat(X)"
    return "reshape one column by X.reshape(-1, 1) or X.to_frame()"


def _to_labels(y: object, n_rows: int) -> pd.Series:
    """Return y, maybe a table of one column, as a Series with a fresh index."""
    labels: Any = from_arrow(y)
    named = isinstance(labels, pd.Series | pd.DataFrame)
    if not named and not isinstance(
        labels, pd.Index | pd.api.extensions.ExtensionArray
    ):
        labels = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.iloc[:, 0] if named else labels[:, 0]
    if labels.ndim != 1:
        several = f"{labels.shape[1]} columns" if labels.ndim == 2 else "no such thing"
        raise InvalidTableError(
            f"Expected labels y in 1 column, one label per row. Got {several}; choose"
            " one column, and keep others in X."
        )
    series = pd.Series(labels)
    if not named:
        series = series.infer_objects()
    if len(series) != n_rows:
        raise InvalidTableError(
            "X and y must have the same number of rows. Got inconsistent lengths; see"
            " which rows were dropped from one of them."
        )
    return series.set_axis(pd.RangeIndex(n_rows))


def agreed_target(target: Hashable, schema: TableSchema) -> Hashable:
    """Return the target that a parameter and a schema name, None for neither."""
    if not isinstance(target, Hashable):
        raise InvalidTableError(
            f"The 'target' must be one column name. Got {type(target).__name__};"
            " synthesizers have one label column."
        )
    stated = schema.target
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


def _check_size(n_rows: int, n_features: int) -> None:
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


def _check_counts(layout: TableLayout, counts: Ints) -> None:
    """Refuse objects of two types, by what `_checked` counts."""
    for column, (texts, booleans) in zip(layout.columns, counts.T, strict=True):
        if texts and booleans:
            raise InvalidTableError(
                f"Expected objects of one type in column {column.name!r}. Got texts in"
                " one part of the table and booleans in another; cast it."
            )


def check_schema(schema: TableSchema, layout: TableLayout) -> None:
    """Refuse a schema that cannot be about a table, whatever its values."""
    columns = {column.name: column for column in layout.columns}
    stated = {
        "describes columns": schema.kinds,
        "names columns per_unit": schema.per_unit,
        "has rules about columns": [n for rule in schema.rules for n in rule.names],
    }
    for what, names in stated.items():
        if absent := [name for name in names if name not in columns]:
            raise InvalidSchemaError(
                f"The schema {what} that the table lacks: {_short_list(absent)}."
                f" The table has {_short_list(columns)}."
            )
    for name, described in schema.kinds.items():
        column = columns[name]
        if name in schema.blanks and (
            column.kind == "timedelta"
            or not isinstance(described, Continuous | Datetime)
        ):
            continue  # what it does not state is in the way
        check_dtype(described, name, column.dtype, column.kind, column.can_be_missing)
    check_rules(schema, layout)
    for order in orders_of(layout, schema):  # as stated: what is found may have none
        order.check_room()


def _short_list(names: Any) -> str:  # noqa: ANN401 - any iterable of names
    shown = [repr(name) for name in names]
    more = f" and {len(shown) - MOST_SHOWN} more" if len(shown) > MOST_SHOWN else ""
    return ", ".join(shown[:MOST_SHOWN]) + more


_READABLE = "The table must be one that can be read"


def is_source(X: Any) -> bool:  # noqa: ANN401 - any container
    """Return whether the rows of a table are yet to be read."""
    if isinstance(X, pd.DataFrame | np.ndarray):
        return False
    if isinstance(X, str | Path | CsvFile | ParquetFiles) or _is_dask(X):
        return True
    from pyarrow import dataset

    if isinstance(X, dataset.Dataset | pa.RecordBatchReader | Iterator):
        return True
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(each, pa.RecordBatch) for each in X)
    in_memory = isinstance(X, Collection) or hasattr(X, "shape") or speaks_arrow(X)
    return isinstance(X, Iterable) and not in_memory


def _opened(X: Any, schema: TableSchema) -> tuple[pd.DataFrame, Parts]:  # noqa: ANN401
    """Return the columns of a source without a row, and its rows."""
    if _is_dask(X):
        from skdpsynth.table._dask import DaskParts

        return DaskParts.opened(X, schema.privacy_unit)
    if isinstance(X, str | Path):
        path, there = Path(X), False
        with suppress(OSError):  # a text that is no path at all
            there = path.exists()
        if not there:
            # The rows themselves, given as text, must not be in an error.
            named = len(str(path)) < 200 and "\n" not in str(path)
            shown = f"{str(path)!r}, which is not there"
            raise InvalidTableError(
                "Expected a table, or the path of a CSV file or of Parquet files. Got"
                f" {shown if named else 'a text that is none'}; name one that is there."
            )
        if is_csv(path):
            X = CsvFile(path, schema.kinds, form=CsvForm().stated(schema))
        else:
            X = ParquetFiles(path, schema.kinds)
    if not hasattr(X, "to_batches"):
        X = _Stream(iter(X))
    to_frame = X.typed if isinstance(X, CsvFile | ParquetFiles) else from_arrow
    index = index_of_pandas(X.schema)
    names = [name for name in X.schema.names if name not in index]
    parts = LocalParts(
        partial(_blocks, X, names), (Step(to_frame, ()),), narrowed=partial(_blocks, X)
    )
    empty = to_frame(X.schema.empty_table().drop_columns(index))
    return empty, parts.kept() if isinstance(X, _Stream) else parts


def _blocks(source: Source, names: Sequence[Hashable]) -> Iterator[Any]:
    """Read a source in tables of Arrow of so many rows each, whatever is read."""
    # Where batches end depends on the columns: those with categories end with row
    # groups.
    step = Parts.rows_at_once(len(source.schema))
    with withheld(_READABLE):
        held: list[Any] = []
        first = True
        for batch in _batches(source, step, names):
            table = pa.Table.from_batches([*held, batch.cast(widened(batch.schema))])
            while len(table) >= step:
                yield table[:step]
                table, first = table[step:], False
            held = table.to_batches()
        if held or first:
            empty = widened(source.schema).empty_table()
            yield pa.Table.from_batches(held) if held else empty


def _batches(source: Source, step: int, names: Sequence[Hashable]) -> Iterator[Any]:
    """Read a source in batches of at most so many rows, little in advance."""
    # The schema of a Dataset has the type of index that its first file happens to have,
    # which may be too narrow for the categories of others: so file by file.
    from pyarrow import dataset

    how: dict[str, Any] = {"batch_size": step, "columns": [*names]}
    fragments = [source]
    if isinstance(source, dataset.Dataset):
        how |= {"batch_readahead": 1, "fragment_readahead": 1}
        fields = widened(source.schema)
        listed = [own.name for own in fields if pa.types.is_dictionary(own.type)]
        try:
            fragments = source.get_fragments() if listed else fragments
        except ValueError as error:
            raise InvalidTableError(
                "Expected a Dataset without a filter or projection where columns are of"
                f" a dictionary type. Got one with the columns {listed!r} of that type;"
                " write its rows to a Parquet file, or cast these columns in its files."
            ) from error
        how |= {"schema": fields} if listed else {}
    for fragment in fragments:
        yield from fragment.to_batches(**how)


class _Stream:
    """Record batches of one schema that can be read once only."""

    def __init__(self, batches: Iterator[Any]) -> None:
        with withheld(_READABLE):
            first = next(batches, None)
        if not isinstance(first, pa.RecordBatch):
            raise InvalidTableError(
                "Expected a table, or an iterable of pyarrow's record batches. Got"
                f" one of {type(first).__name__}; make them by"
                " pyarrow.RecordBatch.from_pandas(frame)."
            )
        self.schema, self._batches = widened(first.schema), chain([first], batches)

    def to_batches(self, columns: list[str], **_: object) -> Iterator[Any]:
        """Read them."""
        for batch in self._batches:
            if widened(batch.schema) != self.schema:
                msg = "Expected record batches of one schema. Got several; cast them."
                raise InvalidTableError(msg)
            yield batch.select(columns)


def _checked(frame: pd.DataFrame, layout: TableLayout, schema: TableSchema) -> Ints:
    """Refuse other columns than expected, and infinities; count types of objects."""
    # By column: whether objects are texts, and whether booleans.
    counts = np.zeros((2, len(layout.columns)), dtype=np.int64)
    for place, column in enumerate(layout.columns):
        series = frame[column.name]
        own = ColumnLayout.of(column.name, series, schema)
        texts = isinstance(own.dtype, pd.StringDtype)  # Dask names another of these
        texts = texts and isinstance(column.dtype, pd.StringDtype)
        if not texts and encode_dtype(own.dtype) != encode_dtype(column.dtype):
            raise InvalidTableError(
                "Expected the same dtypes in all parts of the table. Got another than"
                f" {column.dtype} for column {column.name!r}; cast it, also the"
                " categories of a category dtype."
            )
        if not is_read(column.name, schema):
            continue
        if column.kind == "continuous":
            values = series.to_numpy(dtype=np.float64, na_value=np.nan)
            if np.isinf(values).any():
                raise InvalidTableError(
                    f"Column {column.name!r} holds an infinite value; replace it."
                )
        if is_object(own.dtype):
            held = pd.api.types.infer_dtype(series, skipna=True)
            counts[:, place] = held == "string", held == "boolean"
    check_objects(schema.columns, frame)
    return counts


def _is_dask(X: object) -> bool:
    of_dask = type(X).__module__.partition(".")[0] in ("dask", "dask_expr")
    return of_dask and hasattr(X, "to_delayed") and hasattr(X, "dtypes")
