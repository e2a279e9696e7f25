"""What one fit spent, for people to read, for pipelines to check, for files to keep."""

from __future__ import annotations

import html
import json
import math
import textwrap
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context
from enum import Enum
from numbers import Real
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    get_args,
)

from skdpsynth.exceptions import (
    BudgetExceededError,
    PersistenceError,
    check_range,
)
from skdpsynth.privacy._calibration import (
    gdp_epsilon,
)
from skdpsynth.utils import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping


Kind = Literal["gaussian", "sampled gaussian", "gaussian vote", "laplace vote"]


class _Unlabelled(Enum):
    """A key that no class can have."""

    UNLABELLED = "rows without a label"


#: Scope of the rows whose label is missing or was not released; they are no class.
UNLABELLED = _Unlabelled.UNLABELLED


_T = TypeVar("_T")

# Far above what a fit can have; beyond, the search for an epsilon would not end.
_MAX_MU = 1e5


@dataclass(frozen=True)
class ReportEntry:
    """One reservation, as it stood when the report was made.

    `scope`: whose rows pay, "all rows" or "class" and its label. `releases` counts
    those reserved, which count all, `used` those drawn. `sensitivity` (L2) is of one
    release, in grid units, clipping norms or votes, and so is `noise_std` (Laplace: the
    scale; 0 without noise). `mu_total` is what all releases together are charged,
    `share` its percentage of the ``mu^2`` that the fit may spend; None for an infinite
    epsilon. `kind` is the mechanism: "gaussian" is discrete Gaussian noise on whole
    numbers, "sampled gaussian" floating-point noise on a sum of gradients, "gaussian
    vote" and "laplace vote" one-bit votes. Below a `sampling_rate` of 1 it is of a
    Poisson sample with a row in it at that rate.
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


def fields_to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Write infinite numbers as "inf", and tuples as lists."""
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
    return {k: "inf" if v == math.inf else v for k, v in plain.items()}


