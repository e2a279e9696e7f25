"""Cells of three columns: exact counts, their release, and what a fit makes of them."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from skdpsynth.nn._cells import Cells, SeenCells
from skdpsynth.nn._linear_discriminator import LinearDiscriminator
from torch.nn import functional

from skdpsynth.nn import _cells, _linear_discriminator
from skdpsynth.nn._fitting import Fit, Heads, ReleasedClass
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy._integers import GRID
from skdpsynth.privacy._parts import LocalParts, stream_of_part
from skdpsynth.privacy.testing import observe_releases

CPU = torch.device("cpu")
STARTS = np.array([0, 4, 7, 12, 14])
GROUPS = np.array([0, 0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 2, 0, 1])  # of every bin
TRIPLES = torch.tensor(list(combinations(range(4), 3)))
CELLS = Cells(TRIPLES, 3)


def rows_of(n_rows, seed=0):
    groups = np.random.default_rng(seed).integers(0, 3, (n_rows, 4))
    return groups.astype(np.uint8)


def counted(rows):
    """Count by a loop over rows."""
    found = np.zeros((4, 3, 3, 3), dtype=int)
    for row in rows:
        for t, triple in enumerate(TRIPLES.tolist()):
            found[(t, *row[triple])] += 1
    return found


def looking(rows, *, loss="logistic", clip=0.5, epsilon=5.0, count=1, rate=1.0):
    accountant = PrivacyAccountant(epsilon, 1e-5)
    mu = math.inf if epsilon == math.inf else accountant.mu_cap * 0.9 / count**0.5
    reservation = accountant.reserve_sampled_gaussian(
        "gradients", mu=mu, sampling_rate=rate, sensitivity=GRID, count=count
    )
    expected = rate * max(len(rows), 1)
    return LinearDiscriminator(
        rows,
        loss=loss,
        max_grad_norm=clip,
        expected_batch_size=expected,
        reservation=reservation,
        rng=np.random.default_rng(0),
        device=CPU,
    )


def seen_cells(n_rounds=1, n_rows=1000.0):
    generator = torch.Generator().manual_seed(0)
    return SeenCells(
        STARTS, GROUPS, 3, n_rows, n_rounds=n_rounds, generator=generator, device=CPU
    )


@pytest.mark.parametrize("n_rows", [0, 1, 500])
def test_counts_are_those_of_a_loop(n_rows, monkeypatch):
    monkeypatch.setattr("skdpsynth.nn._cells._CHUNK", 400)  # several parts
    rows = rows_of(n_rows)
    found = CELLS.sums(torch.from_numpy(rows))
    np.testing.assert_array_equal(found, counted(rows))


def test_every_part_has_a_sample_of_its_own():
    """Exact counts of the rows that its stream draws, with no weight by its size."""
    rows, ends = rows_of(200), [0, 50, 50, 60, 200]
    parts = LocalParts(lambda: iter([rows[a:b] for a, b in pairwise(ends)]))
    sampled = _linear_discriminator._sampled_sums, CELLS, 0.3, 17, CPU
    found = parts.total(*sampled, numbered=True)
    drawn = [
        rows[a:b][stream_of_part(17, number).random(b - a) < 0.3]
        for number, (a, b) in enumerate(pairwise(ends))
    ]
    np.testing.assert_array_equal(found, counted(np.concatenate(drawn)))


def test_weighted_sums_are_exact():
    """Doubles hold the sums of a chunk: 2**16 rows of 2**36 in a cell, and one."""
    assert _cells._CHUNK_ROWS * 2**36 <= 2**53
    rows = np.zeros((2**16 + 1, 3), dtype=np.uint8)
    weights = np.full(len(rows), 2**36 - 1, dtype=np.int64)
    looked = Cells(torch.tensor([[0, 1, 2]]), 2)
    found = looked.sums(torch.from_numpy(rows), torch.from_numpy(weights))
    assert found.flatten()[0] == (2**16 + 1) * (2**36 - 1)


def test_a_sum_of_very_many_rows_stops_at_the_end_of_int64(monkeypatch):
    """As of 2**27 rows of weight 2**36 and more: they are as many chunks of 2**52."""
    monkeypatch.setattr(_cells, "_CHUNK_ROWS", 1)
    looked = Cells(torch.tensor([[0, 1, 2]]), 2)
    for n_chunks, expected in ((2047, 2047 * 2**52), (2051, 2**63 - 1)):
        rows = torch.zeros((1, 3), dtype=torch.uint8).expand(n_chunks, 3)
        weights = torch.tensor([2**52]).expand(n_chunks)
        found = looked.sums(rows, weights).flatten()
        assert found[0] == expected
        assert not found[1:].any()


def test_groups_are_those_of_the_bins():
    bins = np.array([[0, 2, 4, 1], [3, 0, 2, 0]])
    np.testing.assert_array_equal(
        seen_cells().encode(bins), [[0, 2, 2, 1], [2, 0, 1, 0]]
    )


def test_a_norm_below_the_grid_is_refused():
    """The least whole weight would be more than clipping leaves; nothing is drawn."""
    largest = CELLS.largest_weight
    looking(rows_of(9), clip=0.5 * largest).release(CELLS)
    player = looking(rows_of(9), clip=0.5 * largest * (1 + 1e-9))
    with pytest.raises(ValueError, match="smaller max_grad_norm"):
        player.release(CELLS)
    assert player._reservation.used == 0


def gradients(rows, loss):
    """Per-row gradients at zero of a linear discriminator, by autograd."""
    features = np.zeros((len(rows), 4, 3, 3, 3))
    for features_of_row, row in zip(features, rows, strict=True):
        for t, triple in enumerate(TRIPLES.tolist()):
            features_of_row[(t, *row[triple])] = 4**-0.5
    flat = torch.from_numpy(features).flatten(1)
    found = []
    for row in flat:
        weight = torch.zeros(flat.shape[1], dtype=torch.float64, requires_grad=True)
        score = row @ weight
        value = -functional.logsigmoid(score) if loss == "logistic" else -score
        found.append(torch.autograd.grad(value, weight)[0])
    return torch.stack(found)


@pytest.mark.parametrize("loss", ["logistic", "wasserstein"])
@pytest.mark.parametrize("clip", [0.1, 0.5, 2.0])
def test_the_sum_is_that_of_clipped_gradients_by_autograd(loss, clip):
    """And one row moves it by no more than C: by all of it where it is clipped."""
    seen = []
    rows = rows_of(40)
    for own in (rows, rows[1:]):
        with observe_releases(seen.append):
            looking(own, loss=loss, clip=clip).release(CELLS)
    assert all(release.exact.dtype == np.int64 for release in seen)
    # In whole numbers, of which GRID are the clipping norm.
    sums = [release.exact.ravel() * (clip / GRID) for release in seen]
    rows_gradients = gradients(rows, loss)
    norms = rows_gradients.norm(dim=1, keepdim=True)
    clipped = rows_gradients * (clip / norms).clamp(max=1.0)
    np.testing.assert_allclose(sums[0], clipped.sum(dim=0), rtol=2e-6, atol=1e-12)
    moved = np.linalg.norm(sums[0] - sums[1])
    slope = 0.5 if loss == "logistic" else 1.0
    assert moved <= clip * (1 + 1e-12)
    assert moved == pytest.approx(min(slope, clip), rel=2e-6)


@pytest.mark.parametrize(("loss", "clip"), [("logistic", 0.2), ("wasserstein", 3.0)])
def test_what_is_said_is_right_up_to_the_noise_that_is_said(loss, clip):
    """Chi-squared of 2,160 cells, two-sided; false alarms 1e-6 each."""
    rows, offs, settings = rows_of(300), [], {"loss": loss, "clip": clip}
    exact = counted(rows) / len(rows)
    discriminator = looking(rows, count=20, **settings)
    for _ in range(20):
        shares, std = discriminator.release(CELLS)
        offs.append((shares.numpy() - exact) / std.numpy())
    squares = float(np.square(offs).sum())
    low, high = chi2.ppf([5e-7, 1 - 5e-7], np.size(offs))
    assert low < squares < high
    silent, std = looking(rows, epsilon=math.inf, **settings).release(CELLS)
    np.testing.assert_allclose(silent, exact, rtol=1e-5)
    assert float(std.max()) == 0.0


def test_samples_are_over_their_expected_size():
    """A half of 4,000 rows, no noise: all 108 cells within 6 of what is said.

    What is said takes each share from the sample; 1.2e-7 false alarms at 6.1.
    """
    rows = rows_of(4000)
    shares, std = looking(rows, epsilon=math.inf, rate=0.5).release(CELLS)
    off = (shares.numpy() - counted(rows) / len(rows)) / std.numpy()
    assert np.abs(off).max() < 6.5
    assert np.square(off).mean() > 0.3


def test_a_sample_without_rows_is_released_too():
    """Noise around 0, and one release used (G.1.c)."""
    discriminator = looking(rows_of(0))
    shares, std = discriminator.release(CELLS)
    assert discriminator._reservation.used == 1
    assert float(shares.abs().min()) > 0.0
    assert float((shares / std).abs().max()) < 7.0


def test_every_step_draws_its_own_sample():
    """Of 4,000 rows at rate 1/2: equal ones have a chance of 2^-4000."""
    discriminator = looking(rows_of(4000), epsilon=math.inf, rate=0.5, count=2)
    first, second = (discriminator.release(CELLS)[0] for _ in range(2))
    assert not torch.equal(first, second)


def test_it_cannot_be_saved():
    with pytest.raises(TypeError, match="private rows"):
        looking(rows_of(3)).__getstate__()


@pytest.mark.parametrize("n_rounds", [1, 2, 3, 9])
def test_every_triple_is_looked_at(n_rounds):
    seen = seen_cells(n_rounds)
    looked = [seen.next_look().triples.tolist() for _ in range(n_rounds)]
    assert len({len(triples) for triples in looked}) == 1  # noise is for one size
    flat = {tuple(triple) for triples in looked for triple in triples}
    assert flat == {tuple(triple) for triple in TRIPLES.tolist()}


def mixture(seed=0, n_components=5):
    rng = np.random.default_rng(seed)
    weights = torch.from_numpy(rng.dirichlet(np.ones(n_components))).float()
    sizes = np.diff(STARTS)
    parts = [rng.dirichlet(np.full(size, 0.5), n_components) for size in sizes]
    return weights, torch.from_numpy(np.concatenate(parts, axis=1)).float()


def shares_of(weights, probabilities):
    """Give a mixture's share of every cell, by loops over bins."""
    found = np.zeros((4, 3, 3, 3))
    own = weights.numpy().astype(float), probabilities.numpy().astype(float)
    for t, triple in enumerate(TRIPLES.tolist()):
        bins = [range(STARTS[j], STARTS[j + 1]) for j in triple]
        for a in bins[0]:
            for b in bins[1]:
                for c in bins[2]:
                    share = own[0] @ (own[1][:, a] * own[1][:, b] * own[1][:, c])
                    found[t, GROUPS[a], GROUPS[b], GROUPS[c]] += share
    return found


