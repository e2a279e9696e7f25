"""The factors and their trainer: what they draw, and how updates move them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from _training import ALL, PAIRS, factor_trainer, make_ensemble, teacher_scores
from scipy.stats import kstest

from skdpsynth.generators import FactorGenerator
from skdpsynth.models import resolve_device
from skdpsynth.training import teacher_gradients

N_COLUMNS, N_FACTORS = 3, 2


def parameters_of(seed=0, *, moved=True):
    rng = np.random.default_rng(seed)
    return {
        "loadings": rng.normal(size=(N_COLUMNS, N_FACTORS)),
        "location": rng.normal(size=N_COLUMNS) * moved,
        "log_scale": rng.normal(size=N_COLUMNS) * 0.5 * moved,
    }


def make_trainer(trained=PAIRS, *, n_steps=4, seed=0, **parameters):
    start = parameters_of(seed, moved=trained is ALL) | parameters
    return factor_trainer(start, trained, seed=seed, n_steps=n_steps, learning_rate=0.3)


def make_teachers(trainer, n_teachers=9, n_rows=60, hidden_dims=()):
    rows = np.random.default_rng(5).normal(size=(n_rows, N_COLUMNS))
    teachers = make_ensemble(
        rows.astype(np.float32),
        n_teachers,
        seed=1,
        n_features=trainer.n_features,
        hidden_dims=hidden_dims,
        learning_rate=0.5,
        weight_decay=0.1,
        batch_size=8,
    )
    features = trainer.features()
    for _ in range(3):
        teachers.train_step(trainer.rows(trainer.draw(32)), features)
    return teachers, features


def test_scores_have_the_correlation_that_the_loadings_say(global_random_seed):
    """Marginals are standard normal whatever the loadings.

    False alarms: 3 Kolmogorov tests at 1e-7 and 3 correlations within 6 standard
    errors (1 / sqrt(n) bounds them), at most 1e-6 in all.
    """
    n_rows, loadings = 20_000, 3.0 * parameters_of()["loadings"]
    flat = {"location": np.zeros(N_COLUMNS), "log_scale": np.zeros(N_COLUMNS)}
    generator = FactorGenerator([{"loadings": loadings, **flat}])
    rng = np.random.default_rng(global_random_seed)
    scores = generator.scores(np.zeros(n_rows, dtype=np.int64), rng)
    covariance = loadings @ loadings.T + np.eye(N_COLUMNS)
    norms = np.sqrt(np.diag(covariance))
    expected = covariance / np.outer(norms, norms)
    for column in scores.T:
        assert kstest(column, "norm").pvalue > 1e-7
    found = np.corrcoef(scores.T)
    np.testing.assert_allclose(found, expected, rtol=0, atol=6 / np.sqrt(n_rows))
    assert np.abs(expected - np.eye(N_COLUMNS)).max() > 0.5


def test_the_trainer_draws_as_its_generator_does():
    """The same draws give the same rows in torch and in numpy, of its own class."""
    trainer, n_rows = make_trainer(ALL), 50
    draws = trainer.draw(n_rows)
    values = [draws.noise.double().numpy(), draws.factors.double().numpy()]
    replay = SimpleNamespace(standard_normal=lambda shape: values.pop(0).copy())
    generator = FactorGenerator([parameters_of(2), parameters_of()])
    codes = np.arange(n_rows) % 2
    found, expected = generator.scores(codes, replay), trainer.rows(draws).numpy()
    np.testing.assert_allclose(found[1::2], expected[1::2], atol=1e-5)
    assert np.abs(found[::2] - expected[::2]).max() > 0.1
    # A class that is not asked for is no error.
    none = np.zeros(0, dtype=np.int64)
    assert generator.scores(none, np.random.default_rng(0)).shape == (0, 3)


@pytest.mark.parametrize("trained", [PAIRS, ALL])
def test_pull_back_is_the_gradient_of_equation_2(trained):
    """Minus the gradient of mean |G(z) - (G(z) + dx)|^2 / 2, by plain autograd."""
    trainer = make_trainer(trained)
    draws, directions = trainer.draw(7), torch.randn(7, N_COLUMNS)
    leaves = {
        name: value.clone().requires_grad_(name in trained)
        for name, value in trainer.parameters.items()
    }
    target = trainer.rows(draws) + directions
    rows = trainer.rows(draws, leaves)
    loss = ((rows - target.detach()) ** 2).sum(dim=1).mean() / 2
    loss.backward()
    by_hand = {name: -leaves[name].grad for name in trained}
    if "location" in trained:
        by_hand["location"] *= torch.exp(leaves["log_scale"].detach())
    expected = torch.cat([by_hand[name].flatten() for name in trained])
    pulled = trainer.pull_back(draws, directions)
    torch.testing.assert_close(pulled, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hidden_dims", [(), (5,)])
@pytest.mark.parametrize("trained", [PAIRS, ALL])
def test_teacher_gradients_equal_a_loop_over_teachers(trained, hidden_dims):
    trainer = make_trainer(trained)
    teachers, features = make_teachers(trainer, hidden_dims=hidden_dims)
    draws = trainer.draw(6)
    found = teacher_gradients(teachers, trainer, draws, features)
    assert found.shape == (9, len(trainer.units))
    for teacher in range(9):
        leaves = {n: v.clone().requires_grad_() for n, v in trainer.parameters.items()}
        own = [p[teacher] for p in teachers._parameters]
        scores = teacher_scores(own, features(trainer.rows(draws, leaves)))
        torch.nn.functional.logsigmoid(scores).mean().backward()
        gradients = {name: leaves[name].grad for name in trained}
        if "location" in trained:
            gradients["location"] = gradients["location"] * trainer.scales
        expected = torch.cat([gradients[name].flatten() for name in trained])
        assert expected.any() or not teachers._counts[teacher]
        if not teachers._counts[teacher]:  # it saw no row, and gives no update
            expected = torch.zeros_like(expected)
        np.testing.assert_allclose(found[teacher], expected, rtol=1e-6, atol=2e-6)


def test_features_are_products_with_the_factors_seen_in_the_row():
    trainer = make_trainer()
    row = torch.tensor([0.5, -1.0, 2.0])
    loadings = trainer.parameters["loadings"]
    directions = loadings / loadings.norm(dim=0)
    expected = []
    for j in range(N_COLUMNS):
        others = [i for i in range(N_COLUMNS) if i != j]
        expected.append(row[j] * (row[others] @ directions[others]))
    found = trainer.features()(row)
    torch.testing.assert_close(found, torch.cat(expected))
    assert found.shape == (trainer.n_features,)


def test_features_from_nothing_are_standardised_moments():
    trainer = make_trainer(ALL)
    own, rows = trainer.parameters, trainer.rows(trainer.draw(20))
    standard = (rows - own["location"]) / torch.exp(own["log_scale"])
    found = trainer.features()(rows)
    assert found.shape == (20, trainer.n_features)
    torch.testing.assert_close(found[:, :N_COLUMNS], standard)
    torch.testing.assert_close(found[:, N_COLUMNS : 2 * N_COLUMNS], standard**2 - 1)
    # Teachers see one public map during a step, whatever the trainer does.
    features = trainer.features()
    trainer.ascend(torch.ones(len(trainer.units)))
    assert torch.equal(features(rows), found)
    assert not torch.equal(trainer.features()(rows), found)


@pytest.mark.parametrize("n_steps", [1, 2, 3, 6])
def test_steps_shrink_and_the_result_is_the_mean_of_the_second_half(n_steps):
    trainer = make_trainer(n_steps=n_steps)
    value = trainer.parameters["loadings"].clone()
    update, path = torch.arange(6.0), []
    for step in range(n_steps):
        trainer.ascend(update)
        value = value + 0.3 * (1 - step / n_steps) * update.reshape(value.shape)
        path.append(value)
    result = trainer.result()
    half = torch.stack(path[n_steps // 2 :]).mean(dim=0)
    np.testing.assert_allclose(result["loadings"], half.numpy(), rtol=1e-5)
    np.testing.assert_array_equal(result["location"], np.zeros(N_COLUMNS))
    assert all(array.dtype == np.float64 for array in result.values())


def test_pure_noise_cannot_make_rows_overflow():
    """A location moves in scales of its column."""
    log_scale = np.array([-2.0, 0.0, 1.0])
    trainer = make_trainer(ALL, log_scale=log_scale, location=np.zeros(N_COLUMNS))
    trainer.ascend(torch.ones(len(trainer.units)))
    moved = trainer.parameters["location"].numpy()
    np.testing.assert_allclose(moved, 0.3 * np.exp(log_scale), rtol=1e-5)
    for sign in (1, -1, 1):
        trainer.ascend(sign * torch.full((len(trainer.units),), 1e12))
    generator, codes = (
        FactorGenerator([trainer.result()]),
        np.zeros(1000, dtype=np.int64),
    )
    assert np.isfinite(generator.scores(codes, np.random.default_rng(0))).all()
    assert torch.isfinite(trainer.features()(trainer.rows(trainer.draw(50)))).all()


@pytest.mark.parametrize("device", ["nothing", "cpu:x", "meta", "cuda:99"])
def test_a_device_that_cannot_compute_is_refused(device):
    with pytest.raises(ValueError, match="'cpu' always works"):
        resolve_device(device)
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert resolve_device("auto").type == expected


def test_a_borrower_gets_the_loadings_of_another_class():
    """And no more than that: location and scale are those of its own marginals."""
    generator = FactorGenerator([parameters_of(seed) for seed in range(3)])
    before = [dict(own) for own in generator.parameters]
    generator.lend({2: 1})
    for c, own in enumerate(generator.parameters):
        source = 1 if c == 2 else c
        np.testing.assert_array_equal(own["loadings"], before[source]["loadings"])
        np.testing.assert_array_equal(own["location"], before[c]["location"])
