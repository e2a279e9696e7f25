"""All that a fit measures of the rows once the metadata is known, in one place.

Tables of one, two and three columns per class, and second moments of scores where the
columns are too many for tables. Everything else is fitted to these: post-processing.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_args, overload

import numpy as np

from skdpsynth.exceptions import InvalidSchemaError, PersistenceError
from skdpsynth.measure._allocation import mus_of_relations, table_bins
from skdpsynth.measure._checks import check_measured
from skdpsynth.measure._marginals import (
    estimate,
    flat_marginals,
    known_sizes,
    measure_marginals,
    opened,
)
from skdpsynth.measure._origin import PARTS, Origin, decoded
from skdpsynth.measure._relations import (
    N_GROUPS,
    CellTables,
    GroupTables,
    Relations,
    find_relations,
    finer_bins,
    measure_cells,
    measure_groups,
    others,
    parts_of_bins,
    with_cells,
    with_groups,
)
from skdpsynth.measure._table_model import TableModel
from skdpsynth.measure._tables import (
    PairTables,
    SecondMoments,
    TripleTables,
    choose_bins,
    choose_pairs,
    every_pair,
    measure_moments,
    measure_pairs,
    measure_triples,
)
from skdpsynth.privacy import UNLABELLED, PrivacyReport
from skdpsynth.schema import TableSchema, decode_value, encode_value
from skdpsynth.table import NumericDomain
from skdpsynth.utils import DAMAGED, MOST_SHOWN, check_new, parse_json, read_text

if TYPE_CHECKING:
    import os
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.measure._allocation import Allocation
    from skdpsynth.measure._marginals import Round
    from skdpsynth.measure._tables import ColumnBins, TableBins
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.table import (
        Classes,
        ColumnDomain,
        MarginalTransform,
        Metadata,
        PrivateRows,
        TableRows,
    )

    Floats = NDArray[np.float64]

Kind = Literal["interval", "categories", "zero", "missing", "other", "rank"]

_FORMAT = "skdpsynth measurements 1"


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
class Measurement:
    """One noisy table that a fit released.

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
    values: NDArray[np.float64]
    noise_std: float
    class_label: Hashable = None

    @property
    def order(self) -> int:
        """Number of columns."""
        return len(self.columns)


