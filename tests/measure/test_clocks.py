"""Times of day, days of the week, and the share of midnight."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer, TableSchema
from skdpsynth.audit import replay
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Continuous, Datetime, Ordered
from skdpsynth.table import FINEST, NumericDomain, domain_from_dict

N = 20_000
DAY, WEEK = 86_400.0, 604_800.0
SECONDS = {"us": 1e-6, "s": 1.0, "min": 60.0, "h": 3600.0}
YEAR = Datetime("2024-01-01", "2025-01-01")


def visits(unit, midnight=0.3, n=N, zone=None):
    """Times of a year with more and more rows: by day, few at weekends, some dates."""
    rng = np.random.default_rng(0)
    hours = np.exp(-0.5 * ((np.arange(24) - 14) / 3) ** 2)
    days = np.where(np.arange(366) % 7 < 5, 1.0, 0.3) * np.linspace(0.5, 1.5, 366)
    of_day = 3600 * rng.choice(24, n, p=hours / hours.sum()) + rng.uniform(0, 3600, n)
    of_day = np.where(rng.random(n) < midnight, 0.0, of_day // SECONDS[unit])
    seconds = DAY * rng.choice(366, n, p=days / days.sum()) + of_day * SECONDS[unit]
    times = pd.Series(YEAR.low + pd.to_timedelta(seconds, unit="s").round("us"))
    times = times.dt.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
    return times.copy()  # pandas 2 warns where what `dt` gives is changed


def distance(first, second):
    """Return the total variation between two columns of few values."""
    shares = [own.value_counts(normalize=True) for own in (first, second)]
    return 0.5 * shares[0].sub(shares[1], fill_value=0).abs().sum()


def drawn(times, spec=None, epsilon=1.0):
    """Fit times beside another column, with frozen noise, and draw rows."""
    table = pd.DataFrame({"at": times, "k": np.where(times.dt.month < 5, "a", "b")})
    schema = TableSchema({} if spec is None else {"at": spec})
    synth = MarginalSynthesizer(epsilon, schema=schema, random_state=0)
    with insecure_randomness(0):
        return synth.fit(table).sample(N, random_state=1)["at"]


@pytest.mark.parametrize("unit", SECONDS)
@pytest.mark.parametrize(("spec", "zone"), [(None, "America/New_York"), (YEAR, None)])
def test_times_come_back_as_the_clock_shows_them(unit, spec, zone):
    """And with their trend, at epsilon 1; without, all are as good as even."""
    times = visits(unit, zone=zone)
    rows = drawn(times, spec)
    assert distance(times.dt.hour, rows.dt.hour) < 0.03
    assert distance(times.dt.day_of_week, rows.dt.day_of_week) < 0.03
    assert distance(times.dt.month, rows.dt.month) < 0.05
    midnights = [(own == own.dt.normalize()).mean() for own in (times, rows)]
    assert abs(midnights[0] - midnights[1]) < 0.02


@pytest.mark.parametrize("n", [500, 1000, 2000])
def test_noise_makes_hours_of_few_rows_no_worse(n):
    """Than even ones are, whether the hours are even or not."""
    for times in (visits("min", 0.0, n), YEAR.low + visits("us", 0, n).diff().abs()):
        times = times.dropna()
        rows = drawn(times, YEAR)
        even = 0.5 * abs(np.bincount(times.dt.hour, minlength=24) / n - 1 / 24).sum()
        assert distance(times.dt.hour, rows.dt.hour) < even + 0.05


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_a_value_of_many_rows_is_no_midnight_of_others(zone):
    """A third are 2024-03-01; the others are never at midnight."""
    times = visits("us", 0.0, zone=zone)
    times[::3] = pd.Timestamp("2024-03-01", tz=zone)
    rows = drawn(times, epsilon=10.0)
    assert (rows == times[0]).mean() == pytest.approx(1 / 3, abs=0.02)
    others = rows[rows != times[0]]
    assert (others.dt.normalize() == others).mean() < 0.01


rooms = st.floats(0.1, 10.0)


@given(
    st.sampled_from([FINEST, 1.0, 60.0, 3600.0]),
    st.lists(rooms, min_size=7, max_size=7) | st.just([]),
    st.lists(rooms, min_size=24, max_size=24),
    st.lists(rooms, min_size=60, max_size=60),
)
@settings(max_examples=30, deadline=None)
def test_the_order_stays_and_every_time_comes_back(step, weekdays, hours, minutes):
    """Of days in two weeks, beside midnights and hours; also through a file."""
    midnight = [] if step == 3600.0 else [1e-3]
    given = {"weekdays": tuple(weekdays), "hours": (*midnight, *hours)}
    if step in (1.0, 60.0):
        given["remainders"] = tuple((np.array(minutes) / np.mean(minutes)).tolist())
    low, high = -WEEK / step, WEEK / step - 1
    domain = NumericDomain(low, high, False, True, False, step=step, **given)
    domain = domain_from_dict(domain.to_dict())
    times = np.arange(-WEEK, WEEK, 3600.0)
    times = np.concatenate([times, times + step, times - step + 3600])
    times = np.unique(times[times < WEEK])
    places = domain.to_unit(times)
    assert (np.diff(places) >= 0).all()
    np.testing.assert_allclose(domain.from_unit(places), times, atol=1e-3)
    day = np.array(weekdays or [1.0] * 7)
    begins = np.array([domain.span(DAY * j, DAY)[0] for j in range(8)])
    np.testing.assert_allclose(np.diff(begins), day / day.sum() / 2, rtol=1e-4)


def test_one_row_moves_clocks_by_the_sensitivity():
    """Whatever its time: at midnight, out of range, missing."""
    times = visits("us", n=600)
    times[:3] = [YEAR.low, pd.Timestamp("1999-01-01 10:00"), pd.NaT]
    table = pd.DataFrame({"a": times, "b": times[::-1].to_numpy()})
    spec = Datetime(YEAR.low, YEAR.high, nullable=True)
    synth = IndependentSynthesizer(50.0, schema=TableSchema({"a": spec, "b": spec}))
    assert not replay(synth, table).findings
    lines = {entry.name: entry for entry in synth.fit(table).privacy_report().entries}
    assert "decimals" not in lines  # of what is declared: as fine as its dtype
    for name in ("days of the week", "hours of the day"):
        assert lines[name].sensitivity == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(("unit", "n"), [("D", N), ("h", N), ("min", 3000), ("D", 900)])
@pytest.mark.parametrize("spec", [None, Continuous("0D", "400D")])
def test_durations_stay_whole(unit, n, spec):
    """Whole days, hours or minutes, found as the units of times are; epsilon 1."""
    numbers = np.random.default_rng(0).integers(5, 400, n)
    spans = pd.Series(pd.to_timedelta(numbers, unit))
    schema = TableSchema({} if spec is None else {"a": spec})
    synth = IndependentSynthesizer(1.0, schema=schema, random_state=0)
    with insecure_randomness(0):
        rows = synth.fit(spans.to_frame("a")).sample(N, random_state=0)["a"]
    assert (rows % pd.Timedelta(1, unit) == pd.Timedelta(0)).all()
    assert rows.mean() / spans.mean() == pytest.approx(1.0, abs=0.05)
    assert synth.schema_.columns["a"].unit == unit
    again = IndependentSynthesizer(1.0, schema=synth.schema_).fit(spans.to_frame("a"))
    assert "decimals" not in {e.name for e in again.privacy_report().entries}


@pytest.mark.parametrize("form", ["%H:%M", "%-H:%M:%S"])
def test_times_of_day_as_texts_are_named_with_a_remedy(form):
    """That works: some are found as categories, and most are not."""
    times = visits("s", 0.0).dt.round("min").dt.strftime(form).copy()
    times[: N // 5] = pd.Timestamp("2024-01-01 07:30").strftime(form)
    words = (
        "texts in 'at' .*, so that .* pd.to_timedelta\\(.*\\), after appending \":00\""
    )
    synth = IndependentSynthesizer(1.0, random_state=0)
    with insecure_randomness(0), pytest.warns(DegradedResultWarning, match=words):
        synth.fit(times.to_frame("at"))
    spans = pd.to_timedelta(times if "S" in form else times + ":00").to_frame("at")
    rows = synth.fit(spans).sample(N)["at"]
    assert (rows % pd.Timedelta("1min") == pd.Timedelta(0)).all()
    assert rows.mean() / spans["at"].mean() == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("n_rows", "unit"), [(300, "min"), (300, "D"), (9_000, "min")])
def test_times_of_day_that_are_not_measured_are_named(n_rows, unit, ordered):
    """By `plan`, and at once after a fit; not where they are, or there are none."""
    day = pd.date_range("2024-01-01", periods=300, unit="s").repeat(n_rows // 300)
    columns = dict.fromkeys(
        ["in", "out"], Datetime("2024-01-01", "2025-12-31", unit=unit)
    )
    rules = [Ordered(["in", "out"])] if ordered else []
    synth = IndependentSynthesizer(1.0, schema=TableSchema(columns, rules=rules))
    table = pd.DataFrame(dict.fromkeys(columns, day + pd.Timedelta("9h")))
    [note] = synth.plan(dtypes=table.dtypes, n_rows=n_rows)["note"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        synth.fit(table)
    named = "times of day well, which come back more evenly spread in 'in', 'out'"
    told = named in note, any(named in str(each.message) for each in caught)
    assert told == ((n_rows, unit) == (300, "min"),) * 2
