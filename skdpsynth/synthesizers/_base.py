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
from tqdm.auto import tqdm

from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.measure import (
    Allocation,
    Form,
    Measurements,
    Training,
    allocate_measurements,
    measure,
    measured_form,
)
from skdpsynth.models import clear_products, n_products, resolve_device
from skdpsynth.synthesizers._generated import GeneratedSynthesizer
from skdpsynth.synthesizers._initial import InitialModel, InitialNetwork, fitted
from skdpsynth.utils import warn_deprecated
from skdpsynth.utils.sklearn_compat import Interval, StrOptions

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.table import Metadata, TableRows

Init = Literal["measured", "random"]
Widths = tuple[tuple[int, ...], tuple[int, ...]]

# What several parameters may be: a number of things, and a size.
AT_LEAST_ONE = [Interval(Integral, 1, None, closed="left")]
POSITIVE = [Interval(Real, 0, None, closed="neither")]
ONE_OR_AUTO = [*AT_LEAST_ONE, StrOptions({"auto"})]

# Of the squared mu of a class that starts from measurements: what its loop takes. The
# rest is for the measurements, and all of it if the class does not train.
TRAINING_SHARE = 0.05
ROUNDS = 10  # of "auto"
# What several algorithms train with.
# Steps of a mixture per round, and the length of one, of logits.
GENERATOR_STEPS, RATE = 10, 0.05
MOST_TEACHERS = 2048  # 4,096 take twice the time, and their votes vary more
NETWORK_RATE = 1e-3  # length of a step of a generator that is a network
_BAR_AFTER = 10.0  # seconds, from which a loop shows its progress


def teachers_of(n_teachers: int | Literal["auto"], n_rows: float) -> int:
    """Return the teachers of a class: at most half its rows, since one adds nothing.

    "auto": one for 4 rows, at most `MOST_TEACHERS`. More outweigh the noise of what
    they send, but see fewer rows each.
    """
    auto = min(int(n_rows / 4), MOST_TEACHERS)
    wanted = auto if n_teachers == "auto" else int(n_teachers)
    return max(min(wanted, int(n_rows / 2)), 1)


def progress_of(plans: Sequence[Allocation], name: str) -> tqdm[Any]:
    """Return a bar of all rounds, which shows itself once they take long."""
    total = sum(plan.n_iter for plan in plans)
    return tqdm(total=total, desc=name, delay=_BAR_AFTER)


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
        """Return whether a class has a dependence of its own, or has to borrow."""
        if self.form == "random":
            return True
        return (plan.pairs.mu if self.form == "pairs" else plan.moments.mu) > 0


