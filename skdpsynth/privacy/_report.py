"""What one fit spent, for people to read and for files to keep."""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Any

from skdpsynth.exceptions import PersistenceError
from skdpsynth.privacy._curves import GaussianCurve, RenyiCurve
from skdpsynth.privacy._reservation import UNLABELLED

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from skdpsynth.privacy._curves import Curve
    from skdpsynth.privacy._reservation import Entry

__all__ = ["PrivacyReport", "ReportEntry", "build_report"]

RELATION = "add or remove one row"
ALL_ROWS = "all rows"

_THREAT_MODEL = (
    "The guarantee covers the fitted object, its samples and this report. "
    "Exceptions, standard output and timing go to the curator only."
)
_INSECURE = (
    "Not private: noise came from a seeded generator (insecure_randomness), "
    "so epsilon is infinite."
)
_FLOAT_NOISE = (
    "The noise of sampled steps (DP-SGD) is drawn in floating-point numbers; all other "
    "noise is drawn exactly, in whole numbers."
)
_NO_NOISE = "Not private: epsilon is infinite by request, and no noise is owed."

# More classes than these are summarised by the one that pays most.
_MAX_CLASSES_SHOWN = 8

_HEADINGS = (
    "release",
    "paid by",
    "reserved",
    "used",
    "sensitivity",
    "noise std",
    "mu",
    "% of mu^2",
)


@dataclass(frozen=True)
class ReportEntry:
    """One reservation, as it stood when the report was made.

    Parameters
    ----------
    name : str
        What was released.
    scope : str
        Whose rows pay: "all rows", or "class" and its label.
    releases : int
        Number of releases reserved; all of them count.
    used : int
        Number of releases drawn.
    sensitivity : float
        L2 sensitivity of one release, in grid units.
    noise_std : float
        Standard deviation of the noise, in grid units; 0 without noise.
    mu_total : float
        Gaussian-DP parameter of all its releases together.
    share : float or None
        Percentage of the ``mu^2`` that the fit may spend; None for an infinite
        epsilon.
    kind : {"gaussian", "sampled gaussian", "gaussian vote", "laplace vote"}
        The mechanism: discrete Gaussian noise on whole numbers, a step on a Poisson
        sample, or a one-bit vote.
    sampling_rate : float
        Probability with which a row is in a release; 1 unless sampled.
    """

    name: str
    scope: str
    releases: int
    used: int
    sensitivity: float
    noise_std: float
    mu_total: float
    share: float | None
    kind: str = "gaussian"
    sampling_rate: float = 1.0


