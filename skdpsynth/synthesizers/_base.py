"""What the synthesizers that train share: one generator per class.

A fit reserves all that training will release, measures, fits an initial model to the
measurements, trains class by class, and collects the generators. The loops are in the
files of the algorithms.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm.auto import tqdm

from skdpsynth.base import BaseSynthesizer
from skdpsynth.exceptions import InvalidSchemaError
from skdpsynth.measure import (
    Allocation,
    Loop,
    Measurements,
    Outline,
    TableModel,
    Training,
    allocate,
    measure,
)
from skdpsynth.privacy import (
    PrivacyAccountant,
    Reservation,
    scope_words,
    secret_generator,
)
from skdpsynth.synthesizers._initial import InitialModel, InitialNetwork, fit_initial
from skdpsynth.synthesizers._marginal import GeneratedSynthesizer
from skdpsynth.table import Metadata, TableRows
from skdpsynth.training import (
    LinearTeachers,
    TeacherEnsemble,
    Trainer,
    clear_products,
    n_products,
    one_thread,
    resolve_device,
)
from skdpsynth.utils import warn_deprecated, without
from skdpsynth.utils.sklearn_compat import Interval, StrOptions

Init = Literal["measured", "random"]
Widths = tuple[tuple[int, ...], tuple[int, ...]]

# What several parameters may be: a number of things, and a size.
_AT_LEAST_ONE = [Interval(Integral, 1, None, closed="left")]
_POSITIVE = [Interval(Real, 0, None, closed="neither")]
ONE_OR_AUTO = [*_AT_LEAST_ONE, StrOptions({"auto"})]

# Of the squared mu of a class that starts from measurements, whose noise rises by 2.6 %
# for its loop: 2-way distances by at most two standard errors (docs/training.md).
TRAINING_SHARE = 0.05
ROUNDS = 10  # of "auto"; they share one mu, and what they say adds up
# Steps of a mixture per round, and the length of one, of logits. At .02 a lost table
# was .019 off, at .05 .008, at .15 .010 (2,000 rows, four fits).
GENERATOR_STEPS, RATE = 10, 0.05
MOST_TEACHERS = 2048  # 4,096 take twice the time, and their votes vary more
_BAR_AFTER = 10.0  # seconds, from which a loop shows its progress
_NAMED = 3  # classes in a note, which has many other words
_FIXED = "It is fixed; leave it out."


def _some(words: list[str]) -> str:
    """List a few, and count the others."""
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return ", ".join(words[:_NAMED]) + more


def teachers_of(n_teachers: int | Literal["auto"], n_rows: float) -> int:
    """Return the teachers of a class: at most half its rows, since one adds nothing.

    "auto": one for 4 rows, at most `MOST_TEACHERS`. More outweigh the noise of what
    they send, but see fewer rows each.
    """
    auto = min(int(n_rows / 4), MOST_TEACHERS)
    wanted = auto if n_teachers == "auto" else int(n_teachers)
    return max(min(wanted, int(n_rows / 2)), 1)


# Parameters of 0.2 that went, of one class or another.
without_those_of_0_2 = without(
    since="0.3",
    removed_in="0.5",
    aggregator="init='measured' sums gradients and init='random' votes.",
    noise_multiplier="Set n_iter: the budget then gives the noise.",
    generator_hidden_dims="Set hidden_dims, which has those of the other networks too.",
    discriminator_learning_rate="Set learning_rate, if there is one; else it is fixed.",
    threshold="Votes are answered without a test; leave it out.",
    verbose="Long training shows a progress bar; leave it out.",
    latent_dim=_FIXED,
    learning_rate=_FIXED,
    n_discriminator_steps=_FIXED,
    n_generator_steps=_FIXED,
    n_teacher_steps=_FIXED,
    student_learning_rate=_FIXED,
    teacher_learning_rate=_FIXED,
)


class ClassRun(NamedTuple):
    """What the loop of one class works with, beside its rows."""

    position: int  # of the class
    n_rows: float  # planned
    training: Training
    reservation: Reservation  # of all releases of the loop
    generator: Trainer
    public: torch.Generator  # of draws that are no secret
    device: torch.device


def make_teachers(
    settings: ClassGAN, run: ClassRun, rows: NDArray[np.float32]
) -> LinearTeachers | TeacherEnsemble:
    """Make the teachers of a class: networks, or linear where something is measured."""
    n_teachers, rng, device = run.training.n_teachers, secret_generator(), run.device
    if not settings._scratch:
        given = rows, n_teachers, run.generator, run.n_rows
        return LinearTeachers(*given, rng=rng, device=device)
    return TeacherEnsemble(
        rows,
        n_teachers,
        n_features=run.generator.n_features,
        hidden_dims=settings._widths[1],
        rng=rng,
        generator=run.public,
        device=device,
    )


class ClassGAN(GeneratedSynthesizer):
    """Base of the synthesizers that train a generator per class.

    A subclass has its paper's values in `_paper`, its loop in `_train`, and what this
    releases in `_plan_training` and `_reserve`.
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
n_teachers : int or "auto", default="auto"
    Teachers of each class, never more than half its planned rows. "auto": one for
    4 rows of the noisy count, at most 2048.
