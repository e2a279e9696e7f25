"""Bins partition codes and ranks, and know nothing but releases."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from skdpsynth.measure import TableBins, choose_bins

# One column of bins, which a `TableBins` has.
from skdpsynth.measure._bins import ColumnBins, finer_bins
from skdpsynth.table import (
    MISSING,
    CategoryDomain,
    MarginalTransform,
    NumericDomain,
)

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
