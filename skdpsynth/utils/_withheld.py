"""Errors of other libraries, whose words may hold a value of a private table."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from skdpsynth.exceptions import SkdpsynthError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def withheld(rule: str) -> Iterator[None]:
    """Withhold the words of errors that are not ours: they may hold a value."""
    try:
        yield
    except (SkdpsynthError, OSError):
        raise
    except Exception as error:
        hidden = SkdpsynthError(
            f"{rule}. Got a {type(error).__name__}, whose words may hold a value of the"
            " table and are withheld; take the same step in Python to read them."
        )
        hidden.__notes__ = getattr(error, "__notes__", [])
        raise hidden from None
