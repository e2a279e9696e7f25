"""
A first release
===============

Fit a synthesizer to the Adult table, read its privacy report, sample rows, and compare
two columns with the real ones.
"""

# %%
# The table has 32,561 rows about people. Its labels are public, so the schema declares
# them. Everything else is measured, within the budget.

from skdpsynth import MarginalSynthesizer
from skdpsynth.datasets import load_adult
from skdpsynth.schema import Categorical, TableSchema

train, test = load_adult(split=True)
public = TableSchema({"income": Categorical(["<=50K", ">50K"])}, target="income")
synth = MarginalSynthesizer(epsilon=1.0, delta=1e-5, schema=public, random_state=0)
synth.fit(train)

# %%
# The report lists every release. Its first paragraph is meant to be quoted.

report = synth.privacy_report()
print(report.statement)

# %%
# An assertion stops a program from publishing too much. Here it passes.

report.assert_within(epsilon=1.0, delta=1e-5)

# %%
# Sampling uses no budget. Columns, order and dtypes are those of the training table.

fake = synth.sample(10_000)
fake.head()

# %%
# A numeric and a categorical column, as shares of rows.

import matplotlib.pyplot as plt
import numpy as np

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
bins = np.arange(16.5, 92, 3)
left.hist(train["age"], bins, density=True, color="0.75", label="real")
left.hist(
    fake["age"], bins, density=True, histtype="step", color="k", label="synthetic"
)
left.set(title="age", ylabel="share of rows, per year")
left.legend(frameon=False)

shares = train["education"].value_counts(normalize=True)
found = fake["education"].value_counts(normalize=True).reindex(shares.index)
right.bar(shares.index, shares, color="0.75")
right.plot(shares.index, found, "kD", markersize=4)
right.set_title("education")
right.tick_params(axis="x", rotation=90)
right.margins(x=0.01)
note = "contains private statistics: drawn from real rows too"
figure.supxlabel(note, fontsize=9)
plt.show()
