"""The student discriminator: its view, its replay of labels, and what it forgets."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from _training import ALL, PAIRS, factor_trainer

from skdpsynth.generators import FactorGenerator
from skdpsynth.training import (
    GeneratorAscent,
    LabelBuffer,
    StudentDiscriminator,
    View,
    label_slope,
    view_size,
)


def make_trainer(n_columns=6, n_factors=2, trained=PAIRS, seed=0, **settings):
    parameters = FactorGenerator.initial(1, n_columns, n_factors, seed).parameters[0]
    rng = np.random.default_rng(seed)
    parameters["loadings"] = rng.normal(size=(n_columns, n_factors))
    if "location" in trained:
        parameters["location"] = rng.normal(size=n_columns)
        parameters["log_scale"] = 0.3 * rng.normal(size=n_columns)
    settings = {"n_steps": 100} | settings
    return factor_trainer(parameters, trained, seed=seed, **settings)


@pytest.mark.parametrize("trained", [PAIRS, ALL], ids=["pairs", "all"])
@pytest.mark.parametrize("n_columns", [6, 50])
def test_moments_and_features_agree_with_draws(n_columns, trained):
    """The exact means are those of 100,000 draws; the centre makes features 0."""
    trainer = make_trainer(n_columns, trained=trained)
    rows = trainer.rows(trainer.draw(100_000)).double()
    augmented = torch.cat([torch.ones(len(rows), 1).double(), rows], dim=1)
    drawn = augmented.T @ augmented / len(rows)
    exact = trainer.moments().double()
    assert (drawn - exact).abs().max() < 0.15
    view = View.of(trainer)
    features = view.features(rows[:20_000].float())
    assert features.shape[1] == view.n_features == len(view.centre)
    assert view.n_features == view_size(n_columns, 2, only_pairs=len(trained) == 1)
    assert features.mean(dim=0).abs().max() < 0.2


@pytest.mark.parametrize("n_columns", [5, 50])
@pytest.mark.parametrize("trained", [PAIRS, ALL], ids=["pairs", "all"])
def test_expected_features_are_the_mean_of_features(n_columns, trained):
    """Linear in the second moments, exactly, for rows that are no generator's."""
    trainer = make_trainer(n_columns, trained=trained)
    view = View.of(trainer)
    rows = torch.randn(30, n_columns, generator=torch.Generator().manual_seed(1))
    augmented = torch.cat([torch.ones(30, 1), rows], dim=1)
    found = view.expected(augmented.T @ augmented / 30)
    torch.testing.assert_close(
        found, view.features(rows).mean(dim=0), rtol=1e-3, atol=1e-3
    )


def test_slope_of_a_label_is_the_log_odds_it_has():
    """Simulated: opinions N(t, 1), noise 60, and 50 votes that teachers share."""
    rng, n_teachers, noise_std, opinion = np.random.default_rng(0), 400, 60.0, 0.1
    votes = (rng.normal(opinion, 1, (20_000, n_teachers)) > 0).sum(axis=1)
    shared, noise = rng.normal(size=(2, 20_000)) * [[50.0], [noise_std]]
    share = float((votes + shared + noise > n_teachers / 2).mean())
    log_odds = math.log(share / (1 - share))
    planned = opinion * label_slope(n_teachers, noise_std, "gaussian")
    assert log_odds == pytest.approx(planned, rel=0.1)
    laplace = label_slope(n_teachers, noise_std / math.sqrt(2), "laplace")
    assert laplace == pytest.approx(planned / opinion)


def correlation(strength, n_columns=6):
    """Columns that share one factor with signs."""
    signs = np.where(np.arange(n_columns) % 2, -1.0, 1.0)
    matrix = strength * np.outer(signs, signs)
    np.fill_diagonal(matrix, 1.0)
    return torch.tensor(matrix, dtype=torch.float32)


def labelled(trainer, wanted, slope, seed, n_labels=600):
    """Labels of ideal teachers about the present generator."""
    view = View.of(trainer)
    moments = torch.eye(len(wanted) + 1)
    moments[1:, 1:] = wanted
    generated = trainer.rows(trainer.draw(n_labels))
    buffer = LabelBuffer()
    nothing = torch.zeros(n_labels)
    buffer.add(view, generated, nothing, trainer.rows(trainer.draw(512)), slope)
    logits = buffer.rounds[0].slopes @ view.expected(moments)
    uniform = torch.rand(n_labels, generator=torch.Generator().manual_seed(seed))
    labels = uniform < torch.sigmoid(logits)
    return view, generated, labels, trainer.rows(trainer.draw(512))


def off_diagonal(matrix):
    return matrix[~np.eye(len(matrix), dtype=bool)]


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("n_columns", [20, 60])
def test_labels_that_are_coins_leave_what_was_measured(n_columns, seed):
    """Strong factors, nearly parallel; wide tables have products as features."""
    trainer = make_trainer(n_columns, 4, seed=4 + seed, n_known=4)
    trainer.parameters["loadings"] = trainer.parameters["loadings"] + 1.0
    known = off_diagonal(trainer.moments()[1:, 1:].numpy())
    assert np.sqrt(np.mean(known**2)) > 0.4
    student, buffer = StudentDiscriminator(trainer), LabelBuffer()
    for i in range(3):
        coins = torch.rand(300, generator=torch.Generator().manual_seed(seed + i)) < 0.5
        generated = trainer.rows(trainer.draw(300))
        pool = trainer.rows(trainer.draw(512))
        buffer.add(View.of(trainer), generated, coins, pool, 2.0)
        student.train(buffer, 30)
    found = off_diagonal(student.moments[1:, 1:].numpy())
    assert np.sqrt(np.mean((found - known) ** 2)) < 0.03


@pytest.mark.parametrize("n_known", [0, 2])
def test_random_loadings_are_not_taken_as_measured(n_known):
    trainer = make_trainer(5, 3, n_known=n_known)
    loadings = trainer.parameters["loadings"].clone()
    trainer.parameters["loadings"][:, n_known:] = 0.0
    expected = trainer.moments()
    trainer.parameters["loadings"] = loadings
    found = StudentDiscriminator(trainer).moments
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_label_keeps_its_meaning():
    """Moving the generator changes no entry of the buffer."""
    trainer = make_trainer(n_steps=10)
    view, generated, labels, pool = labelled(trainer, correlation(0.5), 5.0, 0)
    buffer = LabelBuffer()
    buffer.add(view, generated, labels, pool, 5.0)
    before = buffer.rounds[0].slopes.clone(), buffer.rounds[0].labels.clone()
    discriminator = StudentDiscriminator(trainer)
    discriminator.train(buffer, 5)
    GeneratorAscent(trainer).step(discriminator)
    torch.testing.assert_close(buffer.rounds[0].slopes, before[0], rtol=0, atol=0)
    torch.testing.assert_close(buffer.rounds[0].labels, before[1], rtol=0, atol=0)


def test_labels_that_say_next_to_nothing_leave_beliefs_finite():
    """At epsilon = 1e-9 squares of slopes vanish in float32; NaN would stay."""
    trainer = make_trainer()
    view, generated, labels, pool = labelled(trainer, correlation(0.5), 1e-30, 0)
    buffer, student = LabelBuffer(), StudentDiscriminator(trainer)
    buffer.add(view, generated, labels, pool, 1e-30)
    student.train(buffer, 5)
    assert student.moments.isfinite().all()
