"""Do the synthetic and the real table put things in the same order."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.feature_selection import r_regression

from skdpsynth.exceptions import InvalidTableError, TiedScoresWarning
from skdpsynth.metrics._encode import (
    Matrix,
    check_tables,
    encode_features,
    finite_numbers,
    is_measurement,
)
from skdpsynth.utils import without

Scores: TypeAlias = pd.Series | Mapping[str, float] | ArrayLike


def synthetic_ranking_agreement(real_scores: Scores, synthetic_scores: Scores) -> float:
    """Compute how often two lists of scores order two classifiers alike.

    Parameters
    ----------
    real_scores : Series, dict or array-like of shape (n_classifiers,)
        Scores of at least two classifiers in Setting A (real tables only).
    synthetic_scores : Series, dict or array-like of shape (n_classifiers,)
        Scores of the same classifiers in Setting C (synthetic table only). Two Series
        or dicts are matched by name, otherwise by position. A row `mean` is left out.

    Returns
    -------
    float
        Share of the pairs that have the same strict order in both lists, in [0, 1]; 1
        if all agree. It is computed from real rows and is not differentially private.

    Raises
    ------
    ValueError
        If the lists differ in names or length, have fewer than two scores, or hold a
        score that is not finite.

    Warns
    -----
    TiedScoresWarning
        If two scores of a list are equal.

    Notes
    -----
    This is the Synthetic Ranking Agreement, equation 8 of the PATE-GAN paper, which
    `tstr_scores` cites. A pair that is tied in either list does not agree, not even
    where both lists tie it: a list in which all are tied scores 0, also against itself.

    Examples
    --------
    >>> from skdpsynth.metrics import synthetic_ranking_agreement
    >>> synthetic_ranking_agreement([0.9, 0.8, 0.7], [0.6, 0.5, 0.55])
    0.6666666666666666
    """
    return _agreement(*_paired(real_scores, synthetic_scores))


@without(since="0.3", removed_in="0.5", pos_label="All labels are averaged.")
def feature_ranking_agreement(
    real: pd.DataFrame, synthetic: pd.DataFrame, *, target: str
) -> float:
    """Compute how often two tables order two features alike by their importance.

    Parameters
    ----------
    real : DataFrame
        Real table, at least two features.
    synthetic : DataFrame
        Synthetic table with the same columns in any order.
    target : str
        Name of the column to predict; as in `tstr_scores` it is a label or, where
        `real` has so many numbers, a measurement.

    Returns
    -------
    float
        Share of the pairs of features with the same strict order in both tables, in
        [0, 1]. It is computed from real rows and is not differentially private.

    Raises
    ------
    InvalidTableError
        If the tables do not have the same columns, are empty, have fewer than two
        features, missing labels, infinite values or columns of different kinds.

    Warns
    -----
    TiedScoresWarning
        If two features of a table are equally important.

    Notes
    -----
    The importance of a feature is the absolute Pearson correlation with the label, and
    the agreement is that of `synthetic_ranking_agreement`. The label counts as 1 for
    one label and 0 for all others; the importance is the mean over the labels of both
    tables. A measurement counts as it is. A column of categories counts as much as its
    best one. A constant column has importance 0. A missing number is replaced by the
    synthetic median.

    Examples
    --------
    >>> from skdpsynth.datasets import load_thyroid
    >>> from skdpsynth.metrics import feature_ranking_agreement
    >>> train, test = load_thyroid(split=True)
    >>> 0.5 < feature_ranking_agreement(train, test, target="class") < 1
    True
    """
    tables = check_tables(target, real=real, synthetic=synthetic)
    real, synthetic = tables["real"], tables["synthetic"]
    if real.shape[1] < 3:
        raise InvalidTableError(
            "Expected at least two feature columns beside the target in 'real', but "
            f"got {real.shape[1] - 1}."
        )
    both = pd.concat([real[target].astype(object), synthetic[target].astype(object)])
    labels = None if is_measurement(real[target]) else list(both.unique())
    features = (table.drop(columns=target) for table in (synthetic, real))
    synthetic_matrix, real_matrix, owner = encode_features(*features)
    return _agreement(
        _importance(real_matrix, real[target], labels, owner),
        _importance(synthetic_matrix, synthetic[target], labels, owner),
    )


def _importance(
    matrix: Matrix, column: pd.Series, labels: list[Any] | None, owner: NDArray[np.intp]
) -> Matrix:
    """Compute the importance of each feature: that of its best encoded column."""
    centered = matrix - matrix.mean(axis=0)
    centered[:, matrix.max(axis=0) == matrix.min(axis=0)] = 0.0  # whatever rounding did
    if labels is None:
        targets = [finite_numbers(column)]
    else:
        targets = [np.asarray(column.astype(object) == v, float) for v in labels]
    each = [r_regression(centered, y - y.mean(), center=False) for y in targets]
    importance: Matrix = np.zeros(owner[-1] + 1)
    np.maximum.at(importance, owner, np.abs(each).mean(axis=0))
    # Rounded, so that rounding errors put no order among equals.
    return importance.round(12)


def _paired(*scores: Scores) -> list[Matrix]:
    """Bring two lists of scores to the same order, without rows of means."""
    first, second = (
        pd.Series(own).drop(index="mean", errors="ignore")
        if isinstance(own, pd.Series | Mapping)
        else own
        for own in scores
    )
    if isinstance(first, pd.Series) and isinstance(second, pd.Series):
        names = set(first.index) ^ set(second.index)
        if names or not (first.index.is_unique and second.index.is_unique):
            raise ValueError(
                "Expected the same distinct names in 'real_scores' and "
                f"'synthetic_scores', but {len(names)} names are in one only. Score "
                "the same classifiers in both settings."
            )
        second = second.loc[first.index]
    pair = [np.asarray(own, dtype=np.float64) for own in (first, second)]
    shapes = [own.shape for own in pair]
    if pair[0].ndim != 1 or shapes[0] != shapes[1] or pair[0].size < 2:
        raise ValueError(
            "Expected two lists of the same length, at least 2, but got the shapes "
            f"{shapes[0]} and {shapes[1]}."
        )
    if not np.isfinite(pair).all():
        raise ValueError(
            "Expected finite scores, but some are not. Leave these classifiers out of "
            "both lists."
        )
    return pair


def _agreement(real: Matrix, synthetic: Matrix) -> float:
    """Apply equation 8 of the PATE-GAN paper; called by the public functions only."""
    for name, scores in {"real": real, "synthetic": synthetic}.items():
        n_tied = scores.size - np.unique(scores).size
        if n_tied:
            warnings.warn(
                f"{n_tied} of the {scores.size} {name} scores repeat another; a tied "
                "pair counts as no agreement.",
                TiedScoresWarning,
                stacklevel=3,
            )
    # Signs, because the product of two tiny differences may round to 0.
    signs = [np.sign(scores[:, None] - scores) for scores in (real, synthetic)]
    agreeing = int((signs[0] * signs[1] > 0).sum())
    return agreeing / (real.size * (real.size - 1))
