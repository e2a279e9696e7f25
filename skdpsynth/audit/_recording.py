"""Record every release of a fit, and answer another fit with what was recorded."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import erf

from skdpsynth.privacy._counts import MIN_KEY_COUNT
from skdpsynth.privacy.testing import Release, observe_releases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

# What answers for a key that is not to pass, below every threshold.
NOT_PASSED = -(2**62)
# Natural logarithm of the probability below which the absence of noise is no accident.
_NO_ACCIDENT = -28.0


class SequenceError(Exception):
    """The second fit asks for other releases than the first; says how."""


@dataclass(frozen=True, eq=False)
class Seen(Release):
    """A release, with what is kept of its parts.

    `teachers` has a digest for each teacher that adds anything; `adds_up` says whether
    they are all of the exact value, `silent` that no noise was added where some was
    paid for, and `noise` is a digest of what was added to whole numbers.
    """

    teachers: dict[int, bytes] | None = None
    adds_up: bool = True
    silent: bool = False
    noise: bytes = b""

    @classmethod
    def of(cls, release: Release) -> Seen:
        """Take in what is told; the private parts are not kept."""
        own = {f.name: getattr(release, f.name) for f in fields(Release)}
        teachers, adds_up = None, True
        if release.by_teacher is not None:
            teachers, adds_up = _digests(release)
        own["by_teacher"] = None
        noise = b""
        whole = release.exact.dtype == release.noisy.dtype == np.int64
        if whole and release.keys is None:
            noise = _digest(release.noisy - release.exact)
        return cls(
            **own,
            teachers=teachers,
            adds_up=adds_up,
            silent=_silent(release),
            noise=noise,
        )


def _digest(array: NDArray[Any]) -> bytes:
    return blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).digest()


def _digests(release: Release) -> tuple[dict[int, bytes], bool]:
    """Give a digest per teacher that adds anything, and whether they add up."""
    assert release.by_teacher is not None
    told = release.by_teacher()
    parts = told if isinstance(told, dict) else dict(enumerate(np.asarray(told)))
    kept = {int(t): np.asarray(part, dtype=np.int64) for t, part in parts.items()}
    adds_up = True
    if not kept:
        adds_up = not release.exact.any()
    elif next(iter(kept.values())).shape == release.exact.shape:
        total = sum(kept.values(), np.zeros_like(release.exact))
        adds_up = bool(np.array_equal(total, release.exact))
    return {t: _digest(part) for t, part in kept.items() if part.any()}, adds_up


def _silent(release: Release) -> bool:
    """Tell whether numbers came out as they went in, although noise was paid for."""
    std = release.reservation.noise_std * release.unit
    if std == 0 or release.exact.dtype != release.noisy.dtype:
        return False
    if not np.array_equal(release.exact, release.noisy):
        return False
    if release.exact.dtype != np.int64:
        return release.exact.size > 0
    alone = float(erf(0.5 / std / math.sqrt(2)))  # that noise rounds to 0
    return release.exact.size * math.log(alone) < _NO_ACCIDENT


@contextmanager
def recorded(*, edge: bool = False) -> Iterator[list[Seen]]:
    """Collect all releases that are made inside, in order.

    With `edge`, inside `insecure_randomness`, keys of the least count that is released
    do not pass: a neighbour may lack them, which the delta of the release covers.
    """
    kept: list[Seen] = []

    def keep(release: Release) -> NDArray[Any] | None:
        own = Seen.of(release)
        if edge and own.keys is not None:
            noisy = np.where(own.exact > MIN_KEY_COUNT, own.noisy, NOT_PASSED)
            own = replace(own, noisy=noisy)
            kept.append(own)
            return noisy
        kept.append(own)
        return None

    with observe_releases(keep):
        yield kept


@contextmanager
def replayed(history: list[Seen]) -> Iterator[list[Seen]]:
    """Answer every release with what the same release of another fit gave.

    Yields what this fit handed in, with the answers of the other. Raises a
    `SequenceError` where name, payer or shape differ. A key that only this fit has does
    not pass. The own noise is drawn too, so that both fits use up as many secret draws.
    """
    kept: list[Seen] = []

    def answer(own: Release) -> NDArray[Any]:
        if len(kept) == len(history):
            raise SequenceError(f"one fit releases {own.reservation.name!r} more often")
        other = history[len(kept)]
        if own.what != other.what:
            raise SequenceError(
                f"release {len(kept)} is {other.reservation.name!r} of shape "
                f"{other.exact.shape} in one fit, and {own.reservation.name!r} of "
                f"shape {own.exact.shape} in the other"
            )
        noisy = other.noisy
        if own.keys is not None and other.keys is not None:
            known = dict(zip(named(other), other.noisy.tolist(), strict=True))
            answers = [known.get(key, NOT_PASSED) for key in named(own)]
            noisy = np.array(answers, dtype=np.int64)
        kept.append(replace(Seen.of(own), noisy=noisy))
        return noisy

    with observe_releases(answer):
        yield kept


def named(release: Release) -> list[tuple[int, type, Any]]:
    """Give what tells the entries of a release from each other; 1 is not True."""
    return [(column, type(key), key) for column, key in release.keys or ()]
