"""A synthesizer of one's own in one file: AIM's choice of what to measure next.

Run ``python examples/aim.py``; ``--quick`` takes fewer rounds. AIM (McKenna et al.
2022, https://arxiv.org/abs/2201.12677) begins with the marginals of single columns.
Then it measures, again and again, the table that its model explains worst. Here the
tables are of two columns, and the model is the mixture of `MarginalSynthesizer`.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from numbers import Integral

import numpy as np

from skdpsynth.datasets import load_thyroid
from skdpsynth.extension import (
    Ask,
    GeneratedSynthesizer,
    Pairs,
    Spend,
    allocate_measurements,
    choose_table_bins,
    measure,
    noisy_pair_distances,
)


class AIMSynthesizer(GeneratedSynthesizer):
    """Synthetic tables from marginals, and the pairs of columns explained worst.

    Parameters
    ----------
    epsilon, delta, target, schema, budget : shared
    n_rounds : int, default=8
        Tables of two columns of each class that can afford some; at most all.
    random_state : int, RandomState instance or None, default=None
        Seeds the generator's first parameters and `sample`, never the noise.

    Attributes
    ----------
    epsilon_, delta_, schema_, classes_, measurements_ : shared
    generator_ : MixtureGenerator or FactorGenerator
        The fitted generator; public.
    n_features_in_, feature_names_in_ : shared

    Notes
    -----
    **Privacy guarantee.** ``(epsilon_, delta_)``-differential privacy for adding or
    removing one row. Bins are functions of released marginals, and what a model expects
    is one of releases. A row changes one cell of the table of each of P pairs by 1, so
    it moves their P distances to what is expected by at most 1 each: L2 sensitivity
    ``sqrt(P)``, in every round. It is in one cell of the table that is then measured:
    sensitivity 1. Classes are disjoint and compose in parallel.

    Where AIM has the exponential mechanism, noisy distances of all pairs are released,
    so that the noise of a table can be taken off each, as AIM does.
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        target=None,
        schema=None,
        budget=None,
        n_rounds=8,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.schema = schema
        self.budget = budget
        self.n_rounds = n_rounds
        self.random_state = random_state

    def _check_parameters(self):
        if not isinstance(self.n_rounds, Integral) or self.n_rounds < 1:
            msg = f"n_rounds must be an int >= 1. Got {self.n_rounds!r} instead."
            raise ValueError(msg)

    def _plan_classes(self, labels, counts, n_continuous, n_discrete, mu):
        """Allocate to marginals what `MarginalSynthesizer` does, and share the rest.

        A tenth of its squared mu is for choices. A class with few rows has marginals
        alone, and borrows how columns depend on each other.
        """
        n_tables = min(self.n_rounds, math.comb(n_continuous + n_discrete, 2))
        plans = []
        for label, count in zip(labels, counts.tolist(), strict=True):
            plan = allocate_measurements(
                label, count, n_continuous, n_discrete, mu, form="pairs", order=2
            )
            if plan.pairs.mu:
                rest = math.hypot(plan.pairs.mu, plan.relations.mu)
                choice, tables = rest * math.sqrt(0.1), rest * math.sqrt(0.9)
                plan = replace(
                    plan,
                    choice=Spend(choice),
                    pairs=Spend(tables),
                    relations=Spend(),
                    n_tables=n_tables,
                )
            plans.append(plan)
        return plans

    def _fit(self, rows, metadata, plans, accountant, seed):
        one_way = [replace(plan, pairs=Spend()) for plan in plans]
        measured = measure(rows, metadata, one_way, accountant)
        model = self._fit_generator(measured, seed)
        bins, shares = choose_table_bins(measured, plans)
        expected = [np.outer(own, own) for own in shares]  # of independent columns
        ask = Ask(rows, metadata.classes, accountant)
        for n in range(max(plan.n_tables for plan in plans)):
            for c, plan in enumerate(plans):
                if not plan.n_tables:
                    continue
                counts = measured.sizes[c] * expected[c]
                known = measured.pairs[c].pairs if n else []
                pair = _worst_pair(ask, c, bins, counts, known, plan)
                mu = plan.pairs.mu / math.sqrt(plan.n_tables)
                answer = ask.release(Pairs(bins, pair), [mu], [c])
                measured = measured.and_more(answer)
            model = self._fit_generator(measured, seed)
            expected = [own.pair_shares() for own in self.generator_.mixtures]
        return model


def _worst_pair(ask, c, bins, expected, known, plan):
    """Choose the pair of columns whose table a model explains worst, beyond noise."""
    pairs = np.stack(np.triu_indices(len(bins.sizes), 1), axis=1)
    rows, scope = ask.of(c)
    line = ask.accountant.reserve_gaussian(
        "choice of a pair",
        mu=plan.choice.mu / math.sqrt(plan.n_tables),
        sensitivity=math.sqrt(len(pairs)),
        scope=scope,
        answer=False,
    )
    expected = np.rint(expected).astype(np.int64)
    codes = rows.map(bins.encode)
    distances = noisy_pair_distances(codes, bins.sizes, expected, line)
    n_cells = np.array(bins.sizes)[pairs].prod(axis=1)
    gains = distances - math.sqrt(2 / math.pi) * plan.pairs.noise_std * n_cells
    for pair in known:
        gains[(pairs == pair).all(axis=1)] = -np.inf
    return pairs[[gains.argmax()]]


QUICK = "--quick" in sys.argv


def main() -> None:
    """Fit, and say which pairs were chosen."""
    synth = AIMSynthesizer(
        epsilon=3.0, target="class", n_rounds=2 if QUICK else 8, random_state=0
    )
    synth.fit(load_thyroid())
    for table in synth.measurements_.tables():
        if table.order == 2:
            first, second = table.columns
            print(f"{first} and {second}, of {table.class_label}")
    print(synth.privacy_report())
    print(synth.sample(5))


if __name__ == "__main__":
    main()
