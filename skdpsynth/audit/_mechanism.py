"""White-box audit of one mechanism: its noise and its sensitivity."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom, chi2, norm

from skdpsynth.audit._bounds import (
    NEGLIGIBLE,
    POWER,
    epsilon_lower_bound,
    guessing_lower_bound,
)
from skdpsynth.privacy import (
    PrivacyAccountant,
    Reservation,
    gdp_epsilon,
    secret_generator,
)
from skdpsynth.utils import EXCESS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Mechanism = Callable[[Any, Reservation], NDArray[Any]]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NOTHING_FOUND = (
    "The audit found no violation. It looked at these two inputs only: others may "
    "move more."
)


@dataclass(frozen=True, eq=False)  # it holds arrays
class MechanismAudit:
    """Result of `audit_mechanism`.

    Parameters
    ----------
    name : str
        Name of the reservation.
    findings : tuple of str
        What contradicts the ledger; empty where nothing does.
    lower_bound, mu_lower_bound, delta : float
        Lower bounds of one release, where rows are sampled given that the row is in
        the sample. Of epsilon at `delta`: it takes the noise for Gaussian and
        independent. Of the Gaussian-DP parameter: by an attack that assumes nothing of
        the noise and needs many more draws; nan for votes.
    confidence : float
        Probability of at least which a finding is no accident.
    power : float
        Smallest epsilon of one release at `delta`, between these inputs, whose noise
        would have been rejected as too little, 8 times in 10; inf where none would.
    noise_ratio, p_value : float
        Measured noise over the ledger's, and the two-sided p-value of noise like the
        ledger's. For votes: answers against the majority over their expected number.
    shift : float
        How far the neighbour moves the exact value, over the ledger's sensitivity.
    n_draws : int
        Releases drawn.
    residuals : ndarray, float64
        The noise drawn over the ledger's; empty for votes.

    See Also
    --------
    audit_mechanism : Makes one.
    audit_ledger : All releases of a fit.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.audit import MechanismAudit
    >>> audit = MechanismAudit(
    ...     name="counts", findings=(), lower_bound=0.9, mu_lower_bound=0.2,
    ...     delta=1e-5, confidence=0.999, power=0.9, noise_ratio=1.01, p_value=0.7,
    ...     shift=1.0, n_draws=1000, residuals=np.zeros(3),
    ... )
    >>> audit.violated
    False
    """

    name: str
    findings: tuple[str, ...]
    lower_bound: float
    mu_lower_bound: float
    delta: float
    confidence: float
    power: float
    noise_ratio: float
    p_value: float
    shift: float
    n_draws: int
    residuals: NDArray[np.float64]

    @property
    def violated(self) -> bool:
        """Whether anything contradicts the ledger."""
        return bool(self.findings)

    def __str__(self) -> str:
        contradictions = [f"Contradiction: {finding}" for finding in self.findings]
        power = "Power: none; draw more releases."
        if not math.isinf(self.power):
            power = (
                f"Power: would have rejected epsilon >= {self.power:.4g} of one "
                f"release, {round(10 * POWER)} times in 10."
            )
        noise = (
            f"Noise over the ledger's: {self.noise_ratio:.4g} "
            f"(p = {self.p_value:.3g}). Shift over the sensitivity: {self.shift:.4g}."
        )
        bound = (
            f"With {100 * self.confidence:.6g}% confidence epsilon of one release is "
            f"above {self.lower_bound:.4g} at delta = {self.delta:.3g}; how far above "
            "no audit can say."
        )
        head = f"Audit of {self.name!r}: {self.n_draws} releases."
        text = [head, *(contradictions or [_NOTHING_FOUND]), power, noise, bound]
        if not math.isnan(self.mu_lower_bound):
            text.append(
                f"Guesses by the release alone: mu above {self.mu_lower_bound:.4g}."
            )
        return "\n".join(text)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the noise over the ledger's beside a standard normal law.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib Axes
            A histogram; without bars for votes, whose noise stays hidden.
        """
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        if self.residuals.size:
            ax.hist(self.residuals, bins=50, density=True, color="tab:blue")
        grid = np.linspace(-4, 4, 201)
        ax.plot(grid, norm.pdf(grid), "k--")
        ax.set(xlabel="noise over the ledger's", ylabel="density", title=self.name)
        return ax


