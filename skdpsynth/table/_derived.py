"""Columns that are computed from others: what they can hold, and their values.

A function of drawn rows and of the schema, so it costs nothing, and no private value of
such a column is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema import (
    EXACT,
    LARGEST,
    MOST_STATED_DECIMALS,
    SECONDS_OF,
    Computed,
    Kind,
    TableSchema,
    decimals_of,
    is_date,
    span,
)
from skdpsynth.table._domains import (
    NumericDomain,
    declared_domain,
    is_nullable,
    with_stated,
)
from skdpsynth.table._layout import ColumnLayout
from skdpsynth.table._ordered import Cells

Floats = NDArray[np.float64]
Columns = Mapping[Hashable, ColumnLayout]
Domains = Mapping[Hashable, Any]


def computed_cells(
    rule: Computed, columns: Columns, domains: Domains, cells: Mapping[Hashable, Cells]
) -> Cells:
    """Return the cells of a column from those of others, none outside its domain."""
    column, domain = columns[rule.names[0]], domains[rule.names[0]]
    whole = domain.integer and domain.step is None and not domain.decimals
    values = rule.values(column.kind, _read(rule, columns, domains, cells), whole=whole)
    missing = ~np.isfinite(values)
    values = np.where(missing, 0.0, values)
    if domain.step is not None:
        values = column.to_wall(values)
    if domain.integer:
        values = domain.from_steps(domain.whole_steps(values))
    return np.clip(values, *domain.bounds) + 0.0, missing


def computed_domain(
    rule: Computed, columns: Columns, domains: Domains, schema: TableSchema
) -> NumericDomain:
    """Return what a column can hold: as described, or all that comes of others."""
    column = columns[rule.names[0]]
    domain: Any = declared_domain(column, schema)
    numbers = column.kind in ("continuous", "integer")
    decimals = 0 if column.kind == "integer" else _decimals(rule, columns, domains)
    if domain is None:
        # All that is exact, and no more than its dtype holds.
        exact = decimals <= MOST_STATED_DECIMALS and numbers
        most = EXACT / 10.0**decimals - 1.0 if exact else LARGEST / 4.0
        low, high = np.clip(column.limits, -most, most).tolist()
        domain = NumericDomain(low, high, False, False, column.can_be_missing)
        domain = with_stated(column, domain, schema)
        if is_date(column.dtype):
            step = SECONDS_OF["D"]
            domain = domain.with_step(step, low // step, high // step)
    if domain.integer or not numbers or decimals > MOST_STATED_DECIMALS:
        return domain
    found = domain.with_decimals(int(decimals))
    return found if max(-found.low, found.high) < EXACT else domain


def check_computed(rule: Computed, columns: Columns, schema: TableSchema) -> bool:
    """Refuse dtypes that cannot hold the values; return whether some are missing."""
    column, *parts = (columns[name] for name in rule.names)
    nothing = np.empty(0)
    rule.values(column.kind, lambda name: (columns[name].kind, nothing))
    known = column.name in schema.columns
    if column.kind == "integer" and column.dtype is not None:
        domains = {p.name: declared_domain(p, schema) for p in parts}
        ends = {
            p.name: (p.kind, np.array(getattr(domains[p.name], "bounds", p.limits)))
            for p in parts
        }
        low, high = rule.values(column.kind, ends.__getitem__, span)
        least, most = np.clip(column.limits, -EXACT, EXACT)
        narrow = column.limits[1] < EXACT
        if (known or narrow) and not (least <= low and high <= most):
            raise InvalidSchemaError(
                f"The column {column.name!r} of the rule {rule} must hold all that"
                f" comes of the others, {low!r} to {high!r} as far as is stated, and"
                f" below 2**53. Got the dtype {column.dtype}; convert it to int64, or"
                " describe columns by narrower bounds."
            )
    return any(is_nullable(part, schema) for part in parts)


def _read(
    rule: Computed, columns: Columns, domains: Domains, cells: Mapping[Hashable, Cells]
) -> Callable[[Hashable], tuple[Kind, Floats]]:
    """Return a function that reads columns as a rule does, NaN where missing."""

    def read(name: Hashable) -> tuple[Kind, Floats]:
        column, (values, missing) = columns[name], cells[name]
        if domains[name].step is not None:
            values = column.from_wall(values)
        if rule.unit == "Y":
            values = column.to_wall(values)
        return column.kind, np.where(missing, np.nan, values)

    return read


def _decimals(rule: Computed, columns: Columns, domains: Domains) -> float:
    """Return how many decimals values have that come of others; infinite if any."""

    def of_column(name: Hashable) -> float:
        domain = domains[name]
        plain = domain.integer and domain.step is None and rule.unit is None
        return max(domain.decimals, 0) if plain else np.inf

    def of_number(number: float) -> float:
        most = MOST_STATED_DECIMALS
        return float(decimals_of(np.array([number]), np.finfo(float).eps, most)[0])

    def of_both(operation: np.ufunc, first: float, second: float) -> float:
        if operation is np.divide:
            return np.inf
        return first + second if operation is np.multiply else max(first, second)

    return float(rule.folded(of_column, of_number, of_both))
