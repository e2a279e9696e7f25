"""Tables as people have them: every dtype and every name comes back.

`table/test_convert.py` has each on its way to numbers and back, and `fuzz/test_fuzz.py`
draws tables for every way of training.
"""

import datetime
import enum
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from _columns import NAMES, check_dtype, columns, with_holes
from sklearn.base import clone

from skdpsynth import (
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    PrivacyBudget,
)
from skdpsynth.exceptions import InvalidTableError
from skdpsynth.schema import Categorical, Datetime, Identifier, TableSchema
from skdpsynth.table import ColumnLayout, declared_domain
from skdpsynth.utils.estimator_checks import reachable

pytestmark = pytest.mark.usefixtures("short_fits")

WITHOUT_NOISE = IndependentSynthesizer(epsilon=math.inf)
WHOLE = np.arange(90)


@pytest.mark.parametrize(
    ("synthesizer", "holes"),
    [(IndependentSynthesizer, False), (MarginalSynthesizer, True)],
)
def test_all_dtypes_at_once(synthesizer, holes, monkeypatch):
    """Without noise levels and holes come out as they went in, of rows in parts.

    The share of holes is within six standard deviations.
    """
    monkeypatch.setattr("skdpsynth.sampling._sampler._CHUNK_ROWS", 700)
    made = columns()
    real = pd.DataFrame({k: with_holes(v) for k, v in made.items()} if holes else made)
    fake = synthesizer(epsilon=math.inf).fit(real).sample(5_000)
    assert fake.columns.tolist() == real.columns.tolist()
    assert fake.index.equals(pd.RangeIndex(5_000))
    for name in real:
        check_dtype(fake[name], real[name].dtype)
        assert abs(fake[name].isna().mean() - real[name].isna().mean()) < 0.043, name
        if name.startswith(("text", "category", "truth")):
            assert set(fake[name].dropna()) == set(real[name].dropna()), name


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_columns_of_any_name(name):
    """Also a column named None, which is no target."""
    real = pd.DataFrame({"u": WHOLE / 89, "w": list("abc") * 30, "v": WHOLE})
    real.columns = pd.Index(["u", name, "v"], dtype=object, tupleize_cols=False)
    fake = clone(WITHOUT_NOISE).fit(real).sample(40)
    assert fake.columns[1] is name or fake.columns[1] == name
    assert fake.iloc[:, 1].notna().all()
    real.columns = pd.Index([name, "w", "v"], dtype=object, tupleize_cols=False)
    assert clone(WITHOUT_NOISE).fit(real).sample(5).shape == (5, 3)  # of floats
    labelled = clone(WITHOUT_NOISE).set_params(target="v").fit(real).sample(5)
    assert labelled.dtypes.tolist() == real.dtypes.tolist()


def test_identifiers_of_any_dtype(monkeypatch):
    """None of the private identifiers of a text column comes back.

    They are distinct, but for booleans, which identify nobody; of rows in parts.
    """
    monkeypatch.setattr("skdpsynth.sampling._sampler._CHUNK_ROWS", 7)
    real = pd.DataFrame(columns()).assign(u=WHOLE)
    names = real.columns.drop("u")
    schema = TableSchema(dict.fromkeys(names, Identifier()))
    fake = IndependentSynthesizer(schema=schema).fit(real).sample(20)
    for name in names:
        check_dtype(fake[name], real[name].dtype)
        truth = "truth bool" in name
        assert fake[name].nunique() == (2 if truth else 20), name
        assert not name.startswith("text") or not set(fake[name]) & set(real[name])


RNG = np.random.default_rng(0)
DAYS = pd.Series(
    pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, 600), unit="D")
)
NEW_YORK = "timestamp[us, tz=America/New_York][pyarrow]"
DTYPES = {
    "us": DAYS.astype("datetime64[us]"),
    "ns": DAYS.astype("datetime64[ns]"),
    "Arrow": DAYS.astype("timestamp[us][pyarrow]"),
    "summer time": DAYS.dt.tz_localize("Europe/Berlin"),
    "Arrow, zoned": DAYS.dt.tz_localize("America/New_York").astype(NEW_YORK),
}
YEARS = "2020-01-01", "2022-12-31"


