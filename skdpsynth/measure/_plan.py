"""What users are told: by `plan` before any data is touched, by remarks after a fit.

The table of a plan is guessed from names, dtypes, a schema and counts; its numbers are
those of `allocate`. A fit gives its remarks in one warning, with a few names, and in
its report with all of them.
"""

from __future__ import annotations

import math
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.measure._allocation import (
    NO_DEPENDENCE,
    Allocation,
    PlanClasses,
    allocate,
)
from skdpsynth.measure._discovery import Discovery, Labels
from skdpsynth.measure._shares import LITTLE, N_CELLS, QUARTER, RARE, SURE
from skdpsynth.measure._steps import UnsureRanges, has_many_numbers, is_numeric
from skdpsynth.measure._table_model import TableModel
from skdpsynth.privacy import PrivacyAccountant, PrivacyReport
from skdpsynth.schema import Boolean, Column, Continuous, Datetime, TableSchema
from skdpsynth.table import (
    CategoryDomain,
    ColumnDomain,
    ColumnLayout,
    Metadata,
    NumericDomain,
    TableLayout,
    check_schema,
    rounded,
)
from skdpsynth.utils import FEW_NUMBERS, MOST_SHOWN
from skdpsynth.utils.containers import dtypes_of

_CLOCK = re.compile(r"-?\d+:\d\d(:\d\d(\.\d+)?)?")  # such as 13:45 or 1:23:45


@dataclass(frozen=True)
class Guess:
    """A table that nobody has read; its only label is None without a target."""

    layout: TableLayout
    schema: TableSchema
    labels: tuple[Hashable, ...]
    counts: np.ndarray  # rows of each class
    known: bool  # whether domains of the columns are those of another table


def guessed_layout(
    dtypes: Mapping[Hashable, Any] | pd.Series | None,
    schema: TableSchema,
    target: Hashable,
    last: TableLayout | None = None,
) -> TableLayout:
    """Lay out a table: by its dtypes, as the last one, or by a schema alone.

    An object column counts as text, unless the schema says Boolean.
    """
    named = {name for rule in schema.rules for name in rule.names}
    if dtypes is not None:
        dtypes = dtypes_of(dtypes)
        layout = TableLayout.of(_read_dtypes(dtypes, schema), target, schema)
        if target is not None and target not in dtypes:
            msg = f"The target {target!r} is not in dtypes. Give those of all columns."
            raise InvalidSchemaError(msg)
    elif last is not None:
        layout = last
    elif schema.columns and named <= schema.columns.keys():
        columns = [_layout_of(name, own) for name, own in schema.columns.items()]
        if target is not None and target not in schema.columns:
            columns.append(ColumnLayout(target, None, "categorical", True))
        return TableLayout.of(tuple(columns), target, schema)
    else:
        raise InvalidSchemaError(
            "plan needs to know the columns. Give dtypes=df.dtypes (names and dtypes "
            "are public), or schema=TableSchema(...) in the constructor or here."
        )
    check_schema(schema, layout)
    return layout


