"""The schema and its file: what it refuses and keeps, and what a template tells."""

from __future__ import annotations

import ast
import json
import pickle
from datetime import date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st
from sklearn.base import clone

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Identifier,
    Ordered,
    SumOf,
    TableSchema,
    Text,
)

SEX, SICK = Categorical(["F", "M"]), Boolean(nullable=True)
COUNTS = {"F": 1, "M": 2}
NAMES_OF_SCHEMA: dict[str, object] = {"Timestamp": pd.Timestamp}
exec("from skdpsynth.schema import *", NAMES_OF_SCHEMA)


def schema_of(column=SEX, *, target="s", **more) -> TableSchema:
    """Make a schema of one column, the target."""
    return TableSchema({"s": column}, target=target, **more)


ORDER, CODED = Ordered(["a", "b"]), Continuous(0, 1, special=[9])
SUM = SumOf("a", ["b", "c"])


def unit_of(name="who", most=2, **more) -> TableSchema:
    """Make a schema of two numbers, of units that have two rows at most."""
    columns = {"a": Continuous(-5, 5), "b": Continuous(0, 9)}
    unit = {"privacy_unit": name, "max_rows_per_unit": most}
    return TableSchema(columns, **unit, **more)


@pytest.mark.parametrize(
    ("low", "high", "scale"),
    [
        (0, 30_000, "log"),
        (-60, 60, "log"),
        (1, 99, "log"),  # 0 lies outside by 1 % of the range
        (-99, -1, "log"),
        (17, 90, "linear"),  # by 23 %
        (-90, -17, "linear"),
        (0, 50, "linear"),  # not wider than 50
        (0, 0, "linear"),
    ],
)
def test_auto_scale_follows_the_bounds_alone(low, high, scale):
    assert Continuous(low, high).resolved_scale() == scale
    assert Continuous(low, high, integer=True, nullable=True).resolved_scale() == scale
    assert Continuous(low, high, scale="quantile").resolved_scale() == "quantile"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Continuous(2, 1), "low <= high"),
        (lambda: Continuous(np.nan, 1), "'low' bound of Continuous must be finite"),
        (lambda: Continuous(..., 1), "Fill in this blank"),
        (lambda: Continuous(-1e308, 1e308), "less than 1e308 apart"),
        (lambda: Continuous(0.5, 1, integer=True), "a whole number. Got 0.5"),
        (lambda: Continuous(0, 1, scale="logit"), "linear, log, quantile"),
        (lambda: Continuous(0, 1, integer="yes"), "'integer' flag"),
        (lambda: Continuous(0, 1, decimals=10), "'any', None or an int from 0 to 9"),
        (lambda: Continuous(0, 1, integer=True, decimals=1), "'decimals' .* are 0"),
        (lambda: Continuous(0.01, 0.02, decimals=1), "number of so many 'decimals'"),
        (lambda: Continuous(0, 2**53, decimals=0), "what a float holds"),
        (lambda: Datetime("2020", "2021", unit="ms"), "'unit' of Datetime must be one"),
        (lambda: Categorical("abc"), "must be a list of values"),
        (lambda: Categorical(["a", "a"]), "1 duplicate"),
        (lambda: Categorical(["a", 1]), "number and str; cast them to str"),
        (lambda: Categorical([]), "nullable=True"),
        (lambda: Categorical([1.0, np.inf]), "finite numbers"),
        (lambda: Categorical(["a"], ordered=1), "'ordered' flag"),
        (lambda: Boolean(nullable=None), "'nullable' flag of Boolean"),
        (lambda: Boolean(true="yes"), "two different texts"),
        (lambda: Boolean(true="yes", false="yes"), "two different texts"),
        (lambda: Identifier(pattern="C"), "one run of '#'"),
        (lambda: Identifier(pattern="#-#"), "one run of '#'"),
        (lambda: Identifier(regex="a|b"), "must be a text of characters"),
        (lambda: Identifier(regex="[9-0]"), "must be a text of characters"),
        (lambda: Identifier(regex=3), "must be a text of characters"),
        (lambda: Identifier(regex="a", pattern="#"), "not both"),
        (lambda: Text(placeholder=3), "must be a text"),
        (lambda: Datetime("2020", "2021", format="day"), "strptime"),
        (lambda: Datetime("2020", "2021", format=["%d"]), "strptime"),
        (lambda: Datetime("2020", "2021", format=b"%d"), "strptime"),
        (lambda: Datetime("soon", "2020"), "a point in time. Got 'soon'"),
        (lambda: Datetime("03.04.2020", "2021"), 'ISO 8601, "2020-01-31". Got \'03.04'),
        (lambda: Datetime("2020", "2020-31-12"), "a point in time"),
        (lambda: Continuous("0", "30"), "durations such as \"30D\". Got '0'"),
        (lambda: Continuous("0D", 30), "must be a number, or both"),
        (lambda: Continuous("...D", "...D"), "Fill in this blank"),
        (lambda: Continuous("2D", "1D"), "low <= high"),
        (lambda: Continuous("0D", "2D", integer=True), 'unit="D"'),
        (lambda: Continuous("0D", "2D", unit="W"), "'unit' of Continuous must be one"),
        (lambda: Continuous(0, 2, unit="D"), 'Continuous\\("0D", "30D", unit="D"\\)'),
        (lambda: Datetime("2019", "2020-01-01T00:00Z"), "all have a time zone"),
        (lambda: Continuous(0, 1, special="99"), "must be a list of values"),
        (lambda: Continuous(0, 1, special=[99, 99.0]), "must be distinct"),
        (lambda: Continuous(0, 1, special=[np.inf]), "special.* must be finite"),
        (lambda: Continuous(0, 9, integer=True, special=[0.5]), "special.* be a whole"),
        (lambda: Continuous(0, 9, decimals=1, special=[9.25]), "most 1 decimals"),
        (lambda: Continuous("0D", "9D", special=[99]), "both of them durations"),
        (lambda: Datetime("2019", "2020", special=["31.12.9999"]), "ISO 8601"),
        (lambda: Datetime("2019", "2020", special=["2021-01-01T00Z"]), "a time zone"),
        (lambda: Datetime("2019", "2020", special=["2021", "2021-01-01"]), "distinct"),
        (lambda: TableSchema(dict.fromkeys("abc", CODED), rules=[SUM]), "no special"),
        (lambda: Continuous("0D", "9D", unit="D", special=["11D", "11D 1h"]), "units"),
        (lambda: TableSchema([SEX]), "must be a mapping"),
        (lambda: TableSchema({frozenset(): SEX}).to_dict(), "cast it to str"),
        (lambda: TableSchema({"sex": Categorical}), "Column 'sex' of TableSchema"),
        (lambda: schema_of(n_rows=0), "positive int or None. Got 0"),
        (lambda: schema_of(target="t", class_counts={"f": 1}), "is described. Got 't'"),
        (lambda: schema_of(Continuous(0, 1), class_counts={0: 1}), "has no classes"),
        (lambda: schema_of(Text()), "is described as Text"),
        (lambda: schema_of(target=None, class_counts={"F": 1}), "need a target"),
        (lambda: schema_of(class_counts={"F": 1}), "be the categories of the target"),
        (lambda: schema_of(class_counts=COUNTS | {"M": -1}), "an int >= 0. Got -1"),
        (lambda: schema_of(n_rows=4, class_counts=COUNTS), "add up to 3, .* is 4"),
        (lambda: schema_of(privacy_unit="who"), "give both"),
        (lambda: unit_of(most=0), "int from 1 to"),
        (lambda: unit_of(most=10**9), "1 to 100,000"),
        (lambda: unit_of(...), "[Bb]lank"),
        (lambda: unit_of("a"), "must be an Identifier"),
        (lambda: unit_of(n_rows=9), "not public"),
        (lambda: unit_of(per_unit=["who"]), "privacy_unit"),
        (lambda: unit_of(per_unit=["a", "a"]), "none of them twice"),
        (lambda: unit_of(per_unit=["a"], rules=[ORDER]), "dd the others"),
    ],
)
def test_contradictions_are_refused(make, message):
    with pytest.raises(InvalidSchemaError, match=message):
        make()


