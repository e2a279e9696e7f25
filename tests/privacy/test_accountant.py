"""The ledger of a fit: what it allows, what it refuses, what it certifies."""

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings, strategies as st

from skdpsynth.exceptions import BudgetExceededError, ReservationError
from skdpsynth.privacy import PrivacyAccountant, PrivacyBudget, Reservation
from skdpsynth.privacy.statistics import noisy_counts
from skdpsynth.privacy.testing import insecure_randomness


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 50.0])
def test_certificate_is_within_the_request_and_uses_it(epsilon, delta):
    accountant = PrivacyAccountant(epsilon, delta)
    claimed = accountant.epsilon  # before anything is reserved
    assert accountant.remaining_mu() == accountant.mu_cap
    mu = accountant.remaining_mu() / math.sqrt(7)
    accountant.reserve_gaussian("all", mu=mu, sensitivity=1, count=7)
    accountant.close()
    assert accountant.epsilon == claimed
    assert 0.995 * epsilon <= accountant.epsilon <= epsilon
    assert accountant.delta == delta


def test_certificate_of_a_whole_plan_with_discovery():
    accountant = PrivacyAccountant(1.0, 1e-5, discovery_delta=1e-6)
    cap = accountant.mu_cap
    accountant.reserve_gaussian("counts", mu=0.1 * cap, sensitivity=1)
    accountant.reserve_gaussian("keys", mu=0.2 * cap, sensitivity=2, delta=1e-6)
    for scope in "ab":
        mu = accountant.remaining_mu(scope) / math.sqrt(60)
        accountant.reserve_gaussian("sums", mu=mu, sensitivity=2, count=60, scope=scope)
    assert 0.995 <= accountant.epsilon <= 1.0
    # Independently: all releases that a row of class b is charged, one by one.
    pld = PLDAccountant(value_discretization_interval=1e-4)
    for entry in accountant.report().entries:
        if entry.scope != "class a":
            std = math.sqrt(entry.noise_std**2 - 4)
            pld.compose(GaussianDpEvent(std / entry.sensitivity), entry.releases)
    assert pld.get_epsilon(9e-6) == pytest.approx(accountant.epsilon, rel=1e-4)
    assert accountant.remaining_mu() < 1e-4 * cap


def test_refusal_names_what_was_asked_and_changes_nothing():
    accountant = PrivacyAccountant(1.0, 1e-5, discovery_delta=1e-6)
    cap = accountant.mu_cap
    reserve = partial(accountant.reserve_gaussian, sensitivity=1)
    reserve("first", mu=math.sqrt(0.9) * cap)
    before = accountant.report()
    words = r"'second' asks for 40\.0000% .* but 10\.0000% is left.*larger epsilon"
    with pytest.raises(BudgetExceededError, match=words):
        reserve("second", mu=math.sqrt(0.1) * cap, count=4)
    with pytest.raises(BudgetExceededError, match=r"20\.0000% of delta, but 10\.0000%"):
        reserve("third", mu=1e-3, delta=2e-6)
    with pytest.raises(BudgetExceededError, match="'fourth'"):
        reserve("fourth", mu=math.inf)
    assert accountant.report() == before
    reserve("fits", mu=accountant.remaining_mu(), delta=1e-6)


