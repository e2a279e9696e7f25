"""Queries: what a fit asks of the rows of a class, and the noisy answers.

A query is public: columns, and bins that follow from earlier releases. It says by how
much a row can move its answer (L2 sensitivity), and a `Measurement` is its answer. Each
is one line of the ledger.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skdpsynth.measure._bins import check_edges
from skdpsynth.measure._shares import TINY
from skdpsynth.privacy import (
    GRID,
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
from skdpsynth.table import MISSING, ZERO, NumericDomain, is_number
from skdpsynth.utils import check_array, in_chunks, require

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from skdpsynth.measure._bins import FinerBins, TableBins
    from skdpsynth.measure._table_model import TableModel
    from skdpsynth.privacy import Parts, PrivacyAccountant, Reservation
    from skdpsynth.table import ColumnDomain, PrivateRows

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# Groups of a child given its parent: with 8, C2ST of Diamonds at epsilon 1 was .845,
# with 3 and 4 .83.
N_GROUPS = 3
CLIP = 2.0  # squared length at which rows are shortened, over the mean one


class Query(ABC):
    """A question about the rows of a class, or of several; public.

    Attributes
    ----------
    name : str
        What the ledger calls it.
    sensitivity : float
        By how much a row moves what is released (L2), in units of the release.
    unit : float
        What one unit of the release is in an answer.
    shape : tuple of int
        Shape of an answer.
    """

    kind: ClassVar[str]  # its name in a file
    saved: ClassVar[tuple[str, ...]]  # the fields that a file has
    dtype: ClassVar[str] = "float64"  # of an answer
    name: str
    sensitivity: float
    unit: float
    shape: tuple[int, ...]

    @abstractmethod
    def release(self, rows: Parts, line: Reservation) -> NDArray[np.floating]:
        """Draw the noisy answer by a reservation of this sensitivity."""

    @abstractmethod
    def check(self, domains: Sequence[ColumnDomain]) -> None:
        """Raise a ValueError unless it is a question about these columns."""

    @property
    def asked(self) -> object:
        """What must be equal so that answers can be added up."""
        return [_plain(getattr(self, name)) for name in self.saved]

    def _tables(self, what: str, n: int, shape: tuple[int, ...], scale: int) -> None:
        """Set what `n` tables of counts have.

        A row is in one cell of each and adds `scale` to its count, so their sensitivity
        is ``scale * sqrt(n)``.
        """
        tables = "1 table" if n == 1 else f"{n} tables"
        self.name = f"{tables} of {what}, {math.prod(shape)} cells"
        self.sensitivity = scale * math.sqrt(n)
        self.unit, self.shape = 1.0 / scale, shape


def _plain(value: Any) -> Any:  # noqa: ANN401 - of a query
    """Return something that compares by its content."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    return [*map(_plain, value)] if isinstance(value, list) else value


@dataclass(frozen=True, eq=False)
class Measurement:
    """The noisy answer to one query; public.

    Parameters
    ----------
    query : Query
        What was asked.
    values : ndarray
        The answer, in rows; counts may be negative. Of second moments covariances of
        normal scores.
    noise_std : float
        Standard deviation of the noise of each value.
    mu : float
        Gaussian-DP parameter that the ledger charges for it, for all rows of a unit of
        privacy; infinite without noise.
    scope : hashable
        The class whose rows were asked and are charged; None for all rows.
    """

    query: Any  # of the kind that who asks for it knows
    values: NDArray[Any]
    noise_std: float
    mu: float
    scope: Hashable = None

    def __post_init__(self) -> None:
        check_array(self.values, self.query.dtype, self.query.shape)
        for number in (self.noise_std, self.mu):
            require(is_number(number) or number == math.inf, "noise")
            require(number >= 0, "noise")


def measure_query(
    query: Query,
    rows: Parts,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
) -> Measurement:
    """Release the answer to a query, charged to the rows of `scope`."""
    line = accountant.reserve_gaussian(
        query.name, mu=mu, sensitivity=query.sensitivity, scope=scope
    )
    values, of_unit = query.release(rows, line), mu * line.rows_per_unit
    return Measurement(query, values, line.noise_std * query.unit, of_unit, scope)


