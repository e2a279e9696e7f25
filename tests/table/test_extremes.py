"""Whatever a cell holds, a fit fails before any budget is charged, or not at all.

Others see whether a synthesizer comes back. So a row at the extremes of its dtype must
not decide it once the budget is charged: a fit goes as that to the table without the
row does, or it is refused for a reason that `docs/privacy.md` lists, at no cost.
"""

import warnings
from functools import cache

import dask
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from _chains import carried
from _columns import SECRET, UNITS, supported
from _releases import watched
from dask import dataframe

from skdpsynth import IndependentSynthesizer, PrivacyBudget
from skdpsynth.exceptions import SkdpsynthError
from skdpsynth.schema import Continuous, Datetime, Identifier, TableSchema, Text
from skdpsynth.utils.dtypes import kind_of_dtype

N = 40
ZONES = (None, "UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin")
LEAST, MOST = -(2**63) + 1, 2**63 - 1  # of times: the number below is NaT
DAY, YEAR_1, YEAR_10000 = 86_400, -62_135_596_800, 253_402_300_800
# Around the ends of the calendar, and in a year whose zones pandas 2 cannot show.
SECONDS = [
    *(YEAR_1 + off for off in (-(10**9), -1, 0, DAY)),
    *(YEAR_10000 + off for off in (-DAY, -1, 0, 10**9)),
    -9_000_000_000,
]
DAYS = [-(2**31), 2**31 - 1, -719_163, -719_162, 2_932_896, 2_932_897, 106_752]


# --- Columns of ordinary cells, and of extreme ones -------------------------------


def of_arrow(numbers, kind):
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(numbers).cast(kind)))


def of_times(ticks, unit, zone):
    moments = pd.Series(pd.DatetimeIndex(ticks.view(f"M8[{unit}]")))
    return moments.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else moments


@cache
def plain_columns():
    """By name: ordinary cells, extreme cells."""
    rng, few = np.random.default_rng(0), np.arange(N) % 3
    made = {}
    for name, maker in supported().items():
        if maker.kind in ("time", "zoned", "span") or name.startswith("category"):
            continue  # times beyond the calendar, and categories, are below
        made[name] = [maker.make(rng, N, spread) for spread in ("few", "extreme")]
    for unit, per_second in UNITS.items():
        ends = [second * per_second for second in SECONDS]
        inside = [n for n in (*ends, *(n - 1 for n in ends)) if LEAST <= n <= MOST]
        odd = np.array([LEAST, LEAST + 1, MOST - 1, MOST, -1, 0, *inside])
        both = (1_600_000_000 + few * DAY) * per_second, odd
        made[f"span {unit}"] = [pd.Series(v.view(f"m8[{unit}]")) for v in both]
        made[f"span {unit} Arrow"] = [of_arrow(v, pa.duration(unit)) for v in both]
        for zone in ZONES if unit in "ns" else (None, "Asia/Tokyo"):
            name, kind = f"time {unit} {zone}", pa.timestamp(unit, zone)
            made[name] = [of_times(v, unit, zone) for v in both]
            made[f"{name} Arrow"] = [of_arrow(v, kind) for v in both]
    both = (18_000 + few).astype("int32"), np.array(DAYS, dtype="int32")
    made["date"] = [of_arrow(v, pa.date32()) for v in both]
    # That are refused, whatever they hold.
    made["decimal"] = [of_arrow(v, pa.decimal128(20, 0)) for v in (few, [10**18])]
    both = few, np.array([DAY * 10**6 - 1])
    made["clock"] = [of_arrow(v, pa.time64("us")) for v in both]
    return made


def native(cells):
    """The same in this machine's order of bytes: pandas joins no others."""
    dtype = cells.dtype
    other = isinstance(dtype, np.dtype) and not dtype.isnative
    return cells.astype(dtype.newbyteorder("=")) if other else cells


def as_category(cells):
    """The same cells as a category dtype, or None where pandas knows no such."""
    try:
        return cells.astype("category")
    except (TypeError, ValueError, ArithmeticError, NotImplementedError):
        return None


@cache
def columns():
    """By name: the column without the extreme rows, and with them at its end."""
    made = {}
    for name, (few, odd) in plain_columns().items():
        whole = pd.concat([native(few), native(odd)], ignore_index=True)
        whole = whole.astype(few.dtype)
        made[name] = few, whole
        listed = as_category(few), as_category(whole)
        inner = {None if c is None else c.cat.categories.dtype for c in listed}
        if len(inner - {None}) == len(inner) == 1:
            made[f"category of {name}"] = listed
    return made


