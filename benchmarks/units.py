"""What it costs to protect persons with several rows: Adult, 1 to 10 rows a person.

Every training row of Adult is a person, who has as many rows as a public random number
says, from 1 to 10; weekly hours differ between them by up to 3. `MarginalSynthesizer`
is fitted at the same epsilon per person, with up to 1, 2, 5 and 10 rows of each.
Compared are a fit of the first row of every person, and one that takes all rows for
rows of different persons, whose claim is not about persons. Scores are on a split of
the training persons. Run ``python benchmarks/units.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from _common import (
    DELTA,
    RESULTS,
    WAY_KEYS,
    code_state,
    compare_ways,
    fit_and_sample,
    split_rows,
)
from dependence import DATA, TABLES, measure

from skdpsynth import MarginalSynthesizer, TableSchema
from skdpsynth.schema import Continuous

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

SCORES = ["tv2", "tv3", "c2st", "auroc", "auprc"]
COLUMNS = [*WAY_KEYS, *SCORES, "rows", "fit_s", "peak_gb", "sample_s", "code"]
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
    row = dict(zip(WAY_KEYS, key, strict=True), code=code_state(), rows=len(rows))
    return row | costs | {score: scores[score] for score in SCORES}


if __name__ == "__main__":
    compare_ways(__doc__, WAYS, run, COLUMNS, SCORES, DATA, RESULTS / "units.csv")
