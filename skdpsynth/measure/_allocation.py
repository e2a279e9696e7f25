"""How the budget of a fit is allocated, from public numbers alone.

`fit` allocates for the table that it has, `plan` for one that nobody has seen.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.measure._discovery import (
    RANGES_FROM,
    count_noise_std,
    discovery_mu_share,
    label_thresholds,
    public_labels,
    range_noise_std,
    threshold_delta,
    undeclared_columns,
)
from skdpsynth.measure._marginals import bins_for, coarse_share, fine_plan
from skdpsynth.measure._remarks import NO_DEPENDENCE, RARE_FROM
from skdpsynth.measure._shares import (
    CATEGORIES_SHARE,
    CLASS_SHARE,
    PAIRS_SHARE,
    RANGES_SHARE,
    TRIPLES_SHARE,
)
from skdpsynth.measure._tables import (
    CHOSEN_BELOW,
    all_pairs,
    bins_of_pairs,
    borrowers,
    few_rows,
    moments_share,
    most_bins,
    pair_noise_std,
    pairs_affordable,
    pairs_best,
    pairs_serve,
    planned_tables,
    triple_groups,
)
from skdpsynth.privacy import grid_noise_std, key_threshold, scope_words
from skdpsynth.schema import Boolean, Continuous, Datetime, is_object, known_kind
from skdpsynth.table import (
    CategoryDomain,
    ColumnLayout,
    NumericDomain,
    TableLayout,
    check_schema,
    declared_domain,
    is_continuous,
    modelled_columns,
    rounded,
)
from skdpsynth.utils.containers import dtypes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.schema import Column, TableSchema
    from skdpsynth.table import ColumnDomain, Metadata


# What is measured of a table beside its marginals: tables of pairs (and of triples,
# where they are affordable), second moments, nothing; or not even the marginals.
Form = Literal["pairs", "moments", "marginals", "random"]

_LOG = logging.getLogger("skdpsynth")
_SIGNAL_FROM = 1.0


@dataclass(frozen=True)
class ClassPlan:
    """What is measured of one class, and released while it trains.

    Parameters
    ----------
    label : hashable
        The class; None for all rows.
    n_rows : float
        Rows the plan counts on.
    mu_marginals : float
        Gaussian-DP parameter of its marginals; 0 if none are measured.
    noise_std : float
        Noise of one count of the second round of the marginals, in rows.
    mu_pairs, mu_triples, mu_moments : float
        Gaussian-DP parameters of its tables of two and of three columns, and of second
        moments; 0 if they are not measured.
    few_rows : bool
        Whether the pairs are chosen, since even the largest class has few rows.
    borrows : bool
        Whether it takes the dependence of a larger class.
    n_tables, n_table_cells : int
        Its tables of two columns, and the cells of all of them. In a wide table some
        pairs are chosen, and these are the most that the plan counts on.
    table_noise_std : float
        Noise of one count of a table of two columns, in rows.
    n_groups : int
        Groups of a column's bins in tables of three columns; 0 if none are measured.
    n_bins : int
        Bins of a numeric column in that round.
    n_teachers, n_iter : int
        Teachers, and steps they advise; 0 if the class does not train.
    n_queries : int
        Releases of one step.
    mu_step : float
        Gaussian-DP parameter of one step.
    step_noise_std : float
        Noise of one released number of a step: in clipping norms, or in votes.
    sampling_rate : float
        Probability of each row to be in a step; 0 where rows are not sampled.
    most_levels : int
        Categories of the column that has most.
    """

    label: Hashable
    n_rows: float
    mu_marginals: float
    noise_std: float
    n_bins: int
    n_teachers: int = 0
    n_iter: int = 0
    n_queries: int = 1
    mu_step: float = 0.0
    step_noise_std: float = 0.0
    sampling_rate: float = 0.0
    most_levels: int = 0
    mu_pairs: float = 0.0
    n_tables: int = 0
    n_table_cells: int = 0
    table_noise_std: float = 0.0
    mu_triples: float = 0.0
    n_groups: int = 0
    mu_moments: float = 0.0
    few_rows: bool = False
    borrows: bool = False

    @property
    def signal_to_noise(self) -> float:
        """Expected count of a bin of the marginals over its noise."""
        if self.noise_std == 0:
            return math.inf
        return self.n_rows / (self.n_bins * self.noise_std)

    @property
    def dependence(self) -> Literal["kept", "weak", "borrowed", "lost"]:
        """What is expected to be learnt of how columns depend on each other.

        By the rows over the noise of a table: "kept" from 200 noise deviations on,
        "weak" below, where pairs are chosen, or where second moments or training alone
        learn it; "borrowed" from a larger class; else "lost".
        """
        if self.mu_pairs:
            clear = self.n_rows >= CHOSEN_BELOW * self.table_noise_std
            return "kept" if clear and not self.few_rows else "weak"
        if self.mu_moments or self.n_iter:
            return "weak"
        return "borrowed" if self.borrows else "lost"

    @property
    def note(self) -> str:
        """What to expect, where it is little."""
        mostly_noise = "too few rows for the budget: mostly noise"
        if self.mu_marginals == 0:  # it starts from nothing
            if self.n_iter == 0:
                return "too small a budget for one step: nothing is learnt"
            signal = max(self.n_teachers, self.n_rows * self.sampling_rate)
            return mostly_noise if self.step_noise_std > signal else ""
        if self.signal_to_noise < _SIGNAL_FROM:
            return mostly_noise
        if self.most_levels * self.noise_std > self.n_rows / _SIGNAL_FROM:
            return "too many categories for the budget: rare ones are mostly noise"
        return ""


def measured_form(
    labels: Sequence[Hashable], n_rows: Sequence[float], n_columns: int, mu: float
) -> Form:
    """Choose what is measured of a table, each of whose classes has `mu` in all.

    Tables of pairs where all classes are served. Else second moments, if those of all
    classes are above the noise: what is known of some classes alone would be a mark of
    these. Moments are also better for few rows without classes.
    """
    pairs = pairs_serve(n_rows, n_columns, mu)
    alone = tuple(labels) == (None,) and not pairs_best(n_rows[0], n_columns, mu)
    if pairs and not alone:
        return "pairs"
    if all(moments_share(n, n_columns, mu) for n in n_rows):
        return "moments"
    return "pairs" if pairs else "marginals"


def plan_start(
    label: Hashable,
    n_rows: float,
    n_continuous: int,
    n_discrete: int,
    mu: float,
    *,
    largest: float | None = None,
    form: Form = "marginals",
    order: int = 3,
) -> ClassPlan:
    """Plan the measurements of one class.

    Parameters
    ----------
    label : hashable
        The class.
    n_rows : float
        Its declared or noisy count.
    n_continuous, n_discrete : int
        Numbers of numeric columns whose rows must be found first, and of all others.
    mu : float
        Gaussian-DP parameter of all its measurements.
    largest : float, optional
        Rows of the largest class; by default it is this one.
    form : {"marginals", "pairs", "moments", "random"}, default="marginals"
        What is measured beside marginals, if the class can afford it; "random" measures
        nothing.
    order : int, default=3
        Columns of a table at most.

    Returns
    -------
    ClassPlan
        Without training; its noise is for columns of many cells: see `with_cells`.
    """
    if form == "random":
        return ClassPlan(label, n_rows, 0.0, 0.0, 1)
    largest = n_rows if largest is None else largest
    n_columns = n_continuous + n_discrete
    mu_pairs = mu_triples = mu_moments = 0.0
    n_groups, few = 0, False
    if form == "moments" and (share := moments_share(n_rows, n_columns, mu)):
        mu_moments, mu = mu * math.sqrt(share), mu * math.sqrt(1.0 - share)
    if form == "pairs":
        of_triples = mu * math.sqrt(TRIPLES_SHARE)
        n_groups = triple_groups(n_rows, n_columns, of_triples) if order >= 3 else 0
        left = mu * math.sqrt(1.0 - TRIPLES_SHARE) if n_groups else mu
        few = few_rows(largest, n_columns, left * math.sqrt(PAIRS_SHARE))
        paired = left * math.sqrt(PAIRS_SHARE)
        if pairs_affordable(n_rows, n_columns, paired, few=few):
            mu_pairs, mu = left * math.sqrt(PAIRS_SHARE), left
            mu *= math.sqrt(1.0 - PAIRS_SHARE)
            mu_triples = of_triples if n_groups else 0.0
        else:  # it has all for its marginals
            n_groups = 0
    fine = math.sqrt(1.0 - coarse_share(largest, n_continuous, n_discrete, mu))
    noise_std = grid_noise_std(mu * fine, math.sqrt(n_columns))
    return ClassPlan(
        label,
        n_rows,
        mu,
        noise_std,
        bins_for(n_rows, noise_std, coarse=False),
        mu_pairs=mu_pairs,
        mu_triples=mu_triples,
        n_groups=n_groups,
        few_rows=few,
        mu_moments=mu_moments,
    )


def plan_facts(
    plan_classes: Callable[..., list[ClassPlan]],
    metadata: Metadata,
    accountant: PrivacyAccountant,
) -> list[ClassPlan]:
    """Plan every class of a table by the algorithm, with what was released."""
    classes = metadata.classes
    n_continuous = sum(map(is_continuous, metadata.domains))
    n_discrete = len(metadata.domains) - n_continuous
    # What is left is the same for all classes until one of them is measured.
    mu = accountant.remaining_mu(classes.scopes[0]) * (1 - 1e-9)
    plans = plan_classes(classes.scopes, classes.planned, n_continuous, n_discrete, mu)
    measured = metadata.layout.measured
    plans = with_cells(plans, metadata.domains, classes.noise_std, measured=measured)
    for plan in plans:
        _LOG.info(
            "Plan of %s: about %g rows, %d bins, %d tables of 2 columns, "
            "%d groups of 3 columns, %d steps, %d teachers",
            scope_words(plan.label),
            *(plan.n_rows, plan.n_bins, plan.n_tables, plan.n_groups),
            *(plan.n_iter, plan.n_teachers),
        )
    return plans


def with_cells(
    plans: list[ClassPlan],
    domains: Sequence[ColumnDomain | None],
    count_std: float,
    *,
    measured: bool = False,
) -> list[ClassPlan]:
    """Complete plans by the noise of marginals with the cells that domains say.

    A domain is None for levels that are not known yet; `count_std` is the noise of the
    known class counts, `measured` whether the target is a number.
    """
    most = max(
        len(a.categories) if isinstance(a, CategoryDomain) else 0 for a in domains
    )
    n_continuous = sum(map(is_continuous, domains))
    largest = max(plan.n_rows for plan in plans)
    bins_of_tables = table_bins(plans, len(domains), measured=measured)
    found = []
    for plan in plans:
        mu, n_bins, noise_std = plan.mu_marginals, plan.n_bins, plan.noise_std
        if mu > 0:
            share = coarse_share(largest, n_continuous, len(domains) - n_continuous, mu)
            fine = mu * math.sqrt(1.0 - share)
            n_bins, _, noise_std = fine_plan(domains, plan.n_rows, fine, count_std)
        plan = replace(plan, most_levels=most, n_bins=n_bins, noise_std=noise_std)
        found.append(_with_tables(plan, domains, bins_of_tables))
    known = [bool(plan.mu_pairs or plan.mu_moments or plan.n_iter) for plan in found]
    lent = borrowers(known, [plan.n_rows for plan in found])
    return [replace(plan, borrows=c in lent) for c, plan in enumerate(found)]


def table_bins(
    plans: Sequence[ClassPlan], n_columns: int, *, measured: bool = False
) -> int:
    """Choose the bins of a column: those that the class with least noise fills."""
    rows = [
        plan.n_rows
        / max(pair_noise_std(n_columns, plan.mu_pairs, few=plan.few_rows), 1.0)
        for plan in plans
        if plan.mu_pairs
    ]
    return bins_of_pairs(max(rows, default=1.0), n_columns, measured=measured)


def _with_tables(
    plan: ClassPlan, domains: Sequence[ColumnDomain | None], n_bins: int
) -> ClassPlan:
    if not plan.mu_pairs:
        return plan
    n_columns = len(domains)
    n_tables = planned_tables(n_columns, few=plan.few_rows)
    sizes = [most_bins(domain, n_bins) for domain in domains]
    cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    noise_std = pair_noise_std(n_columns, plan.mu_pairs, few=plan.few_rows)
    return replace(
        plan,
        n_tables=n_tables,
        n_table_cells=cells * n_tables // all_pairs(n_columns),
        table_noise_std=noise_std,
    )


# Stands for a range that must be bought: a numeric column of as many cells as any.
_ANY_RANGE = NumericDomain(-1.0, 1.0, log=False, integer=False, nullable=True)
_EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0)  # that may be enough


NO_STEPS = (
    "No adversarial steps were run: the generator is fitted to the measurements alone. "
    "Set n_iter to run the loop of the paper after them."
)


@dataclass(frozen=True)
class Guess:
    """A table that nobody has looked at; its only label is None without a target."""

    layout: TableLayout
    schema: TableSchema | None
    labels: tuple[Hashable, ...]
    counts: np.ndarray  # rows of each class


def guessed_layout(
    dtypes: Mapping[Hashable, Any] | pd.Series | None,
    schema: TableSchema | None,
    target: Hashable,
    last: TableLayout | None = None,
) -> TableLayout:
    """Lay out a table: by its dtypes, as the last one, or by a schema alone.

    An object column counts as text, unless the schema says Boolean.
    """
    described = {} if schema is None else schema.columns
    if dtypes is not None:
        dtypes = dtypes_of(dtypes)
        layout = TableLayout.of(_read_dtypes(dtypes, described), target, schema)
        if target is not None and target not in dtypes:
            msg = f"The target {target!r} is not in dtypes. Give those of all columns."
            raise InvalidSchemaError(msg)
    elif last is not None:
        layout = last
    elif schema is not None:
        columns = [_layout_of(name, column) for name, column in described.items()]
        if target is not None and target not in described:
            columns.append(ColumnLayout(target, None, "categorical", True))
        return TableLayout.of(tuple(columns), target, schema)
    else:
        raise InvalidSchemaError(
            "plan needs to know the columns. Give dtypes=df.dtypes (names and dtypes "
            "are public), or schema=TableSchema(...) in the constructor or here."
        )
    if schema is not None:
        check_schema(schema, layout)
    return layout


def guess_table(
    layout: TableLayout,
    schema: TableSchema | None,
    n_rows: int | None,
    class_counts: Mapping[Hashable, int] | None,
    known_labels: tuple[Hashable, ...] = (),
) -> Guess:
    """Complete a guess by the schema: which classes, and how many rows has each.

    `known_labels` are what an earlier fit found, used where the labels are not public.
    """
    if class_counts is not None and not isinstance(class_counts, Mapping):
        raise ValueError(
            "class_counts must be a dict from class to count. Got "
            f"{type(class_counts).__name__} instead."
        )
    if layout.measured and class_counts is not None:
        raise ValueError(
            f"The target {layout.target!r} is a number and has no classes. Leave out "
            "class_counts, and give n_rows."
        )
    if layout.target is None and class_counts is not None:  # for fit(X, y)
        layout = _with_labels(layout, tuple(class_counts))
    target = layout.label_column
    labels: tuple[Hashable, ...] = (None,)
    if target is not None:
        public = public_labels(target, schema)
        if public is not None:  # no category: nothing but missing values
            labels = public or (None,)
        else:
            labels = tuple(class_counts or known_labels)
            layout = _with_labels(layout, labels)
            target = layout.label_column
            if labels and target is not None:
                labels = _likely_labels(target, labels)
            if class_counts is not None:  # a usual label that was left out is empty
                class_counts = dict.fromkeys(set(labels) & {0, 1}, 0) | {**class_counts}
        if not labels:
            raise InvalidSchemaError(
                f"plan needs to know the classes of the target {layout.target!r}. Give "
                "class_counts={label: rows, ...}, or describe it in the schema."
            )
    declared = None if schema is None else schema.class_counts
    if class_counts is None and declared:
        class_counts = declared
    if n_rows is None and class_counts is not None:
        n_rows = sum(class_counts.values())
    if n_rows is None and schema is not None:
        n_rows = schema.n_rows
    if n_rows is None:
        raise ValueError(
            "plan needs a guess of the number of rows. Give n_rows=..., or "
            "class_counts={label: rows, ...}."
        )
    n_rows = _checked_guess("n_rows", n_rows, least=1)
    if schema is not None and schema.n_rows not in (None, n_rows):
        raise ValueError(
            f"n_rows is {n_rows}, but the schema declares {schema.n_rows}. Leave out "
            "n_rows, or plan with a schema that does not declare it."
        )
    if class_counts is None:
        counts = np.full(len(labels), n_rows / len(labels))
        return Guess(layout, schema, labels, counts)
    missing = target is not None and target.can_be_missing
    _check_class_counts(class_counts, labels, n_rows, missing=missing)
    if declared and dict(class_counts) != dict(declared):
        raise ValueError(
            "class_counts differ from those that the schema declares, which a fit "
            "would use. Leave them out, or plan with a schema without class_counts."
        )
    counts = np.array([float(class_counts[label]) for label in labels])
    return Guess(layout, schema, labels, counts)


def plan_table(
    plan_classes: Callable[..., list[ClassPlan]],
    accountant_of: Callable[[float], PrivacyAccountant],
    epsilon: float,
    guess: Guess,
    *,
    dependent: bool,
    adversarial: bool,
) -> pd.DataFrame:
    """Plan every class of a guessed table; the accountant has the whole budget."""
    found = _planned(plan_classes, accountant_of(epsilon), guess)
    needed = np.full(len(found.plans), math.nan)
    for other in _EPSILONS:  # the largest cost most time, where the noise is given
        at = _planned(plan_classes, accountant_of(other), guess)
        clean = np.array([not note for note in at.notes])
        needed[clean & np.isnan(needed)] = other
        if clean.all():
            break
    plans, of_all = found.plans, _notes_of_all(guess, found.domains)
    dependent = dependent and len(found.domains) > 1
    of_each = [
        NO_DEPENDENCE if dependent and plan.dependence == "lost" else ""
        for plan in plans
    ]
    notes = [
        "; ".join(filter(None, (*both, *of_all)))
        for both in zip(found.notes, of_each, strict=True)
    ]
    return pd.DataFrame(
        {
            "class": [plan.label for plan in plans],
            "rows": [int(plan.n_rows) for plan in plans],
            "bins": [plan.n_bins for plan in plans],
            "noise_std": [plan.noise_std for plan in plans],
            "tables": [plan.n_tables for plan in plans],
            "table_cells": [plan.n_table_cells for plan in plans],
            "table_noise_std": [plan.table_noise_std for plan in plans],
            "signal_to_noise": [plan.signal_to_noise for plan in plans],
            "dependence": [plan.dependence if dependent else "" for plan in plans],
            "n_teachers": [plan.n_teachers for plan in plans],
            "n_iter": [plan.n_iter for plan in plans],
            "training": [_training(plan, adversarial=adversarial) for plan in plans],
            "step_noise_std": [plan.step_noise_std for plan in plans],
            "label_threshold": found.labels_from,
            "category_threshold": found.categories_from,
            "epsilon_needed": needed,
            "note": notes,
        }
    )


def _training(plan: ClassPlan, *, adversarial: bool) -> str:
    """Say in words what is trained after the measurements."""
    if plan.mu_marginals == 0 and plan.n_iter == 0:
        return "nothing is measured or trained"
    if not adversarial:
        return "fitted to the measurements"
    if plan.n_iter == 0:
        return "fitted to the measurements; no adversarial steps"
    return f"{plan.n_iter} adversarial steps"


@dataclass(frozen=True)
class _Planned:
    """What a budget buys of a guessed table."""

    plans: list[ClassPlan]
    domains: list[ColumnDomain | None]
    labels_from: NDArray[np.float64]
    categories_from: int
    notes: list[str]  # of each class, on what a larger epsilon would mend


def _planned(
    plan_classes: Callable[..., list[ClassPlan]],
    accountant: PrivacyAccountant,
    guess: Guess,
) -> _Planned:
    layout, schema = guess.layout, guess.schema
    columns = modelled_columns(layout, schema)
    cap = accountant.mu_cap  # it may be infinite
    mu = cap * math.sqrt(1.0 - discovery_mu_share(layout, schema))
    domains = [declared_domain(column, schema) for column in columns]
    keyed, numeric = undeclared_columns(layout, schema)
    pairs = zip(columns, domains, strict=True)
    # A range that must be bought may turn out to be narrow; that is not known yet.
    likely = [_ANY_RANGE if column in numeric else domain for column, domain in pairs]
    n_continuous = sum(map(is_continuous, likely))
    n_discrete = len(columns) - n_continuous
    counts = rounded(guess.counts)
    plans = plan_classes(guess.labels, counts, n_continuous, n_discrete, mu)
    target, mu_labels = layout.label_column, cap * math.sqrt(CLASS_SHARE)
    count_std = count_noise_std(target, schema, mu_labels)
    plans = with_cells(plans, likely, count_std, measured=layout.measured)
    key_delta = threshold_delta(layout, schema, accountant.delta)
    categories_from = 0
    if keyed:
        noise_std = grid_noise_std(
            cap * math.sqrt(CATEGORIES_SHARE), math.sqrt(len(keyed))
        )
        categories_from = key_threshold(noise_std, key_delta, len(keyed))
    labels_from = np.zeros(len(plans))
    if target is not None and public_labels(target, schema) is None:
        labels_from = label_thresholds(guess.labels, target.kind, mu_labels, key_delta)
    n_rows, of_all = guess.counts.sum(), []
    if categories_from >= n_rows:
        of_all.append("too few rows for any undeclared category to be found")
    elif categories_from > RARE_FROM * n_rows:
        of_all.append(f"undeclared categories of up to {categories_from} rows are lost")
    range_std = range_noise_std(len(numeric), cap * math.sqrt(RANGES_SHARE))
    if numeric and range_std * RANGES_FROM > n_rows:
        of_all.append("too few rows to find undeclared ranges: some are guesses")
    notes = []
    for plan, rows, needed in zip(plans, guess.counts, labels_from, strict=True):
        rare = "too few rows for its label to be found" if 0 < needed >= rows else ""
        notes.append("; ".join(filter(None, (plan.note, rare, *of_all))))
    return _Planned(plans, domains, labels_from, categories_from, notes)


def _notes_of_all(guess: Guess, domains: list[ColumnDomain | None]) -> list[str]:
    """Say what is poor about a table whatever the budget."""
    notes = []
    if guess.layout.label_column is not None and len(guess.labels) == 1:
        notes.append("one class only: a classifier has nothing to learn")
    n_fixed = sum(domain is not None and _is_fixed(domain) for domain in domains)
    if n_fixed:
        notes.append(f"{n_fixed} of {len(domains)} columns can hold one value only")
    return notes


def _is_fixed(domain: ColumnDomain) -> bool:
    """Whether one value (or none) is all that a domain has."""
    if isinstance(domain, NumericDomain):
        return domain.low == domain.high and not domain.nullable
    return len(domain.categories) + domain.nullable <= 1


def _read_dtypes(
    dtypes: object, described: Mapping[Hashable, Column]
) -> tuple[ColumnLayout, ...]:
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
        kind, can_be_missing = known_kind(name, dtype)
        # Objects may be booleans; their dtype does not tell.
        if is_object(dtype) and isinstance(described.get(name), Boolean):
            kind = "boolean"
        columns.append(ColumnLayout(name, dtype, kind, can_be_missing))
    return tuple(columns)


def _layout_of(name: Hashable, column: Column) -> ColumnLayout:
    """Lay out a column that only a schema describes."""
    if isinstance(column, Continuous):
        kind: Any = "integer" if column.integer else "continuous"
    elif isinstance(column, Boolean):
        kind = "boolean"
    else:
        kind = "datetime" if isinstance(column, Datetime) else "categorical"
    return ColumnLayout(name, None, kind, getattr(column, "nullable", True))


def _with_labels(layout: TableLayout, labels: tuple[Hashable, ...]) -> TableLayout:
    """Give a target that no dtype describes the kind that its labels have."""
    kind: Any = "categorical"
    if all(isinstance(label, bool | np.bool_) for label in labels):
        kind = "boolean"
    elif all(isinstance(label, Integral) for label in labels):
        kind = "integer"
    target = layout.label_column
    if target is not None and target.dtype is not None:
        return layout
    name = "target" if target is None else target.name
    others = layout.feature_columns
    return TableLayout((*others, ColumnLayout(name, None, kind, True)), name)


def _likely_labels(
    target: ColumnLayout, labels: tuple[Hashable, ...]
) -> tuple[Hashable, ...]:
    """Give the labels that a fit will find: both usual ones if it finds no other."""
    if target.kind in ("continuous", "timedelta"):
        raise ValueError(
            f"The target {target.name!r} has dtype {target.dtype}, but classes must be "
            "strings, integers or booleans. Cast it, or describe it as Continuous."
        )
    whole = [isinstance(label, Integral) for label in labels]
    missing = [bool(pd.api.types.is_scalar(x) and pd.isna(x)) for x in labels]
    if any(missing) or (target.kind == "integer" and not all(whole)):
        raise ValueError(
            f"class_counts must name labels as the column {target.name!r} holds them, "
            f"which is of {target.kind} kind. Got {list(labels)!r} instead."
        )
    if target.kind == "integer" and set(labels) <= {0, 1}:
        return (0, 1)
    return labels


def _check_class_counts(
    class_counts: Mapping[Hashable, int],
    labels: tuple[Hashable, ...],
    n_rows: int,
    *,
    missing: bool,
) -> None:
    """Refuse counts of other classes, and counts that cannot be those of n_rows."""
    if set(class_counts) != set(labels):
        raise ValueError(
            f"class_counts must name every class once: {list(labels)!r}. Got "
            f"{list(class_counts)!r} instead."
        )
    for count in class_counts.values():
        _checked_guess("Each of class_counts", count, least=0)
    total = sum(class_counts.values())
    if total > n_rows or (total < n_rows and not missing):
        raise ValueError(
            f"class_counts add up to {total}, but n_rows is {n_rows}. Correct one, or "
            "leave out n_rows."
        )


def _checked_guess(name: str, value: object, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an int >= {least}. Got {value!r} instead.")
    return int(value)
