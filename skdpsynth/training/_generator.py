"""What training sees of a generator, whatever its form: mixture, factors or network.

A generator draws ranks, which the measured marginals turn into values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from skdpsynth.model import Arrays

Features = Callable[[Tensor], Tensor]
Score = Callable[[Tensor], Tensor]


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the device to train on; a ValueError where PyTorch cannot use it here."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        # Fails where nothing is computed, or not in double precision.
        torch.zeros(1, dtype=torch.float64, device=resolved).item()
    except (RuntimeError, AssertionError, TypeError) as error:
        msg = (
            f"device must be 'auto' or a device that PyTorch can use here. "
            f"Got {device!r} instead; 'cpu' always works."
        )
        raise ValueError(msg) from error
    return resolved


_LOCK, _BEFORE = Lock(), list[int]()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread inside the block.

    The products of a loop are small. Where cores are busy, threads that wait for each
    other take ten times as long.
    """
    with _LOCK:  # of several fits at the same time only the first saw the number
        _BEFORE.append(_BEFORE[0] if _BEFORE else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            torch.set_num_threads(_BEFORE.pop())


def on_device(device: torch.device) -> Arrays:
    """Return the tensors of a device, as the forms of a mixture use them."""
    take = partial(torch.tensor, dtype=torch.float32, device=device)
    return Arrays(torch, take, lambda values: values.cpu().numpy())


# Of `Adam` for networks, as in DCGAN (Radford et al. 2016), since two chase each other;
# mean squares of gradients follow the last hundred steps.
NETWORK_BETAS = 0.5, 0.99
MOST_PRODUCTS = 500  # of columns, as features: all of 32 columns
# Rows times the mu of all steps, over the root of the number of features, from which
# steps are not mostly noise: 1,000 rows of 14 columns at a twentieth of epsilon 1.
_CLEAR = 6.0
# Public rows, whose mean features are those of the generator, nearly, and codes of a
# finished one: of 4096 bins 64 MB. And rows, labels, codes or teachers whose mean is
# known to a sixteenth of a deviation, which is enough for a step.
N_KNOWN, BATCH = 4096, 256


def n_products(n_columns: int) -> int:
    """Return the number of pairs of columns whose products are features."""
    return min(n_columns * (n_columns - 1) // 2, MOST_PRODUCTS)


def clear_products(n_rows: float, mu: float) -> float:
    """Return how many features so many rows show, with `mu` for all steps."""
    return float((n_rows * mu / _CLEAR) ** 2)


def products(rows: Tensor, pairs: Tensor) -> Tensor:
    """Return the products of `pairs` of columns, (2, n_features), of each row alone."""
    flat = rows.flatten(0, -2)  # of two dimensions, which takes a quarter of the time
    both = flat.index_select(1, pairs[0]) * flat.index_select(1, pairs[1])
    return both.unflatten(0, rows.shape[:-1])


class Draws(NamedTuple):
    """What generated rows are made of, row by row."""

    codes: Tensor  # what their columns share: a component, or normal numbers
    noise: Tensor  # what each column, or bin, has alone


class Trainer(ABC):
    """The generator of one class while it is trained. It never sees a private row.

    Rows are vectors of scores of columns; discriminators see `n_features` features of
    them. A step is along a gradient by the trained parameters. Its length is the
    learning rate, which falls linearly to 0 over the planned steps; the result is the
    mean over their second half. `generator` is a public stream of latent draws, on the
    CPU.
    """

    n_columns: int
    n_features: int  # of a row
    parameters: dict[str, Tensor]

    def __init__(
        self,
        *,
        n_steps: int,
        learning_rate: float,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self._step, self._n_steps, self._learning_rate = 0, n_steps, learning_rate
        self._generator, self._device = generator, device
        self._sum = torch.zeros(())

    def latent(self, *shape: int) -> Tensor:
        """Draw standard normal numbers from the public stream."""
        return torch.randn(shape, generator=self._generator).to(self._device)

    @abstractmethod
    def draw(self, n_rows: int) -> Draws:
        """Draw what `n_rows` generated rows are made of."""

    @abstractmethod
    def rows(self, draws: Draws) -> Tensor:
        """Generate rows of shape (n_rows, n_columns)."""

    @abstractmethod
    def features(self, rows: Tensor) -> Tensor:
        """Return what discriminators see of rows, of each row alone: public."""

    def mean_features(self, draws: Draws) -> Tensor:
        """Compute the mean features of generated rows, as well as draws show them."""
        return self.features(self.rows(draws)).double().mean(0)

    def gradient_of_means(self, draws: Draws, along: Tensor) -> Tensor:
        """Differentiate the mean features along a direction, by what is trained."""
        return self.gradient(draws, lambda rows: self.features(rows) @ along.float())

    @abstractmethod
    def gradient(self, draws: Draws, score: Score) -> Tensor:
        """Differentiate the mean score of generated rows by the trained parameters."""

    def ascend(self, gradient: Tensor, share: float = 1.0) -> None:
        """Take one step along a gradient, of a share of the full length."""
        self._take(self._direction(gradient), self._rate() * share)

    def approach(self, aim: Tensor, draws: Draws, share: float) -> None:
        """Take one step of mean features to an aim, of a share of the full length.

        It ends where they are nearest to the aim: longer ones only swing around it.
        """
        start, rate = self._flat(), self._rate() * share
        if rate == 0.0:
            self._take(torch.zeros_like(start), rate)
            return
        before = self.mean_features(draws)
        direction = self._direction(self.gradient_of_means(draws, aim - before))
        self._set(start + rate * direction)
        moved = self.mean_features(draws) - before
        self._set(start)
        nearest = torch.nan_to_num((aim - before) @ moved / (moved @ moved))
        self._take(direction, rate * float(nearest.clamp(0.0, 1.0)))

    def result(self) -> Any:  # noqa: ANN401 - a mixture, or loadings
        """Return the generator of the mean parameters over the second half."""
        self._set(self._sum / (self._step - self._n_steps // 2))
        return self.present()

    @abstractmethod
    def present(self) -> Any:  # noqa: ANN401
        """Return the generator as it is."""

    def _direction(self, gradient: Tensor) -> Tensor:
        """Return a step of at most 1 in every parameter, and of few that matter."""
        sizes = gradient.abs() + gradient.square().mean().sqrt()
        return gradient / sizes.clamp_min(1e-30)

    def _rate(self) -> float:
        return self._learning_rate * (1.0 - self._step / self._n_steps)

    def _take(self, direction: Tensor, rate: float) -> None:
        self._step += 1
        self._move(direction, rate)
        if 2 * self._step > self._n_steps:
            self._sum = self._sum + self._flat()

    def _move(self, direction: Tensor, rate: float) -> None:
        """Move the parameters."""
        self._set(self._flat() + rate * direction)

    def _flat(self) -> Tensor:
        """Return all parameters as one vector."""
        return torch.cat([value.flatten() for value in self.parameters.values()])

    def _set(self, flat: Tensor) -> None:
        """Take all parameters from one vector."""
        parts = flat.split([value.numel() for value in self.parameters.values()])
        for (name, value), part in zip(self.parameters.items(), parts, strict=True):
            self.parameters[name] = part.reshape(value.shape)
