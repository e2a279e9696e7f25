"""Measurements of several tables that never met, such as those of hospitals, as one.

All of it was released: post-processing. The table that all of them would be together
has the sum of their counts, and the sum of the variances of their noise. The site with
most rows says which bins there are; counts in the bins of another site are divided by
where its own marginals lie in these, as if columns were independent inside a bin.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.measure._marginals import Round, estimate
from skdpsynth.measure._measurements import Measured, having_pairs, pooled, shown_pairs
from skdpsynth.measure._model import TableModel
from skdpsynth.measure._relations import find_relations, with_cells_of
from skdpsynth.measure._tables import (
    PairTables,
    SecondMoments,
    TripleTables,
)
from skdpsynth.privacy import CentredCounts, claim
from skdpsynth.table import (
    MISSING,
    ZERO,
    CategoryDomain,
    MarginalTransform,
    NumericDomain,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from skdpsynth.measure._measurements import Measurements
    from skdpsynth.measure._relations import Relations
    from skdpsynth.measure._tables import ColumnBins
    from skdpsynth.privacy import PrivacyReport
    from skdpsynth.table import Metadata, Units

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_REMEDY = (
    "Fit the other sites by MarginalSynthesizer(schema=first.schema, design=first),"
    " where first are the measurements_ of one of them, or declare all of it alike."
)


def combine_measurements(sites: Iterable[Measurements]) -> Measurements:
    """Put the measurements of several sites together, as if their rows were one table.

    Counts are added up, and so are the variances of their noise. Sites that measured
    the tables of a first one in its bins (the ``design`` of `MarginalSynthesizer`) are
    added exactly. Others are divided among the bins of the site with most rows by where
    their own marginals lie, and what a site did not measure is taken from the others:
    that costs accuracy.

    Parameters
    ----------
    sites : iterable of Measurements
        `measurements_` of fits to disjoint rows, or what `Measurements.load` read. All
        with the same columns, ranges, categories and labels.

    Returns
    -------
    Measurements
        For `MarginalSynthesizer.from_measurements`. They list what was added up.

    Raises
    ------
    ValueError
        If there are none, some are not all measurements of a fit, or the tables differ
        in columns, ranges, categories, labels or in what is protected.

    Notes
    -----
    **Privacy guarantee.** It is that of each site, and stated by its file: nothing here
    can verify it. For somebody whose rows are at one site alone, all sites together
    reveal no more than that site (parallel composition): the report has the largest
    epsilon and delta. Who has rows at several sites is protected by the sums of theirs.

    Examples
    --------
    >>> from skdpsynth import MarginalSynthesizer, combine_measurements
    >>> from skdpsynth.datasets import load_thyroid
    >>> table = load_thyroid()
    >>> here, there = table[::2], table[1::2]
    >>> ours = MarginalSynthesizer(epsilon=3.0, target="class").fit(here).measurements_
    >>> theirs = MarginalSynthesizer(3.0, schema=ours.schema, design=ours).fit(there)
    >>> both = combine_measurements([ours, theirs.measurements_])
    >>> MarginalSynthesizer.from_measurements(both).sample(3).shape
    (3, 22)
    """
    origins = [site.origin for site in sites]
    if not origins:
        raise ValueError("Expected measurements of one site at least. Got none.")
    report = _report_of_all([origin.report for origin in origins])
    measured = combined([origin.measured for origin in origins])
    base = next(own for own in origins if own.measured.bins is measured.bins)
    origin = replace(base, measured=measured, report=report)
    return measured.measurements.of_origin(origin)


# How notes begin of a report on several fits, and on one that has a design.
COMBINED = "Made of the measurements of"
OF_DESIGN = "Measured in the tables of"


def _report_of_all(reports: list[PrivacyReport]) -> PrivacyReport:
    """Give the report for somebody whose rows are at one site alone."""
    first = reports[0]
    if len(reports) == 1:
        return first
    if len({(own.relation, own.unit) for own in reports}) > 1:
        raise ValueError(
            "Measurements of several sites are combined where all protect the same."
            f" Got {sorted({own.unit for own in reports})}; name the same privacy_unit"
            " and max_rows_per_unit in the schemas."
        )
    claims = ", ".join(
        f"{number}: epsilon = {claim(own.epsilon)} and delta = {claim(own.delta)}"
        for number, own in enumerate(reports, start=1)
    )
    note = (
        f"{COMBINED} {len(reports)} sites ({claims}), as their files"
        " state it. The guarantee is for somebody whose rows are at one site alone; for"
        " somebody at several sites, the epsilons and deltas of these add up."
    )
    most = {
        name: max(getattr(own, name) for own in reports)
        for name in (
            *("epsilon", "delta", "epsilon_requested", "mu", "discovery_delta"),
            "epsilon_replace_one",
        )
    }
    entries = tuple(
        replace(entry, name=f"site {number}: {entry.name}")
        for number, own in enumerate(reports, start=1)
        for entry in own.entries
    )
    notes = tuple(dict.fromkeys(note for own in reports for note in own.notes))
    private = all(own.private for own in reports)
    declared = None
    if all(own.declared is not None for own in reports):
        listed = (what for own in reports for what in own.declared or ())
        declared = tuple(dict.fromkeys(listed))
    return replace(
        first,
        **most,
        private=private,
        entries=entries,
        notes=(note, *notes),
        declared=declared,
    )


def combined(sites: Sequence[Measured]) -> Measured:
    """Put measurements of tables of disjoint rows together.

    Tables that a site lacks are taken to be as in the sites that have them. The finer
    cells of relations are shared out as at the site with most rows.
    """
    sizes = [float(site.model.metadata.classes.counts.sum()) for site in sites]
    base = sites[int(np.argmax(sizes))]
    for number, site in enumerate(sites, start=1):
        _check_alike(base.model.metadata, site.model.metadata, number)
    classes = base.model.metadata.classes
    counts = np.array([site.model.metadata.classes.counts for site in sites])
    noise = [site.model.metadata.classes.noise_std for site in sites]
    classes = replace(classes, counts=counts.sum(0), noise_std=math.hypot(*noise))
    units = _sums_of_units([site.model.metadata.units for site in sites])
    metadata = replace(base.model.metadata, classes=classes, units=units)
    rounds, counted = _sums_of_rounds(base, sites), base.counted
    if rounds is not None and counted is not None:
        again = estimate(list(metadata.domains), classes, rounds, counted[1])
        marginals = [
            [own.in_order_of(other) for own, other in zip(*both, strict=True)]
            for both in zip(again, base.model.marginals, strict=True)
        ]
    else:
        marginals = [
            [
                _mean_marginal([own.model.marginals[c][j] for own in sites], n_rows)
                for j in range(len(metadata.columns))
            ]
            for c, n_rows in enumerate(counts.T)
        ]
    ranks = [base.bins.ranks(own) for own in marginals]
    noise_of_classes = zip(*(site.noise_stds for site in sites), strict=True)
    maps = [_Maps(base, site) for site in sites]
    pairs, triples, moments, starts = {}, {}, {}, base.bins.starts
    for c in range(len(classes)):
        if c in base.pairs:
            of_class = [
                (maps[s].bins(c), site.pairs[c])
                for s, site in enumerate(sites)
                if c in site.pairs
            ]
            pairs[c] = _sum_of_pairs(starts, of_class, float(classes.counts[c]))
        if c in base.triples:
            of_sites = [
                (maps[s].groups(c), site.triples[c])
                for s, site in enumerate(sites)
                if c in site.triples
            ]
            triples[c] = _sum_of_triples(
                base.triples[c], of_sites, float(classes.counts[c])
            )
        if c in base.moments:
            weights = [
                (site.moments[c], float(counts[s, c]))
                for s, site in enumerate(sites)
                if c in site.moments
            ]
            moments[c] = _mean_of_moments(weights)
    together = None
    if base.together is not None:
        having = having_pairs(base.pairs, classes)
        of_all = [
            (maps[s].bins(None), site.together)
            for s, site in enumerate(sites)
            if site.together is not None and having_pairs(site.pairs, classes) == having
        ]
        together = _sum_of_pairs(starts, of_all, float(classes.counts[having].sum()))
    found = replace(
        base,
        model=TableModel(metadata, marginals),
        rounds=rounds or [[] for _ in base.rounds],
        noise_stds=tuple(math.hypot(*own) for own in noise_of_classes),
        ranks=ranks,
        shares=[base.bins.shares(own) for own in ranks],
        pairs=pairs,
        triples=triples,
        moments=moments,
        together=together,
        cells=None,
        groups=None,
    )
    return replace(found, relations=_relations_of(found))


def _relations_of(own: Measured) -> Relations | None:
    """Find the relations of all sites, in finer cells as the first site found them."""
    first, classes = own.relations, own.model.metadata.classes
    if first is None:
        return None
    pairs = shown_pairs(own.pairs, classes)
    found = find_relations(pairs, own.shares, own.bins.starts, own.together)
    if first.finer is None:
        return found
    cells = first.finer.bins
    of_classes = [cells.shares(cells.ranks(each)) for each in own.model.marginals]
    shares = pooled(of_classes, classes.prior, list(pairs))
    return with_cells_of(first, found, first.finer, shares)


def _check_alike(ours: Metadata, theirs: Metadata, number: int) -> None:
    """Refuse the measurements of a table that cannot be a part of the same one."""
    columns = [[(c.name, c.kind) for c in own.columns] for own in (ours, theirs)]
    what = None
    if columns[0] != columns[1]:
        what = "other columns"
    elif ours.classes.labels != theirs.classes.labels:
        what = f"other labels of {ours.layout.target!r}"
    else:
        for mine, column, own, other in zip(
            ours.columns, theirs.columns, ours.domains, theirs.domains, strict=True
        ):
            if mine.stores != column.stores:
                raise ValueError(
                    "Measurements of several sites are combined where columns have the"
                    f" same dtypes. Got {column.dtype} for {column.name!r} from site"
                    f" {number} and {mine.dtype} from the one with most rows; cast the"
                    " column at one of them, and fit again."
                )
            if _declarable(own) != _declarable(other):
                what = f"another range, decimals or categories of {column.name!r}"
    if what is not None:
        raise ValueError(
            "Measurements of several sites are combined where all have the same"
            f" columns, ranges and categories. Got {what} from site {number} than from"
            f" the one with most rows. {_REMEDY}"
        )


def _declarable(domain: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a domain
    """Give of a domain what must be equal at all sites."""
    if isinstance(domain, CategoryDomain):
        return domain.categories, domain.nullable
    own = domain
    return own.low, own.high, own.log, own.integer, own.step, own.decimals, own.nullable


def _sums_of_units(sites: Sequence[Units | None]) -> Units | None:
    """Add up the numbers of units with so many rows, if all sites measured them."""
    first = sites[0]
    sizes = [own.sizes for own in sites if own is not None and own.sizes is not None]
    if first is None or len(sizes) < len(sites):
        return first
    noise_std = math.hypot(*(own.noise_std for own in sites if own is not None))
    return replace(first, sizes=np.sum(sizes, axis=0), noise_std=noise_std)


def _sums_of_rounds(
    base: Measured, sites: Sequence[Measured]
) -> list[list[Round]] | None:
    """Add up tables of one column, class by class; None if some have other bins."""
    last = [[own[-1] for own in site.rounds if own] for site in sites]
    ours = next(own for site, own in zip(sites, last, strict=True) if site is base)
    counted = base.counted
    if counted is None:
        return None
    for site, theirs in zip(sites, last, strict=True):
        if site.model.metadata.domains != base.model.metadata.domains:
            return None
        if len(theirs) != len(ours):
            return None
        for one, other in zip(ours, theirs, strict=True):
            if one.columns != other.columns:
                return None
            inner = [(one.edges[j][1:-1], other.edges[j][1:-1]) for j in one.edges]
            if not all(np.array_equal(*both) for both in inner):
                return None
    return [
        [Round(own[0].columns, edges, _sum_of_counts([one.released for one in own]))]
        for own, edges in zip(zip(*last, strict=True), counted[0], strict=True)
    ]


def _sum_of_counts(own: Sequence[CentredCounts]) -> CentredCounts:
    """Add up the counts of several tables, and the variances of their noise."""
    deviations = zip(*(one.deviations for one in own), strict=True)
    return CentredCounts(
        [np.sum(parts, axis=0) for parts in deviations],
        np.sum([one.apart for one in own], axis=0),
        np.sqrt(np.sum([one.apart_stds**2 for one in own], axis=0)),
        math.hypot(*(one.noise_std for one in own)),
        sum(one.size for one in own),
        math.hypot(*(one.size_std for one in own)),
    )


def _mean_marginal(
    own: Sequence[MarginalTransform], weights: Floats
) -> MarginalTransform:
    """Give the distribution of the rows of all sites, on the cells of all of them."""
    base, gone = own[int(weights.argmax())], np.array([one.missing for one in own])
    missing = float(weights @ gone / weights.sum())
    present = weights * (1.0 - gone)
    present = present / present.sum() if present.sum() > 0 else weights / weights.sum()
    if isinstance(base.domain, CategoryDomain):
        if not len(base.points):
            return base
        shares = present @ np.array([one.level_shares() for one in own])
        order = base.points.astype(np.int64)
        return MarginalTransform.of_categories(
            base.domain, shares, missing=missing, order=order
        )
    domain = base.domain
    points = np.unique(
        np.concatenate([_positions(domain, one.domain, one.points) for one in own])
    )
    if any((np.diff(one.points) == 0).any() for one in own):  # exact zeros
        points = np.sort(np.append(points[points != domain.zero], [domain.zero] * 2))
    found = present @ np.array([_cdf_at(one, domain, points) for one in own])
    found = np.maximum.accumulate(np.clip(found, 0.0, 1.0))
    found[0], found[-1] = 0.0, 1.0
    return MarginalTransform(domain, points, found, missing)


def _cdf_at(own: MarginalTransform, domain: NumericDomain, points: Floats) -> Floats:
    """Give the probability up to positions in another domain of the same values.

    A position that is there twice, an exact zero, has the probability below it first.
    """
    below, up_to = own.cdf(_positions(own.domain, domain, points))
    second = np.append(False, np.diff(points) == 0)
    doubled = second | np.append(second[1:], False)
    return np.where(doubled & ~second, below, up_to)


def _positions(own: Any, domain: Any, points: Floats) -> Floats:  # noqa: ANN401
    """Give the positions in one domain of what is at positions in another one."""
    if own == domain:
        return points
    found = own.positions(domain.edges(points))
    if domain.zero is not None and own.zero is not None:
        found = np.where(points == domain.zero, own.zero, found)
    return np.asarray(np.where(points <= 0, 0.0, np.where(points >= 1, 1.0, found)))


class _Maps:
    """Which share of each bin of a site is in each bin of another one."""

    def __init__(self, base: Measured, site: Measured) -> None:
        self._base, self._site = base, site
        self.same = base is site or _same_bins(base, site)

    def bins(self, c: int | None) -> Floats | None:
        """Give the shares in a class, or in all classes together, (D, D of the site).

        None if the bins are the same.
        """
        if self.same:
            return None
        base, site = self._base.bins, self._site.bins
        counts = self._site.model.metadata.classes.counts
        found = np.zeros((base.starts[-1], site.starts[-1]))
        both = zip(base.columns, site.columns, strict=True)
        for j, (ours, theirs) in enumerate(both):
            classes = range(len(counts)) if c is None else [c]
            masses = sum(
                counts[k] * _overlaps(ours, theirs, self._base, self._site, j, k)
                for k in classes
            )
            shares = masses / np.maximum(masses.sum(0), 1e-300)
            empty = masses.sum(0) <= 0  # nobody is there: to whatever bin
            shares[:, empty] = 1.0 / len(shares)
            a, b = (slice(*own.starts[j : j + 2]) for own in (base, site))
            found[a, b] = shares
        return found

    def groups(self, c: int) -> Floats | None:
        """Give the shares of groups of bins in tables of three columns, by column.

        Of shape (n_columns, G, G of the site); None if they are the same.
        """
        if self.same:
            return None
        of_bins, shares = self.bins(c), self._site.shares[c]
        assert of_bins is not None
        ours, theirs = self._base.triples[c].groups, self._site.triples[c].groups
        found = []
        for j in range(len(self._base.bins.columns)):
            a, b = (
                slice(*own.bins.starts[j : j + 2]) for own in (self._base, self._site)
            )
            into = np.eye(self._base.triples[c].counts.shape[-1])[:, ours[a]]
            out = np.eye(self._site.triples[c].counts.shape[-1])[theirs[b]]
            masses = into @ (of_bins[a, b] * shares[b]) @ out
            total = masses.sum(0)
            even = np.full_like(masses, 1.0 / len(masses))
            found.append(np.where(total > 0, masses / np.maximum(total, 1e-300), even))
        return np.array(found)


def _same_bins(base: Measured, site: Measured) -> bool:
    """Tell whether counts can be added as they are."""
    domains = base.model.metadata.domains, site.model.metadata.domains
    if domains[0] != domains[1]:  # the scale of last digits, too
        return False
    same = all(
        own.n_bins == other.n_bins
        and np.array_equal(own.edges, other.edges)
        and np.array_equal(own.of_code, other.of_code)
        for own, other in zip(base.bins.columns, site.bins.columns, strict=True)
    )
    both = base.triples.keys() & site.triples.keys()
    return same and all(
        np.array_equal(base.triples[c].groups, site.triples[c].groups) for c in both
    )


def _overlaps(
    ours: ColumnBins, theirs: ColumnBins, base: Measured, site: Measured, j: int, c: int
) -> Floats:
    """Give the shares of rows of a class of a site by both bins of a column."""
    marginal = site.model.marginals[c][j]
    found = np.zeros((ours.n_bins, theirs.n_bins))
    domain = marginal.domain
    if isinstance(domain, CategoryDomain):
        shares = np.zeros(domain.n_codes)
        shares[: len(domain.categories)] = 1e-9  # so that none is nowhere
        shares[: len(marginal.points)] += marginal.level_shares()
        shares[-2:] = 1e-9, 1e-9 + marginal.missing
        np.add.at(found, (ours.of_code, theirs.of_code), shares)
        return found
    of_base = base.model.metadata.domains[j]
    assert isinstance(of_base, NumericDomain)
    edges = _positions(domain, of_base, ours.edges)
    every = np.unique(np.concatenate([edges, theirs.edges]))
    left, right = marginal.cdf(every)
    masses = np.maximum(left[1:] - right[:-1], 0.0) + 1e-12 * np.diff(every)
    middles = (every[:-1] + every[1:]) / 2
    places = [
        np.clip(np.searchsorted(own, middles, side="right") - 1, 0, len(own) - 2)
        for own in (edges, theirs.edges)
    ]
    present = 1.0 - marginal.missing
    np.add.at(found, tuple(places), present * masses)
    if domain.zero is not None:
        below, up_to = marginal.cdf(np.array([domain.zero]))
        first, second = (
            own.of_code[ZERO]
            if own.of_code[ZERO] >= 0
            else min(int((at <= domain.zero).sum()) - 1, len(at) - 2)
            for own, at in ((ours, edges), (theirs, theirs.edges))
        )
        found[first, second] += present * max(float(up_to[0] - below[0]), 1e-12)
    gone = [own.of_code[MISSING] for own in (ours, theirs)]
    if min(gone) >= 0:
        found[tuple(gone)] += max(marginal.missing, 1e-12)
    return found


def _sum_of_pairs(
    starts: Ints, own: Sequence[tuple[Floats | None, PairTables]], n_rows: float
) -> PairTables:
    """Add up tables of two columns, with what brings each to the bins of the first.

    `n_rows` are those of all sites. A pair that some sites did not measure has the
    counts of the others, scaled.
    """
    n_columns, size = len(starts) - 1, int(starts[-1])
    column = np.repeat(np.arange(n_columns), np.diff(starts))
    sums, rows = np.zeros((size, size)), np.zeros((n_columns, n_columns))
    variances = np.zeros((n_columns, n_columns))
    for into, two in own:
        counts, spread = two.counts.astype(np.float64), np.ones(n_columns)
        if into is not None:
            counts = into @ counts @ into.T
            # Where a count is divided among cells, the mean variance of these.
            spread = np.add.reduceat((into**2).sum(1), starts[:-1]) / np.diff(starts)
        sums += counts
        i, j = two.pairs.T
        rows[i, j] += two.n_rows
        variances[i, j] += two.noise_std**2 * spread[i] * spread[j]
    pairs = np.argwhere(rows > 0)
    i, j = pairs.T
    scale = np.where(rows > 0, n_rows / np.maximum(rows, 1e-300), 0.0)
    cells = np.ix_(column, column)
    scaled = np.asarray(sums * scale[cells], dtype=np.float32)
    noise_std = math.sqrt(float((variances * scale**2)[i, j].mean()))
    return PairTables(scaled, (rows > 0)[cells], noise_std, n_rows, pairs)


def _sum_of_triples(
    base: TripleTables, own: Sequence[tuple[Floats | None, TripleTables]], n_rows: float
) -> TripleTables:
    """Add up tables of three columns."""
    total, n_found, variance = np.zeros(base.counts.shape), 0.0, 0.0
    for maps, three in own:
        counts, spread = three.counts.astype(np.float64), 1.0
        if maps is not None:
            first, second, third = (maps[three.triples[:, axis]] for axis in range(3))
            counts = np.einsum(
                "tabc,tia,tjb,tkc->tijk", counts, first, second, third, optimize=True
            )
            spread = float((maps**2).sum(2).mean()) ** 3
        total += counts
        n_found += float(three.counts.sum(dtype=np.float64)) / len(three.triples)
        variance += three.noise_std**2 * spread
    scale = n_rows / max(n_found, 1.0)
    scaled = np.asarray(total * scale, dtype=np.float32)
    return base._replace(counts=scaled, noise_std=scale * math.sqrt(variance))


def _mean_of_moments(own: Sequence[tuple[SecondMoments, float]]) -> SecondMoments:
    """Average second moments by the rows of the sites."""
    total = sum(n for _, n in own)
    covariances = sum(n / total * one.covariances for one, n in own)
    noise_std = math.hypot(*(n / total * one.noise_std for one, n in own))
    return SecondMoments(np.asarray(covariances), noise_std)
