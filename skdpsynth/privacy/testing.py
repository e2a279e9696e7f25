"""For tests: seeded privacy noise, and observed releases. Neither is private."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from skdpsynth.privacy._mechanisms import Observer, Release, _observer
from skdpsynth.privacy._random import _coupled, _insecure_seeds

__all__ = ["Release", "coupled_rows", "insecure_randomness", "observe_releases"]


@contextmanager
def insecure_randomness(seed: int) -> Iterator[None]:
    """Draw secret randomness from a seed, so that a test can repeat a fit.

    A fit that draws inside has ``epsilon_ == inf``, and its report says why.
    The context covers the calling thread (and tasks that copy its context, as those
    do by which a fit reads a table in parts). Other threads and processes that are
    started inside draw secure randomness.

    Parameters
    ----------
    seed : int
        Non-negative. Equal seeds give equal streams.

    Yields
    ------
    None
        Inside the block every secret generator is the next child stream of `seed`,
        and noise is rounded normal noise.

    Examples
    --------
    >>> from skdpsynth.privacy.testing import insecure_randomness
    >>> from skdpsynth.privacy import PrivacyAccountant
    >>> with insecure_randomness(0):
    ...     accountant = PrivacyAccountant(1.0, 1e-5)
    >>> accountant.epsilon
    inf
    """
    token = _insecure_seeds.set(np.random.SeedSequence(seed))
    try:
        yield
    finally:
        _insecure_seeds.reset(token)


@contextmanager
def coupled_rows() -> Iterator[None]:
    """Let the secret draw of a row follow from what is in the row.

    Teachers and Poisson samples draw one number per row, in order, so that a row that
    is added at the first place moves the draws of all others. Inside the block equal
    seeds give equal rows equal draws, whatever other rows there are, in which order,
    and in which part of the table. Since draws are independent, these are as good as
    any to compare two tables that differ in one row.

    It has no effect outside `insecure_randomness`, nor on workers of Dask, to which the
    context does not travel: choose the synchronous scheduler.

    Yields
    ------
    None
        Rows with equal content have equal draws. Everything else is drawn as before.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.privacy import of_rows, secret_generator
    >>> from skdpsynth.privacy.testing import coupled_rows, insecure_randomness
    >>> def draws(rows):
    ...     with insecure_randomness(0), coupled_rows():
    ...         return of_rows(secret_generator(), rows).random(len(rows))
    >>> rows = np.arange(10.0).reshape(5, 2)
    >>> bool((draws(rows)[1:] == draws(rows[1:])).all())
    True
    """
    token = _coupled.set(True)
    try:
        yield
    finally:
        _coupled.reset(token)


@contextmanager
def observe_releases(callback: Observer) -> Iterator[None]:
    """Call a function with every release that is made inside.

    A release holds the exact values: what an observer sees is not private. The
    context covers the calling thread, as that of `insecure_randomness` does.

    Parameters
    ----------
    callback : callable
        Takes a `Release` and gives None. Inside `insecure_randomness` it may give an
        array instead, which is then released in place of the noisy one.

    Yields
    ------
    None
        Inside the block a mechanism calls `callback` once the release is charged and
        drawn. Of two blocks the inner one counts.

    Raises
    ------
    ReservationError
        Inside the block, where `callback` gives an array outside `insecure_randomness`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.privacy import PrivacyAccountant
    >>> from skdpsynth.privacy.testing import observe_releases
    >>> accountant, seen = PrivacyAccountant(1.0, 1e-5), []
    >>> line = accountant.reserve_gaussian("counts", mu=0.05, sensitivity=1)
    >>> from skdpsynth.privacy._mechanisms import release_gaussian
    >>> with observe_releases(seen.append):
    ...     noisy = release_gaussian(np.array([3, 4]), line)
    >>> seen[0].exact.tolist(), (seen[0].noisy == noisy).all()
    ([3, 4], np.True_)
    """
    token = _observer.set(callback)
    try:
        yield
    finally:
        _observer.reset(token)
