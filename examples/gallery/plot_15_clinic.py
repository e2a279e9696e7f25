"""
A clinic: patients, visits and prescriptions
============================================

From three CSV files to three CSV files that may be published, with one guarantee per
patient; what that costs, and what one joined table would be.
"""

# %%
# The tables are made up. Prescriptions hang on visits, visits on patients; the blood
# pressure of a visit is near that of the visit before, and falls once a drug is given.

from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth import Link, LinkedSchema, LinkedSynthesizer, TableSchema
from skdpsynth.metrics import linked_fidelity
from skdpsynth.schema import Boolean, Categorical, Continuous, Datetime


def clinic(n, seed):
    """Patients, their visits in order, and what was prescribed."""
    rng = np.random.default_rng(seed)
    age = rng.gamma(9.0, 6.5, n).clip(18, 95).round().astype(int)
    smoker = rng.random(n) < 0.25
    n_visits = rng.poisson(1.2 + 0.02 * age).clip(0, 8)
    own = 112.0 + 0.35 * age + 6.0 * smoker + rng.normal(0.0, 10.0, n)
    day, visits, drugs = rng.integers(0, 900, n), [], []
    for k in range(n_visits.max()):
        here = np.flatnonzero(n_visits > k)
        day[here] += rng.integers(7, 120, len(here)) * (k > 0)
        pressure = (own[here] + rng.normal(0.0, 4.0, len(here))).clip(80, 220).round()
        treated = here[rng.random(len(here)) < (pressure > 140) * 0.6 + 0.05]
        own[treated] -= 8.0
        number = 10 * here + k  # of the visit
        visits.append(np.column_stack((number, here, day[here], pressure)))
        kinds = rng.choice(["ACE", "diuretic"], len(treated), p=[0.7, 0.3])
        drugs.append(pd.DataFrame({"visit": 10 * treated + k, "drug": kinds}))
    names = ["visit", "patient", "date", "pressure"]
    visits = pd.DataFrame(np.concatenate(visits).astype(int), columns=names)
    stroke = rng.random(n) < 1 / (1 + np.exp(-(own - 165.0) / 10.0))
    start = np.datetime64("2020-01-01")
    visits["date"] = start + visits["date"].to_numpy().astype("timedelta64[D]")
    patients = pd.DataFrame({"patient": range(n), "age": age, "smoker": smoker})
    tables = {"patients": patients.assign(stroke=stroke), "visits": visits}
    return tables | {"drugs": pd.concat(drugs, ignore_index=True)}


folder = Path(mkdtemp())
for name, table in clinic(8_000, seed=0).items():
    table.to_csv(folder / f"{name}.csv", index=False)

# %%
# What is public: the kinds and bounds of columns, and how tables hang together. The
# mean pressure of all visits of a patient is measured beside the columns of the
# patient, so that strokes know of it.

schema = LinkedSchema(
    {
        "patients": TableSchema(
            {
                "age": Continuous(18, 95, integer=True),
                "smoker": Boolean(),
                "stroke": Boolean(),
            },
            target="stroke",
        ),
        "visits": TableSchema(
            {
                "date": Datetime(
                    "2020-01-01", "2025-12-31", unit="D", format="%Y-%m-%d"
                ),
                "pressure": Continuous(80, 220, integer=True),
            }
        ),
        "drugs": TableSchema({"drug": Categorical(["ACE", "diuretic"])}),
    },
    [
        Link(
            *("visits", "patients", "patient"),
            max_rows=8,
            order_by="date",
            summaries=["pressure"],
        ),
        Link("drugs", "visits", "visit", max_rows=1),
    ],
)
synth = LinkedSynthesizer(epsilon=3.0, schema=schema, random_state=0)
print(synth.plan(8_000).round(1))

# %%
# A count of visits has a noise of some patients, however many visits each has: all
# visits of one weigh 1 together. In a shell the same is ``skdpsynth fit
# patients=patients.csv visits=visits.csv drugs=drugs.csv --schema clinic.json``.

synth.fit({name: folder / f"{name}.csv" for name in schema.tables})
drawn = synth.sample(8_000, random_state=0)
for name, table in drawn.items():
    table.to_csv(folder / f"synthetic-{name}.csv", index=False)
print(drawn["visits"].head(6).to_string(index=False))

# %%
# One claim for all three tables:

print("\n".join(str(synth.privacy_report()).splitlines()[:9]))

# %%
# Against other patients of the same clinic (scores of real rows are not private; a real
# curator keeps them). `floor` is what two halves of the real patients reach.

others = clinic(4_000, seed=1)
for name, table in drawn.items():
    keys = [key for key in ("patient", "visit") if key in table]
    drawn[name] = table.astype(dict.fromkeys(keys, "int64"))
    if "date" in table:
        drawn[name]["date"] = pd.to_datetime(table["date"]).astype("M8[s]")
scores = linked_fidelity(others, drawn, schema)
print(scores.scores.query("link == 'visits'").round(3).to_string(index=False))
scores.plot("visits")

# %%
# Pressures of two visits in a row, and how they change after a drug. Pairs of columns
# are measured, so what depends on three at once (what was, what was given, what comes)
# is kept in part.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
for ax, tables, title in zip(axes, (others, drawn), ("real", "synthetic"), strict=True):
    visits = tables["visits"].sort_values(["patient", "date"], ignore_index=True)
    after = visits.groupby("patient")["pressure"].shift(-1)
    ax.hist2d(visits["pressure"][after.notna()], after.dropna(), 30, cmap="Greys")
    given = visits["visit"].isin(tables["drugs"]["visit"])
    change = (after - visits["pressure"]).groupby(given).mean()
    words = f"{title}: {change[True]:.1f} after a drug, {change[False]:.1f} else"
    ax.set(title=words, xlabel="pressure", xlim=(90, 180), ylim=(90, 180))
axes[0].set_ylabel("pressure at the next visit")
plt.show()

# %%
# One joined table of visits, with the patient's columns in each, is simpler if a visit
# is all that is asked for: `privacy_unit` protects patients there too, and columns of
# one row are learnt better. It has no order, no patients without visits, and no row
# that knows of the one before.
