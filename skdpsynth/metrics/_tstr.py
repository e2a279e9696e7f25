"""Scores of what learns from one table and is tested on another."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any

import pandas as pd

from skdpsynth.exceptions import DegradedResultWarning, InvalidTableError
from skdpsynth.metrics._encode import (
    check_tables,
    is_measurement,
    split_rows,
    without_identifiers,
)
from skdpsynth.metrics._panel import Classifiers, score_panel
from skdpsynth.utils import warn_deprecated

# From a table to train on, one to test on and the setting to their scores.
Scorer = Callable[[pd.DataFrame, pd.DataFrame, str], pd.DataFrame]


def tstr_scores(
    synthetic: pd.DataFrame,
    test: pd.DataFrame,
    *,
    target: Hashable,
    classifiers: Classifiers = None,
    pos_label: object = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Score classifiers or regressors trained on synthetic rows, tested on real ones.

    Parameters
    ----------
    synthetic : DataFrame or Arrow table
        Table to train on, with the columns of `test` in any order; of pandas, polars or
        whatever else speaks Arrow.
    test : DataFrame or Arrow table
        Real table to test on, best one that the synthesizer never saw. At least two
        labels, or two values of a measurement.
    target : column name
        Name of the column to predict. Numbers with fractions in `test`, more than 20
        distinct ones, or times are a measurement, and regressors are scored. Anything
        else is a label; cast numbers to str where more of them are labels.
    classifiers : dict of str to classifier, list, or None, default=None
        Own scikit-learn classifiers by name; a list of them, which get the names of
        their classes; or a list of names out of the twelve of `default_classifiers` and
        "HistGradientBoosting". None means all twelve. For a measurement own regressors,
        or names out of the five of Notes, and None means all five.
    pos_label : object, default=None
        Label to score against all others. None means, of two labels, True, 1 beside 0,
        or else the rarer one of `test`; and of more the mean over all, each against the
        rest. A measurement has none.
    n_jobs : int or None, default=None
        Classifiers trained at the same time, as in joblib.

    Returns
    -------
    DataFrame of shape (n_classifiers + 1, 2)
        Columns `auroc` (area under the ROC curve) and `auprc` (average precision), both
        in [0, 1]; one row for each classifier and a last row `mean`, which leaves
        "HistGradientBoosting" out unless it is alone. For a measurement columns `r2`
        (share of the variance that is explained: 1 is best, 0 is what the mean of
        `test` gets, and below it is worse) and `rmse` (root of the mean squared error,
        in the unit of the target), by regressor. The scores are computed from real
        rows and are not differentially private:
        ``attrs["contains_private_statistics"]`` is True; ``attrs["pos_label"]`` is the
        label, if it is one and a synthetic row has it.

    Raises
    ------
    InvalidTableError
        If the tables do not have the same columns, are empty, have missing labels,
        infinite values or columns of different kinds, or `test` has one label.
    MissingDependencyError
        If the twelve are asked for and the module xgboost is not installed.
    ValueError
        If `classifiers` or `pos_label` is not as above.

    Warns
    -----
    DegradedResultWarning
        If no classifier, or one of the twelve, can learn from `synthetic`, or a label
        is not in it, or texts that differ in every row were left out. What cannot be
        learnt scores as a guess does: an AUROC of 0.5 and, as AUPRC, the share of the
        label in `test`. A regressor guesses the synthetic mean.

    Notes
    -----
    This is Setting B of [1]_. Category columns are one-hot over the categories of both
    tables, a missing one being a category, and those beyond the 100 most frequent of
    the table to train on being one. A missing number is replaced by the
    synthetic median. Booleans and times are numbers. All features are standardised by
    the synthetic table; a column that is constant there is 0. A classifier without
    `predict_proba` is scored by its `decision_function`.

    The five regressors are scikit-learn's Ridge, KNeighborsRegressor,
    RandomForestRegressor, GradientBoostingRegressor and HistGradientBoostingRegressor
    with their defaults and ``random_state=0`` where there is one.

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
    tables = _learnable(check_tables(target, test=test, synthetic=synthetic), target)
    labels = tables["test"][target]
    score = _scorer(labels, classifiers, pos_label, n_jobs)
    scores = score(tables["synthetic"], tables["test"], "B")
    scores.attrs["contains_private_statistics"] = True
    label = positive_label(labels, pos_label)  # of a real row alone it is not told
    told = label in {*tables["synthetic"][target]}
    scores.attrs["pos_label"] = label if told else None
    return scores


def setting_scores(
    train: pd.DataFrame,
    test: pd.DataFrame,
    synthetic: pd.DataFrame,
    *,
    target: Hashable,
    classifiers: Classifiers = None,
    pos_label: object = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Score in the three settings of the PATE-GAN paper; until 0.5."""
    remedy = "Use tstr_scores() of each setting, or compare_synthesizers()."
    what = "setting_scores()"
    warn_deprecated(what, since="0.3", removed_in="0.5", remedy=remedy)
    tables = check_tables(target, test=test, train=train, synthetic=synthetic)
    tables = _learnable(tables, target)
    test, train, synthetic = tables["test"], tables["train"], tables["synthetic"]
    parts_of_c = _split(synthetic, target, len(test) / (len(train) + len(test)))
    score = _scorer(test[target], classifiers, pos_label, n_jobs)
    settings = {"A": (train, test), "B": (synthetic, test), "C": parts_of_c}
    parts = {name: score(*pair, name) for name, pair in settings.items()}
    scores = pd.concat(parts, axis=1, names=["setting", "metric"])
    scores.attrs["contains_private_statistics"] = True
    return scores


