"""What linear teachers say of the mean features of real rows, once it is released.

A generator that starts from measurements has teachers that are linear in the features
of a row, so they can say no more than how mean features of real rows differ from those
of generated ones. Teachers of generated rows show what a difference of 0 looks like:
features are skewed, and so are clipped vectors and votes of few rows. All is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.special import ndtr

from skdpsynth.measure import RARE
from skdpsynth.training._generator import N_KNOWN, Trainer
from skdpsynth.training._teachers import GAIN, N_GENERATED

_RAREST = 1e-3  # probability of a label; rarer ones would weigh more than is known
# Noise of a vote per teacher, as which less is read: without it labels of rows that are
# far from the middle outweigh all. Cosines with the truth rose from .1 to .97.
_LEAST_NOISE = 0.15


class Told(NamedTuple):
    """What one release says of a difference of mean features.

    The inverse of its covariance, (n_features, n_features), and its product with it.
    """

    information: Tensor
    product: Tensor


def told_by_sum(
    released: Tensor, n_teachers: int, noise_std: float, rehearsed: Tensor, clip: float
) -> Told:
    """Read the released mean of teachers' vectors, clipped to length `clip`.

    `rehearsed` are the vectors of teachers of generated rows. Clipping keeps a part of
    a difference, and a gradient of log D is half the weight of a teacher in doubt.
    """
    norms = rehearsed.norm(dim=1, keepdim=True)
    kept = (clip / norms.clamp_min(1e-30)).clamp_max(1.0)
    clipped, gain = kept * rehearsed, 0.5 * GAIN * float(kept.mean())
    n_errors = 1.0 / len(rehearsed) + 1.0 / n_teachers
    variance = n_errors * clipped.var(0, correction=0) + noise_std**2
    # A feature that is the same in all rows tells nothing. One that is nearly so must
    # not set the scale of all: without noise a lost table stayed lost.
    least = RARE * variance.max()
    precision = torch.where(variance > 0.0, 1.0 / variance.clamp_min(least), 0.0)
    product = gain * precision * (released - clipped.mean(0))
    return Told(torch.diag(gain**2 * precision), product)


def told_by_labels(
    labels: Tensor, seen: Tensor, n_teachers: int, noise_std: float, rehearsed: Tensor
) -> Told:
    """Read labels of generated rows with features `seen`, by noisy votes.

    A linear student in closed form. `rehearsed` are the log odds (n, n_rows) that
    teachers of generated rows give them. A label is a coin whose probability follows
    the votes to be expected, and changes with a difference of means by as much as these
    teachers are in doubt.
    """
    noise_std = max(noise_std, _LEAST_NOISE * n_teachers)
    # Means of few skewed features have another median than mean.
    middle = rehearsed.quantile(0.5, dim=0)
    spread = rehearsed.std(0, correction=0).clamp_min(1e-12)
    share = ndtr(middle / spread)
    coins = n_teachers * share * (1.0 - share) * (1.0 + n_teachers / len(rehearsed))
    std = (noise_std**2 + coins).sqrt().clamp_min(1e-12)
    above = n_teachers * (share - 0.5) / std
    expected = ndtr(above).clamp(_RAREST, 1.0 - _RAREST)
    votes = n_teachers * GAIN * _density(middle / spread) / spread
    slopes = (votes * _density(above) / std)[:, None] * seen
    weights, beyond = 1.0 / (expected * (1.0 - expected)), labels - expected
    slopes -= weights @ slopes / weights.sum()  # what moves all labels alike is a bias
    weighted = slopes.T * weights
    return Told(weighted @ slopes, weighted @ beyond)


class RealMeans:
    """The mean features of the real rows of a class, by all that was told of them.

    Rows stay the same while the generator moves, so what rounds say adds up.
    """

    def __init__(self) -> None:
        self._information = self._product = torch.zeros((), dtype=torch.float64)

    def add(self, told: Told, means: Tensor) -> None:
        """Add what was told of the difference from rows with these mean features."""
        information, means = told.information.to(self._product), means.to(self._product)
        self._information = self._information + information
        product = told.product.to(self._product) + information @ means
        self._product = self._product + product

    def beyond(self, means: Tensor) -> tuple[Tensor, float]:
        """Return how far they are from these `means`, and the share that is signal.

        Of noise alone, the squared length in standard deviations has as many degrees
        of freedom as there are features; what is above tells how large a difference is
        to be expected (James and Stein; Efron and Morris 1973), at most 1: features are
        products of scores of variance 1.
        """
        product = self._product - self._information @ means.to(self._product)
        sizes, axes = torch.linalg.eigh(self._information)
        along = axes.T @ product
        # Few labels tell of some directions only.
        told = sizes > 1e-12 * sizes[-1]
        n_told = int(told.sum())
        above = float((along[told].square() / sizes[told]).sum()) - n_told
        if not above > 0.0:
            return torch.zeros_like(means), 0.0
        variance = min(above / float(sizes.sum()), 1.0)
        expected = axes @ (along / (sizes.clamp_min(0.0) + 1.0 / variance))
        return expected.to(means), above / (above + n_told)


def move_means(
    generator: Trainer,
    real: RealMeans,
    n_steps: int,
    beside: Callable[[Tensor], Tensor] = lambda aim: aim,
) -> None:
    """Move mean features of generated rows towards real ones: post-processing.

    As far as what was told of these is signal, by steps that are as much shorter.
    `beside` adds to the aim what else was released.
    """
    means = generator.mean_features(generator.draw(N_KNOWN))
    wanted, share = real.beyond(means)
    aim = beside(means + wanted)
    for _ in range(n_steps):
        generator.approach(aim, generator.draw(N_GENERATED), share)


def _density(values: Tensor) -> Tensor:
    return (-0.5 * values.square()).exp() / math.sqrt(2.0 * math.pi)
