"""Save and load: one zip of JSON and safetensors, with nothing in it to execute.

The file holds the generator and public facts. No training value is in it, because
none is on a fitted synthesizer.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from skdpsynth.exceptions import PersistenceError
from skdpsynth.schema._values import decode_value, encode_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

__all__ = ["inspect", "load", "reading", "save"]

_FORMAT = "skdpsynth"
_FORMAT_VERSION = 1
_HEADER, _ARRAYS = "synthesizer.json", "arrays.safetensors"
_MAX_HEADER_BYTES = 2**28
_FIELDS = (
    "synthesizer",
    "parameters",
    "schema",
    "schema_",
    "report",
    "table",
    "generator",
)


class _AbsentFolderError(PersistenceError, FileNotFoundError):
    """A folder to write to that does not exist."""


def save(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write a synthesizer's header and arrays to one file.

    Parameters
    ----------
    path : path-like
        Where to write; an existing file is replaced once the new one is complete.
    header : mapping
        JSON-safe, but for ``header["parameters"]``, whose values are encoded here.
    arrays : mapping of str to ndarray
        The numbers.

    Raises
    ------
    InvalidSchemaError
        If a parameter is of a type that JSON cannot hold.
    PersistenceError
        If the folder is absent; it is a FileNotFoundError too.
    """
    import numpy as np
    from safetensors.numpy import save as to_bytes

    parameters = {k: encode_parameter(v) for k, v in header["parameters"].items()}
    document = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        **header,
        "parameters": parameters,
    }
    packed = to_bytes({k: np.ascontiguousarray(v) for k, v in arrays.items()})
    target = os.fspath(path)
    folder = os.path.dirname(target) or os.curdir
    if not os.path.isdir(folder):
        msg = (
            f"Expected a path in a folder that exists. Got {target!r}, and there is no "
            f"folder {folder!r}; make it first by os.makedirs, or save elsewhere."
        )
        raise _AbsentFolderError(msg)
    partial = f"{target}.partial"
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_HEADER, json.dumps(document, indent=1))
            archive.writestr(_ARRAYS, packed)
        os.replace(partial, target)
    except OSError as error:
        if error.filename == partial:  # a name that the user has never seen
            error.filename = target
            del error.filename2
        raise
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load(
    path: str | os.PathLike[str], *, expected: str
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `save` wrote.

    Parameters
    ----------
    path : path-like
        The file.
    expected : str
        Name of the class that it must be of.

    Returns
    -------
    header : dict
        As given to `save`.
    arrays : dict of str to ndarray
        As given to `save`.

    Raises
    ------
    PersistenceError
        If the file is damaged, of a newer format, or of another class.
    """
    document, arrays = _read(path)
    if document["synthesizer"] != expected:
        msg = (
            f"The file holds a {document['synthesizer']}, not a {expected}. "
            f"Load it by {document['synthesizer']}.load(path)."
        )
        raise PersistenceError(msg)
    return document, arrays


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """List what a saved synthesizer contains, without loading it.

    Parameters
    ----------
    path : path-like
        A file written by ``save``.

    Returns
    -------
    dict
        The class, format version, parameters, schema and privacy report, and for each
        array its name and shape.

    Raises
    ------
    PersistenceError
        If the file is not a saved synthesizer.

    Examples
    --------
    >>> import skdpsynth
    >>> skdpsynth.inspect("adult.skdp")["synthesizer"]  # doctest: +SKIP
    'GPATESynthesizer'
    """
    document, arrays = _read(path)
    listed = {
        name: document[name]
        for name in ("synthesizer", "format_version", "parameters", "schema_", "report")
    }
    shapes = {name: array.shape for name, array in sorted(arrays.items())}
    return {**listed, "arrays": shapes}


@contextmanager
def reading() -> Iterator[None]:
    """Turn what a damaged file makes Python raise into a `PersistenceError`.

    Yields
    ------
    None
        For the duration of the reading.

    Raises
    ------
    PersistenceError
        If the file lacks something, or holds something of another type.
    """
    try:
        yield
    except PersistenceError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        AttributeError,
        LookupError,
        RuntimeError,  # encrypted, an unknown compression, or nested too deeply
        TypeError,
        ValueError,
    ) as error:
        msg = "Expected a file written by save(). This is none, or it is damaged."
        raise PersistenceError(msg) from error


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


def _read(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the header, checked, and the arrays."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    with reading():
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(_HEADER).file_size > _MAX_HEADER_BYTES:
                raise PersistenceError("The header of the file is too large.")
            document = json.loads(archive.read(_HEADER))
            packed = archive.read(_ARRAYS)
        if document["format"] != _FORMAT:
            raise PersistenceError("This is another kind of zip file.")
        if document["format_version"] != _FORMAT_VERSION:
            msg = (
                f"The file has format version {document['format_version']!r}, this "
                f"version of skdpsynth reads {_FORMAT_VERSION}. Upgrade skdpsynth."
            )
            raise PersistenceError(msg)
        header = {name: document[name] for name in _FIELDS}
        parameters = {k: decode_parameter(v) for k, v in header["parameters"].items()}
        try:
            arrays = from_bytes(packed)
        except SafetensorError as error:
            msg = "The arrays of the file are damaged. Save the synthesizer again."
            raise PersistenceError(msg) from error
    version = document["format_version"]
    return {**header, "parameters": parameters, "format_version": version}, arrays
