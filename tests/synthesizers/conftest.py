"""What tests of synthesizers share."""

from __future__ import annotations

import pytest

from skdpsynth.nn import _fitting, _mixture_trainer
from skdpsynth.preprocessing import _pairs


@pytest.fixture
def pairs_for_all(monkeypatch):
    """Every class can pay for pair tables, however small; the fit to them is short.

    For what holds of every generator, however well it is fitted.
    """
    monkeypatch.setattr(_pairs, "_ROWS_FROM", 0.0)
    monkeypatch.setattr(_fitting, "_STEPS", (20, 20))
    monkeypatch.setattr(_fitting, "_COMPONENTS", (60, 60))
    monkeypatch.setattr(_mixture_trainer, "_HELD_LAST", 5)
