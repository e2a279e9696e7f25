"""How the budget of a fit is allocated, from public numbers alone.

`fit` allocates for the table that it has, `plan` for one of which only public numbers
are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

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
    QUARTER,
    ROWS_FROM,
    TINY,
    TOGETHER_SHARES,
    TRIPLE_COLUMNS,
    WIDE,
)
from skdpsynth.privacy import UNLABELLED, grid_noise_std
from skdpsynth.schema import decode_value, encode_value
from skdpsynth.table import ColumnDomain, Metadata, is_continuous
from skdpsynth.utils import require
from skdpsynth.utils.arrays import Floats

PlanClasses = Callable[
    [Sequence[Hashable], Floats, int, int, float], list["Allocation"]
]

# What is measured of a table beside its marginals: tables of pairs (and of triples,
# where they are affordable), second moments, nothing; or not even the marginals.
Form = Literal["pairs", "moments", "marginals", "random"]

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
    """What one kind of release of a class may spend.

    Parameters
    ----------
    mu : float, default=0.0
        Gaussian-DP parameter of all these releases together; 0 if none is made.
    noise_std : float, default=0.0
        Noise of one released number: of counts in rows, of second moments that of a
        covariance of normal scores, whose variance is 1.
    """

    mu: float = 0.0
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
        if they are chosen; tables of two columns; and finer tables of two columns of
        which one nearly determines the other. Where there are none of these, their
        share goes to the tables of three columns, if there are any. A choice that the
        algorithm itself allocates is each class's own, and nothing is together then.
    n_tables, n_table_cells : int
        Tables of two columns, and the cells of all of them. In a wide table some
        pairs are chosen, and these are the most that are counted on, unless the
        algorithm says how many it measures.
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
        return _fields(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Allocation:
        """Undo `to_json`; refuse other fields, types or ranges."""
        training = None if data["training"] is None else Training(0, 0.0, 0.0)
        like = cls(None, 0.0, training=training)
        plan: Allocation = _decoded(like, {**data, "label": None})
        require(plan.n_rows < math.inf, "numbers of rows")
        if (steps := plan.training) is not None:
            require(steps.n_iter >= 1 and steps.sampling_rate <= 1, "a training")
        return replace(plan, label=decode_value(data["label"]))


_RECORDS = Allocation | Spend | Training


def _fields(record: Any) -> dict[str, Any]:  # noqa: ANN401 - one of `_RECORDS`
    return {
        name: _fields(value) if isinstance(value, _RECORDS) else encode_value(value)
        for name, value in vars(record).items()
    }


def _decoded(like: Any, data: Any) -> Any:  # noqa: ANN401 - JSON
    """Read what has the fields and types of `like`, and no number below 0."""
    if isinstance(like, _RECORDS):
        fields = vars(like)
        require(data.keys() == fields.keys(), "other fields")
        return replace(like, **{k: _decoded(fields[k], data[k]) for k in fields})
    value, kind = decode_value(data), type(like)
    require(type(value) in (kind, int if kind is float else kind), "another type")
    require(value is None or value >= 0, "no number >= 0")
    return value if value is None else kind(value)


def is_scarce(largest: float, n_tables: int, mu: float) -> bool:
    """Return whether the rows of the largest class are not clear of the noise."""
    return largest * mu < CLEAR_FROM * math.sqrt(n_tables)


def few_rows(largest: float, n_columns: int, mu: float) -> bool:
    """Return whether all pairs are too many for the rows of the largest class."""
    n_pairs = math.comb(n_columns, 2)
    return FEW_TABLES < n_pairs <= MOST_TABLES and is_scarce(largest, n_pairs, mu)


def planned_tables(n_columns: int, *, few: bool = False) -> int:
    """Return the tables of pairs that a plan counts on; `few` says `few_rows`."""
    return min(math.comb(n_columns, 2), FEW_TABLES if few else MOST_TABLES)


def pairs_affordable(
    n_rows: float, n_columns: int, mu: float, *, few: bool = False
) -> bool:
    """Return whether the planned rows of a class are clear of the noise of a count."""
    if not 2 <= n_columns < WIDE:
        return False
    n_tables = planned_tables(n_columns, few=few)
    return n_rows * mu >= ROWS_FROM * math.sqrt(n_tables)


def triple_groups(n_rows: float, n_columns: int, mu: float) -> int:
    """Return the groups of a column in the tables of all triples, 0 to measure none.

    As many as leave a mean cell well above the noise, with `mu` for all triples.
    """
    if n_columns not in TRIPLE_COLUMNS or mu == 0:
        return 0
    noise_std = max(math.sqrt(math.comb(n_columns, 3)) / mu, 1.0)  # of a count, in rows
    clear = int((n_rows / (_PER_CELL * noise_std)) ** (1 / 3))
    groups = min(clear, _MOST_GROUPS, _ALL_GROUPS // n_columns)
    return groups if groups >= 3 else 0


def moments_share(n_rows: float, n_columns: int, mu: float) -> float:
    """Return the share of the squared mu of a class that second moments get, maybe 0.

    As much as makes the strongest factor clear of the noise, whose largest eigenvalue
    `factors_above_noise` says. Rows are shortened to twice their mean squared length,
    and their products have half the squared norm of a matrix.
    """
    if n_columns not in MOMENT_COLUMNS:
        return 0.0
    noise = 2.0 * math.sqrt(n_columns) * CLIP / math.sqrt(2.0)
    clear = n_rows * mu / noise
    least, most = MOMENTS_SHARES
    enough = ROWS_FROM * _ABOVE_NOISE
    share = min(max((enough / max(clear, TINY)) ** 2, least), most)
    return share if clear * math.sqrt(share) >= _ABOVE_NOISE else 0.0


def measured_form(
    labels: Sequence[Hashable],
    n_rows: Sequence[float],
    n_continuous: int,
    n_discrete: int,
    mu: float,
    *,
    order: int = 3,
    tables_first: bool = False,
) -> Form:
    """Choose what is measured of a table, each of whose classes has `mu` in all.

    With an `order` of 1 marginals alone. Else tables of pairs where some class affords
    them, or second moments where those of some class are above the noise. The other
    classes borrow from the largest such one. Moments are also better for few rows
    without classes, or of many numbers; but `tables_first` keeps the tables of classes.
    """
    if order == 1:
        return "marginals"
    n_columns, alone = n_continuous + n_discrete, tuple(labels) == (None,)
    largest, of_pairs = max(n_rows), mu * math.sqrt(1.0 - QUARTER)
    few = few_rows(largest, n_columns, of_pairs)
    pairs = pairs_affordable(largest, n_columns, of_pairs, few=few)
    # Few rows for all pairs of 20 numbers or more: second moments say more than tables
    # of some pairs (docs/marginal.md). In 22 pairs of fits to 20 to 103 columns of
    # Epileptic seizure and ISOLET (epsilon 1, 3) AUPRC rose in 20, and distances of
    # triples fell in 17; of 7 columns of Diamonds C2ST rose, .77 to .98. At most a
    # twentieth may be something else: with an eighth C2ST rose from .82 to .90.
    n_tables = planned_tables(n_columns) if alone else math.comb(n_columns, 2)
    numbers = n_columns >= TRIPLE_COLUMNS.stop and n_discrete <= FEW * n_columns
    scarce = is_scarce(largest, n_tables, of_pairs)
    if pairs and not (scarce and (alone or (numbers and not tables_first))):
        return "pairs"
    if moments_share(largest, n_columns, mu):
        return "moments"
    return "pairs" if pairs else "marginals"


def allocate_measurements(
    label: Hashable,
    n_rows: float,
    n_continuous: int,
    n_discrete: int,
    mu: float,
    *,
    largest: float | None = None,
    form: Form = "marginals",
    order: int = 3,
    design: Measurements | None = None,
) -> Allocation:
    """Allocate the measurements of one class, without training.

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
    design : Measurements, optional
        Those of another table: the same tables are measured, with the shares that a
        first fit has, but for what that chose by the rows.

    Returns
    -------
    Allocation
        Without noise and bins, which `allocate` adds, since it knows the columns.
    """
    if form == "random":
        return Allocation(label, n_rows)
    n_columns = n_continuous + n_discrete
    shares: dict[str, float] = {}
    more: dict[str, Any] = {}
    if design is not None:
        shares, more = _shares_of(design, label)
    elif form == "moments":
        shares = {"moments": moments_share(n_rows, n_columns, mu)}
    elif form == "pairs":
        of_triples = mu * math.sqrt(QUARTER)
        n_groups = triple_groups(n_rows, n_columns, of_triples) if order >= 3 else 0
        triples = QUARTER if n_groups else 0.0
        left = mu * math.sqrt(1.0 - triples)
        few = few_rows(largest or n_rows, n_columns, left * math.sqrt(1.0 - QUARTER))
        # Relations, if enough is left for pairs; else pairs alone, if they have enough.
        for share in (BESIDE_SHARE, 0.0):
            of_pairs = left * math.sqrt(1.0 - share) * math.sqrt(1.0 - QUARTER)
            if pairs_affordable(n_rows, n_columns, of_pairs, few=few):
                shares = {"triples": triples, "relations": share, "pairs": 1 - QUARTER}
                more = {"n_groups": n_groups, "few_rows": few}
                break
    for kind, share in shares.items():  # each of what is left; marginals have the rest
        if share:
            more[kind] = Spend(mu * math.sqrt(share))
            mu *= math.sqrt(1.0 - share)
    return Allocation(label, n_rows, Spend(mu), **more)


def _shares_of(
    design: Measurements, label: Hashable
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the shares of a class that was measured of another table; other fields."""
    of_class = {own.query.kind: own.query for own in design if label in own.scopes}
    of_all = {own.query.kind for own in design if not design._places(own)}
    shares = {
        "moments": MOMENTS_SHARES[1] * ("moments" in of_class),
        # Of every row, so first, and equal in all classes.
        "together": (1.0 - QUARTER) * TOGETHER_SHARES[0] * ("pairs" in of_all),
        "relations": BESIDE_SHARE * ("cells" in of_class.keys() | of_all),
        "triples": QUARTER * ("triples" in of_class),
        "pairs": (1.0 - QUARTER) * ("pairs" in of_class),
    }
    n_groups = getattr(of_class.get("triples"), "n_groups", 0)
    return shares, {"n_groups": n_groups, "designed": True}


