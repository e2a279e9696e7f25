"""The tables of the tests, the sources they can come from, and fits to share.

A test file takes a table from here; one of its own has a reason beside it.
"""

import datetime as dt
import functools
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pyarrow import csv, dataset, parquet
from sklearn.base import clone

from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema

COLUMNS = {
    "a": Continuous(-6, 8, scale="linear", decimals="any"),
    "b": Continuous(-6, 6, nullable=True, scale="linear", decimals="any"),
    "c": Categorical(["p", "q", "r"]),
    "y": Categorical(["u", "v"]),
}


def small_table(n_rows=150, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.random(n_rows) < 0.4
    a = rng.normal(size=n_rows)
    b = np.where(label, -a, a) + 0.4 * rng.normal(size=n_rows)
    b[rng.random(n_rows) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "a": a + label,
            "b": b,
            "c": np.array(["p", "q", "r"])[rng.integers(3, size=n_rows)],
            "y": np.where(label, "v", "u"),
        }
    )


LABELS = list("uvwx")
SIGNS = {"u": 1, "v": -1, "w": 1, "x": -1}


def correlated_schema(n_classes=2):
    """Bounds and labels; the counts are left to be released."""
    return TableSchema(
        {
            "a": Continuous(-6, 8, scale="linear", decimals="any"),
            "b": Continuous(-6, 6, scale="linear", decimals="any"),
            "y": Categorical(LABELS[:n_classes]),
        },
        target="y",
    )


def correlated_table(n_rows, n_classes=2, seed=0, unlabelled=0.0):
    """Standard deviation 1, mean of a = class, correlation +0.9 or -0.9 by class."""
    rng = np.random.default_rng(seed)
    member = rng.integers(n_classes, size=n_rows)
    sign = np.where(member % 2 == 0, 0.9, -0.9)
    a, rest = rng.standard_normal((2, n_rows))
    b = sign * a + math.sqrt(1 - 0.81) * rest
    labels = np.array(LABELS, dtype=object)[member]
    labels[rng.random(n_rows) < unlabelled] = None
    return pd.DataFrame({"a": a + member, "b": b, "y": labels})


def dependence(synthesizer, n_rows=4000):
    """Correlation in each class, times the sign that it has in the table."""
    rows = synthesizer.sample(n_rows, sampling_strategy="balanced", random_state=0)
    return [
        SIGNS[label] * float(np.corrcoef(part["a"], part["b"])[0, 1])
        for label, part in rows.groupby("y")
    ]


LINKED_SCHEMA = TableSchema(
    {
        "a": Categorical(["p", "q", "r"]),
        "b": Categorical(["s", "t", "u"]),
        "c": Continuous(0, 30, nullable=True),
    }
)


def linked_table(n_rows=3000, seed=0):
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


def mixed_table(n_rows=400, seed=0):
    """Return a column of every kind, with missing values, and two labels."""
    rng = np.random.default_rng(seed)
    second = rng.random(n_rows) < 0.5
    start = np.datetime64("2020-01-01", "ms")
    days = [dt.date(2021, 3, 1 + day) for day in rng.integers(0, 31, n_rows).tolist()]
    table = pd.DataFrame(
        {
            "number": np.round(rng.normal(size=n_rows) + 2 * second, 2),
            "whole": rng.integers(0, 50, n_rows),
            "text": rng.choice(["a", "b", "c"], n_rows),
            "flag": rng.random(n_rows) < 0.3,
            "time": start + rng.integers(0, 10**9, n_rows).astype("m8[ms]"),
            "span": rng.integers(0, 10**9, n_rows).astype("m8[ms]"),
            "level": pd.Categorical(rng.choice(["p", "q"], n_rows)),
            "day": pd.arrays.ArrowExtensionArray(pa.array(days)),
            "y": np.where(second, "v", "u"),
        }
    )
    for name in ("number", "text", "day"):
        table[name] = table[name].mask(rng.random(n_rows) < 0.1)
    return table


# With so few rows a label that nobody declares is not found.
YES_OR_NO = TableSchema({"label": Categorical(["no", "yes"])}, target="label")


def chosen(scores, **values):
    for name, value in values.items():
        scores = scores[scores[name].isin([value])]  # NaN is in a list with NaN
    return scores


# --- Sources: each takes a pandas table and an empty folder ---------------------------


def arrow_of(table):
    """Return an Arrow table whose types follow from dtypes alone."""
    kinds = {name: pa.string() for name in table if table[name].dtype == object}
    arrays = {
        name: pa.array(column, kinds.get(name), from_pandas=True)
        for name, column in table.items()
    }
    return pa.table(arrays)


def _csv(table, folder):
    csv.write_csv(arrow_of(table), folder / "t.csv")
    return folder / "t.csv"


def _parquet(table, folder):
    parquet.write_table(arrow_of(table), folder / "t.parquet", row_group_size=70)
    return folder / "t.parquet"


def in_files(table, folder, n_rows=250):
    for number, place in enumerate(range(0, len(table), n_rows)):
        own = arrow_of(table[place : place + n_rows])
        parquet.write_table(own, folder / f"{number:06}.parquet")
    return folder


def _nullable(table, folder):
    with np.errstate(invalid="ignore"):  # pandas 2 tries huge floats as whole numbers
        return table.convert_dtypes()


def _dask(table, folder):
    from dask import dataframe

    frame = arrow_of(table).to_pandas(types_mapper=pd.ArrowDtype)
    return dataframe.from_pandas(frame, npartitions=7)


IN_MEMORY = {
    "numpy": lambda table, folder: table,
    "objects": lambda table, folder: table.astype(
        {
            c: object
            for c in table
            if table[c].dtype.kind == "O" or table[c].dtype == "str"
        }
    ),
    "nullable": _nullable,
    "arrow": lambda table, folder: arrow_of(table).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "polars": lambda table, folder: pl.DataFrame(arrow_of(table)),
    "Table": lambda table, folder: arrow_of(table),
}
PARTED = {
    "parquet": _parquet,
    "folder": in_files,
    "dataset": lambda table, folder: dataset.dataset(in_files(table, folder)),
    "reader": lambda table, folder: arrow_of(table).to_reader(max_chunksize=77),
    "batches": lambda table, folder: iter(arrow_of(table).to_batches(max_chunksize=33)),
    "dask": _dask,
}
SOURCES = IN_MEMORY | {"csv": _csv} | PARTED


# --- Fits to share: do not change them ------------------------------------------------


@functools.cache
def fitted(name, epsilon=1.0, n_rows=600):
    """Return a fit of `INSTANCES` to `mixed_table`, its noise frozen."""
    from _instances import INSTANCES  # torch, which programs may do without

    synthesizer = clone(INSTANCES[name]).set_params(target="y", random_state=0)
    if "epsilon" in synthesizer.get_params():
        synthesizer.set_params(epsilon=epsilon)
    with insecure_randomness(0):
        return synthesizer.fit(mixed_table(n_rows))
