"""Five hospitals that share no row: Adult, split unevenly and by age.

The training rows of Adult are divided among five sites, of 35, 25, 20, 12 and 8 %;
the later ones have older persons. Every site spends the same epsilon. Compared are one
fit of all rows, the measurements of the five sites combined (where the first one says
what is measured, and where each chooses by itself), and the best site alone. Scores are
on the test rows. Run ``python benchmarks/sites.py``.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from _common import (
    DELTA,
    RESULTS,
    WAY_KEYS,
    code_state,
    compare_ways,
)
from dependence import DATA, TABLES, measure

from skdpsynth import MarginalSynthesizer, combine_measurements

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

SCORES = ["tv1", "tv2", "tv3", "c2st", "auroc", "auprc"]
COLUMNS = [*WAY_KEYS, *SCORES, "fit_s", "code"]
SHARES = (0.35, 0.25, 0.2, 0.12, 0.08)
_BY_AGE = 0.25  # what age says of the site; chance says the rest
_ALONE = ("site 1 alone", "site 2 alone", "site 3 alone")
WAYS = ("one fit of all rows", "first site's design", "each by itself", *_ALONE)


def sites(table: pd.DataFrame, rng: np.random.Generator) -> list[pd.DataFrame]:
    """Divide rows among the sites."""
    ranks = table["age"].rank(pct=True)
    order = (_BY_AGE * ranks + (1 - _BY_AGE) * rng.random(len(table))).rank(pct=True)
    site = np.searchsorted(np.cumsum(SHARES)[:-1], order)
    return [table[site == s].reset_index(drop=True) for s in range(len(SHARES))]


def run(key: tuple[str, float, int], *, data: Path) -> dict[str, object]:
    """Fit in one way, and score."""
    way, epsilon, seed = key
    own = TABLES["adult"]
    parts = own.load(data)
    train, test = parts
    schema = own.schema(parts)
    kind = partial(MarginalSynthesizer, epsilon, delta=DELTA, random_state=seed)
    start = time.perf_counter()
    if way == WAYS[0]:
        model = kind(schema=schema).fit(train)
    else:
        tables = sites(train, np.random.default_rng(0))
        if way in _ALONE:
            model = kind(schema=schema).fit(tables[_ALONE.index(way)])
        else:
            found = [kind(schema=schema).fit(tables[0]).measurements_]
            first = found[0]
            for table in tables[1:]:
                site = kind(schema=schema)
                if way == WAYS[1]:
                    site = kind(schema=first.schema, design=first)
                found.append(site.fit(table).measurements_)
            model = MarginalSynthesizer.from_measurements(
                combine_measurements(found), random_state=seed
            )
    row = dict(zip(WAY_KEYS, key, strict=True), code=code_state())
    row["fit_s"] = time.perf_counter() - start
    scores = measure(own, model.sample(len(test), random_state=seed), test)
    return row | {score: scores[score] for score in SCORES}


if __name__ == "__main__":
    compare_ways(__doc__, WAYS, run, COLUMNS, SCORES, DATA, RESULTS / "sites.csv")
