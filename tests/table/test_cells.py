"""From the text of a cell to a typed value: what other cells there are has no say."""

import datetime
import re
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from skdpsynth.privacy import Parts
from skdpsynth.schema import Boolean, Categorical, Continuous, Datetime, TableSchema
from skdpsynth.table import declared_domain, encode_rows, open_table
from skdpsynth.table.csv_files import MISSING_TEXTS, typed_cells  # thousands of cells

ZONED = Datetime("2020-01-01T00:00Z", "2021-01-01T00:00Z")
COLUMNS = {
    "number": Continuous(-1, 1),
    "fractions": Categorical([0.5, 1]),
    "whole": Continuous(-1, 1, integer=True),
    "codes": Categorical([2**53, 2**53 + 1]),
    "truth": Boolean(),
    "truths": Categorical([True]),
    "time": Datetime("2020-01-01", "2021-01-01"),
    "zoned": ZONED,
    "text": Categorical(["a"]),
    "open": Categorical([], nullable=True),
}
ODD = [
    *("9007199254740992", "9007199254740993", "-9007199254740993", "3", "-0", "0"),
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e18"),
    *("3.0", "3.", "0003", "+3", " 3 ", "\t3", "3.5", "2.5", "-2.5", "-0.5", ".5", "."),
    *("1e3", "1E3", "1e-3", "1e300", "1e400", "1e-400", "1e999999999999", "9" * 400),
    *("9007199254740993.0", "9007199254740992.5", "0." + "1" * 60, "1e1e1", "1.2.3"),
    *("0x10", "1_000", "1,5", "--1", "inf", "-Infinity", "NaN", "NAN", "\uff11\uff12"),
    "\u0663",
    *("true", "TRUE", "False", "yes", "1", "tru\0e", "\ud7ff", "e\u0301", "\u00e9"),
    *("2020-01-02", "2020-01-02T03:04", "2020-01-02 03:04:05.000001", "2020-02-30"),
    *("2020-01-02T03:04:05.123456789", "20200102", "2020", "2020-03", "2020/01/02"),
    *("2020-01-02T03:04Z", "2020-01-02 03:04:05+01:00", "2020-01-02T03:04-0330"),
    *("0001-01-01", "9999-12-31 23:59:59.999999", "10000-01-01", "1677-01-01"),
    *("0001-01-01T00:00:00+05:00", "9999-12-31T23:59-01:00", "0.0", "-0.0", "1e19"),
    *("2020-05-05T10:00+12:75", "2020-05-05T10Z", "2020-05-05T10:00+24:00"),
    *("2020-01-01 24:00", "2020-W01-1", "soon", "a,b", 'a"b', "a\nb", " ", "x" * 300),
]
RNG = np.random.default_rng(0)
# Numbers in the form that Arrow reads; many of the odd ones are read one by one.
FLOATS = RNG.normal(size=60) * 10.0 ** RNG.integers(-9, 9, 60)
PLAIN = [*map(repr, FLOATS.tolist())]
PLAIN += [str(n) for n in RNG.integers(-(10**17), 10**17, 60)]
NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.A)


def read(cells, column):
    """Give each cell as it comes out, ValueError for one that cannot be read."""
    series, refused = typed_cells(pa.array(cells, pa.large_string()), column)
    if refused.any():
        return ValueError
    return [None if pd.isna(value) else value for value in series], series.dtype


@cache
def read_alone(cell, name):
    return read([cell], COLUMNS[name])


def same(one, other):
    """Whether two values are equal, with their type and the sign of a zero."""
    return type(one) is type(other) and repr(one) == repr(other)


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=150, deadline=None)
@given(cells=st.lists(st.sampled_from([*ODD, None]), min_size=1, max_size=6))
def test_a_cell_is_read_alone(name, cells):
    """Beside others it is what it is by itself, and so is what is refused."""
    alone = [read_alone(cell, name) for cell in cells]
    together = read(cells, COLUMNS[name])
    if ValueError in alone:
        assert together is ValueError
        return
    values, dtype = together
    assert all(dtype == own for _, own in alone)
    for value, ((one,), _) in zip(values, alone, strict=True):
        assert same(value, one)


