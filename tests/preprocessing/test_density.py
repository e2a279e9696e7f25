"""The density fit finds the optimum it states, whatever the noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.stats import norm

from skdpsynth.preprocessing._density import (
    Histogram,
    fit_masses,
    nearest_distribution,
    shrunk_distributions,
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


def histograms(
    values: np.ndarray, noise_std: float, rng: np.random.Generator
) -> list[Histogram]:
    found = []
    for n_bins in (6, 12):
        edges = np.linspace(0, 1, n_bins + 1)
        noise = np.rint(rng.normal(0, noise_std, n_bins)) if noise_std else 0.0
        found.append(
            Histogram(edges, np.histogram(values, edges)[0] + noise, noise_std)
        )
    return found


def stated_loss(
    theta: np.ndarray, parts: list[Histogram], cells: np.ndarray, total: float
) -> tuple[float, np.ndarray]:
    """Write down the objective of `fit_masses` anew, with its gradient."""
    size = len(cells) - 1
    mass = np.exp(theta - theta.max())
    mass /= mass.sum()
    loss, slope = 0.0, np.zeros(size)
    for part in parts:
        low = np.maximum(part.edges[:-1, None], cells[:-1])
        high = np.minimum(part.edges[1:, None], cells[1:])
        share = np.clip(high - low, 0, None) / np.diff(cells)
        std = max(part.noise_std, 0.5)
        residual = (total * share @ mass - part.counts) / std
        loss += 0.5 * residual @ residual
        slope += total / std * residual @ share
    gradient = mass * (slope - slope @ mass)
    third = np.diff(theta, n=3)
    weight = 0.1 * (size / 8) ** 5
    back = -np.diff(np.concatenate((np.zeros(3), third, np.zeros(3))), n=3)
    centred = theta - theta.mean()
    loss += 0.5 * weight * third @ third + 0.5e-4 * centred @ centred
    return loss, gradient + weight * back + 1e-4 * centred


@pytest.mark.parametrize("shape", SAMPLES)
@pytest.mark.parametrize(("n_rows", "noise_std"), [(300, 3), (5000, 30), (5000, 3)])
def test_the_fit_is_as_good_as_a_general_optimiser(shape, n_rows, noise_std):
    rng = np.random.default_rng(1)
    parts = histograms(SAMPLES[shape](rng, n_rows), noise_std, rng)
    (mass,) = fit_masses([parts], [CELLS], np.array([float(n_rows)]))
    reference = minimize(
        stated_loss,
        np.log(mass) + 0.01 * rng.normal(size=len(mass)),
        args=(parts, CELLS, n_rows),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-14},
    )
    ours = stated_loss(np.log(mass), parts, CELLS, n_rows)[0]
    assert ours <= 1.02 * reference.fun + 0.05


def test_columns_fitted_together_are_fitted_alone():
    rng = np.random.default_rng(2)
    columns = [histograms(draw(rng, 2000), 10, rng) for draw in SAMPLES.values()]
    cells = [CELLS, np.linspace(0, 1, 17), CELLS, CELLS]
    totals = np.array([2000.0, 1900.0, 2100.0, 2000.0])
    together = fit_masses(columns, cells, totals)
    for j, mass in enumerate(together):
        (alone,) = fit_masses([columns[j]], [cells[j]], totals[j : j + 1])
        np.testing.assert_allclose(mass, alone, atol=1e-9)


@given(
    arrays(np.float64, 12, elements=st.floats(-1e4, 1e6)),
    st.sampled_from([0.0, 1.0, 100.0, 1e5]),
    st.floats(1.0, 1e6),
)
@settings(max_examples=60, deadline=None)
def test_masses_are_a_distribution_whatever_was_counted(counts, noise_std, total):
    part = Histogram(np.linspace(0, 1, 13), counts, noise_std)
    (mass,) = fit_masses([[part]], [CELLS], np.array([total]))
    assert np.isfinite(mass).all()
    assert (mass >= 0).all()
    assert mass.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("shape", SAMPLES)
def test_without_noise_the_histogram_is_reproduced(shape):
    rng = np.random.default_rng(3)
    parts = histograms(SAMPLES[shape](rng, 50_000), 0.0, rng)
    (mass,) = fit_masses([parts], [CELLS], np.array([50_000.0]))
    for part in parts:
        fitted = part.overlap(CELLS) @ mass
        assert np.abs(fitted - part.counts / 50_000).max() < 0.01


def test_with_much_noise_the_fit_beats_clipped_counts():
    """A normal column, noise as large as the bins: 40 draws from a frozen seed."""
    rng = np.random.default_rng(4)
    fine = np.linspace(0, 1, 13)
    true = np.diff(norm.cdf(fine, 0.5, 0.15))
    ours, clipped = [], []
    for _ in range(40):
        noisy = 1000 * true + rng.normal(0, 100, len(true))
        (mass,) = fit_masses(
            [[Histogram(fine, noisy, 100.0)]], [CELLS], np.array([1e3])
        )
        ours.append(np.abs(mass.reshape(12, 2).sum(axis=1) - true).sum() / 2)
        kept = np.clip(noisy, 0, None)
        clipped.append(np.abs(kept / kept.sum() - true).sum() / 2)
    assert np.mean(ours) < 0.7 * np.mean(clipped)


def test_bins_share_out_the_cells():
    edges = np.array([0.0, 0.1, 0.55, 1.0])
    share = Histogram(edges, np.zeros(3), 1.0).overlap(CELLS)
    np.testing.assert_allclose(share.sum(axis=0), 1.0)
    np.testing.assert_allclose(share @ np.diff(CELLS), np.diff(edges))


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


def test_shrinkage_keeps_what_exceeds_the_noise():
    counts = np.array([[9000.0, 1000.0, 0.0], [10.0, 10.0, 80.0]])
    exact = shrunk_distributions(counts, np.array([0.0, 0.0]))
    np.testing.assert_allclose(exact, counts / counts.sum(axis=1, keepdims=True))
    pooled = counts.sum(axis=0) / counts.sum()
    drowned = shrunk_distributions(counts, np.array([1e6, 1e6]))
    np.testing.assert_allclose(drowned, [pooled, pooled])
