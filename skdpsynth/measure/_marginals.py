"""Per-class marginals of every column, measured in two rounds of noisy counts.

Round 1 counts coarse bins of the declared or released range. Round 2 has as many bins
as the noisy count of a class can fill, placed at the quantiles of round 1. Both rounds
together give one density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skdpsynth.measure._density import (
    SMOOTH_GRID,
    Histogram,
    fit_masses,
    fit_smooth,
    fit_spiked,
    shrunk_distributions,
)
from skdpsynth.measure._query import Marginals, Measurement, measure_query, n_cells
from skdpsynth.measure._shares import (
    COARSE_BINS,
    COARSE_SHARE,
    LEAST_NOISE,
    LIKELY,
    LITTLE,
    N_CELLS,
    RARE,
    ROWS_FROM,
    SMALL_SHARE,
    SURE,
    TINY,
    WIDE,
)
from skdpsynth.privacy import GRID, centred_sensitivity, grid_noise_std
from skdpsynth.table import (
    CategoryDomain,
    ColumnDomain,
    MarginalTransform,
    NumericDomain,
    is_continuous,
)
from skdpsynth.utils import FEW_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.table import Classes, TableRows

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Counted:
    """A noisy histogram of one numeric column: its bins, and what is in none."""

    histogram: Histogram
    zero: float
    missing: float

    @property
    def total(self) -> float:
        """Number of rows that were counted."""
        return float(self.histogram.counts.sum()) + self.zero + self.missing


# A round of one class: a `Measurement` whose query is `Marginals`.
def counts_of(own: Measurement, size: float) -> dict[int, Floats]:
    """Return the counts of each column of a round, for a number of rows."""
    counts = own.query.counted(own).counts(size)
    return dict(zip(own.query.columns, counts, strict=True))


def histograms(own: Measurement, size: float) -> dict[int, Counted]:
    """Return the histograms of numeric columns of a round, for a number of rows."""
    found, counts = {}, counts_of(own, size)
    for j, edges in own.query.edges.items():
        bins, rest = np.split(counts[j], [len(edges) - 1])
        nullable = own.query.domains[j].nullable
        missing = float(rest[-1]) if nullable else 0.0
        zero = float(rest[0]) if len(rest) > nullable else 0.0
        found[j] = Counted(Histogram(edges, bins, own.noise_std), zero, missing)
    return found


def flat_marginals(
    domains: Sequence[ColumnDomain], n_classes: int, n_cells: int = 1
) -> list[list[MarginalTransform]]:
    """Return the marginals of a fit that measures none: uniform on every domain.

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
            even = np.ones(len(domain.categories))
            own = MarginalTransform.of_categories(domain, even, missing=missing)
        columns.append(own)
    return [list(columns) for _ in range(n_classes)]


def known_sizes(classes: Classes, rounds: list[list[Measurement]]) -> Floats:
    """Return the number of rows of each class, at least 1, as well as it is known.

    Where it is declared, the rounds counted the rows too. It stays, unless these
    numbers, averaged by precision, surely differ.
    """
    sizes = classes.counts.copy()
    for c, own in enumerate(rounds):
        released = [part.query.counted(part) for part in own]
        parts = [part for part in released if part.size_std < math.inf]
        if not parts:
            continue
        weights = [max(part.size_std, TINY) ** -2 for part in parts]
        again = float(np.average([part.size for part in parts], weights=weights))
        change, doubt = again - sizes[c], LIKELY**2 / sum(weights)
        sizes[c] += change * (1.0 - doubt / max(change**2, doubt))
    return np.maximum(sizes, 1.0)


