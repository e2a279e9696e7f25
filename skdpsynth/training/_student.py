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
# Draws of labels that say nothing; their largest effect is taken as noise. With four,
# one round in five has more, of which the penalty leaves the part above it.
_COINS = 4
BATCH = 256  # labels of a step of a student, and rows of one of the generator


def view_size(n_columns: int, n_factors: int, *, only_pairs: bool) -> int:
    """Return the number of features of a `View`."""
    if n_columns > _MOST_COLUMNS:
        return n_columns * (n_factors + (0 if only_pairs else 2))
    pairs = n_columns * (n_columns - 1) // 2
    return pairs if only_pairs else pairs + 2 * n_columns


def label_slope(n_teachers: int, noise_scale: float, noise: str) -> float:
    """Return the log odds of "real" per standard deviation of a teacher's opinion.

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

    The spectral norm of a symmetric matrix of independent noise, of the size of the
    inverse square root of the labels' Fisher information; columns are independent.
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
        """Standardise by the present generator; features are pairs of columns."""
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
        """Return the same in double precision."""
        names = ("frame", "directions", "centre")
        return replace(self, **{name: getattr(self, name).double() for name in names})

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return len(self.first)

    def features(self, rows: Tensor) -> Tensor:
        """Return the features of rows (..., n_columns), row by row."""
        rows = torch.cat([torch.ones_like(rows[..., :1]), rows], dim=-1)
        rows = rows @ self.frame.T
        left = rows[..., self.first]
        if not self.directions.shape[1]:
            return left * rows[..., self.second] - self.centre
        sides = torch.cat([rows, rows @ self.directions], dim=-1)
        return left * (sides[..., self.second] - left * self._own) - self.centre

    def expected(self, moments: Tensor) -> Tensor:
        """Return the mean features of rows whose mean of ``r r^T`` is `moments`."""
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

    `slopes` are log odds of "real" per unit of difference of the mean features.
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

        `pool` shows how much a teacher's opinion varies with its rows, and `slope` is
        log odds of "real" per standard deviation of it.
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
    is that of the round of a label, an old label still counts. Before any label, E are
    the means that were measured, of `trainer` before its first step.
    """

    def __init__(self, trainer: Trainer) -> None:
        moments = trainer.known_moments()
        frame = View.of(trainer).frame.to(moments)
        # What was measured of the mean of r r^T, for standardised scores. It is read in
        # the frame of each round: of location and scale it says nothing.
        self._known = frame @ moments @ frame.T
        # Estimated mean of r r^T, in the frame of the latest view.
        self._moments = self._known
        self._inverse = torch.linalg.inv(frame)
        self._constant = torch.zeros_like(moments[0, 0])

    @property
    def moments(self) -> Tensor:
        """Estimated mean of ``r r^T`` over private rows r = (1, scores)."""
        return self._inverse @ self._moments @ self._inverse.T

    def train(self, buffer: LabelBuffer, n_steps: int, rate: float = 1.0) -> None:
        """Take steps of proximal gradient descent on the labels' cross-entropy.

        The penalty shrinks the eigenvalues of what differs from the measured moments as
        noise of the size of the labels' would raise them: noise alone is forgotten.
        """
        frame = buffer.rounds[-1].view.frame
        change = frame @ self._inverse
        estimated = change @ self._moments @ change.T
        self._inverse = torch.linalg.inv(frame)
        information = _information(buffer)
        # At least that of as much noise in all directions.
        noise = 2.0 * math.sqrt(len(frame) * information)
        noise = max(noise, self._noise(buffer)) / information
        curvature = max(self._curvature(buffer), information) / rate
        difference = estimated - self._known
        for _ in range(n_steps):
            gradient = self._gradient(buffer, self._known + difference)
            moved = difference - (gradient + gradient.T) / curvature
            values, vectors = torch.linalg.eigh(moved)
            sizes = values.abs()
            excess = torch.sqrt(sizes**2 + noise**2) - sizes
            sizes = (sizes - excess * (information / curvature)).clamp_min(0.0)
            difference = (vectors * (values.sign() * sizes)) @ vectors.T
        # No further in one round than the labels of one view can tell.
        moments = (self._known + difference).clamp(-1.0, 1.0)
        squares = (self._known + difference).diagonal().clamp(0.25, 4.0)
        self._moments = moments.diagonal_scatter(squares)
        self._moments[0, 0] = 1.0

    def _gradient(self, buffer: LabelBuffer, moments: Tensor) -> Tensor:
        """Move the constant, and give the loss's gradient by the estimate."""
        moments = moments.detach().requires_grad_()
        constant = self._constant.clone().requires_grad_()
        labels = torch.cat([own.labels for own in buffer.rounds])
        logits = self._scores(buffer, moments) + constant
        loss = functional.binary_cross_entropy_with_logits(
            logits, labels, reduction="sum"
        )
        by_moments, by_constant = torch.autograd.grad(loss, (moments, constant))
        self._constant = self._constant - 4.0 * by_constant / len(labels)
        return by_moments

    def _scores(self, buffer: LabelBuffer, moments: Tensor) -> Tensor:
        """Return the logits of all labels, without the constant."""
        raw = self._inverse @ moments @ self._inverse.T
        return torch.cat([own.slopes @ own.view.expected(raw) for own in buffer.rounds])

    def _noise(self, buffer: LabelBuffer) -> float:
        """Estimate the spectral norm of the loss's gradient where labels are coins.

        Where columns depend on each other it is far above that of independent noise.
        """
        coins = torch.Generator().manual_seed(0)
        zeros = torch.zeros_like(self._moments).requires_grad_()
        scores, largest = self._scores(buffer, zeros), 0.0
        for _ in range(_COINS):
            coin = (torch.rand(len(scores), generator=coins) < 0.5).to(scores)
            along = torch.autograd.grad(scores, zeros, coin - 0.5, retain_graph=True)[0]
            norm = torch.linalg.eigvalsh(along + along.T).abs().max()
            largest = max(largest, float(norm))
        return largest

    def _curvature(self, buffer: LabelBuffer) -> float:
        """Bound the loss's second derivative by a pair of columns (power iteration).

        In the moments: the features of a wide table together change by more than any.
        """
        zeros = torch.zeros_like(self._moments).requires_grad_()
        scores = self._scores(buffer, zeros)
        change, largest = torch.ones_like(self._moments), 0.0
        for _ in range(15):
            with torch.no_grad():
                changed = self._scores(buffer, change) - scores
            along = torch.autograd.grad(scores, zeros, changed, retain_graph=True)[0]
            product = along + along.T
            # Labels that say next to nothing let the change vanish.
            largest = float(product.norm() / change.norm().clamp_min(1e-30))
            change = product / product.norm().clamp_min(1e-12)
        return 1.1 * largest / 4


def _information(buffer: LabelBuffer) -> float:
    """Return the Fisher information of a mean feature, on average."""
    slopes = [own.slopes for own in buffer.rounds]
    total = sum(float((part**2).sum()) for part in slopes)
    return max(total / (4 * slopes[0].shape[1]), 1e-12)


class GeneratorAscent:
    """The generator's steps through the student discriminator (Adam's direction)."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer, self._adam = trainer, Adam(floor=1e-3)

    def step(self, discriminator: StudentDiscriminator) -> None:
        """Raise the discriminator's mean logit: one step on fresh generated rows."""
        trainer, view = self._trainer, View.of(self._trainer)
        weights = view.expected(discriminator.moments)
        gradient = trainer.gradient(
            trainer.draw(BATCH), lambda rows: view.features(rows) @ weights
        )
        trainer.ascend(self._adam(gradient))