# --- One column -------------------------------------------------------------------


@dataclass(eq=False)
class Marginals(Query):
    """Counts of single columns less their mean, and maybe the number of all rows.

    Sensitivity: `centred_sensitivity` of the cells of each column and of the weight of
    the number of rows, proved at `centred_histogram`: a row is in one cell of a column,
    or in none.

    Parameters
    ----------
    domains : sequence of ColumnDomain
        Those of all columns of the table.
    columns : tuple of int
        Positions of the columns that are counted.
    edges : dict of int to ndarray
        Of each numeric one among them the edges of its bins, (n_bins + 1,).
    size_weight : float
        Of the number of all rows; 0 where it is not released.
    coarse : bool
        Whether it is a first round, of coarse bins.
    """

    domains: Sequence[ColumnDomain]
    columns: tuple[int, ...]
    edges: Mapping[int, Floats]
    size_weight: float = 0.0
    coarse: bool = False

    kind, saved = "marginals", ("columns", "edges", "size_weight", "coarse")

    def __post_init__(self) -> None:
        sizes = ((j, len(self.edges.get(j, [0])) - 1) for j in self.columns)
        self.n_cells = [n_cells(self.domains[j], n) for j, n in sizes]
        self.name = "coarse marginals" if self.coarse else "marginals"
        self.sensitivity = centred_sensitivity(self.n_cells, self.size_weight)
        self.unit = 1.0 / GRID
        n_numbers = sum(self.n_cells) + len(self.columns) + (self.size_weight > 0)
        self.shape = (n_numbers,)

    def release(self, rows: Parts, line: Reservation) -> NDArray[np.floating]:
        """Draw the noisy counts."""
        codes = rows.map(_codes_of_cells, self.domains, self.edges, self.columns)
        weight = self.size_weight
        return centred_histogram(codes, self.n_cells, line, weight).numbers

    def counted(self, own: Measurement) -> CentredCounts:
        """Return an answer as counts less their mean."""
        cells, weight = self.n_cells, self.size_weight
        return CentredCounts.of(own.values, cells, weight, own.noise_std)

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        """Raise a ValueError unless it is a question about these columns."""
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
        inner = {j: own[1:-1] for j, own in self.edges.items()}
        return {j: np.concatenate(([0.0], own, [1.0])) for j, own in inner.items()}

    @property
    def asked(self) -> object:
        """What must be equal so that answers can be added up: not that of the size."""
        return self.columns, [(j, own.tolist()) for j, own in self.opened.items()]


def n_cells(domain: ColumnDomain, n_bins: int) -> int:
    """Count the cells of a column: what its domain models."""
    if isinstance(domain, NumericDomain):
        return n_bins + (domain.zero is not None) + domain.nullable
    return len(domain.categories) + domain.nullable


def _codes_of_cells(
    rows: PrivateRows,
    domains: Sequence[ColumnDomain],
    edges: Mapping[int, Floats],
    columns: Sequence[int],
) -> NDArray[np.unsignedinteger]:
    """Return the cell of every row in every column; private.

    What a domain does not model is in no cell: the code after the last. These are other
    values than the categories, and missing ones where it is not nullable.
    """
    sizes = [n_cells(domains[j], len(edges.get(j, [0])) - 1) for j in columns]
    shape, dtype = (len(rows), len(columns)), np.min_scalar_type(max(sizes))
    codes = np.empty(shape, dtype=dtype)
    for (position, j), own in product(enumerate(columns), in_chunks(len(rows))):
        domain, code, n = domains[j], rows.category_codes[own, j], sizes[position]
        missing = n - 1 if domain.nullable else n
        if isinstance(domain, NumericDomain):
            inner = edges[j][1:-1].astype(np.float32)
            binned = np.searchsorted(inner, rows.uniforms[own, j], side="right")
            if domain.zero is not None:
                binned[code == ZERO] = len(edges[j]) - 1
            binned[code == MISSING] = missing
            codes[own, position] = binned
        else:
            known = np.arange(len(domain.categories))
            codes[own, position] = np.append(known, (n, missing))[code]
    return codes


