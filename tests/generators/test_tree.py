"""A tree of pairs keeps what is above the noise, and makes nothing of noise."""

from __future__ import annotations

import numpy as np
import pytest

# Where a fit begins; from outside it is only seen to take fewer steps.
from skdpsynth.generators._fit import draw_from_tree
from skdpsynth.privacy import measured_cells

SIZES = [6, 6, 5, 4]
STARTS = np.concatenate(([0], np.cumsum(SIZES)))
PAIRS = np.stack(np.triu_indices(4, 1), axis=1)
MEASURED = measured_cells(SIZES, PAIRS)
N_ROWS = 20_000


def rows(seed=0):
    """A cross of two columns, a column that follows one of them, and one by itself."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 6, N_ROWS)
    second = np.where(rng.random(N_ROWS) < 0.5, first, 5 - first)
    third = np.where(rng.random(N_ROWS) < 0.8, first % 5, rng.integers(0, 5, N_ROWS))
    return np.stack([first, second, third, rng.integers(0, 4, N_ROWS)], axis=1)


def shares_of_pairs(codes):
    one_hot = np.concatenate(
        [np.eye(size)[codes[:, j]] for j, size in enumerate(SIZES)], axis=1
    )
    return one_hot.T @ one_hot / len(codes)


def draw(joint, shares, std, n_rows=N_ROWS, measured=MEASURED):
    noise = np.random.default_rng(1).normal(0, max(std, 1e-12), joint.shape)
    noisy = np.where(measured, joint + noise, 0.0)
    rng = np.random.default_rng(2)
    return draw_from_tree(shares, noisy, measured, std, STARTS, n_rows, rng)


@pytest.mark.parametrize("std", [0.0, 0.0005])
def test_pairs_of_the_tree_are_drawn_as_they_were_measured(std):
    """A cell's share of 20,000 rows is off by 0.0035 at most, and by its noise."""
    joint = shares_of_pairs(rows())
    drawn = draw(joint, np.diag(joint), std)
    off = np.abs(shares_of_pairs(drawn) - joint)
    assert off[:6, 6:12].max() < 0.01  # the cross
    assert off[:6, 12:17].max() < 0.01
    assert (
        off[6:12, 12:17].max() < 0.01
    )  # not in the tree: it follows through the first
    for j, size in enumerate(SIZES):
        counts = np.bincount(drawn[:, j], minlength=size) / N_ROWS
        assert np.abs(counts - np.diag(joint)[STARTS[j] :][:size]).max() < 0.01


def test_noise_is_no_dependence():
    """Independent columns, and noise of a tenth of a cell and more.

    In about one table of four one cell of the noise is beyond the threshold, so of 173
    cells six tables keep a few; without one they would keep them all, off by 0.0024.
    """
    shares = np.concatenate([np.full(size, 1.0 / size) for size in SIZES])
    apart = np.outer(shares, shares)
    drawn = draw(apart, shares, 0.003, n_rows=200_000)
    off = np.abs(shares_of_pairs(drawn) - apart)[MEASURED]
    assert (off > 0.0025).sum() <= 6  # 3 deviations of the draw's own
    assert off.mean() < 0.0008


def test_a_column_of_which_no_pair_was_measured_stands_by_itself():
    """Two trees, then: of the columns whose pair was measured, and of each other."""
    joint = shares_of_pairs(rows())
    measured = measured_cells(SIZES, np.array([[0, 1]]))
    drawn = draw(joint, np.diag(joint), 0.0, measured=measured)
    found = shares_of_pairs(drawn)
    assert np.abs(found - joint)[:6, 6:12].max() < 0.01
    apart = np.outer(np.diag(joint), np.diag(joint))
    assert np.abs(found - apart)[:12, 12:].max() < 0.012
