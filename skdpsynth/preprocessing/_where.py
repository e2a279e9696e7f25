"""Conditions on synthetic rows: what they allow of each column, as values and ranks.

All is public: the marginals are released, and a condition is the user's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.preprocessing._convert import to_wall
from skdpsynth.preprocessing._domains import LevelDomain, NumericDomain
from skdpsynth.schema._values import plain

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._domains import ColumnDomain
    from skdpsynth.preprocessing._layout import ColumnLayout
    from skdpsynth.preprocessing._model import TableModel
    from skdpsynth.preprocessing._purchase import TableFacts
    from skdpsynth.preprocessing._transforms import MarginalTransform

    Spans = NDArray[np.float64]  # (n, 2): intervals of ranks, without their ends


@dataclass(frozen=True)
class Allowed:
    """What a condition allows of one column: numbers or codes of levels, inclusive."""

    ranges: NDArray[np.float64]  # (n, 2)
    missing: bool

    def holds(
        self, marginal: MarginalTransform, ranks: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Tell which ranks in the marginal stand for an allowed value."""
        values, missing = marginal.decode(ranks)
        low, high = self.ranges.T[:, :, None]
        inside = ((low <= values) & (values <= high)).any(axis=0)
        return np.where(missing, self.missing, inside)

    def spans(self, marginal: MarginalTransform) -> Spans:
        """Give the ranks in the marginal that stand for allowed values."""
        if isinstance(marginal.domain, NumericDomain):
            ends = np.array([marginal.domain.span(*own) for own in self.ranges])
            ends = ends.reshape(-1, 2)
            found = np.column_stack(
                (marginal.cdf(ends[:, 0])[0], marginal.cdf(ends[:, 1])[1])
            )
        else:
            places = np.flatnonzero(np.isin(marginal.points, self.ranges[:, 0]))
            found = np.column_stack(
                (marginal.cumulative[places], marginal.cumulative[places + 1])
            )
        found = marginal.missing + (1.0 - marginal.missing) * found
        if self.missing:
            found = np.concatenate(([[0.0, marginal.missing]], found))
        return np.asarray(found[found[:, 1] > found[:, 0]])


@dataclass(frozen=True)
class Condition:
    """What `where` of `sample` asks for."""

    columns: dict[int, Allowed]  # by position among the modelled columns
    classes: NDArray[np.bool_]  # which may be drawn

    @classmethod
    def of(cls, where: Mapping[Hashable, Any], facts: TableFacts) -> Condition:
        """Read a condition; raise ValueError if no row of the table could satisfy it.

        A column is compared with one value, with any of a list, or, if it holds numbers
        or times, with a tuple of two ends, of which None is open.
        """
        if not isinstance(where, Mapping):
            raise ValueError(
                "where must be a dict from column name to what is wanted of it. Got "
                f"{type(where).__name__} instead."
            )
        places = {column.name: j for j, column in enumerate(facts.columns)}
        target, labels = facts.layout.target, facts.classes.levels
        columns, classes = {}, np.ones(len(facts.classes), dtype=bool)
        for name, wanted in where.items():
            if name in places:
                j = places[name]
                columns[j] = _allowed(facts.columns[j], facts.domains[j], wanted)
            elif target is not None and name == target and labels:
                column = facts.layout.label_column
                assert column is not None
                found = _allowed(column, LevelDomain(labels, nullable=False), wanted)
                classes &= np.isin(np.arange(len(labels)), found.ranges[:, 0])
            else:
                raise ValueError(
                    f"where names {name!r}, but rows can be chosen by these columns "
                    f"only: {[*places, *([target] if labels else [])]!r}."
                )
        return cls(columns, classes)

    def spans(self, model: TableModel) -> list[dict[int, Spans]]:
        """Give the allowed ranks of each class, by column."""
        return [
            {j: allowed.spans(own[j]) for j, allowed in self.columns.items()}
            for own in model.marginals
        ]

    def holds(
        self,
        model: TableModel,
        ranks: NDArray[np.float64],
        members: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Tell which rows satisfy it, from their ranks and classes."""
        found = self.classes[members]
        for c, own in enumerate(model.marginals):
            rows = np.flatnonzero(members == c)
            for j, allowed in self.columns.items():
                found[rows] &= allowed.holds(own[j], ranks[rows, j])
        return found


def drawn_within(uniforms: NDArray[np.float64], spans: Spans) -> NDArray[np.float64]:
    """Turn numbers that are uniform in [0, 1) into ones that are so in `spans`."""
    ends = np.cumsum(spans[:, 1] - spans[:, 0])
    if len(spans) == 0:
        return uniforms
    along = uniforms * ends[-1]
    place = np.minimum(np.searchsorted(ends, along, side="right"), len(ends) - 1)
    return np.asarray(spans[place, 1] - (ends[place] - along))


def _allowed(column: ColumnLayout, domain: ColumnDomain, wanted: Any) -> Allowed:  # noqa: ANN401
    """Read what is wanted of one column."""
    numeric = isinstance(domain, NumericDomain)
    ends = numeric and isinstance(wanted, tuple)
    if ends and len(wanted) != 2:
        raise ValueError(
            f"where[{column.name!r}] must be a value, a list of values, or a tuple of "
            f"two ends. Got a tuple of {len(wanted)}."
        )
    listed = isinstance(wanted, list | tuple | set | frozenset | np.ndarray | pd.Index)
    values = list(wanted) if listed else [wanted]
    gone = [value is None or value is pd.NA or value != value for value in values]
    if ends:
        open_ends = (-np.inf, np.inf)
        both = zip(values, gone, open_ends, strict=True)
        low, high = (end if none else _number(v, column) for v, none, end in both)
        return Allowed(np.array([[low, high]]), missing=False)
    present = [value for value, none in zip(values, gone, strict=True) if not none]
    if isinstance(domain, LevelDomain):
        numbers = _codes(present, column, domain.levels)
    else:
        numbers = [_number(value, column) for value in present]
    ranges = np.array(numbers, dtype=np.float64).reshape(-1, 1).repeat(2, axis=1)
    return Allowed(ranges, missing=any(gone))


def _codes(
    values: Sequence[Any], column: ColumnLayout, levels: tuple[Hashable, ...]
) -> list[float]:
    """Find values among the levels of a column."""
    code_of = {level: float(code) for code, level in enumerate(levels)}
    try:
        return [code_of[plain(value)] for value in values]
    except (KeyError, TypeError):
        raise ValueError(
            f"where[{column.name!r}] must be of the column's categories, which are "
            f"{list(levels)!r}. Got another value."
        ) from None


def _number(value: Any, column: ColumnLayout) -> float:  # noqa: ANN401 - any scalar
    """Read a number, a time (seconds on the column's clock) or a duration (seconds)."""
    try:
        if column.kind == "timedelta":
            return pd.Timedelta(value).total_seconds()
        if column.kind != "datetime":
            return float(value)
        moment = pd.Timestamp(value)
        if getattr(column.dtype, "tz", None) is None:
            return moment.timestamp()
        if moment.tzinfo is None:
            moment = moment.tz_localize(column.dtype.tz)
        return float(to_wall(np.array([moment.timestamp()]), column)[0])
    except (TypeError, ValueError):
        raise ValueError(
            f"where[{column.name!r}] must hold values of the kind of the column "
            f"({column.kind}). Got {type(value).__name__} instead."
        ) from None
