"""Broken twins in the place of what draws noise, below the audit's observer."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from skdpsynth.privacy import _mechanisms


@contextmanager
def in_place_of_the_mechanisms(watch):
    """Draw noise by `watch(real)`, called with exact values and a reservation."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_noisy_integers", "_noisy_majorities", "_noisy_floats"):
            patch.setattr(_mechanisms, name, watch(getattr(_mechanisms, name)))
        yield
