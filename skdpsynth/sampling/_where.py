"""Conditions on synthetic rows: what they allow of each column, as values and ranks.

All is public: the marginals are released, and a condition is the user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from skdpsynth.measure import TableModel
from skdpsynth.model import decode_cells, decode_columns
from skdpsynth.schema import ROUNDING, SECONDS_OF
from skdpsynth.table import (
    CategoryDomain,
    ColumnDomain,
    ColumnLayout,
    MarginalTransform,
    Metadata,
    NumericDomain,
)
from skdpsynth.utils import CHUNK_ROWS
from skdpsynth.utils.arrays import Bools, Floats, Ints
from skdpsynth.utils.dtypes import plain

Spans = Floats  # (n, 2): intervals of ranks, without their ends
# Ranks of rows of given classes, by a stream.
DrawRanks = Callable[[Ints, np.random.Generator], Floats]

_HOUR = SECONDS_OF["h"]
_CHUNK_ROWS = 250_000  # rows drawn at once; with another number a seed draws others
_COLUMNS = pd.Series | pd.Index


@dataclass(frozen=True)
class Allowed:
    """What a condition allows of one column: numbers or codes of categories."""

    ranges: Floats  # (n, 2), inclusive, in order and apart
    missing: bool
    # The column of times that are whole units on the clock of a zone: in seconds, UTC.
    zoned: ColumnLayout | None = None

    def holds(self, values: Floats, missing: Bools) -> Bools:
        """Return which values are allowed."""
        if self.zoned is not None:
            values = self.zoned.from_wall(values)
        # Only the last range that begins below a value may hold it.
        place = np.searchsorted(self.ranges[:, 0], values, side="right") - 1
        ends = np.append(self.ranges[:, 1], -np.inf)  # where none begins below
        return np.where(missing, self.missing, values <= ends[place])

    def spans(self, marginal: MarginalTransform) -> Spans:
        """Return ranks in the marginal that include all allowed values."""
        if isinstance(marginal.domain, NumericDomain):
            ranges = self.ranges
            if self.zoned is not None:  # an hour wider: clocks are put on or back
                ranges = ranges + np.array([-_HOUR, _HOUR])
                finite = np.isfinite(ranges)
                ranges[finite] = self.zoned.to_wall(ranges[finite])
                ranges = _apart(ranges)
            ends = np.array([marginal.domain.span(*ends) for ends in ranges])
            low, high = ends.reshape(-1, 2).T
            pair = marginal.cdf(low)[0], marginal.cdf(high)[1]
        else:
            places = np.flatnonzero(np.isin(marginal.points, self.ranges[:, 0]))
            pair = marginal.cumulative[places], marginal.cumulative[places + 1]
        spans = marginal.missing + (1.0 - marginal.missing) * np.column_stack(pair)
        if self.missing:
            spans = np.concatenate(([[0.0, marginal.missing]], spans))
        return np.asarray(spans[spans[:, 1] > spans[:, 0]])


@dataclass(frozen=True)
class Condition:
    """What `where` of `sample` asks for."""

    columns: dict[Hashable, Allowed]  # by name; not the classes
    classes: Bools  # which may be drawn

    @classmethod
    def of(cls, where: Mapping[Hashable, Any], metadata: Metadata) -> Condition:
        """Read a condition; refuse one that no row of the table could satisfy."""
        if not isinstance(where, Mapping):
            raise ValueError(
                "where must be a dict from column name to what is wanted of it. Got "
                f"{type(where).__name__} instead."
            )
        known = dict(metadata.drawn)
        target, labels = metadata.layout.target, metadata.classes.labels
        label = metadata.layout.label_column
        if labels and label is not None:
            known[target] = label, CategoryDomain(labels, nullable=False)
        unknown = [name for name in where if name not in known]
        if unknown:
            raise ValueError(
                f"where names {unknown[0]!r}, but rows can be chosen by these columns "
                f"only: {[*known]!r}."
            )
        columns = {name: _allowed(*known[name], part) for name, part in where.items()}
        classes = np.ones(len(metadata.classes), dtype=bool)
        if labels and target in columns:
            classes = np.isin(np.arange(len(labels)), columns.pop(target).ranges[:, 0])
        return cls(columns, classes)

    def spans(self, model: TableModel) -> list[dict[int, Spans]]:
        """Return the allowed ranks of each class, by position of the column."""
        # Not of columns that a rule changes: a rank does not tell their values.
        names = [column.name for column in model.metadata.columns]
        left = self.columns.keys() - model.metadata.rules.changed
        places = {j: self.columns[n] for j, n in enumerate(names) if n in left}
        return [
            {j: allowed.spans(marginals[j]) for j, allowed in places.items()}
            for marginals in model.marginals
        ]

    def holds(self, model: TableModel, ranks: Floats, class_codes: Ints) -> Bools:
        """Return which rows satisfy it, from their ranks and classes."""
        holds = self.classes[class_codes]
        cells = decode_cells(model, ranks, class_codes, self.columns)
        for name, allowed in self.columns.items():
            holds &= allowed.holds(*cells[name])
        return holds


def rows_where(
    condition: Condition,
    model: TableModel,
    draw: DrawRanks,
    left: Floats,
    n_samples: int,
    rng: np.random.Generator,
) -> Iterator[list[pd.Series | None]]:
    """Draw rows that satisfy a condition: the columns of one part after another."""
    # `draw` leaves the share `left` of a class, with all that do. Others are drawn
    # again, class and all, so the law is that of the generator.
    shares = left * condition.classes * model.metadata.classes.prior
    n_found = tried = 0
    while n_found < n_samples:
        if tried >= 1000 * (CHUNK_ROWS + n_samples) or not shares.sum() > 0:
            raise ValueError(_too_few(condition, model, n_found, tried))
        wanted = (n_samples - n_found) * (tried + 1) / (n_found + 1)
        size = int(min(max(wanted, 1000), _CHUNK_ROWS))
        class_codes = rng.choice(len(shares), size, p=shares / shares.sum())
        ranks = draw(class_codes, rng)
        rows = np.flatnonzero(condition.holds(model, ranks, class_codes))
        rows = rows[: n_samples - n_found]
        if len(rows):
            yield decode_columns(model, ranks[rows], class_codes[rows])
        n_found, tried = n_found + len(rows), tried + size


def drawn_within(uniforms: Floats, spans: Spans) -> Floats:
    """Turn numbers that are uniform in [0, 1) into ones that are so in `spans`."""
    ends = np.cumsum(spans[:, 1] - spans[:, 0])
    if len(spans) == 0:
        return uniforms
    along = uniforms * ends[-1]
    place = np.minimum(np.searchsorted(ends, along, side="right"), len(ends) - 1)
    return np.asarray(spans[place, 1] - (ends[place] - along))


def _allowed(column: ColumnLayout, domain: ColumnDomain, wanted: Any) -> Allowed:  # noqa: ANN401
    """Read what is wanted of one column."""
    if isinstance(wanted, tuple):
        if len(wanted) != 2:
            raise ValueError(
                f"where[{column.name!r}] must be a value, a list of values, or a tuple"
                f" of two ends. Got a tuple of {len(wanted)}."
            )
        ends = [None if pd.isna(end) is True else end for end in wanted]
        return _of(_between(column, domain, *ends), column, domain, missing=False)
    listed = isinstance(wanted, list | set | frozenset | np.ndarray | _COLUMNS)
    values = list(wanted) if listed else [wanted]
    present = [value for value in values if pd.isna(value) is not True]
    if isinstance(domain, CategoryDomain):
        numbers = _codes(present, column, domain.categories)
    else:
        numbers = [_number(value, column) for value in present]
    missing = len(present) < len(values)
    return _of([(x, x) for x in numbers], column, domain, missing=missing)


def _between(
    column: ColumnLayout,
    domain: ColumnDomain,
    low: Any,  # noqa: ANN401 - any scalar
    high: Any,  # noqa: ANN401
) -> list[tuple[float, float]]:
    """Read a range, of which None is an open end."""
    if isinstance(domain, NumericDomain):
        start = -np.inf if low is None else _number(low, column)
        return [(start, np.inf if high is None else _number(high, column))]
    try:
        if any(isinstance(category, str | bool) for category in domain.categories):
            raise TypeError
        return [
            (code, code)
            for code, category in enumerate(domain.categories)
            if (low is None or low <= category) and (high is None or category <= high)
        ]
    except TypeError:
        raise ValueError(
            f"where[{column.name!r}] is a tuple, which is a range of numbers or times,"
            " and the categories of the column are none. Give a list."
        ) from None


def _of(
    pairs: list[tuple[float, float]],
    column: ColumnLayout,
    domain: ColumnDomain,
    *,
    missing: bool,
) -> Allowed:
    """Bring ranges to what the column can hold: in order, apart, none outside."""
    ranges, zoned = np.array(pairs, dtype=np.float64).reshape(-1, 2), None
    if isinstance(domain, NumericDomain):
        low = min([domain.bounds[0], *domain.special])
        high = max([domain.bounds[1], *domain.special])
        if column.zone is not None and domain.step is not None:
            zoned = column
            low, high = column.from_wall(np.array([low, high]))
            low, high = low - _HOUR, high + _HOUR
        elif domain.integer:
            # As whole numbers are turned into values, so that equal ones are equal.
            lows, highs = domain.to_steps(ranges).T
            whole = np.ceil(lows - ROUNDING), np.floor(highs + ROUNDING)
            ranges = domain.from_steps(np.column_stack(whole))
        inside = (ranges[:, 1] >= low) & (ranges[:, 0] <= high)
        ranges = ranges[inside & (ranges[:, 0] <= ranges[:, 1])]
    return Allowed(_apart(ranges), missing, zoned)


def _apart(ranges: Floats) -> Floats:
    """Put ranges in order, and join those that meet."""
    joined: list[list[float]] = []
    for low, high in np.unique(ranges, axis=0).tolist():
        if joined and low <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], high)
        else:
            joined.append([low, high])
    return np.array(joined).reshape(-1, 2)


def _codes(
    values: Sequence[Any], column: ColumnLayout, categories: tuple[Hashable, ...]
) -> list[float]:
    """Find values among the categories of a column."""
    code_of = {category: float(code) for code, category in enumerate(categories)}
    try:
        return [code_of[plain(value)] for value in values]
    except (KeyError, TypeError):
        raise ValueError(
            f"where[{column.name!r}] must be of the column's categories, which are "
            f"{list(categories)!r}. Got another value."
        ) from None


def _number(value: Any, column: ColumnLayout) -> float:  # noqa: ANN401 - any scalar
    """Read a number, a time (seconds since 1970 UTC) or a duration (seconds)."""
    try:
        is_number = isinstance(value, Real)
        if column.kind == "timedelta" and not is_number:
            return pd.Timedelta(value).total_seconds()
        if column.kind != "datetime":
            return float(value)
        moment = pd.Timestamp(value)
        zone = column.zone
        if zone is not None and moment.tzinfo is None:
            moment = moment.tz_localize(zone)
        return moment.timestamp()
    except (TypeError, ValueError):
        raise ValueError(
            f"where[{column.name!r}] must hold values of the kind of the column "
            f"({column.kind}). Got {type(value).__name__} instead."
        ) from None


def _too_few(condition: Condition, model: TableModel, n_found: int, tried: int) -> str:
    """Return which columns have no such value, or how rare the combination is."""
    spans = condition.spans(model)
    names = [column.name for column in model.metadata.columns]
    empty = [names[j] for j in spans[0] if not any(len(part[j]) for part in spans)]
    if not condition.classes.any():
        empty.append(model.metadata.layout.target)
    if empty:
        return (
            f"No synthetic row has what where asks for of {empty!r}: schema_ has the"
            " values and bounds that were declared or found. Ask for some of these."
        )
    return (
        f"{n_found} rows that satisfy where were among {tried:,} drawn ones. Ask for"
        " less: fewer columns, more values, or ranges inside the bounds that schema_"
        " has."
    )
