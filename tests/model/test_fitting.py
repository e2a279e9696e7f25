"""The fit finds what released tables say, and does not take their noise for it."""

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from skdpsynth.measure import Measurement, PairTables
from skdpsynth.measure._bins import ColumnBins, TableBins
from skdpsynth.measure._query import Triples
from skdpsynth.model import NUMPY, Heads, ReleasedClass, slopes_of_loss
from skdpsynth.model._fit import _BUMP, _ENTROPY, _LOGIT, fit_components, one_thread

# Sizes of the stated loss and of the normals, which are not to be found from outside.
from skdpsynth.privacy.statistics import measured_cells
from skdpsynth.training import on_device

TENSORS = on_device(torch.device("cpu"))
LIBRARIES = pytest.mark.parametrize("arrays", [NUMPY, TENSORS], ids=["numpy", "torch"])
SIZES = [4, 3, 5]
STARTS = np.array([0, 4, 7, 12])
ASKED = np.triu(np.ones((3, 3), dtype=bool), 1)
MEASURED = measured_cells(SIZES, np.argwhere(ASKED))
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
    first, last = pairs[:4, 4:7], pairs[:4, 7:]
    return np.concatenate([first.sum(axis=1), first.sum(axis=0), last.sum(axis=0)])


def counted(pairs, noise_std=0.0, seed=0):
    """Give tables with noise, in the order of the bins."""
    noise = np.random.default_rng(seed).normal(0, max(noise_std, 1e-12), pairs.shape)
    return np.where(MEASURED, np.rint(N_ROWS * pairs + noise), 0.0)


def released(pairs, noise_std=0.0, seed=0, shares=None, arrays=NUMPY):
    counts = counted(pairs, noise_std, seed).astype(np.float32)
    shares = shares_of(pairs) if shares is None else shares
    tables = PairTables(counts, ASKED, noise_std, N_ROWS)
    return ReleasedClass(STARTS, shares, noise_std, tables, arrays=arrays)


def heads_of(scores=None, arrays=NUMPY):
    """Let every bin have a logit of its own, or some stand on a line."""
    return Heads(STARTS, np.full(12, np.nan) if scores is None else scores, arrays)


def fit(classes, prior=(1.0,), seed=0, scores=None, arrays=NUMPY):
    heads = heads_of(scores, arrays)
    found = fit_components(classes, np.array(prior), heads, seed=seed)
    return found.mixtures(np.zeros((len(prior), 2, 12)))


def error(mixture, pairs):
    """Give the root mean square of the errors of measured cells, in rows."""
    return N_ROWS * math.sqrt(((mixture.pair_shares() - pairs)[MEASURED] ** 2).mean())


def stated_distance(weights, own, pairs, noise_std, seed):
    """State the squared distance to tables and shares, in noise variances."""
    counts, shares = counted(pairs, noise_std, seed), shares_of(pairs)
    off = N_ROWS * (weights[:, None] * own).T @ own - torch.from_numpy(counts)
    beside = N_ROWS * (weights @ own - torch.from_numpy(shares))
    measured = torch.from_numpy(MEASURED)
    return ((off * measured / noise_std) ** 2).sum() + (beside / noise_std).pow(2).sum()


@LIBRARIES
@pytest.mark.parametrize("scores", [None, LINE])
@pytest.mark.parametrize("together", [False, True])
def test_slopes_are_those_of_the_stated_loss(scores, together, arrays):
    """In closed form, against autograd: pairs, shares, entropy and normals.

    A component that a class will not keep is left out. What was measured of several
    classes together is of their mixture: each class learns what only both say.
    """
    rng, prior = np.random.default_rng(0), np.array([0.7, 0.3])
    tables = [(planted(0), 7.0, 0), (planted(1), 7.0, 1)]
    if together:
        tables.append((0.7 * planted(0) + 0.3 * planted(1), 3.0, 5))
    classes = [released(*own, arrays=arrays) for own in tables]
    if together:
        classes[2].prior = arrays.take(prior)
    heads = heads_of(scores, TENSORS._replace(take=torch.from_numpy))  # in double
    parameters, logs = rng.normal(size=(5, heads.n_parameters)), rng.normal(size=(2, 5))
    if not together:
        logs[1, 2] = -20.0
    home = np.tile(np.log(shares_of(planted(0))), (5, 1))
    given = [torch.from_numpy(part).requires_grad_() for part in (parameters, logs)]
    own, weights = heads(given[0], torch.from_numpy(home)), given[1].softmax(1)
    mixed = [*weights, torch.from_numpy(prior) @ weights][: len(tables)]
    distances = [
        stated_distance(one, own, *table)
        for one, table in zip(mixed, tables, strict=True)
    ]
    entropies = (own * (own.log() - torch.from_numpy(home))).sum(1)
    loss = sum(distances) + _ENTROPY / 3 * weights.detach().sum(0) @ entropies
    expected = torch.autograd.grad(loss / 12**2, given)
    ready = [arrays.take(part) for part in (parameters, logs, home)]
    found = slopes_of_loss(classes, heads_of(scores, arrays), *ready, n_classes=3)
    for ours, theirs in zip(found, expected, strict=True):
        scale = 1e-4 * float(theirs.max())
        np.testing.assert_allclose(arrays.give(ours), theirs, rtol=1e-3, atol=scale)
    assert together or found[1][1, 2] == 0.0


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