hidden_dims : tuple of two tuples of int
    With ``init="random"``: widths of the hidden layers of the generator's network, and
    of those of its teachers or discriminator, which are linear without any.
random_state : int, RandomState instance or None, default=None
    Seeds initial weights, latent draws and `sample`, never noise, the teachers'
    parts or the rows of a step: two fits differ.
generator_ : MixtureGenerator or FactorGenerator
    The generators of all classes; public.
n_iter_ : int
    Rounds: one number, those of the class with most; 0 where none were run. The report
    names the classes that had none.
n_teachers_ : ndarray of shape (n_classes,), int
    Teachers, one number per class in the order of `classes_`; 0 where it did not train.
"""
    # Of all parameters that any of them has.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSynthesizer._parameter_constraints,
        "init": [StrOptions({"measured", "random", "marginals", "pairs"})],
        "n_iter": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "noise": [StrOptions({"gaussian", "laplace"})],
        "desensitization": [StrOptions({"hybrid", "dpsgd"})],
        "unlabelled_weight": [Interval(Real, 0, 1, closed="left")],
        "projection_dim": _AT_LEAST_ONE,
        "n_bins": [Interval(Integral, 2, None, closed="left")],
        "max_grad_norm": _POSITIVE,
        "weight_clip": _POSITIVE,
        "batch_size": _AT_LEAST_ONE,
        "n_teachers": ONE_OR_AUTO,
        "n_teacher_steps": _AT_LEAST_ONE,
        "n_student_steps": _AT_LEAST_ONE,
        "n_discriminator_steps": _AT_LEAST_ONE,
        "hidden_dims": ["array-like"],
        "learning_rate": _POSITIVE,
        "device": [str, torch.device],
    }

    _adversarial = True
    # Whether tables of pairs go before second moments, which may say more.
    _tables_first: ClassVar[bool] = False
    _network_rate = 1e-3  # length of a step of a generator that is a network

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
    def _widths(self) -> Widths:
        """Those of hidden layers: of the generator, and of what judges it."""
        of_generator, of_judge = self.hidden_dims if self._scratch else ((), ())
        return tuple(of_generator), tuple(of_judge)

    @property
    def _generator_steps(self) -> int:
        """Steps of the generator per round."""
        return 1 if self._scratch else GENERATOR_STEPS

    @property
    def _generator_rate(self) -> float:
        """Length of a step of the generator at first."""
        return self._network_rate if self._scratch else RATE

    @property
    def _units_of_many_rows(self) -> bool:
        most = None if self.schema is None else self.schema.max_rows_per_unit
        return (most or 1) > 1 and self.epsilon < math.inf

    @abstractmethod
    def _plan_training(self, n_iter: int, n_rows: float, mu: float) -> Training:
        """Allocate so many rounds of a class, which has `mu` for them."""

    @abstractmethod
    def _reserve(
        self, training: Training, scope: Hashable, accountant: PrivacyAccountant
    ) -> Reservation:
        """Reserve all that the rounds of a class will release."""

    def _allocate(self, table: Outline, mu: float) -> list[Allocation]:
        share = 1.0 if self._scratch else TRAINING_SHARE

        def training(label: Hashable, n_rows: float, mu: float) -> Training | None:
            if not (n_iter := self._n_rounds(n_rows, table.n_columns, mu)):
                return None
            beside = 0.0 if label is None else self._mu_classifier(table, n_rows, mu)
            of_loop = mu if mu == math.inf else math.sqrt(share * mu**2 - beside**2)
            planned = self._plan_training(n_iter, n_rows, of_loop)
            return replace(planned, mu_classifier=beside)

        loop = Loop(share, self.n_iter not in ("auto", 0), training)
        return allocate(table, mu, tables_first=self._tables_first, loop=loop)

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

    def _mu_classifier(self, table: Outline, n_rows: float, mu: float) -> float:
        """Return what a classifier takes of `mu` beside the discriminator, or 0."""
        del table, n_rows, mu
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
            return InitialNetwork(metadata, self._widths[0])
        measured = measure(rows, metadata, plans, accountant)
        self.measurements_ = measured
        trained = {
            c: clear_products(plan.n_rows, plan.training.mu)
            for c, plan in enumerate(plans)
            if plan.training
        }
        device = resolve_device(self.device)
        return fit_initial(measured, seed=seed, device=device, trained=trained)

    def _fit(
        self,
        rows: TableRows,
        metadata: Metadata,
        plans: list[Allocation],
        accountant: PrivacyAccountant,
        seed: int,
    ) -> TableModel:
        reserved = self._reserve_loops(plans, accountant)
        initial = self._initialise(rows, metadata, plans, accountant, seed)
        public = torch.Generator().manual_seed(seed)
        with self._progress(plans) as progress:
            for run in self._runs(initial, plans, reserved, public):
                encoded = initial.encode(rows.of_class(run.position), run.position)
                for _ in self._train(run, encoded):
                    progress.update()
                initial.keep(run.position, run.generator.result())
        return self._collect(initial, plans)

    def _train(self, run: ClassRun, rows: NDArray[np.float32]) -> Iterator[None]:
        """Train the generator of a class with private rows; yield after each round."""
        raise NotImplementedError

    def _reserve_loops(
        self, plans: Sequence[Allocation], accountant: PrivacyAccountant
    ) -> dict[int, Reservation]:
        """Reserve the whole run, before anything is trained, by place of the class."""
        return {
            c: self._reserve(plan.training, plan.label, accountant)
            for c, plan in enumerate(plans)
            if plan.training
        }

    def _runs(
        self,
        initial: InitialModel,
        plans: Sequence[Allocation],
        reserved: Mapping[int, Reservation],
        public: torch.Generator,
    ) -> Iterator[ClassRun]:
        """Yield what the loop of each class needs."""
        device = resolve_device(self.device)
        for c, reservation in reserved.items():
            training = plans[c].training
            assert training is not None  # something is reserved
            generator = initial.trainer(
                c,
                n_steps=training.n_iter * self._generator_steps,
                learning_rate=self._generator_rate,
                generator=public,
                device=device,
            )
            of_class = plans[c].n_rows, training, reservation, generator
            yield ClassRun(c, *of_class, public, device)

    @contextmanager
    def _progress(self, plans: Sequence[Allocation]) -> Iterator[tqdm[Any]]:
        """Open a bar of all rounds, which shows itself once they take long."""
        total = sum(plan.n_iter for plan in plans)
        name = type(self).__name__.removesuffix("Synthesizer")
        # A generator that starts from measurements takes many small products.
        threads = nullcontext() if self._scratch else one_thread()
        with threads, tqdm(total=total, desc=name, delay=_BAR_AFTER) as progress:
            yield progress

    def _collect(
        self, initial: InitialModel, plans: Sequence[Allocation]
    ) -> TableModel:
        """Set what was trained, and return the marginals."""
        self.generator_ = initial.generator()
        self.n_iter_ = max(plan.n_iter for plan in plans)
        if hasattr(self, "n_teachers"):
            self.n_teachers_ = np.array([plan.n_teachers for plan in plans])
        return initial.model

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
        if teachers := [str(plan.n_teachers) for plan in plans if plan.n_teachers]:
            text += f" (teachers: {_some(teachers)})"
        if none := [scope_words(plan.label) for plan in plans if not plan.n_iter]:
            text += f"; too few rows for the budget: {_some(none)}"
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
