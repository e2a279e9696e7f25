"""How much a synthetic table looks like a real one: marginals, pairs, whole rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from math import comb

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.random import sample_without_replacement

from skdpsynth.exceptions import DegradedResultWarning, InvalidTableError
from skdpsynth.metrics._encode import (
    MOST_LABELS,
    Cells,
    Codes,
    Matrix,
    check_tables,
    encode_features,
    finite_numbers,
    paired,
    same_constant,
    shuffled,
)
from skdpsynth.metrics._panel import named_by_class
from skdpsynth.utils import check_range, warn_deprecated, without

LEAST_ROWS = 10  # of a table in a two-sample test: two in each of five folds
MOST_ROWS = 5_000  # taken of a table in it
# Errors of an area that chance does not reach.
_SURE = 5


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
        One row for each column, in the order of `real`, and after a column of times
        one for their time of day (hours, and midnight) and one for their day of week,
        as in "sent: day of week", where these vary. `kind`: "number" (numbers, booleans
        and times) or "category". `distance`, in [0, 1]: the Kolmogorov-Smirnov
        statistic of numbers, the total variation distance of categories, both of the
        values that are there; 0 for equal shares, NaN where both tables have only one
        value, and the same, or none. `missing`, in [0, 1]: absolute difference of the
        shares of missing values.
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
    shares of all categories. A column without a value in one table only has distance 1;
    with the same one value in both, and some that are missing, that of `missing`.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsynth.metrics import column_fidelity
    >>> real = pd.DataFrame({"age": [20, 30, 40, 50], "sex": ["f", "f", "m", "m"]})
    >>> synthetic = pd.DataFrame({"age": [30, 40, 50, 60], "sex": ["f", "m", "m", "m"]})
    >>> column_fidelity(real, synthetic)["distance"].to_dict()
    {'age': 0.25, 'sex': 0.25}
    """
    real, synthetic = check_tables(None, real=real, synthetic=synthetic).values()
    names, rows = [], []
    for kind, *columns in paired(real, synthetic):
        names.append(columns[0].name)
        known = [column.dropna() for column in columns]
        gaps = [column.isna().mean() for column in columns]
        if same_constant(*columns):
            distance = np.nan  # it says nothing about the table
        elif known[0].empty or known[1].empty:
            distance = float(known[0].empty != known[1].empty)
        elif same_constant(*known):
            distance = abs(gaps[0] - gaps[1])
        elif kind == "category":
            of = [c.astype(object).value_counts(normalize=True) for c in known]
            distance = float(of[0].sub(of[1], fill_value=0.0).abs().sum() / 2)
        else:
            # Only the p-value, which is not used, divides by zero: for a single row.
            with np.errstate(divide="ignore"):
                test = ks_2samp(*map(finite_numbers, known), method="asymp")
            distance = float(test.statistic)
        shown = "category" if kind == "category" else "number"
        rows.append((shown, distance, abs(gaps[0] - gaps[1])))
    index = pd.Index(names, name="column", tupleize_cols=False)
    result = pd.DataFrame(rows, index, ["kind", "distance", "missing"])
    result.attrs["contains_private_statistics"] = True
    return result


def pair_fidelity(real: pd.DataFrame, synthetic: pd.DataFrame) -> pd.DataFrame:
    """Compare pairs of columns by `marginal_fidelity`; until 0.5."""
    remedy = "Use marginal_fidelity(), whose distances of pairs this returns."
    what = "pair_fidelity()"
    warn_deprecated(what, since="0.3", removed_in="0.5", remedy=remedy)
    return marginal_fidelity(real, synthetic).rename("difference").reset_index()


