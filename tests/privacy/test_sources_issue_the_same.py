"""From wherever the rows of a table come, a fit issues the same releases and noise.

google/dpsynth (5 August 2026): its path on a cluster selected without noise. Here every
source is held against the table in memory: by the ledger, by the noise of each release,
to the bit where it is frozen, and by the law of the noise where it is secret.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from _releases import noise_is_right, watched
from _twins import exact_ranges, in_place_of_the_mechanisms
from pyarrow import parquet
from sklearn.base import clone

from skdpsynth import (
    DPCGANSynthesizer,
    GPATESynthesizer,
    MarginalSynthesizer,
)
from skdpsynth.measure import _discovery
from skdpsynth.privacy import _parts
from skdpsynth.schema import Boolean, Categorical, Continuous, TableSchema
from skdpsynth.table import _sources

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.usefixtures("short_fits", "small_blocks")

N = 600
SCHEMA = TableSchema(
    {
        "a": Continuous(-4, 4, nullable=True, decimals=2),
        "n": Continuous(0, 30, integer=True),
        "s": Categorical(["u", "v", "w"], nullable=True),
        "b": Boolean(),
        "y": Categorical(["no", "yes"]),
    },
    target="y",
)
DECLARED = MarginalSynthesizer(40.0, schema=SCHEMA, random_state=0)
FOUND = MarginalSynthesizer(40.0, target="y", random_state=0)
# Both have noisy sums of gradients, of teachers and of sampled rows.
SHORT = {"schema": SCHEMA, "n_iter": 2, "random_state": 0}
TRAINED = [
    GPATESynthesizer(40.0, init="marginals", **SHORT),
    DPCGANSynthesizer(40.0, init="random", n_generator_steps=2, **SHORT),
]


@pytest.fixture
def small_blocks(monkeypatch):
    """Read some 50 rows at a time; Dask works in this thread."""
    monkeypatch.setattr(_sources, "_BLOCK_ENTRIES", 250)
    monkeypatch.setattr(_parts, "_BLOCK_ENTRIES", 250)
    with dask.config.set(scheduler="synchronous"):
        yield


def table():
    rng = np.random.default_rng(5)
    a = np.round(rng.normal(size=N).clip(-4, 4), 2)
    label = np.where(rng.random(N) < 0.5 + 0.3 * np.sign(a), "yes", "no")
    words = pd.Series(rng.choice(["u", "v", "w"], N)).mask(a > 1)
    return pd.DataFrame(
        {
            "a": pd.Series(a).mask(rng.random(N) < 0.1),
            "n": rng.poisson(5, N),
            "s": words,
            "b": rng.random(N) < 0.3,
            "y": label,
        }
    )


ROWS = table()
ARROW = pa.Table.from_pandas(ROWS, preserve_index=False)


def in_arrow():
    return ARROW.to_pandas(types_mapper=pd.ArrowDtype)


def as_csv(path):
    ROWS.to_csv(path / "t.csv", index=False)
    return path / "t.csv"


def as_parquet(path):
    parquet.write_table(ARROW, path / "t.parquet", row_group_size=70)
    return path / "t.parquet"


def as_folder(path):
    for place in range(0, N, 250):
        parquet.write_table(ARROW.slice(place, 250), path / f"{place:04}.parquet")
    return path


def as_dask(path):
    return dd.from_pandas(in_arrow(), npartitions=7)


IN_MEMORY = {
    "numpy": lambda path: ROWS,
    "objects": lambda path: ROWS.astype({"s": object, "y": object}),
    "nullable": lambda path: ROWS.convert_dtypes(),
    "arrow": lambda path: in_arrow(),
    "polars": lambda path: pl.DataFrame(ARROW),
    "Table": lambda path: ARROW,
}
PARTED = {
    "parquet": as_parquet,
    "folder": as_folder,
    "batches": lambda path: iter(ARROW.to_batches(max_chunksize=33)),
    "dask": as_dask,
}
SOURCES = IN_MEMORY | {"csv": as_csv} | PARTED


def issued(synthesizer, rows, secrets=3):
    """Fit; give the ledger, and each release with its noise."""
    fitted, seen = watched(synthesizer, rows, secrets=secrets)
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
    return fitted.privacy_report().entries, lines, noise


# --- By ledger, and to the bit ----------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_a_declared_table_has_the_same_noise_from_everywhere(source, tmp_path):
    expected = issued(DECLARED, ROWS)
    assert len(expected[1]) == len(expected[0]) >= 6
    assert issued(DECLARED, SOURCES[source](tmp_path)) == expected


@pytest.mark.parametrize("source", ["polars", "Table", *PARTED])
def test_what_is_found_is_found_by_noise_from_everywhere(source, tmp_path):
    """Labels, categories and ranges are selected with noise, on Dask too."""
    expected = issued(FOUND, in_arrow())
    names = {line[0] for line in expected[1]}
    assert {"class labels and counts", "categories", "column ranges"} <= names
    assert issued(FOUND, SOURCES[source](tmp_path)) == expected


@pytest.mark.parametrize("source", ["csv", "batches", "dask"])
@pytest.mark.parametrize("synthesizer", TRAINED, ids=["teachers", "sampled steps"])
def test_what_trains_issues_the_same_from_everywhere(synthesizer, source, tmp_path):
    """Its lines; what noise they have is a test of variance below."""
    entries, lines, _ = issued(synthesizer, ROWS)
    assert {line[0] for line in lines} & {
        "sums of teachers' gradients",
        "discriminator's gradients",
    }
    assert issued(synthesizer, SOURCES[source](tmp_path))[:2] == (entries, lines)


@pytest.fixture(scope="module")
def design():
    """Measurements of a first site, whose tables the others measure again."""
    return clone(DECLARED).fit(in_arrow()[::2]).measurements_


def site_of(design):
    return clone(DECLARED).set_params(design=design, schema=design.schema)


@pytest.mark.parametrize("source", ["parquet", "batches", "dask"])
def test_a_site_has_the_same_noise_from_everywhere(source, design, tmp_path):
    """As the noise of sites adds up: `measure/test_sites.py` says so."""
    site = site_of(design)
    expected = issued(site, in_arrow())
    assert issued(site, SOURCES[source](tmp_path)) == expected


# --- By variance ------------------------------------------------------------------


def wrong_noise(synthesizer, rows, alpha=1e-6):
    """Fit with secret noise; name the lines of which chi-square refutes the noise."""
    _, seen = watched(synthesizer, rows)
    names = sorted({own.line.name for own in seen})
    lines = {name: [own for own in seen if own.line.name == name] for name in names}
    level = alpha / len(lines)
    return [name for name, own in lines.items() if not noise_is_right(own, level)]


@pytest.mark.statistical
@pytest.mark.parametrize("source", [*SOURCES, "a site"])
def test_secret_noise_has_the_variance_of_the_ledger(source, tmp_path, request):
    """Released minus exact, line by line of a fit or two.

    Chi-square of the n numbers of a line over sigma^2, two-sided, n from 2 to 2,000.
    False alarms at most 4e-8 for a fit, 1e-6 for all.
    """
    if source == "a site":
        fits, own = [site_of(request.getfixturevalue("design"))], as_dask
    else:
        fits, own = [DECLARED, TRAINED[1]], SOURCES[source]
        fits[0] = FOUND if source in PARTED else DECLARED
    for synthesizer in fits:
        assert wrong_noise(synthesizer, own(tmp_path), alpha=4e-8) == []


# --- With the bug planted ---------------------------------------------------------


def test_a_source_that_skips_noise_of_one_release_is_caught():
    """Of coarse marginals the exact counts: by noise, and by its variance."""
    expected = issued(DECLARED, ROWS)

    def exact_where_coarse(real):
        def noisy(values, line, *more):
            coarse = line.name == "coarse marginals"
            return values.copy() if coarse else real(values, line, *more)

        return noisy

    with in_place_of_the_mechanisms(exact_where_coarse):
        found = issued(DECLARED, as_dask(None))
        refuted = wrong_noise(DECLARED, as_dask(None))
    assert found[2] != expected[2]
    assert refuted == ["coarse marginals"]


def test_a_source_that_selects_without_a_release_is_caught(monkeypatch):
    """Ranges that Dask finds itself are in no ledger: entries and lines are fewer."""
    expected = issued(FOUND, in_arrow())
    monkeypatch.setattr(_discovery, "discover_ranges", exact_ranges)
    entries, lines, _ = issued(FOUND, as_dask(None))
    assert lines != expected[1]
    assert "column ranges" not in {line[0] for line in lines}
    assert entries != expected[0]
