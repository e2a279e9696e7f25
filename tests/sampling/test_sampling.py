"""Class shares become counts that add up; batches are one table; conditions hold."""

import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import chi2_contingency, ks_2samp
from sklearn.base import clone

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.schema import Categorical, Continuous, Datetime, Identifier, TableSchema
from skdpsynth.table import largest_remainder

SCHEMA = TableSchema(
    {"u": Continuous(0, 1, decimals="any"), "y": Categorical(["a", "b", "c"])},
    target="y",
    class_counts={"a": 900, "b": 99, "c": 1},
)
TABLE = pd.DataFrame({"u": np.linspace(0, 1, 1000), "y": ["a"] * 900 + ["b"] * 100})


@pytest.fixture(scope="module")
def fitted():
    return IndependentSynthesizer(math.inf, schema=SCHEMA, random_state=0).fit(TABLE)


@given(
    st.lists(st.floats(0, 1) | st.just(0.0), min_size=1, max_size=30).filter(
        lambda weights: sum(weights) > 1e-6
    ),
    st.integers(1, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_largest_remainder(weights, total):
    shares = np.array(weights) / sum(weights)
    counts = largest_remainder(shares, total)
    present = shares > 0
    assert counts.sum() == total
    assert (counts >= 0).all()
    assert (counts[~present] == 0).all()
    if total >= present.sum():
        assert (counts[present] >= 1).all()
    if (np.floor(shares[present] * total) >= 1).all():  # nobody had to be lifted to 1
        assert (np.abs(counts - shares * total) < 1 + 1e-6).all()


@pytest.mark.parametrize(
    ("n_samples", "strategy", "expected"),
    [
        (1000, None, [900, 99, 1]),  # the bought shares
        (10, None, [8, 1, 1]),
        (2, None, [2, 0, 0]),
        (10, "balanced", [4, 3, 3]),
        (10, {"a": 0.7, "b": 0.2, "c": 0.1}, [7, 2, 1]),
        (10, {"c": 1}, [0, 0, 10]),
        (10, {"a": 3, "c": 7}, [3, 0, 7]),
        (10, {"a": np.int64(10), "b": 0}, [10, 0, 0]),
        (10, {"a": np.float32(0.5), "b": 0.5}, [5, 5, 0]),
    ],
)
def test_strategies(fitted, n_samples, strategy, expected):
    labels = fitted.sample(n_samples, sampling_strategy=strategy)["y"]
    assert [(labels == name).sum() for name in "abc"] == expected


@pytest.mark.parametrize(
    ("n_samples", "strategy", "message"),
    [
        (0, None, ">= 1"),
        (True, None, "Got True"),
        (2.0, None, "Got 2.0"),
        (10, "even", "'balanced'"),
        (10, [1, 2], "list"),
        (10, {"z": 1.0}, "names"),
        (10, {"a": 0.5}, "add up to 0.5"),
        (10, {"a": 5, "b": 6}, "add up to 11"),
        (10, {"a": -1.0, "b": 2.0}, ">= 0"),
        (10, {"a": float("nan")}, ">= 0"),
        (10, {"a": True}, ">= 0"),
        (10, {"a": "all"}, ">= 0"),
    ],
)
def test_wrong_arguments(fitted, n_samples, strategy, message):
    with pytest.raises(ValueError, match=message):
        fitted.sample(n_samples, sampling_strategy=strategy)


# --- Batches: one table in parts, in the memory of one part ---------------------------


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
    assert not any(rows["y"].is_monotonic_increasing for rows in (*parts, whole))
    for label in ("p", "q"):
        own = [rows.loc[rows["y"] == label, "x"] for rows in (pd.concat(parts), whole)]
        assert ks_2samp(*own).pvalue > 1e-6


def test_batches_continue_the_stream(synth):
    first, second = (pd.concat(synth.sample_batches(60, 25)) for _ in range(2))
    assert not first["x"].equals(second["x"])


def test_batches_keep_conditions(synth):
    where = {"y": "q", "x": (-250, -20)}
    rows = pd.concat(synth.sample_batches(50, 20, where=where))
    assert rows["x"].between(-250, -20).all()
    assert set(rows["y"]) == {"q"}


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


def test_batches_that_were_begun_are_of_one_fit():
    first = pd.DataFrame({"a": np.arange(400.0)})
    synth = IndependentSynthesizer(epsilon=5.0).fit(first)
    batches = synth.sample_batches(20, batch_size=10)
    synth.fit(first.rename(columns={"a": "b"}))
    assert [list(batch.columns) for batch in batches] == [["a"], ["a"]]


# --- Rows that satisfy a condition: all do, from the right distribution ---------------


ZONE = "Europe/Berlin"
MARCH = pd.Timestamp("2020-03-01", tz=ZONE)


def make_table(n_rows=1200):
    rng = np.random.default_rng(0)
    city = rng.choice(["a", "b", "c"], n_rows, p=[0.6, 0.3, 0.1])
    age = rng.integers(18, 90, n_rows)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(
        rng.integers(0, 365, n_rows), "D"
    )
    return pd.DataFrame(
        {
            "city": city,
            "age": age,
            "dose": np.where(rng.random(n_rows) < 0.3, np.nan, rng.random(n_rows) * 9),
            "debt": np.where(rng.random(n_rows) < 0.4, 0.0, rng.normal(0, 50, n_rows)),
            "price": rng.integers(0, 1000, n_rows) / 100,
            "day": days,
            "seen": days.tz_localize(ZONE),
            "ill": (age > 60) ^ (city == "a"),
            "key": [f"k{i}" for i in range(n_rows)],
            "code": rng.integers(0, 5, n_rows),
            "wait": pd.to_timedelta(rng.integers(0, 90, n_rows), "s"),
        }
    )


CLINIC = TableSchema(
    {
        "city": Categorical(["a", "b", "c"]),
        "age": Continuous(18, 90, integer=True),
        "dose": Continuous(0, 10, nullable=True, decimals="any"),
        "debt": Continuous(-200, 200, decimals="any"),
        "price": Continuous(0, 10, decimals=2),
        "day": Datetime("2020-01-01", "2020-12-31"),
        "seen": Datetime("2020-01-01T00:00+01:00", "2020-12-31T00:00+01:00"),
        "key": Identifier(),
        "code": Categorical([0, 1, 2, 3, 4]),
        "wait": Continuous("0s", "90s"),
    },
    target="ill",
)
# Without noise: what is asked for is there.
FORMS = {
    "marginals alone": IndependentSynthesizer(math.inf, schema=CLINIC),
    "mixture": MarginalSynthesizer(math.inf, schema=CLINIC),
    "factors": MarginalSynthesizer(math.inf, schema=CLINIC, order=1),
}


@pytest.fixture(scope="module")
def forms():
    table = make_table()
    found = {name: synth.fit(table) for name, synth in FORMS.items()}
    for loadings in found["factors"].generator_.loadings:
        loadings[:, 0] = 0.7
    return found


CONDITIONS = {
    "one level": ({"city": "b"}, lambda t: t["city"] == "b"),
    "levels": ({"city": ["a", "c"]}, lambda t: t["city"].isin(["a", "c"])),
    "whole numbers": ({"age": (30, 40)}, lambda t: t["age"].between(30, 40)),
    "numbers": ({"age": [33, 50]}, lambda t: t["age"].isin([33, 50])),
    "categories in order": ({"code": (1, 3)}, lambda t: t["code"].between(1, 3)),
    "seconds": (
        {"wait": (10, 20)},
        lambda t: t["wait"].dt.total_seconds().between(10, 20),
    ),
    "open end": ({"dose": (5.0, None)}, lambda t: t["dose"] >= 5),
    "missing": ({"dose": None}, lambda t: t["dose"].isna()),
    "exact zero": ({"debt": 0}, lambda t: t["debt"] == 0),
    "beside zero": ({"debt": (-30, -1e-6)}, lambda t: t["debt"].between(-30, 0)),
    "decimals": ({"price": (1.25, 1.75)}, lambda t: t["price"].between(1.25, 1.75)),
    "days": (
        {"day": ("2020-03-01", "2020-04-01")},
        lambda t: t["day"].between("2020-03-01", "2020-04-01"),
    ),
    "zone": ({"seen": (MARCH, None)}, lambda t: t["seen"] >= MARCH),
    "target": ({"ill": True, "city": "a"}, lambda t: t["ill"] & (t["city"] == "a")),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CONDITIONS)
def test_every_row_satisfies_it(forms, form, name):
    where, holds = CONDITIONS[name]
    rows = forms[form].sample(300, where=where, random_state=1)
    assert len(rows) == 300
    assert holds(rows).all()
    assert (rows.dtypes == make_table(2).dtypes).all()
    assert rows["key"].is_unique


@pytest.mark.statistical
@pytest.mark.parametrize("form", FORMS)
def test_they_come_from_the_distribution_given_the_condition(
    forms, form, global_random_seed
):
    """n = 4,000 rows beside those of 40,000 others that satisfy the condition.

    Chi-squared of counts by city, label and age; rate 1e-6 for each form.
    """
    where = {"city": ["b", "c"], "age": (30, 70), "dose": (None, 6.0)}
    synth, seed = forms[form], global_random_seed
    ours = synth.sample(4_000, where=where, random_state=seed)
    free = synth.sample(40_000, random_state=seed + 100)
    free = free[free["city"].isin(["b", "c"]) & free["age"].between(30, 70)]
    free = free[free["dose"] <= 6]
    cells = [
        part["city"] + part["ill"].astype(str) + (part["age"] // 10).astype(str)
        for part in (ours, free)
    ]
    counts = pd.concat([part.value_counts() for part in cells], axis=1).fillna(0)
    counts = counts[counts.sum(axis=1) >= 10]
    assert chi2_contingency(counts).pvalue > 1e-6


HOURS = pd.date_range("2020-10-20", "2020-11-05", freq="15min", tz="America/New_York")


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize(
    ("unit", "dtype", "synthesizer"),
    [
        (None, "datetime64[us, America/New_York]", IndependentSynthesizer),
        ("h", "timestamp[us, tz=America/New_York][pyarrow]", MarginalSynthesizer),
    ],
)
def test_times_in_a_zone_over_a_clock_change(unit, dtype, synthesizer):
    """The clock is put back at 2:00 on 1 November: 1:30 comes twice."""
    when = HOURS if unit is None else HOURS.floor("h", ambiguous=True)
    table = pd.DataFrame({"when": when.as_unit("us"), "a": range(len(HOURS))})
    table["when"] = table["when"].astype(dtype)
    known = Datetime(HOURS[0], HOURS[-1], unit=unit)
    schema = TableSchema({"when": known, "a": Continuous(0, 2e3)})
    synth = synthesizer(math.inf, schema=schema, random_state=0).fit(table)
    low, high = HOURS[-600], pd.Timestamp("2020-11-01T05:00Z")
    for ends in ((low, high), (high, None), (None, low)):
        found = synth.sample(500, where={"when": ends}, random_state=2)["when"]
        found = found.astype("datetime64[us, America/New_York]")
        assert found.between(ends[0] or HOURS[0], ends[1] or HOURS[-1]).all()


def test_what_is_refused_leaves_the_stream(forms):
    """And so does what is drawn with a random state; values may come twice."""
    synth = clone(forms["marginals alone"]).set_params(random_state=0)
    first, second = (clone(synth).fit(make_table()) for _ in range(2))
    with pytest.raises(ValueError, match="names 'town'"):
        first.sample(9, where={"town": "a"})
    once, twice = (
        first.sample(90, where={"age": ages}, random_state=4)
        for ages in ([30, 50], [50, 30, 30.0])
    )
    pd.testing.assert_frame_equal(once, twice)
    pd.testing.assert_frame_equal(first.sample(9), second.sample(9))


SHARES = {"where": {"city": "a"}, "sampling_strategy": "balanced"}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["city"], "must be a dict.*Got list"),
        ({"town": "a"}, "names 'town', but rows can be chosen by these columns only"),
        ({"city": "z"}, r"where\['city'\].*categories, which are \['a', 'b', 'c'\]"),
        ({"age": "old"}, r"where\['age'\].*kind of the column \(integer\). Got str"),
        ({"age": (1, 2, 3)}, "two ends. Got a tuple of 3"),
        ({"day": "once"}, "datetime"),
        ({"city": ("a", "b")}, "is a tuple, which is a range"),
        ({"age": (200, 300)}, r"No synthetic row has .* of \['age'\]: schema_ has"),
        ({"ill": []}, r"asks for of \['ill'\]"),
        ({"ill": None}, r"asks for of \['ill'\]"),
        ({"dose": (3.0, 3.0)}, r"asks for of \['dose'\]"),
        (SHARES, "leave out sampling_strategy"),
        ({"where": {"city": "a"}, "n_samples": 2.5}, "n_samples must be an int >= 1"),
    ],
)
def test_what_cannot_be_is_refused(forms, asked, message):
    given = asked if "where" in asked else {"where": asked}
    with pytest.raises(ValueError, match=message):
        forms["mixture"].sample(**{"n_samples": 5} | given)


@pytest.mark.nightly
def test_what_a_generator_never_draws_ends(forms):
    with pytest.raises(ValueError, match=r"were among \d+,\d+,\d+ drawn"):
        forms["factors"].sample(5, where={"dose": (3.0, 3.0000001)})
