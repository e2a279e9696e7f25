"""What judges generated rows: the discriminator of a class, or a student of labels.

A discriminator learns of real rows by DP-SGD, and exactly of generated ones; a student
learns noisy labels of generated rows, and never sees a private row.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, skip_init, vector_to_parameters

from skdpsynth.model import Adam
from skdpsynth.privacy import HoldsPrivateRows, Reservation
from skdpsynth.training._dp_sgd import CHUNK_ROWS, ClippedSums, release_mean, sampled
from skdpsynth.training._generator import BATCH, NETWORK_BETAS, Features, Trainer
from skdpsynth.training._teachers import FORGOTTEN, Told

# Steps of Adam of networks: 40 times the papers' 1e-4, since they are fewer.
HIDDEN_RATE = 4e-3
# Weight of the penalty on slopes at generated rows (Mescheder, Geiger, Nowozin 2018),
# since two networks chase each other; and the most of it times the square of the
# largest feature, such as the bin of a column: in wide tables one changes a row little.
_PENALTY, _WIDE_PENALTY = 0.1, 3.0
# Features, of more of which the first layer begins weaker: the steps of many features
# add up, and the generator would follow the layer's random slopes instead.
_WIDE = 600
_ROUNDS = 8  # whose labels a student learns again


class Discriminator(HoldsPrivateRows):
    """Distinguishes real rows of one class from generated ones, by DP-SGD.

    `rows` are private, float32 of shape (n_rows, n_columns), maybe none. The
    reservation covers one noisy sum per step, and `expected_batch_size` is its public
    divisor. `rng` is secret and draws the Poisson samples; `generator` is public and
    draws the initial weights. A loss is the cross-entropy of "real", or the difference
    of mean scores.

    *Privacy.* Between two releases the parameters are functions of released sums and
    public numbers. See `ClippedSums`.

    Features are divided by the root of their number, so that the gradient of a row has
    a norm about 1 whatever the number of columns. Without hidden layers it is linear,
    learns anew in every round, and says how mean features differ (`told`).
    """

    def __init__(
        self,
        rows: NDArray[np.float32],
        *,
        n_features: int,
        hidden_dims: Sequence[int],
        loss: Literal["logistic", "wasserstein"] = "logistic",
        learning_rate: float = 1.0,
        weight_bound: float = math.inf,
        max_grad_norm: float,
        expected_batch_size: float,
        reservation: Reservation,
        rng: np.random.Generator,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self._rows = torch.from_numpy(rows).to(device)  # turned to double by chunks
        self._scale, self._loss, self._bound = n_features**-0.5, loss, weight_bound
        self._clip, self._divisor = max_grad_norm, expected_batch_size
        self._reservation, self._rng = reservation, rng
        self._network = make_network(n_features, hidden_dims, generator).to(device)
        with torch.no_grad():
            next(self._network.parameters()).mul_(min(1.0, _WIDE / n_features))
        self._params = list(self._network.parameters())
        # Most samples in one chunk, by what is public of their size.
        most = min(CHUNK_ROWS, math.ceil(1.5 * expected_batch_size) + 16)
        self._sums = ClippedSums(self._network, max_grad_norm, most)
        self.n_parameters = sum(p.numel() for p in self._params)
        self._rate, self._slower = learning_rate * HIDDEN_RATE, 1.0
        self._slope = 0.5 if loss == "logistic" else 1.0  # of the loss, in doubt
        # Before the last release, and after the steps that followed it.
        self._adam = self._followed = Adam(NETWORK_BETAS)
        self._start = parameters_to_vector(self._params).detach()
        self._released = torch.zeros_like(self._start)

    def begin_round(self, share: float = 1.0) -> None:
        """Begin a round, in which steps are of this share of the learning rate."""
        self._slower = share

    def release(self, features: Features) -> None:
        """Release the noisy gradient of a sample of real rows: one step of DP-SGD."""
        self._start = parameters_to_vector(self._params).detach()
        self._adam = self._followed
        chosen = sampled(self._rows, self._reservation, self._rng)
        total = self.clipped_sum(chosen, features, real=True)
        released = release_mean(total, self._clip, self._divisor, self._reservation)
        self._released = released.to(self._start)

    def clipped_sum(
        self, rows: Tensor, features: Features, *, real: bool = False
    ) -> Tensor:
        """Sum the clipped gradients of private rows: sensitivity C."""
        return self._sums.of_private(
            rows,
            lambda chunk: features(chunk) * self._scale,
            lambda scores: self._losses(scores, real=real),
        )

    def add(self, unlabelled: Tensor, alpha: float) -> None:
        """Add the released mean of rows to be rejected to that of real ones.

        ``real + alpha unlabelled + (1 - alpha) generated``, divided by 1 - alpha.
        """
        added = alpha * unlabelled.to(self._released)
        self._released = (self._released + added) / (1.0 - alpha)

    def told(self, generated: Tensor, features: Features) -> tuple[Told, Tensor]:
        """Return what the last release of a linear one says, beside generated rows.

        And the mean features of these. At weights 0 the gradient of a row is its
        features times the slope of the loss; clipping keeps a part of a difference.
        """
        values = features(generated) * self._scale
        total = self._sums(values, lambda scores: self._losses(scores, real=False))
        lengths = self._slope * values.norm(dim=1)
        clipped = lengths.clamp_max(self._clip)
        kept = float((clipped / lengths.clamp_min(1e-30)).mean())
        noise = self._reservation.noise_std * self._clip / self._divisor
        variance = float(clipped.square().mean()) / (len(values) * values.shape[1])
        gain = self._slope * self._scale * kept
        precision = torch.full_like(
            self._released, gain / max(noise**2 + variance, 1e-300)
        )
        beyond = -(self._released + total / len(values))
        means = values.double().mean(0) / self._scale
        information = gain * precision * torch.eye(len(beyond)).to(beyond)
        return Told(information, precision * beyond), means

    def follow(self, generated: Tensor, features: Features) -> None:
        """Step from before the last release, with it and the gradient of public rows.

        It is post-processing, and may be taken again when these rows have changed.
        """
        # The gradient is that of the weights before.
        vector_to_parameters(self._start, self._params)
        values = features(generated) * self._scale
        total = self._sums(values, lambda scores: self._losses(scores, real=False))
        gradient = self._released + (total / len(generated)).to(self._released)
        if self._loss == "logistic":
            gradient = gradient + self._penalty(values)
        self._followed = copy.deepcopy(self._adam)
        (step,) = self._followed([gradient])
        rate = self._rate * self._slower
        kept = (1.0 - FORGOTTEN / HIDDEN_RATE * rate) * self._start
        weights = kept - rate * step
        weights.clamp_(-self._bound, self._bound)
        vector_to_parameters(weights, self._params)

    def objective(self, rows: Tensor, features: Features) -> Tensor:
        """Return what the generator wants to raise: log D of each row, or its score."""
        scores = scores_of(self._network, features(rows) * self._scale)
        return functional.logsigmoid(scores) if self._loss == "logistic" else scores

    def _losses(self, scores: Tensor, *, real: bool) -> Tensor:
        signed = (-scores if real else scores).squeeze(-1)
        return functional.softplus(signed) if self._loss == "logistic" else signed

    def _penalty(self, values: Tensor) -> Tensor:
        """Differentiate half the mean squared length of the score's slopes.

        At generated rows, which are public: the second of the two regularisers of
        Mescheder, Geiger and Nowozin (2018).
        """
        with torch.enable_grad():
            values = values.detach().double().requires_grad_()
            scores = self._network(values)
            (slopes,) = torch.autograd.grad(scores.sum(), values, create_graph=True)
            penalty = 0.5 * slopes.square().sum(1).mean()
        parts = torch.autograd.grad(penalty, self._params, materialize_grads=True)
        weight = min(_PENALTY, _WIDE_PENALTY * float(values.detach().square().max()))
        return weight * torch.cat([part.flatten() for part in parts])


def train_generator(
    generator: Trainer, discriminator: Discriminator, n_rows: int
) -> None:
    """Step with a discriminator that follows the generator: post-processing."""
    draws = generator.draw(n_rows)
    discriminator.follow(generator.rows(draws), generator.features)
    objective = partial(discriminator.objective, features=generator.features)
    generator.ascend(generator.gradient(draws, objective))


def scores_of(network: nn.Module, values: Tensor) -> Tensor:
    """Return a network's score of each row, without its weights in the graph."""
    parameters = {name: p.detach().to(values) for name, p in network.named_parameters()}
    scores: Tensor = functional_call(network, parameters, (values,))
    return scores.squeeze(-1)