# --- Two and three columns --------------------------------------------------------


@dataclass(eq=False)
class Pairs(Query):
    """Tables of pairs of columns, all at once.

    Parameters
    ----------
    bins : TableBins
        The bins of all columns, D of them.
    sets : ndarray of shape (N, 2), int64
        Columns i < j of each pair.
    """

    bins: TableBins
    sets: Ints

    kind, saved, dtype = "pairs", ("sets",), "float32"

    def __post_init__(self) -> None:
        # Which pairs of bins are in a table, (D, D), above the diagonal: the order of
        # the cells of an answer.
        self.measured = measured_cells(self.bins.sizes, self.sets)
        shape = (int(self.measured.sum()),)
        self._tables("2 columns", len(self.sets), shape, GRID)

    def release(self, rows: Parts, line: Reservation) -> NDArray[np.floating]:
        """Draw the noisy counts of all tables."""
        codes, sizes = rows.map(self.bins.encode), self.bins.sizes
        counts = noisy_pair_tables(codes, sizes, self.sets, line, GRID)
        return (counts[self.measured] / GRID).astype(np.float32)

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        """Raise a ValueError unless it is a question about these columns."""
        self.bins.check(domains)  # pairs twice, or i >= j, have no cells
        check_array(self.sets, "int64", (len(self.sets), 2), 0, len(domains) - 1)
        require(len(self.sets), "sets of columns")


@dataclass(eq=False)
class Triples(Query):
    """Tables of all triples of columns, whose bins are in a few groups.

    Parameters
    ----------
    bins : TableBins
        The bins of all columns, D of them.
    groups : ndarray of shape (D,), int64
        The group of each bin.
    n_groups : int
        Groups of a column.
    """

    bins: TableBins
    groups: Ints
    n_groups: int

    kind, saved, dtype = "triples", ("groups", "n_groups"), "float32"

    def __post_init__(self) -> None:
        triples = combinations(range(len(self.bins.sizes)), 3)
        self.sets = np.array(list(triples), dtype=np.int64).reshape(-1, 3)
        shape = (len(self.sets), *(self.n_groups,) * 3)
        self._tables("3 columns", len(self.sets), shape, GRID)

    def release(self, rows: Parts, line: Reservation) -> NDArray[np.floating]:
        """Draw the noisy counts of all tables."""
        codes = rows.map(self.bins.encode)
        codes = codes.map(_codes_of_groups, self.groups, self.bins.starts[:-1])
        counts = noisy_triple_tables(codes, self.n_groups, self.sets, line, GRID)
        return (counts / GRID).astype(np.float32)

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        """Raise a ValueError unless it is a question about these columns."""
        self.bins.check(domains)
        n_bins = int(self.bins.starts[-1])
        require(type(self.n_groups) is int and len(self.sets), "groups")
        check_array(self.groups, "int64", (n_bins,), 0, self.n_groups - 1)


def _codes_of_groups(
    codes: NDArray[np.integer], groups: Ints, starts: Ints
) -> NDArray[Any]:
    """Return the groups of the bins of rows; private."""
    return groups.astype(np.uint8)[codes + starts]


# --- Columns that nearly determine each other --------------------------------------


