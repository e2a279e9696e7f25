"""PATE-TripleGAN's classifier: softmax regression trained by DP-SGD.

Its weights are released numbers, so what it says of a row depends on other rows
through them alone. That is what keeps the terms of unlabelled rows apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from skdpsynth.nn._clipping import clipped_sums, padded, poisson_sample
from skdpsynth.nn._private import HoldsPrivateRows
from skdpsynth.privacy import of_rows, release_float_gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.privacy import Reservation

_CHUNK = 8192  # rows that pass at once, always as many; bounds the memory


class Classifier(HoldsPrivateRows):
    """Says to which class a row belongs.

    Lists have an entry per class. `rows` are features of labelled private rows, maybe
    none, and `generated` those of public rows, all float64 of shape (n_rows,
    n_features). A reservation pays for one noisy sum per step over the rows of its
    class; a class without one is represented by its generated rows. Expected batch
    sizes are public divisors. `rng` is secret and draws the Poisson samples.

    *Privacy.* A row's term is its own clipped gradient at released weights. It enters
    the sum of its class, which only rows of that class pay for. One sum over the rows
    of all classes would need the noise of the smallest class for all of them, since
    every class weighs the same: its rows' weights are the largest, and the largest set
    the sensitivity.
    """

    def __init__(
        self,
        weights: NDArray[np.float64],
        rows: list[NDArray[np.float64]],
        generated: list[NDArray[np.float64]] | None,
        reservations: list[Reservation | None],
        expected_batch_sizes: list[float],
        *,
        max_grad_norm: float,
        learning_rate: float,
        pairs_weight: float,
        rng: np.random.Generator,
    ) -> None:
        self.weights = torch.from_numpy(weights).double()
        self._rows = [torch.from_numpy(part) for part in rows]
        self._generated = None
        if generated is not None:
            self._generated = [torch.from_numpy(part) for part in generated]
        self._reservations = reservations
        self._divisors = expected_batch_sizes
        self._clip = max_grad_norm
        self._learning_rate = learning_rate
        self._pairs_weight = pairs_weight
        self._rng = rng

    def train_step(self) -> None:
        """Take one step: noisy gradients of labelled rows, exact ones of fakes.

        The loss is the mean over classes of the cross-entropy of the class's rows, plus
        that of its generated rows times `pairs_weight` (R_c and R_p of the paper).
        """
        gradient = torch.zeros_like(self.weights)
        for position, reservation in enumerate(self._reservations):
            pairs = self._of_generated(position)
            gradient += self._pairs_weight * pairs
            gradient += pairs if reservation is None else self._release(position)
        self.weights = self.weights - self._learning_rate * gradient / len(self._rows)

    def _release(self, position: int) -> torch.Tensor:
        """Release the sum of the clipped gradients of one class, and divide it."""
        reservation, rows = self._reservations[position], self._rows[position]
        assert reservation is not None
        # A stream per class and step: where one ends follows from the number of rows.
        (rng,) = self._rng.spawn(1)
        rate = reservation.sampling_rate
        drawn = poisson_sample(len(rows), rate, of_rows(rng, rows))
        total = self._clipped_sum(rows[torch.from_numpy(drawn)], position)
        released = release_float_gaussian(total.numpy(), self._clip, reservation)
        return torch.from_numpy(released / self._divisors[position])

    def _of_generated(self, position: int) -> torch.Tensor:
        """Give the mean gradient of generated rows; exact, since they are public."""
        if self._generated is None:
            return torch.zeros_like(self.weights)
        rows = self._generated[position]
        return self._clipped_sum(rows, position) / len(rows)

    def _clipped_sum(self, rows: torch.Tensor, position: int) -> torch.Tensor:
        """Sum the clipped gradients of rows of one class, in chunks of fixed shape."""
        total = torch.zeros_like(self.weights)
        for start in range(0, len(rows), _CHUNK):
            chunk, inside = padded(rows[start : start + _CHUNK], _CHUNK)
            errors = torch.softmax(chunk @ self.weights.T, dim=1)
            errors[:, position] -= 1.0
            errors *= inside[:, None]
            each = errors[:, :, None] * chunk[:, None, :]
            total += clipped_sums([each], self._clip)[0]
        return total


def pseudo_label_rows(
    weights: torch.Tensor, features: NDArray[np.float64], prior: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Give the likeliest class of every row, row by row, in chunks of fixed shape."""
    labels = np.empty(len(features), dtype=np.int64)
    shift = torch.from_numpy(np.log(prior))
    for start in range(0, len(features), _CHUNK):
        rows = torch.from_numpy(features[start : start + _CHUNK])
        # Not a matrix product, whose rounding of a row depends on its place.
        products = padded(rows, _CHUNK)[0][:, None, :] * weights
        logits = products.sum(dim=-1) + shift
        labels[start : start + _CHUNK] = logits.argmax(dim=1)[: len(rows)].numpy()
    return labels
