"""A fit has one thread, and the others are given back, whichever thread it is in."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skdpsynth.measure import PairTables
from skdpsynth.model import Heads, ReleasedClass

# Holds the threads longer than a fit does, so that two overlap.
from skdpsynth.model._fit import fit_components, one_thread


def blas_threads() -> set[int]:
    return {
        own["num_threads"] for own in threadpool_info() if own["user_api"] == "blas"
    }


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
    """Notes how many threads NumPy has at every step; fails at the fifth if asked."""

    def slopes(self, *given, **more):
        self.seen = [*getattr(self, "seen", ()), blas_threads()]
        if self.failing and len(self.seen) == 5:
            raise RuntimeError
        return super().slopes(*given, **more)


def fit(*, failing: bool) -> list[set[int]]:
    """Fit two columns of two values."""
    starts, shares = np.array([0, 2, 4]), np.full(4, 0.5)
    pairs = np.kron(np.triu(np.ones((2, 2)), 1), np.ones((2, 2)))
    counts = (250.0 * pairs).astype(np.float32)
    tables = PairTables(counts, pairs > 0, 1.0, 1000.0, np.array([[0, 1]]))
    one = Watched(starts, shares, 1.0, tables)
    one.failing = failing
    fit_components([one], np.ones(1), Heads(starts, np.full(4, np.nan)), seed=0)
    return one.seen


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("elsewhere", [False, True])
def test_steps_take_one_thread_and_give_the_others_back(elsewhere):
    """Threads that wait for each other take four times as long on a busy machine."""
    with pytest.raises(RuntimeError):
        fit(failing=True)
    assert blas_threads() == {2}
    seen = fit(failing=False)
    if elsewhere:  # after a fit of the main thread
        with ThreadPoolExecutor(1) as pool:
            seen = pool.submit(fit, failing=False).result()
    assert len(seen) >= 20
    assert all(own == {1} for own in seen)
    assert blas_threads() == {2}
    with threadpool_limits(1, user_api="blas"):
        assert blas_threads() == {1}  # the user's own limits still count
