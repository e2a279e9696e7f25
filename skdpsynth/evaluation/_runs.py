"""One run of a comparison: fit, sample and score, and the folder of finished runs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import threading
import time
import warnings
from collections.abc import Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import joblib
import numpy as np
import pandas as pd
from joblib import parallel_config
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier

from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.metrics import (
    Classifiers,
    broken_relations,
    check_tables,
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
RUN = ["synthesizer", "epsilon", "repeat"]  # identifies a run
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
class Task:
    """What all runs of a comparison share; see `compare_synthesizers`."""

    target: str
    n_samples: int
    settings: str
    classifiers: Classifiers
    pos_label: object
    sampling_strategy: str | Mapping[Hashable, float] | None
    fidelity: bool


@dataclass(frozen=True)
class Run:
    """What identifies a run, and what it leaves; no synthesizer: the reference."""

    name: str
    synthesizer: BaseEstimator | None
    epsilon: float
    repeat: int
    seed: int
    row: dict[str, Any] = field(default_factory=dict)
    scores: list[list[Any]] = field(default_factory=list)
    sample: pd.DataFrame | None = None

    @property
    def class_name(self) -> str:
        """Name of the synthesizer's class; empty for the reference."""
        return "" if self.synthesizer is None else type(self.synthesizer).__name__


def make(
    number: int, run: Run, task: Task, train: pd.DataFrame, test: pd.DataFrame
) -> tuple[int, Run]:
    """Fit, sample and score once; return an error as a part of the run."""
    row = {"synthesizer": run.name, "class": run.class_name, "epsilon": run.epsilon}
    row |= {"repeat": run.repeat, **dict.fromkeys(_MEASURED, np.nan)}
    row |= {"warned": "", "error": ""}
    scores, sample = [], None
    # One task of joblib per run: inside it the classifiers take turns, so that no
    # backend sends the tables around again.
    with collected_warnings() as warned, parallel_config(backend="sequential"):
        try:
            table = _rows(run, task, train, row)
            start = time.perf_counter()
            scores = [*_scores(run, task, table, train, test)]
            row["score_s"] = time.perf_counter() - start
            if run.synthesizer is not None and run.repeat == 0:
                n_rows = min(len(table), _PLOTTED_ROWS)
                sample = table.sample(n_rows, random_state=run.seed)
                sample = check_tables(None, sample=sample)["sample"]
        except Exception as error:  # whatever it is, the other runs go on
            row["error"] = f"{type(error).__name__}: {error}"
            scores = []
    row["warned"] = "\n".join(warned)
    # The synthesizer need not be sent back.
    return number, replace(run, synthesizer=None, row=row, scores=scores, sample=sample)


def _rows(
    run: Run, task: Task, train: pd.DataFrame, row: dict[str, Any]
) -> pd.DataFrame:
    """Return the rows to score: synthetic ones, or as many real ones."""
    if run.synthesizer is None:
        return _real_rows(run, task, train)
    synthesizer = clone(run.synthesizer)
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
            random_state=run.seed,
        )
        row["sample_s"] = time.perf_counter() - start
    row["peak_mb"] = memory.megabytes
    return table


def _real_rows(run: Run, task: Task, train: pd.DataFrame) -> pd.DataFrame:
    """Draw the rows of the reference, none twice: as many as are sampled, at most.

    In the counts of classes that are asked for: other shares of a rare class have other
    scores.
    """
    counts = task.sampling_strategy
    # The sum of shares is 1, and no table has one row.
    if not isinstance(counts, Mapping) or sum(counts.values()) != task.n_samples:
        return train.sample(min(task.n_samples, len(train)), random_state=run.seed)
    labels = train[task.target].reset_index(drop=True)
    labels = labels.sample(frac=1, random_state=run.seed)
    drawn = np.zeros(len(labels), dtype=bool)
    for label, count in counts.items():
        drawn[np.flatnonzero(labels == label)[: int(count)]] = True
    return train.iloc[labels.index[drawn]]


