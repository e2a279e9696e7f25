"""The students of the papers: networks that learn released labels of generated rows.

Like `StudentDiscriminator`, they never see a private row. Theirs are the labels of the
last rounds, since a network cannot say what an old label means of a generator that has
moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from skdpsynth.generators import AdamSteps
from skdpsynth.models import Adam
from skdpsynth.training._discriminator import (
    FORGOTTEN,
    HIDDEN_RATE,
    MOMENTUM,
    forward,
    make_network,
)
from skdpsynth.training._student import BATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skdpsynth.models import Features, Trainer


_ROUNDS = 8  # whose labels are learnt again


class RowFeatures(NamedTuple):
    """What teachers and a student network see of a row; public, row by row."""

    features: Features
    n_features: int

    @classmethod
    def of(cls, trainer: Trainer) -> RowFeatures:
        """Return the features that a generator has."""
        return cls(trainer.features(), trainer.n_features)


class RecentLabels:
    """Released labels of the last rounds, with what is seen of the rows."""

    def __init__(self) -> None:
        self._count = 0

    def add(
        self,
        view: RowFeatures,
        generated: Tensor,
        labels: Tensor,
        pool: Tensor,
        slope: float,
    ) -> None:
        """Keep the labels of one round's generated rows, in place of the oldest."""
        del pool, slope  # how sharp labels are shows in the labels
        seen = view.features(generated)
        if self._count == 0:
            self._inputs = seen.new_empty((_ROUNDS, *seen.shape))
            self._labels = seen.new_empty((_ROUNDS, len(labels)))
        place = self._count % _ROUNDS
        self._inputs[place], self._labels[place] = seen, labels.to(seen)
        self._count += 1

    def kept(self) -> tuple[Tensor, Tensor]:
        """Return what is seen of the rows (n_labels, n_features), and their labels."""
        n_rounds = min(self._count, _ROUNDS)
        return self._inputs[:n_rounds].flatten(0, 1), self._labels[:n_rounds].flatten()


class StudentNetwork:
    """A network that learns labels by cross-entropy, and scores generated rows."""

    def __init__(
        self,
        trainer: Trainer,
        hidden_dims: Sequence[int],
        *,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self._scale = trainer.n_features**-0.5
        network = make_network(trainer.n_features, hidden_dims, generator)
        network = network.to(device, torch.float32)
        self._layers = [part for part in network if isinstance(part, torch.nn.Linear)]
        self._params = list(network.parameters())
        # Detached, they are the same memory.
        self._step = AdamSteps(
            [p.detach() for p in self._params], betas=(MOMENTUM, 0.99)
        )
        self._generator = generator

    def train(self, buffer: RecentLabels, n_steps: int, rate: float = 1.0) -> None:
        """Take steps of Adam on batches of the last labels."""
        inputs, labels = buffer.kept()
        for _ in range(n_steps):
            chosen = torch.randint(len(labels), (BATCH,), generator=self._generator)
            gradients = self._gradients(inputs[chosen], labels[chosen])
            with torch.no_grad():
                for p in self._params:
                    p.mul_(1.0 - FORGOTTEN * rate)
                self._step(gradients, HIDDEN_RATE * rate)

    def _gradients(self, inputs: Tensor, labels: Tensor) -> list[Tensor]:
        """Differentiate the mean cross-entropy by the weights."""
        with torch.enable_grad():
            layers = forward(self._layers, (inputs * self._scale).requires_grad_())
            logits = layers[-1][1].squeeze(-1)
            loss = functional.binary_cross_entropy_with_logits(logits, labels)
            slopes = torch.autograd.grad(loss, [after for _, after in layers])
        found = []
        for layer, slope, (before, _) in zip(self._layers, slopes, layers, strict=True):
            found.append(slope.T @ before.detach())
            if layer.bias is not None:
                found.append(slope.sum(0))
        return found

    def _logits(self, inputs: Tensor) -> Tensor:
        return forward(self._layers, inputs * self._scale)[-1][1].squeeze(-1)

    def objective(self, rows: Tensor, features: Features) -> Tensor:
        """Return what the generator wants to raise: log S of each row."""
        return functional.logsigmoid(self._logits(features(rows)))


class NetworkAscent:
    """The generator's steps through a student network (Adam's direction)."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer, self._adam = trainer, Adam(momentum=MOMENTUM)

    def step(self, discriminator: StudentNetwork) -> None:
        """Raise the student's log S: one step on fresh generated rows."""
        trainer = self._trainer
        features, draws = trainer.features(), trainer.draw(BATCH)
        gradient = trainer.gradient(
            draws, lambda rows: discriminator.objective(rows, features)
        )
        trainer.ascend(self._adam(gradient))
