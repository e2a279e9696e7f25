"""The container: safetensors, whose only metadata are the facts, with a digest."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.exceptions import FolderNotFoundError, PersistenceError
from skdpsynth.utils._json import DAMAGED, MAX_BYTES, parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

FORMAT_VERSION = 2
# Facts, and names and shapes of arrays; then the arrays.
_MAX_HEADER = MAX_BYTES
_MAX_SIZE = 2**30 + _MAX_HEADER
_DTYPES = ("float64", "float32", "int64", "int32", "bool")
_FIELDS = {"dtype", "shape", "data_offsets"}
_KEY = "skdpsynth"  # of the only metadata
_OTHER_VERSION = (
    f"Expected a file of format version {FORMAT_VERSION}. Got {{}}. Use the release of "
    "skdpsynth that wrote it, or fit again."
)


def write(
    path: str | os.PathLike[str],
    document: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write facts (JSON) and arrays; a file is replaced once all of it is written."""
    from safetensors.numpy import save

    _check_arrays(arrays)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        text = _signed(document, arrays)
    except ValueError as error:
        msg = "Expected finite numbers on the fitted synthesizer. Got NaN; fit again."
        raise PersistenceError(msg) from error
    data = save(arrays, metadata={_KEY: text})
    header = int.from_bytes(data[:8], "little")
    _check_sizes(header, len(data), "Declare fewer categories, or fit fewer columns")
    _replace(path, data)


def read(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], int]:
    """Read what `write` wrote: facts, arrays, and the size of the file in bytes."""
    from safetensors.numpy import load

    with open(path, "rb") as file:
        size, start = os.fstat(file.fileno()).st_size, file.read(8)
        if start[:4] == b"PK\x03\x04":
            raise PersistenceError(_OTHER_VERSION.format("a zip, as up to 0.1.1"))
        length = int.from_bytes(start, "little")
        if length > size:
            raise ValueError("a header that is longer than the file")
        _check_sizes(length, size, "Do not trust this file: it has too many columns")
        data = start + file.read(size)  # a device has no end
    entries = parse_json(data[8 : 8 + length].decode())
    ((key, text),) = entries.pop("__metadata__").items()
    if key != _KEY or any(set(entry) != _FIELDS for entry in entries.values()):
        raise ValueError("more than facts and arrays")
    document = parse_json(text)
    version = document["format_version"]
    if type(version) is not int:
        raise ValueError("no format version")
    if version != FORMAT_VERSION:
        raise PersistenceError(_OTHER_VERSION.format(version))
    arrays = load(data)  # it insists that they fill the rest of the file
    if text != _signed(document, arrays):
        raise ValueError("another digest, or another layout")
    del document["sha256"]
    _check_arrays(arrays)
    return document, arrays, size


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a damaged file makes Python raise into a `PersistenceError`."""
    from safetensors import SafetensorError

    try:
        yield
    except (*DAMAGED, SafetensorError) as error:
        words = (
            "Expected what save() writes. This is something else, or damaged, or a "
            "newer version of skdpsynth wrote it. Save the synthesizer again, or get "
            "the file anew."
        )
        if isinstance(error, PersistenceError):
            words = str(error)
        raise PersistenceError(f"The file {os.fspath(path)!r}: {words}") from error


def _signed(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Write facts as JSON, with a digest of them and of the arrays at the end."""
    facts = {name: document[name] for name in document if name != "sha256"}
    found = hashlib.sha256(json.dumps(facts, allow_nan=False).encode())
    for name, array in sorted(arrays.items()):
        found.update(repr((name, array.dtype.name, array.shape)).encode())
        found.update(array.tobytes())
    return json.dumps({**facts, "sha256": found.hexdigest()})


def _check_sizes(header: int, size: int, remedy: str) -> None:
    if header > _MAX_HEADER or size > _MAX_SIZE:
        raise PersistenceError(
            f"Expected at most {_MAX_HEADER:,} bytes of facts in a file of at most "
            f"{_MAX_SIZE:,}. Got {header:,} and {size:,}. {remedy} or classes."
        )


def _check_arrays(arrays: Mapping[str, NDArray[Any]]) -> None:
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES:
            raise PersistenceError(
                f"Expected arrays of dtype {', '.join(_DTYPES)}. Got {array.dtype} for "
                f"{name!r}; cast it in _generator_state."
            )
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise PersistenceError(
                f"Expected numbers in the array {name!r}. Got NaN; fit again, and do "
                "not use a file that holds one."
            )


def _replace(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a whole file beside its place, and move it there."""
    target = os.fspath(path)
    folder = os.path.dirname(target) or os.curdir
    if not os.path.isdir(folder):
        raise FolderNotFoundError(
            f"Expected a path in a folder that exists. Got {target!r}, and there is no "
            f"folder {folder!r}; make it first by os.makedirs, or save elsewhere."
        )
    # A name of its own: two processes may write to one path, and the last one wins.
    partial = f"{target}.{secrets.token_hex(8)}.partial"
    try:
        with open(partial, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # before the name points to it
        os.replace(partial, target)
    except OSError as error:
        if error.filename == partial:  # a name that the user has never seen
            error.filename = target
            del error.filename2
        raise
    finally:
        if os.path.exists(partial):
            os.remove(partial)
