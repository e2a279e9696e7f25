"""One fit's ledger: nothing is released without a reservation drawn from it.

A cap is fixed before any data is touched: a Gaussian-DP parameter, and a part of delta.
Reservations are parts of that cap, and every release of noise draws one of them down.
Choosing a later reservation from an earlier, noisy release is sound, because the cap
never moves (adaptive composition under one fixed dominating curve).
"""

from __future__ import annotations

import logging
import math
import operator
import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, NoReturn, SupportsIndex

from skdpsynth.exceptions import BudgetExceededError, ReservationError
from skdpsynth.privacy._budget import PrivacyBudget
from skdpsynth.privacy._calibration import (
    VoteNoise,
    certified_epsilon,
    gdp_mu,
    grid_noise_std,
    replace_one_epsilon,
    sampled_noise_multiplier,
    vote_noise_std,
)
from skdpsynth.privacy._random import insecure_randomness_active
from skdpsynth.privacy._report import (
    FLOAT_NOISE,
    INSECURE,
    NO_NOISE,
    UNLABELLED,
    Kind,
    PrivacyReport,
    ReportEntry,
    read_only,
    scope_words,
    unit_name,
    unit_words,
)
from skdpsynth.utils import EXCESS, check_range


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Reservation:
    """A part of a fit's privacy budget: the right to a number of noisy releases.

    Only a `PrivacyAccountant` makes one, by ``reserve_gaussian``,
    ``reserve_sampled_gaussian`` or ``reserve_votes``. The accountant's ledger counts
    what is drawn from it, and knows it by identity, so that neither a copy nor a
    pickle is worth anything.

    It can be read: `name`; `scope`, the class whose rows are charged, or None for every
    row; `kind`, the mechanism; `count`, how many releases were reserved, and `used`,
    how many were drawn. Of one release: `mu`, the root of the ``mu^2`` that it is
    charged; `sensitivity` (L2), in grid units, clipping norms or votes; `noise_std`,
    the sigma or scale of the noise in the same units, or 0; and `delta`, which is
    charged beside the curve of mu. `sampling_rate` is the probability that a row is in
    a release, `n_teachers` the number of those that vote, and `rows_per_unit` the rows
    of one unit of privacy, at most.

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

    _ledger: PrivacyAccountant
    name: str
    scope: Hashable | None
    mu: float
    sensitivity: float
    count: int
    delta: float
    noise_std: float
    rows_per_unit: int
    kind: Kind = "gaussian"
    sampling_rate: float = 1.0
    n_teachers: int = 0

    def __init__(self, *args: object, **kwargs: object) -> None:
        msg = "A Reservation cannot be constructed. Ask PrivacyAccountant for one."
        raise ReservationError(msg)

    @property
    def used(self) -> int:
        """Number of releases drawn so far."""
        return ledger_of(self)._used[self]

    def __repr__(self) -> str:
        return (
            f"Reservation(name={self.name!r}, scope={self.scope!r}, mu={self.mu:.6g}, "
            f"used={self.used}/{self.count})"
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise ReservationError(
            "A Reservation cannot be copied or pickled. "
            "Draw every release in the process and from the object that reserved it."
        )

    def _draw_down(self, n: int = 1) -> None:
        """Use up `n` releases, or raise `ReservationError` and use up none."""
        n = operator.index(n)
        if n < 1:
            raise ValueError(f"The number of releases must be >= 1. Got {n} instead.")
        ledger = ledger_of(self)
        with ledger._lock:
            ledger._refuse_if_over(self.name)
            if vars(self) != ledger._issued[self]:
                raise ReservationError(
                    f"The reservation {self.name!r} was changed after it was issued. "
                    "Ask PrivacyAccountant for another one."
                )
            if self.used + n > self.count:
                raise ReservationError(
                    f"The reservation {self.name!r} holds {self.count} releases and "
                    f"{self.used} are used, but {n} more were asked for. "
                    "Reserve all releases of the plan."
                )
            ledger._used[self] += n
            ledger._note_insecure()


def ledger_of(reservation: object) -> PrivacyAccountant:
    """Return the ledger that has a reservation; refuse what is in none."""
    if type(reservation) is not Reservation:
        raise ReservationError(
            f"Expected a Reservation. Got {type(reservation).__name__} instead. "
            "Ask PrivacyAccountant for one."
        )
    ledger = vars(reservation).get("_ledger")
    if not isinstance(ledger, PrivacyAccountant) or reservation not in ledger._used:
        raise ReservationError(
            "This reservation is in no ledger. "
            "Ask PrivacyAccountant for one and do not copy it."
        )
    return ledger


# Up to the first number, the plan aims at so much less than the epsilon asked for: the
# pessimistic certificate of the loss distributions must stay within it. It is coarser
# for large ones, and at a delta near 1e-12 rounding moves it by a few per cent.
_ROOMS = ((1e-8, 0.1), (500.0, 5e-4), (math.inf, 2e-3))

# The proof beside `thresholded_counts` needs it.
MAX_DISCOVERY_DELTA = 0.1

_LOG = logging.getLogger("skdpsynth")


class PrivacyAccountant:
    """The ledger of one fit.

    The guarantee is for adding or removing one row. Releases with ``scope=None`` are
    charged to every row, releases with a scope to the rows of that class only. Since a
    row has one class, classes compose in parallel: a row is charged ``mu_all^2 +
    mu_class^2``, and the total is the worst class's. What is claimed is the cap,
    whatever was reserved: how much that is may depend on earlier releases.

    With `rows_per_unit` k the guarantee is for adding or removing all rows of a unit.
    Everything in the ledger is of one row; k rows move a Gaussian release by k times
    its sensitivity at most, so what all releases tell of a unit is bounded by k times
    the mu of a row, and a row has a k-th of the unit's mu (group privacy, Dong, Roth,
    Su 2022, Theorem 2.14; exact for Gaussian releases). Rows of one unit may be of
    several classes: k_c of class c, with sum k. They are charged ``sum_c k_c^2
    mu_c^2``, which is at most ``k^2 max_c mu_c^2``, so the worst class's total holds
    for them too. That argument is for Gaussian releases alone: votes and sampled steps
    are refused for more than one row.

    Parameters
    ----------
    epsilon : float
        Total epsilon of the fit, in (0, inf].
    delta : float
        Total delta of the fit, in (0, 1).
    discovery_delta : float, default=0.0
        Part of `delta` set aside for what needs a delta of its own (thresholded keys,
        tails of blocks), in [0, delta) and at most 0.1.
    amplified : bool, default=False
        Whether sampling of rows may be made use of. No charge becomes larger by it,
        but the epsilon for replacing a row does.
    rows_per_unit : int, default=1
        Rows of one unit of privacy, such as a person, at most; at least 1.
    unit : hashable, optional
        Name of the column that identifies units, for the report. By default a row is a
        unit.
    budget : PrivacyBudget, optional
        What several fits share. It is charged ``(epsilon, delta)`` at once; a fit that
        fails later stays charged.
    share : float, default=1.0
        Part of the squared mu that may be reserved before `use_all`, in (0, 1].

    Raises
    ------
    ValueError
        For an epsilon or a delta outside its range.
    BudgetExceededError
        When `budget` has less than ``(epsilon, delta)`` left. Nothing is charged then.

    See Also
    --------
    skdpsynth.PrivacyBudget : What several fits share.
    Reservation : The right to a number of releases.

    Examples
    --------
    >>> from skdpsynth.privacy import PrivacyAccountant
    >>> accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    >>> counts = accountant.reserve_gaussian("counts", mu=0.05, sensitivity=1)
    >>> round(counts.noise_std, 1)
    20.1
    >>> accountant.epsilon <= 1.0
    True
    >>> round(accountant.remaining_mu(), 3)
    0.263
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        discovery_delta: float = 0.0,
        amplified: bool = False,
        rows_per_unit: int = 1,
        unit: Hashable = None,
        budget: PrivacyBudget | None = None,
        share: float = 1.0,
    ) -> None:
        many = rows_per_unit >= 1
        check_range("rows_per_unit", rows_per_unit, many, "an int >= 1")
        check_range("epsilon", epsilon, epsilon > 0, "a number > 0")
        check_range("delta", delta, 0 < delta < 1, "a number in (0, 1)")
        fits = 0 <= discovery_delta < delta and discovery_delta <= MAX_DISCOVERY_DELTA
        allowed = f"in [0, delta) and <= {MAX_DISCOVERY_DELTA}"
        check_range("discovery_delta", discovery_delta, fits, allowed)
        self._epsilon, self._delta = float(epsilon), float(delta)
        self._discovery_delta, self._amplified = float(discovery_delta), amplified
        room = next(room for most, room in _ROOMS if epsilon <= most)
        self._curve_delta = self._delta - self._discovery_delta
        # Of a unit; all else in the ledger is of a row.
        self._mu_unit = gdp_mu(self._epsilon * (1 - room), self._curve_delta)
        self._rows_per_unit, self._unit = operator.index(rows_per_unit), unit
        check_range("share", share, 0 < share <= 1, "a number in (0, 1]")
        self._part = math.sqrt(share)  # of the mu of a unit, for now
        self._used: dict[Reservation, int] = {}  # releases drawn; in order
        self._issued: dict[Reservation, dict[str, Any]] = {}  # what they were then
        self._answers: list[Reservation] = []
        self._closed = False
        # Whether the insecure context was active at any step of the fit.
        self._insecure = insecure_randomness_active()
        # A forked child has a copy of the ledger and would draw the same part again.
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._remarks: list[str] = []
        self._scopes: frozenset[Hashable | None] | None = None  # None: any
        # Sums of mu^2 and of delta: of every row, and those of each scope beside.
        self._mu_squared: dict[Hashable | None, float] = {}
        self._deltas: dict[Hashable | None, float] = {}
        if budget is not None:  # last, so that nothing charged can fail here
            whose = None if unit is None else unit_name(unit)
            label = "fit" if whose is None else f"fit, per {whose}"
            budget.charge(epsilon, delta, label=label, unit=whose)

    @property
    def mu_cap(self) -> float:
        """What all reservations of a row share: the root of a sum of mu^2, or inf."""
        return self._mu_unit / self._rows_per_unit * self._part

    rows_per_unit: int = read_only("_rows_per_unit", "Rows of one unit, at most.")
    delta: float = read_only("_delta", "Total delta of the fit.")

    @property
    def private(self) -> bool:
        """False when epsilon is infinite or noise came from a seeded generator."""
        return not self._insecure and self._epsilon < math.inf

    @property
    def epsilon(self) -> float:
        """Certified epsilon of the cap, at the total `delta`: what the fit promises.

        At most the epsilon asked for, and the same for every table. Infinite when the
        fit is not private.
        """
        if not self.private:
            return math.inf
        return certified_epsilon(self._mu_unit, self._curve_delta)

    def remark(self, text: str) -> None:
        """Add a sentence to the notes of the report.

        Parameters
        ----------
        text : str
            What a reader must know; nothing private.
        """
        self._remarks.append(text)

    def reserve_gaussian(
        self,
        name: str,
        *,
        mu: float,
        sensitivity: float,
        count: int = 1,
        scope: Hashable | None = None,
        delta: float = 0.0,
        answer: bool = True,
    ) -> Reservation:
        """Set aside a part of the budget for Gaussian releases.

        Parameters
        ----------
        name : str
            What is released, for the report.
        mu : float
            Gaussian-DP parameter of one release, in (0, inf]; infinite only when
            `epsilon` is.
        sensitivity : float
            L2 sensitivity of one released vector, in integer grid units, positive.
        count : int, default=1
            Number of releases, at least 1.
        scope : hashable, optional
            Key of the class whose rows are charged. None: every row is.
        delta : float, default=0.0
            Delta of one release beside the Gaussian curve, taken out of
            `discovery_delta`.
        answer : bool, default=True
            Whether `measurements_` must have what is released: not so choices, numbers
            of rows, steps of training, and discovery, which ends with `limit_scopes`.

        Returns
        -------
        Reservation
            The right to `count` releases.

        Raises
        ------
        BudgetExceededError
            When less than that is left. Nothing changes then.
        ReservationError
            After `close`.
        ValueError
            For an argument outside its range.
        """
        # The one place that turns this charge into noise; so for the others below.
        noise_std = partial(grid_noise_std, mu, sensitivity)
        given = name, scope, mu, sensitivity, count, delta
        line = self._reserve(noise_std, *given)
        self._answers += [line] * (answer and self._scopes is not None)
        return line

    def reserve_sampled_gaussian(
        self,
        name: str,
        *,
        mu: float,
        sampling_rate: float,
        count: int = 1,
        scope: Hashable | None = None,
        tail_delta: float = 0.0,
    ) -> Reservation:
        """Set aside a block of noisy sums over Poisson samples of the rows.

        Parameters
        ----------
        name : str
            What is released, for the report.
        mu : float
            What one step is charged, in (0, inf]; infinite only when `epsilon` is. The
            block is charged ``sqrt(count)`` times as much.
        sampling_rate : float
            Probability with which each row is in a step's sample, independently of
            all others and by secret draws; in (0, 1], public or a release.
        count, scope : int and hashable, optional
            As of `reserve_gaussian`; a release is a step.
        tail_delta : float, default=0.0
            Delta of the whole block, out of `discovery_delta`; only of an accountant
            that is `amplified`. Without any, a step is charged as if every row were in
            it.

        Returns
        -------
        Reservation
            With sensitivity 1, in clipping norms; or an error as of `reserve_gaussian`.
        """
        if tail_delta > 0 and not self._amplified:
            raise ValueError(
                "Sampling counts only where the accountant was told so in advance. "
                "Make it with amplified=True, or leave out tail_delta."
            )

        def noise_std() -> float:
            block = mu * math.sqrt(count), sampling_rate, count, tail_delta
            return sampled_noise_multiplier(*block)

        kind: Kind = "sampled gaussian"
        line = name, scope, mu, 1.0, count, tail_delta / max(count, 1), kind
        return self._reserve(noise_std, *line, sampling_rate=float(sampling_rate))

    def reserve_votes(
        self,
        name: str,
        *,
        mu: float,
        n_teachers: int,
        count: int = 1,
        scope: Hashable | None = None,
        noise: VoteNoise = "gaussian",
        tail_delta: float = 0.0,
    ) -> Reservation:
        """Set aside a block of noisy one-bit votes of teachers.

        Parameters
        ----------
        name : str
            What is released, for the report.
        mu : float
            What one vote is charged, in (0, inf]; infinite only when `epsilon` is. The
            block is charged ``sqrt(count)`` times as much.
        n_teachers : int
            Number of teachers that vote, at least 1; public.
        count, scope : int and hashable, optional
            As of `reserve_gaussian`; a release is a vote.
        noise : {"gaussian", "laplace"}, default="gaussian"
            Law of the discrete noise on the number of votes.
        tail_delta : float, default=0.0
            Delta of the whole block, out of `discovery_delta`. Without any, a vote is
            charged as the noisy number of votes, which tells more.

        Returns
        -------
        Reservation
            With sensitivity 1, in votes, since a row changes one teacher; or an error
            as of `reserve_gaussian`.
        """
        check_range("n_teachers", n_teachers, n_teachers >= 1, "at least 1")

        def noise_std() -> float:
            return vote_noise_std(mu * math.sqrt(count), count, noise, tail_delta)

        kind: Kind = "gaussian vote" if noise == "gaussian" else "laplace vote"
        line = name, scope, mu, 1.0, count, tail_delta / max(count, 1), kind
        return self._reserve(noise_std, *line, n_teachers=operator.index(n_teachers))

    def _reserve(
        self,
        noise_std: Callable[[], float],
        name: str,
        scope: Hashable | None,
        mu: float,
        sensitivity: float,
        count: int,
        delta: float,
        kind: Kind = "gaussian",
        sampling_rate: float = 1.0,
        n_teachers: int = 0,
    ) -> Reservation:
        """Charge, or refuse and change nothing."""
        count = operator.index(count)
        # The square is what is charged, so it must not vanish.
        check_range("mu", mu, mu > 0 and mu * mu > 0, "a number > 0")
        check_range("count", count, count >= 1, "an int >= 1")
        check_range("delta", delta, 0 <= delta < 1, "a number in [0, 1)")
        # A key that differs from itself (NaN, NA) would open a new class at every use.
        try:
            same = bool(scope == scope)
        except TypeError:
            same = False
        if not same:
            msg = "scope must equal itself, so that its class has one sum of charges."
            raise ValueError(msg)
        if self._scopes is not None and scope not in self._scopes:
            raise ReservationError(
                f"The scope of {name!r} is no class of the fit, so nobody is "
                "charged for its rows. Expected one of metadata.classes.scopes, None "
                "(every row) or UNLABELLED."
            )
        in_blocks = kind != "gaussian"
        if self._rows_per_unit > 1 and in_blocks and self._epsilon < math.inf:
            raise ReservationError(
                f"The releases {name!r} are bounded for units of one row only. "
                f"Expected max_rows_per_unit=1. Got {self._rows_per_unit}; set it to "
                "1, or leave out adversarial steps."
            )
        line = {
            "name": name,
            "scope": scope,
            "mu": float(mu),
            "sensitivity": float(sensitivity),
            "count": count,
            "delta": float(delta),
            "noise_std": noise_std(),
            "rows_per_unit": self._rows_per_unit,
            "kind": kind,
            "sampling_rate": sampling_rate,
            "n_teachers": n_teachers,
        }
        mu_squared, delta = count * mu * mu, count * delta
        with self._lock:
            self._refuse_if_exceeded(name, scope, mu_squared, delta)
            reservation = self._issue(line)
            for sums, charge in ((self._mu_squared, mu_squared), (self._deltas, delta)):
                sums[scope] = sums.get(scope, 0.0) + charge
        rows = scope_words(scope)
        _LOG.info("Reserving %s for %s: %d release(s)", name, rows, count)
        return reservation

    def _refuse_if_exceeded(
        self, name: str, scope: Hashable | None, mu_squared: float, delta: float
    ) -> None:
        total, charged = self.mu_cap**2, _charged(self._mu_squared, scope)
        # An infinite cap allows everything; a finite one allows no infinite mu.
        if total < math.inf and charged + mu_squared > total * (1 + EXCESS):
            left = max(1 - charged / total, 0.0)
            raise BudgetExceededError(
                f"The reservation {name!r} asks for {mu_squared / total:.4%} of "
                f"the privacy budget (in mu^2), but {left:.4%} is left. Give it a "
                "smaller share or fewer releases, or fit with a larger epsilon."
            )
        charged, allowed = _charged(self._deltas, scope), self._discovery_delta
        if delta > 0 and charged + delta > allowed * (1 + EXCESS):
            left = max(allowed - charged, 0.0)
            raise BudgetExceededError(
                f"The reservation {name!r} asks for {delta / self._delta:.4%} of "
                f"delta, but {left / self._delta:.4%} is left for discovery. "
                "Ask for less or set aside a larger discovery_delta."
            )

    def limit_scopes(self, classes: Iterable[Hashable | None]) -> None:
        """Refuse later reservations whose scope is none of these classes.

        A scope that is no class would wrongly have its whole budget left.

        Parameters
        ----------
        classes : iterable of hashables
            Keys of all classes. None (every row) and `UNLABELLED` stay.
        """
        self._scopes = frozenset([*classes, None, UNLABELLED])

    def remaining_mu(self, scope: Hashable | None = None) -> float:
        """Return the mu that one more release could have.

        Parameters
        ----------
        scope : hashable, optional
            Key of the class whose rows would be charged. None: every row.

        Returns
        -------
        float
            In [0, mu_cap]; inf for an infinite epsilon.
        """
        if self.mu_cap == math.inf:
            return math.inf
        left = self.mu_cap**2 - _charged(self._mu_squared, scope)
        return math.sqrt(max(left, 0.0))

    def use_all(self) -> None:
        """Let what is left beside the `share` be reserved too."""
        self._part = 1.0

    def close(self) -> None:
        """End the fit: from now on nothing can be reserved or drawn."""
        with self._lock:
            self._note_insecure()
            self._closed = True

    def _issue(self, line: Mapping[str, Any]) -> Reservation:
        """Write a line into the ledger and return its reservation."""
        with self._lock:
            self._refuse_if_over(line["name"])
            self._note_insecure()
            reservation = object.__new__(Reservation)
            vars(reservation).update(line, _ledger=self)
            self._used[reservation] = 0
            self._issued[reservation] = {**vars(reservation)}
        return reservation

    def _refuse_if_over(self, name: str) -> None:
        """Raise `ReservationError` after the end of the fit or in another process."""
        if self._closed:
            msg = f"The fit is over: nothing more can be released for {name!r}."
            raise ReservationError(msg)
        if os.getpid() != self._process:
            raise ReservationError(
                f"Another process asks for {name!r}. "
                "Reserve and draw in the process that started the fit."
            )

    def _note_insecure(self) -> None:
        """Remember for good that the insecure context was active."""
        self._insecure = self._insecure or insecure_randomness_active()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise ReservationError(
            "The ledger of a fit cannot be copied or pickled, since that would spend "
            "its budget twice. Keep the accountant's report() instead."
        )

    def report(self) -> PrivacyReport:
        """Summarise the ledger for people.

        Returns
        -------
        PrivacyReport
            Every reservation, and the total.
        """
        private = self.private
        notes = [INSECURE] if self._insecure else []
        notes += self._remarks
        if self._epsilon == math.inf:
            notes.append(NO_NOISE)
        if private and any(line.kind == "sampled gaussian" for line in self._used):
            notes.append(FLOAT_NOISE)
        replace_one = math.inf
        if private:
            replace_one = replace_one_epsilon(
                *(self._mu_unit, self._delta, self._discovery_delta),
                amplified=self._amplified,
            )
        # The package, which a module at the bottom may not import, is loaded by now.
        package = sys.modules[__name__.partition(".")[0]].__version__
        return PrivacyReport(
            epsilon=self.epsilon,
            delta=self._delta,
            epsilon_requested=self._epsilon,
            mu=self._mu_unit,
            discovery_delta=self._discovery_delta,
            epsilon_replace_one=replace_one,
            private=private,
            entries=tuple(self._reported(*line) for line in self._used.items()),
            notes=tuple(notes),
            accountant=(
                f"dp-accounting {version('dp-accounting')}, privacy loss distributions"
            ),
            software=f"skdpsynth {package}, OpenDP {version('opendp')}",
            **unit_words(self._unit, self._rows_per_unit),
        )

    @property
    def answers(self) -> list[ReportEntry]:
        """The lines that `measurements_` must have the answers of."""
        return [self._reported(line, line.used) for line in self._answers]

    def _reported(self, line: Reservation, used: int) -> ReportEntry:
        """Return the line of the report, which is of a unit."""
        mu_total = self._rows_per_unit * math.sqrt(line.count) * line.mu
        share = None
        if self._mu_unit < math.inf:
            share = 100 * (mu_total / self._mu_unit) ** 2
        return ReportEntry(
            name=line.name,
            scope=scope_words(line.scope),
            releases=line.count,
            used=used,
            sensitivity=self._rows_per_unit * line.sensitivity,
            noise_std=line.noise_std,
            mu_total=mu_total,
            share=share,
            kind=line.kind,
            sampling_rate=line.sampling_rate,
        )


def _charged(sums: dict[Hashable | None, float], scope: Hashable | None) -> float:
    """Sum the charges of every row and those of one class (None: the worst one)."""
    of_class = sums.get(scope, 0.0)
    if scope is None:
        of_class = max((v for key, v in sums.items() if key is not None), default=0.0)
    return sums.get(None, 0.0) + of_class
