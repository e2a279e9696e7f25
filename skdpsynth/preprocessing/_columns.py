"""The domains of the feature columns: declared in the schema, or bought."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.preprocessing._convert import (
    factorize,
    numeric_values,
    place_keys,
    to_wall,
)
from skdpsynth.preprocessing._domains import ColumnDomain, LevelDomain, NumericDomain
from skdpsynth.privacy._aggregators import noisy_histogram, thresholded_counts
from skdpsynth.schema import Boolean, Categorical, Continuous, Datetime
from skdpsynth.schema._columns import SECONDS_OF
from skdpsynth.schema._dtypes import is_date
from skdpsynth.schema._values import is_finite

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.preprocessing._layout import ColumnLayout
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.schema import TableSchema

    Floats = NDArray[np.float64]

ZERO, MISSING = 1, 2  # codes of a numeric column; 0 is any other value

# A complete column shows missing values with probability below 1e-6.
_MISSING_FROM = 4.76
# Noise standard deviations of a bin that is surely not empty, and of the fullest one
# where none is sure; and of the next one, two, three and four bins of a tail together.
_CORE_FROM, _GUESS_FROM = 5.0, 3.5
_TAIL_FROM = np.array([2.0, 3.0, 3.0, 3.0])
# The same of bins on the other side of 0, whose values are at most so much smaller.
_ACROSS_FROM, _ALIKE = 4.0, 64.0
_RARE = 0.01  # share of the rows
_NEAR_ZERO = 8.0  # a range that starts this near 0, seen from its far end, starts at 0
_YEAR = 31_556_952.0  # seconds
# Of a column of which nothing could be learnt.
_DEFAULT_RANGE = (-4.0, 4.0)
_DEFAULT_DATES = (0.0, 60 * _YEAR)
_POWERS = range(-30, 64)  # of two: the edges of the outer bins of floats


@dataclass(frozen=True)
class PrivateRows:
    """The table as numbers. Private: it lives inside `fit` and is never kept."""

    # (n_rows, n_columns): position of numbers in their domains, in [0, 1]; 0 elsewhere.
    units: NDArray[np.float32]
    # (n_rows, n_columns): of numeric columns 0 for a value, `ZERO` for an exact zero
    # with a cell of its own, or `MISSING`; of level columns the codes of `LevelDomain`.
    category_codes: NDArray[np.unsignedinteger]
    # (n_rows,): position of a row's class; -1 where it is missing or was not released.
    members: NDArray[np.int64]

    def of_class(self, position: int) -> PrivateRows:
        """Give the rows of one class; of -1, those of none."""
        chosen = np.flatnonzero(self.members == position)
        return self if len(chosen) == len(self.members) else self.rows(chosen)

    def rows(self, chosen: NDArray[np.integer]) -> PrivateRows:
        """Give some of the rows."""
        return PrivateRows(
            self.units[chosen], self.category_codes[chosen], self.members[chosen]
        )


def declared_domain(
    column: ColumnLayout, schema: TableSchema | None
) -> ColumnDomain | None:
    """Give a column's domain where it is public, None where it must be bought."""
    spec = None if schema is None else schema.columns.get(column.name)
    if spec is None:
        # All that a boolean dtype without missing values can hold is known.
        complete = column.kind == "boolean" and not column.can_be_missing
        return LevelDomain(public_levels(column), nullable=False) if complete else None
    nullable = column.can_be_missing and getattr(spec, "nullable", False)
    if isinstance(spec, Continuous):
        low, high = float(spec.low), float(spec.high)
        scale = spec.resolved_scale()
        log, quantile = scale == "log", scale == "quantile"
        domain = NumericDomain(low, high, log, False, nullable, quantile)
        whole = spec.integer or column.kind == "integer"
        decimals = 0 if whole else spec.decimals
        # Of a column of whole numbers the bounds may be fractions.
        return domain.with_decimals(decimals) if isinstance(decimals, int) else domain
    if isinstance(spec, Datetime):
        ends = np.array([spec.low.timestamp(), spec.high.timestamp()])
        step = SECONDS_OF.get("D" if is_date(column.dtype) else spec.unit or "")
        if step is not None:
            ends = np.floor(to_wall(ends, column) / step)
        low, high = map(float, ends)
        return NumericDomain(low, high, False, step is not None, nullable, step=step)
    if isinstance(spec, Categorical):
        return LevelDomain(tuple(spec.categories), nullable, spec.ordered)
    if isinstance(spec, Boolean):
        return LevelDomain((False, True), nullable)
    return None


def public_levels(column: ColumnLayout) -> tuple[Hashable, ...]:
    """Give the levels that a dtype makes public: those of a boolean."""
    return (False, True) if column.kind == "boolean" else ()


