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
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import torch

from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.measure import (
    NO_STEPS,
    Allocation,
    Form,
    Measurements,
    Training,
    allocate_measurements,
    measure,
    measured_form,
)
from skdpsynth.models import resolve_device
from skdpsynth.synthesizers._generated import GeneratedSynthesizer
from skdpsynth.synthesizers._initial import InitialModel, InitialNetwork, fitted
from skdpsynth.utils import warn_deprecated
from skdpsynth.utils.sklearn_compat import Interval, StrOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.table import Metadata, TableRows

Init = Literal["measured", "marginals", "random"]

# What several parameters may be: a number of things, and a size.
AT_LEAST_ONE = [Interval(Integral, 1, None, closed="left")]
POSITIVE = [Interval(Real, 0, None, closed="neither")]
ONE_OR_AUTO = [*AT_LEAST_ONE, StrOptions({"auto"})]

# What several algorithms train with.
TEACHER_BATCH = 32  # real rows of a teacher's step (A.5 of the G-PATE paper)
NETWORK_DECAY = 3e-3  # of weights at a step of a teacher, where these are many
COHERENCE = 0.25  # nominal norm of a mean of clipped vectors, in clipping norms
AUTO_FACTORS = 4  # of a generator that learns from teachers
SAMPLE_ROWS = 2.0**18  # of a step; more of them say nothing that noise would hide
STEPS_LIMIT = 10**6  # more than any fit takes time for


def at_most_half(n_teachers: int, n_rows: float) -> int:
    """Return so many teachers, but at most half the rows: one has nothing to add."""
    return max(min(n_teachers, int(n_rows / 2)), 1)


def most_that_fits(fits: Callable[[int], bool], limit: int = STEPS_LIMIT) -> int:
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
        """Return whether a class has what the others have, or has to borrow."""
        of_form = {"pairs": plan.pairs.mu, "moments": plan.moments.mu}
        return of_form.get(self.form, 1.0) > 0


class ClassGAN(GeneratedSynthesizer):
    """Base of the synthesizers that train a generator per class.

    A subclass fills in `_training_share` and `_plan_training`, and trains in `_fit`.
    """

    _shared_docs = """\
n_generator_steps : int, default=50
    Steps of the generator per round, at least 1.
generator_hidden_dims : tuple of int, default=()
    With ``init="random"``: widths of the hidden layers of the paper's generator, a
    network of `latent_dim` normal numbers. It needs `n_iter`, thousands as a rule.
hidden_dims : tuple of int, default=()
    Widths of the teachers' hidden layers. Without any they are logistic.
random_state : int, RandomState instance or None, default=None
    Seeds initial weights, latent draws and `sample`, never noise, the teachers'
    parts or the rows of a step: two fits differ.
generator_ : MixtureGenerator or FactorGenerator
    The generators of all classes; public.
n_teachers_ : ndarray of shape (n_classes,), int
    Teachers of each class, 0 where it did not train.
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
    # Whether tables of pairs go before second moments, which may say more.
    _tables_first: ClassVar[bool] = False

    init: Init
    n_iter: int | Literal["auto"]
    noise_multiplier: float | None
    latent_dim: int | Literal["auto"]
    generator_hidden_dims: Sequence[int]
    hidden_dims: Sequence[int]
    device: str | torch.device

    @classmethod
    def as_published(cls, epsilon: float = 1.0, **parameters: Any) -> Self:  # noqa: ANN401
        """Return the synthesizer with the networks, loss and values of its paper.

        Each value stands in the code (`_paper`) beside its place in the paper; where it
        differs, the reason does. Accounting is that of the class.

        Parameters
        ----------
        epsilon : float, default=1.0
            Total epsilon of a fit, in (0, inf].
        **parameters : object
            Any other parameters of the constructor, instead of the paper's.

        Returns
        -------
        object
            A synthesizer of the class, not fitted.
        """
        return cls._published(epsilon, {"epsilon": epsilon, **parameters})

    @classmethod
    def _published(cls, epsilon: float, given: dict[str, Any]) -> Self:
        paper = cls._paper(epsilon)
        if given.get("noise_multiplier") is not None:
            paper["n_iter"] = "auto"  # each of the two says the other
        return cls(**{"init": "random", **paper, **given})

    @staticmethod
    @abstractmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        """Return what the constructor gets by the paper, at this epsilon."""

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
        """Return the share of its squared mu that a class trains with."""

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
            form = measured_form(
                labels, rows, *columns, left, tables_first=self._tables_first
            )
        whole = WholeTable(form, *columns, len(labels), max(rows))
        return [
            self._plan_class(label, n_rows, mu, whole)
            for label, n_rows in zip(labels, rows, strict=True)
        ]

    def _plan_class(
        self, label: Hashable, n_rows: float, mu: float, whole: WholeTable
    ) -> Allocation:
        """Allocate what one class may spend; without training all on measurements."""
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
        """Return what a classifier takes of `mu` beside the discriminator, or 0."""
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
