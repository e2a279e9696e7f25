"""The saved file of a fitted synthesizer: what it keeps, its container, its checks.

The container is safetensors, whose only metadata are one JSON document with a digest.
A file with a valid digest may still come from a stranger, who may have put anything
into it. Whether numbers that fit together are also good ones, nobody can tell.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
from abc import abstractmethod
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdpsynth.exceptions import (
    FolderNotFoundError,
    InvalidSchemaError,
    PersistenceError,
)
from skdpsynth.measure import N_GROUPS, TableModel
from skdpsynth.privacy import PrivacyReport
from skdpsynth.schema import TableSchema, decode_value, encode_value
from skdpsynth.utils import DAMAGED, MAX_BYTES, check_new, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

__all__ = ["Savable", "inspect", "load"]

# Those whose arrays and marginals are made with; a reader may have others.
_LIBRARIES = ("skdpsynth", "numpy", "pandas")


class Savable(BaseEstimator):
    """Base of what one file can hold: marginals, a report, and a generator.

    A subclass whose generator is more than the marginals says what a file keeps of it,
    in ``_generator_state`` and ``_restore_generator``.
    """

    schema_: TableSchema
    _model: TableModel
    _report: PrivacyReport
    sample: Callable[..., Any]  # of `Sampler`

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted synthesizer to one file: generator and public metadata.

        Parameters
        ----------
        path : path-like
            Where to write.
        overwrite : bool, default=False
            Whether to replace a file that is there.

        Raises
        ------
        FileExistsError
            If there is such a file: what is in it may have cost a budget.
        PersistenceError
            If no file can hold the type of a column name or a parameter, a number is
            NaN, or the file would be larger than `load` accepts.
        FolderNotFoundError
            If there is no such folder.

        Notes
        -----
        Not in the file: the `budget`, a `random_state` that is no int, and the state
        of the sampling stream. A `torch.device` comes back as its name.
        """
        check_is_fitted(self)
        check_new(path, overwrite=overwrite)
        own, own_arrays = self._generator_state()
        parameters = self.get_params(deep=False)
        for name in NEVER_SAVED:
            parameters.pop(name, None)
        if not isinstance(self.random_state, Integral):
            del parameters["random_state"]
        try:
            table, arrays = self._model.to_state()
            document = {
                "format_version": FORMAT_VERSION,
                "versions": {
                    name: sys.modules[name].__version__ for name in _LIBRARIES
                },
                "synthesizer": type(self).__name__,
                "parameters": {k: encode_parameter(v) for k, v in parameters.items()},
                "schema": None if self.schema is None else self.schema.to_dict(),
                "schema_": self.schema_.to_dict(),
                "report": self._report.to_dict(),
                "table": table,
                "generator": own,
            }
            write(path, document, {**arrays, **own_arrays})
        except InvalidSchemaError as error:
            raise PersistenceError(str(error)) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a synthesizer that `save` wrote; nothing in the file is executed.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        object
            The fitted synthesizer, with a fresh sampling stream.

        Raises
        ------
        PersistenceError
            If the file is not one of this class, or damaged.
        """
        with reading(path):
            document, arrays, _ = read(path)
            name = document["synthesizer"]
            name = _RENAMED.get(name, name)
            if name != cls.__name__:
                raise PersistenceError(
                    f"Expected a {cls.__name__}. Got a {name}; load it by"
                    f" {name}.load(path)."
                )
            schema_ = TableSchema.from_dict(document["schema_"])
            model = TableModel.from_state(document["table"], arrays, schema_)
            size = len(model.metadata.columns), len(model.marginals)
            check_generator(document["generator"], arrays, *size)
            schema = document["schema"]
            self = cls(
                **document["parameters"],
                schema=None if schema is None else TableSchema.from_dict(schema),
            )
            self.schema_, self._model = schema_, model
            self._report = PrivacyReport.from_dict(document["report"])
            self._restore_generator(document["generator"], arrays)
            self._make_ready()
            # What cannot be drawn is refused here: a row of each class, every category.
            self.sample(len(self._model.marginals), random_state=0)
            self._model.check_categories()
        return self

    def _generator_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Give what `save` keeps of the generator."""
        return {}, {}

    def _restore_generator(self, document: Mapping[str, Any], arrays: Arrays) -> None:
        """Undo `_generator_state`."""

    @abstractmethod
    def _make_ready(self) -> None:
        """Open the stream of samples, and set what users read off a fitted object."""


