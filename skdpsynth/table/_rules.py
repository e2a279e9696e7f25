"""Rules across columns, kept in every drawn row, and whether dtypes can keep them.

Rows are drawn first and then brought in line: a function of released numbers and of
the schema, so it costs nothing. Private rows are never compared with a rule. Numbers
out of order are sorted within their row, which then keeps all of its numbers
and gets no false tie; columns that follow from others are not modelled but computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema import (
    EXACT,
    MOST_DECIMALS,
    ROUNDING,
    Continuous,
    Determines,
    MissingTogether,
    Ordered,
    SumOf,
    check_decimals,
    check_target,
    in_order,
)
from skdpsynth.table._domains import (
    CategoryDomain,
    NumericDomain,
    declared_domain,
    needs_resolution,
)
from skdpsynth.table._layout import most_seconds, zone_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from skdpsynth.schema import Rule, TableSchema
    from skdpsynth.table._domains import ColumnDomain
    from skdpsynth.table._layout import ColumnLayout, TableLayout

    Floats = NDArray[np.float64]

# Of a column its numbers or codes of categories (-1: missing), and where it is missing.
Cells = tuple[NDArray[np.float64], NDArray[np.bool_]]


@dataclass(frozen=True)
class RowRules:
    """The rules of a schema, ready for drawn rows; domains of the columns in them."""

    rules: tuple[Rule, ...] = ()
    domains: Mapping[Hashable, ColumnDomain] = field(default_factory=dict)
    derived: tuple[ColumnLayout, ...] = ()  # what is computed, in a possible order

    @classmethod
    def of(
        cls,
        schema: TableSchema | None,
        layout: TableLayout,
        modelled: Mapping[Hashable, ColumnDomain],
    ) -> RowRules:
        """Make ready what a schema states, by the domains of what rows are drawn of."""
        if schema is None or not schema.rules:
            return cls()
        columns = {column.name: column for column in layout.columns}
        rules = [rule for rule in schema.rules if not rule.derived]
        domains, derived = dict(modelled), []
        for rule in in_order(schema.rules):
            (name,) = rule.derived
            derived.append(columns[name])
            domain = declared_domain(columns[name], schema)
            if isinstance(rule, SumOf):
                parts = [_numeric(domains[part]) for part in rule.parts]
                domain = _numeric(domain)
                if not domain.integer and all(part.integer for part in parts):
                    most = max(part.decimals for part in parts)
                    found = domain.with_decimals(most)  # those of its parts
                    domain = found if max(-found.low, found.high) < EXACT else domain
            assert domain is not None  # whatever a rule is about is described
            domains[name] = domain
            rules.append(rule)
        used = {name: domains[name] for rule in rules for name in rule.names}
        made = cls(tuple(rules), used, tuple(derived))
        # ValueError for domains of another kind, which a file may hold.
        made.keep(dict.fromkeys(used, (np.empty(0), np.empty(0, dtype=bool))))
        return made

    @property
    def names(self) -> set[Hashable]:
        """All columns that a rule is about."""
        return {name for rule in self.rules for name in rule.names}

    @property
    def changed(self) -> set[Hashable]:
        """All columns that are not as they were drawn."""
        changing = (rule for rule in self.rules if not rule.derived)
        found = {name for rule in changing for name in rule.names}
        return found | {column.name for column in self.derived}

    @property
    def together(self) -> list[tuple[Hashable, ...]]:
        """The columns that are missing together, the one that decides first."""
        return [rule.names for rule in self.rules if isinstance(rule, MissingTogether)]

    def keep(self, cells: dict[Hashable, Cells]) -> None:
        """Bring rows in line, in place, and add the columns that are computed."""
        for rule in self.rules:
            if isinstance(rule, Ordered):
                domains = [_numeric(self.domains[name]) for name in rule.names]
                found = _sorted([cells[name] for name in rule.names], domains)
                cells.update(zip(rule.names, found, strict=True))
            elif isinstance(rule, SumOf):
                parts = [cells[name] for name in rule.parts]
                cells[rule.total] = _sum(parts, _numeric(self.domains[rule.total]))
            elif isinstance(rule, Determines):
                cells[rule.decided] = self._looked_up(rule, cells[rule.deciding])

    def _looked_up(self, rule: Determines, deciding: Cells) -> Cells:
        domain = self.domains[rule.deciding]
        if not isinstance(domain, CategoryDomain):
            raise ValueError("a rule about categories")
        values = [rule.table[category] for category in domain.categories]
        decided = self.domains[rule.decided]
        if isinstance(decided, CategoryDomain):
            codes_of = {value: code for code, value in enumerate(decided.categories)}
            values = [codes_of[value] for value in values]
        codes, missing = deciding
        # The code of a missing value, -1, is that of the last number.
        return np.array([*values, -1.0])[codes.astype(np.int64)], missing.copy()


def check_rules(schema: TableSchema, layout: TableLayout) -> None:
    """Refuse rules that columns of such dtypes cannot keep, whatever their values."""
    if layout.target is not None:
        check_target(schema.rules, schema.columns, layout.target)
    columns = {column.name: column for column in layout.columns}
    for rule in schema.rules:
        own = [columns[name] for name in rule.names]
        nullable = [
            column.can_be_missing
            and getattr(schema.columns[column.name], "nullable", False)
            for column in own
        ]
        if not isinstance(rule, MissingTogether):
            _check_limits(rule, own, schema)
        gaps: list[ColumnLayout] = []  # columns that come out missing
        if isinstance(rule, Ordered):
            # Rounded differently, values could be out of order.
            if len({_fineness(c) for c in own if c.dtype is not None}) > 1:
                dtypes = ", ".join(dict.fromkeys(str(c.dtype) for c in own))
                raise InvalidSchemaError(
                    f"The columns of the rule {rule} must be equally fine: whole"
                    " numbers and double precision, or one other precision, unit and"
                    f" time zone. Got {dtypes}; convert them."
                )
            _check_room(rule, own, schema)
        elif isinstance(rule, SumOf):
            _check_sum(rule, own, schema)
            gaps = own[:1] if any(nullable[1:]) else []
        elif isinstance(rule, Determines):
            decided = own[1]
            values = rule.table.values() if decided.kind == "integer" else ()
            if any(value != int(value) for value in values):
                raise InvalidSchemaError(
                    f"The values of the table of the rule {rule} must be whole numbers,"
                    f" as the dtype {decided.dtype} of {decided.name!r} holds them. Got"
                    " a fraction; correct the table, or convert the column."
                )
            gaps = [decided] if nullable[0] else []
        else:
            gaps = own
        for column in gaps:
            if not column.can_be_missing:
                raise InvalidSchemaError(
                    f"By the rule {rule} values of {column.name!r} are missing in some"
                    f" rows, but its dtype {column.dtype} has no missing value. Convert"
                    " it, for example by .convert_dtypes(), or drop the rule."
                )


def _check_limits(rule: Rule, own: Iterable[ColumnLayout], schema: TableSchema) -> None:
    """Refuse bounds beyond what a dtype holds: values would be clipped once more."""
    for column in own:
        described = schema.columns[column.name]
        if column.dtype is None or not isinstance(described, Continuous):
            continue
        if column.kind == "timedelta":
            high = most_seconds(column.unit)
            low = -high
        else:
            info: Any = np.finfo if column.storage.kind == "f" else np.iinfo
            limits = info(column.storage)
            low, high = float(limits.min), float(limits.max)
        if described.low < low or described.high > high:
            raise InvalidSchemaError(
                f"The bounds of {column.name!r} in the rule {rule} must be within what"
                f" its dtype {column.dtype} holds. Got {described.low!r} and"
                f" {described.high!r}; correct them, or convert the column."
            )


def _fineness(column: ColumnLayout) -> tuple[str, str, str]:
    if column.kind in ("datetime", "timedelta"):
        return column.kind, column.unit, str(zone_of(column.dtype))
    storage = column.storage
    is_exact = storage.kind != "f" or storage.itemsize == np.float64().itemsize
    return "number", "" if is_exact else storage.name, ""


def _check_room(
    rule: Ordered, own: Sequence[ColumnLayout], schema: TableSchema
) -> None:
    """Refuse bounds that leave no room once numbers are as coarse as they may be."""
    # Decimals that are not stated are measured, so the room must not depend on them.
    domains = [_coarsest(column, schema) for column in own]
    lowest = -math.inf
    highest = _ceilings(domains, np.zeros((len(own), 1), dtype=bool))
    for column, domain, high in zip(own, domains, highest, strict=True):
        lowest = float(_up(np.array([max(lowest, domain.bounds[0])]), domain)[0])
        if lowest > high[0]:
            raise InvalidSchemaError(
                f"The rule {rule} needs bounds that leave room for it among the"
                f" numbers that its columns can hold. Got too little at"
                f" {column.name!r}; widen the bounds, or state more decimals."
            )


def _coarsest(column: ColumnLayout, schema: TableSchema) -> NumericDomain:
    domain = _numeric(declared_domain(column, schema))
    if not needs_resolution(column, schema):
        return domain
    for decimals in range(MOST_DECIMALS + 1):
        found = domain.with_decimals(decimals)
        if found.low / 10.0**decimals <= domain.high:  # what a fit would accept too
            return found
    return domain


def _check_sum(rule: SumOf, own: Sequence[ColumnLayout], schema: TableSchema) -> None:
    for column in own:
        if column.kind == "timedelta":
            raise InvalidSchemaError(
                f"The columns of the rule {rule} must be numbers. Got durations in"
                f" {column.name!r}; convert them by .dt.total_seconds()."
            )
    whole = [column.name for column in own if column.kind == "integer"]
    check_decimals(rule, schema.columns, whole)
    total: Any = schema.columns[rule.total]
    if own[0].kind == "integer" and max(-total.low, total.high) >= EXACT:
        raise InvalidSchemaError(
            f"The bounds of a total of whole numbers must be below 2**53. Got"
            f" {total.low!r} and {total.high!r} for {rule.total!r}; narrow them, or"
            " drop the rule."
        )


def _sum(parts: Sequence[Cells], total: NumericDomain) -> Cells:
    """Add parts; a total is missing where a part is."""
    missing = np.logical_or.reduce([gone for _, gone in parts])
    values = np.sum([np.where(missing, 0.0, own) for own, _ in parts], axis=0)
    values = np.clip(_nearest(values, total), *total.bounds)  # rounding may pass one
    return values + 0.0, missing


def _sorted(cells: Sequence[Cells], domains: Sequence[NumericDomain]) -> list[Cells]:
    """Sort the present numbers of every row, each brought to what its column holds."""
    drawn, gone = (np.array(parts) for parts in zip(*cells, strict=True))
    so_far = np.maximum.accumulate(np.where(gone, -np.inf, drawn), axis=0)
    rows = np.flatnonzero((~gone & (so_far > drawn)).any(axis=0))
    values, missing = drawn[:, rows], gone[:, rows]
    ranked = np.sort(np.where(missing, np.inf, values), axis=0)
    places = np.maximum(np.cumsum(~missing, axis=0) - 1, 0)
    values = np.take_along_axis(ranked, places, axis=0)
    ceilings = _ceilings(domains, missing)
    lowest = np.full(len(rows), -np.inf)
    for j, domain in enumerate(domains):
        nearest = np.clip(_nearest(values[j], domain), *domain.bounds)
        kept = np.minimum(_up(np.maximum(nearest, lowest), domain), ceilings[j])
        lowest = np.where(missing[j], lowest, kept)
        drawn[j, rows] = kept
    return list(zip(drawn, gone, strict=True))


def _ceilings(
    domains: Sequence[NumericDomain], gone: NDArray[np.bool_]
) -> list[Floats]:
    """Return the largest numbers that leave room for those that follow in a row."""
    highest = np.full(gone.shape[1], np.inf)
    found = []
    for domain, missing in reversed([*zip(domains, gone, strict=True)]):
        # The largest number of the grid that is not above.
        own = -_up(-np.minimum(highest, domain.bounds[1]), domain) + 0.0
        highest = np.where(missing, highest, own)
        found.append(own)
    return found[::-1]


def _nearest(values: Floats, domain: NumericDomain) -> Floats:
    if not domain.integer:
        return values
    return domain.from_steps(np.rint(domain.to_steps(values))) + 0.0


def _up(values: Floats, domain: NumericDomain) -> Floats:
    """Return the smallest number of a domain's grid that is not below each value."""
    if not domain.integer:
        return values
    whole = np.ceil(domain.to_steps(values) - ROUNDING)
    found = domain.from_steps(whole)
    return np.where(found < values, domain.from_steps(whole + 1), found) + 0.0


def _numeric(domain: ColumnDomain | None) -> NumericDomain:
    if not isinstance(domain, NumericDomain):
        raise ValueError("a rule about numbers")
    return domain
