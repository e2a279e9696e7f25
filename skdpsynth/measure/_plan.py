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
from collections.abc import (
    Callable,
    Container,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
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
    Outline,
)
from skdpsynth.measure._discovery import Discovery, Labels
from skdpsynth.measure._shares import FEW, LIKELY, LITTLE, N_CELLS, QUARTER, RARE, SURE
from skdpsynth.measure._steps import (
    Categories,
    ColumnStep,
    Cost,
    FrequentValues,
    Hours,
    Ranges,
    UnsureRanges,
    has_many_numbers,
    is_numeric,
)
from skdpsynth.measure._table_model import TableModel
from skdpsynth.privacy import PrivacyAccountant, PrivacyReport
from skdpsynth.schema import Boolean, Column, Continuous, Datetime, TableSchema
from skdpsynth.table import (
    MISSING,
    ColumnDomain,
    ColumnLayout,
    MarginalTransform,
    Metadata,
    NumericDomain,
    TableLayout,
    check_schema,
    rounded,
)
from skdpsynth.utils import FEW_NUMBERS, MOST_SHOWN
from skdpsynth.utils.containers import dtypes_of
from skdpsynth.utils.dtypes import CLOCK, OF_CLOCKS


@dataclass(frozen=True)
class Guess:
    """A table that nobody has read; its only label is None without a target."""

    layout: TableLayout
    schema: TableSchema
    labels: tuple[Hashable, ...]
    counts: np.ndarray  # rows of each class
    known: tuple[ColumnDomain, ...]  # of the columns, from another table; or none

    def plan(
        self,
        allocate: Callable[[Outline, float], list[Allocation]],
        accountant_of: Callable[[float], PrivacyAccountant],
        epsilon: float,
        *,
        dependent: bool,
        adversarial: bool,
    ) -> pd.DataFrame:
        """Return the allocation of every class.

        `dependent` tells whether the algorithm learns how columns depend on each other,
        `adversarial` whether it has a loop of training.
        """
        discovery = Discovery(self.layout, self.schema, known=self.known)

        @cache
        def at(epsilon: float) -> list[dict[str, Any]]:
            return _allocated(allocate, accountant_of(epsilon), self, discovery)

        def enough(c: int, poor: str) -> float:
            """Return an epsilon that mends it; in 779 plans no larger one did less."""
            place = bisect_left(_EPSILONS, True, key=lambda more: not at(more)[c][poor])
            return (*_EPSILONS, math.nan)[place]

        table, domains = pd.DataFrame(at(epsilon)), discovery.declared.values()
        table["epsilon_needed"] = [enough(c, "note") for c in range(len(table))]
        unlearnt = table.pop("unlearnt")
        if not dependent or len(domains) < 2:
            table["dependence"], unlearnt = "", [""] * len(table)
        if not adversarial:
            table["training"] = "fitted to the measurements"
        # Whatever the budget.
        of_all = []
        if self.layout.label_column is not None and len(self.labels) == 1:
            of_all.append("one class only: a classifier has nothing to learn")
        if n := sum(map(_is_fixed, domains)):
            of_all.append(f"{n} of {len(domains)} columns can hold one value only")
        accountant, n_rows = accountant_of(epsilon), self.counts.sum()
        costs = discovery.costs(accountant, n_rows)
        label_from = costs[Labels].found_from
        if label_from > max(RARE * n_rows, 1.0):
            few = f"up to {label_from:.0f} rows"
            of_all.append(f"undeclared labels of {few} are not found")
        found_from = table["category_threshold"].max()
        if found_from <= LITTLE * n_rows:  # else it is said beside what is mended
            of_all += _rare_lost(discovery, found_from, n_rows)
        numeric = _undeclared(discovery, Ranges)
        gaps = any(c.can_be_missing for c in discovery.declared if is_numeric(c))
        found = [(_lost_amid(costs, n_rows, RARE * gaps), numeric)]
        found += _of_dtypes(self.layout, self.labels, self.schema.columns)
        of_all += _texts(found, sys.maxsize)
        of_all += weak_claims(epsilon, accountant.delta, n_rows)
        for c, words in enumerate(unlearnt):
            mended = enough(c, "unlearnt") if words else math.nan
            more = "" if math.isnan(mended) else f" (epsilon {mended:g} is enough)"
            parts = [*table.loc[c, "note"], *[words + more] * bool(words), *of_all]
            table.loc[c, "note"] = "; ".join(parts)
        return table


