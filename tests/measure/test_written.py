"""How numbers are written: decimals, tens, last digits, values that are frequent."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from _reserve import run_step
from hypothesis import given, settings, strategies as st
from scipy import stats

from skdpsynth import IndependentSynthesizer
from skdpsynth.audit import replay
from skdpsynth.measure import Discovery
from skdpsynth.privacy.testing import insecure_randomness, observe_releases
from skdpsynth.schema import NOTHING_STATED, Continuous, Ordered, TableSchema
from skdpsynth.table import ColumnLayout, NumericDomain, TableLayout

N = 30_000


def read_off(name, values, domain, counts, std=0.0):
    """Return what a step reads off noisy counts of one column."""
    column = ColumnLayout.of("a", pd.Series(values))
    layout = TableLayout.of((column,), None, NOTHING_STATED)
    steps = Discovery(layout, NOTHING_STATED).column_steps
    (step,) = (own for own in steps if own.name == name)
    counts = np.append(counts, 0)  # of rows that say nothing
    released = SimpleNamespace(counts=counts, noise_std=std, n_rows=counts.sum())
    return step.read(column, domain, released)


def fitted(values, epsilon=math.inf, spec=None, n=N, rules=()):
    """Fit a table, or one column, with frozen noise: its domains, and drawn rows."""
    one = not isinstance(values, pd.DataFrame)
    frame = pd.DataFrame({"a": values}) if one else values
    columns = {} if spec is None else dict.fromkeys(frame, spec)
    schema = TableSchema(columns, rules=list(rules))
    synth = IndependentSynthesizer(epsilon, schema=schema, random_state=0)
    with insecure_randomness(0):
        synth.fit(frame)
    drawn = synth.sample(n, random_state=1)
    domains = synth._model.metadata.domains
    return (domains[0], drawn["a"]) if one else (domains, drawn)


@st.composite
def rooms(draw):
    period = draw(st.sampled_from([7, 24, 60, 100]))
    room = draw(st.lists(st.floats(0.01, 9.0), min_size=period, max_size=period))
    return tuple((np.array(room) / np.mean(room)).tolist())


@given(rooms(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_every_number_has_its_room_and_the_order_stays(room, timed):
    """The cell of a number is as wide as its room, but below 100 of signed ones."""
    step = 86_400.0 if timed else None
    domain = NumericDomain(-334, 333, False, True, False, step=step, remainders=room)
    numbers = np.arange(-334, 334)
    values = domain.from_steps(numbers.astype(float))
    spans = np.array([domain.span(value, value) for value in values.tolist()])
    np.testing.assert_allclose(spans[1:, 0], spans[:-1, 1], atol=1e-12)
    place = numbers if timed else np.abs(numbers)
    width = np.array(room)[place % len(room)]
    if not timed:
        width = np.where(place < len(room), 1.0, width)
    np.testing.assert_allclose(np.diff(spans)[:, 0], width / width.sum(), rtol=1e-6)


def test_one_row_moves_remainders_by_the_sensitivity():
    """Whatever it holds: numbers of few digits, and those out of range, too."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(-999, 999, (500, 3)), columns=["a", "b", "c"])
    frame.loc[0], frame.loc[499] = [1, 150, 399], [7, 0, -1]
    schema = TableSchema(dict.fromkeys(frame, Continuous(-990, 990)))
    synth = IndependentSynthesizer(1e3, schema=schema)
    assert not replay(synth, frame).findings
    (line,) = (e for e in synth.fit(frame).privacy_report().entries if "rem" in e.name)
    assert line.sensitivity == pytest.approx(math.sqrt(3))


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_remainders_are_those_of_pandas(zone):
    """Without noise, of 1960 to 1980: room in proportion to the rows of each day."""
    rng = np.random.default_rng(1)
    days = pd.Timestamp("1960-01-01") + pd.to_timedelta(rng.integers(0, 7000, N), "D")
    days = pd.Series(days[(days.day_of_week != 6) | (rng.random(N) < 0.3)])
    if zone is not None:
        days = days.dt.tz_localize(zone)
    domain = NumericDomain(-4000, 4000, False, True, False, step=86_400.0)
    (found,) = run_step("remainders", days.to_frame("a"), known=[domain])
    monday_first = np.roll(found.remainders, 3)  # 1970-01-01 was a Thursday
    expected = days.dt.day_of_week.value_counts(normalize=True).sort_index() * 7
    np.testing.assert_allclose(monday_first, expected, atol=0.02)