class Measurements:
    """All noisy tables of a fit, in the order of their release.

    Parameters
    ----------
    measurements : iterable of Measurement
        The tables. They are listed when they are first asked for, since a wide table
        has many.

    See Also
    --------
    skdpsynth.combine_measurements : Adds up those of several sites.
    skdpsynth.MarginalSynthesizer.from_measurements : Fits a generator to them.

    Examples
    --------
    >>> from skdpsynth import MarginalSynthesizer
    >>> from skdpsynth.datasets import load_thyroid
    >>> synth = MarginalSynthesizer(epsilon=3.0, target="class", random_state=0)
    >>> measurements = synth.fit(load_thyroid()).measurements_
    >>> sorted({measurement.order for measurement in measurements})
    [0, 1, 2]
    """

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self._source = measurements
        self._origin: Origin | None = None

    @property
    def origin(self) -> Origin:
        """What a fit to all measurements of another fit needs; internal."""
        if self._origin is None:
            raise ValueError(
                "These measurements are not all of one fit. Expected `measurements_` of"
                " a fitted synthesizer without rows that lack a label, or what"
                " `Measurements.load` or `combine_measurements` gave of such."
            )
        return self._origin

    @property
    def schema(self) -> TableSchema:
        """What was declared and measured of the table, but numbers of rows.

        For fits at other sites, so that all measurements can be combined.
        """
        return self.origin.schema

    def of_fit(self, schema: TableSchema, report: PrivacyReport) -> Self:
        """Add what a fit has in the end, so that they can be fitted again.

        For synthesizers; users have no need of it.

        Parameters
        ----------
        schema : TableSchema
            What was declared and measured of the table.
        report : PrivacyReport
            The claim of the fit.

        Returns
        -------
        Measurements
            These.
        """
        source = self._source
        if isinstance(source, Described) and source.whole:
            self._origin = Origin.of(source.measured, schema, report)
        return self

    def of_origin(self, origin: Origin) -> Self:
        """Add what was read or combined.

        For synthesizers; users have no need of it.

        Parameters
        ----------
        origin : Origin
            What a fit to them needs.

        Returns
        -------
        Measurements
            These.
        """
        self._origin = origin
        return self

    @cached_property
    def _all(self) -> tuple[Measurement, ...]:
        return tuple(self._source)

    @overload
    def __getitem__(self, place: int) -> Measurement: ...

    @overload
    def __getitem__(self, place: slice) -> Self: ...

    def __getitem__(self, place: int | slice) -> Measurement | Self:
        """Give one of them, or some."""
        if isinstance(place, slice):
            return type(self)(self._all[place])
        return self._all[place]

    def __iter__(self) -> Iterator[Measurement]:
        """Go through them."""
        return iter(self._all)

    def __len__(self) -> int:
        """Count them."""
        return len(self._all)

    def __repr__(self) -> str:
        """Say how many there are of each order."""
        orders = [measurement.order for measurement in self._all]
        listed = (f"{orders.count(n)} of {n} columns" for n in sorted(set(orders)))
        return f"<Measurements: {', '.join(listed) or 'none'}>"

    def to_frame(self) -> pd.DataFrame:
        """List all values, one per row.

        Returns
        -------
        DataFrame
            With columns ``class``, ``columns`` and ``bins``, which are texts, ``value``
            and ``noise_std``.
        """
        import pandas as pd

        return pd.DataFrame(
            [
                (own.class_label, ", ".join(map(str, own.columns)), bins, value, std)
                for own in self._all
                for std in [own.noise_std]
                for bins, value in _cells(own)
            ],
            columns=["class", "columns", "bins", "value", "noise_std"],
        )

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write them to a JSON file.

        Parameters
        ----------
        path : path-like
            The file.
        overwrite : bool, default=False
            Whether to replace a file that is there.

        Raises
        ------
        FileExistsError
            If there is such a file: what is in it may have cost a budget.
        """
        check_new(path, overwrite=overwrite)
        places: dict[str, int] = {}  # as texts: True and 1 are equal

        def place(bins: tuple[Bin, ...]) -> int:
            text = json.dumps([_bin_to_json(one) for one in bins])
            return places.setdefault(text, len(places))

        listed = [
            {
                "class": encode_value(own.class_label),
                "columns": [encode_value(name) for name in own.columns],
                "bins": [place(bins) for bins in own.bins],
                "shape": own.values.shape,
                "values": [None if np.isnan(x) else x for x in own.values.ravel()],
                "noise_std": float(own.noise_std),
            }
            for own in self._all
        ]
        bins = [json.loads(text) for text in places]
        document: dict[str, Any] = {"format": _FORMAT, "bins": bins}
        document["measurements"] = listed
        if self._origin is not None:
            document["fit"] = self._origin.to_json()
        Path(path).write_text(json.dumps(document), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        Measurements
            Public data of the file's author. It proves nothing of its privacy: that
            claim is in the report of the fit which made it.

        Raises
        ------
        PersistenceError
            If the file is no such file, or damaged.
        """
        document: Any
        try:
            document = parse_json(read_text(path))
            if document["format"] != _FORMAT:
                raise ValueError("another format")
            bins = [tuple(map(_bin_from_json, own)) for own in document["bins"]]
            found = cls([_from_json(own, bins) for own in document["measurements"]])
            if "fit" in document:
                found.of_origin(_origin_from_json(document["fit"]))
        except (*DAMAGED, InvalidSchemaError) as error:
            raise PersistenceError(
                f"Expected a file that Measurements.save wrote. Got {Path(path).name!r}"
                ", which is another or damaged; save it again."
            ) from error
        return found