def test_delta_of_releases_adds_up_over_their_count():
    accountant = PrivacyAccountant(1.0, 1e-5, discovery_delta=1e-6)
    reserve = partial(accountant.reserve_gaussian, "x", mu=1e-3, sensitivity=1)
    with pytest.raises(BudgetExceededError, match="delta"):
        reserve(count=3, delta=5e-7)
    reserve(count=2, delta=5e-7)
    with pytest.raises(BudgetExceededError, match="delta"):
        reserve(delta=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(0.01, 0.9),
            st.integers(1, 5),
            st.sampled_from([None, "a", "b", "c"]),
        ),
        max_size=12,
    )
)
def test_no_sequence_of_requests_passes_the_cap(requests):
    accountant = PrivacyAccountant(1.0, 1e-5)
    cap = accountant.mu_cap
    granted = []
    for share, count, scope in requests:
        try:
            accountant.reserve_gaussian(
                "x", mu=share * cap, sensitivity=1, count=count, scope=scope
            )
        except BudgetExceededError:
            continue
        granted.append((count * (share * cap) ** 2, scope))
    everybody = sum(charge for charge, scope in granted if scope is None)
    # What all rows are charged has to fit into the class that pays most.
    least = min(accountant.remaining_mu(name) for name in "abc")
    assert accountant.remaining_mu() == pytest.approx(least, abs=1e-9)
    for name in "abc":
        own = sum(charge for charge, scope in granted if scope == name)
        assert everybody + own <= cap**2 * (1 + 2e-9)
        assert accountant.remaining_mu(name) ** 2 == pytest.approx(
            max(cap**2 - everybody - own, 0.0), abs=1e-9
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("delta", value) for value in (-1e-9, math.nan)),
        ("sensitivity", 0),
        ("count", 0),
        *(("scope", value) for value in (math.nan, pd.NA)),  # not equal to itself
    ],
)
def test_arguments_out_of_range(name, value):
    accountant = PrivacyAccountant(1.0, 1e-5, discovery_delta=1e-6)
    arguments = {"mu": 0.1, "sensitivity": 1, "count": 1, "delta": 0.0} | {name: value}
    with pytest.raises(ValueError, match="must"):
        accountant.reserve_gaussian("x", **arguments)
    assert accountant.report().entries == ()


@pytest.mark.parametrize(
    ("epsilon", "delta", "discovery"),
    [
        *((value, 1e-5, 0.0) for value in (0.0, -1.0, math.nan)),
        *((1.0, value, 0.0) for value in (0.0, 1.0)),
        *((1.0, 1e-5, value) for value in (1e-5, -1e-6)),
        (1.0, 0.5, 0.2),
    ],
)
def test_constructor_refuses_before_charging(epsilon, delta, discovery):
    budget = PrivacyBudget(10.0, 0.9)
    with pytest.raises(ValueError, match="must be"):
        PrivacyAccountant(epsilon, delta, discovery_delta=discovery, budget=budget)
    assert budget.spent == (0.0, 0.0)


@pytest.mark.parametrize("step", ["construct", "reserve", "draw", "close"])
def test_insecure_randomness_at_any_step_is_remembered(step):
    def run(name, call):
        with insecure_randomness(0) if name == step else nullcontext():
            return call()

    accountant = run("construct", lambda: PrivacyAccountant(1.0, 1e-5))
    reservation = run(
        "reserve", lambda: accountant.reserve_gaussian("x", mu=0.1, sensitivity=1)
    )
    run("draw", reservation._draw_down)
    run("close", accountant.close)
    assert accountant.epsilon == math.inf
    assert not accountant.private
    assert "insecure_randomness" in str(accountant.report())


# --- No way round a reservation: forged, copied, exhausted, closed or borrowed ones ---


# What draws noise of whole numbers, for every mechanism.
NOISE = "skdpsynth.privacy._mechanisms._discrete"


def release(reservation):
    return noisy_counts(np.array([0, 2]), 3, reservation)


@pytest.fixture
def accountant():
    return PrivacyAccountant(1.0, 1e-5)


@pytest.fixture
def reservation(accountant):
    return accountant.reserve_gaussian(
        "test", mu=0.1, sensitivity=math.sqrt(3), count=2, scope="a"
    )


@pytest.fixture
def _no_noise(monkeypatch):
    def drawn(*args, **law):
        raise AssertionError("noise was drawn without a reservation")

    monkeypatch.setattr(NOISE, drawn)


def test_fields(reservation):
    assert (reservation.name, reservation.scope) == ("test", "a")
    assert (reservation.mu, reservation.sensitivity) == (0.1, math.sqrt(3))
    assert reservation.noise_std == pytest.approx(math.sqrt(300 + 4))
    assert (reservation.delta, reservation.count, reservation.used) == (0.0, 2, 0)
    assert "used=0/2" in repr(reservation)
    release(reservation)
    assert reservation.used == 1
    for field in ("noise_std", "used", "count", "mu", "_ledger", "x"):
        with pytest.raises(AttributeError, match="cannot assign"):
            setattr(reservation, field, 0)