def _guessed_layout(
    dtypes: Mapping[Hashable, Any] | pd.Series | None,
    schema: TableSchema,
    target: Hashable,
    last: TableLayout | None,
) -> TableLayout:
    """Lay out a table by dtypes (objects: texts), as the last one, or by a schema."""
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
    dtypes: Mapping[Hashable, Any] | pd.Series | None,
    schema: TableSchema,
    target: Hashable,
    last: TableLayout | None,
    n_rows: int | None,
    class_counts: Mapping[Hashable, int] | None,
    known_labels: tuple[Hashable, ...] = (),
    *,
    known: tuple[ColumnDomain, ...] = (),
) -> Guess:
    """Guess a table: its layout, which classes it has, and how many rows each.

    `known_labels` are what an earlier fit found, used where the labels are not public.
    `known` are the domains of the columns, if they are those of another table.
    """
    layout = _guessed_layout(dtypes, schema, target, last)
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
    return ColumnLayout(
        name, None, kind, getattr(column, "nullable", None) is not False
    )


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
_NO_PAIRS = (
    "too few rows for tables of two columns: only correlations are measured, and what"
    " goes with each of more than two categories, or is missing together (state it:"
    " MissingTogether([...])), is not learnt"
)
# What is poor about some columns: a text with "{}" for their names, and these.
_Remark = tuple[str, list[str]]
_TEXTS = (
    "codes are Categorical([...]), free text is Text(), what names rows Identifier()"
)
# Before a fit and after it.
_NO_CLOCKS = (
    "too few rows to measure times of day well, which come back more evenly spread in"
    " {} (make the hour a column of its own, or state whole days: unit D)"
)


def _allocated(
    allocate: Callable[[Outline, float], list[Allocation]],
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
    usual = [cost.share for step, cost in costs.items() if step is not UnsureRanges]
    left = 1.0 - sum(usual)  # most tables have no range that is asked for again
    counts = rounded(guess.counts).tolist()
    table = Outline(guess.labels, counts, likely, guess.layout.measured)
    plans = allocate(table, accountant.mu_cap * math.sqrt(left))
    public = discovery.public(accountant, n_rows)
    labels_from = discovery.labels.found_from(guess.labels, public)
    categories_from = costs[Categories].found_from
    notes = []
    if categories_from > LITTLE * n_rows:
        notes += _rare_lost(discovery, categories_from, n_rows)
    # At twice as many rows few ranges are guesses: of 9 kinds of columns 2 % (median),
    # 15 % at most; at as many rows up to 78 %, at three times as many 8 %.
    if 2 * costs[Ranges].found_from > n_rows:
        names = ", ".join(_undeclared(discovery, Ranges))
        notes.append(f"too few rows to find undeclared ranges: {names} may be guesses")
    timed = _undeclared(discovery, Hours) * (not costs[Hours].share)
    notes += _texts([(_NO_CLOCKS, timed)], sys.maxsize)
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
            "unlearnt": _unlearnt(plan, likely),
            "n_teachers": plan.n_teachers,
            "n_iter": plan.n_iter,
            "training": plan.training_words,
            "step_noise_std": plan.training.noise_std if plan.training else 0.0,
            "label_threshold": label_from,
            "category_threshold": categories_from,
            "value_threshold": costs[FrequentValues].found_from,
            "epsilon_needed": math.nan,
            "note": [*plan.notes, *rare * bool(0 < label_from >= rows), *notes],
        }
        for plan, rows, label_from in zip(plans, guess.counts, labels_from, strict=True)
    ]


def _undeclared(discovery: Discovery, kind: type[ColumnStep]) -> list[str]:
    """Name the columns that a step is about, but for booleans."""
    (columns,) = (own.columns for own in discovery.column_steps if type(own) is kind)
    known = (c.original for c in columns if c.kind != "boolean")
    return [repr(column.name) for column in known if column is not None]


def _rare_lost(discovery: Discovery, found_from: float, n_rows: float) -> list[str]:
    names = ", ".join(own := _undeclared(discovery, Categories))
    words = f"undeclared categories of up to {found_from:.0f} rows are lost in {names}"
    if found_from >= n_rows:
        words = f"too few rows for any undeclared category to be found in {names}"
    return [f"{words} ({_TEXTS})"] if own and found_from > 1 else []


