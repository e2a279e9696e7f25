"""Private rows as numbers: ranks in their domains, codes of categories and classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.privacy import (
    Parts,
)
from skdpsynth.schema import (
    SECONDS_OF,
)
from skdpsynth.table._convert import (
    factorize,
    numeric_values,
    place_keys,
    to_wall,
)
from skdpsynth.table._domains import (
    MISSING,
    ZERO,
    ColumnDomain,
    LevelDomain,
    NumericDomain,
)
from skdpsynth.utils import in_chunks

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.table._layout import ColumnLayout

    Codes = NDArray[np.int64]
    Floats = NDArray[np.float64]


def place_labels(
    frame: pd.DataFrame, column: ColumnLayout | None, levels: Sequence[Hashable]
) -> Codes:
    """Give the position of each row's class, (n_rows,); private.

    Rows whose label is missing or was not released have -1, and train nothing. Without
    levels all rows are one class.
    """
    if column is None or not levels:
        return np.zeros(len(frame), dtype=np.int64)
    return place_keys(*factorize(frame[column.name]), levels)


@dataclass(frozen=True, repr=False)
class PrivateRows:
    """Rows as numbers. Private: they live inside `fit` and are never kept."""

    # (n_rows, n_columns): position of numbers in their domains, in [0, 1]; 0 elsewhere.
    units: NDArray[np.float32]
    # (n_rows, n_columns): of numeric columns 0 for a value, `ZERO` for an exact zero
    # with a cell of its own, or `MISSING`; of level columns the codes of `LevelDomain`.
    category_codes: NDArray[np.unsignedinteger]
    # (n_rows,): position of a row's class; -1 where it is missing or was not released.
    members: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> PrivateRows:
        return PrivateRows(
            self.units[rows], self.category_codes[rows], self.members[rows]
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.units.shape

    @classmethod
    def joined(cls, parts: Iterable[PrivateRows], n_rows: int) -> PrivateRows:
        """Put parts with so many rows in all one after the other, as they come."""
        whole, at = None, 0
        for part in parts:
            if whole is None:
                shapes = ((n_rows, *own.shape[1:]) for own in part.arrays)
                dtypes = (own.dtype for own in part.arrays)
                whole = cls(*map(np.empty, shapes, dtypes))
            for into, own in zip(whole.arrays, part.arrays, strict=True):
                into[at : at + len(part)] = own
            at += len(part)
        if whole is None:
            raise ValueError("Expected at least one part. Got none.")
        return whole

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All three."""
        return self.units, self.category_codes, self.members

    def of_class(self, position: int) -> PrivateRows:
        """Give the rows of one class; of -1, those of none."""
        chosen = np.flatnonzero(self.members == position)
        return self if len(chosen) == len(self) else self[chosen]

    def parts_of_class(self, position: int) -> Parts:
        """Give the rows of one class in parts."""
        return Parts.of(self.of_class(position))


class RowsInParts:
    """`PrivateRows` that are not in memory together."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def of_class(self, position: int) -> PrivateRows:
        """Bring the rows of one class into memory."""
        parts = [*self.parts_of_class(position).each()]
        return PrivateRows.joined(parts, sum(map(len, parts)))

    def parts_of_class(self, position: int) -> Parts:
        """Give the rows of one class in parts."""
        return self._parts.map(PrivateRows.of_class, position)


TableRows = PrivateRows | RowsInParts  # of a whole table, in memory or not


def encode_rows(
    frame: pd.DataFrame,
    columns: list[ColumnLayout],
    domains: list[ColumnDomain],
    label_column: ColumnLayout | None = None,
    labels: Sequence[Hashable] = (),
) -> PrivateRows:
    """Place the rows in the domains and classes, in the order of the frame: private."""
    units = np.zeros((len(frame), len(columns)), dtype=np.float32)
    most = max((a.n_codes for a in domains if isinstance(a, LevelDomain)), default=0)
    kind = np.min_scalar_type(max(most - 1, MISSING))
    category_codes = np.zeros(units.shape, dtype=kind)
    for position, (column, domain) in enumerate(zip(columns, domains, strict=True)):
        series = frame[column.name]
        if isinstance(domain, NumericDomain):
            values, missing = numeric_values(series, column)
            if domain.step is not None:
                low, high = domain.low * domain.step, domain.high * domain.step
                room = 2 * SECONDS_OF["D"] + domain.step  # more than zones differ by
                values = to_wall(np.clip(values, low - room, high + room), column)
            for rows in in_chunks(len(frame)):
                units[rows, position] = domain.to_unit(values[rows])
            if domain.zero is not None:
                category_codes[values == 0.0, position] = ZERO
            category_codes[missing, position] = MISSING
        else:
            found, keys = factorize(series)
            n = len(domain.levels)
            placed = place_keys(found, keys, domain.levels, n, n + 1)
            category_codes[:, position] = placed
    members = place_labels(frame, label_column, labels)
    return PrivateRows(units, category_codes, members)
