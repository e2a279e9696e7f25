"""Rows of an odd table in every container that a synthesizer takes."""

from __future__ import annotations

import csv
import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from skdpsynth.audit._odd_tables import OddTable

    Rows = Sequence[tuple[Any, ...]]

_N_FILES = 2
_N_PARTITIONS = 3
_ROWS_OF_A_BATCH = 7
_NEEDS = {"polars": "polars", "dask": "dask.dataframe"}


def missing_library(source: str) -> str | None:
    """Name what is not installed and needed for a source; None if nothing is."""
    needed = _NEEDS.get(source)
    if needed is None or find_spec(needed.partition(".")[0]) is not None:
        return None
    return needed.partition(".")[0]


def contained(source: str, table: OddTable, rows: Rows, folder: Path) -> Any:  # noqa: ANN401
    """Give rows as a source; files are written to the folder, over those of before."""
    return _MAKERS[source](table, rows, folder)


def _pandas(table: OddTable, rows: Rows, folder: Path) -> Any:  # noqa: ANN401
    del folder
    return table.frame(rows)


def _arrow(table: OddTable, rows: Rows, folder: Path) -> Any:  # noqa: ANN401
    """Make an Arrow table whose types follow from dtypes alone."""
    import pyarrow as pa

    del folder
    frame = table.frame(rows)
    arrays = {}
    for name, series in frame.items():
        kind = pa.string() if series.dtype == object else None
        arrays[name] = pa.array(series, type=kind, from_pandas=True)
    return pa.table(arrays)


def _polars(table: OddTable, rows: Rows, folder: Path) -> Any:  # noqa: ANN401
    import polars as pl

    return pl.from_arrow(_arrow(table, rows, folder))


def _csv(table: OddTable, rows: Rows, folder: Path) -> Any:  # noqa: ANN401
    path = folder / "table.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.dtypes)
        writer.writerows([_written(cell) for cell in row] for row in rows)
    return path


def _written(cell: Any) -> Any:  # noqa: ANN401 - a cell
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    return cell.isoformat() if hasattr(cell, "isoformat") else cell


def _parquet(table: OddTable, rows: Rows, folder: Path) -> Any:  # noqa: ANN401
    from pyarrow import parquet

    path = folder / "table.parquet"
    parquet.write_table(_arrow(table, rows, folder), path)
    return path


def _folder(table: OddTable, rows: Rows, folder: Path) -> Any:  # noqa: ANN401
    from pyarrow import parquet

    path = folder / "files"
    path.mkdir(exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(len(rows)), _N_FILES)):
        own = [rows[place] for place in part]
        parquet.write_table(_arrow(table, own, folder), path / f"{number}.parquet")
    return path


def _batches(table: OddTable, rows: Rows, folder: Path) -> Any:  # noqa: ANN401
    return _arrow(table, rows, folder).to_batches(max_chunksize=_ROWS_OF_A_BATCH)


def _dask(table: OddTable, rows: Rows, folder: Path) -> Any:  # noqa: ANN401
    import dask.dataframe as dd

    del folder
    frame = table.frame(rows)
    return dd.from_pandas(frame, npartitions=_N_PARTITIONS, sort=False)


_MAKERS: dict[str, Callable[..., Any]] = {
    "pandas": _pandas,
    "polars": _polars,
    "arrow": _arrow,
    "csv": _csv,
    "parquet": _parquet,
    "folder": _folder,
    "batches": _batches,
    "dask": _dask,
}


def table_of_frame(frame: pd.DataFrame, name: str) -> dict[str, Any]:
    """Take a user's table apart: dtypes, rows, and a row of what is extreme in it."""
    columns = [[*frame[column]] for column in frame]
    rows = tuple(zip(*columns, strict=True))
    extra = tuple(_extreme(frame[column]) for column in frame)
    return {
        "name": name,
        "dtypes": dict(frame.dtypes),
        "rows": rows,
        "extra": extra,
    }


def _extreme(series: pd.Series) -> Any:  # noqa: ANN401 - a cell
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(dtype):
        return series.iloc[-1]
    if pd.api.types.is_integer_dtype(dtype):
        return np.iinfo(getattr(dtype, "numpy_dtype", dtype)).max
    if pd.api.types.is_float_dtype(dtype):
        return float(np.finfo(getattr(dtype, "numpy_dtype", dtype)).max)
    if str(dtype) == "object" or isinstance(dtype, pd.StringDtype):
        return "a text that no other row has"
    return series.max()