def estimate(
    domains: Sequence[ColumnDomain],
    classes: Classes,
    rounds: list[list[Measurement]],
    cells: Mapping[int, Floats],
) -> list[list[MarginalTransform]]:
    """Turn all noisy counts into marginals, one list of columns per class.

    The last round of each class counted all columns. `cells` are the edges of the final
    density of each numeric column, (n_cells + 1,).
    """
    last = [own[-1] for own in rounds]
    sizes = known_sizes(classes, rounds)
    stds = np.array([part.noise_std for part in last])
    counts = [counts_of(part, size) for part, size in zip(last, sizes, strict=True)]
    of_rounds = [
        [histograms(part, size) for part in own]
        for own, size in zip(rounds, sizes, strict=True)
    ]
    parts = {
        j: [[part[j] for part in own if j in part] for own in of_rounds] for j in cells
    }
    atoms = {j: _atoms(domains[j], parts[j]) for j in cells}
    masses = _masses(parts, atoms, cells)
    for j in cells:
        present = sizes * (1.0 - atoms[j].sum(axis=1))
        own = [of_class[j] for of_class in masses]
        own = _with_frequent(domains[j], parts[j], own, cells[j], present, sizes.sum())
        for of_class, mass in zip(masses, own, strict=True):
            of_class[j] = mass
    # Of fewer rows no difference of a class could be above the noise, and the noise of
    # other columns would decide instead.
    sure = np.flatnonzero(sizes >= SURE * stds).tolist()
    columns = []
    for j, domain in enumerate(domains):
        if isinstance(domain, CategoryDomain):
            own = [of_class[j] for of_class in counts]
            columns.append(_category_marginals(domain, own, stds))
            continue
        of_column = [of_class[j] for of_class in masses]
        finest = [own[-1].histogram for own in parts[j]]
        if not is_continuous(domain):
            few = _shrunk(np.array([part.counts for part in finest]), stds)
            for c in sure:
                of_column[c] = few[c]
        # Codes: of more numbers, such as ages, the ends are a thin tail that would be
        # lost.
        if domain.released and domain.n_numbers <= FEW_NUMBERS:
            ends = _ends(finest, cells[j])
            for c, part in enumerate(finest):
                own_ends = _own_ends(part, cells[j], *ends)
                of_column[c] = _between(of_column[c], *own_ends)
        columns.append(
            [
                MarginalTransform.numeric(
                    domain, cells[j], own, zero=zero, missing=missing
                )
                for own, (zero, missing) in zip(
                    of_column, atoms[j].tolist(), strict=True
                )
            ]
        )
    return [list(of_class) for of_class in zip(*columns, strict=True)]


def _masses(
    parts: dict[int, list[list[Counted]]],
    atoms: dict[int, Floats],
    cells: Mapping[int, Floats],
) -> list[dict[int, Floats]]:
    """Fit the densities of the numeric columns of each class."""
    # Of a wide table spikes of noise, which differ by class in every column, cost a
    # classifier more than real ones help it.
    fit = fit_spiked if len(cells) < WIDE else fit_smooth
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


def _with_frequent(
    domain: ColumnDomain,
    rounds: list[list[Counted]],
    masses: list[Floats],
    cells: Floats,
    sizes: Floats,
    n_rows: float,
) -> list[Floats]:
    """Move mass to frequent values, inside the finest bins of each class.

    `masses` are those of the cells in each class, `sizes` (n_classes,) the rows that
    are in some cell, of `n_rows` in all. All classes together say which share of a bin
    its frequent values have; the first pass corrects what wide bins of small classes
    blur, the second uses it.
    """
    if not isinstance(domain, NumericDomain) or not domain.frequent:
        return masses
    rows = _on_values(domain, cells) * n_rows
    middles = (cells[:-1] + cells[1:]) / 2
    found = masses
    for _ in range(2):
        pooled = sizes @ np.array(found)
        found = []
        for parts, mass in zip(rounds, masses, strict=True):
            edges = parts[-1].histogram.edges
            of_bin = np.searchsorted(edges, middles) - 1
            found.append(_moved(mass, rows, pooled, of_bin, len(edges) - 1))
    return found


def _moved(
    mass: Floats, rows: Floats, pooled: Floats, of_bin: NDArray[np.intp], n_bins: int
) -> Floats:
    """Return cells of frequent values their part of the mass of each bin, (n_cells,).

    `rows` are those of the frequent values in all classes, `pooled` of all values.
    """
    others = np.where(rows > 0, 0.0, mass)
    parts = (mass, rows, pooled, others)
    in_bin, on, of_all, off = (np.bincount(of_bin, part, n_bins) for part in parts)
    share = np.where(off > 0, np.minimum(on / np.maximum(of_all, 1e-300), 1.0), 1.0)
    own = share[of_bin] * rows / np.maximum(on, 1e-300)[of_bin]
    own += (1.0 - share[of_bin]) * others / np.maximum(off, 1e-300)[of_bin]
    return np.where(on[of_bin] > 0, own * in_bin[of_bin], mass)


