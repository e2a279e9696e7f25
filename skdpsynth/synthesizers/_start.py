"""Initial models: what a generator knows of every class before it is trained.

All of them are fitted to what `measure` released, and to nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from skdpsynth.nn import (
    BinScores,
    Components,
    FactorGenerator,
    FactorTrainer,
    Fit,
    Heads,
    Mixture,
    MixtureGenerator,
    MixtureTrainer,
    NetworkTrainer,
    ReleasedClass,
    TripleLoss,
    factors_above_noise,
)
from skdpsynth.preprocessing import (
    PairTables,
    TableModel,
    borrowers,
    choose_bins,
    flat_marginals,
    most_tables,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from numpy.typing import NDArray

    from skdpsynth.nn import Generator, Trainer
    from skdpsynth.preprocessing import ClassPlan, Measured, PrivateRows, TableFacts


_CELLS = 32  # of a number, where nothing is known of it


class Start(Protocol):
    """The generator of all classes, before and while it is trained."""

    model: TableModel

    @property
    def generator(self) -> Generator:
        """The generators of all classes."""

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Give what discriminators see of the rows of a class; private if they are."""

    def trainer(self, position: int, n_factors: int, **training: Any) -> Trainer:  # noqa: ANN401
        """Hand out the generator of a class for training."""

    def keep(self, position: int, result: Any) -> None:  # noqa: ANN401
        """Take back what a trainer made."""

    def close(self, learnt: Sequence[bool], n_rows: Sequence[float]) -> None:
        """Let the classes that learnt nothing borrow from one that did."""


def fitted(
    measured: Measured,
    plans: Sequence[ClassPlan],
    *,
    n_factors: int = 1,
    seed: int,
    device: torch.device,
) -> PairStart | FactorStart:
    """Fit a generator to measurements: a mixture to tables, factors to moments."""
    if measured.pairs:
        return PairStart(measured, plans, seed=seed, device=device)
    return FactorStart(measured, n_factors, seed)


