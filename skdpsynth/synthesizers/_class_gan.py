"""What the synthesizers that train share: one generator per class, after a start.

A fit reserves all that training will release, buys the start, trains class by class,
and collects the generators. The loops are in the files of the algorithms.
"""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch

from skdpsynth.base import BaseSynthesizer
from skdpsynth.nn._device import resolve_device
from skdpsynth.preprocessing._pairs import pairs_best, pairs_serve
from skdpsynth.preprocessing._plan import ClassPlan, plan_start
from skdpsynth.preprocessing._shares import CELLS_SHARE, PRODUCT_SHARES
from skdpsynth.synthesizers._generated import GeneratedSynthesizer
from skdpsynth.synthesizers._look_plan import (
    CELL_COLUMNS,
    PRODUCT_COLUMNS,
    cell_groups,
    products_clear,
)
from skdpsynth.synthesizers._start import FactorStart, NetworkStart, PairStart
from skdpsynth.utils.sklearn_compat import Interval, StrOptions

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from tqdm.auto import tqdm

    from skdpsynth.nn._linear_discriminator import LinearDiscriminator
    from skdpsynth.nn._linear_teachers import LinearTeachers
    from skdpsynth.preprocessing._columns import TableRows
    from skdpsynth.preprocessing._purchase import TableFacts
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.privacy._parts import Parts
    from skdpsynth.synthesizers._start import LookingStart, Seen, Start

Init = Literal["pairs", "marginals", "random"]

AT_LEAST_ONE = [Interval(Integral, 1, None, closed="left")]
ONE_OR_AUTO = [*AT_LEAST_ONE, StrOptions({"auto"})]
# Of the strongest factor over the noise: from which one looks, and what is enough.
_VISIBLE, _CLEAR = 1.0, 20.0
POSITIVE = [Interval(Real, 0, None, closed="neither")]


class WholeTable(NamedTuple):
    """What the plan of a class has to know of the whole table; public."""

    form: Init  # what `init` stands for here
    n_continuous: int  # numeric columns whose rows must be found first
    n_discrete: int  # all others
    n_classes: int
    largest: float  # planned rows of the largest class

    def plan_start(self, label: Hashable, n_rows: float, mu: float) -> ClassPlan:
        """Plan the start of one class, which can pay `mu` for it."""
        return plan_start(
            label,
            n_rows,
            self.n_continuous,
            self.n_discrete,
            mu,
            largest=self.largest,
            pairs=self.form == "pairs",
        )

    def starts(self, plan: ClassPlan) -> bool:
        """Tell whether a class has the start of the others, or has to borrow."""
        return self.form != "pairs" or plan.mu_pairs > 0


def see_all(
    start: LookingStart,
    rows: TableRows,
    plans: Sequence[ClassPlan],
    public: torch.Generator,
) -> dict[int, tuple[Seen, Parts]]:
    """Give what linear discriminators see of each class, and its private rows."""
    return {
        c: start.see(c, rows.parts_of_class(c), plan, public)
        for c, plan in enumerate(plans)
        if plan.n_groups
    }


