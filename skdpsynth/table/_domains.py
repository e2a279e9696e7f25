"""Domains of columns, and private rows as numbers in them.

A numeric domain maps values to [0, 1], a category domain maps categories to codes.
Neither ever holds a value that was not public or released through a mechanism.
`PrivateRows` are ranks in their domains, codes of categories and codes of classes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from skdpsynth.privacy import Parts
from skdpsynth.schema import (
    MOST_STATED_DECIMALS,
    ROUNDING,
    SECONDS_OF,
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    TableSchema,
    decode_value,
    encode_value,
    number_of,
)
from skdpsynth.table._layout import ColumnLayout, StandIn, numeric_values, place_keys
from skdpsynth.utils import CHUNK_ROWS, EXCESS, FEW_NUMBERS, in_chunks, require
from skdpsynth.utils.arrays import Bools, Floats, Ints
from skdpsynth.utils.dtypes import EXACT, is_date

Codes = Ints

# Seconds of times without a unit: about what floats hold, and a power of two: exact.
FINEST = 2.0**-20
# Codes of a numeric column; 0 is any other value, and special ones come after.
ZERO, MISSING = 1, 2
_OUTSIDE = 2.0**-20  # room on [0, 1] of a special value that is outside the range


class Own(NamedTuple):
    """A value that has a cell of its own: an exact zero, or a special value."""

    code: int
    value: float
    position: float  # on [0, 1]; no other value of the column is there


@dataclass(frozen=True)
class NumericDomain:
    """A numeric column on [0, 1], monotone in the value; others are clamped into it."""

    low: float
    high: float
    log: bool  # the scale is the signed logarithm sign(x) log(1 + |x|)
    # All are whole numbers: the domain reaches half a unit beyond both bounds, so that
    # every number has a cell of its own.
    integer: bool
    nullable: bool  # missing values are modelled
    quantile: bool = False  # cells follow the first counts; the scale hardly matters
    # Seconds of the unit that times are whole multiples of; the times then count in
    # units, as whole numbers, and `low` and `high` do too.
    step: float | None = None
    # Decimals of numbers that are all `integer` in units of the last one, of tens if
    # -1; `low` and `high` are in these units too.
    decimals: int = 0
    # The range was released, not declared; noise may have left open where the rows are.
    # Files call it "bought".
    released: bool = field(default=False, compare=False)
    guessed: bool = field(default=False, compare=False)
    # Values (in steps, of `integer` ones) that many rows have, with their released
    # shares of all rows, in increasing order.
    frequent: tuple[tuple[float, float], ...] = field(default=(), compare=False)
    # Values that stand for something, in increasing order, in the range or not.
    special: tuple[float, ...] = ()
    # Of a released range of which most rows are 0: where wide bins begin, with their
    # released shares of all rows; last where they end, with the noise of a share.
    outer: tuple[tuple[float, float], ...] = field(default=(), compare=False)
    # How much room on [0, 1] a number has, with a mean of 1, by the remainder of its
    # steps: of 100 the last two digits of amounts, prices and clock times, of 7 the day
    # of the week. A marginal is smooth on the scale that comes of it.
    remainders: tuple[float, ...] = ()
    # The same of times finer than days: by the day of the week, from Thursday on, as
    # 1970 began; and by the part of a day, which are exact midnight, where it is no
    # hour, and 24 hours.
    weekdays: tuple[float, ...] = ()
    hours: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        own = vars(self)
        require(all(type(own[name]) is bool for name in _FLAGS), "flags")
        rooms = (*self.remainders, *self.weekdays, *self.hours)
        numbers = (self.low, self.high, *rooms, *self.special)
        numbers += (*chain(*self.frequent, *self.outer),)
        require(all(map(is_number, numbers)), "numbers")
        require(self.low <= self.high and self.high - self.low < math.inf, "a range")
        if self.step is not None:
            require(is_number(self.step) and self.step > 0 and self.integer, "a unit")
        whole = self.low == round(self.low) and self.high == round(self.high)
        require(whole or not self.integer, "whole bounds")
        require(type(self.decimals) is int, "decimals")
        require(abs(self.decimals) <= MOST_STATED_DECIMALS, "decimals")
        require(not self.decimals or (self.integer and self.step is None), "decimals")
        require(self.integer or not self.remainders, "remainders")
        ends = pairwise(edge for edge, _ in self.outer)
        require(all(low < high for low, high in ends), "outer")
        require(all(std >= 0 for _, std in self.outer[-1:]), "outer")
        require(all(room > 0 for room in rooms), "remainders")
        step = self.step or math.inf
        finer = FINEST <= step <= SECONDS_OF["h"]
        require(finer or not (self.weekdays or self.hours), "a clock")
        require(len(self.weekdays) in (0, 7), "days of the week")
        parts = len(day_parts(self)) - 1 if self.hours else 0
        require(len(self.hours) == parts, "hours of the day")
        require(all(low < high for low, high in pairwise(self.special)), "special")
        values = [value for value, _ in self.frequent]
        require(all(self.low <= value <= self.high for value in values), "frequent")
        require(all(low < high for low, high in pairwise(values)), "frequent")
        require(all(share > 0 for _, share in self.frequent), "frequent")
        require(not self.integer or all(v == round(v) for v in values), "frequent")

    def with_decimals(self, decimals: int) -> NumericDomain:
        """Return the same range for numbers of so many decimals."""
        low = float(math.ceil(self.low * 10.0**decimals - ROUNDING))
        high = float(math.floor(self.high * 10.0**decimals + ROUNDING))
        return replace(
            self, low=low, high=max(low, high), integer=True, decimals=decimals
        )

    def with_step(self, step: float, low: float, high: float) -> NumericDomain:
        """Return a domain of times that are whole multiples of so many seconds."""
        return replace(self, low=low, high=high, integer=True, step=step)

    def with_unit(self, step: float) -> NumericDomain:
        """Return the same range for durations of whole units of so many seconds."""
        low, high = -(-self.bounds[0] // step), self.bounds[1] // step
        return self.with_step(step, min(low, high) + 0.0, high)

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the range: numbers, or seconds."""
        return self.from_steps(self.low), self.from_steps(self.high)

    @property
    def _size(self) -> float | None:
        """The size of a step of time or of tens; None of decimals, which has none."""
        # Powers of ten below 1 are not exact: values are multiplied by their inverse.
        return 10.0**-self.decimals if self.decimals < 0 else self.step

    def to_steps(self, values: Any) -> Any:  # noqa: ANN401 - a float or an array
        """Count the steps in values: units of the last decimal, or of time."""
        size = self._size
        return values * 10.0**self.decimals if size is None else values / size

    def from_steps(self, steps: Any) -> Any:  # noqa: ANN401 - a float or an array
        """Undo `to_steps`; of whole numbers it gives what a decimal is read as."""
        size = self._size
        return steps / 10.0**self.decimals if size is None else steps * size

    def whole_steps(self, values: Floats) -> Floats:
        """Count the whole steps in values as `to_unit` does; times are rounded down."""
        steps = self._near(values)
        return np.floor(steps) if self.step is not None else np.rint(steps)

    def _near(self, values: Floats) -> Floats:
        """Count the steps in values near the range: one far off must not overflow."""
        ends = self.from_steps(np.array([self.low - 1, self.high + 1]))
        return np.asarray(self.to_steps(np.clip(values, *ends)))

    @property
    def n_numbers(self) -> float:
        """Whole numbers, of units or of the last decimal, that it holds."""
        return self.high - self.low + 1 if self.integer else math.inf

    @property
    def own(self) -> tuple[Own, ...]:
        """The values with a cell of their own, of which zero is the first."""
        return _own_of(self)

    def codes(self, values: Floats) -> NDArray[np.uint8]:
        """Return the code of each value; times are cut down to units."""
        unit = self.step if self.special else None
        codes = np.zeros(values.shape, np.min_scalar_type(MISSING + len(self.special)))
        for code, value, _ in self.own:
            same = values // unit == value // unit if unit else values == value
            codes[same] = code
        return codes

    def to_unit(self, values: Floats) -> Floats:
        """Map finite values to [0, 1], clamped to the range; 0.5 if it has no width."""
        start, end = self._ends()
        if end <= start:
            return np.full(values.shape, 0.5)
        steps = self._near(values)
        if self.step is not None:
            steps = np.floor(steps)
        return self._placed(np.clip(self._scale(steps), start, end))

    def from_unit(self, uniforms: Floats) -> Floats:
        """Map [0, 1] back to values; whole numbers of units are rounded."""
        values = self._unscaled(uniforms)
        if self.integer:
            np.rint(values, out=values)
            values += 0.0  # no negative zero
        np.clip(values, self.low, self.high, out=values)
        if self.frequent and not (cells := _cells_of_values(self, self.frequent)).plain:
            place = np.searchsorted(cells.parts, uniforms, side="right") - 1
            inside = (place >= 0) & (uniforms < cells.ends[cells.of_value[place]])
            values[inside] = cells.steps[place[inside]]
        values = self.from_steps(values)
        for own in self.own:  # rounding of the scale must not blur it
            values[uniforms == own.position] = own.value
        return values

    def frequent_cells(self) -> tuple[Floats, Floats]:
        """Return the positions between which frequent values lie, and their shares."""
        cells = _cells_of_values(self, self.frequent)
        return np.stack((cells.begins, cells.ends)), cells.shares

    def edges(self, uniforms: Floats) -> Floats:
        """Map positions that part the values to where they lie, without rounding."""
        return self.from_steps(self._unscaled(uniforms))

    def span(self, low: float, high: float) -> tuple[float, float]:
        """Return the positions between which the values from `low` to `high` lie."""
        start, end = self._ends()
        beyond = [own.position for own in self.own if low <= own.value <= high]
        if end <= start:
            return 0.0, float(low <= self.bounds[0] <= high or bool(beyond))
        ends = self.to_steps(np.array([low, high]))
        if self.integer:
            ends = np.array([np.ceil(ends[0] - ROUNDING), np.floor(ends[1] + ROUNDING)])
            ends += np.array([-0.5, 0.5])
        margin = 0.5 * self.integer
        ends = np.clip(ends, self.low - margin, self.high + margin)
        low, high = np.clip(self._placed(self._scale(ends)), 0.0, 1.0).tolist()
        return min([low, *beyond]), max([high, *beyond])

    def snap(self, edges: Floats) -> Floats:
        """Move inner cell edges to where no value lies, and drop empty cells."""
        start, end = self._ends()
        if end <= start:
            return np.array([0.0, 1.0])
        if self.integer:
            halves = np.rint(self._unscaled(edges) - 0.5) + 0.5
            edges = self._placed(self._scale(halves))
        low, high = self._room
        inner = np.unique(edges[(edges > low + 1e-9) & (edges < high - 1e-9)])
        return np.concatenate(([0.0], inner, [1.0]))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form."""
        own = vars(self) | {"axis": "numeric"}
        return own | {"bought": own.pop("released")}

    def _ends(self) -> tuple[float, float]:
        margin = 0.5 * self.integer
        start, end = self._scale(np.array([self.low - margin, self.high + margin]))
        return float(start), float(end)

    @property
    def _room(self) -> tuple[float, float]:
        """Between which positions the range lies; special values are beyond."""
        low, high = self.bounds
        n_below = sum(value < low for value in self.special)
        n_above = sum(value > high for value in self.special)
        return n_below * _OUTSIDE, 1.0 - n_above * _OUTSIDE

    def _placed(self, scaled: Floats) -> Floats:
        """Return the positions of numbers on the scale."""
        (start, end), (low, high) = self._ends(), self._room
        return low + (high - low) * ((scaled - start) / (end - start))

    def _scale(self, values: Floats) -> Floats:
        if self.remainders:
            values = _spaced(values, self.remainders, signed=self.step is None)
        if self.weekdays or self.hours:
            values = _on_clock(values, self)
        if not self.log:
            return values
        return np.sign(values) * np.log1p(np.abs(values) / 10.0**self.decimals)

    def _unscaled(self, uniforms: Floats) -> Floats:
        start, end = self._ends()
        if self.special:
            low, high = self._room
            uniforms = (np.clip(uniforms, low, high) - low) / (high - low)
        scaled = uniforms * (end - start)
        scaled += start
        if self.log:
            scaled = np.sign(scaled) * np.expm1(np.abs(scaled)) * 10.0**self.decimals
        if self.weekdays or self.hours:
            scaled = _on_clock(scaled, self, back=True)
        if self.remainders:
            signed = self.step is None
            scaled = _spaced(scaled, self.remainders, signed=signed, back=True)
        return scaled


def _spaced(
    steps: Floats, remainders: tuple[float, ...], *, signed: bool, back: bool = False
) -> Floats:
    """Return each whole number, with half a step on both sides, the room it has."""
    # Monotone and continuous; undone if `back`. Amounts (`signed`) keep their sign;
    # those below one hundred stay where they are, since few digits do not end in two.
    period, ends = len(remainders), np.concatenate(([0.0], np.cumsum(remainders)))
    ends *= period / ends[-1]
    cycles, rest = np.divmod(np.abs(steps) + 0.5 if signed else steps + 0.5, period)
    if back:
        place = np.searchsorted(ends[1:-1], rest, side="right")
        within = (rest - ends[place]) / np.array(remainders)[place]
        moved = cycles * period + place + within - 0.5
    else:
        place = rest.astype(np.intp)
        within = (rest - place) * np.array(remainders)[place]
        moved = cycles * period + ends[place] + within - 0.5
    if not signed:
        return moved
    return np.where(cycles == 0, steps, np.copysign(moved, steps))


def day_parts(domain: NumericDomain) -> Floats:
    """Return where the parts of a day that `hours` is about end, from 0, in steps."""
    # On the scale of remainders, which moves no hour.
    assert domain.step is not None
    (midnight, *_), hour = domain.remainders or (1.0,), SECONDS_OF["h"] / domain.step
    return np.unique([0.0, min(midnight, hour), *np.arange(1, 25) * hour])


def _on_clock(steps: Floats, domain: NumericDomain, *, back: bool = False) -> Floats:
    """Return times where the rooms of weekdays and of parts of days put them."""
    # As `_spaced`: weeks stay where they are, and in a week days.
    ends = day_parts(domain)
    day, rooms = ends[-1], np.array(domain.hours or np.diff(ends))
    moved = np.concatenate(([0.0], np.cumsum(rooms))) * (day / rooms.sum())
    widths = np.array(domain.weekdays or (1.0,) * 7)
    widths *= 7 / widths.sum()
    begins = np.concatenate(([0.0], np.cumsum(widths)[:-1]))
    weeks, rest = np.divmod(steps + 0.5, 7 * day)
    if back:
        place = np.searchsorted(begins[1:], rest / day, side="right")
        within = (rest - begins[place] * day) / widths[place]
        return (7 * weeks + place) * day + np.interp(within, moved, ends) - 0.5
    place = np.minimum(rest // day, 6).astype(np.intp)
    within = np.interp(rest - place * day, ends, moved) * widths[place]
    return 7 * weeks * day + begins[place] * day + within - 0.5


@lru_cache(maxsize=2048)  # a table of many columns asks for it very often
def _own_of(domain: NumericDomain) -> tuple[Own, ...]:
    few = domain.integer and domain.high - domain.low < FEW_NUMBERS
    values, (low, high) = np.array(domain.special), domain.bounds
    order = np.arange(len(values))
    places = np.where(values < low, order * _OUTSIDE, domain.to_unit(values))
    above = 1.0 - (len(values) - 1 - order) * _OUTSIDE
    places = np.where(values > high, above, places)
    special = zip(domain.special, places.tolist(), strict=True)
    own = [Own(MISSING + 1 + k, *one) for k, one in enumerate(special)]
    if not few and low <= 0 <= high and 0.0 not in domain.special:
        own.insert(0, Own(ZERO, 0.0, float(domain.to_unit(np.zeros(1))[0])))
    return tuple(own)


class _Cells(NamedTuple):
    """Where frequent values lie: each in a cell, or in a part of one."""

    begins: Floats
    ends: Floats
    shares: Floats  # of all rows, of the values in each cell
    steps: Floats  # the values, in the order of their positions
    parts: Floats  # where the part of each begins
    of_value: NDArray[np.intp]  # its cell
    plain: bool  # positions in the cells are rounded to the values anyway


@lru_cache(maxsize=2048)
def _cells_of_values(
    domain: NumericDomain, frequent: tuple[tuple[float, float], ...]
) -> _Cells:
    """Place frequent values, in cells as wide as a step."""
    # Cells are so wide that rows, kept in single precision, are in the right one.
    # Values that it does not distinguish share one, in parts by their shares.
    steps, shares = np.array(frequent).T
    exact = domain.from_steps(steps)
    places = domain.to_unit(exact).astype(np.float32)
    places = np.minimum(places, np.nextafter(np.float32(1.0), np.float32(0.0)))
    found, firsts, of_value, sizes = np.unique(
        places, return_index=True, return_inverse=True, return_counts=True
    )
    begins = found.astype(np.float64)
    ends = np.nextafter(found, np.float32(1.0)).astype(np.float64)
    plain = domain.integer and len(found) == len(steps)
    if domain.integer:
        spans = np.array([domain.span(value, value) for value in exact.tolist()])
        low, high = spans[firsts, 0], spans[firsts + sizes - 1, 1]
        plain = plain and bool((low <= begins).all() and (ends <= high).all())
        begins, ends = np.minimum(begins, low), np.maximum(ends, high)
    weights = np.maximum(shares, 1e-12)
    totals = np.bincount(of_value, weights)
    before = np.cumsum(weights) - weights
    within = (before - before[firsts][of_value]) / totals[of_value]
    parts = begins[of_value] + within * (ends - begins)[of_value]
    of_cells = np.bincount(of_value, shares).astype(np.float64)
    return _Cells(begins, ends, of_cells, steps, parts, of_value, plain)


@dataclass(frozen=True)
class CategoryDomain:
    """A column of categories: as declared, or measured and sorted by name.

    Codes: position in `categories`, then ``len(categories)`` for any other value, then
    ``len(categories) + 1`` for a missing one.
    """

    categories: tuple[Hashable, ...]
    nullable: bool
    ordered: bool = False
    # Released share of the rows that are in no category and not missing.
    other: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        require(type(self.nullable) is type(self.ordered) is bool, "flags")
        require(is_number(self.other) and 0 <= self.other <= 1, "a share")
        hash(self.categories)  # as the cell of a row is found

    @property
    def n_codes(self) -> int:
        """Number of codes: the categories, 'other' and 'missing'."""
        return len(self.categories) + 2

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form."""
        own = vars(self) | {"axis": "levels"}
        return own | {"levels": [*map(encode_value, own.pop("categories"))]}


