"""What all trainers do with a gradient, and the factors of a class in training."""

import copy
import math
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from _training import factor_trainer
from scipy.special import ndtri

from skdpsynth.model import Adam, FactorGenerator
from skdpsynth.training import NetworkTrainer, n_products, resolve_device

LOADINGS = np.random.default_rng(0).normal(size=(3, 2))
RATE = 0.3


def make_trainer(n_steps=4, loadings=LOADINGS, seed=0):
    return factor_trainer(loadings, n_steps=n_steps, learning_rate=RATE, seed=seed)


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


def test_the_trainer_draws_as_its_generator_does():
    """The same draws give the same rows in torch and in numpy, of its own class."""
    trainer, n_rows = make_trainer(), 50
    draws = trainer.draw(n_rows)
    values = [draws.noise.double().numpy(), draws.codes.double().numpy()]
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
    factors, noise = (part.double().numpy() for part in draws)

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


def test_rows_of_the_model_itself_have_the_features_that_it_expects():
    """Values below a limit are equal, as the many zeros of a table: in 60 % of rows.

    100,000 rows: a mean feature deviates by .005. As if all values differed, it is .24
    (all pairs) and .5 (along factors) off.
    """
    limit = ndtri(0.6)
    normal = np.random.default_rng(2).standard_normal(200_000)
    scores = shown(normal, limit)
    slope = (scores * normal).mean()
    for n_columns, n_factors in ((3, 2), (60, 2)):
        loadings = np.random.default_rng(3).normal(size=(n_columns, n_factors))
        same = np.ones(n_columns)
        moments = np.outer([scores.mean(), scores.std(), slope], same)
        trainer = factor_trainer(loadings, moments=moments)
        latent = factor_trainer(loadings, seed=1)
        values = latent.rows(latent.draw(100_000)).double().numpy()
        real = trainer.features(torch.from_numpy(shown(values, limit))).mean(dim=0)
        expected = trainer.features(trainer.rows(trainer.draw(100_000))).mean(dim=0)
        off = (real - expected).abs()
        assert off.max() < 0.12, (n_columns, off.max())


def shown(normal, limit):
    """Return the scores of normal numbers of which those below the limit are equal."""
    return np.where(normal < limit, ndtri(0.3), normal)


@pytest.mark.parametrize("device", ["nothing", "cpu:x", "meta", "cuda:99"])
def test_a_device_that_cannot_compute_is_refused(device):
    with pytest.raises(ValueError, match="'cpu' always works"):
        resolve_device(device)
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert resolve_device("auto").type == expected