def buy_levels(
    frame: pd.DataFrame,
    columns: list[ColumnLayout],
    accountant: PrivacyAccountant,
    *,
    mu: float,
    threshold_delta: float,
) -> list[LevelDomain]:
    """Find the categories of columns that the schema leaves out, sorted by name.

    Kept are levels whose noisy count passed; an infinite one is left to 'other'. A
    missing value is counted as one more key, so a row has one key per column: the
    sensitivity is the root of the number of columns.
    """
    counts, all_keys = [], []
    for column in columns:
        codes, keys = factorize(frame[column.name])
        places = np.where(codes < 0, len(keys), codes)
        counts.append(np.bincount(places, minlength=len(keys) + 1))
        all_keys.append(keys)
    reservation = accountant.reserve_gaussian(
        "categories", mu=mu, sensitivity=math.sqrt(len(columns)), delta=threshold_delta
    )
    domains = []
    released = thresholded_counts(counts, reservation, threshold_delta)
    for column, keys, (kept, _) in zip(columns, all_keys, released, strict=True):
        nullable = len(keys) in kept
        listed = (keys[position] for position in kept if position < len(keys))
        found = tuple(key for key in listed if is_finite(key))
        ordered = bool(getattr(column.dtype, "ordered", False))
        domains.append(LevelDomain(public_levels(column) or found, nullable, ordered))
    return domains


