"""What is public about a table once it was declared or released, and its rules.

Rows are drawn first and then brought in line with the rules: a function of released
numbers and of the schema, so it costs nothing. Private rows are never compared with a
rule. Columns that follow from others are computed; `_ordered` has those in an order.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.privacy import UNLABELLED
from skdpsynth.schema import (
    SECONDS_OF,
    TIMES,
    UNREAD,
    Boolean,
    Categorical,
    Computed,
    Continuous,
    Datetime,
    Determines,
    Identifier,
    MissingTogether,
    Ordered,
    Rule,
    TableSchema,
    Text,
    computed,
    in_order,
    stated_decimals,
)
from skdpsynth.table._domains import (
    CategoryDomain,
    ColumnDomain,
    NumericDomain,
    declared_domain,
    is_nullable,
    is_number,
    needs_resolution,
    wall_values,
)
from skdpsynth.table._layout import ColumnLayout, StandIn, TableLayout
from skdpsynth.table._ordered import Cells, First, Gap, Order
from skdpsynth.utils import MOST_SHOWN, check_array, require
from skdpsynth.utils.arrays import Bools, Floats, Ints
from skdpsynth.utils.dtypes import EXACT, Kind, decimals_of, is_date, same_name


@dataclass(frozen=True)
class Classes:
    """What is known of the classes, from the schema or measured."""

    # Sorted or as declared; the last may be `UNLABELLED`. Empty without a target, and
    # when no label could be released: all rows are then one class.
    labels: tuple[Hashable, ...]
    counts: Floats  # declared or noisy numbers of rows, at least 1
    noise_std: Any = 0.0  # of each count, as an array; 0 where they are declared
    found_from: float = 0.0  # noisy rows by which labels were found; 0 if declared
    # Noisy rows that have none of the labels; 0 where they were not counted.
    unclassed: float = 0.0

    def __post_init__(self) -> None:
        require(self.counts.dtype == np.float64, "numbers of rows")
        require(self.counts.ndim == 1, "numbers of rows")
        require(((self.counts > 0) & (self.counts < _MAX_COUNT)).all(), "no rows")
        hash(self.labels)  # as the label of a row is found
        stds = np.broadcast_to(np.asarray(self.noise_std, float), self.counts.shape)
        check_array(stds, "float64", self.counts.shape, 0)
        object.__setattr__(self, "noise_std", stds)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def scopes(self) -> tuple[Hashable, ...]:
        """Scopes that releases about each class are charged to; None is every row."""
        return self.labels or (None,)

    @property
    def codes(self) -> tuple[int, ...]:
        """The codes that the rows of each class have in `PrivateRows`."""
        return tuple(
            -1 if scope is UNLABELLED else c for c, scope in enumerate(self.scopes)
        )

    @property
    def labelled(self) -> Classes:
        """The same without `UNLABELLED`."""
        n = sum(code >= 0 for code in self.codes)
        labels, counts, stds = self.labels[:n], self.counts[:n], self.noise_std[:n]
        return replace(self, labels=labels, counts=counts, noise_std=stds)

    def and_unlabelled(self, n_rows: float, noise_std: float) -> Classes:
        """Add the rows without a label, to be measured as one more class."""
        labels, counts = (*self.labels, UNLABELLED), np.append(self.counts, n_rows)
        stds = np.append(self.noise_std, noise_std)
        return replace(self, labels=labels, counts=counts, noise_std=stds)

    def joined(self, has_pairs: Bools) -> Bools:
        """Return the classes whose tables of pairs are released together too.

        Of several classes every row is charged for that, so that rows without a label
        are in these tables, if they have any of their own.
        """
        labelled = has_pairs & (np.array(self.codes) >= 0)
        return has_pairs if labelled.sum() > 1 else labelled

    @property
    def planned(self) -> Floats:
        """The counts that plans follow: rounded to two significant digits."""
        return rounded(self.counts)

    @property
    def prior(self) -> Floats:
        """Shares of the classes, with sum 1."""
        return self.counts / self.counts.sum()


def rounded(counts: Floats) -> Floats:
    """Round counts to two significant digits, and to at least 1."""
    counts = np.maximum(counts, 1.0)
    unit = 10.0 ** np.maximum(np.floor(np.log10(counts)) - 1, 0.0)
    return np.maximum(np.rint(counts / unit) * unit, 1.0)


def largest_remainder(shares: Floats, total: int) -> Ints:
    """Divide `total` by shares of sum 1; all above 0 get one where possible."""
    exact = shares * total
    counts = np.floor(exact).astype(np.int64)
    rest = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:rest]] += 1
    if total >= np.count_nonzero(shares > 0):
        for position in np.flatnonzero((counts == 0) & (shares > 0)):
            counts[counts.argmax()] -= 1
            counts[position] = 1
    return counts


@dataclass(frozen=True)
class Units:
    """What is known of the units of privacy, such as persons, that have rows."""

    name: Hashable  # of the column that identifies units
    constant: tuple[Hashable, ...] = ()  # columns with one value in all rows of a unit
    # Noisy numbers of units with 1, 2, ... k rows, and with more; None if one is used.
    sizes: Floats | None = None
    noise_std: float = 0.0  # of these

    def __post_init__(self) -> None:
        require(is_number(self.noise_std) and self.noise_std >= 0, "noise of units")
        if self.sizes is not None:
            require((np.abs(self.sizes) < _MAX_COUNT).all(), "numbers of units")

    @property
    def shares(self) -> Floats:
        """The shares of units of which 1, 2, ... k rows are used."""
        if self.sizes is None:
            return np.ones(1)
        found = np.maximum(self.sizes, 0.0)
        found[-2] += found[-1]
        found = found[:-1] if found.any() else np.ones(len(found) - 1)
        return np.asarray(found / found.sum())

    @property
    def cut(self) -> tuple[float, float]:
        """The share of units that have more rows than are used, and its noise."""
        assert self.sizes is not None
        total = max(float(self.sizes.sum()), 1.0)
        share = min(max(float(self.sizes[-1]) / total, 0.0), 1.0)
        spread = share**2 * len(self.sizes) + 1.0 - 2.0 * share
        return share, self.noise_std * math.sqrt(max(spread, 0.0)) / total


_MAX_COUNT = float(np.iinfo(np.int64).max)  # of rows; sums are exact far below


@dataclass(frozen=True)
class RowRules:
    """The rules of a schema, ready for drawn rows; domains of the columns in them."""

    rules: tuple[Rule | Order, ...] = ()
    domains: Mapping[Hashable, Any] = field(default_factory=dict)
    derived: tuple[ColumnLayout, ...] = ()  # what is computed, in a possible order
    columns: Mapping[Hashable, ColumnLayout] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        schema: TableSchema,
        layout: TableLayout,
        modelled: Mapping[Hashable, ColumnDomain],
    ) -> RowRules:
        """Make ready what a schema states, by the domains of what rows are drawn of."""
        columns = {column.name: column for column in layout.columns}
        orders = orders_of(layout, schema)
        others = [r for r in schema.rules if not (r.derived or isinstance(r, Ordered))]
        rules: list[Rule | Order] = [*orders, *others]
        domains: dict[Hashable, Any] = dict(modelled)
        for order in orders:
            domains |= order.domains(modelled, schema)
        derived = []
        for rule in in_order(schema.rules):
            (name,) = rule.derived
            derived.append(columns[name])
            find = _computed_domain if isinstance(rule, Computed) else declared_domain
            domains[name] = find(columns[name], schema)
            rules.append(rule)
        used = {name: domains[name] for rule in rules for name in rule.names}
        own = {name: columns[name] for name in used if name in columns}
        made = cls(tuple(rules), used, tuple(derived), own)
        # An error for domains of another kind, which a file may hold.
        nothing = np.empty(0), np.empty(0, dtype=bool)
        made.keep(dict.fromkeys([*used, *made.needs], nothing))
        return made

    @property
    def names(self) -> set[Hashable]:
        """All columns that a rule is about."""
        return {name for rule in self.rules for name in rule.names}

    @property
    def orders(self) -> list[Order]:
        """The rules about an order."""
        return [rule for rule in self.rules if isinstance(rule, Order)]

    @property
    def needs(self) -> set[Hashable]:
        """The names of all that rules are about, and of what stands for some."""
        modelled = [own.name for order in self.orders for own in order.modelled]
        return {*self.names, *modelled}

    @property
    def changed(self) -> set[Hashable]:
        """All columns that are not as they were drawn."""
        changing = (rule for rule in self.rules if not rule.derived)
        found = {name for rule in changing for name in rule.names}
        return found | {column.name for column in self.derived}

    @property
    def together(self) -> list[tuple[Hashable, ...]]:
        """What is missing together, as modelled, the one that decides first."""
        carriers: dict[Hashable, Hashable] = {}
        for order in self.orders:
            carriers |= order.carriers
        rules = [rule for rule in self.rules if isinstance(rule, MissingTogether)]
        return [tuple(carriers.get(n, n) for n in rule.names) for rule in rules]

    def keep(self, cells: dict[Hashable, Cells]) -> None:
        """Bring rows in line, in place, and add the columns that are computed."""
        for rule in self.rules:
            if isinstance(rule, Order):
                rule.keep(cells, self.domains)
            elif isinstance(rule, Computed):
                cells[rule.names[0]] = self._computed(rule, cells)
            elif isinstance(rule, Determines):
                codes, missing = cells[rule.deciding]
                # The code of a missing value, -1, is that of the last number.
                looked_up = self._decided(rule)[codes.astype(np.int64)]
                cells[rule.decided] = looked_up, missing.copy()

    def _computed(self, rule: Computed, cells: Mapping[Hashable, Cells]) -> Cells:
        """Return the cells of a column from those of others."""

        def read(name: Hashable) -> tuple[Kind, Floats]:
            column, (values, missing) = self.columns[name], cells[name]
            if (self.domains[name].step is None) == rule.by_calendar:
                move = column.to_wall if rule.by_calendar else column.from_wall
                values = move(values)
            return column.kind, np.where(missing, np.nan, values)

        column, domain = self.columns[rule.names[0]], self.domains[rule.names[0]]
        whole = domain.integer and domain.step is None and not domain.decimals
        values = computed(rule, column.kind, read, whole=whole)
        missing = ~np.isfinite(values)
        values = np.where(missing, 0.0, values)
        if domain.step is not None:
            values = column.to_wall(values)
        if domain.integer:
            low, high = domain.bounds  # where numbers are exact
            written = domain.from_steps(domain.whole_steps(values))
            inside = (low <= values) & (values <= high)
            values = np.where(inside, written, values)
        return values + 0.0, missing

    def followed(self, frame: pd.DataFrame) -> Iterator[tuple[Hashable, pd.Series]]:
        """Yield what rules compute from other columns of synthetic rows."""
        for rule in (rule for rule in self.rules if isinstance(rule, Computed)):
            every = [(self.columns[n], self.domains[n]) for n in rule.names]
            cells = {c.name: wall_values(frame[c.name], c, d) for c, d in every[1:]}
            (column, domain), (values, gone) = every[0], self._computed(rule, cells)
            values = values if domain.step is None else column.from_wall(values)
            yield column.name, column.to_series(values, gone).set_axis(frame.index)

    def alike(self, name: Hashable) -> list[Ints]:
        """Group the categories of a column by each column that they decide."""
        domain = self.domains.get(name)
        if not isinstance(domain, CategoryDomain):
            return []
        found = {name: np.arange(len(domain.categories), dtype=np.float64)}
        for rule in self.rules:
            if isinstance(rule, Determines) and rule.deciding in found:
                codes = found[rule.deciding].astype(np.int64)
                found[rule.decided] = self._decided(rule)[codes]
        del found[name]
        return [np.unique(own, return_inverse=True)[1] for own in found.values()]

    def _decided(self, rule: Determines) -> Floats:
        """Return the value of each category of the deciding column, and -1."""
        deciding, decided = (self.domains[name] for name in rule.names)
        values = [rule.table[category] for category in deciding.categories]
        if isinstance(decided, CategoryDomain):
            codes_of = {value: code for code, value in enumerate(decided.categories)}
            values = [codes_of[value] for value in values]
        return np.array([*values, -1.0])


def check_rules(schema: TableSchema, layout: TableLayout) -> None:
    """Refuse rules that columns of such dtypes cannot keep, whatever their values."""
    if layout.target is not None:
        replace(schema, target=layout.target)  # it refuses what no target can be
    columns = {column.name: column for column in layout.columns}
    for rule in schema.rules:
        own = [columns[name] for name in rule.names]
        for column in () if isinstance(rule, MissingTogether) else own:
            described = schema.columns.get(column.name)
            if column.dtype is None or not isinstance(described, Continuous):
                continue
            low, high = column.limits
            if described.ends[0] < low or described.ends[1] > high:  # clipped once more
                raise InvalidSchemaError(
                    f"The bounds of {column.name!r} in the rule {rule} must be within"
                    f" what its dtype {column.dtype} holds. Got {described.low!r} and"
                    f" {described.high!r}; correct them, or convert the column."
                )
        gaps: list[ColumnLayout] = []  # columns that come out missing
        if isinstance(rule, Ordered | Computed):
            for column in own:
                listed = column.kind in ("categorical", "boolean")
                if listed or column is layout.label_column:
                    raise InvalidSchemaError(
                        f"The columns of the rule {rule} must be numbers or times. Got"
                        f" categories or labels in {column.name!r}; convert it, or"
                        " leave it out."
                    )
        if isinstance(rule, Ordered):
            # Rounded differently, values could be out of order.
            fine = [_fineness(c, schema) for c in own if c.dtype is not None]
            kinds, units = {kind for kind, _ in fine}, {unit for _, unit in fine}
            if len(kinds) > 1 or len(units - {""}) > 1:
                dtypes = ", ".join(dict.fromkeys(str(c.dtype) for c in own))
                raise InvalidSchemaError(
                    f"The columns of the rule {rule} must be equally fine: whole"
                    " numbers and double precision, or one other precision; times of"
                    " one time zone, and of one unit unless a unit is stated in the"
                    f" schema. Got {dtypes}; convert them."
                )
        elif isinstance(rule, Computed):
            kinds, kind = {column.kind for column in own[1:]}, own[0].kind
            dated, timed = rule.by_calendar, not kinds.isdisjoint(TIMES)
            fits = not dated if kind in TIMES else timed == (rule.unit is not None)
            fits &= not (dated and "timedelta" in kinds)
            if not fits or (kind == "integer" and own[0].limits[1] < 2**31 - 1):
                raise InvalidSchemaError(
                    f"The rule {rule} must give what its column holds, which is {kind},"
                    f" of dtype {own[0].dtype}. Times and durations are numbers by a"
                    " unit (dates: times alone), other numbers have none, and whole"
                    " ones 32 bits. Correct the unit, or convert columns."
                )
            divided = "/" in getattr(rule, "expression", "")
            missing = divided or any(is_nullable(part, schema) for part in own[1:])
            gaps = own[:1] if missing else []
        elif isinstance(rule, Determines):
            decided = own[1]
            values = rule.table.values() if decided.kind == "integer" else ()
            if any(value != int(value) for value in values):
                raise InvalidSchemaError(
                    f"The values of the table of the rule {rule} must be whole numbers,"
                    f" as the dtype {decided.dtype} of {decided.name!r} holds them. Got"
                    " a fraction; correct the table, or convert the column."
                )
            gaps = [decided] if is_nullable(own[0], schema) else []
        else:
            gaps = own
        for column in gaps:
            if not column.can_be_missing:
                raise InvalidSchemaError(
                    f"By the rule {rule} values of {column.name!r} are missing in some"
                    f" rows, but its dtype {column.dtype} has no missing value. Convert"
                    " it, for example by .convert_dtypes(), or drop the rule."
                )


def _computed_domain(column: ColumnLayout, schema: TableSchema) -> NumericDomain:
    """Return what a computed column can hold: what its dtype can, as is described."""
    spec: Any = schema.kinds.get(column.name)
    decimals = stated_decimals(spec, column.kind)
    most = (
        sys.float_info.max / 4.0 if decimals is None else EXACT / 10.0**decimals - 1.0
    )
    low, high = np.clip(column.limits, -most, most).tolist()
    domain = NumericDomain(low, high, False, False, column.can_be_missing)
    step = SECONDS_OF.get("D" if is_date(column.dtype) else getattr(spec, "unit", ""))
    if step is not None:
        return domain.with_step(step, low // step, high // step)
    return domain if decimals is None else domain.with_decimals(decimals)


def _fineness(column: ColumnLayout, schema: TableSchema) -> tuple[str, str]:
    """Return of what kind numbers are, and how they are rounded; "" if they are not."""
    if column.kind in ("datetime", "timedelta"):
        unit = getattr(schema.columns.get(column.name), "unit", None)
        whole = unit is not None or is_date(column.dtype)
        return f"{column.kind} {column.zone}", "" if whole else column.unit
    storage = column.storage
    is_exact = storage.kind != "f" or storage.itemsize == np.float64().itemsize
    return "number", "double" if is_exact else storage.name


@dataclass(frozen=True)
class Metadata:
    """What is public about a table: what the schema states, and what was measured."""

    layout: TableLayout
    # That are modelled, in order: features, and a target that is a number; what rules
    # compute is not among them.
    columns: tuple[ColumnLayout, ...]
    domains: tuple[ColumnDomain, ...]  # what each can hold
    classes: Classes
    rules: RowRules = field(default_factory=RowRules)
    units: Units | None = None  # whose the rows are; None where a row is the unit
    # Columns whose values are never looked at.
    unread: Mapping[Hashable, Identifier | Text] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        layout: TableLayout,
        domains: tuple[ColumnDomain, ...],
        classes: Classes,
        schema: TableSchema,
    ) -> Metadata:
        """Put metadata together, with the rules of a schema made ready for them."""
        columns = modelled_columns(layout, schema)
        names = [column.name for column in columns]
        known = dict(zip(names, domains, strict=True))
        if layout.label_column is not None:
            known[layout.target] = CategoryDomain(classes.labels, nullable=False)
        rules, units = RowRules(), None
        if schema.rules:
            rules = RowRules.of(schema, layout, known)
        if schema.privacy_unit is not None:
            units = Units(schema.privacy_unit, tuple(schema.per_unit))
        listed = schema.columns.items()
        unread = {name: own for name, own in listed if isinstance(own, UNREAD)}
        return cls(layout, columns, domains, classes, rules, units, unread)

    @property
    def drawn(self) -> dict[Hashable, tuple[ColumnLayout, ColumnDomain]]:
        """The columns but labels and identifiers: modelled ones, then computed ones."""
        pairs: list[tuple[Any, Any]] = [
            (column.original, domain)
            for column, domain in zip(self.columns, self.domains, strict=True)
        ]
        pairs += [(column, None) for column in self.rules.derived]
        known = self.rules.domains
        return {c.name: (c, known.get(c.name, d)) for c, d in pairs if c is not None}

    def domains_of(self, columns: Sequence[ColumnLayout]) -> tuple[ColumnDomain, ...]:
        """Return the domains of the columns of another table, which are the same."""
        known = [(column.name, column.kind) for column in self.columns]
        if known != [(column.name, column.kind) for column in columns]:
            raise InvalidSchemaError(
                "The design is of a table with other columns, or of other kinds."
                f" Expected {known}; fit a table with the same columns and dtypes."
            )
        for own, other in zip(self.columns, columns, strict=True):
            if own.stores != other.stores:
                raise InvalidSchemaError(
                    f"The column {own.name!r} has the dtype {own.dtype} in the table of"
                    f" the design, which may hold other values than {other.dtype}."
                    f" Cast it to {own.dtype}."
                )
        return self.domains

    @property
    def measured(self) -> int | None:
        """The position among `columns` of a target that is measured."""
        if not self.layout.measured:
            return None
        target = self.layout.target_column
        originals = [column.original for column in self.columns]
        return next(j for j, column in enumerate(originals) if column is target)

    def schema(self, declared: TableSchema) -> TableSchema:
        """Write down what was declared or measured; not columns without categories."""
        given: dict[Hashable, Any] = dict(declared.columns)
        derived = self.rules.derived
        domain_of = {c: domain for c, domain in self.drawn.values() if c not in derived}
        columns: dict[Hashable, Any] = {}
        for column in self.layout.columns:
            domain, spec = domain_of.get(column), given.get(column.name)
            if column is self.layout.label_column and self.classes.labels:
                domain = CategoryDomain(self.classes.labels, False, column.ordered)
            if spec is None and domain is not None:
                spec = _described(column, domain)
            elif needs_resolution(column, declared):
                spec = _completed(spec, domain)
            if spec is not None:
                columns[column.name] = spec
        for name, blank in declared.blanks.items():
            if isinstance(columns.get(name), Continuous | Datetime):
                form = getattr(blank, "format", None)
                columns[name] = replace(columns[name], format=form)
        target = self.layout.target if self.layout.target in columns else None
        n_rows, counts = declared.n_rows, declared.class_counts
        total = round(float(self.classes.counts.sum())) if n_rows is None else n_rows
        if counts is None and target is not None and self.classes.labels:
            released = largest_remainder(self.classes.prior, total).tolist()
            counts = dict(zip(self.classes.labels, released, strict=True))
        elif self.layout.label_column is None:
            n_rows = total
        if declared.privacy_unit is not None:  # which of the rows take part is secret
            n_rows = counts = None
        return replace(
            declared,
            columns=columns,
            target=target,
            n_rows=n_rows,
            class_counts=counts,
            blanks={n: own for n, own in declared.blanks.items() if n not in columns},
        )


def check_domain(
    column: ColumnLayout, domain: ColumnDomain, schema: TableSchema
) -> None:
    """Refuse a domain of a file that its column cannot have, or was not declared."""
    # Found decimals, or a unit of time, round bounds; those of times are of a clock.
    declared = declared_domain(column, schema)
    if isinstance(column, StandIn):
        # Bounds that were found of columns are wider than what was found of gaps.
        require(domain.nullable <= column.can_be_missing, "missing values")
        least = getattr(domain, "low", -1.0)
        require(least >= 0 or isinstance(column, First), "a gap below 0")
        codes = {*column.members[-1].special} if isinstance(column, Gap) else set()
        require({*getattr(domain, "special", ())} <= codes, "special values")
        declared = None
    if isinstance(domain, NumericDomain):
        require(column.kind not in ("categorical", "boolean"), "a domain of numbers")
    elif declared is None:
        require(column.kind in ("categorical", "boolean"), "a domain of categories")
    if declared is None:
        return
    require(domain.nullable == declared.nullable, "missing values")
    if isinstance(declared, CategoryDomain) or isinstance(domain, CategoryDomain):
        require(domain == declared, "categories")
        return
    require(len(domain.special) == len(declared.special), "special values")
    room = 0.0
    if domain.step is not None:
        room = domain.step + SECONDS_OF["D"]
    elif domain.integer:
        room = domain.from_steps(1.0)
    near = np.isclose(domain.bounds, declared.bounds, rtol=1e-9, atol=room + 1e-9)
    require(near.all(), "a range")


def modelled_columns(
    layout: TableLayout, schema: TableSchema
) -> tuple[ColumnLayout, ...]:
    """Return the columns but labels, unread and computed ones; refuse to have none."""
    derived = {name for rule in schema.rules for name in rule.derived}
    columns = tuple(
        column
        for column in layout.columns
        if column is not layout.label_column
        and not isinstance(schema.columns.get(column.name), UNREAD)
        and column.name not in derived
    )
    if len(columns) <= layout.measured:
        raise InvalidSchemaError(
            "There is no column that could be modelled besides the target and "
            "Identifiers and Texts. Describe at least one column otherwise."
        )
    orders = orders_of(layout, schema)
    modelled = [column for order in orders for column in order.modelled]
    places = {own.original.name: own for own in modelled if own.original is not None}
    added = [column for column in modelled if column.original is None]
    return (*(places.get(column.name, column) for column in columns), *added)


def orders_of(layout: TableLayout, schema: TableSchema) -> list[Order]:
    """Return the rules of a schema that are about an order, ready for a table."""
    rules = [rule for rule in schema.rules if isinstance(rule, Ordered)]
    return [Order.of(rule, layout, schema) for rule in rules]


def _described(column: ColumnLayout, domain: ColumnDomain) -> Any:  # noqa: ANN401 - a column
    """Describe a column by its domain; None if no category of it was released."""
    if isinstance(domain, CategoryDomain):
        if column.kind == "boolean" and domain.categories == (False, True):
            return Boolean(nullable=domain.nullable)
        categories = list(domain.categories)
        options = {"ordered": domain.ordered, "nullable": domain.nullable}
        return Categorical(categories, **options) if categories else None
    if column.kind == "datetime":
        zone = getattr(column.dtype, "tz", None)
        seconds = np.array([*domain.bounds, *domain.special])
        if domain.step is not None:
            seconds = column.from_wall(seconds)
        # Not by seconds, which pandas 2 counts in nanoseconds, up to 2262.
        moments = pd.DatetimeIndex(np.rint(seconds * 1e6).astype("M8[us]"))
        ends = moments if zone is None else moments.tz_localize("UTC").tz_convert(zone)
        low, high, *special = ends
        spec: Any = Datetime(low, high, nullable=domain.nullable, special=special)
    else:
        of_time = column.kind == "timedelta"
        spec = Continuous(
            *(_durations(domain.bounds) if of_time else domain.bounds),
            integer=column.kind == "integer",
            nullable=domain.nullable,
            scale="log" if domain.log else "quantile" if domain.quantile else "linear",
            special=domain.special,
        )
    return _completed(spec, domain)


def _durations(seconds: Sequence[float]) -> tuple[Any, ...]:
    """Return seconds as durations, unless they are more than pandas reads as texts."""
    if max(map(abs, seconds)) >= pd.Timedelta.max.total_seconds():
        return tuple(seconds)
    return tuple(pd.Timedelta(end, unit="s") for end in seconds)


def _completed(spec: Any, domain: ColumnDomain | None) -> Any:  # noqa: ANN401 - a column
    """Add the decimals, or the unit of time, that were measured."""
    if not isinstance(domain, NumericDomain):
        return spec
    if isinstance(spec, Continuous) and domain.step is not None:
        low, high = _durations(spec.ends)  # which were numbers, if they are declared
        spec = replace(spec, low=low, high=high)
    if isinstance(spec, Datetime) or (domain.step is not None and spec.of_durations):
        units: dict[Any, Any] = {step: unit for unit, step in SECONDS_OF.items()}
        return replace(spec, unit=units.get(domain.step))
    if spec.integer:
        return spec
    decimals = max(domain.decimals, 0)  # tens are whole numbers to a schema
    special = decimals_of(np.array(domain.special), sys.float_info.epsilon, decimals)
    known = domain.integer and not (special > decimals).any()
    return replace(spec, decimals=decimals if known else "any")


def declared_metadata(schema: TableSchema) -> tuple[str, ...]:
    """List in words what a schema states as public, without any bound or category."""
    columns = schema.columns.items()
    unit = schema.privacy_unit
    kinds = (
        ("the bounds of", (Continuous, Datetime)),
        ("the categories of", (Categorical, Boolean)),
        ("identifiers, never looked at:", (Identifier,)),
        ("texts, never looked at:", (Text,)),
    )
    found = []
    for words, types in kinds:
        own = [name for name, column in columns if isinstance(column, types)]
        found.append(_phrase(words, [n for n in own if not same_name(n, unit)]))
    words = "the kinds, the forms and what else is stated of"
    found.append(_phrase(words, schema.blanks))
    every = schema.kinds.items()
    complete = [n for n, c in every if getattr(c, "nullable", None) is False]
    found.append(_phrase("that no value is missing in", complete))
    in_rules = dict.fromkeys(name for rule in schema.rules for name in rule.names)
    found.append(_phrase("rules across", in_rules))
    if schema.na_values:
        found.append("what stands for missing values")
    if unit is not None:
        found.append(f"that {unit} identifies whom to protect")
        found.append(_phrase("that all rows of one have the same", schema.per_unit))
    if schema.class_counts is not None:
        found.append("the number of rows of every class")
    elif schema.n_rows is not None:
        found.append("the number of rows")
    return tuple(filter(None, found))


def _phrase(words: str, names: Iterable[Hashable]) -> str:
    """Name some columns, and say how many more there are; empty without any."""
    listed = [str(name) for name in names]
    if not listed:
        return ""
    more = len(listed) - MOST_SHOWN
    tail = f" and {more} more columns" if more > 0 else ""
    return f"{words} {', '.join(listed[:MOST_SHOWN])}{tail}"
