"""How G-PATE plans and reserves the training of a class, from public numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skdpsynth.privacy import GRID

if TYPE_CHECKING:
    from collections.abc import Hashable

    from skdpsynth.preprocessing import ClassPlan
    from skdpsynth.privacy import PrivacyAccountant, Reservation

_TEST_NOISE = 1500 / 600  # the paper's noise of the threshold test, to an answer's
_VOTE_NOISE = 600 / 2100  # the paper's noise of an answer, per teacher
_MAX_TEACHERS = 4096
_ROWS_PER_TEACHER = 8
_MAX_STEPS = 40
_MIN_STEPS = 4  # what cannot pay for so many leaves its budget to the marginals
_COHERENCE = 0.25  # nominal norm of the teachers' mean vector, in clipping norms
_STEPS_LIMIT = 10**6


def at_most_half(n_teachers: int, n_rows: float) -> int:
    """Give so many teachers, but each of them two planned rows at least.

    A teacher of one row has nothing to aggregate: its vector is the row's own.
    """
    return max(min(n_teachers, int(n_rows / 2)), 1)


def plan_training(
    n_rows: float,
    n_columns: int,
    mu: float,
    *,
    n_parameters: int,
    n_votes: int | None,
    optional: bool,
    n_teachers: int | Literal["auto"],
    n_iter: int | Literal["auto"],
    noise_multiplier: float | None,
) -> dict[str, Any]:
    """Plan the training of one class: fields of `ClassPlan`, none if it does not train.

    `n_parameters` is the length of a teacher's vector; `n_votes` counts the votes of a
    step, None where one sum is released. `optional`: the class starts from marginals,
    so that training only adds dependence between columns. A teacher has two rows at
    least.
    """
    if n_columns < (2 if optional else 1):
        return {}
    if n_teachers == "auto":
        n_teachers = int(np.clip(n_rows / _ROWS_PER_TEACHER, 1, _MAX_TEACHERS))
    n_teachers = at_most_half(n_teachers, n_rows)
    # Squared mu of a step at noise 1. Sum: sensitivity 2. Votes: every answer has
    # sensitivity sqrt(2), every test 1.
    unit_cost = 4.0
    if n_votes is not None:
        unit_cost = n_votes * (2.0 + _TEST_NOISE**-2)
    if n_iter == "auto" and mu == math.inf:
        n_iter = _MAX_STEPS
    elif n_iter == "auto":
        # The noise wanted in a step: given, the paper's, or that of signal 1.
        if noise_multiplier is not None:
            wanted = noise_multiplier * math.sqrt(unit_cost if n_votes is None else 2.0)
        elif n_votes is not None:
            wanted = _VOTE_NOISE * n_teachers
        else:
            wanted = _COHERENCE * n_teachers / math.sqrt(n_parameters)
        limit = _MAX_STEPS if noise_multiplier is None else _STEPS_LIMIT
        n_iter = int(min(mu**2 * wanted**2 / unit_cost, limit))
        if noise_multiplier is None and n_iter < (_MIN_STEPS if optional else 1):
            n_iter = 0 if optional else _MIN_STEPS
    if n_iter == 0:
        return {}
    return {
        "n_teachers": n_teachers,
        "n_iter": int(n_iter),
        "n_queries": n_votes or 1,
        "mu_step": mu / math.sqrt(n_iter),
        "step_noise_std": math.sqrt(unit_cost * n_iter) / mu,
    }


def reserve_sums(
    plan: ClassPlan, scope: Hashable, accountant: PrivacyAccountant
) -> tuple[Reservation, None]:
    """Set aside a sum of the teachers' vectors per step: sensitivity 2C."""
    sums = accountant.reserve_gaussian(
        "sums of teachers' gradients",
        mu=plan.mu_step,
        sensitivity=2 * GRID,
        count=plan.n_iter,
        scope=scope,
    )
    return sums, None


def reserve_votes(
    plan: ClassPlan, scope: Hashable, accountant: PrivacyAccountant
) -> tuple[Reservation, Reservation]:
    """Set aside an answer and a test for every query of every step.

    An answer has sensitivity sqrt(2): a vote moves from one bin to another. A test has
    sensitivity 1: the largest count moves by one.
    """
    count, std = plan.n_iter * plan.n_queries, plan.step_noise_std
    answers = accountant.reserve_gaussian(
        "answers by vote",
        mu=math.sqrt(2) / std if std else math.inf,
        sensitivity=math.sqrt(2),
        count=count,
        scope=scope,
    )
    tests = accountant.reserve_gaussian(
        "threshold tests",
        mu=1.0 / (std * _TEST_NOISE) if std else math.inf,
        sensitivity=1.0,
        count=count,
        scope=scope,
    )
    return answers, tests
