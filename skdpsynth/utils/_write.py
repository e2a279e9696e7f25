"""Tables written to CSV and Parquet files batch by batch."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd


def write_batches(path: Path, batches: Iterable[pd.DataFrame]) -> None:
    """Write batches as one table, in the memory of one; CSV by its name, or Parquet.

    The file has its name once it is whole: an error on the way leaves none, and one
    that is there as it is.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        part = Path(folder) / path.name
        (_write_csv if path.suffix.lower() == ".csv" else _write_parquet)(part, batches)
        part.replace(path)


def _write_csv(path: Path, batches: Iterable[pd.DataFrame]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for place, batch in enumerate(batches):
            batch.to_csv(file, index=False, header=place == 0)


def _write_parquet(path: Path, batches: Iterable[pd.DataFrame]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    writer: Any = None
    with ExitStack() as opened:
        for batch in batches:
            table = pa.Table.from_pandas(batch, preserve_index=False)
            if writer is None:
                schema = _settled(table.schema)
                writer = opened.enter_context(parquet.ParquetWriter(path, schema))
            writer.write_table(table.cast(schema))


def _settled(schema: Any) -> Any:  # noqa: ANN401 - no stubs
    """Give types that every batch can have, as well as the first one."""
    import pyarrow as pa

    for place, field in enumerate(schema):
        if pa.types.is_null(field.type):  # of objects, all missing so far
            schema = schema.set(place, field.with_type(pa.string()))
        elif pa.types.is_dictionary(field.type):  # codes are as wide as is needed
            kind = pa.dictionary(pa.int32(), field.type.value_type, field.type.ordered)
            schema = schema.set(place, field.with_type(kind))
    return schema
