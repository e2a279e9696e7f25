"""What tests of synthesizers share."""

from __future__ import annotations

import pytest

from skdpsynth.preprocessing import _tables


@pytest.fixture
def pairs_for_all(short_fits, monkeypatch):
    """Every class can afford tables of two and of three columns, however small."""
    monkeypatch.setattr(_tables, "_ROWS_FROM", 0.0)
    monkeypatch.setattr(_tables, "_TRIPLES_FROM", 1e-9)
    monkeypatch.setattr(_tables, "_PER_CELL", 1e-9)
