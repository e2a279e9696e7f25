"""Broken twins: what draws noise, and what shows private rows to discriminators."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from skdpsynth.privacy import _mechanisms
from skdpsynth.synthesizers._start import FactorStart, PairStart


def whole(parts):
    """Put parts of a table together, as a twin would that counts by itself."""
    found = [*parts.each()]
    if isinstance(found[0], pd.DataFrame):
        return pd.concat(found, ignore_index=True)
    return np.concatenate(found)


@contextmanager
def in_place_of_the_mechanisms(watch):
    """Draw noise by `watch(real)`, called with exact values and a reservation."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_noisy_integers", "_noisy_majorities", "_noisy_floats"):
            patch.setattr(_mechanisms, name, watch(getattr(_mechanisms, name)))
        yield


def after_encoding(change):
    """Give what `change` makes of the rows that discriminators see, by `init`.

    As where, name and twin of a patch.
    """

    def twin(real):
        return lambda self, rows, position: change(real(self, rows, position))

    starts = {"measured": PairStart, "marginals": FactorStart}
    return {
        init: (start, "encode", twin(start.encode)) for init, start in starts.items()
    }
