"""The batched program equals a loop over single teachers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from _training import (
    DEVICES,
    identity,
    make_ensemble,
    uniform_rows,
    with_products,
)
from torch import nn

from skdpsynth.training import _teachers
from skdpsynth.training._teachers import assign_teachers  # as the loop assigns them

HIDDEN = [(), (8,), (8, 5)]


def reference_network(ensemble, teacher, widths):
    """Build the teacher as a plain module with the ensemble's initial weights."""
    layers = []
    for n_in, n_out in pairwise(widths):
        layers += [nn.Linear(n_in, n_out, dtype=torch.float64), nn.LeakyReLU(0.2)]
    network = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        values = zip(network.parameters(), ensemble._parameters, strict=True)
        for parameter, stacked in values:
            start = stacked[teacher].cpu().double()
            parameter.copy_(start.T.reshape(parameter.shape))
    return network


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("hidden_dims", HIDDEN)
def test_equals_a_loop_over_single_networks(hidden_dims, device, global_random_seed):
    """The same draws, one float64 module and one torch optimizer per teacher."""
    n_steps, n_teachers, batch, rate, decay = 5, 12, 6, 0.3, 0.02
    rows = uniform_rows(40, global_random_seed, 3)
    pool = torch.from_numpy(uniform_rows(10, 1, 3))
    ensemble = make_ensemble(
        rows,
        n_teachers,
        rng=np.random.default_rng(global_random_seed),
        n_features=6,
        batch_size=batch,
        hidden_dims=hidden_dims,
        device=device,
    )
    widths = (6, *hidden_dims, 1)
    networks = [reference_network(ensemble, t, widths) for t in range(n_teachers)]
    for _ in range(n_steps):
        ensemble.train_step(pool, with_products)
    logits = ensemble.logits(pool, with_products).cpu()
    chunks = ensemble.iter_feature_gradients(pool, with_products)
    gradients = torch.cat([part for _, part in chunks]).cpu()

    assignment_rng, batch_rng = np.random.default_rng(global_random_seed).spawn(2)
    assignment = assign_teachers(len(rows), n_teachers, assignment_rng)
    shape = (n_steps, 2, n_teachers, batch)
    uniform = batch_rng.random(shape)
    n_compared = 0
    for teacher, network in enumerate(networks):
        part = torch.from_numpy(rows[assignment == teacher])
        if len(part) == 0:
            continue
        n_compared += 1
        # torch multiplies the decay by the rate; ours is per step.
        optimizer = torch.optim.SGD(
            network.parameters(), lr=rate, weight_decay=decay / rate
        )
        for real_draws, fake_draws in uniform[:, :, teacher]:
            real = part[(real_draws * len(part)).astype(int)]
            generated = pool[(fake_draws * len(pool)).astype(int)]
            inputs = with_products(torch.cat([real, generated])).double()
            labels = torch.tensor([1.0] * batch + [0.0] * batch, dtype=torch.float64)
            optimizer.zero_grad()
            output = network(inputs).squeeze(1)
            nn.functional.binary_cross_entropy_with_logits(output, labels).backward()
            optimizer.step()
        queries = with_products(pool).double().requires_grad_()
        expected = network(queries).squeeze(1)
        torch.log(torch.sigmoid(expected)).sum().backward()
        stacked = zip(network.parameters(), ensemble._parameters, strict=True)
        for parameter, ours in stacked:
            ours = ours[teacher].cpu().T.reshape(parameter.shape).double()
            torch.testing.assert_close(ours, parameter.data, rtol=0, atol=1e-6)
        for ours, theirs in (
            (logits[teacher], expected.data),
            (gradients[teacher], queries.grad),
        ):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=1e-6)
    assert n_compared > 6


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("hidden_dims", HIDDEN)
def test_chunks_change_rounding_at_most(hidden_dims, device, monkeypatch):
    """They cover all teachers, and depend on public numbers alone."""
    rows, pool = uniform_rows(60, 0, 3), torch.from_numpy(uniform_rows(10, 1, 3))
    results, parts = [], []
    for entries, n_rows in ((2**20, 60), (600, 60), (600, 7), (1, 60)):
        monkeypatch.setattr(_teachers, "_CHUNK_ENTRIES", entries)
        own = rows[:n_rows]
        ensemble = make_ensemble(own, 30, hidden_dims=hidden_dims, device=device)
        for _ in range(4):
            ensemble.train_step(pool, identity)
        chunks = list(ensemble.iter_feature_gradients(pool, identity))
        parts.append([(part.start, part.stop) for part, _ in chunks])
        gradients = torch.cat([part for _, part in chunks]).flatten(1)
        logits = ensemble.logits(pool, identity)
        weights = [parameter.flatten(1) for parameter in ensemble._parameters]
        results.append(torch.cat([gradients, logits, *weights], dim=1))
    assert parts[1] == parts[2]
    assert len(parts[0]) == 1 < len(parts[1]) < len(parts[3]) == 30
    for own in parts:
        assert [i for start, stop in own for i in range(start, stop)] == [*range(30)]
    for result in (results[1], results[3]):
        torch.testing.assert_close(result, results[0], rtol=0, atol=1e-6)
