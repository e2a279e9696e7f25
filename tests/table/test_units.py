"""Units of privacy of several rows: which rows take part, and what a unit may move."""

import math
from collections import Counter
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import chi2
from tables import SOURCES

from skdpsynth import (
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    PrivacyBudget,
)
from skdpsynth.exceptions import (
    BudgetExceededError,
    InvalidSchemaError,
    ReservationError,
)
from skdpsynth.privacy import LocalParts, Parts, PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, Derived, Identifier, TableSchema
from skdpsynth.table import limit_rows, open_table

MOST = 3
COLUMNS = {"a": Continuous(-5, 5), "b": Continuous(0, 9, integer=True)}
FULL = COLUMNS | {"c": Categorical(["s", "t"]), "y": Categorical(["u", "v"])}


def schema_of(most=MOST, columns=COLUMNS, **others):
    return TableSchema(columns, privacy_unit="who", max_rows_per_unit=most, **others)


def table_of(counts, seed=0, first=0):
    """Rows of so many units, each with its number of rows, in random order."""
    rng = np.random.default_rng(seed)
    n_rows = sum(counts)
    who = np.repeat([f"p{first + i}" for i in range(len(counts))], counts)
    frame = pd.DataFrame(
        {
            "who": who,
            "a": rng.normal(size=n_rows).clip(-5, 5),
            "b": rng.integers(0, 10, n_rows),
            "c": rng.choice(["s", "t"], n_rows),
            "y": rng.choice(["u", "v"], n_rows),
        }
    )
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


def taking_part(source, schema, seed=7):
    """Rows that take part, as a frame in memory, of any source."""
    with insecure_randomness(seed):
        table, _ = open_table(source, schema=schema)
        kept = limit_rows(table, schema).rows
    if isinstance(kept, pd.DataFrame):
        return kept
    return pd.concat([part.assign() for part in kept.each()], ignore_index=True)


def rows_of(frame):
    """The rows of a frame, in no order."""
    return Counter(map(tuple, frame.astype(object).itertuples(index=False)))


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=30),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
)
def test_a_unit_has_so_many_rows_at_most_and_not_fewer(counts, most, seed):
    table = table_of(counts, seed)
    kept = taking_part(table, schema_of(most), seed)
    expected = table["who"].value_counts().clip(upper=most)
    assert kept["who"].value_counts().to_dict() == expected.to_dict()
    assert rows_of(kept) <= rows_of(table)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.integers(1, 8), st.data())
def test_a_unit_that_comes_changes_no_other_wherever_it_is(seed, n_rows, data):
    """The rows of both tables are in another order, too."""
    table = table_of([4, 1, 6, 3, 5], seed)
    more = pd.concat([table, table_of([n_rows], seed + 1, first=99)])
    order = data.draw(st.permutations(range(len(more))))
    kept = taking_part(table, schema_of())
    others = taking_part(more.iloc[order].reset_index(drop=True), schema_of())
    assert (others["who"] == "p99").sum() == min(n_rows, MOST)
    assert rows_of(others[others["who"] != "p99"]) == rows_of(kept)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("most", [1, 3])
def test_every_row_of_a_unit_is_as_likely_as_the_others(most, equal):
    """Share of the fifth of ten rows, of 20,000 units; the others may be equal rows.

    Beyond 5.5 deviations: 4e-8 each, 1.6e-7 in all.
    """
    n_units = 20_000
    other = np.tile(np.arange(10) == 4, n_units)
    frame = pd.DataFrame({"who": np.repeat(np.arange(n_units), 10), "other": other})
    frame["a"] = 0.5 if equal else np.arange(len(frame))
    share = limit_rows(frame, schema_of(most)).rows["other"].mean()
    # Of `most` rows without replacement from ten.
    variance = 0.1 * 0.9 * (10 - most) / 9 / (most * n_units)
    assert abs(share - 0.1) < 5.5 * math.sqrt(variance)


