"""Parquet files as tables: columns have the dtypes that pandas noted in the file.

Files of other libraries have Arrow's: that a value is missing must choose no dtype.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa
from pyarrow import dataset, parquet

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.schema import Column, column_kind
from skdpsynth.table.csv_files import CsvFile, check_dropped
from skdpsynth.utils import withheld
from skdpsynth.utils.containers import from_arrow, index_of_pandas, widened
from skdpsynth.utils.dtypes import is_object, kind_of_dtype

__all__ = ["ParquetFiles"]

# A column that is in the names of folders alone holds texts, whatever these look like.
_OF_FOLDERS = pa.dictionary(pa.int32(), pa.large_string())
_GAP = "__HIVE_DEFAULT_PARTITION__"  # a missing value there


class ParquetFiles:
    """Parquet files of one folder, or one of them, read one after the other."""

    def __init__(
        self,
        path: Path,
        columns: Mapping[Hashable, Column] | None = None,
        dropped: Sequence[Hashable] = (),
    ) -> None:
        """Look at the columns of all files; those of folders are read as stated."""
        self._path, self._columns = path, columns or {}
        with withheld(f"{str(path)!r} must hold Parquet files and no others"):
            self._files = _found(path) if path.is_dir() else {str(path): {}}
            read = [widened(parquet.read_schema(file)) for file in self._files]
        if not read:
            msg = f"Expected Parquet files in {str(path)!r}. Got none; name another."
            raise InvalidTableError(msg)
        kinds = [
            dict.fromkeys(keys, _OF_FOLDERS)
            | dict(zip(own.names, own.types, strict=True))
            for keys, own in zip(self._files.values(), read, strict=True)
        ]
        for file, own in zip(self._files, kinds, strict=True):
            if own != kinds[0]:
                raise InvalidTableError(
                    f"Expected the same columns and types in all files. Got others in"
                    f" {file!r} than in {next(iter(self._files))!r}; cast them."
                )
        self._stored, index = read[0].names, index_of_pandas(read[0])
        names = [name for name in self._stored if name not in index]
        names += [name for name in kinds[0] if name not in self._stored]
        check_dropped(path, dropped, names)
        kept = [name for name in names if name not in dropped]
        self.schema = pa.schema([(name, kinds[0][name]) for name in kept])
        self._dtypes = _noted_dtypes(read[0], [n for n in kept if n in self._stored])

    def to_batches(
        self, batch_size: int = 2**16, columns: Sequence[str] | None = None
    ) -> Iterator[Any]:
        """Read them; a dataset reads ahead, and with a buffer all of a file stays."""
        names = self.schema.names if columns is None else columns
        stored = [name for name in names if name in self._stored] or self._stored[:1]
        for name, keys in self._files.items():
            with parquet.ParquetFile(name, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size, columns=stored):
                    cells = dict(zip(stored, batch.columns, strict=True))
                    for key in {*names}.difference(self._stored):
                        text = pa.scalar(keys[key], pa.large_string())
                        cells[key] = pa.repeat(text, len(batch)).dictionary_encode()
                    yield pa.RecordBatch.from_pydict({own: cells[own] for own in names})

    def typed(self, table: Any) -> pd.DataFrame:  # noqa: ANN401 - no stubs
        """Return a table of Arrow with the dtypes that pandas, or a schema, says."""
        frame: pd.DataFrame = from_arrow(table)
        for name in frame:
            dtype = self._dtypes.get(name)
            what = f"{str(self._path)!r} must hold a column {name!r} of the dtype that"
            with withheld(f"{what} is noted in it"):
                if name not in self._stored and name in self._columns:
                    cells = pa.table({name: table[name].cast(pa.large_string())})
                    frame[name] = CsvFile(self._path, self._columns).typed(cells)[name]
                elif isinstance(dtype, pd.CategoricalDtype):
                    inner = dtype.categories.dtype
                    inner = str if is_object(inner) else inner  # of an empty table
                    listed = frame[name].cat.categories.astype(inner)
                    frame[name] = frame[name].cat.rename_categories(listed)
                elif dtype is not None:
                    frame[name] = frame[name].astype(dtype)
        return frame

    def read(self, rows: int | None = None) -> pd.DataFrame:
        """Read all rows, or none."""
        batches = [] if rows == 0 else self.to_batches()
        tables = (batch.cast(widened(batch.schema)) for batch in batches)
        return self.typed(pa.Table.from_batches(tables, self.schema))


def _found(path: Path) -> dict[str, dict[str, str | None]]:
    """Return the files of a folder, and what the names of their folders say."""
    found = {}
    for file in dataset.dataset(path, format="parquet").files:
        parts = (p.partition("=") for p in Path(file).relative_to(path).parent.parts)
        keys = {name: unquote(key) for name, mark, key in parts if mark}
        found[file] = {n: None if key == _GAP else key for n, key in keys.items()}
    return found


def _noted_dtypes(schema: Any, names: Sequence[str]) -> dict[Hashable, Any]:  # noqa: ANN401
    """Return the dtypes that pandas noted in a file, where its types are as these."""
    if len({*names}) < len(names):  # which is refused
        return {}
    noted = (schema.pandas_metadata or {}).get("columns", [])
    name_of = {own["field_name"]: own["numpy_type"] for own in noted}
    empty = schema.empty_table().select(names)
    pairs = zip(from_arrow(empty).items(), empty.to_pandas().dtypes, strict=True)
    return {
        name: dtype
        for (name, stored), dtype in pairs
        # Of objects it noted no more than that: they may be whole numbers, and missing.
        if (str(dtype) == name_of.get(name) or dtype.kind not in "iub")
        and name in name_of
        and (kind_of_dtype(dtype) or [""])[0] == column_kind(name, stored)[0]
    }