@dataclass(frozen=True)
class PrivacyReport:
    """Every mechanism that touched the data of one fit, and the total.

    Parameters
    ----------
    epsilon : float
        Certified epsilon of all that was reserved; inf when the fit is not private.
    delta : float
        Total delta.
    epsilon_requested : float
        Epsilon that the fit was asked for.
    mu : float
        Root of the sum of mu^2 over all reservations that the worst class pays.
    discovery_delta : float
        Part of `delta` that thresholded releases reserved.
    epsilon_replace_one : float or None
        Epsilon at the same delta if one row is replaced by any other, possibly of
        another class; None where no release is paid by classes.
    private : bool
        False when epsilon is infinite.
    entries : tuple of ReportEntry
        All reservations, in order.
    notes : tuple of str
        What a reader must know beside the figures.
    relation : str
        Which tables are neighbours.
    order : int or None
        How costs were added up: the Renyi order, or None for Gaussian DP.

    See Also
    --------
    PrivacyAccountant : The ledger that a report summarises.

    Examples
    --------
    >>> from skdpsynth.privacy import PrivacyAccountant
    >>> accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    >>> reservation = accountant.reserve_gaussian(
    ...     "counts", mu=accountant.mu_cap, sensitivity=1
    ... )
    >>> print(str(accountant.report()).splitlines()[0])
    Privacy report: epsilon = 0.9995, delta = 1e-05
    """

    epsilon: float
    delta: float
    epsilon_requested: float
    mu: float
    discovery_delta: float
    epsilon_replace_one: float | None
    private: bool
    entries: tuple[ReportEntry, ...]
    notes: tuple[str, ...]
    relation: str = RELATION
    order: int | None = None

    def get_epsilon(self, delta: float) -> float:
        """Give the epsilon of the same fit at another delta.

        Parameters
        ----------
        delta : float
            In (0, 1), and above the part spent on thresholded releases.

        Returns
        -------
        float
            Upper bound on epsilon; inf when the fit is not private.

        Raises
        ------
        ValueError
            When `delta` is not in that range.

        Notes
        -----
        Valid for every delta, since the fit was planned under one fixed curve. That
        of a Renyi order is tight near the planned delta only.
        """
        low = self.discovery_delta
        if (
            isinstance(delta, bool)
            or not isinstance(delta, Real)
            or not low < delta < 1
        ):
            spent = "; the lower end is what discovering keys has cost" if low else ""
            msg = (
                f"delta must be a number in ({low:.6g}, 1){spent}. Got {delta!r} "
                f"instead; give one such as {self.delta:.6g}, the total of the fit."
            )
            raise ValueError(msg)
        if not self.private:
            return math.inf
        curve = GaussianCurve() if self.order is None else RenyiCurve(self.order)
        return curve.epsilon(self.mu, float(delta) - self.discovery_delta)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold.

        Returns
        -------
        dict
            Infinite numbers are the string "inf".
        """
        values = asdict(self)
        values["entries"] = [_plain(entry) for entry in values["entries"]]
        values["notes"] = list(values["notes"])
        return _plain(values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyReport:
        """Rebuild a report from `to_dict`.

        Parameters
        ----------
        values : mapping
            What `to_dict` returned, possibly through JSON.

        Returns
        -------
        PrivacyReport
            An equal report.

        Raises
        ------
        PersistenceError
            When the fields are not those of a report.
        """
        try:
            entries = tuple(
                ReportEntry(**_parsed(ReportEntry, entry))
                for entry in values["entries"]
            )
            rest = _parsed(cls, values)
        except (KeyError, TypeError, ValueError) as error:
            msg = (
                "Expected the fields of a privacy report. Something else came; "
                "was the file written by a newer version?"
            )
            raise PersistenceError(msg) from error
        return cls(**(rest | {"entries": entries, "notes": tuple(values["notes"])}))

    def __str__(self) -> str:
        """Lay the report out as text: the total first, then an aligned table."""
        rows = [_HEADINGS, *(_cells(entry) for entry in self._shown())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [*self._summary(), ""]
        for row in rows:
            words = [
                cell.ljust(width) if i < 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(words).rstrip())
        return "\n".join([*lines, "", *self._remarks()])

    def _repr_html_(self) -> str:
        """Lay the report out as HTML for notebooks."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in _HEADINGS)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(entry))
            + "</tr>"
            for entry in self._shown()
        )
        first, *others = (html.escape(line) for line in self._summary())
        remarks = "".join(f"<p>{html.escape(line)}</p>" for line in self._remarks())
        return (
            f"<div><p><strong>{first}</strong><br>{'<br>'.join(others)}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"{remarks}</div>"
        )

    def _summary(self) -> list[str]:
        total = f"epsilon = {_number(self.epsilon)}, delta = {_number(self.delta)}"
        asked = f"epsilon = {_number(self.epsilon_requested)}"
        lines = [
            f"Privacy report: {total}",
            f"Asked for: {asked}. Neighbours: {self.relation}.",
        ]
        if self.discovery_delta > 0:
            lines.append(
                f"Of delta, {_number(self.discovery_delta)} is for discovered keys."
            )
        if self.epsilon_replace_one is not None:
            lines.append(
                "If one row is replaced instead: epsilon = "
                f"{_number(self.epsilon_replace_one)} at the same delta."
            )
        return lines

    def _remarks(self) -> list[str]:
        lines = list(self.notes)
        classes = self._class_totals()
        if len(classes) > _MAX_CLASSES_SHOWN:
            lines.append(
                f"Shown is the one of {len(classes)} classes that pays most; a row "
                "pays for its own class only."
            )
        elif classes:
            lines.append("A row pays for its own class only.")
        return [*lines, _THREAT_MODEL]

    def _class_totals(self) -> dict[str, float]:
        totals: dict[str, float] = {}
        for entry in self.entries:
            if entry.scope != ALL_ROWS:
                paid = totals.get(entry.scope, 0.0)
                totals[entry.scope] = math.hypot(paid, entry.mu_total)
        return totals

    def _shown(self) -> list[ReportEntry]:
        classes = self._class_totals()
        if len(classes) <= _MAX_CLASSES_SHOWN:
            return list(self.entries)
        shown = {ALL_ROWS, max(classes, key=classes.__getitem__)}
        return [entry for entry in self.entries if entry.scope in shown]


