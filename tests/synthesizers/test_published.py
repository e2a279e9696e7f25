"""The algorithms with the values of their papers: `as_published`."""

import math

import pytest
from sklearn.base import clone
from tables import LINKED_SCHEMA, correlated_schema, correlated_table, dependence

from skdpsynth import (
    DPCGANSynthesizer,
    DPGANSynthesizer,
    GANSynthesizer,
    GPATESynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
)

# What the papers state and the class has a parameter for.
STATED = {
    GPATESynthesizer: {"projection_dim": 5, "n_bins": 10},
    PATEGANSynthesizer: {"noise": "laplace", "n_teacher_steps": 5},
    DPCGANSynthesizer: {"max_grad_norm": 1.1, "batch_size": 256},
    PATETripleGANSynthesizer: {"desensitization": "hybrid", "max_grad_norm": 1.0},
    DPGANSynthesizer: {"n_discriminator_steps": 5, "weight_clip": 0.01},
    GANSynthesizer: {"n_discriminator_steps": 1, "batch_size": 100},
}
VOTING = GPATESynthesizer, PATEGANSynthesizer, PATETripleGANSynthesizer
CLASSES = pytest.mark.parametrize("cls", STATED, ids=lambda cls: cls.__name__)


@CLASSES
def test_it_has_the_papers_values_and_its_networks_from_nothing(cls):
    """Whatever is given replaces a value; a subclass is made of its own kind."""

    class Own(cls):
        pass

    found = Own.as_published()
    assert type(found) is Own
    parameters = found.get_params()
    assert {name: parameters[name] for name in STATED[cls]} == STATED[cls]
    assert parameters["init"] == "random"
    assert len(parameters["hidden_dims"][0]) >= 2
    assert isinstance(parameters["n_iter"], int)
    given = {"n_iter": 7, "random_state": 3, "schema": LINKED_SCHEMA, "target": "a"}
    if cls is not GANSynthesizer:
        given |= {"epsilon": 2.0, "delta": 1e-6}
    found = cls.as_published(**given)
    assert found.get_params() == clone(found).get_params() == parameters | given
    assert found.set_params(n_iter=9).n_iter == 9


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
@pytest.mark.parametrize("cls", VOTING, ids=lambda cls: cls.__name__)
def test_teachers_that_agree_outweigh_the_noise_of_their_votes(cls, epsilon):
    """The values without noise, ten teachers, would leave nothing but noise."""
    published = cls.as_published(epsilon, schema=LINKED_SCHEMA, target="a")
    plan = published.plan(30_000)
    assert (plan["n_iter"] > 0).all()
    assert (plan["n_teachers"] > 1.5 * plan["step_noise_std"]).all()
    without = cls.as_published(math.inf)
    assert cls.as_published(1e6).n_iter == without.n_iter  # no more than without noise
    assert without.n_teachers == 10
    assert without.n_iter >= 2000


def test_the_noise_of_gpate_is_the_papers():
    """2100 teachers at epsilon 1: 600 votes (appendix A.5)."""
    published = GPATESynthesizer.as_published(schema=LINKED_SCHEMA, target="a")
    noise = published.plan(284_807)["step_noise_std"]
    assert noise.between(540, 660).all()


@CLASSES
def test_networks_by_default_take_the_rounds_of_the_paper(cls):
    """`n_iter="auto"` of a random start."""
    of_paper = cls.as_published()
    synthesizer = cls(schema=LINKED_SCHEMA, target="a", init="random")
    assert (synthesizer.plan(30_000)["n_iter"] == of_paper.n_iter).all()


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
