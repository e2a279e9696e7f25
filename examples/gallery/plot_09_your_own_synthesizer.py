"""
Writing your own synthesizer
============================

Sixty lines are enough; the base class provides schemas, measurements, the ledger,
sampling and files. Then we break it, and the audit detects that.
"""

# %%
# A simple algorithm: the marginals of every column in every class, and one more number
# per class: how often the first two columns are on the same side of their medians. It
# determines the correlation of a Gaussian copula.

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import ndtr

from skdpsynth.extension import BaseSynthesizer, allocate, measure
from skdpsynth.privacy.statistics import noisy_pair_tables


class TwoColumnSynthesizer(BaseSynthesizer):
    """Marginals, and the dependence of the first two columns.

    **Privacy guarantee.** The medians are functions of released marginals. A row is in
    one cell of the table of signs, so that has L2 sensitivity 1. Classes are disjoint.
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        target=None,
        schema=None,
        budget=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.schema = schema
        self.budget = budget
        self.random_state = random_state

    def _allocate(self, table, mu):
        share = math.sqrt(0.9)  # of mu for the marginals: nine tenths of its square
        return allocate(table, mu * share, order=1)

    def _fit(self, rows, metadata, plans, accountant, seed):
        self.measurements_ = measure(rows, metadata, plans, accountant)
        model = self.measurements_.model
        self.correlations_ = np.zeros(len(plans))
        for c, scope in enumerate(metadata.classes.scopes):
            own = rows.of_class(c)
            scores = model.score_rows(own, c)[:, :2]
            reservation = accountant.reserve_gaussian(
                "signs",
                mu=accountant.remaining_mu(scope) * (1 - 1e-9),
                sensitivity=1.0,
                scope=scope,
                answer=False,
            )
            signs = self._signs(scores)
            table = noisy_pair_tables(signs, [2, 2], np.array([[0, 1]]), reservation)
            counts = np.maximum(table[:2, 2:], 0) + 1.0
            same = np.trace(counts) / counts.sum()
            self.correlations_[c] = math.sin(math.pi * (same - 0.5))
        return model

    def _signs(self, scores):
        return (scores > 0).astype(np.int64)

    def _ranks(self, class_codes, rng):
        n_columns = len(self._model.metadata.columns)
        normal = rng.standard_normal((len(class_codes), n_columns))
        r = np.clip(self.correlations_, -0.99, 0.99)[class_codes]
        normal[:, 1] = r * normal[:, 0] + np.sqrt(1 - r**2) * normal[:, 1]
        return ndtr(normal)

    def _generator_state(self):
        return {}, {"correlations": self.correlations_}

    def _restore_generator(self, document, arrays):
        self.correlations_ = arrays["correlations"]


# %%
# A made-up table with two columns that depend on each other.

from skdpsynth.schema import Continuous, TableSchema

rng = np.random.default_rng(0)
first = rng.normal(0, 1, 5_000)
second = 0.8 * first + 0.6 * rng.normal(0, 1, 5_000)
table = pd.DataFrame({"first": first, "second": second})
schema = TableSchema({"first": Continuous(-5, 5), "second": Continuous(-5, 5)})
synth = TwoColumnSynthesizer(epsilon=1.0, schema=schema).fit(table)
fake = synth.sample(5_000, random_state=0)
print(synth.privacy_report())

# %%
# ``audit_ledger`` compares two fits with the same random numbers on neighbouring
# tables, and the noise with what was charged.

from skdpsynth.audit import audit_ledger

few = table[:300]
canary = {"first": 4.0, "second": -4.0}
print(audit_ledger(TwoColumnSynthesizer(schema=schema), few, canary).findings)

# %%
# Now break it: cut at the exact mean of the scores, which is not charged. One more row
# moves the mean, and other rows change sides.


class BrokenSynthesizer(TwoColumnSynthesizer):
    """Cuts at a number computed from private rows."""

    def _signs(self, scores):
        return (scores > scores.mean(axis=0)).astype(np.int64)


for finding in audit_ledger(BrokenSynthesizer(schema=schema), few, canary).findings:
    print(finding)

# %%
# The result of the correct one. :doc:`/extension` has an algorithm of many rounds, and
# a list of what to check; ``skdpsynth.utils.estimator_checks`` has the checks that our
# synthesizers pass.

figure, axes = plt.subplots(
    1, 2, figsize=(8, 3.8), sharex=True, sharey=True, layout="constrained"
)
for ax, rows, name in zip(axes, (table, fake), ("given", "synthetic"), strict=True):
    ax.plot(rows["first"], rows["second"], "k.", markersize=1.5, alpha=0.5)
    ax.set(title=name, xlabel="first", ylabel="second")
plt.show()
