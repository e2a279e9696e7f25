"""What tests of synthesizers share."""

from __future__ import annotations

import pytest

from skdpsynth.nn import _fitting, _mixture_trainer
from skdpsynth.preprocessing import _tables


@pytest.fixture
def hardly_any_fit(monkeypatch):
    """Stop fits to tables at once: post-processing, for what holds whatever it is."""
    monkeypatch.setattr(_fitting, "_STEPS", (4, 4))
    monkeypatch.setattr(_fitting, "_COMPONENTS", (20, 20))
    monkeypatch.setattr(_mixture_trainer, "_HELD_LAST", 2)


@pytest.fixture
def pairs_for_all(short_fits, monkeypatch):
    """Every class can afford tables of two and of three columns, however small."""
    monkeypatch.setattr(_tables, "_ROWS_FROM", 0.0)
    monkeypatch.setattr(_tables, "_TRIPLES_FROM", 1e-9)
    monkeypatch.setattr(_tables, "_PER_CELL", 1e-9)
