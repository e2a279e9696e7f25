"""Columns that nearly determine another one are found, and measured in finer cells."""

import base64
import json
import math
import warnings
from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from skdpsynth import GPATESynthesizer, MarginalSynthesizer
from skdpsynth.audit import replay
from skdpsynth.exceptions import PersistenceError
from skdpsynth.measure import Measurements
from skdpsynth.measure._bins import ColumnBins, TableBins
from skdpsynth.measure._relations import PairTables, find_relations
from skdpsynth.privacy import GRID
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, Determines, TableSchema

# Relations are followed however short the fit of the mixture is.
pytestmark = pytest.mark.usefixtures("short_fits")
N_ROWS = 6000
CODES = [f"code {k}" for k in range(40)]
SCHEMA = TableSchema(
    {
        "code": Categorical(CODES),
        "price": Continuous(0, 400, integer=True),
        "size": Continuous(0, 1, scale="linear", decimals="any"),
        "weight": Continuous(0, 1, scale="linear", decimals="any"),
        "volume": Continuous(0, 2, scale="linear", decimals="any"),
        "other": Categorical([*"abc"]),
        "y": Categorical(["u", "v"]),
    },
    target="y",
    class_counts={"u": N_ROWS // 2, "v": N_ROWS // 2},
)


@cache
def make_table():
    """A price for each code, and a weight that is the size but for a hundredth.

    The volume is the size times 1, 1.15 or 1.3, which another column says.
    """
    rng, n_rows = np.random.default_rng(0), N_ROWS
    share = 1.0 / (np.arange(40) + 5.0)
    code = rng.choice(40, n_rows, p=share / share.sum())
    size, other = rng.random(n_rows), rng.integers(0, 3, n_rows)
    return pd.DataFrame(
        {
            "code": np.array(CODES)[code],
            "price": code * 37 % 41 * 9,
            "size": size,
            "weight": np.clip(size + rng.uniform(-0.01, 0.01, n_rows), 0, 1),
            "volume": size * (1.0 + 0.15 * other),
            "other": np.array([*"abc"])[other],
            "y": np.where(np.arange(n_rows) % 2, "u", "v"),
        }
    )


def contradictions(rows):
    """Give the shares of rows with a price of another code, and of weights far off.

    Prices are 9 apart, and drawn as any number of a cell. And of rows whose volume is
    nearer to that of another factor.
    """
    prices = {CODES[k]: k * 37 % 41 * 9 for k in range(40)}
    off = (rows["size"] - rows["weight"]).abs()
    beside = (rows["code"].map(prices) - rows["price"]).abs()
    factor = rows["volume"] / rows["size"].clip(lower=0.01)
    nearest = ((factor - 1.0) / 0.15).round().clip(0, 2)
    wrong = nearest != rows["other"].map({"a": 0, "b": 1, "c": 2})
    volumes = wrong[rows["size"] > 0.2].mean()
    return (beside > 4).mean(), (off > 0.03).mean(), volumes


@cache
def fitted(epsilon):
    with insecure_randomness(0):
        synth = MarginalSynthesizer(epsilon, schema=SCHEMA, random_state=0)
        return synth.fit(make_table())


def test_cells_are_counted_where_pairs_are_possible():
    """Without noise the finer tables are those of the rows, and NaN elsewhere."""
    both = [
        own
        for own in fitted(math.inf).measurements_.tables()
        if {*own.columns} == {"code", "price"}
    ]
    *coarse, finer = sorted(both, key=lambda own: np.size(own.values))
    assert [own.class_label for own in coarse] == ["u", "v"]
    assert finer.class_label is None  # of both classes
    assert np.isnan(finer.values).any()
    assert np.nansum(finer.values) == N_ROWS
    at, known = finer.columns.index("code"), make_table()["code"].value_counts()
    by_code = np.nansum(finer.values, axis=1 - at)
    for bin_, count in zip(finer.bins[at], by_code, strict=True):
        assert count == sum(known.get(code, 0) for code in bin_.categories)
    names = [entry.name for entry in fitted(math.inf).privacy_report().entries]
    assert sum("finer cells" in name for name in names) == 1


def test_every_cell_is_kept_where_all_are_possible():
    """Then no cell is for what is impossible."""
    query = next(own.query for own in fitted(3.0).measurements_ if "Cells" in str(own))
    every = [np.ones_like(one) for one in query.possible]
    query = replace(query, possible=every)
    tables = query.tables(np.arange(1.0, query.shape[0] + 1))
    assert sum(table.size for table in tables) == query.shape[0]
    assert all(np.isfinite(table).all() for table in tables)


def test_the_noise_of_cells_is_planned():
    """That of one relation; for K of them the squared one is K times as large."""
    synth = fitted(3.0)
    listed = synth.measurements_.tables()
    tables = [t for t in listed if t.order == 2 and t.class_label is None]
    finer = [t.noise_std for t in tables if np.isnan(t.values).any()]
    plan = synth.plan(N_ROWS, dtypes=make_table().dtypes).set_index("class")
    one = plan.loc["u", "relation_noise_std"]
    assert len(finer) >= 2
    np.testing.assert_allclose(finer, math.sqrt(len(finer)) * one, rtol=0.01)


@pytest.mark.parametrize(
    ("epsilon", "most"), [(3.0, (0.45, 0.2, 1)), (math.inf, (0, 0, 0.18))]
)
def test_rows_follow_the_relations(epsilon, most):
    """Prices of other codes, of 6,000 rows, weights more than 0.03 off, and volumes.

    Without the relations a third of the rare codes share a bin, and sizes are known to
    a 25th. Of volumes a second column says what the parent leaves open, without noise;
    else two of three are wrong by chance.
    """
    found = contradictions(fitted(epsilon).sample(N_ROWS, random_state=0))
    assert np.less_equal(found, most).all()
    twin = copy(fitted(epsilon))  # the same marginals and mixture, and no followers
    twin.generator_ = copy(twin.generator_)
    twin.generator_.followers = None
    rows = contradictions(twin.sample(N_ROWS, random_state=0))
    n = 3 if epsilon == math.inf else 2
    assert np.greater(rows[:n], np.add(found, 0.05)[:n]).all()


def test_ranks_are_listed_with_what_they_are_given(tmp_path):
    """They count every row once, and come back from a file."""
    found = fitted(math.inf).measurements_
    ranked = [t for t in found.tables() if t.bins and t.bins[0][0].kind == "rank"]
    assert ranked
    for own in ranked:
        assert np.nansum(own.values) == N_ROWS
        (given,) = own.bins[0][0].categories
        assert given in {*SCHEMA.columns} - {*own.columns}
        assert str(own.bins[0][0]).endswith(f"given {given}")
    found.save(tmp_path / "own.json")
    again = type(found).load(tmp_path / "own.json")
    assert [t.bins for t in again.tables()] == [t.bins for t in found.tables()]


def lose_an_edge(document):
    """Make a cell that is in two bins."""
    own = document["bins"][1][1]["edges"]
    data = np.frombuffer(base64.b64decode(own["data"]))
    bins = np.frombuffer(base64.b64decode(document["bins"][0][1]["edges"]["data"]))
    data = data[data != bins[1]].tobytes()
    own |= {"shape": [len(data) // 8], "data": base64.b64encode(data).decode()}
    return [answer for answer in document["released"] if answer["query"] != "ranks"]


@pytest.mark.parametrize(
    "change",
    [lose_an_edge, lambda own: [*own["released"][:4], own["released"][-1]]],
    ids=["a cell in two bins", "cells of no pairs"],
)
def test_a_stranger_cannot_make_a_design_fail(change, tmp_path):
    """Its file is refused when it is read, so before any charge."""
    path = tmp_path / "stranger.json"
    fitted(3.0).measurements_.save(path)
    assert Measurements.load(path).relations is not None
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"released": change(document)}))
    with pytest.raises(PersistenceError):
        Measurements.load(path)


