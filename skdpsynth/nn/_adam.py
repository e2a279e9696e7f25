"""Steps of about unit size, from gradients of any: torch's Adam as a direction."""

from __future__ import annotations

import torch

_SQUARES = 0.99


class Adam:
    """Turns gradients into the direction of the next step (Kingma, Ba 2015).

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
            self._optimizer = torch.optim.Adam(
                [self._place], lr=1.0, betas=self._betas, eps=self._floor, maximize=True
            )
        self._place.zero_()
        self._place.grad = gradient
        self._optimizer.step()
        return self._place.clone()
