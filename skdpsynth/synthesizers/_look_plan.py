"""What linear discriminators can look at: what stands out of the noise."""

from __future__ import annotations

import math

CELL_COLUMNS = range(3, 20)  # of tables whose triples can be looked at
PRODUCT_COLUMNS = range(2, 2001)
CELL_ROUNDS, PRODUCT_ROUNDS = 2, 1
_STRONGEST = 0.12  # nominal share of the variance that the strongest factor has
# Groups of a column in cells of three of them, and of all columns together.
_MOST_GROUPS, _ALL_GROUPS = 6, 84
# Rows of a mean cell, in noise deviations: of 27 cells, to pay; and of those looked at.
_PAYS, _PER_CELL = 12.0, 8.0


def cell_groups(n_rows: float, n_columns: int, mu: float, *, asked: bool) -> int:
    """Give the groups of a column whose cells stand out of the noise, maybe 0.

    A cell is one of three columns, and training may use `mu` for all triples. Where it
    was asked for, two groups are enough.
    """
    if mu == 0:
        return 0
    noise = max(math.sqrt(math.comb(n_columns, 3)) / mu, 1.0)
    clear = int((n_rows / (_PER_CELL * noise)) ** (1 / 3))
    found = min(clear, _MOST_GROUPS, _ALL_GROUPS // n_columns)
    pays = found >= 3 and n_rows >= 3**3 * _PAYS * noise
    return found if pays or (asked and found >= 2) else 0


def products_clear(n_rows: float, n_columns: int, mu: float) -> float:
    """Give the strongest factor of all columns, over what noise alone would show.

    Rows are clipped at twice their mean squared length (`SeenProducts`), and their
    products have half the squared norm of a matrix; see its `loadings` for the noise.
    """
    noise = 2.0 * math.sqrt(n_columns) * 2.0 / math.sqrt(2.0)
    return _STRONGEST * n_rows * mu / noise
