"""What training sees of a generator, whatever its form.

The forms are the mixture, which holds the dependence of a table, and the factors, for
those that pairs do not serve. A generator draws ranks, and the bought marginals turn
them into values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.nn._teachers import TeacherEnsemble

Parameters = dict[str, torch.Tensor]
Features = Callable[[torch.Tensor], torch.Tensor]
Score = Callable[[torch.Tensor], torch.Tensor]


class Generator(Protocol):
    """The generators of all classes: public, made of releases alone."""

    def draw(
        self, members: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw the ranks of rows of given classes, (n_rows, n_columns), in [0, 1]."""

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Split into JSON-safe facts and arrays, for saving."""


class Trainer(Protocol):
    """The generator of one class while it is trained. It never sees a private row.

    Rows are vectors of `n_columns` scores; what discriminators look at are features.
    Gradients and updates have a number per trained parameter.
    """

    @property
    def n_columns(self) -> int:
        """Scores of a row."""

    @property
    def n_features(self) -> int:
        """Length of the features of a row."""

    @property
    def only_pairs(self) -> bool:
        """Whether means and scales of the scores are right already."""

    @property
    def location(self) -> torch.Tensor:
        """Present mean of each score, of shape (n_columns,)."""

    @property
    def scales(self) -> torch.Tensor:
        """Present scale of each score, of shape (n_columns,)."""

    @property
    def directions(self) -> torch.Tensor:
        """Directions of unit length in the scores, of shape (n_columns, n_factors)."""

    def latent(self, *shape: int) -> torch.Tensor:
        """Draw standard normal numbers from the public stream."""

    def draw(self, n_rows: int) -> Any:  # noqa: ANN401 - each form has its own
        """Draw what `n_rows` fakes are made of."""

    def rows(self, draws: Any) -> torch.Tensor:  # noqa: ANN401
        """Make fakes of shape (n_rows, n_columns)."""

    def features(self) -> Features:
        """Say what discriminators look at now; public, row by row."""

    def moments(self) -> torch.Tensor:
        """Give the exact mean of ``r r^T`` over rows r = (1, scores)."""

    def gradient(self, draws: Any, score: Score) -> torch.Tensor:  # noqa: ANN401
        """Differentiate the mean of a score of the fakes."""

    def pull(
        self,
        draws: Any,  # noqa: ANN401
        features: Features,
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """Give the map from gradients by the features of fakes to what teachers send.

        From shape (n_teachers, n_rows, n_features) to (n_teachers, n_pulled).
        """

    def push(
        self,
        draws: Any,  # noqa: ANN401
        features: Features,
        pulled: torch.Tensor,
    ) -> torch.Tensor:
        """Turn a sum of what teachers send, (n_pulled,), into an update."""

    def pull_back(
        self,
        draws: Any,  # noqa: ANN401
        directions: torch.Tensor,
    ) -> torch.Tensor:
        """Turn a wanted change of every fake into one of the parameters."""

    def ascend(self, update: torch.Tensor) -> None:
        """Take one step along a released update."""

    def result(self) -> Any:  # noqa: ANN401
        """Give the mean parameters over the second half of the steps."""

    def present(self) -> Any:  # noqa: ANN401
        """Give the parameters as they are."""


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
