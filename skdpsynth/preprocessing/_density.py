"""Noisy counts to densities: post-processing, no private data comes here.

Two noisy histograms of one column, a coarse and a fine one, are explained by one
smooth density. What they do not determine is filled in by the smoothness: the third
differences of the log-density are small, so with very noisy counts the fit tends to a
normal distribution instead of to a row of random spikes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Histogram",
    "fit_masses",
    "fit_spiked",
    "nearest_distribution",
    "shrunk_distributions",
]

_SMOOTHNESS = 0.1  # weight of the squared third differences, on cells of 1/8
_SMOOTH_CELLS = 64  # of the smooth density
_SPIKE, _SPIKE_ROUNDS = 4.0, 3
_LEAST_NOISE = 0.5  # counts without noise are rounded
_MAX_NEWTON_STEPS = 100
_CONVERGED = (1e-3, 1e-6)  # gain of a step: absolute, and relative to the loss
_MAX_DAMPING = 1e12


@dataclass(frozen=True)
class Histogram:
    """Noisy counts of one column over intervals of [0, 1].

    Parameters
    ----------
    edges : ndarray of shape (n_bins + 1,), float64
        Strictly increasing, from 0 to 1.
    counts : ndarray of shape (n_bins,), float64
        Noisy counts; they may be negative.
    noise_std : float
        Standard deviation of the noise of one count, >= 0.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.float64]
    noise_std: float

    def overlap(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of each cell that lies in each bin, shape (n_bins, n_cells)."""
        low = np.maximum(self.edges[:-1, None], cells[None, :-1])
        high = np.minimum(self.edges[1:, None], cells[None, 1:])
        return np.maximum(high - low, 0.0) / np.diff(cells)[None, :]

    def less(
        self, counts: NDArray[np.float64], edges: NDArray[np.float64]
    ) -> Histogram:
        """Take off rows that were counted in other bins."""
        own = self.counts - self.overlap(edges) @ counts
        return Histogram(self.edges, own, self.noise_std)


def fit_masses(
    columns: list[list[Histogram]],
    cells: list[NDArray[np.float64]],
    totals: NDArray[np.float64],
) -> list[NDArray[np.float64]]:
    """Fit one smooth distribution per column to its noisy histograms.

    Parameters
    ----------
    columns : list of n_columns lists of Histogram
        What was bought of each column; every column has as many histograms.
    cells : list of n_columns ndarrays of shape (n_cells_j + 1,)
        Edges of the cells whose masses are wanted.
    totals : ndarray of shape (n_columns,)
        Number of rows that the histograms count, at least 1.

    Returns
    -------
    list of n_columns ndarrays of shape (n_cells_j,)
        Masses, positive, with sum 1.

    Notes
    -----
    Maximises ``-sum (n A q - h)^2 / (2 s^2) - w |D3 log q|^2 / 2`` over the simplex by
    damped Newton steps (Gauss-Newton in log q), columns with equally many cells at
    once, each until its own steps gain nothing.
    """
    masses: list[NDArray[np.float64]] = [np.empty(0)] * len(columns)
    sizes = np.array([len(edges) - 1 for edges in cells])
    for size in np.unique(sizes):
        members = np.flatnonzero(sizes == size)
        design, target, start = [], [], []
        for member in members:
            parts = columns[member]
            scale = [1.0 / max(part.noise_std, _LEAST_NOISE) for part in parts]
            total = totals[member]
            overlaps = [part.overlap(cells[member]) for part in parts]
            design.append(
                [s * total * own for s, own in zip(scale, overlaps, strict=True)]
            )
            target.append(
                [s * part.counts for s, part in zip(scale, parts, strict=True)]
            )
            start.append(_first_guess(parts[-1], cells[member], overlaps[-1], total))
        rows = max(sum(len(block) for block in blocks) for blocks in design)
        stacked = np.zeros((len(members), rows, size))
        wanted = np.zeros((len(members), rows))
        for position, (blocks, values) in enumerate(zip(design, target, strict=True)):
            block = np.concatenate(blocks)
            stacked[position, : len(block)] = block
            wanted[position, : len(block)] = np.concatenate(values)
        fitted = _newton(stacked, wanted, np.array(start))
        for member, mass in zip(members, fitted, strict=True):
            masses[member] = mass
    return masses


def fit_spiked(
    columns: list[list[Histogram]],
    cells: list[NDArray[np.float64]],
    totals: NDArray[np.float64],
) -> list[NDArray[np.float64]]:
    """Fit a smooth distribution per column, and what surely stands out of it.

    Parameters
    ----------
    columns, cells, totals
        As in `fit_masses`; the last histogram of a column has edges of cells.

    Returns
    -------
    list of n_columns ndarrays of shape (n_cells_j,)
        Masses, positive, with sum 1.

    Notes
    -----
    Numbers that people choose, such as 40 hours, are no smooth density. A bin whose
    count is too high for the density by more than `_SPIKE` noise deviations keeps it,
    and the density is fitted to the other rows. Of what the other bins differ, the
    share is kept to which its mean square exceeds that of the noise.
    """
    smooth_cells = [_thinned(edges, _SMOOTH_CELLS) for edges in cells]
    excess = [_standing_out(parts[-1]) for parts in columns]
    rounds, rest = [list(parts) for parts in columns], totals.copy()
    masses: list[NDArray[np.float64]] = [np.empty(0)] * len(columns)
    moving = list(range(len(columns)))
    for _ in range(_SPIKE_ROUNDS):
        for j in moving:
            if excess[j].any():
                rest[j] = max(totals[j] - excess[j].sum(), 1.0)
                edges = columns[j][-1].edges
                rounds[j] = [part.less(excess[j], edges) for part in columns[j]]
        fitted = fit_masses(
            [rounds[j] for j in moving], [smooth_cells[j] for j in moving], rest[moving]
        )
        before, moving = moving, []
        for j, mass in zip(before, fitted, strict=True):
            masses[j] = mass
            _, residual, spike = _residuals(columns[j], rest[j], mass, smooth_cells[j])
            now = np.where(spike, residual, 0.0)
            if np.abs(now - excess[j]).max() > columns[j][-1].noise_std:
                moving.append(j)
                excess[j] = now
        if not moving:
            break
    return [
        _with_spikes(columns[j], rest[j], masses[j], smooth_cells[j], cells[j])
        for j in range(len(columns))
    ]


def _standing_out(part: Histogram) -> NDArray[np.float64]:
    """Guess what stands out, by the median of a bin and its four neighbours.

    A density that is fitted to all would rise to a spike, and sink beside it.
    """
    if len(part.counts) < 5:
        return np.zeros(len(part.counts))
    widths = np.diff(part.edges)
    near = sliding_window_view(np.pad(part.counts / widths, 2, mode="reflect"), 5)
    residual = part.counts - np.partition(near, 2, axis=1)[:, 2] * widths
    spike = residual > _SPIKE * max(part.noise_std, _LEAST_NOISE)
    return np.where(spike, residual, 0.0)


def _residuals(
    parts: list[Histogram],
    total: float,
    mass: NDArray[np.float64],
    cells: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Give what a density expects in the finest bins, what is beside, and spikes."""
    part = parts[-1]
    expected = total * _rebinned(mass, cells, part.edges)
    residual = part.counts - expected
    return expected, residual, residual > _SPIKE * max(part.noise_std, _LEAST_NOISE)


def _with_spikes(
    parts: list[Histogram],
    total: float,
    mass: NDArray[np.float64],
    smooth_cells: NDArray[np.float64],
    cells: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Bring a smooth density to finer cells, with what stands out of it."""
    expected, residual, spike = _residuals(parts, total, mass, smooth_cells)
    noise_std = max(parts[-1].noise_std, _LEAST_NOISE)
    energy = float((residual[~spike] ** 2).mean()) if not spike.all() else 0.0
    kept = max(0.0, 1.0 - noise_std**2 / energy) if energy > 0 else 0.0
    shares = nearest_distribution(expected + np.where(spike, 1.0, kept) * residual)
    fine = _rebinned(mass, smooth_cells, cells)
    middles = (cells[:-1] + cells[1:]) / 2
    of_bin = np.searchsorted(parts[-1].edges, middles) - 1
    within = np.maximum(np.bincount(of_bin, fine, len(shares)), 1e-300)
    result = np.maximum(fine / within[of_bin] * shares[of_bin], 1e-12)
    return np.asarray(result / result.sum())


def _rebinned(
    mass: NDArray[np.float64],
    cells: NDArray[np.float64],
    edges: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Give the masses between `edges` of a density that is even in every cell."""
    below = np.concatenate(([0.0], np.cumsum(mass)))
    return np.diff(np.interp(edges, cells, below))


def _thinned(edges: NDArray[np.float64], n_cells: int) -> NDArray[np.float64]:
    """Leave about `n_cells` cells, whose edges are some of the given ones."""
    n = len(edges) - 1
    if n <= n_cells:
        return edges
    return edges[np.unique(np.linspace(0, n, n_cells + 1).round().astype(np.int64))]


def _first_guess(
    histogram: Histogram,
    cells: NDArray[np.float64],
    overlap: NDArray[np.float64],
    total: float,
) -> NDArray[np.float64]:
    """Log-masses of the histogram spread evenly in its bins, kept off zero."""
    floor = max(histogram.noise_std, 1e-3 * total / len(cells))
    counts = np.maximum(histogram.counts, floor)
    per_width = counts / np.diff(histogram.edges)
    return np.log(per_width @ overlap * np.diff(cells))


def _newton(
    design: NDArray[np.float64],
    target: NDArray[np.float64],
    theta: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Minimise ``|design q - target|^2 / 2 + penalty`` with q = softmax(theta)."""
    n_columns, _, size = design.shape
    precision = _precision(size)
    theta = theta - theta.mean(axis=1, keepdims=True)
    mass, residual, loss = _evaluate(design, target, theta, precision)
    fitted = mass.copy()
    active = np.arange(n_columns)  # columns that still move; the rest is left out
    damping = np.ones(n_columns)
    identity = np.eye(size)
    for _ in range(_MAX_NEWTON_STEPS):
        mean = (design @ mass[:, :, None])[:, :, 0]
        jacobian = (design - mean[:, :, None]) * mass[:, None, :]
        gradient = (residual[:, None, :] @ jacobian)[:, 0] + theta @ precision
        hessian = jacobian.transpose(0, 2, 1) @ jacobian + precision
        hessian += damping[:, None, None] * identity
        moved = theta - np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        new_mass, new_residual, new_loss = _evaluate(design, target, moved, precision)
        better = new_loss < loss
        small = loss - new_loss <= _CONVERGED[0] + _CONVERGED[1] * loss
        moving = ~(better & small) & (damping < _MAX_DAMPING)
        theta = np.where(better[:, None], moved, theta)
        mass = np.where(better[:, None], new_mass, mass)
        residual = np.where(better[:, None], new_residual, residual)
        loss = np.where(better, new_loss, loss)
        damping = np.where(better, damping * 0.3, damping * 5.0)
        fitted[active] = mass
        if not moving.all():
            active, damping, loss = active[moving], damping[moving], loss[moving]
            design, target = design[moving], target[moving]
            theta, mass, residual = theta[moving], mass[moving], residual[moving]
        if len(active) == 0:
            break
    return fitted


def _evaluate(
    design: NDArray[np.float64],
    target: NDArray[np.float64],
    theta: NDArray[np.float64],
    precision: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Give the masses, the residuals and the loss of every column."""
    mass = np.exp(theta - theta.max(axis=1, keepdims=True))
    mass /= mass.sum(axis=1, keepdims=True)
    residual = (design @ mass[:, :, None])[:, :, 0] - target
    loss = 0.5 * (residual**2).sum(axis=1)
    loss += 0.5 * ((theta @ precision) * theta).sum(axis=1)
    return mass, residual, loss


def _precision(size: int) -> NDArray[np.float64]:
    """Precision of the smoothness prior on the log-masses of equal cells."""
    weak = 1e-4 * np.eye(size)
    if size < 4:
        return weak
    differences = np.diff(np.eye(size), n=3, axis=0) * (size / 8) ** 2.5
    return _SMOOTHNESS * differences.T @ differences + weak


def nearest_distribution(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Project noisy counts onto the distributions (Euclidean, after scaling).

    Parameters
    ----------
    counts : ndarray of shape (n_levels,), float64
        Noisy counts; they may be negative.

    Returns
    -------
    shares : ndarray of shape (n_levels,), float64
        Non-negative, with sum 1; uniform when no count is positive.
    """
    total = counts.sum()
    if counts.max(initial=0.0) <= 0:
        return np.full(len(counts), 1.0 / max(len(counts), 1))
    total = max(total, counts.max())
    descending = np.sort(counts)[::-1]
    excess = np.cumsum(descending) - total
    order = np.arange(1, len(counts) + 1)
    last = np.flatnonzero(descending - excess / order > 0)[-1]
    shares = np.maximum(counts - excess[last] / order[last], 0.0)
    return shares / shares.sum()


def shrunk_distributions(
    counts: NDArray[np.float64], noise_stds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Estimate the level shares of each class, drawn towards those of all classes.

    Parameters
    ----------
    counts : ndarray of shape (n_classes, n_levels), float64
        Noisy counts; they may be negative.
    noise_stds : ndarray of shape (n_classes,), float64
        Standard deviation of the noise of one count of each class.

    Returns
    -------
    shares : ndarray of shape (n_classes, n_levels), float64
        Non-negative, every row with sum 1.

    Notes
    -----
    Empirical Bayes: the differences to the pooled shares are kept to the degree
    ``1 - noise / observed`` to which their mean square exceeds that of the noise.
    """
    pooled = nearest_distribution(counts.sum(axis=0))
    shares = np.empty_like(counts)
    for row, (observed, noise_std) in enumerate(zip(counts, noise_stds, strict=True)):
        expected = max(float(observed.sum()), 1.0) * pooled
        energy = float(((observed - expected) ** 2).mean())
        kept = 1.0 if energy <= 0 else max(0.0, 1.0 - noise_std**2 / energy)
        shares[row] = nearest_distribution(expected + kept * (observed - expected))
    return shares