def audit_mechanism(
    mechanism: Mechanism,
    data: Any,
    neighbour: Any,
    reservation: Reservation,
    *,
    unit: float = 1.0,
    n_draws: int = 1_000,
    delta: float = 1e-5,
    alpha: float = 1e-6,
) -> MechanismAudit:
    """Compare one mechanism's noise and shift with what a reservation says.

    Parameters
    ----------
    mechanism : callable
        Called as ``mechanism(data, reservation)``; makes one release and returns it as
        an array. For a reservation of votes `data` are the exact counts and each entry
        is a release.
    data, neighbour : object
        Inputs that differ by one row. Choose the pair that moves the result most.
    reservation : Reservation
        What the mechanism claims. It is a pattern: the draws are charged to copies of
        its line in ledgers of their own, one of them without noise.
    unit : float, default=1.0
        Size of one ledger unit in the result, positive: ``clip / GRID`` for a
        Gaussian sum, the clipping norm for a step of DP-SGD.
    n_draws : int, default=1000
        Releases to draw, at least 2. The attack is tight from some 100,000 on.
    delta : float, default=1e-5
        At which the lower bound of epsilon is given, in (0, 1).
    alpha : float, default=1e-6
        Probability of a finding where there is none, in (0, 1).

    Returns
    -------
    MechanismAudit
        Its `findings` are empty where the noise, the shift and the number of releases
        agree with the reservation.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    See Also
    --------
    audit_ledger : All releases of a fit at once.

    Notes
    -----
    The noise is compared by the exact chi-square law of its squares, votes by the
    exact law of the answers against the majority. The shift is exact: the noise is
    switched off by a reservation without noise.

    A coin chooses the input of each draw, and the attack guesses it: it projects the
    release on the direction in which the row moves it and says on which side of the
    middle it lies. Against Gaussian noise no test is better (Neyman and Pearson), and
    whatever the noise is, `guessing_lower_bound` holds: noise of the right size that
    spares this direction is found. Votes are drawn from both inputs as often.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.audit import audit_mechanism
    >>> from skdpsynth.privacy import PrivacyAccountant
    >>> from skdpsynth.privacy._mechanisms import release_gaussian
    >>> accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    >>> counts = accountant.reserve_gaussian("counts", mu=0.2, sensitivity=1)
    >>> data, neighbour = np.array([7, 3]), np.array([8, 3])
    >>> audit = audit_mechanism(release_gaussian, data, neighbour, counts)
    >>> audit.violated, audit.shift
    (False, 1.0)
    """
    if not (unit > 0 and n_draws >= 2 and 0 < delta < 1 and 0 < alpha < 1):
        raise ValueError(
            "Expected unit > 0, n_draws >= 2, and delta and alpha in (0, 1). Got "
            f"{unit!r}, {n_draws!r}, {delta!r} and {alpha!r} instead."
        )
    line, pair = _line_like(reservation), (data, neighbour)
    if is_vote(line.kind):
        fields = _audit_votes(mechanism, pair, line, n_draws, delta, alpha)
    else:
        fields = _audit_noise(mechanism, pair, line, n_draws, delta, alpha, unit)
    return MechanismAudit(
        line.name, delta=delta, confidence=1 - alpha, n_draws=n_draws, **fields
    )


def is_vote(kind: str) -> bool:
    """Return whether a reservation of this kind is for one-bit votes."""
    return kind in ("gaussian vote", "laplace vote")


