"""Exact tests that noise has the size that the ledger charges for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom, chi2

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.privacy._reservation import Kind

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# Tails of the noise beyond so many scales are below 1e-14.
_SCALES = 36
_FEW = 16  # entries that may all be 0 by chance
_BISECTIONS = 30


def noise_test(residuals: Floats, *, step: float = 0.0) -> tuple[float, float]:
    """Test that Gaussian noise, over the ledger's, has a standard deviation of 1.

    Gives the measured one and a two-sided p-value (chi-square). It is exact for
    Gaussian noise; of whole numbers, `step` apart, each counts as the largest and the
    smallest one that would have been rounded to it. The discrete Gaussian with
    sigma >= 3, which the package uses, has the same variance to 1e-30, and the same
    fourth moment.
    """
    n = residuals.size
    if n == 0:
        return math.nan, 1.0
    squares = float(np.square(residuals, dtype=np.float64).sum())
    half = step / 2 if n < _FEW else 0.0
    wide, narrow = np.abs(residuals) + half, np.maximum(np.abs(residuals) - half, 0)
    p_value = 2 * min(
        chi2.cdf(float((wide**2).sum()), n), chi2.sf(float((narrow**2).sum()), n)
    )
    return math.sqrt(squares / n), min(1.0, float(p_value))


def flip_rates(counts: Ints, n_teachers: int, scale: float, kind: Kind) -> Floats:
    """Give, for each number of votes, how often noise turns the majority round."""
    if scale == 0:
        return np.zeros(counts.shape)
    reach = math.ceil(_SCALES * scale) + 1
    noise = np.arange(-reach, reach + 1)
    size = np.abs(noise) / scale
    weights = np.exp(-size if kind == "laplace vote" else -(size**2) / 2)
    tails = np.append(np.cumsum(weights[::-1])[::-1] / weights.sum(), 0.0)
    # Yes where the noise is at least this.
    needed = np.clip(n_teachers // 2 + 1 - counts, -reach, reach + 1)
    yes = tails[needed + reach]
    return np.where(2 * counts > n_teachers, 1 - yes, yes)


def vote_test(
    counts: Ints, answers: NDArray[np.bool_], n_teachers: int, scale: float, kind: Kind
) -> tuple[float, float]:
    """Test that one-bit votes are turned round as often as the ledger's noise does.

    Gives answers against the majority over their expected number, and a two-sided
    p-value by the exact law of that number (a sum of binomial laws).
    """
    if counts.size == 0:
        return math.nan, 1.0
    flips = int((answers != (2 * counts > n_teachers)).sum())
    law = _law_of_flips(counts, n_teachers, scale, kind)
    expected = float(law @ np.arange(len(law)))
    p_value = 2 * min(law[: flips + 1].sum(), law[flips:].sum())
    ratio = flips / expected if expected > 0 else math.nan
    return ratio, min(1.0, float(p_value))


def rejected_scale(
    counts: Ints,
    n_teachers: int,
    scale: float,
    kind: Kind,
    *,
    alpha: float,
    power: float,
) -> float:
    """Find the scale that `vote_test` would have rejected as too small; 0 if none."""
    law = _law_of_flips(counts, n_teachers, scale, kind)
    rejected = 2 * np.cumsum(law) < alpha
    if not rejected[0]:  # not even answers that all agree
        return 0.0
    low, high = 0.0, scale
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        own = _law_of_flips(counts, n_teachers, middle, kind)
        found = own[rejected].sum() >= power
        low, high = (middle, high) if found else (low, middle)
    return low


def _law_of_flips(counts: Ints, n_teachers: int, scale: float, kind: Kind) -> Floats:
    """Give the law of the number of answers against the majority."""
    law = np.ones(1)
    for count, times in zip(*np.unique(counts, return_counts=True), strict=True):
        rate = float(flip_rates(np.array([count]), n_teachers, scale, kind)[0])
        law = np.convolve(law, binom.pmf(np.arange(times + 1), times, rate))
    return law


def smallest_ratio(n: int, alpha: float, power: float) -> float:
    """Find the ratio that `noise_test` would have rejected as too small; 0 if none."""
    if n == 0:
        return 0.0
    return math.sqrt(chi2.ppf(alpha / 2, n) / chi2.ppf(power, n))
