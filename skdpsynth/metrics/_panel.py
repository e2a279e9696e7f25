"""Train a panel of classifiers or regressors on one table, and score it on another."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import average_precision_score, roc_auc_score

from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.metrics._classifiers import (
    CLASSIFIERS,
    REGRESSORS,
    Classifiers,
    Panel,
    are_own,
    averaged,
    resolve_classifiers,
)
from skdpsynth.metrics._encode import (
    Matrix,
    common_kind,
    encode_features,
    finite_numbers,
    standardize,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    # Fits a copy; gives two scores, and the name of the error of a fit that failed.
    ScoreOne = Callable[[BaseEstimator, bool], tuple[tuple[float, float], str | None]]

_AREAS = ["auroc", "auprc"]
_ERRORS = ["r2", "rmse"]
_OF_LABELS = "an AUROC of 0.5 and the base rate as AUPRC"
_OF_NUMBERS = "the mean of its target for every row"


def score_classifiers(
    train: pd.DataFrame,
    test: pd.DataFrame,
    setting: str,
    *,
    target: str,
    labels: list[Any],
    classifiers: Classifiers,
    n_jobs: int | None,
) -> pd.DataFrame:
    """Train all classifiers on one table and score them on another."""
    X_train, X_test = _features(train, test, target)
    codes, known = pd.factorize(train[target].astype(object), sort=False)
    truths = np.column_stack([test[target].astype(object) == label for label in labels])
    # Where each scored label stands among the labels of the training table, or -1.
    places = [np.flatnonzero(known == label) for label in labels]
    columns = [int(next(iter(place), -1)) for place in places]
    unknown = columns.count(-1)
    if len(known) < 2 or not X_train.any():
        what = "one label only" if len(known) < 2 else "no feature that varies"
        _warn_degraded(setting, what, _OF_LABELS)
        columns = [-1] * len(labels)
    elif unknown:
        what = f"no row of {unknown} of the {len(labels)} labels scored"
        _warn_degraded(setting, what, _OF_LABELS)
    one = partial(_classified, data=(X_train, codes, X_test, truths), columns=columns)
    scores, failures = _scored(one, classifiers, CLASSIFIERS, n_jobs)
    for what in failures:
        _warn_degraded(setting, what, _OF_LABELS)
    return scores.set_axis(_AREAS, axis=1).rename_axis("classifier")


def score_regressors(
    train: pd.DataFrame,
    test: pd.DataFrame,
    setting: str,
    *,
    target: str,
    classifiers: Classifiers,
    n_jobs: int | None,
) -> pd.DataFrame:
    """Train all regressors on one table and score them on another."""
    X_train, X_test = _features(train, test, target)
    kind = common_kind(train[target], test[target], target)
    y_train, y_test = (finite_numbers(part[target], kind) for part in (train, test))
    if not X_train.any():
        _warn_degraded(setting, "no feature that varies", _OF_NUMBERS)
    one = partial(_regressed, data=(X_train, y_train, X_test, y_test))
    scores, failures = _scored(one, classifiers, REGRESSORS, n_jobs)
    for what in failures:
        _warn_degraded(setting, what, _OF_NUMBERS)
    return scores.set_axis(_ERRORS, axis=1).rename_axis("regressor")


def _features(
    train: pd.DataFrame, test: pd.DataFrame, target: str
) -> tuple[Matrix, Matrix]:
    matrices = encode_features(train.drop(columns=target), test.drop(columns=target))
    return standardize(matrices[0], matrices[1])


def _scored(
    one: ScoreOne, classifiers: Classifiers, known: Panel, n_jobs: int | None
) -> tuple[pd.DataFrame, list[str]]:
    """Score a panel and its mean; say of which of its members no fit succeeded."""
    panel = resolve_classifiers(classifiers, known)
    own = are_own(classifiers, known)
    results = Parallel(n_jobs=n_jobs)(
        delayed(one)(model, own) for model in panel.values()
    )
    scores = pd.DataFrame([found for found, _ in results], index=list(panel))
    scores.loc["mean"] = scores.loc[averaged(panel)].mean()
    failures = {name: error for name, (_, error) in zip(panel, results, strict=True)}
    return scores, [
        f"nothing {name} can be fitted to ({error})"
        for name, error in failures.items()
        if error is not None
    ]


def _warn_degraded(setting: str, what: str, guess: str) -> None:
    """Warn that a guess is scored instead of a classifier or regressor."""
    warnings.warn(
        f"The training table of Setting {setting} has {what}; this scores as a guess: "
        f"{guess}.",
        DegradedResultWarning,
        stacklevel=4,
    )


def _regressed(
    model: BaseEstimator, own: bool, *, data: tuple[Matrix, Matrix, Matrix, Matrix]
) -> tuple[tuple[float, float], str | None]:
    """Train one regressor; return its scores, and the error of a fit that failed."""
    X_train, y_train, X_test, y_test = data
    output, failure = np.full(len(y_test), y_train.mean()), None
    if X_train.any():
        try:
            output = np.asarray(clone(model).fit(X_train, y_train).predict(X_test))
        except ValueError as exc:
            if own:
                raise
            failure = type(exc).__name__
    squares = float(((y_test - output) ** 2).mean())
    # Of rows that are all equal nothing is left to explain.
    varies = y_test.min() < y_test.max()
    r2 = 1.0 - squares / float(y_test.var()) if varies else 0.0
    return (r2, float(np.sqrt(squares))), failure


def _classified(
    model: BaseEstimator,
    own: bool,
    *,
    data: tuple[Matrix, NDArray[np.intp], Matrix, NDArray[np.bool_]],
    columns: list[int],
) -> tuple[tuple[float, float], str | None]:
    """Train one classifier; return its scores, and the error of a fit that failed."""
    X_train, codes, X_test, truths = data
    outputs = failure = None
    if max(columns) >= 0:
        try:
            outputs = _outputs(model, X_train, codes, X_test)
        except ValueError as exc:
            # A synthetic table may be too poor for one of the twelve (LDA refuses as
            # many rows as labels). The user's own classifier is not excused.
            if own:
                raise
            failure = type(exc).__name__
    pairs = [
        _areas(truths[:, i], None if outputs is None or at < 0 else outputs[:, at])
        for i, at in enumerate(columns)
    ]
    auroc, auprc = np.mean(pairs, axis=0)
    return (float(auroc), float(auprc)), failure


def _outputs(
    model: BaseEstimator, X_train: Matrix, codes: NDArray[np.intp], X_test: Matrix
) -> Matrix:
    """Fit a copy of a classifier; return one column of scores for each label."""
    model = clone(model)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        # The panel's iterations are fixed, and one-hot columns are collinear: neither
        # says anything about the synthetic table. Here, so that it holds in workers
        # too.
        warnings.filterwarnings("ignore", message="Variables are collinear")
        model.fit(X_train, codes)
        if hasattr(model, "predict_proba"):
            return np.asarray(model.predict_proba(X_test), dtype=np.float64)
        outputs = np.asarray(model.decision_function(X_test), dtype=np.float64)
    return np.column_stack([-outputs, outputs]) if outputs.ndim == 1 else outputs


def _areas(truth: NDArray[np.bool_], output: Matrix | None) -> tuple[float, float]:
    """Compute AUROC and average precision of one label against the rest."""
    base_rate = float(truth.mean())
    # Without a classifier, or with one class only (a part of a synthetic table): a
    # guess.
    if output is None or base_rate in {0.0, 1.0}:
        return 0.5, base_rate
    auroc = float(roc_auc_score(truth, output))
    return auroc, float(average_precision_score(truth, output))
