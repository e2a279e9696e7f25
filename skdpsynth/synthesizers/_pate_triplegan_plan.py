"""How PATE-TripleGAN divides what a class can pay, from public numbers alone.

Discriminators are planned as those of PATE-GAN (by votes) or of DP-CGAN (by DP-SGD);
here is what the classifier costs, and what unlabelled rows pay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from skdpsynth.preprocessing import (
    CLASSIFIER_SHARE,
    PSEUDO_LABELS_SHARE,
    TRIPLE_SHARES,
    ClassPlan,
)
from skdpsynth.privacy import UNLABELLED
from skdpsynth.synthesizers import _dpcgan_plan, _pategan_plan
from skdpsynth.synthesizers._dpcgan_plan import StepSettings

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from skdpsynth.privacy import PrivacyAccountant, Reservation
    from skdpsynth.synthesizers._class_gan import WholeTable

CLASSIFIER_STEPS = 4
_CLEAR = 3.0  # the share of training is the least whose signal is so far above noise
_AUTO_FACTORS = 4  # of a generator that learns from votes
_COHERENCE = 0.25  # nominal norm of the mean gradient, in clipping norms
_SAMPLE_ROWS = 2.0**18  # more of them say nothing that noise would hide


@dataclass(frozen=True)
class TripleSettings:
    """The parameters of a `PATETripleGANSynthesizer` that plans and players read."""

    desensitization: Literal["hybrid", "dpsgd"]
    init: Literal["measured", "marginals", "random"]
    unlabelled_weight: float
    n_teachers: int | Literal["auto"]
    n_iter: int | Literal["auto"]
    batch_size: int
    noise_multiplier: float | None
    max_grad_norm: float
    latent_dim: int | Literal["auto"]
    hidden_dims: Sequence[int]
    learning_rate: float
    n_teacher_steps: int
    n_student_steps: int
    n_generator_steps: int
    teacher_learning_rate: float
    discriminator_learning_rate: float

    @classmethod
    def of(cls, synthesizer: object) -> Self:
        """Read them off a synthesizer."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: getattr(synthesizer, name) for name in names})

    @property
    def of_steps(self) -> StepSettings:
        """Those that a plan of DP-SGD reads."""
        return StepSettings(self.latent_dim, self.n_iter, self.noise_multiplier)


@dataclass(frozen=True)
class TriplePlan(ClassPlan):
    """What one class pays for, with its part in the classifier.

    `mu_classifier` is of all steps together; 0 if the class takes no part.
    """

    mu_classifier: float = 0.0
    n_factors: int = 1


def sampling_rate(n_rows: float) -> float:
    """Give the probability of a row to be in a step, from a planned or noisy count."""
    return min(1.0, _SAMPLE_ROWS / max(n_rows, 1.0))


def classifier_mu(n_rows: float, n_weights: int, mu: float) -> float:
    """Say what a class that has `mu` in all pays for the classifier.

    No more than a signal well above the noise of a step takes. 0 where the noise would
    be above the signal; generated rows then stand for the class.
    """
    most = mu * math.sqrt(CLASSIFIER_SHARE)
    if mu == math.inf:
        return most
    least = math.sqrt(CLASSIFIER_STEPS * n_weights) / (_COHERENCE * max(n_rows, 1.0))
    return min(_CLEAR * least, most) if least <= most else 0.0


def plan_class(
    label: Hashable,
    n_rows: float,
    mu: float,
    whole: WholeTable,
    settings: TripleSettings,
    tail_delta: float,
) -> TriplePlan:
    """Plan one class, which can pay `mu` in all, in (0, inf], and tails beside.

    A class whose discriminator does not train has all for its start.
    """
    asked = settings.n_iter != "auto" or settings.noise_multiplier is not None
    if settings.init not in ("marginals", "random") and not asked:
        return TriplePlan(**vars(whole.plan_start(label, n_rows, mu)))
    n_columns, started = whole.n_continuous + whole.n_discrete, whole.form != "random"
    # Without a label there is nothing to classify.
    n_labels = 0 if label is None else whole.n_classes
    n_features = 1 + (n_labels if started else 2 * n_columns)
    spent = classifier_mu(n_rows, n_labels * n_features, mu) if n_labels else 0.0
    left = mu if mu == math.inf else math.sqrt(mu**2 - spent**2)
    share = 1.0
    if started:
        share = _training_share(settings, n_rows, n_columns, left, tail_delta)
    trained = _plan_training(
        settings, n_rows, n_columns, left * math.sqrt(share), tail_delta
    )
    if not trained:
        spent, left, share = 0.0, mu, 0.0
    base = ClassPlan(label, n_rows, 0.0, 0.0, 1)
    if started:
        if mu < math.inf:
            left *= math.sqrt(1.0 - share)
        base = whole.plan_start(label, n_rows, left)
        if trained and settings.n_iter == "auto" and not whole.starts(base):
            spent, trained = 0.0, {}
            base = whole.plan_start(label, n_rows, mu)
    own = {field.name: getattr(base, field.name) for field in fields(base)}
    return TriplePlan(**(own | trained), mu_classifier=spent)


