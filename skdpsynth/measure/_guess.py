"""The table that `plan` is asked about: guessed from names, dtypes and a schema."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.measure._discovery import (
    public_labels,
)
from skdpsynth.schema import Boolean, Continuous, Datetime, is_object, known_kind
from skdpsynth.table import (
    ColumnLayout,
    TableLayout,
    check_schema,
)
from skdpsynth.utils.containers import dtypes_of

if TYPE_CHECKING:
    from skdpsynth.schema import Column, TableSchema


@dataclass(frozen=True)
class Guess:
    """A table that nobody has read; its only label is None without a target."""

    layout: TableLayout
    schema: TableSchema | None
    labels: tuple[Hashable, ...]
    counts: np.ndarray  # rows of each class


def guessed_layout(
    dtypes: Mapping[Hashable, Any] | pd.Series | None,
    schema: TableSchema | None,
    target: Hashable,
    last: TableLayout | None = None,
) -> TableLayout:
    """Lay out a table: by its dtypes, as the last one, or by a schema alone.

    An object column counts as text, unless the schema says Boolean.
    """
    described = {} if schema is None else schema.columns
    if dtypes is not None:
        dtypes = dtypes_of(dtypes)
        layout = TableLayout.of(_read_dtypes(dtypes, described), target, schema)
        if target is not None and target not in dtypes:
            msg = f"The target {target!r} is not in dtypes. Give those of all columns."
            raise InvalidSchemaError(msg)
    elif last is not None:
        layout = last
    elif schema is not None:
        columns = [_layout_of(name, column) for name, column in described.items()]
        if target is not None and target not in described:
            columns.append(ColumnLayout(target, None, "categorical", True))
        return TableLayout.of(tuple(columns), target, schema)
    else:
        raise InvalidSchemaError(
            "plan needs to know the columns. Give dtypes=df.dtypes (names and dtypes "
            "are public), or schema=TableSchema(...) in the constructor or here."
        )
    if schema is not None:
        check_schema(schema, layout)
    return layout


def guess_table(
    layout: TableLayout,
    schema: TableSchema | None,
    n_rows: int | None,
    class_counts: Mapping[Hashable, int] | None,
    known_labels: tuple[Hashable, ...] = (),
) -> Guess:
    """Complete a guess by the schema: which classes, and how many rows has each.

    `known_labels` are what an earlier fit found, used where the labels are not public.
    """
    if class_counts is not None and not isinstance(class_counts, Mapping):
        raise ValueError(
            "class_counts must be a dict from class to count. Got "
            f"{type(class_counts).__name__} instead."
        )
    if layout.measured and class_counts is not None:
        raise ValueError(
            f"The target {layout.target!r} is a number and has no classes. Leave out "
            "class_counts, and give n_rows."
        )
    if layout.target is None and class_counts is not None:  # for fit(X, y)
        layout = _with_labels(layout, tuple(class_counts))
    target = layout.label_column
    labels: tuple[Hashable, ...] = (None,)
    if target is not None:
        public = public_labels(target, schema)
        if public is not None:  # no category: nothing but missing values
            labels = public or (None,)
        else:
            labels = tuple(class_counts or known_labels)
            layout = _with_labels(layout, labels)
            target = layout.label_column
            if labels and target is not None:
                labels = _likely_labels(target, labels)
            if class_counts is not None:  # a usual label that was left out is empty
                class_counts = dict.fromkeys(set(labels) & {0, 1}, 0) | {**class_counts}
        if not labels:
            raise InvalidSchemaError(
                f"plan needs to know the classes of the target {layout.target!r}. Give "
                "class_counts={label: rows, ...}, or describe it in the schema."
            )
    declared = None if schema is None else schema.class_counts
    if class_counts is None and declared:
        class_counts = declared
    if n_rows is None and class_counts is not None:
        n_rows = sum(class_counts.values())
    if n_rows is None and schema is not None:
        n_rows = schema.n_rows
    if n_rows is None:
        raise ValueError(
            "plan needs a guess of the number of rows. Give n_rows=..., or "
            "class_counts={label: rows, ...}."
        )
    n_rows = _checked_guess("n_rows", n_rows, least=1)
    if schema is not None and schema.n_rows not in (None, n_rows):
        raise ValueError(
            f"n_rows is {n_rows}, but the schema declares {schema.n_rows}. Leave out "
            "n_rows, or plan with a schema that does not declare it."
        )
    if class_counts is None:
        counts = np.full(len(labels), n_rows / len(labels))
        return Guess(layout, schema, labels, counts)
    missing = target is not None and target.can_be_missing
    _check_class_counts(class_counts, labels, n_rows, missing=missing)
    if declared and dict(class_counts) != dict(declared):
        raise ValueError(
            "class_counts differ from those that the schema declares, which a fit "
            "would use. Leave them out, or plan with a schema without class_counts."
        )
    counts = np.array([float(class_counts[label]) for label in labels])
    return Guess(layout, schema, labels, counts)


def _read_dtypes(
    dtypes: object, described: Mapping[Hashable, Column]
) -> tuple[ColumnLayout, ...]:
    """Lay out columns of which only names and dtypes are known."""
    if isinstance(dtypes, pd.Series) and not dtypes.index.is_unique:
        msg = "dtypes must have one entry per column. Got a name more than once."
        raise ValueError(msg)
    if not isinstance(dtypes, Mapping | pd.Series):
        raise ValueError(
            "dtypes must be df.dtypes, df.schema of pyarrow or polars, or a dict from "
            f"column name to dtype. Got {type(dtypes).__name__} instead."
        )
    columns = []
    for name, given in dtypes.items():
        try:
            dtype = pd.api.types.pandas_dtype(given)
        except TypeError as error:
            raise ValueError(
                f"The dtype of column {name!r} is none that pandas knows. Give "
                "dtypes=df.dtypes."
            ) from error
        if dtype == np.dtype(str):  # what "str" is before pandas 3
            dtype = np.dtype(object)
        kind, can_be_missing = known_kind(name, dtype)
        # Objects may be booleans; their dtype does not tell.
        if is_object(dtype) and isinstance(described.get(name), Boolean):
            kind = "boolean"
        columns.append(ColumnLayout(name, dtype, kind, can_be_missing))
    return tuple(columns)


def _layout_of(name: Hashable, column: Column) -> ColumnLayout:
    """Lay out a column that only a schema describes."""
    if isinstance(column, Continuous):
        kind: Any = "integer" if column.integer else "continuous"
    elif isinstance(column, Boolean):
        kind = "boolean"
    else:
        kind = "datetime" if isinstance(column, Datetime) else "categorical"
    return ColumnLayout(name, None, kind, getattr(column, "nullable", True))


def _with_labels(layout: TableLayout, labels: tuple[Hashable, ...]) -> TableLayout:
    """Give a target that no dtype describes the kind that its labels have."""
    kind: Any = "categorical"
    if all(isinstance(label, bool | np.bool_) for label in labels):
        kind = "boolean"
    elif all(isinstance(label, Integral) for label in labels):
        kind = "integer"
    target = layout.label_column
    if target is not None and target.dtype is not None:
        return layout
    name = "target" if target is None else target.name
    others = layout.feature_columns
    return TableLayout((*others, ColumnLayout(name, None, kind, True)), name)


def _likely_labels(
    target: ColumnLayout, labels: tuple[Hashable, ...]
) -> tuple[Hashable, ...]:
    """Give the labels that a fit will find: both usual ones if it finds no other."""
    if target.kind in ("continuous", "timedelta"):
        raise ValueError(
            f"The target {target.name!r} has dtype {target.dtype}, but classes must be "
            "strings, integers or booleans. Cast it, or describe it as Continuous."
        )
    whole = [isinstance(label, Integral) for label in labels]
    missing = [bool(pd.api.types.is_scalar(x) and pd.isna(x)) for x in labels]
    if any(missing) or (target.kind == "integer" and not all(whole)):
        raise ValueError(
            f"class_counts must name labels as the column {target.name!r} holds them, "
            f"which is of {target.kind} kind. Got {list(labels)!r} instead."
        )
    if target.kind == "integer" and set(labels) <= {0, 1}:
        return (0, 1)
    return labels


def _check_class_counts(
    class_counts: Mapping[Hashable, int],
    labels: tuple[Hashable, ...],
    n_rows: int,
    *,
    missing: bool,
) -> None:
    """Refuse counts of other classes, and counts that cannot be those of n_rows."""
    if set(class_counts) != set(labels):
        raise ValueError(
            f"class_counts must name every class once: {list(labels)!r}. Got "
            f"{list(class_counts)!r} instead."
        )
    for count in class_counts.values():
        _checked_guess("Each of class_counts", count, least=0)
    total = sum(class_counts.values())
    if total > n_rows or (total < n_rows and not missing):
        raise ValueError(
            f"class_counts add up to {total}, but n_rows is {n_rows}. Correct one, or "
            "leave out n_rows."
        )


def _checked_guess(name: str, value: object, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an int >= {least}. Got {value!r} instead.")
    return int(value)
