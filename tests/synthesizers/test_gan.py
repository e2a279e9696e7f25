"""GANSynthesizer: the upper bound, which says that it is not private."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdpsynth import DPCGANSynthesizer, GANSynthesizer


def make_table(n_rows=1000, seed=0):
    """Six columns that depend on each other through two factors, by class."""
    rng = np.random.default_rng(seed)
    member = rng.integers(2, size=n_rows)
    turns = np.random.default_rng(9).normal(size=(2, 2, 6))
    factors = rng.standard_normal((n_rows, 2))
    rows = np.einsum("nk,nkj->nj", factors, turns[member])
    rows += 0.5 * rng.standard_normal(rows.shape)
    table = pd.DataFrame(rows, columns=list("abcdef"))
    return table.assign(y=np.array(["u", "v"])[member])


def error(rows, table):
    """Share of the squared correlations of the classes that is missed."""
    missed = total = 0.0
    for label, part in table.groupby("y"):
        real = part.drop(columns="y").corr().to_numpy() - np.eye(6)
        fake = rows[rows["y"] == label].drop(columns="y").corr().to_numpy() - np.eye(6)
        missed, total = missed + ((real - fake) ** 2).sum(), total + (real**2).sum()
    return missed / total


def test_it_learns_the_dependence_of_a_table():
    """Independent columns miss all of it."""
    table = make_table()
    synthesizer = GANSynthesizer(target="y", random_state=0).fit(table)
    assert error(synthesizer.sample(4000, random_state=0), table) < 0.2


@pytest.mark.usefixtures("short_fits")
def test_it_says_that_it_is_not_private_and_is_saved(tmp_path):
    synthesizer = GANSynthesizer(target="y", n_iter=1, n_generator_steps=1)
    synthesizer.fit(make_table(200))
    assert synthesizer.epsilon_ == math.inf
    assert synthesizer.get_epsilon(1e-3) == math.inf
    assert "not private" in str(synthesizer.privacy_report()).lower()
    synthesizer.save(tmp_path / "model.skdp")
    rows = GANSynthesizer.load(tmp_path / "model.skdp").sample(50, random_state=1)
    pd.testing.assert_frame_equal(rows, synthesizer.sample(50, random_state=1))


def test_it_has_no_parameter_of_privacy():
    synthesizer = GANSynthesizer(n_iter=3)
    names = set(synthesizer.get_params())
    private = {"epsilon", "delta", "budget", "noise_multiplier", "max_grad_norm"}
    assert set(DPCGANSynthesizer().get_params()) - names == private
    assert clone(synthesizer).get_params() == synthesizer.get_params()
    with pytest.raises(TypeError):
        GANSynthesizer(epsilon=1.0)