def guess_table(
    layout: TableLayout,
    schema: TableSchema,
    n_rows: int | None,
    class_counts: Mapping[Hashable, int] | None,
    known_labels: tuple[Hashable, ...] = (),
    *,
    known: bool = False,
) -> Guess:
    """Complete a guess by the schema: which classes, and how many rows has each.

    `known_labels` are what an earlier fit found, used where the labels are not public.
    `known` tells whether the domains of the columns are those of another table.
    """
    if class_counts is not None and not isinstance(class_counts, Mapping):
        raise ValueError(
            "class_counts must be a dict from class to count. Got "
            f"{type(class_counts).__name__} instead."
        )
    if layout.measured and class_counts is not None:
        raise ValueError(
            f"The target {layout.target!r} is a number or a time and has no classes. "
            "Leave out class_counts, and give n_rows."
        )
    if layout.target is None and class_counts is not None:  # for fit(X, y)
        layout, _ = _with_labels(layout, tuple(class_counts))
    labels = Labels(layout.label_column, schema).labels
    if labels is None:
        labels = tuple(class_counts or known_labels)
        if not labels:
            raise InvalidSchemaError(
                f"plan needs to know the classes of the target {layout.target!r}. Give "
                "class_counts={label: rows, ...}, or describe it in the schema: a "
                "measurement as Continuous(low, high)."
            )
        layout, labels = _with_labels(layout, labels)
        if class_counts is not None:  # a usual label that was left out is empty
            class_counts = dict.fromkeys(set(labels) & {0, 1}, 0) | {**class_counts}
    labels = labels or (None,)
    declared = schema.class_counts or None
    class_counts = declared if class_counts is None else class_counts
    if n_rows is None and class_counts is not None:
        n_rows = sum(class_counts.values())
    stated = schema.n_rows
    n_rows = stated if n_rows is None else n_rows
    if n_rows is None:
        raise ValueError(
            "plan needs a guess of the number of rows. Give n_rows=..., or "
            "class_counts={label: rows, ...}."
        )
    n_rows = _checked_guess("n_rows", n_rows, least=1)
    if stated not in (None, n_rows):
        raise ValueError(
            f"n_rows is {n_rows}, but the schema declares {stated}. Leave out "
            "n_rows, or plan with a schema that does not declare it."
        )
    if class_counts is None:
        counts = np.full(len(labels), n_rows / len(labels))
        return Guess(layout, schema, labels, counts, known)
    if set(class_counts) != set(labels):
        raise ValueError(
            f"class_counts must name every class once: {list(labels)!r}. Got "
            f"{list(class_counts)!r} instead."
        )
    for count in class_counts.values():
        _checked_guess("Each of class_counts", count, least=0)
    total, target = sum(class_counts.values()), layout.label_column
    missing = target is not None and target.can_be_missing
    if total > n_rows or (total < n_rows and not missing):
        raise ValueError(
            f"class_counts add up to {total}, but n_rows is {n_rows}. Correct one, or "
            "leave out n_rows."
        )
    if declared is not None and dict(class_counts) != dict(declared):
        raise ValueError(
            "class_counts differ from those that the schema declares, which a fit "
            "would use. Leave them out, or plan with a schema without class_counts."
        )
    counts = np.array([float(class_counts[label]) for label in labels])
    return Guess(layout, schema, labels, counts, known)


def _read_dtypes(dtypes: object, schema: TableSchema) -> tuple[ColumnLayout, ...]:
    """Lay out columns of which only names and dtypes are known."""
    if isinstance(dtypes, pd.Series) and not dtypes.index.is_unique:
        msg = "dtypes must have one entry per column. Got a name more than once."
        raise ValueError(msg)
    if not isinstance(dtypes, Mapping | pd.Series):
        raise ValueError(
            "dtypes must be df.dtypes, df.schema of pyarrow or polars, or a dict from "
            f"column name to dtype. Got {type(dtypes).__name__} instead."
        )
    columns = []
    for name, given in dtypes.items():
        try:
            dtype = pd.api.types.pandas_dtype(given)
        except TypeError as error:
            raise ValueError(
                f"The dtype of column {name!r} is none that pandas knows. Give "
                "dtypes=df.dtypes."
            ) from error
        if dtype == np.dtype(str):  # what "str" is before pandas 3
            dtype = np.dtype(object)
        columns.append(ColumnLayout.of(name, pd.Series(dtype=dtype), schema))
    return tuple(columns)


def _layout_of(name: Hashable, column: Column) -> ColumnLayout:
    """Lay out a column that only a schema describes."""
    kind: Any = "categorical"
    if isinstance(column, Boolean) and not column.of_texts:
        kind = "boolean"
    elif isinstance(column, Continuous):
        kind = "integer" if column.integer else "continuous"
        kind = "timedelta" if column.of_durations else kind
    elif isinstance(column, Datetime):
        kind = "datetime"
    return ColumnLayout(name, None, kind, getattr(column, "nullable", True))


def _with_labels(
    layout: TableLayout, labels: tuple[Hashable, ...]
) -> tuple[TableLayout, tuple[Hashable, ...]]:
    """Return a layout with labels, and those of them that a fit will find.

    The target is of their kind, if no dtype says more. Of the usual labels a fit finds
    both if it finds no other.
    """
    target = layout.label_column
    if target is None or target.dtype is None:
        kind: Any = pd.api.types.infer_dtype([*labels], skipna=False)
        kind = kind if kind in ("boolean", "integer") else "categorical"
        name = "target" if target is None else target.name
        target = ColumnLayout(name, None, kind, True)
        layout = TableLayout((*layout.feature_columns, target), name)
    whole = [isinstance(label, Integral) for label in labels]
    missing = [bool(pd.api.types.is_scalar(x) and pd.isna(x)) for x in labels]
    if any(missing) or (target.kind == "integer" and not all(whole)):
        raise ValueError(
            f"class_counts must name labels as the column {target.name!r} holds them, "
            f"which is of {target.kind} kind. Got {list(labels)!r} instead."
        )
    usual = target.kind == "integer" and set(labels) <= {0, 1}
    return layout, (0, 1) if usual else labels


