"""The ranking agreements are equation 8 of the PATE-GAN paper."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdpsynth.exceptions import TiedScoresWarning
from skdpsynth.metrics import feature_ranking_agreement, synthetic_ranking_agreement

# Small integers, so that differences are exact and ties are common.
PAIRS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=9
)


def equation_8(real: list[float], synthetic: list[float]) -> float:
    """Evaluate the double sum as printed."""
    size = len(real)
    total = 0
    for j in range(size):
        for k in range(size):
            if k != j:
                product = (real[j] - real[k]) * (synthetic[j] - synthetic[k])
                total += product > 0
    return total / (size * (size - 1))


def quiet(real: object, synthetic: object) -> float:
    """Call the metric, ties or not."""
    with warnings.catch_warnings(action="ignore", category=TiedScoresWarning):
        return synthetic_ranking_agreement(real, synthetic)


@given(PAIRS)
def test_agreement_is_the_printed_sum(pairs):
    real, synthetic = map(list, zip(*pairs, strict=True))
    assert quiet(real, synthetic) == pytest.approx(equation_8(real, synthetic))
    assert quiet(real, synthetic) == quiet(synthetic, real)


def test_tiny_differences_count():
    """Their product is 0 in floating point, their order is not."""
    assert synthetic_ranking_agreement([0, 1e-200], [0, 1e-200]) == 1.0


def test_tied_table_scores_zero_and_warns():
    tied = [0.5, 0.5, 0.5]
    with pytest.warns(TiedScoresWarning, match="2 of the 3 synthetic scores") as caught:
        assert synthetic_ranking_agreement([0.7, 0.8, 0.9], tied) == 0.0
    assert [warning.filename for warning in caught] == [__file__]


def test_named_scores_are_matched_and_the_mean_is_left_out():
    real = pd.Series({"a": 0.9, "b": 0.8, "c": 0.7, "mean": 0.8})
    synthetic = pd.Series({"mean": 0.6, "c": 0.5, "a": 0.7, "b": 0.6})
    assert synthetic_ranking_agreement(real, synthetic) == 1.0
    assert synthetic_ranking_agreement(dict(real), synthetic) == 1.0
    # By position without names.
    assert synthetic_ranking_agreement(real, [0.1, 0.2, 0.3]) == 0.0
    with pytest.raises(ValueError, match="1 names are in one only"):
        synthetic_ranking_agreement(real, synthetic.drop("a"))


@pytest.mark.parametrize(
    ("real", "synthetic", "message"),
    [
        ([1.0, 2.0], [1.0], "same length"),
        ([1.0], [1.0], "at least 2"),
        ([1.0, np.nan], [1.0, 2.0], "finite"),
        ([[1.0, 2.0]], [[1.0, 2.0]], "shapes"),
    ],
)
def test_lists_that_cannot_be_compared_are_refused(real, synthetic, message):
    with pytest.raises(ValueError, match=message):
        synthetic_ranking_agreement(real, synthetic)


def make_table(weights: list[float], seed: int, n_rows: int = 400) -> pd.DataFrame:
    """Make features that the label depends on by the weights."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n_rows)
    noise = rng.normal(size=(n_rows, len(weights)))
    features = np.outer(label, weights) + noise
    names = [f"f{i}" for i in range(len(weights))]
    return pd.DataFrame(features, columns=names).assign(label=label)


def test_feature_agreement_is_that_of_absolute_correlations(global_random_seed):
    real = make_table([3, -2, 1, 0], global_random_seed)
    synthetic = make_table([1, -2, 3, 0.5], global_random_seed + 1)
    importance = [
        table.corr()["label"].drop("label").abs() for table in (real, synthetic)
    ]
    expected = equation_8(*(list(values) for values in importance))
    got = feature_ranking_agreement(
        real, synthetic[["label", "f3", "f1", "f2", "f0"]], target="label"
    )
    assert got == pytest.approx(expected)
    assert feature_ranking_agreement(
        real, synthetic, target="label", pos_label=0
    ) == pytest.approx(expected)
    assert feature_ranking_agreement(real, real, target="label") == 1.0


def test_feature_agreement_of_mixed_columns():
    """A category column counts by its best category: 1, age 0.58, sex 0.

    By the mean of its categories `kin` would have 0.5 in the first table.
    """
    real = pd.DataFrame(
        {
            "sex": ["Male", "Female"] * 4,
            "age": [0.0, 0, 1, 1, 1, 1, 1, 1],
            "kin": [*"abcd", *["husband"] * 4],
            "income": [0] * 4 + [1] * 4,
        }
    )
    other = real.assign(kin=["wife"] * 4 + ["husband"] * 4)
    assert feature_ranking_agreement(real, other, target="income") == 1.0


def test_feature_agreement_averages_over_labels():
    rng = np.random.default_rng(0)
    tables, importance = [], []
    for _ in range(2):
        label = rng.permutation(np.repeat([0, 1, 2], 50))
        x = rng.normal(size=(150, 4)) + np.outer(label == 1, [0, 1, 2, 3])
        tables.append(pd.DataFrame(x, columns=list("abcd")).assign(y=label))
        each = [np.corrcoef(x.T, label == k)[-1, :-1] for k in range(3)]
        importance.append(np.abs(each).mean(axis=0))
    got = feature_ranking_agreement(*tables, target="y")
    assert got == pytest.approx(equation_8(*importance))
