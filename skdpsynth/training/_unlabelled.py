"""PATE-TripleGAN's classifier, and the branch of rows without a label that it labels.

The weights of the classifier (softmax regression by DP-SGD) are released numbers, so
what it says of a row depends on other rows through them alone. It is then frozen, and
a discriminator should reject the pairs as it does generated rows (Li et al. 2017): the
target is fixed, and a row's term is its own, whatever the other rows are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from skdpsynth.privacy import HoldsPrivateRows, of_rows, release_float_gaussian
from skdpsynth.training._clipping import clipped_sums, padded, poisson_sample
from skdpsynth.training._discriminator import Discriminator, clipped_gradients
from skdpsynth.training._student import StudentDiscriminator, View
from skdpsynth.training._student_network import StudentNetwork

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from skdpsynth.models import Features, Trainer
    from skdpsynth.privacy import Reservation
    from skdpsynth.training._student_network import RowFeatures

    Floats = NDArray[np.float64]


# Rows that pass at once, always as many; bounds the memory.
_AT_ONCE, _STUDENT_AT_ONCE = 8192, 2048


def _sampled(
    rows: Tensor, reservation: Reservation, rng: np.random.Generator
) -> Tensor:
    """Draw a Poisson sample of private rows, by a secret stream of its own."""
    (own,) = rng.spawn(1)
    drawn = poisson_sample(len(rows), reservation.sampling_rate, of_rows(own, rows))
    return rows[torch.from_numpy(drawn).to(rows.device)]


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
        max_grad_norm: float,
        learning_rate: float,
        pairs_weight: float,
        rng: np.random.Generator,
    ) -> None:
        self.weights = torch.from_numpy(weights).double()
        self._rows = [torch.from_numpy(part) for part in rows]
        self._generated = [torch.from_numpy(part) for part in generated or ()]
        self._reservations, self._divisors = reservations, expected_batch_sizes
        self._clip, self._learning_rate = max_grad_norm, learning_rate
        self._pairs_weight, self._rng = pairs_weight, rng

    def train_step(self) -> None:
        """Take one step: noisy gradients of labelled rows, exact ones of generated.

        The loss is R_c + alpha_p R_p of the paper; every class weighs the same.
        """
        gradient = torch.zeros_like(self.weights)
        for position, reservation in enumerate(self._reservations):
            pairs = torch.zeros_like(self.weights)
            if self._generated:  # exact, since they are public
                generated = self._generated[position]
                pairs = self._clipped_sum(generated, position) / len(generated)
            gradient += self._pairs_weight * pairs
            if reservation is None:
                gradient += pairs
            else:
                gradient += self._release(position, reservation)
        self.weights = self.weights - self._learning_rate * gradient / len(self._rows)

    def _release(self, position: int, reservation: Reservation) -> Tensor:
        """Release the sum of the clipped gradients of one class, and divide it."""
        rows = _sampled(self._rows[position], reservation, self._rng)
        total = self._clipped_sum(rows, position).numpy()
        released = release_float_gaussian(total, self._clip, reservation)
        return torch.from_numpy(released / self._divisors[position])

    def _clipped_sum(self, rows: Tensor, position: int) -> Tensor:
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
    weights: Tensor, features: Floats, prior: Floats
) -> NDArray[np.int64]:
    """Return the likeliest class of every row, row by row, in chunks of fixed shape."""
    labels = np.empty(len(features), dtype=np.int64)
    shift = torch.from_numpy(np.log(prior))
    for start in range(0, len(features), _AT_ONCE):
        rows = torch.from_numpy(features[start : start + _AT_ONCE])
        # Not a matrix product, whose rounding of a row depends on its place.
        products = padded(rows, _AT_ONCE)[0][:, None, :] * weights
        logits = products.sum(dim=-1) + shift
        labels[start : start + _AT_ONCE] = logits.argmax(dim=1)[: len(rows)].numpy()
    return labels


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
            clipped_sum(_sampled(self._rows[c], self._reservation, self._rng))
            for c, clipped_sum in sums.items()
        ]
        total = torch.cat(parts).cpu().numpy()
        released = release_float_gaussian(total, self._clip, self._reservation)
        split = torch.from_numpy(released).split([self._sizes[c] for c in sums])
        return {
            c: part / self._divisors[c] for c, part in zip(sums, split, strict=True)
        }


class BranchedDiscriminator(Discriminator):
    """A discriminator that rejects generated rows, and unlabelled rows by `alpha`."""

    alpha = 0.0

    @property
    def n_parameters(self) -> int:
        """Length of its gradient."""
        return sum(p.numel() for p in self._params)

    def clipped_sum(self, rows: Tensor, features: Features) -> Tensor:
        """Sum the clipped gradients of private rows to be rejected: sensitivity C."""
        sums = [torch.zeros_like(p, dtype=torch.float64) for p in self._params]
        for start in range(0, len(rows), self._chunk):
            chunk = rows[start : start + self._chunk]
            if len(self._layers) > 1:
                added = self._private_sums(chunk, features, real=False)
            else:
                self._backward(chunk, features, real=False)
                added = clipped_sums([p.grad_sample for p in self._params], self._clip)
                self._network.zero_grad()
            sums = [total + part for total, part in zip(sums, added, strict=True)]
        return torch.cat([part.flatten() for part in sums])

    def add(self, unlabelled: Tensor) -> None:
        """Add the released mean of unlabelled rows to the release of labelled ones.

        ``real + alpha unlabelled + (1 - alpha) generated``, divided by 1 - alpha.
        """
        parts = unlabelled.split([p.numel() for p in self._params])
        self._released = [
            (real + self.alpha * part.reshape(real.shape).to(real)) / (1.0 - self.alpha)
            for real, part in zip(self._released, parts, strict=True)
        ]


class BranchedStudentDiscriminator(StudentDiscriminator):
    """A student discriminator that rejects unlabelled rows, by `alpha`, as well.

    Its logit is ``<E - (1 - alpha) m - alpha U, f>``: E is what released labels say of
    labelled rows, m the mean of the features f over generated rows, and U that over
    unlabelled rows. A row's gradient is that of ``log(1 - S)`` at S = 1/2, which is
    half its features, divided by the root of their number.
    """

    def __init__(self, trainer: Trainer, *, max_grad_norm: float) -> None:
        super().__init__(trainer)
        self.alpha = 0.0
        self._clip = max_grad_norm
        self._unlabelled: Tensor | None = None

    @property
    def moments(self) -> Tensor:
        """Mean of ``r r^T`` that the generator's rows should have, (1, scores) = r."""
        estimated = super().moments
        if self._unlabelled is None:
            return estimated
        return (estimated - self.alpha * self._unlabelled) / (1.0 - self.alpha)

    def clipped_sum(self, rows: Tensor, view: View) -> Tensor:
        """Sum the clipped gradients of rows, as `BranchedDiscriminator` does."""
        total = torch.zeros(view.n_features, dtype=torch.float64)
        scale, exact = 0.5 * view.n_features**-0.5, view.double()
        for start in range(0, len(rows), _STUDENT_AT_ONCE):
            part = rows[start : start + _STUDENT_AT_ONCE]
            each = scale * exact.features(padded(part, _STUDENT_AT_ONCE)[0])
            total += clipped_sums([each[: len(part)]], self._clip)[0].to(total)
        return total

    def add_unlabelled(self, unlabelled: Tensor, view: View, own: Tensor) -> None:
        """Learn from a released mean gradient, in the place of the last one."""
        means = (unlabelled / (0.5 * view.n_features**-0.5)).to(own)
        # Clipping draws the means towards the generator's: the nearer it is to the
        # truth, the less. So the latest is the best.
        self._unlabelled = own + _moments_of(view, means)