def test_cells_serve_a_relation_that_is_found_the_other_way_round():
    """In a sum of sites which column is the parent may turn: nothing is lost."""
    known = fitted(math.inf).measurements_
    turned = []
    for own in known:
        if own.query.kind == "cells":
            query = own.query
            possible = [one.T for one in query.possible]
            query = replace(query, sets=query.sets[:, ::-1].copy(), possible=possible)
            tables = [
                np.append(table.T[table.T == table.T], 0.0)
                for table in own.query.tables(np.ravel(own.values))
            ]
            own = replace(own, query=query, values=np.concatenate(tables)[None])
        if own.query.kind != "ranks":
            turned.append(own)
    parts = known.planned_stds, known.edges
    there = Measurements(known.metadata, turned, *parts).relations
    for mine, other in zip(known.relations.each, there.each, strict=True):
        assert (mine.cells is None) == (other.cells is None)
        if mine.cells is not None:
            np.testing.assert_allclose(mine.cells, other.cells, atol=1e-12)


def test_relations_of_a_loop_are_those_of_its_measurements():
    """Tables of all classes together count once in what is impossible."""
    with insecure_randomness(0):
        synth = GPATESynthesizer(3.0, schema=SCHEMA, n_iter=1, random_state=0)
        synth.fit(make_table())
    followers, relations = synth.generator_.followers, synth.measurements_.relations
    assert synth.measurements_.together is not None
    assert followers.std == relations.std
    pairs = [
        [(own.parent, own.child) for own in found]
        for found in (followers.relations, relations.each)
    ]
    assert pairs[0] == pairs[1]


