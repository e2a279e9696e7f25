"""A table of two columns that depend on each other, otherwise in every class."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from skdpsynth.schema import Categorical, Continuous, TableSchema

LABELS = list("uvwx")
SIGNS = {"u": 1, "v": -1, "w": 1, "x": -1}


def make_schema(n_classes=2):
    """Bounds and labels; the counts are left to be released."""
    return TableSchema(
        {
            "a": Continuous(-6, 8, scale="linear", decimals="any"),
            "b": Continuous(-6, 6, scale="linear", decimals="any"),
            "y": Categorical(LABELS[:n_classes]),
        },
        target="y",
    )


def make_table(n_rows, n_classes=2, seed=0, unlabelled=0.0):
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
