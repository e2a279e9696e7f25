"""PATE-GAN's student discriminator: trained on generated rows with released labels.

It never sees a private row. What a label says about the private rows stays true while
the generator moves, so every label is released once and used until the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from skdpsynth.models import Adam

if TYPE_CHECKING:
    from skdpsynth.models import Trainer


_MOST_COLUMNS = 48  # up to here the products of all pairs are few enough to be features
_LOGIT_PER_STD = 1.6  # a logistic curve with this slope is close to a normal one
_AGREEMENT = 0.125  # what teachers have in common beyond the model, as a share of them
_N_GENERATED = 256  # rows per step of the generator


def view_size(n_columns: int, n_factors: int, *, only_pairs: bool) -> int:
    """Give the number of features of a `View`."""
    if n_columns > _MOST_COLUMNS:
        return n_columns * (n_factors + (0 if only_pairs else 2))
    pairs = n_columns * (n_columns - 1) // 2
    return pairs if only_pairs else pairs + 2 * n_columns


def label_slope(n_teachers: int, noise_scale: float, noise: str) -> float:
    """Give the log odds of "real" per standard deviation of a teacher's opinion.

    Near a tie n teachers give ``n / sqrt(2 pi)`` votes more for it, and the number of
    votes varies with the noise, with n coins and with what the teachers have in common.
    """
    variance = noise_scale**2 * (2.0 if noise == "laplace" else 1.0)
    votes = n_teachers / math.sqrt(2 * math.pi)
    variance += n_teachers / 4 + (_AGREEMENT * n_teachers) ** 2
    return _LOGIT_PER_STD * votes / math.sqrt(variance)


def noise_of_moments(
    n_labels: int, n_features: int, n_columns: int, slope: float
) -> float:
    """Bound the eigenvalues that noise alone gives to what a student learns.

    The spectral norm of a symmetric matrix of independent noise, whose size is the
    inverse square root of the labels' Fisher information. `slope` is in log odds per
    unit of a feature's mean, for features of unit length.
    """
    information = n_labels * slope**2 / (4 * n_features)
    return 2.0 * math.sqrt(n_columns / information)


@dataclass(frozen=True)
class View:
    """The features of a row: products of its scores, less their mean; all is public.

    `frame` (n_columns + 1, n_columns + 1) standardises a row (1, scores) by the
    generator's location and scale. `first` and `second` are positions of the two
    factors of each product; from the end of the row on, `second` counts `directions`
    (n_columns + 1, n_directions). Where the second factor is the row along a direction,
    the score that it is multiplied by is left out. `centre` is the mean of each product
    in the generator's rows: those whose dependence is right have features of mean 0.
    """

    frame: Tensor
    first: Tensor
    second: Tensor
    directions: Tensor
    centre: Tensor

    @classmethod
    def of(cls, trainer: Trainer) -> View:
        """Standardise by the present generator: pairs of columns are features.

        In a wide table every column with each factor.
        """
        scale, n_columns = trainer.scales, trainer.n_columns
        frame = torch.diag(torch.cat([torch.ones_like(scale[:1]), 1.0 / scale]))
        frame[1:, 0] = -trainer.location / scale
        columns = torch.arange(n_columns, device=scale.device) + 1
        unit, n_factors = trainer.directions, 0
        if n_columns <= _MOST_COLUMNS:
            pairs = torch.triu_indices(n_columns, n_columns, 1, device=scale.device)
            first, second = pairs + 1
        else:
            n_factors = unit.shape[1]
            first = columns.repeat_interleave(n_factors)
            factors = torch.arange(n_factors, device=scale.device)
            second = (n_columns + 1 + factors).repeat(n_columns)
        if not trainer.only_pairs:  # each score and its square may differ too
            first = torch.cat([first, columns, columns])
            second = torch.cat([second, torch.zeros_like(columns), columns])
        directions = torch.cat([torch.zeros_like(unit[:1]), unit])[:, :n_factors]
        nothing = torch.zeros(len(first), device=scale.device)
        view = cls(frame, first, second, directions, nothing)
        return replace(view, centre=view.expected(trainer.moments()))

    def double(self) -> View:
        """Give the same in double precision."""
        names = ("frame", "directions", "centre")
        return replace(self, **{name: getattr(self, name).double() for name in names})

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return len(self.first)

    def features(self, rows: Tensor) -> Tensor:
        """Give the features of rows (..., n_columns), row by row."""
        rows = torch.cat([torch.ones_like(rows[..., :1]), rows], dim=-1)
        rows = rows @ self.frame.T
        left = rows[..., self.first]
        if not self.directions.shape[1]:
            return left * rows[..., self.second] - self.centre
        sides = torch.cat([rows, rows @ self.directions], dim=-1)
        return left * (sides[..., self.second] - left * self._own) - self.centre

    def expected(self, moments: Tensor) -> Tensor:
        """Give the mean features of rows whose mean of ``r r^T`` is `moments`."""
        moments = self.frame @ moments @ self.frame.T
        sides = torch.cat([moments, moments @ self.directions], dim=1)
        own = moments[self.first, self.first] * self._own
        return sides[self.first, self.second] - own - self.centre

    @property
    def _own(self) -> Tensor:
        """What a score contributes itself to the second factor of its product."""
        nothing = torch.zeros_like(self.frame)
        return torch.cat([nothing, self.directions], dim=1)[self.first, self.second]


@dataclass(frozen=True)
class LabelledRows:
    """The labels of one round, 1 where the noisy majority of teachers said "real".

    `slopes` (n_labels, n_features) are log odds of "real" per unit of difference
    between the mean features of the private and of the generated rows.
    """

    view: View
    slopes: Tensor
    labels: Tensor


class LabelBuffer:
    """Every released label, with the generated row that it is about."""

    def __init__(self) -> None:
        self.rounds: list[LabelledRows] = []

    def add(
        self,
        view: View,
        generated: Tensor,
        labels: Tensor,
        pool: Tensor,
        slope: float,
    ) -> None:
        """Keep the released labels of one round's generated rows.

        `pool` has other generated rows, which show how much a teacher's opinion varies
        with its rows; `slope` is log odds of "real" per standard deviation of it.
        """
        features = view.features(generated)
        spread = (view.features(pool) @ features.T).std(dim=0)
        slopes = features * (slope / spread.clamp_min(1e-6)).unsqueeze(1)
        self.rounds.append(LabelledRows(view, slopes, labels.to(slopes)))


class StudentDiscriminator:
    """A discriminator that knows of the private rows what released labels say.

    Its logit of a row u is ``<E - m, f(u)>`` up to a scale and a constant: f are the
    features of a view, m their mean over generated rows, which is public, and E their
    mean over private rows as the student estimates it. Training chooses E.

    Teachers that are linear in the features vote with the sign of such a logit. Since m
    is that of the round of a label, an old label still counts.
    """

    def __init__(self, n_columns: int, device: torch.device) -> None:
        # Estimated mean of r r^T, in the frame of the latest view.
        self._moments = torch.eye(n_columns + 1, device=device)
        self._inverse = torch.eye(n_columns + 1, device=device)
        self._constant = torch.zeros((), device=device)

    @property
    def moments(self) -> Tensor:
        """Estimated mean of ``r r^T`` over private rows r = (1, scores)."""
        return self._inverse @ self._moments @ self._inverse.T

    def train(self, buffer: LabelBuffer, n_steps: int, rate: float = 1.0) -> None:
        """Take steps of proximal gradient descent on the labels' cross-entropy.

        `rate` is their length as a share of the longest stable one, in (0, 1]. The
        penalty shrinks the eigenvalues of what differs from independent columns as
        noise of the size of the labels' would raise them, so that noise alone is
        forgotten and strong factors are kept.
        """
        frame = buffer.rounds[-1].view.frame
        change = frame @ self._inverse
        estimated = change @ self._moments @ change.T
        self._inverse = torch.linalg.inv(frame)
        independent = torch.eye(len(frame)).to(frame)
        information, curvature = _information(buffer)
        noise = 2.0 * math.sqrt(len(frame) / information)
        curvature /= rate
        difference = estimated - independent
        for _ in range(n_steps):
            gradient = self._gradient(buffer, independent + difference)
            moved = difference - (gradient + gradient.T) / curvature
            values, vectors = torch.linalg.eigh(moved)
            sizes = values.abs()
            excess = torch.sqrt(sizes**2 + noise**2) - sizes
            sizes = (sizes - excess * (information / curvature)).clamp_min(0.0)
            difference = (vectors * (values.sign() * sizes)) @ vectors.T
        # No further in one round than the labels of one view can tell.
        moments = (independent + difference).clamp(-1.0, 1.0)
        squares = (1.0 + difference.diagonal()).clamp(0.25, 4.0)
        self._moments = moments.diagonal_scatter(squares)

    def _gradient(self, buffer: LabelBuffer, moments: Tensor) -> Tensor:
        """Move the constant, and give the loss's gradient by the estimate."""
        moments = moments.detach().requires_grad_()
        constant = self._constant.clone().requires_grad_()
        raw = self._inverse @ moments @ self._inverse.T
        scores = [own.slopes @ own.view.expected(raw) for own in buffer.rounds]
        labels = torch.cat([own.labels for own in buffer.rounds])
        logits = torch.cat(scores) + constant
        loss = functional.binary_cross_entropy_with_logits(
            logits, labels, reduction="sum"
        )
        by_moments, by_constant = torch.autograd.grad(loss, (moments, constant))
        self._constant = self._constant - 4.0 * by_constant / len(labels)
        return by_moments


