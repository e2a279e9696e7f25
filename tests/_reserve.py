"""Reservations that tests draw from, steps of discovery alone, a test of the noise."""

import math

import numpy as np
from scipy.stats import chi2

from skdpsynth.measure import Discovery
from skdpsynth.privacy import Parts, PrivacyAccountant, Reservation

# Private: what every mechanism of whole numbers draws by; tests take it from here.
from skdpsynth.privacy._mechanisms import release_gaussian as release_gaussian
from skdpsynth.schema import NOTHING_STATED
from skdpsynth.table import ColumnLayout, TableLayout


def exact(sensitivity: float, count: int = 1, delta: float = 0.0) -> Reservation:
    """Reserve without noise, to see the statistic itself."""
    return noisy(sensitivity, math.inf, count, delta)


def noisy(
    sensitivity: float,
    mu: float = 0.2,
    count: int = 1,
    delta: float = 0.0,
    **of_unit: int,
) -> Reservation:
    """Reserve from a budget that is large enough."""
    epsilon = math.inf if mu == math.inf else 1e4
    accountant = PrivacyAccountant(epsilon, 1e-5, discovery_delta=9e-6, **of_unit)
    return accountant.reserve_gaussian(
        "test", mu=mu, sensitivity=sensitivity, count=count, delta=delta
    )


def run_step(
    name: str,
    frame,
    *,
    mu: float = math.inf,
    delta: float = 1e-6,
    n_rows: float | None = None,
    known: list | None = None,
) -> list:
    """Run one step of discovery alone, with so much mu; return the domains it found.

    `known` are the domains of the columns; by default nothing is known of them.
    """
    columns = tuple(ColumnLayout.of(column, frame[column]) for column in frame)
    layout = TableLayout.of(columns, None, NOTHING_STATED)
    discovery = Discovery(layout, NOTHING_STATED)
    (step,) = [own for own in discovery.column_steps if own.name == name]
    epsilon = math.inf if mu == math.inf else 1e4
    accountant = PrivacyAccountant(epsilon, 1e-5, discovery_delta=9e-6)
    public = discovery.public(accountant, float(n_rows or len(frame)))
    public = public._replace(mu_cap=mu, delta=delta)
    for _ in range(2):  # the share may follow from the noise
        cap = mu / math.sqrt(step.cost(public).share)
        public = public._replace(mu_cap=cap)
    domains = dict(discovery.declared)
    if known is not None:
        domains = dict(zip(domains, known, strict=True))
    return [*step.run(Parts.of(frame), domains, accountant, public).values()]


def is_noise(noise: np.ndarray, std: float, alpha: float = 1e-6) -> bool:
    """Test two-sided whether this is noise around 0 of a standard deviation.

    The sum of squares over the variance is chi-squared; it is not by chance at a rate
    of alpha. A discrete Gaussian of sigma > 10 differs by less than 1e-80. Half the
    noise would give a quarter, and none 0.
    """
    total = float((np.asarray(noise, dtype=float) ** 2).sum() / std**2)
    return bool(
        chi2.ppf(alpha / 2, noise.size) < total < chi2.isf(alpha / 2, noise.size)
    )
