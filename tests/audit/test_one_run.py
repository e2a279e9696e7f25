"""One run of DP-SGD with many canaries (Steinke, Nasr, Jagielski 2023), white box.

Every canary has a coordinate of its own, to which its clipped gradient points. Each is
in the table by the toss of a coin. The attacker adds up all released gradients and
guesses: the 100 largest coordinates are in, the 100 smallest are out.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import beta, binom, norm

from skdpsynth.audit import one_run_lower_bound
from skdpsynth.privacy import PrivacyAccountant, _mechanisms, secret_generator
from skdpsynth.training import Discriminator, _dp_sgd

pytestmark = [pytest.mark.nightly, pytest.mark.statistical]

N_CANARIES, N_SIDE = 2_000, 100
SIZE, CLIP, FALSE_ALARM = 1e3, 0.1, 1e-6
# The norm of a row's gradient over the clipping norm: features are divided by the root
# of their number.
UNCLIPPED = SIZE / math.sqrt(N_CANARIES) / CLIP
# At a larger delta no number of right guesses has a p-value below the level.
DELTA = 1e-10
CASES = {"all rows": (1.0, 5), "samples": (0.2, 40)}


def identity(rows):
    return rows


def reserved(epsilon, rate, n_steps):
    accountant = PrivacyAccountant(
        epsilon, DELTA, discovery_delta=DELTA / 100, amplified=True
    )
    mu = accountant.mu_cap / math.sqrt(n_steps) * (1 - 1e-9)
    return accountant.reserve_sampled_gaussian(
        "steps", mu=mu, sampling_rate=rate, count=n_steps, tail_delta=0.99 * DELTA / 100
    )


def scores_of(members, epsilon, rate, n_steps):
    """Train; give the sum of the released gradients, one number per canary."""
    reservation = reserved(epsilon, rate, n_steps)
    # A score that is linear: its gradient is the row, whatever was learnt before.
    rows = SIZE * np.eye(N_CANARIES, dtype=np.float32)[members]
    discriminator = Discriminator(
        rows,
        n_features=N_CANARIES,
        hidden_dims=(),
        loss="wasserstein",
        learning_rate=1e-3,
        weight_bound=math.inf,
        max_grad_norm=CLIP,
        expected_batch_size=10.0,
        reservation=reservation,
        rng=secret_generator(),
        generator=torch.Generator().manual_seed(0),
        device=torch.device("cpu"),
    )
    total = np.zeros(N_CANARIES)
    for _ in range(n_steps):
        discriminator.release(identity)
        discriminator.follow(torch.zeros(1, N_CANARIES), identity)
        total -= discriminator._released[0].double().numpy().ravel()
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


def fewest_right(noise_std, rate, n_steps):
    """Give what the number of right guesses is below with probability 1e-6 at most.

    A score over its noise is normal around 0, or for a canary that is in around j over
    the noise after j samples with it, j binomial. Given all scores the canaries are
    independent, and one is in with odds that are the ratio of these densities, which
    grows. How many of the 2,000 are beyond a point is binomial: this places the k-th
    from each end, and a guess is right at least as often as one at that point. Half of
    the 1e-6 goes to the 200 places, half to the sum of the guesses.
    """
    shifts = np.arange(n_steps + 1) / (noise_std * math.sqrt(n_steps))
    weights = binom.pmf(np.arange(n_steps + 1), n_steps, rate)
    alpha = FALSE_ALARM / 2 / (2 * N_SIDE)
    ends = (-40, 40 + shifts[-1])

    def beyond(score, side):
        tails = weights @ norm.sf(side * (score - shifts)) + norm.sf(side * score)
        return tails / 2

    def right_at(score, side):
        exponents = np.minimum(shifts * (score - shifts / 2), 700.0)  # no overflow
        odds = weights @ np.exp(exponents)
        return 1 / (1 + odds**-side)

    chances = np.ones(1)  # of 0, 1, ... right guesses
    for side in (1, -1):
        for k in range(1, N_SIDE + 1):
            # Where fewer than k are beyond the edge with probability alpha.
            share = beta.isf(alpha, k, N_CANARIES - k + 1)
            edge = brentq(lambda x, s=side, p=share: beyond(x, s) - p, *ends)
            right = right_at(edge, side)
            chances = np.convolve(chances, [1 - right, right])
    return int(np.searchsorted(chances.cumsum(), FALSE_ALARM / 2))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_one_run_proves_no_more_than_the_claim(epsilon, case):
    """False alarm 1e-6, by the theorem."""
    assert proved(epsilon, case) <= epsilon


def test_one_run_proves_something():
    """False alarm 1e-6, by `fewest_right`; what it allows proves 0.51 of 8."""
    case = CASES["all rows"]
    least = proved_by(fewest_right(reserved(8.0, *case).noise_std, *case))
    assert least > 0.5
    assert proved(8.0, "all rows") >= least


class Weaker:
    """A generator with a twentieth of the noise."""

    def __init__(self, rng):
        self._rng = rng

    def normal(self, mean, std, shape):
        return self._rng.normal(mean, std / 20, shape)


def a_twentieth_of_the_noise(monkeypatch):
    real = _mechanisms.secret_generator
    monkeypatch.setattr(_mechanisms, "secret_generator", lambda: Weaker(real()))


def no_clipping(monkeypatch):
    def unclipped(gradients, clip):
        return [part.double().sum(dim=0) for part in gradients]

    monkeypatch.setattr(_dp_sgd, "clipped_sums", unclipped)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("twin", "factor"), [(a_twentieth_of_the_noise, 20), (no_clipping, UNCLIPPED)]
)
def test_broken_steps_are_caught(twin, factor, case, monkeypatch):
    """False alarm 1e-6, by `fewest_right`: a row counts `factor` times as much."""
    noise_std = reserved(1.0, *CASES[case]).noise_std
    least = proved_by(fewest_right(noise_std / factor, *CASES[case]))
    assert least > 1.0
    twin(monkeypatch)
    assert proved(1.0, case) >= least
