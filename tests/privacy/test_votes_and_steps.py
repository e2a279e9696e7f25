"""Noisy votes and DP-SGD steps: what is released, and what is refused."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from _reserve import is_noise
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from scipy import stats

from skdpsynth.exceptions import BudgetExceededError, ReservationError
from skdpsynth.privacy import (
    PrivacyAccountant,
    _accountant,
    noisy_votes,
    release_float_gaussian,
    steps_mu,
    votes_mu,
)
from skdpsynth.privacy import _mechanisms as mechanisms
from skdpsynth.privacy._mechanisms import release_gaussian
from skdpsynth.privacy.testing import insecure_randomness

FALSE_ALARM = 1e-6


TAIL = 1e-7


def accountant(epsilon=1.0, *, discovery_delta=TAIL) -> PrivacyAccountant:
    return PrivacyAccountant(
        epsilon, 1e-5, discovery_delta=discovery_delta, amplified=True
    )


def votes_of(count=1, n_teachers=100, noise="gaussian", tail_delta=TAIL):
    ledger = accountant()
    return ledger.reserve_votes(
        "votes",
        mu=ledger.remaining_mu() / math.sqrt(count),
        n_teachers=n_teachers,
        count=count,
        noise=noise,
        tail_delta=tail_delta,
    )


def steps_of(count=1, rate=0.1, ledger=None, tail_delta=TAIL, scope=None):
    ledger = ledger or accountant()
    return ledger.reserve_sampled_gaussian(
        "steps",
        mu=ledger.remaining_mu(scope) / math.sqrt(count),
        sampling_rate=rate,
        count=count,
        scope=scope,
        tail_delta=tail_delta,
    )


# --- The whole run -----------------------------------------------------------------


def certified_again(report, delta, scope):
    """Compose what the rows of a scope are charged, from the lines of a report alone.

    Votes as the noisy counts that they are read off, which cost more.
    """
    events = []
    for entry in report.entries:
        if entry.scope not in ("all rows", f"class {scope}"):
            continue
        multiplier = entry.noise_std / entry.sensitivity
        if entry.kind == "gaussian":  # rule (b) of a discrete Gaussian
            multiplier = math.sqrt(entry.noise_std**2 - 4) / entry.sensitivity
        event = GaussianDpEvent(multiplier)
        if entry.sampling_rate < 1:
            event = PoissonSampledDpEvent(entry.sampling_rate, event)
        events.append(SelfComposedDpEvent(event, entry.releases))
    accountant = PLDAccountant(value_discretization_interval=2e-4)
    accountant.compose(ComposedDpEvent(tuple(events)))
    return accountant.get_epsilon(delta)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_a_mixed_run_is_within_the_request_and_uses_it(epsilon):
    ledger = accountant(epsilon, discovery_delta=1.2e-6)
    cap = ledger.mu_cap
    ledger.reserve_gaussian("counts", mu=0.2 * cap, sensitivity=1, delta=1e-6)
    left = ledger.remaining_mu("a")
    ledger.reserve_votes(
        "votes", mu=left / 6, n_teachers=99, count=36, scope="a", tail_delta=TAIL
    )
    for scope in "ab":
        if ledger.remaining_mu(scope) > 1e-3 * cap:
            steps_of(25, 0.2, ledger, scope=scope)
    assert 0.98 * epsilon <= ledger.epsilon <= epsilon
    report = ledger.report()
    assert any("floating-point" in note for note in report.notes)
    assert report.get_epsilon(1e-5) == pytest.approx(ledger.epsilon, rel=2e-3)
    # Independently, and of the class without votes: all is used, and no more.
    again = certified_again(report, 1e-5 - 1e-6, "b")
    assert (0.98 if epsilon <= 1 else 0.95) * epsilon <= again <= epsilon
    with pytest.raises(BudgetExceededError):
        ledger.reserve_sampled_gaussian(
            "more", mu=0.05 * cap, sampling_rate=0.01, scope="a"
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


def test_sampling_and_bits_need_less_noise():
    """The same mu, less noise."""
    alone, block = (steps_of(50, 0.1, tail_delta=tail) for tail in (0.0, TAIL))
    assert alone.noise_std == pytest.approx(26.4, rel=0.01)
    assert block.noise_std == pytest.approx(3.1, rel=0.05)
    alone, block = (votes_of(4000, tail_delta=tail) for tail in (0.0, TAIL))
    ratio = (block.noise_std / alone.noise_std) ** 2
    assert ratio == pytest.approx(2 / math.pi, rel=0.04)


def test_replacing_a_row_costs_two_steps():
    """As 2 mu; where sampling was made use of, as two steps one after the other."""
    plain = PrivacyAccountant(1.0, 1e-5).report().epsilon_replace_one
    sampled = accountant().report().epsilon_replace_one
    assert plain < sampled < 2.6


def test_sampling_counts_only_where_it_was_said_in_advance():
    """The epsilon for replacing a row is printed whatever is reserved later."""
    ledger = PrivacyAccountant(1.0, 1e-5, discovery_delta=TAIL)
    with pytest.raises(ValueError, match="amplified=True"):
        ledger.reserve_sampled_gaussian("s", mu=0.1, sampling_rate=0.5, tail_delta=TAIL)
    assert ledger.report().entries == ()


def test_a_tail_is_charged():
    ledger = accountant(discovery_delta=1.5 * TAIL)
    reserve = partial(ledger.reserve_votes, "v", mu=0.01, n_teachers=5, count=7)
    reserve(scope="a", tail_delta=TAIL)
    with pytest.raises(BudgetExceededError, match="of delta"):
        reserve(scope="a", tail_delta=TAIL)
    reserve(scope="b", tail_delta=TAIL)


# --- The noise of a charge ---------------------------------------------------------

MU, RATE, N_TEACHERS, SENSITIVITY, COUNT = 0.05, 0.1, 9, 3.0, 20
RESERVE = {
    "gaussian": lambda ledger, mu: ledger.reserve_gaussian(
        "counts", mu=mu, sensitivity=SENSITIVITY
    ),
    "sampled gaussian": lambda ledger, mu: ledger.reserve_sampled_gaussian(
        "steps", mu=mu, sampling_rate=RATE, count=COUNT, tail_delta=TAIL
    ),
    "sampled whole numbers": lambda ledger, mu: ledger.reserve_sampled_gaussian(
        "steps",
        mu=mu,
        sampling_rate=RATE,
        sensitivity=SENSITIVITY,
        count=COUNT,
        tail_delta=TAIL,
    ),
    "gaussian vote": lambda ledger, mu: ledger.reserve_votes(
        "votes", mu=mu, n_teachers=N_TEACHERS, count=COUNT, tail_delta=TAIL
    ),
    "laplace vote": lambda ledger, mu: ledger.reserve_votes(
        "votes",
        mu=mu,
        n_teachers=N_TEACHERS,
        count=COUNT,
        tail_delta=TAIL,
        noise="laplace",
    ),
}


def cost_of(kind, std):
    """What noise of this size has to be charged for one release, from its law alone.

    `test_blocks.py` holds the cost of a block against exact profiles.
    """
    if kind == "gaussian":
        return SENSITIVITY / math.sqrt(std**2 - 4)
    if kind == "sampled gaussian":
        return steps_mu(std, RATE, COUNT, TAIL) / math.sqrt(COUNT)
    if kind == "sampled whole numbers":
        multiplier = math.sqrt(std**2 - 4) / SENSITIVITY
        return steps_mu(multiplier, RATE, COUNT, TAIL) / math.sqrt(COUNT)
    law = kind.removesuffix(" vote")
    return votes_mu(std, COUNT, law, TAIL) / math.sqrt(COUNT)


@pytest.mark.parametrize("kind", RESERVE)
def test_the_noise_is_that_of_its_charge(kind):
    """Not less, which would break the claim; and not more."""
    reservation = RESERVE[kind](accountant(), MU)
    law = "gaussian" if kind == "sampled whole numbers" else kind
    assert (reservation.kind, reservation.mu) == (law, MU)
    cost = cost_of(kind, reservation.noise_std)
    assert cost == pytest.approx(MU, rel=3e-4)
    assert cost <= MU * (1 + 1e-12)
    if kind != "gaussian":
        assert reservation.delta * reservation.count == pytest.approx(TAIL)


@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0])
@pytest.mark.parametrize(("std", "moved"), [(3.0, 1), (3.0, 2), (5.0, 3), (12.0, 5)])
def test_discrete_noise_of_a_sample_is_charged_enough(std, moved, rate):
    """Exact deltas of one step, summed over whole numbers, in both directions.

    They are below those of the sampled Gaussian mechanism that is charged, whose
    variance is less by 4 (integrated on a fine grid, from below).
    """
    reach, fine = 40 * std, 0.01
    whole = np.arange(-reach, reach + 1)
    narrow = math.sqrt(std**2 - 4)
    dense = np.arange(-reach, reach, fine)

    def deltas(values, scale):
        laws = [np.exp(-((values - by) ** 2) / (2 * scale**2)) for by in (0, moved)]
        without, always = (law / law.sum() for law in laws)
        sampled = (1 - rate) * without + rate * always
        for ours, theirs in ((sampled, without), (without, sampled)):
            for epsilon in (0.0, 0.05, 0.2, 0.5, 1.0, 2.0):
                yield np.maximum(ours - math.exp(epsilon) * theirs, 0.0).sum()

    for exact, charged in zip(deltas(whole, std), deltas(dense, narrow), strict=True):
        assert exact <= charged + 1e-9


@pytest.mark.parametrize("mu", [0.0, -0.1, math.nan, 1e-200])
@pytest.mark.parametrize("kind", RESERVE)
def test_a_charge_out_of_range_is_refused_before_noise_is_computed(
    kind, mu, monkeypatch
):
    """The search for the noise of a negative charge would have no end."""

    def computed(*args):
        raise AssertionError(args)

    for name in ("grid_noise_std", "sampled_noise_multiplier", "vote_noise_std"):
        monkeypatch.setattr(_accountant, name, computed)
    ledger = accountant()
    with pytest.raises(ValueError, match="mu must be a number > 0"):
        RESERVE[kind](ledger, mu)
    assert ledger.report().entries == ()
    with pytest.raises(AssertionError):  # a valid one gets as far
        RESERVE[kind](ledger, MU)


# --- Votes -------------------------------------------------------------------------


def p_value_of_flips(reservation, count, n_queries):
    """Two-sided binomial test of the answers against the law of the noise."""
    n_teachers, scale = reservation.n_teachers, reservation.noise_std
    values = np.arange(-int(60 * scale), int(60 * scale) + 1)
    if reservation.kind == "gaussian vote":
        mass = np.exp(-(values**2) / (2 * scale**2))
    else:
        mass = np.exp(-np.abs(values) / scale)
    yes = mass[2 * (count + values) > n_teachers].sum() / mass.sum()
    answers = noisy_votes(np.full(n_queries, count), n_teachers, reservation)
    return stats.binomtest(int(answers.sum()), n_queries, yes).pvalue


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("count", [0, 40, 50, 80])
def test_answers_flip_as_often_as_the_noise_says(noise, count):
    reservation = votes_of(4000, noise=noise)
    assert p_value_of_flips(reservation, count, 4000) > FALSE_ALARM


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_smaller_noise_is_found(noise, factor, monkeypatch):
    """The broken twin: noise left out, or halved."""
    name = "_measurement" if noise == "gaussian" else "_laplace_measurement"
    original = getattr(mechanisms, name)

    def weaker(scale):
        return original(scale * factor) if factor else list

    monkeypatch.setattr(mechanisms, name, weaker)
    reservation = votes_of(4000, n_teachers=6000, noise=noise)
    count = 3000 + int(reservation.noise_std)
    assert p_value_of_flips(reservation, count, 4000) < FALSE_ALARM


def test_without_noise_the_majority_answers():
    ledger = accountant(math.inf)
    reservation = ledger.reserve_votes("v", mu=math.inf, n_teachers=4, count=5)
    answers = noisy_votes(np.array([0, 1, 2, 3, 4]), 4, reservation)
    assert answers.tolist() == [False, False, False, True, True]
    assert ledger.epsilon == math.inf


def test_votes_need_their_own_reservation():
    ledger = accountant()
    mu = 0.1 * ledger.mu_cap
    counts = ledger.reserve_gaussian("counts", mu=mu, sensitivity=1, count=9)
    votes = ledger.reserve_votes("votes", mu=mu, n_teachers=10, count=3)
    steps = ledger.reserve_sampled_gaussian("steps", mu=mu, sampling_rate=0.5)
    two = np.array([3, 4])
    for wrong in (counts, steps):
        with pytest.raises(ReservationError, match="reserve_votes"):
            noisy_votes(two, 10, wrong)
    # The noisy count of a vote was not reserved: the bit was.
    with pytest.raises(ReservationError, match="Reserve it as what it is"):
        release_gaussian(two, votes)
    with pytest.raises(ReservationError, match="votes of 10 teachers"):
        noisy_votes(two, 11, votes)
    with pytest.raises(ValueError, match="counts in"):
        noisy_votes(np.array([11]), 10, votes)
    assert votes.used == 0
    noisy_votes(two, 10, votes)
    assert votes.used == 2
    with pytest.raises(ReservationError, match="2 more were asked for"):
        noisy_votes(two, 10, votes)


@pytest.mark.parametrize("bad", [{"noise": "normal"}, {"n_teachers": 0}])
def test_votes_that_cannot_be_reserved(bad):
    with pytest.raises(ValueError, match="at least 1"):
        accountant().reserve_votes("v", mu=0.1, **{"n_teachers": 3, **bad})


# --- Steps -------------------------------------------------------------------------


def has_its_noise(reservation, clip=0.3):
    released = release_float_gaussian(np.zeros(20_000), clip, reservation)
    return is_noise(released, reservation.noise_std * clip)


def test_a_step_has_the_noise_that_was_planned():
    assert has_its_noise(steps_of())


@pytest.mark.parametrize("factor", [0.0, 0.9])
def test_smaller_noise_of_a_step_is_found(factor, monkeypatch):
    original = mechanisms.secret_generator

    class Weaker:
        def normal(self, mean, std, shape):
            return original().normal(mean, std * factor, shape)

    monkeypatch.setattr(mechanisms, "secret_generator", Weaker)
    assert not has_its_noise(steps_of())


def test_a_step_adds_noise_to_the_sum_and_draws_down():
    ledger = accountant(math.inf)
    free = ledger.reserve_sampled_gaussian("s", mu=math.inf, sampling_rate=0.5)
    total = np.array([1.0, -2.0])
    assert release_float_gaussian(total, 1.0, free).tolist() == [1.0, -2.0]
    assert free.used == 1
    with pytest.raises(ReservationError, match="1 more were asked for"):
        release_float_gaussian(total, 1.0, free)


def test_noise_of_two_steps_differs_unless_it_is_seeded():
    zeros = np.zeros(5)
    first, second = (release_float_gaussian(zeros, 1.0, steps_of()) for _ in range(2))
    assert not np.array_equal(first, second)
    drawn = []
    for _ in range(2):
        with insecure_randomness(7):
            drawn.append(release_float_gaussian(zeros, 1.0, steps_of()))
    assert np.array_equal(*drawn)


def test_steps_need_their_own_reservation():
    ledger = accountant()
    mu = 0.1 * ledger.mu_cap
    counts = ledger.reserve_gaussian("counts", mu=mu, sensitivity=1)
    steps = ledger.reserve_sampled_gaussian("steps", mu=mu, sampling_rate=0.5)
    with pytest.raises(ReservationError, match="Reserve it as what it is"):
        release_float_gaussian(np.zeros(2), 1.0, counts)
    with pytest.raises(ReservationError, match="Reserve it as what it is"):
        release_gaussian(np.zeros(2, dtype=np.int64), steps)
    with pytest.raises(TypeError, match="float64"):
        release_float_gaussian(np.zeros(2, dtype=np.float32), 1.0, steps)
    for clip in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="clip"):
            release_float_gaussian(np.zeros(2), clip, steps)
    assert steps.used == counts.used == 0
    for rate in (0.0, 1.5):
        with pytest.raises(ValueError, match="sampling_rate"):
            ledger.reserve_sampled_gaussian("s", mu=mu, sampling_rate=rate)
