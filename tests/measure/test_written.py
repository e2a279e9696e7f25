"""Tens and last digits of numbers: released, kept by domains, and drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from _written import N, fitted, layouts_of, without_noise
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth import IndependentSynthesizer
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.measure import _discovery, _written
from skdpsynth.measure._discovery import discovery_mu_share
from skdpsynth.measure._written import (
    _room,
    affords_remainders,
    affords_tens,
    discover_remainders,
    discover_resolutions,
    period_of,
)
from skdpsynth.privacy import GRID, PrivacyAccountant, grid_noise_std
from skdpsynth.privacy.testing import observe_releases
from skdpsynth.schema import Continuous, Datetime, Ordered, TableSchema
from skdpsynth.table import NumericDomain
from skdpsynth.table._domains import _narrower, _wider
from skdpsynth.table._sources import read_table

WHOLE = NumericDomain(0.0, 20_000.0, False, True, False)
UNIFORM = tuple(np.linspace(0.2, 1.8, 100).tolist())  # room of last digits, mean 1
WEEK = (1.2, 1.2, 1.2, 0.01, 1.15, 1.2, 1.04)


# --- Room of numbers --------------------------------------------------------------


@st.composite
def rooms(draw):
    period = draw(st.sampled_from([7, 24, 60, 100]))
    room = draw(st.lists(st.floats(0.01, 9.0), min_size=period, max_size=period))
    return tuple((np.array(room) / np.mean(room)).tolist())


@given(rooms(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_every_number_has_its_room_and_the_order_stays(room, signed):
    """The cell of a number is as wide as its room, but below 100 of signed ones."""
    numbers = np.arange(-1234, 1234)
    ends = np.append(numbers - 0.5, numbers[-1] + 0.5)
    moved = _wider(ends, room, signed=signed)
    place = np.abs(numbers) if signed else numbers
    width = np.array(room)[place % len(room)]
    if signed:
        width = np.where(place < len(room), 1.0, width)
    np.testing.assert_allclose(np.diff(moved), width, atol=1e-9)
    np.testing.assert_allclose(_narrower(moved, room, signed=signed), ends, atol=1e-6)
    whole = len(room) * np.arange(-4, 4) - 0.5  # where a cycle begins it stays
    if not signed:
        np.testing.assert_allclose(_wider(whole, room, signed=False), whole)


def test_amounts_of_few_digits_stay_and_keep_their_sign():
    numbers = np.arange(-99.0, 100.0)
    assert np.array_equal(_wider(numbers, UNIFORM, signed=True), numbers)
    far = np.arange(-9999.0, 10_000.0)
    moved = _wider(far, UNIFORM, signed=True)
    assert np.array_equal(moved, -moved[::-1])


DOMAINS = {
    "signed": NumericDomain(-1500, 2600, False, True, False, remainders=UNIFORM),
    "log": NumericDomain(-300, 9000, True, True, False, remainders=UNIFORM),
    "cents": NumericDomain(
        -250, 9000, True, True, False, decimals=2, remainders=UNIFORM
    ),
    "tens": NumericDomain(
        -250, 900, False, True, False, decimals=-3, remainders=UNIFORM
    ),
    "days": NumericDomain(
        -900, 900, False, True, False, step=86_400.0, remainders=WEEK
    ),
    "minutes": NumericDomain(
        -300, 900, False, True, False, step=60.0, remainders=UNIFORM[:60]
    ),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_tells_all_numbers_apart_and_gives_them_back(name):
    domain = DOMAINS[name]
    values = domain.from_steps(np.arange(domain.low, domain.high + 1))
    units = domain.to_unit(values)
    assert (np.diff(units) > 0).all()
    assert units[0] > 0
    assert units[-1] < 1
    assert np.array_equal(domain.from_unit(units), values)
    spans = np.array([domain.span(value, value) for value in values.tolist()])
    assert spans[0, 0] == 0.0
    assert spans[-1, 1] == 1.0
    np.testing.assert_allclose(spans[1:, 0], spans[:-1, 1], atol=1e-12)


def test_tens_are_read_and_written():
    domain = NumericDomain(0, 1_000_000, False, True, False).with_decimals(-4)
    assert (domain.low, domain.high, domain.bounds) == (0, 100, (0.0, 1_000_000.0))
    values = np.array([0.0, 30_000.0, 990_000.0])
    assert domain.whole_steps(values).tolist() == [0, 3, 99]
    assert np.array_equal(domain.from_unit(domain.to_unit(values)), values)
    odd = NumericDomain(1, 987_654, False, True, False).with_decimals(-4)
    assert (odd.low, odd.high) == (1, 98)  # the tens inside


# --- Remainders -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "period"),
    [
        (WHOLE, 100),
        (NumericDomain(0, 998, False, True, False), 0),  # fewer than ten cycles
        (NumericDomain(0, 999, False, True, False), 100),
        (NumericDomain(0, 9e5, False, False, False), 0),
        (NumericDomain(0, 69, False, True, False, step=86_400.0), 7),
        (NumericDomain(0, 68, False, True, False, step=86_400.0), 0),
        (NumericDomain(0, 239, False, True, False, step=3600.0), 24),
        (NumericDomain(0, 999, False, True, False, step=7.0), 0),
        (None, 0),
    ],
)
def test_what_repeats(domain, period):
    assert period_of(domain) == period


def shift_of_a_row(frame, row, monkeypatch=None):
    """Norm by which one row moves the exact counts, over the sensitivity."""
    seen, domains = [], [replace_bounds(frame[name]) for name in frame]
    for table in (frame, pd.concat([frame, row], ignore_index=True)):
        with observe_releases(seen.append):
            discover_remainders(
                table, layouts_of(frame), domains, without_noise(), mu=math.inf
            )
    first, second = seen
    assert first.reservation.sensitivity == pytest.approx(math.sqrt(len(domains)))
    return np.linalg.norm(second.exact - first.exact) / first.reservation.sensitivity


def replace_bounds(column):
    low, high = column.min(), column.max()
    return NumericDomain(float(low), float(high), False, True, False)


def in_two_cells(real):
    """The broken twin: a row counts for its last two digits, and for the next ones."""

    def counted(frame, columns, domains, cells):
        codes = real(frame, columns, domains, cells)
        return np.concatenate([codes, (codes + 1) % np.array(cells, dtype=np.uint8)])

    return counted


@pytest.mark.parametrize(
    "row", [[1, 150, 399], [7, 0, -1], [1e9, -5, 399], [120, 230, 340]]
)
def test_one_row_moves_remainders_by_the_sensitivity(row, monkeypatch):
    """And the bound is attained; the twin moves them by more."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(-999, 999, (500, 3)), columns=["a", "b", "c"])
    more = pd.DataFrame([row], columns=frame.columns)
    assert shift_of_a_row(frame, more) == pytest.approx(1.0)
    twin = in_two_cells(_written._remainders_of_rows)
    monkeypatch.setattr(_written, "_remainders_of_rows", twin)
    assert shift_of_a_row(frame, more) > 1.4


