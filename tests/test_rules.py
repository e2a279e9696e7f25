"""Every drawn row keeps the rules of its schema, and no private row decides on it."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from _instances import INSTANCES, PLAIN
from sklearn.base import clone

from skdpsynth import (
    IndependentSynthesizer,
    PairwiseSynthesizer,
    TableSchema,
    inspect,
)
from skdpsynth.exceptions import InvalidSchemaError, PersistenceError
from skdpsynth.persistence._facts import check_parts
from skdpsynth.preprocessing._rules import RowRules
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Determines,
    MissingTogether,
    Ordered,
    SumOf,
)

STATES = {"A": "x", "B": "y", "C": "x"}
RULES = [
    Determines("code", "ill", {1: True, 2: False}),  # of a computed column, and first
    Determines("state", "code", {"x": 1, "y": 2}),
    Determines("zip", "state", STATES),
    SumOf("income", ["wages", "rents"]),
    SumOf("wealth", ["income", "savings"]),
    Ordered(["start", "middle", "end"]),
    Ordered(["least", "most"]),
    MissingTogether(["spouse", "job", "least"]),
]
COLUMNS = {
    "zip": Categorical(["A", "B", "C"], nullable=True),
    "state": Categorical(["y", "x"], nullable=True),
    "code": Categorical([1, 2], nullable=True),
    "ill": Boolean(nullable=True),
    "wages": Continuous(0, 100, decimals=2),
    "rents": Continuous(0, 10, decimals=1, nullable=True),
    "income": Continuous(0, 110, decimals=2, nullable=True),
    "savings": Continuous(-9, 900),
    "wealth": Continuous(-10, 2_000, nullable=True),
    "start": Datetime("2020-01-01", "2020-12-31", unit="D"),
    "middle": Datetime("2020-01-01", "2021-06-30", unit="D", nullable=True),
    "end": Datetime("2020-06-01", "2021-12-31", unit="D"),
    "least": Continuous(0, 60, integer=True, nullable=True),
    "most": Continuous(20, 90),
    "spouse": Continuous(18, 99, nullable=True),
    "job": Categorical(["p", "q"], nullable=True),
    "label": Categorical(["u", "v"]),
}
SCHEMA = TableSchema(COLUMNS, target="label", rules=RULES)
FREE = TableSchema(COLUMNS, target="label")
COMPUTED = ["state", "code", "ill", "income", "wealth"]


def make_table(n_rows=600, seed=0):
    """A table that keeps the rules, in as many dtypes as there are columns."""
    rng = np.random.default_rng(seed)
    place = pd.Series(rng.choice(["A", "B", "C"], n_rows)).where(
        rng.random(n_rows) < 0.9
    )
    code = place.map(STATES).map({"x": 1, "y": 2})
    wages = rng.integers(0, 10_000, n_rows) / 100
    rents = np.where(rng.random(n_rows) < 0.2, np.nan, rng.integers(0, 99, n_rows) / 10)
    savings = rng.normal(300, 90, n_rows)
    days = np.sort(rng.integers(170, 360, (3, n_rows)), axis=0)
    start, middle, end = (
        pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(own, "D"))
        for own in days
    )
    least = pd.Series(rng.integers(0, 50, n_rows), dtype="Int64")
    gone = rng.random(n_rows) < 0.3
    return pd.DataFrame(
        {
            "label": pd.Categorical(np.where(savings > 300, "u", "v")),
            "zip": place.astype("str"),
            "state": place.map(STATES).astype("category"),
            "code": code.astype("Int64"),
            "ill": code.map({1: True, 2: False}).astype("boolean"),
            "wages": wages,
            "rents": rents,
            "income": np.round(wages + rents, 2),
            "savings": savings,
            "wealth": pd.Series(wages + rents + savings).astype("Float64"),
            "start": start,
            "middle": middle.where(rng.random(n_rows) < 0.7),
            "end": end,
            "least": least.mask(gone),
            "most": least.astype(float) + rng.integers(20, 30, n_rows),
            "spouse": np.where(gone, np.nan, rng.integers(18, 80, n_rows)),
            "job": pd.Series(rng.choice(["p", "q"], n_rows))
            .mask(gone)
            .astype("string"),
        }
    )


TABLE = make_table()


def make_violating(table):
    """The same rows with the columns that are computed, or ordered last, shuffled."""
    rng = np.random.default_rng(1)
    order = rng.permutation(len(table))
    shuffled = [*COMPUTED, "start", "least", "job"]
    found = table.copy()
    for name in shuffled:
        found[name] = table[name].to_numpy(dtype=object)[order]
        found[name] = found[name].astype(table[name].dtype)
    assert broken(found)
    assert not broken(table)
    return found


def broken(table):
    """What `check` finds of rules; counts of classes are no rules."""
    found = SCHEMA.check(table)
    return found["finding"][found["column"].isna()].tolist()


def keeps_all(table):
    """An independent reading of the rules, row by row."""
    for row in table.to_dict("records"):
        row = {name: None if pd.isna(own) else own for name, own in row.items()}
        assert row["state"] == STATES.get(row["zip"])
        assert row["code"] == {"x": 1, "y": 2}.get(row["state"])
        assert row["ill"] == {1: True, 2: False}.get(row["code"])
        if row["rents"] is None:
            assert row["income"] is None
            assert row["wealth"] is None
        else:
            assert row["income"] == round(row["wages"] + row["rents"], 2)
            assert math.isclose(row["wealth"], row["income"] + row["savings"])
        for names in (["start", "middle", "end"], ["least", "most"]):
            present = [row[name] for name in names if row[name] is not None]
            assert present == sorted(present)
        absent = {row[name] is None for name in ("spouse", "job", "least")}
        assert len(absent) == 1
    within = SCHEMA.check(table)
    assert set(within["column"]) <= {"label"}
    return True


def test_the_table_of_the_tests_keeps_the_rules():
    assert keeps_all(TABLE)
    with pytest.raises(AssertionError):
        keeps_all(make_violating(TABLE))


@pytest.mark.slow
@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("name", INSTANCES)
def test_every_row_keeps_every_rule(name, global_random_seed):
    """Whatever the synthesizer, at a budget that leaves much noise."""
    synth = clone(INSTANCES[name]).set_params(schema=SCHEMA, target="label")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small tables are poor
        synth.fit(make_violating(TABLE))
    rows = synth.sample(400, random_state=global_random_seed)
    assert keeps_all(rows)
    assert (
        rows.dtypes.drop(["state", "label"]) == TABLE.dtypes.drop(["state", "label"])
    ).all()
    assert rows["state"].cat.categories.tolist() == ["y", "x"]
    assert rows.columns.tolist() == TABLE.columns.tolist()


@pytest.fixture(scope="module")
def fitted():
    """Without noise: what is asked for is there."""
    kinds = {"marginals": IndependentSynthesizer, "pairs": PairwiseSynthesizer}
    return {
        name: kind(math.inf, schema=SCHEMA, random_state=0).fit(TABLE)
        for name, kind in kinds.items()
    }


@pytest.mark.parametrize("name", ["marginals", "pairs"])
@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ({"state": "y"}, lambda t: t["state"] == "y"),
        ({"ill": True, "label": "u"}, lambda t: t["ill"] & (t["label"] == "u")),
        ({"code": None}, lambda t: t["code"].isna()),
        ({"income": (30, 40.5)}, lambda t: t["income"].between(30, 40.5)),
        ({"wealth": (None, 300)}, lambda t: t["wealth"] <= 300),
        (
            {"start": ("2020-08-01", None), "end": (None, "2020-09-01")},
            lambda t: (t["start"] >= "2020-08-01") & (t["end"] <= "2020-09-01"),
        ),
        ({"job": "p"}, lambda t: t["job"] == "p"),
        ({"spouse": None, "zip": "A"}, lambda t: t["job"].isna() & (t["zip"] == "A")),
    ],
)
def test_rows_that_satisfy_a_condition_keep_the_rules_too(fitted, name, where, holds):
    rows = fitted[name].sample(100, where=where, random_state=1)
    assert len(rows) == 100
    assert holds(rows).all()
    assert keeps_all(rows)


@pytest.mark.statistical
def test_a_condition_is_about_rows_after_the_rules(global_random_seed):
    """Two numbers are even, and drawn independently of each other.

    Given that the smaller is below 1/2, the larger is above it two times in three; had
    the condition been read before the rule, every second time. n = 6,000: the share is
    off by at most .04, 5 standard deviations and .01 for cells; rate 1e-6.
    """
    values = (np.arange(4_000) + 0.5) / 4_000
    table = pd.DataFrame({"a": values, "b": np.roll(values, 1_000)})
    bounds = Continuous(0, 1, decimals="any")
    schema = TableSchema({"a": bounds, "b": bounds}, rules=[Ordered(["a", "b"])])
    synth = IndependentSynthesizer(math.inf, schema=schema, random_state=0).fit(table)
    where, seed = {"a": (None, 0.5)}, global_random_seed
    rows = synth.sample(6_000, where=where, random_state=seed)
    assert (rows["a"] <= 0.5).all()
    assert abs((rows["b"] > 0.5).mean() - 2 / 3) < 0.04


@pytest.mark.parametrize("name", ["marginals", "pairs"])
def test_the_share_of_missing_rows_is_that_of_the_first_column(fitted, name):
    """40,000 rows of one seed: a share is off by .0025, and its bins by less than .01.

    Rows where all three columns happen to be missing would be a tenth as many.
    """
    rows = fitted[name].sample(40_000, random_state=2)
    share = TABLE["spouse"].isna().mean()
    assert abs(rows["job"].isna().mean() - share) < 0.02
    shares = rows["job"].value_counts(normalize=True)
    expected = TABLE["job"].value_counts(normalize=True)
    assert abs(shares["p"] - expected["p"]) < 0.02


def public_half(synth):
    document, arrays = synth._model.to_state()
    return document, {name: own.tolist() for name, own in arrays.items()}


def noise_free_of(rows, schema):
    """Everything public of a fit whose noise is the same for all tables."""
    with insecure_randomness(0), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        synth = IndependentSynthesizer(0.5, schema=schema, random_state=0).fit(rows)
    entries = [str(entry) for entry in synth.privacy_report().entries]
    return synth, (public_half(synth), entries, [str(w.message) for w in caught])


def test_private_values_of_computed_columns_decide_nothing():
    """Nothing at all is different where they are others, to the bit."""
    other = TABLE.copy()
    other[COMPUTED] = make_violating(TABLE)[COMPUTED]
    other.loc[:, "ill"] = pd.NA
    one, public = noise_free_of(TABLE, SCHEMA)
    two, same = noise_free_of(other, SCHEMA)
    assert public == same
    pd.testing.assert_frame_equal(
        one.sample(50, random_state=1), two.sample(50, random_state=1)
    )


def test_a_fit_never_compares_rows_with_rules():
    """With rules that change drawn rows only, it is the fit without rules."""
    changing = [rule for rule in RULES if not rule.derived]
    with_rules = TableSchema(COLUMNS, target="label", rules=changing)
    for table in (TABLE, make_violating(TABLE)):
        assert noise_free_of(table, with_rules)[1] == noise_free_of(table, FREE)[1]


def test_the_ledger_is_that_of_a_table_that_keeps_the_rules():
    violating = make_violating(TABLE)
    entries = []
    for table in (TABLE, violating):
        synth = IndependentSynthesizer(schema=SCHEMA, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = synth.fit(table).privacy_report()
        names = [(entry.name, entry.scope) for entry in report.entries]
        entries.append((names, report.epsilon, [str(w.message) for w in caught]))
    assert entries[0] == entries[1]


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_computed_is_not_bought(name):
    """The plan is that of a table without these columns."""
    synth = clone(PLAIN[name])
    columns = {k: c for k, c in COLUMNS.items() if k not in COMPUTED}
    smaller = TableSchema(columns, target="label")
    plans = [synth.plan(500, schema=schema) for schema in (SCHEMA, smaller, FREE)]
    pd.testing.assert_frame_equal(plans[0], plans[1])
    assert not plans[0].equals(plans[2])
    with_dtypes = synth.plan(500, schema=SCHEMA, dtypes=TABLE.dtypes)
    pd.testing.assert_frame_equal(with_dtypes, plans[0])


def test_the_rules_come_through_a_file(fitted, tmp_path):
    synth = fitted["pairs"]
    synth.save(tmp_path / "a")
    again = PairwiseSynthesizer.load(tmp_path / "a")
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
    synth = fitted["marginals"]
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
    facts = fitted["marginals"]._model.facts
    modelled = {own: domain for own, (_, domain) in facts.drawn.items()}
    assert RowRules.of(SCHEMA, facts.layout, modelled) == facts.rules
    modelled[name] = modelled[like]
    with pytest.raises(ValueError, match="a rule about"):
        RowRules.of(SCHEMA, facts.layout, modelled)


def test_a_file_whose_rules_compute_the_label_is_refused(fitted):
    """The schema of the file does not name it as the target."""
    synth = fitted["marginals"]
    table, arrays = synth._model.to_state()
    free = {**COLUMNS, "label": Categorical(["u", "v"], nullable=True)}
    rule = Determines("job", "label", {"p": "u", "q": "v"})
    lie = TableSchema(free, rules=[rule]).to_dict()
    parts = {"table": table, "schema_": lie, "generator": {}}
    with pytest.raises(InvalidSchemaError, match="target 'label' must be modelled"):
        check_parts(json.loads(json.dumps(parts)), arrays)


def test_it_is_a_persistence_error(fitted, tmp_path, monkeypatch):
    synth = fitted["marginals"]
    lie = {**synth.schema_.to_dict(), "rules": [{"rule": "ordered", "columns": ["a"]}]}
    monkeypatch.setattr(TableSchema, "to_dict", lambda _: lie)
    synth.save(tmp_path / "a")
    with pytest.raises(PersistenceError):
        IndependentSynthesizer.load(tmp_path / "a")


def test_a_fit_within_what_the_last_one_found_keeps_the_rules(fitted):
    again = IndependentSynthesizer(schema=fitted["marginals"].schema_).fit(TABLE)
    assert keeps_all(again.sample(200, random_state=0))
    assert again.schema_ == fitted["marginals"].schema_


@pytest.mark.parametrize("strategy", ["balanced", {"u": 150, "v": 50}])
def test_classes_are_those_that_are_asked_for(fitted, strategy):
    rows = fitted["pairs"].sample(200, sampling_strategy=strategy, random_state=1)
    expected = [100, 100] if strategy == "balanced" else [150, 50]
    assert rows["label"].value_counts()[["u", "v"]].tolist() == expected
    assert keeps_all(rows)


def test_rows_of_many_chunks_keep_the_rules(fitted, monkeypatch):
    monkeypatch.setattr("skdpsynth.base._CHUNK_ROWS", 60)
    rows = fitted["pairs"].sample(200, random_state=1)
    assert keeps_all(rows)
    assert (
        rows.dtypes.drop(["state", "label"]) == TABLE.dtypes.drop(["state", "label"])
    ).all()


@pytest.mark.parametrize("output", ["arrow", "polars"])
def test_other_containers_hold_the_same_rows(fitted, output):
    if output == "polars":
        pytest.importorskip("polars")
    synth = fitted["marginals"]
    rows = synth.sample(50, random_state=4, output=output)
    assert keeps_all(rows.to_pandas())


def test_fit_resample_gives_features_that_keep_the_rules():
    import pyarrow as pa

    columns = {k: c for k, c in COLUMNS.items() if k != "label"}
    schema = TableSchema(columns, rules=RULES)
    features, labels = TABLE.drop(columns="label"), TABLE["label"]
    made, y = IndependentSynthesizer(schema=schema).fit_resample(features, labels)
    assert keeps_all(made.assign(label=y))
    table = pa.Table.from_pandas(features)
    made, _ = IndependentSynthesizer(schema=schema).fit_resample(table, labels)
    assert made.schema.types == table.schema.types
    assert keeps_all(made.to_pandas().assign(label="u"))


def test_the_label_may_decide_and_a_measured_target_be_ordered():
    table = pd.DataFrame(
        {"y": [True, False] * 50, "risk": np.int8([7, 3] * 50), "a": np.arange(100.0)}
    )
    columns = {"y": Boolean(), "risk": Continuous(0, 9), "a": Continuous(0, 99)}
    rule = Determines("y", "risk", {True: 7, False: 3})
    schema = TableSchema(columns, target="y", rules=[rule])
    rows = IndependentSynthesizer(schema=schema).fit(table).sample(60)
    assert rows["risk"].dtype == np.int8
    assert (rows["risk"] == np.where(rows["y"], 7, 3)).all()
    assert set(rows["risk"]) == {3, 7}
    table["b"] = table["a"] + 1
    columns = {"a": columns["a"], "b": Continuous(0, 100)}
    schema = TableSchema(columns, target="b", rules=[Ordered(["a", "b"])])
    synth = IndependentSynthesizer(schema=schema).fit(table[["a", "b"]])
    rows = synth.sample(300, random_state=0)
    assert (rows["a"] <= rows["b"]).all()
    assert (rows["a"] < rows["b"]).mean() > 0.9  # sorted, not clamped
    where = synth.sample(50, where={"b": (None, 30)}, random_state=0)
    assert (where["a"] <= where["b"]).all()
    assert (where["b"] <= 30).all()


HOURS = pd.date_range("2020-10-20", "2020-11-05", freq="15min", tz="America/New_York")


@pytest.mark.parametrize("unit", [None, "h"])
@pytest.mark.parametrize("arrow", [False, True])
def test_times_in_a_zone_are_in_order_over_a_clock_change(unit, arrow):
    dtype = "timestamp[us, tz=America/New_York][pyarrow]" if arrow else HOURS.dtype
    when = pd.Series(HOURS).astype(dtype)
    table = pd.DataFrame({"a": when, "b": when[::-1].reset_index(drop=True)})
    bounds = Datetime(HOURS[0], HOURS[-1], unit=unit)
    schema = TableSchema({"a": bounds, "b": bounds}, rules=[Ordered(["a", "b"])])
    synth = IndependentSynthesizer(math.inf, schema=schema, random_state=0).fit(table)
    rows = synth.sample(2_000, random_state=1)
    assert (rows.dtypes == table.dtypes).all()
    assert (rows["a"] <= rows["b"]).all()
    late = HOURS[-600]
    some = synth.sample(300, where={"a": (late, None)}, random_state=1)
    some = some.astype(HOURS.dtype)
    assert (some["a"] >= late).all()
    assert (some["a"] <= some["b"]).all()


def test_a_table_of_computed_columns_alone_is_refused():
    columns = {"y": Boolean(), "x": Boolean()}
    rule = Determines("y", "x", {True: False, False: True})
    schema = TableSchema(columns, target="y", rules=[rule])
    synth = IndependentSynthesizer(schema=schema)
    with pytest.raises(InvalidSchemaError, match="no column that could be modelled"):
        synth.fit(pd.DataFrame({"y": [True, False], "x": [False, True]}))
