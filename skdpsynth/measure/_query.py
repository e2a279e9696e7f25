"""Queries: what a fit asks of the rows of a class, and the noisy answers.

A query is public: columns, and bins that follow from earlier releases. It says by how
much a row can move its answer (L2 sensitivity), and a `Measurement` is its answer. Each
is one line of the ledger.
"""

from __future__ import annotations

import base64
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdpsynth.measure._bins import Bin, ColumnBins, FinerBins, TableBins, check_edges
from skdpsynth.measure._shares import TINY
from skdpsynth.measure._table_model import TableModel
from skdpsynth.privacy import GRID, Parts, PrivacyAccountant, Reservation
from skdpsynth.privacy.statistics import (
    LENGTH,
    MOMENTS_SENSITIVITY,
    CentredCounts,
    centred_histogram,
    centred_sensitivity,
    measured_cells,
    noisy_histogram,
    noisy_pair_tables,
    noisy_second_moments,
    noisy_triple_tables,
)
from skdpsynth.table import (
    MISSING,
    Classes,
    ColumnDomain,
    Metadata,
    NumericDomain,
    PrivateRows,
    TableRows,
    is_number,
)
from skdpsynth.utils import check_array, require
from skdpsynth.utils.arrays import Bools, Floats, Ints

# Groups of a child given its parent: with 8, C2ST of Diamonds at epsilon 1 was .845,
# with 3 and 4 .83.
N_GROUPS = 3
CLIP = 2.0  # squared length at which rows are shortened, over the mean one


# Columns of each table, their bins, values and noise.
Listed = Iterator[
    tuple[Sequence[int], tuple[tuple[Bin, ...], ...], NDArray[np.floating], float]
]


class Query(ABC):
    """A question about the rows of a class, or of several; public."""

    kind: ClassVar[str]  # its name in a file
    saved: ClassVar[tuple[str, ...]]  # the fields that a file has
    dtype: ClassVar[str] = "float64"  # of an answer
    name: str  # in the ledger
    sensitivity: float  # by how much a row moves what is released (L2), in its units
    spacing: float  # rows (of moments: covariance) per released whole number
    shape: tuple[int, ...]  # of an answer

    @abstractmethod
    def codes(self, rows: PrivateRows) -> NDArray[Any]:
        """Return what is counted of every row; private."""

    @abstractmethod
    def release(self, codes: Parts, reservation: Reservation) -> NDArray[np.floating]:
        """Draw the noisy answer from `codes`, by a reservation of this sensitivity."""

    @abstractmethod
    def check(self, domains: Sequence[ColumnDomain]) -> None:
        """Raise a ValueError unless it is a question about these columns."""

    @abstractmethod
    def describe(self, answer: Measurement, table: Metadata, size: float) -> Listed:
        """List the tables of an answer of one class, which has `size` rows."""

    def to_json(self) -> dict[str, Any]:
        """Return what a file has of it."""
        fields = {name: encoded(getattr(self, name)) for name in self.saved}
        return {"query": self.kind, **fields}

    @property
    def identity(self) -> object:
        """What must be equal so that answers can be added up."""
        query: Any = self  # a dataclass
        return encoded([getattr(query, field.name) for field in fields(query)])


