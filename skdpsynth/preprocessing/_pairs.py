"""Pair tables: how often two columns take two bins together, bought per class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skdpsynth.preprocessing._shares import CHOICE_SHARE
from skdpsynth.privacy._calibration import grid_noise_std
from skdpsynth.privacy._pair_tables import (
    measured_cells,
    noisy_pair_distances,
    noisy_pair_tables,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from skdpsynth.preprocessing._bins import TableBins
    from skdpsynth.preprocessing._columns import PrivateRows
    from skdpsynth.privacy import PrivacyAccountant

__all__ = [
    "PairTables",
    "all_pairs",
    "bins_of_pairs",
    "buy_pairs",
    "pair_noise_std",
    "pairs_pay",
    "planned_tables",
]

_CHOSEN_FROM = 300  # pairs: with fewer, all of them are bought
_LEAST_BINS, _MOST_BINS = 4, 500  # of a column, and of all columns together
_ROWS_FROM = 40.0  # of a class, in noise deviations of a count


class PairTables(NamedTuple):
    """What was released of the pairs of columns in one class.

    Parameters
    ----------
    counts : ndarray of shape (D, D), float32
        Noisy counts above the diagonal, 0 where nothing was measured.
    measured : ndarray of shape (D, D), bool
        Where something was.
    noise_std : float
        Standard deviation of the noise of a count, in rows.
    """

    counts: NDArray[np.float32]
    measured: NDArray[np.bool_]
    noise_std: float

    @classmethod
    def nothing(cls, n_bins: int) -> PairTables:
        """Stand for a class that bought none."""
        shape = (n_bins, n_bins)
        return cls(np.zeros(shape, np.float32), np.zeros(shape, bool), 1.0)


def all_pairs(n_columns: int) -> int:
    """Give the number of pairs of columns."""
    return n_columns * (n_columns - 1) // 2


def planned_tables(n_columns: int) -> int:
    """Give the pair tables that a plan counts on."""
    return min(all_pairs(n_columns), _CHOSEN_FROM)


def pair_noise_std(n_columns: int, mu: float) -> float:
    """Give the planned noise of a count of a pair table, in rows."""
    return grid_noise_std(mu, math.sqrt(planned_tables(n_columns)))


def bins_of_pairs(rows_per_noise: float, n_columns: int) -> int:
    """Choose the bins of a column: so that the mean count of a cell is about the noise.

    A few columns may have more of them: what a generator costs grows with all bins.
    """
    most = max(_MOST_BINS // n_columns, _LEAST_BINS)
    return int(np.clip(math.sqrt(rows_per_noise), _LEAST_BINS, most))


def pairs_pay(n_rows: float, n_columns: int, mu: float) -> bool:
    """Tell whether a class can pay for pair tables, from public numbers.

    Parameters
    ----------
    n_rows : float
        Planned number of rows of the class.
    n_columns : int
        Modelled columns.
    mu : float
        Gaussian-DP parameter of its pair tables.

    Returns
    -------
    bool
        Whether its rows stand out of the noise of a count.
    """
    n_tables = planned_tables(n_columns)
    return n_tables > 0 and n_rows * mu >= _ROWS_FROM * math.sqrt(n_tables)


def buy_pairs(
    rows: PrivateRows,
    bins: TableBins,
    shares: NDArray[np.float64],
    n_rows: float,
    accountant: PrivacyAccountant,
    *,
    mu: float,
    scope: Hashable,
) -> PairTables:
    """Buy the tables of the pairs of columns in one class.

    Parameters
    ----------
    rows : PrivateRows
        The private rows of the class.
    bins : TableBins
        Functions of earlier releases.
    shares : ndarray of shape (D,), float64
        Released share of each bin in its column.
    n_rows : float
        Released number of rows of the class.
    accountant : PrivacyAccountant
        Ledger of the fit.
    mu : float
        Gaussian-DP parameter that the class may use.
    scope : hashable
        Key of the class.

    Returns
    -------
    PairTables
        Of all pairs; in a wide table of those that differ most from what independent
        columns would have, beyond the noise that their tables would get.
    """
    codes, sizes = bins.encode(rows), bins.sizes
    pairs = np.stack(np.triu_indices(len(sizes), 1), axis=1)
    if len(pairs) > _CHOSEN_FROM:
        mu_choice = mu * math.sqrt(CHOICE_SHARE)
        reservation = accountant.reserve_gaussian(
            "choice of pairs",
            mu=mu_choice,
            sensitivity=math.sqrt(len(pairs)),
            scope=scope,
        )
        expected = np.rint(n_rows * np.outer(shares, shares)).astype(np.int64)
        distances = noisy_pair_distances(codes, sizes, expected, reservation)
        mu = mu * math.sqrt(1.0 - CHOICE_SHARE)
        pairs = pairs[_worth(distances, pairs, np.array(sizes), mu)]
    measured = measured_cells(sizes, pairs)
    reservation = accountant.reserve_gaussian(
        f"{len(pairs)} pair tables, {measured.sum()} cells",
        mu=mu,
        sensitivity=math.sqrt(len(pairs)),
        scope=scope,
    )
    counts = noisy_pair_tables(codes, sizes, pairs, reservation)
    return PairTables(counts.astype(np.float32), measured, reservation.noise_std)


def _worth(
    distances: NDArray[np.int64],
    pairs: NDArray[np.int64],
    sizes: NDArray[np.int64],
    mu: float,
) -> NDArray[np.int64]:
    """Choose the pairs whose distances exceed the noise of their tables by most.

    The noise of a table grows with the root of the number of tables, so the gain of
    the best ones together has a maximum.
    """
    noise = math.sqrt(2.0 / math.pi) / mu * sizes[pairs[:, 0]] * sizes[pairs[:, 1]]
    order = np.argsort(noise - distances, kind="stable")
    found, best = order[:1], -math.inf
    for n_tables in np.unique(np.geomspace(1, len(order), 60).astype(np.int64)):
        gains = distances - noise * math.sqrt(n_tables)
        chosen = np.argsort(-gains, kind="stable")[:n_tables]
        total = float(gains[chosen].sum())
        if total > best:
            found, best = chosen, total
    return np.sort(found)
