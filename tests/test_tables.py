"""The shared tables and sources of the tests."""

from __future__ import annotations

import pytest
from tables import COLUMNS, SOURCES, small_table

from skdpsynth import MarginalSynthesizer
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import TableSchema


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_holds_the_same_rows(name, tmp_path):
    """By a fit with frozen noise; nothing is found that a dtype decides."""
    table, schema = small_table(300), TableSchema(COLUMNS, target="y")
    rows = []
    for given in (table, SOURCES[name](table, tmp_path)):
        with insecure_randomness(0):
            made = MarginalSynthesizer(3.0, schema=schema, random_state=0).fit(given)
        rows.append(made.sample(50, random_state=1, output="arrow").to_pylist())
    assert rows[0] == rows[1]
