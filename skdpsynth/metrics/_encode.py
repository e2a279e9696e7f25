"""From two tables to two matrices that a classifier can use."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdpsynth.exceptions import InvalidTableError

Matrix = NDArray[np.float64]

# Outliers beyond this many standard deviations are all as far out; without a limit, a
# nearly constant training column takes a test value out of the range of float32 trees.
_LIMIT = 1e6


def check_tables(target: str, **tables: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Check tables that are to be compared, and bring them to one column order.

    Parameters
    ----------
    target : str
        Name of the label column.
    **tables : DataFrame
        The tables by the name that messages use. The first one sets the order.

    Returns
    -------
    dict of str to DataFrame
        The same tables with their columns in the order of the first.

    Raises
    ------
    TypeError
        If a table is not a DataFrame.
    InvalidTableError
        If a table is empty, has no or no complete label, has repeated column names, no
        feature, or other columns than the first.
    """
    first_name, first = next(iter(tables.items()))
    for name, table in tables.items():
        if not isinstance(table, pd.DataFrame):
            raise TypeError(
                f"The '{name}' parameter must be a pandas DataFrame. Got "
                f"{type(table).__name__} instead."
            )
        if not table.columns.is_unique:
            raise InvalidTableError(
                f"Expected distinct column names in '{name}', but some are repeated. "
                "Rename or drop them."
            )
        if target not in table.columns:
            raise InvalidTableError(
                f"Expected the target column {target!r} in '{name}', but it is not "
                "there. Name the label column in `target`."
            )
        missing = sorted(map(str, first.columns.difference(table.columns, sort=False)))
        extra = sorted(map(str, table.columns.difference(first.columns, sort=False)))
        if missing or extra:
            raise InvalidTableError(
                f"Expected the columns of '{first_name}' in '{name}', but it lacks "
                f"{missing} and adds {extra}. Keep the columns that both have."
            )
        if len(table) == 0 or table.shape[1] < 2:
            raise InvalidTableError(
                f"Expected at least one row and one feature column in '{name}', but "
                f"got {len(table)} rows and {table.shape[1]} columns with the target."
            )
        if table[target].isna().any():
            raise InvalidTableError(
                f"Expected a complete target column {target!r} in '{name}', but it has "
                "missing values. Drop these rows first."
            )
    return {name: with_gaps(table[first.columns]) for name, table in tables.items()}