def test_options_are_keywords_and_columns_are_frozen():
    with pytest.raises(TypeError):
        Continuous(0, 1, True)
    with pytest.raises(AttributeError):
        Continuous(0, 1).low = 2
    columns = {"sex": SEX}
    schema = TableSchema(columns)
    columns["age"] = Boolean()
    assert list(schema.columns) == ["sex"]
    with pytest.raises(AttributeError):
        schema.target = "a"


def test_numpy_and_datetime_scalars_become_plain():
    column = Continuous(np.int32(0), np.float32(0.5))
    assert [type(column.low), type(column.high)] == [int, float]
    assert type(Categorical(np.array([1, 2])).categories[0]) is int
    assert type(Categorical(np.array(["a"])).categories[0]) is str
    assert type(Categorical([np.True_]).categories[0]) is bool
    noon = np.datetime64("2020-01-01T12:00")
    assert Categorical([noon]).categories == (pd.Timestamp("2020-01-01 12:00"),)
    assert Datetime(date(2020, 1, 1), noon).low == pd.Timestamp("2020-01-01")
    column = {1: Categorical([0, 1])}
    schema = TableSchema(column, target=np.int64(1), n_rows=np.int64(3))
    assert type(schema.n_rows) is int
    assert json.dumps(schema.to_dict())