def _lost_amid(costs: Mapping[type, Cost], n_rows: float, least: float = 0.0) -> str:
    """Return that many codes, and gaps, may be lost; of gaps `least` would be many."""
    most = costs[Ranges].found_from / LIKELY  # SURE noise deviations
    what = "missing values (state nullable=True) and codes" if least else "codes"
    lost = f"amid numbers (special=[...]) of up to {most:.0f} rows are not seen in {{}}"
    return f"{what} {lost}" if most > (least or LITTLE) * n_rows else ""


def _unlearnt(plan: Allocation, domains: Sequence[ColumnDomain | None]) -> str:
    """Return what is hardly learnt of how columns depend on each other, or nothing."""
    if plan.dependence == "lost":
        return NO_DEPENDENCE
    several = any(d is None or len(getattr(d, "categories", ())) > 2 for d in domains)
    several |= sum(d is not None and d.nullable for d in domains) > 1
    moments_alone = plan.moments.mu > 0 and plan.pairs.mu == 0
    return _NO_PAIRS if moments_alone and several else ""


def _of_dtypes(
    layout: TableLayout, labels: Sequence[Hashable], described: Container[Hashable]
) -> Iterator[_Remark]:
    """Yield what a dtype says that is not public, or may not be meant."""
    ordered = [c.name for c in layout.columns if c.ordered and c.name not in described]
    words = "the order of the categories of {} is not public, so they come back sorted"
    words += " by name or number (state it: Categorical([...], ordered=True))"
    yield words, [*map(repr, ordered)]
    column = layout.label_column
    many = column is not None and column.kind == "integer" and len(labels) > FEW_NUMBERS
    words = f"the target {{}} is an integer column, so it has {len(labels)} classes (a"
    words += " measurement is declared by Continuous(low, high, integer=True))"
    yield words, [repr(layout.target)] * (many and layout.target not in described)


def weak_claims(epsilon: float, delta: float, n_rows: float | None) -> dict[str, str]:
    """Return where parameters promise little, and what it means; {} without noise."""
    claims: dict[str, str] = {}
    if epsilon == math.inf:
        return claims
    most = f"{_LARGE_DELTA:g}" * (delta > _LARGE_DELTA)
    if n_rows is not None and delta * n_rows > 1.0:
        most = f"1 / rows, of which there are about {n_rows:.0f}"
    if most:
        claims[f"Delta is above {most}"] = (
            "it would allow to publish some rows as they are. Take one well below 1 /"
            " rows."
        )
    if epsilon > _EPSILONS[-1]:
        claims[f"Epsilon is above {_EPSILONS[-1]:g}"] = (
            "against somebody who knows all other rows it promises next to nothing."
        )
    return claims


def _is_fixed(domain: ColumnDomain | None) -> bool:
    """Return whether one value (or none) is all that a domain has."""
    if isinstance(domain, NumericDomain):
        return domain.low == domain.high and not domain.nullable
    return domain is not None and len(domain.categories) + domain.nullable <= 1


# What states a range, by the kind of a column.
_BOUNDS = {
    **dict.fromkeys(("continuous", "timedelta"), "Continuous(low, high)"),
    "integer": "Continuous(low, high, integer=True)",
    "datetime": "Datetime(low, high)",
}