def test_what_is_fitted_are_the_noisy_remainders():
    """The room is computed from what was released, and that has noise.

    Of 603 numbers with noise of variance v the mean square is within v / 2 of v, but
    for a chance of 1e-17.
    """
    rng, seen = np.random.default_rng(0), []
    frame = pd.DataFrame(rng.integers(0, 999, (N, 3)), columns=["a", "b", "c"])
    frame -= frame % 10
    columns, domains = layouts_of(frame), [replace_bounds(frame[c]) for c in frame]
    domains = [replace(domain, high=999.0) for domain in domains]
    budget = PrivacyAccountant(1.0, 1e-5)
    with observe_releases(seen.append):
        found = discover_remainders(frame, columns, domains, budget, mu=0.1)
    (release,) = seen
    noise = (release.noisy - release.exact).astype(float)
    assert noise.size == 603
    variance = release.reservation.noise_std**2
    assert variance == pytest.approx(3 / 0.1**2, rel=0.05)
    assert (noise**2).mean() == pytest.approx(variance, rel=0.5)
    for domain, counts in zip(found, release.noisy.reshape(3, -1), strict=True):
        assert domain.remainders == _room(counts[:-1].reshape(2, -1), variance**0.5)
    with pytest.raises(BudgetExceededError):
        discover_remainders(frame, columns, domains, budget, mu=0.3)


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_remainders_are_those_of_pandas(zone):
    """Without noise, of 1960 to 1980: room in proportion to the rows of each day."""
    rng = np.random.default_rng(1)
    days = pd.Timestamp("1960-01-01") + pd.to_timedelta(rng.integers(0, 7000, N), "D")
    days = pd.Series(days[(days.day_of_week != 6) | (rng.random(N) < 0.3)])
    if zone is not None:
        days = days.dt.tz_localize(zone)
    (column,) = layouts_of(days.to_frame("a"))
    domain = NumericDomain(-4000, 4000, False, True, False, step=86_400.0)
    (found,) = discover_remainders(
        days.to_frame("a"), [column], [domain], without_noise(), mu=math.inf
    )
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
    (found,) = discover_remainders(
        frame, layouts_of(frame), [domain], without_noise(), mu=math.inf
    )
    sizes = pd.Series(steps).abs()
    counts = sizes[sizes.between(100, 2500)].mod(100).value_counts().sort_index()
    assert (counts.index == np.arange(100)).all()
    expected = 100 * counts.to_numpy() / counts.sum()
    np.testing.assert_allclose(found.remainders, expected, rtol=0.05)


