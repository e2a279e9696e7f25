"""What one fit may spend, fixed before any data is touched."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skdpsynth.exceptions import check_range
from skdpsynth.privacy._calibration import certified_epsilon, gdp_mu

# The plan aims a little below the epsilon asked for, so that the pessimistic
# certificate of the loss distributions still stays within it.
_CERTIFICATE_ROOM = 5e-4
_LARGE_EPSILON, _LARGE_ROOM = 500.0, 2e-3  # from where the certificate is coarser
# Below, at a delta near 1e-12, rounding moves the certificate by a few per cent.
_SMALL_EPSILON, _SMALL_ROOM = 1e-8, 0.1

# The proof beside `thresholded_counts` needs it.
_MAX_DISCOVERY_DELTA = 0.1


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
