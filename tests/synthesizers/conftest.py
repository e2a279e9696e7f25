"""What tests of synthesizers share."""

from __future__ import annotations

import pytest


@pytest.fixture
def hardly_any_fit(monkeypatch):
    """Stop fits to tables at once: post-processing, for what holds whatever it is."""
    monkeypatch.setattr("skdpsynth.generators._fit._STEPS", (4, 4))
    monkeypatch.setattr("skdpsynth.generators._fit._COMPONENTS", (20, 20))
    monkeypatch.setattr("skdpsynth.models._mixture_trainer._HELD_LAST", 2)