def _checked_guess(name: str, value: object, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an int >= {least}. Got {value!r} instead.")
    return int(value)


_EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0)  # that may be enough
_LARGE_DELTA = 1e-3  # above it delta is too large whatever the number of rows
_FEW_SHOWN = 3  # columns that a note names: it is a cell of a table


def plan_table(
    plan_classes: PlanClasses,
    accountant_of: Callable[[float], PrivacyAccountant],
    epsilon: float,
    guess: Guess,
    *,
    dependent: bool,
    adversarial: bool,
) -> pd.DataFrame:
    """Return the allocation of every class of a guessed table.

    `dependent` tells whether the algorithm learns how columns depend on each other,
    `adversarial` whether it has a loop of training.
    """
    discovery = Discovery(guess.layout, guess.schema, known=guess.known)

    @cache
    def at(epsilon: float) -> list[dict[str, Any]]:
        return _allocated(plan_classes, accountant_of(epsilon), guess, discovery)

    table, domains = pd.DataFrame(at(epsilon)), discovery.declared.values()
    for c in range(len(table)):  # no larger budget mends less, in 779 random plans
        place = bisect_left(_EPSILONS, True, key=lambda more: not at(more)[c]["note"])
        table.loc[c, "epsilon_needed"] = (*_EPSILONS, math.nan)[place]
    if not dependent or len(domains) < 2:
        table["dependence"] = ""
    if not adversarial:
        table["training"] = "fitted to the measurements"
    # Whatever the budget.
    of_all = []
    if guess.layout.label_column is not None and len(guess.labels) == 1:
        of_all.append("one class only: a classifier has nothing to learn")
    if _many_numbers(guess.layout, guess.labels, guess.schema.columns):
        words = "numbers of the target are classes: a measurement is Continuous"
        of_all.append(f"{len(guess.labels)} whole {words}")
    if n := sum(map(_is_fixed, domains)):
        of_all.append(f"{n} of {len(domains)} columns can hold one value only")
    accountant, n_rows = accountant_of(epsilon), guess.counts.sum()
    label_from = discovery.costs(accountant, n_rows)["labels"].found_from
    if label_from > max(RARE * n_rows, 1.0):
        of_all.append(f"undeclared labels of up to {label_from:.0f} rows are not found")
    found_from = table["category_threshold"].max()
    if found_from <= LITTLE * n_rows:  # else it is said beside what is mended
        of_all += _lost_categories(discovery, found_from, n_rows)
    if orders := _unknown_orders(guess.layout, guess.schema.columns):
        names = _named([repr(column.name) for column in orders], _FEW_SHOWN)
        of_all.append(f"the order of {names} is not public: sorted by name")
    claims = weak_claims(epsilon, accountant.delta, n_rows)
    of_all += [claim.partition(":")[0] for claim in claims]
    lost = table["dependence"] == "lost"
    table["note"] = [
        "; ".join([*notes, *[NO_DEPENDENCE] * no, *of_all])
        for notes, no in zip(table["note"], lost, strict=True)
    ]
    return table


