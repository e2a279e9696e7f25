"""The panel of classifiers or regressors: fitted to one table, scored on another."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skdpsynth.exceptions import DegradedResultWarning, MissingDependencyError
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

    ScoreOne = Callable[[BaseEstimator, bool], tuple[tuple[float, float], str | None]]

Classifiers = (
    Mapping[str, BaseEstimator] | Sequence[str] | Sequence[BaseEstimator] | None
)


def _xgboost() -> BaseEstimator:
    """Make the one classifier that is not scikit-learn's."""
    try:
        from xgboost import XGBClassifier
    except ImportError as exc:
        raise MissingDependencyError(
            "Expected the module xgboost for the classifier 'XGBClassifier', but it is "
            "not installed. Install the distribution `xgboost`, or `xgboost-cpu` (the "
            "same without GPU libraries), or name the other classifiers in "
            "`classifiers`."
        ) from exc
    # One thread: the panel is parallel over classifiers.
    classifier: BaseEstimator = XGBClassifier(n_jobs=1, random_state=0)
    return classifier


def named_by_class(entries: Iterable[BaseEstimator]) -> dict[str, BaseEstimator]:
    """Name estimators by their classes; number those that have one in common."""
    named: dict[str, BaseEstimator] = {}
    for entry in entries:
        name = type(entry).__name__
        same = sum(type(other).__name__ == name for other in named.values())
        named[f"{name} {same + 1}" if same else name] = entry
    return named


# Of today, for what the twelve are too weak to see; no part of the paper's mean. Its
# name is not that of its class, under which a list of own classifiers may have one.
BESIDE = "HistGradientBoosting"
_TWELVE = (
    LogisticRegression(max_iter=500, random_state=0),
    RandomForestClassifier(n_estimators=100, random_state=0),
    GaussianNB(),
    BernoulliNB(),
    LinearSVC(random_state=0),
    DecisionTreeClassifier(random_state=0),
    LinearDiscriminantAnalysis(),
    AdaBoostClassifier(random_state=0),
    BaggingClassifier(random_state=0),
    GradientBoostingClassifier(random_state=0),
    MLPClassifier((18, 18, 18), activation="tanh", max_iter=60, random_state=0),
)  # and `_xgboost`
Panel = Mapping[str, BaseEstimator | None]
CLASSIFIERS: Panel = named_by_class(_TWELVE) | {
    "XGBClassifier": None,
    BESIDE: HistGradientBoostingClassifier(random_state=0),
}
# For a target that is a number. A line, neighbours, and trees that average: a single
# grown tree, as a plain line on columns that repeat each other, follows every noise.
REGRESSORS: Panel = named_by_class(
    (
        Ridge(random_state=0),
        KNeighborsRegressor(),
        RandomForestRegressor(random_state=0),
        GradientBoostingRegressor(random_state=0),
        HistGradientBoostingRegressor(random_state=0),
    )
)


def _new(known: Panel, name: str) -> BaseEstimator:
    return clone(known[name]) if known[name] is not None else _xgboost()


def default_classifiers() -> dict[str, BaseEstimator]:
    """Make the twelve classifiers that the scores are averaged over.

    Returns
    -------
    dict of str to classifier
        New, unfitted classifiers by the name of their class, in the order of Table 1 of
        the PATE-GAN paper, which `tstr_scores` cites.

    Raises
    ------
    MissingDependencyError
        If the module xgboost is not installed.

    Notes
    -----
    All have the default parameters of their library and ``random_state=0`` where there
    is one, but: LogisticRegression with 500 iterations, and MLPClassifier with three
    hidden layers of 18 tanh units and 60 iterations. The paper prints XGBoostRegressor;
    its classifier is used.

    `tstr_scores` and its like know one more by its name, "HistGradientBoosting":
    scikit-learn's `HistGradientBoostingClassifier` with ``random_state=0``. It is
    scored beside the twelve and is no part of their mean:
    ``classifiers=[*default_classifiers(), "HistGradientBoosting"]``.
    """
    return {name: _new(CLASSIFIERS, name) for name in averaged(CLASSIFIERS)}


def resolve_classifiers(
    classifiers: Classifiers, known: Panel = CLASSIFIERS
) -> tuple[dict[str, BaseEstimator], bool]:
    """Name the classifiers; say whether the user made them, so that errors are theirs.

    Own ones of a list get the name of their class and a number from the second on;
    names are out of the `known` ones; None stands for all of them but `BESIDE`. At
    least one, none called "mean"; ValueError if not.
    """
    if classifiers is None:
        return {name: _new(known, name) for name in averaged(known)}, False
    if isinstance(classifiers, Mapping):
        chosen, own = dict(classifiers), True
    else:
        # An unfitted forest has a length that cannot be asked for: it is no list.
        alone = isinstance(classifiers, str | BaseEstimator)
        entries: list[Any] = [classifiers] if alone else list(classifiers)
        own = not all(isinstance(entry, str) and entry in known for entry in entries)
        if own and not all(has_methods(e, "fit", "get_params") for e in entries):
            what = "classifiers"
            if known is REGRESSORS:
                what = "regressors (the target holds numbers)"
            wrong = [entry for entry in entries if entry not in list(known)]
            raise ValueError(
                f"The 'classifiers' parameter must name some of {list(known)}, or hold "
                f"own {what}, in a list or in a dict by name, not both. Got {wrong} "
                "instead."
            )
        listed = {} if own else {name: _new(known, name) for name in entries}
        chosen = named_by_class(entries) if own else listed
    if not chosen or "mean" in chosen:
        raise ValueError(
            "The 'classifiers' parameter must hold at least one classifier, and none "
            f"called 'mean' (the row of means). Got {list(chosen)} instead."
        )
    return chosen, own


def averaged(names: Iterable[str]) -> list[str]:
    """Say which classifiers a mean is taken over: all but `BESIDE`, unless it is alone.

    So the twelve have the mean of the paper.
    """
    listed = list(names)
    return [name for name in listed if name != BESIDE] or listed


def has_methods(entry: object, *names: str) -> bool:
    """Say whether it is an object, and no class, with all of these methods."""
    return not isinstance(entry, type) and all(hasattr(entry, name) for name in names)


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
    """Score a panel and its mean; say which could not be fitted."""
    panel, own = resolve_classifiers(classifiers, known)
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
