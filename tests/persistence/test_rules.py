"""Rules come through a file, and a stranger's must fit what else is in it."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from _rules import COLUMNS, RULES, SCHEMA, TABLE

from skdpsynth import IndependentSynthesizer, TableSchema, inspect
from skdpsynth.exceptions import InvalidSchemaError, PersistenceError
from skdpsynth.persistence._saved import check_parts
from skdpsynth.preprocessing._rules import RowRules
from skdpsynth.schema import Categorical, Determines


@pytest.fixture(scope="module")
def fitted():
    return IndependentSynthesizer(schema=SCHEMA, random_state=0).fit(TABLE)


def test_the_rules_come_through_a_file(fitted, tmp_path):
    synth = fitted
    synth.save(tmp_path / "a")
    again = IndependentSynthesizer.load(tmp_path / "a")
    assert again.schema_ == synth.schema_
    assert again.schema == SCHEMA
    assert synth.schema_.rules == tuple(RULES)
    pd.testing.assert_frame_equal(
        again.sample(99, random_state=3), synth.sample(99, random_state=3)
    )
    again.save(tmp_path / "b")
    found = inspect(tmp_path / "b")
    assert found["schema_"]["rules"][0]["rule"] == "determines"
    assert "rules across" in str(found["report"]["declared"])


@pytest.mark.parametrize(
    "lie",
    [
        {"rule": "ordered", "columns": ["label", "zip"]},
        {"rule": "ordered", "columns": ["start", "most"]},
        {"rule": "missing_together", "columns": ["wages", "most"]},
        {"rule": "sum_of", "total": "savings", "parts": ["nobody", "wages"]},
        {"rule": "determines", "deciding": "zip", "decided": "job", "table": []},
    ],
)
def test_a_file_whose_rules_do_not_fit_is_refused(fitted, lie):
    synth = fitted
    table, arrays = synth._model.to_state()
    parts = {"table": table, "schema_": synth.schema_.to_dict(), "generator": {}}
    document = json.loads(json.dumps(parts))
    check_parts(document, arrays)
    document["schema_"] |= {"rules": [lie], "target": None, "class_counts": None}
    with pytest.raises((ValueError, TypeError, LookupError)):
        check_parts(document, arrays)


@pytest.mark.parametrize(
    ("name", "like"), [("start", "job"), ("wages", "job"), ("zip", "most")]
)
def test_domains_of_another_kind_are_refused(fitted, name, like):
    """A file may hold any with marginals that fit them."""
    facts = fitted._model.facts
    modelled = {own: domain for own, (_, domain) in facts.drawn.items()}
    assert RowRules.of(SCHEMA, facts.layout, modelled) == facts.rules
    modelled[name] = modelled[like]
    with pytest.raises(ValueError, match="a rule about"):
        RowRules.of(SCHEMA, facts.layout, modelled)


def test_a_file_whose_rules_compute_the_label_is_refused(fitted):
    """The schema of the file does not name it as the target."""
    synth = fitted
    table, arrays = synth._model.to_state()
    free = {**COLUMNS, "label": Categorical(["u", "v"], nullable=True)}
    rule = Determines("job", "label", {"p": "u", "q": "v"})
    lie = TableSchema(free, rules=[rule]).to_dict()
    parts = {"table": table, "schema_": lie, "generator": {}}
    with pytest.raises(InvalidSchemaError, match="target 'label' must be modelled"):
        check_parts(json.loads(json.dumps(parts)), arrays)


def test_it_is_a_persistence_error(fitted, tmp_path, monkeypatch):
    synth = fitted
    lie = {**synth.schema_.to_dict(), "rules": [{"rule": "ordered", "columns": ["a"]}]}
    monkeypatch.setattr(TableSchema, "to_dict", lambda _: lie)
    synth.save(tmp_path / "a")
    with pytest.raises(PersistenceError):
        IndependentSynthesizer.load(tmp_path / "a")
