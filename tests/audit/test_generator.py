"""The black-box audit: what it proves of known mechanisms, and which twins it catches.

Twins of a fit are deliberately broken. The published ones that generated rows cannot
show (a student that sees real rows passed such audits) are in `test_ledger.py`.
"""

import math

import numpy as np
import pandas as pd
import pytest
from replay.twins import TWINS
from scipy.stats import norm
from tables import mixed_table

from skdpsynth import IndependentSynthesizer
from skdpsynth.audit import audit_generator, epsilon_lower_bound

# The attack on known scores, and the scores of a table.
from skdpsynth.audit._generator import COMBINED, attack, ranges_of, score_rows
from skdpsynth.audit._worlds import canary_rows
from skdpsynth.privacy import PrivacyBudget
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Categorical, Continuous, TableSchema

pytestmark = pytest.mark.statistical

DELTA, FALSE_ALARM = 1e-5, 1e-6
SETTINGS = {"claim": 1.0, "delta": DELTA, "alpha": 0.05}
TABLE = pd.DataFrame({"x": [-9.0, -8.0]})
CANARY = {"x": 9.0}
SCHEMA = TableSchema({"x": Continuous(-10, 10, scale="linear")}, n_rows=2)


class Column:
    """Anybody's object: one column of equal numbers, a statistic with noise."""

    def __init__(self, noise, epsilon=1.0):
        self.noise, self.epsilon, self.delta = noise, epsilon, DELTA

    def fit(self, table):
        self.value = float((table["x"] > 0).sum()) + self.noise()
        return self

    def sample(self, n_rows):
        return pd.DataFrame({"x": np.full(n_rows, self.value)})


def laplace(scale=1.0):
    return float(np.random.default_rng().laplace(0, scale))


def none():
    return 0.0


def audit(estimator, **settings):
    arguments = {"n_runs": 40, "n_samples": 20, "alpha": FALSE_ALARM}
    return audit_generator(estimator, TABLE, CANARY, **(arguments | settings))


def attacked(absent, present, **settings):
    """Attack runs by their scores alone, a column each."""
    return attack(*map(pd.DataFrame, (absent, present)), **(SETTINGS | settings))


def proved(noise):
    """Bound epsilon by 20,000 + 20,000 values with Laplace noise, 1 apart."""
    rng = np.random.default_rng(1)
    absent, present = rng.laplace(0, noise, (2, 20_000, 1))
    settings = {"claim": 1.0, "delta": 0.0, "alpha": FALSE_ALARM}
    return attacked(absent, 1 + present, **settings).lower_bound


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_laplace_noise_proves_nearly_what_it_costs_and_no_more(epsilon):
    """Laplace noise of scale 1 / epsilon: at the best threshold an error has a chance
    of ``exp(-epsilon / 2) / 2``. 10,000 judged runs put the bound within 10 standard
    deviations of what that chance gives, but for a probability of 1e-6 in all."""
    chance = math.exp(-epsilon / 2) / 2
    spread = math.sqrt(chance / 10_000)
    least = math.log((1 - chance - 10 * spread) / (chance + 10 * spread))
    assert 0 < least <= proved(1 / epsilon) <= epsilon


def test_no_noise_is_caught_up_to_the_ceiling():
    found = audit(Column(none))
    assert (found.false_alarms, found.misses) == (0, 0)
    assert not found.violated  # 20 judged runs cannot prove it at this level
    perfect = audit(Column(none), n_runs=200)
    rate = 1 - (FALSE_ALARM / 2) ** (1 / 100)
    assert perfect.lower_bound == pytest.approx(math.log((1 - rate - DELTA) / rate))
    assert perfect.violated


def test_what_chose_the_rule_does_not_judge_it():
    """Scores are pure chance; on the runs that chose it a rule would look good."""
    rng = np.random.default_rng(3)
    absent, present = rng.normal(size=(2, 60, 50))
    verdict = attacked(absent, present)
    assert len(verdict.absent) == len(verdict.present) == 30
    assert verdict.false_alarms + verdict.misses > 15
    absent[30:], present[30:] = 0.0, 0.0
    again = attacked(absent, present)
    assert (again.score, again.threshold) == (verdict.score, verdict.threshold)


