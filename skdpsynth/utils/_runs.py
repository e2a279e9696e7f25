"""Work that takes long: threads, and rows in chunks."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray


#: So few that what is computed of them stays in cache.
CHUNK_ROWS = 2**13


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
