"""Rows in parts: sums are those of the whole, and no part is lost or counted twice."""

import os
import tempfile
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from _counting import length_of_part
from _reserve import exact
from hypothesis import given, strategies as st

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.privacy import Counted, LocalParts, Step
from skdpsynth.privacy.statistics import noisy_histogram

CODES = np.random.default_rng(0).integers(0, 5, (200, 3))


def cut(rows, *places):
    """Give rows as parts that end at some places."""
    ends = sorted({0, *places, len(rows)})
    return LocalParts(lambda: iter([rows[a:b] for a, b in pairwise(ends)]))


@given(st.lists(st.integers(0, 200), max_size=8))
def test_counts_are_those_of_the_whole_however_it_is_cut(places):
    """Also of many parts, which several threads count."""
    parts = cut(CODES, *places)
    counts = noisy_histogram(parts, [5] * 3, exact(3**0.5))
    assert [own.tolist() for own in counts] == [
        np.bincount(column, minlength=5).tolist() for column in CODES.T
    ]
    assert sum(parts.n_rows.values()) == 200
    assert (np.concatenate([*parts.map(np.negative).each()]) == -CODES).all()
    with pytest.raises(ValueError, match="integer codes"):  # comes through
        noisy_histogram(parts, [5, 5, 4], exact(3**0.5))


def test_the_number_of_a_part_and_counters():
    parts = cut(CODES, 50, 120)
    assert parts.total(length_of_part, numbered=True) == Counter({0: 50, 1: 70, 2: 80})


def test_a_part_that_comes_twice_is_refused():
    once = Counted({1: 10}, np.arange(3))
    with pytest.raises(InvalidTableError, match="came twice"):
        once + Counted({0: 4, 1: 10}, np.arange(3))
    assert (once + Counted({0: 4}, np.arange(3))).n_rows == {0: 4, 1: 10}


def test_a_sum_leaves_what_it_was_given():
    """A task of a cluster may be given the same counts again."""
    counts = [Counted({n: 2}, [Counter(a=1, b=1), np.arange(2)]) for n in range(3)]
    for _ in range(2):
        total = counts[0] + counts[1] + counts[2]
        assert total.value[0] == Counter(a=3, b=3)
        assert total.value[1].tolist() == [0, 3]


def test_nothing_private_is_in_a_repr():
    found = [Counted({0: 77}, 88), Step(length_of_part, (99,))]
    assert str(found) == "[Counted(...), Step(length_of_part)]"


@pytest.mark.parametrize(
    "later",
    [
        [CODES[:100]],
        [CODES[:100], CODES[100:], CODES[:100]],
        [CODES[100:], CODES[:90]],
        [],
    ],
    ids=["lost", "once more", "other rows", "nothing"],
)
def test_other_parts_than_before_are_refused(later):
    """In a sum, and where parts are kept."""
    readings = iter([[CODES[:100], CODES[100:]], later, later])
    parts = LocalParts(lambda: iter(next(readings)))
    parts.total(np.sum)
    with pytest.raises(InvalidTableError, match="read before"):
        parts.total(np.sum)
    with pytest.raises(InvalidTableError, match="read before"):
        parts.kept()


def test_parts_are_kept_in_a_file_without_a_name(monkeypatch, tmp_path):
    """So that it ends with the process, however that ends."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    readings = iter([[CODES[:100], CODES[100:]]])
    kept = LocalParts(lambda: iter(next(readings))).map(np.negative).kept()
    assert os.listdir(tmp_path) == []
    for _ in range(2):
        assert (np.concatenate([*kept.each()]) == -CODES).all()
