"""Twins of the counts less their mean, each beside a sound control.

One row moves them by less than 1 in each column, and what makes it so can be lost: the
mean, the entry of rows in no cell, the weight of the number of rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from _twins import whole
from sklearn.base import clone

from skdpsynth import GPATESynthesizer, IndependentSynthesizer
from skdpsynth.audit import audit_ledger
from skdpsynth.preprocessing import _marginals
from skdpsynth.privacy import _aggregators, _counts
from skdpsynth.schema import Boolean, Categorical, Continuous, TableSchema

pytestmark = [
    pytest.mark.statistical,  # audits of ledgers; each errs with probability 1e-6
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

PAST = "past all releases"
MOVED = "times its sensitivity"
COLUMNS = {
    "a": Continuous(-6, 8, scale="linear"),
    "b": Continuous(-6, 6, scale="linear"),
    "c": Categorical(["p", "q", "r"]),
    "f": Boolean(),
}
LABELS = {"y": Categorical(["u", "v"])}
DECLARED = TableSchema(COLUMNS | LABELS, target="y", class_counts={"u": 90, "v": 60})
UNCOUNTED = TableSchema(COLUMNS | LABELS, target="y")
IN_A_CELL = {"a": 8.0, "b": -6.0, "c": "r", "f": True, "y": "u"}
# Missing where no missing value is declared, and a level that is not.
IN_NO_CELL = IN_A_CELL | {"a": np.nan, "b": np.nan, "c": "never seen"}
_real_numbers, _real_histogram = _counts.centred_numbers, _marginals.centred_histogram


@pytest.fixture
def table(small_table):
    rows = np.arange(len(small_table))
    return small_table.assign(b=small_table["b"].fillna(0.0), f=rows % 3 == 0)


def audit(table, canary, schema=DECLARED, synthesizer=None):
    ready = clone(synthesizer or IndependentSynthesizer()).set_params(schema=schema)
    return audit_ledger(ready, table, canary)


def assert_caught(found, words):
    assert any(words in finding for finding in found.findings), found.findings


@pytest.mark.parametrize("schema", [DECLARED, UNCOUNTED], ids=["declared", "bought"])
@pytest.mark.parametrize("canary", [IN_A_CELL, IN_NO_CELL], ids=["cell", "none"])
@pytest.mark.parametrize("maker", [IndependentSynthesizer, GPATESynthesizer])
def test_centred_counts_are_sound(maker, canary, schema, table):
    """A row in a cell of all columns moves all of the sensitivity, or all but 1e-5."""
    settings = {"n_iter": 2, "n_teachers": 6} if maker is GPATESynthesizer else {}
    found = audit(table, canary, schema, maker(**settings))
    assert found.findings == ()
    for line in found.lines:
        if "marginals" in line.name:
            wanted = 1.0 if line.scope == "class u" else 0.0
            assert line.shift == pytest.approx(wanted, abs=1e-5)


def uncentred(counts, n_rows, weight):
    """The counts as they are, on the grid and with the noise of centred ones."""
    plain = np.concatenate([_counts.GRID * column for column in counts])
    size = _real_numbers([], n_rows, weight)
    return np.concatenate([plain, size])


def test_uncentred_counts_are_caught(table, monkeypatch):
    """Of 4 columns with 3 to 12 cells: 1.2 times what was paid for."""
    monkeypatch.setattr(_aggregators, "centred_numbers", uncentred)
    found = audit(table, IN_A_CELL)
    assert_caught(found, MOVED)
    assert 1.1 < max(line.shift for line in found.lines) < 1.4


@pytest.mark.parametrize("schema", [DECLARED, UNCOUNTED], ids=["declared", "bought"])
def test_full_entries_of_rows_in_no_cell_are_caught(schema, table, monkeypatch):
    """A missing value and a new level: 1 each, where others move 1 - 1/B."""
    assert audit(table, IN_NO_CELL, schema).findings == ()
    monkeypatch.setattr(_counts, "_apart_entry", lambda n_cells: _counts.GRID)
    found = audit(table, IN_NO_CELL, schema)
    assert_caught(found, MOVED)
    assert audit(table, IN_A_CELL, schema).findings == ()  # it must be such a row


def heavier_size(counts, n_rows, weight):
    """The number of rows weighs as much as a column, charged as little as it should."""
    numbers = _real_numbers(counts, n_rows, weight)
    numbers[-1] = _counts.GRID * n_rows
    return numbers


def test_a_size_with_more_weight_than_paid_for_is_caught(table, monkeypatch):
    monkeypatch.setattr(_aggregators, "centred_numbers", heavier_size)
    assert_caught(audit(table, IN_A_CELL), MOVED)


def exact_size(codes, n_cells, reservation, weight):
    """Counts are read with the exact number of rows, charged like the noisy one."""
    released = _real_histogram(codes, n_cells, reservation, weight)
    return replace(released, size=float(len(whole(codes))), size_std=1e-9)


def exact_apart(codes, n_cells, reservation, weight):
    """The rows in no cell are subtracted as they are."""
    released = _real_histogram(codes, n_cells, reservation, weight)
    outside = (whole(codes) == np.array(n_cells)).sum(axis=0)
    return replace(released, apart=outside / 1.0, apart_stds=np.zeros(len(n_cells)))


@pytest.mark.parametrize(
    ("twin", "schema", "canary"),
    [
        (exact_size, DECLARED, IN_A_CELL),
        (exact_size, UNCOUNTED, IN_A_CELL),
        (exact_apart, DECLARED, IN_NO_CELL),
    ],
)
def test_exact_totals_are_caught(twin, schema, canary, table, monkeypatch):
    """No number that is released has moved; the marginals have."""
    monkeypatch.setattr(_marginals, "centred_histogram", twin)
    assert_caught(audit(table, canary, schema), PAST)
