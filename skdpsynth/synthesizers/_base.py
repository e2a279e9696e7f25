"""What the synthesizers that train share: one generator per class.

A fit reserves all that training will release, measures, fits an initial model to the
measurements, trains class by class, and collects the generators. The loops are in the
files of the algorithms.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from numbers import Integral, Real
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    Self,
)

import numpy as np
import torch
from scipy.optimize import nnls

from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.generators import (
    FactorGenerator,
    Followers,
    Mixture,
    MixtureGenerator,
    Tilts,
    factors_above_noise,
)
from skdpsynth.measure import (
    NO_STEPS,
    Allocation,
    Form,
    Measurements,
    PairTables,
    TableModel,
    Training,
    allocate_measurements,
    borrowers,
    choose_bins,
    flat_marginals,
    measure,
    measured_form,
    most_tables,
    with_together,
)
from skdpsynth.models import (
    BinScores,
    Components,
    FactorTrainer,
    Fit,
    Heads,
    MixtureTrainer,
    NetworkTrainer,
    ReleasedClass,
    Together,
    TripleLoss,
    resolve_device,
)
from skdpsynth.synthesizers._generated import GeneratedSynthesizer
from skdpsynth.utils import warn_deprecated
from skdpsynth.utils.sklearn_compat import Interval, StrOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from skdpsynth.generators import Generator
    from skdpsynth.measure import Measured
    from skdpsynth.models import Trainer
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.table import Metadata, PrivateRows, TableRows

    Floats = NDArray[np.float64]

_CELLS = 64  # of a number, where nothing is known of it
_MOST_BINS = 4096


class InitialModel(Protocol):
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
    plans: Sequence[Allocation],
    *,
    n_factors: int = 1,
    seed: int,
    device: torch.device,
) -> InitialMixture | InitialFactors:
    """Fit a generator to measurements: a mixture to tables, factors to moments."""
    if measured.pairs:
        return InitialMixture(measured, plans, seed=seed, device=device)
    return InitialFactors(measured, n_factors, seed)


class InitialFactors:
    """Measured or flat marginals, and factors: of second moments, or not known yet."""

    def __init__(self, measured: Measured, n_factors: int, seed: int) -> None:
        self.model = measured.model
        self._known = set(measured.moments)
        self._trained: tuple[str, ...] = ("loadings",)
        if not any(measured.rounds):
            self._trained += ("location", "log_scale")
        n_classes, n_columns = (
            len(measured.rounds),
            len(measured.model.metadata.columns),
        )
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
        return self.model.score_rows(rows.uniforms, rows.category_codes, position)

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


# The noise of a count of a class without tables of pairs is taken as this share of its
# rows at most, where rows without a label are fitted too: marginals of a class with few
# rows are estimated with those of all classes, so they err by less. On Thyroid with
# 10 % of the labels (validation, 10 seeds) the AUROC of two classifiers was 0.894 with
# it and 0.845 without; at 0.05 it was 0.896, and the shares of bins in the two rare
# classes were further off (0.189 and 0.139; 0.176 and 0.132).
_MOST_ERROR = 0.1


# Part of the doubt that other shares of the classes leave at most, to be taken. Labels
# missing at random: they left 85 % or more (20 fits of Adult and Thyroid); missing to
# 75 % in one class and 90 % in the other: 65 % or less (3 fits of Adult).
_BETTER = 0.8
_SUM = 1e4  # weight of the sum of shares, in noise deviations: as good as exact


def as_a_mixture(shares: Floats, counts: Floats, stds: Floats) -> tuple[Floats, float]:
    """Say how rows without a label are a mixture of the classes, and with what doubt.

    Of shares of bins (n_classes + 1, D), the last those of rows without a label, whose
    counts have noise `stds`. Where labels are missing at random, the shares of the
    classes among these rows are those of `counts`, and their bins differ from such a
    mixture by noise. Where they differ by more, the shares that fit best are taken, if
    they fit much better: labels are missing more often in one class. The doubt is the
    root of the mean squared difference over its variance, of noise and of sampling; at
    least 1. Above 1, the difference is more than noise.
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
    design = np.vstack([(scale * shares[:-1]).T, np.full(len(prior), _SUM)])
    try:
        fitted, _ = nnls(design, np.append(scale * shares[-1], _SUM))
    except RuntimeError:  # it did not converge
        return prior, found
    fitted /= fitted.sum()
    less, _ = doubt(fitted)
    return (fitted, less) if less < _BETTER * found else (prior, found)


