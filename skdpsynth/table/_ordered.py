"""Columns in an order: what is modelled in their place, and how they come back.

Of the columns of an `Ordered` rule the first one is modelled as it is, and each other
one as the gap to the last present value before it. Gaps are short beside the range of
the columns, so that noise in two columns would hide them. What is modelled is a
function of the cells of a row, and public but for these.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema import (
    OPEN,
    ROUNDING,
    SECONDS_OF,
    TIMES,
    Continuous,
    Ordered,
    TableSchema,
    as_written,
)
from skdpsynth.table._domains import (
    NumericDomain,
    declared_domain,
    is_nullable,
    needs_resolution,
)
from skdpsynth.table._layout import (
    PER_SECOND,
    ColumnLayout,
    StandIn,
    TableLayout,
    numeric_values,
)
from skdpsynth.utils.arrays import Bools, Floats
from skdpsynth.utils.dtypes import EXACT, Kind, float_info, is_date

_DAY = SECONDS_OF["D"]
# Of such gaps times of day say more than the length: shifts and rides are shorter.
FAR = _DAY / 2
# Of a column its numbers or codes of categories (-1: missing), and where it is missing.
Cells = tuple[Floats, Bools]


@dataclass(frozen=True)
class Member:
    """A column of an order, and what is public of its values; None if nothing is."""

    column: ColumnLayout
    domain: Any  # a `NumericDomain`

    @property
    def step(self) -> float | None:
        """Seconds that times are whole multiples of, on the clock of their zone."""
        of_dtype = SECONDS_OF["D"] if is_date(self.column.dtype) else None
        return of_dtype if self.domain is None else self.domain.step

    @property
    def ends(self) -> Floats:
        """The bounds, of times on the clock of their zone."""
        ends = np.array(self.domain.bounds)
        return ends if self.domain.step is not None else self.column.to_wall(ends)

    @property
    def special(self) -> dict[float, float]:
        """Its special values, by the gaps that stand for them: below 0, as no other."""
        found = np.array(OPEN if self.column.kind == "datetime" else ())
        if self.domain is not None:
            found = np.array(self.domain.special)
            found = self.column.to_wall(found) if self.domain.step is None else found
        return {_DAY * (k - len(found)): v for k, v in enumerate(found.tolist())}

    def read(self, frame: pd.DataFrame) -> tuple[Floats, Bools, Floats]:
        """Return numbers on the clock, where they are missing or special, and codes."""
        values, missing = numeric_values(frame[self.column.name], self.column)
        values, codes = self.column.to_wall(values), np.zeros(len(values))
        for code, value in self.special.items():
            same = self.begun(values) == self.begun(np.array(value))
            codes[same & ~missing] = code
        if self.domain is not None:
            if self.domain.integer:
                values = self.domain.from_steps(self.domain.whole_steps(values))
            values = np.clip(values, *self.ends)
        return values, missing | (codes < 0), codes

    def begun(self, values: Floats) -> Floats:
        """Cut other times down to the steps of this column."""
        return values if self.step is None else np.floor(values / self.step) * self.step

    def after(self, values: Floats, *, strict: bool) -> Floats:
        """Return the least number of the grid that may follow each value."""
        values = self.begun(values)
        return _up(values + strict * self._apart(values), self.domain)

    def before(self, values: Floats, *, strict: bool) -> Floats:
        """Return the most that leaves room for each value of this column after it."""
        if self.step is not None:  # what is within the same step is not after it
            return values + (0.0 if strict else self.step) - min(self.step, 1.0)
        return values - strict * self._apart(values)

    def _apart(self, values: Floats) -> Floats:
        """Return by how much two values differ at least that come out as two."""
        kind = float_info(self.column.dtype).dtype
        size = np.where(np.isfinite(values), np.abs(values), 0.0).astype(kind)
        fine = self.column.kind in TIMES and self.step is None
        tick = 1.0 / min(PER_SECOND[self.column.unit], 10**6) if fine else 0.0
        return 4.0 * np.maximum(np.spacing(size).astype(np.float64), tick)


@dataclass(frozen=True)
class Gap(StandIn):
    """The last of some columns, less the last present value before; 0 if none is.

    Of times that are far apart it is counted from the midnight before, so that its time
    of day is that of the later column, whatever the earlier one's is.
    """

    @property
    def limits(self) -> tuple[float, float]:
        """From 0 on; of one column it is 0."""
        return 0.0, super().limits[1] * (len(self.members) > 1)

    @property
    def has_clock(self) -> bool:
        """Whether the later column has a time of day."""
        own = self.members[-1]
        return own.column.kind == "datetime" and own.step != _DAY

    def start(self, last: Floats, gaps: Floats) -> Floats:
        """Return what gaps are counted from, by their length."""
        begun = self.members[-1].begun(last)
        far = (gaps >= FAR) & self.has_clock
        return np.where(far, np.floor(last / _DAY) * _DAY, begun)

    def read(self, frame: pd.DataFrame) -> pd.Series:
        *before, (values, missing, codes) = [m.read(frame) for m in self.members]
        last, none = _last(before) if before else (values, missing)
        with np.errstate(over="ignore"):
            last = self.start(last, values - self.start(last, np.zeros(1)))
            gaps = np.where(none, 0.0, np.maximum(values - last, 0.0))
            exact = max(float_info(member.column.dtype).eps for member in self.members)
            gaps = as_written(gaps, values, last, float(exact), np.subtract)
        gaps = np.where(codes < 0, codes, np.minimum(gaps, sys.float_info.max))
        column = ColumnLayout(self.name, self.dtype, self.kind, True)
        return column.to_series(gaps, missing & (codes == 0))


@dataclass(frozen=True)
class First(StandIn):
    """The first present value of some columns, in the place of the first of these.

    Rows without any are not counted; the gaps to it are missing there.
    """

    def read(self, frame: pd.DataFrame) -> pd.Series:
        backwards = [member.read(frame) for member in reversed(self.members)]
        values, missing = _last(backwards)
        values = self.from_wall(values)
        return replace(self, can_be_missing=True).to_series(values, missing)


@dataclass(frozen=True)
class Order:
    """An `Ordered` rule, its columns, and what is modelled in their places."""

    rule: Ordered
    members: tuple[Member, ...]
    # In the place of each. One more, at the end, is missing where the first column is,
    # or stands for a special value of it: of that the first present value is modelled.
    modelled: tuple[ColumnLayout, ...]

    derived = ()  # all of its columns are modelled in some form

    @classmethod
    def of(cls, rule: Ordered, layout: TableLayout, schema: TableSchema) -> Order:
        """Return what is modelled of the columns of a rule."""
        columns = {column.name: column for column in layout.columns}
        own = [columns[name] for name in rule.names]
        members = tuple(Member(c, declared_domain(c, schema)) for c in own)
        first, absent = own[0], []
        nullable, special = is_nullable(first, schema), (*members[0].special,)
        if nullable or special:
            name = _free(f"{first.name} is missing", columns)
            described = first.name in schema.columns
            known = NumericDomain(0.0, 0.0, False, True, nullable, special=special)
            as_first = None, members[:1], known if described else None
            absent = [Gap(name, pd.Int64Dtype(), "integer", True, *as_first)]
            name = _free(" or ".join(map(str, rule.names)), columns)
            domain = members[0].domain
            domain = domain and replace(domain, nullable=False, special=())
            stated = first, members, domain, needs_resolution(first, schema)
            first = First(name, first.dtype, first.kind, False, *stated)
        gaps = [
            _gap_of(_free(f"{b.name} minus {a.name}", columns), members[:n], schema)
            for n, (a, b) in enumerate(pairwise(own), start=2)
        ]
        return cls(rule, members, (first, *gaps, *absent))

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The names of its columns in the table."""
        return self.rule.names

    @property
    def carriers(self) -> dict[Hashable, Hashable]:
        """What is missing where a column is, by its name."""
        first = self.modelled[len(self.names) :] or self.modelled[:1]
        carrying = zip(self.names, (*first, *self.modelled[1:]), strict=False)
        return {name: column.name for name, column in carrying}

    def domains(
        self, modelled: Mapping[Hashable, Any], schema: TableSchema
    ) -> dict[Hashable, NumericDomain]:
        """Return what the columns of the table can hold, from what is modelled."""
        found: dict[Hashable, NumericDomain] = {}
        last = None
        for member, column in zip(self.members, self.modelled, strict=False):
            domain = modelled[column.name]
            if last is not None:
                domain = _sum_of(last, domain, member, schema)
            own, nullable = member.column, is_nullable(member.column, schema)
            codes = modelled[self.carriers[own.name]].special
            special = np.array([member.special.get(code, code) for code in codes])
            special = own.from_wall(special) if domain.step is None else special
            domain = replace(domain, nullable=nullable, special=(*special.tolist(),))
            last, found[own.name] = Member(own, domain), domain
        return found

    def keep(
        self, cells: dict[Hashable, Cells], domains: Mapping[Hashable, NumericDomain]
    ) -> None:
        """Turn gaps back into values in order that their columns can hold, in place."""
        members = [Member(m.column, domains[m.column.name]) for m in self.members]
        drawn = [cells[column.name] for column in self.modelled]
        carried = [cells[name] for name in self.carriers.values()]
        codes, missing = map(np.array, zip(*carried, strict=True))
        codes[0] *= len(self.modelled) > len(members)  # else it is no gap
        gone = missing | (codes < 0)
        ceilings = self._ceilings(members, gone)
        last = lowest = np.full(missing.shape[1], -np.inf)
        for n, (member, (values, _)) in enumerate(zip(members, drawn, strict=False)):
            column, domain, gap = member.column, member.domain, self.modelled[n]
            if isinstance(gap, Gap):
                values = gap.start(last, values) + values
            elif domain.step is None:
                values = column.to_wall(values)
            last = np.where(gone[n] & (n > 0), last, values)
            least = member.after(lowest, strict=self.rule.strict)
            if domain.integer:
                values = domain.from_steps(domain.whole_steps(values))
            kept = np.maximum(np.clip(values, *member.ends), least)
            kept = np.minimum(kept, ceilings[n]) + 0.0
            for code, value in self.members[n].special.items():
                kept[codes[n] == code] = value
            utc = column.from_wall(kept)
            if column.zone is not None:  # an hour that clocks leave out is none
                kept = column.to_wall(utc)
            lowest = np.where(gone[n], lowest, kept)
            kept = utc if domain.step is None else kept
            cells[column.name] = kept, missing[n]

    def check_room(self) -> None:
        """Refuse declared bounds without room for the order."""
        lowest = np.full(1, -np.inf)
        for member in self.members if self.members[0].domain else ():
            lowest = member.after(lowest, strict=self.rule.strict)
            lowest = _up(np.maximum(lowest, member.ends[0]), member.domain)
            if lowest[0] > member.ends[1]:
                raise InvalidSchemaError(
                    f"The rule {self.rule} needs bounds that leave room for it among"
                    " the numbers that its columns can hold. Got too little at"
                    f" {member.column.name!r}; widen the bounds, or correct the order."
                )

    def _ceilings(self, members: Sequence[Member], gone: Bools) -> list[Floats]:
        """Return the largest numbers that leave room for those that follow in a row."""
        highest = np.full(gone.shape[1], np.inf)
        found = []
        for member, missing in reversed([*zip(members, gone, strict=True)]):
            # The largest number of the grid that is not above.
            own = -_up(-np.minimum(highest, member.ends[1]), member.domain) + 0.0
            room = member.before(own, strict=self.rule.strict)
            highest = np.where(missing, highest, room)
            found.append(own)
        return found[::-1]


