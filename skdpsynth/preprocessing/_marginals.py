"""Per-class marginals of every column, bought in two rounds of noisy counts.

Round 1 counts coarse bins of the public or bought range. It shows where the rows are,
and so where round 2 should look: each class gets as many bins as its noisy count can
fill, placed at the quantiles of round 1. Both rounds together give one density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.preprocessing._axes import Axis, LevelAxis, NumericAxis, is_wide
from skdpsynth.preprocessing._columns import MISSING, ZERO, PrivateRows
from skdpsynth.preprocessing._density import (
    Histogram,
    fit_masses,
    shrunk_distributions,
)
from skdpsynth.preprocessing._scores import ColumnScores
from skdpsynth.privacy._aggregators import noisy_histogram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skdpsynth.preprocessing._classes import Classes
    from skdpsynth.privacy import PrivacyAccountant

__all__ = ["N_CELLS", "bins_for", "buy_marginals", "coarse_share", "flat_marginals"]

N_CELLS = 64  # cells of the final density of a numeric column
_COARSE_SHARE = 0.4  # of the squared mu of the marginals, for round 1
_TWO_ROUNDS_FROM = 20.0  # bins that the largest class must be able to fill
_COARSE_BINS = (4, 16)
_FINE_BINS = (4, 64)
_WARP = 0.5  # weight of the scale, against the pooled quantiles, in the cell edges
_QUANTILE_WARP = 0.1  # the same for scale="quantile"
_SPREAD = 0.3  # weight of the cells, against round 1, in the edges of round 2
_GRID = np.linspace(0.0, 1.0, N_CELLS + 1)  # of the first look at a column
_BETWEEN_CLASSES = 0.3  # how much the share of zeros or missing values may differ
# Rows, in noise deviations of a count, from which a class's shares of a few numbers are
# drawn to those of all. With fewer rows no difference could stand out, and the noise of
# other columns would decide instead.
_POOLED_FROM = 5.0
# Noise deviations from which an exact zero, a bin, and the bin next to it are real.
_ZERO_FROM, _CORE_FROM, _GROWTH_FROM = 3.0, 5.0, 2.0


def coarse_share(largest: float, n_wide: int, n_others: int, mu: float) -> float:
    """Share of the squared mu of the marginals of a class that round 1 gets.

    Parameters
    ----------
    largest : float
        Planned number of rows of the largest class of the table.
    n_wide, n_others : int
        Numbers of columns whose rows round 1 must find, and of all others: levels,
        and numeric columns of few values.
    mu : float
        Gaussian-DP parameter of both rounds together.

    Returns
    -------
    float
        In [0, 1). 0 where even the largest class could fill only a few bins: all is
        then for round 2, whose bins are spread evenly.
    """
    n_columns = max(n_wide + n_others, 1)
    if largest * mu < _TWO_ROUNDS_FROM * 2.0 * math.sqrt(n_columns):
        return 0.0
    return _COARSE_SHARE * n_wide / n_columns


def bins_for(count: float, noise_std: float, *, coarse: bool) -> int:
    """Choose the number of bins that so many rows can fill against the noise.

    Parameters
    ----------
    count : float
        Planned number of rows of the class.
    noise_std : float
        Standard deviation of the noise of one count.
    coarse : bool
        Whether it is round 1.

    Returns
    -------
    int
        Number of bins per numeric column.
    """
    low, high = _COARSE_BINS if coarse else _FINE_BINS
    rows_per_bin = max((1.0 if coarse else 2.0) * noise_std, 1.0)
    return int(np.clip(count / rows_per_bin, low, high))


def buy_marginals(
    rows: PrivateRows,
    axes: list[Axis],
    classes: Classes,
    accountant: PrivacyAccountant,
    *,
    mus: NDArray[np.float64],
) -> list[list[ColumnScores]]:
    """Buy the distribution of every column in every class.

    Parameters
    ----------
    rows : PrivateRows
        The private table.
    axes : list of Axis
        One per column.
    classes : Classes
        Public; its planned counts choose the numbers of bins.
    accountant : PrivacyAccountant
        Ledger of the fit. Classes pay in parallel: a row is in one class.
    mus : ndarray of shape (n_classes,), float64
        Gaussian-DP parameter that each class may use for both rounds together.

    Returns
    -------
    scores : list of n_classes lists of ColumnScores
        The released marginals, as maps between values and normal scores.
    """
    numeric = [j for j, axis in enumerate(axes) if isinstance(axis, NumericAxis)]
    wide = [j for j in numeric if is_wide(axes[j])]
    largest, n_others = float(classes.planned.max()), len(axes) - len(wide)
    shares = [coarse_share(largest, len(wide), n_others, float(mu)) for mu in mus]
    members = [rows.of_class(c) for c in range(len(classes))]
    coarse: list[dict[int, _Counted]] = [{} for _ in members]
    for c, of_class in enumerate(members):
        if shares[c] == 0:
            continue
        reservation = accountant.reserve_gaussian(
            "coarse marginals",
            mu=float(mus[c]) * math.sqrt(shares[c]),
            sensitivity=math.sqrt(len(wide)),
            scope=classes.scopes[c],
        )
        n_bins = bins_for(classes.planned[c], reservation.noise_std, coarse=True)
        edges = {j: _numeric(axes[j]).snap(np.linspace(0, 1, n_bins + 1)) for j in wide}
        released = noisy_histogram(
            _bin_codes(of_class, edges, wide),
            [len(edges[j]) + 1 for j in wide],
            reservation,
        )
        for j, counts in zip(wide, released, strict=True):
            coarse[c][j] = _Counted.of(edges[j], counts, reservation.noise_std)
    cdfs = _coarse_cdfs(coarse, numeric)
    cells = {
        j: _warped_cells(
            _numeric(axes[j]),
            [of_class[j] for of_class in cdfs],
            _support([of_class[j].histogram for of_class in coarse if j in of_class]),
        )
        for j in numeric
    }
    fine: list[list[NDArray[np.int64]]] = []
    fine_edges: list[dict[int, NDArray[np.float64]]] = []
    stds = np.empty(len(members))
    for c, of_class in enumerate(members):
        reservation = accountant.reserve_gaussian(
            "marginals",
            mu=float(mus[c]) * math.sqrt(1.0 - shares[c]),
            sensitivity=math.sqrt(len(axes)),
            scope=classes.scopes[c],
        )
        n_bins = bins_for(classes.planned[c], reservation.noise_std, coarse=False)
        edges = {j: _quantile_edges(cdfs[c][j], cells[j], n_bins) for j in wide}
        edges |= {j: cells[j] for j in numeric if j not in wide}  # a number each
        widths = [
            len(edges[j]) + 1 if isinstance(axis, NumericAxis) else axis.n_codes
            for j, axis in enumerate(axes)
        ]
        codes = _bin_codes(of_class, edges, range(len(axes)))
        fine.append(noisy_histogram(codes, widths, reservation))
        fine_edges.append(edges)
        stds[c] = reservation.noise_std
    return _estimate(axes, classes, coarse, cells, fine, fine_edges, stds)


def flat_marginals(axes: list[Axis], n_classes: int) -> list[list[ColumnScores]]:
    """Give the marginals of a fit that buys none: uniform on every axis."""
    columns = []
    for axis in axes:
        if isinstance(axis, NumericAxis):
            scores = ColumnScores.numeric(axis, np.array([0.0, 1.0]), np.ones(1))
        else:
            levels = np.full(len(axis.levels), 1.0 / max(len(axis.levels), 1))
            scores = ColumnScores.of_levels(axis, levels)
        columns.append(scores)
    return [list(columns) for _ in range(n_classes)]


@dataclass(frozen=True)
class _Counted:
    """A noisy histogram of one numeric column: bins, then zero and missing."""

    histogram: Histogram
    zero: float
    missing: float

    @classmethod
    def of(
        cls, edges: NDArray[np.float64], counts: NDArray[np.int64], noise_std: float
    ) -> _Counted:
        """Read what was released."""
        histogram = Histogram(edges, counts[:-2].astype(np.float64), noise_std)
        return cls(histogram, float(counts[-2]), float(counts[-1]))

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of one count."""
        return self.histogram.noise_std


