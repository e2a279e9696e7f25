"""What training sees of a generator, whatever its form: mixture, factors or network.

A generator draws ranks, which the measured marginals turn into values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from skdpsynth.generators import AdamSteps, Arrays

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Parameters = dict[str, Tensor]
Features = Callable[[Tensor], Tensor]
Score = Callable[[Tensor], Tensor]
Pull = Callable[[Tensor], Tensor]


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the device to train on; a ValueError where PyTorch cannot use it here."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.zeros(1, device=resolved).item()  # fails where nothing is computed
    except (RuntimeError, AssertionError, TypeError) as error:
        msg = (
            f"device must be 'auto' or a device that PyTorch can use here. "
            f"Got {device!r} instead; 'cpu' always works."
        )
        raise ValueError(msg) from error
    return resolved


def on_device(device: torch.device) -> Arrays:
    """Return the tensors of a device, as the forms of a mixture use them."""
    take = partial(torch.tensor, dtype=torch.float32, device=device)
    return Arrays(torch, take, lambda values: values.cpu().numpy())


LEAST_SHARE = 1e-2  # of a bin: with rarer ones as units, gradients are unstable
_SQUARES = 0.99  # of mean squares of gradients, which follow the last hundred steps


class Adam:
    """Turns gradients into the direction of the next step, of about unit size.

    `floor` is the size of a gradient that counts as nothing, `momentum` what is left of
    the last direction.
    """

    def __init__(self, floor: float = 1e-12, momentum: float = 0.9) -> None:
        self._floor, self._betas = floor, (momentum, _SQUARES)
        self._place: Tensor | None = None

    @torch.no_grad()
    def __call__(self, gradient: Tensor) -> Tensor:
        """Return the direction of the next step, of the shape of `gradient`."""
        if self._place is None:
            self._place = torch.zeros_like(gradient)
            self._step = AdamSteps([self._place], betas=self._betas, floor=self._floor)
        self._place.zero_()
        self._step([-gradient], rate=1.0)
        return self._place.clone()


@dataclass(frozen=True)
class Products:
    """Features of rows: each score times the other scores along every direction.

    Directions are of shape (n_columns, n_factors). With `location` and `scales`, scores
    are standardised, and they and their squares are features too. All is public. The
    methods give sums over features that are never formed: a wide table has thousands.
    """

    directions: Tensor
    location: Tensor | None = None
    scales: Tensor | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        """Form the features (..., n_features): scores, squares less 1, and products."""
        values = self._standardised(rows)
        column = values.unsqueeze(-1)
        others = (values @ self.directions).unsqueeze(-2) - column * self.directions
        pairs = (column * others).flatten(-2)
        if self.scales is None:
            return pairs
        return torch.cat([values, values**2 - 1.0, pairs], dim=-1)

    def scores(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Return ``features @ weights``, one per row of scores."""
        values = self._standardised(rows)
        squares = values**2
        n_pairs = self.directions.numel()
        pairs = weights[-n_pairs:].reshape(self.directions.shape)
        total = ((values @ pairs) * (values @ self.directions)).sum(dim=1)
        total = total - squares @ (pairs * self.directions).sum(dim=1)
        if self.scales is not None:
            first, second = weights[:-n_pairs].split(rows.shape[1])
            total = total + values @ first + (squares - 1.0) @ second
        return total

    def norms(self, rows: Tensor) -> Tensor:
        """Return the L2 norm of every row's features, of shape (n_rows,)."""
        values = self._standardised(rows)
        squares, along = values**2, values @ self.directions
        # sum_jk x_j^2 (s_k - x_j D_jk)^2, multiplied out
        total = (along**2).sum(dim=1) * squares.sum(dim=1)
        cross = (along * ((squares * values) @ self.directions)).sum(dim=1)
        total = total - 2.0 * cross + squares**2 @ (self.directions**2).sum(dim=1)
        if self.scales is not None:
            total = total + squares.sum(dim=1) + ((squares - 1.0) ** 2).sum(dim=1)
        return total.clamp_min(0.0).sqrt()

    def weighted_sum(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Return ``weights @ features``, with one weight per row of scores."""
        values = self._standardised(rows)
        weighted = weights.unsqueeze(1) * values
        second = (weighted * values).sum(dim=0)
        pairs = weighted.T @ (values @ self.directions)
        pairs = (pairs - second.unsqueeze(1) * self.directions).flatten()
        if self.scales is None:
            return pairs
        return torch.cat([weighted.sum(dim=0), second - weights.sum(), pairs])

    def _standardised(self, rows: Tensor) -> Tensor:
        if self.location is None or self.scales is None:
            return rows
        return (rows - self.location) / self.scales


class Trainer(ABC):
    """The generator of one class while it is trained. It never sees a private row.

    Rows are vectors of `n_columns` scores; discriminators see features of them.
    Gradients and updates have a number per trained parameter.

    The learning rate is a step per unit of update, and falls linearly to 0 over the
    planned steps; the result is the mean over their second half. `generator` is a
    public stream of latent draws, on the CPU.
    """

    n_columns: int
    n_features: int  # of a row
    only_pairs: bool  # whether means and scales of the scores are right already
    location: Tensor  # present mean of each score, (n_columns,)
    scales: Tensor  # present scale of each score, (n_columns,)
    directions: Tensor  # of unit length in the scores, (n_columns, n_factors)
    parameters: Parameters

    def __init__(
        self,
        *,
        n_steps: int,
        learning_rate: float,
        generator: torch.Generator,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._step, self._n_steps, self._learning_rate = 0, n_steps, learning_rate
        self._generator, self._device, self._dtype = generator, device, dtype
        self._sum = torch.zeros(())

    def latent(self, *shape: int) -> Tensor:
        """Draw standard normal numbers from the public stream."""
        drawn = torch.randn(shape, generator=self._generator)
        return drawn.to(self._device, self._dtype)

    @abstractmethod
    def draw(self, n_rows: int) -> Any:  # noqa: ANN401 - each form has its own
        """Draw what `n_rows` generated rows are made of."""

    @abstractmethod
    def rows(self, draws: Any) -> Tensor:  # noqa: ANN401
        """Generate rows of shape (n_rows, n_columns)."""

    @abstractmethod
    def features(self) -> Features:
        """Return the features that discriminators see now; public, row by row."""

    def moments(self) -> Tensor:
        """Return the mean of ``r r^T``, rows r = (1, scores); a network has none."""
        raise NotImplementedError

    def known_moments(self) -> Tensor:
        """Return the `moments` that are known before training: without random parts."""
        return self.moments()

    @abstractmethod
    def gradient(self, draws: Any, score: Score) -> Tensor:  # noqa: ANN401
        """Differentiate the mean score of generated rows by the trained parameters."""

    def pull(self, draws: Any, features: Features) -> Pull:  # noqa: ANN401
        """Return the map from gradients by features to what teachers send.

        Here to the means over the rows, since there are too many parameters.
        """
        del draws, features
        return lambda wanted: wanted.mean(dim=1)

    def push(self, draws: Any, features: Features, pulled: Tensor) -> Tensor:  # noqa: ANN401
        """Turn a sum of what teachers send, (n_pulled,), into an update."""
        along = pulled.to(self._device, self._dtype)
        return self.gradient(draws, lambda rows: features(rows) @ along)

    def pull_back(self, draws: Any, directions: Tensor) -> Tensor:  # noqa: ANN401
        """Turn a wanted change of every generated row into one of the parameters."""
        return self.gradient(draws, lambda rows: (rows * directions).sum(dim=1))

    def ascend(self, update: Tensor) -> None:
        """Take one step along a released update of about unit size."""
        rate = self._learning_rate * (1.0 - self._step / self._n_steps)
        self._step += 1
        self._move(update, rate)
        if 2 * self._step > self._n_steps:
            self._sum = self._sum + self._flat()

    def result(self) -> Any:  # noqa: ANN401
        """Return the generator of the mean parameters over the second half."""
        self._set(self._sum / (self._step - self._n_steps // 2))
        return self.present()

    @abstractmethod
    def present(self) -> Any:  # noqa: ANN401
        """Return the generator as it is."""

    @abstractmethod
    def _move(self, update: Tensor, rate: float) -> None:
        """Move the parameters along an update."""

    def _flat(self) -> Tensor:
        """Return all parameters as one vector."""
        return torch.cat([value.flatten() for value in self.parameters.values()])

    def _set(self, flat: Tensor) -> None:
        """Take all parameters from one vector."""
        parts = flat.split([value.numel() for value in self.parameters.values()])
        for (name, value), part in zip(self.parameters.items(), parts, strict=True):
            self.parameters[name] = part.reshape(value.shape)
