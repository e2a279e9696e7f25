"""DP-CGAN: a conditional GAN whose discriminator learns by DP-SGD."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch
from tqdm.auto import tqdm

from skdpsynth.measure import DPSGD_SHARES, Training
from skdpsynth.models import Adam, NetworkTrainer, resolve_device
from skdpsynth.privacy import sampled_noise_multiplier, secret_generator, steps_mu
from skdpsynth.synthesizers._base import (
    ONE_OR_AUTO,
    SAMPLE_ROWS,
    ClassGAN,
    most_that_fits,
)
from skdpsynth.training import N_GENERATED, Discriminator, train_generator

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np

    from skdpsynth.measure import Allocation, Form, TableModel
    from skdpsynth.models import Trainer
    from skdpsynth.privacy import PrivacyAccountant, PrivacyBudget, Reservation
    from skdpsynth.schema import TableSchema
    from skdpsynth.synthesizers._base import Init
    from skdpsynth.table import Metadata, TableRows


_LEAST_NOISE = 3.0  # of a step on a sample, in clipping norms: it is cheap there
_MAX_FACTORS = 8  # of "auto", as the docs say
# A class that affords fewer leaves its budget to the marginals; more add little.
_MIN_ROUNDS, _MAX_ROUNDS = 3, 12
_COHERENCE = 0.15  # nominal norm of the mean gradient, in clipping norms
# Of the squared mu of a class that starts from marginals: what training may take. It
# takes no more than the least where a step has this squared signal-to-noise ratio.
_LEAST_SHARE, _MOST_SHARE = DPSGD_SHARES
_CLEAR = 25.0  # squared signal-to-noise ratio of a step


class StepSettings(NamedTuple):
    """The parameters of a synthesizer that a plan of steps reads."""

    latent_dim: int | Literal["auto"]
    n_iter: int | Literal["auto"]
    noise_multiplier: float | None
    batch_size: int | Literal["auto"] = "auto"
    n_discriminator_steps: int = 1


def n_factors(
    n_rows: float, n_columns: int, mu: float, latent_dim: int | Literal["auto"]
) -> int:
    """Return the number of factors that the budget of a class allows, at least 1."""
    if latent_dim != "auto":
        return latent_dim
    most = max(1, min(_MAX_FACTORS, n_columns // 2))
    return max(1, int(min(_rounds(n_rows, n_columns, mu) / _MIN_ROUNDS, most)))


def training_share(
    n_rows: float, n_columns: int, mu: float, settings: StepSettings
) -> float:
    """Return the share of its squared mu, in (0, 1), that a class may train with.

    Marginals matter more than dependence, so training gets little; and a large class
    spends no more than makes the signal of its steps clearly larger than their noise.
    """
    if settings.noise_multiplier is not None or mu == math.inf:
        return _MOST_SHARE
    most = mu * math.sqrt(_MOST_SHARE)
    factors = n_factors(n_rows, n_columns, most, settings.latent_dim)
    rounds = _MAX_ROUNDS if settings.n_iter == "auto" else settings.n_iter
    wanted = _CLEAR * factors * rounds * settings.n_discriminator_steps
    available = _rounds(n_rows, n_columns, mu)
    share = wanted / max(available, wanted)
    return min(max(share, _LEAST_SHARE), _MOST_SHARE)


def plan_training(
    n_rows: float,
    n_columns: int,
    mu: float,
    settings: StepSettings,
    *,
    tail_delta: float,
    optional: bool,
) -> Training | None:
    """Allocate the training of one class; None if it has none.

    `optional`: the class starts from marginals, so that training only adds dependence.
    """
    if n_columns < (2 if optional else 1):
        return None
    latent_dim, n_iter, noise_multiplier, batch_size, n_discriminator_steps = settings
    wanted_rows = SAMPLE_ROWS if batch_size == "auto" else float(batch_size)
    rate = min(1.0, wanted_rows / max(n_rows, 1.0))
    if noise_multiplier is not None:
        std = noise_multiplier
        count = most_that_fits(
            lambda count: steps_mu(std, rate, count, tail_delta) <= mu
        )
        n_iter = count // n_discriminator_steps
    elif n_iter == "auto":
        each = n_factors(n_rows, n_columns, mu, latent_dim) + (0 if optional else 2)
        rounds = _rounds(n_rows, n_columns, mu) / each / n_discriminator_steps
        n_iter = int(min(rounds, _MAX_ROUNDS))
        if n_iter < _MIN_ROUNDS:
            n_iter = 0 if optional else _MIN_ROUNDS
    if n_iter == 0:
        return None
    count = n_iter * n_discriminator_steps
    if noise_multiplier is None and mu < math.inf:
        # More rows instead of less noise: the mean is as good, the accounting better.
        while rate < 1 and steps_mu(_LEAST_NOISE, rate, count, tail_delta) < mu:
            rate = min(1.0, 2.0 * rate)
    noise = sampled_noise_multiplier(mu, rate, count, tail_delta)
    return Training(
        n_iter,
        mu_step=mu / math.sqrt(count),
        noise_std=noise,
        n_queries=n_discriminator_steps,
        sampling_rate=rate,
        n_factors=n_factors(n_rows, n_columns, mu, latent_dim),
    )


def _rounds(n_rows: float, n_columns: int, mu: float) -> float:
    """Return the steps whose signal is above their noise, for one factor."""
    return (_COHERENCE * mu * n_rows) ** 2 / n_columns


def reserve_steps(
    training: Training,
    scope: Hashable,
    accountant: PrivacyAccountant,
    tail_delta: float,
) -> Reservation:
    """Reserve the noisy sums of all steps of a class, with sensitivity C each."""
    return accountant.reserve_sampled_gaussian(
        "discriminator's gradients",
        mu=training.mu_step,
        sampling_rate=training.sampling_rate,
        count=training.n_iter * training.n_queries,
        scope=scope,
        tail_delta=tail_delta,
    )


class AdversarialSynthesizer(ClassGAN):
    """Base of `DPCGANSynthesizer`, `DPGANSynthesizer` and `GANSynthesizer`."""

    _shared_docs = """\
