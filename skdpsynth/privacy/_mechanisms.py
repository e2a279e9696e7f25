"""The only place where privacy noise is drawn, and the only importer of OpenDP."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy._accountant import Reservation, ledger_of
from skdpsynth.privacy._parts import saturating_sum
from skdpsynth.privacy._random import (
    insecure_randomness_active,
    rounded,
    rounded_normal,
    secret_generator,
)
from skdpsynth.utils import check_range
from skdpsynth.utils.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from opendp.mod import Measurement

ByTeacher = Callable[[], "NDArray[Any] | Mapping[int, NDArray[Any]]"]
Keys = Callable[[], Sequence[tuple[int, Hashable]]]
Observer = Callable[["Release"], NDArray[Any] | None]

_T = TypeVar("_T", bound="np.generic")

# Set by `skdpsynth.privacy.testing.observe_releases` alone. The threads of
# `LocalParts` copy it; any other new thread or process starts unobserved.
_observer: ContextVar[Observer | None] = ContextVar("skdpsynth_observer", default=None)

# What an observer is given besides, but for `keys` made first; set by `telling` alone.
_told: ContextVar[tuple[Keys | None, ByTeacher | None, int]] = ContextVar(
    "skdpsynth_told", default=(None, None, 0)
)


@dataclass(frozen=True, eq=False)  # it holds arrays
class Release:
    """One call of a mechanism, as an observer sees it.

    Parameters
    ----------
    reservation : Reservation
        What was drawn down.
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
        as `exact`. Not private; call it while the observer runs.
    least : int
        Of a release that finds keys: those of fewer rows are not considered.

    See Also
    --------
    observe_releases : Calls an observer.

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
    least: int = 0

    @property
    def what(self) -> tuple[str, str, tuple[int, ...] | None]:
        """Name, scope and shape: what two fits must have in common.

        Entries with keys are compared by these, and have no shape.
        """
        line = self.reservation
        shape = self.exact.shape if self.keys is None else None
        return line.name, str(line.scope), shape


@contextmanager
def telling(
    keys: Keys | None = None, by_teacher: ByTeacher | None = None, least: int = 0
) -> Iterator[None]:
    """Let an observer, if there is one, see what the releases inside are made of."""
    token = _told.set((keys, by_teacher, least))
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
    """Show a release to the observer, if there is one; return what is released."""
    observer = _observer.get()
    if observer is None:
        return noisy
    keys, by_teacher, least = _told.get()
    what = reservation, exact.copy(), noisy.copy(), unit, n_releases
    answer = observer(Release(*what, keys and tuple(keys()), by_teacher, least))
    if answer is None:
        return noisy
    if not insecure_randomness_active():
        raise ReservationError(
            f"An observer answers {reservation.name!r} in place of the mechanism. "
            "Let it do so inside insecure_randomness only."
        )
    return answer.copy()


def release_gaussian(
    values: Ints, reservation: Reservation, n_releases: int = 1
) -> Ints:
    """Add discrete Gaussian noise to int64 values, and draw down a reservation.

    Its `sensitivity` must bound the L2 norm by which one release of `values` changes
    when one row is added or removed; the caller vouches for it. With ``n_releases > 1``
    the first axis counts releases. Noise is independent, of parameter
    `reservation.noise_std`, cut at the limits of int64; where that is 0 an exact copy
    comes back. A reservation that is forged, exhausted or closed is a ReservationError,
    and no noise is drawn then.

    The reservation is drawn down before the noise is drawn, and stays so if the draw
    fails. The sampler is exact (OpenDP, entropy of the operating system). Canonne,
    Kamath, Steinke (2020), "The Discrete Gaussian for Differential Privacy"
    (https://arxiv.org/abs/2004.00010).
    """
    _check_request(values, "int64", reservation, ("gaussian",))
    if n_releases != 1 and values.shape[:1] != (n_releases,):
        raise ValueError(
            f"Expected one row of values per release, {n_releases} in all. "
            f"Got the shape {values.shape} instead."
        )
    reservation._draw_down(n_releases)
    noisy = _noisy_integers(values, reservation)
    return observed(reservation, values, noisy, n_releases)


