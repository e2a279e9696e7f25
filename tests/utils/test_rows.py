"""Rows by class and in chunks, and the threads of a computation."""

from itertools import chain

import numpy as np
import pytest

from skdpsynth.utils import in_chunks, in_order_of_class, n_threads


@pytest.mark.parametrize("n_classes", [3, 2**15])
def test_rows_in_order_of_class(n_classes):
    codes = np.random.default_rng(0).integers(0, 3, 1000)
    order, places = in_order_of_class(codes, n_classes)
    for c, place in enumerate(places):
        assert order[place].tolist() == np.flatnonzero(codes == c).tolist()


@pytest.mark.parametrize("n_rows", [0, 1, 6, 7, 8, 21])
def test_every_row_is_in_one_chunk(n_rows):
    chunks = [range(n_rows)[own] for own in in_chunks(n_rows, 7)]
    assert [*chain.from_iterable(chunks)] == [*range(n_rows)]
    assert all(1 <= len(chunk) <= 7 for chunk in chunks)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("1", 1), ("3", 3), ("99", 4), ("0", 4), ("", 4), ("4,2", 4), (None, 4)],
)
def test_the_limit_is_kept(limit, expected, monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if limit is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert n_threads() == expected
