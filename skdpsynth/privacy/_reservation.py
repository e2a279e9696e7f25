"""Reservations, and the ledger that alone knows what they are worth."""

from __future__ import annotations

import operator
import os
import threading
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Literal, NoReturn, SupportsIndex

from skdpsynth.exceptions import ReservationError
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
