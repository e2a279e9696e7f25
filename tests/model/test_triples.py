"""Tables of three columns in the loss of a mixture, and what a fit makes of them."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch

from skdpsynth.measure import Measurement, PairTables, TableBins
from skdpsynth.measure._bins import ColumnBins
from skdpsynth.measure._query import Triples
from skdpsynth.model import NUMPY, ReleasedClass
from skdpsynth.training import on_device

TENSORS = on_device(torch.device("cpu"))
STARTS = np.array([0, 4, 7, 12, 14])
GROUPS = np.array([0, 0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 2, 0, 1])  # of every bin


def mixture(seed=0, n_components=5):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_components)).astype(np.float32)
    sizes = np.diff(STARTS)
    parts = [rng.dirichlet(np.full(size, 0.5), n_components) for size in sizes]
    return weights, np.concatenate(parts, axis=1).astype(np.float32)


# Noise below half a row counts as that: counts without noise are whole numbers. Tables
# say how many rows there are, unless these are less than half of what is known.
@pytest.mark.parametrize("arrays", [NUMPY, TENSORS])
@pytest.mark.parametrize(
    ("noise_std", "least", "n_rows", "whole"),
    [(20.0, 20.0, 900.0, 600.0), (0.1, 0.5, 600.0, 600.0), (5.0, 5.0, 2e3, 1e3)],
)
def test_slopes_of_the_distance_are_those_of_differentiation(
    noise_std, least, n_rows, whole, arrays
):
    """Of tables of 600 rows. In float32, beside a graph over all triples in float64."""
    weights, probabilities = map(arrays.take, mixture())
    counts = 600.0 * np.random.default_rng(2).dirichlet(np.ones(27), 4)
    counts = counts.reshape(4, 3, 3, 3)
    columns = [ColumnBins(np.empty(0), np.arange(n)) for n in np.diff(STARTS)]
    query = Triples(TableBins(columns), GROUPS, 3)
    tables = Measurement(query, counts.astype(np.float32), noise_std, 1.0)
    of_pairs = PairTables.nothing(14, n_rows)
    marginals = np.zeros(14), math.inf  # of which nothing is known
    one = ReleasedClass(STARTS, *marginals, of_pairs, tables, arrays=arrays)
    found = one.slopes(weights, probabilities)
    given = [torch.from_numpy(part).double().requires_grad_() for part in mixture()]
    member = torch.eye(3, dtype=torch.float64)[torch.from_numpy(GROUPS)]
    total = torch.zeros((), dtype=torch.float64)
    for own, of_triple in zip(combinations(range(4), 3), counts, strict=True):
        bins = [slice(STARTS[j], STARTS[j + 1]) for j in own]
        parts = [given[1][:, at] @ member[at] for at in bins]
        made = torch.einsum("k,ka,kb,kc->abc", given[0], *parts)
        off = whole * made - torch.from_numpy(of_triple)
        total = total + (off / least).square().sum()
    exact = torch.autograd.grad(total, given)
    for mine, expected in zip(found, exact, strict=True):
        scale = 1e-5 * float(expected.abs().max())
        np.testing.assert_allclose(
            arrays.give(mine), expected.numpy(), rtol=1e-4, atol=scale
        )
        assert expected.abs().max() > 10.0
