"""Which rows of linked tables take part, with which weights, and what they move."""

import math
import tracemalloc
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from skdpsynth import Link, LinkedSchema, TableSchema
from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.linked._columns import Column
from skdpsynth.linked._tree import Tree, places_in, weights_of
from skdpsynth.privacy import GRID, PrivacyAccountant
from skdpsynth.privacy.statistics import (
    WeightedTable,
    _weighted_of_part,
    noisy_weighted_tables,
    weighted_sensitivity,
)
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, Datetime
from skdpsynth.table import NumericDomain

PATIENTS = TableSchema({"age": Continuous(0, 99, integer=True)})
VISITS = TableSchema(
    {
        "day": Continuous(0, 999, integer=True),
        "kind": Categorical(["a", "b", "c"], ordered=True),
    }
)
DRUGS = TableSchema({"dose": Continuous(0, 9, integer=True)})


def clinic(**more) -> LinkedSchema:
    """Patients, their visits, in order, and drugs of visits."""
    visits = {"order_by": "day", "max_rows": 3, **more}
    links = [
        Link("drugs", parent="visits", key="visit", max_rows=2),
        Link("visits", parent="patients", key="patient", **visits),
    ]
    return LinkedSchema({"drugs": DRUGS, "visits": VISITS, "patients": PATIENTS}, links)


def tables(n=60, seed=0) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    patient = rng.permutation(n) + 10
    of_visits = np.repeat(patient, rng.poisson(2.5, n))
    visits = pd.DataFrame(
        {
            "visit": [f"v{number}" for number in rng.permutation(len(of_visits))],
            "patient": of_visits,
            "day": rng.integers(0, 20, len(of_visits)),
            "kind": rng.choice(["a", "b", "c"], len(of_visits)),
        }
    )
    of_drugs = np.repeat(visits["visit"].to_numpy(), rng.poisson(1, len(visits)))
    drugs = pd.DataFrame({"visit": of_drugs, "dose": rng.integers(0, 9, len(of_drugs))})
    patients = pd.DataFrame({"patient": patient, "age": rng.integers(0, 99, n)})
    return {"patients": patients, "visits": visits, "drugs": drugs}


def tree_of(given, **more) -> Tree:
    """Hang tables with the same secret every time."""
    with insecure_randomness(0):
        return Tree(given, clinic(**more))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_rows_and_steps_of_a_unit_weigh_one_together(seed, depth):
    """In every table of a random tree; equal, up to rounding, if all have children."""
    rng = np.random.default_rng(seed)
    weights, unit = np.full(5, GRID), np.arange(5)
    for _ in range(depth):
        n = rng.integers(0, 9, len(weights))
        parent = np.repeat(np.arange(len(weights)), n)
        own, steps = weights_of(weights, parent)
        assert (own.dtype, steps.dtype) == (np.int64, np.int64)
        assert (steps[places_in(parent) == 0] == 0).all()
        below = np.bincount(unit[parent], own, 5)
        above = np.bincount(unit, weights, 5)
        assert (below <= above).all()
        assert (np.bincount(unit[parent], steps, 5) <= above).all()
        if n.min() > 0:
            assert (below > above - len(parent)).all()
        weights, unit = own, unit[parent]


