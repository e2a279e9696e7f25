"""The classifier trained by DP-SGD, and the branch of unlabelled rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from _training import ALL, PAIRS, factor_trainer, reserve
from torch.nn import functional

from skdpsynth.privacy import release_float_gaussian, secret_generator
from skdpsynth.training import (
    BranchedStudentDiscriminator,
    Classifier,
    UnlabelledBranch,
    View,
    pseudo_label_rows,
)

RELEASE = "skdpsynth.training._unlabelled.release_float_gaussian"


def make_classifier(rows, generated=None, charged=None, weights=None, **settings):
    n_classes = len(rows)
    charged = [reserve(count=10) for _ in rows] if charged is None else charged
    start = np.zeros((n_classes, rows[0].shape[1])) if weights is None else weights
    defaults = {"max_grad_norm": 1.0, "learning_rate": 1.0, "pairs_weight": 0.1}
    return Classifier(
        start,
        rows,
        generated,
        charged,
        [float(max(len(part), 1)) for part in rows],
        rng=secret_generator(),
        **(defaults | settings),
    )


def make_rows(seed=0, sizes=(40, 25, 30), n_features=4):
    rng = np.random.default_rng(seed)
    return [rng.normal(c, 1.0, (size, n_features)) for c, size in enumerate(sizes)]


def test_a_step_is_the_gradient_of_the_balanced_cross_entropy():
    """Without noise and clipping; computed again by automatic differentiation."""
    rows, generated = make_rows(), make_rows(1, (8, 8, 8))
    classifier = make_classifier(rows, generated, max_grad_norm=1e6)
    classifier.train_step()
    weights = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)

    def loss(parts):
        return sum(
            functional.cross_entropy(
                torch.from_numpy(part) @ weights.T, torch.full((len(part),), c)
            )
            for c, part in enumerate(parts)
        )

    ((loss(rows) + 0.1 * loss(generated)) / 3).backward()
    np.testing.assert_allclose(classifier.weights, -weights.grad, rtol=2e-6, atol=1e-9)


def test_a_class_that_pays_nothing_is_represented_by_generated_rows():
    rows, generated = make_rows(), make_rows(1, (8, 8, 8))
    charged = [reserve(count=10), None, reserve(count=10)]
    other = [rows[0], rows[1] + 100.0, rows[2]]
    ours, theirs = (make_classifier(part, generated, charged) for part in (rows, other))
    for classifier in (ours, theirs):
        for _ in range(3):
            classifier.train_step()
    np.testing.assert_array_equal(ours.weights, theirs.weights)


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e300, math.inf])
def test_a_row_moves_the_sum_of_its_class_by_the_clipping_norm(scale, monkeypatch):
    """Whatever the row; and sums of other classes not by one bit."""
    sums = []

    def keep(total, clip, reserved):
        sums.append(total.copy())
        return np.zeros_like(total)

    monkeypatch.setattr(RELEASE, keep)
    rows = make_rows()
    more = [np.vstack([rows[0], np.full((1, 4), scale)]), *rows[1:]]
    for part in (rows, more):
        make_classifier(part, max_grad_norm=0.7).train_step()
    assert np.linalg.norm(sums[3] - sums[0]) <= 0.7
    np.testing.assert_array_equal(sums[1:3], sums[4:])


def test_a_pseudo_label_depends_on_its_row_and_the_prior_alone():
    weights = torch.eye(3, 4, dtype=torch.float64)
    rows = np.random.default_rng(0).normal(size=(9000, 4))
    prior = np.array([0.2, 0.3, 0.5])
    pseudo_labels = pseudo_label_rows(weights, rows, prior)
    for part in (slice(0, 1), slice(50, 60), slice(8000, 9000)):
        np.testing.assert_array_equal(
            pseudo_label_rows(weights, rows[part], prior), pseudo_labels[part]
        )
    sure = pseudo_label_rows(weights, rows, np.array([1.0, 1e-30, 1e-30]))
    assert not sure.any()
    assert pseudo_label_rows(weights, np.empty((0, 4)), prior).shape == (0,)


# --- The branch ------------------------------------------------------------------


def make_branch(rows, n_parameters=6, counts=None, epsilon=math.inf, **settings):
    classes = range(len(rows))
    defaults = {"weight": 0.05, "max_grad_norm": 0.5}
    return UnlabelledBranch(
        dict(enumerate(rows)),
        counts=counts or {c: float(len(rows[c])) for c in classes},
        n_parameters=dict.fromkeys(classes, n_parameters),
        reservation=reserve(count=10, epsilon=epsilon),
        rng=secret_generator(),
        device=torch.device("cpu"),
        **(defaults | settings),
    )


def scores(n_rows, n_columns=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_columns)).astype(np.float32)


def test_a_class_that_is_rarely_called_weighs_less():
    empty = [scores(0), scores(0)]
    few = make_branch(empty, 60, counts={0: 1e7, 1: 30.0}, epsilon=1.0)
    assert few.weights[0] == pytest.approx(0.05)
    assert few.weights[1] < 0.01
    none = make_branch(empty, 60, counts={0: -50.0, 1: 0.0}, epsilon=1.0)
    assert max(none.weights.values()) < 1e-3


def test_parts_are_means_and_only_of_the_classes_asked_for():
    rows = [scores(30), scores(20, seed=1), scores(10, seed=2)]
    branch = make_branch(rows, n_parameters=4, max_grad_norm=1.0)
    sums = {c: lambda part: part.double().sum(dim=0) for c in (0, 2)}
    released = branch.release(sums)
    assert list(released) == [0, 2]
    np.testing.assert_allclose(released[0], rows[0].mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(released[2], rows[2].mean(axis=0), rtol=1e-5, atol=1e-6)


def make_trainer(*, only_pairs, n_columns=4):
    """Give one whose loadings, and locations and scales if trained, are not 0."""
    rng = np.random.default_rng(3)
    parameters = {
        "loadings": 0.5 * rng.standard_normal((n_columns, 2)),
        "location": 0.3 * rng.standard_normal(n_columns) * (not only_pairs),
        "log_scale": 0.2 * rng.standard_normal(n_columns) * (not only_pairs),
    }
    return factor_trainer(parameters, PAIRS if only_pairs else ALL)


@pytest.mark.parametrize("only_pairs", [True, False])
def test_moments_of_unlabelled_rows_are_read_off_their_mean_features(only_pairs):
    trainer = make_trainer(only_pairs=only_pairs)
    view, own = View.of(trainer), trainer.moments()
    rows = torch.from_numpy(scores(5000, seed=4)) + 0.1
    student = BranchedStudentDiscriminator(trainer, max_grad_norm=1e6)
    total = student.clipped_sum(rows, view)
    before = student.moments.clone()
    student.alpha = 0.2
    student.add_unlabelled(total / len(rows), view, own)
    augmented = torch.cat([torch.ones(len(rows), 1), rows], dim=1)
    real = augmented.T @ augmented / len(rows)
    if only_pairs:  # the rest is taken to be the generator's
        keep = torch.ones(5, 5).triu(1).bool()
        keep[0] = False
        expected = torch.where(keep | keep.T, real, own)
    else:
        expected = real
    wanted = (before - 0.2 * expected) / 0.8
    np.testing.assert_allclose(student.moments, wanted, atol=2e-4)


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e30, math.inf])
def test_an_unlabelled_row_moves_a_students_sum_by_the_clipping_norm(scale):
    trainer = make_trainer(only_pairs=False)
    view = View.of(trainer)
    student = BranchedStudentDiscriminator(trainer, max_grad_norm=0.5)
    rows = torch.from_numpy(scores(50))
    more = torch.cat([rows, torch.full((1, 4), scale)])
    change = student.clipped_sum(more, view) - student.clipped_sum(rows, view)
    assert float(change.norm()) <= 0.5


def test_the_branch_draws_one_release_per_round(monkeypatch):
    branch, clips = make_branch([scores(5), scores(5)], n_parameters=4), []

    def keep(total, clip, reserved):
        clips.append((total.shape, clip))
        return release_float_gaussian(total, clip, reserved)

    monkeypatch.setattr(RELEASE, keep)
    branch.release(dict.fromkeys((0, 1), lambda part: part.double().sum(dim=0)))
    assert clips == [((8,), 0.5)]
    assert branch._reservation.used == 1
