"""What the audits of this folder attack: small synthesizers and small tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdpsynth import (
    DPCGANSynthesizer,
    DPGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
)
from skdpsynth.schema import Categorical, Continuous, TableSchema

SHORT = {"n_iter": 2, "n_generator_steps": 2}
AUDITED = {
    "independent": IndependentSynthesizer(),
    "gpate": GPATESynthesizer(n_iter=3, n_teachers=12),
    "gpate random": GPATESynthesizer(init="random", n_iter=3, hidden_dims=(4,)),
    "gpate votes": GPATESynthesizer(
        aggregator="confident_gnmax", n_iter=2, batch_size=4, projection_dim=2
    ),
    "pategan": PATEGANSynthesizer(batch_size=16, **SHORT),
    "pategan laplace": PATEGANSynthesizer(
        noise="laplace", init="random", batch_size=16, **SHORT
    ),
    "dpcgan": DPCGANSynthesizer(**SHORT),
    "dpcgan sampled": DPCGANSynthesizer(batch_size=50, **SHORT),
    "dpgan": DPGANSynthesizer(init="random", **SHORT),
    "triplegan": PATETripleGANSynthesizer(batch_size=16, **SHORT),
    "triplegan dpsgd": PATETripleGANSynthesizer(
        desensitization="dpsgd", init="random", **SHORT
    ),
}
COLUMNS = {
    "a": Continuous(-6, 8, scale="linear"),
    "b": Continuous(-6, 6, nullable=True, scale="linear"),
    "c": Categorical(["p", "q", "r"]),
    "y": Categorical(["u", "v"]),
}


@pytest.fixture(params=AUDITED.values(), ids=AUDITED)
def audited(request):
    """Every synthesizer of the package, and each way of training once."""
    return request.param


@pytest.fixture
def all_audited():
    return AUDITED


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