def _allocated(
    plan_classes: PlanClasses,
    accountant: PrivacyAccountant,
    guess: Guess,
    discovery: Discovery,
) -> list[dict[str, Any]]:
    """Allocate for a guessed table; notes are what a larger epsilon would mend."""
    n_rows = guess.counts.sum()
    costs = discovery.costs(accountant, n_rows)
    # A range that must be found may turn out to be narrow; that is not known yet.
    any_range = NumericDomain(-1.0, 1.0, log=False, integer=False, nullable=True)
    likely = [
        any_range if domain is None and is_numeric(column) else domain
        for column, domain in discovery.declared.items()
    ]
    usual = [cost.share for name, cost in costs.items() if name != UnsureRanges.name]
    left = 1.0 - sum(usual)  # most tables have no range that is asked for again
    plans = allocate(
        plan_classes,
        guess.labels,
        rounded(guess.counts),
        likely,
        accountant.mu_cap * math.sqrt(left),
        measured=guess.layout.measured,
    )
    public = discovery.public(accountant, n_rows)
    labels_from = discovery.labels.found_from(guess.labels, public)
    categories_from = costs["categories"].found_from
    notes = []
    if categories_from > LITTLE * n_rows:
        notes += _lost_categories(discovery, categories_from, n_rows)
    # At twice as many rows few ranges are guesses: of 9 kinds of columns 2 % (median),
    # 15 % at most; at as many rows up to 78 %, at three times as many 8 %.
    if 2 * costs["column ranges"].found_from > n_rows:
        names = _named(_undeclared(discovery, "column ranges"), _FEW_SHOWN)
        notes.append(f"too few rows to find undeclared ranges: {names} may be guesses")
    rare = ["too few rows for its label to be found"]
    return [
        {
            "class": plan.label,
            "rows": int(plan.n_rows),
            "bins": plan.n_bins,
            "noise_std": plan.marginals.noise_std,
            "tables": plan.n_tables,
            "table_cells": plan.n_table_cells,
            "table_noise_std": plan.pairs.noise_std,
            "relation_noise_std": plan.relations.noise_std,
            "moment_noise_std": plan.moments.noise_std,
            "signal_to_noise": plan.signal_to_noise,
            "dependence": plan.dependence,
            "n_teachers": plan.n_teachers,
            "n_iter": plan.n_iter,
            "training": plan.training_words,
            "step_noise_std": plan.training.noise_std if plan.training else 0.0,
            "label_threshold": label_from,
            "category_threshold": categories_from,
            "value_threshold": costs["frequent values"].found_from,
            "epsilon_needed": math.nan,
            "note": [*plan.notes, *rare * bool(0 < label_from >= rows), *notes],
        }
        for plan, rows, label_from in zip(plans, guess.counts, labels_from, strict=True)
    ]


def _undeclared(discovery: Discovery, name: str) -> list[str]:
    """Name the columns that a step is about, but for booleans."""
    (columns,) = (step.columns for step in discovery.of_columns if step.name == name)
    return [repr(column.name) for column in columns if column.kind != "boolean"]


def _lost_categories(
    discovery: Discovery, found_from: float, n_rows: float
) -> list[str]:
    names = _named(own := _undeclared(discovery, "categories"), _FEW_SHOWN)
    words = f"undeclared categories of up to {found_from:.0f} rows are lost in {names}"
    if found_from >= n_rows:
        words = f"too few rows for any undeclared category to be found in {names}"
    return [words] if own and found_from > 1 else []


def _unknown_orders(
    layout: TableLayout, described: Container[Hashable]
) -> list[ColumnLayout]:
    """Return the columns whose dtype has an order that no schema states."""
    return [c for c in layout.columns if c.ordered and c.name not in described]


def _many_numbers(
    layout: TableLayout, labels: Sequence[Hashable], described: Container[Hashable]
) -> bool:
    """Return whether the labels are more whole numbers than a few codes would be."""
    whole = layout.label_column is not None and layout.label_column.kind == "integer"
    return whole and len(labels) > FEW_NUMBERS and layout.target not in described


def weak_claims(epsilon: float, delta: float, n_rows: float | None) -> list[str]:
    """Return where the parameters of a fit promise little; nothing without noise."""
    claims: list[str] = []
    if epsilon == math.inf:
        return claims
    if n_rows is not None and delta * n_rows > 1.0:
        claims.append(
            f"Delta is above 1 / rows, of which there are about {n_rows:.0f}: it would "
            "allow to publish some of them as they are. Take one well below."
        )
    elif delta > _LARGE_DELTA:
        claims.append(
            f"Delta is above {_LARGE_DELTA:g}: it would allow to publish that share of "
            "the rows as they are. Take one well below 1 / rows."
        )
    if epsilon > _EPSILONS[-1]:
        claims.append(
            f"Epsilon is above {_EPSILONS[-1]:g}: against somebody who knows all "
            "other rows it promises next to nothing."
        )
    return claims


def _is_fixed(domain: ColumnDomain | None) -> bool:
    """Return whether one value (or none) is all that a domain has."""
    if isinstance(domain, NumericDomain):
        return domain.low == domain.high and not domain.nullable
    return domain is not None and len(domain.categories) + domain.nullable <= 1


