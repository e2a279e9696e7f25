"""How far the joint shares of a few columns are from those of a real table."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.random import sample_without_replacement

from skdpsynth.exceptions import InvalidTableError, check_range
from skdpsynth.metrics._encode import common_kind, finite_numbers, same_columns

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

Numbers = NDArray[np.float64]
Codes = NDArray[np.int16]

_N_BINS, _N_LEVELS = 10, 20
# Marginals that are compared without being asked for more; all columns alone.
_LIMITS = {2: 10_000, 3: 150}
_NAMES = ("first", "second", "third")


@dataclass(frozen=True)
class NumberCells:
    """Cells of numbers: between quantiles, and one more for what is missing.

    A cell begins with each of the increasing edges; the first cell is below all of
    them.
    """

    edges: Numbers

    @classmethod
    def of(cls, values: Numbers, n_cells: int) -> NumberCells:
        """Choose at most `n_cells` by quantiles of values (NaN where missing).

        They are fewer where quantiles are equal. The smallest value is in the first
        cell, however frequent it is: zeros stay apart from what is above them.
        """
        known = values[~np.isnan(values)]
        if not known.size:
            return cls(np.empty(0))
        shares = np.arange(1, n_cells) / n_cells
        # Values that occur: with few distinct ones each has a cell where it can.
        edges = np.unique(np.quantile(known, shares, method="inverted_cdf"))
        lowest = known.min()
        if edges[0] == lowest:  # nothing is below it, so that the next value takes over
            edges[0] = known[known > lowest].min(initial=np.inf)
        return cls(np.unique(edges[np.isfinite(edges)]))

    @property
    def n_cells(self) -> int:
        """Number of cells, that of missing values included."""
        return len(self.edges) + 2

    def codes(self, values: Numbers) -> Codes:
        """Say in which cell each value is; the last one has the missing ones (NaN)."""
        codes = np.searchsorted(self.edges, values, side="right")
        codes[np.isnan(values)] = self.n_cells - 1
        return codes.astype(np.int16)


@dataclass(frozen=True)
class LevelCells:
    """Cells of categories: the most frequent, the others, and what is missing."""

    levels: Sequence[Hashable]

    @classmethod
    def of(cls, values: pd.Series, n_levels: int) -> LevelCells:
        """Keep the most frequent apart; ties are broken by name, not by the rows."""
        counts = values.astype(object).value_counts()
        ranked = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
        return cls([level for level, _ in ranked[:n_levels]])

    @property
    def n_cells(self) -> int:
        """Number of cells, those of other and of missing values included."""
        return len(self.levels) + 2

    def codes(self, values: pd.Series) -> Codes:
        """Say in which cell each value is; the last two: other levels, and missing."""
        values = values.astype(object)
        codes = pd.Index(self.levels, dtype=object).get_indexer(values)
        codes[codes == -1] = len(self.levels)
        codes[values.isna().to_numpy()] = self.n_cells - 1
        return np.asarray(codes, dtype=np.int16)


def marginal_fidelity(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    k: int = 2,
    *,
    n_marginals: int | None = None,
    random_state: int = 0,
) -> pd.Series:
    """Compare the shares of the combined values of k columns in two tables.

    Parameters
    ----------
    real : DataFrame
        Real table, at least `k` columns; it chooses the cells.
    synthetic : DataFrame
        Synthetic table with the same columns in any order.
    k : {1, 2, 3}, default=2
        Columns that are looked at together.
    n_marginals : int or None, default=None
        Most groups of `k` columns to compare, at least 1. Where there are more, some
        are chosen at random, always the same. None means all columns for ``k=1``,
        10,000 pairs (all of up to 141 columns) and 150 triples.
    random_state : int, default=0
        Seeds this choice.

    Returns
    -------
    Series of shape (n_marginals,)
        Total variation distance of each group, in [0, 1]: 0 for equal shares, 1 where
        no cell has rows of both tables. The index has the names of the columns,
        `first`, `second` and `third`, or `column` for ``k=1``. Its mean is one figure
        for the table. ``attrs["contains_private_statistics"]`` is True.

    Raises
    ------
    InvalidTableError
        As in `column_fidelity`, or if there are fewer than `k` columns.
    TypeError
        If a table is not a DataFrame.
    ValueError
        If `k` or `n_marginals` is not as above.

    Notes
    -----
    The distance is half the sum of the absolute differences of the shares of all cells
    [1]_. A number (booleans and times too) is in one of ten bins, whose edges are
    quantiles of `real`; where a tenth or more of the rows have the smallest value, it
    has a bin of its own. A category is one of the 20 most frequent levels of `real`, or
    a rest. Missing values are a cell too. A label is a column like any other.

    Two tables of one distribution have no distance of 0, the less so the more cells and
    the fewer rows there are: look at other real rows first.

    References
    ----------
    .. [1] R. McKenna, B. Mullins, D. Sheldon and G. Miklau, "AIM: An Adaptive and
       Iterative Mechanism for Differentially Private Synthetic Data", Proceedings of
       the VLDB Endowment 15, 2022.

    Examples
    --------
    Each column has the same values in both tables, but not together:

    >>> import pandas as pd
    >>> from skdpsynth.metrics import marginal_fidelity
    >>> real = pd.DataFrame({"a": [0, 0, 1, 1], "b": [0, 0, 1, 1]})
    >>> fake = pd.DataFrame({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1]})
    >>> [float(marginal_fidelity(real, fake, k=k).mean()) for k in (1, 2)]
    [0.0, 0.5]
    """
    check_range("k", k, k in (1, 2, 3), "1, 2 or 3")
    if n_marginals is not None:
        whole = isinstance(n_marginals, Integral) and n_marginals >= 1
        expected = "None or an integer of at least 1"
        check_range("n_marginals", n_marginals, whole, expected)
    real, synthetic = same_columns(real, synthetic)
    names = list(real.columns)
    if len(names) < k:
        raise InvalidTableError(
            f"Expected at least {k} columns in 'real' for k={k}, but got {len(names)}. "
            "Choose a smaller k."
        )
    limit = _LIMITS.get(k, len(names)) if n_marginals is None else int(n_marginals)
    coded = [_coded(real[name], synthetic[name], name) for name in names]
    groups = _groups(len(names), k, limit, random_state)
    distances = [_distance([coded[i] for i in group]) for group in groups]
    index = pd.MultiIndex.from_arrays(
        [[names[i] for i in members] for members in groups.T], names=_NAMES[:k]
    )
    if k == 1:
        index = pd.Index(names, name="column").take(groups[:, 0])
    result = pd.Series(distances, index=index, name="distance", dtype=float)
    result.attrs["contains_private_statistics"] = True
    return result


def _coded(
    real: pd.Series, synthetic: pd.Series, name: object
) -> tuple[Codes, Codes, int]:
    """Give the cells of both columns' values, and how many cells there are."""
    kind = common_kind(real, synthetic, name)
    if kind == "category":
        levels = LevelCells.of(real, _N_LEVELS)
        return levels.codes(real), levels.codes(synthetic), levels.n_cells
    own, other = finite_numbers(real, kind), finite_numbers(synthetic, kind)
    bins = NumberCells.of(own, _N_BINS)
    return bins.codes(own), bins.codes(other), bins.n_cells