def test_the_distance_is_that_of_shares_by_loops():
    weights, probabilities = mixture()
    exact = shares_of(weights, probabilities)
    off = np.random.default_rng(1).normal(0, 0.01, exact.shape)
    seen = seen_cells()
    order = seen.next_look()
    place = [TRIPLES.tolist().index(triple) for triple in order.triples.tolist()]
    shares = torch.from_numpy((exact + off)[place])
    seen.add(order, shares, torch.tensor(0.02))
    found = float(seen.distance(weights, probabilities)[0])
    assert found == pytest.approx(np.square(off / 0.02).sum(), rel=1e-3)


def test_slopes_of_the_distance_are_those_of_differentiation():
    """In float32, beside a graph over the shares of all triples in float64."""
    weights, probabilities = mixture()
    seen, noise = seen_cells(), np.random.default_rng(2)
    shares = torch.from_numpy(noise.dirichlet(np.ones(27), 4).reshape(CELLS.shape))
    seen.add(CELLS, shares, torch.tensor(0.02))
    found = seen.distance(weights, probabilities)
    given = [part.double().requires_grad_() for part in (weights, probabilities)]
    member = torch.eye(3, dtype=torch.float64)[torch.from_numpy(GROUPS)]
    total = torch.zeros((), dtype=torch.float64)
    for own, of_triple in zip(TRIPLES.tolist(), shares, strict=True):
        bins = [slice(STARTS[j], STARTS[j + 1]) for j in own]
        parts = [given[1][:, at] @ member[at] for at in bins]
        made = torch.einsum("k,ka,kb,kc->abc", given[0], *parts)
        total = total + ((made - of_triple) / 0.02).square().sum()
    exact = torch.autograd.grad(total, given)
    assert float(found[0]) == pytest.approx(float(total.detach()), rel=1e-4)
    for mine, expected in zip(found[1:], exact, strict=True):
        torch.testing.assert_close(mine.double(), expected, rtol=1e-4, atol=1e-3)
        assert expected.abs().max() > 10.0


