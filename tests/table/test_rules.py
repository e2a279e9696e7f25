"""Drawn rows are brought in line with rules; which dtypes can keep one."""

from contextlib import nullcontext, suppress
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Derived,
    Determines,
    MissingTogether,
    Ordered,
    SumOf,
    TableSchema,
)
from skdpsynth.table import (
    Classes,
    MarginalTransform,
    Metadata,
    NumericDomain,
    open_table,
)


def domain_of(low, high, decimals):
    domain = NumericDomain(low, high, False, False, True)
    return domain if decimals is None else domain.with_decimals(decimals)


def kept(rule, domains, drawn, **written):
    """Return cells of the columns of a rule, brought in line as in any sample."""
    columns = {n: Continuous(0, 10**6, nullable=True) for n in rule.names}
    for name in rule.derived:
        columns[name] = Continuous(0, 10**9, nullable=True, **written)
    schema = TableSchema(columns, rules=[rule])
    _, layout = open_table(pd.DataFrame(0.0, [0, 1], [*columns]), schema=schema)
    modelled = tuple(own for own in layout.columns if own.name not in rule.derived)
    one_class = Classes((), np.ones(1))
    rules = Metadata.of(layout, tuple(domains), one_class, schema).rules
    cells = {own.name: each for own, each in zip(modelled, drawn, strict=True)}
    rules.keep(cells)
    return [cells[name] for name in rule.names]


@pytest.mark.parametrize("decimals", [0, 1, 2, 4])
def test_a_sum_of_decimals_is_the_decimal_that_is_read(decimals):
    """0.1 + 0.2 is 0.3, not 0.30000000000000004."""
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 10**6, (3, 2000))
    missing = rng.random((3, 2000)) < 0.1
    parts = list(zip(whole / 10.0**decimals, missing, strict=True))
    domains = [domain_of(0, 10**6, decimals)] * 3
    rule = SumOf("total", [*"abc"])
    found, gone = kept(rule, domains, parts)[rule.names.index("total")]
    np.testing.assert_array_equal(gone, missing.any(axis=0))
    expected = [float(f"{total}e-{decimals}") for total in whole.sum(axis=0)]
    np.testing.assert_array_equal(found[~gone], np.array(expected)[~gone])


DOMAINS = {"a": (-99, 99, 2), "b c": (-9, 9, 0), "d": (-9, 9, None)}
BOTH = "({0[0]} {0[1]} {0[2]})".format
EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "`b c`", "d", "2", "0.5"]),
    lambda own: st.tuples(own, st.sampled_from("+-*/"), own).map(BOTH),
    max_leaves=5,
)


@settings(deadline=None, database=None, max_examples=100)
@given(EXPRESSIONS, st.booleans(), st.integers(0, 2**32 - 1))
def test_a_computed_value_is_that_of_exact_arithmetic(text, whole, seed):
    """In every row; missing where one is, or where it is divided by 0."""
    assume({*text} & {*"acd"})
    rng, rule = np.random.default_rng(seed), Derived("t", text)
    domains = [domain_of(*DOMAINS[name]) for name in rule.names[1:]]
    drawn = [(own.from_unit(rng.random(20)), rng.random(20) < 0.1) for own in domains]
    (found, gone), *_ = kept(rule, domains, drawn, integer=whole)
    code = text.replace("`b c`", "b").replace("0.5", "half").replace("2", "two")
    for n in range(20):
        row = {"half": Fraction(1, 2), "two": Fraction(2)}
        for name, (values, _) in zip(rule.names[1:], drawn, strict=True):
            row[name[0]] = Fraction(repr(float(values[n])))
        exact = None
        if not any(missing[n] for _, missing in drawn):
            with suppress(ZeroDivisionError):
                exact = eval(code, {}, row)
        assert gone[n] == (exact is None)
        if exact is not None:
            room = Fraction(whole) / 2 + max(1, abs(exact)) / 10**9
            assert abs(Fraction(float(found[n])) - exact) <= room
            assert not whole or found[n] == round(found[n])


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_gap_is_refilled_from_the_values_that_are_there(share, global_random_seed):
    """n = 20,000; Kolmogorov's distance below 0.0195 at rate 1e-6."""
    cells, masses = np.array([0, 0.2, 1.0]), np.array([0.7, 0.3])
    own = MarginalTransform.numeric(domain_of(0, 1, None), cells, masses, missing=share)
    ranks = np.random.default_rng(global_random_seed).random(20_000)
    nothing = np.zeros(len(ranks), dtype=bool)
    values = np.sort(own.decode_where(ranks, nothing))
    expected = np.interp(values, cells, [0, 0.7, 1])
    empirical = np.arange(len(values)) / len(values)
    assert np.abs(expected - empirical).max() < 0.0195
    refilled, present = own.decode_where(ranks, nothing), ranks >= share
    np.testing.assert_array_equal(refilled[present], own.decode(ranks)[0][present])


