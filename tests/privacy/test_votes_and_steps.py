"""Noisy votes and DP-SGD steps: what is released, and what is refused."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from skdpsynth.exceptions import BudgetExceededError, ReservationError
from skdpsynth.privacy import (
    PrivacyAccountant,
    release_float_gaussian,
    sampled_noise_multiplier,
    vote_noise_std,
)
from skdpsynth.privacy.statistics import noisy_counts, noisy_votes

TAIL = 1e-7


def accountant(epsilon=1.0, *, discovery_delta=TAIL):
    return PrivacyAccountant(
        epsilon, 1e-5, discovery_delta=discovery_delta, amplified=True
    )


def step():
    return accountant().reserve_sampled_gaussian(
        "step", mu=0.2, sampling_rate=0.1, tail_delta=TAIL
    )


def test_what_is_claimed_is_the_cap_whatever_was_reserved():
    """Whether a class trains may follow from noisy counts: the claim must not."""
    claims = set()
    for n_lines in range(3):
        ledger = accountant(discovery_delta=3 * TAIL)
        for line in range(n_lines):
            ledger.reserve_votes(
                "v", mu=0.01, n_teachers=5, scope=line, tail_delta=TAIL
            )
        report = ledger.report()
        printed = report.epsilon, report.epsilon_replace_one, report.epsilon_by_delta
        claims.add((ledger.epsilon, *printed, report.get_epsilon(3e-5)))
    assert len(claims) == 1


def test_replacing_a_row_costs_two_steps():
    """As 2 mu; where sampling was made use of, as two steps one after the other.

    It is printed whatever is reserved later: so sampling is said in advance.
    """
    plain = PrivacyAccountant(1.0, 1e-5, discovery_delta=TAIL)
    sampled = accountant().report().epsilon_replace_one
    assert plain.report().epsilon_replace_one < sampled < 2.6
    with pytest.raises(ValueError, match="amplified=True"):
        plain.reserve_sampled_gaussian("s", mu=0.1, sampling_rate=0.5, tail_delta=TAIL)
    assert plain.report().entries == ()


def test_a_tail_is_charged():
    ledger = accountant(discovery_delta=1.5 * TAIL)
    reserve = partial(ledger.reserve_votes, "v", mu=0.01, n_teachers=5, count=7)
    reserve(scope="a", tail_delta=TAIL)
    with pytest.raises(BudgetExceededError, match="of delta"):
        reserve(scope="a", tail_delta=TAIL)
    reserve(scope="b", tail_delta=TAIL)


MU, RATE, SENSITIVITY, COUNT = 0.05, 0.1, 3.0, 20
SAMPLED = {"sampling_rate": RATE, "count": COUNT, "tail_delta": TAIL}
OF_VOTES = {"n_teachers": 9, "count": COUNT, "tail_delta": TAIL}
RESERVE = {
    "gaussian": ("reserve_gaussian", {"sensitivity": SENSITIVITY}),
    "sampled gaussian": ("reserve_sampled_gaussian", SAMPLED),
    "gaussian vote": ("reserve_votes", OF_VOTES),
    "laplace vote": ("reserve_votes", OF_VOTES | {"noise": "laplace"}),
}


def reserved(kind, ledger, mu):
    name, settings = RESERVE[kind]
    return getattr(ledger, name)("line", mu=mu, **settings)


@pytest.mark.parametrize("kind", RESERVE)
def test_the_noise_is_that_of_its_charge(kind):
    """Not less, which would break the claim; and not more. By that of the whole block.

    `test_calibration.py` holds the noise of a block against exact profiles.
    """
    reservation, block = reserved(kind, accountant(), MU), MU * math.sqrt(COUNT)
    if "vote" in kind:
        noise = vote_noise_std(block, COUNT, kind.removesuffix(" vote"), TAIL)
    elif kind == "gaussian":
        noise = math.hypot(SENSITIVITY / MU, 2)
    else:
        noise = sampled_noise_multiplier(block, RATE, COUNT, TAIL)
    assert (reservation.kind, reservation.mu) == (kind, MU)
    assert reservation.noise_std == pytest.approx(noise, rel=1e-12)
    if kind != "gaussian":
        assert reservation.delta * reservation.count == pytest.approx(TAIL)


@pytest.mark.parametrize("mu", [0.0, -0.1, math.nan, 1e-200])
@pytest.mark.parametrize("kind", RESERVE)
def test_a_charge_out_of_range_is_refused(kind, mu):
    """The search for the noise of a negative charge would have no end."""
    ledger = accountant()
    with pytest.raises(ValueError, match="mu must be a number > 0"):
        reserved(kind, ledger, mu)
    assert ledger.report().entries == ()


def test_without_noise_the_majority_answers():
    ledger = accountant(math.inf)
    reservation = ledger.reserve_votes("v", mu=math.inf, n_teachers=4, count=5)
    answers = noisy_votes(np.array([0, 1, 2, 3, 4]), 4, reservation)
    assert answers.tolist() == [False, False, False, True, True]
    assert ledger.epsilon == math.inf


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "rate"), [("gaussian", norm.sf(1)), ("laplace", math.exp(-1) / 2)]
)
def test_noise_of_votes_has_the_reserved_scale(noise, rate):
    """Noise turns a majority of one scale so often; fails by chance at a rate of 6e-7.

    The share of n = 20,000 votes is off by at most .014, 5 standard deviations, and
    .003 for whole numbers. With a scale that is a root of 2 smaller it is off by .06.
    """
    n, law = 20_000, {"n_teachers": 999, "noise": noise}
    line = accountant(100.0).reserve_votes("v", mu=0.02, count=n, **law)
    counts = np.full(n, 499 - round(line.noise_std))
    assert noisy_votes(counts, 999, line).mean() == pytest.approx(rate, abs=0.017)


def test_votes_need_their_own_reservation():
    ledger = accountant()
    mu = 0.1 * ledger.mu_cap
    votes = ledger.reserve_votes("votes", mu=mu, n_teachers=10, count=3)
    two = np.array([3, 4])
    with pytest.raises(ReservationError, match="votes of 10 teachers"):
        noisy_votes(two, 11, votes)
    for bad in ([11], [-1], [], [[3]]):
        with pytest.raises(ValueError, match="Expected counts"):
            noisy_votes(np.array(bad, dtype=np.int64), 10, votes)
    assert votes.used == 0
    noisy_votes(two, 10, votes)
    assert votes.used == 2
    with pytest.raises(ReservationError, match="2 more were asked for"):
        noisy_votes(two, 10, votes)
    for bad in ({"noise": "normal"}, {"n_teachers": 0}):
        with pytest.raises(ValueError, match=r"at least 1|int >= 1"):
            ledger.reserve_votes("v", mu=0.1, **{"n_teachers": 3, **bad})


def test_a_step_adds_noise_to_the_sum_and_draws_down():
    """The sum is not rounded; and what is not finite was to be left out before."""
    ledger = accountant(math.inf)
    free = ledger.reserve_sampled_gaussian("s", mu=math.inf, sampling_rate=0.5)
    total = np.array([0.1 + 0.2, 1e-300, math.nan, math.inf])
    np.testing.assert_array_equal(release_float_gaussian(total, 1.0, free), total)
    assert free.used == 1
    with pytest.raises(ReservationError, match="1 more were asked for"):
        release_float_gaussian(total, 1.0, free)
    noisy = release_float_gaussian(total, 1.0, step())
    assert np.isfinite(noisy).tolist() == [True, True, False, False]
    assert np.all(noisy[:2] != total[:2])


def test_what_was_reserved_as_something_else_is_refused():
    """The noisy count of a vote was not reserved: the bit was."""
    ledger = accountant()
    mu = 0.1 * ledger.mu_cap
    two = np.array([3, 4])
    releases = {
        ledger.reserve_gaussian("counts", mu=mu, sensitivity=1, count=2): (
            lambda line: noisy_counts(two, 5, line)
        ),
        ledger.reserve_votes("votes", mu=mu, n_teachers=10, count=2): (
            lambda line: noisy_votes(two, 10, line)
        ),
        ledger.reserve_sampled_gaussian("steps", mu=mu, sampling_rate=0.5): (
            lambda line: release_float_gaussian(np.zeros(2), 1.0, line)
        ),
    }
    for line, other in product(releases, releases):
        if line is not other:
            with pytest.raises(ReservationError, match="eserve"):
                releases[other](line)
        assert line.used == 0


def test_steps_need_sums_that_were_clipped():
    ledger = accountant()
    mu = 0.1 * ledger.mu_cap
    steps = ledger.reserve_sampled_gaussian("steps", mu=mu, sampling_rate=0.5)
    with pytest.raises(TypeError, match="float64"):
        release_float_gaussian(np.zeros(2, dtype=np.float32), 1.0, steps)
    for clip in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="clip"):
            release_float_gaussian(np.zeros(2), clip, steps)
    assert steps.used == 0
    for rate in (0.0, 1.5):
        with pytest.raises(ValueError, match="sampling_rate"):
            ledger.reserve_sampled_gaussian("s", mu=mu, sampling_rate=rate)
