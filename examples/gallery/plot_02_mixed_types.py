"""
Mixed types and missing values
==============================

Dates, integers with missing values, ordered categories, booleans and money: the
synthetic table has the same dtypes, and which values are missing depends on other
columns.
"""

# %%
# A made-up table of visits to a clinic. Patients who came by ambulance have no referral
# date, and the older a patient is, the more often a dose is recorded.

import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
n_rows = 20_000
age = rng.integers(0, 100, n_rows)
ambulance = rng.random(n_rows) < 0.1 + 0.004 * age
came = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n_rows), "D")
waited = pd.to_timedelta(rng.integers(1, 60, n_rows), "D")
urgency = np.where(ambulance, rng.integers(1, 3, n_rows), rng.integers(0, 2, n_rows))
grades = pd.CategoricalDtype(["low", "middle", "high"], ordered=True)
table = pd.DataFrame(
    {
        "age": age,
        "ambulance": ambulance,
        "came": came,
        "referred": pd.Series(came - waited).mask(ambulance),
        "urgency": pd.Categorical.from_codes(urgency, dtype=grades),
        "dose": pd.array(rng.poisson(5, n_rows), dtype="Int64"),
        "bill": np.round(rng.lognormal(4 + 1.5 * ambulance, 0.6), 2),
    }
)
table.loc[rng.random(n_rows) > age / 100, "dose"] = pd.NA
table.head()

# %%
# The order of the categories cannot be measured, so the schema declares it. The rest is
# measured: ranges, whole days, two decimals of the bill.

from skdpsynth import MarginalSynthesizer
from skdpsynth.schema import Categorical, TableSchema

public = TableSchema({"urgency": Categorical(["low", "middle", "high"], ordered=True)})
synth = MarginalSynthesizer(epsilon=1.0, schema=public, random_state=0).fit(table)
fake = synth.sample(n_rows)
fake.head()

# %%
# The dtypes are equal, and the schema of the fit has what was measured.

print(fake.dtypes.equals(table.dtypes))
for name in ("age", "referred", "bill"):
    print(name, synth.schema_.columns[name])

# %%
# Missing values depend on other columns in the synthetic table too.

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
decades = np.arange(0, 101, 10)
for rows, style, name in ((table, "k-", "given"), (fake, "k--o", "synthetic")):
    groups = rows["dose"].isna().groupby(pd.cut(rows["age"], decades, right=False))
    left.plot(decades[:-1] + 5, groups.mean(), style, label=name, markersize=4)
left.set(title="rows without a dose", xlabel="age", ylabel="share", ylim=(0, 1))
left.legend(frameon=False)

cells = [("by ambulance", True), ("not by ambulance", False)]
for at, (rows, colour, name) in enumerate(
    ((table, "0.75", "given"), (fake, "0.2", "synthetic"))
):
    shares = [
        rows.loc[rows["ambulance"] == c, "referred"].isna().mean() for _, c in cells
    ]
    bars = right.bar(np.arange(2) + 0.35 * at, shares, 0.33, color=colour, label=name)
    right.bar_label(bars, fmt="%.2f")
right.set_xticks(np.arange(2) + 0.18, [label for label, _ in cells])
right.set(title="rows without a referral date", ylabel="share", ylim=(0, 1.12))
right.legend(frameon=False, loc="center right")
plt.show()
