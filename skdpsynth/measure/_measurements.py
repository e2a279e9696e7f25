"""The measurements of a fit: what was released, and what follows from it."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdpsynth.exceptions import InvalidSchemaError, PersistenceError, ReservationError
from skdpsynth.measure._bins import (
    Bin,
    ColumnBins,
    FinerBins,
    TableBins,
    check_edges,
    in_order,
)
from skdpsynth.measure._marginals import estimate, flat_marginals, known_sizes
from skdpsynth.measure._query import QUERIES, Measurement, Query, decoded, encoded
from skdpsynth.measure._relations import (
    PairTables,
    Relations,
    find_relations,
    with_cells,
    with_ranks,
    with_together,
)
from skdpsynth.measure._shares import (
    COARSE_BINS,
    FEW,
    MOST_TABLES,
    N_CELLS,
    RARE,
    TRIPLE_COLUMNS,
    WIDE,
)
from skdpsynth.measure._table_model import (
    TableModel,
    metadata_from_state,
    metadata_to_state,
)
from skdpsynth.privacy import (
    UNLABELLED,
    PrivacyAccountant,
    PrivacyReport,
    scope_words,
    unit_words,
)
from skdpsynth.schema import TableSchema
from skdpsynth.table import ColumnDomain, MarginalTransform, Metadata, NumericDomain
from skdpsynth.utils import (
    DAMAGED,
    FEW_NUMBERS,
    MAX_BYTES,
    check_array,
    check_new,
    parse_json,
    read_text,
    require,
)
from skdpsynth.utils.arrays import Bools, Floats

_FORMAT = "skdpsynth measurements 3"
_OTHER_VERSION = (
    "measurements that another version wrote ({!r:.80}); install it and sample there by"
    " MarginalSynthesizer.from_measurements(Measurements.load(path)).sample(1000)"
)


@dataclass(frozen=True, eq=False)
class Table:
    """One noisy table of a fit, with names.

    It has no columns for the number of rows, up to three for counts, which may be
    negative, and all for second moments, without bins: covariances of normal scores,
    whose diagonal is not measured and NaN. So are finer tables of two columns where
    nothing was counted. The noise is that of each value; that of the number of rows,
    which completes the counts of one column, is with that number. The label is that of
    the class; None for all rows, or those of all classes with tables of two columns,
    and of rows without a label if these have some, which are named where they are
    alone.
    """

    columns: tuple[Hashable, ...]
    bins: tuple[tuple[Bin, ...], ...]
    values: NDArray[np.floating]
    noise_std: float
    class_label: Hashable = None

    @property
    def order(self) -> int:
        """Number of columns."""
        return len(self.columns)

    def cells(self) -> Iterator[tuple[str, float]]:
        """Return the bins of every value, as a text, and the value."""
        if self.bins or not self.columns:
            texts = ("; ".join(map(str, bins)) for bins in product(*self.bins))
            yield from zip(texts, self.values.ravel().tolist(), strict=True)
            return
        for i, j in zip(*np.triu_indices(self.order, 1), strict=True):
            yield f"{self.columns[i]}; {self.columns[j]}", float(self.values[i, j])


class Measurements:
    """All noisy answers of a fit, in the order of their release; public.

    A generator is fitted to these and to nothing else.

    Parameters
    ----------
    metadata : Metadata
        What is public of the table.
    released : iterable of Measurement
        The answers.
    planned_stds : array-like of shape (n_classes,)
        Planned noise of the counts of tables of one column, in rows.
    edges : dict of int to ndarray
        Edges of the cells of each numeric column, which its marginals are made of.

    See Also
    --------
    skdpsynth.combine_measurements : Adds up those of several sites.
    skdpsynth.MarginalSynthesizer.from_measurements : Fits a generator to them.

    Examples
    --------
    >>> from skdpsynth import MarginalSynthesizer
    >>> from skdpsynth.datasets import load_thyroid
    >>> synth = MarginalSynthesizer(epsilon=3.0, target="class", random_state=0)
    >>> measurements = synth.fit(load_thyroid()).measurements_
    >>> sorted({table.order for table in measurements.tables()})
    [0, 1, 2]
    """

    def __init__(
        self,
        metadata: Metadata,
        released: Iterable[Measurement] = (),
        planned_stds: Sequence[float] | Floats | None = None,
        edges: Mapping[int, Floats] | None = None,
    ) -> None:
        self.metadata = metadata
        self._released = tuple(released)
        stds = np.zeros(len(metadata.classes)) if planned_stds is None else planned_stds
        self.planned_stds = np.array(stds, dtype=np.float64)
        self.edges = {} if edges is None else edges
        # Of all columns, D of them, if there are tables of two columns.
        of_pairs = (pairs.query.bins for pairs in self._of_kind("pairs"))
        self.bins: Any = next(of_pairs, None)
        self._claim: tuple[TableSchema, PrivacyReport] | None = None
        self._check()

    def _check(self) -> None:
        """Raise a ValueError unless all parts are of the same columns and classes."""
        domains, scopes = self.metadata.domains, self.metadata.classes.scopes
        check_array(self.planned_stds, "float64", (len(scopes),), 0)
        for j, edges in self.edges.items():
            require(type(j) is int and 0 <= j < len(domains), "cells")
            require(isinstance(domains[j], NumericDomain), "cells")
            check_edges(edges)
        for answer in self:
            query, places = answer.query, self._places(answer)
            require(places == sorted(places), "classes in another order")
            query.check(domains)
            if query.kind == "moments":
                require(places == [query.position], "second moments of another class")
        rounds = [[one.query for one in of_class] for of_class in self.rounds_by_class]
        require(all(rounds) or not any(rounds), "rounds")
        for *first, last in filter(None, rounds):  # a coarse one at most, then all
            require(not last.coarse and all(one.coarse for one in first), "rounds")
            require(last.columns == (*range(len(domains)),), "rounds")
            require(len(first) <= 1 and set(self.edges) == set(last.edges), "cells")
        others = [o for o in self if o.query.kind not in ("marginals", "pairs")]
        asked = [(one.query.kind, scope) for one in others for scope in one.scopes]
        require(len({*asked}) == len(asked), "an answer that comes twice")
        of_pairs = self._of_kind("pairs")
        require(all(pairs.query.bins is self.bins for pairs in of_pairs), "other bins")
        of_bins = of_pairs or any(kind != "moments" for kind, _ in asked)
        require(self.has_pairs.any() or not of_bins, "tables of no pairs")
        for answer in self._of_kind("cells", "ranks"):
            answer.query.finer.check(domains, self.bins)
        alone = not of_pairs or self.together is None
        require(alone or self.joined.sum() > 1, "classes")

    def and_more(self, *more: Measurement) -> Measurements:
        """Return these and others; for synthesizers.

        Parameters
        ----------
        *more : Measurement
            Answers of the same fit, but no marginals.

        Returns
        -------
        Measurements
            All of them.
        """
        given = (*self, *more), self.planned_stds, self.edges
        together = Measurements(self.metadata, *given)
        together.__dict__["estimates"] = self.estimates
        return together

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 - one, or some
        return self._released[place]

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self._released)

    def __len__(self) -> int:
        return len(self._released)

    def __repr__(self) -> str:
        kinds = [answer.query.kind for answer in self]
        listed = (f"{kinds.count(kind)} of {kind}" for kind in dict.fromkeys(kinds))
        return f"<Measurements: {', '.join(listed) or 'none'}>"

    # --- For users ----------------------------------------------------------------

    @property
    def schema(self) -> TableSchema:
        """What was declared and measured of the table, but numbers of rows.

        For fits at other sites, so that all measurements can be combined.
        """
        return self.claim[0]

    @property
    def report(self) -> PrivacyReport:
        """The claim of who made them."""
        return self.claim[1]

    def tables(self) -> list[Table]:
        """List all noisy tables, with the names of columns and bins.

        Returns
        -------
        list of Table
            Each has ``columns``, ``bins``, ``values``, ``noise_std``, ``class_label``
            and ``order``, the number of columns.
        """
        classes, columns = self.metadata.classes, self.metadata.columns
        labels = {scope: scope for scope in (*classes.scopes, None)}
        labels[UNLABELLED] = UNLABELLED.value
        counted = zip(classes.scopes, classes.counts, classes.noise_std, strict=True)
        listed = [
            Table((), (), np.array(count), std, labels[scope])
            for scope, count, std in counted
            if std
        ]
        sizes = {None: 0.0, **dict(zip(classes.scopes, self.sizes, strict=True))}
        for answer in self:
            for scope in answer.scopes:
                given = answer.of(scope), self.metadata, float(sizes[scope])
                for places, bins, values, std in answer.query.describe(*given):
                    names = tuple(columns[j].name for j in places)
                    listed.append(Table(names, bins, values, std, labels[scope]))
        return listed

    def to_frame(self) -> pd.DataFrame:
        """List all values, one per row.

        Returns
        -------
        DataFrame
            With columns ``class``, ``columns`` and ``bins``, which are texts, ``value``
            and ``noise_std``.
        """
        import pandas as pd

        rows: list[tuple[Any, ...]] = []
        for table in self.tables():
            first = table.class_label, ", ".join(map(str, table.columns))
            rows += [(*first, *cell, table.noise_std) for cell in table.cells()]
        columns = ["class", "columns", "bins", "value", "noise_std"]
        return pd.DataFrame(rows, columns=columns)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write them to a JSON file.

        Parameters
        ----------
        path : path-like
            The file.
        overwrite : bool, default=False
            Whether to replace a file that is there.

        Raises
        ------
        FileExistsError
            If there is such a file: what is in it may have cost a budget.
        PersistenceError
            If the file would be larger than `load` reads.
        """
        check_new(path, overwrite=overwrite)
        (schema, report), classes = self.claim, self.metadata.classes
        of_bins = [*self._of_kind("pairs")[:1], *self._of_kind("cells")]
        document = {
            "format": _FORMAT,
            "schema": schema.to_dict(),
            "report": report.to_dict(),
            "table": metadata_to_state(self.metadata),
            "counts": encoded(classes.counts),
            "noise": classes.noise_std.tolist(),
            "planned_stds": self.planned_stds.tolist(),
            "cells": encoded(self.edges),
            "bins": [
                [{k: encoded(x) for k, x in vars(one).items()} for one in bins.columns]
                for bins in (one.query.bins for one in of_bins)
            ],
            "released": [
                {
                    **answer.query.to_json(),
                    "of": self._places(answer),
                    "values": encoded(answer.values),
                    "std": encoded(answer.noise_std.tolist()),
                    "mu": encoded(answer.mu.tolist()),
                }
                for answer in self
            ],
        }
        text = json.dumps(document)
        if len(text) > MAX_BYTES:
            raise PersistenceError(
                f"Expected measurements of at most {MAX_BYTES:,} bytes. Got"
                f" {len(text):,}; save the fitted synthesizer, which holds what samples"
                " need."
            )
        Path(path).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        Measurements
            Public data of the file's author. It proves nothing of its privacy: that
            claim is in the report of the fit which made it.

        Raises
        ------
        PersistenceError
            If the file is no such file, or damaged.
        """
        name = Path(path).name
        try:
            return cls._from_json(parse_json(read_text(path)))
        except (*DAMAGED, InvalidSchemaError) as error:
            other = "another file, or damaged; save it again"
            words = error if isinstance(error, PersistenceError) else other
            raise PersistenceError(
                f"Expected what Measurements.save writes. Got {name!r}: {words}."
            ) from error

    @classmethod
    def _from_json(cls, document: Mapping[str, Any]) -> Self:
        if document["format"] != _FORMAT:  # 1 and 2 were of no release
            raise PersistenceError(
                _OTHER_VERSION.format(document["report"]["software"])
            )
        schema = TableSchema.from_dict(document["schema"])
        counts = decoded(document["counts"])
        metadata = metadata_from_state(document["table"], schema, counts)
        classes = replace(metadata.classes, noise_std=document["noise"])
        metadata = replace(metadata, classes=classes)
        every = [_bins_from_json(part, metadata.domains) for part in document["bins"]]
        shared: dict[str, Any] = {"domains": metadata.domains, "model": None}
        shared |= zip(("bins", "finer"), every, strict=False)
        if "finer" in shared:
            shared["finer"] = FinerBins(shared["finer"], shared["bins"])
        released, scopes = [], metadata.classes.scopes
        for answer in document["released"]:
            query, places = _query_from_json(answer, shared), answer["of"]
            require(all(type(c) is int and c >= 0 for c in places), "a class")
            asked = tuple(scopes[c] for c in places) or (None,)
            parts = (decoded(answer[name]) for name in ("values", "std", "mu"))
            values, std, mu = map(np.asarray, parts)
            released.append(Measurement(query, values, std, mu, asked))
        stds, cells = document["planned_stds"], decoded(document["cells"])
        report = PrivacyReport.from_dict(document["report"])
        return cls(metadata, released, stds, cells)._with_claim(schema, report)

    # --- For generators -----------------------------------------------------------

    @property
    def claim(self) -> tuple[TableSchema, PrivacyReport]:
        """The schema and the report of the fit that they are of."""
        if self._claim is None:
            raise ValueError(
                "These measurements are not of a fit that was finished. Expected"
                " `measurements_` of a fitted synthesizer, or what `Measurements.load`"
                " or `combine_measurements` returned."
            )
        return self._claim

    def conclude(
        self,
        accountant: PrivacyAccountant,
        schema: TableSchema,
        report: PrivacyReport,
    ) -> None:
        """Check that a ledger charges these answers and no others, and add its claim.

        Parameters
        ----------
        accountant : PrivacyAccountant
            The ledger of the fit.
        schema : TableSchema
            What was declared and measured of the table.
        report : PrivacyReport
            The claim.

        Raises
        ------
        ReservationError
            If the ledger charges something else.
        """
        ours = sorted(
            (o.query.name, scope_words(scope), mu, std / o.query.spacing)
            for o in self
            for scope, mu, std in zip(o.scopes, o.mu, o.noise_std, strict=True)
        )
        lines = accountant.answers
        charged = sorted((e.name, e.scope, e.mu_total, e.noise_std) for e in lines)
        same = len(ours) == len(charged) and all(
            our[:2] == line[:2] and np.allclose(our[2:], line[2:], rtol=1e-9)
            for our, line in zip(ours, charged, strict=True)
        )
        if not same or any(line.used != line.releases for line in lines):
            raise ReservationError(
                "The measurements of a fit are not what its ledger charges. Expected"
                " each answer once; set `measurements_` to all that were drawn, and"
                " reserve what is no answer with answer=False."
            )
        self._with_claim(schema, report)

    def _with_claim(self, schema: TableSchema, report: PrivacyReport) -> Self:
        """Add a claim that is not checked against the answers."""
        unit, most = schema.privacy_unit, schema.max_rows_per_unit
        whose = unit_words(unit, most or 1).items()
        require(whose <= vars(report).items(), "a claim of another unit")
        self._claim = replace(schema, n_rows=None, class_counts=None), report
        return self

    def _places(self, answer: Measurement) -> list[int]:
        """Return the positions of the classes of an answer; none if of all together."""
        scopes = self.metadata.classes.scopes
        if answer.scopes == (None,) and None not in scopes:
            return []
        return [scopes.index(scope) for scope in answer.scopes]

    def _of_kind(self, *kinds: str) -> list[Measurement]:
        """Return the answers to some kinds of queries."""
        return [answer for answer in self if answer.query.kind in kinds]

    def _by_class(self, kind: str) -> list[list[Measurement]]:
        """Return the answers to queries that differ by class, of each none or some."""
        every = self._of_kind(kind)
        return [
            [answer.of(scope) for answer in every if scope in answer.scopes]
            for scope in self.metadata.classes.scopes
        ]

    @property
    def rounds_by_class(self) -> list[list[Measurement]]:
        """The tables of one column of each class, whose bins differ."""
        return self._by_class("marginals")

    @property
    def triples_by_class(self) -> list[list[Measurement]]:
        """Tables of three columns of each class, none or once; their groups differ."""
        return self._by_class("triples")

    @property
    def opened_edges(self) -> dict[int, Floats]:
        """The edges for another table, whose rows may be beyond."""
        domains: Any = self.metadata.domains  # of numbers
        opened = {}
        for j, cells in self.edges.items():
            low = np.linspace(0.0, cells[0], COARSE_BINS[1] + 1)
            high = np.linspace(cells[-1], 1.0, COARSE_BINS[1] + 1)
            edges = np.unique(np.concatenate([low, cells, high]))
            opened[j] = domains[j].snap(edges)
        return opened

    @cached_property
    def sizes(self) -> Floats:
        """The number of rows of each class, as well as it is known."""
        return known_sizes(self.metadata.classes, self.rounds_by_class)

    @cached_property
    def estimates(self) -> list[list[MarginalTransform]]:
        """The marginals of each class that the tables of one column say."""
        domains = self.metadata.domains
        if not any(self.rounds_by_class):
            return flat_marginals(domains, len(self.metadata.classes))
        return estimate(domains, self.sizes, self.rounds_by_class, self.edges)

    @cached_property
    def model(self) -> TableModel:
        """The marginals of each class, with the categories of a bin side by side."""
        domains, prior = self.metadata.domains, self.metadata.classes.prior
        marginals = self.estimates
        if self.bins is not None:
            marginals = in_order(domains, marginals, prior, self.bins)
        return TableModel(self.metadata, marginals)

    @cached_property
    def ranks(self) -> Floats:
        """Where bins begin and end among ranks of their column, (n_classes, 2, D)."""
        return np.array([*map(self.bins.ranks, self.model.marginals)])

    @cached_property
    def bin_shares(self) -> Floats:
        """The share of each bin in its column, (n_classes, D)."""
        return np.array([*map(self.bins.shares, self.ranks)])

    @cached_property
    def has_pairs(self) -> Bools:
        """Which classes have tables of two columns of their own."""
        return np.array([*map(bool, self._by_class("pairs"))])

    @property
    def joined(self) -> Bools:
        """The classes whose tables of pairs are released together too."""
        return self.metadata.classes.joined(self.has_pairs)

    @cached_property
    def _pairs(self) -> PairTables:
        """Tables of two columns of each class, and last of the joined ones together."""
        classes = self.metadata.classes
        n_rows = np.append(classes.counts, classes.counts[self.joined].sum())
        scopes = *classes.scopes, None
        return PairTables.of(self._of_kind("pairs"), self.bins, scopes, n_rows)

    @cached_property
    def pairs(self) -> PairTables:
        """Tables of two columns of each class, of all answers."""
        return self._pairs[:-1]

    @property
    def together(self) -> PairTables | None:
        """Tables of two columns of the joined classes, all together."""
        return self._pairs[-1] if self._pairs.has[-1] else None

    @property
    def corrected(self) -> PairTables:
        """Tables of two columns of each class, corrected by those of all together."""
        together = self.together
        return self.pairs if together is None else with_together(self.pairs, together)

    @cached_property
    def relations(self) -> Relations:
        """Columns that follow another one, by the tables of two columns."""
        pairs, shown = self.pairs, self.joined
        # All of the same pairs: others are known of rows without a label, or of each
        # class.
        sets = pairs.asked[self.has_pairs]
        if shown.sum() < len(sets) or (sets != sets[0]).any():
            n_rows = np.where(self.has_pairs, pairs.n_rows, 0.0)
            shown = np.arange(len(n_rows)) == n_rows.argmax()
        given = pairs[shown], self.bin_shares[shown], self.bins, self.together
        relations = find_relations(*given)
        weights = self.metadata.classes.prior[self.joined]
        weights /= weights.sum()
        for answer in self._of_kind("cells", "ranks"):
            complete = with_cells if answer.query.kind == "cells" else with_ranks
            bins = answer.query.bins
            ranks = map(bins.ranks, self.model.marginals)
            shares = np.array([*map(bins.shares, ranks)])
            relations = complete(relations, answer, weights @ shares[self.joined])
        return relations

    @property
    def decided(self) -> Iterator[tuple[Hashable, ...]]:
        """Columns whose frequent categories decide another one, and the rare not."""
        for one in self.relations.each if self.has_pairs.any() else ():
            both, shares = (one.parent, one.child), one.shares
            if len(shares) < len(shares.T):
                both, shares = both[::-1], shares.T
            rest, other = (self.bins.columns[j].rest for j in both)
            columns = [self.metadata.columns[j] for j in both]
            known, rare = shares[: max(rest, 0)], shares[rest].sum()
            sure = known.max(axis=1).sum() >= (1.0 - RARE) * known.sum()
            sure &= one.strong and min(rest, other) >= 0 and rare > FEW
            if sure and all(column.original for column in columns):
                yield tuple(column.name for column in columns)


# --- Files ------------------------------------------------------------------------


def _query_from_json(data: Mapping[str, Any], shared: Mapping[str, Any]) -> Query:
    """Read a query, no larger than those of a fit; `shared` is what several share."""
    kind, n_columns = QUERIES[data["query"]], len(shared["domains"])
    fields = {name: decoded(data[name]) for name in kind.saved}
    if kind.kind == "marginals":
        fields["columns"] = tuple(fields["columns"])
    elif kind.kind == "triples":
        require(n_columns in TRIPLE_COLUMNS, "tables of three columns")
        require(fields["n_groups"] in range(2, FEW_NUMBERS), "groups")
    elif kind.kind == "cells":  # of a tree
        require(len(fields["sets"]) < n_columns, "sets of columns")
    elif kind.kind == "ranks":
        require(len(fields["sets"]) <= max(MOST_TABLES, n_columns), "sets of columns")
    names = kind.__dataclass_fields__.keys() - fields.keys()  # type: ignore[attr-defined]
    return kind(**fields, **{name: shared[name] for name in names})


def _bins_from_json(data: list[Any], domains: Sequence[ColumnDomain]) -> TableBins:
    """Read bins, so few that their tables fit into memory, as those of a fit do."""
    each = ({name: decoded(part) for name, part in column.items()} for column in data)
    bins = TableBins([ColumnBins(**arrays) for arrays in each])
    bins.check(domains)
    require(max(bins.sizes) <= N_CELLS * 2 * 2, "too many bins of a column")
    require(sum(bins.sizes) <= max(WIDE * FEW_NUMBERS, N_CELLS * 2), "too many bins")
    return bins
