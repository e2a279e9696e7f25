"""A table of many dtypes that keeps rules of all kinds, and one that breaks them."""

import math

import numpy as np
import pandas as pd

from skdpsynth.schema import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Determines,
    MissingTogether,
    Ordered,
    SumOf,
    TableSchema,
)

STATES = {"A": "x", "B": "y", "C": "x"}
RULES = [
    Determines("code", "ill", {1: True, 2: False}),  # of a computed column, and first
    Determines("state", "code", {"x": 1, "y": 2}),
    Determines("zip", "state", STATES),
    SumOf("income", ["wages", "rents"]),
    SumOf("wealth", ["income", "savings"]),
    Ordered(["start", "middle", "end"]),
    Ordered(["least", "most"]),
    MissingTogether(["spouse", "job", "least"]),
]
COLUMNS = {
    "zip": Categorical(["A", "B", "C"], nullable=True),
    "state": Categorical(["y", "x"], nullable=True),
    "code": Categorical([1, 2], nullable=True),
    "ill": Boolean(nullable=True),
    "wages": Continuous(0, 100, decimals=2),
    "rents": Continuous(0, 10, decimals=1, nullable=True),
    "income": Continuous(0, 110, decimals=2, nullable=True),
    "savings": Continuous(-9, 900),
    "wealth": Continuous(-10, 2_000, nullable=True),
    "start": Datetime("2020-01-01", "2020-12-31", unit="D"),
    "middle": Datetime("2020-01-01", "2021-06-30", unit="D", nullable=True),
    "end": Datetime("2020-06-01", "2021-12-31", unit="D"),
    "least": Continuous(0, 60, integer=True, nullable=True),
    "most": Continuous(20, 90),
    "spouse": Continuous(18, 99, nullable=True),
    "job": Categorical(["p", "q"], nullable=True),
    "label": Categorical(["u", "v"]),
}
SCHEMA = TableSchema(COLUMNS, target="label", rules=RULES)
COMPUTED = ["state", "code", "ill", "income", "wealth"]


def make_table(n_rows=600, seed=0):
    """A table that keeps the rules, in as many dtypes as there are columns."""
    rng = np.random.default_rng(seed)
    place = pd.Series(rng.choice(["A", "B", "C"], n_rows)).where(
        rng.random(n_rows) < 0.9
    )
    code = place.map(STATES).map({"x": 1, "y": 2})
    wages = rng.integers(0, 10_000, n_rows) / 100
    rents = np.where(rng.random(n_rows) < 0.2, np.nan, rng.integers(0, 99, n_rows) / 10)
    savings = rng.normal(300, 90, n_rows)
    days = np.sort(rng.integers(170, 360, (3, n_rows)), axis=0)
    start, middle, end = (
        pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(own, "D"))
        for own in days
    )
    least = pd.Series(rng.integers(0, 50, n_rows), dtype="Int64")
    gone = rng.random(n_rows) < 0.3
    return pd.DataFrame(
        {
            "label": pd.Categorical(np.where(savings > 300, "u", "v")),
            "zip": place.astype("str"),
            "state": place.map(STATES).astype("category"),
            "code": code.astype("Int64"),
            "ill": code.map({1: True, 2: False}).astype("boolean"),
            "wages": wages,
            "rents": rents,
            "income": np.round(wages + rents, 2),
            "savings": savings,
            "wealth": pd.Series(wages + rents + savings).astype("Float64"),
            "start": start,
            "middle": middle.where(rng.random(n_rows) < 0.7),
            "end": end,
            "least": least.mask(gone),
            "most": least.astype(float) + rng.integers(20, 30, n_rows),
            "spouse": np.where(gone, np.nan, rng.integers(18, 80, n_rows)),
            "job": pd.Series(rng.choice(["p", "q"], n_rows))
            .mask(gone)
            .astype("string"),
        }
    )


TABLE = make_table()


def make_violating(table):
    """The same rows with the columns that are computed, or ordered last, shuffled."""
    order = np.random.default_rng(1).permutation(len(table))
    shuffled = [*COMPUTED, "start", "least", "job"]
    return table.assign(**{name: table[name].array[order] for name in shuffled})


def keeps_all(table):
    """An independent reading of the rules, row by row."""
    for row in table.to_dict("records"):
        row = {name: None if pd.isna(own) else own for name, own in row.items()}
        assert row["state"] == STATES.get(row["zip"])
        assert row["code"] == {"x": 1, "y": 2}.get(row["state"])
        assert row["ill"] == {1: True, 2: False}.get(row["code"])
        if row["rents"] is None:
            assert row["income"] is None
            assert row["wealth"] is None
        else:
            assert row["income"] == round(row["wages"] + row["rents"], 2)
            assert math.isclose(row["wealth"], row["income"] + row["savings"])
        for names in (["start", "middle", "end"], ["least", "most"]):
            present = [row[name] for name in names if row[name] is not None]
            assert present == sorted(present)
        absent = {row[name] is None for name in ("spouse", "job", "least")}
        assert len(absent) == 1
    within = SCHEMA.check(table)
    assert set(within["column"]) <= {"label"}
    return True