def two_sample_scores(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    *,
    classifiers: Mapping[str, BaseEstimator] | None = None,
    max_rows: int = MOST_ROWS,
) -> pd.Series:
    """Run classifier two-sample tests (C2ST): is a row real or synthetic.

    Parameters
    ----------
    real : DataFrame
        Real table, at least ten rows.
    synthetic : DataFrame
        Synthetic table with the same columns in any order, at least ten rows.
    classifiers : dict of str to classifier, or None, default=None
        Classifiers of scikit-learn by name. None means a logistic regression, which
        depends on the means of columns, and a random forest, which finds dependence.
    max_rows : int, default=5000
        Rows taken of each table, at random but always the same, whatever order they
        come in, at least ten. As many are taken of both.

    Returns
    -------
    Series of shape (n_classifiers,)
        Area under the ROC curve, the mean of five cross-validation folds, in [0, 1].
        0.5: the classifier finds no difference of the tables; 1: it is always right.
        Far below 0.5: one table repeats rows of the other.
        ``attrs["contains_private_statistics"]`` is True.

    Raises
    ------
    InvalidTableError
        As in `column_fidelity`, or if a table has fewer than ten rows.
    TypeError
        If a table is not a DataFrame.
    ValueError
        If `max_rows` is below ten, or `classifiers` is empty.

    Warns
    -----
    DegradedResultWarning
        If an area is below 0.5 by more than its error: it is that of copies, whose
        other copy is in a fold that is trained on, and not better than 0.5.

    Notes
    -----
    The test of [1]_, with the area in the place of the accuracy. Encoding is that of
    `tstr_scores`, with one more column for each number that may be missing. The
    features are standardised by the rows that are trained on. The test says nothing
    about privacy: copies of rows that are not in `real` score well.

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
    real, synthetic = check_tables(None, real=real, synthetic=synthetic).values()
    n_rows = min(len(real), len(synthetic), max_rows)
    enough = max_rows >= LEAST_ROWS
    check_range("max_rows", max_rows, enough, f"at least {LEAST_ROWS}")
    if n_rows < LEAST_ROWS:
        raise InvalidTableError(
            f"Expected at least {LEAST_ROWS} rows in both tables for five folds, but "
            f"the smaller one has {n_rows}. Give more rows."
        )
    if classifiers is None:
        linear = LogisticRegression(max_iter=500, random_state=0)
        forest = RandomForestClassifier(min_samples_leaf=5, random_state=0)
        classifiers = named_by_class([linear, forest])
    if not classifiers:
        raise ValueError("classifiers must hold at least one classifier. Got none.")
    tables = shuffled(real, "real"), shuffled(synthetic, "synthetic")
    X, y = labelled(*(table.head(n_rows) for table in tables))
    folds = StratifiedKFold(5)  # of rows that are shuffled already
    scores = {
        name: cross_val_score(
            make_pipeline(StandardScaler(), model), X, y, scoring="roc_auc", cv=folds
        ).mean()
        for name, model in classifiers.items()
    }
    result = pd.Series(scores, name="auroc", dtype=float).rename_axis("classifier")
    if result.min() < least_area(n_rows):
        warnings.warn(
            f"An area of {result.min():.2f} is below 0.5 by more than its error: rows "
            "of one table repeat those of the other. That is not better than 0.5.",
            DegradedResultWarning,
            stacklevel=2,
        )
    result.attrs["contains_private_statistics"] = True
    return result


def least_area(n_rows: int) -> float:
    """Return what two samples of so many rows each reach if none copies the other."""
    return 0.5 - _SURE * float(np.sqrt(1 / (3 * n_rows)))


def labelled(
    real: pd.DataFrame, synthetic: pd.DataFrame
) -> tuple[Matrix, NDArray[np.intp]]:
    """Stack both tables as numbers; the label is 1 for the synthetic rows."""
    own, other, _ = encode_features(synthetic, real)
    # Of numbers and times, which were filled, it says where they were missing.
    gaps = [
        [column.isna() for column in columns]
        for kind, *columns in paired(real, synthetic)
        if kind != "category" and any(column.isna().any() for column in columns)
    ]
    X = np.vstack([other, own])
    X = np.column_stack([X, *(np.concatenate(pair) for pair in gaps)])
    return X, np.repeat(np.array([0, 1], dtype=np.intp), [len(real), len(synthetic)])


_N_BINS = 10  # of a column of numbers: 10,000 rows fill most pairs of them
# Marginals that are compared at most.
_LIMITS = {2: 10_000, 3: 150}
_NAMES = ("first", "second", "third")


@without(
    since="0.3",
    removed_in="0.5",
    n_marginals="Leave it out: limits are fixed.",
    random_state="Leave it out: the choice is always the same.",
)
def marginal_fidelity(
    real: pd.DataFrame, synthetic: pd.DataFrame, k: int = 2
) -> pd.Series:
    """Compare the shares of the combined values of k columns in two tables.

    Parameters
    ----------
    real : DataFrame
        Real table, at least `k` columns; it chooses the cells.
    synthetic : DataFrame
        Synthetic table with the same columns in any order.
    k : {1, 2, 3}, default=2
        Columns that are compared together: all columns for ``k=1``, 10,000 pairs (all
        of up to 141 columns), or 150 triples. Where there are more, they are chosen at
        random, by place, always the same.

    Returns
    -------
    Series of shape (n_marginals,)
        Total variation distance of each group, in [0, 1]: 0 for equal shares, 1 where
        no cell has rows of both tables; its mean is one figure for the table. It is NaN
        with a column that has one value, and the same, in both tables, or none. The
        index has the names of the columns, `first`, `second` and `third`, or `column`
        for ``k=1``, with times of day and days of the week as in `column_fidelity`.
        ``attrs["contains_private_statistics"]`` is True.

    Raises
    ------
    InvalidTableError
        As in `column_fidelity`, or if there are fewer than `k` columns.
    TypeError
        If a table is not a DataFrame.
    ValueError
        If `k` is not as above.

    Notes
    -----
    The distance is half the sum of the absolute differences of the shares of all cells
    [1]_. A number (booleans and times too) is in one of ten bins, whose edges are
    quantiles of `real`; where a tenth or more of the rows have the smallest value, it
    has a bin of its own. A category is one of the 20 most frequent ones of `real`, or a
    rest. Missing values are a cell too. A label is a column like any other. Two tables
    of one distribution have no distance of 0, the less so the more cells and the fewer
    rows there are: compare with other real rows first.

    References
    ----------
    .. [1] R. McKenna, B. Mullins, D. Sheldon and G. Miklau, "AIM: An Adaptive and
       Iterative Mechanism for Differentially Private Synthetic Data", Proceedings of
       the VLDB Endowment 15, 2022.

    Examples
    --------
    Each column has the same values in both tables, but not together:

    >>> import pandas as pd
    >>> from skdpsynth.metrics import marginal_fidelity
    >>> real = pd.DataFrame({"a": [0, 0, 1, 1], "b": [0, 0, 1, 1]})
    >>> synthetic = pd.DataFrame({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1]})
    >>> [float(marginal_fidelity(real, synthetic, k=k).mean()) for k in (1, 2)]
    [0.0, 0.5]
    """
    check_range("k", k, k in (1, 2, 3), "1, 2 or 3")
    real, synthetic = check_tables(None, real=real, synthetic=synthetic).values()
    if real.shape[1] < k:
        raise InvalidTableError(
            f"Expected at least {k} columns in 'real' for k={k}, but got "
            f"{real.shape[1]}. Choose a smaller k."
        )
    columns = [*paired(real, synthetic)]
    names = [own.name for _, own, _ in columns]
    coded = []
    for kind, *both in columns:
        cells = Cells.of(both[0], kind, MOST_LABELS if kind == "category" else _N_BINS)
        coded.append((cells.codes(both[0]), cells.codes(both[1]), cells.n_cells))
    groups = _groups(len(names), k, _LIMITS.get(k, len(names)))
    distances = np.array([_distance([coded[i] for i in group]) for group in groups])
    constant = [i for i, (_, *both) in enumerate(columns) if same_constant(*both)]
    distances[np.isin(groups, constant).any(axis=1)] = np.nan
    index = pd.MultiIndex.from_arrays(
        [[names[i] for i in group] for group in groups.T], names=_NAMES[:k]
    )
    if k == 1:
        index = pd.Index(names, name="column").take(groups[:, 0])
    result = pd.Series(distances, index=index, name="distance", dtype=float)
    result.attrs["contains_private_statistics"] = True
    return result


def _distance(columns: list[tuple[Codes, Codes, int]]) -> float:
    """Compute the total variation distance of a k-way marginal."""
    # Three columns have 22 ** 3 cells at most, so that int16 holds their numbers.
    own, other, n_cells = columns[0]
    for more_own, more_other, n_more in columns[1:]:
        own, other = own * n_more + more_own, other * n_more + more_other
        n_cells *= n_more
    shares = (np.bincount(c, minlength=n_cells) / len(c) for c in (own, other))
    return float(np.abs(np.subtract(*shares)).sum() / 2)


def _groups(n_columns: int, k: int, limit: int) -> NDArray[np.intp]:
    """List all groups of k columns, or as many as allowed, drawn without repetition."""
    total = comb(n_columns, k)
    ranks = np.arange(min(total, limit))
    if total > limit:
        ranks = sample_without_replacement(total, limit, random_state=0)
    # Every number is one sum of binomials with falling columns, hence one group.
    columns = []
    for size in range(k, 0, -1):
        below = np.array([comb(place, size) for place in range(n_columns)])
        column = np.searchsorted(below, ranks, side="right") - 1
        ranks = ranks - below[column]
        columns.append(column)
    return np.array(sorted(zip(*reversed(columns), strict=True)), dtype=np.intp)
