"""What a fit costs: time and memory, measured in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
