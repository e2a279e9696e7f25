"""What DP-SGD stands on: Poisson samples of rows, and sums of clipped gradients.

Opacus finds the norm of every row's gradient without the gradient (ghost clipping). The
rest of the proof is here: rows are clipped and summed in double precision and in chunks
of a fixed shape. Noise comes from a `Reservation`, and a sum is divided by a public
constant. `PrivacyEngine.make_private` is never used: it takes rate, steps and divisor
from the exact number of rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from skdpsynth.privacy import Reservation, of_rows, release_float_gaussian

Losses = Callable[[Tensor], Tensor]  # one per row, of the outputs (n_rows, n_out)

# Gradients are computed in double precision, so a row's differs by less than 1e-13 of
# its size when another row leaves and its place in a chunk changes. This room below the
# clipping norm covers that for ten million rows.
ROUNDING_ROOM = 1e-6
CHUNK_ROWS = 2048  # that pass at once, always as many: it bounds the memory


class ClippedSums:
    """Sums the clipped gradients of rows by the weights of a network.

    The network is a stack of linear layers and activations; its weights at the time of
    a call count. `losses` turns outputs into one loss per row.

    *Privacy.* A row enters a sum as its own term alone: there is no normalisation over
    a batch, and rows pass in chunks of a fixed shape, filled up with rows of weight 0.
    One row more or less moves the sum by an L2 norm of at most the clipping norm. What
    its place in a chunk does to a row's term is rounding in double precision, through
    smooth functions; `ROUNDING_ROOM` is left for it. A row whose gradient is not finite
    counts as 0.
    """

    def __init__(
        self, network: nn.Module, max_grad_norm: float, n_rows: int = CHUNK_ROWS
    ) -> None:
        # Slow to import: only who takes such steps waits.
        from opacus.grad_sample import GradSampleModuleFastGradientClipping

        self._source = list(network.parameters())
        self._module = GradSampleModuleFastGradientClipping(
            copy.deepcopy(network).double(), loss_reduction="sum"
        )
        self._params = list(self._module.parameters())
        self._clip, self._n_rows = max_grad_norm, n_rows

    def of_private(
        self, rows: Tensor, features: Callable[[Tensor], Tensor], losses: Losses
    ) -> Tensor:
        """Sum over private rows, maybe none; flat, float64."""
        total = torch.zeros(sum(p.numel() for p in self._params), dtype=torch.float64)
        for start in range(0, len(rows), self._n_rows):
            chunk, inside = padded(rows[start : start + self._n_rows], self._n_rows)
            with torch.no_grad():
                values = features(chunk)
            total += self(values, losses, inside).cpu()
        return total

    def __call__(
        self, values: Tensor, losses: Losses, weights: Tensor | None = None
    ) -> Tensor:
        """Sum over rows of features `values`, each times its weight; flat, float64."""
        with torch.no_grad():
            for p, source in zip(self._params, self._source, strict=True):
                p.copy_(source)
        values = values.detach().double()
        with torch.enable_grad():
            # Torch's hooks warn where the input needs no gradient.
            losses(self._module(values.requires_grad_())).sum().backward()
        norms = self._module.get_norm_sample()
        usable = norms.isfinite()
        clip = self._clip * (1.0 - ROUNDING_ROOM)
        factors = torch.where(usable, clip / norms.clamp_min(clip), 0.0)
        if weights is not None:
            factors = factors * weights
        self._module.disable_hooks()
        with torch.enable_grad():
            finite = values.detach().where(usable[:, None], 0.0).requires_grad_()
            kept = losses(self._module(finite))
            parts = torch.autograd.grad((factors * kept).sum(), self._params)
        self._module.enable_hooks()
        self._module.zero_grad()
        return torch.cat([part.flatten() for part in parts])


def sampled(rows: Tensor, reservation: Reservation, rng: np.random.Generator) -> Tensor:
    """Draw a Poisson sample of private rows, by a secret stream of its own."""
    (choosing,) = rng.spawn(1)  # where one ends is a function of the number of rows
    drawn = of_rows(choosing, rows).random(len(rows)) < reservation.sampling_rate
    return rows[torch.from_numpy(np.flatnonzero(drawn)).to(rows.device)]


def padded(rows: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Fill private rows up to a fixed shape: another may round them differently."""
    chunk = rows.new_zeros((size, rows.shape[1]), dtype=torch.float64)
    chunk[: len(rows)] = rows
    inside = chunk.new_zeros(size)
    inside[: len(rows)] = 1.0
    return chunk, inside


def release_mean(
    total: Tensor, max_grad_norm: float, divisor: float, reservation: Reservation
) -> Tensor:
    """Release a sum of clipped gradients as one vector, over a public divisor."""
    noisy = release_float_gaussian(total.numpy(), max_grad_norm, reservation)
    return torch.from_numpy(noisy / divisor)
