"""What it costs to protect persons with several rows: Adult, 1 to 10 rows a person.

Every training row of Adult is a person, who has as many rows as a public random number
says, from 1 to 10; weekly hours differ between them by up to 3. `MarginalSynthesizer`
is fitted at the same epsilon per person, with up to 1, 2, 5 and 10 rows of each.
Compared are a fit of the first row of every person, and one that takes all rows for
rows of different persons, whose claim is not about persons. Scores are on a split of
the training persons. Run ``python benchmarks/units.py``.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from _common import (
    DELTA,
    RESULTS,
    code_state,
    fit_and_sample,
    mean_and_spread,
    print_columns,
    print_states,
    run_missing,
    split_rows,
)
from dependence import DATA, TABLES, measure

from skdpsynth import MarginalSynthesizer, TableSchema
from skdpsynth.schema import Continuous

if TYPE_CHECKING:
    import pandas as pd

KEYS = ["way", "epsilon", "seed"]
SCORES = ["tv2", "tv3", "c2st", "auroc", "auprc"]
COLUMNS = [*KEYS, *SCORES, "rows", "fit_s", "peak_gb", "sample_s", "code"]
MOST = 10  # rows of a person
WAYS = ("first row", "k = 1", "k = 2", "k = 5", "k = 10", "rows, not persons")
_HOURS = "hours-per-week"


def persons(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Give every row 1 to 10 rows with about its hours, and a number of its own."""
    n_rows = rng.integers(1, MOST + 1, len(table))
    person = np.repeat(np.arange(len(table)), n_rows)
    found = table.iloc[person].reset_index(drop=True)
    hours = found[_HOURS] + rng.integers(-3, 4, len(found))
    return found.assign(**{_HOURS: hours.clip(1, 99), "person": person})


def run(key: tuple[str, float, int], *, data: Path) -> dict[str, object]:
    """Fit in one way, and score."""
    way, epsilon, seed = key
    own = TABLES["adult"]
    parts = own.load(data)
    columns, target = own.schema(parts).columns, own.target
    train, test = split_rows(parts[0], target, seed=1)
    rows = persons(train, np.random.default_rng(0))
    test = persons(test, np.random.default_rng(1)).drop_duplicates("person")
    test = test.drop(columns="person").reset_index(drop=True)
    unit = {}
    if way.startswith("k = "):
        most = int(way.removeprefix("k = "))
        unit = {"privacy_unit": "person", "max_rows_per_unit": most}
    else:
        if way == "first row":
            rows = rows.drop_duplicates("person")
        rows = rows.drop(columns="person")
    bounds = {_HOURS: Continuous(1, 99, integer=True)}
    model = MarginalSynthesizer(
        epsilon=epsilon,
        delta=DELTA,
        schema=TableSchema({**columns, **bounds}, target=target, **unit),
        random_state=seed,
    )
    drawn, costs = fit_and_sample(model, rows, len(train), None)
    scores = measure(own, drawn[train.columns], test)
    row = dict(zip(KEYS, key, strict=True), code=code_state(), rows=len(rows))
    return row | costs | {score: scores[score] for score in SCORES}


def print_ways(rows: pd.DataFrame) -> None:
    """Print means over the seeds."""
    lines = [(*KEYS[:-1], *SCORES, "fit s")]
    for key, own in rows.groupby(KEYS[:-1], sort=False):
        scores = [mean_and_spread(own[score]) for score in SCORES]
        lines.append((*map(str, key), *scores, f"{own['fit_s'].mean():.0f}"))
    print_columns(lines)
    print_states(rows)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--jobs", type=int, default=2, help="runs at the same time")
    add("--epsilons", nargs="+", type=float, default=[1.0])
    add("--data", type=Path, default=DATA, help="folder of the tables")
    add("--csv", type=Path, default=RESULTS / "units.csv")
    options = parser.parse_args()
    wanted = [
        (way, epsilon, seed)
        for seed in range(options.seeds)
        for epsilon in options.epsilons
        for way in WAYS
    ]
    task = partial(run, data=options.data)
    jobs = options.jobs
    print_ways(run_missing(task, wanted, options.csv, KEYS, COLUMNS, jobs))


if __name__ == "__main__":
    main()