def buy_ranges(
    frame: pd.DataFrame,
    columns: list[ColumnLayout],
    accountant: PrivacyAccountant,
    *,
    mu: float,
    n_rows: float,
) -> list[NumericDomain]:
    """Find the ranges of numeric columns that the schema leaves out.

    One noisy histogram per column over the wide public bins of `_outer_edges` and one
    more for missing values, so a row is in one bin per column. The range reaches from
    the first to the last bin that is surely not empty, and on while the next bin is
    probably not empty, but not across 0. The scale is that of `Continuous`.
    """
    edges = [_outer_edges(column) for column in columns]
    # The outer bins of a column are fewer than 256.
    codes = np.empty((len(frame), len(columns)), dtype=np.uint8)
    for position, (column, bins) in enumerate(zip(columns, edges, strict=True)):
        values, missing = numeric_values(frame[column.name], column)
        inside = np.searchsorted(bins[1:-1], values, side="right")
        codes[:, position] = np.where(missing, len(bins) - 1, inside)
    norm = math.sqrt(len(columns))
    reservation = accountant.reserve_gaussian("column ranges", mu=mu, sensitivity=norm)
    released = noisy_histogram(codes, [len(bins) for bins in edges], reservation)
    domains, noise_std = [], reservation.noise_std
    for column, bins, counts in zip(columns, edges, released, strict=True):
        low, high = _bought_range(column, bins, counts[:-1], noise_std, n_rows)
        integer = column.kind == "integer"
        if integer:  # bins are half-open
            low, high = float(math.ceil(low)), float(math.ceil(high) - 1)
        log = Continuous(low, high).resolved_scale() == "log"
        log = log and column.kind != "datetime"
        nullable = column.can_be_missing and counts[-1] > _MISSING_FROM * noise_std
        domain = NumericDomain(low, high, log, integer, bool(nullable))
        if is_date(column.dtype):
            step = SECONDS_OF["D"]
            domain = domain.with_step(step, low // step, high // step)
        domains.append(domain)
    return domains


def _outer_edges(column: ColumnLayout) -> Floats:
    """Edges of the public outer bins: powers of two, or two years each for dates."""
    if column.kind == "datetime":
        return (np.arange(1900.0, 2102.0, 2.0) - 1970.0) * _YEAR
    if column.kind != "integer":
        powers = np.exp2(np.array(_POWERS, dtype=np.float64))
        return np.concatenate((-powers[::-1], powers))
    limits = np.iinfo(getattr(column.dtype, "numpy_dtype", column.dtype))
    powers = np.exp2(np.arange(int(limits.max).bit_length() + 1, dtype=np.float64))
    negative = -powers[::-1] if limits.min < 0 else np.empty(0)
    # No bin without a whole number in it: noise alone could make it the range.
    return np.concatenate((negative, [-0.5, 0.5], powers[1:]))


def _bought_range(
    column: ColumnLayout,
    edges: Floats,
    counts: NDArray[np.int64],
    noise_std: float,
    n_rows: float,
) -> tuple[float, float]:
    """Read a range off noisy counts."""
    dated = column.kind == "datetime"
    core = np.flatnonzero(counts > _CORE_FROM * noise_std)
    if len(core) == 0:
        core = _together(counts, noise_std, _CORE_FROM)
    if len(core) == 0:
        best = int(counts.argmax())
        if counts[best] <= _GUESS_FROM * noise_std:
            low, high = _DEFAULT_DATES if dated else _DEFAULT_RANGE
            return max(low, float(edges[0])), high
        core = np.array([best])
    first, last = int(core[0]), int(core[-1])
    # Growth alone does not cross 0: most columns have one sign.
    zero = int(np.searchsorted(edges, 0.0, side="right")) - 1
    lowest = zero if first >= zero and not dated else 0
    highest = zero if last <= zero and not dated else len(counts) - 1
    first -= _growth(counts[lowest:first][::-1], noise_std)
    last += _growth(counts[last + 1 : highest + 1], noise_std)
    if not dated:
        first, last = _across_zero(edges, counts, noise_std, first, last)
    low, high = float(edges[first]), float(edges[last + 1])
    if dated:
        return low, high
    # Of the other side of 0 only the middle bin may be cut off: no values are in it.
    middle = float(np.abs(edges).min())
    if -middle <= low <= high / _NEAR_ZERO:
        low = 0.0
    elif low / _NEAR_ZERO <= high <= middle:
        high = 0.0
    whole = column.kind == "integer"  # half-open: its last number is one below
    if -middle <= low and high <= middle:
        # Zeros alone; or zeros and ones, where one in a hundred would not be seen.
        rare = _CORE_FROM * noise_std > _RARE * n_rows
        return 0.0, float(rare + whole)
    return (0.0 if 0 < low <= 1 <= high else low), high


def _together(
    counts: NDArray[np.int64], noise_std: float, least: float
) -> NDArray[np.intp]:
    """Find neighbouring bins that are not all empty, though alone none may be sure.

    Their sum exceeds so many noise deviations. Both ends of such a group are probably
    not empty, so that it is not too wide.
    """
    likely = counts > _TAIL_FROM[0] * noise_std
    found = np.zeros(len(counts), dtype=bool)
    for width in range(1, min(len(_TAIL_FROM), len(counts)) + 1):
        sums = np.convolve(counts, np.ones(width), "valid")
        sure = sums > least * noise_std * math.sqrt(width)
        starts = np.flatnonzero(sure & likely[: len(sums)] & likely[width - 1 :])
        for place in range(width):
            found[starts + place] = True
    return np.flatnonzero(found)


def _across_zero(
    edges: Floats, counts: NDArray[np.int64], noise_std: float, first: int, last: int
) -> tuple[int, int]:
    """Let a range of one sign reach over 0 where there are rows on the other side.

    About as far from 0 as the range does: half of the rows of a column that is centred
    must not be cut off because no bin of theirs is sure. So few bins are looked at that
    a column of one sign gets the other one in fewer than one of a thousand fits.
    """
    far = max(-float(edges[first]), float(edges[last + 1]))
    sizes = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    alike = (sizes <= far) & (sizes > far / _ALIKE)
    if edges[first] >= 0.0:
        other = alike & (edges[1:] <= 0.0)
    elif edges[last + 1] <= 0.0:
        other = alike & (edges[:-1] >= 0.0)
    else:
        return first, last
    places = np.flatnonzero(other)
    core = places[_together(counts[places], noise_std, _ACROSS_FROM)]
    if len(core) == 0:
        return first, last
    return min(first, int(core[0])), max(last, int(core[-1]))


def _growth(counts: NDArray[np.int64], noise_std: float) -> int:
    """Count the bins beyond an end of a range, nearest first, that belong to it."""
    grown = 0
    while grown < len(counts):
        sums = np.cumsum(counts[grown : grown + len(_TAIL_FROM)])
        widths = np.arange(1, len(sums) + 1)
        seen = sums > _TAIL_FROM[: len(sums)] * noise_std * np.sqrt(widths)
        if not seen.any():
            break
        grown += int(np.flatnonzero(seen)[-1]) + 1
    return grown


def encode_rows(
    frame: pd.DataFrame,
    columns: list[ColumnLayout],
    domains: list[ColumnDomain],
    members: NDArray[np.int64],
) -> PrivateRows:
    """Place the rows in the domains, in the order of the frame: private."""
    units = np.zeros((len(frame), len(columns)), dtype=np.float32)
    most = max((a.n_codes for a in domains if isinstance(a, LevelDomain)), default=0)
    kind = np.min_scalar_type(max(most - 1, MISSING))
    category_codes = np.zeros(units.shape, dtype=kind)
    for position, (column, domain) in enumerate(zip(columns, domains, strict=True)):
        series = frame[column.name]
        if isinstance(domain, NumericDomain):
            values, missing = numeric_values(series, column)
            if domain.step is not None:
                low, high = domain.low * domain.step, domain.high * domain.step
                room = 2 * SECONDS_OF["D"] + domain.step  # more than zones differ by
                values = to_wall(np.clip(values, low - room, high + room), column)
            units[:, position] = domain.to_unit(values)
            if domain.zero is not None:
                category_codes[values == 0.0, position] = ZERO
            category_codes[missing, position] = MISSING
        else:
            found, keys = factorize(series)
            n = len(domain.levels)
            placed = place_keys(found, keys, domain.levels, n, n + 1)
            category_codes[:, position] = placed
    return PrivateRows(units, category_codes, members)