def test_what_is_possible_stays_possible_under_where():
    rows = fitted(math.inf).sample(500, where={"code": "code 3"}, random_state=0)
    assert (rows["code"] == "code 3").all()
    assert (rows["price"] - 3 * 37 % 41 * 9).abs().le(4).mean() > 0.99


def test_one_row_moves_one_cell_of_each_relation():
    """The sensitivity is the root of the number of relations, whatever the row is."""
    synth = MarginalSynthesizer(3.0, schema=SCHEMA)
    assert not replay(synth, make_table(), rows=["first"]).findings
    lines = fitted(3.0).privacy_report().entries
    of_relations = [
        line for line in lines if "finer cells" in line.name or "ranks" in line.name
    ]
    assert len(of_relations) == 2
    for line in of_relations:
        assert line.scope == "all rows"  # a row of any class is charged
        n_tables = int(line.name.split()[0])
        assert line.sensitivity == pytest.approx(GRID * math.sqrt(n_tables))


@pytest.mark.parametrize(
    ("rare", "determined", "strong"),
    [(0.0, True, True), (0.48, True, True), (0.52, True, False), (0.3, False, False)],
)
def test_rare_categories_in_one_bin_do_not_hide_a_relation(rare, determined, strong):
    """Of 12 codes each decides one of 3 countries, or nothing; the rest has all.

    Counts are exact. Of most rows the codes must have a bin of their own.
    """
    codes = np.tile(np.eye(3), (4, 1)) if determined else np.full((12, 3), 1 / 3)
    table = np.concatenate([codes * (1 - rare) / 12, np.full((1, 3), rare / 3)])
    counts = np.zeros((16, 16), np.float32)
    counts[:13, 13:] = 10_000 * table
    asked = np.array([[False, True], [False, False]])
    each = counts[None], asked[None], np.array([1e-3]), np.array([10_000.0])
    shares = np.concatenate([table.sum(axis=1), table.sum(axis=0)])[None]
    codes = ColumnBins(np.empty(0), np.array([*range(13), 12]))
    bins = TableBins([codes, ColumnBins(np.linspace(0, 1, 4), np.full(3, -1))])
    found = find_relations(PairTables(*each), shares, bins)
    assert [one.strong for one in found.each] == [strong] * len(found.each)
    assert found.each or not determined


