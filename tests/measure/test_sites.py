"""Measurements that travel: fitted again, added up over sites, and refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from _releases import watched

from skdpsynth import (
    MarginalSynthesizer,
    PATETripleGANSynthesizer,
    combine_measurements,
)
from skdpsynth.exceptions import InvalidSchemaError, PersistenceError
from skdpsynth.measure import Measurements
from skdpsynth.metrics import marginal_fidelity
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    TableSchema,
)


def table_of(n_rows, seed=0, shift=0.0):
    """Numbers with exact zeros, whole ones, categories, missing values, a label."""
    rng = np.random.default_rng(seed)
    age = (40 + 12 * shift + 12 * rng.normal(size=n_rows)).clip(18, 90).round()
    gain = np.where(rng.random(n_rows) < 0.6, 0.0, rng.exponential(800.0, n_rows))
    frame = pd.DataFrame(
        {
            "age": age.astype(int),
            "gain": gain.clip(0, 9000).round(2),
            "kind": rng.choice(["p", "q", "r", "s"], n_rows, p=[0.5, 0.3, 0.15, 0.05]),
            "size": (age / 10 + rng.normal(0, 0.5, n_rows)).clip(0, 12),
            "sick": rng.random(n_rows) < 0.1 + 0.006 * (age - 18),
        }
    )
    frame["size"] = frame["size"].mask(rng.random(n_rows) < 0.1)
    return frame


SCHEMA = TableSchema(
    {
        "age": Continuous(18, 90, integer=True),
        "gain": Continuous(0, 9000, decimals=2),
        "kind": Categorical(["p", "q", "r", "s"]),
        "size": Continuous(0, 12, nullable=True),
        "sick": Boolean(),
    },
    target="sick",
)
WHO = TableSchema(
    SCHEMA.columns, target="sick", privacy_unit="who", max_rows_per_unit=2
)
TABLE = table_of(6_000)


def fitted(table=TABLE, epsilon=3.0, schema=SCHEMA, **options):
    options = {"random_state": 0} | options
    return MarginalSynthesizer(epsilon, schema=schema, **options).fit(table)


def sites_of(tables, epsilon=math.inf):
    """Measurements of sites of which the first says what is measured."""
    first = fitted(tables[0], epsilon).measurements_
    others = [
        fitted(own, epsilon, schema=first.schema, design=first).measurements_
        for own in tables[1:]
    ]
    return [first, *others]


@pytest.fixture(scope="module")
def known():
    """Measurements of a fit."""
    return fitted().measurements_


CASES = {
    "two classes": (TABLE, SCHEMA),
    "nothing declared": (TABLE, None),
    "a number to predict": (TABLE.drop(columns="sick"), None),
    "few rows": (TABLE[:200], SCHEMA),
    "persons": (TABLE.assign(who=np.arange(len(TABLE)) // 3), WHO),
    "many columns": (
        pd.DataFrame(
            np.random.default_rng(0).normal(size=(2_000, 130)).round(3),
            columns=[f"c{i}" for i in range(130)],
        ),
        None,
    ),
}


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("case", CASES)
def test_from_a_file_of_measurements_comes_the_generator_of_the_fit(case, tmp_path):
    table, schema = CASES[case]
    target = "size" if case == "a number to predict" else None
    synth = fitted(table, schema=schema, target=target)
    synth.measurements_.save(tmp_path / "site.json")
    loaded = Measurements.load(tmp_path / "site.json")
    again = MarginalSynthesizer.from_measurements(loaded, random_state=0)
    rows = (own.sample(300, random_state=1) for own in (synth, again))
    pd.testing.assert_frame_equal(*rows)
    assert again.epsilon_ == synth.epsilon_
    assert again.privacy_report() == synth.privacy_report()
    assert again.schema_.n_rows is None  # another table has others
    again.save(tmp_path / "again.skdp")
    twice = MarginalSynthesizer.load(tmp_path / "again.skdp")
    pd.testing.assert_frame_equal(
        twice.sample(50, random_state=1), synth.sample(50, random_state=1)
    )
    again.measurements_.save(tmp_path / "twice.json")
    assert (tmp_path / "twice.json").read_text() == (tmp_path / "site.json").read_text()


@pytest.mark.usefixtures("short_fits")
def test_sites_with_a_design_add_up_to_the_measurements_of_all_rows():
    """Without noise: cell by cell what one fit of all rows counts."""
    tables = [table_of(4_000, 1), table_of(1_500, 2, 1.0), table_of(700, 3, -1.0)]
    first, *others = sites_of(tables)
    both = combine_measurements([first, *others])
    whole = fitted(
        pd.concat(tables, ignore_index=True),
        math.inf,
        schema=first.schema,
        design=first,
    ).measurements_
    listed = {(own.class_label, own.columns, own.order): own for own in whole}
    orders = set()
    for own in both:
        other = listed[own.class_label, own.columns, own.order]
        if own.order in (1, 2, 3):
            np.testing.assert_allclose(own.values, other.values, atol=0.02)
            assert [*map(len, own.bins)] == [*map(len, other.bins)]
        orders.add(own.order)
    assert {0, 1, 2, 3} <= orders
    counts = [float(own.values) for own in both if own.order == 0]
    assert sum(counts) == sum(map(len, tables))


@pytest.mark.usefixtures("short_fits")
def test_noise_of_sites_adds_up_as_variances():
    sites = sites_of([table_of(4_000, 1), table_of(3_000, 2)], epsilon=2.0)
    both = combine_measurements(sites)

    def noise(measurements, order):
        return {
            (own.class_label, own.columns): own.noise_std
            for own in measurements
            if own.order == order
        }

    for order in (0, 2, 3):
        found, *parts = (noise(own, order) for own in (both, *sites))
        for key, std in found.items():
            expected = math.hypot(*(own[key] for own in parts))
            assert std == pytest.approx(expected, rel=0.1)


def test_sites_that_know_nothing_of_each_other_are_brought_to_common_bins():
    tables = [table_of(6_000, 1), table_of(3_000, 2, 1.5), table_of(2_000, 3, -1.0)]
    sites = [fitted(own, 4.0).measurements_ for own in tables]
    bins = {
        tuple(map(len, own.bins)) for site in sites for own in site if own.order == 2
    }
    assert len(bins) > 3  # they differ
    both = MarginalSynthesizer.from_measurements(combine_measurements(sites))
    whole = pd.concat(tables, ignore_index=True)
    drawn = both.sample(len(whole), random_state=0)
    alone = MarginalSynthesizer.from_measurements(sites[0]).sample(len(whole))
    for k, most in ((1, 0.03), (2, 0.07)):
        distance = marginal_fidelity(whole, drawn, k=k).mean()
        assert distance < most
        assert distance < 0.7 * marginal_fidelity(whole, alone, k=k).mean()
    means = [own.groupby("sick")["age"].mean() for own in (whole, drawn)]
    assert np.abs(means[0] - means[1]).max() < 1.5


@pytest.mark.usefixtures("short_fits")
def test_relations_are_those_of_all_sites():
    """Pairs that the first site knows to be impossible occur at the second one."""
    rng, tables = np.random.default_rng(0), []
    for n_rows, beside in ((4_000, 0), (3_000, 1)):
        a = rng.integers(0, 6, n_rows)
        b, c = (a + beside) % 6, rng.normal(size=n_rows).clip(-3, 3)
        tables.append(pd.DataFrame({"a": a.astype(str), "b": b.astype(str), "c": c}))
    names = Categorical([*map(str, range(6))])
    schema = TableSchema({"a": names, "b": names, "c": Continuous(-3, 3)})
    first = fitted(tables[0], 10.0, schema=schema).measurements_
    other = fitted(tables[1], 10.0, schema=first.schema, design=first).measurements_
    for sites, share in (([first], 1.0), ([first, other], 4 / 7)):
        both = MarginalSynthesizer.from_measurements(combine_measurements(sites))
        drawn = both.sample(5_000, random_state=0)
        assert (drawn["a"] == drawn["b"]).mean() == pytest.approx(share, abs=0.05)


@pytest.mark.usefixtures("short_fits")
def test_the_report_has_the_claims_of_all_sites():
    first = fitted(table_of(3_000, 1), 1.0).measurements_
    other = fitted(
        table_of(2_000, 2), 2.0, schema=first.schema, design=first
    ).measurements_
    reports = [own.origin.report for own in (first, other)]
    synth = MarginalSynthesizer.from_measurements(combine_measurements([first, other]))
    report = synth.privacy_report()
    assert report.epsilon == max(own.epsilon for own in reports)
    assert report.delta == max(own.delta for own in reports)
    for delta in (1e-4, 1e-3):
        assert report.get_epsilon(delta) >= max(r.get_epsilon(delta) for r in reports)
    assert "2 sites" in report.notes[0]
    assert "at one site alone" in report.notes[0]
    assert len(report.entries) == sum(len(own.entries) for own in reports)
    assert {entry.name[:7] for entry in report.entries} == {"site 1:", "site 2:"}
    noisy, exact = (
        combine_measurements([first, fitted(TABLE, e).measurements_])
        for e in (1.0, math.inf)
    )
    assert noisy.origin.report.private
    assert not exact.origin.report.private


@pytest.mark.usefixtures("short_fits")
def test_with_a_design_nothing_but_its_tables_is_released():
    first = fitted(TABLE, schema=None, target="sick").measurements_
    synth = MarginalSynthesizer(3.0, schema=first.schema, design=first)
    names = [e.name for e in synth.fit(table_of(5_000, 4)).privacy_report().entries]
    known = ("class counts", "marginals", "tables of", "table of")
    assert all(any(part in name for part in known) for name in names), names
    tables = [[own.columns for own in site if own.order == 2] for site in (first,)]
    mine = [own.columns for own in synth.measurements_ if own.order == 2]
    assert {*mine} == {*tables[0]}
    assert synth.plan(5_000)["table_noise_std"].max() > 0


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_row_moves_each_release_of_a_design_by_its_sensitivity(place):
    """Bins, pairs and groups are those of another table, whatever the rows."""
    first = fitted(table_of(4_000, 1), 6.0).measurements_
    synth = MarginalSynthesizer(6.0, schema=first.schema, design=first, random_state=0)
    odd = pd.DataFrame(
        [[18, 9000.0, "s", 12.0, True]], columns=["age", "gain", "kind", "size", "sick"]
    )
    table = table_of(300, 5)
    pieces = [odd, table] if place == "first" else [table, odd]
    _, before = watched(synth, table, secrets=8)
    more = pd.concat(pieces, ignore_index=True)
    _, after = watched(synth, more, history=before, secrets=8)
    assert len(before) == len(after) > 4
    shifts = []
    for ours, theirs in zip(before, after, strict=True):
        change = ours.release.exact.astype(float) - theirs.release.exact
        shifts.append(float(np.linalg.norm(change)) / ours.release.unit)
        assert shifts[-1] <= ours.line.sensitivity * (1 + 1e-9)
    assert sum(shift > 0 for shift in shifts) > 2


def twisted(name):
    """A table and a schema that cannot be a part of the same table as `TABLE`."""
    columns = dict(SCHEMA.columns)
    table = TABLE
    if name == "columns":
        table, columns = table.drop(columns="kind"), columns | {}
        del columns["kind"]
    elif name == "labels":
        table = table.assign(sick=table["sick"].map({True: "y", False: "n"}))
        columns["sick"] = Categorical(["n", "y"])
    elif name == "range":
        columns["age"] = Continuous(0, 120, integer=True)
    elif name == "categories":
        columns["kind"] = Categorical(["p", "q", "r", "s", "t"])
    return table, TableSchema(columns, target="sick")


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("name", ["columns", "labels", "range", "categories"])
def test_tables_that_are_no_parts_of_one_are_refused(name, known):
    table, schema = twisted(name)
    sites = [known, fitted(table[:3000], schema=schema).measurements_]
    with pytest.raises(ValueError, match=r"site 2 .*design=first"):
        combine_measurements(sites)


@pytest.mark.usefixtures("short_fits")
def test_rows_and_persons_are_not_combined():
    table, schema = CASES["persons"]
    other = TABLE.assign(who=np.arange(len(TABLE)))
    rows = TableSchema({**SCHEMA.columns, **WHO.columns}, target="sick")
    sites = [fitted(table, schema=schema), fitted(other, schema=rows)]
    with pytest.raises(ValueError, match="privacy_unit"):
        combine_measurements([site.measurements_ for site in sites])


@pytest.mark.usefixtures("short_fits")
def test_what_is_not_all_of_one_fit_is_refused(known):
    with pytest.raises(ValueError, match="Got none"):
        combine_measurements([])
    for part in (known[:3], Measurements([])):
        with pytest.raises(ValueError, match="not all of one fit"):
            MarginalSynthesizer.from_measurements(part)
    lacking = TABLE.assign(
        sick=TABLE["sick"].astype("boolean").mask(TABLE.index % 3 == 0)
    )
    half = PATETripleGANSynthesizer(3.0, target="sick").fit(lacking).measurements_
    with pytest.raises(ValueError, match="lack a label"):
        combine_measurements([half])


def test_a_design_needs_its_schema_and_its_columns(known, untouched):
    with pytest.raises(InvalidSchemaError, match=r"design\.schema"):
        MarginalSynthesizer(schema=TableSchema({}), design=known, budget=untouched).fit(
            TABLE
        )
    synth = MarginalSynthesizer(schema=known.schema, design=known, budget=untouched)
    with pytest.raises(InvalidSchemaError, match="other kinds"):
        synth.fit(TABLE.astype({"age": float}))


@pytest.mark.usefixtures("short_fits")
def test_a_plan_with_a_design_plans_what_is_measured():
    """Nothing is set aside for what a design makes known, such as last digits."""
    first = fitted(TABLE, schema=None, target="sick").measurements_
    synth = MarginalSynthesizer(3.0, schema=first.schema, design=first)
    counts = TABLE["sick"].value_counts().to_dict()
    plan = synth.plan(class_counts=counts).set_index("class")
    measured = synth.fit(TABLE).measurements_.origin.measured
    labels = measured.model.metadata.classes.labels
    for label, std in zip(labels, measured.noise_stds, strict=True):
        assert plan.loc[label, "noise_std"] == pytest.approx(std, rel=0.01)
    fresh = MarginalSynthesizer(3.0, schema=first.schema).plan(class_counts=counts)
    assert fresh["noise_std"].min() > plan["noise_std"].min()


@pytest.mark.usefixtures("short_fits")
def test_what_is_combined_may_be_a_design():
    """Also where sites had no bins in common, so that no tables are at hand."""
    sites = [table_of(4_000, 1), table_of(3_000, 2, shift=1.0)]
    both = combine_measurements([fitted(own).measurements_ for own in sites])
    third = fitted(table_of(2_000, 3), design=both, schema=both.schema)
    listed = [own.columns for own in both if own.order == 2]
    assert {own.columns for own in third.measurements_ if own.order == 2} == {*listed}


@pytest.mark.usefixtures("short_fits")
def test_numbers_of_units_add_up():
    """Half of the persons of each of two sites of unequal size have two rows."""
    sites = []
    for n_persons in (2_000, 1_000):
        n_rows = 3 * n_persons // 2
        who = np.append(np.arange(n_persons), np.arange(n_rows - n_persons))
        table = table_of(n_rows, n_persons).assign(who=who)
        sites.append(fitted(table, 10.0, schema=WHO).measurements_)
    each = [own.origin.measured.model.metadata.units for own in sites]
    units = combine_measurements(sites).origin.measured.model.metadata.units
    assert units.sizes.tolist() == (each[0].sizes + each[1].sizes).tolist()
    assert units.noise_std == math.hypot(*(own.noise_std for own in each))
    assert units.shares == pytest.approx([0.5, 0.5], abs=0.2)


DAMAGE = {
    "no schema": lambda fit: fit.pop("schema"),
    "another kind": lambda fit: fit["parts"]["bins"].update(kind="Path"),
    "an array of objects": lambda fit: first_array(fit).update(dtype="|O"),
    "an array too short": lambda fit: first_array(fit).update(data="AAAA"),
    "a class too many": lambda fit: fit["parts"]["pairs"]["pairs"][0].__setitem__(0, 7),
    "noise": lambda fit: fit["noise_stds"].append(1.0),
    "negative noise": lambda fit: fit["noise_stds"].__setitem__(0, -1.0),
    "no tables": lambda fit: fit["parts"]["pairs"]["pairs"].clear(),
    "no bins": lambda fit: fit["parts"]["bins"]["parts"]["columns"].clear(),
    "a report of nothing": lambda fit: fit.update(report={}),
    "columns of none": lambda fit: fit["table"].update(columns=[9, 9]),
    "a column twice": lambda fit: fit["table"].update(columns=[0, 1, 2, 2]),
    "a dtype of other values": lambda fit: first_column(fit).update(
        dtype={"numpy": "<M8[ns]"}
    ),
    "a zone in a file": lambda fit: first_column(fit).update(
        kind="datetime",
        can_be_missing=True,
        dtype={"pandas": "datetime64[ns, dateutil//etc/localtime]"},
    ),
    "decimals of a text": lambda fit: fit["table"]["axes"][0].update(decimals="2"),
    "a flag that is none": lambda fit: fit["table"]["axes"][0].update(released=[]),
    "more missing than all": lambda fit: fit["table"]["missing"][0].__setitem__(0, 2.0),
    "rules of no columns": lambda fit: fit["schema"].update(
        rules=[{"rule": "Ordered", "columns": ["age", "nobody"]}]
    ),
}


def first_column(fit):
    return fit["table"]["layout"]["columns"][0]


def first_array(fit):
    return fit["parts"]["bins"]["parts"]["columns"][0]["parts"]["edges"]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused(damage, known, tmp_path):
    path = tmp_path / "spoilt.json"
    known.save(path)
    document = json.loads(path.read_text())
    DAMAGE[damage](document["fit"])
    path.write_text(json.dumps(document))
    with pytest.raises(PersistenceError, match=r"spoilt\.json"):
        Measurements.load(path)


@pytest.mark.parametrize(
    ("first", "second"),
    [("int8", "int64"), ("int64", "Int64"), ("UTC", "Asia/Tokyo"), ("UTC", None)],
)
def test_columns_of_other_dtypes_are_not_combined(first, second):
    """Values would be cut off, or missing ones lost, at one site; also by a design."""
    rng = np.random.default_rng(0)
    times = "int" not in first.lower()
    tables = []
    for dtype in (first, second):
        values = pd.Series(rng.integers(0, 100, 500))
        if times:
            values = pd.Timestamp("2024-01-01") + pd.to_timedelta(values, "D")
            values = values if dtype is None else values.dt.tz_localize(dtype)
        else:
            values = values.astype(dtype)
        tables.append(pd.DataFrame({"x": values, "y": rng.choice(["a", "b"], 500)}))
    x = Continuous(0, 100, integer=True, nullable=True)
    if times:
        x = Datetime("2024-01-01", "2024-12-31", unit="D")
    schema = TableSchema({"x": x, "y": Categorical(["a", "b"])})
    fits = [MarginalSynthesizer(20.0, schema=schema).fit(own) for own in tables]
    with pytest.raises(ValueError, match="have the same dtypes"):
        combine_measurements(own.measurements_ for own in fits)
    design = fits[0].measurements_
    with pytest.raises(InvalidSchemaError, match="has the dtype"):
        MarginalSynthesizer(schema=design.schema, design=design).fit(tables[1])


def test_the_report_of_all_sites_has_what_any_of_them_declared():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.random(900), "y": rng.choice(["a", "b"], 900)})
    first = TableSchema({"x": Continuous(0, 1), "y": Categorical(["a", "b"])})
    sites = [MarginalSynthesizer(9.0, schema=first).fit(table[:400]).measurements_]
    design = sites[0]
    other = MarginalSynthesizer(9.0, schema=design.schema, design=design)
    sites.append(other.fit(table[400:]).measurements_)
    both = MarginalSynthesizer.from_measurements(combine_measurements(sites))
    declared = set(both.privacy_report().declared)
    for own in sites:
        assert set(own.origin.report.declared) <= declared


def test_a_card_of_a_design_is_that_of_its_file(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.random(900), "y": rng.choice(["a", "b"], 900)})
    design = MarginalSynthesizer(9.0, target="y").fit(table[:400]).measurements_
    synth = MarginalSynthesizer(9.0, target="y", schema=design.schema, design=design)
    synth.fit(table[400:]).save(tmp_path / "a")
    assert str(MarginalSynthesizer.load(tmp_path / "a").model_card()) == str(
        synth.model_card()
    )
