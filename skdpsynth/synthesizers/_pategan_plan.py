"""How PATE-GAN plans and reserves the labels of a class, from public numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skdpsynth.nn import label_slope, noise_of_moments, view_size
from skdpsynth.privacy import likely_vote_noise_std, vote_noise_std, votes_mu
from skdpsynth.synthesizers._dpcgan_plan import most_that_fits
from skdpsynth.synthesizers._gpate_plan import at_most_half

if TYPE_CHECKING:
    from collections.abc import Hashable

    from skdpsynth.preprocessing import ClassPlan
    from skdpsynth.privacy import PrivacyAccountant, Reservation

TEACHER_BATCH = 32
TEACHER_DECAY = 0.3  # share of its weights that a teacher forgets at a step
_MAX_TEACHERS = 2048
_ROWS_PER_TEACHER = 4
_ROUNDS, _ROUNDS_FROM_SCRATCH = 8, 24
_ROUNDS_LIMIT = 10**4
# A factor that moves this share of the columns must stand out of the noise.
_SHARED = 0.05


def teacher_rows(n_rows: float, n_teachers: int, n_teacher_steps: int) -> float:
    """Give the real rows that a teacher's opinion is worth, from public numbers.

    Fewer than its part has: minibatches hold some rows twice, and fakes vary too.
    """
    part = max(n_rows / n_teachers, 1.0)
    remembered = min(n_teacher_steps, (2.0 - TEACHER_DECAY) / TEACHER_DECAY)
    return 1.0 / (1.0 / part + 2.0 / (TEACHER_BATCH * remembered))


def plan_training(
    n_rows: float,
    n_columns: int,
    mu: float,
    *,
    tail_delta: float,
    noise: Literal["gaussian", "laplace"],
    optional: bool,
    n_factors: int,
    n_labels: int,
    n_teacher_steps: int,
    n_teachers: int | Literal["auto"],
    n_iter: int | Literal["auto"],
    noise_multiplier: float | None,
) -> dict[str, Any]:
    """Plan the labels of one class: fields of `ClassPlan`, none if it does not train.

    All labels together may cost `mu`, and `tail_delta` beside it; `n_labels` are bought
    per round. `optional`: the class starts from marginals, so that training only adds
    dependence between columns.
    """
    if n_columns < (2 if optional else 1):
        return {}
    if n_teachers == "auto":
        n_teachers = int(np.clip(n_rows / _ROWS_PER_TEACHER, 1, _MAX_TEACHERS))
    n_teachers = at_most_half(n_teachers, n_rows)
    if n_iter != "auto":
        rounds = n_iter
    elif noise_multiplier is not None and mu < math.inf:
        std = noise_multiplier
        rounds = most_that_fits(
            lambda n: (
                n <= _ROUNDS_LIMIT
                and votes_mu(std, n * n_labels, noise, tail_delta) <= mu
            ),
            _ROUNDS_LIMIT,
        )
    else:
        rounds = _ROUNDS if optional else _ROUNDS_FROM_SCRATCH
        blur = noise_of_moments(
            rounds * n_labels,
            view_size(n_columns, n_factors, only_pairs=optional),
            n_columns,
            slope=label_slope(
                n_teachers, likely_vote_noise_std(mu, rounds * n_labels, noise), noise
            )
            * math.sqrt(teacher_rows(n_rows, n_teachers, n_teacher_steps)),
        )
        if optional and mu < math.inf and blur > _SHARED * n_columns:
            rounds = 0
    if rounds == 0:
        return {}
    return {
        "n_teachers": n_teachers,
        "n_iter": int(rounds),
        "n_queries": n_labels,
        "mu_step": mu / math.sqrt(rounds),
        "step_noise_std": vote_noise_std(mu, rounds * n_labels, noise, tail_delta),
    }


def reserve_labels(
    plan: ClassPlan,
    scope: Hashable,
    accountant: PrivacyAccountant,
    noise: Literal["gaussian", "laplace"],
    tail_delta: float,
) -> Reservation:
    """Set aside every label of every round: one noisy vote each (`noisy_votes`)."""
    return accountant.reserve_votes(
        "labels by vote",
        mu=plan.mu_step / math.sqrt(plan.n_queries),
        n_teachers=plan.n_teachers,
        count=plan.n_iter * plan.n_queries,
        scope=scope,
        noise=noise,
        tail_delta=tail_delta,
    )
