"""Mixtures fitted to measurements: post-processing, no private row comes here.

How far a mixture is from what was measured has slopes in closed form. It is written for
arrays of NumPy and of PyTorch, by what both have in common.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import threadpoolctl
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import softmax

from skdpsynth.measure import (
    LEAST_NOISE,
    LIKELY,
    LITTLE,
    RARE,
    SMALLEST,
    Measurement,
    Measurements,
    PairTables,
)
from skdpsynth.model._factors import lenders
from skdpsynth.model._mixture import Followers, Mixture, MixtureGenerator
from skdpsynth.utils.arrays import Floats, Ints

Array = Any  # of NumPy, or a tensor


class Arrays(NamedTuple):
    """Where a mixture is fitted: a library of arrays, and the way there and back."""

    library: Any  # numpy or torch
    take: Callable[[NDArray[Any]], Array]  # an array of NumPy, in single precision
    give: Callable[[Array], NDArray[Any]]


NUMPY = Arrays(np, lambda values: np.asarray(values, dtype=np.float32), np.asarray)


_BLOCKS = 8  # of the tables of all pairs, by rows: few cells below the diagonal
# Units of parameters, so that equal steps suit logits of categories, and of intervals.
# Without adversarial steps 1 and 1 are as good.
_LOGIT, _BUMP = 3.0, 0.6
# Of the first components: share that belongs to all classes alike, the rare ones too;
# weight of their class, against the bins that they begin with; and deviation of their
# parameters, so that no two are equal.
SPREAD = 0.2
# Noise variances that dependence of one nat costs all classes. With 50 to 1500 no part
# of Adult and Diamonds (2,000 to 5,000 rows) was better at epsilon 1 and 3.
_ENTROPY = 500.0
# A row of 100,000. Of a bin, so that logarithms are finite: with 1e-12 the 3-way
# distance of storms was .237, not .231 (epsilon 10). And of a component that a class
# keeps.
LEAST_SHARE = 1e-5
_WIDTHS = (-4.0, 2.0)  # logarithms, of a component in normal scores: a spike, and even
# Of a logit: float32 holds the sum of the exponentials of many.
_FAR = math.log(math.sqrt(np.finfo(np.float32).max))


class Heads:
    """The form of a component: what its parameters make of every column.

    Every bin has a logit, which is added to that of the marginal of the component's
    class. The intervals of a number have a mean m and the logarithm of a width s
    besides, on the scale z of normal scores, which add ``z^2 / 2 - (z - m)^2 / (2
    s^2)``: a component is then about a normal distribution where the marginal is one,
    and the intervals' own logits, in small units, say where it is not.

    `starts` (n_columns + 1,) is where the bins of each column begin, and the last ones
    end; `scores` (D,) are normal scores of the intervals of numbers, NaN elsewhere.
    """

    def __init__(self, starts: Ints, scores: Floats, arrays: Arrays = NUMPY) -> None:
        self.arrays, self._xp, take = arrays, arrays.library, arrays.take
        n_columns, n_bins = len(starts) - 1, int(starts[-1])
        column = np.repeat(np.arange(n_columns), np.diff(starts))
        smooth = np.isfinite(scores)
        self.starts, self.smooth_columns = starts, np.unique(column[smooth])
        self.means = slice(n_bins, n_bins + len(self.smooth_columns))
        self.widths = slice(self.means.stop, self.means.stop + len(self.smooth_columns))
        self.n_parameters = self.widths.stop
        self._column, self._smooth, self.scores = column, smooth, scores
        self._units = take(np.where(smooth, _BUMP, _LOGIT))
        self._members = take(np.eye(n_columns)[column])
        # Coefficients of z^2, z and 1 give what normals add, in one product.
        inside = (column == self.smooth_columns[:, None]) & smooth
        z = np.where(smooth, scores, 0.0)
        self._powers = take(0.5 * np.concatenate([inside * z**2, inside * z, inside]))

    def __call__(self, parameters: Array, home: Array) -> Array:
        """Return the probabilities of the bins by column, (n_components, D)."""
        return self.shares(home + self.changes(parameters))

    def changes(self, parameters: Array) -> Array:
        """Return what parameters add to the logarithms of the shares."""
        means, precisions = self._normals(parameters)
        squares = [1.0 - precisions, 2.0 * means * precisions, -(means**2) * precisions]
        normals = self._xp.concatenate(squares, 1) @ self._powers
        return normals + self._units * parameters[:, : self.means.start]

    def shares(self, logits: Array) -> Array:
        """Return the softmax of every column."""
        odds = self._xp.exp(self._xp.clip(logits, -_FAR, _FAR))
        return odds / self.by_column(odds)

    def by_column(self, values: Array) -> Array:
        """Return every bin the sum of its column."""
        return values @ self._members @ self._members.T

    def slopes(self, parameters: Array, by_changes: Array) -> Array:
        """Turn slopes by the changes into slopes by the parameters, in closed form."""
        means, precisions = self._normals(parameters)
        widths, n = parameters[:, self.widths], means.shape[1]
        sums = by_changes @ self._powers.T
        by_squares, by_lines = sums[:, :n], sums[:, n : 2 * n]
        by_ones = sums[:, 2 * n :]
        by_means = 2.0 * precisions * (by_lines - means * by_ones)
        by_precisions = means * (2.0 * by_lines - means * by_ones) - by_squares
        inside = (widths >= _WIDTHS[0]) & (widths <= _WIDTHS[1])
        by_widths = -2.0 * precisions * by_precisions * inside
        by_logits = self._units * by_changes
        return self._xp.concatenate([by_logits, by_means, by_widths], 1)

    def _normals(self, parameters: Array) -> tuple[Array, Array]:
        """Return the means and the precisions of the intervals of numbers."""
        widths = self._xp.clip(parameters[:, self.widths], *_WIDTHS)
        return parameters[:, self.means], self._xp.exp(-2.0 * widths)

    def at(self, bins: Ints, home: Floats) -> Floats:
        """Return parameters of components at bins, (n_components, n_columns)."""
        ones = np.zeros_like(home)
        np.put_along_axis(ones, bins + self.starts[:-1], 1.0, axis=1)
        shares, smooth = np.exp(home), self._smooth
        mixed = SPREAD * shares + (1.0 - SPREAD) * ones
        members = np.eye(bins.shape[1])[self._column]
        # What intervals have together, with the columns of categories as they are.
        together, at_home = (
            np.maximum(part @ (members * smooth[:, None]), LEAST_SHARE)
            for part in (mixed, shares)
        )
        beside = np.log(mixed / shares) - np.log(together / at_home) @ members.T
        first = np.zeros((len(bins), self.n_parameters))
        first[:, : self.means.start] = np.where(smooth, 0.0, beside / _LOGIT)
        z = np.where(smooth, self.scores, 0.0)
        first[:, self.means] = (ones * z) @ members[:, self.smooth_columns]
        return first


class ReleasedClass:
    """What was measured of one class, or of several together, as the fit reads it.

    `shares` (D,) are those of the bins in their columns, by the marginals, whose counts
    have noise `share_std`, in rows. `prior` are the shares of the classes that are
    fitted, if they were measured together. All noise counts `doubt` times. `chosen` is
    the share of the planned tables of pairs that was measured: the fewer, the less
    noise there is to be fitted. It is 0 for a class without such tables.
    """

    def __init__(
        self,
        starts: Ints,
        shares: Floats,
        share_std: float,
        pairs: PairTables,
        triples: Sequence[Measurement] = (),
        prior: Floats | None = None,
        doubt: float = 1.0,
        *,
        arrays: Arrays = NUMPY,
    ) -> None:
        self.prior: Array = None if prior is None else arrays.take(prior)
        self.n_rows = n_rows = max(pairs.n_rows, 1.0)
        # As a float: what it divides stays in single precision.
        noise_std = doubt * float(pairs.noise_std)
        self.marginals = shares
        self.tables = replace(pairs, noise_std=noise_std, n_rows=n_rows)
        self.chosen = pairs.share_of_planned()
        self.shares = arrays.take(shares)
        self._per_share = float(n_rows / max(doubt * share_std, LEAST_NOISE))
        noise_std = max(noise_std, LEAST_NOISE)
        measured = pairs.measured(np.diff(starts))
        self._per_cell = arrays.take(measured * (n_rows / noise_std))
        self._counts = arrays.take(pairs.counts / noise_std)
        # By second column: of cells of triples the scale and the shares, by the groups
        # of the first and the second, and those of the third.
        self._triples: list[tuple[Array, ...]] = []
        if not triples:
            return
        (answer,) = triples
        query, (counts,), (of_triples,) = answer.query, answer.values, answer.noise_std
        groups = query.groups
        n_columns, self._n_groups = len(starts) - 1, counts.shape[-1]
        column = np.repeat(np.arange(n_columns), np.diff(starts))
        member = np.zeros((len(groups), n_columns * self._n_groups))
        member[np.arange(len(groups)), column * self._n_groups + groups] = 1.0
        self._member = arrays.take(member)
        # Tables with less than half of the rows that are known count as much as half.
        whole = float(counts.sum(dtype=np.float64)) / len(counts)
        whole = max(whole, pairs.n_rows / 2)
        shape = n_columns, n_columns, *counts.shape[2:], n_columns, counts.shape[-1]
        by_cell, per_share = np.zeros((2, *shape), dtype=np.float32)
        first, second, third = query.sets.T
        place = second, first, slice(None), slice(None), third
        by_cell[place] = counts / whole
        per_share[place] = whole / max(doubt * of_triples, LEAST_NOISE)
        for j in range(1, n_columns - 1):
            parts = (part[j, :j, :, :, j + 1 :] for part in (per_share, by_cell))
            flat = (part.reshape(j * self._n_groups**2, -1) for part in parts)
            self._triples.append(tuple(map(arrays.take, flat)))

    def slopes(
        self,
        weights: Array,
        probabilities: Array,
        half: int | None = None,
        *,
        triples: bool = True,
    ) -> tuple[Array, Array]:
        """Return the slopes of the squared distance to all that was measured.

        In noise variances, by weights and by probabilities as in `Mixture`. Of the
        tables of pairs, `half` 0 or 1 takes every second block of rows, and counts it
        twice. Tables of `triples` cost most of a step.
        """
        beside = (weights @ probabilities - self.shares) * self._per_share
        by_shares = 2.0 * self._per_share * beside
        by_both = 0.0 * probabilities + by_shares
        weighted = (weights[:, None] * probabilities).T
        first, every = (0, 1) if half is None else (half, 2)
        height = -(-len(weighted) // _BLOCKS)
        for start in range(first * height, len(weighted), every * height):
            rows, right = slice(start, start + height), slice(start, None)
            per_cell = self._per_cell[rows, right]  # no cell is below
            off = weighted[rows] @ probabilities[:, right]
            off *= per_cell
            off -= self._counts[rows, right]
            off *= per_cell
            off *= 2.0 * every
            by_both[:, right] += probabilities[:, rows] @ off
            by_both[:, rows] += probabilities[:, right] @ off.T
        of_shares = probabilities @ by_shares
        by_weights = 0.5 * ((probabilities * by_both).sum(1) + of_shares)
        by_both *= weights[:, None]
        if self._triples and triples:
            more = self._slopes_of_triples(weights, probabilities)
            by_weights, by_both = by_weights + more[0], by_both + more[1]
        return by_weights, by_both

    def _slopes_of_triples(
        self, weights: Array, probabilities: Array
    ) -> tuple[Array, Array]:
        """Return the slopes of the squared distance to tables of triples."""
        by_group = self._member.T @ probabilities.T  # components last, as memory goes
        n, n_components = self._n_groups, len(weights)
        groups = by_group.reshape(-1, n, n_components)
        by_groups, by_weights = 0.0 * groups, 0.0 * weights
        for j, (per_share, shares) in enumerate(self._triples, 1):
            first, second, third = groups[:j], groups[j], by_group[(j + 1) * n :]
            pairs = (first[:, :, None] * second).reshape(-1, n_components)
            off = per_share * (pairs @ (third * weights).T - shares)
            by_found = 2.0 * per_share * off
            by_third = by_found.T @ pairs
            by_weights += (by_third * third).sum(0)
            by_groups[j + 1 :] += by_third.reshape(-1, n, n_components)
            by_pairs = (by_found @ third).reshape(j, n, n, n_components)
            by_groups[:j] += (by_pairs * second).sum(2)
            by_groups[j] += (by_pairs * first[:, :, None]).sum((0, 1))
        by_groups *= weights
        by_probabilities = (self._member @ by_groups.reshape(by_group.shape)).T
        return by_weights, by_probabilities


def slopes_of_loss(
    released: Sequence[ReleasedClass],
    heads: Heads,
    parameters: Array,
    log_weights: Array,
    home: Array,
    n_classes: int,
    half: int | None = None,
    *,
    triples: bool = True,
) -> tuple[Array, Array]:
    """Return the slopes of the loss by the parameters and by the log-weights.

    These have a row for each class, of which something is `released`, in this order;
    what was released of several together comes last. The loss is the distances to it,
    and the relative entropy to `home`, per cell. Without the entropy, which is that of
    a mean class of all `n_classes` of the table, noise would be fitted too. For `half`
    and `triples` see `ReleasedClass.slopes`.
    """
    xp, n_cells = heads.arrays.library, home.shape[1] ** 2
    odds = xp.exp(log_weights - xp.amax(log_weights, 1, keepdims=True))
    weights = odds / odds.sum(1, keepdims=True)
    changes = heads.changes(parameters)
    probabilities = heads.shares(home + changes)
    # The slopes of the entropy are the changes: what is constant in a column is lost.
    n_rows = [one.n_rows * (one.chosen > 0) for one in released]
    chosen = np.average([one.chosen for one in released], weights=n_rows)
    per_cell = float(_ENTROPY * chosen / n_classes / n_cells)
    by_shares = changes * (per_cell * weights.sum(0)[:, None])
    by_log_weights = 0.0 * weights

    def add(one: ReleasedClass, shares: Array) -> tuple[Array, Array, Array]:
        """Add slopes by shares; give those by the weights that matter, and which do."""
        # What the class will not keep does not matter to it now.
        kept = xp.where(shares >= LEAST_SHARE)[0]
        shares = shares[kept] / shares[kept].sum()
        given = shares, probabilities[kept], half
        by_weights, by_all = one.slopes(*given, triples=triples)
        by_shares[kept] += by_all / n_cells
        return by_weights - shares @ by_weights, kept, shares

    for one, weight, by_logs in zip(released, weights, by_log_weights, strict=False):
        by_weights, kept, shares = add(one, weight)
        by_logs[kept] = shares * by_weights / n_cells
    for one in released[len(weights) :]:
        by_own, kept, _ = add(one, one.prior @ weights)
        of_classes = one.prior[:, None] * weights[:, kept]
        by_classes = (of_classes * by_own).sum(1, keepdims=True)
        by_log_weights[:, kept] += of_classes * by_own / n_cells
        by_log_weights -= weights * by_classes / n_cells
    by_changes = by_shares * probabilities
    by_changes -= probabilities * heads.by_column(by_changes)
    return heads.slopes(parameters, by_changes), by_log_weights


# At least and at most, and for each bin: components of all classes together, and steps.
# With 2.5 components the 2-way distances of Adult and Diamonds rose by .001 (epsilon
# 1).
_COMPONENTS, _COMPONENTS_PER_BIN = (100, 1000), 4.0
_STEPS, _STEPS_PER_BIN = (300, 600), 2.5
# Pairs of bins, of all components and classes, by the number of columns: bounds time.
_MOST_CELLS = (15, 20), (2.5e8, 1.6e8)
# By the number of columns: a step of a wide table costs much, so it is longer.
_LEARNING_RATE = (15, 20), (0.05, 0.08)
_ELSEWHERE = -6.0  # first log-weight of a component in other classes than its own


def draw_from_tree(
    one: ReleasedClass, starts: Ints, n_rows: int, rng: np.random.Generator
) -> Ints:
    """Draw bins (n_rows, n_columns) from a tree of measured pairs (Chow, Liu 1968)."""
    shares = one.marginals
    order, tables, _ = one.tables.strongest_tree(shares, starts)
    drawn = np.zeros((n_rows, len(starts) - 1), dtype=np.int64)
    for parent, j in order:
        given = shares[None, starts[j] : starts[j + 1]]
        if parent is not None:
            given = tables[parent, j][drawn[:, parent]]
        # One place in each n-th of the line, so that few rows hold a column well.
        places = rng.permutation(n_rows) + rng.random(n_rows)
        ends = given.cumsum(axis=1)
        below = ends < places[:, None] / max(n_rows, 1) * ends[:, -1:]
        drawn[:, j] = np.minimum(below.sum(axis=1), given.shape[1] - 1)
    return drawn


class Components(NamedTuple):
    """The components of all classes, or of one, with the parameters of `heads`."""

    # (n_classes, n_components), each up to a constant: -inf where a class leaves one
    # out, all of them if it has no mixture of its own. Of one class (n_components,).
    log_weights: NDArray[np.float32]
    parameters: NDArray[np.float32]  # (n_components, n_parameters)
    home: NDArray[np.float32]  # (n_components, D), log shares that they start from
    heads: Heads
    n_together: int  # classes that were fitted together

    def of(self, position: int) -> Components:
        """Return those of one class."""
        kept = np.isfinite(logs := self.log_weights[position])
        parts = logs[kept], self.parameters[kept], self.home[kept]
        return Components(*parts, self.heads, self.n_together)

    def mixture(self, ranks: Floats) -> Mixture:
        """Return the generator of one class."""
        weights, arrays = softmax(self.log_weights.astype(float)), self.heads.arrays
        probabilities = self.heads(*map(arrays.take, (self.parameters, self.home)))
        return Mixture(weights, arrays.give(probabilities), ranks)

    def mixtures(self, ranks: Floats) -> list[Mixture | None]:
        """Return the generators of all classes; None if without components."""
        return [
            self.of(c).mixture(ranks[c]) if np.isfinite(logs).any() else None
            for c, logs in enumerate(self.log_weights)
        ]


class Adam:
    """Turns gradients into steps of about unit size (Kingma, Ba 2015, Algorithm 1).

    `betas` are shares of the last means of gradients and of their squares; `floor`, the
    size of a gradient that counts as nothing, is added to the root of the latter.
    Arrays are of NumPy or of torch, without gradients.
    """

    def __init__(
        self, betas: Sequence[float] = (0.9, 0.99), floor: float = 1e-12
    ) -> None:
        self._betas, self._floor, self._n_steps = betas, floor, 0
        self._moments: Any = ()

    def __call__(self, gradients: Sequence[Array], rate: float = 1.0) -> list[Array]:
        """Return what a step of this length takes off each array."""
        self._moments = self._moments or [(0.0 * x, 0.0 * x) for x in gradients]
        self._n_steps += 1
        of_means, of_squares = self._betas
        rate /= 1.0 - of_means**self._n_steps
        unbiased = (1.0 - of_squares**self._n_steps) ** -0.5
        for (mean, square), slope in zip(self._moments, gradients, strict=True):
            mean *= of_means
            mean += (1.0 - of_means) * slope
            square *= of_squares
            square += (1.0 - of_squares) * slope * slope
        return [rate * m / (unbiased * s**0.5 + self._floor) for m, s in self._moments]


_LOCK, _LIMITS = Lock(), list[threadpoolctl.threadpool_limits]()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit NumPy to one thread inside the block, in this thread and all others.

    Threads that wait for each other at every product gain up to a third where cores
    are idle (two threads, 6 to 60 columns), and take four times as long where they are
    not, as in a container whose share of the cores is less than their number. Builds
    of NumPy whose threads threadpoolctl cannot limit keep them (Accelerate).
    """
    with _LOCK:
        _LIMITS.append(threadpoolctl.threadpool_limits(1, user_api="blas"))
        _let_others_limit()
    try:
        yield
    finally:
        with _LOCK:  # of several fits at the same time the last one has the first limit
            _LIMITS.pop().restore_original_limits()
            _let_others_limit()