def _information(buffer: LabelBuffer) -> tuple[float, float]:
    """Give the Fisher information of a mean feature, on average and at most."""
    slopes = [own.slopes for own in buffer.rounds]
    n_features = slopes[0].shape[1]
    mean = sum(float((part**2).sum()) for part in slopes) / (4 * n_features)
    vector = torch.ones(n_features).to(slopes[0])
    largest = 0.0
    for _ in range(15):  # power iteration
        product = sum((part.T @ (part @ vector) for part in slopes), 0 * vector)
        # Labels that say next to nothing let the vector vanish.
        largest = float(product.norm() / vector.norm().clamp_min(1e-30))
        vector = product / product.norm().clamp_min(1e-12)
    return max(mean, 1e-12), max(1.1 * largest / 4, mean, 1e-12)


class GeneratorAscent:
    """The generator's steps through the student discriminator (Adam's direction)."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer, self._adam = trainer, Adam(floor=1e-3)

    def step(self, discriminator: StudentDiscriminator) -> None:
        """Raise the discriminator's mean logit: one step on fresh generated rows."""
        trainer, view = self._trainer, View.of(self._trainer)
        weights = view.expected(discriminator.moments)
        gradient = trainer.gradient(
            trainer.draw(_N_GENERATED), lambda rows: view.features(rows) @ weights
        )
        trainer.ascend(self._adam(gradient))
