"""What is poor about a result, by what was released, with the remedy.

`fit` says it in one warning, with a few names, and its report with all of them.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.measure._allocation import NO_DEPENDENCE, RARE_FROM, Allocation
from skdpsynth.table import CategoryDomain, NumericDomain

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from skdpsynth.measure._model import TableModel
    from skdpsynth.privacy import PrivacyReport
    from skdpsynth.schema import TableSchema


# Share of the rows that matters: of a label that is not found.
_LABEL_FROM = 0.02
# Whole numbers: of what looks like the classes of a float column, at most; of what
# numbers the rows, at least, as a share of the rows, and in how many (ages may number
# fewer); and how even its gaps are.
_FEW_NUMBERS = 16
_IDENTIFIER_FROM, _IDENTIFIER_ROWS = 0.45, 1000.0
_EVEN_GAPS = (0.6, 1.6)
_LARGE_EPSILON = 20.0
_FEW_NAMES = 3  # of columns, in a warning


def remarks(
    model: TableModel,
    plans: Sequence[Allocation],
    declared: TableSchema | None,
    report: PrivacyReport,
    *,
    dependent: bool,
) -> tuple[str, list[str]]:
    """Give the warning of a fit, empty if nothing is poor, and notes for its report.

    `dependent` tells whether the synthesizer learns how columns depend on each other.
    """
    parts = [*_of_classes(model, plans, private=report.private, dependent=dependent)]
    warning, details = (
        " ".join(_sentences(model, declared, parts, most_names))
        for most_names in (_FEW_NAMES, sys.maxsize)
    )
    return warning, [*_doubts(model, report), *filter(None, [details])]


def _doubts(model: TableModel, report: PrivacyReport) -> Iterator[str]:
    """Say where a claim is weaker than it may look."""
    n_rows = float(model.metadata.classes.counts.sum())
    if report.private and report.delta * n_rows > 1.0:
        yield (
            f"Delta is above 1 / rows, of which there are about {n_rows:.0f}: it would "
            "allow to publish some of them as they are. Take one well below."
        )
    if report.private and report.epsilon > _LARGE_EPSILON:
        yield (
            f"Epsilon is above {_LARGE_EPSILON:g}: against somebody who knows all "
            "other rows it promises next to nothing."
        )


def _sentences(
    model: TableModel, declared: TableSchema | None, parts: list[str], most_names: int
) -> Iterator[str]:
    metadata = model.metadata
    parts = [*parts, *_of_columns(model, declared, most_names)]
    if parts:
        yield (
            f"Parts of the result are poor: {'; '.join(parts)}. Use a larger epsilon, "
            "declare more in a schema, or leave out columns; plan() shows the numbers."
        )
    categories = {
        name: domain.categories for name, domain in _categories_of(model).items()
    }
    categories[metadata.layout.target] = metadata.classes.labels
    unsorted = [
        column.name
        for column in metadata.layout.columns
        if getattr(column.dtype, "ordered", False)
        and len(categories.get(column.name, ())) > 1
        and (declared is None or column.name not in declared.columns)
    ]
    if unsorted:
        yield (
            f"The order of the categories of {_named(unsorted, most_names)} is not "
            "public, so they come back sorted by name or number. State the order by "
            "Categorical([...], ordered=True) in a schema."
        )
    if metadata.measured is not None and _few_numbers(model, declared):
        yield (
            f"The target {metadata.layout.target!r} is a float column, so it is "
            "modelled as a measurement, but it has a few whole numbers only. If they "
            "are classes, cast it by astype(int) or astype('Int64')."
        )


def _of_classes(
    model: TableModel, plans: Sequence[Allocation], *, private: bool, dependent: bool
) -> Iterator[str]:
    metadata = model.metadata
    notes = Counter(plan.note for plan in plans if plan.note and private)
    for note, count in notes.items():
        yield f"{count} of {len(plans)} classes have {note}"
    classes = metadata.classes
    if metadata.layout.label_column is not None:
        n_rows = classes.counts.sum()
        if not classes.labels:
            yield "no label was frequent enough to be released"
        elif len(classes) == 1:
            yield "the target has one class only, so a classifier learns nothing"
        if classes.found_from > max(_LABEL_FROM * n_rows, 1.0):
            yield (
                f"labels of up to {classes.found_from:.0f} rows are not found (declare "
                f"all of {metadata.layout.target!r} by Categorical([...]))"
            )
    lost = all(plan.dependence == "lost" for plan in plans)
    if dependent and private and lost and len(metadata.columns) > 1:
        yield f"all classes have {NO_DEPENDENCE}"


def _of_columns(
    model: TableModel, declared: TableSchema | None, most_names: int
) -> Iterator[str]:
    of_categories = _categories_of(model)
    empty = [n for n, a in of_categories.items() if not a.categories and not a.nullable]
    if empty:
        yield (
            f"no category of {_named(empty, most_names)} was frequent enough to be "
            "released, and their synthetic values are missing (describe what names "
            "rows as Identifier())"
        )
    merged = [
        f"{name!r} ({len(domain.categories)}, "
        f"about {100 * domain.other:.0f} % of its rows)"
        for name, domain in of_categories.items()
        if domain.categories and domain.other > RARE_FROM
    ]
    if merged:
        yield (
            "rare categories are drawn as the ones that were found, in "
            f"{_listed(merged, most_names)} (group them, or declare Categorical([...]))"
        )
    pairs = zip(model.metadata.columns, model.metadata.domains, strict=True)
    guessed = [c.name for c, a in pairs if isinstance(a, NumericDomain) and a.guessed]
    if guessed:
        yield (
            f"the range of {_named(guessed, most_names)} is a guess (state bounds by "
            "Continuous(low, high) or Datetime)"
        )
    numbers = _row_numbers(model, declared)
    if numbers:
        yield (
            f"{_named(numbers, most_names)} may number the rows (describe it as "
            "Identifier())"
        )


def _categories_of(model: TableModel) -> dict[Hashable, CategoryDomain]:
    return {
        column.name: domain
        for column, domain in zip(
            model.metadata.columns, model.metadata.domains, strict=True
        )
        if isinstance(domain, CategoryDomain)
    }


def _row_numbers(model: TableModel, declared: TableSchema | None) -> list[Hashable]:
    """Name undeclared columns of whole numbers with evenly spread values."""
    metadata = model.metadata
    described = {} if declared is None else declared.columns
    n_rows, largest = (
        metadata.classes.counts.sum(),
        int(metadata.classes.counts.argmax()),
    )
    found: list[Hashable] = []
    if n_rows < _IDENTIFIER_ROWS:
        return found
    for j, (column, domain) in enumerate(
        zip(metadata.columns, metadata.domains, strict=True)
    ):
        if column.kind != "integer" or column.name in described:
            continue
        assert isinstance(domain, NumericDomain)
        marginal = model.marginals[largest][j]
        if domain.guessed or domain.nullable or j == metadata.measured:
            continue
        values, _ = marginal.decode(np.linspace(0.05, 0.95, 10))
        gaps = np.diff(values)
        even = gaps / max(gaps.mean(), 1e-9)
        low, high = _EVEN_GAPS
        many = values[-1] - values[0] > _IDENTIFIER_FROM * n_rows
        if many and low < even.min() and even.max() < high:
            found.append(column.name)
    return found


def _few_numbers(model: TableModel, declared: TableSchema | None) -> bool:
    """Tell from its released range whether a measured target may be labels."""
    metadata = model.metadata
    if declared is not None and metadata.layout.target in declared.columns:
        return False
    assert metadata.measured is not None
    domain = metadata.domains[metadata.measured]
    assert isinstance(domain, NumericDomain)
    whole = domain.integer and domain.decimals == 0
    return whole and domain.high - domain.low < _FEW_NUMBERS


def _named(names: Iterable[Hashable], most: int) -> str:
    return _listed([repr(name) for name in names], most)


def _listed(words: Sequence[str], most: int) -> str:
    more = len(words) - most
    tail = f" and {more} more" if more > 0 else ""
    return ", ".join(words[:most]) + tail
