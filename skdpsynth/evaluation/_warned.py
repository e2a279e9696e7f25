"""Collects the warnings of a run, also where several run in threads."""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_lock = threading.Lock()
_of_thread = threading.local()
_running = 0
_outside: Any = None


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect category and text of this thread's warnings, each once, instead.

    `warnings.catch_warnings` alone may leave its own state behind when blocks of two
    threads overlap: here the first that enters changes the state of the process, and
    the last that leaves restores it.
    """
    global _running, _outside
    with _lock:
        if _running == 0:
            _outside = warnings.catch_warnings()
            _outside.__enter__()
            warnings.simplefilter("always")
            warnings.showwarning = _note  # type: ignore[assignment]
        _running += 1
    found: list[str] = []
    _of_thread.texts = found
    try:
        yield found
    finally:
        del _of_thread.texts
        with _lock:
            _running -= 1
            if _running == 0:
                _outside.__exit__(None, None, None)


def _note(message: Warning | str, category: type[Warning], *_: object) -> None:
    """Take the place of `warnings.showwarning`."""
    texts = getattr(_of_thread, "texts", None)
    text = f"{category.__name__}: {message}"
    if texts is not None and text not in texts:
        texts.append(text)
