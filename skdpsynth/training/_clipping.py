"""Poisson samples of rows, and sums of clipped gradients: what DP-SGD stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# Gradients are computed in double precision, so a row's differs by less than 1e-13 of
# its size when another row leaves and its place in a chunk changes. This room below the
# clipping norm covers that for ten million rows.
ROUNDING_ROOM = 1e-6


def poisson_sample(
    n_rows: int, sampling_rate: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the positions of rows that an independent, secret draw each chose."""
    return np.flatnonzero(rng.random(n_rows) < sampling_rate)


def padded(rows: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Fill private rows up to a fixed shape: another may round them differently."""
    chunk = rows.new_zeros((size, rows.shape[1]), dtype=torch.float64)
    chunk[: len(rows)] = rows
    inside = chunk.new_zeros(size)
    inside[: len(rows)] = 1.0
    return chunk, inside


def clipped_sums(gradients: list[Tensor], max_grad_norm: float) -> list[Tensor]:
    """Clip every row's gradient to an L2 norm over all parameters, and add the rows up.

    One tensor of shape (n_rows, ...) per parameter; sums are float64. A row with an
    entry that is not finite counts as 0, and a millionth of the norm C is left for
    rounding. One row more or less changes the sums, together, by an L2 norm of at most
    C.
    """
    flat = [g.flatten(1).double() for g in gradients]
    norms = torch.stack([g.square().sum(dim=1) for g in flat]).sum(dim=0).sqrt()
    usable = norms.isfinite()
    clip = max_grad_norm * (1.0 - ROUNDING_ROOM)
    factors = torch.where(usable, clip / norms.clamp_min(clip), 0.0)
    return [
        (factors @ g.where(usable[:, None], 0.0)).reshape(gradient.shape[1:])
        for g, gradient in zip(flat, gradients, strict=True)
    ]


def clipped_layer_sums(
    slopes: Sequence[Tensor],
    inputs: Sequence[Tensor],
    biased: Sequence[bool],
    max_grad_norm: float,
) -> list[Tensor]:
    """Return `clipped_sums` of linear layers without a gradient per row.

    A row's gradient by a layer is the product of its two, `slopes` and `inputs`, so its
    norm is that of the factors, and the sum of the clipped ones is a matrix product.
    """
    pairs = list(zip(slopes, inputs, biased, strict=True))
    squares = [s.square().sum(1) * (x.square().sum(1) + bias) for s, x, bias in pairs]
    norms = torch.stack(squares).sum(dim=0).sqrt()
    usable = norms.isfinite()
    clip = max_grad_norm * (1.0 - ROUNDING_ROOM)
    factors = torch.where(usable, clip / norms.clamp_min(clip), 0.0)[:, None]
    sums = []
    for slope, values, bias in pairs:
        kept = (factors * slope).where(usable[:, None], 0.0)
        sums.append(kept.T @ values.where(usable[:, None], 0.0))
        if bias:
            sums.append(kept.sum(0))
    return sums
