"""Everything a fit must know before it can train: declared, or bought here, in order.

The shares below are of the squared Gaussian-DP parameter of the whole fit. What a
schema makes unnecessary is not spent, and goes to what follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.preprocessing._axes import Axis, LevelAxis
from skdpsynth.preprocessing._classes import (
    Classes,
    buy_classes,
    classes_are_public,
)
from skdpsynth.preprocessing._columns import (
    PrivateRows,
    buy_levels,
    buy_ranges,
    declared_axis,
    encode_rows,
    public_levels,
)
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Identifier,
    TableSchema,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from skdpsynth.preprocessing._layout import ColumnLayout, TableLayout
    from skdpsynth.privacy import PrivacyAccountant

__all__ = ["TableFacts", "buy_facts", "discovery_share", "modelled_columns"]

CLASS_SHARE = 0.04
LEVELS_SHARE = 0.06
RANGES_SHARE = 0.10
DISCOVERY_SHARE = 0.1  # of delta, for keys found by threshold


@dataclass(frozen=True)
class TableFacts:
    """What is public about a table once everything was bought.

    Parameters
    ----------
    layout : TableLayout
        Names and dtypes of all columns.
    columns : tuple of ColumnLayout
        The feature columns that are modelled, in order.
    axes : tuple of Axis
        The axis of each of them.
    classes : Classes
        Labels and their counts.
    """

    layout: TableLayout
    columns: tuple[ColumnLayout, ...]
    axes: tuple[Axis, ...]
    classes: Classes

    def schema(self, declared: TableSchema | None) -> TableSchema:
        """Write the facts down as a schema: what was declared, and what was bought.

        Parameters
        ----------
        declared : TableSchema or None
            What the user gave; its columns are taken over as they are.

        Returns
        -------
        TableSchema
            A column of which no level could be released is left out.
        """
        given: dict[Hashable, Any] = {} if declared is None else dict(declared.columns)
        axis_of = dict(zip(self.columns, self.axes, strict=True))
        columns: dict[Hashable, Any] = {}
        for column in self.layout.columns:
            if column.name in given:
                columns[column.name] = given[column.name]
            elif column is self.layout.target_column:
                if self.classes.levels:
                    columns[column.name] = _described_levels(
                        column, LevelAxis(self.classes.levels, nullable=False)
                    )
            elif (axis := axis_of[column]) is not None:
                described = _described(column, axis)
                if described is not None:
                    columns[column.name] = described
        target = self.layout.target if self.layout.target in columns else None
        return TableSchema(columns, target=target)


def discovery_share(layout: TableLayout, schema: TableSchema | None) -> float:
    """Share of delta that finding keys will need: 0 where all keys are public."""
    return DISCOVERY_SHARE if _n_discoveries(layout, schema) else 0.0


def modelled_columns(
    layout: TableLayout, schema: TableSchema | None
) -> tuple[ColumnLayout, ...]:
    """Give the feature columns without identifiers; refuse if none is left."""
    declared = {} if schema is None else schema.columns
    columns = tuple(
        column
        for column in layout.feature_columns
        if not isinstance(declared.get(column.name), Identifier)
    )
    if not columns:
        msg = (
            "The schema makes every column an Identifier, which leaves nothing to "
            "model. Describe at least one column besides the target otherwise."
        )
        raise InvalidSchemaError(msg)
    return columns


def buy_facts(
    frame: pd.DataFrame,
    layout: TableLayout,
    schema: TableSchema | None,
    accountant: PrivacyAccountant,
) -> tuple[TableFacts, PrivateRows]:
    """Buy what the schema does not say, and encode the rows with it.

    Parameters
    ----------
    frame : DataFrame
        The private table, checked.
    layout : TableLayout
        Its structure.
    schema : TableSchema or None
        Public facts.
    accountant : PrivacyAccountant
        Ledger of the fit, with `discovery_share` of delta set aside.

    Returns
    -------
    facts : TableFacts
        Public from here on.
    rows : PrivateRows
        The table as numbers; private.
    """
    cap = accountant.mu_cap
    pieces = max(_n_discoveries(layout, schema), 1)
    threshold_delta = DISCOVERY_SHARE * accountant.delta / pieces
    target = layout.target_column
    classes, members = buy_classes(
        None if target is None else frame[target.name],
        target,
        schema,
        accountant,
        n_rows=len(frame),
        mu=cap * math.sqrt(CLASS_SHARE),
        threshold_delta=threshold_delta,
    )
    columns = modelled_columns(layout, schema)
    axes = {column: declared_axis(column, schema) for column in columns}
    keyed = [c for c in columns if axes[c] is None and _has_levels(c)]
    if keyed:
        bought = buy_levels(
            frame,
            keyed,
            accountant,
            mu=cap * math.sqrt(LEVELS_SHARE),
            threshold_delta=threshold_delta,
        )
        axes.update(zip(keyed, bought, strict=True))
    numeric = [c for c in columns if axes[c] is None]
    if numeric:
        ranges = buy_ranges(
            frame, numeric, accountant, mu=cap * math.sqrt(RANGES_SHARE)
        )
        axes.update(zip(numeric, ranges, strict=True))
    found = [axis for axis in axes.values() if axis is not None]
    facts = TableFacts(layout, columns, tuple(found), classes)
    return facts, encode_rows(frame, list(columns), found, members)


def _has_levels(column: ColumnLayout) -> bool:
    return column.kind in ("categorical", "boolean")


def _n_discoveries(layout: TableLayout, schema: TableSchema | None) -> int:
    """Count the releases that need a delta of their own: labels, and categories."""
    columns = modelled_columns(layout, schema)
    categories = any(
        _has_levels(column) and declared_axis(column, schema) is None
        for column in columns
    )
    target = layout.target_column
    labels = target is not None and not classes_are_public(target, schema)
    return int(categories) + int(labels)


def _described(column: ColumnLayout, axis: Axis) -> Any:  # noqa: ANN401 - a column
    if isinstance(axis, LevelAxis):
        return _described_levels(column, axis)
    if column.kind == "datetime":
        zone = getattr(column.dtype, "tz", None)
        low, high = (
            pd.Timestamp(end, unit="s", tz=zone) for end in (axis.low, axis.high)
        )
        return Datetime(low, high, nullable=axis.nullable)
    scale: Literal["log", "linear"] = "log" if axis.log else "linear"
    return Continuous(
        axis.low, axis.high, integer=axis.integer, nullable=axis.nullable, scale=scale
    )


def _described_levels(column: ColumnLayout, axis: LevelAxis) -> Any:  # noqa: ANN401
    if column.kind == "boolean" and axis.levels == public_levels(column):
        return Boolean(nullable=axis.nullable)
    if not axis.levels:
        return None
    return Categorical(list(axis.levels), ordered=axis.ordered, nullable=axis.nullable)