def _let_others_limit() -> None:
    """Since threadpoolctl 3.8 the first thread that sets a limit is the only one."""
    openblas = threadpoolctl.OpenBLASController
    if hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread()


def fit_components(
    released: Sequence[ReleasedClass], prior: Floats, heads: Heads, *, seed: int
) -> Components:
    """Fit one set of components for all classes, whose shares are `prior`.

    Minimises the loss of `slopes_of_loss` by Adam; components start from the marginals
    of a class and a tree of its pairs, or of those of the last part that is `released`
    where it has none. Each class has weights of its own, and the components that matter
    to it.
    """
    rng, take, give = np.random.default_rng(seed), heads.arrays.take, heads.arrays.give
    n_classes, n_columns = len(prior), len(heads.starts) - 1
    n_bins, classes = int(heads.starts[-1]), released[:n_classes]
    most_cells = np.interp(n_columns, *_MOST_CELLS)
    wanted = min(_COMPONENTS_PER_BIN * n_bins, most_cells / n_bins**2 / n_classes)
    n_components = int(np.clip(wanted, *_COMPONENTS))
    ends = np.cumsum((1.0 - SPREAD) * prior / prior.sum() + SPREAD / n_classes)
    homes = np.searchsorted(ends, (np.arange(n_components) + 0.5) / n_components)
    owner = np.minimum(homes, n_classes - 1)
    shares = np.log(np.maximum([one.marginals for one in classes], LEAST_SHARE))
    bins = []
    for c, one in enumerate(classes):
        drawn = heads.starts, int((owner == c).sum()), rng
        bins.append(draw_from_tree(one if one.chosen else released[-1], *drawn))
    first = heads.at(np.concatenate(bins), shares[owner])
    first[:, :n_bins] += SPREAD * rng.standard_normal((n_components, n_bins))
    first_logs = np.full((n_classes, n_components), _ELSEWHERE)
    first_logs[owner, np.arange(n_components)] = 0.0
    parameters, log_weights, home = map(take, (first, first_logs, shares[owner]))
    adam = Adam((0.9, 0.999), 1e-8)
    longest = float(np.interp(n_columns, *_LEARNING_RATE))
    n_steps = np.clip(_STEPS_PER_BIN * n_bins, *_STEPS)
    half = int(n_steps * _LEARNING_RATE[1][0] / longest) // 2
    # Triples help little before pairs fit. They join before the steps get shorter: else
    # a parity is not learnt. A step is by half of the pairs, and the next one by the
    # other: it costs much.
    phases = (half // 2, False, 0.0), (half // 2, True, 0.0), (half, True, 1.0)
    with one_thread():
        for length, triples, falling in phases:
            for n in range(length):
                start = parameters, log_weights, home, n_classes, n % 2
                slopes = slopes_of_loss(released, heads, *start, triples=triples)
                moved, shifted = adam(slopes, longest * (1.0 - falling * n / length))
                parameters -= moved
                log_weights -= shifted
    logs = give(log_weights)
    kept = softmax(logs, axis=1) >= LEAST_SHARE
    shared = give(parameters), give(home), heads, n_classes
    return Components(np.where(kept, logs, -np.inf), *shared)


# Part of the doubt that other shares of the classes leave at most, to be taken. Labels
# missing at random: they left 85 % or more (20 fits of Adult and Thyroid); missing to
# 75 % in one class and 90 % in the other: 65 % or less (3 fits of Adult).
_BETTER = 0.8


def as_a_mixture(shares: Floats, counts: Floats, stds: Floats) -> tuple[Floats, float]:
    """Return how rows without a label are a mixture of the classes, with what doubt.

    Of shares of bins (n_classes + 1, D), the last those of rows without a label, whose
    counts have noise `stds`. The shares are those of `counts`, as where labels are
    missing at random, or those that fit best if they fit much better. The doubt, at
    least 1, is the root of the mean squared difference over its variance.
    """
    variances = (stds[:, None] ** 2 + counts[:, None] * shares) / counts[:, None] ** 2

    def doubt(prior: Floats) -> tuple[float, Floats]:
        variance = variances[-1] + prior**2 @ variances[:-1]
        scale = 1.0 / np.sqrt(np.maximum(variance, SMALLEST))
        off = scale * (shares[-1] - prior @ shares[:-1])
        return max(math.sqrt((off**2).mean()), 1.0), scale

    prior = counts[:-1] / counts[:-1].sum()
    usual, scale = doubt(prior)
    if usual == 1.0:
        return prior, usual
    try:
        fitted, _ = nnls((scale * shares[:-1]).T, scale * shares[-1])
    except RuntimeError:  # it did not converge
        return prior, usual
    fitted /= fitted.sum()
    less, _ = doubt(fitted)
    return (fitted, less) if less < _BETTER * usual else (prior, usual)


def make_generator(fitted: Sequence[Any], measured: Measurements) -> MixtureGenerator:
    """Make the generator of all classes; those without a mixture borrow one."""
    model, bins = measured.model.labelled, measured.bins
    classes = model.metadata.classes
    relations, within, of_cells = measured.relations, [], []
    if relations.measured and (finer := relations.finer) is not None:
        of_cells = [finer.bins.ranks(of_class) for of_class in model.marginals]
        within = finer.within
    followers = Followers(relations.each, relations.std, within, of_cells)
    mixtures, some = [], np.array([mixture is not None for mixture in fitted])
    for c, lender in enumerate(lenders(some, classes.planned).tolist()):
        mixture = fitted[lender]
        if c != lender:
            own = Mixture.independent(measured.bin_shares[c], measured.ranks[c])
            categories = [column.rest >= 0 for column in bins.columns]
            mixture = mixture.lent(own, bins.starts, categories, followers.with_cells)
        mixtures.append(mixture)
    followers.compare(mixtures, classes.prior, bins.starts)
    return MixtureGenerator(mixtures, bins.starts, followers)


def fit_mixture(
    measured: Measurements, *, seed: int, arrays: Arrays = NUMPY
) -> Components:
    """Fit a mixture to tables of one, two and three columns; see `fit_components`.

    Rows without a label, the last class if they were measured, are fitted as a mixture
    of the others. All classes are then in one fit, also those without tables. Of these,
    those with few rows keep their own marginals and borrow. They are fitted as one,
    which takes their share of the rows without a label: left out, they made the mean of
    a class of two thirds of the rows -1.5 instead of -2.
    """
    bins, classes = measured.bins, measured.model.metadata.classes
    counts, prior = classes.counts, classes.labelled.prior
    shares, stds = measured.bin_shares, measured.planned_stds
    n_classes, pairs = len(prior), measured.pairs
    joint = len(counts) > n_classes
    # On Thyroid with 10 % of the labels (validation, 23 seeds) the AUROC of two
    # classifiers was 0.83 where noise did not count, 0.85 from LIKELY, 0.87 from twice.
    few = (prior < RARE) | (counts < 2.0 * LIKELY * stds)[:n_classes]
    alone = measured.has_pairs[:n_classes] | (joint & ~few)
    positions, rest = (np.flatnonzero(x).tolist() for x in (alone, ~alone & joint))
    groups = [[c] for c in positions] + [rest] * bool(rest)

    def of_class(c: int) -> tuple[Any, ...]:
        return shares[c], stds[c], pairs[c], measured.triples_by_class[c]

    def of_groups(values: Floats) -> Floats:
        return np.array([values[group].sum() for group in groups])

    parts = [of_class(c) for c in positions]
    if rest:
        rows = np.maximum(counts[rest], 1.0)
        n_rows = float(rows.sum())
        # Else the fit could make it of whatever only the rows without a label have.
        std = min(float(np.sqrt(stds[rest] @ stds[rest])), LITTLE * n_rows)
        mean = rows / n_rows @ shares[rest]
        parts.append((mean, std, replace(pairs[rest[0]], n_rows=n_rows)))  # without any
    among, doubt = as_a_mixture(shares, counts, stds) if joint else (prior, 1.0)
    if measured.together is not None:
        weights = counts * measured.has_pairs
        if joint:
            weights = weights[:n_classes] + counts[-1] * among
        weights /= weights.sum()
        # Shares of bins are fitted in each class.
        mean = weights @ shares[:n_classes]
        parts.append((mean, math.inf, measured.together, (), of_groups(weights)))
    if joint:  # rows without a label
        parts.append((*of_class(n_classes), of_groups(among), doubt))
    released = [ReleasedClass(bins.starts, *part, arrays=arrays) for part in parts]
    scores = bins.normal_scores(prior @ shares[:n_classes])
    heads = Heads(bins.starts, scores, arrays)
    fitted = fit_components(released, of_groups(prior), heads, seed=seed)
    log_weights = np.full((n_classes, len(fitted.home)), -np.inf, dtype=np.float32)
    # Of the classes that were fitted as one, none takes its components.
    log_weights[positions] = fitted.log_weights[: len(positions)]
    return fitted._replace(log_weights=log_weights)