@pytest.mark.parametrize("cell", [c for c in ODD if c.startswith("2020-")])
def test_a_zone_is_read_alone(cell):
    """Plain cells go another way than others: whatever is beside them."""
    alone = read_alone(cell, "zoned")
    for other in ("2020-05-05T10:00Z", "2020-05-05T10Z"):
        both = read([cell, other], ZONED)
        assert (both is ValueError) == (alone is ValueError)
        assert alone is ValueError or both[0][0] == alone[0][0]


@pytest.mark.parametrize("cell", [*ODD, *PLAIN])
def test_numbers_are_exact(cell):
    """Against fractions; a double is the nearest one, as Python reads it."""
    whole, number = (read([cell], COLUMNS[name]) for name in ("whole", "number"))
    if not NUMBER.fullmatch(cell):
        assert whole is number is ValueError
        return
    assert same(number[0][0], np.float64(float(cell)).item())
    # An exponent that no fraction is written out for.
    exact = round(Fraction(cell)) if "e9999" not in cell else 2**64
    if -(2**63) <= exact < 2**63:
        assert whole[0] == [exact]
    else:
        assert whole is ValueError


@pytest.mark.parametrize("known", [[0, 1, 2], [2**53, 2**53 + 1], [1e300, 1.0, 0.5]])
def test_a_number_is_the_category_that_it_is_in_other_sources(known, tmp_path):
    """Not one beside it: a fraction, or what no 64 bits hold, is 'other' everywhere."""
    cells = ["0.5", "1.5", "1", "1.0", "1e0", "1e300", "1e19", "2", "-1", "", "NaN"]
    lines = [f"{cell},1" for cell in cells]
    (tmp_path / "t.csv").write_text("\n".join(["a,x", *lines]))
    frame = pd.DataFrame({"a": [float(cell or "nan") for cell in cells], "x": 1.0})
    columns = {"a": Categorical(known, nullable=True), "x": Continuous(0, 9)}
    schema = TableSchema(columns)
    codes = []
    for source in (tmp_path / "t.csv", frame):
        parts, layout = open_table(source, schema=schema)
        laid_out = list(layout.columns)
        domains = [declared_domain(column, schema) for column in laid_out]
        rows = [encode_rows(p, laid_out, domains) for p in Parts.of(parts).each()]
        codes.append(rows[0].category_codes[:, 0].tolist())
    assert codes[0] == codes[1]


def test_times_are_read_to_the_microsecond():
    expected = {
        "2020-01-02": datetime.datetime(2020, 1, 2),
        "2020-01-02T03:04": datetime.datetime(2020, 1, 2, 3, 4),
        "2020-01-02 03:04:05.000001": datetime.datetime(2020, 1, 2, 3, 4, 5, 1),
        "20200102": datetime.datetime(2020, 1, 2),
        "2020/01/02": datetime.datetime(2020, 1, 2),
        "2020-03": datetime.datetime(2020, 3, 1),
        "2020": datetime.datetime(2020, 1, 1),
        "0001-01-01": datetime.datetime(1, 1, 1),
        "9999-12-31 23:59:59.999999": datetime.datetime.max,
    }
    values, dtype = read([*expected], COLUMNS["time"])
    assert dtype == "datetime64[us]"
    assert [value.to_pydatetime() for value in values] == [*expected.values()]
    zoned = {
        "2020-01-02T03:04Z": "2020-01-02 03:04:00+00:00",
        "2020-01-02 03:04:05+01:00": "2020-01-02 02:04:05+00:00",
        "2020-01-02T03:04-0330": "2020-01-02 06:34:00+00:00",
    }
    for cell in zoned:
        assert read([cell], COLUMNS["time"]) is ValueError
    zoned["2020-01-02"] = "2020-01-02 00:00:00+00:00"
    values, dtype = read([*zoned], ZONED)
    assert dtype == "datetime64[us, UTC]"
    assert [str(value) for value in values] == [*zoned.values()]


def test_missing_texts_are_those_of_pandas(tmp_path):
    """So a file is the same table for both."""
    lines = [f"{text},1" for text in MISSING_TEXTS]
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *lines, "Na,1"]))
    missing = pd.read_csv(tmp_path / "t.csv")["a"].isna().tolist()
    assert missing == [True] * len(lines) + [False]
