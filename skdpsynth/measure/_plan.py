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
from collections import Counter, defaultdict
from collections.abc import (
    Callable,
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
from skdpsynth.measure._allocation import NO_DEPENDENCE, Allocation, Outline
from skdpsynth.measure._discovery import Discovery, Labels
from skdpsynth.measure._measurements import Measurements
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
    Classes,
    ColumnDomain,
    ColumnLayout,
    MarginalTransform,
    NumericDomain,
    TableLayout,
    check_schema,
    rounded,
)
from skdpsynth.utils import FEW_NUMBERS, MOST_SHOWN
from skdpsynth.utils.containers import dtypes_of
from skdpsynth.utils.dtypes import CLOCK, OF_CLOCKS

_EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0)  # that may be enough
_LARGE_DELTA = 1e-3  # above it delta is too large whatever the number of rows
# What is poor, with its remedy, and the columns whose names "{}" stands for, if any.
_Remarks = dict[str, list[str]]
_NO_PAIRS = (
    "too few rows for tables of two columns: only correlations are measured, and what"
    " goes with each of more than two categories, or is missing together (state it:"
    " MissingTogether([...])), is not learnt"
)
_GUESSES = "too few rows to find undeclared ranges: {} may be guesses"
_NO_CLOCKS = (
    "too few rows to measure times of day well, which come back more evenly spread in"
    " {} (make the hour a column of its own, or state whole days: unit D)"
)
_TEXTS = (
    "codes are Categorical([...]), free text is Text(), what names rows Identifier()"
)
# From this part of the sum the largest numbers, of as many rows as the noise hides,
# decide a mean: it, the largest one or zeros are off (25 %, 3 times, .02) in 7 to 27 %
# of fits to 300 amounts in 3,000 rows x 9 columns, which look as the others do.
_DECIDES = 0.15
# A tail is heavy if it rises by this factor more than an exponential one: at epsilon 1
# all do that are lognormal with deviation 2, and 2 % of exponential ones.
_HEAVY = 1.3
# What states a range, by the kind of a column.
_BOUNDS = {
    **dict.fromkeys(("continuous", "timedelta"), "Continuous(low, high)"),
    "integer": "Continuous(low, high, integer=True)",
    "datetime": "Datetime(low, high)",
}