def _on_values(domain: NumericDomain, cells: Floats) -> Floats:
    """Return the share of all rows that have the frequent value in each cell."""
    (begins, _), shares = domain.frequent_cells()
    own = np.searchsorted(cells, begins, side="right") - 1
    return np.asarray(np.bincount(own, shares, len(cells) - 1), dtype=np.float64)


def _ends(parts: list[Histogram], cells: Floats) -> tuple[int, int]:
    """Find the first cell that has rows of all classes together, and the end of these.

    Beyond, the counts together are no more than noise, of which there is little. A
    released range has such numbers, and codes such as 1 to 5 should have no 0 and no 6.
    """
    n_cells = len(cells) - 1
    full = [part for part in parts if len(part.counts) == n_cells]
    if not full:  # every class is too small for bins of a number each
        return 0, n_cells
    counts = np.sum([part.counts for part in full], axis=0)
    noise_std = math.sqrt(sum(part.noise_std**2 for part in full))
    # With more noise numbers that many rows have would be lost.
    if LIKELY * noise_std > RARE * counts.sum():
        return 0, n_cells
    first = _noise_at_end(counts, noise_std, LIKELY)
    end = n_cells - _noise_at_end(counts[::-1], noise_std, LIKELY)
    return (first, end) if first < end else (0, n_cells)


def _own_ends(part: Histogram, cells: Floats, first: int, end: int) -> tuple[int, int]:
    """Add what one class has beyond the ends: a rare one may be where no other is."""
    below = part.counts[part.edges[1:] <= cells[first]]
    above = part.counts[part.edges[:-1] >= cells[end]][::-1]
    if (n_noise := _noise_at_end(below, part.noise_std, LIKELY)) < len(below):
        first = int(np.searchsorted(cells, part.edges[n_noise]))
    if (n_noise := _noise_at_end(above, part.noise_std, LIKELY)) < len(above):
        end = int(np.searchsorted(cells, part.edges[-1 - n_noise]))
    return first, end


def _noise_at_end(counts: Floats, noise_std: float, least: float) -> int:
    """Count the first bins that together may be noise; all, if none is above it.

    Above noise are sums that exceed `least` of their noise deviations.
    """
    stds = noise_std * np.sqrt(np.arange(1, len(counts) + 1))
    real = np.cumsum(counts) > least * stds
    return int(real.argmax()) if real.any() else len(counts)


def _between(masses: Floats, first: int, end: int) -> Floats:
    """Leave the masses of some cells, if there are any."""
    kept = np.zeros_like(masses)
    kept[first:end] = masses[first:end]
    total = float(kept.sum())
    return kept / total if total > 0 else masses


def _shrunk(counts: Floats, stds: Floats) -> Floats:
    """Draw shares to those of all classes; the mean is taken off counts, and noise."""
    return shrunk_distributions(counts, stds * math.sqrt(1.0 - 1.0 / counts.shape[1]))


def _atoms(domain: ColumnDomain, rounds: list[list[Counted]]) -> Floats:
    """Shares of exact zeros and of missing values in each class, shape (n_classes, 2).

    All classes together say whether there are zeros, and draw uncertain shares to them.
    """
    noisy, variances = np.empty((len(rounds), 2)), np.empty(len(rounds))
    counts = np.array([parts[-1].total for parts in rounds])
    for c, parts in enumerate(rounds):
        weights = [
            1.0 / max(part.histogram.noise_std, LEAST_NOISE) ** 2 for part in parts
        ]
        atoms = [(part.zero, part.missing) for part in parts]
        noisy[c] = np.average(atoms, axis=0, weights=weights)
        variances[c] = 1.0 / sum(weights)
    real = noisy[:, 0].sum() > LIKELY * math.sqrt(float(variances.sum()))
    noisy[:, 0] *= real and getattr(domain, "zero", None) is not None
    noisy[:, 1] *= domain.nullable
    every = np.column_stack((noisy, counts - noisy.sum(axis=1)))
    return shrunk_distributions(every, np.sqrt(variances))[:, :2]


