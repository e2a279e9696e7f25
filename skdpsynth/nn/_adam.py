"""Torch's Adam, from gradients of any.

In its functional form: the first optimizer of a process imports torch's compiler, which
takes seconds and is not used here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.optim.adam import adam

if TYPE_CHECKING:
    from collections.abc import Sequence

_SQUARES = 0.99


class AdamSteps:
    """Moves parameters in place against their gradients (Kingma, Ba 2015)."""

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        floor: float = 1e-8,
    ) -> None:
        self._parameters = list(parameters)
        self._means = [torch.zeros_like(p) for p in self._parameters]
        self._squares = [torch.zeros_like(p) for p in self._parameters]
        self._counts = [torch.zeros(()) for _ in self._parameters]
        self._betas, self._floor = betas, floor

    @torch.no_grad()
    def __call__(self, gradients: Sequence[torch.Tensor], rate: float) -> None:
        """Take one step."""
        adam(
            self._parameters,
            list(gradients),
            self._means,
            self._squares,
            [],
            self._counts,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=rate,
            weight_decay=0.0,
            eps=self._floor,
            maximize=False,
        )


class Adam:
    """Turns gradients into the direction of the next step, of about unit size.

    `floor` is the size of a gradient that counts as nothing. `momentum`, in [0, 1), is
    what is left of the last direction; networks that play against each other take less.
    """

    def __init__(self, floor: float = 1e-12, momentum: float = 0.9) -> None:
        self._floor, self._betas = floor, (momentum, _SQUARES)
        self._place: torch.Tensor | None = None

    def __call__(self, gradient: torch.Tensor) -> torch.Tensor:
        """Give the direction of the next step, of the shape of `gradient`."""
        if self._place is None:
            self._place = torch.zeros_like(gradient)
            self._step = AdamSteps([self._place], betas=self._betas, floor=self._floor)
        self._place.zero_()
        self._step([-gradient], rate=1.0)
        return self._place.clone()