def _origin_from_json(data: Mapping[str, Any]) -> Origin:
    schema = TableSchema.from_dict(data["schema"])
    report = PrivacyReport.from_dict(data["report"])
    table = dict(data["table"])
    classes_std = table.pop("noise_std")
    arrays = {name: decoded(array) for name, array in data["arrays"].items()}
    model = TableModel.from_state(table, arrays, schema)
    classes = replace(model.metadata.classes, noise_std=classes_std)
    model = replace(model, metadata=replace(model.metadata, classes=classes))
    parts = {name: decoded(data["parts"][name]) for name in PARTS}
    measured = Measured(model, noise_stds=tuple(data["noise_stds"]), **parts)
    return Origin(measured, schema, report)


@dataclass(frozen=True)
class Measured:
    """What was measured of every class; all of it is public.

    Rows without a label, if they were measured, are the last class. Keys of what was
    not measured of every class are positions of classes.

    Parameters
    ----------
    model : TableModel
        The marginals of each class, estimated from the tables of one column.
    rounds : list of n_classes list of Round
        The tables of one column as they were released.
    bins : TableBins
        The bins of all columns, D of them, of tables of two columns.
    pairs : dict of int to PairTables
        Tables of two columns.
    triples : dict of int to TripleTables
        Tables of three columns.
    moments : dict of int to SecondMoments
        Noisy covariances of normal scores.
    noise_stds : tuple of n_classes float
        Planned noise of the counts of tables of one column, in rows.
    edges : dict of int to ndarray
        Edges of the cells of each numeric column, that the marginals are made of.
    relations : Relations, optional
        Columns that follow another one; None without tables of two columns.
    together : PairTables, optional
        Tables of two columns of the classes that have some, all together.
    cells : CellTables, optional
        The finer cells of strong relations.
    groups : GroupTables, optional
        What their parents leave open, by all other columns.
    """

    model: TableModel
    rounds: list[list[Round]]
    bins: TableBins
    pairs: dict[int, PairTables]
    triples: dict[int, TripleTables]
    moments: dict[int, SecondMoments]
    noise_stds: tuple[float, ...]
    edges: dict[int, Floats]
    relations: Relations | None = None
    together: PairTables | None = None
    cells: CellTables | None = None
    groups: GroupTables | None = None

    def __post_init__(self) -> None:
        check_measured(self)

    @cached_property
    def ranks(self) -> list[Floats]:
        """Where each bin begins and ends among the ranks of its column, (2, D)."""
        return [self.bins.ranks(own) for own in self.model.marginals]

    @cached_property
    def shares(self) -> list[Floats]:
        """The share of each bin in its column, (D,), by class."""
        return [self.bins.shares(own) for own in self.ranks]

    @property
    def counted(self) -> tuple[list[dict[int, Floats]], dict[int, Floats]] | None:
        """The edges of tables of one column, by class, and of the cells of numbers.

        For another table, which may have rows where this one has none. None where no
        such tables were measured.
        """
        if not all(self.rounds):
            return None
        domains = self.model.metadata.domains
        edges = [
            {
                j: np.concatenate(([0.0], one[1:-1], [1.0]))
                for j, one in own[-1].edges.items()
            }
            for own in self.rounds
        ]
        return edges, {j: opened(domains[j], own) for j, own in self.edges.items()}

    @property
    def measurements(self) -> Measurements:
        """The same as a list of tables with names."""
        return Measurements(Described(self))


# Columns, bins, values and noise.
Table = tuple[tuple["Hashable", ...], tuple[Any, ...], "Floats", float]


def having_pairs(positions: Iterable[int], classes: Classes) -> list[int]:
    """Give the classes whose tables of pairs are released together too.

    Of several classes every row is charged for that, so that rows without a label are
    in these tables, if they have any of their own.
    """
    positions = list(positions)
    labelled = [c for c in positions if classes.scopes[c] is not UNLABELLED]
    return positions if len(labelled) > 1 else labelled


def shown_pairs(
    pairs: Mapping[int, PairTables], classes: Classes
) -> dict[int, PairTables]:
    """Give the tables of pairs that relations are found in: all of the same pairs."""
    having = having_pairs(pairs, classes)
    if len(having) < len(pairs):  # other pairs are known of rows without a label
        having = [max(pairs, key=lambda c: pairs[c].n_rows)]
    return {c: pairs[c] for c in having}


