"""
A pipeline with a budget
========================

Cross-validation fits once per fold, and every fit is charged. A budget shared by all
clones adds up the charges, and refuses a fit that would exceed it.
"""

# %%
# The synthesizer is the first step of a pipeline of imbalanced-learn. The classifier
# after it is trained on synthetic rows and tested on real ones.

import matplotlib.pyplot as plt
import numpy as np
from imblearn.pipeline import make_pipeline
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_score
from sklearn.preprocessing import StandardScaler

from skdpsynth import MarginalSynthesizer, PrivacyBudget
from skdpsynth.datasets import load_thyroid
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.schema import Boolean, TableSchema

X = load_thyroid()
y = (X.pop("class") < 3).rename("ill")
budget = PrivacyBudget(epsilon=5.0, delta=1e-4)
synth = MarginalSynthesizer(
    epsilon=1.0, schema=TableSchema({"ill": Boolean()}), budget=budget, random_state=0
)
pipeline = make_pipeline(synth, StandardScaler(), LogisticRegression(max_iter=500))

# %%
# Every row is assigned to a fold independently, in secret. With folds by position,
# adding one row would move other rows to other folds, which the charges would not
# cover.

folds = PredefinedSplit(np.random.default_rng().integers(4, size=len(X)))
scores = cross_val_score(
    pipeline, X, y, cv=folds, scoring="roc_auc", error_score="raise"
)
budget.charges

# %%
# The budget allows one more fit, for the table to release. The next one is refused
# before it starts.

X_synthetic, y_synthetic = synth.fit_resample(X, y)
try:
    synth.fit(X, y)
except BudgetExceededError as error:
    print(error)

# %%
# Scores of the folds, and the budget left after each fit.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.bar(range(1, 5), scores, color="0.6", edgecolor="k")
left.set(title="AUROC on real rows", xlabel="fold", ylim=(0.5, 1), xticks=range(1, 5))
names = ["fold 1", "fold 2", "fold 3", "fold 4", "release"]
left_over = 5.0 - budget.charges["epsilon"].cumsum()
right.step(range(6), [5.0, *left_over], "k-", where="post")
right.set(title="epsilon left", ylim=(-0.1, 5.3))
right.set_xticks(np.arange(1, 6), names, rotation=30)
note = "contains private statistics: scored on real rows"
figure.supxlabel(note, fontsize=9)
plt.show()
