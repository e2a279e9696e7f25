"""What a fit would cost if one row were replaced, instead of added or removed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from skdpsynth.privacy._curves import RenyiCurve

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from skdpsynth.privacy._curves import Curve
    from skdpsynth.privacy._reservation import Entry

__all__ = ["replace_one_epsilon"]


def replace_one_epsilon(
    entries: Sequence[Entry],
    curve: Curve,
    *,
    mu: float,
    delta: float,
    discovery_delta: float,
) -> float:
    """Bound epsilon when one row is replaced by any other, possibly of another class.

    Parameters
    ----------
    entries : sequence of Entry
        All lines of the ledger.
    curve : GaussianCurve or RenyiCurve
        How costs add up.
    mu : float
        Root of the sum of mu^2 that the worst class pays, finite.
    delta : float
        Total delta.
    discovery_delta : float
        Part of it that thresholded releases reserved.

    Returns
    -------
    float
        Epsilon at the same delta; inf where discovering keys leaves no delta for it.
    """
    sampled = any(entry.sampling_rate < 1 for entry in entries)
    if isinstance(curve, RenyiCurve) and sampled:
        return _as_two_steps(curve, mu, delta, discovery_delta)
    return _as_two_rows(entries, curve, delta, discovery_delta)


def _as_two_rows(
    entries: Sequence[Entry], curve: Curve, delta: float, discovery_delta: float
) -> float:
    """Add up what the old and the new row pay.

    They may be of two classes, or move two bins of a histogram:
    ``mu_1^2 + mu_2^2 <= 2 mu^2``. In a sum of clipped rows (DP-SGD) a row may turn into
    its opposite, which moves the sum by 2C instead of C: ``4 mu^2``; a sample that
    either row is in with the same probability makes it no dearer. A teacher's vector
    counts 2C already. Each of the two rows may discover a key.
    """
    paid: dict[Hashable | None, float] = {None: 0.0}
    for entry in entries:
        factor = 4.0 if entry.kind == "sampled gaussian" else 2.0
        added = factor * entry.count * entry.mu**2
        paid[entry.scope] = paid.get(entry.scope, 0.0) + added
    worst = max((v for scope, v in paid.items() if scope is not None), default=0.0)
    left = delta - 2 * discovery_delta
    return curve.epsilon(math.sqrt(paid[None] + worst), left) if left > 0 else math.inf


def _as_two_steps(
    curve: Curve, mu: float, delta: float, discovery_delta: float
) -> float:
    """Remove one row, then add one: two steps between neighbours.

    Where rows are sampled, two of one class may be in the same sample, so costs do not
    just add up. Two steps are ``(2 epsilon', (1 + e^epsilon') delta')``, here for the
    best delta'.
    """
    best = math.inf
    for exponent in range(1, 120):
        smaller = delta * 2.0 ** (-exponent / 4)
        if smaller <= discovery_delta:
            break
        epsilon = curve.epsilon(mu, smaller - discovery_delta)
        if epsilon < 500 and (1 + math.exp(epsilon)) * smaller <= delta:
            best = min(best, 2 * epsilon)
    return best
