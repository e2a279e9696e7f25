"""Synthetic rows in units, such as the visits of a patient: post-processing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.table import Units

    Ints = NDArray[np.intp]


def in_units(
    rows: pd.DataFrame, units: Units, rng: np.random.Generator
) -> tuple[pd.DataFrame, Ints]:
    """Put drawn rows in units; return them, unit by unit, and the unit of each."""
    # How many rows a unit has is drawn from the released numbers; the last one has the
    # rest. Rows that agree, or nearly, in the constant columns become one unit.
    n_rows = len(rows)
    sizes = 1 + rng.choice(len(units.shares), n_rows, p=units.shares)
    ends = np.cumsum(sizes)
    sizes = sizes[: np.searchsorted(ends, n_rows) + 1]
    sizes[-1] -= sizes.sum() - n_rows
    keys = [_places(rows[name]) for name in units.constant]
    # Columns of few values first: what is nearly equal is so in the last ones.
    keys.sort(key=lambda own: int(own.max(initial=0)), reverse=True)
    order = rng.permutation(n_rows)
    if keys:
        order = order[np.lexsort([own[order] for own in keys])]
    unit = np.repeat(rng.permutation(len(sizes)), sizes)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = rows.take(order)
    place_of = dict(zip(found.columns, range(found.shape[1]), strict=True))
    for name in units.constant:
        place = place_of[name]
        values = found.iloc[:, place].take(first).set_axis(found.index)
        found.isetitem(place, values)
    by_unit = np.argsort(unit, kind="stable")
    return found.take(by_unit).reset_index(drop=True), unit[by_unit]


def _places(column: pd.Series) -> Ints:
    """Give the places of values among those of a column, numbers and times in order."""
    ordered = not pd.api.types.is_object_dtype(column.dtype)
    codes, _ = pd.factorize(column, sort=ordered)
    return np.asarray(codes, dtype=np.intp)
