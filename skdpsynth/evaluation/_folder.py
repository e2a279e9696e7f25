"""What determines a run of a comparison, and its record in a folder."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import joblib
import pandas as pd

from skdpsynth.evaluation._runs import RunRecord
from skdpsynth.utils._run_folder import RunFolder

if TYPE_CHECKING:
    import os

    from skdpsynth.evaluation._runs import Job, Task

# Counted up when a run holds something else. The references have their own count, so
# that no fit is paid for again for their sake.
_FORMAT, _REFERENCE_FORMAT = 1, 2
_README = """\
Finished runs of skdpsynth.evaluation.compare_synthesizers, one file each.

NOT PRIVATE. The files hold statistics of real rows, and their names depend on the real
rows too. Keep this folder where the private table is kept. A file can be deleted at any
time: its run is then repeated.
"""
# Parameters that change nothing, or that the comparison sets itself.
_IGNORED = ("budget", "epsilon", "random_state", "verbose")
# A new version of one of these may give other numbers.
_LIBRARIES = (
    *("numpy", "pandas", "scikit-learn", "scipy"),
    *("torch", "xgboost", "xgboost-cpu"),
)


class RecordFolder:
    """The records of runs that share a task and the real rows."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        task: Task,
        train: pd.DataFrame,
        test: pd.DataFrame,
    ) -> None:
        self._folder = RunFolder(path, _README)
        digests = table_digest(train), table_digest(test)
        self._shared = [joblib.hash(task), *digests, _versions()]

    def read(self, job: Job) -> RunRecord | None:
        """Give the record of a run, or None if there is no whole one."""
        try:
            return RunRecord.from_dict(self._folder.read(_name(job), self._key(job)))
        except (ValueError, LookupError, TypeError):
            return None

    def write(self, job: Job, record: RunRecord) -> None:
        """Write the record of a run that has no error."""
        if not record.facts["error"]:
            self._folder.write(_name(job), self._key(job), asdict(record))

    def _key(self, job: Job) -> list[Any]:
        synthesizer = job.synthesizer
        parameters = {} if synthesizer is None else synthesizer.get_params(deep=False)
        own = {k: v for k, v in parameters.items() if k not in _IGNORED}
        return [
            _REFERENCE_FORMAT if synthesizer is None else _FORMAT,
            *self._shared,
            job.name,
            type(synthesizer).__module__,
            type(synthesizer).__qualname__,
            joblib.hash(own),
            repr(job.epsilon),
            job.repeat,
            job.seed,
        ]


def _name(job: Job) -> str:
    """Name a file so that people find it too."""
    return f"{job.class_name or 'real'}-{job.epsilon:g}-{job.repeat}"


def table_digest(table: pd.DataFrame) -> str:
    """Digest names, dtypes (with all levels) and values of a table, not its index."""
    digest = hashlib.sha256(repr([*table.columns]).encode())
    digest.update(repr([str(dtype) for dtype in table.dtypes]).encode())
    for dtype in table.dtypes:
        if isinstance(dtype, pd.CategoricalDtype):
            digest.update(repr([dtype.ordered, *dtype.categories]).encode())
    digest.update(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())
    return digest.hexdigest()


def package_version() -> str:
    """Give the version of this package, also where it is not installed."""
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def _versions() -> dict[str, Any]:
    found = {"skdpsynth": package_version()}
    for name in _LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
