"""What `TableSchema.check` finds: counted, and without a value of the table."""

from __future__ import annotations

import math
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from _columns import columns, with_holes

from skdpsynth import IndependentSynthesizer
from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Derived,
    Determines,
    Identifier,
    Ordered,
    TableSchema,
)

DAYS = pd.to_datetime(["2020-01-01T00", "2020-06-01T12", None, "2021-01-01T00"])
ZONED = DAYS.tz_localize("Asia/Tokyo")
SPANS = pd.to_timedelta([5, 90, 1.5], unit="s")
TENTHS = Continuous(0, 0.3, decimals=1)
CATEGORIES, CUT = Categorical(["p", "q"]), "finer than unit 'D': cut"
CANARY = 87_654_321
times = partial(Datetime, nullable=True)


def findings(schema: TableSchema, df: pd.DataFrame) -> list[tuple]:
    return [tuple(row) for row in schema.check(df).itertuples(index=False)]


@pytest.mark.parametrize("holes", [False, True], ids=["complete", "holes"])
@pytest.mark.parametrize("name", columns())
def test_nothing_is_found_where_the_schema_was_read_off_the_table(name, holes):
    series = columns()[name]
    table = pd.DataFrame({"a": with_holes(series) if holes else series})
    assert findings(TableSchema.from_dataframe(table), table) == []


