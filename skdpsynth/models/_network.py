"""The generator of the papers while it is trained: a network of normal codes."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from skdpsynth.models._generator import Adam, Trainer
from skdpsynth.models._mixture import Mixture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skdpsynth.models._generator import Features, Score


_CODES = 2000  # that the finished generator draws from, as a mixture of as many parts
_POOL = 2048  # generated rows whose means stand for the generator's
_LEAST_SHARE = 1e-2  # of a bin, where it is a unit: rarer ones would be thrown about
_TEMPERATURE = 0.5  # of the softmax that gradients pass through: nearly one bin
_UPDATE = 0.02  # of a unit update, for weights, of which many act on a bin


class Draws(NamedTuple):
    """What some rows are made of: normal codes, and a Gumbel number per bin."""

    codes: Tensor
    gumbels: Tensor


class NetworkTrainer(Trainer):
    """The network of one class while it is trained; all of it is public.

    A network turns a normal code of length `n_factors` into the logits of the bins of
    all columns, and the row is drawn from these. A score is 1 where the column has this
    bin and 0 elsewhere; gradients pass through it as if it were its probability given
    the code (straight through). Nothing is known at first but which bins there are.
    """

    only_pairs = False

    def __init__(
        self,
        starts: NDArray[np.int64],
        ranks: NDArray[np.float64],
        hidden_dims: Sequence[int],
        *,
        n_factors: int,
        **training: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**training)
        self._sizes, self._ranks = np.diff(starts).tolist(), ranks
        self.n_columns = self.n_features = int(starts[-1])
        self._n_factors, self.parameters = n_factors, {}
        widths = (n_factors, *hidden_dims, self.n_columns)
        for depth, (n_in, n_out) in enumerate(pairwise(widths)):
            weight = self.latent(n_out, n_in).float() * math.sqrt(2.0 / n_in)
            self.parameters[f"weight {depth}"] = weight
            self.parameters[f"bias {depth}"] = torch.zeros(n_out, device=self._device)
        weight *= 0.1  # of the last layer: nearly even bins at first
        self._adam = Adam()
        self._moments: Tensor | None = None

    @property
    def location(self) -> Tensor:  # type: ignore[override]
        """Present mean of each score."""
        return self.moments()[0, 1:]

    @property
    def scales(self) -> Tensor:  # type: ignore[override]
        """Present scale of each score."""
        mean = self.location.clamp(_LEAST_SHARE, 1.0 - _LEAST_SHARE)
        return (mean * (1.0 - mean)).sqrt()

    @property
    def directions(self) -> Tensor:  # type: ignore[override]
        """Directions in which scores vary most."""
        moments, scales = self.moments(), self.scales
        covariance = moments[1:, 1:] - torch.outer(moments[0, 1:], moments[0, 1:])
        found = torch.linalg.eigh((covariance / torch.outer(scales, scales)).double())
        return found.eigenvectors[:, -self._n_factors :].to(self._dtype)

    def draw(self, n_rows: int) -> Draws:
        """Draw what `n_rows` generated rows are made of."""
        uniforms = torch.rand((n_rows, self.n_columns), generator=self._generator)
        gumbels = -torch.log(-torch.log(uniforms.clamp(1e-20, 1.0 - 1e-7)))
        codes = self.latent(n_rows, self._n_factors).float()
        return Draws(codes, gumbels.to(self._device))

    def rows(self, draws: Draws) -> Tensor:
        """Generate rows of shape (n_rows, n_columns)."""
        with torch.no_grad():
            return self._drawn(self._relaxed(draws, [*self.parameters.values()]))

    def features(self) -> Features:
        """Give the scores themselves as features, of rows of equal length."""
        length = math.sqrt(self.n_columns / len(self._sizes))
        return lambda rows: rows * length

    def moments(self) -> Tensor:
        """Give the mean of ``r r^T`` over many generated rows r = (1, scores)."""
        if self._moments is None:
            generated = self.rows(self.draw(_POOL))
            generated = torch.cat([torch.ones_like(generated[:, :1]), generated], 1)
            self._moments = generated.T @ generated / _POOL
        return self._moments

    def gradient(self, draws: Draws, score: Score) -> Tensor:
        """Differentiate the mean score of generated rows by the network's weights."""
        with torch.enable_grad():
            parameters = [p.detach().requires_grad_() for p in self.parameters.values()]
            relaxed = self._relaxed(draws, parameters)
            soft = torch.cat([part.softmax(1) for part in relaxed], 1).to(self._dtype)
            drawn = self._drawn(relaxed)
            mean = score(drawn + (soft - soft.detach())).mean()
            found = torch.autograd.grad(mean, parameters)
        return torch.cat([part.flatten() for part in found])

    def pull_back(self, draws: Draws, directions: Tensor) -> Tensor:
        """Turn a wanted change of every row into one of the weights (Adam's)."""
        return self._adam(super().pull_back(draws, directions))

    def _move(self, update: Tensor, rate: float) -> None:
        moved = update.to(self._device).float()
        self._set(self._flat() + _UPDATE * rate * moved)

    def present(self) -> Mixture:
        """Give the generator as it is, for codes of which each is as likely."""
        codes = self.latent(_CODES, self._n_factors).float()
        with torch.no_grad():
            logits = self._logits(codes, [*self.parameters.values()])
            parts = logits.split(self._sizes, 1)
            found = torch.cat([part.softmax(1) for part in parts], 1).cpu().numpy()
        return Mixture(np.full(_CODES, 1.0 / _CODES), found, self._ranks)

    def _logits(self, codes: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Give the logits of the bins of all columns, given the code."""
        values = codes
        for layer in range(0, len(parameters), 2):
            if layer:
                values = functional.silu(values)
            values = functional.linear(values, *parameters[layer : layer + 2])
        return values

    def _relaxed(
        self, draws: Draws, parameters: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """Give perturbed logits of each column: the largest one is the bin drawn."""
        perturbed = self._logits(draws.codes, parameters) + draws.gumbels
        return (perturbed / _TEMPERATURE).split(self._sizes, 1)

    def _drawn(self, relaxed: Sequence[Tensor]) -> Tensor:
        """Give rows as zeros and ones."""
        drawn = [
            functional.one_hot(part.argmax(1), part.shape[1]).to(self._dtype)
            for part in relaxed
        ]
        return torch.cat(drawn, 1)

    def _set(self, flat: Tensor) -> None:
        super()._set(flat)
        self._moments = None
