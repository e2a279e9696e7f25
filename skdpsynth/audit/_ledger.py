"""White-box audit of a fit: every release against its line of the ledger."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from skdpsynth.audit._mechanism import is_vote, noise_test, smallest_ratio, vote_test
from skdpsynth.audit._worlds import (
    Observed,
    canary_rows,
    compare,
    enter,
    entries_of,
    recorded,
)
from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import DegradedResultWarning, check_range
from skdpsynth.privacy import scope_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NOTHING_FOUND = (
    "The audit found no violation. It tried one canary and one history of releases; "
    "'power' is the share of the ledger's noise that it would have rejected as too "
    "little. It is no proof of the claim."
)


@dataclass(frozen=True)
class ReleaseCheck:
    """What one line of the ledger was found to be.

    Parameters
    ----------
    name, scope : str
        What is released, and whose rows it is computed from and charged to: all, or
        those of a class.
    reserved, charged, drawn : int
        Releases that the ledger allows, that it counted, and that were observed.
    noise_ratio : float
        Measured noise over the ledger's; for votes, answers against the majority over
        their expected number. nan where there is none.
    p_value : float
        Of noise like the ledger's.
    power : float
        Share of the ledger's noise that would have been rejected 8 times in 10; nan
        for votes.
    shift : float
        The most by which the canary moved one release, over the sensitivity.

    See Also
    --------
    LedgerAudit : All lines.

    Examples
    --------
    >>> from skdpsynth.audit import ReleaseCheck
    >>> check = ReleaseCheck("counts", "all rows", 1, 1, 1, 0.99, 0.8, 0.7, 1.0)
    >>> check.shift
    1.0
    """

    name: str
    scope: str
    reserved: int
    charged: int
    drawn: int
    noise_ratio: float
    p_value: float
    power: float
    shift: float


@dataclass(frozen=True)
class LedgerAudit:
    """Result of `audit_ledger`.

    Parameters
    ----------
    lines : tuple of ReleaseCheck
        One per reservation.
    findings : tuple of str
        What contradicts the ledger; empty where nothing does.
    confidence : float
        Probability of at least which a finding is no accident.

    See Also
    --------
    audit_ledger : Makes one.

    Examples
    --------
    >>> from skdpsynth.audit import LedgerAudit
    >>> LedgerAudit(lines=(), findings=(), confidence=0.999999).violated
    False
    """

    lines: tuple[ReleaseCheck, ...]
    findings: tuple[str, ...]
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether anything contradicts the ledger."""
        return bool(self.findings)

    def __str__(self) -> str:
        text = self.to_frame().to_string(index=False, float_format="{:.3g}".format)
        contradictions = [f"Contradiction: {finding}" for finding in self.findings]
        return "\n".join([text, *(contradictions or [_NOTHING_FOUND])])

    def to_frame(self) -> pd.DataFrame:
        """Return the lines as a table.

        Returns
        -------
        DataFrame
            One row per reservation, columns as the fields of `ReleaseCheck`.
        """
        return pd.DataFrame([vars(line) for line in self.lines])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the measured noise of every line over the ledger's.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib Axes
            One bar per line; 1 is what was reserved.
        """
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        names = [f"{line.name} ({line.scope})" for line in self.lines]
        ax.barh(np.arange(len(names)), [line.noise_ratio for line in self.lines])
        ax.axvline(1.0, color="k", linestyle="--")
        ax.set_yticks(np.arange(len(names)), names)
        ax.set_xlabel("measured noise over the ledger's")
        return ax


def audit_ledger(
    synthesizer: BaseSynthesizer,
    table: pd.DataFrame,
    canary: Mapping[str, object] | pd.DataFrame,
    *,
    alpha: float = 1e-6,
    seed: int = 0,
) -> LedgerAudit:
    """Observe three fits and compare every release with the ledger.

    Parameters
    ----------
    synthesizer : BaseSynthesizer
        Of this package or your own, with a finite epsilon; it is cloned, and a shared
        `budget` is left aside.
    table : DataFrame
        The table without the canary. Make it up: what an audit prints is computed from
        its rows and is not private.
    canary : mapping from column to value, or DataFrame of one row
        The row that is added at the end in one of the fits; an extreme one shows most.
        With a `privacy_unit` all rows of one unit, which the table lacks.
    alpha : float, default=1e-6
        Probability of a finding where there is none, in (0, 1).
    seed : int, default=0
        Of the secrets in the two fits that are compared; they are not private.

    Returns
    -------
    LedgerAudit
        Its `findings` are empty where all agrees.

    Raises
    ------
    TypeError
        If the synthesizer has no ledger.
    ValueError
        If `alpha` is out of range, or the canary does not fit the table.

    See Also
    --------
    audit_generator : For objects without a ledger.

    Notes
    -----
    1. One fit with secret noise: as many releases are made as are charged; what came
       out minus what went in has the noise of the ledger (exact tests, `alpha` over
       all lines).
    2. Two fits with frozen secrets, without and with the canary, the second answered
       with the releases of the first. Both ask for the same releases. The canary moves
       each by at most its sensitivity, and those of one class alone beside those that
       are charged to all rows. The fitted objects are equal, sample the same rows and
       report the same: what they know of the canary they know by the releases.

    Releases that the fit makes in threads of its own are not observed, which is itself
    a finding.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsynth import IndependentSynthesizer
    >>> from skdpsynth.audit import audit_ledger
    >>> from skdpsynth.schema import Continuous, TableSchema
    >>> synth = IndependentSynthesizer(schema=TableSchema({"x": Continuous(0, 9)}))
    >>> table = pd.DataFrame({"x": [float(i % 7) for i in range(200)]})
    >>> audit_ledger(synth, table, {"x": 9.0}).violated
    False
    """
    if not isinstance(synthesizer, BaseSynthesizer):
        raise TypeError(
            "Expected a BaseSynthesizer, which has a ledger. Got "
            f"{type(synthesizer).__name__} instead; use audit_generator for it."
        )
    check_range("alpha", alpha, 0 < alpha < 1, "in (0, 1)")
    rows = canary_rows(table, canary, synthesizer.schema)
    other = pd.concat([table, rows], ignore_index=True)
    ready = clone(synthesizer).set_params(budget=None)
    if ready.random_state is None:
        ready.set_params(random_state=0)
    fitted: BaseSynthesizer = clone(ready)
    with recorded() as releases, warnings.catch_warnings():
        warnings.simplefilter("ignore", DegradedResultWarning)
        fitted.fit(table)
    first = enter(ready, table, seed, coupled=False)
    if first.error is not None:
        raise first.error
    second = enter(ready, other, seed, first.releases, coupled=False)
    shifts, of_worlds = compare(first, second, "the canary")
    lines, findings = _compare_noise(releases, fitted, alpha, shifts)
    if fitted.epsilon_ > fitted.epsilon:
        claimed = f"epsilon_ is {fitted.epsilon_:.6g}"
        findings.insert(0, f"{claimed}, above the {fitted.epsilon!r} asked.")
    return LedgerAudit(tuple(lines), (*findings, *of_worlds), confidence=1 - alpha)


def _compare_noise(
    releases: list[Observed], fitted: BaseSynthesizer, alpha: float, shifts: list[float]
) -> tuple[list[ReleaseCheck], list[str]]:
    """Compare the releases of every line of the ledger with the line."""
    entries, lines, findings = entries_of(releases), [], []
    shown = [entry.name for entry in fitted.privacy_report().entries]
    if shown != [entry.name for entry in entries]:
        findings.append("the report lists other reservations than were charged.")
    if any(release.reservation not in entries for release in releases):
        findings.append("some releases are charged to a second ledger.")
    level = alpha / max(len(entries), 1)
    for entry, shift in zip(entries, chain(shifts, repeat(math.nan)), strict=False):
        drawn_by = [r for r in releases if r.reservation is entry]
        drawn = sum(release.n_releases for release in drawn_by)
        ratio, p_value, power = _noise_of(drawn_by, entry, level)
        scope = scope_words(entry.scope)
        where = f"{entry.name!r} ({scope})"
        if drawn != entry.used:
            findings.append(
                f"{where}: {entry.used} releases were charged, but {drawn} were seen."
            )
        if p_value < level:
            findings.append(
                f"{where}: the noise is {ratio:.4g} of the ledger's (p = {p_value:.3g})"
            )
        measured = (entry.count, entry.used, drawn, ratio, p_value, power, shift)
        lines.append(ReleaseCheck(entry.name, scope, *measured))
    return lines, findings


def _noise_of(
    releases: list[Observed], entry: Any, alpha: float
) -> tuple[float, float, float]:
    """Test the noise of one line of the ledger; return ratio, p-value and power."""
    if releases and is_vote(entry.kind):
        counts = np.concatenate([release.exact for release in releases])
        answers = np.concatenate([release.noisy for release in releases])
        law = (entry.n_teachers, entry.noise_std, entry.kind)
        return *vote_test(counts, answers, *law), math.nan
    if not releases or entry.noise_std == 0:
        return math.nan, 1.0, math.nan
    residuals = np.concatenate(
        [((r.noisy - r.exact) / r.unit / entry.noise_std).ravel() for r in releases]
    )
    ratio, p_value = noise_test(residuals, step=1.0 / entry.noise_std)
    return ratio, p_value, smallest_ratio(residuals.size, alpha)
