"""Rows that satisfy a condition: all do, and they come from the right distribution."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency
from sklearn.base import clone

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.schema import Categorical, Continuous, Datetime, Identifier, TableSchema

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


SCHEMA = TableSchema(
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
    "marginals alone": IndependentSynthesizer(math.inf, schema=SCHEMA),
    "mixture": MarginalSynthesizer(math.inf, schema=SCHEMA),
    "factors": MarginalSynthesizer(math.inf, schema=SCHEMA, order=1),
}


@pytest.fixture(scope="module")
def fitted():
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
def test_every_row_satisfies_it(fitted, form, name):
    where, holds = CONDITIONS[name]
    rows = fitted[form].sample(300, where=where, random_state=1)
    assert len(rows) == 300
    assert holds(rows).all()
    assert (rows.dtypes == make_table(2).dtypes).all()
    assert rows["key"].is_unique


@pytest.mark.statistical
@pytest.mark.parametrize("form", FORMS)
def test_they_come_from_the_distribution_given_the_condition(
    fitted, form, global_random_seed
):
    """n = 4,000 rows beside those of 40,000 others that satisfy the condition.

    Chi-squared of counts by city, label and age; rate 1e-6 for each form.
    """
    where = {"city": ["b", "c"], "age": (30, 70), "dose": (None, 6.0)}
    synth, seed = fitted[form], global_random_seed
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


def test_what_is_refused_leaves_the_stream(fitted):
    """And so does what is drawn with a random state; values may come twice."""
    synth = clone(fitted["marginals alone"]).set_params(random_state=0)
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
def test_what_cannot_be_is_refused(fitted, asked, message):
    given = asked if "where" in asked else {"where": asked}
    with pytest.raises(ValueError, match=message):
        fitted["mixture"].sample(**{"n_samples": 5} | given)


@pytest.mark.nightly
def test_what_a_generator_never_draws_ends(fitted):
    with pytest.raises(ValueError, match=r"were among \d+,\d+,\d+ drawn"):
        fitted["factors"].sample(5, where={"dose": (3.0, 3.0000001)})