ColumnDomain = NumericDomain | CategoryDomain

_FLAGS = ("log", "integer", "nullable", "quantile", "released", "guessed")


def is_number(value: object) -> bool:
    """Return whether something is a finite number, and no truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def domain_from_dict(data: Mapping[str, Any]) -> ColumnDomain:
    """Rebuild the domain that `to_dict` wrote; files name its kind "axis"."""
    if data["axis"] == "numeric":
        known = {k: v for k, v in data.items() if k not in ("axis", "bought")}
        known |= {name: float(data[name]) for name in ("low", "high")}
        for name in ("frequent", "outer"):
            pairs = data.get(name, ())
            known[name] = tuple((float(value), float(own)) for value, own in pairs)
        known["special"] = tuple(map(float, data.get("special", ())))
        for name in ("remainders", "weekdays", "hours"):
            known[name] = tuple(map(float, data.get(name, ())))
            rooms = (ROUNDING <= room <= 1 / ROUNDING for room in known[name])
            require(all(rooms), name)
        return NumericDomain(**known, released=data.get("bought", False))
    categories = tuple(map(decode_value, data["levels"]))
    other = data.get("other", 0.0)
    return CategoryDomain(categories, data["nullable"], data["ordered"], other)


def is_continuous(domain: ColumnDomain | None) -> bool:
    """Return whether it must be found out where in a domain the rows are."""
    # Of four numbers or fewer the range says all.
    return isinstance(domain, NumericDomain) and domain.n_numbers > 4


def declared_domain(column: ColumnLayout, schema: TableSchema) -> ColumnDomain | None:
    """Return a column's domain where it is public, None where it must be measured."""
    if isinstance(column, StandIn):
        domain: ColumnDomain | None = column.domain
        return domain
    spec, blank = (own.get(column.name) for own in (schema.columns, schema.blanks))
    if spec is None and isinstance(blank, Boolean):
        spec = blank  # only whether values are missing is left open
    if spec is None and column.kind == "boolean" and not column.can_be_missing:
        spec = Boolean()  # its dtype says all that it can hold
    nullable = is_nullable(column, schema)
    if isinstance(spec, Continuous):
        low, high = map(float, spec.ends)
        scale = spec.resolved_scale()
        log, quantile = scale == "log", scale == "quantile"
        domain = NumericDomain(low, high, log, False, nullable, quantile)
        domain = _with_special(column, domain, spec)
        if spec.unit is not None:
            return domain.with_unit(SECONDS_OF[spec.unit])
        whole = spec.integer or column.kind == "integer"
        decimals = 0 if whole else spec.decimals
        # Of a column of whole numbers the bounds may be fractions.
        return domain.with_decimals(decimals) if isinstance(decimals, int) else domain
    if isinstance(spec, Datetime):
        low, high = spec.low.timestamp(), spec.high.timestamp()
        domain = NumericDomain(low, high, False, False, nullable)
        domain = _with_special(column, domain, spec)
        step = SECONDS_OF.get("D" if is_date(column.dtype) else spec.unit or "")
        return domain if step is None else in_units(column, domain, step)
    if isinstance(spec, Categorical):
        return CategoryDomain(tuple(spec.categories), nullable, spec.ordered)
    if isinstance(spec, Boolean):
        return CategoryDomain(spec.categories, nullable)
    return None


