"""One table whose units have rows in order: what is kept, refused, and protected."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from linked.test_linked import _small  # noqa: F401 - chains of few steps

import skdpsynth
from skdpsynth import (
    IndependentSynthesizer,
    LinkedSynthesizer,
    PrivacyBudget,
    TableSchema,
)
from skdpsynth.audit._replay import replayed_pairs
from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.schema import Categorical, Continuous, Datetime, Derived, Identifier

SCHEMA = TableSchema(
    {
        "day": Datetime("2020-01-01", "2021-12-31", unit="D"),
        "lab": Continuous(0, 9, integer=True),
        "born": Continuous(1920, 2000, integer=True),
        "kind": Categorical(["a", "b"]),
    },
    privacy_unit="person",
    max_rows_per_unit=4,
    per_unit=["born"],
    order_by="day",
)


def visits(n=80, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n), rng.integers(1, 7, n))
    m = len(person)
    table = pd.DataFrame(
        {
            "lab": rng.integers(0, 10, m),
            "person": person + 500,
            "day": np.datetime64("2020-01-01", "s") + 86_400 * rng.integers(0, 700, m),
            "born": (1930 + person % 60).astype("int16"),
            "kind": pd.Categorical(rng.choice(["a", "b"], m)),
        }
    )
    table["person"] = table["person"].astype("Int64").mask(rng.random(m) < 0.05)
    return table.sample(frac=1, random_state=seed, ignore_index=True)


def test_units_have_rows_in_order_and_what_is_constant(tmp_path, global_random_seed):
    table = visits()
    synth = LinkedSynthesizer(5.0, schema=SCHEMA, random_state=0).fit(table)
    drawn = synth.sample(300, random_state=global_random_seed)
    assert drawn.dtypes.to_dict() == table.dtypes.to_dict()
    assert [*drawn] == [*table]
    rows = drawn.groupby("person")
    assert (rows["day"].diff().dropna().dt.days >= 0).all()
    assert rows["born"].nunique().max() == 1
    assert rows.size().max() <= 4
    assert drawn["person"].isin(range(300)).all()
    synth.save(tmp_path / "rows.skdp")
    again = skdpsynth.load(tmp_path / "rows.skdp")
    assert again.schema == SCHEMA == TableSchema.from_json(SCHEMA.to_json())
    for own in (synth, again):
        pd.testing.assert_frame_equal(
            own.sample(300, random_state=global_random_seed), drawn
        )
        words = "all rows of one person, of which at most 4 are used"
        assert own.privacy_report().unit == words
    polars = pytest.importorskip("polars")
    given = polars.from_pandas(table)
    assert synth.fit(given).sample(5).schema == given.schema


def test_a_unit_moves_every_release_by_its_sensitivity_at_most():
    table = visits(60)
    known = table["person"].dropna().unique()
    many = table.iloc[[0] * 40].assign(person=5, lab=99, born=range(1900, 1940))
    lone = table.iloc[[3] * 40].assign(person=pd.NA)  # of no unit
    others = [
        ("first", "removed", table[table["person"] != known[0]]),
        ("last", "permuted", table[table["person"] != known[-1]].iloc[::-1]),
        ("far", "added", pd.concat([many.astype(table.dtypes), table])),
        ("none", "added", pd.concat([lone.astype(table.dtypes), table])),
    ]
    synth = LinkedSynthesizer(100.0, schema=SCHEMA)
    pairs = [*replayed_pairs(synth, table, iter(others), 0, "the unit")]
    assert [pair for pair in pairs if pair.findings] == []
    assert max(pair.shift for pair in pairs[:3]) > 0.5
    assert pairs[3].shift == 0


def test_a_budget_is_of_the_unit_and_no_other_synthesizer_takes_an_order():
    budget = PrivacyBudget(3.0, 1e-3)
    given = {"schema": SCHEMA, "budget": budget}
    with pytest.raises(InvalidSchemaError, match="take LinkedSynthesizer"):
        IndependentSynthesizer(1.0, **given).fit(visits())
    with pytest.raises(InvalidSchemaError, match="take LinkedSynthesizer"):
        IndependentSynthesizer(1.0, **given).plan(100)
    assert budget.spent == (0.0, 0.0)
    LinkedSynthesizer(1.0, random_state=0, **given).fit(visits())
    assert (budget.spent[0], budget.unit) == (1.0, "person")
    with pytest.raises(InvalidSchemaError, match="'privacy_unit' and 'order_by'"):
        LinkedSynthesizer(1.0, schema=replace(SCHEMA, order_by=None)).fit(visits())


@pytest.mark.parametrize("name", ["born", "person", "absent"])
def test_an_order_is_by_a_column_that_is_described_and_not_constant(name):
    with pytest.raises(InvalidSchemaError, match="are ordered by"):
        replace(SCHEMA, order_by=name)


def test_rules_of_rows_and_of_units_hold():
    columns = {**SCHEMA.columns, "until": Continuous(1920, 2100, integer=True)}
    rule = Derived("until", "born + 80")
    given = {"rules": [rule], "per_unit": ["born", "until"]}
    schema = replace(SCHEMA, columns=columns, **given)
    table = visits().assign(until=lambda own: own["born"].astype(int) + 80)
    synth = LinkedSynthesizer(5.0, schema=schema, random_state=0).fit(table)
    drawn = synth.sample(100, random_state=0)
    assert (drawn["until"] == drawn["born"].astype(int) + 80).all()


@pytest.mark.parametrize("kind", ["M8[s]", "pattern"])
def test_keys_of_units_may_be_of_any_kind(kind):
    """Rows go to their unit by its place, not by what its key looks like."""
    table, schema = visits(), SCHEMA
    number = table["person"].fillna(500).astype(int)
    if kind == "pattern":
        keys = Identifier(pattern="P####")
        schema = replace(SCHEMA, columns={**SCHEMA.columns, "person": keys})
        table["person"] = "P" + number.astype(str).str.zfill(4)
    else:
        days = number.to_numpy().astype("M8[D]").astype(kind)
        table["person"] = np.where(table["person"].isna(), np.datetime64("NaT"), days)
    synth = LinkedSynthesizer(5.0, schema=schema, random_state=0).fit(table)
    drawn = synth.sample(200, random_state=0)
    assert drawn["person"].dtype == table["person"].dtype
    assert 100 < drawn["person"].nunique() <= 200
    assert drawn.groupby("person")["born"].nunique().max() == 1
    assert kind != "pattern" or drawn["person"].str.fullmatch(r"P\d{4}").all()


def test_a_rule_of_units_and_rows_is_refused_by_name():
    columns = {**SCHEMA.columns, "sum": Continuous(1920, 2100, integer=True)}
    rule = Derived("sum", "born + lab")
    schema = replace(SCHEMA, columns=columns, rules=[rule])
    with pytest.raises(InvalidSchemaError, match="of units and of their rows"):
        LinkedSynthesizer(5.0, schema=schema).plan(100)
