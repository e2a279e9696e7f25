"""The words of a privacy report: for a data-protection officer, and as a table."""

from __future__ import annotations

import html
import math
import textwrap
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING

from skdpsynth.privacy._reservation import UNLABELLED

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from skdpsynth.privacy._report import PrivacyReport
    from skdpsynth.privacy._report_json import ReportEntry

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
        mechanism += f" on {_number(100 * entry.sampling_rate)} % of rows"
    return (
        _printable(entry.name),
        _printable(entry.scope),
        mechanism,
        str(entry.releases),
        str(entry.used),
        _number(entry.sensitivity),
        _number(entry.noise_std),
        _number(entry.mu_total),
        "-" if entry.share is None else f"{entry.share:.2f}",
    )


def _number(value: float) -> str:
    return f"{value:.4g}"


def claim(value: float) -> str:
    """Write a bound with four digits, rounded up: so it holds as it stands."""
    return _number(float(_UPWARDS.create_decimal(repr(float(value)))))


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
