"""A stranger's file: it loads as it was saved, or a `PersistenceError` says why not.

Nothing in it is executed; reading it takes memory in proportion to its size.
"""

import json
import os
import pickle
import tracemalloc
import zipfile
from io import BytesIO

import _spoilt as files
import numpy as np
import pytest
from safetensors.numpy import load as arrays_of, save as bytes_of

from skdpsynth.exceptions import PersistenceError


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


def test_the_file_holds_facts_and_arrays_and_nothing_else(saved, refused):
    _, data = saved
    header, numbers = files.taken_apart(data)
    facts = header["__metadata__"]
    for metadata in (
        {},
        {**facts, "author": "a secret"},
        {"skdpsynth": [facts["skdpsynth"]]},
        facts["skdpsynth"],
        None,
    ):
        refused(files.put_together({**header, "__metadata__": metadata}, numbers))
    entry = {**header["class_counts"], "hidden": "text"}
    refused(files.put_together({**header, "class_counts": entry}, numbers))
    for text in ("", "[]", "{}", facts["skdpsynth"].replace("{", '{"delta": 1, ', 1)):
        refused(files.with_text(data, text))
    refused(bytes_of(arrays_of(data)))
    refused(pickle.dumps({"synthesizer": 1}))
    for other in (b"#!/bin/sh\n" + data, data[8:], data + b"x", data[:-1]):
        refused(other)


def test_another_digest(saved, refused):
    """Facts or numbers that were changed by hand: the file is none of ours."""
    _, data = saved
    arrays, facts = arrays_of(data), files.facts_of(data)
    text = files.taken_apart(data)[0]["__metadata__"]["skdpsynth"]
    arrays["class_counts"] += 1
    refused(bytes_of(arrays, metadata={"skdpsynth": text}))
    for new in ('"epsilon": { "value": 4.0}', '"epsilon": {"value": 3.0}'):
        refused(files.with_text(data, text.replace('"epsilon": {"value": 4.0}', new)))
    refused(files.with_text(data, json.dumps(facts)))
    refused(files.with_text(data, json.dumps({**facts, "sha256": None})))


def test_another_format_is_named_with_the_remedy(saved, refused):
    """A zip is what 0.1.1 wrote; a release to come counts the version up."""
    old = BytesIO()
    with zipfile.ZipFile(old, "w") as archive:
        archive.writestr("synthesizer.json", json.dumps(files.facts_of(saved[1])))
    words = r"version 3\. Got {}, which skdpsynth {} reads: run `pip install"
    refused(old.getvalue(), match=words.format("a zip", r"0\.1\.1"))
    newer = files.facts_of(saved[1]) | {"format_version": 4}
    data = files.with_parts(saved[1], newer)
    refused(data, match=words.format(4, newer["versions"]["skdpsynth"]))


def bombs(data: bytes):
    """Small files that ask for much."""
    header, numbers = files.taken_apart(data)
    for shape in ([2**60], [2**40, 2**40], [0, 2**62], [10**30]):
        for offsets in ([0, 0], [0, 2**62], [0, 8]):
            entry = {"dtype": "F64", "shape": shape, "data_offsets": offsets}
            yield files.put_together({**header, "a": entry}, numbers)
    for length in (2**20, 2**40, 2**64 - 1):
        yield files.put_together({}, b"", length)
    for text in ("[" * 10_000, '{"a":' * 10_000, "[" * 100 + "]" * 100):
        yield files.with_text(data, text)
        yield files.put_together(text.encode(), b"")


def test_bombs_take_no_memory(saved, refused):
    """At most 40 times the file and 3 MB, where they ask for 64 MB and more."""
    for data in list(bombs(saved[1])):
        tracemalloc.start()
        try:
            refused(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 3 * 2**20 + 40 * len(data)


def test_a_large_header_is_refused_before_it_is_read(saved, refused, monkeypatch):
    """Parsed, it takes twenty times its size; 1 GiB of arrays could be a header."""
    synth, data = saved
    length = int.from_bytes(data[:8], "little")
    monkeypatch.setattr("skdpsynth.saved._MAX_HEADER", length - 1)
    monkeypatch.setattr("skdpsynth.saved.parse_json", None)
    refused(data, match=f"Expected at most {length - 1:,} bytes of metadata")
    with pytest.raises(PersistenceError, match="Declare fewer categories"):
        synth.save("absent")


def test_nan_is_not_saved_either(saved, tmp_path, monkeypatch):
    synth = saved[0]
    path = tmp_path / "a"
    path.write_bytes(b"before")
    weights = synth.generator_.mixtures[0].weights
    monkeypatch.setattr(synth.generator_, "starts", weights * np.nan)
    with pytest.raises(PersistenceError, match="Got NaN"):
        synth.save(path, overwrite=True)
    monkeypatch.undo()
    monkeypatch.setattr(synth, "max_grad_norm", np.timedelta64(1, "s"))
    with pytest.raises(PersistenceError, match="timedelta"):
        synth.save(path, overwrite=True)
    assert path.read_bytes() == b"before"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def nan_first(array):
    return np.append(np.nan, array.ravel()[1:]).reshape(array.shape)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("class_counts", lambda a: a[:1]),
        ("class_counts", lambda a: -a),
        ("points.0.0", lambda a: a[::-1].copy()),
        ("points.0.0", lambda a: a.astype(np.float32)),
        ("points.0.0", lambda a: a + 1),
        ("cumulative.1.1", lambda a: a[:-1]),
        ("generator.starts", lambda a: a[:-1]),
        ("generator.starts", lambda a: a + 1),
        ("generator.1.weights", lambda a: a[:-1]),
        ("generator.1.weights", lambda a: a * 2),
        ("generator.0.probabilities", lambda a: a[:, 1:].copy()),
        ("generator.0.probabilities", lambda a: -a),
        ("generator.0.ranks", lambda a: a + 2),
        ("generator.0.ranks", lambda a: a[:1]),
        ("generator.0.ranks", lambda a: a[::-1] * 0.9 + np.array([[0.05], [0.0]])),
        ("generator.0.probabilities", None),
        *((name, nan_first) for name in ("class_counts", "points.0.0")),
        ("generator.0.weights", nan_first),
    ],
)
def test_arrays_that_do_not_fit_the_table(saved, refused, name, change):
    """And NaN, which is refused wherever a file is read."""
    arrays = arrays_of(saved[1])
    old = arrays.pop(name)
    if change is not None:
        arrays[name] = change(old)
    how = {"match": "Got NaN"} if change is nan_first else {"by_inspect": False}
    refused(files.with_parts(saved[1], arrays=arrays), **how)


