"""Every drawn row keeps the rules of its schema, and no private row decides on it."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from _instances import PLAIN
from _rules import (
    COLUMNS,
    COMPUTED,
    RULES,
    SCHEMA,
    TABLE,
    keeps_all,
    make_violating,
)
from sklearn.base import clone

from skdpsynth import (
    IndependentSynthesizer,
    MarginalSynthesizer,
    TableSchema,
)
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import (
    Boolean,
    Continuous,
    Datetime,
    Determines,
    Ordered,
)


def test_the_table_of_the_tests_keeps_the_rules():
    assert keeps_all(TABLE)
    with pytest.raises(AssertionError):
        keeps_all(make_violating(TABLE))


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("name", PLAIN)
def test_every_row_keeps_every_rule(name, global_random_seed):
    """Whatever the synthesizer, at a budget that leaves much noise."""
    synth = clone(PLAIN[name]).set_params(schema=SCHEMA, target="label")
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
    kinds = {"marginals": IndependentSynthesizer, "pairs": MarginalSynthesizer}
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


FREE = TableSchema(COLUMNS, target="label")


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


def test_a_fit_within_what_the_last_one_found_keeps_the_rules(fitted):
    again = IndependentSynthesizer(schema=fitted["marginals"].schema_).fit(TABLE)
    assert keeps_all(again.sample(200, random_state=0))
    assert again.schema_ == fitted["marginals"].schema_


def test_rows_of_many_chunks_keep_the_rules(fitted, monkeypatch):
    monkeypatch.setattr("skdpsynth.sampling._sampler._CHUNK_ROWS", 60)
    rows = fitted["pairs"].sample(200, random_state=1)
    assert keeps_all(rows)
    assert (
        rows.dtypes.drop(["state", "label"]) == TABLE.dtypes.drop(["state", "label"])
    ).all()


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


def test_dates_without_a_time_are_in_order():
    days = pd.Series(HOURS.tz_localize(None)).astype("date32[pyarrow]")
    table = pd.DataFrame({"a": days, "b": days[::-1].reset_index(drop=True)})
    bounds = Datetime(HOURS[0].tz_localize(None), HOURS[-1].tz_localize(None))
    schema = TableSchema({"a": bounds, "b": bounds}, rules=[Ordered(["a", "b"])])
    rows = IndependentSynthesizer(5.0, schema=schema).fit(table).sample(500)
    assert (rows.dtypes == table.dtypes).all()
    assert (rows["a"] <= rows["b"]).all()


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
