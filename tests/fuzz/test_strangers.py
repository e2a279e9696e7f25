"""A stranger's file is refused, or whatever is done with it ends alike for all.

Measurements are a `design` of a fit. A saved synthesizer has parameters, and a schema
for another fit. Who uses either meets private rows only after the file was read, and
whether that ends in an error must not depend on them, since others see whether a file
comes back. So fits of two tables that differ in a row, with the same noise, both
succeed, or both fail with the same words, which hold no value.
"""

import base64
import json
import random
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from _spoilt import (
    at,
    facts_of,
    places,
    signed,
    spoilt_arrays,
    spoilt_document,
    spoilt_saved,
)
from safetensors.numpy import load, save
from sklearn.base import clone

from skdpsynth import (
    DPCGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
)
from skdpsynth.audit import replay
from skdpsynth.exceptions import PersistenceError
from skdpsynth.measure import Measurements
from skdpsynth.schema import Categorical, Continuous, Datetime, TableSchema

pytestmark = pytest.mark.usefixtures("short_fits")

N_ROWS = 40
SECRET = "seldom-seen"  # a category that only the row in question has
SCHEMA = TableSchema(
    {
        "amount": Continuous(0, 1000, nullable=True, decimals="any"),
        "code": Continuous(0, 40, integer=True),
        "kind": Categorical(["p", "q", SECRET, "never"], nullable=True),
        "y": Categorical(["a", "b"]),
    },
    target="y",
)
ODD = pd.DataFrame(
    {
        "amount": [np.nan, 0.0, 1e300],
        "code": [40, -(2**60), 0],
        "kind": [SECRET, None, "none of them"],
        "y": ["a", "b", "neither"],
    }
)