SCHEMA = TableSchema(
    {
        "age": Continuous(17, 90, integer=True, special=[99, -1]),
        "stay": Continuous("1h", "30D", special=["999D"]),
        "share": Continuous(-0.1, 1e300, nullable=True, scale="quantile"),
        7: Categorical([3, 1, 2], ordered=True),
        ("a", 2.5): Categorical(["F", "M"], nullable=True),
        None: Boolean(),
        pd.Timestamp("2020-01-02"): Identifier(),
        "when": Datetime("1999-12-31", datetime(2020, 1, 1, 0, 0, 0, 1)),
        "end": Datetime("1999-12-31", "2020-01-01", special=["9999-12-31"]),
        "zoned": Datetime(
            pd.Timestamp("2020-07-01", tz="Europe/Berlin").as_unit("ns"),
            pd.Timestamp("2020-12-01", tz=timezone(timedelta(hours=2))),
        ),
        "day": Categorical([pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")]),
        True: Categorical([], nullable=True),
        float("-inf"): Identifier(),
    },
    target=7,
    n_rows=10,
    class_counts={3: 5, 1: 0, 2: 5},
)


def same_exactly(left: object, right: object) -> bool:
    """Compare values and types, so that 1, 1.0 and True differ."""
    return left == right and repr(left) == repr(right)


def test_json_round_trip_is_exact():
    assert clone(SCHEMA, safe=False) == pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA
    back = TableSchema.from_json(SCHEMA.to_json())
    assert TableSchema.from_dict(SCHEMA.to_dict()) == back
    assert same_exactly(back, SCHEMA)
    assert list(back.columns) == list(SCHEMA.columns)
    for name in ("when", "zoned"):
        for side in ("low", "high"):
            columns = back.columns[name], SCHEMA.columns[name]
            bound, original = (getattr(column, side) for column in columns)
            assert bound.unit == original.unit
            assert str(bound.tzinfo) == str(original.tzinfo)


scalars = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["\ud800", "\x85\u2028\r\n", '\\"', "\x00"]),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)).map(pd.Timestamp),
)
names = st.one_of(scalars, st.tuples(scalars, st.tuples(scalars)))


@settings(max_examples=50, deadline=None)
@given(
    labels=st.lists(names, unique=True, max_size=4),
    levels=st.lists(
        st.integers() | st.floats(allow_nan=False, allow_infinity=False),
        unique=True,
        min_size=1,
        max_size=5,
    ),
    bounds=st.tuples(st.floats(-8e307, 8e307), st.floats(-8e307, 8e307)).map(sorted),
)
def test_any_name_category_and_bound_survives_json(labels, levels, bounds):
    assume("-0.0" not in repr(labels))  # a name is a key, which has no such sign
    kinds = [Categorical(levels), Continuous(*bounds), Boolean(), Identifier()]
    schema = TableSchema(dict(zip(labels, kinds, strict=False)))
    back = TableSchema.from_json(schema.to_json())
    assert same_exactly(back, schema)


