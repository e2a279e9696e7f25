"""What a file keeps of a fitted synthesizer, and how it comes back."""

from __future__ import annotations

import sys
from abc import abstractmethod
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdpsynth.exceptions import InvalidSchemaError, PersistenceError
from skdpsynth.persistence._facts import (
    NEVER_SAVED,
    check_document,
    check_parts,
    decode_parameter,
    encode_parameter,
)
from skdpsynth.persistence._file import FORMAT_VERSION, read, reading, write
from skdpsynth.preprocessing._model import TableModel
from skdpsynth.privacy import PrivacyReport
from skdpsynth.schema import TableSchema

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted synthesizer to one file: generator and public facts.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced.

        Raises
        ------
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
        own, own_arrays = self._generator_state()
        parameters = self.get_params(deep=False)
        for name in NEVER_SAVED:
            parameters.pop(name, None)
        if not isinstance(self.random_state, Integral):
            del parameters["random_state"]
        try:
            document, arrays = self._model.to_state()
            facts = {
                "format_version": FORMAT_VERSION,
                "versions": {
                    name: sys.modules[name].__version__ for name in _LIBRARIES
                },
                "synthesizer": type(self).__name__,
                "parameters": {k: encode_parameter(v) for k, v in parameters.items()},
                "schema": None if self.schema is None else self.schema.to_dict(),
                "schema_": self.schema_.to_dict(),
                "report": self._report.to_dict(),
                "table": document,
                "generator": own,
            }
            write(path, facts, {**arrays, **own_arrays})
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
        facts, arrays, _ = _read(path)
        with reading(path):
            if facts["synthesizer"] != cls.__name__:
                raise PersistenceError(
                    f"Expected a {cls.__name__}. Got a {facts['synthesizer']}; load it "
                    f"by {facts['synthesizer']}.load(path)."
                )
            check_parts(facts, arrays)
            schema = facts["schema"]
            self = cls(
                **facts["parameters"],
                schema=None if schema is None else TableSchema.from_dict(schema),
            )
            self.schema_ = TableSchema.from_dict(facts["schema_"])
            self._model = TableModel.from_state(facts["table"], arrays, self.schema_)
            self._report = PrivacyReport.from_dict(facts["report"])
            self._restore_generator(facts["generator"], arrays)
            self._make_ready()
            # What cannot be drawn is refused here: a row of each class, every level.
            self.sample(len(self._model.marginals), random_state=0)
            self._model.check_levels()
        return self

    def _generator_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Give what `save` keeps of the generator."""
        return {}, {}

    def _restore_generator(
        self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Undo `_generator_state`."""

    @abstractmethod
    def _make_ready(self) -> None:
        """Open the stream of samples, and set what users read off a fitted object."""


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
    facts, arrays, size = _read(path)
    listed = {
        name: {"shape": a.shape, "dtype": a.dtype.name, "bytes": a.nbytes}
        for name, a in sorted(arrays.items())
    }
    return {**facts, "bytes": size, "arrays": listed}


def _read(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], int]:
    """Read facts, checked, and arrays; give the size of the file too."""
    with reading(path):
        facts, arrays, size = read(path)
        check_document(facts)
        parameters = facts["parameters"].items()
        facts["parameters"] = {k: decode_parameter(v) for k, v in parameters}
    return facts, arrays, size
