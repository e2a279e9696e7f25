"""Domains: how the values of one column are laid out, by public or bought facts alone.

A numeric domain maps values to [0, 1]; a level domain maps categories to codes. Neither
ever holds a value that was not public or released through a mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.schema import ROUNDING, decode_value, encode_value

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

_FEW_NUMBERS = 32  # whole numbers that can have a cell each
_FEWER_NUMBERS = 4  # so few that the range says all


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
    quantile: bool = False  # cells follow round 1 almost alone, and the scale hardly
    # Seconds of the unit that times are whole multiples of; the times then count in
    # units, as whole numbers, and `low` and `high` do too.
    step: float | None = None
    # Decimals of numbers that are all `integer` in units of the last one; `low` and
    # `high` are in these units too.
    decimals: int = 0
    # The range was bought; and then noise may have left open where the rows are.
    bought: bool = field(default=False, compare=False)
    guessed: bool = field(default=False, compare=False)

    def with_decimals(self, decimals: int) -> NumericDomain:
        """Give the same range for numbers of so many decimals."""
        low = float(math.ceil(self.low * 10.0**decimals - ROUNDING))
        high = float(math.floor(self.high * 10.0**decimals + ROUNDING))
        return replace(
            self, low=low, high=max(low, high), integer=True, decimals=decimals
        )

    def with_step(self, step: float, low: float, high: float) -> NumericDomain:
        """Give the domain of times that are whole multiples of so many seconds."""
        return replace(self, low=low, high=high, integer=True, step=step)

    @property
    def n_numbers(self) -> float:
        """Whole numbers, of units or of the last decimal, that it holds."""
        return self.high - self.low + 1 if self.integer else math.inf

    @property
    def zero(self) -> float | None:
        """Position of an exact 0 with a cell of its own; None where there is none."""
        return _zero_of(self)

    def to_unit(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map finite values to [0, 1], clamped to the range; 0.5 if it has no width."""
        start, end = self._ends()
        if end <= start:
            return np.full(values.shape, 0.5)
        if self.step is not None:
            values = np.floor(values / self.step)
        # Clamped first: a value far outside must not overflow.
        unit = 10.0**self.decimals
        values = np.clip(values, (self.low - 1) / unit, (self.high + 1) / unit) * unit
        scaled = np.clip(self._scale(values), start, end)
        return (scaled - start) / (end - start)

    def from_unit(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map [0, 1] back to values; whole numbers of units are rounded."""
        start, end = self._ends()
        scaled = units * (end - start)
        scaled += start
        values = self._unscale(scaled)
        if self.integer:
            np.rint(values, out=values)
            values += 0.0  # no negative zero
        np.clip(values, self.low, self.high, out=values)
        zero = self.zero
        if zero is not None:  # rounding of the scale must not blur an exact 0
            values[units == zero] = 0.0
        if self.decimals:  # a division of whole numbers is what a decimal is read as
            values /= 10.0**self.decimals
        elif self.step is not None:
            values *= self.step
        return values

    def edges(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map positions that part the values to where they lie, without rounding."""
        start, end = self._ends()
        values = self._unscale(start + units * (end - start)) / 10.0**self.decimals
        return values if self.step is None else values * self.step

    def span(self, low: float, high: float) -> tuple[float, float]:
        """Give the positions between which the values from `low` to `high` lie."""
        start, end = self._ends()
        if end <= start:
            return 0.0, float(low <= self.from_unit(np.zeros(1))[0] <= high)
        ends = np.array([low, high])
        ends = ends * 10.0**self.decimals if self.step is None else ends / self.step
        margin = 0.5 if self.integer else 0.0
        if self.integer:
            ends = np.array([np.ceil(ends[0] - ROUNDING), np.floor(ends[1] + ROUNDING)])
            ends += np.array([-0.5, 0.5])
        ends = np.clip(ends, self.low - margin, self.high + margin)
        low, high = np.clip((self._scale(ends) - start) / (end - start), 0.0, 1.0)
        return float(low), float(high)

    def snap(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move inner cell edges to where no value lies, and drop empty cells."""
        start, end = self._ends()
        if end <= start:
            return np.array([0.0, 1.0])
        if self.integer:
            halves = np.rint(self._unscale(start + edges * (end - start)) - 0.5) + 0.5
            edges = (self._scale(halves) - start) / (end - start)
        inner = np.unique(edges[(edges > 1e-9) & (edges < 1 - 1e-9)])
        return np.concatenate(([0.0], inner, [1.0]))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form."""
        return {"axis": "numeric", **vars(self)}

    def _ends(self) -> tuple[float, float]:
        margin = 0.5 if self.integer else 0.0
        start, end = self._scale(np.array([self.low - margin, self.high + margin]))
        return float(start), float(end)

    def _scale(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self.log:
            return values
        return np.sign(values) * np.log1p(np.abs(values) / 10.0**self.decimals)

    def _unscale(self, scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self.log:
            return scaled
        return np.sign(scaled) * np.expm1(np.abs(scaled)) * 10.0**self.decimals


@lru_cache(maxsize=2048)  # a table of many columns asks for it very often
def _zero_of(domain: NumericDomain) -> float | None:
    few = domain.integer and domain.high - domain.low < _FEW_NUMBERS
    if few or not domain.low <= 0 <= domain.high:
        return None
    return float(domain.to_unit(np.zeros(1))[0])


@dataclass(frozen=True)
class LevelDomain:
    """A column of categories: public or bought levels, sorted by name or as given.

    Codes: position in `levels`, then `len(levels)` for any other value, then
    ``len(levels) + 1`` for a missing one.
    """

    levels: tuple[Hashable, ...]
    nullable: bool
    ordered: bool = False
    # Released share of the rows that are in no level and not missing.
    other: float = field(default=0.0, compare=False)

    @property
    def n_codes(self) -> int:
        """Number of codes: the levels, 'other' and 'missing'."""
        return len(self.levels) + 2

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form."""
        levels = [encode_value(level) for level in self.levels]
        return {"axis": "levels", **vars(self), "levels": levels}


ColumnDomain = NumericDomain | LevelDomain


def domain_from_dict(data: Mapping[str, Any]) -> ColumnDomain:
    """Rebuild the domain that `to_dict` wrote; files name its kind "axis"."""
    if data["axis"] == "numeric":
        return NumericDomain(**{k: v for k, v in data.items() if k != "axis"})
    levels = tuple(decode_value(level) for level in data["levels"])
    other = data.get("other", 0.0)
    return LevelDomain(levels, data["nullable"], data["ordered"], other)


def is_continuous(domain: ColumnDomain | None) -> bool:
    """Tell whether it must be found out where in a domain the rows are."""
    return isinstance(domain, NumericDomain) and not (
        domain.integer and domain.high - domain.low < _FEWER_NUMBERS
    )