def test_repr_is_code():
    assert repr(Continuous(0, 2.5, scale="log")) == "Continuous(0, 2.5, scale='log')"
    counts = {True: 1, False: 2}  # of 4 rows one has no label
    nullable = schema_of(SICK, n_rows=4, class_counts=counts)
    plain = schema_of(n_rows=3, class_counts=COUNTS)
    for schema in (plain, nullable, unit_of(per_unit=["a"]), TableSchema({})):
        assert eval(repr(schema), dict(NAMES_OF_SCHEMA)) == schema
        assert TableSchema.from_json(schema.to_json()) == schema
    assert unit_of().columns["who"] == Identifier()


@pytest.mark.parametrize(
    "low",
    ["-1 days", "-24h", timedelta(-1), pd.Timedelta("-1D"), np.timedelta64(-1, "D")],
)
def test_bounds_of_durations_carry_their_unit(low):
    """As text, of Python, pandas or NumPy; in code and JSON they are texts."""
    column = Continuous(low, "P400DT12H", unit="D", nullable=True)
    assert column.ends == (-86_400.0, 400.5 * 86_400)
    assert eval(repr(column), dict(NAMES_OF_SCHEMA)) == column
    schema = TableSchema({"a": column, "b": Continuous("0s", "1us")})
    assert TableSchema.from_json(schema.to_json()) == schema
    assert '"unit"' not in TableSchema({"a": Continuous(0, 1)}).to_json()


@pytest.mark.parametrize("iso", ["2020-01", "20200102", "2020-01-02T03:04:05.6Z"])
def test_iso_texts_are_points_in_time(iso):
    assert Datetime(iso, iso).low == pd.Timestamp(iso)


SECRET = "sEcReT"  # appears in the template only if a value was read
FRAME = pd.DataFrame(
    {
        "whole": np.array([87_654, 1], dtype="int32"),
        "small": np.array([87, 1], dtype="uint8"),
        "real": [8765.5, np.nan],
        "nullable": pd.array([87_654, None], dtype="Int64"),
        "text": [SECRET, None],
        "object": pd.Series([SECRET, None], dtype=object),
        "level": pd.Categorical([SECRET, None], [SECRET], ordered=True),
        "flag": [True, False],
        "maybe": pd.array([True, None], dtype="boolean"),
        "when": np.array(["8765-01-01", "NaT"], dtype="datetime64[s]"),
        "span": pd.to_timedelta([87_654, 1], unit="s"),
        9: [1, 2],
    }
)


@pytest.mark.parametrize("form", ["python", "json"])
def test_a_template_holds_dtypes_alone(form):
    text = TableSchema.template(FRAME, form=form)
    assert SECRET not in text
    assert "8765" not in text
    other = FRAME.assign(level=pd.Categorical(["x", "y"], ordered=True))
    for same in (FRAME.iloc[:0], other):
        assert TableSchema.template(same, form=form) == text


def test_template_is_code_with_blanks():
    code = TableSchema.template(FRAME)
    ast.parse(code)
    assert code.splitlines()[2:-3] == [
        "        'whole': Continuous(..., ..., integer=True),",
        "        'small': Continuous(..., ..., integer=True),",
        "        'real': Continuous(..., ..., nullable=...),",
        "        'nullable': Continuous(..., ..., integer=True, nullable=...),",
        "        'text': Categorical([...], nullable=...),",
        "        'object': Categorical([...], nullable=...),",
        "        'level': Categorical([...], ordered=True, nullable=...),",
        "        'flag': Boolean(),",
        "        'maybe': Boolean(nullable=...),",
        "        'when': Datetime(..., ..., nullable=...),",
        '        \'span\': Continuous("...D", "...D", unit=..., nullable=...),',
        "        9: Continuous(..., ..., integer=True),",
    ]
    with pytest.raises(InvalidTableError, match="Complex data not supported"):
        TableSchema.template(pd.DataFrame({"a": [1j]}))


