"""
Auditing somebody else's generator
==================================

Any object with ``fit`` and ``sample`` can be attacked: was a given row in the table? An
audit can refute a privacy claim, but never prove it.
"""

# %%
# A generator from elsewhere claims epsilon 1. Like many published ones, it scales
# columns by their exact minimum and maximum, and adds noise only after that, to a
# histogram.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd


class Histogram:
    """Noisy shares of ten bins between the exact minimum and maximum."""

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, table):
        """Count rows in bins, and add Laplace noise to the counts."""
        rng = np.random.default_rng()
        values = table["x"]
        self.edges_ = np.linspace(values.min(), values.max(), 11)
        counts = np.histogram(values, self.edges_)[0]
        noisy = np.maximum(counts + rng.laplace(0, 1 / self.epsilon, 10), 0) + 1e-9
        self.shares_ = noisy / noisy.sum()
        return self

    def sample(self, n_rows):
        """Draw a bin, and a value in it."""
        rng = np.random.default_rng()
        bins = rng.choice(10, n_rows, p=self.shares_)
        width = self.edges_[1] - self.edges_[0]
        return pd.DataFrame({"x": self.edges_[bins] + width * rng.random(n_rows)})


# %%
# A made-up table: 200 rows in one corner. The canary, the row to detect, is far away.
# Two hundred fits without it, two hundred with it; the attack gets fifty sampled rows
# of each.

from skdpsynth.audit import audit_generator

table = pd.DataFrame({"x": np.random.default_rng(0).uniform(-10, -9, 200)})
canary = {"x": 9.0}
stranger = audit_generator(
    Histogram(), table, canary, epsilon=1.0, delta=1e-5, n_runs=200, n_samples=50
)
print(stranger)

# %%
# The same attack on a synthesizer of this package finds nothing. That proves nothing:
# the proof is in its docstring, and ``audit_ledger`` checks every release.

from skdpsynth import IndependentSynthesizer
from skdpsynth.schema import Continuous, TableSchema

schema = TableSchema({"x": Continuous(-10, 10)}, n_rows=200)
ours = audit_generator(
    IndependentSynthesizer(epsilon=1.0, delta=1e-5, schema=schema),
    table,
    canary,
    n_runs=200,
    n_samples=50,
)
print(ours)

# %%
# The score that the attack selected, in the other fits: black without the canary, grey
# with it. On the left the other generator, whose worlds are apart: neither false alarms
# nor misses. On the right ours.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for ax, audit in zip(axes, (stranger, ours), strict=True):
    ax.hist([audit.absent, audit.present], color=["k", "0.7"])
    title = f"epsilon at least {audit.lower_bound:.2f}, claimed 1"
    ax.set(xlabel=audit.score, title=title)
plt.show()
