"""A fit has one thread, and the others are given back, whichever thread it is in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skdpsynth.measure import PairTables
from skdpsynth.model import Heads, ReleasedClass

# Holds the threads longer than a fit does, so that two overlap.
from skdpsynth.model._fit import fit_components, one_thread


def blas_threads() -> list[int]:
    own = [part for part in threadpool_info() if part["user_api"] == "blas"]
    return [part["num_threads"] for part in own]


# Such as that of Accelerate.
pytestmark = pytest.mark.skipif(not blas_threads(), reason="a BLAS without limits")


@pytest.fixture(autouse=True)
def _two_threads():
    """Whatever the environment says: with one the tests would see nothing."""
    limits = threadpool_limits(2, user_api="blas")
    with one_thread():
        pass  # its end lets any thread set limits
    yield
    limits.restore_original_limits()
    with one_thread():
        pass


class Watched(ReleasedClass):
    """Notes how many threads NumPy has at every step; fails at the `most`-th."""

    def distance(self, *given, **more):
        self.seen = [*getattr(self, "seen", ()), set(blas_threads())]
        if len(self.seen) == getattr(self, "most", np.inf):
            raise RuntimeError
        return super().distance(*given, **more)


def fit(most: float = np.inf) -> Watched:
    """Fit two columns of two values."""
    starts, shares = np.array([0, 2, 4]), np.full(4, 0.5)
    pairs = np.kron(np.triu(np.ones((2, 2)), 1), np.ones((2, 2)))
    counts = (250.0 * pairs).astype(np.float32)
    tables = PairTables(counts, pairs > 0, 1.0, 1000.0, np.array([[0, 1]]))
    one = Watched(starts, shares, 1.0, tables)
    one.most = most
    fit_components([one], np.ones(1), Heads(starts, np.full(4, np.nan)), seed=0)
    return one


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("elsewhere", [False, True])
def test_steps_take_one_thread(elsewhere):
    """Threads that wait for each other take four times as long on a busy machine."""
    one = fit()
    if elsewhere:  # after a fit of the main thread
        with ThreadPoolExecutor(1) as pool:
            one = pool.submit(fit).result()
    assert len(one.seen) >= 20
    assert all(seen == {1} for seen in one.seen)
    assert set(blas_threads()) == {2}


@pytest.mark.parametrize("failing", [False, True])
def test_threads_are_given_back(failing):
    with pytest.raises(RuntimeError) if failing else nullcontext():
        fit(most=5 if failing else np.inf)
    assert set(blas_threads()) == {2}
    with threadpool_limits(1, user_api="blas"):
        assert set(blas_threads()) == {1}  # the user's own limits still count
