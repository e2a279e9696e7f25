"""Rules across columns that a `TableSchema` states, and whether they can be kept.

A rule is public and never compared with private rows: what is checked here are the
schema's own words. How drawn rows are brought to keep it is in `table`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial, reduce
from graphlib import CycleError, TopologicalSorter
from itertools import product
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema._columns import (
    MOST_STATED_DECIMALS,
    SECONDS_OF,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Stated,
    check_is,
    family,
    wrong,
)
from skdpsynth.utils.arrays import Floats
from skdpsynth.utils.dtypes import Kind, decimals_of, plain

Columns = Mapping[Hashable, Column]
_Make = Callable[..., Any]


class Rule(Stated):
    """What the kinds of rules share: the columns they name."""

    names: tuple[Hashable, ...]  # all columns that the rule is about
    derived: tuple[Hashable, ...] = ()  # the one that follows from the others, if any
    of_rows = False  # this may follow from columns of a unit and of its rows
    columns: Sequence[Hashable]  # as given

    def __post_init__(self) -> None:
        names = names_of("columns", type(self).__name__, self.columns, 2)
        self._set(columns=names, names=names)

    def _check(self, columns: Columns) -> None:
        """Refuse columns, all of them described, that cannot keep the rule."""
        raise NotImplementedError

    def __str__(self) -> str:
        """Name the rule in a message, without a table of values."""
        return f"{type(self).__name__} of {', '.join(map(repr, self.names))}"


@dataclass(frozen=True, repr=False)
class Ordered(Rule):
    """Columns whose values do not decrease from the first to the last.

    What is modelled is the first column, and of each other one the gap to the last
    present value before it (in private rows that break the rule 0), such as the length
    of a stay. If the first can be missing, whether it is takes a column more. Special
    values are in no order; of times that nobody describes 9999-12-31 is one.

    Parameters
    ----------
    columns : sequence of column names
        Two or more columns of numbers, of durations or of times. Numbers and durations
        are described as `Continuous`, times as `Datetime`, or not at all. A value is
        compared in its own unit: a whole day follows any time of that day.
    strict : bool, default=False
        Whether values increase, by the unit of the later column or its last decimal at
        least.

    See Also
    --------
    Derived : A column that is computed from others, such as a gap.

    Examples
    --------
    >>> from skdpsynth.schema import Ordered
    >>> Ordered(["admitted", "discharged"])
    Ordered(['admitted', 'discharged'])
    """

    tag = "ordered"
    columns: Sequence[Hashable]
    _: KW_ONLY
    strict: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.strict, bool):
            raise wrong(
                "The 'strict' flag of Ordered must be True or False", self.strict
            )

    def _check(self, columns: Columns) -> None:
        """Refuse columns that have no common order."""
        described: dict[Hashable, Any]
        described = {n: columns[n] for n in self.names if n in columns}
        if 0 < len(described) < len(self.names):
            # Bounds that are found might leave no room for those that are stated.
            raise InvalidSchemaError(
                f"The schema must describe all columns of the rule {self}, or none of"
                f" them. Got {', '.join(map(repr, described))} alone; describe the"
                " others too, or leave these out."
            )
        kinds = {type(column) for column in described.values()}
        if len(kinds) > 1 or not kinds <= {Continuous, Datetime}:
            raise InvalidSchemaError(
                f"The columns of the rule {self} must all be Continuous, or all be"
                f" Datetime. Got {_kinds(described.values())}; describe them alike, or"
                " leave one out."
            )


_SIGNS = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: None}
TIMES = ("datetime", "timedelta")  # kinds whose values are seconds
_DATED = ("Y", "calendar day")  # units that are of dates


def as_written(found: Floats, a: Floats, b: Floats, exact: float, sign: object) -> Any:  # noqa: ANN401
    """Round what comes of numbers with decimals to as many as it has."""
    both = [decimals_of(x, exact, MOST_STATED_DECIMALS) for x in (a, b)]
    digits = np.add(*both) if sign is np.multiply else np.maximum(*both)
    written = np.rint(found * 10.0**digits) / 10.0**digits
    return np.where(digits <= MOST_STATED_DECIMALS, written, found)


def _applied(sign: np.ufunc | None, a: Floats, b: Floats) -> Any:  # noqa: ANN401
    """Apply a sign of an expression; what is divided by 0 is missing."""
    if sign is None:
        return np.where(b == 0, np.nan, a / b)
    return as_written(sign(a, b), a, b, np.finfo(float).eps, sign)


def _years(seconds: Floats) -> Floats:
    """Return times as years, whose difference is rounded down to completed ones."""
    days = pd.DatetimeIndex((seconds // SECONDS_OF["D"]).astype("M8[D]"))
    return np.asarray(days.year + (32 * days.month + days.day) / 512, dtype=float)


def computed(rule: Computed, kind: Kind, read: _Make, *, whole: bool) -> Any:  # noqa: ANN401
    """Return the column of a rule, of some kind; not finite where it is missing.

    `read` returns the kind of a column and its values: times in seconds, in UTC or, if
    it is `by_calendar`, of their zone. Numbers are rounded if `whole`, those of a unit
    down.
    """
    seconds, years = SECONDS_OF.get(rule.unit or "s", 1.0), rule.unit == "Y"

    def leaf(name: Hashable) -> Any:  # noqa: ANN401
        own, found = read(name)
        if own not in TIMES:
            return found
        if rule.by_calendar:
            return _years(found) if years else found // SECONDS_OF["D"]
        return found / seconds

    with np.errstate(all="ignore"):
        found = rule._folded(leaf, _applied)
        if kind in TIMES:
            return found * seconds
        if whole and rule.unit is not None and not years:  # of microseconds it is exact
            found = np.rint(found * seconds * 1e6) / (seconds * 1e6)
        down = years or (whole and rule.unit is not None)
        return np.floor(found) if down else np.rint(found) if whole else found


class Computed(Rule):
    """What the kinds of rules share by which a column is computed from others."""

    words: str  # what the column is
    unit: str | None = None
    of_rows = True
    by_calendar = False  # of times the dates count alone

    def _folded(self, leaf: _Make, combine: _Make) -> Any:  # noqa: ANN401
        """Combine, sign by sign, numbers and what a function makes of names."""
        raise NotImplementedError

    def _check(self, columns: Columns) -> None:
        """Refuse columns of no numbers."""
        own: list[Any] = [columns[name] for name in self.names if name in columns]
        if not {*map(type, own)} <= {Continuous, Datetime}:
            raise InvalidSchemaError(
                f"The columns of the rule {self} must be Continuous or Datetime. Got"
                f" {_kinds(own)}; describe them so, or drop the rule."
            )


@dataclass(frozen=True, repr=False)
class Derived(Computed):
    """A column that is computed from others, such as the length of a stay.

    It costs no budget, and is missing where another one is, or is divided by 0.

    Parameters
    ----------
    name : column name
        A column of numbers, durations or times, described or not; its bounds do not
        matter. Whole numbers are rounded, those of a unit down, as by ``.dt.days``.
        Other decimals are those that are described, or that come of the others.
    expression : str
        Of names, numbers, ``+ - * /`` and brackets. Names that are no identifiers of
        Python are in backticks, as in "`unit price` * count". It is parsed, not run.
    unit : {"Y", "D", "calendar day", "h", "min", "s"} or None, default=None
        In which times and durations are numbers; needed where numbers come of them.
        Between two times "Y" is the completed years, "calendar day" the midnights.

    See Also
    --------
    SumOf : A column that is the sum of others.

    Examples
    --------
    >>> from skdpsynth.schema import Derived
    >>> Derived("stay", "discharge - admission", unit="D")
    Derived('stay', 'discharge - admission', unit='D')
    """

    tag = "derived"
    name: Hashable
    expression: str
    _: KW_ONLY
    unit: Literal["Y", "D", "calendar day", "h", "min", "s"] | None = None

    def __post_init__(self) -> None:
        if self.unit not in (units := (None, *_DATED, *SECONDS_OF)):
            raise wrong(f"The 'unit' of Derived must be one of {units}", self.unit)
        self._set(by_calendar=self.unit in _DATED)
        found: list[Hashable] = []
        unread = SyntaxError, TypeError, ValueError, RecursionError, MemoryError
        try:
            self._folded(found.append, lambda *_: None)
        except unread as error:
            what = "The 'expression' of Derived must be of names of columns, numbers,"
            raise wrong(f"{what} + - * / and brackets", self.expression) from error
        given = self.name, *dict.fromkeys(found)
        names = names_of("columns", type(self).__name__, given, 2)
        self._set(names=names, derived=(self.name,), words=self.expression)

    def _folded(self, leaf: _Make, combine: _Make) -> Any:  # noqa: ANN401
        def visit(node: ast.expr) -> Any:  # noqa: ANN401
            match node:
                case ast.BinOp(left, sign, right) if type(sign) in _SIGNS:
                    return combine(_SIGNS[type(sign)], visit(left), visit(right))
                case ast.UnaryOp(ast.USub(), operand):
                    return combine(np.subtract, np.zeros(1), visit(operand))
                case ast.Name(name) | ast.Constant(str(name)):
                    return leaf(name)
                case ast.Constant(int() | float() as x) if family(x) == "number":
                    return np.array([float(x)])
            raise ValueError("another sign")

        quoted = re.sub("`([^`]*)`", lambda name: repr(name[1]), self.expression)
        return visit(ast.parse(quoted.strip(), mode="eval").body)


@dataclass(frozen=True, repr=False)
class SumOf(Computed):
    """A column that is the sum of others, as a `Derived` one; they have any names.

    Parameters
    ----------
    total : column name
        A column of numbers.
    parts : sequence of column names
        Two or more other columns.

    See Also
    --------
    Derived : A column that is computed from others.

    Examples
    --------
    >>> from skdpsynth.schema import SumOf
    >>> SumOf("income", ["wages", "rents"])
    SumOf('income', ['wages', 'rents'])
    """

    tag = "sum_of"
    total: Hashable
    parts: Sequence[Hashable]

    def __post_init__(self) -> None:
        parts = names_of("parts", type(self).__name__, self.parts, 2)
        names = names_of("columns", type(self).__name__, [self.total, *parts], 3)
        words = f"the sum of {', '.join(map(repr, parts))}"
        self._set(parts=parts, names=names, derived=(self.total,), words=words)

    def _folded(self, leaf: _Make, combine: _Make) -> Any:  # noqa: ANN401
        return reduce(partial(combine, np.add), map(leaf, self.parts))


@dataclass(frozen=True, repr=False)
class MissingTogether(Rule):
    """Columns that are missing in the same rows.

    The first one decides which rows these are.

    Parameters
    ----------
    columns : sequence of column names
        Two or more columns, all nullable.

    See Also
    --------
    Determines : A column whose values another one decides.

    Examples
    --------
    >>> from skdpsynth.schema import MissingTogether
    >>> MissingTogether(["spouse_age", "spouse_job"])
    MissingTogether(['spouse_age', 'spouse_job'])
    """

    tag = "missing_together"
    columns: Sequence[Hashable]

    def _check(self, columns: Columns) -> None:
        """Refuse columns that cannot be missing, or cannot be present."""
        for name in self.names:
            column = columns[name]
            if not getattr(column, "nullable", False):
                raise InvalidSchemaError(
                    f"The columns of the rule {self} must be nullable. Got {column!r}"
                    f" for {name!r}; set nullable=True, or leave it out."
                )
            if isinstance(column, Categorical) and not column.categories:
                raise InvalidSchemaError(
                    f"The columns of the rule {self} must have values. Got no"
                    f" categories for {name!r}; name them, or leave it out."
                )


@dataclass(frozen=True, repr=False)
class Determines(Rule):
    """A column that another one decides, by a public table.

    It is read from the table, costs no budget, and is missing where the other one is.

    Parameters
    ----------
    deciding : column name
        A `Categorical` or `Boolean` column.
    decided : column name
        Another column, `Categorical`, `Boolean` or `Continuous`; nullable if the
        deciding one is.
    table : mapping of value to value
        For each category of `deciding` the value of `decided`.

    See Also
    --------
    SumOf : A column that is the sum of others.

    Examples
    --------
    >>> from skdpsynth.schema import Determines
    >>> Determines("town", "state", {"Bonn": "NRW", "Kiel": "SH"})
    Determines('town', 'state', {'Bonn': 'NRW', 'Kiel': 'SH'})
    """

    tag = "determines"
    deciding: Hashable
    decided: Hashable
    table: Mapping[Any, Any]

    def __post_init__(self) -> None:
        given = [self.deciding, self.decided]
        names = names_of("columns", type(self).__name__, given, 2)
        words = "a value of the deciding column to one of the decided column"
        rule = f"The 'table' of Determines must be a mapping from {words}"
        check_is(Mapping, rule, self.table)
        table = {plain(key): plain(value) for key, value in self.table.items()}
        self._set(table=table, names=names, derived=(self.decided,))

    def _check(self, columns: Columns) -> None:
        """Refuse a table that has not one value for each category."""
        deciding, decided = columns[self.deciding], columns[self.decided]
        if not isinstance(deciding, Categorical | Boolean):
            raise InvalidSchemaError(
                f"The deciding column of the rule {self} must be Categorical or"
                f" Boolean. Got {deciding!r}; describe it so, or drop the rule."
            )
        expected = dict.fromkeys(deciding.categories)
        if set(self.table) != set(expected):
            wrong = [key for key in expected if key not in self.table]
            wrong += [key for key in self.table if key not in expected]
            raise InvalidSchemaError(
                f"The keys of the table of the rule {self} must be the categories of"
                f" {self.deciding!r}. Got {len(wrong)} of them or of others in one of"
                f" the two only, such as {wrong[0]!r}; correct either."
            )
        if not isinstance(decided, Categorical | Boolean | Continuous):
            raise InvalidSchemaError(
                f"The decided column of the rule {self} must be Categorical, Boolean"
                f" or Continuous. Got {decided!r}; describe it so, or drop the rule."
            )
        known = () if isinstance(decided, Continuous) else {*decided.categories}
        for value in self.table.values():
            fits = isinstance(value, Hashable) and value in known
            if isinstance(decided, Continuous):
                number = isinstance(value, int | float) and not isinstance(value, bool)
                fits = number and decided.ends[0] <= value <= decided.ends[1]
                most = stated_decimals(decided)
                if fits and most is not None:
                    numbers = np.array([float(value)])
                    fits = decimals_of(numbers, sys.float_info.epsilon, most)[0] <= most
            if not fits:
                raise InvalidSchemaError(
                    f"The values of the table of the rule {self} must be such as"
                    f" {self.decided!r} is described to have. Got {value!r}; correct"
                    " the table or the column."
                )
        if deciding.nullable and not decided.nullable:
            raise InvalidSchemaError(
                f"The decided column of the rule {self} is missing where the deciding"
                f" one is, which is nullable. Set nullable=True for {self.decided!r}."
            )


RULES: dict[str, type[Rule]] = {
    kind.tag: kind for kind in (Ordered, Derived, SumOf, MissingTogether, Determines)
}


def stated_decimals(column: object, kind: Kind = "continuous") -> int | None:
    """Return the decimals that a column is described with, None if not in number."""
    if kind == "integer" or getattr(column, "integer", False):
        return 0
    decimals = getattr(column, "decimals", None)
    return decimals if isinstance(decimals, int) else None


def names_of(
    field: str, owner: str, given: object, least: int = 0
) -> tuple[Hashable, ...]:
    """Read distinct names of columns, which a field of a rule or a schema has."""
    what = f"The '{field}' of {owner}"
    check_is(Iterable, f"{what} must be a list of column names", given)
    names = tuple(cast("Iterable[Hashable]", given))
    if not all(isinstance(name, Hashable) for name in names):
        raise InvalidSchemaError(f"{what} must be names of columns. Got {names!r}.")
    if len(set(names)) < len(names) or len(names) < least:
        raise InvalidSchemaError(
            f"{what} must be {least} or more names, none of them twice. Got"
            f" {list(names)!r}."
        )
    return names


def _kinds(described: Collection[Column]) -> str:
    return ", ".join(dict.fromkeys(type(column).__name__ for column in described))


def checked_rules(schema: Any) -> tuple[Rule, ...]:  # noqa: ANN401 - a TableSchema
    """Refuse what are no rules about described columns, or cannot be kept together."""
    columns, rules = schema.columns, schema.rules
    check_is(Iterable, "The 'rules' of TableSchema must be a list of rules", rules)
    found: tuple[Rule, ...] = tuple(rules)
    for rule in found:
        if not isinstance(rule, Rule):
            kinds = "an Ordered, Derived, SumOf, MissingTogether or Determines"
            raise wrong(f"Each of the 'rules' of TableSchema must be {kinds}", rule)
        known = schema.kinds if isinstance(rule, MissingTogether) else columns
        for name in rule.names:
            if name not in known and not isinstance(rule, Ordered | Computed):
                raise InvalidSchemaError(
                    f"The rule {rule} is about a column {name!r} that the schema does"
                    " not describe. Add it to the columns, or correct its name."
                )
        rule._check(known)
    # One rule of each kind changes a column, and none what another one computes.
    taken: dict[tuple[object, Hashable], Rule] = {}
    for rule in found:
        kinds = (Ordered, MissingTogether) if rule.derived else (type(rule),)
        for kind, name in product(kinds, rule.derived or rule.names):
            if (kind, name) in taken:
                raise InvalidSchemaError(
                    f"The column {name!r} can be computed, or changed, by one rule"
                    f" only. Got {taken[kind, name]} and {rule}; drop one, or write one"
                    " rule for all columns."
                )
            taken[kind, name] = rule
    if schema.target is not None:
        check_target(found, schema.kinds, schema.target)
    in_order(found)
    return found


def check_target(rules: Iterable[Rule], columns: Columns, target: Hashable) -> None:
    """Refuse rules that would compute the target, or take labels away."""
    for rule in rules:
        if target in set(rule.derived):  # a name may be unequal to itself
            raise InvalidSchemaError(
                f"The target {target!r} must be modelled, but the rule {rule} computes"
                " it from other columns. Drop the rule, or use target=None."
            )
        if not isinstance(rule, MissingTogether) or target not in set(rule.names):
            continue
        if not isinstance(columns[target], Continuous):
            raise InvalidSchemaError(
                f"The rule {rule} is about the target {target!r}, whose labels never"
                " come out missing. Leave it out of the rule."
            )


def in_order(rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules that compute a column, each after those of its own columns."""
    computing = {name: rule for rule in rules for name in rule.derived}
    needs = {
        name: [own for own in rule.names if own in computing.keys() - {name}]
        for name, rule in computing.items()
    }
    try:
        return [computing[name] for name in TopologicalSorter(needs).static_order()]
    except CycleError as error:
        circle = [*dict.fromkeys(error.args[1])]
    raise InvalidSchemaError(
        "The rules compute columns from each other in a circle:"
        f" {', '.join(map(repr, circle))}. Drop one of"
        f" {'; '.join(str(computing[name]) for name in circle)}."
    )
