"""A small table of two classes, and what the privacy tests do with it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skdpsynth.privacy import Parts
from skdpsynth.schema import Categorical, Continuous
from skdpsynth.table import PrivateRows

COLUMNS = {
    "a": Continuous(-6, 8, scale="linear", decimals="any"),
    "b": Continuous(-6, 6, nullable=True, scale="linear", decimals="any"),
    "c": Categorical(["p", "q", "r"]),
    "y": Categorical(["u", "v"]),
}


def make_table(n_rows=150, seed=0):
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


def all_rows(rows, *positions):
    """A twin of `PrivateRows.of_class`: rows of all classes."""
    return PrivateRows(rows.uniforms, rows.category_codes, rows.class_codes)


def all_parts(rows, *positions):
    """A twin of `PrivateRows.parts_of_class`: the same in parts."""
    return Parts.of(all_rows(rows, *positions))


def wide_table(n_rows):
    """Eight columns of numbers in [0, 1], and a label that knows nothing of them."""
    numbers = np.random.default_rng(0).uniform(0, 1, (n_rows, 8))
    table = pd.DataFrame(numbers, columns=[*"abcdefgh"])
    return table.assign(y=np.resize(["u", "v"], n_rows))
