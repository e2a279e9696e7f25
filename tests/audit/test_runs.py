"""The folder of an audit: what is resumed, and what is kept apart."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator

from skdpsynth.audit import audit_generator
from skdpsynth.audit._runs import describe

TABLE = pd.DataFrame({"x": [-9.0, -8.0]})

# What another process imports too, and a call of it that prints the number of fits.
STRANGER = """
import functools, pathlib

import numpy as np, pandas as pd, torch
from skdpsynth.audit import audit_generator

class Stranger:
    fits = 0

    def __init__(self, settings):
        self.settings = settings
        self.words = {"one", "two", "three"}
        self.array = np.arange(3000)
        self.weights = torch.zeros(2)
        self.call = functools.partial(lambda low, high: low, settings)
        self.generator = np.random.default_rng()

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
    """Also where texts have other hashes, and a generator another state."""
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


class WithSlots:
    """Has no dict of attributes."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def of(number):
    """Give a function that holds a number."""
    return lambda: number


PAIRS = {
    "numbers": (1, 2),
    "arrays": (np.arange(3000), np.arange(3000) % 1500),
    "objects": (Anything(1), Anything(2)),
    "lambdas": (lambda: 1, lambda: 2),
    "defaults": (lambda x=1: x, lambda x=2: x),
    "closures": (of(1), of(2)),
    "functions in a function": (lambda: [lambda: 1], lambda: [lambda: 2]),
    "partials": (functools.partial(int, base=2), functools.partial(int, base=8)),
    "partial lambdas": (functools.partial(of(1), 1), functools.partial(of(1), 2)),
    "methods": (Anything(1).fit, Anything(2).fit),
    "lists of functions": ([of(1)], [of(2)]),
    "dicts of functions": ({"f": of(1)}, {"f": of(2)}),
}


@pytest.mark.parametrize("kind", [Anything, WithParameters])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_configurations_are_told_apart(kind, pair):
    ours, theirs = (describe(kind(value)) for value in pair)
    assert ours != theirs
    assert ours == describe(kind(pair[0]))


def test_slots_are_told_apart():
    assert describe(WithSlots(1)) == describe(WithSlots(1)) != describe(WithSlots(2))


def test_chance_is_no_configuration():
    """Neither the state of a generator nor an address, which a tensor's pickle has."""
    for make in (
        np.random.default_rng,
        np.random.RandomState,
        threading.Lock,
        functools.partial(torch.zeros, 2),
    ):
        first, second = make(), make()
        assert describe(Anything(first)) == describe(Anything(second))


def test_functions_that_hold_themselves_are_described():
    def again():
        return again()

    assert describe(Anything(again)) == describe(Anything(again))


def test_two_configurations_do_not_share_a_folder(tmp_path):
    settings = {"epsilon": 1, "delta": 0, "n_runs": 4, "n_samples": 2}
    settings["folder"] = tmp_path
    audit_generator(Anything(1), TABLE, {"x": 9.0}, **settings)
    with pytest.raises(ValueError, match="another audit"):
        audit_generator(Anything(2), TABLE, {"x": 9.0}, **settings)
