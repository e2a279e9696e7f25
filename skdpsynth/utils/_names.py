"""What the name of a file says of it, and whether it is free."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # as Arrow calls them
_CSV = (".csv", ".tsv")


def compression_of(path: Path) -> str | None:
    """Return how a file is compressed, or None."""
    return _COMPRESSIONS.get(path.suffix.lower())


def is_csv(path: Path) -> bool:
    """Return whether a file is a CSV file, maybe a compressed one."""
    name = path.with_suffix("") if compression_of(path) else path
    return name.suffix.lower() in _CSV


def check_new(path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Raise a FileExistsError for a file that is there, and is not to be replaced."""
    if not overwrite and os.path.isfile(path):
        raise FileExistsError(
            "Expected the name of a new file, since a file that is replaced may have"
            f" cost a budget. Got {os.fspath(path)!r}; name another, or add"
            " overwrite=True."
        )
