"""Linked tables as rows that hang on one another: private, inside a fit alone.

Which rows a unit has, in which order and with which weights, depends on the rows of
that unit, on a secret of the fit, and on what is public. Nothing here raises or warns
because of rows: what hangs on nothing is left out in silence.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.linked._schema import Link, LinkedSchema
from skdpsynth.privacy import GRID, HoldsPrivateRows, Parts, secret_generator
from skdpsynth.schema import TableSchema
from skdpsynth.table import (
    MISSING,
    CategoryDomain,
    Classes,
    ColumnDomain,
    ColumnLayout,
    Metadata,
    NumericDomain,
    TableLayout,
    declared_domain,
    modelled_columns,
    needs_resolution,
    open_table,
    place_keys,
    row_hashes,
    wall_values,
    words_of,
)
from skdpsynth.utils.arrays import Floats, Ints
from skdpsynth.utils.dtypes import is_missing

_SECRET_BYTES = 16


@dataclass
class Table(HoldsPrivateRows):
    """The rows of one table that take part, and what is public of it."""

    frame: pd.DataFrame
    layout: TableLayout
    schema: TableSchema
    metadata: Metadata | None = None  # of a child, whose columns are declared
    # Place of the parent's row among those that take part; in order of it, then of the
    # link. Of the root there is none.
    parent: Ints | None = None

    def __len__(self) -> int:
        return len(self.frame)


def open_tables(tables: object, schema: LinkedSchema) -> dict[str, Table]:
    """Read the tables, and check what is public of them; nothing is charged yet."""
    names = [*tables] if isinstance(tables, Mapping) else None
    if names is None or set(names) != set(schema.tables):
        got = type(tables).__name__ if names is None else names
        raise InvalidTableError(
            f"Expected a dict with the tables {[*schema.tables]!r}. Got {got}; pass"
            " each table of the schema by its name."
        )
    assert isinstance(tables, Mapping)
    opened = {}
    for name in schema.tables:
        own, child = schema.schema_of(name), name != schema.root
        rows, layout = open_table(tables[name], schema=own, least=0 if child else 2)
        frame = pd.concat([*rows.each()]) if isinstance(rows, Parts) else rows
        opened[name] = Table(frame.reset_index(drop=True), layout, own)
        if child:
            opened[name].metadata = _declared(name, opened[name])
    for link in schema.links:
        sides = ((link.child, link.key), (link.parent, link.parent_key))
        kinds = [_kind_of_key(opened[name].layout, key, name) for name, key in sides]
        if kinds[0] != kinds[1]:
            raise InvalidTableError(
                f"Expected keys of one kind in the {link}. Got {kinds[0]} in"
                f" {link.child!r} and {kinds[1]} in {link.parent!r}, which are never"
                " equal; cast one of them."
            )
    return opened


def _kind_of_key(layout: TableLayout, key: Hashable, name: str) -> str:
    for column in layout.columns:
        if column.name == key:
            number = column.kind in ("integer", "continuous")
            return "number" if number else column.kind
    raise InvalidTableError(
        f"Expected the key {key!r} in the table {name!r}. It is not a column there;"
        " correct the Link."
    )


def _declared(name: str, table: Table) -> Metadata:
    """Return the metadata of a child; refuse columns that are not declared."""
    layout, schema = table.layout, table.schema
    columns = modelled_columns(layout, schema)
    domains = {column: declared_domain(column, schema) for column in columns}
    left = [
        column.needs[-1]
        for column, domain in domains.items()
        if domain is None or needs_resolution(column, schema)
    ]
    if left:
        code = TableSchema.template(table.frame[left].iloc[:0]).splitlines()[2:-2]
        raise InvalidSchemaError(
            f"All columns of {name!r} must be declared, since it hangs on another"
            " table: bounds or categories, of floats decimals (or 'any') and of times"
            " and durations a unit. Add to its schema:\n" + "\n".join(code)
        )
    classes = Classes((), np.ones(1))
    return Metadata.of(layout, (*domains.values(),), classes, schema)  # type: ignore[arg-type]


def hang(tables: dict[str, Table], schema: LinkedSchema) -> None:
    """Leave the rows that take part, in order; each child knows its parent's place."""
    secret = secret_generator().bytes(_SECRET_BYTES)
    root = tables[schema.root]
    keys = {link.parent_key for link in schema.links_of(schema.root)}
    (key,) = keys
    # Root rows of one key are one unit, of which one row is used; without a key each
    # is its own.
    codes, _ = _matched(root.frame[key], root.frame[key], secret)
    codes = np.where(codes < 0, -1 - np.arange(len(codes)), codes)
    hashes = row_hashes(root.frame, root.schema, secret, [key])
    order = np.lexsort((hashes, codes))
    first = np.append(True, np.diff(codes[order]) != 0)[: len(order)]
    root.frame = root.frame.iloc[np.sort(order[first])].reset_index(drop=True)
    for link in schema.links:
        _hang_one(tables[link.parent], tables[link.child], link, schema, secret)