def sample(values, described):
    schema = TableSchema({"t": described})
    synth = IndependentSynthesizer(epsilon=5.0, schema=schema)
    synth.fit(pd.DataFrame({"t": values}))
    assert synth.schema_.columns["t"] == described
    return synth.sample(400)["t"]


@pytest.mark.parametrize("name", DTYPES)
def test_whole_days_come_back_whole(name):
    """At midnight of the zone of the column, inside the bounds, and spread as before.

    The mean of 400 uniform days of 900 has a deviation of 13, that of the table of 11.
    """
    values = DTYPES[name]
    generated = sample(values, Datetime(*YEARS, unit="D"))
    assert generated.dtype == values.dtype
    clock = pd.DatetimeIndex(generated).tz_localize(None).to_series()
    assert (clock == clock.dt.floor("D")).all()
    assert clock.between(*map(pd.Timestamp, ("2019-12-31", "2022-12-31"))).all()
    assert clock.nunique() > 100
    shift = clock.mean() - pd.DatetimeIndex(values).tz_localize(None).mean()
    assert abs(shift) < pd.Timedelta(days=100)


@pytest.mark.parametrize("unit", [None, "h", "min", "s"])
def test_every_unit(unit):
    values = pd.Timestamp("2020-03-01") + pd.to_timedelta(RNG.random(600) * 9e5, "s")
    generated = sample(values, Datetime("2020-03-01", "2020-03-12", unit=unit))
    assert (generated == generated.dt.floor(unit or "s")).all() == (unit is not None)
    assert generated.nunique() > 8


def test_other_values_are_cut_down_to_the_unit():
    domain = declared_domain(
        ColumnLayout.of("t", pd.Series(dtype="datetime64[us]")),
        TableSchema({"t": Datetime("2020-01-01T10:00", "2020-01-09T10:00", unit="D")}),
    )
    start = pd.Timestamp("2020-01-01").timestamp()
    assert (domain.low, domain.high) == (start / 86_400, start / 86_400 + 8)
    hours = np.array([-99.0, 0.0, 23.9, 24.0, 99 * 24.0])
    back = domain.from_unit(domain.to_unit(start + 3600 * hours))
    assert ((back - start) / 3600).tolist() == [0.0, 0.0, 0.0, 24.0, 8 * 24.0]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "+05:45"])
def test_clock_of_a_zone_there_and_back(zone):
    """Every hour of a year, but for the one that the clock shows twice."""
    utc = pd.date_range("2021-01-01", "2022-01-01", freq="h", tz="UTC")
    column = ColumnLayout.of("t", pd.Series(utc.tz_convert(zone)))
    seconds = utc.as_unit("s").asi8.astype(float)
    wall = column.to_wall(seconds)
    expected = utc.tz_convert(zone).tz_localize(None).as_unit("s").asi8
    np.testing.assert_array_equal(wall, expected)
    wrong = np.flatnonzero(column.from_wall(wall) != seconds)
    assert len(wrong) == (0 if zone.startswith("+") else 1)


def test_an_hour_that_the_clock_leaves_out_is_the_next():
    column = ColumnLayout.of("t", pd.Series(dtype="datetime64[us, Europe/Berlin]"))
    gone = pd.Timestamp("2021-03-28T02:30").timestamp()
    back = column.from_wall(np.array([gone]))
    assert pd.Timestamp(back[0], unit="s") == pd.Timestamp("2021-03-28T01:00")


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        (["2020-01-01", "2020-05-01", None], "D"),
        (["2020-01-01T10:00", "2020-01-01"], "h"),
        (["2020-01-01T10:30", "2020-01-01"], "min"),
        (["2020-01-01T10:30:01", "2020-01-01"], "s"),
        (["2020-01-01T10:30:01.5", "2020-01-01"], None),
        ([None, None], None),
    ],
)
@pytest.mark.parametrize("zone", [None, "Asia/Kathmandu"])
def test_the_unit_of_a_public_table(values, unit, zone):
    series = pd.Series(pd.to_datetime(values, format="ISO8601")).dt.tz_localize(zone)
    schema = TableSchema.from_dataframe(pd.DataFrame({"t": series}))
    assert schema.columns["t"].unit == unit


