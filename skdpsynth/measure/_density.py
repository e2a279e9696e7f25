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

    Floats = NDArray[np.float64]

_SMOOTHNESS = 0.1  # weight of the squared third differences, on cells of 1/8
_SMOOTH_CELLS = 64  # of the smooth density
# In noise deviations: of 10,000 bins of noise alone hardly one passes it.
_SPIKE, _SPIKE_ROUNDS = 5.0, 3
_LEAST_NOISE = 0.5  # counts without noise are rounded
_MAX_NEWTON_STEPS = 100
_CONVERGED = (1e-3, 1e-6)  # gain of a step: absolute, and relative to the loss
_MAX_DAMPING = 1e12


@dataclass(frozen=True)
class Histogram:
    """Noisy counts of one column over intervals of [0, 1]."""

    edges: Floats  # (n_bins + 1,): strictly increasing, from 0 to 1
    counts: Floats  # (n_bins,): they may be negative
    noise_std: float  # of one count

    def overlap(self, cells: Floats) -> Floats:
        """Share of each cell that lies in each bin, shape (n_bins, n_cells)."""
        low = np.maximum(self.edges[:-1, None], cells[None, :-1])
        high = np.minimum(self.edges[1:, None], cells[None, 1:])
        return np.maximum(high - low, 0.0) / np.diff(cells)[None, :]

    def less(self, counts: Floats, edges: Floats) -> Histogram:
        """Take off rows that were counted in other bins."""
        own = self.counts - self.overlap(edges) @ counts
        return Histogram(self.edges, own, self.noise_std)


def fit_masses(
    columns: list[list[Histogram]], cells: list[Floats], totals: Floats
) -> list[Floats]:
    """Fit one smooth distribution per column to its noisy histograms.

    `cells` are the edges of the cells whose masses, positive with sum 1, are wanted;
    `totals`, at least 1, the rows that the histograms count. Maximises ``-sum (n A q -
    h)^2 / (2 s^2) - w |D3 log q|^2 / 2`` over the simplex by damped Newton steps
    (Gauss-Newton in log q), columns with equally many cells at once.
    """
    masses: dict[int, Floats] = {}
    sizes = np.array([len(edges) - 1 for edges in cells])
    for size in np.unique(sizes):
        class_codes = np.flatnonzero(sizes == size)
        rows = max(sum(len(part.counts) for part in columns[m]) for m in class_codes)
        design = np.zeros((len(class_codes), rows, size))
        target = np.zeros((len(class_codes), rows))
        start = np.empty((len(class_codes), size))
        for place, member in enumerate(class_codes):
            parts, total = columns[member], totals[member]
            scale = [1.0 / max(part.noise_std, _LEAST_NOISE) for part in parts]
            overlaps = [part.overlap(cells[member]) for part in parts]
            both = zip(scale, overlaps, strict=True)
            block = np.concatenate([s * total * own for s, own in both])
            counts = [s * p.counts for s, p in zip(scale, parts, strict=True)]
            design[place, : len(block)] = block
            target[place, : len(block)] = np.concatenate(counts)
            start[place] = _first_guess(parts[-1], cells[member], overlaps[-1], total)
        masses |= zip(class_codes.tolist(), _newton(design, target, start), strict=True)
    return [masses[j] for j in range(len(columns))]


def fit_smooth(
    columns: list[list[Histogram]], cells: list[Floats], totals: Floats
) -> list[Floats]:
    """Fit a smooth distribution per column, as `fit_masses`, on fewer cells."""
    thinned = [_thinned(edges) for edges in cells]
    fitted = fit_masses(columns, thinned, totals)
    masses = []
    for mass, coarse, fine in zip(fitted, thinned, cells, strict=True):
        result = np.maximum(_rebinned(mass, coarse, fine), 1e-12)
        masses.append(result / result.sum())
    return masses


def fit_spiked(
    columns: list[list[Histogram]], cells: list[Floats], totals: Floats
) -> list[Floats]:
    """Fit a smooth distribution per column, and what surely stands out of it.

    As `fit_masses`; the last histogram of a column has edges of cells. Numbers that
    people choose, such as 40 hours, are no smooth density. A bin whose count is too
    high for the density by more than `_SPIKE` noise deviations keeps it, and the
    density is fitted to the other rows. Of what the other bins differ, more is kept
    where there are more rows: in a long tail it is noise.
    """
    smooth_cells = [_thinned(edges) for edges in cells]
    excess = [_above_noise(parts[-1]) for parts in columns]
    rounds, rest = list(columns), totals.copy()
    masses: list[Floats] = [np.empty(0)] * len(columns)
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
        _with_spikes(*own)
        for own in zip(columns, rest, masses, smooth_cells, cells, strict=True)
    ]


def _above_noise(part: Histogram) -> Floats:
    """Guess what stands out by medians: a fitted density would rise to a spike."""
    if len(part.counts) < 5:
        return np.zeros(len(part.counts))
    widths = np.diff(part.edges)
    near = sliding_window_view(np.pad(part.counts / widths, 2, mode="reflect"), 5)
    residual = part.counts - np.median(near, axis=1) * widths
    spike = residual > _SPIKE * max(part.noise_std, _LEAST_NOISE)
    return np.where(spike, residual, 0.0)


