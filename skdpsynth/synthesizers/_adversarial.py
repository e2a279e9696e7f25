"""What the GANs with one generator and one discriminator per class share.

The paper's loop is in the file of each algorithm. Here is what surrounds it: plans,
reservations, the start from marginals, and what is saved.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from tqdm.auto import tqdm

from skdpsynth.base import BaseSynthesizer
from skdpsynth.nn._device import resolve_device
from skdpsynth.nn._discriminator import Discriminator, PreciseStudent
from skdpsynth.nn._generator import FactorGenerator
from skdpsynth.preprocessing._marginals import buy_marginals, flat_marginals
from skdpsynth.preprocessing._model import TableModel
from skdpsynth.preprocessing._plan import ClassPlan, plan_start
from skdpsynth.privacy._random import secret_generator
from skdpsynth.synthesizers._dpcgan_plan import (
    n_factors,
    plan_training,
    reserve_steps,
    training_share,
)
from skdpsynth.synthesizers._generated import GeneratedSynthesizer
from skdpsynth.utils._sklearn_compat import Interval, StrOptions

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from skdpsynth.nn._generator import Student
    from skdpsynth.preprocessing._columns import PrivateRows
    from skdpsynth.preprocessing._purchase import TableFacts
    from skdpsynth.privacy import PrivacyAccountant

__all__ = ["AdversarialSynthesizer"]

_TRAINED = {
    "marginals": ("loadings",),
    "random": ("loadings", "location", "log_scale"),
}


class AdversarialSynthesizer(GeneratedSynthesizer):
    """Base of `DPCGANSynthesizer`, `DPGANSynthesizer` and `GANSynthesizer`.

    A subclass names its loss and fills in ``_train_class``.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSynthesizer._parameter_constraints,
        "init": [StrOptions({"marginals", "random"})],
        "n_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "noise_multiplier": [Interval(Real, 0, None, closed="neither"), None],
        "max_grad_norm": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "n_discriminator_steps": [Interval(Integral, 1, None, closed="left")],
        "n_generator_steps": [Interval(Integral, 1, None, closed="left")],
        "latent_dim": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "hidden_dims": ["array-like"],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "discriminator_learning_rate": [Interval(Real, 0, None, closed="neither")],
        "device": [str, torch.device],
    }

    init: Literal["marginals", "random"]
    n_iter: int | Literal["auto"]
    noise_multiplier: float | None
    max_grad_norm: float
    batch_size: int | Literal["auto"]
    n_discriminator_steps: int
    n_generator_steps: int
    latent_dim: int | Literal["auto"]
    hidden_dims: Sequence[int]
    learning_rate: float
    discriminator_learning_rate: float
    device: str | torch.device

    _loss: ClassVar[Literal["logistic", "wasserstein"]] = "logistic"
    _weight_bound: float = math.inf

    @property
    def _block(self) -> Literal["sampled steps"] | None:  # type: ignore[override]
        # Amplification by sampling pays where the user asks for small batches. "auto"
        # takes whole classes where it can, and a Gaussian release is exact for them.
        return None if self.batch_size == "auto" else "sampled steps"

    @abstractmethod
    def _train_class(
        self,
        student: Student,
        discriminator: Discriminator,
        rounds: Iterator[int],
    ) -> None:
        """Train the generator of one class against its discriminator: the loop."""

    def _fit(
        self,
        rows: PrivateRows,
        facts: TableFacts,
        plans: list[ClassPlan],
        accountant: PrivacyAccountant,
        seed: int,
    ) -> TableModel:
        device = resolve_device(self.device)
        public = torch.Generator().manual_seed(seed)
        scopes = facts.classes.scopes
        # The whole run is reserved before anything is trained.
        reserved = {
            c: reserve_steps(plan, scopes[c], accountant, self._tail_delta)
            for c, plan in enumerate(plans)
            if plan.n_iter
        }
        bought = (
            buy_marginals(
                rows,
                list(facts.axes),
                facts.classes,
                accountant,
                mus=np.array([plan.mu_marginals for plan in plans]),
            )
            if self.init == "marginals"
            else flat_marginals(list(facts.axes), len(plans))
        )
        model = TableModel(facts, bought)
        n_columns = len(facts.columns)
        factors = [self._n_factors(plan, n_columns) for plan in plans]
        generator = FactorGenerator.initial(len(plans), n_columns, max(factors), seed)
        total = sum(plan.n_iter for plan in plans)
        name = type(self).__name__.removesuffix("Synthesizer")
        with tqdm(total=total, disable=not self.verbose, desc=name) as progress:
            for c, parameters in enumerate(generator.parameters):
                plan = plans[c]
                # Beyond the factors that a class can pay for there are none.
                parameters["loadings"][:, factors[c] if plan.n_iter else 0 :] = 0.0
                if not plan.n_iter:  # nothing is learnt here
                    continue
                own = parameters | {"loadings": parameters["loadings"][:, : factors[c]]}
                student = PreciseStudent(
                    own,
                    _TRAINED[self.init],
                    n_steps=plan.n_iter * self.n_generator_steps,
                    learning_rate=self.learning_rate,
                    generator=public,
                    device=device,
                )
                of_class = rows.of_class(c)
                discriminator = Discriminator(
                    model.score_rows(of_class.units, of_class.codes, c),
                    n_features=student.n_features,
                    hidden_dims=tuple(self.hidden_dims),
                    loss=self._loss,
                    learning_rate=self.discriminator_learning_rate,
                    weight_bound=self._weight_bound,
                    max_grad_norm=self.max_grad_norm,
                    expected_batch_size=plan.sampling_rate * max(plan.n_rows, 1.0),
                    reservation=reserved[c],
                    rng=secret_generator(),
                    generator=public,
                    device=device,
                )

                def rounds(n_iter: int = plan.n_iter) -> Iterator[int]:
                    for step in range(n_iter):
                        yield step
                        progress.update()

                self._train_class(student, discriminator, rounds())
                learnt = student.result()
                parameters["loadings"][:, : factors[c]] = learnt.pop("loadings")
                parameters.update(learnt)
        trained = [plan.n_iter > 0 for plan in plans]
        generator.lend_loadings(trained, [plan.n_rows for plan in plans])
        self.generator_ = generator
        self.n_iter_ = max(plan.n_iter for plan in plans)
        return model

    def _n_factors(self, plan: ClassPlan, n_columns: int) -> int:
        mu = plan.mu_step * math.sqrt(plan.n_iter * plan.n_queries)
        return n_factors(plan.n_rows, n_columns, mu, self.latent_dim)

    def _plan_classes(
        self,
        labels: Sequence[Hashable],
        counts: NDArray[np.float64],
        n_wide: int,
        n_others: int,
        mu: float,
    ) -> list[ClassPlan]:
        from_marginals = self.init == "marginals"
        plans = []
        for label, count in zip(labels, counts, strict=True):
            share = 1.0
            if from_marginals:
                share = training_share(
                    float(count),
                    n_wide + n_others,
                    mu,
                    latent_dim=self.latent_dim,
                    n_discriminator_steps=self.n_discriminator_steps,
                    n_iter=self.n_iter,
                    noise_multiplier=self.noise_multiplier,
                )
            trained = plan_training(
                float(count),
                n_wide + n_others,
                mu * math.sqrt(share),
                tail_delta=self._tail_delta,
                optional=from_marginals,
                latent_dim=self.latent_dim,
                batch_size=self.batch_size,
                n_discriminator_steps=self.n_discriminator_steps,
                n_iter=self.n_iter,
                noise_multiplier=self.noise_multiplier,
            )
            base = ClassPlan(label, float(count), 0.0, 0.0, 1)
            if from_marginals:
                # A class that does not train has all for its marginals.
                left = 1.0 - share if trained and mu < math.inf else 1.0
                base = plan_start(
                    label,
                    float(count),
                    n_wide,
                    n_others,
                    mu * math.sqrt(left),
                    largest=float(np.max(counts)),
                )
            plans.append(replace(base, **trained))
        return plans

    def _check_parameters(self) -> None:
        fixed = self.n_iter != "auto" or self.epsilon == math.inf
        if fixed and self.noise_multiplier is not None:
            msg = (
                "epsilon, n_iter and noise_multiplier determine each other, but all "
                "three were given (or no noise was asked for by an infinite epsilon). "
                "Leave out n_iter or noise_multiplier."
            )
            raise ValueError(msg)
        if any(not isinstance(w, Integral) or w < 1 for w in self.hidden_dims):
            msg = f"hidden_dims must hold ints >= 1. Got {self.hidden_dims!r} instead."
            raise ValueError(msg)
        resolve_device(self.device)
