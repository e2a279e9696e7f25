"""The scripts in `examples` run, on fewer rows, and do what they say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pandas as pd
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a script in quick mode, with a folder of its own for what it writes."""

    def call(name: str) -> str:
        monkeypatch.setattr("sys.argv", [name, "--quick"])
        script = runpy.run_path(str(EXAMPLES / name), run_name="script")
        # The names that its functions look up, unlike those that `run_path` returns.
        names = script["main"].__globals__
        monkeypatch.setitem(names, "OUTPUT", tmp_path)
        script["main"]()
        return capsys.readouterr().out

    return call


def test_choosing_a_budget(run, tmp_path):
    """Signal grows with epsilon; every candidate is scored; the plot is a picture."""
    printed = run("choose_budget.py")
    plan, scores = (part.strip().splitlines() for part in printed.split("\n\n")[1::2])
    signal = [float(line.split()[3]) for line in plan[2:]]
    assert len(signal) == 4
    assert signal[0] < signal[2]
    assert signal[1] < signal[3]
    scored = pd.DataFrame([line.split()[-3:-1] for line in scores[2:]]).astype(float)
    assert scored.shape == (4, 2)
    assert ((scored > 0) & (scored < 1)).to_numpy().all()
    assert (tmp_path / "choose_budget.png").read_bytes().startswith(b"\x89PNG")


def test_a_pipeline_with_a_budget(run):
    """Three folds and one table are paid for; the next fit is refused."""
    printed = run("sklearn_pipeline.py")
    assert "nan" not in printed
    charges, released = printed.split("\n\n")[1:]
    assert charges.count("fit      1.0") == 3
    assert re.match(r"released: \d,\d{3} synthetic rows, 2 labels\n", released)
    assert "refused, before it started: The budget has epsilon = 0 left of 4" in printed


def test_what_three_columns_know_is_learnt_by_adversaries_alone(run, tmp_path):
    """Chance is 0.5."""
    printed = run("three_columns.py")
    scores = dict(re.findall(r"  (\S.*?) +(\d\.\d+)\n", printed))
    assert float(scores["real rows"]) > 0.95
    assert float(scores["Pairwise"]) < 0.6
    assert float(scores["GPATE"]) > 0.9
    assert (tmp_path / "three_columns.png").read_bytes().startswith(b"\x89PNG")