class ClassGAN(GeneratedSynthesizer):
    """Base of the synthesizers that train a generator per class.

    A subclass fills in `_training_share` and `_plan_training`, or `_plan_class` that
    asks them, and trains in `_fit`.
    """

    # Of all parameters that more than one of them may have.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSynthesizer._parameter_constraints,
        "init": [StrOptions({"pairs", "marginals", "random"})],
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

    def _looks(self, form: Init, n_columns: int) -> bool:
        """Tell whether linear discriminators look at something that may stand out."""
        columns = {"pairs": CELL_COLUMNS, "marginals": PRODUCT_COLUMNS, "random": ()}
        return not len(self.hidden_dims) and n_columns in columns[form]

    def _n_groups(self, form: Init, n_rows: float, n_columns: int, mu: float) -> int:
        """Give the groups of a column in cells: 1 for products of two scores.

        0 where linear discriminators do not look, or see nothing beyond the noise.
        """
        if not self._looks(form, n_columns):
            return 0
        heard = mu * self._heard(n_rows)
        if form == "marginals":
            clear = products_clear(n_rows, n_columns, heard) >= _VISIBLE
            return int(clear or self._asked)
        return cell_groups(n_rows, n_columns, heard, asked=self._asked)

    def _look_share(
        self, form: Init, n_rows: float, n_columns: int, mu: float
    ) -> float:
        """Give the share of its squared mu that a class looks with, maybe none."""
        share = CELLS_SHARE
        if form == "marginals":
            seen = products_clear(n_rows, n_columns, mu * self._heard(n_rows))
            least, most = PRODUCT_SHARES
            share = min(max((_CLEAR / max(seen, 1e-9)) ** 2, least), most)
        groups = self._n_groups(form, n_rows, n_columns, mu * math.sqrt(share))
        return share if groups else 0.0

    def _heard(self, n_rows: float) -> float:
        """Give what a row is in a release of a look, in units of its sensitivity."""
        raise NotImplementedError

    def _training_share(
        self, form: Init, n_rows: float, n_columns: int, mu: float
    ) -> float:
        """Give the share of its squared mu that a class trains with, after a start."""
        raise NotImplementedError

    def _plan_training(
        self, form: Init, n_rows: float, n_columns: int, mu: float
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
        rows, columns, form = counts.tolist(), (n_continuous, n_discrete), self.init
        if form == "pairs" and not pairs_serve(rows, sum(columns), mu):
            form = "marginals"
        # Without classes there is none that factors could be a mark of.
        alone = form == "pairs" and tuple(labels) == (None,)
        if alone and not pairs_best(rows[0], sum(columns), mu):
            whole = WholeTable("marginals", *columns, 1, rows[0])
            plan = self._plan_class(None, rows[0], mu, whole)
            if plan.n_groups:
                return [plan]
        whole = WholeTable(form, *columns, len(labels), max(rows))
        plans = [
            self._plan_class(label, n_rows, mu, whole)
            for label, n_rows in zip(labels, rows, strict=True)
        ]
        # Factors that only some classes could pay for were a mark of these.
        linear = form == "marginals" and any(plan.n_groups for plan in plans)
        if linear and not self._asked and not all(plan.n_iter for plan in plans):
            return [whole.plan_start(plan.label, plan.n_rows, mu) for plan in plans]
        return plans

    def _plan_class(
        self, label: Hashable, n_rows: float, mu: float, whole: WholeTable
    ) -> ClassPlan:
        """Plan one class, which can pay `mu`."""
        form, n_columns, share = whole.form, whole.n_continuous + whole.n_discrete, 1.0
        if form != "random":
            share = self._training_share(form, n_rows, n_columns, mu)
        trained = self._plan_training(form, n_rows, n_columns, mu * math.sqrt(share))
        if form == "random":
            return replace(ClassPlan(label, n_rows, 0.0, 0.0, 1), **trained)
        # A class that does not train has all for its start.
        left = 1.0 - share if trained and mu < math.inf else 1.0
        base = whole.plan_start(label, n_rows, mu * math.sqrt(left))
        if trained and self.n_iter == "auto" and not whole.starts(base):
            return whole.plan_start(label, n_rows, mu)
        return replace(base, **trained)

    def _buy_start(
        self,
        rows: TableRows,
        facts: TableFacts,
        plans: Sequence[ClassPlan],
        accountant: PrivacyAccountant,
        *,
        n_factors: int,
        seed: int,
    ) -> Start:
        if self.init == "random" and len(self.generator_hidden_dims):
            return NetworkStart(facts, plans, tuple(self.generator_hidden_dims))
        if any(plan.mu_pairs for plan in plans):
            device = resolve_device(self.device)
            return PairStart(rows, facts, plans, accountant, seed=seed, device=device)
        return FactorStart(
            rows,
            facts,
            plans,
            accountant,
            n_factors=n_factors,
            most_factors=None if self.latent_dim == "auto" else self.latent_dim,
            seed=seed,
        )

    def _follow(
        self,
        start: LookingStart,
        plans: Sequence[ClassPlan],
        looking: Mapping[int, tuple[Seen, LinearDiscriminator | LinearTeachers]],
        n_steps: int,
        progress: tqdm[Any],
    ) -> None:
        """Train the generator of all classes by what linear discriminators release.

        It is the loop of the papers for one that takes one step from zero: its mean
        over the fakes is exact, so one sum over private rows has all that it can say of
        what it looks at. That stays in the loss.
        """
        if not looking:
            return
        for step in range(max(plans[c].n_iter for c in looking)):
            for c, (seen, discriminator) in looking.items():
                if step < plans[c].n_iter:
                    look = seen.next_look()
                    # Real rows: clipped gradients, and noise to their sum.
                    seen.add(look, *discriminator.release(look))
                    progress.update()
            # The discriminator's step is the difference to the fakes at each of these.
            start.descend(n_steps)
        start.finish()

    def _collect(self, start: Start, plans: Sequence[ClassPlan]) -> None:
        """Set the generator, once all classes are trained."""
        start.close([plan.n_iter > 0 for plan in plans], [p.n_rows for p in plans])
        self.generator_ = start.generator
        self.n_iter_ = max(plan.n_iter for plan in plans)

    def _check_parameters(self) -> None:
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
