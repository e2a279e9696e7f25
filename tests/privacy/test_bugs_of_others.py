"""Privacy bugs that other libraries had in 2025 and 2026: none of them is ours.

Each test names the thread that it is about; most have a case with the bug planted,
which must be caught. Others of these bugs are elsewhere:

- opendp#2922, mass at a threshold that delta leaves out: `test_discovery.py`
- google/dpsynth, a cluster that selects without noise: `test_sources_issue_the_same.py`
- IBM differential-privacy-library#105, a sensitivity from one bound twice; dpmm#18 and
  #24, domains that are those of the data; opacus#571, #813 and #819, batches from the
  number of private rows; PySyft#6956 and #7008, one NaN that spoils all:
  `synthesizers/test_privacy.py`
- smartnoise-sdk#621 and #622, raw values where clipped ones were meant:
  `table/test_domains.py`
"""

from __future__ import annotations

import inspect
import math
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import opendp.measurements
import pandas as pd
import pytest
from _columns import columns, with_holes
from _instances import PLAIN_PRIVATE, PRIVATE
from _releases import watched
from _rules import SCHEMA as RULED
from _rules import TABLE as RULED_TABLE
from scipy.stats import beta
from sklearn.base import clone
from tables import COLUMNS, small_table

from skdpsynth import (
    IndependentSynthesizer,
    MarginalSynthesizer,
    PrivacyBudget,
    TableSchema,
)

# A replay of one pair of tables, draws as OpenDP makes them, and sums of a budget's
# file: no interface has these.
from skdpsynth.audit._worlds import compare, enter
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import (
    PrivacyAccountant,
    _budget,
    _mechanisms,
    confident_gnmax,
    noisy_votes,
)
from skdpsynth.table._layout import ColumnLayout

pytestmark = pytest.mark.usefixtures("short_fits")

bug_or_not = pytest.mark.parametrize("planted", [False, True], ids=["ours", "planted"])
SCHEMA = TableSchema(COLUMNS, target="y")
COUNTED = TableSchema(COLUMNS, target="y", class_counts={"u": 180, "v": 120})


# --- What a selection costs ---------------------------------------------------------


def plurality(accountant, mu, row, n):
    """Confident GNMax between two bins; a row's teacher has voted for either."""
    line = accountant.reserve_gaussian(
        "argmax", mu=mu, sensitivity=math.sqrt(2), count=n
    )
    any_maximum = accountant.reserve_gaussian("max", mu=mu, sensitivity=1, count=n)
    votes = np.tile([50 + row, 51 - row], (n, 1))
    return confident_gnmax(votes, -1e9, any_maximum, line) == 0


def vote(accountant, mu, row, n, noise="gaussian"):
    """A yes or no of 101 teachers."""
    line = accountant.reserve_votes("vote", mu=mu, n_teachers=101, count=n, noise=noise)
    return noisy_votes(np.full(n, 50 + row), 101, line)


def laplace_vote(*arguments):
    return vote(*arguments, noise="laplace")


@pytest.mark.usefixtures("frozen_noise")
@bug_or_not
@pytest.mark.parametrize("choice", [plurality, vote, laplace_vote])
def test_a_noisy_choice_loses_what_it_is_charged(choice, planted):
    """opendp#2911: a noisy maximum that was charged a quarter of its zCDP.

    Of 10^6 choices in each of two worlds, by Clopper and Pearson at 2.5e-7 for each: a
    lower bound on the Renyi divergence of order 2, at most mu^2 by the ledger. The
    noise is frozen; another would be wrong at a rate of at most 5e-7. Planted is a
    charge of a quarter.
    """
    mu, n, counts = 0.15, 10**6, []
    for row in (0, 1):
        accountant = PrivacyAccountant(1e6, 1e-5)
        chosen = choice(accountant, mu * (1 + planted), row, n)
        counts.append(int(chosen.sum()))
    few, many = sorted(counts)
    q, p = beta.isf(2.5e-7, few + 1, n - few), beta.ppf(2.5e-7, many, n - many + 1)
    assert p > q
    renyi = math.log(p * p / q + (1 - p) ** 2 / (1 - q))
    assert (renyi <= mu * mu) != planted


@pytest.mark.parametrize(
    ("holes", "planted"), [(True, False), (False, False), (False, True)]
)
def test_whether_a_value_is_missing_is_in_the_ledger(holes, planted, monkeypatch):
    """opendp#2935, #2936, #2938, #2939: a coercion makes a null whose count is free.

    A row of missing values in columns of all dtypes at once, some of which cannot hold
    one. Planted is a column that is nullable where it has a missing value.
    """
    table = pd.DataFrame(columns())
    row = table.iloc[-1:].apply(with_holes)
    if holes:
        table = table.apply(with_holes)
    larger = pd.concat([row, table], ignore_index=True)
    assert (larger.dtypes == table.dtypes).all()
    assert row.isna().sum(axis=1).item() > 30
    real = ColumnLayout.of

    def by_values(name, series, *args):
        own = real(name, series, *args)
        return replace(own, can_be_missing=bool(series.isna().any()))

    if planted:
        monkeypatch.setattr(ColumnLayout, "of", by_values)
    synthesizer = IndependentSynthesizer(epsilon=50.0, random_state=0)
    first = enter(synthesizer, table, 3, coupled=True)
    assert first.refusal is None
    second = enter(synthesizer, larger, 3, first.releases, coupled=True)
    shifts, findings = compare(first, second, "a row")
    assert planted or max(shifts) > 0.5
    assert (findings == []) != planted


