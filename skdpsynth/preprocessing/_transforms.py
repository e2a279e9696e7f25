"""Normal scores: every column as a monotone function of one standard normal number.

Under its own class a value's score is ``Phi^-1(F(value))`` with the released marginal
F. Networks work on scores, whatever the type of the column; a score is turned back
into a value by the inverse of F, so the bought marginals survive any training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from skdpsynth.preprocessing._columns import MISSING, ZERO
from skdpsynth.preprocessing._domains import LevelDomain, NumericDomain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.preprocessing._domains import ColumnDomain

    Floats = NDArray[np.float64]

MAX_SCORE = 3.0  # scores are kept within this distance of 0
_GRID = 1000  # ranks that stand for all
_CELLS = 2**12  # of [0, 1], where ranks are looked up


@dataclass(frozen=True)
class MarginalTransform:
    """The marginal of one column in one class."""

    domain: ColumnDomain
    # Numeric: increasing positions in [0, 1] where `cumulative` is known; an exact zero
    # is the same position twice. Levels: codes, in the order of the scores.
    points: Floats
    # Numeric: probability up to each point. Levels: probability before each level, and
    # 1 at the end. Missing values are left out of both.
    cumulative: Floats
    missing: float  # probability of a missing value; its scores are the lowest

    @classmethod
    def numeric(
        cls,
        domain: NumericDomain,
        cells: Floats,
        masses: Floats,
        *,
        zero: float = 0.0,
        missing: float = 0.0,
    ) -> MarginalTransform:
        """Build the marginal of a numeric column from the masses of its cells.

        `zero` and `missing` are shares of exact zeros and missing values of all rows.
        """
        present = max(1.0 - missing, 1e-12)
        exact = min(zero / present, 1.0)
        cumulative = np.concatenate(([0.0], np.cumsum(masses)))
        cumulative *= (1.0 - exact) / cumulative[-1]
        points = cells
        if exact > 0 and domain.zero is not None:
            below = float(np.interp(domain.zero, cells, cumulative))
            left, right = cells < domain.zero, cells > domain.zero
            points = np.concatenate((cells[left], [domain.zero] * 2, cells[right]))
            cumulative = np.concatenate(
                (cumulative[left], [below, below + exact], cumulative[right] + exact)
            )
        return cls(domain, points, cumulative / cumulative[-1], min(missing, 1.0))

    @classmethod
    def of_levels(
        cls,
        domain: LevelDomain,
        shares: Floats,
        *,
        missing: float = 0.0,
        order: NDArray[np.int64] | None = None,
    ) -> MarginalTransform:
        """Build the marginal of a level column from the weights of its levels.

        `missing` is a share of all rows; `order` that of the levels along the scores.
        """
        if len(shares) == 0:
            return cls(domain, np.empty(0), np.zeros(1), 1.0)
        order = np.arange(len(shares)) if order is None else order
        total = shares.sum()
        even = np.full(len(shares), 1.0 / len(shares))
        weights = shares[order] / total if total > 0 else even
        inner = np.minimum(np.cumsum(weights)[:-1], 1.0)  # rounding may pass it
        cumulative = np.concatenate(([0.0], inner, [1.0]))
        return cls(domain, order.astype(np.float64), cumulative, min(missing, 1.0))

    def cdf(self, units: Floats) -> tuple[Floats, Floats]:
        """Give the probability below, and up to, positions of a numeric column."""
        below = np.interp(units, self.points, self.cumulative)
        up_to = below.copy()
        doubled = np.flatnonzero(np.diff(self.points) == 0)  # an exact zero
        if len(doubled):
            at = units == self.points[doubled[0]]
            below[at] = self.cumulative[doubled[0]]
            up_to[at] = self.cumulative[doubled[0] + 1]
        return below, up_to

    def level_shares(self) -> Floats:
        """Give the shares of the levels among what is not missing, in code order."""
        shares = np.empty(len(self.points))
        shares[self.points.astype(np.int64)] = np.diff(self.cumulative)
        return shares

    def score_moments(self) -> tuple[float, float, float]:
        """Give mean and deviation of the scores, and their slope.

        That is their covariance with the normal numbers that they are made of.
        """
        ranks = (np.arange(_GRID) + 0.5) / _GRID
        values, missing = self.decode(ranks)
        if isinstance(self.domain, NumericDomain):
            units = self.domain.to_unit(values)
            at_zero = (values == 0.0) & (self.domain.zero is not None)
            codes = np.where(missing, MISSING, np.where(at_zero, ZERO, 0))
        else:
            units, codes = values, values.astype(np.int64)
            codes[missing] = len(self.domain.levels) + 1
        scores = self.encode(units, codes)
        slope = ((scores - scores.mean()) * ndtri(ranks)).mean()
        return float(scores.mean()), float(scores.std()), float(slope)

    def decode(self, ranks: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Turn ranks in [0, 1] into numbers or level codes, and where one is missing.

        A missing level has the code -1.
        """
        rank, missing = ranks, np.zeros(len(ranks), dtype=bool)
        if self.missing:
            missing = ranks < self.missing
            rank = np.maximum(ranks - self.missing, 0.0) / max(1 - self.missing, 1e-12)
        if isinstance(self.domain, NumericDomain):
            units = _interpolated(rank, self.cumulative, self.points)
            return self.domain.from_unit(units), missing
        if len(self.points) == 0:
            return np.full(len(rank), -1.0), np.ones(len(rank), dtype=bool)
        place = _places(rank, self.cumulative[1:-1])
        return np.where(missing, -1.0, self.points[place]), missing

    def decode_where(self, ranks: Floats, missing: NDArray[np.bool_]) -> Floats:
        """Turn ranks into values where it is known already which are missing.

        A rank that stands for a missing value is spread over all values instead: it is
        even among such ranks, so the value comes from the marginal of what is present.
        """
        values, drawn_missing = self.decode(ranks)
        again = np.flatnonzero(drawn_missing & ~missing)
        present = replace(self, missing=0.0)
        values[again] = present.decode(ranks[again] / max(self.missing, 1e-12))[0]
        if not isinstance(self.domain, NumericDomain):
            values[missing] = -1.0
        return values

    def encode(
        self, units: NDArray[np.floating], category_codes: NDArray[np.integer]
    ) -> Floats:
        """Give the scores of rows; of a class's own private rows, they are private.

        `units` and `category_codes` are those of `PrivateRows`. Scores are within
        `MAX_SCORE` of 0. A value that fills an interval of scores, such as a level,
        gets the middle of its probabilities.
        """
        if isinstance(self.domain, NumericDomain):
            rank = np.interp(units, self.points, self.cumulative)
            doubled = np.flatnonzero(np.diff(self.points) == 0)
            if len(doubled):
                middle = self.cumulative[doubled[0] : doubled[0] + 2].mean()
                rank = np.where(category_codes == ZERO, middle, rank)
            gone = category_codes == MISSING
        else:
            table = np.full(self.domain.n_codes, 0.5)
            middles = (self.cumulative[:-1] + self.cumulative[1:]) / 2
            table[self.points.astype(np.int64)] = middles
            rank = table[category_codes]
            gone = category_codes == len(self.domain.levels) + 1
        # A missing value that the marginal does not have says nothing: the middle.
        missing = self.missing / 2 if self.missing else 0.5
        rank = np.where(gone, missing, self.missing + (1.0 - self.missing) * rank)
        lowest = ndtr(-MAX_SCORE)
        return ndtri(np.clip(rank, lowest, 1 - lowest))