# --- What comes of a fit ----------------------------------------------------------


def outcome(table, known=None, **roles):
    """All that an error of a fit says, which costs nothing; "" if there is none."""
    if "privacy_unit" in roles:
        roles["max_rows_per_unit"] = 2
    schema, budget = TableSchema(known or {}, **roles), PrivacyBudget(100.0, 0.1)
    synth = IndependentSynthesizer(20.0, 1e-5, schema=schema, budget=budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows are a poor result
        try:
            synth.fit(table)
        except SkdpsynthError as error:
            assert len(budget.charges) == 0
            return carried(error)
        drawn = synth.sample(20, random_state=0)
        assert drawn.columns.tolist() == table.columns.tolist()
        TableSchema.from_json(synth.schema_.to_json())
    return ""


def with_units(column):
    """A table of that column; no unit has an ordinary and an extreme row."""
    n_rows = len(column)
    units = np.concatenate([np.arange(N) // 3, N + np.arange(n_rows - N) // 3])
    return pd.DataFrame({"who": units, "x": column, "a": np.arange(n_rows) % 5})


def description(dtype):
    kind, can_be_missing = kind_of_dtype(dtype)
    if kind in ("integer", "continuous"):
        return Continuous(0, 2, nullable=can_be_missing)
    if kind == "timedelta":
        return Continuous(1.6e9, 1.7e9, nullable=True)
    if kind == "datetime":
        return Datetime("2020-09-01", "2020-10-01", nullable=True, unit="D")
    return None


@pytest.mark.parametrize("name", columns())
@pytest.mark.parametrize("role", ["unit", "target"])
def test_an_extreme_row_is_refused_as_any_other_or_not_at_all(name, role):
    """Its cell is the unit, or the label of a row in a fit to units.

    What takes extreme cells takes ordinary ones: the other tests have those.
    """
    ordinary, extreme = columns()[name]
    roles = {"privacy_unit": "x"}
    if role == "target":
        roles = {"privacy_unit": "who", "target": "x"}
    if words := outcome(with_units(extreme), **roles):
        assert outcome(with_units(ordinary), **roles) == words


@cache
def of_accepted_dtypes():
    """Columns of the dtypes that are not refused whatever they hold."""
    return {
        name: both
        for name, both in columns().items()
        if not outcome(pd.DataFrame({"x": both[0]}))
    }


@pytest.mark.parametrize("declared", [False, True], ids=["found", "declared"])
@pytest.mark.parametrize("unit", [None, "who"])
def test_extreme_cells_are_data_as_any_other(unit, declared):
    """A column for each dtype that a table may have; a row for each of its extremes."""
    accepted = of_accepted_dtypes()
    assert len(accepted) > 150
    for name in {*columns()} - {*accepted}:
        inner = name.removeprefix("category of ")
        assert inner in ("decimal", "clock") or inner[:4] == "span" != name[:4]
    most = N + max(len(odd) for _, odd in plain_columns().values())
    made = {"who": np.concatenate([np.arange(N) // 3, N + np.arange(most - N) // 3])}
    for name, (_, whole) in accepted.items():
        made[name] = native(whole).take(np.arange(most) % len(whole))
        made[name] = made[name].reset_index(drop=True).astype(whole.dtype)
    said = {name: description(own.dtype) for name, (own, _) in accepted.items()}
    known = {name: own for name, own in said.items() if declared and own is not None}
    roles = {} if unit is None else {"privacy_unit": unit}
    assert outcome(pd.DataFrame(made), known, **roles) == ""


NUMBER = 4321.0625  # as secret
MIXED = [SECRET, 1] * 3
LISTED = {
    "infinite": pd.Series([np.inf, NUMBER] * 3),
    "complex": pd.Series([NUMBER + 1j] * 6),
    "infinite Arrow": pd.Series([np.inf, 1.0] * 3, dtype="float[pyarrow]"),
    "beyond doubles": pd.Series([np.finfo(np.longdouble).max] * 6),
    "mixture": pd.Series(MIXED, dtype="O"),
    "truths and texts": pd.Series([True, SECRET] * 3, dtype="O"),
    "unhashable": pd.Series([[SECRET]] * 6, dtype="O"),
    "mixed categories": pd.Series(pd.Categorical(MIXED, categories=[SECRET, 1])),
}


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("role", ["data", "unit", "target"])
def test_what_the_page_lists_is_refused_at_no_cost_and_without_a_value(name, role):
    column = LISTED[name]
    if name == "beyond doubles" and column.dtype == np.float64:
        pytest.skip("this machine has no longer floats")
    roles = {"data": {}, "unit": {"privacy_unit": "x"}, "target": {"target": "x"}}
    words = outcome(pd.DataFrame({"x": column, "a": range(6)}), **roles[role])
    assert words
    assert SECRET not in words
    assert "4321" not in words


@pytest.mark.parametrize("days", [2_932_897, -719_163, 2**31 - 1])
@pytest.mark.parametrize("batches", [False, True], ids=["table", "batches"])
def test_a_dictionary_of_dates_of_no_calendar_is_refused(days, batches, untouched):
    """The one column of times whose cells Python's calendar has to know."""
    numbers = pa.array([18_000, days] * 20, pa.int32()).cast(pa.date32())
    table = pa.table({"x": numbers.dictionary_encode(), "a": [*range(40)]})
    synth = IndependentSynthesizer(budget=untouched)
    with pytest.raises(SkdpsynthError, match="years 1 to 9999") as raised:
        synth.fit(iter(table.to_batches()) if batches else table)
    assert str(days) not in carried(raised.value)


# --- What changes nothing ---------------------------------------------------------


def releases(table, schema):
    """All that a fit releases, with frozen noise, and what is drawn afterwards."""
    synth = IndependentSynthesizer(5.0, schema=schema, random_state=0)
    fitted, seen = watched(synth, table, secrets=3)
    exact = [np.asarray(own.release.exact).tolist() for own in seen]
    noisy = [np.asarray(own.release.noisy).tolist() for own in seen]
    return exact, noisy, fitted.sample(50, random_state=0)


def same(first, second):
    assert first[:2] == second[:2]
    pd.testing.assert_frame_equal(first[2], second[2])


def of_units(n_rows=300):
    """A table of units of 1 to 9 rows, three of which take part."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": np.arange(n_rows).astype(str),
            "who": np.sort(rng.integers(0, n_rows // 5, n_rows)),
            "remark": rng.choice(["p", "q"], n_rows),
            "a": rng.normal(size=n_rows),
            "b": rng.integers(0, 9, n_rows),
        }
    ).astype({"id": object, "remark": object})


ODD = {
    "others": ["z", "y", "x"],
    "truths": [True, False, None],
    "mixture": ["z", 1, 2.5],
    "unhashable": [["z"], {"z": 1}, {"z"}],
    "strange": [np.zeros(2), pd.DataFrame({"a": [1]}), object()],
    "infinite": [np.inf, -np.inf, 1.0],
}


@pytest.mark.parametrize("unit", [None, "who"])
@pytest.mark.parametrize("name", ODD)
def test_cells_of_identifiers_and_texts_change_nothing(name, unit):
    known = {"id": Identifier(), "remark": Text()}
    roles = {} if unit is None else {"privacy_unit": unit, "max_rows_per_unit": 3}
    schema, table = TableSchema(known, **roles), of_units()
    cells = pd.Series([ODD[name][n % 3] for n in range(len(table))], dtype=object)
    other = table.assign(id=cells, remark=cells)
    found = schema.check(other).set_index("column")["finding"]
    assert not found.str.contains("refuses").any()
    same(releases(table, schema), releases(other, schema))


def test_infinite_identifiers_and_mixed_categories_change_nothing():
    schema, table = TableSchema({"id": Identifier()}), of_units().drop(columns="remark")
    listed = [pd.Index(own, dtype=object) for own in (["c"], ["c", 1])]
    mixed = [pd.Categorical(["c"] * 300, categories=own) for own in listed]
    for pair in ((1.0, np.inf), mixed):
        same(*(releases(table.assign(id=own), schema) for own in pair))


@pytest.mark.parametrize("unit", [None, "who"])
@pytest.mark.parametrize("n_parts", [1, 3])
def test_the_order_of_bytes_changes_nothing(n_parts, unit):
    table = of_units().drop(columns=["id", "remark"])
    table["t"] = pd.to_datetime(table["b"], unit="D")
    roles = {} if unit is None else {"privacy_unit": unit, "max_rows_per_unit": 3}
    other = table.apply(lambda c: c.to_numpy().astype(c.dtype.newbyteorder(">")))
    found = []
    for frame in (table, pd.DataFrame(other)):
        parts = dataframe.from_pandas(frame, npartitions=3) if n_parts > 1 else frame
        with dask.config.set(scheduler="synchronous"):
            found.append(releases(parts, TableSchema({}, **roles)))
    first, (*second, drawn) = found
    same(first, (*second, drawn.astype(first[2].dtypes)))
