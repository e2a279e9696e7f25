"""Students learn what labels say of rows."""

import math

import numpy as np
import pytest
import torch
from _training import CPU, identity

from skdpsynth.training import Student

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
