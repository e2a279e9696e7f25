"""What tests of synthesizers share."""

from __future__ import annotations

import pytest

from skdpsynth.generators import _fit
from skdpsynth.models import _mixture_trainer


@pytest.fixture
def hardly_any_fit(monkeypatch):
    """Stop fits to tables at once: post-processing, for what holds whatever it is."""
    monkeypatch.setattr(_fit, "_STEPS", (4, 4))
    monkeypatch.setattr(_fit, "_COMPONENTS", (20, 20))
    monkeypatch.setattr(_mixture_trainer, "_HELD_LAST", 2)
