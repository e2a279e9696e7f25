"""The table of docs/schema.md: every kind of column and rule, in Python and in JSON."""

import json
import re
from pathlib import Path

import pytest

from skdpsynth import schema as kinds
from skdpsynth.schema import TableSchema

PAGE = Path(__file__).parents[2] / "docs" / "schema.md"
ROWS = re.findall(
    r'^\| `(\w+\(.*\))` \| `(\{"(?:kind|rule)".*\})` \|$',
    PAGE.read_text(encoding="utf-8") if PAGE.exists() else "",
    re.MULTILINE,
)
KINDS = (
    *("Continuous", "Categorical", "Boolean", "Datetime", "Identifier", "Text"),
    *("Ordered", "SumOf", "MissingTogether", "Determines"),
)


def test_every_kind_has_an_example():
    if not PAGE.exists():
        pytest.skip("the docs are not beside the tests")
    assert {code.partition("(")[0] for code, _ in ROWS} == {*KINDS}


@pytest.mark.parametrize(("code", "text"), ROWS)
def test_both_are_the_same(code, text):
    named = {name: getattr(kinds, name) for name in KINDS}
    own = eval(code, named)
    if "kind" in json.loads(text):
        data = {"schema_version": 1, "columns": [["x", json.loads(text)]]}
        assert TableSchema.from_json(json.dumps(data)).columns["x"] == own
        return
    number = named["Continuous"](0, 1, nullable=True)
    columns = dict.fromkeys(own.names, number)
    if type(own).__name__ == "SumOf":
        columns[own.total] = named["Continuous"](0, len(own.parts), nullable=True)
    if type(own).__name__ == "Determines":
        columns = {
            name: named["Categorical"]([value])
            for name, value in zip(own.names, *own.table.items(), strict=True)
        }
    written = json.loads(TableSchema(columns, rules=[own]).to_json())
    assert written["rules"] == [json.loads(text)]
    data = written | {"rules": [json.loads(text)]}
    assert TableSchema.from_json(json.dumps(data)).rules == (own,)