# --- Noise that is issued -----------------------------------------------------------


@contextmanager
def scales_of_draws():
    """Collect the scale of every draw, as OpenDP and numpy are asked for it."""
    drawn = []
    secret = _mechanisms.secret_generator

    def noting(make):
        def made(domain, metric, scale):
            measure = make(domain, metric, scale=scale)
            return lambda values: drawn.append(scale) or measure(values)

        return made

    def generator():
        def normal(mean, std, shape):
            drawn.append(std)
            return secret().normal(mean, std, shape)

        return SimpleNamespace(normal=normal)

    kept = _mechanisms._measurement, _mechanisms._laplace_measurement
    with pytest.MonkeyPatch.context() as patch:
        for name in ("make_gaussian", "make_laplace"):
            own = noting(getattr(opendp.measurements, name))
            patch.setattr(opendp.measurements, name, own)
        patch.setattr(_mechanisms, "secret_generator", generator)
        for one in kept:
            one.cache_clear()
        yield drawn
    for one in kept:
        one.cache_clear()


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


ISSUED = [*product(PLAIN_PRIVATE, ["auto"])]
ISSUED += [(k, 2) for k, s in PLAIN_PRIVATE.items() if "n_iter" in s.get_params()]


@pytest.mark.parametrize(("name", "n_iter"), ISSUED)
def test_issued_noise_is_that_of_the_ledger(name, n_iter):
    """google/dpsynth 8ecc1a1: the sigma of one-way marginals was wrong in MST.

    From the scales that are drawn, not from the ledger's: they add up to the mu of the
    whole fit. One draw of noise is in each release. With declared counts no plan
    follows from noise.
    """
    synth = clone(PLAIN_PRIVATE[name]).set_params(epsilon=0.5, schema=COUNTED)
    if n_iter != "auto":
        synth.set_params(n_iter=n_iter)
    fitted, issued = issued_by(synth, small_table(300))
    for scale, unit, _, line in issued:
        assert scale == pytest.approx(line.noise_std * unit, rel=1e-12)
    assert squared_mu(issued) == pytest.approx(fitted.privacy_report().mu ** 2)


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
OPTIONS += [
    (clone(synth).set_params(schema=SCHEMA, init=init or synth.init), ROWS)
    for synths, inits in ((PRIVATE, [None]), (PLAIN_PRIVATE, ["marginals", "random"]))
    for synth, init in product(synths.values(), inits)
    if "init" in synth.get_params()
]


def kept_by(synthesizer, table):
    """Return the squared mu of issued noise at epsilon 0.01 over that at 10."""
    found = {}
    for epsilon in (0.01, 10.0):
        ready = clone(synthesizer).set_params(epsilon=epsilon, random_state=0)
        _, issued = issued_by(ready, table)
        found[epsilon] = squared_mu(issued)
    return found[0.01] / found[10.0]


def test_no_option_takes_the_noise_away():
    """dataxid-python#19: `privacy_enabled=True` did nothing.

    For all options that touch privacy, by the noise that is issued: sigma at epsilon
    0.01 is at least 50 times that at 10, over all releases together.
    """
    assert len(OPTIONS) >= 20
    for synthesizer, table in OPTIONS:
        assert kept_by(synthesizer, table) < 50**-2, synthesizer


# --- Numbers of rows, and budgets -----------------------------------------------------


def test_delta_does_not_follow_from_the_number_of_rows():
    """NeMo Safe-Synthesizer: delta was 1 / n^1.2 of the private n.

    The default is a constant of all constructors, and of fits of 10 and of 10^5 rows.
    """
    for synth in PLAIN_PRIVATE.values():
        assert inspect.signature(type(synth)).parameters["delta"].default == 1e-5
    for n_rows in (10, 10**5):
        fitted = IndependentSynthesizer(schema=SCHEMA).fit(small_table(n_rows))
        assert fitted.delta_ == fitted.privacy_report().delta == 1e-5


@bug_or_not
def test_spends_below_the_tolerance_add_up(planted, monkeypatch):
    """openmed, pull request 2457: a subnormal spend after exhaustion was lost.

    A budget that is spent takes spends of 1e-13 as long as its rounding of 1e-12
    lasts: ten of them, and none of those after. Planted are sums without them.
    """
    budget, real = PrivacyBudget(1.0, 0.5), _budget._sums

    def rounded(connection):
        epsilon, delta = real(connection)
        return min(epsilon, 1.0), delta

    if planted:
        monkeypatch.setattr(_budget, "_sums", rounded)
    budget.charge(1.0, 1e-9)
    accepted = 0
    for _ in range(60):
        try:
            budget.charge(1e-13, 1e-300)
        except BudgetExceededError:
            continue
        accepted += 1
    spent = math.fsum(budget.charges["epsilon"])
    assert (spent <= 1 + 1e-12) != planted
    assert (accepted <= 10) != planted
