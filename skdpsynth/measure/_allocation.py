"""How the budget of a fit is allocated, from public numbers alone.

The kinds of releases are the rows of a table (`KINDS`): each has a share of what those
above leave, if that is worth it, and the last one the rest. `fit` allocates for the
table that it has, `plan` for one that is guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from skdpsynth.measure._bins import most_bins
from skdpsynth.measure._marginals import coarse_share, fine_plan
from skdpsynth.measure._measurements import Measurements
from skdpsynth.measure._query import CLIP
from skdpsynth.measure._shares import (
    BESIDE_SHARE,
    CLEAR_FROM,
    COARSE_BINS,
    FEW,
    FEW_TABLES,
    MOMENTS_SHARES,
    MOST_TABLES,
    PAIRS_SHARE,
    QUARTER,
    ROWS_FROM,
    SMALL_SHARE,
    TINY,
    TOGETHER_SHARES,
    TRIPLE_COLUMNS,
    WIDE,
)
from skdpsynth.privacy import UNLABELLED, read_plain, to_plain
from skdpsynth.schema import encode_value
from skdpsynth.table import ColumnDomain, Metadata, is_continuous, is_number
from skdpsynth.utils import require

# Of all columns together, by their number. What a fit costs grows with the square; a
# wide table is learnt better by more components of fewer bins.
_MOST_BINS = (15, 20), (500, 330)

_MOST_GROUPS = 6  # of a column: with 14 a fit of 400,000 x 7 took 31 s, not 25
_ALL_GROUPS = 84  # of all columns together in tables of three: bounds time
_PER_CELL = 12.0  # rows of a mean cell of three columns, in noise deviations

MOMENT_COLUMNS = range(2, 2001)  # of tables whose moments are measured: bounds memory
# Rows over the noise, from which moments are measured: 0.5 times what a factor with
# 0.12 of the variance needs. Real ones are stronger: with 0.5 instead of 1 the errors
# of tables of three columns fell on Epileptic seizure (178 columns; epsilon 1: 0.39 to
# 0.37) and breast cancer (30; epsilon 3: 0.86 to 0.84); with 0.2 those of breast cancer
# rose at epsilon 1. They are enough at ROWS_FROM times this: with a fifth more the
# 2-way distance of Epileptic seizure rose by .001 (epsilon 3).
_ABOVE_NOISE = 0.5 / 0.12

NO_DEPENDENCE = "too few rows to learn how columns depend on each other"


@dataclass(frozen=True)
class Spend:
    """What one kind of release of a class may spend."""

    mu: float = 0.0  # of all these releases together; 0 if none is made
    # Of one released number: of counts in rows, of second moments that of a covariance
    # of normal scores, whose variance is 1.
    noise_std: float = 0.0


_NOTHING = Spend()


@dataclass(frozen=True)
class Training:
    """The releases of a class while its generator is trained."""

    n_iter: int  # adversarial steps, at least 1
    mu_step: float  # Gaussian-DP parameter of one of them
    noise_std: float  # of one released number: in clipping norms, or in votes
    n_queries: int = 1  # releases of one step
    n_teachers: int = 0  # 0 for a discriminator trained by DP-SGD
    sampling_rate: float = 0.0  # of each row in a step; 0 where rows are not sampled
    # Of PATE-TripleGAN's classifier, all steps together; 0 if the class takes no part.
    mu_classifier: float = 0.0

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of all steps together."""
        return math.sqrt(self.n_iter) * self.mu_step


