"""What measurements need to be fitted again: as JSON, and checked when it is read.

It is all public. A file proves nothing: neither that its measurements are private, nor
that they are of any table. What is checked is that the parts fit together.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.measure._checks import require
from skdpsynth.measure._marginals import Round
from skdpsynth.measure._measurements import Measured
from skdpsynth.measure._model import TableModel
from skdpsynth.measure._parities import Parities
from skdpsynth.measure._relations import N_GROUPS, FinerBins, Relation, Relations
from skdpsynth.measure._tables import (
    ColumnBins,
    PairTables,
    SecondMoments,
    TableBins,
    TripleTables,
)
from skdpsynth.privacy import CentredCounts, PrivacyReport
from skdpsynth.schema import TableSchema
from skdpsynth.table import CategoryDomain, NumericDomain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(ColumnBins, TableBins, PairTables, TripleTables, SecondMoments),
        *(Parities, FinerBins, Relation, Relations, Round, CentredCounts),
    )
}
_DTYPES = {np.dtype(name).str for name in ("float64", "float32", "int64", "bool")}
_LEAST_LIFT = 1e-300  # its logarithm is finite
_PARTS = (
    "rounds",
    "edges",
    "bins",
    "pairs",
    "triples",
    "parities",
    "moments",
    "relations",
    "together",
)


@dataclass(frozen=True)
class Origin:
    """What a fit to measurements needs beside the tables, and who claims what of them.

    Parameters
    ----------
    measured : Measured
        The measurements; of finer cells of relations what follows from them.
    schema : TableSchema
        What was declared and measured of the table, but numbers of rows.
    report : PrivacyReport
        The claim of who made them.
    """

    measured: Measured
    schema: TableSchema
    report: PrivacyReport

    @classmethod
    def of(
        cls, measured: Measured, schema: TableSchema, report: PrivacyReport
    ) -> Origin:
        """Put together what a fit has in the end."""
        public = replace(schema, n_rows=None, class_counts=None)
        return cls(measured, public, report)

    def to_json(self) -> dict[str, Any]:
        """Give the form that a file holds."""
        table, arrays = self.measured.model.to_state()
        classes = self.measured.model.metadata.classes
        return {
            "schema": self.schema.to_dict(),
            "report": self.report.to_dict(),
            "table": table | {"noise_std": classes.noise_std},
            "arrays": {name: _encoded(array) for name, array in arrays.items()},
            "noise_stds": list(self.measured.noise_stds),
            "parts": {name: _encoded(getattr(self.measured, name)) for name in _PARTS},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Origin:
        """Read what `to_json` wrote; a ValueError and the like where it is damaged."""
        schema = TableSchema.from_dict(data["schema"])
        report = PrivacyReport.from_dict(data["report"])
        table = dict(data["table"])
        classes_std = _number(table.pop("noise_std"))
        arrays = {name: _decoded(array) for name, array in data["arrays"].items()}
        model = TableModel.from_state(table, arrays, schema)
        classes = replace(model.metadata.classes, noise_std=classes_std)
        model = replace(model, metadata=replace(model.metadata, classes=classes))
        parts = {name: _decoded(data["parts"][name]) for name in _PARTS}
        bins, rounds = parts.pop("bins"), parts.pop("rounds")
        _check_columns(bins, model.metadata.domains)
        _check_rounds(rounds, parts["edges"], model)
        ranks = [bins.ranks(own) for own in model.marginals]
        shares = [bins.shares(own) for own in ranks]
        stds = tuple(map(_number, data["noise_stds"]))
        require(len(stds) == len(classes) and min(stds) >= 0, "noise of other classes")
        measured = Measured(
            model, rounds, bins, ranks, shares, noise_stds=stds, **parts
        )
        _check_parts(measured, len(classes))
        return cls(measured, schema, report)


def _encoded(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"dtype": value.dtype.str, "shape": value.shape, "data": data}
    if type(value).__name__ in _KINDS:
        names = (
            [item.name for item in fields(value)]
            if is_dataclass(value)
            else value._fields
        )
        parts = {name: _encoded(getattr(value, name)) for name in names}
        return {"kind": type(value).__name__, "parts": parts}
    if isinstance(value, dict):
        return {"pairs": [[key, _encoded(own)] for key, own in value.items()]}
    if isinstance(value, list):
        return [*map(_encoded, value)]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": repr(float(value))}
    return value.item() if isinstance(value, np.generic) else value


def _decoded(data: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(data, list):
        return [*map(_decoded, data)]
    if not isinstance(data, dict):
        return data
    if "pairs" in data:
        return {key: _decoded(own) for key, own in data["pairs"]}
    if "number" in data:
        return float(data["number"])
    if "kind" in data:
        parts = {name: _decoded(own) for name, own in data["parts"].items()}
        return _KINDS[data["kind"]](**parts)
    require(data["dtype"] in _DTYPES, "an array of another type")
    found = np.frombuffer(base64.b64decode(data["data"]), dtype=data["dtype"])
    return found.reshape(data["shape"]).copy()


def _number(value: Any) -> float:  # noqa: ANN401 - JSON
    require(type(value) in (int, float) and math.isfinite(value), "no number")
    return float(value)


def _is(array: Any, kind: str, shape: tuple[int, ...], least: float = -np.inf) -> bool:  # noqa: ANN401
    """Tell whether something is a finite array of a dtype and a shape."""
    fits = isinstance(array, np.ndarray) and array.dtype == kind
    return bool(
        fits
        and array.shape == shape
        and np.isfinite(array).all()
        and (array >= least).all()
    )


def _check_columns(own: Any, domains: Any) -> None:  # noqa: ANN401
    require(isinstance(own, TableBins) and isinstance(own.columns, list), "bins")
    require(len(own.columns) == len(domains), "bins of other columns")
    for column, domain in zip(own.columns, domains, strict=True):
        require(isinstance(column, ColumnBins), "bins")
        categories = isinstance(domain, CategoryDomain)
        n_codes = domain.n_codes if categories else 3
        require(_is(column.of_code, "int64", (n_codes,), -1), "codes of bins")
        require(type(column.n_bins) is int and column.n_bins > 0, "bins")
        require((column.of_code < column.n_bins).all(), "codes of bins")
        edges = column.edges
        require(_is(edges, "float64", np.shape(edges)) and edges.ndim == 1, "edges")
        require((len(edges) == 0) == categories, "edges")
        if not categories:
            require(len(edges) > 1 and (np.diff(edges) > 0).all(), "edges")
            require(edges[0] == 0 and edges[-1] == 1, "edges")
            require(len(edges) - 1 <= column.n_bins, "edges")
            of_zero = column.of_code[1] >= 0
            require(of_zero == (column.zero is not None), "a zero")
            require(not of_zero or (edges == column.zero).any(), "a zero")


def _check_rounds(rounds: Any, cells: Any, model: TableModel) -> None:  # noqa: ANN401
    domains = model.metadata.domains
    require(isinstance(cells, dict), "cells")
    for j, edges in cells.items():
        fits = type(j) is int and isinstance(domains[j], NumericDomain)
        require(fits and _is(edges, "float64", np.shape(edges), 0), "cells")
        require(edges.ndim == 1 and len(edges) > 1 and edges[-1] <= 1, "cells")
        require((np.diff(edges) > 0).all(), "cells")
    require(isinstance(rounds, list) and len(rounds) == len(model.marginals), "rounds")
    for one in chain.from_iterable(rounds):
        require(isinstance(one, Round), "rounds")
        released, columns = one.released, one.columns
        require(isinstance(released, CentredCounts), "rounds")
        require(
            all(type(j) is int and 0 <= j < len(domains) for j in columns), "rounds"
        )
        require(len(released.deviations) == len(columns), "rounds")
        numeric = {j for j in columns if isinstance(domains[j], NumericDomain)}
        require(set(one.edges) == numeric, "rounds")
        for j, own in zip(columns, released.deviations, strict=True):
            domain = domains[j]
            if isinstance(domain, NumericDomain):
                edges = one.edges[j]
                require(_is(edges, "float64", np.shape(edges)), "rounds")
                require(edges.ndim == 1 and (np.diff(edges) > 0).all(), "rounds")
                n_cells = len(edges) - 1 + (domain.zero is not None)
            else:
                n_cells = len(domain.categories)
            require(_is(own, "float64", (n_cells + domain.nullable,)), "rounds")
        for own in (released.apart, released.apart_stds):
            require(_is(own, "float64", (len(columns),)), "rounds")
        require(_number(released.noise_std) >= 0, "rounds")
        require(released.size_std >= 0 and math.isfinite(released.size), "rounds")


def _check_parts(own: Measured, n_classes: int) -> None:
    n_columns, size = len(own.bins.columns), int(own.bins.starts[-1])
    for name in ("pairs", "triples", "parities", "moments"):
        for c in getattr(own, name):
            require(type(c) is int and 0 <= c < n_classes, "another class")
    tables: list[Any] = [*own.pairs.values()]
    for two in tables if own.together is None else [*tables, own.together]:
        require(isinstance(two, PairTables), "pairs")
        require(_is(two.counts, "float32", (size, size)), "pairs")
        require(_is(two.measured, "bool", (size, size)), "pairs")
        _check_sets(two.pairs, 2, n_columns)
        require(_number(two.noise_std) >= 0 < _number(two.n_rows), "pairs")
    for three in own.triples.values():
        _check_sets(three.triples, 3, n_columns)
        n = np.shape(three.counts)[-1]
        require(_is(three.counts, "float32", (len(three.triples), n, n, n)), "triples")
        require(_is(three.groups, "int64", (size,), 0), "triples")
        require((three.groups < n).all() and _number(three.noise_std) >= 0, "triples")
    for many in own.parities.values():
        require(_is(many.halves, "int64", (size,), 0), "parities")
        require(_is(many.sets, "bool", (len(many.sums), n_columns)), "parities")
        require(_is(many.sums, "float64", (len(many.sums),)), "parities")
        require((many.halves <= 1).all() and _number(many.noise_std) >= 0, "parities")
    n_pairs = n_columns * (n_columns - 1) // 2
    for moments in own.moments.values():
        require(_is(moments.covariances, "float64", (n_pairs,)), "moments")
        require(_number(moments.noise_std) >= 0, "moments")
    require((own.relations is None) or own.pairs, "relations of no tables")
    if own.relations is not None:
        _check_relations(own, n_columns)


def _check_sets(sets: Any, n: int, n_columns: int) -> None:  # noqa: ANN401
    require(_is(sets, "int64", (len(sets), n), 0), "sets of columns")
    require(len(sets) and (sets < n_columns).all(), "sets of columns")
    require((np.diff(sets, axis=1) > 0).all(), "sets of columns")


def _check_relations(own: Measured, n_columns: int) -> None:
    relations, sizes = own.relations, own.bins.sizes
    require(isinstance(relations, Relations), "relations")
    assert relations is not None
    require(_number(relations.std) >= 0, "relations")
    require(_is(relations.information, "float64", (n_columns,) * 2), "relations")
    cells = sizes
    if relations.finer is not None:
        finer = relations.finer
        require(isinstance(finer, FinerBins), "finer bins")
        _check_columns(finer.bins, own.model.metadata.domains)
        cells = finer.bins.sizes
        require(len(finer.within) == n_columns, "finer bins")
        for within, n_cells, n_bins in zip(finer.within, cells, sizes, strict=True):
            require(_is(within, "int64", (n_cells,), 0), "finer bins")
            require((np.diff(within) >= 0).all(), "finer bins")
            require(np.array_equal(np.unique(within), np.arange(n_bins)), "finer bins")
    for one in relations.each:
        require(isinstance(one, Relation), "relations")
        pair = one.parent, one.child
        require(all(type(j) is int and 0 <= j < n_columns for j in pair), "relations")
        shape = sizes[one.parent], sizes[one.child]
        require(one.parent != one.child, "relations")
        _check_shares(one.shares, shape)
        if one.cells is not None:
            require(relations.finer is not None, "relations")
            _check_shares(one.cells, (cells[one.parent], cells[one.child]))
        require((one.second is None) == (one.lift is None), "relations")
        if one.second is not None:
            require(type(one.second) is int and one.second not in pair, "relations")
            require(0 <= one.second < n_columns and one.cells is not None, "relations")
            shape = N_GROUPS, sizes[one.second]
            require(_is(one.lift, "float64", shape, _LEAST_LIFT), "relations")


def _check_shares(shares: Any, shape: tuple[int, ...]) -> None:  # noqa: ANN401
    require(_is(shares, "float64", shape, 0), "relations")
    require(abs(float(shares.sum()) - 1.0) < 1e-3, "relations")  # written as they are
