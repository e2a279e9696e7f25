"""Measurements in words: the columns, bins and values of every noisy table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise, product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from skdpsynth.measure._marginals import counts_of
from skdpsynth.measure._query import (
    N_GROUPS,
    Cells,
    Marginals,
    Moments,
    Pairs,
    Ranks,
    Triples,
)
from skdpsynth.privacy import UNLABELLED
from skdpsynth.table import ZERO, NumericDomain
from skdpsynth.utils import MOST_SHOWN

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from skdpsynth.measure._bins import ColumnBins
    from skdpsynth.measure._query import Measurement
    from skdpsynth.table import ColumnDomain, Metadata

    Floats = NDArray[np.float64]

Kind = Literal["interval", "categories", "zero", "missing", "other", "rank"]


class Bin(NamedTuple):
    """A bin of one column.

    An interval has its ends, of which the lower one belongs to it, and of the last one
    both; times are in seconds since 1970, on the column's own clock where it has a
    unit. Categories in one bin are listed. "other" is any other value. A bin of kind
    "rank" holds the values of a column by their rank, in [0, 1], among those that occur
    with the same value of another column, which `categories` names. In tables of three
    columns zeros, missing and other values may be in a bin of another kind: `also` says
    so.
    """

    kind: Kind
    ends: tuple[float, float] | None = None
    categories: tuple[Hashable, ...] = ()
    also: tuple[Kind, ...] = ()

    def __str__(self) -> str:
        """Write it as one would in a table."""
        first, more = self.categories[:MOST_SHOWN], len(self.categories) - MOST_SHOWN
        text = ", ".join(map(str, first)) + (f" and {more} more" if more > 0 else "")
        if self.ends is not None:  # of times all digits count
            given, text = text, "[{:.12g}, {:.12g})".format(*self.ends)
            if self.kind == "rank":
                text = f"rank {text} given {given}"
        elif self.kind != "categories":
            text = "0" if self.kind == "zero" else self.kind
        return ", ".join([text or "(nothing)", *map(str, map(Bin, self.also))])


@dataclass(frozen=True, eq=False)
class Table:
    """One noisy table of a fit, with names.

    Parameters
    ----------
    columns : tuple of column names
        None for the number of rows; one, two or three for a table of counts; all for
        second moments.
    bins : tuple of tuple of Bin
        Of each column; none for second moments.
    values : ndarray
        Noisy counts, of one axis per column, which may be negative; finer tables of two
        columns are NaN where nothing was counted. Or the noisy covariances of the
        normal scores of all columns, of shape (n_columns, n_columns), whose diagonal is
        not measured and NaN.
    noise_std : float
        Standard deviation of the noise of each value; that of the number of rows beside
        it, which completes the counts of one column, is with that number.
    class_label : hashable, default=None
        The class whose rows were measured; None for all rows, or those of all classes
        with tables of two columns, and of rows without a label if these have some;
        "rows without a label" for these alone.
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


def described(
    released: Iterable[Measurement], metadata: Metadata, class_sizes: Floats
) -> Iterator[Table]:
    """List the numbers of rows, then the tables of all measurements in their order.

    `class_sizes` (n_classes,) are the rows of each class, as well as they are known.
    """
    classes = metadata.classes
    labels = {scope: scope for scope in classes.scopes}
    labels |= {None: None, UNLABELLED: UNLABELLED.value}
    for c, std in enumerate(classes.noise_stds):
        if std:
            label = labels[classes.scopes[c]]
            yield Table((), (), np.array(classes.counts[c]), std, label)
    sizes = dict(zip(classes.scopes, class_sizes.tolist(), strict=True))
    names = tuple(column.name for column in metadata.columns)
    domains = metadata.domains
    for own in released:
        tables = _tables(own, domains, names, sizes.get(own.scope))
        for columns, bins, values, std in tables:
            listed = tuple(names[j] for j in columns)
            yield Table(listed, bins, values, float(std), labels[own.scope])


