"""What a table tells: its dtypes for a template; its values, where it is public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.schema._columns import (
    EXACT,
    KINDS,
    MOST_BOUGHT,
    SECONDS_OF,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Unit,
)
from skdpsynth.schema._dtypes import (
    as_moments,
    column_kind,
    float_info,
    is_missing,
    is_object,
    known_kind,
    type_of_objects,
)
from skdpsynth.schema._values import decimals_of, plain

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping


def check_frame(df: object) -> None:
    """Refuse what is no DataFrame with distinct column names on one level."""
    if not isinstance(df, pd.DataFrame):
        raise InvalidTableError(f"Expected a DataFrame. Got {type(df).__name__}.")
    if not df.columns.is_unique or isinstance(df.columns, pd.MultiIndex):
        raise InvalidTableError(
            "Expected distinct column names on one level; rename the columns."
        )


def schema_code(columns: Mapping[Hashable, str], options: Iterable[str]) -> str:
    """Return a call of TableSchema as code, from the code of its columns."""
    lines = ["TableSchema(", "    {"]
    lines += [f"        {name!r}: {column}," for name, column in columns.items()]
    lines += ["    },", *(f"    {option}," for option in options), ")"]
    return "\n".join(lines)


def blank_facts(name: Hashable, dtype: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a column as JSON, from its dtype alone; None is to be filled in."""
    kind, can_be_missing = known_kind(name, dtype)
    facts: dict[str, Any] = {"kind": kind if kind in KINDS else "continuous"}
    if kind == "categorical":
        facts["categories"] = None
    elif kind != "boolean":
        facts |= {"low": None, "high": None}
    if kind == "integer":
        facts["integer"] = True
    if kind == "categorical" and getattr(dtype, "ordered", False):
        facts["ordered"] = True
    if can_be_missing:
        facts["nullable"] = None
    return facts


def blank_code(facts: Mapping[str, Any]) -> str:
    """Return the same as code."""
    blanks = {"low": "...", "high": "...", "categories": "[...]"}
    parts = [
        blanks.get(name) or f"{name}={'...' if fact is None else fact}"
        for name, fact in facts.items()
        if name != "kind"
    ]
    return f"{KINDS[facts['kind']].__name__}({', '.join(parts)})"


def _common_unit(present: pd.Series) -> Unit | None:
    """Return the coarsest unit of which all points in time are whole multiples."""
    # An index: before pandas 3 a column of Arrow loses its zone along with its clock.
    clock = pd.DatetimeIndex(present).tz_localize(None)
    for unit in SECONDS_OF if len(present) else ():
        if (clock == clock.floor(unit)).all():
            return cast("Unit", unit)
    return None


def _common_decimals(present: pd.Series, *bounds: float) -> int | Literal["any"]:
    """Return the fewest decimals that all numbers have; "any" for more than 4."""
    exact = float(float_info(present.dtype).eps)
    values = present.to_numpy(dtype=np.float64)
    found = decimals_of(values, exact, MOST_BOUGHT).max(initial=0)
    large = max(abs(float(bound)) for bound in bounds) * 10.0**found >= EXACT
    return "any" if found > MOST_BOUGHT or large else int(found)


def described(name: Hashable, series: pd.Series, *, is_target: bool) -> Column:
    """Describe a column of a public table exactly."""
    kind, _ = column_kind(name, series)
    if is_object(series.dtype) and type_of_objects(series) == "bool":
        kind = "boolean"  # the table is public, and so are its values
    present = as_moments(series[~is_missing(series)])
    nullable = len(present) < len(series)
    if is_target and kind == "timedelta":
        raise InvalidTableError(
            f"The target {name!r} has dtype {series.dtype}, but a target must be"
            " strings, numbers or booleans. Cast it, for example by"
            " .dt.total_seconds(), or use target=None."
        )
    if kind == "boolean":
        return Boolean(nullable=nullable)
    if kind == "categorical" or (is_target and kind != "continuous"):
        if isinstance(series.dtype, pd.CategoricalDtype):
            levels = as_moments(pd.Series(series.cat.categories)).tolist()
            ordered = series.cat.ordered
        else:
            levels, ordered = sorted({plain(level) for level in present}), False
        nullable = nullable or not levels
        return Categorical(levels, ordered=ordered, nullable=nullable)
    if kind == "timedelta":
        present = present.dt.total_seconds()
    if kind == "datetime":
        # A column without values gets a bound all the same: nothing will be clipped.
        bounds = (present.min(), present.max()) if len(present) else ("1970", "1970")
        return Datetime(*bounds, nullable=nullable, unit=_common_unit(present))
    low, high = (present.min(), present.max()) if len(present) else (0, 0)
    try:
        decimals = None if kind == "integer" else _common_decimals(present, low, high)
        return Continuous(
            plain(low),
            plain(high),
            integer=kind == "integer",
            nullable=nullable,
            decimals=decimals,
        )
    except InvalidSchemaError as error:
        raise InvalidTableError(
            f"Column {name!r} holds an infinite value; replace it."
        ) from error
