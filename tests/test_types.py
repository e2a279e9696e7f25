"""Tables as people have them: every dtype and every name comes back.

`fuzz/test_fuzz.py` draws tables of more dtypes, for every way of training.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from _columns import NAMES, check_dtype
from _dtypes import N_ROWS, TRUTH, WHOLE, WORDS, columns, with_holes
from sklearn.base import clone

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.schema import Identifier, TableSchema

pytestmark = pytest.mark.usefixtures("short_fits")

WITHOUT_NOISE = IndependentSynthesizer(epsilon=math.inf)


def frame(*, holes: bool) -> pd.DataFrame:
    made = columns()
    if holes:
        made = {name: with_holes(series) for name, series in made.items()}
    return pd.DataFrame(made)


def assert_same_dtypes(fake: pd.DataFrame, real: pd.DataFrame) -> None:
    assert fake.columns.tolist() == real.columns.tolist()
    for name in real.columns:
        check_dtype(fake[name], real[name].dtype)


def test_all_dtypes_at_once():
    real = frame(holes=True)
    assert_same_dtypes(
        MarginalSynthesizer(target="words str").fit(real).sample(9), real
    )


@pytest.fixture(scope="module", params=[False, True], ids=["complete", "holes"])
def drawn(request):
    """All dtypes in a table, and what a fit without noise draws."""
    real = frame(holes=request.param)
    fake = clone(WITHOUT_NOISE).fit(real).sample(20_000)
    assert_same_dtypes(fake, real)
    return real, fake


@pytest.mark.parametrize("name", columns())
def test_one_dtype_without_noise(drawn, name):
    """At infinite epsilon the values of a column come out about as they went in."""
    real, fake = (table[name] for table in drawn)
    # The share of holes within six standard deviations.
    assert abs(fake.isna().mean() - real.isna().mean()) < 6 * math.sqrt(0.25 / 20_000)
    present, drawn = real.dropna(), fake.dropna()
    if name.startswith(("words", "category", "truth", "bool", "arrow string")):
        assert set(drawn) == set(present)
    elif "date" in name:
        assert set(present) <= set(drawn)
    elif "time" in name or "span" in name:
        # The outer bins of dates are two years; those of durations powers of two.
        gap = abs(drawn.astype("int64").median() - present.astype("int64").median())
        assert gap < 0.1 * present.astype("int64").median()
    else:
        drawn, present = drawn.astype(float), present.astype(float)
        assert -2 <= drawn.min() <= 10
        assert 80 <= drawn.max() <= 128
        assert abs(drawn.median() - present.median()) < 10


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_columns_of_any_name(name):
    """Also a column named None, which is no target."""
    real = pd.DataFrame({"u": np.linspace(0, 1, N_ROWS), "w": WORDS, "v": WHOLE})
    real.columns = pd.Index(["u", name, "v"], dtype=object, tupleize_cols=False)
    fake = clone(WITHOUT_NOISE).fit(real).sample(40)
    assert fake.columns[1] is name or fake.columns[1] == name
    assert fake.iloc[:, 1].notna().all()
    labelled = clone(WITHOUT_NOISE).set_params(target="v").fit(real).sample(5)
    assert labelled.dtypes.tolist() == real.dtypes.tolist()


def test_index_of_the_table_means_nothing():
    real = pd.DataFrame({"u": np.linspace(0, 1, N_ROWS), "y": TRUTH})
    real.index = pd.Index([f"person {row % 7}" for row in range(N_ROWS)], name="who")
    fake = clone(WITHOUT_NOISE).set_params(target="y").fit(real).sample(4)
    assert fake.index.equals(pd.RangeIndex(4))


def test_identifiers_of_any_dtype():
    """None of the private identifiers of a string column comes back."""
    truths = ("category of bool", "truth", "bool")  # a boolean identifies nobody
    names = [name for name in columns() if not name.startswith(truths)]
    schema = TableSchema(dict.fromkeys(names, Identifier()))
    fake = IndependentSynthesizer(schema=schema).fit(frame(holes=False)).sample(20)
    assert (fake[names].nunique() == 20).all()
    for name in names:
        assert not name.startswith("words") or not set(fake[name]) & set(WORDS)
