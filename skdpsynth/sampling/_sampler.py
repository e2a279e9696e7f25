"""Synthetic rows of a fitted synthesizer: at once, or batch by batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdpsynth.measure import TableModel
from skdpsynth.model import decode_columns
from skdpsynth.sampling._where import _CHUNK_ROWS, Condition, DrawRanks, rows_where
from skdpsynth.schema import SECONDS_OF, Identifier, Text
from skdpsynth.table import Classes, ColumnLayout, Metadata, largest_remainder
from skdpsynth.utils import CHUNK_ROWS, check_range, in_chunks, n_threads
from skdpsynth.utils.arrays import Floats, Ints
from skdpsynth.utils.containers import converter
from skdpsynth.utils.dtypes import is_date, plain
from skdpsynth.utils.sklearn_compat import public_seed

Columns = list[pd.Series | None]  # of a part of the rows; None: never read
_MOST_ROWS = 10**9  # of NumPy's hypergeometric numbers


def class_counts(
    n_samples: int, strategy: str | Mapping[Hashable, float] | None, classes: Classes
) -> Ints:
    """Choose how many rows each class has; `strategy` is as in `sample`."""
    if strategy is None:
        return largest_remainder(classes.prior, n_samples)
    if isinstance(strategy, str) and strategy == "balanced":
        return largest_remainder(np.full(len(classes), 1 / len(classes)), n_samples)
    if not isinstance(strategy, Mapping):
        raise ValueError(
            "sampling_strategy must be None, 'balanced' or a dict from class to share "
            f"or count. Got {type(strategy).__name__} instead."
        )
    unknown = [key for key in strategy if key not in classes.labels]
    if unknown:
        raise ValueError(
            f"sampling_strategy names {unknown!r}, but the fitted classes are "
            f"{list(classes.labels)!r}."
        )
    values = [strategy.get(category, 0) for category in classes.labels]
    numbers = [v for v in values if isinstance(v, Real) and not isinstance(v, bool)]
    if len(numbers) < len(values) or not all(v >= 0 for v in numbers):
        raise ValueError("sampling_strategy must hold numbers >= 0.")
    if all(isinstance(value, Integral) for value in values) and sum(values) != 1:
        if sum(values) != n_samples:
            raise ValueError(
                f"The counts of sampling_strategy add up to {sum(values)}, but "
                f"n_samples is {n_samples}."
            )
        return np.array(values, dtype=np.int64)
    total = float(sum(values))
    if abs(total - 1.0) > 1e-9:
        msg = f"The shares of sampling_strategy add up to {total!r} instead of 1."
        raise ValueError(msg)
    return largest_remainder(np.array(values, dtype=np.float64), n_samples)


def frame_of(
    parts: Iterable[Columns], metadata: Metadata, n_rows: int, first: int
) -> pd.DataFrame:
    """Return so many rows as one table, with identifiers from the number `first`."""
    layout, pieces = metadata.layout, [*parts]
    columns: dict[int, pd.Series] = {}
    for place, column in enumerate(layout.columns):
        read = [part for piece in pieces if (part := piece[place]) is not None]
        if read:
            columns[place] = read[0]
            if len(read) > 1:  # pandas changes the order of bytes of numbers
                whole = pd.concat(read, ignore_index=True)
                columns[place] = whole.astype(read[0].dtype)
        else:
            columns[place] = unread_values(column, metadata, first, n_rows)
        for piece in pieces:
            piece[place] = None  # so that the table is not in memory twice
    frame = pd.DataFrame(columns, copy=False)
    # Of names of several types pandas would read None as NaN. What a file holds of a
    # NumPy name is the plain one, which must not change the answer.
    names = [column.name for column in layout.columns]
    mixed = object if len({type(plain(name)) for name in names}) > 1 else None
    frame.columns = pd.Index(names, dtype=mixed, tupleize_cols=False)
    return frame


def in_units(
    rows: pd.DataFrame, metadata: Metadata, first: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Put drawn rows in units, unit by unit, whose names are fresh from `first` on."""
    # How many rows a unit has is drawn from the released numbers; the last one has the
    # rest. Rows that agree, or nearly, in the constant columns become one unit.
    units = metadata.units
    assert units is not None
    n_rows = len(rows)
    sizes = 1 + rng.choice(len(units.shares), n_rows, p=units.shares)
    ends = np.cumsum(sizes)
    sizes = sizes[: np.searchsorted(ends, n_rows) + 1]
    sizes[-1] -= sizes.sum() - n_rows
    keys = []
    for name in units.constant:  # the places of values, of numbers and times in order
        ordered = not pd.api.types.is_object_dtype(rows[name].dtype)
        keys.append(pd.factorize(rows[name], sort=ordered)[0])
    # Columns of few values first: what is nearly equal is so in the last ones.
    keys.sort(key=lambda codes: int(codes.max(initial=0)), reverse=True)
    order = rng.permutation(n_rows)
    if keys:
        order = order[np.lexsort([codes[order] for codes in keys])]
    unit = np.repeat(rng.permutation(len(sizes)), sizes)
    start = np.repeat(np.cumsum(sizes) - sizes, sizes)  # of the unit of each row
    frame = rows.take(order)
    place_of = {c.name: place for place, c in enumerate(metadata.layout.columns)}
    for name in units.constant:
        values = frame.iloc[:, place_of[name]].take(start).set_axis(frame.index)
        frame.isetitem(place_of[name], values)
    for name, values in metadata.rules.followed(frame):
        frame.isetitem(place_of[name], values)
    by_unit = np.argsort(unit, kind="stable")
    frame = frame.take(by_unit).reset_index(drop=True)
    place = place_of[units.name]
    column = metadata.layout.columns[place]
    names = unread_values(column, metadata, first, len(sizes))
    if not names.is_unique:  # the dtype has too few values: units would be one
        names = pd.Series(np.arange(first, first + len(names)))
    frame.isetitem(place, names.take(unit[by_unit]).set_axis(frame.index))
    return frame


