"""The domains of the feature columns: declared in the schema, or bought."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.preprocessing._classes import place_labels
from skdpsynth.preprocessing._convert import (
    factorize,
    numeric_values,
    place_keys,
    to_wall,
    total_keys,
)
from skdpsynth.preprocessing._domains import ColumnDomain, LevelDomain, NumericDomain
from skdpsynth.privacy import Parts, clamped_counts, thresholded_counts
from skdpsynth.schema import (
    SECONDS_OF,
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    is_date,
    is_finite,
)
from skdpsynth.utils import in_chunks

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.preprocessing._layout import ColumnLayout
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.schema import TableSchema

    Floats = NDArray[np.float64]

_SURE_FROM = 3.0  # noise deviations
ZERO, MISSING = 1, 2  # codes of a numeric column; 0 is any other value


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


def declared_domain(
    column: ColumnLayout, schema: TableSchema | None
) -> ColumnDomain | None:
    """Give a column's domain where it is public, None where it must be bought."""
    spec = None if schema is None else schema.columns.get(column.name)
    if spec is None:
        # All that a boolean dtype without missing values can hold is known.
        complete = column.kind == "boolean" and not column.can_be_missing
        return LevelDomain(public_levels(column), nullable=False) if complete else None
    nullable = column.can_be_missing and getattr(spec, "nullable", False)
    if isinstance(spec, Continuous):
        low, high = float(spec.low), float(spec.high)
        scale = spec.resolved_scale()
        log, quantile = scale == "log", scale == "quantile"
        domain = NumericDomain(low, high, log, False, nullable, quantile)
        whole = spec.integer or column.kind == "integer"
        decimals = 0 if whole else spec.decimals
        # Of a column of whole numbers the bounds may be fractions.
        return domain.with_decimals(decimals) if isinstance(decimals, int) else domain
    if isinstance(spec, Datetime):
        ends = np.array([spec.low.timestamp(), spec.high.timestamp()])
        step = SECONDS_OF.get("D" if is_date(column.dtype) else spec.unit or "")
        if step is not None:
            ends = np.floor(to_wall(ends, column) / step)
        low, high = map(float, ends)
        return NumericDomain(low, high, False, step is not None, nullable, step=step)
    if isinstance(spec, Categorical):
        return LevelDomain(tuple(spec.categories), nullable, spec.ordered)
    if isinstance(spec, Boolean):
        return LevelDomain((False, True), nullable)
    return None


def public_levels(column: ColumnLayout) -> tuple[Hashable, ...]:
    """Give the levels that a dtype makes public: those of a boolean."""
    return (False, True) if column.kind == "boolean" else ()


def buy_levels(
    table: pd.DataFrame | Parts,
    columns: list[ColumnLayout],
    accountant: PrivacyAccountant,
    *,
    mu: float,
    threshold_delta: float,
    n_rows: float,
) -> list[LevelDomain]:
    """Find the categories of columns that the schema leaves out, sorted by name.

    Kept are levels whose noisy count passed; an infinite one is left to 'other'. A
    missing value is counted as one more key, so a row has one key per column: the
    sensitivity is the root of the number of columns.
    """
    counters = total_keys(Parts.of(table), [column.name for column in columns])
    all_keys = [sorted(key for key in own if key is not None) for own in counters]
    counts = [
        clamped_counts(own[key] for key in [*keys, None])
        for own, keys in zip(counters, all_keys, strict=True)
    ]
    reservation = accountant.reserve_gaussian(
        "categories", mu=mu, sensitivity=math.sqrt(len(columns)), delta=threshold_delta
    )
    domains = []
    released = thresholded_counts(
        counts,
        reservation,
        threshold_delta,
        lambda: [[*keys, None] for keys in all_keys],
    )
    for column, keys, (kept, noisy) in zip(columns, all_keys, released, strict=True):
        nullable = len(keys) in kept
        listed = (keys[position] for position in kept if position < len(keys))
        found = tuple(key for key in listed if is_finite(key))
        ordered = bool(getattr(column.dtype, "ordered", False))
        unsure = _SURE_FROM * reservation.noise_std * math.sqrt(max(len(kept), 1))
        seen = (float(np.sum(noisy)) + unsure) / n_rows
        other = 0.0 if public_levels(column) else max(1.0 - seen, 0.0)
        levels = public_levels(column) or found
        domains.append(LevelDomain(levels, nullable, ordered, other))
    return domains


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
