"""DP-SGD: what enters a sum of clipped gradients, and who is in a sample."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from _training import reserve, sampled, sum_by_hand, uniform_rows
from scipy.stats import chi2
from torch import nn
from torch.nn import functional

from skdpsynth.privacy import secret_generator
from skdpsynth.training import ClippedSums

CLIP, N_FEATURES, CHUNK = 0.5, 5, 7


def accepted(scores):
    return functional.softplus(-scores.squeeze(-1))


def wasserstein(scores):
    return -scores.squeeze(-1)


def of_class_1(scores):
    labels = torch.ones(len(scores), dtype=torch.int64)
    return functional.cross_entropy(scores, labels, reduction="none")


# Widths of the network, and the loss of a row.
CASES = {
    "linear": ((N_FEATURES, 1), accepted),
    "hidden": ((N_FEATURES, 7, 1), accepted),
    "wasserstein": ((N_FEATURES, 6, 4, 1), wasserstein),
    "classes": ((N_FEATURES, 3), of_class_1),
}


def make_sums(case, clip=CLIP):
    """Give sums over the present weights of a network, and these weights."""
    widths, losses = CASES[case]
    network = nn.Sequential()
    for depth, (n_in, n_out) in enumerate(pairwise(widths)):
        last = depth == len(widths) - 2
        network.append(nn.Linear(n_in, n_out, bias=not last))
        if not last:
            network.append(nn.SiLU())
    sums, generator = ClippedSums(network, clip, CHUNK), torch.Generator()
    for p in network.parameters():  # those at the time of a call count
        p.data = torch.randn(p.shape, generator=generator.manual_seed(p.numel()))
    return sums, losses, [*network.parameters()]


def make_rows(n_rows, seed=0):
    return torch.from_numpy(uniform_rows(n_rows, seed, N_FEATURES, 2.0))


def doubled(rows):
    """A map to features."""
    return 2.0 * rows


# --- What is summed ---------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("clip", [CLIP, 100.0])
def test_the_sum_is_that_of_a_loop_over_rows(case, clip):
    """Also a second time, of chunks that are not full, and of no row at all."""
    sums, losses, parameters = make_sums(case, clip)
    for n_rows in (0, 1, 23):
        rows = make_rows(n_rows)
        expected = sum_by_hand(parameters, doubled(rows), losses, clip)
        found = sums.of_private(rows, doubled, losses)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * clip)
        assert found.dtype == torch.float64


@pytest.mark.parametrize("case", CASES)
def test_public_rows_have_weights(case):
    sums, losses, parameters = make_sums(case)
    values, weights = make_rows(9), torch.arange(9.0).double() - 3.0
    expected = sum_by_hand(parameters, values, losses, CLIP, weights.numpy())
    found = sums(values, losses, weights)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-5)


# --- What one row can do ------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_one_row_moves_the_sum_by_at_most_the_clipping_norm(case, global_random_seed):
    """Rows of any size at any place, and a millionth less, which is for rounding."""
    rng = np.random.default_rng(global_random_seed)
    sums, losses, _ = make_sums(case)
    worst = 0.0
    for _ in range(60):
        rows = make_rows(int(rng.integers(0, 16)), int(rng.integers(10**6)))
        row = torch.from_numpy(rng.normal(size=(1, N_FEATURES)))
        row *= 10.0 ** rng.integers(-6, 12)
        place = int(rng.integers(0, len(rows) + 1))
        more = torch.cat([rows[:place], row, rows[place:]])
        both = (sums.of_private(own, doubled, losses) for own in (rows, more))
        worst = max(worst, float((next(both) - next(both)).norm()))
    assert 0.9 * CLIP < worst < CLIP * (1 - 0.9e-6)


@pytest.mark.parametrize("case", CASES)
def test_the_term_of_a_row_is_its_own(case):
    """Wherever it stands, and beside whom: but for the rounding of doubles."""
    sums, losses, _ = make_sums(case)
    rows = make_rows(23)
    alone = [sums.of_private(row[None], doubled, losses) for row in rows]
    for order in (slice(None), torch.arange(22, -1, -1), slice(3, 17)):
        together = sums.of_private(rows[order], doubled, losses)
        expected = torch.stack(alone)[order].sum(0)
        assert float((together - expected).abs().max()) < 1e-13 * CLIP * len(rows)


@pytest.mark.parametrize("n_rows", [0, 1, 5, 23])
def test_private_rows_pass_in_chunks_of_one_shape(n_rows):
    """Another may round a row's term otherwise."""
    sums, losses, _ = make_sums("hidden")
    shapes = []

    def features(rows):
        shapes.append((tuple(rows.shape), rows.dtype))
        return rows

    sums.of_private(make_rows(n_rows), features, losses)
    one = (CHUNK, N_FEATURES), torch.float64
    assert shapes == math.ceil(n_rows / CHUNK) * [one]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_a_row_without_a_finite_gradient_counts_as_0(case, bad):
    sums, losses, _ = make_sums(case)
    rows = make_rows(9).double()
    expected = sums.of_private(rows, doubled, losses)
    for spoilt in ([bad] * N_FEATURES, [bad, 1.0, 1.0, 1.0, 1.0]):
        row = torch.tensor([spoilt], dtype=torch.float64)
        more = torch.cat([rows[:4], row, rows[4:]])
        found = sums.of_private(more, doubled, losses)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


# --- Samples ------------------------------------------------------------------------


def samples(n_rows, rate, rng, n_samples=1):
    """Give the numbers of the rows in some samples."""
    rows, reservation = torch.arange(n_rows)[:, None], reserve(rate=rate)
    return [sampled(rows, reservation, rng)[:, 0].tolist() for _ in range(n_samples)]


def test_samples_are_independent_draws_of_the_rate():
    """Of 100 rows at rate 0.3, 2000 times: sizes, and how often each row is drawn.

    Both sums of squares over their variance are nearly chi-squared; each is outside,
    on either side, with probability 5e-7.
    """
    drawn = np.zeros((2000, 100))
    for own, sample in zip(
        drawn, samples(100, 0.3, secret_generator(), 2000), strict=True
    ):
        own[sample] = 1.0
        assert sample == sorted(set(sample))
    for axis, n in ((1, 100), (0, 2000)):
        sums = drawn.sum(axis)
        statistic = ((sums - 0.3 * n) ** 2).sum() / (0.21 * n)
        low, high = chi2.ppf([2.5e-7, 1 - 2.5e-7], len(sums))
        assert low < statistic < high
    (everybody,) = samples(50, 1.0, secret_generator())
    assert everybody == [*range(50)]
    assert samples(0, 0.5, secret_generator()) == [[]]


def test_a_row_that_joins_moves_no_other_draw():
    """Of this sample and of later ones, by equal secret streams."""
    for n_rows in range(1, 20):
        fewer, more = (
            samples(n, 0.5, np.random.default_rng(3), 3) for n in (n_rows - 1, n_rows)
        )
        assert [[i for i in own if i < n_rows - 1] for own in more] == fewer
