"""The threads of a computation: the CPUs, or fewer where that is asked for."""

from __future__ import annotations

import pytest

from skdpsynth.utils import n_threads


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
