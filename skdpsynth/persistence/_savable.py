"""What a file keeps of a fitted synthesizer, and how it comes back."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdpsynth.exceptions import InvalidSchemaError, PersistenceError
from skdpsynth.persistence import _files
from skdpsynth.persistence._archive import reading
from skdpsynth.preprocessing._model import TableModel
from skdpsynth.privacy import PrivacyReport
from skdpsynth.schema import TableSchema

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Savable"]


class Savable(BaseEstimator):
    """Base of what one file can hold: marginals, a report, and a generator.

    A subclass whose generator is more than the marginals says what a file keeps of it,
    in ``_generator_state`` and ``_restore_generator``.
    """

    schema_: TableSchema
    _model: TableModel
    _report: PrivacyReport

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted synthesizer to one file: generator and public facts.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is replaced.

        Raises
        ------
        PersistenceError
            If no file can hold the type of a column name or a parameter, or the
            folder is absent (a FileNotFoundError too).

        Notes
        -----
        Not in the file: the `budget`, a `random_state` that is no int, and the state
        of the sampling stream. A `torch.device` comes back as its name.
        """
        check_is_fitted(self)
        own, own_arrays = self._generator_state()
        parameters = self.get_params(deep=False)
        for name in ("budget", "schema"):
            parameters.pop(name, None)
        if not isinstance(self.random_state, Integral):
            del parameters["random_state"]
        try:
            document, arrays = self._model.to_state()
            header = {
                "synthesizer": type(self).__name__,
                "parameters": parameters,
                "schema": None if self.schema is None else self.schema.to_dict(),
                "schema_": self.schema_.to_dict(),
                "report": self._report.to_dict(),
                "table": document,
                "generator": own,
            }
            _files.save(path, header, {**arrays, **own_arrays})
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
        header, arrays = _files.load(path, expected=cls.__name__)
        with reading():
            schema = header["schema"]
            self = cls(
                **header["parameters"],
                schema=None if schema is None else TableSchema.from_dict(schema),
            )
            self._model = TableModel.from_state(header["table"], arrays)
            self._report = PrivacyReport.from_dict(header["report"])
            self.schema_ = TableSchema.from_dict(header["schema_"])
            self._restore_generator(header["generator"], arrays)
            self._make_ready()
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
