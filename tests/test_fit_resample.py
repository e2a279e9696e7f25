"""`fit_resample`: what comes back is what came, and missing labels train nothing."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from _instances import PLAIN_PRIVATE
from _releases import recorded, replayed

from skdpsynth import IndependentSynthesizer
from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import InvalidTableError
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, TableSchema
from skdpsynth.table import in_container_of

N = 600
RNG = np.random.default_rng(0)
SECOND = RNG.random(N) < 0.5
TEXT = np.where(SECOND, "yes", "n")
DAYS = np.where(SECOND, np.datetime64("2020-01-01"), np.datetime64("2021-01-01"))
FEATURES = RNG.normal(size=(N, 2)) + SECOND[:, None]
STRINGS = TEXT.astype(np.dtypes.StringDType())
ARROW = pd.ArrowDtype(pa.string())


def resampled(X, y, **settings):
    return IndependentSynthesizer(**{"epsilon": 5.0} | settings).fit_resample(X, y)


LABELS = {
    "Series": pd.Series(TEXT, name="label"),
    "Series without a name": pd.Series(SECOND, dtype=object),
    "Series of categories": pd.Series(TEXT, dtype="category", index=range(N, 2 * N)),
    "Categorical": pd.Categorical(TEXT),
    "Categorical, ordered": pd.Categorical(TEXT, ["n", "yes"], ordered=True),
    "Index": pd.Index(TEXT, name="label"),
    "CategoricalIndex": pd.CategoricalIndex(TEXT),
    "DatetimeIndex, zoned": pd.DatetimeIndex(DAYS).tz_localize("Asia/Tokyo"),
    "Int64": pd.array(SECOND.astype(int), dtype="Int64"),
    "string": pd.array(TEXT, dtype="string"),
    "boolean": pd.array(SECOND, dtype="boolean"),
    "Arrow": pd.array(TEXT.tolist(), dtype=ARROW),
    "extension of NumPy": pd.arrays.NumpyExtensionArray(SECOND.astype(int)),
    "U": TEXT,
    "StringDType": STRINGS,
    "object": TEXT.astype(object),
    "object of bool": SECOND.astype(object),
    "bool": SECOND,
    "int32, of the other endianness": SECOND.astype(">i4"),
    "datetime64[D]": DAYS,
    "array of one column": TEXT[:, None],
    "DataFrame": pd.DataFrame({"label": pd.array(TEXT, dtype="string")}),
    "numbers": pd.Series(FEATURES[:, 0], name="price"),
    "float32": FEATURES[:, 0].astype(np.float32),
    # One missing value is not told from none.
    "Float64 with a gap": pd.array([None, *FEATURES[1:, 0]], dtype="Float64"),
    "Index of numbers": pd.Index(FEATURES[:, 0]),
}


# The order of an ordered one is lost, which `fit` says.
@pytest.mark.filterwarnings("ignore:The order of the categories")
@pytest.mark.usefixtures("frozen_noise")
@pytest.mark.parametrize("name", LABELS)
def test_labels_come_back_in_their_container_and_dtype(name):
    labels = LABELS[name]
    features, generated = resampled(FEATURES, labels)
    assert type(generated) is type(labels)
    assert np.shape(generated) == (len(features), *np.shape(labels)[1:])
    if name == "DataFrame":
        assert generated.dtypes.equals(labels.dtypes)
    elif labels.dtype.kind == "U":
        assert generated.dtype.kind == "U"
    else:
        assert generated.dtype == labels.dtype
    assert getattr(generated, "name", None) == getattr(labels, "name", None)
    if getattr(labels, "dtype", None) in (np.float32, np.float64, "Float64"):
        assert not pd.isna(generated).any()
        assert np.std(generated) == pytest.approx(np.std(FEATURES[:, 0]), rel=0.5)
    else:
        assert {*np.ravel(generated)} == {*np.ravel(labels)}


@pytest.mark.parametrize("container", [list, tuple])
def test_lists_come_back_as_lists(container):
    rows = container([first, "a", row % 3] for row, (first, _) in enumerate(FEATURES))
    generated = resampled(rows, container(TEXT.tolist()))
    assert [type(part) for part in generated] == [container, container]
    assert {tuple(map(type, row)) for row in generated[0]} == {(float, str, int)}
    assert set(generated[1]) == {"yes", "n"}


def test_categories_that_were_not_released_are_not_in_the_dtype():
    """They are data: an unused category may be somebody's."""
    labels = pd.Categorical(TEXT, categories=["yes", "secret", "n"])
    generated = resampled(FEATURES, labels)[1]
    assert generated.categories.tolist() == ["n", "yes"]
    declared = Categorical(["yes", "n", "a long label"])
    schema = TableSchema({"target": declared}, n_rows=N)
    settings = {"epsilon": np.inf, "schema": schema}
    generated = resampled(FEATURES, labels, **settings)[1]
    assert generated.categories.tolist() == ["yes", "n", "a long label"]


