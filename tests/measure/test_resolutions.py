"""Decimals and units of time: released, declared, and kept in sampled rows."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.audit._worlds import SequenceError, recorded, replayed
from skdpsynth.datasets import load_cervical_cancer
from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.measure import _discovery, _written
from skdpsynth.measure._written import (
    _coarsest,
    _resolution_codes,
    discover_resolutions,
)
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Continuous, Datetime, TableSchema
from skdpsynth.table import ColumnLayout, NumericDomain

N = 6000
WIDE = NumericDomain(0.0, 300.0, log=False, integer=False, nullable=False)
NONE = 5  # the cell of values that are finer than four decimals
SILENT = 6


def written(decimals, n=N, seed=0):
    """Make numbers of so many decimals, as a file would be read."""
    numbers = np.random.default_rng(seed).uniform(0.1, 250, n)
    return pd.Series([float(f"{number:.{decimals}f}") for number in numbers])


def codes_of(values, dtype="float64"):
    series = pd.Series(values).astype(dtype)
    return _resolution_codes(series, ColumnLayout.of("a", series), WIDE, 7).tolist()


# --- The cell of a value ----------------------------------------------------------


def test_a_value_is_in_the_cell_of_its_decimals():
    values = [3.0, -17.0, 0.5, 0.29, 1.005, 0.0001, math.pi, 1e15 + 0.5, -1e308, 5e-324]
    assert codes_of(values) == [0, 0, 1, 2, 3, 4, NONE, 1, 0, NONE]


def test_fractions_of_short_floats_are_not_lost():
    """What a float rounds away is no sign of a whole number."""
    assert codes_of([130.125], "float16") == [3]
    assert codes_of([2e6 + 0.5], "float32") == [1]
    assert codes_of([0.1, 123.4], "float32") == [1, 1]


def test_missing_values_and_zeros_say_nothing():
    assert codes_of([np.nan, 0.0, -0.0]) == [SILENT] * 3
    assert codes_of([None, 0.0, 2.5], "Float64") == [SILENT, SILENT, 1]


@pytest.mark.parametrize("decimals", range(5))
@pytest.mark.parametrize("dtype", ["float64", "float32", "double[pyarrow]"])
def test_decimals_are_those_of_the_text(decimals, dtype):
    """Rounding of a binary float is not a fifth decimal; float32 holds seven digits."""
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    series = written(decimals)
    if dtype == "float32":
        series = series / 100 if decimals == 4 else series
        series = series.round(decimals)
    codes = np.array(codes_of(series, dtype))
    assert set(codes[series.to_numpy() != 0]) <= set(range(decimals + 1))


def test_a_row_changes_one_cell_whatever_the_others_are():
    odd = pd.Series([np.nan, math.e, 1e308, -1e15, 5e-324])
    values = pd.concat([written(2, 50), written(0, 50), odd])
    together = codes_of(values)
    alone = [codes_of([value])[0] for value in values]
    assert together == alone


# --- What is read off the counts --------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "resolution"),
    [
        ([5000, 0, 0, 0, 0, 0], 0),
        ([4000, 30, 0, 0, 0, 20], 0),  # one in a hundred is rounded
        ([4000, 900, 0, 0, 0, 100], None),
        ([100, 900, 4000, 0, 0, 0], 2),
        ([100, 900, 0, 0, 4000, 0], 4),
        ([0, 0, 0, 0, 0, 5000], None),
        ([0, 0, 0, 0, 0, 0], None),
        ([-3, 2, 0, 1, -1, 2], None),
    ],
)
def test_the_coarsest_resolution_that_fits(counts, resolution):
    assert _coarsest(np.array(counts), 10.0) == resolution


def test_noise_is_not_taken_for_a_resolution(global_random_seed):
    """Of a column of 4,000 fine floats: 1e5 draws of noise of 90 rows.

    A resolution needs as many rows as the finer ones and more: 4,000 rows less noise of
    ``90 sqrt(6)``, 18 deviations.
    """
    rng = np.random.default_rng(global_random_seed)
    noise = rng.normal(0, 90.0, (20_000, 6))
    noise[:, 5] += 4000
    assert all(_coarsest(counts, 90.0) is None for counts in noise)


def test_noise_is_not_taken_for_more_decimals(global_random_seed):
    """Of 4,000 numbers of two decimals: noise of 3 deviations would be needed."""
    rng, n = np.random.default_rng(global_random_seed), 20_000
    noise = rng.normal(0, 90.0, (n, 6))
    noise[:, 2] += 4000
    wrong = sum(_coarsest(counts, 90.0) != 2 for counts in noise)
    assert wrong <= stats.binom.isf(1e-6, n, stats.norm.sf(3.0))


@pytest.mark.parametrize(
    ("share", "decimals", "std", "expected"),
    [
        (0.05, 0, 40.0, 0),  # a flag that 200 of 4,000 rows have
        (0.05, 2, 80.0, 0),  # as many fractions are a deviation of five counts
        (0.05, 2, 4.0, 2),
        (0.5, 2, 40.0, 2),
        (0.5, 2, 500.0, None),  # 2,000 rows may be fractions, and nothing is seen
    ],
)
def test_numbers_that_are_nearly_all_zero_are_whole_unless_finer_ones_are_seen(
    share, decimals, std, expected
):
    n_rows = 4000
    values = np.zeros(n_rows)
    some = int(share * n_rows)
    values[:some] = written(decimals, some)
    with insecure_randomness(0):
        (domain,) = discovered(pd.DataFrame({"a": values}), 1.0 / std)
    assert (domain.decimals if domain.integer else None) == expected


# --- Bought -----------------------------------------------------------------------


def discovered(frame, mu=2.0, domain=WIDE):
    columns = [ColumnLayout.of(name, frame[name]) for name in frame]
    accountant = PrivacyAccountant(math.inf if mu == math.inf else 50.0, 1e-5)
    given = [domain] * len(columns)
    return discover_resolutions(
        frame, columns, given, accountant, mu=mu, n_rows=len(frame)
    )


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
    times = pd.date_range("2019-01-01", periods=N, freq=freq, tz=zone)
    frame = pd.DataFrame({"t": times})
    domain = NumericDomain(0.0, 4e9, log=False, integer=False, nullable=False)
    (found,) = discovered(frame, domain=domain)
    assert found.step == step
    assert found.integer


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_times_at_the_end_of_the_calendar_are_clamped(zone):
    """9999-12-31 stands for "never": it says nothing, and comes back as the bound."""
    days = pd.Series(pd.date_range("2019-01-01", periods=N, freq="D", tz=zone))
    days = days.dt.as_unit("s")
    ends = ["9999-12-31T17:30:01", "0001-01-02T03:04:05"]
    some = pd.Series(np.array(ends, dtype="M8[s]"))
    if zone is not None:
        some = some.dt.tz_localize("UTC").dt.tz_convert(zone)
    frame = pd.DataFrame({"t": pd.concat([days, *[some] * 100], ignore_index=True)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        synth = IndependentSynthesizer(epsilon=50.0, random_state=0).fit(frame)
    assert synth.schema_.columns["t"].unit == "D"
    drawn = synth.sample(500)["t"]
    assert (drawn == drawn.dt.normalize()).all()
    assert drawn.dt.year.between(1899, 2102).all()


def test_the_sensitivity_is_that_of_all_columns():
    frame = pd.DataFrame({"a": written(0), "b": written(2), "c": written(4)})
    columns = [ColumnLayout.of(name, frame[name]) for name in frame]
    accountant = PrivacyAccountant(3.0, 1e-5)
    discover_resolutions(
        frame, columns, [WIDE] * 3, accountant, mu=0.5, n_rows=len(frame)
    )
    accountant.close()
    (entry,) = accountant.report().entries
    assert entry.sensitivity == pytest.approx(math.sqrt(3))
    assert math.sqrt(3) / 0.5 <= entry.noise_std <= math.sqrt(3) / 0.5 + 1


def exact_resolutions(table, columns, domains, accountant, **settings):
    """The broken twin: the noisy counts are charged for, and the true ones read."""
    _real(table, columns, domains, accountant, **settings)
    (frame,) = table.each()
    codes = [_resolution_codes(frame[c.name], c, WIDE, 7) for c in columns]
    counts = [np.bincount(part, minlength=7)[:-1] for part in codes]
    resolutions = [_coarsest(part, 1.0) for part in counts]
    return [
        d if n is None else d.with_decimals(n)
        for d, n in zip(domains, resolutions, strict=True)
    ]


def only_where_there_are_numbers(table, columns, domains, accountant, **settings):
    """Another: a column without any number is left alone."""
    found = _real(table, columns, domains, accountant, **settings)
    (frame,) = table.each()
    some = [frame[c.name].fillna(0).ne(0).any() for c in columns]
    return [
        new.with_decimals(0) if seen else old
        for old, new, seen in zip(domains, found, some, strict=True)
    ]


_real = _written.discover_resolutions


@pytest.mark.parametrize(
    ("twin", "first", "new"),
    [
        # One value more than 1 in 100 is finer than a resolution.
        (exact_resolutions, [*range(1, 5941), *[7.12345678] * 60], 7.12345678),
        (only_where_there_are_numbers, [np.nan] * 3000 + [0.0] * 3000, 7.0),
    ],
)
def test_resolutions_of_the_rows_would_be_seen(twin, first, new, monkeypatch):
    """One row more, under the releases of the table without it."""
    whole = pd.DataFrame({"a": np.array(first, dtype=np.float64)})
    one_more = pd.concat([whole, pd.DataFrame({"a": [new]})], ignore_index=True)

    def specs():
        synth = IndependentSynthesizer(epsilon=50.0, random_state=0)
        with insecure_randomness(3), recorded() as history:
            first = clone(synth).fit(whole).schema_
        with insecure_randomness(3), replayed(history):
            second = clone(synth).fit(one_more).schema_
        return first.columns["a"], second.columns["a"]

    first, second = specs()
    assert first == second
    monkeypatch.setattr(_discovery, "discover_resolutions", twin)
    try:
        first, second = specs()
    except SequenceError:  # other bins
        return
    assert first != second


# --- Domains and schemas ----------------------------------------------------------


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("decimals", [0, 2, 4])
def test_values_come_back_as_they_are_written(log, decimals):
    domain = NumericDomain(-5.5, 250.0, log, False, False).with_decimals(decimals)
    values = written(decimals).to_numpy()
    assert np.array_equal(domain.from_unit(domain.to_unit(values)), values)
    between = domain.from_unit(np.random.default_rng(0).random(500))
    assert np.array_equal(np.round(between, decimals), between)
    assert between.min() >= -5.5


def test_the_scale_does_not_depend_on_the_decimals():
    """A logarithm of cents would give cents the room of pounds."""
    fine = NumericDomain(0.0, 1000.0, log=True, integer=False, nullable=False)
    values = np.array([0.5, 1.0, 20.0, 999.0])
    cents = fine.with_decimals(2).to_unit(values)
    np.testing.assert_allclose(cents, fine.to_unit(values), atol=2e-3)


def test_bounds_that_are_no_multiples_lie_inside():
    domain = NumericDomain(0.204, 5.017, False, False, False).with_decimals(2)
    assert (domain.low, domain.high) == (21.0, 501.0)
    exact = NumericDomain(0.29, 0.57, False, False, False).with_decimals(2)
    assert (exact.low, exact.high) == (29.0, 57.0)


@pytest.mark.parametrize("decimals", [None, 2])
@pytest.mark.parametrize("huge", [1e308, -1e308])
def test_a_value_far_outside_says_nothing(huge, decimals):
    """Warnings are errors here: an overflow would depend on one row."""
    series = written(2)
    series[0] = huge
    columns = {} if decimals is None else {"a": Continuous(0, 300, decimals=decimals)}
    synth = IndependentSynthesizer(epsilon=50.0, schema=TableSchema(columns))
    synth.fit(pd.DataFrame({"a": series}))
    assert synth.schema_.columns["a"].decimals == 2


def test_no_zero_is_negative():
    series = pd.Series(np.rint(np.random.default_rng(0).normal(0, 3, N)))
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


@pytest.mark.parametrize("decimals", [-1, 10, 1.5, True, "two", np.nan, [1, 2]])
def test_decimals_that_are_none_are_refused(decimals):
    with pytest.raises(InvalidSchemaError, match=r"'decimals' .* an int from 0 to 9"):
        Continuous(0, 1, decimals=decimals)


@pytest.mark.parametrize("decimals", [0, 2, "any", None])
def test_declared_decimals_stay(decimals):
    """All that may be asked of them is whether the numbers are coarser."""
    frame = pd.DataFrame({"a": written(2)})
    schema = TableSchema({"a": Continuous(0, 300, decimals=decimals)})
    schema = TableSchema.from_dict(schema.to_dict())
    synth = IndependentSynthesizer(epsilon=50.0, schema=schema).fit(frame)
    names = {entry.name for entry in synth.privacy_report().entries}
    assert ("decimals" in names) == (decimals != "any")
    drawn = synth.sample(500)["a"]
    kept = 2 if decimals is None else decimals
    assert synth.schema_.columns["a"].decimals == kept
    cents = np.array_equal(drawn.round(0 if kept == 0 else 2), drawn)
    assert cents == (kept != "any")


def test_a_declared_time_is_as_fine_as_its_unit_says():
    """None is as fine as the dtype, as ever, and nothing is released."""
    days = pd.DataFrame({"t": pd.date_range("2020-01-01", periods=N, freq="D")})
    schema = TableSchema({"t": Datetime("2020-01-01", "2040-01-01")})
    synth = IndependentSynthesizer(epsilon=50.0, schema=schema).fit(days)
    assert "decimals" not in {entry.name for entry in synth.privacy_report().entries}
    found = IndependentSynthesizer(epsilon=50.0).fit(days)
    assert found.schema_.columns["t"].unit == "D"
    drawn = found.sample(200)["t"]
    assert (drawn == drawn.dt.normalize()).all()


def test_a_public_table_tells_its_decimals():
    cents = pd.DataFrame({"a": written(2), "b": np.linspace(0, 1, N), "c": written(0)})
    found = TableSchema.from_dataframe(cents).columns
    assert [found[name].decimals for name in "abc"] == [2, "any", 0]


def test_codes_read_as_floats_stay_codes():
    """Spikes at whole numbers: with fractions, most values would be of no row."""
    codes = np.random.default_rng(1).choice([1.0, 2.0, 3.0, 12.0, 40.0], N)
    frame = pd.DataFrame({"a": np.where(np.arange(N) % 9, codes, np.nan)})
    synth = IndependentSynthesizer(epsilon=30.0, random_state=0).fit(frame)
    drawn = synth.sample(4000)["a"]
    assert drawn.isin([1.0, 2.0, 3.0, 12.0, 40.0])[drawn.notna()].mean() > 0.95


def test_few_rows_at_a_small_budget_keep_their_fractions():
    """300 rows are less than the noise: no guess is made, whatever the noise is."""
    for _ in range(50):
        assert discovered(pd.DataFrame({"a": written(0, 300)}), mu=0.005) == [WIDE]


@pytest.mark.parametrize(("epsilon", "least"), [(3.0, 18), (30.0, 22)])
def test_whole_numbers_of_a_small_file_come_back_whole(epsilon, least):
    """Cervical cancer: 22 of 26 float columns, of 858 rows, with one draw of noise."""
    table = load_cervical_cancer()
    floats = table.select_dtypes("float").columns
    whole = [name for name in floats if (table[name].dropna() % 1 == 0).all()]
    assert len(whole) == 22
    with insecure_randomness(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        synth = MarginalSynthesizer(epsilon, target="Biopsy", random_state=0).fit(table)
    rows = synth.sample(2000)
    assert sum((rows[name].dropna() % 1 == 0).all() for name in whole) >= least
