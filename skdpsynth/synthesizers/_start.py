"""The start: what a generator knows of every class before it is trained.

All synthesizers buy it by the same functions, from what the plan set aside, and train
what it hands out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from skdpsynth.nn._cells import SeenCells
from skdpsynth.nn._factors import FactorGenerator, FactorTrainer
from skdpsynth.nn._fitting import Components, Fit, Heads, ReleasedClass
from skdpsynth.nn._mixture import Mixture, MixtureGenerator
from skdpsynth.nn._mixture_trainer import BinScores, MixtureTrainer
from skdpsynth.nn._network_trainer import NetworkTrainer
from skdpsynth.nn._score_products import ScoreMoments, SeenProducts
from skdpsynth.preprocessing._bins import choose_bins
from skdpsynth.preprocessing._estimates import flat_marginals
from skdpsynth.preprocessing._model import TableModel
from skdpsynth.preprocessing._pairs import PairTables, borrowers, buy_pairs
from skdpsynth.preprocessing._plan import table_bins

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from numpy.typing import NDArray

    from skdpsynth.nn._generator import Generator, Trainer
    from skdpsynth.nn._linear_discriminator import Look
    from skdpsynth.preprocessing._columns import PrivateRows, TableRows
    from skdpsynth.preprocessing._plan import ClassPlan
    from skdpsynth.preprocessing._purchase import TableFacts
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.privacy._parts import Parts


_CELLS = 32  # of a number, where nothing is known of it


class Seen(Protocol):
    """What linear discriminators of a class look at, and have seen."""

    def next_look(self) -> Look:
        """Say what the next discriminator looks at."""

    def add(self, look: Any, means: torch.Tensor, std: torch.Tensor) -> None:  # noqa: ANN401
        """Remember what a discriminator says of the mean features of real rows."""


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


@runtime_checkable
class LookingStart(Start, Protocol):
    """A start that goes on with what linear discriminators see."""

    def see(
        self, position: int, rows: Parts, plan: ClassPlan, public: torch.Generator
    ) -> tuple[Seen, Parts]:
        """Let linear discriminators look; give what they see, and the private rows.

        These are the rows of a class, and come back as the discriminators take them.
        """

    def descend(self, n_steps: int) -> None:
        """Fit the generator of all classes further, to all that was released."""

    def finish(self) -> None:
        """Fit it to what linear discriminators have seen, at last."""


class FactorStart:
    """Bought or flat marginals, and factors that nobody has trained yet."""

    def __init__(
        self,
        rows: TableRows,
        facts: TableFacts,
        plans: Sequence[ClassPlan],
        accountant: PrivacyAccountant,
        *,
        n_factors: int,
        most_factors: int | None = None,
        seed: int,
    ) -> None:
        self.model = TableModel.bought(rows, facts, plans, accountant)
        self._most_factors = most_factors
        self._seen: dict[int, SeenProducts] = {}
        bought = any(plan.mu_marginals for plan in plans)
        self._trained: tuple[str, ...] = ("loadings",)
        if not bought:
            self._trained += ("location", "log_scale")
        self.generator = FactorGenerator.initial(
            len(plans), len(facts.columns), n_factors, seed
        )
        self._first = [own["loadings"].copy() for own in self.generator.parameters]
        for own in self.generator.parameters:  # nothing is learnt yet
            own["loadings"][:] = 0.0

    def encode(self, rows: PrivateRows, position: int) -> NDArray[np.float32]:
        """Give the normal scores of the rows of a class."""
        return self.model.score_rows(rows.units, rows.category_codes, position)

    def trainer(self, position: int, n_factors: int, **training: Any) -> FactorTrainer:  # noqa: ANN401
        """Hand out the generator of a class."""
        own = dict(self.generator.parameters[position])
        own["loadings"] = self._first[position][:, :n_factors]
        return FactorTrainer(own, self._trained, **training)

    def see(
        self, position: int, rows: Parts, plan: ClassPlan, public: torch.Generator
    ) -> tuple[SeenProducts, Parts]:
        """Let discriminators look at products of scores; give the private rows too."""
        del plan, public
        moments = ScoreMoments(*self.model.score_moments(position))
        seen = self._seen[position] = SeenProducts(moments)
        return seen, rows.map(self.encode, position).map(seen.encode).kept()

    def descend(self, n_steps: int) -> None:
        """Do nothing: the factors follow from all that was seen at once."""

    def finish(self) -> None:
        """Find the factors of what was seen."""
        own = self.generator.parameters
        for c, seen in self._seen.items():
            own[c]["loadings"] = seen.loadings(self._most_factors)
        most = max(1, *(each["loadings"].shape[1] for each in own))
        for each in own:
            beyond = most - each["loadings"].shape[1]
            each["loadings"] = np.pad(each["loadings"], ((0, 0), (0, beyond)))

    def keep(self, position: int, result: dict[str, NDArray[np.float64]]) -> None:
        """Take back the parameters of a class."""
        own, learnt = self.generator.parameters[position], result.pop("loadings")
        own["loadings"][:, : learnt.shape[1]] = learnt
        own.update(result)

    def close(self, learnt: Sequence[bool], n_rows: Sequence[float]) -> None:
        """Let the classes that learnt nothing borrow from one that did."""
        self.generator.lend(borrowers(learnt, n_rows))


class PairStart:
    """Marginals, pair tables, and a mixture that is fitted to both.

    Classes pay in parallel: a row is in one class.
    """

    def __init__(
        self,
        rows: TableRows,
        facts: TableFacts,
        plans: Sequence[ClassPlan],
        accountant: PrivacyAccountant,
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        counts, prior = facts.classes.counts, facts.classes.prior
        marginals = TableModel.bought(rows, facts, plans, accountant).marginals
        measured = facts.layout.measured
        n_bins = table_bins(plans, len(facts.domains), measured=measured)
        self._bins, marginals = choose_bins(facts.domains, marginals, prior, n_bins)
        self.model = TableModel(facts, marginals)
        ranks = [self._bins.ranks(own) for own in marginals]
        shares = self._shares = [self._bins.shares(own) for own in ranks]
        self._released: dict[int, ReleasedClass] = {}
        self._device = device
        for c, plan in enumerate(plans):
            if not plan.mu_pairs and not plan.n_iter:
                continue
            tables = PairTables.nothing(int(self._bins.starts[-1]), counts[c])
            if plan.mu_pairs:
                tables = buy_pairs(
                    rows.parts_of_class(c),
                    self._bins,
                    shares[c],
                    counts[c],
                    accountant,
                    mu=plan.mu_pairs,
                    scope=facts.classes.scopes[c],
                    target=facts.measured,
                )
            self._released[c] = ReleasedClass(
                tables.n_rows, shares[c], plan.noise_std, *tables[:3], device
            )
        mixtures = [
            Mixture.independent(share, rank)
            for share, rank in zip(shares, ranks, strict=True)
        ]
        self.generator = MixtureGenerator(mixtures, self._bins.starts)
        scores = self._bins.normal_scores(prior @ np.array(shares))
        self._heads = Heads(self._bins.starts, scores, device)
        self._components: dict[int, Components] = {}
        self._fit: Fit | None = None
        if self._released:
            self._fit = Fit(
                list(self._released.values()),
                prior[list(self._released)],
                self._heads,
                more_comes=any(plan.n_groups for plan in plans),
                seed=seed,
                device=device,
            )
            self._take_components()
        self._scores = {
            c: BinScores(mixtures[c], self._bins.starts)
            for c in self._released
            if plans[c].n_iter and not plans[c].n_groups
        }

    def _take_components(self) -> None:
        assert self._fit is not None
        own = self._fit.components()
        self._components = dict(zip(self._released, own, strict=True))
        mixtures = self.generator.mixtures
        for c, components in self._components.items():
            mixtures[c] = components.mixture(self._heads, mixtures[c].ranks)

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

    def see(
        self, position: int, rows: Parts, plan: ClassPlan, public: torch.Generator
    ) -> tuple[SeenCells, Parts]:
        """Let discriminators look at cells; give these, and the private groups."""
        seen = SeenCells(
            self._bins.starts,
            self._bins.groups(self._shares[position], plan.n_groups),
            plan.n_groups,
            self._released[position].n_rows,
            n_rounds=plan.n_iter,
            generator=public,
            device=self._device,
        )
        self._released[position].seen = seen
        return seen, rows.map(self._bins.encode).map(seen.encode).kept()

    def descend(self, n_steps: int) -> None:
        """Fit the generator of all classes further, to all that was released."""
        assert self._fit is not None
        self._fit.descend(n_steps)

    def finish(self) -> None:
        """Take the last steps of the fit."""
        assert self._fit is not None
        self._fit.finish()
        self._take_components()

    def keep(self, position: int, result: Mixture) -> None:
        """Take back the mixture of a class."""
        self.generator.mixtures[position] = result

    def close(self, learnt: Sequence[bool], n_rows: Sequence[float]) -> None:
        """Let the classes that bought and learnt nothing borrow from one that did."""
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