def fields_from_json(
    cls: type[PrivacyReport | ReportEntry], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Undo `fields_to_json`, and insist on exactly the fields of a dataclass.

    A ValueError where a field is absent, unknown or of another type, or a number is NaN
    or negative. Fields of a type that is not known here come back as they are.
    """
    kinds = {field.name: str(field.type) for field in fields(cls)}
    if set(values) != set(kinds):
        raise ValueError("other fields")
    return {name: _read(kinds[name], value) for name, value in values.items()}


def check_ranges(report: PrivacyReport) -> None:
    """Raise a ValueError where the fields of a report contradict each other."""
    known = set(get_args(Kind))
    if not (
        0 < report.delta < 1
        and report.discovery_delta < report.delta
        and report.private == (report.epsilon < math.inf)
        and (report.mu <= _MAX_MU or not report.private)
        and all(entry.kind in known for entry in report.entries)
        and all(0 < entry.sampling_rate <= 1 for entry in report.entries)
        and all(entry.used <= entry.releases for entry in report.entries)
    ):
        raise ValueError("out of range")


def _read(kind: str, value: Any) -> Any:  # noqa: ANN401 - any field
    """Read a value of the type that an annotation names."""
    if kind.endswith(" | None"):
        return None if value is None else _read(kind.removesuffix(" | None"), value)
    read = _READERS.get(kind)
    return value if read is None else read(value)


def _number(value: object) -> float:
    if value == "inf":
        return math.inf
    if type(value) not in (int, float) or not 0 <= value < math.inf:  # type: ignore[operator]
        raise ValueError("no number >= 0")
    return float(value)  # type: ignore[arg-type]


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("no whole number >= 0")
    return value


def _exactly(kind: type[_T], value: object) -> _T:
    if type(value) is not kind:
        raise ValueError(f"no {kind.__name__}")
    return value


_READERS: dict[str, Callable[[object], object]] = {
    "float": _number,
    "int": _whole,
    "str": lambda value: _exactly(str, value),
    "bool": lambda value: _exactly(bool, value),
    "tuple[str, ...]": lambda value: tuple(
        _exactly(str, v) for v in _exactly(list, value)
    ),
}


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


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


ALL_ROWS = "all rows"

INSECURE = (
    "Not private: noise came from a seeded generator (insecure_randomness), "
    "so epsilon is infinite."
)
NO_NOISE = "Not private: epsilon is infinite by request, and no noise is owed."
FLOAT_NOISE = (
    'The noise of steps of DP-SGD on gradients, "Gaussian" below, is drawn in '
    "floating-point numbers; all other noise is drawn exactly, in whole numbers."
)
#: What no figure of a report speaks about.
NOT_COVERED = (
    (
        "Side channels: exceptions, warnings, standard output, timing and memory of "
        "the fit go to the curator only."
    ),
    (
        "A person with several rows: where k rows are of one person, the bound for the "
        "person is up to k times epsilon, at a larger delta."
    ),
    (
        "Choices made on the same data: a fit that was picked after a look at the real "
        "table, at other fits on it or at scores computed from it. Each of these has "
        "a cost of its own."
    ),
)

_PUBLIC = "names, order and types of the columns; the settings of the fit"
_WIDTH = 88
_LARGE_EPSILON = 30.0  # from where e^epsilon says nothing to a reader
_UPWARDS = Context(prec=4, rounding=ROUND_CEILING)  # a claim is never rounded down
# More classes than these are summarised by the one that pays most.
_MAX_CLASSES_SHOWN = 8
_HEADINGS = (
    *("release", "paid by", "mechanism", "reserved", "used"),
    *("sensitivity", "noise", "mu", "% of mu^2"),
)
_N_TEXT_COLUMNS = 3  # those aligned on the left
_MECHANISMS = {
    "gaussian": "discrete Gaussian",
    "sampled gaussian": "Gaussian",
    "gaussian vote": "vote, Gaussian",
    "laplace vote": "vote, Laplace",
}


def statement(report: PrivacyReport) -> str:
    """Say in plain language what a fit promises: one paragraph, ready to be quoted.

    Who bets on whether a row was in the table wins with probability at most
    ``(e^epsilon + delta) / (1 + e^epsilon)``: the two errors of any test add up to at
    least ``2 (1 - delta) / (1 + e^epsilon)`` (Kairouz, Oh, Viswanath 2015, "The
    Composition Theorem for Differential Privacy", Theorem 2.1).
    """
    if not report.private:
        return (
            "This fit is not differentially private: its epsilon is infinite. Nothing "
            "bounds what the generator and the tables drawn from it tell about a row "
            "of the training table. Protect them like the training table itself."
        )
    return (
        "What was learnt from the training table was learnt under differential privacy "
        f"with epsilon = {claim(report.epsilon)} and delta = "
        f"{claim(report.delta)}. For the fitted generator, its saved file, this "
        "report and all tables drawn from the generator together, the probability of "
        "any result with a given row in the training table and without it differs by "
        f"a factor of at most {_factor(report.epsilon)}, and beyond that by at most "
        f"{claim(report.delta)}. Somebody who sees all of this, knows every other "
        "row, and bets at even odds on whether a given row was in the table wins at "
        f"most {_won_bets(report.epsilon, report.delta)} % of the bets; guessing wins "
        "50 %. This stays so whatever is computed from the results later. What is "
        "protected is one row: a person with several rows is protected less. What is "
        "true of many rows together, such as an average, is not hidden: it is what "
        "the tables are for."
    )


def as_text(report: PrivacyReport) -> str:
    """Lay a report out: total, statement, terms, an aligned table, what is left out."""
    rows = [_HEADINGS, *(_cells(entry) for entry in _shown(report))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = []
    for row in rows:
        words = [
            cell.ljust(width) if i < _N_TEXT_COLUMNS else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        table.append("  ".join(words).rstrip())
    lines = [_title(report), "", _wrapped(statement(report)), ""]
    lines += [*map(_wrapped, _terms(report)), "", *table, ""]
    lines += [*map(_wrapped, _remarks(report)), "Not covered:"]
    lines += [_wrapped(f"- {line}", "  ") for line in NOT_COVERED]
    return "\n".join(lines)


def as_html(report: PrivacyReport) -> str:
    """Lay a report out as HTML; every text of it is escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in _HEADINGS)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in _cells(entry))}</tr>"
        for entry in _shown(report)
    )
    terms = "<br>".join(html.escape(line) for line in _terms(report))
    remarks = "".join(f"<p>{html.escape(line)}</p>" for line in _remarks(report))
    left_out = "".join(f"<li>{html.escape(line)}</li>" for line in NOT_COVERED)
    return (
        f"<div><p><strong>{html.escape(_title(report))}</strong></p>"
        f"<p>{html.escape(statement(report))}</p><p>{terms}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{remarks}<p>Not covered:</p><ul>{left_out}</ul></div>"
    )


