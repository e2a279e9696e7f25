"""Whole numbers that cannot wrap: for how many rows a sum has room, and what then.

An int64 passes 2**63 without a word, and one row more moves it by 2**64. A clamp moves
by no more than what it clamps, so the sensitivity of an exact sum is also that of the
clamped one. It must be the whole sum that is clamped. Where no summand is negative,
every partial sum may be clamped at the same limit L too, since ``min(min(a, L) + b, L)
= min(a + b, L)``: order and parts make no difference. Of summands of both signs a
clamped partial sum forgets how far beyond it was; one row more shifts the others to
other partial sums, and may so change the total by any amount. Such sums are kept in two
halves, which hold any total, and only that is clamped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

# Rows that all statistics have room for; exact counts are clamped to it. It would take
# a core hours to read so many.
MOST_ROWS = 2**40

# Grid cells per clipping norm, or per row: what one row adds to a number at most. So
# MOST_ROWS rows add up to 2**60; the rest of an int64 is for weights and noise.
GRID = 2**20

LARGEST = 2**63 - 1

_HALF = 32  # bits of the lower half of a sum


def saturating_sum(first: Ints, second: Ints) -> Ints:
    """Add two arrays; what passes an end of int64 stays there."""
    with np.errstate(over="ignore"):
        total = np.asarray(first + second)
    # Two numbers of one sign, and their sum has the other.
    wrapped = ((first ^ total) & (second ^ total)) < 0
    return np.where(wrapped, np.where(first < 0, -LARGEST - 1, LARGEST), total)


def clamped_counts(counts: Iterable[int] | Ints) -> Ints:
    """Clamp exact counts to MOST_ROWS, so that a row moves one by 1 or 0."""
    if not isinstance(counts, np.ndarray):  # of any size
        counts = np.array([min(n, MOST_ROWS) for n in counts], dtype=np.int64)
    return np.minimum(counts, MOST_ROWS)


def halves(sums: Any) -> list[Any]:  # noqa: ANN401 - of NumPy or torch
    """Split int64 sums into an upper and a lower half; halves may be added up.

    There is room for 2**31 of them, and for totals below 2**94.
    """
    return [sums >> _HALF, sums & (2**_HALF - 1)]


def clamped_total(sums: Ints) -> Ints:
    """Put sums in two halves, (2, ...), together in Python's integers; clamp them."""
    upper, lower = sums.astype(object)
    exact = (upper << _HALF) + lower
    return np.asarray(np.clip(exact, -LARGEST, LARGEST), dtype=np.int64)
