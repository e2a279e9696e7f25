"""
Images as tables
================

The digits of scikit-learn are a table of 64 numbers and a label. How do synthetic ones
look at three budgets?
"""

# %%
# 1,797 images are few, 180 for each digit, so the budgets here are large. The last fit
# has no noise and no privacy, to show the best that the generator can do. MNIST with
# 60,000 images needs epsilon 1 to 10 (:doc:`/images`).

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skdpsynth import GPATESynthesizer
from skdpsynth.metrics import tstr_scores
from skdpsynth.schema import Categorical, Continuous, TableSchema

table = load_digits(as_frame=True).frame
table = table.astype("int64")
train, test = table[::2], table[1::2]
pixels = Continuous(0, 16, integer=True, scale="linear")
names = table.columns.drop("target")
columns = dict.fromkeys(names, pixels) | {"target": Categorical(list(range(10)))}
schema = TableSchema(columns, target="target")

# %%
# At these budgets there are too few rows for 2-way marginals of 64 columns, so second
# moments are measured; then teachers compare products of two pixels, which takes more
# rows or more budget than epsilon 10.

drawn = {"real": train}
for epsilon in (10.0, 100.0, float("inf")):
    synth = GPATESynthesizer(epsilon, schema=schema, random_state=0)
    synth.fit(train)
    name = "without noise" if epsilon == float("inf") else f"epsilon {epsilon:g}"
    drawn[name] = synth.sample(1_000, sampling_strategy="balanced", random_state=0)

# %%
# Logistic regression, trained on them and tested on the other half of the real digits.

for name, rows in drawn.items():
    scores = tstr_scores(rows, test, target="target", classifiers="LogisticRegression")
    print(f"{name:15} AUROC {scores.loc['mean', 'auroc']:.3f}")

# %%
# The first eight of each digit, in the order of sampling.

figure, axes = plt.subplots(1, 4, figsize=(12, 4.6), layout="constrained")
for ax, (name, rows) in zip(axes, drawn.items(), strict=True):
    lines = []
    for digit in range(10):
        own = rows[rows["target"] == digit].drop(columns="target")[:8]
        images = np.pad(own.to_numpy().reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
        lines.append(np.hstack(images))
    ax.imshow(np.vstack(lines), cmap="Greys", vmin=0, vmax=16)
    ax.set_title(name)
    ax.axis("off")
note = "contains private statistics: shows real rows"
figure.supxlabel(note, fontsize=9)
plt.show()
