"""Rows by class, and rows in chunks."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def in_chunks(n_rows: int, step: int = 2**13) -> Iterator[slice]:
    """Cut rows into slices so short that what is computed of them stays in cache."""
    return (slice(at, min(at + step, n_rows)) for at in range(0, n_rows, step))


def in_order_of_class(
    members: NDArray[np.int64], n_classes: int
) -> tuple[NDArray[np.intp], list[slice]]:
    """Give an order of the rows by class, and where in it each class stands."""
    # Of small integers the stable order is found in time linear in the rows.
    small = members.astype(np.int16) if n_classes < 2**15 else members
    ends = np.cumsum(np.bincount(members, minlength=n_classes)).tolist()
    places = [slice(*ends_of) for ends_of in pairwise([0, *ends])]
    return np.argsort(small, kind="stable"), places
