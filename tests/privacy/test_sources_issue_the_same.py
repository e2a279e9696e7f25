"""From wherever the rows of a table come, a fit issues the same releases and noise.

google/dpsynth (5 August 2026): its path on a cluster selected without noise. Here every
source is held against the table in memory: by the ledger, and by the noise of each
release, to the bit where it is frozen.
"""

import functools

import numpy as np
import pytest
from _releases import watched
from sklearn.base import clone
from tables import PARTED, SOURCES, small_table

from skdpsynth import (
    DPCGANSynthesizer,
    GPATESynthesizer,
    MarginalSynthesizer,
    PATETripleGANSynthesizer,
)
from skdpsynth.schema import Boolean, Categorical, Continuous, TableSchema

dask = pytest.importorskip("dask")

pytestmark = pytest.mark.usefixtures("short_fits", "small_blocks")

N = 600
SCHEMA = TableSchema(
    {
        "a": Continuous(-4, 4, nullable=True, decimals=2),
        "n": Continuous(0, 30, integer=True),
        "c": Categorical(["p", "q", "r"], nullable=True),
        "f": Boolean(),
        "y": Categorical(["u", "v"]),
    },
    target="y",
)
DECLARED = MarginalSynthesizer(40.0, schema=SCHEMA, random_state=0)
FOUND = MarginalSynthesizer(40.0, target="y", random_state=0)
# Noisy sums of gradients, of teachers and of sampled rows, and noisy votes.
SHORT = {"schema": SCHEMA, "n_iter": 2, "random_state": 0}
TRAINED = [
    GPATESynthesizer(40.0, **SHORT),
    DPCGANSynthesizer(40.0, init="random", **SHORT),
    PATETripleGANSynthesizer(40.0, batch_size=16, **SHORT),
]
ROWS = small_table(N).drop(columns="b").assign(f=np.arange(N) % 3 == 0)
ROWS["n"] = np.random.default_rng(5).poisson(5, N)
ROWS["a"] = ROWS["a"].round(2).clip(-4, 4).mask(ROWS["n"] % 7 == 0)
ROWS["c"] = ROWS["c"].mask(ROWS["a"] > 1)


@pytest.fixture
def small_blocks(monkeypatch):
    """Read some 50 rows at a time; Dask works in this thread."""
    monkeypatch.setattr("skdpsynth.privacy._parts._BLOCK_ENTRIES", 250)
    with dask.config.set(scheduler="synchronous"):
        yield


def issued(synthesizer, rows):
    """Fit; return the ledger, the lines of all releases, their noise, and a sample."""
    fitted, seen = watched(synthesizer, rows, secrets=3)
    lines = [
        (
            *(own.line.name, str(own.line.scope), own.line.kind, own.line.mu),
            *(own.line.sensitivity, own.line.noise_std, own.line.sampling_rate),
            *(own.line.used, own.release.unit, own.release.n_releases),
            *(own.release.what, own.release.keys),
        )
        for own in seen
    ]
    noise = [(own.release.noisy - own.release.exact).tolist() for own in seen]
    drawn = fitted.sample(50, random_state=1, output="arrow").to_pylist()
    return fitted.privacy_report().entries, lines, noise, drawn


@functools.cache
def expected_of(synthesizer):
    """What a fit of the table in memory issues."""
    return issued(synthesizer, SOURCES["arrow"](ROWS, None))


@pytest.fixture(scope="module")
def site():
    """A site that measures again what a first one has."""
    first = SOURCES["arrow"](ROWS, None)[::2]
    design = clone(DECLARED).fit(first).measurements_
    return clone(DECLARED).set_params(design=design, schema=design.schema)


@pytest.mark.parametrize("source", SOURCES)
def test_the_noise_is_the_same_from_everywhere(source, site, tmp_path):
    """Also labels, categories and ranges are selected with noise, on Dask too."""
    fits = [DECLARED]
    if source in PARTED:
        fits += [FOUND, site]
    for number, synthesizer in enumerate(fits):
        folder = tmp_path / str(number)
        folder.mkdir()
        expected = expected_of(synthesizer)
        assert len(expected[1]) == len(expected[0]) >= 6
        names = {line[0] for line in expected[1]}
        found = {"class labels and counts", "categories", "column ranges"} <= names
        assert found == (synthesizer is FOUND)
        assert issued(synthesizer, SOURCES[source](ROWS, folder)) == expected


@pytest.mark.parametrize("source", ["csv", "batches", "dask"])
@pytest.mark.parametrize(
    "synthesizer", TRAINED, ids=["teachers", "sampled steps", "votes"]
)
def test_what_trains_issues_the_same_from_everywhere(synthesizer, source, tmp_path):
    """Its lines; that its noise is theirs is in `test_bugs_of_others.py`."""
    found = issued(synthesizer, SOURCES[source](ROWS, tmp_path))
    assert found[:2] == expected_of(synthesizer)[:2]
