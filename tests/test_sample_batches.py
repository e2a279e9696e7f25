"""Batches: one table in parts, in the memory of one part."""

import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from _rules import SCHEMA, TABLE
from scipy.stats import ks_2samp

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.schema import Identifier, TableSchema


@pytest.fixture(scope="module")
def synth():
    numbers = np.arange(900)
    label = np.where(numbers % 10 > 5, "q", "p")
    table = pd.DataFrame(
        {
            "id": numbers,
            "name": pd.Categorical(numbers.astype(str)),
            "code": pd.Categorical(numbers, ordered=True),
            "x": np.where(label == "q", -numbers, numbers) / 3,
            "k": pd.Categorical(np.where(numbers % 4, "u", None)),
            "y": label,
        }
    )
    schema = TableSchema(dict.fromkeys(["id", "name", "code"], Identifier()))
    return IndependentSynthesizer(math.inf, schema=schema, target="y").fit(table)


@pytest.mark.parametrize("strategy", [None, "balanced", {"p": 100, "q": 3}])
@pytest.mark.parametrize("size", [1, 40, 102, 103, 500])
def test_batches_are_one_table(synth, strategy, size):
    given = {"sampling_strategy": strategy, "random_state": 0}
    parts = [*synth.sample_batches(103, size, **given)]
    assert [len(part) for part in parts[:-1]] == [size] * (len(parts) - 1)
    assert all(part["code"].cat.ordered for part in parts)
    together, whole = pd.concat(parts), synth.sample(103, **given)
    counts = together["y"].value_counts().to_dict()
    assert counts == whole["y"].value_counts().to_dict()
    assert together["id"].tolist() == whole["id"].tolist() == [*range(103)]
    assert together["name"].is_unique
    assert together["code"].is_unique
    own = whole.columns.drop(["name", "code"])  # whose categories are those of a part
    assert together.dtypes[own].equals(whole.dtypes[own])
    if len(parts) == 1:
        pd.testing.assert_frame_equal(parts[0], whole)
    again = synth.sample_batches(103, size, **given)
    pd.testing.assert_frame_equal(together, pd.concat(again))


def test_batches_have_the_law_of_the_table(synth):
    """Also each batch: its classes are as if all rows were shuffled."""
    parts = [*synth.sample_batches(20_000, 2_500, random_state=1)]
    whole = synth.sample(20_000, random_state=2)
    shares = [(part["y"] == "q").mean() for part in parts]
    expected = (whole["y"] == "q").mean()
    assert np.abs(np.array(shares) - expected).max() < 5 * math.sqrt(0.25 / 2_500)
    assert len(set(shares)) > 4
    for label in ("p", "q"):
        own = [rows.loc[rows["y"] == label, "x"] for rows in (pd.concat(parts), whole)]
        assert ks_2samp(*own).pvalue > 1e-6


def test_batches_continue_the_stream(synth):
    first, second = (pd.concat(synth.sample_batches(60, 25)) for _ in range(2))
    assert not first["x"].equals(second["x"])


def test_batches_keep_conditions_and_rules(synth):
    where = {"y": "q", "x": (-250, -20)}
    rows = pd.concat(synth.sample_batches(50, 20, where=where))
    assert rows["x"].between(-250, -20).all()
    assert set(rows["y"]) == {"q"}
    ruled = IndependentSynthesizer(math.inf, schema=SCHEMA).fit(TABLE)
    rows = pd.concat(ruled.sample_batches(90, 40))
    assert (rows["start"] <= rows["end"]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an int >= 1. Got 0"),
        ({"n_samples": 10**9}, "n_samples below 1,000,000,000. Got 1,000,000,000"),
        ({"sampling_strategy": {"p": 3}}, "add up to 3, but n_samples is 10"),
        ({"where": {"y": "p"}, "sampling_strategy": "balanced"}, "leave out"),
    ],
)
def test_arguments_are_checked_at_the_call(synth, given, message):
    with pytest.raises(ValueError, match=message):
        synth.sample_batches(**{"n_samples": 10, **given})


@pytest.mark.usefixtures("short_fits")
def test_memory_is_that_of_a_batch():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(3_000, 8)))
    synth = MarginalSynthesizer(math.inf).fit(table)
    peaks = []
    for n_samples in (20_000, 100_000):
        tracemalloc.start()
        try:
            assert {len(own) for own in synth.sample_batches(n_samples, 10_000)}
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]  # rows alone are 0.64 and 6.4 MB
