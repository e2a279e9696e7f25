"""CSV files as tables: columns have the dtypes that a schema states."""

from __future__ import annotations

import csv
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.preprocessing._cells import MISSING_TEXTS, texts, typed_cells
from skdpsynth.utils import withheld

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence
    from pathlib import Path

_BLOCK_BYTES = 2**24  # of the file, read at a time
# Bytes of a row's cells. Quotes at most double them, so that a row never is longer than
# a block: where blocks begin must not decide whether a row can be read.
_MOST_BYTES = 2**22
_SEPARATORS = b"\n\r,"


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
            `_MOST_BYTES`, or if quotes are not around whole cells.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import csv as arrow_csv

        self._check_quotes()
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

    def cells(self, columns: Sequence[Hashable], rows: int | None = None) -> Any:  # noqa: ANN401
        """Read some columns as texts, as a table of Arrow; all rows, or the first."""
        import pyarrow as pa

        kinds = pa.schema([(name, pa.large_string()) for name in columns])
        batches = [] if rows == 0 else self.to_batches(columns)
        return pa.Table.from_batches(batches, kinds).slice(0, rows)

    def _check_quotes(self) -> None:
        """Refuse a quote that is neither around a cell nor doubled within it.

        A quote that does not end makes one cell of all rows up to the next one, without
        a word of Arrow's. A row that is written well has an even number of quotes, each
        one that opens a cell behind a separator, and each one that closes it before
        one. So a row of other quotes is refused whatever rows there are beside it.
        """
        inside, before = False, _SEPARATORS[:1]
        rule = f"{str(self.path)!r} must be a table that can be read"
        sound = True
        with withheld(rule), self.path.open("rb") as file:
            block = file.read(_BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf")
            while block and sound:
                following = file.read(_BLOCK_BYTES)
                if b'"' in block:
                    after = following[:1] or _SEPARATORS[:1]
                    inside, sound = _quotes(before + block + after, inside)
                before, block = block[-1:], following
        if inside or not sound:
            raise InvalidTableError(
                f"Expected quotes around whole cells in {str(self.path)!r}, and doubled"
                " within them. Got another one; write the file anew, for example by"
                " pandas' to_csv."
            )

    def typed(self, table: Any) -> pd.DataFrame:  # noqa: ANN401 - no stubs
        """Read texts, a table of Arrow, as what the schema says."""
        made = {}
        for name in table.column_names:
            made[name] = typed_column(table[name], name, self.columns[name], self.path)
        return pd.DataFrame(made, columns=table.column_names)


def _quotes(text: bytes, inside: bool) -> tuple[bool, bool]:
    """Say whether a text ends inside of quotes, and whether all of them are sound.

    Its first and last bytes are of what is before and after it.
    """
    found = np.frombuffer(text, np.uint8)
    places = np.flatnonzero(found[1:-1] == ord('"')) + 1
    opens = (np.arange(len(places)) % 2 == 0) ^ inside
    # Beside a quote there may be another one: a doubled quote closes and opens.
    neighbours = found[np.where(opens, places - 1, places + 1)]
    sound = np.isin(neighbours, [*_SEPARATORS, ord('"')]).all()
    return inside ^ bool(len(places) % 2), bool(sound)


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
    file = CsvFile(path, columns, remedy)
    if not infer:
        _ = file.schema
    stated = [name for name in file.names if name in columns]
    others = [name for name in file.names if name not in columns]
    # Also where pandas reads all columns: of a file with a row of other cells it may
    # leave out cells of all rows.
    cells = file.cells(stated or others[:1], rows)
    found: dict[Hashable, pd.Series] = {}
    if others:
        with withheld(f"{str(path)!r} must be a table that can be read"):
            table = pd.read_csv(path, usecols=others, nrows=rows, low_memory=False)
        found = dict(table.items())
    for name in stated:
        found[name] = texts(cells[name])
        with suppress(*[InvalidTableError] * unchecked):
            found[name] = typed_column(
                cells[name], name, columns[name], path, rounded=not unchecked
            )
    return pd.DataFrame(found, columns=file.names)
