"""The small parts: memory, and columns in a form that can be plotted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.evaluation._marginals import PlainColumn, marginal, plain_columns, shares
from skdpsynth.exceptions import InvalidTableError
from skdpsynth.metrics import setting_scores, synthetic_only_scores
from skdpsynth.utils import PeakMemory


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux only")
def test_peak_is_that_of_the_block() -> None:
    """50 MB that are freed inside count; those that were there before do not."""
    before = np.ones(50 * 2**17)  # 50 MB
    for _ in range(2):
        with PeakMemory() as memory:
            np.ones(50 * 2**17).sum()
        assert 45 < memory.megabytes < 70
    with PeakMemory() as memory:
        before.sum()
    assert memory.megabytes < 10


def test_peak_without_help_of_the_system(monkeypatch, tmp_path) -> None:
    """The peak since the process began is what there is: it cannot fall."""
    monkeypatch.setattr("skdpsynth.utils._runs._PROCESS", tmp_path / "absent")
    with PeakMemory() as memory:
        pass
    assert 0 <= memory.megabytes < 5


def test_plain_columns() -> None:
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


def test_setting_c_alone_is_that_of_the_three(tables) -> None:
    """Where the real rows happen to be split like the synthetic ones."""
    train, test = tables
    options = {"target": "label", "classifiers": ["GaussianNB", "LinearSVC"]}
    three = setting_scores(train[:80], test[:20], train, **options)
    alone = synthetic_only_scores(train, **options)
    pd.testing.assert_frame_equal(alone, three["C"], check_names=False)
    assert alone.attrs["contains_private_statistics"] is False
    with pytest.raises(InvalidTableError, match="got one"):
        synthetic_only_scores(train[:1], **options)
    with pytest.raises(InvalidTableError, match="'synthetic', but there is one"):
        synthetic_only_scores(train.assign(label="no"), **options)


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.lists(st.integers(-200, 200), min_size=1),
        st.lists(st.floats(-1e6, 1e6), min_size=1),
    )
)
def test_shares_of_numbers_sum_to_one(values: list[float]) -> None:
    column = PlainColumn("x", "number", [float(v) for v in values])
    found = marginal(column)
    assert sum(found.shares) == pytest.approx(1.0)
    assert len(found.shares) == len(found.bins) - 1 <= 30
    assert np.all(np.diff(found.bins) > 0)
    # Another column in the same bins: what is outside counts in the outer ones.
    far = PlainColumn("x", "number", [-1e9, 1e9, None, 1e9])
    assert shares(far, found)[0] + shares(far, found)[-1] >= 0.75


def test_whole_numbers_have_bins_of_their_own() -> None:
    column = PlainColumn("x", "number", [0.0] * 6 + [1.0] * 3 + [4.0])
    found = marginal(column)
    assert found.bins == [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5]
    assert found.shares == pytest.approx([0.6, 0.3, 0, 0, 0.1])


def test_shares_of_categories() -> None:
    """The twelve most frequent by name, then the others, then the missing ones."""
    values = [f"l{i:02d}" for i in range(20) for _ in range(20 - i)] + [None] * 10
    found = marginal(PlainColumn("k", "category", values))
    assert found.bins == [*(f"l{i:02d}" for i in range(12)), "(other)", "(missing)"]
    assert found.shares[0] == pytest.approx(20 / 220)
    assert found.shares[-2:] == pytest.approx([sum(range(1, 9)) / 220, 10 / 220])
    assert sum(found.shares) == pytest.approx(1.0)
    empty = marginal(PlainColumn("k", "category", []))
    assert empty.shares == [0.0, 0.0]