@pytest.mark.parametrize("momentum", [0.9, 0.5, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_directions_are_those_of_torch(momentum, dtype):
    generator = torch.Generator().manual_seed(0)
    place = torch.zeros(7, dtype=dtype)
    settings = (momentum, 0.99), 1e-3
    expected = torch.optim.Adam([place], 1.0, *settings, maximize=True)
    adam = Adam(*settings)
    for step in range(20):
        place.zero_()
        place.grad = torch.randn(7, dtype=dtype, generator=generator) * 10.0**-step
        expected.step()
        # A copy, as a discriminator takes that follows, leaves the state alone.
        copy.deepcopy(adam)([place.grad + 1.0])
        torch.testing.assert_close(adam([place.grad])[0], place)


# --- The network as a generator: its rows, its gradients and what is left of it -------


STARTS = np.array([0, 3, 5, 9, 13, 33])
N_BINS = 33
RANKS = np.zeros((2, N_BINS))
# Of two columns: the first two bins, and the other two.
GROUPS = np.zeros((N_BINS, 4), dtype=np.float32)
GROUPS[5:7, 0] = GROUPS[7:9, 1] = GROUPS[9:11, 2] = GROUPS[11:13, 3] = 1.0
OF_COLUMNS = [GROUPS[:3, :0], GROUPS[3:5, :0], GROUPS[5:9, :2]]
OF_COLUMNS += [GROUPS[9:13, 2:], GROUPS[13:, :0]]


def network_trainer(n_steps=20):
    return NetworkTrainer(
        RANKS,
        OF_COLUMNS,
        (6, 5),
        n_steps=n_steps,
        learning_rate=1.0,
        generator=torch.Generator().manual_seed(3),
        device=torch.device("cpu"),
    )


def probabilities(trainer, codes):
    """Give what the network says of codes, by another implementation."""
    values = codes.double().numpy()
    parts = [p.double().numpy() for p in trainer.parameters.values()]
    for layer in range(0, len(parts), 2):
        if layer:
            values = values / (1 + np.exp(-values))
        values = values @ parts[layer].T + parts[layer + 1]
    values = values[:, :N_BINS] + values[:, N_BINS:] @ GROUPS.T
    split = np.split(np.exp(values), STARTS[1:-1], axis=1)
    return np.concatenate([v / v.sum(1, keepdims=True) for v in split], axis=1)


def test_a_row_has_one_bin_of_every_column_as_often_as_the_network_says():
    """Its features are its bins and groups of bins, of a length that all rows have."""
    trainer = network_trainer()
    draws = trainer.draw(40_000)
    # The same code for all rows.
    draws = draws._replace(codes=draws.codes[:1].expand(40_000, -1))
    rows = trainer.rows(draws).numpy()
    assert set(np.unique(rows)) == {0.0, 1.0}
    of_column = np.add.reduceat(rows, STARTS[:-1], axis=1)
    assert (of_column == 1).all()
    features = trainer.features(trainer.rows(draws))[:5]
    assert features.shape[1] == trainer.n_features
    length = np.sqrt(trainer.n_features)
    np.testing.assert_allclose(features.norm(dim=1), length, rtol=1e-6)
    groups = features[:, N_BINS:] / features.max()
    np.testing.assert_allclose(groups, rows[:5] @ GROUPS, rtol=1e-6)
    expected = probabilities(trainer, draws.codes[:1])[0]
    # Six deviations of a share, in 33 of them: a false alarm in 10**7 runs.
    np.testing.assert_allclose(rows.mean(axis=0), expected, atol=6 * 0.5 / 200)


def test_the_gradient_passes_through_the_relaxed_row():
    """Of a score that is linear in the row, by differences of the relaxed one."""
    trainer = network_trainer()
    draws = trainer.draw(7)
    weights = torch.arange(float(N_BINS))

    def relaxed_score():
        logits = np.log(probabilities(trainer, draws.codes)) + draws.noise.numpy()
        split = np.split(np.exp(2.0 * logits), STARTS[1:-1], axis=1)
        rows = np.concatenate([v / v.sum(1, keepdims=True) for v in split], axis=1)
        return (rows @ weights.numpy()).mean()

    found = trainer.gradient(draws, lambda rows: rows @ weights)
    flat = trainer._flat()
    for place in range(0, len(flat), 5):
        step = torch.zeros_like(flat)
        step[place] = 1e-2
        trainer._set(flat + step)
        above = relaxed_score()
        trainer._set(flat - step)
        slope = (above - relaxed_score()) / 2e-2
        assert float(found[place]) == pytest.approx(slope, abs=5e-3)


def test_a_gradient_of_a_score_of_two_columns_sees_the_row_that_was_drawn():
    """Straight through: a bin's slope is taken where the other column's bin is."""
    trainer = network_trainer()
    draws = trainer.draw(9)
    rows = trainer.rows(draws)
    both = trainer.gradient(draws, lambda r: r[:, 0] * r[:, 3])
    parts = trainer.gradient(
        draws, lambda r: r[:, 0] * rows[:, 3] + rows[:, 0] * r[:, 3]
    )
    np.testing.assert_allclose(both, parts, atol=1e-7)


def test_scales_are_deviations_of_bins_and_follow_the_weights():
    trainer = network_trainer()
    scales = trainer.scales
    rows = trainer.rows(trainer.draw(50_000)).numpy()
    # Of 256 codes, whose bins are nearly even at first.
    np.testing.assert_allclose(scales, rows.std(axis=0), atol=0.03)
    trainer._set(50.0 * trainer._flat())
    assert float((trainer.scales - scales).abs().max()) > 0.03


def test_what_is_kept_is_the_network_at_many_codes():
    """The mean over the second half of the steps, at codes that are as likely."""
    trainer = network_trainer(n_steps=2)
    trainer.ascend(torch.ones_like(trainer._flat()))
    trainer.ascend(-torch.ones_like(trainer._flat()))
    last = trainer._flat()
    mixture = trainer.result()
    torch.testing.assert_close(trainer._flat(), last)
    assert mixture.weights.sum() == pytest.approx(1)
    shares = mixture.weights @ mixture.probabilities
    # Both stand for the normal distribution of codes: 10,000 and 50,000 draws.
    drawn = trainer.rows(trainer.draw(50_000)).double().mean(0)
    np.testing.assert_allclose(shares, drawn, atol=0.03)
    assert (mixture.probabilities.std(axis=0) > 1e-3).all()


def test_a_step_is_one_of_adam():
    """All weights move by the learning rate at first, whatever the gradient's size.

    And rows follow, of the same draws.
    """
    trainer = network_trainer()
    before, draws = trainer._flat(), trainer.draw(50)
    rows = trainer.rows(draws)
    gradient = 10.0 ** torch.linspace(-6, 6, len(before))
    trainer.ascend(-gradient, share=0.5)
    torch.testing.assert_close(before - trainer._flat(), torch.full_like(before, 0.5))
    assert not torch.equal(trainer.rows(draws), rows)
