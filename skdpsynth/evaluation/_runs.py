"""One run of a comparison: fit, sample, score, what it cost, and what determines it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import threading
import time
import warnings
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import joblib
import numpy as np
import pandas as pd
from joblib import parallel_config
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier

from skdpsynth.evaluation._plots import PlainColumn, plain_columns
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.metrics import (
    Classifiers,
    broken_relations,
    column_fidelity,
    feature_ranking_agreement,
    marginal_fidelity,
    pair_fidelity,
    synthetic_only_scores,
    tstr_scores,
    two_sample_scores,
)
from skdpsynth.utils import PeakMemory, RunFolder

REAL = "real data"  # the name of the reference among the synthesizers
# The setting of the reference that compares with a setting of the synthesizers.
REFERENCE = {"B": "A", "C": "C"}
# What is scored, and how it is written: of labels, and of a target that is a number.
Metric = Literal["auroc", "auprc", "r2", "rmse"]
METRICS: dict[Metric, str] = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "r2": "R²",
    "rmse": "RMSE",
}
BOOSTING = "HistGradientBoosting"
# Whose scores lead, of labels and of numbers: the strongest of those that are scored.
LEADING = (BOOSTING, "HistGradientBoostingRegressor")
ALL = "all"  # in the place of a classifier, for what is about the whole table
_PLOTTED_ROWS = 1_000  # of a run: shares with an error of 1.6 % at most
_MEASURED = ("epsilon_spent", "delta", "fit_s", "sample_s", "score_s", "peak_mb")


@dataclass(frozen=True)
class Job:
    """What identifies a run; without a synthesizer it is the reference."""

    name: str
    synthesizer: BaseEstimator | None
    epsilon: float
    repeat: int
    seed: int

    @property
    def class_name(self) -> str:
        """Name of the synthesizer's class; empty for the reference."""
        return "" if self.synthesizer is None else type(self.synthesizer).__name__


@dataclass(frozen=True)
class Task:
    """What all runs of a comparison share; see `compare_synthesizers`."""

    target: str
    n_samples: int
    settings: str
    classifiers: Classifiers
    pos_label: object
    sampling_strategy: str | Mapping[Hashable, float] | None
    fidelity: bool


@dataclass
class RunRecord:
    """What a run leaves, of plain types: a row of `runs`, and rows of `scores`.

    `sample` has some synthetic rows for plots, of the first repeat only.
    """

    row: dict[str, Any]
    scores: list[list[Any]] = field(default_factory=list)
    sample: list[PlainColumn] = field(default_factory=list)


def run(job: Job, task: Task, train: pd.DataFrame, test: pd.DataFrame) -> RunRecord:
    """Fit, sample and score once; an error becomes a part of the record."""
    record = RunRecord(
        {
            "synthesizer": job.name,
            "class": job.class_name,
            "epsilon": job.epsilon,
            "repeat": job.repeat,
            **dict.fromkeys(_MEASURED, np.nan),
            "warned": "",
            "error": "",
        }
    )
    # One task of joblib per run: inside it the classifiers take turns, so that no
    # backend sends the tables around again.
    with collected_warnings() as warned, parallel_config(backend="sequential"):
        try:
            table = _table(job, task, train, record.row)
            start = time.perf_counter()
            _score(job, task, table, train, test, record)
            record.row["score_s"] = time.perf_counter() - start
        except Exception as error:  # whatever it is, the other runs go on
            record.row["error"] = f"{type(error).__name__}: {error}"
            record.scores.clear()
    record.row["warned"] = "\n".join(warned)
    return record


def _table(
    job: Job, task: Task, train: pd.DataFrame, row: dict[str, Any]
) -> pd.DataFrame:
    """Return the rows to score: synthetic ones, or as many real ones."""
    if job.synthesizer is None:
        return _real_rows(job, task, train)
    synthesizer = clone(job.synthesizer)
    with PeakMemory() as memory:
        start = time.perf_counter()
        # A frame of its own on the same values: columns that it adds or drops are not
        # those of the next run.
        synthesizer.fit(train.copy(deep=False))
        row["fit_s"] = time.perf_counter() - start
        # What the fit charged, whatever happens next.
        row["epsilon_spent"] = float(getattr(synthesizer, "epsilon_", np.nan))
        row["delta"] = float(getattr(synthesizer, "delta_", np.nan))
        start = time.perf_counter()
        table: pd.DataFrame = synthesizer.sample(
            task.n_samples,
            sampling_strategy=task.sampling_strategy,
            random_state=job.seed,
        )
        row["sample_s"] = time.perf_counter() - start
    row["peak_mb"] = memory.megabytes
    return table


