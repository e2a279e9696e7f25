"""Trainers, discriminators and teachers on small tables; their networks by hand."""

import math

import numpy as np
import pytest
import torch

from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.training import Discriminator, FactorTrainer, TeacherEnsemble

# Private: what draws samples and teachers, whose laws are claims.
from skdpsynth.training._dp_sgd import sampled as sampled
from skdpsynth.training._teachers import assign_teachers as assign_teachers

CPU = torch.device("cpu")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def identity(rows):
    return rows


def with_products(rows):
    """The row and the products of its neighbouring entries."""
    return torch.cat([rows, rows * rows.roll(1, dims=-1)], dim=-1)


def uniform_rows(n_rows, seed=0, n_columns=3, width=1.0):
    draws = np.random.default_rng(seed).uniform(-width, width, (n_rows, n_columns))
    return draws.astype(np.float32)


def factor_trainer(loadings, *, moments=None, seed=0, **changes):
    """By default scores are normal."""
    settings = {"n_steps": 4, "learning_rate": 0.1, "device": CPU} | changes
    generator = torch.Generator().manual_seed(seed)
    if moments is None:
        moments = np.repeat([[0.0], [1.0], [1.0]], len(loadings), axis=1)
    first = np.asarray(loadings), moments
    return FactorTrainer(*first, generator=generator, **settings)


def reserve(*, epsilon=math.inf, count=1, rate=1.0):
    accountant = PrivacyAccountant(epsilon, 1e-5)
    mu = accountant.mu_cap / math.sqrt(count) * (1 - 1e-9)
    return accountant.reserve_sampled_gaussian(
        "steps", mu=mu, sampling_rate=rate, count=count
    )


def make_discriminator(rows, **changes):
    settings = {
        "n_features": rows.shape[1],
        "hidden_dims": (),
        "loss": "logistic",
        "learning_rate": 1.0,
        "weight_bound": math.inf,
        "max_grad_norm": 0.1,  # below the gradient norm of most rows
        "expected_batch_size": 10.0,
        "reservation": reserve(),
        "rng": np.random.default_rng(0),
        "generator": torch.Generator().manual_seed(0),
        "device": CPU,
    }
    return Discriminator(rows, **(settings | changes))


def make_ensemble(rows, n_teachers=12, *, seed=0, **changes):
    settings = {
        "n_features": rows.shape[1],
        "n_read": 6,
        "rng": np.random.default_rng(seed),
        "generator": torch.Generator().manual_seed(seed),
        "device": CPU,
    }
    return TeacherEnsemble(rows, n_teachers, **(settings | changes))


def leaves(parameters):
    return [p.detach().double().requires_grad_() for p in parameters]


def scores_by_hand(parameters, values):
    """The scores of rows of features; all layers but the last have biases."""
    rest = list(parameters)
    while len(rest) > 1:
        values = values @ rest.pop(0).T + rest.pop(0)
        values = values / (1 + torch.exp(-values))
    return values @ rest.pop(0).T


def flat_gradient(value, own):
    parts = torch.autograd.grad(value, own, materialize_grads=True)
    return torch.cat([part.flatten() for part in parts]).numpy()


def sum_by_hand(parameters, values, losses, clip, weights=None):
    """Clip and add the gradients of one row after the other, by autograd alone."""
    own = leaves(parameters)
    total = np.zeros(sum(p.numel() for p in own))
    weights = np.ones(len(values)) if weights is None else weights
    for row, weight in zip(values.double(), weights, strict=True):
        vector = flat_gradient(losses(scores_by_hand(own, row[None])).sum(), own)
        total += weight * vector / max(1.0, np.linalg.norm(vector) / clip)
    return total


def teacher_scores(parameters, rows):
    """The network of one teacher written out."""
    values, rest = rows, list(parameters)
    while rest:
        values = values @ rest.pop(0) + rest.pop(0)
        values = torch.nn.functional.relu(values) if rest else values
    return values.squeeze(1)
