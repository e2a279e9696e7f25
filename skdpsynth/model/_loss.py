"""How far mixtures are from what was measured, with slopes in closed form.

It is written for arrays of NumPy and of PyTorch, by what both have in common.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skdpsynth.measure import LEAST_NOISE, planned_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from skdpsynth.measure import Measurement, PairTables

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

Array = Any  # of NumPy, or a tensor


class Arrays(NamedTuple):
    """Where a mixture is fitted: a library of arrays, and the way there and back."""

    library: Any  # numpy or torch
    take: Callable[[NDArray[Any]], Array]  # an array of NumPy, in single precision
    give: Callable[[Array], NDArray[Any]]


NUMPY = Arrays(np, lambda values: np.asarray(values, dtype=np.float32), np.asarray)


class TripleLoss:
    """The distance of a mixture to the tables of triples that were measured of a class.

    `n_rows` of the class are known otherwise: tables with less than half of them count
    as much as half. `starts` and `doubt` are those of `ReleasedClass`.
    """

    def __init__(
        self,
        starts: Ints,
        measured: Measurement,
        *,
        n_rows: float,
        doubt: float = 1.0,
        arrays: Arrays,
    ) -> None:
        groups, triples = measured.query.groups, measured.query.sets
        counts, noise_std = measured.values, measured.noise_std
        self._n_groups = n_groups = counts.shape[-1]
        n_columns = len(starts) - 1
        column = np.repeat(np.arange(n_columns), np.diff(starts))
        member = np.zeros((len(groups), n_columns * n_groups))
        member[np.arange(len(groups)), column * n_groups + groups] = 1.0
        self._member = arrays.take(member)
        whole = max(float(counts.sum(dtype=np.float64)) / len(triples), n_rows / 2)
        # By second column, first column, their groups, third column, and its group.
        shape = n_columns, n_columns, n_groups, n_groups, n_columns, n_groups
        shares, per_share = (np.zeros(shape, dtype=np.float32) for _ in range(2))
        first, second, third = triples.T
        place = second, first, slice(None), slice(None), third
        shares[place] = counts / whole
        per_share[place] = whole / max(doubt * noise_std, LEAST_NOISE)
        self._tables = [
            tuple(
                arrays.take(part[j, :j, :, :, j + 1 :].reshape(j * n_groups**2, -1))
                for part in (per_share, shares)
            )
            for j in range(1, n_columns - 1)  # the second columns of triples
        ]

    def __call__(self, weights: Array, probabilities: Array) -> tuple[Array, ...]:
        """Return the squared distance in noise variances, and its slopes by both."""
        by_group = self._member.T @ probabilities.T  # components last, as memory goes
        n, n_components = self._n_groups, len(weights)
        groups = by_group.reshape(-1, n, n_components)
        by_groups, by_weights = 0.0 * groups, 0.0 * weights
        total = 0.0
        for j, (per_share, shares) in enumerate(self._tables, 1):
            first, second, third = groups[:j], groups[j], by_group[(j + 1) * n :]
            pairs = (first[:, :, None] * second).reshape(-1, n_components)
            off = per_share * (pairs @ (third * weights).T - shares)
            total = total + (off * off).sum()
            by_found = 2.0 * per_share * off
            by_third = by_found.T @ pairs
            by_weights += (by_third * third).sum(0)
            by_groups[j + 1 :] += by_third.reshape(-1, n, n_components)
            by_pairs = (by_found @ third).reshape(j, n, n, n_components)
            by_groups[:j] += (by_pairs * second).sum(2)
            by_groups[j] += (by_pairs * first[:, :, None]).sum((0, 1))
        by_groups *= weights
        by_probabilities = (self._member @ by_groups.reshape(by_group.shape)).T
        return total, by_weights, by_probabilities


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
        own = (column == self.smooth_columns[:, None]) & smooth
        z = np.where(smooth, scores, 0.0)
        self._powers = take(0.5 * np.concatenate([own * z**2, own * z, own]))

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
        triples: Measurement | None = None,
        prior: Floats | None = None,
        doubt: float = 1.0,
        *,
        arrays: Arrays = NUMPY,
    ) -> None:
        self.prior: Array = None if prior is None else arrays.take(prior)
        self.n_rows = n_rows = max(pairs.n_rows, 1.0)
        noise_std = doubt * pairs.noise_std
        # As `strongest_tree` takes them.
        noisy = pairs.counts / n_rows, pairs.measured, noise_std / n_rows
        self.tables = *noisy, shares
        self.chosen = len(pairs.pairs) / max(planned_tables(len(starts) - 1), 1)
        self.shares = arrays.take(shares)
        self._per_share = float(n_rows / max(doubt * share_std, LEAST_NOISE))
        noise_std = max(noise_std, LEAST_NOISE)
        self._per_cell = arrays.take(pairs.measured * (n_rows / noise_std))
        self._counts = arrays.take(pairs.counts / noise_std)
        self._triples = None
        if triples is not None:
            self._triples = TripleLoss(
                starts, triples, n_rows=pairs.n_rows, doubt=doubt, arrays=arrays
            )

    def distance(
        self,
        weights: Array,
        probabilities: Array,
        half: int | None = None,
        *,
        triples: bool = True,
    ) -> tuple[Array, Array, Array]:
        """Return the squared distance to all that was measured, in noise variances.

        Of weights and probabilities as in `Mixture`; beside it its slopes by both. Of
        the tables of pairs, `half` 0 or 1 takes every second block of rows, and counts
        it twice. Tables of `triples` cost most of a step.
        """
        beside = (weights @ probabilities - self.shares) * self._per_share
        total = (beside * beside).sum()
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
            total = total + every * (off * off).sum()
            off *= per_cell
            off *= 2.0 * every
            by_both[:, right] += probabilities[:, rows] @ off
            by_both[:, rows] += probabilities[:, right] @ off.T
        of_shares = probabilities @ by_shares
        by_weights = 0.5 * ((probabilities * by_both).sum(1) + of_shares)
        by_both *= weights[:, None]
        found = total, by_weights, by_both
        if self._triples is not None and triples:
            more = self._triples(weights, probabilities)
            found = total + more[0], by_weights + more[1], by_both + more[2]
        return found


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
    and `triples` see `ReleasedClass.distance`.
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

    def add(one: ReleasedClass, own: Array) -> tuple[Array, Array, Array]:
        """Add slopes by shares; give those by the weights that matter, and which do."""
        # What the class will not keep does not matter to it now.
        kept = xp.where(own >= LEAST_SHARE)[0]
        own = own[kept] / own[kept].sum()
        given = own, probabilities[kept], half
        _, by_own, by_all = one.distance(*given, triples=triples)
        by_shares[kept] += by_all / n_cells
        return by_own - own @ by_own, kept, own

    for one, weight, by_logs in zip(released, weights, by_log_weights, strict=False):
        by_own, kept, own = add(one, weight)
        by_logs[kept] = own * by_own / n_cells
    for one in released[len(weights) :]:
        by_own, kept, _ = add(one, one.prior @ weights)
        of_classes = one.prior[:, None] * weights[:, kept]
        by_classes = (of_classes * by_own).sum(1, keepdims=True)
        by_log_weights[:, kept] += of_classes * by_own / n_cells
        by_log_weights -= weights * by_classes / n_cells
    by_changes = by_shares * probabilities
    by_changes -= probabilities * heads.by_column(by_changes)
    return heads.slopes(parameters, by_changes), by_log_weights
