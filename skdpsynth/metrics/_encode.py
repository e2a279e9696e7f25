"""Two tables as matrices that a classifier can use, and columns as cells to count."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.utils.arrays import Floats
from skdpsynth.utils.containers import from_arrow
from skdpsynth.utils.dtypes import same_name

Matrix = Floats
Codes = NDArray[np.int16]

# Outliers beyond so many standard deviations, the largest number in half precision, are
# all as far out; without a limit, a nearly constant training column takes a test value
# out of the range of float32 trees.
_LIMIT = float(np.finfo(np.float16).max)
MOST_LABELS = 20  # that numbers may be; and cells that a column of texts has
# Categories with a column each, and one for the rest: a column of dates or codes that
# are texts would become thousands, and the scores of 5,000 rows take minutes. More
# texts hardly are categories: rows with one each are distinguished by them, and a
# contingency table of two columns of all of them would not fit in memory.
MOST_CATEGORIES = 100


def check_tables(target: Hashable, **tables: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Check tables, named as in messages, and bring them to one order of columns.

    TypeError for what is no table; InvalidTableError for one that is empty, has no
    feature, repeated names, other columns than the first, or an incomplete target.
    """
    tables = {name: from_arrow(table) for name, table in tables.items()}
    first_name, first = next(iter(tables.items()))
    for name, table in tables.items():
        if not isinstance(table, pd.DataFrame):
            raise TypeError(
                f"The '{name}' parameter must be a table of pandas, polars or Arrow. "
                f"Got {type(table).__name__} instead."
            )
        if not table.columns.is_unique:
            raise InvalidTableError(
                f"Expected distinct column names in '{name}', but some are repeated. "
                "Rename or drop them."
            )
        if target is not None and target not in table.columns:
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
        if len(table) == 0 or table.shape[1] < 1 + (target is not None):
            column = "column" if target is None else "feature column beside the target"
            raise InvalidTableError(
                f"Expected at least one row and one {column} in '{name}', but got "
                f"{len(table)} rows and {table.shape[1]} columns."
            )
        if target is not None and table[target].isna().any():
            raise InvalidTableError(
                f"Expected a complete target column {target!r} in '{name}', but it has "
                "missing values. Drop these rows first."
            )
    columns = {"columns": first.columns}
    return {name: _with_gaps(t.reindex(**columns)) for name, t in tables.items()}