def table(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "amount": rng.uniform(1, 999, N_ROWS),
            "code": rng.integers(1, 39, N_ROWS),
            "kind": rng.choice(["p", "q"], N_ROWS),
            "y": ["a", "b"] * (N_ROWS // 2),
        }
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Files with tables of one, two and three columns, and the rows of each."""
    folder, found = tmp_path_factory.mktemp("valid"), []
    wide = pd.concat([table(), table(1)[["amount", "code"]].add_suffix("2")], axis=1)
    wide["copy"] = wide["amount"] // 10
    for own, schema, order in [
        (table(), SCHEMA, 1),
        (table(), SCHEMA, 3),
        (wide, None, 3),
    ]:
        synth = MarginalSynthesizer(
            300.0, target="y", schema=schema, order=order, random_state=0
        )
        path = folder / str(len(found))
        synth.fit(own).measurements_.save(path)
        found.append((own, json.loads(path.read_text())))
    return found


def spoilt_measurements(document, rng):
    """Spoil what a fit needs of a file: its JSON, or one of its arrays."""
    changed = json.loads(json.dumps(document))
    listed = [
        place
        for place in places(changed)
        if isinstance(at(changed, place), dict) and "data" in at(changed, place)
    ]
    if rng.random() < 0.5:
        return spoilt_document(changed, rng)
    own = at(changed, rng.choice(listed))
    array = np.frombuffer(base64.b64decode(own["data"]), own["dtype"])
    array = array.reshape(own["shape"]).copy()
    if array.dtype == np.int64 and array.size and rng.random() < 0.5:
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice([-1, 0, 1, 2, 255])
    else:
        array = spoilt_arrays({"it": array}, rng).get("it", array)
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    own |= {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}
    return changed


def fits_by_measurements(valid, path, rng):
    """Spoil a file and load it; give the fits that use it, each with its rows."""
    own, document = rng.choice(valid)
    path.write_text(json.dumps(spoilt_measurements(document, rng)))
    try:
        design = Measurements.load(path)
        schema = design.schema  # a file may lack what a fit needs
    except (PersistenceError, ValueError):
        return []
    settings = {"schema": schema, "design": design, "random_state": 0}
    return [(MarginalSynthesizer(50.0, target="y", **settings), own)]


UNIT = {"privacy_unit": "who", "max_rows_per_unit": 2}
PERSONS = TableSchema(SCHEMA.columns, target="y", **UNIT)
OF_FITS = ("parameters", "schema", "schema_")
KINDS = [
    MarginalSynthesizer(300.0, schema=SCHEMA),
    MarginalSynthesizer(300.0, target="y"),
    IndependentSynthesizer(300.0, schema=PERSONS),
    GPATESynthesizer(300.0, schema=SCHEMA, n_iter=1, n_teachers=3),
    DPCGANSynthesizer(300.0, schema=SCHEMA, init="random", n_iter=1),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Synthesizers, the rows that each was fitted to, and its file."""
    path, found = tmp_path_factory.mktemp("valid") / "a", []
    for synth in KINDS:
        own = table()
        if synth.schema is PERSONS:
            own["who"] = np.arange(N_ROWS) // 2 + 10
        ready = clone(synth).set_params(random_state=0).fit(own)
        ready.save(path, overwrite=True)
        found.append((ready, own, path.read_bytes()))
    return found


def spoilt_synthesizer(data, rng):
    """Spoil a file anywhere, or only what another fit takes of it."""
    if rng.random() < 0.5:
        return spoilt_saved(data, rng)
    facts, arrays = facts_of(data), load(data)
    name = rng.choice([part for part in OF_FITS if facts[part]])
    facts[name] = spoilt_document(facts[name], rng)
    try:
        return save(arrays, metadata={"skdpsynth": signed(facts, arrays)})
    except ValueError:  # NaN, which no writer of ours takes
        return data[:-1]


def fits_by_synthesizers(valid, path, rng):
    """Spoil a file and load it; give fits of what was loaded, and with its schema."""
    ready, own, data = rng.choice(valid)
    path.write_bytes(spoilt_synthesizer(data, rng))
    try:
        loaded = type(ready).load(path)
    except PersistenceError:
        return []
    loaded.sample(30, random_state=0, output="pandas")
    for name, before in ready.get_params().items():
        now = getattr(loaded, name)
        longer = type(before) is int and type(now) in (int, float) and now > before
        if longer or name == "hidden_dims":  # a longer fit, as everybody sees
            setattr(loaded, name, before)
    another = IndependentSynthesizer(50.0, schema=loaded.schema_, random_state=0)
    return [(loaded, own), (another, own)]


def check(fits_of, valid, folder, seeds):
    """Replay an odd row at the end; count refused files, and fits that succeed.

    A fit may fail if it does so in the same words without the row, whose values these
    then do not hold.
    """
    told = Counter()
    for seed in seeds:
        fits = fits_of(valid, folder / "spoilt", random.Random(seed))
        told["refused"] += not fits
        row = ODD.iloc[[seed % len(ODD)]]
        for synth, own in fits:
            more = pd.concat([own, row.reindex(columns=own.columns)], ignore_index=True)
            for name in own.columns.difference(ODD.columns):
                more[name] = more[name].fillna(1.0)
            found = replay(synth, more.astype(own.dtypes), rows=["last"])
            assert all("is refused" in words for words in found.findings), (seed, found)
            told["used"] += not found.findings
    return told


def test_spoilt_measurements(measured, tmp_path):
    """Of 30 some are refused and some are used."""
    told = check(fits_by_measurements, measured, tmp_path, range(30))
    assert told["refused"] >= 8
    assert told["used"] >= 2


def test_spoilt_synthesizers(saved, tmp_path):
    """Of 30 some are refused and some are used."""
    told = check(fits_by_synthesizers, saved, tmp_path, range(30))
    assert told["refused"] >= 15
    assert told["used"] >= 3


@pytest.mark.nightly
def test_ten_thousand_spoilt_files(measured, saved, tmp_path):
    check(fits_by_measurements, measured, tmp_path, range(1_000, 11_000))
    check(fits_by_synthesizers, saved, tmp_path, range(1_000, 11_000))


N_VALUES = np.random.default_rng(0).integers(10, 90, 3_000)
DAYS = pd.Timestamp("2020-02-02") + pd.to_timedelta(np.arange(3_000) % 300, "D")


@pytest.mark.parametrize(
    ("values", "declared"),
    [
        (1.0 * N_VALUES, Continuous(0.5, 99.5)),
        (10.0 * N_VALUES, Continuous(0.25, 999.75, decimals=2)),
        (DAYS, Datetime("2020-01-01 05:00", "2020-12-31 13:00")),
    ],
    ids=["whole", "tens", "days"],
)
def test_bounds_that_a_found_resolution_moves_are_no_lie(values, declared, tmp_path):
    """Neither in the fit, which has been charged by then, nor in its files."""
    schema = TableSchema({"x": declared})
    synth = MarginalSynthesizer(9.0, schema=schema, random_state=0)
    synth.fit(pd.DataFrame({"x": values})).save(tmp_path / "a")
    synth.measurements_.save(tmp_path / "b")
    expected = synth.sample(50, random_state=1)
    again = MarginalSynthesizer.load(tmp_path / "a").sample(50, random_state=1)
    pd.testing.assert_frame_equal(again, expected)
    assert Measurements.load(tmp_path / "b").schema.columns == synth.schema_.columns
