"""Relations between two columns of a real table, and the rows that break them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.metrics._encode import (
    MOST_CATEGORIES,
    Cells,
    Codes,
    Matrix,
    check_tables,
    finite_numbers,
    paired,
)
from skdpsynth.utils import FEW_NUMBERS
from skdpsynth.utils.arrays import Bools

Flags = Bools

# Of the rows that independent columns would have. Two booleans of equal shares have a
# relation if they agree in 99 % of the rows.
_RARE = 0.02
_LEAST = 0.01  # what independent columns must break: less is not worth a line


def broken_relations(real: pd.DataFrame, synthetic: pd.DataFrame) -> pd.DataFrame:
    """Find rows that break a relation between two columns of the real table.

    A wife who is male, or a degree that does not go with the years of education: real
    rows have each of the values, but (nearly) never both. Or a parcel that arrives
    before it was ordered.

    Parameters
    ----------
    real : DataFrame
        Real table, at least two columns; it says which relations there are.
    synthetic : DataFrame
        Synthetic table with the same columns in any order.

    Returns
    -------
    DataFrame of shape (n_relations, 6)
        One row for each relation of two columns, the largest excess of `synthetic` over
        `real` first: the columns `first` and `second`, and the shares of rows that
        break the relation, in [0, 1]: of `real` rows, of real rows if the columns were
        `independent`, and of `synthetic` rows. `relation` is "values", or "order" where
        `first` is never above `second`. ``attrs["any_relation"]``
        has the shares of "real" and "synthetic" rows that break at least one relation.
        ``attrs["contains_private_statistics"]`` is True.

    Raises
    ------
    InvalidTableError
        As in `column_fidelity`, or if there is one column.
    TypeError
        If a table is not a DataFrame.

    See Also
    --------
    marginal_fidelity : Distance of pairs of columns, whether values go together or not.

    Notes
    -----
    **Not differentially private**: computed from real rows, which also decide what
    counts as a relation.

    A row breaks a relation if hardly any real row has its two values: none, or fewer
    than 2 % of the rows that would have them if the columns were independent. A real
    row is compared with the other real rows, so `real` is what to expect of real rows
    that are not in the table (Good-Turing estimate [1]_). Two columns have a relation
    if independent ones would break it in at least 1 % of the rows, and at least 50
    times as often as real rows do, with one row more than do: where no real row does,
    independent columns must have 50. A relation has no direction, and each pair is
    listed once: that a wife is not male is found, although neither column is a function
    of the other. Two columns of numbers, or of times, have an order if it is broken as
    much more seldom. Times of day and days of the week are columns too, as in
    `column_fidelity`.

    A number, boolean or time with up to 32 values has a cell for each of them.
    Otherwise the cells lie between 32 quantiles of the real rows, values that are as
    frequent as a cell have their own, and rows in adjacent cells count as well, except
    for cells of a single value. Differences within a cell are not seen, and the
    outermost ones have no end. The 100 most frequent values of a category are judged.
    A missing value is a value of its own. Relations of three columns are not found.

    References
    ----------
    .. [1] I. J. Good, "The Population Frequencies of Species and the Estimation of
       Population Parameters", Biometrika 40, 1953.

    Examples
    --------
    Where sex depends on no other column, a sixth of the rows has a husband who is
    female or a wife who is male:

    >>> from skdpsynth.datasets import load_adult
    >>> from skdpsynth.metrics import broken_relations
    >>> real, other = load_adult(split=True)
    >>> sexes = other["sex"].sample(frac=1, random_state=0).to_numpy()
    >>> found = broken_relations(real, other.assign(sex=sexes))
    >>> found.loc[0, ["first", "second"]].tolist()
    ['relationship', 'sex']
    >>> [float(found.loc[0, table].round(2)) for table in ("real", "synthetic")]
    [0.0, 0.16]
    """
    real, synthetic = check_tables(None, real=real, synthetic=synthetic).values()
    if real.shape[1] < 2:
        raise InvalidTableError(
            "Expected at least two columns in 'real', but got one, which has no "
            "relation. Compare it by `column_fidelity`."
        )
    columns = [_Coded.of(*column) for column in paired(real, synthetic)]
    rows = []
    any_real = np.zeros(len(real), dtype=bool)
    any_other = np.zeros(len(synthetic), dtype=bool)
    for a, b in combinations(columns, 2):
        ways = (
            (a, b, "values", _relation),
            (a, b, "order", _order),
            (b, a, "order", _order),
        )
        for first, second, kind, find in ways:
            relation = find(first, second)
            if relation is None:
                continue
            of_real, of_other, independent = relation
            any_real, any_other = any_real | of_real, any_other | of_other
            shares_of_rows = of_real.mean(), independent, of_other.mean()
            rows.append((first.name, second.name, *shares_of_rows, kind))
            if first.exact and second.exact:  # the order of these says no more
                break
    shares = ["real", "independent", "synthetic"]
    result = pd.DataFrame(rows, columns=["first", "second", *shares, "relation"])
    result = result.astype(dict.fromkeys(shares, float))
    excess = (result["synthetic"] - result["real"]).to_numpy()
    result = result.iloc[np.argsort(-excess, kind="stable")].reset_index(drop=True)
    of_any = {"real": float(any_real.mean()), "synthetic": float(any_other.mean())}
    result.attrs["any_relation"] = of_any
    result.attrs["contains_private_statistics"] = True
    return result


@dataclass(frozen=True)
class _Coded:
    """Cells of a column's values; `near[i, j]` is 1 where rows of j count for i too.

    Beside them the values of both tables themselves, if they have an order.
    """

    name: Hashable
    kind: str
    numbers: tuple[Matrix, ...]
    real: Codes
    synthetic: Codes
    near: Matrix
    judged: Flags

    @classmethod
    def of(cls, kind: str, real: pd.Series, synthetic: pd.Series) -> _Coded:
        """Choose the cells of a column by its real values."""
        if kind == "category":
            cells = Cells.of(real, kind, MOST_CATEGORIES)
            near = np.eye(cells.n_cells)
        else:
            known, counts = np.unique(finite_numbers(real.dropna()), return_counts=True)
            cells = Cells(kind, known[1:])
            if len(known) > FEW_NUMBERS:
                frequent = np.flatnonzero(counts * FEW_NUMBERS >= counts.sum())
                starts = np.union1d(frequent, frequent + 1)  # of its cell, and the next
                starts = starts[(starts > 0) & (starts < len(known))]
                bounds = Cells.of(real, kind, FEW_NUMBERS).bounds
                cells = Cells(kind, np.union1d(bounds, known[starts]))
            places = np.searchsorted(cells.bounds, known, side="right")
            wide = np.bincount(places, minlength=cells.n_cells) > 1
            beside = np.eye(cells.n_cells, k=1) + np.eye(cells.n_cells, k=-1)
            near = beside * np.outer(wide, wide) + np.eye(cells.n_cells)
        judged = np.ones(cells.n_cells, dtype=bool)
        # All other categories are many values.
        judged[-2] = kind != "category"
        both = real, synthetic
        numbers = () if kind == "category" else tuple(map(finite_numbers, both))
        own, other = map(cells.codes, both)
        return cls(real.name, kind, numbers, own, other, near, judged)

    @property
    def exact(self) -> bool:
        """Whether every value has a cell of its own."""
        return bool(self.near.sum() == len(self.near))


def _relation(a: _Coded, b: _Coded) -> tuple[Flags, Flags, float] | None:
    """Find the rows of both tables whose combinations of cells hardly occur.

    A real row does not count itself. None without a relation; beside the rows comes the
    share of those of independent columns that break it.
    """
    shape = len(a.judged), len(b.judged)
    n_rows = len(a.real)
    codes = a.real.astype(np.intp) * shape[1] + b.real
    counts = np.bincount(codes, minlength=shape[0] * shape[1]).reshape(shape)
    sides = counts.sum(axis=1), counts.sum(axis=0)
    found = a.near @ counts @ b.near.T
    expected = np.outer(a.near @ sides[0], b.near @ sides[1]) / n_rows
    enough = np.maximum(1.0, _RARE * expected)
    judged = np.outer(a.judged, b.judged)
    broken, broken_by_real = judged & (found < enough), judged & (found - 1 < enough)
    independent = float(np.outer(*sides)[broken].sum() / n_rows**2)
    # One more than there are: that a few rows have no exception says little.
    most = (counts[broken_by_real].sum() + 1) / n_rows
    if independent < _LEAST or most > _RARE * independent:
        return None
    return broken_by_real[a.real, b.real], broken[a.synthetic, b.synthetic], independent


def _order(first: _Coded, second: _Coded) -> tuple[Flags, Flags, float] | None:
    """Find rows whose first column is above the second; None as in `_relation`."""
    if first.kind != second.kind or first.kind == "category":
        return None
    # False where one is missing.
    of_real, of_other = map(np.greater, first.numbers, second.numbers)
    most = (of_real.sum() + 1) / len(of_real)
    if most > _RARE:  # no more often than always is it broken
        return None
    known = (own.numbers[0][~np.isnan(own.numbers[0])] for own in (first, second))
    above, below = next(known), np.sort(next(known))
    independent = float(np.searchsorted(below, above).sum()) / len(of_real) ** 2
    if independent < _LEAST or most > _RARE * independent:
        return None
    return of_real, of_other, independent
