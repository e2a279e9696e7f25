"""GPATESynthesizer: its plans, its votes, and broken twins that are caught.

What it has in common with the others is in `test_class_gan.py` and `test_privacy.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from _releases import GRID, flow, influence, watched
from _twins import after_encoding, slices, standardised_together
from _ways import DELTA, TABLE, WAYS, table_of, without_schema
from sklearn.base import clone
from tables import correlated_schema, correlated_table

from skdpsynth import GPATESynthesizer
from skdpsynth.exceptions import DegradedResultWarning, ReservationError
from skdpsynth.privacy import PrivacyAccountant, _aggregators

# Its teachers, sums and plans, which the twins break.
from skdpsynth.synthesizers import _gpate
from skdpsynth.training import _teachers

pytestmark = pytest.mark.usefixtures("hardly_any_fit")

FACTORS = {"init": "marginals"}
ANSWERS, TESTS = "answers by vote", "threshold tests"

# --- Plans -----------------------------------------------------------------------


def plan_of(counts, **parameters):
    synthesizer = GPATESynthesizer(schema=correlated_schema(), **parameters)
    return synthesizer.plan(class_counts=counts).set_index("class")


@pytest.mark.parametrize(("share", "mode"), [(0.05, {"n_iter": 10}), (0.3, FACTORS)])
def test_a_plan_spends_what_the_measurements_leave(share, mode):
    """Squared mu: 8 % for counts and values, of the rest a share for sums at 2C."""
    plan = plan_of({"u": 50_000, "v": 50_000}, **mode)
    mu_squared = 4 * plan["n_iter"] / plan["step_noise_std"] ** 2
    accountant = PrivacyAccountant(1.0, 1e-5, discovery_delta=1e-6)
    expected = share * 0.92 * accountant.mu_cap**2
    np.testing.assert_allclose(mu_squared, expected, rtol=1e-9)


def test_teachers_and_steps_follow_the_counts():
    """A teacher of a single row would have nothing to aggregate."""
    plan = plan_of({"u": 300_000, "v": 20_000}, **FACTORS)
    assert list(plan["n_teachers"]) == [4096, 2500]
    assert list(plan["n_iter"]) == [40, 40]
    less = plan_of({"u": 300_000, "v": 4000}, **FACTORS)
    assert 4 <= less["n_iter"]["v"] < 40 == less["n_iter"]["u"]
    # The norm of the teachers' mean at the nominal coherence, per parameter.
    signal = 0.25 * less["n_teachers"] / math.sqrt(2 * 4)
    assert (signal >= less["step_noise_std"] * (1 - 1e-9)).all()
    for asked in (7, 50, 10**6):
        plan = plan_of({"u": 100, "v": 31}, n_teachers=asked, n_iter=2)
        assert list(plan["n_teachers"]) == [min(asked, 50), min(asked, 15)]


@pytest.mark.parametrize("given", [{"epsilon": 1e-3}, {"noise_multiplier": 1e-3}])
def test_a_random_model_says_that_it_learns_nothing(given):
    synthesizer = GPATESynthesizer(init="random", schema=correlated_schema(), **given)
    assert synthesizer.plan(200)["note"].all()
    with pytest.warns(DegradedResultWarning):
        synthesizer.fit(correlated_table(200))
    assert len(synthesizer.sample(100).dropna()) == 100


# --- Votes and sums ----------------------------------------------------------------


@pytest.mark.parametrize(("init", "share"), [("measured", 0.05), ("marginals", 0.3)])
def test_every_vote_of_every_fake_is_charged(init, share):
    """m * k tests and answers per step, not k: batch 8, 2 dimensions, 10 bins."""
    synthesizer = clone(WAYS["gpate votes"]).set_params(
        init=init, n_iter=3, batch_size=8, projection_dim=2
    )
    _, seen = watched(synthesizer, TABLE)
    n_queries = 3 * 8 * 2
    noise = {}
    for payer in ("u", "v"):
        for name, width in ((ANSWERS, 10), (TESTS, 1)):
            own = [s for s in seen if (s.name, s.payer) == (name, payer)]
            assert sum(s.release.n_releases for s in own) == n_queries
            assert sum(s.release.exact.size for s in own) == n_queries * width
            # The closed form; each sigma^2 has 4 more for the discrete Gaussian.
            noise[name] = math.sqrt(own[0].line.noise_std ** 2 - 4)
    # Without what frequent values are found with: 4 % of squared mu, 10 % of delta.
    rest = 0.96 * PrivacyAccountant(4.0, 0.9 * DELTA).mu_cap ** 2
    training = n_queries * (2 / noise[ANSWERS] ** 2 + 1 / noise[TESTS] ** 2)
    assert noise[TESTS] / noise[ANSWERS] == pytest.approx(1500 / 600)
    assert training == pytest.approx(share * rest, rel=2e-3)


def test_the_threshold_is_a_share_of_the_planned_teachers(monkeypatch):
    seen = []

    def keep(votes, threshold, tests, answers):
        seen.append((votes.shape, threshold, tests.name, answers.name))
        return np.full(len(votes), -1)

    monkeypatch.setattr(_gpate, "confident_gnmax", keep)
    settings = {"n_iter": 1, "n_teachers": 30, "threshold": 0.4, "n_bins": 7}
    clone(WAYS["gpate votes"]).set_params(**settings).fit(TABLE)
    assert seen == [((8, 7), pytest.approx(12.0), TESTS, ANSWERS)] * 2


@pytest.mark.parametrize("way", ["gpate", "gpate votes"])
def test_a_plan_without_the_factor_m_or_2_cannot_run(way, monkeypatch):
    """Twins: k queries instead of m * k, and sensitivity C instead of 2C."""
    plan = GPATESynthesizer._plan_training

    def without_factor(*args, **kwargs):
        planned = plan(*args, **kwargs)
        return replace(planned, n_queries=planned.n_queries // WAYS[way].batch_size)

    if way == "gpate votes":
        monkeypatch.setattr(GPATESynthesizer, "_plan_training", without_factor)
    else:
        monkeypatch.setattr(_gpate, "GRID", GRID // 2)
    with pytest.raises((ReservationError, ValueError)):
        clone(WAYS[way]).fit(TABLE)


# --- Broken twins ------------------------------------------------------------------


def centred_together(*arguments):
    vectors = teacher_gradients(*arguments)
    return vectors - vectors.mean(axis=0)


teacher_gradients = _gpate.teacher_gradients
CASES = [
    (_teachers, "assign_teachers", slices, "gpate"),
    (_gpate, "teacher_gradients", centred_together, "gpate"),
    (*after_encoding(standardised_together)["measured"], "gpate"),
]


@pytest.mark.parametrize(("where", "name", "twin", "way"), CASES)
def test_one_row_that_moves_several_teachers_is_caught(
    where, name, twin, way, monkeypatch
):
    monkeypatch.setattr(where, name, twin)
    assert influence(WAYS[way], table_of(way), until="teachers change")[1]


def exact_sum(vectors, clip, reservation):
    _aggregators.gaussian_sum(vectors, clip, reservation)
    return vectors.sum(axis=0, dtype=np.float64)


def test_flow_round_the_mechanism_is_caught(monkeypatch):
    monkeypatch.setattr(_gpate, "gaussian_sum", exact_sum)
    other = table_of("gpate", seed=2, n_rows=1500)
    assert "the generator" in flow(without_schema(WAYS["gpate"]), TABLE, other)
