"""Scores of classifiers that learn from one table and are tested on another."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import train_test_split

from skdpsynth.exceptions import DegradedResultWarning, InvalidTableError
from skdpsynth.metrics._classifiers import (
    Classifiers,
    are_own,
    averaged,
    resolve_classifiers,
)
from skdpsynth.metrics._encode import Matrix, check_tables, encode_features, standardize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_METRICS = ["auroc", "auprc"]


def tstr_scores(
    synthetic: pd.DataFrame,
    test: pd.DataFrame,
    *,
    target: str,
    classifiers: Classifiers = None,
    pos_label: object = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Score classifiers trained on a synthetic table and tested on a real one.

    Parameters
    ----------
    synthetic : DataFrame or Arrow table
        Table to train on, with the columns of `test` in any order; of pandas, polars or
        whatever else speaks Arrow.
    test : DataFrame or Arrow table
        Real table to test on, best one that the synthesizer never saw. At least two
        labels.
    target : str
        Name of the label column; no float column but one of whole numbers.
    classifiers : dict of str to classifier, list, or None, default=None
        Own scikit-learn classifiers by name; a list of them, which get the names of
        their classes; or a list of names out of the twelve of `default_classifiers` and
        "HistGradientBoosting". None means all twelve.
    pos_label : object, default=None
        Label to score against all others. None means the last of the two labels of
        `test` in sorted order, and with more labels the mean over all labels, each
        against the rest.
    n_jobs : int or None, default=None
        Classifiers trained at the same time, as in joblib.

    Returns
    -------
    DataFrame of shape (n_classifiers + 1, 2)
        Columns `auroc` (area under the ROC curve) and `auprc` (average precision), both
        in [0, 1]; one row for each classifier and a last row `mean`, which leaves
        "HistGradientBoosting" out unless it is alone. The scores are computed from real
        rows and are not differentially private:
        ``attrs["contains_private_statistics"]`` is True.

    Raises
    ------
    InvalidTableError
        If the tables do not have the same columns, are empty, have missing or
        continuous labels, infinite values or columns of different kinds, or `test` has
        one label.
    MissingDependencyError
        If the twelve are asked for and the module xgboost is not installed.
    ValueError
        If `classifiers` or `pos_label` is not as above.

    Warns
    -----
    DegradedResultWarning
        If no classifier, or one of the twelve, can learn from `synthetic`, or a label
        is not in it. What cannot be learnt scores as a guess does: an AUROC of 0.5 and,
        as AUPRC, the share of the label in `test`.

    Notes
    -----
    This is Setting B of [1]_. Category columns are one-hot over the levels of both
    tables, a missing category being a level. A missing number is replaced by the
    synthetic median. Booleans and times are numbers. All features are standardised by
    the synthetic table; a column that is constant there is 0. A classifier without
    `predict_proba` is scored by its `decision_function`.

    References
    ----------
    .. [1] J. Jordon, J. Yoon and M. van der Schaar, "PATE-GAN: Generating Synthetic
       Data with Differential Privacy Guarantees", ICLR, 2019.

    Examples
    --------
    >>> from skdpsynth.datasets import load_cervical_cancer
    >>> from skdpsynth.metrics import tstr_scores
    >>> table = load_cervical_cancer()
    >>> scores = tstr_scores(
    ...     table[::2], table[1::2], target="Biopsy", classifiers=["GaussianNB"]
    ... )
    >>> list(scores.index), list(scores.columns)
    (['GaussianNB', 'mean'], ['auroc', 'auprc'])
    """
    panel = resolve_classifiers(classifiers)
    tables = check_tables(target, test=test, synthetic=synthetic)
    labels = _labels_to_score(tables["test"][target], pos_label)
    pair = tables["synthetic"], tables["test"]
    scores = _score_panel(*pair, target, labels, panel, are_own(classifiers), n_jobs)
    scores.attrs["contains_private_statistics"] = True
    return scores


