"""The student of noisy labels of generated rows. It never sees a private row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from skdpsynth.training._discriminator import HIDDEN_RATE, make_network, scores_of
from skdpsynth.training._generator import BATCH, MOMENTUM, Adam, Features, Trainer
from skdpsynth.training._teachers import FORGOTTEN

_ROUNDS = 8  # whose labels are learnt again


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
        self._direction = Adam(momentum=MOMENTUM)
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
            step = HIDDEN_RATE * self._direction(gradient)
            vector_to_parameters(kept - step, self._params)

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
