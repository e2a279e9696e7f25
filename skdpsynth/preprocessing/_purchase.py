"""Everything a fit must know before it can train: declared, or bought here, in order.

What a schema makes unnecessary is not spent, and goes to what follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.preprocessing._classes import (
    Classes,
    buy_classes,
    class_share,
    public_labels,
)
from skdpsynth.preprocessing._columns import (
    PrivateRows,
    RowsInParts,
    TableRows,
    buy_levels,
    declared_domain,
    encode_rows,
    public_levels,
)
from skdpsynth.preprocessing._convert import from_wall
from skdpsynth.preprocessing._domains import ColumnDomain, LevelDomain, NumericDomain
from skdpsynth.preprocessing._grains import buy_grains, needs_grain
from skdpsynth.preprocessing._ranges import buy_ranges
from skdpsynth.preprocessing._rules import RowRules
from skdpsynth.preprocessing._sampling import largest_remainder
from skdpsynth.preprocessing._shares import (
    CLASS_SHARE,
    DISCOVERY_SHARE,
    GRAINS_SHARE,
    LEVELS_SHARE,
    RANGES_SHARE,
)
from skdpsynth.privacy import Parts
from skdpsynth.schema import (
    SECONDS_OF,
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Identifier,
    TableSchema,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from skdpsynth.preprocessing._layout import ColumnLayout, TableLayout
    from skdpsynth.privacy import PrivacyAccountant

_WITH_LEVELS = ("categorical", "boolean")  # kinds of columns
_MAX_NAMES = 8  # of columns in one line


@dataclass(frozen=True)
class TableFacts:
    """What is public about a table once everything was bought.

    `columns` are those that are modelled, in order, and `domains` theirs: features, and
    a target that is measured. What `rules` compute is not among them.
    """

    layout: TableLayout
    columns: tuple[ColumnLayout, ...]
    domains: tuple[ColumnDomain, ...]
    classes: Classes
    rules: RowRules = field(default_factory=RowRules)

    @classmethod
    def of(
        cls,
        layout: TableLayout,
        columns: tuple[ColumnLayout, ...],
        domains: tuple[ColumnDomain, ...],
        classes: Classes,
        schema: TableSchema | None,
    ) -> TableFacts:
        """Put facts together, with the rules of a schema made ready for them."""
        known: dict[Hashable, ColumnDomain] = {}
        for column, domain in zip(columns, domains, strict=True):
            known[column.name] = domain
        if layout.label_column is not None:
            known[layout.target] = LevelDomain(classes.levels, nullable=False)
        rules = RowRules.of(schema, layout, known)
        return cls(layout, columns, domains, classes, rules)

    @property
    def drawn(self) -> dict[Hashable, tuple[ColumnLayout, ColumnDomain]]:
        """The columns but labels and identifiers: modelled ones, then computed ones."""
        pairs = [*zip(self.columns, self.domains, strict=True)]
        pairs += [(c, self.rules.domains[c.name]) for c in self.rules.derived]
        return {column.name: (column, domain) for column, domain in pairs}

    @property
    def measured(self) -> int | None:
        """The position among `columns` of a target that is measured."""
        if not self.layout.measured:
            return None
        target = self.layout.target_column
        return next(j for j, column in enumerate(self.columns) if column is target)

    def schema(self, declared: TableSchema | None) -> TableSchema:
        """Write down what was declared and bought; not columns of no known level."""
        given: dict[Hashable, Any] = {} if declared is None else dict(declared.columns)
        domain_of = dict(zip(self.columns, self.domains, strict=True))
        columns: dict[Hashable, Any] = {}
        for column in self.layout.columns:
            domain = domain_of.get(column)
            if column.name in given and needs_grain(column, declared):
                columns[column.name] = _completed(given[column.name], domain)
            elif column.name in given:
                columns[column.name] = given[column.name]
            elif column is not self.layout.label_column:
                columns[column.name] = _described(column, domain_of[column])
            elif self.classes.levels:
                ordered = bool(getattr(column.dtype, "ordered", False))
                levels = LevelDomain(self.classes.levels, False, ordered)
                columns[column.name] = _described(column, levels)
        columns = {name: spec for name, spec in columns.items() if spec is not None}
        target = self.layout.target if self.layout.target in columns else None
        n_rows = None if declared is None else declared.n_rows
        counts = None if declared is None else declared.class_counts
        total = round(float(self.classes.counts.sum())) if n_rows is None else n_rows
        if counts is None and target is not None and self.classes.levels:
            bought = largest_remainder(self.classes.prior, total).tolist()
            counts = dict(zip(self.classes.levels, bought, strict=True))
        elif self.layout.label_column is None:
            n_rows = total
        rules = () if declared is None else declared.rules
        return TableSchema(
            columns, target=target, n_rows=n_rows, class_counts=counts, rules=rules
        )


def discovery_share(layout: TableLayout, schema: TableSchema | None) -> float:
    """Share of delta that finding keys will need: 0 where all keys are public."""
    return DISCOVERY_SHARE if _n_discoveries(layout, schema) else 0.0


def modelled_columns(
    layout: TableLayout, schema: TableSchema | None
) -> tuple[ColumnLayout, ...]:
    """Give the columns but labels, identifiers and what a rule computes from others.

    Refuse if no feature is left.
    """
    declared = {} if schema is None else schema.columns
    rules = () if schema is None else schema.rules
    derived = {name for rule in rules for name in rule.derived}
    columns = tuple(
        column
        for column in layout.columns
        if column is not layout.label_column
        and not isinstance(declared.get(column.name), Identifier)
        and column.name not in derived
    )
    if len(columns) <= layout.measured:
        raise InvalidSchemaError(
            "There is no column that could be modelled besides the target and "
            "Identifiers. Describe at least one column otherwise."
        )
    return columns


def buy_facts(
    table: pd.DataFrame | Parts,
    layout: TableLayout,
    schema: TableSchema | None,
    accountant: PrivacyAccountant,
) -> tuple[TableFacts, TableRows]:
    """Buy what the schema does not say; with it encode the rows, which stay private.

    Those of a DataFrame are in memory; of a table in parts they are kept in parts.
    """
    parts = Parts.of(table)
    cap = accountant.mu_cap
    key_delta = threshold_delta(layout, schema, accountant.delta)
    target = layout.label_column
    labels = [] if target is None else [target]
    classes = buy_classes(
        _reading(parts, labels) if labels else parts,
        target,
        schema,
        accountant,
        mu=cap * math.sqrt(CLASS_SHARE),
        threshold_delta=key_delta,
    )
    columns = modelled_columns(layout, schema)
    domains = {column: declared_domain(column, schema) for column in columns}
    keyed, numeric = bought_columns(layout, schema)
    n_rows = float(classes.counts.sum())
    if keyed:
        mu = cap * math.sqrt(LEVELS_SHARE)
        bought = buy_levels(
            _reading(parts, keyed),
            keyed,
            accountant,
            mu=mu,
            threshold_delta=key_delta,
            n_rows=n_rows,
        )
        domains.update(zip(keyed, bought, strict=True))
    if numeric:
        mu = cap * math.sqrt(RANGES_SHARE)
        own = _reading(parts, numeric)
        ranges = buy_ranges(own, numeric, accountant, mu=mu, n_rows=n_rows)
        domains.update(zip(numeric, ranges, strict=True))
    grained = [column for column in columns if needs_grain(column, schema)]
    if grained:
        mu = cap * math.sqrt(GRAINS_SHARE)
        ungrained = [cast("NumericDomain", domains[column]) for column in grained]
        own = _reading(parts, grained)
        found = buy_grains(own, grained, ungrained, accountant, mu=mu)
        domains.update(zip(grained, found, strict=True))
    known = [domain for domain in domains.values() if domain is not None]
    facts = TableFacts.of(layout, columns, tuple(known), classes, schema)
    rows = _reading(parts, [*columns, *labels]).map(
        encode_rows, list(columns), known, target, classes.levels
    )
    if isinstance(table, Parts):
        return facts, RowsInParts(rows.kept())
    return facts, PrivateRows.joined(rows.each(), len(table))


def _reading(parts: Parts, columns: Iterable[ColumnLayout]) -> Parts:
    return parts.only([column.name for column in columns])


def bought_columns(
    layout: TableLayout, schema: TableSchema | None
) -> tuple[list[ColumnLayout], list[ColumnLayout]]:
    """Give the columns whose levels, and those whose range, nobody declares."""
    columns = modelled_columns(layout, schema)
    bought = [c for c in columns if declared_domain(c, schema) is None]
    # By kind: columns are not compared, since a name may be pandas.NA.
    keyed = [c for c in bought if c.kind in _WITH_LEVELS]
    return keyed, [c for c in bought if c.kind not in _WITH_LEVELS]


def bought_share(layout: TableLayout, schema: TableSchema | None) -> float:
    """Give the share of the budget (in mu^2) that `buy_facts` will spend."""
    keyed, numeric = bought_columns(layout, schema)
    grained = any(needs_grain(c, schema) for c in modelled_columns(layout, schema))
    share = CLASS_SHARE * class_share(layout.label_column, schema)
    share += LEVELS_SHARE * bool(keyed) + RANGES_SHARE * bool(numeric)
    return share + GRAINS_SHARE * grained


def threshold_delta(
    layout: TableLayout, schema: TableSchema | None, delta: float
) -> float:
    """Give the delta of each release of keys that are found by threshold."""
    return DISCOVERY_SHARE * delta / max(_n_discoveries(layout, schema), 1)


def _n_discoveries(layout: TableLayout, schema: TableSchema | None) -> int:
    """Count the releases that need a delta of their own: labels, and categories."""
    categories, _ = bought_columns(layout, schema)
    target = layout.label_column
    labels = target is not None and public_labels(target, schema) is None
    return int(bool(categories)) + int(labels)


def _described(column: ColumnLayout, domain: ColumnDomain) -> Any:  # noqa: ANN401 - a column
    """Describe a column by what was bought; None if no level of it was released."""
    if isinstance(domain, LevelDomain):
        if column.kind == "boolean" and domain.levels == public_levels(column):
            return Boolean(nullable=domain.nullable)
        levels = list(domain.levels)
        options = {"ordered": domain.ordered, "nullable": domain.nullable}
        return Categorical(levels, **options) if levels else None
    if column.kind == "datetime":
        zone = getattr(column.dtype, "tz", None)
        seconds = np.array([domain.low, domain.high]) * (domain.step or 1.0)
        if domain.step is not None:
            seconds = from_wall(seconds, column)
        ends = (pd.Timestamp(end, unit="s", tz=zone) for end in seconds)
        spec: Any = Datetime(*ends, nullable=domain.nullable)
    else:
        scale: Literal["log", "linear"] = "log" if domain.log else "linear"
        unit = 10.0**domain.decimals
        spec = Continuous(
            domain.low / unit,
            domain.high / unit,
            integer=column.kind == "integer",
            nullable=domain.nullable,
            scale=scale,
        )
    return _completed(spec, domain)


def _completed(spec: Any, domain: ColumnDomain | None) -> Any:  # noqa: ANN401 - a column
    """Add the decimals, or the unit of time, that were bought."""
    if not isinstance(domain, NumericDomain):
        return spec
    if isinstance(spec, Datetime):
        units: dict[Any, Any] = {step: unit for unit, step in SECONDS_OF.items()}
        return replace(spec, unit=units.get(domain.step))
    if spec.integer:
        return spec
    return replace(spec, decimals=domain.decimals if domain.integer else "any")


def declared_facts(schema: TableSchema | None) -> tuple[str, ...]:
    """List in words what a schema states as public, without any bound or category."""
    if schema is None:
        return ()
    columns = schema.columns.items()
    kinds = (
        ("the bounds of", (Continuous, Datetime)),
        ("the categories of", (Categorical, Boolean)),
        ("identifiers, never looked at:", (Identifier,)),
    )
    facts = [
        _phrase(words, [name for name, column in columns if isinstance(column, types)])
        for words, types in kinds
    ]
    complete = [n for n, c in columns if getattr(c, "nullable", None) is False]
    facts.append(_phrase("that no value is missing in", complete))
    in_rules = dict.fromkeys(name for rule in schema.rules for name in rule.names)
    facts.append(_phrase("rules across", in_rules))
    if schema.class_counts is not None:
        facts.append("the number of rows of every class")
    elif schema.n_rows is not None:
        facts.append("the number of rows")
    return tuple(fact for fact in facts if fact)


def _phrase(words: str, names: Iterable[Hashable]) -> str:
    """Name some columns, and say how many more there are; empty without any."""
    listed = [str(name) for name in names]
    if not listed:
        return ""
    more = len(listed) - _MAX_NAMES
    tail = f" and {more} more columns" if more > 0 else ""
    return f"{words} {', '.join(listed[:_MAX_NAMES])}{tail}"
