"""Watch every release of a fit: what went in, what came out, who paid."""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.privacy import Reservation, _mechanisms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["Release", "SequenceError", "recorded", "replayed"]

_NAMES = ("release_gaussian", "release_votes", "release_float_gaussian")


class SequenceError(Exception):
    """The second fit asks for other releases than the first; says how."""


@dataclass(frozen=True, eq=False)  # it holds arrays
class Release:
    """One call of a mechanism.

    Parameters
    ----------
    reservation : Reservation
        What paid.
    exact : ndarray
        What went in.
    noisy : ndarray
        What came out.
    unit : float
        Size of one ledger unit: the clipping norm where there is one, else 1.
    n_releases : int
        How many releases of the reservation it was.
    """

    reservation: Reservation
    exact: NDArray[Any]
    noisy: NDArray[Any]
    unit: float
    n_releases: int

    @property
    def what(self) -> tuple[str, str, tuple[int, ...]]:
        """Name, payer and shape: what two fits must have in common."""
        line = self.reservation
        return line.name, str(line.scope), self.exact.shape


def _called(
    mechanism: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
) -> Release:
    """Read a release off a call, before there is an answer."""
    call = inspect.signature(mechanism).bind(*arguments, **named)
    call.apply_defaults()
    exact = np.array(next(iter(call.arguments.values())))
    reservation = call.arguments["reservation"]
    is_vote = isinstance(reservation, Reservation) and reservation.n_teachers > 0
    return Release(
        reservation=reservation,
        exact=exact,
        noisy=exact,
        unit=float(call.arguments.get("clip", 1.0)),
        n_releases=len(exact) if is_vote else call.arguments.get("n_releases", 1),
    )


@contextmanager
def recorded() -> Iterator[list[Release]]:
    """Note every release that is made inside.

    Yields
    ------
    list of Release
        In order; it fills while the block runs. A release that is made by anything but
        the package's three mechanisms is not in it.
    """
    kept: list[Release] = []

    def watch(real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            release = _called(real, arguments, named)
            noisy = real(*arguments, **named)
            kept.append(replace(release, noisy=np.array(noisy)))
            return noisy

        return watched

    with _in_place_of_the_mechanisms(watch):
        yield kept


@contextmanager
def replayed(history: list[Release]) -> Iterator[list[Release]]:
    """Answer every release with what the same release of another fit gave.

    Parameters
    ----------
    history : list of Release
        Of the other fit.

    Yields
    ------
    list of Release
        What this fit handed in, with the answers of the other.

    Raises
    ------
    SequenceError
        Inside the block, where name, payer or shape differ.
    """
    kept: list[Release] = []

    def watch(real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            own = _called(real, arguments, named)
            real(*arguments, **named)  # it uses up as many secret draws
            if len(kept) == len(history):
                msg = f"one fit releases {own.reservation.name!r} more often"
                raise SequenceError(msg)
            other = history[len(kept)]
            if own.what != other.what:
                msg = (
                    f"release {len(kept)} is {other.reservation.name!r} of shape "
                    f"{other.exact.shape} in one fit, and {own.reservation.name!r} of "
                    f"shape {own.exact.shape} in the other"
                )
                raise SequenceError(msg)
            kept.append(replace(own, noisy=other.noisy))
            return other.noisy.copy()

        return watched

    with _in_place_of_the_mechanisms(watch):
        yield kept


@contextmanager
def _in_place_of_the_mechanisms(
    watch: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    """Put watched mechanisms wherever a loaded module has imported the real ones."""
    mechanisms = [getattr(_mechanisms, name) for name in _NAMES]
    pairs = [(real, watch(real)) for real in mechanisms]
    _exchange(pairs)
    try:
        yield
    finally:
        # Looked for again: a module that a fit has loaded took the watched ones.
        _exchange([(watched, real) for real, watched in pairs])


def _exchange(pairs: Sequence[tuple[object, object]]) -> None:
    """Replace objects, known by identity, in all loaded modules.

    A synthesizer of somebody else imports the mechanisms into a module of its own.
    """
    for module in list(sys.modules.values()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            for old, new in pairs:
                if value is old:
                    setattr(module, attribute, new)
