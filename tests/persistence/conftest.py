"""A saved file, and what takes it apart and puts it together again, with a lie."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import skdpsynth
from skdpsynth import GPATESynthesizer
from skdpsynth.exceptions import PersistenceError
from skdpsynth.persistence._archive import ARRAYS, HEADER
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
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "u": rng.normal(size=600),
            "day": pd.Timestamp("2020-02-03", tz="Europe/Paris")
            + pd.to_timedelta(range(600), unit="h"),
            "kind": rng.choice(["p", "q"], 600),
            "y": ["a", "b"] * 300,
        }
    )
    synth = GPATESynthesizer(schema=SCHEMA, n_iter=2, n_teachers=4, epsilon=4.0)
    path = tmp_path_factory.mktemp("saved") / "fitted.skdp"
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


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(
    *members: tuple[str, bytes], method=zipfile.ZIP_STORED, comment=b""
) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            archive.writestr(info, data)
        archive.comment = comment
    return file.getvalue()


def with_header(data: bytes, text: bytes) -> bytes:
    return zipped((HEADER, text), (ARRAYS, members_of(data)[ARRAYS]))


def with_arrays(data: bytes, packed: bytes) -> bytes:
    return zipped((HEADER, members_of(data)[HEADER]), (ARRAYS, packed))


def header_of(data: bytes) -> dict:
    return json.loads(members_of(data)[HEADER])


@pytest.fixture(scope="session")
def files():
    """Functions that read and write the parts of a file; other tests cannot import."""
    return SimpleNamespace(
        members_of=members_of,
        zipped=zipped,
        with_header=with_header,
        with_arrays=with_arrays,
        header_of=header_of,
    )
