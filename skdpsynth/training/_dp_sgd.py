"""Opacus's optimizer, with clipped sums and noise of our own.

Opacus computes one gradient per row of a linear discriminator (`GradSampleModule`) and
owns the order of a step (`DPOptimizer`). What a proof stands on is done here: rows are
clipped and summed in double precision, noise is drawn from a `Reservation`, and the sum
is divided by a public constant. `PrivacyEngine.make_private` is never used: it takes
rate, steps and divisor from the exact number of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from opacus.optimizers import DPOptimizer

from skdpsynth.privacy import release_float_gaussian
from skdpsynth.training._clipping import clipped_sums

if TYPE_CHECKING:
    from torch import Tensor

    from skdpsynth.privacy import Reservation


class ReservedOptimizer(DPOptimizer):
    """Opacus's optimizer, with the noise of a reservation, one release per step.

    `expected_batch_size` is a public divisor: the sampling rate times the planned
    count, never the number of rows that were drawn. Call `accumulate` after the
    backward pass of every chunk of rows, then `release`. A sample without rows is
    released too: noise around 0.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        max_grad_norm: float,
        expected_batch_size: float,
        reservation: Reservation,
    ) -> None:
        super().__init__(
            optimizer,
            noise_multiplier=reservation.noise_std,
            max_grad_norm=max_grad_norm,
            expected_batch_size=expected_batch_size,
        )
        self._reservation = reservation

    def accumulate(self) -> None:
        """Clip the rows of the last backward pass and add them to the sum."""
        self.signal_skip_step()
        self.pre_step()
        self.zero_grad()

    def clip_and_accumulate(self) -> None:
        """Add the clipped rows to ``summed_grad``, in double precision."""
        self.add(clipped_sums(self.grad_samples, self.max_grad_norm))

    def add(self, sums: list[Tensor]) -> None:
        """Add clipped sums, one per parameter, to ``summed_grad``."""
        for p, added in zip(self.params, sums, strict=True):
            p.summed_grad = added if p.summed_grad is None else p.summed_grad + added

    def release(self) -> None:
        """Set ``grad`` of every parameter to the noisy sum over the public divisor."""
        for p in self.params:
            if p.summed_grad is None:  # no row was drawn
                p.summed_grad = torch.zeros_like(p, dtype=torch.float64)
        self.add_noise()
        for p in self.params:
            p.grad = (p.grad / self.expected_batch_size).to(p)
            p.summed_grad = None

    def add_noise(self) -> None:
        """Release all sums as one vector; one draw of the reservation."""
        params = self.params
        total = torch.cat([p.summed_grad.flatten() for p in params]).cpu().numpy()
        noisy = release_float_gaussian(total, self.max_grad_norm, self._reservation)
        parts = torch.from_numpy(noisy).split([p.numel() for p in params])
        for p, part in zip(params, parts, strict=True):
            # Torch wants a gradient of the parameter's own type.
            p.grad = part.reshape(p.shape).to(p)
