"""Column names, categories and bounds as plain scalars, and as JSON."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOLD = 0.1  # of a unit
_MAX_TIME = 64  # characters; those of ISO 8601, to the nanosecond, are 29


def encode_value(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Return a JSON-safe form of a column name, a category or a bound.

    What JSON holds exactly stays as it is; the rest becomes a tagged dictionary.
    """
    value = plain(value)
    if isinstance(value, tuple):
        return {"tuple": [encode_value(part) for part in value]}
    if isinstance(value, pd.Timestamp):
        zone = None if value.tzinfo is None else str(value.tzinfo)
        moment = value if zone is None else value.tz_convert("UTC").tz_localize(None)
        return {"time": moment.isoformat(), "unit": value.unit, "zone": zone}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise InvalidSchemaError(
        "Names and categories can be saved if they are str, bool, int, float,"
        f" Timestamp or tuples of these. Got one of type {type(value).__name__}; cast"
        " it to str."
    )


def decode_value(data: Any) -> Any:  # noqa: ANN401 - the inverse of encode_value
    """Return the value, or the list of values, that `encode_value` was given."""
    if isinstance(data, list):
        return [decode_value(part) for part in data]
    if not isinstance(data, dict):
        return data
    if "tuple" in data:
        return tuple(decode_value(part) for part in data["tuple"])
    if "float" in data:
        return float(data["float"])
    time, zone = data["time"], data["zone"]
    if not isinstance(time, str) or len(time) > _MAX_TIME:
        raise ValueError("no time")
    moment = pd.Timestamp(time).as_unit(data["unit"])
    if zone is None:
        return moment
    if not isinstance(zone, str) or len(zone) > _MAX_TIME or "dateutil" in zone:
        raise ValueError("a zone that pandas would read from a file")
    try:
        return moment.tz_localize("UTC").tz_convert(zone)
    except OSError as error:  # a name that is a folder of zones
        raise ValueError("no zone") from error


def plain(value: Any) -> Any:  # noqa: ANN401 - any object may be a column name
    """Return the exact built-in scalar or Timestamp that a value equals.

    What a subclass adds, and the sign of a zero, stay behind: they could tell of a row.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    # The methods of the base classes: a subclass may have others.
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, datetime | np.datetime64):
        return value if kind is pd.Timestamp else pd.Timestamp(value)
    if issubclass(kind, np.generic):
        value = np.generic.item(value)
        kind = type(value)
    if issubclass(kind, int) and kind is not bool:
        return int.__int__(value)
    return float.__float__(value) + 0.0 if issubclass(kind, float) else value


def decimals_of(
    values: NDArray[np.float64], exact: float, most: int
) -> NDArray[np.uint8]:
    """Give the decimals with which each number is written; ``most + 1`` if it has more.

    `exact` is the machine epsilon of the dtype that held the numbers. A number so large
    that its dtype rounds a tenth of a unit counts only where it is exact.
    """
    found = np.full(values.shape, most + 1, dtype=np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):
        for decimals in reversed(range(most + 1)):
            scaled = values * 10.0**decimals
            off, rounding = np.abs(scaled - np.rint(scaled)), exact * np.abs(scaled)
            found[(off <= rounding) & ((rounding < _TOLD) | (off == 0))] = decimals
    return found


def is_finite(value: object) -> bool:
    """Return whether a level is none of the infinite numbers, which no schema names."""
    return not isinstance(value, float) or math.isfinite(value)
