"""Broken twins: what draws noise, clips, and shows private rows to discriminators."""

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from skdpsynth.audit import audit_ledger

# Private: twins replace what is inside of the package.
from skdpsynth.privacy import _mechanisms
from skdpsynth.synthesizers._initial import InitialMixture


def whole(parts):
    """Put parts of a table together, as a twin would that counts by itself."""
    found = [*parts.each()]
    if isinstance(found[0], pd.DataFrame):
        return pd.concat(found, ignore_index=True)
    return np.concatenate(found)


def audit_of(synthesizer, table, canary, schema, **settings):
    """Audit a clone against its ledger."""
    ready = clone(synthesizer).set_params(schema=schema)
    return audit_ledger(ready, table, canary, **settings)


def assert_caught(found, words):
    """Expect a finding with such words."""
    assert any(words in finding for finding in found.findings), found.findings
    assert "Contradiction" in str(found)


@contextmanager
def in_place_of_the_mechanisms(watch):
    """Draw noise by `watch(real)`, called with exact values and a reservation."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_noisy_integers", "_noisy_majorities", "_noisy_floats"):
            patch.setattr(_mechanisms, name, watch(getattr(_mechanisms, name)))
        yield


def after_encoding(change):
    """Change the rows that discriminators see: where, name and twin of a patch."""
    real = InitialMixture.encode
    return InitialMixture, "encode", lambda *asked: change(real(*asked))


def standardised_together(scores):
    """Scale the scores of a row by those of all rows."""
    return scores / np.float32(scores.std())


def shuffled(rows, reservation, rng):
    """Give so many rows of a known order, of which one row more moves all."""
    order = np.random.default_rng(0).permutation(len(rows))
    return rows[torch.from_numpy(order[: int(reservation.sampling_rate * len(rows))])]


def slices(n_units, n_teachers, rng):
    """Give teachers slices of the rows: one row more shifts them all (B3, N4)."""
    return np.arange(n_units) * n_teachers // n_units
