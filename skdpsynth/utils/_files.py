"""Names of files, JSON that a stranger may have written, and errors about cells.

Schemas, saved synthesizers and kept runs are parsed here alone. Values take up to some
thirty times the bytes of their text: an empty object of two characters is 64 bytes.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skdpsynth.exceptions import SkdpsynthError
from skdpsynth.utils._numbers import require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # as Arrow calls them

#: What values of other types or ranges than expected make Python raise.
DAMAGED = (
    *(ArithmeticError, AttributeError, LookupError, NotImplementedError),
    *(RecursionError, TypeError, ValueError),
)
#: Of a text, in bytes: the metadata of 100,000 columns, or a million categories.
MAX_BYTES = 2**25
_TOO_LONG = f"more than {MAX_BYTES:,} bytes"
#: Of shares that add up to 1, in single precision.
ROUNDING = 1e-3
#: Names, columns or classes that a text or a picture lists; more are counted.
MOST_SHOWN = 12
#: Values of a number that can have a cell each, and that a picture has bins for; the
#: days of a month are.
FEW_NUMBERS = 32
#: Characters of a line; a word that is printed from a file has no more.
WIDTH = 88
#: By which rounding may take a sum of doubles past its limit, as a share of it.
EXCESS = 1e-12


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a text in UTF-8, no more than `parse_json` takes, whatever the file is."""
    data = bytearray()
    with open(path, "rb") as file:
        # A pipe does not know its size, and a read of the limit would reserve it all.
        while piece := file.read1():
            data += piece
            require(len(data) <= MAX_BYTES, _TOO_LONG)
    return data.decode("utf-8-sig")


def parse_json(text: str) -> Any:  # noqa: ANN401 - JSON
    """Parse JSON strictly: what two readers could read in two ways is refused."""
    require(len(text) <= MAX_BYTES, _TOO_LONG)
    return json.loads(
        text,
        object_pairs_hook=_distinct,
        parse_constant=_finite,
        parse_float=_finite,
        parse_int=_whole,
    )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    require(len(parsed) == len(pairs), "a key that comes twice")
    return parsed


def _finite(text: str) -> float:
    value = float(text)
    require(math.isfinite(value), "a number that is not finite")
    return value


def _whole(text: str) -> int:
    _finite(text)
    return int(text)


def compression_of(path: Path) -> str | None:
    """Return how a file is compressed, or None."""
    return _COMPRESSIONS.get(path.suffix.lower())


def is_csv(path: Path) -> bool:
    """Return whether a file is a CSV file, maybe a compressed one."""
    name = path.with_suffix("") if compression_of(path) else path
    return name.suffix.lower() in (".csv", ".tsv")


def check_new(path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Raise a FileExistsError for a file that is there, and is not to be replaced."""
    if not overwrite and os.path.isfile(path):
        raise FileExistsError(
            "Expected the name of a new file, since a file that is replaced may have"
            f" cost a budget. Got {os.fspath(path)!r}; name another, or add"
            " overwrite=True."
        )


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield where to write a file, which is moved to its place once it is whole.

    Of two writers of one place the last one wins; an error leaves nothing.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        part = Path(folder) / path.name
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())  # before the name points to it
        os.replace(part, path)


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
