"""No way round a reservation: forged, copied, exhausted, closed or borrowed ones."""

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from skdpsynth.exceptions import ReservationError
from skdpsynth.privacy import PrivacyAccountant, Reservation, noisy_counts

# What draws noise of whole numbers, for every mechanism.
NOISE = "skdpsynth.privacy._mechanisms._measurement"


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
    def drawn(*args):
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
        with pytest.raises(AttributeError, match="read-only"):
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
    for forged in (object.__new__(Reservation), holding(own), holding(generous)):
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
def test_copies(reservation, copier):
    with pytest.raises(ReservationError, match="cannot be copied or pickled"):
        copier(reservation)


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
