"""Joint shares of few columns: closed forms, a slow twin, and what must not matter."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.metrics import (
    LevelCells,
    NumberCells,
    column_fidelity,
    marginal_fidelity,
)
from skdpsynth.metrics._fidelity import _groups

NUMBERS = st.one_of(st.none(), st.integers(0, 3), st.floats(-9, 9, width=16))
TEXTS = st.one_of(st.none(), st.sampled_from("abc"))
ROWS = st.lists(st.tuples(NUMBERS, TEXTS, NUMBERS), min_size=1, max_size=30)


def table(rows: list[tuple]) -> pd.DataFrame:
    """Make a table of two numbers and a text."""
    x, kind, y = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            "x": pd.Series(x, dtype=float),
            "kind": pd.Series(kind, dtype=object),
            "y": pd.Series(y, dtype=float),
        }
    )


def slow_cell(value: object, reference: list) -> object:
    """Say in which cell a value is, by counting; the real values choose."""
    if value is None:
        return "missing"
    known = sorted(v for v in reference if v is not None)
    if isinstance(value, str):
        ranked = sorted(set(known), key=lambda v: (-known.count(v), v))
        return value if value in ranked[:20] else "rest"
    # The smallest value that a share of tenths of the rows does not exceed.
    edges = [
        next(v for v in known if 10 * sum(w <= v for w in known) >= tenth * len(known))
        for tenth in range(1, 10)
        if known
    ]
    # An edge at the smallest value would divide nothing: the next one takes its place.
    above = [v for v in known if v > known[0]]
    if edges[:1] == known[:1]:
        edges += above[:1]
    return sum(e <= value for e in set(edges) - set(known[:1]))


def slow_distance(real: list[tuple], fake: list[tuple], columns: tuple) -> float:
    """Count rows by their cells in a dict."""
    shares: list[dict] = []
    for rows in (real, fake):
        counts: dict = {}
        for row in rows:
            cell = tuple(slow_cell(row[i], [r[i] for r in real]) for i in columns)
            counts[cell] = counts.get(cell, 0) + 1 / len(rows)
        shares.append(counts)
    cells = {*shares[0], *shares[1]}
    return sum(abs(shares[0].get(c, 0) - shares[1].get(c, 0)) for c in cells) / 2


@settings(max_examples=60, deadline=None)
@given(ROWS, ROWS)
def test_distances_by_a_slow_count(real: list, fake: list) -> None:
    for k in (1, 2, 3):
        found = marginal_fidelity(table(real), table(fake), k=k)
        expected = [slow_distance(real, fake, c) for c in combinations(range(3), k)]
        assert found.tolist() == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(ROWS, ROWS, st.randoms(use_true_random=False))
def test_what_every_distance_has(real: list, fake: list, shuffled) -> None:
    """0 of itself; in [0, 1]; no order of rows or columns; more columns, not nearer."""
    tables = table(real), table(fake)
    found = [marginal_fidelity(*tables, k=k) for k in (1, 2, 3)]
    for k, distances in enumerate(found, start=1):
        assert (marginal_fidelity(tables[0], tables[0], k=k) == 0).all()
        assert distances.between(0, 1 + 1e-12).all()
        mixed = [shuffled.sample(rows, len(rows)) for rows in (real, fake)]
        again = marginal_fidelity(
            table(mixed[0]), table(mixed[1])[["y", "x", "kind"]], k
        )
        pd.testing.assert_series_equal(again, distances)
    for pair, distance in found[1].items():
        assert distance >= max(found[0][name] for name in pair) - 1e-12
    assert found[2].iloc[0] >= found[1].max() - 1e-12


def test_tables_without_a_common_cell_are_as_far_as_can_be() -> None:
    real = pd.DataFrame({"x": np.arange(50.0), "g": list("ab") * 25, "when": None})
    real["when"] = pd.to_datetime("2020-01-01") + pd.to_timedelta(real["x"], unit="D")
    fake = pd.DataFrame({"x": np.nan, "g": "c", "when": [pd.NaT] * 7})
    for k in (1, 2, 3):
        assert (marginal_fidelity(real, fake, k=k) == 1).all()


def test_dependence_of_a_known_size() -> None:
    """Two columns of m equal levels: identical against independent is 1 - 1 / m.

    The columns alone do not show it. A third one that is their sum modulo m shows in
    triples only: each of its pairs is independent.
    """
    m = 5
    a, b = (grid.ravel() for grid in np.meshgrid(range(m), range(m)))
    free = pd.DataFrame({"a": a, "b": b}).astype(str)
    same = pd.DataFrame({"a": a, "b": a}).astype(str)
    assert (marginal_fidelity(free, same, k=1) == 0).all()
    assert marginal_fidelity(free, same)["a", "b"] == pytest.approx(1 - 1 / m)
    cube = [grid.ravel() for grid in np.meshgrid(range(m), range(m), range(m))]
    free = pd.DataFrame(dict(zip("abc", cube, strict=True)))
    tied = free.assign(c=(free["a"] + free["b"]) % m)
    assert marginal_fidelity(free, tied, k=2).tolist() == pytest.approx([0.0] * 3)
    assert marginal_fidelity(free, tied, k=3).tolist() == pytest.approx([1 - 1 / m])


def test_categories_alone_are_those_of_column_fidelity() -> None:
    rng = np.random.default_rng(0)
    tables = [
        pd.DataFrame({"g": rng.choice(list("abcdefg"), 200, p=p)})
        for p in rng.dirichlet(np.ones(7), size=2)
    ]
    expected = column_fidelity(*tables)["distance"]
    pd.testing.assert_series_equal(marginal_fidelity(*tables, k=1), expected)


def test_bins_of_numbers() -> None:
    """Tenths of the rows; frequent smallest values stay apart; NaN at the end."""
    cells = NumberCells.of(np.arange(100.0), 10)
    assert np.bincount(cells.codes(np.arange(100.0))).max() == 11
    assert np.bincount(cells.codes(np.arange(100.0))).min() == 9
    assert cells.codes(np.array([-5.0, 1e9, np.nan])).tolist() == [0, 9, 10]
    for share in (0.05, 0.5, 0.95):  # either of two values, whatever their shares
        zeros = round(100 * share)
        values = np.repeat([0.0, 1.0], [zeros, 100 - zeros])
        codes = NumberCells.of(values, 10).codes(np.array([-1.0, 0.0, 1.0, 2.0]))
        assert codes.tolist() == [0, 0, 1, 1]
    gains = np.repeat([0.0, 114.0, 5000.0], [95, 2, 3])
    assert NumberCells.of(gains, 10).edges.tolist() == [114.0]
    rng = np.random.default_rng(0)
    for values in (rng.integers(0, 4, 50), rng.normal(size=50), np.zeros(50)):
        assert NumberCells.of(values.astype(float), 10).n_cells <= 11
    for nothing in (np.array([np.nan]), np.zeros(5)):
        cells = NumberCells.of(nothing, 10)
        assert cells.codes(np.array([3.0, np.nan])).tolist() == [0, 1]


def test_levels_are_the_most_frequent_by_name() -> None:
    values = pd.Series([*"bbbaaaccd", None])
    assert LevelCells.of(values, 2).levels == ["a", "b"]
    codes = LevelCells.of(values, 2).codes(pd.Series(["b", "d", None, "a", "new"]))
    assert codes.tolist() == [1, 2, 3, 0, 2]
    many = pd.DataFrame({"g": [f"level {i:02d}" for i in range(30)]})
    fake = many.assign(g=[*many["g"][:20], *["unseen"] * 10])
    assert marginal_fidelity(many, fake, k=1)["g"] == 0  # ten in the rest, either way


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 60), st.integers(0, 99))
def test_groups_are_distinct_sorted_and_as_many_as_allowed(
    n_columns: int, k: int, limit: int, seed: int
) -> None:
    if n_columns < k:
        return
    groups = [tuple(group) for group in _groups(n_columns, k, limit, seed).tolist()]
    every = list(combinations(range(n_columns), k))
    assert len(groups) == min(len(every), limit)
    assert groups == sorted(set(groups))
    assert set(groups) <= set(every)
    assert groups == [tuple(g) for g in _groups(n_columns, k, limit, seed).tolist()]


@pytest.mark.statistical
def test_every_group_is_as_likely() -> None:
    """3,000 draws of 5 out of 20 triples: each 750 times; sd sqrt(3000 * 3/16) = 23.7.

    The largest of 20 deviations is below 6 sd = 142; false alarm 4e-8.
    """
    drawn = np.zeros((6, 6, 6))
    for seed in range(3_000):
        np.add.at(drawn, tuple(_groups(6, 3, 5, seed).T), 1)
    counts = drawn[drawn > 0]
    assert len(counts) == 20
    assert np.abs(counts - 750).max() < 142


def test_many_columns_are_drawn_from() -> None:
    """784 columns have 306,936 pairs and 80 million triples."""
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(
        rng.integers(0, 2, (20, 784)), columns=[f"p{i}" for i in range(784)]
    )
    lengths = [len(marginal_fidelity(wide, wide[:10], k=k)) for k in (1, 2, 3)]
    assert lengths == [784, 10_000, 150]
    few = marginal_fidelity(wide, wide[:10], k=3, n_marginals=4, random_state=1)
    other = marginal_fidelity(wide, wide[:10], k=3, n_marginals=4, random_state=2)
    assert few.index.names == ["first", "second", "third"]
    assert not few.index.equals(other.index)
    assert comb(141, 2) <= 10_000 < comb(142, 2)  # as the docstring has it


def test_result_carries_the_flag() -> None:
    found = marginal_fidelity(table([(1, "a", 2)]), table([(1, "b", 2)]))
    assert found.attrs["contains_private_statistics"] is True
    assert found.name == "distance"
    assert found.index.tolist() == [("x", "kind"), ("x", "y"), ("kind", "y")]


def test_what_cannot_be_compared_is_refused() -> None:
    two = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    for k in (0, 4, "2", 1.5):
        with pytest.raises(ValueError, match="k must be 1, 2 or 3"):
            marginal_fidelity(two, two, k=k)
    for n_marginals in (0, 1.5):
        with pytest.raises(ValueError, match="n_marginals must be None or"):
            marginal_fidelity(two, two, n_marginals=n_marginals)
    with pytest.raises(InvalidTableError, match="at least 3 columns in 'real' for k=3"):
        marginal_fidelity(two, two, k=3)