def test_a_schema_as_written_before_there_were_units():
    old = TableSchema({"t": Datetime(*YEARS, unit="D")}).to_dict()
    del old["columns"][0][1]["unit"]
    assert TableSchema.from_dict(old).columns["t"].unit is None


# --- Of a value only what it equals goes into a fit -----------------------------------

# A text may be an object of the caller's, with the name of its owner.
N_ROWS, SECRET = 300, "sEcReT"


class Text(str):
    pass


class Whole(int):
    pass


class Real(float):
    pass


class Moment(datetime.datetime):
    pass


class Letter(enum.StrEnum):
    A = "a"
    B = "b"


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


OURS = (Text, Whole, Real, Moment, Letter, Number)


def few(first, second):
    for value in (first, second):
        value.owner = SECRET
    return [first, second] * (N_ROWS // 2)


COLUMNS = {
    "text": few(Text("p"), Text("q")),
    "enum of texts": [*Letter] * (N_ROWS // 2),
    "whole": few(Whole(1), Whole(2)),
    "enum of numbers": [*Number] * (N_ROWS // 2),
    "real": few(Real(0.5), Real(1.5)),
    "moment": few(Moment(2020, 1, 1), Moment(2021, 1, 1)),
}
TEXTS = ("text", "enum of texts")
OTHER = np.arange(N_ROWS) % 3 + 0.5
FITS = {
    "independent": IndependentSynthesizer(epsilon=20.0, random_state=0),
    "gpate": GPATESynthesizer(epsilon=20.0, n_iter=1, n_teachers=5, random_state=0),
}


def check_nothing_left(fitted, tmp_path):
    path = tmp_path / "fitted.skdp"
    fitted.save(path, overwrite=True)
    rows = fitted.sample(50, random_state=0)
    again = type(fitted).load(path)
    for held in (fitted, rows, again, pickle.loads(pickle.dumps(fitted))):
        assert not any(isinstance(part, OURS) for part in reachable(held))
    assert not any(isinstance(value, OURS) for column in rows for value in rows[column])
    for written in (pickle.dumps(fitted), path.read_bytes(), pickle.dumps(rows)):
        assert SECRET.encode() not in written
        assert not any(kind.__qualname__.encode() in written for kind in OURS)


@pytest.mark.parametrize(
    ("form", "fit"),
    [(form, "independent") for form in ("object", "category", "list", "y", "y list")]
    + [("object", "gpate"), ("y", "gpate")],
)
@pytest.mark.parametrize("name", COLUMNS)
def test_no_subclass_is_left(name, form, fit, tmp_path):
    """Features and labels; an object column of other things than texts is refused."""
    values, budget = COLUMNS[name], PrivacyBudget(100.0, 0.1)
    made = pd.Series(values, dtype="category" if form == "category" else object)
    X, y = pd.DataFrame({"a": made, "b": OTHER}), None
    if form == "list":
        X = [list(row) for row in zip(values, OTHER, strict=True)]
    elif form.startswith("y"):
        X, y = X[["b"]], values if form == "y list" else made
    synth = clone(FITS[fit]).set_params(budget=budget)
    if name not in TEXTS and form in ("object", "y"):
        with pytest.raises(InvalidTableError):
            synth.fit(X, y)
        assert budget.spent[0] == 0
        return
    check_nothing_left(synth.fit(X, y).set_params(budget=None), tmp_path)


@pytest.mark.parametrize("name", COLUMNS)
def test_declared_levels_are_plain(name):
    levels = Categorical(COLUMNS[name][:2]).categories
    assert not any(isinstance(level, OURS) for level in levels)
