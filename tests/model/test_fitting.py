"""The fit finds what released tables say, and does not take their noise for it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from skdpsynth.measure import PairTables
from skdpsynth.model import NUMPY, Heads, ReleasedClass, slopes_of_loss
from skdpsynth.model._fit import _BUMP, _ENTROPY, _LOGIT, fit_components

# Sizes of the stated loss and of the normals, which are not to be found from outside.
from skdpsynth.privacy import measured_cells
from skdpsynth.training import on_device

TENSORS = on_device(torch.device("cpu"))
LIBRARIES = pytest.mark.parametrize("arrays", [NUMPY, TENSORS], ids=["numpy", "torch"])
SIZES = [4, 3, 5]
STARTS = np.array([0, 4, 7, 12])
PAIRS = np.stack(np.triu_indices(3, 1), axis=1)
MEASURED = measured_cells(SIZES, PAIRS)
N_ROWS = 20_000.0
NONE = [np.nan] * 3
LINE = np.array([-1.4, -0.5, 0.5, 1.4, *NONE, -1.0, -0.3, 0.3, 1.0, np.nan])


def planted(seed: int, n_components: int = 3) -> np.ndarray:
    """Make the pair shares of some rows that hang together, shape (D, D)."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_components))
    parts = [rng.dirichlet(np.full(size, 0.5), n_components) for size in SIZES]
    own = np.concatenate(parts, axis=1)
    return own.T @ (weights[:, None] * own)


def shares_of(pairs):
    """Give the share of each bin in its column."""
    first, last = pairs[:4, 4:7], pairs[:4, 7:]
    return np.concatenate([first.sum(axis=1), first.sum(axis=0), last.sum(axis=0)])


def released(
    pairs, noise_std=0.0, seed=0, measured=MEASURED, shares=None, arrays=NUMPY
):
    noise = np.random.default_rng(seed).normal(0, max(noise_std, 1e-12), pairs.shape)
    counts = np.where(measured, np.rint(N_ROWS * pairs + noise), 0.0)
    shares = shares_of(pairs) if shares is None else shares
    tables = PairTables(counts.astype(np.float32), measured, noise_std, N_ROWS, PAIRS)
    return ReleasedClass(STARTS, shares, noise_std, tables, arrays=arrays)


def heads_of(scores=None, arrays=NUMPY):
    """Let every bin have a logit of its own, or some stand on a line."""
    return Heads(STARTS, np.full(12, np.nan) if scores is None else scores, arrays)


def fit(classes, prior=(1.0,), seed=0, scores=None, arrays=NUMPY):
    heads = heads_of(scores, arrays)
    found = fit_components(classes, np.array(prior), heads, seed=seed)
    return [components.mixture(heads, np.zeros((2, 12))) for components in found]


def error(mixture, pairs, measured=MEASURED):
    """Give the root mean square of the errors of measured cells, in rows."""
    own = mixture.probabilities.astype(np.float64)
    found = own.T @ (mixture.weights[:, None] * own)
    return N_ROWS * math.sqrt(((found - pairs)[measured] ** 2).mean())


# --- The stated loss --------------------------------------------------------------


def test_the_loss_is_the_squared_distance_in_noise_variances():
    """Against a loop over cells: pairs, and shares of bins."""
    pairs, rng = planted(0), np.random.default_rng(1)
    one = released(pairs, noise_std=7.0, seed=2)
    noise = np.random.default_rng(2).normal(0, 7.0, pairs.shape)
    counts = np.rint(N_ROWS * pairs + noise)
    weights = rng.dirichlet(np.ones(5))
    own = np.concatenate([rng.dirichlet(np.ones(s), 5) for s in SIZES], axis=1)
    total = 0.0
    for i in range(12):
        total += (N_ROWS * (weights @ own[:, i] - shares_of(pairs)[i]) / 7.0) ** 2
        for j in np.flatnonzero(MEASURED[i]):
            model = N_ROWS * (weights * own[:, i] * own[:, j]).sum()
            total += ((model - counts[i, j]) / 7.0) ** 2
    weights, own = weights.astype(np.float32), own.astype(np.float32)
    assert float(one.distance(weights, own)[0]) == pytest.approx(total, rel=1e-4)


