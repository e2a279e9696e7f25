"""Columns in an order: gaps in their place, and back."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st

from skdpsynth import IndependentSynthesizer
from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema import Continuous, Datetime, Ordered, TableSchema
from skdpsynth.table import (
    Classes,
    Gap,
    Metadata,
    NumericDomain,
    declared_domain,
    modelled_columns,
    open_table,
    wall_values,
)


def ready(frame, schema, domains=None):
    """Return the metadata of a table in order; domains are those declared or wide."""
    _, layout = open_table(frame, schema=schema)
    if domains is None:
        domains, wide = [], (-1e11, 1e11, False, False, True)
        for column in modelled_columns(layout, schema):
            codes = column.members[-1].special if isinstance(column, Gap) else ()
            found = NumericDomain(*wide, special=(*codes,))
            domains.append(declared_domain(column, schema) or found)
    return Metadata.of(layout, tuple(domains), Classes((), np.ones(1)), schema)


def kept(metadata, cells):
    """Return cells of the columns, from those of what is modelled, by its name."""
    (order,) = metadata.rules.orders
    metadata.rules.keep(cells)
    return [cells[name] for name in order.names]


@st.composite
def drawn_orders(draw):
    """Columns of any grids and bounds, of which some may be missing."""
    columns = {}
    for name in "abcd"[: draw(st.integers(2, 4))]:
        decimals = draw(st.sampled_from(["any", 0, 1, 2, 4]))
        low, high = draw(st.integers(-5, 3)), draw(st.integers(3, 9))
        columns[name] = Continuous(
            low - 0.25, high + 0.25, decimals=decimals, nullable=draw(st.booleans())
        )
    return columns, draw(st.booleans()), draw(st.integers(0, 2**32 - 1))


@settings(deadline=None, database=None, max_examples=100)
@given(drawn_orders())
def test_drawn_rows_are_in_order_and_in_their_domains(drawn):
    columns, strict, seed = drawn
    schema = TableSchema(columns, rules=[Ordered([*columns], strict=strict)])
    try:
        metadata = ready(pd.DataFrame(0.0, [0, 1], [*columns]), schema)
    except InvalidSchemaError:
        assume(False)
    rng, cells = np.random.default_rng(seed), {}
    for column, domain in zip(metadata.columns, metadata.domains, strict=True):
        gone = (rng.random(40) < 0.3) & domain.nullable
        cells[column.name] = domain.from_unit(rng.random(40)), gone
    given_cells = dict(cells)
    found, lowest = kept(metadata, cells), np.full(40, -np.inf)
    several = zip(metadata.columns, columns, found, strict=False)
    for column, name, (values, missing) in several:
        assert not missing.any() or columns[name].nullable
        if name != "a":
            np.testing.assert_array_equal(missing, given_cells[column.name][1])
        present = values[~missing]
        above = present > lowest[~missing] if strict else present >= lowest[~missing]
        assert above.all()
        lowest = np.where(missing, lowest, values)
        domain = metadata.drawn[name][1]
        assert ((present >= domain.bounds[0]) & (present <= domain.bounds[1])).all()
        if domain.integer:  # the very floats that the domain itself makes
            times = 10.0**domain.decimals
            np.testing.assert_array_equal(present, np.rint(present * times) / times)


RNG = np.random.default_rng(0)
DAY = pd.Series(pd.Timestamp("2022-01-01") + pd.to_timedelta(RNG.permutation(300), "D"))
STAY = pd.Series(pd.to_timedelta(RNG.poisson(5, 300), "D"))
TIME = DAY + pd.to_timedelta(RNG.integers(0, 86_400, 300), "s")
BERLIN = TIME.dt.tz_localize("Europe/Berlin", nonexistent="shift_forward")
MONEY = pd.Series(RNG.integers(0, 10**6, 300) / 100)
WHOLE = MONEY.astype(int)
MORE = pd.Series(RNG.integers(1, 10**4, 300) / 100)
DATE = "date32[pyarrow]"


def thinned(series, share=0.3):
    return series.mask(RNG.random(len(series)) < share)


def times(**options):
    return Datetime("2021-01-01", "2024-01-01", **options)


def coded(series, *values):
    """Give some rows values that stand for something."""
    series = series.dt.as_unit("s") if series.dtype.kind != "i" else series
    for value in values:
        series = series.mask(RNG.random(len(series)) < 0.3, value)
    return series


OPEN, SECOND, MINUTE = times(nullable=True), times(unit="s"), times(unit="min")
ENDS = [pd.Timestamp(end).as_unit("s") for end in ("1900-01-01", "9999-12-31")]
LAST = ENDS[1].tz_localize("Europe/Berlin")
MIDNIGHT = BERLIN.dt.normalize()
TABLES = {
    "days": ([DAY, DAY + STAY], [times(unit="D")] * 2),
    "days, measured": ([thinned(DAY), thinned(DAY + STAY)], []),
    "three, of which some are missing": (
        [thinned(DAY), thinned(DAY + STAY), thinned(DAY + 2 * STAY)],
        [times(unit="D", nullable=True)] * 3,
    ),
    "times": ([TIME, thinned(TIME + (STAY / 7).dt.floor("us"))], [times(), OPEN]),
    "a date, then a time": ([DAY.astype(DATE), TIME], [times(), times(unit="s")]),
    "a time, then a date": ([TIME, (DAY + STAY).astype(DATE)], [times()] * 2),
    "a time, then its minute": ([TIME, TIME.dt.floor("min")], [SECOND, MINUTE]),
    "in a zone": ([BERLIN, BERLIN + STAY], []),
    "in a zone, days": ([MIDNIGHT, MIDNIGHT + 24 * STAY], [times(unit="h")] * 2),
    "open ends": (
        [coded(DAY, *ENDS), thinned(coded(DAY + STAY, *ENDS)), DAY + 2 * STAY],
        [times(unit="D", special=ENDS, nullable=n) for n in (False, True, False)],
    ),
    "open ends, measured": ([thinned(coded(TIME, ENDS[1])), coded(TIME, *ENDS)], []),
    "open ends in a zone": ([coded(BERLIN), coded(BERLIN + STAY, LAST)], []),
    "codes amid numbers": (
        [coded(WHOLE, -1), coded(WHOLE + 3, -1, 99)],
        [Continuous(0, 20_000, integer=True, special=[-1, 99])] * 2,
    ),
    "durations": ([STAY, STAY + TIME.diff().abs().fillna(STAY[0])], []),
    "money": ([MONEY, MONEY + MORE], [Continuous(0, 20_000, decimals=2)] * 2),
    "money, measured": ([thinned(MONEY), MONEY + MORE], []),
    "numbers": ([thinned(WHOLE.astype("Int64")), WHOLE + 3], []),
}


@pytest.mark.parametrize("name", TABLES)
def test_rows_in_order_come_back_as_they_were(name):
    """Gaps lose nothing: not where values are missing, nor a unit, nor a decimal."""
    own, described = TABLES[name]
    frame = pd.DataFrame(dict(zip("abc", own, strict=False)))
    columns = dict(zip("abc", described, strict=False))
    schema = TableSchema(columns, rules=[Ordered([*frame])])
    metadata, cells = ready(frame, schema), {}
    for column, domain in zip(metadata.columns, metadata.domains, strict=True):
        cells[column.name] = wall_values(column.read(frame), column, domain)
    for name, (values, missing) in zip(frame, kept(metadata, cells), strict=True):
        column, domain = metadata.drawn[name]
        if domain.step is not None:
            values = column.from_wall(values)
        back = column.to_series(values, missing)
        pd.testing.assert_series_equal(back, frame[name], rtol=1e-15)


def test_what_is_known_of_a_later_column_follows_from_the_gap():
    """Up to the end of the calendar, also where nanoseconds end in 2262."""
    schema = TableSchema({}, rules=[Ordered(["a", "b"])])
    days = NumericDomain(18_000, 19_000, False, True, False, step=86_400.0)
    gap = NumericDomain(0, 6 * 10**9, False, True, True, step=60.0)
    absent = NumericDomain(0, 0, False, True, False)
    frame = pd.DataFrame({"a": DAY, "b": DAY}).astype("datetime64[s]")
    metadata = ready(frame, schema, [days, gap, absent])
    stated = metadata.schema(schema)
    for name, end, unit in (("a", "2022-01-08", "D"), ("b", "9999-12-31T23:59", "min")):
        expected = Datetime("2019-04-14", end, unit=unit, nullable=True)
        assert stated.columns[name] == expected
    again = ready(frame, stated, [days, gap, absent])
    assert again.drawn == metadata.drawn


FAR = st.one_of(st.floats(-1e300, 1e300), st.none())


@settings(deadline=None, database=None, max_examples=100)
@given(st.lists(st.tuples(FAR, FAR, FAR), min_size=2, max_size=6))
def test_what_is_modelled_of_a_row_depends_on_no_other_row(rows):
    """So a row is in one cell of each column, whatever the others hold.

    Times are hours or days apart: by their clock, or not. Some are open ends.
    """
    numbers = pd.DataFrame(rows, columns=[*"abc"], dtype=np.float64)
    minutes = (numbers.clip(-1e9, 1e9) % 5_000).round()
    moments = minutes.fillna(0).astype(int).to_numpy().astype("M8[m]").astype("M8[s]")
    moments[minutes.to_numpy() % 3 == 0] = np.datetime64("9999-12-31")
    times = pd.DataFrame(moments, columns=[*"abc"]).where(minutes.notna())
    schema = TableSchema({}, rules=[Ordered([*"abc"])])
    for frame in (numbers, times):
        for column in ready(frame, schema).columns:
            whole = column.read(frame)
            apart = [column.read(frame.iloc[[n]]) for n in range(len(frame))]
            expected = pd.concat(apart).set_axis(whole.index)
            pd.testing.assert_series_equal(whole, expected, check_exact=True)


@pytest.mark.usefixtures("frozen_noise")
def test_a_fit_of_hardly_any_rows_can_be_saved(tmp_path):
    """No gap is found to be negative, however much noise there is."""
    schema = TableSchema({}, rules=[Ordered(["a", "b"])])
    for n, name in enumerate(["money, measured", "numbers", "days, measured"] * 2):
        frame = pd.DataFrame(dict(zip("ab", TABLES[name][0], strict=True)))[:30]
        synth = IndependentSynthesizer(0.3, schema=schema, random_state=0).fit(frame)
        synth.save(tmp_path / str(n))
        again = IndependentSynthesizer.load(tmp_path / str(n))
        assert (again.sample(9).dtypes == frame.dtypes).all()
