"""What a fit costs: time and memory, measured in a process of its own."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from _instances import TRAINED

from skdpsynth import MarginalSynthesizer
from skdpsynth.schema import Categorical, Continuous, TableSchema

ROOT = Path(__file__).parents[1]

# Measures fits one after the other. The peak is that of this program alone.
MEASURED = """
import json, sys, time, warnings
import numpy as np
import pandas as pd
import skdpsynth
from skdpsynth.utils import peak_megabytes

warnings.simplefilter("ignore")


def cost(synthesizer, table):
    before, start = peak_megabytes(), time.process_time()
    synthesizer.fit(table)
    own = time.process_time() - start
    return {"own": own, "more": peak_megabytes() - before}


rng = np.random.default_rng(0)
label = (rng.random(30_000) < 0.05).astype(int)
table = pd.DataFrame(rng.normal(size=(30_000, 14)) + label[:, None]).rename(columns=str)
table["y"] = label
one = skdpsynth.IndependentSynthesizer(target="y")
many = skdpsynth.GPATESynthesizer(target="y", n_iter=3)
for synthesizer in (one, many):
    synthesizer.fit(table.iloc[:1000])  # imports, and the calibration
print(json.dumps([cost(synthesizer, table) for synthesizer in (one, one, one, many)]))
"""


@pytest.mark.nightly
def test_a_scaled_kaggle_fit_is_cheap():
    """30,000 x 15, 3 steps: a multiple of the time of the marginals alone.

    On 1 core a fit of the floor takes 0.2 s; with pairs this one takes 55 times as much
    (1,000 components are fitted to pair tables, whatever the rows). It needs 170 MB
    more than what came before, of which the rows are 4 MB.
    """
    command = [sys.executable, "-c", MEASURED]
    done = subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr
    *floors, fit = json.loads(done.stdout)
    assert fit["own"] < 90 * min(floor["own"] for floor in floors)
    assert fit["more"] < 400


# --- From a hundred thousand rows to ten million: what is planned for them ------------


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
