"""Private rows in parts: what leaves a part is a count, and noise is drawn for the sum.

A table is cut into parts because it is larger than memory, because its rows are on
several machines, or so that several threads count. Which part a row is in changes no
result: nothing is clipped, ordered or normalised within a part.

Every count carries the numbers of the parts it is of, and how many rows each had. A
part that is lost, or counted twice, is an error before any noise is drawn.

Whole numbers must not wrap. An int64 overflows silently at 2**63, and one row more
moves it by 2**64. A clamp moves by no more than what it clamps, so the sensitivity of
an exact sum is also that of the clamped one. It must be the whole sum that is clamped.
Where no summand is negative, every partial sum may be clamped at the same limit L too,
since ``min(min(a, L) + b, L) = min(a + b, L)``: order and parts make no difference. Of
summands of both signs a clamped partial sum forgets how far beyond it was; one row more
shifts the others to other partial sums, and may so change the total by any amount. Such
sums are of Python's integers, which hold any total, and only that is clamped.
"""

from __future__ import annotations

import operator
import pickle
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, reduce
from itertools import chain, islice
from typing import Any, NamedTuple, NoReturn

import numpy as np

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.utils import n_threads
from skdpsynth.utils.arrays import Ints

# Grid cells per clipping norm, or per row: what one row adds to a number at most.
GRID = 2**20

# Rows that all statistics have room for; exact counts are clamped to it. It would take
# a core hours to read so many. They add up to GRID**3, 2**60; the rest of an int64 is
# for weights and noise.
MOST_ROWS = GRID * GRID

LARGEST: int = np.iinfo(np.int64).max


def saturating_sum(first: Ints, second: Ints) -> Ints:
    """Add two arrays; what passes an end of int64 stays there."""
    with np.errstate(over="ignore"):
        total = np.asarray(first + second)
    # Two numbers of one sign, and their sum has the other.
    wrapped = ((first ^ total) & (second ^ total)) < 0
    return np.where(wrapped, np.where(first < 0, -LARGEST - 1, LARGEST), total)


def clamped_counts(counts: Iterable[int] | Ints) -> Ints:
    """Clamp exact counts to MOST_ROWS, so that a row moves one by 1 or 0."""
    if not isinstance(counts, np.ndarray):  # of any size
        counts = np.array([min(n, MOST_ROWS) for n in counts], dtype=np.int64)
    return np.minimum(counts, MOST_ROWS)


_BLOCK_ENTRIES = 2**20  # of arrays in memory, worked on at a time: cells of a part


