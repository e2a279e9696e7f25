"""Measurements of tables of disjoint rows, such as those of hospitals, as one.

All of it was released: post-processing. Of equal queries the counts of all rows are the
sums of those of each table, and so are the variances of their noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from skdpsynth.measure._measurements import Measurements
from skdpsynth.measure._query import QUERIES, Marginals, Measurement, Moments
from skdpsynth.privacy import PrivacyReport, claim
from skdpsynth.table import Metadata


def combine_measurements(sites: Iterable[Measurements]) -> Measurements:
    """Put the measurements of several sites together, as if their rows were one table.

    Counts are added up, and so are the variances of their noise. All sites must have
    measured the same tables in the same bins: those of a first one, which is the
    ``design`` of the others.

    Parameters
    ----------
    sites : iterable of Measurements
        `measurements_` of fits to disjoint rows, or what `Measurements.load` read.

    Returns
    -------
    Measurements
        For `MarginalSynthesizer.from_measurements`. They list what was added up.

    Raises
    ------
    ValueError
        If there are none, some are not all measurements of a fit, the sites do not
        protect the same unit, or one measured other tables or other bins than the
        first, or other columns, dtypes, ranges, categories or labels.

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
    sites = [*sites]
    if not sites:
        raise ValueError("Expected measurements of one site at least. Got none.")
    report = _report_of_all([site.report for site in sites])
    return _sum_of_sites(sites)._with_claim(sites[0].schema, report)


def _report_of_all(reports: list[PrivacyReport]) -> PrivacyReport:
    """Return the report for somebody whose rows are at one site alone."""
    first, sites = reports[0], [*enumerate(reports, start=1)]
    if len(reports) == 1:
        return first
    if len({(report.relation, report.unit) for report in reports}) > 1:
        units = sorted({report.unit for report in reports})
        raise ValueError(
            "Measurements of several sites are combined where all protect the same."
            f" Got {units}; name the same privacy_unit and max_rows_per_unit in the"
            " schemas."
        )
    claims = ", ".join(
        f"{n}: epsilon = {claim(report.epsilon)} and delta = {claim(report.delta)}"
        for n, report in sites
    )
    note = (
        f"Made of the measurements of {len(reports)} sites ({claims}), as their files"
        " state it. The guarantee is for somebody whose rows are at one site alone; for"
        " somebody at several sites, the epsilons and deltas of these add up."
    )
    names = ("epsilon", "delta", "epsilon_requested", "mu", "discovery_delta")
    most = {
        name: max(getattr(report, name) for report in reports)
        for name in (*names, "epsilon_replace_one")
    }
    entries = tuple(
        replace(entry, name=f"site {n}: {entry.name}")
        for n, report in sites
        for entry in report.entries
    )
    declared = [report.declared for report in reports if report.declared is not None]
    whole = tuple(dict.fromkeys(chain(*declared)))
    return replace(
        first,
        **most,
        private=all(report.private for report in reports),
        entries=entries,
        notes=tuple(dict.fromkeys(chain([note], *(r.notes for r in reports)))),
        declared=whole if len(declared) == len(reports) else None,
    )


def _sum_of_sites(sites: Sequence[Measurements]) -> Measurements:
    """Add up the answers of all sites, which must be to the same queries."""
    first = sites[0]
    for number, site in enumerate(sites[1:], start=2):
        both = zip(_queries(first), _queries(site), strict=False)
        for (what, ours), (_, theirs) in both:
            if ours != theirs:
                raise ValueError(
                    "Measurements of several sites are added up. Expected the same"
                    f" tables in the same bins. Got other {what} from site {number}"
                    " than from site 1. Cast columns alike, and fit the others by"
                    " MarginalSynthesizer(schema=first.schema, design=first), where"
                    " first are the measurements_ of one site."
                )
    asked = [_last_round(site) for site in sites]
    return Measurements(
        _metadata_of_all([site.metadata for site in sites]),
        [*map(_sum, zip(*asked, strict=True))],
        np.hypot.reduce([site.planned_stds for site in sites]),
        first.opened_edges,
    )


def _metadata_of_all(tables: Sequence[Metadata]) -> Metadata:
    """Add up the numbers of rows, and of units."""

    def sums(records: Sequence[Any], counts: str) -> Any:  # noqa: ANN401
        """Add up counts, and the variances of their noise."""
        total = sum(getattr(record, counts) for record in records)
        noise_std = np.hypot.reduce([record.noise_std for record in records])
        return replace(records[0], **{counts: total, "noise_std": noise_std})

    classes = sums([table.classes for table in tables], "counts")
    units = tables[0].units
    if units is not None and units.sizes is not None:
        units = sums([table.units for table in tables], "sizes")
    return replace(tables[0], classes=classes, units=units)


def _last_round(site: Measurements) -> list[Measurement]:
    """Return the answers that sites have in common: of one column the last round.

    By kind and class; of several to one kind of query in their order.
    """
    last = [answer for answer in site if not getattr(answer.query, "coarse", False)]
    return sorted(last, key=lambda o: ([*QUERIES].index(o.query.kind), site._places(o)))


def _sum(answers: tuple[Measurement, ...]) -> Measurement:
    """Add up answers to the same query, and the variances of their noise.

    Second moments are means over the rows of a class, of which each site has a part. A
    row is at one site alone, so the largest mu is charged for it.
    """
    first, query = answers[0], answers[0].query
    values = [answer.values for answer in answers]
    weights = [1.0] * len(answers)
    if isinstance(query, Moments):
        sizes = [answer.query.n_rows for answer in answers]
        weights = [size / sum(sizes) for size in sizes]
        query = replace(query, n_rows=sum(sizes))
    elif isinstance(query, Marginals):
        weights_of_sizes = {answer.query.size_weight for answer in answers}
        weight = query.size_weight if len(weights_of_sizes) == 1 else 0.0
        query = replace(query, edges=query.opened, size_weight=weight)
        (n_values,) = query.shape
        values = [value[:, :n_values] for value in values]
    total = sum(w * value for w, value in zip(weights, values, strict=True))
    stds = [w * answer.noise_std for w, answer in zip(weights, answers, strict=True)]
    return Measurement(
        query,
        np.asarray(total, dtype=query.dtype),
        np.hypot.reduce(stds),
        np.max([answer.mu for answer in answers], axis=0),
        first.scopes,
    )


def _queries(site: Measurements) -> Iterator[tuple[str, Any]]:
    """List what must be equal so that answers can be added up, columns first."""
    metadata, label = site.metadata, site.metadata.layout.label_column
    listed = [*metadata.columns, *([] if label is None else [label])]
    yield "columns", [(column.name, column.kind) for column in listed]
    for column, domain in zip(metadata.columns, metadata.domains, strict=True):
        yield f"dtypes ({column.name!r})", column.stores
        yield f"ranges, decimals or categories ({column.name!r})", domain
    yield f"labels ({metadata.layout.target!r})", metadata.classes.labels
    sizes = None if metadata.units is None else metadata.units.sizes
    yield "values of max_rows_per_unit", None if sizes is None else len(sizes)
    answers = _last_round(site)
    for kind in QUERIES:
        asked = [(o.scopes, o.query.identity) for o in answers if o.query.kind == kind]
        yield f"bins or tables ({kind})", asked
