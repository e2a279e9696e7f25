"""The commands of the pages do what the pages say, in their order."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from pathlib import Path

import pandas as pd
import pytest

from skdpsynth.__main__ import main
from skdpsynth.privacy.testing import insecure_randomness

ROOT = Path(__file__).parents[1]
_BLOCKS = re.compile(r"^```(sh|json)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run_page(page: str) -> list[list[str]]:
    """Run all commands of a page, which must end well, and edit as it shows."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    commands: list[list[str]] = []
    for kind, block in _BLOCKS.findall(text):
        if kind == "json":
            edit_schema(block)
            continue
        for line in block.splitlines():
            program, *words = shlex.split(line, comments=True)
            if program == "python":
                runpy.run_path(str(ROOT / words[0]), run_name="__main__")
            else:
                assert program == "skdpsynth"
                assert main(words) == 0, line
            commands.append(words)
    return commands


def edit_schema(lines: str) -> None:
    """Put what a block shows into the schema file, as an editor would."""
    path = Path("schema.json")
    schema = json.loads(path.read_text(encoding="utf-8"))
    columns = dict(schema["columns"])
    for line in filter(str.strip, lines.splitlines()):
        try:
            name, description = json.loads(line.rstrip(","))
            columns[name] = description
        except ValueError:
            schema |= json.loads("{" + line.strip().rstrip(",") + "}")
    path.write_text(
        json.dumps(schema | {"columns": [*columns.items()]}), encoding="utf-8"
    )


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["python"])


@pytest.mark.usefixtures("few_trees")
def test_from_a_messy_file_to_a_release(capsys):
    with insecure_randomness(0):  # one column in 4,000 has other decimals by noise
        commands = run_page("command_line.md")
    said = capsys.readouterr().out
    assert {words[0] for words in commands[1:]} == {
        *("schema", "check", "plan", "fit", "report", "card", "budget", "sample"),
        "evaluate",
    }
    assert "left   epsilon = 0, delta = 0" in said
    how = {"sep": ";", "encoding": "latin-1", "dtype": str, "keep_default_na": False}
    real, drawn = (
        pd.read_csv(f"{name}.csv", **how) for name in ("visits", "synthetic")
    )
    assert [*drawn] == [*real]
    assert len(drawn) == len(real)
    forms = {
        "patient_id": r"P\d{6}",
        "admitted": r"\d\d\.\d\d\.202[234]",
        "age": r"\d{1,3}",
        "zip": "01067|04109|20095|80331",
        "city": "Dresden|Leipzig|Hamburg|München",
        "smoker": "yes|no|",
        "weight": r"\d+\.\d|",
        "days": r"\d+",
        "cost": r"\d+\.\d\d?",
        "remark": "",
        "readmitted": "yes|no",
    }
    for name, form in forms.items():
        assert drawn[name].str.fullmatch(form).all(), name
    assert 0.005 < (drawn["readmitted"] == "yes").mean() < 0.06
    # Each zip code has its city: that is what a release is to keep.
    pairs = set(zip(real["zip"], real["city"], strict=True))
    kept = [pair in pairs for pair in zip(drawn["zip"], drawn["city"], strict=True)]
    assert sum(kept) > 0.97 * len(kept)
