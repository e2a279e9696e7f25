"""Rules across columns: what a schema takes, refuses, writes, and finds in a table."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Derived,
    Determines,
    Identifier,
    MissingTogether,
    Ordered,
    SumOf,
    TableSchema,
)

COLUMNS = {
    "low": Continuous(0, 10),
    "high": Continuous(5, 20),
    "far": Continuous(-9, -1),
    "sum": Continuous(-4, 30),
    "narrow": Continuous(6, 30),
    "cents": Continuous(0, 1, decimals=2),
    "tenths": Continuous(0, 99, decimals=1),
    "count": Continuous(0, 9, integer=True),
    "hole": Continuous(0, 1, nullable=True),
    "hole 2": Continuous(0, 1, nullable=True),
    "day": Datetime("2020-01-01", "2021-01-01", unit="D"),
    "day 2": Datetime("2020-01-01", "2022-01-01", unit="D"),
    "time": Datetime("2020-01-01", "2021-01-01"),
    "zoned": Datetime("2019-01-01T00:00Z", "2019-06-01T00:00Z", unit="D"),
    "zip": Categorical(["A", "B"]),
    "maybe": Categorical(["A", "B"], nullable=True),
    "empty": Categorical([], nullable=True),
    "state": Categorical(["x", "y"]),
    "flag": Boolean(),
    "id": Identifier(),
}
STATES = {"A": "x", "B": "y"}
DECIDES = {"rule": "determines", "deciding": "zip", "decided": "state"}
FLAGS = Determines("zip", "flag", {"A": True, "B": False})
BROKEN = ["b +", "f(b)", "b.c", "b[0]", "b ** 2", "b < 1", "True + b", "1e999 * b"]
RULES = {
    "ordered": Ordered(["low", "high"]),
    "ordered times": Ordered(["day", "day 2"], strict=True),
    "ordered, measured": Ordered(["not described", "neither"]),
    "sum": SumOf("sum", ["low", "high"]),
    "sum of tenths": SumOf("tenths", ["count", "count 2"]),
    "derived": Derived("sum", "low + `count 2` / 9 * -(1 - -0.5)"),
    "derived, measured": Derived("not described", "b - `a b`", unit="Y"),
    "missing": MissingTogether(["hole", "hole 2", "maybe"]),
    "text": Determines("zip", "state", STATES),
    "number": Determines("flag", "count", {False: 0, True: 3}),
}


def schema_of(*rules, target=None, **more):
    columns = {**COLUMNS, "count 2": COLUMNS["count"], **more}
    return TableSchema(columns, target=target, rules=rules)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_written_as_json_and_as_code(name):
    rule = RULES[name]
    schema = schema_of(rule)
    assert schema.rules == (rule,)
    assert TableSchema.from_json(schema.to_json()) == schema != schema_of()
    assert TableSchema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert copy.deepcopy(schema) == pickle.loads(pickle.dumps(schema)) == schema
    assert eval(repr(rule)) == rule
    assert f"        {rule!r},\n" in repr(schema)
    assert "rules" not in schema_of().to_dict()  # so that earlier releases read it


def test_names_and_values_of_other_types_come_back():
    """Tuples, numbers and points in time; a total that is named by a tuple."""
    day = pd.Timestamp("2020-02-01", tz="Europe/Paris")
    columns = {
        ("a", 1): Continuous(0, 9),
        2: Continuous(0, 4),
        None: Continuous(0, 5),
        pd.Timestamp(0): Categorical([day]),
        "w": Categorical([1.5]),
    }
    rules = [SumOf(("a", 1), [2, None]), Determines(pd.Timestamp(0), "w", {day: 1.5})]
    schema = TableSchema(columns, rules=rules)
    assert TableSchema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ordered("low"), "must be a list of column names. Got .* type str"),
        (lambda: Ordered(["low"]), r"2 or more names, none of them twice. Got \['low'"),
        (lambda: Ordered(["low", {}]), "must be names of columns"),
        (lambda: Ordered(["low", "high"], strict=1), "'strict' flag .* True or False"),
        (lambda: SumOf("sum", ["low"]), "'parts' of SumOf must be 2 or more"),
        (lambda: SumOf("sum", ["low", "sum"]), "'columns' of SumOf"),
        (lambda: Derived("a", "b", unit="weeks"), "must be one of .*calendar day"),
        *(
            (lambda text=text: Derived("a", text), "must be of names of columns, num")
            for text in (*BROKEN, "(" * 9_000, "b" + "+b" * 9_000, 3)
        ),
        (lambda: Derived("a", "3"), "2 or more names, none of them twice"),
        (lambda: Derived("a", "a + 1"), "2 or more names, none of them twice"),
        (lambda: Determines("zip", "state", ["x"]), "must be a mapping.* type list"),
        (lambda: Determines("zip", "zip", {}), "none of them twice"),
    ],
)
def test_what_is_no_rule_is_refused(make, message):
    with pytest.raises(InvalidSchemaError, match=message):
        make()


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([MissingTogether(["hole", "top"])], "column 'top' that the schema does not d"),
        ([Derived("low", "`zip` + 1")], "must be Continuous or Datetime. Got Conti"),
        # Bounds that are found of the other might leave no room, after the charge.
        ([Ordered(["low", "top"])], "all columns of the rule"),
        ([Ordered(["low", "zip"])], "must all be Continuous.* Got Continuous, Cat"),
        ([Ordered(["day", "low"])], "must all be Cont.* Got Datetime, Continuous"),
        ([MissingTogether(["hole", "low"])], "must be nullable. Got .* for 'low'"),
        ([MissingTogether(["hole", "empty"])], "no categories for 'empty'"),
        ([Determines("low", "state", {})], "must be Categorical or Boolean. Got Cont"),
        ([Determines("zip", "day", STATES)], "Boolean or Continuous. Got Datetime"),
        ([Determines("zip", "state", {"A": "x"})], "Got 1 of them.* such as 'B'"),
        ([Determines("zip", "state", STATES | {"A": "z"})], "Got 'z'; correct"),
        ([Determines("flag", "count", {False: 0.5, True: 1})], "Got 0.5"),
        ([Determines("maybe", "state", STATES)], "Set nullable=True for 'state'"),
        ([RULES["text"], Determines("flag", "state", {})], "keys of the table"),
        ([FLAGS] * 2, "'flag' can be computed, or changed, by one rule"),
        ([RULES["ordered"], Ordered(["low", "narrow"])], "'low' can be computed, or c"),
        (
            [FLAGS, Determines("flag", "zip", {False: "A", True: "B"})],
            "in a circle: 'flag', 'zip'. Drop one of Determines of 'zip', 'flag'; D",
        ),
        ("low", "must be a list of rules. Got an object of type str"),
    ],
)
def test_rules_that_cannot_be_kept_are_refused(rules, message):
    with pytest.raises(InvalidSchemaError, match=message):
        TableSchema({**COLUMNS, "count 2": COLUMNS["count"]}, rules=rules)


def test_a_target_is_not_computed_and_has_all_its_labels():
    for rule, target, message in (
        ("text", "state", "The target 'state' must be modelled"),
        ("missing", "maybe", "labels never come out missing"),
    ):
        with pytest.raises(InvalidSchemaError, match=message):
            schema_of(RULES[rule], target=target)
    assert schema_of(RULES["text"], target="zip").target == "zip"
    assert schema_of(RULES["missing"], target="hole").target == "hole"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"rule": "sorted"}, "'rules': Entry 1: Expected a 'rule' of 'ordered'"),
        ({"rule": "ordered", "columns": ["low", "a"], "c": 1}, "Got 'rule', 'col"),
        (DECIDES | {"table": [["A", "x"], ["A", "y"]]}, "comes twice"),
        (3, "'rules': Entry 1"),
    ],
)
def test_the_place_of_a_malformed_rule_is_named(entry, message):
    data = {**schema_of().to_dict(), "rules": [entry]}
    with pytest.raises(InvalidSchemaError, match=message):
        TableSchema.from_json(json.dumps({"schema_version": 1, **data}))
    with pytest.raises(InvalidSchemaError, match="'rules'"):
        TableSchema.from_dict({**data, "rules": 3})


NOTHING = float("nan")
DAYS = pd.to_datetime(["2020-01-02", "2020-03-01", "2020-04-01"])
LATER = {"time": DAYS + pd.Timedelta("7h"), "day": DAYS}  # on the same day
BY_ZIP = Determines("zip", "hole", {"A": 0.1, "B": 0.2})
TENTHS = np.array([0.1, 0.2, np.nan], "float32")
TIME, GAP = "not in the order 'time', 'day'", "gap read as 0"


@pytest.mark.parametrize(
    ("rule", "table", "expected"),
    [
        (
            Ordered(["low", "high"]),
            {"low": [1.0, 9.0, NOTHING, 5.0], "high": [7, 8, 9, 5]},
            {f"not in the order 'low', 'high': {GAP}": 1},
        ),
        (
            Ordered(["low", "hole", "high"]),  # over a missing value
            {"low": [9, 1, 9], "hole": [NOTHING, 1.5, 8], "high": [8.0, 9, 9]},
            {f"not in the order 'low', 'hole', 'high': {GAP}": 2},
        ),
        (
            Ordered(["day", "day 2"]),
            {"day": DAYS, "day 2": DAYS[::-1].tz_localize("Asia/Tokyo")},
            {f"not in the order 'day', 'day 2': {GAP}": 1},
        ),
        (Ordered(["time", "day"], strict=True), LATER, {f"{TIME}: {GAP}": 3}),
        (Ordered(["time", "day"]), LATER, {}),
        (
            SumOf("sum", ["low", "high"]),
            {"low": [0.1, 0.1, 1, NOTHING], "high": [5.2, 5.3, 6, 7], "sum": [5.3] * 4},
            {"'sum' is not the sum of 'low', 'high': computed": 3},
        ),
        (
            MissingTogether(["hole", "maybe"]),
            {"hole": [1, NOTHING, NOTHING, 0], "maybe": ["A", "A", None, None]},
            {"missing in some of 'hole', 'maybe' only: drawn together": 2},
        ),
        (
            Determines("maybe", "state", STATES),
            {"maybe": [*"AA", None, None, *"CB"], "state": [*"xyx", None, "x", None]},
            {"'state' is not what 'maybe' decides: looked up": 3},
        ),
        (
            *(BY_ZIP, {"zip": ["A", "A", "B"], "hole": TENTHS}),
            {"'hole' is not what 'zip' decides: looked up": 2},
        ),
    ],
)
def test_rows_that_break_a_rule_are_counted(rule, table, expected):
    more = {"state": Categorical(["x", "y"], nullable=True)}
    if "hole" in rule.names and isinstance(rule, Ordered):
        more["hole"] = Continuous(0, 20, nullable=True)
    found = TableSchema({**COLUMNS, **more}, rules=[rule]).check(pd.DataFrame(table))
    of_rules = found[found["column"].isna() & (found["rows"] > 0)]
    assert of_rules.set_index("finding")["rows"].to_dict() == expected