def _with_special(
    column: ColumnLayout, domain: NumericDomain, spec: object
) -> NumericDomain:
    """Add the special values that are stated, as far as the dtype holds them."""
    if not (special := getattr(spec, "special", ())):
        return domain
    low, high = column.limits
    listed = [value for value in map(number_of, special) if low <= value <= high]
    stored = column.storage if column.kind == "continuous" else np.float64
    values = np.unique(np.array(listed, dtype=stored).astype(np.float64))
    return replace(domain, special=tuple(values.tolist()))


def in_units(column: ColumnLayout, domain: NumericDomain, step: float) -> NumericDomain:
    """Return a domain of times in whole units, on the clock of their column."""
    wall = column.to_wall(np.array([*domain.bounds, *domain.special]))
    low, high = np.floor(wall[:2] / step).tolist()
    domain = replace(domain, special=(*wall[2:].tolist(),), decimals=0)
    return domain.with_step(step, low, high)


def with_stated(
    column: ColumnLayout, domain: ColumnDomain, schema: TableSchema
) -> ColumnDomain:
    """Add to a released domain what a schema states beside its blanks."""
    spec: Any = schema.blanks.get(column.name)
    stated = getattr(schema.kinds.get(column.needs[-1]), "nullable", None)
    nullable = domain.nullable if stated is None else stated and column.can_be_missing
    domain = replace(domain, nullable=nullable)
    if spec is None:
        return domain
    if isinstance(domain, CategoryDomain):
        ordered = domain.ordered or getattr(spec, "ordered", False)
        return replace(domain, ordered=ordered)
    domain = _with_special(column, domain, spec)
    if isinstance(spec, Datetime) and spec.unit is not None and domain.step is None:
        return in_units(column, domain, SECONDS_OF[spec.unit])
    if not isinstance(spec, Continuous):
        return domain
    if spec.unit is not None:
        domain = domain.with_unit(SECONDS_OF[spec.unit])
    if spec.scale != "auto":
        log, quantile = spec.scale == "log", spec.scale == "quantile"
        domain = replace(domain, log=log, quantile=quantile)
    decimals = 0 if spec.integer else spec.decimals
    if domain.integer or not isinstance(decimals, int):
        return domain
    written = domain.with_decimals(decimals)
    return written if max(-written.low, written.high) < EXACT else domain


