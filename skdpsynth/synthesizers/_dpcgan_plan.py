"""How DP-CGAN and DPGAN plan and reserve the training of a class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from skdpsynth.preprocessing import DPSGD_SHARES
from skdpsynth.privacy import sampled_noise_multiplier, steps_mu

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from skdpsynth.preprocessing import ClassPlan
    from skdpsynth.privacy import PrivacyAccountant, Reservation

_AUTO_BATCH = 2.0**18  # rows of a step; more of them say nothing that noise would hide
_LEAST_NOISE = 3.0  # of a step on a sample, in clipping norms: it is cheap there
_MAX_FACTORS = 8
_MAX_ROUNDS = 12
_MIN_ROUNDS = 3  # what cannot pay for so many leaves its budget to the marginals
_COHERENCE = 0.15  # nominal norm of the mean gradient, in clipping norms
_STEPS_LIMIT = 10**6
# Of the squared mu of a class that starts from marginals: what training may take. It
# takes no more than the least where a step has this squared signal-to-noise ratio.
(_LEAST_SHARE, _MOST_SHARE), _CLEAR = DPSGD_SHARES, 25.0


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
    """Give the number of factors that a class can pay for, at least 1."""
    if latent_dim != "auto":
        return latent_dim
    most = max(1, min(_MAX_FACTORS, n_columns // 2))
    return max(1, int(min(_rounds(n_rows, n_columns, mu) / _MIN_ROUNDS, most)))


def training_share(
    n_rows: float, n_columns: int, mu: float, settings: StepSettings
) -> float:
    """Give the share of its squared mu, in (0, 1), that a class may train with.

    Marginals are worth more than dependence, so training gets little; and a large class
    pays only for steps whose signal is clearly above their noise. `mu` is for marginals
    and training together.
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
) -> dict[str, Any]:
    """Plan the training of one class: fields of `ClassPlan`, none if it does not train.

    Training may use `mu`, and `tail_delta` beside it; 0 to charge a step as if it saw
    every row. `optional`: the class starts from marginals, so that training only adds
    dependence between columns.
    """
    if n_columns < (2 if optional else 1):
        return {}
    latent_dim, n_iter, noise_multiplier, batch_size, n_discriminator_steps = settings
    wanted_rows = _AUTO_BATCH if batch_size == "auto" else float(batch_size)
    rate = min(1.0, wanted_rows / max(n_rows, 1.0))
    if noise_multiplier is not None:
        std = noise_multiplier
        count = most_that_fits(
            lambda count: steps_mu(std, rate, count, tail_delta) <= mu, _STEPS_LIMIT
        )
        n_iter = count // n_discriminator_steps
    elif n_iter == "auto":
        each = n_factors(n_rows, n_columns, mu, latent_dim) + (0 if optional else 2)
        rounds = _rounds(n_rows, n_columns, mu) / each / n_discriminator_steps
        n_iter = int(min(rounds, _MAX_ROUNDS))
        if n_iter < _MIN_ROUNDS:
            n_iter = 0 if optional else _MIN_ROUNDS
    if n_iter == 0:
        return {}
    count = n_iter * n_discriminator_steps
    if noise_multiplier is None and mu < math.inf:
        # More rows instead of less noise: the mean is as good, the accounting better.
        while rate < 1 and steps_mu(_LEAST_NOISE, rate, count, tail_delta) < mu:
            rate = min(1.0, 2.0 * rate)
    noise = sampled_noise_multiplier(mu, rate, count, tail_delta)
    return {
        "n_iter": n_iter,
        "n_queries": n_discriminator_steps,
        "mu_step": mu / math.sqrt(count),
        "sampling_rate": rate,
        "step_noise_std": noise,
    }


def reserve_steps(
    plan: ClassPlan,
    scope: Hashable,
    accountant: PrivacyAccountant,
    tail_delta: float,
) -> Reservation:
    """Set aside the noisy sums of all steps of a class: sensitivity C each."""
    return accountant.reserve_sampled_gaussian(
        "discriminator's gradients",
        mu=plan.mu_step,
        sampling_rate=plan.sampling_rate,
        count=plan.n_iter * plan.n_queries,
        scope=scope,
        tail_delta=tail_delta,
    )


def _rounds(n_rows: float, n_columns: int, mu: float) -> float:
    """Give the steps whose signal is above their noise, for one factor."""
    return (_COHERENCE * mu * n_rows) ** 2 / n_columns


def most_that_fits(fits: Callable[[int], bool], limit: int) -> int:
    """Find the largest number that fits, 0 if 1 does not; about `limit` at most."""
    low, high = 0, 1
    while high < limit and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
