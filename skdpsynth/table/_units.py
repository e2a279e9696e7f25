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
from collections.abc import Collection, Hashable
from contextlib import ExitStack
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdpsynth.privacy import LocalParts, Parts, changed_parts, secret_generator
from skdpsynth.schema import TableSchema
from skdpsynth.table._layout import coded, is_read, ticks_of
from skdpsynth.utils.arrays import Ints
from skdpsynth.utils.dtypes import is_missing, plain

Words = NDArray[np.uint64]

# Files that the keys of rows are kept in, by the keys of their units: one at a time is
# in memory, so the peak is a small part of all keys.
_N_FILES = 64
_BYTES = np.dtype("u8, u8").itemsize  # of the digest of a text, which is two words


class Limited(NamedTuple):
    """Rows that take part in a fit; private."""

    rows: pd.DataFrame | Parts
    # Of each unit 0 if it has one row, 1 if two, ...; `max_rows_per_unit` if more than
    # take part. None where that is one row, or a row is the unit.
    sizes: Parts | None = None


def limit_rows(table: pd.DataFrame | Parts, schema: TableSchema) -> Limited:
    """Leave out rows beyond the limit of their unit, and rows of no unit."""
    # Of parts a bit per row stays in memory; Dask has all rows of a unit in one part.
    if schema.privacy_unit is None:
        return Limited(table)
    secret, most = secret_generator().bytes(_BYTES), int(schema.max_rows_per_unit or 0)
    what = schema, secret, most
    rows: Any
    sizes: Any
    if isinstance(table, pd.DataFrame):
        rows, sizes = _alone(table, *what)
    elif isinstance(table, LocalParts):
        masks, sizes = _masks(table, *what)
        rows = table.thinned(_kept, masks)
    else:
        both = table.map(_alone, *what)
        rows, sizes = (both.map(itemgetter(place)) for place in (0, 1))
    return Limited(rows, Parts.of(sizes) if most > 1 else None)


def with_unit_places(frame: pd.DataFrame, unit: Hashable, place: int) -> pd.DataFrame:
    """Add a column that is equal for all rows of a unit; rows of none are spread."""
    words = words_of(frame[unit], b"")[:, 0].view(np.int64)
    words = np.where(is_missing(frame[unit]), np.arange(len(frame)), words)
    return pd.concat([frame, pd.Series(words, frame.index, name=place)], axis=1)


def _alone(
    frame: pd.DataFrame, schema: TableSchema, secret: bytes, most: int
) -> tuple[pd.DataFrame, Ints]:
    """Return the rows that take part, of whole units, and the sizes of the units."""
    first, sizes = _first(_keys(frame, schema, secret), most)
    return frame.iloc[np.sort(first)].reset_index(drop=True), sizes


def _kept(number: int, frame: pd.DataFrame, masks: list[NDArray[Any]]) -> pd.DataFrame:
    bits = masks[number]
    if len(bits) != (len(frame) + 7) // 8:
        raise changed_parts()
    mask = np.unpackbits(bits, count=len(frame)).view(bool)
    return frame[mask].reset_index(drop=True)


def _masks(
    parts: Parts, schema: TableSchema, secret: bytes, most: int
) -> tuple[list[NDArray[np.uint8]], NDArray[np.int32]]:
    """Return a bit per row of each part, if it takes part, and the sizes of units."""

    def keyed(frame: pd.DataFrame) -> tuple[Words, int]:
        return _keys(frame, schema, secret), len(frame)

    ends, sizes = [0], []
    with ExitStack() as opened:
        files: list[Any] = [
            opened.enter_context(tempfile.TemporaryFile()) for _ in range(_N_FILES)
        ]
        for keys, n_rows in parts.map(keyed).each():
            keys[:, 3] += np.uint64(ends[-1])
            ends.append(ends[-1] + n_rows)
            of_file = (keys[:, 0] % np.uint64(_N_FILES)).astype(np.intp)
            keys = keys[np.argsort(of_file, kind="stable")]
            cuts = np.cumsum(np.bincount(of_file, minlength=_N_FILES))[:-1]
            for file, own in zip(files, np.split(keys, cuts), strict=True):
                file.write(own.tobytes())
        mask = np.zeros(ends[-1], dtype=bool)
        for file in files:
            file.seek(0)
            keys = np.frombuffer(file.read(), dtype=np.uint64).reshape(-1, 4)
            first, own_sizes = _first(keys, most)
            sizes.append(own_sizes.astype(np.int32))
            mask[first] = True
    masks = [np.packbits(own) for own in np.split(mask, ends[1:-1])]
    return masks, np.concatenate(sizes)