def _coarse_cdfs(
    coarse: list[dict[int, _Counted]], numeric: list[int]
) -> list[dict[int, NDArray[np.float64]]]:
    """Give the smooth distribution functions of round 1 at `_GRID`, per class.

    What had no round 1 gets an even one.
    """
    found: list[dict[int, NDArray[np.float64]]] = []
    for counted in filter(None, coarse):
        histograms = [part.histogram for part in counted.values()]
        totals = np.array([max(float(part.counts.sum()), 1.0) for part in histograms])
        cells = [_GRID] * len(histograms)
        masses = fit_masses([[part] for part in histograms], cells, totals)
        found.append(
            {
                j: np.concatenate(([0.0], np.cumsum(mass)))
                for j, mass in zip(counted, masses, strict=True)
            }
        )
    evenly = dict.fromkeys(numeric, _GRID)
    own = iter(found)
    return [evenly | (next(own) if counted else {}) for counted in coarse]


def _numeric(axis: Axis) -> NumericAxis:
    if not isinstance(axis, NumericAxis):
        raise TypeError("Expected a numeric axis.")
    return axis


def _bin_codes(
    rows: PrivateRows,
    edges: dict[int, NDArray[np.float64]],
    columns: list[int] | range,
) -> NDArray[np.unsignedinteger]:
    """Give the bin of every row in every column."""
    most = max((len(edges[j]) for j in columns if j in edges), default=0)
    wide = np.promote_types(np.min_scalar_type(most), rows.codes.dtype)
    codes = np.empty((len(rows.members), len(columns)), dtype=wide)
    for position, j in enumerate(columns):
        if j in edges:
            inner = edges[j][1:-1].astype(np.float32)
            n_bins = len(edges[j]) - 1
            binned = np.searchsorted(inner, rows.units[:, j], side="right")
            kind = rows.codes[:, j]
            binned[kind == ZERO] = n_bins
            binned[kind == MISSING] = n_bins + 1
            codes[:, position] = binned
        else:
            codes[:, position] = rows.codes[:, j]
    return codes


