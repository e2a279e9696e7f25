"""A table of drawn rows that is put together part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.preprocessing._convert import to_category_series, to_series
from skdpsynth.preprocessing._layout import ColumnLayout
from skdpsynth.schema import SECONDS_OF, is_date, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._purchase import TableFacts


class DrawnTable:
    """So many rows of a table, with identifiers from the number `first`.

    Of a column of NumPy numbers or times a part is written where it stays; pieces of
    others are joined at the end.
    """

    def __init__(self, facts: TableFacts, n_rows: int, first: int = 0) -> None:
        self._columns, self._n_rows, self._first = facts.layout.columns, n_rows, first
        self._whole: dict[int, NDArray[Any]] = {}
        self._pieces: dict[int, dict[int, pd.Series]] = {}
        for place, column in enumerate(self._columns):
            # A name may be pandas.NA, so columns are not compared.
            is_label = column is facts.layout.label_column
            if column.name not in facts.drawn and not is_label:
                continue  # an identifier
            if isinstance(column.dtype, np.dtype) and column.dtype.kind != "O":
                self._whole[place] = np.empty(n_rows, column.dtype)
            else:
                self._pieces[place] = {}

    def put(self, start: int, columns: Sequence[pd.Series | None]) -> None:
        """Put what `TableModel.columns` gave where its rows start; threads may."""
        for place, whole in self._whole.items():
            part = columns[place]
            assert part is not None
            whole[start : start + len(part)] = part.to_numpy()
        for place, pieces in self._pieces.items():
            part = columns[place]
            assert part is not None
            if len(part):
                pieces[start] = part

    def frame(self) -> pd.DataFrame:
        """Give the table, once all rows are there."""
        found: dict[int, NDArray[Any] | pd.Series] = {}
        for place, column in enumerate(self._columns):
            if place in self._whole:
                found[place] = self._whole[place]
            elif place in self._pieces:
                found[place] = _joined(self._pieces.pop(place))
            else:
                found[place] = _fresh_identifiers(self._first, self._n_rows, column)
        frame = pd.DataFrame(found, copy=False)
        # Of names of several types pandas would read None as NaN. What a file holds of
        # a NumPy name is the plain one, which must not change the answer.
        names = [column.name for column in self._columns]
        mixed = object if len({type(plain(name)) for name in names}) > 1 else None
        frame.columns = pd.Index(names, dtype=mixed, tupleize_cols=False)
        return frame


def _joined(pieces: dict[int, pd.Series]) -> pd.Series:
    """Join pieces in the order of their rows."""
    ordered = [pieces[start] for start in sorted(pieces)]
    return ordered[0] if len(ordered) == 1 else pd.concat(ordered, ignore_index=True)


def _fresh_identifiers(first: int, n_rows: int, column: ColumnLayout) -> pd.Series:
    """Make row numbers from `first` on, in the dtype of the column or of its levels."""
    if column.kind != "categorical":
        nothing = np.zeros(n_rows, dtype=bool)
        step = SECONDS_OF["D"] if is_date(column.dtype) else 1.0
        numbers = np.arange(first, first + n_rows, dtype=np.float64)
        return to_series(numbers * step, nothing, column)
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = pd.Series(column.dtype.categories)
        inner = ColumnLayout.of(column.name, levels)
        if inner.kind != "categorical":
            values = _fresh_identifiers(first, n_rows, inner)
            listed = pd.Index(values.unique(), dtype=inner.dtype)
            dtype = pd.CategoricalDtype(listed, ordered=column.dtype.ordered)
            return values.astype(dtype)
    names = [str(number) for number in range(first, first + n_rows)]
    return to_category_series(np.arange(n_rows), names, column)
