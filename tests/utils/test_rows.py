"""Rows in the order of their classes, each class in the order of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from skdpsynth.utils._rows import in_order_of_class


@pytest.mark.parametrize("n_classes", [3, 2**15])
def test_rows_in_order_of_class(n_classes):
    members = np.random.default_rng(0).integers(0, 3, 1000)
    order, places = in_order_of_class(members, n_classes)
    for c, place in enumerate(places):
        assert order[place].tolist() == np.flatnonzero(members == c).tolist()
