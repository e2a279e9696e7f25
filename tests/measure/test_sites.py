"""Measurements that travel: fitted again, added up over sites, and refused."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skdpsynth import GPATESynthesizer, MarginalSynthesizer, combine_measurements
from skdpsynth.audit import replay
from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.measure import Measurements
from skdpsynth.schema import Boolean, Categorical, Continuous, Datetime, TableSchema

pytestmark = pytest.mark.usefixtures("short_fits")


def table_of(n_rows, seed=0, shift=0.0):
    """Numbers with exact zeros, whole ones, categories, missing values, a label."""
    rng = np.random.default_rng(seed)
    age = (40 + 12 * shift + 12 * rng.normal(size=n_rows)).clip(18, 90).round()
    gain = np.where(rng.random(n_rows) < 0.6, 0.0, rng.exponential(800.0, n_rows))
    size = (age / 10 + rng.normal(0, 0.5, n_rows)).clip(0, 12)
    return pd.DataFrame(
        {
            "age": age.astype(int),
            "gain": gain.clip(0, 9000).round(2),
            "kind": rng.choice(["p", "q", "r", "s"], n_rows, p=[0.5, 0.3, 0.15, 0.05]),
            "size": np.where(rng.random(n_rows) < 0.1, np.nan, size),
            "sick": rng.random(n_rows) < 0.1 + 0.006 * (age - 18),
        }
    )


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
WHO = replace(SCHEMA, privacy_unit="who", max_rows_per_unit=2)
TABLE = table_of(6_000)


def fitted(table=TABLE, epsilon=3.0, schema=SCHEMA, **options):
    options = {"random_state": 0} | options
    return MarginalSynthesizer(epsilon, schema=schema, **options).fit(table)


def designed(table, epsilon, first, **options):
    """Measurements of the tables of another site."""
    options |= {"schema": first.schema, "design": first}
    return fitted(table, epsilon, **options).measurements_


@pytest.fixture(scope="module")
def known():
    return fitted().measurements_


WIDE = pd.DataFrame(np.random.default_rng(0).normal(size=(1_000, 60)).round(3))
CASES = {
    "two classes": (TABLE, SCHEMA),
    "nothing declared": (TABLE, None),
    "a number to predict": (TABLE.drop(columns="sick"), None),
    "persons": (TABLE.assign(who=np.arange(len(TABLE)) // 3), WHO),
    "many columns": (WIDE.add_prefix("c"), None),
}


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
    again.measurements_.save(tmp_path / "twice.json")
    assert (tmp_path / "twice.json").read_text() == (tmp_path / "site.json").read_text()


def by_table(measurements):
    """The first measurement of each class, columns and number of bins."""
    return {
        (own.class_label, own.columns, tuple(map(len, own.bins))): own
        for own in reversed(measurements.tables())
    }


def test_sites_add_up_to_the_measurements_of_all_rows(tmp_path):
    """Without noise, and through files: cell by cell as one fit of all rows counts."""
    tables = [table_of(4_000, 1), table_of(1_500, 2, 1.0), table_of(700, 3, -1.0)]
    first = fitted(tables[0], math.inf).measurements_
    others = [designed(own, math.inf, first) for own in tables[1:]]
    for number, site in enumerate([first, *others]):
        site.save(tmp_path / f"{number}.json")
    both = combine_measurements(map(Measurements.load, sorted(tmp_path.iterdir())))
    whole = designed(pd.concat(tables, ignore_index=True), math.inf, first)
    assert {0, 1, 2, 3} <= {own.order for own in whole.tables()}
    for own, other in zip(both.tables(), whole.tables(), strict=True):
        assert (own.class_label, own.bins) == (other.class_label, other.bins)
        np.testing.assert_allclose(own.values, other.values, atol=0.02)


def test_counts_and_the_variances_of_their_noise_are_sums():
    """In any order, whatever each site spends, and where a design is such a sum.

    The same holds for the numbers of persons with one row, two, and more.
    """
    tables = [
        table_of(n, n).assign(who=np.arange(n) // 2) for n in (4_000, 3_000, 2_000)
    ]
    first = fitted(tables[0], 9.0, schema=WHO).measurements_
    two = combine_measurements([first, designed(tables[1], 20.0, first)])
    third = designed(tables[2], 5.0, two)
    three = combine_measurements([two, third])
    units = [own.metadata.units for own in (two, third, three)]
    assert units[2].sizes.tolist() == (units[0].sizes + units[1].sizes).tolist()
    std = math.hypot(units[0].noise_std, units[1].noise_std)
    assert units[2].noise_std == pytest.approx(std, rel=1e-9)
    parts, both = by_table(two), by_table(three)
    again = by_table(combine_measurements([third, two]))
    assert {0, 1, 2, 3} <= {own.order for own in both.values()}
    for key, own in by_table(third).items():
        std = math.hypot(own.noise_std, parts[key].noise_std)
        assert both[key].noise_std == pytest.approx(std, rel=1e-9)
        assert again[key].noise_std == pytest.approx(std, rel=1e-9)
        np.testing.assert_allclose(again[key].values, both[key].values, atol=1e-2)
        if own.order != 1:  # these are completed by the number of rows
            total = own.values + parts[key].values  # noqa: PD011
            np.testing.assert_allclose(both[key].values, total, atol=1e-2)


@pytest.mark.usefixtures("frozen_noise")
def test_second_moments_are_means_over_all_rows():
    """With weights that are noisy shares of the rows, of which the first has 3/4."""
    rng = np.random.default_rng(0)
    mixing = np.eye(30) + 0.3 * rng.normal(size=(30, 30))
    table = pd.DataFrame((rng.normal(size=(2_000, 30)) @ mixing).clip(-9, 9))
    table = table.add_prefix("c")
    schema = TableSchema(dict.fromkeys(table, Continuous(-9, 9)))
    first = fitted(table[:1_500], 1.0, schema=schema).measurements_
    sites = [first, designed(table[1_500:], 1.0, first)]
    ours, theirs, both = (
        next(own for own in site.tables() if own.order == 30)
        for site in (*sites, combine_measurements(sites))
    )
    above = np.triu_indices(30, 1)
    x, y, z = (own.values[above] for own in (ours, theirs, both))  # noqa: PD011
    weight = float((z - y) @ (x - y) / ((x - y) @ (x - y)))
    assert weight == pytest.approx(0.75, abs=0.15)
    np.testing.assert_allclose(z, weight * x + (1 - weight) * y)
    std = math.hypot(weight * ours.noise_std, (1 - weight) * theirs.noise_std)
    assert both.noise_std == pytest.approx(std)


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
    other = designed(tables[1], 10.0, first)
    for sites, share in (([first], 1.0), ([first, other], 4 / 7)):
        both = MarginalSynthesizer.from_measurements(combine_measurements(sites))
        drawn = both.sample(5_000, random_state=0)
        assert (drawn["a"] == drawn["b"]).mean() == pytest.approx(share, abs=0.05)


def test_the_report_has_the_claims_of_all_sites():
    first = fitted(table_of(3_000, 1), 1.0).measurements_
    other = designed(table_of(2_000, 2), 2.0, first)
    reports = [own.report for own in (first, other)]
    report = combine_measurements([first, other]).report
    assert report.epsilon == max(own.epsilon for own in reports)
    assert report.delta == max(own.delta for own in reports)
    assert report.get_epsilon(1e-4) >= max(r.get_epsilon(1e-4) for r in reports)
    assert {*report.declared} >= {what for r in reports for what in r.declared}
    assert "2 sites" in report.notes[0]
    assert "at one site alone" in report.notes[0]
    assert len(report.entries) == sum(len(own.entries) for own in reports)
    assert {entry.name[:7] for entry in report.entries} == {"site 1:", "site 2:"}
    assert report.private
    exact = designed(table_of(500, 3), math.inf, first)
    assert not combine_measurements([first, exact]).report.private


def test_with_a_design_nothing_but_its_tables_is_released():
    """And planned: nothing is set aside for what a design makes known."""
    first = fitted(TABLE, schema=None, target="sick").measurements_
    synth = MarginalSynthesizer(3.0, schema=first.schema, design=first)
    counts = TABLE["sick"].value_counts().to_dict()
    plan = synth.plan(class_counts=counts).set_index("class")
    names = [e.name for e in synth.fit(TABLE).privacy_report().entries]
    known = ("class counts", "marginals", "tables of", "table of")
    assert all(any(part in name for part in known) for name in names), names
    theirs, mine = (
        {own.columns for own in site.tables() if own.order == 2}
        for site in (first, synth.measurements_)
    )
    assert mine == theirs
    assert plan["table_noise_std"].max() > 0
    measured = synth.measurements_
    labels = measured.metadata.classes.labels
    for label, std in zip(labels, measured.planned_stds, strict=True):
        assert plan.loc[label, "noise_std"] == pytest.approx(std, rel=0.01)
    fresh = MarginalSynthesizer(3.0, schema=first.schema).plan(class_counts=counts)
    assert fresh["noise_std"].min() > plan["noise_std"].min()


def test_a_row_moves_each_release_of_a_design_by_its_sensitivity():
    """Bins, pairs and groups are those of another table, whatever the rows."""
    first = fitted(table_of(4_000, 1), 6.0).measurements_
    synth = MarginalSynthesizer(6.0, schema=first.schema, design=first)
    found = replay(synth, table_of(300, 5), rows=["first"])
    assert not found.findings
    assert all(pair.shift > 0.5 for pair in found.pairs)


LETTERS = {name: Categorical([*"abc"]) for name in "xyz"}
NUMBER = LETTERS | {"number": Continuous(0, 1)}
OTHERS = {
    "nothing": (LETTERS, LETTERS, {"epsilon": 9.0}),  # the same bins, by chance
    "columns": (NUMBER, LETTERS, {}),
    "ranges": (NUMBER, NUMBER | {"number": Continuous(-1, 1)}, {}),
    "categories": (LETTERS, LETTERS | {"x": Categorical([*"abcd"])}, {}),
    "labels": (LETTERS, LETTERS | {"z": Categorical([*"cab"])}, {}),
    "bins": (NUMBER, NUMBER, {"epsilon": 0.5}),
    r"tables \(pairs\)": (LETTERS, LETTERS, {"order": 1}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_cannot_be_added_up_is_refused(what):
    *both, options = OTHERS[what]
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.choice([*"abc"], (2_000, 3)), columns=[*"xyz"])
    table["number"] = rng.random(2_000)
    sites = [
        fitted(table[[*own]], schema=TableSchema(own, target="z"), **more).measurements_
        for own, more in zip(both, ({}, options), strict=True)
    ]
    if what == "nothing":
        assert {own.order for own in combine_measurements(sites).tables()} >= {0, 1, 2}
        return
    with pytest.raises(ValueError, match=rf"other .*{what}.* site 2 .*design=first"):
        combine_measurements(sites)


def test_what_is_not_all_of_one_fit_is_refused(known):
    with pytest.raises(ValueError, match="Got none"):
        combine_measurements([])
    with pytest.raises(ValueError, match="not of a fit"):
        MarginalSynthesizer.from_measurements(known.and_more())
    persons = fitted(CASES["persons"][0], schema=WHO).measurements_
    with pytest.raises(ValueError, match="privacy_unit"):
        combine_measurements([known, persons])


@pytest.fixture(scope="module")
def unfit():
    """Measurements of rows without a label too, and of no row."""
    sick = TABLE["sick"].astype("boolean").mask(TABLE.index % 2 == 0)
    half = MarginalSynthesizer(3.0, target="sick", use_unlabelled=True)
    none = GPATESynthesizer(3.0, schema=SCHEMA, init="random", n_iter=1)
    fits = half.fit(TABLE.assign(sick=sick)), none.fit(TABLE)
    return [own.measurements_ for own in fits]


def test_a_design_needs_its_schema_its_columns_and_every_row(known, unfit, untouched):
    """Refused before anything is charged."""
    half, none = unfit
    for own, schema, table, words in (
        (half, half.schema, TABLE, "without a label"),
        (none, none.schema, TABLE, "Got none"),
        (known, SCHEMA, TABLE, r"design\.schema"),
        (known, known.schema, TABLE.astype({"age": float}), "other kinds"),
    ):
        synth = MarginalSynthesizer(schema=schema, design=own, budget=untouched)
        with pytest.raises((ValueError, InvalidSchemaError), match=words):
            synth.fit(table)
    with pytest.raises(ValueError, match="Got none"):
        MarginalSynthesizer.from_measurements(unfit[1])


def test_answers_in_another_order_are_added_to_their_own(known):
    """A file of the other site may list classes the other way round."""
    own = {"planned_stds": known.planned_stds, "edges": known.edges}
    turned = sorted(known, key=lambda answer: str(answer.scopes), reverse=True)
    turned = Measurements(known.metadata, turned, **own)
    turned._claim = known.claim
    one, other = (combine_measurements([known, own]) for own in (known, turned))
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame())


@pytest.mark.parametrize("dtypes", [("int8", "int64"), ("UTC", "Asia/Tokyo")])
def test_columns_of_other_dtypes_are_not_combined(dtypes):
    """Values would be cut off at one site, or times moved; also by a design."""
    x = Continuous(0, 100, integer=True, nullable=True)
    values = pd.Series(np.random.default_rng(0).integers(0, 100, 500))
    if dtypes[0] == "UTC":
        x, values = Datetime("1970-01-01", "1970-12-31"), values * 86_400 * 10**9
        dtypes = [f"datetime64[ns, {zone}]" for zone in dtypes]
    schema = TableSchema({"x": x, "y": Categorical(["a", "b"])})
    tables = [pd.DataFrame({"x": values.astype(own), "y": "a"}) for own in dtypes]
    first, other = (fitted(own, 20.0, schema=schema).measurements_ for own in tables)
    with pytest.raises(ValueError, match=r"other dtypes \('x'\)"):
        combine_measurements([first, other])
    with pytest.raises(InvalidSchemaError, match="has the dtype"):
        designed(tables[1], 20.0, first)
