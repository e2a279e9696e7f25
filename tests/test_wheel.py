"""What the wheel holds, and what it says about itself. `make dist` installs one."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDED = ("pyproject.toml", "README.md", "LICENSE")
BUILD = "import sys; from setuptools import build_meta as b; b.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build it from a copy, since setuptools writes beside what it builds."""
    copy, made = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("made")
    for name in NEEDED:
        shutil.copy(ROOT / name, copy)
    for name in ("skdpsynth", "tests", "benchmarks", "examples"):
        skipped = shutil.ignore_patterns("__pycache__", "output", "results", "*.ipynb")
        shutil.copytree(ROOT / name, copy / name, ignore=skipped)
    command = [sys.executable, "-c", BUILD, str(made)]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    with zipfile.ZipFile(next(made.glob("*.whl"))) as file:
        yield file


def test_it_holds_the_package_and_its_data_alone(wheel):
    """Neither tests nor benchmarks, and every file that is in the folder."""
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "skdpsynth").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == package
    assert "skdpsynth/py.typed" in held


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
