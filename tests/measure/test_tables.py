"""Which tables are planned, which are measured, and what of the budget they take."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpsynth import (
    DPCGANSynthesizer,
    MarginalSynthesizer,
    PATETripleGANSynthesizer,
)
from skdpsynth.measure import (
    TableBins,
    _tables,
    allocate,
    allocate_measurements,
    borrowers,
    measured_form,
)
from skdpsynth.measure._allocation import table_bins
from skdpsynth.measure._tables import (
    ColumnBins,
    PairTables,
    all_pairs,
    bins_of_pairs,
    choose_pairs,
    every_pair,
    few_rows,
    measure_moments,
    measure_pairs,
    measure_triples,
    moments_best,
    moments_share,
    pair_noise_std,
    pairs_affordable,
    pairs_serve,
    planned_tables,
    triple_groups,
    triple_noise_std,
    with_together,
)
from skdpsynth.privacy import GRID, MOMENTS_SENSITIVITY, Parts, PrivacyAccountant
from skdpsynth.privacy._tables import exact_pair_counts
from skdpsynth.privacy.testing import observe_releases
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.table import CategoryDomain, NumericDomain, PrivateRows

N_ROWS = 5000
PLANTED = [(0, 7), (3, 4), (12, 29), (20, 21)]


def table(n_columns: int, planted=(), seed: int = 0):
    """Make columns of two categories; the second of a planted pair is the first."""
    codes = np.random.default_rng(seed).integers(0, 2, (N_ROWS, n_columns))
    for i, j in planted:
        codes[:, j] = codes[:, i]
    bins = ColumnBins(np.empty(0), np.array([0, 1, 2, 2]), 3)
    units, class_codes = np.zeros(codes.shape, np.float32), np.zeros(N_ROWS, np.int64)
    rows = PrivateRows(units, codes.astype(np.uint8), class_codes)
    return rows, TableBins([bins] * n_columns), np.tile([0.5, 0.5, 0.0], n_columns)


def measure(rows, bins, shares, mu, epsilon=20.0, **choice):
    """Measure pairs, and give them as a set beside the tables and the ledger.

    All of them, or those that a `choice` with a tenth of the squared mu gives.
    """
    accountant, pairs = PrivacyAccountant(epsilon, 1e-5), every_pair(bins)
    if choice:
        pairs = choose_pairs(
            *(rows, bins, N_ROWS * np.outer(shares, shares), accountant),
            **{"few": False, "target": None} | choice,
            mu=mu * math.sqrt(0.1),
            scope="u",
        )
        mu *= math.sqrt(0.9)
    found = measure_pairs(rows, bins, pairs, N_ROWS, accountant, mu=mu, scope="u")
    n_columns = len(bins.columns)
    blocks = found.measured.reshape(n_columns, 3, n_columns, 3)
    assert (blocks.all(axis=(1, 3)) == blocks.any(axis=(1, 3))).all()
    assert np.argwhere(blocks[:, 0, :, 0]).tolist() == found.pairs.tolist()
    return set(map(tuple, found.pairs.tolist())), found, accountant.report().entries


# --- Pairs: which -----------------------------------------------------------------


def test_of_a_few_columns_all_pairs_are_measured():
    """24 columns have 276 pairs: one line, and all of the budget goes to it."""
    pairs, found, (entry,) = measure(*table(24), mu=0.5)
    assert pairs == {*combinations(range(24), 2)}
    assert entry.name == f"276 tables of 2 columns, {276 * 9} cells"
    assert entry.mu_total == pytest.approx(0.5)
    # A row adds 2^20 to a count.
    assert entry.sensitivity == pytest.approx(GRID * math.sqrt(276))
    assert entry.noise_std / GRID == pytest.approx(found.noise_std)
    assert found.noise_std == pytest.approx(math.sqrt(276) / 0.5, rel=1e-4)
    one = measure(*table(2), mu=0.5)[2]
    assert [entry.name for entry in one] == ["1 table of 2 columns, 9 cells"]


def assert_split(entries, pairs, mu):
    """A tenth of the squared mu is for the choice among 435 pairs."""
    choice, tables = entries
    assert choice.name == "choice of pairs"
    assert choice.sensitivity == pytest.approx(math.sqrt(435))
    assert tables.sensitivity == pytest.approx(GRID * math.sqrt(len(pairs)))
    assert choice.mu_total**2 == pytest.approx(0.1 * mu**2)
    assert choice.mu_total**2 + tables.mu_total**2 == pytest.approx(mu**2)


@pytest.mark.statistical
def test_of_many_columns_those_that_depend_on_each_other_are_measured():
    """30 columns have 435 pairs, of which 4 are equal columns.

    The distance of such a pair is 5,000 and that of another about 100. Each has noise
    of sqrt(435) / (0.3 sqrt(0.1)) = 220, and what is taken off for the noise of a table
    is at most sqrt(2 / pi) 9 sqrt(435) / (0.3 sqrt(0.9)) = 526: a planted pair is left
    out if noise of 220 falls below -4,000, at a rate below 1e-70.
    """
    pairs, _, entries = measure(*table(30, PLANTED), mu=0.3, few=False)
    assert set(PLANTED) <= pairs
    assert_split(entries, pairs, 0.3)


@pytest.mark.statistical
def test_of_few_rows_those_that_hang_together_are_measured():
    """10 columns have 45 pairs, of which 2 are equal columns; 5,000 rows at mu 0.1.

    All 45 tables would leave 75 noise deviations. The distance of an equal pair is
    5,000, the noise of a distance sqrt(45) / (0.1 sqrt(0.1)) = 212 and that of a table
    at most half of sqrt(2 / pi) 9 sqrt(45) / (0.1 sqrt(0.9)) = 508: a planted pair is
    left out at a rate below 1e-70.
    """
    planted = [(0, 7), (3, 4)]
    _, found, entries = measure(*table(10, planted), mu=0.1, few=True)
    assert set(planted) <= {tuple(pair) for pair in found.pairs.tolist()}
    assert len(found.pairs) < 45
    choice, tables = entries
    assert choice.sensitivity == pytest.approx(math.sqrt(45))
    assert choice.mu_total**2 + tables.mu_total**2 == pytest.approx(0.1**2)


def test_all_pairs_with_a_measured_target_are_among_them():
    """Where nothing depends on it, too; a target is public, so this costs nothing."""
    pairs, _, entries = measure(*table(30), mu=0.3, target=4)
    assert {pair for pair in combinations(range(30), 2) if 4 in pair} <= pairs
    assert_split(entries, pairs, 0.3)


def test_pairs_are_chosen_by_distances_from_independence():
    """Of 30 columns, without noise: those whose tables are not as shares say.

    Each pair of the first twelve columns has its categories equally often together, but
    for one; all others are constant.
    """
    places = np.arange(4096)
    codes = np.zeros((4096, 30), dtype=np.uint8)
    codes[:, :12] = np.stack([places // 2**k % 2 for k in range(12)], axis=1)
    codes[:, 3] = codes[:, 1]
    _, bins, _ = table(30)
    shares = np.tile([1.0, 0.0, 0.0], 30)
    shares[: 3 * 12] = np.tile([0.5, 0.5, 0.0], 12)
    codes = np.concatenate([codes, codes[: N_ROWS - 4096]])[:4096]
    units, class_codes = np.zeros(codes.shape, np.float32), np.zeros(4096, np.int64)
    rows, seen = PrivateRows(units, codes, class_codes), []
    accountant = PrivacyAccountant(math.inf, 1e-5)
    with observe_releases(seen.append):
        found = choose_pairs(
            *(rows, bins, 4096 * np.outer(shares, shares), accountant),
            **{"mu": math.inf, "scope": None, "few": False, "target": None},
        )
    assert found.tolist() == [[1, 3]]
    (distances,) = seen
    expected = dict.fromkeys(combinations(range(30), 2), 0) | {(1, 3): 4096}
    assert distances.exact.tolist() == [*expected.values()]


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
    noise = math.sqrt(2 / math.pi) * cells / mu
    found = _tables._worth(np.array(distances, dtype=float), noise, first)
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
    _, found, _ = measure(rows, bins, shares, math.inf, math.inf)
    counts = exact_pair_counts(rows.category_codes.astype(np.int64), [3] * 5)
    np.testing.assert_array_equal(found.counts, np.where(found.measured, counts, 0))
    assert (found.noise_std, found.n_rows) == (0, N_ROWS)


@pytest.mark.usefixtures("frozen_noise")
def test_tables_deny_a_number_of_rows_that_is_not_theirs():
    """As of a fold of the table that the schema describes."""
    rows, bins, _ = table(5)
    accountant = PrivacyAccountant(20.0, 1e-5)
    settings = {"mu": 1.0, "scope": None}
    for said, found in ((10 * N_ROWS, N_ROWS), (N_ROWS + 2, N_ROWS + 2)):
        pairs = every_pair(bins)
        own = measure_pairs(rows, bins, pairs, said, accountant, **settings)
        assert own.n_rows == pytest.approx(found, abs=(said != found) * 40)
    empty = rows[:0]
    own = measure_pairs(empty, bins, pairs, 9e5, accountant, **settings)
    assert 1 <= own.n_rows < 100


def test_classes_are_corrected_by_tables_of_all_of_them():
    """The estimate of weighted least squares, cell by cell, and its variance."""
    rng, stds, std = np.random.default_rng(0), [3.0, 5.0, 8.0], 4.0
    measured = np.ones((2, 2), dtype=bool)

    def tables(noise_std):
        counts = rng.normal(50, 20, (2, 2)).astype(np.float32)
        return PairTables(counts, measured, noise_std, 100.0, np.array([[0, 1]]))

    each, together = {c: tables(own) for c, own in enumerate(stds)}, tables(std)
    found = with_together(each, together)
    design = np.vstack([np.eye(3), np.ones(3)])
    weights = np.diag([own**-2 for own in (*stds, std)])
    covariance = np.linalg.inv(design.T @ weights @ design)
    for cell in np.ndindex(2, 2):
        seen = [own.counts[cell] for own in (*each.values(), together)]
        expected = covariance @ design.T @ weights @ seen
        ours = [found[c].counts[cell] for c in range(3)]
        np.testing.assert_allclose(ours, expected, rtol=1e-5)
    variances = [own.noise_std**2 for own in found.values()]
    np.testing.assert_allclose(variances, np.diag(covariance), rtol=1e-6)


# --- Triples and moments: measured ------------------------------------------------


def test_without_noise_tables_of_triples_are_exact():
    """Of the groups that released shares make of the bins."""
    codes = np.random.default_rng(0).integers(0, 5, (400, 4)).astype(np.uint8)
    column = ColumnBins(np.empty(0), np.array([0, 1, 2, 3, 4, 4]), 5)
    bins, shares = TableBins([column] * 4), np.tile([0.4, 0.1, 0.3, 0.2, 0.0], 4)
    groups = np.array([0, 2, 1, 2, 2])  # the two most frequent, and the rest
    rows = PrivateRows(np.zeros(codes.shape, np.float32), codes, np.zeros(400, int))
    accountant = PrivacyAccountant(math.inf, 1e-5)
    own = bins.groups(shares, 3)
    found = measure_triples(rows, bins, own, 3, accountant, mu=math.inf, scope=None)
    assert found.groups.tolist() == groups.tolist() * 4
    assert found.triples.tolist() == [[*own] for own in combinations(range(4), 3)]
    assert found.counts.shape == (4, 3, 3, 3)
    for triple, counts in zip(found.triples.tolist(), found.counts, strict=True):
        for cell in product(range(3), repeat=3):
            own = (groups[codes[:, triple]] == cell).all(axis=1)
            assert counts[cell] == own.sum()
    (entry,) = accountant.report().entries
    assert entry.name == f"4 tables of 3 columns, {4 * 27} cells"
    assert entry.sensitivity == pytest.approx(2 * GRID)


def test_without_noise_moments_are_the_covariances_of_scores():
    """But for rounding and the rows that are shortened, of which there are none."""
    rng = np.random.default_rng(0)
    scores = np.clip(rng.multivariate_normal(np.ones(3), np.eye(3) + 0.5, 500), -1, 3)
    means, stds = np.array([1.0, 0.9, 1.1]), np.full(3, 3.0)
    accountant = PrivacyAccountant(math.inf, 1e-5)
    settings = {"mu": math.inf, "scope": None}
    found = measure_moments(Parts.of(scores), means, stds, 500, accountant, **settings)
    off = scores - means
    expected = (off.T @ off / 500)[np.triu_indices(3, 1)]
    np.testing.assert_allclose(found.covariances, expected, atol=0.01)
    (entry,) = accountant.report().entries
    assert entry.name == "second moments of 3 columns"
    assert entry.sensitivity == pytest.approx(MOMENTS_SENSITIVITY)


def test_the_noise_that_is_said_is_in_rows_and_in_covariances():
    """One cell of a table, and one covariance: by what the ledger says."""
    rows, bins, shares = table(4)
    accountant, settings = PrivacyAccountant(20.0, 1e-5), {"mu": 0.5, "scope": None}
    groups = bins.groups(shares, 3)
    triples = measure_triples(rows, bins, groups, 3, accountant, **settings)
    assert triples.noise_std == pytest.approx(triple_noise_std(4, 0.5), rel=1e-4)
    stds = np.array([1.0, 0.5, 0.5, 1.0])
    scores = Parts.of(np.zeros((10, 4)))
    moments = measure_moments(scores, np.zeros(4), stds, 10, accountant, **settings)
    # Rows are shortened to twice their mean squared length, 2.5, over the rows.
    expected = 2 * 2.5 / math.sqrt(2) / 0.5 / 10
    assert moments.noise_std == pytest.approx(expected, rel=1e-3)


# --- Plans ------------------------------------------------------------------------


@pytest.mark.parametrize(("n_columns", "n_pairs"), [(1, 0), (2, 1), (25, 300)])
def test_all_pairs_are_planned_but_300_at_most(n_columns, n_pairs):
    assert all_pairs(n_columns) == planned_tables(n_columns) == n_pairs
    assert planned_tables(n_columns + 25) == 300


@pytest.mark.parametrize("mu", [0.05, 0.4, math.inf])
@pytest.mark.parametrize("n_columns", [2, 15, 60])
def test_pairs_are_affordable_from_40_noise_deviations(n_columns, mu):
    limit = 40 * math.sqrt({2: 1, 15: 105, 60: 300}[n_columns]) / mu
    assert pairs_affordable(max(limit * 1.001, 1.0), n_columns, mu)
    assert not pairs_affordable(limit * 0.999, n_columns, mu)
    assert not pairs_affordable(1e9, 1, mu)


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


def test_of_few_rows_15_tables_are_planned():
    """Few: under 200 noise deviations of tables of all pairs; never with 15 pairs."""
    limit = 200 * math.sqrt(105) / 0.5
    assert not few_rows(limit * 1.001, 15, 0.5)
    assert few_rows(limit * 0.999, 15, 0.5)
    assert not few_rows(1.0, 6, 0.5)
    assert not few_rows(1.0, 7, math.inf)
    assert (planned_tables(15), planned_tables(15, few=True)) == (105, 15)
    std = math.sqrt(15) / 0.5
    assert pair_noise_std(15, 0.5, few=True) == pytest.approx(std)
    few = allocate_measurements("u", 200.0, 7, 8, 0.8, largest=2000.0, form="pairs")
    assert few.few_rows
    assert few.pairs.mu == 0.0
    rich = allocate_measurements("u", 2000.0, 7, 8, 0.8, largest=4000.0, form="pairs")
    assert not rich.few_rows


def test_the_distances_of_independent_columns_are_those_of_chance():
    """Multinomial tables of 4,000 rows: mean distances within 5 standard errors."""
    rng, starts = np.random.default_rng(0), np.array([0, 3, 7])
    shares = np.concatenate([[0.5, 0.3, 0.2], np.full(4, 0.25)])
    whole = np.rint(4000 * np.outer(shares, shares)).astype(np.int64)
    table = whole[:3, 3:]
    drawn = rng.multinomial(4000, np.outer(shares[:3], shares[3:]).ravel(), 3000)
    distances = np.abs(drawn.reshape(-1, 3, 4) - table).sum((1, 2))
    (expected,) = _tables._distances_by_chance(whole, starts)
    # A count is binomial, so its variance is less than its mean by a twelfth or so.
    assert distances.mean() == pytest.approx(expected, rel=0.08)


def squares(plan):
    return (
        plan.marginals.mu**2,
        plan.pairs.mu**2,
        plan.triples.mu**2,
        plan.moments.mu**2,
        plan.relations.mu**2,
    )


def test_the_budget_of_a_class_is_shared_out():
    """A quarter to triples, a tenth of the rest to relations, then three to pairs.

    What is left is for marginals. A class that can afford tables only without relations
    has none; one that can afford no tables has all for its marginals.
    """
    mu2, plan = 0.16, allocate_measurements("u", 1e6, 6, 6, 0.4, form="pairs")
    triples, left = 0.25 * mu2, 0.75 * mu2
    relations, pairs = 0.1 * left, 0.75 * 0.9 * left
    marginals = 0.25 * 0.9 * left
    expected = marginals, pairs, triples, 0, relations
    assert squares(plan) == pytest.approx(expected)
    assert plan.n_groups == triple_groups(1e6, 12, 0.2) == 7
    for order, n_rows in ((2, 1e6), (3, 8000.0)):  # not asked for; not affordable
        plan = allocate_measurements("u", n_rows, 6, 6, 0.4, form="pairs", order=order)
        rest = 0.9 * mu2, 0.1 * mu2
        expected = 0.25 * rest[0], 0.75 * rest[0], 0, 0, rest[1]
        assert squares(plan) == pytest.approx(expected)
        assert plan.n_groups == 0
    for poor in (
        allocate_measurements("u", 100.0, 6, 6, 0.4, largest=1e5, form="pairs"),
        allocate_measurements("u", 1e5, 6, 6, 0.4),
        allocate_measurements("u", 1e5, 1, 0, 0.4, form="pairs"),
        allocate_measurements("u", 100.0, 6, 6, 0.4, form="moments"),
    ):
        assert squares(poor) == pytest.approx((mu2, 0, 0, 0, 0))
        assert (poor.n_tables, poor.n_table_cells, poor.pairs.noise_std) == (0, 0, 0.0)
    share = moments_share(1e5, 12, 0.4)
    wide = allocate_measurements("u", 1e5, 6, 6, 0.4, form="moments")
    assert squares(wide) == pytest.approx(((1 - share) * mu2, 0, 0, share * mu2, 0))
    nothing = allocate_measurements("u", 1e5, 6, 6, 0.4, form="random")
    assert squares(nothing) == (0, 0, 0, 0, 0)
    # Of so few rows 15 pairs are chosen.
    least = 40.0 * math.sqrt(15) / (0.4 * math.sqrt(0.75))
    tight = allocate_measurements("u", least * 1.01, 6, 6, 0.4, form="pairs")
    assert squares(tight) == pytest.approx((0.25 * mu2, 0.75 * mu2, 0, 0, 0))


@pytest.mark.parametrize("n_columns", [3, 6, 12, 19])
@pytest.mark.parametrize("mu", [0.1, 0.5, math.inf])
def test_groups_of_triples_leave_cells_above_the_noise(n_columns, mu):
    """12 deviations of a mean cell; 84 groups of all columns at most."""
    std = max(math.sqrt(math.comb(n_columns, 3)) / mu, 1.0)
    least = 27 * 12 * std
    assert triple_groups(least * 0.999, n_columns, mu) == 0
    assert triple_groups(least * 1.001, n_columns, mu) == 3
    most = 84 // n_columns
    for groups in range(4, most + 1):
        assert triple_groups(groups**3 * 12 * std * 0.999, n_columns, mu) == groups - 1
        assert triple_groups(groups**3 * 12 * std * 1.001, n_columns, mu) == groups
    assert triple_groups(1e15, n_columns, mu) == most
    assert triple_groups(1e15, n_columns, 0.0) == 0


@pytest.mark.parametrize(("n_columns", "groups"), [(2, 0), (3, 28), (19, 4), (20, 0)])
def test_triples_are_measured_of_three_to_nineteen_columns(n_columns, groups):
    assert triple_groups(1e12, n_columns, 1.0) == groups


@pytest.mark.parametrize("n_columns", [2, 50, 2000])
def test_moments_get_as_much_as_makes_the_strongest_factor_clear(n_columns):
    """Twenty times the largest eigenvalue of noise; 2 % at least and 30 % at most."""

    def clear(n_rows, mu):
        noise = 2 * math.sqrt(n_columns) * math.sqrt(2) / mu / n_rows
        return 0.12 / noise

    shares = []
    for n_rows in np.geomspace(10, 1e9, 40).tolist():
        share = moments_share(n_rows, n_columns, 0.5)
        shares.append(share)
        own = clear(n_rows, 0.5 * math.sqrt(share or 0.3))
        assert (own >= 0.5) == (share > 0)
        if 0.02 < share < 0.3:
            assert own == pytest.approx(20)
        elif share:
            assert own >= 20 if share == 0.02 else own <= 20
    assert {0.0, 0.02, 0.3} <= set(shares)
    assert moments_share(1.0, n_columns, math.inf) == 0.02
    assert moments_share(1e9, n_columns, 0.0) == 0.0


def test_the_plan_says_tables_cells_and_noise():
    """Cells by a loop over pairs; one number of bins for all classes."""
    domains = [
        NumericDomain(0.0, 1.0, log=False, integer=False, nullable=True),
        NumericDomain(1.0, 3.0, log=False, integer=True, nullable=False),
        CategoryDomain(("a", "b"), nullable=True),
        None,
    ]
    plans = [
        allocate_measurements(c, n, 1, 3, 0.4, largest=4e4, form="pairs")
        for c, n in ((0, 4e4), (1, 100.0))
    ]
    n_bins = table_bins(plans, 4)
    rows_per_noise = 4e4 / pair_noise_std(4, plans[0].pairs.mu)
    assert n_bins == bins_of_pairs(rows_per_noise, 4)
    counts = np.array([4e4, 100.0])
    rich, poor = allocate(lambda *_: plans, (0, 1), counts, domains, 0.4)
    sizes = [n_bins + 2, 3, 4, n_bins + 1]  # zero and missing; other and missing
    cells = sum(a * b for a, b in combinations(sizes, 2))
    assert (rich.n_tables, rich.n_table_cells) == (6, cells)
    assert rich.pairs.noise_std == pytest.approx(pair_noise_std(4, plans[0].pairs.mu))
    assert (poor.n_tables, poor.n_table_cells, poor.pairs.noise_std) == (0, 0, 0.0)
    assert table_bins(plans[1:], 4) == 4  # none measures pairs


# --- Which tables, and which classes ----------------------------------------------


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([False, False, True, False, False], {0: 2, 1: 2, 3: 2, 4: 2}),
        ([False, True, True, False, False], {0: 2, 3: 2, 4: 2}),
        ([True] * 5, {}),
        ([False] * 5, {}),
    ],
)
def test_classes_borrow_from_the_largest_that_can_lend(known, expected):
    """Not from the largest of all, and however few rows they have."""
    n_rows = [9000.0, 4000.0, 5000.0, 50.0, 49.0]
    assert borrowers(known, n_rows) == expected


@pytest.mark.parametrize(
    ("columns", "alone", "limit"),
    [
        ((10, 0), True, 5164.0),  # 200 noise deviations; tables need 40
        ((5, 5), True, 5164.0),
        ((40, 0), False, 21499.0),  # of the tables of all pairs
        ((38, 2), False, 21499.0),
        ((40, 0), True, 13333.0),  # of as many tables as are measured
        ((20, 0), False, 10610.0),
        ((19, 0), False, 0.0),
        ((37, 3), False, 0.0),  # too few numbers
        ((47, 3), False, 0.0),
    ],
)
def test_moments_are_best_of_few_rows_without_classes_or_of_many_numbers(
    columns, alone, limit
):
    """At mu 0.3 and 10 columns 200 noise deviations are 5,164 rows."""
    assert not moments_best(limit * 1.001, *columns, 0.3, alone=alone)
    assert moments_best(limit * 0.999, *columns, 0.3, alone=alone) == (limit > 0)


@pytest.mark.parametrize(
    ("labels", "n_rows", "n_columns", "form"),
    [
        ((None,), [5e4], 10, "pairs"),
        ((None,), [3e3], 10, "moments"),  # few rows without classes
        (("u", "v"), [5e4, 2e4], 10, "pairs"),
        (("u", "v"), [3e3, 3e3], 10, "pairs"),
        (("u", "v"), [5e4, 600.0], 10, "pairs"),  # the second one borrows
        (("u", "v"), [5e4, 9.0], 10, "pairs"),  # and so does it here
        (("u", "v"), [400.0, 9.0], 10, "moments"),
        (("u", "v"), [200.0, 200.0], 10, "marginals"),
        (("u", "v", "w"), [5e4, 2e4, 9.0], 10, "pairs"),  # the third one borrows
        (("u", "v"), [5e4, 2e4], 40, "pairs"),
        (("u", "v"), [2e4, 1e4], 40, "moments"),
        (("u", "v"), [1e4, 1e4], 19, "pairs"),
        (("u", "v"), [5e6, 9.0], 120, "moments"),
        (("u", "v"), [5e6, 2e6], 2001, "marginals"),
        ((None,), [200.0], 10, "marginals"),
        ((None,), [5e6], 1, "marginals"),
    ],
)
def test_one_form_serves_all_classes_of_a_table(labels, n_rows, n_columns, form):
    """Tables where one class affords them, else moments where one does, else none."""
    assert measured_form(labels, n_rows, n_columns, 0, 0.3) == form
    assert measured_form(labels, n_rows, n_columns, 0, 1e-5) == "marginals"


def test_pairs_serve_from_40_noise_deviations_on():
    """Of 15 tables, which few rows have: 596 rows at mu 0.3, of the largest class."""
    assert pairs_serve([1040.0], 10, 0.3)
    assert pairs_serve([600.0, 9.0], 10, 0.3)
    assert not pairs_serve([590.0, 590.0], 10, 0.3)


def test_tables_of_classes_may_go_before_second_moments():
    """As where rows without a label are measured, of which only tables are."""
    classes, alone = (("u", "v"), [2e4, 1e4], 40, 0, 0.3), ((None,), [3e3], 10, 0, 0.3)
    assert measured_form(*classes) == measured_form(*alone) == "moments"
    assert measured_form(*classes, tables_first=True) == "pairs"
    assert measured_form(*alone, tables_first=True) == "moments"


@pytest.mark.parametrize("n_categories", [0, 2, 3])
@pytest.mark.parametrize(
    "cls", [MarginalSynthesizer, DPCGANSynthesizer, PATETripleGANSynthesizer]
)
def test_a_plan_says_what_is_measured_of_45_columns(cls, n_categories):
    """Numbers have second moments, from 3 categories on tables."""
    columns = {f"n{j}": Continuous(0, 1) for j in range(45 - n_categories)}
    columns |= {f"c{j}": Categorical(["a", "b", "c"]) for j in range(n_categories)}
    columns["y"] = Categorical(["u", "v"])
    plan = cls(epsilon=1.0, schema=TableSchema(columns, target="y")).plan(
        class_counts={"u": 20_000, "v": 500}
    )
    large, small = plan.to_dict("records")
    assert small["dependence"] == "borrowed"
    assert small["tables"] == small["moment_noise_std"] == 0
    if n_categories == 3 or cls is PATETripleGANSynthesizer:
        assert large["tables"] == 300
        assert large["moment_noise_std"] == 0
    else:
        assert large["tables"] == 0
        assert 0 < large["moment_noise_std"] < 0.2
        assert large["dependence"] == "weak"


def test_planned_noise_of_second_moments_is_about_that_of_the_release():
    """Of 40 normal columns, whose scores have variances of about 1."""
    rng = np.random.default_rng(0)
    columns = {f"n{j}": Continuous(-5, 5) for j in range(40)}
    table = pd.DataFrame(rng.normal(size=(4000, 40)).clip(-5, 5), columns=list(columns))
    table["y"] = np.where(rng.random(4000) < 0.5, "u", "v")
    public = TableSchema(columns | {"y": Categorical(["u", "v"])}, target="y")
    model = MarginalSynthesizer(epsilon=3.0, schema=public)
    planned = model.plan(class_counts={"u": 2000, "v": 2000})["moment_noise_std"]
    measured = model.fit(table).measurements_
    released = {own.noise_std for own in measured if len(own.columns) == 40}
    assert len(released) == 2
    assert max(released) == pytest.approx(planned.max(), rel=0.2)