def load(path: str | os.PathLike[str]) -> Any:  # noqa: ANN401 - any synthesizer
    """Read a saved synthesizer of whichever class of this package the file names.

    Parameters
    ----------
    path : path-like
        A file written by ``save``.

    Returns
    -------
    object
        The fitted synthesizer, as its class's own ``load`` gives it.

    Raises
    ------
    PersistenceError
        If the file is none, is damaged, or is of a class of another package, which
        that class must load.

    Examples
    --------
    >>> import skdpsynth
    >>> skdpsynth.load("adult.skdp").sample(5)  # doctest: +SKIP
    """
    with reading(path):
        name = read(path)[0]["synthesizer"]
    name = _RENAMED.get(name, name)
    package = sys.modules["skdpsynth"]
    if name not in package.__all__ or not name.endswith("Synthesizer"):
        raise PersistenceError(
            f"The file {os.fspath(path)!r}: Expected a synthesizer of this package."
            f" Got a {name}; load it by the load of the class that saved it."
        )
    return getattr(package, name).load(path)


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
        `PrivacyReport.to_dict` gives it; ``table`` and ``generator``, metadata for
        sampling; ``arrays``, the ``shape``, ``dtype`` and ``bytes`` of each; and
        ``bytes``, the size of the file.

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
    with reading(path):
        document, arrays, size = read(path)
    listed = {
        name: {"shape": a.shape, "dtype": a.dtype.name, "bytes": a.nbytes}
        for name, a in sorted(arrays.items())
    }
    return {**document, "bytes": size, "arrays": listed}


# --- The container ----------------------------------------------------------------

