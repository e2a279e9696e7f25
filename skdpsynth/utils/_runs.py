"""Work that takes long: finished runs, memory, threads, and rows in chunks."""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import sys
import tempfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from skdpsynth.utils._files import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray


class RunFolder:
    """One JSON file per run, found by its name and its key, and never half written."""

    def __init__(self, path: str | os.PathLike[str], readme: str) -> None:
        self._path = Path(path)
        self._path.mkdir(parents=True, exist_ok=True)
        (self._path / "README.txt").write_text(readme, encoding="utf-8")

    def read(self, name: str, key: list[Any]) -> Any:  # noqa: ANN401 - JSON
        """Return what was written; None if there is no whole file of it."""
        digest = _digest(key)
        try:
            text = self._file(name, digest).read_text(encoding="utf-8")
            document = json.loads(text)
            return document["run"] if document["key"] == digest else None
        except (OSError, *DAMAGED):
            return None  # absent, torn or of another kind: the run is made again

    def write(self, name: str, key: list[Any], content: object) -> None:
        """Keep the result of a run."""
        digest = _digest(key)
        handle, draft = tempfile.mkstemp(dir=self._path, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"key": digest, "run": content}, file)
            os.replace(draft, self._file(name, digest))
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise

    def _file(self, name: str, digest: str) -> Path:
        return self._path / f"{name}-{digest[:16]}.json"


def _digest(key: list[Any]) -> str:
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()


class PeakMemory:
    """Measures the peak of this process's memory above the start, in `megabytes`.

    On Linux freed memory is given back first and the earlier peak forgotten. Elsewhere
    a run that needs less than an earlier one shows 0.
    """

    def __enter__(self) -> Self:
        # malloc_trim(3) of glibc; another C library, or Windows, has none.
        with suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
        with suppress(OSError):  # Linux begins anew; see proc(5)
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._start, self.megabytes = peak_megabytes(), math.nan
        return self

    def __exit__(self, *error: object) -> None:
        self.megabytes = max(peak_megabytes() - self._start, 0.0)


def peak_megabytes() -> float:
    """Return the peak since the process began, or since it was last forgotten."""
    # Not ru_maxrss on Linux: it starts at the size of the parent process.
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(li.split()[1]) / 2**10 for li in lines if "VmHWM" in li)
    try:
        import resource
    except ImportError:  # Windows
        return math.nan
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


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
