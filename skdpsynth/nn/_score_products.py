"""Products of two scores, and the factors that follow from what was seen of them.

A linear discriminator that looks at the products of all pairs of scores says what their
means are in the real rows: their covariances, with noise. A few factors hold what
stands out of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.linalg import eigh

from skdpsynth.privacy._integers import GRID, halves, rounded_total

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LENGTH = 2**12  # of a row of whole numbers, at most
_CHUNK, _CHUNKS = 2**16, 2**10  # rows whose sums doubles hold; such in an int64
_BITS = 16  # that are rounded off a sum, which has 2**36 for a row then
_CLIP = 2.0  # squared length at which rows are clipped, over the mean one
_MOST_FACTORS = 64
_ROUNDS = 6  # of the search for what columns share
_LEAST_SLOPE = 0.15  # of a score; a column that is nearly constant says little
_MOST_SHARED = 0.97  # of the variance of a score


class ScoreMoments(NamedTuple):
    """Of the scores of all columns, by their released marginals; public."""

    means: NDArray[np.float64]
    stds: NDArray[np.float64]
    slopes: NDArray[np.float64]  # covariances with the normal numbers they stand for


class ScoreProducts(NamedTuple):
    """Products of all pairs of scores; public.

    Rows are whole numbers, (n_rows, n_columns), of length `_LENGTH` at most.
    """

    n_columns: int

    @property
    def shape(self) -> tuple[int]:
        """Of a number for every pair of columns, in the order of ``triu_indices``."""
        return (math.comb(self.n_columns, 2),)

    @property
    def squared_norm(self) -> int:
        """Of the products of a row at most: half of what a square matrix has."""
        return _LENGTH**4 // 2

    @property
    def largest_weight(self) -> int:
        """Of a row, so that it moves `on_grid` by GRID at most; rounding included."""
        room = GRID - math.isqrt(*self.shape) - 1
        return math.isqrt((room << _BITS) ** 2 // self.squared_norm)

    def variances(self, means: torch.Tensor) -> torch.Tensor:
        """Give the variances of products: those of rows as long as they may be."""
        return torch.full_like(means, self.squared_norm / len(means))

    def scaled(self, means: torch.Tensor) -> torch.Tensor:
        """Give them as they are."""
        return means

    def sums(
        self, rows: torch.Tensor, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Add up the products of rows; private if the rows are, and exact.

        In two halves, (2, n_products), since products have either sign. Doubles hold
        the sums of a chunk, below 2**53: a product is at most 2**23 and a weight below
        2**13.
        """
        n, device = self.n_columns, rows.device
        first, second = torch.triu_indices(n, n, 1, device=device)
        sums = torch.zeros((2, len(first)), dtype=torch.int64, device=device)
        for begin in range(0, len(rows), _CHUNKS * _CHUNK):
            total = torch.zeros((n, n), dtype=torch.int64, device=device)
            end = min(begin + _CHUNKS * _CHUNK, len(rows))
            for start in range(begin, end, _CHUNK):
                other = part = rows[start : min(start + _CHUNK, end)].double()
                if weights is not None:
                    other = part * weights[start : start + _CHUNK, None]
                total += (part.T @ other).to(torch.int64)
            sums += torch.stack(halves(total[first, second]))
        return sums

    def on_grid(self, sums: NDArray[np.int64], factor: int = 1) -> NDArray[np.int64]:
        """Multiply sums by a public factor, and round them; see `rounded_total`."""
        return rounded_total(sums, factor, _BITS)

    @property
    def unit(self) -> int:
        """Of `on_grid`, in what `sums` adds up."""
        return 1 << _BITS


class SeenProducts:
    """What discriminators of a class have seen, and the factors of it; public.

    `moments` are those of the scores by the released marginals.
    """

    def __init__(self, moments: ScoreMoments) -> None:
        finite = (np.nan_to_num(own, posinf=0.0, neginf=0.0) for own in moments)
        self._moments = ScoreMoments(*finite)
        self._look = ScoreProducts(len(moments.means))
        # From whole numbers to scores.
        squared = _CLIP * float((self._moments.stds**2).sum())
        self._unit = math.sqrt(max(squared, 1e-12)) / _LENGTH
        self._sum, self._weight = np.zeros(self._look.shape), 0.0

    def encode(self, scores: NDArray[np.float32]) -> NDArray[np.int32]:
        """Give rows of scores less their means, clipped to a length; private."""
        rows = (scores.astype(np.float64) - self._moments.means) / self._unit
        rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
        lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        # Truncated towards 0, so that no row becomes longer; one is for rounding.
        rows *= (_LENGTH - 1.0) / np.maximum(lengths, _LENGTH - 1.0)
        return np.trunc(rows).astype(np.int32)

    def next_look(self) -> ScoreProducts:
        """Say what the next discriminator looks at: all pairs, every time."""
        return self._look

    def add(self, look: ScoreProducts, means: torch.Tensor, std: torch.Tensor) -> None:
        """Remember what a discriminator says; what was seen twice is averaged."""
        del look
        weight = 1.0 / max(float(std.square().mean()), 1e-12)
        self._sum += weight * means.double().cpu().numpy()
        self._weight += weight

    def loadings(self, most_factors: int | None) -> NDArray[np.float64]:
        """Find the factors that stand out of the noise: (n_columns, n_factors).

        Principal axes, with what columns share on the diagonal. A symmetric matrix of
        noise of size s has no eigenvalue beyond ``2 s sqrt(n_columns)``; one of x shows
        as ``x + s^2 n_columns / x``, and its direction is right by a share that leaves
        ``sqrt(seen^2 - 4 s^2 n_columns)`` of what is seen. Scores of values that fill
        intervals vary by less than the normal numbers that they stand for: `slopes`.
        """
        stds, slopes = self._moments.stds, self._moments.slopes
        n = len(stds)
        covariance = np.zeros((n, n))
        covariance[np.triu_indices(n, 1)] = self._sum / self._weight * self._unit**2
        covariance += covariance.T
        edge = 2.0 * math.sqrt(n / self._weight) * self._unit**2
        most = min(n, _MOST_FACTORS if most_factors is None else most_factors)
        axes = np.zeros((n, 0))
        for _ in range(_ROUNDS):
            shared = np.minimum(np.square(axes).sum(axis=1), stds**2)
            np.fill_diagonal(covariance, shared)
            seen, vectors = eigh(covariance, subset_by_index=(max(n - most, 0), n - 1))
            sizes = np.sqrt(np.maximum(seen**2 - edge**2, 0.0)) * (seen > edge)
            axes = vectors[:, sizes > 0] * np.sqrt(sizes[sizes > 0])
        found = axes / np.maximum(slopes, _LEAST_SLOPE)[:, None]
        shared = np.square(found).sum(axis=1, keepdims=True)
        found *= np.sqrt(_MOST_SHARED / np.maximum(shared, _MOST_SHARED))
        shared = np.minimum(shared, _MOST_SHARED)
        return np.asarray(found / np.sqrt(1.0 - shared))