def unread_values(
    column: ColumnLayout, metadata: Metadata, first: int, n_rows: int
) -> pd.Series:
    """Return identifiers from the number `first` on, or placeholders, in the dtype."""
    described = metadata.unread.get(column.name, Identifier())
    if isinstance(described, Text):
        codes = np.full(n_rows, -1 if described.placeholder is None else 0)
        return column.to_category_series(codes, [described.placeholder or ""])
    if column.kind != "categorical":
        step = SECONDS_OF["D"] if is_date(column.dtype) else 1.0
        numbers = np.arange(first, first + n_rows, dtype=np.float64)
        return column.to_series(numbers * step, np.zeros(n_rows, dtype=bool))
    if isinstance(column.dtype, pd.CategoricalDtype):
        inner = ColumnLayout.of(column.name, pd.Series(column.dtype.categories))
        if inner.kind != "categorical":
            values = unread_values(inner, metadata, first, n_rows)
            listed = pd.Index(values.unique(), dtype=inner.dtype)
            dtype = pd.CategoricalDtype(listed, ordered=column.dtype.ordered)
            return values.astype(dtype)
    names = [described.text_of(number) for number in range(first, first + n_rows)]
    return column.to_category_series(np.arange(n_rows), names)


class Sampler:
    """What has `sample`: a model, a stream, and ranks that a subclass draws."""

    _model: TableModel
    _stream: np.random.Generator

    def sample(
        self,
        n_samples: int = 1,
        *,
        sampling_strategy: str | Mapping[Hashable, float] | None = None,
        where: Mapping[Hashable, Any] | None = None,
        unit: bool = False,
        random_state: int | np.random.RandomState | None = None,
        output: Literal["pandas", "arrow", "polars"] | None = None,
    ) -> Any:  # noqa: ANN401 - a table of the library asked for
        """Draw synthetic rows. It costs no privacy, however much is drawn.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows, at least 1.
        sampling_strategy : {"balanced"}, dict or None, default=None
            Class shares: None for the measured ones, "balanced" for equal ones, or a
            dict from class to share (floats with sum 1) or to count (integers with
            sum `n_samples`). Only None where there are no classes but a measurement.
        where : dict, optional
            Draw only rows that satisfy all of it, from their distribution given that
            they do. From column name (the target too) to a value, to a list of which
            any will do, or, for numbers and times, to a tuple ``(low, high)``, both
            included, where None is an open end. Outside a tuple None is a missing
            value. It sets the class shares, so give no `sampling_strategy`.
        unit : bool, default=False
            Draw synthetic units, such as persons, of several rows each, one after the
            other, with a name of their own in the `privacy_unit` of the schema. How
            many rows they have was measured (of each unit those that were used);
            columns in `per_unit` have one value in all rows of a unit (if the target
            is one of them, shares of classes are those of units, roughly those asked
            for). Otherwise rows are independent, each with a name of its own.
        random_state : int, RandomState instance or None, default=None
            None continues the stream of the fitted object, an int repeats.
        output : {"pandas", "arrow", "polars"} or None, default=None
            A DataFrame of pandas, a Table of pyarrow or a DataFrame of polars. None
            takes that of the training table; pandas if it was something else.

        Returns
        -------
        DataFrame or Table of shape (n_samples, n_columns)
            Columns, order and dtypes of the training table, in random row order, or
            that of units. Of one that came through Arrow, pandas has Arrow's dtypes.

        Raises
        ------
        MissingDependencyError
            If the rows are to be of polars, which is not installed.
        ValueError
            If `n_samples`, `sampling_strategy`, `where` or `output` is out of range,
            rows that satisfy `where` are not found, an `Identifier` has fewer values
            than rows are asked for, or `unit` is asked for without a `privacy_unit`.
        """
        options = (sampling_strategy, where, random_state, output)
        (table,) = self._tables(n_samples, n_samples, *options, unit=unit)
        return table

    def sample_batches(
        self,
        n_samples: int,
        batch_size: int = 100_000,
        *,
        sampling_strategy: str | Mapping[Hashable, float] | None = None,
        where: Mapping[Hashable, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        output: Literal["pandas", "arrow", "polars"] | None = None,
    ) -> Iterator[Any]:
        """Draw synthetic rows batch by batch, in the memory of one batch.

        Together the batches are a table as `sample` draws: they have the same
        distribution, the same number of rows of each class, and identifiers that are
        distinct. One batch for all rows is, for a seed, the very table of `sample`;
        several are other rows, which depend on `batch_size` too.

        Parameters
        ----------
        n_samples : int
            Number of rows of all batches, at least 1 and below 10**9.
        batch_size : int, default=100_000
            Rows of a batch, at least 1; the last one may have fewer.
        sampling_strategy, where, random_state, output : optional
            As in `sample`. Counts are those of all batches together, and the stream of
            the fitted object continues as each batch is drawn.

        Returns
        -------
        generator of DataFrame or Table of shape (n_rows, n_columns)
            Tables as of `sample`. The categories of an identifier that is categorical
            are those of its batch.

        Raises
        ------
        MissingDependencyError
            If the rows are to be of polars, which is not installed.
        ValueError
            If an argument is out of range, at the call; as the batches are drawn, if
            rows that satisfy `where` are not found.
        """
        options = (sampling_strategy, where, random_state, output)
        tables = self._tables(n_samples, batch_size, *options)
        if n_samples >= _MOST_ROWS:
            raise ValueError(
                f"Expected n_samples below {_MOST_ROWS:,}. Got {n_samples:,}; take"
                " several calls."
            )
        return tables

    def _tables(
        self,
        n_samples: int,
        batch_size: int,
        sampling_strategy: str | Mapping[Hashable, float] | None,
        where: Mapping[Hashable, Any] | None,
        random_state: int | np.random.RandomState | None,
        output: str | None,
        *,
        unit: bool = False,
    ) -> Iterator[Any]:
        """Check the arguments, and give a generator of tables."""
        check_is_fitted(self)
        metadata = self._model.metadata
        convert = converter(metadata.layout.container if output is None else output)
        if metadata.layout.measured and sampling_strategy is not None:
            raise ValueError(
                f"The target {metadata.layout.target!r} is a number, and"
                " sampling_strategy is about classes. Leave it out, or ask for rows by"
                " where."
            )
        if unit and metadata.units is None:
            raise ValueError(
                "Rows in units need a fit that knows of them. Expected a schema with"
                " privacy_unit. Got none; fit with one, or leave out unit."
            )
        for name, number in (("n_samples", n_samples), ("batch_size", batch_size)):
            whole = isinstance(number, Integral) and not isinstance(number, bool)
            check_range(name, number, whole and number >= 1, "an int >= 1")
        # There must be as many identifiers; units may be fewer than rows.
        of_units = [metadata.units.name] if metadata.units and unit else []
        for column in metadata.layout.columns:
            if column.name in metadata.unread and column.name not in of_units:
                try:
                    unread_values(column, metadata, n_samples - 1, 1)
                except ValueError as error:
                    raise ValueError(f"Column {column.name!r}: {error}") from None
        wanted: Condition | Ints
        if where is None:
            wanted = class_counts(n_samples, sampling_strategy, metadata.classes)
        elif sampling_strategy is not None:
            raise ValueError(
                "where sets the class shares: leave out sampling_strategy."
            )
        else:
            wanted = Condition.of(where, metadata)
        rng = self._stream
        if random_state is not None:
            rng = np.random.default_rng(public_seed(random_state))
        # Of this fit, whatever is fitted before the last batch is drawn.
        frames = self._frames(n_samples, batch_size, wanted, self._model, rng, unit)
        return map(convert, frames)

    def _frames(
        self,
        n_samples: int,
        batch_size: int,
        wanted: Condition | Ints,
        model: TableModel,
        rng: np.random.Generator,
        unit: bool,
    ) -> Iterator[pd.DataFrame]:
        """Draw tables of rows that satisfy a condition, or of so many of each class."""
        if isinstance(wanted, Condition):
            drawn = self._within(wanted.spans(model))
        for first in range(0, n_samples, batch_size):
            n_rows = min(batch_size, n_samples - first)
            if isinstance(wanted, Condition):
                parts = rows_where(wanted, model, *drawn, n_rows, rng)
            else:
                counts = wanted
                if first + n_rows < n_samples:
                    # As many of each class as if all rows were shuffled together.
                    counts = rng.multivariate_hypergeometric(wanted, n_rows)
                wanted = wanted - counts
                class_codes = np.repeat(np.arange(len(counts)), counts)
                rng.shuffle(class_codes)
                parts = self._of_classes(class_codes, model, rng)
            frame = frame_of(parts, model.metadata, n_rows, first)
            yield in_units(frame, model.metadata, first, rng) if unit else frame

    def _of_classes(
        self, class_codes: Ints, model: TableModel, rng: np.random.Generator
    ) -> Iterator[Columns]:
        """Draw rows of given classes, in parts."""
        # One chunk is decoded while the next one is drawn, so the ranks of two are
        # there. Nothing random happens in a thread.
        jobs: list[Future[Columns]] = []
        with ThreadPoolExecutor(n_threads()) as pool:
            for first in range(0, len(class_codes), _CHUNK_ROWS):
                codes = class_codes[first : first + _CHUNK_ROWS]
                ranks = self._ranks(codes, rng)
                wait(jobs)
                of_thread = max(CHUNK_ROWS, len(ranks) // n_threads())
                for rows in in_chunks(len(ranks), of_thread):
                    part = model, ranks[rows], codes[rows]
                    jobs.append(pool.submit(decode_columns, *part))
        return (job.result() for job in jobs)

    @abstractmethod
    def _ranks(self, class_codes: Ints, rng: np.random.Generator) -> Floats:
        """Draw the ranks of synthetic rows of the given classes, in [0, 1]."""

    def _within(
        self, spans: Sequence[Mapping[int, Floats]]
    ) -> tuple[DrawRanks, Floats]:
        """Return `_ranks` within spans of ranks, and the share of each class left."""
        # Here all are drawn, and those outside are left out by the caller.
        return self._ranks, np.ones(len(spans))
