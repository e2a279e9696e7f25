"""
Rows on request, and a target that is a number
==============================================

Sample rows that satisfy a condition, and synthesize a table whose target is a number,
not a class.
"""

# %%
# The generator samples under conditions directly, at no cost: married women between 25
# and 60, from a fit to all rows.

import matplotlib.pyplot as plt

from skdpsynth import MarginalSynthesizer
from skdpsynth.datasets import load_adult

columns = ["age", "sex", "marital-status", "hours-per-week", "education-num", "income"]
train, test = (part[columns] for part in load_adult(split=True))
synth = MarginalSynthesizer(epsilon=1.0, target="income", random_state=0).fit(train)
where = {"sex": "Female", "marital-status": "Married-civ-spouse", "age": (25, 60)}
rows = synth.sample(2_000, where=where, random_state=0)
rows.head()

# %%
# Compare with the same part of the real test rows.

real = test[
    (test["sex"] == "Female")
    & (test["marital-status"] == "Married-civ-spouse")
    & test["age"].between(25, 60)
]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, name, bins in (
    (left, "hours-per-week", range(0, 101, 5)),
    (right, "education-num", [b - 0.5 for b in range(1, 18)]),
):
    ax.hist(real[name], bins, density=True, color="0.75", label="real")
    ax.hist(
        rows[name], bins, density=True, histtype="step", color="k", label="synthetic"
    )
    ax.set(title=name, ylabel="density")
left.legend(frameon=False)
note = "contains private statistics: drawn from real rows too"
figure.supxlabel(note, fontsize=9)
plt.show()

# %%
# A target is a number if it is a float column, or if the schema declares it as
# ``Continuous``. Here the target is the weekly hours.

from skdpsynth.metrics import tstr_scores
from skdpsynth.schema import Continuous, TableSchema

public = TableSchema({"hours-per-week": Continuous(1, 99, integer=True)})
measured = MarginalSynthesizer(
    epsilon=1.0, target="hours-per-week", schema=public, random_state=0
).fit(train)
for name, rows in (("real", train), ("synthetic", measured.sample(len(train)))):
    scores = tstr_scores(
        rows, test, target="hours-per-week", classifiers="HistGradientBoostingRegressor"
    )
    print(f"{name:9} R2 {scores.loc['mean', 'r2']:.3f}")
