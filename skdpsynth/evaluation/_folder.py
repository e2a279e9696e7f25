"""The folder of finished runs, from which an interrupted comparison resumes."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import pandas as pd

from skdpsynth.evaluation._runs import RunRecord

if TYPE_CHECKING:
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
    "numpy",
    "pandas",
    "scikit-learn",
    "scipy",
    "torch",
    "xgboost",
    "xgboost-cpu",
)


class RunFolder:
    """Keeps the records of finished runs in files.

    Parameters
    ----------
    path : path-like
        The folder; made if absent.
    task : Task
        What all runs share.
    train, test : DataFrame
        The real rows, whose content is a part of the key of every run.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        task: Task,
        train: pd.DataFrame,
        test: pd.DataFrame,
    ) -> None:
        self._path = Path(path)
        self._path.mkdir(parents=True, exist_ok=True)
        (self._path / "README.txt").write_text(_README, encoding="utf-8")
        self._shared = [
            joblib.hash(task),
            table_digest(train),
            table_digest(test),
            _versions(),
        ]

    def read(self, job: Job) -> RunRecord | None:
        """Give the record of a run, or None if there is no whole file of it."""
        key = self._key(job)
        try:
            document = json.loads(self._file(job, key).read_text(encoding="utf-8"))
            if document["key"] == key:
                return RunRecord.from_dict(document["run"])
        except (OSError, ValueError, LookupError, TypeError):
            pass  # absent, torn or of another kind: the run is made again
        return None

    def write(self, job: Job, record: RunRecord) -> None:
        """Write the record of a run that has no error; nobody sees half a file."""
        if record.facts["error"]:
            return
        key = self._key(job)
        document = {"key": key, "run": record.to_dict()}
        handle, draft = tempfile.mkstemp(dir=self._path, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(document, file)
            os.replace(draft, self._file(job, key))
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise

    def _key(self, job: Job) -> str:
        synthesizer = job.synthesizer
        parameters = {} if synthesizer is None else synthesizer.get_params(deep=False)
        own = {k: v for k, v in parameters.items() if k not in _IGNORED}
        parts = [
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
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _file(self, job: Job, key: str) -> Path:
        """Name a file so that people find it too."""
        words = (job.class_name or "real", f"{job.epsilon:g}", str(job.repeat))
        return self._path / f"{'-'.join(words)}-{key[:16]}.json"


def table_digest(table: pd.DataFrame) -> str:
    """Digest names, dtypes (with all levels) and values of a table, not its index.

    Parameters
    ----------
    table : DataFrame
        Any table of texts, numbers, times and categories.

    Returns
    -------
    str
        64 hexadecimal digits, the same for equal tables in every process.
    """
    digest = hashlib.sha256(repr([*table.columns]).encode())
    digest.update(repr([str(dtype) for dtype in table.dtypes]).encode())
    for dtype in table.dtypes:
        if isinstance(dtype, pd.CategoricalDtype):
            digest.update(repr([dtype.ordered, *dtype.categories]).encode())
    digest.update(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())
    return digest.hexdigest()


def package_version() -> str:
    """Give the version of this package, also where it is not installed.

    Returns
    -------
    str
        Such as "0.1.0".
    """
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def _versions() -> dict[str, Any]:
    """Give the versions of the libraries that are installed."""
    found = {"skdpsynth": package_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
