"""Parts of measurements that are not of one fit are refused, one by one."""

from dataclasses import replace

import numpy as np
import pytest
from tables import fitted

from skdpsynth.utils import DAMAGED


def with_bins(own, j, **changes):
    columns = [*own.bins.columns]
    columns[j] = replace(columns[j], **changes)
    return replace(own, bins=replace(own.bins, columns=columns))


def with_counts(own, counts):
    first, *more = own.rounds[0]
    released = replace(first.released, deviations=counts(first.released.deviations))
    rounds = [[replace(first, released=released), *more], *own.rounds[1:]]
    return replace(own, rounds=rounds)


def with_pairs(own, **changes):
    return replace(own, pairs=own.pairs | {0: own.pairs[0]._replace(**changes)})


KIND = 2  # the column of categories: three categories, other, missing
CONTRADICTIONS = {
    "a category without a code": lambda own: with_bins(
        own, KIND, of_code=own.bins.columns[KIND].of_code[1:]
    ),
    "no bin of missing values": lambda own: with_bins(
        own, KIND, of_code=np.array([0, 1, 2, 3, 3]), n_bins=4
    ),
    "bins of another column": lambda own: with_bins(
        own, KIND, **vars(own.bins.columns[0])
    ),
    "counts of another column": lambda own: with_counts(own, lambda all_: all_[::-1]),
    "counts of fewer bins": lambda own: with_counts(
        own, lambda all_: [counts[1:] for counts in all_]
    ),
    "a column twice": lambda own: with_pairs(own, pairs=own.pairs[0].pairs * 0),
    "a column too far": lambda own: with_pairs(own, pairs=own.pairs[0].pairs + 9),
    "tables of fewer bins": lambda own: with_pairs(own, counts=own.pairs[0].counts[1:]),
    "noise below none": lambda own: with_pairs(own, noise_std=-1.0),
    "a class too far": lambda own: replace(own, pairs={2: own.pairs[0]}),
    "noise of one class": lambda own: replace(own, noise_stds=own.noise_stds[:1]),
    "rounds of one class": lambda own: replace(own, rounds=own.rounds[:1]),
}


@pytest.fixture(scope="module")
def measured():
    """Of a column of numbers, of whole numbers, of three categories, and others."""
    return fitted("pairwise rich", 9.0).measurements_.origin.measured


@pytest.mark.parametrize("lie", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_parts_of_different_fits_cannot_be_put_together(measured, lie):
    """By nobody: the constructor refuses them, so no reader of a file can forget it."""
    assert replace(measured).pairs.keys() == {0, 1}
    with pytest.raises(DAMAGED):
        lie(measured)
