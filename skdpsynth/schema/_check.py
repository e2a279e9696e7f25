"""What in a private table a schema does not fit: for who may see its rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.schema._check_rules import broken
from skdpsynth.schema._columns import (
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
)
from skdpsynth.schema._dtypes import (
    as_moments,
    column_kind,
    float_info,
    is_missing,
    is_object,
)
from skdpsynth.schema._fits import check_dtype, check_objects
from skdpsynth.schema._values import decimals_of, plain

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from skdpsynth.schema._table_schema import TableSchema


def findings(schema: TableSchema, df: pd.DataFrame) -> pd.DataFrame:
    """List columns, what of them is not as declared, and in how many rows."""
    found: list[tuple[Hashable, str, int]] = []
    for name, series in df.items():
        counts = schema.class_counts if name == schema.target else None
        pairs = _in_column(name, series, schema.columns.get(name), counts or {})
        found += [(name, words, rows) for words, rows in pairs]
    labels = [] if schema.target is None else [schema.target]
    for name in dict.fromkeys([*schema.columns, *labels]):
        if name not in df.columns:
            found.append((name, "no such column: fit refuses", len(df)))
    found += [(None, *pair) for pair in _in_rules(schema, df)]
    if schema.n_rows not in (None, len(df)):
        found.append((None, f"n_rows is declared as {schema.n_rows}", len(df)))
    # As objects: pandas would read None among names as NaN.
    table = pd.DataFrame(found, columns=["column", "finding", "rows"], dtype=object)
    table = table.astype({"rows": "int64"})
    table.attrs["contains_private_statistics"] = True
    return table


def _in_column(
    name: Hashable,
    series: pd.Series,
    described: Column | None,
    class_counts: Mapping[Hashable, int],
) -> Iterator[tuple[str, int]]:
    try:
        kind = _checked_kind(name, series, described)
    except (InvalidSchemaError, InvalidTableError) as error:
        yield f"fit refuses: {error}", len(series)
        return
    if described is None:
        yield "not declared: bought", len(series)
    for words, rows in _in_rows(series, kind, described):
        if rows:
            yield words, rows
    counts = Counter(_plain_values(series)) if class_counts else Counter()
    for label, n in class_counts.items():
        if counts[label] != n:
            yield f"class {label!r} is declared with {n} rows", counts[label]


def _checked_kind(name: Hashable, series: pd.Series, described: Column | None) -> str:
    """Return the kind of a column; an error where a fit would raise it."""
    kind, can_be_missing = column_kind(name, series)
    if described is None:
        return kind
    if is_object(series.dtype) and isinstance(described, Boolean):
        kind = "boolean"
    check_dtype(described, name, series.dtype, kind, can_be_missing)
    check_objects(described, name, series)
    return kind


def _in_rules(schema: TableSchema, df: pd.DataFrame) -> Iterator[tuple[str, int]]:
    """Yield how rows break rules; not those about columns that a fit refuses."""
    for rule in schema.rules:
        try:
            for name in rule.names:
                _checked_kind(name, df[name], schema.columns[name])
        except (KeyError, InvalidSchemaError, InvalidTableError):
            continue
        words, rows = broken(rule, df)
        if rows:
            yield words, rows


def _in_rows(
    series: pd.Series, kind: str, described: Column | None
) -> Iterator[tuple[str, int]]:
    """Yield what values are not as declared, and how many; it may be none."""
    missing = is_missing(series)
    present = as_moments(series[~missing])
    if kind == "continuous":
        values = present.to_numpy(dtype=np.float64)
        yield "infinite: fit refuses", int(np.isinf(values).sum())
    if getattr(described, "nullable", True) is False:
        yield "missing, though not nullable: not counted", int(missing.sum())
    if isinstance(described, Continuous):
        yield from _in_numbers(present, kind, described)
    elif isinstance(described, Datetime):
        yield from _in_times(present, described)
    elif isinstance(described, Categorical):
        known = set(described.categories)
        strange = sum(value not in known for value in _plain_values(present))
        yield "level not declared: read as 'other'", strange
    elif isinstance(described, Identifier):
        repeated = present.duplicated(keep=False)
        yield "identifier that another row has too", int(repeated.sum())


def _in_numbers(
    present: pd.Series, kind: str, described: Continuous
) -> Iterator[tuple[str, int]]:
    if kind == "timedelta":
        present = present.dt.total_seconds()
    limits = float_info(present.dtype)
    values = present.to_numpy(dtype=np.float64)
    values = values[np.isfinite(values)]
    with np.errstate(over="ignore"):  # 0.1 is another number in single precision
        low, high = map(limits.dtype.type, (described.low, described.high))
    yield f"below {described.low}: clipped", int((values < low).sum())
    yield f"above {described.high}: clipped", int((values > high).sum())
    decimals = 0 if described.integer else described.decimals
    if isinstance(decimals, int):
        finer = decimals_of(values, float(limits.eps), decimals) > decimals
        what = f"more than {decimals} decimals" if decimals else "not a whole number"
        yield f"{what}: rounded", int(finer.sum())


def _in_times(present: pd.Series, described: Datetime) -> Iterator[tuple[str, int]]:
    moments = pd.DatetimeIndex(present)
    since_epoch, low, high = map(_utc, (moments, described.low, described.high))
    yield f"before {described.low}: clipped", int((since_epoch < low).sum())
    yield f"after {described.high}: clipped", int((since_epoch > high).sum())
    if described.unit is not None:
        clock = moments.tz_localize(None)
        finer = clock != clock.floor(described.unit)
        yield f"finer than unit {described.unit!r}: cut down", int(finer.sum())


def _utc(moments: Any) -> Any:  # noqa: ANN401 - one moment, or many
    """Read moments without a zone as UTC, as a fit does."""
    zoned = moments.tz_localize("UTC") if moments.tz is None else moments
    return zoned.tz_convert("UTC")


def _plain_values(series: pd.Series) -> Iterator[Any]:
    """Yield values as exact built-in scalars, which equal levels of a schema."""
    return map(plain, as_moments(series).tolist())
