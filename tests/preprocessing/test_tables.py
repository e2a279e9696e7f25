"""Pairs: which of them are bought, what for, and what a plan says of it."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skdpsynth.preprocessing._pairs import (
    all_pairs,
    bins_of_pairs,
    buy_pairs,
    pair_noise_std,
    pairs_pay,
    planned_tables,
)

import skdpsynth
from skdpsynth.preprocessing._bins import ColumnBins, TableBins
from skdpsynth.preprocessing._columns import PrivateRows
from skdpsynth.preprocessing._domains import LevelDomain, NumericDomain
from skdpsynth.preprocessing._plan import plan_start, table_bins, with_cells
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy._tables import exact_pair_counts
from skdpsynth.schema import Boolean, Continuous, TableSchema

N_ROWS = 5000
PLANTED = [(0, 7), (3, 4), (12, 29), (20, 21)]


def table(n_columns: int, planted=(), seed: int = 0):
    """Make columns of two levels; the second of a planted pair is the first."""
    codes = np.random.default_rng(seed).integers(0, 2, (N_ROWS, n_columns))
    for i, j in planted:
        codes[:, j] = codes[:, i]
    bins = ColumnBins(np.empty(0), np.array([0, 1, 2, 2]), 3)
    units, members = np.zeros(codes.shape, np.float32), np.zeros(N_ROWS, np.int64)
    rows = PrivateRows(units, codes.astype(np.uint8), members)
    return rows, TableBins([bins] * n_columns), np.tile([0.5, 0.5, 0.0], n_columns)


def buy(rows, bins, shares, mu, epsilon=20.0, **others):
    accountant = PrivacyAccountant(epsilon, 1e-5)
    paying = {"mu": mu, "scope": "u"} | others
    bought = buy_pairs(rows, bins, shares, N_ROWS, accountant, **paying)
    return bought, accountant.report().entries


def bought_pairs(bought, n_columns):
    blocks = bought.measured.reshape(n_columns, 3, n_columns, 3)
    assert (blocks.all(axis=(1, 3)) == blocks.any(axis=(1, 3))).all()
    return set(
        zip(*map(np.ndarray.tolist, np.nonzero(blocks[:, 0, :, 0])), strict=True)
    )


# --- Which ------------------------------------------------------------------------


def test_of_a_few_columns_all_pairs_are_bought():
    """24 columns have 276 pairs: one line, and all that may be spent goes to it."""
    bought, entries = buy(*table(24), mu=0.5)
    assert bought_pairs(bought, 24) == set(combinations(range(24), 2))
    (entry,) = entries
    assert entry.name == f"276 pair tables, {276 * 9} cells"
    assert entry.mu_total == pytest.approx(0.5)
    assert entry.sensitivity == pytest.approx(math.sqrt(276))
    assert entry.noise_std == pytest.approx(bought.noise_std)


@pytest.mark.statistical
def test_of_many_columns_those_that_hang_together_are_bought():
    """30 columns have 435 pairs, of which 4 are equal columns.

    The distance of such a pair is 5,000 and that of another about 100. Each has noise
    of sqrt(435) / (0.3 sqrt(0.1)) = 220, and what is taken off for the noise of a table
    is at most sqrt(2 / pi) 9 sqrt(435) / (0.3 sqrt(0.9)) = 526: a planted pair is left
    out if noise of 220 falls below -4,000, at a rate below 1e-70. Two lines are paid,
    and together what may be spent.
    """
    bought, entries = buy(*table(30, PLANTED), mu=0.3)
    found = bought_pairs(bought, 30)
    assert set(PLANTED) <= found
    choice, tables = entries
    assert choice.name == "choice of pairs"
    assert choice.sensitivity == pytest.approx(math.sqrt(435))
    assert tables.sensitivity == pytest.approx(math.sqrt(len(found)))
    assert choice.mu_total**2 == pytest.approx(0.1 * 0.3**2)
    assert choice.mu_total**2 + tables.mu_total**2 == pytest.approx(0.3**2)


def test_all_pairs_with_a_measured_target_are_bought():
    """Nothing hangs together; a target is public, so it is charged as before."""
    bought, entries = buy(*table(30), mu=0.3, target=4)
    found = bought_pairs(bought, 30)
    assert {pair for pair in combinations(range(30), 2) if 4 in pair} <= found
    choice, tables = entries
    assert choice.sensitivity == pytest.approx(math.sqrt(435))
    assert tables.sensitivity == pytest.approx(math.sqrt(len(found)))
    assert choice.mu_total**2 + tables.mu_total**2 == pytest.approx(0.3**2)


def test_without_noise_what_is_as_expected_is_not_bought(monkeypatch):
    """Columns of which every pair of levels is equally frequent, but for one pair."""
    monkeypatch.setattr(_pairs, "_CHOSEN_FROM", 1)
    rows, bins, shares = table(4)
    places = np.arange(4992)
    codes = np.stack([places // 2**k % 2 for k in range(4)], axis=1)
    codes[:, 3] = codes[:, 1]
    more = np.concatenate([codes, codes[:8]])  # all 5,000
    rows = PrivateRows(rows.units, more.astype(np.uint8), rows.members)
    bought, _ = buy(rows, bins, shares, math.inf, math.inf)
    assert (1, 3) in bought_pairs(bought, 4)
    assert len(bought_pairs(bought, 4)) == 1


def test_pairs_are_chosen_by_distances_to_whole_numbers(monkeypatch):
    """Those of independent columns by the released shares, and nothing else."""
    seen = []

    def spy(codes, sizes, expected, reservation):
        seen.append((expected.copy(), reservation.sensitivity))
        return real(codes, sizes, expected, reservation)

    real = _pairs.noisy_pair_distances
    monkeypatch.setattr(_pairs, "noisy_pair_distances", spy)
    monkeypatch.setattr(_pairs, "_CHOSEN_FROM", 2)
    rows, bins, _ = table(3)
    shares = np.array([0.2, 0.7, 0.1] * 3)
    buy(rows, bins, shares, 0.3)
    ((expected, sensitivity),) = seen
    assert np.issubdtype(expected.dtype, np.integer)
    assert np.abs(expected - N_ROWS * np.outer(shares, shares)).max() <= 0.5
    assert sensitivity >= math.sqrt(3)


@given(
    st.lists(st.integers(-50, 400), min_size=1, max_size=7),
    st.lists(st.integers(1, 5), min_size=5, max_size=5),
    st.floats(0.02, 2.0),
    st.integers(-1, 4),
)
@settings(max_examples=80, deadline=None)
def test_the_choice_gains_most_of_all_choices(distances, sizes, mu, measured):
    """Of a few pairs, against every subset with those of a measured target."""
    n_columns = 5
    pairs = np.stack(np.triu_indices(n_columns, 1), axis=1)[: len(distances)]
    cells = np.array(sizes)[pairs].prod(axis=1)

    def gain(chosen):
        noise = math.sqrt(2 / math.pi) * cells[chosen] * math.sqrt(len(chosen)) / mu
        return float((np.array(distances)[chosen] - noise).sum())

    first = (pairs == measured).any(axis=1)
    found = _pairs._worth(np.array(distances), pairs, np.array(sizes), mu, first)
    assert found.tolist() == sorted(set(found.tolist()))
    subsets = (
        list(chosen)
        for n in range(1, len(pairs) + 1)
        for chosen in combinations(range(len(pairs)), n)
        if set(np.flatnonzero(first)) <= set(chosen)
    )
    best = max(gain(chosen) for chosen in subsets)
    assert gain(found.tolist()) == pytest.approx(best, rel=1e-9, abs=1e-6)


def test_without_noise_the_tables_are_exact():
    rows, bins, shares = table(5)
    bought, _ = buy(rows, bins, shares, math.inf, math.inf)
    counts = exact_pair_counts(rows.category_codes.astype(np.int64), [3] * 5)
    np.testing.assert_array_equal(bought.counts, np.where(bought.measured, counts, 0))
    assert bought.noise_std == 0


# --- Plans ------------------------------------------------------------------------


@pytest.mark.parametrize(("n_columns", "n_pairs"), [(1, 0), (2, 1), (25, 300)])
def test_all_pairs_of_a_few_columns_are_planned(n_columns, n_pairs):
    assert all_pairs(n_columns) == planned_tables(n_columns) == n_pairs


def test_of_many_columns_300_tables_are_planned():
    assert (all_pairs(26), planned_tables(26), planned_tables(784)) == (325, 300, 300)
    # A tenth of the squared mu is for the choice.
    std = math.hypot(math.sqrt(300 / 0.9) / 0.5, 2)
    assert pair_noise_std(784, 0.5) == pytest.approx(std)


@pytest.mark.parametrize("mu", [0.05, 0.4, math.inf])
@pytest.mark.parametrize("n_columns", [2, 15, 60])
def test_a_class_pays_from_40_noise_deviations(n_columns, mu):
    limit = 40 * math.sqrt(planned_tables(n_columns)) / mu
    assert pairs_pay(max(limit * 1.001, 1.0), n_columns, mu)
    assert not pairs_pay(limit * 0.999, n_columns, mu)
    assert not pairs_pay(1e9, 1, mu)


@pytest.mark.parametrize(
    ("n_columns", "most"),
    [(2, 250), (10, 50), (15, 33), (17, 25), (20, 16), (60, 5), (784, 4)],
)
def test_bins_follow_the_signal(n_columns, most):
    """As many cells as rows fill with twice the noise; at least 4 bins."""
    numbers = [bins_of_pairs(rows, n_columns) for rows in (0.1, 100.0, 1e4, 1e12)]
    assert numbers == sorted(numbers)
    assert numbers[0] == 4
    assert numbers[-1] == most
    assert bins_of_pairs(200.0, 20) == 10
    assert bins_of_pairs(400.0, 20, measured=True) == 10


def test_what_pairs_cost_is_taken_from_the_marginals():
    """A quarter of the squared mu is left to them; a class that buys none has all."""
    rich = plan_start("u", 1e5, 4, 4, 0.4, pairs=True)
    assert rich.mu_pairs**2 == pytest.approx(0.75 * 0.16)
    assert rich.mu_pairs**2 + rich.mu_marginals**2 == pytest.approx(0.16)
    for poor in (
        plan_start("u", 100.0, 4, 4, 0.4, largest=1e5, pairs=True),
        plan_start("u", 1e5, 4, 4, 0.4),
        plan_start("u", 1e5, 1, 0, 0.4, pairs=True),
    ):
        assert (poor.mu_pairs, poor.mu_marginals) == (0.0, 0.4)
        assert (poor.n_tables, poor.n_table_cells, poor.table_noise_std) == (0, 0, 0.0)


def test_the_plan_says_tables_cells_and_noise():
    """Cells by a loop over pairs; one number of bins for all classes."""
    domains = [
        NumericDomain(0.0, 1.0, log=False, integer=False, nullable=True),
        NumericDomain(1.0, 3.0, log=False, integer=True, nullable=False),
        LevelDomain(("a", "b"), nullable=True),
        None,
    ]
    plans = [
        plan_start(c, n, 1, 3, 0.4, largest=4e4, pairs=True)
        for c, n in ((0, 4e4), (1, 100.0))
    ]
    n_bins = table_bins(plans, 4)
    rows_per_noise = 4e4 / pair_noise_std(4, plans[0].mu_pairs)
    assert n_bins == bins_of_pairs(rows_per_noise, 4)
    rich, poor = with_cells(plans, domains, 10.0)
    sizes = [n_bins + 2, 3, 4, n_bins + 1]  # zero and missing; other and missing
    cells = sum(a * b for a, b in combinations(sizes, 2))
    assert (rich.n_tables, rich.n_table_cells) == (6, cells)
    assert rich.table_noise_std == pytest.approx(pair_noise_std(4, plans[0].mu_pairs))
    assert (poor.n_tables, poor.n_table_cells, poor.table_noise_std) == (0, 0, 0.0)
    assert table_bins(plans[1:], 4) == 4  # none buys pairs


# --- Which tables, and which classes ----------------------------------------------


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([False, True, True, False, False], {0: 2, 3: 2}),
        ([True] * 5, {}),
        ([False] * 5, {}),
    ],
)
def test_classes_borrow_from_the_largest_that_can_lend(known, expected):
    """Not from the largest of all; with 1 % of its rows a class is too rare."""
    n_rows = [9000.0, 4000.0, 5000.0, 50.0, 49.0]
    assert _pairs.borrowers(known, n_rows) == expected


def test_without_classes_pairs_are_best_from_five_times_as_many_rows():
    """At mu 0.3 and 10 columns 40 noise deviations are 1,033 rows, 200 are 5,164."""
    assert _pairs.pairs_serve([1040.0], 10, 0.3)
    assert not _pairs.pairs_best(5100.0, 10, 0.3)
    assert _pairs.pairs_best(5200.0, 10, 0.3)


@pytest.mark.parametrize(
    ("kind", "trained"), [("GPATE", True), ("DPCGAN", True), ("PATEGAN", False)]
)
def test_few_rows_without_classes_start_from_products_if_they_can(kind, trained):
    """Those that cannot look at products keep pairs, and so do tables of classes."""
    columns = {f"x{j}": Continuous(0, 1) for j in range(9)}
    measured = TableSchema(columns | {"y": Continuous(0, 1)}, target="y")
    synth = getattr(skdpsynth, f"{kind}Synthesizer")(epsilon=1.5, schema=measured)
    few, many = synth.plan(2000), synth.plan(20_000)
    assert (few["tables"].item() > 0) == (not trained)
    assert (few["n_iter"].item() > 0) == trained
    assert many["tables"].item() == 45
    labelled = TableSchema(columns | {"y": Boolean()}, target="y")
    synth = synth.set_params(schema=labelled)
    plan = synth.plan(4000, class_counts={False: 2000, True: 2000})
    assert (plan["tables"] > 0).all()


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "serve"),
    [
        ([50_000, 20_000], 10, True),
        ([50_000, 600], 10, True),  # cannot pay, and borrows
        ([50_000, 300], 10, False),  # can neither pay nor borrow
        ([1000, 900], 10, False),  # none can pay
        ([50_000, 20_000], 119, True),
        ([5_000_000, 2_000_000], 120, False),
        ([50_000, 20_000], 1, False),
    ],
)
def test_pairs_serve_where_no_class_is_left_out(n_rows, n_columns, serve):
    """40 noise deviations of rows pay: at mu 0.3 and 10 columns 1,033 of them."""
    mu = 0.3 if n_columns < 100 else 1.0
    assert _pairs.pairs_serve(n_rows, n_columns, mu) == serve
    assert _pairs.pairs_serve(n_rows, n_columns, 1e-4) is False
