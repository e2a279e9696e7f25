"""What metadata of SDV, the Synthetic Data Vault, say of the columns of a table.

Version 2 has ranges and categories (https://github.com/sdv-dev/SDV/issues/2952);
version 1 only the order of some categories.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import Any

import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema._columns import (
    MOST_DECIMALS,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    Text,
)
from skdpsynth.utils import DAMAGED

# Codes of `strftime` for what is finer than a day.
_TIME = re.compile("%[-#]?[HIMSfpcXTR]")


def columns_of_sdv(
    metadata: Any,  # noqa: ANN401 - of a library that is not imported
    table: str | None,
) -> tuple[dict[Hashable, Column], dict[Hashable, Column]]:
    """Return the columns that metadata describe, and those that they leave open."""
    data: Any = metadata.to_dict() if hasattr(metadata, "to_dict") else metadata
    if isinstance(data, Mapping) and isinstance(data.get("tables"), Mapping):
        names = [*data["tables"]]
        table = names[0] if table is None and len(names) == 1 else table
        if table not in names:
            raise InvalidSchemaError(
                f"Expected the name of one of the tables {names!r}. Got {table!r};"
                " choose one by 'table'."
            )
        data = data["tables"][table]
    if not isinstance(data, Mapping) or not isinstance(data.get("columns"), Mapping):
        raise InvalidSchemaError(
            "Expected Metadata of SDV, or what their to_dict returns, with 'tables' or"
            f" 'columns'. Got {type(metadata).__name__}; give the whole of them."
        )
    keys = [data.get("primary_key"), data.get("sequence_key")]
    keys += data.get("alternate_keys") or []
    keys += [name for key in keys if isinstance(key, list) for name in key]
    columns: dict[Hashable, Column] = {}
    blanks: dict[Hashable, Column] = {}
    for name, own in data["columns"].items():
        try:
            column, known = _column({**own}, is_key=name in keys)
        except DAMAGED as error:
            words = str(error).splitlines()[0]
            raise InvalidSchemaError(
                f"Expected a description as SDV writes it of the column {name!r}. Got"
                f" another ({words}); correct it."
            ) from None
        (columns if known else blanks)[name] = column
    return columns, blanks


def _column(own: dict[str, Any], *, is_key: bool) -> tuple[Column, bool]:
    """Return a column, and whether its range is known."""
    kind, nullable = own["sdtype"], own.get("range_is_nullable", True)
    ends: Any = own.get("range_min"), own.get("range_max")
    known = None not in ends
    if is_key or kind == "id":
        with suppress(InvalidSchemaError):  # of another form than is made here
            return Identifier(regex=own.get("regex_format")), True
        return Identifier(), True
    if kind == "numerical":
        low, high = ends if known else (0, 0)
        decimals: Any = own.get("decimal_places")
        whole = decimals == 0 or "Int" in own.get("computer_representation", "")
        if whole and low == int(low) and high == int(high):
            return Continuous(low, high, integer=True, nullable=nullable), known
        if decimals is not None and decimals > MOST_DECIMALS:
            decimals = "any"
        return Continuous(low, high, nullable=nullable, decimals=decimals), known
    if kind == "datetime":
        form = own.get("datetime_format")
        unit: Any = None if form is None or _TIME.search(form) else "D"
        low, high = pd.to_datetime([*ends], format=form) if known else ("1970",) * 2
        return Datetime(low, high, nullable=nullable, unit=unit, format=form), known
    values = own.get("range_values") or own.get("order") or []
    if kind == "boolean" or (values and {*map(type, values)} == {bool}):
        return Boolean(nullable=nullable), True
    if kind in ("categorical", "ordinal") or not own.get("pii", True):
        ordered, known = kind == "ordinal" or "order" in own, bool(values)
        options = {"ordered": ordered, "nullable": nullable or not known}
        return Categorical(values, **options), known
    return Text(), True
