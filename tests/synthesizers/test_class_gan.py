"""What the five that train have in common: they start from pairs, and it pays."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from _twins import in_place_of_the_mechanisms

from skdpsynth import (
    DPCGANSynthesizer,
    DPGANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
)
from skdpsynth.datasets import load_adult
from skdpsynth.metrics import marginal_fidelity
from skdpsynth.privacy import _mechanisms
from skdpsynth.schema import Categorical, Continuous, TableSchema

FIVE = [
    GPATESynthesizer,
    PATEGANSynthesizer,
    DPCGANSynthesizer,
    DPGANSynthesizer,
    PATETripleGANSynthesizer,
]
COLUMNS = ["age", "education", "marital-status", "relationship", "sex", "income"]


@pytest.fixture(scope="module")
def adult():
    """Six columns of a real table, of which five hang together."""
    return load_adult()[COLUMNS]


def error(table, rows):
    """Mean total variation distance of all pairs of columns."""
    return float(marginal_fidelity(table, rows).mean())


@pytest.fixture(scope="module")
def floor(adult):
    """Error of independent columns in each class, by a fit of the same budget."""
    alone = IndependentSynthesizer(epsilon=2.0, target="income", random_state=0)
    return error(adult, alone.fit(adult).sample(len(adult), random_state=0))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("cls", FIVE)
def test_pairs_are_learnt_and_paid_and_saved(cls, adult, floor, tmp_path):
    """Secure noise. Independent columns have 0.13 +- 0.001, the five 0.010 to 0.013.

    The bound is half of the former. The means of two tables of 48,842 rows differ by
    0.001 at random, and ten of these standard deviations are 0.01: below 1e-15.
    """
    synthesizer = cls(epsilon=2.0, target="income", random_state=0).fit(adult)
    rows = synthesizer.sample(len(adult), random_state=0)
    assert error(adult, rows) < 0.5 * floor
    # Votes are about two columns, which the tables know.
    votes = cls in (PATEGANSynthesizer, PATETripleGANSynthesizer)
    assert (synthesizer.n_iter_ == 0) == votes
    # The ledger: squares of mu add up to the cap, for the class that pays most.
    report = synthesizer.privacy_report()
    assert synthesizer.epsilon_ <= 2.0
    assert any("pair tables" in entry.name for entry in report.entries)
    assert all(entry.used == entry.releases for entry in report.entries)
    for scope in ("class <=50K", "class >50K"):
        payers = ("all rows", scope)
        paid = sum(e.mu_total**2 for e in report.entries if e.scope in payers)
        assert 0.97 * report.mu < math.sqrt(paid) <= report.mu * (1 + 1e-9)
    # The file: the same generator, so the same rows.
    synthesizer.save(tmp_path / "file")
    same = cls.load(tmp_path / "file")
    pd.testing.assert_frame_equal(same.sample(len(adult), random_state=0), rows)


# --- Which test would fail if the noise were removed? -----------------------------

SCHEMA = TableSchema(
    {
        "a": Continuous(-6, 6, scale="linear", decimals="any"),
        "b": Continuous(-6, 6, scale="linear", decimals="any"),
        "c": Categorical(["p", "q"]),
        "y": Categorical(["u", "v"]),
    },
    target="y",
)
START = {"class counts", "marginals", "pair tables"}
TRIPLE = {"classifier's gradients", "unlabelled rows of each class"}
BRANCH = {"unlabelled rows' gradients"}
RELEASES = [
    (GPATESynthesizer, {}, {"sums of linear teachers"}),
    (
        GPATESynthesizer,
        {"aggregator": "confident_gnmax"},
        {"answers by vote", "threshold tests"},
    ),
    (PATEGANSynthesizer, {}, {"labels by vote"}),
    (DPCGANSynthesizer, {}, {"discriminator's gradients"}),
    (DPGANSynthesizer, {}, {"discriminator's gradients"}),
    (PATETripleGANSynthesizer, {}, TRIPLE | BRANCH | {"labels by vote"}),
    (
        PATETripleGANSynthesizer,
        {"desensitization": "dpsgd"},
        TRIPLE | BRANCH | {"discriminator's gradients"},
    ),
]


def make_table(n_rows=4000):
    rng = np.random.default_rng(0)
    a = rng.normal(size=n_rows)
    b = 0.8 * a + 0.6 * rng.normal(size=n_rows)
    c = np.where(a + rng.normal(size=n_rows) > 0, "p", "q")
    y = np.where(rng.random(n_rows) < 0.4, "u", "v").astype(object)
    return pd.DataFrame({"a": a, "b": b, "c": c, "y": y})


def family(name):
    """Name of a release without the numbers of its table."""
    found = [known for known in START if known in name]
    return found[-1] if found else name


def noise_by_release(cls, parameters):
    """Fit; give how many of the released numbers of each name differ from the exact.

    Few numbers are drawn again, beside the fit, so that there are 64 at least.
    """
    noisy = {}

    def watch(real):
        def watched(values, reservation, *others):
            drawn = [real(values, reservation, *others)]
            while len(drawn) * values.size < 64:
                drawn.append(real(values, reservation, *others))
            exact = values
            if drawn[0].dtype == bool:
                exact = 2 * values > reservation.n_teachers
            name = family(reservation.name)
            changed = sum(int((answers != exact).sum()) for answers in drawn)
            noisy[name] = noisy.get(name, 0) + changed
            return drawn[0]

        return watched

    settings = {"epsilon": 1.0, "schema": SCHEMA, "n_iter": 2, **parameters}
    if "n_generator_steps" in cls().get_params():
        settings["n_generator_steps"] = 2
    with in_place_of_the_mechanisms(watch):
        synthesizer = cls(**settings).fit(make_table())
    return noisy, synthesizer


@pytest.mark.usefixtures("short_fits")
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
@pytest.mark.parametrize(("cls", "parameters", "trained"), RELEASES)
def test_every_release_is_noisy(cls, parameters, trained):
    """No release but these is in the report, and every one has noise.

    64 whole numbers with noise of sigma > 3 are all exact with probability 0.14^64.
    Of 2,048 bits two fifths are changed: none would be with probability 0.6^2048.
    """
    noisy, synthesizer = noise_by_release(cls, parameters)
    names = {family(e.name) for e in synthesizer.privacy_report().entries}
    assert names == noisy.keys() == START | trained
    assert min(noisy.values()) > 0


@pytest.mark.usefixtures("short_fits")
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning")
@pytest.mark.parametrize(("cls", "parameters", "trained"), RELEASES)
def test_without_the_noise_it_would_fail(cls, parameters, trained, monkeypatch):
    """The twins draw integers, bits and floats exactly, and pay all the same."""
    for name in ("_noisy_integers", "_noisy_floats"):
        monkeypatch.setattr(_mechanisms, name, lambda values, *_: values.copy())
    monkeypatch.setattr(
        _mechanisms,
        "_noisy_majorities",
        lambda votes, reservation, *_: 2 * votes > reservation.n_teachers,
    )
    noisy, _ = noise_by_release(cls, parameters)
    assert noisy == dict.fromkeys(START | trained, 0)


@pytest.mark.parametrize("cls", FIVE)
def test_a_class_without_pairs_borrows_and_does_not_train(cls):
    """Where the others have pairs: independent columns would be a mark of the class."""
    columns = {f"c{j}": Categorical(["u", "v"]) for j in range(10)}
    columns["t"] = Categorical(["many", "few"])
    schema = TableSchema(columns, target="t")
    for few in (300, 500, 700, 1000, 1500, 4000):
        counts = {"many": 20_000, "few": few}
        plan = cls(epsilon=1.0, schema=schema).plan(class_counts=counts)
        plan = plan.set_index("class")
        assert plan["tables"]["many"] > 0
        assert plan["n_iter"]["few"] == 0 or plan["tables"]["few"] > 0