def scope_words(scope: Hashable | None) -> str:
    """Say whose rows pay."""
    if scope is None:
        return ALL_ROWS
    if scope is UNLABELLED:
        return str(UNLABELLED.value)
    # A label may hold half of a surrogate pair, which no file or log can.
    return f"class {scope}".encode("utf-8", "backslashreplace").decode("utf-8")


def _title(report: PrivacyReport) -> str:
    total = f"epsilon = {claim(report.epsilon)}, delta = {claim(report.delta)}"
    return f"Privacy report: {total}"


def _terms(report: PrivacyReport) -> list[str]:
    """Say what the figures mean, one line for each fact."""
    asked = f"Asked for: epsilon = {claim(report.epsilon_requested)}. "
    lines = [f"{asked}Neighbours: {report.relation}. Unit: {report.unit}."]
    if report.discovery_delta > 0:
        aside = claim(report.discovery_delta)
        lines.append(
            f"Of delta, {aside} is for discovered keys and for the tails of blocks."
        )
    lines.append(
        "If one row is replaced instead: epsilon = "
        f"{claim(report.epsilon_replace_one)} at the same delta."
    )
    others = [f"{claim(e)} at {claim(d)}" for d, e in report.epsilon_by_delta]
    if others:
        lines.append(f"At other deltas: epsilon = {', '.join(others)}.")
    lines.append(f"Accountant: {report.accountant}. Software: {report.software}.")
    lines.append(f"Public, so neither protected nor paid for: {_public(report)}.")
    return [_printable(line) for line in lines]


def _public(report: PrivacyReport) -> str:
    if report.declared is None:
        return f"{_PUBLIC}; whatever a schema declared"
    if not report.declared:
        return f"{_PUBLIC}. Nothing else was declared"
    return "; ".join([_PUBLIC, *map(_printable, report.declared)])


def _remarks(report: PrivacyReport) -> list[str]:
    lines = [_printable(note) for note in report.notes]
    classes = _class_totals(report.entries)
    if len(classes) > _MAX_CLASSES_SHOWN:
        lines.append(
            f"Shown is the one of {len(classes)} classes that pays most; a row "
            "pays for its own class only."
        )
    elif classes:
        lines.append("A row pays for its own class only.")
    return lines


def _class_totals(entries: Iterable[ReportEntry]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for entry in entries:
        if entry.scope != ALL_ROWS:
            paid = totals.get(entry.scope, 0.0)
            totals[entry.scope] = math.hypot(paid, entry.mu_total)
    return totals


def _shown(report: PrivacyReport) -> list[ReportEntry]:
    classes = _class_totals(report.entries)
    if len(classes) <= _MAX_CLASSES_SHOWN:
        return list(report.entries)
    shown = {ALL_ROWS, max(classes, key=classes.__getitem__)}
    return [entry for entry in report.entries if entry.scope in shown]


def _cells(entry: ReportEntry) -> tuple[str, ...]:
    mechanism = _MECHANISMS[entry.kind]
    if entry.sampling_rate < 1:
        mechanism += f" on {_shown_number(100 * entry.sampling_rate)} % of rows"
    return (
        _printable(entry.name),
        _printable(entry.scope),
        mechanism,
        str(entry.releases),
        str(entry.used),
        _shown_number(entry.sensitivity),
        _shown_number(entry.noise_std),
        _shown_number(entry.mu_total),
        "-" if entry.share is None else f"{entry.share:.2f}",
    )


def _shown_number(value: float) -> str:
    return f"{value:.4g}"


def claim(value: float) -> str:
    """Write a bound with four digits, rounded up: so it holds as it stands."""
    return _shown_number(float(_UPWARDS.create_decimal(repr(float(value)))))


def _factor(epsilon: float) -> str:
    if epsilon > _LARGE_EPSILON:
        return "e to the power of epsilon"
    return claim(math.exp(epsilon))


def _won_bets(epsilon: float, delta: float) -> str:
    """Write the largest percentage of won bets, rounded up."""
    lost = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    return f"{min(math.ceil(1000 * (1 - lost)) / 10, 100):.4g}"


def _wrapped(line: str, indent: str = "") -> str:
    return textwrap.fill(line, _WIDTH, subsequent_indent=indent, break_long_words=False)


def _printable(text: str) -> str:
    """Replace what could move the cursor: a label may come from a stranger's file."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