def _category_marginals(
    domain: CategoryDomain, counts: list[Floats], stds: Floats
) -> list[MarginalTransform]:
    """Marginals of categories; rows of none of them are spread over all."""
    n_categories = len(domain.categories)
    stacked = np.array(counts)
    if stacked.size == 0:
        return [MarginalTransform.of_categories(domain, np.empty(0)) for _ in counts]
    shares = _shrunk(stacked, stds)
    missing = shares[:, n_categories:].sum(axis=1)
    shares = shares[:, :n_categories]
    order = _category_order(shares, ordered=domain.ordered)
    return [
        MarginalTransform.of_categories(domain, row, missing=own, order=order)
        for row, own in zip(shares, missing, strict=True)
    ]


def _category_order(shares: Floats, *, ordered: bool) -> NDArray[np.int64]:
    """Order categories along the direction in which the classes differ most."""
    n_classes, n_categories = shares.shape
    if ordered or n_classes < 2 or n_categories < 3:
        return np.arange(n_categories)
    profile = shares / np.maximum(shares.sum(axis=0, keepdims=True), TINY)
    centred = profile - profile.mean(axis=1, keepdims=True)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    return np.argsort(direction, kind="stable")


# Weights of what is even, where round 1 may be wrong: in the edges of cells, and of
# bins of round 2. With .3 or .5 for both the 3-way distance of Diamonds rose by .003
# (epsilon 1).
_WARP, _SPREAD = 0.5, 0.3


def coarse_share(largest: float, n_continuous: int, n_columns: int, mu: float) -> float:
    """Share of the squared mu of the marginals of a class that round 1 gets.

    0 where even the largest class of the table could fill only a few bins.
    """
    n_columns = max(n_columns, 1)
    if largest * mu < ROWS_FROM * math.sqrt(n_columns):
        return 0.0
    return COARSE_SHARE * n_continuous / n_columns


def bins_for(count: float, noise_std: float, *, coarse: bool) -> int:
    """Choose the bins per numeric column that so many rows can fill against noise."""
    low, high = COARSE_BINS if coarse else (COARSE_BINS[0], N_CELLS)
    rows_per_bin = max((1.0 if coarse else 2.0) * noise_std, 1.0)
    return int(np.clip(count / rows_per_bin, low, high))


def fine_plan(
    domains: Sequence[ColumnDomain | None], n_rows: float, mu: float
) -> tuple[int, float]:
    """Plan round 2 of one class; a domain is None for categories not known yet.

    The result is the number of bins of each numeric column (empty ones beyond what
    round 1 found are left out later), and the noise of a count at most. To check
    declared numbers of rows adds 1 % to it.
    """

    def planned(n_bins: int) -> float:
        return _count_noise([_most_cells(domain, n_bins) for domain in domains], mu)

    n_bins = bins_for(n_rows, planned(N_CELLS), coarse=False)
    return n_bins, planned(n_bins)


def _count_noise(n_cells: Sequence[int], mu: float) -> float:
    """Noise of a count before the mean is taken off, in rows."""
    return grid_noise_std(mu, centred_sensitivity(n_cells)) / GRID


def _most_cells(domain: ColumnDomain | None, n_bins: int) -> int:
    """Return the most cells that a column can have if continuous ones have `n_bins`."""
    if domain is None:
        return GRID
    if isinstance(domain, NumericDomain) and not is_continuous(domain):
        n_bins = int(domain.high - domain.low) + 1
    return n_cells(domain, n_bins)


