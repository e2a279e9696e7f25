"""All that a fit measures of the rows once the metadata is known, in one place.

Tables of one, two and three columns per class, and second moments of scores where the
columns are too many for tables. Everything else is fitted to these: post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.preprocessing._bins import choose_bins
from skdpsynth.preprocessing._estimates import (
    estimate,
    flat_marginals,
    known_sizes,
)
from skdpsynth.preprocessing._marginals import measure_marginals
from skdpsynth.preprocessing._measurements import Described, Measurements
from skdpsynth.preprocessing._model import TableModel
from skdpsynth.preprocessing._plan import table_bins
from skdpsynth.preprocessing._tables import (
    PairTables,
    SecondMoments,
    TripleTables,
    measure_moments,
    measure_pairs,
    measure_triples,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._bins import TableBins
    from skdpsynth.preprocessing._columns import PrivateRows, TableRows
    from skdpsynth.preprocessing._estimates import Round
    from skdpsynth.preprocessing._plan import ClassPlan
    from skdpsynth.preprocessing._purchase import TableFacts
    from skdpsynth.privacy import PrivacyAccountant

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """What was measured of every class; all of it is public.

    `model` has the marginals, estimated from the tables of one column; `ranks` and
    `shares` say of each class where its bins lie, and the others what was measured of
    the classes that could afford it.
    """

    model: TableModel
    rounds: list[list[Round]]
    bins: TableBins
    ranks: list[Floats]  # (2, D)
    shares: list[Floats]  # (D,)
    pairs: dict[int, PairTables]
    triples: dict[int, TripleTables]
    moments: dict[int, SecondMoments]

    @property
    def measurements(self) -> Measurements:
        """The same as a list of tables with names."""
        tables = self.pairs, self.triples, self.moments
        bins = self.bins if self.pairs else None
        return Measurements(Described(self.model.facts, self.rounds, bins, *tables))


def measure(
    rows: TableRows,
    facts: TableFacts,
    plans: Sequence[ClassPlan],
    accountant: PrivacyAccountant,
) -> Measured:
    """Measure every class as planned; classes compose in parallel.

    Parameters
    ----------
    rows : TableRows
        The encoded rows; private.
    facts : TableFacts
        What is public of the table.
    plans : sequence of n_classes ClassPlan
        How much of the budget each measurement has.
    accountant : PrivacyAccountant
        The ledger, which each release draws down.

    Returns
    -------
    Measured
        Public.
    """
    domains, prior = facts.domains, facts.classes.prior
    mus = np.array([plan.mu_marginals for plan in plans])
    rounds: list[list[Round]] = [[] for _ in plans]
    marginals = flat_marginals(domains, len(plans))
    if mus.any():  # 1 column
        rounds, cells = measure_marginals(
            rows, domains, facts.classes, accountant, mus=mus
        )
        marginals = estimate(domains, facts.classes, rounds, cells)
    n_bins = table_bins(plans, len(domains), measured=facts.layout.measured)
    bins, in_order = choose_bins(domains, marginals, prior, n_bins)
    together = any(plan.mu_pairs for plan in plans)
    model = TableModel(facts, in_order if together else marginals)
    ranks = [bins.ranks(own) for own in in_order]
    shares = [bins.shares(own) for own in ranks]
    pairs: dict[int, PairTables] = {}
    triples: dict[int, TripleTables] = {}
    moments: dict[int, SecondMoments] = {}
    sizes = known_sizes(facts.classes, rounds)
    for c, plan in enumerate(plans):
        own, scope = rows.parts_of_class(c), facts.classes.scopes[c]
        if plan.mu_pairs:  # 2 columns
            pairs[c] = measure_pairs(
                own,
                bins,
                shares[c],
                facts.classes.counts[c],
                accountant,
                mu=plan.mu_pairs,
                scope=scope,
                few=plan.few_rows,
                target=facts.measured,
            )
        if plan.mu_triples:  # 3 columns
            triples[c] = measure_triples(
                own,
                bins,
                shares[c],
                plan.n_groups,
                accountant,
                mu=plan.mu_triples,
                scope=scope,
            )
        if plan.mu_moments:  # all columns
            means, stds, _ = np.nan_to_num(model.score_moments(c), posinf=0, neginf=0)
            scores = own.map(_scores, model, c)
            moments[c] = measure_moments(
                scores,
                means,
                stds,
                sizes[c],
                accountant,
                mu=plan.mu_moments,
                scope=scope,
            )
    return Measured(model, rounds, bins, ranks, shares, pairs, triples, moments)


def _scores(rows: PrivateRows, model: TableModel, position: int) -> NDArray[np.float32]:
    """Give the normal scores of the rows of a class; private."""
    return model.score_rows(rows.units, rows.category_codes, position)