@dataclass(frozen=True)
class Allocation:
    """What one class may spend on each kind of release, and what is expected of it.

    A pure function of public numbers (`allocate`). `fit`, `plan`, warnings, the report
    and the model card all read this one, and a saved file has it.

    Parameters
    ----------
    label : hashable
        The class; None for all rows.
    n_rows : float
        Rows the allocation counts on.
    marginals : Spend
        Of tables of one column; the noise is that of the second round.
    n_bins : int
        Bins of a numeric column in that round.
    pairs, triples, moments : Spend
        Of tables of two and of three columns, and of second moments.
    choice, together, relations : Spend
        What several classes release together, so equal in all: which pairs of columns,
        if they are chosen; tables of two columns; and finer ones of columns of which
        one nearly determines the other. An algorithm's own choice is of each class.
    n_tables, n_table_cells : int
        Tables of two columns, and the cells of all of them; where pairs are chosen,
        the most that are counted on, unless the algorithm says how many.
    n_groups : int
        Groups of a column's bins in tables of three columns; 0 if none are measured.
    few_rows : bool
        Whether the pairs are chosen, since even the largest class has few rows.
    designed : bool
        Whether the tables are those that were measured of another table.
    borrows : bool
        Whether it takes the dependence of a larger class.
    most_categories : int
        Categories of the column that has most.
    training : Training, optional
        What training may release; None if the class is not trained.
    """

    label: Hashable
    n_rows: float
    marginals: Spend = _NOTHING
    n_bins: int = 1
    pairs: Spend = _NOTHING
    triples: Spend = _NOTHING
    moments: Spend = _NOTHING
    choice: Spend = _NOTHING
    together: Spend = _NOTHING
    relations: Spend = _NOTHING
    n_tables: int = 0
    n_table_cells: int = 0
    n_groups: int = 0
    few_rows: bool = False
    designed: bool = False
    borrows: bool = False
    most_categories: int = 0
    training: Training | None = None

    @property
    def n_iter(self) -> int:
        """Adversarial steps."""
        return self.training.n_iter if self.training else 0

    @property
    def n_teachers(self) -> int:
        """Teachers; 0 without training, and with DP-SGD."""
        return self.training.n_teachers if self.training else 0

    def tables_of(self, n_columns: int) -> int:
        """Return the tables of pairs: a number of the algorithm, or the usual one."""
        return self.n_tables or planned_tables(n_columns, few=self.few_rows)

    def mu_of(self, kind: str, n_answers: int = 1) -> float:
        """Return what each of several answers to a kind of query has."""
        # Where there are third columns, these have a part of what relations have.
        third = QUARTER * (self.n_tables != 1)
        part = {"cells": 1.0 - third, "ranks": third}.get(kind)
        if part is not None:
            return self.relations.mu * math.sqrt(part) / math.sqrt(n_answers)
        spend: Spend = getattr(self, kind)
        return spend.mu / math.sqrt(n_answers)

    @property
    def signal_to_noise(self) -> float:
        """Expected count of a bin of the marginals over its noise."""
        if self.marginals.noise_std == 0:
            return math.inf
        return self.n_rows / (self.n_bins * self.marginals.noise_std)

    @property
    def dependence(self) -> Literal["kept", "weak", "borrowed", "lost"]:
        """What is expected to be learnt of how columns depend on each other.

        By the rows over the noise of a table: "kept" from 200 noise deviations on,
        "weak" below, where pairs are chosen, or where second moments or training alone
        learn it; "borrowed" from a larger class; else "lost".
        """
        if self.pairs.mu:
            clear = self.n_rows >= CLEAR_FROM * self.pairs.noise_std
            return "kept" if clear and not self.few_rows else "weak"
        if self.moments.mu or self.training:
            return "weak"
        return "borrowed" if self.borrows else "lost"

    @property
    def notes(self) -> list[str]:
        """What to expect, where it is little."""
        mostly_noise = ["too few rows for the budget: mostly noise"]
        if self.marginals.mu == 0:  # it begins from nothing
            if self.training is None:
                return ["too small a budget for one step: nothing is learnt"]
            sampled = self.n_rows * self.training.sampling_rate
            signal = max(self.n_teachers, sampled)
            return mostly_noise if self.training.noise_std > signal else []
        if self.signal_to_noise < 1.0:
            return mostly_noise
        rare_noise = self.most_categories * self.marginals.noise_std
        if rare_noise > self.n_rows:
            return ["too many categories for the budget: rare ones are mostly noise"]
        return []

    @property
    def training_words(self) -> str:
        """What is trained after the measurements by an algorithm that has a loop."""
        if self.training:
            return f"{self.n_iter} adversarial steps"
        if self.marginals.mu == 0:
            return "nothing is measured or trained"
        return "fitted to the measurements; no adversarial steps"

    def to_json(self) -> dict[str, Any]:
        """Return the form that a file holds."""
        label = UNLABELLED.value if self.label is UNLABELLED else self.label
        return {**to_plain(self), "label": encode_value(label)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], label: Hashable) -> Allocation:
        """Undo `to_json`; refuse other fields, types or ranges, or another label."""
        plan: Allocation = replace(read_plain(cls, data), label=label)
        require(plan.n_rows < math.inf, "numbers of rows")
        if (steps := plan.training) is not None:
            require(steps.n_iter >= 1 and steps.sampling_rate <= 1, "a training")
        require(plan.to_json()["label"] == data["label"], "other plans")
        return plan