def _support(parts: list[Histogram]) -> tuple[float, float]:
    """Find where round 1 saw rows of any class; bounds are often far too wide.

    Without it the smooth density would spread noise over the empty rest.
    """
    ends = []
    for part in parts:
        core = np.flatnonzero(part.counts > _CORE_FROM * part.noise_std)
        if len(core) == 0:
            continue
        first, last = int(core[0]), int(core[-1])
        likely = part.counts > _GROWTH_FROM * part.noise_std
        while first > 0 and likely[first - 1]:
            first -= 1
        while last + 1 < len(likely) and likely[last + 1]:
            last += 1
        # One bin more: half of a small class may be beyond the large one's rows.
        first, last = max(first - 1, 0), min(last + 1, len(likely) - 1)
        ends.append((float(part.edges[first]), float(part.edges[last + 1])))
    if not ends:
        return 0.0, 1.0
    return min(low for low, _ in ends), max(high for _, high in ends)


def _warped_cells(
    axis: NumericAxis, cdfs: list[NDArray[np.float64]], support: tuple[float, float]
) -> NDArray[np.float64]:
    """Place the cells of a column: narrow where any class has many rows."""
    low, high = support
    grid = np.linspace(low, high, 4 * N_CELLS + 1)
    pooled = np.interp(grid, _GRID, np.mean(cdfs, axis=0))
    pooled = (pooled - pooled[0]) / max(pooled[-1] - pooled[0], 1e-12)
    weight = _QUANTILE_WARP if axis.quantile else _WARP
    warped = (1 - weight) * pooled + weight * np.linspace(0.0, 1.0, len(grid))
    cells = axis.snap(np.interp(np.linspace(0.0, 1.0, N_CELLS + 1), warped, grid))
    inner = cells[(cells > low + 1e-9) & (cells < high - 1e-9)]
    return np.concatenate(([low], inner, [high]))


def _quantile_edges(
    cdf: NDArray[np.float64], cells: NDArray[np.float64], n_bins: int
) -> NDArray[np.float64]:
    """Choose bins of round 2: unions of cells with about equal expected counts."""
    share = np.interp(cells, _GRID, cdf)
    share = (share - share[0]) / max(share[-1] - share[0], 1e-12)
    mixed = (1 - _SPREAD) * share + _SPREAD * np.linspace(0.0, 1.0, len(cells))
    inner = np.searchsorted(mixed, np.linspace(0.0, 1.0, n_bins + 1)[1:-1])
    last = len(cells) - 1
    chosen = np.unique(np.concatenate(([0], np.minimum(inner, last), [last])))
    return cells[chosen]


