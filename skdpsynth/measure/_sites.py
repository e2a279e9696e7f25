"""Measurements of tables of disjoint rows, such as those of hospitals, as one.

All of it was released: post-processing. Of equal queries the counts of all rows are the
sums of those of each table, and so are the variances of their noise.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.measure._checks import KINDS
from skdpsynth.measure._marginals import Round, estimate, known_sizes
from skdpsynth.measure._measurements import pooled
from skdpsynth.measure._relations import find_relations, with_cells_of
from skdpsynth.measure._table_model import TableModel
from skdpsynth.measure._tables import SecondMoments
from skdpsynth.privacy import CentredCounts, claim

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skdpsynth.measure._measurements import Measured, Measurements
    from skdpsynth.measure._relations import Relations
    from skdpsynth.privacy import PrivacyReport
# What `Measured` has of tables that were counted; second moments, too.
_TABLES = (*KINDS, "together")
_OF_QUERIES = (np.bool_, np.int64)  # dtypes of arrays that say what was asked


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
    origins = [site.origin for site in sites]
    if not origins:
        raise ValueError("Expected measurements of one site at least. Got none.")
    report = _report_of_all([origin.report for origin in origins])
    measured = _sum_of_sites([origin.measured for origin in origins])
    origin = replace(origins[0], measured=measured, report=report)
    return measured.measurements.of_origin(origin)


def _report_of_all(reports: list[PrivacyReport]) -> PrivacyReport:
    """Return the report for somebody whose rows are at one site alone."""
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
        f"Made of the measurements of {len(reports)} sites ({claims}), as their files"
        " state it. The guarantee is for somebody whose rows are at one site alone; for"
        " somebody at several sites, the epsilons and deltas of these add up."
    )
    names = ("epsilon", "delta", "epsilon_requested", "mu", "discovery_delta")
    most = {
        name: max(getattr(own, name) for own in reports)
        for name in (*names, "epsilon_replace_one")
    }
    entries = tuple(
        replace(entry, name=f"site {number}: {entry.name}")
        for number, own in enumerate(reports, start=1)
        for entry in own.entries
    )
    notes = dict.fromkeys(chain([note], *(own.notes for own in reports)))
    declared = [own.declared for own in reports if own.declared is not None]
    whole = len(declared) == len(reports)
    return replace(
        first,
        **most,
        private=all(own.private for own in reports),
        entries=entries,
        notes=tuple(notes),
        declared=tuple(dict.fromkeys(chain(*declared))) if whole else None,
    )


def _sum_of_sites(sites: Sequence[Measured]) -> Measured:
    """Add up the counts of all sites, which must be answers to the same queries."""
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
    tables = [site.model.metadata for site in sites]
    metadata, classes = tables[0], [table.classes for table in tables]
    total = replace(classes[0], **_sums(classes, "counts", "noise_std"))
    if (units := metadata.units) is not None and units.sizes is not None:
        sizes = _sums([table.units for table in tables], "sizes", "noise_std")
        metadata = replace(metadata, units=replace(units, **sizes))
    rounds, marginals = first.rounds, first.model.marginals
    if (counted := first.counted) is not None:
        last = _sum([[own[-1].released for own in site.rounds] for site in sites])
        rounds = [
            [Round(own[-1].columns, edges, released)]
            for own, edges, released in zip(rounds, counted[0], last, strict=True)
        ]
        again = estimate(metadata.domains, total, rounds, counted[1])
        marginals = [
            [own.in_order_of(other) for own, other in zip(*both, strict=True)]
            for both in zip(again, marginals, strict=True)
        ]
    answers = [{name: getattr(own, name) for name in _TABLES} for own in sites]
    # Second moments are means over the rows of a class, of which each site has a part.
    known = [known_sizes(own.model.metadata.classes, own.rounds) for own in sites]
    for answer, parts in zip(answers, known / np.sum(known, axis=0), strict=True):
        answer["moments"] = {
            c: SecondMoments(parts[c] * own.covariances, parts[c] * own.noise_std)
            for c, own in answer["moments"].items()
        }
    added = replace(
        first,
        model=TableModel(replace(metadata, classes=total), marginals),
        rounds=rounds,
        noise_stds=tuple(_sum([[*own.noise_stds] for own in sites], "std")),
        cells=None,
        groups=None,
        **_sum(answers),
    )
    return replace(added, relations=_relations_of(added))


def _queries(own: Measured) -> Iterator[tuple[str, Any]]:
    """List what must be equal so that answers can be added up, columns first."""
    metadata, label = own.model.metadata, own.model.metadata.layout.label_column
    listed = [*metadata.columns, *([] if label is None else [label])]
    yield "columns", [(column.name, column.kind) for column in listed]
    for column, domain in zip(metadata.columns, metadata.domains, strict=True):
        yield f"dtypes ({column.name!r})", column.stores
        yield f"ranges, decimals or categories ({column.name!r})", domain
    yield f"labels ({metadata.layout.target!r})", metadata.classes.labels
    sizes = None if metadata.units is None else metadata.units.sizes
    yield "values of max_rows_per_unit", None if sizes is None else len(sizes)
    # Of tables of one column the outer bins have all values beyond.
    last = chain.from_iterable(of_class[-1:] for of_class in own.rounds)
    yield (
        "bins of one column",
        [
            (one.columns, {j: edges[1:-1].tolist() for j, edges in one.edges.items()})
            for one in last
        ],
    )
    bins = own.bins.columns
    yield "bins", [(one.edges.tolist(), one.of_code.tolist(), one.zero) for one in bins]
    for name in _TABLES:
        tables = getattr(own, name)
        of_classes = tables if isinstance(tables, dict) else {None: tables}
        yield (
            f"tables ({name})",
            {c: _query(tables or ()) for c, tables in of_classes.items()},
        )


def _query(tables: tuple[Any, ...]) -> list[Any]:
    """Return the arrays of tables that say what was asked, and the shapes of all."""
    arrays = [value for value in tables if isinstance(value, np.ndarray)]
    return [(own.shape, own.dtype in _OF_QUERIES and own.tobytes()) for own in arrays]


def _sum(values: Sequence[Any], name: str = "") -> Any:  # noqa: ANN401 - of any kind
    """Add up answers to the same query; of standard deviations, the variances."""
    first = values[0]
    if isinstance(first, list):
        return [_sum(own, name) for own in zip(*values, strict=True)]
    if isinstance(first, dict):
        return {key: _sum([own[key] for own in values]) for key in first}
    if isinstance(first, CentredCounts):
        return CentredCounts(**_sums(values, *vars(first)))
    if hasattr(first, "_fields"):
        return first._replace(**_sums(values, *first._fields))
    if first is None or getattr(first, "dtype", None) in _OF_QUERIES:
        return first
    return np.hypot.reduce(values) if "std" in name else sum(values)


def _sums(records: Sequence[Any], *names: str) -> dict[str, Any]:
    """Add up some parts of records."""
    return {name: _sum([getattr(own, name) for own in records], name) for name in names}


def _relations_of(own: Measured) -> Relations | None:
    """Find the relations of all sites, in finer cells as the first site found them."""
    first, classes = own.relations, own.model.metadata.classes
    if first is None:
        return None
    found = find_relations(own.pairs, own.shares, own.bins.starts, own.together)
    if first.finer is None:
        return found
    cells = first.finer.bins
    of_classes = [cells.shares(cells.ranks(each)) for each in own.model.marginals]
    shares = pooled(of_classes, classes.prior, list(own.pairs))
    return with_cells_of(first, found, first.finer, shares)