def _real_rows(job: Job, task: Task, train: pd.DataFrame) -> pd.DataFrame:
    """Draw the rows of the reference, none twice: as many as are sampled, at most.

    In the counts of classes that are asked for: other shares of a rare class have other
    scores.
    """
    counts = task.sampling_strategy
    # The sum of shares is 1, and no table has one row.
    if not isinstance(counts, Mapping) or sum(counts.values()) != task.n_samples:
        return train.sample(min(task.n_samples, len(train)), random_state=job.seed)
    labels = train[task.target].reset_index(drop=True)
    labels = labels.sample(frac=1, random_state=job.seed)
    drawn = np.zeros(len(labels), dtype=bool)
    for label, count in counts.items():
        drawn[np.flatnonzero(labels == label)[: int(count)]] = True
    return train.iloc[labels.index[drawn]]


def _score(
    job: Job,
    task: Task,
    table: pd.DataFrame,
    train: pd.DataFrame,
    test: pd.DataFrame,
    record: RunRecord,
) -> None:
    """Fill the scores of a record, and its rows for plots."""
    shared: dict[str, Any] = {
        "target": task.target,
        "classifiers": task.classifiers,
        "pos_label": task.pos_label,
    }
    tested_on_real = "A" if job.synthesizer is None else "B"
    if tested_on_real in task.settings:
        scores = tstr_scores(table, test, n_jobs=1, **shared)
        record.scores += _tidy(tested_on_real, scores)
    # The reference too: how well as many real rows agree says what to expect.
    if "C" in task.settings and _has_labels(table, task):
        record.scores += _tidy("C", synthetic_only_scores(table, **shared))
    if task.fidelity:
        found = _fidelity(table, train, test, task)
        record.scores += [["fidelity", ALL, name, found[name]] for name in found]
    if job.synthesizer is not None and job.repeat == 0:
        n_rows = min(len(table), _PLOTTED_ROWS)
        record.sample = plain_columns(table.sample(n_rows, random_state=job.seed))


def _has_labels(table: pd.DataFrame, task: Task) -> bool:
    """Return whether Setting C has two labels to learn, and warn if not."""
    labels = set(table[task.target].dropna().unique())
    if len(labels) > 1 and (task.pos_label is None or task.pos_label in labels):
        return True
    warnings.warn(
        "The rows to score have one label, or not the one in `pos_label`: they have no "
        "scores in Setting C.",
        DegradedResultWarning,
        stacklevel=2,
    )
    return False


def _tidy(setting: str, scores: pd.DataFrame) -> list[list[Any]]:
    """Turn a table of scores into rows; the mean is left out, anybody can take it."""
    return [
        [setting, classifier, metric, float(value)]
        for classifier, row in scores.drop(index="mean").iterrows()
        for metric, value in row.items()
    ]


