"""Students learn what labels say of rows, and know how much coins would."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from _training import CPU, correlation_of, factor_trainer, identity
from scipy.stats import binom, chi2

from skdpsynth.training import (
    Student,
    ascend_student,
    learnt_difference,
    move_means,
    vote_slope,
)

N_FEATURES = 6


def make_student(hidden_dims=(), n_features=N_FEATURES, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return Student(n_features, hidden_dims, generator=generator, device=CPU)


def make_rows(n_rows, seed=0, n_features=N_FEATURES):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((n_rows, n_features))).float()


def along_a_line(rows):
    return rows[:, 0] > rows[:, 1]


def exclusive_or(rows):
    """No column tells it alone, nor a sum of columns."""
    return (rows[:, 0] > 0) != (rows[:, 1] > 0)


def share_of(inputs, labels):
    """Give how much of what labels say of rows coins would not say."""
    return learnt_difference(inputs, labels, 1.0)[1]


def right(student, told, rows=None):
    """Give the share of new rows that a student takes for what they are."""
    rows = make_rows(2000, seed=9) if rows is None else rows
    real = student.objective(rows, identity) > math.log(0.5)
    return float((real == told(rows)).double().mean())


@pytest.mark.parametrize(
    ("hidden_dims", "told", "least"),
    [((), along_a_line, 0.9), ((16, 16), exclusive_or, 0.9)],
    ids=["linear", "hidden"],
)
def test_a_student_learns_what_labels_say_of_rows(hidden_dims, told, least):
    student = make_student(hidden_dims)
    for seed in range(8):
        rows = make_rows(512, seed)
        student.add(rows, told(rows).float())
    student.train(500)
    assert right(student, told) > least
    # The objective is log S: of a row and its opposite, odds of a linear one are 1.
    if not hidden_dims:
        rows = make_rows(10)
        shares = [student.objective(own, identity).exp() for own in (rows, -rows)]
        torch.testing.assert_close(sum(shares), torch.ones(10))
    assert right(make_student(), exclusive_or) < 0.6


def test_a_student_forgets_labels_of_more_than_eight_rounds():
    student, rows = make_student((16, 16)), make_rows(512)
    student.add(rows, (~along_a_line(rows)).float())
    student.train(100)
    for seed in range(7):
        student.add(make_rows(1, seed), torch.zeros(1))
    student.train(100)
    assert right(student, along_a_line) < 0.2
    student.add(rows, along_a_line(rows).float())
    student.train(400)
    assert right(student, along_a_line) > 0.9


def test_a_released_gradient_is_learnt_beside_labels():
    """It pushes against itself, until another takes its place."""
    student, rows = make_student(), make_rows(4000)
    coins = torch.from_numpy(np.random.default_rng(1).integers(0, 2, 4000)).float()
    for sign in (1.0, -1.0):
        gradient = torch.zeros(N_FEATURES, dtype=torch.float64)
        gradient[2] = sign
        student.add_gradient(gradient)
        student.add(rows, coins)
        student.train(1000)
        (weight,) = (p.detach()[0] for p in student.network.parameters())
        assert int(weight.abs().argmax()) == 2
        assert sign * float(weight[2]) < -0.5


# --- How much of what it learns coins would say -----------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_share_above_coins_is_that_of_a_chi_squared_number(
    share, global_random_seed
):
    """1 - k / X, or 0, of X with k degrees of freedom, where labels are coins.

    600 statistics of 2,000 labels, 3 dependent inputs: how many shares are above
    each of four bounds. A count is outside with probability 1.2e-7 on either side, in
    all 1e-6; the law of the statistic differs by about 1 / 2,000, within that.
    """
    rng, n_runs, k = np.random.default_rng(global_random_seed), 600, 3
    inputs = make_rows(2000, global_random_seed, k) @ torch.ones(k, k).triu() + 3.0
    labels = torch.from_numpy(rng.random((n_runs, 2000)) < share).float()
    found = np.array([share_of(inputs, own) for own in labels])
    for bound in (0.0, 0.2, 0.4, 0.6):
        expected = chi2.sf(k / (1 - bound), k)
        low, high = binom.ppf([1.2e-7, 1 - 1.2e-7], n_runs, expected)
        assert low <= (found > bound).sum() <= high


def test_the_share_of_clear_labels_is_nearly_1():
    rows = make_rows(2000)
    assert share_of(rows, along_a_line(rows)) > 0.98
    for constant in (torch.zeros(2000), torch.ones(2000)):  # they say nothing
        assert share_of(rows, constant) == 0.0
    # Nor do inputs that are the same in all rows.
    assert share_of(torch.ones(50, 3), torch.arange(50) % 2) == 0.0


@pytest.mark.statistical
def test_labels_of_linear_teachers_tell_the_difference_of_means(global_random_seed):
    """Simulated: weights of a teacher are the difference of means, of as many rows.

    Of 40,000 labels the standard error of a mean feature is about .006 here: each of
    six is within .06, a tenth of it for the straight line through the normal curve.
    """
    rng, n_teachers, n_rows, noise = (
        np.random.default_rng(global_random_seed),
        50,
        2,
        40,
    )
    difference = np.array([0.1, -0.1, 0.0, 0.05, 0.0, 0.0])
    seen = rng.standard_normal((40_000, 6))
    weights = rng.normal(difference, n_rows**-0.5, (40_000, n_teachers, 6))
    votes = (np.einsum("ntf,nf->nt", weights, seen) > 0).sum(axis=1)
    labels = votes + rng.normal(0, noise, len(votes)) > n_teachers / 2
    slope = vote_slope(n_teachers, noise, n_rows)
    given = torch.from_numpy(seen).float(), torch.from_numpy(labels), slope
    found, share = learnt_difference(*given)
    np.testing.assert_allclose(found.numpy(), difference, atol=0.06)
    assert share > 0.8


# --- What it teaches ----------------------------------------------------------------


def test_a_generator_comes_to_depend_as_labels_say():
    """Rows whose first two scores have the same sign are said to be real."""
    trainer = factor_trainer(np.full((3, 2), 0.1), n_steps=60)
    student = make_student(n_features=trainer.n_features)
    features = trainer.features()
    for _ in range(30):
        rows = trainer.rows(trainer.draw(256))
        student.add(features(rows), ~exclusive_or(rows))
        student.train(10)
        ascend_student(trainer, student, 2)
    assert correlation_of(trainer) > 0.6


def test_means_of_features_move_by_what_is_wanted_and_not_without_signal():
    """And from noise alone, a share of 0, nothing moves at all."""
    for share, least, most in ((1.0, 0.12, 0.28), (0.5, 0.05, 0.15), (0.0, 0.0, 0.0)):
        trainer = factor_trainer(np.full((3, 2), 0.3), n_steps=100)
        first, features = trainer.parameters["loadings"].clone(), trainer.features()

        def mean(trainer=trainer, features=features):
            return features(trainer.rows(trainer.draw(100_000))).mean(0)

        wanted, before = torch.tensor([0.2, 0.0, 0.0]), mean()
        move_means(trainer, wanted, share, 100, 512)
        moved = mean() - before
        if share:
            assert least < float(moved[0]) < most
            assert moved[1:].abs().max() < 0.08
        else:
            torch.testing.assert_close(trainer.parameters["loadings"], first)
