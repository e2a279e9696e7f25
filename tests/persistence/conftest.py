"""A saved file, and what takes it apart and puts it together again, with a lie."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from _spoilt import signed
from safetensors.numpy import load as arrays_of
from safetensors.numpy import save as bytes_of

import skdpsynth
from skdpsynth import GPATESynthesizer
from skdpsynth.exceptions import PersistenceError
from skdpsynth.schema import Categorical, Continuous, Datetime, TableSchema

SCHEMA = TableSchema(
    {
        "u": Continuous(-5, 5),
        "day": Datetime("2020-01-01T00:00Z", "2021-01-01T00:00Z"),
        "kind": Categorical(["p", "q"]),
        "y": Categorical(["a", "b"]),
    },
    target="y",
    class_counts={"a": 300, "b": 300},
)


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A fitted synthesizer, and its file."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("saved") / "a.skdp"
    table = pd.DataFrame(
        {
            "u": rng.normal(size=600),
            "day": pd.Timestamp("2020-02-03", tz="Europe/Paris")
            + pd.to_timedelta(range(600), unit="h"),
            "kind": rng.choice(["p", "q"], 600),
            "y": ["a", "b"] * 300,
        }
    )
    synth = GPATESynthesizer(4.0, schema=SCHEMA, n_iter=2, n_teachers=4, random_state=4)
    synth.fit(table).save(path)
    return synth, path.read_bytes()


@pytest.fixture
def refused(tmp_path):
    """Give a check that both readers, or `load` alone, refuse some bytes."""
    path = tmp_path / "attack"

    def check(
        data: bytes, *, by_inspect: bool = True, match: str | None = None
    ) -> None:
        path.write_bytes(data)
        with pytest.raises(PersistenceError, match=match):
            GPATESynthesizer.load(path)
        if by_inspect:
            with pytest.raises(PersistenceError, match=match):
                skdpsynth.inspect(path)
        assert [file.name for file in tmp_path.iterdir()] == ["attack"]

    return check


def taken_apart(data: bytes) -> tuple[dict, bytes]:
    """Give the header, with the facts as a text in it, and the numbers."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def put_together(header: object, numbers: bytes, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(text) if length is None else length
    return struct.pack("<Q", length) + text + numbers


def facts_of(data: bytes) -> dict:
    facts = json.loads(taken_apart(data)[0]["__metadata__"]["skdpsynth"])
    del facts["sha256"]
    return facts


def with_text(data: bytes, text: str) -> bytes:
    """Put another text in the place of the facts."""
    header, numbers = taken_apart(data)
    header["__metadata__"]["skdpsynth"] = text
    return put_together(header, numbers)


def with_parts(data: bytes, facts: dict | None = None, arrays=None) -> bytes:
    """Put in other facts or arrays, with a digest that is right."""
    facts = facts_of(data) if facts is None else facts
    arrays = arrays_of(data) if arrays is None else arrays
    return bytes_of(arrays, metadata={"skdpsynth": signed(facts, arrays)})


@pytest.fixture(scope="session")
def files():
    """Functions that read and write the parts of a file; other tests cannot import."""
    return SimpleNamespace(
        taken_apart=taken_apart,
        put_together=put_together,
        facts_of=facts_of,
        with_text=with_text,
        with_parts=with_parts,
    )
