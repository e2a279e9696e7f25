"""
Comparing synthesizers
======================

Four algorithms of papers, the measurements that they start from and the independent
baseline on one table, at one budget: scores, costs, how they rank classifiers, and
pairs of columns beside the real ones.
"""

# %%
# The synthesizers of the papers measure what `MarginalSynthesizer` does, and train by
# their own loops with a twentieth of the budget; all have their defaults. Each one is
# fitted once to 6,000 rows of Adult at epsilon 3. One fit is too few to rank them:
# ``n_repeats`` is 3 by default, and a difference below one standard deviation of the
# repeats means nothing.

import matplotlib.pyplot as plt

from skdpsynth import (
    DPCGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
)
from skdpsynth.datasets import load_adult
from skdpsynth.evaluation import compare_synthesizers
from skdpsynth.metrics import synthetic_ranking_agreement
from skdpsynth.schema import Categorical, TableSchema

train, test = load_adult(split=True)
public = TableSchema({"income": Categorical(["<=50K", ">50K"])}, target="income")
result = compare_synthesizers(
    {
        "G-PATE": GPATESynthesizer(schema=public),
        "PATE-GAN": PATEGANSynthesizer(schema=public),
        "DP-CGAN": DPCGANSynthesizer(schema=public),
        "PATE-TripleGAN": PATETripleGANSynthesizer(schema=public),
        "marginals": MarginalSynthesizer(schema=public),
        "baseline": IndependentSynthesizer(schema=public),
    },
    train[:6_000],
    test[:8_000],
    "income",
    epsilons=(3.0,),
    n_repeats=1,
    fidelity=False,
    n_samples=4_000,
    classifiers=[
        "LogisticRegression",
        "RandomForestClassifier",
        "GaussianNB",
        "BernoulliNB",
        "DecisionTreeClassifier",
        "LinearDiscriminantAnalysis",
    ],
    n_jobs=1,
)
summary = result.summary().set_index("synthesizer")
summary[["auroc", "auprc", "sra_auroc", "sra_auprc", "fit_s"]].round(3)

# %%
# ``sra_auroc`` is the synthetic ranking agreement: the share of the 15 pairs of
# classifiers that have the same order when they learn and are tested on synthetic rows
# as when both are real. The same between the synthesizers: do two of them put the
# classifiers in the same order? That needs no real row, but for the line of real data.

areas = result.scores.query("metric == 'auroc' and setting == 'C'")
by_synthesizer = areas.pivot_table("value", "classifier", "synthesizer", sort=False)
by_synthesizer.corr(synthetic_ranking_agreement).round(2)

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