class Outline(NamedTuple):
    """What is public of a table when its budget is allocated."""

    labels: Sequence[Hashable]  # of the classes; None alone for all rows
    n_rows: Sequence[float]  # of each class, declared or noisy
    domains: Sequence[ColumnDomain | None]  # None for categories not known yet
    measured: bool = False  # whether the target is a number

    @classmethod
    def of(cls, metadata: Metadata) -> Outline:
        """Return that of a table whose metadata was released."""
        classes, measured = metadata.classes, metadata.layout.measured
        rows = classes.planned.tolist()
        return cls(classes.scopes, rows, metadata.domains, measured)

    @property
    def n_columns(self) -> int:
        """Number of columns, without labels."""
        return len(self.domains)

    @property
    def n_continuous(self) -> int:
        """Number of numeric columns whose rows must be found first."""
        return sum(map(is_continuous, self.domains))


def planned_tables(n_columns: int, *, few: bool = False) -> int:
    """Return the tables of pairs that a plan counts on; `few` says: for few rows."""
    return min(math.comb(n_columns, 2), FEW_TABLES if few else MOST_TABLES)


# --- What a budget is divided into ----------------------------------------------------


@dataclass(frozen=True)
class _Class:
    """A class whose budget is divided, or several, and what is worth it for them.

    With the `mu` that is left each kind of release gets all of its share (1), a part
    that is enough, or nothing (0) since it would say little.
    """

    n_rows: float  # of several classes those of the largest one
    n_columns: int
    mu: float  # of all that is divided
    n_groups: int = 0  # of a column's bins in tables of three; 0 to measure none
    few: bool = False  # whether all pairs are too many for the largest class
    several: bool = False

    @classmethod
    def of(cls, table: Outline, n_rows: float, mu: float, order: int) -> _Class:
        """Return a class of a table, whose tables have so many columns at most."""
        n_columns, n_groups, of_triples = table.n_columns, 0, mu * math.sqrt(QUARTER)
        if order >= 3 and n_columns in TRIPLE_COLUMNS and mu:
            # As many as leave a mean cell well above the noise of a count, in rows.
            noise_std = max(math.sqrt(math.comb(n_columns, 3)) / of_triples, 1.0)
            clear = int((n_rows / (_PER_CELL * noise_std)) ** (1 / 3))
            n_groups = min(clear, _MOST_GROUPS, _ALL_GROUPS // n_columns)
            n_groups *= n_groups >= 3
        left = mu * math.sqrt(1.0 - QUARTER * (n_groups > 0))
        n_pairs, largest = math.comb(n_columns, 2), max(table.n_rows)
        of_pairs = cls(largest, n_columns, left * math.sqrt(PAIRS_SHARE))
        few = FEW_TABLES < n_pairs <= MOST_TABLES and of_pairs.is_scarce(n_pairs)
        return cls(n_rows, n_columns, mu, n_groups, few)

    def is_scarce(self, n_tables: int) -> bool:
        """Return whether the rows are not clear of the noise of so many tables."""
        return self.n_rows * self.mu < CLEAR_FROM * math.sqrt(n_tables)

    def moments(self, mu: float) -> float:
        """As much as makes the strongest factor clear of the noise.

        Its largest eigenvalue `factors_above_noise` says. Rows are shortened to twice
        their mean squared length, and their products have half the squared norm of a
        matrix.
        """
        if self.n_columns not in MOMENT_COLUMNS:
            return 0.0
        noise = 2.0 * math.sqrt(self.n_columns) * CLIP / math.sqrt(2.0)
        clear, enough = self.n_rows * mu / noise, ROWS_FROM * _ABOVE_NOISE
        least, most = MOMENTS_SHARES
        share = min(max((enough / max(clear, TINY)) ** 2, least), most)
        return share if clear * math.sqrt(share) >= _ABOVE_NOISE else 0.0

    def triples(self, mu: float) -> float:
        return self.n_groups > 0

    def relations(self, mu: float) -> float:
        return self.pairs(mu * math.sqrt(1.0 - BESIDE_SHARE))

    def pairs(self, mu: float) -> float:
        """All, where the rows are clear of the noise of a count."""
        least = ROWS_FROM * math.sqrt(planned_tables(self.n_columns, few=self.few))
        clear = self.n_rows * (mu * math.sqrt(PAIRS_SHARE)) >= least
        return clear and 2 <= self.n_columns < WIDE

    def choice(self, mu: float) -> float:
        n_pairs = math.comb(self.n_columns, 2)
        return planned_tables(self.n_columns, few=self.few) < n_pairs

    def together(self, mu: float) -> float:
        if not self.several or mu == math.inf:  # tables without noise say it all
            return 0.0
        return TOGETHER_SHARES[self.is_scarce(math.comb(self.n_columns, 2))]


class Kind(NamedTuple):
    """A kind of release: a row of the table by which a budget is divided."""

    name: str  # the field of `Allocation`
    share: float = 1.0  # of the squared mu that the rows above leave
    worth: Callable[[_Class, float], float] | None = None  # of that; by default all

    def share_of(self, case: _Class, mu: float) -> float:
        """Return its share for a class that has so much left."""
        return self.share * (1.0 if self.worth is None else self.worth(case, mu))


_MARGINALS = Kind("marginals")
# Of a table, beside its marginals: tables of pairs (and of triples, where they are
# affordable), or second moments, or nothing.
KINDS = (
    Kind("triples", QUARTER, _Class.triples),
    Kind("relations", BESIDE_SHARE, _Class.relations),
    Kind("pairs", PAIRS_SHARE, _Class.pairs),
    _MARGINALS,
)
MOMENT_KINDS = Kind("moments", worth=_Class.moments), _MARGINALS
# Equal in all classes: of the pairs of the one that has least for them.
COMMON_KINDS = (
    Kind("choice", BESIDE_SHARE, _Class.choice),
    Kind("together", worth=_Class.together),
)
# If the same is measured as of another table. What is of every row is first.
DESIGN_KINDS = (
    Kind("moments", max(MOMENTS_SHARES)),
    Kind("together", PAIRS_SHARE * min(TOGETHER_SHARES)),
    Kind("relations", BESIDE_SHARE),
    Kind("triples", QUARTER),
    Kind("pairs", PAIRS_SHARE),
    _MARGINALS,
)


class Loop(NamedTuple):
    """Training after the measurements: what it takes of the budget of a class."""

    share: float  # of the squared mu; 1 where nothing is measured
    stated: bool  # whether a number of steps was
    # Of a label, its rows and mu; None if the class is not to be trained.
    training: Callable[[Hashable, float, float], Training | None]


def measured_kinds(
    table: Outline, mu: float, *, order: int, tables_first: bool
) -> tuple[Kind, ...]:
    """Choose what is measured of a table, each of whose classes has `mu` in all.

    With an `order` of 1 marginals alone. Else tables of pairs where some class affords
    them, or second moments where those of some class are above the noise. The other
    classes borrow from the largest such one. Moments are also better for few rows
    without classes, or of many numbers; but `tables_first` keeps the tables of classes.
    """
    if order == 1:
        return (_MARGINALS,)
    n_columns, alone = table.n_columns, tuple(table.labels) == (None,)
    largest = _Class.of(table, max(table.n_rows), mu, order=2)
    pairs = largest.pairs(mu)
    # Few rows for all pairs of 20 numbers or more: second moments say more than tables
    # of some pairs (docs/marginal.md). In 22 pairs of fits to 20 to 103 columns of
    # Epileptic seizure and ISOLET (epsilon 1, 3) AUPRC rose in 20, and distances of
    # triples fell in 17; of 7 columns of Diamonds C2ST rose, .77 to .98. At most a
    # twentieth may be something else: with an eighth C2ST rose from .82 to .90.
    n_tables = planned_tables(n_columns) if alone else math.comb(n_columns, 2)
    n_discrete = n_columns - table.n_continuous
    numbers = n_columns >= TRIPLE_COLUMNS.stop and n_discrete <= FEW * n_columns
    scarce = replace(largest, mu=mu * math.sqrt(PAIRS_SHARE)).is_scarce(n_tables)
    if pairs and not (scarce and (alone or (numbers and not tables_first))):
        return KINDS
    if largest.moments(mu):
        return MOMENT_KINDS
    return KINDS if pairs else (_MARGINALS,)


# --- Its division ---------------------------------------------------------------------


def allocate(
    table: Outline,
    mu: float,
    *,
    order: int = 3,
    tables_first: bool = False,
    design: Measurements | None = None,
    shares: Mapping[str, float] | None = None,
    n_tables: int = 0,
    loop: Loop | None = None,
) -> list[Allocation]:
    """Allocate the budget of all classes: a pure function that `fit` and `plan` share.

    Each may spend `mu`: the squares of what its releases have add up to ``mu**2``.
    Tables are of `order` columns at most; `tables_first` keeps those of pairs where
    second moments may say more. With a `design`, the measurements of another table, the
    same is measured, with the shares that a first fit has, but for what that chose by
    the rows. A `loop` trains afterwards.

    An algorithm may have `shares` of its own, as ``{"choice": 0.1, "pairs": 0.7}``,
    each of what is left, for `n_tables` tables of pairs in a class that affords some.
    Marginals have the rest, and in other classes all.
    """
    kinds: tuple[Kind, ...] = ()
    left = mu
    if loop is not None and mu < math.inf:
        left = mu * math.sqrt(1.0 - loop.share)
    if shares is not None:
        parts, order = shares.values(), 2
        numbers = all(is_number(part) and part >= 0 for part in parts)
        names = {*shares} <= {"choice", "pairs", "moments"}
        if not (names and numbers and sum(parts) < 1):
            raise ValueError(
                "shares must be of choice, pairs or moments, each a finite number >= 0,"
                " and together less than 1, since marginals have the rest. Got"
                f" {dict(shares)!r}; leave out other names, or take smaller shares."
            )
    elif loop is None or loop.share < 1.0:
        # A number of steps is taken at its word; else they cost no class its tables.
        least = left if loop is not None and loop.stated else mu
        kinds = measured_kinds(table, least, order=order, tables_first=tables_first)
    plans = []
    for label, n_rows in zip(table.labels, table.n_rows, strict=True):
        case = _Class.of(table, n_rows, mu, order)
        if design is not None:
            kinds, case = _kinds_of_design(design, label, case)
        elif shares is not None:
            some = shares.items() if case.pairs(mu) else ()
            kinds = (*(Kind(*item) for item in some), _MARGINALS)
        plan = replace(_divided(label, case, kinds), designed=design is not None)
        if loop is not None:
            rest = _divided(label, _Class.of(table, n_rows, left, order), kinds)
            plan = _with_loop(plan, rest, case, loop)
        if n_tables and plan.pairs.mu:
            n_pairs = math.comb(table.n_columns, 2)
            plan = replace(plan, n_tables=min(n_tables, n_pairs))
        plans.append(plan)
    if design is None and shares is None:
        plans = _with_common(plans, table.n_columns)
    return _completed(plans, table)


def _kinds_of_design(
    design: Measurements, label: Hashable, case: _Class
) -> tuple[tuple[Kind, ...], _Class]:
    """Return the rows of what was measured of a class of another table."""
    of_class = {o.query.kind: o.query for o in design if label in o.scopes}
    of_all = {o.query.kind for o in design if not design._places(o)}
    asked = {*of_class, *("together" for kind in of_all if kind == "pairs")}
    asked |= {"relations" for kind in of_class.keys() | of_all if kind == "cells"}
    n_groups = getattr(of_class.get("triples"), "n_groups", 0)
    kinds = tuple(kind for kind in DESIGN_KINDS if kind.name in asked)
    return kinds, replace(case, n_groups=n_groups, few=False)


def _divided(label: Hashable, case: _Class, kinds: Sequence[Kind]) -> Allocation:
    """Divide the budget of a class: each kind has its share of what is left."""
    mu = case.mu
    spends: dict[str, Any] = {}
    for kind in kinds:
        if share := kind.share_of(case, mu):
            spends[kind.name] = Spend(mu * math.sqrt(share))
            mu *= math.sqrt(1.0 - share)
    n_groups = case.n_groups * ("triples" in spends)
    few = case.few and "pairs" in spends
    return Allocation(label, case.n_rows, n_groups=n_groups, few_rows=few, **spends)


def _with_loop(
    plan: Allocation, rest: Allocation, case: _Class, loop: Loop
) -> Allocation:
    """Return a class with training, if that is worth it; `rest` is what it leaves."""
    # What the loop learns, second moments need not say: the 2-way distance of
    # Epileptic seizure rose by .0004, not .0024 (epsilon 1, without steps).
    of_loop = loop.share * case.mu**2
    of_moments = plan.moments.mu**2 - of_loop
    if of_moments > of_loop:
        rest = replace(plan, moments=Spend(math.sqrt(of_moments)))
    # A class without a dependence of its own borrows one. Errors of marginals would be
    # taken for dependence: at epsilon 1 the 2-way distance of ISOLET rose by .004 (54
    # times the root of its columns), that of Epileptic seizure fell by .0003 (149
    # times).
    unclear = case.n_rows * case.mu < CLEAR_FROM / 2 * math.sqrt(case.n_columns)
    of_moments = 0.0 if unclear and not loop.stated else rest.moments.mu
    if not (rest.pairs.mu or of_moments or loop.share == 1.0):
        return plan
    training = loop.training(plan.label, case.n_rows, case.mu)
    return replace(rest, training=training) if training else plan


def _with_common(plans: list[Allocation], n_columns: int) -> list[Allocation]:
    """Set aside what the classes with tables of pairs release together.

    If they are several, a row of any class is charged, so a class without such tables
    has less for its marginals.
    """
    having = [plan for plan in plans if plan.pairs.mu]
    if not having:
        return plans
    # Training may leave more to one class than to another.
    left = min(plan.pairs.mu for plan in having)
    relations = min(plan.relations.mu for plan in having)
    few, several = any(plan.few_rows for plan in having), len(having) > 1
    largest = max(plan.n_rows for plan in having)
    every = _Class(largest, n_columns, left, few=few, several=several)
    common: dict[str, float] = {}
    for kind in COMMON_KINDS:
        if share := kind.share_of(every, left):
            common[kind.name] = left * math.sqrt(share)
            left = _without(left, common[kind.name])
    changed = []
    for plan in plans:
        more = {}
        if plan.pairs.mu:
            rest = math.hypot(plan.pairs.mu, _without(plan.relations.mu, relations))
            more = {**common, "relations": relations}
            more["pairs"] = _without(rest, *common.values())
        elif several:
            of_all = *common.values(), relations
            more["marginals"] = _without(plan.marginals.mu, *of_all)
        spends: Any = {name: Spend(mu) for name, mu in more.items()}
        changed.append(replace(plan, **spends, few_rows=few and plan.pairs.mu > 0))
    return changed


def _without(mu: float, *spent: float) -> float:
    """Return what is left of a Gaussian-DP parameter; of an infinite one, itself."""
    if mu == math.inf:
        return mu
    return math.sqrt(max(mu**2 - sum(part**2 for part in spent), 0.0))


def _completed(plans: Sequence[Allocation], table: Outline) -> list[Allocation]:
    """Add what follows from the columns: bins, cells, and the noise of each release."""
    domains, n_columns = table.domains, table.n_columns
    n_pairs = math.comb(n_columns, 2)
    largest = max(plan.n_rows for plan in plans)
    categories = [getattr(domain, "categories", ()) for domain in domains]
    bins_of_tables = table_bins(plans, table)
    sizes = [most_bins(domain, bins_of_tables) for domain in domains]
    cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    learns = [bool(plan.pairs.mu or plan.moments.mu or plan.training) for plan in plans]
    completed = []
    for plan, has_own in zip(plans, learns, strict=True):
        more: dict[str, Any] = {"most_categories": max(map(len, categories))}
        more["borrows"] = any(learns) and not has_own
        if mu := plan.marginals.mu:  # of two rounds, the second
            share = coarse_share(largest, table.n_continuous, n_columns, mu)
            fine = mu * math.sqrt(1.0 - share)
            more["n_bins"], noise_std = fine_plan(domains, plan.n_rows, fine)
            more["marginals"] = Spend(mu, noise_std)
        if mu := plan.pairs.mu:
            more["n_tables"] = n_tables = plan.tables_of(n_columns)
            more["n_table_cells"] = cells * n_tables // n_pairs
            more["pairs"] = Spend(mu, math.sqrt(n_tables) / mu)
        if mu := plan.moments.mu:
            # Of rows that are shortened to twice their mean squared length.
            norm = CLIP * n_columns / math.sqrt(2.0)
            more["moments"] = Spend(mu, norm / (mu * max(plan.n_rows, 1.0)))
        if mu := plan.relations.mu:  # of one, which has all of it for finer cells
            more["relations"] = Spend(mu, 1.0 / plan.mu_of("cells"))
        completed.append(replace(plan, **more))
    return completed


def with_unlabelled(
    plans: list[Allocation], table: Outline, mu: float, order: int
) -> list[Allocation]:
    """Add rows without a label, the one class of `table`, if they can afford pairs.

    Some class has pairs. The `mu` is also for their number, and for what several
    classes release together, for which every row is charged. Tables are of `order`
    columns at most.
    """
    mu *= math.sqrt(1.0 - SMALL_SHARE)
    first, *others = [plan for plan in plans if plan.pairs.mu]
    if others:
        mu = _without(mu, first.choice.mu, first.together.mu, first.relations.mu)
    case = _Class.of(table, table.n_rows[0], mu, order)
    plan = _divided(UNLABELLED, case, KINDS)
    if not plan.pairs.mu:
        return plans
    (plan,) = _with_common([plan], table.n_columns)
    # The classes measure relations, and several of them choose the pairs.
    choice, spared = (_NOTHING, plan.choice.mu) if others else (plan.choice, 0.0)
    pairs = Spend(math.hypot(plan.pairs.mu, spared, plan.relations.mu))
    plan = replace(plan, pairs=pairs, choice=choice, relations=_NOTHING)
    return _completed([*plans, plan], table)


def table_bins(plans: Sequence[Allocation], table: Outline) -> int:
    """Choose the bins of a column: those that the class with least noise fills.

    So that the mean count of a cell is twice the noise, or four times where the target
    is measured: what regressors learn of it comes from the means of many cells, which
    few bins know better. A few columns may have more bins.
    """
    n_columns = table.n_columns
    rows = [
        plan.n_rows / max(math.sqrt(plan.tables_of(n_columns)) / plan.pairs.mu, 1.0)
        for plan in plans
        if plan.pairs.mu
    ]
    least, fewest = 2.0 * (1 + table.measured), COARSE_BINS[0]
    most = max(np.interp(n_columns, *_MOST_BINS) // n_columns, fewest)
    return int(np.clip(math.sqrt(max(rows, default=1.0) / least), fewest, most))