def _gap_of(name: str, members: tuple[Member, ...], schema: TableSchema) -> Gap:
    """Return what is public of the gap to the last of some columns."""
    *before, own = members
    kinds, timed = {m.column.kind for m in members}, own.column.kind in TIMES
    layout: tuple[Any, Kind] = np.dtype(np.float64), "continuous"
    if timed:
        layout = np.dtype("m8[us]"), "timedelta"
    elif kinds == {"integer"}:
        layout = pd.Int64Dtype(), "integer"
    nullable, domain = is_nullable(own.column, schema), None
    if all(member.domain is not None for member in members):
        low = min(float(member.ends[0]) for member in before)
        width = min(max(float(own.ends[1]) - low, 0.0), sys.float_info.max)
        width += _DAY * timed
        log = Continuous(0, width / (own.step or 1.0)).resolved_scale() == "log"
        special = (*own.special,)
        domain = NumericDomain(0.0, width, log, False, nullable, special=special)
        if own.step is not None:
            domain = domain.with_step(own.step, 0.0, width // own.step)
        elif all(member.domain.integer for member in members):
            most = max(member.domain.decimals for member in members)
            domain = domain.with_decimals(most)
    unknown = any(needs_resolution(member.column, schema) for member in members)
    unknown |= domain is None and kinds != {"integer"}
    return Gap(name, *layout, nullable, own.column, members, domain, unknown)


def _sum_of(
    before: Member, gap: NumericDomain, member: Member, schema: TableSchema
) -> NumericDomain:
    """Return what a column can hold that is another one and a gap together."""
    first, column, found = before.domain, member.column, member.domain
    # It cannot be stated that durations are whole days.
    known = column.kind != "timedelta" and not needs_resolution(column, schema)
    if found is not None and known:
        return found
    if found is None:
        ends = np.clip(before.ends + np.array(gap.bounds), *column.limits)
        if column.kind == "datetime":
            ends = column.from_wall(np.array([np.floor(ends[0]), np.ceil(ends[1])]))
        low, high = ends.tolist()
        found = NumericDomain(low, high, False, False, False)
    steps = member.step, min(first.step or 0.0, gap.step or 0.0)
    if step := steps[0] or steps[1]:
        low, high = column.to_wall(np.array(found.bounds)) / step
        low = np.floor(low) if column.kind == "datetime" else np.ceil(low)
        return found.with_step(step, float(low), float(max(low, np.floor(high))))
    if first.integer and gap.integer:
        decimals = [0 if own.step else own.decimals for own in (first, gap)]
        written, (low, high) = found.with_decimals(max(decimals)), found.bounds
        held = max(-written.low, written.high) < EXACT
        found = written if held and low <= written.bounds[0] <= high else found
    return found


def _last(cells: Sequence[tuple[Floats, Bools, Floats]]) -> Cells:
    """Return the last present number of every row, and where there is none."""
    last, none, _ = cells[0]
    for values, missing, _ in cells[1:]:
        last, none = np.where(missing, last, values), none & missing
    return last, none


def _up(values: Floats, domain: NumericDomain) -> Floats:
    """Return the smallest number of a domain's grid that is not below each value."""
    if not domain.integer:
        return values
    whole = np.ceil(domain.to_steps(values) - ROUNDING)
    found = domain.from_steps(whole)
    return np.where(found < values, domain.from_steps(whole + 1), found) + 0.0


def _free(name: str, taken: Collection[Hashable]) -> str:
    """Return a name that no column of the table has."""
    while name in taken:
        name += "'"
    return name
