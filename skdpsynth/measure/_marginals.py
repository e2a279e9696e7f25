"""Per-class marginals of every column, measured in two rounds of noisy counts.

Round 1 counts coarse bins of the declared or released range. Round 2 has as many bins
as the noisy count of a class can fill, placed at the quantiles of round 1. Both rounds
together give one density.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from skdpsynth.measure._bins import TableBins, choose_bins
from skdpsynth.measure._density import (
    SMOOTH_GRID,
    Histogram,
    fit_densities,
    fit_masses,
    shrunk_distributions,
)
from skdpsynth.measure._outer_bins import likely_bins
from skdpsynth.measure._query import Ask, Marginals, Measurement, n_cells
from skdpsynth.measure._shares import (
    COARSE_BINS,
    COARSE_SHARE,
    LEAST_NOISE,
    LIKELY,
    LITTLE,
    N_CELLS,
    QUARTER,
    RARE,
    ROWS_FROM,
    SMALL_SHARE,
    SMALLEST,
    SURE,
    TINY,
    WIDE,
)
from skdpsynth.privacy import GRID, grid_noise_std
from skdpsynth.privacy.statistics import centred_sensitivity
from skdpsynth.table import (
    MISSING,
    CategoryDomain,
    Classes,
    ColumnDomain,
    MarginalTransform,
    Metadata,
    NumericDomain,
    is_continuous,
)
from skdpsynth.utils import FEW_NUMBERS
from skdpsynth.utils.arrays import Floats


# A round of one class: its `Measurement`, whose query is `Marginals`.
def histograms(answer: Measurement, size: float) -> dict[int, Histogram]:
    """Return the histograms of numeric columns of a round, for a number of rows."""
    query, (noise_std,), of_columns = answer.query, answer.noise_std.tolist(), {}
    counts = query.counts(answer, size)
    for j, edges in query.edges.items():
        bins, rest = np.split(counts[j], [len(edges) - 1])
        own, nullable = rest.tolist(), query.domains[j].nullable
        missing = own.pop() if nullable else 0.0
        found = Histogram(edges, bins, noise_std, (*(own or [0.0]), missing))
        inside = min(found.total * QUARTER, noise_std * ROWS_FROM)
        of_columns[j] = replace(found, thin=bool(bins.sum() < inside))
    return of_columns


def flat_marginals(
    domains: Sequence[ColumnDomain], n_classes: int, n_cells: int = 1
) -> list[list[MarginalTransform]]:
    """Return the marginals of a fit that measures none: uniform on every domain.

    With more than one cell exact zeros and missing values have a part of their own,
    where a domain allows them, as if they were a quarter each.
    """
    part, row = 0.25 if n_cells > 1 else 0.0, []
    for domain in domains:
        missing = part * domain.nullable
        if isinstance(domain, CategoryDomain):
            even = np.ones(len(domain.categories))
            row.append(MarginalTransform.of_categories(domain, even, missing=missing))
        else:
            cells = domain.snap(np.linspace(0.0, 1.0, n_cells + 1))
            own = [part / max(len(domain.own), 1)] * len(domain.own)
            given = domain, cells, np.diff(cells)
            row.append(MarginalTransform.numeric(*given, own=own, missing=missing))
    return [list(row) for _ in range(n_classes)]


def even_bins(
    metadata: Metadata, n_cells: int
) -> tuple[TableBins, list[list[MarginalTransform]]]:
    """Return bins about as wide of all columns, and uniform marginals, by class."""
    domains, classes = metadata.domains, metadata.classes
    flat = flat_marginals(domains, len(classes), n_cells)
    return choose_bins(domains, flat, classes.prior, n_cells)


def known_sizes(classes: Classes, rounds: list[list[Measurement]]) -> Floats:
    """Return the number of rows of each class, at least 1, as well as it is known.

    Where it is declared, the rounds counted the rows too. It stays, unless these
    numbers, averaged by precision, surely differ.
    """
    sizes = classes.counts.copy()
    for c, answers in enumerate(rounds):
        counted = [answer.query.counted(answer) for answer in answers]
        sized = [counts for counts in counted if counts.size_std < math.inf]
        if not sized:
            continue
        weights = [max(counts.size_std, TINY) ** -2 for counts in sized]
        again = float(np.average([counts.size for counts in sized], weights=weights))
        change, doubt = again - sizes[c], LIKELY**2 / sum(weights)
        sizes[c] += change * (1.0 - doubt / max(change**2, doubt))
    return np.maximum(sizes, 1.0)


def estimate(
    domains: Sequence[ColumnDomain],
    sizes: Floats,
    rounds: list[list[Measurement]],
    cells: Mapping[int, Floats],
) -> list[list[MarginalTransform]]:
    """Turn all noisy counts into marginals, one list of columns per class.

    The last round of each class counted all columns. `cells` are the edges of the final
    density of each numeric column, (n_cells + 1,), `sizes` the rows of each class.
    """
    stds = np.concatenate([answers[-1].noise_std for answers in rounds])
    counted = [
        [histograms(answer, size) for answer in answers]
        for answers, size in zip(rounds, sizes, strict=True)
    ]
    # Of each numeric column the histograms of each class, and what is in none of them.
    parts = {
        j: [[part[j] for part in of_class if j in part] for of_class in counted]
        for j in cells
    }
    atoms = {j: _atoms(domains[j], parts[j]) for j in cells}
    # Of a wide table spikes of noise, which differ by class in every column, cost a
    # classifier more than real ones help it.
    spiked = len(cells) < WIDE
    masses, grids = [], [*cells.values()]
    for c in range(len(rounds)):
        of_class = [parts[j][c] for j in cells]
        totals = [
            histogram[-1].total * (1.0 - atoms[j][c].sum())
            for j, histogram in zip(cells, of_class, strict=True)
        ]
        if len(rounds) == 1:
            of_class = [
                _with_outer(domains[j], own, float(sizes[c]))
                for j, own in zip(cells, of_class, strict=True)
            ]
        rows = np.maximum(totals, 1.0)
        masses.append(fit_densities(of_class, grids, rows, spiked=spiked))
    of_columns = dict(zip(cells, map(np.array, zip(*masses, strict=True)), strict=True))
    last = [
        own.query.counts(own, n) for (*_, own), n in zip(rounds, sizes, strict=True)
    ]
    columns = []
    for j, domain in enumerate(domains):
        if isinstance(domain, CategoryDomain):
            counts = np.array([of_class[j] for of_class in last])
            columns.append(_category_marginals(domain, counts, stds))
            continue
        finest, edges, shares = [own[-1] for own in parts[j]], cells[j], of_columns[j]
        if domain.frequent:
            present = sizes * (1.0 - atoms[j].sum(axis=1))
            rows = _on_values(domain, edges) * sizes.sum()
            shares = _with_frequent(rows, finest, shares, edges, present)
        if not is_continuous(domain):
            # Of fewer rows no difference of a class could be above the noise, and the
            # noise of other columns would decide instead.
            sure = (sizes >= SURE * stds)[:, None]
            few = _shrunk(np.array([part.counts for part in finest]), stds)
            shares = np.where(sure, few, shares)
        # Codes: of more numbers, such as ages, the ends are a thin tail that would be
        # lost.
        if domain.released and domain.n_numbers <= FEW_NUMBERS:
            shares = _without_ends(finest, edges, shares)
        beside = [{"own": own, "missing": gone} for *own, gone in atoms[j].tolist()]
        columns.append(
            [
                MarginalTransform.numeric(domain, edges, of_class, **rest)
                for of_class, rest in zip(shares, beside, strict=True)
            ]
        )
    return [list(of_class) for of_class in zip(*columns, strict=True)]


def _with_frequent(
    rows: Floats, finest: list[Histogram], masses: Floats, cells: Floats, sizes: Floats
) -> Floats:
    """Move mass to frequent values, inside the finest bins of each class.

    `rows` of all classes have the frequent value of each cell. `masses` are those of
    the cells in each class, `sizes` (n_classes,) the rows that are in some cell. All
    classes together say which share of a bin its frequent values have; the first pass
    corrects what wide bins of small classes blur, the second uses it.
    """
    middles, moved = (cells[:-1] + cells[1:]) / 2, masses
    for _ in range(2):
        pooled, moved = sizes @ moved, np.empty_like(masses)
        for c, (part, mass) in enumerate(zip(finest, masses, strict=True)):
            of_bin = np.searchsorted(part.edges, middles) - 1
            others = np.where(rows > 0, 0.0, mass)
            in_bin, on, of_all, off = (
                np.bincount(of_bin, of_cells, len(part.counts))
                for of_cells in (mass, rows, pooled, others)
            )
            share = np.minimum(on / np.maximum(of_all, SMALLEST), 1.0)
            share = np.where(off > 0, share, 1.0)
            within = share[of_bin] * rows / np.maximum(on, SMALLEST)[of_bin]
            beside = (1.0 - share[of_bin]) * others
            within += beside / np.maximum(off, SMALLEST)[of_bin]
            moved[c] = np.where(on[of_bin] > 0, within * in_bin[of_bin], mass)
    return moved


def _with_outer(
    domain: ColumnDomain, parts: list[Histogram], n_rows: float
) -> list[Histogram]:
    """Add what the release of a range says of few rows, if it is of the same table."""
    assert isinstance(domain, NumericDomain)
    # Sums of sites and tables whose ranges are those of another have one round.
    if not (domain.outer and parts[-1].thin and len(parts) > 1):
        return parts
    ends, shares = np.array(domain.outer).T
    edges = np.array([domain.span(end, math.inf)[0] for end in ends])
    if not (wide := np.diff(edges) > 0).any():
        return parts
    edges = np.append(edges[:-1][wide], edges[-1])
    return [Histogram(edges, shares[:-1][wide] * n_rows, shares[-1] * n_rows), *parts]


def _on_values(domain: NumericDomain, cells: Floats) -> Floats:
    """Return the share of all rows that have the frequent value in each cell."""
    (begins, _), shares = domain.frequent_cells()
    places = np.searchsorted(cells, begins, side="right") - 1
    return np.asarray(np.bincount(places, shares, len(cells) - 1), dtype=np.float64)


def _without_ends(parts: list[Histogram], cells: Floats, masses: Floats) -> Floats:
    """Leave the cells between the first and the last that have rows.

    Beyond, the counts of all classes together are no more than noise, of which there is
    little. A released range has such numbers, and codes such as 1 to 5 should have no 0
    and no 6.
    """
    first, end = 0, len(cells) - 1
    # None, if every class is too small for bins of a number each.
    full = [part for part in parts if len(part.counts) == end]
    counts = np.sum([part.counts for part in full], axis=0) if full else np.zeros(1)
    noise_std = math.sqrt(sum(part.noise_std**2 for part in full))
    # With more noise numbers that many rows have would be lost.
    if full and LIKELY * noise_std <= RARE * counts.sum():
        n_below = _noise_at_end(counts, noise_std)
        n_above = _noise_at_end(counts[::-1], noise_std)
        if n_below < end - n_above:
            first, end = n_below, end - n_above
    left = np.zeros_like(masses)
    for part, mass, inside in zip(parts, masses, left, strict=True):
        # A rare class may be where no other is.
        below = part.counts[part.edges[1:] <= cells[first]]
        above = part.counts[part.edges[:-1] >= cells[end]][::-1]
        n_below, n_above = (
            _noise_at_end(beyond, part.noise_std) for beyond in (below, above)
        )
        start, stop = first, end
        if n_below < len(below):
            start = int(np.searchsorted(cells, part.edges[n_below]))
        if n_above < len(above):
            stop = int(np.searchsorted(cells, part.edges[-1 - n_above]))
        inside[start:stop] = mass[start:stop]
        total = float(inside.sum())
        inside[:] = inside / total if total > 0 else mass
    return left


def _noise_at_end(counts: Floats, noise_std: float) -> int:
    """Count the first bins that may be noise, together and alone; all, if all may."""
    stds = noise_std * np.sqrt(np.arange(1, len(counts) + 1))
    # Negative noise of the others must not hide a bin that surely has rows.
    real = (np.cumsum(counts) > LIKELY * stds) | (counts > SURE * noise_std)
    return int(real.argmax()) if real.any() else len(counts)


def _shrunk(counts: Floats, stds: Floats) -> Floats:
    """Draw shares to those of all classes; the mean is taken off counts, and noise."""
    return shrunk_distributions(counts, stds * math.sqrt(1.0 - 1.0 / counts.shape[1]))


def _atoms(domain: ColumnDomain, rounds: list[list[Histogram]]) -> Floats:
    """Shares of what is beside the histograms of each class, (n_classes, n_beside).

    All classes together say whether there are such values, and draw uncertain shares to
    those of all.
    """
    noisy, variances = [], np.empty(len(rounds))
    counts = np.array([parts[-1].total for parts in rounds])
    for c, parts in enumerate(rounds):
        weights = [1.0 / max(part.noise_std, LEAST_NOISE) ** 2 for part in parts]
        beside = [part.beside for part in parts]
        noisy.append(np.average(beside, axis=0, weights=weights))
        variances[c] = 1.0 / sum(weights)
    own = np.array(noisy)
    real = own.sum(axis=0) > LIKELY * math.sqrt(float(variances.sum()))
    # Special values are declared, or surely found.
    special = [value.code > MISSING for value in getattr(domain, "own", ())]
    real[: len(special)] |= np.array(special, dtype=bool)
    real &= bool(special)
    real[-1] = domain.nullable
    own *= real
    every = np.column_stack((own, counts - own.sum(axis=1)))
    return shrunk_distributions(every, np.sqrt(variances))[:, :-1]


def _category_marginals(
    domain: CategoryDomain, counts: Floats, stds: Floats
) -> list[MarginalTransform]:
    """Marginals of categories; rows of none of them are spread over all."""
    if counts.size == 0:
        return [MarginalTransform.of_categories(domain, none) for none in counts]
    shares, missing = np.split(_shrunk(counts, stds), [len(domain.categories)], axis=1)
    order = np.arange(len(domain.categories))
    if not domain.ordered and len(shares) > 1 and len(order) > 2:
        # Along the direction in which the classes differ most.
        profile = shares / np.maximum(shares.sum(axis=0, keepdims=True), TINY)
        centred = profile - profile.mean(axis=1, keepdims=True)
        direction = np.linalg.svd(centred, full_matrices=False)[2][0]
        order = np.argsort(direction, kind="stable")
    return [
        MarginalTransform.of_categories(domain, of_class, missing=part, order=order)
        for of_class, part in zip(shares, missing.sum(axis=1), strict=True)
    ]


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


def fine_plan(
    domains: Sequence[ColumnDomain | None], n_rows: float, mu: float
) -> tuple[int, float]:
    """Plan round 2 of one class; a domain is None for categories not known yet.

    The result is the number of bins of each numeric column (empty ones beyond what
    round 1 found are left out later), and the noise of a count at most. To check
    declared numbers of rows adds 1 % to it.
    """

    def planned(n_bins: int) -> float:
        most_cells = []
        for domain in domains:
            n = n_bins
            if isinstance(domain, NumericDomain) and not is_continuous(domain):
                n = int(domain.high - domain.low) + 1
            most_cells.append(GRID if domain is None else n_cells(domain, n))
        return _count_noise(most_cells, mu)

    # As many as so many rows can fill against noise.
    clear = n_rows / max(2.0 * planned(N_CELLS), 1.0)
    n_bins = int(np.clip(clear, COARSE_BINS[0], N_CELLS))
    return n_bins, planned(n_bins)


def _count_noise(n_cells: Sequence[int], mu: float) -> float:
    """Noise of a count before the mean is taken off, in rows."""
    return grid_noise_std(mu, centred_sensitivity(n_cells)) / GRID


def measure_marginals(
    ask: Ask,
    domains: Sequence[ColumnDomain],
    mus: Floats,
    again: Sequence[Marginals] | None = None,
) -> tuple[list[Measurement], dict[int, Floats]]:
    """Measure the distribution of every column in every class, in two rounds.

    `mus` (n_classes,) are for both rounds together. The result are round 1 of the
    classes that have one, round 2 of all, and the edges of the cells of each numeric
    column, which `estimate` turns into marginals: none if `again` has the queries of
    the last round of each class of another table, which are the only round then.
    """
    released: list[Measurement] = []
    classes = ask.classes

    def ask_class(c: int, query: Marginals, mu: float) -> Measurement:
        """Release an answer of a class, with its number of rows if one is declared."""
        if classes.noise_std[c] == 0:
            spread = sum(1.0 - 1.0 / max(n, 1) for n in query.n_cells)
            query = replace(query, size_weight=math.sqrt(SMALL_SHARE * spread))
        released.append(ask.of_each(query, [mu], [c]))
        return released[-1]

    if not mus.any():
        return released, {}
    if again is not None:
        for c, query in enumerate(again):
            query = Marginals(domains, query.columns, query.opened)
            ask_class(c, query, float(mus[c]))
        return released, {}
    continuous = [j for j, domain in enumerate(domains) if is_continuous(domain)]
    numbers = {j: a for j, a in enumerate(domains) if isinstance(a, NumericDomain)}
    # The largest class decides; rows without a label count as one.
    table = float(classes.planned.max()), len(continuous), len(domains)
    shares = [coarse_share(*table, float(mu)) for mu in mus]
    rounds: list[list[Measurement]] = [[] for _ in shares]
    for c, share in enumerate(shares):
        if share == 0:
            continue
        mu = float(mus[c]) * math.sqrt(share)
        most_cells = [n_cells(domains[j], COARSE_BINS[1]) for j in continuous]
        clear = classes.planned[c] / max(_count_noise(most_cells, mu), 1.0)
        n_bins = int(np.clip(clear, *COARSE_BINS))
        edges = {j: numbers[j].snap(np.linspace(0, 1, n_bins + 1)) for j in continuous}
        query = Marginals(domains, tuple(continuous), edges, coarse=True)
        rounds[c].append(ask_class(c, query, mu))
    coarse: list[dict[int, Histogram]] = [
        histograms(answers[0], size) if answers else {}
        for answers, size in zip(rounds, known_sizes(classes, rounds), strict=True)
    ]
    # Distribution functions at `SMOOTH_GRID`, even ones without a round.
    cdfs = []
    for of_class in coarse:
        columns = [[histogram] for histogram in of_class.values()]
        totals = [max(float(own.counts.sum()), 1.0) for own in of_class.values()]
        masses = fit_masses(columns, [SMOOTH_GRID] * len(columns), np.array(totals))
        fitted = (np.concatenate(([0.0], np.cumsum(mass))) for mass in masses)
        even = dict.fromkeys(numbers, SMOOTH_GRID)
        cdfs.append(even | dict(zip(of_class, fitted, strict=True)))
    cells, inside = {}, {}  # and the share of rows in intervals, where it is small
    for j, domain in numbers.items():
        counted = [of_class[j] for of_class in coarse if j in of_class]
        # Of a class without round 1 it is not known where its rows are. Few rows are
        # hidden by the noise: their range was found by where they are, or is looked for
        # where far bins would decide the mean.
        if thin := any(own.thin for own in counted):
            inside[j] = _present(counted)
        known = all(coarse) and (not thin or (domain.log and not domain.released))
        support = _support(counted if known else [], domain)
        cells[j] = _warped_cells(domain, [cdf[j] for cdf in cdfs], support)
        for cdf in cdfs:
            cdf[j] = _cdf_at(cells[j], cdf[j], domain, counted)
    for c, share in enumerate(shares):
        mu = float(mus[c]) * math.sqrt(1.0 - share)
        n_bins, noise_std = fine_plan(domains, classes.planned[c], mu)
        edges = {}
        for j in numbers:
            rows = inside.get(j, 1.0) * classes.planned[c]
            clear = rows / max(2.0 * noise_std, 1.0)
            n_own = int(np.clip(clear, COARSE_BINS[0], n_bins))
            edges[j] = _quantile_edges(cdfs[c][j], cells[j], n_own)
        ask_class(c, Marginals(domains, tuple(range(len(domains))), edges), mu)
    return released, cells


def _support(parts: list[Histogram], domain: NumericDomain) -> tuple[float, float]:
    """Find where round 1 found rows of any class: beyond, a density would fit noise."""
    low, high = [], []
    # Where one bin alone had to be above the noise, half of the rows of columns with
    # two modes were cut off: on Epileptic seizure at epsilon 0.5 the error of tables of
    # two columns was 0.44, so 0.21.
    for part in parts:
        n_bins = len(part.counts)
        if part.thin:
            ends = domain.edges(part.edges)
            first, last = likely_bins(part.counts, ends, part.noise_std)
            low.append(float(part.edges[first]))
            high.append(float(part.edges[last + 1]))
            continue
        first = _noise_at_end(part.counts, part.noise_std)
        if first == n_bins:
            continue
        last = n_bins - 1 - _noise_at_end(part.counts[::-1], part.noise_std)
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
        edges = np.concatenate((inner[~inside], begins, ends))
        inner = np.unique(edges[(edges > low) & (edges < high)])
    return np.concatenate(([low], inner, [high]))


def _cdf_at(
    cells: Floats, cdf: Floats, domain: NumericDomain, counted: list[Histogram]
) -> Floats:
    """Return round 1's distribution function at edges of cells, with what is known.

    Frequent values have their share of all rows, zeros and missing values too; round 1
    `counted` these, and says how the others lie.
    """
    below = np.interp(cells, SMOOTH_GRID, cdf)
    if not domain.frequent:
        return below
    on_values = _on_values(domain, cells) / _present(counted)
    rest = np.where(on_values > 0, 0.0, np.diff(below))
    rest *= max(1.0 - on_values.sum(), 0.0) / max(rest.sum(), TINY)
    return np.concatenate(([0.0], np.cumsum(rest + on_values)))


def _present(counted: list[Histogram]) -> float:
    """Return the share of rows that are in some interval, as far as it is known."""
    present = sum(float(own.counts.sum()) for own in counted)
    present /= max(sum(own.total for own in counted), 1.0)
    return min(max(present, RARE), 1.0) if counted else 1.0


def _quantile_edges(cdf: Floats, cells: Floats, n_bins: int) -> Floats:
    """Choose bins of round 2, of cells with about equal counts by the `cdf` there."""
    if n_bins >= len(cells) - 1:
        return cells
    share = (cdf - cdf[0]) / max(cdf[-1] - cdf[0], TINY)
    mixed = (1 - _SPREAD) * share + _SPREAD * np.linspace(0.0, 1.0, len(cells))
    inner = np.searchsorted(mixed, np.linspace(0.0, 1.0, n_bins + 1)[1:-1])
    last = len(cells) - 1
    chosen = np.unique(np.concatenate(([0], np.minimum(inner, last), [last])))
    return cells[chosen]
