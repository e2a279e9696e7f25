"""The steps of discovery that are about columns, one class each, in the order of a fit.

A step says in one place which columns it concerns, what it costs, and what it releases.
`fit` runs the steps; `plan`, and the split of the budget, read their costs. First come
categories and ranges, then how numbers are written: how finely, how often they end in
each two digits, and which values are frequent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.util import hash_array

from skdpsynth.measure._density import shrunk_distributions
from skdpsynth.measure._outer_bins import (
    MORE_POWERS,
    POWERS,
    found_bins,
    outer_codes,
    outer_edges,
    outer_shares,
)
from skdpsynth.measure._shares import (
    BESIDE_SHARE,
    CATEGORIES_SHARE,
    FEW,
    FOUND_SHARE,
    LEAST_NOISE,
    LIKELY,
    N_CELLS,
    QUARTER,
    RARE,
    REMAINDERS_SHARE,
    ROWS_FROM,
    SMALL_SHARE,
    SMALLEST,
    SURE,
)
from skdpsynth.privacy import Parts, PrivacyAccountant, Reservation, grid_noise_std
from skdpsynth.privacy.statistics import (
    MIN_KEY_COUNT,
    key_threshold,
    noisy_histogram,
    thresholded_counts,
)
from skdpsynth.schema import (
    MOST_DECIMALS,
    MOST_STATED_DECIMALS,
    ROUNDING,
    SECONDS_OF,
    Continuous,
    TableSchema,
)
from skdpsynth.table import (
    FAR,
    FINEST,
    MISSING,
    CategoryDomain,
    ColumnDomain,
    ColumnLayout,
    Gap,
    NumericDomain,
    day_parts,
    in_units,
    names_read,
    needs_resolution,
    numeric_values,
    total_keys,
    wall_values,
    with_stated,
)
from skdpsynth.utils import FEW_NUMBERS, in_chunks
from skdpsynth.utils.arrays import Bools, Floats, Ints
from skdpsynth.utils.dtypes import EXACT, decimals_of, is_date, is_finite

Codes = NDArray[np.integer]
# Of every column what is known so far; None of a range or categories to be found.
Domains = dict[ColumnLayout, ColumnDomain | None]
Domain = Any  # the one of a column, which a step knows the type of


class Public(NamedTuple):
    """Public numbers: what a cost depends on beside the columns."""

    mu_cap: float  # Gaussian-DP parameter of the whole fit
    delta: float  # of each release of keys that are found by threshold
    rows_per_unit: int
    n_rows: float  # declared, noisy or guessed; NaN before they are known

    def mu(self, share: float) -> float:
        """Return the Gaussian-DP parameter of a share of the budget."""
        return self.mu_cap * math.sqrt(share)

    def noise_std(self, share: float, n_columns: int) -> float:
        """Return the noise of a release in which a row counts once in each column."""
        return grid_noise_std(self.mu(share), math.sqrt(n_columns))

    def shows(self, share: float, n_columns: int) -> bool:
        """Return whether histograms of some columns show more than their noise."""
        least = ROWS_FROM * self.noise_std(share, n_columns) if n_columns else math.inf
        return self.n_rows >= least

    def key_threshold(
        self, noise_std: float, n_columns: int = 1, least: int = MIN_KEY_COUNT
    ) -> int:
        """Return the noisy count that a key must exceed to be found."""
        return key_threshold(
            noise_std, self.delta, n_columns, least, self.rows_per_unit
        )


class Cost(NamedTuple):
    """What a step spends, and what it needs to find something."""

    share: float = 0.0  # of the squared mu of the fit; 0 if nothing is released
    # Noisy rows from which a key is found; rows of a table whose ranges are found.
    found_from: float = 0


class Released(NamedTuple):
    """What a release says of one column."""

    counts: Ints  # noisy: of cells, or of the keys that were found
    noise_std: float
    n_rows: float  # of the table, as known
    keys: Sequence[Any] = ()


class ColumnStep(ABC):
    """One release about several columns, of all rows together.

    A row has one cell or key in each column, so the sensitivity is the root of their
    number.
    """

    name: ClassVar[str]  # in the ledger
    of_keys: ClassVar[bool] = False  # found by threshold, so they need a delta
    share: ClassVar[float]  # of the squared mu of the fit, where it is spent

    def __init__(self, declared: Domains, schema: TableSchema) -> None:
        # Those that it may concern, by what is declared of them.
        self.columns = [c for c, domain in declared.items() if self.concerns(c, domain)]
        self._schema = schema

    @abstractmethod
    def concerns(self, column: ColumnLayout, domain: Domain) -> bool:
        """Return whether it is about a column of which so much is known."""

    def cost(self, public: Public) -> Cost:
        """Return what is spent on `columns`."""
        if not (n := len(self.columns)):
            return Cost()
        if self.of_keys:
            noise_std = public.noise_std(self.share, n)
            found_from = public.key_threshold(noise_std, n, self.least(public))
            return Cost(self.share, found_from)
        return Cost(self.share * public.shows(self.share, n))

    def least(self, public: Public) -> int:
        """Return the rows that a key must have to be considered at all."""
        return MIN_KEY_COUNT

    def chosen(self, domains: Domains, public: Public) -> list[ColumnLayout]:
        """Return the columns that it concerns after the steps before it."""
        return [c for c, domain in domains.items() if self.concerns(c, domain)]

    def run(
        self,
        rows: Parts,
        domains: Domains,
        accountant: PrivacyAccountant,
        public: Public,
    ) -> Domains:
        """Release what the step is about; return the domains of its columns."""
        share, columns = self.cost(public).share, self.chosen(domains, public)
        if not (share and columns):
            return {}
        reservation = accountant.reserve_gaussian(
            self.name,
            mu=public.mu(share),
            sensitivity=math.sqrt(len(columns)),
            delta=public.delta if self.of_keys else 0.0,
        )
        rows = rows.only(names_read(columns))
        known = {column: domains[column] for column in columns}
        released = self.release(rows, known, reservation, public)
        every = zip(known.items(), released, strict=True)
        std, n_rows = reservation.noise_std, public.n_rows
        return {
            column: self.read(column, domain, Released(counts, std, n_rows, keys))
            for (column, domain), (counts, keys) in every
        }

    def release(
        self, rows: Parts, known: Domains, reservation: Reservation, public: Public
    ) -> Iterator[tuple[Ints, Sequence[Any]]]:
        """Release the counts of the cells of every column; some release keys."""
        n_cells = [self.n_cells(c, domain, public) for c, domain in known.items()]
        codes = rows.map(self._codes, known, n_cells)
        yield from (
            (counts, ()) for counts in noisy_histogram(codes, n_cells, reservation)
        )

    def n_cells(self, column: ColumnLayout, domain: Domain, public: Public) -> int:
        """Return the cells of a column."""
        raise NotImplementedError

    @staticmethod
    def cells(series: pd.Series, column: ColumnLayout, domain: Domain, n: int) -> Codes:
        """Return the cell of every row of a column; private."""
        raise NotImplementedError

    def _codes(
        self, frame: pd.DataFrame, known: Domains, n_cells: list[int]
    ) -> NDArray[np.unsignedinteger]:
        """Return the cell of every row in every column; private."""
        codes = np.empty((len(frame), len(known)), np.min_scalar_type(max(n_cells)))
        every = zip(known.items(), n_cells, strict=True)
        for j, ((column, domain), n) in enumerate(every):
            codes[:, j] = self.cells(column.read(frame), column, domain, n)
        return codes

    @abstractmethod
    def read(self, column: ColumnLayout, domain: Domain, released: Released) -> Domain:
        """Return the domain that follows for a column."""


def released_keys(
    counters: Sequence[Counter[Any]],
    reservation: Reservation,
    public: Public,
    least: int = MIN_KEY_COUNT,
) -> Iterator[tuple[Ints, Sequence[Any]]]:
    """Yield the counts and keys of each column that pass, sorted, None last."""
    keys = [sorted(counter, key=lambda key: (key is None, key)) for counter in counters]
    both = zip(counters, keys, strict=True)
    counts = [[counter[key] for key in names] for counter, names in both]
    released = thresholded_counts(
        counts, reservation, public.delta, lambda: keys, least=least
    )
    for names, (kept, noisy) in zip(keys, released, strict=True):
        yield noisy, [names[position] for position in kept]


def is_numeric(column: ColumnLayout) -> bool:
    """Return whether a column is one of numbers or times."""
    return column.kind not in ("categorical", "boolean")


# --- Categories ---------------------------------------------------------------------


class Categories(ColumnStep):
    """The categories that the schema leaves out, sorted by name.

    A missing value is one more key. An infinite one is left to 'other'.
    """

    name, share, of_keys = "categories", CATEGORIES_SHARE, True

    def concerns(self, column: ColumnLayout, domain: Domain) -> bool:
        return domain is None and not is_numeric(column)

    def release(
        self, rows: Parts, known: Domains, reservation: Reservation, public: Public
    ) -> Iterator[tuple[Ints, Sequence[Any]]]:
        counters = total_keys(rows, [column.name for column in known])
        return released_keys(counters, reservation, public)

    def read(self, column: ColumnLayout, domain: Domain, released: Released) -> Domain:
        keys, stated = released.keys, (False, True) if column.kind == "boolean" else ()
        names = tuple(key for key in keys if key is not None and is_finite(key))
        unsure = LIKELY * released.noise_std * math.sqrt(max(len(keys), 1))
        known = (float(np.sum(released.counts)) + unsure) / released.n_rows
        other = 0.0 if stated else max(1.0 - known, 0.0)
        nullable = None in keys
        found = CategoryDomain(stated or names, nullable, column.ordered, other)
        return with_stated(column, found, self._schema)


# --- Ranges -------------------------------------------------------------------------

# Rows of a table, in noise deviations, whose ranges are found: a bin with a fifth of
# them is likely no noise. With 25 columns of two modes lost a sign.
_RANGES_FROM = LIKELY * SURE
# A range that starts below this part of its end starts at 0. With 10 those of 1,000
# rows of Adult had 91 % of the values, not 92 % (epsilon 0.3).
_NEAR_ZERO = 8.0
# Of a column with no bin above the noise.
_DEFAULT_DATES = np.array(["1970", "2030"], "M8[s]").astype(float).tolist()


class Ranges(ColumnStep):
    """The ranges that the schema leaves out, and whether values are missing.

    Cells are the wide public bins of `outer_edges`. The range reaches from the first
    to the last bin that is surely not empty, and on while the next bin is probably not
    empty, but not across 0. Where no bin is sure, the prior says where the rows are.
    Rows beyond, such as amounts where most are 0, are looked for in the same way. The
    scale is that of `Continuous`. Where rows are few more is spent. Of gaps the
    declared range is that of the columns, beside which they are short: of 3,000 stays
    of 5 days noise at 1,000 days would double the mean.
    """

    name, again = "column ranges", False

    def __init__(self, declared: Domains, schema: TableSchema) -> None:
        super().__init__(declared, schema)
        self._unknown = [c for c in self.columns if declared[c] is None]

    def concerns(self, column: ColumnLayout, domain: Domain) -> bool:
        unknown = domain is None and is_numeric(column)
        return unknown or (isinstance(column, Gap) and has_many_numbers(domain))

    def cost(self, public: Public) -> Cost:
        if not (n := len(self.columns)):
            return Cost()
        if not self._unknown:
            least = _RANGES_FROM * public.noise_std(FOUND_SHARE, n)
            return Cost(FOUND_SHARE * (public.n_rows >= least))
        beside, more = (
            Cost(share, _RANGES_FROM * public.noise_std(share, n))
            for share in (BESIDE_SHARE, QUARTER)
        )
        return beside if public.n_rows >= beside.found_from else more

    def n_cells(self, column: ColumnLayout, domain: Domain, public: Public) -> int:
        return len(outer_edges(column, domain)) + len(outer_codes(column))

    @staticmethod
    def cells(series: pd.Series, column: ColumnLayout, domain: Domain, n: int) -> Codes:
        values, missing = numeric_values(series, column)
        edges = outer_edges(column, domain)
        codes = np.searchsorted(edges[1:-1], values, side="right")
        for place, value in enumerate(outer_codes(column), len(edges) - 1):
            codes[values == value] = place
        return np.where(missing, n - 1, codes)

    def read(self, column: ColumnLayout, domain: Domain, released: Released) -> Domain:
        *_, n_missing = released.counts.tolist()
        n_missing *= n_missing > SURE * released.noise_std
        edges, integer = outer_edges(column, domain), column.kind == "integer"
        dated = column.kind == "datetime"
        counts, of_codes, _ = np.split(released.counts, [len(edges) - 1, -1])
        values, noise_std = np.array(outer_codes(column)), released.noise_std
        n_rows = max(released.n_rows - n_missing, 1.0)
        nullable = column.can_be_missing and n_missing > 0
        real = of_codes > SURE * noise_std
        n_codes = float(of_codes[real].sum())
        zero = int(np.searchsorted(edges, 0.0, side="right")) - 1
        mostly = not (dated or isinstance(column, Gap)) and n_codes > 0.5 * n_rows
        if mostly:
            counts = counts + n_codes * (np.arange(len(counts)) == zero)  # as zeros
        else:
            n_rows = max(n_rows - n_codes, 1.0)
        (low, high) = _DEFAULT_DATES
        first, last, sure = 0, -1, False
        how = {"dated": dated, "again": self.again}
        if found := found_bins(counts, edges, noise_std, n_rows, **how):
            first, last, sure = found
            low, high = float(edges[first]), float(edges[last + 1])
        middle = 0.5 if integer else 2.0 ** POWERS[0]
        if not dated and first == last == zero:
            # Zeros alone; or ones too, where the noise hides one in a hundred.
            hidden = SURE * noise_std > RARE * n_rows
            low, high, sure = 0.0, float(hidden + integer), not hidden
        elif not dated:
            beside = np.where(np.arange(len(counts)) == zero, 0, counts)
            peak = first + int(beside[first : last + 1].argmax())
            size = float(np.abs(edges[peak : peak + 2]).max())
            if not integer and not middle < size <= 2.0 ** POWERS[-1]:
                # Where most are finer bins are needed.
                sure = sure and self.again
                if not self.again and size <= middle:
                    low, high = max(low, -middle), min(high, middle)
                middle = 2.0 ** MORE_POWERS[0]
            # Of the other side of 0 only the middle bin may be cut off: no values are
            # in it. Bins are half-open: the last whole number is one below.
            if -middle <= low <= high / _NEAR_ZERO or 0 < low <= 1 <= high:
                low = 0.0
            if low / _NEAR_ZERO <= high <= middle:
                high = middle if integer else 0.0
        if isinstance(column, Gap) and domain is not None:
            most = float(domain.to_steps(high))
            most = max(math.floor(most) if domain.integer else most, domain.low)
            return replace(domain, high=min(most, domain.high) if sure else domain.high)
        if integer or dated:
            low, high = float(math.ceil(low)), float(math.ceil(high) - 1)
        if dated or column.original is not column:  # no gap is negative
            low, high = np.clip([low, high], *column.limits).tolist()
        log = not dated and Continuous(low, high).resolved_scale() == "log"
        domain = NumericDomain(low, high, log, integer, nullable, released=True)
        if is_date(column.dtype):
            step = SECONDS_OF["D"]
            domain = domain.with_step(step, low // step, high // step)
        beyond = (values < low) | (values > high)
        # What most rows have is kept: where 81 % were -1 (ISOLET), a column lost this
        # value, or the spread of the others.
        special = tuple(values[real & (beyond | mostly)].tolist())
        domain = replace(domain, special=special)
        sure = sure and not (beyond & ~real & (of_codes > LIKELY * noise_std)).any()
        if not dated and 2 * counts[zero] > n_rows and has_many_numbers(domain):
            shares, std = counts / released.n_rows, noise_std / released.n_rows
            outer, clear = outer_shares(shares, edges, domain.bounds, std)
            domain = replace(domain, outer=outer)
            sure = sure and (clear or not self.again)
        # Of a column that is mostly missing, there is hardly a range to be found.
        guessed = not sure and 2 * n_rows > released.n_rows
        return with_stated(column, replace(domain, guessed=guessed), self._schema)


class UnsureRanges(Ranges):
    """The same once more, of those columns alone whose range was not sure.

    They are few, so their noise is small.
    """

    name, again = "unsure ranges", True

    def concerns(self, column: ColumnLayout, domain: Domain) -> bool:
        unsure = isinstance(domain, NumericDomain) and domain.guessed
        return unsure or super().concerns(column, domain)

    def chosen(self, domains: Domains, public: Public) -> list[ColumnLayout]:
        own = super().chosen(domains, public)
        return [column for column in own if not isinstance(column, Gap)]

    def cost(self, public: Public) -> Cost:
        # Where rows are few as much was spent as helps.
        return Cost(BESIDE_SHARE * (super().cost(public).share == BESIDE_SHARE))


# --- Resolutions --------------------------------------------------------------------


def _usual_values(
    series: pd.Series, column: ColumnLayout, domain: NumericDomain
) -> tuple[Floats, Bools]:
    """Return what `wall_values` does, special values as missing; private."""
    values, missing = wall_values(series, column, domain)
    return values, missing | (domain.codes(values) > MISSING)


def has_many_numbers(domain: Domain) -> bool:
    """Return whether a domain has more numbers than a few codes would."""
    return isinstance(domain, NumericDomain) and domain.n_numbers > FEW_NUMBERS


_UNITS = sorted(SECONDS_OF.values())


def _coarser(column: ColumnLayout) -> Sequence[float]:
    """Return what numbers coarser than 1 may be multiples of, in increasing order."""
    if column.kind == "timedelta":
        return _UNITS[1:]
    return [10.0**tens for tens in range(1, MOST_STATED_DECIMALS + 1)]


class Resolutions(ColumnStep):
    """The coarsest resolution that the values of a column are multiples of.

    That is a unit of time, or a power of ten; durations have both. Cells are
    resolutions, from coarse to fine: a value is in the cell of the first one that it is
    a multiple of, in the next to last cell if of none, and in the last one if it says
    nothing: missing, 0, or a time out of range. Domains stay where no resolution is
    above the noise.
    """

    name, share = "decimals", SMALL_SHARE

    def __init__(self, declared: Domains, schema: TableSchema) -> None:
        super().__init__(declared, schema)
        rules = schema.rules
        fixed = {name for rule in rules for name in rule.names}
        # Up to which power of ten (or unit of durations), where enough rows allow to
        # ask, and where not. Rules need every number of a range; times have no tens.
        self._unknown = {
            c: len(_coarser(c)) * (c.kind == "timedelta" and c.name not in fixed)
            for c in declared
            if needs_resolution(c, schema)
        }
        known = {*self.columns}  # a set, since a name may be NA, which equals nothing
        self._tens = {
            c: len(_coarser(c)) * (c.kind != "datetime" and c.name not in fixed)
            for c in declared
            if c in self._unknown or (c in known and c.name not in fixed)
        }

    def concerns(self, column: ColumnLayout, domain: Domain) -> bool:
        """Return whether all numbers may be multiples of ten."""
        many = domain is None or (has_many_numbers(domain) and domain.integer)
        many &= getattr(domain, "step", None) is None  # a stated unit
        many &= column.original is not None
        return many and column.kind in ("integer", "continuous", "timedelta")

    def cost(self, public: Public) -> Cost:
        return Cost(self.share * bool(self._most_tens(public)))

    def chosen(self, domains: Domains, public: Public) -> list[ColumnLayout]:
        return [*self._most_tens(public)]

    def _most_tens(self, public: Public) -> dict[ColumnLayout, int]:
        """Return the columns that are asked for, and up to which power of ten."""
        enough = public.shows(self.share, len(self._tens))
        return self._tens if enough else self._unknown

    def n_cells(self, column: ColumnLayout, domain: Domain, public: Public) -> int:
        if column.kind == "datetime":
            return len(SECONDS_OF) + 2
        return self._most_tens(public)[column] + 1 + MOST_DECIMALS + 2

    @staticmethod
    def cells(series: pd.Series, column: ColumnLayout, domain: Domain, n: int) -> Codes:
        values, missing = _usual_values(series, column, domain)
        if column.kind == "datetime":
            missing = missing | (values < domain.low) | (values > domain.high)
            values = column.to_wall(values)
            fits = [values % step == 0.0 for step in SECONDS_OF.values()]
            codes = np.select(fits, [*range(len(fits))], n - 2)
        else:
            stored = column.storage if column.storage.kind == "f" else np.float64
            # Values were turned to doubles.
            precision = float(max(np.finfo(own).eps for own in (stored, np.float64)))
            coarser = _coarser(column)[: n - MOST_DECIMALS - 3]
            codes = np.empty(len(values), dtype=np.uint8)
            for rows in in_chunks(len(values)):
                decimals = decimals_of(values[rows], precision, MOST_DECIMALS)
                codes[rows] = len(coarser) + decimals
                for size in coarser:
                    codes[rows] -= (decimals == 0) & (values[rows] % size == 0)
            missing = missing | (values == 0.0)
        codes[missing] = n - 1
        return codes

    def read(self, column: ColumnLayout, domain: Domain, released: Released) -> Domain:
        *_, of_last = released.counts.tolist()
        counts, std, n_rows = released.counts[:-1], released.noise_std, released.n_rows
        timed = column.kind == "datetime"
        tens = 0 if timed else len(counts) - MOST_DECIMALS - 2
        # The first one of which no finer values are seen; the last count is of these.
        finer, n_finer = counts.sum() - np.cumsum(counts), np.arange(len(counts))[::-1]
        most = np.maximum(LIKELY * std * np.sqrt(n_finer), RARE * counts.sum())
        place, beside = int((finer <= most).argmax()), counts.sum() - 2 * finer
        # Durations have more often a unit than numbers are all tens.
        least = LIKELY if column.kind == "timedelta" else SURE
        while place < tens and beside[place] <= least * std * math.sqrt(len(counts)):
            place += 1
        # By so many rows it must exceed the finer ones.
        more = LIKELY * std * math.sqrt(len(counts))
        known = place < len(counts) - 1 and n_rows >= more and beside[place] > more
        open_scale = column in self._unknown and domain.high >= 1
        if not known and not timed and open_scale:
            # A flag or a count, as files have them, unless fractions are seen, or are
            # likely among amounts.
            few = n_rows - of_last + std < QUARTER * n_rows
            few = few and LIKELY * std < QUARTER * n_rows  # else noise would decide
            likely = tens + int(counts[tens:].argmax())
            more = std if domain.log else LIKELY * std
            amounts = counts[likely] > counts[tens] + more
            place = likely if amounts else tens
            known = few and (amounts or finer[tens] <= most[tens])
            known &= place < len(counts) - 1
        if not known or (column.kind == "timedelta" and domain.step is not None):
            return domain
        decimals = place - tens
        if timed or (column.kind == "timedelta" and decimals <= 0):
            step = [*SECONDS_OF.values()][place] if timed else _UNITS[-decimals]
            of_special = column.to_wall(np.array(domain.special)) // step
            if len({*of_special.tolist()}) < len(of_special):  # they would be one
                return domain
            return in_units(column, domain, step) if timed else domain.with_unit(step)
        if domain.integer and decimals >= domain.decimals:  # known to be no finer
            return domain
        low, high = domain.bounds
        plain = replace(domain, low=low, high=high, integer=False, decimals=0)
        written = plain.with_decimals(decimals)
        # Some are inside, and not where floats are that far apart that they are whole.
        held = max(-written.low, written.high) < EXACT
        return written if held and low <= written.bounds[0] <= high else domain


# --- Remainders ---------------------------------------------------------------------

# Periods of steps: of units of time, and of numbers, whose last two digits these are.
_PERIODS = {None: 100, 86_400.0: 7, 60.0: 60, 1.0: 60}
_CYCLES = 10  # that the range of a column must have


def period_of(domain: ColumnDomain | None) -> int:
    """Return the steps after which the numbers of a domain repeat; 0 if they do not."""
    if not isinstance(domain, NumericDomain) or not domain.integer:
        return 0
    if max(-domain.low, domain.high) >= EXACT:  # floats have lost their last digits
        return 0
    period = _PERIODS.get(domain.step, 0)
    return period if domain.n_numbers >= _CYCLES * period else 0


class Remainders(ColumnStep):
    """How often numbers end in each two digits, or fall on each day of a week.

    Even and odd hundreds (or weeks) are counted apart: what they have in common is how
    numbers are written, the rest is where the rows of a column lie. Numbers of one or
    two digits are left out, and those out of range.
    """

    name, share = "remainders", REMAINDERS_SHARE

    def __init__(self, declared: Domains, schema: TableSchema) -> None:
        # Of some of which the resolution is unknown it may be found.
        fine = {c: None for c in declared if needs_resolution(c, schema)}
        super().__init__({**declared, **fine}, schema)

    def concerns(self, column: ColumnLayout, domain: Domain) -> bool:
        return period_of(domain) > 0 or (domain is None and is_numeric(column))

    def n_cells(self, column: ColumnLayout, domain: Domain, public: Public) -> int:
        return 2 * period_of(domain) + 1

    @staticmethod
    def cells(series: pd.Series, column: ColumnLayout, domain: Domain, n: int) -> Codes:
        values, missing = _usual_values(series, column, domain)
        steps, period = domain.whole_steps(values), n // 2
        outside = (steps < domain.low) | (steps > domain.high) | missing
        if domain.step is None:
            steps = np.abs(steps)
            outside |= steps < period
        return np.where(outside, 2 * period, steps % (2 * period)).astype(np.uint8)

    def read(self, column: ColumnLayout, domain: Domain, released: Released) -> Domain:
        counts = released.counts[:-1].reshape(2, -1)  # of even and of odd cycles
        std = max(released.noise_std, LEAST_NOISE)
        n_rows, period = float(counts.sum()), counts.shape[1]
        if n_rows <= 0:
            return replace(domain, remainders=())
        expected = np.full(period, n_rows / period)
        if period == _PERIODS[None]:  # the tens times the units, and what is beside
            even, digits = np.full(10, n_rows / 10), counts.reshape(2, 10, 10)
            tens = _estimated(digits.sum(axis=2), even, std * math.sqrt(10))
            units = _estimated(digits.sum(axis=1), even, std * math.sqrt(10))
            expected = np.outer(tens, units).ravel() / n_rows
        room = _estimated(counts, expected, std) * (period / n_rows)
        if np.allclose(room, 1.0):
            return replace(domain, remainders=())
        # None must vanish for noise; the marginals say how many rows there are.
        room = np.maximum(room, RARE)
        return replace(domain, remainders=tuple((room / room.mean()).tolist()))


def _estimated(counts: Ints, expected: Floats, std: float) -> Floats:
    """Return counts of all cycles from noisy ones of even and of odd cycles, (2, n)."""
    # What they differ in is noise, or no matter of cycles. Of what lies beside the
    # expected counts, so much is kept as both have in common, if that is more than
    # chance, and all that surely is. With 3 deviations of chance instead of 2 those of
    # the longitudes of storms were found in 10 of 15 draws of the noise, not 13, those
    # of Adult's capital gains in 2, not 8 (epsilon 1).
    halves = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    beside = counts - expected * (halves / halves.sum())
    common = float(beside.prod(axis=0).mean())
    chance = std**2 / math.sqrt(counts.shape[1])
    energy = float((beside.mean(axis=0) ** 2).mean())
    kept = min(common / energy, 1.0) if common > 2.0 * chance else 0.0
    sure = (np.abs(beside) > LIKELY * std).all(axis=0) & (beside.prod(axis=0) > 0)
    estimated = expected + np.where(sure, 1.0, kept) * beside.sum(axis=0)
    estimated = np.maximum(estimated, 0.0)
    return np.asarray(
        estimated * (expected.sum() / max(float(estimated.sum()), SMALLEST))
    )


# --- Frequent values ----------------------------------------------------------------

# Of the values of a column. Half as many can be full, so that in many rows chance fills
# hardly one, and the exact counts that are kept are few, whatever the number of rows.
_BUCKETS = 20_000


class FrequentValues(ColumnStep):
    """The frequent values of numeric columns, and their shares of all rows.

    A first pass over buckets of values leaves most of them out, which changes nothing
    in the result.
    """

    name, share, of_keys = "frequent values", FOUND_SHARE, True

    def concerns(self, column: ColumnLayout, domain: Domain) -> bool:
        return has_many_numbers(domain) or (domain is None and is_numeric(column))

    def least(self, public: Public) -> int:
        return max(math.ceil(2 * public.n_rows / _BUCKETS), MIN_KEY_COUNT)

    def cost(self, public: Public) -> Cost:
        share, found_from = super().cost(public)
        if not share or found_from > FEW * public.n_rows:
            return Cost(found_from=math.inf)
        return Cost(share, float(found_from))

    def release(
        self, rows: Parts, known: Domains, reservation: Reservation, public: Public
    ) -> Iterator[tuple[Ints, Sequence[Any]]]:
        full = rows.total(_bucket_counts, known) >= self.least(public)
        counters = rows.total(_counters, known, full)
        return released_keys(counters, reservation, public, self.least(public))

    def read(self, column: ColumnLayout, domain: Domain, released: Released) -> Domain:
        most = np.sort(np.argsort(-released.counts, kind="stable")[:N_CELLS])
        values = [float(released.keys[place]) for place in most]
        shares = (released.counts[most] / released.n_rows).tolist()
        return replace(domain, frequent=tuple(zip(values, shares, strict=True)))


def _keys(frame: pd.DataFrame, known: Domains) -> Iterator[tuple[Floats, Ints]]:
    """Yield of each column what can be frequent, and its buckets; private.

    Steps, or floats; not missing ones, those out of range, and what is counted anyway:
    zeros and special values.
    """
    for column, domain in known.items():
        assert isinstance(domain, NumericDomain)
        values, beside = wall_values(column.read(frame), column, domain)
        beside |= domain.codes(values) > 0
        values = domain.whole_steps(values) if domain.integer else values
        inside = (values >= domain.low) & (values <= domain.high) & ~beside
        keys = values[inside] + 0.0
        yield keys, (hash_array(keys) % _BUCKETS).astype(np.intp)


def _bucket_counts(frame: pd.DataFrame, known: Domains) -> Ints:
    """Count the rows in every bucket of values; private."""
    every = _keys(frame, known)
    return np.array([np.bincount(buckets, minlength=_BUCKETS) for _, buckets in every])


def _counters(frame: pd.DataFrame, known: Domains, full: Bools) -> list[Counter[float]]:
    """Count the rows of every value in a bucket that is full enough; private."""
    counters = []
    for is_full, (keys, buckets) in zip(full, _keys(frame, known), strict=True):
        values, counts = np.unique(keys[is_full[buckets]], return_counts=True)
        both = zip(values.tolist(), counts.tolist(), strict=True)
        counters.append(Counter(dict(both)))
    return counters


# --- Clocks -------------------------------------------------------------------------


class Hours(ColumnStep):
    """The hours of the day of times, and how many are exact midnight.

    Left out are times out of range, and those that many rows share: the marginals have
    them by themselves, and others would get their hour. So are gaps without a clock.
    """

    name, share = "hours of the day", REMAINDERS_SHARE
    period: ClassVar[float] = SECONDS_OF["D"]

    def concerns(self, column: ColumnLayout, domain: Domain) -> bool:
        of_times = column.kind == "datetime" and not is_date(column.dtype)
        if not (of_times or (isinstance(column, Gap) and column.has_clock)):
            return False
        if not isinstance(domain, NumericDomain):
            return domain is None
        low, high = domain.bounds
        return domain.step != SECONDS_OF["D"] and high - low >= _CYCLES * self.period

    def n_cells(self, column: ColumnLayout, domain: Domain, public: Public) -> int:
        return len(day_parts(_in_steps(column, domain)))

    @staticmethod
    def cells(series: pd.Series, column: ColumnLayout, domain: Domain, n: int) -> Codes:
        steps, day, outside = _usual_steps(series, column, domain)
        parts = steps % day // (day / 24)
        parts += (steps % day > 0) & (n > 24 + 1)  # midnight has a part of its own
        return np.where(outside, n - 1, parts).astype(np.uint8)

    def read(self, column: ColumnLayout, domain: Domain, released: Released) -> Domain:
        domain = _in_steps(column, domain)
        counts, ends = released.counts[:-1], day_parts(domain)
        even, std = np.diff(ends) / ends[-1], released.noise_std
        if len(even) == 24:
            return replace(domain, hours=_rooms(counts, even, std))
        # Without more midnights than other minutes these are as the hour after is.
        usual = max(counts[1], 0) * even[0] / even[1]
        midnight = counts[0] if counts[0] > usual + LIKELY * std else usual
        rooms = _rooms(counts[1:], even[1:] / even[1:].sum(), std)
        of_day = max(counts[1:].sum(), RARE**2 * midnight, 1.0)
        share = max(midnight / of_day * sum(rooms), ROUNDING)
        return replace(domain, hours=(share, *rooms))


class Weekdays(Hours):
    """The days of the week of times; whole days have `Remainders`."""

    name, share, period = "days of the week", SMALL_SHARE, 7 * SECONDS_OF["D"]

    def concerns(self, column: ColumnLayout, domain: Domain) -> bool:
        return column.kind == "datetime" and super().concerns(column, domain)

    def n_cells(self, column: ColumnLayout, domain: Domain, public: Public) -> int:
        return 7 + 1

    @staticmethod
    def cells(series: pd.Series, column: ColumnLayout, domain: Domain, n: int) -> Codes:
        steps, day, outside = _usual_steps(series, column, domain)
        days = steps // day % 7
        return np.where(outside, n - 1, days).astype(np.uint8)

    def read(self, column: ColumnLayout, domain: Domain, released: Released) -> Domain:
        even, std = np.full(7, 1 / 7), released.noise_std
        rooms = _rooms(released.counts[:-1], even, std)
        return replace(_in_steps(column, domain), weekdays=rooms)


def _in_steps(column: ColumnLayout, domain: NumericDomain) -> NumericDomain:
    """Return a domain of times on their clock: in units, or in small steps."""
    if domain.step is not None:
        return domain
    fine = in_units(column, replace(domain, frequent=()), FINEST)
    values, shares = np.array(domain.frequent).reshape(-1, 2).T
    values = column.to_wall(domain.from_steps(values))
    steps = np.clip(values // FINEST, fine.low, fine.high)
    steps, place = np.unique(steps, return_inverse=True)  # two may share one
    shares = np.bincount(place, shares, len(steps))
    known = tuple(zip(steps.tolist(), shares.tolist(), strict=True))
    return replace(fine, frequent=known)


def _usual_steps(
    series: pd.Series, column: ColumnLayout, domain: NumericDomain
) -> tuple[Floats, float, Bools]:
    """Return times in steps, those of a day, and what is left out; private."""
    domain = _in_steps(column, domain)
    assert domain.step is not None
    values, missing = _usual_values(series, column, domain)
    steps = domain.whole_steps(values)
    outside = (steps < domain.low) | (steps > domain.high) | missing
    if isinstance(column, Gap):
        outside |= values < FAR
    alone = [value for value, share in domain.frequent if share > RARE]
    outside |= np.isin(steps, alone)
    return steps, SECONDS_OF["D"] / domain.step, outside


def _rooms(counts: Ints, even: Floats, std: float) -> tuple[float, ...]:
    """Return the shares of parts, drawn to what is even by as much as is noise."""
    counted = counts[None].astype(np.float64)
    (shares,) = shrunk_distributions(counted, np.array([std]), even)
    return tuple(np.maximum(shares, RARE * even).tolist())


COLUMN_STEPS = (
    *(Categories, Ranges, UnsureRanges),
    *(Resolutions, Remainders, FrequentValues),
    *(Weekdays, Hours),
)