# What states a range, by the kinds of columns.
_BOUNDS = {
    "Continuous(low, high)": ("continuous", "timedelta"),
    "Continuous(low, high, integer=True)": ("integer",),
    "Datetime(low, high)": ("datetime",),
}
# What is poor about some columns: a text, their names, and the rest of the text.
_Remark = tuple[str, list[str], str]


def remarks(
    model: TableModel,
    plans: Sequence[Allocation],
    declared: TableSchema,
    report: PrivacyReport,
    *,
    dependent: bool,
) -> tuple[str, list[str]]:
    """Return the warning of a fit, empty if nothing is poor, and notes for its report.

    `dependent` tells whether the synthesizer learns how columns depend on each other.
    """
    metadata = model.metadata
    described = {*declared.columns}
    n_rows = float(metadata.classes.counts.sum())
    notes = weak_claims(report.epsilon, report.delta, n_rows)
    if metadata.measured is not None and metadata.layout.target not in described:
        notes.append(
            f"The target {metadata.layout.target!r} is modelled as a measurement, by"
            " its dtype, so it has no classes."
        )
    of_table = [*_of_labels(metadata, declared)]
    if report.private:
        little = Counter(chain.from_iterable(plan.notes for plan in plans)).items()
        of_table += [f"{n} of {len(plans)} classes have {note}" for note, n in little]
        lost = all(plan.dependence == "lost" for plan in plans)
        if dependent and lost and len(metadata.columns) > 1:
            of_table.append(f"all classes have {NO_DEPENDENCE}")
    of_columns = [*_of_columns(model, described)]
    of_dtypes = [*_of_dtypes(metadata, described)]

    def said(most: int) -> str:
        parts = "; ".join([*of_table, *_texts(of_columns, most)])
        first = (
            f"Parts of the result are poor: {parts}. Use a larger epsilon, declare more"
            " in a schema, or leave out columns; plan() shows the numbers."
        )
        return " ".join([*[first] * bool(parts), *_texts(of_dtypes, most)])

    return said(MOST_SHOWN), [*notes, *filter(None, [said(sys.maxsize)])]


