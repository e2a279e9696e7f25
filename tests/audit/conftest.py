"""What the audits of this folder attack: small synthesizers and small tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from _instances import PRIVATE

from skdpsynth.schema import Categorical, Continuous, TableSchema

COLUMNS = {
    "a": Continuous(-6, 8, scale="linear", decimals="any"),
    "b": Continuous(-6, 6, nullable=True, scale="linear", decimals="any"),
    "c": Categorical(["p", "q", "r"]),
    "y": Categorical(["u", "v"]),
}


@pytest.fixture(params=PRIVATE.values(), ids=PRIVATE)
def audited(request):
    """Every synthesizer of the package, and each way of training once."""
    return request.param


@pytest.fixture
def public_schema():
    """Everything about `small_table` but its rows."""
    return TableSchema(COLUMNS, target="y", class_counts={"u": 90, "v": 60})


@pytest.fixture
def small_table():
    """150 rows of two classes; numbers, missing ones and a category."""
    rng = np.random.default_rng(0)
    label = rng.random(150) < 0.4
    a = rng.normal(size=150)
    b = np.where(label, -a, a) + 0.4 * rng.normal(size=150)
    b[rng.random(150) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "a": a + label,
            "b": b,
            "c": np.array(["p", "q", "r"])[rng.integers(3, size=150)],
            "y": np.where(label, "v", "u"),
        }
    )


@pytest.fixture
def canary():
    """An extreme row of the schema."""
    return {"a": 8.0, "b": -6.0, "c": "r", "y": "u"}


@pytest.fixture
def case(small_table, canary, public_schema):
    """Table, canary and schema: what most audits of a ledger are of."""
    return small_table, canary, public_schema
