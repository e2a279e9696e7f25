"""Rows of one unit of privacy, such as a person: so many of them take part at most.

Which rows of a unit take part depends on the rows of that unit alone, and on a secret
of the fit: those with the smallest keyed hashes of all their cells, but of identifiers
and texts; rows that are equal are numbered, and the number is hashed too. So a unit
that comes or goes changes nothing of others, and the choice is the same on every pass
and in every part, also of rows that are put in another order.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from skdpsynth.privacy import LocalParts, Parts, changed_parts, secret_generator
from skdpsynth.schema import is_missing, plain
from skdpsynth.table._layout import factorize, is_read, ticks_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from skdpsynth.schema import TableSchema

    Words = NDArray[np.uint64]

# Files that the keys of rows are kept in, by the keys of their units: one at a time is
# in memory, so the peak is a small part of all keys.
_N_FILES = 64
_ROW_BITS = 40  # of the place of a row: its number within a part
_NONE = np.array([[0, 1]], dtype=np.uint64)  # words of a missing cell
_BYTES = 16  # of the digest of a text: two texts have one with probability 2^-128


class Limited(NamedTuple):
    """Rows that take part in a fit; private.

    `sizes` has a number of each unit: 0 if it has one row, 1 if it has two, and so on;
    `max_rows_per_unit` if it has more rows than take part. None where that is one row,
    or a row is the unit.
    """

    rows: pd.DataFrame | Parts
    sizes: Parts | None = None


def limit_rows(table: pd.DataFrame | Parts, schema: TableSchema | None) -> Limited:
    """Leave out rows beyond the limit of their unit, and rows of no unit.

    Of a table that is read in parts a bit per row stays in memory; one of Dask has all
    rows of a unit in one part. Without a `privacy_unit` all rows stay.
    """
    if schema is None or schema.privacy_unit is None:
        return Limited(table)
    secret, most = secret_generator().bytes(_BYTES), int(schema.max_rows_per_unit or 0)
    what = schema, secret
    rows: pd.DataFrame | Parts
    if isinstance(table, pd.DataFrame):
        kept, n_rows = _alone(table, *what, most)
        rows, sizes = table[kept].reset_index(drop=True), Parts.of(n_rows)
    elif isinstance(table, LocalParts):
        masks, found = _masks(table, *what, most)
        rows, sizes = table.thinned(_kept, masks), Parts.of(found)
    else:
        rows = table.map(_kept_alone, *what, most)
        sizes = table.map(_sizes_alone, *what, most)
    return Limited(rows, sizes if most > 1 else None)


def with_unit_places(frame: pd.DataFrame, unit: Hashable, place: int) -> pd.DataFrame:
    """Add a column, `place`, that is equal for all rows of a unit; private.

    Rows of no unit, which may be many, are spread.
    """
    words = _words(frame[unit], b"")[:, 0].view(np.int64)
    words = np.where(is_missing(frame[unit]), np.arange(len(frame)), words)
    return pd.concat([frame, pd.Series(words, frame.index, name=place)], axis=1)


def _alone(
    frame: pd.DataFrame, schema: TableSchema, secret: bytes, most: int
) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Say which rows of whole units take part, and give the sizes of the units."""
    keys = _keys(frame, schema, secret)
    places = keys[:, 3].astype(np.int64)
    first, sizes = _first(keys, most)
    mask = np.zeros(len(frame), dtype=bool)
    mask[places[first]] = True
    return mask, sizes


def _kept_alone(
    frame: pd.DataFrame, schema: TableSchema, secret: bytes, most: int
) -> pd.DataFrame:
    return frame[_alone(frame, schema, secret, most)[0]].reset_index(drop=True)


def _sizes_alone(
    frame: pd.DataFrame, schema: TableSchema, secret: bytes, most: int
) -> NDArray[np.intp]:
    return _alone(frame, schema, secret, most)[1]


