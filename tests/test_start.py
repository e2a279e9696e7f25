"""Commands import what they need: torch takes longer than all else together.

Only the adversarial loops of the papers and GPUs need it."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest

from skdpsynth import MarginalSynthesizer, TableSchema
from skdpsynth.schema import Categorical, Continuous

LOADED = (
    "import sys\n"
    "from skdpsynth.__main__ import main\n"
    "assert main({words!r}) == 0\n"
    "loaded = {heavy!r} & set(sys.modules)\n"
    "assert not loaded, loaded"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    table = pd.DataFrame({"x": range(300), "y": ["a", "b", "c"] * 100})
    table.to_csv(folder / "t.csv", index=False)
    columns = {"x": Continuous(0, 299, integer=True), "y": Categorical(["a", "b", "c"])}
    schema = TableSchema(columns, n_rows=300)
    schema.to_json(folder / "s.json")
    synth = MarginalSynthesizer(20.0, schema=schema, random_state=0).fit(table)
    synth.save(folder / "m.skdp")
    return folder


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        ("report m.skdp", {"torch", "sklearn"}),
        ("schema t.csv", {"torch", "sklearn"}),
        ("check t.csv --schema s.json", {"torch", "sklearn"}),
        ("sample m.skdp -n 9 -o -", {"torch", "opacus", "xgboost", "matplotlib"}),
        ("card m.skdp", {"torch", "opacus", "xgboost", "matplotlib"}),
        ("plan t.csv --schema s.json --epsilon 1", {"torch", "opacus", "matplotlib"}),
        (
            "fit t.csv --schema s.json --epsilon 1 -o n",
            {"torch", "opacus", "matplotlib"},
        ),
    ],
)
def test_a_command_imports_what_it_needs(command, heavy, folder):
    code = LOADED.format(words=command.split(), heavy=heavy)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