def _training_share(
    settings: TripleSettings,
    n_rows: float,
    n_columns: int,
    mu: float,
    tail_delta: float,
) -> float:
    """Give the share of its squared mu that a class may train with."""
    if settings.desensitization == "dpsgd":
        return _dpcgan_plan.training_share(n_rows, n_columns, mu, settings.of_steps)
    most = TRIPLE_SHARES[-1]
    if settings.noise_multiplier is not None or mu == math.inf:
        return most
    as_it_pays = replace(settings, n_iter="auto")
    for share in TRIPLE_SHARES:
        # With so much less the signal would still be above the noise.
        less = mu * math.sqrt(share) / _CLEAR
        if _plan_training(as_it_pays, n_rows, n_columns, less, tail_delta):
            return share
    return most


def _plan_training(
    settings: TripleSettings,
    n_rows: float,
    n_columns: int,
    mu: float,
    tail_delta: float,
) -> dict[str, Any]:
    """Plan the discriminator of one class; empty if it does not train."""
    optional, wanted = settings.init != "random", settings.latent_dim
    if settings.desensitization == "dpsgd":
        n_factors = _dpcgan_plan.n_factors(n_rows, n_columns, mu, wanted)
        trained = _dpcgan_plan.plan_training(
            n_rows,
            n_columns,
            mu,
            settings.of_steps,
            tail_delta=tail_delta,
            optional=optional,
        )
    else:
        n_factors = _AUTO_FACTORS if wanted == "auto" else wanted
        trained = _pategan_plan.plan_training(
            n_rows,
            n_columns,
            mu,
            tail_delta=tail_delta,
            noise="gaussian",
            optional=optional,
            n_factors=n_factors,
            n_labels=settings.batch_size,
            n_teacher_steps=settings.n_teacher_steps,
            n_teachers=settings.n_teachers,
            n_iter=settings.n_iter,
            noise_multiplier=settings.noise_multiplier,
        )
    return trained and trained | {"n_factors": n_factors}


def reserve_classifier(
    plan: TriplePlan, scope: Hashable, accountant: PrivacyAccountant
) -> Reservation | None:
    """Set aside one noisy sum of a class's rows per step; None if it takes no part.

    Sensitivity: the clipping norm.
    """
    if plan.mu_classifier == 0:
        return None
    return accountant.reserve_sampled_gaussian(
        "classifier's gradients",
        mu=plan.mu_classifier / math.sqrt(CLASSIFIER_STEPS),
        sampling_rate=sampling_rate(plan.n_rows),
        count=CLASSIFIER_STEPS,
        scope=scope,
    )


def reserve_pseudo_labels(accountant: PrivacyAccountant) -> Reservation:
    """Set aside the numbers of unlabelled rows with each class as pseudo-label.

    Unlabelled rows pay, whether or not there are any.
    """
    left = accountant.remaining_mu(UNLABELLED) * (1 - 1e-9)
    return accountant.reserve_gaussian(
        "unlabelled rows of each class",
        mu=left * math.sqrt(PSEUDO_LABELS_SHARE),
        sensitivity=1.0,
        scope=UNLABELLED,
    )


def reserve_branch(
    n_rounds: int, n_rows: float, accountant: PrivacyAccountant
) -> Reservation:
    """Set aside a noisy sum per round, with all that unlabelled rows have left."""
    left = accountant.remaining_mu(UNLABELLED) * (1 - 1e-9)
    return accountant.reserve_sampled_gaussian(
        "unlabelled rows' gradients",
        mu=left / math.sqrt(n_rounds),
        sampling_rate=sampling_rate(n_rows),
        count=n_rounds,
        scope=UNLABELLED,
    )
