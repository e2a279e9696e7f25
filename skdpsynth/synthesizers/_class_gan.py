"""What the synthesizers that train share: one generator per class.

A fit reserves all that training will release, measures, fits an initial model to the
measurements, trains class by class, and collects the generators. The loops are in the
files of the algorithms.
"""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch

from skdpsynth.base import BaseSynthesizer
from skdpsynth.nn import resolve_device
from skdpsynth.preprocessing import (
    NO_STEPS,
    ClassPlan,
    Form,
    Measurements,
    measure,
    measured_form,
    plan_start,
)
from skdpsynth.synthesizers._generated import GeneratedSynthesizer
from skdpsynth.synthesizers._start import NetworkStart, fitted
from skdpsynth.utils import warn_deprecated
from skdpsynth.utils.sklearn_compat import Interval, StrOptions

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from skdpsynth.preprocessing import TableFacts, TableRows
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.synthesizers._start import Start

Init = Literal["measured", "marginals", "random"]

AT_LEAST_ONE = [Interval(Integral, 1, None, closed="left")]
ONE_OR_AUTO = [*AT_LEAST_ONE, StrOptions({"auto"})]
POSITIVE = [Interval(Real, 0, None, closed="neither")]


class WholeTable(NamedTuple):
    """What the plan of a class has to know of the whole table; public."""

    form: Form  # what is measured of it
    n_continuous: int  # numeric columns whose rows must be found first
    n_discrete: int  # all others
    n_classes: int
    largest: float  # planned rows of the largest class

    def plan_start(self, label: Hashable, n_rows: float, mu: float) -> ClassPlan:
        """Plan the measurements of one class, which has `mu` for them."""
        return plan_start(
            label,
            n_rows,
            self.n_continuous,
            self.n_discrete,
            mu,
            largest=self.largest,
            form=self.form,
        )

    def starts(self, plan: ClassPlan) -> bool:
        """Tell whether a class has the tables of the others, or has to borrow."""
        return self.form != "pairs" or plan.mu_pairs > 0


class ClassGAN(GeneratedSynthesizer):
    """Base of the synthesizers that train a generator per class.

    A subclass fills in `_training_share` and `_plan_training`, or `_plan_class` that
    asks them, and trains in `_fit`.
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

    def _training_share(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> float:
        """Give the share of its squared mu that a class trains with."""
        raise NotImplementedError

    def _plan_training(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> dict[str, Any]:
        """Plan the training of a class: fields of `ClassPlan`, none for no training."""
        raise NotImplementedError

    def _plan_classes(
        self,
        labels: Sequence[Hashable],
        counts: NDArray[np.float64],
        n_continuous: int,
        n_discrete: int,
        mu: float,
    ) -> list[ClassPlan]:
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
    ) -> ClassPlan:
        """Plan one class, which has `mu` in all."""
        form, n_columns, share = whole.form, whole.n_continuous + whole.n_discrete, 1.0
        if not self._trains:
            return whole.plan_start(label, n_rows, mu)
        if form != "random":
            share = self._training_share(form, n_rows, n_columns, mu)
        trained = self._plan_training(form, n_rows, n_columns, mu * math.sqrt(share))
        if form == "random":
            return replace(whole.plan_start(label, n_rows, mu), **trained)
        # A class that does not train has all for its measurements.
        left = 1.0 - share if trained and mu < math.inf else 1.0
        base = whole.plan_start(label, n_rows, mu * math.sqrt(left))
        if trained and self.n_iter == "auto" and not whole.starts(base):
            return whole.plan_start(label, n_rows, mu)
        return replace(base, **trained)

    def _initial(
        self,
        rows: TableRows,
        facts: TableFacts,
        plans: Sequence[ClassPlan],
        accountant: PrivacyAccountant,
        *,
        n_factors: int,
        seed: int,
    ) -> Start:
        """Measure, and fit the initial model; or begin with a network or nothing."""
        if self.init == "random" and len(self.generator_hidden_dims):
            self.measurements_ = Measurements(())
            return NetworkStart(facts, plans, tuple(self.generator_hidden_dims))
        measured = measure(rows, facts, plans, accountant)
        self.measurements_ = measured.measurements
        return fitted(
            measured,
            plans,
            n_factors=n_factors,
            seed=seed,
            device=resolve_device(self.device),
        )

    def _collect(self, start: Start, plans: Sequence[ClassPlan]) -> None:
        """Set the generator, once all classes are trained."""
        start.close([plan.n_iter > 0 for plan in plans], [p.n_rows for p in plans])
        self.generator_ = start.generator
        self.n_iter_ = max(plan.n_iter for plan in plans)

    def _check_parameters(self) -> None:
        if self.init == "pairs":
            warn_deprecated(
                "init='pairs'",
                since="0.3",
                removed_in="0.5",
                remedy="Use init='measured', which is the same.",
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
