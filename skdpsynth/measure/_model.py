"""The public half of a fitted synthesizer: from ranks back to a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.privacy import UNLABELLED
from skdpsynth.schema import decode_value, encode_value
from skdpsynth.table import (
    CategoryDomain,
    Classes,
    MarginalTransform,
    Metadata,
    TableLayout,
    check_domain,
    check_rules,
    declared_domain,
    domain_from_dict,
    from_wall,
    modelled_columns,
    to_category_series,
    to_series,
)
from skdpsynth.utils import in_order_of_class, require

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.schema import TableSchema
    from skdpsynth.table import Cells


@dataclass(frozen=True)
class TableModel:
    """The released marginals of every column, as `marginals[class][column]`."""

    metadata: Metadata
    marginals: list[list[MarginalTransform]]

    def __post_init__(self) -> None:
        classes = self.metadata.classes
        n_classes = max(len(classes.labels), 1)
        require(len(self.marginals) == len(classes) == n_classes, "classes")
        sizes = {len(row) for row in self.marginals}
        require(sizes == {len(self.metadata.domains)}, "marginals")

    @property
    def labelled(self) -> TableModel:
        """The same without the rows that have no label."""
        classes = self.metadata.classes.labelled
        metadata = replace(self.metadata, classes=classes)
        return TableModel(metadata, self.marginals[: len(classes)])

    def columns(
        self, ranks: NDArray[np.float64], class_codes: NDArray[np.int64]
    ) -> list[pd.Series | None]:
        """Turn ranks in [0, 1], (n_rows, n_modelled_columns), into columns.

        Their order and dtypes are those of the training table. Identifiers are None:
        `DrawnTable` numbers them.
        """
        cells = self.cells(ranks, class_codes)
        series: dict[Any, pd.Series] = {}
        for name, (column, domain) in self.metadata.drawn.items():
            values, missing = cells[name]
            if isinstance(domain, CategoryDomain):
                codes = values.astype(np.int64)
                series[column.name] = to_category_series(
                    codes, domain.categories, column
                )
                continue
            if domain.step is not None:
                values = from_wall(values, column)
            series[column.name] = to_series(values, missing, column)
        for column in self.metadata.layout.columns:
            if column is self.metadata.layout.label_column:
                categories = self.metadata.classes.labels
                codes = class_codes if categories else np.full(len(class_codes), -1)
                series[column.name] = to_category_series(codes, categories, column)
        return [series.get(column.name) for column in self.metadata.layout.columns]

    def check_categories(self) -> None:
        """Raise as libraries do where a column's dtype does not hold its categories.

        A file may state others; and a sample may have the rarest one of them.
        """
        pairs = [
            (column, domain.categories)
            for column, domain in self.metadata.drawn.values()
            if isinstance(domain, CategoryDomain)
        ]
        label = self.metadata.layout.label_column
        if label is not None:
            pairs.append((label, self.metadata.classes.labels))
        for column, categories in pairs:
            first = -1 if column.can_be_missing else 0
            to_category_series(np.arange(first, len(categories)), categories, column)

    def cells(
        self,
        ranks: NDArray[np.float64],
        class_codes: NDArray[np.int64],
        names: Collection[Hashable] | None = None,
    ) -> dict[Hashable, Cells]:
        """Turn ranks into numbers and category codes that keep all rules, by column.

        Of the columns `names` at least, None for all. Of times that are whole units
        the numbers are on the clock of the column's zone.
        """
        rules = self.metadata.rules
        wanted = None if names is None else set(names)
        if wanted is not None and wanted & rules.names:
            wanted |= rules.names
        cells: dict[Hashable, Cells] = {}
        order, places = in_order_of_class(class_codes, len(self.marginals))
        by_class = order, places, np.ascontiguousarray(ranks[order].T)
        for j, column in enumerate(self.metadata.columns):
            if wanted is None or column.name in wanted:
                cells[column.name] = self._decoded(j, *by_class)
        if not rules.rules or not (wanted is None or wanted & rules.names):
            return cells
        if self.metadata.layout.label_column is not None:
            known = bool(self.metadata.classes.labels)
            codes = (
                class_codes.astype(np.float64)
                if known
                else np.full(len(class_codes), -1.0)
            )
            cells[self.metadata.layout.target] = codes, codes < 0
        place_of = {column.name: j for j, column in enumerate(self.metadata.columns)}
        for first, *others in rules.together:
            gone = cells[first][1]
            for name in others:
                j = place_of[name]
                cells[name] = self._decoded(j, *by_class, gone)
        rules.keep(cells)
        return cells

    def _decoded(
        self,
        j: int,
        order: NDArray[np.intp],
        places: list[slice],
        ranks: NDArray[np.float64],
        gone: NDArray[np.bool_] | None = None,
    ) -> Cells:
        """Decode a column by the marginals of the rows' classes.

        The ranks (n_columns, n_rows) are in the order of the classes, and each class at
        its place. `gone` says where the column is missing, if that is known.
        """
        found = np.empty(len(order))
        lost = np.zeros(len(order), dtype=bool) if gone is None else gone[order]
        for own, place in zip(self.marginals, places, strict=True):
            if gone is None:
                found[place], lost[place] = own[j].decode(ranks[j, place])
            else:
                found[place] = own[j].decode_where(ranks[j, place], lost[place])
        values, missing = np.empty_like(found), np.empty_like(lost)
        values[order], missing[order] = found, lost
        return values, missing

    def score_rows(
        self,
        uniforms: NDArray[np.floating],
        category_codes: NDArray[np.integer],
        position: int,
    ) -> NDArray[np.float32]:
        """Give the normal scores of a class's rows; private if the rows are.

        `uniforms` and `category_codes` are those of `PrivateRows`.
        """
        scores = np.empty(uniforms.shape, dtype=np.float32)
        for j, column in enumerate(self.marginals[position]):
            scores[:, j] = column.encode(uniforms[:, j], category_codes[:, j])
        return scores

    def score_moments(self, position: int) -> NDArray[np.float64]:
        """Give means, deviations and slopes of a class's scores, (3, n_columns)."""
        return np.array([own.score_moments() for own in self.marginals[position]]).T

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
        """Split into JSON-safe metadata and arrays, for saving."""
        document = metadata_to_state(self.metadata)
        document["missing"] = [[own.missing for own in row] for row in self.marginals]
        arrays = {"class_counts": self.metadata.classes.counts}
        for c, row in enumerate(self.marginals):
            for j, column in enumerate(row):
                arrays[f"points.{c}.{j}"] = column.points
                arrays[f"cumulative.{c}.{j}"] = column.cumulative
        return document, arrays

    @classmethod
    def from_state(
        cls,
        document: Mapping[str, Any],
        arrays: Mapping[str, NDArray[np.float64]],
        schema: TableSchema | None = None,
    ) -> TableModel:
        """Rebuild what `to_state` split, and check it; rules are those of `schema`."""
        metadata = metadata_from_state(document, schema, arrays["class_counts"])
        marginals = [
            [
                MarginalTransform(
                    domain,
                    arrays[f"points.{c}.{j}"],
                    arrays[f"cumulative.{c}.{j}"],
                    gone,
                )
                for j, (domain, gone) in enumerate(
                    zip(metadata.domains, row, strict=True)
                )
            ]
            for c, row in enumerate(document["missing"])
        ]
        return cls(metadata, marginals)


