"""Fits of columns with frozen noise, and what the tests of written numbers share."""

from __future__ import annotations

import math

import pandas as pd

from skdpsynth import IndependentSynthesizer
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import TableSchema
from skdpsynth.table import ColumnLayout

N = 30_000


def layouts_of(frame):
    return [ColumnLayout.of(name, frame[name]) for name in frame]


def without_noise():
    return PrivacyAccountant(math.inf, 1e-5, discovery_delta=1e-6)


def fitted(values, epsilon=math.inf, spec=None, n=N, rules=()):
    """Fit a table, or one column, with frozen noise: its domains, and drawn rows."""
    frame = values
    if not isinstance(values, pd.DataFrame):
        frame = pd.DataFrame({"a": values})
    columns = {} if spec is None else dict.fromkeys(frame, spec)
    schema = TableSchema(columns, rules=list(rules))
    synth = IndependentSynthesizer(epsilon, schema=schema, random_state=0)
    with insecure_randomness(0):
        synth.fit(frame)
    drawn = synth.sample(n, random_state=1)
    one = frame is not values
    domains = synth._model.metadata.domains
    return (domains[0], drawn["a"]) if one else (domains, drawn)
