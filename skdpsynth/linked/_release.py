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
from skdpsynth.table import ColumnDomain, Metadata
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
        self.sensitivity, self.spacing = weighted_sensitivity(self.sets), 1.0 / GRID

    def codes(self, rows: Any) -> NDArray[Any]:  # noqa: ANN401
        return np.asarray(rows)

    def release(self, codes: Parts, reservation: Reservation) -> NDArray[np.floating]:
        given = codes, self.sizes, self.sets, reservation
        return noisy_weighted_tables(*given) / GRID

    def check(self, domains: Sequence[ColumnDomain]) -> None:
        """Accept any: it is no question about the columns of the root."""

    def describe(self, answer: Measurement, table: Metadata, size: float) -> Any:  # noqa: ANN401
        del table, size
        for columns, (values, std) in self.tables(answer).items():
            yield columns, (), values, std

    def tables(self, answer: Measurement) -> dict[Any, tuple[Floats, float]]:
        """Return by columns the noisy tables, in units of privacy, and their noise."""
        (values,), (std,) = answer.values, answer.noise_std.tolist()
        found = {}
        for own, part in zip(self.sets, np.split(values, self._ends), strict=True):
            shape, power = [self.sizes[j] for j in own.columns], own.entry / GRID
            found[own.columns] = part.reshape(shape) / power, std / power
        return found

    def ask(self, rows: Ints, accountant: PrivacyAccountant, mu: float) -> Measurement:
        """Release the answer: one line of the ledger."""
        given: dict[str, Any] = {"mu": mu, "sensitivity": self.sensitivity}
        line = accountant.reserve_gaussian(self.name, **given, answer=False)
        values = self.release(Parts.of(rows).map(self.codes), line)[None]
        std = np.array([line.noise_std * self.spacing])
        return Measurement(self, values, std, np.array([mu]))


def measure_link(
    model: LinkModel,
    table: str,
    private: tuple[Floats, Ints, Floats, Ints],
    known: tuple[Floats, Ints, Floats],
    accountant: PrivacyAccountant,
    mu: float,
) -> tuple[list[Measurement], dict[Any, tuple[Floats, float]]]:
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
    own, scopes = [*values.T], ["rows"] * len(model.own)
    if model.gap:
        own.append(model.gaps(values, parent))
        scopes.append("later")
    codes = [column.cells(v) for column, v in zip(model.shapes, own, strict=True)]
    sets = [WeightedTable(SCOPES.index(of), (j,)) for j, of in enumerate(scopes)]
    sizes = [column.n_cells for column in model.shapes]
    shapes = Weighted(f"columns of {table!r}", sizes, sets)
    mu_shapes = mu * math.sqrt(SHAPES_SHARE)
    mu_pairs = mu * math.sqrt(1.0 - SHAPES_SHARE)
    first_answer = shapes.ask(np.column_stack((weights, *codes)), accountant, mu_shapes)
    counts, stds = zip(*shapes.tables(first_answer).values(), strict=True)
    model.choose(counts, stds[0], *known, mu_pairs)
    sets = [
        WeightedTable(SCOPES.index(pair.scope), key, round(GRID * pair.power))
        for key, pair in model.pairs.items()
    ]
    sizes = [column.n_bins for column in model.columns]
    pairs = Weighted(f"pairs of columns of {table!r}", sizes, sets)
    bins = model.encode(values, parent, parents)
    answer = pairs.ask(np.column_stack((weights, bins)), accountant, mu_pairs)
    return [first_answer, answer], pairs.tables(answer)
