"""The numbers of a file: safetensors, checked before the library reads it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from skdpsynth.exceptions import PersistenceError
from skdpsynth.persistence._json import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["pack", "unpack"]

# Name in safetensors, of numpy's, and bytes of a number.
_DTYPES = {
    "F64": ("float64", 8),
    "F32": ("float32", 4),
    "I64": ("int64", 8),
    "I32": ("int32", 4),
    "BOOL": ("bool", 1),
}
_KEYS = {"dtype", "shape", "data_offsets"}
# Of the table of contents: some twenty times its size once it is parsed.
_MAX_TABLE = 2**25


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Write arrays as safetensors.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        Of one of the five dtypes that a reader accepts.

    Returns
    -------
    bytes
        Equal for equal arrays.

    Raises
    ------
    PersistenceError
        If an array is of another dtype or holds NaN, or there are too many of them.
    """
    import numpy as np
    from safetensors.numpy import save as to_bytes

    known = [name for name, _ in _DTYPES.values()]
    for name, array in arrays.items():
        if array.dtype.name not in known:
            msg = (
                f"Expected arrays of dtype {', '.join(known)}. Got {array.dtype} for "
                f"{name!r}; cast it in _generator_state."
            )
            raise PersistenceError(msg)
    _refuse_nan(arrays)
    packed: bytes = to_bytes({k: np.ascontiguousarray(v) for k, v in arrays.items()})
    if _table_length(packed) > _MAX_TABLE:
        msg = (
            f"Expected at most {_MAX_TABLE:,} bytes of names and shapes of arrays. Got "
            f"{_table_length(packed):,}; fit fewer columns or classes."
        )
        raise PersistenceError(msg)
    return packed


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Read arrays.

    Parameters
    ----------
    data : bytes
        What `pack` wrote.

    Returns
    -------
    dict of str to ndarray
        As given to `pack`.

    Raises
    ------
    PersistenceError
        If an array holds NaN.
    ValueError
        If shapes, dtypes and places do not describe exactly the bytes that there are.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    _check_table(data)
    try:
        arrays: dict[str, NDArray[Any]] = from_bytes(data)
    except SafetensorError as error:
        msg = "no safetensors"
        raise ValueError(msg) from error
    _refuse_nan(arrays)
    return arrays


def _check_table(data: bytes) -> None:
    """Insist that the arrays fill the bytes, one after the other, and say no more."""
    length = _table_length(data)
    if len(data) < 8 or length > min(len(data) - 8, _MAX_TABLE):
        msg = "a table of contents that is longer than the file, or very long"
        raise ValueError(msg)
    spans = []
    for entry in parse_json(data[8 : 8 + length]).values():
        if set(entry) != _KEYS:
            msg = "more than arrays"
            raise ValueError(msg)
        shape, (start, end) = entry["shape"], entry["data_offsets"]
        # Empty arrays may not be long either: numpy counts in 63 bits.
        if not all(
            type(n) is int and 0 <= n <= len(data) for n in [*shape, start, end]
        ):
            msg = "a size out of range"
            raise ValueError(msg)
        if end - start != math.prod(shape) * _DTYPES[entry["dtype"]][1]:
            msg = "a shape that does not fit its bytes"
            raise ValueError(msg)
        spans.append((start, end))
    spans.sort()
    starts = [0, *(end for _, end in spans)]
    if [*(start for start, _ in spans), len(data) - 8 - length] != starts:
        msg = "arrays that overlap, or bytes of none"
        raise ValueError(msg)


def _table_length(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _refuse_nan(arrays: Mapping[str, NDArray[Any]]) -> None:
    import numpy as np

    for name, array in arrays.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            msg = (
                f"Expected numbers in the array {name!r}. Got NaN; fit again, and do "
                "not use a file that holds one."
            )
            raise PersistenceError(msg)
