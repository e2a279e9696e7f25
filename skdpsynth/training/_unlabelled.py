"""The branch of unlabelled rows: each with the label that the classifier gives it.

To a discriminator such a pair is a fake beside the generator's (Li et al. 2017). The
target is fixed and the classifier frozen, so a row's term is its own, whatever the
other rows are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from skdpsynth.privacy import HoldsPrivateRows, of_rows, release_float_gaussian
from skdpsynth.training._clipping import clipped_sums, padded, poisson_sample
from skdpsynth.training._discriminator import Discriminator
from skdpsynth.training._student import StudentDiscriminator, View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from skdpsynth.models import Features
    from skdpsynth.privacy import Reservation


_AT_ONCE = 8192  # rows that pass at once, always as many; bounds the memory


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
        for start in range(0, len(rows), _AT_ONCE):
            chunk, inside = padded(rows[start : start + _AT_ONCE], _AT_ONCE)
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
    for start in range(0, len(features), _AT_ONCE):
        rows = torch.from_numpy(features[start : start + _AT_ONCE])
        # Not a matrix product, whose rounding of a row depends on its place.
        products = padded(rows, _AT_ONCE)[0][:, None, :] * weights
        logits = products.sum(dim=-1) + shift
        labels[start : start + _AT_ONCE] = logits.argmax(dim=1)[: len(rows)].numpy()
    return labels


_CHUNK = 2048  # rows that pass at once, always as many; bounds the memory


class UnlabelledBranch(HoldsPrivateRows):
    """Releases what unlabelled rows say to the discriminators of all classes at once.

    Of each class, `rows` are the scores of the private rows with this pseudo-label
    (float32, maybe none), and `counts` their noisy number. `weight` is the paper's
    alpha, in [0, 1). The reservation pays for one release per round, and unlabelled
    rows pay it. `weights` has alpha for each class, less where few rows have this
    pseudo-label: public.

    *Privacy.* The classifier is released and frozen, so it gives every row one class
    for good, and the row a term in the part of that class alone. All parts are one
    vector of sensitivity C, the clipping norm. Poisson samples are drawn by a secret
    rng.

    A class whose rows are lost in the noise of their sum gets a smaller weight, and the
    generator's fakes the rest: the noise of its part, times its weight, has then a norm
    of about ``weight C / sqrt(n_parameters)`` at most.
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
        self, sums: Mapping[int, Callable[[torch.Tensor], torch.Tensor]]
    ) -> dict[int, torch.Tensor]:
        """Release one noisy sum over a sample of the unlabelled rows.

        `sums` gives for each class that takes part the sum of rows' clipped gradients,
        float64. What comes back is each class's released part over a public divisor:
        its mean, if the weight of the class is the full one, and else less.
        """
        parts = []
        for c, clipped_sum in sums.items():
            rows = self._rows[c]
            rate = self._reservation.sampling_rate
            # A stream per class: where one ends follows from the number of rows.
            (rng,) = self._rng.spawn(1)
            drawn = poisson_sample(len(rows), rate, of_rows(rng, rows))
            parts.append(clipped_sum(rows[torch.from_numpy(drawn).to(rows.device)]))
        total = torch.cat(parts).cpu().numpy()
        released = release_float_gaussian(total, self._clip, self._reservation)
        split = torch.from_numpy(released).split([self._sizes[c] for c in sums])
        return {
            c: part / self._divisors[c] for c, part in zip(sums, split, strict=True)
        }


class BranchedDiscriminator(Discriminator):
    """A discriminator with two kinds of fakes: the generator's, and unlabelled rows."""

    alpha = 0.0

    @property
    def n_parameters(self) -> int:
        """Length of its gradient."""
        return sum(p.numel() for p in self._params)

    def clipped_sum(self, rows: torch.Tensor, features: Features) -> torch.Tensor:
        """Sum the clipped gradients of rows whose target is "fake", float64.

        One row more or less changes it by an L2 norm of at most C.
        """
        sums = self._sums_of_examples(rows, features)
        return torch.cat([part.flatten() for part in sums])

    def add(self, unlabelled: torch.Tensor) -> None:
        """Add the released mean of unlabelled rows to the release of labelled ones.

        ``real + alpha unlabelled + (1 - alpha) fakes``, divided by 1 - alpha, which is
        a matter of the learning rate.
        """
        parts = unlabelled.split([p.numel() for p in self._params])
        self._released = [
            (real + self.alpha * part.reshape(real.shape).to(real)) / (1.0 - self.alpha)
            for real, part in zip(self._released, parts, strict=True)
        ]


class BranchedStudentDiscriminator(StudentDiscriminator):
    """A student discriminator with two kinds of fakes.

    Its logit is ``<E - (1 - alpha) m - alpha U, f>``: E is what bought labels say of
    labelled rows, m the mean of the features f over the generator's rows, and U that
    over unlabelled rows. A row's gradient is that of ``log(1 - S)`` at S = 1/2, which
    is half its features, divided by the root of their number.
    """

    def __init__(
        self, n_columns: int, device: torch.device, *, max_grad_norm: float
    ) -> None:
        super().__init__(n_columns, device)
        self.alpha = 0.0
        self._clip = max_grad_norm
        self._unlabelled: torch.Tensor | None = None

    @property
    def moments(self) -> torch.Tensor:
        """Mean of ``r r^T`` that the generator's rows should have, (1, scores) = r."""
        believed = super().moments
        if self._unlabelled is None:
            return believed
        return (believed - self.alpha * self._unlabelled) / (1.0 - self.alpha)

    def clipped_sum(self, rows: torch.Tensor, view: View) -> torch.Tensor:
        """Sum the clipped gradients of rows, as `BranchedDiscriminator` does."""
        total = torch.zeros(view.n_features, dtype=torch.float64)
        scale, exact = 0.5 * view.n_features**-0.5, view.double()
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            each = scale * exact.features(padded(part, _CHUNK)[0])
            total += clipped_sums([each[: len(part)]], self._clip)[0].to(total)
        return total

    def add_unlabelled(
        self, unlabelled: torch.Tensor, view: View, own: torch.Tensor
    ) -> None:
        """Learn from a released mean gradient of rows as `view` shows them.

        It replaces the last one; `own` is the generator's mean of ``r r^T`` then.
        """
        means = (unlabelled / (0.5 * view.n_features**-0.5)).to(own)
        # Clipping draws the means towards the generator's: the nearer it is to the
        # truth, the less. So the latest is the best.
        self._unlabelled = own + _moments_of(view, means)


def _moments_of(view: View, means: torch.Tensor) -> torch.Tensor:
    """Give the matrix M for which ``r^T M r`` is the features of r times `means`."""
    eye = torch.eye(len(view.frame)).to(view.frame)
    plain = replace(view, frame=eye, centre=torch.zeros_like(view.centre))
    nothing = torch.zeros_like(eye).requires_grad_()
    with torch.enable_grad():
        product = (plain.expected(nothing) * means).sum()
    gradient = torch.autograd.grad(product, nothing)[0]
    change = gradient + gradient.T - torch.diag(gradient.diagonal())
    inverse = torch.linalg.inv(view.frame)
    return inverse @ change @ inverse.T