class FactorStart:
    """Measured or flat marginals, and factors: of second moments, or not known yet."""

    def __init__(self, measured: Measured, n_factors: int, seed: int) -> None:
        self.model = measured.model
        self._known = set(measured.moments)
        self._trained: tuple[str, ...] = ("loadings",)
        if not any(measured.rounds):
            self._trained += ("location", "log_scale")
        n_classes, n_columns = len(measured.rounds), len(measured.model.facts.columns)
        found = {c: self._loadings(measured, c) for c in measured.moments}
        most = max([n_factors, *(own.shape[1] for own in found.values())])
        self.generator = FactorGenerator.initial(n_classes, n_columns, most, seed)
        # Where training starts: weak random loadings, or those that are known.
        self._first = [own["loadings"].copy() for own in self.generator.parameters]
        for own in self.generator.parameters:
            own["loadings"][:] = 0.0
        for c, loadings in found.items():
            for into in (self.generator.parameters[c]["loadings"], self._first[c]):
                into[:, : loadings.shape[1]] = loadings

    def _loadings(self, measured: Measured, position: int) -> NDArray[np.float64]:
        _, stds, slopes = self.model.score_moments(position)
        moments = measured.moments[position]
        return factors_above_noise(*moments, stds, slopes)

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Give the normal scores of the rows of a class."""
        return self.model.score_rows(rows.units, rows.category_codes, position)

    def trainer(self, position: int, n_factors: int, **training: Any) -> FactorTrainer:  # noqa: ANN401
        """Hand out the generator of a class."""
        own = dict(self.generator.parameters[position])
        known = self.generator.parameters[position]["loadings"].any(axis=0).sum()
        own["loadings"] = self._first[position][:, : max(n_factors, int(known))]
        return FactorTrainer(own, self._trained, **training)

    def keep(self, position: int, result: dict[str, NDArray[np.float64]]) -> None:
        """Take back the parameters of a class."""
        own, learnt = self.generator.parameters[position], result.pop("loadings")
        own["loadings"][:, : learnt.shape[1]] = learnt
        own.update(result)

    def close(self, learnt: Sequence[bool], n_rows: Sequence[float]) -> None:
        """Let the classes that learnt nothing borrow from one that did."""
        known = [own or c in self._known for c, own in enumerate(learnt)]
        self.generator.lend(borrowers(known, n_rows))


class PairStart:
    """Measured marginals, and a mixture that is fitted to tables of two and three."""

    def __init__(
        self,
        measured: Measured,
        plans: Sequence[ClassPlan],
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        self.model, bins = measured.model, measured.bins
        counts, prior = self.model.facts.classes.counts, self.model.facts.classes.prior
        self._bins, shares = bins, measured.shares
        self._released: dict[int, ReleasedClass] = {}
        for c, plan in enumerate(plans):
            if c not in measured.pairs and not plan.n_iter:
                continue
            nothing = PairTables.nothing(int(bins.starts[-1]), counts[c])
            pairs, triples = measured.pairs.get(c, nothing), None
            if c in measured.triples:
                own = measured.triples[c]
                triples = TripleLoss(
                    bins.starts, *own, n_rows=pairs.n_rows, device=device
                )
            self._released[c] = ReleasedClass(
                pairs.n_rows, shares[c], plan.noise_std, *pairs[:3], triples, device
            )
            if c in measured.pairs:
                most = most_tables(len(bins.sizes))
                self._released[c].chosen = len(pairs.pairs) / most
        mixtures = [
            Mixture.independent(share, rank)
            for share, rank in zip(shares, measured.ranks, strict=True)
        ]
        self.generator = MixtureGenerator(mixtures, bins.starts)
        scores = bins.normal_scores(prior @ np.array(shares))
        self._heads = Heads(bins.starts, scores, device)
        fit = Fit(
            list(self._released.values()),
            prior[list(self._released)],
            self._heads,
            seed=seed,
            device=device,
        )
        self._components: dict[int, Components] = dict(
            zip(self._released, fit.components(), strict=True)
        )
        for c, components in self._components.items():
            mixtures[c] = components.mixture(self._heads, mixtures[c].ranks)
        self._scores = {
            c: BinScores(mixtures[c], bins.starts)
            for c in self._released
            if plans[c].n_iter
        }

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Give the scores of the bins of the rows of a class."""
        return self._scores[position].encode(self._bins.encode(rows))

    def trainer(self, position: int, n_factors: int, **training: Any) -> MixtureTrainer:  # noqa: ANN401
        """Hand out the mixture of a class."""
        return MixtureTrainer(
            self._components[position],
            self._heads,
            self.generator.mixtures[position].ranks,
            self._scores[position],
            self._released[position],
            n_factors=n_factors,
            **training,
        )

    def keep(self, position: int, result: Mixture) -> None:
        """Take back the mixture of a class."""
        self.generator.mixtures[position] = result

    def close(self, learnt: Sequence[bool], n_rows: Sequence[float]) -> None:
        """Let the classes without tables that learnt nothing borrow from one that has.

        Every class keeps its own marginals.
        """
        known = [own or c in self._released for c, own in enumerate(learnt)]
        mixtures, levels = self.generator.mixtures, self._bins.levels
        for c, lender in borrowers(known, n_rows).items():
            lent = mixtures[lender].lent(mixtures[c], self._bins.starts, levels)
            mixtures[c] = lent


class NetworkStart:
    """Bins of every column, about as wide, and networks that nobody has trained."""

    def __init__(
        self,
        facts: TableFacts,
        plans: Sequence[ClassPlan],
        hidden_dims: Sequence[int],
    ) -> None:
        flat = flat_marginals(facts.domains, len(plans), _CELLS)
        prior = facts.classes.prior
        self._bins, flat = choose_bins(facts.domains, flat, prior, _CELLS)
        self.model = TableModel(facts, flat)
        self._ranks = self._bins.ranks(flat[0])
        self._hidden_dims = hidden_dims
        even = Mixture.independent(self._bins.shares(self._ranks), self._ranks)
        self.generator = MixtureGenerator([even] * len(plans), self._bins.starts)

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Give the bins of the rows, as many zeros and ones."""
        del position
        bins = self._bins.encode(rows) + self._bins.starts[:-1]
        encoded = np.zeros((len(bins), int(self._bins.starts[-1])), dtype=np.float32)
        np.put_along_axis(encoded, bins, 1.0, axis=1)
        return encoded

    def trainer(self, position: int, n_factors: int, **training: Any) -> NetworkTrainer:  # noqa: ANN401
        """Hand out the network of a class."""
        del position
        made_of = self._bins.starts, self._ranks, self._hidden_dims
        return NetworkTrainer(*made_of, n_factors=n_factors, **training)

    def keep(self, position: int, result: Mixture) -> None:
        """Take back the generator of a class."""
        self.generator.mixtures[position] = result

    def close(self, learnt: Sequence[bool], n_rows: Sequence[float]) -> None:
        """Do nothing: a class without training stays uniform, and `plan` says so."""
