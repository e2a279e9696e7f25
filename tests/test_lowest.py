"""`make test-lowest` installs the lower bounds of pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_constraints_are_the_lower_bounds() -> None:
    """But for torch, and with xgboost twice: `make` takes xgboost-cpu on Linux."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = project["project"]["dependencies"]
    requirements += project["project"]["optional-dependencies"]["tests"]
    bounds = dict(line.split(">=") for line in requirements)
    bounds["xgboost-cpu"] = bounds["xgboost"]
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    del bounds["torch"], pins["torch"]
    assert pins == bounds
