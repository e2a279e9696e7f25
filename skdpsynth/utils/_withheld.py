"""Errors of other libraries, whose words may hold a value of a private table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skdpsynth.exceptions import SkdpsynthError

if TYPE_CHECKING:
    from types import TracebackType


class withheld:  # noqa: N801 - reads as a function: `with withheld(rule):`
    """Withhold the words of errors that are not ours: they may hold a value.

    What leaves is one of ours, or an error of the operating system, which names a file.
    It carries no other error and no note, but for `note`, which is ours: Python would
    print, and a pickle or a worker's traceback send, what hangs on it.
    """

    def __init__(self, rule: str, *, note: str | None = None) -> None:
        self._rule, self._note = rule, note

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            return
        notes = getattr(error, "__notes__", [])
        # Words of ours, or of the operating system about a file, may be shown.
        of_system = isinstance(error, OSError) and error.errno is not None
        shown = of_system or isinstance(error, SkdpsynthError)
        if isinstance(error, Exception) and not shown:
            hidden = SkdpsynthError(
                f"{self._rule}. Got a {type(error).__name__}, whose words may hold a"
                " value of the table and are withheld; take the same step in Python to"
                " read them."
            )
            if self._note is not None and self._note in notes:
                hidden.add_note(self._note)
            try:
                raise hidden
            finally:  # Python has just hung the other one on it
                hidden.__context__ = None
        error.__cause__ = error.__context__ = None
        notes[:] = [note for note in notes if note == self._note]