def _named(names: Sequence[str], most: int) -> str:
    """List so many names, and count the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _texts(remarks: Sequence[_Remark], most: int) -> Iterator[str]:
    """Write those of any columns, with so many names."""
    for before, names, after in remarks:
        if names:
            yield before + _named(names, most) + after


def _of_labels(metadata: Metadata, declared: TableSchema) -> Iterator[str]:
    """Yield what is poor about the classes, if there are some."""
    layout, classes = metadata.layout, metadata.classes
    if (column := layout.label_column) is None:
        return
    remedy = f"declare all of {layout.target!r} by Categorical([...])"
    if column.kind == "integer":
        remedy += ", or a measurement by Continuous(low, high, integer=True)"
    total, sure = float(classes.counts.sum()), SURE * classes.noise_std
    stated = declared.columns.get(layout.target)
    complete = not getattr(stated, "nullable", column.can_be_missing)
    # Where labels may be missing, they often are, and that is no fault.
    unexpected = complete or classes.counts.max() <= sure
    if unexpected and classes.unclassed > max(sure, LITTLE * total):
        share = 100 * classes.unclassed / (classes.unclassed + total)
        yield (
            f"about {share:.0f} % of the rows have none of the labels that are known"
            f" of {layout.target!r}, and take no part ({remedy})"
        )
    elif classes.found_from > max(RARE * total, 1.0):
        yield (
            f"labels of up to {classes.found_from:.0f} rows are not found, so that "
            f"classes may be absent ({remedy}; twice the epsilon finds labels of half "
            "the rows)"
        )
    if not classes.labels:
        yield f"no label was frequent enough to be released ({remedy})"
    elif len(classes) == 1:
        yield "the target has one class only, so a classifier learns nothing"


def _of_columns(model: TableModel, described: set[Hashable]) -> Iterator[_Remark]:
    metadata = model.metadata
    named = [
        (repr(column.name), domain)
        for column, domain in zip(metadata.columns, metadata.domains, strict=True)
    ]
    listed = [(n, domain) for n, domain in named if isinstance(domain, CategoryDomain)]
    yield (
        "no category of ",
        [
            name
            for name, own in listed
            if not own.categories and (not own.nullable or own.other > LITTLE)
        ],
        (
            " was frequent enough to be released, and their synthetic values are"
            " missing (declare Categorical([...]); convert times of day, durations and"
            " numbers that are texts; `check` of a schema says what else may fit)"
        ),
    )
    yield (
        "rare categories are drawn as the ones that were found, in ",
        [
            f"{name} ({len(own.categories)}, about {100 * own.other:.0f} % of its rows)"
            for name, own in listed
            if own.categories and own.other > LITTLE
        ],
        " (group them, or declare Categorical([...]))",
    )
    yield (
        "times of day or durations are texts in ",
        [
            name
            for name, own in listed
            if own.categories
            and own.other > LITTLE
            and all(_CLOCK.fullmatch(str(category)) for category in own.categories)
        ],
        (
            ", so that only frequent ones are drawn (convert them by pd.to_timedelta,"
            ' after appending ":00" to what is like "13:45")'
        ),
    )
    guessed = [
        column
        for column, domain in zip(metadata.columns, metadata.domains, strict=True)
        if getattr(domain, "guessed", False)
    ]
    for declaration, kinds in _BOUNDS.items():
        yield (
            "the range of ",
            [repr(column.name) for column in guessed if column.kind in kinds],
            (
                " is a guess, beyond which values are clipped (state it:"
                f" {declaration}), also codes that are far off (special=[...])"
            ),
        )
    rows, codes = _even_numbers(model, described)
    yield "", rows, " may number the rows (describe it as Identifier())"
    after = " are evenly spread as codes are, but drawn as amounts (list codes by"
    yield "the whole numbers of ", codes, f"{after} Categorical([...]))"


def _even_numbers(
    model: TableModel, described: set[Hashable]
) -> tuple[list[str], list[str]]:
    """Name undeclared columns of evenly spread whole numbers: as many as rows, more."""
    metadata, counts = model.metadata, model.metadata.classes.counts
    rows, codes, n_rows = list[str](), list[str](), float(counts.sum())
    largest = model.marginals[int(counts.argmax())]
    for j, (column, marginal) in enumerate(zip(metadata.columns, largest, strict=True)):
        own = column.original is column
        if column.kind != "integer" or column.name in described or not own:
            continue
        domain: Any = marginal.domain
        if domain.guessed or domain.nullable or j == metadata.measured:
            continue
        values, _ = marginal.decode(np.linspace(0.05, 0.95, 10))
        gaps = np.diff(values)
        # Ages may number fewer rows than there are cells, and be as even.
        width = float(values[-1] - values[0]) / 0.9
        many = 2 * (values[-1] - values[0]) > max(counts.sum(), N_CELLS)
        if many and gaps.max() < 2 * gaps.min():
            of_rows = abs(width - n_rows) <= QUARTER * n_rows
            (rows if of_rows else codes).append(repr(column.name))
    return rows, codes


def _of_dtypes(metadata: Metadata, described: set[Hashable]) -> Iterator[_Remark]:
    """Yield what a dtype says that is not public, or may not be meant."""
    categories = {
        c.name: getattr(domain, "categories", ())
        for c, domain in zip(metadata.columns, metadata.domains, strict=True)
    }
    target = metadata.layout.target
    categories[target] = metadata.classes.labels
    yield (
        "The order of the categories of ",
        [
            repr(column.name)
            for column in _unknown_orders(metadata.layout, described)
            if len(categories.get(column.name, ())) > 1
        ],
        (
            " is not public, so they come back sorted by name or number. State the"
            " order by Categorical([...], ordered=True) in a schema."
        ),
    )
    labels = metadata.classes.labels
    yield (
        "The target ",
        [repr(target)] * _many_numbers(metadata.layout, labels, described),
        (
            f" is an integer column, so it has {len(labels)} classes. If they are"
            " measurements, declare it by Continuous(low, high, integer=True)."
        ),
    )
    if metadata.measured is None or target in described:
        return
    if metadata.columns[metadata.measured].kind != "continuous":  # a time is no label
        return
    # By its released range, whether it may be labels.
    domain: Any = metadata.domains[metadata.measured]
    if domain.integer and domain.decimals <= 0 and not has_many_numbers(domain):
        after = (
            " is a float column, so it is modelled as a measurement, but it has a few"
            " whole numbers only. If they are classes, cast it by astype(int) or"
            " astype('Int64')."
        )
        yield "The target ", [repr(target)], after
