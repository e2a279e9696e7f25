"""How finely a column is written: decimals of numbers, units of times.

A float column of prices, or of whole numbers with a missing value, is a comb: between
its teeth there is no row. Where neither dtype nor schema says so, it is bought.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.preprocessing._convert import numeric_values, to_wall
from skdpsynth.privacy import Parts, noisy_histogram
from skdpsynth.schema import (
    EXACT,
    MOST_BOUGHT,
    SECONDS_OF,
    Continuous,
    decimals_of,
    is_date,
)
from skdpsynth.utils import in_chunks

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.preprocessing._domains import NumericDomain
    from skdpsynth.preprocessing._layout import ColumnLayout
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.schema import TableSchema

_N_DECIMALS = MOST_BOUGHT + 1
# Values finer than a grain: so many noise deviations are none, and so small a share is
# rounded to it. What is seen of a grain must be above so many.
_NONE_BELOW, _SEEN_FROM = 4.0, 5.0
_RARE = 0.01


def needs_grain(column: ColumnLayout, schema: TableSchema | None) -> bool:
    """Tell whether neither dtype nor schema says how finely a column is written."""
    if is_date(column.dtype) or column.kind not in (
        "continuous",
        "timedelta",
        "datetime",
    ):
        return False
    spec = None if schema is None else schema.columns.get(column.name)
    if isinstance(spec, Continuous):
        return spec.decimals is None and not spec.integer
    return spec is None


def buy_grains(
    table: pd.DataFrame | Parts,
    columns: list[ColumnLayout],
    domains: list[NumericDomain],
    accountant: PrivacyAccountant,
    *,
    mu: float,
) -> list[NumericDomain]:
    """Put columns on the coarsest grain that their values are multiples of.

    One noisy histogram per column over its grains, from coarse to fine: a value is in
    the cell of the first grain that it is a multiple of, in the next to last one if of
    none, and in the last one if it says nothing: missing, 0, or a time out of range.

    The release has sensitivity ``sqrt(n_columns)``. Domains come back as they were
    where no grain is seen above the noise.
    """
    cells = [
        (len(SECONDS_OF) if column.kind == "datetime" else _N_DECIMALS) + 2
        for column in columns
    ]
    codes = Parts.of(table).map(_grains_of_rows, columns, domains, cells)
    norm = math.sqrt(len(columns))
    reservation = accountant.reserve_gaussian("decimals", mu=mu, sensitivity=norm)
    released = noisy_histogram(codes, cells, reservation)
    found = []
    for column, domain, counts in zip(columns, domains, released, strict=True):
        grain = _coarsest(counts[:-1], reservation.noise_std)
        found.append(domain if grain is None else _on_grain(domain, column, grain))
    return found


def _grains_of_rows(
    frame: pd.DataFrame,
    columns: list[ColumnLayout],
    domains: list[NumericDomain],
    cells: list[int],
) -> NDArray[np.uint8]:
    codes = np.empty((len(frame), len(columns)), dtype=np.uint8)
    for j, (column, domain) in enumerate(zip(columns, domains, strict=True)):
        codes[:, j] = _grain_codes(frame[column.name], column, domain, cells[j])
    return codes


def _grain_codes(
    series: pd.Series, column: ColumnLayout, domain: NumericDomain, n_cells: int
) -> NDArray[np.uint8]:
    values, missing = numeric_values(series, column)
    if column.kind == "datetime":
        # Clocks of pandas 2 break at the ends of the calendar.
        inside = np.clip(values, domain.low, domain.high)
        missing = missing | (inside != values)
        values = to_wall(inside, column)
        codes = np.full(len(values), n_cells - 2)
        for code, step in reversed(list(enumerate(SECONDS_OF.values()))):
            codes[values % step == 0.0] = code
    else:
        storage = getattr(column.dtype, "numpy_dtype", column.dtype)
        double = np.finfo(np.float64).eps  # what values were turned to
        own = np.finfo(storage).eps if storage.kind == "f" else double
        codes = np.empty(len(values), dtype=np.uint8)
        for rows in in_chunks(len(values)):
            written = decimals_of(values[rows], float(max(own, double)), MOST_BOUGHT)
            codes[rows] = written
        missing = missing | (values == 0.0)
    codes[missing] = n_cells - 1
    return codes.astype(np.uint8)


def _coarsest(counts: NDArray[np.int64], noise_std: float) -> int | None:
    """Read the grain off noisy counts; the last of them is of finer values."""
    seen = np.cumsum(counts)
    for grain in range(len(counts) - 1):
        finer, n_finer = seen[-1] - seen[grain], len(counts) - 1 - grain
        none = max(_NONE_BELOW * noise_std * math.sqrt(n_finer), _RARE * seen[-1])
        if finer <= none and seen[grain] > _SEEN_FROM * noise_std * len(counts) ** 0.5:
            return grain
    return None


def _on_grain(domain: NumericDomain, column: ColumnLayout, grain: int) -> NumericDomain:
    if column.kind != "datetime":
        found = domain.with_decimals(grain)
        inside = domain.low <= found.low / 10.0**grain <= domain.high
        # Where floats are that far apart they are whole numbers anyway.
        return found if inside and max(-found.low, found.high) < EXACT else domain
    step = list(SECONDS_OF.values())[grain]
    ends = to_wall(np.array([domain.low, domain.high]), column) / step
    return domain.with_step(step, *map(float, np.floor(ends)))