def make_network(
    n_features: int, hidden_dims: Sequence[int], generator: torch.Generator
) -> nn.Sequential:
    """Make the network, in double precision; without hidden layers it starts at 0."""
    layers: list[nn.Module] = []
    for depth, (n_in, n_out) in enumerate(pairwise((n_features, *hidden_dims, 1))):
        # A bias of the score itself would say nothing about a direction.
        hidden = depth < len(hidden_dims)
        # Without torch's initial draws, which are global.
        layer = skip_init(nn.Linear, n_in, n_out, bias=hidden, dtype=torch.float64)
        # He's rule; features were divided by the root of their number.
        std = math.sqrt(2 / (n_in if depth else 1)) if hidden_dims else 0.0
        drawn = torch.randn(layer.weight.shape, generator=generator)
        with torch.no_grad():
            layer.weight.copy_(std * drawn)
            if hidden:
                layer.bias.zero_()
        layers += [layer, nn.SiLU()] if hidden else [layer]
    return nn.Sequential(*layers)


class Student:
    """A network that learns labels by cross-entropy, and scores generated rows.

    It learns the labels of the last rounds, since it cannot know what an old one says
    of a generator that has moved.
    """

    def __init__(
        self,
        n_features: int,
        hidden_dims: Sequence[int],
        *,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.scale = n_features**-0.5
        double = make_network(n_features, hidden_dims, generator)
        self.network = double.to(device, torch.float32)
        self._params = list(self.network.parameters())
        self._adam = Adam(NETWORK_BETAS)
        self._generator = generator
        self._inputs: list[Tensor] = []
        self._labels: list[Tensor] = []
        self._beside: Tensor | None = None  # a gradient that is added to that of labels

    def add(self, seen: Tensor, labels: Tensor) -> None:
        """Keep the labels of rows with features `seen`, in place of the oldest."""
        self._inputs = [*self._inputs, self.scale * seen][-_ROUNDS:]
        self._labels = [*self._labels, labels.to(seen)][-_ROUNDS:]

    def train(self, n_steps: int) -> None:
        """Take steps of Adam on batches of the last labels."""
        inputs, labels = torch.cat(self._inputs), torch.cat(self._labels)
        for _ in range(n_steps):
            chosen = torch.randint(len(labels), (BATCH,), generator=self._generator)
            with torch.enable_grad():
                logits = self.network(inputs[chosen]).squeeze(-1)
                loss = functional.binary_cross_entropy_with_logits(
                    logits, labels[chosen]
                )
                gradients = torch.autograd.grad(loss, self._params)
            gradient = parameters_to_vector(gradients)
            if self._beside is not None:
                gradient += self._beside.to(gradient)
            kept = (1.0 - FORGOTTEN) * parameters_to_vector(self._params).detach()
            (step,) = self._adam([gradient])
            vector_to_parameters(kept - HIDDEN_RATE * step, self._params)

    def add_gradient(self, gradient: Tensor) -> None:
        """Learn from a released mean gradient as well; it replaces the last one."""
        self._beside = gradient

    def objective(self, rows: Tensor, features: Features) -> Tensor:
        """Return what the generator wants to raise: log S of each row."""
        return functional.logsigmoid(
            scores_of(self.network, features(rows) * self.scale)
        )


def ascend_student(generator: Trainer, student: Student, n_steps: int) -> None:
    """Train a generator against a student: post-processing."""
    objective = partial(student.objective, features=generator.features)
    for _ in range(n_steps):
        generator.ascend(generator.gradient(generator.draw(BATCH), objective))
