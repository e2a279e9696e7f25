"""From a value to a key: no other row has a say in what a row's value becomes.

One row that renames or deletes another row's category moves a whole count at once, and
no noise is made for that. So a key is a function of one value, for every dtype, and
whatever is added to the table leaves the keys, codes and units of all other rows as
they were, bit for bit.
"""

import enum
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth.privacy import Parts
from skdpsynth.schema import TableSchema, is_missing, plain
from skdpsynth.table import (
    CategoryDomain,
    ColumnLayout,
    encode_rows,
    numeric_values,
    total_keys,
)

# Parts of texts that hash tables and encodings have taken for one another.
PARTS = ("a", "\0", "\ud800", "\udcff", "\\ud800", "e\u0301", "\u00e9", "'", " ", "")


class Text(str):
    """A text that lies about itself wherever it can, and carries something."""

    def __new__(cls, value, luggage="luggage"):
        made = super().__new__(cls, value)
        made.luggage = luggage
        return made

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return isinstance(other, str)

    def __str__(self):
        return "not what it holds"

    __repr__ = __str__


class Letter(enum.StrEnum):
    A = "a"


def spelled(text):
    """The text, and texts that spell what it looks like."""
    return st.sampled_from([text, repr(text), ascii(text), text.strip("\0")])


texts = st.lists(st.sampled_from(PARTS), max_size=3).map("".join).flatmap(spelled)
odd_texts = st.one_of(
    texts, texts.map(Text), texts.map(np.str_), st.just(Letter.A), st.none()
)


def keys_of(series):
    """Count the rows of each key, None where missing; none has 0."""
    (keys,) = total_keys(Parts.of(series.to_frame("c")), ["c"])
    return Counter({(type(key), key): n for key, n in keys.items() if n})


def plain_keys(values):
    return Counter((type(value), value) for value in values)


def codes_of(series, levels):
    """Give the codes that `encode_rows` finds."""
    column = ColumnLayout("c", series.dtype, "categorical", True)
    domain = CategoryDomain(tuple(levels), nullable=True)
    rows = encode_rows(series.to_frame("c"), [column], [domain])
    return rows.category_codes[:, 0].tolist()


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(odd_texts, min_size=1, max_size=8),
    extra=odd_texts,
    place=st.integers(0, 8),
    dtype=st.sampled_from([object, "string[python]"]),
)
def test_a_further_text_changes_no_other_key(values, extra, place, dtype):
    """NULs, lone surrogates, combining forms, spelled-out texts, subclasses."""
    place = min(place, len(values))
    more = [*values[:place], extra, *values[place:]]
    before = pd.Series(values, dtype=dtype)
    after = pd.Series(more, dtype=dtype)
    expected = [None if v is None else str.__str__(v) for v in values]
    assert keys_of(before) == plain_keys(expected)
    own = keys_of(pd.Series([extra], dtype=dtype))
    assert keys_of(after) == plain_keys(expected) + own
    levels = sorted({key for key in expected if key is not None})
    codes = codes_of(after, levels)
    assert codes[:place] + codes[place + 1 :] == codes_of(before, levels)
    assert codes_of(before, levels) == [
        len(levels) + 1 if key is None else levels.index(key) for key in expected
    ]


ODD_LABELS = [
    ([np.str_("b"), Letter.A], ["b", "a"]),
    ([np.True_, False], [True, False]),
]


@pytest.mark.parametrize(("values", "expected"), ODD_LABELS)
@pytest.mark.parametrize("make", [pd.Series, pd.Categorical])
def test_keys_are_exact_built_ins(values, expected, make):
    if make is pd.Categorical:
        index = pd.Index(values, dtype=object)
        series = pd.Series(pd.Categorical.from_codes([0, 1], index))
    else:
        series = pd.Series(values, dtype=object)
    assert keys_of(series) == plain_keys(expected)


def test_zeros_have_one_sign():
    """Which zero a category list holds depends on the row that came first."""
    assert str(plain(-0.0)) == str(plain(np.float64(-0.0))) == "0.0"
    for zero in (0.0, -0.0):
        ((_, key),) = keys_of(pd.Series([zero]).astype("category"))
        assert str(key) == "0.0"


# --- Numbers and times --------------------------------------------------------------


@pytest.mark.parametrize("make", ["Float64", "double[pyarrow]"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_nan_is_missing_in_every_dtype(make, kind):
    """Of NumPy's own, in which pandas takes it for a number."""
    values = np.array([1.5, np.nan, -2.0], dtype=kind)
    if make == "Float64":
        array = pd.arrays.FloatingArray(values, np.zeros(3, dtype=bool))
    else:
        array = pd.arrays.ArrowExtensionArray(pa.array(values, from_pandas=False))
    series = pd.Series(array)
    assert not series.isna().any()  # or the case is gone, and `is_missing` with it
    assert is_missing(series).tolist() == [False, True, False]
    values, missing = numeric_values(series, ColumnLayout.of("a", series))
    assert values.tolist() == [1.5, 0.0, -2.0]
    assert missing.tolist() == [False, True, False]
    assert keys_of(series) == plain_keys([1.5, None, -2.0])
    described = TableSchema.from_dataframe(series.to_frame("a")).columns["a"]
    assert (described.low, described.high, described.nullable) == (-2.0, 1.5, True)
