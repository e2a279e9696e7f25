"""Products of scores: exact sums, their norm, and the factors that follow from them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import multivariate_normal, norm
from skdpsynth.nn._score_products import ScoreMoments, ScoreProducts, SeenProducts

from skdpsynth.nn import _score_products
from skdpsynth.nn._factors import FactorGenerator
from skdpsynth.preprocessing._domains import LevelDomain, NumericDomain
from skdpsynth.preprocessing._transforms import MarginalTransform

LENGTH = 4096
LARGEST_WEIGHT = 5790  # of linear teachers


def normal_moments(n_columns):
    return ScoreMoments(np.zeros(n_columns), np.ones(n_columns), np.ones(n_columns))


def whole_rows(n_rows, n_columns=5, seed=0):
    return np.random.default_rng(seed).integers(-900, 900, (n_rows, n_columns))


def summed(rows, weights=None):
    """Add up by a loop over rows and pairs, in Python's integers."""
    n_columns = rows.shape[1]
    weights = [1] * len(rows) if weights is None else weights.tolist()
    own = list(zip(rows.tolist(), weights, strict=True))
    return [
        sum(weight * row[i] * row[j] for row, weight in own)
        for i in range(n_columns)
        for j in range(i + 1, n_columns)
    ]


def totals(sums):
    """Join the halves of sums, in Python's integers."""
    return [2**32 * upper + lower for upper, lower in zip(*sums.tolist(), strict=True)]


def squared_products(row):
    return sum(product**2 for product in summed(np.array([row])))


# --- Sums, and the norm of a row ----------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_rows", [0, 1, 7, 50])
def test_sums_are_those_of_a_loop(n_rows, weighted, monkeypatch):
    monkeypatch.setattr(_score_products, "_CHUNK", 7)  # several parts
    rows = whole_rows(n_rows)
    weights = np.random.default_rng(1).integers(1, LARGEST_WEIGHT, n_rows)
    weights = weights if weighted else None
    look = ScoreProducts(5)
    found = look.sums(
        torch.from_numpy(rows.astype(np.int32)),
        None if weights is None else torch.from_numpy(weights),
    )
    assert found.dtype == torch.int64
    assert tuple(found.shape[1:]) == look.shape == (10,)
    assert totals(found) == summed(rows, weights)


