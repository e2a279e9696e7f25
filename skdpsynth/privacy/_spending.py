"""What one fit may spend, fixed before any data is touched, and what was reserved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skdpsynth.exceptions import BudgetExceededError, check_range
from skdpsynth.privacy._calibration import certified_epsilon, gdp_mu

if TYPE_CHECKING:
    from collections.abc import Hashable

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
