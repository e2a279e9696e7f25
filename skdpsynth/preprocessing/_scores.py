"""Normal scores: every column as a monotone function of one standard normal number.

Under its own class a value's score is ``Phi^-1(F(value))`` with the released marginal
F. Networks work on scores, whatever the type of the column; a score is turned back
into a value by the inverse of F, so the bought marginals survive any training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from skdpsynth.preprocessing._axes import LevelAxis, NumericAxis
from skdpsynth.preprocessing._columns import MISSING, ZERO

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.preprocessing._axes import Axis

__all__ = ["MAX_SCORE", "ColumnScores"]

MAX_SCORE = 3.0  # scores are kept within this distance of 0


@dataclass(frozen=True)
class ColumnScores:
    """The marginal of one column in one class.

    Parameters
    ----------
    axis : Axis
        What the column's values are.
    points : ndarray of shape (n_points,), float64
        Numeric: positions in [0, 1], increasing, where `cumulative` is known; an exact
        zero is the same position twice. Levels: codes, in the order of the scores.
    cumulative : ndarray, float64
        Numeric: probability up to each point, of shape (n_points,). Levels: probability
        before each level and 1 at the end, of shape (n_points + 1,). Missing values
        are left out of both.
    missing : float
        Probability of a missing value, in [0, 1]. Its scores are the lowest.
    """

    axis: Axis
    points: NDArray[np.float64]
    cumulative: NDArray[np.float64]
    missing: float

    @classmethod
    def numeric(
        cls,
        axis: NumericAxis,
        cells: NDArray[np.float64],
        masses: NDArray[np.float64],
        *,
        zero: float = 0.0,
        missing: float = 0.0,
    ) -> ColumnScores:
        """Build the marginal of a numeric column.

        Parameters
        ----------
        axis : NumericAxis
            Its axis.
        cells : ndarray of shape (n_cells + 1,)
            Edges of the cells.
        masses : ndarray of shape (n_cells,)
            Distribution over the cells, with sum 1.
        zero, missing : float, default=0.0
            Shares of exact zeros and of missing values among all rows.

        Returns
        -------
        ColumnScores
            The marginal.
        """
        present = max(1.0 - missing, 1e-12)
        exact = min(zero / present, 1.0)
        cumulative = np.concatenate(([0.0], np.cumsum(masses)))
        cumulative *= (1.0 - exact) / cumulative[-1]
        points = cells
        if exact > 0 and axis.zero is not None:
            below = float(np.interp(axis.zero, cells, cumulative))
            left, right = cells < axis.zero, cells > axis.zero
            points = np.concatenate((cells[left], [axis.zero] * 2, cells[right]))
            cumulative = np.concatenate(
                (cumulative[left], [below, below + exact], cumulative[right] + exact)
            )
        return cls(axis, points, cumulative / cumulative[-1], min(missing, 1.0))

    @classmethod
    def of_levels(
        cls,
        axis: LevelAxis,
        shares: NDArray[np.float64],
        *,
        missing: float = 0.0,
        order: NDArray[np.int64] | None = None,
    ) -> ColumnScores:
        """Build the marginal of a level column.

        Parameters
        ----------
        axis : LevelAxis
            Its axis.
        shares : ndarray of shape (n_levels,)
            Weights of the levels.
        missing : float, default=0.0
            Share of missing values among all rows.
        order : ndarray of shape (n_levels,), int, optional
            Order of the levels along the scores.

        Returns
        -------
        ColumnScores
            The marginal.
        """
        if len(shares) == 0:
            return cls(axis, np.empty(0), np.zeros(1), 1.0)
        order = np.arange(len(shares)) if order is None else order
        total = shares.sum()
        even = np.full(len(shares), 1.0 / len(shares))
        weights = shares[order] / total if total > 0 else even
        cumulative = np.concatenate(([0.0], np.cumsum(weights)))
        cumulative = np.minimum(cumulative, 1.0)  # rounding may pass it
        cumulative[-1] = 1.0
        return cls(axis, order.astype(np.float64), cumulative, min(missing, 1.0))

    def cdf(
        self, units: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give the probability below, and up to, positions of a numeric column."""
        below = np.interp(units, self.points, self.cumulative)
        up_to = below.copy()
        doubled = np.flatnonzero(np.diff(self.points) == 0)  # an exact zero
        if len(doubled):
            at = units == self.points[doubled[0]]
            below[at] = self.cumulative[doubled[0]]
            up_to[at] = self.cumulative[doubled[0] + 1]
        return below, up_to

    def level_shares(self) -> NDArray[np.float64]:
        """Give the shares of the levels among what is not missing, in code order."""
        shares = np.empty(len(self.points))
        shares[self.points.astype(np.int64)] = np.diff(self.cumulative)
        return shares

    def decode(
        self, ranks: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Turn ranks into values.

        Parameters
        ----------
        ranks : ndarray of shape (n_rows,), float64
            Uniform in [0, 1].

        Returns
        -------
        values : ndarray of shape (n_rows,), float64
            Numbers, or level codes (-1 where missing).
        missing : ndarray of shape (n_rows,), bool
            Where the value is missing.
        """
        missing = ranks < self.missing
        rank = ranks
        if self.missing > 0:
            rank = np.maximum(rank - self.missing, 0.0) / max(1 - self.missing, 1e-12)
        if isinstance(self.axis, NumericAxis):
            units = np.interp(rank, self.cumulative, self.points)
            return self.axis.from_unit(units), missing
        if len(self.points) == 0:
            return np.full(len(rank), -1.0), np.ones(len(rank), dtype=bool)
        place = np.searchsorted(self.cumulative[1:-1], rank, side="right")
        return np.where(missing, -1.0, self.points[place]), missing

    def encode(
        self, units: NDArray[np.floating], codes: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Give the scores of rows; of a class's own private rows, they are private.

        Parameters
        ----------
        units : ndarray of shape (n_rows,), float
            Positions on a numeric axis.
        codes : ndarray of shape (n_rows,), integer
            Codes of `PrivateRows`.

        Returns
        -------
        scores : ndarray of shape (n_rows,), float64
            Within `MAX_SCORE` of 0. A value that fills an interval of scores, such as a
            level, gets the middle of its probabilities.
        """
        present = 1.0 - self.missing
        if isinstance(self.axis, NumericAxis):
            rank = np.interp(units, self.points, self.cumulative)
            doubled = np.flatnonzero(np.diff(self.points) == 0)
            if len(doubled):
                middle = self.cumulative[doubled[0] : doubled[0] + 2].mean()
                rank = np.where(codes == ZERO, middle, rank)
            gone = codes == MISSING
            nowhere = gone & (self.missing == 0)
        else:
            n_levels = len(self.points)
            table = np.full(len(self.axis.levels) + 2, 0.5)
            middles = (self.cumulative[:-1] + self.cumulative[1:]) / 2
            table[self.points.astype(np.int64)] = middles[:n_levels]
            rank = table[codes]
            gone = codes == len(self.axis.levels) + 1
            nowhere = gone & (self.missing == 0)
        rank = self.missing + present * rank
        rank = np.where(gone, self.missing / 2, rank)
        # A value that the marginal does not have says nothing: the middle.
        rank = np.where(nowhere, 0.5, rank)
        lowest = ndtr(-MAX_SCORE)
        return ndtri(np.clip(rank, lowest, 1 - lowest))
