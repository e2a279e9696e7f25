"""Numbers as people write them: resolutions, last digits, and values of many rows.

Prices, round amounts, codes, clock times and lengths of routes are few numbers among
many that could be. Three releases of all classes together say which: how finely a
column is written, how often its numbers end in each two digits, which say how much room
a number has on the scale of its column, and the frequent values, which are found by
threshold in the counts of every value and get cells of their own in the marginals.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from pandas.util import hash_array

from skdpsynth.measure._shares import (
    FEW,
    LEAST_NOISE,
    LIKELY,
    N_CELLS,
    QUARTER,
    RARE,
    ROWS_FROM,
    SURE,
)
from skdpsynth.privacy import (
    MIN_KEY_COUNT,
    Parts,
    clamped_counts,
    grid_noise_std,
    key_threshold,
    noisy_histogram,
    thresholded_counts,
)
from skdpsynth.schema import EXACT, MOST_DECIMALS, SECONDS_OF, decimals_of
from skdpsynth.table import NumericDomain, numeric_values, to_wall, wall_values
from skdpsynth.utils import in_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.table import ColumnDomain, ColumnLayout

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


def affords(n_columns: int, mu: float, n_rows: float) -> bool:
    """Return whether histograms of so many columns would show more than their noise."""
    if n_columns == 0 or mu <= 0:
        return False
    return n_rows >= ROWS_FROM * grid_noise_std(mu, math.sqrt(n_columns))


def discover_resolutions(
    table: pd.DataFrame | Parts,
    columns: list[ColumnLayout],
    domains: list[NumericDomain],
    accountant: PrivacyAccountant,
    *,
    mu: float,
    n_rows: float,
    most_tens: Sequence[int] | None = None,
) -> list[NumericDomain]:
    """Put columns on the coarsest resolution that their values are multiples of.

    That is a unit of time or a power of ten, up to that in `most_tens`, which has one
    for each column and is 0 of times. One noisy histogram per column over resolutions,
    from coarse to fine: a value is in the cell of the first one that it is a multiple
    of, in the next to last cell if of none, and in the last one if it says nothing:
    missing, 0, or a time out of range.

    The release has sensitivity ``sqrt(n_columns)``. Domains come back as they were
    where no resolution is above the noise. Numbers of which nearly all are 0 or missing
    are taken for whole ones, unless finer ones are seen.
    """
    most_tens = [0] * len(columns) if most_tens is None else most_tens
    cells = [
        (len(SECONDS_OF) if column.kind == "datetime" else n + MOST_DECIMALS + 1) + 2
        for column, n in zip(columns, most_tens, strict=True)
    ]
    codes = Parts.of(table).map(_resolutions_of_rows, columns, domains, cells)
    norm = math.sqrt(len(columns))
    reservation = accountant.reserve_gaussian("decimals", mu=mu, sensitivity=norm)
    released = noisy_histogram(codes, cells, reservation)
    found = []
    every = zip(columns, domains, most_tens, released, strict=True)
    for column, domain, tens, counts in every:
        std = reservation.noise_std
        resolution = _coarsest(counts[:-1], std, tens)
        if n_rows < _more_than_noise(len(counts) - 1, std):
            resolution = None  # no column has as many rows as a resolution needs
        if resolution is None and column.kind != "datetime" and domain.high >= 1:
            # A flag or a count, as files have them, unless fractions are seen.
            few = n_rows - float(counts[-1]) + std < QUARTER * n_rows
            few = few and LIKELY * std < QUARTER * n_rows  # else noise would decide
            whole = _none_finer(counts[:-1], std)[tens]
            resolution = tens if few and whole else None
        if resolution is None:
            found.append(domain)
        elif column.kind == "datetime":
            step = list(SECONDS_OF.values())[resolution]
            found.append(_in_units(domain, column, step))
        else:
            found.append(_in_decimals(domain, resolution - tens))
    return found


def _resolutions_of_rows(
    frame: pd.DataFrame,
    columns: list[ColumnLayout],
    domains: list[NumericDomain],
    cells: list[int],
) -> NDArray[np.uint8]:
    """Give the cell of every row in every column; private."""
    codes = np.empty((len(frame), len(columns)), dtype=np.uint8)
    for j, (column, domain) in enumerate(zip(columns, domains, strict=True)):
        codes[:, j] = _resolution_codes(frame[column.name], column, domain, cells[j])
    return codes


def _resolution_codes(
    series: pd.Series, column: ColumnLayout, domain: NumericDomain, n_cells: int
) -> NDArray[np.uint8]:
    values, missing = numeric_values(series, column)
    most_tens = n_cells - MOST_DECIMALS - 3
    if column.kind == "datetime":
        missing = missing | (values < domain.low) | (values > domain.high)
        values = to_wall(values, column)
        fits = [values % step == 0.0 for step in SECONDS_OF.values()]
        codes = np.select(fits, [*range(len(fits))], n_cells - 2)
    else:
        storage = getattr(column.dtype, "numpy_dtype", column.dtype)
        double = np.finfo(np.float64).eps  # what values were turned to
        own = np.finfo(storage).eps if storage.kind == "f" else double
        codes = np.empty(len(values), dtype=np.uint8)
        precision = float(max(own, double))
        for rows in in_chunks(len(values)):
            decimals = decimals_of(values[rows], precision, MOST_DECIMALS)
            codes[rows] = most_tens + decimals
            for tens in range(1, most_tens + 1):
                codes[rows] -= (decimals == 0) & (values[rows] % 10.0**tens == 0)
        missing = missing | (values == 0.0)
    codes[missing] = n_cells - 1
    return codes.astype(np.uint8)


def _none_finer(counts: NDArray[np.int64], noise_std: float) -> NDArray[np.bool_]:
    """Tell of which resolutions no finer values are seen in noisy counts."""
    finer = counts.sum() - np.cumsum(counts)
    n_finer = np.arange(len(counts) - 1, -1, -1)
    most = np.maximum(LIKELY * noise_std * np.sqrt(n_finer), RARE * counts.sum())
    return np.asarray(finer <= most)


def _coarsest(
    counts: NDArray[np.int64], noise_std: float, most_tens: int = 0
) -> int | None:
    """Read the resolution off noisy counts; the last of them is of finer values."""
    resolution = int(_none_finer(counts, noise_std).argmax())
    beside = 2 * np.cumsum(counts) - counts.sum()
    tens = SURE * noise_std * math.sqrt(len(counts))
    while resolution < most_tens and beside[resolution] <= tens:
        resolution += 1
    if resolution == len(counts) - 1:
        return None
    more = _more_than_noise(len(counts), noise_std)
    return resolution if beside[resolution] > more else None


def _more_than_noise(n_counts: int, noise_std: float) -> float:
    """Give by how many rows a resolution must exceed the finer ones."""
    return LIKELY * noise_std * math.sqrt(n_counts)


def _in_decimals(domain: NumericDomain, decimals: int) -> NumericDomain:
    """Give the domain of so many decimals, if there are some and floats can hold them.

    One that is known to be no finer stays.
    """
    if domain.integer and decimals >= domain.decimals:
        return domain
    low, high = domain.bounds
    plain = replace(domain, low=low, high=high, integer=False, decimals=0)
    found = plain.with_decimals(decimals)
    inside = low <= found.bounds[0] <= high
    # Where floats are that far apart they are whole numbers anyway.
    return found if inside and max(-found.low, found.high) < EXACT else domain


def _in_units(
    domain: NumericDomain, column: ColumnLayout, step: float
) -> NumericDomain:
    """Give the domain of times that are multiples of so many seconds."""
    ends = to_wall(np.array([domain.low, domain.high]), column) / step
    return domain.with_step(step, *map(float, np.floor(ends)))


# Periods of steps: of units of time, and of numbers, whose last two digits these are.
_PERIODS = {None: 100, 86_400.0: 7, 3600.0: 24, 60.0: 60, 1.0: 60}
_CYCLES = 10  # that the range of a column must have
# Noise deviations by which what remainders have in common, in even and in odd cycles,
# is more than chance. With 3 those of the longitudes of storms were found in 10 of 15
# draws of the noise, not 13, those of Adult's capital gains in 2, not 8 (epsilon 1).
_ALIKE_FROM = 2.0


def period_of(domain: ColumnDomain | None) -> int:
    """Give the steps after which the numbers of a domain repeat; 0 if they do not."""
    if not isinstance(domain, NumericDomain) or not domain.integer:
        return 0
    if max(-domain.low, domain.high) >= EXACT:  # floats have lost their last digits
        return 0
    period = _PERIODS.get(domain.step, 0)
    return period if domain.n_numbers >= _CYCLES * period else 0


def discover_remainders(
    table: pd.DataFrame | Parts,
    columns: list[ColumnLayout],
    domains: list[NumericDomain],
    accountant: PrivacyAccountant,
    *,
    mu: float,
) -> list[NumericDomain]:
    """Count how often numbers end in each two digits, or fall on each day of a week.

    Even and odd hundreds (or weeks) are counted apart: what they have in common is how
    numbers are written, the rest is where the rows of a column lie. One noisy histogram
    per column, so the sensitivity is the root of the number of columns. Numbers of one
    or two digits are left out, and those out of range.
    """
    cells = [2 * period_of(domain) + 1 for domain in domains]
    codes = Parts.of(table).map(_remainders_of_rows, columns, domains, cells)
    norm = math.sqrt(len(columns))
    line = accountant.reserve_gaussian("remainders", mu=mu, sensitivity=norm)
    released = noisy_histogram(codes, cells, line)
    return [
        replace(domain, remainders=_room(counts[:-1].reshape(2, -1), line.noise_std))
        for domain, counts in zip(domains, released, strict=True)
    ]


def _remainders_of_rows(
    frame: pd.DataFrame,
    columns: list[ColumnLayout],
    domains: list[NumericDomain],
    cells: list[int],
) -> NDArray[np.uint8]:
    """Give the cell of every row in every column; private."""
    codes = np.empty((len(frame), len(columns)), dtype=np.uint8)
    every = enumerate(zip(columns, domains, cells, strict=True))
    for j, (column, domain, n_cells) in every:
        values, missing = wall_values(frame[column.name], column, domain)
        steps, period = domain.whole_steps(values), n_cells // 2
        outside = (steps < domain.low) | (steps > domain.high) | missing
        if domain.step is None:
            steps = np.abs(steps)
            outside |= steps < period
        codes[:, j] = np.where(outside, 2 * period, steps % (2 * period))
    return codes


def _room(counts: Ints, noise_std: float) -> tuple[float, ...]:
    """Give how much room each remainder needs, with a mean of 1; none if all are alike.

    Counts are of even and of odd cycles, (2, period). Those of two digits are estimated
    by the tens times the units, and by what is beside these.
    """
    n_rows, (_, period) = float(counts.sum()), counts.shape
    if n_rows <= 0:
        return ()
    std = max(noise_std, LEAST_NOISE)
    expected = np.full(period, n_rows / period)
    if period == _PERIODS[None]:
        even, digits = np.full(10, n_rows / 10), counts.reshape(2, 10, 10)
        tens = _estimated(digits.sum(axis=2), even, std * math.sqrt(10))
        units = _estimated(digits.sum(axis=1), even, std * math.sqrt(10))
        expected = np.outer(tens, units).ravel() / n_rows
    room = _estimated(counts, expected, std) * (period / n_rows)
    if np.allclose(room, 1.0):
        return ()
    # None must vanish for noise; the marginals say how many rows there are.
    room = np.maximum(room, RARE)
    return tuple((room / room.mean()).tolist())


def _estimated(counts: Ints, expected: Floats, std: float) -> Floats:
    """Give counts of all cycles from noisy ones of even and of odd cycles, (2, n).

    What they differ in is noise, or no matter of cycles. Of what lies beside the
    expected counts, so much is kept as both have in common, and all of what is surely
    in both.
    """
    halves = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    beside = counts - expected * (halves / halves.sum())
    common = float(beside.prod(axis=0).mean())
    chance = std**2 / math.sqrt(counts.shape[1])
    energy = float((beside.mean(axis=0) ** 2).mean())
    kept = min(common / energy, 1.0) if common > _ALIKE_FROM * chance else 0.0
    sure = (np.abs(beside) > LIKELY * std).all(axis=0) & (beside.prod(axis=0) > 0)
    found = expected + np.where(sure, 1.0, kept) * beside.sum(axis=0)
    found = np.maximum(found, 0.0)
    return np.asarray(found * (expected.sum() / max(float(found.sum()), 1e-300)))


# Values of a column that are considered, at most: those of a mean number of rows or
# more, so that the exact counts that are kept are few, whatever the number of rows.
_MOST_SOUGHT = 10_000


def least_count(n_rows: float) -> int:
    """Give the rows that a value must have to be considered at all."""
    return max(math.ceil(n_rows / _MOST_SOUGHT), MIN_KEY_COUNT)


def values_threshold(
    n_columns: int,
    mu: float,
    threshold_delta: float,
    n_rows: float,
    rows_per_unit: int,
) -> float:
    """Give the noisy rows from which a value is found; infinite where none is sought.

    Of so many columns that `discover_values` looks into with this `mu`.
    """
    if n_columns == 0 or mu <= 0:
        return math.inf
    noise_std = grid_noise_std(mu, math.sqrt(n_columns))
    least, most = least_count(n_rows), rows_per_unit
    found = key_threshold(noise_std, threshold_delta, n_columns, least, most)
    return float(found) if found <= FEW * n_rows else math.inf


def discover_values(
    table: pd.DataFrame | Parts,
    columns: list[ColumnLayout],
    domains: list[NumericDomain],
    accountant: PrivacyAccountant,
    *,
    mu: float,
    threshold_delta: float,
    n_rows: float,
) -> list[NumericDomain]:
    """Find the frequent values of numeric columns, and their shares of all rows.

    Kept are those whose noisy count passed a threshold. A row has one value in a column
    at most, so the sensitivity is the root of the number of columns. Values of fewer
    rows than `least_count` are not considered; a first pass over buckets of values
    leaves most of them out, which changes nothing in the result.
    """
    parts, least = Parts.of(table), least_count(n_rows)
    full = parts.total(_bucket_counts, columns, domains) >= least
    of_values = parts.total(_counters, columns, domains, full)
    keys = [sorted(own) for own in of_values]
    counts = [
        clamped_counts(own[key] for key in names)
        for own, names in zip(of_values, keys, strict=True)
    ]
    reservation = accountant.reserve_gaussian(
        "frequent values",
        mu=mu,
        sensitivity=math.sqrt(len(columns)),
        delta=threshold_delta,
    )
    released = thresholded_counts(
        counts, reservation, threshold_delta, lambda: keys, least=least
    )
    found = []
    for domain, names, (kept, noisy) in zip(domains, keys, released, strict=True):
        most = np.sort(np.argsort(-noisy, kind="stable")[:N_CELLS])
        values = tuple(float(names[k]) for k in kept[most])
        shares = tuple((noisy[most] / n_rows).tolist())
        found.append(replace(domain, frequent=tuple(zip(values, shares, strict=True))))
    return found


def _keys(
    frame: pd.DataFrame, columns: list[ColumnLayout], domains: list[NumericDomain]
) -> Iterator[Floats]:
    """Give of each column the values that can be frequent: steps, or floats.

    Left out are missing ones, those out of range, and zeros that are counted anyway.
    """
    for column, domain in zip(columns, domains, strict=True):
        values, missing = wall_values(frame[column.name], column, domain)
        values = domain.whole_steps(values) if domain.integer else values
        inside = (values >= domain.low) & (values <= domain.high) & ~missing
        if domain.zero is not None:
            inside &= values != 0
        yield values[inside] + 0.0


def _buckets(keys: Floats) -> NDArray[np.intp]:
    # Twice as many as can be full, so that in many rows chance fills hardly one.
    return (hash_array(keys) % (2 * _MOST_SOUGHT)).astype(np.intp)


def _bucket_counts(
    frame: pd.DataFrame, columns: list[ColumnLayout], domains: list[NumericDomain]
) -> Ints:
    """Count the rows in every bucket of values; private."""
    every = _keys(frame, columns, domains)
    return np.array(
        [np.bincount(_buckets(keys), minlength=2 * _MOST_SOUGHT) for keys in every]
    )


def _counters(
    frame: pd.DataFrame,
    columns: list[ColumnLayout],
    domains: list[NumericDomain],
    full: NDArray[np.bool_],
) -> list[Counter[float]]:
    """Count the rows of every value in a bucket that is full enough; private."""
    found = []
    for own, keys in zip(full, _keys(frame, columns, domains), strict=True):
        chosen = keys[own[_buckets(keys)]]
        values, counts = np.unique(chosen, return_counts=True)
        found.append(Counter(dict(zip(values.tolist(), counts.tolist(), strict=True))))
    return found