def _line_like(
    reservation: Reservation, count: int = sys.maxsize, *, noise: bool = True
) -> Reservation:
    """Copy a line into a ledger of its own, with or without its noise."""
    line = {**vars(reservation), "count": count}
    line |= {} if noise else {"mu": math.inf, "noise_std": 0.0}
    return PrivacyAccountant(math.inf, 1 / 2)._issue(line)  # it charges nothing


def _compare_line(
    line: Reservation, n_releases: int, what: str, shift: float
) -> list[str]:
    """Compare the number of releases and the shift with the line."""
    findings = []
    if line.used != n_releases:
        findings.append(
            f"{n_releases} releases were made, but {line.used} were charged."
        )
    if shift > line.sensitivity * (1 + EXCESS):
        findings.append(
            f"one row moves {what} by {shift:.6g}, but the ledger's sensitivity is "
            f"{line.sensitivity:.6g}."
        )
    return findings


def _audit_noise(
    mechanism: Mechanism,
    pair: tuple[Any, Any],
    line: Reservation,
    n_draws: int,
    delta: float,
    alpha: float,
    unit: float,
) -> dict[str, Any]:
    """Audit a release with Gaussian noise; return fields of a `MechanismAudit`."""
    silent = _line_like(line, noise=False)
    half = alpha / 2  # two tests of the draws can find something
    exact, again, other = (
        np.asarray(mechanism(data, silent), dtype=np.float64) / unit
        for data in (pair[0], *pair)
    )
    with_row = secret_generator().random(n_draws) < 0.5
    draws = np.stack([mechanism(pair[int(coin)], line) for coin in with_row]) / unit
    shift = float(np.linalg.norm((exact - other).ravel()))
    is_silent = np.array_equal(exact, again)
    findings = _compare_line(line, n_draws, "the value", shift if is_silent else 0.0)
    if not is_silent:
        findings.append("noise is drawn where the reservation has none.")
    residuals, ratio, p_value = np.empty(0), math.nan, 1.0
    bound = power = math.inf
    if line.noise_std > 0:
        truth = np.stack([exact, other])[with_row.astype(np.intp)]
        residuals = ((draws - truth) / line.noise_std).ravel()
        ratio, p_value = noise_test(residuals, step=1.0 / line.noise_std)
        most = ratio / math.sqrt(chi2.ppf(alpha, residuals.size) / residuals.size)
        mu = shift / (most * line.noise_std) if most > 0 else math.inf
        bound = gdp_epsilon(mu if shift > 0 else 0.0, delta)
        rejected = smallest_ratio(residuals.size, half) * line.noise_std
        if min(shift, rejected) > 0:
            power = gdp_epsilon(shift / rejected, delta)
    if p_value < half:
        findings.append(
            f"the noise is {ratio:.4g} times the ledger's (p = {p_value:.3g})."
        )
    projected = ((draws - (exact + other) / 2) * (other - exact)).reshape(n_draws, -1)
    wrong = int(((projected.sum(axis=1) > 0) != with_row).sum())
    shown, claimed = guessing_lower_bound(wrong, n_draws, alpha=half), line.mu
    if line.sampling_rate < 1 and line.noise_std > 0:  # the row is in
        excess = 4.0 if line.kind == "gaussian" else 0.0  # see `grid_noise_std`
        claimed = line.sensitivity / math.sqrt(line.noise_std**2 - excess)
    if shown > claimed:
        findings.append(
            f"guesses by the release show a mu above {shown:.4g}, but the ledger's "
            f"is {claimed:.4g}."
        )
    return {
        "findings": tuple(findings),
        "lower_bound": bound,
        "mu_lower_bound": guessing_lower_bound(wrong, n_draws, alpha=alpha),
        "power": power,
        "noise_ratio": ratio,
        "p_value": p_value,
        "shift": shift / line.sensitivity,
        "residuals": residuals,
    }


