"""The root table, whose fit goes on with the tables that hang on it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdpsynth.linked._chain import LinkModel
from skdpsynth.linked._columns import Column
from skdpsynth.linked._release import SHAPES_SHARE, measure_link
from skdpsynth.linked._rows import Rows
from skdpsynth.linked._schema import HIDDEN, Link, LinkedSchema
from skdpsynth.linked._tree import Tree, cells_of, pairs_of, values_of, weights_of
from skdpsynth.measure import (
    Allocation,
    Measurement,
    TableModel,
    metadata_from_state,
    metadata_to_state,
)
from skdpsynth.model import series_of
from skdpsynth.privacy import (
    GRID,
    PrivacyAccountant,
    PrivacyBudget,
    PrivacyReport,
    unit_words,
)
from skdpsynth.sampling import frame_of, unread_values
from skdpsynth.schema import UNREAD, TableSchema
from skdpsynth.synthesizers import MarginalSynthesizer
from skdpsynth.table import (
    CategoryDomain,
    Metadata,
    NumericDomain,
    TableLayout,
    TableRows,
    declared_metadata,
    largest_remainder,
)
from skdpsynth.utils import EXCESS, require
from skdpsynth.utils.arrays import Floats, Ints

# Of the squared mu: what the root has; the links share the rest equally. With .2 and .3
# the scores of visits and households were the same within noise.
ROOT_SHARE = 0.3
N_SYNTHETIC = 30_000  # parents that chains are fitted with
_LEFT_OUT = (
    "Rows whose key names no row of the parent, rows beyond max_rows and rows without a"
    " value of order_by were left out; whether there were any is not told. A row whose"
    " key names rows of several units is protected by none of them."
)


class Root(MarginalSynthesizer):
    """Learns the root by itself, then each other table given its parent."""

    _share = ROOT_SHARE
    linked: LinkedSchema
    rows: Rows | None = None  # of one table with order
    tree: Tree | None = None  # all rows, while it is fitted
    # By child: what was released, and what rows are drawn from.
    measured: Mapping[str, list[Measurement]]
    models: Mapping[str, LinkModel]
    metadata: Mapping[str, Metadata]

    def _accountant(
        self,
        layout: TableLayout,
        schema: TableSchema,
        epsilon: float,
        budget: PrivacyBudget | None = None,
    ) -> PrivacyAccountant:
        accountant = super()._accountant(layout, schema, epsilon)
        if budget is not None:
            unit = self.linked.root if self.rows else self.linked._unit
            budget.charge(epsilon, self.delta, label=f"fit, per {unit}", unit=unit)
        return accountant

    def _fit(
        self,
        rows: TableRows,
        metadata: Metadata,
        plans: list[Allocation],
        accountant: PrivacyAccountant,
        seed: int,
    ) -> TableModel:
        model = super()._fit(rows, metadata, plans, accountant, seed)
        rng = np.random.default_rng([seed, 2])
        counts = largest_remainder(model.metadata.classes.prior, N_SYNTHETIC)
        size = N_SYNTHETIC, N_SYNTHETIC
        drawn = next(self._frames(*size, counts, model, rng, unit=False))
        accountant.use_all()
        assert self.tree is not None
        self._learn(self.tree, drawn, pairs_of(model.metadata), accountant, rng)
        layout = replace(model.metadata.layout, container=self.tree.container)
        return replace(model, metadata=replace(model.metadata, layout=layout))

    def _learn(
        self,
        tree: Tree,
        drawn: pd.DataFrame,
        known: Sequence[Any],
        accountant: PrivacyAccountant,
        rng: np.random.Generator,
    ) -> None:
        """Measure all tables that hang on the root, and fit their chains.

        `drawn` are synthetic rows of the root, `known` its columns.
        """
        root, links = self.linked.root, self.linked.links
        mu = accountant.remaining_mu() * math.sqrt((1.0 - EXCESS) / len(links))
        # Of each table private rows and synthetic ones: their values and weights.
        rows = {root: values_of(tree.frames[root], known)}
        weights = {root: np.full(len(rows[root]), GRID)}
        synthetic = {root: (values_of(drawn, known), np.ones(len(drawn)))}
        columns = {root: [Column(str(own.name), kind) for own, kind in known]}
        measured, models = {}, {}
        for link in links:
            table, above, parent = link.child, link.parent, tree.parents[link.child]
            own = pairs_of(tree.metadata[table], link.order_by)
            hidden = [column.numbers for column in tree.hidden[table]]
            rows[table] = np.column_stack((values_of(tree.frames[table], own), *hidden))
            private = rows[table], parent, rows[above], weights[above]
            model = new_model(link, tree, columns[above])
            parents, shares = synthetic[above]
            n = numbers_of(link, model, parents)
            given = parents, n, shares
            released = measure_link(model, table, private, given, accountant, mu)
            measured[table], found = released
            counts = {key: values for key, (values, _) in found.items()}
            model.fit(
                counts, {key: std for key, (_, std) in found.items()}, *given, rng
            )
            weights[table], _ = weights_of(weights[above], parent)
            place, drawn_rows = model.draw(parents, n, rng)
            synthetic[table] = drawn_rows, (shares / np.maximum(n, 1))[place]
            columns[table], models[table] = model.own, model
        self.measured, self.models, self.metadata = measured, models, tree.metadata

    @property
    def _children(self) -> Mapping[str, TableSchema]:  # type: ignore[override]
        return {name: self.linked.schema_of(name) for name in self.models}

    def privacy_report(self) -> PrivacyReport:
        report, whose = super().privacy_report(), f"one {self.linked._unit}"
        words = {"relation": f"add or remove {whose}", "unit": whose}
        if self.rows is not None:
            most = self.rows.schema.max_rows_per_unit or 1
            words = unit_words(self.linked.root, most)
        names = ", ".join(map(repr, self.models))
        stated = declared_metadata(self.linked.tables[self.linked.root])
        return replace(
            report,
            notes=(*report.notes, _LEFT_OUT),
            declared=(*stated, f"all columns of {names}; the links"),
            relation=words["relation"],
            unit=words["unit"],
        )

    def draw(
        self, n_roots: int, rng: np.random.Generator
    ) -> Iterator[tuple[str, pd.DataFrame, TableLayout, Ints]]:
        """Draw synthetic tables, parents first, with layouts and places of parents."""
        root, metadata = self.linked.root, self._model.metadata
        seed = int(rng.integers(2**31 - 1))
        frame = self.sample(n_roots, random_state=seed, output="pandas")
        values = {root: values_of(frame, pairs_of(metadata))}
        shown = [name for name in frame if not str(name).startswith(HIDDEN)]
        yield root, frame[shown], metadata.layout, np.arange(n_roots)
        for link in self.linked.links:
            model, metadata = self.models[link.child], self.metadata[link.child]
            n = numbers_of(link, model, values[link.parent])
            parent, found = model.draw(values[link.parent], n, rng)
            values[link.child] = found
            known = pairs_of(metadata, link.order_by)
            series = series_of(cells_of(found, known, metadata), metadata)
            listed = metadata.layout.columns
            parts = [[series.get(column.name) for column in listed]]
            child = frame_of(parts, metadata, len(found), 0)
            place = [column.name for column in listed].index(link.key)
            keys = unread_values(listed[place], metadata, 0, len(n))
            child.isetitem(place, keys.take(parent).set_axis(child.index))
            yield link.child, child, metadata.layout, parent

    def _generator_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        document, arrays = super()._generator_state()
        children = []
        for k, link in enumerate(self.linked.links):
            model, own = self.models[link.child].to_state()
            metadata = metadata_to_state(self.metadata[link.child])
            children.append({"model": model, "metadata": metadata})
            arrays |= {f"link.{k}.{name}": array for name, array in own.items()}
        links: dict[str, Any] = {"schema": self.linked.to_json(), "children": children}
        links |= {"rows": self.rows.to_state()} if self.rows else {}
        return {"root": document, **links}, arrays

    def _restore_generator(
        self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        super()._restore_generator(document["root"], arrays)
        self.linked = LinkedSchema.from_json(document["schema"])
        self.rows = Rows.from_state(document["rows"]) if "rows" in document else None
        if self.rows is not None:
            stated = LinkedSchema.of_rows(self.rows.schema)
            require(stated == self.linked, "rows of another schema")
        self.models, self.metadata = {}, {}
        both = zip(self.linked.links, document["children"], strict=True)
        for k, (link, child) in enumerate(both):
            start, schema = f"link.{k}.", self.linked.schema_of(link.child)
            own = {
                name.removeprefix(start): array
                for name, array in arrays.items()
                if name.startswith(start)
            }
            metadata = metadata_from_state(child["metadata"], schema, np.ones(1))
            self.models[link.child] = LinkModel.from_state(child["model"], own)
            self.metadata[link.child] = metadata


# As which it is saved, and named in logs.
Root.__name__ = "LinkedSynthesizer"


def new_model(link: Link, tree: Tree, parent: Sequence[Column]) -> LinkModel:
    """Return the model of a child table, not fitted."""
    known = pairs_of(tree.metadata[link.child], link.order_by)
    own = [(str(column.name), domain) for column, domain in known]
    gap = None
    if link.order_by is not None:
        name, domain = own[0]
        if isinstance(domain, CategoryDomain):  # in order: its codes are numbers
            most = len(domain.categories) - 1.0
            own[0] = name, domain = name, NumericDomain(0.0, most, False, True, False)
        width = domain.high - domain.low
        gap = Column("gap", NumericDomain(0.0, width, True, domain.integer, False))
    own += [(column.name, column.domain) for column in tree.hidden[link.child]]
    return LinkModel(
        [Column(*column) for column in own],
        [Column(column.name, column.domain) for column in parent],
        gap,
        most=link.max_rows,
        descending=link.descending,
    )


def numbers_of(link: Link, model: LinkModel, parents: Floats) -> Ints:
    """Return the numbers of children of parents, from their values."""
    place = [column.name for column in model.parent].index(link._count)
    return parents[:, place].astype(np.int64)


def share_of_pairs(n_links: int) -> float:
    """Return the share of the squared mu that pairs of columns of one child have."""
    return (1.0 - ROOT_SHARE) * (1.0 - SHAPES_SHARE) / n_links


def planned_model(schema: LinkedSchema, link: Link) -> LinkModel:
    """Return a model with as many columns as a child and its parent have."""
    nothing = CategoryDomain((), nullable=False)

    def columns(name: str) -> list[Column]:
        stated, below = schema.schema_of(name), schema._links_of(name)
        n = sum(not isinstance(own, UNREAD) for own in stated.columns.values())
        n -= sum(len(rule.derived) for rule in stated.rules)
        n += sum(1 + len(own.summaries) for own in below)
        return [Column(str(j), nothing) for j in range(n)]

    gap = None if link.order_by is None else Column("gap", nothing)
    return LinkModel(columns(link.child), columns(link.parent), gap, most=link.max_rows)
