"""What the measurements of a fit have in common, whoever wrote them down.

Parts that do not fit together raise a ValueError, TypeError or LookupError when they
are put together: of a file, before any row is read. Whether numbers that do are also
good ones, nobody can tell.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.measure._marginals import Round
from skdpsynth.measure._relations import N_GROUPS, FinerBins, Relation, Relations
from skdpsynth.measure._tables import (
    PairTables,
    SecondMoments,
    TableBins,
    TripleTables,
)
from skdpsynth.privacy import CentredCounts
from skdpsynth.table import CategoryDomain, NumericDomain, is_number
from skdpsynth.utils import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skdpsynth.measure._measurements import Measured
    from skdpsynth.table import ColumnDomain

_LEAST_LIFT = 1e-300  # its logarithm is finite
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
    require(all(is_number(std) and std >= 0 for std in own.noise_stds), "noise")
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
            require(is_number(tables.noise_std) and tables.noise_std >= 0, "noise")
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


def _is(array: Any, kind: str, shape: tuple[int, ...], least: float = -np.inf) -> bool:  # noqa: ANN401
    """Return whether something is a finite array of a dtype and a shape."""
    fits = isinstance(array, np.ndarray) and array.dtype == kind
    return bool(
        fits
        and array.shape == shape
        and np.isfinite(array).all()
        and (array >= least).all()
    )


def _check_edges(edges: Any) -> None:  # noqa: ANN401
    require(_is(edges, "float64", (len(edges),), 0), "edges")
    require(len(edges) > 1 and edges[-1] <= 1 and (np.diff(edges) > 0).all(), "edges")


def _check_round(one: Round, domains: Sequence[ColumnDomain]) -> None:
    released = one.released
    require(isinstance(one, Round) and isinstance(released, CentredCounts), "rounds")
    own = [_at(domains, j) for j in one.columns]
    numbers = {
        j
        for j, domain in zip(one.columns, own, strict=True)
        if isinstance(domain, NumericDomain)
    }
    require(set(one.edges) == numbers, "rounds")
    for j, domain, counts in zip(one.columns, own, released.deviations, strict=True):
        if isinstance(domain, NumericDomain):
            _check_edges(one.edges[j])
            n_cells = len(one.edges[j]) - 1 + (domain.zero is not None)
        else:
            n_cells = len(domain.categories)
        require(_is(counts, "float64", (n_cells + domain.nullable,)), "rounds")
    for apart in (released.apart, released.apart_stds):
        require(_is(apart, "float64", (len(own),)), "rounds")
    require(is_number(released.noise_std) and released.noise_std >= 0, "rounds")
    require(released.size_std >= 0 and math.isfinite(released.size), "rounds")


def _check_tables(own: Measured, pairs: list[PairTables], n_columns: int) -> None:
    size = int(own.bins.starts[-1])
    for two in pairs:
        require(_is(two.counts, "float32", (size, size)), "pairs")
        require(_is(two.measured, "bool", (size, size)), "pairs")
        _check_sets(two.pairs, 2, n_columns)
        require(is_number(two.n_rows) and two.n_rows > 0, "pairs")
    for three in own.triples.values():
        _check_sets(three.triples, 3, n_columns)
        require(len(three.triples) == math.comb(n_columns, 3), "triples")
        n = np.shape(three.counts)[-1]
        require(_is(three.counts, "float32", (len(three.triples), n, n, n)), "triples")
        require(_is(three.groups, "int64", (size,), 0), "triples")
        require((three.groups < n).all(), "triples")
    for moments in own.moments.values():
        n_pairs = math.comb(n_columns, 2)
        require(_is(moments.covariances, "float64", (n_pairs,)), "moments")


def _check_sets(sets: Any, n: int, n_columns: int) -> None:  # noqa: ANN401
    require(_is(sets, "int64", (len(sets), n), 0), "sets of columns")
    require(len(sets) and (sets < n_columns).all(), "sets of columns")
    require((np.diff(sets, axis=1) > 0).all(), "sets of columns")
    require(len(np.unique(sets, axis=0)) == len(sets), "sets of columns")


def _check_relations(
    relations: Relations, bins: TableBins, domains: Sequence[ColumnDomain]
) -> None:
    n_columns, sizes = len(domains), bins.sizes
    require(isinstance(relations, Relations), "relations")
    require(is_number(relations.std) and relations.std >= 0, "relations")
    require(_is(relations.information, "float64", (n_columns,) * 2), "relations")
    cells, finer = sizes, relations.finer
    if finer is not None:
        require(isinstance(finer, FinerBins), "finer bins")
        _check_bins(finer.bins, domains)
        cells = finer.bins.sizes
        for within, n_cells, n_bins in zip(finer.within, cells, sizes, strict=True):
            require(_is(within, "int64", (n_cells,), 0), "finer bins")
            require((np.diff(within) >= 0).all(), "finer bins")
            require(np.array_equal(np.unique(within), np.arange(n_bins)), "finer bins")
    children = {one.child for one in relations.each}
    require(len(children) == len(relations.each), "relations")
    waiting = set(children)  # each comes after that of its parent
    for one in relations.each:
        require(isinstance(one, Relation) and type(one.strong) is bool, "relations")
        require(one.parent not in waiting, "relations")
        waiting.discard(one.child)
        _check_shares(one.shares, (_at(sizes, one.parent), _at(sizes, one.child)))
        if one.cells is not None:
            require(finer is not None, "relations")
            _check_shares(one.cells, (cells[one.parent], cells[one.child]))
        require((one.second is None) == (one.lift is None), "relations")
        if one.second is not None:
            require(one.second not in (one.parent, one.child), "relations")
            require(one.cells is not None, "relations")
            shape = N_GROUPS, _at(sizes, one.second)
            require(_is(one.lift, "float64", shape, _LEAST_LIFT), "relations")


def _check_shares(shares: Any, shape: tuple[int, ...]) -> None:  # noqa: ANN401
    require(_is(shares, "float64", shape, 0), "relations")
    require(abs(float(shares.sum()) - 1.0) < 1e-3, "relations")  # written as they are
