"""Write a CSV file as one gets them: 5,000 visits, with all that is awkward in it.

Identifiers, dates as 31.12.2024, free text, money, missing values, zip codes with
leading zeros, yes and no, semicolons, an encoding that is not UTF-8, and a label that
2.4 % of the rows have. All of it is drawn at random; no row is of anybody. Run ``python
examples/messy_csv.py``; docs/command_line.md takes the file to a release.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

N_ROWS = 5_000
CITIES = {
    "01067": "Dresden",
    "04109": "Leipzig",
    "20095": "Hamburg",
    "80331": "München",
}
WARDS = ["Surgery", "Cardiology", "Pediatrics", "Emergency"]
REMARKS = ["called back", "über Nacht", "see file; no change", "", "patient late"]


def visits(n_rows: int = N_ROWS, seed: int = 0) -> pd.DataFrame:
    """Draw the table.

    Parameters
    ----------
    n_rows : int, default=5000
        Number of rows.
    seed : int, default=0
        Of the random numbers.

    Returns
    -------
    DataFrame
        As texts and numbers, the way that a file has them.
    """
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(6.0, 9.0, n_rows), 0, 99).round().astype(int)
    admitted = pd.Timestamp("2022-01-01") + pd.to_timedelta(
        rng.integers(0, 3 * 365, n_rows), unit="D"
    )
    days = rng.poisson(1.5 + age / 25)
    ward = np.where(age < 16, 2, rng.choice([0, 1, 3], n_rows, p=[0.4, 0.25, 0.35]))
    smoker = rng.random(n_rows) < 0.2 + 0.1 * (ward == 1)
    weight = (74 + 9 * rng.normal(size=n_rows)) * np.minimum(1, 0.25 + age / 24)
    cost = 180 * days + np.exp(rng.normal(5.0 + 0.5 * (ward == 0), 0.6, n_rows))
    odds = -6.05 + 0.025 * age + 0.9 * smoker + 0.15 * days
    again = rng.random(n_rows) < 1 / (1 + np.exp(-odds))
    zips = rng.choice([*CITIES], n_rows, p=[0.3, 0.2, 0.2, 0.3])
    return pd.DataFrame(
        {
            "patient_id": [f"P{n:06d}" for n in rng.permutation(900_000)[:n_rows]],
            "admitted": admitted.strftime("%d.%m.%Y"),
            "age": age,
            "zip": zips,
            "city": [CITIES[own] for own in zips],
            "ward": np.array(WARDS)[ward],
            "smoker": np.where(
                rng.random(n_rows) < 0.08, "", np.where(smoker, "yes", "no")
            ),
            "weight": np.where(rng.random(n_rows) < 0.12, np.nan, weight.round(1)),
            "days": days,
            "cost": cost.round(2),
            "remark": rng.choice(REMARKS, n_rows, p=[0.2, 0.1, 0.1, 0.5, 0.1]),
            "readmitted": np.where(again, "yes", "no"),
        }
    )


def main() -> None:
    """Write the visits, and others of the same kind to test classifiers on."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    words = "where to write them; by default here"
    parser.add_argument("folder", nargs="?", default=".", type=Path, help=words)
    folder = parser.parse_args().folder
    for name, seed in (("visits.csv", 0), ("visits_test.csv", 1)):
        table = visits(seed=seed)
        table.to_csv(folder / name, sep=";", encoding="latin-1", index=False)
        share = (table["readmitted"] == "yes").mean()
        print(f"{name}: {len(table):,} rows, {share:.1%} of them readmitted")


if __name__ == "__main__":
    main()