# --- The table of a plan ---


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
        domains, n_rows = discovery.declared.values(), float(self.counts.sum())

        @cache
        def at(epsilon: float) -> list[dict[str, Any]]:
            return _allocated(allocate, accountant_of(epsilon), self, discovery)

        def enough(c: int, poor: str) -> float:
            """Return an epsilon that mends it; in 779 plans no larger one did less."""
            place = bisect_left(_EPSILONS, True, key=lambda more: not at(more)[c][poor])
            return (*_EPSILONS, math.nan)[place]

        table, accountant = pd.DataFrame(at(epsilon)), accountant_of(epsilon)
        table["epsilon_needed"] = [enough(c, "note") for c in range(len(table))]
        unlearnt = table.pop("unlearnt")
        if not dependent or len(domains) < 2:
            table["dependence"], unlearnt = "", [""] * len(table)
        if not adversarial:
            table["training"] = "fitted to the measurements"
        # Whatever the budget.
        costs, described = discovery.costs(accountant, n_rows), self.schema.columns
        label_from, found_from = costs[Labels].found_from, costs[Categories].found_from
        counts = np.maximum(self.counts, 1.0)
        classes = Classes(self.labels, counts, found_from=label_from)
        gaps = any(c.can_be_missing for c in discovery.declared if is_numeric(c))
        poor = _of_target(self.layout, classes, described)
        if n := sum(map(_is_fixed, domains)):
            poor[f"{n} of {len(domains)} columns can hold one value only"] = []
        if found_from <= LITTLE * n_rows:  # else it is said beside what is mended
            words = _rare_lost(found_from, n_rows, _TEXTS)
            poor[words] = _undeclared(discovery, Categories)
        poor[_lost_amid(costs, n_rows, RARE * gaps)] = _undeclared(discovery, Ranges)
        poor |= _of_dtypes(self.layout, classes, described)
        of_all = [*_texts(poor, sys.maxsize)]
        of_all += weak_claims(epsilon, accountant.delta, n_rows)
        for c, words in enumerate(unlearnt):
            mended = enough(c, "unlearnt") if words else math.nan
            more = "" if math.isnan(mended) else f" (epsilon {mended:g} is enough)"
            parts = [*table.loc[c, "note"], *[words + more] * bool(words), *of_all]
            table.loc[c, "note"] = "; ".join(parts)
        return table


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
    mended: _Remarks = {}
    if categories_from > LITTLE * n_rows:
        words = _rare_lost(categories_from, n_rows, _TEXTS)
        mended[words] = _undeclared(discovery, Categories)
    # At twice as many rows few ranges are guesses: of 9 kinds of columns 2 % (median),
    # 15 % at most; at as many rows up to 78 %, at three times as many 8 %.
    if 2 * costs[Ranges].found_from > n_rows:
        mended[_GUESSES] = _undeclared(discovery, Ranges)
    if not costs[Hours].share:
        mended[_NO_CLOCKS] = _undeclared(discovery, Hours)
    notes = [*_texts(mended, sys.maxsize)]
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
        layout = _with_labels(layout, class_counts)
    labels = Labels(layout.label_column, schema).labels
    if labels is None:
        labels = tuple(class_counts or known_labels)
        layout = _with_labels(layout, labels)
        whole = [column.kind == "integer" for column in [layout.label_column] if column]
        # Of the usual labels a fit finds both, if it finds no other.
        if any(whole) and {*labels} <= {0, 1}:
            labels = (0, 1)
            class_counts = class_counts and {0: 0, 1: 0, **class_counts}
    labels, declared, stated = labels or (None,), schema.class_counts, schema.n_rows
    counts = (declared or None) if class_counts is None else class_counts
    if n_rows is None:
        n_rows = stated if counts is None else sum(counts.values())
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
    if counts is None:
        rows = np.full(len(labels), n_rows / len(labels))
        return Guess(layout, schema, labels, rows, known)
    if {*counts} != {*labels}:
        raise ValueError(
            f"class_counts must name every class once: {list(labels)!r}. Got "
            f"{list(counts)!r} instead."
        )
    for count in counts.values():
        _checked_guess("Each of class_counts", count, least=0)
    total, target = sum(counts.values()), layout.label_column
    missing = target is not None and target.can_be_missing
    if total > n_rows or (total < n_rows and not missing):
        raise ValueError(
            f"class_counts add up to {total}, but n_rows is {n_rows}. Correct one,"
            " or leave out n_rows."
        )
    if declared and {**counts} != {**declared}:
        raise ValueError(
            "class_counts differ from those that the schema declares, which a fit "
            "would use. Leave them out, or plan with a schema without class_counts."
        )
    rows = np.array([float(counts[label]) for label in labels])
    return Guess(layout, schema, labels, rows, known)


def _guessed_layout(
    dtypes: Mapping[Hashable, Any] | pd.Series | None,
    schema: TableSchema,
    target: Hashable,
    last: TableLayout | None,
) -> TableLayout:
    """Lay out a table by dtypes (objects: texts), as the last one, or by a schema."""
    named = {name for rule in schema.rules for name in rule.names}
    if dtypes is not None:
        columns = _read_dtypes(dtypes_of(dtypes), schema)
        if target is not None and target not in {column.name for column in columns}:
            msg = f"The target {target!r} is not in dtypes. Give those of all columns."
            raise InvalidSchemaError(msg)
        layout = TableLayout.of(tuple(columns), target, schema)
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


def _read_dtypes(dtypes: object, schema: TableSchema) -> list[ColumnLayout]:
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
    return columns


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
    can_be_missing = getattr(column, "nullable", None) is not False
    return ColumnLayout(name, None, kind, can_be_missing)


