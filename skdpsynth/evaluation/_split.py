"""A table in two parts: rows to fit, and rows to score what was fitted with."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from skdpsynth.exceptions import InvalidTableError, check_range
from skdpsynth.utils.containers import from_arrow


def split_table(
    table: pd.DataFrame,
    unit: Hashable = None,
    target: Hashable = None,
    *,
    test_size: float = 0.25,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return rows to fit and rows to test, with all rows of a unit in one of them.

    Parameters
    ----------
    table : DataFrame or Arrow table
        The private table.
    unit : column name, optional
        The `privacy_unit`, such as a patient. Rows without one are units of their own.
    target : column name, optional
        Its labels, of units that of their first row, have the same shares in both
        parts; but for those of so few rows that one part would have none.
    test_size : float, default=0.25
        Share of the rows, or units, to test, in (0, 1).
    random_state : int, RandomState or None, default=None
        As in scikit-learn.

    Returns
    -------
    train, test : DataFrame
        Rows in the order of `table`. **Both are private**; what is fitted to the first
        protects the rows of the first alone.

    Raises
    ------
    InvalidTableError
        If the table lacks a column.
    ValueError
        If `test_size` is out of range, or there are too few rows.

    Examples
    --------
    >>> from skdpsynth.datasets import load_thyroid
    >>> from skdpsynth.evaluation import split_table
    >>> train, test = split_table(load_thyroid(), target="class", random_state=0)
    >>> len(train), len(test)
    (5400, 1800)
    """
    check_range("test_size", test_size, 0 < test_size < 1, "a number in (0, 1)")
    table = from_arrow(table)
    for name in (unit, target):
        if name is not None and name not in table.columns:
            msg = f"Expected a column {name!r}. Got none; name one of the table."
            raise InvalidTableError(msg)
    units = np.arange(len(table))
    if unit is not None:
        units = pd.factorize(table[unit])[0]
        units = np.where(units < 0, -1 - np.arange(len(table)), units)
    names, first = np.unique(units, return_index=True)
    labels = None
    if target is not None:
        labels = pd.factorize(table[target].iloc[first], use_na_sentinel=False)[0]
        counts = np.bincount(labels)
        few = counts * min(test_size, 1 - test_size) < 1
        labels[few[labels]] = counts.argmax()
    how = {"test_size": test_size, "random_state": random_state, "stratify": labels}
    held_out = np.isin(units, train_test_split(names, **how)[1])
    return table[~held_out], table[held_out]
