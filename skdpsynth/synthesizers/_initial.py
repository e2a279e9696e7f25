"""Initial models: what a fit makes of its measurements before anything is trained.

A mixture fitted to tables, factors of second moments, or a network of the papers that
nobody has trained. Torch is imported only where they are trained; most fits train
nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import nnls

from skdpsynth.generators import (
    NUMPY,
    Arrays,
    FactorGenerator,
    Fit,
    Followers,
    Heads,
    Mixture,
    MixtureGenerator,
    ReleasedClass,
    Together,
    TripleLoss,
    factors_above_noise,
)
from skdpsynth.measure import (
    LITTLE,
    RARE,
    PairTables,
    TableModel,
    borrowers,
    choose_bins,
    flat_marginals,
    planned_tables,
    with_together,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from numpy.typing import NDArray

    from skdpsynth.generators import Components
    from skdpsynth.measure import Measurements
    from skdpsynth.models import FactorTrainer, MixtureTrainer, NetworkTrainer
    from skdpsynth.table import Metadata, PrivateRows

    Floats = NDArray[np.float64]

# Cells of a number that are as wide, and bins of all columns together: what a network
# of the papers can still learn.
CELLS, _MOST_BINS = 64, 4096
_N_LOADINGS = 4  # of a generator of factors that nothing was measured of


def fitted(
    measured: Measurements,
    *,
    seed: int,
    device: torch.device | None,
    trained: Mapping[int, float] = MappingProxyType({}),
) -> InitialMixture | InitialFactors:
    """Fit a generator to measurements: a mixture to tables, factors to moments.

    The classes `trained` will learn more, each by as many features as its steps can
    show. By NumPy where `device` is None or the CPU, which is as fast there as torch.
    """
    if measured.pairs:
        return InitialMixture(measured, trained, seed=seed, device=device)
    return InitialFactors(measured, trained, seed)


class InitialFactors:
    """Measured marginals, and the factors of second moments above their noise."""

    def __init__(
        self, measured: Measurements, trained: Mapping[int, float], seed: int
    ) -> None:
        self.model = measured.model
        n_columns = len(measured.model.metadata.columns)
        found = {c: self._loadings(measured, c) for c in measured.moments}
        known = {c for c, loadings in found.items() if loadings.any()}
        self._known = known | {*trained}
        most = max([_N_LOADINGS, *(own.shape[1] for own in found.values())])
        self.generator = FactorGenerator(
            [np.zeros((n_columns, most)) for _ in measured.rounds]
        )
        for c, loadings in found.items():
            self.generator.loadings[c][:, : loadings.shape[1]] = loadings
        # Where training starts if nothing is known: gradients depend on each factor.
        self._weak = 0.1 * np.random.default_rng([seed, 2]).standard_normal(
            (n_columns, _N_LOADINGS)
        )

    def _loadings(self, measured: Measurements, position: int) -> Floats:
        _, stds, slopes = self.model.score_moments(position)
        moments = measured.moments[position]
        return factors_above_noise(*moments, stds, slopes)

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Return the normal scores of the rows of a class."""
        return self.model.score_rows(rows.uniforms, rows.category_codes, position)

    def trainer(self, position: int, **training: Any) -> FactorTrainer:  # noqa: ANN401
        """Hand out the generator of a class."""
        from skdpsynth.models import FactorTrainer

        own = self.generator.loadings[position]
        known = own[:, own.any(axis=0)]
        return FactorTrainer(known if known.size else self._weak, **training)

    def keep(self, position: int, result: Floats) -> None:
        """Take back the loadings of a class."""
        self.generator.loadings[position][:, : result.shape[1]] = result

    def close(self) -> None:
        """Let the classes that learnt nothing borrow from one that did."""
        self.generator.lend(borrowers(self._known, self.model.metadata.classes.planned))


# Noise deviations of a count, below which a class borrows: see `InitialMixture`.
_LEAST_COUNT = 6.0

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