def mus_of_relations(mu: float, n_columns: int) -> tuple[float, float]:
    """Divide the `mu` of relations: for finer cells, and what third columns say."""
    third = QUARTER if n_columns > 2 else 0.0
    return mu * math.sqrt(1.0 - third), mu * math.sqrt(third)


def allocate(
    plan_classes: PlanClasses,
    labels: Sequence[Hashable],
    counts: Floats,
    domains: Sequence[ColumnDomain | None],
    mu: float,
    *,
    measured: bool = False,
) -> list[Allocation]:
    """Allocate the budget of all classes: a pure function that `fit` and `plan` share.

    The algorithm's `plan_classes` shares out the `mu` of each class. `counts` are their
    rows as known, `domains` None for categories that are not known yet, and `measured`
    says whether the target is a number.
    """
    n_columns, n_continuous = len(domains), sum(map(is_continuous, domains))
    plans = plan_classes(labels, counts, n_continuous, n_columns - n_continuous, mu)
    return _completed(_with_together(plans, n_columns), domains, measured=measured)


def _completed(
    plans: Sequence[Allocation],
    domains: Sequence[ColumnDomain | None],
    *,
    measured: bool,
) -> list[Allocation]:
    """Add what follows from the columns: bins, cells, and the noise of each release."""
    n_columns, n_continuous = len(domains), sum(map(is_continuous, domains))
    n_pairs = math.comb(n_columns, 2)
    largest = max(plan.n_rows for plan in plans)
    categories = [getattr(domain, "categories", ()) for domain in domains]
    bins_of_tables = table_bins(plans, n_columns, measured=measured)
    sizes = [most_bins(domain, bins_of_tables) for domain in domains]
    cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    known = [bool(plan.pairs.mu or plan.moments.mu or plan.training) for plan in plans]
    completed = []
    for plan, has_own in zip(plans, known, strict=True):
        more: dict[str, Any] = {"most_categories": max(map(len, categories))}
        more["borrows"] = any(known) and not has_own
        if mu := plan.marginals.mu:  # of two rounds, the second
            share = coarse_share(largest, n_continuous, n_columns, mu)
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
            of_cells, _ = mus_of_relations(mu, n_columns)
            more["relations"] = Spend(mu, grid_noise_std(of_cells, 1.0))
        completed.append(replace(plan, **more))
    return completed