def _first(keys: Words, most: int) -> tuple[Ints, Ints]:
    """Return the places of the rows, of `_keys`, that take part, and sizes of units."""
    rows = pd.DataFrame(keys, columns=["unit", "unit_too", "cells", "place"])
    # Equal rows of a unit have one hash; with their number among themselves each has
    # its own, so that a row is as likely as any other.
    number = rows.groupby(["unit", "unit_too", "cells"], sort=False).cumcount()
    hashes = keys[:, 2] + _mixed(number.to_numpy(np.uint64) + np.uint64(1))
    rows = rows.iloc[np.argsort(_mixed(hashes), kind="stable")]
    of_unit = rows.groupby(["unit", "unit_too"], sort=False)
    first = of_unit["place"].head(most).to_numpy().view(np.int64)
    return first, np.minimum(of_unit.size().to_numpy() - 1, most)


def _keys(frame: pd.DataFrame, schema: TableSchema, secret: bytes) -> Words:
    """Return key of the unit in two words, hash of cells, and place of its rows."""
    unit = frame[schema.privacy_unit]
    hashes = row_hashes(frame, schema, secret)
    places = np.flatnonzero(~is_missing(unit))
    words = words_of(unit, secret)[places]
    return np.column_stack((words, hashes[places], places.view(np.uint64)))


def row_hashes(
    frame: pd.DataFrame,
    schema: TableSchema,
    secret: bytes,
    beside: Collection[Hashable] = (),
) -> NDArray[np.uint64]:
    """Return a keyed hash of the cells of each row that are read, and of some more."""
    hashes = np.zeros(len(frame), dtype=np.uint64)
    for number, name in enumerate(frame.columns):
        if is_read(name, schema) or name in beside:
            own = secret + number.to_bytes(4, "little")
            first, second = words_of(frame[name], own).T
            hashes = _mixed(hashes ^ first ^ _mixed(second))
    return hashes


def words_of(series: pd.Series, secret: bytes) -> Words:
    """Return two words per cell, equal for equal cells and, but by chance, no other."""
    # A number is mixed in a way that can be undone; a text has a digest of 128 bits.
    missing, kind = is_missing(series), series.dtype.kind
    none = np.array([[0, 1]], dtype=np.uint64)  # of a missing cell
    key = hashlib.blake2b(secret, digest_size=32).digest()
    if isinstance(series.dtype, pd.CategoricalDtype):
        listed = pd.Series(series.cat.categories)
        listed = listed if listed.dtype.kind == "M" else listed.astype(object)
        return np.vstack((words_of(listed, secret), none))[series.cat.codes]
    if kind not in "biufmM":
        # A text is a function of its cell: equal objects, such as 1 and True, differ.
        codes, texts = coded(series, ~missing, _text)
        hashes = (hashlib.blake2b(text, digest_size=_BYTES, key=key) for text in texts)
        digests = b"".join(text_hash.digest() for text_hash in hashes)
        words = np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2)
        return np.vstack((words, none))[codes]
    words = np.zeros((len(series), 2), dtype=np.uint64)
    if kind in "Mm":
        bits = ticks_of(series)[0].view(np.uint64)
    elif kind == "f":  # whole numbers have the bits of integers, others the mark 2
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        whole = (np.abs(values) < 2.0**63) & (values == np.rint(values))
        bits = values.view(np.uint64).copy()
        bits[whole] = values[whole].astype(np.int64).view(np.uint64)
        words[:, 1] = np.where(whole, 0, 2)
    else:
        exact = np.uint64 if kind == "u" else np.int64
        bits = series.to_numpy(exact, na_value=0 if kind != "b" else False).view(
            np.uint64
        )
    words[:, 0] = _mixed(bits ^ np.frombuffer(key[:8], np.uint64)[0])
    words[missing] = none
    return words


def _text(value: Any) -> bytes:  # noqa: ANN401 - any cell
    """Write a cell; the numbers 7 and 7.0 and the text "7" are the same."""
    value = plain(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).encode("utf-8", "surrogatepass")


def _mixed(words: Words) -> Words:
    """Mix the bits of each word, one to one (Steele, Lea, Flood 2014: SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = words ^ (words >> np.uint64(shift))
        words *= np.uint64(factor)
    return words ^ (words >> np.uint64(31))