@pytest.mark.usefixtures("frozen_noise")
@pytest.mark.parametrize("decided", [True, False])
def test_rare_codes_go_with_one_country_if_they_decide_it_and_with_all_if_not(decided):
    """Of 300 codes and 30 countries; 50 codes have a bin of their own."""
    rng = np.random.default_rng(0)
    codes = rng.choice(300, 5000, p=(shares := 1 / np.arange(1, 301)) / shares.sum())
    own = np.where((codes < 40) | decided, codes % 30, rng.integers(0, 30, 5000))
    table = pd.DataFrame({"code": codes, "country": own}).astype("category")
    named = {name: Categorical([*table[name].cat.categories]) for name in table}
    synth = MarginalSynthesizer(10.0, schema=TableSchema(named)).fit(table)
    rows = synth.sample(50_000, random_state=0).astype(int)
    of_code = rows[rows["code"] >= 50].groupby("code")["country"]
    most = of_code.agg(lambda own: own.value_counts(normalize=True).iloc[0]).mean()
    assert (
        most > 0.5 if decided else most < 0.2
    )  # .21 where none decides, or .47 if all


@pytest.mark.parametrize("n_rows", [3_000, 20_000])
def test_columns_are_missing_together_if_their_tables_do_not_deny_it(n_rows):
    """Of three kinds, frozen noise; where a quarter has one of both, it stays so."""
    rng = np.random.default_rng(0)
    gone, half = rng.random((2, n_rows)) < [[0.2], [0.5]]
    whole = {
        "size": rng.normal(50, 9, n_rows),
        "kind": rng.choice([*"abc"], n_rows),
        "born": np.datetime64("1990", "s") + rng.integers(0, 10**9, n_rows),
    }
    for lost in (gone, gone & half):
        table = pd.DataFrame({"age": rng.normal(40, 9, n_rows)} | whole)
        table.loc[gone, ["age", "born"]] = None
        table.loc[lost, ["size", "kind"]] = None
        for seed in range(3):
            with insecure_randomness(seed):
                synth = MarginalSynthesizer(1.0, random_state=seed).fit(table)
            found = synth.sample(n_rows, random_state=seed).isna()
            torn = (found["age"] != found["size"]).mean()
            assert abs(found.mean() - table.isna().mean()).max() < 0.03
            assert found["age"].equals(found["born"])
            assert found["size"].equals(found["kind"])
            assert (torn == 0) if lost is gone else (0.05 < torn < 0.2)


@pytest.mark.parametrize(("law", "n", "told"), [(1, 60, 1), (0.8, 60, 0), (1, 9, 0)])
def test_a_column_that_decides_another_is_named_where_rare_values_do_not(law, n, told):
    """Of codes and 5 countries, frozen noise; then what is stated is exact."""
    rng, n_rows = np.random.default_rng(0), 3_000 if law == 1 else 20_000
    code = rng.choice(n, n_rows, p=(shares := 1 / np.arange(1, n + 1)) / shares.sum())
    country = np.where(rng.random(n_rows) < law, code % 5, rng.integers(0, 5, n_rows))
    table = pd.DataFrame({"code": code, "country": country, "x": rng.random(n_rows)})
    columns = {"code": Categorical([*range(n)]), "country": Categorical([*range(5)])}
    decides = Determines("code", "country", {k: k % 5 for k in range(n)})
    for rules in ([], [decides] * told):
        schema = TableSchema(columns, rules=rules)
        with insecure_randomness(0), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            synth = MarginalSynthesizer(1.0, schema=schema, random_state=0).fit(table)
        words = "if each 'code' has one 'country', rare ones come back with a wrong one"
        words += " (state it: Determines('code', 'country', {...}))"
        assert (words in "".join(str(w.message) for w in caught)) == (
            told and not rules
        )
        rows = synth.sample(n_rows, random_state=0)
        wrong = (rows["code"] % 5 != rows["country"]).mean()
        assert (wrong > 0.1) == (n == 60 and not (told and rules))
