"""How finely a column is written: decimals of numbers, units of times.

A float column of prices, or of whole numbers with a missing value, is a comb: between
its teeth there is no row. Where neither dtype nor schema says so, it is bought.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.preprocessing._convert import numeric_values, to_wall
from skdpsynth.privacy._aggregators import noisy_histogram
from skdpsynth.schema import Continuous
from skdpsynth.schema._columns import EXACT, SECONDS_OF

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.preprocessing._domains import NumericDomain
    from skdpsynth.preprocessing._layout import ColumnLayout
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.schema import TableSchema

_DECIMALS = range(5)
_FINEST = 4.0  # roundings of the dtype that a value may be off its decimals
# Values finer than a grain: so many noise deviations are none, and so small a share is
# rounded to it. What is seen of a grain must be above so many.
_NONE_BELOW, _SEEN_FROM = 3.0, 5.0
_RARE = 0.01


def needs_grain(column: ColumnLayout, schema: TableSchema | None) -> bool:
    """Tell whether neither dtype nor schema says how finely a column is written."""
    if column.kind not in ("continuous", "timedelta", "datetime"):
        return False
    spec = None if schema is None else schema.columns.get(column.name)
    if isinstance(spec, Continuous):
        return spec.decimals is None and not spec.integer
    return spec is None


def buy_grains(
    frame: pd.DataFrame,
    columns: list[ColumnLayout],
    domains: list[NumericDomain],
    accountant: PrivacyAccountant,
    *,
    mu: float,
) -> list[NumericDomain]:
    """Put columns on the coarsest grain that their values are multiples of.

    One noisy histogram per column over its grains, from coarse to fine: a value is in
    the cell of the first grain that it is a multiple of, in the next to last one if of
    none, and in the last one if it is missing, or 0 and so says nothing.

    Parameters
    ----------
    frame : DataFrame
        The private rows.
    columns, domains : list
        Those of `needs_grain`.
    accountant : PrivacyAccountant
        Pays for one release of sensitivity ``sqrt(n_columns)``.
    mu : float
        Its Gaussian-DP parameter.

    Returns
    -------
    list of NumericDomain
        As they came where no grain is seen above the noise.
    """
    cells = [
        len(SECONDS_OF if column.kind == "datetime" else _DECIMALS) + 2
        for column in columns
    ]
    codes = np.empty((len(frame), len(columns)), dtype=np.uint8)
    for position, column in enumerate(columns):
        codes[:, position] = _grain_codes(frame[column.name], column, cells[position])
    reservation = accountant.reserve_gaussian(
        "decimals", mu=mu, sensitivity=math.sqrt(len(columns))
    )
    released = noisy_histogram(codes, cells, reservation)
    found = []
    for column, domain, counts in zip(columns, domains, released, strict=True):
        grain = _coarsest(counts[:-1], reservation.noise_std)
        found.append(domain if grain is None else _on_grain(domain, column, grain))
    return found


def _grain_codes(
    series: pd.Series, column: ColumnLayout, n_cells: int
) -> NDArray[np.uint8]:
    values, missing = numeric_values(series, column)
    codes = np.full(len(values), n_cells - 2, dtype=np.uint8)
    if column.kind == "datetime":
        values = to_wall(values, column)
        steps = list(SECONDS_OF.values())
        multiples = [values % step == 0.0 for step in steps]
    else:
        storage = getattr(column.dtype, "numpy_dtype", column.dtype)
        exact = np.finfo(storage if storage.kind == "f" else np.float64).eps
        scaled = [values * 10.0**decimals for decimals in _DECIMALS]
        multiples = [
            np.abs(part - np.rint(part)) <= _FINEST * exact * np.abs(part)
            for part in scaled
        ]
        missing = missing | (values == 0.0)
    for code, multiple in reversed(list(enumerate(multiples))):
        codes[multiple] = code
    codes[missing] = n_cells - 1
    return codes


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
        # Where floats are that far apart they are whole numbers anyway.
        exact = max(-domain.low, domain.high) * 10**grain < EXACT
        return domain.with_decimals(grain) if exact else domain
    step = list(SECONDS_OF.values())[grain]
    ends = to_wall(np.array([domain.low, domain.high]), column) / step
    low, high = map(float, np.floor(ends))
    return replace(domain, low=low, high=high, integer=True, step=step)
