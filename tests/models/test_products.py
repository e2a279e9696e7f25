"""Sums of products are those of the features themselves."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from _training import ALL, PAIRS, factor_trainer, make_discriminator, reserve

from skdpsynth.generators import FactorGenerator

N_COLUMNS, N_FACTORS = 7, 3


def make_trainer(trained, n_columns=N_COLUMNS, n_factors=N_FACTORS):
    (parameters,) = FactorGenerator.initial(1, n_columns, n_factors, 0).parameters
    rng = np.random.default_rng(1)
    parameters["location"] = rng.normal(size=n_columns)
    parameters["log_scale"] = 0.3 * rng.normal(size=n_columns)
    parameters["loadings"][:, 0] = 0.0 if n_factors > 2 else 1.0  # a factor of no use
    return factor_trainer(parameters, trained, n_steps=9, dtype=torch.float64)


def make_rows(n_rows=23, n_columns=N_COLUMNS):
    rng = np.random.default_rng(2)
    return torch.from_numpy(rng.uniform(-3, 3, (n_rows, n_columns)))


@pytest.mark.parametrize("trained", [PAIRS, ALL], ids=["pairs", "all"])
def test_sums_are_those_of_the_features(trained):
    features, rows = make_trainer(trained).features(), make_rows()
    formed = features(rows)
    torch.testing.assert_close(features.norms(rows), formed.norm(dim=1))
    weights = torch.randn(formed.shape[1], dtype=torch.float64)
    torch.testing.assert_close(features.scores(rows, weights), formed @ weights)
    weights = torch.randn(len(rows), dtype=torch.float64)
    torch.testing.assert_close(features.weighted_sum(rows, weights), weights @ formed)


def without_noise(trainer, loss, clip):
    """A linear discriminator."""
    settings = {"loss": loss, "max_grad_norm": clip, "expected_batch_size": 20.0}
    settings |= {"n_features": trainer.n_features, "reservation": reserve(count=2)}
    return make_discriminator(make_rows().float().numpy(), **settings)


def train_once(trainer, features, loss, clip):
    """One step of the discriminator, and the generator's gradient."""
    discriminator = without_noise(trainer, loss, clip)
    generated = trainer.rows(trainer.draw(40))
    discriminator.release(features)
    discriminator.follow(generated + 0.1, features)
    objective = partial(discriminator.objective, features=features)
    gradient = trainer.gradient(trainer.draw(40), objective)
    return discriminator._params[0].detach(), gradient


@pytest.mark.parametrize("clip", [0.5, 100.0], ids=["clipped", "whole"])
@pytest.mark.parametrize("loss", ["logistic", "wasserstein"])
@pytest.mark.parametrize("trained", [PAIRS, ALL], ids=["pairs", "all"])
def test_a_step_is_that_of_opacus(trained, loss, clip):
    """Fakes through matrix products, and through gradients of every example."""
    results = []
    for as_products in (True, False):
        trainer = make_trainer(trained)
        features = trainer.features()
        if not as_products:  # a plain callable, of which nothing is known
            features = features.__call__
        results.append(train_once(trainer, features, loss, clip))
    (weight, gradient), (by_opacus, its_gradient) = results
    # `clipped_sums` clips a millionth below C.
    torch.testing.assert_close(weight, by_opacus, rtol=0.0, atol=2e-6 * clip)
    torch.testing.assert_close(gradient, its_gradient, rtol=1e-4, atol=1e-7)
