"""What tests of synthesizers share."""

from __future__ import annotations

import pytest

from skdpsynth.preprocessing import _pairs


@pytest.fixture
def pairs_for_all(short_fits, monkeypatch):
    """Every class can pay for pair tables, however small it is."""
    monkeypatch.setattr(_pairs, "_ROWS_FROM", 0.0)
