"""From ranks back to a table, by the released marginals: the public half of a fit."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

import numpy as np
import pandas as pd

from skdpsynth.measure import TableModel
from skdpsynth.table import CategoryDomain, Cells, Metadata
from skdpsynth.utils import in_order_of_class
from skdpsynth.utils.arrays import Bools, Floats, Ints


def decode_columns(
    model: TableModel, ranks: Floats, class_codes: Ints
) -> list[pd.Series | None]:
    """Turn ranks in [0, 1], (n_rows, n_modelled_columns), into columns.

    Their order and dtypes are those of the training table. Identifiers are None:
    who samples numbers them.
    """
    metadata = model.metadata
    series = series_of(decode_cells(model, ranks, class_codes), metadata)
    label, labels = metadata.layout.label_column, metadata.classes.labels
    if label is not None:
        codes = class_codes if labels else np.full(len(class_codes), -1)
        series[label.name] = label.to_category_series(codes, labels)
    return [series.get(column.name) for column in metadata.layout.columns]


def series_of(
    cells: Mapping[Hashable, Cells], metadata: Metadata
) -> dict[Hashable, pd.Series]:
    """Turn numbers and codes into columns of their dtypes, but for labels."""
    series: dict[Hashable, pd.Series] = {}
    for name, (column, domain) in metadata.drawn.items():
        values, missing = cells[name]
        if isinstance(domain, CategoryDomain):
            codes = values.astype(np.int64)
            series[column.name] = column.to_category_series(codes, domain.categories)
            continue
        if domain.step is not None:
            values = column.from_wall(values)
        series[column.name] = column.to_series(values, missing)
    return series


def check_categories(model: TableModel) -> None:
    """Raise as libraries do where a column's dtype does not hold its categories.

    A file may state others; and a sample may have the rarest one of them.
    """
    metadata = model.metadata
    pairs = [
        (column, domain.categories)
        for column, domain in metadata.drawn.values()
        if isinstance(domain, CategoryDomain)
    ]
    if metadata.layout.label_column is not None:
        pairs.append((metadata.layout.label_column, metadata.classes.labels))
    for column, categories in pairs:
        first = -1 if column.can_be_missing else 0
        column.to_category_series(np.arange(first, len(categories)), categories)


def decode_cells(
    model: TableModel,
    ranks: Floats,
    class_codes: Ints,
    names: Collection[Hashable] | None = None,
) -> dict[Hashable, Cells]:
    """Turn ranks into numbers and category codes that keep all rules, by column.

    Of the columns `names` at least, None for all. Of times that are whole units the
    numbers are on the clock of the column's zone.
    """
    metadata, rules = model.metadata, model.metadata.rules
    columns = [column.name for column in metadata.columns]
    wanted = rules.names.union(columns) if names is None else set(names)
    ruled = bool(wanted & rules.names)
    if ruled:
        wanted |= rules.needs
    order, places = in_order_of_class(class_codes, len(model.marginals))
    of_columns = np.ascontiguousarray(ranks[order].T)

    def decoded(j: int, gone: Bools | None = None) -> Cells:
        """Decode a column; `gone` says where it is missing, if that is known."""
        drawn = np.empty(len(order))
        lost = np.zeros(len(order), bool) if gone is None else gone[order]
        for row, place in zip(model.marginals, places, strict=True):
            if gone is None:
                drawn[place], lost[place] = row[j].decode(of_columns[j, place])
            else:
                drawn[place] = row[j].decode_where(of_columns[j, place], lost[place])
        values, missing = np.empty_like(drawn), np.empty_like(lost)
        values[order], missing[order] = drawn, lost
        return values, missing

    cells = {name: decoded(j) for j, name in enumerate(columns) if name in wanted}
    if not ruled:
        return cells
    if metadata.layout.label_column is not None:
        labels = metadata.classes.labels
        codes = class_codes if labels else np.full(len(class_codes), -1)
        cells[metadata.layout.target] = codes.astype(np.float64), codes < 0
    for first, *others in rules.together:
        for name in others:
            cells[name] = decoded(columns.index(name), cells[first][1])
    rules.keep(cells)
    return cells