def remarks(
    model: TableModel,
    plans: Sequence[Allocation],
    declared: TableSchema,
    report: PrivacyReport,
    costs: Mapping[type, Cost],
    *,
    dependent: bool,
) -> tuple[str, list[str]]:
    """Return the warning of a fit, empty if nothing is poor, and notes for its report.

    `costs` are those of discovery; `dependent` tells whether the synthesizer learns how
    columns depend on each other.
    """
    metadata, described = model.metadata, declared.columns.keys()
    layout, classes = metadata.layout, metadata.classes
    claims = weak_claims(report.epsilon, report.delta, float(classes.counts.sum()))
    notes = [*map(": ".join, claims.items())]
    if metadata.measured is not None and layout.target not in described:
        words = f"The target {layout.target!r} is modelled as a measurement, so it has"
        notes.append(f"{words} no classes.")
    of_table = [*_of_target(metadata, declared)]
    if report.private:
        little = Counter(chain.from_iterable(plan.notes for plan in plans)).items()
        of_table += [f"{n} of {len(plans)} classes have {note}" for note, n in little]
        unlearnt = {_unlearnt(plan, metadata.domains) for plan in plans}
        if dependent and all(unlearnt) and len(metadata.columns) > 1:
            of_table += [f"all classes have {words}" for words in unlearnt]

    def said(most: int, least: float) -> str:
        found = [*_of_columns(model, plans, declared, costs, report, least)]
        found += _of_dtypes(layout, classes.labels, described)
        parts = "; ".join([*of_table, *_texts(found, most)])
        return (
            f"Parts of the result are poor: {parts}. Use a larger epsilon, declare more"
            " in a schema, or leave out columns; plan() shows the numbers."
        ) * bool(parts)

    return said(MOST_SHOWN, FEW), [*notes, *filter(None, [said(sys.maxsize, RARE)])]


def _texts(remarks: Iterable[_Remark], most: int) -> Iterator[str]:
    """Write those of any columns, with so many names."""
    for words, names in remarks:
        if words and names:
            more = f" and {len(names) - most} more" if len(names) > most else ""
            yield words.replace("{}", ", ".join(names[:most]) + more)


def _of_target(metadata: Metadata, declared: TableSchema) -> Iterator[str]:
    """Yield what is poor about the target, if there is one."""
    layout, classes = metadata.layout, metadata.classes
    name = f"the target {layout.target!r}"
    if metadata.measured is not None and layout.target not in declared.columns:
        domain: Any = metadata.domains[metadata.measured]
        kind, whole = metadata.columns[metadata.measured].kind, domain.integer
        few = whole and domain.decimals <= 0 and not has_many_numbers(domain)
        if kind == "integer":
            yield (
                f"{name} is modelled as a measurement, since most of its rows have"
                " labels of few rows (declare Continuous(low, high, integer=True), or"
                " its classes by Categorical([...]))"
            )
        elif kind == "continuous" and few:  # by what was released
            yield (
                f"{name} is a float column, so it is modelled as a measurement, but it"
                " has a few whole numbers only (cast classes by astype(int) or"
                " astype('Int64'))"
            )
    if (column := layout.label_column) is None:
        return
    remedy = f"declare all of {layout.target!r} by Categorical([...])"
    if column.kind == "integer":
        remedy += ", or a measurement by Continuous(low, high, integer=True)"
    total, sure = float(classes.counts.sum()), SURE * float(classes.noise_std[0])
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


def _of_columns(
    model: TableModel,
    plans: Sequence[Allocation],
    declared: TableSchema,
    costs: Mapping[type, Cost],
    report: PrivacyReport,
    least: float,
) -> Iterator[_Remark]:
    """Yield what columns lost, gaps in so many rows too, by what was released."""
    metadata, counts = model.metadata, model.metadata.classes.counts
    found: dict[str, list[str]] = {}
    clocks, n_rows = Hours({}, TableSchema({})), float(counts.sum())
    largest = model.marginals[place := int(counts.argmax())]
    unclear = LIKELY * plans[place].marginals.noise_std / counts[place]
    most = costs[Categories].found_from
    rare = f"categories and missing values of up to {most:.0f} rows are lost in {{}}"
    rare = f"{rare} (declare Categorical([...]))" if most > FEW * n_rows else ""
    noise = {e.name: e.noise_std for e in report.entries}.get(Hours.name, math.inf)
    for j, (column, marginal) in enumerate(zip(metadata.columns, largest, strict=True)):
        stated = getattr(declared.kinds.get(column.needs[-1]), "nullable", None)
        gaps = column.can_be_missing and stated is None and not marginal.domain.nullable
        lost = _lost_amid(costs, n_rows, least * gaps)
        if gaps and is_numeric(column):
            found.setdefault(lost, []).append(repr(column.needs[-1]))
        if column.original is None:  # it stands for whether others are missing
            continue
        words, beside = _fate(column.kind, marginal, unclear)
        if clocks.concerns(column, marginal.domain) and n_rows < 24 * SURE * noise:
            found.setdefault(_NO_CLOCKS, []).append(repr(column.original.name))
        own = column.original is column and column.name not in declared.columns
        if not words and own and column.kind == "integer" and j != metadata.measured:
            words = _as_codes(marginal, n_rows)
        if not words and own and column.kind not in ("boolean", "timedelta"):
            words = lost * (not gaps) if is_numeric(column) else rare
        found.setdefault(words, []).append(repr(column.original.name) + beside)
    yield from found.items()


