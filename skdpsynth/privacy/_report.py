"""What one fit is charged: to be read, checked by pipelines, and kept in files."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, is_dataclass
from decimal import ROUND_CEILING, Context
from enum import Enum
from functools import cache
from numbers import Real
from operator import attrgetter
from types import GenericAlias, NoneType
from typing import Any, Literal, get_args, get_type_hints

from skdpsynth.exceptions import BudgetExceededError, PersistenceError
from skdpsynth.privacy._calibration import MOST_EXPONENT, advantage_of, gdp_epsilon
from skdpsynth.utils import (
    DAMAGED,
    MOST_SHOWN,
    WIDTH,
    Block,
    Document,
    Grid,
    Heading,
    Items,
    check_range,
    require,
)

Kind = Literal["gaussian", "sampled gaussian", "gaussian vote", "laplace vote"]


class _Unlabelled(Enum):
    """A key that no class can have."""

    UNLABELLED = "rows without a label"


#: Scope of the rows whose label is missing or was not released; they are no class.
UNLABELLED = _Unlabelled.UNLABELLED

_kinds_of = cache(get_type_hints)  # annotations are compiled for it

# The unit, and which tables are neighbours, where no column says another unit.
_ROW, _ONE_ROW = "one row of the training table", "add or remove one row"


@dataclass(frozen=True)
class ReportEntry:
    """One reservation, as it stood when the report was made.

    `scope`: whose rows are charged, "all rows" or "class" and its label. `releases`
    counts those reserved, which count all, `used` those drawn. `sensitivity` (L2) is of
    one release, in grid units, clipping norms or votes, and so is `noise_std` (Laplace:
    the scale; 0 without noise). `mu_total` is what all releases together are charged,
    `share` its percentage of the whole ``mu^2`` of the fit; None for an infinite
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


def to_plain(value: Any) -> Any:  # noqa: ANN401 - any field
    """Write infinite numbers as "inf", tuples as lists, and dataclasses as dicts."""
    if isinstance(value, tuple):
        return [*map(to_plain, value)]
    if is_dataclass(value):
        return {name: to_plain(field) for name, field in vars(value).items()}
    return "inf" if value == math.inf else value


