"""Linked tables as rows that hang on one another: private, inside a fit alone.

Which rows a unit has, in which order and with which weights, depends on the rows of
that unit, on a secret of the fit, and on what is public. Nothing here raises or warns
because of rows: what hangs on nothing is left out in silence.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skdpsynth.exceptions import InvalidSchemaError, InvalidTableError
from skdpsynth.linked._schema import HIDDEN, Link, LinkedSchema
from skdpsynth.privacy import HoldsPrivateRows, Parts, secret_generator
from skdpsynth.schema import Categorical, Column, Continuous, TableSchema
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

_SECRET_BYTES = 16  # no one guesses them

Known = tuple[ColumnLayout, ColumnDomain]


class Hidden(NamedTuple):
    """A column of the parents that no sample shows: what is known of their children."""

    name: str
    domain: ColumnDomain
    numbers: Floats  # as `values_of`

    @property
    def spec(self) -> Column:
        """How the schema of a root describes it."""
        if isinstance(self.domain, CategoryDomain):
            return Categorical(self.domain.categories, nullable=True)
        return Continuous(
            self.domain.low,
            self.domain.high,
            integer=self.domain.integer,
            decimals="any" if not self.domain.integer else None,
            nullable=self.domain.nullable,
            scale="log" if self.domain.log else "linear",
        )

    @property
    def column(self) -> pd.Series:
        """Return it as a column of a root."""
        if isinstance(self.domain, NumericDomain) and not self.domain.integer:
            return pd.Series(self.numbers)
        whole = pd.Series(self.numbers).astype("Int64")
        return whole if self.domain.nullable else whole.astype("int64")


class Tree(HoldsPrivateRows):
    """All rows of linked tables that take part.

    `frames` are in order, `parents` has the place of each child's parent among its
    rows, in increasing order, and `hidden` what a table knows of its children;
    `metadata` is that of the children, whose columns are declared.
    """

    def __init__(self, tables: object, schema: LinkedSchema) -> None:
        self.schema = schema
        self.frames: dict[str, pd.DataFrame] = {}
        self.layouts: dict[str, TableLayout] = {}
        self.metadata: dict[str, Metadata] = {}
        self.parents: dict[str, Ints] = {}
        self._open(tables)
        self.container = self.layouts[schema.root].container
        secret = secret_generator().bytes(_SECRET_BYTES)
        self._unite(secret)
        for link in schema.links:
            self._hang(link, secret)
        self.hidden: dict[str, list[Hidden]] = {}
        for name in schema.tables:
            hidden = map(self._hidden_by, schema._links_of(name))
            self.hidden[name] = [*chain.from_iterable(hidden)]

    def _open(self, tables: object) -> None:
        """Read the tables, and check what is public of them; nothing is charged yet."""
        names = [*tables] if isinstance(tables, Mapping) else None
        if names is None or set(names) != set(self.schema.tables):
            got = type(tables).__name__ if names is None else names
            raise InvalidTableError(
                f"Expected a dict with the tables {[*self.schema.tables]!r}. Got {got};"
                " pass each table of the schema by its name."
            )
        assert isinstance(tables, Mapping)
        for name in self.schema.tables:
            own, child = self.schema.schema_of(name), name != self.schema.root
            least = 0 if child else 2
            rows, layout = open_table(tables[name], schema=own, least=least)
            frame = pd.concat([*rows.each()]) if isinstance(rows, Parts) else rows
            self.frames[name] = frame.reset_index(drop=True)
            self.layouts[name] = layout
            if child:
                self.metadata[name] = _declared(name, layout, own, frame.iloc[:0])
            taken = [c.name for c in layout.columns if str(c.name).startswith(HIDDEN)]
            if taken:
                raise InvalidTableError(
                    f"Names of columns that begin with {HIDDEN!r} are in use here. Got"
                    f" {taken!r} in {name!r}; rename them."
                )
        for link in self.schema.links:
            sides = ((link.child, link.key), (link.parent, link.parent_key))
            ours, theirs = (_kind_of_key(self.layouts[n], key) for n, key in sides)
            if ours != theirs:
                raise InvalidTableError(
                    f"Expected keys of one kind in the {link}. Got {ours} in"
                    f" {link.child!r} and {theirs} in {link.parent!r}, which are never"
                    " equal; cast one of them."
                )

    def _unite(self, secret: bytes) -> None:
        """Leave one root row of each key; rows without one are each a unit."""
        root = self.schema.root
        key, frame = self.schema.links[0].parent_key, self.frames[root]
        codes, _ = _matched(frame[key], frame[key], secret)
        codes = np.where(codes < 0, -1 - np.arange(len(codes)), codes)
        hashes = row_hashes(frame, self.schema.schema_of(root), secret)
        order = np.lexsort((hashes, codes))
        first = order[np.diff(codes[order], prepend=codes.min() - 1) != 0]
        if len(first) < 2:
            raise InvalidTableError(
                f"Expected at least 2 units. Got the same key {key!r} in all rows of"
                f" {root!r}; name a column that says which rows are of one unit."
            )
        self.frames[root] = frame.iloc[np.sort(first)].reset_index(drop=True)

    def _hang(self, link: Link, secret: bytes) -> None:
        """Leave the first rows of each parent, also of those with equal keys."""
        frame, above = self.frames[link.child], self.frames[link.parent]
        own, theirs = _matched(frame[link.key], above[link.parent_key], secret)
        below = [deeper.parent_key for deeper in self.schema._links_of(link.child)]
        schema = self.schema.schema_of(link.child)
        hashes, after = row_hashes(frame, schema, secret, below), np.zeros(len(own))
        if link.order_by is not None:
            known = pairs_of(self.metadata[link.child], link.order_by)[:1]
            (after,) = values_of(frame, known).T
            if isinstance(known[0][1], CategoryDomain):
                after = np.where(after < 0, np.nan, after)
            after = -after if link.descending else after
        usable = np.flatnonzero((own >= 0) & ~np.isnan(after))
        # First the rows of each key: those of equal keys are joined to every parent.
        usable = usable[np.lexsort((hashes[usable], after[usable], own[usable]))]
        usable = usable[places_in(own[usable]) < link.max_rows]
        parents = np.flatnonzero(theirs >= 0)
        rows = pd.DataFrame({"key": own[usable], "row": usable})
        pairs = rows.merge(pd.DataFrame({"key": theirs[parents], "parent": parents}))
        row, parent = pairs["row"].to_numpy(), pairs["parent"].to_numpy()
        order = np.lexsort((hashes[row], after[row], parent))
        order = order[places_in(parent[order]) < link.max_rows]
        self.frames[link.child] = frame.iloc[row[order]].reset_index(drop=True)
        self.parents[link.child] = parent[order]

    def _hidden_by(self, link: Link) -> Iterator[Hidden]:
        """Yield what is known of the children of each parent."""
        parent, n_parents = self.parents[link.child], len(self.frames[link.parent])
        domain = NumericDomain(0.0, float(link.max_rows), False, True, False)
        counts = np.bincount(parent, minlength=n_parents)
        yield Hidden(link._count, domain, counts.astype(np.float64))
        for name in link.summaries:
            known = pairs_of(self.metadata[link.child], name)[:1]
            (values,) = values_of(self.frames[link.child], known).T
            kind = known[0][1]
            of: Any = _mean if isinstance(kind, NumericDomain) else _mode
            yield Hidden(link._summary(name), *of(values, kind, parent, n_parents))


def _mean(
    own: Floats, domain: NumericDomain, parent: Ints, n_parents: int
) -> tuple[NumericDomain, Floats]:
    """Return the mean of the numbers of each parent, special values aside."""
    seen = (own >= domain.low) & (own <= domain.high)
    n = np.bincount(parent[seen], minlength=n_parents)
    means = np.bincount(parent[seen], own[seen], n_parents) / np.maximum(n, 1)
    values = np.where(n > 0, np.rint(means) if domain.integer else means, np.nan)
    known = domain.low, domain.high, domain.log, domain.integer
    return NumericDomain(*known, nullable=True), values


def _mode(
    own: Floats, domain: CategoryDomain, parent: Ints, n_parents: int
) -> tuple[CategoryDomain, Floats]:
    """Return the code of the most frequent category of each parent."""
    seen, shape = own >= 0, (n_parents, len(domain.categories))
    cells = parent[seen] * shape[1] + own[seen].astype(np.int64)
    n = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    values = np.where(n.any(axis=1), n.argmax(axis=1), np.nan)
    return CategoryDomain((*range(shape[1]),), nullable=True), values


def _kind_of_key(layout: TableLayout, key: Hashable) -> str:
    column = {column.name: column for column in layout.columns}[key]
    if column.kind in ("integer", "continuous"):
        return "number"
    # Times of different units are never equal.
    timed = column.kind in ("datetime", "timedelta")
    return str(column.dtype) if timed else column.kind


def _declared(
    name: str, layout: TableLayout, schema: TableSchema, empty: pd.DataFrame
) -> Metadata:
    """Return the metadata of a child; refuse columns that are not declared."""
    columns = modelled_columns(layout, schema)
    domains = [declared_domain(column, schema) for column in columns]
    left = [
        column.needs[-1]
        for column, domain in zip(columns, domains, strict=True)
        if domain is None or needs_resolution(column, schema)
    ]
    if left:
        code = TableSchema.template(empty[left]).splitlines()[2:-3]
        raise InvalidSchemaError(
            f"All columns of {name!r} must be declared, since it hangs on another"
            " table: bounds or categories, of floats decimals (or 'any') and of times"
            " and durations a unit. Add to its schema:\n" + "\n".join(code)
        )
    stated = tuple(domain for domain in domains if domain is not None)
    return Metadata.of(layout, stated, Classes((), np.ones(1)), schema)


def _matched(own: pd.Series, other: pd.Series, secret: bytes) -> tuple[Ints, Ints]:
    """Return a number of each cell of two columns, equal for equal ones; or -1."""
    words = np.concatenate([words_of(series, secret) for series in (own, other)])
    codes = pd.DataFrame(words).groupby([0, 1], sort=False).ngroup().to_numpy()
    missing = np.concatenate([is_missing(series) for series in (own, other)])
    codes = np.where(missing, -1, codes)
    return codes[: len(own)], codes[len(own) :]


def places_in(parent: Ints) -> Ints:
    """Return the place of each row among those of its parent, which are together."""
    starts = np.flatnonzero(np.diff(parent, prepend=-1))
    return np.arange(len(parent)) - np.repeat(
        starts, np.diff(starts, append=len(parent))
    )


def weights_of(above: Ints, parent: Ints) -> tuple[Ints, Ints]:
    """Return the weight of each row, and of its step from the row before; 0 without.

    A row of the root weighs `GRID`. The weight of a row is divided by the number of its
    children, and by the number of steps between them, and rounded down; so by induction
    all rows, and all steps, of a unit in a table weigh GRID together at most.
    """
    n = np.bincount(parent, minlength=len(above))[parent]
    steps = np.where(places_in(parent) > 0, above[parent] // np.maximum(n - 1, 1), 0)
    return above[parent] // n, steps


def pairs_of(metadata: Metadata, first: Hashable = None) -> list[Known]:
    """Return the columns that are modelled with their domains, and those of labels."""
    known = [*zip(metadata.columns, metadata.domains, strict=True)]
    label, labels = metadata.layout.label_column, metadata.classes.labels
    if label is not None and labels:
        known.append((label, CategoryDomain(labels, nullable=False)))
    return sorted(known, key=lambda pair: pair[0].name != first)


def values_of(frame: pd.DataFrame, known: Sequence[Known]) -> Floats:
    """Return cells as numbers: steps of a domain, codes, NaN if missing, -1 of none."""
    values = np.empty((len(frame), len(known)))
    for j, (column, domain) in enumerate(known):
        series = column.read(frame)
        if isinstance(domain, CategoryDomain):
            codes = place_keys(series, domain.categories, -1, -2).astype(np.float64)
            values[:, j] = np.where(codes == -2, np.nan, codes)
            continue
        numbers, missing = wall_values(series, column, domain)
        count = domain.whole_steps if domain.integer else domain.to_steps
        steps = np.clip(count(numbers), domain.low, domain.high)
        special = domain.codes(numbers) > MISSING
        steps[special] = domain.to_steps(numbers[special])
        values[:, j] = np.where(missing, np.nan, steps)
    return values


def cells_of(
    values: Floats, known: Sequence[Known], metadata: Metadata
) -> dict[Hashable, Any]:
    """Undo `values_of` for drawn rows, in line with the rules of the table."""
    cells: dict[Hashable, Any] = {}
    for (column, domain), drawn in zip(known, values.T, strict=False):
        missing = np.isnan(drawn)
        if isinstance(domain, NumericDomain):
            steps = np.where(missing, 0.0, drawn)
            cells[column.name] = domain.from_steps(steps), missing
        else:
            cells[column.name] = np.where(missing, -1.0, drawn), missing
    metadata.rules.keep(cells)
    return cells
