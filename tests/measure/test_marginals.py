"""Marginals of hard columns; `synthesizers/test_marginal.py` has usual ones."""

import math

import numpy as np
import pandas as pd
import pytest

from skdpsynth import IndependentSynthesizer
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema

RANKS = (np.arange(20_000) + 0.5) / 20_000


def fitted(columns, schema=None, epsilon=1.0, seed=0):
    with insecure_randomness(seed):
        synth = IndependentSynthesizer(epsilon, schema=schema, random_state=0)
        return synth.fit(pd.DataFrame(columns))


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_are_ordered_by_the_class_they_speak_for(ordered):
    """What both classes have as often stands between what each has more often."""
    levels = np.repeat([*"abcabc"], [500, 100, 400, 100, 500, 400])
    schema = TableSchema(
        {"x": Categorical([*"abc"], ordered=ordered), "y": Categorical(["n", "p"])},
        target="y",
    )
    synth = fitted({"x": levels, "y": np.repeat(["n", "p"], 1000)}, schema, math.inf)
    for [marginal] in synth._model.marginals:
        order = [*dict.fromkeys(marginal.decode(RANKS)[0].tolist())]
        assert order in ([[0, 1, 2]] if ordered else [[0, 2, 1], [1, 2, 0]])


def test_round_two_looks_where_round_one_saw_rows():
    """500 to 501 of 0 to 1,000: 256 bins of the whole range would be 4 wide."""
    spec = Continuous(0, 1000, scale="linear", decimals="any")
    synth = fitted({"x": np.linspace(500, 501, 10_000)}, TableSchema({"x": spec}))
    assert synth.sample(10_000)["x"].between(499.5, 501.5).mean() > 0.9


def test_a_rare_class_is_not_drawn_from_the_values_of_another():
    """200 rows at 22 to 29 beside 50,000 at 5 to 12, whose ends are theirs alone."""
    rng, sizes = np.random.default_rng(0), (50_000, 200)
    x = np.concatenate((rng.integers(5, 13, sizes[0]), rng.integers(22, 30, sizes[1])))
    schema = TableSchema(
        {"y": Categorical(["n", "p"])},
        target="y",
        class_counts=dict(zip(["n", "p"], sizes, strict=True)),
    )
    for seed in range(3):
        synth = fitted({"x": x, "y": np.repeat(["n", "p"], sizes)}, schema, seed=seed)
        drawn = synth.sample(20_000, sampling_strategy="balanced")
        usual, rare = (drawn["x"][drawn["y"] == label] for label in "np")
        assert (rare >= 20).mean() > 0.8
        assert usual.between(4, 13).all()


@pytest.mark.parametrize("seed", range(2))
def test_codes_end_where_the_rows_do_if_their_range_was_released(seed):
    """Of 1 to 5 in a range from 0 to 7; declared, each of the numbers may occur.

    Noise alone leaves a number in 2 % of such fits, the noise being frozen.
    """
    codes = np.random.default_rng(seed).integers(1, 6, 4000)
    declared = TableSchema({"x": Continuous(0, 7)})
    found, any_of = (
        {*fitted({"x": codes}, schema, 0.5, seed).sample(20_000)["x"]}
        for schema in (None, declared)
    )
    assert found == {1, 2, 3, 4, 5} < any_of


def share_of_a(shares, seed, *, nullable=False, n_rows=None):
    """Fit 12 equal columns of 3,000 texts; return the share of "a" of each."""
    texts = np.repeat([*"abz"], np.multiply(shares, 3000).astype(int))
    names = [f"x{place}" for place in range(12)]
    spec = Categorical(["a", "b"], nullable=nullable)
    schema = TableSchema(dict.fromkeys(names, spec), n_rows=n_rows)
    drawn = fitted(dict.fromkeys(names, texts), schema, seed=seed).sample(100_000)
    return (drawn == "a").mean()


@pytest.mark.statistical
@pytest.mark.parametrize("nullable", [True, False])
def test_values_that_no_category_names_are_not_spread_evenly(
    nullable, global_random_seed
):
    """6 of 10 rows are neither 'a' (3) nor 'b' (1); of the rest 3 in 4 are 'a'.

    Counted as rows without a category they would add a half each. The noise of a share
    is below 0.01, and one of 12 columns passes 0.1 at a rate below 1e-12.
    """
    found = share_of_a([0.3, 0.1, 0.6], global_random_seed, nullable=nullable)
    assert (found - 0.75).abs().max() < 0.1


@pytest.mark.statistical
@pytest.mark.parametrize("declared", [2400, 3600])
def test_a_wrong_number_of_rows_does_not_spoil_the_shares(declared, global_random_seed):
    """A schema of another table: the category of 80 % stays one.

    By the declared number alone, shares were off by 0.075 and 0.05. The noise of a
    share is below 0.004, and the declared number still pulls by 0.002: with 100,000
    draws one of 12 columns passes 0.03 by chance at a rate below 1e-9.
    """
    found = share_of_a([0.8, 0.2, 0.0], global_random_seed, n_rows=declared)
    assert (found - 0.8).abs().max() < 0.03


def test_missing_numbers_that_a_domain_does_not_model_are_in_no_bin():
    """Two rows in five, without noise; in a bin they would count as its numbers."""
    x = np.random.default_rng(0).uniform(1.0, 1.5, 5000)
    x[np.arange(5000) % 5 < 2] = np.nan
    spec = Continuous(1, 2, decimals="any")
    drawn = fitted({"x": x}, TableSchema({"x": spec}), math.inf).sample(20_000)["x"]
    assert (drawn > 1.6).mean() < 0.01