def same_columns(
    real: pd.DataFrame, synthetic: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Check two tables without a label, and bring the second to the first's columns.

    Parameters
    ----------
    real, synthetic : DataFrame
        The tables, named so in messages.

    Returns
    -------
    tuple of DataFrame
        Both with the columns in the order of `real`, and as from `with_gaps`.

    Raises
    ------
    TypeError
        If a table is not a DataFrame.
    InvalidTableError
        If the tables do not have the same distinct columns, or one is empty.
    """
    for name, table in {"real": real, "synthetic": synthetic}.items():
        if not isinstance(table, pd.DataFrame):
            raise TypeError(
                f"The '{name}' parameter must be a pandas DataFrame. Got "
                f"{type(table).__name__} instead."
            )
        if not table.columns.is_unique:
            raise InvalidTableError(
                f"Expected distinct column names in '{name}', but some are repeated. "
                "Rename or drop them."
            )
        if table.empty:
            raise InvalidTableError(
                f"Expected at least one row and one column in '{name}', but got the "
                f"shape {table.shape}."
            )
    differing = real.columns.symmetric_difference(synthetic.columns, sort=False)
    if len(differing):
        raise InvalidTableError(
            "Expected the same columns in 'real' and 'synthetic', but only one has "
            f"{sorted(map(str, differing))}. Keep the columns that both have."
        )
    return with_gaps(real), with_gaps(synthetic[real.columns])


def with_gaps(table: pd.DataFrame) -> pd.DataFrame:
    """Give a table whose every NaN is a missing value.

    ``Float64`` and ``double[pyarrow]`` take a NaN for a number beside their own missing
    value.

    Parameters
    ----------
    table : DataFrame
        With distinct column names; it stays as it is.

    Returns
    -------
    DataFrame
        The same rows and dtypes.
    """
    kinds = (pd.Float32Dtype, pd.Float64Dtype, pd.ArrowDtype)
    dtypes = table.dtypes.items()
    table = table.copy(deep=False)
    for name, dtype in dtypes:
        if isinstance(dtype, kinds) and dtype.kind == "f":
            values = table[name].to_numpy(dtype=np.float64, na_value=np.nan)
            table[name] = table[name].mask(np.isnan(values))
    return table


def encode_features(
    train: pd.DataFrame, other: pd.DataFrame
) -> tuple[Matrix, Matrix, NDArray[np.intp]]:
    """Turn the features of two tables into numbers.

    Parameters
    ----------
    train : DataFrame
        Features of the table that sets the values for what is missing.
    other : DataFrame
        The same features of another table.

    Returns
    -------
    train_matrix : ndarray of shape (n_train, n_encoded)
        Numbers, booleans (0 or 1) and times (seconds) as they are; a category column as
        one 0-1 column for each level in either table, a missing category being a level.
    other_matrix : ndarray of shape (n_other, n_encoded)
        The same for the other table.
    owner : ndarray of shape (n_encoded,)
        Position of the feature that each encoded column comes from.

    Raises
    ------
    InvalidTableError
        If a column is numeric in one table and not in the other, is complex, or holds
        an infinite value.

    Notes
    -----
    A missing number becomes the median of the column in `train`, or 0 if all of it is
    missing.
    """
    train_blocks, other_blocks, owner = [], [], []
    for position, name in enumerate(train.columns):
        kind = common_kind(train[name], other[name], name)
        pair = (
            _one_hot(train[name], other[name])
            if kind == "category"
            else _filled(train[name], other[name], kind)
        )
        train_blocks.append(pair[0])
        other_blocks.append(pair[1])
        owner.extend([position] * pair[0].shape[1])
    return (
        np.hstack(train_blocks),
        np.hstack(other_blocks),
        np.asarray(owner, dtype=np.intp),
    )


def standardize(train: Matrix, other: Matrix) -> tuple[Matrix, Matrix]:
    """Standardise two matrices by the mean and standard deviation of the first.

    Parameters
    ----------
    train : ndarray of shape (n_train, n_encoded)
        Matrix that sets mean and standard deviation.
    other : ndarray of shape (n_other, n_encoded)
        Matrix that is moved and scaled alike.

    Returns
    -------
    tuple of ndarray
        Both matrices; a column that is constant in `train` is 0 in both. Values are
        clipped to one million standard deviations.
    """
    center, spread = train.mean(axis=0), train.std(axis=0)
    # Rounding may leave a spread where all values are equal, or none where they differ.
    constant = (train.max(axis=0) == train.min(axis=0)) | (spread == 0)
    spread[constant] = 1.0
    pair = [
        np.clip((part - center) / spread, -_LIMIT, _LIMIT) for part in (train, other)
    ]
    for part in pair:
        part[:, constant] = 0.0
    return pair[0], pair[1]


def common_kind(train: pd.Series, other: pd.Series, name: object) -> str:
    """Say what a column is in two tables.

    Parameters
    ----------
    train, other : Series
        The column in either table. Where all values are missing it may be anything.
    name : object
        Its name, for the message.

    Returns
    -------
    str
        "number" (booleans too, and a column without a value in either table),
        "datetime", "timedelta" or "category".

    Raises
    ------
    InvalidTableError
        If it is of different kinds in the two tables, or complex.
    """
    kinds = {_kind(part, name) for part in (train, other) if part.notna().any()}
    if len(kinds) > 1:
        raise InvalidTableError(
            f"Expected the column {name!r} to be of one kind in both tables, but it is "
            f"{' and '.join(sorted(kinds))}. Cast it to the same dtype."
        )
    return kinds.pop() if kinds else "number"


def _kind(column: pd.Series, name: object) -> str:
    """Read the kind off the dtype."""
    types = pd.api.types
    if types.is_complex_dtype(column.dtype):
        raise InvalidTableError(
            f"Expected real values in the column {name!r}, but its dtype is complex. "
            "Split it into two columns."
        )
    if types.is_bool_dtype(column.dtype) and not isinstance(
        column.dtype, pd.CategoricalDtype
    ):
        return "number"
    if types.is_numeric_dtype(column.dtype):
        return "number"
    if types.is_datetime64_any_dtype(column.dtype):
        return "datetime"
    return "timedelta" if types.is_timedelta64_dtype(column.dtype) else "category"


def as_numbers(column: pd.Series, kind: str) -> Matrix:
    """Turn a column into floats.

    Parameters
    ----------
    column : Series
        Numbers, booleans or times.
    kind : {"number", "datetime", "timedelta"}
        What it is, as from `common_kind`.

    Returns
    -------
    ndarray of shape (n_rows,), float64
        NaN where missing. Times are seconds, dates since 1970.
    """
    if column.isna().all():
        return np.full(len(column), np.nan)
    if kind == "datetime":
        zone = (
            pd.Timestamp(0, tz="UTC") if column.dt.tz is not None else pd.Timestamp(0)
        )
        column = column - zone
    if kind != "number":
        column = column.dt.total_seconds()
    return np.asarray(column.to_numpy(dtype="float64", na_value=np.nan))


def finite_numbers(column: pd.Series, kind: str) -> Matrix:
    """Turn a column into finite floats.

    Parameters
    ----------
    column : Series
        Numbers, booleans or times.
    kind : {"number", "datetime", "timedelta"}
        What it is, as from `common_kind`.

    Returns
    -------
    ndarray of shape (n_rows,), float64
        As from `as_numbers`.

    Raises
    ------
    InvalidTableError
        If a value is infinite.
    """
    values = as_numbers(column, kind)
    if np.isinf(values).any():
        raise InvalidTableError(
            f"Expected finite values in the column {column.name!r}, but some are "
            "infinite. Replace them by missing values."
        )
    return values


def _filled(train: pd.Series, other: pd.Series, kind: str) -> tuple[Matrix, Matrix]:
    """Encode a column of numbers or times; fill what is missing."""
    pair = finite_numbers(train, kind), finite_numbers(other, kind)
    present = pair[0][~np.isnan(pair[0])]
    fill = float(np.median(present)) if present.size else 0.0
    first, second = (
        np.where(np.isnan(part), fill, part).reshape(-1, 1) for part in pair
    )
    return first, second


def _one_hot(train: pd.Series, other: pd.Series) -> tuple[Matrix, Matrix]:
    """Encode a category column over the levels of both tables."""
    both = pd.concat([train.astype(object), other.astype(object)], ignore_index=True)
    # Missing values get the code -1 here, which is one more level below.
    codes, levels = pd.factorize(both)
    n_levels = len(levels) + int((codes == -1).any())
    codes = np.where(codes == -1, len(levels), codes)
    matrix = np.zeros((len(both), n_levels))
    matrix[np.arange(len(both)), codes] = 1.0
    return matrix[: len(train)], matrix[len(train) :]