def _interpolated(ranks: Floats, cumulative: Floats, points: Floats) -> Floats:
    """Do as `np.interp` does, to the bit; of many ranks faster."""
    if len(ranks) < 4 * _CELLS:
        return np.interp(ranks, cumulative, points)
    place = _places(ranks, cumulative) - 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slopes = np.append(np.diff(points) / np.diff(cumulative), 0.0)
    slopes[~np.isfinite(slopes)] = 0.0  # of an interval that no rank is in
    along = ranks - cumulative.take(place)
    along *= slopes.take(place)
    along += points.take(place)
    return along


def _places(ranks: Floats, ends: Floats) -> NDArray[np.intp]:
    """Count the `ends`, sorted and in [0, 1], up to each rank, in [0, 1] too.

    Of many ranks those that share a cell with no end have one count: only the others
    are searched for.
    """
    if len(ranks) < 4 * _CELLS:
        return np.searchsorted(ends, ranks, side="right")
    in_cell = np.bincount((ends * _CELLS).astype(np.intp), minlength=_CELLS + 1)
    below = np.where(in_cell > 0, -1, np.cumsum(in_cell))
    places = below.take((ranks * _CELLS).astype(np.intp), mode="clip")
    left = np.flatnonzero(places < 0)
    places[left] = np.searchsorted(ends, ranks[left], side="right")
    return places