class BranchedStudentNetwork(StudentNetwork):
    """A student network that learns ``labels + alpha unlabelled``, a released mean."""

    def __init__(self, *network: Any, max_grad_norm: float, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*network, **options)
        self.alpha = 0.0
        self._clip = max_grad_norm
        self._unlabelled: list[Tensor] | None = None

    @property
    def n_parameters(self) -> int:
        """Length of its gradient."""
        return sum(p.numel() for p in self._params)

    def clipped_sum(self, rows: Tensor, view: RowFeatures) -> Tensor:
        """Sum the clipped gradients of log(1 - S) of private rows: sensitivity C."""
        total = torch.zeros(self.n_parameters, dtype=torch.float64)
        for start in range(0, len(rows), _STUDENT_AT_ONCE):
            part = rows[start : start + _STUDENT_AT_ONCE]
            chunk, inside = padded(part, _STUDENT_AT_ONCE)
            sums = clipped_gradients(
                self._layers,
                view.features(chunk) * self._scale,
                inside,
                loss="logistic",
                real=False,
                max_grad_norm=self._clip,
            )
            total += torch.cat([own.flatten() for own in sums]).to(total)
        return total

    def add_unlabelled(
        self, unlabelled: Tensor, view: RowFeatures, own: Tensor
    ) -> None:
        """Learn from a released mean gradient; it replaces the last one."""
        del view, own
        parts = unlabelled.split([p.numel() for p in self._params])
        self._unlabelled = [
            part.reshape(p.shape).to(p)
            for part, p in zip(parts, self._params, strict=True)
        ]

    def _gradients(self, inputs: Tensor, labels: Tensor) -> list[Tensor]:
        gradients = super()._gradients(inputs, labels)
        if self._unlabelled is None:
            return gradients
        both = zip(gradients, self._unlabelled, strict=True)
        return [own + self.alpha * part for own, part in both]


def _moments_of(view: View, means: Tensor) -> Tensor:
    """Return the matrix M for which ``r^T M r`` is the features of r times `means`."""
    eye = torch.eye(len(view.frame)).to(view.frame)
    plain = replace(view, frame=eye, centre=torch.zeros_like(view.centre))
    nothing = torch.zeros_like(eye).requires_grad_()
    with torch.enable_grad():
        product = (plain.expected(nothing) * means).sum()
    gradient = torch.autograd.grad(product, nothing)[0]
    change = gradient + gradient.T - torch.diag(gradient.diagonal())
    inverse = torch.linalg.inv(view.frame)
    return inverse @ change @ inverse.T