@pytest.mark.parametrize("decimals", [0, 2, -1])
def test_last_digits_are_those_of_pandas(decimals):
    """Without noise; of both signs, and not of numbers of one or two digits.

    Even and odd hundreds have the same habits.
    """
    rng = np.random.default_rng(2)
    steps = rng.integers(-3000, 3001, N)
    steps[::2] = rng.integers(-99, 100, N // 2)
    steps[1::6] = rng.choice([-1295, 1395, 450, 550], len(steps[1::6]))
    frame = pd.DataFrame({"a": steps / 10.0**decimals})
    domain = NumericDomain(-2500, 2500, False, True, False, decimals=decimals)
    (found,) = run_step("remainders", frame, known=[domain])
    sizes = pd.Series(steps).abs()
    counts = sizes[sizes.between(100, 2500)].mod(100).value_counts().sort_index()
    assert (counts.index == np.arange(100)).all()
    expected = 100 * counts.to_numpy() / counts.sum()
    np.testing.assert_allclose(found.remainders, expected, rtol=0.05)


@pytest.mark.statistical
@pytest.mark.parametrize("period", [7, 100])
def test_noise_gives_no_number_much_room(period, global_random_seed):
    """100 draws of even counts with noise of a tenth.

    At most 10,000 normal numbers are within 6.5 deviations, but for 8e-7. Tens and
    units of digits may add a third of that each. Most are drawn to what is even.
    """
    step = None if period == 100 else 86_400.0
    domain = NumericDomain(-4000, 4000, False, True, False, step=step)

    def room_of(counts, std):
        return read_off("remainders", [1.0], domain, counts.ravel(), std).remainders

    assert room_of(np.full((2, period), 300), 4.0) == ()
    rng, beside = np.random.default_rng(global_random_seed), []
    for _ in range(100):
        noisy = np.rint(rng.normal(500, 71, (2, period))).astype(np.int64)
        room = np.array(room_of(noisy, 71.0) or [1.0] * period)
        assert room.mean() == pytest.approx(1.0)
        assert np.abs(room - 1).max() < 0.1 * (6.5 * 1.7)
        beside.append(np.abs(room - 1).mean())
    assert np.mean(beside) < 0.03  # of noise alone: 0.08


def test_where_the_rows_lie_is_no_habit():
    """Most rows are between 650 and 749: digits 50 to 99 of one hundred, 0 to 49 of
    the next, which have nothing in common. Twice as many end in 0 in both.
    """
    counts = np.full((2, 100), 20)
    counts[0, 50:] = counts[1, :50] = 400
    domain = NumericDomain(0, 4000, False, True, False)
    found = read_off("remainders", [1], domain, counts.ravel(), 10.0)
    assert np.ptp(found.remainders or [1.0]) < 0.2
    counts[:, ::10] *= 2
    found = read_off("remainders", [1], domain, counts.ravel(), 10.0)
    room = np.array(found.remainders).reshape(10, 10)
    np.testing.assert_allclose(room[:, 0] / room[:, 1:].mean(axis=1), 2.0, rtol=0.15)


@pytest.mark.parametrize("seconds", [False, True])
def test_clock_times_have_minutes_and_seconds_below_sixty(seconds):
    """1430 or 143059: two numbers in five end in 60 to 99, and no clock time does."""
    rng = np.random.default_rng(0)
    times = 100 * rng.integers(6, 24, 60_000) + rng.integers(0, 60, 60_000)
    if seconds:
        times = 100 * times + rng.integers(0, 60, 60_000)
    _, drawn = fitted(times, epsilon=1.0)
    assert (drawn % 100 > 59).mean() < 0.03


def test_multiples_of_a_thousand_come_back_as_such():
    rng = np.random.default_rng(0)
    amounts = 1000 * rng.integers(1, 700, N)
    mixed = np.where(np.arange(N) % 20, amounts, amounts + rng.integers(1, 999, N))
    frame = pd.DataFrame({"a": amounts, "b": mixed, "c": amounts.astype(float)})
    frame["d"] = np.where(np.arange(N) % 200, 0, 1234)  # zeros say nothing
    found, drawn = fitted(frame, epsilon=1.0)
    assert [domain.decimals for domain in found] == [-3, 0, -3, 0]
    assert (drawn[["a", "c"]] % 1000 == 0).all(axis=None)
    assert drawn["a"].nunique() > 400
    assert (drawn["b"] % 1000 != 0).mean() > 0.02
    (few,), _ = fitted(frame[["a"]][:500], epsilon=1.0, n=10)
    assert few.decimals == 0  # nobody asked


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_columns_in_rules_are_not_put_on_tens(dtype):
    low = 1000 * np.random.default_rng(0).integers(1, 500, N)
    frame = pd.DataFrame({"a": low, "b": low + 5000}).astype(dtype)
    for rules, decimals in (((), -3), ([Ordered(["a", "b"])], 0)):
        found, _ = fitted(frame, spec=Continuous(0, 10**6), n=10, rules=rules)
        assert [domain.decimals for domain in found] == [decimals, -3]  # a gap may be


HALF = 500_000_000_000
SPIKED = {
    "logarithm": ([math.log(3)], lambda rng: rng.lognormal(0, 1, N)),
    "huge": ([123_456_789_012], lambda rng: rng.integers(0, 10**12, N)),
    "consecutive": ([*range(5000, 5006)], lambda rng: rng.integers(0, 20_000, N)),
    "lowest": ([18.0], lambda rng: rng.uniform(18, 65, N)),
    "near, of many": ([HALF + 1, HALF + 3], lambda rng: rng.integers(0, 10**12, N)),
}


@pytest.mark.parametrize("name", SPIKED)
def test_frequent_values_come_back_to_the_bit(name):
    """Without noise: 30,000 drawn rows have a share within 6 deviations of .0026.

    Three in ten rows have one of the spikes, each equally often.
    """
    (spikes, others), rng = SPIKED[name], np.random.default_rng(0)
    values = np.where(rng.random(N) < 0.3, rng.choice(spikes, N), others(rng))
    spec = Continuous(18, 65, decimals="any") if name == "lowest" else None
    _, drawn = fitted(values, spec=spec)
    assert drawn.dtype == values.dtype
    room = 0.016 if len(spikes) > 1 else 0.01
    for value in spikes:
        share = (values == value).mean()
        assert (drawn == value).mean() == pytest.approx(share, abs=room)


def test_frequent_values_keep_their_share_beside_zeros():
    """Their share is of all rows, also where several share a bin with other numbers.

    Rows without a value, and those out of range, have none.
    """
    rng = np.random.default_rng(0)
    prices = rng.integers(100, 200, N) * 100.0
    prices[rng.random(N) < 0.5] += 0.37
    others = rng.random(N) < 0.4
    prices[others] = rng.uniform(10_000, 20_000, others.sum())
    prices[rng.random(N) < 0.3] = 0.0
    prices[rng.random(N) < 0.1] = np.nan
    prices[rng.random(N) < 0.05] = 30_000.0
    spec = Continuous(0, 20_000, scale="linear", nullable=True)
    domain, drawn = fitted(prices, spec=spec)
    whole = np.arange(100, 200) * 100.0
    assert {value for value, _ in domain.frequent} == {*whole, *(whole + 0.37)}
    expected = np.isin(prices, whole).mean()
    assert np.isin(drawn, whole).mean() == pytest.approx(expected, abs=0.015)


# --- Decimals and units of time -----------------------------------------------------

SOME = 6000
WIDE = NumericDomain(0.0, 300.0, log=False, integer=False, nullable=False)
NONE = 5  # the cell of values that are finer than four decimals
SILENT = 6


def written(decimals, n=SOME, seed=0):
    """Make numbers of so many decimals, as a file would be read."""
    numbers = np.random.default_rng(seed).uniform(0.1, 250, n)
    return pd.Series([float(f"{number:.{decimals}f}") for number in numbers])


def codes_of(values, dtype="float64"):
    """Give the cell that each value is counted in, as the only one of a column."""
    series, seen = pd.Series(values).astype(dtype), []
    frame = pd.DataFrame({str(at): series[at : at + 1] for at in range(len(series))})
    own = {name: frame[name].dropna().reset_index(drop=True) for name in frame}
    with observe_releases(seen.append):
        discovered(pd.DataFrame(own))
    return seen[0].exact.reshape(len(series), -1).argmax(axis=1).tolist()


@pytest.mark.parametrize(
    ("values", "dtype", "cells"),
    [
        ([3.0, -17.0, 0.5, 0.29, 1.005, 0.0001], "float64", [0, 0, 1, 2, 3, 4]),
        ([math.pi, 1e15 + 0.5, -1e308, 5e-324], "float64", [NONE, 1, 0, NONE]),
        # What a float rounds away is no sign of a whole number.
        ([130.125], "float16", [3]),
        ([2e6 + 0.5, 0.1, 123.4], "float32", [1, 1, 1]),
        ([np.nan, 0.0, -0.0], "float64", [SILENT] * 3),
        ([None, 0.0, 2.5], "Float64", [SILENT, SILENT, 1]),
    ],
)
def test_a_value_is_in_the_cell_of_its_decimals(values, dtype, cells):
    assert codes_of(values, dtype) == cells


@pytest.mark.statistical
@pytest.mark.parametrize(("cell", "expected"), [(NONE, None), (2, 2)])
def test_noise_is_not_taken_for_a_resolution(cell, expected, global_random_seed):
    """4,000 fine floats, or numbers of two decimals: n = 5,000 draws of noise of 90.

    A resolution needs as many rows as the finer ones and more: for another one, noise
    of 18 deviations would be needed, or of 3, which the bound 1e-6 allows for.
    """
    rng, n = np.random.default_rng(global_random_seed), 5_000
    noise = rng.normal(0, 90.0, (n, 6))
    noise[:, cell] += 4000
    two = WIDE.with_decimals(2)
    found = [read_off("decimals", [0.5], WIDE, counts, 90.0) for counts in noise]
    wrong = sum(own != (WIDE if expected is None else two) for own in found)
    needed = 18 if expected is None else 3.0
    assert wrong <= stats.binom.isf(1e-6, n, stats.norm.sf(needed))


@pytest.mark.parametrize(
    ("share", "decimals", "std", "expected"),
    [
        (0.05, 0, 40.0, 0),  # a flag that 200 of 4,000 rows have
        (0.05, 2, 80.0, 2),  # of so many amounts two and a half deviations are likely
        (0.05, 2, 4.0, 2),
        (0.5, 2, 40.0, 2),
        (0.5, 2, 500.0, None),  # 2,000 rows may be fractions, and nothing is seen
    ],
)
def test_numbers_among_zeros_are_whole_unless_finer(share, decimals, std, expected):
    """Which are seen if they are more than noise makes up."""
    values = np.zeros(4000)
    values[: int(share * 4000)] = written(decimals, int(share * 4000))
    with insecure_randomness(0):
        (domain,) = discovered(pd.DataFrame({"a": values}), 1.0 / std)
    assert (domain.decimals if domain.integer else None) == expected


def discovered(frame, mu=2.0, domain=WIDE):
    return run_step("decimals", frame, mu=mu, known=[domain] * frame.shape[1])


@pytest.mark.parametrize(
    "values",
    [
        # One value more than 1 in 100 is finer than a resolution.
        [*range(1, 5941), *[7.12345678] * 61],
        [*[math.nan] * 3000, *[0.0] * 3000, 7.0],
    ],
)
def test_what_was_released_decides_the_resolution(values):
    """At an edge: without the last row the exact numbers would decide otherwise."""
    schema = TableSchema({"a": Continuous(0, 300)})
    synth = IndependentSynthesizer(50.0, schema=schema)
    assert not replay(synth, pd.DataFrame({"a": values}), rows=["last"]).findings


@pytest.mark.parametrize("decimals", range(5))
def test_decimals_are_found(decimals):
    """Noise of 0.7 rows against thousands: a wrong answer is beyond 1e-9."""
    series = written(decimals)
    series[::7] = np.nan
    (domain,) = discovered(pd.DataFrame({"a": series}))
    assert (domain.decimals, domain.integer) == (decimals, True)
    assert (domain.low, domain.high) == (0.0, 300.0 * 10**decimals)


@pytest.mark.parametrize(
    ("freq", "step"), [("D", 86_400.0), ("h", 3600.0), ("73min", 60.0), ("7s", 1.0)]
)
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_units_of_time_are_found(freq, step, zone):
    times = pd.date_range("2019-01-01", periods=SOME, freq=freq, tz=zone)
    frame = pd.DataFrame({"t": times})
    domain = NumericDomain(0.0, 4e9, log=False, integer=False, nullable=False)
    (found,) = discovered(frame, domain=domain)
    assert found.step == step
    assert found.integer


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_times_at_the_end_of_the_calendar_are_clamped(zone):
    """9999-12-31 stands for "never": it says nothing, and comes back as the bound."""
    days = pd.Series(pd.date_range("2019-01-01", periods=SOME, tz=zone, unit="s"))
    ends = ["9999-12-31T17:30:01", "0001-01-02T03:04:05"]
    some = pd.Series(np.array(ends, dtype="M8[s]"))
    if zone is not None:
        some = some.dt.tz_localize("UTC").dt.tz_convert(zone)
    frame = pd.DataFrame({"t": pd.concat([days, *[some] * 100], ignore_index=True)})
    synth = IndependentSynthesizer(epsilon=50.0, random_state=0).fit(frame)
    assert synth.schema_.columns["t"].unit == "D"
    drawn = synth.sample(500)["t"]
    assert (drawn == drawn.dt.normalize()).all()
    assert drawn.dt.year.between(1899, 2102).all()


def test_bounds_that_are_no_multiples_lie_inside():
    domain = NumericDomain(0.204, 5.017, False, False, False).with_decimals(2)
    assert (domain.low, domain.high) == (21.0, 501.0)
    exact = NumericDomain(0.29, 0.57, False, False, False).with_decimals(2)
    assert (exact.low, exact.high) == (29.0, 57.0)


@pytest.mark.parametrize(("huge", "decimals"), [(1e308, None), (-1e308, 2)])
def test_a_value_far_outside_says_nothing(huge, decimals):
    """Warnings are errors here: an overflow would depend on one row."""
    series = written(2)
    series[0] = huge
    columns = {} if decimals is None else {"a": Continuous(0, 300, decimals=decimals)}
    synth = IndependentSynthesizer(epsilon=50.0, schema=TableSchema(columns))
    synth.fit(pd.DataFrame({"a": series}))
    assert synth.schema_.columns["a"].decimals == 2


def test_no_zero_is_negative():
    series = pd.Series(np.rint(np.random.default_rng(0).normal(0, 3, SOME)))
    drawn = IndependentSynthesizer(epsilon=50.0).fit(pd.DataFrame({"a": series}))
    zeros = drawn.sample(3000)["a"].pipe(lambda a: a[a == 0])
    assert len(zeros) > 100
    assert not np.signbit(zeros).any()


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        (np.arange(3000), (0, 2.0**60)),  # int64, not said to be whole
        (np.full(3000, 7.0), (0.5, 0.75)),  # no whole number is inside
        (np.arange(3000) * 2.0**45, (0, 2.0**58)),  # floats hold no other
    ],
)
def test_bounds_that_hold_no_resolution_stay(values, bounds):
    schema = TableSchema({"a": Continuous(*bounds)})
    synth = IndependentSynthesizer(epsilon=50.0, schema=schema)
    synth.fit(pd.DataFrame({"a": values}))
    spec = synth.schema_.columns["a"]
    assert (spec.low, spec.high) == bounds
    assert spec.decimals == (None if values.dtype.kind == "i" else "any")
    assert synth.sample(500)["a"].between(*bounds).all()


@pytest.mark.parametrize("decimals", [0, 2, "any", None])
def test_declared_decimals_stay(decimals):
    """All that may be asked of them is whether the numbers are coarser."""
    frame = pd.DataFrame({"a": written(2)})
    schema = TableSchema({"a": Continuous(0, 300, decimals=decimals)})
    synth = IndependentSynthesizer(epsilon=50.0, schema=schema).fit(frame)
    names = {entry.name for entry in synth.privacy_report().entries}
    assert ("decimals" in names) == (decimals != "any")
    drawn = synth.sample(500)["a"]
    kept = 2 if decimals is None else decimals
    assert synth.schema_.columns["a"].decimals == kept
    cents = np.array_equal(drawn.round(0 if kept == 0 else 2), drawn)
    assert cents == (kept != "any")
