"""How many synthetic rows of each class, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._classes import Classes


def in_random_order(
    counts: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Give the class of every synthetic row, so many of each."""
    members = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    rng.shuffle(members)
    return members


def checked_number(number: int, name: str = "n_samples") -> int:
    """Give a number of rows to sample; raise ValueError if it is none."""
    if isinstance(number, bool) or not isinstance(number, Integral):
        msg = f"{name} must be an int >= 1. Got {type(number).__name__} instead."
        raise ValueError(msg)
    if number < 1:
        raise ValueError(f"{name} must be an int >= 1. Got {number} instead.")
    return int(number)


def public_seed(random_state: int | np.random.RandomState | None) -> int:
    """Turn a `random_state` into a seed >= 0; no global generator is read."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if random_state is np.random:
        msg = "random_state must be an int, a RandomState or None, not a module."
        raise ValueError(msg)
    return int(check_random_state(random_state).randint(2**31 - 1))


def largest_remainder(shares: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Divide `total` by shares of sum 1; all above 0 get one where possible."""
    exact = shares * total
    counts = np.floor(exact).astype(np.int64)
    rest = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:rest]] += 1
    if total >= np.count_nonzero(shares > 0):
        for position in np.flatnonzero((counts == 0) & (shares > 0)):
            counts[counts.argmax()] -= 1
            counts[position] = 1
    return counts


def class_counts(
    n_samples: int, strategy: str | Mapping[Hashable, float] | None, classes: Classes
) -> NDArray[np.int64]:
    """Choose how many rows each class has; `strategy` is as in `sample`."""
    if strategy is None:
        return largest_remainder(classes.prior, n_samples)
    if isinstance(strategy, str) and strategy == "balanced":
        return largest_remainder(np.full(len(classes), 1 / len(classes)), n_samples)
    if not isinstance(strategy, Mapping):
        raise ValueError(
            "sampling_strategy must be None, 'balanced' or a dict from class to share "
            f"or count. Got {type(strategy).__name__} instead."
        )
    unknown = [key for key in strategy if key not in classes.levels]
    if unknown:
        raise ValueError(
            f"sampling_strategy names {unknown!r}, but the fitted classes are "
            f"{list(classes.levels)!r}."
        )
    values = [strategy.get(level, 0) for level in classes.levels]
    if not all(
        isinstance(v, Real) and not isinstance(v, bool) and v >= 0 for v in values
    ):
        raise ValueError("sampling_strategy must hold numbers >= 0.")
    if all(isinstance(value, Integral) for value in values) and sum(values) != 1:
        if sum(values) != n_samples:
            raise ValueError(
                f"The counts of sampling_strategy add up to {sum(values)}, but "
                f"n_samples is {n_samples}."
            )
        return np.array(values, dtype=np.int64)
    total = float(sum(values))
    if abs(total - 1.0) > 1e-9:
        msg = f"The shares of sampling_strategy add up to {total!r} instead of 1."
        raise ValueError(msg)
    return largest_remainder(np.array(values, dtype=np.float64), n_samples)
