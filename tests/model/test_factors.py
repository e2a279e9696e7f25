"""The factors that follow from measured second moments, and what they draw."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal, norm

from skdpsynth.model import FactorGenerator, factors_above_noise
from skdpsynth.table import CategoryDomain, MarginalTransform


def found(covariance, std=0.01, *, stds=None, slopes=None):
    n_columns = len(covariance)
    stds = np.ones(n_columns) if stds is None else stds
    slopes = stds if slopes is None else slopes
    above = covariance[np.triu_indices(n_columns, 1)]
    return factors_above_noise(above, std, stds, slopes)


def correlations(loadings):
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


@pytest.mark.parametrize("strength", [1.5, 4.0])
def test_a_factor_in_noise_is_shrunk_as_it_is_seen(strength):
    """One of x in noise of size s: what is left of it is ``x - s^2 n / x``.

    Of 32 draws of 300 columns. The largest eigenvalue has a standard deviation of
    ``sqrt(2) s`` at most, so their mean one of 0.0145 ``s sqrt(n)``, and what is left
    moves by 2.6 times as much at most: 0.25 is 6.6 of it.
    """
    n, std, sizes = N_NOISE, 0.01, []
    edge = std * math.sqrt(n)  # from which a factor is above the noise
    direction = np.resize([1.0, -1.0], n) / math.sqrt(n)
    for seed in range(32):
        noise = noise_matrix(np.random.default_rng(seed), n, std)
        factor = strength * edge * np.outer(direction, direction)
        implied = correlations(found(noise + factor, std))
        np.fill_diagonal(implied, 0.0)
        sizes.append(np.linalg.eigvalsh(implied)[-1] / edge)
    assert np.mean(sizes) == pytest.approx(strength - 1.0 / strength, abs=0.25)


def binary(share):
    """Give a column of two categories, and their scores, the lower one first."""
    shares = np.array([share, 1.0 - share])
    marginal = MarginalTransform.of_categories(
        CategoryDomain(("a", "b"), False), shares
    )
    return marginal, marginal.encode(np.zeros(2), np.arange(2))


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
    _, stds, slopes = np.array([own.score_moments() for own in marginals]).T
    ours = correlations(found(covariance, stds=stds, slopes=slopes))
    assert farthest(ours, exact) < 0.04
    plain = correlations(found(covariance, stds=stds, slopes=np.ones(8)))
    assert farthest(plain, exact) > 0.1


@pytest.mark.parametrize("value", [1.0, 0.0])
@pytest.mark.parametrize("std", [1e7, 1.0, 0.0])
def test_factors_of_whatever_columns_are_finite(value, std):
    """Whose moments are 0; and no more than 0.99 is shared."""
    noise = noise_matrix(np.random.default_rng(0), 8, 1e6)
    stds = np.array([value, value, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    for own in (stds, np.full(8, value)):
        shared = np.square(found(noise, std, stds=own)).sum(axis=1)
        assert (shared / (1.0 + shared) <= 0.99 + 1e-9).all()


def test_scores_have_the_correlations_that_the_loadings_say(global_random_seed):
    """Marginals are standard normal whatever the loadings.

    False alarms: 3 Kolmogorov tests at 1e-7 and 3 correlations within 6 standard
    errors (1 / sqrt(n) bounds them), at most 1e-6 in all.
    """
    n_rows, loadings = 20_000, 3.0 * true_loadings(3)
    rng = np.random.default_rng(global_random_seed)
    codes = np.zeros(n_rows, dtype=np.int64)
    scores = norm.ppf(FactorGenerator(loadings[None]).draw(codes, rng))
    for column in scores.T:
        assert kstest(column, "norm").pvalue > 1e-7
    expected = correlations(loadings)
    assert farthest(np.corrcoef(scores.T), expected) < 6 / math.sqrt(n_rows)
    assert farthest(expected, np.eye(3)) > 0.4


def test_a_class_has_its_own_loadings_or_borrows_them():
    """From the largest that has some, not the largest of all, and however few rows."""
    loadings = np.array([true_loadings(3, seed=seed) for seed in range(5)])
    loadings[[0, 3, 4]] = 0.0
    generator = FactorGenerator.lent(loadings, np.array([9e3, 4e3, 5e3, 50.0, 49.0]))
    np.testing.assert_array_equal(generator.loadings, loadings[[2, 1, 2, 2, 2]])
    none_known = FactorGenerator.lent(0.0 * loadings, np.ones(5))
    assert not none_known.loadings.any()
    none = np.zeros(0, dtype=np.int64)
    assert generator.draw(none, np.random.default_rng(0)).shape == (0, 3)
