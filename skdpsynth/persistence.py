"""What a saved file keeps of a fitted synthesizer, and how it is built again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, Self

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdpsynth.exceptions import InvalidSchemaError, PersistenceError
from skdpsynth.measure import Allocation, TableModel
from skdpsynth.model import check_categories
from skdpsynth.privacy import UNLABELLED, PrivacyReport, unit_words
from skdpsynth.saved import (
    FORMAT_VERSION,
    NEVER_SAVED,
    RENAMED,
    encode_parameter,
    opened,
    write,
)
from skdpsynth.schema import TableSchema
from skdpsynth.utils import check_new, require

Arrays = Mapping[str, NDArray[Any]]

# Those whose arrays and marginals are made with; a reader may have others.
_LIBRARIES = ("skdpsynth", "numpy", "pandas")


class Savable(BaseEstimator):
    """Base of what one file can hold: marginals, a report, and a generator.

    A subclass whose generator is more than the marginals says what a file keeps of it,
    in ``_generator_state`` and ``_restore_generator``.
    """

    schema_: TableSchema
    _model: TableModel
    # Of each class, and rows without a label; none of earlier files, and measurements.
    _plans: Sequence[Allocation] = ()
    _report: PrivacyReport
    sample: Callable[..., Any]  # of `Sampler`
    _make_ready: Callable[..., None]  # of `BaseSynthesizer`

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
        Not in the file: the `budget`, `measurements_`, a `random_state` that is no int,
        and the state of the sampling stream. A `torch.device` comes back as its name.
        """
        check_is_fitted(self)
        check_new(path, overwrite=overwrite)
        try:
            write(path, *self._state())
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
        with opened(path) as (document, arrays, _):
            return cls._restored(document, arrays)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what a file holds."""
        generator, generator_arrays = self._generator_state()
        parameters = self.get_params(deep=False)
        for name in NEVER_SAVED:
            parameters.pop(name, None)
        if not isinstance(self.random_state, Integral):
            del parameters["random_state"]
        table, arrays = self._model.to_state()
        document = {
            "format_version": FORMAT_VERSION,
            "versions": {name: sys.modules[name].__version__ for name in _LIBRARIES},
            "synthesizer": type(self).__name__,
            "parameters": {k: encode_parameter(v) for k, v in parameters.items()},
            "schema": None if self.schema is None else self.schema.to_dict(),
            "schema_": self.schema_.to_dict(),
            "plans": [plan.to_json() for plan in self._plans],
            "report": self._report.to_dict(),
            "table": table,
            "generator": generator,
        }
        return document, {**arrays, **generator_arrays}

    @classmethod
    def _restored(cls, document: Mapping[str, Any], arrays: Arrays) -> Self:
        """Build what a file holds; a PersistenceError if it is of another class."""
        name = document["synthesizer"]
        name = RENAMED.get(name, name)
        if name != cls.__name__:
            raise PersistenceError(
                f"Expected a {cls.__name__}. Got a {name}; load it by"
                f" {name}.load(path)."
            )
        schema_ = TableSchema.from_dict(document["schema_"])
        model = TableModel.from_state(document["table"], arrays, schema_)
        # Of an earlier version: without what went since.
        went: Any = getattr(cls.__init__, "went", frozenset())
        parameters = {k: v for k, v in document["parameters"].items() if k not in went}
        if parameters.get("init") in ("pairs", "marginals"):
            parameters["init"] = "measured"
        if (schema := document["schema"]) is not None:
            parameters["schema"] = TableSchema.from_dict(schema)
        self = cls(**parameters)
        self.schema_, self._model = schema_, model
        plans, classes = document["plans"], model.metadata.classes
        require(isinstance(plans, list), "no plans")
        require(len(plans) in (0, n := len(classes), n + 1), "other plans")
        scopes = *classes.scopes, UNLABELLED
        self._plans = [*map(Allocation.from_json, plans, scopes)]
        planned = classes.planned[: len(plans)].tolist()
        rows = [plan.n_rows for plan in self._plans[:n]]
        require(rows == planned, "other numbers of rows")
        self._report = PrivacyReport.from_dict(document["report"])
        whose = unit_words(schema_.privacy_unit, schema_.max_rows_per_unit or 1)
        require(whose.items() <= vars(self._report).items(), "another unit")
        self._restore_generator(document["generator"], arrays)
        self._make_ready()
        # What cannot be drawn is refused here: a row of each class, every category.
        self.sample(len(model.marginals), random_state=0, output="pandas")
        check_categories(model)
        return self

    def _generator_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what `save` keeps of the generator."""
        return {}, {}

    def _restore_generator(self, document: Mapping[str, Any], arrays: Arrays) -> None:
        """Undo `_generator_state`."""


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
    package = sys.modules["skdpsynth"]
    with opened(path) as (document, arrays, _):
        name = document["synthesizer"]
        name = RENAMED.get(name, name)
        if name not in package.__all__ or not name.endswith("Synthesizer"):
            raise PersistenceError(
                "Expected a synthesizer of this package."
                f" Got a {name}; load it by the load of the class that saved it."
            )
        return getattr(package, name)._restored(document, arrays)
