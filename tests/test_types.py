"""Tables as people have them: every dtype and every name comes back.

`table/test_convert.py` has each on its way to numbers and back, and `fuzz/test_fuzz.py`
draws tables for every way of training.
"""

import math

import numpy as np
import pandas as pd
import pytest
from _columns import NAMES, check_dtype, columns, with_holes
from sklearn.base import clone

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.schema import Identifier, TableSchema

pytestmark = pytest.mark.usefixtures("short_fits")

WITHOUT_NOISE = IndependentSynthesizer(epsilon=math.inf)
WHOLE = np.arange(90)


@pytest.mark.parametrize(
    ("synthesizer", "holes"),
    [(IndependentSynthesizer, False), (MarginalSynthesizer, True)],
)
def test_all_dtypes_at_once(synthesizer, holes):
    """Without noise levels and holes come out as they went in.

    The share of holes is within six standard deviations.
    """
    made = columns()
    real = pd.DataFrame({k: with_holes(v) for k, v in made.items()} if holes else made)
    fake = synthesizer(epsilon=math.inf).fit(real).sample(5_000)
    assert fake.columns.tolist() == real.columns.tolist()
    for name in real:
        check_dtype(fake[name], real[name].dtype)
        assert abs(fake[name].isna().mean() - real[name].isna().mean()) < 0.043, name
        if name.startswith(("text", "category", "truth")):
            assert set(fake[name].dropna()) == set(real[name].dropna()), name


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_columns_of_any_name(name):
    """Also a column named None, which is no target."""
    real = pd.DataFrame({"u": WHOLE / 89, "w": list("abc") * 30, "v": WHOLE})
    real.columns = pd.Index(["u", name, "v"], dtype=object, tupleize_cols=False)
    fake = clone(WITHOUT_NOISE).fit(real).sample(40)
    assert fake.columns[1] is name or fake.columns[1] == name
    assert fake.iloc[:, 1].notna().all()
    labelled = clone(WITHOUT_NOISE).set_params(target="v").fit(real).sample(5)
    assert labelled.dtypes.tolist() == real.dtypes.tolist()


def test_identifiers_of_any_dtype():
    """None of the private identifiers of a text column comes back."""
    truths = ("category of truth", "truth")  # a boolean identifies nobody
    real = pd.DataFrame(columns())
    names = [name for name in real if not name.startswith(truths)]
    schema = TableSchema(dict.fromkeys(names, Identifier()))
    fake = IndependentSynthesizer(schema=schema).fit(real).sample(20)
    assert (fake[names].nunique() == 20).all()
    for name in names:
        check_dtype(fake[name], real[name].dtype)
        assert not name.startswith("text") or not set(fake[name]) & set(real[name])