def encoded(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return something as JSON, its arrays too."""
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"dtype": value.dtype.str, "shape": value.shape, "data": data}
    if isinstance(value, dict):
        return {"keys": [*value], "each": [*map(encoded, value.values())]}
    if isinstance(value, list | tuple):
        return [*map(encoded, value)]
    if is_dataclass(value):
        return encoded(vars(value))
    if value == math.inf:
        return {"number": "inf"}
    return value.item() if isinstance(value, np.generic) else value


_ARRAYS = {np.dtype(kind).str for kind in ("f8", "f4", "i8", "u1", "bool")}


def decoded(data: Any) -> Any:  # noqa: ANN401 - JSON
    """Return what `encoded` wrote; a ValueError and the like where it is damaged."""
    if isinstance(data, list):
        return [*map(decoded, data)]
    if not isinstance(data, dict):
        return data
    if "number" in data:
        return math.inf
    if "keys" in data:
        return dict(zip(data["keys"], map(decoded, data["each"]), strict=True))
    require(data["dtype"] in _ARRAYS, "an array of another type")
    numbers = np.frombuffer(base64.b64decode(data["data"]), dtype=data["dtype"])
    return numbers.reshape(data["shape"]).copy()


@dataclass(frozen=True, eq=False)
class Measurement:
    """The noisy answers to one query that was asked of K disjoint classes; public.

    Parameters
    ----------
    query : Query
        What was asked.
    values : ndarray of shape (K, ...)
        The answers, in rows; counts may be negative. Of second moments covariances of
        normal scores.
    noise_std : ndarray of shape (K,)
        Standard deviation of the noise of each value of a class.
    mu : ndarray of shape (K,)
        Gaussian-DP parameters that the ledger charges, for all rows of a unit of
        privacy; infinite without noise.
    scopes : tuple of K hashables, default=(None,)
        The classes whose rows were asked and are charged, in the order of the classes;
        None is all rows.

    Notes
    -----
    **Privacy guarantee.** A row is in one class at most. It moves the exact answer of
    that class by the query's `sensitivity` at most, and no other one. So all K answers
    cost a row of class k what the k-th costs, ``mu[k]`` (parallel composition), as if
    its class alone were asked. Each is one line of the ledger, `PrivacyAccountant`,
    which has the proof for units with rows of several classes.
    """

    query: Any  # a Query; callers know which class
    values: NDArray[Any]
    noise_std: Floats
    mu: Floats
    scopes: tuple[Hashable, ...] = (None,)

    def __post_init__(self) -> None:
        n, apart = len(self.scopes), {*self.scopes}
        require(n == len(apart) > 0 and (n == 1 or None not in apart), "classes")
        check_array(self.values, self.query.dtype, (n, *self.query.shape))
        for numbers in (self.noise_std, self.mu):
            require(numbers.dtype == np.float64, "noise")
            require(numbers.shape == (n,) and (numbers >= 0).all(), "noise")

    def of(self, scope: Hashable) -> Measurement:
        """Return the answer of one class."""
        k = slice(place := self.scopes.index(scope), place + 1)
        parts = self.values[k], self.noise_std[k], self.mu[k], self.scopes[k]
        return Measurement(self.query, *parts)


class Ask(NamedTuple):
    """Whose rows are asked, and the ledger: here queries become measurements."""

    rows: TableRows
    classes: Classes
    accountant: PrivacyAccountant

    def of(self, *positions: int) -> tuple[Parts, Hashable]:
        """Return the rows of classes, private, and who is charged: of several, all."""
        codes, scopes = self.classes.codes, self.classes.scopes
        rows = self.rows.parts_of_class(*(codes[c] for c in positions))
        return rows, scopes[positions[0]] if len(positions) == 1 else None

    def of_all(self, query: Query, mu: float, classes: Sequence[int]) -> Measurement:
        """Release one answer of classes at some positions, all together."""
        rows, scope = self.of(*classes)
        line = self.accountant.reserve_gaussian(
            query.name, mu=mu, sensitivity=query.sensitivity, scope=scope
        )
        values = query.release(rows.map(query.codes), line)[None]
        std = np.array([line.noise_std * query.spacing])
        of_units = np.array([mu * self.accountant.rows_per_unit], dtype=np.float64)
        return Measurement(query, values, std, of_units, (scope,))

    def of_each(
        self, query: Query, mus: Sequence[float], classes: Sequence[int]
    ) -> Measurement:
        """Release an answer of each of the classes at some positions."""
        each = [self.of_all(query, mu, [c]) for mu, c in zip(mus, classes, strict=True)]
        parts = zip(*((one.values, one.noise_std, one.mu) for one in each), strict=True)
        values, stds, of_units = map(np.concatenate, parts)
        scopes = tuple(one.scopes[0] for one in each)
        return Measurement(query, values, stds, of_units, scopes)


# --- One column -------------------------------------------------------------------


@dataclass(eq=False)
class Marginals(Query):
    """Counts of single columns less their mean, and maybe the number of all rows.

    Sensitivity: `centred_sensitivity` of the cells of each column and of the weight of
    the number of rows, proved at `centred_histogram`. In squares, of K grid units to a
    row: one of B cells moves a column by ``(K - a)^2 + (B - 1) a^2``, ``a = K // B``,
    no cell by no more, and every row the number of rows by ``(K weight)^2``.
    """

    domains: Sequence[ColumnDomain]  # of all columns of the table
    columns: tuple[int, ...]  # that are counted
    edges: Mapping[int, Floats]  # of the bins of each numeric one, (n_bins + 1,)
    size_weight: float = 0.0  # of the number of rows; 0 where it is not released
    coarse: bool = False  # a first round, of coarse bins

    kind, saved = "marginals", ("columns", "edges", "size_weight", "coarse")

    def __post_init__(self) -> None:
        sizes = ((j, len(self.edges.get(j, [0])) - 1) for j in self.columns)
        self.n_cells = [n_cells(self.domains[j], n) for j, n in sizes]
        self.name = "coarse marginals" if self.coarse else "marginals"
        self.sensitivity = centred_sensitivity(self.n_cells, self.size_weight)
        self.spacing = 1.0 / GRID
        n_numbers = sum(self.n_cells) + len(self.columns) + (self.size_weight > 0)
        self.shape = (n_numbers,)

    def codes(self, rows: PrivateRows) -> NDArray[Any]:
        """Return the cell of every row in every column; private.

        What a domain does not model is in no cell: the code after the last. These are
        other values than the categories, and missing ones where it is not nullable.
        """
        return self.bins.encode(rows, self.columns)

    @cached_property
    def bins(self) -> TableBins:
        """The cells of each column that is counted, and one after them for no cell."""
        columns = []
        for j, n in zip(self.columns, self.n_cells, strict=True):
            domain, missing = self.domains[j], n - self.domains[j].nullable
            if isinstance(domain, NumericDomain):
                codes = [value.code for value in domain.own]
                bins = ColumnBins.of_numbers(domain, self.edges[j], codes)
                bins.of_code[MISSING] = missing
            else:
                of_code = [*range(len(domain.categories)), n, missing]
                bins = ColumnBins(np.empty(0), np.array(of_code))
            columns.append(bins)
        return TableBins(columns)

    def release(self, codes: Parts, reservation: Reservation) -> NDArray[np.floating]:
        return centred_histogram(codes, self.n_cells, reservation, self.size_weight)

    def counted(self, answer: Measurement) -> CentredCounts:
        """Return the answer of a class as counts less their mean."""
        (values,), (std,) = answer.values, answer.noise_std.tolist()
        return CentredCounts(values, self.n_cells, self.size_weight, std)

    def counts(self, answer: Measurement, size: float) -> dict[int, Floats]:
        """Return the counts of each column in a class of `size` rows."""
        counts = self.counted(answer).counts(size)
        return dict(zip(self.columns, counts, strict=True))

    def describe(self, answer: Measurement, table: Metadata, size: float) -> Listed:
        counted, (noise_std,) = self.counted(answer), answer.noise_std.tolist()
        if counted.size_std < math.inf:
            yield (), (), np.array(counted.size), counted.size_std
        every = zip(self.counts(answer, size).items(), self.bins.columns, strict=True)
        for (j, counts), bins in every:
            # Of counts less their mean, with the mean of as many rows as are known.
            std = noise_std * math.sqrt(1.0 - 1.0 / max(len(counts), 1))
            named = bins.named(self.domains[j])[: len(counts)]
            yield (j,), (named,), counts, std

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        columns = self.columns
        require(all(type(j) is int and 0 <= j < len(domains) for j in columns), "cells")
        require(len({*columns}) == len(columns), "columns")
        numbers = {j for j in columns if isinstance(domains[j], NumericDomain)}
        require(set(self.edges) == numbers, "cells")
        for edges in self.edges.values():
            check_edges(edges)
        require(is_number(self.size_weight) and 0 <= self.size_weight <= 1, "a weight")
        require(self.size_weight * GRID >= 1 or self.size_weight == 0, "a weight")
        require(type(self.coarse) is bool, "a round")

    @property
    def opened(self) -> dict[int, Floats]:
        """The edges for another table, whose rows may be beyond the outer ones."""
        inner = {j: edges[1:-1] for j, edges in self.edges.items()}
        return {j: np.concatenate(([0.0], some, [1.0])) for j, some in inner.items()}

    @property
    def identity(self) -> object:
        return self.columns, encoded(self.opened)


def n_cells(domain: ColumnDomain, n_bins: int) -> int:
    """Count the cells of a column: what its domain models."""
    if isinstance(domain, NumericDomain):
        return n_bins + len(domain.own) + domain.nullable
    return len(domain.categories) + domain.nullable


# --- Two and three columns --------------------------------------------------------


class Tables(Query):
    """Counts of a row's cell in each of several tables, of the columns of `sets`.

    Sensitivity: a row is in one cell of each of n tables, and adds `GRID` to its count,
    so ``GRID * sqrt(n)``.
    """

    sets: Ints  # columns of each table
    sizes: list[int]  # cells of each, if these are listed in `codes`
    bins: TableBins  # of all columns, D of them

    def release(self, codes: Parts, reservation: Reservation) -> NDArray[np.floating]:
        counts = noisy_histogram(codes, self.sizes, reservation, GRID)
        return np.concatenate(counts) / GRID

    @abstractmethod
    def tables(self, values: NDArray[np.floating]) -> list[Floats]:
        """Return the tables that the answer of a class is of."""

    def described(self, domains: Sequence[ColumnDomain]) -> list[tuple[Bin, ...]]:
        """Return the bins of each column, with names."""
        return [*map(ColumnBins.named, self.bins.columns, domains)]

    def describe(self, answer: Measurement, table: Metadata, size: float) -> Listed:
        del size
        bins, (std,) = self.described(table.domains), answer.noise_std.tolist()
        tables = self.tables(answer.values[0])
        for columns, counts in zip(self.sets.tolist(), tables, strict=True):
            yield columns, tuple(bins[j] for j in columns), counts, std

    def _set(self, what: str, shape: tuple[int, ...]) -> None:
        """Set what tables have whose counts are in units of 1 / `GRID` rows."""
        n = len(self.sets)
        tables = "1 table" if n == 1 else f"{n} tables"
        self.name = f"{tables} of {what}, {math.prod(shape)} cells"
        self.sensitivity = GRID * math.sqrt(n)
        self.spacing, self.shape = 1.0 / GRID, shape

    def _check_sets(self, n_each: int, n_columns: int) -> None:
        """Raise a ValueError unless sets are of so many columns, and none is twice."""
        check_array(self.sets, "int64", (len(self.sets), n_each), 0, n_columns - 1)
        distinct = np.diff(np.sort(self.sets, axis=1)) > 0
        require(len(self.sets) and distinct.all(), "sets of columns")
        require(len(np.unique(self.sets, axis=0)) == len(self.sets), "a set twice")


@dataclass(eq=False)
class Pairs(Tables):
    """Tables of pairs of columns, all at once."""

    bins: TableBins  # of all columns, D of them
    sets: Ints  # (N, 2): columns i < j of each pair

    kind, saved, dtype = "pairs", ("sets",), "float32"

    def __post_init__(self) -> None:
        # Which pairs of bins are in a table, (D, D), above the diagonal: the order of
        # the cells of an answer.
        self.measured = measured_cells(self.bins.sizes, self.sets)
        self._set("2 columns", (int(self.measured.sum()),))

    def codes(self, rows: PrivateRows) -> NDArray[Any]:
        return self.bins.encode(rows)

    def release(self, codes: Parts, reservation: Reservation) -> NDArray[np.floating]:
        counts = noisy_pair_tables(codes, self.bins.sizes, self.sets, reservation, GRID)
        return (counts[self.measured] / GRID).astype(np.float32)

    def tables(self, values: NDArray[np.floating]) -> list[Floats]:
        counts, ends = np.zeros(self.measured.shape), self.bins.starts
        counts[self.measured] = values
        places = [slice(*between) for between in pairwise(ends)]
        return [counts[places[i], places[j]] for i, j in self.sets.tolist()]

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        self.bins.check(domains)
        self._check_sets(2, len(domains))


@dataclass(eq=False)
class Triples(Tables):
    """Tables of all triples of columns, whose bins are in a few groups."""

    bins: TableBins  # of all columns, D of them
    groups: Ints  # (D,), of each bin
    n_groups: int  # of a column

    kind, saved, dtype = "triples", ("groups", "n_groups"), "float32"

    def __post_init__(self) -> None:
        triples = combinations(range(len(self.bins.sizes)), 3)
        self.sets = np.array(list(triples), dtype=np.int64).reshape(-1, 3)
        shape = (len(self.sets), *(self.n_groups,) * 3)
        self._set("3 columns", shape)

    def codes(self, rows: PrivateRows) -> NDArray[Any]:
        places = self.bins.encode(rows) + self.bins.starts[:-1]
        return self.groups.astype(np.uint8)[places]

    def release(self, codes: Parts, reservation: Reservation) -> NDArray[np.floating]:
        counts = noisy_triple_tables(codes, self.n_groups, self.sets, reservation, GRID)
        return (counts / GRID).astype(np.float32)

    def tables(self, values: NDArray[np.floating]) -> list[Floats]:
        return [*values.astype(np.float64)]

    def described(self, domains: Sequence[ColumnDomain]) -> list[tuple[Bin, ...]]:
        parts = np.split(self.groups, self.bins.starts[1:-1])
        both = zip(parts, super().described(domains), strict=True)
        return [
            tuple(Bin.union(bins, of_bin == group) for group in range(self.n_groups))
            for of_bin, bins in both
        ]

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        self.bins.check(domains)
        n_bins = int(self.bins.starts[-1])
        require(type(self.n_groups) is int and len(self.sets), "groups")
        check_array(self.groups, "int64", (n_bins,), 0, self.n_groups - 1)


# --- Columns that nearly determine each other --------------------------------------


@dataclass(eq=False)
class Cells(Tables):
    """Finer cells of some pairs of columns, inside the pairs of bins that have rows.

    A row is in one cell of each table: of impossible pairs of bins in one for all.
    """

    finer: FinerBins  # the cells of all columns
    sets: Ints  # (K, 2): the column that determines the other, and the other
    possible: Sequence[Bools]  # which pairs of their bins have rows

    kind, saved = "cells", ("sets", "possible")

    def __post_init__(self) -> None:
        self.bins = self.finer.bins
        # Numbers of the cells of each table; the last is for all that are impossible.
        self.places: list[Ints] = []
        self.n_possible: list[int] = []
        for pair, bins in zip(self.sets.tolist(), self.possible, strict=True):
            possible = bins[self.finer.in_bins(pair)]
            self.n_possible.append(int(possible.sum()))
            self.places.append(np.full(possible.shape, self.n_possible[-1]))
            self.places[-1][possible] = np.arange(self.n_possible[-1])
        self.sizes = [int(places.max()) + 1 for places in self.places]
        self._set("2 columns in finer cells", (sum(self.sizes),))

    def codes(self, rows: PrivateRows) -> NDArray[Any]:
        kind = np.min_scalar_type(max(self.sizes) - 1)
        codes = np.empty((len(rows), len(self.sets)), dtype=kind)
        both = zip(self.sets.tolist(), self.places, strict=True)
        for k, (pair, place) in enumerate(both):
            codes[:, k] = place[self.finer.of_rows(rows, pair)]
        return codes

    def tables(self, values: NDArray[np.floating]) -> list[Floats]:
        """Return those of an answer, NaN where a pair of bins is impossible."""
        parts = np.split(values, np.cumsum(self.sizes)[:-1])
        each = zip(parts, self.n_possible, self.places, strict=True)
        return [np.append(counts[:n], np.nan)[place] for counts, n, place in each]

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        self._check_sets(2, len(domains))
        n_bins = self.finer.coarse.sizes
        for pair, bins in zip(self.sets.tolist(), self.possible, strict=True):
            check_array(bins, "bool", tuple(n_bins[j] for j in pair))


@dataclass(eq=False)
class Ranks(Tables):
    """Counts by the rank of a column, given another one, and the bin of a third.

    This is the second tree of a vine (Bedford, Cooke 2002). The rank is among the
    values that occur with the same cell of the other column, in `N_GROUPS` groups that
    are about equally frequent.
    """

    bins: TableBins  # of third columns
    finer: FinerBins  # the cells of the columns of pairs
    sets: Ints  # (M, 3): the column that is given, the one with ranks, the third one
    groups: Sequence[NDArray[np.uint8]]  # of a cell of the second, given the first

    kind, saved = "ranks", ("sets", "groups")

    def __post_init__(self) -> None:
        self.sizes = [N_GROUPS * self.bins.sizes[j] for j in self.sets[:, 2].tolist()]
        self._set("ranks given a column", (sum(self.sizes),))

    def codes(self, rows: PrivateRows) -> NDArray[Any]:
        bins, kind = self.bins.encode(rows), np.min_scalar_type(max(self.sizes))
        codes = np.empty((len(rows), len(self.sets)), dtype=kind)
        last: list[int] = []  # sets of a pair stand side by side
        both = zip(self.sets.tolist(), self.groups, strict=True)
        for n, ((*pair, third), of_cells) in enumerate(both):
            if pair != last:
                last = pair
                groups = of_cells[self.finer.of_rows(rows, pair)].astype(np.int64)
            codes[:, n] = groups * self.bins.sizes[third] + bins[:, third]
        return codes

    def tables(self, values: NDArray[np.floating]) -> list[Floats]:
        """Return those of an answer, (N_GROUPS, n_bins) each."""
        parts = np.split(values, np.cumsum(self.sizes)[:-1])
        return [counts.reshape(N_GROUPS, -1) for counts in parts]

    def describe(self, answer: Measurement, table: Metadata, size: float) -> Listed:
        ends = [*pairwise(np.linspace(0, 1, N_GROUPS + 1).tolist())]
        every = super().describe(answer, table, size)
        for (given, *pair), (_, _, third), counts, std in every:
            given_name = (table.columns[given].name,)
            ranks = tuple(Bin("rank", between, given_name) for between in ends)
            yield pair, (ranks, third), counts, std

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        self._check_sets(3, len(domains))
        n_cells = self.finer.bins.sizes
        for (a, b, _), groups in zip(self.sets.tolist(), self.groups, strict=True):
            check_array(groups, "uint8", (n_cells[a], n_cells[b]), 0, N_GROUPS - 1)


# --- All columns ------------------------------------------------------------------


@dataclass(eq=False)
class Moments(Query):
    """Covariances of the normal scores of all columns.

    Sensitivity: `MOMENTS_SENSITIVITY`, proved at `noisy_second_moments`: a row r is
    shortened to a length of `LENGTH` in whole numbers, so that the squares of its
    products, ``(|r|^4 - sum r_i^4) / 2``, are at most ``LENGTH^4 / 2``.
    """

    model: Any  # a `TableModel`, for rows as scores; None if read from a file
    position: int  # of the class whose marginals are meant
    n_columns: int
    n_rows: float  # of the class, as known
    step: float  # what one unit is in a score

    kind, saved = "moments", ("position", "n_columns", "n_rows", "step")

    def __post_init__(self) -> None:
        self.name = f"second moments of {self.n_columns} columns"
        self.sensitivity, self.spacing = MOMENTS_SENSITIVITY, self.step**2 / self.n_rows
        self.shape = (math.comb(self.n_columns, 2),)  # in the order of `triu_indices`

    @classmethod
    def of(cls, model: TableModel, position: int, n_rows: float) -> Moments:
        """Return the query whose unit suits the scores of a class."""
        _, stds, _ = model.score_moments(position)
        step = math.sqrt(max(CLIP * float((stds**2).sum()), TINY)) / LENGTH
        return cls(model, position, len(stds), n_rows, step)

    def codes(self, rows: PrivateRows) -> NDArray[Any]:
        return self.model.score_rows(rows, self.position)

    def release(self, codes: Parts, reservation: Reservation) -> NDArray[np.floating]:
        means, _, _ = self.model.score_moments(self.position)
        return noisy_second_moments(codes, means, self.step, reservation) / self.n_rows

    def describe(self, answer: Measurement, table: Metadata, size: float) -> Listed:
        del size
        values = np.full((self.n_columns,) * 2, np.nan)
        above = np.triu_indices(self.n_columns, 1)
        values[above] = values.T[above] = answer.values[0]
        yield range(self.n_columns), (), values, float(answer.noise_std[0])

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        require(self.n_columns == len(domains) > 1, "columns")
        require(type(self.position) is int and self.position >= 0, "a class")
        for number in (self.n_rows, self.step):
            require(is_number(number) and number > 0, "second moments")

    @property
    def identity(self) -> object:
        return self.n_columns


QUERIES: dict[str, type[Query]] = {
    query.kind: query for query in (Marginals, Pairs, Triples, Cells, Ranks, Moments)
}
