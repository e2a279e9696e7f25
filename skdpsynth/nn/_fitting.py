"""A generator fitted to released tables: post-processing, no private row comes here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from skdpsynth.nn._adam import AdamSteps
from skdpsynth.nn._mixture import Mixture
from skdpsynth.nn._tree import draw_from_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skdpsynth.nn._cells import SeenCells

# At least and at most, and for each bin: components of all classes together, and steps.
_COMPONENTS, _COMPONENTS_PER_BIN = (100, 1000), 4.0
_MOST_CELLS = 2.5e8  # of pairs of bins, of all components and classes
_STEPS, _STEPS_PER_BIN = (300, 600), 2.5
_LEARNING_RATE = 0.05
_LOGIT, _BUMP = 3.0, 0.6  # units of parameters: logits of levels, and of intervals
_SURE = 0.8  # first weight of the bins that a component begins with, against its class
_EVEN = 0.2  # share of components that belong to all classes alike
_SPREAD = 0.2  # of the first parameters, so that no two components are equal
_ELSEWHERE = -6.0  # first log-weight of a component in other classes than its own
_ENTROPY = 500.0  # noise variances that all classes pay for dependence of one nat
_LEAST_SHARE = 1e-6  # of a bin
_LEAST_WEIGHT = 1e-5  # of a component that a class keeps
_WIDTHS = (-4.0, 2.0)  # logarithms, of a component in normal scores
_LEAST_NOISE = 0.5  # counts without noise are rounded
_FAR = 60.0  # of a logit, which float32 can exponentiate


class Heads:
    """The form of a component: what its parameters make of every column.

    Every bin has a logit, which is added to that of the marginal of the component's
    class. The intervals of a number have a mean m and the logarithm of a width s
    besides, on the scale z of normal scores, which add ``z^2 / 2 - (z - m)^2 / (2
    s^2)``: a component is then about a normal distribution where the marginal is one,
    and the intervals' own logits, in small units, say where it is not.

    `starts` (n_columns + 1,) is where the bins of each column begin, and the last ones
    end; `scores` (D,) are normal scores of the intervals of numbers, NaN elsewhere.
    """

    def __init__(
        self,
        starts: NDArray[np.int64],
        scores: NDArray[np.float64],
        device: torch.device,
    ) -> None:
        tensor = partial(torch.as_tensor, dtype=torch.float32, device=device)
        n_columns, n_bins = len(starts) - 1, int(starts[-1])
        column = np.repeat(np.arange(n_columns), np.diff(starts))
        smooth = np.isfinite(scores)
        self.starts, self.smooth_columns = starts, np.unique(column[smooth])
        self.means = slice(n_bins, n_bins + len(self.smooth_columns))
        self.widths = slice(self.means.stop, self.means.stop + len(self.smooth_columns))
        self.n_parameters = self.widths.stop
        self._units = tensor(np.where(smooth, _BUMP, _LOGIT))
        self._members = tensor(np.eye(n_columns)[column])
        # Coefficients of z^2, z and 1 give what normals add, in one product.
        own = (column == self.smooth_columns[:, None]) & smooth
        z = np.where(smooth, scores, 0.0)
        self._powers = tensor(np.concatenate([own * z**2, own * z, own]))
        self._smooth, self._scores = tensor(smooth), tensor(z)

    def __call__(self, parameters: torch.Tensor, home: torch.Tensor) -> torch.Tensor:
        """Give the log-probabilities of the bins, (n_components, D), by column.

        Of parameters of shape (n_components, n_parameters), and the logarithms of the
        shares of the class of each component.
        """
        means, widths = parameters[:, self.means], parameters[:, self.widths]
        precisions = (-2.0 * widths.clamp(*_WIDTHS)).exp()
        squares = [1.0 - precisions, 2.0 * means * precisions, -(means**2) * precisions]
        normals = 0.5 * torch.cat(squares, 1) @ self._powers.to(parameters)
        free = self._units.to(parameters) * parameters[:, : self.means.start]
        logits = (home + free + normals).clamp(-_FAR, _FAR)
        members = self._members.to(parameters)
        return logits - (logits.exp() @ members).log() @ members.T

    def at(self, bins: NDArray[np.int64], home: torch.Tensor) -> torch.Tensor:
        """Give parameters of components about some bins, (n_components, n_columns).

        Normals stand there, and what is no interval has most of the probability.
        """
        device = home.device
        ones = torch.zeros_like(home)
        ones.scatter_(1, torch.from_numpy(bins + self.starts[:-1]).to(device), 1.0)
        shares = home.exp()
        mixed = (1.0 - _SURE) * shares + _SURE * ones
        of_columns = self._members * self._smooth[:, None]
        # What intervals have together, with the columns of levels as they are.
        together, at_home = (
            (part @ of_columns).clamp_min(_LEAST_SHARE) for part in (mixed, shares)
        )
        beside = (mixed / shares).log() - (together / at_home).log() @ self._members.T
        first = torch.zeros((len(bins), self.n_parameters), device=device)
        first[:, : self.means.start] = beside * (1.0 - self._smooth) / self._units
        numbers = torch.from_numpy(self.smooth_columns).to(device)
        first[:, self.means] = (ones * self._scores) @ self._members[:, numbers]
        return first


class Components(NamedTuple):
    """The components of one class, with the parameters that `Heads` reads."""

    log_weights: torch.Tensor  # (n_components,), of probabilities, up to a constant
    parameters: torch.Tensor  # (n_components, n_parameters)
    home: torch.Tensor  # (n_components, D), logarithms of the shares they start from
    n_classes: int  # that were fitted together

    def mixture(self, heads: Heads, ranks: NDArray[np.float64]) -> Mixture:
        """Give the generator of the class."""
        weights = self.log_weights.double().softmax(0).cpu().numpy()
        probabilities = heads(self.parameters, self.home).exp().float().cpu().numpy()
        return Mixture(weights, probabilities, ranks)


class ReleasedClass:
    """What was released of one class, as the fit reads it.

    `shares` (D,) are those of the bins in their columns, by the marginals, whose counts
    have noise `share_std`; `counts` and `measured` (D, D) are those of `PairTables`,
    with `noise_std`. Noise is in rows.
    """

    def __init__(
        self,
        n_rows: float,
        shares: NDArray[np.float64],
        share_std: float,
        counts: NDArray[np.float32],
        measured: NDArray[np.bool_],
        noise_std: float,
        device: torch.device,
    ) -> None:
        tensor = partial(torch.as_tensor, dtype=torch.float32, device=device)
        n_rows = max(n_rows, 1.0)
        self.n_rows = n_rows
        self.tables = shares, counts / n_rows, measured, noise_std / n_rows
        self.seen: SeenCells | None = None  # what discriminators saw of it since
        self.shares = tensor(shares)
        self._per_share = n_rows / max(share_std, _LEAST_NOISE)
        noise_std = max(noise_std, _LEAST_NOISE)
        self._per_cell = tensor(measured * (n_rows / noise_std))
        self._counts = tensor(counts / noise_std)

    def distance(
        self, weights: torch.Tensor, probabilities: torch.Tensor
    ) -> torch.Tensor:
        """Give the squared distances to all that was released, in noise variances.

        Of weights of shape (n_components,) with sum 1, and probabilities of shape
        (n_components, D) as in `Mixture`.
        """
        total: torch.Tensor = _Distance.apply(
            weights,
            probabilities,
            self._per_cell,
            self._counts,
            self.shares,
            self._per_share,
        )
        if self.seen is not None:
            total = total + self.seen.distance(weights, probabilities)
        return total


class _Distance(torch.autograd.Function):
    """`ReleasedClass.distance`; autograd would take one product of matrices more."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's context
        weights: torch.Tensor,
        probabilities: torch.Tensor,
        per_cell: torch.Tensor,
        counts: torch.Tensor,
        shares: torch.Tensor,
        per_share: float,
    ) -> torch.Tensor:
        pairs = (weights[:, None] * probabilities).T @ probabilities
        off = pairs * per_cell - counts
        beside = (weights @ probabilities - shares) * per_share
        slopes = off * per_cell
        by_pairs = probabilities @ (slopes + slopes.T)
        by_shares = 2.0 * beside * per_share
        ctx.save_for_backward(
            (probabilities * (by_pairs + by_shares)).sum(1),
            weights[:, None] * (2.0 * by_pairs + by_shares),
        )
        return off.square().sum() + beside.square().sum()

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401
        above: torch.Tensor,
    ) -> tuple[torch.Tensor | None, ...]:
        by_weights, by_probabilities = ctx.saved_tensors
        return above * by_weights, above * by_probabilities, None, None, None, None


