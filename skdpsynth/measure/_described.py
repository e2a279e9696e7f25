"""Measurements in words: the columns, bins and values of every noisy table."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, product
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdpsynth.measure._bins import ColumnBins
from skdpsynth.measure._marginals import counts_of
from skdpsynth.measure._query import (
    N_GROUPS,
    Cells,
    Marginals,
    Measurement,
    Moments,
    Ranks,
    Triples,
)
from skdpsynth.privacy import UNLABELLED
from skdpsynth.table import ZERO, ColumnDomain, Metadata, NumericDomain, Own
from skdpsynth.utils import MOST_SHOWN
from skdpsynth.utils.arrays import Floats, Ints

# Columns, bins, values and noise of a table.
Listed = tuple[Iterable[int], tuple[Any, ...], NDArray[np.floating], float]

Kind = Literal["interval", "categories", "zero", "special", "missing", "other", "rank"]


class Bin(NamedTuple):
    """A bin of one column.

    An interval has its ends, of which the lower one belongs to it, and of the last one
    both; a special value is both of its ends. Times are in seconds since 1970, on the
    column's own clock where it has a unit or its hours are measured. Categories in one
    bin are listed. "other" is any other value. A bin of kind "rank" holds the values of
    a column by their rank, in [0, 1], among those that occur with the same value of
    another column, which `categories` names. In tables of three columns zeros, special,
    missing and other values may be in a bin of another kind: `also` says so.
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
            if self.kind == "special":
                text = f"{self.ends[0]:.12g}"
            if self.kind == "rank":
                text = f"rank {text} given {given}"
        elif self.kind != "categories":
            text = "0" if self.kind == "zero" else self.kind
        return ", ".join([text or "(nothing)", *map(str, map(Bin, self.also))])


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


def described(
    released: Iterable[Measurement], metadata: Metadata, class_sizes: Floats
) -> Iterator[Table]:
    """List the numbers of rows, then the tables of all measurements in their order.

    `class_sizes` (n_classes,) are the rows of each class, as well as they are known.
    """
    classes = metadata.classes
    labels = {scope: scope for scope in (*classes.scopes, None)}
    labels[UNLABELLED] = UNLABELLED.value
    for scope, count, std in zip(
        classes.scopes, classes.counts, classes.noise_stds, strict=True
    ):
        if std:
            yield Table((), (), np.array(count), std, labels[scope])
    sizes = dict(zip(classes.scopes, class_sizes.tolist(), strict=True))
    names = tuple(column.name for column in metadata.columns)
    for answer in released:
        if isinstance(answer.query, Marginals):
            tables = _of_one_column(answer, metadata.domains, sizes[answer.scope])
        else:
            tables = _of_several(answer, metadata.domains, names)
        for columns, bins, values, std in tables:
            listed = tuple(names[j] for j in columns)
            yield Table(listed, bins, values, float(std), labels[answer.scope])


def _of_one_column(
    answer: Measurement, domains: Sequence[ColumnDomain], size: float
) -> Iterator[Listed]:
    """List the number of rows, if it was released, and the tables of each column."""
    query, counted = answer.query, answer.query.counted(answer)
    if counted.size_std < np.inf:
        yield (), (), np.array(counted.size), counted.size_std
    for j, counts in counts_of(answer, size).items():
        # Of counts less their mean, with the mean of as many rows as are known.
        std = answer.noise_std * np.sqrt(1.0 - 1.0 / max(len(counts), 1))
        alone = [[category] for category in getattr(domains[j], "categories", ())]
        own = getattr(domains[j], "own", ())
        bins = _bins(domains[j], query.edges.get(j, np.empty(0)), own, alone)
        yield (j,), (bins,), counts, std


def _of_several(
    answer: Measurement, domains: Sequence[ColumnDomain], names: Sequence[Hashable]
) -> Iterator[Listed]:
    """List the tables of two columns and more."""
    query, std = answer.query, answer.noise_std
    if isinstance(query, Moments):
        values = np.full((query.n_columns,) * 2, np.nan)
        above = np.triu_indices(query.n_columns, 1)
        values[above] = values.T[above] = answer.values
        yield range(query.n_columns), (), values, std
        return
    of_columns = query.finer.bins if isinstance(query, Cells) else query.bins
    bins = [*map(_bins_of_codes, domains, of_columns.columns)]
    if isinstance(query, Triples):
        parts = np.split(query.groups, query.bins.starts[1:-1])
        both = zip(parts, bins, strict=True)
        bins = [_bins_of_groups(part, b, query.n_groups) for part, b in both]
    ends = [*pairwise(np.linspace(0, 1, N_GROUPS + 1).tolist())]
    tables: list[list[int]] = query.sets.tolist()
    for columns, counts in zip(tables, query.tables(answer.values), strict=True):
        of_each = [bins[j] for j in columns]
        if isinstance(query, Ranks):
            given = (names[columns.pop(0)],)
            of_each[:2] = [tuple(Bin("rank", pair, given) for pair in ends)]
        yield columns, tuple(of_each), counts, std


def _bins(
    domain: ColumnDomain,
    edges: Floats,
    own: Sequence[Own],
    groups: Sequence[Sequence[Hashable]],
) -> tuple[Bin, ...]:
    """Return the bins of a column: of numbers, or of categories in groups."""
    missing = [Bin("missing")] * domain.nullable
    if isinstance(domain, NumericDomain):
        ends = pairwise(domain.edges(edges).tolist())
        values = [
            Bin("zero") if code == ZERO else Bin("special", (value, value))
            for code, value, _ in own
        ]
        return (*(Bin("interval", e) for e in ends), *values, *missing)
    # Without any categories these are none of the known.
    listed = (Bin("categories", None, tuple(g)) if g else Bin("other") for g in groups)
    return (*listed, *missing)


def _bins_of_codes(domain: ColumnDomain, bins: ColumnBins) -> tuple[Bin, ...]:
    """Return the bins of a column in tables of two columns."""
    together: list[list[Hashable]] = [[] for _ in range(bins.rest + 1)]
    categories = getattr(domain, "categories", ())
    for category, place in zip(categories, bins.of_code, strict=False):
        together[place].append(category)
    return _bins(domain, bins.edges, bins.own_of(domain), together)


def _bins_of_groups(
    groups: Ints, bins: Sequence[Bin], n_groups: int
) -> tuple[Bin, ...]:
    """Return the bins of a column in tables of three columns: unions of others."""
    unions = []
    for group in range(n_groups):
        parts = [bins[place] for place in np.flatnonzero(groups == group).tolist()]
        inside = (part.ends for part in parts if part.kind == "interval")
        ends = [end for own in inside for end in own or ()]
        categories = tuple(chain.from_iterable(part.categories for part in parts))
        also = [b.kind for b in parts if b.kind not in ("interval", "categories")]
        kind: Kind = "interval" if ends else "categories"
        if also and not (ends or categories):
            kind = also.pop(0)
        limits = (ends[0], ends[-1]) if ends else None
        unions.append(Bin(kind, limits, categories, tuple(also)))
    return tuple(unions)
