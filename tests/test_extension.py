"""The synthesizer of the guide: it runs as printed, and is what it claims to be."""

import importlib
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdpsynth.audit import audit_ledger
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Continuous, TableSchema

PAGE = Path(__file__).parents[1] / "docs" / "extension.md"
CODE = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[0]

CANARY = {"x": 5.0, "y": 30.0, "z": -5.0}


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "median_copula.py").write_text(CODE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("median_copula").MedianCopulaSynthesizer


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(20_000)
    y = 0.8 * x + 0.6 * rng.standard_normal(len(x))
    z = rng.standard_normal(len(x))
    return pd.DataFrame({"x": x, "y": np.exp(y), "z": z})


SCHEMA = TableSchema(
    {"x": Continuous(-5, 5), "y": Continuous(0, 30), "z": Continuous(-5, 5)}
)


def test_dependence_is_learnt_and_survives_a_file(own, table, tmp_path):
    with insecure_randomness(0):
        synth = own(epsilon=5.0, schema=SCHEMA, random_state=0).fit(table)
    drawn = synth.sample(20_000, random_state=1)
    # Without a signal a rank correlation of 20,000 rows has deviation 0.007.
    ranks = drawn.corr(method="spearman")
    assert ranks.loc["x", "y"] == pytest.approx(0.79, abs=0.05)
    assert abs(ranks.loc["x", "z"]) < 0.1
    synth.save(tmp_path / "own.skdp")
    again = own.load(tmp_path / "own.skdp").sample(20_000, random_state=1)
    pd.testing.assert_frame_equal(drawn, again)


def test_every_release_is_in_the_ledger(own, table):
    synth = own(epsilon=1.0, schema=SCHEMA, random_state=0)
    assert not audit_ledger(synth, table[:300], CANARY).findings
    synth.fit(table)
    assert synth.epsilon_ <= 1.0
    names = [line.name for line in synth.privacy_report().entries]
    assert names.count("signs of pairs") == 1
