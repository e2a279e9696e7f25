"""
Rare classes and balanced sampling
==================================

Few measurements are possible in a class of a few hundred rows. The plan says so in
advance. After the fit you can choose the class shares freely.
"""

# %%
# Of 3,772 patients, 93 are in class 1 and 191 in class 2. The plan needs guesses of
# these counts and reads no row.

from skdpsynth import MarginalSynthesizer
from skdpsynth.datasets import load_thyroid
from skdpsynth.schema import Categorical, TableSchema

train, test = load_thyroid(split=True)
public = TableSchema({"class": Categorical([1, 2, 3])}, target="class")
guess = {1: 100, 2: 200, 3: 3_500}
synth = MarginalSynthesizer(epsilon=3.0, schema=public, random_state=0)
plan = synth.plan(dtypes=train.dtypes, class_counts=guess)
plan[["class", "rows", "bins", "signal_to_noise", "tables", "note"]].round(2)

# %%
# Fit once, sample twice. Balanced sampling costs nothing more: every class has its own
# distribution.

synth.fit(train)
natural = synth.sample(6_000, random_state=0)
balanced = synth.sample(6_000, sampling_strategy="balanced", random_state=0)
print(natural["class"].value_counts().sort_index().to_dict())
print(balanced["class"].value_counts().sort_index().to_dict())

# %%
# Train a decision tree on each of them.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.metrics import recall_score
from sklearn.tree import DecisionTreeClassifier

tables = {"real": train, "natural": natural, "balanced": balanced}
recall = {}
for name, table in tables.items():
    tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
    tree.fit(table.drop(columns="class"), table["class"])
    predicted = tree.predict(test.drop(columns="class"))
    recall[name] = recall_score(test["class"], predicted, average=None)
recall = pd.DataFrame(recall, index=pd.Index([1, 2, 3], name="class"))
recall.round(2)

# %%
# With balanced rows the tree finds more of the rare classes, but raises more false
# alarms in the large one.

ax = recall.plot.bar(
    color=["0.85", "0.55", "0.2"], edgecolor="k", figsize=(7, 4), rot=0
)
for bars, hatch in zip(ax.containers, ("", "//", ""), strict=True):
    for bar in bars:
        bar.set_hatch(hatch)
ax.set(ylabel="recall on real test rows", ylim=(0, 1.05))
ax.set_axisbelow(True)
ax.legend(
    title="the tree learns from",
    frameon=False,
    ncols=3,
    loc="lower center",
    bbox_to_anchor=(0.5, 1),
)
note = "contains private statistics: scored on real rows"
ax.figure.text(0.5, 0.005, note, ha="center", fontsize=9)
ax.figure.subplots_adjust(bottom=0.17, top=0.82)
plt.show()
