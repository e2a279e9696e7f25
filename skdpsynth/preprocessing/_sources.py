"""Tables that are not in memory: files, datasets, streams of batches, Dask.

They are read block by block, as often as something is counted, so that no more than a
few blocks are in memory.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.preprocessing._csv import CsvFile
from skdpsynth.preprocessing._layout import ColumnLayout
from skdpsynth.preprocessing._table import (
    check_all_objects,
    check_size,
    check_values,
    count_infinite,
    lay_out,
    read_table,
)
from skdpsynth.privacy import LocalParts, Parts, Step
from skdpsynth.schema import is_object, type_of_objects
from skdpsynth.utils import withheld
from skdpsynth.utils.containers import from_arrow, index_of_pandas, speaks_arrow

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._layout import TableLayout
    from skdpsynth.schema import TableSchema

_BLOCK_ENTRIES = 2**21  # cells of a block
_READABLE = "The table must be one that can be read"


def open_table(
    X: object,
    y: object = None,
    *,
    target: Hashable = None,
    schema: TableSchema | None = None,
) -> tuple[pd.DataFrame | Parts, TableLayout]:
    """Check the structure of a table, and open it: see `read_table`.

    A table in memory comes back as a DataFrame, any other as DataFrames in parts. All
    of it is read once, to see that its columns are what was stated.
    """
    # A reader beside labels is brought into memory, as any table that speaks Arrow.
    if not is_source(X) or (y is not None and speaks_arrow(X)):
        return read_table(X, y, target=target, schema=schema)
    if y is not None:
        raise InvalidTableError(
            f"Expected the labels as a column of the table. Got y beside a"
            f" {type(X).__name__}, whose rows are not in memory; name the column by"
            " target."
        )
    empty, parts = _opened(X, schema)
    layout = lay_out(empty, target, schema)
    n_infinite, texts, booleans = parts.total(_checked, layout, schema)
    check_size(sum(parts.n_rows.values()), len(layout.feature_columns))
    check_values(layout, n_infinite)
    for column, both in zip(layout.columns, (texts > 0) & (booleans > 0), strict=True):
        if both:
            raise InvalidTableError(
                f"Expected objects of one type in column {column.name!r}. Got texts in"
                " one part of the table and booleans in another; cast it."
            )
    return parts, layout


def is_source(X: Any) -> bool:  # noqa: ANN401 - any container
    """Tell whether the rows of a table are yet to be read."""
    if isinstance(X, pd.DataFrame | np.ndarray):
        return False
    if isinstance(X, str | Path | CsvFile) or _is_dask(X):
        return True
    import pyarrow as pa
    from pyarrow import dataset

    if isinstance(X, dataset.Dataset | pa.RecordBatchReader | Iterator):
        return True
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(each, pa.RecordBatch) for each in X)
    in_memory = isinstance(X, Collection) or hasattr(X, "shape") or speaks_arrow(X)
    return isinstance(X, Iterable) and not in_memory


def _opened(X: Any, schema: TableSchema | None) -> tuple[pd.DataFrame, Parts]:  # noqa: ANN401
    """Give the columns of a source without a row, and its rows."""
    if _is_dask(X):
        from skdpsynth.preprocessing._dask import DaskParts

        return DaskParts.opened(X)
    if isinstance(X, str | Path):
        _check_path(Path(X))
    if isinstance(X, str | Path) and Path(X).suffix.lower() == ".csv":
        X = CsvFile(Path(X), {} if schema is None else schema.columns)
    if isinstance(X, str | Path):
        X = _Files(Path(X))
    if not hasattr(X, "to_batches"):
        X = _Stream(iter(X))
    to_frame = X.typed if isinstance(X, CsvFile) else from_arrow
    index = index_of_pandas(X.schema)
    names = [name for name in X.schema.names if name not in index]
    parts = LocalParts(
        partial(_blocks, X, names),
        (Step(to_frame, ()),),
        narrowed=partial(_blocks, X),
    )
    return to_frame(X.schema.empty_table().drop_columns(index)), parts


def _check_path(path: Path) -> None:
    there = False
    with suppress(OSError):  # a text that is no path at all
        there = path.exists()
    if not there:
        # The rows themselves, given as text, must not be in an error.
        named = len(str(path)) < 200 and "\n" not in str(path)
        shown = f"{str(path)!r}, which is not there" if named else "a text that is none"
        raise InvalidTableError(
            "Expected a table, or the path of a CSV file or of Parquet files. Got"
            f" {shown}; name a file or folder that is there."
        )


class _Files:
    """Parquet files of one folder, or one of them, read one after the other."""

    def __init__(self, path: Path) -> None:
        from pyarrow import dataset, parquet

        with withheld(f"{str(path)!r} must hold Parquet files and no others"):
            folder = path.is_dir()
            found = dataset.dataset(path, format="parquet").files if folder else [path]
            schemas = [_stated(parquet.read_schema(file)) for file in found]
        if not found:
            msg = f"Expected Parquet files in {str(path)!r}. Got none; name another."
            raise InvalidTableError(msg)
        self.schema, self._files = schemas[0], found
        for file, schema in zip(found, schemas, strict=True):
            if _types(schema) != _types(self.schema):
                raise InvalidTableError(
                    f"Expected the same columns and types in all files. Got others in"
                    f" {str(file)!r} than in {str(found[0])!r}; cast them."
                )

    def to_batches(self, batch_size: int, columns: list[str]) -> Iterator[Any]:
        """Read them; a dataset reads ahead, and with a buffer all of a file stays."""
        from pyarrow import parquet

        for name in self._files:
            with parquet.ParquetFile(name, pre_buffer=False) as file:
                yield from file.iter_batches(batch_size, columns=columns)


def _blocks(
    source: Any,  # noqa: ANN401 - no stubs
    names: Sequence[Hashable],
) -> Iterator[Any]:
    """Read a source in Arrow's tables of so many rows each, whatever is read.

    Where batches end depends on the columns: those with categories end with row groups.
    """
    import pyarrow as pa

    step = max(1, _BLOCK_ENTRIES // max(len(source.schema), 1))
    with withheld(_READABLE):
        held: list[Any] = []
        n_held, first = 0, True
        for batch in map(_widened, _batches(source, step, names)):
            held.append(batch)
            n_held += len(batch)
            while n_held >= step:
                table = pa.Table.from_batches(held)
                yield table[:step]
                held, n_held = table[step:].to_batches(), n_held - step
                first = False
        if n_held or first:
            empty = _stated(source.schema).empty_table()
            yield pa.Table.from_batches(held) if held else empty


def _batches(
    source: Any,  # noqa: ANN401 - no stubs
    step: int,
    names: Sequence[Hashable],
) -> Iterator[Any]:
    """Read a source in batches of at most so many rows, little in advance.

    A Dataset would bring each file's dictionaries into the type of index that the first
    file happens to have, and fail at one with more categories. So its files are read
    one by one then, each with the type of its own.
    """
    from pyarrow import dataset, types

    how: dict[str, Any] = {"batch_size": step, "columns": [*names]}
    if not isinstance(source, dataset.Dataset):
        yield from source.to_batches(**how)
        return
    how["batch_readahead"] = 1
    listed = [field.name for field in source.schema if types.is_dictionary(field.type)]
    if not listed:
        yield from source.to_batches(fragment_readahead=1, **how)
        return
    fragments = None
    with suppress(ValueError):
        fragments = source.get_fragments()
    if fragments is None:
        raise InvalidTableError(
            "Expected a Dataset without a filter or projection where columns are of a"
            f" dictionary type. Got one with the columns {listed!r} of that type; write"
            " its rows to a Parquet file, or cast these columns in its files."
        )
    for fragment in fragments:
        own, schema = fragment.physical_schema, source.schema
        for name in {*listed} & {*own.names}:
            schema = schema.set(schema.get_field_index(name), own.field(name))
        yield from fragment.to_batches(schema=schema, fragment_readahead=1, **how)


def _types(schema: Any) -> dict[str, Any]:  # noqa: ANN401 - no stubs
    return dict(zip(schema.names, schema.types, strict=True))


def _stated(schema: Any) -> Any:  # noqa: ANN401 - no stubs
    """Give all dictionaries of a schema the same type of index.

    How wide it is follows from how many categories the rows have: it is private.
    """
    import pyarrow as pa

    for place, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            kind = field.type
            wide = pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
            schema = schema.set(place, field.with_type(wide))
    return schema


def _widened(batch: Any) -> Any:  # noqa: ANN401 - no stubs
    """Give a batch the schema that `_stated` makes of its own."""
    import pyarrow as pa

    schema = _stated(batch.schema)
    if schema.equals(batch.schema):
        return batch
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        wide = column
        if column.type != field.type:
            wide = pa.DictionaryArray.from_arrays(
                column.indices.cast(pa.int32()),
                column.dictionary,
                ordered=field.type.ordered,
            )
        columns.append(wide)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _Stream:
    """Record batches that can be read once only, kept in a file without a name."""

    def __init__(self, batches: Iterator[Any]) -> None:
        import pyarrow as pa

        with withheld(_READABLE):
            first = next(batches, None)
        if not isinstance(first, pa.RecordBatch):
            raise InvalidTableError(
                "Expected a table, or an iterable of pyarrow's record batches. Got"
                f" one of {type(first).__name__}; make them by"
                " pyarrow.RecordBatch.from_pandas(frame)."
            )
        self.schema = _stated(first.schema)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self._file.close)
        with withheld(_READABLE), pa.ipc.new_stream(self._file, self.schema) as writer:
            for batch in chain([first], batches):
                batch = _widened(batch)
                if batch.schema != self.schema:
                    raise InvalidTableError(
                        "Expected record batches of one schema. Got several; cast them"
                        " by batch.cast(schema)."
                    )
                writer.write_batch(batch)

    def to_batches(self, **_: object) -> Iterator[Any]:
        """Read them again."""
        import pyarrow as pa

        self._file.seek(0)
        return iter(pa.ipc.open_stream(self._file))


def _checked(
    frame: pd.DataFrame, layout: TableLayout, schema: TableSchema | None
) -> NDArray[np.int64]:
    """Refuse other columns than expected; count what `open_table` looks at.

    By column: infinite values, and whether objects are texts, and whether booleans.
    """
    kinds = np.zeros((2, len(layout.columns)), dtype=np.int64)
    for place, column in enumerate(layout.columns):
        series = frame[column.name]
        own = ColumnLayout.of(column.name, series)
        texts = isinstance(own.dtype, pd.StringDtype)  # Dask names another of these
        texts = texts and isinstance(column.dtype, pd.StringDtype)
        if not texts and own.to_dict()["dtype"] != column.to_dict()["dtype"]:
            raise InvalidTableError(
                "Expected the same dtypes in all parts of the table. Got another than"
                f" {column.dtype} for column {column.name!r}; cast it, also the"
                " categories of a category dtype."
            )
        if is_object(own.dtype):
            held = type_of_objects(series)
            kinds[:, place] = held == "str", held == "bool"
    if schema is not None:
        check_all_objects(schema, frame)
    return np.vstack([count_infinite(frame, layout), kinds])


def _is_dask(X: object) -> bool:
    of_dask = type(X).__module__.partition(".")[0] in ("dask", "dask_expr")
    return of_dask and hasattr(X, "to_delayed") and hasattr(X, "dtypes")
