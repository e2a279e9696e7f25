"""A schema as a file: what it looks like, its blanks, and what is wrong in one."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema import Boolean, Categorical, Continuous, Datetime, TableSchema

SCHEMA = TableSchema(
    {
        "age": Continuous(17, 90, integer=True),
        "größe": Continuous(0.5, 2.5, decimals=2),
        "country": Categorical([f"country {number}" for number in range(20)]),
        "ill": Boolean(),
    },
    target="ill",
    class_counts={False: 3, True: 4},
)
TABLE = pd.DataFrame(
    {
        "age": [31, 44],
        "income": [1.5, None],
        "sex": ["canary", "F"],
        "level": pd.Categorical(["canary", "x"], ordered=True),
        "ill": [True, False],
        "since": pd.to_datetime(["2187-01-01", None]),
    }
)


def test_a_file_is_laid_out_for_people_and_diffs():
    """A short column has a line, a long one a line per level; other changes are one."""
    lines = SCHEMA.to_json().splitlines()
    assert lines[:3] == ["{", '  "schema_version": 1,', '  "columns": [']
    assert lines[3] == (
        '    ["age", {"kind": "continuous", "low": 17, "high": 90, "integer": true, '
        '"nullable": false, "scale": "auto", "decimals": null}],'
    )
    assert lines[4].startswith('    ["größe", {"kind": "continuous", "low": 0.5, ')
    assert lines[-5:] == [
        "  ],",
        '  "target": "ill",',
        '  "n_rows": null,',
        '  "class_counts": [[false, 3], [true, 4]]',
        "}",
    ]
    assert '          "country 7",' in lines
    other = {**SCHEMA.columns, "age": Continuous(17, 99, integer=True)}
    changed = TableSchema(other, target="ill", class_counts=SCHEMA.class_counts)
    pairs = zip(lines, changed.to_json().splitlines(), strict=True)
    assert sum(old != new for old, new in pairs) == 1


def test_a_file_and_its_text_are_read_alike(tmp_path):
    path = tmp_path / "schema.json"
    text = SCHEMA.to_json(path)
    assert path.read_bytes().decode("utf-8") == text
    for given in (path, str(path), text, f"\n {text}"):
        assert TableSchema.from_json(given) == SCHEMA
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())  # Windows
    assert TableSchema.from_json(path) == SCHEMA
    with pytest.raises(FileNotFoundError, match="absent"):
        TableSchema.from_json(tmp_path / "absent.json")


def test_the_encoding_is_that_of_saved_files():
    data = json.loads(SCHEMA.to_json())
    assert data.pop("schema_version") == 1
    assert data == SCHEMA.to_dict()


def test_options_may_be_left_out():
    text = '{"schema_version": 1, "columns": [["a", {"kind": "boolean"}]]}'
    assert TableSchema.from_json(text) == TableSchema({"a": Boolean()})


def test_a_template_holds_dtypes_alone():
    text = TableSchema.template(TABLE, form="json")
    assert text == TableSchema.template(TABLE.iloc[:0], form="json")
    assert "canary" not in text
    assert "2187" not in text
    assert json.loads(text)["columns"] == [
        ["age", {"kind": "continuous", "low": None, "high": None, "integer": True}],
        ["income", {"kind": "continuous", "low": None, "high": None, "nullable": None}],
        ["sex", {"kind": "categorical", "categories": None, "nullable": None}],
        [
            "level",
            {
                "kind": "categorical",
                "categories": None,
                "ordered": True,
                "nullable": None,
            },
        ],
        ["ill", {"kind": "boolean"}],
        ["since", {"kind": "datetime", "low": None, "high": None, "nullable": None}],
    ]


def test_blanks_are_bought_and_half_filled_ones_refused():
    text = TableSchema.template(TABLE, form="json")
    assert TableSchema.from_json(text) == TableSchema({"ill": Boolean()})
    for blank, filled, message in [
        ('"low": null', '"low": 0', "'age': The 'high' bound of Continuous"),
        ('"nullable": null', '"nullable": true', "'income': The 'low' bound"),
        ('"categories": null', '"categories": []', "'sex': The 'nullable' flag"),
    ]:
        with pytest.raises(InvalidSchemaError, match=f"^The schema: Column {message}"):
            TableSchema.from_json(text.replace(blank, filled, 1))


def column(facts: str, name: str = '"a"') -> str:
    return f'{{"schema_version": 1, "columns": [[{name}, {facts}]]}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n'a': 1}", r"Expected JSON\. In line 2, column 1"),
        ('{"schema_version": 1', "In line 1, column 21"),
        ('{"a": 1, "a": 2}', "Expected JSON. Got a key that comes twice; drop it"),
        ('{"a": 1e999}', "Got a number that is not finite"),
        ('{"a": NaN}', "Got a number that is not finite"),
        ('{"columns": []}', "Expected 'schema_version'. Got 'columns'; cor"),
        ('{"schema_version": 2, "columns": []}', "'schema_version': 1. Got 2; use the"),
        ('{"schema_version": 1}', "Expected 'columns', optionally 'target'"),
        (
            '{"schema_version": 1, "columns": 3}',
            "'columns': Expected what TableSchema",
        ),
        (
            '{"schema_version": 1, "columns": [], "rows": 3}',
            "Got 'columns', 'rows'; correct",
        ),
        ('{"schema_version": 1, "columns": ["a"]}', "Entry 1 of 'columns': Expected"),
        (column('{"kind": "boolean"}', "[1]"), "Entry 1 of 'columns': Expected"),
        (column("3"), "Column 'a': Expected 'kind'. Got int"),
        (column("{}"), "Column 'a': Expected 'kind'. Got none; correct"),
        (column('{"kind": "bool"}'), "Column 'a': Expected a 'kind' of 'contin"),
        (
            column('{"kind": "continuous", "low": 1}'),
            "'low', 'high', .*Got 'kind', 'low'; correct",
        ),
        (
            column('{"kind": "boolean", "nulls": true}'),
            "optionally 'nullable'. Got 'kind', 'nulls'; ",
        ),
        (column('{"kind": "boolean", "nullable": 1}'), "Column 'a': The 'nullable' fl"),
        (
            column('{"kind": "continuous", "low": 2, "high": 1}'),
            "Column 'a': The bounds of Continuous must satisfy low <= high",
        ),
        (
            column('{"kind": "datetime", "low": {"time": "now"}, "high": "2030"}'),
            "Column 'a': Expected what TableSchema writes there",
        ),
        (
            '{"schema_version": 1, "columns": [], "class_counts": 3}',
            "'class_counts': Expected what",
        ),
        (
            '{"schema_version": 1, "columns": [], "n_rows": -1}',
            "'n_rows' of TableSchema must be a positive int",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text, message, tmp_path):
    with pytest.raises(InvalidSchemaError, match=f"^The schema: .*{message}"):
        TableSchema.from_json(text)
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(InvalidSchemaError, match=rf"^The file '.*json': .*{message}"):
        TableSchema.from_json(path)


def test_a_column_that_comes_twice_is_refused():
    entry = '["a", {"kind": "boolean"}]'
    text = f'{{"schema_version": 1, "columns": [{entry}, {entry}]}}'
    with pytest.raises(
        InvalidSchemaError, match="Entry 2 of 'columns': Column 'a' com"
    ):
        TableSchema.from_json(text)


def test_no_file_is_read_for_a_time_zone():
    bounds = Datetime(*pd.to_datetime(["2020", "2021"]).tz_localize("Europe/Berlin"))
    text = TableSchema({"a": bounds}).to_json()
    assert TableSchema.from_json(text).columns["a"] == bounds
    with pytest.raises(InvalidSchemaError, match="Column 'a': Expected what"):
        TableSchema.from_json(text.replace("Europe/Berlin", "dateutil//etc/localtime"))
