"""The model card: one page that goes with a release.

It says what was protected and how much, what was declared, what was measured and how
well, and what the tables are good and bad for. All of it follows from what a fit
released, so it is as public as the generator is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from skdpsynth.measure import Allocation
from skdpsynth.privacy import PrivacyReport, scope_words
from skdpsynth.schema import (
    Boolean,
    Categorical,
    Column,
    Computed,
    Continuous,
    Datetime,
    Identifier,
    TableSchema,
    as_typed,
)
from skdpsynth.table import Metadata
from skdpsynth.utils import Block, Document, Grid, Heading, Items

_CODE = (
    "Writing and testing code that will run on the real table: names and types are"
    " the same; so are ranges and categories, but for what is named below."
)
_NO_LINKS = (
    "Sequences and links: rows are drawn one by one, without an order in time, and "
    "without other tables."
)
_BAD_FOR = (
    "Looking up a person or a row: no synthetic row is of anybody.",
    (
        "Rare things: counts of few rows are mostly noise, and a synthetic table that"
        " has none of them does not say that there are none."
    ),
    _NO_LINKS,
    (
        "Significance: standard errors that are computed as if the rows were real are"
        " too small. Draw several tables, and look at how far they are apart."
    ),
)
_DEPENDENCE = {
    "kept": "How pairs of columns depend on each other: measured well{of}.",
    "weak": "How pairs of columns depend on each other is measured, but weakly{of}: "
    "trust strong relations only.",
    "borrowed": "How columns depend on each other is taken from a larger class{of}.",
    "lost": "How columns depend on each other was not measured{of}.",
}
_FEW_PERCENT = 5.0  # of the rows: a share that is known so well is worth a table


def model_card(
    name: str,
    report: PrivacyReport,
    schema: TableSchema,
    metadata: Metadata,
    plans: Sequence[Allocation],
    *,
    dependent: bool,
    children: Mapping[str, TableSchema] | None = None,
) -> Document:
    """Write the card of a fit, from what is public; without `plans` if none are known.

    `dependent` tells whether it learnt how columns depend on each other; `children`
    are the tables that hang on this one.
    """
    good, bad = _uses(plans if dependent else (), plans)
    bad += _BAD_FOR if children is None else [w for w in _BAD_FOR if w != _NO_LINKS]
    described = {name: _described(column) for name, column in schema.columns.items()}
    if schema.privacy_unit is not None:
        described[schema.privacy_unit] = "identifier", "made up; tells whom to protect"
    for rule in schema.rules:
        if isinstance(rule, Computed):
            described[rule.names[0]] = "computed", rule.words
    nothing = "category", "none was found"
    names = [column.name for column in metadata.layout.columns]
    columns = [(str(name), *described.get(name, nothing)) for name in names]
    classes = metadata.classes
    n_rows = f"The real table has about {classes.counts.sum():,.0f} rows"
    counts = zip(classes.scopes, classes.counts, strict=True)
    sizes = [f"{scope_words(scope)}: about {count:,.0f}" for scope, count in counts]
    shares: dict[str, float] = {}  # of every release, the largest of all classes
    for entry in report.entries:
        shares[entry.name] = max(shares.get(entry.name, 0.0), entry.share or 0.0)
    blocks: list[Block] = [
        Heading(f"Model card: synthetic rows by {name}", 1),
        (
            f"A generator of synthetic rows with {len(columns)} columns, fitted"
            f" to a private table by {report.software.split(',')[0]}."
        ),
        Heading("What was protected, and how much"),
        report.statement,
        Heading("What was declared"),
        "Public, so neither protected nor charged for: the names, the order and the"
        " types of the columns"
        + "".join(f"; {words}" for words in report.declared or ())
        + ". All else was measured with noise, and paid for by the budget.",
        Heading("What is in the table"),
        Grid(("column", "kind", "values"), columns),
        *([f"{n_rows}, by class:", Items(sizes)] if classes.labels else [f"{n_rows}."]),
        *(block for child in (children or {}).items() for block in _child(*child)),
        Heading("What was measured, and how well"),
        (
            "Every release has noise. Its share of the budget (of mu squared; classes"
            " have each their own) says how well it is known beside the others:"
        ),
        Grid(
            ("release", "share of the budget, %"),
            [(release, f"{share:.1f}") for release, share in shares.items()],
        ),
    ]
    if plans:
        headings = "noise, one column", "noise, two columns", "dependence"
        blocks += [
            (
                "The noise of a count of rows. A group of fewer rows than twice its"
                " standard deviation may as well be empty."
            ),
            Grid(
                ("class", "rows", *headings),
                [_noise_of(plan, dependent=dependent) for plan in plans],
            ),
        ]
    blocks += [
        Heading("What the tables are good for"),
        Items(good),
        Heading("What they are bad for"),
        Items([*bad, *report.notes]),
        Heading("What no figure here covers"),
        Items(report.not_covered),
    ]
    return Document(blocks)


def _child(name: str, schema: TableSchema) -> tuple[Block, ...]:
    """Return what is in a table that hangs on another one."""
    columns = [(str(own), *_described(kind)) for own, kind in schema.columns.items()]
    words = f"Rows of {name!r} hang on others, whose hidden columns tell how many."
    return words, Grid(("column", "kind", "values"), columns)


def _described(column: Column) -> tuple[str, str]:
    """Return the kind of a column, and what values it may have."""
    beside = [*map(str, map(as_typed, getattr(column, "special", ())))]
    beside += ["missing"] * getattr(column, "nullable", False)
    missing = "".join(f", or {value}" for value in beside)
    if isinstance(column, Continuous):
        kind = "whole number" if column.integer else "number"
        if not column.of_durations:
            return kind, f"{column.low:,.10g} to {column.high:,.10g}{missing}"
    if isinstance(column, Continuous | Datetime):
        return "time", f"{as_typed(column.low)} to {as_typed(column.high)}{missing}"
    if isinstance(column, Boolean):
        return "yes or no", f"{' or '.join(map(str, column.categories))}{missing}"
    if isinstance(column, Categorical):
        n = len(column.categories)
        return "category", f"{n} {'category' if n == 1 else 'categories'}{missing}"
    if isinstance(column, Identifier):
        return "identifier", "made up; never read"
    return "text", "never read"


def _noise_of(plan: Allocation, *, dependent: bool) -> tuple[str, ...]:
    """Return a class, its rows, and how well it was measured."""
    pair = "second moments" if plan.moments.mu else "not measured"
    if plan.n_tables:
        pair = f"{plan.pairs.noise_std:.3g}"
    whose = "all" if plan.label is None else str(plan.label)
    n_rows, one = f"{int(plan.n_rows):,}", f"{plan.marginals.noise_std:.3g}"
    return whose, n_rows, one, pair, plan.dependence if dependent else "-"


def _uses(
    dependent: Sequence[Allocation], plans: Sequence[Allocation]
) -> tuple[list[str], list[str]]:
    """Return what the tables are good and bad for, by what was measured."""
    good, bad = [_CODE], list[str]()
    errors = [100 * p.marginals.noise_std / max(int(p.n_rows), 1) for p in plans]
    if errors and max(errors) < math.inf:
        clear = max(errors) < _FEW_PERCENT and not any(plan.notes for plan in plans)
        (good if clear else bad).append(
            "Shares of the values of one column, if it is not named below: noise of"
            f" {max(errors):.2g} percentage points at most, in the class where it is"
            " largest."
        )
    for kind, words in _DEPENDENCE.items():
        if n := sum(plan.dependence == kind for plan in dependent):
            of = f" in {n} of {len(plans)} classes" if len(plans) > 1 else ""
            (good if kind == "kept" else bad).append(words.format(of=of))
    return good, bad
