"""Twins of the pair tables and of their choice, each beside a sound control.

What is counted, what it is charged, and what decides it can each go wrong: noise, the
number of tables, bins and choices from private counts, rows in two classes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from _instances import INSTANCES
from sklearn.base import clone

from skdpsynth.audit import audit_ledger
from skdpsynth.exceptions import ReservationError
from skdpsynth.preprocessing import _bins, _pairs
from skdpsynth.preprocessing._bins import TableBins
from skdpsynth.preprocessing._columns import PrivateRows
from skdpsynth.privacy import _mechanisms, _pair_tables
from skdpsynth.schema import TableSchema

pytestmark = [
    pytest.mark.statistical,  # audits of ledgers; each errs with probability 1e-6
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

PAST = "past all releases"
MOVED = "times its sensitivity"
NOISE = "the noise is"
OTHERS = "the canary changes"
RICH = INSTANCES["pairwise rich"]
_real_tables, _real_distances = _pairs.noisy_pair_tables, _pairs.noisy_pair_distances
_real_encode = TableBins.encode


@pytest.fixture(params=["all pairs", "chosen pairs"])
def choosing(request, monkeypatch):
    """Three columns: all of their pairs, or those of them that a choice finds."""
    if request.param == "chosen pairs":
        monkeypatch.setattr(_pairs, "_CHOSEN_FROM", 2)
    return request.param == "chosen pairs"


def audit(table, canary, schema, synthesizer=RICH):
    return audit_ledger(clone(synthesizer).set_params(schema=schema), table, canary)


def assert_caught(found, words):
    assert any(words in finding for finding in found.findings), found.findings


def lines_of(found, words):
    return [line for line in found.lines if words in line.name]


def test_pair_tables_are_sound(choosing, small_table, canary, public_schema):
    """A row moves E tables by sqrt(E), all of the sensitivity, in its own class."""
    found = audit(small_table, canary, public_schema)
    assert found.findings == ()
    tables = lines_of(found, "pair table")
    assert [line.scope for line in tables] == ["class u", "class v"]
    assert [line.shift for line in tables] == [pytest.approx(1.0), 0.0]
    choices = lines_of(found, "choice of pairs")
    assert len(choices) == (2 if choosing else 0)
    for line in choices:
        assert line.shift <= 1 + 1e-9
        assert (line.shift > 0) == (line.scope == "class u")


def test_missing_and_unknown_values_are_in_a_cell(small_table, canary, public_schema):
    """So such a row moves as much as any other, and no more."""
    odd = canary | {"a": np.nan, "b": np.nan, "c": "never seen"}
    found = audit(small_table, odd, public_schema)
    assert found.findings == ()
    tables = lines_of(found, "pair table")
    assert [line.shift for line in tables] == [pytest.approx(1.0), 0.0]


# --- Noise ------------------------------------------------------------------------


def weaker(real, factor, values, reservation, *others):
    """Less noise on the pair tables and their choice, and on nothing else."""
    noisy = real(values, reservation, *others)
    if "pair" not in reservation.name:
        return noisy
    return values + np.rint(factor * (noisy - values)).astype(np.int64)


@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_less_noise_is_caught(
    factor, choosing, small_table, canary, public_schema, monkeypatch
):
    """Of 64 cells and more half of the noise has probability 1e-9 at most."""
    twin = partial(weaker, _mechanisms._noisy_integers, factor)
    monkeypatch.setattr(_mechanisms, "_noisy_integers", twin)
    monkeypatch.setattr(_pairs, "_LEAST_BINS", 16)
    found = audit(small_table, canary, public_schema)
    assert any(
        NOISE in finding and "pair table" in finding for finding in found.findings
    ), found.findings


def mean_of_two(codes, n_bins, pairs, reservation):
    """Each table bought twice under one reservation, and averaged."""
    first = _real_tables(codes, n_bins, pairs, reservation)
    return (first + _real_tables(codes, n_bins, pairs, reservation)) // 2


def test_a_table_is_not_bought_twice(small_table, canary, public_schema, monkeypatch):
    monkeypatch.setattr(_pairs, "noisy_pair_tables", mean_of_two)
    with pytest.raises(ReservationError, match="left"):
        audit(small_table, canary, public_schema)


def unseen_second(real, values, reservation, *others):
    """The same below the ledger: two draws, of which one is charged."""
    first = real(values, reservation, *others)
    if "pair table" not in reservation.name:
        return first
    return (first + real(values, reservation, *others)) // 2


def test_a_second_draw_below_the_ledger_is_caught(
    small_table, canary, public_schema, monkeypatch
):
    """0.71 of the noise: thousands of cells show it, as many rows are declared."""
    many = {"u": 3000, "v": 3000}
    schema = TableSchema(public_schema.columns, target="y", class_counts=many)
    assert audit(small_table, canary, schema).findings == ()
    twin = partial(unseen_second, _mechanisms._noisy_integers)
    monkeypatch.setattr(_mechanisms, "_noisy_integers", twin)
    assert_caught(audit(small_table, canary, schema), NOISE)


# --- Sensitivity ------------------------------------------------------------------


@pytest.fixture
def for_one_table(monkeypatch):
    """Reserve for a row in one table, however many there are."""
    real = math.sqrt

    class OneTable:
        pi = math.pi
        inf = math.inf

        @staticmethod
        def sqrt(value):
            return 1.0 if isinstance(value, int) and value > 1 else real(value)

    monkeypatch.setattr(_pairs, "math", OneTable)


def test_the_sensitivity_of_one_table_is_refused(
    for_one_table, small_table, canary, public_schema
):
    with pytest.raises(ReservationError, match="sensitivity"):
        audit(small_table, canary, public_schema)


def test_the_sensitivity_of_one_table_is_caught_without_the_check(
    for_one_table, small_table, canary, public_schema, monkeypatch
):
    """A row moves three tables by sqrt(3)."""
    monkeypatch.setattr(_pair_tables, "require_sensitivity", lambda *_: None)
    found = audit(small_table, canary, public_schema)
    assert_caught(found, MOVED)
    assert max(line.shift for line in found.lines) == pytest.approx(math.sqrt(3))


def in_two_bins(self, rows):
    """Rows stand once in their bin and once in the last one of each column."""
    codes = _real_encode(self, rows)
    return np.concatenate([codes, np.tile(np.array(self.sizes) - 1, (len(codes), 1))])


def test_a_row_in_two_cells_is_caught(small_table, canary, public_schema, monkeypatch):
    monkeypatch.setattr(TableBins, "encode", in_two_bins)
    assert_caught(audit(small_table, canary, public_schema), MOVED)


def with_those_of_no_class(self, position):
    """Rows without a label are counted in every class."""
    mine = np.isin(self.members, [position, -1])
    return PrivateRows(self.units[mine], self.category_codes[mine], self.members[mine])


def test_a_row_in_two_classes_is_caught(
    small_table, canary, public_schema, monkeypatch
):
    some = small_table.assign(y=small_table["y"].mask(small_table.index % 5 == 0))
    nameless = canary | {"y": None}
    assert audit(some, nameless, public_schema).findings == ()
    monkeypatch.setattr(PrivateRows, "of_class", with_those_of_no_class)
    assert_caught(audit(some, nameless, public_schema), "charged to different rows")


# --- What decides -----------------------------------------------------------------


def bins_at_true_quantiles(self, rows):
    """Rows are binned at their own quantiles, and not at released ones."""
    columns = []
    for j, column in enumerate(self.columns):
        if len(column.edges) > 2:
            inner = np.quantile(rows.units[:, j], np.linspace(0, 1, len(column.edges)))
            edges = np.concatenate(([0.0], inner[1:-1], [1.0]))
            column = replace(column, edges=edges)
        columns.append(column)
    return _real_encode(TableBins(columns), rows)


def test_bins_of_rows_from_true_counts_are_caught(
    small_table, canary, public_schema, monkeypatch
):
    """A row moves the quantiles, and with them other rows."""
    monkeypatch.setattr(TableBins, "encode", bins_at_true_quantiles)
    assert_caught(audit(small_table, canary, public_schema), MOVED)


def test_kept_bins_from_true_counts_are_caught(
    small_table, canary, public_schema, monkeypatch
):
    """The last edge is the largest value, which the canary has: the model shows it."""
    kept, real_fit = [], type(RICH)._fit

    def fit(self, rows, *others):
        kept[:] = [rows]
        return real_fit(self, rows, *others)

    def at_the_largest(domain, marginals, prior, n_bins):
        found = real_bins(domain, marginals, prior, n_bins)
        largest = float(kept[0].units.max()) * 0.999
        inner = np.append(found.edges[1:-2], largest)
        edges = np.concatenate(([0.0], np.sort(inner), [1.0]))
        return replace(found, edges=edges)

    real_bins = _bins._bins_of_numbers
    monkeypatch.setattr(type(RICH), "_fit", fit)
    monkeypatch.setattr(_bins, "_bins_of_numbers", at_the_largest)
    no_zero = small_table.assign(a=small_table["a"].clip(-3, 3), b=1.0)
    assert_caught(audit(no_zero, canary, public_schema), PAST)


def exact_distances(codes, n_bins, expected, reservation):
    """Choose by exact distances, charged like noisy ones."""
    _real_distances(codes, n_bins, expected, reservation)
    off = np.abs(_pair_tables.exact_pair_counts(codes, n_bins) - expected)
    starts = np.cumsum(n_bins)[:-1]
    rows = np.split(off, starts, axis=0)
    blocks = [[part.sum() for part in np.split(row, starts, axis=1)] for row in rows]
    return np.array(blocks)[np.triu_indices(len(n_bins), 1)]


def the_first_one_by_parity(distances, pairs, sizes, mu, first):
    """Of two choices the one that the last bit of a distance says."""
    return np.array([distances[0] % 2])


@pytest.mark.parametrize("exact", [False, True])
def test_choices_by_exact_distances_are_caught(
    exact, small_table, canary, public_schema, monkeypatch
):
    """The choice is between two pairs, so sensitive that one row turns it round."""
    monkeypatch.setattr(_pairs, "_CHOSEN_FROM", 2)
    monkeypatch.setattr(_pairs, "_worth", the_first_one_by_parity)
    if exact:
        monkeypatch.setattr(_pairs, "noisy_pair_distances", exact_distances)
    found = audit(small_table, canary, public_schema)
    if exact:
        assert_caught(found, OTHERS)
    else:
        assert found.findings == ()


def test_distances_to_true_counts_are_caught(
    small_table, canary, public_schema, monkeypatch
):
    """What is expected follows the rows: one more moves many cells of it."""

    def to_true_marginals(codes, n_bins, expected, reservation):
        shares = np.diag(_pair_tables.exact_pair_counts(codes, n_bins))
        own = 40 * np.outer(shares, shares) // max(shares.sum() // len(n_bins), 1)
        return _real_distances(codes, n_bins, own, reservation)

    monkeypatch.setattr(_pairs, "_CHOSEN_FROM", 2)
    monkeypatch.setattr(_pairs, "noisy_pair_distances", to_true_marginals)
    assert_caught(audit(small_table, canary, public_schema), MOVED)


def exact_tables(codes, n_bins, pairs, reservation):
    """Tables without noise, charged like noisy ones."""
    released = _real_tables(codes, n_bins, pairs, reservation)
    counts = _pair_tables.exact_pair_counts(codes, n_bins)
    return np.where(_pair_tables.measured_cells(n_bins, pairs), counts, 0 * released)


def test_tables_without_noise_are_caught(
    choosing, small_table, canary, public_schema, monkeypatch
):
    """No release shows it; the generator that is kept does."""
    monkeypatch.setattr(_pairs, "noisy_pair_tables", exact_tables)
    assert_caught(audit(small_table, canary, public_schema), PAST)
