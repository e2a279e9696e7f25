"""Measured marginals: what they cost, and how near to the truth they come."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer
from skdpsynth.measure import _marginals, flat_marginals
from skdpsynth.measure._density import Histogram
from skdpsynth.measure._marginals import (
    bins_for,
    coarse_share,
    estimate,
    measure_marginals,
    size_weight,
)
from skdpsynth.privacy import CentredCounts, PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.table import (
    MISSING,
    ZERO,
    CategoryDomain,
    Classes,
    NumericDomain,
    PrivateRows,
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
    units = np.column_stack(
        [NUMBER.to_unit(normal), COUNT.to_unit(count), np.zeros(n_rows)]
    )
    codes = np.column_stack([kind, np.zeros(n_rows), category])
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
    released = measure_marginals(rows, domains, classes, accountant, mus=mus)
    return estimate(domains, classes, *released), accountant


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


def counted(monkeypatch, rows, epsilon):
    """Measure, and list calls that count: codes, cells, reservation and weight."""
    calls = []

    def spy(codes, n_cells, reservation, weight):
        calls.append(
            (np.concatenate([*codes.each()]), list(n_cells), reservation, weight)
        )
        return original(codes, n_cells, reservation, weight)

    original = _marginals.centred_histogram
    monkeypatch.setattr(_marginals, "centred_histogram", spy)
    _, accountant = measure(rows, epsilon)
    return calls, accountant


def test_both_rounds_are_charged_and_nothing_else(monkeypatch):
    """The sensitivity is that of centred counts, by the formula."""
    calls, accountant = counted(monkeypatch, table(np.random.default_rng(1)), 1.0)
    report = accountant.report()
    charged = {(entry.name, entry.scope): entry for entry in report.entries}
    assert len(charged) == len(calls) == 4
    for entry, (_, n_cells, _, weight) in zip(report.entries, calls, strict=True):
        spread = sum(1 - 1 / n for n in n_cells)
        assert len(n_cells) == (2 if entry.name == "coarse marginals" else 3)
        # Of declared counts; bins may fall together after they were planned.
        assert weight == pytest.approx(math.sqrt(0.01 * spread), rel=0.02)
        squared = spread + weight**2
        assert entry.sensitivity == pytest.approx(2**20 * math.sqrt(squared), rel=1e-5)
        assert (entry.used, entry.releases) == (1, 1)
    for scope in {entry.scope for entry in report.entries}:
        total = sum(e.mu_total**2 for e in report.entries if e.scope == scope)
        assert total == pytest.approx(accountant.mu_cap**2)
    assert 0 < coarse_share(1e6, 2, 1, 0.3) < coarse_share(1e6, 3, 0, 0.3)
    assert coarse_share(1e6, 0, 3, 0.3) == 0
    # Too few rows to look twice.
    assert coarse_share(100, 3, 0, 0.3) == 0
    assert coarse_share(10, 3, 0, math.inf) > 0


def test_every_row_is_counted_once_in_every_column(monkeypatch):
    """In a cell, or in none: what the domain does not model."""
    rows = table(np.random.default_rng(2), 500)
    edge = PrivateRows(rows.uniforms.copy(), rows.category_codes, rows.class_codes)
    edge.uniforms[:100, :2] = [0.0, 1.0]  # both ends of the domains
    calls, _ = counted(monkeypatch, edge, 9.0)
    found = sorted((line.name, line.scope, c.shape) for c, _, line, _ in calls)
    assert found == [
        ("coarse marginals", "n", (400, 2)),
        ("coarse marginals", "p", (100, 2)),
        ("marginals", "n", (400, 3)),
        ("marginals", "p", (100, 3)),
    ]
    for codes, n_cells, line, _ in calls:
        assert (codes >= 0).all()
        assert (codes <= np.array(n_cells)).all()
        kinds = rows.category_codes[rows.class_codes == (line.scope == "p")]
        zeros, missing = (codes[:, 0] == n_cells[0] - 2), codes[:, 0] == n_cells[0] - 1
        assert zeros.tolist() == (kinds[:, 0] == ZERO).tolist()
        assert missing.tolist() == (kinds[:, 0] == MISSING).tolist()
        if line.name == "marginals":  # three categories, missing, and none of them
            assert n_cells[2] == 4
            categories = np.array([0, 1, 2, 4, 3])[kinds[:, 2]]
            assert codes[:, 2].tolist() == categories.tolist()


def test_missing_values_that_a_domain_does_not_model_are_in_no_cell():
    """Of a category domain and of a numeric one; others have a cell for them."""
    domains = [CategoryDomain(("a", "b"), nullable=False), COUNT, NUMBER]
    codes = np.array([[3, MISSING, MISSING], [2, 0, ZERO], [1, 0, 0]], dtype=np.uint8)
    rows = PrivateRows(np.full((3, 3), 0.6, np.float32), codes, np.zeros(3, np.int64))
    edges = {1: np.linspace(0, 1, 11), 2: np.array([0.0, 0.5, 1.0])}
    sizes = [len(edges[j]) - 1 if j in edges else 0 for j in range(3)]
    n_cells = [_marginals._n_cells(*both) for both in zip(domains, sizes, strict=True)]
    assert n_cells == [2, 10, 4]
    found = _marginals._cell_codes(rows, domains, edges, [0, 1, 2], n_cells)
    assert found.tolist() == [[2, 10, 3], [2, 6, 2], [1, 6, 1]]


@pytest.mark.parametrize("epsilon", [0.01, 1.0, math.inf])
@pytest.mark.parametrize("domains", [DOMAINS, [CATEGORIES], [NUMBER], [COUNT, COUNT]])
def test_empty_classes_and_single_columns_work(domains, epsilon):
    rows = table(np.random.default_rng(3), 50)
    places = [DOMAINS.index(domain) for domain in domains]
    first = rows.of_class(0)
    rows = PrivateRows(
        first.uniforms[:, places], first.category_codes[:, places], first.class_codes
    )
    marginals, _ = measure(rows, epsilon, domains=domains)
    for of_class in marginals:
        for column in of_class:
            values = column.decode(RANKS[::100])[0]
            assert np.isfinite(values).all()
            assert 0 <= column.missing <= 1


@pytest.mark.parametrize("coarse", [True, False])
def test_the_number_of_bins_follows_the_signal(coarse):
    numbers = [bins_for(count, 30.0, coarse=coarse) for count in (1, 1e3, 1e4, 1e9)]
    assert numbers == sorted(numbers)
    assert numbers[0] == 4
    assert numbers[-1] == (16 if coarse else 256)
    assert bins_for(1e3, 0.0, coarse=coarse) == numbers[-1]
    assert bins_for(1e4, 1e4, coarse=coarse) == 4


def test_a_column_that_says_nothing_is_uniform():
    (first, second) = flat_marginals([*DOMAINS, CategoryDomain((), nullable=True)], 2)
    for number, count, category, nothing in (first, second):
        values, _ = number.decode(RANKS)
        assert np.abs(np.sort(values) - np.linspace(-4, 4, 20_000)).max() < 0.001
        counts = np.bincount(count.decode(RANKS)[0].astype(int))
        assert np.ptp(counts) <= 2
        assert np.bincount(category.decode(RANKS)[0].astype(int)).tolist() == [
            6667,
            6666,
            6667,
        ]
        assert nothing.decode(RANKS)[1].all()


def test_categories_are_ordered_by_the_class_they_speak_for():
    shares = np.array([[0.5, 0.1, 0.4], [0.1, 0.5, 0.4]])
    order = _marginals._category_order(shares, ordered=False).tolist()
    assert order in ([0, 2, 1], [1, 2, 0])
    assert _marginals._category_order(shares, ordered=True).tolist() == [0, 1, 2]
    assert _marginals._category_order(shares[:1], ordered=False).tolist() == [0, 1, 2]


def test_round_two_looks_where_round_one_saw_rows():
    domain = NumericDomain(0.0, 1.0, log=False, integer=False, nullable=False)
    cdf = np.clip((_marginals._GRID - 0.5) * 10, 0, 1)  # everything between 0.5 and 0.6
    cells = _marginals._warped_cells(domain, [cdf], (0.0, 1.0))
    assert ((cells > 0.5) & (cells < 0.6)).sum() > 100
    cdf = _marginals._cdf_at(cells, cdf, domain)
    edges = _marginals._quantile_edges(cdf, cells, 16)
    assert ((edges >= 0.49) & (edges <= 0.61)).sum() >= 9
    assert set(edges) <= set(cells)
    assert (edges[0], edges[-1]) == (0.0, 1.0)


def histogram_of(counts, noise_std=1.0) -> Histogram:
    counts = np.array(counts, dtype=np.float64)
    return Histogram(np.linspace(0, 1, len(counts) + 1), counts, noise_std)


@pytest.mark.parametrize(
    ("counts", "ends"),
    [
        ([2.9, 170.0, 0.0, 170.0, -3.0], (1, 4)),
        ([3.1, 170.0, 170.0, 2.4, 2.4], (0, 4)),  # 2.4, not 3
        ([-1.0, 2.0, 340.0, 2.0, 1.0], (2, 3)),
        ([2.4, 60.0, 0.0, 60.0, -3.0], (0, 5)),  # noise that hides 1 % of the rows
        ([1.0, 0.0, 1.0, 0.0], (0, 4)),  # nothing is known
        ([9.0, -9.0, -9.0, 0.0], (0, 4)),  # or it contradicts itself
    ],
)
def test_numbers_at_an_end_that_may_be_noise_are_outside(counts, ends):
    cells = np.linspace(0, 1, len(counts) + 1)
    assert _marginals._ends([histogram_of(counts)], cells) == ends
    halves = [histogram_of(np.array(counts) / 2, math.sqrt(0.5))] * 2
    coarse = histogram_of([100.0])  # its bins say nothing of numbers
    assert _marginals._ends([*halves, coarse], cells) == ends
    assert _marginals._ends([coarse], cells) == (0, len(counts))


@pytest.mark.parametrize(
    ("counts", "ends"),
    [
        ([0.0, 50.0, 50.0, 0.0], (4, 7)),  # these bins reach inside
        ([0.0, 0.0, 50.0, 50.0], (4, 12)),
        ([9.0, 0.0, 50.0, 2.4], (0, 7)),
    ],
)
def test_a_class_that_is_where_no_other_is_keeps_its_numbers(counts, ends):
    """Its bins hold three numbers each; the other classes are in 4 to 6."""
    cells = np.linspace(0, 1, 13)
    part = replace(histogram_of(counts), edges=cells[::3])
    assert _marginals._own_ends(part, cells, 4, 7) == ends


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


@pytest.mark.parametrize("seed", range(3))
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


def few_numbers(n_rows: int, n_columns: int = 40, n_classes: int = 8):
    """Measure a column of zeros and ones, alike in all classes, many times.

    Returns the ones' share in each class and column, and the noise of one count.
    """
    domain = NumericDomain(0.0, 1.0, log=False, integer=True, nullable=False)
    classes = Classes(tuple("abcdefgh"), np.full(n_classes, float(n_rows)))
    places = np.arange(n_classes * n_rows)
    ones = np.repeat((places // n_classes % 2)[:, None], n_columns, axis=1)
    rows = numbers(domain, ones, places % n_classes)
    marginals, accountant = measure(rows, 1.0, [domain] * n_columns, classes)
    shares = [[s.decode(RANKS)[0].mean() for s in own] for own in marginals]
    return np.array(shares), accountant.report().entries[0].noise_std / 2**20


def test_shares_of_a_few_numbers_are_drawn_towards_those_of_all_classes():
    """Noise makes the classes of an unrelated column differ; most of that is undone.

    Otherwise the 320 squared deviations had mean 7/8 in units of the noise, and a mean
    below 0.5 had probability below 1e-6 (chi-square, 280 degrees of freedom).
    """
    shares, noise_std = few_numbers(400)
    # Half the difference of two noisy counts: it has half the variance of one.
    deviations = (shares - shares.mean(axis=0)) * 400 * math.sqrt(2) / noise_std
    assert (deviations**2).mean() < 0.5


def test_a_class_of_a_few_rows_keeps_its_noisy_shares():
    """None of 8 is at the pooled share; above the threshold two thirds would be."""
    shares, noise_std = few_numbers(80)
    assert noise_std > 80 / 5
    spread = shares.max(axis=0) - shares.min(axis=0)
    assert (spread > 0.01).all()


def test_shares_are_drawn_together_by_the_noise_that_is_left():
    """Less the mean, two counts have half the noise: half of a difference of 10 stays.

    By the formula of `shrunk_distributions`: ``1 - (10^2 / 2) / 10^2`` of it.
    """
    counts = [np.array([60.0, 40.0]), np.array([40.0, 60.0])]
    domain, stds = CategoryDomain(("a", "b"), nullable=False), np.array([10.0, 10.0])
    marginals = _marginals._category_marginals(domain, counts, stds)
    assert [own.cumulative[1] for own in marginals] == pytest.approx([0.55, 0.45])


# --- Sizes, and rows in no cell ---------------------------------------------------


def binary(shares, n_rows=3000, domain=None):
    """Give rows of one class whose columns have these shares of every code."""
    domain = CategoryDomain(("a", "b"), nullable=False) if domain is None else domain
    codes = np.searchsorted(np.cumsum(shares)[:-1], (np.arange(n_rows) + 0.5) / n_rows)
    codes = np.repeat(codes[:, None], 12, axis=1).astype(np.uint8)
    class_codes = np.zeros(n_rows, dtype=np.int64)
    return PrivateRows(np.zeros(codes.shape, np.float32), codes, class_codes), [
        domain
    ] * 12


def shares_of(marginals):
    """Give the share of the first category in each column of the only class."""
    return np.array([column.cumulative[1] for column in marginals[0]])


@pytest.mark.parametrize("nullable", [True, False])
def test_values_that_no_category_names_are_not_spread_evenly(
    nullable, global_random_seed
):
    """6 of 10 rows are neither 'a' (3) nor 'b' (1); of the rest 3 in 4 are 'a'.

    Counted as rows without a category they would add a half each: 3 in 10 more for 'b'.
    The noise of a share is below 0.01, and one of 12 columns passes 0.1 by chance at a
    rate below 1e-12.
    """
    domain = CategoryDomain(("a", "b"), nullable=nullable)
    rows, domains = binary([0.3, 0.1, 0.6], domain=domain)
    with insecure_randomness(global_random_seed):
        marginals, _ = measure(rows, 1.0, domains, Classes((), np.array([3000.0])))
    assert np.abs(shares_of(marginals) - 0.75).max() < 0.1


@pytest.mark.parametrize("declared", [2400.0, 3600.0])
def test_a_wrong_number_of_rows_does_not_spoil_the_shares(declared, global_random_seed):
    """A schema of another table: the category of 80 % stays one.

    The number that is released beside the counts has a noise of 27 rows, and 600 are
    22 times that. If only the declared one were used, the shares were off by 0.075 and
    by 0.05. The noise of a share is below 0.004, and the declared number still pulls by
    0.002: one of 12 columns passes 0.03 by chance at a rate below 1e-10.
    """
    rows, domains = binary([0.8, 0.2])
    with insecure_randomness(global_random_seed):
        marginals, _ = measure(rows, 1.0, domains, Classes((), np.array([declared])))
    assert np.abs(shares_of(marginals) - 0.8).max() < 0.03


def released_size(size, std):
    nothing = np.zeros(0)
    counts = CentredCounts([], nothing, nothing, 1.0, size, std)
    return _marginals.Round([], {}, counts)


def test_sizes_are_averaged_by_precision():
    """Against least squares; a declared one stays until the others surely differ."""
    measured = Classes(("u", "v", "w"), np.array([100.0, 50.0, 70.0]), noise_std=10.0)
    rounds = [
        [released_size(130.0, 20.0), released_size(90.0, 5.0)],
        [released_size(0.0, math.inf)],
        [released_size(-400.0, 1.0)],
    ]
    weights = np.array([1 / 100, 1 / 400, 1 / 25])
    mean = np.average([100.0, 130.0, 90.0], weights=weights)
    assert _marginals.known_sizes(measured, rounds) == pytest.approx([mean, 50.0, 1.0])
    declared = Classes(("u", "v"), np.array([100.0, 100.0]))
    near, far = [released_size(129.9, 10.0)], [released_size(400.0, 10.0)]
    assert _marginals.known_sizes(declared, [near, far]) == pytest.approx([100, 397])
    exact = [[released_size(130.0, 0.0)], [released_size(100.0, 0.0)]]
    assert _marginals.known_sizes(declared, exact) == pytest.approx([130, 100])


@pytest.mark.parametrize("n_cells", [[2] * 30, [2], [4], [66] * 6 + [2] * 9, [1, 3]])
@pytest.mark.parametrize("count_std", [19.0, 94.0, 1e9])
def test_the_weight_of_the_size_is_the_best(n_cells, count_std):
    """Against a search, for columns half way between even and constant."""
    mu, cells = 0.2, np.array(n_cells, dtype=float)

    def squared_errors(weight):
        squared = (1 - 1 / cells).sum() + weight**2
        known = 1 / (1 / count_std**2 + weight**2 / squared * mu**2)
        from_cells = ((cells - 1) * squared / mu**2).sum()
        return from_cells + known * (1 - 1 / cells).sum() / 2

    found = size_weight(n_cells, count_std, mu)
    best = minimize_scalar(squared_errors, bounds=(0, 10), method="bounded")
    assert squared_errors(found) <= best.fun * (1 + 1e-6)


def test_sizes_that_are_declared_or_that_nothing_needs_cost_little():
    assert size_weight([2, 2, 7], 0.0, 0.2) ** 2 == pytest.approx(0.01 * (1 + 6 / 7))
    assert size_weight([1, 1, 0], 5.0, 0.2) == size_weight([1], 0.0, 0.2) == 0.0
    assert size_weight([2] * 30, 1.0, 0.2) == 0.0  # the released one is better
    assert 0 < size_weight([2] * 30, 0.0, math.inf) < 1


def test_a_class_that_differs_keeps_its_numbers():
    """400 of 400 rows against noise of about 4: far from all other classes."""
    domain = NumericDomain(0.0, 1.0, log=False, integer=True, nullable=False)
    members = np.repeat([0, 1], [4000, 400])
    units = domain.to_unit(members.astype(float))[:, None].astype(np.float32)
    rows = PrivateRows(units, np.zeros(units.shape, dtype=np.uint8), members)
    classes = Classes(("n", "p"), np.array([4000.0, 400.0]))
    marginals, _ = measure(rows, 1.0, [domain], classes)
    assert marginals[0][0].decode(RANKS)[0].mean() < 0.05
    assert marginals[1][0].decode(RANKS)[0].mean() > 0.9


@pytest.mark.parametrize("seed", [0, 1])
def test_columns_with_two_modes_keep_both(seed):
    """Of each sign half, in two coarse bins or more that alone may be noise.

    Shares of rows that are positive have noise of about 0.03. Where each bin had to be
    sure, up to 22 of these columns lost a sign.
    """
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(0, 160, (6000, 100)))
    table = pd.DataFrame(values, columns=[f"x{j}" for j in range(100)])
    with insecure_randomness(seed):
        fitted = IndependentSynthesizer(epsilon=0.3, random_state=0).fit(table)
    names = {entry.name for entry in fitted.privacy_report().entries}
    assert "coarse marginals" in names
    positive = (fitted.sample(3000) > 0).mean()
    assert positive.between(0.1, 0.9).all()


def shifted_classes(n_columns, n_rows):
    """Numbers near 0.2 in class "a" and near 0.8 in "b"; bounds are declared."""
    rng = np.random.default_rng(0)
    centres = np.repeat([0.2, 0.8], n_rows)[:, None]
    table = pd.DataFrame(centres + 0.05 * rng.standard_normal((sum(n_rows), n_columns)))
    table = table.rename(columns=str).assign(y=np.repeat(["a", "b"], n_rows))
    columns = dict.fromkeys(table.columns.drop("y"), Continuous(0, 1))
    labels = {"y": Categorical(["a", "b"])}
    return table, TableSchema({**columns, **labels}, target="y")


@pytest.mark.parametrize(
    ("n_columns", "n_rows", "measured"),
    [(19, (1000, 600), "tables of 2 columns"), (150, (2000, 600), "second moments")],
)
def test_a_class_with_one_round_keeps_its_range(n_columns, n_rows, measured):
    """The large class spends on dependence, and only the small one has two rounds.

    Class "a" lay in the range of class "b": its means were off by 0.4.
    """
    table, schema = shifted_classes(n_columns, n_rows)
    with insecure_randomness(0):
        synth = MarginalSynthesizer(epsilon=1.0, schema=schema, random_state=0)
        fitted = synth.fit(table)
    entries = fitted.privacy_report().entries
    scopes = {entry.scope for entry in entries if entry.name == "coarse marginals"}
    assert scopes == {"class b"}
    assert {entry.scope for entry in entries if measured in entry.name} == {"class a"}
    drawn = fitted.sample(2000)
    means = drawn[drawn["y"] == "a"].drop(columns="y").mean()
    assert (means - 0.2).abs().max() < 0.1
    plan = fitted.plan(sum(n_rows), class_counts=dict(zip("ab", n_rows, strict=True)))
    assert plan["dependence"].tolist() == ["weak", "borrowed"]


def test_many_rows_without_a_label_show_where_small_classes_are():
    """Bins of the whole range, 50 times as wide as the rows, say nothing of them."""
    n_columns, codes = 9, np.repeat([0, 1, -1], [300, 150, 6000])
    rng, wide = np.random.default_rng(0), NumericDomain(0.0, 100.0, *[False] * 3)
    high = np.where(codes < 0, rng.random(len(codes)) < 1 / 3, codes)
    values = rng.random((len(codes), n_columns)) + high[:, None]
    classes = Classes(("n", "p"), np.array([300.0, 150.0])).and_unlabelled(6000.0, 0.0)
    with insecure_randomness(0):
        found, _ = measure(
            numbers(wide, values, codes), 1.0, [wide] * n_columns, classes
        )
    below = [
        np.mean([own.decode(RANKS)[0] < 1.0 for own in of_class]) for of_class in found
    ]
    assert below == pytest.approx([1.0, 0.0, 2 / 3], abs=0.25)
