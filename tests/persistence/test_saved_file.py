"""A stranger's file: it loads as it was saved, or a `PersistenceError` says why not.

Nothing in it is executed, extracted or decompressed; reading it takes memory in
proportion to its size.
"""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load as arrays_of
from safetensors.numpy import save as bytes_of

from skdpsynth.exceptions import PersistenceError
from skdpsynth.persistence import _archive, _arrays
from skdpsynth.persistence._archive import ARRAYS, HEADER


def packed_as(table: object, numbers: bytes, length: int | None = None) -> bytes:
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + numbers


def test_the_file_is_what_the_tests_take_apart(saved, files):
    """The helpers below make the same bytes from the same parts."""
    _, data = saved
    assert files.zipped(*files.members_of(data).items()) == data
    arrays = files.members_of(data)[ARRAYS]
    assert files.with_arrays(data, bytes_of(arrays_of(arrays))) == data


def test_equal_synthesizers_give_equal_files(saved, tmp_path):
    synth, data = saved
    synth.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == data


# --- The container ----------------------------------------------------------------


def test_two_writers_of_one_path_do_not_mix(saved, tmp_path, monkeypatch):
    """A second save runs to its end while the first is about to be published."""
    synth, data = saved
    path, publish = tmp_path / "shared", os.replace

    def meanwhile(partial, target):
        monkeypatch.setattr(os, "replace", publish)
        synth.save(path)
        assert path.read_bytes() == data
        publish(partial, target)

    monkeypatch.setattr(os, "replace", meanwhile)
    synth.save(path)
    assert path.read_bytes() == data
    assert [file.name for file in tmp_path.iterdir()] == ["shared"]


@pytest.mark.parametrize(
    "name",
    ["../outside", "/outside", "..\\outside", "synthesizer.json/x", "", "\0"],
)
def test_names_lead_nowhere(saved, refused, name, files):
    parts = files.members_of(saved[1])
    refused(files.zipped((name, b"{}"), *parts.items()))
    refused(files.zipped((name, parts[HEADER]), (ARRAYS, parts[ARRAYS])))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_container_holds_two_members_and_nothing_else(saved, refused, files):
    parts = files.members_of(saved[1])
    header, arrays = parts.items()
    refused(files.zipped(header, arrays, header))
    refused(files.zipped(header, header))
    refused(files.zipped(header, arrays, ("note.txt", b"")))
    refused(files.zipped(header))
    refused(files.zipped(header, arrays, comment=b"a secret"))
    refused(b"#!/bin/sh\n" + saved[1])
    refused(saved[1] + b"x")
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        refused(files.zipped(header, arrays, method=method))
    # Bytes between the members, with every offset in order.
    _, data = saved
    start = data.index(b"PK\x03\x04", 4)
    end = data.rindex(b"PK\x05\x06")
    place = struct.unpack_from("<L", data, end + 16)[0]
    second = data.rindex(b"PK\x01\x02") + 42
    moved = bytearray(data)
    struct.pack_into("<L", moved, end + 16, place + 4)
    struct.pack_into("<L", moved, second, start + 4)
    refused(bytes(moved[:start]) + b"abcd" + bytes(moved[start:]))


def test_sizes_that_lie(saved, refused):
    _, data = saved
    directory = data.index(b"PK\x01\x02")
    end = data.rindex(b"PK\x05\x06")
    for place in (directory + 20, directory + 24, directory + 42, end + 12, end + 16):
        old = struct.unpack_from("<L", data, place)[0]
        for value in {0, 1, 2**31, 2**32 - 1} - {old}:
            changed = bytearray(data)
            struct.pack_into("<L", changed, place, value)
            refused(bytes(changed))
    for flags in (1, 8, 1 << 11):
        changed = bytearray(data)
        struct.pack_into("<H", changed, directory + 8, flags)
        refused(bytes(changed))


# --- Memory -----------------------------------------------------------------------


def bombs(data: bytes, files):
    """Small files that ask for much, each with a limit in bytes of memory."""
    header, arrays = files.members_of(data).items()
    zeros = bytes(2**26)
    yield files.zipped(header, (ARRAYS, zeros), method=zipfile.ZIP_DEFLATED)
    yield files.zipped((HEADER, zeros), arrays, method=zipfile.ZIP_BZIP2)
    for shape in ([2**60], [2**40, 2**40], [0, 2**62], [2**31, 0], [10**30]):
        for offsets in ([0, 0], [0, 2**62], [0, 8]):
            entry = {"dtype": "F64", "shape": shape, "data_offsets": offsets}
            yield files.with_arrays(data, packed_as({"a": entry}, bytes(8)))
    for length in (2**20, 2**40, 2**63 - 1, 2**64 - 1):
        yield files.with_arrays(data, packed_as({}, b"", length))
    for text in (b"[" * 10_000, b'{"a":' * 10_000, b"[" * 100 + b"]" * 100):
        yield files.with_header(data, text)
        yield files.with_arrays(data, packed_as(text, b""))
    yield files.zipped(header, arrays, *((f"n{i}", b"") for i in range(3_000)))