def is_nullable(column: ColumnLayout, schema: TableSchema) -> bool:
    """Return whether values can be missing, as far as that is public."""
    spec = schema.columns.get(column.name)
    return column.can_be_missing and getattr(spec, "nullable", spec is None)


def needs_resolution(column: ColumnLayout, schema: TableSchema) -> bool:
    """Return whether neither dtype nor schema says how finely a column is written."""
    if isinstance(column, StandIn):
        return column.open
    fine = ("continuous", "timedelta", "datetime")
    if is_date(column.dtype) or column.kind not in fine:
        return False
    spec, blank = (own.get(column.name) for own in (schema.columns, schema.blanks))
    if isinstance(blank, Datetime) and column.kind == "datetime":
        return blank.unit is None
    written = blank if spec is None else spec
    if isinstance(written, Continuous):
        stated = written.integer or written.unit is not None
        return written.decimals is None and not stated
    return spec is None


MAX_SCORE = 3.0  # scores are kept within this distance of 0
_GRID = 1000  # ranks that stand for all


@dataclass(frozen=True)
class MarginalTransform:
    """The marginal of one column in one class."""

    domain: ColumnDomain
    # Numeric: increasing positions in [0, 1] where `cumulative` is known; a value with
    # a cell of its own, as 0, is the same position twice. Categories: codes, in the
    # order of the scores.
    points: Floats
    # Numeric: probability up to each point. Categories: probability before each one,
    # and 1 at the end. Missing values are left out of both.
    cumulative: Floats
    missing: float  # probability of a missing value; its scores are the lowest

    def __post_init__(self) -> None:
        points, cumulative = self.points, self.cumulative
        require(points.dtype == cumulative.dtype == np.float64, "a marginal")
        require(points.ndim == cumulative.ndim == 1, "a marginal")
        require(is_number(self.missing) and 0 <= self.missing <= 1, "missing values")
        require(_rises(cumulative, EXCESS), "a distribution")
        if isinstance(self.domain, NumericDomain):
            require(
                len(points) == len(cumulative) >= 2 and _rises(points), "a marginal"
            )
            return
        require(len(cumulative) == len(points) + 1, "a marginal")
        require(np.array_equal(np.sort(points), np.arange(len(points))), "codes")
        require(len(points) in (0, len(self.domain.categories)), "codes")

    @classmethod
    def numeric(
        cls,
        domain: NumericDomain,
        cells: Floats,
        masses: Floats,
        *,
        own: Sequence[float] = (),
        missing: float = 0.0,
    ) -> MarginalTransform:
        """Build the marginal of numbers from the masses of cells, and shares of all.

        Those of the values with a cell of their `own` are in the order of the domain's.
        """
        present = max(1.0 - missing, 1e-12)
        scale = present * max(sum(own) / present, 1.0)
        cumulative = np.concatenate(([0.0], np.cumsum(masses)))
        # Rounding must not leave less than nothing to the cells.
        cumulative *= max(1.0 - sum(own) / scale, 0.0) / cumulative[-1]
        points = cells
        for (_, _, place), share in zip(domain.own, own, strict=False):
            if not share > 0:
                continue
            exact = share / scale
            below = float(np.interp(place, points, cumulative))
            left, right = points < place, points > place
            points = np.concatenate((points[left], [place] * 2, points[right]))
            cumulative = np.concatenate(
                (cumulative[left], [below, below + exact], cumulative[right] + exact)
            )
        return cls(domain, points, cumulative / cumulative[-1], min(missing, 1.0))

    @classmethod
    def of_categories(
        cls,
        domain: CategoryDomain,
        shares: Floats,
        *,
        missing: float = 0.0,
        order: Ints | None = None,
    ) -> MarginalTransform:
        """Build the marginal of categories from weights; `order` is that of scores."""
        if len(shares) == 0:
            return cls(domain, np.empty(0), np.zeros(1), 1.0)
        order = np.arange(len(shares)) if order is None else order
        total = shares.sum()
        even = np.full(len(shares), 1.0 / len(shares))
        weights = shares[order] / total if total > 0 else even
        inner = np.minimum(np.cumsum(weights)[:-1], 1.0)  # rounding may pass it
        cumulative = np.concatenate(([0.0], inner, [1.0]))
        return cls(domain, order.astype(np.float64), cumulative, min(missing, 1.0))

    def cdf(self, uniforms: Floats) -> tuple[Floats, Floats]:
        """Return the probability below, and up to, positions of a numeric column."""
        below = np.interp(uniforms, self.points, self.cumulative)
        up_to = below.copy()
        for own, *ends in self.jumps():
            at = uniforms == own.position
            below[at], up_to[at] = ends
        return below, up_to

    def jumps(self) -> Iterator[tuple[Own, float, float]]:
        """Yield the values with a share of their own, and between which ranks it is."""
        assert isinstance(self.domain, NumericDomain)
        doubled = np.flatnonzero(np.diff(self.points) == 0)
        for own in self.domain.own if len(doubled) else ():
            for place in doubled[self.points[doubled] == own.position].tolist():
                yield own, *self.cumulative[place : place + 2].tolist()

    def level_shares(self) -> Floats:
        """Return the shares of categories among what is not missing, in code order."""
        shares = np.empty(len(self.points))
        shares[self.points.astype(np.int64)] = np.diff(self.cumulative)
        return shares

    def score_moments(self) -> tuple[float, float, float]:
        """Return mean and deviation of scores, and their covariance with normals."""
        ranks = (np.arange(_GRID) + 0.5) / _GRID
        values, missing = self.decode(ranks)
        if isinstance(self.domain, NumericDomain):
            uniforms = self.domain.to_unit(values)
            codes = np.where(missing, MISSING, self.domain.codes(values))
        else:
            uniforms, codes = values, values.astype(np.int64)
            codes[missing] = len(self.domain.categories) + 1
        scores = self.encode(uniforms, codes)
        slope = ((scores - scores.mean()) * ndtri(ranks)).mean()
        return float(scores.mean()), float(scores.std()), float(slope)

    def decode(self, ranks: Floats) -> tuple[Floats, Bools]:
        """Turn ranks in [0, 1] into numbers or codes (-1: missing), and a mask."""
        rank, missing = ranks, np.zeros(len(ranks), dtype=bool)
        if self.missing:
            missing = ranks < self.missing
            rank = np.maximum(ranks - self.missing, 0.0) / max(1 - self.missing, 1e-12)
        if isinstance(self.domain, NumericDomain):
            uniforms = _interpolated(rank, self.cumulative, self.points)
            return self.domain.from_unit(uniforms), missing
        if len(self.points) == 0:
            return np.full(len(rank), -1.0), np.ones(len(rank), dtype=bool)
        place = _places(rank, self.cumulative[1:-1])
        return np.where(missing, -1.0, self.points[place]), missing

    def decode_where(self, ranks: Floats, missing: Bools) -> Floats:
        """Turn ranks into values where it is known which are missing."""
        # A rank that stands for a missing value is spread over all values instead: it
        # is even among such ranks, so the value comes from the marginal of what is
        # present.
        values, drawn_missing = self.decode(ranks)
        again = np.flatnonzero(drawn_missing & ~missing)
        present = replace(self, missing=0.0)
        values[again] = present.decode(ranks[again] / max(self.missing, 1e-12))[0]
        if not isinstance(self.domain, NumericDomain):
            values[missing] = -1.0
        return values

    def encode(
        self, uniforms: NDArray[np.floating], category_codes: NDArray[np.integer]
    ) -> Floats:
        """Return the scores of rows, within `MAX_SCORE` of 0: private as they are."""
        # A value that fills an interval, such as a category, gets the middle of it.
        if isinstance(self.domain, NumericDomain):
            rank = np.interp(uniforms, self.points, self.cumulative)
            for own, below, up_to in self.jumps():
                rank = np.where(category_codes == own.code, (below + up_to) / 2, rank)
            gone = category_codes == MISSING
        else:
            table = np.full(self.domain.n_codes, 0.5)
            middles = (self.cumulative[:-1] + self.cumulative[1:]) / 2
            table[self.points.astype(np.int64)] = middles
            rank = table[category_codes]
            gone = category_codes == len(self.domain.categories) + 1
        # A missing value that the marginal does not have says nothing: the middle.
        missing = self.missing / 2 if self.missing else 0.5
        rank = np.where(gone, missing, self.missing + (1.0 - self.missing) * rank)
        lowest = ndtr(-MAX_SCORE)
        return ndtri(np.clip(rank, lowest, 1 - lowest))


