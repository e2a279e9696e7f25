"""CSV files as tables: columns have the dtypes that a schema states."""

from __future__ import annotations

import csv
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.preprocessing._cells import MISSING_TEXTS, is_value, typed_cells
from skdpsynth.utils._withheld import withheld

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence
    from pathlib import Path

_BLOCK_BYTES = 2**24  # of the file, read at a time
# Bytes of a row's cells. Quotes at most double them, so that a row never is longer than
# a block: where blocks begin must not decide whether a row can be read.
_MOST_BYTES = 2**22


@dataclass(frozen=True)
class CsvFile:
    """A CSV file whose columns are all stated, to be read block by block.

    Every cell is read as text, and each becomes a typed value by itself.
    """

    path: Path
    columns: Mapping[Hashable, Any]
    remedy: str = "describe all of them"

    @property
    def names(self) -> list[str]:
        """Of the columns; one without a name has the one that pandas gives it."""
        return self._header[0]

    @cached_property
    def schema(self) -> Any:  # noqa: ANN401 - no stubs
        """The columns as Arrow sees them: of texts. Refuses those that nobody stated.

        Raises
        ------
        InvalidSchemaError
            If a column is not stated.
        """
        import pyarrow as pa

        names = self.names
        unknown = [name for name in names if name not in self.columns]
        if unknown:
            raise InvalidSchemaError(
                f"Expected a schema that states the kinds of all columns of"
                f" {str(self.path)!r}. Got none for {unknown!r}, whose dtypes would be"
                f" found by looking at their values; {self.remedy}."
            )
        return pa.schema([(name, pa.large_string()) for name in names])

    @cached_property
    def _header(self) -> tuple[list[str], int]:
        """The names, and how many lines of the file are not rows."""
        names: list[str] = []
        n_lines = 0
        rule = f"{str(self.path)!r} must be a table that can be read"
        with (
            withheld(rule),
            self.path.open(newline="", encoding="utf-8-sig") as file,
        ):
            for names in csv.reader(file):
                n_lines += 1
                if names:
                    break
        if not names:
            raise InvalidTableError(
                "Expected a line with the names of columns in"
                f" {str(self.path)!r}. Got none; name another file."
            )
        if not self.columns.keys() & set(names) and any(map(is_value, names)):
            raise InvalidTableError(
                "Expected a line with the names of columns in"
                f" {str(self.path)!r}. Some of those in the first line are numbers or"
                " times, so that it may be a row: add a line of names, or describe the"
                " columns in a schema if these are their names."
            )
        names = [name or f"Unnamed: {place}" for place, name in enumerate(names)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidTableError(
                f"Column names must be distinct. Got {twice!r} more than once in"
                f" {str(self.path)!r}; rename or drop the duplicates."
            )
        return names, n_lines

    def to_batches(self, columns: Sequence[Hashable], **_: object) -> Iterator[Any]:
        """Read some columns as texts, in blocks.

        Raises
        ------
        InvalidTableError
            If a row has more or fewer cells than there are columns, or is longer than
            `_MOST_BYTES`.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import csv as arrow_csv

        names, n_lines = self._header
        others: list[int] = []  # numbers of cells that a row must not have

        def skip(row: Any) -> str:  # noqa: ANN401 - no stubs
            others.append(row.actual_columns)
            return "skip"  # an error of Arrow's would have the row in it

        rule = f"{str(self.path)!r} must be a table that can be read"
        with (
            withheld(rule),
            arrow_csv.open_csv(
                self.path,
                arrow_csv.ReadOptions(
                    column_names=names,
                    skip_rows_after_names=n_lines,
                    block_size=_BLOCK_BYTES,
                ),
                arrow_csv.ParseOptions(
                    newlines_in_values=True, invalid_row_handler=skip
                ),
                arrow_csv.ConvertOptions(
                    column_types={name: pa.large_string() for name in names},
                    include_columns=[*columns],
                    strings_can_be_null=True,
                    null_values=MISSING_TEXTS,
                ),
            ) as batches,
        ):
            for batch in batches:
                if others:
                    break
                n_bytes = 0
                for cells in batch.columns:
                    n_bytes = pc.add(n_bytes, pc.fill_null(pc.binary_length(cells), 0))
                if (pc.max(n_bytes).as_py() or 0) > _MOST_BYTES:
                    raise InvalidTableError(
                        f"Expected rows of up to {_MOST_BYTES:,} bytes in"
                        f" {str(self.path)!r}. Got a longer one; shorten or drop it, or"
                        " close the quote that a cell begins with."
                    )
                yield batch
        if others:
            raise InvalidTableError(
                f"Expected {len(names)} cells in every row of {str(self.path)!r}, one"
                f" for each column. Got a row of {others[0]}; quote cells that hold a"
                " comma, a quote or a line break, and fill up short rows."
            )

    def typed(self, table: Any) -> pd.DataFrame:  # noqa: ANN401 - no stubs
        """Read texts, a table of Arrow, as what the schema says."""
        made = {}
        for name in table.column_names:
            made[name] = typed_column(table[name], name, self.columns[name], self.path)
        return pd.DataFrame(made, columns=table.column_names)


def typed_column(
    cells: Any,  # noqa: ANN401 - no stubs
    name: Hashable,
    column: Any,  # noqa: ANN401 - a Column, or what a template states of one
    path: Path,
    **how: bool,
) -> pd.Series:
    """Read the cells of a column as `typed_cells` does; name it where one cannot be."""
    # pyarrow's errors are of this kind, too. Raised after it, ours has no context.
    with suppress(ValueError):
        return typed_cells(cells, column, **how)
    raise InvalidTableError(
        f"{name!r} of {str(path)!r} must be {column.tag}, as the schema says. Got a"
        " cell that is none; correct the cell, or describe the column as Categorical"
        " texts."
    )


def read_csv(
    path: Path,
    columns: Mapping[Hashable, Any],
    *,
    rows: int | None = None,
    infer: bool = False,
    unchecked: bool = False,
    remedy: str = "describe all of them",
) -> pd.DataFrame:
    """Read a CSV file whose columns have the dtypes that are stated.

    Whether numbers declared as whole are so is a question about values: they are
    rounded. In an unchecked table they are not, and what cannot be read stays text.
    Dtypes that nobody states are found by looking at values, if `infer`.
    """
    import pyarrow as pa

    file = CsvFile(path, columns, remedy)
    if not infer:
        _ = file.schema
    if rows is None:
        # With a row of other cells pandas may leave out cells of all rows, or read the
        # first column as an index.
        for _ in file.to_batches(file.names[:1]):
            pass
    stated = {name: str for name in columns if type(name) is str}
    with withheld(f"{str(path)!r} must be a table that can be read"):
        table = pd.read_csv(
            path, nrows=rows, dtype=stated, low_memory=False, index_col=False
        )
    for name in table.columns.intersection([*stated]):
        cells = pa.array(table[name], pa.large_string(), from_pandas=True)
        with suppress(*[InvalidTableError] * unchecked):
            table[name] = typed_column(
                cells, name, columns[name], path, rounded=not unchecked
            )
    return table