def metadata_to_state(metadata: Metadata) -> dict[str, Any]:
    """Return metadata as JSON, but for what the schema says, and numbers of rows."""
    places = {column.name: n for n, column in enumerate(metadata.layout.columns)}
    labels = metadata.classes.labelled.labels
    document = {
        "layout": metadata.layout.to_dict(),
        "columns": [places[column.name] for column in metadata.columns],
        "axes": [domain.to_dict() for domain in metadata.domains],
        "levels": [encode_value(category) for category in labels],
    }
    units = metadata.units
    if units is not None and units.sizes is not None:
        document["units"] = {"sizes": units.sizes.tolist(), "std": units.noise_std}
    return document


def metadata_from_state(
    document: Mapping[str, Any],
    schema: TableSchema | None,
    counts: NDArray[np.float64],
    **noise: float,
) -> Metadata:
    """Undo `metadata_to_state`, and check it; rules are those of `schema`.

    `counts` and their noise are those of `Classes`, of rows without a label the last.
    """
    layout = TableLayout.from_dict(document["layout"])
    domains = tuple(domain_from_dict(domain) for domain in document["axes"])
    categories = tuple(decode_value(category) for category in document["levels"])
    labels: tuple[Hashable, ...] = categories
    if categories and len(counts) > len(categories):
        labels = (*categories, UNLABELLED)
    classes = Classes(labels, counts, **noise)
    if schema is not None:
        check_rules(schema, layout)
    columns = modelled_columns(layout, schema)
    places = {id(column): place for place, column in enumerate(layout.columns)}
    listed = [places[id(column)] for column in columns]
    # As texts: in lists 1 is True.
    require(str(document["columns"]) == str(listed), "other columns")
    for column, domain in zip(columns, domains, strict=True):
        check_domain(column, domain, schema)
    metadata = Metadata.of(layout, columns, domains, classes.labelled, schema)
    metadata = replace(metadata, classes=classes)
    label = layout.label_column
    stated = None if label is None else declared_domain(label, schema)
    if isinstance(stated, CategoryDomain):
        require(categories == stated.categories, "other classes")
    require(len(classes) == max(len(labels), 1), "classes")
    if "units" in document:
        found = document["units"]
        sizes = np.array(found["sizes"], dtype=np.float64)
        if metadata.units is None or schema is None:
            raise ValueError("sizes of no units")
        require(sizes.shape == (1 + (schema.max_rows_per_unit or 0),), "units")
        units = replace(metadata.units, sizes=sizes, noise_std=found["std"])
        metadata = replace(metadata, units=units)
    return metadata