def measure_marginals(
    rows: TableRows,
    domains: Sequence[ColumnDomain],
    classes: Classes,
    accountant: PrivacyAccountant,
    *,
    mus: Floats,
    again: Sequence[Marginals] | None = None,
) -> tuple[list[list[Measurement]], dict[int, Floats]]:
    """Measure the distribution of every column in every class, in two rounds.

    `mus` (n_classes,) are for both rounds together. Classes compose in parallel: a row
    is in one class. The result are the rounds of every class, and the edges of the
    cells of each numeric column, which `estimate` turns into marginals: none if `again`
    has the queries of the last round of each class of another table, which are the only
    round then.
    """
    continuous = [j for j, domain in enumerate(domains) if is_continuous(domain)]
    numbers = {j: a for j, a in enumerate(domains) if isinstance(a, NumericDomain)}
    # The largest class decides; rows without a label count as one.
    table = float(classes.planned.max()), len(continuous), len(domains)
    shares = [coarse_share(*table, float(mu)) for mu in mus]
    rounds: list[list[Measurement]] = [[] for _ in shares]

    def measure(
        c: int,
        columns: Sequence[int],
        edges: dict[int, Floats],
        mu: float,
        *,
        coarse: bool = False,
    ) -> None:
        query = Marginals(domains, tuple(columns), edges, coarse=coarse)
        if classes.noise_stds[c] == 0:  # a number of rows that is declared
            spread = sum(1.0 - 1.0 / max(n, 1) for n in query.n_cells)
            query = replace(query, size_weight=math.sqrt(SMALL_SHARE * spread))
        own, scope = rows.parts_of_class(classes.codes[c]), classes.scopes[c]
        rounds[c].append(measure_query(query, own, accountant, mu=mu, scope=scope))

    if again is not None:
        for c, query in enumerate(again):
            measure(c, query.columns, query.opened, float(mus[c]))
        return rounds, {}
    for c, share in enumerate(shares):
        if share == 0:
            continue
        mu = float(mus[c]) * math.sqrt(share)
        most_cells = [n_cells(domains[j], COARSE_BINS[1]) for j in continuous]
        noise_std = _count_noise(most_cells, mu)
        n_bins = bins_for(classes.planned[c], noise_std, coarse=True)
        edges = {j: numbers[j].snap(np.linspace(0, 1, n_bins + 1)) for j in continuous}
        measure(c, continuous, edges, mu, coarse=True)
    coarse: list[dict[int, Counted]] = [
        histograms(own[0], size) if own else {}
        for own, size in zip(rounds, known_sizes(classes, rounds), strict=True)
    ]
    cdfs = _coarse_cdfs(coarse, list(numbers))
    cells = {}
    for j, domain in numbers.items():
        found = [own[j] for own in coarse if j in own]
        # Of a class without round 1 it is not known where its rows are.
        parts = [own.histogram for own in found] if all(coarse) else []
        support = _support(parts)
        cells[j] = _warped_cells(domain, [own[j] for own in cdfs], support)
        for own in cdfs:
            own[j] = _cdf_at(cells[j], own[j], domain, _present_share(found))
    for c, share in enumerate(shares):
        mu = float(mus[c]) * math.sqrt(1.0 - share)
        n_bins, _ = fine_plan(domains, classes.planned[c], mu)
        edges = {j: _quantile_edges(cdfs[c][j], cells[j], n_bins) for j in continuous}
        edges |= {j: cells[j] for j in numbers if j not in continuous}  # a number each
        measure(c, range(len(domains)), edges, mu)
    return rounds, cells


def opened(domain: ColumnDomain, cells: Floats) -> Floats:
    """Add cells up to the ends of a range: another table may have rows there."""
    assert isinstance(domain, NumericDomain)
    low = np.linspace(0.0, cells[0], COARSE_BINS[1] + 1)
    high = np.linspace(cells[-1], 1.0, COARSE_BINS[1] + 1)
    return domain.snap(np.unique(np.concatenate([low, cells, high])))


def _coarse_cdfs(
    coarse: list[dict[int, Counted]], columns: list[int]
) -> list[dict[int, Floats]]:
    """Return the distribution functions of round 1 at `SMOOTH_GRID`, or even ones."""
    evenly, found = dict.fromkeys(columns, SMOOTH_GRID), []
    for counted in coarse:
        histograms = [part.histogram for part in counted.values()]
        totals = np.array([max(float(part.counts.sum()), 1.0) for part in histograms])
        cells = [SMOOTH_GRID] * len(histograms)
        masses = fit_masses([[part] for part in histograms], cells, totals)
        cdfs = [np.concatenate(([0.0], np.cumsum(mass))) for mass in masses]
        found.append(evenly | dict(zip(counted, cdfs, strict=True)))
    return found


