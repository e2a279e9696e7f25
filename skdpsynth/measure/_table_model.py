"""The released marginals of every column and class, with the public metadata."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpsynth.privacy import UNLABELLED
from skdpsynth.schema import NOTHING_STATED, TableSchema, decode_value, encode_value
from skdpsynth.table import (
    CategoryDomain,
    Classes,
    MarginalTransform,
    Metadata,
    PrivateRows,
    TableLayout,
    check_domain,
    check_rules,
    declared_domain,
    domain_from_dict,
    modelled_columns,
)
from skdpsynth.utils import require
from skdpsynth.utils.arrays import Floats


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

    def score_rows(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Return the normal scores of a class's rows; private."""
        scores, codes = np.empty(rows.shape, dtype=np.float32), rows.category_codes
        for j, column in enumerate(self.marginals[position]):
            scores[:, j] = column.encode(rows.uniforms[:, j], codes[:, j])
        return scores

    def score_moments(self, position: int) -> Floats:
        """Return means, deviations and slopes of a class's scores, (3, n_columns)."""
        moments = np.array([c.score_moments() for c in self.marginals[position]]).T
        return np.nan_to_num(moments, posinf=0.0, neginf=0.0)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Split into JSON-safe metadata and arrays, for saving."""
        document = metadata_to_state(self.metadata)
        document["missing"] = [[c.missing for c in row] for row in self.marginals]
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
        arrays: Mapping[str, Floats],
        schema: TableSchema = NOTHING_STATED,
    ) -> TableModel:
        """Rebuild what `to_state` split, and check it; rules are those of `schema`."""
        metadata = metadata_from_state(document, schema, arrays["class_counts"])
        marginals = []
        for c, of_class in enumerate(document["missing"]):
            row: list[MarginalTransform] = []
            for domain, missing in zip(metadata.domains, of_class, strict=True):
                place = f"{c}.{len(row)}"
                parts = arrays[f"points.{place}"], arrays[f"cumulative.{place}"]
                row.append(MarginalTransform(domain, *parts, missing))
            marginals.append(row)
        return cls(metadata, marginals)


def metadata_to_state(metadata: Metadata) -> dict[str, Any]:
    """Return metadata as JSON, but for what the schema says, and numbers of rows."""
    places = {column.name: n for n, column in enumerate(metadata.layout.columns)}
    labels = metadata.classes.labelled.labels
    document = {
        "layout": metadata.layout.to_dict(),
        "columns": [
            places.get(column.name, column.name) for column in metadata.columns
        ],
        "axes": [domain.to_dict() for domain in metadata.domains],
        "levels": [encode_value(category) for category in labels],
    }
    units = metadata.units
    if units is not None and units.sizes is not None:
        document["units"] = {"sizes": units.sizes.tolist(), "std": units.noise_std}
    return document


def metadata_from_state(
    document: Mapping[str, Any], schema: TableSchema, counts: Floats
) -> Metadata:
    """Undo `metadata_to_state`, and check it; rules are those of `schema`.

    `counts` are those of `Classes`, of rows without a label the last.
    """
    layout = TableLayout.from_dict(document["layout"])
    domains = tuple(domain_from_dict(domain) for domain in document["axes"])
    categories = tuple(decode_value(category) for category in document["levels"])
    labels: tuple[Hashable, ...] = categories
    if categories and len(counts) > len(categories):
        labels = (*categories, UNLABELLED)
    classes = Classes(labels, counts)
    check_rules(schema, layout)
    columns = modelled_columns(layout, schema)
    for column, domain in zip(columns, domains, strict=True):
        check_domain(column, domain, schema)
    metadata = Metadata.of(layout, domains, classes.labelled, schema)
    listed = metadata_to_state(metadata)["columns"]
    # As texts: in lists 1 is True.
    require(str(document["columns"]) == str(listed), "other columns")
    metadata = replace(metadata, classes=classes)
    label = layout.label_column
    stated = None if label is None else declared_domain(label, schema)
    if isinstance(stated, CategoryDomain):
        require(categories == stated.categories, "other classes")
    require(len(classes) == max(len(labels), 1), "classes")
    if "units" in document:
        of_units = document["units"]
        sizes = np.array(of_units["sizes"], dtype=np.float64)
        if metadata.units is None:
            raise ValueError("sizes of no units")
        require(sizes.shape == (1 + (schema.max_rows_per_unit or 0),), "units")
        units = replace(metadata.units, sizes=sizes, noise_std=of_units["std"])
        metadata = replace(metadata, units=units)
    return metadata
