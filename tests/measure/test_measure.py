"""Which tables or moments are measured, with what of the budget, and scores of rows."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from skdpsynth import IndependentSynthesizer
from skdpsynth.measure import (
    Allocation,
    Discovery,
    Loop,
    Outline,
    PairTables,
    Spend,
    Training,
    allocate,
    measure,
)

# Of one class by itself nothing is listed, nor bins of one column.
from skdpsynth.measure._bins import ColumnBins, TableBins, choose_bins, finer_bins
from skdpsynth.measure._relations import with_together
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.table import (
    MISSING,
    CategoryDomain,
    MarginalTransform,
    NumericDomain,
    PrivateRows,
    open_table,
)

NUMBERS = Continuous(-4, 4, nullable=True, scale="linear", decimals="any")
N_ROWS = 200
SCHEMA = TableSchema(
    {"a": NUMBERS, "b": NUMBERS, "c": Categorical([*"pqrs"])}, n_rows=N_ROWS
)


def make_table():
    rng = np.random.default_rng(0)
    first = np.clip(rng.normal(size=N_ROWS), -3.9, 3.9)
    second = np.clip(first + rng.normal(size=N_ROWS), -3.9, 3.9)
    second[rng.random(N_ROWS) < 0.1] = np.nan
    return pd.DataFrame({"a": first, "b": second, "c": rng.choice([*"pqrs"], N_ROWS)})


def measured(epsilon, mu):
    """Measure marginals and second moments, both with so much mu; and the rows."""
    with insecure_randomness(1):
        table, layout = open_table(make_table(), schema=SCHEMA)
        accountant = PrivacyAccountant(epsilon, 1e-5, discovery_delta=1e-6)
        metadata, rows = Discovery(layout, SCHEMA).run(table, accountant)
        plans = [Allocation(None, N_ROWS, Spend(mu), 10, moments=Spend(mu))]
        [part] = rows.parts_of_class(-1, 0).each()
        return measure(rows, metadata, plans, accountant), part


def test_moments_are_those_of_scores_with_the_noise_that_is_said():
    """Rows are shortened to twice the mean squared length."""
    exact, rows = measured(math.inf, math.inf)
    scores = exact.model.score_rows(rows, 0)
    means, stds, _ = exact.model.score_moments(0)
    off = scores - means
    limit = math.sqrt(2 * np.square(stds).sum())
    off *= limit / np.maximum(np.linalg.norm(off, axis=1, keepdims=True), limit)
    expected = (off.T @ off / N_ROWS)[np.triu_indices(3, 1)]
    np.testing.assert_allclose(exact[-1].values, expected[None], atol=0.005)
    noisy, _ = measured(20.0, 0.15)
    _, stds, _ = noisy.model.score_moments(0)
    std = 2 * np.square(stds).sum() / math.sqrt(2) / 0.15 / N_ROWS
    assert noisy[-1].noise_std == pytest.approx(std, rel=1e-3)


def test_scores_of_rows_follow_their_class():
    """1.5 is usual in one class and 6 in the other; there the other is far off."""
    frame = pd.DataFrame(
        {"a": np.repeat([1.5, 6.0], 50), "t": np.repeat(["p", "q"], 50)}
    )
    model = IndependentSynthesizer(math.inf, target="t").fit(frame)._model
    units = model.metadata.domains[0].to_unit(np.array([[1.5], [6.0]]))
    rows = PrivateRows(units.astype("f4"), np.zeros((2, 1), int), np.arange(2))
    own, other = (model.score_rows(rows, c)[:, 0] for c in (0, 1))
    assert max(abs(own[0]), abs(other[1])) < 1
    assert own[1] > 2
    assert other[0] < -2


def test_classes_are_corrected_by_tables_of_all_of_them():
    """The estimate of weighted least squares, cell by cell, and its variance."""
    rng, stds = np.random.default_rng(0), [3.0, 5.0, 8.0, 4.0]

    def tables(noise_std):
        counts = rng.normal(50, 20, (*np.shape(noise_std), 2, 2)).astype(np.float32)
        asked = np.full((*np.shape(noise_std), 2, 2), [[False, True], [False, False]])
        return PairTables(counts, asked, noise_std, np.full_like(noise_std, 100.0))

    each, together = tables(np.array(stds[:3])), tables(stds[3])
    found = with_together(each, together)
    design = np.vstack([np.eye(3), np.ones(3)])
    weights = np.diag([std**-2 for std in stds])
    covariance = np.linalg.inv(design.T @ weights @ design)
    seen = np.concatenate([each.counts, together.counts[None]])
    expected = np.tensordot(covariance @ design.T @ weights, seen, 1)
    np.testing.assert_allclose(found.counts, expected, rtol=1e-5)
    np.testing.assert_allclose(found.noise_std**2, np.diag(covariance), rtol=1e-6)


NUMBER = NumericDomain(-1.0, 1.0, log=False, integer=False, nullable=True)


def allocated(labels, n_rows, n_numbers, n_categories, mu, **options):
    categories = [CategoryDomain((*"pqr",), False)] * n_categories
    table = Outline(labels, n_rows, [NUMBER] * n_numbers + categories)
    return allocate(table, mu, **options)


def form_of(*given, **options):
    """Return what is measured of a table beside its marginals."""
    plans = allocated(*given, **options)
    forms = {"pairs" if p.pairs.mu else "moments" * (p.moments.mu > 0) for p in plans}
    return max(forms) or "marginals"


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
    assert form_of(labels, n_rows, n_columns, 0, 0.3) == form
    assert form_of(labels, n_rows, n_columns, 0, 1e-5) == "marginals"


def test_tables_go_before_second_moments_where_moments_lack_something():
    """Categories among numbers; rows without a label, of which only tables are."""
    few, many = ((None,), [3e3]), (("u", "v"), [2e4, 1e4])
    assert form_of(*few, 5, 5, 0.3) == "moments"
    assert form_of(*many, 38, 2, 0.3) == "moments"
    assert form_of(*many, 37, 3, 0.3) == "pairs"
    assert form_of(*many, 40, 0, 0.3, tables_first=True) == "pairs"
    assert form_of(*few, 10, 0, 0.3, tables_first=True) == "moments"


TRAINING = Loop(0.05, True, lambda label, n, mu: Training(4, mu * 0.05**0.5 / 2, 1.0))
SHARES = {"shares": {"choice": 0.1, "pairs": 0.7}, "n_tables": 4}
COLUMNS, MUS = (0, 1, 4, 14, 29, 129), (0.03, 0.1, 1.0, 9.0, 30.0)


@pytest.mark.parametrize(
    "asked", [*({"order": n} for n in (1, 2, 3)), SHARES, {"loop": TRAINING}]
)
def test_all_of_the_budget_of_a_class_is_allocated(asked):
    """Of 120 tables. A row of any class is charged for what several have together."""
    rows = {"": [60.0], "m": [7e3], "uv": [3e4, 700.0], "xyz": [2e5, 9e3, 8e3]}
    for (labels, n_rows), n_columns, mu in product(rows.items(), COLUMNS, MUS):
        plans = allocated([*labels] or [None], n_rows, n_columns, 1, mu, **asked)
        common = next((plan for plan in plans if plan.together.mu), None)
        for plan in plans:
            every = common or plan
            own = plan.marginals, plan.pairs, plan.triples, plan.moments
            spends = *own, every.choice, every.together, every.relations
            trained = plan.training.mu if plan.training else 0.0
            assert math.hypot(*(o.mu for o in spends), trained) == pytest.approx(mu)


@pytest.mark.parametrize(("mu", "share"), [(0.3, 0.2), (0.02, 0.5)])
def test_what_several_classes_release_together_is_equal_in_all(mu, share):
    """A fifth of tables, or half where 200 noise deviations are more than the rows."""
    *having, rare = allocated([*"abc"], [4e4, 2e4, 200.0], 0, 6, mu)
    assert len({(own.choice, own.together, own.relations) for own in having}) == 1
    for plan in having:
        whole = math.hypot(plan.together.mu, plan.pairs.mu)
        assert plan.together.mu**2 == pytest.approx(share * whole**2)
        assert (4e4 * whole < 200 * 15**0.5) == (share == 0.5)
    assert rare.pairs.mu == 0


def test_without_noise_nothing_is_measured_twice():
    """Exact tables of each class say all that those of all classes together do."""
    for plan in allocated([*"ab"], [4000.0, 1000.0], 0, 3, math.inf):
        assert plan.pairs.mu == math.inf
        assert plan.together.mu == 0


# --- Bins partition codes and ranks, and know nothing but releases --------------------

MANY = settings(max_examples=60, deadline=None)
MISSING_SHARE = st.sampled_from([0.0, 0.2])


def shares(size):
    return arrays(float, size, elements=st.sampled_from([0.0, 0.1, 1.0, 9.0]))


@st.composite
def numeric_column(draw):
    """Draw a domain, and a marginal of every class with atoms and spikes."""
    low = draw(st.sampled_from([-40.0, 0.0, 3.0]))
    high = low + draw(st.sampled_from([2.0, 60.0]))
    special = draw(st.sampled_from([(), (-99.0, -98.0, 4.0), (999.0,)]))
    flags = (draw(st.booleans()) for _ in range(3))
    domain = NumericDomain(low, high, *flags, special=special)
    cells = domain.snap(np.linspace(0, 1, draw(st.integers(1, 60)) + 1))
    own = []
    for _ in range(2):
        masses = draw(shares(len(cells) - 1)) + 1e-12
        values = [draw(st.sampled_from([0.0, 0.1])) for _ in domain.own]
        atoms = {"own": values, "missing": draw(MISSING_SHARE) * domain.nullable}
        masses /= masses.sum()
        own.append(MarginalTransform.numeric(domain, cells, masses, **atoms))
    return domain, own


@st.composite
def category_column(draw):
    n_categories = draw(st.integers(0, 7))
    domain = CategoryDomain(tuple(range(n_categories)), nullable=draw(st.booleans()))
    own = []
    for _ in range(2):
        order = np.array(draw(st.permutations(range(n_categories))), dtype=np.int64)
        more = {"missing": draw(MISSING_SHARE) * domain.nullable, "order": order}
        weights = draw(shares(n_categories))
        own.append(MarginalTransform.of_categories(domain, weights, **more))
    return domain, own


COLUMN = st.one_of(numeric_column(), category_column())
PRIOR = np.array([0.7, 0.3])


def chosen(column, n_bins):
    """Choose the bins of a table of one column."""
    domain, own = column
    bins, marginals = choose_bins([domain], [[one] for one in own], PRIOR, n_bins)
    return domain, bins.columns[0], [row[0] for row in marginals]


@MANY
@given(st.lists(st.integers(1, 99), min_size=1, max_size=40), st.integers(1, 30))
def test_categories_that_were_not_found_are_drawn_as_all_that_were(weights, n_bins):
    """By their shares, where they are many: not as the few that share a bin."""
    domain = CategoryDomain((*range(len(weights)),), nullable=False, other=0.4)
    marginal = MarginalTransform.of_categories(domain, np.array(weights))
    _, bins, (ordered, _) = chosen((domain, [marginal, marginal]), n_bins)
    bins.check(domain)
    assert bins.n_bins <= n_bins + 1
    assert bins.ranks(ordered)[:, bins.rest].tolist() == [0.0, 1.0]


def drawn_codes(domain, marginal, ranks):
    """Turn ranks into units and codes, as `encode_rows` would the values."""
    if isinstance(domain, CategoryDomain):
        values, missing = marginal.decode(ranks)
        codes = np.where(missing, len(domain.categories) + 1, values).astype(np.int64)
        return np.zeros(len(ranks)), codes
    values, missing = marginal.decode(ranks)
    return domain.to_unit(values), np.where(missing, MISSING, domain.codes(values))


@MANY
@given(COLUMN, st.integers(1, 30))
def test_every_code_is_in_exactly_one_bin(column, n_bins):
    """Whatever a row holds, also what its domain does not model."""
    domain, bins, _ = chosen(column, n_bins)
    n_codes = len(bins.of_code)
    units = np.tile(np.linspace(0, 1, 101, dtype=np.float32), n_codes)
    codes = np.repeat(np.arange(n_codes), 101)
    found = bins.encode(units, codes)
    assert found.shape == codes.shape
    assert found.min() >= 0
    assert found.max() < bins.n_bins
    if isinstance(domain, CategoryDomain):
        assert (np.ptp(found.reshape(n_codes, 101), axis=1) == 0).all()
    else:
        assert (np.diff(found[:101]) >= 0).all()


@MANY
@given(COLUMN, st.integers(1, 30))
def test_the_bins_of_a_class_partition_its_ranks(column, n_bins):
    """One after the other they fill [0, 1], with no more than rounding between them.

    In a column of categories 'other' has no ranks: where it is alone in its bin, that
    bin stands for any category.
    """
    domain, bins, marginals = chosen(column, n_bins)
    alone = bins.rest >= 0 and not (bins.of_code[:-2] == bins.rest).any()
    own = np.arange(bins.n_bins) != (bins.rest if alone else -1)
    nothing = isinstance(domain, CategoryDomain) and not domain.categories
    for marginal in marginals:
        low, high = bins.ranks(marginal)
        assert ((low >= 0) & (low <= high + 1e-12) & (high <= 1 + 1e-12)).all()
        if alone:
            assert (low[bins.rest], high[bins.rest]) == (marginal.missing, 1.0)
        if len(own) > 1 and not nothing:
            order = np.lexsort((high[own], low[own]))
            starts = np.append(low[own][order], 1.0)
            ends = np.insert(high[own][order], 0, 0.0)
            np.testing.assert_allclose(starts, ends, atol=1e-12)


@MANY
@given(COLUMN, st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_a_rank_of_a_bin_is_decoded_into_that_bin(column, n_bins, seed):
    """`encode` of what `decode` makes of a rank inside a bin is the bin."""
    domain, bins, marginals = chosen(column, n_bins)
    if isinstance(domain, CategoryDomain) and not domain.categories:
        return
    rng = np.random.default_rng(seed)
    for marginal in marginals:
        low, high = bins.ranks(marginal)
        least = 1e-3 if getattr(domain, "special", ()) else 1e-8  # what parts these
        wide = np.flatnonzero(high - low > least)
        wide = wide[wide != bins.rest] if bins.rest >= 0 else wide
        ranks = low[wide] + (high - low)[wide] * rng.uniform(0.01, 0.99, len(wide))
        units, codes = drawn_codes(domain, marginal, ranks)
        if isinstance(domain, NumericDomain) and domain.integer:
            # A number that is rounded to 0 without being the exact one.
            exact = (bins.of_code[codes] >= 0) & (codes != MISSING)
            wide, units, codes = (v[~exact] for v in (wide, units, codes))
        assert bins.encode(units, codes).tolist() == wide.tolist()


def test_what_no_class_has_beyond_an_end_is_no_bin():
    """The noise of a pair must not give rows to numbers that the marginals rule out."""
    domain = NumericDomain(0.0, 7.0, log=False, integer=True, nullable=False)
    cells = domain.snap(np.linspace(0, 1, 9))
    one = MarginalTransform.numeric(domain, cells, np.array([0, 0, 1, 0, 2, 0, 0, 0]))
    two = MarginalTransform.numeric(domain, cells, np.array([0, 0, 1, 1, 1, 1, 0, 0]))
    _, bins, _ = chosen((domain, [one, two]), 20)
    units = domain.to_unit(np.arange(8.0)).astype(np.float32)
    found = bins.encode(units, np.zeros(8, dtype=np.int64))
    assert found.tolist() == [0, 0, 0, 1, 2, 3, 3, 3]
    first, last = bins.ranks(one)[:, [0, 2]].T
    assert one.decode(np.linspace(*first, 11)[1:-1])[0].tolist() == [2.0] * 9
    assert one.decode(np.linspace(*last, 11)[1:-1])[0].tolist() == [4.0] * 9


def test_intervals_have_the_normal_scores_of_their_middles():
    """Of those with a value: a zero beside them has none, nor a column of few cells."""
    cuts = np.linspace(0, 1, 6)
    many = ColumnBins(cuts, np.array([-1, 5, -1]))
    few = ColumnBins(np.array([0, 0.4, 1]), np.array([-1, -1, -1]))
    categories = ColumnBins(np.empty(0), np.array([0, 1, 2, 2]))
    shares = np.array([0.1, 0.2, 0.1, 0.0, 0.1, 0.5, 0.5, 0.5, 0.2, 0.3, 0.5])
    scores = TableBins([many, few, categories]).normal_scores(shares)
    middles = norm.ppf([0.1, 0.4, 0.7, 0.8, 0.9])
    np.testing.assert_allclose(scores[:5], middles, atol=1e-12)
    assert np.isnan(scores[5:]).all()
    empty = TableBins([many]).normal_scores(np.array([0, 0, 0, 0, 0, 1.0]))
    assert np.isfinite(empty[:5]).all()


@MANY
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=40),
    st.integers(1, 30),
    st.integers(0, 2**32 - 1),
)
def test_rare_categories_share_a_bin_with_those_alike(values, n_bins, seed):
    """Where all values that a code decides fit into half of the bins; finer ones too.

    Every bin is of one code, the rest, or codes of one value, rarer than the others.
    """
    alike = np.unique(values, return_inverse=True)[1]
    domain = CategoryDomain(tuple(range(len(alike))), nullable=False)
    weights = np.random.default_rng(seed).permutation(len(alike)) + 1.0
    marginals = [[MarginalTransform.of_categories(domain, weights)]]
    bins, ordered = choose_bins([domain], marginals, np.ones(1), n_bins, {0: [alike]})
    (column,) = bins.columns
    of_code = column.of_code[:-2]
    bins.check([domain])
    sizes = np.bincount(of_code, minlength=column.n_bins)
    several = np.flatnonzero(sizes > 1)
    if len({*values}) <= n_bins // 2:
        assert sizes[column.rest] == 0
        assert all(np.ptp(alike[of_code == one]) == 0 for one in several)
    else:
        assert {*several} <= {column.rest}
    frequent = np.argsort(-weights)[: n_bins // 2]
    assert (sizes[of_code[frequent]] == 1).all()
    finer_bins([domain], ordered, np.ones(1), bins, 1).check([domain], bins)