def read_plain(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any field, of a type
    """Undo `to_plain`; refuse other fields or types, and numbers below 0."""
    if kind is Hashable:  # a label, which callers read
        return value
    within = get_args(kind)
    if NoneType in within:
        return None if value is None else read_plain(within[0], value)
    if isinstance(kind, GenericAlias):  # a tuple
        require(isinstance(value, list | tuple), "no list")
        return tuple(read_plain(within[0], item) for item in value)
    if isinstance(kind, type) and is_dataclass(kind):
        kinds = _kinds_of(kind)
        require(set(value) == set(kinds), "other fields")
        return kind(
            **{name: read_plain(kinds[name], field) for name, field in value.items()}
        )
    if kind is float and value == "inf":
        return math.inf
    require(type(value) in (kind, int if kind is float else kind), f"no {kind}")
    require(kind not in (float, int) or 0 <= value < math.inf, "no number >= 0")
    return kind(value)


_VERSION = 2  # of what `to_dict` returns
# What `to_dict` derives from the fields.
_DERIVED = ("report_version", "statement", "epsilon_by_delta", "not_covered")
_OTHER_DELTAS = (100.0, 10.0, 0.1, 0.01)  # in units of the total delta


@dataclass(frozen=True)
class PrivacyReport(Document):
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
        where that is unknown.
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
    relation: str = _ONE_ROW
    unit: str = _ROW

    def __post_init__(self) -> None:
        require(0 < self.delta < 1, "delta")
        require(self.discovery_delta < self.delta, "delta")
        require(self.private == (self.epsilon < math.inf), "epsilon")
        asked = self.epsilon_requested
        require(not self.private or self.epsilon <= asked < math.inf, "epsilon")
        spent = self.get_epsilon(self.delta) if self.private else 0.0
        require(spent < math.inf, "mu")
        for entry in self.entries:
            require(entry.kind in _MECHANISMS, "a mechanism")
            require(0 < entry.sampling_rate <= 1, "a sampling rate")
            require(entry.used <= entry.releases, "releases")

    @property
    def statement(self) -> str:
        """What the fit promises, in plain language: one paragraph to quote."""
        if not self.private:
            return _NO_PROMISE
        factor = "e to the power of epsilon"
        if self.epsilon <= MOST_EXPONENT:
            factor = claim(math.exp(self.epsilon))
        return _PROMISE.format(
            epsilon=claim(self.epsilon),
            delta=claim(self.delta),
            factor=factor,
            won=_won_bets(self.epsilon, self.delta),
            **(_OF_ROWS if self.unit == _ROW else _OF_UNITS),
            unit=_printable(self.unit),
        )

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What no figure of the report speaks about."""
        known = self.unit != _ROW
        return tuple(line for line in NOT_COVERED if not known or line != _PERSON)

    @property
    def epsilon_by_delta(self) -> tuple[tuple[float, float], ...]:
        """Pairs of another delta and its epsilon; empty if the fit is not private."""
        deltas = [float(f"{factor * self.delta:.12g}") for factor in _OTHER_DELTAS]
        valid = [d for d in deltas if self.private and self.discovery_delta < d < 1]
        return tuple((d, self.get_epsilon(d)) for d in valid)

    def get_epsilon(self, delta: float) -> float:
        """Return the epsilon of the same fit at another delta.

        Valid for every delta, since the fit was planned under one fixed curve.

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
        """
        fits = _is_number(epsilon) and epsilon >= 0
        check_range("epsilon", epsilon, fits, "a number >= 0")
        fits = _is_number(delta) and 0 < delta < 1
        check_range("delta", delta, fits, "a number in (0, 1)")
        spent = math.inf
        if delta > self.discovery_delta:
            spent = self.get_epsilon(delta)
        if delta >= self.delta:
            spent = min(spent, self.epsilon)
        if spent <= epsilon:
            return
        raise BudgetExceededError(
            f"Expected a fit within epsilon = {epsilon:.6g} at delta = {delta:.6g}. "
            f"Got epsilon = {claim(spent)} at that delta; the fit was made for "
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
            **{name: to_plain(value) for name, value in vars(self).items()},
            "epsilon_by_delta": [
                {"delta": d, "epsilon": to_plain(e)} for d, e in self.epsilon_by_delta
            ],
            "not_covered": list(self.not_covered),
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
            require(values["report_version"] == _VERSION, "another version")
            fields = {k: v for k, v in values.items() if k not in _DERIVED}
            require(len(fields) == len(values) - len(_DERIVED), "other fields")
            report: PrivacyReport = read_plain(cls, fields)
            return report
        except DAMAGED as error:
            raise PersistenceError(
                f"Expected the fields of a privacy report of version {_VERSION}. "
                "Something else came. If a newer version of skdpsynth wrote it, "
                "upgrade; else write it again by to_dict."
            ) from error

    def __str__(self) -> str:
        entries, remarks = _shown(self)
        columns = []
        for column in zip(_HEADINGS, *map(_cells, entries), strict=True):
            pad = str.ljust if column[0] in _WORDS else str.rjust
            width = max(map(len, column))
            columns.append([pad(cell, width) for cell in column])
        table = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
        lines = [_title(self), "", _wrapped(self.statement), ""]
        lines += [*map(_wrapped, _terms(self)), "", *table, ""]
        lines += [*map(_wrapped, remarks), "Not covered:"]
        lines += [_wrapped(f"- {line}", "  ") for line in self.not_covered]
        return "\n".join(lines)

    def _blocks(self, *, drawn: bool) -> list[Block]:
        entries, remarks = _shown(self)
        return [
            Heading(_title(self), 1),
            self.statement,
            Items(_terms(self)),
            Heading("What was released"),
            Grid(_HEADINGS, [_cells(entry) for entry in entries]),
            *remarks,
            Heading("Not covered"),
            Items(self.not_covered),
        ]


def read_only(field: str, says: str) -> Any:  # noqa: ANN401 - a property of any type
    """Return a property that shows a private field of its object."""
    return property(attrgetter(field), doc=says)


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
_PERSON = (
    "A person with several rows: where k rows are of one person, the bound for the "
    "person is up to k times epsilon, at a larger delta. To protect persons, name the "
    "column that identifies them as privacy_unit in the schema."
)
NOT_COVERED = (
    (
        "Side channels: exceptions, warnings, standard output, timing and memory of "
        "the fit go to the curator only."
    ),
    _PERSON,
    (
        "Choices made on the same data: a fit that was picked after a look at the real "
        "table, at other fits on it or at scores computed from it. Each of these has "
        "a cost of its own."
    ),
)
_NO_PROMISE = (
    "This fit is not differentially private: its epsilon is infinite. Nothing bounds "
    "what the generator and the tables drawn from it tell about a row of the training "
    "table. Protect them like the training table itself."
)
_PROMISE = (
    "What was learnt from the training table was learnt under differential privacy "
    "with epsilon = {epsilon} and delta = {delta}. For the fitted generator, its saved "
    "file, this report and all tables drawn from the generator together, the "
    "probability of any result with {a} in the training table and without {it} "
    "differs by a factor of at most {factor}, and beyond that by at most {delta}. "
    "Somebody who sees all of this, knows all other rows, and bets at even odds on "
    "whether {a} {was} in the table wins at most {won} % of the bets; guessing "
    "wins 50 %. This stays so whatever is computed from the results later. What is "
    "protected is {unit}{less}. What is true of many rows together, such as an "
    "average, is not hidden: it is what the tables are for."
)
_OF_ROWS = {
    **{"a": "a given row", "it": "it", "was": "was"},
    "less": ": a person with several rows is protected less",
}
_OF_UNITS = {
    **{"a": "all rows of a given unit", "it": "them", "was": "were"},
    "less": "",
}
_PUBLIC = "names, order and types of the columns; the settings of the fit"
_OWN_CLASS = "A row is charged for its own class only."
_UPWARDS = Context(prec=4, rounding=ROUND_CEILING)  # a claim is never rounded down
_WORDS = ("release", "charged", "mechanism")  # columns of text, aligned on the left
_NUMBERS = ("reserved", "used", "sensitivity", "noise", "mu", "% of mu^2")
_HEADINGS = (*_WORDS, *_NUMBERS)
_MECHANISMS = {
    "gaussian": "discrete Gaussian",
    "sampled gaussian": "Gaussian",
    "gaussian vote": "vote, Gaussian",
    "laplace vote": "vote, Laplace",
}


def scope_words(scope: Hashable | None) -> str:
    """Return in words whose rows are charged."""
    if scope is None:
        return ALL_ROWS
    if scope is UNLABELLED:
        return str(UNLABELLED.value)
    # A label may hold half of a surrogate pair, which no file or log can.
    return f"class {scope}".encode("utf-8", "backslashreplace").decode("utf-8")


def unit_name(unit: Hashable) -> str:
    """Write the name of a column of units."""
    return scope_words(unit).removeprefix("class ")


def unit_words(unit: Hashable, most: int) -> dict[str, Any]:
    """Return what is protected, and which tables are neighbours: fields of a report."""
    if unit is None:
        return {"relation": _ONE_ROW, "unit": _ROW}
    name = unit_name(unit)
    rows = "one is" if most == 1 else f"{most} are"
    return {
        "relation": f"add or remove all rows of one {name}",
        "unit": f"all rows of one {name}, of which at most {rows} used",
    }


def _title(report: PrivacyReport) -> str:
    total = f"epsilon = {claim(report.epsilon)}, delta = {claim(report.delta)}"
    return f"Privacy report: {total}"


def _terms(report: PrivacyReport) -> list[str]:
    """Return what the figures mean, one line for each fact."""
    asked = f"Asked for: epsilon = {claim(report.epsilon_requested)}. "
    lines = [f"{asked}Neighbours: {report.relation}. Unit: {report.unit}."]
    if report.discovery_delta > 0:
        aside = claim(report.discovery_delta)
        lines.append(
            f"Of delta, {aside} is for discovered keys and for the tails of blocks."
        )
    one = "row is" if report.unit == _ROW else "unit is"
    lines.append(
        f"If one {one} replaced instead: epsilon = "
        f"{claim(report.epsilon_replace_one)} at the same delta."
    )
    others = [f"{claim(e)} at {claim(d)}" for d, e in report.epsilon_by_delta]
    if others:
        lines.append(f"At other deltas: epsilon = {', '.join(others)}.")
    lines.append(f"Accountant: {report.accountant}. Software: {report.software}.")
    public = "; ".join([_PUBLIC, *(report.declared or ())])
    if report.declared is None:
        public += "; whatever a schema declared"
    elif not report.declared:
        public += ". Nothing else was declared"
    lines.append(f"Public, so neither protected nor charged for: {public}.")
    return [_printable(line) for line in lines]


def _shown(report: PrivacyReport) -> tuple[list[ReportEntry], list[str]]:
    """Return the entries that are printed, and the remarks below them."""
    remarks = [_printable(note) for note in report.notes]
    charged: dict[str, float] = {}
    for entry in report.entries:
        if entry.scope != ALL_ROWS:
            before = charged.get(entry.scope, 0.0)
            charged[entry.scope] = math.hypot(before, entry.mu_total)
    if len(charged) <= MOST_SHOWN:
        if charged:
            remarks.append(_OWN_CLASS)
        return list(report.entries), remarks
    remarks.append(
        f"Shown is the one of {len(charged)} classes that is charged most. {_OWN_CLASS}"
    )
    shown = ALL_ROWS, max(charged, key=charged.__getitem__)
    return [entry for entry in report.entries if entry.scope in shown], remarks


def _cells(entry: ReportEntry) -> tuple[str, ...]:
    mechanism = _MECHANISMS[entry.kind]
    if entry.sampling_rate < 1:
        mechanism += f" on {100 * entry.sampling_rate:.4g} % of rows"
    return (
        *(_printable(entry.name), _printable(entry.scope), mechanism),
        *(str(entry.releases), str(entry.used)),
        *(f"{x:.4g}" for x in (entry.sensitivity, entry.noise_std, entry.mu_total)),
        "-" if entry.share is None else f"{entry.share:.2f}",
    )


def claim(value: float) -> str:
    """Write a bound with four digits, rounded up: so it holds as it stands."""
    return f"{float(_UPWARDS.create_decimal(repr(float(value)))):.4g}"


def _won_bets(epsilon: float, delta: float) -> str:
    """Write the largest percentage of won bets, rounded up."""
    lost = (1 - advantage_of(epsilon, delta)) / 2
    return f"{min(math.ceil(1000 * (1 - lost)) / 10, 100):.4g}"


def _wrapped(line: str, indent: str = "") -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, break_long_words=False)


def _printable(text: str) -> str:
    """Replace what could move the cursor: a label may come from a stranger's file."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