DAYS = pd.to_datetime(["2020-01-01", "2020-01-02"]).astype("datetime64[ns]")
TABLE = {
    "small": np.array([1, 2], dtype="int8"),
    "int": [1, 2],
    "Int": pd.array([1, 2], dtype="Int64"),
    "float": [0.5, 1.5],
    "single": np.array([0.5, 1.5], dtype="float32"),
    "span": pd.to_timedelta([1, 2], unit="s").astype("timedelta64[ns]"),
    "day": DAYS,
    "second": DAYS.astype("datetime64[s]"),
    "zoned": DAYS.tz_localize("Asia/Tokyo"),
    "flag": [True, False],
    "Flag": pd.array([True, False], dtype="boolean"),
    "text": ["p", "q"],
}
OPEN = Continuous(0, 9, nullable=True)
ZONED = Datetime("2019-01-01T00:00Z", "2021-01-01T00:00Z")
TIMES = Datetime("2019-01-01", "2021-01-01", nullable=True)


def up_to(high, total="int", **options):
    """A total, and parts of it up to 9."""
    parts = dict.fromkeys(TABLE, Continuous(0, 9, **options))
    return parts | {total: Continuous(0, high, **options)}


@pytest.mark.parametrize(
    ("rule", "columns", "message"),
    [
        (Ordered(["float", "single"]), OPEN, "equally fine.* Got float64, float32"),
        (Ordered(["day", "second"]), TIMES, "equally fine.*datetime64.ns., datetime64"),
        (Ordered(["day", "zoned"]), {"day": TIMES, "zoned": ZONED}, "one time zone,"),
        (Ordered(["int", "small"]), Continuous(0, 300), "bounds of 'small' .* int8"),
        (
            Ordered(["float", "int"]),  # of which none is below 1
            {"float": Continuous(0.2, 1.1), "int": Continuous(0, 0.1)},
            "Got too little at 'int'",
        ),
        (
            SumOf("float", ["int", "span"]),
            up_to(99, "float") | {"span": Continuous("0s", "9s")},
            "numbers by a unit",
        ),
        (Derived("small", "int * 2"), {}, "dtype int8.* 32 bits"),
        (Derived("small", "day - second", unit="D"), {}, "dtype int8.* 32 bits"),
        (Derived("int", "Int + 1"), {}, "'int' are missing in some rows"),
        (Derived("int", "float / small"), {}, "'int' are missing in some rows"),
        (Derived("Int", "text + 1"), {}, "Got categories or labels in 'text'"),
        (Derived("Int", "float * int"), {}, None),
        (Derived("Int", "day - zoned", unit="D"), {}, None),
        (Derived("span", "(day - second) / 2"), {}, None),
        (Derived("second", "day + Int", unit="D"), {}, None),
        (
            *(SumOf("int", ["Int", "small"]), up_to(100, nullable=True, integer=True)),
            "'int' are missing in some rows, but its dtype int64 has no missing value",
        ),
        (MissingTogether(["float", "int"]), OPEN, "'int' are missing in some rows"),
        (
            Determines("flag", "int", {False: 0.5, True: 1}),
            {"flag": Boolean(), "int": Continuous(0, 1)},
            "must be whole numbers, as the dtype int64",
        ),
        (
            Determines("Flag", "int", {False: 0, True: 1}),
            {"Flag": Boolean(nullable=True), "int": OPEN},
            "'int' are missing in some rows",
        ),
        (
            Determines("flag", "small", {False: 0, True: 300}),
            {"flag": Boolean(), "small": Continuous(0, 300)},
            "bounds of 'small' .* int8",
        ),
        (Ordered(["int", "float", "Int"]), OPEN, None),
        (Ordered(["day", "second"]), Datetime("2019", "2021", unit="min"), None),
        (Ordered(["int", "small"], strict=True), Continuous(7, 7), "too little at 'sm"),
        (Ordered(["float", "int"]), Continuous(0.2, 1.1), None),
        (MissingTogether(["float", "Int"]), OPEN, None),
        (SumOf("float", ["single", "int"]), up_to(99, "float"), None),
    ],
)
def test_a_rule_is_refused_where_the_dtypes_cannot_keep_it(rule, columns, message):
    described = columns if isinstance(columns, dict) else dict.fromkeys(TABLE, columns)
    described = {name: described[name] for name in rule.names if described}
    refused = pytest.raises(InvalidSchemaError, match=message)
    with refused if message else nullcontext():
        schema = TableSchema(described, rules=[rule])
        open_table(pd.DataFrame(TABLE), schema=schema)


def test_a_target_that_comes_beside_the_schema_is_not_computed():
    rule = Determines("flag", "text", {False: "p", True: "q"})
    columns = {"flag": Boolean(), "text": Categorical(["p", "q"])}
    schema = TableSchema(columns, rules=[rule])
    frame = pd.DataFrame(TABLE)
    with pytest.raises(InvalidSchemaError, match="target 'text' must be modelled"):
        open_table(frame, target="text", schema=schema)
    with pytest.raises(InvalidSchemaError, match="target 'text' must be modelled"):
        open_table(frame.drop(columns="text"), frame["text"], schema=schema)
