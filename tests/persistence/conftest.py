"""A saved synthesizer, and a check that a file is refused."""

import numpy as np
import pandas as pd
import pytest

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
