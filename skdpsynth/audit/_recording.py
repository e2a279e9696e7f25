"""Record every release of a fit, and answer another fit with what was recorded."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skdpsynth.privacy.testing import Release, observe_releases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


class SequenceError(Exception):
    """The second fit asks for other releases than the first; says how."""


@contextmanager
def recorded() -> Iterator[list[Release]]:
    """Collect all releases that are made inside, in order."""
    kept: list[Release] = []
    with observe_releases(kept.append):
        yield kept


@contextmanager
def replayed(history: list[Release]) -> Iterator[list[Release]]:
    """Answer every release with what the same release of another fit gave.

    Yields what this fit handed in, with the answers of the other. Raises a
    `SequenceError` where name, payer or shape differ. The own noise is drawn too, so
    that both fits use up as many secret draws.
    """
    kept: list[Release] = []

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
        kept.append(replace(own, noisy=other.noisy))
        return other.noisy

    with observe_releases(answer):
        yield kept