def stated_loss(
    released: Sequence[ReleasedClass],
    log_weights: torch.Tensor,
    logs: torch.Tensor,
    home: torch.Tensor,
    n_classes: int,
) -> torch.Tensor:
    """Give the distances of some classes, and the relative entropy to `home`, per cell.

    Of log-weights, one row per class, and logarithms of probabilities of shape
    (n_components, D). Without the entropy, which is that of a mean class of all
    `n_classes` of the table, noise would be fitted as well.
    """
    probabilities, weights = logs.exp(), log_weights.softmax(1)
    entropies = (probabilities * (logs - home)).sum(1)
    total = _ENTROPY / n_classes * (weights.detach() @ entropies).sum()
    for one, own in zip(released, weights, strict=True):
        total = total + one.distance(own, probabilities)
    return total / len(home.T) ** 2


class Fit:
    """One set of components for all classes, each with weights of its own.

    Minimises the squared distances in units of the noise's variance, and, for each
    component, the relative entropy of its columns to the marginals of the class that
    it starts in. `prior` (n_classes,) are the shares of the classes. If more will be
    released, it stops half-way, with the rate as it is, and `finish` ends it.
    """

    def __init__(
        self,
        released: Sequence[ReleasedClass],
        prior: NDArray[np.float64],
        heads: Heads,
        *,
        more_comes: bool,
        seed: int,
        device: torch.device,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        n_classes, n_bins = len(released), int(heads.starts[-1])
        least, most = _COMPONENTS
        wanted = min(_COMPONENTS_PER_BIN * n_bins, _MOST_CELLS / n_bins**2 / n_classes)
        n_components = int(np.clip(wanted, least, most))
        ends = np.cumsum((1.0 - _EVEN) * prior / prior.sum() + _EVEN / n_classes)
        homes = np.searchsorted(ends, (np.arange(n_components) + 0.5) / n_components)
        own = torch.from_numpy(np.minimum(homes, n_classes - 1))
        home = torch.stack([one.shares for one in released])[own]
        self._home = home.clamp_min(_LEAST_SHARE).log()
        spread = torch.randn((n_components, heads.n_parameters), generator=generator)
        spread[:, n_bins:] = 0.0
        bins = [
            draw_from_tree(*one.tables, heads.starts, int((own == c).sum()), generator)
            for c, one in enumerate(released)
        ]
        parameters = heads.at(np.concatenate(bins), self._home)
        self._parameters = (parameters + _SPREAD * spread.to(device)).requires_grad_()
        first = torch.full((n_classes, n_components), _ELSEWHERE)
        first[own, torch.arange(n_components)] = 0.0
        self._log_weights = first.to(device).requires_grad_()
        self._released, self._heads = released, heads
        self._trained = self._parameters, self._log_weights
        self._step = AdamSteps(self._trained)
        self._half = int(np.clip(_STEPS_PER_BIN * n_bins, *_STEPS)) // 2
        self.descend(self._half)
        if not more_comes:
            self.finish()

    def finish(self) -> None:
        """Take the last steps, with a rate that falls to 0."""
        self.descend(self._half, falling=True)

    def descend(self, n_steps: int, *, falling: bool = False) -> None:
        """Take some steps of Adam."""
        for step in range(n_steps):
            logs = self._heads(self._parameters, self._home)
            loss = stated_loss(
                self._released, self._log_weights, logs, self._home, len(self._released)
            )
            rate = _LEARNING_RATE * (1.0 - step / n_steps if falling else 1.0)
            self._step(torch.autograd.grad(loss, self._trained), rate)

    def components(self) -> list[Components]:
        """Give each class the components that matter to it."""
        parameters, n_classes = self._parameters.detach(), len(self._released)
        found = []
        for logs in self._log_weights.detach().log_softmax(1):
            kept = logs >= np.log(_LEAST_WEIGHT)
            own = parameters[kept], self._home[kept]
            found.append(Components(logs[kept], *own, n_classes))
        return found
