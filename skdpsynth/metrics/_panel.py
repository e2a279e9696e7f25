"""The panel of classifiers or regressors: fitted to one table, scored on another."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

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
    shuffled,
    standardize,
)
from skdpsynth.utils.arrays import Bools

Pair = tuple[float, float]

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
    classifier: BaseEstimator = XGBClassifier(n_jobs=1)
    return classifier


def named_by_class(entries: Iterable[BaseEstimator]) -> dict[str, BaseEstimator]:
    """Name estimators by their classes; number those that have one in common."""
    named: dict[str, BaseEstimator] = {}
    for entry in entries:
        name = type(entry).__name__
        same = sum(type(other).__name__ == name for other in named.values())
        named[f"{name} {same + 1}" if same else name] = entry
    return named


Panel = Mapping[str, BaseEstimator | None]
# Of today, for what the twelve are too weak to see; no part of the paper's mean. Its
# name is not that of its class, under which a list of own classifiers may have one.
BESIDE = "HistGradientBoosting"
# The twelve of the PATE-GAN paper, that of `_xgboost` last, and one beside them.
CLASSIFIERS: Panel = named_by_class(
    (
        LogisticRegression(max_iter=500),
        RandomForestClassifier(),
        GaussianNB(),
        BernoulliNB(),
        LinearSVC(),
        DecisionTreeClassifier(),
        LinearDiscriminantAnalysis(),
        AdaBoostClassifier(),
        BaggingClassifier(),
        GradientBoostingClassifier(),
        MLPClassifier((18, 18, 18), activation="tanh", max_iter=60),
    )
) | {"XGBClassifier": None, BESIDE: HistGradientBoostingClassifier()}
# For a target that is a number. A line, neighbours, and trees that average: a single
# grown tree, as a plain line on columns that repeat each other, follows every noise.
REGRESSORS: Panel = named_by_class(
    (
        Ridge(),
        KNeighborsRegressor(),
        RandomForestRegressor(),
        GradientBoostingRegressor(),
        HistGradientBoostingRegressor(),
    )
)


def _new(known: Panel, name: str) -> BaseEstimator:
    made = _xgboost() if known[name] is None else clone(known[name])
    draws = "random_state" in made.get_params()
    return made.set_params(random_state=0) if draws else made


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
    """Name the classifiers; return whether the user made them, and so their errors."""
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
    """Return the classifiers of the mean: all but `BESIDE`, unless it is alone."""
    listed = list(names)
    return [name for name in listed if name != BESIDE] or listed


def has_methods(entry: object, *names: str) -> bool:
    """Return whether it is an object, and no class, with all of these methods."""
    return not isinstance(entry, type) and all(hasattr(entry, name) for name in names)


def score_panel(
    train: pd.DataFrame,
    test: pd.DataFrame,
    setting: str,
    *,
    target: str,
    labels: list[Any] | None,
    classifiers: Classifiers,
    n_jobs: int | None,
) -> pd.DataFrame:
    """Train a panel on one table and score it on another; without labels regressors."""
    train, test = shuffled(train, "train"), shuffled(test, "test")
    features = (part.drop(columns=target) for part in (train, test))
    X_train, X_test = standardize(*encode_features(*features)[:2])
    learnable = bool(X_train.any())
    poor = [] if learnable else ["no feature that varies"]
    if labels is None:
        common_kind(train[target], test[target])  # raises if one is no number
        y, y_test = (finite_numbers(part[target]) for part in (train, test))
        known = REGRESSORS
        score = partial(_errors, y_test=y_test, guess=y.mean())
        names, guess = ["r2", "rmse"], "the mean of its target for every row"
    else:
        known, names = CLASSIFIERS, ["auroc", "auprc"]
        guess = "an AUROC of 0.5 and the base rate as AUPRC"
        y, seen = pd.factorize(train[target].astype(object), sort=False)
        truths = np.column_stack([test[target].astype(object) == v for v in labels])
        # Where each scored label stands among the labels of the training table, or -1.
        places = [int(next(iter(np.flatnonzero(seen == v)), -1)) for v in labels]
        score = partial(_mean_areas, truths=truths, columns=places)
        if len(seen) < 2:
            learnable, poor = False, ["one label only"]
        elif learnable and -1 in places:
            n_absent = places.count(-1)
            poor = [f"no row of {n_absent} of the {len(labels)} labels scored"]
    data = (X_train, y, X_test) if learnable else None
    panel, own = resolve_classifiers(classifiers, known)
    results = Parallel(n_jobs=n_jobs)(
        delayed(_scored)(model, data, score, own) for model in panel.values()
    )
    for name, (_, error) in zip(panel, results, strict=True):
        if error is not None:
            poor.append(f"nothing {name} can be fitted to ({error})")
    for what in poor:
        warnings.warn(
            f"The training table of Setting {setting} has {what}; this scores as a "
            f"guess: {guess}.",
            DegradedResultWarning,
            stacklevel=3,
        )
    scores = pd.DataFrame([pair for pair, _ in results], list(panel), names)
    scores.loc["mean"] = scores.loc[averaged(panel)].mean()
    return scores.rename_axis("regressor" if labels is None else "classifier")


def _scored(
    model: BaseEstimator,
    data: tuple[Matrix, Matrix, Matrix] | None,
    score: Callable[[Matrix | None], Pair],
    own: bool,
) -> tuple[Pair, str | None]:
    """Train and score one; return its scores, and the error of a fit that failed."""
    output = failure = None
    if data is not None:
        try:
            output = _outputs(clone(model), *data)
        except ValueError as exc:
            # A synthetic table may be too poor for one of the twelve (LDA refuses as
            # many rows as labels). The user's own classifier is not excused.
            if own:
                raise
            failure = type(exc).__name__
    return score(output), failure


def _outputs(
    model: BaseEstimator, X_train: Matrix, y_train: Matrix, X_test: Matrix
) -> Matrix:
    """Fit; return predictions of numbers, or one column of scores for each label."""
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        # The panel's iterations are fixed, and one-hot columns are collinear: neither
        # says anything about the synthetic table. Here, so that it holds in workers
        # too.
        warnings.filterwarnings("ignore", message="Variables are collinear")
        model.fit(X_train, y_train)
        if y_train.dtype.kind == "f":
            return np.asarray(model.predict(X_test))
        if hasattr(model, "predict_proba"):
            return np.asarray(model.predict_proba(X_test), dtype=np.float64)
        outputs = np.asarray(model.decision_function(X_test), dtype=np.float64)
    return np.column_stack([-outputs, outputs]) if outputs.ndim == 1 else outputs


def _errors(output: Matrix | None, y_test: Matrix, guess: float) -> Pair:
    """Compute r2 and the root of the mean squared error, without a model of a guess."""
    errors = y_test - (guess if output is None else output)
    squares = float((errors**2).mean())
    # Of rows that are all equal nothing is left to explain.
    varies = y_test.min() < y_test.max()
    r2 = 1.0 - squares / float(y_test.var()) if varies else 0.0
    return r2, float(np.sqrt(squares))


def _mean_areas(outputs: Matrix | None, truths: Bools, columns: list[int]) -> Pair:
    """Compute AUROC and average precision, the means over labels against the rest."""
    pairs = []
    for truth, at in zip(truths.T, columns, strict=True):
        base_rate = float(truth.mean())
        # Without a classifier, or with one class only (a part of a synthetic table): a
        # guess.
        if outputs is None or at < 0 or base_rate in {0.0, 1.0}:
            pairs.append((0.5, base_rate))
            continue
        auroc = roc_auc_score(truth, outputs[:, at])
        pairs.append((auroc, average_precision_score(truth, outputs[:, at])))
    auroc, auprc = np.mean(pairs, axis=0)
    return float(auroc), float(auprc)
