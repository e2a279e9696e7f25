"""Plans: how the budget of a class is allocated, from public numbers alone.

The same functions serve `plan`, with guessed counts, and `fit`, with released ones.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from skdpsynth.preprocessing._bins import most_bins
from skdpsynth.preprocessing._domains import (
    LevelDomain,
    is_continuous,
)
from skdpsynth.preprocessing._marginals import bins_for, coarse_share, fine_plan
from skdpsynth.preprocessing._shares import PAIRS_SHARE, TRIPLES_SHARE
from skdpsynth.preprocessing._tables import (
    CHOSEN_BELOW,
    all_pairs,
    bins_of_pairs,
    borrowers,
    few_rows,
    moments_share,
    pair_noise_std,
    pairs_affordable,
    pairs_best,
    pairs_serve,
    planned_tables,
    triple_groups,
)
from skdpsynth.privacy import grid_noise_std, scope_words

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from skdpsynth.preprocessing._domains import ColumnDomain
    from skdpsynth.preprocessing._purchase import TableFacts
    from skdpsynth.privacy import PrivacyAccountant

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
    facts: TableFacts,
    accountant: PrivacyAccountant,
) -> list[ClassPlan]:
    """Plan every class of a table by the algorithm, with what was released."""
    classes = facts.classes
    n_continuous = sum(map(is_continuous, facts.domains))
    n_discrete = len(facts.domains) - n_continuous
    # What is left is the same for all classes until one of them is measured.
    mu = accountant.remaining_mu(classes.scopes[0]) * (1 - 1e-9)
    plans = plan_classes(classes.scopes, classes.planned, n_continuous, n_discrete, mu)
    measured = facts.layout.measured
    plans = with_cells(plans, facts.domains, classes.noise_std, measured=measured)
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
    most = max(len(a.levels) if isinstance(a, LevelDomain) else 0 for a in domains)
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