def stated_loss(classes, heads, parameters, log_weights, home, n_classes):
    """State the loss of some classes as an expression that autograd can read."""
    own, total = heads(parameters, home), 0.0
    entropies = (own * (own.log() - home)).sum(1)
    for one, weights in zip(classes, log_weights.softmax(1), strict=True):
        pairs = (weights[:, None] * own).T @ own
        total += (pairs * one._per_cell - one._counts).square().sum()
        total += ((weights @ own - one.shares) * one._per_share).square().sum()
        total += _ENTROPY / n_classes * weights.detach() @ entropies
    return total / home.shape[1] ** 2


def start_of(scores=None):
    """Give two classes, and parameters of five components in units of their size."""
    classes = [
        released(planted(c), noise_std=7.0, seed=c, arrays=TENSORS) for c in range(2)
    ]
    heads, generator = heads_of(scores, TENSORS), torch.Generator().manual_seed(0)
    parameters = torch.randn((5, heads.n_parameters), generator=generator)
    log_weights = torch.randn((2, 5), generator=generator)
    home = classes[0].shares.log().expand(5, -1)
    return classes, heads, parameters, log_weights, home


def in_arrays(arrays, classes, heads, *given):
    """Give the same start to a library of arrays."""
    own = [
        released(planted(c), noise_std=7.0, seed=c, arrays=arrays)
        for c in range(len(classes))
    ]
    heads = heads_of(heads.scores, arrays)
    return own, heads, *(arrays.take(part.detach().numpy()) for part in given)


def assert_slopes(found, expected, arrays):
    for ours, theirs in zip(found, expected, strict=True):
        scale = 1e-4 * float(theirs.max())
        np.testing.assert_allclose(arrays.give(ours), theirs, rtol=1e-3, atol=scale)


@LIBRARIES
@pytest.mark.parametrize("scores", [None, "line"])
def test_slopes_are_those_of_the_stated_loss(scores, arrays):
    """In closed form, against autograd: pairs, shares, entropy and normals.

    A component that a class will not keep is left out.
    """
    start = start_of(None if scores is None else LINE)
    start[3][1, 2] = -20.0
    given = start[2].requires_grad_(), start[3].requires_grad_()
    expected = torch.autograd.grad(stated_loss(*start, n_classes=3), given)
    found = slopes_of_loss(*in_arrays(arrays, *start), n_classes=3)
    assert_slopes(found, expected, arrays)
    assert found[1][1, 2] == 0.0


@LIBRARIES
def test_several_classes_together_are_their_mixture_in_the_loss(arrays):
    """In closed form, against autograd: each class learns what only both say."""
    classes, heads, parameters, log_weights, home = start_of()
    both = [
        released(0.7 * planted(0) + 0.3 * planted(1), noise_std=3.0, seed=5, arrays=own)
        for own in (TENSORS, arrays)
    ]
    prior = torch.tensor([0.7, 0.3])
    start = heads, parameters, log_weights, home
    given = parameters.requires_grad_(), log_weights.requires_grad_()
    # The stated loss of one class more, whose weights are those of a mixture.
    mixed = (prior @ log_weights.softmax(1)).log()[None]
    more = stated_loss(both[:1], heads, parameters, mixed, home, math.inf)
    whole = stated_loss(classes, *start, n_classes=2) + more
    expected = torch.autograd.grad(whole, given)
    each, *ready = in_arrays(arrays, classes, *start)
    both[1].prior = arrays.take(prior.numpy())
    found = slopes_of_loss([*each, both[1]], *ready, n_classes=2)
    assert_slopes(found, expected, arrays)


# --- What is found ----------------------------------------------------------------