def _rises(values: Floats, rounding: float = 0.0) -> bool:
    """Return whether numbers go up within [0, 1], which rounding may pass."""
    inside = (values >= 0).all() and (values <= 1 + EXCESS).all()
    return bool(inside and (np.diff(values) >= -rounding).all())


def _interpolated(ranks: Floats, cumulative: Floats, points: Floats) -> Floats:
    """Do as `np.interp` does, to the bit; of many ranks faster."""
    if len(ranks) < 4 * CHUNK_ROWS:
        return np.interp(ranks, cumulative, points)
    place = _places(ranks, cumulative) - 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slopes = np.append(np.diff(points) / np.diff(cumulative), 0.0)
    slopes[~np.isfinite(slopes)] = 0.0  # of an interval that no rank is in
    along = ranks - cumulative.take(place)
    along *= slopes.take(place)
    along += points.take(place)
    return along


def _places(ranks: Floats, ends: Floats) -> NDArray[np.intp]:
    """Count the `ends`, sorted and in [0, 1], up to each rank, in [0, 1] too."""
    # Of many ranks those in a cell with no end have one count: only others are
    # searched.
    if len(ranks) < 4 * CHUNK_ROWS:
        return np.searchsorted(ends, ranks, side="right")
    in_cell = np.bincount((ends * CHUNK_ROWS).astype(np.intp), minlength=CHUNK_ROWS + 1)
    below = np.where(in_cell > 0, -1, np.cumsum(in_cell))
    places = below.take((ranks * CHUNK_ROWS).astype(np.intp), mode="clip")
    left = np.flatnonzero(places < 0)
    places[left] = np.searchsorted(ends, ranks[left], side="right")
    return places


