"""DP-CGAN: a conditional GAN whose discriminator learns by DP-SGD."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from skdpsynth.measure import Training
from skdpsynth.privacy import (
    PrivacyAccountant,
    Reservation,
    sampled_noise_multiplier,
    secret_generator,
    steps_mu,
)
from skdpsynth.synthesizers._base import (
    ONE_OR_AUTO,
    ClassGAN,
    ClassRun,
    Init,
    Widths,
    without_those_of_0_2,
)
from skdpsynth.training import (
    N_GENERATED,
    N_KNOWN,
    SAMPLE_ROWS,
    Discriminator,
    RealMeans,
    move_means,
    train_generator,
)

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


_LEAST_NOISE = 3.0  # of a step on a sample, in clipping norms: it is cheap there


def plan_steps(
    n_iter: int,
    n_rows: float,
    mu: float,
    *,
    batch_size: int | Literal["auto"] = "auto",
    n_steps: int = 1,
    tail_delta: float = 0.0,
) -> Training:
    """Allocate the DP-SGD of one class: `n_steps` in each of the rounds."""
    wanted = SAMPLE_ROWS if batch_size == "auto" else float(batch_size)
    rate, count = min(1.0, wanted / max(n_rows, 1.0)), n_iter * n_steps
    if mu < math.inf:
        # More rows instead of less noise: the mean is as good, the accounting better.
        while rate < 1 and steps_mu(_LEAST_NOISE, rate, count, tail_delta) < mu:
            rate = min(1.0, 2.0 * rate)
    return Training(
        n_iter,
        mu_step=mu / math.sqrt(n_iter),
        noise_std=sampled_noise_multiplier(mu, rate, count, tail_delta),
        n_queries=n_steps,
        sampling_rate=rate,
    )


def reserve_steps(
    training: Training,
    scope: Hashable,
    accountant: PrivacyAccountant,
    tail_delta: float,
) -> Reservation:
    """Reserve the noisy sums of all steps of a class, with sensitivity C each."""
    return accountant.reserve_sampled_gaussian(
        "discriminator's gradients",
        mu=training.mu_step / math.sqrt(training.n_queries),
        sampling_rate=training.sampling_rate,
        count=training.n_iter * training.n_queries,
        scope=scope,
        tail_delta=tail_delta,
    )


def make_discriminator(
    settings: Any,  # noqa: ANN401
    run: ClassRun,
    rows: NDArray[np.float32],
    **options: Any,  # noqa: ANN401
) -> Discriminator:
    """Make the discriminator of a class; `settings` is the synthesizer."""
    return Discriminator(
        rows,
        n_features=run.generator.n_features,
        hidden_dims=settings._widths[1],
        max_grad_norm=settings.max_grad_norm,
        expected_batch_size=run.training.sampling_rate * max(run.n_rows, 1.0),
        reservation=run.reservation,
        rng=secret_generator(),
        generator=run.public,
        device=run.device,
        **options,
    )


class AdversarialSynthesizer(ClassGAN):
    """Base of `DPCGANSynthesizer`, `DPGANSynthesizer` and `GANSynthesizer`."""

    _shared_docs = """\
batch_size : int or "auto", default="auto"
    Expected rows of a class's Poisson sample, at least 1; classes with fewer rows
    are taken whole. An int is a floor: where the noise of a step would be below 3
    clipping norms, samples are larger instead. "auto": 2**18, without claiming
    that sampling amplifies privacy, so that smaller classes are accounted exactly.
n_discriminator_steps : int, default=1
    Steps of the discriminator per round, at least 1; each is charged.
learning_rate : float, default=1.0
    Steps of the discriminator and of the generator, in those of the class; positive.
    They fall linearly to 0.
