"""Secret randomness: privacy noise, teacher assignment, minibatches, masks.

It always comes from the operating system, never from ``random_state``: with a
guessable seed the output of a fit is a deterministic function of the data. The only
exception is the named context of `skdpsynth.privacy.testing`, and a fit inside it
reports an infinite epsilon.
"""

from __future__ import annotations

import secrets
import zlib
from contextvars import ContextVar
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from skdpsynth.utils.arrays import Floats, Ints

# Set by `skdpsynth.privacy.testing.insecure_randomness` alone. The threads of
# `LocalParts` copy it; any other new thread or process starts with OS entropy.
_insecure_seeds: ContextVar[np.random.SeedSequence | None] = ContextVar(
    "skdpsynth_insecure_seeds", default=None
)

# Set by `skdpsynth.privacy.testing.coupled_rows` alone; of effect beside seeds only.
_coupled: ContextVar[bool] = ContextVar("skdpsynth_coupled", default=False)
_PLACES: int = np.iinfo(np.uint16).max  # draws that rows share out among them


def insecure_randomness_active() -> bool:
    """Return whether the calling context draws from a seeded, insecure stream."""
    return _insecure_seeds.get() is not None


def secret_generator() -> np.random.Generator:
    """Make a generator for draws that the privacy guarantee relies on.

    It is seeded with 256 bits of the operating system's entropy; inside
    `insecure_randomness` it is the next child stream of that context's seed. Do not
    keep, pickle or publish it. NumPy's global generator is neither read nor set.
    """
    insecure = _insecure_seeds.get()
    if insecure is None:
        entropy = np.frombuffer(secrets.token_bytes(32), np.uint32)
        # The default pool, of four words, keeps 128 bits only.
        seeds = np.random.SeedSequence(entropy, pool_size=len(entropy))
    else:
        seeds = insecure.spawn(1)[0]
    return np.random.Generator(np.random.PCG64DXSM(seeds))


def of_rows(rng: np.random.Generator, rows: Any) -> np.random.Generator:  # noqa: ANN401 - an array, or a tensor
    """Return `rng`; inside `coupled_rows`, draws that follow from what is in a row."""
    if not (_coupled.get() and insecure_randomness_active()):
        return rng
    array = np.ascontiguousarray(rows.cpu() if hasattr(rows, "cpu") else rows)
    keys = np.array([zlib.crc32(row.tobytes()) % _PLACES for row in array], np.int64)
    return cast("np.random.Generator", _DrawsOfKeys(rng, keys))


class _DrawsOfKeys:
    """One draw per key, the same for equal keys, wherever they stand."""

    def __init__(self, rng: np.random.Generator, keys: Ints) -> None:
        self._rng, self._keys = rng, keys

    def random(self, size: int) -> Floats:
        return self._shared(self._rng.random(_PLACES), size)

    def integers(self, high: int, *, size: int, dtype: type) -> NDArray[Any]:
        return self._shared(self._rng.integers(high, size=_PLACES, dtype=dtype), size)

    def _shared(self, draws: NDArray[Any], size: int) -> NDArray[Any]:
        if size != len(self._keys):
            raise ValueError(f"Expected {len(self._keys)} draws, one each. Got {size}.")
        return draws[self._keys]


def rounded_normal(std: float, size: int) -> Ints:
    """Draw normal noise rounded to integers, for the insecure context only."""
    if not insecure_randomness_active():
        raise RuntimeError(
            "rounded_normal works inside insecure_randomness only; "
            "use release_gaussian for private noise."
        )
    return rounded(secret_generator().normal(0.0, std, size))


def rounded(draws: Floats) -> Ints:
    """Round seeded noise to the nearest integers, and stop it at 2**62."""
    return np.clip(np.rint(draws), -(2.0**62), 2.0**62).astype(np.int64)
