"""Rows of a mixture are changed until they follow the relations, and no further."""

import numpy as np
import pytest

from skdpsynth.measure import Relation
from skdpsynth.model import Followers, Mixture, MixtureGenerator

STARTS = np.array([0, 3, 7])
N_ROWS = 200_000


def independent(first=(0.2, 0.3, 0.5), second=(0.4, 0.3, 0.2, 0.1)):
    """A mixture of two columns that say nothing of each other."""
    shares = np.array([*first, *second])
    ends = np.concatenate([np.cumsum(first), np.cumsum(second)])
    return Mixture.independent(shares, np.array([ends - shares, ends]))


def drawn(generator, seed=0):
    """Give the table of bins of many rows, and their ranks."""
    codes = np.zeros(N_ROWS, dtype=np.int64)
    ranks = generator.draw(codes, np.random.default_rng(seed))
    first, second = np.split(generator.mixtures[0].ranks[0], [3])
    bins = [
        np.searchsorted(low, own, "right") - 1
        for low, own in zip((first, second), ranks.T, strict=True)
    ]
    table = np.zeros((3, 4))
    np.add.at(table, tuple(bins), 1.0 / N_ROWS)
    return table, ranks


def followers(relation, std=0.0, mixtures=None):
    found = Followers([relation], std, (), ())
    mixtures = [independent()] if mixtures is None else mixtures
    found.compare(mixtures, np.ones(len(mixtures)), STARTS)
    return MixtureGenerator(mixtures, STARTS, found)


def joint(seed=1):
    """A table with zeros whose sums are those of the mixture."""
    rng = np.random.default_rng(seed)
    table = rng.random((3, 4)) ** 3
    table[0, 3] = table[2, 0] = 0.0
    rows, columns = np.array([0.2, 0.3, 0.5]), np.array([0.4, 0.3, 0.2, 0.1])
    for _ in range(500):
        table *= (rows / table.sum(axis=1))[:, None]
        table *= columns / table.sum(axis=0)
    return table


@pytest.mark.parametrize("turned", [False, True])
def test_a_strong_relation_is_drawn_as_it_was_measured(turned):
    """A share of 200,000 rows is off by 0.0011 at most, 5 deviations 0.0056."""
    wanted = joint()
    relation = Relation(0, 1, wanted, strong=True)
    if turned:
        relation = Relation(1, 0, wanted.T, strong=True)
    generator = followers(relation)
    table, _ = drawn(generator)
    assert np.abs(table - wanted).max() < 0.0056
    assert table[0, 3] == table[2, 0] == 0.0
    # One row is drawn like many: changes follow from the mixtures, not from the rows.
    rng, one = np.random.default_rng(0), np.zeros(1, dtype=np.int64)
    ranks = np.concatenate([generator.draw(one, rng) for _ in range(2000)])
    low = generator.mixtures[0].ranks[0]
    bins = np.searchsorted(low[3:7], ranks[:, 1], "right") - 1
    share = np.bincount(bins, minlength=4) / len(bins)
    assert np.abs(share - wanted.sum(axis=0)).max() < 0.06


def test_other_relations_change_what_is_surely_wrong_alone():
    """Impossible pairs go. Others stay within three deviations of what was measured."""
    wanted, std = joint(), 0.01
    relation = Relation(0, 1, wanted, strong=False)
    before = np.outer([0.2, 0.3, 0.5], [0.4, 0.3, 0.2, 0.1])
    table, _ = drawn(followers(relation, std))
    assert table[0, 3] == table[2, 0] == 0.0
    off, was = np.abs(table - wanted), np.abs(before - wanted)
    assert (off < np.maximum(was, 3 * std) + 0.03).all()
    assert table.sum(axis=1) == pytest.approx([0.2, 0.3, 0.5], abs=0.006)
    loose, _ = drawn(followers(Relation(0, 1, before, strong=False), std))
    assert np.abs(loose - before).max() < 0.0056  # nothing is wrong, nothing changes


def test_every_class_keeps_what_distinguishes_it():
    """Two classes with other shares of the first column follow one relation."""
    mixtures = [independent(), independent(first=(0.6, 0.2, 0.2))]
    relation = Relation(0, 1, joint(), strong=True)
    generator = followers(relation, mixtures=mixtures)
    codes = np.repeat([0, 1], N_ROWS // 2)
    ranks = generator.draw(codes, np.random.default_rng(0))
    share = (ranks[codes == 1, 0] < 0.6).mean()
    assert share == pytest.approx(0.6, abs=0.01)