def boosted_area(real: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    """Compute the AUC of gradient boosting that separates two tables."""
    judge = {BOOSTING: HistGradientBoostingClassifier(random_state=0)}
    return float(two_sample_scores(real, synthetic, classifiers=judge)[BOOSTING])


def _fidelity(
    table: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame, task: Task
) -> dict[str, float]:
    """Summarise the metrics of `skdpsynth.metrics` on the whole table.

    Distances are to `test`: a copy of the training rows is no better than other real
    rows then. The order of the features is that in all of `train`, as in the paper.
    """
    columns = column_fidelity(test, table)
    by_kind = columns.groupby("kind")["distance"].mean()
    relations = broken_relations(test, table)
    broken = relations.attrs["any_relation"]["synthetic"]
    two_sample = two_sample_scores(test, table)
    found = {
        "two_way": marginal_fidelity(test, table).mean(),
        "c2st": boosted_area(test, table),
        "ks": by_kind.get("number", np.nan),
        "tv": by_kind.get("category", np.nan),
        "missing": columns["missing"].mean(),
        "pairs": pair_fidelity(test, table)["difference"].mean(),
        "broken": np.nan if relations.empty else broken,
        "two_sample_linear": two_sample["LogisticRegression"],
        "two_sample_forest": two_sample["RandomForestClassifier"],
    }
    if train.shape[1] > 2:
        found["feature_ranking"] = feature_ranking_agreement(
            train, table, target=task.target, pos_label=task.pos_label
        )
    return {name: float(value) for name, value in found.items()}


_lock = threading.Lock()
_of_thread = threading.local()
_running = 0
_outside: Any = None


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect category and text of this thread's warnings, each once, instead.

    `warnings.catch_warnings` alone may leave its own state behind when blocks of two
    threads overlap: here the first that enters changes the state of the process, and
    the last that leaves restores it.
    """
    global _running, _outside
    with _lock:
        if _running == 0:
            _outside = warnings.catch_warnings()
            _outside.__enter__()
            warnings.simplefilter("always")
            warnings.showwarning = _note  # type: ignore[assignment]
        _running += 1
    found: list[str] = []
    _of_thread.texts = found
    try:
        yield found
    finally:
        del _of_thread.texts
        with _lock:
            _running -= 1
            if _running == 0:
                _outside.__exit__(None, None, None)


def _note(message: Warning | str, category: type[Warning], *_: object) -> None:
    """Take the place of `warnings.showwarning`."""
    texts = getattr(_of_thread, "texts", None)
    text = f"{category.__name__}: {message}"
    if texts is not None and text not in texts:
        texts.append(text)


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


class KeptRuns:
    """The finished runs of a comparison in a folder: one file each."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        task: Task,
        train: pd.DataFrame,
        test: pd.DataFrame,
    ) -> None:
        self._folder = RunFolder(folder, _README)
        versions = {"skdpsynth": package_version()}
        for name in _LIBRARIES:
            with suppress(importlib.metadata.PackageNotFoundError):
                versions[name] = importlib.metadata.version(name)
        digests = table_digest(train), table_digest(test)
        self._shared = [joblib.hash(task), *digests, versions]

    def read(self, job: Job) -> RunRecord | None:
        """Return the record of a run, or None if there is no whole one."""
        try:
            run = self._folder.read(*self._name_and_key(job))
            sample = [PlainColumn(**column) for column in run["sample"]]
            return RunRecord(dict(run["facts"]), list(run["scores"]), sample)
        except (ValueError, LookupError, TypeError):
            return None

    def write(self, job: Job, record: RunRecord) -> None:
        """Write the record of a run that has no error."""
        if not record.row["error"]:
            sample = [asdict(column) for column in record.sample]
            content = {"facts": record.row, "scores": record.scores, "sample": sample}
            self._folder.write(*self._name_and_key(job), content)

    def _name_and_key(self, job: Job) -> tuple[str, list[Any]]:
        """Return the name of a run's file, for people, and what determines the run."""
        synthesizer, made = job.synthesizer, type(job.synthesizer)
        parameters = {} if synthesizer is None else synthesizer.get_params(deep=False)
        kept = {k: v for k, v in parameters.items() if k not in _IGNORED}
        kind = made.__module__, made.__qualname__, joblib.hash(kept)
        key = [*self._shared, job.name, *kind, repr(job.epsilon), job.repeat, job.seed]
        return f"{job.class_name or 'real'}-{job.epsilon:g}-{job.repeat}", key


def table_digest(table: pd.DataFrame) -> str:
    """Digest names, dtypes, all categories and values of a table, not its index."""
    digest = hashlib.sha256(repr([*table.columns]).encode())
    digest.update(repr([str(dtype) for dtype in table.dtypes]).encode())
    for dtype in table.dtypes:
        if isinstance(dtype, pd.CategoricalDtype):
            digest.update(repr([dtype.ordered, *dtype.categories]).encode())
    digest.update(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())
    return digest.hexdigest()


def package_version() -> str:
    """Return the version of this package, also where it is not installed."""
    return str(sys.modules[__name__.partition(".")[0]].__version__)
