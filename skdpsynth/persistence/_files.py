"""Save, load and inspect a synthesizer's header and arrays."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from skdpsynth.exceptions import PersistenceError
from skdpsynth.persistence._archive import (
    ARRAYS,
    HEADER,
    read_members,
    reading,
    write_members,
)
from skdpsynth.persistence._arrays import pack, unpack
from skdpsynth.persistence._check import check_names_no_file, check_parts
from skdpsynth.persistence._json import (
    decode_parameter,
    encode_parameter,
    parse_json,
)
from skdpsynth.privacy import PrivacyReport

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["inspect", "load", "save"]

_FORMAT = "skdpsynth"
_FORMAT_VERSION = 1
_OWN_FIELDS = ("format", "format_version", "versions")
_FIELDS = (
    "synthesizer",
    "parameters",
    "schema",
    "schema_",
    "report",
    "table",
    "generator",
)
_MAX_NAME = 100
_PRINTED = ("accountant", "relation", "software", "unit")  # of a report, as they are
_NEVER_SAVED = ("budget", "schema")  # among the parameters
# Those whose arrays and marginals are made with; a reader may have others.
_LIBRARIES = ("skdpsynth", "numpy", "pandas")


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
        The numbers: float64, float32, int64, int32 or bool.

    Raises
    ------
    InvalidSchemaError
        If a parameter is of a type that JSON cannot hold.
    PersistenceError
        If the folder is absent (it is a FileNotFoundError too), a number is NaN, or
        the file would be larger than `load` accepts.
    """
    parameters = {k: encode_parameter(v) for k, v in header["parameters"].items()}
    document = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "versions": {name: sys.modules[name].__version__ for name in _LIBRARIES},
        **header,
        "parameters": parameters,
    }
    try:
        text = json.dumps(document, indent=1, allow_nan=False)
    except ValueError as error:
        msg = "Expected finite numbers on the fitted synthesizer. Got NaN; fit again."
        raise PersistenceError(msg) from error
    write_members(path, {HEADER: text.encode(), ARRAYS: pack(arrays)})


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
    with reading():
        check_parts(document, arrays)
    return {name: document[name] for name in _FIELDS}, arrays


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
        `TableSchema.to_dict` gives them; ``report``, the privacy claim, as
        `PrivacyReport.to_dict` gives it; ``table`` and ``generator``, facts for
        sampling; ``arrays``, the ``shape``, ``dtype`` and ``bytes`` of each; and
        ``bytes``, the size of both members.

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
    document, arrays = _read(path)
    listed = {
        name: {"shape": a.shape, "dtype": a.dtype.name, "bytes": a.nbytes}
        for name, a in sorted(arrays.items())
    }
    return {**document, "arrays": listed}


def _read(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the header, checked, and the arrays."""
    with reading():
        members = read_members(path)
        document = parse_json(members[HEADER])
        if document["format"] != _FORMAT:
            raise PersistenceError("This is another kind of zip file.")
        found = document["format_version"]
        if type(found) is not int:
            raise ValueError("no format version")
        if found != _FORMAT_VERSION:
            msg = (
                f"Expected a file of format version {_FORMAT_VERSION}. Got {found}: "
                "another version of skdpsynth wrote it. Upgrade skdpsynth."
            )
            raise PersistenceError(msg)
        if set(document) != {*_OWN_FIELDS, *_FIELDS}:
            raise ValueError("other fields")
        _check_words(document)
        check_names_no_file(document)
        PrivacyReport.from_dict(document["report"])
        arrays = unpack(members[ARRAYS])
        parameters = document["parameters"]
        document["parameters"] = {
            name: decode_parameter(value) for name, value in parameters.items()
        }
    del document["format"]
    return {**document, "bytes": sum(map(len, members.values()))}, arrays


def _check_words(document: Mapping[str, Any]) -> None:
    """Refuse what must not get into a message or onto a terminal: names that are none.

    Labels and names of columns may be any text; who prints them escapes them.
    """
    name, versions = document["synthesizer"], document["versions"]
    if not name.isidentifier() or len(name) > _MAX_NAME:
        raise ValueError("no name of a class")
    if not all(v.isprintable() and len(v) <= _MAX_NAME for v in versions.values()):
        raise ValueError("no versions")
    if not all(document["report"][words].isprintable() for words in _PRINTED):
        raise ValueError("words that move the cursor")
    if not set(document["parameters"]).isdisjoint(_NEVER_SAVED):
        raise ValueError("a parameter that is never saved")
