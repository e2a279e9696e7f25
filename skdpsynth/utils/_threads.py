"""How many threads a computation of NumPy's may use."""

from __future__ import annotations

import os

from joblib import cpu_count


def n_threads() -> int:
    """Give the CPUs of this process, or fewer if OMP_NUM_THREADS says so.

    Libraries that run several processes, such as joblib, set it in each.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return (
        min(int(limit), cpu_count()) if limit.isdigit() and int(limit) else cpu_count()
    )