@pytest.mark.parametrize("block", [16, 2**21])
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_has_the_same_limit(source, tmp_path, monkeypatch, block):
    """A unit's rows are in several parts; numbers, texts, missing ones.

    Sizes of units are counted too: one row is 0; so many as take part, and more, are 2.
    Of some columns the same rows take part.
    """
    monkeypatch.setattr("skdpsynth.privacy._parts._BLOCK_ENTRIES", block)
    table = table_of([1, 1, 2, 3, 4, 4, 9])
    table["who"] = table["who"].mask(table["who"] == "p0")
    table["c"] = table["c"].mask(table.index % 7 == 0)
    schema = schema_of(columns=FULL | {"c": Categorical(["s", "t"], nullable=True)})
    opened, _ = open_table(SOURCES[source](table, tmp_path), schema=schema)
    limited = limit_rows(opened, schema)
    parts = Parts.of(limited.rows)
    kept, narrow = (pd.concat([*p.each()]) for p in (parts, parts.only(["b"])))
    expected = table["who"].value_counts().clip(upper=MOST).to_dict()
    assert kept["who"].value_counts(dropna=False).to_dict() == expected
    assert narrow["b"].tolist() == kept["b"].tolist()
    sizes = np.concatenate([*limited.sizes.each()])
    assert sorted(sizes.tolist()) == [0, 1, 2, MOST, MOST, MOST]
    assert limit_rows(table, schema_of(1)).sizes is None  # nothing to be measured


ALIKE = ["x\0a", "x\0b", "x", "é", "e\u0301", ""]
ODD = {
    "datetime64[us]": [pd.Timestamp(7, unit="us"), pd.Timestamp(8, unit="us")],
    "boolean": [True, False],
    "UInt64": [2**64 - 1, 2**63, 2**63 + 1],
    "object": [1, True, 1.0, "1", "x\0a", "x\0b", b"x", 2.5, "\ud800"],
    **dict.fromkeys(("string", "category", "arrow"), ALIKE),
    "Int64": [2**53, 2**53 + 1, -(2**63), 0],
    "float64": [2.0**53, 2.5, -0.0, np.inf, 2.0**63, 1e300],
}
# Categories that are given: pandas 2 finds one in "x\0a" and "x\0b".
DTYPES = {"arrow": pd.ArrowDtype(pa.string()), "category": pd.CategoricalDtype(ALIKE)}


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([*ODD]), st.data(), st.integers(0, 2**32 - 1))
def test_equal_looking_cells_of_another_unit_change_no_choice(kind, data, seed):
    """Not even those that are equal to a cell of this one, and come first."""
    cells = st.lists(st.sampled_from(ODD[kind]), min_size=1, max_size=6)
    own, others = data.draw(cells), data.draw(cells)

    def kept(of_unit, of_others):
        values = [*of_others, *of_unit]
        frame = pd.DataFrame(
            {
                "who": ["other"] * len(of_others) + ["own"] * len(of_unit),
                "c": pd.Series(values, dtype=DTYPES.get(kind, kind)),
                "a": [0.0] * len(of_others) + [*np.arange(len(of_unit)) / 8],
            }
        )
        with insecure_randomness(seed):
            found = limit_rows(frame, schema_of(1)).rows
        return found.loc[found["who"] == "own", "a"].tolist()

    assert kept(own, others) == kept(own, others[::-1]) == kept(own, [])


@pytest.mark.parametrize("kind", ODD)
def test_units_are_distinct_where_their_texts_are(kind):
    """1, 1.0 and "1" are one: files write one number in several ways."""
    gap = [] if kind == "float64" else [None]  # of no unit
    values = [*ODD[kind] * 3, *gap]
    frame = pd.DataFrame({"who": pd.Series(values, dtype=DTYPES.get(kind, kind))})
    n_same = 2 if kind == "object" else 0
    assert len(limit_rows(frame, schema_of(2)).rows) == 2 * (len(ODD[kind]) - n_same)


@pytest.mark.parametrize(
    "dtype", ["float64", "Int64", "UInt64", "Float64", "int64[pyarrow]"]
)
@pytest.mark.parametrize("missing", [False, True])
def test_a_number_is_the_same_unit_in_every_part(dtype, missing):
    """A missing cell may make floats of the whole numbers of a part."""
    first = pd.DataFrame({"who": pd.Series([7, 9, 7])})
    more = [7, 9, 3, None] if missing else [7, 9, 3]
    second = pd.DataFrame({"who": pd.Series(more, dtype=dtype)})
    kept = limit_rows(LocalParts(lambda: iter([first, second])), schema_of(1)).rows
    assert sum(len(part) for part in kept.each()) == 3


