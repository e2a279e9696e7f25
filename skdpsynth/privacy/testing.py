"""Seeded privacy noise for tests. What runs inside is not private, and says so."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.privacy._random import _insecure_seeds

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["insecure_randomness"]


@contextmanager
def insecure_randomness(seed: int) -> Iterator[None]:
    """Draw secret randomness from a seed, so that a test can repeat a fit.

    Parameters
    ----------
    seed : int
        Non-negative. Equal seeds give equal streams.

    Yields
    ------
    None
        Inside the block every secret generator is the next child stream of `seed`,
        and noise is rounded normal noise.

    Notes
    -----
    A fit that draws inside has ``epsilon_ == inf``, and its report says why.
    The context covers the calling thread (and tasks that copy its context). Threads
    and processes started inside draw secure randomness.

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
