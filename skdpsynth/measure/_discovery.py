"""Discovery: what the schema leaves out is released here, in this order.

Labels and class counts, categories, ranges, decimals. What a schema makes unnecessary
is not spent, and goes to what follows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from skdpsynth.measure._shares import (
    BESIDE_SHARE,
    CATEGORIES_SHARE,
    FOUND_SHARE,
    LIKELY,
    LITTLE,
    QUARTER,
    RARE,
    REMAINDERS_SHARE,
    SMALL_SHARE,
    SURE,
    TINY,
)
from skdpsynth.measure._written import (
    affords,
    discover_remainders,
    discover_resolutions,
    discover_values,
    period_of,
    values_threshold,
)
from skdpsynth.privacy import (
    Parts,
    clamped_counts,
    grid_noise_std,
    key_threshold,
    noisy_counts,
    noisy_histogram,
    noisy_unit_counts,
    thresholded_counts,
    unit_name,
)
from skdpsynth.schema import (
    MOST_STATED_DECIMALS,
    SECONDS_OF,
    Boolean,
    Categorical,
    Continuous,
    TableSchema,
    is_date,
    is_finite,
)
from skdpsynth.table import (
    FEW_NUMBERS,
    CategoryDomain,
    Classes,
    Metadata,
    NumericDomain,
    PrivateRows,
    RowsInParts,
    TableRows,
    declared_domain,
    encode_rows,
    modelled_columns,
    needs_resolution,
    numeric_values,
    place_labels,
    public_categories,
    total_keys,
)
from skdpsynth.utils import in_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.table import ColumnDomain, ColumnLayout, TableLayout

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]

# Noise deviations of the next one, two, three and four bins of a tail together. With
# one bin alone the 2-way distance of storms was .45, not .41 (epsilon 1).
_TAIL_FROM = np.array([2.0, 3.0, 3.0, 3.0])
# The same of bins on the other side of 0, whose values are at most so much smaller.
# With 5 columns of two modes lost a sign; with 8 times smaller the ranges of diabetes
# had 90 % of the values, not 94 % (epsilon 3).
_ACROSS_FROM, _ALIKE = 4.0, 64.0
# Rows of a table, in noise deviations, whose ranges are found: a bin with a fifth of
# them is likely no noise. With 25 columns of two modes lost a sign.
RANGES_FROM = LIKELY * SURE
# A range that starts below this part of its end starts at 0. With 10 those of 1,000
# rows of Adult had 91 % of the values, not 92 % (epsilon 0.3).
_NEAR_ZERO = 8.0
# Of a column with no bin above the noise.
_DEFAULT_DATES = np.array(["1970", "2030"], "M8[s]").astype(np.float64).tolist()
# Prior of a column: its largest number is near this, and a factor of 2 away takes
# QUARTER off the log probability, a negative one 1. Away from 0 it fills a few bins
# with such shares. Near 1, with .7 off, the ranges of wine had 95 % of the values, not
# 98 %.
_USUAL = 8.0
_BUMPS = (
    *((1.0,), (0.5, 0.5), (0.25, 0.25, 0.25, 0.25)),
    *((0.25, 0.5, 0.25), (0.15, 0.35, 0.35, 0.15), (0.05, 0.15, 0.3, 0.3, 0.15, 0.05)),
    *((0.35, 0.65), (0.65, 0.35), (0.1, 0.3, 0.6), (0.6, 0.3, 0.1)),
)
# Rows, in noise deviations, from which bins that are surely not empty say more than
# shapes: a bin with a fifth of them is sure. Of 900 rows of Kaggle Credit (22) shapes
# keep 96 % of the values, and such bins 90 %; of 1,000 rows of Adult (35) 92 % and
# 96 %.
_SHAPES_BELOW = SURE * SURE
_POWERS = range(-30, 64)  # of two: the edges of the outer bins of floats


def range_noise_std(n_columns: int, mu: float) -> float:
    """Give the noise of a count of the outer bins of so many columns."""
    return grid_noise_std(mu, math.sqrt(max(n_columns, 1)))


def ranges_share(n_columns: int, cap: float, n_rows: float) -> float:
    """Give the share of the budget (in mu^2) for ranges: more where rows are few."""
    std = range_noise_std(n_columns, cap * math.sqrt(BESIDE_SHARE))
    return BESIDE_SHARE if n_rows >= RANGES_FROM * std else QUARTER


def discover_ranges(
    table: pd.DataFrame | Parts,
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
    probably not empty, but not across 0. Where no bin is sure, the prior says where the
    rows are. The scale is that of `Continuous`.
    """
    edges = [_outer_edges(column) for column in columns]
    codes = Parts.of(table).map(_outer_codes, columns, edges)
    norm = math.sqrt(len(columns))
    reservation = accountant.reserve_gaussian("column ranges", mu=mu, sensitivity=norm)
    released = noisy_histogram(codes, [len(bins) for bins in edges], reservation)
    domains, noise_std = [], reservation.noise_std
    for column, bins, counts in zip(columns, edges, released, strict=True):
        n_missing = float(counts[-1])
        nullable = column.can_be_missing and n_missing > SURE * noise_std
        present = max(n_rows - n_missing * nullable, 1.0)
        own = column, bins, counts[:-1], noise_std, present
        low, high, found = _released_range(*own)
        integer = column.kind == "integer"
        if integer or column.kind == "datetime":  # bins are half-open
            low, high = float(math.ceil(low)), float(math.ceil(high) - 1)
        scale = Continuous(low, high).resolved_scale()
        log = scale == "log" and column.kind != "datetime"
        domain = NumericDomain(low, high, log, integer, nullable, released=True)
        if is_date(column.dtype):
            step = SECONDS_OF["D"]
            domain = domain.with_step(step, low // step, high // step)
        # Of a column that is mostly missing, there is hardly a range to be found.
        domains.append(replace(domain, guessed=not found and 2 * present > n_rows))
    return domains


def _outer_codes(
    frame: pd.DataFrame, columns: list[ColumnLayout], edges: list[Floats]
) -> NDArray[np.unsignedinteger]:
    """Give the outer bin of every row in every column; the last one if missing."""
    dtype = np.min_scalar_type(max(map(len, edges)))
    codes = np.empty((len(frame), len(columns)), dtype=dtype)
    for position, (column, bins) in enumerate(zip(columns, edges, strict=True)):
        values, missing = numeric_values(frame[column.name], column)
        inner = bins[1:-1]
        for rows in in_chunks(len(frame)):
            codes[rows, position] = np.searchsorted(inner, values[rows], side="right")
        codes[missing, position] = len(bins) - 1
    return codes


def _outer_edges(column: ColumnLayout) -> Floats:
    """Edges of the public outer bins: powers of two, or two years each."""
    if column.kind == "datetime":
        years = np.arange("1900", "2102", 2, dtype="M8[Y]")
        return years.astype("M8[s]").astype(np.float64)
    if column.kind != "integer":
        powers = np.exp2(np.array(_POWERS, dtype=np.float64))
        return np.concatenate((-powers[::-1], powers))
    limits = np.iinfo(getattr(column.dtype, "numpy_dtype", column.dtype))
    powers = np.exp2(np.arange(int(limits.max).bit_length() + 1, dtype=np.float64))
    negative = -powers[::-1] if limits.min < 0 else np.empty(0)
    return np.concatenate((negative, [-0.5, 0.5], powers[1:]))


def _released_range(
    column: ColumnLayout,
    edges: Floats,
    counts: NDArray[np.int64],
    noise_std: float,
    n_rows: float,
) -> tuple[float, float, bool]:
    """Read a range off noisy counts; with it, whether half of the rows were found."""
    dated = column.kind == "datetime"
    outer = _found_bins(edges, counts, noise_std, n_rows, dated=dated)
    if outer is None:
        return *_DEFAULT_DATES, False
    first, last = outer
    within = counts[first : last + 1]
    found = within.sum() >= 0.5 * n_rows and within.max() > LIKELY * noise_std
    low, high = float(edges[first]), float(edges[last + 1])
    if dated:
        return low, high, bool(found)
    # Of the other side of 0 only the middle bin may be cut off: no values are in it.
    middle = float(np.abs(edges).min())
    if -middle <= low <= high / _NEAR_ZERO or 0 < low <= 1 <= high:
        low = 0.0
    whole = column.kind == "integer"  # half-open: its last number is one below
    if low / _NEAR_ZERO <= high <= middle:
        high = middle if whole else 0.0
    if -middle <= low and high <= middle:
        # Zeros alone; or zeros and ones, where the noise hides one in a hundred.
        rare = SURE * noise_std > RARE * n_rows
        return 0.0, float(rare + whole), bool(found)
    return low, high, bool(found)


def _found_bins(
    edges: Floats,
    counts: NDArray[np.int64],
    noise_std: float,
    n_rows: float,
    *,
    dated: bool,
) -> tuple[int, int] | None:
    """Find the first and the last outer bin that holds rows; None of some dates."""
    # Rows without a label are in these counts, but not yet in the number of rows.
    total = float(counts.sum())
    if total - n_rows > SURE * noise_std * math.sqrt(len(counts)):
        n_rows = total
    core = np.flatnonzero(counts > SURE * noise_std)
    if not dated and (len(core) == 0 or n_rows < _SHAPES_BELOW * noise_std):
        return _likely_bins(counts, edges, noise_std, n_rows)
    if len(core) == 0:
        core = _together(counts, noise_std, SURE)
    if len(core) == 0:
        return None
    first, last = int(core[0]), int(core[-1])
    # Growth alone does not cross 0: most columns have one sign.
    zero = int(np.searchsorted(edges, 0.0, side="right")) - 1
    lowest = zero if first >= zero and not dated else 0
    highest = zero if last <= zero and not dated else len(counts) - 1
    first -= _growth(counts[lowest:first][::-1], noise_std)
    last += _growth(counts[last + 1 : highest + 1], noise_std)
    if dated:
        return first, last
    return _across_zero(edges, counts, noise_std, first, last)


def _likely_bins(
    counts: NDArray[np.int64], edges: Floats, noise_std: float, n_rows: float
) -> tuple[int, int]:
    """Give the bins between which most rows probably are, where rows are few.

    Columns of several shapes are weighed by their prior and by the Gaussian likelihood
    of the counts. Of the mean of the shapes the sizes about the most likely one are
    taken, so that another guess, thousands of times larger, does not count. A range
    ends where bins probably have little of the rows of the fullest one. With 20 draws
    of the noise at epsilon 1: breast cancer has 95 % of its values within (89 % by
    quantiles of the mean of the shapes), and 0.3 % of the ranges are 32 times too wide
    or more (0.8 %); diabetes 95 % (82 %).
    """
    shapes, log_prior = _shapes(tuple(edges.tolist()))
    known = counts.any() and n_rows > noise_std
    # Where the prior decides: with LITTLE the range of a column without values was 10
    # times as wide.
    least, log_weights = QUARTER, log_prior
    if known:
        noise_std = max(noise_std, TINY)
        fit = n_rows * (shapes @ counts) - 0.5 * n_rows**2 * (shapes**2).sum(axis=1)
        least, log_weights = LITTLE, log_prior + fit / noise_std**2
    weights = np.exp(log_weights - log_weights.max())
    density = weights @ shapes / weights.sum()
    # Both signs of one size belong together: a centred column has few rows near 0.
    sizes = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    sizes, place = np.unique(sizes, return_inverse=True)
    by_size = np.zeros(len(sizes))
    np.maximum.at(by_size, place, density)
    likely = density >= least * density.max()
    less = np.flatnonzero(by_size < least * density.max())
    most = int(by_size.argmax())
    smaller, larger = less[less < most].max(initial=-1), less[less > most]
    likely &= (place > smaller) & (place < larger.min(initial=len(sizes)))
    first, last = np.flatnonzero(likely)[[0, -1]]
    return int(first), int(last)


@lru_cache(maxsize=16)
def _shapes(edges: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Lay rows into outer bins as columns may: (n_shapes, n_bins), and log priors.

    Even in the logarithm over a few bins, or most in the middle or at an end of them;
    even from 0 to an edge; and normal about 0.
    """
    ends = np.array(edges)
    bins = np.arange(len(ends) - 1)
    shares: list[Floats] = []
    far: list[float] = []
    for bump in _BUMPS:
        width = len(bump)
        for first in range(len(bins) - width + 1):
            low, high = ends[first], ends[first + width]
            if low >= 0 or high <= 0:
                shares.append(np.zeros(len(bins)))
                shares[-1][first : first + width] = bump
                far.append(high if low >= 0 else low)
    for end in ends[ends != 0]:
        shares.append(np.abs(np.diff(np.clip(ends, min(end, 0.0), max(end, 0.0)))))
        far.append(end)
    for end in ends[ends > 0]:  # almost all within 2.5 deviations
        shares.append(np.diff(ndtr(ends * 2.5 / end)))
        far.append(end)
    stacked, limits = np.array(shares), np.array(far)
    stacked /= stacked.sum(axis=1, keepdims=True)
    doublings = np.abs(np.log2(np.abs(limits) / _USUAL))
    return stacked, -QUARTER * doublings - (limits < 0)


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
    must not be cut off because no bin of theirs is sure. These bins are so few that a
    column of one sign gets the other one in fewer than one of a thousand fits.
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
        sure = sums > _TAIL_FROM[: len(sums)] * noise_std * np.sqrt(widths)
        if not sure.any():
            break
        grown += int(np.flatnonzero(sure)[-1]) + 1
    return grown


# The usual coding of a binary label: known to everybody, so it needs no threshold.
_USUAL_LABELS = (0, 1)


def public_labels(
    column: ColumnLayout, schema: TableSchema | None
) -> tuple[Hashable, ...] | None:
    """Give the labels (not their counts) if they are public, else None."""
    declared = None if schema is None else schema.columns.get(column.name)
    if isinstance(declared, Categorical | Boolean):
        return tuple(declared.categories)
    return (False, True) if column.kind == "boolean" else None


def class_share(column: ColumnLayout | None, schema: TableSchema | None) -> float:
    """Give the share of its budget (in mu^2) that `measure_classes` will use."""
    if column is None:
        return float(schema is None or schema.n_rows is None)
    if public_labels(column, schema) is not None:
        # No counts for a target that is declared to hold missing values only.
        return float(schema is None or not schema.class_counts)
    return 1.0 if column.kind == "integer" else 0.5


def label_thresholds(
    labels: Sequence[Hashable],
    kind: str,
    mu: float,
    threshold_delta: float,
    rows_per_unit: int,
) -> Floats:
    """Give the noisy count that each label, undeclared, must exceed to be found."""
    noise_std, most = grid_noise_std(mu / np.sqrt(2), 1.0), rows_per_unit
    found = float(key_threshold(noise_std, threshold_delta, 1, rows_per_unit=most))
    if kind != "integer":
        return np.full(len(labels), found)
    others = any(label not in _USUAL_LABELS for label in labels)
    sure = noise_std * SURE if others else 0.0
    return np.array([sure if label in _USUAL_LABELS else found for label in labels])


def measure_classes(
    table: Parts,
    column: ColumnLayout | None,
    schema: TableSchema | None,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    threshold_delta: float,
) -> Classes:
    """Release the classes and their sizes; `column` is that of the labels, if any."""
    if column is None:
        if schema is not None and schema.n_rows is not None:
            return Classes((), np.array([float(schema.n_rows)]))
        return _one_class(table, accountant, mu)
    categories = public_labels(column, schema)
    if categories == ():  # declared to hold nothing but missing values
        return _one_class(table, accountant, mu)
    if categories is not None:
        if schema is not None and schema.class_counts is not None:
            given = [float(schema.class_counts[category]) for category in categories]
            return Classes(categories, np.maximum(given, 1.0))
        noisy, noise_std = _counted(table, column, categories, accountant, mu)
        return Classes(categories, likely_counts(noisy, noise_std), noise_std)
    # Half is kept for the case that no label passes, which no integer column meets.
    share = mu if column.kind == "integer" else mu / np.sqrt(2)
    classes = _found_classes(table, column, accountant, share, threshold_delta)
    if classes.labels:
        return classes
    return _one_class(table, accountant, share)  # no label could be released


def _one_class(table: Parts, accountant: PrivacyAccountant, mu: float) -> Classes:
    """Count the rows and put them all into one class."""
    class_codes = table.map(place_labels, None, ())
    reservation = accountant.reserve_gaussian("row count", mu=mu, sensitivity=1.0)
    counts = np.maximum(noisy_counts(class_codes, 1, reservation), 1).astype(np.float64)
    return Classes((), counts, reservation.noise_std)


def _counted(
    table: Parts,
    column: ColumnLayout,
    categories: Sequence[Hashable],
    accountant: PrivacyAccountant,
    mu: float,
) -> tuple[Floats, float]:
    """Release the rows of each class; give their noise too."""
    reservation = accountant.reserve_gaussian("class counts", mu=mu, sensitivity=1.0)
    n_bins = len(categories) + 1  # of which the last one holds the rows of no class
    binned = table.map(place_labels, column, categories).map(np.mod, n_bins)
    noisy = noisy_counts(binned, n_bins, reservation)[:-1]
    return noisy.astype(np.float64), reservation.noise_std


def _found_classes(
    table: Parts,
    column: ColumnLayout,
    accountant: PrivacyAccountant,
    mu: float,
    threshold_delta: float,
) -> Classes:
    """Find labels that nobody declared: usual ones by count, others by threshold."""
    usual: tuple[Hashable, ...] = _USUAL_LABELS if column.kind == "integer" else ()
    counted: dict[Hashable, float] = {}
    noise_std = 0.0
    if usual:
        mu = mu / np.sqrt(2)
        counts_of, noise_std = _counted(table, column, usual, accountant, mu)
        counted = dict(zip(usual, counts_of, strict=True))
    reservation = accountant.reserve_gaussian(
        "other class labels" if usual else "class labels and counts",
        mu=mu,
        sensitivity=1.0,
        delta=threshold_delta,
    )
    (of_key,) = total_keys(table, [column.name])
    keys = sorted(key for key in of_key if key is not None and key not in usual)
    counts = clamped_counts(of_key[key] for key in keys)
    ((kept, noisy),) = thresholded_counts(
        [counts], reservation, threshold_delta, lambda: [keys]
    )
    passed = zip((keys[position] for position in kept), noisy, strict=True)
    # An infinite label is no class.
    found = {label: float(count) for label, count in passed if is_finite(label)}
    # Other labels show that the label is not binary. Without others both are kept: a
    # rare class must not get lost, and one that is empty gets few rows.
    alone = not found and noise_std > 0
    sure = -math.inf if alone else SURE * noise_std
    found |= {
        category: float(likely_counts(np.array(count), noise_std))
        for category, count in counted.items()
        if count > sure
    }
    if counted and not found:  # an integer column must hold some label
        found = dict([max(counted.items(), key=lambda item: item[1])])
    categories = tuple(sorted(found))
    values = np.array([found[category] for category in categories], dtype=np.float64)
    # Of the same mu and sensitivity, all counts have the same noise.
    needed = key_threshold(
        reservation.noise_std,
        threshold_delta,
        1,
        rows_per_unit=reservation.rows_per_unit,
    )
    return Classes(
        categories, np.maximum(values, 1.0), reservation.noise_std, float(needed)
    )


def likely_counts(noisy: Floats, noise_std: float) -> Floats:
    """Give the mean of counts about noisy ones, cut off at 0; at least 1."""
    if noise_std == 0:
        return np.maximum(noisy, 1.0)
    ratio = noisy / noise_std
    log_density = -0.5 * ratio**2 - 0.5 * math.log(2 * math.pi)
    return np.maximum(noisy + noise_std * np.exp(log_density - log_ndtr(ratio)), 1.0)


def discover_categories(
    table: pd.DataFrame | Parts,
    columns: list[ColumnLayout],
    accountant: PrivacyAccountant,
    *,
    mu: float,
    threshold_delta: float,
    n_rows: float,
) -> list[CategoryDomain]:
    """Find the categories of columns that the schema leaves out, sorted by name.

    Kept are those whose noisy count passed a threshold; an infinite one is left to
    'other'. A missing value is one more key, so a row has one key per column: the
    sensitivity is the root of the number of columns.
    """
    counters = total_keys(Parts.of(table), [column.name for column in columns])
    names = [[*sorted(own.keys() - {None}), None] for own in counters]
    counts = [
        clamped_counts(own[key] for key in keys)
        for own, keys in zip(counters, names, strict=True)
    ]
    reservation = accountant.reserve_gaussian(
        "categories", mu=mu, sensitivity=math.sqrt(len(columns)), delta=threshold_delta
    )
    domains = []
    released = thresholded_counts(counts, reservation, threshold_delta, lambda: names)
    for column, keys, (kept, noisy) in zip(columns, names, released, strict=True):
        nullable = len(keys) - 1 in kept
        listed = (keys[position] for position in kept)
        found = tuple(key for key in listed if key is not None and is_finite(key))
        ordered = bool(getattr(column.dtype, "ordered", False))
        unsure = LIKELY * reservation.noise_std * math.sqrt(max(len(kept), 1))
        known = (float(np.sum(noisy)) + unsure) / n_rows
        public = public_categories(column)
        other = 0.0 if public else max(1.0 - known, 0.0)
        domains.append(CategoryDomain(public or found, nullable, ordered, other))
    return domains


_WITH_CATEGORIES = ("categorical", "boolean")  # kinds of columns


def discovery_share(layout: TableLayout, schema: TableSchema | None) -> float:
    """Share of delta that finding keys will need: 0 where all keys are public."""
    return BESIDE_SHARE if _n_discoveries(layout, schema) else 0.0


def discover(
    table: pd.DataFrame | Parts,
    layout: TableLayout,
    schema: TableSchema | None,
    accountant: PrivacyAccountant,
    sizes: Parts | None = None,
    known: tuple[ColumnDomain, ...] | None = None,
) -> tuple[Metadata, TableRows]:
    """Release what the schema does not say; with it encode the rows, still private.

    Those of a DataFrame are in memory; of a table in parts they are kept in parts.
    `sizes` says how many rows the units of privacy have, as `limit_rows` gives them.
    Of columns whose domains are `known` from another table nothing is released.
    """
    parts, cap, target = Parts.of(table), accountant.mu_cap, layout.label_column
    delta = threshold_delta(layout, schema, accountant.delta)
    labels = [] if target is None else [target]
    own = _reading(parts, labels) if labels else parts
    mu = cap * math.sqrt(FOUND_SHARE)
    classes = measure_classes(
        own, target, schema, accountant, mu=mu, threshold_delta=delta
    )
    columns = modelled_columns(layout, schema)
    n_rows = float(classes.counts.sum())
    domains = known
    if domains is None:
        domains = _released_domains(parts, layout, schema, accountant, n_rows)
    metadata = Metadata.of(layout, columns, domains, classes, schema)
    if sizes is not None:
        mu = cap * math.sqrt(SMALL_SHARE)
        metadata = measure_units(sizes, metadata, accountant, mu=mu)
    rows = _reading(parts, [*columns, *labels]).map(
        encode_rows, list(columns), list(domains), target, classes.labels
    )
    if isinstance(table, Parts):
        return metadata, RowsInParts(rows.kept())
    return metadata, PrivateRows.joined(rows.each(), len(table))


def _released_domains(
    parts: Parts,
    layout: TableLayout,
    schema: TableSchema | None,
    accountant: PrivacyAccountant,
    n_rows: float,
) -> tuple[ColumnDomain, ...]:
    """Release categories, ranges, decimals, last digits and frequent values."""
    columns = modelled_columns(layout, schema)
    cost = discovery_cost(layout, schema, accountant, n_rows)
    domains = {column: declared_domain(column, schema) for column in columns}
    of_keys = {"threshold_delta": cost.delta, "n_rows": n_rows}

    def release(
        name: str,
        find: Callable[..., list[Any]],
        chosen: list[ColumnLayout],
        *known: list[ColumnDomain | None],
        **given: object,
    ) -> None:
        if chosen and cost.shares[name]:
            mu = accountant.mu_cap * math.sqrt(cost.shares[name])
            own = _reading(parts, chosen)
            found = find(own, chosen, *known, accountant, mu=mu, **given)
            domains.update(zip(chosen, found, strict=True))

    release("categories", discover_categories, cost.keyed, **of_keys)
    release("ranges", discover_ranges, cost.numeric, n_rows=n_rows)
    unresolved = [domains[column] for column in cost.coarse]
    tens = {"most_tens": cost.most_tens, "n_rows": n_rows}
    release("decimals", discover_resolutions, cost.coarse, unresolved, **tens)
    cyclic = {column: own for column, own in domains.items() if period_of(own)}
    release("remainders", discover_remainders, [*cyclic], [*cyclic.values()])
    many = {column: own for column, own in domains.items() if _has_many_numbers(own)}
    release("values", discover_values, [*many], [*many.values()], **of_keys)
    return tuple(domain for domain in domains.values() if domain is not None)


def measure_units(
    sizes: Parts, metadata: Metadata, accountant: PrivacyAccountant, *, mu: float
) -> Metadata:
    """Release how many units have one row, two, and so on, and more than take part."""
    assert metadata.units is not None
    most = accountant.rows_per_unit
    reservation = accountant.reserve_gaussian("rows per unit", mu=mu, sensitivity=1.0)
    found = noisy_unit_counts(sizes, most + 1, reservation)
    noise_std = reservation.noise_std / most
    units = replace(metadata.units, sizes=found, noise_std=noise_std)
    share, std = units.cut
    accountant.remark(
        f"About {100 * share:.0f} % (noise: {max(100 * std, 0.1):.1f} %) of the values"
        f" of {unit_name(metadata.units.name)} have more than {most} rows, of which"
        f" {most} were used."
    )
    return replace(metadata, units=units)


def _reading(parts: Parts, columns: Iterable[ColumnLayout]) -> Parts:
    return parts.only([column.name for column in columns])


def undeclared_columns(
    layout: TableLayout, schema: TableSchema | None
) -> tuple[list[ColumnLayout], list[ColumnLayout]]:
    """Give the columns whose categories, and those whose range, nobody declares."""
    columns = modelled_columns(layout, schema)
    unknown = [c for c in columns if declared_domain(c, schema) is None]
    # By kind: columns are not compared, since a name may be pandas.NA.
    keyed = [c for c in unknown if c.kind in _WITH_CATEGORIES]
    return keyed, [c for c in unknown if c.kind not in _WITH_CATEGORIES]


def _has_many_numbers(domain: ColumnDomain | None) -> bool:
    return isinstance(domain, NumericDomain) and domain.n_numbers > FEW_NUMBERS


def _of_unknown_resolution(
    layout: TableLayout, schema: TableSchema | None, n_rows: float, mu: float
) -> tuple[list[ColumnLayout], list[int]]:
    """Give the columns whose resolution is asked for, and up to which tens.

    Those whose decimals nobody declares; in a table of enough rows all numbers that may
    be multiples of ten, but not where rules need every number of a range.
    """
    rules = () if schema is None else schema.rules
    in_rules = {name for rule in rules for name in rule.names}
    unknown, numbers = [], []
    for column in modelled_columns(layout, schema):
        domain = declared_domain(column, schema)
        number = column.kind in ("integer", "continuous", "timedelta")
        whole = isinstance(domain, NumericDomain) and domain.integer
        many = domain is None or (whole and _has_many_numbers(domain))
        if needs_resolution(column, schema):
            unknown.append(column)
            numbers.append(column)
        elif number and many and column.name not in in_rules:
            numbers.append(column)
    if not affords(len(numbers), mu, n_rows):
        return unknown, [0] * len(unknown)
    fixed = [c.kind == "datetime" or c.name in in_rules for c in numbers]
    return numbers, [0 if own else MOST_STATED_DECIMALS for own in fixed]


def _n_as_written(layout: TableLayout, schema: TableSchema | None) -> tuple[int, int]:
    """Count the columns, at most, whose remainders and frequent values are sought."""
    cyclic, many = 0, 0
    for column in modelled_columns(layout, schema):
        domain = declared_domain(column, schema)
        unknown = column.kind not in _WITH_CATEGORIES and domain is None
        unresolved = unknown or needs_resolution(column, schema)
        cyclic += unresolved or period_of(domain) > 0
        many += _has_many_numbers(domain) or unknown
    return cyclic, many


class DiscoveryCost(NamedTuple):
    """What `discover` releases of a table, and for how much: from public numbers."""

    keyed: list[ColumnLayout]  # whose categories nobody declares
    numeric: list[ColumnLayout]  # whose range nobody declares
    coarse: list[ColumnLayout]  # whose resolution is asked for
    most_tens: list[int]  # of these, up to which tens
    delta: float  # of each release of keys that are found by threshold
    shares: dict[str, float]  # of the squared mu of a fit; 0 of what is not released
    values_from: float  # noisy rows from which a value is found; maybe infinite


def discovery_cost(
    layout: TableLayout,
    schema: TableSchema | None,
    accountant: PrivacyAccountant,
    n_rows: float,
    *,
    known: bool = False,
) -> DiscoveryCost:
    """Return what `discover` releases of so many rows.

    `known` tells whether the domains of the columns are those of another table.
    """
    cap, delta = accountant.mu_cap, threshold_delta(layout, schema, accountant.delta)
    keyed, numeric = undeclared_columns(layout, schema)
    mu, most = cap * math.sqrt(SMALL_SHARE), accountant.rows_per_unit
    coarse, most_tens = _of_unknown_resolution(layout, schema, n_rows, mu)
    n_cyclic, n_many = _n_as_written(layout, schema)
    shares = {
        "classes": FOUND_SHARE * class_share(layout.label_column, schema),
        "units": SMALL_SHARE * (most > 1),
    }
    values_from = math.inf
    if not known:
        mu = cap * math.sqrt(FOUND_SHARE)
        values_from = values_threshold(n_many, mu, delta, n_rows, most)
        mu = cap * math.sqrt(REMAINDERS_SHARE)
        shares |= {
            "categories": CATEGORIES_SHARE * bool(keyed),
            "ranges": ranges_share(len(numeric), cap, n_rows) * bool(numeric),
            "remainders": REMAINDERS_SHARE * affords(n_cyclic, mu, n_rows),
            "decimals": SMALL_SHARE * bool(coarse),
            "values": FOUND_SHARE * (values_from < math.inf),
        }
    return DiscoveryCost(keyed, numeric, coarse, most_tens, delta, shares, values_from)


def threshold_delta(
    layout: TableLayout, schema: TableSchema | None, delta: float
) -> float:
    """Give the delta of each release of keys that are found by threshold."""
    return BESIDE_SHARE * delta / max(_n_discoveries(layout, schema), 1)


def _n_discoveries(layout: TableLayout, schema: TableSchema | None) -> int:
    """Count the releases that need a delta of their own: labels, categories, values."""
    categories, _ = undeclared_columns(layout, schema)
    target = layout.label_column
    labels = target is not None and public_labels(target, schema) is None
    values = _n_as_written(layout, schema)[1] > 0
    return int(bool(categories)) + int(labels) + int(values)
