"""Gradient discretisation does what Algorithm 2 of G-PATE says."""

import numpy as np
import torch
from scipy.stats import chi2

from skdpsynth.training import (
    ballots_of,
    decode_answers,
    mean_gradients,
    random_projections,
)

N_GENERATED, N_COLUMNS, N_DIMENSIONS, N_BINS, CLIP = 4, 3, 2, 5, 0.02


class LinearTeachers:
    """Stands for an ensemble: gradients of each teacher by features are given."""

    def __init__(self, gradients, chunk=3):
        self.gradients, self.chunk = gradients, chunk

    def iter_feature_gradients(self, rows, features):
        for start in range(0, len(self.gradients), self.chunk):
            part = slice(start, start + self.chunk)
            yield part, self.gradients[part]


class PublicStream:
    def __init__(self, seed, n_columns=N_COLUMNS):
        self.n_columns = n_columns
        self.generator = torch.Generator().manual_seed(seed)

    def latent(self, *shape):
        return torch.randn(shape, generator=self.generator)


def with_squares(rows):
    return torch.cat([rows, rows**2], dim=-1)


def make_case(seed, n_teachers=8, scale=0.01):
    stream = torch.Generator().manual_seed(seed)
    generated = torch.randn(N_GENERATED, N_COLUMNS, generator=stream)
    shape = (n_teachers, N_GENERATED, 2 * N_COLUMNS)
    gradients = scale * torch.randn(shape, generator=stream)
    projections = random_projections(N_GENERATED, N_DIMENSIONS, PublicStream(seed))
    return generated, gradients, projections


def votes_of(gradients, generated, projections):
    """Give one vote per teacher, query and bin, of all chunks of teachers."""
    teachers = LinearTeachers(gradients)
    asked = generated, with_squares, projections, CLIP, N_BINS
    return torch.cat([*ballots_of(teachers, *asked)]).numpy()


def test_votes_equal_a_loop_over_teachers_fakes_and_dimensions(global_random_seed):
    """Project, clip, choose among B equal bins, one vote per teacher and query."""
    generated, gradients, projections = make_case(global_random_seed)
    found = votes_of(gradients, generated, projections)
    expected, edges = np.zeros_like(found), np.linspace(-CLIP, CLIP, N_BINS + 1)
    for teacher, gradient in enumerate(gradients):
        for row in range(N_GENERATED):
            leaf = generated[row].clone().requires_grad_()
            (with_squares(leaf) * gradient[row]).sum().backward()
            for axis in range(N_DIMENSIONS):
                value = float(projections[row, axis] @ leaf.grad)
                clipped = min(max(value, -CLIP), CLIP)
                assert np.abs(edges - clipped).min() > 1e-9 or clipped != value
                place = int(np.searchsorted(edges[1:-1], clipped, side="right"))
                expected[teacher, row * N_DIMENSIONS + axis, place] = 1
    np.testing.assert_array_equal(found, expected)
    assert (found.sum(axis=(0, 1)) > 0).all()


def test_what_a_teacher_says_is_its_own():
    """One teacher's gradients changed without bound: its votes, and its mean."""
    generated, gradients, projections = make_case(0)
    other = gradients.clone()
    other[5] = -1e6 * gradients[5]
    before, after = (votes_of(g, generated, projections) for g in (gradients, other))
    assert np.flatnonzero((before != after).any(axis=(1, 2))).tolist() == [5]
    assert (after.sum(axis=2) == 1).all()
    large, huge = (
        votes_of(size * gradients, generated, projections) for size in (1e6, 1e30)
    )
    np.testing.assert_array_equal(huge, large)  # clipped before they are whole numbers
    means = mean_gradients(LinearTeachers(other), generated, with_squares)
    np.testing.assert_allclose(means, other.mean(dim=1), rtol=1e-6)


def test_projections_have_variance_one_over_k(global_random_seed):
    """Two-sided chi-square test at 1e-6; and R^T R is the identity on average."""
    stream = PublicStream(global_random_seed, n_columns=6)
    drawn = random_projections(500, 4, stream).double()
    low, high = chi2.ppf([5e-7, 1 - 5e-7], drawn.numel())
    assert low < 4 * float((drawn**2).sum()) < high
    mean = torch.einsum("mkd,mke->de", drawn, drawn) / 500
    # Off-diagonal entries have variance 1/k, diagonal ones 2/k; 36 entries at 6 sigma.
    assert float((mean - torch.eye(6)).abs().max()) < 6 * np.sqrt(2 / 4 / 500)


def test_answers_are_midpoints_projected_back():
    """In units of the largest coordinate."""
    _, _, projections = make_case(1)
    answers = np.array([0, 4, 2, 1, 3, 0, 2, 4])
    midpoints = np.array([-0.8, -0.4, 0.0, 0.4, 0.8])[answers].reshape(N_GENERATED, -1)
    expected = np.einsum("mk,mkd->md", midpoints, projections.numpy())
    found = decode_answers(answers, projections, N_BINS)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