def test_what_is_seen_twice_is_averaged_by_its_noise():
    """Of 1 and 4 with noise 0.1 and 0.2: 1.6, with the noise of both together."""
    weights, probabilities = mixture()
    exact = torch.from_numpy(shares_of(weights, probabilities))
    seen = seen_cells()
    seen.add(CELLS, exact + 1.0, torch.tensor(0.1))
    seen.add(CELLS, exact + 4.0, torch.tensor(0.2))
    expected = exact.numel() * 1.6**2 * (0.1**-2 + 0.2**-2)
    found = float(seen.distance(weights, probabilities)[0])
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("told", [False, True])
def test_a_fit_learns_the_parity_of_three_columns(told):
    """The share of rows of the wrong parity: none where cells were seen, else half."""
    starts, groups = np.array([0, 2, 4, 6]), np.tile([0, 1], 3)
    half = np.full(6, 0.5)
    pairs = np.full((6, 6), 0.25, dtype=np.float32) * 20_000
    measured = np.kron(np.triu(np.ones((3, 3)), 1), np.ones((2, 2))).astype(bool)
    released = ReleasedClass(20_000.0, half, 1.0, pairs * measured, measured, 1.0, CPU)
    heads = Heads(starts, np.full(6, np.nan), CPU)
    settings = {"more_comes": True, "seed": 0, "device": CPU}
    fit = Fit([released], np.ones(1), heads, **settings)
    generator = torch.Generator().manual_seed(0)
    sizes = {"n_rounds": 1, "generator": generator, "device": CPU}
    seen = SeenCells(starts, groups, 2, 20_000.0, **sizes)
    parity = np.indices((2, 2, 2)).sum(axis=0) % 2
    if told:
        released.seen = seen
        seen.add(
            seen.next_look(), torch.from_numpy(0.25 * parity[None]), torch.tensor(1e-4)
        )
    fit.finish()
    (components,) = fit.components()
    made = components.mixture(heads, np.zeros((2, 6)))
    wrong = sum(
        made.weights @ made.probabilities[:, [a, 2 + b, 4 + c]].prod(axis=1)
        for a, b, c in np.argwhere(parity == 0)
    )
    assert wrong < 0.02 if told else 0.4 < wrong < 0.6
