"""The classifier trained by DP-SGD, and the branch of unlabelled rows."""

import math

import numpy as np
import pytest
import torch
from _training import CPU, make_discriminator, reserve
from torch.nn import functional

from skdpsynth.privacy import secret_generator
from skdpsynth.privacy.testing import observe_releases
from skdpsynth.training import (
    Classifier,
    ClippedSums,
    UnlabelledBranch,
    pseudo_label_rows,
    rejected,
)


def make_classifier(rows, generated=None, charged=None, weights=None, **settings):
    n_classes = len(rows)
    charged = [reserve(count=10) for _ in rows] if charged is None else charged
    start = np.zeros((n_classes, rows[0].shape[1])) if weights is None else weights
    return Classifier(
        start,
        rows,
        generated,
        charged,
        [float(max(len(part), 1)) for part in rows],
        rng=secret_generator(),
        **settings,
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
def test_a_row_moves_the_sum_of_its_class_by_the_clipping_norm(scale):
    """Whatever the row; and sums of other classes not by one bit."""
    rows, seen = make_rows(), []
    more = [np.vstack([rows[0], np.full((1, 4), scale)]), *rows[1:]]
    with observe_releases(seen.append):
        for part in (rows, more):
            make_classifier(part, max_grad_norm=0.7).train_step()
    sums = [release.exact for release in seen]
    assert np.linalg.norm(sums[3] - sums[0]) <= 0.7
    np.testing.assert_array_equal(sums[1:3], sums[4:])
    assert [release.unit for release in seen] == [0.7] * 6


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
        device=CPU,
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


def test_a_round_has_one_release_of_the_means_of_the_classes_asked_for():
    rows = [scores(30), scores(20, seed=1), scores(10, seed=2)]
    branch, seen = make_branch(rows, n_parameters=4, max_grad_norm=1.0), []
    sums = {c: lambda part: part.double().sum(dim=0) for c in (0, 2)}
    with observe_releases(seen.append):
        released = branch.release(sums)
    assert list(released) == [0, 2]
    for c in released:
        np.testing.assert_allclose(released[c], rows[c].mean(axis=0), atol=1e-6)
    assert [(release.exact.shape, release.unit) for release in seen] == [((8,), 1.0)]


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e30, math.inf])
@pytest.mark.parametrize("hidden_dims", [(), (6,)], ids=str)
def test_an_unlabelled_row_moves_the_release_by_the_clipping_norm(scale, hidden_dims):
    """By sums of a discriminator, and by those of a network that rejects the rows."""
    own = make_discriminator(scores(1), hidden_dims=hidden_dims, max_grad_norm=0.5)
    network = torch.nn.Sequential(torch.nn.Linear(4, 1, bias=False)).double()
    network[0].weight.data.fill_(0.1)
    student, seen = ClippedSums(network, 0.5), []
    sums = {
        0: lambda rows: own.clipped_sum(rows, lambda values: values),
        1: lambda rows: student.of_private(rows, lambda values: values, rejected),
    }
    more = np.full((1, 4), scale, dtype=np.float32)
    for joined in (None, 0, 1):
        rows = [scores(50), scores(30)]
        if joined is not None:
            rows[joined] = np.concatenate([rows[joined], more])
        branch = make_branch(rows)
        branch._sizes = {0: own.n_parameters, 1: 4}
        with observe_releases(seen.append):
            branch.release(sums)
    without, *others = (release.exact for release in seen)
    for joined, exact in enumerate(others):
        assert np.linalg.norm(exact - without) <= 0.5
        same = np.split(exact == without, [own.n_parameters])[1 - joined]
        assert same.all()


def test_rows_to_be_rejected_have_the_loss_of_fakes():
    """The score is the log odds of "real"."""
    values = torch.tensor([[-3.0], [0.0], [0.5]], dtype=torch.float64)
    shares = 1 / (1 + torch.exp(-values[:, 0]))
    torch.testing.assert_close(rejected(values), -torch.log(1 - shares))