def _kept(number: int, frame: pd.DataFrame, masks: list[NDArray[Any]]) -> pd.DataFrame:
    bits = masks[number]
    if len(bits) != (len(frame) + 7) // 8:
        raise changed_parts()
    mask = np.unpackbits(bits, count=len(frame)).view(bool)
    return frame[mask].reset_index(drop=True)


def _masks(
    parts: Parts, schema: TableSchema, secret: bytes, most: int
) -> tuple[list[NDArray[np.uint8]], NDArray[np.int32]]:
    """Give a bit per row of each part, if it takes part, and the sizes of units."""
    files: list[Any] = [tempfile.TemporaryFile() for _ in range(_N_FILES)]  # noqa: SIM115
    try:
        masks, sizes = [], []
        for number, keys in enumerate(parts.map(_keys_and_size, schema, secret).each()):
            keys, n_rows = keys
            masks.append(np.zeros(n_rows, dtype=bool))
            keys[:, 3] |= np.uint64(number << _ROW_BITS)
            of_file = (keys[:, 0] % np.uint64(_N_FILES)).astype(np.intp)
            keys = keys[np.argsort(of_file, kind="stable")]
            ends = np.cumsum(np.bincount(of_file, minlength=_N_FILES))
            for file, own in zip(files, np.split(keys, ends[:-1]), strict=True):
                file.write(own.tobytes())
        for file in files:
            file.seek(0)
            keys = np.frombuffer(file.read(), dtype=np.uint64).reshape(-1, 4)
            first, own_sizes = _first(keys, most)
            sizes.append(own_sizes.astype(np.int32))
            places = keys[first, 3].astype(np.int64)
            numbers, rows = places >> _ROW_BITS, places & (2**_ROW_BITS - 1)
            order = np.argsort(numbers, kind="stable")
            numbers, rows = numbers[order], rows[order]
            for number in np.unique(numbers).tolist():
                begin, end = np.searchsorted(numbers, [number, number + 1])
                masks[number][rows[begin:end]] = True
    finally:
        for file in files:
            file.close()
    return [np.packbits(mask) for mask in masks], np.concatenate(sizes)


def _keys_and_size(
    frame: pd.DataFrame, schema: TableSchema, secret: bytes
) -> tuple[Words, int]:
    return _keys(frame, schema, secret), len(frame)


