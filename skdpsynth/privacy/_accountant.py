"""One fit's ledger: nothing is released without a reservation drawn from it.

A cap is fixed before any data is touched, in the unit of one curve: the Gaussian-DP
parameter, or a Renyi divergence of one order. Reservations are parts of that cap, and
every release of noise draws one of them down. Choosing a later reservation from an
earlier, noisy release is sound, because the cap never moves (adaptive composition under
one fixed dominating curve, or a Renyi filter).
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Literal

from skdpsynth.privacy._calibration import grid_noise_std
from skdpsynth.privacy._cap import fixed_cap
from skdpsynth.privacy._curves import RenyiCurve
from skdpsynth.privacy._report import PrivacyReport, build_report
from skdpsynth.privacy._reservation import Ledger, Reservation
from skdpsynth.privacy._spending import Spending, check_request

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from dp_accounting import ComposedDpEvent

    from skdpsynth.privacy._budget import PrivacyBudget
    from skdpsynth.privacy._curves import Curve, VoteNoise
    from skdpsynth.privacy._reservation import Kind

__all__ = ["PrivacyAccountant"]


class PrivacyAccountant:
    """The ledger of one fit.

    Parameters
    ----------
    epsilon : float
        Total epsilon of the fit, in (0, inf].
    delta : float
        Total delta of the fit, in (0, 1).
    discovery_delta : float, default=0.0
        Part of `delta` set aside for releases that need a delta of their own
        (thresholded keys), in [0, delta) and at most 0.1.
    budget : PrivacyBudget, optional
        What several fits share. It is charged ``(epsilon, delta)`` at once; a fit that
        fails later stays charged.
    curve : {"gaussian", "renyi"}, default="gaussian"
        How costs add up. "gaussian" is exact for Gaussian releases; "renyi" costs
        them some 15 % of the budget, and charges sampled steps and votes less.

    Attributes
    ----------
    mu_cap : float
        What all reservations of a row share; inf for an infinite epsilon.
    curve : GaussianCurve or RenyiCurve
        Turns mu into noise and into epsilon.

    Raises
    ------
    ValueError
        For an epsilon or a delta outside its range.
    BudgetExceededError
        When `budget` has less than ``(epsilon, delta)`` left. Nothing is spent then.

    See Also
    --------
    PrivacyBudget : What several fits share.
    Reservation : The right to a number of releases.

    Notes
    -----
    The guarantee is for adding or removing one row. Releases with ``scope=None`` are
    paid by every row. Releases with a scope are paid by the rows of that class only,
    and since a row has one class, classes compose in parallel: a row pays
    ``mu_all^2 + mu_class^2``, and the total is the worst class's.

    Examples
    --------
    >>> from skdpsynth.privacy import PrivacyAccountant
    >>> accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    >>> counts = accountant.reserve_gaussian("counts", mu=0.05, sensitivity=1)
    >>> round(counts.noise_std, 1)
    20.1
    >>> round(accountant.epsilon, 2)
    0.16
    >>> round(accountant.remaining_mu(), 3)
    0.263
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        discovery_delta: float = 0.0,
        budget: PrivacyBudget | None = None,
        curve: Literal["gaussian", "renyi"] = "gaussian",
    ) -> None:
        self._cap = fixed_cap(epsilon, delta, discovery_delta, curve)
        self._ledger = Ledger()
        self._remarks: list[str] = []
        self._spending = Spending(self._cap)
        if budget is not None:  # last, so that nothing charged can fail here
            budget.charge(epsilon, delta)

    @property
    def mu_cap(self) -> float:
        """What the whole fit may spend: the root of a sum of mu^2."""
        return self._cap.mu

    @property
    def curve(self) -> Curve:
        """How costs add up; public."""
        return self._cap.curve

    @property
    def delta(self) -> float:
        """Total delta of the fit."""
        return self._cap.delta

    @property
    def private(self) -> bool:
        """False when epsilon is infinite or noise came from a seeded generator."""
        return not self._ledger.insecure and self._cap.epsilon < math.inf

    @property
    def epsilon(self) -> float:
        """Certified epsilon of all that was reserved, at the total `delta`.

        It is what the worst class pays. Reserved releases count whether or not they
        were drawn. Infinite when the fit is not private.
        """
        if not self.private:
            return math.inf
        return self.curve.certified(self.event(), self.delta - self._spending.delta())

    def epsilon_of(self, scope: Hashable) -> float:
        """Certify what the rows of one scope pay, at the total `delta`.

        Parameters
        ----------
        scope : hashable
            Key of a class, or `UNLABELLED`.

        Returns
        -------
        float
            At most `epsilon`.
        """
        if not self.private:
            return math.inf
        left = self.delta - self._spending.delta(scope)
        return self.curve.certified(self._ledger.event_of(scope), left)

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
            Key of the class whose rows pay. None: every row pays.
        delta : float, default=0.0
            Delta of one release beside the Gaussian curve, taken out of
            `discovery_delta`.

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
        return self._reserve(
            name,
            "gaussian",
            mu=mu,
            count=count,
            scope=scope,
            sensitivity=float(sensitivity),
            # The one place that turns this charge into noise; so for the others below.
            noise_std=lambda: grid_noise_std(mu, sensitivity),
            delta=delta,
        )

    def reserve_sampled_gaussian(
        self,
        name: str,
        *,
        mu: float,
        sampling_rate: float,
        count: int = 1,
        scope: Hashable | None = None,
    ) -> Reservation:
        """Set aside steps of noisy sums over Poisson samples of the rows.

        Parameters
        ----------
        name : str
            What is released, for the report.
        mu : float
            What one step is charged, in (0, inf]; infinite only when `epsilon` is.
        sampling_rate : float
            Probability with which each row is in a step's sample, independently of
            all others and by secret draws; in (0, 1], public or bought.
        count : int, default=1
            Number of steps, at least 1.
        scope : hashable, optional
            Key of the class whose rows pay. None: every row pays.

        Returns
        -------
        Reservation
            With sensitivity 1, in clipping norms, and the noise in `noise_std`.

        Raises
        ------
        BudgetExceededError, ReservationError, ValueError
            As `reserve_gaussian`.
        """
        return self._reserve(
            name,
            "sampled gaussian",
            mu=mu,
            count=count,
            scope=scope,
            noise_std=lambda: self.curve.sampled_noise_multiplier(mu, sampling_rate),
            sampling_rate=float(sampling_rate),
        )

    def reserve_votes(
        self,
        name: str,
        *,
        mu: float,
        n_teachers: int,
        count: int = 1,
        scope: Hashable | None = None,
        noise: VoteNoise = "gaussian",
    ) -> Reservation:
        """Set aside noisy one-bit votes of teachers.

        Parameters
        ----------
        name : str
            What is released, for the report.
        mu : float
            What one vote is charged, in (0, inf]; infinite only when `epsilon` is.
        n_teachers : int
            Number of teachers that vote, at least 1; public.
        count : int, default=1
            Number of votes, at least 1.
        scope : hashable, optional
            Key of the class whose rows pay. None: every row pays.
        noise : {"gaussian", "laplace"}, default="gaussian"
            Law of the discrete noise on the number of votes.

        Returns
        -------
        Reservation
            With sensitivity 1, in votes: a row changes one teacher.

        Raises
        ------
        BudgetExceededError, ReservationError, ValueError
            As `reserve_gaussian`.
        """
        kind: Kind = "gaussian vote" if noise == "gaussian" else "laplace vote"
        return self._reserve(
            name,
            kind,
            mu=mu,
            count=count,
            scope=scope,
            noise_std=lambda: self.curve.vote_noise_std(mu, n_teachers, noise),
            n_teachers=n_teachers,
        )

    def _reserve(
        self,
        name: str,
        kind: Kind,
        *,
        mu: float,
        count: int,
        scope: Hashable | None,
        noise_std: Callable[[], float],
        sensitivity: float = 1.0,
        sampling_rate: float = 1.0,
        n_teachers: int = 0,
        delta: float = 0.0,
    ) -> Reservation:
        """Charge, or refuse and change nothing."""
        count = operator.index(count)
        check_request(mu, count, scope, delta)
        noise = noise_std()
        mu_squared, deltas = count * float(mu) * float(mu), count * float(delta)
        with self._ledger.lock:
            self._spending.refuse_if_exceeded(name, scope, mu_squared, deltas)
            reservation = self._ledger.issue(
                name,
                kind=kind,
                scope=scope,
                mu=float(mu),
                sensitivity=sensitivity,
                noise_std=noise,
                count=count,
                delta=float(delta),
                sampling_rate=sampling_rate,
                n_teachers=operator.index(n_teachers),
                amplified=isinstance(self.curve, RenyiCurve),
            )
            self._spending.add(scope, mu_squared, deltas)
        return reservation

    def remaining_mu(self, scope: Hashable | None = None) -> float:
        """Give the mu that one more release could have.

        Parameters
        ----------
        scope : hashable, optional
            Key of the class whose rows would pay. None: every row.

        Returns
        -------
        float
            In [0, mu_cap]; inf for an infinite epsilon.
        """
        return self._spending.left(scope)

    def close(self) -> None:
        """End the fit: from now on nothing can be reserved or drawn."""
        self._ledger.close()

    def event(self) -> ComposedDpEvent:
        """Give the event tree of what was reserved, as the worst class pays it.

        Returns
        -------
        dp_accounting.ComposedDpEvent
            One event per reservation that the rows of the class with the largest sum
            pay; a single `NonPrivateDpEvent` when the fit is not private.
            The deltas of thresholded releases are not in it.
        """
        from dp_accounting import ComposedDpEvent, NonPrivateDpEvent

        if not self.private:
            return ComposedDpEvent((NonPrivateDpEvent(),))
        return self._ledger.event_of(self._spending.worst_scope())

    def report(self) -> PrivacyReport:
        """Summarise the ledger for people.

        Returns
        -------
        PrivacyReport
            Every reservation, and the total.
        """
        return build_report(
            self._ledger, self._cap, self._spending, self.epsilon, self._remarks
        )
