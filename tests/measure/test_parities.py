"""Parities of four columns and more: which are measured, of what, and at what cost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from _small_table import PARITY_COLUMNS as DECLARED
from _small_table import table_with_parities
from hypothesis import given
from hypothesis import strategies as st

from skdpsynth import MarginalSynthesizer, TableSchema
from skdpsynth.measure import Measurements, TableBins, allocate_measurements
from skdpsynth.measure._parities import (
    PARITY_COLUMNS,
    highest_order,
    measure_parities,
    sets_of,
)
from skdpsynth.measure._tables import ColumnBins, bins_of_pairs
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.table import PrivateRows

N_ROWS, N_COLUMNS = 3000, 6


@pytest.mark.parametrize(("order", "expected"), [(4, 15), (5, 21), (6, 22)])
def test_sets_are_all_of_four_columns_and_more(order, expected):
    sets = sets_of(N_COLUMNS, order)
    assert len(np.unique(sets, axis=0)) == len(sets) == expected
    assert set(sets.sum(axis=1).tolist()) == {*range(4, order + 1)}


@given(st.floats(1.0, 1e8), st.integers(0, 30), st.floats(1e-3, 10.0))
def test_the_rows_are_ten_noise_deviations_or_there_are_none(n_rows, n_columns, mu):
    """Of the largest sets that are measured; those of one more column are not clear."""

    def noise_std(order):
        sizes = range(4, order + 1)
        return math.sqrt(sum(math.comb(n_columns, size) for size in sizes)) / mu

    order = highest_order(n_rows, n_columns, mu)
    if n_columns not in PARITY_COLUMNS:
        assert order == 0
        return
    assert order in {0, *range(4, n_columns + 1)}
    if order:
        assert n_rows >= 10 * noise_std(order)
    if order < n_columns:
        assert n_rows < 10 * noise_std(max(order + 1, 4))


def table(seed=0):
    """Three bins of numbers in every column, of which two are the lower half."""
    edges = np.array([0.0, 0.25, 0.5, 1.0])
    bins = TableBins([ColumnBins(edges, np.array([-1, -1, -1]), 3)] * N_COLUMNS)
    uniforms = np.random.default_rng(seed).random((N_ROWS, N_COLUMNS), np.float32)
    codes = np.zeros(uniforms.shape, np.uint8)
    rows = PrivateRows(uniforms, codes, np.zeros(N_ROWS, np.int64))
    return rows, bins, np.tile([0.25, 0.25, 0.5], N_COLUMNS)


def test_without_noise_they_are_counts_of_the_rows():
    """The sums over rows of 1, or of -1 if an odd number is above the median."""
    rows, bins, shares = table()
    accountant = PrivacyAccountant(math.inf, 1e-5)
    found = measure_parities(rows, bins, shares, 5, accountant, mu=math.inf, scope=None)
    assert found.halves.tolist() == [0, 0, 1] * N_COLUMNS
    assert found.noise_std == 0
    signs = np.where(rows.uniforms >= 0.5, -1, 1)
    expected = [signs[:, own].prod(axis=1).sum() for own in sets_of(N_COLUMNS, 5)]
    assert found.sums.tolist() == expected


def test_they_are_one_line_of_the_ledger():
    """A row moves each of the 21 sums by 1."""
    accountant = PrivacyAccountant(20.0, 1e-5)
    found = measure_parities(*table(), 5, accountant, mu=0.3, scope="u")
    (entry,) = accountant.report().entries
    assert entry.name == "parities of 21 sets of 4 to 5 columns"
    assert entry.sensitivity == pytest.approx(math.sqrt(21))
    assert entry.mu_total == pytest.approx(0.3)
    assert found.noise_std == entry.noise_std
    assert found.noise_std == pytest.approx(math.sqrt(21) / 0.3, rel=0.01)


def test_a_class_pays_for_them_where_it_has_tables_of_pairs():
    """A fiftieth of its squared mu, before all else that it measures."""
    plan = allocate_measurements("u", 1e5, 3, 3, 0.4, form="pairs")
    mus = plan.parities.mu, plan.triples.mu, plan.relations.mu, plan.pairs.mu
    assert math.hypot(*mus, plan.marginals.mu) == pytest.approx(0.4)
    assert plan.parities.mu == pytest.approx(0.4 * math.sqrt(0.02))
    assert plan.parity_order == 6
    assert plan.parities.noise_std == pytest.approx(math.sqrt(22) / plan.parities.mu)
    for other in (
        allocate_measurements("u", 1e5, 3, 3, 0.4, form="pairs", order=2),
        allocate_measurements("u", 1e5, 3, 3, 0.4, form="marginals"),
        allocate_measurements("u", 1e5, 3, 0, 0.4, form="pairs"),
        allocate_measurements("u", 1e5, 8, 8, 0.4, form="pairs"),
        allocate_measurements("u", 20.0, 3, 3, 0.4, form="pairs"),  # no pairs
    ):
        assert other.parities.mu == other.parity_order == 0
        spent = other.pairs.mu, other.triples.mu, other.relations.mu
        assert math.hypot(*spent, other.marginals.mu) == pytest.approx(0.4)


@given(st.floats(1.0, 1e6), st.integers(2, 100))
def test_halves_are_unions_of_as_many_bins(rows_per_noise, n_columns):
    n_bins = bins_of_pairs(rows_per_noise, n_columns)
    assert n_bins >= 4
    assert n_bins % 2 == 0 or n_columns not in PARITY_COLUMNS


def test_what_is_listed_agrees_with_counting_the_table(tmp_path):
    """Without noise, by the bins that are listed; and files hold it."""
    table = table_with_parities(2000).assign(b=lambda t: t["b"].mask(t["d"] > 0.7))
    schema = TableSchema(DECLARED, target="y")
    synth = MarginalSynthesizer(epsilon=math.inf, schema=schema, random_state=0)
    listed = [own for own in synth.fit(table).measurements_ if own.order >= 4]
    assert sorted(own.order for own in listed) == [4] * 10 + [5] * 2
    for own in listed:
        rows = table[table["y"] == own.class_label]
        signs = np.ones(len(rows))
        for name, (one,) in zip(own.columns, own.bins, strict=True):
            inside = rows[name].isin(one.categories).to_numpy(copy=True)
            if one.ends is not None:
                inside |= rows[name].between(*one.ends, inclusive="left").to_numpy()
            if "missing" in (one.kind, *one.also):
                inside |= rows[name].isna().to_numpy()
            signs[inside] *= -1
        assert own.noise_std == 0
        assert own.values.shape == (1,) * own.order
        assert float(own.values.item()) == signs.sum()
    synth.measurements_.save(tmp_path / "file.json")
    again = Measurements.load(tmp_path / "file.json")
    assert [own.bins for own in again] == [own.bins for own in synth.measurements_]