def scope_of(positions: Sequence[int], classes: Classes) -> Hashable:
    """Give the scope of a release of some classes: of several, every row is charged."""
    return classes.scopes[positions[0]] if len(positions) == 1 else None


@dataclass(frozen=True)
class Described:
    """The tables of `Measured`, with names; made when they are asked for."""

    measured: Measured

    @property
    def whole(self) -> bool:
        """Whether every class has rows with a label."""
        return UNLABELLED not in self._metadata.classes.scopes

    @property
    def _metadata(self) -> Metadata:
        return self.measured.model.metadata

    def __iter__(self) -> Iterator[Measurement]:
        """Go through the tables, class by class, then those of several together."""
        classes = self._metadata.classes
        for c, size in enumerate(known_sizes(classes, self.measured.rounds).tolist()):
            scope = classes.scopes[c]
            label = UNLABELLED.value if scope is UNLABELLED else scope
            for columns, bins, values, std in self._of_class(c, size):
                yield Measurement(columns, bins, values, float(std), label)
        having = having_pairs(self.measured.pairs, classes)
        scope = scope_of(having, classes) if having else None
        for columns, bins, values, std in self._of_all():
            yield Measurement(columns, bins, values, float(std), scope)

    @property
    def _names(self) -> tuple[Hashable, ...]:
        return tuple(column.name for column in self._metadata.columns)

    @cached_property
    def _bins_of_columns(self) -> tuple[list[slice], list[tuple[Bin, ...]]]:
        """Where the bins of each column are, and what is in them."""
        parts = [slice(*ends) for ends in pairwise(self.measured.bins.starts.tolist())]
        return parts, [
            *map(_bins_of_codes, self._metadata.domains, self.measured.bins.columns)
        ]

    def _of_pairs(self, two: PairTables) -> Iterator[Table]:
        """Give columns, bins, values and noise of tables of two columns."""
        names, (parts, bins) = self._names, self._bins_of_columns
        for i, j in two.pairs.tolist():
            values = two.counts[parts[i], parts[j]].astype(np.float64)
            yield (names[i], names[j]), (bins[i], bins[j]), values, two.noise_std

    def _of_class(self, c: int, size: float) -> Iterator[Table]:
        """Give columns, bins, values and noise of the tables of one class."""
        classes, domains, names = (
            self._metadata.classes,
            self._metadata.domains,
            self._names,
        )
        if noise_std := classes.noise_stds[c]:
            yield (), (), np.array(classes.counts[c]), noise_std
        for one in self.measured.rounds[c]:
            released = one.released
            if np.isfinite(released.size_std):
                yield (), (), np.array(released.size), released.size_std
            for j, counts in one.counts(size).items():
                # Of counts less their mean, with the mean of as many rows as are known.
                std = released.noise_std * np.sqrt(1.0 - 1.0 / max(len(counts), 1))
                own = _bins_of_cells(domains[j], one.edges.get(j))
                yield (names[j],), (own,), counts, std
        if (two := self.measured.pairs.get(c)) is not None:
            yield from self._of_pairs(two)
        if (three := self.measured.triples.get(c)) is not None:
            n, (parts, bins) = three.counts.shape[-1], self._bins_of_columns
            groups = [
                _bins_of_groups(three.groups[part], own, n)
                for part, own in zip(parts, bins, strict=True)
            ]
            for own, values in zip(three.triples.tolist(), three.counts, strict=True):
                table = tuple(names[j] for j in own), tuple(groups[j] for j in own)
                yield *table, values.astype(np.float64), three.noise_std
        if (moments := self.measured.moments.get(c)) is not None:
            values = np.full((len(names), len(names)), np.nan)
            above = np.triu_indices(len(names), 1)
            values[above] = values.T[above] = moments.covariances
            yield names, (), values, moments.noise_std

    def _of_all(self) -> Iterator[Table]:
        """Give columns, bins, values and noise of the tables of several classes."""
        names, domains, relations = (
            self._names,
            self._metadata.domains,
            self.measured.relations,
        )
        if self.measured.together is not None:
            yield from self._of_pairs(self.measured.together)
        if self.measured.cells is not None:
            assert relations is not None
            assert relations.finer is not None
            columns = relations.finer.bins.columns
            for own, values in zip(
                relations.measured, self.measured.cells.counts, strict=True
            ):
                pair = own.parent, own.child
                both = tuple(_bins_of_codes(domains[j], columns[j]) for j in pair)
                yield (
                    tuple(names[j] for j in pair),
                    both,
                    values,
                    self.measured.cells.noise_std,
                )
        if self.measured.groups is not None:
            assert relations is not None
            _, bins = self._bins_of_columns
            places, std = others(relations, len(names)), self.measured.groups.noise_std
            ends = np.linspace(0, 1, N_GROUPS + 1).tolist()
            for (k, j), values in zip(places, self.measured.groups.counts, strict=True):
                own = relations.measured[k]
                given = (names[own.parent],)
                ranked = tuple(Bin("rank", part, given) for part in pairwise(ends))
                yield (names[own.child], names[j]), (ranked, bins[j]), values, std


