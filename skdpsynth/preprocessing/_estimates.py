"""From what the rounds of marginals released to marginals: post-processing.

No private data comes here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.preprocessing._density import (
    Histogram,
    fit_smooth,
    fit_spiked,
    shrunk_distributions,
)
from skdpsynth.preprocessing._domains import (
    ColumnDomain,
    LevelDomain,
    NumericDomain,
    is_continuous,
)
from skdpsynth.preprocessing._transforms import MarginalTransform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._classes import Classes
    from skdpsynth.privacy import CentredCounts

    Floats = NDArray[np.float64]

_BETWEEN_CLASSES = 0.3  # how much the share of zeros or missing values may differ
# Rows, in noise deviations of a count, from which a class's shares of a few numbers are
# drawn to those of all. With fewer rows no difference could stand out, and the noise of
# other columns would decide instead.
_POOLED_FROM = 5.0
# Numbers of a bought range so short that its ends are cut off where they may be noise:
# codes. Of more numbers, such as ages, the ends are a thin tail that would be lost.
_CODES = 32
# Share of the rows that stands out in one number where ends are cut off: with more
# noise it hides numbers that many rows have.
_SEEN = 0.02
_WIDE = 120  # numeric columns, from which on densities are smooth
# Noise deviations from which an exact zero is real, and a declared count is not; and
# from which numbers at an end of a bought range are.
_ZERO_FROM, _DECLARED_UNTIL, _END_FROM = 3.0, 3.0, 2.5


@dataclass(frozen=True)
class Counted:
    """A noisy histogram of one numeric column: its bins, and what is in none."""

    histogram: Histogram
    zero: float
    missing: float

    @classmethod
    def of(
        cls, domain: ColumnDomain, edges: Floats, counts: Floats, noise_std: float
    ) -> Counted:
        """Read counts of bins, of zeros where the domain has them, and of missing."""
        n_bins = len(edges) - 1
        rest = counts[n_bins:].tolist()
        missing = rest.pop() if domain.nullable else 0.0
        histogram = Histogram(edges, counts[:n_bins], noise_std)
        return cls(histogram, rest.pop() if rest else 0.0, missing)

    @property
    def total(self) -> float:
        """Number of rows that were counted."""
        return float(self.histogram.counts.sum()) + self.zero + self.missing


@dataclass(frozen=True)
class Round:
    """What one round released of one class."""

    columns: list[int]  # positions of those that were counted
    edges: dict[int, Floats]  # (n_bins + 1,) of each numeric one among them
    released: CentredCounts

    def counts(self, size: float) -> dict[int, Floats]:
        """Give the counts of each column, for a number of rows."""
        return dict(zip(self.columns, self.released.counts(size), strict=True))

    def counted(
        self, domains: Sequence[ColumnDomain], size: float
    ) -> dict[int, Counted]:
        """Give the histograms of the numeric columns, for a number of rows."""
        noise_std = self.released.noise_std
        return {
            j: Counted.of(domains[j], self.edges[j], counts, noise_std)
            for j, counts in self.counts(size).items()
            if j in self.edges
        }


def flat_marginals(
    domains: Sequence[ColumnDomain], n_classes: int, n_cells: int = 1
) -> list[list[MarginalTransform]]:
    """Give the marginals of a fit that measures none: uniform on every domain.

    With more than one cell exact zeros and missing values have a part of their own,
    where a domain allows them, as if they were a quarter each.
    """
    part = 0.25 if n_cells > 1 else 0.0
    columns = []
    for domain in domains:
        missing = part * domain.nullable
        if isinstance(domain, NumericDomain):
            cells = domain.snap(np.linspace(0.0, 1.0, n_cells + 1))
            own = MarginalTransform.numeric(
                domain,
                cells,
                np.diff(cells),
                zero=part * (domain.zero is not None),
                missing=missing,
            )
        else:
            even = np.ones(len(domain.levels))
            own = MarginalTransform.of_levels(domain, even, missing=missing)
        columns.append(own)
    return [list(columns) for _ in range(n_classes)]


def known_sizes(classes: Classes, rounds: list[list[Round]]) -> Floats:
    """Give the number of rows of each class, at least 1, as well as it is known by now.

    Bought counts are averaged by precision with those of the rounds, which counted the
    rows again. Declared ones stay, unless the others surely differ.
    """
    sizes = classes.counts.copy()
    for c, own in enumerate(rounds):
        parts = [part.released for part in own if part.released.size_std < math.inf]
        if not parts:
            continue
        weights = [max(part.size_std, 1e-9) ** -2 for part in parts]
        again = float(np.average([part.size for part in parts], weights=weights))
        change, variance = again - sizes[c], 1.0 / sum(weights)
        if classes.noise_std > 0:
            kept = classes.noise_std**2 / (classes.noise_std**2 + variance)
        else:
            doubt = _DECLARED_UNTIL**2 * variance
            kept = 1.0 - doubt / max(change**2, doubt)
        sizes[c] += kept * change
    return np.maximum(sizes, 1.0)


def estimate(
    domains: Sequence[ColumnDomain],
    classes: Classes,
    rounds: list[list[Round]],
    cells: dict[int, Floats],
) -> list[list[MarginalTransform]]:
    """Turn all noisy counts into marginals, one list of columns per class.

    The last round of each class counted all columns. `cells` are the edges of the final
    density of each numeric column, (n_cells + 1,).
    """
    last = [own[-1] for own in rounds]
    sizes = known_sizes(classes, rounds)
    stds = np.array([part.released.noise_std for part in last])
    levels = [part.counts(size) for part, size in zip(last, sizes, strict=True)]
    counted = [
        [part.counted(domains, size) for part in own]
        for own, size in zip(rounds, sizes, strict=True)
    ]
    parts = {
        j: [[part[j] for part in own if j in part] for own in counted] for j in cells
    }
    atoms = {j: _atoms(domains[j], parts[j]) for j in cells}
    masses = _masses(parts, atoms, cells)
    sure = np.flatnonzero(sizes >= _POOLED_FROM * stds)
    columns = []
    for j, domain in enumerate(domains):
        if isinstance(domain, LevelDomain):
            marginals = _level_marginals(domain, [own[j] for own in levels], stds)
        else:
            if not is_continuous(domain):
                few = _few_numbers([own[-1] for own in parts[j]])
                for c in sure:
                    masses[c][j] = few[c]
            if domain.bought and domain.n_numbers <= _CODES:
                last_parts = [own[-1].histogram for own in parts[j]]
                first, end = _ends(last_parts, cells[j])
                for own, part in zip(masses, last_parts, strict=True):
                    own[j] = _between(own[j], *_own_ends(part, cells[j], first, end))
            marginals = [
                MarginalTransform.numeric(
                    domain, cells[j], own[j], zero=zero, missing=missing
                )
                for own, (zero, missing) in zip(masses, atoms[j].tolist(), strict=True)
            ]
        columns.append(marginals)
    return [list(of_class) for of_class in zip(*columns, strict=True)]


def _masses(
    parts: dict[int, list[list[Counted]]],
    atoms: dict[int, Floats],
    cells: dict[int, Floats],
) -> list[dict[int, Floats]]:
    """Fit the densities of the numeric columns of each class.

    Of many columns what stands out is left in the density: its noise, which differs by
    class in every column, is more than a classifier gains.
    """
    fit = fit_spiked if len(cells) < _WIDE else fit_smooth
    fitted = []
    for c in range(max(map(len, parts.values()), default=0)):
        own = [parts[j][c] for j in cells]
        shares = np.array([1.0 - atoms[j][c].sum() for j in cells])
        totals = np.array([rounds[-1].total for rounds in own]) * shares
        masses = fit(
            [[part.histogram for part in rounds] for rounds in own],
            list(cells.values()),
            np.maximum(totals, 1.0),
        )
        fitted.append(dict(zip(cells, masses, strict=True)))
    return fitted


def _ends(parts: list[Histogram], cells: Floats) -> tuple[int, int]:
    """Find the first cell that has rows of all classes together, and the end of these.

    Beyond, the counts together are no more than noise, of which there is little. A
    range that was bought has such numbers, and codes such as 1 to 5 should have no 0
    and no 6.
    """
    n_cells = len(cells) - 1
    full = [part for part in parts if len(part.counts) == n_cells]
    if not full:  # every class is too small for bins of a number each
        return 0, n_cells
    counts = np.sum([part.counts for part in full], axis=0)
    noise_std = math.sqrt(sum(part.noise_std**2 for part in full))
    if _END_FROM * noise_std > _SEEN * counts.sum():
        return 0, n_cells
    first = _noise_at_end(counts, noise_std)
    end = n_cells - _noise_at_end(counts[::-1], noise_std)
    return (first, end) if first < end else (0, n_cells)


def _own_ends(part: Histogram, cells: Floats, first: int, end: int) -> tuple[int, int]:
    """Add what one class has beyond the ends: a rare one may be where no other is."""
    below = part.counts[part.edges[1:] <= cells[first]]
    n_noise = _noise_at_end(below, part.noise_std)
    if n_noise < len(below):
        first = int(np.searchsorted(cells, part.edges[n_noise]))
    above = part.counts[part.edges[:-1] >= cells[end]][::-1]
    n_noise = _noise_at_end(above, part.noise_std)
    if n_noise < len(above):
        last_edge = part.edges[len(part.counts) - n_noise]
        end = int(np.searchsorted(cells, last_edge))
    return first, end


def _noise_at_end(counts: Floats, noise_std: float) -> int:
    """Count the first bins that together may be noise; all, if nothing stands out."""
    stds = noise_std * np.sqrt(np.arange(1, len(counts) + 1))
    real = np.cumsum(counts) > _END_FROM * stds
    return int(real.argmax()) if real.any() else len(counts)


def _between(masses: Floats, first: int, end: int) -> Floats:
    """Leave the masses of some cells, if there are any."""
    kept = np.zeros_like(masses)
    kept[first:end] = masses[first:end]
    total = float(kept.sum())
    return kept / total if total > 0 else masses


def _few_numbers(counted: list[Counted]) -> Floats:
    """Shares of whole numbers with a bin each in each class, drawn to those of all."""
    counts = np.array([part.histogram.counts for part in counted])
    stds = np.array([part.histogram.noise_std for part in counted])
    return shrunk_distributions(counts, stds * _centred(counts.shape[1]))


def _centred(n_cells: int) -> float:
    """Share of the noise of a count that is left when the mean is taken off."""
    return math.sqrt(1.0 - 1.0 / n_cells)


def _atoms(domain: ColumnDomain, rounds: list[list[Counted]]) -> Floats:
    """Shares of exact zeros and of missing values in each class, shape (n_classes, 2).

    All classes together say whether there are zeros, and draw uncertain shares to them.
    """
    seen, variances = np.empty((len(rounds), 2)), np.empty(len(rounds))
    counts = np.array([parts[-1].total for parts in rounds])
    for c, parts in enumerate(rounds):
        weights = [1.0 / max(part.histogram.noise_std, 0.5) ** 2 for part in parts]
        atoms = [(part.zero, part.missing) for part in parts]
        seen[c] = np.average(atoms, axis=0, weights=weights)
        variances[c] = 1.0 / sum(weights)
    pooled = np.maximum(seen.sum(axis=0), 0.0) / counts.sum()
    pooled /= max(float(pooled.sum()), 1.0)
    precision = counts**2 / variances
    kept = (precision / (precision + 1.0 / _BETWEEN_CLASSES**2))[:, None]
    shares = np.maximum(kept * seen / counts[:, None] + (1.0 - kept) * pooled, 0.0)
    real = seen[:, 0].sum() > _ZERO_FROM * math.sqrt(float(variances.sum()))
    shares[:, 0] *= (
        isinstance(domain, NumericDomain) and domain.zero is not None and real
    )
    shares[:, 1] *= domain.nullable
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0))


def _level_marginals(
    domain: LevelDomain, counts: list[Floats], stds: Floats
) -> list[MarginalTransform]:
    """Marginals of a level column; what is in none is spread over the levels."""
    n_levels = len(domain.levels)
    stacked = np.array(counts)
    if stacked.size == 0:
        return [MarginalTransform.of_levels(domain, np.empty(0)) for _ in counts]
    shares = shrunk_distributions(stacked, stds * _centred(stacked.shape[1]))
    missing = shares[:, n_levels:].sum(axis=1)
    order = _level_order(shares[:, :n_levels], ordered=domain.ordered)
    return [
        MarginalTransform.of_levels(domain, row[:n_levels], missing=gone, order=order)
        for row, gone in zip(shares, missing, strict=True)
    ]


def _level_order(shares: Floats, *, ordered: bool) -> NDArray[np.int64]:
    """Order levels along the direction in which the classes differ most."""
    n_classes, n_levels = shares.shape
    if ordered or n_classes < 2 or n_levels < 3:
        return np.arange(n_levels)
    profile = shares / np.maximum(shares.sum(axis=0, keepdims=True), 1e-12)
    centred = profile - profile.mean(axis=1, keepdims=True)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    return np.argsort(direction, kind="stable")
