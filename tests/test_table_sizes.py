"""From a hundred thousand rows to ten million: what is planned for them."""

import time

import numpy as np
import pytest
from _instances import TRAINED

from skdpsynth import MarginalSynthesizer
from skdpsynth.schema import Categorical, Continuous, TableSchema

DEFAULTS = [type(synthesizer) for synthesizer in TRAINED.values()]
# The most columns whose triples are measured, and a label.
WIDE = TableSchema(
    {f"x{i}": Continuous(-10, 10) for i in range(19)} | {"y": Categorical([0, 1])},
    target="y",
)


def plan_of(synthesizer, n_rows):
    plan = synthesizer(schema=WIDE).plan(n_rows)
    assert (plan["note"] == "").all()
    return plan.set_index("class").drop(columns=["note", "dependence", "training"])


@pytest.mark.parametrize("synthesizer", DEFAULTS)
def test_more_rows_are_planned_no_worse(synthesizer):
    """A hundred times the rows: as many rounds, and less noise for a row.

    In a few milliseconds, and for PATE-GAN in 3 seconds once: it chooses its noise.
    """
    start = time.process_time()
    few, many = (plan_of(synthesizer, n_rows) for n_rows in (10**5, 10**7))
    assert time.process_time() - start < 10
    assert np.isfinite(many.to_numpy(dtype=float)).all()
    assert many["rows"].sum() == 10**7
    assert (many["n_iter"] == 10).all()
    assert (few["n_iter"] == 10).all()
    assert (many["signal_to_noise"] > 50 * few["signal_to_noise"]).all()
    # Training takes a tenth of the squared mu from the marginals.
    alone = plan_of(MarginalSynthesizer, 10**7)
    ratio = many["noise_std"] / alone["noise_std"]
    assert ((ratio >= 1) & (ratio < 1.06)).all()