class InitialMixture:
    """Measured marginals, and a mixture that is fitted to tables of two and three.

    Rows without a label, the last class if they were measured, are fitted as a mixture
    of the others. All classes are then in one fit, also those without tables. Of these,
    those with few rows keep their own marginals and borrow: on Thyroid with 10 % of the
    labels (validation, 23 seeds) the AUROC of two classifiers was 0.83 where noise did
    not count, 0.85 from 3 deviations and 0.87 from 6. They are fitted as one, which
    takes their share of the rows without a label: left out, they made the mean of a
    class of two thirds of the rows -1.5 instead of -2.
    """

    def __init__(
        self,
        measured: Measurements,
        trained: Mapping[int, float],
        *,
        seed: int,
        device: torch.device | None,
    ) -> None:
        self.model, bins = measured.model.labelled, measured.bins
        counts = measured.model.metadata.classes.counts
        prior = self.model.metadata.classes.prior
        shares, joint = measured.shares[: len(prior)], len(counts) > len(prior)
        stds = np.array(measured.planned_stds)
        self._bins = bins
        arrays = NUMPY
        if device is not None and device.type != "cpu":
            from skdpsynth.models import on_device

            arrays = on_device(device)
        known, rest, released = [], [], []
        for c in range(len(prior)):
            alone = joint and c not in measured.pairs
            few = prior[c] < RARE or counts[c] < _LEAST_COUNT * stds[c]
            if alone and few:
                rest.append(c)
            elif alone or c in measured.pairs or c in trained:
                known.append(c)
                own = released_class(measured, c, counts[c], stds[c], arrays)
                released.append(own)
                if alone:
                    own.chosen = 0.0
        groups = [[c] for c in known]
        if rest:
            groups.append(rest)
            released.append(_as_one(measured, rest, counts[rest], stds[rest], arrays))
        mixtures = [
            Mixture.independent(share, rank)
            for share, rank in zip(shares, measured.ranks[: len(prior)], strict=True)
        ]
        followers = _followers(measured, self.model)
        self.generator = MixtureGenerator(mixtures, bins.starts, followers)
        scores = bins.normal_scores(prior @ np.array(shares))
        heads = Heads(bins.starts, scores, arrays)
        among, doubt, together = prior, 1.0, []
        if joint:
            among, doubt = as_a_mixture(np.array(measured.shares), counts, stds)
        if measured.together is not None:
            weights = counts * [c in measured.pairs for c in range(len(counts))]
            if joint:
                weights = weights[: len(prior)] + counts[-1] * among
            weights /= weights.sum()
            own = ReleasedClass(
                measured.together.n_rows,
                weights @ np.array(shares),
                math.inf,  # shares are fitted in each class
                *measured.together[:3],
                None,
                arrays,
            )
            own.chosen = len(measured.together.pairs) / planned_tables(len(bins.sizes))
            together.append(Together(own, _sums(weights, groups)))
        if joint:  # rows without a label
            place = measured, len(prior), counts[-1], stds[-1]
            mixed = released_class(*place, arrays, doubt)
            together.append(Together(mixed, _sums(among, groups)))
        fit = Fit(
            released,
            _sums(prior, groups),
            heads,
            seed=seed,
            together=together,
        )
        # Of the classes that were fitted as one, none takes its components.
        self._components: dict[int, Components] = dict(
            zip(known, fit.components(), strict=False)
        )
        for c, components in self._components.items():
            mixtures[c] = components.mixture(heads, mixtures[c].ranks)
        self._known = {*self._components, *trained}
        if trained:
            from skdpsynth.models import BinScores, on_device

            assert device is not None  # synthesizers that train have one
            arrays = on_device(device)
            self._heads = Heads(bins.starts, scores, arrays)
            if measured.together is not None:  # which a class alone is not fitted to
                pairs = with_together(measured.pairs, measured.together)
                measured = replace(measured, pairs=pairs)
            self._released, self._scores = {}, {}
            for c in self._components.keys() & trained:
                own = released_class(measured, c, counts[c], stds[c], arrays)
                own.with_triples = True
                self._released[c] = own
                tables = measured.pairs.get(c)
                pairs_of_class = () if tables is None else tables.pairs
                of_class = mixtures[c], bins.starts, pairs_of_class, trained[c]
                self._scores[c] = BinScores(*of_class)

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Return the scores of the bins of the rows of a class."""
        return self._scores[position].encode(self._bins.encode(rows))

    def trainer(self, position: int, **training: Any) -> MixtureTrainer:  # noqa: ANN401
        """Hand out the mixture of a class."""
        from skdpsynth.models import MixtureTrainer

        return MixtureTrainer(
            self._components[position],
            self._heads,
            self.generator.mixtures[position].ranks,
            self._scores[position],
            self._released[position],
            **training,
        )

    def keep(self, position: int, result: Mixture) -> None:
        """Take back the mixture of a class."""
        self.generator.mixtures[position] = result

    def close(self) -> None:
        """Let classes without tables that learnt nothing borrow from one with them."""
        classes = self.model.metadata.classes
        mixtures, followers = self.generator.mixtures, self.generator.followers
        of_bins = self._bins.starts, self._bins.categories
        with_cells = followers.with_cells if followers is not None else ()
        for c, lender in borrowers(self._known, classes.planned).items():
            mixtures[c] = mixtures[lender].lent(mixtures[c], *of_bins, with_cells)
        if followers is not None:
            followers.compare(mixtures, classes.prior, self._bins.starts)


def _followers(measured: Measurements, model: TableModel) -> Followers | None:
    """Return the columns that another one nearly determines, if any were measured."""
    relations = measured.relations
    if relations is None:
        return None
    within, of_cells = [], []
    if relations.finer is not None:
        within, finer = relations.finer.within, relations.finer.bins
        of_cells = [finer.ranks(own) for own in model.marginals]
    return Followers(relations.each, relations.std, within, of_cells)


def _sums(values: Floats, groups: Sequence[Sequence[int]]) -> Floats:
    return np.array([values[group].sum() for group in groups])


def _as_one(
    measured: Measurements,
    classes: Sequence[int],
    counts: Floats,
    stds: Floats,
    arrays: Arrays,
) -> ReleasedClass:
    """Return the marginals of several classes to the fit as those of one."""
    counts = np.maximum(counts, 1.0)
    n_rows = float(counts.sum())
    released = ReleasedClass(
        n_rows,
        counts / n_rows @ np.array([measured.shares[c] for c in classes]),
        # Else the fit could make it of whatever only the rows without a label have.
        min(float(np.sqrt(stds @ stds)), LITTLE * n_rows),
        *PairTables.nothing(int(measured.bins.starts[-1]), n_rows)[:3],
        None,
        arrays,
    )
    released.chosen = 0.0
    return released


def released_class(
    measured: Measurements,
    c: int,
    n_rows: float,
    share_std: float,
    arrays: Arrays,
    doubt: float = 1.0,
) -> ReleasedClass:
    """Return what was measured of a class to the fit, its noise times `doubt`."""
    bins = measured.bins
    nothing = PairTables.nothing(int(bins.starts[-1]), n_rows)
    pairs, triples = measured.pairs.get(c, nothing), None
    if c in measured.triples:
        groups, of_three, counts, std = measured.triples[c]
        own = groups, of_three, counts, doubt * std
        triples = TripleLoss(bins.starts, *own, n_rows=pairs.n_rows, arrays=arrays)
    released = ReleasedClass(
        pairs.n_rows,
        measured.shares[c],
        doubt * share_std,
        pairs.counts,
        pairs.measured,
        doubt * pairs.noise_std,
        triples,
        arrays,
    )
    if c in measured.pairs:
        released.chosen = len(pairs.pairs) / planned_tables(len(bins.sizes))
    return released


class InitialNetwork:
    """Bins of every column, about as wide, and networks that nobody has trained."""

    def __init__(
        self,
        metadata: Metadata,
        hidden_dims: Sequence[int],
    ) -> None:
        n_classes = len(metadata.classes)
        n_cells = max(min(CELLS, _MOST_BINS // max(len(metadata.domains), 1)), 2)
        flat = flat_marginals(metadata.domains, n_classes, n_cells)
        prior = metadata.classes.prior
        self._bins, flat = choose_bins(metadata.domains, flat, prior, n_cells)
        self._groups = self._bins.coarser()
        self.model = TableModel(metadata, flat)
        self._ranks = self._bins.ranks(flat[0])
        self._hidden_dims = hidden_dims
        even = Mixture.independent(self._bins.shares(self._ranks), self._ranks)
        self.generator = MixtureGenerator([even] * n_classes, self._bins.starts)

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Return the bins of the rows, as many zeros and ones."""
        del position
        bins = self._bins.encode(rows) + self._bins.starts[:-1]
        encoded = np.zeros((len(bins), int(self._bins.starts[-1])), dtype=np.float32)
        np.put_along_axis(encoded, bins, 1.0, axis=1)
        return encoded

    def trainer(self, position: int, **training: Any) -> NetworkTrainer:  # noqa: ANN401
        """Hand out the network of a class."""
        from skdpsynth.models import NetworkTrainer

        del position
        return NetworkTrainer(self._ranks, self._groups, self._hidden_dims, **training)

    def keep(self, position: int, result: Mixture) -> None:
        """Take back the generator of a class."""
        self.generator.mixtures[position] = result

    def close(self) -> None:
        """Do nothing: a class without training stays uniform, and `plan` says so."""


# The generator of all classes, before and while it is trained: `encode` returns what
# discriminators see of private rows, `trainer` hands out the generator of a class,
# `keep` takes it back, and `close` lets classes that learnt nothing borrow.
InitialModel = InitialMixture | InitialFactors | InitialNetwork
