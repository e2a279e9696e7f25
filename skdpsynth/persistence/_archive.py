"""The container: a zip of two stored members that lie side by side, and nothing else.

Nothing is ever extracted, so a member's name leads nowhere; nothing is decompressed, so
a small file stays small; and the sizes must add up to that of the file, so that there
is no room for what `inspect` would not list.
"""

from __future__ import annotations

import os
import secrets
import struct
import zipfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from skdpsynth.exceptions import PersistenceError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ARRAYS", "HEADER", "read_members", "reading", "write_members"]

HEADER, ARRAYS = "synthesizer.json", "arrays.safetensors"
# A header costs some twenty times its size once it is parsed.
MAX_BYTES = {HEADER: 2**25, ARRAYS: 2**30}

# Sizes of zip's records: before each member, in the directory, and at the end.
_LOCAL, _CENTRAL, _END = 30, 46, 22
_MAX_DIRECTORY = 1024
_ZIP64 = b"PK\x06\x07"


class _AbsentFolderError(PersistenceError, FileNotFoundError):
    """A folder to write to that does not exist."""


def write_members(path: str | os.PathLike[str], members: dict[str, bytes]) -> None:
    """Write the two members to a file, which is replaced once all of it is written.

    Parameters
    ----------
    path : path-like
        Where to write.
    members : dict of str to bytes
        `HEADER` and `ARRAYS`.

    Raises
    ------
    PersistenceError
        If a member is larger than a reader accepts, or the folder is absent; then it
        is a FileNotFoundError too.
    """
    for name, data in members.items():
        if len(data) > MAX_BYTES[name]:
            msg = (
                f"Expected at most {MAX_BYTES[name]:,} bytes of {name}. Got "
                f"{len(data):,}; declare fewer categories, or fit fewer columns."
            )
            raise PersistenceError(msg)
    target = os.fspath(path)
    folder = os.path.dirname(target) or os.curdir
    if not os.path.isdir(folder):
        msg = (
            f"Expected a path in a folder that exists. Got {target!r}, and there is no "
            f"folder {folder!r}; make it first by os.makedirs, or save elsewhere."
        )
        raise _AbsentFolderError(msg)
    # A name of its own: two processes may write to one path, and the last one wins.
    partial = f"{target}.{secrets.token_hex(8)}.partial"
    try:
        with open(partial, "xb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name, data in members.items():
                    # Without the date of today: equal synthesizers give equal files.
                    archive.writestr(zipfile.ZipInfo(name), data)
            file.flush()
            os.fsync(file.fileno())  # before the name points to it
        os.replace(partial, target)
    except OSError as error:
        if error.filename == partial:  # a name that the user has never seen
            error.filename = target
            del error.filename2
        raise
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def read_members(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """Read what `write_members` wrote.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    dict of str to bytes
        `HEADER` and `ARRAYS`.

    Raises
    ------
    PersistenceError
        If the file is anything else.
    """
    with reading(), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        _check_end(file, size)
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check_members(members, size)
            return {member.filename: archive.read(member) for member in members}


@contextmanager
def reading() -> Iterator[None]:
    """Turn what a damaged file makes Python raise into a `PersistenceError`.

    Yields
    ------
    None
        For the duration of the reading.

    Raises
    ------
    PersistenceError
        If the file lacks something, or holds something of another type.
    """
    try:
        yield
    except PersistenceError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,  # encrypted, or nested too deeply
        TypeError,
        ValueError,
    ) as error:
        msg = (
            "Expected a file written by save(). This is none, or it is damaged, or "
            "a newer version of skdpsynth wrote it. Save the synthesizer again, or get "
            "the file anew."
        )
        raise PersistenceError(msg) from error


def _check_end(file: IO[bytes], size: int) -> None:
    """Refuse a directory that is not just before the end, or too long, unread."""
    file.seek(max(size - _END - 20, 0))
    tail = file.read()
    found = struct.unpack("<4s4H2LH", tail[-_END:]) if size >= _END else (b"",)
    if found[0] != b"PK\x05\x06":
        msg = "no end of a zip"
        raise ValueError(msg)
    length, start = found[5:7]
    if length > _MAX_DIRECTORY or start + length + _END != size or tail[:4] == _ZIP64:
        msg = "a long directory, or one in another place"
        raise ValueError(msg)
    file.seek(0)


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    names = [member.filename for member in members]
    if sorted(names) != sorted(MAX_BYTES):
        msg = "other members"
        raise ValueError(msg)
    for member in members:
        stored = member.compress_type == zipfile.ZIP_STORED
        if not stored or member.compress_size != member.file_size or member.flag_bits:
            msg = "a member that is not just stored"
            raise ValueError(msg)
        if member.file_size > MAX_BYTES[member.filename]:
            msg = (
                f"Expected at most {MAX_BYTES[member.filename]:,} bytes of "
                f"{member.filename}. Got {member.file_size:,}; do not trust this file."
            )
            raise PersistenceError(msg)
    place = 0  # of the next member, and at last of the directory
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset != place:
            msg = "a member in another place"
            raise ValueError(msg)
        place += _LOCAL + len(member.filename) + member.file_size
    directory = sum(_CENTRAL + len(member.filename) for member in members)
    if place + directory + _END != size:
        msg = "something beside the members"
        raise ValueError(msg)