def test_either_direction_is_found():
    absent, present = np.ones((40, 1)), np.zeros((40, 1))
    for pair in ((absent, present), (present, absent)):
        verdict = attacked(*pair)
        assert (verdict.false_alarms, verdict.misses) == (0, 0)


def test_many_weak_scores_are_combined():
    """50 scores that each move by half a deviation: 3.5 together."""
    rng = np.random.default_rng(0)
    absent, present = rng.normal(size=(2, 200, 50))
    verdict = attacked(absent, present + 0.5)
    assert verdict.score == COMBINED
    assert verdict.false_alarms + verdict.misses < 2 * 100 * norm.cdf(-1)


def test_all_rows_of_a_person_are_a_canary():
    """A person of 200 rows; a twin lets all of them in, not one."""
    schema = TableSchema(
        {"x": Continuous(0, 9)}, privacy_unit="who", max_rows_per_unit=1
    )
    synth = IndependentSynthesizer(0.3, schema=schema)
    table = pd.DataFrame({"who": np.arange(50), "x": np.arange(50.0) / 50})
    person = pd.DataFrame({"who": [99] * 200, "x": [9.0] * 200})
    given = {"n_runs": 80, "n_samples": 100, "alpha": 1e-6}
    with TWINS["no limit of rows"].planted():
        found = audit_generator(synth, table, person, **given)
    assert found.violated
    assert not found.score.endswith("who")


def scores(sample, table, canary):
    row = canary_rows(table, canary)
    return score_rows(sample, row, ranges_of(pd.concat([table, row])))


def test_scores_of_a_table_by_hand():
    table = pd.DataFrame({"x": [0.0, 8.0], "c": ["p", "q"]})
    sample = pd.DataFrame({"x": [10.0, 5.0, 0.0, np.nan], "c": ["p", "q", "p", None]})
    found = scores(sample, table, {"x": 10.0, "c": "p"})
    assert found["smallest distance"] == 0
    assert found["mean distance"] == pytest.approx((0 + 0.75 + 0.5 + 1) / 4)
    assert found["count in the cell"] == 0.25
    assert found["count near: c"] == 0.5
    assert found["mean difference: x"] == pytest.approx((0 - 0.5 - 1 + 1) / 4)
    assert found["density"] == pytest.approx(0.25, abs=1e-4)


def test_scores_of_every_dtype_are_finite():
    table = mixed_table(12).drop(columns="day").convert_dtypes()
    for position in range(12):
        row = table.iloc[[position]].reset_index(drop=True)
        found = scores(table, table, row)
        assert np.isfinite([*found.values()]).all()
        # The canary is in the table: it is found at distance 0.
        assert found["smallest distance"] == 0


@pytest.mark.parametrize(
    ("canary", "match"),
    [
        ({"x": 1.0}, "one row with the columns"),
        ({"x": 1.0, "c": "other"}, "'c'.*category"),
        ({"x": "text", "c": "p"}, "'x'.*float64"),
        (pd.DataFrame({"x": [1.0, 2.0], "c": ["p", "q"]}), "Got 2 rows"),
    ],
)
def test_canaries_that_the_table_cannot_hold(canary, match):
    table = pd.DataFrame({"x": [0.0, 8.0], "c": pd.Categorical(["p", "q"])})
    with pytest.raises(ValueError, match=match):
        canary_rows(table, canary)


def test_a_claim_without_delta_and_too_few_runs():
    found = audit(Column(none), alpha=0.05, delta=0.0)
    assert found.gdp_lower_bound == math.inf
    few = audit(Column(laplace), n_runs=8, alpha=0.05, delta=0.0)
    assert (few.delta, few.power) == (0.0, math.inf)


def test_power_is_the_chance_of_rejection():
    """By drawing: 20,000 audits of the leak named; 5 sigma is 1.5%."""
    found = audit(Column(laplace), n_runs=60, alpha=0.05)
    chance = 1 / (1 + math.exp(found.power))
    errors = np.random.default_rng(0).binomial(30, chance, (20_000, 2))
    pairs, times = np.unique(errors, axis=0, return_counts=True)
    bounds = [
        epsilon_lower_bound(*pair, 30, delta=DELTA, alpha=0.05)
        for pair in pairs.tolist()
    ]
    rejected = times[np.array(bounds) > found.claim].sum() / 20_000
    assert rejected == pytest.approx(0.8, abs=0.015)


