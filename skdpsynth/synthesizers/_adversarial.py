"""What DP-CGAN, DP-GAN and the GAN without privacy have in common.

The papers' loop, with a discriminator per class, whose real rows pass through DP-SGD.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from tqdm.auto import tqdm

from skdpsynth.nn import FAKES, Adam, Discriminator, resolve_device, train_generator
from skdpsynth.preprocessing import DPSGD_SHARES
from skdpsynth.privacy import secret_generator
from skdpsynth.synthesizers._class_gan import ONE_OR_AUTO, ClassGAN
from skdpsynth.synthesizers._dpcgan_plan import (
    StepSettings,
    n_factors,
    plan_training,
    reserve_steps,
    training_share,
)

if TYPE_CHECKING:
    from skdpsynth.nn import Trainer
    from skdpsynth.preprocessing import (
        ClassPlan,
        Form,
        TableFacts,
        TableModel,
        TableRows,
    )
    from skdpsynth.privacy import PrivacyAccountant


class AdversarialSynthesizer(ClassGAN):
    """Base of `DPCGANSynthesizer`, `DPGANSynthesizer` and `GANSynthesizer`.

    They differ in the loss, and in what they bound.
    """

    _most_training_share = DPSGD_SHARES[1]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClassGAN._parameter_constraints,
        "batch_size": ONE_OR_AUTO,
    }

    max_grad_norm: float
    batch_size: int | Literal["auto"]
    n_discriminator_steps: int
    n_generator_steps: int
    learning_rate: float
    discriminator_learning_rate: float

    _loss: ClassVar[Literal["logistic", "wasserstein"]] = "logistic"
    _weight_bound: float = math.inf

    @property
    def _block(self) -> Literal["sampled steps"] | None:  # type: ignore[override]
        # Amplification by sampling pays where the user asks for small batches. "auto"
        # takes whole classes where it can, and a Gaussian release is exact for them.
        return None if self.batch_size == "auto" else "sampled steps"

    def _fit(
        self,
        rows: TableRows,
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
        factors = [self._n_factors(plan, len(facts.columns)) for plan in plans]
        start = self._initial(
            rows, facts, plans, accountant, n_factors=max(factors), seed=seed
        )
        settings: dict[int, dict[str, Any]] = {
            c: {
                "loss": self._loss,
                "max_grad_norm": self.max_grad_norm,
                "expected_batch_size": plans[c].sampling_rate
                * max(plans[c].n_rows, 1.0),
                "reservation": reservation,
                "rng": secret_generator(),
                "device": device,
            }
            for c, reservation in reserved.items()
        }
        total = sum(plan.n_iter for plan in plans)
        name = type(self).__name__.removesuffix("Synthesizer")
        with tqdm(total=total, disable=not self.verbose, desc=name) as progress:
            for c, own in settings.items():
                generator = start.trainer(
                    c,
                    n_factors=factors[c],
                    n_steps=plans[c].n_iter * self.n_generator_steps,
                    learning_rate=self.learning_rate,
                    generator=public,
                    device=device,
                    dtype=torch.float64,
                )
                discriminator = Discriminator(
                    start.encode(rows.of_class(c), c),
                    n_features=generator.n_features,
                    hidden_dims=tuple(self.hidden_dims),
                    learning_rate=self.discriminator_learning_rate,
                    weight_bound=self._weight_bound,
                    generator=public,
                    **own,
                )
                self._train_class(generator, discriminator, plans[c].n_iter, progress)
                start.keep(c, generator.result())
        self._collect(start, plans)
        return start.model

    def _train_class(
        self,
        generator: Trainer,
        discriminator: Discriminator,
        n_iter: int,
        progress: tqdm[Any],
    ) -> None:
        """Train the generator of one class: Algorithm 1 of both papers, by the loss."""
        adam = Adam(momentum=0.5)
        for _ in range(n_iter):  # for iter in [iterations]; for t_1 = 1 ... n_g
            features = generator.features()
            discriminator.renew()
            for _ in range(self.n_discriminator_steps):  # for t_2 = 1 ... n_d
                # Z^t; the label batch L^t is the class, whatever the rows drawn.
                fakes = generator.rows(generator.draw(FAKES))
                # Sample X^t; clip the gradients of real rows; add noise to their sum.
                discriminator.release(features)
                # Add the gradient of the fakes; step; DPGAN clips w to (-c_p, c_p).
                discriminator.follow(fakes, features)
            # gen_loss, its gradient, and ADAM on theta_g.
            train_generator(
                generator, discriminator, features, adam, self.n_generator_steps
            )
            progress.update()

    @property
    def _settings(self) -> StepSettings:
        names = StepSettings._fields
        return StepSettings(**{name: getattr(self, name) for name in names})

    @property
    def _network_needs(self) -> dict[str, bool]:
        return super()._network_needs | {"hidden_dims": len(self.hidden_dims) > 0}

    def _n_factors(self, plan: ClassPlan, n_columns: int) -> int:
        mu = plan.mu_step * math.sqrt(plan.n_iter * plan.n_queries)
        return n_factors(plan.n_rows, n_columns, mu, self.latent_dim)

    def _training_share(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> float:
        del form
        return training_share(n_rows, n_columns, mu, self._settings)

    def _plan_training(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> dict[str, Any]:
        return plan_training(
            n_rows,
            n_columns,
            mu,
            self._settings,
            tail_delta=self._tail_delta,
            optional=form != "random",
        )