def _with_gaps(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose every NaN is missing, with dtypes that all of pandas knows.

    ``Float64`` and ``double[pyarrow]`` take NaN for a number.
    """
    kinds = (pd.Float32Dtype, pd.Float64Dtype, pd.ArrowDtype)
    dtypes = table.dtypes.items()
    table = table.copy(deep=False)
    for name, dtype in dtypes:
        if isinstance(dtype, kinds) and dtype.kind == "f":
            values = table[name].to_numpy(dtype=np.float64, na_value=np.nan)
            table[name] = table[name].mask(np.isnan(values))
        elif isinstance(dtype, pd.ArrowDtype) and dtype.kind in "mM":
            # Of dates without a time NumPy makes objects.
            dates = table[name].dtype.name.startswith("date")
            times = table[name].astype("timestamp[s][pyarrow]" if dates else dtype)
            table[name] = times.to_numpy(dtype=times.dtype.numpy_dtype)
        elif isinstance(dtype, pd.ArrowDtype) and dtype.kind == "b":
            table[name] = table[name].astype("boolean")
    return table


def without_identifiers(
    tables: dict[str, pd.DataFrame], target: Hashable
) -> tuple[dict[str, pd.DataFrame], list[Hashable]]:
    """Leave out columns of texts that differ in every row; return their names too."""
    first = next(iter(tables.values()))
    alone = [
        name
        for name in first.columns
        if not same_name(name, target)
        and all(
            len(table) > MOST_CATEGORIES
            and kind_of(table[name]) == "category"
            and table[name].is_unique
            for table in tables.values()
        )
    ]
    if len(alone) >= first.shape[1] - (target is not None):
        alone = []
    return {key: table.drop(columns=alone) for key, table in tables.items()}, alone


def shuffled(table: pd.DataFrame, purpose: str) -> pd.DataFrame:
    """Sort columns by name, and put rows in an order that theirs has no part in.

    By a hash of their values, then shuffled by a seed of the purpose.
    """
    order = sorted(range(table.shape[1]), key=lambda i: _by_name(table.columns[i]))
    table = table.iloc[:, order]
    hashes = row_hashes(table)
    seed = np.frombuffer(purpose.encode(), dtype=np.uint8)
    return table.iloc[hashes.argsort(kind="stable")].sample(frac=1, random_state=seed)


def row_hashes(
    table: pd.DataFrame, kinds: list[str] | None = None
) -> NDArray[np.uint64]:
    """Hash every row of a table whose columns are of these kinds."""
    if kinds is None:
        kinds = [kind_of(column) for _, column in table.items()]
    hashes = np.zeros(len(table), dtype=np.uint64)
    for kind, (_, column) in zip(kinds, table.items(), strict=True):
        if kind == "category":
            values = column.astype(object).to_numpy()
        else:  # one 0, and one missing value: none is infinite
            values = np.nan_to_num(finite_numbers(column) + 0.0, nan=np.inf)
        # Of the sum, so that values that change places count as others.
        hashes = pd.util.hash_array(hashes + pd.util.hash_array(values))
    return hashes


def equal_rows(real: pd.DataFrame, synthetic: pd.DataFrame) -> tuple[float, float]:
    """Return the shares of synthetic and of real rows that equal another, real row."""
    real, synthetic = check_tables(None, real=real, synthetic=synthetic).values()
    kinds = [common_kind(real[name], synthetic[name]) for name in real]
    own, other = (pd.Series(row_hashes(table, kinds)) for table in (real, synthetic))
    return float(other.isin(own).mean()), float(own.duplicated(keep=False).mean())


def split_rows(
    table: pd.DataFrame, target: Hashable, n_rows: int, purpose: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Hold out some rows, by label where there is a target and the counts allow."""
    table, labels = shuffled(table, purpose), None
    if target in table.columns:
        labels = pd.factorize(table[target].astype(object))[0]
        counts = np.unique(labels, return_counts=True)[1]
        if counts.min() < 2 or len(counts) > min(n_rows, len(table) - n_rows):
            labels = None
    kept, held_out = train_test_split(
        np.arange(len(table)), test_size=n_rows, random_state=0, stratify=labels
    )
    return table.iloc[kept], table.iloc[held_out]


def kind_of(column: pd.Series) -> str:
    """Return "number" (booleans too), "datetime", "timedelta" or "category"."""
    types = pd.api.types
    if types.is_complex_dtype(column.dtype):
        raise InvalidTableError(
            f"Expected real values in the column {column.name!r}, but its dtype is "
            "complex. Split it into two columns."
        )
    if types.is_numeric_dtype(column.dtype):
        return "number"
    if types.is_datetime64_any_dtype(column.dtype):
        return "datetime"
    return "timedelta" if types.is_timedelta64_dtype(column.dtype) else "category"


def common_kind(first: pd.Series, second: pd.Series) -> str:
    """Return what a column of two tables is; one without a value is a number."""
    kinds = {kind_of(column) for column in (first, second) if column.notna().any()}
    if len(kinds) > 1:
        raise InvalidTableError(
            f"Expected the column {first.name!r} to be of one kind in both tables, but "
            f"it is {' and '.join(sorted(kinds))}. Cast it to the same dtype."
        )
    return kinds.pop() if kinds else "number"


def paired(
    first: pd.DataFrame, second: pd.DataFrame
) -> Iterator[tuple[str, pd.Series, pd.Series]]:
    """Yield what each column is, and the column in both tables.

    After a column of times come their time of day and day of week, as categories, where
    they have more than one value.
    """
    for name, column in first.items():
        kind, both = common_kind(column, second[name]), (column, second[name])
        yield kind, *both
        if kind != "datetime" or any(c.isna().all() for c in both):
            continue
        for words, part in _PARTS.items():
            own, other = (part(c).rename(f"{name}: {words}") for c in both)
            if not same_constant(own.dropna(), other.dropna()):
                yield "category", own, other


def _hour(times: pd.Series) -> pd.Series:
    """Return the hours of times as texts; midnight itself, as dates have it, apart."""
    hours = times.dt.hour.map({h: f"{h:02} h" for h in range(24)}).astype(object)
    return hours.mask(times == times.dt.normalize(), "midnight")


_PARTS: dict[str, Callable[[pd.Series], pd.Series]] = {
    "time of day": _hour,
    "day of week": lambda times: times.dt.day_name().astype(object),
}


def finite_numbers(column: pd.Series) -> Matrix:
    """Turn numbers, booleans or times into floats: seconds, and NaN where missing."""
    if column.isna().all():
        return np.full(len(column), np.nan)
    name, kind = column.name, kind_of(column)
    if kind == "datetime":
        zone = None if column.dt.tz is None else "UTC"
        # In its own unit: nanoseconds reach from 1678 to 2262 alone.
        column = column - pd.Timestamp(0, tz=zone).as_unit(column.dt.unit)
    if kind != "number":
        column = column.dt.total_seconds()
    values = np.asarray(column.to_numpy(dtype="float64", na_value=np.nan))
    if np.isinf(values).any():
        raise InvalidTableError(
            f"Expected finite values in the column {name!r}, but some are "
            "infinite. Replace them by missing values."
        )
    return values


def is_measurement(column: pd.Series, pos_label: object = None) -> bool:
    """Return whether a complete target is a number; ValueError if a label is named."""
    types = pd.api.types
    kind = kind_of(column)
    if kind == "category" or types.is_bool_dtype(column.dtype):
        return False
    measured = kind != "number" or bool(column.nunique() > MOST_LABELS)
    if not (measured or types.is_integer_dtype(column.dtype)):
        measured = bool((finite_numbers(column) % 1 != 0).any())
    if measured and pos_label is not None:
        raise ValueError(
            f"The 'pos_label' parameter names a label, but the target {column.name!r} "
            "holds numbers: fractions, more than 20 of them, or times. Leave it out, "
            "or cast the column to str."
        )
    return measured


def same_constant(*columns: pd.Series) -> bool:
    """Return whether a column has one value, and the same, in every table, or none."""
    if any(len(column.drop_duplicates()) > 1 for column in columns):
        return False
    firsts = pd.concat([column.iloc[:1].astype(object) for column in columns])
    return bool(firsts.isna().all() or (firsts == firsts.iloc[0]).all())


def encode_features(
    train: pd.DataFrame, other: pd.DataFrame
) -> tuple[Matrix, Matrix, NDArray[np.intp]]:
    """Turn the features of two tables into matrices of shape (n_rows, n_encoded).

    Numbers, booleans and times stay as they are, the missing ones become the median of
    `train`. A category is one 0-1 column for each category of either table, a missing
    one being one. The third array says which feature each encoded column comes from.
    """
    encoded = [
        _one_hot(*columns) if kind == "category" else _filled(*columns)
        for kind, *columns in paired(train, other)
    ]
    owner = np.repeat(np.arange(len(encoded)), [own.shape[1] for own, _ in encoded])
    own, others = zip(*encoded, strict=True)
    return np.hstack(own), np.hstack(others), owner


def _filled(train: pd.Series, other: pd.Series) -> tuple[Matrix, Matrix]:
    """Encode a column of numbers or times; fill what is missing."""
    pair = finite_numbers(train), finite_numbers(other)
    present = pair[0][~np.isnan(pair[0])]
    fill = float(np.median(present)) if present.size else 0.0
    first, second = (np.where(np.isnan(x), fill, x).reshape(-1, 1) for x in pair)
    return first, second


def _one_hot(train: pd.Series, other: pd.Series) -> tuple[Matrix, Matrix]:
    """Encode a category column over those of both tables."""
    both = pd.concat([train.astype(object), other.astype(object)], ignore_index=True)
    codes, categories = pd.factorize(both)
    if len(categories) > MOST_CATEGORIES:  # the rest of them is one
        counts = train.astype(object).value_counts().reindex(categories, fill_value=0)
        codes = Cells("category", _most_frequent(counts, MOST_CATEGORIES)).codes(both)
    else:
        codes[codes == -1] = len(categories)  # a missing value is one more
    matrix = np.eye(codes.max() + 1)[codes]
    return matrix[: len(train)], matrix[len(train) :]


def standardize(train: Matrix, other: Matrix) -> tuple[Matrix, Matrix]:
    """Standardise two matrices by the first one; where it is constant, both are 0."""
    center, spread = train.mean(axis=0), train.std(axis=0)
    # Rounding may leave a spread where all values are equal, or none where they differ.
    constant = (train.max(axis=0) == train.min(axis=0)) | (spread == 0)
    spread[constant] = 1.0
    first, second = (
        np.where(constant, 0.0, ((part - center) / spread).clip(-_LIMIT, _LIMIT))
        for part in (train, other)
    )
    return first, second


@dataclass(frozen=True)
class Cells:
    """Cells that the values of a column are counted in.

    Of numbers and times each cell begins at one of the increasing `bounds`, beside one
    for what is below. Of categories each of the `bounds` has a cell, and all others
    share one. The last cell is that of missing values.
    """

    kind: str
    bounds: Any

    @classmethod
    def of(cls, column: pd.Series, kind: str, n_cells: int) -> Cells:
        """Choose at most `n_cells`: the most frequent categories, or quantiles.

        The smallest number is in the first cell: zeros stay apart from larger values.
        """
        if kind == "category":
            counts = column.astype(object).value_counts()
            return cls(kind, _most_frequent(counts, n_cells))
        values = finite_numbers(column)
        known = values[~np.isnan(values)]
        if not known.size:
            return cls(kind, np.empty(0))
        shares = np.arange(1, n_cells) / n_cells
        # Values that occur: with few distinct ones each has a cell where it can.
        edges = np.unique(np.quantile(known, shares, method="inverted_cdf"))
        lowest = known.min()
        if lowest == known.max():  # what is beside the one value is not it
            return cls(kind, np.array([lowest, np.nextafter(lowest, np.inf)]))
        if edges[0] == lowest:  # nothing is below it, so that the next value takes over
            edges[0] = known[known > lowest].min(initial=np.inf)
        return cls(kind, np.unique(edges[np.isfinite(edges)]))

    @property
    def n_cells(self) -> int:
        """Number of cells, that of missing values included."""
        return len(self.bounds) + 2

    def codes(self, column: pd.Series) -> Codes:
        """Return in which cell each value is."""
        if self.kind == "category":
            values = column.astype(object)
            codes = pd.Index(self.bounds, dtype=object).get_indexer(values)
            codes[codes == -1] = len(self.bounds)
        else:
            values = finite_numbers(column)
            codes = np.searchsorted(self.bounds, values, side="right")
        codes[pd.isna(values)] = self.n_cells - 1
        return np.asarray(codes, dtype=np.int16)


def _most_frequent(counts: pd.Series, n_categories: int) -> list[Hashable]:
    """Return the categories with the most rows; ties are broken by name."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], _by_name(item[0])))
    return [category for category, _ in ranked[:n_categories]]


def _by_name(value: object) -> tuple[str, str]:
    """Return what columns and categories are sorted by, whatever order they had."""
    return str(value), type(value).__name__