def synthetic_only_scores(
    synthetic: pd.DataFrame,
    *,
    target: Hashable,
    classifiers: Classifiers = None,
    pos_label: object = None,
    held_out: float = 0.2,
) -> pd.DataFrame:
    """Score classifiers in Setting C alone, without a real row.

    The share `held_out` is given: that of the real rows is private.
    """
    tables = _learnable(check_tables(target, synthetic=synthetic), target)
    table = tables["synthetic"]
    parts = _split(table, target, held_out)
    score = _scorer(table[target], classifiers, pos_label, 1, of="synthetic")
    scores = score(*parts, "C")
    scores.attrs["contains_private_statistics"] = False
    return scores


def _learnable(
    tables: dict[str, pd.DataFrame], target: Hashable
) -> dict[str, pd.DataFrame]:
    """Leave out columns of texts that differ in every row, and say so."""
    tables, left_out = without_identifiers(tables, target)
    if left_out:
        warnings.warn(
            f"Left out of the scores, since every row has another text: {left_out}."
            " Drop such columns before to be rid of this warning.",
            DegradedResultWarning,
            stacklevel=3,
        )
    return tables


def positive_label(column: pd.Series, given: object = None) -> Any:  # noqa: ANN401
    """Return which label is scored: the one given, or of two the one to be found."""
    if is_measurement(column, given) or given is not None:
        return given
    counts = column.astype(object).value_counts()
    labels = sorted(counts.index, key=str, reverse=True)
    if len(labels) != 2:
        return None
    return labels[0] if {*labels} == {0, 1} else min(labels, key=counts.get)


def _scorer(
    column: pd.Series,
    classifiers: Classifiers,
    pos_label: object,
    n_jobs: int | None,
    *,
    of: str = "test",
) -> Scorer:
    """Return how tables are scored: by what their target is in one of them."""
    labels, pos_label = None, positive_label(column, pos_label)
    if not is_measurement(column, pos_label):
        with suppress(TypeError):  # its words may hold a label
            labels = sorted(column.astype(object).unique())
        if labels is None:
            raise InvalidTableError(
                f"Expected labels of one type in the target column {column.name!r}, "
                "but they cannot be sorted. Cast the column to one type."
            )
    if column.nunique() < 2:
        raise InvalidTableError(
            f"Expected at least two labels or values in the target column "
            f"{column.name!r} of '{of}', but there is one. Test on a table with more."
        )
    if labels and pos_label is not None:
        if pos_label not in labels:
            raise ValueError(
                f"The 'pos_label' parameter must be one of the labels in '{of}'. Got a "
                f"{type(pos_label).__name__} that is none of them instead."
            )
        labels = [pos_label]
    return partial(
        score_panel,
        target=column.name,
        labels=labels,
        classifiers=classifiers,
        n_jobs=n_jobs,
    )


def _split(
    table: pd.DataFrame, target: Hashable, share: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Hold out a share of the rows for Setting C."""
    if len(table) < 2:
        raise InvalidTableError(
            "Expected at least two rows in 'synthetic' for Setting C, but got one. "
            "Sample more rows."
        )
    n_rows = min(max(round(share * len(table)), 1), len(table) - 1)
    return split_rows(table, target, n_rows, "held out")