ARRAYS = {
    "float32": FEATURES.astype(np.float32),
    "other endianness": FEATURES.astype(">f4"),
    "bool": np.c_[SECOND, ~SECOND],
    "U": np.c_[TEXT, TEXT],
    "StringDType": np.c_[TEXT, TEXT].astype(STRINGS.dtype),
    "object of numbers": FEATURES.astype(object),
    "object of both": np.array([[1, "a"], [2, "b"]] * (N // 2), dtype=object),
    "datetime64[D]": np.c_[DAYS, DAYS],
    "timedelta64[D]": np.c_[DAYS, DAYS] - np.datetime64("2019-01-01"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back_in_their_dtype(name):
    array = ARRAYS[name]
    generated, _ = resampled(array, SECOND)
    assert type(generated) is np.ndarray
    assert generated.dtype.kind == array.dtype.kind
    assert array.dtype.kind == "U" or generated.dtype == array.dtype
    if array.dtype.kind in "UT":
        assert set(generated.ravel()) == {"yes", "n"}
    if name == "object of both":
        assert {type(value) for value in generated[:, 0]} == {int}


def test_bytes_are_refused_with_the_remedy():
    """NumPy's 'S' says nothing about the encoding, so it is the user's to say."""
    raw = TEXT.astype("S")
    for X, y in ((np.c_[raw, raw], SECOND), (FEATURES, raw)):
        with pytest.raises(InvalidTableError, match=r"decoded by astype\(str\)"):
            resampled(X, y)


def test_text_is_not_cut_to_the_width_that_came():
    """A schema may declare a longer label than any in the table."""
    generated = in_container_of(TEXT, pd.Series(["a longer name", "n"]))
    assert generated.tolist() == ["a longer name", "n"]


@pytest.mark.parametrize("name", ["Series", "Categorical", "Int64", "Arrow", "object"])
def test_missing_labels_never_come_out(name):
    """Nor are they counted: the noisy count of 480 labels has a deviation below 7."""
    labels = LABELS[name].copy()
    labels[::5] = None
    assert pd.isna(labels).sum() == N // 5
    generated = resampled(FEATURES, labels)[1]
    assert not pd.isna(generated).any()
    assert len(set(generated)) == 2
    assert len(generated) == pytest.approx(N * 4 / 5, abs=50)


def test_rows_without_a_label_train_nothing():
    """With bounds that only such rows reach, and no noise, nothing comes near them."""
    frame = pd.DataFrame({"u": FEATURES[:, 0], "y": TEXT.astype(object)})
    frame.loc[::5, "y"] = None
    frame.loc[::5, "u"] = 1000.0
    synth = IndependentSynthesizer(epsilon=np.inf, target="y").fit(frame)
    generated = synth.sample(2000)
    assert generated["y"].notna().all()
    assert (generated["u"] > 100).mean() < 0.02


KNOWN = {
    "declared labels": {"schema": TableSchema({"y": Categorical(["n", "yes"])})},
    "found labels": {},
    "no target": {"target": None},
}


@pytest.mark.parametrize("known", KNOWN)
def test_as_many_rows_come_back_as_noisy_counts_say(known):
    """With equal releases equally many, of a table and of one row less.

    The noise of the seed is seen: they are as many as in neither table.
    """
    table = pd.DataFrame({"u": FEATURES[:, 0], "y": TEXT})
    made = IndependentSynthesizer(random_state=0, **{"target": "y"} | KNOWN[known])
    with insecure_randomness(7), recorded() as history:
        first = len(made.fit_resample(table)[0])
    counts = made.schema_.class_counts
    released = made.schema_.n_rows if counts is None else sum(counts.values())
    with insecure_randomness(7), replayed(history):
        second = len(made.fit_resample(table.iloc[1:])[0])
    assert first == second == released
    assert first not in (N, N - 1)
    ways = {type(synth).fit_resample for synth in PLAIN_PRIVATE.values()}
    assert ways == {BaseSynthesizer.fit_resample}