# --- What it costs ----------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 5, 40])
def test_a_row_has_a_part_of_the_mu_of_its_unit(most):
    """k rows move a sum by k times the sensitivity: the noise is k times as large."""
    of_row = PrivacyAccountant(1.0, 1e-5)
    of_unit = PrivacyAccountant(1.0, 1e-5, rows_per_unit=most, unit="who")
    assert of_unit.mu_cap * most == pytest.approx(of_row.mu_cap)
    assert of_unit.epsilon == of_row.epsilon
    for accountant in (of_row, of_unit):
        mu = accountant.mu_cap / 2
        accountant.reserve_gaussian("sums", mu=mu, sensitivity=1000)
    first, second = (own.report().entries[0] for own in (of_row, of_unit))
    # Rounding to whole numbers takes a part of the variance, 1/4, at any scale.
    assert second.noise_std == pytest.approx(most * first.noise_std, rel=1e-3)
    assert second.sensitivity == most * first.sensitivity
    assert second.mu_total == pytest.approx(first.mu_total)
    assert second.share == pytest.approx(first.share)
    one, several = (own.report() for own in (of_row, of_unit))
    assert one.mu == several.mu
    assert one.get_epsilon(1e-6) == several.get_epsilon(1e-6)
    assert one.epsilon_replace_one == several.epsilon_replace_one


def test_votes_and_samples_are_refused_for_several_rows():
    accountant = PrivacyAccountant(1.0, 1e-5, rows_per_unit=2, unit="who")
    with pytest.raises(ReservationError, match="max_rows_per_unit=1"):
        accountant.reserve_votes("votes", mu=0.01, n_teachers=3)
    with pytest.raises(ReservationError, match="max_rows_per_unit=1"):
        accountant.reserve_sampled_gaussian("steps", mu=0.01, sampling_rate=0.5)
    assert accountant.remaining_mu() == accountant.mu_cap


# --- What users meet --------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "target", "words"),
    [
        (TableSchema({}, privacy_unit="whose", max_rows_per_unit=2), None, "'whose'"),
        (schema_of(per_unit=["sex"]), None, "'sex'"),
        (TableSchema({"who": Identifier()}), "who", "'who' is described as Identif"),
    ],
)
def test_units_that_a_table_has_not_are_refused(untouched, schema, target, words):
    synth = MarginalSynthesizer(schema=schema, target=target, budget=untouched)
    with pytest.raises(InvalidSchemaError, match=words):
        synth.fit(table_of([1, 2, 3]))


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize(("epsilon", "most"), [(math.inf, 2), (20.0, 1)])
def test_steps_train_without_noise_or_on_one_row_of_each_unit(epsilon, most):
    schema = schema_of(most, target="y")
    synth = GPATESynthesizer(epsilon, schema=schema, n_iter=2, n_teachers=5)
    assert synth.fit(table_of([1, 2, 3] * 60)).n_iter_ == 2
    assert "one who" in synth.privacy_report().unit


def test_the_curator_sees_how_many_rows_take_no_part():
    table = table_of([1, 2, 3, 9, 9])
    table["who"] = table["who"].mask(table["who"] == "p1")
    table["c"] = "t"
    table.loc[table["who"] == "p3", "c"] = ["s", "t", "t", *"ssssss"]
    found = schema_of(columns=FULL, per_unit=["c"]).check(table)
    rows = found.set_index("finding")["rows"]
    assert rows.filter(like="first row of its who").tolist() == [2]
    assert rows.filter(like="max_rows_per_unit = 3").tolist() == [12]
    assert rows.filter(like="no unit").tolist() == [2]
    found = schema_of(columns=FULL).check(table.assign(who=[math.inf, *range(23)]))
    assert found["finding"].str.contains("fit refuses").any()
    without = TableSchema({**FULL, "who": Identifier()}).check(table)
    assert without["finding"].str.contains("privacy_unit").any()


@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
@pytest.mark.parametrize("source", ["numpy", "csv", "dask"])
def test_a_table_without_any_unit_is_fitted_to_nothing(source, tmp_path):
    """That no row has a unit is not told by an error, whatever the source."""
    table = table_of([1, 2, 3] * 20).assign(who=pd.Series([None] * 120, dtype="string"))
    schema = schema_of(columns=FULL, target="y")
    synth = MarginalSynthesizer(schema=schema, random_state=0)
    assert len(synth.fit(SOURCES[source](table, tmp_path)).sample(10)) == 10


