"""G-PATE's privacy argument: ledger and noise, with broken twins that are caught.

Ledger: what was drawn is what was planned. Noise: it has the size that the ledger says.
The other half, influence and flow, is in `test_gpate_privacy.py`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from _small_table import make_table
from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.stats import chi2

from skdpsynth import GPATESynthesizer
from skdpsynth.exceptions import ReservationError
from skdpsynth.nn import _linear_teachers
from skdpsynth.privacy import _aggregators, _mechanisms, _tables
from skdpsynth.privacy._calibration import gdp_mu
from skdpsynth.schema import Categorical, Continuous, TableSchema
from skdpsynth.synthesizers import _gpate, _gpate_plan

pytestmark = [
    pytest.mark.usefixtures("short_fits"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.DegradedResultWarning"),
]

DELTA = 1e-5
COLUMNS = {
    "a": Continuous(-6, 8, scale="linear", decimals="any"),
    "b": Continuous(-6, 6, nullable=True, scale="linear", decimals="any"),
    "c": Categorical(["p", "q", "r"]),
    "y": Categorical(["u", "v"]),
}
COUNTED = TableSchema(COLUMNS, target="y", class_counts={"u": 90, "v": 60})
UNCOUNTED = TableSchema(COLUMNS, target="y")
VOTES = {"aggregator": "confident_gnmax", "projection_dim": 2}
# Linear teachers are in LINEAR; what others say has as many numbers as loadings.
LINEAR = [{}, {"init": "marginals"}]
HIDDEN = {"hidden_dims": (4,)}
FACTORS = {"init": "marginals"} | HIDDEN
SMALL = {"batch_size": 8, "latent_dim": 2, "random_state": 0, "delta": DELTA}


def fit(table, **parameters):
    return GPATESynthesizer(**(SMALL | {"schema": COUNTED} | parameters)).fit(table)


# --- Ledger ----------------------------------------------------------------------


def fit_spied(monkeypatch, table=None, **parameters):
    """Fit, and list every draw of noise: its name, class, size, number and noise."""
    real, draws = _mechanisms.release_gaussian, []

    def spy(values, reservation, n_releases=1):
        noisy = real(values, reservation, n_releases)
        noise = (noisy - values).astype(np.float64).ravel()
        draws.append(
            {
                "name": reservation.name.split(",")[0],
                "scope": reservation.scope,
                "n": n_releases,
                "std": reservation.noise_std,
                "noise": noise,
            }
        )
        return noisy

    for home in (_aggregators, _tables, _linear_teachers):
        monkeypatch.setattr(home, "release_gaussian", spy)
    return fit(make_table() if table is None else table, **parameters), draws


def total(draws, name, scope, key=lambda draw: draw["noise"].size):
    return sum(key(d) for d in draws if d["name"] == name and d["scope"] == scope)


SUMS, LINEAR_SUMS, ANSWERS, TESTS, PAIRS = (
    "sums of teachers' gradients",
    "sums of linear teachers",
    "answers by vote",
    "threshold tests",
    "3 pair tables",
)
# Sensitivities by the proofs, not by the package; those of marginals are collected.
SENSITIVITIES = {
    "class counts": 1.0,
    SUMS: 2.0 * 2**20,
    LINEAR_SUMS: 2.0**20,
    ANSWERS: math.sqrt(2),
    TESTS: 1.0,
    PAIRS: math.sqrt(3),  # a cell of the table of each pair of three columns
}


def certified_by_dp_accounting(draws, of_marginals):
    """Epsilon of the worst class, from the draws and their sensitivities."""
    results = []
    for scope in ("u", "v"):
        proven = {name: found.get(scope) for name, found in of_marginals.items()}
        proven |= SENSITIVITIES
        events = [
            SelfComposedDpEvent(
                GaussianDpEvent(math.sqrt(d["std"] ** 2 - 4) / proven[d["name"]]),
                d["n"],
            )
            for d in draws
            if d["scope"] in (None, scope)
        ]
        accountant = PLDAccountant().compose(ComposedDpEvent(events))
        results.append(accountant.get_epsilon(DELTA))
    return max(results)


@pytest.mark.parametrize(
    ("schema", "epsilon"), [(COUNTED, 4.0), (UNCOUNTED, 0.5)], ids=["counted", "bought"]
)
@pytest.mark.parametrize(
    "mode", [*LINEAR, HIDDEN, FACTORS, {"init": "random"}, VOTES], ids=str
)
def test_epsilon_by_dp_accounting_is_what_was_asked_for(
    mode, schema, epsilon, proven_sensitivities, monkeypatch
):
    synthesizer, draws = fit_spied(
        monkeypatch, epsilon=epsilon, schema=schema, n_iter=3, **mode
    )
    found = certified_by_dp_accounting(draws, proven_sensitivities)
    assert 0.98 * epsilon <= found <= epsilon
    assert found == pytest.approx(synthesizer.epsilon_, rel=1e-3)
    assert synthesizer.epsilon_ <= epsilon
    for entry in synthesizer.privacy_report().entries:
        assert entry.used == entry.releases > 0


@pytest.mark.parametrize("mode", [HIDDEN, FACTORS], ids=str)
def test_every_sum_is_drawn_once_per_step_and_class(mode, monkeypatch):
    """Of one number per loading; on pairs per feature, of which there are as many."""
    _, draws = fit_spied(monkeypatch, n_iter=5, **mode)
    size = 3 * 2
    for scope in ("u", "v"):
        assert total(draws, SUMS, scope) == 5 * size
        assert total(draws, SUMS, scope, lambda draw: draw["n"]) == 5


@pytest.mark.usefixtures("pairs_for_all")
@pytest.mark.parametrize(("init", "share"), [("pairs", 0.05), ("marginals", 0.3)])
def test_every_vote_of_every_fake_is_charged(init, share, monkeypatch):
    """m * k tests and answers per step, not k: batch 8, 2 dimensions, 10 bins."""
    _, draws = fit_spied(monkeypatch, n_iter=3, init=init, **VOTES)
    n_queries = 3 * 8 * 2
    for scope in ("u", "v"):
        for name, width in ((ANSWERS, 10), (TESTS, 1)):
            assert total(draws, name, scope) == n_queries * width
            assert total(draws, name, scope, lambda draw: draw["n"]) == n_queries
    (answer,) = {d["std"] for d in draws if d["name"] == ANSWERS}
    (test,) = {d["std"] for d in draws if d["name"] == TESTS}
    # The closed form; each sigma^2 has 4 more for the discrete Gaussian.
    answer, test = math.sqrt(answer**2 - 4), math.sqrt(test**2 - 4)
    training = n_queries * (2 / answer**2 + 1 / test**2)
    assert test / answer == pytest.approx(1500 / 600)
    assert training == pytest.approx(share * gdp_mu(1.0, DELTA) ** 2, rel=2e-3)


def test_the_threshold_is_a_share_of_the_planned_teachers(monkeypatch):
    seen = []

    def keep(votes, threshold, tests, answers):
        seen.append((votes.shape, threshold, tests.name, answers.name))
        return np.full(len(votes), -1)

    monkeypatch.setattr(_gpate, "confident_gnmax", keep)
    fit(make_table(), n_iter=1, n_teachers=30, threshold=0.4, n_bins=7, **VOTES)
    assert seen == [((16, 7), pytest.approx(12.0), TESTS, ANSWERS)] * 2


@pytest.mark.parametrize("mode", [{}, HIDDEN, VOTES], ids=str)
def test_a_plan_without_the_factor_m_or_2_cannot_run(mode, monkeypatch):
    """Twins: k queries instead of m * k, and sensitivity C instead of 2C."""
    plan = _gpate_plan.plan_training

    def without_factor(*args, **kwargs):
        planned = plan(*args, **kwargs)
        return planned | {"n_queries": planned["n_queries"] // SMALL["batch_size"]}

    if mode == VOTES:
        monkeypatch.setattr(_gpate, "plan_training", without_factor)
    else:
        monkeypatch.setattr(_gpate_plan, "GRID", 2**19)
    with pytest.raises((ReservationError, ValueError)):
        fit(make_table(), n_iter=2, **mode)


def test_the_whole_run_is_reserved_before_any_marginal_is_drawn(monkeypatch):
    """Nothing can run out in the middle of the training."""
    synthesizer, draws = fit_spied(monkeypatch, n_iter=2)
    names = [entry.name for entry in synthesizer.privacy_report().entries]
    assert names.index(LINEAR_SUMS) < names.index("marginals")
    assert [d["name"] for d in draws].index(LINEAR_SUMS) > 0


# --- Noise -----------------------------------------------------------------------


def noise_is_right(draws):
    """Two-sided chi-square test at 1e-6 that noise has the size of the ledger."""
    scaled = np.concatenate([draw["noise"] / draw["std"] for draw in draws])
    low, high = chi2.ppf([5e-7, 1 - 5e-7], scaled.size)
    return bool(low < (scaled**2).sum() < high)


def weaker(factor):
    real = _mechanisms._measurement

    def measurement(std):
        if factor == 0:
            return lambda values: values
        return real(factor * std)

    return measurement


@pytest.mark.parametrize(
    "mode", [{"n_iter": 90}, {"n_iter": 60} | HIDDEN, {"n_iter": 4} | VOTES], ids=str
)
@pytest.mark.parametrize("factor", [1.0, 0.7, 0.0])
def test_the_noise_drawn_has_the_size_of_the_ledger(factor, mode, monkeypatch):
    """False alarms at 2e-6; noise of 0.7 sigma, and none, are caught."""
    if factor < 1:
        monkeypatch.setattr(_mechanisms, "_measurement", weaker(factor))
    _, draws = fit_spied(monkeypatch, **mode)
    wanted = {ANSWERS, TESTS} if "aggregator" in mode else {SUMS, LINEAR_SUMS}
    training = [draw for draw in draws if draw["name"] in wanted]
    assert sum(draw["noise"].size for draw in training) > 500
    assert noise_is_right(training) == (factor == 1.0)


@pytest.mark.parametrize("factor", [1.0, 0.7])
def test_without_signal_the_update_is_noise_of_the_planned_size(factor, monkeypatch):
    """Silent teachers: released sums have the planned std in clipping norms.

    Two-sided chi-square test; false alarms at 1e-6. The twin of 0.7 sigma is caught.
    """
    if factor < 1:
        monkeypatch.setattr(_mechanisms, "_measurement", weaker(factor))
    real_sum, real_gradients, sums = _gpate.gaussian_sum, _gpate.teacher_gradients, []

    def silent(*arguments):
        return np.zeros_like(real_gradients(*arguments))

    def keep(vectors, clip, reservation):
        sums.append(real_sum(vectors, clip, reservation) / clip)
        return np.zeros(vectors.shape[1])

    monkeypatch.setattr(_gpate, "teacher_gradients", silent)
    monkeypatch.setattr(_gpate, "gaussian_sum", keep)
    synthesizer = fit(make_table(), n_iter=60, **HIDDEN)
    plan = synthesizer.plan(150, class_counts={"u": 90, "v": 60})
    (std,) = set(plan["step_noise_std"])
    values = np.concatenate(sums) / std
    assert values.size == 2 * 60 * 6
    low, high = chi2.ppf([5e-7, 1 - 5e-7], values.size)
    assert (low < (values**2).sum() < high) == (factor == 1.0)


def test_infinite_epsilon_draws_no_noise(monkeypatch):
    synthesizer, draws = fit_spied(monkeypatch, epsilon=math.inf, n_iter=2)
    assert all(not draw["noise"].any() and draw["std"] == 0 for draw in draws)
    assert synthesizer.epsilon_ == math.inf