def test_sums_beyond_int64_are_exact(monkeypatch):
    """Of chunks of 2**52, of either sign; what is released of them stops at the end."""
    monkeypatch.setattr(_score_products, "_CHUNK", 1)
    look = ScoreProducts(2)
    for n_chunks, sign in ((2**11 + 8, 1), (2**11 + 8, -1)):
        rows = torch.tensor([[2896, sign * 2896]]).expand(n_chunks, 2)
        sums = look.sums(rows, torch.tensor([2**29]).expand(n_chunks))
        exact = sign * n_chunks * 2896**2 * 2**29
        assert totals(sums) == [exact]
        assert look.on_grid(sums.numpy()).tolist() == [(exact + 2**15) // 2**16]
        ends = [sign * (2**63 - 1)]
        assert look.on_grid(sums.numpy(), 2**18).tolist() == ends


def test_sums_of_many_long_rows_are_exact():
    """Odd products whose sum is beyond 2**53: doubles alone would round it."""
    n_rows, value, weight = 300_001, 2895, LARGEST_WEIGHT - 1
    assert 2 * value**2 <= LENGTH**2
    exact = n_rows * value**2 * weight
    assert exact > 2**53
    assert float(exact) != exact
    rows = torch.full((n_rows, 2), value, dtype=torch.int32)
    weights = torch.full((n_rows,), weight)
    assert totals(ScoreProducts(2).sums(rows, weights)) == [exact]


def test_a_chunk_of_the_longest_rows_stays_exact_in_doubles():
    """Also the square of a column alone, which is added up on the way."""
    assert _score_products._CHUNK * LENGTH**2 * LARGEST_WEIGHT < 2**53


SCORES = st.one_of(
    st.sampled_from([0.0, -0.0, 3.0, -3.0, 1e30, -1e38, 1e-45]),
    st.floats(-4.0, 4.0, width=32),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@st.composite
def scores_and_moments(draw):
    n_columns = draw(st.integers(2, 9))
    shape = draw(st.integers(0, 4)), n_columns
    scores = draw(arrays.arrays(np.float32, shape, elements=SCORES))
    column = {"shape": n_columns, "dtype": np.float64}
    means = draw(arrays.arrays(elements=st.floats(-3.0, 3.0), **column))
    stds = draw(arrays.arrays(elements=st.floats(0.0, 1.2), **column))
    return scores, ScoreMoments(means, stds, stds)


@settings(max_examples=300, deadline=None)
@given(scores_and_moments())
def test_no_row_is_longer_than_is_said(drawn):
    """In Python's integers, whatever the scores and the moments."""
    scores, moments = drawn
    seen = SeenProducts(moments)
    rows = seen.encode(scores)
    assert rows.shape == scores.shape
    for row in rows.tolist():
        assert sum(value**2 for value in row) <= LENGTH**2
        assert squared_products(row) <= seen.next_look().squared_norm


def test_the_norm_is_reached_by_a_row_of_many_columns():
    """Up to the squares on the diagonal: a bound below it would be wrong."""
    n = 64
    rows = SeenProducts(normal_moments(n)).encode(np.full((1, n), 50.0, np.float32))
    found, bound = squared_products(rows[0]), ScoreProducts(n).squared_norm
    assert found <= bound
    assert found == pytest.approx(bound * (1 - 1 / n), rel=0.02)


@settings(max_examples=100, deadline=None)
@given(arrays.arrays(np.int64, 6, elements=st.integers(-1700, 1700)))
def test_variances_are_at_most_what_is_said(row):
    """On average over products, which is what they are averaged to."""
    look = ScoreProducts(6)
    row = np.trunc(row * min(1.0, (LENGTH - 1) / max(np.linalg.norm(row), 1.0)))
    said = look.variances(torch.zeros(look.shape))
    assert squared_products(row.astype(int)) <= float(said.double().sum()) * (1 + 1e-6)


# --- Rows of whole numbers ----------------------------------------------------------


class OfAllRows(SeenProducts):
    """A twin that takes means and sizes from the rows: one row would move all."""

    def encode(self, scores):
        by_rows = scores - scores.mean(axis=0, keepdims=True)
        by_rows /= by_rows.std(axis=0, keepdims=True) + 1e-6
        return super().encode(by_rows.astype(np.float32))


def stays_the_same(seen, scores):
    """Tell whether rows are encoded alike alone, in parts, and in another order."""
    rows = seen.encode(scores)
    alone = [seen.encode(scores[i : i + 1]) for i in range(len(scores))]
    parts = [seen.encode(scores[:3]), seen.encode(scores[3:])]
    backwards = seen.encode(np.ascontiguousarray(scores[::-1]))[::-1]
    others = np.concatenate(alone), np.concatenate(parts), backwards
    return all(np.array_equal(rows, other) for other in others)


@pytest.mark.parametrize("n_columns", [2, 7, 33, 150])
def test_a_row_does_not_depend_on_the_others(n_columns):
    scores = 2.0 * np.random.default_rng(0).standard_normal((40, n_columns))
    scores = scores.astype(np.float32)
    assert stays_the_same(SeenProducts(normal_moments(n_columns)), scores)
    assert not stays_the_same(OfAllRows(normal_moments(n_columns)), scores)


def test_rows_are_clipped_at_twice_the_mean_squared_length():
    """Shorter ones are scores less means in a public unit, longer ones turn not."""
    means, stds = np.array([1.0, -0.5, 0.0, 0.2]), np.array([1.0, 0.5, 0.8, 0.3])
    seen = SeenProducts(ScoreMoments(means, stds, stds))
    limit = math.sqrt(2.0 * np.square(stds).sum())
    directions = np.random.default_rng(0).standard_normal((200, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for share in (0.01, 0.5, 0.999, 1.001, 2.0, 1e6):
        rows = seen.encode((means + share * limit * directions).astype(np.float32))
        expected = min(share, 1.0) * LENGTH * directions
        np.testing.assert_allclose(rows, expected, atol=2.5)


def test_no_rows_are_no_rows():
    seen = SeenProducts(normal_moments(4))
    rows = seen.encode(np.empty((0, 4), np.float32))
    assert rows.shape == (0, 4)
    assert totals(seen.next_look().sums(torch.from_numpy(rows))) == [0] * 6
    told(seen, np.zeros((4, 4)), 0.1)
    assert seen.loadings(None).shape == (4, 0)


# --- Factors ------------------------------------------------------------------------


def told(seen, covariance, std):
    """Tell of covariances, with a noise of this size, in units of scores."""
    unit = math.sqrt(2.0 * np.square(seen._moments.stds).sum()) / LENGTH
    products = covariance[np.triu_indices(len(covariance), 1)] / unit**2
    noise = torch.full((len(products),), std / unit**2, dtype=torch.float64)
    seen.add(seen.next_look(), torch.from_numpy(products), noise)
    return seen


def found(covariance, std=0.01, *, moments=None, most_factors=None):
    moments = normal_moments(len(covariance)) if moments is None else moments
    return told(SeenProducts(moments), covariance, std).loadings(most_factors)


def correlations(loadings):
    """Give those of the scores of a `FactorGenerator`."""
    variances = 1.0 + np.square(loadings).sum(axis=1)
    implied = loadings @ loadings.T / np.sqrt(np.outer(variances, variances))
    np.fill_diagonal(implied, 1.0)
    return implied


def true_loadings(n_columns=12, n_factors=2, seed=0):
    return np.random.default_rng(seed).normal(0.0, 0.7, (n_columns, n_factors))


def noise_matrix(rng, n, std):
    drawn = np.triu(rng.normal(0.0, std, (n, n)), 1)
    return drawn + drawn.T


def farthest(ours, theirs):
    return float(np.abs(ours - theirs).max())


@pytest.mark.parametrize("std", [1e-6, 0.01])
@pytest.mark.parametrize("seed", range(5))
def test_known_covariances_give_back_the_correlations(seed, std):
    """Of two factors; without noise the search may leave small ones beside them."""
    exact = correlations(true_loadings(seed=seed))
    loadings = found(exact, std)
    assert loadings.shape[1] == 2 or std < 0.01
    assert farthest(correlations(loadings), exact) < 0.01


def test_the_correlations_are_those_that_a_generator_draws():
    """Of 200,000 rows: 66 of standard deviation 0.0023 at most; 0.015 is 6.5 of it."""
    loadings = found(correlations(true_loadings()))
    own = {"loadings": loadings, "location": np.zeros(12), "log_scale": np.zeros(12)}
    members = np.zeros(200_000, dtype=np.int64)
    scores = FactorGenerator([own]).scores(members, np.random.default_rng(0))
    drawn = np.corrcoef(scores, rowvar=False)
    assert farthest(drawn, correlations(loadings)) < 0.015


def test_rows_give_back_the_correlations():
    """Of 100,000 rows, as they are encoded and added up.

    What a seed finds is fixed; 0.05 is for what clipping takes from long rows.
    """
    own = {"loadings": true_loadings()}
    own |= {"location": np.zeros(12), "log_scale": np.zeros(12)}
    members = np.zeros(100_000, dtype=np.int64)
    scores = FactorGenerator([own]).scores(members, np.random.default_rng(0))
    seen = SeenProducts(normal_moments(12))
    look = seen.next_look()
    sums = look.sums(torch.from_numpy(seen.encode(scores.astype(np.float32))))
    means = torch.tensor(totals(sums)).double() / len(scores)
    seen.add(look, means, (look.variances(means) / len(scores)).sqrt())
    off = farthest(correlations(seen.loadings(None)), correlations(own["loadings"]))
    assert off < 0.05


def test_what_is_seen_twice_is_averaged_by_its_noise():
    """Of 1 and 4 times with noise 0.01 and 0.02: 1.6, with both together."""
    part = correlations(true_loadings()) / 5.0
    twice = SeenProducts(normal_moments(12))
    told(twice, 1.0 * part, 0.01)
    told(twice, 4.0 * part, 0.02)
    both = (0.01**-2 + 0.02**-2) ** -0.5
    once = found(1.6 * part, both)
    np.testing.assert_allclose(
        twice.loadings(None) @ twice.loadings(None).T, once @ once.T, rtol=1e-6
    )


N_NOISE = 300


@pytest.mark.parametrize("seed", range(10))
def test_noise_alone_has_no_factors(seed):
    """At 0.8 of the noise that is said; false alarms 7.2e-9 each, 7.2e-8 in all.

    The expected largest eigenvalue is at most ``2 s sqrt(n)`` (Gordon), and it is a
    Lipschitz function of the normal entries above the diagonal, of constant ``sqrt(2)
    s``. So it passes an edge t higher with ``exp(-t^2 / 4 s^2)`` at most: with s = 0.8
    of the stated one, ``exp(-n / 16)``.
    """
    noise = noise_matrix(np.random.default_rng(seed), N_NOISE, 0.008)
    assert found(noise, 0.01).shape == (N_NOISE, 0)


@pytest.mark.parametrize("seed", range(3))
def test_more_noise_than_is_said_would_be_taken_for_factors(seed):
    """The twin of the edge: no factor at all has a chance of ``exp(-n / 4)`` or so.

    The largest eigenvalue is near ``4 s sqrt(n)``, and the edge at a half of it.
    """
    noise = noise_matrix(np.random.default_rng(seed), N_NOISE, 0.02)
    assert found(noise, 0.01).shape[1] > 10


@pytest.mark.parametrize("strength", [1.5, 2.0, 4.0])
def test_a_factor_in_noise_is_shrunk_as_it_is_seen(strength):
    """One of x in noise of size s: what is left of it is ``x - s^2 n / x``.

    Of 32 draws of 300 columns. The largest eigenvalue has a standard deviation of
    ``sqrt(2) s`` at most, so their mean one of 0.0145 ``s sqrt(n)``, and what is left
    moves by 2.6 times as much at most: 0.25 is 6.6 of it.
    """
    n, std, sizes = N_NOISE, 0.01, []
    edge = std * math.sqrt(n)  # where a factor starts to stand out
    direction = np.resize([1.0, -1.0], n) / math.sqrt(n)
    for seed in range(32):
        noise = noise_matrix(np.random.default_rng(seed), n, std)
        factor = strength * edge * np.outer(direction, direction)
        implied = correlations(found(noise + factor, std, most_factors=1))
        np.fill_diagonal(implied, 0.0)
        sizes.append(np.linalg.eigvalsh(implied)[-1] / edge)
    assert np.mean(sizes) == pytest.approx(strength - 1.0 / strength, abs=0.25)


@pytest.mark.parametrize("most_factors", [1, 2, 3, 4, None])
def test_there_are_no_more_factors_than_are_asked_for(most_factors):
    """The largest ones of three stay."""
    vectors = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 3)))[0]
    loadings = vectors * [2.0, 1.5, 1.0]
    theirs = found(loadings @ loadings.T, most_factors=most_factors)
    assert theirs.shape == (30, min(most_factors or 3, 3))
    angles = np.linalg.norm(np.linalg.qr(theirs)[0].T @ vectors, axis=0)
    kept = theirs.shape[1]
    np.testing.assert_allclose(angles[:kept], 1.0, atol=0.02)


def test_there_are_64_factors_at_most():
    """Of noise that is not said."""
    noise = noise_matrix(np.random.default_rng(0), 200, 0.05)
    assert found(noise, 1e-6).shape == (200, 64)
    assert found(noise[:20, :20], 1e-6).shape[1] <= 20


# --- Columns that fill intervals, are nearly constant, or the same --------------------


def binary(share):
    """Give a column of two levels, and its scores: of the lower one, of the other."""
    shares = np.array([share, 1.0 - share])
    marginal = MarginalTransform.of_levels(LevelDomain(("a", "b"), False), shares)
    return marginal, marginal.encode(np.zeros(2), np.arange(2))


def moments_of(marginals):
    return ScoreMoments(*np.array([own.score_moments() for own in marginals]).T)


def test_latent_correlations_come_back_through_slopes():
    """Thresholds of normal numbers that a factor correlates by 0.36 at most.

    By their exact covariances. The first order leaves out squares: 0.04 at most. Taken
    as they are, scores are 0.1 off and more.
    """
    shares = np.array([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.5])
    shared = np.linspace(0.3, 0.6, 8) * [1, -1, 1, 1, -1, 1, -1, 1]
    exact = np.outer(shared, shared)
    marginals, scores = zip(*[binary(share) for share in shares], strict=True)
    covariance = np.zeros((8, 8))
    for i, j in zip(*np.triu_indices(8, 1), strict=True):
        latent = multivariate_normal(cov=[[1.0, exact[i, j]], [exact[i, j], 1.0]])
        both = latent.cdf(norm.ppf(shares[[i, j]])) - shares[i] * shares[j]
        covariance[i, j] = np.diff(scores[i])[0] * np.diff(scores[j])[0] * both
    np.fill_diagonal(exact, 1.0)
    moments = moments_of(marginals)
    ours = correlations(found(covariance, moments=moments))
    assert farthest(ours, exact) < 0.04
    plain = correlations(found(covariance, moments=moments._replace(slopes=np.ones(8))))
    assert farthest(plain, exact) > 0.1


def test_nearly_constant_columns_say_little():
    """Of a share of 1e-9 and of exactly 1: finite, and others keep what they had."""
    marginals = [binary(share)[0] for share in (1e-9, 1.0, 0.5, 0.5, 0.5)]
    moments = moments_of(marginals)
    assert moments.stds[:2].max() < 1e-3
    covariance = 0.1 * np.outer([0.0, 0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0, 1.0])
    loadings = found(covariance + 1e-6, moments=moments)
    assert np.isfinite(loadings).all()
    implied = correlations(loadings)
    assert np.abs(implied[:2, 2:]).max() < 0.05
    slopes = moments.slopes
    assert implied[2, 3] == pytest.approx(0.1 / (slopes[2] * slopes[3]), abs=0.02)


def test_constant_columns_stay_finite():
    """Their rows are zeros where they are the means, and any others are clipped."""
    zeros = np.zeros(5)
    seen = SeenProducts(ScoreMoments(zeros, zeros, zeros))
    rows = seen.encode(np.array([[0.0] * 5, [3.0, -3.0, 0.0, 1.0, 2.0]], np.float32))
    assert not rows[0].any()
    assert np.linalg.norm(rows[1]) == pytest.approx(LENGTH, rel=1e-3)
    noise = np.random.default_rng(0).normal(0.0, 1e6, 10)
    for std in (1e7, 1.0):
        seen.add(seen.next_look(), torch.from_numpy(noise), torch.full((10,), std))
        assert np.isfinite(seen.loadings(None)).all()


def test_equal_columns_keep_something_of_their_own():
    """Correlations of 1 come back as 0.97: loadings of it are finite."""
    loadings = found(np.ones((6, 6)))
    assert loadings.shape[1] == 1
    implied = correlations(loadings)
    np.testing.assert_allclose(implied[~np.eye(6, dtype=bool)], 0.97, atol=1e-6)


def test_covariances_beyond_what_can_be_stay_finite():
    """Noise may say so of small classes: no variance is shared beyond 0.97."""
    loadings = found(noise_matrix(np.random.default_rng(0), 8, 50.0), 1.0)
    assert np.isfinite(loadings).all()
    shared = np.square(loadings).sum(axis=1)
    assert (shared / (1.0 + shared) <= 0.97 + 1e-9).all()


def test_silence_says_nothing():
    """Discriminators without noise, of no rows: zeros of a standard deviation of 0."""
    seen = SeenProducts(normal_moments(4))
    seen.add(seen.next_look(), torch.zeros(6), torch.zeros(6))
    assert seen.loadings(None).shape == (4, 0)


def test_columns_of_several_kinds_have_moments_together():
    domain = NumericDomain(-1.0, 1.0, log=False, integer=False, nullable=True)
    cells, masses = np.array([0.0, 0.4, 1.0]), np.array([0.7, 0.3])
    number = MarginalTransform.numeric(domain, cells, masses, missing=0.2)
    moments = moments_of([number, binary(0.4)[0]])
    seen = SeenProducts(moments)
    rows = seen.encode(np.array([moments.means, moments.means], np.float32))
    assert np.abs(rows).max() <= 1  # means are float32 there


def test_whatever_is_not_finite_is_no_longer_than_any_row():
    """Neither scores nor moments; the middle stands for them."""
    odd = np.array([[np.nan, 1.0, 2.0], [np.inf, -np.inf, 0.5]], np.float32)
    bad = np.array([0.0, np.inf, np.nan])
    for moments in (normal_moments(3), ScoreMoments(bad, np.ones(3), np.ones(3))):
        rows = SeenProducts(moments).encode(odd).astype(np.int64)
        assert (np.square(rows).sum(axis=1) <= 2**24).all()
