"""A synthesizer of one's own in one file: AIM's choice of what to measure next.

Run ``python examples/aim.py``; ``--quick`` takes fewer rounds. AIM (McKenna et al.
2022, https://arxiv.org/abs/2201.12677) begins with the marginals of single columns.
Then it measures, again and again, the table that its model explains worst. Here the
tables are of two columns, and the model is the mixture of `MarginalSynthesizer`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from numbers import Integral

from skdpsynth.datasets import load_thyroid
from skdpsynth.extension import (
    Ask,
    GeneratedSynthesizer,
    allocate,
    choose_worst,
    measure,
)


@dataclass(eq=False, repr=False)
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

    # Beside those that all synthesizers have.
    n_rounds: int = 8
    random_state: object = None

    def _check_parameters(self):
        if not isinstance(self.n_rounds, Integral) or self.n_rounds < 1:
            msg = f"n_rounds must be an int >= 1. Got {self.n_rounds!r} instead."
            raise ValueError(msg)

    def _allocate(self, table, mu):
        # Of the squared mu, each of what is left; marginals have the rest.
        shares = {"choice": 0.1, "pairs": 0.7}
        return allocate(table, mu, shares=shares, n_tables=self.n_rounds)

    def _fit(self, rows, metadata, plans, accountant, seed):
        ask, expected = Ask(rows, metadata.classes, accountant), [None] * len(plans)
        measured = measure(rows, metadata, plans, accountant, pairs=False)
        model = self._fit_generator(measured, seed)
        for _ in range(max(plan.n_tables for plan in plans)):
            for c, plan in enumerate(plans):
                if plan.n_tables:
                    worst = choose_worst(measured, plans, c, ask, expected[c])
                    mu = plan.mu_of("pairs", plan.n_tables)
                    measured = measured.and_more(ask.of_each(worst, [mu], [c]))
            model = self._fit_generator(measured, seed)
            expected = [mixture.pair_shares() for mixture in self.generator_.mixtures]
        return model


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
