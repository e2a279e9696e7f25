"""Exact tests of the noise of releases against what the ledger says of it."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom, chi2

from skdpsynth.audit._bounds import NEGLIGIBLE, POWER
from skdpsynth.utils.arrays import Bools, Floats, Ints


def is_vote(kind: str) -> bool:
    """Return whether a reservation of this kind is for one-bit votes."""
    return kind in ("gaussian vote", "laplace vote")


def noise_test(residuals: Floats, *, step: float = 0.0) -> tuple[float, float]:
    """Return the standard deviation of noise over that of a ledger, and a p-value."""
    # Chi-square, two-sided, exact; whole numbers, `step` apart, that may all be 0 by
    # chance count as the largest and the smallest that round to them. A discrete
    # Gaussian of sigma >= 3 has the variance to 1e-30, and the fourth moment.
    n = residuals.size
    if n == 0:
        return math.nan, 1.0
    size = np.abs(residuals, dtype=np.float64)
    chance = (1 - 2 * ndtr(-step / 2)) ** n
    half = step / 2 if chance > NEGLIGIBLE else 0.0
    wide, narrow = (
        float((part**2).sum()) for part in (size + half, np.maximum(size - half, 0))
    )
    p_value = 2 * min(chi2.cdf(wide, n), chi2.sf(narrow, n))
    return math.sqrt(float((size**2).sum()) / n), min(1.0, float(p_value))


def smallest_ratio(n: int, alpha: float) -> float:
    """Return the ratio that `noise_test` would reject as too small; 0 if none."""
    return math.sqrt(chi2.ppf(alpha / 2, n) / chi2.ppf(POWER, n)) if n else 0.0


def flip_rates(counts: Ints, n_teachers: int, scale: float, kind: str) -> Floats:
    """Return, for each number of votes, how often noise reverses the majority."""
    if scale == 0:
        return np.zeros(counts.shape)
    reach = math.ceil(-math.log(NEGLIGIBLE) * scale) + 1
    size = np.abs(np.arange(-reach, reach + 1)) / scale
    weights = np.exp(-size if kind == "laplace vote" else -(size**2) / 2)
    tails = np.append(np.cumsum(weights[::-1])[::-1] / weights.sum(), 0.0)
    # Yes where the noise is at least this.
    needed = np.clip(n_teachers // 2 + 1 - counts, -reach, reach + 1)
    yes = tails[needed + reach]
    return np.where(2 * counts > n_teachers, 1 - yes, yes)


def vote_test(
    counts: Ints, answers: Bools, n_teachers: int, scale: float, kind: str
) -> tuple[float, float]:
    """Return answers against the majority over those expected, and an exact p-value."""
    if counts.size == 0:
        return math.nan, 1.0
    asked, times = np.unique(counts, return_counts=True)
    law = np.ones(1)  # of the number of answers against the majority
    rates = flip_rates(asked, n_teachers, scale, kind)
    for rate, n in zip(rates, times, strict=True):
        law = np.convolve(law, binom.pmf(np.arange(n + 1), n, rate))
    flips = int((answers != (2 * counts > n_teachers)).sum())
    expected = float(law @ np.arange(len(law)))
    p_value = 2 * min(law[: flips + 1].sum(), law[flips:].sum())
    ratio = flips / expected if expected > 0 else math.nan
    return ratio, min(1.0, float(p_value))
