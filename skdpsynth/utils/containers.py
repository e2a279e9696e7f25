"""Tables of other libraries, by way of Arrow's PyCapsule interface, and of files.

pandas holds what comes in Arrow's own types: no value is converted on the way in, so
none is rounded or shown by an error. Metadata stay behind, since they may hold what is
private: pandas' the number of rows, polars' the categories of an Enum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from skdpsynth.exceptions import InvalidTableError, MissingDependencyError
from skdpsynth.utils._files import is_csv, whole_file, withheld
from skdpsynth.utils._numbers import check_range
from skdpsynth.utils.dtypes import kind_of_dtype, unsupported

_PANDAS = (pd.DataFrame, pd.Series, pd.Index, pd.api.extensions.ExtensionArray)
_LAZY = {"__dask_graph__": "compute", "collect_schema": "collect"}


def speaks_arrow(data: object) -> bool:
    """Return whether data come through Arrow; those of pandas do not need to."""
    names = ("__arrow_c_stream__", "__arrow_c_array__")
    return not isinstance(data, _PANDAS) and any(hasattr(data, n) for n in names)


def from_arrow(data: Any) -> Any:  # noqa: ANN401 - any container
    """Return a table that speaks Arrow as a DataFrame, a column as a Series.

    Anything else comes back as it is. InvalidTableError for rows that are not in memory
    and for a type that no synthesizer models.
    """
    if not speaks_arrow(data):
        for mark, remedy in _LAZY.items():
            if hasattr(data, mark) and not isinstance(data, _PANDAS):
                raise InvalidTableError(
                    f"Expected a table in memory. Got {type(data).__name__} of"
                    f" {type(data).__module__.partition('.')[0]}, whose rows are yet to"
                    f" be computed; do so by .{remedy}()."
                )
        return data
    values = pa.chunked_array(data)  # of a table: structs
    is_table, names = pa.types.is_struct(values.type), [getattr(data, "name", "")]
    columns = values.flatten() if is_table else [values]
    if is_table:
        names = [field.name for field in values.type]
    arrays = map(_array, names, columns)
    frame = pd.DataFrame(dict(enumerate(arrays))).set_axis(names, axis=1)
    return frame if is_table else frame.iloc[:, 0].rename(names[0] or None)


def as_frame(data: Any) -> pd.DataFrame:  # noqa: ANN401 - any container
    """Return a table in memory as a DataFrame with distinct names on one level."""
    df = from_arrow(data)
    if not isinstance(df, pd.DataFrame):
        raise InvalidTableError(f"Expected a DataFrame. Got {type(df).__name__}.")
    if isinstance(df.columns, pd.MultiIndex):
        raise InvalidTableError(
            "Column names on several levels are not supported. Flatten them first, for"
            " example by df.columns = df.columns.to_flat_index()."
        )
    if not df.columns.is_unique:
        names = df.columns[df.columns.duplicated()].unique().tolist()
        raise InvalidTableError(
            f"Column names must be distinct. Got {names!r} more than once; rename or"
            " drop the duplicates."
        )
    return df


def index_of_pandas(schema: Any) -> list[str]:  # noqa: ANN401 - no stubs
    """Return the columns, by a schema of pyarrow, that pandas stored as an index."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in stored if isinstance(name, str) and name in schema.names]