# Noise below half a row counts as that: counts without noise are whole numbers. Tables
# say how many rows there are, unless these are less than half of what is known.
@LIBRARIES
@pytest.mark.parametrize(
    ("noise_std", "least", "n_rows", "whole"),
    [(20.0, 20.0, 900.0, 600.0), (0.1, 0.5, 600.0, 600.0), (5.0, 5.0, 2e3, 1e3)],
)
def test_slopes_of_triples_are_those_of_differentiation(
    noise_std, least, n_rows, whole, arrays
):
    """Of tables of 600 rows. In float32, beside a graph over all triples in float64."""
    starts = np.array([0, 4, 7, 12, 14])
    groups = np.array([0, 0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 2, 0, 1])  # of every bin
    rng, sizes = np.random.default_rng(0), np.diff(starts)
    own = [rng.dirichlet(np.full(size, 0.5), 5) for size in sizes]
    parts = rng.dirichlet(np.ones(5)), np.concatenate(own, axis=1)
    weights, probabilities = map(arrays.take, parts)
    counts = 600.0 * np.random.default_rng(2).dirichlet(np.ones(27), 4)
    counts = counts.reshape(4, 3, 3, 3)
    columns = [ColumnBins(np.empty(0), np.arange(n)) for n in sizes]
    query = Triples(TableBins(columns), groups, 3)
    values = counts.astype(np.float32)[None]
    tables = Measurement(query, values, np.array([noise_std]), np.ones(1))
    of_pairs = PairTables(np.zeros((14, 14), "f4"), np.zeros((4, 4), bool), 1.0, n_rows)
    marginals = np.zeros(14), math.inf  # of which nothing is known
    one = ReleasedClass(starts, *marginals, of_pairs, [tables], arrays=arrays)
    found = one.slopes(weights, probabilities)
    given = [torch.from_numpy(part).double().requires_grad_() for part in parts]
    member = torch.eye(3, dtype=torch.float64)[torch.from_numpy(groups)]
    total = torch.zeros((), dtype=torch.float64)
    for own, of_triple in zip(combinations(range(4), 3), counts, strict=True):
        bins = [slice(starts[j], starts[j + 1]) for j in own]
        made = [given[1][:, at] @ member[at] for at in bins]
        made = torch.einsum("k,ka,kb,kc->abc", given[0], *made)
        off = whole * made - torch.from_numpy(of_triple)
        total = total + (off / least).square().sum()
    exact = torch.autograd.grad(total, given)
    for mine, expected in zip(found, exact, strict=True):
        scale = 1e-5 * float(expected.abs().max())
        np.testing.assert_allclose(
            arrays.give(mine), expected.numpy(), rtol=1e-4, atol=scale
        )
        assert expected.abs().max() > 10.0


# --- A fit has one thread, and the others are given back ------------------------------


def blas_threads() -> set[int]:
    return {
        own["num_threads"] for own in threadpool_info() if own["user_api"] == "blas"
    }


@pytest.fixture
def _two_threads():
    """Whatever the environment says: with one the tests would see nothing."""
    limits = threadpool_limits(2, user_api="blas")
    with one_thread():
        pass  # its end lets any thread set limits
    yield
    limits.restore_original_limits()
    with one_thread():
        pass


class Watched(ReleasedClass):
    """Notes how many threads NumPy has at every step; fails at the fifth if asked."""

    def slopes(self, *given, **more):
        self.seen = [*getattr(self, "seen", ()), blas_threads()]
        if self.failing and len(self.seen) == 5:
            raise RuntimeError
        return super().slopes(*given, **more)


def threads_of_fit(*, failing: bool) -> list[set[int]]:
    """Fit two columns of two values."""
    starts, shares = np.array([0, 2, 4]), np.full(4, 0.5)
    pairs = np.kron(np.triu(np.ones((2, 2)), 1), np.ones((2, 2)))
    counts = (250.0 * pairs).astype(np.float32)
    tables = PairTables(counts, np.eye(2, k=1) > 0, 1.0, 1000.0)
    one = Watched(starts, shares, 1.0, tables)
    one.failing = failing
    fit_components([one], np.ones(1), Heads(starts, np.full(4, np.nan)), seed=0)
    return one.seen


# Not of a BLAS such as that of Accelerate.
@pytest.mark.skipif(not blas_threads(), reason="a BLAS without limits")
@pytest.mark.usefixtures("short_fits", "_two_threads")
@pytest.mark.parametrize("elsewhere", [False, True])
def test_steps_take_one_thread_and_give_the_others_back(elsewhere):
    """Threads that wait for each other take four times as long on a busy machine."""
    with pytest.raises(RuntimeError):
        threads_of_fit(failing=True)
    assert blas_threads() == {2}
    seen = threads_of_fit(failing=False)
    if elsewhere:  # after a fit of the main thread
        with ThreadPoolExecutor(1) as pool:
            seen = pool.submit(threads_of_fit, failing=False).result()
    assert len(seen) >= 20
    assert all(own == {1} for own in seen)
    assert blas_threads() == {2}
    with threadpool_limits(1, user_api="blas"):
        assert blas_threads() == {1}  # the user's own limits still count
