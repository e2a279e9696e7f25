"""Marginals of hard columns, and the density fit, which finds the optimum it states.

Usual columns are in `synthesizers/test_marginal.py`.
"""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.stats import norm, poisson

from skdpsynth import IndependentSynthesizer

# How one column is fitted, which the folder's `measure` does for all at once.
from skdpsynth.measure._density import (
    Histogram,
    fit_densities,
    fit_masses,
    nearest_distribution,
)
from skdpsynth.measure._marginals import _support
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.table import NumericDomain

RANKS = (np.arange(20_000) + 0.5) / 20_000


def fitted(columns, schema=None, epsilon=1.0, seed=0):
    with insecure_randomness(seed):
        synth = IndependentSynthesizer(epsilon, schema=schema, random_state=0)
        return synth.fit(pd.DataFrame(columns))


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_are_ordered_by_the_class_they_speak_for(ordered):
    """What both classes have as often stands between what each has more often."""
    levels = np.repeat([*"abcabc"], [500, 100, 400, 100, 500, 400])
    spec = Categorical([*"abc"], ordered=ordered)
    schema = TableSchema({"x": spec, "y": Categorical(["n", "p"])}, target="y")
    synth = fitted({"x": levels, "y": np.repeat(["n", "p"], 1000)}, schema, math.inf)
    for [marginal] in synth._model.marginals:
        order = [*dict.fromkeys(marginal.decode(RANKS)[0].tolist())]
        assert order in ([[0, 1, 2]] if ordered else [[0, 2, 1], [1, 2, 0]])


def test_round_two_looks_where_round_one_saw_rows():
    """500 to 501 of 0 to 1,000: 256 bins of the whole range would be 4 wide."""
    spec = Continuous(0, 1000, scale="linear", decimals="any")
    synth = fitted({"x": np.linspace(500, 501, 10_000)}, TableSchema({"x": spec}))
    assert synth.sample(10_000)["x"].between(499.5, 501.5).mean() > 0.9


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_bin_that_surely_has_rows_is_not_cut_off(mirrored):
    """284 rows beyond three bins of noise, after five of negative noise (std 31)."""
    counts = np.array([900, 400, 300, 20, -10, 284, -12, -30, -50, -40, -30.0])
    step = -1 if mirrored else 1
    part = Histogram(np.linspace(0.0, 1.0, len(counts) + 1), counts[::step], 31.0)
    domain = NumericDomain(0.0, 50.0, log=False, integer=False, nullable=False)
    ends = _support([part], domain)
    assert ends[::step][1] == (part.edges[4] if mirrored else part.edges[7])


def test_a_rare_class_is_not_drawn_from_the_values_of_another():
    """200 rows at 22 to 29 beside 50,000 at 5 to 12, whose ends are theirs alone."""
    rng, sizes = np.random.default_rng(0), (50_000, 200)
    x = np.concatenate((rng.integers(5, 13, sizes[0]), rng.integers(22, 30, sizes[1])))
    counts = dict(zip("np", sizes, strict=True))
    labels = {"y": Categorical(["n", "p"])}
    schema = TableSchema(labels, target="y", class_counts=counts)
    for seed in range(3):
        synth = fitted({"x": x, "y": np.repeat(["n", "p"], sizes)}, schema, seed=seed)
        drawn = synth.sample(20_000, sampling_strategy="balanced")
        usual, rare = (drawn["x"][drawn["y"] == label] for label in "np")
        assert (rare >= 20).mean() > 0.8
        assert usual.between(4, 13).all()


@pytest.mark.parametrize("seed", range(2))
def test_codes_end_where_the_rows_do_if_their_range_was_released(seed):
    """Of 1 to 5 in a range from 0 to 7; declared, each of the numbers may occur.

    Noise alone leaves a number in 2 % of such fits, the noise being frozen.
    """
    codes = np.random.default_rng(seed).integers(1, 6, 4000)
    declared = TableSchema({"x": Continuous(0, 7)})
    found, any_of = (
        {*fitted({"x": codes}, schema, 0.5, seed).sample(20_000)["x"]}
        for schema in (None, declared)
    )
    assert found == {1, 2, 3, 4, 5} < any_of


def share_of_a(shares, seed, *, nullable=False, n_rows=None):
    """Fit 12 equal columns of 3,000 texts; return the share of "a" of each."""
    texts = np.repeat([*"abz"], np.multiply(shares, 3000).astype(int))
    names = [f"x{place}" for place in range(12)]
    spec = Categorical(["a", "b"], nullable=nullable)
    schema = TableSchema(dict.fromkeys(names, spec), n_rows=n_rows)
    drawn = fitted(dict.fromkeys(names, texts), schema, seed=seed).sample(100_000)
    return (drawn == "a").mean()


@pytest.mark.statistical
@pytest.mark.parametrize("nullable", [True, False])
def test_values_of_no_category_are_not_spread_evenly(nullable, global_random_seed):
    """6 of 10 rows are neither 'a' (3) nor 'b' (1); of the rest 3 in 4 are 'a'.

    Counted as rows without a category they would add a half each. The noise of a share
    is below 0.01, and one of 12 columns passes 0.1 at a rate below 1e-12.
    """
    found = share_of_a([0.3, 0.1, 0.6], global_random_seed, nullable=nullable)
    assert (found - 0.75).abs().max() < 0.1


@pytest.mark.statistical
@pytest.mark.parametrize("declared", [2400, 3600])
def test_a_wrong_number_of_rows_does_not_spoil_the_shares(declared, global_random_seed):
    """A schema of another table: the category of 80 % stays one.

    By the declared number alone, shares were off by 0.075 and 0.05. The noise of a
    share is below 0.004, and the declared number still pulls by 0.002: with 100,000
    draws one of 12 columns passes 0.03 by chance at a rate below 1e-9.
    """
    found = share_of_a([0.8, 0.2, 0.0], global_random_seed, n_rows=declared)
    assert (found - 0.8).abs().max() < 0.03


def test_missing_numbers_that_a_domain_does_not_model_are_in_no_bin():
    """Two rows in five, without noise; in a bin they would count as its numbers."""
    x = np.random.default_rng(0).uniform(1.0, 1.5, 5000)
    x[np.arange(5000) % 5 < 2] = np.nan
    spec = Continuous(1, 2, decimals="any")
    drawn = fitted({"x": x}, TableSchema({"x": spec}), math.inf).sample(20_000)["x"]
    assert (drawn > 1.6).mean() < 0.01


# --- The density of one column --------------------------------------------------------

CELLS = np.linspace(0, 1, 25)
SAMPLES = {
    "normal": lambda rng, n: norm.cdf(0.5 * rng.normal(size=n)),
    "peaks": lambda rng, n: rng.normal(rng.choice([0.2, 0.8], n), 0.03).clip(0, 1),
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
    st.sampled_from([fit_masses, fit_densities, partial(fit_densities, spiked=False)]),
)
@settings(max_examples=60, deadline=None)
def test_masses_are_a_distribution(counts, noise_std, total, n_cells, fit):
    """Positive, with sum 1, whatever was counted; of fine cells that share a bin's."""
    cells = np.linspace(0, 1, n_cells + 1)
    part = Histogram(cells[:: n_cells // 12], counts, noise_std)
    (mass,) = fit([[part]], [cells], np.array([total]))
    assert np.isfinite(mass).all()
    assert (mass >= 0).all()
    assert mass.sum() == pytest.approx(1.0)
    if fit is fit_densities and noise_std == 0 and counts.max() > 0:
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
    totals = np.full(n_columns, TOTAL)
    return np.array(fit_densities(columns, [FINE] * n_columns, totals))


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
