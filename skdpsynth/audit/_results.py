"""What an audit found, in words that promise nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.privacy._calibration import gdp_epsilon
from skdpsynth.privacy._report_text import claim as claim_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

#: Probability with which the leak that `power` names would have been rejected.
POWER = 0.8

_CAVEAT = "An audit that finds nothing proves nothing: another attack may find more."


@dataclass(frozen=True, eq=False)  # it holds arrays
class GeneratorAudit:
    """Result of `audit_generator`: a lower bound of epsilon, never an upper one.

    Parameters
    ----------
    claim : float
        The epsilon that was claimed.
    delta : float
        The delta of the claim.
    confidence : float
        Probability of at least which `lower_bound` and `mu_lower_bound` are below the
        truth, both at once.
    lower_bound : float
        Lower bound of epsilon at `delta`, from Clopper-Pearson bounds of both errors.
    mu_lower_bound : float
        Lower bound of the Gaussian-DP parameter; of use where the claim is a Gaussian
        curve, and none of steps on samples, one-bit votes or Laplace noise.
    power : float
        Epsilon of the smallest leak that would have been rejected 8 times in 10; inf
        if there were too few runs to reject any.
    n_judged : int
        Runs in each world that were judged.
    false_alarms : int
        Judged runs without the canary in which the attack saw it.
    misses : int
        Judged runs with the canary in which the attack did not see it.
    score : str
        The score that the attack looks at.
    threshold : float
        From where on it calls the canary present.
    above : bool
        Whether "from there on" means upwards.
    absent : ndarray of shape (n_judged,), float64
        The score in the judged runs without the canary.
    present : ndarray of shape (n_judged,), float64
        The score in the judged runs with the canary.

    See Also
    --------
    audit_generator : Makes one.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.audit import GeneratorAudit
    >>> audit = GeneratorAudit(
    ...     claim=1.0, delta=1e-5, confidence=0.95, lower_bound=3.28,
    ...     mu_lower_bound=3.6, power=2.1, n_judged=100, false_alarms=0, misses=0,
    ...     score="density", threshold=0.5, above=True,
    ...     absent=np.zeros(100), present=np.ones(100),
    ... )
    >>> audit.violated
    True
    """

    claim: float
    delta: float
    confidence: float
    lower_bound: float
    mu_lower_bound: float
    power: float
    n_judged: int
    false_alarms: int
    misses: int
    score: str
    threshold: float
    above: bool
    absent: NDArray[np.float64]
    present: NDArray[np.float64]

    @property
    def violated(self) -> bool:
        """Whether the lower bound is above the claim."""
        return self.lower_bound > self.claim

    @property
    def gdp_lower_bound(self) -> float:
        """Epsilon at `delta` of a Gaussian curve with `mu_lower_bound`."""
        if self.delta == 0:  # no Gaussian curve has a finite epsilon there
            return math.inf if self.mu_lower_bound > 0 else 0.0
        return gdp_epsilon(self.mu_lower_bound, self.delta)

    def __str__(self) -> str:
        claimed, delta = claim_text(self.claim), claim_text(self.delta)
        claim = f"epsilon = {claimed} at delta = {delta}"
        sure = f"{100 * self.confidence:.6g}% confidence"
        number = "0 (too few runs)"
        power = "Power: with so few runs no leak could have been rejected; run more."
        if self.power < math.inf:
            number = f"{self.power:.3g}"
            power = (
                f"Power: would have rejected epsilon >= {number} (a leak that its "
                "scores see as randomized response, 8 times in 10)."
            )
        if self.violated:
            head = (
                f"The audit contradicts {claim}: with {sure} epsilon is above "
                f"{self.lower_bound:.3g}."
            )
        else:
            head = (
                f"The audit found no violation of {claim} at power {number}. With "
                f"{sure} epsilon is above {self.lower_bound:.3g}, which is a lower "
                "bound of the leak and says nothing of how large it is."
            )
        direction = ">=" if self.above else "<="
        attack = (
            f"Attack: {self.score!r} {direction} {self.threshold:.4g}; of "
            f"{self.n_judged} judged runs in each world {self.false_alarms} false "
            f"alarms and {self.misses} misses."
        )
        gaussian = (
            f"Were the claim a Gaussian curve: mu above {self.mu_lower_bound:.3g}, "
            f"epsilon above {self.gdp_lower_bound:.3g}."
        )
        lines = [head, power, attack, gaussian]
        return "\n".join(lines if self.violated else [*lines, _CAVEAT])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the errors of the attack over all thresholds beside what is allowed.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib Axes
            False alarms across, misses upwards. Below the dashed line no attack on a
            mechanism that keeps its claim may be, but for chance.
        """
        ax = drawing(ax)
        alarms = np.linspace(0, 1, 401)
        ax.plot(alarms, _least_misses(alarms, self.claim, self.delta), "k--")
        sign = 1.0 if self.above else -1.0
        thresholds = np.unique(sign * np.concatenate([self.absent, self.present]))
        edges = np.append(thresholds, np.inf)[:, None]
        rates: tuple[Any, Any] = (
            (sign * self.absent >= edges).mean(axis=1),
            (sign * self.present < edges).mean(axis=1),
        )
        ax.step(*rates, where="post", color="tab:blue")
        ax.plot(self.false_alarms / self.n_judged, self.misses / self.n_judged, "ro")
        ax.set(
            xlabel="false alarms",
            ylabel="misses",
            title=f"{self.score} (dashed: limit of epsilon = {self.claim:.4g})",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        return ax


def drawing(ax: Axes | None) -> Axes:
    """Give where to draw; by default a new figure."""
    import matplotlib.pyplot as plt

    return plt.subplots()[1] if ax is None else ax


def _least_misses(
    alarms: NDArray[np.float64], epsilon: float, delta: float
) -> NDArray[np.float64]:
    """Give the trade-off curve of (epsilon, delta)."""
    growth = math.exp(min(epsilon, 700.0))
    lines = [1 - delta - growth * alarms, (1 - delta - alarms) / growth]
    return np.maximum(np.maximum(*lines), 0.0)