@dataclass(eq=False)
class Cells(Query):
    """Finer cells of some pairs of columns, inside the pairs of bins that have rows.

    A row is in one cell of each table: of impossible pairs of bins in one for all.

    Parameters
    ----------
    finer : FinerBins
        The cells of all columns.
    sets : ndarray of shape (K, 2), int64
        The columns of each table: the one that determines the other, and the other.
    possible : list of K ndarray of shape (n_bins, n_bins), bool
        Which pairs of their bins have rows.
    """

    finer: FinerBins
    sets: Ints
    possible: Sequence[NDArray[np.bool_]]

    kind, saved = "cells", ("sets", "possible")

    def __post_init__(self) -> None:
        # Numbers of the cells of each table; the last is for all that are impossible.
        self.places: list[Ints] = []
        for pair, bins in zip(self.sets.tolist(), self.possible, strict=True):
            possible = bins[self.finer.in_bins(pair)]
            places = np.full(possible.shape, possible.sum())
            places[possible] = np.arange(possible.sum())
            self.places.append(places)
        self.sizes = [int(bins.max()) + 1 for bins in self.places]
        what = "2 columns in finer cells"
        self._tables(what, len(self.sets), (sum(self.sizes),), 1)

    def release(self, rows: Parts, line: Reservation) -> NDArray[np.floating]:
        """Draw the noisy counts of all tables."""
        codes = rows.map(_codes_of_pairs, self.finer, self.sets.tolist(), self.places)
        return np.concatenate(noisy_histogram(codes, self.sizes, line)).astype(float)

    def tables(self, values: NDArray[np.floating]) -> list[Floats]:
        """Return an answer as tables, NaN where a pair of bins is impossible."""
        parts = np.split(values, np.cumsum(self.sizes)[:-1])
        both = zip(parts, self.places, strict=True)
        return [np.append(own[:-1], np.nan)[place] for own, place in both]

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        """Raise a ValueError unless it is a question about these columns."""
        self.finer.bins.check(domains)
        check_array(self.sets, "int64", (len(self.sets), 2), 0, len(domains) - 1)
        require(len(self.sets) and (np.diff(self.sets) != 0).all(), "sets of columns")
        require(len(np.unique(self.sets, axis=0)) == len(self.sets), "a set twice")
        n_bins = self.finer.coarse.sizes
        for pair, bins in zip(self.sets.tolist(), self.possible, strict=True):
            check_array(bins, "bool", tuple(n_bins[j] for j in pair))


def _codes_of_pairs(
    rows: PrivateRows,
    finer: FinerBins,
    pairs: Sequence[Sequence[int]],
    places: Sequence[Ints],
) -> NDArray[np.unsignedinteger]:
    """Return the cell of every row in every table; private."""
    kind = np.min_scalar_type(max(int(place.max()) for place in places))
    codes = np.empty((len(rows), len(pairs)), dtype=kind)
    for k, (pair, place) in enumerate(zip(pairs, places, strict=True)):
        codes[:, k] = place[finer.of_rows(rows, pair)]
    return codes


@dataclass(eq=False)
class Ranks(Query):
    """Counts by the rank of a column, given another one, and the bin of a third.

    This is the second tree of a vine (Bedford, Cooke 2002). The rank is among the
    values that occur with the same cell of the other column, in `N_GROUPS` groups that
    are about equally frequent.

    Parameters
    ----------
    bins : TableBins
        The bins of third columns.
    finer : FinerBins
        The cells of the columns of pairs.
    sets : ndarray of shape (M, 3), int64
        Of each table the column that is given, the one whose ranks are counted, and the
        third one.
    groups : list of M ndarray of shape (n_cells, n_cells), uint8
        The group of a cell of the second column, given a cell of the first.
    """

    bins: TableBins
    finer: FinerBins
    sets: Ints
    groups: Sequence[NDArray[np.uint8]]

    kind, saved = "ranks", ("sets", "groups")

    def __post_init__(self) -> None:
        self.sizes = [N_GROUPS * self.bins.sizes[j] for j in self.sets[:, 2].tolist()]
        shape = (sum(self.sizes),)
        self._tables("ranks given a column", len(self.sets), shape, 1)

    def release(self, rows: Parts, line: Reservation) -> NDArray[np.floating]:
        """Draw the noisy counts of all tables."""
        codes = rows.map(_codes_of_ranks, self.bins, self.finer, self.sets, self.groups)
        return np.concatenate(noisy_histogram(codes, self.sizes, line)).astype(float)

    def tables(self, values: NDArray[np.floating]) -> list[Floats]:
        """Return an answer as tables, (N_GROUPS, n_bins) each."""
        parts = np.split(values, np.cumsum(self.sizes)[:-1])
        return [own.reshape(N_GROUPS, -1) for own in parts]

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        """Raise a ValueError unless it is a question about these columns."""
        self.finer.check(domains, self.bins)
        check_array(self.sets, "int64", (len(self.sets), 3), 0, len(domains) - 1)
        n_cells, distinct = self.finer.bins.sizes, np.diff(np.sort(self.sets, axis=1))
        require(len(self.sets) and (distinct > 0).all(), "sets of columns")
        require(len(np.unique(self.sets, axis=0)) == len(self.sets), "a set twice")
        for (a, b, _), groups in zip(self.sets.tolist(), self.groups, strict=True):
            check_array(groups, "uint8", (n_cells[a], n_cells[b]), 0, N_GROUPS - 1)