def _fate(kind: str, marginal: MarginalTransform, unclear: float) -> tuple[str, str]:
    """Return what a column lost, with the remedy, and what is beside its name."""
    if isinstance(own := marginal.domain, NumericDomain):
        words = "the range of {} is a guess, beyond which values are clipped (state it:"
        words = f"{words} {_BOUNDS[kind]}), also codes that are far off (special=[...])"
        return words if own.guessed else _of_few(marginal, own, unclear), ""
    n, rare = len(own.categories), own.other > RARE
    beside = f" ({n} kept, about {100 * own.other:.0f} % of its rows have others)"
    if n == 0 and (rare or not own.nullable):
        # Where any value of a hundredth of the rows would have been found.
        many = _TEXTS if own.other > 1.0 - RARE else "declare Categorical([...])"
        return (
            "no category of {} was frequent enough to be released, and their synthetic"
            f" values are missing ({many}; convert times of day, durations and numbers"
            " that are texts)"
        ), ""
    if n == 0 or not rare:
        return "", ""
    if all(re.fullmatch(CLOCK, str(category)) for category in own.categories):
        return (
            "times of day or durations are texts in {}, so that only frequent ones are"
            f" drawn (convert them by {OF_CLOCKS})"
        ), beside
    text = "; free text is Text()" if own.other > 0.5 else ""
    return (
        "rare categories are drawn as the ones that were found, in {} (group them, or"
        f" declare Categorical([...]){text})"
    ), beside


def _of_few(marginal: MarginalTransform, own: NumericDomain, unclear: float) -> str:
    """Return what is poor about numbers of few rows; smaller shares are `unclear`."""
    present, shares = 1.0 - marginal.missing, dict.fromkeys(own.own, 0.0)
    shares |= {value: above - below for value, below, above in marginal.jumps()}
    rare = [share for value, share in shares.items() if value.code > MISSING]
    few = present * min(rare, default=1.0) <= unclear > FEW
    # Of 3,000 rows x 9 columns with 10 noise deviations of amounts half of the fits had
    # a mean that was wrong by a quarter, with 20 one of 30 (epsilon 1).
    few |= present * (1.0 - sum(shares.values())) < min(QUARTER, SURE * unclear)
    if few:
        words = "few rows of {} have amounts or special values, hardly clear of the"
        return (
            f"{words} noise, so these may be wrong (use fewer columns, tighter bounds)"
        )
    values, _ = replace(marginal, missing=0.0).decode(np.arange(RARE, 1.0, RARE))
    usual = values[own.codes(values) <= MISSING]
    sizes = np.sort(np.abs(usual - np.median(usual))) if len(usual) else usual
    n = np.arange(3, len(sizes) // 2)  # hundredths; two more may be between
    gap, others = sizes[-n] - sizes[-n - 3], sizes[-n - 3]
    narrow = sizes[-1:] - sizes[-n] < 2 * gap
    # Of lognormal tails with deviation 3 others reach to .6 of a gap.
    if not (narrow & (others < LITTLE * gap) & (others > 0)).any():
        return ""
    words = "some rows of {} are far from all others, as codes are, and may come back"
    return f"{words} as other numbers (list codes: special=[...], or na_values)"


def _as_codes(marginal: MarginalTransform, n_rows: float) -> str:
    """Return what evenly spread whole numbers may be: as many as rows, or more."""
    values, _ = marginal.decode(np.linspace(0.05, 0.95, 10))
    gaps, width = np.diff(values), float(values[-1] - values[0])
    # Ages may number fewer rows than there are cells, and be as even.
    even = 2 * width > max(n_rows, N_CELLS) and gaps.max() < 2 * gaps.min()
    if marginal.domain.nullable or not even:
        return ""
    if abs(width / 0.9 - n_rows) <= QUARTER * n_rows:
        return "{} may number the rows (describe it as Identifier())"
    return (
        "the whole numbers of {} are evenly spread as codes are, but drawn as amounts"
        " (list codes by Categorical([...]))"
    )
