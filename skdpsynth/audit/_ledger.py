"""White-box audits: releases of a fit, or of one mechanism, against the ledger."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from skdpsynth.audit._bounds import guessing_lower_bound
from skdpsynth.audit._noise import is_vote, noise_test, smallest_ratio, vote_test
from skdpsynth.audit._worlds import (
    Observed,
    SequenceError,
    canary_rows,
    compare,
    compare_releases,
    enter,
    entries_of,
    observed,
    where_of,
)
from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.privacy import (
    PrivacyAccountant,
    Reservation,
    scope_words,
    secret_generator,
)
from skdpsynth.privacy.testing import Release
from skdpsynth.utils import check_range, warn_deprecated, without

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

_NOTHING_FOUND = (
    "The audit found no violation. It tried one row and one history of releases; "
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
    mu_lower_bound : float
        Lower bound of the Gaussian-DP parameter of one release, by guesses, whatever
        the noise is; of `audit_mechanism` only, and nan for votes.

    See Also
    --------
    LedgerAudit : All lines.
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
    mu_lower_bound: float = math.nan


@dataclass(frozen=True)
class LedgerAudit:
    """Result of `audit_ledger` and of `audit_mechanism`.

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
    """

    lines: tuple[ReleaseCheck, ...]
    findings: tuple[str, ...]
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether anything contradicts the ledger."""
        return bool(self.findings)

    def __str__(self) -> str:
        known = self.to_frame().dropna(axis="columns", how="all")
        text = known.to_string(index=False, float_format="{:.3g}".format)
        contradictions = [f"Contradiction: {finding}" for finding in self.findings]
        return "\n".join([text, *(contradictions or [_NOTHING_FOUND])])

    def __getattr__(self, name: str) -> Any:
        # Until 0.5: a result of `audit_mechanism` had the fields of its line.
        line = next(iter(vars(self).get("lines", ())), None)
        # Not `power`, which was an epsilon and is a share now.
        if name.startswith("_") or name == "power" or not hasattr(line, name):
            raise AttributeError(f"LedgerAudit has no attribute {name!r}.")
        what, remedy = f"{name} of a LedgerAudit", f"Read lines[0].{name}."
        warn_deprecated(what, since="0.3", removed_in="0.5", remedy=remedy)
        return getattr(line, name)

    def to_frame(self) -> pd.DataFrame:
        """Return the lines as a table.

        Returns
        -------
        DataFrame
            One row per reservation, columns as the fields of `ReleaseCheck`.
        """
        return pd.DataFrame([vars(line) for line in self.lines])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the measured noise of every line over the ledger's; until 0.5."""
        remedy = "Use to_frame().plot.barh('name', 'noise_ratio')."
        what = "LedgerAudit.plot()"
        warn_deprecated(what, since="0.3", removed_in="0.5", remedy=remedy)
        return self.to_frame().plot.barh("name", "noise_ratio", ax=ax)


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
    2. Two fits with frozen secrets, without and with the canary, answered with the
       releases of that fit. All three make the same. The canary moves each by at most
       its sensitivity, and those of one class alone beside those that are charged to
       all rows. The fitted objects are equal, sample the same rows and report the
       same: what they know of the canary they know by the releases.

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
    ready = clone(synthesizer).set_params(budget=None)
    if ready.random_state is None:
        ready.set_params(random_state=0)
    fitted: BaseSynthesizer = clone(ready)
    with observed() as releases, warnings.catch_warnings():
        warnings.simplefilter("ignore", DegradedResultWarning)
        fitted.fit(table)
    # What is reserved follows from the releases, and lines are matched by their place.
    first = enter(ready, table, seed, releases, coupled=False)
    if first.error is not None and not isinstance(first.error, SequenceError):
        raise first.error
    other = pd.concat([table, rows], ignore_index=True)
    second = enter(ready, other, seed, first.releases, coupled=False)
    shifts, of_worlds = compare(first, second, "the canary")
    findings, entries, lines = [], entries_of(releases), []
    if fitted.epsilon_ > fitted.epsilon:
        claimed = f"epsilon_ is {fitted.epsilon_:.6g}"
        findings.append(f"{claimed}, above the {fitted.epsilon!r} asked.")
    shown = [entry.name for entry in fitted.privacy_report().entries]
    if shown != [entry.name for entry in entries]:
        findings.append("the report lists other reservations than were charged.")
    if any(release.reservation not in entries for release in releases):
        findings.append("some releases are charged to a second ledger.")
    for line, shift in zip(entries, chain(shifts, repeat(math.nan)), strict=False):
        of_line = [release for release in releases if release.reservation is line]
        check, more = _check_line(line, of_line, shift, alpha / len(entries))
        lines.append(check)
        findings += more
    return LedgerAudit(tuple(lines), (*findings, *of_worlds), confidence=1 - alpha)


