"""The generator of the papers while it is trained: a network of normal codes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from skdpsynth.measure import RARE
from skdpsynth.model import Adam, Mixture
from skdpsynth.training._generator import (
    BATCH,
    N_KNOWN,
    NETWORK_BETAS,
    Draws,
    Score,
    Trainer,
)
from skdpsynth.utils.arrays import Floats

_TEMPERATURE = 0.5  # of the softmax that gradients pass through: nearly one bin
N_CODES = 64  # normal numbers that a row is made of; the papers state none


class Run(NamedTuple):
    """Neighbouring columns that have the same bins, in the same groups (0 or 1)."""

    n_columns: int
    groups: Tensor

    def each(self, values: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a function to each column's values, of all: (..., n_columns * n)."""
        shape = self.n_columns, values.shape[-1] // self.n_columns
        return function(values.unflatten(-1, shape)).flatten(-2)

    def grouped(self, bins: Tensor) -> Tensor:
        """Add the values of the bins of every group."""
        return self.each(bins, lambda part: part @ self.groups.to(part))

    def spread(self, of_groups: Tensor) -> Tensor:
        """Return the sum of the values of its groups, for every bin."""
        return self.each(of_groups, lambda part: part @ self.groups.T)


class NetworkTrainer(Trainer):
    """The network of one class while it is trained; all of it is public.

    A network turns a code of normal numbers into the logits of the bins of
    all columns, and the row is drawn from these. A score is 1 where the column has this
    bin and 0 elsewhere; gradients pass through it as if it were its probability given
    the code (straight through). Nothing is known at first but which bins there are, and
    their groups: an array (n_bins, n_groups) for every column.
    """

    def __init__(
        self,
        ranks: Floats,
        groups: Sequence[NDArray[np.float32]],
        hidden_dims: Sequence[int],
        **training: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**training)
        self._ranks, self._runs = ranks, []
        for _, alike in groupby(groups, key=lambda part: (part.shape, part.tobytes())):
            first, *others = alike
            of_bins = torch.from_numpy(first).to(self._device)
            self._runs.append(Run(1 + len(others), of_bins))
        self._of_bins = [run.n_columns * run.groups.shape[0] for run in self._runs]
        self._of_groups = [run.n_columns * run.groups.shape[1] for run in self._runs]
        self.n_columns, n_groups = sum(self._of_bins), sum(self._of_groups)
        self.n_features = self.n_columns + n_groups
        # A row has one bin of every column, and the groups of this bin.
        ones = len(groups) + sum(float(part[0].sum()) for part in groups)
        self._length = math.sqrt(self.n_features / ones)
        self.parameters = {}
        widths = (N_CODES, *hidden_dims, self.n_features)
        for depth, (n_in, n_out) in enumerate(pairwise(widths)):
            weight = self.latent(n_out, n_in) * math.sqrt(2.0 / n_in)
            self.parameters[f"weight {depth}"] = weight
            self.parameters[f"bias {depth}"] = torch.zeros(n_out, device=self._device)
        weight *= 0.1  # of the last layer: nearly even bins at first
        self._adam = Adam(NETWORK_BETAS)
        self._last: tuple[Draws, tuple[Tensor, Tensor, list[Tensor]]] | None = None

    @staticmethod
    def groups_of(columns: Iterable[Any]) -> list[NDArray[np.float32]]:
        """Return groups of neighbouring bins, some larger than others, by column.

        An entry is 1 where a bin is in a group. Bins that are no intervals are alone.
        """
        of_columns = []
        for column in columns:
            n, bins = column.n_intervals, np.arange(column.n_bins)
            groups = [np.zeros((len(bins), 0), dtype=bool)]
            for factor in (4, 16):
                if n >= 2 * factor:
                    alone = bins - n + (n - 1) // factor + 1
                    places = np.where(bins < n, bins // factor, alone)
                    groups.append(places[:, None] == np.arange(places.max() + 1))
            of_columns.append(np.concatenate(groups, axis=1).astype(np.float32))
        return of_columns

    @property
    def scales(self) -> Tensor:
        """Present deviation of each score, over many codes."""
        mean = self._probabilities(BATCH).mean(0)
        mean = mean.clamp(RARE, 1.0 - RARE)  # with rarer units slopes are unstable
        return (mean * (1.0 - mean)).sqrt()

    def draw(self, n_rows: int) -> Draws:
        """Draw what `n_rows` generated rows are made of."""
        uniforms = torch.rand((n_rows, self.n_columns), generator=self._generator)
        gumbels = uniforms.clamp_(1e-20, 1.0 - 1e-7).log_().neg_().log_().neg_()
        codes = self.latent(n_rows, N_CODES)
        return Draws(codes, gumbels.to(self._device))

    def rows(self, draws: Draws) -> Tensor:
        """Generate rows of shape (n_rows, n_columns)."""
        return self._generated(draws)[0]

    def _generated(self, draws: Draws) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return rows, the logits they are drawn from, and weights; all are kept."""
        if self._last is None or self._last[0] is not draws:
            with torch.enable_grad():
                weights = [
                    p.detach().requires_grad_() for p in self.parameters.values()
                ]
                perturbed = self._logits(draws.codes, weights) + draws.noise
            drawn = self._by_column(perturbed.detach(), _largest)
            self._last = draws, (drawn, perturbed, weights)
        return self._last[1]

    def _by_column(
        self, values: Tensor, function: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Apply a function to the bins of each column."""
        parts = zip(self._runs, values.split(self._of_bins, -1), strict=True)
        return _joined([run.each(part, function) for run, part in parts])

    def features(self, rows: Tensor) -> Tensor:
        """Return the bins and their groups, of rows of equal length."""
        if self.n_features == self.n_columns:
            return self._length * rows
        parts = zip(self._runs, rows.split(self._of_bins, -1), strict=True)
        of_groups = [run.grouped(part) for run, part in parts]
        return self._length * torch.cat([rows, *of_groups], dim=-1)

    def gradient(self, draws: Draws, score: Score) -> Tensor:
        """Differentiate the mean score of generated rows by the network's weights."""
        drawn, perturbed, weights = self._generated(draws)
        with torch.enable_grad():
            rows = drawn.detach().requires_grad_()
            (wanted,) = torch.autograd.grad(score(rows).mean(), rows)
        # Gradients pass through the rows as through their relaxation.
        soft = self._by_column(perturbed.detach() / _TEMPERATURE, _softmax)
        slopes = soft * wanted.to(soft)
        slopes -= soft * self._by_column(slopes, _sums)
        slopes /= _TEMPERATURE
        by_weights = torch.autograd.grad(perturbed, weights, slopes, retain_graph=True)
        return torch.cat([part.flatten() for part in by_weights])

    def present(self) -> Mixture:
        """Return the generator as it is, for codes of which each is as likely."""
        of_codes = self._probabilities(N_KNOWN).cpu().numpy()
        weights = np.full(len(of_codes), 1.0 / len(of_codes))
        return Mixture(weights, of_codes, self._ranks)

    def _probabilities(self, n_codes: int) -> Tensor:
        """Return the probability of every bin given each of some codes."""
        codes = self.latent(n_codes, N_CODES)
        with torch.no_grad():
            logits = self._logits(codes, [*self.parameters.values()])
            # Of weights that diverged: even bins, from which rows can be drawn.
            return self._by_column(logits.nan_to_num(), _softmax)

    def _logits(self, codes: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Return the logits of the bins of all columns, given the code."""
        values = codes
        for layer in range(0, len(parameters), 2):
            if layer:
                values = functional.silu(values)
            values = functional.linear(values, *parameters[layer : layer + 2])
        if self.n_features == self.n_columns:
            return values
        of_bins, of_groups = values.tensor_split([self.n_columns], 1)
        parts = zip(self._runs, of_groups.split(self._of_groups, 1), strict=True)
        return of_bins + _joined([run.spread(part) for run, part in parts])

    def _direction(self, gradient: Tensor) -> Tensor:
        direction: Tensor = self._adam([gradient])[0]
        return direction

    def _set(self, flat: Tensor) -> None:
        super()._set(flat)
        self._last = None


def _joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts, -1) if len(parts) > 1 else parts[0]


def _softmax(values: Tensor) -> Tensor:
    """Return the softmax of the last dimension; torch's own is slow for few numbers."""
    powers = (values - values.amax(-1, keepdim=True)).exp_()
    return powers.div_(powers.sum(-1, keepdim=True))


def _sums(values: Tensor) -> Tensor:
    """Return the sum of the last dimension, for every entry."""
    return values.sum(-1, keepdim=True).expand_as(values)


def _largest(values: Tensor) -> Tensor:
    """Return 1 at the largest of the last dimension, and 0 elsewhere."""
    places = values.argmax(-1, keepdim=True)
    return torch.zeros_like(values).scatter_(-1, places, 1.0)