DTYPE = ("table", "layout", "columns", 0, "dtype")
DTYPE_OF_DAY = ("table", "layout", "columns", 1, "dtype")
LIES_OF_HEADERS = [
    *((("synthesizer",), own) for own in ("os.system", "A" * 101, "\x1b[2J", None)),
    *((("format_version",), own) for own in ("1", 0, True, 1.0)),
    *((("versions",), {"numpy": own}) for own in ("\x1b[2J", 2)),
    *((("more",), 1), (("parameters",), []), (("parameters", "epsilon"), 1)),
    (("parameters", "epsilon"), {"value": {"time": "2020", "zone": "UTC"}}),
    (("parameters", "budget"), {"value": "a path"}),
    *((("report",), {}), (("report", "entries"), [1]), (("report", "mu"), 1e200)),
    *((("report", "epsilon"), own) for own in (10**400, -1.0)),
    (("report", "relation"), "add or remove\rone row"),
    (("report", "software"), "\N{RIGHT-TO-LEFT OVERRIDE}0.1"),
]
# What only who loads the file needs.
LIES_OF_PARTS = [
    *((("parameters", own), {"value": 1}) for own in ("self", "unknown")),
    (("parameters", "__class__"), {"value": "Other"}),
    *((("generator", "n_classes"), own) for own in (9, 10**12)),
    (("generator", "n_iter_"), "many"),
    *((("schema_",), None), (("schema",), {"columns": 3}), (("table",), {})),
    *((("table", "columns", 0), own) for own in (-1, 99, False)),
    *((("table", "columns", 1), 0), (("table", "missing"), [])),
    *((("table", "missing", 0, 0), own) for own in (1.5, "1")),
    *((("table", "axes", 0, "low"), 10**400), (("table", "axes", 0, "high"), -6.0)),
    *((("table", "axes", 1, "step"), 0), (("table", "axes", 0, "axis"), "other")),
    *((("plans",), {}), (("plans", 1, "label"), "a"), (("plans", 0, "training"), 0)),
    *((("plans", 0, "n_rows"), own) for own in (-1.0, "1", {"float": "inf"})),
    *((("table", "levels"), ["a"]), (DTYPE, {"numpy": "V1000000000"})),
    (DTYPE, {"pandas": "os.system"}),
    # Zones that pandas would read from a file.
    (("schema", "columns", 1, 1, "low", "zone"), "dateutil//etc/localtime"),
    (("schema", "columns", 1, 1, "low", "zone"), "tzlocal()"),
    (DTYPE_OF_DAY, {"pandas": "datetime64[ns, dateutil//etc/localtime]"}),
    (DTYPE_OF_DAY, {"arrow": "timestamp[ns, tz=dateutil//etc/localtime]"}),
]


@pytest.mark.parametrize(
    ("place", "value", "by_inspect"),
    [
        *((place, value, True) for place, value in LIES_OF_HEADERS),
        *((place, value, False) for place, value in LIES_OF_PARTS),
    ],
)
def test_facts_that_lie(saved, refused, place, value, by_inspect):
    document = files.facts_of(saved[1])
    files.at(document, place[:-1])[place[-1]] = value
    refused(files.with_parts(saved[1], document), by_inspect=by_inspect)


def test_every_cut_and_every_changed_byte_is_found(saved, refused):
    _, data = saved
    for place in range(0, len(data), max(len(data) // 200, 1)):
        refused(data[:place])
        flipped = bytearray(data)
        flipped[place] ^= 1
        refused(bytes(flipped), by_inspect=False)
