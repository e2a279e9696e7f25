"""Noisy votes and DP-SGD steps: what is released, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from skdpsynth.exceptions import BudgetExceededError, ReservationError
from skdpsynth.privacy import PrivacyAccountant, _accountant
from skdpsynth.privacy import _mechanisms as mechanisms
from skdpsynth.privacy._aggregators import noisy_votes
from skdpsynth.privacy._curves import GaussianCurve, RenyiCurve, sampled_mu, vote_mu
from skdpsynth.privacy._mechanisms import release_float_gaussian, release_gaussian
from skdpsynth.privacy._reservation import UNLABELLED
from skdpsynth.privacy.testing import insecure_randomness

FALSE_ALARM = 1e-6


def accountant(**parameters) -> PrivacyAccountant:
    return PrivacyAccountant(1.0, 1e-5, curve="renyi", **parameters)


def votes_of(count=1, n_teachers=100, noise="gaussian", ledger=None):
    ledger = ledger or accountant()
    mu = ledger.remaining_mu() / math.sqrt(count)
    return ledger.reserve_votes(
        "votes", mu=mu, n_teachers=n_teachers, count=count, noise=noise
    )


def steps_of(count=1, rate=0.1, ledger=None):
    ledger = ledger or accountant()
    mu = ledger.remaining_mu() / math.sqrt(count)
    return ledger.reserve_sampled_gaussian(
        "steps", mu=mu, sampling_rate=rate, count=count
    )


# --- The whole run -----------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_a_mixed_run_is_within_the_request_and_uses_it(epsilon):
    ledger = PrivacyAccountant(epsilon, 1e-5, curve="renyi", discovery_delta=1e-6)
    cap = ledger.mu_cap
    ledger.reserve_gaussian("counts", mu=0.2 * cap, sensitivity=1)
    for scope in "ab":
        left = ledger.remaining_mu(scope)
        ledger.reserve_votes(
            "votes", mu=left / 10, n_teachers=99, count=36, scope=scope
        )
        left = ledger.remaining_mu(scope)
        ledger.reserve_sampled_gaussian(
            "steps", mu=left / 5, sampling_rate=0.2, count=25, scope=scope
        )
    assert 0.98 * epsilon <= ledger.epsilon <= epsilon
    report = ledger.report()
    assert any("floating-point" in note for note in report.notes)
    assert report.get_epsilon(1e-5) == pytest.approx(ledger.epsilon, rel=2e-3)
    assert report.order == ledger.curve.order
    with pytest.raises(BudgetExceededError):
        ledger.reserve_sampled_gaussian(
            "more", mu=0.05 * cap, sampling_rate=0.01, scope="a"
        )


def test_sampling_and_bits_buy_more_than_the_gaussian_curve():
    """The same mu, less noise; and the gain is worth the cost of the order."""
    for curve in ("gaussian", "renyi"):
        ledger = PrivacyAccountant(1.0, 1e-5, curve=curve)
        sampled = steps_of(50, 0.1, ledger)
        noise = {"gaussian": 26.0, "renyi": 4.0}[curve]
        assert sampled.noise_std == pytest.approx(noise, rel=0.25)


def test_replacing_a_row_costs_twice_where_rows_are_sampled():
    """Group privacy of two, at a smaller delta; sqrt(2) in mu elsewhere."""
    ledger = accountant()
    ledger.reserve_sampled_gaussian(
        "steps", mu=ledger.mu_cap, sampling_rate=0.5, scope="a"
    )
    report = ledger.report()
    epsilon = report.epsilon_replace_one
    assert 2 * report.epsilon < epsilon < 2.6 * report.epsilon
    whole = accountant()
    whole.reserve_sampled_gaussian("s", mu=whole.mu_cap, sampling_rate=1.0, scope="a")
    twice = whole.curve.epsilon(2 * whole.mu_cap, 1e-5)  # x becomes -x: 2C for C
    assert whole.report().epsilon_replace_one == pytest.approx(twice)
    gaussian = PrivacyAccountant(1.0, 1e-5)
    gaussian.reserve_sampled_gaussian(
        "s", mu=gaussian.mu_cap, sampling_rate=0.5, scope=1
    )
    assert gaussian.report().epsilon_replace_one == pytest.approx(2.154, abs=2e-3)
    voted = accountant()
    voted.reserve_votes("votes", mu=voted.mu_cap, n_teachers=9, scope="a")
    assert report.epsilon < voted.report().epsilon_replace_one < epsilon


def test_two_kinds_of_rows_are_told_apart():
    """Each pays its own scope and what all rows pay; the claim is the larger."""
    ledger = accountant()
    cap = ledger.mu_cap
    ledger.reserve_gaussian("counts", mu=0.3 * cap, sensitivity=1)
    ledger.reserve_votes("votes", mu=0.9 * cap, n_teachers=9, scope="a")
    ledger.reserve_sampled_gaussian(
        "steps", mu=0.5 * cap, sampling_rate=0.5, scope=UNLABELLED
    )
    ledger.remark("Two kinds of rows.")
    report = ledger.report()
    labelled, unlabelled = ledger.epsilon_of("a"), ledger.epsilon_of(UNLABELLED)
    assert unlabelled < labelled == ledger.epsilon == report.epsilon
    curve, delta = ledger.curve, ledger.delta
    expected = curve.epsilon(cap * math.hypot(0.3, 0.5), delta)
    assert unlabelled == pytest.approx(expected, rel=1e-6)
    assert report.entries[2].scope == "rows without a label"
    assert "Two kinds of rows." in report.notes
    found = accountant(discovery_delta=4e-6)
    found.reserve_gaussian("keys", mu=0.9 * found.mu_cap, sensitivity=1, delta=4e-6)
    left = found.curve.epsilon(0.9 * found.mu_cap, 6e-6)
    assert found.epsilon_of("a") == pytest.approx(left, rel=1e-6)
    free = PrivacyAccountant(math.inf, 1e-5)
    assert free.epsilon_of("a") == math.inf


# --- What a charge buys ------------------------------------------------------------

MU, RATE, N_TEACHERS, SENSITIVITY = 0.05, 0.1, 9, 3.0
CURVES = ["gaussian", "renyi"]
RESERVE = {
    "gaussian": lambda ledger, mu: ledger.reserve_gaussian(
        "counts", mu=mu, sensitivity=SENSITIVITY
    ),
    "sampled gaussian": lambda ledger, mu: ledger.reserve_sampled_gaussian(
        "steps", mu=mu, sampling_rate=RATE
    ),
    "gaussian vote": lambda ledger, mu: ledger.reserve_votes(
        "votes", mu=mu, n_teachers=N_TEACHERS
    ),
    "laplace vote": lambda ledger, mu: ledger.reserve_votes(
        "votes", mu=mu, n_teachers=N_TEACHERS, noise="laplace"
    ),
}


def cost_of(kind, std, curve):
    """What noise of this size has to be charged, from its law alone.

    `test_curves.py` holds both costs at an order against integrals and sums.
    """
    if kind == "gaussian":
        return SENSITIVITY / math.sqrt(std**2 - 4)
    if isinstance(curve, RenyiCurve):
        if kind == "sampled gaussian":
            return sampled_mu(curve.order, RATE, std)
        return vote_mu(curve.order, std, N_TEACHERS, kind.removesuffix(" vote"))
    if kind == "sampled gaussian":
        return 1 / std
    if kind == "gaussian vote":
        return 1 / math.sqrt(std**2 - 4)
    return 2 * stats.norm.isf(1 / (1 + math.exp(1 / std)))  # pure 1/std


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("kind", RESERVE)
def test_the_noise_is_worth_its_charge(kind, curve):
    """Not less, which would break the claim; and not more."""
    ledger = PrivacyAccountant(1.0, 1e-5, curve=curve)
    reservation = RESERVE[kind](ledger, MU)
    assert (reservation.kind, reservation.mu) == (kind, MU)
    cost = cost_of(kind, reservation.noise_std, ledger.curve)
    assert cost == pytest.approx(MU, rel=1e-5)
    if kind.endswith("vote"):
        law = kind.removesuffix(" vote")
        expected = ledger.curve.vote_noise_std(MU, N_TEACHERS, law)
        assert reservation.noise_std == expected


@pytest.mark.parametrize("mu", [0.0, -0.1, math.nan, 1e-200])
@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("kind", RESERVE)
def test_a_charge_out_of_range_is_refused_before_noise_is_computed(
    kind, curve, mu, monkeypatch
):
    """The search for a noise that a negative charge would buy has no end."""

    def computed(*args):
        raise AssertionError(args)

    monkeypatch.setattr(_accountant, "grid_noise_std", computed)
    for law in (GaussianCurve, RenyiCurve):
        monkeypatch.setattr(law, "sampled_noise_multiplier", computed)
        monkeypatch.setattr(law, "vote_noise_std", computed)
    ledger = PrivacyAccountant(1.0, 1e-5, curve=curve)
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
    ledger = PrivacyAccountant(math.inf, 1e-5, curve="renyi")
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
    # The noisy count of a vote was not paid for: the bit was.
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
    with pytest.raises(ValueError, match="at least 1 teacher"):
        accountant().reserve_votes("v", mu=0.1, **{"n_teachers": 3, **bad})


# --- Steps -------------------------------------------------------------------------


def p_value_of_variance(reservation, clip):
    released = release_float_gaussian(np.zeros(20_000), clip, reservation)
    statistic = float((released**2).sum() / (reservation.noise_std * clip) ** 2)
    one_sided = stats.chi2.cdf(statistic, 20_000)
    return 2 * min(one_sided, 1 - one_sided)


def test_a_step_has_the_noise_that_was_planned():
    assert p_value_of_variance(steps_of(), 0.3) > FALSE_ALARM


@pytest.mark.parametrize("factor", [0.0, 0.9])
def test_smaller_noise_of_a_step_is_found(factor, monkeypatch):
    original = mechanisms.secret_generator

    class Weaker:
        def normal(self, mean, std, shape):
            return original().normal(mean, std * factor, shape)

    monkeypatch.setattr(mechanisms, "secret_generator", Weaker)
    assert p_value_of_variance(steps_of(), 0.3) < FALSE_ALARM


def test_a_step_adds_noise_to_the_sum_and_draws_down():
    ledger = PrivacyAccountant(math.inf, 1e-5, curve="renyi")
    free = ledger.reserve_sampled_gaussian("s", mu=math.inf, sampling_rate=0.5)
    total = np.array([1.0, -2.0])
    assert release_float_gaussian(total, 1.0, free).tolist() == [1.0, -2.0]
    assert free.used == 1
    with pytest.raises(ReservationError, match="1 more were asked for"):
        release_float_gaussian(total, 1.0, free)


def test_noise_of_two_steps_differs():
    first = release_float_gaussian(np.zeros(5), 1.0, steps_of())
    second = release_float_gaussian(np.zeros(5), 1.0, steps_of())
    assert not np.array_equal(first, second)
    drawn = []
    for _ in range(2):
        with insecure_randomness(7):
            ledger = accountant()
            drawn.append(
                release_float_gaussian(np.zeros(5), 1.0, steps_of(1, 1.0, ledger))
            )
            assert ledger.epsilon == math.inf
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