@pytest.mark.parametrize("name", columns())
def test_what_lies_outside_is_counted_for_any_dtype(name):
    """The schema of the lower half of the values; a sorted list counts the others."""
    values = columns()[name]
    values = values.sort_values(key=lambda s: s.astype(object), ignore_index=True)
    if values.nunique() == 2:
        pytest.skip("a boolean has no other values")
    keys = values.astype(object)
    half = values[keys <= keys.iloc[len(keys) // 2]]
    if isinstance(values.dtype, pd.CategoricalDtype):
        half = half.cat.remove_unused_categories()
    schema = TableSchema.from_dataframe(half.to_frame("a"))
    table = values.to_frame("a")
    (row,) = [row for row in findings(schema, table) if "rounded" not in row[1]]
    assert row[0] == "a"
    assert row[1].startswith(("above ", "after ", "category not declared"))
    assert row[2] == len(values) - len(half) > 0


@pytest.mark.parametrize(
    ("column", "values", "dtype", "expected"),
    [
        (Continuous(0, 9), [-1.5, 0, 9, 10, 11], None, {"below 0": 1, "above 9": 2}),
        (Continuous(0, 9, special=[99, 5]), [-1, 99, 99, 5], None, {"below 0: cl": 1}),
        (Continuous(0, 9), [11, 99, 99], None, {"above 9: clipped, most of them": 3}),
        (Continuous(0, 9, integer=True), [1, 2.5, 3.25], None, {"not a whole num": 2}),
        (TENTHS, [0.1, 0.1 + 0.1, 0.25], None, {"more than 1": 1}),
        (Continuous(0, 0.3), [0.3, 0.1], "float16", {}),
        (Continuous(0, 9), [1.0, math.inf], None, {"infinite: fit refuses": 1}),
        (Continuous("0s", "60s", decimals=0), SPANS, None, {"above": 1, "not a": 1}),
        (Continuous("0s", "90s", unit="s"), SPANS, None, {"finer than unit 's'": 1}),
        (CATEGORIES, [*"pxy", None], None, {"missing": 1, "category not": 2}),
        (Categorical([1, 2]), [1, 2, 3, 3], None, {"category not declared: read": 2}),
        (Categorical(["p"]), pd.Categorical(["p"], categories=["p", "x"]), None, {}),
        (Boolean(), [True, None], "boolean", {"missing, though not nullable": 1}),
        (times("2020-02", "2020-12"), DAYS, None, {"before": 1, "after": 1}),
        (times("2020", "2021", unit="D"), ZONED, None, {"before 2020": 1, CUT: 1}),
        (times(ZONED[0], ZONED[3], unit="h"), ZONED, None, {}),
        (Identifier(), ["u", "u", "u", "v", "w", "w", None], None, {"identifier": 5}),
        (Boolean(), [0, 1], None, {"fit refuses: The schema describes column 'a'": 2}),
        (Boolean(), ["u", "v"], object, {"fit refuses: The schema gives column": 2}),
        (Categorical(["p"]), ["p", 1], object, {"fit refuses: Column 'a' has dt": 2}),
    ],
)
def test_findings_and_their_rows(column, values, dtype, expected):
    table = pd.DataFrame({"a": pd.Series(values, dtype=dtype)})
    found = findings(TableSchema({"a": column}), table)
    assert [n_rows for _, _, n_rows in found] == [*expected.values()]
    for (_, words, _), start in zip(found, expected, strict=True):
        assert words.startswith(start)


def test_columns_of_only_one_side():
    table = pd.DataFrame({"u": [1.0, math.inf], "v": [1j, 2j]})
    schema = TableSchema({"w": Boolean()}, target="y")
    declared, infinite, complex_, *absent = findings(schema, table)
    assert declared == ("u", "not declared: measured", 2)
    assert infinite == ("u", "infinite: fit refuses", 1)
    assert complex_[1].startswith("fit refuses: Complex")
    assert absent == [(name, "no such column: fit refuses", 2) for name in "wy"]


@pytest.mark.parametrize("whole", [False, True])
def test_persons_with_several_rows_are_asked_for(whole):
    """Of numbers and texts with about 3 rows each, or by name; not once stated."""
    rng = np.random.default_rng(0)
    who = np.repeat(rng.permutation(400), 3) + 10**6
    visits = pd.DataFrame({"p": who, "patientId": who % 30, "covid": who % 30})
    visits["case_id"], visits["age"] = range(1200), rng.integers(0, 90, 1200)
    visits = visits if whole else visits.astype(str)
    found = TableSchema({}).check(visits)
    asked = found["finding"].str.contains("privacy_unit=")
    assert found["column"][asked].tolist() == ["p", "patientId"]
    stated = TableSchema({}, privacy_unit="p", max_rows_per_unit=3)
    assert not stated.check(visits)["finding"].str.contains("privacy_unit=").any()


def test_counts_are_compared():
    table = pd.DataFrame({"y": ["u"] * 3 + ["v"] * 2})
    columns = {"y": Categorical(["u", "v"])}
    right = TableSchema(columns, target="y", class_counts={"u": 3, "v": 2})
    assert findings(right, table) == []
    wrong = TableSchema(columns, target="y", n_rows=6, class_counts={"u": 4, "v": 2})
    assert findings(wrong, table) == [
        ("y", "class 'u' is declared with 4 rows", 3),
        (None, "n_rows is declared as 6", 5),
    ]


def test_no_value_of_the_table_is_told():
    """A canary in every column, outside of what was declared."""
    table = pd.DataFrame(
        {
            "n": [1.0, CANARY + 0.5],
            "s": ["p", str(CANARY)],
            "mixed": ["p", CANARY],
            "id": [CANARY, CANARY],
            "t": pd.to_datetime(["2020-01-01", "2179-12-31"]),
            "c": pd.Categorical(["p", str(CANARY)]),
            "y": [1, CANARY],
        }
    )
    columns = {
        "n": Continuous(0, 9, integer=True),
        "id": Identifier(),
        "t": Datetime("2020", "2021", unit="D"),
        "c": Continuous(0, 1),
        "y": Categorical([1]),
    } | dict.fromkeys(["s", "mixed"], Categorical(["p"]))
    found = TableSchema(columns, target="y", class_counts={1: 5}).check(table)
    assert set(table.columns) <= set(found["column"])
    assert found.attrs["contains_private_statistics"] is True
    told = found["finding"].str.cat()
    assert str(CANARY) not in told
    assert "2179" not in told


def test_fit_refuses_what_is_said_to_be_refused_and_no_other():
    columns = {"n": Continuous(0, 9, decimals=0), "s": Categorical(["p"])}
    schema = TableSchema(columns | {"id": Identifier()}, n_rows=49)
    table = pd.DataFrame({"n": np.arange(50.0), "s": ["p", "x"] * 25, "id": "u"})
    table.loc[3, "n"] = 2.5
    assert len(schema.check(table)) == 5
    assert not schema.check(table)["finding"].str.contains("refuse").any()
    IndependentSynthesizer(epsilon=math.inf, schema=schema).fit(table)
    for column, values in [("n", math.inf), ("s", 3), ("id", 1j)]:
        spoilt = table.assign(**{column: values})
        assert schema.check(spoilt)["finding"].str.contains("fit refuses").sum() == 1
        with pytest.raises((InvalidSchemaError, InvalidTableError)):
            IndependentSynthesizer(schema=schema).fit(spoilt)


def test_what_is_no_table_is_refused():
    schema = TableSchema({"a": Boolean()})
    with pytest.raises(InvalidTableError, match="Expected a DataFrame"):
        schema.check([[True]])
    with pytest.raises(InvalidTableError, match="must be distinct"):
        schema.check(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    assert schema.check(pd.DataFrame({"a": pd.Series(dtype=bool)})).empty


N = 60
TEXTS = {
    "dates": [f"{n % 28 + 1:02}.0{n % 9 + 1}.2024" for n in range(N)],
    "dates ": [f"2024-0{n % 9 + 1}-{n % 28 + 1:02} 10:30" for n in range(N)],
    "times of day or durations": [f"{n % 24:02}:{n:02}" for n in range(N)],
    "times of day or durations ": [f"{n % 3} days 00:05:{n:02}" for n in range(N)],
    "codes with leading zeros or phone numbers": [f"{n:07}" for n in range(N)],
    "codes with leading zeros or phone numbers ": [
        f"{'+49 ' if n % 2 else '0'}151-{n:07}" for n in range(N)
    ],
    "numbers": [f"{n * 37:,}.50" for n in range(N)],
    "numbers ": [f"${n}.00" for n in range(N)],
    "numbers  ": [f"{n}%" for n in range(N)],
    "numbers   ": [f"{n}.5" for n in range(N)],
    "numbers    ": [f"{n}.5 mg/l" for n in range(N)],
}


@pytest.mark.parametrize("others", [[], ["-"] * 5])
@pytest.mark.parametrize("name", TEXTS)
def test_what_texts_look_like_is_said(name, others):
    """With what they are to a fit, and how many others are beside them."""
    found = TableSchema({}).check(pd.DataFrame({"x": [*TEXTS[name], *others]}))
    words, rows = found["finding"].tolist()[1:], found["rows"].tolist()[1:]
    like = f"texts, categories to a fit, that look like {name.strip()}:"
    assert words[0].startswith(like)
    assert rows == [N, *[5] * bool(others)]
    assert not others or "coerce" in words[1]
    if name.startswith("times"):  # what is named reads them
        pd.to_timedelta([text + ":00" * (len(text) == 5) for text in TEXTS[name]])
    words = TableSchema({}).check(pd.DataFrame({"x": TEXTS[name] * 3}))["finding"]
    asked = words.str.contains("privacy_unit").any()
    assert asked != name.startswith(("dates", "times"))


@pytest.mark.parametrize("name", [name for name in TEXTS if name[0] in "dn"])
@pytest.mark.parametrize("blank", [False, True])
def test_a_kind_that_is_stated_of_texts_is_refused_with_what_converts_them(name, blank):
    """Not read as categories; the code of the message is run."""
    of_times = name[0] == "d"
    ends = ("2000", "2030") if of_times else (0, 10_000)
    form = {"format": "%d.%m.%Y"} if name == "dates" else {}
    column = Datetime(*ends, **form) if of_times else Continuous(*ends)
    stated = {"blanks" if blank else "columns": {"x": column}}
    table = pd.DataFrame({"x": TEXTS[name], "y": range(N)})
    synth = IndependentSynthesizer(5.0, schema=TableSchema(**{"columns": {}} | stated))
    with pytest.raises(InvalidSchemaError, match="is categorical") as seen:
        synth.fit(table)
    (code,) = re.findall(r"(pd\.to_\w+\(.*\))[.;]", str(seen.value))
    table["x"] = eval(code, {"pd": pd, "table": table})
    assert synth.fit(table).sample(9)["x"].dtype.kind in "Mif"


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_times_that_are_never_before_others_are_named_with_the_rule(zone):
    """Not if few rows, ranges apart or an open end make it so, or a rule states it."""
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2024-01-01", tz=zone) + pd.to_timedelta(np.arange(60), unit="D")
    stay = pd.to_timedelta(rng.integers(0, 9, 60), unit="D")
    table = pd.DataFrame({"in": day, "out": day + stay, "alone": day[::-1]})
    table["born"] = table["in"] - pd.Timedelta("9000D")
    end = pd.Timestamp("9999-12-31", tz=zone).as_unit("s")
    table["until"] = table["out"].dt.as_unit("s").where(table.index % 2 == 0, end)
    table.loc[::7, "out"] = pd.NaT
    schema = TableSchema({}, rules=[Ordered(["in", "out"])])
    [told] = named(TableSchema({}).check(table))
    assert told == "out never before 'in': if it must be so, Ordered(['in', 'out'])"
    assert named(schema.check(table)) == named(TableSchema({}).check(table[:15])) == []


def named(found):
    """Return what `check` says of times in an order."""
    words = found["column"].astype(str) + " " + found["finding"]
    return [line for line in words if "never before" in line]


def test_sums_and_products_in_every_row_are_named_with_the_rule_that_keeps_them():
    """Not if one row has another, a rule states it, it is the target, or 0 is added."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 2, (90, 4)), columns=["a", "b", "one", "zero"])
    table["price"], table["n items"] = rng.integers(99, 9999, 90) / 100, range(2, 92)
    table["total"] = table["price"] * table["n items"]
    table["or"], table["of both"] = table["a"] + 1 - table["a"], table["n items"] + 4.5
    table["4.5"], table["all"] = 4.5, table["total"] + table["of both"]
    table.loc[::9, ["price", "total", "all"]] = np.nan

    def told(**schema):
        found = TableSchema({}, **schema).check(table)
        return {c: w for c, w, _ in found.to_numpy() if "to keep it" in w}

    names = ["of both", "all", "total"]
    assert {*told()} == {*names}
    rules = [eval(words.partition("it, ")[2]) for words in told().values()]
    assert {*rules} >= {Derived("total", "`price` * `n items`")}
    assert told(rules=rules) == {}
    assert {*told(target="total")} == {*names[:2]}
    table.loc[5, "total"] += 0.01
    assert {*told()} == {*names[:1]}
    wide = TableSchema({}).check(
        pd.DataFrame(rng.normal(size=(2, 101))).add_prefix("c")
    )
    assert "first 100 numbers" in wide["finding"].iloc[-1]


def test_a_column_that_another_decides_in_every_row_is_named_with_the_rule():
    """By the one of fewest values; not by persons, a rule, or but for one row."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"code": rng.integers(0, 200, 5000)}, dtype=object)
    table["code"] = table["code"].astype("Int64").mask(table.index % 9 == 0)
    table["town"] = "t" + (table["code"] // 3).astype("string")
    table["land"] = "l" + (table["code"] // 30).astype("string")
    table["gap"] = table["land"].mask(table["town"].eq("t5").fillna(False).astype(bool))
    table["free"], table["m"] = rng.choice(["a", "b"], 5000), rng.random(5000) < 0.1
    table["person"] = np.arange(5000) // 2
    table["sex"] = table["person"] % 2 == 0

    def told(**schema):
        found = TableSchema({}, **schema).check(table)
        return {c: w for c, w, _ in found.to_numpy() if "decides" in w}

    by_town = "Determines('town', 'land', {...})"
    assert {*told()} == {"town", "land"}
    assert told()["land"].endswith(by_town)
    assert {*told(target="land")} == {"town"}
    assert {*told(privacy_unit="person", max_rows_per_unit=2)} == {"town", "land"}
    land = {t: t for t in table["town"].dropna()}
    own = {name: Categorical([*land], nullable=True) for name in ("town", "land")}
    ruled = TableSchema(own, rules=[Determines("town", "land", land)]).check(table)
    assert not ruled["finding"].str.contains(re.escape(by_town)).any()
    table.loc[5, "land"] = pd.NA
    assert {*told()} == {"town"}
    few = TableSchema({}).check(table[:40])["finding"]
    assert not few.str.contains("decides").any()


def test_numbers_in_another_order_of_bytes_are_checked():
    """Pandas 2 selects no columns of them."""
    days = np.arange(40, dtype=">f8")
    table = pd.DataFrame({"a": days, "b": 3 * days, "c": 4 * days}).astype(">f8")
    table["d"] = (np.arange(40) % 7).astype(">i4")
    assert "`a` + `b`" in TableSchema({}).check(table)["finding"].str.cat()