@pytest.mark.parametrize(("seed", "scores"), [(0, None), (1, None), (0, "line")])
def test_a_planted_mixture_is_found_without_noise(seed, scores):
    """Of 20,000 rows: cells are off by 10 rows, where independence is by hundreds.

    On a line two columns are normal inside a component, so a little is left over.
    """
    pairs = planted(seed)
    own = None if scores is None else LINE
    (mixture,) = fit([released(pairs)], seed=seed, scores=own)
    apart = np.outer(shares_of(pairs), shares_of(pairs))
    independent = N_ROWS * math.sqrt(((apart - pairs)[MEASURED] ** 2).mean())
    assert independent > 100
    assert error(mixture, pairs) < (10 if scores is None else 30)
    shares = mixture.weights @ mixture.probabilities
    assert np.abs(shares - shares_of(pairs)).max() < 0.002


def test_noise_is_not_taken_for_dependence():
    """Independent columns, and tables with noise of 100 rows a cell: most is left out.

    The noise and the first logits have fixed seeds.
    """
    rng = np.random.default_rng(3)
    shares = np.concatenate([rng.dirichlet(np.full(s, 5.0)) for s in SIZES])
    pairs = np.outer(shares, shares)
    (mixture,) = fit([released(pairs, noise_std=100.0, shares=shares)])
    assert error(mixture, pairs) < 40


def test_a_class_keeps_the_components_that_matter_to_it():
    """Opposite dependences in two classes, and equal fits of equal seeds."""
    both = planted(0), planted(9)
    classes = [released(own) for own in both]
    found, again = (fit(classes, prior=(10 / 11, 1 / 11)) for _ in range(2))
    for mixture, same, own, other in zip(found, again, both, both[::-1], strict=True):
        np.testing.assert_array_equal(mixture.probabilities, same.probabilities)
        assert error(mixture, own) < 30
        assert error(mixture, other) > 300
        assert mixture.weights.sum() == pytest.approx(1)
        assert 20 < len(mixture.weights) <= 100  # the least, for so few bins
        for start, end in pairwise(STARTS):
            sums = mixture.probabilities[:, start:end].sum(axis=1)
            np.testing.assert_allclose(sums, 1, atol=1e-5)


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("shares", [None, np.zeros(12), np.eye(12)[0]])
def test_rare_classes_empty_bins_and_constant_columns_are_fitted(shares):
    """A rare class has no rows to begin at, and takes what the others have.

    Then tables of nothing but noise, and marginals at the edge of the simplex.
    """
    tables = planted(0) if shares is None else np.zeros((12, 12))
    n_classes = 150 if shares is None else 2
    one = released(tables, noise_std=5.0, shares=shares)
    prior = np.where(np.arange(n_classes) == 0, 1.0, 1e-6)
    mixtures = fit([one] * n_classes, prior=prior)
    assert len(mixtures) == n_classes
    for mixture in mixtures:
        assert np.isfinite(mixture.probabilities).all()
        assert mixture.weights.sum() == pytest.approx(1)


def test_a_head_of_numbers_is_a_normal_distribution_beside_the_marginal():
    """Logits ``z^2 / 2 - (z - m)^2 / (2 s^2)`` and free ones, each column by itself."""
    heads, rng = heads_of(LINE), np.random.default_rng(0)
    home = np.log(np.concatenate([rng.dirichlet(np.ones(s)) for s in SIZES]))
    own = rng.normal(size=12 + 2 * 2)  # a logit of each bin; two columns
    own[heads.widths] = [-0.5, 9.0]  # the second one is beyond the widest
    units = np.full(12, _BUMP)
    units[[4, 5, 6, 11]] = _LOGIT  # three categories and a zero
    expected = home + units * own[:12]
    for place, column in enumerate((slice(0, 4), slice(7, 11))):
        width = np.exp(min(own[heads.widths][place], 2.0))
        z, mean = LINE[column], own[heads.means][place]
        expected[column] += z**2 / 2 - ((z - mean) / width) ** 2 / 2
    for start, end in pairwise(STARTS):
        expected[start:end] -= np.log(np.exp(expected[start:end]).sum())
    found = np.log(heads(NUMPY.take(own[None]), NUMPY.take(home[None])))
    np.testing.assert_allclose(found[0], expected, atol=1e-5)
