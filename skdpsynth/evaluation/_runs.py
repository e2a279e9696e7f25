"""One run of a comparison: fit, sample and score, and the folder of finished runs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
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
    feature_ranking_agreement,
    marginal_fidelity,
    synthetic_only_scores,
    tstr_scores,
    two_sample_scores,
)
from skdpsynth.utils import DAMAGED

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
_MEASURED = ("epsilon_spent", "delta", "fit_s", "sample_s", "score_s")


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
    start = time.perf_counter()
    # A frame of its own on the same values: columns that it adds or drops are not those
    # of the next run.
    synthesizer.fit(train.copy(deep=False))
    row["fit_s"] = time.perf_counter() - start
    # What the fit charged, whatever happens next.
    row["epsilon_spent"] = float(getattr(synthesizer, "epsilon_", np.nan))
    row["delta"] = float(getattr(synthesizer, "delta_", np.nan))
    start = time.perf_counter()
    table: pd.DataFrame = synthesizer.sample(
        task.n_samples, sampling_strategy=task.sampling_strategy, random_state=run.seed
    )
    row["sample_s"] = time.perf_counter() - start
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
    relations = broken_relations(test, table)
    broken = relations.attrs["any_relation"]["synthetic"]
    scores = {
        "two_way": marginal_fidelity(test, table).mean(),
        "c2st": boosted_area(test, table),
        "broken": np.nan if relations.empty else broken,
    }
    if train.shape[1] > 2:
        scores["feature_ranking"] = feature_ranking_agreement(
            train, table, target=task.target
        )
    return scores


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect category and text of warnings, each once, instead of showing them.

    In the main thread of a process alone: blocks of several threads would leave the
    filters of one another behind.
    """
    texts: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield texts
        return
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            yield texts
        finally:
            listed = (f"{w.category.__name__}: {w.message}" for w in caught)
            texts += dict.fromkeys(listed)


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
    """The finished runs of a comparison in a folder, one JSON file each: no rows."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        task: Task,
        train: pd.DataFrame,
        test: pd.DataFrame,
    ) -> None:
        self._path = Path(folder)
        self._path.mkdir(parents=True, exist_ok=True)
        (self._path / "README.txt").write_text(_README, encoding="utf-8")
        versions = {"skdpsynth": package_version()}
        for name in _LIBRARIES:
            with suppress(importlib.metadata.PackageNotFoundError):
                versions[name] = importlib.metadata.version(name)
        self._shared = [joblib.hash(task), *map(_digest, (train, test)), versions]

    def read(self, run: Run) -> Run:
        """Return a run with what it left, if there is a whole file of it."""
        path, key = self._file_and_key(run)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            return replace(run, **document["run"]) if document["key"] == key else run
        except (OSError, *DAMAGED):
            return run  # absent, torn or of another kind: it is made again

    def write(self, run: Run, made: Run) -> None:
        """Write what a run left, unless it failed; never half of it."""
        if made.row["error"]:
            return
        path, key = self._file_and_key(run)
        content = {"key": key, "run": {"row": made.row, "scores": made.scores}}
        handle, draft = tempfile.mkstemp(dir=self._path, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(content, file)
            os.replace(draft, path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise

    def _file_and_key(self, run: Run) -> tuple[Path, str]:
        """Return the file of a run, and a digest of what determines the run."""
        synthesizer, made = run.synthesizer, type(run.synthesizer)
        parameters = {} if synthesizer is None else synthesizer.get_params(deep=False)
        kept = {k: v for k, v in parameters.items() if k not in _IGNORED}
        kind = made.__module__, made.__qualname__, joblib.hash(kept)
        parts = [*self._shared, run.name, *kind, repr(run.epsilon), run.repeat]
        key = hashlib.sha256(json.dumps([*parts, run.seed]).encode()).hexdigest()
        name = f"{run.class_name or 'real'}-{run.epsilon:g}-{run.repeat}-{key[:16]}"
        return self._path / f"{name}.json", key


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
