"""Softmax regressions, fitted to noisy tables of pairs on simulated rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from skdpsynth.linked._columns import Column
from skdpsynth.measure import TINY, nearest_distribution
from skdpsynth.utils.arrays import Floats

# Prior deviations of log-odds, by what a column is given; and wider ones where a table
# shows more than its noise, as parts of what it shows.
PRIORS = {"own": 0.4, "parent": 0.25, "same": 1.5, "before": 0.15}
SHOWN = {"own": 1.0, "parent": 0.7, "same": 0.0, "before": 0.0}
WIDEST = 2.5
N_STEPS = 40  # three times as many lower the loss by another tenth
# A cell has the sampling error of at least this part of what independence expects.
LEAST_PART = 0.05
MOST_SCALED = 3.0  # a row of a table, to have the weight that simulated rows have


class Known(NamedTuple):
    """One column that a regression is given: simulated rows, and the noisy table."""

    column: Column
    codes: NDArray[np.integer]  # (n_rows,): bins, or -1
    weights: Floats  # (n_rows,), in this table
    table: Floats  # (n_bins, n_bins of what is drawn)
    noise_std: float  # of a cell
    role: str


def fit_regression(
    own: Column, known: Sequence[Known], free: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return log-odds of the bins of `own` by bins of the known columns, one by one.

    They minimise the squared distance to the tables in variances of their noise, plus
    their own squares in prior variances: of what simulated rows do not show they are 0.
    Returned first is what they are sums of, from which the next fit starts, as `free`.
    """
    parts: list[tuple[Floats, Floats, Floats, Floats, Floats]] = []
    for column, codes, weights, table, noise_std, role in known:
        weights = np.where(codes >= 0, weights, 0.0)
        weights = weights / max(weights.sum(), TINY)
        at = np.bincount(codes[codes >= 0], weights[codes >= 0], column.n_bins)
        # Simulated rows may be elsewhere: what is kept is how one depends on the other.
        table = np.where(at[:, None] > 0, table, 0.0)
        total = max(float(table.sum()), 1.0)
        sides = np.maximum(nearest_distribution(table.sum(1)), TINY)
        ratio = np.minimum(at / sides, MOST_SCALED)[:, None] / total
        table, even = table * ratio, np.outer(at, own.shares)
        usual = np.clip(table, LEAST_PART * even, even / LEAST_PART)
        error = (noise_std * ratio) ** 2 + usual * (1 / total + 1 / len(codes)) + 1e-9
        # What the table shows beyond its noise, as far as that leaves anything clear.
        level, noise = (even**2).sum() + TINY, error.sum()
        beyond = max(((table - even) ** 2).sum() - noise, 0.0)
        shown = math.sqrt(beyond * level) / (level + noise)
        width = max(PRIORS[role], SHOWN[role] * shown)
        widths = column.scales * min(width, WIDEST)
        parts.append((weights, table, error, usual, widths))
    each, *of_cells = zip(*parts, strict=True)
    table, error, usual, widths = map(np.concatenate, of_cells)
    sizes = [k.column.n_bins for k in known]
    codes = np.column_stack([k.codes for k in known])
    seen = codes >= 0
    places = (codes + (np.cumsum(sizes) - sizes))[seen]
    of_row, shape = np.append(0, np.cumsum(seen.sum(1))), (len(codes), sum(sizes))
    ones = np.ones(len(places), np.float32)
    of_place = np.column_stack(each)[seen].astype(np.float32)
    x, weighted = (
        sparse.csr_array((values, places, of_row), shape=shape)
        for values in (ones, of_place)
    )
    back, weighted_back = x.T.tocsr(), weighted.T.tocsr()
    table, precision = table.astype(np.float32), (1 / error).astype(np.float32)
    left = sparse.block_diag([k.column.basis for k in known], "csr", np.float32)
    right = own.basis.T.astype(np.float32)
    prior = np.outer(widths, own.scales) ** -2.0
    # In units of their deviations, so that few steps are enough.
    curved = usual**2 * precision
    unit = 1 / np.sqrt(left.power(2).T @ curved @ right.T**2 + prior)

    def loss(flat: Floats) -> tuple[float, Floats]:
        free = flat.reshape(prior.shape) * unit
        shares = softmax(x @ (left @ free.astype(np.float32) @ right))
        beside = weighted_back @ shares - table
        by_table = beside * precision
        by_shares = weighted @ by_table
        by_odds = shares * (by_shares - (shares * by_shares).sum(1, keepdims=True))
        slopes = left.T @ (back @ by_odds) @ right.T + prior * free
        value = (by_table * beside).sum(dtype=float) + (prior * free**2).sum()
        return 0.5 * value, (slopes * unit).astype(float).ravel()

    start = np.zeros(prior.size) if free is None else (free / unit).ravel()
    options = {"maxiter": N_STEPS}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    free = found.x.reshape(prior.shape) * unit
    return free, np.asarray(left @ free @ right, dtype=np.float64)


def softmax(odds: Any) -> Any:  # noqa: ANN401 - floats of either precision
    """Return the distributions of log-odds, (n_rows, n_bins)."""
    odds = np.exp(odds - odds.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)
