"""GANSynthesizer: the upper bound, which says that it is not private."""

import math

import pytest
from sklearn.base import clone
from tables import correlated_schema, correlated_table, dependence

from skdpsynth import DPCGANSynthesizer, GANSynthesizer


def test_it_learns_the_dependence_of_a_table():
    """Independent columns miss all of it."""
    synthesizer = GANSynthesizer(schema=correlated_schema(), random_state=0)
    assert min(dependence(synthesizer.fit(correlated_table(1000)))) > 0.6


@pytest.mark.usefixtures("short_fits")
def test_it_says_that_it_is_not_private():
    synthesizer = GANSynthesizer(target="y", n_iter=1)
    synthesizer.fit(correlated_table(200))
    assert synthesizer.epsilon_ == math.inf
    assert synthesizer.get_epsilon(1e-3) == math.inf
    assert "not private" in str(synthesizer.privacy_report()).lower()


def test_it_has_no_parameter_of_privacy():
    synthesizer = GANSynthesizer(n_iter=3)
    names = set(synthesizer.get_params())
    private = {"epsilon", "delta", "budget", "max_grad_norm"}
    assert set(DPCGANSynthesizer().get_params()) - names == private
    assert clone(synthesizer).get_params() == synthesizer.get_params()
    with pytest.raises(TypeError):
        GANSynthesizer(epsilon=1.0)