def test_template_works_when_filled_and_not_before():
    code = TableSchema.template(pd.DataFrame({"age": [3], "sex": [SECRET]}))
    with pytest.raises(InvalidSchemaError, match="Fill in this blank"):
        exec(code, dict(NAMES_OF_SCHEMA))
    code = code.replace("..., ...", "0, 99").replace("[...]", "['F', 'M']")
    code = code.replace("nullable=...", "nullable=False").replace("...", "'sex'")
    filled: dict[str, object] = dict(NAMES_OF_SCHEMA)
    exec(code, filled)
    expected = {"age": Continuous(0, 99, integer=True), "sex": SEX}
    assert filled["schema"] == TableSchema(expected, target="sex")


def test_from_dataframe_describes_a_public_table():
    schema = TableSchema.from_dataframe(FRAME, target=9)
    assert schema == TableSchema(
        {
            "whole": Continuous(1, 87_654, integer=True),
            "small": Continuous(1, 87, integer=True),
            "real": Continuous(8765.5, 8765.5, nullable=True, decimals=1),
            "nullable": Continuous(87_654, 87_654, integer=True, nullable=True),
            "text": Categorical([SECRET], nullable=True),
            "object": Categorical([SECRET], nullable=True),
            "level": Categorical([SECRET], ordered=True, nullable=True),
            "flag": Boolean(),
            "maybe": Boolean(nullable=True),
            "when": Datetime("8765-01-01", "8765-01-01", nullable=True, unit="D"),
            "span": Continuous("1s", "87654s", unit="s"),
            9: Categorical([1, 2]),
        },
        target=9,
    )
    assert json.dumps(schema.to_dict())


def test_from_dataframe_without_values():
    schema = TableSchema.from_dataframe(FRAME.iloc[:0].drop(columns=["level"]))
    assert schema.columns["real"] == Continuous(0, 0, decimals=0)
    assert schema.columns["text"] == Categorical([], nullable=True)
    assert schema.columns["when"] == Datetime("1970", "1970")
    truths = pd.DataFrame({"a": pd.Series([True, None], dtype=object)})
    assert TableSchema.from_dataframe(truths).columns["a"] == Boolean(nullable=True)


def test_from_dataframe_refuses():
    for values, target, message in (
        ([1.0, np.inf], None, "'a' holds an infinite value"),
        ([1], "b", "'b' is not a column"),
        ([1, "x"], None, "neither strings alone"),
    ):
        with pytest.raises(InvalidTableError, match=message):
            TableSchema.from_dataframe(pd.DataFrame({"a": values}), target=target)


PLAIN = TableSchema(
    {
        "age": Continuous(17, 90, integer=True),
        "größe": Continuous(0.5, 2.5, decimals=2),
        "country": Categorical([f"country {number}" for number in range(20)]),
        "ill": Boolean(),
    },
    target="ill",
    class_counts={False: 3, True: 4},
)


def test_a_file_is_laid_out_for_people_and_diffs():
    """A short column has a line, a long one a line per level; other changes are one."""
    lines = PLAIN.to_json().splitlines()
    assert lines[4].startswith('    ["größe", {"kind": "continuous", "low": 0.5, ')
    assert '          "country 7",' in lines
    other = {**PLAIN.columns, "age": Continuous(17, 99, integer=True)}
    changed = TableSchema(other, target="ill", class_counts=PLAIN.class_counts)
    pairs = zip(lines, changed.to_json().splitlines(), strict=True)
    assert sum(old != new for old, new in pairs) == 1


def test_a_file_and_its_text_are_read_alike(tmp_path):
    path = tmp_path / "schema.json"
    text = PLAIN.to_json(path)
    assert path.read_bytes().decode("utf-8") == text
    assert json.loads(text) == {"schema_version": 1} | PLAIN.to_dict()
    for source in (path, str(path), text, f"\n {text}"):
        assert TableSchema.from_json(source) == PLAIN
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())  # Windows
    assert TableSchema.from_json(path) == PLAIN
    with pytest.raises(FileNotFoundError, match="absent"):
        TableSchema.from_json(tmp_path / "absent.json")