def _residuals(
    parts: list[Histogram], total: float, mass: Floats, cells: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Give what a density expects in the finest bins, what is beside, and spikes."""
    part = parts[-1]
    expected = total * _rebinned(mass, cells, part.edges)
    residual = part.counts - expected
    return expected, residual, residual > _SPIKE * max(part.noise_std, _LEAST_NOISE)


def _with_spikes(
    parts: list[Histogram], total: float, mass: Floats, smooth: Floats, cells: Floats
) -> Floats:
    """Bring a smooth density to finer cells, with what stands out of it."""
    expected, residual, spike = _residuals(parts, total, mass, smooth)
    noise_std = max(parts[-1].noise_std, _LEAST_NOISE)
    kept = np.where(spike, 1.0, _kept_by_size(residual, expected, ~spike, noise_std))
    shares = nearest_distribution(expected + kept * residual)
    fine = _rebinned(mass, smooth, cells)
    middles = (cells[:-1] + cells[1:]) / 2
    of_bin = np.searchsorted(parts[-1].edges, middles) - 1
    within = np.maximum(np.bincount(of_bin, fine, len(shares)), 1e-300)
    result = np.maximum(fine / within[of_bin] * shares[of_bin], 1e-12)
    return np.asarray(result / result.sum())


def _kept_by_size(
    residual: Floats, expected: Floats, chosen: NDArray[np.bool_], noise_std: float
) -> Floats:
    """Share of each residual that is no noise.

    A density is taken to err by a variance in proportion to the rows, so that
    almost nothing is kept in a long tail.
    """
    energy = float((residual[chosen] ** 2 - noise_std**2).sum())
    real = max(energy, 0.0) * expected / max(float(expected[chosen].sum()), 1e-300)
    return np.asarray(real / (real + noise_std**2))


def _rebinned(mass: Floats, cells: Floats, edges: Floats) -> Floats:
    """Give the masses between `edges` of a density that is even in every cell."""
    below = np.concatenate(([0.0], np.cumsum(mass)))
    return np.diff(np.interp(edges, cells, below))


def _thinned(edges: Floats) -> Floats:
    """Leave `_SMOOTH_CELLS` cells at most, whose edges are some of the given ones."""
    places = np.rint(np.linspace(0, len(edges) - 1, _SMOOTH_CELLS + 1))
    return edges[np.unique(places.astype(np.int64))]


def _first_guess(
    histogram: Histogram, cells: Floats, overlap: Floats, total: float
) -> Floats:
    """Log-masses of the histogram spread evenly in its bins, kept off zero."""
    floor = max(histogram.noise_std, 1e-3 * total / len(cells))
    counts = np.maximum(histogram.counts, floor)
    per_width = counts / np.diff(histogram.edges)
    return np.log(per_width @ overlap * np.diff(cells))


def _newton(design: Floats, target: Floats, theta: Floats) -> Floats:
    """Minimise ``|design q - target|^2 / 2 + penalty`` with q = softmax(theta)."""
    n_columns, size = theta.shape
    # Of the smoothness prior on the log-masses of equal cells.
    differences = np.diff(np.eye(size), n=3, axis=0) * (size / 8) ** 2.5
    precision = _SMOOTHNESS * differences.T @ differences + 1e-4 * np.eye(size)
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
    design: Floats, target: Floats, theta: Floats, precision: Floats
) -> tuple[Floats, Floats, Floats]:
    """Give the masses, the residuals and the loss of every column."""
    mass = np.exp(theta - theta.max(axis=1, keepdims=True))
    mass /= mass.sum(axis=1, keepdims=True)
    residual = (design @ mass[:, :, None])[:, :, 0] - target
    loss = 0.5 * (residual**2).sum(axis=1)
    loss += 0.5 * ((theta @ precision) * theta).sum(axis=1)
    return mass, residual, loss


def nearest_distribution(counts: Floats) -> Floats:
    """Project noisy counts onto the distributions; uniform if none is positive."""
    if counts.max(initial=0.0) <= 0:
        return np.full(len(counts), 1.0 / max(len(counts), 1))
    descending = np.sort(counts)[::-1]
    excess = np.cumsum(descending) - max(counts.sum(), counts.max())
    order = np.arange(1, len(counts) + 1)
    last = np.flatnonzero(descending - excess / order > 0)[-1]
    shares = np.maximum(counts - excess[last] / order[last], 0.0)
    return shares / shares.sum()


def shrunk_distributions(counts: Floats, noise_stds: Floats) -> Floats:
    """Draw shares, (n_classes, n_levels), to those of all classes: empirical Bayes."""
    pooled = nearest_distribution(counts.sum(axis=0))
    shares = np.empty_like(counts)
    for row, (observed, noise_std) in enumerate(zip(counts, noise_stds, strict=True)):
        expected = max(float(observed.sum()), 1.0) * pooled
        beside = observed - expected
        shares[row] = nearest_distribution(expected + _kept(beside, noise_std) * beside)
    return shares


def _kept(differences: Floats, noise_std: float) -> float:
    """Share to which the mean square of differences exceeds that of the noise."""
    energy = float((differences**2).mean()) if len(differences) else 0.0
    return max(0.0, 1.0 - noise_std**2 / energy) if energy > 0 else 0.0