def _estimate(
    axes: list[Axis],
    classes: Classes,
    coarse: list[dict[int, _Counted]],
    cells: dict[int, NDArray[np.float64]],
    fine: list[list[NDArray[np.int64]]],
    fine_edges: list[dict[int, NDArray[np.float64]]],
    stds: NDArray[np.float64],
) -> list[list[ColumnScores]]:
    """Turn all noisy counts into marginals: post-processing."""
    n_classes = len(fine)
    result: list[list[ColumnScores]] = [[] for _ in range(n_classes)]
    numeric = sorted(cells)
    masses: list[list[NDArray[np.float64]]] = []
    atoms: list[list[tuple[float, float]]] = []
    second = [
        {j: _Counted.of(fine_edges[c][j], fine[c][j], float(stds[c])) for j in numeric}
        for c in range(n_classes)
    ]
    rounds = {
        j: [
            [part[c][j] for part in (coarse, second) if j in part[c]]
            for c in range(n_classes)
        ]
        for j in numeric
    }
    shares = {j: _atoms(_numeric(axes[j]), rounds[j], classes.counts) for j in numeric}
    for c in range(n_classes):
        columns, totals, found = [], [], []
        for j in numeric:
            columns.append([counted.histogram for counted in rounds[j][c]])
            atom = float(shares[j][c, 0]), float(shares[j][c, 1])
            found.append(atom)
            totals.append(max(float(classes.counts[c]) * (1.0 - sum(atom)), 1.0))
        fitted = fit_masses(columns, [cells[j] for j in numeric], np.array(totals))
        masses.append(fitted if numeric else [])
        atoms.append(found)
    sure = np.flatnonzero(classes.counts >= _POOLED_FROM * stds).tolist()
    for at, j in enumerate(numeric):
        if not is_wide(axes[j]):
            few = _few_numbers([counted[j] for counted in second])
            for c in sure:
                masses[c][at] = few[c]
    for j, axis in enumerate(axes):
        if isinstance(axis, NumericAxis):
            at = numeric.index(j)
            for c in range(n_classes):
                zero, missing = atoms[c][at]
                result[c].append(
                    ColumnScores.numeric(
                        axis, cells[j], masses[c][at], zero=zero, missing=missing
                    )
                )
        else:
            for c, scores in enumerate(_level_scores(axis, [f[j] for f in fine], stds)):
                result[c].append(scores)
    return result


def _few_numbers(counted: list[_Counted]) -> NDArray[np.float64]:
    """Shares of a few whole numbers in each class, drawn towards those of all.

    Every number has a bin of its own, so there is nothing to smooth.
    """
    counts = np.array([part.histogram.counts for part in counted])
    return shrunk_distributions(counts, np.array([part.noise_std for part in counted]))


def _atoms(
    axis: NumericAxis, rounds: list[list[_Counted]], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Shares of exact zeros and of missing values in each class, shape (n_classes, 2).

    Whether there are exact zeros is asked of all classes together. A share is drawn
    towards that of all classes, as far as the noise of the class makes it uncertain.
    """
    seen, variances = np.empty((len(rounds), 2)), np.empty(len(rounds))
    for c, parts in enumerate(rounds):
        weights = [1.0 / max(part.noise_std, 0.5) ** 2 for part in parts]
        atoms = [(part.zero, part.missing) for part in parts]
        seen[c] = np.average(atoms, axis=0, weights=weights)
        variances[c] = 1.0 / sum(weights)
    pooled = np.maximum(seen.sum(axis=0), 0.0) / counts.sum()
    pooled /= max(float(pooled.sum()), 1.0)
    precision = counts**2 / variances
    kept = (precision / (precision + 1.0 / _BETWEEN_CLASSES**2))[:, None]
    shares = np.maximum(kept * seen / counts[:, None] + (1.0 - kept) * pooled, 0.0)
    real = seen[:, 0].sum() > _ZERO_FROM * math.sqrt(float(variances.sum()))
    shares[:, 0] *= axis.zero is not None and real
    shares[:, 1] *= axis.nullable
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0))


def _level_scores(
    axis: LevelAxis, counts: list[NDArray[np.int64]], stds: NDArray[np.float64]
) -> list[ColumnScores]:
    """Marginals of a level column; 'other' is spread over the released levels."""
    n_levels = len(axis.levels)
    used = [*range(n_levels), n_levels + 1] if axis.nullable else [*range(n_levels)]
    if not used:
        return [ColumnScores.of_levels(axis, np.empty(0)) for _ in counts]
    stacked = np.array([noisy[used] for noisy in counts], dtype=np.float64)
    shares = shrunk_distributions(stacked, stds)
    missing = shares[:, n_levels:].sum(axis=1)
    order = _level_order(shares[:, :n_levels], ordered=axis.ordered)
    return [
        ColumnScores.of_levels(axis, row[:n_levels], missing=gone, order=order)
        for row, gone in zip(shares, missing, strict=True)
    ]


def _level_order(shares: NDArray[np.float64], *, ordered: bool) -> NDArray[np.int64]:
    """Order levels along the direction in which the classes differ most."""
    n_classes, n_levels = shares.shape
    if ordered or n_classes < 2 or n_levels < 3:
        return np.arange(n_levels)
    profile = shares / np.maximum(shares.sum(axis=0, keepdims=True), 1e-12)
    centred = profile - profile.mean(axis=1, keepdims=True)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    return np.argsort(direction, kind="stable")
