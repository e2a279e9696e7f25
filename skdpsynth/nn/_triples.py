"""The part of a mixture's loss that knows tables of three columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_NOISE = 0.5  # rows; counts without noise are whole numbers


class TripleLoss:
    """The distance of a mixture to the tables of triples that were measured of a class.

    Parameters
    ----------
    starts : ndarray of shape (n_columns + 1,), int64
        Where the bins of each column begin, and the last ones end.
    groups : ndarray of shape (D,), int64
        The group of each bin.
    triples : ndarray of shape (T, 3), int64
        Columns i < j < k.
    counts : ndarray of shape (T, G, G, G)
        Noisy counts of groups.
    noise_std : float
        Of a count, in rows.
    n_rows : float
        Rows of the class as known otherwise: tables with less than half of them count
        as much as half.
    device : torch.device
        Where the loss is computed.
    """

    def __init__(
        self,
        starts: NDArray[np.int64],
        groups: NDArray[np.int64],
        triples: NDArray[np.int64],
        counts: NDArray[np.floating],
        noise_std: float,
        *,
        n_rows: float,
        device: torch.device,
    ) -> None:
        self._n_groups = n_groups = counts.shape[-1]
        n_columns = len(starts) - 1
        column = np.repeat(np.arange(n_columns), np.diff(starts))
        member = torch.zeros((len(groups), n_columns * n_groups))
        member[np.arange(len(groups)), column * n_groups + groups] = 1.0
        self._member = member.to(device)
        whole = max(float(counts.sum(dtype=np.float64)) / len(triples), n_rows / 2)
        # By second column, first column, their groups, third column, and its group.
        shape = n_columns, n_columns, n_groups, n_groups, n_columns, n_groups
        self._shares = torch.zeros(shape, device=device)
        self._per_share = torch.zeros(shape, device=device)
        first, second, third = torch.from_numpy(triples).to(device).T
        place = second, first, slice(None), slice(None), third
        shares = torch.from_numpy(np.asarray(counts / whole, dtype=np.float32))
        self._shares[place] = shares.to(device)
        self._per_share[place] = whole / max(noise_std, _LEAST_NOISE)

    def __call__(
        self, weights: torch.Tensor, probabilities: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Give the squared distance of a mixture's shares, in noise variances.

        Beside it its slopes by the weights and the probabilities, in closed form.
        """
        by_group = self._member.T @ probabilities.T  # components last, as memory goes
        n, n_components = self._n_groups, len(weights)
        groups = by_group.reshape(-1, n, n_components)
        by_groups, by_weights = torch.zeros_like(groups), torch.zeros_like(weights)
        total = torch.zeros((), device=weights.device)
        for j in range(1, len(groups) - 1):  # the second columns of triples
            first, second, third = groups[:j], groups[j], by_group[(j + 1) * n :]
            pairs = (first[:, :, None] * second).reshape(-1, n_components)
            found = pairs @ (third * weights).T
            per_share, shares = (
                whole[j, :j, :, :, j + 1 :].reshape(found.shape)
                for whole in (self._per_share, self._shares)
            )
            off = per_share * (found - shares)
            total += off.square().sum()
            by_found = 2.0 * per_share * off
            by_third = by_found.T @ pairs
            by_weights += (by_third * third).sum(0)
            by_groups[j + 1 :] += by_third.reshape(-1, n, n_components)
            by_pairs = (by_found @ third).reshape(j, n, n, n_components)
            by_groups[:j] += (by_pairs * second).sum(2)
            by_groups[j] += (by_pairs * first[:, :, None]).sum((0, 1))
        by_groups *= weights
        by_probabilities = (self._member @ by_groups.reshape(by_group.shape)).T
        return total, by_weights, by_probabilities