def _hang_one(
    above: Table, table: Table, link: Link, schema: LinkedSchema, secret: bytes
) -> None:
    """Leave the first rows of each parent, in order; where keys are equal, of each."""
    own, theirs = _matched(table.frame[link.key], above.frame[link.parent_key], secret)
    below = [deeper.parent_key for deeper in schema.links_of(link.child)]
    hashes = row_hashes(table.frame, table.schema, secret, below)
    after = np.zeros(len(own))
    if link.order_by is not None:
        assert table.metadata is not None
        place = [c.name for c in table.metadata.columns].index(link.order_by)
        known = table.metadata.columns[place], table.metadata.domains[place]
        after = values_of(table.frame, *zip(known, strict=True))[:, 0]
        if isinstance(known[1], CategoryDomain):
            after[after < 0] = np.nan
        after = -after if link.descending else after
    usable = np.flatnonzero((own >= 0) & ~np.isnan(after))
    parents = np.flatnonzero(theirs >= 0)
    pairs = pd.merge(
        pd.DataFrame({"key": own[usable], "row": usable}),
        pd.DataFrame({"key": theirs[parents], "parent": parents}),
    )
    row, parent = pairs["row"].to_numpy(), pairs["parent"].to_numpy()
    order = np.lexsort((hashes[row], after[row], parent))
    row, parent = row[order], parent[order]
    stay = places_in(parent) < link.max_rows
    table.frame = table.frame.iloc[row[stay]].reset_index(drop=True)
    table.parent = parent[stay]


def _matched(own: pd.Series, other: pd.Series, secret: bytes) -> tuple[Ints, Ints]:
    """Return a number of each cell of two columns, equal for equal ones; -1: missing."""
    words = np.concatenate([words_of(series, secret) for series in (own, other)])
    codes = pd.DataFrame(words).groupby([0, 1], sort=False).ngroup().to_numpy()
    missing = np.concatenate([is_missing(series) for series in (own, other)])
    codes = np.where(missing, -1, codes)
    return codes[: len(own)], codes[len(own) :]


def places_in(parent: Ints) -> Ints:
    """Return the place of each row among those of its parent; equal ones are together."""
    starts = np.flatnonzero(np.diff(parent, prepend=-1))
    return np.arange(len(parent)) - np.repeat(starts, np.diff(starts, append=len(parent)))


def weights_of(above: Ints, parent: Ints) -> tuple[Ints, Ints]:
    """Return the weight of each row, and of its step from the row before; 0 without.

    A row of the root weighs `GRID`. The weight of a row is divided by the number of its
    children, and by the number of steps between them, and rounded down; so by induction
    all rows, and all steps, of a unit in a table weigh GRID together at most.
    """
    n = np.bincount(parent, minlength=len(above))[parent]
    steps = np.where(places_in(parent) > 0, above[parent] // np.maximum(n - 1, 1), 0)
    return above[parent] // n, steps


def values_of(
    frame: pd.DataFrame,
    columns: Sequence[ColumnLayout],
    domains: Sequence[ColumnDomain],
) -> Floats:
    """Return cells as numbers: steps of a domain, codes, NaN if missing, -1 of none."""
    values = np.empty((len(frame), len(columns)))
    for j, (column, domain) in enumerate(zip(columns, domains, strict=True)):
        series = column.read(frame)
        if isinstance(domain, CategoryDomain):
            codes = place_keys(series, domain.categories, -1, -2).astype(float)
            values[:, j] = np.where(codes == -2, np.nan, codes)
            continue
        numbers, missing = wall_values(series, column, domain)
        count = domain.whole_steps if domain.integer else domain.to_steps
        steps = np.clip(count(numbers), domain.low, domain.high)
        special = domain.codes(numbers) > MISSING
        steps[special] = domain.to_steps(numbers[special])
        values[:, j] = np.where(missing, np.nan, steps)
    return values


class Hidden(NamedTuple):
    """A column of the parents that no sample shows: what is known of their children."""

    name: str
    domain: ColumnDomain
    values: Floats  # as `values_of`


def hidden_of(link: Link, table: Table, n_parents: int) -> list[Hidden]:
    """Return the number of children of each parent, and what sums up their columns."""
    assert table.metadata is not None
    assert table.parent is not None
    parent, metadata = table.parent, table.metadata
    domain = NumericDomain(0.0, float(link.max_rows), False, True, False)
    counts = np.bincount(parent, minlength=n_parents).astype(float)
    found = [Hidden(link.count, domain, counts)]
    for name in link.summaries:
        place = [column.name for column in metadata.columns].index(name)
        known = metadata.columns[place], metadata.domains[place]
        own, kind = values_of(table.frame, *zip(known, strict=True))[:, 0], known[1]
        if isinstance(kind, NumericDomain):
            seen = (own >= kind.low) & (own <= kind.high)
            n = np.bincount(parent[seen], minlength=n_parents)
            sums = np.bincount(parent[seen], own[seen], n_parents)
            values = np.where(n > 0, sums / np.maximum(n, 1), np.nan)
            values = np.rint(values) if kind.integer else values
            ends = kind.low, kind.high, kind.log, kind.integer
            found.append(Hidden(link.summary(name), NumericDomain(*ends, True), values))
            continue
        n_codes = len(kind.categories)
        seen = own >= 0
        of_both = parent[seen] * n_codes + own[seen].astype(np.int64)
        n_each = np.bincount(of_both, minlength=n_parents * n_codes)
        n_each = n_each.reshape(n_parents, n_codes)
        values = np.where(n_each.any(axis=1), n_each.argmax(axis=1), np.nan)
        modes = CategoryDomain((*range(n_codes),), nullable=True)
        found.append(Hidden(link.summary(name), modes, values))
    return found


def cells_of(values: Floats, metadata: Metadata) -> dict[Hashable, Any]:
    """Undo `values_of` for drawn rows, in line with the rules of the table."""
    cells: dict[Hashable, Any] = {}
    for j, (column, domain) in enumerate(
        zip(metadata.columns, metadata.domains, strict=True)
    ):
        missing = np.isnan(values[:, j])
        if isinstance(domain, NumericDomain):
            steps = np.where(missing, 0.0, values[:, j])
            cells[column.name] = domain.from_steps(steps), missing
        else:
            cells[column.name] = np.where(missing, -1.0, values[:, j]), missing
    metadata.rules.keep(cells)
    return cells
