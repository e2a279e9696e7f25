"""A small table of two classes, and what the privacy tests do with it."""

from __future__ import annotations

import functools
import math
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.preprocessing import _model
from skdpsynth.preprocessing._columns import PrivateRows
from skdpsynth.preprocessing._tables import PairTables
from skdpsynth.privacy._parts import Parts
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.synthesizers import _start

COLUMNS = {
    "a": Continuous(-6, 8, scale="linear", decimals="any"),
    "b": Continuous(-6, 6, nullable=True, scale="linear", decimals="any"),
    "c": Categorical(["p", "q", "r"]),
    "y": Categorical(["u", "v"]),
}
COUNTED = TableSchema(COLUMNS, target="y", class_counts={"u": 90, "v": 60})


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


@functools.cache
def reference_marginals():
    """Marginals of another table: public."""
    settings = {"epsilon": math.inf, "schema": COUNTED}
    return IndependentSynthesizer(**settings).fit(make_table(3000, 9))._model.marginals


@contextmanager
def frozen_start(reference=reference_marginals):
    """Buy no start: whatever the rows, it has the same marginals, and no pairs."""
    marginals = reference()  # before anything is patched

    def no_purchase(rows, domains, classes, accountant, *, mus):
        return marginals

    def no_pairs(rows, bins, *others, **named):
        return PairTables.nothing(int(bins.starts[-1]), 100.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_model, "measure_marginals", no_purchase)
        patch.setattr(_start, "buy_pairs", no_pairs)
        yield patch


def all_rows(rows, position):
    """A twin of `PrivateRows.of_class`: rows of all classes."""
    return PrivateRows(rows.units, rows.category_codes, rows.members)


def all_parts(rows, position):
    """A twin of `PrivateRows.parts_of_class`: the same in parts."""
    return Parts.of(all_rows(rows, position))


def assert_equal_results(ours, theirs):
    """Everything public of two fits is equal to the bit."""
    for mine, other in zip(ours.pop("arrays"), theirs.pop("arrays"), strict=True):
        np.testing.assert_array_equal(mine, other)
    for name in ("sample", "stream"):
        pd.testing.assert_frame_equal(ours.pop(name), theirs.pop(name))
    assert ours == theirs