def _bins_of_cells(domain: ColumnDomain, edges: Floats | None) -> tuple[Bin, ...]:
    """Give the bins of a table of one column."""
    if isinstance(domain, NumericDomain):
        assert edges is not None
        zero = [Bin("zero")] * (domain.zero is not None)
        found = [*_intervals(domain, edges), *zero]
    else:
        found = [Bin("categories", None, (category,)) for category in domain.categories]
    return (*found, *[Bin("missing")] * domain.nullable)


def _bins_of_codes(domain: ColumnDomain, own: ColumnBins) -> tuple[Bin, ...]:
    """Give the bins of a column in tables of two columns."""
    if isinstance(domain, NumericDomain):
        zero = [Bin("zero")] * (own.zero is not None)
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
    """Give the bins of a column in tables of three columns: unions of others."""
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
    """Give the intervals between positions in a domain."""
    values = domain.edges(edges).tolist()
    return [Bin("interval", ends) for ends in pairwise(values)]


def _cells(own: Measurement) -> Iterator[tuple[str, float]]:
    """Give the bins of every value, as a text, and the value."""
    if own.bins or not own.columns:
        texts = ("; ".join(map(str, bins)) for bins in product(*own.bins))
        yield from zip(texts, own.values.ravel().tolist(), strict=True)
        return
    for i, j in zip(*np.triu_indices(own.order, 1), strict=True):
        yield f"{own.columns[i]}; {own.columns[j]}", float(own.values[i, j])


def _bin_to_json(own: Bin) -> list[Any]:
    return [own.kind, own.ends, [*map(encode_value, own.categories)], own.also]


def _bin_from_json(data: Any) -> Bin:  # noqa: ANN401 - JSON
    kind, ends, categories, also = data
    if not {kind, *also} <= {*get_args(Kind)}:
        raise ValueError("an unknown kind of bin")
    if ends is not None:
        low, high = map(float, ends)
        ends = low, high
    return Bin(kind, ends, tuple(map(decode_value, categories)), tuple(also))


def _from_json(data: Any, bins: list[tuple[Bin, ...]]) -> Measurement:  # noqa: ANN401
    columns = tuple(decode_value(name) for name in data["columns"])
    if min(data["bins"], default=0) < 0:
        raise ValueError("bins of no column")
    own = tuple(bins[place] for place in data["bins"])
    values = np.array(data["values"], dtype=np.float64).reshape(data["shape"])
    expected = tuple(map(len, own)) if own or not columns else (len(columns),) * 2
    noise_std = float(data["noise_std"])
    if values.shape != expected or noise_std < 0 or len(own) not in (0, len(columns)):
        raise ValueError("a table of another shape")
    if np.isnan(values).any() and len(columns) != 2 and (own or not columns):
        raise ValueError("a count that is missing")
    label = decode_value(data["class"])
    return Measurement(columns, own, values, noise_std, label)


