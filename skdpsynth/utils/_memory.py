"""How much memory a block of code needs."""

from __future__ import annotations

import ctypes
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

_PROCESS = Path("/proc/self")


class PeakMemory:
    """Measures the peak of this process's memory above the start, in `megabytes`.

    On Linux freed memory is given back first and the earlier peak forgotten. Elsewhere
    a run that needs less than an earlier one shows 0.
    """

    def __enter__(self) -> Self:
        _give_back()
        self._forgot = _forget_peak()
        self._start = _megabytes("VmRSS") if self._forgot else peak_megabytes()
        self.megabytes = math.nan
        return self

    def __exit__(self, *error: object) -> None:
        self.megabytes = max(peak_megabytes() - self._start, 0.0)


def _give_back() -> None:
    """Let the C library hand back what is free; see malloc_trim(3) of glibc."""
    # Another C library, or Windows, has none.
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _forget_peak() -> bool:
    """Ask Linux to start the peak anew; see proc(5), clear_refs."""
    try:
        (_PROCESS / "clear_refs").write_text("5", encoding="ascii")
        return _megabytes("VmHWM") > 0
    except OSError:
        return False


def _megabytes(field: str) -> float:
    for line in (_PROCESS / "status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return float(line.split()[1]) / 1024
    return math.nan


def peak_megabytes() -> float:
    """Give the peak since the process began, or since it was last forgotten."""
    with suppress(OSError):  # ru_maxrss starts at the size of the parent process
        return _megabytes("VmHWM")
    try:
        import resource
    except ImportError:  # Windows
        return math.nan
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