class Step(NamedTuple):
    """A function of a part, with what else it takes, which is public or secret."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    numbered: bool = False  # whether the number of the part comes first

    def __repr__(self) -> str:
        """Name the function; the rest may be secret."""
        return f"Step({getattr(self.function, '__name__', '...')})"


class Counted(NamedTuple):
    """A sum over some parts, and the rows of each of these; private."""

    n_rows: dict[int, int]
    # An array, a Counter, or a list of them. Of int64 that are not negative, so that a
    # sum may stop at its end, in whatever order parts are added up; or of dtype object.
    value: Any

    def __repr__(self) -> str:
        """Hide what is private."""
        return "Counted(...)"

    def __add__(self, other: Counted) -> Counted:  # type: ignore[override]
        """Add up what is of different parts."""
        if not self.n_rows.keys().isdisjoint(other.n_rows):
            raise changed_parts()
        return Counted(self.n_rows | other.n_rows, _sum(self.value, other.value))


def count_part(number: int, part: Any, steps: Iterable[Step]) -> Counted:  # noqa: ANN401
    """Take a part through all steps."""
    value = part
    for function, args, numbered in steps:
        value = function(*([number] if numbered else []), value, *args)
    return Counted({number: len(part)}, value)


class Parts(ABC):
    """Private rows in parts, and the steps that they go through when counted."""

    # `n_rows` has those of every part once all were read; all made of these share it.

    def __init__(self, steps: tuple[Step, ...], n_rows: dict[int, int]) -> None:
        self._steps, self.n_rows = steps, n_rows

    @staticmethod
    def rows_at_once(width: int) -> int:
        """Return the rows of a block in memory, of so many numbers each."""
        return max(1, _BLOCK_ENTRIES // max(width, 1))

    @staticmethod
    def of(rows: Any) -> Parts:  # noqa: ANN401 - a DataFrame, an array, `PrivateRows`
        """Cut rows in memory into parts; parts come back as they are."""
        if isinstance(rows, Parts):
            return rows
        width = rows.shape[1] if len(getattr(rows, "shape", ())) > 1 else 1
        step = Parts.rows_at_once(width)
        take = getattr(rows, "iloc", rows)
        starts = range(0, max(len(rows), 1), step)
        return LocalParts(
            lambda: (take[at : at + step] for at in starts), in_memory=True
        )

    def map(self, function: Callable[..., Any], *args: object) -> Parts:
        """Return what a function makes of every part. Nothing is computed yet."""
        return self._with((*self._steps, Step(function, args)))

    def total(
        self, function: Callable[..., Any], *args: object, numbered: bool = False
    ) -> Any:  # noqa: ANN401 - what the function returns
        """Add up what a function counts in every part; exact, so private."""
        counted = self._sum((*self._steps, Step(function, args, numbered)))
        self._check(counted.n_rows)
        return counted.value

    def only(self, names: Sequence[Hashable]) -> Parts:
        """Read some columns only, if the source can; the parts stay the same rows."""
        return self

    def each(self) -> Iterator[Any]:
        """Bring what the steps so far make of each part into memory, in order."""
        seen = Counted({}, [])
        for counted in self._counts(self._steps):
            seen += Counted(counted.n_rows, [])
            yield counted.value
        self._check(seen.n_rows)

    @abstractmethod
    def kept(self) -> Parts:
        """Take all parts through the steps so far, and keep what comes of it."""

    @abstractmethod
    def _with(self, steps: tuple[Step, ...]) -> Parts:
        """Return these parts with other steps."""

    @abstractmethod
    def _counts(self, steps: tuple[Step, ...]) -> Iterator[Counted]:
        """Yield what steps make of each part, in order."""

    def _sum(self, steps: tuple[Step, ...]) -> Counted:
        """Add up what steps make of all parts."""
        counts = self._counts(steps)
        first = next(counts, None)
        if first is None:
            raise changed_parts()
        return reduce(operator.add, counts, first)

    def _check(self, n_rows: dict[int, int]) -> None:
        """Refuse parts that are not those that were read at first, each once."""
        if sorted(n_rows) != [*range(len(n_rows))] or not n_rows:
            raise changed_parts()
        if self.n_rows and n_rows != self.n_rows:
            raise changed_parts()
        self.n_rows.update(n_rows)


class LocalParts(Parts):
    """Parts that `blocks` reads anew, in order; several threads take the steps."""

    def __init__(
        self,
        blocks: Callable[[], Iterator[Any]],
        steps: tuple[Step, ...] = (),
        n_rows: dict[int, int] | None = None,
        *,
        in_memory: bool = False,
        narrowed: Callable[[Sequence[Hashable]], Iterator[Any]] | None = None,
    ) -> None:
        super().__init__(steps, {} if n_rows is None else n_rows)
        self._blocks, self._in_memory, self._narrowed = blocks, in_memory, narrowed

    def only(self, names: Sequence[Hashable]) -> Parts:
        if self._narrowed is None:
            return self
        return LocalParts(partial(self._narrowed, names), self._steps, self.n_rows)

    def thinned(self, function: Callable[..., Any], *args: object) -> Parts:
        """Leave out rows of every part by its number, so that `only` may follow."""
        thinned = self._with((*self._steps, Step(function, args, numbered=True)))
        thinned._narrowed = self._narrowed
        return thinned

    def kept(self) -> Parts:
        """Keep the parts in memory, as they were, or in a file without a name."""
        if self._in_memory:
            blocks = [*self.each()]
            return LocalParts(lambda: iter(blocks), in_memory=True)
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with what reads it
        places: list[int] = []

        def read() -> Iterator[Any]:
            for place in places:
                file.seek(place)
                yield pickle.load(file)

        weakref.finalize(read, file.close)
        for part in self.each():
            places.append(file.tell())
            pickle.dump(part, file, protocol=5)
        return LocalParts(read)

    def _with(self, steps: tuple[Step, ...]) -> LocalParts:
        return LocalParts(self._blocks, steps, self.n_rows, in_memory=self._in_memory)

    def _counts(self, steps: tuple[Step, ...]) -> Iterator[Counted]:
        numbered = enumerate(self._blocks())
        first = [*islice(numbered, 2)]
        if len(first) == 1:  # one part needs no other thread
            yield count_part(*first[0], steps)
            return
        most = n_threads()
        with ThreadPoolExecutor(most) as pool:
            waiting: deque[Future[Counted]] = deque()
            for number, part in chain(first, numbered):
                run = copy_context().run  # a test that watches, watches its threads
                waiting.append(pool.submit(run, count_part, number, part, steps))
                if len(waiting) > most:  # no more parts than that are in memory
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


def _sum(first: Any, second: Any) -> Any:  # noqa: ANN401 - arrays, or lists of them
    if isinstance(first, list):
        return [_sum(*both) for both in zip(first, second, strict=True)]
    if isinstance(first, Counter):
        both = first.copy()  # what a task was given may be given to it again
        both.update(second)
        return both
    if first.dtype == object:
        return first + second
    return saturating_sum(first, second)


def changed_parts() -> InvalidTableError:
    """Return the error about a table that is not what it was."""
    return InvalidTableError(
        "The parts of the table are not those that were read before: one is missing, "
        "came twice, or has other rows. Nothing more is released of them; expected a "
        "source that gives the same rows whenever it is read, such as Parquet files "
        "that nobody writes to."
    )


class HoldsPrivateRows:
    """Base of what cannot be pickled, copied or saved: a TypeError says so."""

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "What holds private rows cannot be pickled, copied or saved. Keep what was "
            "released instead."
        )
