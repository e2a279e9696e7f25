"""What tests of synthesizers share."""

from __future__ import annotations

import pytest

from skdpsynth.synthesizers import _look_plan


@pytest.fixture
def pairs_for_all(short_fits, monkeypatch):
    """Every class can pay for pair tables, and for cells, however small it is."""
    monkeypatch.setattr(_pairs, "_ROWS_FROM", 0.0)
    monkeypatch.setattr(_look_plan, "_PER_CELL", 1e-9)
    monkeypatch.setattr(_look_plan, "_PAYS", 1e-9)
