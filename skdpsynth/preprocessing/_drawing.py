"""From a stream to synthetic tables: rows drawn in order, decoded by threads."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpsynth.preprocessing._drawn import DrawnTable
from skdpsynth.preprocessing._sampling import (
    checked_number,
    class_counts,
    in_random_order,
)
from skdpsynth.preprocessing._where import Condition, rows_where
from skdpsynth.utils import n_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from skdpsynth.preprocessing._model import TableModel
    from skdpsynth.preprocessing._where import DrawRanks

_CHUNK_ROWS = 250_000  # rows drawn at once; with another number a seed draws others
_BLOCK_ROWS = 50_000  # rows decoded at once
_MOST_ROWS = 10**9  # of NumPy's hypergeometric numbers


@dataclass(frozen=True)
class RowSource:
    """Where the rows of one call of `sample` or `sample_batches` come from.

    `ranks` draws ranks of rows of given classes; with a `condition` it leaves the share
    `left` of each class's rows. `convert` makes the container asked for.
    """

    model: TableModel
    ranks: DrawRanks
    rng: np.random.Generator
    strategy: str | Mapping[Hashable, float] | None
    condition: Condition | None
    left: NDArray[np.float64]
    convert: Callable[[pd.DataFrame], Any]

    def table(self, n_samples: int) -> Any:  # noqa: ANN401 - of the library asked for
        """Draw all rows at once."""
        n_samples = checked_number(n_samples)
        (table,) = self._batches(n_samples, n_samples, self._counts(n_samples))
        return table

    def batches(self, n_samples: int, batch_size: int) -> Iterator[Any]:
        """Check the numbers, and give a generator of tables."""
        n_samples = checked_number(n_samples)
        batch_size = checked_number(batch_size, "batch_size")
        if n_samples >= _MOST_ROWS:
            raise ValueError(
                f"Expected n_samples below {_MOST_ROWS:,}. Got {n_samples:,}; take"
                " several calls."
            )
        return self._batches(n_samples, batch_size, self._counts(n_samples))

    def _counts(self, n_samples: int) -> NDArray[np.int64]:
        """Say how many rows each class has; a condition leaves that open."""
        if self.condition is not None:
            return np.zeros(0, dtype=np.int64)
        return class_counts(n_samples, self.strategy, self.model.facts.classes)

    def _batches(
        self, n_samples: int, batch_size: int, counts: NDArray[np.int64]
    ) -> Iterator[Any]:
        for first in range(0, n_samples, batch_size):
            n_rows = min(batch_size, n_samples - first)
            table = DrawnTable(self.model.facts, n_rows, first)
            if self.condition is None:
                own = counts
                if first + n_rows < n_samples:
                    # As many of each class as if all rows were shuffled together.
                    own = self.rng.multivariate_hypergeometric(counts, n_rows)
                counts = counts - own
                self._fill(table, in_random_order(own, self.rng))
            else:
                within = self.condition, self.model, self.ranks, self.left
                for start, columns in rows_where(*within, n_rows, self.rng):
                    table.put(start, columns)
            yield self.convert(table.frame())

    def _fill(self, table: DrawnTable, members: NDArray[np.int64]) -> None:
        """Draw rows of given classes.

        One chunk is decoded while the next one is drawn, so the ranks of two are there
        at most. Nothing random happens in a thread.
        """

        def decode(start: int, ranks: NDArray[np.float64]) -> None:
            own = members[start : start + len(ranks)]
            table.put(start, self.model.columns(ranks, own))

        jobs: list[Future[None]] = []
        with ThreadPoolExecutor(n_threads()) as pool:
            for first in range(0, len(members), _CHUNK_ROWS):
                ranks = self.ranks(members[first : first + _CHUNK_ROWS], self.rng)
                wait(jobs)
                for place in range(0, len(ranks), _BLOCK_ROWS):
                    block = ranks[place : place + _BLOCK_ROWS]
                    jobs.append(pool.submit(decode, first + place, block))
        for job in jobs:
            job.result()