def _support(parts: list[Histogram]) -> tuple[float, float]:
    """Find where round 1 found rows of any class: beyond, a density would fit noise."""
    low, high = [], []
    # Where one bin alone had to be above the noise, half of the rows of columns with
    # two modes were cut off: on Epileptic seizure at epsilon 0.5 the error of tables of
    # two columns was 0.44, so 0.21.
    for part in parts:
        n_bins = len(part.counts)
        first = _noise_at_end(part.counts, part.noise_std, LIKELY)
        if first == n_bins:
            continue
        last = n_bins - 1 - _noise_at_end(part.counts[::-1], part.noise_std, LIKELY)
        if first > last:  # rows may be anywhere
            first, last = 0, n_bins - 1
        # With the next bin of noise: half of a small class may be beyond the rows of
        # the large one.
        noise = np.flatnonzero(part.counts <= LIKELY * part.noise_std)
        low.append(float(part.edges[max(noise[noise < first], default=0)]))
        last = min(noise[noise > last], default=n_bins - 1)
        high.append(float(part.edges[last + 1]))
    return min(low, default=0.0), max(high, default=1.0)


def _warped_cells(
    domain: NumericDomain, cdfs: list[Floats], support: tuple[float, float]
) -> Floats:
    """Place the cells of a column: narrow where any class has many rows."""
    low, high = support
    if domain.frequent:
        (begins, ends), _ = domain.frequent_cells()
        low, high = min(low, begins[0]), max(high, ends[-1])
    grid = np.linspace(low, high, 2 * N_CELLS + 1)
    pooled = np.interp(grid, SMOOTH_GRID, np.mean(cdfs, axis=0))
    pooled = (pooled - pooled[0]) / max(pooled[-1] - pooled[0], TINY)
    weight = LITTLE if domain.quantile else _WARP
    warped = (1 - weight) * pooled + weight * np.linspace(0.0, 1.0, len(grid))
    cells = domain.snap(np.interp(np.linspace(0.0, 1.0, N_CELLS + 1), warped, grid))
    inner = cells[(cells > low + 1e-9) & (cells < high - 1e-9)]
    if domain.frequent:
        place = np.searchsorted(begins, inner, side="right") - 1
        inside = (place >= 0) & (inner > begins[place]) & (inner < ends[place])
        own = np.concatenate((inner[~inside], begins, ends))
        inner = np.unique(own[(own > low) & (own < high)])
    return np.concatenate(([low], inner, [high]))


def _present_share(counted: list[Counted]) -> float:
    """Return the share of rows that are neither zero nor missing, by round 1."""
    present = sum(float(own.histogram.counts.sum()) for own in counted)
    share = present / max(sum(own.total for own in counted), 1.0)
    return min(max(share, RARE), 1.0) if counted else 1.0


def _cdf_at(
    cells: Floats, cdf: Floats, domain: NumericDomain, present: float = 1.0
) -> Floats:
    """Return round 1's distribution function at edges of cells, with what is known.

    Frequent values have their share of all rows, of which so many are `present`; round
    1 says how the others lie.
    """
    below = np.interp(cells, SMOOTH_GRID, cdf)
    if not domain.frequent:
        return below
    on_values = _on_values(domain, cells) / present
    rest = np.where(on_values > 0, 0.0, np.diff(below))
    rest *= max(1.0 - on_values.sum(), 0.0) / max(rest.sum(), TINY)
    return np.concatenate(([0.0], np.cumsum(rest + on_values)))


def _quantile_edges(cdf: Floats, cells: Floats, n_bins: int) -> Floats:
    """Choose bins of round 2: unions of cells with about equal expected counts.

    `cdf` is the distribution function at the edges of the cells.
    """
    if n_bins >= len(cells) - 1:
        return cells
    share = (cdf - cdf[0]) / max(cdf[-1] - cdf[0], TINY)
    mixed = (1 - _SPREAD) * share + _SPREAD * np.linspace(0.0, 1.0, len(cells))
    inner = np.searchsorted(mixed, np.linspace(0.0, 1.0, n_bins + 1)[1:-1])
    last = len(cells) - 1
    chosen = np.unique(np.concatenate(([0], np.minimum(inner, last), [last])))
    return cells[chosen]