def test_bombs_take_no_memory(saved, refused, files):
    """At most 40 times the file and 3 MB, where they ask for 64 MB and more."""
    for data in list(bombs(saved[1], files)):
        tracemalloc.start()
        try:
            refused(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 3 * 2**20 + 40 * len(data)


def test_a_long_table_of_contents_is_refused_before_it_is_parsed(
    saved, refused, files, monkeypatch
):
    """Parsed, it takes twenty times its size; 1 GiB of arrays could be a table."""
    arrays = arrays_of(files.members_of(saved[1])[ARRAYS])
    packed = files.members_of(saved[1])[ARRAYS]
    length = struct.unpack("<Q", packed[:8])[0]
    monkeypatch.setattr(_arrays, "_MAX_TABLE", length)
    assert set(_arrays.unpack(packed)) == set(arrays)
    monkeypatch.setattr(_arrays, "_MAX_TABLE", length - 1)
    refused(saved[1])
    with pytest.raises(PersistenceError, match="fewer columns or classes"):
        _arrays.pack(arrays)


def test_a_large_header_is_refused_before_it_is_read(saved, refused, monkeypatch):
    limits = {HEADER: 1000, ARRAYS: 2**30}
    monkeypatch.setattr(_archive, "MAX_BYTES", limits)
    refused(saved[1], match="Expected at most 1,000 bytes of synthesizer.json")
    with pytest.raises(PersistenceError, match="declare fewer categories"):
        _archive.write_members("absent", {HEADER: bytes(1001)})


# --- Arrays -----------------------------------------------------------------------


def tables(data: bytes, files):
    """Tables of contents that safetensors or our own check must refuse."""
    packed = files.members_of(data)[ARRAYS]
    length = struct.unpack("<Q", packed[:8])[0]
    text, numbers = packed[8 : 8 + length], packed[8 + length :]
    table = json.loads(text)
    first = min(table, key=lambda name: table[name]["data_offsets"][0])

    def changed(**fields):
        return packed_as({**table, first: {**table[first], **fields}}, numbers)

    start, end = table[first]["data_offsets"]
    for offsets in (
        [-8, end],
        [start, -end],
        [start, 2**64],
        [end, start],
        [start + 8, end],
        [start, end + 8],
        [float(start), float(end)],
        [start],
        [start, end, end],
        "ab",
        None,
    ):
        yield changed(data_offsets=offsets)
    for shape in ([-1], [2**64], [1.5], "a", None, [[1]], [True], [0]):
        yield changed(shape=shape)
    for dtype in ("F32", "F16", "U8", "BF16", "object", "O", "", None, 3, ["F64"]):
        yield changed(dtype=dtype)
    yield changed(hidden="text")
    yield packed_as({**table, "__metadata__": {"author": "text"}}, numbers)
    yield packed_as({**table, "more": {**table[first]}}, numbers)
    yield packed_as(table, numbers + bytes(8))
    yield packed_as(table, numbers[:-8])
    twice = text.rstrip()[:-1] + b"," + text.rstrip()[1:]
    yield packed_as(twice, numbers)
    for other in (b"", b"[]", b"null", b"{", b"\xff\xfe", b"NaN"):
        yield packed_as(other, numbers)
    yield from (b"", b"1234567", b"12345678")


def test_tables_of_contents_that_lie(saved, refused, files):
    for packed in list(tables(saved[1], files)):
        refused(files.with_arrays(saved[1], packed))


@pytest.mark.parametrize("name", ["class_counts", "points.0.0", "generator.0.loadings"])
def test_nan_in_an_array(saved, refused, name, files):
    arrays = arrays_of(files.members_of(saved[1])[ARRAYS])
    arrays[name] = arrays[name].copy()
    arrays[name].flat[0] = np.nan
    refused(files.with_arrays(saved[1], bytes_of(arrays)), match="Got NaN")


def test_nan_is_not_saved_either(saved, tmp_path, monkeypatch):
    synth = saved[0]
    path = tmp_path / "a"
    path.write_bytes(b"before")
    monkeypatch.setitem(synth.generator_.parameters[0], "location", np.array([np.nan]))
    with pytest.raises(PersistenceError, match="Got NaN"):
        synth.save(path)
    monkeypatch.undo()
    monkeypatch.setattr(synth, "learning_rate", np.timedelta64(1, "s"))
    with pytest.raises(PersistenceError, match="timedelta"):
        synth.save(path)
    assert path.read_bytes() == b"before"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("class_counts", lambda a: a[:1]),
        ("class_counts", lambda a: -a),
        ("class_counts", lambda a: a * np.inf),
        ("class_counts", lambda a: a.reshape(1, -1)),
        ("points.0.0", lambda a: a[::-1].copy()),
        ("points.0.0", lambda a: a.astype(np.float32)),
        ("points.0.0", lambda a: a + 1),
        ("points.0.0", lambda a: a[:0]),
        ("points.0.2", lambda a: a + 1),
        ("points.0.2", lambda a: a[:1]),
        ("cumulative.1.1", lambda a: a[:-1]),
        ("cumulative.1.1", lambda a: -a),
        ("cumulative.1.1", lambda a: np.stack([a, a])),
        ("generator.1.loadings", lambda a: a[:-1]),
        ("generator.1.loadings", lambda a: a * np.inf),
        ("generator.1.location", lambda a: a > 0),
        ("generator.0.log_scale", None),
        ("points.1.0", None),
    ],
)
def test_arrays_that_do_not_fit_the_table(saved, refused, name, change, files):
    arrays = arrays_of(files.members_of(saved[1])[ARRAYS])
    old = arrays.pop(name)
    if change is not None:
        arrays[name] = change(old)
    refused(files.with_arrays(saved[1], bytes_of(arrays)), by_inspect=False)
