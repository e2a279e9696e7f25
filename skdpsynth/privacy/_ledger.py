"""What one fit may spend, fixed before any data is touched, and what was reserved."""

from __future__ import annotations

import math
import operator
import os
import threading
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Literal, NoReturn, SupportsIndex

from skdpsynth.exceptions import BudgetExceededError, ReservationError, check_range
from skdpsynth.privacy._calibration import certified_epsilon, gdp_mu
from skdpsynth.privacy._random import insecure_randomness_active

if TYPE_CHECKING:
    from collections.abc import Hashable


Kind = Literal["gaussian", "sampled gaussian", "gaussian vote", "laplace vote"]


class _Unlabelled(Enum):
    """A key that no class can have."""

    UNLABELLED = "rows without a label"


#: Scope of the rows whose label is missing or was not released; they are no class.
UNLABELLED = _Unlabelled.UNLABELLED

_UNKNOWN = (
    "This reservation is in no ledger. "
    "Ask PrivacyAccountant for one and do not copy it."
)


class Reservation:
    """A part of a fit's privacy budget: the right to a number of noisy releases.

    Only a `PrivacyAccountant` makes one, by ``reserve_gaussian``,
    ``reserve_sampled_gaussian`` or ``reserve_votes``. A reservation holds no state: the
    accountant's ledger does, and knows it by identity, so that neither a copy nor a
    pickle is worth anything.

    Parameters
    ----------
    *args, **kwargs : object
        Not accepted.

    Raises
    ------
    ReservationError
        When constructed directly, copied, pickled or unknown to its ledger.

    See Also
    --------
    PrivacyAccountant : The ledger that makes reservations.

    Examples
    --------
    >>> from skdpsynth.privacy import PrivacyAccountant
    >>> accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    >>> accountant.reserve_gaussian("counts", mu=0.05, sensitivity=1)
    Reservation(name='counts', scope=None, mu=0.05, used=0/1)
    """

    __slots__ = ("_ledger",)

    _ledger: Ledger

    def __init__(self, *args: object, **kwargs: object) -> None:
        msg = "A Reservation cannot be constructed. Ask PrivacyAccountant for one."
        raise ReservationError(msg)

    @property
    def kind(self) -> Kind:
        """Which mechanism may draw from it."""
        return self._entry.kind

    @property
    def sampling_rate(self) -> float:
        """Probability with which a row is in a release; 1 unless sampled."""
        return self._entry.sampling_rate

    @property
    def n_teachers(self) -> int:
        """Number of teachers that vote; 0 where none does."""
        return self._entry.n_teachers

    @property
    def name(self) -> str:
        """What the releases are, as the report prints it."""
        return self._entry.name

    @property
    def scope(self) -> Hashable | None:
        """Key of the class whose rows pay; None when every row pays."""
        return self._entry.scope

    @property
    def mu(self) -> float:
        """Root of the mu^2 that one release is charged."""
        return self._entry.mu

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of one release: grid units, clipping norms or votes."""
        return self._entry.sensitivity

    @property
    def noise_std(self) -> float:
        """Sigma or scale of the noise, in units of `sensitivity`'s; 0 if mu is inf."""
        return self._entry.noise_std

    @property
    def delta(self) -> float:
        """Delta charged for one release beside the Gaussian curve."""
        return self._entry.delta

    @property
    def count(self) -> int:
        """Number of releases reserved."""
        return self._entry.count

    @property
    def used(self) -> int:
        """Number of releases drawn so far."""
        return self._entry.used

    def __repr__(self) -> str:
        return (
            f"Reservation(name={self.name!r}, scope={self.scope!r}, mu={self.mu:.6g}, "
            f"used={self.used}/{self.count})"
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A Reservation is read-only: {name!r} cannot be set.")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise ReservationError(
            "A Reservation cannot be copied or pickled. "
            "Draw every release in the process and from the object that reserved it."
        )

    @property
    def _entry(self) -> Entry:
        return self._known_ledger()._entry_of(self)

    def _known_ledger(self) -> Ledger:
        ledger = getattr(self, "_ledger", None)
        if type(ledger) is not Ledger:
            raise ReservationError(_UNKNOWN)
        return ledger

    def _draw_down(self, n: int = 1) -> None:
        """Use up `n` releases, or raise `ReservationError` and use up none."""
        self._known_ledger()._draw_down(self, n)


