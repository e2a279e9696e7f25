"""Measured marginals: what they cost, and how near to the truth they come."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

# Rows whose domains are known: `discover` would find others.
from skdpsynth.measure._marginals import estimate, known_sizes, measure_marginals
from skdpsynth.measure._query import Ask
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.table import (
    MISSING,
    ZERO,
    CategoryDomain,
    Classes,
    NumericDomain,
    PrivateRows,
    TableRows,
)

NUMBER = NumericDomain(-4.0, 4.0, log=False, integer=False, nullable=True)
COUNT = NumericDomain(0.0, 9.0, log=False, integer=True, nullable=False)
CATEGORIES = CategoryDomain(("a", "b", "c"), nullable=True)
DOMAINS = [NUMBER, COUNT, CATEGORIES]
TWO = Classes(("n", "p"), np.array([8000.0, 2000.0]))
RANKS = (np.arange(20_000) + 0.5) / 20_000


def table(rng: np.random.Generator, n_rows: int = 10_000) -> PrivateRows:
    """Make rows whose distribution in each of two classes is known."""
    class_codes = (np.arange(n_rows) % 5 == 0).astype(np.int64)
    normal = np.clip(rng.normal(class_codes, 0.7), -4, 4)
    kind = rng.choice([0, ZERO, MISSING], n_rows, p=[0.6, 0.3, 0.1])
    normal[kind == ZERO] = 0.0
    count = rng.integers(0, np.where(class_codes, 5, 10)).astype(float)
    category = rng.choice([0, 1, 3, 4], n_rows, p=[0.5, 0.25, 0.05, 0.2])
    nothing = np.zeros(n_rows)
    units = np.column_stack([NUMBER.to_unit(normal), COUNT.to_unit(count), nothing])
    codes = np.column_stack([kind, nothing, category])
    return PrivateRows(units.astype(np.float32), codes.astype(np.uint8), class_codes)


def numbers(domain, values, class_codes=None):
    """Make rows of one number each, or of several columns of them."""
    units = domain.to_unit(np.asarray(values, dtype=float)).reshape(len(values), -1)
    class_codes = np.zeros(len(units), np.int64) if class_codes is None else class_codes
    codes = np.zeros(units.shape, np.uint8)
    return PrivateRows(units.astype(np.float32), codes, class_codes)


def measure(rows, epsilon, domains=DOMAINS, classes=TWO):
    accountant = PrivacyAccountant(epsilon, 1e-5)
    mus = np.full(len(classes), accountant.mu_cap)
    ask = Ask(TableRows(rows), classes, accountant)
    released, cells = measure_marginals(ask, domains, mus)
    rounds = [[m for m in released if m.scope == scope] for scope in classes.scopes]
    return estimate(domains, known_sizes(classes, rounds), rounds, cells), accountant


@pytest.mark.parametrize(("epsilon", "tolerance"), [(math.inf, 0.02), (1.0, 0.06)])
def test_the_marginals_of_a_known_table_come_out(epsilon, tolerance):
    """At epsilon 1 the noise of a share is below 0.005, a twelfth of the tolerance."""
    marginals, _ = measure(table(np.random.default_rng(0)), epsilon)
    for c in (0, 1):
        number, count, category = marginals[c]
        values, missing = number.decode(RANKS)
        assert missing.mean() == pytest.approx(0.1, abs=tolerance)
        assert (values[~missing] == 0).mean() == pytest.approx(1 / 3, abs=tolerance)
        others = values[~missing & (values != 0)]
        assert others.mean() == pytest.approx(c, abs=3 * tolerance)
        assert others.std() == pytest.approx(0.7, abs=3 * tolerance)
        shares = np.bincount(count.decode(RANKS)[0].astype(int), minlength=10) / 20_000
        assert shares[:5] == pytest.approx(np.full(5, [0.1, 0.2][c]), abs=tolerance)
        codes, missing = category.decode(RANKS)
        assert missing.mean() == pytest.approx(0.2 / 0.95, abs=tolerance)
        assert (codes == 2).mean() == pytest.approx(0.0, abs=tolerance)
        assert (codes == 0).mean() == pytest.approx(0.5 / 0.95, abs=tolerance)


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_are_ordered_by_the_class_they_speak_for(ordered):
    """What both classes have as often stands between what each has more often."""
    domain = CategoryDomain(("a", "b", "c"), nullable=False, ordered=ordered)
    codes = np.repeat([0, 1, 2, 0, 1, 2], [500, 100, 400, 100, 500, 400])
    rows = PrivateRows(
        np.zeros((2000, 1), np.float32),
        codes[:, None].astype(np.uint8),
        np.repeat([0, 1], 1000),
    )
    classes = Classes(("n", "p"), np.array([1000.0, 1000.0]))
    for [marginal] in measure(rows, math.inf, [domain], classes)[0]:
        order = [*dict.fromkeys(marginal.decode(RANKS)[0].tolist())]
        assert order in ([[0, 1, 2]] if ordered else [[0, 2, 1], [1, 2, 0]])


def test_round_two_looks_where_round_one_saw_rows():
    """500 to 501 of 0 to 1,000: 256 bins of the whole range would be 4 wide."""
    domain = NumericDomain(0.0, 1000.0, log=False, integer=False, nullable=False)
    rows = numbers(domain, np.linspace(500, 501, 10_000))
    with insecure_randomness(0):
        found, _ = measure(rows, 1.0, [domain], Classes((), np.array([1e4])))
    values = found[0][0].decode(RANKS)[0]
    assert values.std() < 1.0


def test_a_rare_class_is_not_drawn_from_the_values_of_another():
    """200 rows at 22 to 29 beside 50,000 at 5 to 12, whose ends are theirs alone."""
    rng = np.random.default_rng(0)
    codes = np.concatenate((rng.integers(5, 13, 50_000), rng.integers(22, 30, 200)))
    domain = NumericDomain(0.0, 31.0, False, True, False, released=True)
    rows = numbers(domain, codes, np.repeat([0, 1], [50_000, 200]))
    classes = Classes(("n", "p"), np.array([50_000.0, 200.0]))
    with insecure_randomness(0):
        for _ in range(10):
            [usual], [rare] = measure(rows, 1.0, [domain], classes)[0]
            assert (rare.decode(RANKS)[0] >= 20).mean() > 0.8
            drawn = usual.decode(RANKS)[0]
            assert drawn.min() >= 4
            assert drawn.max() <= 13


@pytest.mark.parametrize("seed", range(2))
def test_codes_end_where_the_rows_do_if_their_range_was_released(seed):
    """Of 1 to 5 in a range from 0 to 7; declared, each of the numbers may occur.

    Noise alone leaves a number in 2 % of such fits, the noise being frozen.
    """
    domain = NumericDomain(0.0, 7.0, log=False, integer=True, nullable=False)
    rows = numbers(domain, np.random.default_rng(seed).integers(1, 6, 4000))
    one = Classes((None,), np.array([4000.0]))
    seen = {}
    for released in (True, False):
        own = replace(domain, released=released)
        with insecure_randomness(seed):
            [[marginal]], _ = measure(rows, 0.5, [own], one)
        seen[released] = set(marginal.decode(RANKS)[0].tolist())
    assert seen[True] == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert seen[False] > seen[True]


# --- Sizes, and rows in no cell ---------------------------------------------------


def binary(shares, domain=None):
    """Give 3,000 rows of one class, and domains: 12 columns of these shares."""
    domain = CategoryDomain(("a", "b"), nullable=False) if domain is None else domain
    codes = np.searchsorted(np.cumsum(shares)[:-1], (np.arange(3000) + 0.5) / 3000)
    codes = np.repeat(codes[:, None], 12, axis=1).astype(np.uint8)
    rows = PrivateRows(np.zeros(codes.shape, np.float32), codes, np.zeros(3000, int))
    return rows, [domain] * 12


def shares_of(marginals):
    """Give the share of the first category in each column of the only class."""
    return np.array([column.cumulative[1] for column in marginals[0]])


@pytest.mark.statistical
@pytest.mark.parametrize("nullable", [True, False])
def test_values_that_no_category_names_are_not_spread_evenly(
    nullable, global_random_seed
):
    """6 of 10 rows are neither 'a' (3) nor 'b' (1); of the rest 3 in 4 are 'a'.

    Counted as rows without a category they would add a half each. The noise of a share
    is below 0.01, and one of 12 columns passes 0.1 at a rate below 1e-12.
    """
    domain = CategoryDomain(("a", "b"), nullable=nullable)
    rows, domains = binary([0.3, 0.1, 0.6], domain=domain)
    with insecure_randomness(global_random_seed):
        marginals, _ = measure(rows, 1.0, domains, Classes((), np.array([3000.0])))
    assert np.abs(shares_of(marginals) - 0.75).max() < 0.1


def test_missing_numbers_that_a_domain_does_not_model_are_in_no_bin():
    """Two rows in five, without noise; in a bin they would count as its numbers."""
    domain = NumericDomain(1.0, 2.0, log=False, integer=False, nullable=False)
    codes = np.where(np.arange(5000) % 5 < 2, MISSING, 0)[:, None].astype(np.uint8)
    units = np.random.default_rng(0).uniform(0, 0.5, (5000, 1)).astype(np.float32)
    rows = PrivateRows(units, codes, np.zeros(5000, dtype=np.int64))
    [[marginal]], _ = measure(rows, math.inf, [domain], Classes((), np.array([5e3])))
    assert (marginal.decode(RANKS)[0] > 1.6).mean() < 0.01


@pytest.mark.statistical
@pytest.mark.parametrize("declared", [2400.0, 3600.0])
def test_a_wrong_number_of_rows_does_not_spoil_the_shares(declared, global_random_seed):
    """A schema of another table: the category of 80 % stays one.

    By the declared number alone, shares were off by 0.075 and 0.05. The noise of a
    share is below 0.004, and the declared number still pulls by 0.002: one of 12
    columns passes 0.03 by chance at a rate below 1e-10.
    """
    rows, domains = binary([0.8, 0.2])
    with insecure_randomness(global_random_seed):
        marginals, _ = measure(rows, 1.0, domains, Classes((), np.array([declared])))
    assert np.abs(shares_of(marginals) - 0.8).max() < 0.03
