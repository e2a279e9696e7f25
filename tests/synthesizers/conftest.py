"""What tests of synthesizers share."""

import pytest


@pytest.fixture
def hardly_any_fit(monkeypatch):
    """Stop post-processing at once, for what holds whatever becomes of releases."""
    monkeypatch.setattr("skdpsynth.model._fit._STEPS", (4, 4))
    monkeypatch.setattr("skdpsynth.model._fit._COMPONENTS", (20, 20))
    monkeypatch.setattr("skdpsynth.synthesizers._base.GENERATOR_STEPS", 2)
    voting = "skdpsynth.synthesizers._pategan.VotingGAN"
    monkeypatch.setattr(f"{voting}._generator_steps", 2)