@pytest.mark.usefixtures("short_fits")
def test_what_is_said_is_said_of_units():
    table = table_of([1, 2, 3, 9] * 40)
    budget = PrivacyBudget(9.0, 1e-4)
    schema = schema_of(target="y")
    synth = MarginalSynthesizer(8.0, schema=schema, random_state=0, budget=budget)
    report = synth.fit(table).privacy_report()
    assert budget.charges["label"].tolist() == ["fit, per who"]
    assert report.epsilon <= 8.0
    assert report.relation == "add or remove all rows of one who"
    assert "at most 3 are used" in report.unit
    assert "all rows of one who" in report.statement
    assert not any("several rows" in line for line in report.not_covered)
    assert type(report).from_dict(report.to_dict()) == report
    drawn = synth.sample(50)
    assert not set(drawn["who"]) & set(table["who"])  # fresh identifiers
    assert synth.schema_.n_rows is None
    # Counts are those of rows that take part, with noise.
    n_kept = table["who"].value_counts().clip(upper=MOST).sum()
    n_found = synth._model.metadata.classes.counts.sum()
    noise = report.entries[0].noise_std * math.sqrt(2)
    assert abs(n_found - n_kept) < 6 * noise < len(table) - n_kept


# --- Rows of synthetic units ------------------------------------------------------


COUNTS = [1] * 500 + [2] * 250 + [3] * 150 + [7] * 100


@cache
def fitted(epsilon=math.inf):
    """A fit to units of whom half have one row, with a constant text and number."""
    table = table_of(COUNTS, seed=3)
    of_unit = table["who"].str.removeprefix("p").astype(int)
    sex = np.where(of_unit % 3 == 0, "f", "m")
    table = table.assign(sex=sex, born=1950 + of_unit % 40)
    table["b"] = (of_unit % 3 == 0) * 5 + table["b"] // 2  # which depends on it
    known = FULL | {"sex": Categorical(["f", "m"]), "born": Continuous(1950, 1990)}
    schema = schema_of(MOST, known, target="y", per_unit=["sex", "born"])
    return MarginalSynthesizer(epsilon, schema=schema, random_state=0).fit(table), table


