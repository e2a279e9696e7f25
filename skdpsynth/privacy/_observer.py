"""Who watches the releases of a fit: nobody, or an audit by `privacy.testing`."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy._random import insecure_randomness_active

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from skdpsynth.privacy._reservation import Reservation

    ByTeacher = Callable[[], "NDArray[Any] | Mapping[int, NDArray[Any]]"]
    Observer = Callable[["Release"], NDArray[Any] | None]

_T = TypeVar("_T", bound="np.generic")

# Set by `skdpsynth.privacy.testing.observe_releases` alone. The threads of
# `LocalParts` copy it; any other new thread or process starts unobserved.
_observer: ContextVar[Observer | None] = ContextVar("skdpsynth_observer", default=None)

# What an observer is told besides; set by `telling` alone.
_told: ContextVar[Mapping[str, Any]] = ContextVar(
    "skdpsynth_told", default=MappingProxyType({})
)


@dataclass(frozen=True, eq=False)  # it holds arrays
class Release:
    """One call of a mechanism, as an observer is told of it.

    Parameters
    ----------
    reservation : Reservation
        What paid.
    exact : ndarray
        What went in; not private.
    noisy : ndarray
        What came out.
    unit : float
        Size of one ledger unit: the clipping norm where there is one, else 1.
    n_releases : int
        How many releases of the reservation it was.
    keys : tuple of (int, key), optional
        Of a release that finds keys: column and key of every entry.
    by_teacher : callable, optional
        Of a release that adds up teachers: gives a part of the shape of `exact` for
        each teacher, as an array or as a mapping from teacher to part, of the same sum
        as `exact`. Not private; call it while the observer is told.

    See Also
    --------
    observe_releases : Tells an observer.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.privacy import PrivacyAccountant
    >>> from skdpsynth.privacy.testing import Release
    >>> line = PrivacyAccountant(1.0, 1e-5).reserve_gaussian(
    ...     "counts", mu=0.05, sensitivity=1
    ... )
    >>> Release(line, np.array([3, 4]), np.array([5, 1]), 1.0, 1).what
    ('counts', 'None', (2,))
    """

    reservation: Reservation
    exact: NDArray[Any]
    noisy: NDArray[Any]
    unit: float
    n_releases: int
    keys: tuple[tuple[int, Hashable], ...] | None = None
    by_teacher: ByTeacher | None = None

    @property
    def what(self) -> tuple[str, str, tuple[int, ...] | None]:
        """Name, payer and shape: what two fits must have in common.

        Entries with keys are compared by these, and have no shape.
        """
        line = self.reservation
        shape = self.exact.shape if self.keys is None else None
        return line.name, str(line.scope), shape


@contextmanager
def telling(
    keys: Callable[[], Sequence[tuple[int, Hashable]]] | None = None,
    by_teacher: ByTeacher | None = None,
) -> Iterator[None]:
    """Tell the observer, if there is one, what the releases inside are made of.

    `keys` gives those of a `Release`, and `by_teacher` is its own. Neither is called
    where there is none.
    """
    if _observer.get() is None:
        yield
        return
    told = {"keys": None if keys is None else tuple(keys()), "by_teacher": by_teacher}
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)


def observed(
    reservation: Reservation,
    exact: NDArray[Any],
    noisy: NDArray[_T],
    n_releases: int = 1,
    unit: float = 1.0,
) -> NDArray[_T]:
    """Tell the observer, if there is one, of a release; give what is released."""
    observer = _observer.get()
    if observer is None:
        return noisy
    release = Release(
        reservation, exact.copy(), noisy.copy(), unit, n_releases, **_told.get()
    )
    answer = observer(release)
    if answer is None:
        return noisy
    if not insecure_randomness_active():
        raise ReservationError(
            f"An observer answers {reservation.name!r} in place of the mechanism. "
            "Let it do so inside insecure_randomness only."
        )
    return answer.copy()
