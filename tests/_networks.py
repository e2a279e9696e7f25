"""A table whose columns go together, for networks that learn it from nothing."""

import numpy as np
import pandas as pd

from skdpsynth.schema import Categorical, Continuous, TableSchema

SCHEMA = TableSchema(
    {
        "a": Categorical(["p", "q", "r"]),
        "b": Categorical(["s", "t", "u"]),
        "c": Continuous(0, 30, nullable=True),
    }
)


def make_table(n_rows=3000, seed=0):
    """Levels that go together, and numbers that follow them; some are missing."""
    rng = np.random.default_rng(seed)
    code = rng.choice(3, n_rows, p=[0.5, 0.3, 0.2])
    other = np.where(rng.random(n_rows) < 0.9, code, rng.integers(3, size=n_rows))
    numbers = np.clip(10 * code + rng.normal(5, 1.5, n_rows), 0, 30)
    numbers[rng.random(n_rows) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "a": np.array(["p", "q", "r"])[code],
            "b": np.array(["s", "t", "u"])[other],
            "c": numbers,
        }
    )


def distance(real, fake):
    """Total variation distance of the pairs of the two levels and of ten numbers."""
    tables = []
    for table in (real, fake):
        tens = np.floor(table["c"] / 10).fillna(-1)
        keys = table["a"].astype(str) + table["b"].astype(str) + tens.astype(str)
        tables.append(keys.value_counts(normalize=True))
    return 0.5 * tables[0].sub(tables[1], fill_value=0).abs().sum()