def test_even_counts_need_no_room():
    assert _room(np.full((2, 100), 300), 4.0) == ()
    assert _room(np.full((2, 7), 300), 0.0) == ()
    assert _room(np.zeros((2, 100), dtype=np.int64), 9.0) == ()
    assert _room(np.full((2, 100), -3), 9.0) == ()


@pytest.mark.parametrize("noise_std", [0.0, 10.0])
def test_where_the_rows_lie_is_no_habit(noise_std):
    """Most rows are between 650 and 749: digits 50 to 99 of one hundred, 0 to 49 of
    the next, which have nothing in common. Twice as many end in 0 in both.
    """
    counts = np.full((2, 100), 20)
    counts[0, 50:] = counts[1, :50] = 400
    assert np.ptp(_room(counts, noise_std) or [1.0]) < 0.2
    counts[:, ::10] *= 2
    room = np.array(_room(counts, noise_std)).reshape(10, 10)
    np.testing.assert_allclose(room[:, 0] / room[:, 1:].mean(axis=1), 2.0, rtol=0.15)


@pytest.mark.statistical
@pytest.mark.parametrize("period", [7, 24, 60, 100])
def test_noise_gives_no_number_much_room(period, global_random_seed):
    """100 draws of even counts with noise of a tenth.

    At most 10,000 normal numbers are within 6.5 deviations, but for 8e-7. Tens and
    units of digits may add a third of that each. Most are drawn to what is even.
    """
    rng = np.random.default_rng(global_random_seed)
    beside = []
    for _ in range(100):
        noisy = np.rint(rng.normal(500, 71, (2, period))).astype(np.int64)
        room = np.array(_room(noisy, 71.0) or [1.0] * period)
        assert room.mean() == pytest.approx(1.0)
        assert np.abs(room - 1).max() < 0.1 * (6.5 * 1.7)
        assert room.min() > 0
        beside.append(np.abs(room - 1).mean())
    assert np.mean(beside) < 0.03  # of noise alone: 0.08


@pytest.mark.parametrize("seconds", [False, True])
def test_clock_times_have_minutes_and_seconds_below_sixty(seconds, monkeypatch):
    """1430 or 143059: two numbers in five end in 60 to 99, and no clock time does.

    The twin measures no remainders. Its bins show minutes, but not seconds.
    """
    rng = np.random.default_rng(0)
    times = 100 * rng.integers(6, 24, 60_000) + rng.integers(0, 60, 60_000)
    if seconds:
        times = 100 * times + rng.integers(0, 60, 60_000)
    domain, drawn = fitted(times, epsilon=1.0)
    assert len(domain.remainders) == 100
    assert (drawn % 100 > 59).mean() < 0.03
    monkeypatch.setattr(_discovery, "affords_remainders", lambda *_: False)
    _, drawn = fitted(times, epsilon=1.0)
    assert (drawn % 100 > 59).mean() > (0.3 if seconds else 0.03)


def test_dates_that_are_never_on_a_sunday():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("1969-01-01") + pd.to_timedelta(rng.integers(0, 3000, N), "D")
    domain, drawn = fitted(pd.Series(days[days.day_of_week != 6]), epsilon=1.0)
    assert len(domain.remainders) == 7
    assert (drawn.dt.day_of_week == 6).mean() < 0.01  # one of seven without


def test_too_few_rows_release_no_remainders():
    """40 deviations of a count: ``40 sqrt(K) / mu`` rows, and rounded up noise."""
    for n_columns, mu in [(1, 0.1), (4, 0.02), (9, 1.0)]:
        needed = 40.0 * grid_noise_std(mu, math.sqrt(n_columns))
        assert needed >= 40.0 * math.sqrt(n_columns) / mu
        assert affords_remainders(n_columns, mu, needed)
        assert not affords_remainders(n_columns, mu, needed - 1)
    assert not affords_remainders(0, 1.0, 1e9)
    assert not affords_remainders(3, 0.0, 1e9)


# --- Tens -------------------------------------------------------------------------


def resolved(values, n_rows=None, mu=math.inf, domain=WHOLE, most_tens=6):
    frame = pd.DataFrame({"a": values})
    return discover_resolutions(
        frame,
        layouts_of(frame),
        [domain],
        without_noise(),
        mu=mu,
        n_rows=n_rows or len(frame),
        most_tens=[most_tens],
    )[0]


@pytest.mark.parametrize("dtype", ["int64", "float64", "Int32", "float32"])
@pytest.mark.parametrize("tens", [1, 2, 3])
def test_the_zeros_that_all_numbers_end_with_are_found(tens, dtype):
    values = np.arange(1, 20) * 10**tens
    found = resolved(pd.Series(np.resize(values, 3000)).astype(dtype))
    assert (found.decimals, found.integer) == (-tens, True)
    assert found.bounds == (0.0, 20_000.0)
    assert resolved(values, most_tens=0) == WHOLE


