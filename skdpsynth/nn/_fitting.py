"""A generator fitted to released tables: post-processing, no private row comes here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from skdpsynth.nn._mixture import Mixture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["ReleasedClass", "fit_mixtures", "log_probabilities"]

N_COMPONENTS = 500
N_STEPS = 400
_LEARNING_RATE = 0.12
_SPREAD = 0.7  # of the first logits of a component about those of its class
_ELSEWHERE = -6.0  # first log-weight of a component in other classes than its own
_ENTROPY = 1.0
_LEAST_SHARE = 1e-6  # of a bin
_LEAST_WEIGHT = 1e-5  # of a component that a class keeps
_LEAST_NOISE = 0.5  # counts without noise are rounded


class Tables(Protocol):
    """Pair tables as they were bought; see `PairTables`."""

    @property
    def counts(self) -> NDArray[np.float32]:
        """Noisy counts, of shape (D, D)."""

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Where there are any."""

    @property
    def noise_std(self) -> float:
        """Noise of a count, in rows."""


class ReleasedClass:
    """What was released of one class, as the fit reads it.

    Parameters
    ----------
    n_rows : float
        Number of rows.
    shares : ndarray of shape (D,), float64
        Share of each bin in its column, from the marginals.
    share_std : float
        Noise of a count of the marginals, in rows.
    tables : Tables
        The pair tables.
    device : torch.device
        Where the fit reads it.
    """

    def __init__(
        self,
        n_rows: float,
        shares: NDArray[np.float64],
        share_std: float,
        tables: Tables,
        device: torch.device,
    ) -> None:
        def tensor(values: NDArray[np.floating]) -> torch.Tensor:
            return torch.as_tensor(values, dtype=torch.float32, device=device)

        self.shares = tensor(shares)
        self._per_share = n_rows / max(share_std, _LEAST_NOISE)
        noise_std = max(tables.noise_std, _LEAST_NOISE)
        self._per_cell = tensor(tables.measured * (n_rows / noise_std))
        self._counts = tensor(tables.counts / noise_std)

    def distance(
        self, weights: torch.Tensor, probabilities: torch.Tensor
    ) -> torch.Tensor:
        """Give the squared distances to all that was released, in noise variances.

        Of weights of shape (n_components,) with sum 1, and probabilities of shape
        (n_components, D) as in `Mixture`.
        """
        pairs = (weights[:, None] * probabilities).T @ probabilities
        shares = weights @ probabilities
        off = pairs * self._per_cell - self._counts
        beside = (shares - self.shares) * self._per_share
        return off.square().sum() + beside.square().sum()

    def loss(self, weights: torch.Tensor, logs: torch.Tensor) -> torch.Tensor:
        """Give the distance, and the relative entropy to the marginals, per cell.

        Of logarithms of probabilities.
        """
        weights, logs = weights.float(), logs.float()
        probabilities = logs.exp()
        home = self.shares.clamp_min(_LEAST_SHARE).log()
        entropy = (probabilities * (logs - home)).sum(1)
        share = weights.detach() * len(weights)
        total = self.distance(weights, probabilities) + _ENTROPY * (share @ entropy)
        return total / len(home) ** 2


def fit_mixtures(
    released: Sequence[ReleasedClass],
    prior: NDArray[np.float64],
    ranks: Sequence[NDArray[np.float64]],
    starts: NDArray[np.int64],
    *,
    seed: int,
    device: torch.device,
) -> list[Mixture]:
    """Fit one set of components to all classes, each with weights of its own.

    Parameters
    ----------
    released : sequence of n_classes ReleasedClass
        What was bought of the classes that bought pairs.
    prior : ndarray of shape (n_classes,), float64
        Their shares, with sum 1.
    ranks : sequence of n_classes ndarrays of shape (2, D)
        As in `Mixture`.
    starts : ndarray of shape (n_columns + 1,), int64
        Where the bins of each column begin.
    seed : int
        Of the first logits.
    device : torch.device
        Where it is fitted.

    Returns
    -------
    list of n_classes Mixture
        Each with the components that matter to it.

    Notes
    -----
    Minimises the squared distances in units of the noise's variance, and, for each
    component, the relative entropy of its columns to the marginals of the class that
    it starts in: without it noise would be fitted as well.
    """
    generator = torch.Generator().manual_seed(seed)
    n_classes, sizes = len(released), np.diff(starts).tolist()
    ends = np.cumsum(prior) / np.sum(prior)
    homes = np.searchsorted(ends, (np.arange(N_COMPONENTS) + 0.5) / N_COMPONENTS)
    own = torch.from_numpy(np.minimum(homes, n_classes - 1))
    home = torch.stack([one.shares for one in released])[own].clamp_min(_LEAST_SHARE)
    noise = torch.randn(home.shape, generator=generator).to(device)
    logits = (home.log() + _SPREAD * noise).requires_grad_()
    first = torch.full((n_classes, N_COMPONENTS), _ELSEWHERE)
    first[own, torch.arange(N_COMPONENTS)] = 0.0
    log_weights = first.to(device).requires_grad_()
    optimizer = torch.optim.Adam([logits, log_weights], lr=_LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, 2.0 * (1.0 - step / N_STEPS))
    )
    for _ in range(N_STEPS):
        logs = log_probabilities(logits, sizes)
        probabilities, weights = logs.exp(), log_weights.softmax(1)
        loss = sum(
            one.distance(own_weights, probabilities)
            for one, own_weights in zip(released, weights, strict=True)
        )
        entropy = (probabilities * (logs - home.log())).sum(1)
        share = weights.detach().mean(0) * N_COMPONENTS
        loss = (loss + _ENTROPY * (share @ entropy)) / len(home.T) ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        found = log_probabilities(logits, sizes).exp().cpu().numpy()
        kept_weights = log_weights.softmax(1).double().cpu().numpy()
    mixtures = []
    for own_weights, own_ranks in zip(kept_weights, ranks, strict=True):
        kept = np.flatnonzero(own_weights >= _LEAST_WEIGHT)
        total = own_weights[kept].sum()
        mixtures.append(Mixture(own_weights[kept] / total, found[kept], own_ranks))
    return mixtures


def log_probabilities(logits: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """Normalise the logits of each column."""
    return torch.cat([part.log_softmax(1) for part in logits.split(sizes, 1)], 1)
