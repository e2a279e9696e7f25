"""Tables of three columns in the loss of a mixture, and what a fit makes of them."""

from itertools import combinations, product

import numpy as np
import pytest
import torch

from skdpsynth.measure import Measurement, TableBins
from skdpsynth.measure._bins import ColumnBins
from skdpsynth.measure._query import Triples
from skdpsynth.model import NUMPY
from skdpsynth.model._fit import TripleLoss
from skdpsynth.training import on_device

TENSORS = on_device(torch.device("cpu"))
STARTS = np.array([0, 4, 7, 12, 14])
GROUPS = np.array([0, 0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 2, 0, 1])  # of every bin
TRIPLES = np.array([*combinations(range(4), 3)])
N_ROWS = 1000.0


def loss_of(counts, noise_std=20.0, n_rows=N_ROWS, arrays=NUMPY):
    columns = [ColumnBins(np.empty(0), np.arange(n)) for n in np.diff(STARTS)]
    query, values = Triples(TableBins(columns), GROUPS, 3), np.float32(counts)
    tables = Measurement(query, values, noise_std, 1.0)
    return TripleLoss(STARTS, tables, n_rows=n_rows, arrays=arrays)


def mixture(seed=0, n_components=5):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_components)).astype(np.float32)
    sizes = np.diff(STARTS)
    parts = [rng.dirichlet(np.full(size, 0.5), n_components) for size in sizes]
    return weights, np.concatenate(parts, axis=1).astype(np.float32)


def shares_of(weights, probabilities):
    """Give a mixture's share of every cell, by loops over bins."""
    found = np.zeros((len(TRIPLES), 3, 3, 3))
    weights, probabilities = weights.astype(float), probabilities.astype(float)
    for cells, triple in zip(found, TRIPLES.tolist(), strict=True):
        for own in product(*(range(STARTS[j], STARTS[j + 1]) for j in triple)):
            share = weights @ probabilities[:, list(own)].prod(axis=1)
            cells[tuple(GROUPS[list(own)])] += share
    return found


@pytest.mark.parametrize(("noise_std", "least"), [(2.0, 2.0), (0.1, 0.5), (0.0, 0.5)])
def test_noise_below_half_a_row_counts_as_that(noise_std, least):
    """Counts without noise are whole numbers."""
    counts = N_ROWS * shares_of(*mixture())
    counts[0, 0, 0, 0] += 3.0
    counts[0, 1, 1, 1] -= 3.0
    found = float(loss_of(counts, noise_std)(*mixture())[0])
    assert found == pytest.approx(2 * (3.0 / least) ** 2, rel=1e-3)


@pytest.mark.parametrize(("n_rows", "whole"), [(900.0, 600.0), (2000.0, 1000.0)])
def test_tables_tell_their_rows_unless_these_are_less_than_half(n_rows, whole):
    """Tables of 600 rows, of a class known to have 900, or 2,000."""
    counts = 600.0 * shares_of(*mixture())
    off = np.square(counts - whole * shares_of(*mixture())).sum() / 20.0**2
    found = float(loss_of(counts, n_rows=n_rows)(*mixture())[0])
    assert found == pytest.approx(off, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("arrays", [NUMPY, TENSORS])
def test_slopes_of_the_distance_are_those_of_differentiation(arrays):
    """In float32, beside a graph over the shares of all triples in float64."""
    weights, probabilities = map(arrays.take, mixture())
    counts = N_ROWS * np.random.default_rng(2).dirichlet(np.ones(27), 4)
    counts = counts.reshape(4, 3, 3, 3)
    found = loss_of(counts, arrays=arrays)(weights, probabilities)
    given = [torch.from_numpy(part).double().requires_grad_() for part in mixture()]
    member = torch.eye(3, dtype=torch.float64)[torch.from_numpy(GROUPS)]
    total = torch.zeros((), dtype=torch.float64)
    for own, of_triple in zip(TRIPLES.tolist(), counts, strict=True):
        bins = [slice(STARTS[j], STARTS[j + 1]) for j in own]
        parts = [given[1][:, at] @ member[at] for at in bins]
        made = torch.einsum("k,ka,kb,kc->abc", given[0], *parts)
        off = N_ROWS * made - torch.from_numpy(of_triple)
        total = total + (off / 20.0).square().sum()
    exact = torch.autograd.grad(total, given)
    assert float(found[0]) == pytest.approx(float(total.detach()), rel=1e-4)
    for mine, expected in zip(found[1:], exact, strict=True):
        np.testing.assert_allclose(
            arrays.give(mine), expected.numpy(), rtol=1e-4, atol=1e-3
        )
        assert expected.abs().max() > 10.0