def build_report(
    entries: Sequence[Entry],
    *,
    epsilon: float,
    delta: float,
    epsilon_requested: float,
    mu_cap: float,
    curve: Curve,
    mu: float,
    discovery_delta: float,
    insecure: bool,
    remarks: Sequence[str] = (),
) -> PrivacyReport:
    """Make the report of a ledger; `PrivacyAccountant.report` calls it."""
    private = epsilon < math.inf
    notes = [_INSECURE] if insecure else []
    notes += remarks
    if epsilon_requested == math.inf:
        notes.append(_NO_NOISE)
    if private and any(entry.kind == "sampled gaussian" for entry in entries):
        notes.append(_FLOAT_NOISE)
    replace_one = None
    if any(entry.scope is not None for entry in entries):
        replace_one = math.inf
        if private:
            replace_one = _replace_one(curve, entries, delta, discovery_delta)
            if isinstance(curve, RenyiCurve) and any(
                entry.sampling_rate < 1 for entry in entries
            ):
                replace_one = _replaced_by_group(curve, mu, delta, discovery_delta)
    return PrivacyReport(
        epsilon=epsilon,
        delta=delta,
        epsilon_requested=epsilon_requested,
        mu=mu,
        discovery_delta=discovery_delta,
        epsilon_replace_one=replace_one,
        private=private,
        order=curve.order if isinstance(curve, RenyiCurve) else None,
        entries=tuple(_report_entry(entry, mu_cap) for entry in entries),
        notes=tuple(notes),
    )


def _replace_one(
    curve: Curve, entries: Sequence[Entry], delta: float, discovery_delta: float
) -> float:
    """Bound epsilon when one row is replaced.

    The old and the new row may be of two classes, or move two bins of a histogram:
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


def _replaced_by_group(
    curve: Curve, mu: float, delta: float, discovery_delta: float
) -> float:
    """Bound epsilon when one row is replaced, where rows were sampled.

    Two rows of one class may be in the same sample, so costs do not just add up. But
    removing one row and adding one is two steps between neighbours:
    ``(2 epsilon', (1 + e^epsilon') delta')``, for the best delta'.
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


def _report_entry(entry: Entry, mu_cap: float) -> ReportEntry:
    mu_total = math.sqrt(entry.count) * entry.mu
    return ReportEntry(
        name=entry.name,
        scope=_words(entry.scope),
        releases=entry.count,
        used=entry.used,
        sensitivity=entry.sensitivity,
        noise_std=entry.noise_std,
        mu_total=mu_total,
        share=100 * (mu_total / mu_cap) ** 2 if mu_cap < math.inf else None,
        kind=entry.kind,
        sampling_rate=entry.sampling_rate,
    )


def _words(scope: Hashable | None) -> str:
    if scope is None:
        return ALL_ROWS
    return str(UNLABELLED.value) if scope is UNLABELLED else f"class {scope}"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _cells(entry: ReportEntry) -> tuple[str, ...]:
    return (
        entry.name,
        entry.scope,
        str(entry.releases),
        str(entry.used),
        _number(entry.sensitivity),
        _number(entry.noise_std),
        _number(entry.mu_total),
        "-" if entry.share is None else f"{entry.share:.2f}",
    )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: "inf" if isinstance(value, float) and value == math.inf else value
        for key, value in values.items()
    }


def _parsed(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Undo `_plain` and insist on exactly the fields of a dataclass."""
    names = {field.name for field in fields(cls)}
    if set(values) != names:
        msg = "other fields"
        raise ValueError(msg)
    texts = {"name", "scope", "relation"}
    return {
        key: math.inf if value == "inf" and key not in texts else value
        for key, value in values.items()
    }