@pytest.mark.usefixtures("_no_noise")
def test_a_draw_of_too_many_uses_none(reservation):
    with pytest.raises(ReservationError, match="3 more were asked for"):
        reservation._draw_down(3)
    for n in (0, -1):  # it gives nothing back
        with pytest.raises(ValueError, match=">= 1"):
            reservation._draw_down(n)
    assert reservation.used == 0
    reservation._draw_down(2)
    with pytest.raises(ReservationError, match=r"holds 2 releases and 2 are used"):
        release(reservation)
    assert reservation.used == 2


@pytest.mark.usefixtures("_no_noise")
@pytest.mark.parametrize(
    ("match", "closed"), [("The fit is over", True), ("Another process", False)]
)
def test_after_the_end_and_in_a_forked_process_nothing_is_left(
    match, closed, monkeypatch, accountant, reservation
):
    if closed:
        accountant.close()
    else:
        monkeypatch.setattr("skdpsynth.privacy._accountant.os.getpid", lambda: -1)
    with pytest.raises(ReservationError, match=match):
        release(reservation)
    with pytest.raises(ReservationError, match=match):
        accountant.reserve_gaussian("x", mu=0.1, sensitivity=1)


@pytest.mark.usefixtures("_no_noise")
def test_forged_subclassed_or_borrowed(reservation):
    class Generous(Reservation):
        def _draw_down(self, n=1):
            pass

    def holding(ledger, kind=Reservation):
        made = object.__new__(kind)
        object.__setattr__(made, "_ledger", ledger)
        return made

    with pytest.raises(ReservationError, match="cannot be constructed"):
        Reservation("x", mu=0.1)
    own, generous = reservation._ledger, SimpleNamespace(_draw_down=lambda *_: None)
    twin = object.__new__(Reservation)
    vars(twin).update(vars(reservation))
    for forged in (object.__new__(Reservation), holding(own), holding(generous), twin):
        with pytest.raises(ReservationError, match="in no ledger"):
            release(forged)
        with pytest.raises(ReservationError, match="in no ledger"):
            forged._draw_down()
    look_alike = SimpleNamespace(
        noise_std=1.0, sensitivity=9.0, _draw_down=lambda n: None
    )
    for fake in (holding(own, Generous), look_alike):
        with pytest.raises(ReservationError, match=r"Expected a Reservation|no ledger"):
            release(fake)
    assert reservation.used == 0
    other = PrivacyAccountant(1.0, 1e-5).reserve_gaussian("o", mu=0.1, sensitivity=1)
    object.__setattr__(reservation, "_ledger", other._ledger)
    with pytest.raises(ReservationError, match="in no ledger"):
        release(reservation)
    assert other.used == 0


@pytest.mark.parametrize(
    "copier", [copy.copy, copy.deepcopy, pickle.dumps, lambda r: copy.deepcopy([r])]
)
def test_neither_a_ledger_nor_its_line_is_copied(accountant, reservation, copier):
    for own in (accountant, reservation):
        with pytest.raises(ReservationError, match="cannot be copied or pickled"):
            copier(own)


@pytest.mark.parametrize("change", [{"noise_std": 0.0}, {"count": 100}])
def test_a_reservation_that_was_changed_draws_nothing(reservation, change):
    vars(reservation).update(change)
    with pytest.raises(ReservationError, match="changed after it was issued"):
        release(reservation)
    assert reservation.used == 0


def test_threads_share_the_count(accountant):
    reservation = accountant.reserve_gaussian("x", mu=1e-3, sensitivity=1, count=200)

    def draw(_):
        try:
            reservation._draw_down()
        except ReservationError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        drawn = [*pool.map(draw, range(400))]
    assert reservation.used == sum(drawn) == 200


def test_a_failed_draw_stays_used(monkeypatch, reservation):
    def broken(std):
        raise OSError("no entropy")

    monkeypatch.setattr(NOISE, broken)
    with pytest.raises(OSError, match="no entropy"):
        release(reservation)
    assert reservation.used == 1
