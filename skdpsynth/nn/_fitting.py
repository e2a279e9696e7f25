"""A generator fitted to released tables: post-processing, no private row comes here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.special import ndtr, ndtri

from skdpsynth.nn._mixture import Mixture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Components", "Heads", "ReleasedClass", "fit_mixtures"]

N_COMPONENTS = 500
N_STEPS = 400
_LEARNING_RATE = 0.05
_SPREAD = 0.7  # of the first logits of a component about those of its class
_ELSEWHERE = -6.0  # first log-weight of a component in other classes than its own
_ENTROPY = 1.0
_LEAST_SHARE = 1e-6  # of a bin
_LEAST_WEIGHT = 1e-5  # of a component that a class keeps
_BUMP = 0.3  # the same of an interval, whose normal says most
_FIRST = 0.3  # of the first logits, of those of means
_LOGIT = 3.0  # a parameter's unit, so that logits move faster than means
_WIDTHS = (-4.0, 2.0)  # logarithms, of a component in normal scores
_LEAST_NOISE = 0.5  # counts without noise are rounded


class Heads:
    """The form of a component: what its parameters make of every column.

    A level, a zero or a missing value has a logit of its own. The intervals of a number
    have two parameters, a mean m and the logarithm of a width s, on the scale z of
    normal scores: their logits are ``z^2 / 2 - (z - m)^2 / (2 s^2)``, so that a
    component is a normal distribution where the marginal is one. All logits are added
    to those of the marginal of the component's class.

    Parameters
    ----------
    starts : ndarray of shape (n_columns + 1,), int64
        Where the bins of each column begin, and the last ones end.
    edges : ndarray of shape (2, D), float64
        Normal scores of the ends of the intervals of numbers; NaN elsewhere.
    device : torch.device
        Where parameters live.
    """

    def __init__(
        self,
        starts: NDArray[np.int64],
        edges: NDArray[np.float64],
        device: torch.device,
    ) -> None:
        scores = ndtri(ndtr(edges).mean(axis=0))  # of the middles
        self.sizes = np.diff(starts).tolist()
        column = np.repeat(np.arange(len(self.sizes)), self.sizes)
        smooth, numbered = np.isfinite(scores), np.unique(column[np.isfinite(scores)])
        n_free, n_smooth = len(smooth), len(numbered)
        self.n_parameters = n_free + 2 * n_smooth
        self.means = slice(n_free, n_free + n_smooth)
        self.widths = slice(n_free + n_smooth, self.n_parameters)
        self.smooth_columns = numbered
        units = np.where(smooth, _BUMP, _LOGIT)
        self._units = torch.as_tensor(units, dtype=torch.float32, device=device)
        self._smooth = torch.from_numpy(np.flatnonzero(smooth)).to(device)
        places = np.searchsorted(numbered, column[smooth])
        self._of_smooth = torch.from_numpy(places).to(device)
        self._scores = torch.as_tensor(
            scores[smooth], dtype=torch.float32, device=device
        )

    def __call__(self, parameters: torch.Tensor, home: torch.Tensor) -> torch.Tensor:
        """Give the log-probabilities of the bins, (n_components, D), by column.

        Of parameters of shape (n_components, n_parameters), and the logarithms of the
        shares of the class of each component.
        """
        means = parameters[:, self.means][:, self._of_smooth]
        widths = parameters[:, self.widths].clamp(*_WIDTHS).exp()[:, self._of_smooth]
        scores = self._scores.to(parameters)
        own = 0.5 * (scores**2 - ((scores - means) / widths) ** 2)
        free = self._units.to(parameters) * parameters[:, : self.means.start]
        logits = (home + free).index_add(1, self._smooth, own)
        parts = [part.log_softmax(1) for part in logits.split(self.sizes, 1)]
        return torch.cat(parts, 1)


class Components(NamedTuple):
    """The components of one class, with the parameters that `Heads` reads.

    Parameters
    ----------
    log_weights : torch.Tensor of shape (n_components,)
        Logarithms of their probabilities, up to a constant.
    parameters : torch.Tensor of shape (n_components, n_parameters)
        Of their columns.
    home : torch.Tensor of shape (n_components, D)
        Logarithms of the shares that the parameters are added to.
    """

    log_weights: torch.Tensor
    parameters: torch.Tensor
    home: torch.Tensor

    def mixture(self, heads: Heads, ranks: NDArray[np.float64]) -> Mixture:
        """Give the generator of the class."""
        weights = self.log_weights.double().softmax(0).cpu().numpy()
        probabilities = heads(self.parameters, self.home).exp().float().cpu().numpy()
        shape = (2, len(weights), len(heads.sizes))
        normals = np.full(shape, np.nan, dtype=np.float32)
        means = self.parameters[:, heads.means].cpu().numpy()
        widths = self.parameters[:, heads.widths].clamp(*_WIDTHS).exp().cpu().numpy()
        normals[:, :, heads.smooth_columns] = means, widths
        return Mixture(weights, probabilities, ranks, normals)


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
    counts, measured : ndarray of shape (D, D)
        Noisy counts of pairs of bins, and where they were bought.
    noise_std : float
        Their noise, in rows.
    device : torch.device
        Where the fit reads it.
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
        def tensor(values: NDArray[np.floating]) -> torch.Tensor:
            return torch.as_tensor(values, dtype=torch.float32, device=device)

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
        pairs = (weights[:, None] * probabilities).T @ probabilities
        shares = weights @ probabilities
        off = pairs * self._per_cell - self._counts
        beside = (shares - self.shares) * self._per_share
        return off.square().sum() + beside.square().sum()

    def loss(
        self, weights: torch.Tensor, logs: torch.Tensor, home: torch.Tensor
    ) -> torch.Tensor:
        """Give the distance, and the relative entropy to `home`, per cell.

        Of logarithms of probabilities.
        """
        weights, logs, home = weights.float(), logs.float(), home.float()
        probabilities = logs.exp()
        entropy = (probabilities * (logs - home)).sum(1)
        share = weights.detach() * len(weights)
        total = self.distance(weights, probabilities) + _ENTROPY * (share @ entropy)
        return total / len(home.T) ** 2


def fit_mixtures(
    released: Sequence[ReleasedClass],
    prior: NDArray[np.float64],
    heads: Heads,
    *,
    seed: int,
    device: torch.device,
) -> list[Components]:
    """Fit one set of components to all classes, each with weights of its own.

    Parameters
    ----------
    released : sequence of n_classes ReleasedClass
        What was bought of the classes that bought pairs.
    prior : ndarray of shape (n_classes,), float64
        Their shares, with sum 1.
    heads : Heads
        The form of a component's columns.
    seed : int
        Of the first parameters.
    device : torch.device
        Where it is fitted.

    Returns
    -------
    list of n_classes Components
        Each with the components that matter to it.

    Notes
    -----
    Minimises the squared distances in units of the noise's variance, and, for each
    component, the relative entropy of its columns to the marginals of the class that
    it starts in: without it noise would be fitted as well.
    """
    generator = torch.Generator().manual_seed(seed)
    n_classes = len(released)
    ends = np.cumsum(prior) / np.sum(prior)
    homes = np.searchsorted(ends, (np.arange(N_COMPONENTS) + 0.5) / N_COMPONENTS)
    own = torch.from_numpy(np.minimum(homes, n_classes - 1))
    home = torch.stack([one.shares for one in released])[own].clamp_min(_LEAST_SHARE)
    home = home.log()
    drawn = torch.randn((N_COMPONENTS, heads.n_parameters), generator=generator)
    parameters = (_SPREAD * drawn).to(device)
    parameters[:, heads.widths] = 0.0
    parameters[:, : heads.means.start] *= _FIRST
    parameters.requires_grad_()
    first = torch.full((n_classes, N_COMPONENTS), _ELSEWHERE)
    first[own, torch.arange(N_COMPONENTS)] = 0.0
    log_weights = first.to(device).requires_grad_()
    optimizer = torch.optim.Adam([parameters, log_weights], lr=_LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, 2.0 * (1.0 - step / N_STEPS))
    )
    for _ in range(N_STEPS):
        logs = heads(parameters, home)
        probabilities, weights = logs.exp(), log_weights.softmax(1)
        loss = sum(
            one.distance(own_weights, probabilities)
            for one, own_weights in zip(released, weights, strict=True)
        )
        entropy = (probabilities * (logs - home)).sum(1)
        share = weights.detach().mean(0) * N_COMPONENTS
        loss = (loss + _ENTROPY * (share @ entropy)) / len(home.T) ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    parameters, log_weights = parameters.detach(), log_weights.detach().log_softmax(1)
    fitted = []
    for logs in log_weights:
        kept = logs >= np.log(_LEAST_WEIGHT)
        fitted.append(Components(logs[kept], parameters[kept], home[kept]))
    return fitted