class InitialMixture:
    """Measured marginals, and a mixture that is fitted to tables of two and three.

    Rows without a label, the last class if they were measured, are fitted as a mixture
    of the others. All classes are then in one fit, also those without tables.
    """

    def __init__(
        self,
        measured: Measured,
        plans: Sequence[Allocation],
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        self.model, bins = measured.model.labelled, measured.bins
        counts = measured.model.metadata.classes.counts
        prior = self.model.metadata.classes.prior
        shares, joint = measured.shares[: len(prior)], len(plans) > len(prior)
        stds = np.array(measured.noise_stds)
        self._bins, self._parities = bins, measured.parities
        self._n_rows = {c: own.n_rows for c, own in measured.pairs.items()}
        self._released: dict[int, ReleasedClass] = {}
        for c, plan in enumerate(plans[: len(prior)]):
            if c in measured.pairs or plan.n_iter or joint:
                std = stds[c]
                if joint and c not in measured.pairs:
                    std = min(std, _MOST_ERROR * counts[c])
                own = released_class(measured, c, counts[c], std, device)
                if joint and c not in measured.pairs:
                    own.chosen = 0.0
                self._released[c] = own
        mixtures = [
            Mixture.independent(share, rank)
            for share, rank in zip(shares, measured.ranks[: len(prior)], strict=True)
        ]
        followers, relations = None, measured.relations
        if relations is not None:
            within, of_cells = [], []
            if relations.finer is not None:
                within, finer = relations.finer.within, relations.finer.bins
                of_cells = [finer.ranks(own) for own in self.model.marginals]
            followers = Followers(relations.each, relations.std, within, of_cells)
        self.generator = MixtureGenerator(mixtures, bins.starts, followers)
        scores = bins.normal_scores(prior @ np.array(shares))
        self._heads = Heads(bins.starts, scores, device)
        known, together = list(self._released), []
        among, doubt = prior, 1.0
        if joint:
            among, doubt = as_a_mixture(np.array(measured.shares), counts, stds)
        if measured.together is not None:
            weights = np.array([counts[c] * (c in measured.pairs) for c in known])
            if joint:
                weights += counts[-1] * among[known]
            weights /= weights.sum()
            own = ReleasedClass(
                measured.together.n_rows,
                weights @ np.array([shares[c] for c in known]),
                math.inf,  # shares are fitted in each class
                *measured.together[:3],
                None,
                device,
            )
            own.chosen = len(measured.together.pairs) / most_tables(len(bins.sizes))
            together.append(Together(own, weights))
        if joint:  # rows without a label
            place = measured, len(prior), counts[-1], stds[-1]
            together.append(Together(released_class(*place, device, doubt), among))
        fit = Fit(
            list(self._released.values()),
            prior[known],
            self._heads,
            seed=seed,
            device=device,
            together=together,
        )
        self._components: dict[int, Components] = dict(
            zip(self._released, fit.components(), strict=True)
        )
        for c, components in self._components.items():
            mixtures[c] = components.mixture(self._heads, mixtures[c].ranks)
        trained = [c for c in self._released if plans[c].n_iter]
        if measured.together is not None:  # which a class alone is not fitted to
            pairs = with_together(measured.pairs, measured.together)
            measured = replace(measured, pairs=pairs)
            for c in trained:
                own = released_class(measured, c, counts[c], stds[c], device)
                own.with_triples = True
                self._released[c] = own
        self._scores = {c: BinScores(mixtures[c], bins.starts) for c in trained}

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

        Every class keeps its own marginals. Rows are then drawn with the parities that
        were measured.
        """
        known = [own or c in self._released for c, own in enumerate(learnt)]
        mixtures, categories = self.generator.mixtures, self._bins.categories
        for c, lender in borrowers(known, n_rows).items():
            lent = mixtures[lender].lent(mixtures[c], self._bins.starts, categories)
            mixtures[c] = lent
        starts, tilts = self._bins.starts, {}
        for c, parities in self._parities.items():
            made_of = mixtures[c].weights, mixtures[c].probabilities, starts
            if found := Tilts.of(parities, self._n_rows[c], *made_of):
                tilts[c] = found
        self.generator.tilts = tilts
        if self.generator.followers is not None:
            prior = self.model.metadata.classes.prior
            self.generator.followers.compare(mixtures, prior, self._bins.starts)


def released_class(
    measured: Measured,
    c: int,
    n_rows: float,
    share_std: float,
    device: torch.device,
    doubt: float = 1.0,
) -> ReleasedClass:
    """Give what was measured of a class to the fit, its noise times `doubt`."""
    bins = measured.bins
    nothing = PairTables.nothing(int(bins.starts[-1]), n_rows)
    pairs, triples = measured.pairs.get(c, nothing), None
    if c in measured.triples:
        groups, of_three, counts, std = measured.triples[c]
        own = groups, of_three, counts, doubt * std
        triples = TripleLoss(bins.starts, *own, n_rows=pairs.n_rows, device=device)
    released = ReleasedClass(
        pairs.n_rows,
        measured.shares[c],
        doubt * share_std,
        pairs.counts,
        pairs.measured,
        doubt * pairs.noise_std,
        triples,
        device,
    )
    if c in measured.pairs:
        released.chosen = len(pairs.pairs) / most_tables(len(bins.sizes))
    return released


class InitialNetwork:
    """Bins of every column, about as wide, and networks that nobody has trained."""

    def __init__(
        self,
        metadata: Metadata,
        plans: Sequence[Allocation],
        hidden_dims: Sequence[int],
    ) -> None:
        n_cells = max(min(_CELLS, _MOST_BINS // max(len(metadata.domains), 1)), 2)
        flat = flat_marginals(metadata.domains, len(plans), n_cells)
        prior = metadata.classes.prior
        self._bins, flat = choose_bins(metadata.domains, flat, prior, n_cells)
        self._groups = self._bins.coarser()
        self.model = TableModel(metadata, flat)
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
        made_of = self._bins.starts, self._ranks, self._groups, self._hidden_dims
        return NetworkTrainer(*made_of, n_factors=n_factors, **training)

    def keep(self, position: int, result: Mixture) -> None:
        """Take back the generator of a class."""
        self.generator.mixtures[position] = result

    def close(self, learnt: Sequence[bool], n_rows: Sequence[float]) -> None:
        """Do nothing: a class without training stays uniform, and `plan` says so."""


Init = Literal["measured", "marginals", "random"]

AT_LEAST_ONE = [Interval(Integral, 1, None, closed="left")]
ONE_OR_AUTO = [*AT_LEAST_ONE, StrOptions({"auto"})]
POSITIVE = [Interval(Real, 0, None, closed="neither")]


def at_most_half(n_teachers: int, n_rows: float) -> int:
    """Give so many teachers, but each of them two planned rows at least.

    A teacher of one row has nothing to aggregate: its vector is the row's own.
    """
    return max(min(n_teachers, int(n_rows / 2)), 1)


def most_that_fits(fits: Callable[[int], bool], limit: int) -> int:
    """Find the largest number that fits, 0 if 1 does not; about `limit` at most."""
    low, high = 0, 1
    while high < limit and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class WholeTable(NamedTuple):
    """What the plan of a class has to know of the whole table; public."""

    form: Form  # what is measured of it
    n_continuous: int  # numeric columns whose rows must be found first
    n_discrete: int  # all others
    n_classes: int
    largest: float  # planned rows of the largest class

    def allocate(self, label: Hashable, n_rows: float, mu: float) -> Allocation:
        """Plan the measurements of one class, which has `mu` for them."""
        return allocate_measurements(
            label,
            n_rows,
            self.n_continuous,
            self.n_discrete,
            mu,
            largest=self.largest,
            form=self.form,
        )

    def serves(self, plan: Allocation) -> bool:
        """Tell whether a class has the tables of the others, or has to borrow."""
        return self.form != "pairs" or plan.pairs.mu > 0


class ClassGAN(GeneratedSynthesizer):
    """Base of the synthesizers that train a generator per class.

    A subclass fills in `_training_share` and `_plan_training`, and trains in `_fit`.
    """

    # Of all parameters that more than one of them may have.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSynthesizer._parameter_constraints,
        "init": [StrOptions({"measured", "marginals", "random", "pairs"})],
        "n_iter": ONE_OR_AUTO,
        "noise_multiplier": [*POSITIVE, None],
        "max_grad_norm": POSITIVE,
        "batch_size": AT_LEAST_ONE,
        "latent_dim": ONE_OR_AUTO,
        "n_teachers": ONE_OR_AUTO,
        "n_teacher_steps": AT_LEAST_ONE,
        "n_student_steps": AT_LEAST_ONE,
        "n_discriminator_steps": AT_LEAST_ONE,
        "n_generator_steps": AT_LEAST_ONE,
        "generator_hidden_dims": ["array-like"],
        "hidden_dims": ["array-like"],
        "learning_rate": POSITIVE,
        "teacher_learning_rate": POSITIVE,
        "discriminator_learning_rate": POSITIVE,
        "device": [str, torch.device],
    }

    # Of the squared mu of a class: what training takes at most, after measurements.
    _most_training_share: ClassVar[float]

    init: Init
    n_iter: int | Literal["auto"]
    noise_multiplier: float | None
    latent_dim: int | Literal["auto"]
    generator_hidden_dims: Sequence[int]
    hidden_dims: Sequence[int]
    device: str | torch.device

    @classmethod
    def _published(cls, paper: dict[str, Any], given: dict[str, Any]) -> Self:
        """Make one of a paper's values and of those that are given instead."""
        if given.get("noise_multiplier") is not None:
            paper = {**paper, "n_iter": "auto"}  # each of the two says the other
        return cls(**{"init": "random", **paper, **given})

    @property
    def _asked(self) -> bool:
        """Whether training was asked for, be there signal or not."""
        return self.n_iter != "auto" or self.noise_multiplier is not None

    @property
    def _network_needs(self) -> dict[str, bool]:
        """What has to be asked for beside a network, and whether it is."""
        return {"init='random'": self.init == "random", "n_iter": self._asked}

    @property
    def _no_steps(self) -> str:  # type: ignore[override]
        if self.init == "random":
            return "No column was measured, and no adversarial steps were run."
        if not self._asked:
            return NO_STEPS
        return (
            "No adversarial steps were run, though n_iter or noise_multiplier asks for "
            "them: the budget is too small for one, or there is one column only."
        )

    @property
    def _trains(self) -> bool:
        """Whether the loop of the paper may run: "auto" adds nothing to tables."""
        return self._asked or self.init in ("marginals", "random")

    @abstractmethod
    def _training_share(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> float:
        """Give the share of its squared mu that a class trains with."""

    @abstractmethod
    def _plan_training(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> Training | None:
        """Allocate the training of a class; None for no training."""

    def _plan_classes(
        self,
        labels: Sequence[Hashable],
        counts: NDArray[np.float64],
        n_continuous: int,
        n_discrete: int,
        mu: float,
    ) -> list[Allocation]:
        rows, columns = counts.tolist(), (n_continuous, n_discrete)
        form: Form
        if self.init in ("marginals", "random"):
            form = self.init
        else:
            share = self._most_training_share if self._trains else 0.0
            left = mu * math.sqrt(1.0 - share)
            form = measured_form(labels, rows, sum(columns), left)
        whole = WholeTable(form, *columns, len(labels), max(rows))
        return [
            self._plan_class(label, n_rows, mu, whole)
            for label, n_rows in zip(labels, rows, strict=True)
        ]

    def _plan_class(
        self, label: Hashable, n_rows: float, mu: float, whole: WholeTable
    ) -> Allocation:
        """Allocate what one class may spend: `mu` in all, in (0, inf], tails beside.

        A class that does not train has all for its measurements.
        """
        if not self._trains:
            return whole.allocate(label, n_rows, mu)
        form, n_columns, share = whole.form, whole.n_continuous + whole.n_discrete, 1.0
        beside = self._mu_classifier(label, n_rows, mu, whole)
        left = mu if mu == math.inf else math.sqrt(mu**2 - beside**2)
        if form != "random":
            share = self._training_share(form, n_rows, n_columns, left)
        training = self._plan_training(form, n_rows, n_columns, left * math.sqrt(share))
        if training is None:
            return whole.allocate(label, n_rows, mu)
        if mu < math.inf:
            left *= math.sqrt(1.0 - share)
        plan = whole.allocate(label, n_rows, left)
        if self.n_iter == "auto" and not whole.serves(plan):
            return whole.allocate(label, n_rows, mu)
        return replace(plan, training=replace(training, mu_classifier=beside))

    def _mu_classifier(
        self, label: Hashable, n_rows: float, mu: float, whole: WholeTable
    ) -> float:
        """Give what a classifier takes of `mu` beside the discriminator: 0 without."""
        del label, n_rows, mu, whole
        return 0.0

    def _initialise(
        self,
        rows: TableRows,
        metadata: Metadata,
        plans: Sequence[Allocation],
        accountant: PrivacyAccountant,
        *,
        n_factors: int,
        seed: int,
    ) -> InitialModel:
        """Measure, and fit the initial model; or begin with a network or nothing."""
        if self.init == "random" and len(self.generator_hidden_dims):
            self.measurements_ = Measurements(())
            return InitialNetwork(metadata, plans, tuple(self.generator_hidden_dims))
        measured = measure(rows, metadata, plans, accountant)
        self.measurements_ = measured.measurements
        return fitted(
            measured,
            plans,
            n_factors=n_factors,
            seed=seed,
            device=resolve_device(self.device),
        )

    def _collect(self, initial: InitialModel, plans: Sequence[Allocation]) -> None:
        """Set the generator, once all classes are trained."""
        initial.close([plan.n_iter > 0 for plan in plans], [p.n_rows for p in plans])
        self.generator_ = initial.generator
        self.n_iter_ = max(plan.n_iter for plan in plans)

    def _check_parameters(self) -> None:
        if self.init == "pairs":
            warn_deprecated(
                "init='pairs'",
                since="0.3",
                removed_in="0.5",
                remedy="Use init='measured', which is the same.",
            )
        most = None if self.schema is None else self.schema.max_rows_per_unit
        if (most or 1) > 1 and self._trains and self.epsilon < math.inf:
            raise InvalidSchemaError(
                "Adversarial steps protect units of one row only. Expected"
                f" max_rows_per_unit=1, or no such steps. Got {most}; set it to 1, or"
                " leave out what asks for steps (n_iter, noise_multiplier, or an init"
                " other than 'measured')."
            )
        fixed = self.n_iter != "auto" or self.epsilon == math.inf
        if fixed and self.noise_multiplier is not None:
            msg = (
                "epsilon, n_iter and noise_multiplier determine each other, but all "
                "three were given, or a noise_multiplier beside an infinite epsilon, "
                "which is without noise. Leave out n_iter or noise_multiplier."
            )
            raise ValueError(msg)
        for name in ("hidden_dims", "generator_hidden_dims"):
            widths = getattr(self, name)
            if any(not isinstance(w, Integral) or w < 1 for w in widths):
                msg = f"{name} must hold ints >= 1. Got {widths!r} instead."
                raise ValueError(msg)
        missing = [name for name, given in self._network_needs.items() if not given]
        if len(self.generator_hidden_dims) and missing:
            msg = (
                "With generator_hidden_dims a network is trained from nothing, in many "
                f"small steps. Expected {', '.join(missing)} too; give these, or leave "
                "out generator_hidden_dims."
            )
            raise ValueError(msg)
        resolve_device(self.device)