def _first(keys: Words, most: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Give the rows, of `_keys`, that are among the first of their unit, and sizes.

    Equal rows of a unit have one hash; with their number among themselves each has its
    own, so that a row is as likely as any other.
    """
    units = [keys[:, 1], keys[:, 0]]
    order = np.lexsort((keys[:, 2], *units))
    number = _places_in_runs(keys[order, :3]).astype(np.uint64)
    hashes = np.empty(len(keys), dtype=np.uint64)
    hashes[order] = _mixed(keys[order, 2] + _mixed(number + np.uint64(1)))
    order = np.lexsort((hashes, *units))
    places = _places_in_runs(keys[order, :2])
    last = np.ones(len(places), dtype=bool)
    last[:-1] = places[1:] == 0
    return order[places < most], np.minimum(places[last], most)


def _places_in_runs(rows: Words) -> NDArray[np.intp]:
    """Give the rows of each run of equal rows numbers, from 0."""
    begins = np.ones(len(rows), dtype=bool)
    begins[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    places = np.arange(len(rows))
    return places - np.maximum.accumulate(np.where(begins, places, 0))


def _keys(frame: pd.DataFrame, schema: TableSchema, secret: bytes) -> Words:
    """Give of each row that has a unit: its key, in two words, a hash, and its place.

    The hash is of all cells of the row that are read.
    """
    unit = schema.privacy_unit
    places = np.flatnonzero(~is_missing(frame[unit]))
    found = np.empty((len(places), 4), dtype=np.uint64)
    found[:, :2] = _words(frame[unit], secret)[places]
    hashes = np.zeros(len(frame), dtype=np.uint64)
    for number, name in enumerate(frame.columns):
        if is_read(name, schema):
            own = secret + number.to_bytes(4, "little")
            first, second = _words(frame[name], own).T
            hashes = _mixed(hashes ^ first ^ _mixed(second))
    found[:, 2], found[:, 3] = hashes[places], places
    return found


def _words(series: pd.Series, secret: bytes) -> Words:
    """Give two words per cell, equal for equal cells and, but by chance, no others.

    They depend on that cell alone. A number is mixed in a way that can be undone, so
    that no two have the same words; a text has a digest of 128 bits.
    """
    if isinstance(series.dtype, pd.CategoricalDtype):
        listed = pd.Series(series.cat.categories)
        listed = listed if _kind(listed) == "M" else listed.astype(object)
        return np.vstack((_words(listed, secret), _NONE))[series.cat.codes]
    key = hashlib.blake2b(secret, digest_size=32).digest()
    words = np.zeros((len(series), 2), dtype=np.uint64)
    missing = is_missing(series)
    if _kind(series) not in "biufmM":
        codes, texts = _texts(series, ~missing)
        digests = [
            hashlib.blake2b(
                text.encode("utf-8", "surrogatepass"), digest_size=_BYTES, key=key
            ).digest()
            for text in texts
        ]
        table = np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)
        words[~missing] = table[codes[~missing]]
    else:
        bits, words[:, 1] = _bits(series)
        words[:, 0] = _mixed(bits ^ np.frombuffer(key[:8], np.uint64)[0])
    words[missing] = _NONE
    return words


def _texts(
    series: pd.Series, present: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], list[str]]:
    """Give codes of the cells, of any number where one is missing, and texts of these.

    The text of a cell is a function of the cell: objects that are equal, such as 1 and
    True, must not have that of the one which comes first.
    """
    if isinstance(series.dtype, pd.ArrowDtype):
        codes, values = factorize(series)
        return codes, [*map(_text, values)]
    codes = np.full(len(series), -1, dtype=np.int64)
    code_of: defaultdict[str, int] = defaultdict(count().__next__)
    cells = map(_text, series.to_numpy(dtype=object)[present])
    codes[present] = np.fromiter(map(code_of.__getitem__, cells), dtype=np.int64)
    return codes, list(code_of)


def _text(value: Any) -> str:  # noqa: ANN401 - any cell
    """Write a cell; the numbers 7 and 7.0 and the text "7" are the same."""
    value = plain(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def _kind(series: pd.Series) -> str:
    """Give the kind of the cells as NumPy has it; "O" where a text is made of each."""
    dtype = series.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return dtype.numpy_dtype.kind
    return str(dtype.kind)


def _bits(series: pd.Series) -> tuple[Words, Any]:
    """Give the 64 bits of each number, truth value or time, and a mark of its own kind.

    Floats that are whole numbers have the bits of these, and others the mark 2.
    """
    kind = _kind(series)
    if kind in "Mm":
        return ticks_of(series)[0].view(np.uint64), 0
    if kind == "f":
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        whole = (np.abs(values) < 2.0**63) & (values == np.rint(values))
        bits = values.view(np.uint64).copy()
        bits[whole] = values[whole].astype(np.int64).view(np.uint64)
        return bits, np.where(whole, 0, 2)
    dtype = np.uint64 if kind == "u" else np.int64
    if isinstance(series.dtype, np.dtype):
        return series.to_numpy(dtype).view(np.uint64), 0
    blank = False if kind == "b" else 0
    return series.to_numpy(dtype, na_value=blank).view(np.uint64), 0


def _mixed(words: Words) -> Words:
    """Mix the bits of each word, one to one (Steele, Lea, Flood 2014: SplitMix64)."""
    words = words ^ (words >> np.uint64(30))
    words = words * np.uint64(0xBF58476D1CE4E5B9)
    words = words ^ (words >> np.uint64(27))
    words = words * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))