def _audit_votes(
    mechanism: Mechanism,
    pair: tuple[Any, Any],
    line: Reservation,
    n_draws: int,
    delta: float,
    alpha: float,
) -> dict[str, Any]:
    """Audit one-bit votes, as `_audit_noise`; the noise itself stays hidden."""
    counts = [np.atleast_1d(np.asarray(data, dtype=np.int64)) for data in pair]
    answers = [
        np.stack([mechanism(part, line) for _ in range(n_draws)]) for part in counts
    ]
    moved = np.abs(counts[0] - counts[1])
    shift, query = float(moved.max()), int(moved.argmax())
    findings = _compare_line(line, 2 * n_draws * len(counts[0]), "a count", shift)
    law = (line.n_teachers, line.noise_std, line.kind)
    drawn = np.tile(counts[0], n_draws)
    ratio, p_value = vote_test(drawn, answers[0].ravel(), *law)
    if p_value < alpha:
        findings.append(
            f"answers against the majority are {ratio:.4g} times as frequent as with "
            f"the ledger's noise (p = {p_value:.3g})."
        )
    yes, other = (int(part[:, query].sum()) for part in answers)
    bound = max(  # "the neighbour" is called by a yes, or by a no
        epsilon_lower_bound(*errors, n_draws, delta=delta, alpha=alpha / 2)
        for errors in ((yes, n_draws - other), (n_draws - yes, other))
    )
    rejected = rejected_scale(drawn, *law, alpha=alpha)
    asked = np.array([part[query] for part in counts])
    flips = flip_rates(asked, line.n_teachers, rejected, line.kind)
    yes_rate, other_rate = np.where(2 * asked > line.n_teachers, 1 - flips, flips)
    return {
        "findings": tuple(findings),
        "lower_bound": bound,
        "mu_lower_bound": math.nan,  # their curve is not Gaussian
        "power": bit_epsilon(yes_rate, other_rate, delta) if rejected else math.inf,
        "noise_ratio": ratio,
        "p_value": p_value,
        "shift": shift / line.sensitivity,
        "residuals": np.empty(0),
    }


def bit_epsilon(yes: float, other: float, delta: float) -> float:
    """Return the epsilon at `delta` of one bit, by its two probabilities of a yes."""
    pairs = ((yes, other), (other, yes), (1 - yes, 1 - other), (1 - other, 1 - yes))
    ratios = [(p - delta) / q if q > 0 else math.inf for p, q in pairs if p > delta]
    return math.log(max(1.0, *ratios))


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


def _law_of_flips(counts: Ints, n_teachers: int, scale: float, kind: str) -> Floats:
    """Return the law of the number of answers against the majority."""
    law = np.ones(1)
    for count, times in zip(*np.unique(counts, return_counts=True), strict=True):
        rate = float(flip_rates(np.array([count]), n_teachers, scale, kind)[0])
        law = np.convolve(law, binom.pmf(np.arange(times + 1), times, rate))
    return law


def vote_test(
    counts: Ints, answers: NDArray[np.bool_], n_teachers: int, scale: float, kind: str
) -> tuple[float, float]:
    """Return answers against the majority over those expected, and an exact p-value."""
    if counts.size == 0:
        return math.nan, 1.0
    flips = int((answers != (2 * counts > n_teachers)).sum())
    law = _law_of_flips(counts, n_teachers, scale, kind)
    expected = float(law @ np.arange(len(law)))
    p_value = 2 * min(law[: flips + 1].sum(), law[flips:].sum())
    ratio = flips / expected if expected > 0 else math.nan
    return ratio, min(1.0, float(p_value))


def rejected_scale(
    counts: Ints, n_teachers: int, scale: float, kind: str, *, alpha: float
) -> float:
    """Return the scale that `vote_test` would reject as too small; 0 if none."""
    rejected = 2 * np.cumsum(_law_of_flips(counts, n_teachers, scale, kind)) < alpha
    if not rejected[0]:  # not even answers that all agree
        return 0.0

    def excess_power(narrower: float) -> float:
        return (
            float(_law_of_flips(counts, n_teachers, narrower, kind)[rejected].sum())
            - POWER
        )

    return float(brentq(excess_power, 0.0, scale))
