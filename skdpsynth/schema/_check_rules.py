"""How many rows of a private table break the rules of its schema: for the curator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skdpsynth.schema._dtypes import float_info, is_missing, known_kind
from skdpsynth.schema._rules import Determines, MissingTogether, Ordered, SumOf
from skdpsynth.schema._values import plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.schema._rules import Rule

    Bools = NDArray[np.bool_]

_ROUNDING = 8.0  # machine epsilons, of a sum


def broken(rule: Rule, df: pd.DataFrame) -> tuple[str, int]:
    """Say in words how rows break a rule, and count them."""
    own = [df[name] for name in rule.names]
    listed = ", ".join(map(repr, rule.names))
    if isinstance(rule, Ordered):
        return f"not in the order {listed}: drawn sorted", _unordered(own)
    if isinstance(rule, SumOf):
        parts = ", ".join(map(repr, rule.parts))
        return f"{rule.total!r} is not the sum of {parts}: computed", _unsummed(own)
    if isinstance(rule, Determines):
        words = f"{rule.decided!r} is not what {rule.deciding!r} decides: looked up"
        return words, _undecided(rule, *own)
    assert isinstance(rule, MissingTogether)
    missing = np.array([is_missing(series) for series in own])
    some = missing.any(axis=0) & ~missing.all(axis=0)
    return f"missing in some of {listed} only: drawn together", int(some.sum())


def _unordered(own: list[pd.Series]) -> int:
    values = np.array([_numbers(series) for series in own])
    so_far = np.fmax.accumulate(values, axis=0)
    return int((so_far > values).any(axis=0).sum())


def _unsummed(own: list[pd.Series]) -> int:
    """Count totals that are no sums, up to rounding, or not missing with a part."""
    total, *parts = (_numbers(series) for series in own)
    exact = max(float(float_info(series.dtype).eps) for series in own)
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(total) + np.sum(np.abs(parts), axis=0)
        off = np.abs(total - np.sum(parts, axis=0)) > _ROUNDING * exact * size
    gone = np.isnan(parts).any(axis=0)
    return int((off | (gone != np.isnan(total))).sum())


def _undecided(rule: Determines, deciding: pd.Series, decided: pd.Series) -> int:
    """Count values that are not those of the table; not of levels nobody declared."""
    gone, known = is_missing(deciding), np.zeros(len(deciding), dtype=bool)
    expected: list[Any] = [None] * len(deciding)
    for row in np.flatnonzero(~gone):
        key = plain(deciding.iloc[row])
        if key in rule.table:
            known[row], expected[row] = True, rule.table[key]
    absent = is_missing(decided)
    kind, _ = known_kind(None, decided.dtype)
    if kind in ("continuous", "timedelta"):
        dtype = float_info(decided.dtype).dtype
        numbers = np.array([np.nan if v is None else v for v in expected], dtype=float)
        same = numbers.astype(dtype) == _numbers(decided).astype(dtype)
    else:
        given = decided.astype(object)
        values = (
            None if off else plain(v) for v, off in zip(given, absent, strict=True)
        )
        same = np.array([v == e for v, e in zip(values, expected, strict=True)], bool)
    return int(((known & ~(same & ~absent)) | (gone & ~absent)).sum())


def _numbers(series: pd.Series) -> NDArray[np.float64]:
    """Return numbers or times as floats, and NaN where one is missing."""
    missing = is_missing(series)
    present: Any = series[~missing]
    kind, _ = known_kind(None, series.dtype)
    if kind == "datetime":
        moments = pd.DatetimeIndex(present)
        zoned = moments.tz_localize("UTC") if moments.tz is None else moments
        present = zoned.as_unit("us").asi8
    elif kind == "timedelta":
        present = present.dt.total_seconds()
    values = np.full(len(series), np.nan)
    values[~missing] = np.asarray(present, dtype=np.float64)
    return values
