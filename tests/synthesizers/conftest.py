"""What tests of synthesizers share."""

import pytest


@pytest.fixture
def hardly_any_fit(monkeypatch):
    """Stop post-processing at once, for what holds whatever becomes of releases."""
    monkeypatch.setattr("skdpsynth.model._fit._STEPS", (4, 4))
    monkeypatch.setattr("skdpsynth.model._fit._COMPONENTS", (20, 20))
    for module in ("_dpcgan", "_gpate"):
        name = f"skdpsynth.synthesizers.{module}.GENERATOR_STEPS"
        monkeypatch.setattr(name, 2)
    name = "skdpsynth.synthesizers._pategan.generator_steps"
    monkeypatch.setattr(name, lambda settings: 2)
