"""
Numbers as people write them
============================

Salaries are round, prices end in .99, and trains leave at the quarter of an hour. Does
a synthetic table keep such habits?
"""

# %%
# A made-up table. All salaries are multiples of 1,000, most of them of 5,000. Prices
# end in 99, 95 or 50 cents. A departure at half past seven is the number 730. There are
# 40 routes, each with one distance. The duration depends on the route, and is a
# multiple of five minutes. 20,000 rows are for the fit, and 20,000 others to compare
# with.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
n_rows = 40_000
step = rng.choice([1_000, 5_000, 10_000], n_rows, p=[0.5, 0.3, 0.2])
salary = np.maximum(np.rint(rng.lognormal(10.6, 0.45, n_rows) / step), 1) * step
cents = rng.choice([0.99, 0.95, 0.5], n_rows, p=[0.6, 0.25, 0.15])
price = np.round(np.floor(rng.lognormal(2.8, 0.8, n_rows)) + cents, 2)
hour = np.clip(np.rint(rng.normal(rng.choice([8, 17], n_rows), 2.2)), 5, 23)
quarter = rng.choice([0, 15, 30, 45], n_rows, p=[0.4, 0.15, 0.3, 0.15])
minute = np.where(rng.random(n_rows) < 0.25, rng.integers(0, 60, n_rows), quarter)
lengths = rng.choice(np.arange(40, 900), 40, replace=False)
speeds = rng.uniform(55, 95, 40)  # kilometres per hour
route = np.minimum(rng.geometric(0.06, n_rows) - 1, 39)  # some are rare
late = rng.normal(1, 0.04, n_rows)
table = pd.DataFrame(
    {
        "salary": salary.astype(int),
        "price": price,
        "departure": (100 * hour + minute).astype(int),
        "distance": lengths[route],
        "duration": 5 * np.rint(12 * lengths[route] / speeds[route] * late).astype(int),
    }
)
real, others = table[: n_rows // 2], table[n_rows // 2 :]
real.head()

# %%
# Nothing is declared. The fit measures how finely numbers are written ("decimals" in
# the list of releases), their last two digits ("remainders") and frequent values. These
# three have 6 % of the budget.

from skdpsynth import MarginalSynthesizer

synth = MarginalSynthesizer(epsilon=1.0, random_state=0).fit(real)
fake = synth.sample(len(real), random_state=0)
for entry in synth.privacy_report().entries:
    print(entry.name)

# %%
# A bar for each value, in a part of the range: real rows above, synthetic ones below.
# Clock times have no minute after 59, so real rows have none of 760 to 799. A few
# synthetic ones do: to the fit these are numbers like any other.

windows = {"salary": (24_300, 60_700), "price": (9.3, 13.2), "departure": (650, 905)}
figure, axes = plt.subplots(
    2, 3, figsize=(10, 4.4), sharex="col", sharey="col", layout="constrained"
)
for column, (name, window) in zip(axes.T, windows.items(), strict=True):
    column[0].set(title=name, xlim=window)
    for ax, rows, colour in zip(column, (others, fake), ("0.5", "k"), strict=True):
        shares = rows.loc[rows[name].between(*window), name].value_counts() / len(rows)
        ax.vlines(shares.index, 0, shares, color=colour, linewidth=1.4)
        ax.xaxis.set_major_formatter("{x:,.0f}" if name == "salary" else "{x:g}")
    column[0].set_ylim(0)
for ax, kind in zip(axes[:, 0], ("real", "synthetic"), strict=True):
    ax.set_ylabel(f"share of {kind} rows")
note = "contains private statistics: drawn from real rows too"
figure.supxlabel(note, fontsize=9)
plt.show()

# %%
# Two scores of each column: the share of its values that occur in the rows of the fit,
# and C2ST, which is how well gradient boosting separates these rows from synthetic ones
# by this column alone (0.5 is chance, 1 is without error). Other real rows are scored
# in the same way.

from sklearn.ensemble import HistGradientBoostingClassifier

from skdpsynth.metrics import two_sample_scores


def c2st(rows, name):
    """Score one column, or all if the name is a list, on 10,000 rows of each table."""
    names = [name] if isinstance(name, str) else name
    boosting = {"boosting": HistGradientBoostingClassifier(random_state=0)}
    return two_sample_scores(
        real[names], rows[names], classifiers=boosting, max_rows=10_000
    )["boosting"]


tables = {"other real rows": others, "synthetic": fake}
scores = {}
for kind, rows in tables.items():
    scores["values of real rows", kind] = [rows[n].isin(real[n]).mean() for n in real]
    scores["C2ST", kind] = [c2st(rows, n) for n in real]
pd.DataFrame(scores, index=real.columns).sort_index(axis=1).round(3)

# %%
# Here a value is found if it has about 220 of the 20,000 rows. Eleven routes have
# fewer, so their synthetic distances are only near the real ones. A classifier that
# sees all columns recognises more rows than one that sees a single column:

print(f"C2ST of all columns: {c2st(fake, list(real)):.2f}")

# %%
# Distance and duration depend on each other. ``broken_relations`` counts the rows that
# have a pair of values that real rows (nearly) never have.

from skdpsynth.metrics import broken_relations

broken_relations(others, fake).round(3)

# %%
# Each point is a row, 3,000 of them in each picture.

figure, axes = plt.subplots(
    1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained"
)
for ax, (kind, rows) in zip(axes, tables.items(), strict=True):
    some = rows[:3_000]
    ax.scatter(some["distance"], some["duration"], 6, color="k", alpha=0.3, lw=0)
    ax.set(title=kind, xlabel="distance, km")
axes[0].set_ylabel("duration, minutes")
figure.supxlabel(note, fontsize=9)
plt.show()
