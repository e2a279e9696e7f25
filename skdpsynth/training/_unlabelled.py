"""PATE-TripleGAN's classifier, and the branch of rows without a label that it labels.

The weights of the classifier (softmax regression by DP-SGD) are released numbers, so
what it says of a row depends on other rows through them alone. It is then frozen, and
a discriminator should reject the pairs as it does generated rows (Li et al. 2017): the
target is fixed, and a row's term is its own, whatever the other rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

from skdpsynth.privacy import HoldsPrivateRows, Reservation, release_float_gaussian
from skdpsynth.training._dp_sgd import (
    CHUNK_ROWS,
    ClippedSums,
    padded,
    release_mean,
    sampled,
)
from skdpsynth.utils.arrays import Floats, Ints

_PAIRS_WEIGHT = 0.1  # the paper's alpha_p


class Classifier(HoldsPrivateRows):
    """A softmax regression that gives rows a class.

    Lists have an entry per class. `rows` are features of labelled private rows, maybe
    none, and `generated` those of public rows, all float64 of shape (n_rows,
    n_features). A reservation covers one noisy sum per step over the rows of its class;
    a class without one is represented by its generated rows. Expected batch sizes are
    public divisors. `rng` is secret and draws the Poisson samples.

    *Privacy.* A row's term is its own clipped gradient at released weights. It enters
    the sum of its class, which is charged to the rows of that class alone. One sum over
    the rows of all classes would need the noise of the smallest class for all of them,
    since every class weighs the same: its rows' weights are the largest, and the
    largest set the sensitivity.
    """

    def __init__(
        self,
        weights: Floats,
        rows: list[Floats],
        generated: list[Floats] | None,
        reservations: list[Reservation | None],
        expected_batch_sizes: list[float],
        *,
        rng: np.random.Generator,
        max_grad_norm: float = 1.0,
    ) -> None:
        n_classes, n_features = weights.shape
        self._network = skip_init(
            nn.Linear, n_features, n_classes, bias=False, dtype=torch.float64
        )
        self.weights = self._network.weight.detach()  # the same memory
        self.weights.copy_(torch.from_numpy(weights))
        self._sums = ClippedSums(self._network, max_grad_norm)
        self._rows = [torch.from_numpy(part) for part in rows]
        self._generated = [torch.from_numpy(part) for part in generated or ()]
        self._reservations, self._divisors = reservations, expected_batch_sizes
        self._clip, self._rng = max_grad_norm, rng

    def train_step(self) -> None:
        """Take one step: noisy gradients of labelled rows, exact ones of generated.

        The loss is R_c + alpha_p R_p of the paper; every class weighs the same.
        """
        gradient = torch.zeros(self.weights.numel(), dtype=torch.float64)
        for position, reservation in enumerate(self._reservations):

            def losses(scores: Tensor, position: int = position) -> Tensor:
                labels = torch.full((len(scores),), position)
                return functional.cross_entropy(scores, labels, reduction="none")

            pairs = torch.zeros_like(gradient)
            if self._generated:  # exact, since they are public
                generated = self._generated[position]
                pairs = self._sums(generated, losses) / len(generated)
            gradient += _PAIRS_WEIGHT * pairs
            if reservation is None:
                gradient += pairs
                continue
            rows = sampled(self._rows[position], reservation, self._rng)
            total = self._sums.of_private(rows, lambda chunk: chunk, losses)
            divisor = self._divisors[position]
            gradient += release_mean(total, self._clip, divisor, reservation)
        self.weights -= (gradient / len(self._rows)).reshape(self.weights.shape)


def pseudo_label_rows(weights: Tensor, features: Floats, prior: Floats) -> Ints:
    """Return the likeliest class of every row, row by row, in chunks of fixed shape."""
    labels = np.empty(len(features), dtype=np.int64)
    shift = torch.from_numpy(np.log(prior))
    for start in range(0, len(features), CHUNK_ROWS):
        rows = torch.from_numpy(features[start : start + CHUNK_ROWS])
        # Not a matrix product, whose rounding of a row depends on its place.
        products = padded(rows, CHUNK_ROWS)[0][:, None, :] * weights
        logits = products.sum(dim=-1) + shift
        labels[start : start + CHUNK_ROWS] = logits.argmax(dim=1)[: len(rows)].numpy()
    return labels


def rejected(scores: Tensor) -> Tensor:
    """Return the loss of rows whose target is "fake": -log(1 - S) of each."""
    return functional.softplus(scores.squeeze(-1))


class UnlabelledBranch(HoldsPrivateRows):
    """Releases the gradients of unlabelled rows for all discriminators at once.

    Of each class, `rows` are the scores of the private rows with this pseudo-label
    (float32, maybe none), and `counts` their noisy number. `weight` is the paper's
    alpha, in [0, 1). The reservation covers one release per round, charged to
    unlabelled rows. `weights` has alpha for each class, less where few rows have this
    pseudo-label: public.

    *Privacy.* The classifier is released and frozen, so it gives every row one class
    for good, and the row a term in the part of that class alone. All parts are one
    vector of sensitivity C, the clipping norm. Poisson samples are drawn by a secret
    rng.

    A class whose rows are lost in the noise of their sum gets a smaller weight, and
    generated rows the rest: the noise of its part, times its weight, has then a norm of
    about ``weight C / sqrt(n_parameters)`` at most.
    """

    def __init__(
        self,
        rows: Mapping[int, NDArray[np.float32]],
        *,
        weight: float,
        counts: Mapping[int, float],
        n_parameters: Mapping[int, int],
        max_grad_norm: float,
        reservation: Reservation,
        rng: np.random.Generator,
        device: torch.device,
    ) -> None:
        self._rows = {c: torch.from_numpy(part).to(device) for c, part in rows.items()}
        self._sizes = dict(n_parameters)
        self._clip = max_grad_norm
        self._reservation, self._rng = reservation, rng
        self._divisors, self.weights = {}, {}
        rate = reservation.sampling_rate
        for c, size in self._sizes.items():
            expected = rate * max(counts[c], 1.0)
            self._divisors[c] = max(expected, size * reservation.noise_std)
            self.weights[c] = weight * expected / self._divisors[c]

    def release(
        self, sums: Mapping[int, Callable[[Tensor], Tensor]]
    ) -> dict[int, Tensor]:
        """Release one noisy sum over a sample of the unlabelled rows.

        Of each class that takes part, its part over a public divisor comes back.
        """
        parts = [
            clipped_sum(sampled(self._rows[c], self._reservation, self._rng))
            for c, clipped_sum in sums.items()
        ]
        total = torch.cat(parts).cpu().numpy()
        released = release_float_gaussian(total, self._clip, self._reservation)
        split = torch.from_numpy(released).split([self._sizes[c] for c in sums])
        return {
            c: part / self._divisors[c] for c, part in zip(sums, split, strict=True)
        }