def place_labels(
    frame: pd.DataFrame, column: ColumnLayout | None, categories: Sequence[Hashable]
) -> Codes:
    """Return the position of each row's class, -1 if it has none released; private."""
    if column is None or not categories:
        return np.zeros(len(frame), dtype=np.int64)
    return place_keys(frame[column.name], categories)


@dataclass(frozen=True, repr=False)
class PrivateRows:
    """Rows as numbers. Private: they live inside `fit` and are never kept."""

    # Of rows and columns. Positions of numbers in their domains, 0 for categories.
    uniforms: NDArray[np.float32]
    # Of numbers 0, or `ZERO` or `MISSING`; the position of a category, then one code
    # for any other value and one for a missing one.
    category_codes: NDArray[np.unsignedinteger]
    class_codes: Ints  # -1 where a label is missing or was not released

    def __len__(self) -> int:
        return len(self.class_codes)

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> PrivateRows:
        return PrivateRows(
            self.uniforms[rows], self.category_codes[rows], self.class_codes[rows]
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.uniforms.shape

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All three."""
        return self.uniforms, self.category_codes, self.class_codes

    def of_class(self, *positions: int) -> PrivateRows:
        """Return the rows of one or some classes; of -1, those of none."""
        chosen = np.flatnonzero(np.isin(self.class_codes, positions))
        return self if len(chosen) == len(self) else self[chosen]


class TableRows:
    """`PrivateRows` of a whole table, in parts that may not be in memory together."""

    def __init__(self, rows: Parts | PrivateRows) -> None:
        self._parts = Parts.of(rows)

    def of_class(self, position: int) -> PrivateRows:
        """Bring the rows of one class into memory."""
        parts = [part.arrays for part in self.parts_of_class(position).each()]
        return PrivateRows(*map(np.concatenate, zip(*parts, strict=True)))

    def parts_of_class(self, *positions: int) -> Parts:
        """Return the rows of one or some classes in parts."""
        return self._parts.map(PrivateRows.of_class, *positions)


def wall_values(
    series: pd.Series, column: ColumnLayout, domain: NumericDomain
) -> tuple[Floats, Bools]:
    """Return numbers as `numeric_values` does; times in units as a clock shows them."""
    values, missing = numeric_values(series, column)
    return (values if domain.step is None else column.to_wall(values)), missing


def encode_rows(
    frame: pd.DataFrame,
    columns: list[ColumnLayout],
    domains: list[ColumnDomain],
    label_column: ColumnLayout | None = None,
    labels: Sequence[Hashable] = (),
) -> PrivateRows:
    """Place the rows in the domains and classes, in the order of the frame: private."""
    uniforms = np.zeros((len(frame), len(columns)), dtype=np.float32)
    most = max((a.n_codes for a in domains if isinstance(a, CategoryDomain)), default=0)
    special = max((len(getattr(a, "special", ())) for a in domains), default=0)
    kind = np.min_scalar_type(max(most - 1, MISSING + special))
    category_codes = np.zeros(uniforms.shape, dtype=kind)
    for position, (column, domain) in enumerate(zip(columns, domains, strict=True)):
        series = column.read(frame)
        if isinstance(domain, NumericDomain):
            values, missing = wall_values(series, column, domain)
            for rows in in_chunks(len(frame)):
                uniforms[rows, position] = domain.to_unit(values[rows])
            category_codes[:, position] = domain.codes(values)
            category_codes[missing, position] = MISSING
        else:
            known = domain.categories
            codes = place_keys(series, known, len(known), len(known) + 1)
            category_codes[:, position] = codes
    class_codes = place_labels(frame, label_column, labels)
    return PrivateRows(uniforms, category_codes, class_codes)
