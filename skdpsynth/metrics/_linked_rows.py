"""Rows of linked tables in order, beside their parents, and what they come to."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.metrics._encode import (
    Cells,
    Codes,
    finite_numbers,
    kind_of,
    row_hashes,
)
from skdpsynth.metrics._fidelity import in_cells
from skdpsynth.schema import UNREAD
from skdpsynth.utils.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from skdpsynth.linked import Link, LinkedSchema

Tables = Mapping[str, pd.DataFrame]
Shares = dict[str, float]


def unit_features(tables: Tables, link: Link) -> pd.DataFrame:
    """Return what the rows that hang on each row of a parent come to.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Real or synthetic tables by name, with those of the link.
    link : Link
        Which table hangs on which; of each parent the first `max_rows` rows are used.

    Returns
    -------
    DataFrame of shape (n_parents, n_features)
        A row for each row of the parent, with its index. Columns are named as in
        "visits: number" (of rows) and "visits: lab mean"; of numbers and times (in
        seconds since 1970) "mean", of categories a "share" for each of the 20 most
        frequent ones, and with an order of all columns "first", "last" and "changes"
        (how often a row is in another cell, of `marginal_fidelity`, than the one
        before). Without rows the number and the changes are 0, the others missing.

    Raises
    ------
    InvalidTableError
        If a table lacks a key.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsynth import Link
    >>> from skdpsynth.metrics import unit_features
    >>> tables = {
    ...     "people": pd.DataFrame({"who": [1, 2]}),
    ...     "visits": pd.DataFrame({"who": [1, 1, 2], "lab": [3.0, 5.0, 9.0]}),
    ... }
    >>> unit_features(tables, Link("visits", "people", "who")).to_dict("list")
    {'visits: number': [2, 1], 'visits: lab mean': [4.0, 9.0]}
    """
    parents, children = tables[link.parent], tables[link.child]
    own = children.drop(columns=link.key, errors="ignore")
    rows, place, _ = _match(parents, children, link, row_hashes(own))
    family = Family(link, parents, own.iloc[rows], place, np.arange(len(parents)))
    return features_of(with_cells(family, family)[0]).set_index(parents.index)


class Coded(NamedTuple):
    """A column, or the time of day or day of week of one, in cells."""

    name: Hashable
    cells: Cells
    codes: Codes

    def take(self, rows: Ints | Bools) -> Coded:
        """Return it in some rows."""
        return self._replace(codes=self.codes[rows])


@dataclass(frozen=True)
class Family:
    """Rows of a parent, and those that hang on them by a link, in order.

    `place` says on which parent each child hangs, `unit` to which row of the root each
    parent belongs; `own` has the columns of the children in cells, `given` those of the
    parents.
    """

    link: Link
    parents: pd.DataFrame
    children: pd.DataFrame
    place: Ints
    unit: Ints
    own: Sequence[Coded] = ()
    given: Sequence[Coded] = ()

    def of_units(self, kept: Bools) -> Family:
        """Return what belongs to some rows of the root."""
        parents = kept[self.unit]
        rows = parents[self.place]
        return Family(
            self.link,
            self.parents[parents],
            self.children[rows],
            (np.cumsum(parents) - 1)[self.place[rows]],
            self.unit[parents],
            [column.take(rows) for column in self.own],
            [column.take(parents) for column in self.given],
        )

    @property
    def counts(self) -> Ints:
        """Number of children of each parent."""
        return np.bincount(self.place, minlength=len(self.parents))

    def steps(self, lag: int) -> Ints:
        """Return the rows that have a row of their parent so far behind them."""
        return np.flatnonzero(self.place[lag:] == self.place[:-lag])

    def changes(self, codes: Codes) -> Ints:
        """Count in each parent how often a cell is not that of the row before."""
        at = self.steps(1)
        at = at[codes[at] != codes[at + 1]]
        return np.bincount(self.place[at], minlength=len(self.parents))


def follow(
    tables: Tables, schema: LinkedSchema
) -> tuple[dict[str, Family], Bools, dict[str, Shares]]:
    """Return the rows of every link, which units are the first half, what is broken."""

    def modelled(name: str, table: pd.DataFrame) -> pd.DataFrame:
        columns = schema.schema_of(name).columns.items()
        unread = [column for column, kind in columns if isinstance(kind, UNREAD)]
        return table.drop(columns=unread, errors="ignore")

    used, families, broken = dict(tables), {}, {}
    hashes = row_hashes(modelled(schema.root, used[schema.root]))
    units = {schema.root: np.arange(len(hashes))}
    for link in schema.links:
        parents, children = used[link.parent], used[link.child]
        own = modelled(link.child, children)
        by = schema.tables[link.child].columns.get(link.order_by)
        order = getattr(by, "categories", None)
        ties = row_hashes(own)
        rows, place, broken[link.child] = _match(parents, children, link, ties, order)
        used[link.child] = children.iloc[rows]
        unit = units[link.parent]
        units[link.child] = unit[place]
        np.add.at(hashes, units[link.child], ties[rows])
        shown = modelled(link.parent, parents)
        families[link.child] = Family(link, shown, own.iloc[rows], place, unit)
    # Units that hold the same are in both halves alternately.
    again = pd.Series(hashes).groupby(hashes).cumcount().to_numpy()
    half = (pd.util.hash_array(hashes) + again.astype(np.uint64)) % 2 == 0
    return families, half, broken


def _match(
    parents: pd.DataFrame,
    children: pd.DataFrame,
    link: Link,
    ties: NDArray[np.uint64],
    categories: Sequence[Hashable] | None = None,
) -> tuple[Ints, Ints, Shares]:
    """Return the children that count, in order, their parents, and what is broken."""
    for name, key, table in (
        (link.parent, link.parent_key, parents),
        (link.child, link.key, children),
    ):
        if key not in table.columns:
            raise InvalidTableError(f"Expected the key {key!r} in {name!r}. Add it.")
    keys = parents[link.parent_key].astype(object)
    repeated = keys.duplicated()
    known = np.flatnonzero(keys.notna() & ~repeated)
    found = pd.Index(keys.iloc[known]).get_indexer(children[link.key].astype(object))
    place = np.append(known, -1)[found]  # the last one is that of an unknown key
    order = np.zeros(len(children))
    if link.order_by is not None:
        order = _ranks(children[link.order_by], categories)
        order = -order if link.descending else order
    rows = np.flatnonzero((place >= 0) & ~np.isnan(order))
    written = rows[np.argsort(place[rows], kind="stable")]
    steps = np.diff(place[written]) == 0
    back = steps & (np.diff(order[written]) < 0)
    rows = rows[np.lexsort((ties[rows], order[rows], place[rows]))]
    counts = np.bincount(place[rows], minlength=len(parents))
    number = np.arange(len(rows)) - (np.cumsum(counts) - counts)[place[rows]]
    broken = {
        "orphans": np.mean(place < 0),
        "disorder": back.sum() / max(steps.sum(), 1),
        "above max_rows": np.mean(counts > link.max_rows),
        "repeated keys": np.mean(repeated),
    }
    rows = rows[number < link.max_rows]
    return rows, place[rows], {name: float(share) for name, share in broken.items()}


def _ranks(column: pd.Series, categories: Sequence[Hashable] | None) -> Floats:
    """Return numbers in whose order the values of a column are."""
    if categories is None:
        if kind_of(column) != "category":
            return finite_numbers(column)
        categories = pd.Categorical(column).categories
    codes = pd.Index(categories).get_indexer(column.astype(object))
    return np.where(codes < 0, np.nan, codes)


def with_cells(real: Family, synthetic: Family) -> tuple[Family, Family]:
    """Put the columns of two families into cells that the first one chooses."""
    own = [*in_cells(real.children, synthetic.children)]
    given = [*in_cells(real.parents, synthetic.parents)]

    def coded(columns: list[Any], at: int) -> list[Coded]:
        return [Coded(c[0].name, c[2], c[2].codes(c[at])) for c in columns]

    first = replace(real, own=coded(own, 0), given=coded(given, 0))
    return first, replace(synthetic, own=coded(own, 1), given=coded(given, 1))


def features_of(family: Family) -> pd.DataFrame:
    """Compute what `unit_features` returns; categories are those of the cells."""
    counts, place, n = family.counts, family.place, len(family.parents)
    some, ends = counts > 0, np.cumsum(counts)
    rows = {}
    if family.link.order_by is not None:
        rows = {"first": (ends - counts)[some], "last": ends[some] - 1}
    found: dict[str, Any] = {"number": counts}
    for name, cells, codes in family.own:
        if cells.kind == "category":
            for i, label in enumerate(cells.bounds):
                found[f"{name} {label} share"] = _means(codes == i, place, n)
            known = np.where(codes < len(cells.bounds), codes, -1)
            values = pd.Categorical.from_codes(known, cells.bounds)
        else:
            values = finite_numbers(family.children[name])
            found[f"{name} mean"] = _means(values, place, n)
        for end, at in rows.items():
            column = pd.Series(values[at], index=np.flatnonzero(some))
            found[f"{name} {end}"] = column.reindex(range(n))
        if rows:
            found[f"{name} changes"] = family.changes(codes)
    return pd.DataFrame(found).add_prefix(f"{family.link.child}: ")


def _means(values: NDArray[Any], place: Ints, n_parents: int) -> Floats:
    """Return the mean of what is known of each parent; NaN of nothing."""
    known = ~np.isnan(values)
    numbers = np.bincount(place[known], minlength=n_parents)
    sums = np.bincount(place[known], values[known], minlength=n_parents)
    return sums / np.where(numbers, numbers, np.nan)
