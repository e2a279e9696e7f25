"""Checks of numbers, and rows in chunks, in order of class and by threads."""

from __future__ import annotations

import math
import os
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

#: So few that what is computed of them stays in cache.
CHUNK_ROWS = 2**13


def check_range(name: str, value: object, holds: bool, expected: str) -> None:
    """Raise a ValueError about a parameter that is out of range."""
    if not holds:
        raise ValueError(f"{name} must be {expected}. Got {value!r} instead.")


def require(fits: object, what: str) -> None:
    """Raise a ValueError about `what` unless something fits."""
    if not fits:
        raise ValueError(what)


def check_array(
    array: Any,  # noqa: ANN401 - of a file
    dtype: str,
    shape: tuple[int, ...],
    least: float = -math.inf,
    most: float = math.inf,
) -> None:
    """Raise a ValueError unless an array is finite, of a dtype, a shape and a range."""
    import numpy as np

    require(dtype in (array.dtype.name, array.dtype.kind), dtype)
    require(array.shape == shape, "an array of another shape")
    inside = np.isfinite(array) & (array >= least) & (array <= most)
    require(inside.all(), "numbers out of range")


def check_groups(groups: Any, n_groups: int) -> None:  # noqa: ANN401
    """Raise a ValueError unless whole numbers rise from 0, and leave none out."""
    import numpy as np

    check_array(groups, "int64", (len(groups),), 0)
    require(groups[0] == 0 and groups[-1] == n_groups - 1, "groups")
    require(np.isin(np.diff(groups), (0, 1)).all(), "groups")


def in_chunks(n_rows: int, step: int = CHUNK_ROWS) -> Iterator[slice]:
    """Cut rows into slices so short that what is computed of them stays in cache."""
    return (slice(at, min(at + step, n_rows)) for at in range(0, n_rows, step))


def in_order_of_class(
    class_codes: NDArray[np.int64], n_classes: int
) -> tuple[NDArray[np.intp], list[slice]]:
    """Sort rows by class code; return the order, and the slice of each class in it."""
    import numpy as np

    # Of small integers the stable order is found in time linear in the rows.
    small = class_codes.astype(np.int16) if n_classes < 2**15 else class_codes
    ends = np.cumsum(np.bincount(class_codes, minlength=n_classes)).tolist()
    places = [slice(*ends_of) for ends_of in pairwise([0, *ends])]
    return np.argsort(small, kind="stable"), places


def n_threads() -> int:
    """Return the CPUs of this process, or OMP_NUM_THREADS if that is fewer."""
    import joblib

    limit, n_cpus = os.environ.get("OMP_NUM_THREADS", ""), joblib.cpu_count()
    return min(int(limit), n_cpus) if limit.isdigit() and int(limit) else n_cpus
