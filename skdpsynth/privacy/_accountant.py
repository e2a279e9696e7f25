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
from typing import TYPE_CHECKING

from skdpsynth.privacy._calibration import (
    grid_noise_std,
    sampled_noise_multiplier,
    vote_noise_std,
)
from skdpsynth.privacy._ledger import (
    Entry,
    Ledger,
    Reservation,
    Spending,
    check_request,
    fixed_cap,
)
from skdpsynth.privacy._report import PrivacyReport, build_report, scope_words

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from skdpsynth.privacy._budget import PrivacyBudget
    from skdpsynth.privacy._calibration import VoteNoise
    from skdpsynth.privacy._ledger import Kind


_LOG = logging.getLogger("skdpsynth")


class PrivacyAccountant:
    """The ledger of one fit.

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
        Whether sampling of rows may be made use of. It makes no charge larger, but the
        price of replacing a row.
    budget : PrivacyBudget, optional
        What several fits share. It is charged ``(epsilon, delta)`` at once; a fit that
        fails later stays charged.

    Attributes
    ----------
    mu_cap : float
        What all reservations of a row share; inf for an infinite epsilon.

    Raises
    ------
    ValueError
        For an epsilon or a delta outside its range.
    BudgetExceededError
        When `budget` has less than ``(epsilon, delta)`` left. Nothing is spent then.

    See Also
    --------
    skdpsynth.PrivacyBudget : What several fits share.
    Reservation : The right to a number of releases.

    Notes
    -----
    The guarantee is for adding or removing one row. Releases with ``scope=None`` are
    paid by every row. Releases with a scope are paid by the rows of that class only,
    and since a row has one class, classes compose in parallel: a row pays
    ``mu_all^2 + mu_class^2``, and the total is the worst class's. What is claimed is
    the cap, whatever was reserved: how much that is may depend on earlier releases.

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
        budget: PrivacyBudget | None = None,
    ) -> None:
        self._cap = fixed_cap(epsilon, delta, discovery_delta, amplified=amplified)
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
    def delta(self) -> float:
        """Total delta of the fit."""
        return self._cap.delta

    @property
    def private(self) -> bool:
        """False when epsilon is infinite or noise came from a seeded generator."""
        return not self._ledger.insecure and self._cap.epsilon < math.inf

    @property
    def epsilon(self) -> float:
        """Certified epsilon of the cap, at the total `delta`: what the fit promises.

        At most the epsilon asked for, and the same for every table. Infinite when the
        fit is not private.
        """
        return self._cap.certified if self.private else math.inf

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
        sensitivity: float | None = None,
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
            all others and by secret draws; in (0, 1], public or bought.
        sensitivity : float, optional
            L2 sensitivity of sums of whole numbers, positive: their noise is discrete.
            None: sums of floating-point numbers, in clipping norms.
        count : int, default=1
            Number of steps, at least 1.
        scope : hashable, optional
            Key of the class whose rows pay. None: every row pays.
        tail_delta : float, default=0.0
            Delta of the whole block, out of `discovery_delta`; only of an accountant
            that is `amplified`. Without any, a step is charged as if every row were in
            it.

        Returns
        -------
        Reservation
            For sums of whole numbers as from `reserve_gaussian`, otherwise with
            sensitivity 1, in clipping norms; the noise is in `noise_std`.

        Raises
        ------
        BudgetExceededError, ReservationError, ValueError
            As `reserve_gaussian`.

        Notes
        -----
        Discrete noise is a post-processing of continuous noise (`grid_noise_std`) when
        it is added to a sample's sum as well, so it is charged as that is.
        """
        if tail_delta > 0 and not self._cap.amplified:
            raise ValueError(
                "Sampling counts only where the accountant was told so in advance. "
                "Make it with amplified=True, or leave out tail_delta."
            )

        def noise_std() -> float:
            block = mu * math.sqrt(count), sampling_rate, count, tail_delta
            multiplier = sampled_noise_multiplier(*block)
            if sensitivity is None or multiplier == 0:
                return multiplier
            return grid_noise_std(1 / multiplier, sensitivity)

        return self._reserve(
            name,
            "sampled gaussian" if sensitivity is None else "gaussian",
            mu=mu,
            count=count,
            scope=scope,
            sensitivity=1.0 if sensitivity is None else float(sensitivity),
            noise_std=noise_std,
            sampling_rate=float(sampling_rate),
            delta=tail_delta / max(count, 1),
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
        count : int, default=1
            Number of votes, at least 1.
        scope : hashable, optional
            Key of the class whose rows pay. None: every row pays.
        noise : {"gaussian", "laplace"}, default="gaussian"
            Law of the discrete noise on the number of votes.
        tail_delta : float, default=0.0
            Delta of the whole block, out of `discovery_delta`. Without any, a vote is
            charged as the noisy number of votes, which tells more.

        Returns
        -------
        Reservation
            With sensitivity 1, in votes: a row changes one teacher.

        Raises
        ------
        BudgetExceededError, ReservationError, ValueError
            As `reserve_gaussian`.
        """
        if n_teachers < 1:
            msg = f"Expected at least 1 teacher. Got {n_teachers!r} instead."
            raise ValueError(msg)
        kind: Kind = "gaussian vote" if noise == "gaussian" else "laplace vote"
        return self._reserve(
            name,
            kind,
            mu=mu,
            count=count,
            scope=scope,
            noise_std=lambda: vote_noise_std(
                mu * math.sqrt(count), count, noise, tail_delta
            ),
            n_teachers=n_teachers,
            delta=tail_delta / max(count, 1),
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
            line = Entry(
                name=name,
                kind=kind,
                scope=scope,
                mu=float(mu),
                sensitivity=sensitivity,
                noise_std=noise,
                count=count,
                delta=float(delta),
                sampling_rate=sampling_rate,
                n_teachers=operator.index(n_teachers),
            )
            reservation = self._ledger.issue(line)
            self._spending.add(scope, mu_squared, deltas)
        payer = scope_words(scope)
        _LOG.info("Buying %s, paid by %s: %d release(s)", name, payer, count)
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

    def report(self) -> PrivacyReport:
        """Summarise the ledger for people.

        Returns
        -------
        PrivacyReport
            Every reservation, and the total.
        """
        return build_report(self._ledger, self._cap, self.epsilon, self._remarks)