def test_a_column_of_few_rows_that_are_no_tens():
    """One in a hundred may be rounded; of one in twenty the number stays as it is."""
    values = np.full(10_000, 3000)
    for share, decimals in [(0.009, -3), (0.011, 0), (0.05, 0)]:
        values[: int(share * len(values))] = 1234
        assert resolved(values).decimals == decimals
    values[:] = np.where(np.arange(len(values)) % 20, 0, 1234)  # zeros say nothing
    assert resolved(values).decimals == 0


def test_multiples_of_a_thousand_come_back_as_such():
    rng = np.random.default_rng(0)
    amounts = 1000 * rng.integers(1, 700, N)
    mixed = np.where(np.arange(N) % 20, amounts, amounts + rng.integers(1, 999, N))
    frame = pd.DataFrame({"a": amounts, "b": mixed, "c": amounts.astype(float)})
    (a, b, c), drawn = fitted(frame, epsilon=1.0)
    assert (a.decimals, b.decimals, c.decimals) == (-3, 0, -3)
    assert (drawn[["a", "c"]] % 1000 == 0).all(axis=None)
    assert drawn["a"].nunique() > 400
    assert (drawn["b"] % 1000 != 0).mean() > 0.02
    (few,), _ = fitted(frame[["a"]][:500], epsilon=1.0, n=10)
    assert few.decimals == 0  # nobody asked


def test_too_few_rows_are_not_asked_for_tens():
    for n_columns, mu in [(1, 0.1), (4, 0.02)]:
        needed = 40.0 * grid_noise_std(mu, math.sqrt(n_columns))
        assert affords_tens(n_columns, mu, needed)
        assert not affords_tens(n_columns, mu, needed - 1)


@pytest.mark.parametrize(
    ("spec", "dtype"),
    [
        (Continuous(0, 10**6, integer=True), "int64"),
        (Continuous(0, 10**6), "int64"),
        (Continuous(0, 10**6, decimals=0), "float64"),
        (Continuous(0, 10**6), "float64"),
    ],
)
def test_columns_in_rules_are_not_put_on_tens(spec, dtype):
    low = 1000 * np.random.default_rng(0).integers(1, 500, N)
    frame = pd.DataFrame({"a": low, "b": low + 5000}).astype(dtype)
    free, _ = fitted(frame, spec=spec, n=10)
    assert [domain.decimals for domain in free] == [-3, -3]
    bound, _ = fitted(frame, spec=spec, n=10, rules=[Ordered(["a", "b"])])
    assert [domain.decimals for domain in bound] == [0, 0]


# --- Plans ------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("n_rows", [300, 3000, 40_000])
def test_a_plan_knows_what_is_spent_on_how_numbers_are_written(n_rows, epsilon):
    """All is declared, decimals too; of 300 rows nothing is asked, of many all."""
    rng = np.random.default_rng(0)
    days = pd.to_timedelta(rng.integers(0, 3000, n_rows), unit="D")
    frame = pd.DataFrame(
        {
            "i": 10 * rng.integers(0, 5000, n_rows),
            "x": np.round(rng.uniform(0, 900, n_rows), 2),
            "y": rng.normal(size=n_rows),
            "t": pd.Timestamp("2015-01-01") + days,
            "few": rng.integers(0, 10, n_rows),
        }
    )
    schema = TableSchema(
        {
            "i": Continuous(0, 50_000, integer=True),
            "x": Continuous(0, 1000, decimals=2),
            "y": Continuous(-6, 6, decimals="any"),
            "t": Datetime("2015-01-01", "2024-01-01", unit="D"),
            "few": Continuous(0, 9, integer=True),
        },
        n_rows=n_rows,
    )
    synth = IndependentSynthesizer(epsilon, schema=schema)
    (planned,) = synth.plan(n_rows)["noise_std"]
    report = synth.fit(frame).privacy_report()
    spent = {entry.name: entry.share for entry in report.entries}
    left = spent.pop("marginals") + spent.pop("coarse marginals", 0.0)
    assert set(spent) <= {"decimals", "remainders", "frequent values"}
    assert len(spent) == {300: 0, 40_000: 3}.get(n_rows, len(spent))
    _, layout = read_table(frame, schema=schema)
    delta = synth.delta
    accountant = PrivacyAccountant(epsilon, delta, discovery_delta=0.1 * delta)
    share = discovery_mu_share(layout, schema, accountant, n_rows)
    assert left == pytest.approx(100 * (1 - share), rel=1e-6)
    (std,) = (e.noise_std / GRID for e in report.entries if e.name == "marginals")
    # An upper bound: bins of a column with few numbers fall together.
    assert 0.9999 < planned / std < 1.02
