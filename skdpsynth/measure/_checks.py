"""What the measurements of a fit have in common, whoever wrote them down.

Parts that do not fit together raise one of `DAMAGED` when they are put together: of a
file, before any row is read. Whether numbers that do are also
good ones, nobody can tell.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.measure._marginals import Round
from skdpsynth.measure._relations import FinerBins, Relation, Relations
from skdpsynth.measure._tables import (
    PairTables,
    SecondMoments,
    TableBins,
    TripleTables,
)
from skdpsynth.privacy import CentredCounts
from skdpsynth.table import CategoryDomain, NumericDomain, is_number
from skdpsynth.utils import check_array, check_groups, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skdpsynth.measure._measurements import Measured
    from skdpsynth.table import ColumnDomain

KINDS = {
    "pairs": PairTables,
    "triples": TripleTables,
    "moments": SecondMoments,
}


def check_measured(own: Measured) -> None:
    """Check that all parts are of the same columns, bins and classes."""
    domains, n_classes = own.model.metadata.domains, len(own.model.marginals)
    _check_bins(own.bins, domains)
    require(len(own.rounds) == len(own.noise_stds) == n_classes, "classes")
    _check_noise(*own.noise_stds)
    for j, edges in own.edges.items():
        require(isinstance(_at(domains, j), NumericDomain), "cells")
        _check_edges(edges)
    for one in chain.from_iterable(own.rounds):
        _check_round(one, domains)
    pairs = [*own.pairs.values(), *([] if own.together is None else [own.together])]
    for name, kind in KINDS.items():
        of_classes = getattr(own, name)
        for c in of_classes:
            require(type(c) is int and 0 <= c < n_classes, "another class")
        for tables in pairs if name == "pairs" else of_classes.values():
            require(isinstance(tables, kind), name)
            _check_noise(tables.noise_std)
    _check_tables(own, pairs, len(domains))
    require(own.relations is None or own.pairs, "relations of no tables")
    if own.relations is not None:
        _check_relations(own.relations, own.bins, domains)


def _check_bins(bins: TableBins, domains: Sequence[ColumnDomain]) -> None:
    """Check that the bins of every column are of what it can hold."""
    require(isinstance(bins, TableBins), "bins")
    for own, domain in zip(bins.columns, domains, strict=True):
        if isinstance(domain, CategoryDomain):
            require(len(own.of_code) == domain.n_codes and own.rest >= 0, "bins")
            require((own.of_code[-1] > own.rest) == domain.nullable, "bins")
        else:
            require(own.rest < 0 and own.zero in (None, domain.zero), "bins")
            require((own.of_code[-1] >= 0) == domain.nullable, "bins")


def _at(columns: Sequence[Any], place: object) -> Any:  # noqa: ANN401 - any column
    require(isinstance(place, int) and 0 <= place < len(columns), "a column")
    return columns[place]  # type: ignore[call-overload]


def _check_edges(edges: Any) -> None:  # noqa: ANN401
    check_array(edges, "float64", (len(edges),), 0, 1)
    require(len(edges) > 1 and (np.diff(edges) > 0).all(), "edges")


def _check_noise(*stds: Any) -> None:  # noqa: ANN401
    require(all(is_number(std) and std >= 0 for std in stds), "noise")


def _check_round(one: Round, domains: Sequence[ColumnDomain]) -> None:
    released = one.released
    require(isinstance(one, Round) and isinstance(released, CentredCounts), "rounds")
    own = {j: _at(domains, j) for j in one.columns}
    require(len(own) == len(one.columns), "rounds")
    numbers = {j for j, domain in own.items() if isinstance(domain, NumericDomain)}
    require(set(one.edges) == numbers, "rounds")
    for (j, domain), counts in zip(own.items(), released.deviations, strict=True):
        if j in numbers:
            _check_edges(one.edges[j])
            n_cells = len(one.edges[j]) - 1 + (domain.zero is not None)
        else:
            n_cells = len(domain.categories)
        check_array(counts, "float64", (n_cells + domain.nullable,))
    for apart in (released.apart, released.apart_stds):
        check_array(apart, "float64", (len(own),))
    _check_noise(released.noise_std)
    require(released.size_std >= 0 and math.isfinite(released.size), "rounds")


def _check_tables(own: Measured, pairs: list[PairTables], n_columns: int) -> None:
    size = int(own.bins.starts[-1])
    for two in pairs:
        check_array(two.counts, "float32", (size, size))
        check_array(two.measured, "bool", (size, size))
        _check_sets(two.pairs, 2, n_columns)
        require(is_number(two.n_rows) and two.n_rows > 0, "pairs")
    for three in own.triples.values():
        _check_sets(three.triples, 3, n_columns)
        require(len(three.triples) == math.comb(n_columns, 3), "triples")
        n = np.shape(three.counts)[-1]
        check_array(three.counts, "float32", (len(three.triples), n, n, n))
        check_array(three.groups, "int64", (size,), 0, n - 1)
    for moments in own.moments.values():
        check_array(moments.covariances, "float64", (math.comb(n_columns, 2),))


def _check_sets(sets: Any, n: int, n_columns: int) -> None:  # noqa: ANN401
    check_array(sets, "int64", (len(sets), n), 0, n_columns - 1)
    require(len(sets) and (np.diff(sets, axis=1) > 0).all(), "sets of columns")
    require(len(np.unique(sets, axis=0)) == len(sets), "sets of columns")


def _check_relations(
    relations: Relations, bins: TableBins, domains: Sequence[ColumnDomain]
) -> None:
    n_columns, finer, cells = len(domains), relations.finer, list[int]()
    require(isinstance(relations, Relations), "relations")
    _check_noise(relations.std)
    check_array(relations.information, "float64", (n_columns,) * 2)
    if finer is not None:
        require(isinstance(finer, FinerBins), "finer bins")
        _check_bins(finer.bins, domains)
        cells = finer.bins.sizes
        for within, n_cells, n in zip(finer.within, cells, bins.sizes, strict=True):
            require(len(within) == n_cells, "finer bins")
            check_groups(within, n)
    waiting = {one.child for one in relations.each}  # each comes after its parent's
    require(len(waiting) == len(relations.each), "relations")
    for one in relations.each:
        require(isinstance(one, Relation) and one.parent not in waiting, "relations")
        waiting.discard(one.child)
        one.check(bins.sizes, cells)
