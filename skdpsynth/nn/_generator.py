"""What training sees of a generator, whatever its form.

The forms are the mixture, which holds the dependence of a table, the factors, for those
that pairs do not serve, and the network of the papers. A generator draws ranks, and the
bought marginals turn them into values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.nn._teachers import TeacherEnsemble

Parameters = dict[str, torch.Tensor]
Features = Callable[[torch.Tensor], torch.Tensor]
Score = Callable[[torch.Tensor], torch.Tensor]
Pull = Callable[[torch.Tensor], torch.Tensor]


class Generator(Protocol):
    """The generators of all classes: public, made of releases alone."""

    def draw(
        self, members: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw the ranks of rows of given classes, (n_rows, n_columns), in [0, 1]."""

    def within(
        self, spans: Sequence[Mapping[int, NDArray[np.float64]]]
    ) -> tuple[Generator, NDArray[np.float64]]:
        """Restrict the ranks of some columns, class by class, to spans (n, 2).

        Of each class the share of rows that are left is given too. Rows outside may be
        left, and are then part of the share.
        """

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into JSON-safe facts and arrays, for saving."""


class Trainer(ABC):
    """The generator of one class while it is trained. It never sees a private row.

    Rows are vectors of `n_columns` scores; what discriminators look at are features.
    Gradients and updates have a number per trained parameter.

    The learning rate is a step per unit of update, and falls linearly to 0 over the
    planned steps; the result is the mean over their second half. `generator` is a
    public stream of latent draws, on the CPU.
    """

    n_columns: int
    n_features: int  # of a row
    only_pairs: bool  # whether means and scales of the scores are right already
    location: torch.Tensor  # present mean of each score, (n_columns,)
    scales: torch.Tensor  # present scale of each score, (n_columns,)
    directions: torch.Tensor  # of unit length in the scores, (n_columns, n_factors)

    def __init__(
        self,
        *,
        n_steps: int,
        learning_rate: float,
        generator: torch.Generator,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._step, self._n_steps, self._learning_rate = 0, n_steps, learning_rate
        self._generator, self._device, self._dtype = generator, device, dtype
        self._sum = torch.zeros(())

    def latent(self, *shape: int) -> torch.Tensor:
        """Draw standard normal numbers from the public stream."""
        drawn = torch.randn(shape, generator=self._generator)
        return drawn.to(self._device, self._dtype)

    @abstractmethod
    def draw(self, n_rows: int) -> Any:  # noqa: ANN401 - each form has its own
        """Draw what `n_rows` fakes are made of."""

    @abstractmethod
    def rows(self, draws: Any) -> torch.Tensor:  # noqa: ANN401
        """Make fakes of shape (n_rows, n_columns)."""

    @abstractmethod
    def features(self) -> Features:
        """Say what discriminators look at now; public, row by row."""

    @abstractmethod
    def moments(self) -> torch.Tensor:
        """Give the mean of ``r r^T`` over rows r = (1, scores)."""

    @abstractmethod
    def gradient(self, draws: Any, score: Score) -> torch.Tensor:  # noqa: ANN401
        """Differentiate the mean score of fakes by the trained parameters."""

    def pull(self, draws: Any, features: Features) -> Pull:  # noqa: ANN401
        """Give the map from gradients by the features of fakes to what teachers send.

        From shape (n_teachers, n_rows, n_features) to (n_teachers, n_pulled): here to
        the means over the fakes, since there are too many parameters.
        """
        del draws, features
        return lambda wanted: wanted.mean(dim=1)

    def push(
        self,
        draws: Any,  # noqa: ANN401
        features: Features,
        pulled: torch.Tensor,
    ) -> torch.Tensor:
        """Turn a sum of what teachers send, (n_pulled,), into an update."""
        along = pulled.to(self._device, self._dtype)
        return self.gradient(draws, lambda rows: features(rows) @ along)

    def pull_back(self, draws: Any, directions: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        """Turn a wanted change of every fake into one of the parameters."""
        return self.gradient(draws, lambda rows: (rows * directions).sum(dim=1))

    def ascend(self, update: torch.Tensor) -> None:
        """Take one step along a released update of about unit size."""
        rate = self._learning_rate * (1.0 - self._step / self._n_steps)
        self._step += 1
        self._move(update, rate)
        if 2 * self._step > self._n_steps:
            self._sum = self._sum + self._flat()

    def result(self) -> Any:  # noqa: ANN401
        """Give the generator of the mean parameters over the second half."""
        self._set(self._sum / (self._step - self._n_steps // 2))
        return self.present()

    @abstractmethod
    def present(self) -> Any:  # noqa: ANN401
        """Give the generator as it is."""

    @abstractmethod
    def _move(self, update: torch.Tensor, rate: float) -> None:
        """Move the parameters along an update."""

    @abstractmethod
    def _flat(self) -> torch.Tensor:
        """Give all parameters as one vector."""

    @abstractmethod
    def _set(self, flat: torch.Tensor) -> None:
        """Take all parameters from one vector."""


def teacher_gradients(
    teachers: TeacherEnsemble,
    trainer: Trainer,
    draws: Any,  # noqa: ANN401
    features: Features,
) -> NDArray[np.float32]:
    """Give what each teacher would change of the generator, (n_teachers, n_pulled).

    It is the mean over the fakes of the gradient of log D(G(z)) by the parameters of
    factors, and by the features of fakes for a mixture, which has too many. Private:
    row i is computed from teacher i alone.
    """
    pull = trainer.pull(draws, features)
    fakes = trainer.rows(draws)
    parts = [
        pull(gradients).cpu().numpy()
        for _, gradients in teachers.iter_feature_gradients(fakes, features)
    ]
    return np.concatenate(parts)
