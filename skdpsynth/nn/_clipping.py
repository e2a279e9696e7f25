"""Poisson samples of rows, and sums of clipped gradients: what DP-SGD stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["clipped_sums", "poisson_sample"]

# Gradients are computed in double precision, so a row's differs by less than 1e-13 of
# its size when another row leaves and its place in a chunk changes. This room below the
# clipping norm covers that for ten million rows.
_ROUNDING_ROOM = 1e-6


def poisson_sample(
    n_rows: int, sampling_rate: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Choose rows by one independent draw each.

    Parameters
    ----------
    n_rows : int
        Number of rows, 0 or more; private.
    sampling_rate : float
        Probability of each row, in (0, 1]; public.
    rng : numpy.random.Generator
        Secret: from `skdpsynth.privacy._random.secret_generator`. With a known seed
        the amplification by sampling is void.

    Returns
    -------
    ndarray of shape (n_chosen,), int64
        Chosen rows, in order; all of them at rate 1, and maybe none.
    """
    return np.flatnonzero(rng.random(n_rows) < sampling_rate)


def clipped_sums(
    gradients: list[torch.Tensor], max_grad_norm: float
) -> list[torch.Tensor]:
    """Clip every row's gradient to an L2 norm and add the rows up.

    Parameters
    ----------
    gradients : list of torch.Tensor of shape (n_rows, ...)
        Gradients of every row, one tensor per parameter. A row with an entry that is
        not finite counts as 0.
    max_grad_norm : float
        The clipping norm C, of a row's gradient over all parameters; positive. A
        millionth of it is left for rounding.

    Returns
    -------
    list of torch.Tensor of shape (...), float64
        The sums. One row more or less changes them, together, by an L2 norm of at
        most C.
    """
    flat = [g.flatten(1).double() for g in gradients]
    norms = torch.stack([g.square().sum(dim=1) for g in flat]).sum(dim=0).sqrt()
    usable = norms.isfinite()
    clip = max_grad_norm * (1.0 - _ROUNDING_ROOM)
    factors = torch.where(usable, clip / norms.clamp_min(clip), 0.0)
    return [
        (factors @ g.where(usable[:, None], 0.0)).reshape(gradient.shape[1:])
        for g, gradient in zip(flat, gradients, strict=True)
    ]