def release_votes(counts: Ints, reservation: Reservation) -> Bools:
    """Release whether noisy numbers of votes exceed half the teachers: one bit each.

    One row changes each exact number by at most 1; the caller vouches for it. The
    reservation is from ``reserve_votes``, for as many teachers as can vote. The noisy
    numbers stay here: they would tell more.
    """
    _check_request(counts, "int64", reservation, ("gaussian vote", "laplace vote"))
    reservation._draw_down(len(counts))
    scale, laplace = reservation.noise_std, reservation.kind == "laplace vote"
    noise = np.zeros(len(counts), dtype=np.int64)
    if scale > 0 and insecure_randomness_active():
        # The difference of two exponential draws is Laplace.
        draws = secret_generator().exponential(scale, (2, len(counts)))
        seeded = rounded(draws[0] - draws[1])
        noise = seeded if laplace else rounded_normal(scale, len(counts))
    elif scale > 0:
        measure = _discrete(scale, laplace=laplace)
        noise = np.array(measure(noise.tolist()), dtype=np.int64)
    # In integers: 2 (n + noise) > n_teachers, with nothing that large noise could wrap.
    answers = np.asarray(noise > reservation.n_teachers // 2 - counts)
    return observed(reservation, counts, answers, len(counts))


def release_float_gaussian(
    total: Floats, clip: float, reservation: Reservation
) -> Floats:
    """Add Gaussian noise to a sum of clipped per-row vectors (a step of DP-SGD).

    The float64 sum is over a Poisson sample of the rows, of one vector each. The
    reservation is from ``reserve_sampled_gaussian``, the noise of
    ``reservation.noise_std * clip``. It is that of floating-point numbers, from a
    generator that is seeded with 256 bits of the operating system's entropy; the
    report says so.

    Formal guarantees
    -----------------
    Relation: adding or removing one row of the table that the sample is of.
    Sensitivity: a row that is in the sample adds one vector, of L2 norm at most `clip`.
    The caller vouches for that, for the sampling rate, and that vectors which are not
    finite were left out: a sum that is not finite stays so. Without rows in the sample
    the sum is 0, with the same noise. The sum is neither rounded nor put on a grid. A
    clip that is not positive and finite is refused, as are sums of other types.
    """
    _check_request(total, "float64", reservation, ("sampled gaussian",))
    check_range("clip", clip, 0 < clip < float("inf"), "positive and finite")
    reservation._draw_down()
    noisy, std = total.copy(), reservation.noise_std * clip
    if std > 0:
        noisy += secret_generator().normal(0.0, std, total.shape)
    return observed(reservation, total, noisy, unit=clip)


def _noisy_integers(values: Ints, reservation: Reservation) -> Ints:
    """Add discrete Gaussian noise; the reservation is drawn down already."""
    std = reservation.noise_std
    if std == 0:
        return values.copy()
    if insecure_randomness_active():
        noise = rounded_normal(std, values.size).reshape(values.shape)
        return saturating_sum(values, noise)
    noisy = _discrete(std)(values.ravel().tolist())
    return np.array(noisy, dtype=np.int64).reshape(values.shape)


def _check_request(
    values: object, dtype: str, reservation: Reservation, kinds: tuple[str, ...]
) -> None:
    """Refuse what is no array of this dtype, or not what the reservation is for."""
    if not isinstance(values, np.ndarray) or values.dtype != dtype:
        kind = getattr(values, "dtype", type(values).__name__)
        raise TypeError(f"Expected an array of {dtype}. Got {kind} instead.")
    ledger_of(reservation)
    if reservation.kind not in kinds:
        raise ReservationError(
            f"The reservation {reservation.name!r} is of the kind {reservation.kind!r},"
            f" but this release is of the kind {kinds[0]!r}. Reserve it as what it is."
        )


@lru_cache(maxsize=256)
def _discrete(scale: float, *, laplace: bool = False) -> Measurement:
    """Make OpenDP's discrete noise on integer vectors; of Gaussians by their sigma."""
    from opendp import measurements, metrics
    from opendp.domains import atom_domain, vector_domain
    from opendp.mod import enable_features

    enable_features("contrib")  # where both measurements are
    vectors = vector_domain(atom_domain(T="i64"))
    if laplace:
        distance = metrics.l1_distance(T="i64")
        return measurements.make_laplace(vectors, distance, scale=scale)
    distance = metrics.l2_distance(T="f64")
    return measurements.make_gaussian(vectors, distance, scale=scale)