FORMAT_VERSION = 2
# Metadata, and names and shapes of arrays; then the arrays.
_MAX_HEADER = MAX_BYTES
_MAX_SIZE = 2**30 + _MAX_HEADER
_DTYPES = ("float64", "float32", "int64", "int32", "bool")
_ENTRY = {"dtype", "shape", "data_offsets"}  # of an array in the header
_KEY = "skdpsynth"  # of the only metadata
_DAMAGED = (
    "Expected what save() writes. This is something else, or damaged, or a newer "
    "version of skdpsynth wrote it. Save the synthesizer again, or get the file anew."
)
_OTHER_VERSION = (
    f"Expected a file of format version {FORMAT_VERSION}. Got {{}}. Use the release of "
    "skdpsynth that wrote it, or fit again."
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
    _replace(path, data)


def read(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], int]:
    """Read and check metadata and arrays; give the size of the file in bytes too."""
    from safetensors.numpy import load

    with open(path, "rb") as file:
        size, start = os.fstat(file.fileno()).st_size, file.read(8)
        if start[:4] == b"PK\x03\x04":
            raise PersistenceError(_OTHER_VERSION.format("a zip, as up to 0.1.1"))
        length = int.from_bytes(start, "little")
        _require(length <= size, "a header that is longer than the file")
        _check_sizes(length, size, "Do not trust this file: it has too many columns")
        data = start + file.read(size)  # a device has no end
    entries = parse_json(data[8 : 8 + length].decode())
    ((key, text),) = entries.pop("__metadata__").items()
    fits = key == _KEY and all(set(entry) == _ENTRY for entry in entries.values())
    _require(fits, "more than metadata and arrays")
    document = parse_json(text)
    version = document["format_version"]
    _require(type(version) is int, "no format version")
    if version != FORMAT_VERSION:
        raise PersistenceError(_OTHER_VERSION.format(version))
    arrays = load(data)  # it insists that they fill the rest of the file
    _require(text == _signed(document, arrays), "another digest, or another layout")
    del document["sha256"]
    _check_arrays(arrays)
    check_document(document)
    parameters = document["parameters"].items()
    document["parameters"] = {k: decode_parameter(v) for k, v in parameters}
    return document, arrays, size


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a damaged file makes Python raise into a `PersistenceError`."""
    from safetensors import SafetensorError

    try:
        yield
    except (*DAMAGED, SafetensorError) as error:
        words = str(error) if isinstance(error, PersistenceError) else _DAMAGED
        raise PersistenceError(f"The file {os.fspath(path)!r}: {words}") from error


def _signed(document: Mapping[str, Any], arrays: Arrays) -> str:
    """Write metadata as JSON, with a digest of them and of the arrays at the end."""
    unsigned = {name: document[name] for name in document if name != "sha256"}
    found = hashlib.sha256(json.dumps(unsigned, allow_nan=False).encode())
    for name, array in sorted(arrays.items()):
        found.update(repr((name, array.dtype.name, array.shape)).encode())
        found.update(array.tobytes())
    return json.dumps({**unsigned, "sha256": found.hexdigest()})


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
        if error.filename == partial:  # a name that the user does not know
            error.filename = target
            del error.filename2
        raise
    finally:
        if os.path.exists(partial):
            os.remove(partial)


# --- What is in it ----------------------------------------------------------------

NEVER_SAVED = ("budget", "design", "schema")  # among the parameters
_RENAMED = {"PairwiseSynthesizer": "MarginalSynthesizer"}  # classes, by their old names
_FIELDS = {
    *("format_version", "versions", "synthesizer", "parameters", "schema"),
    *("schema_", "report", "table", "generator"),
}
_MAX_NAME = 100
# Scores are within 3 of 0, and training keeps scales below e^5: far beyond, and yet so
# that no sum or product of them overflows.
_MAX_SCORE, _MAX_LOG_SCALE = 1e6, 100.0
_PRINTED = ("accountant", "relation", "software", "unit")  # of a report, as they are
_ROUNDING = 1e-3  # of shares that add up to 1, in single precision


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


def decode_parameter(data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any parameter
    """Undo `encode_parameter`."""
    if "tuple" in data:
        return tuple(decode_parameter(item) for item in data["tuple"])
    if "list" in data:
        return [decode_parameter(item) for item in data["list"]]
    return decode_value(data["value"])


def check_document(document: Mapping[str, Any]) -> None:
    """Refuse other fields, and words that must not get into a message or a terminal.

    Labels and names of columns may be any text; who prints them escapes them.
    """
    _require(set(document) == _FIELDS, "other fields")
    name, report = document["synthesizer"], document["report"]
    _require(name.isidentifier() and len(name) <= _MAX_NAME, "no name of a class")
    for version in document["versions"].values():
        _require(version.isprintable() and len(version) <= _MAX_NAME, "no versions")
    for words in _PRINTED:
        _require(report[words].isprintable(), "words that move the cursor")
    _require(not set(document["parameters"]) & set(NEVER_SAVED), "what is never saved")
    PrivacyReport.from_dict(report)


def check_generator(
    own: Mapping[str, Any], arrays: Arrays, n_columns: int, n_classes: int
) -> None:
    """Raise a ValueError, TypeError or LookupError where parts do not fit together."""
    _require(own.get("n_classes", n_classes) == n_classes, "generator")
    checks = {"mixture": _check_mixtures, "factors": _check_factors}
    if own.get("form") in checks:
        checks[own["form"]](arrays, n_columns, n_classes)
    if "relations" in own:
        _require(own.get("form") == "mixture", "relations")
        _check_relations(own["relations"], arrays, n_columns, n_classes)


def _check_factors(arrays: Arrays, n_columns: int, n_classes: int) -> None:
    for c in range(n_classes):
        for name, n_axes in (("loadings", 2), ("location", 1), ("log_scale", 1)):
            array = arrays[f"generator.{c}.{name}"]
            fits = array.dtype.kind == "f" and array.shape[:1] == (n_columns,)
            fits = fits and array.ndim == n_axes
            _require(fits and (np.abs(array) <= _MAX_SCORE).all(), "generator")
        scales = arrays[f"generator.{c}.log_scale"]
        _require((scales <= _MAX_LOG_SCALE).all(), "generator")


def _check_mixtures(arrays: Arrays, n_columns: int, n_classes: int) -> None:
    starts = arrays["generator.starts"]
    _require(starts.dtype == np.int64 and starts.shape == (n_columns + 1,), "bins")
    _require(starts[0] == 0 and (np.diff(starts) > 0).all(), "bins")
    n_bins = int(starts[-1])
    for c in range(n_classes):
        own = f"generator.{c}."
        weights, ranks = arrays[own + "weights"], arrays[own + "ranks"]
        probabilities = arrays[own + "probabilities"]
        _require(weights.ndim == 1 and weights.dtype == np.float64, "weights")
        _require(((weights >= 0) & (weights <= 1.001)).all(), "weights")
        _require(abs(float(weights.sum()) - 1.0) < _ROUNDING, "weights")
        _require(probabilities.shape == (len(weights), n_bins), "probabilities")
        _require(probabilities.dtype == np.float32, "probabilities")
        _require(((probabilities >= 0) & (probabilities <= 1.001)).all(), "heads")
        sums = np.add.reduceat(probabilities, starts[:-1], axis=1)
        _require((np.abs(sums - 1.0) < _ROUNDING).all(), "heads")
        _require(ranks.dtype == np.float64 and ranks.shape == (2, n_bins), "ranks")
        _require((ranks[0] >= 0).all() and (ranks[1] <= 1 + 1e-9).all(), "ranks")
        _require((ranks[0] <= ranks[1] + 1e-9).all(), "ranks")


def _check_relations(
    own: Mapping[str, Any], arrays: Arrays, n_columns: int, n_classes: int
) -> None:
    pairs, n_finer = own["pairs"], own["n_finer"]
    _require(own["n_classes"] in (0, n_classes) and n_finer in (0, n_columns), "cells")
    _require((own["n_classes"] == 0) == (n_finer == 0), "cells")
    _require(type(own["std"]) is float and 0 <= own["std"] < np.inf, "noise")
    _require(all(type(strong) is bool for strong in own["strong"]), "relations")
    n_bins = np.diff(arrays["generator.starts"])
    within = [arrays[f"relations.within.{j}"] for j in range(n_finer)]
    for j, bins in enumerate(within):
        _require(bins.ndim == 1 and bins.dtype == np.int64, "cells")
        _require(np.array_equal(np.unique(bins), np.arange(n_bins[j])), "cells")
        _require((np.diff(bins) >= 0).all(), "cells")
    sizes = np.array([len(bins) for bins in within])
    for c in range(own["n_classes"]):
        ranks = arrays[f"relations.ranks.{c}"]
        _require(ranks.shape == (2, sizes.sum()) and ranks.dtype == np.float64, "ranks")
        _require(((ranks >= 0) & (ranks <= 1 + 1e-9)).all(), "ranks")
        _require((ranks[0] <= ranks[1] + 1e-9).all(), "ranks")
    _require(len(pairs) == len(own["strong"]) == len(own["second"]), "relations")
    for k, (parent, child) in enumerate(pairs):
        known = all(type(j) is int and 0 <= j < n_columns for j in (parent, child))
        _require(known and parent != child, "relations")
        tables = [(arrays[f"relations.{k}.shares"], n_bins)]
        if f"relations.{k}.cells" in arrays:
            tables.append((arrays[f"relations.{k}.cells"], sizes))
        second, lift = own["second"][k], arrays.get(f"relations.{k}.lift")
        _require((second is None) == (lift is None), "relations")
        if lift is not None:
            _require(type(second) is int and 0 <= second < n_columns, "relations")
            _require(len(tables) > 1 and second not in (parent, child), "relations")
            _require(lift.shape == (N_GROUPS, n_bins[second]), "relations")
            _require(
                lift.dtype == np.float64 and ((lift > 0) & (lift < np.inf)).all(),
                "lift",
            )
        for table, n in tables:
            _require(table.shape == (n[parent], n[child]), "relations")
            _require(table.dtype == np.float64 and (table >= 0).all(), "relations")
            _require(abs(float(table.sum()) - 1.0) < _ROUNDING, "relations")


def _require(fits: object, what: str) -> None:
    if not fits:
        raise ValueError(what)