def _scores(
    run: Run, task: Task, table: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame
) -> Iterator[list[Any]]:
    """Yield setting, classifier, metric and value of every score."""
    shared: dict[str, Any] = {
        "target": task.target,
        "classifiers": task.classifiers,
        "pos_label": task.pos_label,
    }
    settings = {}
    tested_on_real = "A" if run.synthesizer is None else "B"
    if tested_on_real in task.settings:
        settings[tested_on_real] = tstr_scores(table, test, n_jobs=1, **shared)
    if "C" in task.settings:
        # The reference too: how well as many real rows agree says what to expect.
        labels = set(table[task.target].dropna().unique())
        if len(labels) > 1 and (task.pos_label is None or task.pos_label in labels):
            settings["C"] = synthetic_only_scores(table, **shared)
        else:
            warnings.warn(
                "The rows to score have one label, or not the one in `pos_label`: they "
                "have no scores in Setting C.",
                DegradedResultWarning,
                stacklevel=2,
            )
    for setting, scores in settings.items():
        for classifier, of_metric in scores.drop(index="mean").iterrows():
            for metric, value in of_metric.items():
                yield [setting, classifier, metric, float(value)]
    if task.fidelity:
        for metric, value in _fidelity(table, train, test, task).items():
            yield ["fidelity", ALL, metric, float(value)]


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
    scores = {
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
        scores["feature_ranking"] = feature_ranking_agreement(
            train, table, target=task.target, pos_label=task.pos_label
        )
    return scores


_lock, _of_thread, _outside = threading.Lock(), threading.local(), ExitStack()
_collecting: list[list[str]] = []


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect category and text of this thread's warnings, each once, instead.

    `warnings.catch_warnings` alone may leave its own state behind when blocks of two
    threads overlap: here the first that enters changes the state of the process, and
    the last that leaves restores it.
    """
    texts: list[str] = []
    with _lock:
        if not _collecting:
            _outside.enter_context(warnings.catch_warnings(action="always"))
            warnings.showwarning = _note  # type: ignore[assignment]
        _collecting.append(texts)
    _of_thread.texts = texts
    try:
        yield texts
    finally:
        del _of_thread.texts
        with _lock:
            _collecting.pop()
            if not _collecting:
                _outside.close()


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
    """The finished runs of a comparison in a folder, one file each: no rows."""

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
        self._shared = [joblib.hash(task), *map(_digest, (train, test)), versions]

    def read(self, run: Run) -> Run:
        """Return a run with what it left, if there is a whole file of it."""
        content = self._folder.read(*self._name_and_key(run))
        with suppress(TypeError):  # of another kind: the run is made again
            return replace(run, **content)
        return run

    def write(self, run: Run, made: Run) -> None:
        """Write what a run left, unless it failed."""
        if not made.row["error"]:
            content = {"row": made.row, "scores": made.scores}
            self._folder.write(*self._name_and_key(run), content)

    def _name_and_key(self, run: Run) -> tuple[str, list[Any]]:
        """Return the name of a run's file, for people, and what determines the run."""
        synthesizer, made = run.synthesizer, type(run.synthesizer)
        parameters = {} if synthesizer is None else synthesizer.get_params(deep=False)
        kept = {k: v for k, v in parameters.items() if k not in _IGNORED}
        kind = made.__module__, made.__qualname__, joblib.hash(kept)
        key = [*self._shared, run.name, *kind, repr(run.epsilon), run.repeat, run.seed]
        return f"{run.class_name or 'real'}-{run.epsilon:g}-{run.repeat}", key


def _digest(table: pd.DataFrame) -> str:
    """Digest names, dtypes, all categories and values of a table, not its index."""
    dtypes = [
        (str(dtype), *getattr(dtype, "categories", ()), getattr(dtype, "ordered", None))
        for dtype in table.dtypes
    ]
    digest = hashlib.sha256(repr([*table.columns, *dtypes]).encode())
    digest.update(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())
    return digest.hexdigest()


def package_version() -> str:
    """Return the version of this package, also where it is not installed."""
    return str(sys.modules[__name__.partition(".")[0]].__version__)