def _with_together(plans: list[Allocation], n_columns: int) -> list[Allocation]:
    """Set aside what the classes with tables of pairs release together.

    If they are several, a row of any class is charged, so a class without such tables
    has less for its marginals. Nothing is gained by more tables without noise.
    """
    having = [plan for plan in plans if plan.pairs.mu]
    # Each class chooses for itself, if the algorithm has allocated its choice.
    if not having or any(plan.designed or plan.choice.mu for plan in having):
        return plans
    # Training may leave more to one class than to another.
    pairs = min(plan.pairs.mu for plan in having)
    relations = min(plan.relations.mu for plan in having)
    few = any(plan.few_rows for plan in having)
    choice = together = 0.0
    n_pairs = math.comb(n_columns, 2)
    if planned_tables(n_columns, few=few) < n_pairs:
        choice = pairs * math.sqrt(BESIDE_SHARE)
    if len(having) > 1 and pairs < math.inf:
        largest = max(plan.n_rows for plan in having)
        clear, scarce = TOGETHER_SHARES
        share = scarce if is_scarce(largest, n_pairs, pairs) else clear
        together = _without(pairs, choice) * math.sqrt(share)
    changed = []
    for plan in plans:
        if plan.pairs.mu:
            rest = math.hypot(plan.pairs.mu, _without(plan.relations.mu, relations))
            plan = replace(
                plan,
                pairs=Spend(_without(rest, choice, together)),
                choice=Spend(choice),
                together=Spend(together),
                relations=Spend(relations),
                few_rows=few,
            )
        elif len(having) > 1:
            left = _without(plan.marginals.mu, choice, together, relations)
            plan = replace(plan, marginals=Spend(left))
        changed.append(plan)
    return changed