def measure(
    rows: TableRows,
    metadata: Metadata,
    plans: Sequence[Allocation],
    accountant: PrivacyAccountant,
    design: Measured | None = None,
) -> Measured:
    """Measure every class as planned; classes compose in parallel.

    Parameters
    ----------
    rows : TableRows
        The encoded rows; private.
    metadata : Metadata
        What is public of the table.
    plans : sequence of n_classes Allocation
        How much of the budget each measurement has.
    accountant : PrivacyAccountant
        The ledger, in which each release is charged.
    design : Measured, optional
        Measurements of another table: the same tables in the same bins are measured of
        this one, and relations are those of the other.

    Returns
    -------
    Measured
        Public.
    """
    domains, prior = metadata.domains, metadata.classes.prior
    codes = metadata.classes.codes
    mus = np.array([plan.marginals.mu for plan in plans])
    rounds: list[list[Round]] = [[] for _ in plans]
    marginals = flat_marginals(domains, len(plans))
    cells: dict[int, Floats] = {}
    if mus.any():  # 1 column
        again = None if design is None else design.counted
        rounds, cells = measure_marginals(
            rows, domains, metadata.classes, accountant, mus=mus, again=again
        )
        marginals = estimate(domains, metadata.classes, rounds, cells)
    if design is None:
        n_bins = table_bins(plans, len(domains), measured=metadata.layout.measured)
        bins, in_order = choose_bins(domains, marginals, prior, n_bins)
    else:
        bins = design.bins
        in_order = [
            [own.in_order_of(other) for own, other in zip(*both, strict=True)]
            for both in zip(marginals, design.model.marginals, strict=True)
        ]
    has_pairs = any(plan.pairs.mu for plan in plans)
    model = TableModel(metadata, in_order if has_pairs else marginals)
    triples: dict[int, TripleTables] = {}
    moments: dict[int, SecondMoments] = {}
    sizes = known_sizes(metadata.classes, rounds)
    noise_stds = tuple(plan.marginals.noise_std for plan in plans)
    found = Measured(*(model, rounds, bins, {}, triples, moments, noise_stds, cells))
    if has_pairs:  # 2 columns
        found = _with_pairs(rows, metadata, plans, accountant, found, design)
        # 2 columns again, where one nearly determines the other
        if design is None:
            found = _related(rows, metadata, plans, accountant, found, in_order)
        else:
            found = replace(found, relations=design.relations)
    for c, plan in enumerate(plans):
        own, scope = rows.parts_of_class(codes[c]), metadata.classes.scopes[c]
        if plan.triples.mu:  # 3 columns
            # With what relations would have had, if there are none.
            spare = plan.relations.mu if found.cells is None else 0.0
            if design is None:
                groups = bins.groups(found.shares[c], plan.n_groups)
            else:
                groups = design.triples[c].groups
            triples[c] = measure_triples(
                own,
                bins,
                groups,
                plan.n_groups,
                accountant,
                mu=math.hypot(plan.triples.mu, spare),
                scope=scope,
            )
        if plan.moments.mu:  # all columns
            means, stds, _ = np.nan_to_num(model.score_moments(c), posinf=0, neginf=0)
            scores = own.map(_scores, model, c)
            moments[c] = measure_moments(
                scores,
                means,
                stds,
                sizes[c],
                accountant,
                mu=plan.moments.mu,
                scope=scope,
            )
    return found