def test_a_template_in_json_has_nulls_to_be_filled():
    table = FRAME[["whole", "real", "text", "level", "flag", "when"]]
    text = TableSchema.template(table, form="json")
    number = {"kind": "continuous", "low": None, "high": None}
    categories = {"kind": "categorical", "categories": None, "nullable": None}
    assert json.loads(text)["columns"] == [
        ["whole", number | {"integer": True}],
        ["real", number | {"nullable": None}],
        ["text", categories],
        ["level", categories | {"ordered": True}],
        ["flag", {"kind": "boolean"}],
        ["when", number | {"kind": "datetime", "nullable": None}],
    ]
    assert TableSchema.from_json(text) == TableSchema({"flag": Boolean()})
    for blank, filled, message in [
        ('"low": null', '"low": 0', "'whole': Expected values of 'low', 'high'"),
        ('"categories": null', '"categories": []', "'text': The 'nullable' flag"),
    ]:
        message = f"^The schema: 'columns': Column {message}"
        with pytest.raises(InvalidSchemaError, match=message):
            TableSchema.from_json(text.replace(blank, filled, 1))


NUMBER = '{"kind": "continuous", "low": 2'
TIME = '{"kind": "datetime", "low": {"time": "now"}, "high": "2030"}'


def column(metadata: str, name: str = '"a"') -> str:
    return f'{{"schema_version": 1, "columns": [[{name}, {metadata}]]}}'


COLUMNS = '{"schema_version": 1, "columns": %s}'
ILL = '["a", {"kind": "boolean"}]'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n'a': 1}", r"Expected JSON\. Got none \(.*line 2 column 1"),
        ('{"schema_version": 1', "line 1 column 21"),
        ('{"a": 1, "a": 2}', r"Got none \(a key that comes twice\); correct"),
        ('{"a": 1e999}', "a number that is not finite"),
        ('{"schema_version": 2, "columns": []}', "'schema_version': 1. Got 2; use the"),
        (COLUMNS % '[], "rows": 3', "Got 'columns', 'rows'; correct"),
        (COLUMNS % '[], "class_counts": 3', "'class_counts': Expected what"),
        (COLUMNS % '[], "n_rows": -1', "'n_rows' of TableSchema must be a positive"),
        (column('{"kind": "boolean"}', "[1]"), "'columns': Entry 1: Expected"),
        (COLUMNS % f"[{ILL}, {ILL}]", "'columns': Entry 2: Column 'a' comes twice"),
        (column('{"kind": "bool"}'), "Column 'a': Expected a 'kind' of 'contin"),
        (column(f"{NUMBER}}}"), "'low', 'high', .*Got 'kind', 'low'; correct"),
        (column('{"kind": "boolean", "nulls": true}'), "'false'. Got .*'nulls'; "),
        (column(TIME), "Column 'a': Expected what TableSchema writes there"),
        (column(f'{NUMBER}, "high": null}}'), "null for 'high' alone"),
        (column('{"kind": "datetime", "low": null, "units": "D"}'), "'unit'"),
        (column('{"kind": "categorical", "nullable": "no"}'), "true, false"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text, message, tmp_path):
    with pytest.raises(InvalidSchemaError, match=f"^The schema: .*{message}"):
        TableSchema.from_json(text)
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(InvalidSchemaError, match=rf"^The file '.*json': .*{message}"):
        TableSchema.from_json(path)


def test_no_file_is_read_for_a_time_zone():
    bounds = Datetime(*pd.to_datetime(["2020", "2021"]).tz_localize("Europe/Berlin"))
    text = TableSchema({"a": bounds}).to_json()
    assert TableSchema.from_json(text).columns["a"] == bounds
    with pytest.raises(InvalidSchemaError, match="Column 'a': Expected what"):
        TableSchema.from_json(text.replace("Europe/Berlin", "dateutil//etc/localtime"))


# Of SDV 1 and 2: a kind, what is said of it, and what it becomes if that is known.
FULL, YEAR = {"range_is_nullable": False}, {"range_min": "01/20", "range_max": "12/20"}
NO_RANGE = {"range_min": 0, "range_max": -1}
NINE = {"range_min": 0, "range_max": 9, "decimal_places": 0}
DAYS, MONTHS = {"datetime_format": "%m/%y"} | YEAR, {"unit": "D", "format": "%m/%y"}
LEVELS = Categorical(["lo", "hi"], ordered=True)
CENTS = Continuous(0, 9, decimals=2, nullable=True)
SDV = [
    ("email", {"pii": True}, Text()),
    ("unknown", {}, Text()),
    ("id", {"regex_format": "H_[0-9]{3}"}, Identifier(regex="H_[0-9]{3}")),
    ("id", {"regex_format": "(x|y)+"}, Identifier()),
    ("numerical", {"range_min": 0, "decimal_places": 1}, None),
    ("numerical", {"computer_representation": "Int64"}, None),
    ("numerical", NINE | FULL, Continuous(0, 9, integer=True)),
    ("numerical", NINE | {"decimal_places": 2}, CENTS),
    ("categorical", {"range_values": ["a", "b"]} | FULL, Categorical(["a", "b"])),
    ("categorical", {"range_values": [True, False]}, Boolean(nullable=True)),
    ("categorical", {"high_cardinality": True}, None),
    ("city", {"pii": False}, None),
    ("categorical", {"order": ["lo", "hi"]} | FULL, LEVELS),
    ("ordinal", {"range_values": [2, 1]} | FULL, Categorical([2, 1], ordered=True)),
    ("boolean", FULL, Boolean()),
    ("datetime", {"datetime_format": "%Y-%m-%d %H:%M"}, None),
    ("datetime", DAYS | FULL, Datetime("2020-01-01", "2020-12-01", **MONTHS)),
]


@pytest.mark.parametrize(("kind", "said", "expected"), SDV)
def test_metadata_of_sdv_become_a_schema(kind, said, expected):
    """What they leave open is measured, but keeps its kind; keys are identifiers."""
    described = {"sdtype": kind, **said}
    table = {"columns": {"own": described, "key": described}, "primary_key": "key"}
    whole = {"METADATA_SPEC_VERSION": "V2", "tables": {"t": table, "u": {}}}
    schema = TableSchema.from_sdv(whole, table="t")
    assert schema.columns.get("own") == expected
    assert ("own" in schema.blanks) == (expected is None)
    assert isinstance(schema.columns["key"], Identifier)
    assert TableSchema.from_sdv(table) == schema
    assert TableSchema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"tables": {"a": {}, "b": {}}}, "one of the tables .* Got None; choose"),
        ({"columns": ["a"]}, "with 'tables' or 'columns'. Got dict"),
        (3, "with 'tables' or 'columns'. Got int"),
        ({"columns": {"a": {}}}, "as SDV writes it of the column 'a'"),
        ({"columns": {"a": {"sdtype": "numerical"} | NO_RANGE}}, "Column 'a': .*low"),
    ],
)
def test_other_metadata_are_refused(metadata, message):
    with pytest.raises(InvalidSchemaError, match=message):
        TableSchema.from_sdv(metadata)


