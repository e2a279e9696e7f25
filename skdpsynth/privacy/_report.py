"""What one fit spent, for people to read, for pipelines to check, for files to keep."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from importlib.metadata import version
from numbers import Real
from typing import TYPE_CHECKING, Any

from skdpsynth.exceptions import (
    BudgetExceededError,
    PersistenceError,
    check_range,
)
from skdpsynth.privacy._calibration import gdp_epsilon, replace_one_epsilon
from skdpsynth.privacy._report_json import (
    ReportEntry,
    check_ranges,
    fields_from_json,
    fields_to_json,
)
from skdpsynth.privacy._report_text import (
    FLOAT_NOISE,
    INSECURE,
    NO_NOISE,
    NOT_COVERED,
    as_html,
    as_text,
    claim,
    scope_words,
    statement,
)
from skdpsynth.utils import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skdpsynth.privacy._reservation import Entry, Ledger
    from skdpsynth.privacy._spending import Cap

_VERSION = 2  # of what `to_dict` gives
_RELATION = "add or remove one row"
_UNIT = "one row of the training table"
_METHOD = "privacy loss distributions"
# What `to_dict` derives from the fields.
_DERIVED = ("report_version", "statement", "epsilon_by_delta", "not_covered")
_OTHER_DELTAS = (100.0, 10.0, 0.1, 0.01)  # in units of the total delta


@dataclass(frozen=True)
class PrivacyReport:
    """Every mechanism that touched the data of one fit, and the total.

    Parameters
    ----------
    epsilon : float
        Certified epsilon of the cap that was fixed before any data was touched; inf
        when the fit is not private.
    delta : float
        Total delta.
    epsilon_requested : float
        Epsilon that the fit was asked for.
    mu : float
        Gaussian-DP parameter of that cap.
    discovery_delta : float
        Part of `delta` set aside for thresholded releases and tails of blocks.
    epsilon_replace_one : float
        Epsilon at the same delta if one row is replaced by any other, possibly of
        another class.
    private : bool
        False when epsilon is infinite.
    entries : tuple of ReportEntry
        All reservations, in order.
    notes : tuple of str
        What a reader must know beside the figures.
    accountant : str
        What certified epsilon, and its version.
    software : str
        What the noise was drawn with, and its version.
    declared : tuple of str or None
        What was stated as public, beside names, order and dtypes of the columns; None
        where the ledger was not told.
    relation : str
        Which tables are neighbours.
    unit : str
        What is protected.

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
    >>> report = accountant.report()
    >>> print(str(report).splitlines()[0])
    Privacy report: epsilon = 0.9996, delta = 1e-05
    >>> report.assert_within(epsilon=1.0, delta=1e-5)
    """

    epsilon: float
    delta: float
    epsilon_requested: float
    mu: float
    discovery_delta: float
    epsilon_replace_one: float
    private: bool
    entries: tuple[ReportEntry, ...]
    notes: tuple[str, ...]
    accountant: str
    software: str
    declared: tuple[str, ...] | None = None
    relation: str = _RELATION
    unit: str = _UNIT

    @property
    def statement(self) -> str:
        """What the fit promises, in plain language: one paragraph to quote."""
        return statement(self)

    @property
    def epsilon_by_delta(self) -> tuple[tuple[float, float], ...]:
        """Pairs of another delta and its epsilon; empty if the fit is not private."""
        deltas = [float(f"{factor * self.delta:.12g}") for factor in _OTHER_DELTAS]
        valid = [d for d in deltas if self.private and self.discovery_delta < d < 1]
        return tuple((d, self.get_epsilon(d)) for d in valid)

    def get_epsilon(self, delta: float) -> float:
        """Give the epsilon of the same fit at another delta.

        Parameters
        ----------
        delta : float
            In (0, 1), and above the part that is set aside.

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
        Valid for every delta, since the fit was planned under one fixed curve.
        """
        low = self.discovery_delta
        if not _is_number(delta) or not low < delta < 1:
            spent = "; the lower end is set aside for keys and tails" if low else ""
            raise ValueError(
                f"delta must be a number in ({low:.6g}, 1){spent}. Got {delta!r} "
                f"instead; give one such as {self.delta:.6g}, the total of the fit."
            )
        if not self.private:
            return math.inf
        return gdp_epsilon(self.mu, float(delta) - self.discovery_delta)

    def assert_within(self, *, epsilon: float, delta: float) -> None:
        """Raise unless the fit keeps within a budget; for pipelines.

        Parameters
        ----------
        epsilon : float
            Largest epsilon allowed, at least 0.
        delta : float
            At this delta, in (0, 1).

        Raises
        ------
        BudgetExceededError
            When it does not. What the fit spent stays spent.
        ValueError
            When an argument is out of range.

        Examples
        --------
        >>> from skdpsynth.privacy import PrivacyAccountant
        >>> report = PrivacyAccountant(epsilon=1.0, delta=1e-5).report()
        >>> report.assert_within(epsilon=1.2, delta=1e-6)
        """
        fits = _is_number(epsilon) and epsilon >= 0
        check_range("epsilon", epsilon, fits, "a number >= 0")
        fits = _is_number(delta) and 0 < delta < 1
        check_range("delta", delta, fits, "a number in (0, 1)")
        found = math.inf
        if delta > self.discovery_delta:
            found = self.get_epsilon(delta)
        if delta >= self.delta:
            found = min(found, self.epsilon)
        if found <= epsilon:
            return
        raise BudgetExceededError(
            f"Expected a fit within epsilon = {epsilon:.6g} at delta = {delta:.6g}. "
            f"Got epsilon = {claim(found)} at that delta; the fit was made for "
            f"epsilon = {claim(self.epsilon)} at delta = {claim(self.delta)}. Publish "
            "it under what it spent, or fit with a smaller budget: what this fit spent "
            "stays spent."
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold.

        Returns
        -------
        dict
            The fields; ``report_version``, which changes when their meaning does; and
            what follows from them, for readers: ``statement``, ``epsilon_by_delta``
            and ``not_covered``. Infinite numbers are the string "inf".
        """
        return {
            "report_version": _VERSION,
            "statement": self.statement,
            **fields_to_json(vars(self)),
            "entries": [fields_to_json(vars(entry)) for entry in self.entries],
            "epsilon_by_delta": [
                fields_to_json({"delta": d, "epsilon": e})
                for d, e in self.epsilon_by_delta
            ],
            "not_covered": list(NOT_COVERED),
        }

    def to_json(self) -> str:
        """Convert to JSON text: `to_dict`, indented.

        Returns
        -------
        str
            Standard JSON, without NaN or Infinity.
        """
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyReport:
        """Rebuild a report from `to_dict`.

        Parameters
        ----------
        values : mapping
            What `to_dict` returned, possibly through JSON. What follows from the
            fields is not read, but computed again.

        Returns
        -------
        PrivacyReport
            An equal report.

        Raises
        ------
        PersistenceError
            When the fields are not those of a report, or one is out of range.
        """
        try:
            if values["report_version"] != _VERSION:
                raise ValueError("another version")
            own = {k: v for k, v in values.items() if k not in _DERIVED}
            if len(own) != len(values) - len(_DERIVED):
                raise ValueError("other fields")
            entries = tuple(
                ReportEntry(**fields_from_json(ReportEntry, entry))
                for entry in own["entries"]
            )
            report = cls(**(fields_from_json(cls, own) | {"entries": entries}))
            check_ranges(report)
        except DAMAGED as error:
            raise PersistenceError(
                f"Expected the fields of a privacy report of version {_VERSION}. "
                "Something else came. If a newer version of skdpsynth wrote it, "
                "upgrade; else write it again by to_dict."
            ) from error
        return report

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def build_report(
    ledger: Ledger, cap: Cap, epsilon: float, remarks: Sequence[str] = ()
) -> PrivacyReport:
    """Make the report of a ledger; `PrivacyAccountant.report` calls it."""
    private, entries = epsilon < math.inf, ledger.entries
    notes = [INSECURE] if ledger.insecure else []
    notes += remarks
    if cap.epsilon == math.inf:
        notes.append(NO_NOISE)
    if private and any(entry.kind == "sampled gaussian" for entry in entries):
        notes.append(FLOAT_NOISE)
    replace_one = math.inf
    if private:
        replace_one = replace_one_epsilon(
            cap.mu, cap.delta, cap.discovery_delta, amplified=cap.amplified
        )
    # The package, which a module at the bottom may not import, is loaded by now.
    own = sys.modules[__name__.partition(".")[0]].__version__
    return PrivacyReport(
        epsilon=epsilon,
        delta=cap.delta,
        epsilon_requested=cap.epsilon,
        mu=cap.mu,
        discovery_delta=cap.discovery_delta,
        epsilon_replace_one=replace_one,
        private=private,
        entries=tuple(_report_entry(entry, cap.mu) for entry in entries),
        notes=tuple(notes),
        accountant=f"dp-accounting {version('dp-accounting')}, {_METHOD}",
        software=f"skdpsynth {own}, OpenDP {version('opendp')}",
    )


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _report_entry(entry: Entry, mu_cap: float) -> ReportEntry:
    mu_total = math.sqrt(entry.count) * entry.mu
    return ReportEntry(
        name=entry.name,
        scope=scope_words(entry.scope),
        releases=entry.count,
        used=entry.used,
        sensitivity=entry.sensitivity,
        noise_std=entry.noise_std,
        mu_total=mu_total,
        share=100 * (mu_total / mu_cap) ** 2 if mu_cap < math.inf else None,
        kind=entry.kind,
        sampling_rate=entry.sampling_rate,
    )
