"""The file of a saved synthesizer: its container, and what it lists.

The container is safetensors, whose only metadata are one JSON document with a digest.
A file with a valid digest may still come from a stranger, who may have put anything
into it. Whether numbers that fit together are also good ones, nobody can tell. Neither
scikit-learn nor torch is needed to list what a file has.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpsynth.exceptions import FolderNotFoundError, PersistenceError
from skdpsynth.privacy import PrivacyReport
from skdpsynth.schema import decode_value, encode_value
from skdpsynth.utils import DAMAGED, MAX_BYTES, WIDTH, parse_json, require, whole_file

Arrays = Mapping[str, NDArray[Any]]
Contents = tuple[dict[str, Any], dict[str, NDArray[Any]], int]


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """List all that a saved synthesizer contains, without building it.

    Parameters
    ----------
    path : path-like
        A file written by ``save``.

    Returns
    -------
    dict
        ``synthesizer``, the class; ``format_version`` and ``versions``, of the file and
        of the libraries that made it; ``parameters``; ``schema``, what was declared
        (None if nothing), and ``schema_``, what is public after the fit, as
        `TableSchema.to_dict` gives them; ``plans``, how the budget of every class was
        allocated; ``report``, the privacy claim, as `PrivacyReport.to_dict` gives it;
        ``table`` and ``generator``, metadata for sampling; ``arrays``, the ``shape``,
        ``dtype`` and ``bytes`` of each; and ``bytes``, the size of the file.

    Raises
    ------
    PersistenceError
        If the file is not a saved synthesizer.

    Notes
    -----
    A file says what its author wants it to say: neither the class nor the claim is
    proved by it. What is proved is that the file holds nothing beside what is listed.

    Examples
    --------
    >>> import skdpsynth
    >>> skdpsynth.inspect("adult.skdp")["synthesizer"]  # doctest: +SKIP
    'GPATESynthesizer'
    """
    with opened(path) as (document, arrays, size):
        listed = {
            name: {"shape": a.shape, "dtype": a.dtype.name, "bytes": a.nbytes}
            for name, a in sorted(arrays.items())
        }
        return {**document, "bytes": size, "arrays": listed}


# --- The container ----------------------------------------------------------------

FORMAT_VERSION = 3  # counted up when a file holds something else
_MAX_HEADER = MAX_BYTES  # metadata, and names and shapes of arrays
_MAX_SIZE = 2**30  # bytes, of which a reader holds some copies
_DTYPES = ("float64", "float32", "int64", "int32", "bool")
_ENTRY = {"dtype", "shape", "data_offsets"}  # of an array in the header
_KEY = "skdpsynth"  # of the only metadata
_DAMAGED = (
    "Expected a saved synthesizer. This is something else, or damaged, or a newer "
    "version of skdpsynth wrote it. Save the synthesizer again, or get the file anew."
)
_OTHER_VERSION = (
    f"Expected a file of format version {FORMAT_VERSION}. Got {{0}}, which skdpsynth "
    "{1} reads: run `pip install skdpsynth=={1}` and there `.load(path).sample(1000)` "
    "of its class, or fit again."
)


def write(
    path: str | os.PathLike[str], document: Mapping[str, Any], arrays: Arrays
) -> None:
    """Write metadata and arrays; a file is replaced once all of it is written."""
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
    if not (folder := Path(path).parent).is_dir():
        raise FolderNotFoundError(
            f"Expected a path in a folder that exists. Got {os.fspath(path)!r}, and no"
            f" folder {str(folder)!r}; make it by os.makedirs, or save elsewhere."
        )
    with whole_file(Path(path)) as part:
        part.write_bytes(data)


def _read(path: str | os.PathLike[str]) -> Contents:
    from safetensors.numpy import load

    with open(path, "rb") as file:
        size, start = os.fstat(file.fileno()).st_size, file.read(8)
        if start[:4] == b"PK\x03\x04":
            raise PersistenceError(_OTHER_VERSION.format("a zip", "0.1.1"))
        length = int.from_bytes(start, "little")
        require(length <= size, "a header that is longer than the file")
        _check_sizes(length, size, "Do not trust this file: it has too many columns")
        data = start + file.read(size)  # a device has no end
    entries = parse_json(data[8 : 8 + length].decode())
    ((key, text),) = entries.pop("__metadata__").items()
    fits = key == _KEY and all(set(entry) == _ENTRY for entry in entries.values())
    require(fits, "more than metadata and arrays")
    document = parse_json(text)
    version, versions = document["format_version"], document["versions"]
    require(type(version) is int, "no format version")
    for release in versions.values():
        require(release.isprintable() and len(release) <= WIDTH, "no versions")
    if version not in (FORMAT_VERSION, 2):
        raise PersistenceError(_OTHER_VERSION.format(version, versions["skdpsynth"]))
    arrays = load(data)  # it insists that they fill the rest of the file
    require(text == _signed(document, arrays), "another digest, or another layout")
    del document["sha256"]
    if version == 2:  # of 0.2
        document.setdefault("plans", [])
    _check_arrays(arrays)
    _check_document(document)
    parameters = document["parameters"].items()
    document["parameters"] = {k: _decode_parameter(v) for k, v in parameters}
    return document, arrays, size


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Contents]:
    """Read and check metadata, arrays and size of a file, and let them be used.

    What a damaged file makes Python raise meanwhile becomes a `PersistenceError`.
    """
    from safetensors import SafetensorError

    old = ""
    try:
        document, arrays, size = _read(path)
        if (version := document["format_version"]) != FORMAT_VERSION:
            old = _OTHER_VERSION.format(version, document["versions"]["skdpsynth"])
        yield document, arrays, size
    except (*DAMAGED, SafetensorError) as error:
        words = str(error) if isinstance(error, PersistenceError) else old or _DAMAGED
        raise PersistenceError(f"The file {os.fspath(path)!r}: {words}") from error


def _signed(document: Mapping[str, Any], arrays: Arrays) -> str:
    """Write metadata as JSON, with a digest of them and of the arrays at the end."""
    unsigned = {name: document[name] for name in document if name != "sha256"}
    digest = hashlib.sha256(json.dumps(unsigned, allow_nan=False).encode())
    for name, array in sorted(arrays.items()):
        digest.update(repr((name, array.dtype.name, array.shape)).encode())
        digest.update(array.tobytes())
    return json.dumps({**unsigned, "sha256": digest.hexdigest()})


def _check_sizes(header: int, size: int, remedy: str) -> None:
    if header > _MAX_HEADER or size > _MAX_SIZE:
        raise PersistenceError(
            f"Expected at most {_MAX_HEADER:,} bytes of metadata in a file of at most "
            f"{_MAX_SIZE:,}. Got {header:,} and {size:,}. {remedy} or classes."
        )


def _check_arrays(arrays: Arrays) -> None:
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


# --- What is in it ----------------------------------------------------------------

NEVER_SAVED = ("budget", "design", "schema")  # among the parameters
RENAMED = {"PairwiseSynthesizer": "MarginalSynthesizer"}  # classes, by their old names
_FIELDS = {
    *("format_version", "versions", "synthesizer", "parameters", "schema"),
    *("schema_", "plans", "report", "table", "generator"),
}
_PRINTED = ("accountant", "relation", "software", "unit")  # of a report, as they are


def encode_parameter(value: object) -> Any:  # noqa: ANN401 - JSON
    """Make a constructor parameter JSON-safe; tuples stay tuples."""
    if type(value).__name__ == "device":  # PyTorch's, which is not imported here
        value = str(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [encode_parameter(item) for item in value]}
    return {"value": encode_value(value)}


def _decode_parameter(data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any parameter
    """Undo `encode_parameter`."""
    if "tuple" in data:
        return tuple(_decode_parameter(item) for item in data["tuple"])
    if "list" in data:
        return [_decode_parameter(item) for item in data["list"]]
    return decode_value(data["value"])


def _check_document(document: Mapping[str, Any]) -> None:
    """Refuse other fields, and words that must not get into a message or a terminal."""
    require(set(document) == _FIELDS, "other fields")
    name, report = document["synthesizer"], document["report"]
    require(name.isidentifier() and len(name) <= WIDTH, "no name of a class")
    for words in _PRINTED:
        require(report[words].isprintable(), "words that move the cursor")
    require(not set(document["parameters"]) & set(NEVER_SAVED), "what is never saved")
    PrivacyReport.from_dict(report)
