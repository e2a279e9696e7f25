"""Clipped gradients of unlabelled rows, as a discriminator of DP-SGD sums them."""

from __future__ import annotations

import math

import _training
import numpy as np
import pytest
import torch
from _training import sum_by_hand

from skdpsynth.training import BranchedDiscriminator

N_COLUMNS, CLIP = 3, 0.5
CHUNK = "skdpsynth.training._discriminator._MAX_CHUNK"


def make_discriminator(hidden_dims, n_rows=1):
    """One whose weights are not 0, where all rows would look alike."""
    settings = {"max_grad_norm": CLIP, "expected_batch_size": 1.0}
    rows = make_rows(n_rows).float().numpy()
    found = _training.make_discriminator(
        rows, BranchedDiscriminator, hidden_dims=hidden_dims, **settings
    )
    for p in found._params:
        p.data += 0.1
    return found


def make_rows(n_rows):
    return torch.from_numpy(np.random.default_rng(1).uniform(-2, 2, (n_rows, 3)))


@pytest.mark.parametrize("hidden_dims", [(), (6,)], ids=str)
@pytest.mark.parametrize("n_rows", [0, 1, 23])
def test_the_sum_is_that_of_the_clipped_gradients(hidden_dims, n_rows, monkeypatch):
    """Over chunks of 7 rows; both kinds of rows are there, clipped ones and others."""
    monkeypatch.setattr(CHUNK, 7)
    discriminator, rows = make_discriminator(hidden_dims), make_rows(n_rows)
    found = discriminator.clipped_sum(rows, lambda rows: rows)
    expected = sum_by_hand(discriminator._params, rows, CLIP, sign=-1.0)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=2e-6 * CLIP * 23)
    assert found.shape == (discriminator.n_parameters,)


@pytest.mark.parametrize("hidden_dims", [(), (6,)], ids=str)
@pytest.mark.parametrize("n_rows", [0, 1, 5, 23])
def test_private_rows_pass_in_chunks_of_one_shape(n_rows, hidden_dims, monkeypatch):
    """Another may round a row's term otherwise. Generated rows pass as they are."""
    monkeypatch.setattr(CHUNK, 7)
    discriminator, shapes = make_discriminator(hidden_dims, n_rows), []

    def features(rows):
        shapes.append(tuple(rows.shape))
        return rows

    discriminator.release(features)
    discriminator.follow(make_rows(2), features)
    chunks = math.ceil(n_rows / 7) * [(7, N_COLUMNS)]
    # With hidden layers generated rows have a penalty, too.
    generated = (2 if hidden_dims else 1) * [(2, N_COLUMNS)]
    assert shapes == [*chunks, *generated]
    discriminator.clipped_sum(make_rows(n_rows), features)
    assert shapes == [*chunks, *generated, *chunks]
