"""Mixtures fitted to measurements: post-processing, no private row comes here."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import threadpoolctl
from scipy.optimize import nnls

from skdpsynth.measure import (
    LITTLE,
    RARE,
    PairTables,
    strongest_tree,
)
from skdpsynth.model._factors import lenders
from skdpsynth.model._loss import (
    LEAST_SHARE,
    NUMPY,
    SPREAD,
    Heads,
    ReleasedClass,
    slopes_of_loss,
)
from skdpsynth.model._mixture import Mixture, MixtureGenerator
from skdpsynth.model._relations import Followers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from skdpsynth.measure import Measurements
    from skdpsynth.model._loss import Array, Arrays

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


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
    order, tables, _ = strongest_tree(*one.tables, starts)
    shares = one.tables[-1]
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
    """The components of one class, with the parameters that `Heads` reads."""

    log_weights: NDArray[np.float32]  # (n_components,), up to a constant
    parameters: NDArray[np.float32]  # (n_components, n_parameters)
    home: NDArray[np.float32]  # (n_components, D), log shares that they start from
    n_classes: int  # that were fitted together

    def mixture(self, heads: Heads, ranks: Floats) -> Mixture:
        """Return the generator of the class."""
        logs, arrays = self.log_weights.astype(np.float64), heads.arrays
        weights = np.exp(logs - logs.max())
        own = heads(arrays.take(self.parameters), arrays.take(self.home))
        return Mixture(weights / weights.sum(), arrays.give(own), ranks)


class AdamSteps:
    """Moves arrays in place against their gradients (Kingma, Ba 2015, Algorithm 1).

    `betas` are shares of the last means of gradients and of their squares; `floor` is
    added to the root of the latter. Arrays are of NumPy or of torch, without gradients.
    """

    def __init__(
        self,
        arrays: Sequence[Array],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        floor: float = 1e-8,
    ) -> None:
        self._moments = [(own, 0.0 * own, 0.0 * own) for own in arrays]
        self._betas, self._floor, self._n_steps = betas, floor, 0

    def __call__(self, gradients: Sequence[Array], rate: float) -> None:
        """Take one step."""
        self._n_steps += 1
        of_means, of_squares = self._betas
        rate /= 1.0 - of_means**self._n_steps
        unbiased = (1.0 - of_squares**self._n_steps) ** -0.5
        for (own, mean, square), gradient in zip(self._moments, gradients, strict=True):
            mean *= of_means
            mean += (1.0 - of_means) * gradient
            square *= of_squares
            square += (1.0 - of_squares) * gradient * gradient
            own -= rate * mean / (unbiased * square**0.5 + self._floor)


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
    released: Sequence[ReleasedClass],
    prior: Floats,
    heads: Heads,
    *,
    seed: int,
) -> list[Components]:
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
    own = np.minimum(homes, n_classes - 1)
    shares = np.log(np.maximum([one.tables[-1] for one in classes], LEAST_SHARE))
    bins = []
    for c, one in enumerate(classes):
        drawn = heads.starts, int((own == c).sum()), rng
        bins.append(draw_from_tree(one if one.chosen else released[-1], *drawn))
    first = heads.at(np.concatenate(bins), shares[own])
    first[:, :n_bins] += SPREAD * rng.standard_normal((n_components, n_bins))
    first_logs = np.full((n_classes, n_components), _ELSEWHERE)
    first_logs[own, np.arange(n_components)] = 0.0
    parameters, log_weights, home = take(first), take(first_logs), take(shares[own])
    step = AdamSteps([parameters, log_weights])
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
                step(slopes, longest * (1.0 - falling * n / length))
    found, every_home = give(parameters), give(home)
    components = []
    for logs in give(log_weights):
        odds = np.exp(logs - logs.max())
        kept = odds >= LEAST_SHARE * odds.sum()
        own_parts = logs[kept], found[kept], every_home[kept]
        components.append(Components(*own_parts, n_classes))
    return components


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
        scale = 1.0 / np.sqrt(np.maximum(variance, 1e-300))
        off = scale * (shares[-1] - prior @ shares[:-1])
        return max(math.sqrt(float((off**2).mean())), 1.0), scale

    prior = counts[:-1] / counts[:-1].sum()
    found, scale = doubt(prior)
    if found == 1.0:
        return prior, found
    try:
        fitted, _ = nnls((scale * shares[:-1]).T, scale * shares[-1])
    except RuntimeError:  # it did not converge
        return prior, found
    fitted /= fitted.sum()
    less, _ = doubt(fitted)
    return (fitted, less) if less < _BETTER * found else (prior, found)


@dataclass(frozen=True)
class MixtureFit:
    """What was fitted of the classes that have tables, by position of the class."""

    mixtures: dict[int, Mixture]
    components: dict[int, Components]  # that the mixtures are made of
    heads: Heads  # the form of the components

    def generator(self, measured: Measurements) -> MixtureGenerator:
        """Make the generator of all classes; those without a mixture borrow one.

        Then columns that nearly determine each other follow each other.
        """
        model, bins = measured.model.labelled, measured.bins
        classes = model.metadata.classes
        known = np.isin(np.arange(len(classes)), [*self.mixtures])
        followers, relations = None, measured.relations
        if relations is not None:
            within, of_cells = [], []
            if relations.finer is not None:
                within, cells = relations.finer.within, relations.finer.bins
                of_cells = [cells.ranks(own) for own in model.marginals]
            followers = Followers(relations.each, relations.std, within, of_cells)
        with_cells = followers.with_cells if followers is not None else ()
        found = []
        for c, lender in enumerate(lenders(known, classes.planned).tolist()):
            mixture = self.mixtures[lender]
            if c != lender:
                own = Mixture.independent(measured.shares[c], measured.ranks[c])
                mixture = mixture.lent(own, bins.starts, bins.categories, with_cells)
            found.append(mixture)
        if followers is not None:
            drawn = [(own.weights, own.probabilities) for own in found]
            followers.compare(drawn, classes.prior, bins.starts)
        return MixtureGenerator(found, bins.starts, followers)


# Noise deviations of a count, below which a class without tables is not fitted alone:
# on Thyroid with 10 % of the labels (validation, 23 seeds) the AUROC of two classifiers
# was 0.83 where noise did not count, 0.85 from 3 deviations and 0.87 from 6.
_LEAST_COUNT = 6.0


def fit_mixture(
    measured: Measurements, *, seed: int, arrays: Arrays = NUMPY
) -> MixtureFit:
    """Fit a mixture to tables of one, two and three columns; see `fit_components`.

    Rows without a label, the last class if they were measured, are fitted as a mixture
    of the others. All classes are then in one fit, also those without tables. Of these,
    those with few rows keep their own marginals and borrow. They are fitted as one,
    which takes their share of the rows without a label: left out, they made the mean of
    a class of two thirds of the rows -1.5 instead of -2.
    """
    bins, classes = measured.bins, measured.model.metadata.classes
    counts, prior = classes.counts, classes.labelled.prior
    shares, stds = np.array(measured.shares), np.array(measured.planned_stds)
    n_classes, n_bins = len(prior), int(bins.starts[-1])
    joint = len(counts) > n_classes
    has_pairs = np.isin(np.arange(len(counts)), [*measured.pairs])
    few = (prior < RARE) | (counts < _LEAST_COUNT * stds)[:n_classes]
    alone = has_pairs[:n_classes] | (joint & ~few)
    positions, rest = (np.flatnonzero(x).tolist() for x in (alone, ~alone & joint))
    groups = [[c] for c in positions] + [rest] * bool(rest)

    def of_class(c: int) -> tuple[Any, ...]:
        pairs = measured.pairs.get(c) or PairTables.nothing(n_bins, counts[c])
        return shares[c], stds[c], pairs, measured.triples.get(c)

    def of_groups(values: Floats) -> Floats:
        return np.array([values[group].sum() for group in groups])

    parts = [of_class(c) for c in positions]
    if rest:
        rows = np.maximum(counts[rest], 1.0)
        n_rows = float(rows.sum())
        # Else the fit could make it of whatever only the rows without a label have.
        std = min(float(np.sqrt(stds[rest] @ stds[rest])), LITTLE * n_rows)
        mean = rows / n_rows @ shares[rest]
        parts.append((mean, std, PairTables.nothing(n_bins, n_rows)))
    among, doubt = as_a_mixture(shares, counts, stds) if joint else (prior, 1.0)
    if measured.together is not None:
        weights = counts * has_pairs
        if joint:
            weights = weights[:n_classes] + counts[-1] * among
        weights /= weights.sum()
        # Shares of bins are fitted in each class.
        mean = weights @ shares[:n_classes]
        parts.append((mean, math.inf, measured.together, None, of_groups(weights)))
    if joint:  # rows without a label
        parts.append((*of_class(n_classes), of_groups(among), doubt))
    released = [ReleasedClass(bins.starts, *part, arrays=arrays) for part in parts]
    scores = bins.normal_scores(prior @ shares[:n_classes])
    heads = Heads(bins.starts, scores, arrays)
    found = fit_components(released, of_groups(prior), heads, seed=seed)
    # Of the classes that were fitted as one, none takes its components.
    components = dict(zip(positions, found, strict=False))
    mixtures = {
        c: own.mixture(heads, measured.ranks[c]) for c, own in components.items()
    }
    return MixtureFit(mixtures, components, heads)
