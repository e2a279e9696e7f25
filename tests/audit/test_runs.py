"""The folder of an audit: what is resumed, and what is kept apart."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from threading import Lock

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator

from skdpsynth.audit import audit_generator
from skdpsynth.audit._generator import describe

TABLE = pd.DataFrame({"x": [-9.0, -8.0]})
SETTINGS = {"epsilon": 1, "delta": 0, "n_runs": 4, "n_samples": 2}

# What another process imports too, and a call of it that prints the number of fits.
STRANGER = """
import functools, pathlib

import numpy as np, pandas as pd
from skdpsynth.audit import audit_generator

class Stranger:
    fits = 0

    def __init__(self, settings):
        self.settings = settings
        self.words = {"one", "two", "three"}
        self.array = np.arange(3000)

    def fit(self, table):
        Stranger.fits += 1

    def sample(self, n_rows):
        return pd.DataFrame({"x": np.zeros(n_rows)})

def audit(settings):
    table = pd.DataFrame({"x": [-9.0, -8.0]})
    make = functools.partial(Stranger, settings)
    runs = {"n_runs": 4, "n_samples": 2, "folder": pathlib.Path(__file__).parent}
    audit_generator(make, table, {"x": 9.0}, epsilon=1, delta=0, **runs)
    return Stranger.fits
"""


def test_another_process_goes_on(tmp_path, monkeypatch):
    """Also where texts have other hashes."""
    (tmp_path / "stranger.py").write_text(STRANGER)
    monkeypatch.syspath_prepend(tmp_path)
    settings = {"rate": 0.1, "sizes": (3, 4)}
    assert importlib.import_module("stranger").audit(settings) == 8
    monkeypatch.delitem(sys.modules, "stranger")
    call = f"import stranger; print(stranger.audit({settings}))"
    other = subprocess.run(
        [sys.executable, "-c", call],
        cwd=tmp_path,
        env=os.environ | {"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert other.stdout == "0\n", other.stderr


class Anything:
    """Anybody's object, and a value that it holds."""

    def __init__(self, value=None):
        self.value = value

    def fit(self, table):
        return self

    def sample(self, n_rows):
        return pd.DataFrame({"x": np.zeros(n_rows)})


class WithParameters(BaseEstimator, Anything):
    """The value is a parameter, and its text may be cut short."""


class WithSlots(Anything):
    """Has a slot beside its attributes."""

    __slots__ = ("other",)

    def __init__(self, other):
        super().__init__()
        self.other = other


PAIRS = {
    "numbers": (1, 2),
    "arrays": (np.arange(3000), np.arange(3000) % 1500),
    "objects": (Anything(1), Anything(2)),
    "partials": (functools.partial(int, base=2), functools.partial(int, base=8)),
    "methods": (Anything(1).fit, Anything(2).fit),
    "functions": ({"f": np.zeros}, {"f": np.ones}),
}


@pytest.mark.parametrize("kind", [Anything, WithParameters])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_configurations_are_told_apart(kind, pair):
    ours, theirs = (describe(kind(value)) for value in pair)
    assert ours != theirs
    assert ours == describe(kind(pair[0]))


def test_slots_are_told_apart():
    assert describe(WithSlots(1)) == describe(WithSlots(1)) != describe(WithSlots(2))


CANNOT_TELL = {
    "a lock": Lock(),
    "a lambda": lambda: 1,
    "an object with a lock": Anything([Lock(), 1]),
    "a layer": torch.nn.Linear(1, 3),
}


@pytest.mark.parametrize("kind", [Anything, WithParameters])
@pytest.mark.parametrize("value", CANNOT_TELL.values(), ids=CANNOT_TELL)
def test_what_cannot_be_told_apart_has_no_folder(kind, value, tmp_path):
    with pytest.raises(ValueError, match="audit it without `folder`"):
        audit_generator(
            lambda: kind(value), TABLE, {"x": 9.0}, folder=tmp_path, **SETTINGS
        )
    audit_generator(lambda: kind(value), TABLE, {"x": 9.0}, **SETTINGS)


def test_two_configurations_do_not_share_runs(tmp_path):
    for value in (1, 2, 1, 2):
        audit_generator(Anything(value), TABLE, {"x": 9.0}, folder=tmp_path, **SETTINGS)
    assert len(list(tmp_path.glob("*-*.json"))) == 16