def native(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table in this machine's order of bytes: Arrow, and `take`, know one."""
    swapped = {
        place: dtype.newbyteorder("=")
        for place, dtype in enumerate(frame.dtypes)
        if isinstance(dtype, np.dtype) and not dtype.isnative
    }
    if not swapped:
        return frame
    # By place: pandas does not find every name.
    numbered = frame.set_axis(range(frame.shape[1]), axis=1)
    return numbered.astype(swapped).set_axis(frame.columns, axis=1)


def dtypes_of(schema: Any) -> Any:  # noqa: ANN401 - any container
    """Return a schema of pyarrow or polars as pandas' names and dtypes."""
    if hasattr(schema, "empty_table"):
        frame = from_arrow(schema.empty_table())
    elif _is_of_polars(schema):
        frame = from_arrow(_import_polars().DataFrame(schema=schema))
    else:
        return schema
    # Categories of no row are not known, which "category" says.
    listed = [isinstance(dtype, pd.CategoricalDtype) for dtype in frame.dtypes]
    return frame.dtypes.mask(listed, "category")


def container_of(data: object) -> str:
    """Return the library of a table, as `converter` names it; else pandas."""
    if _is_of_polars(data):
        return "polars"
    library = type(data).__module__.partition(".")[0], type(data).__name__
    return "arrow" if library == ("pyarrow", "Table") else "pandas"


def converter(output: str) -> Callable[[pd.DataFrame], Any]:
    """Return what turns a DataFrame into a table of a library; refuse other names."""
    known = {"pandas": lambda frame: frame, "arrow": _to_arrow, "polars": _to_polars}
    check_range("output", output, output in [*known], f"one of {[*known]}")
    if output == "polars":
        _import_polars()
    return known[output]


def arrow_like(values: pd.DataFrame | pd.Series, data: Any) -> Any:  # noqa: ANN401
    """Return a table, or a column, as what `data` is: of polars, or else pyarrow's."""
    convert = _to_polars if _is_of_polars(data) else _to_arrow
    if isinstance(values, pd.DataFrame):
        return convert(values)
    if hasattr(data, "schema") or hasattr(data, "columns"):  # a table of one column
        return convert(values.to_frame())
    name = getattr(data, "name", "")
    column = convert(values.to_frame(name))[name]
    return column.combine_chunks() if hasattr(data, "__arrow_c_array__") else column


def _is_of_polars(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "polars"


def _import_polars() -> Any:  # noqa: ANN401 - no dependency
    try:
        import polars
    except ImportError as error:
        raise MissingDependencyError(
            "Expected the module polars for output='polars', but it is not installed."
            " Install it by `pip install polars`, or ask for 'pandas' or 'arrow'."
        ) from error
    return polars


def _array(name: str, values: Any) -> Any:  # noqa: ANN401 - no stubs
    """Return a column as an array of pandas, or refuse its type.

    The dtype is a function of the type alone, and the categories of a dictionary occur.
    """
    kind = values.type
    listed = pa.types.is_dictionary(kind)
    inner = kind.value_type if listed else kind
    if pa.types.is_string_view(inner):
        inner = pa.large_string()
    modelled = (kind_of_dtype(pd.ArrowDtype(inner)) or ("",))[0]
    if modelled in ("", *("continuous", "timedelta") * listed):
        raise unsupported(name, pd.ArrowDtype(kind))
    if listed or inner != kind:
        inner = pa.large_string() if modelled == "categorical" else inner
        values = pa.chunked_array([_plain(c, inner) for c in values.chunks], inner)
    if not listed:
        return pd.arrays.ArrowExtensionArray(values)
    encoded = values.combine_chunks().dictionary_encode()
    categories = pd.Index(pd.arrays.ArrowExtensionArray(encoded.dictionary))
    codes = encoded.indices.fill_null(-1).to_numpy()
    with withheld("Dates in a dictionary must be of the years 1 to 9999"):
        return pd.Categorical.from_codes(codes, categories, ordered=kind.ordered)


def _plain(array: Any, kind: Any) -> Any:  # noqa: ANN401 - no stubs
    """Return values in the place of a dictionary or of views of text."""
    if pa.types.is_dictionary(array.type):
        return _plain(array.dictionary, kind).take(array.indices)
    # Older versions of pyarrow have no cast of views.
    views = pa.types.is_string_view(array.type)
    return pa.array(array.to_pylist(), kind) if views else array.cast(kind)


def _to_arrow(frame: pd.DataFrame) -> Any:  # noqa: ANN401 - no stubs
    """Return a DataFrame as a pyarrow Table without metadata; names become text."""
    table = pa.Table.from_pandas(native(frame), preserve_index=False)
    return table.cast(_stored(table.schema)).replace_schema_metadata()


def _to_polars(frame: pd.DataFrame) -> Any:  # noqa: ANN401 - no dependency
    """Return a DataFrame of polars; ordered categories of text are an Enum there."""
    polars = _import_polars()
    ordered = {
        str(name): polars.Enum(frame[name].cat.categories.tolist())
        for name, dtype in frame.dtypes.items()
        if getattr(dtype, "ordered", False)
        and all(isinstance(category, str) for category in dtype.categories)
    }
    return polars.from_arrow(_to_arrow(frame)).cast(ordered)


def write_batches(path: Path, batches: Iterable[pd.DataFrame], **how: Any) -> None:  # noqa: ANN401 - of `write_csv`
    """Write batches as one table, in the memory of one; CSV by its name, or Parquet.

    The file has its name once it is whole; an error leaves none.
    """
    with whole_file(path) as part:
        if is_csv(path):
            write_csv(part, batches, **how)
        else:
            from pyarrow import parquet

            tables = (
                pa.Table.from_pandas(batch, preserve_index=False) for batch in batches
            )
            first = next(tables)
            schema = _stored(first.schema)
            with parquet.ParquetWriter(part, schema) as writer:
                for table in chain([first], tables):
                    writer.write_table(table.cast(schema))


def write_csv(file: Any, batches: Iterable[pd.DataFrame], **how: Any) -> None:  # noqa: ANN401
    """Write batches as one CSV file, which may be open, in the ways of `to_csv`."""
    for place, batch in enumerate(batches):
        batch.to_csv(file, mode="a", index=False, header=place == 0, **how)


def _stored(schema: Any) -> Any:  # noqa: ANN401 - no stubs
    """Return a schema whose columns without a value, so far, are of text."""
    for place, field in enumerate(schema):
        if pa.types.is_null(getattr(field.type, "value_type", field.type)):
            schema = schema.set(place, field.with_type(pa.large_string()))
    return widened(schema)


def widened(schema: Any) -> Any:  # noqa: ANN401 - no stubs
    """Return a schema of pyarrow whose dictionaries have one type of index."""
    # How wide it is follows from how many categories the rows have: it is private.
    for place, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            kind = pa.dictionary(pa.int32(), field.type.value_type, field.type.ordered)
            schema = schema.set(place, field.with_type(kind))
    return schema
