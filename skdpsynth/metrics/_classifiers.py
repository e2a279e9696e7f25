"""The twelve classifiers of the PATE-GAN paper, one beside them; five regressors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skdpsynth.exceptions import MissingDependencyError

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
        the PATE-GAN paper [1]_.

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

    References
    ----------
    .. [1] J. Jordon, J. Yoon and M. van der Schaar, "PATE-GAN: Generating Synthetic
       Data with Differential Privacy Guarantees", ICLR, 2019.
    """
    return {name: _new(CLASSIFIERS, name) for name in averaged(CLASSIFIERS)}


def resolve_classifiers(
    classifiers: Classifiers, known: Panel = CLASSIFIERS
) -> dict[str, BaseEstimator]:
    """Name the classifiers: at least one, none called "mean"; ValueError if not.

    Own ones of a list get the name of their class and a number from the second on;
    names are out of the `known` ones; None stands for all of them but `BESIDE`.
    """
    if classifiers is None:
        return {name: _new(known, name) for name in averaged(known)}
    if isinstance(classifiers, Mapping):
        chosen = dict(classifiers)
    elif are_own(classifiers, known):
        chosen = named_by_class(_listed(classifiers))
    else:
        chosen = {name: _new(known, name) for name in _listed(classifiers)}
    if not chosen or "mean" in chosen:
        raise ValueError(
            "The 'classifiers' parameter must hold at least one classifier, and none "
            f"called 'mean' (the row of means). Got {list(chosen)} instead."
        )
    return chosen


def averaged(names: Iterable[str]) -> list[str]:
    """Say which classifiers a mean is taken over: all but `BESIDE`, unless it is alone.

    So the twelve have the mean of the paper.
    """
    listed = list(names)
    return [name for name in listed if name != BESIDE] or listed


def are_own(classifiers: Classifiers, known: Panel = CLASSIFIERS) -> bool:
    """Say whether the user made the classifiers: an error of theirs is the user's.

    ValueError if an entry is neither a known name nor a classifier, or both are mixed.
    """
    if classifiers is None or isinstance(classifiers, Mapping):
        return classifiers is not None
    entries = _listed(classifiers)
    if all(isinstance(entry, str) and entry in known for entry in entries):
        return False
    # Such can be cloned and fitted.
    if all(has_methods(entry, "fit", "get_params") for entry in entries):
        return True
    own = "classifiers"
    if known is REGRESSORS:
        own = "regressors (the target holds numbers)"
    wrong = [entry for entry in entries if entry not in list(known)]
    raise ValueError(
        f"The 'classifiers' parameter must name some of {list(known)}, or hold own "
        f"{own}, in a list or in a dict by name, not both. Got {wrong} instead."
    )


def has_methods(entry: object, *names: str) -> bool:
    """Say whether it is an object, and no class, with all of these methods."""
    return not isinstance(entry, type) and all(hasattr(entry, name) for name in names)


def _listed(classifiers: Sequence[str] | Sequence[BaseEstimator]) -> list[Any]:
    """Make a list, also of one name or classifier."""
    # An unfitted forest has a length that cannot be asked for: it is no list.
    alone = isinstance(classifiers, str | BaseEstimator)
    return [classifiers] if alone else list(classifiers)
