"""The density fit finds the optimum it states, whatever the noise."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.stats import norm, poisson

# How one column is fitted, which the folder's `measure` does for all at once.
from skdpsynth.measure._density import (
    Histogram,
    fit_masses,
    fit_smooth,
    fit_spiked,
    nearest_distribution,
)

CELLS = np.linspace(0, 1, 25)
SAMPLES = {
    "normal": lambda rng, n: norm.cdf(0.5 * rng.normal(size=n)),
    "peaks": lambda rng, n: np.clip(
        np.where(rng.random(n) < 0.5, 0.2, 0.8) + 0.03 * rng.normal(size=n), 0, 1
    ),
    "spike": lambda rng, n: np.where(rng.random(n) < 0.8, 0.1, rng.random(n)),
    "constant": lambda rng, n: np.full(n, 0.33),
}


def histograms(values: np.ndarray, noise_std: float, rng: np.random.Generator):
    """Count values in 6 and in 12 bins, with noise."""
    found = []
    for n_bins in (6, 12):
        edges = np.linspace(0, 1, n_bins + 1)
        noise = np.rint(rng.normal(0, noise_std, n_bins))
        counts = np.histogram(values, edges)[0] + noise
        found.append(Histogram(edges, counts, noise_std))
    return found


def stated_loss(theta, parts, total):
    """Write down the objective of `fit_masses` anew, with its gradient."""
    given = torch.tensor(theta, requires_grad=True)
    mass, loss, size = given.softmax(0), torch.zeros(()), len(theta)
    for part in parts:
        low = np.maximum(part.edges[:-1, None], CELLS[:-1])
        high = np.minimum(part.edges[1:, None], CELLS[1:])
        share = torch.from_numpy(np.clip(high - low, 0, None) / np.diff(CELLS))
        residual = total * share @ mass - torch.from_numpy(part.counts)
        loss = loss + 0.5 * (residual / max(part.noise_std, 0.5)).square().sum()
    loss = loss + 0.05 * (size / 8) ** 5 * given.diff(n=3).square().sum()
    loss = loss + 0.5e-4 * (given - given.mean()).square().sum()
    loss.backward()
    return loss.item(), given.grad.numpy()


@pytest.mark.parametrize("shape", SAMPLES)
@pytest.mark.parametrize(("n_rows", "noise_std"), [(300, 3), (5000, 30)])
def test_the_fit_is_as_good_as_a_general_optimiser(shape, n_rows, noise_std):
    rng = np.random.default_rng(1)
    parts = histograms(SAMPLES[shape](rng, n_rows), noise_std, rng)
    (mass,) = fit_masses([parts], [CELLS], np.array([float(n_rows)]))
    start = np.log(mass) + 0.01 * rng.normal(size=len(mass))
    options = {"maxiter": 2000, "maxfun": 2000, "ftol": 1e-14}
    given = stated_loss, start, (parts, n_rows)
    reference = minimize(*given, jac=True, method="L-BFGS-B", options=options)
    ours, _ = stated_loss(np.log(mass), parts, n_rows)
    assert ours <= 1.02 * reference.fun + 0.05


@given(
    arrays(np.float64, 12, elements=st.floats(-1e4, 1e6)),
    st.sampled_from([0.0, 1.0, 100.0, 1e5]),
    st.floats(1.0, 1e6),
    st.sampled_from([12, 96, 132]),
    st.sampled_from([fit_masses, fit_smooth, fit_spiked]),
)
@settings(max_examples=60, deadline=None)
def test_masses_are_a_distribution_whatever_was_counted(
    counts, noise_std, total, n_cells, fit
):
    """Positive, with sum 1; of fine cells, too, that share a bin's."""
    cells = np.linspace(0, 1, n_cells + 1)
    part = Histogram(cells[:: n_cells // 12], counts, noise_std)
    (mass,) = fit([[part]], [cells], np.array([total]))
    assert np.isfinite(mass).all()
    assert (mass >= 0).all()
    assert mass.sum() == pytest.approx(1.0)
    if fit is fit_spiked and noise_std == 0 and counts.max() > 0:
        shares = mass.reshape(12, -1).sum(axis=1)
        assert (shares[counts < -10] < 1e-2).all()  # even ones: 8e-2


@given(arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e3, 1e3)))
@settings(max_examples=100, deadline=None)
def test_the_nearest_distribution_is_nearest(counts):
    """At the projection no other distribution lies in the direction of the counts."""
    shares = nearest_distribution(counts)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1.0)
    if counts.max() <= 1e-9:
        return
    total = max(counts.sum(), counts.max())
    gradient = counts - total * shares
    assert gradient @ (total * shares) >= total * gradient.max() - 1e-6 * max(total, 1)


FINE = np.linspace(0, 1, 257)  # a whole number in each cell
SMOOTH = np.diff(norm.cdf(FINE, 0.45, 0.17))
SMOOTH /= SMOOTH.sum()
TOTAL = 30_000.0


def fit_of(true, noise_std, seed, n_columns=1):
    """Fit columns of these masses, of which every number was counted with noise."""
    noise = np.random.default_rng(seed).normal(0, noise_std, (n_columns, len(true)))
    columns = [[Histogram(FINE, row, noise_std)] for row in TOTAL * true + noise]
    return np.array(fit_spiked(columns, [FINE] * n_columns, np.full(n_columns, TOTAL)))


def spiked(share, place=110):
    true = (1 - share) * SMOOTH
    true[place] += share
    return true


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.05, 0.4])
def test_a_number_that_many_rows_share_is_kept(share, global_random_seed):
    """n = 20 columns; noise of 20 rows on counts of 1,500 and 12,000 more than beside.

    What is kept is the noisy count, scaled to sum 1: off by more than 7 deviations in
    any column at a rate below 1e-10. The neighbours are not raised.
    """
    true = spiked(share)
    found = fit_of(true, 20.0, global_random_seed, n_columns=20)
    assert np.abs(found[:, 110] - true[110]).max() * TOTAL < 7 * 20
    beside = found[:, [107, 108, 109, 111, 112, 113]]
    assert beside.max() * TOTAL < TOTAL * true[112] + 7 * 20


@pytest.mark.statistical
@pytest.mark.parametrize("noise_std", [5.0, 100.0])
def test_noise_is_not_made_a_spike(noise_std, global_random_seed):
    """n = 400 smooth columns of 256 numbers; the statistic is how many are spikes.

    Noise passes 5 deviations at a rate of 2.9e-7, and 4.8 at 7.9e-7, which leaves 0.2
    for the error of the density. 102,400 numbers have 0.08 of those on average, and
    more than the Poisson bound of 1e-6. Of all others little is kept: where the mean
    square of 256 residuals is that of the noise, the share ``1 - noise / observed``.
    """
    found = fit_of(SMOOTH, noise_std, global_random_seed, n_columns=400)
    above = (found - SMOOTH) * TOTAL / noise_std
    expected = norm.sf(4.8) * found.size
    assert (above > 4).sum() <= poisson.isf(1e-6, expected)
    assert np.median(np.abs(above)) < 0.45  # of noise itself: 0.67
