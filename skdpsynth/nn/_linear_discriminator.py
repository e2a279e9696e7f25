"""A linear discriminator that takes one step of DP-SGD from zero, and what it looks at.

Its first step says what the mean features of the real rows are, and its logits are the
differences to the fakes. They follow the generator exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import torch

from skdpsynth.nn._clipping import poisson_sample
from skdpsynth.nn._device import here
from skdpsynth.nn._private import HoldsPrivateRows
from skdpsynth.privacy._aggregators import require_sensitivity
from skdpsynth.privacy._integers import GRID
from skdpsynth.privacy._mechanisms import release_gaussian
from skdpsynth.privacy._parts import Parts, stream_of_part
from skdpsynth.privacy._random import of_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.privacy import Reservation

SLOPES = {"logistic": 0.5, "wasserstein": 1.0}  # of a loss at a logit of 0


class Look(Protocol):
    """What linear discriminators look at: whole-number features of a row; public."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the features of a row."""

    @property
    def squared_norm(self) -> int:
        """Squared L2 norm of the features of a row, at most."""

    @property
    def largest_weight(self) -> int:
        """Of a row, so that it moves `on_grid` by GRID at most."""

    @property
    def unit(self) -> int:
        """Of `on_grid`, in what `sums` adds up."""

    def sums(
        self, rows: torch.Tensor, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Add up the features of rows, exactly; private if the rows are."""

    def on_grid(self, sums: NDArray[np.int64], factor: int = 1) -> NDArray[np.int64]:
        """Multiply sums by a public factor, and fit them into int64; private.

        A change of the exact sums of L2 norm x moves it by ``factor x``, if that is
        `largest_weight` times the norm of a row at most: by GRID.
        """

    def variances(self, means: torch.Tensor) -> torch.Tensor:
        """Give the variances of features of these means, at most."""

    def scaled(self, means: torch.Tensor) -> torch.Tensor:
        """Use what is known of the mean features of any rows."""


class LinearDiscriminator(HoldsPrivateRows):
    """Linear discriminators, from zero, each with one step of DP-SGD.

    `rows` are those of one class as a look takes them, (n_rows, n_columns), private and
    maybe none, an array or such arrays in parts. The reservation pays for one noisy sum
    per step, and `expected_batch_size` is its public divisor. `rng` is secret and draws
    the Poisson samples.

    *Privacy.* At a logit of 0 the loss has one slope for all rows, so the gradient of a
    row is its features times a public number. These are whole numbers of a known norm
    at most, scaled so that it is the slope, and clipping multiplies all rows alike. So
    the clipped sum is a public multiple of exact sums of whole numbers, and its noise
    is discrete. A row moves it by the clipping norm at most, which is GRID here.
    """

    def __init__(
        self,
        rows: NDArray[np.integer] | Parts,
        *,
        loss: Literal["logistic", "wasserstein"],
        max_grad_norm: float,
        expected_batch_size: float,
        reservation: Reservation,
        rng: np.random.Generator,
        device: torch.device,
    ) -> None:
        self._rows, self._device = Parts.of(rows), device
        # Norm of a row's gradient at most, in clipping norms.
        self._norm = min(SLOPES[loss] / max_grad_norm, 1.0)
        self._expected = expected_batch_size
        self._reservation, self._rng = reservation, rng

    def release(self, look: Look) -> tuple[torch.Tensor, torch.Tensor]:
        """Release the gradient of the real rows, one step of DP-SGD.

        Returns what it says of the mean features of real rows, and how far off that is
        as a rule, by noise and by sampling.
        """
        require_sensitivity(self._reservation, GRID)
        factor = int(look.largest_weight * self._norm)
        # With 1 a row would weigh more than its norm; without noise it may.
        if factor < 1 and self._reservation.noise_std > 0:
            raise ValueError(
                "Expected a gradient whose norm is a step of the grid at least. Got "
                f"{self._norm:.6g} clipping norms, where a row weighs "
                f"{look.largest_weight} at most. Choose a smaller max_grad_norm."
            )
        # A stream per step: where one ends is a function of the number of rows.
        (rng,) = self._rng.spawn(1)
        rate, entropy = self._reservation.sampling_rate, int.from_bytes(rng.bytes(32))
        sampled = _sampled_sums, look, rate, entropy, self._device
        summed = self._rows.total(*sampled, numbered=True)
        factor = max(factor, 1)
        gradient = -look.on_grid(summed, factor)  # real rows should have higher logits
        released = release_gaussian(gradient, self._reservation)
        expected = -self._expected * factor / look.unit
        means = torch.from_numpy(released / expected).to(self._device).float()
        noise = self._reservation.noise_std / expected
        off = look.variances(means) * (1.0 - rate) / self._expected
        return means, (noise**2 + off).sqrt()


def _sampled_sums(
    number: int,
    rows: NDArray[np.integer],
    look: Look,
    rate: float,
    entropy: int,
    device: torch.device,
) -> NDArray[np.int64]:
    """Add up the features of a Poisson sample of the rows of a part."""
    rng = of_rows(stream_of_part(entropy, number), rows)
    drawn = poisson_sample(len(rows), rate, rng)
    summed = look.sums(torch.from_numpy(rows[drawn]).to(here(device)))
    return np.asarray(summed.cpu().numpy())