def _distance(columns: list[tuple[Codes, Codes, int]]) -> float:
    """Compute the total variation distance of the joint shares of some columns."""
    # Three columns have 22 ** 3 cells at most, so that int16 holds their numbers.
    own, other, n_cells = columns[0]
    for more_own, more_other, n_more in columns[1:]:
        own, other = own * n_more + more_own, other * n_more + more_other
        n_cells *= n_more
    shares = (np.bincount(c, minlength=n_cells) / len(c) for c in (own, other))
    return float(np.abs(np.subtract(*shares)).sum() / 2)


def _groups(n_columns: int, k: int, limit: int, random_state: int) -> NDArray[np.intp]:
    """List all groups of k columns, or as many as allowed, drawn without repetition."""
    total = comb(n_columns, k)
    ranks = np.arange(min(total, limit))
    if total > limit:
        ranks = sample_without_replacement(total, limit, random_state=random_state)
    # Every number is one sum of binomials with falling members, hence one group.
    members = []
    for size in range(k, 0, -1):
        below = np.array([comb(column, size) for column in range(n_columns)])
        member = np.searchsorted(below, ranks, side="right") - 1
        ranks = ranks - below[member]
        members.append(member)
    return np.array(sorted(zip(*reversed(members), strict=True)), dtype=np.intp)
