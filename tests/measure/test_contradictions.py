"""Parts of measurements that are not of one fit are refused, one by one."""

from dataclasses import replace

import numpy as np
import pytest
from tables import fitted

from skdpsynth.measure import Measurements
from skdpsynth.utils import DAMAGED


def put_together(known, released=None, **parts):
    own = {"planned_stds": known.planned_stds, "cells": known.cells} | parts
    return Measurements(known.metadata, known if released is None else released, **own)


def with_query(known, kind, **changes):
    """Change the queries of one kind, and keep the answers."""
    return put_together(
        known,
        [
            replace(own, query=replace(own.query, **changes))
            if own.query.kind == kind
            else own
            for own in known
        ],
    )


def with_bins(known, **changes):
    """Change the bins of the column of categories: three, other, missing."""
    columns = [*known.bins.columns]
    columns[2] = replace(columns[2], **changes)
    return with_query(known, "pairs", bins=replace(known.bins, columns=columns))


def with_values(known, **changes):
    return put_together(known, [replace(own, **changes) for own in known])


CONTRADICTIONS = {
    "a category without a code": lambda own: with_bins(
        own, of_code=own.bins.columns[2].of_code[1:]
    ),
    "no bin of missing values": lambda own: with_bins(
        own, of_code=np.array([0, 1, 2, 3, 3])
    ),
    "bins of another column": lambda own: with_bins(own, **vars(own.bins.columns[0])),
    "counts of another column": lambda own: with_query(
        own, "marginals", columns=own[0].query.columns[::-1]
    ),
    "counts of fewer bins": lambda own: with_values(own, values=own[0].values[1:]),
    "numbers that are none": lambda own: with_values(
        own, values=own[0].values * np.nan
    ),
    "noise below none": lambda own: with_values(own, noise_std=-1.0),
    "a mu below none": lambda own: with_values(own, mu=-1.0),
    "another class": lambda own: with_values(own, scope="nobody"),
    "a column twice": lambda own: with_query(own, "pairs", sets=own.pairs[0].pairs * 0),
    "a column too far": lambda own: with_query(
        own, "pairs", sets=own.pairs[0].pairs + 9
    ),
    "noise of one class": lambda own: put_together(
        own, planned_stds=own.planned_stds[:1]
    ),
    "rounds of one class": lambda own: put_together(
        own, [one for one in own if one.scope == own[0].scope]
    ),
    "cells of another column": lambda own: put_together(
        own, cells={2: np.array([0.0, 1.0])}
    ),
}


@pytest.fixture(scope="module")
def known():
    """Of a column of numbers, of whole numbers, of three categories, and others."""
    return fitted("pairwise rich", 9.0).measurements_


@pytest.mark.parametrize("lie", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_parts_of_different_fits_cannot_be_put_together(known, lie):
    """By nobody: the constructor refuses them, so no reader of a file can forget it."""
    assert put_together(known).pairs.keys() == {0, 1}
    with pytest.raises(DAMAGED):
        lie(known)
