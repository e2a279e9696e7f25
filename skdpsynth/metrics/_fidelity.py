"""How much a synthetic table looks like a real one: columns, pairs, whole rows."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from scipy.stats.contingency import crosstab, expected_freq
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsynth.exceptions import InvalidTableError, check_range
from skdpsynth.metrics._classifiers import named_by_class
from skdpsynth.metrics._encode import (
    common_kind,
    encode_features,
    finite_numbers,
    same_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sklearn.base import BaseEstimator

Values: TypeAlias = NDArray[np.float64] | NDArray[np.intp]

# A contingency table of two texts with all values distinct would not fit in memory.
_MAX_LEVELS = 50


def column_fidelity(real: pd.DataFrame, synthetic: pd.DataFrame) -> pd.DataFrame:
    """Compare the columns of two tables one by one.

    Parameters
    ----------
    real : DataFrame
        Real table, at least one row.
    synthetic : DataFrame
        Synthetic table with the same columns in any order.

    Returns
    -------
    DataFrame of shape (n_columns, 3)
        One row for each column, in the order of `real`. `kind`: "number" (numbers,
        booleans and times) or "category". `distance`, in [0, 1]: the Kolmogorov-Smirnov
        statistic of numbers, the total variation distance of categories, both of the
        values that are there; 0 for equal shares. `missing`, in [0, 1]: absolute
        difference of the shares of missing values.
        ``attrs["contains_private_statistics"]`` is True.

    Raises
    ------
    InvalidTableError
        If the tables do not have the same columns, one is empty, or a column is of
        different kinds, complex or infinite.
    TypeError
        If a table is not a DataFrame.

    Notes
    -----
    The Kolmogorov-Smirnov statistic is the largest difference of the two cumulative
    shares, the total variation distance half the sum of the absolute differences of the
    shares of all categories. A column without a value in one table only has distance 1.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsynth.metrics import column_fidelity
    >>> real = pd.DataFrame({"age": [20, 30, 40, 50], "sex": ["f", "f", "m", "m"]})
    >>> fake = pd.DataFrame({"age": [30, 40, 50, 60], "sex": ["f", "m", "m", "m"]})
    >>> column_fidelity(real, fake)["distance"].to_dict()
    {'age': 0.25, 'sex': 0.25}
    """
    real, synthetic = same_columns(real, synthetic)
    rows = []
    for name in real.columns:
        kind = common_kind(real[name], synthetic[name], name)
        pair = [table[name].dropna() for table in (real, synthetic)]
        shares = [table[name].isna().mean() for table in (real, synthetic)]
        if pair[0].empty or pair[1].empty:
            distance = float(pair[0].empty != pair[1].empty)
        elif kind == "category":
            distance = _total_variation(*pair)
        else:
            values = [finite_numbers(column, kind) for column in pair]
            # Only the p-value, which is not used, divides by zero: for a single row.
            with np.errstate(divide="ignore"):
                distance = float(ks_2samp(*values, method="asymp").statistic)
        shown = "category" if kind == "category" else "number"
        rows.append((shown, distance, abs(shares[0] - shares[1])))
    result = pd.DataFrame(
        rows, index=list(real.columns), columns=["kind", "distance", "missing"]
    ).rename_axis("column")
    result.attrs["contains_private_statistics"] = True
    return result


def pair_fidelity(real: pd.DataFrame, synthetic: pd.DataFrame) -> pd.DataFrame:
    """Compare how the columns of two tables depend on each other.

    Parameters
    ----------
    real : DataFrame
        Real table, at least two columns.
    synthetic : DataFrame
        Synthetic table with the same columns in any order.

    Returns
    -------
    DataFrame of shape (n_pairs, 6)
        One row for each pair of columns: `first`, `second`, `measure` ("pearson",
        "cramer" or "ratio"), its value in `real` and in `synthetic`, in [-1, 1] for
        Pearson's and in [0, 1] for the others, and `difference`, the absolute one.
        ``attrs["contains_private_statistics"]`` is True.

    Raises
    ------
    InvalidTableError
        As in `column_fidelity`, or if there is one column.
    TypeError
        If a table is not a DataFrame.

    Notes
    -----
    Two numbers: Pearson's correlation. Two categories: Cramer's V, corrected for the
    bias of a small sample [1]_. A number and a category: the correlation ratio (the
    root of the share of the variance that lies between the categories), with Kelley's
    correction for the same bias [2]_. Rows that lack one of the two values are left
    out. A column that is constant in the rest depends on nothing: 0. Categories beyond
    the 50 most frequent of both tables count as one.

    References
    ----------
    .. [1] W. Bergsma, "A bias-correction for Cramer's V and Tschuprow's T", Journal of
       the Korean Statistical Society 42, 2013.
    .. [2] T. L. Kelley, "An unbiased correlation ratio measure", Proceedings of the
       National Academy of Sciences 21, 1935.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsynth.metrics import pair_fidelity
    >>> real = pd.DataFrame({"a": [1, 2, 3, 4], "b": [2, 4, 6, 8]})
    >>> fake = pd.DataFrame({"a": [1, 2, 3, 4], "b": [8, 6, 4, 2]})
    >>> float(pair_fidelity(real, fake)["difference"].iloc[0].round(6))
    2.0
    """
    real, synthetic = same_columns(real, synthetic)
    if real.shape[1] < 2:
        raise InvalidTableError(
            "Expected at least two columns in 'real', but got one. Compare it by "
            "`column_fidelity`."
        )
    coded = {name: _coded(real[name], synthetic[name], name) for name in real.columns}
    rows = []
    for first, second in combinations(real.columns, 2):
        pairs = zip(coded[first], coded[second], strict=True)
        (measure, own), (_, other) = (_association(a, b) for a, b in pairs)
        rows.append((first, second, measure, own, other, abs(own - other)))
    names = ["first", "second", "measure", "real", "synthetic", "difference"]
    result = pd.DataFrame(rows, columns=names)
    result.attrs["contains_private_statistics"] = True
    return result


def two_sample_scores(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    *,
    classifiers: Mapping[str, BaseEstimator] | None = None,
    max_rows: int = 5_000,
) -> pd.Series:
    """Let classifiers tell real from synthetic rows: the classifier two-sample test.

    Parameters
    ----------
    real : DataFrame
        Real table, at least ten rows.
    synthetic : DataFrame
        Synthetic table with the same columns in any order, at least ten rows.
    classifiers : dict of str to classifier, or None, default=None
        Classifiers of scikit-learn by name. None means a logistic regression, which
        sees the means of columns, and a random forest, which sees dependence too.
    max_rows : int, default=5000
        Rows taken of each table, at random but always the same, at least ten. As many
        are taken of both.

    Returns
    -------
    Series of shape (n_classifiers,)
        Area under the ROC curve, the mean of five cross-validation folds, in [0, 1].
        0.5: the classifier cannot tell the tables apart; 1: it always can.
        ``attrs["contains_private_statistics"]`` is True.

    Raises
    ------
    InvalidTableError
        As in `column_fidelity`, or if a table has fewer than ten rows.
    TypeError
        If a table is not a DataFrame.
    ValueError
        If `max_rows` is below ten, or `classifiers` is empty.

    Notes
    -----
    The test of [1]_, with the area in the place of the accuracy. Encoding is that of
    `tstr_scores`, with one more column for each number that may be missing. The
    features are standardised by the rows that are trained on. A synthetic table that
    repeats real rows scores well: the test says nothing about privacy.

    References
    ----------
    .. [1] D. Lopez-Paz and M. Oquab, "Revisiting Classifier Two-Sample Tests", ICLR,
       2017.

    Examples
    --------
    >>> from skdpsynth.datasets import load_thyroid
    >>> from skdpsynth.metrics import two_sample_scores
    >>> table = load_thyroid()
    >>> bool(two_sample_scores(table[::2], table[1::2], max_rows=500).max() < 0.6)
    True
    """
    real, synthetic = same_columns(real, synthetic)
    n_rows = min(len(real), len(synthetic), max_rows)
    check_range("max_rows", max_rows, max_rows >= 10, "at least 10")
    if n_rows < 10:
        raise InvalidTableError(
            "Expected at least ten rows in both tables for five folds, but the smaller "
            f"one has {n_rows}. Sample more rows."
        )
    if classifiers is None:
        linear = LogisticRegression(max_iter=500, random_state=0)
        forest = RandomForestClassifier(min_samples_leaf=5, random_state=0)
        classifiers = named_by_class([linear, forest])
    if not classifiers:
        raise ValueError("classifiers must hold at least one classifier. Got none.")
    X, y = _labelled(*(t.sample(n_rows, random_state=0) for t in (real, synthetic)))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = {
        name: cross_val_score(
            make_pipeline(StandardScaler(), model), X, y, scoring="roc_auc", cv=folds
        ).mean()
        for name, model in classifiers.items()
    }
    result = pd.Series(scores, name="auroc", dtype=float).rename_axis("classifier")
    result.attrs["contains_private_statistics"] = True
    return result


def _total_variation(first: pd.Series, second: pd.Series) -> float:
    """Compute half the L1 distance of the shares of two columns' levels."""
    shares = [c.astype(object).value_counts(normalize=True) for c in (first, second)]
    return float(shares[0].sub(shares[1], fill_value=0.0).abs().sum() / 2)


