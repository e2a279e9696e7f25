"""CSV files as tables: columns have the dtypes that a schema states."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema._columns import family
from skdpsynth.utils._withheld import withheld

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping
    from pathlib import Path

_HOLDS = {"continuous": "number", "boolean": "bool", "datetime": "Timestamp"}


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
    with withheld(f"{str(path)!r} must be a table that can be read"):
        table = pd.read_csv(path, nrows=rows, **_how(columns))
    _refuse_unknown([] if infer else table.columns, columns, path, remedy)
    return _typed_table(table, columns, path, unchecked=unchecked)


@dataclass(frozen=True)
class CsvFile:
    """A CSV file whose columns are all stated, to be read block by block."""

    path: Path
    columns: Mapping[Hashable, Any]
    remedy: str = "describe all of them"

    def empty(self) -> pd.DataFrame:
        """Give the columns without a row."""
        return read_csv(self.path, self.columns, rows=0, remedy=self.remedy)

    def blocks(self, n_rows: int) -> Iterator[pd.DataFrame]:
        """Read so many rows at a time."""
        with (
            withheld(f"{str(self.path)!r} must be a table that can be read"),
            pd.read_csv(self.path, chunksize=n_rows, **_how(self.columns)) as blocks,
        ):
            for block in blocks:
                yield _typed_table(block, self.columns, self.path)


def _how(columns: Mapping[Hashable, Any]) -> dict[str, Any]:
    stated = {name: str for name in columns if type(name) is str}
    # Else one row with a field too many would make the first column an index.
    return {"dtype": stated, "low_memory": False, "index_col": False}


def _refuse_unknown(
    found: Any,  # noqa: ANN401 - names
    columns: Mapping[Hashable, Any],
    path: Path,
    remedy: str,
) -> None:
    unknown = [name for name in found if name not in columns]
    if unknown:
        raise InvalidSchemaError(
            f"Expected a schema that states the kinds of all columns of {str(path)!r}."
            f" Got none for {unknown!r}, whose dtypes would be found by looking at"
            f" their values; {remedy}."
        )


def _typed_table(
    table: pd.DataFrame,
    columns: Mapping[Hashable, Any],
    path: Path,
    *,
    unchecked: bool = False,
) -> pd.DataFrame:
    for name in table.columns.intersection([n for n in columns if type(n) is str]):
        kind = columns[name].tag
        rule = f"{name!r} of {str(path)!r} must be {kind}, as the schema says"
        with suppress(Exception) if unchecked else withheld(rule):
            table[name] = _typed(table[name], columns[name], rounded=not unchecked)
    return table


def _typed(text: pd.Series, column: Any, *, rounded: bool) -> pd.Series:  # noqa: ANN401
    """Read a column of a CSV file as what the schema says."""
    levels = getattr(column, "categories", ())
    holds = family(levels[0]) if levels else _HOLDS.get(column.tag)
    if holds == "bool":
        truth = text.astype("string").str.lower().map({"true": True, "false": False})
        if truth.isna().sum() > text.isna().sum():
            raise ValueError("neither true nor false")
        return truth.astype("boolean")
    if holds == "Timestamp":
        zone = getattr(getattr(column, "low", *levels[:1]), "tzinfo", None)
        moments = pd.to_datetime(text, format="ISO8601", utc=zone is not None)
        moments = moments.dt.as_unit("us")  # pandas would choose by the values
        return moments if zone is None else moments.dt.tz_convert(zone)
    if holds == "number":
        numbers = pd.to_numeric(text)
        if not getattr(column, "integer", all(level % 1 == 0 for level in levels)):
            return numbers.astype("float64")
        return numbers.round().astype("Int64") if rounded else numbers
    return text
