"""Clipped gradients of unlabelled rows, as a discriminator of DP-SGD sums them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.training import BranchedDiscriminator, _discriminator

N_COLUMNS, CLIP = 3, 0.5


def make_discriminator(hidden_dims, n_rows=1):
    """One whose weights are not 0, where all rows would look alike."""
    accountant = PrivacyAccountant(math.inf, 1e-5)
    discriminator = BranchedDiscriminator(
        make_rows(n_rows).float().numpy(),
        n_features=N_COLUMNS,
        hidden_dims=hidden_dims,
        loss="logistic",
        learning_rate=1.0,
        weight_bound=math.inf,
        max_grad_norm=CLIP,
        expected_batch_size=1.0,
        reservation=accountant.reserve_sampled_gaussian(
            "steps", mu=math.inf, sampling_rate=1.0
        ),
        rng=np.random.default_rng(0),
        generator=torch.Generator().manual_seed(0),
        device=torch.device("cpu"),
    )
    for p in discriminator._params:
        p.data += 0.1
    return discriminator


def make_rows(n_rows):
    return torch.from_numpy(np.random.default_rng(1).uniform(-2, 2, (n_rows, 3)))


def sum_by_hand(discriminator, rows):
    """Differentiate the loss of one row after the other."""
    leaves = [p.detach().clone().requires_grad_() for p in discriminator._params]
    total = torch.zeros(discriminator.n_parameters, dtype=torch.float64)
    for row in rows:
        value, weights = row * N_COLUMNS**-0.5, list(leaves)
        while len(weights) > 1:
            value = functional.silu(weights.pop(0) @ value + weights.pop(0))
        loss = functional.softplus((weights[0] @ value).squeeze())
        flat = torch.cat([g.flatten() for g in torch.autograd.grad(loss, leaves)])
        total += flat * min(1.0, CLIP / float(flat.norm()))
    return total


@pytest.mark.parametrize("hidden_dims", [(), (6,)], ids=str)
@pytest.mark.parametrize("n_rows", [0, 1, 23])
def test_the_sum_is_that_of_the_clipped_gradients(hidden_dims, n_rows, monkeypatch):
    """Over chunks of 7 rows; both kinds of rows are there, clipped ones and others."""
    monkeypatch.setattr(_discriminator, "_MAX_CHUNK", 7)
    discriminator, rows = make_discriminator(hidden_dims), make_rows(n_rows)
    found = discriminator.clipped_sum(rows, lambda rows: rows)
    expected = sum_by_hand(discriminator, rows)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=2e-6 * CLIP * 23)
    assert found.shape == (discriminator.n_parameters,)


def test_rows_pass_in_chunks_of_one_shape():
    """Another shape may round a row's term otherwise: as many rows of weight 0."""
    discriminator, shapes = make_discriminator(()), []

    def features(rows):
        shapes.append(rows.shape)
        return rows

    for n_rows in (1, 5, 23):
        discriminator.clipped_sum(make_rows(n_rows), features)
    assert len(shapes) >= 3
    assert len(set(shapes)) == 1


@pytest.mark.parametrize("n_rows", [0, 1, 5, 23])
def test_real_rows_of_a_step_pass_in_chunks_of_one_shape(n_rows, monkeypatch):
    """All of them are drawn. Fakes are public: they pass as they are."""
    monkeypatch.setattr(_discriminator, "_MAX_CHUNK", 7)
    discriminator, shapes = make_discriminator((), n_rows), []

    def features(rows):
        shapes.append(tuple(rows.shape))
        return rows

    discriminator.release(features)
    discriminator.follow(make_rows(2), features)
    assert shapes == math.ceil(n_rows / 7) * [(7, N_COLUMNS)] + [(2, N_COLUMNS)]