def _coded(real: pd.Series, synthetic: pd.Series, name: object) -> tuple[Values, ...]:
    """Give both columns as floats (NaN where missing), or as codes (-1 there)."""
    kind = common_kind(real, synthetic, name)
    if kind != "category":
        return finite_numbers(real, kind), finite_numbers(synthetic, kind)
    both = pd.concat([real.astype(object), synthetic.astype(object)])
    counts = both.value_counts(sort=False)  # its sort is not stable before pandas 3
    counts = counts.sort_values(ascending=False, kind="stable")
    frequent = counts.index[:_MAX_LEVELS]
    codes = pd.Index(frequent).get_indexer(both)
    codes[(codes == -1) & both.notna().to_numpy()] = len(frequent)
    return codes[: len(real)], codes[len(real) :]


def _association(first: Values, second: Values) -> tuple[str, float]:
    """Name the measure that fits two columns, and compute it."""
    codes = [np.issubdtype(values.dtype, np.integer) for values in (first, second)]
    known = [
        values >= 0 if coded else ~np.isnan(values)
        for values, coded in zip((first, second), codes, strict=True)
    ]
    both = known[0] & known[1]
    first, second = first[both], second[both]
    measure = {0: "pearson", 1: "ratio", 2: "cramer"}[sum(codes)]
    if len(first) < 2 or first.min() == first.max() or second.min() == second.max():
        return measure, 0.0
    if measure == "pearson":
        return measure, float(np.corrcoef(first, second)[0, 1])
    if measure == "cramer":
        return measure, cramers_v(crosstab(first, second).count)
    return measure, _ratio(*((first, second) if codes[0] else (second, first)))