n_iter : int or "auto", default="auto"
    Rounds: `n_discriminator_steps` steps of the discriminator, then
    `n_generator_steps` of the generator. "auto": none with ``init="measured"``,
    whose measurements then have the whole budget; otherwise as many as keep the
    signal of a step above its noise, up to 12. With ``init="marginals"`` a class
    whose budget allows fewer than 3 runs none and keeps it for its marginals.
noise_multiplier : float, optional
    Noise of a step in clipping norms, positive. It fixes the number of rounds, so
    it excludes `n_iter`.
batch_size : int or "auto", default="auto"
    Expected rows of a class's Poisson sample, at least 1; classes with fewer rows
    are taken whole. An int is a floor: where the noise of a step would be below 3
    clipping norms, samples are larger instead. "auto": 2**18, without claiming
    that sampling amplifies privacy, so that smaller classes are accounted exactly.
n_discriminator_steps : int, default=1
    Steps of the discriminator per round, at least 1; each is charged.
n_generator_steps : int, default=40
    Steps of the generator per round, at least 1; they cost no privacy.
latent_dim : int or "auto", default="auto"
    Directions in a row whose products with its scores are the features of
    discriminators, at least 1; of a generator of factors also their number. "auto":
    as many as the budget of a class allows, up to 8; of second moments, as many as
    are above their noise.
generator_hidden_dims : tuple of int, default=()
    With ``init="random"``: widths of the hidden layers of the paper's generator, a
    network of `latent_dim` normal numbers. It needs `n_iter`, thousands as a rule,
    and `hidden_dims`.
hidden_dims : tuple of int, default=()
    Widths of the discriminator's hidden layers. Without any it is linear.
discriminator_learning_rate : float, default=1.0
    Step of the discriminator (plain descent, or Adam with hidden layers), positive.