@dataclass
class Entry:
    """One line of the ledger. Only the ledger writes it."""

    # Set by the ledger.
    reservation: Reservation = field(init=False, repr=False, compare=False)
    name: str
    scope: Hashable | None
    mu: float
    sensitivity: float
    noise_std: float
    count: int
    delta: float
    kind: Kind = "gaussian"
    sampling_rate: float = 1.0
    n_teachers: int = 0
    used: int = 0


class Ledger:
    """What was reserved and drawn in one fit.

    It counts; the accountant decides what may be reserved.
    """

    def __init__(self) -> None:
        # By id. Each entry keeps its reservation alive, so that no id comes twice.
        self._entries: dict[int, Entry] = {}
        self._closed = False
        self._insecure = insecure_randomness_active()
        # A forked child has a copy of the ledger and would draw the same part again.
        self._process = os.getpid()
        self.lock = threading.RLock()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All lines, in the order of reservation."""
        return tuple(self._entries.values())

    @property
    def insecure(self) -> bool:
        """Whether the insecure context was active at any step of the fit."""
        return self._insecure

    def issue(self, line: Entry) -> Reservation:
        """Write a copy of a line into the ledger and return its reservation."""
        with self.lock:
            self.refuse_if_over(line.name)
            self.note_insecure()
            reservation = object.__new__(Reservation)
            object.__setattr__(reservation, "_ledger", self)
            # A line of our own, of which nothing is used.
            own = [item.name for item in fields(Entry) if item.init]
            entry = Entry(**{name: getattr(line, name) for name in own})
            entry.used = 0
            entry.reservation = reservation
            self._entries[id(reservation)] = entry
        return reservation

    def close(self) -> None:
        """Refuse every later reservation and draw."""
        with self.lock:
            self.note_insecure()
            self._closed = True

    def refuse_if_over(self, name: str) -> None:
        """Raise `ReservationError` after the end of the fit or in another process."""
        if self._closed:
            msg = f"The fit is over: nothing more can be released for {name!r}."
            raise ReservationError(msg)
        if os.getpid() != self._process:
            raise ReservationError(
                f"Another process asks for {name!r}. "
                "Reserve and draw in the process that started the fit."
            )

    def note_insecure(self) -> None:
        """Remember for good that the insecure context was active."""
        self._insecure = self._insecure or insecure_randomness_active()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise ReservationError(
            "The ledger of a fit cannot be copied or pickled, since that would spend "
            "its budget twice. Keep the accountant's report() instead."
        )

    def _entry_of(self, reservation: Reservation) -> Entry:
        entry = self._entries.get(id(reservation))
        if entry is None or entry.reservation is not reservation:
            raise ReservationError(_UNKNOWN)
        return entry

    def _draw_down(self, reservation: Reservation, n: int) -> None:
        n = operator.index(n)
        if n < 1:
            raise ValueError(f"The number of releases must be >= 1. Got {n} instead.")
        with self.lock:
            entry = self._entry_of(reservation)
            self.refuse_if_over(entry.name)
            if entry.used + n > entry.count:
                raise ReservationError(
                    f"The reservation {entry.name!r} holds {entry.count} releases and "
                    f"{entry.used} are used, but {n} more were asked for. "
                    "Reserve all releases of the plan."
                )
            entry.used += n
            self.note_insecure()


# The plan aims a little below the epsilon asked for, so that the pessimistic
# certificate of the loss distributions still stays within it.
_CERTIFICATE_ROOM = 5e-4
_LARGE_EPSILON, _LARGE_ROOM = 500.0, 2e-3  # from where the certificate is coarser
# Below, at a delta near 1e-12, rounding moves the certificate by a few per cent.
_SMALL_EPSILON, _SMALL_ROOM = 1e-8, 0.1

# The proof beside `thresholded_counts` needs it.
_MAX_DISCOVERY_DELTA = 0.1

# Rounding of the shares of a plan that uses exactly the cap.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Cap:
    """The budget of one fit; public.

    Of `delta`, thresholded releases and tails of blocks may pay `discovery_delta`;
    `amplified`: sampling of rows may be made use of; `mu`: the root of the mu^2 that a
    row may pay, inf without noise.
    """

    epsilon: float
    delta: float
    discovery_delta: float
    amplified: bool
    mu: float

    @property
    def certified(self) -> float:
        """Epsilon of all that may be spent: it holds before any data is touched."""
        if self.mu == math.inf:
            return math.inf
        return certified_epsilon(self.mu, self.delta - self.discovery_delta)


def fixed_cap(
    epsilon: float, delta: float, discovery_delta: float, *, amplified: bool
) -> Cap:
    """Turn a request into a cap; what discovery leaves of delta sets its mu."""
    check_range("epsilon", epsilon, epsilon > 0, "a number > 0")
    check_range("delta", delta, 0 < delta < 1, "a number in (0, 1)")
    fits = 0 <= discovery_delta < delta and discovery_delta <= _MAX_DISCOVERY_DELTA
    allowed = f"in [0, delta) and <= {_MAX_DISCOVERY_DELTA}"
    check_range("discovery_delta", discovery_delta, fits, allowed)
    epsilon, delta, discovery_delta = map(float, (epsilon, delta, discovery_delta))
    room = _CERTIFICATE_ROOM
    if epsilon > _LARGE_EPSILON:
        room = _LARGE_ROOM
    elif epsilon < _SMALL_EPSILON:
        room = _SMALL_ROOM
    mu = gdp_mu(epsilon * (1 - room), delta - discovery_delta)
    return Cap(epsilon, delta, discovery_delta, amplified, mu)


class Spending:
    """Sums of mu^2 and of delta: what every row pays, and what each scope's rows do."""

    def __init__(self, cap: Cap) -> None:
        self._cap = cap
        self._mu_squared: dict[Hashable | None, float] = {None: 0.0}
        self._deltas: dict[Hashable | None, float] = {None: 0.0}

    def mu_squared(self, scope: Hashable | None = None) -> float:
        """Sum what the rows of a scope pay; None: those of the worst one."""
        return _paid(self._mu_squared, scope)

    def delta(self, scope: Hashable | None = None) -> float:
        """Sum the deltas that the rows of a scope pay; None: those of the worst one."""
        return _paid(self._deltas, scope)

    def left(self, scope: Hashable | None = None) -> float:
        """Give the mu that one more release could have; inf without noise."""
        if self._cap.mu == math.inf:
            return math.inf
        return math.sqrt(max(self._cap.mu**2 - self.mu_squared(scope), 0.0))

    def add(self, scope: Hashable | None, mu_squared: float, delta: float) -> None:
        """Charge what `refuse_if_exceeded` let pass."""
        self._mu_squared[scope] = self._mu_squared.get(scope, 0.0) + mu_squared
        self._deltas[scope] = self._deltas.get(scope, 0.0) + delta

    def refuse_if_exceeded(
        self, name: str, scope: Hashable | None, mu_squared: float, delta: float
    ) -> None:
        """Raise `BudgetExceededError` if one of the caps would be passed."""
        total, paid = self._cap.mu**2, self.mu_squared(scope)
        # An infinite cap allows everything; a finite one allows no infinite mu.
        if total < math.inf and paid + mu_squared > total * (1 + _ROUNDING):
            left = max(1 - paid / total, 0.0)
            raise BudgetExceededError(
                f"The reservation {name!r} asks for {mu_squared / total:.4%} of the "
                f"privacy budget (in mu^2), but {left:.4%} is left. Give it a smaller "
                "share or fewer releases, or fit with a larger epsilon."
            )
        paid, allowed = self.delta(scope), self._cap.discovery_delta
        if delta > 0 and paid + delta > allowed * (1 + _ROUNDING):
            left = max(allowed - paid, 0.0)
            raise BudgetExceededError(
                f"The reservation {name!r} asks for {delta / self._cap.delta:.4%} of "
                f"delta, but {left / self._cap.delta:.4%} is left for discovery. "
                "Ask for less or set aside a larger discovery_delta."
            )


def _paid(sums: dict[Hashable | None, float], scope: Hashable | None) -> float:
    """Sum what every row pays and what one class (None: the worst one) pays."""
    if scope is not None:
        return sums[None] + sums.get(scope, 0.0)
    worst = max((v for key, v in sums.items() if key is not None), default=0.0)
    return sums[None] + worst


def check_request(mu: float, count: int, scope: Hashable | None, delta: float) -> None:
    """Refuse a charge that is no number, or a key that no row could be found under."""
    # The square is what is charged, so it must not vanish.
    check_range("mu", mu, mu > 0 and mu * mu > 0, "a number > 0")
    check_range("count", count, count >= 1, "an int >= 1")
    check_range("delta", delta, 0 <= delta < 1, "a number in [0, 1)")
    # A key that differs from itself (NaN, NA) would open a new class at every use.
    if not _equals_itself(scope):
        msg = "scope must equal itself, so that its class pays once and for all."
        raise ValueError(msg)


def _equals_itself(key: Hashable | None) -> bool:
    try:
        return bool(key == key)
    except TypeError:
        return False
