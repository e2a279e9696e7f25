"""Wide public bins of numbers and dates, and which of them hold the rows of a column.

All follows from noisy counts, and costs nothing: where bins are surely not empty, where
they probably are, and what a prior says of few rows.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from skdpsynth.measure._shares import FEW, LIKELY, LITTLE, QUARTER, SURE, TINY
from skdpsynth.schema import OPEN, SECONDS_OF
from skdpsynth.table import ColumnLayout, Gap, NumericDomain
from skdpsynth.utils.arrays import Floats, Ints

# Noise deviations of the next one, two, three and four bins of a tail together. With
# one bin alone the 2-way distance of storms was .45, not .41 (epsilon 1).
_TAIL_FROM = np.array([2.0, 3.0, 3.0, 3.0])
# The same of bins on the other side of 0, whose values are at most so much smaller.
# With 5 columns of two modes lost a sign; with 8 times smaller the ranges of diabetes
# had 90 % of the values, not 94 % (epsilon 3).
_ACROSS_FROM, _ALIKE = 4.0, 64.0
# Prior of a column: its largest number is near this, and a factor of 2 away takes
# QUARTER off the log probability, a negative one 1. Away from 0 it fills a few bins
# with such shares. Near 1, with .7 off, the ranges of wine had 95 % of the values, not
# 98 %.
_USUAL = 8.0
_BUMPS = (
    *((1.0,), (0.5, 0.5), (0.25, 0.25, 0.25, 0.25)),
    *((0.25, 0.5, 0.25), (0.15, 0.35, 0.35, 0.15), (0.05, 0.15, 0.3, 0.3, 0.15, 0.05)),
    *((0.35, 0.65), (0.65, 0.35), (0.1, 0.3, 0.6), (0.6, 0.3, 0.1)),
)
# Bins of a tail of few rows that the noise hides. Of 140 tables of 3,000 rows and 9
# columns, with 300 amounts, mean (by 25 %), largest value (by a factor of 3) and zeros
# (by .02) came back in 75 %, with 1 bin in 66 %, with 3 in 73 % (epsilon 1; without
# noise in 96 %).
_HIDDEN = 2
# Bins of such a range above this part of its end help to say where its rows are; nearer
# to 0 there are many, and they would say little.
_NEAR_END = 4096.0
# Rows, in noise deviations, from which bins that are surely not empty say more than
# shapes: a bin with a fifth of them is sure. Of 900 rows of Kaggle Credit (22) shapes
# keep 96 % of the values, and such bins 90 %; of 1,000 rows of Adult (35) 92 % and
# 96 %.
_SHAPES_BELOW = SURE * SURE
# Edges of the outer bins of floats, as powers of two; and those of what is beyond.
POWERS, MORE_POWERS = range(-30, 64), range(-1000, 1001, 4)
_FAR_YEARS = 300.0  # dates so far from others, such as 9999-12-31, are no times
# In years: of two where most dates are, of a hundred elsewhere.
_YEARS = (1, *range(100, 1900, 100), *range(1900, 2100, 2), *range(2100, 10_001, 100))


# What stands for something in many files, and is counted beside the bins.
_NINES = (1.0, *(10.0**k - 1.0 for k in range(1, 7)))


def outer_codes(column: ColumnLayout) -> list[float]:
    """Return the values that have a cell beside the bins, in increasing order."""
    if isinstance(column, Gap):
        return [*column.members[-1].special]
    if column.kind == "timedelta" or column.original is not column:
        return []
    if column.kind == "datetime":
        return [*OPEN]
    return sorted((*_NINES[1:], *(-own for own in _NINES)))


def outer_edges(column: ColumnLayout, domain: NumericDomain | None = None) -> Floats:
    """Return the edges of the public outer bins.

    They are years or powers of two; where a released domain is beyond these, more.
    """
    if column.kind == "datetime":
        years = np.array([*_YEARS]) - 1970
        return years.astype("M8[Y]").astype("M8[s]").astype(float)
    if column.kind != "integer":
        powers = np.exp2(np.array(POWERS, dtype=np.float64))
        largest = 1.0 if domain is None else max(np.abs(domain.bounds))
        if not powers[0] < largest <= powers[-1]:
            powers = np.exp2(np.array(MORE_POWERS, dtype=np.float64))
        ends = np.exp2([float(MORE_POWERS[-1])])
        powers = np.union1d(powers, ends)
        return np.concatenate((-powers[::-1], [0.0, np.nextafter(0.0, 1.0)], powers))
    limits = np.iinfo(column.storage)
    powers = np.exp2(np.arange(int(limits.max).bit_length() + 1, dtype=np.float64))
    negative = -powers[::-1] if limits.min < 0 else np.empty(0)
    return np.concatenate((negative, [-0.5, 0.5], powers[1:]))


def found_bins(
    counts: Ints,
    edges: Floats,
    noise_std: float,
    n_rows: float,
    *,
    dated: bool,
    again: bool,
) -> tuple[int, int, bool] | None:
    """Find the first and the last bin with rows, and whether they are sure; or None."""
    # Rows without a label are in these counts, but not yet in the number of rows.
    total = float(counts.sum())
    if total - n_rows > SURE * noise_std * math.sqrt(len(counts)):
        n_rows = total
    most = _bins_of_most(counts, edges, noise_std, n_rows, dated=dated)
    if most is None:
        return None
    fullest, level = int(counts.argmax()), SURE
    near = counts[max(fullest - 1, 0) : fullest + 2] > LIKELY * noise_std
    alone = not dated and counts[fullest] > 0.5 * n_rows and near.sum() == 1
    if alone and n_rows - counts[fullest] > LIKELY * noise_std * math.sqrt(2):
        # What is beside it, as amounts are beside zeros, is found by itself.
        most, level = (fullest, fullest), LIKELY
    first, last = most
    within = counts[first : last + 1]
    sure = within.sum() >= 0.5 * n_rows and within.max() > LIKELY * noise_std
    n_rows -= float(within.sum())
    if not sure or n_rows <= level * noise_std * math.sqrt(len(within) + 1):
        return first, last, bool(sure)
    # Other rows are beyond, such as amounts where most are 0: too few for bins that are
    # sure of all rows, but not for shapes.
    left = counts.copy()
    left[first : last + 1] = 0
    others = _bins_of_most(left, edges, noise_std, n_rows, dated=dated)
    if others is None or dated:  # such as an open end of 9999-12-31
        return first, last, False
    start, end = others
    within = left[start : end + 1]
    known = max(0.5 * n_rows, SURE * noise_std * math.sqrt(len(within)))
    sure = within.sum() >= known and within.max() > LIKELY * noise_std
    if not again:  # asked once more the noise is smaller
        sure = n_rows >= _SHAPES_BELOW * noise_std
    if LIKELY * noise_std > FEW * n_rows:
        start -= min(_HIDDEN * (start < first), start)
        end += min(_HIDDEN * (end > last), len(counts) - 1 - end)
    return min(first, start), max(last, end), bool(sure)


def likely_bins(counts: Floats, edges: Floats, noise_std: float) -> tuple[int, int]:
    """Return the first and the last bin that few rows may be in, with hidden ones."""
    first, last = _likely_bins(counts, edges, noise_std, float(counts.sum()))
    places = [max(first - _HIDDEN, 0), min(last + _HIDDEN, len(counts) - 1)]
    places += np.flatnonzero(counts > SURE * noise_std).tolist()
    return min(places), max(places)


def outer_shares(
    counts: Floats, edges: Floats, bounds: tuple[float, float], noise_std: float
) -> tuple[tuple[tuple[float, float], ...], bool]:
    """Return the bins on the far side of a range, and whether the mean is known.

    Those near 0 are left out. Noise of the last bin may be more than `QUARTER` of all.
    """
    far = max(-bounds[0], bounds[1])
    sizes = np.minimum(np.abs(edges[:-1]), np.abs(edges[1:]))
    side = edges[:-1] > 0 if bounds[1] == far else edges[1:] < 0
    (places,) = np.nonzero(side & (sizes >= far / _NEAR_END) & (sizes < far))
    if not len(places):
        return (), True
    ends = edges[places[0] : places[-1] + 2]
    within, middles = counts[places], np.abs(ends[:-1] + ends[1:]) / 2
    clear = noise_std * middles.max() <= QUARTER * np.maximum(within, 0.0) @ middles
    pairs = zip(ends.tolist(), [*within.tolist(), noise_std], strict=True)
    return (*pairs,), bool(clear)


def _bins_of_most(
    counts: Ints, edges: Floats, noise_std: float, n_rows: float, *, dated: bool
) -> tuple[int, int] | None:
    """Find the first and the last bin of most of the rows; None of some dates."""
    core = np.flatnonzero(counts > SURE * noise_std)
    if not dated and (len(core) == 0 or n_rows < _SHAPES_BELOW * noise_std):
        return _likely_bins(counts, edges, noise_std, n_rows)
    if len(core) == 0:
        core = _together(counts, noise_std, SURE)
    if len(core) == 0:
        return None
    if dated:  # centuries away from the others is no time, but stands for something
        apart = np.diff(edges[core]) > _FAR_YEARS * 365 * SECONDS_OF["D"]
        groups = np.concatenate(([0], np.cumsum(apart)))
        core = core[groups == np.bincount(groups, counts[core]).argmax()]
    first, last = int(core[0]), int(core[-1])
    # Growth alone does not cross 0: most columns have one sign.
    zero = int(np.searchsorted(edges, 0.0, side="right")) - 1
    lowest = zero if first >= zero and not dated else 0
    highest = zero if last <= zero and not dated else len(counts) - 1
    first -= _growth(counts[lowest:first][::-1], noise_std)
    last += _growth(counts[last + 1 : highest + 1], noise_std)
    if dated or edges[first] < 0.0 < edges[last + 1]:
        return first, last
    # A range of one sign reaches over 0 where there are rows about as far from it: half
    # of a centred column must not be cut off because no bin of its is sure. A column of
    # one sign gets the other one in fewer than one of a thousand fits.
    far = max(-float(edges[first]), float(edges[last + 1]))
    sizes = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    other = edges[1:] <= 0.0 if edges[first] >= 0.0 else edges[:-1] >= 0.0
    places = np.flatnonzero(other & (sizes <= far) & (sizes > far / _ALIKE))
    core = _together(counts[places], noise_std, _ACROSS_FROM)
    within = [first, last, *places[core].tolist()]
    return min(within), max(within)


def _likely_bins(
    counts: Ints | Floats, edges: Floats, noise_std: float, n_rows: float
) -> tuple[int, int]:
    """Return the bins between which most rows probably are, where rows are few."""
    # Shapes are weighed by their prior and by the Gaussian likelihood of the counts. Of
    # their mean the sizes about the most likely one are taken, so that another guess,
    # thousands of times larger, does not count. At epsilon 1 breast cancer has 95 % of
    # its values within (by quantiles of the mean 89 %), and 0.3 % of the ranges are 32
    # times too wide or more (0.8 %); diabetes 95 % (82 %).
    shapes, log_prior = _shapes(tuple(edges.tolist()))
    # Where the prior decides: with LITTLE the range of a column without values was 10
    # times as wide.
    least, log_weights = QUARTER, log_prior
    if counts.any() and n_rows > noise_std:
        fit = n_rows * (shapes @ counts) - 0.5 * n_rows**2 * (shapes**2).sum(axis=1)
        least, log_weights = LITTLE, log_prior + fit / max(noise_std, TINY) ** 2
    weights = np.exp(log_weights - log_weights.max())
    density = weights @ shapes / weights.sum()
    # Both signs of one size belong together: a centred column has few rows near 0.
    sizes = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    sizes, place = np.unique(sizes, return_inverse=True)
    by_size = np.zeros(len(sizes))
    np.maximum.at(by_size, place, density)
    less = np.flatnonzero(by_size < least * density.max())
    most = int(by_size.argmax())
    smaller, larger = less[less < most].max(initial=-1), less[less > most]
    likely = density >= least * density.max()
    likely &= (place > smaller) & (place < larger.min(initial=len(sizes)))
    first, last = np.flatnonzero(likely)[[0, -1]]
    return int(first), int(last)


@lru_cache(maxsize=16)
def _shapes(edges: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Lay rows into outer bins as columns may: (n_shapes, n_bins), and log priors."""
    ends, n_bins = np.array(edges), len(edges) - 1
    shares, far = [], []  # and the end that is farther from 0
    for bump in _BUMPS:  # even in the logarithm, or most in the middle or at an end
        for first in range(n_bins - len(bump) + 1):
            low, high = ends[first], ends[first + len(bump)]
            if low >= 0 or high <= 0:
                shares.append(np.pad(bump, (first, n_bins - first - len(bump))))
                far.append(high if low >= 0 else low)
    for end in ends[ends != 0]:  # even from 0
        shares.append(np.abs(np.diff(np.clip(ends, min(end, 0.0), max(end, 0.0)))))
        far.append(end)
    for end in ends[ends > 0]:  # normal about 0, almost all within 2.5 deviations
        with np.errstate(over="ignore"):
            shares.append(np.diff(ndtr(ends * 2.5 / end)))
        far.append(end)
    stacked, limits = np.array(shares), np.array(far)
    stacked /= stacked.sum(axis=1, keepdims=True)
    doublings = np.abs(np.log2(np.abs(limits)) - math.log2(_USUAL))
    doublings = np.minimum(doublings, POWERS[-1])  # beyond, all are as unlikely
    return stacked, -QUARTER * doublings - (limits < 0)


def _together(counts: Ints, noise_std: float, least: float) -> NDArray[np.intp]:
    """Find neighbouring bins whose sum exceeds so many noise deviations."""
    # Both ends of such a group are probably not empty, so that it is not too wide.
    likely = counts > _TAIL_FROM[0] * noise_std
    together = np.zeros(len(counts), dtype=bool)
    for width in range(1, min(len(_TAIL_FROM), len(counts)) + 1):
        sums = np.convolve(counts, np.ones(width), "valid")
        sure = sums > least * noise_std * math.sqrt(width)
        starts = np.flatnonzero(sure & likely[: len(sums)] & likely[width - 1 :])
        for place in range(width):
            together[starts + place] = True
    return np.flatnonzero(together)


def _growth(counts: Ints, noise_std: float) -> int:
    """Count the bins beyond an end of a range, nearest first, that belong to it."""
    grown = 0
    while grown < len(counts):
        sums = np.cumsum(counts[grown : grown + len(_TAIL_FROM)])
        widths = np.arange(1, len(sums) + 1)
        sure = sums > _TAIL_FROM[: len(sums)] * noise_std * np.sqrt(widths)
        if not sure.any():
            break
        grown += int(np.flatnonzero(sure)[-1]) + 1
    return grown
