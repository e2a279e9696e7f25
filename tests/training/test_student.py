"""Students learn what labels say of rows, and know how much coins would."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from _training import CPU, correlation_of, factor_trainer, identity
from scipy.stats import binom, chi2

from skdpsynth.training import Student, ascend_student

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
    """Give what a linear student says of the labels, without training it."""
    student = make_student(n_features=inputs.shape[1])
    student.add(inputs, labels)
    student.train(0)
    return student.share


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


@pytest.mark.parametrize(("hidden_dims", "kept"), [((), 1), ((16, 16), 8)], ids=str)
def test_a_student_forgets_old_labels(hidden_dims, kept):
    """A linear one all of them, also its weights; a network those of eight rounds."""
    student = make_student(hidden_dims)
    rows = make_rows(512)
    student.add(rows, (~along_a_line(rows)).float())
    student.train(100)
    for seed in range(kept - 1):
        student.add(make_rows(1, seed), torch.zeros(1))
    student.train(100)
    assert right(student, along_a_line) < 0.2
    student.add(rows, along_a_line(rows).float())
    assert hidden_dims or right(student, along_a_line) < 0.6
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
        student.train(300)
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
    network = make_student((4,))
    network.add(rows, torch.ones(2000))
    network.train(1)
    assert network.share == 1.0


# --- What it teaches ----------------------------------------------------------------


def test_a_generator_comes_to_depend_as_labels_say():
    """Rows whose first two scores have the same sign are said to be real."""
    trainer = factor_trainer(np.full((3, 2), 0.1), n_steps=60)
    student = make_student(n_features=trainer.n_features)
    features, steps, ascend = trainer.features(), [], trainer.ascend

    def recorded(gradient, share):
        steps.append(share == student.share)
        ascend(gradient, share)

    trainer.ascend = recorded
    for _ in range(30):
        rows = trainer.rows(trainer.draw(256))
        student.add(features(rows), ~exclusive_or(rows))
        student.train(10)
        ascend_student(trainer, student, 2)
    assert steps == [True] * 60
    assert correlation_of(trainer) > 0.6