def test_no_unit_moves_tables_by_more_than_their_sensitivity():
    """Brute force: all cells of up to 3 rows of weights that add up to 1."""
    sets = [WeightedTable(0, (0,)), WeightedTable(0, (0, 1), round(1.5 * GRID))]
    sets.append(WeightedTable(1, (1,), round(0.7 * GRID)))
    largest = 0.0
    for n in 1, 2, 3:
        weights = np.full((n, 2), GRID // n)
        for codes in product(range(-1, 2), repeat=2 * n):
            rows = np.column_stack((weights, np.reshape(codes, (n, 2))))
            moved = _weighted_of_part(rows, [2, 2], sets)
            assert (moved >= 0).all()
            largest = max(largest, math.sqrt((moved.astype(object) ** 2).sum()))
    assert largest <= weighted_sensitivity(sets) < largest + 1
    exact = math.sqrt(1 + 1.5**2 + 0.7**2) * GRID
    assert weighted_sensitivity(sets) == pytest.approx(exact, rel=1e-6)


def test_noisy_tables_are_the_weighted_ones_on_average():
    """The mean of 200 releases; n = 200, normal, 5.5 deviations: 4e-8 for 3 cells."""
    rows = np.array([[GRID, 0], [GRID // 2, 2], [GRID // 2, -1]])
    accountant = PrivacyAccountant(50.0, 1e-5)
    mu = accountant.mu_cap / math.sqrt(201)
    line = accountant.reserve_gaussian("t", mu=mu, sensitivity=GRID, count=200)
    sets = [WeightedTable(0, (0,))]
    drawn = [noisy_weighted_tables(rows, [3], sets, line) for _ in range(200)]
    apart = np.mean(drawn, axis=0) - np.array([1, 0, 0.5]) * GRID
    assert (np.abs(apart) < 5.5 * line.noise_std / math.sqrt(200)).all()


def test_rows_that_hang_on_nothing_change_nothing():
    given = tables()
    tree = tree_of(given)
    orphan = given["visits"].assign(patient=5, visit="w")
    lost = given["drugs"].copy()
    lost["visit"] = pd.Series([None], dtype=lost["visit"].dtype).repeat(len(lost)).array
    more = {
        "patients": given["patients"],
        "visits": pd.concat([orphan, given["visits"]], ignore_index=True),
        "drugs": pd.concat([lost, given["drugs"], lost], ignore_index=True),
    }
    other = tree_of(more)
    for name in given:
        pd.testing.assert_frame_equal(tree.frames[name], other.frames[name])
    for name in tree.parents:
        assert tree.parents[name].tolist() == other.parents[name].tolist()


def test_a_key_that_comes_twice_is_one_unit():
    given, schema = tables(), clinic()
    twice = pd.concat([given["patients"], given["patients"].assign(age=1)])
    tree = Tree({**given, "patients": twice}, schema)
    assert len(tree.frames["patients"]) == len(given["patients"])
    assert len(tree.frames["visits"]) == len(Tree(given, schema).frames["visits"])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("order_by", ["day", "kind", None])
def test_the_first_rows_in_order_are_used(order_by, descending):
    given = tables()
    schema = clinic(order_by=order_by, descending=descending)
    tree = Tree(given, schema)
    visits, parent = tree.frames["visits"], tree.parents["visits"]
    assert (np.diff(parent) >= 0).all()
    own = tree.frames["patients"]["patient"].to_numpy()[parent]
    assert (visits["patient"] == own).all()
    sizes = given["visits"].groupby("patient").size().clip(upper=3)
    assert visits.groupby("patient").size().to_dict() == sizes.to_dict()
    if order_by:
        ordered = given["visits"].sort_values(order_by, ascending=not descending)
        first = ordered.groupby("patient").head(3)
        for patient, some in first.groupby("patient"):
            found = visits[visits["patient"] == patient][order_by]
            assert found.tolist() == some[order_by].tolist()


@pytest.mark.parametrize("alike", [False, True])
def test_rows_do_not_depend_on_the_order_of_files_or_on_other_units(alike):
    """Nor where all are alike but for the keys that others hang on."""
    given = tables()
    if alike:
        given["visits"] = given["visits"].assign(day=1, kind="a")
    turned = {name: own.sample(frac=1, random_state=3) for name, own in given.items()}
    fewer = {**turned, "patients": turned["patients"].iloc[:40]}
    chosen = []
    for some in given, turned, fewer:
        frame = tree_of(some, order_by=None).frames["visits"]
        chosen.append({p: [*own] for p, own in frame.groupby("patient")["visit"]})
    assert chosen[0] == chosen[1]
    assert chosen[2].items() <= chosen[0].items()


def test_children_are_counted_and_summed_up():
    schema = clinic(summaries=["day", "kind"])
    tree = Tree(tables(), schema)
    visits = tree.frames["visits"].groupby(tree.parents["visits"])
    n, days, kinds = (own.numbers for own in tree.hidden["patients"])
    assert n.sum() == len(tree.frames["visits"])
    assert (n > 0).sum() == len(visits)
    means = visits["day"].mean().round()
    assert days[means.index].tolist() == means.tolist()
    assert np.isnan(days[n == 0]).all()
    for parent, own in visits["kind"]:
        most = own.value_counts()
        assert most["abc"[int(kinds[parent])]] == most.max()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"patients": None}, "Expected a dict with the tables"),
        ({"visits": tables()["visits"].assign(lab=1.5)}, r"'lab': Continuous\("),
        ({"visits": tables()["visits"].drop(columns="patient")}, "the table lacks"),
        ({"visits": tables()["visits"].astype({"patient": str})}, "of one kind"),
    ],
)
def test_public_facts_are_checked_before_anything_is_read(change, words):
    given = {k: v for k, v in {**tables(), **change}.items() if v is not None}
    with pytest.raises((InvalidSchemaError, InvalidTableError), match=words):
        Tree(given, clinic())


def link(child="visits", parent="patients", **more) -> Link:
    return Link(child, parent, **{"key": "patient", **more})


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ([link(), link(parent="drugs")], "one parent of each"),
        ([link()], "one table that hangs on no other"),
        ([link("patients"), link("drugs", "visits", key="v")], "no circle"),
        ([link(), link("drugs", key="p")], "the same column"),
        ([link(), link("drugs", "visits")], "other than its own key"),
        ([link("other")], "names the table 'other'"),
        ([link(key="day"), link("drugs", key="day")], "never modelled"),
        ([link(order_by="x"), link("drugs")], "ordered by 'x'"),
        ([link(summaries=["x"]), link("drugs")], "summaries"),
    ],
)
def test_schemas_that_are_no_tree_are_refused(links, words):
    with pytest.raises(InvalidSchemaError, match=words):
        LinkedSchema({"patients": PATIENTS, "visits": VISITS, "drugs": DRUGS}, links)


