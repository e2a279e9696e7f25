"""Columns and pairs of them, as plots have them: bins, cells, and which are shown."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.evaluation._marginals import (
    Pair,
    PlainColumn,
    Side,
    marginal,
    plain_columns,
    shares,
    strongest_pairs,
)


def test_plain_columns():
    table = pd.DataFrame(
        {
            "n": pd.array([1, None], dtype="Int64"),
            "flag": [True, False],
            "when": pd.to_datetime(["1970-01-02 12:00", None]),
            "zone": pd.to_datetime(["1970-01-02", None], utc=True),
            "lasts": pd.to_timedelta(["36h", None]),
            "kind": pd.Categorical(["a", None]),
            7: ["text", 3],
            "wild": [np.inf, 1.0],
        }
    )
    found = [(c.name, c.kind, c.items) for c in plain_columns(table)]
    assert found == [
        ("n", "number", [1.0, None]),
        ("flag", "category", ["True", "False"]),
        ("when", "time", [1.5, None]),
        ("zone", "time", [1.0, None]),
        ("lasts (days)", "number", [1.5, None]),
        ("kind", "category", ["a", None]),
        ("7", "category", ["text", "3"]),
        ("wild", "number", [None, 1.0]),
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.lists(st.integers(-200, 200), min_size=1),
        st.lists(st.floats(-1e6, 1e6), min_size=1),
    )
)
def test_shares_of_numbers_sum_to_one(values):
    column = PlainColumn("x", "number", [float(v) for v in values])
    found = marginal(column)
    assert sum(found.shares) == pytest.approx(1.0)
    assert len(found.shares) == len(found.bins) - 1 <= 30
    assert np.all(np.diff(found.bins) > 0)
    # Another column in the same bins: what is outside counts in the outer ones.
    far = PlainColumn("x", "number", [-1e9, 1e9, None, 1e9])
    assert shares(far, found)[0] + shares(far, found)[-1] >= 0.75


def test_whole_numbers_have_bins_of_their_own():
    column = PlainColumn("x", "number", [0.0] * 6 + [1.0] * 3 + [4.0])
    found = marginal(column)
    assert found.bins == [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5]
    assert found.shares == pytest.approx([0.6, 0.3, 0, 0, 0.1])


def test_shares_of_categories():
    """The twelve most frequent by name, then the others, then the missing ones."""
    values = [f"l{i:02d}" for i in range(20) for _ in range(20 - i)] + [None] * 10
    found = marginal(PlainColumn("k", "category", values))
    assert found.bins == [*(f"l{i:02d}" for i in range(12)), "(other)", "(missing)"]
    assert found.shares[0] == pytest.approx(20 / 220)
    assert found.shares[-2:] == pytest.approx([sum(range(1, 9)) / 220, 10 / 220])
    assert sum(found.shares) == pytest.approx(1.0)
    assert marginal(PlainColumn("n", "number", [None])).bins == [0.0, 1.0]
    empty = marginal(PlainColumn("k", "category", []))
    assert empty.shares == [0.0, 0.0]


def names(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.first.name, pair.second.name) for pair in pairs]


def test_the_strongest_pairs_come_first():
    """By construction: equal, half noise, and columns that nothing depends on."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 4, 2000)
    noisy = np.where(rng.random(2000) < 0.5, label, rng.integers(0, 4, 2000))
    table = pd.DataFrame(
        {
            "x": rng.normal(size=2000),
            "g": pd.Series(label).map(dict(enumerate("abcd"))),
            "noisy": noisy,
            "z": rng.normal(size=2000),
            "label": label * 10.0,
        }
    )
    found = names(strongest_pairs(plain_columns(table), "label"))
    assert found[0] == ("g", "label")
    assert set(found[1:3]) == {("g", "noisy"), ("noisy", "label")}
    assert len(found) == 4
    two = plain_columns(table[["g", "label"]])
    assert names(strongest_pairs(two, "label")) == [("g", "label")]


def test_of_many_columns_the_first_and_the_target_are_compared():
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(50, 60))).add_prefix("c")
    wide["c50"] = wide["c51"]  # the strongest, but too far behind
    wide["label"] = wide["c3"]
    assert names(strongest_pairs(plain_columns(wide), "label"))[0] == ("c3", "label")


def test_cells_and_their_names():
    numbers = PlainColumn("n", "number", [float(v) for v in range(1, 81)] + [None])
    side = Side.of(numbers)
    assert side.labels() == [
        "<10", "10", "20", "30", "40", "50", "60", "70", "(missing)"
    ]  # fmt: skip
    assert np.bincount(side.codes(numbers)).tolist() == [9, *[10] * 6, 11, 1]
    days = PlainColumn("t", "time", [0.0, 1.0, 2.0, 3.0] * 5)
    assert Side.of(days).labels()[:2] == ["<1970-01-02", "1970-01-02"]
    assert Side.of(PlainColumn("c", "number", [5.0] * 9)).labels() == [
        "all", "(missing)"
    ]  # fmt: skip
    texts = PlainColumn("g", "category", [*"aaab", None])
    assert Side.of(texts).labels() == ["a", "b", "(other)", "(missing)"]
    money = PlainColumn("m", "number", [1234.5] * 4 + [2e9] * 4)
    assert Side.of(money).labels() == ["<2e+09", "2e+09", "(missing)"]


def test_joint_shares_by_a_crosstab(compare, stubs, tables):
    result = compare({"copy": stubs["Copy"]()}, n_repeats=1)
    pair = next(p for p in result._real_pairs if p.second.name == "label")
    test = tables[1]
    codes = pair.first.codes(
        next(c for c in plain_columns(test) if c.name == pair.first.name)
    )
    expected = pd.crosstab(codes, test["label"], normalize=True)
    used = np.unique(codes)
    levels = list(pair.second.cells.categories)
    assert pair.shares[used, :2] == pytest.approx(expected[levels].to_numpy())
    again = pair.shares_of(plain_columns(test))
    assert again == pytest.approx(pair.shares)
