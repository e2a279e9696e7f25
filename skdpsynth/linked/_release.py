"""What is released of the rows of one linked table: two questions, two lines.

First the shapes of the columns, from which bins are chosen; then tables of all pairs.
Each is a `Weighted` query, whose answer is a `Measurement`. The chain is fitted to
these; no private row is read again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpsynth.linked._chain import LinkModel
from skdpsynth.linked._tree import weights_of
from skdpsynth.measure import Measurement, Query
from skdpsynth.privacy import GRID, Parts, PrivacyAccountant, Reservation
from skdpsynth.privacy.statistics import (
    WeightedTable,
    noisy_weighted_tables,
    weighted_sensitivity,
)
from skdpsynth.table import ColumnDomain
from skdpsynth.utils.arrays import Floats, Ints

# Of what a linked table has: the shapes of its columns.
SHAPES_SHARE = 0.1
# The weights of a row: of first rows that of the parent; of later ones, which are steps
# from the row before, and of all rows an equal part of it.
SCOPES = ("first", "later", "rows")


@dataclass(eq=False)
class Weighted(Query):
    """Weighted rows in the cells of tables, of one column or of several.

    Sensitivity, of a unit with all its rows: `weighted_sensitivity`, proved at
    `noisy_weighted_tables`: the root of the sum of squared powers, times GRID.
    """

    of: str  # the table and what is counted, for the report
    sizes: list[int]  # bins of each column
    sets: list[WeightedTable]

    kind, saved = "weighted", ("of", "sizes", "sets")

    def __post_init__(self) -> None:
        cells = [math.prod(self.sizes[j] for j in own.columns) for own in self.sets]
        self._ends = np.cumsum(cells)[:-1]
        self.shape = (sum(cells),)
        self.name = f"{self.of}, {len(self.sets)} tables, {sum(cells)} cells"
        self.sensitivity, self.unit = weighted_sensitivity(self.sets), 1.0 / GRID

    def codes(self, rows: Any) -> NDArray[Any]:  # noqa: ANN401
        return np.asarray(rows)

    def release(self, codes: Parts, reservation: Reservation) -> NDArray[np.floating]:
        given = codes, self.sizes, self.sets, reservation
        return noisy_weighted_tables(*given) / GRID

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        """Accept any: it is no question about the columns of the root."""

    def describe(self, answer: Measurement, table: Any, size: float) -> Any:  # noqa: ANN401
        """List its tables, without names of bins."""
        del table, size
        tables, stds = self.tables(answer)
        for own, values, std in zip(self.sets, tables, stds, strict=True):
            yield own.columns, (), values, std

    def tables(self, answer: Measurement) -> tuple[list[Floats], list[float]]:
        """Return the noisy tables, in units of privacy, and the noise of each."""
        (values,), (std,) = answer.values, answer.noise_std.tolist()
        entries = [own.entry / GRID for own in self.sets]
        parts = zip(np.split(values, self._ends), self.sets, entries, strict=True)
        shapes = [[self.sizes[j] for j in own.columns] for own in self.sets]
        found = [part / e for part, _, e in parts]
        return (
            [part.reshape(shape) for part, shape in zip(found, shapes, strict=True)],
            [std / entry for entry in entries],
        )

    def ask(self, rows: Ints, accountant: PrivacyAccountant, mu: float) -> Measurement:
        """Release the answer: one line of the ledger."""
        line = accountant.reserve_gaussian(
            self.name, mu=mu, sensitivity=self.sensitivity, answer=False
        )
        values = self.release(Parts.of(rows).map(self.codes), line)[None]
        std = np.array([line.noise_std * self.unit])
        return Measurement(self, values, std, np.array([mu]))


def measure_link(
    model: LinkModel,
    table: str,
    private: tuple[Floats, Ints, Floats, Ints],
    known: tuple[Floats, Ints, Floats],
    accountant: PrivacyAccountant,
    mu: float,
) -> tuple[list[Measurement], dict[Any, Floats], dict[Any, float]]:
    """Release what the chain of a table is fitted to, and choose its bins on the way.

    `private` are values of the rows, in order, the place of the parent of each, values
    of the parents, and their weights; `known` are synthetic parents, their numbers of
    children, and weights. Returned are the answers, and of each pair of columns of the
    model its noisy table, in units of privacy, and the noise of a cell.

    Privacy: what is counted of a unit is a function of its own rows and of public bins.
    Both answers are `Weighted`, whose sensitivity holds for all rows of a unit; so they
    cost mu together.
    """
    values, parent, parents, above = private
    rows, steps = weights_of(above, parent)
    first = above[parent] * (np.diff(parent, prepend=-1) != 0)
    weights = np.column_stack((first, steps, rows))
    own = [column.cells(v) for column, v in zip(model.own, values.T, strict=True)]
    cells = [column.n_cells for column in model.shapes]
    if model.gap:
        own.append(model.gap.cells(model.gaps(values, parent)))
    of_gap = [SCOPES.index("rows")] * len(model.own) + [SCOPES.index("later")]
    sets = [WeightedTable(of_gap[j], (j,)) for j in range(len(cells))]
    shapes = Weighted(f"columns of {table!r}", cells, sets)
    mu_shapes = mu * math.sqrt(SHAPES_SHARE)
    mu_pairs = mu * math.sqrt(1.0 - SHAPES_SHARE)
    answer = shapes.ask(np.column_stack((weights, *own)), accountant, mu_shapes)
    counts, (std, *_) = shapes.tables(answer)
    model.choose(counts, std, *known, mu_pairs)
    sets = [
        WeightedTable(SCOPES.index(pair.scope), key, round(GRID * pair.power))
        for key, pair in model.pairs.items()
    ]
    sizes = [column.n_bins for column in model.columns]
    pairs = Weighted(f"pairs of columns of {table!r}", sizes, sets)
    codes = model.encode(values, parent, parents)
    second = pairs.ask(np.column_stack((weights, codes)), accountant, mu_pairs)
    tables, stds = pairs.tables(second)
    keys = [own.columns for own in sets]
    both = dict(zip(keys, tables, strict=True)), dict(zip(keys, stds, strict=True))
    return [answer, second], *both