def _codes_of_ranks(
    rows: PrivateRows,
    bins: TableBins,
    finer: FinerBins,
    sets: Ints,
    groups: Sequence[NDArray[np.uint8]],
) -> NDArray[np.unsignedinteger]:
    """Return the cell of every row in every table; private."""
    of_bins, kind = bins.encode(rows), np.min_scalar_type(N_GROUPS * max(bins.sizes))
    codes = np.empty((len(rows), len(sets)), dtype=kind)
    of_pair: dict[tuple[int, ...], Any] = {}
    for n, ((*pair, third), own) in enumerate(zip(sets.tolist(), groups, strict=True)):
        if tuple(pair) not in of_pair:
            of_pair = {tuple(pair): own[finer.of_rows(rows, pair)].astype(np.int64)}
        codes[:, n] = of_pair[tuple(pair)] * bins.sizes[third] + of_bins[:, third]
    return codes


# --- All columns ------------------------------------------------------------------


@dataclass(eq=False)
class Moments(Query):
    """Covariances of the normal scores of all columns.

    Sensitivity: `MOMENTS_SENSITIVITY`, proved at `noisy_second_moments`: a row is
    shortened to a length of `LENGTH` in whole numbers.

    Parameters
    ----------
    model : TableModel or None
        Released marginals, which turn rows into scores; None if read from a file.
    position : int
        The class whose marginals these are.
    n_columns : int
        Number of columns.
    n_rows : float
        Rows of the class, as known.
    step : float
        What one unit is in a score.
    """

    model: TableModel | None
    position: int
    n_columns: int
    n_rows: float
    step: float

    kind, saved = "moments", ("position", "n_columns", "n_rows", "step")

    def __post_init__(self) -> None:
        self.name = f"second moments of {self.n_columns} columns"
        self.sensitivity, self.unit = MOMENTS_SENSITIVITY, self.step**2 / self.n_rows
        self.shape = (math.comb(self.n_columns, 2),)  # in the order of `triu_indices`

    @classmethod
    def of(cls, model: TableModel, position: int, n_rows: float) -> Moments:
        """Return the query whose unit suits the scores of a class."""
        _, stds, _ = model.score_moments(position)
        step = math.sqrt(max(CLIP * float((stds**2).sum()), TINY)) / LENGTH
        return cls(model, position, len(stds), n_rows, step)

    def release(self, rows: Parts, line: Reservation) -> NDArray[np.floating]:
        """Draw the noisy covariances."""
        assert self.model is not None
        means, _, _ = self.model.score_moments(self.position)
        scores = rows.map(_scores, self.model, self.position)
        return noisy_second_moments(scores, means, self.step, line) / self.n_rows

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        """Raise a ValueError unless it is a question about these columns."""
        require(self.n_columns == len(domains) > 1, "columns")
        require(type(self.position) is int and self.position >= 0, "a class")
        for number in (self.n_rows, self.step):
            require(is_number(number) and number > 0, "second moments")

    @property
    def asked(self) -> object:
        """What must be equal so that answers can be averaged."""
        return self.n_columns


def _scores(rows: PrivateRows, model: TableModel, position: int) -> NDArray[np.float32]:
    """Return the normal scores of the rows of a class; private."""
    return model.score_rows(rows.uniforms, rows.category_codes, position)


QUERIES: dict[str, type[Query]] = {
    query.kind: query for query in (Marginals, Pairs, Triples, Cells, Ranks, Moments)
}
