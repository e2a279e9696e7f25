"""One run of DP-SGD with many canaries (Steinke, Nasr, Jagielski 2023), white box.

Every canary has a coordinate of its own, to which its clipped gradient points. Each is
in the table by the toss of a coin. The attacker adds up all released gradients and
guesses: the 100 largest coordinates are in, the 100 smallest are out.
"""

import math

import numpy as np
import pytest
import torch
from _training import identity, make_discriminator

from skdpsynth.audit import one_run_lower_bound
from skdpsynth.privacy import PrivacyAccountant, secret_generator

pytestmark = [pytest.mark.nightly, pytest.mark.statistical]

N_CANARIES, N_SIDE = 2_000, 100
SIZE, FALSE_ALARM = 1e3, 1e-6
# At a larger delta no number of right guesses has a p-value below the level.
DELTA = 1e-10
CASES = {"all rows": (1.0, 5), "samples": (0.2, 40)}


def scores_of(members, epsilon, rate, n_steps):
    """Train; give the sum of the released gradients, one number per canary."""
    accountant = PrivacyAccountant(
        epsilon, DELTA, discovery_delta=DELTA / 100, amplified=True
    )
    mu = accountant.mu_cap / math.sqrt(n_steps) * (1 - 1e-9)
    reservation = accountant.reserve_sampled_gaussian(
        "steps", mu=mu, sampling_rate=rate, count=n_steps, tail_delta=0.99 * DELTA / 100
    )
    # A score that is linear: its gradient is the row, whatever was learnt before.
    rows = SIZE * np.eye(N_CANARIES, dtype=np.float32)[members]
    discriminator = make_discriminator(
        rows,
        loss="wasserstein",
        learning_rate=1e-3,
        reservation=reservation,
        rng=secret_generator(),
    )
    total = np.zeros(N_CANARIES)
    for _ in range(n_steps):
        discriminator.release(identity)
        discriminator.follow(torch.zeros(1, N_CANARIES), identity)
        total -= discriminator._released.numpy()
    assert reservation.used == n_steps
    return total


def proved_by(right):
    """Give the lower bound of epsilon that so many right guesses prove."""
    return one_run_lower_bound(
        int(right), 2 * N_SIDE, n_canaries=N_CANARIES, delta=DELTA, alpha=FALSE_ALARM
    )


def proved(epsilon, case):
    """Give the lower bound of epsilon that one run proves."""
    present = np.random.default_rng().random(N_CANARIES) < 0.5
    scores = scores_of(np.flatnonzero(present), epsilon, *CASES[case])
    order = np.argsort(scores)
    right = present[order[-N_SIDE:]].sum() + (~present[order[:N_SIDE]]).sum()
    return proved_by(right)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_one_run_proves_no_more_than_the_claim(epsilon, case):
    """False alarm 1e-6, by the theorem."""
    assert proved(epsilon, case) <= epsilon


@pytest.mark.parametrize("case", CASES)
def test_steps_without_clipping_are_caught(case, monkeypatch):
    """A row counts 220 times as much: more than 3.2 deviations of noise.

    Of 1,000 rows that are in, 100 lie 4.5 away from 0, where a guess is wrong once in
    10,000. A tenth of 200 guesses may be wrong: false alarms have a rate below 1e-9.
    """
    assert proved_by(0.9 * 2 * N_SIDE) > 1.0
    monkeypatch.setattr("skdpsynth.training._dp_sgd.ROUNDING_ROOM", -SIZE)
    assert proved(1.0, case) > 1.0
