"""Rows on the workers of a Dask scheduler: only counts travel, added up on the way.

A task may be lost, run twice or run on another worker. Every count carries the numbers
of its partitions and their rows, and what a partition draws follows from a secret of
the fit and its number, so that a task that runs again makes the same.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Hashable, Iterator, Sequence
from functools import reduce
from itertools import count
from typing import Any

import pandas as pd

from skdpsynth.exceptions import InvalidTableError
from skdpsynth.privacy import Counted, Parts, Step, changed_parts, count_part
from skdpsynth.table._units import with_unit_places
from skdpsynth.utils import withheld
from skdpsynth.utils.containers import native

Frame = Any  # of Dask, which has no stubs

_READABLE = "The partitions must be such as can be computed"
_FAN_IN = 8  # counts that are added up, or parts that are brought, at a time


class DaskParts(Parts):
    """Partitions as Dask's delayed objects; `table` has them with their columns."""

    def __init__(
        self,
        parts: list[Any],
        steps: tuple[Step, ...],
        n_rows: dict[int, int],
        table: Frame = None,
    ) -> None:
        super().__init__(steps, n_rows)
        self._parts, self._table = parts, table

    @classmethod
    def opened(
        cls, table: Frame, unit: Hashable = None
    ) -> tuple[pd.DataFrame, DaskParts]:
        """Return the columns of a Dask DataFrame without a row, and its partitions."""
        # With a `unit`, the rows of each of its values are brought into one partition.
        from dask.dataframe.utils import make_meta

        for name, dtype in table.dtypes.items():
            if isinstance(dtype, pd.CategoricalDtype) and not table[name].cat.known:
                raise InvalidTableError(
                    f"Expected known categories. Got a column {name!r} of Dask whose"
                    " categories are yet to be found; call .cat.as_known(), or cast it"
                    " to text or numbers."
                )
        empty = make_meta(table)
        if native(empty) is not empty:
            table, empty = table.map_partitions(native), native(empty)
        if unit is not None and unit in table.columns:
            place = next(name for name in count() if name not in table.columns)
            # Not by what Dask makes of a cell: that depends on the partition.
            table = table.map_partitions(with_unit_places, unit, place)
            table = table.shuffle(on=[place], shuffle_method="tasks")
            table = table.drop(columns=place)
        return empty, cls(_partitions(table), (), {}, table.simplify())

    def only(self, names: Sequence[Hashable]) -> Parts:
        """Read some columns only, where Dask reads the table as it is stored."""
        # What comes after reading, such as a sort, may cut few columns at other rows.
        # And booleans are no names to Dask, but a mask.
        named = all(isinstance(name, str) for name in names)
        if self._table is None or self._table.expr.dependencies() or not named:
            return self
        return DaskParts(_partitions(self._table[[*names]]), self._steps, self.n_rows)

    def _counts(self, steps: tuple[Step, ...]) -> Iterator[Counted]:
        import dask

        tasks = self._tasks(steps)
        for first in range(0, len(tasks), _FAN_IN):
            with withheld(_READABLE):
                brought = dask.compute(*tasks[first : first + _FAN_IN])
            yield from brought

    def kept(self) -> Parts:
        """Keep the parts where they are made, in the memory of the workers."""
        import dask

        with withheld(_READABLE):
            made = dask.persist(*self._tasks(self._steps))
            known = dask.compute(*map(dask.delayed(_known), made))
        self._check(_add_up([rows for rows, _ in known]).n_rows)
        # Made again after a loss, they must be the same, in the same order.
        same = Step(_unchanged, ([digest for _, digest in known],), numbered=True)
        return DaskParts([own.value for own in made], (same,), {})

    def _with(self, steps: tuple[Step, ...]) -> Parts:
        return DaskParts(self._parts, steps, self.n_rows)

    def _sum(self, steps: tuple[Step, ...]) -> Counted:
        import dask

        add = dask.delayed(_add_up)
        counts = self._tasks(steps)
        while len(counts) > 1:
            groups = range(0, len(counts), _FAN_IN)
            counts = [add(counts[first : first + _FAN_IN]) for first in groups]
        with withheld(_READABLE):
            counted: Counted = counts[0].compute()
        return counted

    def _tasks(self, steps: tuple[Step, ...]) -> list[Any]:
        import dask

        # One node of the graph, for what all tasks take: it travels to a worker once.
        node = dask.delayed(steps, traverse=False)
        count = dask.delayed(count_part)
        return [count(number, part, node) for number, part in enumerate(self._parts)]


def _partitions(table: Frame) -> list[Any]:
    """Return the partitions as they are; Dask may join those it reads little of."""
    return [*table.simplify().to_delayed(optimize_graph=False)]


def _known(counted: Counted) -> tuple[Counted, bytes]:
    return Counted(counted.n_rows, []), _digest(counted.value)


def _digest(rows: Any) -> bytes:  # noqa: ANN401 - an array, or `PrivateRows`
    """Digest rows: others, or another order of them, have another one."""
    digest = hashlib.sha256()
    for array in getattr(rows, "arrays", (rows,)):
        digest.update(array.tobytes())
    return digest.digest()


def _unchanged(number: int, rows: Any, digests: list[bytes]) -> Any:  # noqa: ANN401
    if _digest(rows) != digests[number]:
        raise changed_parts()
    return rows


def _add_up(counts: list[Counted]) -> Counted:
    return reduce(operator.add, counts)
