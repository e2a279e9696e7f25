"""A stranger's file is read, or one of our errors names it, and nothing else happens.

Saved synthesizers, schemas and budget files are spoilt by a seed (`_spoilt`) and read
in a process that watches itself (`files_program`): nothing is imported, compiled,
executed or opened beside the file; memory stays below 60 times its size and 3 MB; what
loads also prints, and samples. The command line says each error in one line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import skdpsynth

PROGRAM = Path(__file__).with_name("files_program.py")
KINDS = ("saved", "schema", "budget")
# The disk is not under test, and a budget waits for it at every charge.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        yield Path(name)


def outcomes(folder: Path, first: int, count: int, *kinds: str) -> dict:
    """Give what the program says."""
    place = {"PYTHONPATH": str(Path(skdpsynth.__file__).parents[1])}
    words = [sys.executable, "-W", "ignore", PROGRAM, folder, first, count, *kinds]
    done = subprocess.run(
        [*map(str, words)], env=os.environ | place, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return json.loads(done.stdout)


def check(found: dict, count: int) -> None:
    """Nothing escaped; some files were read and most were refused."""
    told = found["found"]
    assert set(told) == {"read", "refused"}, json.dumps(found, indent=1)
    assert sum(told.values()) == count
    assert told["read"] >= count // 50
    assert told["refused"] >= count // 2


@pytest.mark.slow
def test_spoilt_files(folder):
    """20 of each kind."""
    for found in outcomes(folder, 20_000, 20, *KINDS).values():
        check(found, 20)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_spoilt_files(kind, folder):
    check(outcomes(folder, 0, 10_000, kind)[kind], 10_000)
