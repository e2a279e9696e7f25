"""Privacy bugs that other libraries had in 2025 and 2026: none of them is ours.

Each test names the thread that it is about. Others of these bugs are elsewhere:

- opendp#2922, mass at a threshold that delta leaves out: `test_discovery.py`
- google/dpsynth, a cluster that selects without noise: `test_sources_issue_the_same.py`
- opendp#2935, #2936, #2938 and #2939, a coercion after which whether a value is missing
  is free: `table/test_convert.py`
- dpmm#18 and #24, domains that are those of the data; opacus#571, #813 and #819,
  batches from the number of private rows; PySyft#6956 and #7008, one NaN that spoils
  all: `synthesizers/test_privacy.py`
"""

import math
import pkgutil
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from _instances import PLAIN_PRIVATE, PRIVATE
from _releases import watched
from _rules import SCHEMA as RULED, TABLE as RULED_TABLE
from scipy.stats import beta
from sklearn.base import clone
from tables import COLUMNS, small_table

from skdpsynth import MarginalSynthesizer, PrivacyBudget, TableSchema
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.privacy.statistics import gnmax, noisy_pair_distances, noisy_votes
from skdpsynth.privacy.testing import observe_releases

pytestmark = pytest.mark.usefixtures("short_fits")

SCHEMA = TableSchema(COLUMNS, target="y")
COUNTED = TableSchema(COLUMNS, target="y", class_counts={"u": 180, "v": 120})


def plurality(accountant, mu, row, n):
    """GNMax between two bins; a row's teacher has voted for either."""
    line = accountant.reserve_gaussian(
        "argmax", mu=mu, sensitivity=math.sqrt(2), count=n
    )
    votes = np.tile([50 + row, 51 - row], (n, 1))
    return gnmax(votes, line) == 0


def vote(accountant, mu, row, n, noise="gaussian"):
    """A yes or no of 101 teachers."""
    line = accountant.reserve_votes("vote", mu=mu, n_teachers=101, count=n, noise=noise)
    return noisy_votes(np.full(n, 50 + row), 101, line)


def better_pair(accountant, mu, row, n):
    """Which of two pairs of columns has the larger noisy distance, and is chosen.

    One release is made; the noise of the others has its size.
    """
    line = accountant.reserve_gaussian("choice", mu=mu, sensitivity=math.sqrt(3))
    codes, expected, seen = np.zeros((49 + row, 3), int), np.full((3, 3), 99), []
    expected[0, 1] = 0
    with observe_releases(seen.append):
        noisy_pair_distances(codes, [1, 1, 1], expected, line)
    noise = np.random.default_rng(row).normal(0, line.noise_std, (n, 2))
    return np.greater(*(seen[0].exact[:2] + np.rint(noise)).T)


CHOICES = [plurality, vote, partial(vote, noise="laplace"), better_pair]


@pytest.mark.usefixtures("frozen_noise")
@pytest.mark.parametrize("choice", CHOICES)
def test_a_noisy_choice_loses_what_it_is_charged(choice):
    """opendp#2911: a noisy maximum that was charged a quarter of its zCDP.

    Of 10^6 choices in each of two worlds, by Clopper and Pearson at 2.5e-7 for each: a
    lower bound on the Renyi divergence of order 2, at most mu^2 by the ledger. The
    noise is frozen; another would be wrong at a rate of at most 5e-7. A charge of a
    quarter is seen.
    """
    mu, n, counts = 0.15, 10**6, []
    for row in (0, 1):
        accountant = PrivacyAccountant(1e6, 1e-5)
        chosen = choice(accountant, mu, row, n)
        counts.append(int(chosen.sum()))
    few, many = sorted(counts)
    q, p = beta.isf(2.5e-7, few + 1, n - few), beta.ppf(2.5e-7, many, n - many + 1)
    assert p > q
    renyi = math.log(p * p / q + (1 - p) ** 2 / (1 - q))
    assert 0.25 * mu * mu < renyi <= mu * mu


@contextmanager
def scales_of_draws():
    """Collect the scale of every draw, as OpenDP and numpy are asked for it."""
    drawn = []

    def noting(draw):
        return lambda scale, **law: drawn.append(scale) or draw(scale, **law)

    def normal(mean, std, shape):
        drawn.append(std)
        return np.random.default_rng().normal(mean, std, shape)

    with pytest.MonkeyPatch.context() as patch:
        mechanisms = "skdpsynth.privacy._mechanisms"
        where = f"{mechanisms}._discrete"
        patch.setattr(where, noting(pkgutil.resolve_name(where)))
        floats = SimpleNamespace(normal=normal)
        patch.setattr(f"{mechanisms}.secret_generator", lambda: floats)
        yield drawn