def _without(mu: float, *spent: float) -> float:
    """Return what is left of a Gaussian-DP parameter; of an infinite one, itself."""
    if mu == math.inf:
        return mu
    return math.sqrt(max(mu**2 - sum(part**2 for part in spent), 0.0))


def and_unlabelled(
    metadata: Metadata,
    plans: Sequence[Allocation],
    n_rows: float,
    noise_std: float,
    mu: float,
) -> tuple[Metadata, list[Allocation]]:
    """Add rows without a label as one more class, if they can afford tables of pairs.

    There are `n_rows` of them, with this noise. Some class has such tables. The `mu` is
    for all their measurements, and for what several classes release together, for which
    every row is charged.
    """
    classes = metadata.classes.and_unlabelled(max(n_rows, 1.0), noise_std)
    first, *others = [plan for plan in plans if plan.pairs.mu]
    if others:
        mu = _without(mu, first.choice.mu, first.together.mu, first.relations.mu)
    n_columns = len(metadata.domains)
    n_continuous = sum(map(is_continuous, metadata.domains))
    columns = n_continuous, n_columns - n_continuous
    rows = float(classes.planned[-1])
    plan = allocate_measurements(UNLABELLED, rows, *columns, mu, form="pairs")
    (plan,) = _with_together([plan], n_columns)
    if not plan.pairs.mu:
        return metadata, list(plans)
    # The classes measure relations, and several of them choose the pairs.
    choice = _NOTHING if others else plan.choice
    spared = _without(plan.choice.mu, choice.mu), plan.relations.mu
    pairs = Spend(math.hypot(plan.pairs.mu, *spared))
    plan = replace(plan, pairs=pairs, choice=choice, relations=_NOTHING)
    completed = _completed([*plans, plan], metadata.domains, measured=False)
    return replace(metadata, classes=classes), completed


def table_bins(
    plans: Sequence[Allocation], n_columns: int, *, measured: bool = False
) -> int:
    """Choose the bins of a column: those that the class with least noise fills.

    So that the mean count of a cell is twice the noise, or four times where the target
    is measured: what regressors learn of it comes from the means of many cells, which
    few bins know better. A few columns may have more bins.
    """
    rows = [
        plan.n_rows / max(math.sqrt(plan.tables_of(n_columns)) / plan.pairs.mu, 1.0)
        for plan in plans
        if plan.pairs.mu
    ]
    least, fewest = 2.0 * (1 + measured), COARSE_BINS[0]
    most = max(np.interp(n_columns, *_MOST_BINS) // n_columns, fewest)
    return int(np.clip(math.sqrt(max(rows, default=1.0) / least), fewest, most))
