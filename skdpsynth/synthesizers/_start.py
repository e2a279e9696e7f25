"""The start: what a generator knows of a class before it is trained.

Every synthesizer buys it by this one function, from what the plan set aside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skdpsynth.nn._fitting import ReleasedClass, fit_mixtures
from skdpsynth.nn._mixture import Mixture, MixtureGenerator
from skdpsynth.preprocessing._bins import TableBins, choose_bins
from skdpsynth.preprocessing._estimates import flat_marginals
from skdpsynth.preprocessing._marginals import buy_marginals
from skdpsynth.preprocessing._model import TableModel
from skdpsynth.preprocessing._pairs import buy_pairs
from skdpsynth.preprocessing._plan import table_bins

if TYPE_CHECKING:
    import torch

    from skdpsynth.preprocessing._columns import PrivateRows
    from skdpsynth.preprocessing._plan import ClassPlan
    from skdpsynth.preprocessing._purchase import TableFacts
    from skdpsynth.privacy import PrivacyAccountant

__all__ = ["PairStart", "buy_model", "buy_pair_start"]


class PairStart(NamedTuple):
    """What was bought, and the generator that was fitted to it; all public.

    Parameters
    ----------
    model : TableModel
        The marginals.
    bins : TableBins
        The bins of the pair tables.
    generator : MixtureGenerator
        Fitted to marginals and pair tables.
    released : dict of int to ReleasedClass
        What the classes that bought pairs got for them.
    """

    model: TableModel
    bins: TableBins
    generator: MixtureGenerator
    released: dict[int, ReleasedClass]


def buy_model(
    rows: PrivateRows,
    facts: TableFacts,
    plans: list[ClassPlan],
    accountant: PrivacyAccountant,
) -> TableModel:
    """Buy the marginals of every class; flat ones where the plan buys none."""
    mus = np.array([plan.mu_marginals for plan in plans])
    axes = list(facts.axes)
    if not mus.any():
        return TableModel(facts, flat_marginals(axes, len(plans)))
    return TableModel(
        facts, buy_marginals(rows, axes, facts.classes, accountant, mus=mus)
    )


def buy_pair_start(
    rows: PrivateRows,
    facts: TableFacts,
    plans: list[ClassPlan],
    accountant: PrivacyAccountant,
    *,
    seed: int,
    device: torch.device,
) -> PairStart:
    """Buy marginals and pair tables, and fit a generator to them.

    Parameters
    ----------
    rows : PrivateRows
        The private table.
    facts : TableFacts
        What is public by now.
    plans : list of ClassPlan
        What each class pays for.
    accountant : PrivacyAccountant
        Ledger of the fit. Classes pay in parallel: a row is in one class.
    seed : int
        Of the generator's first parameters.
    device : torch.device
        Where it is fitted.

    Returns
    -------
    PairStart
        A class that could not pay for pairs has the dependence of the largest one
        that could, unless it is a hundred times rarer.
    """
    model = buy_model(rows, facts, plans, accountant)
    counts, prior = facts.classes.counts, facts.classes.prior
    paying = [c for c, plan in enumerate(plans) if plan.mu_pairs]
    n_bins = max(table_bins(plans, len(facts.axes)), 1)
    bins, marginals = choose_bins(facts.axes, model.scores, prior, n_bins)
    model = TableModel(facts, marginals)
    ranks = [bins.ranks(own) for own in marginals]
    shares = [bins.shares(own) for own in ranks]
    released = {}
    for c in paying:
        tables = buy_pairs(
            rows.of_class(c),
            bins,
            shares[c],
            counts[c],
            accountant,
            mu=plans[c].mu_pairs,
            scope=facts.classes.scopes[c],
        )
        released[c] = ReleasedClass(
            counts[c], shares[c], plans[c].noise_std, tables, device
        )
    mixtures = [
        Mixture.independent(share, rank)
        for share, rank in zip(shares, ranks, strict=True)
    ]
    if paying:
        fitted = fit_mixtures(
            list(released.values()),
            prior[paying] / prior[paying].sum(),
            [ranks[c] for c in paying],
            bins.starts,
            seed=seed,
            device=device,
        )
        for c, mixture in zip(paying, fitted, strict=True):
            mixtures[c] = mixture
    generator = MixtureGenerator(mixtures, bins.starts)
    learnt = [c in released for c in range(len(plans))]
    generator.lend(learnt, [plan.n_rows for plan in plans])
    return PairStart(model, bins, generator, released)