def test_processes_give_what_one_gives():
    """Two processes; the worlds take turns. What went is accepted, with a warning."""
    budget = PrivacyBudget(1.0, DELTA)  # is left aside
    synth = IndependentSynthesizer(
        epsilon=1.0, delta=DELTA, schema=SCHEMA, random_state=0, budget=budget
    )
    settings = {"n_runs": 4, "n_samples": 10, "n_jobs": 2}
    with pytest.warns(FutureWarning, match="folder is deprecated"):
        found = audit_generator(synth, TABLE, CANARY, folder="runs", **settings)
    assert found.n_judged == 2
    with pytest.warns(FutureWarning, match="plot.. is deprecated"):
        assert len(found.plot().containers) == 2
    assert budget.spent == (0.0, 0.0)


class OneMore(Column):
    """Returns as many rows as the table has: the number tells the world."""

    def fit(self, table):
        self.n_rows = len(table)
        return super().fit(table)

    def sample(self, n_rows):
        return super().sample(self.n_rows)


@pytest.mark.parametrize(
    ("estimator", "settings", "match"),
    [
        (OneMore(laplace), {}, r"Got 2 rows .* Wrap"),
        (Column(laplace), {"n_runs": 3}, "n_runs must be an int >= 4"),
        (Column(laplace), {"n_samples": 0}, "n_samples must be an int"),
        (Column(laplace), {"alpha": 1.0}, "alpha must be in"),
        (Column(laplace), {"epsilon": -1}, "epsilon must be at least 0"),
        (Column(laplace), {"delta": 1.0}, "delta must be in"),
        (Column(laplace, epsilon=None), {}, "claim is unknown"),
    ],
)
def test_what_cannot_be_audited(estimator, settings, match):
    with pytest.raises(ValueError, match=match):
        audit(estimator, **settings)
    with pytest.raises(TypeError, match="Got object"):
        audit(object())


@pytest.mark.parametrize("given", [None, [1.0] * 20, [[1.0, 2.0]] * 20, [[1.0]] * 20])
def test_samples_are_tables_or_arrays_of_rows(given):
    class Stranger(Column):
        def sample(self, n_rows):
            return given

    words = rf"a DataFrame with the columns \['x'\]\. Got {type(given).__name__} of"
    if given == [[1.0]] * 20:
        assert audit(Stranger(laplace), n_runs=4).n_judged == 2
    else:
        with pytest.raises(TypeError, match=words):
            audit(Stranger(laplace))


MIXED = pd.DataFrame({"x": [-9.0, -8.0] * 10, "c": ["p", "q"] * 10})
MIXED_CANARY = {"x": 1e6, "c": "once"}


class SeededNoise(IndependentSynthesizer):
    """Noise that `random_state` decides (S6)."""

    def fit(self, X, y=None):
        with insecure_randomness(self.random_state):
            return super().fit(X, y)


def twin_audit(cls, n_runs):
    """Attack a fit that has to measure counts alone."""
    schema = TableSchema(
        {"x": Continuous(-10, 10, scale="linear"), "c": Categorical(["p", "q"])},
        n_rows=20,
    )
    synth = cls(epsilon=1.0, delta=DELTA, schema=schema, random_state=0)
    settings = {"n_runs": n_runs, "n_samples": 200, "alpha": FALSE_ALARM}
    return audit_generator(synth, MIXED, MIXED_CANARY, **settings)


def test_noise_that_random_state_decides_is_caught():
    """All fits of one world are equal, and those of the other world are others.

    The sound fit keeps its claim: a bound above it has probability 1e-6 at most. Of
    120 runs 60 are judged: a perfect attack proves 1.3 at the level of 1e-6.
    """
    sound, broken = twin_audit(IndependentSynthesizer, 30), twin_audit(SeededNoise, 120)
    assert len(np.unique(sound.absent)) > 10
    assert not sound.violated
    assert len(np.unique(broken.absent)) == 1
    assert broken.violated