random_state : int, RandomState instance or None, default=None
    Seeds initial weights, latent draws and `sample`, never noise or the
    samples of real rows: two fits differ.
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
        # Amplification by sampling helps where the user asks for small batches. "auto"
        # takes whole classes where it can, and a Gaussian release is exact for them.
        return None if self.batch_size == "auto" else "sampled steps"

    def _fit(
        self,
        rows: TableRows,
        metadata: Metadata,
        plans: list[Allocation],
        accountant: PrivacyAccountant,
        seed: int,
    ) -> TableModel:
        device = resolve_device(self.device)
        public = torch.Generator().manual_seed(seed)
        scopes = metadata.classes.scopes
        trained = {c: plan.training for c, plan in enumerate(plans) if plan.training}
        # The whole run is reserved before anything is trained.
        reserved = {
            c: reserve_steps(training, scopes[c], accountant, self._tail_delta)
            for c, training in trained.items()
        }
        least = 1 if self.latent_dim == "auto" else self.latent_dim
        most_factors = max([least, *(own.n_factors for own in trained.values())])
        initial = self._initialise(
            rows, metadata, plans, accountant, n_factors=most_factors, seed=seed
        )
        total = sum(plan.n_iter for plan in plans)
        name = type(self).__name__.removesuffix("Synthesizer")
        secret = {c: secret_generator() for c in trained}
        with tqdm(total=total, disable=not self.verbose, desc=name) as progress:
            for c, training in trained.items():
                generator = initial.trainer(
                    c,
                    n_factors=training.n_factors,
                    n_steps=training.n_iter * self.n_generator_steps,
                    learning_rate=self.learning_rate,
                    generator=public,
                    device=device,
                    dtype=torch.float32
                    if len(self.generator_hidden_dims)
                    else torch.float64,
                )
                discriminator = Discriminator(
                    initial.encode(rows.of_class(c), c),
                    n_features=generator.n_features,
                    hidden_dims=tuple(self.hidden_dims),
                    loss=self._loss,
                    learning_rate=self.discriminator_learning_rate,
                    weight_bound=self._weight_bound,
                    max_grad_norm=self.max_grad_norm,
                    expected_batch_size=training.sampling_rate
                    * max(plans[c].n_rows, 1.0),
                    reservation=reserved[c],
                    rng=secret[c],
                    generator=public,
                    device=device,
                )
                self._train_class(generator, discriminator, training.n_iter, progress)
                initial.keep(c, generator.result())
        self._collect(initial, plans)
        return initial.model

    def _train_class(
        self,
        generator: Trainer,
        discriminator: Discriminator,
        n_iter: int,
        progress: tqdm[Any],
    ) -> None:
        """Train the generator of one class: Algorithm 1 of both papers, by the loss."""
        adam, network = Adam(momentum=0.5), isinstance(generator, NetworkTrainer)
        small = network and self.batch_size != "auto"
        n_rows = int(self.batch_size) if small else None
        for done in range(n_iter):  # for iter in [iterations]; for t_1 = 1 ... n_g
            features = generator.features()
            discriminator.renew()
            if network:  # eta falls, to 0 at the end
                discriminator.slow_down(1.0 - done / n_iter)
            for step in range(self.n_discriminator_steps):  # for t_2 = 1 ... n_d
                # Sample X^t; clip the gradients of real rows; add noise to their sum.
                discriminator.release(features)
                if network and step + 1 == self.n_discriminator_steps:
                    break  # `train_generator` steps on the generator's own rows
                # Z^t; the label batch L^t is the class, whatever the rows drawn.
                generated = generator.rows(generator.draw(N_GENERATED))
                # Add the gradient of generated rows; step; DPGAN clips w to (-c_p,
                # c_p).
                discriminator.follow(generated, features)
            # gen_loss, its gradient, and ADAM on theta_g.
            train_generator(
                generator,
                discriminator,
                features,
                adam,
                self.n_generator_steps,
                n_rows,
            )
            progress.update()

    @property
    def _settings(self) -> StepSettings:
        names = StepSettings._fields
        return StepSettings(**{name: getattr(self, name) for name in names})

    @property
    def _network_needs(self) -> dict[str, bool]:
        return super()._network_needs | {"hidden_dims": len(self.hidden_dims) > 0}

    def _training_share(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> float:
        del form
        return training_share(n_rows, n_columns, mu, self._settings)

    def _plan_training(
        self, form: Form, n_rows: float, n_columns: int, mu: float
    ) -> Training | None:
        return plan_training(
            n_rows,
            n_columns,
            mu,
            self._settings,
            tail_delta=self._tail_delta,
            optional=form != "random",
        )


class DPCGANSynthesizer(AdversarialSynthesizer):
    """DP-CGAN for tables.

    A conditional GAN: every class has a generator and a discriminator. The
    discriminator learns by DP-SGD: the gradient of every real row is clipped, and
    their sum is noised. Generators learn from discriminators alone. By default they are
    fitted to the measurements of `MarginalSynthesizer`, and discriminators train them
    only where `n_iter`, `noise_multiplier` or `init` asks for that.

    Parameters
    ----------
    epsilon, delta, target, schema, budget, init, n_iter, noise_multiplier : shared
    max_grad_norm : float, default=0.5
        Clipping norm of a row's gradient, real or fake. Positive.
    batch_size, n_discriminator_steps, n_generator_steps, latent_dim : shared
    generator_hidden_dims, hidden_dims : shared
    learning_rate : float, default=0.03
        Step of the generator (Adam), positive; it falls linearly to 0.
    discriminator_learning_rate, device, random_state, verbose : shared

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
    removing one row. A row enters the discriminator of its class through one term of
    a sum, its own gradient clipped to the norm C, if its own secret draw puts it in
    the sample of a step. So the sum has L2 sensitivity C, and a step is the sampled
    Gaussian mechanism. Synthetic rows are clipped alike, without noise: they depend on
    earlier releases and on public numbers, for their label is the class. The sum is
    divided by a public constant (sampling rate times planned count), and a sample
    without rows is released like any other. Classes are disjoint, have rates of their
    own and compose in parallel. The gradient of each row comes from Opacus; where the
    discriminator has hidden layers, the clipped sum comes from one matrix product per
    layer instead. The noise is floating-point Gaussian noise from the operating
    system's entropy; all other noise is discrete Gaussian. The measurements
    are those of `MarginalSynthesizer`, with its guarantee: E tables of two columns, and
    as well E of three or of finer cells, have L2 sensitivity ``sqrt(E)`` together.
    They, labels, counts, ranges, decimals and categories come out of the same budget.

    Symbols of the paper ([2]_, Algorithm 1): sigma ``noise_multiplier``, C
    ``max_grad_norm``, B ``batch_size``, m = B (each row is clipped alone), eta
    ``discriminator_learning_rate``, iterations ``n_iter``.

    What the papers do and this class does not, since it is not differentially private
    as accounted there: generated rows with the labels of the real batch (``L^t =
    Y^t``), which shows labels without noise; clipping means of several rows (m < B),
    which doubles the sensitivity; shuffled batches of fixed size, accounted as Poisson
    samples; a divisor that is the size of the batch; ranges and class shares taken from
    the data.

    The generator is a mixture: a latent code, and given the code a distribution over
    the bins of each column. It is fitted to the measured tables, which stay in its loss
    while it trains. With ``init="marginals"`` or ``"random"``, and where second moments
    are measured instead of tables, it is normal factors. The discriminator's features
    are the products of each score of a row with directions in the row. Between two
    releases the gradient of the real rows stays what was released, and that of the
    synthetic rows follows the generator. A class whose budget allows neither tables nor
    training takes the dependence of the largest class that has some.

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

    _loss = "logistic"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        target: Hashable = None,
        schema: TableSchema | None = None,
        budget: PrivacyBudget | None = None,
        init: Init = "measured",
        n_iter: int | Literal["auto"] = "auto",
        noise_multiplier: float | None = None,
        max_grad_norm: float = 0.5,
        batch_size: int | Literal["auto"] = "auto",
        n_discriminator_steps: int = 1,
        n_generator_steps: int = 40,
        latent_dim: int | Literal["auto"] = "auto",
        generator_hidden_dims: Sequence[int] = (),
        hidden_dims: Sequence[int] = (),
        learning_rate: float = 0.03,
        discriminator_learning_rate: float = 1.0,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.schema = schema
        self.budget = budget
        self.init = init
        self.n_iter = n_iter
        self.noise_multiplier = noise_multiplier
        self.max_grad_norm = max_grad_norm
        self.batch_size = batch_size
        self.n_discriminator_steps = n_discriminator_steps
        self.n_generator_steps = n_generator_steps
        self.latent_dim = latent_dim
        self.generator_hidden_dims = generator_hidden_dims
        self.hidden_dims = hidden_dims
        self.learning_rate = learning_rate
        self.discriminator_learning_rate = discriminator_learning_rate
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @staticmethod
    def _paper(epsilon: float) -> dict[str, Any]:
        return {
            # Figure 1 of [2]: one hidden layer of 128 each. Bins of columns that depend
            # on each other need two: with one, C2ST on Adult stays at 0.99.
            "generator_hidden_dims": (256, 256),
            "hidden_dims": (128, 128),
            "latent_dim": 64,  # not stated
            "max_grad_norm": 1.1,  # section 3.1: C
            # Section 3.1 (MNIST): 600; section 3.2 (Thyroid): 32. Every row is clipped
            # (m = B), which is sound. sigma is 1.15 there; here the budget decides it.
            "batch_size": 256,
            # Steps per round are one and one (Algorithm 1).
            "n_discriminator_steps": 1,
            "n_generator_steps": 1,
            # Section 3.1: 249 epochs; section 3.2: 50. Here a fixed number of steps,
            # fewer where each of them adds to the noise.
            "n_iter": 4000 if epsilon < math.inf else 8000,
            # Section 3.1: SGD, whose eta falls from 0.15 to 0.052. Algorithm 1: Adam
            # for theta_g, at a rate that is not stated. Here both networks take steps
            # of Adam, at rates that fall from 4e-3 and 1e-3 to 0.
            "discriminator_learning_rate": 1.0,
            "learning_rate": 0.05,
        }