def _tables(
    own: Measurement,
    domains: Sequence[ColumnDomain],
    names: Sequence[Hashable],
    size: float | None,
) -> Iterator[tuple[Sequence[int], tuple[Any, ...], NDArray[np.floating], float]]:
    """List columns, bins, values and noise of the tables of a measurement.

    `size` is the number of rows of its class.
    """
    query = own.query
    match query:
        case Marginals():
            released = query.counted(own)
            if np.isfinite(released.size_std):
                yield (), (), np.array(released.size), released.size_std
            assert size is not None
            for j, counts in counts_of(own, size).items():
                # Of counts less their mean, with the mean of as many rows as are known.
                std = own.noise_std * np.sqrt(1.0 - 1.0 / max(len(counts), 1))
                cells = _bins_of_cells(domains[j], query.edges.get(j))
                yield (j,), (cells,), counts, std
        case Pairs():
            bins, ends = (
                _bins_of_columns(domains, query.bins.columns),
                query.bins.starts,
            )
            counts = np.zeros(query.measured.shape)
            counts[query.measured] = own.values
            for i, j in query.sets.tolist():
                part = counts[ends[i] : ends[i + 1], ends[j] : ends[j + 1]]
                yield (i, j), (bins[i], bins[j]), part, own.noise_std
        case Triples():
            bins = _bins_of_columns(domains, query.bins.columns)
            parts = np.split(query.groups, query.bins.starts[1:-1])
            both = zip(parts, bins, strict=True)
            groups = [_bins_of_groups(part, b, query.n_groups) for part, b in both]
            for columns, counts in zip(query.sets.tolist(), own.values, strict=True):
                in_groups = tuple(groups[j] for j in columns)
                yield columns, in_groups, counts.astype(np.float64), own.noise_std
        case Cells():
            bins = _bins_of_columns(domains, query.finer.bins.columns)
            tables = query.tables(own.values)
            for columns, counts in zip(query.sets.tolist(), tables, strict=True):
                both_bins = tuple(bins[j] for j in columns)
                yield columns, both_bins, counts, own.noise_std
        case Ranks():
            bins = _bins_of_columns(domains, query.bins.columns)
            ends = np.linspace(0, 1, N_GROUPS + 1).tolist()
            tables = query.tables(own.values)
            for columns, counts in zip(query.sets.tolist(), tables, strict=True):
                given, ranked, other = columns
                place = (names[given],)
                ranks = tuple(Bin("rank", part, place) for part in pairwise(ends))
                yield (ranked, other), (ranks, bins[other]), counts, own.noise_std
        case Moments():
            n_columns = query.n_columns
            values, above = (
                np.full((n_columns,) * 2, np.nan),
                np.triu_indices(n_columns, 1),
            )
            values[above] = values.T[above] = own.values
            yield range(n_columns), (), values, own.noise_std


def _bins_of_columns(
    domains: Sequence[ColumnDomain], columns: Sequence[ColumnBins]
) -> list[tuple[Bin, ...]]:
    """Return the bins of all columns in tables of two columns."""
    return [*map(_bins_of_codes, domains, columns)]


def _bins_of_cells(domain: ColumnDomain, edges: Floats | None) -> tuple[Bin, ...]:
    """Return the bins of a table of one column."""
    if isinstance(domain, NumericDomain):
        assert edges is not None
        zero = [Bin("zero")] * (domain.zero is not None)
        found = [*_intervals(domain, edges), *zero]
    else:
        found = [Bin("categories", None, (category,)) for category in domain.categories]
    return (*found, *[Bin("missing")] * domain.nullable)


def _bins_of_codes(domain: ColumnDomain, own: ColumnBins) -> tuple[Bin, ...]:
    """Return the bins of a column in tables of two columns."""
    if isinstance(domain, NumericDomain):
        zero = [Bin("zero")] * int(own.of_code[ZERO] >= 0)
        found = [*_intervals(domain, own.edges), *zero]
        return (*found, *[Bin("missing")] * (own.n_bins - len(found)))
    together: list[list[Hashable]] = [[] for _ in range(own.rest + 1)]
    for category, place in zip(domain.categories, own.of_code, strict=False):
        together[place].append(category)
    found = [Bin("categories", None, tuple(categories)) for categories in together]
    if not together[-1]:
        found[-1] = Bin("other")
    return (*found, *[Bin("missing")] * domain.nullable)


def _bins_of_groups(
    groups: NDArray[np.int64], bins: Sequence[Bin], n_groups: int
) -> tuple[Bin, ...]:
    """Return the bins of a column in tables of three columns: unions of others."""
    found = []
    for group in range(n_groups):
        own = [bins[place] for place in np.flatnonzero(groups == group).tolist()]
        ends = [end for one in own for end in one.ends or ()]
        categories = tuple(chain.from_iterable(one.categories for one in own))
        also = [one.kind for one in own if one.kind in ("zero", "missing", "other")]
        if ends:
            found.append(Bin("interval", (ends[0], ends[-1]), (), tuple(also)))
        elif categories or not also:
            found.append(Bin("categories", None, categories, tuple(also)))
        else:
            found.append(Bin(also[0], None, (), tuple(also[1:])))
    return tuple(found)


def _intervals(domain: NumericDomain, edges: Floats) -> list[Bin]:
    """Return the intervals between positions in a domain."""
    values = domain.edges(edges).tolist()
    return [Bin("interval", ends) for ends in pairwise(values)]