class ClassGAN(GeneratedSynthesizer):
    """Base of the synthesizers that train a generator per class.

    A subclass fills in `_plan_training` and `_paper`, and trains in `_fit`.
    """

    _shared_docs = """\
init : {"measured", "random"}, default="measured"
    Initial generator. "measured": fitted to all that the budget allows to measure, as
    in `MarginalSynthesizer`. "random": the untrained network of the paper, which learns
    everything by the loop; only metadata is measured.
n_iter : int or "auto", default="auto"
    Rounds, at least 0. "auto": 10 of every class with enough rows for the budget
    (1,000 of 14 columns at epsilon 1), which take a twentieth of its squared mu, and
    none of the others; none where `max_rows_per_unit` is above 1. With
    ``init="random"`` as many as `as_published` has, at the whole budget.
hidden_dims : tuple of two tuples of int
    With ``init="random"``: widths of the hidden layers of the generator's network, and
    of those of its teachers or discriminator, which are linear without any.
random_state : int, RandomState instance or None, default=None
    Seeds initial weights, latent draws and `sample`, never noise, the teachers'
    parts or the rows of a step: two fits differ.
generator_ : MixtureGenerator or FactorGenerator
    The generators of all classes; public.
n_iter_ : int
    Rounds: those of the class with most; 0 where none were run. The report says how
    many classes had some.
n_teachers_ : ndarray of shape (n_classes,), int
    Teachers of each class, 0 where it did not train.
"""
    # Of all parameters that more than one of them may have.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSynthesizer._parameter_constraints,
        "init": [StrOptions({"measured", "random", "marginals", "pairs"})],
        "n_iter": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "max_grad_norm": POSITIVE,
        "batch_size": AT_LEAST_ONE,
        "n_teachers": ONE_OR_AUTO,
        "n_teacher_steps": AT_LEAST_ONE,
        "n_student_steps": AT_LEAST_ONE,
        "n_discriminator_steps": AT_LEAST_ONE,
        "hidden_dims": ["array-like"],
        "learning_rate": POSITIVE,
        "device": [str, torch.device],
    }

    _adversarial = True
    # Whether tables of pairs go before second moments, which may say more.
    _tables_first: ClassVar[bool] = False

    init: Init
    n_iter: int | Literal["auto"]
    hidden_dims: Widths
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
        given = {"epsilon": epsilon, "init": "random", **cls._paper(epsilon)}
        return cls(**given | parameters)

    @staticmethod
    @abstractmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        """Return what the constructor gets by the paper, at this epsilon."""

    @property
    def _scratch(self) -> bool:
        """Whether networks learn everything by the loop."""
        return self.init == "random"

    @property
    def _units_of_many_rows(self) -> bool:
        most = None if self.schema is None else self.schema.max_rows_per_unit
        return (most or 1) > 1 and self.epsilon < math.inf

    @abstractmethod
    def _plan_training(self, n_iter: int, n_rows: float, mu: float) -> Training:
        """Allocate so many rounds of a class, which has `mu` for them."""

    def _plan_classes(
        self,
        labels: Sequence[Hashable],
        counts: NDArray[np.float64],
        n_continuous: int,
        n_discrete: int,
        mu: float,
    ) -> list[Allocation]:
        rows, columns = counts.tolist(), (n_continuous, n_discrete)
        form: Form = "random"
        if not self._scratch:
            # "auto" costs no class its tables; a number of rounds is taken at its word.
            asked = self.n_iter not in ("auto", 0) and mu < math.inf
            left = mu * math.sqrt(1.0 - TRAINING_SHARE) if asked else mu
            first = self._tables_first
            form = measured_form(labels, rows, *columns, left, tables_first=first)
        whole = WholeTable(form, *columns, len(labels), max(rows))
        return [
            self._plan_class(label, n_rows, mu, whole)
            for label, n_rows in zip(labels, rows, strict=True)
        ]

    def _plan_class(
        self, label: Hashable, n_rows: float, mu: float, whole: WholeTable
    ) -> Allocation:
        """Allocate what one class may spend; without training all on measurements."""
        n_iter = self._n_rounds(n_rows, whole.n_continuous + whole.n_discrete, mu)
        share = 1.0 if self._scratch else TRAINING_SHARE
        left = mu if mu == math.inf else mu * math.sqrt(1.0 - share)
        plan = whole.allocate(label, n_rows, left)
        if not n_iter or not whole.serves(plan):
            return whole.allocate(label, n_rows, mu)
        beside, left = self._mu_classifier(label, n_rows, mu, whole), mu
        if mu < math.inf:
            left = math.sqrt(share * mu**2 - beside**2)
        training = self._plan_training(n_iter, n_rows, left)
        return replace(plan, training=replace(training, mu_classifier=beside))

    def _n_rounds(self, n_rows: float, n_columns: int, mu: float) -> int:
        """Return the rounds of a class that has `mu` in all, if it is to train."""
        if self.n_iter != "auto":
            return int(self.n_iter)
        if self._scratch:
            return int(self._paper(self.epsilon)["n_iter"])
        wanted = n_products(n_columns)
        clear = clear_products(n_rows, mu * math.sqrt(TRAINING_SHARE))
        few = n_columns < 2 or clear < wanted
        return 0 if few or self._units_of_many_rows else ROUNDS

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
        seed: int,
    ) -> InitialModel:
        """Measure, and fit the initial model; or begin with networks."""
        if self._scratch:
            self.measurements_ = Measurements(metadata)
            return InitialNetwork(metadata, tuple(self.hidden_dims[0]))
        measured = measure(rows, metadata, plans, accountant)
        self.measurements_ = measured
        trained = {
            c: clear_products(plan.n_rows, plan.training.mu)
            for c, plan in enumerate(plans)
            if plan.training
        }
        device = resolve_device(self.device)
        return fitted(measured, seed=seed, device=device, trained=trained)

    def _collect(self, initial: InitialModel, plans: Sequence[Allocation]) -> None:
        """Set the generator, once all classes are trained."""
        initial.close()
        self.generator_ = initial.generator
        self.n_iter_ = max(plan.n_iter for plan in plans)

    def _remarks(self, plans: Sequence[Allocation]) -> list[str]:
        """Return what the report says was run of the loop."""
        rounds = [plan.n_iter for plan in plans]
        if not any(rounds):
            reason = "there are too few rows for the budget, or one column only"
            if self.n_iter == 0:
                reason = "n_iter is 0"
            elif self._units_of_many_rows:
                reason = "steps protect units of one row only"
            return [f"No adversarial steps were run: {reason}."]
        ran, text = sum(n > 0 for n in rounds), f"{max(rounds)} rounds"
        if len(rounds) > 1:
            text += f" in {ran} of {len(rounds)} classes"
        if ran < len(rounds):
            text += "; the others have too few rows for the budget"
        return [f"Adversarial steps were run: {text}."]

    def _check_parameters(self) -> None:
        if self.init in ("pairs", "marginals"):
            warn_deprecated(
                f"init={self.init!r}",
                since="0.3",
                removed_in="0.5",
                remedy="Use init='measured', which starts from the same and more.",
            )
        asked = self.n_iter not in ("auto", 0) or self._scratch
        if asked and self._units_of_many_rows:
            assert self.schema is not None
            raise InvalidSchemaError(
                "Adversarial steps protect units of one row only. Expected"
                " max_rows_per_unit=1, or no such steps. Got"
                f" {self.schema.max_rows_per_unit}; set it to 1, or leave out what asks"
                " for steps (n_iter, or init='random')."
            )
        try:
            networks = [tuple(widths) for widths in self.hidden_dims]
        except TypeError:
            networks = []
        widths = [w for network in networks for w in network]
        if len(networks) != 2 or any(
            not isinstance(w, Integral) or w < 1 for w in widths
        ):
            raise ValueError(
                "hidden_dims must hold two tuples of ints >= 1: the widths of the"
                " generator's hidden layers, and of those of what judges it. Got"
                f" {self.hidden_dims!r} instead."
            )
        resolve_device(self.device)
