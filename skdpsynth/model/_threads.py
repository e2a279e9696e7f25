"""One thread for many small products."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

import threadpoolctl

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK, _LIMITS = Lock(), list[threadpoolctl.threadpool_limits]()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit NumPy to one thread inside the block, in this thread and all others.

    Threads that wait for each other at every product gain up to a third where cores
    are idle (two threads, 6 to 60 columns), and take four times as long where they are
    not, as in a container whose share of the cores is less than their number. Builds
    of NumPy whose threads threadpoolctl cannot limit keep them (Accelerate).
    """
    with _LOCK:
        _LIMITS.append(threadpoolctl.threadpool_limits(1, user_api="blas"))
        _let_others_limit()
    try:
        yield
    finally:
        with _LOCK:  # of several fits at the same time the last one has the first limit
            _LIMITS.pop().restore_original_limits()
            _let_others_limit()


def _let_others_limit() -> None:
    """Since threadpoolctl 3.8 the first thread that sets a limit is the only one."""
    openblas = threadpoolctl.OpenBLASController
    if hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread()
