"""
Tables that never meet
======================

Five hospitals want one synthetic table of all their patients. No row may leave a
hospital. What is released under differential privacy may.
"""

# %%
# Five hospitals of different sizes, made up. The fifth has old patients. Everybody is
# at one hospital only.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth import (
    MarginalSynthesizer,
    Measurements,
    TableSchema,
    combine_measurements,
)
from skdpsynth.metrics import marginal_fidelity
from skdpsynth.schema import Boolean, Categorical, Continuous

rng = np.random.default_rng(0)


def patients(n_rows, age):
    """Make the table of a hospital."""
    age = rng.normal(age, 15, n_rows).clip(18, 100).round()
    weight = (60 + 0.2 * age + rng.normal(0, 12, n_rows)).clip(35, 180).round()
    pressure = (85 + 0.5 * age + 0.2 * weight + rng.normal(0, 10, n_rows)).round()
    return pd.DataFrame(
        {
            "age": age.astype(int),
            "weight": weight.astype(int),
            "pressure": pressure.clip(70, 230).astype(int),
            "ward": rng.choice(["a", "b", "c"], n_rows, p=[0.6, 0.3, 0.1]),
            "readmitted": rng.random(n_rows) < 1 / (1 + np.exp((165 - pressure) / 12)),
        }
    )


sizes = {"A": (7_000, 46), "B": (5_000, 48), "C": (4_000, 50), "D": (2_400, 52)}
hospitals = {name: patients(*own) for name, own in sizes.items()}
hospitals["E"] = patients(1_600, 74)
everybody = pd.concat(hospitals.values(), ignore_index=True)

# %%
# What is public is declared, the same for all. The largest hospital fits first.

public = TableSchema(
    {
        "age": Continuous(18, 100, integer=True),
        "weight": Continuous(35, 180, integer=True),
        "pressure": Continuous(70, 230, integer=True),
        "ward": Categorical(["a", "b", "c"]),
        "readmitted": Boolean(),
    },
    target="readmitted",
)
site_a = MarginalSynthesizer(epsilon=1.0, schema=public, random_state=0)
site_a.fit(hospitals["A"]).measurements_.save("site_a.json")

# %%
# The others read that file, and measure the same tables in the same bins. Each spends
# its own epsilon.

first = Measurements.load("site_a.json")
files = ["site_a.json"]
for name in "BCDE":
    site = MarginalSynthesizer(epsilon=1.0, schema=first.schema, design=first)
    site.fit(hospitals[name]).measurements_.save(f"site_{name.lower()}.json")
    files.append(f"site_{name.lower()}.json")

# %%
# Whoever has the five files adds them up, and fits a generator. No table is needed.

together = combine_measurements(map(Measurements.load, files))
synth = MarginalSynthesizer.from_measurements(together, random_state=0)
print(synth.privacy_report().notes[0])
rows = synth.sample(len(everybody))

# %%
# The distance of pairs of columns from the rows of all hospitals, which nobody has
# outside of an example: of a fit to all rows at once, of the five files, and of the
# files of one hospital each.

whole = MarginalSynthesizer(epsilon=1.0, schema=public, random_state=0).fit(everybody)
tables = {"all rows at once": whole.sample(len(everybody)), "five files": rows}
for name, file in zip("ABCDE", files, strict=True):
    own = MarginalSynthesizer.from_measurements(Measurements.load(file))
    tables[f"{name} alone"] = own.sample(len(everybody))
scores = {name: marginal_fidelity(everybody, own, k=2) for name, own in tables.items()}
distances = pd.Series({name: own.mean() for name, own in scores.items()})
distances.round(3)

# %%

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
bins = np.arange(18, 102, 4)
for kind, style in (("five files", "k-"), ("A alone", "k:"), ("E alone", "k--")):
    shares, _ = np.histogram(tables[kind]["age"], bins, density=True)
    axes[0].plot(bins[:-1] + 2, shares, style, label=kind)
shares, _ = np.histogram(everybody["age"], bins, density=True)
axes[0].fill_between(bins[:-1] + 2, shares, color="0.85", label="real rows of all")
axes[0].set(xlabel="age", ylabel="density", ylim=(0, None))
axes[0].legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
axes[1].barh(distances.index[::-1], distances[::-1], color="0.4")
axes[1].set_xlabel("2-way distance from the rows of all")
figure.supxlabel("contains private statistics: drawn from real rows too", fontsize=9)
plt.show()

# %%
# The claim holds for somebody who is a patient of one hospital. For somebody who is
# known to two of them, their epsilons add up.

import os

for file in files:
    os.remove(file)
