"""Bad parameters are refused before any budget is spent, by `fit` and by `plan`."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from _instances import PLAIN

from skdpsynth.schema import Boolean, Continuous, TableSchema

ALL = [type(synthesizer) for synthesizer in PLAIN.values()]
COUNTS = [0, 2.5, "all"]
SIZES = [0.0, -1.0, math.nan]

# Each is wrong for every synthesizer that has the parameter.
BAD = {
    "epsilon": [0, -1.0, math.nan, "1", None, 1e300, 1e-10],
    "delta": [0, 1, math.nan, 1e-13],
    "target": [["y"]],
    "schema": [{"u": Boolean()}],
    "budget": [3.0],
    "random_state": ["seed", -1],
    "verbose": [-1, "yes"],
    "aggregator": ["mean"],
    "noise": ["uniform"],
    "desensitization": ["none"],
    "init": ["zeros"],
    "unlabelled_weight": [-0.1, 1.0, math.nan],
    "n_teachers": COUNTS,
    "n_iter": COUNTS,
    "noise_multiplier": SIZES,
    "max_grad_norm": SIZES,
    "weight_clip": SIZES,
    "batch_size": COUNTS,
    "n_teacher_steps": COUNTS,
    "n_student_steps": COUNTS,
    "n_discriminator_steps": COUNTS,
    "n_generator_steps": COUNTS,
    "latent_dim": COUNTS,
    "hidden_dims": [(0,), (3.5,), 7, "auto"],
    "generator_hidden_dims": [(0,), (3.5,), 7, "auto"],
    "learning_rate": SIZES,
    "student_learning_rate": [*SIZES, 1.5],
    "teacher_learning_rate": SIZES,
    "discriminator_learning_rate": SIZES,
    "projection_dim": [0],
    "n_bins": [1],
    "order": [0, 4, 2.5, "pairs"],
    "design": ["site.json", []],
    "threshold": [1.5],
    "device": ["abacus", 0.5],
}
# Over-determined: epsilon and one of the two fix the other.
TOO_MANY = [
    {"n_iter": 5, "noise_multiplier": 1.0},
    {"epsilon": math.inf, "noise_multiplier": 1.0},
]


def cases():
    """Every synthesizer, with each bad value of the parameters that it has."""
    for synthesizer in ALL:
        names = set(synthesizer().get_params())
        for name in sorted(names & set(BAD)):
            for value in BAD[name]:
                yield synthesizer, {name: value}
        for parameters in TOO_MANY:
            if names >= set(parameters):
                yield synthesizer, parameters


@pytest.mark.parametrize(("synthesizer", "bad"), list(cases()), ids=str)
def test_parameters_are_refused_before_any_budget(synthesizer, bad, untouched):
    synth = synthesizer(target="y")
    if "budget" in synth.get_params():
        synth.set_params(budget=untouched)
    synth.set_params(**bad)
    table = pd.DataFrame({"u": np.linspace(0, 1, 40), "y": np.arange(40) % 2})
    with pytest.raises(ValueError, match="|".join(bad)):
        synth.fit(table)
    if not {"target", "random_state"} & set(bad):
        schema = TableSchema({"u": Continuous(0, 1)})
        with pytest.raises(ValueError, match="|".join(bad)):
            synth.plan(100, schema=schema)
    # The error is about a parameter, so nothing was set but the parameters.
    assert not synth.__sklearn_is_fitted__()


@pytest.mark.parametrize("synthesizer", ALL)
def test_every_parameter_has_a_bad_value_here(synthesizer):
    assert set(synthesizer().get_params()) <= set(BAD)
