"""Columns that nearly determine another one are found, and measured in finer cells."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from skdpsynth import MarginalSynthesizer
from skdpsynth.datasets import load_adult
from skdpsynth.measure._relations import _possible, find_relations, raked
from skdpsynth.measure._tables import PairTables
from skdpsynth.privacy import measured_cells
from skdpsynth.privacy.testing import (
    Release,
    insecure_randomness,
    observe_releases,
)
from skdpsynth.schema import Categorical, Continuous, TableSchema

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


def make_table(seed=0, n_rows=N_ROWS):
    """A price for each code, and a weight that is the size but for a hundredth.

    The volume is the size times 1, 1.15 or 1.3, which another column says.
    """
    rng = np.random.default_rng(seed)
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

    Prices are 9 apart, and drawn as any number of a cell.
    """
    prices = {CODES[k]: k * 37 % 41 * 9 for k in range(40)}
    off = (rows["size"] - rows["weight"]).abs()
    beside = (rows["code"].map(prices) - rows["price"]).abs()
    return (beside > 4).mean(), (off > 0.03).mean()


def wrong_volumes(rows):
    """Give the share of rows whose volume is nearer to that of another factor."""
    factor = rows["volume"] / rows["size"].clip(lower=0.01)
    nearest = ((factor - 1.0) / 0.15).round().clip(0, 2)
    own = rows["other"].map({"a": 0, "b": 1, "c": 2})
    return (nearest != own)[rows["size"] > 0.2].mean()


def fitted(epsilon, table=None, seed=0, **parameters):
    with insecure_randomness(seed):
        synth = MarginalSynthesizer(epsilon, schema=SCHEMA, random_state=0)
        return synth.set_params(**parameters).fit(
            make_table() if table is None else table
        )


def test_the_plan_knows_the_noise_of_finer_cells():
    """That of one relation; for K of them the squared one is K times as large.

    But for the variance of 4 that the noise of whole numbers has beside it, and for
    remainders, which the plan counts on.
    """
    synth = fitted(10.0)
    tables = [t for t in synth.measurements_ if t.order == 2 and t.class_label is None]
    finer = [t.noise_std for t in tables if np.isnan(t.values).any()]
    plan = synth.plan(len(make_table()), dtypes=make_table().dtypes).set_index("class")
    one = plan.loc["u", "relation_noise_std"]
    assert len(finer) >= 2
    squared = len(finer) * (one**2 - 4) + 4
    np.testing.assert_allclose(finer, math.sqrt(squared), rtol=0.03)


def pair_tables(counts, sizes, std, n_rows):
    """Stand for what was released of one class: tables of all pairs, with noise."""
    pairs = np.stack(np.triu_indices(len(sizes), 1), axis=1)
    noise = std * np.random.default_rng(0).normal(size=counts.shape)
    measured = measured_cells(sizes, pairs)
    noisy = np.where(measured, counts + noise, 0).astype(np.float32)
    return PairTables(noisy, measured, std, float(n_rows), pairs)


def relations_of(codes, sizes, std):
    starts = np.concatenate(([0], np.cumsum(sizes)))
    one_hot = np.concatenate(
        [np.eye(n)[codes[:, j]] for j, n in enumerate(sizes)], axis=1
    )
    tables = {0: pair_tables(one_hot.T @ one_hot, sizes, std, len(codes))}
    return find_relations(tables, [one_hot.mean(axis=0)], starts)


@pytest.mark.parametrize("std", [0.0, 15.0])
def test_a_function_is_strong_and_its_contradictions_are_impossible(std):
    """10,000 rows, six values: a cell with rows has 1,667, over a hundred deviations.

    The impossible cells, 30 with noise alone, have fewer rows together than 0.3 of
    what independent columns would have. Beside it a column that follows with
    probability 1/3, which is not strong, and a free one.
    """
    rng = np.random.default_rng(1)
    first = rng.integers(0, 6, 10_000)
    loose = np.where(rng.random(10_000) < 1 / 3, first, rng.integers(0, 6, 10_000))
    codes = np.stack([first, 5 - first, loose, rng.integers(0, 4, 10_000)], axis=1)
    relations = relations_of(codes, [6, 6, 6, 4], std)
    found = {(own.parent, own.child): own for own in relations.each}
    (pair,) = (pair for pair, own in found.items() if own.strong)
    assert sorted(pair) == [0, 1]
    shares = found.pop(pair).shares
    assert ((shares > 0) == np.eye(6)[::-1]).all()
    assert shares.sum() == pytest.approx(1.0)
    assert all((own.shares > 0).all() for own in found.values())


