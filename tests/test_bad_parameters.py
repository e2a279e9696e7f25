"""Bad parameters are refused before any budget is spent, by `fit` and by `plan`."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from _instances import PLAIN

from skdpsynth.schema import Boolean, Continuous, TableSchema

ALL = [type(synthesizer) for synthesizer in PLAIN.values()]
TABLE = pd.DataFrame({"u": np.linspace(0, 1, 40), "y": np.arange(40) % 2})
COUNTS = [0, 2.5, "all"]
SIZES = [0.0, -1.0, math.nan]
LAYERS = [(8,), ((8,), (0,)), ((3.5,), ()), ((8,),) * 3, 7, "auto"]


class Unexpected:
    """No parameter takes one."""

    def __repr__(self):
        return "<unexpected>"


# Each is wrong for every synthesizer that has the parameter.
BAD = {
    "epsilon": [0, -1.0, math.nan, "1", None, 1e300, 1e-10],
    "delta": [0, 1, math.nan, 1e-13],
    "target": [["y"]],
    "schema": [{"u": Boolean()}],
    "budget": [3.0],
    "random_state": ["seed", -1],
    "noise": ["uniform"],
    "desensitization": ["none"],
    "init": ["zeros"],
    "unlabelled_weight": [-0.1, 1.0, math.nan],
    "use_unlabelled": ["yes", 2],
    "hidden_dims": LAYERS,
    "n_iter": [-1, 2.5, "all"],
    "batch_size": COUNTS,
    "projection_dim": [0],
    "n_bins": [1],
    "order": [0, 4, 2.5, "pairs"],
    "design": ["site.json", []],
    "device": ["abacus", 0.5],
}
BAD |= dict.fromkeys(["learning_rate", "max_grad_norm", "weight_clip"], SIZES)
STEPS = ["n_teachers", "n_teacher_steps", "n_student_steps", "n_discriminator_steps"]
BAD |= dict.fromkeys(STEPS, COUNTS)


def cases():
    """Every synthesizer, with each bad value of the parameters that it has."""
    for synthesizer in ALL:
        names = synthesizer().get_params().keys()
        for name in sorted(names):  # KeyError: a parameter has no bad value here
            for value in (*BAD[name], Unexpected()):
                yield synthesizer, {name: value}


@pytest.mark.parametrize(("synthesizer", "bad"), list(cases()), ids=str)
def test_parameters_are_refused_before_any_budget(synthesizer, bad, untouched):
    """By their names; nothing private, as a class of scikit-learn's, is named."""
    synth = synthesizer(target="y")
    if "budget" in synth.get_params():
        synth.set_params(budget=untouched)
    synth.set_params(**bad)
    with pytest.raises((ValueError, TypeError), match="|".join(bad)) as caught:
        synth.fit(TABLE)
    assert not re.search(r"\b_[a-zA-Z]|\._\w|__\w", str(caught.value))
    if not {"target", "random_state"} & set(bad):
        schema = TableSchema({"u": Continuous(0, 1)})
        with pytest.raises((ValueError, TypeError), match="|".join(bad)):
            synth.plan(100, schema=schema)
    # The error is about a parameter, so nothing was set but the parameters.
    assert not synth.__sklearn_is_fitted__()
