"""A stranger's synthesizer is refused, or whatever is done with it ends alike for all.

A saved file also has parameters, a schema that was declared, and one that was found.
Who loads it may fit it again, or take its schema for another fit, and meets private
rows only then. As of `test_designs`: two tables that differ in a row, with the same
noise, both succeed or both fail with the same words, which hold no value. A file holds
no measurements, so that none of them is a design.
"""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from _spoilt import spoilt_document, spoilt_saved
from safetensors.numpy import load, save
from sklearn.base import clone

from skdpsynth import (
    DPCGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
)
from skdpsynth.exceptions import PersistenceError
from skdpsynth.saved import _signed  # for a digest that is right
from skdpsynth.schema import TableSchema
from tests.fuzz.test_designs import N_ROWS, SCHEMA, alike, table

PERSONS = TableSchema(
    SCHEMA.columns, target="y", privacy_unit="who", max_rows_per_unit=2
)
OF_FITS = ("parameters", "schema", "schema_")
SHORT = {"n_iter": 1, "n_generator_steps": 1}
KINDS = [
    MarginalSynthesizer(300.0, schema=SCHEMA),
    MarginalSynthesizer(300.0, target="y"),
    IndependentSynthesizer(300.0, schema=PERSONS),
    GPATESynthesizer(300.0, schema=SCHEMA, init="marginals", n_iter=1, n_teachers=3),
    DPCGANSynthesizer(300.0, schema=SCHEMA, init="random", **SHORT),
]


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """Files, and of each its class, its parameters and the table that was fitted."""
    folder, found = tmp_path_factory.mktemp("valid"), []
    for number, synth in enumerate(KINDS):
        own = table()
        if synth.schema is PERSONS:
            own["who"] = np.arange(N_ROWS) // 2 + 10
        ready = clone(synth).set_params(random_state=0).fit(own)
        ready.save(folder / str(number))
        data = (folder / str(number)).read_bytes()
        found.append((type(synth), ready.get_params(), own, data))
    return found


def spoilt(data, rng):
    """Spoil a file anywhere, or only what another fit takes of it."""
    if rng.random() < 0.5:
        return spoilt_saved(data, rng, signed=_signed)
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    facts, arrays = json.loads(header["__metadata__"]["skdpsynth"]), load(data)
    name = rng.choice([part for part in OF_FITS if facts[part]])
    facts[name] = spoilt_document(facts[name], rng)
    try:
        return save(arrays, metadata={"skdpsynth": _signed(facts, arrays)})
    except ValueError:  # NaN, which no writer of ours takes
        return data[:-1]


def as_short(loaded, saved):
    """Set back what only makes a fit longer, which everybody sees."""
    for name, before in saved.items():
        now = getattr(loaded, name)
        longer = type(before) is int and type(now) in (int, float) and now > before
        if longer or name.endswith("hidden_dims"):
            setattr(loaded, name, before)
    return loaded


def check(valid, folder, seeds):
    """Load spoilt files, use those that load, and count what came of them."""
    told = {"refused": 0, "used": 0, "alike": 0}
    path = folder / "spoilt"
    for seed in seeds:
        rng = random.Random(seed)
        kind, saved, own, data = rng.choice(valid)
        path.write_bytes(spoilt(data, rng))
        try:
            loaded = kind.load(path)
        except PersistenceError:
            told["refused"] += 1
            continue
        loaded.sample(30, random_state=0, output="pandas")
        again = as_short(loaded, saved)
        another = IndependentSynthesizer(50.0, schema=loaded.schema_, random_state=0)
        for synth in (again, another):
            told["alike" if alike(synth, own, seed) else "used"] += 1
    return told


def test_spoilt_generators(valid, tmp_path):
    """Of 60 some are refused and some are used."""
    told = check(valid, tmp_path, range(60))
    assert told["refused"] >= 30
    assert told["used"] >= 5


@pytest.mark.nightly
def test_ten_thousand_spoilt_generators(valid, tmp_path):
    check(valid, tmp_path, range(1_000, 11_000))