def _with_labels(layout: TableLayout, given: Iterable[Hashable]) -> TableLayout:
    """Return a layout whose target has these labels, of their kind without a dtype."""
    target, labels = layout.label_column, [*given]
    if not labels:
        raise InvalidSchemaError(
            f"plan needs to know the classes of the target {layout.target!r}. Give "
            "class_counts={label: rows, ...}, or describe it in the schema: a "
            "measurement as Continuous(low, high)."
        )
    if target is None or target.dtype is None:
        kind: Any = pd.api.types.infer_dtype(labels, skipna=False)
        kind = kind if kind in ("boolean", "integer") else "categorical"
        name = "target" if target is None else target.name
        target = ColumnLayout(name, None, kind, True)
        layout = TableLayout((*layout.feature_columns, target), name)
    others = [label for label in labels if not isinstance(label, Integral)]
    missing = any(pd.api.types.is_scalar(x) and pd.isna(x) for x in others)
    if missing or (target.kind == "integer" and others):
        raise ValueError(
            f"class_counts must name labels as the column {target.name!r} holds them, "
            f"which is of {target.kind} kind. Got {labels!r} instead."
        )
    return layout


def _checked_guess(name: str, value: object, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an int >= {least}. Got {value!r} instead.")
    return int(value)


# --- What is poor ---------------------------------------------------------------------


def _of_dtypes(
    layout: TableLayout, classes: Classes, described: Mapping[Hashable, Column]
) -> _Remarks:
    """Return what a dtype says that is not public, or may not be meant."""
    ordered = [c.name for c in layout.columns if c.ordered and c.name not in described]
    words = "the order of the categories of {} is not public, so they come back sorted"
    words += " by name or number (state it: Categorical([...], ordered=True))"
    remarks: _Remarks = {words: [*map(repr, ordered)]}
    column = layout.label_column
    if column is not None and column.kind == "integer" and len(classes) > FEW_NUMBERS:
        words = f"the target {{}} is an integer column, so it has {len(classes)}"
        words += " classes (a measurement is declared by Continuous(low, high,"
        words += " integer=True))"
        remarks[words] = [repr(column.name)] * (column.name not in described)
    return remarks


def _of_target(
    layout: TableLayout, classes: Classes, described: Mapping[Hashable, Column]
) -> _Remarks:
    """Return what is poor about classes, before a fit and after it."""
    remarks: _Remarks = {}
    if (column := layout.label_column) is None:
        return remarks
    remedy = f"declare all of {column.name!r} by Categorical([...])"
    if column.kind == "integer":
        remedy += ", or a measurement by Continuous(low, high, integer=True)"
    total, sure = float(classes.counts.sum()), SURE * float(classes.noise_std[0])
    stated = described.get(column.name)
    complete = not getattr(stated, "nullable", column.can_be_missing)
    # Where labels may be missing, they often are, and that is no fault.
    unexpected = complete or classes.counts.max() <= sure
    if unexpected and classes.unclassed > max(sure, LITTLE * total):
        share = 100 * classes.unclassed / (classes.unclassed + total)
        words = (
            f"about {share:.0f} % of the rows have none of the labels that are known"
        )
        remarks[f"{words} of {{}}, and take no part ({remedy})"] = [repr(column.name)]
    elif classes.found_from > max(RARE * total, 1.0):
        words = f"labels of up to {classes.found_from:.0f} rows are not found, so that"
        words = f"{words} classes may be absent ({remedy}; twice the epsilon finds"
        remarks[f"{words} labels of half the rows)"] = []
    if not classes.labels:
        remarks[f"no label was frequent enough to be released ({remedy})"] = []
    elif len(classes) == 1:
        remarks["the target has one class only, so a classifier learns nothing"] = []
    return remarks


def _undeclared(discovery: Discovery, kind: type[ColumnStep]) -> list[str]:
    """Name the columns that a step is about, but for booleans."""
    (columns,) = (step.columns for step in discovery.column_steps if type(step) is kind)
    known = (c.original for c in columns if c.kind != "boolean")
    return [repr(column.name) for column in known if column is not None]


def _rare_lost(found_from: float, n_rows: float, remedy: str) -> str:
    """Return which categories are not found, if one may have more than one row."""
    words = f"categories and missing values of up to {found_from:.0f} rows are lost in"
    if found_from >= n_rows:
        words = "too few rows for any undeclared category to be found in"
    return f"{words} {{}} ({remedy})" * (found_from > 1)


def _lost_amid(costs: Mapping[type, Cost], n_rows: float, least: float = 0.0) -> str:
    """Return that many codes, and gaps, may be lost; of gaps `least` would be many."""
    most = costs[Ranges].found_from / LIKELY  # SURE noise deviations
    what = "missing values (state nullable=True) and codes" if least else "codes"
    what = f"{what} amid numbers (special=[...])"
    if math.isinf(costs[FrequentValues].found_from):
        what = f"{what} and values of a list, such as prices (Categorical([...])),"
    lost = f"{what} of up to {most:.0f} rows are not seen in {{}}"
    return lost if most > (least or LITTLE) * n_rows else ""


def _unlearnt(plan: Allocation, domains: Sequence[ColumnDomain | None]) -> str:
    """Return what is hardly learnt of how columns depend on each other, or nothing."""
    if plan.dependence == "lost":
        return NO_DEPENDENCE
    several = any(d is None or len(getattr(d, "categories", ())) > 2 for d in domains)
    several |= sum(d is not None and d.nullable for d in domains) > 1
    moments_alone = plan.moments.mu > 0 and plan.pairs.mu == 0
    return _NO_PAIRS if moments_alone and several else ""


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


def _texts(remarks: _Remarks, most: int) -> Iterator[str]:
    """Write remarks, with so many names of columns."""
    for words, names in remarks.items():
        more = f" and {len(names) - most} more" if len(names) > most else ""
        if words and (names or "{}" not in words):
            yield words.replace("{}", ", ".join(names[:most]) + more)


def remarks(
    model: TableModel,
    plans: Sequence[Allocation],
    declared: TableSchema,
    report: PrivacyReport,
    costs: Mapping[type, Cost],
    measurements: Measurements,
    *,
    dependent: bool,
) -> tuple[str, list[str]]:
    """Return the warning of a fit, empty if nothing is poor, and notes for its report.

    `costs` are those of discovery; `dependent` tells whether the synthesizer learns how
    columns depend on each other.
    """
    metadata, counts = model.metadata, model.metadata.classes.counts
    n_rows, columns, described = float(counts.sum()), metadata.columns, declared.columns
    layout, found_from = metadata.layout, costs[Categories].found_from
    clocks, place = Hours({}, TableSchema({})), int(counts.argmax())
    unclear = LIKELY * plans[place].marginals.noise_std / counts[place]
    rare = _rare_lost(found_from, math.inf, "declare Categorical([...])")
    rare *= found_from > FEW * n_rows
    noise = {e.name: e.noise_std for e in report.entries}.get(Hours.name, math.inf)
    notes = [*map(": ".join, weak_claims(report.epsilon, report.delta, n_rows).items())]
    # A target of numbers that nobody declared.
    measured = layout.target_column if layout.measured else None
    measured = None if layout.target in described else measured
    if measured is not None:
        words = f"The target {layout.target!r} is modelled as a measurement"
        notes.append(f"{words}, so it has no classes.")
    of_table = _of_target(layout, metadata.classes, described)
    if report.private:
        little = Counter(chain.from_iterable(plan.notes for plan in plans)).items()
        of_table |= {f"{n} of {len(plans)} classes have {w}": [] for w, n in little}
        unlearnt = {_unlearnt(plan, metadata.domains) for plan in plans}
        if dependent and all(unlearnt) and len(columns) > 1:
            of_table |= {f"all classes have {words}": [] for words in unlearnt}

    for a, b in measurements.decided:
        words = f"if each {a!r} has one {b!r}, rare ones come back with a wrong one"
        of_table[f"{words} (state it: Determines({a!r}, {b!r}, {{...}}))"] = []

    def said(most: int, least: float) -> str:
        """Name so many columns of a remark, and gaps in so many rows."""
        poor: defaultdict[str, list[str]] = defaultdict(list)
        for column, own in zip(columns, model.marginals[place], strict=True):
            stated = getattr(declared.kinds.get(column.needs[-1]), "nullable", None)
            gaps = column.can_be_missing and stated is None and not own.domain.nullable
            lost = _lost_amid(costs, n_rows, least * gaps)
            if gaps and is_numeric(column):
                poor[lost].append(repr(column.needs[-1]))
            if column.original is None:  # it stands for whether others are missing
                continue
            name, kind = repr(column.original.name), column.kind
            if clocks.concerns(column, own.domain) and n_rows < 24 * SURE * noise:
                poor[_NO_CLOCKS].append(name)
            if column.original is measured:
                poor[_of_measured(kind, own.domain)].append(name)
            words, beside = _fate(kind, own, unclear)
            undeclared = column.original is column and column.name not in described
            whole = undeclared and kind == "integer" and column is not measured
            if not words and whole:
                words = _as_codes(own, n_rows)
            if not words and undeclared and kind not in ("boolean", "timedelta"):
                words = lost * (not gaps) if is_numeric(column) else rare
            poor[words].append(name + beside)
        poor |= _of_dtypes(layout, metadata.classes, described)
        parts = "; ".join(_texts(of_table | poor, most))
        return (
            f"Parts of the result are poor: {parts}. Use a larger epsilon, declare more"
            " in a schema, or leave out columns; plan() shows the numbers."
        ) * bool(parts)

    return said(MOST_SHOWN, FEW), [*notes, *filter(None, [said(sys.maxsize, RARE)])]


def _of_measured(kind: str, own: Any) -> str:  # noqa: ANN401 - a domain of numbers
    """Return what may be wrong if a target that nobody declared is a measurement."""
    words = "the target {} is"
    if kind == "integer":
        return (
            f"{words} modelled as a measurement, since most of its rows have labels of"
            " few rows (declare Continuous(low, high, integer=True), or its classes by"
            " Categorical([...]))"
        )
    few = own.integer and own.decimals <= 0 and not has_many_numbers(own)
    return (
        f"{words} a float column, so it is modelled as a measurement, but it has a few"
        " whole numbers only (cast classes by astype(int) or astype('Int64'))"
    ) * (few and kind == "continuous")


def _fate(kind: str, marginal: MarginalTransform, unclear: float) -> tuple[str, str]:
    """Return what a column lost, with the remedy, and what is beside its name."""
    if isinstance(own := marginal.domain, NumericDomain):
        words = "the range of {} is a guess, beyond which values are clipped (state it:"
        words = f"{words} {_BOUNDS[kind]}), also codes that are far off (special=[...])"
        words = words if own.guessed else _of_few(marginal, own, unclear)
        if words or kind == "datetime" or not has_many_numbers(own):
            return words, ""
        if words := _of_list(marginal, own):
            return words, ""
        return _of_largest(marginal, own, unclear)
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


def _of_list(marginal: MarginalTransform, own: NumericDomain) -> str:
    """Return that some numbers come between frequent ones, which are far apart."""
    listed = np.array([value for value, _ in own.frequent])
    apart = len(listed) and np.ptp(listed) > FEW_NUMBERS * len(listed)
    if not (own.integer and apart):
        return ""
    values, _ = replace(marginal, missing=0.0).decode(np.arange(RARE**2, 1.0, RARE**2))
    steps = own.whole_steps(values[own.codes(values) == 0])
    between = float(1.0 - np.isin(steps, listed).mean())
    words = "{} has a few values, such as prices, and others between them come back"
    return f"{words} (Categorical([...]))" * (2 * RARE < between < QUARTER)


def _of_largest(
    marginal: MarginalTransform, own: NumericDomain, unclear: float
) -> tuple[str, str]:
    """Return that the noise hides numbers that decide a mean or are a heavy tail."""
    ranks = np.arange(RARE**2, 1.0, RARE**2)
    values, _ = replace(marginal, missing=0.0).decode(ranks)
    sizes = np.sort(np.abs(values[own.codes(values) == 0]))
    amounts = (1.0 - marginal.missing) * len(sizes) / len(ranks)
    if not 0.0 < unclear < amounts:  # fewer are named by `_of_few`
        return "", ""
    shares = np.minimum(np.array([16.0, 1.0]) * unclear / amounts, 1.0 - RARE)
    enough = 16.0 * unclear < amounts  # of fewer rows no tail is told from noise
    start = np.quantile(sizes, 1.0 - shares[1])
    decide = amounts < QUARTER and sizes[sizes >= start].sum() > _DECIDES * sizes.sum()
    near, far = np.quantile(sizes - sizes[0], 1.0 - shares) / -np.log(shares)
    words = "the largest values of {} are hardly clear of the noise, so these and the"
    words = f"{words} mean may be wrong (a larger epsilon or fewer columns help)"
    told = decide or (enough and 0.0 < _HEAVY * near < far)
    return (words, f" (from about {start:.3g} on)") if told else ("", "")


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
