"""What metadata of SDV, the Synthetic Data Vault, say of the columns of a table.

Version 2 has ranges and categories (https://github.com/sdv-dev/SDV/issues/2952);
version 1 only the order of some categories.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema._columns import MOST_DECIMALS, Identifier
from skdpsynth.utils import DAMAGED

# Codes of `strftime` for what is finer than a day.
_TIME = re.compile("%[-#]?[HIMSfpcXTR]")


def columns_of_sdv(
    metadata: Any,  # noqa: ANN401 - of a library that is not imported
    table: str | None,
) -> list[tuple[str, dict[str, Any]]]:
    """Return the columns that metadata describe, as a file of a schema has them."""
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
    columns = []
    for name, own in data["columns"].items():
        try:
            columns.append((name, _column({**own}, is_key=name in keys)))
        except DAMAGED as error:
            words = str(error).splitlines()[0]
            raise InvalidSchemaError(
                f"Expected a description as SDV writes it of the column {name!r}. Got"
                f" another ({words}); correct it."
            ) from None
    return columns


def _column(own: dict[str, Any], *, is_key: bool) -> dict[str, Any]:
    """Return a column, with nulls where no range is known."""
    kind, nullable = own["sdtype"], {"nullable": own.get("range_is_nullable", True)}
    if is_key or kind == "id":
        with suppress(InvalidSchemaError):  # of another form than is made here
            regex = Identifier(regex=own.get("regex_format")).regex
            return {"kind": "identifier", "regex": regex}
        return {"kind": "identifier"}
    low: Any = own.get("range_min")
    high: Any = own.get("range_max")
    if None in (low, high):
        low = high = None
    if kind == "numerical":
        decimals: Any = own.get("decimal_places")
        whole = decimals == 0 or "Int" in own.get("computer_representation", "")
        whole = whole and (low is None or low % 1 == high % 1 == 0)
        if decimals is not None and decimals > MOST_DECIMALS:
            decimals = "any"
        digits = {"integer": True} if whole else {"decimals": decimals}
        return {"kind": "continuous", "low": low, "high": high, **nullable, **digits}
    if kind == "datetime":
        form = own.get("datetime_format")
        if low is not None:
            low, high = pd.to_datetime([low, high], format=form)
        unit = None if form is None or _TIME.search(form) else "D"
        said = {"low": low, "high": high, "unit": unit, "format": form}
        return {"kind": "datetime", **said, **nullable}
    values = own.get("range_values") or own.get("order")
    if kind == "boolean" or (values and {*map(type, values)} == {bool}):
        return {"kind": "boolean", **nullable}
    if kind in ("categorical", "ordinal") or not own.get("pii", True):
        ordered = kind == "ordinal" or "order" in own
        said = {"categories": values or None, "ordered": ordered}
        return {"kind": "categorical", **said, **nullable}
    return {"kind": "text"}