def test_tables_of_all_classes_together_are_a_second_count():
    """The mean of both counts, by their variances: 2 classes of 40 and 30 have 50.

    With as much noise together the variance is half of it; without any, nothing is
    left of the noise of classes.
    """
    first = np.random.default_rng(0).integers(0, 6, 2_000)
    one_hot = np.hstack([np.eye(6)[first]] * 2)
    shares, starts = one_hot.mean(axis=0), np.array([0, 6, 12])
    counts = one_hot.T @ one_hot
    pairs = {
        0: pair_tables(counts, [6, 6], 40.0, 2_000),
        1: pair_tables(counts, [6, 6], 30.0, 2_000),
    }
    for std, expected in ((None, 50.0), (50.0, 50.0 / math.sqrt(2)), (0.0, 0.0)):
        known = None
        if std is not None:
            known = pair_tables(2 * counts, [6, 6], std, 4_000)
        found = find_relations(pairs, [shares, shares], starts, known)
        assert found.std == pytest.approx(expected / 4_000)
    (own,) = found.each
    np.testing.assert_allclose(own.shares, counts[:6, 6:] / 2_000, atol=1e-6)


def test_the_root_is_the_column_that_tells_most():
    """One of 12 values says which of 3 groups it is in; a group says less of it.

    Whatever their order in the table.
    """
    first = np.random.default_rng(0).integers(0, 12, 10_000)
    for order in ([0, 1], [1, 0]):
        codes = np.stack([first, first // 4], axis=1)[:, order]
        sizes = np.array([12, 3])[order].tolist()
        (own,) = relations_of(codes, sizes, 0.0).each
        assert [sizes[own.parent], sizes[own.child]] == [12, 3]


def test_a_rare_pair_is_impossible_only_where_noise_cannot_explain_it():
    """Independent shares of 0.04: a noise of 0.003 is clear of 0.3 of them.

    With 0.01 even a count of 0 may be one of 0.02.
    """
    independent = np.full((5, 5), 0.04)
    noisy = independent.copy()
    noisy[2, 3] = 0.0
    sure = _possible(noisy, independent, 0.003, strong=False)
    assert np.argwhere(~sure).tolist() == [[2, 3]]
    assert _possible(noisy, independent, 0.01, strong=False).all()


def test_sums_are_brought_to_given_ones_and_zeros_stay():
    rng = np.random.default_rng(0)
    table = rng.random((5, 4)) * (rng.random((5, 4)) < 0.8)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    changed = table * np.outer(rng.uniform(0.5, 2, 5), rng.uniform(0.5, 2, 4))
    found = raked(changed, rows / rows.sum(), columns / rows.sum())
    assert found.sum(axis=0) == pytest.approx(columns / rows.sum(), abs=1e-9)
    assert found.sum(axis=1) == pytest.approx(rows / rows.sum(), abs=2e-3)
    assert ((found > 0) == (table > 0)).all()


def test_cells_are_counted_where_pairs_are_possible():
    """Without noise the finer tables are those of the rows, and NaN elsewhere."""
    table, seen = make_table(), []
    with observe_releases(seen.append):
        synth = fitted(math.inf, table)
    names = [own.reservation.name for own in seen]
    assert sum("finer cells" in name for name in names) == 1  # of both classes
    finer = [
        own
        for own in synth.measurements_
        if own.columns == ("code", "price") or own.columns == ("price", "code")
    ]
    coarse = [own for own in finer if not np.isnan(own.values).any()]
    cells = [own for own in finer if np.isnan(own.values).any()]
    assert [own.class_label for own in coarse] == ["u", "v"]
    assert [own.class_label for own in cells] == [None]
    for own in cells:
        assert np.nansum(own.values) == N_ROWS
        assert np.size(own.values) > np.size(coarse[0].values)
        at = own.columns.index("code")
        by_code = np.nansum(own.values, axis=1 - at)
        known = table["code"].value_counts()
        for bin_, count in zip(own.bins[at], by_code, strict=True):
            assert count == sum(known.get(code, 0) for code in bin_.categories)


def is_of_relations(name):
    return "finer cells" in name or "ranks given a column" in name


def test_the_noise_of_cells_is_that_of_the_ledger():
    """Of n draws the deviation is off by ``5 / sqrt(2 n)`` once in a million fits."""
    seen: list[Release] = []
    with observe_releases(seen.append):
        fitted(3.0)
    found = [own for own in seen if is_of_relations(own.reservation.name)]
    assert len(found) == 2
    for own in found:
        noise, std = own.noisy - own.exact, own.reservation.noise_std
        assert std > 1
        assert len(noise) > 200
        assert abs(noise.std() / std - 1) < 5 / math.sqrt(2 * len(noise))


def test_one_row_moves_one_cell_of_each_relation():
    """The sensitivity is the root of the number of relations, whatever the row is."""
    table = make_table()
    strange = table.iloc[[0]].assign(price=399, weight=0.0, size=1.0)
    for more in (strange, table.iloc[[5]]):
        first: list[Release] = []
        second: list[Release] = []
        for seen, rows in ((first, table), (second, pd.concat([table, more]))):

            def watch(release, seen=seen, first=first):
                """Give what was released first, so that nothing else moves."""
                seen.append(release)
                return first[len(seen) - 1].noisy

            with observe_releases(watch):
                fitted(3.0, rows.reset_index(drop=True))
        exact = [
            [own for own in seen if is_of_relations(own.reservation.name)]
            for seen in (first, second)
        ]
        assert len(exact[0]) == len(exact[1]) == 2
        for one, other in zip(*exact, strict=True):
            moved = np.abs(one.exact - other.exact)
            n_tables = int(one.reservation.name.split()[0])
            assert one.reservation.scope is None  # a row of any class is charged
            assert moved.sum() == n_tables
            assert moved.max() <= 1
            assert one.reservation.sensitivity == pytest.approx(math.sqrt(n_tables))


@pytest.mark.parametrize(("epsilon", "most"), [(3.0, (0.45, 0.2)), (math.inf, (0, 0))])
def test_rows_follow_the_relations(epsilon, most):
    """Prices of other codes, of 6,000 rows, and weights more than 0.03 off.

    The same rows without the relations are the twin: a third of the rare codes share a
    bin, and sizes are known to a 25th.
    """
    synth = fitted(epsilon)
    found = contradictions(synth.sample(N_ROWS))
    assert np.less_equal(found, most).all()
    synth.generator_.followers = None
    twin = contradictions(synth.sample(N_ROWS))
    assert np.greater(twin, np.add(found, 0.05)).all()


def test_a_second_column_says_what_the_parent_leaves_open():
    """Of 6,000 rows without noise; two of three volumes are wrong by chance."""
    synth = fitted(math.inf)
    names = synth.feature_names_in_.tolist()
    seconds = {
        names[own.child]: own.second and names[own.second]
        for own in synth.generator_.followers.relations
    }
    assert "other" in seconds.values()
    assert wrong_volumes(synth.sample(N_ROWS)) < 0.15
    synth.generator_.followers = None
    assert wrong_volumes(synth.sample(N_ROWS)) > 0.25


def test_ranks_are_listed_with_what_they_are_given(tmp_path):
    """They count every row once, and come back from a file."""
    found = fitted(math.inf).measurements_
    ranked = [own for own in found if own.bins and own.bins[0][0].kind == "rank"]
    assert ranked
    for own in ranked:
        assert np.nansum(own.values) == N_ROWS
        (given,) = own.bins[0][0].categories
        assert given in SCHEMA.columns
        assert given not in own.columns
        assert str(own.bins[0][0]).endswith(f"given {given}")
    found.save(tmp_path / "own.json")
    again = type(found).load(tmp_path / "own.json")
    for one, other in zip(found, again, strict=True):
        assert one.bins == other.bins
        np.testing.assert_array_equal(one.values, other.values)


def test_what_is_possible_stays_possible_under_where():
    synth = fitted(math.inf)
    rows = synth.sample(500, where={"code": "code 3"})
    assert (rows["code"] == "code 3").all()
    assert (rows["price"] - 3 * 37 % 41 * 9).abs().le(4).mean() > 0.99


def test_a_saved_synthesizer_follows_the_relations(tmp_path):
    synth = fitted(3.0)
    synth.save(tmp_path / "own.skdp")
    again = MarginalSynthesizer.load(tmp_path / "own.skdp")
    one, other = (own.sample(400, random_state=1) for own in (synth, again))
    pd.testing.assert_frame_equal(one, other)


def test_marginals_stay_what_they_are():
    """Coarse bins keep their shares: those of the first codes, of 50,000 rows."""
    synth = fitted(3.0)
    own = synth.sample(50_000)["code"].value_counts(normalize=True)
    synth.generator_.followers = None
    before = synth.sample(50_000)["code"].value_counts(normalize=True)
    first = CODES[:10]
    assert (own[first] - before[first]).abs().max() < 0.01


def test_adult_has_hardly_a_row_that_makes_no_sense():
    """At epsilon 1 with one draw of the noise; without relations 19 and 8 %."""
    train, _ = load_adult(split=True)
    years = train.groupby("education")["education-num"].first()
    bounds = {
        "age": (17, 90),
        "fnlwgt": (0, 1_500_000),
        "education-num": (1, 16),
        "capital-gain": (0, 99_999),
        "capital-loss": (0, 5_000),
        "hours-per-week": (1, 99),
    }
    columns = {n: Continuous(*ends, integer=True) for n, ends in bounds.items()}
    for name in train.columns.difference(bounds):
        listed = sorted(train[name].dropna().unique())
        gaps = bool(train[name].isna().any())
        columns[name] = Categorical(listed, nullable=gaps)
    synth = MarginalSynthesizer(schema=TableSchema(columns, target="income"))
    with insecure_randomness(0):
        rows = synth.set_params(random_state=0).fit(train).sample(20_000)
    assert (rows["education"].map(years) != rows["education-num"]).mean() <= 0.01
    wives = rows[rows["relationship"] == "Wife"]
    assert (wives["sex"] == "Male").mean() <= 0.02
