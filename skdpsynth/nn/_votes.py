"""Gradient discretisation: teachers vote for bins of projected gradients.

The parts of G-PATE's Algorithm 2 that run before and after the noisy aggregation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from skdpsynth.nn._generator import Features, Trainer
    from skdpsynth.nn._teachers import TeacherEnsemble


def random_projections(
    n_fakes: int, n_dimensions: int, trainer: Trainer
) -> torch.Tensor:
    """Draw a public projection per fake, with entries of variance 1 / n_dimensions.

    Of shape (n_fakes, n_dimensions, n_columns), by the trainer's public stream.
    """
    drawn = trainer.latent(n_fakes, n_dimensions, trainer.n_columns)
    return drawn / n_dimensions**0.5


def projected_votes(
    teachers: TeacherEnsemble,
    fakes: torch.Tensor,
    features: Features,
    projections: torch.Tensor,
    clip: float,
    n_bins: int,
) -> NDArray[np.int64]:
    """Let every teacher vote on every projected coordinate of every public fake.

    Coordinates are clipped to [-clip, clip], an interval of `n_bins` equal bins.
    Numbers of votes are private, of shape (n_fakes * n_dimensions, n_bins): each
    teacher has one vote in each row.
    """
    n_queries = projections.shape[0] * projections.shape[1]
    votes = torch.zeros(n_queries, n_bins, dtype=torch.int64, device=fakes.device)
    for ballots in _ballots(teachers, fakes, features, projections, clip, n_bins):
        votes += ballots.sum(dim=0)
    return votes.cpu().numpy()


def projected_ballots(
    teachers: TeacherEnsemble,
    fakes: torch.Tensor,
    features: Features,
    projections: torch.Tensor,
    clip: float,
    n_bins: int,
) -> NDArray[np.int64]:
    """Give what `projected_votes` adds up, teacher by teacher: for tests.

    Of shape (n_teachers, n_fakes * n_dimensions, n_bins).
    """
    asked = teachers, fakes, features, projections, clip, n_bins
    return torch.cat([*_ballots(*asked)]).cpu().numpy()


def _ballots(
    teachers: TeacherEnsemble,
    fakes: torch.Tensor,
    features: Features,
    projections: torch.Tensor,
    clip: float,
    n_bins: int,
) -> Iterator[torch.Tensor]:
    """Yield the votes of some teachers, a 1 for each query in one bin."""
    pull_back = torch.func.vjp(features, fakes)[1]
    for _, gradients in teachers.iter_feature_gradients(fakes, features):
        by_row = torch.func.vmap(pull_back)(gradients)[0]
        projected = torch.einsum("tmd,mkd->tmk", by_row, projections).flatten(1)
        unit = (projected.clamp(-clip, clip) + clip) / (2 * clip)
        bins = (unit * n_bins).long().clamp_(0, n_bins - 1)
        yield torch.nn.functional.one_hot(bins, n_bins)


def decode_answers(
    answers: NDArray[np.int64], projections: torch.Tensor, n_bins: int
) -> torch.Tensor:
    """Turn winning bins into a direction for every fake: post-processing.

    Midpoints of the bins, in clipping bounds, projected back; -1, where the vote had no
    answer, counts as 0.
    """
    answered = torch.from_numpy(answers).to(projections.device)
    midpoints = (answered + 0.5) * (2.0 / n_bins) - 1.0
    midpoints = midpoints.where(answered >= 0, 0.0).to(projections.dtype)
    by_fake = midpoints.reshape(projections.shape[:2])
    return torch.einsum("mk,mkd->md", by_fake, projections)