@pytest.mark.parametrize(
    "wrong", [{"max_rows": 0}, {"descending": 1}, {"key": None}, {"summaries": "day"}]
)
def test_wrong_links_are_refused(wrong):
    with pytest.raises(InvalidSchemaError, match="of a Link must be"):
        link(**wrong)


def test_units_of_other_kinds_are_refused():
    unit = TableSchema({}, privacy_unit="patient", max_rows_per_unit=2)
    with pytest.raises(InvalidSchemaError, match="names the privacy_unit"):
        LinkedSchema({"patients": PATIENTS, "visits": unit}, [link()])


def test_schemas_go_through_json(tmp_path):
    times = TableSchema({"date": Datetime("2020-01-01", "2024-12-31", unit="D")})
    schema = clinic(summaries=["day"])
    schema = LinkedSchema(
        {**schema.tables, "stays": times},
        [*schema.links, link("stays", order_by="date", descending=True)],
    )
    path = tmp_path / "clinic.json"
    assert LinkedSchema.from_json(schema.to_json(path)) == schema
    assert LinkedSchema.from_json(path) == schema
    with pytest.raises(InvalidSchemaError):
        LinkedSchema.from_json('{"linked_version": 1, "tables": {}}')


def test_rows_of_a_key_are_cut_before_they_are_joined():
    """2,000 visits of one number and 8,000 drugs would be 16 million pairs."""
    given = tables(2_000)
    given["visits"] = given["visits"].iloc[:2_000].assign(visit="v")
    doses = np.arange(8_000) % 10
    given["drugs"] = pd.DataFrame({"visit": "v", "dose": doses})
    tracemalloc.start()
    tree = tree_of(given)
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert (np.bincount(tree.parents["drugs"]) == 2).all()


def test_what_hangs_on_several_units_stays_if_one_of_them_goes():
    """So that sums differ by the rows of that unit alone; see the guarantee."""
    given = tables()
    given["visits"]["visit"] = given["visits"]["day"].map("v{}".format)
    gone = given["patients"]["patient"].iloc[0]
    less = {**given}
    for name in ("patients", "visits"):
        less[name] = given[name][given[name]["patient"] != gone]
    sums = []
    for some in (given, less):
        tree = tree_of(some)
        visits, of_visits = tree.frames["visits"], tree.parents["visits"]
        weights, _ = weights_of(np.full(len(tree.frames["patients"]), GRID), of_visits)
        doses, _ = weights_of(weights, tree.parents["drugs"])
        patient = visits["patient"].to_numpy()[tree.parents["drugs"]]
        frame = pd.DataFrame({"patient": patient, "weight": doses})
        sums.append(frame.groupby("patient")["weight"].sum())
    pd.testing.assert_series_equal(sums[0].drop(gone, errors="ignore"), sums[1])


def test_one_row_of_a_key_is_used_whatever_the_order_of_the_file():
    given = tables()
    twice = given["patients"].assign(age=(given["patients"]["age"] + 1) % 99)
    rows = pd.concat([given["patients"], twice])
    ages = [
        tree_of({**given, "patients": rows.sample(frac=1, random_state=seed)})
        .frames["patients"]
        .set_index("patient")["age"]
        .sort_index()
        for seed in (0, 1)
    ]
    pd.testing.assert_series_equal(*ages)


def test_one_key_in_all_rows_of_the_root_is_refused_by_its_name():
    patients = tables()["patients"].assign(patient=7)
    with pytest.raises(InvalidTableError, match="same key 'patient' in all rows of"):
        tree_of({**tables(), "patients": patients})


def test_root_rows_without_a_key_are_units_of_their_own():
    given = tables()
    given["patients"]["patient"] = given["patients"]["patient"].astype("Int64")
    given["patients"].loc[:2, "patient"] = pd.NA
    assert tree_of(given).frames["patients"]["patient"].isna().sum() == 3


def test_keys_that_can_never_be_equal_and_names_in_use_are_refused():
    given = tables()
    for name, unit in (("patients", "s"), ("visits", "ms")):
        days = pd.to_datetime(given[name]["patient"], unit="D").astype(f"M8[{unit}]")
        given[name] = given[name].assign(patient=days)
    with pytest.raises(InvalidTableError, match="keys of one kind"):
        tree_of(given)
    given = tables()
    given["patients"]["linked:'visits'"] = 1
    with pytest.raises(InvalidTableError, match="rename them"):
        tree_of(given)


def test_a_far_cell_is_counted_without_a_word():
    column = Column("a", NumericDomain(0.0, 1e20, False, False, False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert column.cells(np.array([5e19, np.nan])).tolist() == [
            column.n_intervals // 2,
            -1,
        ]
