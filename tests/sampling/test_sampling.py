"""Class shares become counts that add up, with every class where there is room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.sampling._sampler import checked_number, class_counts, in_random_order
from skdpsynth.table import Classes, largest_remainder

CLASSES = Classes(("a", "b", "c"), np.array([900.0, 99.0, 1.0]))


def counts_of(n_samples, strategy=None, classes=CLASSES) -> list[int]:
    return class_counts(checked_number(n_samples), strategy, classes).tolist()


@given(
    st.lists(st.floats(0, 1) | st.just(0.0), min_size=1, max_size=30).filter(
        lambda weights: sum(weights) > 1e-6
    ),
    st.integers(1, 10**6),
)
@settings(max_examples=200, deadline=None)
def test_largest_remainder(weights, total):
    shares = np.array(weights) / sum(weights)
    counts = largest_remainder(shares, total)
    present = shares > 0
    assert counts.sum() == total
    assert (counts >= 0).all()
    assert (counts[~present] == 0).all()
    if total >= present.sum():
        assert (counts[present] >= 1).all()
    if (np.floor(shares[present] * total) >= 1).all():  # nobody had to be lifted to 1
        assert (np.abs(counts - shares * total) < 1 + 1e-6).all()


def test_the_bought_shares_are_the_default():
    assert counts_of(1000) == [900, 99, 1]
    assert counts_of(10) == [8, 1, 1]
    assert counts_of(2) == [2, 0, 0]
    assert counts_of(5, classes=Classes((), np.array([77.0]))) == [5]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("balanced", [4, 3, 3]),
        ({"a": 0.5, "b": 0.5}, [5, 5, 0]),
        ({"a": 0.7, "b": 0.2, "c": 0.1}, [7, 2, 1]),
        ({"c": 1}, [0, 0, 10]),
        ({"a": 3, "c": 7}, [3, 0, 7]),
        ({"a": np.int64(10), "b": 0}, [10, 0, 0]),
        ({"a": np.float32(0.5), "b": 0.5}, [5, 5, 0]),
    ],
)
def test_strategies(strategy, expected):
    assert counts_of(10, strategy) == expected


@pytest.mark.parametrize(
    ("n_samples", "strategy", "message"),
    [
        (0, None, ">= 1"),
        (True, None, "bool"),
        (2.0, None, "float"),
        (10, "even", "'balanced'"),
        (10, [1, 2], "list"),
        (10, {"z": 1.0}, "names"),
        (10, {"a": 0.5}, "add up to 0.5"),
        (10, {"a": 5, "b": 6}, "add up to 11"),
        (10, {"a": -1.0, "b": 2.0}, ">= 0"),
        (10, {"a": float("nan")}, ">= 0"),
        (10, {"a": True}, ">= 0"),
        (10, {"a": "all"}, ">= 0"),
    ],
)
def test_wrong_arguments(n_samples, strategy, message):
    with pytest.raises(ValueError, match=message):
        counts_of(n_samples, strategy)


def test_rows_are_shuffled_from_the_public_stream():
    first = in_random_order(np.array([900, 99, 1]), np.random.default_rng(7))
    again = in_random_order(np.array([900, 99, 1]), np.random.default_rng(7))
    other = in_random_order(np.array([900, 99, 1]), np.random.default_rng(8))
    assert (first == again).all()
    assert (first != other).any()
    assert (np.diff(first) < 0).any()
    assert np.bincount(first).tolist() == [900, 99, 1]
