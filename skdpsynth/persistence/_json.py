"""The JSON that a file may hold, and constructor parameters in it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NoReturn

from skdpsynth.schema._values import decode_value, encode_value

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["decode_parameter", "encode_parameter", "parse_json"]

_MAX_DEPTH = 64


def parse_json(data: bytes) -> Any:  # noqa: ANN401 - JSON
    """Parse JSON, strictly: what two readers could read in two ways is refused.

    Parameters
    ----------
    data : bytes
        In UTF-8.

    Returns
    -------
    object
        What it says.

    Raises
    ------
    ValueError
        If it is no JSON, names a key twice, is nested deeply, or holds a number that
        is not finite.
    RecursionError
        If it is nested very deeply.
    """
    value = json.loads(
        data.decode("utf-8"),
        object_pairs_hook=_distinct,
        parse_constant=_refuse,
        parse_float=_finite,
    )
    level, depth = [value], 0
    while level:
        level = [part for item in level for part in _parts(item)]
        depth += 1
        if depth > _MAX_DEPTH:
            msg = "nested too deeply"
            raise ValueError(msg)
    return value


def encode_parameter(value: object) -> Any:  # noqa: ANN401 - JSON
    """Make a constructor parameter JSON-safe; tuples stay tuples."""
    import numpy as np

    if type(value).__name__ == "device":  # PyTorch's, which is not imported here
        value = str(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [encode_parameter(item) for item in value]}
    return {"value": encode_value(value)}


def decode_parameter(data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any parameter
    """Undo `encode_parameter`."""
    if "tuple" in data:
        return tuple(decode_parameter(item) for item in data["tuple"])
    if "list" in data:
        return [decode_parameter(item) for item in data["list"]]
    return decode_value(data["value"])


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "a key comes twice"
        raise ValueError(msg)
    return found


def _refuse(_: str) -> NoReturn:
    msg = "a number that is not finite"
    raise ValueError(msg)


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _parts(item: object) -> list[Any]:
    if isinstance(item, dict):
        return list(item.values())
    return item if isinstance(item, list) else []