@without(since="0.3", removed_in="0.5", delta="Leave it out: bounds are of mu.")
def audit_mechanism(
    mechanism: Callable[[Any, Reservation], NDArray[Any]],
    data: Any,
    neighbour: Any,
    reservation: Reservation,
    *,
    unit: float = 1.0,
    n_draws: int = 1_000,
    alpha: float = 1e-6,
) -> LedgerAudit:
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
        Releases to draw, at least 2.
    alpha : float, default=1e-6
        Probability of a finding where there is none, in (0, 1).

    Returns
    -------
    LedgerAudit
        Of one line. Its `findings` are empty where the noise, the shift and the number
        of releases agree with the reservation.

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

    A coin chooses the input of each draw, and an attack guesses it: it projects the
    release on the direction in which the row moves it and says on which side of the
    middle it lies. Against Gaussian noise no test is better (Neyman and Pearson), and
    whatever the noise is, `guessing_lower_bound` holds: noise of the right size that
    spares this direction is found.

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
    >>> audit.violated, audit.lines[0].shift
    (False, 1.0)
    """
    check_range("unit", unit, unit > 0, "above 0")
    check_range("n_draws", n_draws, n_draws >= 2, "at least 2")
    check_range("alpha", alpha, 0 < alpha < 1, "in (0, 1)")
    line, silent = copied(reservation), copied(reservation, noise=False)
    inputs, vote = (data, neighbour), is_vote(line.kind)
    exact = [
        np.atleast_1d(np.asarray(each, dtype=np.int64))
        if vote
        else np.asarray(mechanism(each, silent), dtype=np.float64)
        for each in inputs
    ]
    drawn_anew = not vote and not np.array_equal(mechanism(data, silent), exact[0])
    worlds = [Observed(silent, value, value, unit, 1) for value in exact]
    (shift,), findings = compare_releases(
        worlds[:1], worlds[:1] if drawn_anew else worlds[1:], "the row"
    )
    if drawn_anew:
        findings.append("noise is drawn where the reservation has none.")
    coins = secret_generator().random(n_draws) < 0.5
    noisy = np.stack([mechanism(inputs[int(coin)], line) for coin in coins])
    truth = np.stack(exact)[coins.astype(np.intp)]
    draws = Release(line, truth, noisy, unit, truth.size if vote else n_draws)
    level = alpha if vote else alpha / 2  # two tests of the draws can find something
    check, more = _check_line(line, [draws], shift, level)
    findings += more
    if not vote:
        towards = (noisy - (exact[0] + exact[1]) / 2) * (exact[1] - exact[0])
        guesses = towards.reshape(n_draws, -1).sum(axis=1) > 0
        n_wrong, claimed = int((guesses != coins).sum()), line.mu
        if line.sampling_rate < 1 and line.noise_std > 0:  # the row is in
            claimed = line.sensitivity / line.noise_std
        shown = guessing_lower_bound(n_wrong, n_draws, alpha=level)
        if shown > claimed:
            findings.append(
                f"guesses by the release show a mu above {shown:.4g}, but the ledger's "
                f"is {claimed:.4g}."
            )
        bound = guessing_lower_bound(n_wrong, n_draws, alpha=alpha)
        check = replace(check, mu_lower_bound=bound)
    check = replace(check, reserved=reservation.count)
    return LedgerAudit((check,), tuple(findings), confidence=1 - alpha)


def copied(reservation: Reservation, *, noise: bool = True) -> Reservation:
    """Copy a line, for any number of releases, into a ledger that charges nothing."""
    line = {**vars(reservation), "count": sys.maxsize}
    line |= {} if noise else {"mu": math.inf, "noise_std": 0.0}
    return PrivacyAccountant(math.inf, 1 / 2)._issue(line)


def _check_line(
    line: Reservation, releases: Sequence[Release], shift: float, alpha: float
) -> tuple[ReleaseCheck, list[str]]:
    """Compare the number of releases and their noise with a line of the ledger."""
    drawn = sum(release.n_releases for release in releases)
    vote, findings = is_vote(line.kind), []
    ratio, p_value, power = math.nan, 1.0, math.nan
    if releases and vote:
        counts = np.concatenate([release.exact.ravel() for release in releases])
        answers = np.concatenate([release.noisy.ravel() for release in releases])
        law = line.n_teachers, line.noise_std, line.kind
        ratio, p_value = vote_test(counts, answers, *law)
    elif releases and line.noise_std > 0:
        noise = [((r.noisy - r.exact) / r.unit / line.noise_std) for r in releases]
        residuals = np.concatenate([each.ravel() for each in noise])
        ratio, p_value = noise_test(residuals, step=1.0 / line.noise_std)
        power = smallest_ratio(residuals.size, alpha)
    if drawn != line.used:
        findings.append(f"{drawn} releases were made, but {line.used} were charged.")
    if p_value < alpha:
        what = "answers against the majority are" if vote else "the noise is"
        findings.append(f"{what} {ratio:.4g} times the ledger's (p = {p_value:.3g}).")
    scope = scope_words(line.scope)
    counted = line.name, scope, line.count, line.used, drawn
    check = ReleaseCheck(*counted, ratio, p_value, power, shift)
    return check, [f"{where_of(line)}: {words}" for words in findings]
