"""Which tables are planned, which are measured, and what of the budget they take."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from skdpsynth.measure import (
    Allocation,
    Spend,
    TableBins,
    allocate,
    allocate_measurements,
    measured_form,
)

# The rules of the budget have closed forms, which are stated of the parts of a plan.
from skdpsynth.measure._bins import ColumnBins
from skdpsynth.measure._measure import _choose_pairs
from skdpsynth.measure._query import Ask
from skdpsynth.measure._relations import PairTables, with_together
from skdpsynth.privacy import GRID, PrivacyAccountant
from skdpsynth.table import CategoryDomain, Classes, PrivateRows, TableRows

N_ROWS = 5000
PLANTED = [(0, 7), (3, 4), (12, 29), (20, 21)]


def table(n_columns: int, planted=(), seed: int = 0):
    """Make columns of two categories; the second of a planted pair is the first."""
    codes = np.random.default_rng(seed).integers(0, 2, (N_ROWS, n_columns))
    for i, j in planted:
        codes[:, j] = codes[:, i]
    bins = ColumnBins(np.empty(0), np.array([0, 1, 2, 2]))
    units, class_codes = np.zeros(codes.shape, np.float32), np.zeros(N_ROWS, np.int64)
    rows = PrivateRows(units, codes.astype(np.uint8), class_codes)
    return rows, TableBins([bins] * n_columns), np.tile([0.5, 0.5, 0.0], n_columns)


def measure(rows, bins, shares, mu, target, **plan):
    """Choose pairs with a tenth of the squared mu, and measure them with the rest."""
    accountant = PrivacyAccountant(20.0, 1e-5)
    ask = Ask(TableRows(rows), Classes(("u",), np.array([5e3])), accountant)
    plan = Allocation("u", N_ROWS, choice=Spend(mu * math.sqrt(0.1)), **plan)
    independent = N_ROWS * np.outer(shares, shares)
    query = _choose_pairs(ask, plan, bins, independent, target, [0])
    ask.release(query, mu * math.sqrt(0.9), 0)
    return set(map(tuple, query.sets.tolist())), accountant.report().entries


# --- Pairs: which -----------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n_columns", "planted", "mu", "few", "target"),
    [(30, PLANTED, 0.3, False, 4), (10, PLANTED[:2], 0.1, True, None)],
)
def test_pairs_that_depend_on_each_other_are_chosen(
    n_columns, planted, mu, few, target
):
    """Of 435 pairs 4 are equal columns, of 45 two; and those of a target.

    The distance of an equal pair of 5,000 rows is 5,000, that of another about 100, and
    their noise sqrt(435) / (0.3 sqrt(0.1)) = 220, or 212. What is taken off for the
    noise of a table is below 530: a planted pair is left out at a rate below 1e-70.
    """
    n_pairs = math.comb(n_columns, 2)
    rows = table(n_columns, planted)
    pairs, (choice, tables) = measure(*rows, mu, target, few_rows=few)
    assert set(planted) <= pairs
    every = combinations(range(n_columns), 2)
    assert {pair for pair in every if target in pair} <= pairs
    assert len(pairs) < n_pairs
    assert choice.name == "choice of pairs"
    assert choice.sensitivity == pytest.approx(math.sqrt(n_pairs))
    assert tables.sensitivity == pytest.approx(GRID * math.sqrt(len(pairs)))
    assert choice.mu_total**2 == pytest.approx(0.1 * mu**2)
    assert choice.mu_total**2 + tables.mu_total**2 == pytest.approx(mu**2)


def test_classes_are_corrected_by_tables_of_all_of_them():
    """The estimate of weighted least squares, cell by cell, and its variance."""
    rng, stds = np.random.default_rng(0), [3.0, 5.0, 8.0, 4.0]

    def tables(noise_std):
        counts = rng.normal(50, 20, (2, 2)).astype(np.float32)
        return PairTables(counts, counts > -99, noise_std, 100.0, np.array([[0, 1]]))

    *each, together = map(tables, stds)
    found = with_together(dict(enumerate(each)), together)
    design = np.vstack([np.eye(3), np.ones(3)])
    weights = np.diag([std**-2 for std in stds])
    covariance = np.linalg.inv(design.T @ weights @ design)
    seen = np.array([own.counts for own in (*each, together)])
    expected = np.tensordot(covariance @ design.T @ weights, seen, 1)
    ours = [found[c].counts for c in range(3)]
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    variances = [own.noise_std**2 for own in found.values()]
    np.testing.assert_allclose(variances, np.diag(covariance), rtol=1e-6)


# --- Which tables, and which classes ----------------------------------------------


@pytest.mark.parametrize(
    ("labels", "n_rows", "n_columns", "form"),
    [
        ((None,), [5169.0], 10, "pairs"),  # 200 noise deviations are 5,164 rows
        ((None,), [5159.0], 10, "moments"),  # few rows without classes
        (("u", "v"), [5e4, 600.0], 10, "pairs"),  # the second one borrows
        (("u", "v"), [400.0, 9.0], 10, "moments"),
        (("u", "v"), [200.0, 200.0], 10, "marginals"),
        (("u", "v", "w"), [5e4, 2e4, 9.0], 10, "pairs"),  # the third one borrows
        (("u", "v"), [2e4, 1e4], 40, "moments"),
        (("u", "v"), [5e6, 9.0], 120, "moments"),
        (("u", "v"), [5e6, 2e6], 2001, "marginals"),
        ((None,), [200.0], 10, "marginals"),
    ],
)
def test_one_form_serves_all_classes_of_a_table(labels, n_rows, n_columns, form):
    """Tables where one class affords them, else moments where one does, else none."""
    assert measured_form(labels, n_rows, n_columns, 0, 0.3) == form
    assert measured_form(labels, n_rows, n_columns, 0, 1e-5) == "marginals"


def test_tables_go_before_second_moments_where_moments_lack_something():
    """Categories among numbers; rows without a label, of which only tables are."""
    few, many = ((None,), [3e3]), (("u", "v"), [2e4, 1e4])
    assert measured_form(*few, 5, 5, 0.3) == "moments"
    assert measured_form(*many, 38, 2, 0.3) == "moments"
    assert measured_form(*many, 37, 3, 0.3) == "pairs"
    assert measured_form(*many, 40, 0, 0.3, tables_first=True) == "pairs"
    assert measured_form(*few, 10, 0, 0.3, tables_first=True) == "moments"


# --- The budget of several classes ----------------------------------------------------


def plan_classes(labels, counts, *columns_and_mu):
    """Plan tables of two columns and more, as the synthesizers do."""
    options = {"largest": counts.max(), "form": "pairs"}
    return [
        allocate_measurements(label, own, *columns_and_mu, **options)
        for label, own in zip(labels, counts, strict=True)
    ]


@pytest.mark.parametrize("mu", [0.3, 0.02])
def test_a_row_of_any_class_is_charged_for_what_several_release_together(mu):
    """Of the squared mu of every class nothing is left, and nothing is missing.

    The third class has no tables, and is charged for those of the others. These spend a
    fifth on tables together, or half where 200 noise deviations are more than the rows.
    """
    counts = np.array([40_000.0, 20_000.0, 200.0])
    domains = [CategoryDomain(("p", "q", "r"), False)] * 6

    *having, rare = allocate(plan_classes, [*"abc"], counts, domains, mu)
    ((*spent,),) = {(own.choice, own.together, own.relations) for own in having}
    shared = [spend.mu for spend in spent]  # with one noise
    for plan in having:
        own = plan.pairs.mu, plan.triples.mu, plan.marginals.mu
        assert math.hypot(*own, *shared) == pytest.approx(mu)
        scarce = 40_000 * math.hypot(plan.pairs.mu, plan.together.mu) < 200 * 15**0.5
        assert scarce == (mu == 0.02)
        share = 0.5 if scarce else 0.2
        whole = plan.together.mu**2 + plan.pairs.mu**2
        assert plan.together.mu**2 == pytest.approx(share * whole)
    assert rare.pairs.mu == 0
    assert math.hypot(rare.marginals.mu, *shared) == pytest.approx(mu)


def test_without_noise_nothing_is_measured_twice():
    """Exact tables of each class say all that those of all classes together do."""
    counts, domains = np.array([4000.0, 1000.0]), [CategoryDomain((*"pq",), False)] * 3
    for plan in allocate(plan_classes, [*"ab"], counts, domains, math.inf):
        assert plan.pairs.mu == math.inf
        assert plan.together.mu == 0
