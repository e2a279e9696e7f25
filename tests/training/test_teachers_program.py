"""The batched program equals a loop over single teachers."""

import numpy as np
import pytest
import torch
from _training import (
    DEVICES,
    identity,
    leaves,
    make_ensemble,
    teacher_scores,
    uniform_rows,
    with_products,
)
from torch.nn import functional

from skdpsynth.training import _teachers  # smaller chunks
from skdpsynth.training._teachers import assign_teachers  # as the loop assigns them

HIDDEN = [(), (8,), (8, 5)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("hidden_dims", HIDDEN)
def test_equals_a_loop_over_single_networks(hidden_dims, device, global_random_seed):
    """The same draws, and gradient descent in doubles for one teacher at a time."""
    n_steps, n_teachers, batch, rate, decay = 5, 12, 6, 0.3, 0.02
    rows = uniform_rows(40, global_random_seed, 3)
    pool = torch.from_numpy(uniform_rows(10, 1, 3))
    ensemble = make_ensemble(
        rows,
        n_teachers,
        seed=global_random_seed,
        n_features=6,
        hidden_dims=hidden_dims,
        device=device,
    )
    starts = [p.cpu().clone() for p in ensemble._parameters]
    for _ in range(n_steps):
        ensemble.train_step(pool, with_products)
    logits = ensemble.logits(pool, with_products).cpu()
    chunks = ensemble.iter_feature_gradients(pool, with_products)
    gradients = torch.cat([part for _, part in chunks]).cpu()

    assignment_rng, batch_rng = np.random.default_rng(global_random_seed).spawn(2)
    assignment = assign_teachers(len(rows), n_teachers, assignment_rng)
    uniform = batch_rng.random((n_steps, 2, n_teachers, batch))
    labels = torch.tensor([1.0] * batch + [0.0] * batch, dtype=torch.float64)
    with_rows = [t for t in range(n_teachers) if (assignment == t).any()]
    assert len(with_rows) > 6
    for teacher in with_rows:
        part = torch.from_numpy(rows[assignment == teacher])
        own = leaves([start[teacher] for start in starts])
        for real_draws, fake_draws in uniform[:, :, teacher]:
            real = part[(real_draws * len(part)).astype(int)]
            generated = pool[(fake_draws * len(pool)).astype(int)]
            inputs = with_products(torch.cat([real, generated])).double()
            scores = teacher_scores(own, inputs)
            loss = functional.binary_cross_entropy_with_logits(scores, labels)
            slopes = torch.autograd.grad(loss, own)
            pairs = zip(own, slopes, strict=True)
            own = leaves([(1 - decay) * p - rate * slope for p, slope in pairs])
        queries = with_products(pool).double().requires_grad_()
        expected = teacher_scores(own, queries)
        (slopes,) = torch.autograd.grad(functional.logsigmoid(expected).sum(), queries)
        found = [p[teacher].cpu() for p in ensemble._parameters]
        for ours, theirs in zip(
            [*found, logits[teacher], gradients[teacher]],
            [*own, expected, slopes],
            strict=True,
        ):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=1e-6)


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