def test_what_is_stated_beside_blanks_survives_a_file():
    columns = [
        ["weight", {"kind": "continuous", "low": None, "high": None, "decimals": 2}],
        ["zip", {"kind": "categorical", "categories": None, "nullable": False}],
        ["ill", {"kind": "boolean", "nullable": None}],
        ["day", {"kind": "datetime", "low": None, "high": None, "format": "%d.%m.%y"}],
        ["stay", {"kind": "continuous", "low": None, "high": None, "unit": "D"}],
    ]
    text = json.dumps({"schema_version": 1, "columns": columns})
    schema = TableSchema.from_json(text)
    again = TableSchema.from_json(schema.to_json())
    assert len(again.blanks) == 5
    assert repr(again).split("\n")[2:-2] == [
        "        'weight': Continuous(..., ..., nullable=None, decimals=2),",
        "        'zip': Categorical(...),",
        "        'ill': Boolean(nullable=None),",
        "        'day': Datetime(..., ..., nullable=None, format='%d.%m.%y'),",
        "        'stay': Continuous(..., ..., nullable=None, unit='D'),",
    ]
    assert again.blanks == schema.blanks
    assert not again.columns
    # Beside what else is stated values may be missing, since nobody says otherwise.
    for stated in (Continuous(0, 9), Datetime("2020", "2021"), Categorical(["a"])):
        data = TableSchema({"v": stated}).to_dict() | {"schema_version": 1}
        data["columns"][0][1]["nullable"] = None
        assert TableSchema.from_json(json.dumps(data)).columns["v"].nullable