def _with_pairs(
    rows: TableRows,
    metadata: Metadata,
    plans: Sequence[Allocation],
    accountant: PrivacyAccountant,
    known: Measured,
    design: Measured | None,
) -> Measured:
    """Measure tables of two columns in every class that can afford them, and in all."""
    bins, classes = known.bins, metadata.classes
    every = [c for c, plan in enumerate(plans) if plan.pairs.mu]
    having = having_pairs(every, classes)
    plan, scope = plans[having[0]], scope_of(having, classes)
    parts = rows.parts_of_class(*(classes.codes[c] for c in having))
    n_rows = float(classes.counts[having].sum())
    chosen = every_pair(bins)
    if design is not None:
        chosen = next(iter(design.pairs.values())).pairs
    elif plan.choice.mu:
        # Columns that are independent in every class are not in all of them together.
        apart = sum(
            classes.counts[c] * np.outer(known.shares[c], known.shares[c])
            for c in having
        )
        chosen = choose_pairs(
            parts,
            bins,
            apart,
            accountant,
            mu=plan.choice.mu,
            scope=scope,
            few=plan.few_rows,
            target=metadata.measured,
        )
    together = None
    if plan.together.mu:
        together = measure_pairs(
            parts, bins, chosen, n_rows, accountant, mu=plan.together.mu, scope=scope
        )
    pairs = {}
    for c in every:
        own, of_class = rows.parts_of_class(classes.codes[c]), chosen
        if c not in having:  # rows without a label choose for themselves
            of_class = every_pair(bins)
            if plans[c].choice.mu:
                of_class = choose_pairs(
                    own,
                    bins,
                    classes.counts[c] * np.outer(known.shares[c], known.shares[c]),
                    accountant,
                    mu=plans[c].choice.mu,
                    scope=classes.scopes[c],
                    few=plans[c].few_rows,
                    target=metadata.measured,
                )
        pairs[c] = measure_pairs(
            own,
            bins,
            of_class,
            classes.counts[c],
            accountant,
            mu=plans[c].pairs.mu,
            scope=classes.scopes[c],
        )
    return replace(known, pairs=pairs, together=together)


def pooled(values: Sequence[Floats], prior: Floats, positions: Sequence[int]) -> Floats:
    """Give the mean of some classes, by their shares of the rows."""
    weights = prior[positions] / prior[positions].sum()
    return np.asarray(weights @ np.array([values[c] for c in positions]))


def _related(
    rows: TableRows,
    metadata: Metadata,
    plans: Sequence[Allocation],
    accountant: PrivacyAccountant,
    known: Measured,
    marginals: list[list[MarginalTransform]],
) -> Measured:
    """Add the relations, which the tables of pairs show, measured in finer cells."""
    bins, classes = known.bins, metadata.classes
    having = having_pairs(known.pairs, classes)
    starts, n_columns = bins.starts, len(bins.sizes)
    pairs = shown_pairs(known.pairs, classes)
    relations = find_relations(pairs, known.shares, starts, known.together)
    known = replace(known, relations=relations)
    mu = plans[having[0]].relations.mu
    if not mu:
        return known
    parts = rows.parts_of_class(*(classes.codes[c] for c in having))
    scope = scope_of(having, classes)
    of_cells, of_groups = mus_of_relations(mu, n_columns)
    n_strong = sum(own.strong for own in relations.each)
    n_rows = sum(plans[c].n_rows for c in having)
    n_parts = parts_of_bins(n_rows, max(bins.sizes), math.sqrt(n_strong) / mu)
    finer = finer_bins(metadata.domains, marginals, classes.prior, bins, n_parts)
    chosen = [relations.each[k] for k in finer.measured(relations)]
    if not chosen:
        return known
    cells = measure_cells(parts, finer, chosen, accountant, mu=of_cells, scope=scope)
    of_classes = [finer.bins.shares(finer.bins.ranks(own)) for own in marginals]
    shares = pooled(of_classes, classes.prior, having)
    relations = with_cells(relations, finer, cells, shares)
    if n_columns == 2:  # there is no third column
        return replace(known, relations=relations, cells=cells)
    groups = measure_groups(
        parts, relations, bins, accountant, mu=of_groups, scope=scope
    )
    shares = pooled(known.shares, classes.prior, having)
    relations = with_groups(relations, bins, groups, shares)
    return replace(known, relations=relations, cells=cells, groups=groups)


def _scores(rows: PrivateRows, model: TableModel, position: int) -> NDArray[np.float32]:
    """Give the normal scores of the rows of a class; private."""
    return model.score_rows(rows.uniforms, rows.category_codes, position)
