"""
Comparing synthesizers
======================

Marginals of two and three columns, marginals of two alone, two algorithms of papers and
the independent baseline on one table, at one budget: scores, costs, and pairs of
columns beside the real ones.
"""

# %%
# `GPATESynthesizer` and `DPCGANSynthesizer` measure what `MarginalSynthesizer` does,
# and train by the loops of their papers with a twentieth of the budget. Each one is
# fitted once to 8,000 rows of Adult at epsilon 3. One fit is too few to rank them:
# ``n_repeats`` is 3 by default, and a difference below one standard deviation of the
# repeats means nothing.

import matplotlib.pyplot as plt

from skdpsynth import (
    DPCGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
)
from skdpsynth.datasets import load_adult
from skdpsynth.evaluation import compare_synthesizers
from skdpsynth.schema import Categorical, TableSchema

train, test = load_adult(split=True)
public = TableSchema({"income": Categorical(["<=50K", ">50K"])}, target="income")
result = compare_synthesizers(
    {
        "3-way": MarginalSynthesizer(schema=public),
        "2-way": MarginalSynthesizer(order=2, schema=public),
        "G-PATE": GPATESynthesizer(schema=public),
        "DP-CGAN": DPCGANSynthesizer(schema=public),
        "baseline": IndependentSynthesizer(schema=public),
    },
    train[:8_000],
    test,
    "income",
    epsilons=(3.0,),
    n_repeats=1,
    fidelity=False,
    n_samples=4_000,
    classifiers=["LogisticRegression", "GaussianNB", "RandomForestClassifier"],
    n_jobs=1,
    verbose=0,
)
result.summary().set_index("synthesizer")[["auroc", "auprc", "fit_s"]].round(3)

# %%
# Each classifier; black bars are real rows. Gaussian naive Bayes does worse with these,
# because it fails on rare categories.

result.plot_classifiers()
plt.show()

# %%
# The four pairs of columns with the strongest dependence. For the baseline every row of
# cells has the same pattern, except for what the label explains.

result.plot_pairs()
plt.show()
