"""Values, positions in their domains, ranks and scores are names of one thing."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy.special import ndtr
from scipy.stats import kstest

from skdpsynth.table import (
    MISSING,
    ZERO,
    CategoryDomain,
    MarginalTransform,
    NumericDomain,
    domain_from_dict,
    is_continuous,
)

BOUNDS = st.floats(-1e9, 1e9, allow_subnormal=False)


@st.composite
def domains(draw, *, integer: bool | None = None) -> NumericDomain:
    """Draw a domain; its range may have width 0."""
    low, high = sorted((draw(BOUNDS), draw(BOUNDS)))
    whole = draw(st.booleans()) if integer is None else integer
    if whole:
        low, high = float(round(low)), float(round(high))
    return NumericDomain(low, high, draw(st.booleans()), whole, nullable=False)


@given(
    domains(), st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2)
)
@example(NumericDomain(0.0, 1e-9, True, False, nullable=False), [-1.7e308, 1.7e308])
@example(NumericDomain(0.0, 1e-9, False, False, nullable=False), [-1.7e308, 1.7e308])
@settings(max_examples=150, deadline=None)
def test_units_are_monotone_and_values_clamped(domain, values):
    ordered = np.sort(np.array(values))
    units = domain.to_unit(ordered)
    assert (units >= 0).all()
    assert (units <= 1).all()
    assert (np.diff(units) >= 0).all()
    back = domain.from_unit(units)
    assert (back >= domain.low).all()
    assert (back <= domain.high).all()


@given(domains(), st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_a_value_survives_the_way_to_the_domain_and_back(domain, share):
    """A whole number exactly."""
    value = domain.low + share * (domain.high - domain.low)
    value = np.clip(value, domain.low, domain.high)
    size = abs(value) if domain.log else max(abs(domain.low), abs(domain.high))
    room = 1e-9 * max(size, 1.0)
    if domain.integer:
        value, room = float(round(value)), 0.0
    back = domain.from_unit(domain.to_unit(np.array([value])))[0]
    assert abs(back - value) <= room


@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize("value", [7.0, 2.0**60])  # the second has no halves
def test_a_range_of_width_0_has_one_cell_and_value(value, integer):
    domain = NumericDomain(value, value, log=True, integer=integer, nullable=False)
    assert domain.snap(np.linspace(0, 1, 9)).tolist() == [0.0, 1.0]
    back = domain.from_unit(domain.to_unit(np.array([-1.0, value, 1e300])))
    assert back.tolist() == [value] * 3


@pytest.mark.parametrize(
    ("low", "high", "integer", "has_zero"),
    [
        (-1.0, 1.0, False, True),
        (0.0, 5.0, False, True),
        (-5.0, 0.0, False, True),
        (1.0, 5.0, False, False),
        (0.0, 20.0, True, False),  # every number has a cell
        (0.0, 20_000.0, True, True),
        (1.0, 20_000.0, True, False),
    ],
)
@pytest.mark.parametrize("log", [True, False])
def test_zero_has_a_place_where_it_needs_a_cell(low, high, integer, has_zero, log):
    domain = NumericDomain(low, high, log, integer, nullable=False)
    assert bool(domain.own) == has_zero
    for own in domain.own:
        assert own.code == ZERO
        assert domain.from_unit(np.array([own.position]))[0] == 0.0


@given(domains(), st.lists(st.integers(-(10**9), 10**9), min_size=1, unique=True))
@settings(max_examples=150, deadline=None)
def test_special_values_have_places_of_their_own(plain, values):
    """In their order, whether the range has them or not; all others are in it."""
    domain = replace(plain, special=tuple(map(float, sorted({*values} - {0}))))
    own = [one for one in domain.own if one.code > MISSING]
    places = np.array([one.position for one in own])
    assert domain.from_unit(places).tolist() == list(domain.special)
    assert domain.codes(np.array(domain.special)).tolist() == [a.code for a in own]
    beyond = [not plain.low <= one.value <= plain.high for one in own]
    assert (np.diff(places[beyond]) > 0).all()
    for one in own:
        low, high = domain.span(one.value, one.value)
        assert low <= one.position <= high
    some = domain.from_unit(np.linspace(0.0131, 0.9873, 77))
    assert ((some >= plain.low) & (some <= plain.high)).all()
    assert domain_from_dict(json.loads(json.dumps(domain.to_dict()))) == domain


@given(domains(integer=True), st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_no_whole_number_lies_on_a_cell_edge(domain, n_cells):
    edges = domain.snap(np.linspace(0, 1, n_cells + 1))
    assert edges[0] == 0.0
    assert edges[-1] == 1.0
    assert (np.diff(edges) > 0).all()
    assert len(edges) <= n_cells + 1
    numbers = np.unique(np.rint(domain.from_unit(edges[1:-1])))
    around = np.concatenate((numbers - 1, numbers, numbers + 1))
    around = around[(around >= domain.low) & (around <= domain.high)]
    if len(around) and len(edges) > 2:
        gaps = np.abs(domain.to_unit(around)[:, None] - edges[None, 1:-1])
        assert gaps.min() > 0


def test_every_number_of_a_narrow_range_gets_its_own_cell():
    domain = NumericDomain(-3.0, 6.0, log=False, integer=True, nullable=False)
    edges = domain.snap(np.linspace(0, 1, 65))
    cells = np.searchsorted(edges, domain.to_unit(np.arange(-3.0, 7.0))) - 1
    assert cells.tolist() == list(range(10))


def test_domains_survive_json():
    for domain in (
        NumericDomain(-1.5, 2.0, True, False, True, quantile=True),
        CategoryDomain(("a", "b"), True, ordered=True),
        CategoryDomain((1, 2.5, True), False, other=0.25),
        NumericDomain(0.0, 9.0, False, True, False, released=True, guessed=True),
        NumericDomain(0.0, 9.0, True, False, False, outer=((1, 0.5), (9, 0.1))),
        CategoryDomain((pd.Timestamp("2020-02-29", tz="Europe/Berlin"),), False),
    ):
        again = domain_from_dict(json.loads(json.dumps(domain.to_dict())))
        assert again == domain
        assert vars(again) == vars(domain)  # what a warning says, too


@pytest.mark.parametrize(
    ("domain", "continuous"),
    [
        (NumericDomain(0.0, 1.0, log=False, integer=False, nullable=False), True),
        (NumericDomain(0.0, 3.0, log=False, integer=True, nullable=False), False),
        (NumericDomain(0.0, 4.0, log=False, integer=True, nullable=False), True),
        (CategoryDomain(("a", "b"), nullable=False), False),
    ],
)
def test_all_but_categories_and_few_numbers_are_continuous(domain, continuous):
    """Floats from 0 to 1 are continuous: nearly all may lie below 0.01."""
    assert is_continuous(domain) == continuous


# --- Ranks, scores and values are names of the same thing, whatever the column --------


RANKS = (np.arange(200_000) + 0.5) / 200_000  # every rank once, as in a perfect sample


@st.composite
def numeric_marginals(draw) -> MarginalTransform:
    """Draw a marginal with zeros and missing values, of cells that are not empty."""
    low = draw(st.sampled_from([-700.0, 0.0, 3.0]))
    special = draw(st.sampled_from([(), (-99999.0, 50.0, 5000.0)]))
    log = draw(st.booleans())
    domain = NumericDomain(low, 900.0, log, False, True, special=special)
    size = draw(st.integers(1, 12))
    widths = draw(st.lists(st.floats(0.05, 1), min_size=size, max_size=size))
    masses = draw(st.lists(st.floats(0.05, 1), min_size=size, max_size=size))
    cells = np.concatenate(([0.0], np.cumsum(widths) / sum(widths)))
    cells[-1] = 1.0
    own = [draw(st.sampled_from([0.0, 0.2])) for _ in domain.own]
    missing = draw(st.sampled_from([0.0, 0.25, 0.7]))
    return MarginalTransform.numeric(
        domain, cells, np.array(masses) / sum(masses), own=own, missing=missing
    )


def encoded(marginal: MarginalTransform, values: np.ndarray, missing: np.ndarray):
    """Place values as `encode_rows` does, and encode them."""
    codes = np.where(missing, MISSING, marginal.domain.codes(values)).astype(np.uint8)
    return marginal.encode(marginal.domain.to_unit(values), codes)


@given(numeric_marginals(), st.lists(st.floats(-2.9, 2.9), min_size=1, max_size=20))
@settings(max_examples=150, deadline=None)
def test_a_score_survives_the_way_to_the_value_and_back(marginal, scores):
    scores = np.sort(scores)
    values, missing = marginal.decode(ndtr(scores))
    assert (np.diff(values[~missing]) >= 0).all()
    assert (missing == (ndtr(scores) < marginal.missing)).all()
    own = [value for _, value, _ in marginal.domain.own]
    single = ~missing & ~np.isin(values, own)  # these fill intervals
    again = encoded(marginal, values, missing)
    np.testing.assert_allclose(again[single], scores[single], atol=1e-5)
    values_again, missing_again = marginal.decode(ndtr(again))
    assert (missing_again == missing).all()
    np.testing.assert_allclose(values_again, values, rtol=1e-5, atol=1e-5)


@given(numeric_marginals())
@settings(max_examples=40, deadline=None)
def test_the_shares_come_out_as_they_were_released(marginal):
    values, missing = marginal.decode(RANKS)
    assert missing.mean() == pytest.approx(marginal.missing, abs=1e-4)
    doubled = np.flatnonzero(np.diff(marginal.points) == 0)
    exact = float(np.diff(marginal.cumulative)[doubled].sum())
    present = values[~missing]
    own = [value for _, value, _ in marginal.domain.own]
    assert np.isin(present, own).mean() == pytest.approx(exact, abs=1e-4)
    place = np.searchsorted(marginal.points, marginal.domain.to_unit(present), "right")
    place = np.clip(place, 1, len(marginal.points) - 1)
    shares = np.bincount(place, minlength=len(marginal.points))[1:] / len(present)
    away = np.abs(shares - np.diff(marginal.cumulative))
    if len(doubled) == 0:
        assert away.max() < 1e-3


def test_the_scores_of_a_columns_own_values_are_normal():
    """No draw: the values are all quantiles, so the test cannot fail by chance."""
    domain = NumericDomain(-3.0, 3.0, log=True, integer=False, nullable=False)
    cells = np.linspace(0, 1, 33)
    marginal = MarginalTransform.numeric(domain, cells, np.diff(cells**2))
    values = domain.from_unit(np.sqrt(RANKS))
    scores = encoded(marginal, values, np.zeros(len(values), dtype=bool))
    assert np.abs(scores).max() < 9
    assert kstest(scores, "norm").statistic < 0.01
    assert scores.mean() == pytest.approx(0, abs=0.01)
    assert scores.std() == pytest.approx(1, abs=0.02)


@given(
    st.lists(st.floats(0.05, 1.0), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.3]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=80, deadline=None)
def test_levels_survive_and_have_their_shares(weights, missing, random):
    n_levels = len(weights)
    domain = CategoryDomain(tuple(range(n_levels)), nullable=True)
    order = random.sample(range(n_levels), n_levels)
    marginal = MarginalTransform.of_categories(
        domain, np.array(weights), missing=missing, order=np.array(order)
    )
    codes = np.arange(n_levels)
    scores = marginal.encode(np.zeros(n_levels), codes)
    assert (np.argsort(scores) == order).all()
    assert marginal.decode(ndtr(scores))[0].tolist() == codes.tolist()
    values, gone = marginal.decode(RANKS)
    assert gone.mean() == pytest.approx(missing, abs=1e-4)
    assert (values[gone] == -1).all()
    shares = np.bincount(values[~gone].astype(int), minlength=n_levels)
    shares = shares / shares.sum()
    np.testing.assert_allclose(shares, np.array(weights) / sum(weights), atol=1e-4)


def test_what_a_marginal_does_not_have_says_nothing():
    domain = CategoryDomain(("a", "b"), nullable=False)
    marginal = MarginalTransform.of_categories(domain, np.array([0.3, 0.7]))
    other, missing = 2, 3
    scores = marginal.encode(np.zeros(2), np.array([other, missing]))
    np.testing.assert_allclose(scores, 0.0, atol=1e-12)


def test_rounding_leaves_a_distribution():
    """The shares up to the last level may add up to more than 1; a file is refused."""
    rng = np.random.default_rng(0)
    too_large = 0
    for _ in range(200):
        shares = np.append(rng.random(6), 0.0)
        too_large += np.cumsum(shares / shares.sum())[-2] > 1
        domain = CategoryDomain(tuple("abcdefg"), nullable=False)
        cumulative = MarginalTransform.of_categories(domain, shares).cumulative
        assert (np.diff(cumulative) >= 0).all()
        assert cumulative[-1] == 1
    assert too_large > 5


NUMBERS = NumericDomain(-700.0, 900.0, log=True, integer=False, nullable=True)
CELLS, MASSES = np.array([0.0, 0.2, 0.6, 1.0]), np.array([0.2, 0.5, 0.3])
MOMENTS_OF = {
    "numbers": MarginalTransform.numeric(NUMBERS, CELLS, MASSES),
    "zero and missing": MarginalTransform.numeric(
        NUMBERS, CELLS, MASSES, own=[0.3], missing=0.25
    ),
    "levels": MarginalTransform.of_categories(
        CategoryDomain(tuple("abcd"), False),
        np.array([0.1, 0.2, 0.3, 0.4]),
        order=np.array([2, 0, 3, 1]),
    ),
    "levels and missing": MarginalTransform.of_categories(
        CategoryDomain(("a", "b"), True), np.array([0.9, 0.1]), missing=0.4
    ),
    "nothing": MarginalTransform.numeric(NUMBERS, CELLS, MASSES, missing=1.0),
    "whole numbers": MarginalTransform.numeric(
        NumericDomain(0.0, 3.0, log=False, integer=True, nullable=False),
        np.linspace(0.0, 1.0, 5),
        np.array([0.7, 0.1, 0.1, 0.1]),
    ),
    "no level": MarginalTransform.of_categories(CategoryDomain((), True), np.zeros(0)),
}


@pytest.mark.parametrize("kind", MOMENTS_OF)
def test_moments_are_those_of_the_scores_of_drawn_values(kind):
    """Of 200,000 values: mean, deviation, and covariance with what they are made of.

    These have sampling errors of 0.0022, 0.0016 and 0.0032 at most, those of normal
    numbers; 0.012, 0.009 and 0.017 are 5.3 of them, 1.2e-7 each, and 0.001, 0.003 and
    0.003 more for the grid of 1,000 ranks.
    """
    marginal = MOMENTS_OF[kind]
    normal = np.random.default_rng(0).standard_normal(200_000)
    values, missing = marginal.decode(ndtr(normal))
    if isinstance(marginal.domain, NumericDomain):
        scores = encoded(marginal, values, missing)
    else:
        beyond = len(marginal.domain.categories) + 1
        codes = np.where(missing, beyond, values).astype(int)
        scores = marginal.encode(np.zeros(len(codes)), codes)
    mean, std, slope = marginal.score_moments()
    assert mean == pytest.approx(scores.mean(), abs=0.013)
    assert std == pytest.approx(scores.std(), abs=0.012)
    covariance = ((scores - scores.mean()) * normal).mean()
    assert slope == pytest.approx(covariance, abs=0.02)


def test_zeros_and_missing_values_may_be_all_that_is_there():
    """Of 1,000 shares that add up to 1 but for rounding, which left less than 0."""
    for zero, missing in np.random.default_rng(0).dirichlet([1, 1], 1_000).tolist():
        given = {"own": [zero], "missing": missing}
        marginal = MarginalTransform.numeric(NUMBERS, CELLS, MASSES, **given)
        values, gone = marginal.decode(np.linspace(0.001, 0.999, 200))
        assert gone.mean() == pytest.approx(missing, abs=0.01)
        assert (values[~gone] == 0).all()