def issued_by(synthesizer, table):
    """Fit; return the fit, and scale, unit, number and line of all releases."""
    with scales_of_draws() as drawn:
        fitted, seen = watched(synthesizer, table)
    assert len(drawn) == len(seen)
    return fitted, [
        (scale, own.release.unit, own.release.n_releases, own.line)
        for scale, own in zip(drawn, seen, strict=True)
    ]


def squared_mu(issued):
    """Add up (sensitivity / sigma)^2 of issued noise, of the class that pays most.

    Of whole numbers sigma^2 less 4, as `grid_noise_std` proves. A vote tells less than
    the noisy number of votes, and has the mu of its line. In steps on a sample a row
    counts by its chance to be there, which is right in the limit of many.
    """
    sums = {}
    for scale, unit, n, line in issued:
        less = 4.0 if line.kind == "gaussian" else 0.0
        own = line.sampling_rate * line.sensitivity
        each = own**2 / ((scale / unit) ** 2 - less)
        each = line.mu**2 if line.kind.endswith("vote") else each
        sums[line.scope] = sums.get(line.scope, 0.0) + n * each
    return sums.pop(None, 0.0) + max(sums.values(), default=0.0)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("name", PLAIN_PRIVATE)
def test_issued_noise_is_that_of_the_ledger(name, epsilon):
    """google/dpsynth 8ecc1a1: the sigma of one-way marginals was wrong in MST.

    From the scales that are drawn, not from the ledger's: they add up to the mu of the
    whole fit. One draw of noise is in each release. With declared counts no plan
    follows from noise. Of the two budgets one is enough for loops by default.
    """
    synth = type(PLAIN_PRIVATE[name])(epsilon, schema=COUNTED)
    fitted, issued = issued_by(synth, small_table(300))
    for scale, unit, _, line in issued:
        assert scale == pytest.approx(line.noise_std * unit, rel=1e-12)
    assert squared_mu(issued) == pytest.approx(fitted.privacy_report().mu ** 2)
    expected = 10 if epsilon > 1 else 0
    assert getattr(fitted, "n_iter_", expected) == expected


PERSONS = TableSchema(COLUMNS, target="y", privacy_unit="who", max_rows_per_unit=2)
ROWS = small_table(200)
TABLES = {
    "declared": ({"schema": SCHEMA}, ROWS),
    "found": ({"target": "y"}, ROWS),
    "no target": ({}, ROWS),
    "a number": ({"target": "a"}, ROWS),
    "persons": ({"schema": PERSONS}, ROWS.assign(who=np.arange(len(ROWS)) // 3)),
    "rules": ({"schema": RULED}, RULED_TABLE),
    "counts": ({"schema": COUNTED}, ROWS),
    "small delta": ({"schema": SCHEMA, "delta": 1e-12, "order": 1}, ROWS),
    "large delta": ({"target": "y", "delta": 1e-3, "order": 1}, ROWS),
}
OPTIONS = [(MarginalSynthesizer(**options), rows) for options, rows in TABLES.values()]
OPTIONS += [
    (synth.set_params(schema=SCHEMA), ROWS) for synth in map(clone, PRIVATE.values())
]


def test_no_option_takes_the_noise_away():
    """dataxid-python#19: `privacy_enabled=True` did nothing.

    For all options that touch privacy the noise that is issued is worth the claim,
    which is within what was asked for, and that is the default of none.
    """
    assert len(OPTIONS) >= 20
    for synthesizer, table in OPTIONS:
        ready = clone(synthesizer).set_params(epsilon=9.5, random_state=0)
        fitted, issued = issued_by(ready, table)
        report = fitted.privacy_report()
        assert 9.0 < report.epsilon <= 9.5, synthesizer
        assert squared_mu(issued) <= report.mu**2 * (1 + 1e-6), synthesizer


def test_spends_below_the_tolerance_add_up():
    """openmed, pull request 2457: a subnormal spend after exhaustion was lost.

    A budget that is spent takes spends of 1e-13 as long as its rounding of 1e-12
    lasts: ten of them, and none of those after.
    """
    budget = PrivacyBudget(1.0, 0.5)
    budget.charge(1.0, 1e-9)
    accepted = 0
    for _ in range(60):
        try:
            budget.charge(1e-13, 1e-300)
        except BudgetExceededError:
            continue
        accepted += 1
    spent = math.fsum(budget.charges["epsilon"])
    assert spent <= 1 + 1e-12
    assert accepted <= 10
