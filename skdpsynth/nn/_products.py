"""Features of a row that are products of its scores, summed without being formed.

A linear discriminator looks at n_columns x n_factors products of every row. Its scores
of many rows, their norms and their weighted sums are matrix products of the scores
themselves, so that a table with 784 columns costs no more than its scores do.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Products:
    """The features that `FactorTrainer.features` describes; public.

    Directions are of shape (n_columns, n_factors). With `location` and `scales`, scores
    are standardised, and they and their squares are looked at too.
    """

    directions: torch.Tensor
    location: torch.Tensor | None = None
    scales: torch.Tensor | None = None

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Form the features (..., n_features), row by row; all else agrees with it.

        Scores and their squares less 1, if they are standardised, and the products.
        """
        values = self._standardised(rows)
        column = values.unsqueeze(-1)
        seen = (values @ self.directions).unsqueeze(-2) - column * self.directions
        pairs = (column * seen).flatten(-2)
        if self.scales is None:
            return pairs
        return torch.cat([values, values**2 - 1.0, pairs], dim=-1)

    def scores(self, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Give ``features @ weights``, one per row of scores."""
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

    def norms(self, rows: torch.Tensor) -> torch.Tensor:
        """Give the L2 norm of every row's features, of shape (n_rows,)."""
        values = self._standardised(rows)
        squares, seen = values**2, values @ self.directions
        # sum_jk x_j^2 (s_k - x_j D_jk)^2, multiplied out
        total = (seen**2).sum(dim=1) * squares.sum(dim=1)
        total = total - 2.0 * (seen * ((squares * values) @ self.directions)).sum(dim=1)
        total = total + squares**2 @ (self.directions**2).sum(dim=1)
        if self.scales is not None:
            total = total + squares.sum(dim=1) + ((squares - 1.0) ** 2).sum(dim=1)
        return total.clamp_min(0.0).sqrt()

    def weighted_sum(self, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Give ``weights @ features``, with one weight per row of scores."""
        values = self._standardised(rows)
        weighted = weights.unsqueeze(1) * values
        second = (weighted * values).sum(dim=0)
        pairs = weighted.T @ (values @ self.directions)
        pairs = (pairs - second.unsqueeze(1) * self.directions).flatten()
        if self.scales is None:
            return pairs
        return torch.cat([weighted.sum(dim=0), second - weights.sum(), pairs])

    def _standardised(self, rows: torch.Tensor) -> torch.Tensor:
        if self.location is None or self.scales is None:
            return rows
        return (rows - self.location) / self.scales
