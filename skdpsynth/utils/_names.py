"""What the name of a file says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # as Arrow calls them
_CSV = (".csv", ".tsv")


def compression_of(path: Path) -> str | None:
    """Give how a file is compressed, or None."""
    return _COMPRESSIONS.get(path.suffix.lower())


def is_csv(path: Path) -> bool:
    """Tell whether a file is a CSV file, maybe a compressed one."""
    name = path.with_suffix("") if compression_of(path) else path
    return name.suffix.lower() in _CSV
