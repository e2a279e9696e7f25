"""What all trainers do with a gradient, and the factors of a class in training."""

import math
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from _training import factor_trainer
from scipy.special import ndtri

from skdpsynth.model import FactorGenerator
from skdpsynth.training import n_products, resolve_device

LOADINGS = np.random.default_rng(0).normal(size=(3, 2))
RATE = 0.3


def make_trainer(n_steps=4, loadings=LOADINGS, seed=0):
    return factor_trainer(loadings, n_steps=n_steps, learning_rate=RATE, seed=seed)


# --- Steps --------------------------------------------------------------------------


@pytest.mark.parametrize("n_steps", [1, 2, 3, 6])
def test_steps_shrink_and_the_result_is_the_mean_of_the_second_half(n_steps):
    """A step is as long whatever the length of the gradient is; a share is shorter."""
    trainer, place, path = make_trainer(n_steps), LOADINGS.copy(), []
    gradient = torch.arange(6.0)
    unit = gradient.numpy().reshape(3, 2)
    unit = unit / (unit + math.sqrt(55 / 6))  # at most 1, whatever one of them is
    for step in range(n_steps):
        share = 1.0 - 0.1 * step
        trainer.ascend(10.0**step * gradient, share)
        place = place + RATE * (1 - step / n_steps) * share * unit
        path.append(place)
        np.testing.assert_allclose(trainer.present(), place, rtol=1e-5)
    result = trainer.result()
    np.testing.assert_allclose(result, np.mean(path[n_steps // 2 :], axis=0), rtol=1e-5)
    assert result.dtype == np.float64


def test_no_gradient_is_no_step_and_noise_overflows_nothing():
    trainer = make_trainer()
    trainer.ascend(torch.zeros(6))
    np.testing.assert_allclose(trainer.present(), LOADINGS, rtol=1e-6)
    far = make_trainer(loadings=np.full((3, 2), 1e30))
    for _ in range(2):
        far.ascend(torch.full((6,), 1e30))
    far.ascend(torch.full((6,), -1e-30))
    result = far.result()
    assert np.isfinite(result).all()
    assert far.rows(far.draw(50)).isfinite().all()
    # A file with larger ones would be refused.
    document, arrays = FactorGenerator(result[None]).to_state()
    FactorGenerator.from_state(document, arrays, 1, 3)


# --- Factors ------------------------------------------------------------------------


def test_the_trainer_draws_as_its_generator_does():
    """The same draws give the same rows in torch and in numpy, of its own class."""
    trainer, n_rows = make_trainer(), 50
    draws = trainer.draw(n_rows)
    values = [draws.noise.double().numpy(), draws.factors.double().numpy()]
    replay = SimpleNamespace(standard_normal=lambda shape: values.pop(0).copy())
    generator = FactorGenerator(np.array([LOADINGS + 1.0, LOADINGS]))
    codes = np.arange(n_rows) % 2
    found, expected = ndtri(generator.draw(codes, replay)), trainer.rows(draws).numpy()
    np.testing.assert_allclose(found[1::2], expected[1::2], atol=1e-5)
    assert np.abs(found[::2] - expected[::2]).max() > 0.1


def test_the_gradient_is_that_of_the_mean_score():
    """By finite differences of rows that are computed anew, in doubles."""
    trainer = make_trainer()
    draws = trainer.draw(200)
    noise, factors = (part.double().numpy() for part in draws)

    def score(rows):
        return rows[:, 0] * rows[:, 1] - 0.3 * rows[:, 2] ** 2

    def mean_score(loadings):
        rows = noise + factors @ loadings.T
        return float(score(rows / np.sqrt(1 + (loadings**2).sum(axis=1))).mean())

    expected = []
    for place in np.ndindex(3, 2):
        step = np.zeros((3, 2))
        step[place] = 1e-6
        both = mean_score(LOADINGS + step), mean_score(LOADINGS - step)
        expected.append((both[0] - both[1]) / 2e-6)
    found = trainer.gradient(draws, score)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("n_columns", [2, 5, 20])
def test_features_are_products_of_all_pairs_of_columns(n_columns):
    trainer = make_trainer(loadings=np.ones((n_columns, n_columns)))
    rows = trainer.rows(trainer.draw(20))
    pairs = combinations(range(n_columns), 2)
    expected = torch.stack([rows[:, i] * rows[:, j] for i, j in pairs], dim=1)
    trainer.ascend(torch.ones(n_columns**2))
    torch.testing.assert_close(trainer.features(rows), expected)
    assert trainer.n_features == n_products(n_columns) == expected.shape[1]
    torch.testing.assert_close(trainer.features(rows[None, 3]), expected[None, 3])


@pytest.mark.parametrize(("n_factors", "n_features"), [(1, 1), (3, 6), (33, 253)])
def test_features_of_many_columns_are_products_along_the_factors(n_factors, n_features):
    """Of mean 0 at first, and uncorrelated squares; none of them joins two rows."""
    loadings = np.random.default_rng(1).normal(size=(60, n_factors))
    trainer = make_trainer(loadings=loadings)
    rows = trainer.rows(trainer.draw(20_000))
    values = trainer.features(rows)
    assert values.shape == (20_000, n_features) == (20_000, trainer.n_features)
    assert values.mean(dim=0).abs().max() < 0.1
    torch.testing.assert_close(trainer.features(rows[:7]), values[:7])
    assert trainer.features(rows.double()).dtype == torch.float64


def test_what_is_trained_of_many_columns_is_how_factors_mix():
    """Real rows depend twice as much along one factor, and not along the other."""
    loadings = np.zeros((60, 2))
    loadings[:30, 0] = loadings[30:, 1] = 0.5
    trainer = factor_trainer(loadings, n_steps=100, learning_rate=0.05)
    real = factor_trainer(loadings * [2.0, 0.0], seed=1)
    aim = trainer.features(real.rows(real.draw(20_000))).mean(dim=0)
    for _ in range(100):
        draws, features = trainer.draw(512), trainer.features
        missing = aim - features(trainer.rows(draws)).mean(dim=0)
        trainer.ascend(trainer.gradient(draws, lambda rows: features(rows) @ missing))  # noqa: B023
    strengths = np.square(trainer.result()).sum(axis=1)
    assert strengths[:30] == pytest.approx(1.0, abs=0.1)
    assert strengths[30:].max() < 0.1


@pytest.mark.parametrize("device", ["nothing", "cpu:x", "meta", "cuda:99"])
def test_a_device_that_cannot_compute_is_refused(device):
    with pytest.raises(ValueError, match="'cpu' always works"):
        resolve_device(device)
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert resolve_device("auto").type == expected
