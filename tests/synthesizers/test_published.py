"""The algorithms with the values of their papers: `as_published`."""

import ast
import inspect
import io
import math
import re
import textwrap
import tokenize
from pathlib import Path

import pytest
from sklearn.base import clone
from tables import LINKED_SCHEMA, linked_table

import skdpsynth
from skdpsynth import (
    DPCGANSynthesizer,
    DPGANSynthesizer,
    GANSynthesizer,
    GPATESynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
)

DOCS = Path(__file__).parents[2] / "docs"
# What the papers state and the class has a parameter for.
STATED = {
    GPATESynthesizer: {
        "aggregator": "confident_gnmax",
        "projection_dim": 5,
        "n_bins": 10,
    },
    PATEGANSynthesizer: {"noise": "laplace", "n_teacher_steps": 5},
    DPCGANSynthesizer: {
        "max_grad_norm": 1.1,
        "n_discriminator_steps": 1,
        "n_generator_steps": 1,
    },
    PATETripleGANSynthesizer: {
        "desensitization": "hybrid",
        "max_grad_norm": 1.0,
        "n_teacher_steps": 5,
    },
    DPGANSynthesizer: {
        "batch_size": 64,
        "n_discriminator_steps": 5,
        "n_generator_steps": 1,
        "weight_clip": 0.01,
        "hidden_dims": (64, 64),
    },
    GANSynthesizer: {"latent_dim": 100, "batch_size": 100},
}
PAGES = {
    GPATESynthesizer: "gpate",
    PATEGANSynthesizer: "pategan",
    DPCGANSynthesizer: "dpcgan",
    PATETripleGANSynthesizer: "pate_triplegan",
    DPGANSynthesizer: "dpgan",
    GANSynthesizer: "gan",
}
# What names a place in a paper, or says that there is none.
PLACE = re.compile(
    r"section \d|appendix|\bA\.\d|(algorithm|equation|figure|table) \d|not stated", re.I
)
VOTING = GPATESynthesizer, PATEGANSynthesizer, PATETripleGANSynthesizer
CLASSES = pytest.mark.parametrize("cls", STATED, ids=lambda cls: cls.__name__)
SMALL = {"n_iter": 3, "generator_hidden_dims": (8,), "hidden_dims": (4,)}


@CLASSES
def test_it_has_the_papers_values_and_its_networks_from_nothing(cls):
    found = cls.as_published()
    assert type(found) is cls
    parameters = found.get_params()
    assert {name: parameters[name] for name in STATED[cls]} == STATED[cls]
    assert parameters["init"] == "random"
    assert len(parameters["generator_hidden_dims"]) >= 2
    assert isinstance(parameters["n_iter"], int)


@CLASSES
def test_what_is_given_replaces_the_papers_value(cls):
    given = {"n_iter": 7, "random_state": 3, "schema": LINKED_SCHEMA, "target": "a"}
    if cls is not GANSynthesizer:
        given |= {"epsilon": 2.0, "delta": 1e-6}
    found = cls.as_published(**given)
    changed = {**cls.as_published().get_params(), **given}
    assert found.get_params() == clone(found).get_params() == changed
    assert found.set_params(n_iter=9).n_iter == 9


@CLASSES
def test_a_subclass_is_made_of_its_own_kind(cls):
    class Own(cls):
        pass

    assert type(Own.as_published()) is Own


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


def test_a_given_noise_decides_the_steps():
    """Beside `n_iter`, `noise_multiplier` would be an error."""
    found = DPCGANSynthesizer.as_published(noise_multiplier=1.15)
    assert found.n_iter == "auto"
    assert DPCGANSynthesizer.as_published(noise_multiplier=None).n_iter != "auto"


@CLASSES
def test_a_private_fit_is_within_its_budget_and_survives_a_file(cls, tmp_path):
    budget = {} if cls is GANSynthesizer else {"epsilon": 2.0}
    votes = {"batch_size": 16} if "n_teachers" in cls().get_params() else {}
    published = cls.as_published(
        schema=LINKED_SCHEMA, target="a", random_state=0, **budget, **SMALL, **votes
    )
    published.fit(linked_table(300))
    assert published.n_iter_ == 3
    if budget:
        assert 0 < published.epsilon_ <= 2.0
        entries = published.privacy_report().entries
        assert all(entry.used == entry.releases > 0 for entry in entries)
    path = tmp_path / "published.dpsynth"
    published.save(path)
    again = cls.load(path)
    assert again.get_params()["generator_hidden_dims"] == (8,)
    assert list(again.sample(20).columns) == ["a", "b", "c"]


def without_place(source):
    """List the values of a dict whose comment names no place in the paper.

    The comment is on a line of the value, or directly above the group that the value
    is in. A value with a comment of its own ends a group.
    """
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    comments = {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}
    alone = {row for row in comments if source.splitlines()[row - 1].lstrip()[0] == "#"}
    tree = ast.parse(source)
    (paper,) = (node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    missing, above, end = [], "", paper.lineno
    for key, value in zip(paper.keys, paper.values, strict=True):
        lines = range(key.lineno, value.end_lineno + 1)
        if key.lineno > end + 1:
            rows = range(end + 1, key.lineno)
            above = " ".join(comments[row].lstrip("# ") for row in rows if row in alone)
        own = " ".join(comments[row] for row in lines if row in comments)
        if not PLACE.search(own or above):
            missing.append(key.value)
        above, end = "" if own else above, value.end_lineno
    return missing


@CLASSES
def test_every_value_has_its_place_in_the_paper_beside_it(cls):
    assert without_place(textwrap.dedent(inspect.getsource(cls._paper))) == []


def test_a_value_without_a_place_is_found():
    source = """
        paper = {
            # Section 1: a group, whose second value takes two lines.
            "a": 1,
            "b": (
                2
            ),
            "c": 3,  # Table 2
            "lost": 4,
            "d": (5,
                6),  # not stated
            "e": 7,  # no place
            # A reason alone.
            "f": 8,
        }
    """
    assert without_place(textwrap.dedent(source)) == ["lost", "e", "f"]


@CLASSES
def test_its_page_has_the_algorithm_and_what_soundness_changed(cls):
    page = (DOCS / f"{PAGES[cls]}.md").read_text(encoding="utf-8")
    assert re.search(r"^\| (line \| )?paper.*\| here", page, flags=re.MULTILINE)
    assert f"{cls.__name__}.as_published(" in page
    if cls is not GANSynthesizer:
        assert "| as published | here | what it costs |" in page


def test_they_are_all_that_train():
    classes = {getattr(skdpsynth, name) for name in skdpsynth.__all__}
    synthesizers = [c for c in classes if hasattr(c, "sample")]
    trains = {c for c in synthesizers if "learning_rate" in c().get_params()}
    assert trains == {*STATED}