def test_units_of_rows_are_as_large_as_those_that_were_measured():
    """Without noise; Pearson's test, 1e-6 by chance."""
    synth, _ = fitted()
    drawn = synth.sample(30_000, unit=True)
    sizes = drawn["who"].value_counts()
    assert sizes.max() == MOST
    expected = np.array([0.5, 0.25, 0.25]) * len(sizes)
    found = np.bincount(sizes, minlength=MOST + 1)[1:]
    statistic = ((found - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-6, MOST - 1)
    note = " ".join(synth.privacy_report().notes)
    assert "About 10 %" in note
    assert "of who have more than 3 rows" in note


def test_what_is_constant_in_a_unit_is_so_and_depends_on_the_rest_as_before():
    synth, table = fitted()
    drawn = synth.sample(30_000, unit=True)
    alone = synth.sample(30_000)
    first = drawn.groupby("who")[["sex", "born"]].transform("first")
    assert drawn[["sex", "born"]].equals(first)
    assert drawn["who"].astype(int).is_monotonic_increasing  # unit by unit
    assert drawn.dtypes.equals(table.dtypes)
    for rows in (alone, drawn):
        assert rows.groupby("sex")["b"].mean().round().to_dict() == {"f": 7, "m": 2}
    # Rows are moved among units, and all but a few values stay.
    assert abs((drawn["sex"] == "f").mean() - (alone["sex"] == "f").mean()) < 0.02
    assert drawn.groupby("who")["a"].nunique().max() > 1  # not constant


def test_what_is_computed_of_units_and_rows_is_so_in_every_row():
    """Ages at the dates of rows, whose dates of birth are of units."""
    table, rng = table_of(COUNTS, seed=3), np.random.default_rng(0)
    of_unit = table["who"].str.removeprefix("p").astype(int)
    born = pd.Timestamp("1950-01-01") + pd.to_timedelta(of_unit * 9, "D")
    day = born + pd.to_timedelta(rng.integers(9000, 18_000, len(table)), "D")
    table = table.assign(born=born, day=day, age=pd.array([0] * len(table), "Int64"))
    rules = [Derived("age", "day - born", unit="D")]
    schema = schema_of(MOST, {}, per_unit=["born"], rules=rules)
    drawn = IndependentSynthesizer(8.0, schema=schema).fit(table).sample(900, unit=True)
    assert drawn["born"].equals(drawn.groupby("who")["born"].transform("first"))
    assert (drawn["age"] == (drawn["day"] - drawn["born"]).dt.days).all()


@pytest.mark.parametrize("dtype", ["object", "int8", "bool", "category"])
def test_units_have_names_of_their_own_of_every_type(dtype):
    """Also where a dtype has few: one of two names would be that of all rows."""
    table = table_of(COUNTS, seed=3)
    number = table["who"].str.removeprefix("p").astype(int) % 100
    if dtype == "object":
        number = number.astype(str)
    table["who"] = (number % 2 == 0 if dtype == "bool" else number).astype(dtype)
    schema = schema_of(columns=FULL)
    synth = IndependentSynthesizer(8.0, schema=schema, random_state=0).fit(table)
    drawn = synth.sample(1000, unit=True)
    assert drawn["who"].value_counts().max() <= MOST
    assert (drawn["who"].dtype == table["who"].dtype) or dtype != "object"


def test_units_are_drawn_after_a_trip_through_a_file_and_with_conditions(tmp_path):
    synth, _ = fitted(8.0)
    synth.save(tmp_path / "model.skdp")
    again = MarginalSynthesizer.load(tmp_path / "model.skdp")
    options = {"n_samples": 50, "unit": True, "random_state": 2}
    assert again.sample(**options).equals(synth.sample(**options))
    women = synth.sample(60, unit=True, where={"sex": "f"})
    assert set(women["sex"]) == {"f"}
    assert women["who"].nunique() < 60
    one = IndependentSynthesizer(8.0, schema=schema_of(1)).fit(table_of(COUNTS))
    assert one.sample(20, unit=True)["who"].is_unique
    assert "rows per unit" not in [e.name for e in one.privacy_report().entries]
    rows = IndependentSynthesizer(8.0).fit(table_of(COUNTS)[["a", "b"]])
    with pytest.raises(ValueError, match="privacy_unit"):
        rows.sample(5, unit=True)


def test_the_noise_of_the_numbers_of_units_is_that_of_one_unit():
    """A unit is one of them, whatever its rows: not k times the noise."""
    synth, _ = fitted(8.0)
    (entry,) = (e for e in synth.privacy_report().entries if e.name == "rows per unit")
    units = synth._model.metadata.units
    assert entry.sensitivity == MOST
    assert entry.share == pytest.approx(1.0)
    assert units.noise_std == pytest.approx(entry.noise_std / MOST)
    error = units.sizes - np.array([500, 250, 150, 100])
    assert 0 < np.abs(error).max() < 6 * units.noise_std


# --- Plans and budgets ------------------------------------------------------------


def test_a_plan_shows_several_limits_at_once():
    synth = MarginalSynthesizer(1.0, schema=schema_of(3, FULL, target="y"))
    plan = synth.plan({1: 4_000, 5: 11_000})
    for most, n_rows in {1: 4_000, 5: 11_000}.items():
        alone = MarginalSynthesizer(1.0, schema=schema_of(most, FULL, target="y"))
        pd.testing.assert_frame_equal(plan.loc[most], alone.plan(n_rows))
    for wrong in ({}, {0: 5}, {1: 0}, {"a": 5}):
        with pytest.raises((ValueError, InvalidSchemaError)):
            synth.plan(wrong)
    with pytest.raises(ValueError, match="privacy_unit"):
        MarginalSynthesizer(schema=TableSchema(FULL)).plan({1: 10})


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("first", [None, "who"])
def test_a_budget_protects_rows_or_units_and_not_both(first, tmp_path):
    table = table_of([1, 2, 3, 9] * 40)
    schemas = {
        None: TableSchema(FULL | {"who": Identifier()}),
        "who": schema_of(columns=FULL),
        "y": TableSchema(COLUMNS, privacy_unit="y", max_rows_per_unit=1),
    }
    path = tmp_path / "b.db"
    budget = PrivacyBudget(9.0, 1e-4, path)
    assert budget.unit is None
    synth = IndependentSynthesizer(1.0, schema=schemas[first], budget=budget)
    for _ in range(2):
        synth.fit(table)
    assert PrivacyBudget.open(path).unit == first
    for other in {None, "who", "y"} - {first}:
        with pytest.raises(BudgetExceededError, match="another budget"):
            synth.set_params(schema=schemas[other]).fit(table)
    assert len(budget.charges) == 2