"""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClassGAN._parameter_constraints,
        "batch_size": ONE_OR_AUTO,
    }

    max_grad_norm: float
    batch_size: int | Literal["auto"]
    n_discriminator_steps: int = 1
    learning_rate: float

    weight_clip: float = math.inf

    _loss: ClassVar[Literal["logistic", "wasserstein"]] = "logistic"
    _share_of_rate = 1.0  # of the discriminator, in the steps of its network

    @property
    def _block(self) -> Literal["sampled steps"] | None:  # type: ignore[override]
        # Amplification by sampling helps where the user asks for small batches. "auto"
        # takes whole classes where it can, and a Gaussian release is exact for them.
        return None if self.batch_size == "auto" else "sampled steps"

    def _train(self, run: ClassRun, rows: NDArray[np.float32]) -> Iterator[None]:
        generator, training, real = run.generator, run.training, RealMeans()
        n_generated = N_GENERATED if self.batch_size == "auto" else int(self.batch_size)
        discriminator = make_discriminator(
            self,
            run,
            rows,
            loss=self._loss,
            learning_rate=self.learning_rate * self._share_of_rate,
            weight_bound=self.weight_clip,
        )
        for done in range(training.n_iter):  # Algorithm 1 of both papers
            discriminator.begin_round(1.0 - done / training.n_iter)
            for step in range(training.n_queries):  # t_2 = 1 ... n_d
                # Sample X^t; clip the gradients of real rows; noise their sum.
                discriminator.release(generator.features)
                # Z^t, whose label is the class; DPGAN clips w.
                if not self._scratch:
                    generated = generator.rows(generator.draw(N_KNOWN))
                    real.add(*discriminator.told(generated, generator.features))
                elif step + 1 < training.n_queries:
                    generated = generator.rows(generator.draw(n_generated))
                    discriminator.follow(generated, generator.features)
            # The last step, then gen_loss, its gradient, and steps on theta_g.
            if self._scratch:
                train_generator(generator, discriminator, n_generated)
            else:
                move_means(generator, real, self._generator_steps)
            yield

    def _reserve(
        self, training: Training, scope: Hashable, accountant: PrivacyAccountant
    ) -> Reservation:
        return reserve_steps(training, scope, accountant, self._tail_delta)

    @property
    def _generator_rate(self) -> float:
        return self.learning_rate * super()._generator_rate

    def _plan_training(self, n_iter: int, n_rows: float, mu: float) -> Training:
        return plan_steps(
            n_iter,
            n_rows,
            mu,
            batch_size=self.batch_size,
            n_steps=self.n_discriminator_steps,
            tail_delta=self._tail_delta,
        )


@without_those_of_0_2
@dataclass(eq=False, repr=False)
class DPCGANSynthesizer(AdversarialSynthesizer):
    """DP-CGAN for tables.

    A conditional GAN: every class has a generator and a discriminator. The
    discriminator learns by DP-SGD: the gradient of every real row is clipped, and their
    sum is noised. Generators learn from discriminators alone, and start from the
    measurements of `MarginalSynthesizer`.

    Parameters
    ----------
    epsilon, delta, target, schema, budget, init, n_iter, batch_size : shared
    max_grad_norm : float, default=0.5
        Clipping norm of a row's gradient, real or fake. Positive.
    learning_rate, hidden_dims, device, random_state : shared

    Attributes
    ----------
    epsilon_, delta_, schema_, classes_, measurements_, generator_, n_iter_ : shared
    n_features_in_, feature_names_in_ : shared

    See Also
    --------
    DPGANSynthesizer : The Wasserstein GAN trained in the same way.
    GANSynthesizer : The same GAN without privacy.
    MarginalSynthesizer : The same measurements, without a discriminator.

    Notes
    -----
    **Privacy guarantee.** ``(epsilon_, delta_)``-differential privacy for adding or
    removing one row. A row enters the discriminator of its class through one term of a
    sum, its own gradient clipped to the norm C, if its own secret draw puts it in the
    sample of a step. So the sum has L2 sensitivity C, and a step is the sampled
    Gaussian mechanism. Synthetic rows are clipped alike, without noise: they depend on
    earlier releases and on public numbers, for their label is the class. The sum is
    divided by a public constant (sampling rate times planned count), and a sample
    without rows is released like any other. Classes are disjoint, have rates of their
    own and compose in parallel. The norm of each row's gradient comes from Opacus. The
    noise is floating-point Gaussian noise from the operating system's entropy; all
    other noise is discrete Gaussian. Measurements, labels, counts, ranges, decimals and
    categories have the guarantee of `MarginalSynthesizer` and come out of the same
    budget.

    Symbols of the paper ([2]_, Algorithm 1): C ``max_grad_norm``, B ``batch_size``, m =
    B (each row is clipped alone), eta ``learning_rate`` times the class's own,
    iterations ``n_iter``. The budget and these decide sigma.

    What the papers do and this class does not, since it is not differentially private
    as accounted there: generated rows with the labels of the real batch (``L^t =
    Y^t``), which shows labels without noise; clipping means of several rows (m < B),
    which doubles the sensitivity; shuffled batches of fixed size, accounted as Poisson
    samples; a divisor that is the size of the batch; ranges and class shares taken from
    the data.

    The generator is that of `MarginalSynthesizer`. Measured tables stay in its loss
    while it trains. The discriminator is linear in products of two columns of a row,
    and learns anew in every round; the generator moves as far as all rounds so far say.
    With ``init="random"`` the discriminator is a network that follows the generator. A
    class whose budget allows neither tables nor training takes the dependence of the
    largest class that has some.

    References
    ----------
    .. [1] Torkzadehmahani, Kairouz, Paten (2019). "DP-CGAN: Differentially Private
       Synthetic Data and Label Generation". CVPR Workshops. :arxiv:`2001.09700`
    .. [2] Silva Carvalho. "Privacy-Preserving Publication of Sensitive Data using
       Differentially Private GANs". Simon Fraser University.

    Examples
    --------
    >>> from skdpsynth import DPCGANSynthesizer
    >>> from skdpsynth.datasets import load_thyroid
    >>> synth = DPCGANSynthesizer(epsilon=3.0, target="class", random_state=0)
    >>> synth.fit(load_thyroid()).sample(5).shape
    (5, 22)
    """

    init: Init = "measured"
    n_iter: int | Literal["auto"] = "auto"
    batch_size: int | Literal["auto"] = "auto"
    max_grad_norm: float = 0.5
    learning_rate: float = 1.0
    hidden_dims: Widths = ((256, 256), (128, 128))
    device: str | torch.device = "auto"
    random_state: int | np.random.RandomState | None = None

    @staticmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        return {
            # Figure 1 of [2]: one hidden layer of 128 each. Bins of columns that depend
            # on each other need two: with one, C2ST on Adult stays at 0.99.
            "hidden_dims": ((256, 256), (128, 128)),
            "max_grad_norm": 1.1,  # section 3.1: C
            # Section 3.1 (MNIST): 600; section 3.2 (Thyroid): 32. Every row is clipped
            # (m = B), which is sound. sigma is 1.15 there; here the budget decides it.
            "batch_size": 256,
            # Section 3.1: 249 epochs; section 3.2: 50. Here a fixed number of steps,
            # fewer where each of them adds to the noise.
            "n_iter": 4000 if epsilon < math.inf else 8000,
            # Section 3.1: SGD, whose eta falls from 0.15 to 0.052. Algorithm 1: Adam
            # for theta_g, at a rate that is not stated. Here both networks take steps
            # of Adam, at rates that fall from 4e-3 and 1e-3 to 0.
            "learning_rate": 1.0,
        }