def cramers_v(counts: NDArray[np.intp]) -> float:
    """Compute Bergsma's Cramer's V, 0 to 1, of counts by levels that all have some."""
    n_rows = counts.sum()
    expected = expected_freq(counts)
    phi2 = ((counts - expected) ** 2 / expected).sum() / n_rows
    r, c = (side - (side - 1) ** 2 / (n_rows - 1) for side in counts.shape)
    degrees = (counts.shape[0] - 1) * (counts.shape[1] - 1)
    phi2 = max(0.0, phi2 - degrees / (n_rows - 1))
    # With as many categories as rows there is nothing left to correct.
    return float(min(np.sqrt(phi2 / (min(r, c) - 1)), 1.0)) if min(r, c) > 1 else 0.0


def _ratio(codes: Values, values: Values) -> float:
    """Compute Kelley's correlation ratio of a number within categories."""
    groups = pd.Series(values).groupby(codes)
    total = ((values - values.mean()) ** 2).sum()
    within = total - (groups.size() * (groups.mean() - values.mean()) ** 2).sum()
    n_rows, n_groups = len(values), groups.ngroups
    if n_groups >= n_rows:
        return 0.0
    unexplained = (within / total) * (n_rows - 1) / (n_rows - n_groups)
    return float(np.sqrt(min(max(0.0, 1 - unexplained), 1.0)))


def _labelled(
    real: pd.DataFrame, synthetic: pd.DataFrame
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Stack both tables as numbers; the label is 1 for the synthetic rows."""
    own, other, _ = encode_features(synthetic, real)
    # Of numbers and times, which were filled, it says where they were missing.
    names = [
        name
        for name in real.columns
        if common_kind(real[name], synthetic[name], name) != "category"
        and (real[name].isna().any() or synthetic[name].isna().any())
    ]
    gaps = [table[names].isna().to_numpy(float) for table in (real, synthetic)]
    X = np.vstack([np.hstack([other, gaps[0]]), np.hstack([own, gaps[1]])])
    return X, np.repeat(np.array([0, 1], dtype=np.intp), [len(real), len(synthetic)])