def setting_scores(
    train: pd.DataFrame,
    test: pd.DataFrame,
    synthetic: pd.DataFrame,
    *,
    target: str,
    classifiers: Classifiers = None,
    pos_label: object = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Score classifiers in the three settings of the PATE-GAN paper.

    Parameters
    ----------
    train : DataFrame
        Real table that the synthesizer was fitted on.
    test : DataFrame
        Real table with the same columns, of other rows. At least two labels.
    synthetic : DataFrame
        Synthetic table with the same columns. At least two rows.
    target : str
        Name of the label column; no float column but one of whole numbers.
    classifiers : dict of str to classifier, list, or None, default=None
        As in `tstr_scores`.
    pos_label : object, default=None
        As in `tstr_scores`. The labels of `test` decide in all three settings.
    n_jobs : int or None, default=None
        Classifiers trained at the same time, as in joblib.

    Returns
    -------
    DataFrame of shape (n_classifiers + 1, 6)
        One row for each classifier and a last row `mean`. The columns have two levels,
        `setting` ("A", "B", "C") and `metric` ("auroc", "auprc"), so that
        ``scores["B"]`` is what `tstr_scores` returns.
        ``attrs["contains_private_statistics"]`` is True.

    Raises
    ------
    InvalidTableError
        As in `tstr_scores`, or if `synthetic` has one row.
    MissingDependencyError
        If the twelve are asked for and the module xgboost is not installed.
    ValueError
        If `classifiers` or `pos_label` is not as in `tstr_scores`.

    Warns
    -----
    DegradedResultWarning
        As in `tstr_scores`, for each setting.

    Notes
    -----
    Setting A trains on `train` and tests on `test`; B trains on `synthetic` and tests
    on `test`; C trains and tests on two parts of `synthetic` [1]_. For C a random part
    of `synthetic`, always the same, is held out: the share that `test` has in the real
    rows, with every label in both parts in the same proportion where the counts allow.
    In each setting the table that is trained on sets the medians for missing numbers
    and the standardisation.

    References
    ----------
    .. [1] J. Jordon, J. Yoon and M. van der Schaar, "PATE-GAN: Generating Synthetic
       Data with Differential Privacy Guarantees", ICLR, 2019.

    Examples
    --------
    >>> from skdpsynth.datasets import load_cervical_cancer
    >>> from skdpsynth.metrics import setting_scores
    >>> table = load_cervical_cancer()
    >>> parts, panel = (table[::3], table[1::3], table[2::3]), ["GaussianNB"]
    >>> scores = setting_scores(*parts, target="Biopsy", classifiers=panel)
    >>> scores.loc["mean"].shape
    (6,)
    """
    panel = resolve_classifiers(classifiers)
    tables = check_tables(target, test=test, train=train, synthetic=synthetic)
    test, train, synthetic = tables["test"], tables["train"], tables["synthetic"]
    parts_of_c = _split(synthetic, target, len(test) / (len(train) + len(test)))
    labels = _labels_to_score(test[target], pos_label)
    settings = {"A": (train, test), "B": (synthetic, test), "C": parts_of_c}
    own = are_own(classifiers)
    parts = {}
    for name, pair in settings.items():
        parts[name] = _score_panel(*pair, target, labels, panel, own, n_jobs, name)
    scores = pd.concat(parts, axis=1, names=["setting", "metric"])
    scores.attrs["contains_private_statistics"] = True
    return scores


def synthetic_only_scores(
    synthetic: pd.DataFrame,
    *,
    target: str,
    classifiers: Classifiers = None,
    pos_label: object = None,
    held_out: float = 0.2,
) -> pd.DataFrame:
    """Score classifiers in Setting C alone, without a look at a real row.

    The scores are as private as the table is, and its labels count. The share
    `held_out` to test on is given: in `setting_scores` it is that of the real rows,
    whose number is private. The errors are those of `setting_scores`.
    """
    panel = resolve_classifiers(classifiers)
    table = check_tables(target, synthetic=synthetic)["synthetic"]
    parts = _split(table, target, held_out)
    labels = _labels_to_score(table[target], pos_label, of="synthetic")
    scores = _score_panel(*parts, target, labels, panel, are_own(classifiers), 1, "C")
    scores.attrs["contains_private_statistics"] = False
    return scores


def _labels_to_score(
    column: pd.Series, pos_label: object, *, of: str = "test"
) -> list[Any]:
    """Say which labels are scored against the rest."""
    if pd.api.types.is_float_dtype(column.dtype) and (column % 1 != 0).any():
        raise InvalidTableError(
            f"Expected class labels in the target column {column.name!r}, but it holds "
            "fractions. Name a column of classes in `target`, or cut this one into "
            "classes."
        )
    try:
        labels = sorted(column.astype(object).unique())
    except TypeError as exc:
        raise InvalidTableError(
            f"Expected labels of one type in the target column {column.name!r}, but "
            "they cannot be sorted. Cast the column to one type."
        ) from exc
    if len(labels) < 2:
        raise InvalidTableError(
            f"Expected at least two labels in the target column {column.name!r} of "
            f"'{of}', but there is one. Test on a table with both classes."
        )
    if pos_label is None:
        return labels[-1:] if len(labels) == 2 else labels
    if pos_label not in labels:
        raise ValueError(
            f"The 'pos_label' parameter must be one of the labels in '{of}'. Got a "
            f"{type(pos_label).__name__} that is none of them instead."
        )
    return [pos_label]


def _split(
    table: pd.DataFrame, target: str, share: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Hold out a share of the rows, by label where the counts allow."""
    if len(table) < 2:
        raise InvalidTableError(
            "Expected at least two rows in 'synthetic' for Setting C, but got one. "
            "Sample more rows."
        )
    n_test = min(max(round(share * len(table)), 1), len(table) - 1)
    label = table[target].astype(object)
    counts = label.value_counts()
    by_label = counts.min() >= 2 and len(counts) <= min(n_test, len(table) - n_test)
    kept, held_out = train_test_split(
        np.arange(len(table)),
        test_size=n_test,
        random_state=0,
        stratify=pd.factorize(label)[0] if by_label else None,
    )
    return table.iloc[kept], table.iloc[held_out]


def _score_panel(
    train: pd.DataFrame,
    test: pd.DataFrame,
    target: str,
    labels: list[Any],
    panel: Mapping[str, BaseEstimator],
    own: bool,
    n_jobs: int | None,
    setting: str = "B",
) -> pd.DataFrame:
    """Train all classifiers on one table and score them on another."""
    matrices = encode_features(train.drop(columns=target), test.drop(columns=target))
    X_train, X_test = standardize(matrices[0], matrices[1])
    codes, known = pd.factorize(train[target].astype(object), sort=False)
    truths = np.column_stack([test[target].astype(object) == label for label in labels])
    # Where each scored label stands among the labels of the training table, or -1.
    columns = [next(iter(np.flatnonzero(known == label)), -1) for label in labels]
    unknown = columns.count(-1)
    if len(known) < 2 or not X_train.any():
        what = "one label only" if len(known) < 2 else "no feature that varies"
        _warn_degraded(setting, what)
        columns = [-1] * len(labels)
    elif unknown:
        what = f"no row of {unknown} of the {len(labels)} labels scored"
        _warn_degraded(setting, what)
    results = Parallel(n_jobs=n_jobs)(
        delayed(_score_one)(model, X_train, codes, X_test, truths, columns, own)
        for model in panel.values()
    )
    for name, (_, failure) in zip(panel, results, strict=True):
        if failure is not None:
            _warn_degraded(setting, f"nothing {name} can be fitted to ({failure})")
    found = [score for score, _ in results]
    scores = pd.DataFrame(found, index=list(panel), columns=_METRICS)
    scores.loc["mean"] = scores.loc[averaged(panel)].mean()
    return scores.rename_axis("classifier")


def _warn_degraded(setting: str, what: str) -> None:
    """Warn that a guess is scored instead of a classifier."""
    warnings.warn(
        f"The training table of Setting {setting} has {what}; this scores as a guess: "
        "an AUROC of 0.5 and the base rate as AUPRC.",
        DegradedResultWarning,
        stacklevel=4,
    )


def _score_one(
    model: BaseEstimator,
    X_train: Matrix,
    codes: NDArray[np.intp],
    X_test: Matrix,
    truths: NDArray[np.bool_],
    columns: list[int],
    own: bool,
) -> tuple[tuple[float, float], str | None]:
    """Train one classifier; return its scores, and the error of a fit that failed."""
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
