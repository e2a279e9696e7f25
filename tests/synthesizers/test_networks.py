"""The papers' generators: networks of normal codes that start from nothing."""

import math

import numpy as np
import pandas as pd
import pytest
from tables import LINKED_SCHEMA, distance, linked_table

from skdpsynth import (
    DPCGANSynthesizer,
    GANSynthesizer,
    GPATESynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
)
from skdpsynth.schema import Continuous, TableSchema
from skdpsynth.synthesizers._initial import InitialNetwork  # encodes rows

NETWORK = {"init": "random", "generator_hidden_dims": (32,), "latent_dim": 4}
STEPS = {
    "hidden_dims": (16,),
    "n_iter": 800,
    "batch_size": 64,
    "n_generator_steps": 1,
    "max_grad_norm": 100.0,
    "learning_rate": 0.1,
}
LABELS = {
    "hidden_dims": (16,),
    "n_teachers": 5,
    "n_iter": 250,
    "batch_size": 256,
    "n_teacher_steps": 5,
    "n_student_steps": 8,
    "n_generator_steps": 2,
    "teacher_learning_rate": 0.1,
    "learning_rate": 0.1,
}


CASES = {
    "DP-CGAN": (DPCGANSynthesizer, STEPS),
    "PATE-GAN": (PATEGANSynthesizer, LABELS),
}


@pytest.mark.parametrize("name", CASES)
def test_a_network_learns_a_table_without_noise(name):
    """Right marginals alone would be at 0.6; five seeds are at 0.22 to 0.45."""
    cls, settings = CASES[name]
    synthesizer = cls(
        math.inf, schema=LINKED_SCHEMA, random_state=0, **NETWORK, **settings
    )
    table = linked_table()
    fake = synthesizer.fit(table).sample(3000)
    assert distance(table, fake) < 0.5
    assert fake["c"].isna().mean() == pytest.approx(0.1, abs=0.2)


@pytest.mark.parametrize(("low", "high"), [(1, 9), (1, 49), (0, 3)])
def test_numbers_survive_the_bins_of_a_network(low, high, monkeypatch):
    """A whole number falls into a bin whose ranks give it back, or a near one."""
    schema = TableSchema({"n": Continuous(low, high, integer=True)})
    table = pd.DataFrame({"n": np.arange(low, high + 1)})
    settings = NETWORK | STEPS | {"n_iter": 1, "learning_rate": 1e-9}
    found = []

    def keep(self, rows, position):
        found.append((encode(self, rows, position), self._ranks, self.model.marginals))
        return found[-1][0]

    encode = InitialNetwork.encode
    monkeypatch.setattr(InitialNetwork, "encode", keep)
    DPCGANSynthesizer(math.inf, schema=schema, **settings).fit(table)
    encoded, ranks, marginals = found[0]
    bins = encoded.argmax(axis=1)
    for end in (1e-6, 1 - 1e-6):
        middle = ranks[0, bins] * (1 - end) + ranks[1, bins] * end
        values, _ = marginals[0][0].decode(middle)
        assert np.abs(values - table["n"]).max() <= np.ceil(2 * (high - low) / 32) - 1


@pytest.mark.parametrize(
    ("cls", "given", "missing"),
    [
        (DPCGANSynthesizer, {"n_iter": 5, "hidden_dims": (4,)}, "init='random'"),
        (GANSynthesizer, {"init": "random", "n_iter": 5}, "hidden_dims"),
        (GPATESynthesizer, {"init": "random", "n_iter": 5}, "confident_gnmax"),
        (PATEGANSynthesizer, {"init": "random"}, "n_iter"),
        (
            PATETripleGANSynthesizer,
            {"init": "random", "n_iter": 5, "desensitization": "dpsgd"},
            "hidden_dims",
        ),
    ],
)
def test_what_a_network_needs_is_said(cls, given, missing):
    synthesizer = cls(schema=LINKED_SCHEMA, generator_hidden_dims=(4,), **given)
    with pytest.raises(ValueError, match=missing):
        synthesizer.fit(linked_table(50))
