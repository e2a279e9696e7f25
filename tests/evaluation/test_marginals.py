"""Columns and pairs of them, as plots have them: bins, cells, and which are shown."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.evaluation._marginals import (  # cells, beside their plots
    Marginal,
    PlainColumn,
    Side,
    plain_columns,
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
    found = Marginal.of(PlainColumn("x", "number", [float(v) for v in values]))
    assert sum(found.shares) == pytest.approx(1.0)
    (side,) = found.sides
    assert len(found.shares) <= 33  # with that of missing values
    edges = [side.ends[0], *side.cells.edges, side.ends[1]]
    assert len(edges) == len(found.shares)
    assert np.all(np.diff(edges) > 0)
    # Another column in the same bins: what is outside counts in the outer ones.
    far = found.shares_of([PlainColumn("x", "number", [-1e9, 1e9, None, 1e9])])
    assert far[[0, -2]].sum() >= 0.75
    assert far[-1] == 0.25
    assert found.shares_of([PlainColumn("x", "category", ["a"])]) is None


def test_shares_of_categories():
    """The twelve most frequent by name, then the others, then the missing ones."""
    values = [f"l{i:02d}" for i in range(20) for _ in range(20 - i)] + [None] * 10
    found = Marginal.of(PlainColumn("k", "category", values))
    expected = [*(f"l{i:02d}" for i in range(12)), "(other)", "(missing)"]
    assert found.sides[0].labels() == expected
    assert found.shares[0] == pytest.approx(20 / 220)
    assert found.shares[-2:] == pytest.approx([sum(range(1, 9)) / 220, 10 / 220])
    assert sum(found.shares) == pytest.approx(1.0)
    nothing = Marginal.of(PlainColumn("n", "number", [None]))
    assert (nothing.sides[0].ends, nothing.shares.tolist()) == ((0.0, 1.0), [0.0, 1.0])
    assert Marginal.of(PlainColumn("k", "category", [])).shares.tolist() == [0.0, 0.0]


def names(pairs: list[Marginal]) -> list[tuple[str, str]]:
    return [tuple(side.name for side in pair.sides) for pair in pairs]


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


def test_cells_and_their_names():
    numbers = PlainColumn("n", "number", [float(v) for v in range(1, 121)] + [None])
    side = Side.of_pair(numbers)
    assert side.labels() == ["<10", *map(str, range(10, 120, 10)), "(missing)"]
    assert np.bincount(side.codes(numbers)).tolist() == [9, *[10] * 10, 11, 1]
    days = PlainColumn("t", "time", [0.0, 1.0, 2.0, 3.0] * 5)
    assert Side.of_pair(days).labels()[:2] == ["<1970-01-02", "1970-01-02"]
    constant = PlainColumn("c", "number", [5.0] * 9)
    assert Side.of_pair(constant).labels() == ["all", "(missing)"]
    texts = PlainColumn("g", "category", [*"aaab", None])
    assert Side.of_pair(texts).labels() == ["a", "b", "(other)", "(missing)"]
